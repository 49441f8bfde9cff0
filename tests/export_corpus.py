"""Made-up exports of historians: each a known trap, with how it must be read.

A case has the test table as text or bytes (train is the same table, unless it is given)
and either the values that must come out or a part of the sentence that refuses it.
Notices that a case expects are parts of sentences; a case that is read without any is
one that needs no remark.
"""

import gzip
import io
from dataclasses import dataclass, field
from datetime import UTC, datetime

NAN = float("nan")
DAY = "2026-11-15"
EIGHT = datetime(2026, 11, 15, 8, tzinfo=UTC).timestamp()


@dataclass(frozen=True, kw_only=True)
class Case:
    """One export.

    Parameters
    ----------
    name : str
        The trap in a few words.
    test : str or bytes
        The table; text is written as UTF-8.
    train : str or bytes, optional
        By default the same.
    file : str
        Name of the two tables after "train" and "test".
    toml, tags : str
        What plant.toml and tags.csv say; no file if empty.
    lists : dict
        Further files by name.
    values : list of lists, optional
        What test must hold, row by row; nan for a missing cell.
    channels : tuple, optional
        The tags in the order of `values`.
    first : float, optional
        The first time stamp of test.
    labels : list, optional
        The labels of test.
    notices : tuple
        Parts of sentences that must be in the notices.
    refused : str
        A part of the sentence that refuses it; empty if it is read.
    """

    name: str
    test: str | bytes
    train: str | bytes | None = None
    file: str = ".csv"
    toml: str = ""
    tags: str = ""
    lists: dict[str, str | bytes] = field(default_factory=dict)
    values: list[list[float]] | None = None
    channels: tuple[str, ...] = ("A", "B")
    first: float | None = EIGHT
    labels: list[int] | None = None
    notices: tuple[str, ...] = ()
    refused: str = ""


def stamps(n: int = 3, *, step: int = 10, form: str = "%Y-%m-%d %H:%M:%S") -> list[str]:
    """Return time stamps from eight o'clock on."""
    return [
        datetime.fromtimestamp(EIGHT + step * k, UTC).strftime(form) for k in range(n)
    ]


def wide(
    *rows: str,
    header: str = "time,A,B",
    sep: str = ",",
    form: str = "%Y-%m-%d %H:%M:%S",
    before: str = "",
    below: str = "",
) -> str:
    """Return a wide table; each row gets its time stamp."""
    times = stamps(len(rows), form=form)
    lines = [f"{t}{sep}{row}" for t, row in zip(times, rows, strict=True)]
    return before + "\n".join([header, *([below] if below else []), *lines]) + "\n"


def timed(*times: str, header: str = "time,A,B") -> str:
    """Return a wide table with rows 1,10 and 2,20 and so on at some stamps."""
    rows = [f"{time},{k},{10 * k}" for k, time in enumerate(times, start=1)]
    return "\n".join([header, *rows]) + "\n"


def excel(rows: list[list[object]]) -> bytes:
    """Return an Excel file with one sheet."""
    import polars as pl

    buffer = io.BytesIO()
    header, *body = rows
    pl.DataFrame(body, schema=[str(name) for name in header], orient="row").write_excel(
        buffer
    )
    return buffer.getvalue()


PLAIN = wide("1,10", "2,20", "3,30")
ROWS = [[1, 10], [2, 20], [3, 30]]
SEMI = wide("1,5;10", "2,5;20", "3,5;30", header="time;A;B", sep=";")
HALVES = [[1.5, 10], [2.5, 20], [3.5, 30]]
GERMAN = "%d.%m.%Y %H:%M:%S"

FILES = [
    Case(
        name="a comment without a line end at the end",
        test=PLAIN + "# 3 rows",
        values=ROWS,
        notices=("1 line of comment was left out",),
    ),
    Case(name="a plain table", test=PLAIN, values=ROWS),
    Case(name="a byte order mark", test="\ufeff" + PLAIN, values=ROWS),
    Case(name="line ends of Windows", test=PLAIN.replace("\n", "\r\n"), values=ROWS),
    Case(name="line ends of an old Mac", test=PLAIN.replace("\n", "\r"), values=ROWS),
    Case(name="UTF-16 with a mark", test=PLAIN.encode("utf-16"), values=ROWS),
    Case(name="UTF-16 without a mark", test=PLAIN.encode("utf-16-le"), values=ROWS),
    Case(
        name="UTF-16 with the high byte first",
        test=PLAIN.encode("utf-16-be"),
        values=ROWS,
    ),
    Case(
        name="Windows letters in a tag",
        test=PLAIN.replace("A", "Füllstand").encode("cp1252"),
        channels=("Füllstand", "B"),
        values=ROWS,
        notices=("is not UTF-8 text and was read as Windows text (cp1252)",),
    ),
    Case(
        name="Windows letters below the first 64 kB",
        test=wide(*(["1,10"] * 4000), "ungültig,20", "2,30").encode("cp1252"),
        values=[[1, 10]] * 4000 + [[NAN, 20], [2, 30]],
        train=PLAIN,
        notices=("read as Windows text", "own word ('ungültig' 1): "),
        first=None,
    ),
    Case(
        name="packed by gzip",
        test=gzip.compress(PLAIN.encode()),
        file=".csv.gz",
        values=ROWS,
    ),
    Case(name="an ending in capitals", test=PLAIN, file=".CSV", values=ROWS),
    Case(name="an ending of text", test=PLAIN, file=".txt", values=ROWS),
    Case(name="tabs", test=PLAIN.replace(",", "\t"), file=".tsv", values=ROWS),
    Case(name="bars", test=PLAIN.replace(",", "|"), values=ROWS),
    Case(name="semicolons and decimal commas", test=SEMI, values=HALVES),
    Case(
        name="tabs and decimal commas",
        test=SEMI.replace(";", "\t"),
        file=".txt",
        values=HALVES,
    ),
    Case(name="a line that states the separator", test="sep=;\n" + SEMI, values=HALVES),
    Case(name="an empty file", test="", refused="is empty"),
    Case(name="only a header", test="time,A,B\n", refused="has a header but no rows"),
    Case(
        name="no header",
        test=PLAIN.split("\n", 1)[1],
        refused="line 1 must hold the names of the columns",
    ),
    Case(
        name="an Excel file that is called CSV",
        test=excel([["time", "A"], ["x", 1]]),
        refused="begins like an Excel, zip or picture file",
    ),
    Case(
        name="a block of NUL bytes",
        test=PLAIN.encode() + b"\0" * 512,
        refused="holds NUL bytes",
    ),
    Case(
        name="cut in the middle of a row",
        test=PLAIN.rstrip("\n").rpartition(",")[0],
        refused="ends in the middle of a row, after 2 of 3 columns",
    ),
    Case(
        name="a damaged gzip file",
        test=gzip.compress(PLAIN.encode())[:-12],
        file=".csv.gz",
        refused="cannot be unpacked",
    ),
    Case(
        name="a row with too many cells",
        test=PLAIN + f"{DAY} 08:00:30,4,40,400\n",
        refused="has more cells than the header has columns",
    ),
]
HEADERS = [
    Case(
        name="numbers in brackets are no units",
        test=wide("1,10", "2,20", "3,30", header="time,LIT [1],LIT [2]"),
        values=ROWS,
        channels=("LIT [1]", "LIT [2]"),
    ),
    Case(
        name="another unit in test than in train",
        train=wide("1,10", "2,20", "3,30", header="time,A [mm],B"),
        test=wide("1,10", "2,20", "3,30", header="time,A [m],B"),
        refused="A is in mm in train and in m in test",
    ),
    *(
        Case(
            name=f"labels called {label}",
            test=wide("1,0", "2,0", "3,1", header=f"time,A,{label}"),
            refused=f"column '{label}' looks like labels",
        )
        for label in ("class", "Ground Truth", "is_malicious", "Outlier")
    ),
    Case(
        name="German names, date and time in two columns",
        test=wide(
            *("08:00:00;1,5;10", "08:00:10;2,5;20", "08:00:20;3,5;30"),
            header="Datum;Uhrzeit;A;B",
            sep=";",
            form="%d.%m.%Y",
        ),
        values=HALVES,
    ),
    Case(
        name="comments before the header",
        test="# exported by A. Engineer\n// plant 7\n" + PLAIN,
        values=ROWS,
    ),
    Case(
        name="a preamble of a historian",
        test="Report: Tank farm\nCreated,15 Nov 2026\n\n" + PLAIN,
        values=ROWS,
        notices=("2 lines before the header in line 4 were left out",),
    ),
    Case(
        name="a row of units",
        test=wide("1,10", "2,20", "3,30", below=",mm,m3/h"),
        values=ROWS,
        notices=("line 2 was taken as the units of the columns: mm and m3/h",),
    ),
    Case(
        name="a row of descriptions and one of units",
        test=wide(
            "1,10", "2,20", "3,30", below="Time,Level of tank,Flow in\n,[mm],[m3/h]"
        ),
        values=ROWS,
        notices=("line 3 was taken as the units", "1 line of text below the header"),
    ),
    Case(
        name="units in the header",
        test=PLAIN.replace("A,B", "A [mm],B (m3/h)"),
        values=ROWS,
    ),
    Case(
        name="tags that begin with digits",
        test=PLAIN.replace("A,B", "10TI001.PV,1_AIT_001"),
        channels=("10TI001.PV", "1_AIT_001"),
        values=ROWS,
    ),
    Case(
        name="brackets that are no unit",
        test=PLAIN.replace("A,B", "P101 (A),P101 (B)"),
        channels=("P101 (A)", "P101 (B)"),
        values=ROWS,
    ),
    Case(name="quoted headers", test=PLAIN.replace("A,B", '"A"," B "'), values=ROWS),
    Case(
        name="quotation marks in a tag",
        test=PLAIN.replace("A,B", '"A ""main""",B'),
        channels=('A "main"', "B"),
        values=ROWS,
    ),
    Case(
        name="a separator in a quoted tag",
        test=PLAIN.replace("A,B", '"A, main",B'),
        channels=("A, main", "B"),
        values=ROWS,
    ),
    Case(
        name="trailing separators",
        test=PLAIN.replace("\n", ",\n"),
        values=ROWS,
    ),
    Case(
        name="trailing separators in the rows alone",
        test="time,A,B\n" + PLAIN.split("\n", 1)[1].replace("\n", ",\n"),
        values=ROWS,
    ),
    Case(
        name="blank lines within",
        test=PLAIN.replace("2,20\n", "2,20\n\n") + "\n\n",
        values=ROWS,
    ),
    Case(
        name="two exports in one file, each with its header",
        test=PLAIN + "time,A,B\n" + f"{DAY} 08:00:30,4,40\n",
        values=[*ROWS, [4, 40]],
        notices=("the header stands 2 times in it",),
    ),
    Case(
        name="a byte order mark in the middle",
        test=PLAIN + "\ufefftime,A,B\n" + f"{DAY} 08:00:30,4,40\n",
        values=[*ROWS, [4, 40]],
        notices=("the header stands 2 times in it",),
    ),
    Case(
        name="another header in the middle",
        test=PLAIN + "time,B,A\n" + f"{DAY} 08:00:30,4,40\n",
        refused="line 5 holds another header than line 1",
    ),
    Case(
        name="a column twice",
        test=PLAIN.replace("A,B", "A,A"),
        refused="has two columns called 'A'",
    ),
    Case(
        name="tags that differ by case",
        test=PLAIN.replace("A,B", "a,A"),
        channels=("a", "A"),
        values=ROWS,
    ),
    Case(
        name="the index of a data frame",
        test="\n".join(
            ("" if k == 0 else str(k - 1)) + "," + line
            for k, line in enumerate(PLAIN.splitlines())
        ),
        values=ROWS,
        notices=("column 1, which has no name, counts the rows and was left out",),
    ),
    Case(
        name="a column without a name",
        test=PLAIN.replace("A,B", "A,"),
        refused="column 3 has no name but holds 10",
    ),
    Case(
        name="a counter of rows",
        test="\n".join(
            ("id," if k == 0 else f"{k},") + line
            for k, line in enumerate(PLAIN.splitlines())
        ),
        values=ROWS,
        notices=("id holds no reading and was left out",),
    ),
    Case(
        name="time is not the first column",
        test="\n".join(
            ",".join([*line.split(",")[1:], line.split(",")[0]])
            for line in PLAIN.splitlines()
        ),
        values=ROWS,
    ),
    Case(
        name="a comment in the middle",
        test=PLAIN.replace(f"{DAY} 08:00:20", f"# shift changed\n{DAY} 08:00:20"),
        values=ROWS,
        notices=("1 line of comment was left out",),
    ),
    Case(
        name="a row of totals at the end",
        test=PLAIN + "Total,6,60\n",
        refused="line 5 is 'Total'",
    ),
    Case(
        name="a footer of the database",
        test=PLAIN + "(3 rows affected)\n",
        refused="line 5 is '(3 rows affected)'",
    ),
    Case(
        name="columns that the plant names itself",
        test=PLAIN.replace("time,A,B", "when,A,B,remark")
        .replace("0\n", "0,x\n")
        .replace("A,B,remark\n", "A,B,remark\n"),
        toml='[columns]\ntime = "when"\nignore = ["remark"]\n',
        values=ROWS,
    ),
    Case(
        name="a named column that is not there",
        test=PLAIN,
        toml='[columns]\ntime = "when"\n',
        refused="has no column 'when', which [columns] of plant.toml names as time",
    ),
]
NUMBERS = [
    Case(
        name="decimal commas in quotes",
        test=wide('"1,5",10', '"2,5",20', '"3,5",30'),
        values=HALVES,
    ),
    Case(
        name="points for thousands and commas for decimals",
        test=wide("1.234,5;10", "999,5;20", "2,5;30", header="time;A;B", sep=";"),
        values=[[1234.5, 10], [999.5, 20], [2.5, 30]],
    ),
    Case(
        name="commas for thousands and points for decimals",
        test=wide('"1,234.5",10', "999.5,20", "2.5,30"),
        values=[[1234.5, 10], [999.5, 20], [2.5, 30]],
    ),
    Case(
        name="whole thousands among decimal points",
        test=wide('"1,234",10', "999.5,20", "2.5,30"),
        values=[[1234, 10], [999.5, 20], [2.5, 30]],
    ),
    Case(
        name="a comma that can be either",
        test=wide('"1,234",10', '"2,345",20', "3,30"),
        refused="'1,234', which can be a decimal comma or a thousands separator",
    ),
    Case(
        name="a comma that can be either, with semicolons",
        test=wide("1,234;10", "2,345;20", "3,456;30", header="time;A;B", sep=";"),
        refused="which can be a decimal comma or a thousands separator",
    ),
    Case(
        name="a comma that another column decides",
        test=wide("1,234;0,5", "2,345;1,5", "3,456;2,5", header="time;A;B", sep=";"),
        values=[[1.234, 0.5], [2.345, 1.5], [3.456, 2.5]],
    ),
    Case(
        name="points that can be thousands beside decimal commas",
        test=wide("1.234;0,5", "2.345;1,5", "3.456;2,5", header="time;A;B", sep=";"),
        refused="'1.234', which can be a decimal point or a thousands separator",
    ),
    Case(
        name="decimal points in one column and commas in another",
        test=wide("1.25;0,5", "2.345;1,5", "3.456;2,5", header="time;A;B", sep=";"),
        values=[[1.25, 0.5], [2.345, 1.5], [3.456, 2.5]],
    ),
    Case(
        name="decimal commas in a table of commas",
        test=wide("1,5,2,5", "2,5,3,5", "3,5,4,5"),
        refused="line 2 has 5 cells and the names above it are 3: if numbers have",
    ),
    Case(
        name="decimal points and commas in one column",
        test=wide("1.5;10", "2,5;20", "3,5;30", header="time;A;B", sep=";"),
        refused="has decimal points and decimal commas, such as '1.5' and '2,5'",
    ),
    Case(
        name="blanks for thousands",
        test=wide("1 234.5,10", "999.5,20", "2.5,30"),
        values=[[1234.5, 10], [999.5, 20], [2.5, 30]],
    ),
    Case(
        name="powers of ten with decimal commas",
        test=wide("1,5e3;10", "2,5E-1;20", "-1,25e+2;30", header="time;A;B", sep=";"),
        values=[[1500, 10], [0.25, 20], [-125, 30]],
    ),
    Case(
        name="negative zero and a plus sign",
        test=wide("-0,10", "+2.5,20", "-0.0,30"),
        values=[[0, 10], [2.5, 20], [0, 30]],
    ),
    Case(
        name="percent signs",
        test=wide("45 %,10", "46 %,20", "47 %,30"),
        values=[[45, 10], [46, 20], [47, 30]],
        notices=("a unit behind each number was left out: A (%)",),
    ),
    Case(
        name="units behind the numbers",
        test=wide("3.2 bar,10", "3.3 bar,20", "3.4 bar,30"),
        values=[[3.2, 10], [3.3, 20], [3.4, 30]],
        notices=("a unit behind each number was left out: A (bar)",),
    ),
    Case(
        name="two units in one column",
        test=wide("3.2 bar,10", "330 kPa,20", "3.4 bar,30"),
        refused="column 'A' holds no number at all",
    ),
    Case(
        name="texts of PI among the numbers",
        test=wide("1,10", "I/O Timeout,20", "Bad Input,30", "4,Pt Created"),
        values=[[1, 10], [NAN, 20], [NAN, 30], [4, NAN]],
        notices=(
            "3 cells of bad quality by the source's own word ('Bad Input' 1",
            "'Pt Created' 1): A (2) and B (1)",
        ),
    ),
    Case(
        name="signs for nothing",
        test=wide("1,10", "#N/A,null", "-,--", "4,40"),
        values=[[1, 10], [1, 10], [1, 10], [4, 40]],
        notices=("4 cells without a reading: the last value was held",),
    ),
    Case(
        name="codes that mean no value",
        test=wide("1,10", "-9999,20", "3,32767"),
        toml="missing_values = [-9999, 32767]\n",
        values=[[1, 10], [NAN, 20], [3, NAN]],
        notices=("2 cells of bad quality by the source's own word: A (1) and B (1)",),
    ),
    Case(
        name="a tag that is empty throughout",
        test=wide("1,", "2,", "3,"),
        channels=("A",),
        values=[[1], [2], [3]],
        notices=("B is empty in all tables: left out",),
    ),
    Case(
        name="a tag that is empty in test alone",
        train=PLAIN,
        test=wide("1,", "2,", "3,"),
        refused="column 'B' holds no number at all",
    ),
    Case(
        name="infinity in words",
        test=wide("1,10", "inf,20", "3,30"),
        values=[[1, 10], [float("inf"), 20], [3, 30]],
    ),
]
WORDS = [
    Case(
        name="on and off in train, open and closed in test",
        train=wide("1,ON", "2,OFF", "3,ON"),
        test=wide("1,OPEN", "2,CLOSED", "3,OPEN"),
        refused="tag 'B' has other words in each table, OFF and ON in train.csv but "
        "CLOSED and OPEN in test.csv",
    ),
    Case(
        name="stopped in all of train, running in all of test",
        train=wide("1,STOPPED", "2,STOPPED", "3,STOPPED"),
        test=wide("1,RUNNING", "2,RUNNING", "3,RUNNING"),
        values=[[1, 1], [2, 1], [3, 1]],
        notices=("STOPPED = 0, RUNNING = 1 in B",),
    ),
    Case(
        name="auf and zu",
        test=wide("1,AUF", "2,ZU", "3,AUF"),
        values=[[1, 1], [2, 0], [3, 1]],
        notices=("ZU = 0, AUF = 1 in B",),
    ),
    Case(
        name="open and closed",
        test=wide("1,OPEN", "2,CLOSED", "3,OPEN"),
        values=[[1, 1], [2, 0], [3, 1]],
        notices=("Words were read as numbers: CLOSED = 0, OPEN = 1 in B",),
    ),
    Case(
        name="on and off in two spellings",
        test=wide("1,On", "2,OFF", "3,on"),
        values=[[1, 1], [2, 0], [3, 1]],
        notices=("OFF = 0, On = 1 in B",),
    ),
    Case(
        name="running, stopped and a third state",
        test=wide("1,RUN", "2,STOPPED", "3,TRIPPING"),
        values=[[1, 1], [2, 0], [3, 2]],
        notices=("STOPPED = 0, RUN = 1, TRIPPING = 2 in B",),
    ),
    Case(
        name="automatic and manual",
        test=wide("1,AUTO", "2,MAN", "3,AUTO"),
        values=[[1, 1], [2, 0], [3, 1]],
        notices=("MAN = 0, AUTO = 1 in B",),
    ),
    Case(
        name="true and false",
        test=wide("1,TRUE", "2,FALSE", "3,TRUE"),
        values=[[1, 1], [2, 0], [3, 1]],
        notices=("false = 0, true = 1 in B",),
    ),
    Case(
        name="alarm and normal",
        test=wide("1,NORMAL", "2,ALARM", "3,NORMAL"),
        values=[[1, 0], [2, 1], [3, 0]],
        notices=("NORMAL = 0, ALARM = 1 in B",),
    ),
    Case(
        name="a word that only train has",
        train=wide("1,OPEN", "2,CLOSED", "3,AJAR"),
        test=wide("1,CLOSED", "2,OPEN", "3,CLOSED"),
        values=[[1, 0], [2, 1], [3, 0]],
        notices=("CLOSED = 0, OPEN = 1, AJAR = 2 in B",),
    ),
    Case(
        name="a word for no value among states",
        test=wide("1,OPEN", "2,Bad Input", "3,CLOSED"),
        values=[[1, 1], [2, NAN], [3, 0]],
        notices=("CLOSED = 0, OPEN = 1 in B", "own word ('Bad Input' 1): B (1)"),
    ),
    Case(
        name="words in train and numbers in test",
        train=wide("1,OPEN", "2,CLOSED", "3,OPEN"),
        test=wide("1,1", "2,0", "3,1"),
        refused="'B' holds words such as 'CLOSED' in train.csv and numbers in test.csv",
    ),
    Case(
        name="remarks of the shift",
        test=wide(*(f"{k},remark {k}" for k in range(13))),
        refused="column 'B' holds no number at all",
    ),
    Case(
        name="dates in a column of a tag",
        test=wide("1,2026-11-14", "2,2026-11-14", "3,2026-11-15"),
        refused="column 'B' holds no number at all",
    ),
    Case(
        name="labels in words as SWaT spells them",
        test=wide("1,Normal", "2,A ttack", "3,Attack", header="time,A,Normal/Attack"),
        train=wide("1,Normal", "2,Normal", "3,Normal", header="time,A,Normal/Attack"),
        channels=("A",),
        values=[[1], [2], [3]],
        labels=[0, 1, 1],
        notices=("labels were read as A ttack = 1, Attack = 1, Normal = 0",),
    ),
    Case(
        name="labels of true and false",
        test=wide("1,False", "2,True", "3,False", header="time,A,label"),
        train=wide("1,False", "2,False", "3,False", header="time,A,label"),
        channels=("A",),
        values=[[1], [2], [3]],
        labels=[0, 1, 0],
    ),
    Case(
        name="a column of labels in train under another name",
        test=wide("1,10,0", "2,20,1", "3,30,0", header="time,A,B,attack"),
        train=wide("1,10,0", "2,20,0", "3,30,0", header="time,A,B,attack"),
        values=ROWS,
        labels=[0, 1, 0],
        notices=("train.csv: column 'attack' was read as the labels",),
    ),
    Case(
        name="a column that looks like labels",
        test=wide("1,10,0", "2,20,1", "3,30,0", header="time,A,B,attack (1 = yes)"),
        refused="column 'attack (1 = yes)' looks like labels",
    ),
    Case(
        name="labels of WADI, 1 for normal",
        test=wide("1,1", "2,-1", "3,1", header="time,A,label"),
        train=wide("1,0", "2,0", "3,0", header="time,A,label"),
        refused="holds 1 and -1 and no 0",
    ),
]
TIMES = [
    Case(
        name="seconds since 1970",
        test=timed(*(str(int(EIGHT) + 10 * k) for k in range(3))),
        values=ROWS,
    ),
    Case(
        name="milliseconds",
        test=timed(*(str((int(EIGHT) + 10 * k) * 10**3) for k in range(3))),
        values=ROWS,
    ),
    Case(
        name="microseconds",
        test=timed(*(str((int(EIGHT) + 10 * k) * 10**6) for k in range(3))),
        values=ROWS,
    ),
    Case(
        name="nanoseconds",
        test=timed(*(str((int(EIGHT) + 10 * k) * 10**9) for k in range(3))),
        values=ROWS,
    ),
    Case(
        name="days of Excel",
        test=timed(*(f"{25569 + (EIGHT + 10 * k) / 86400:.9f}" for k in range(3))),
        values=ROWS,
        notices=("its time was read as days of Excel",),
    ),
    Case(
        name="days of Excel with five decimals",
        test=timed("46341.33333", "46341.33345", "46341.33356", "46341.33368"),
        values=[*ROWS, [4, 40]],
        notices=("its time was read as days of Excel",),
    ),
    Case(
        name="days of Excel with decimal commas",
        test=timed(*(f"{25569 + (EIGHT + 10 * k) / 86400:.9f}" for k in range(3)))
        .replace(",", ";")
        .replace(".", ","),
        values=ROWS,
        notices=("its time was read as days of Excel",),
    ),
    Case(
        name="fractions that can be days of Excel or seconds",
        test=timed("45000.5", "45001.0", "45001.5"),
        refused="which can be days of Excel or seconds",
    ),
    Case(
        name="seconds, as the plant states",
        test=timed("45000.5", "45001.0", "45001.5"),
        toml='time_format = "s"\n',
        first=45000.5,
        values=ROWS,
    ),
    Case(
        name="dates in digits",
        test=timed(*stamps(form="%Y%m%d%H%M%S")),
        values=ROWS,
        notices=("its time was read as dates in digits",),
    ),
    Case(
        name="ticks of Windows",
        test=timed("134000000000000000", "134000000100000000", "134000000200000000"),
        refused="must hold times of 1991 to 2100",
    ),
    Case(
        name="the day first, above 12",
        test=timed(*stamps(form="%d/%m/%Y %H:%M:%S")),
        values=ROWS,
        notices=("its dates were read with the day first",),
    ),
    Case(
        name="the month first, the day above 12",
        test=timed(*stamps(form="%m/%d/%Y %I:%M:%S %p")),
        values=ROWS,
        notices=("its dates were read with the month first",),
    ),
    Case(
        name="day and month that cannot be told apart",
        test=timed("05/11/2026 08:00:00", "05/11/2026 08:00:10", "05/11/2026 08:00:20"),
        refused="or '%m/%d/%Y %H:%M:%S'",
    ),
    Case(
        name="day and month that cannot be told apart, with AM",
        test=timed("05/11/2026 8:00 AM", "05/11/2026 8:01 AM", "05/11/2026 8:02 AM"),
        refused="give time_format in plant.toml, '%d/%m/%Y %I:%M %p' or '%m/%d/%Y %I",
    ),
    Case(
        name="the day first, as the plant states",
        test=timed("05/11/2026 08:00:00", "05/11/2026 08:00:10", "05/11/2026 08:00:20"),
        toml='time_format = "%d/%m/%Y %H:%M:%S"\n',
        first=EIGHT - 10 * 86400,
        values=ROWS,
    ),
    Case(
        name="both above 12 in one file",
        test=timed("15/11/2026 08:00:00", "11/16/2026 08:00:10", "17/11/2026 08:00:20"),
        refused="line 3 is '11/16/2026 08:00:10'",
    ),
    Case(
        name="dates of Germany with semicolons",
        test=wide(
            "1,5;10", "2,5;20", "3,5;30", header="Zeit;A;B", sep=";", form=GERMAN
        ),
        toml='[columns]\ntime = "Zeit"\n',
        values=HALVES,
        notices=("its dates were read with the day first",),
    ),
    Case(
        name="months by name, as PI writes them",
        test=timed(*stamps(form="%d-%b-%y %H:%M:%S")),
        values=ROWS,
    ),
    Case(
        name="a year of two digits",
        test=timed("15/11/26 08:00:00", "15/11/26 08:00:10", "15/11/26 08:00:20"),
        refused="a year of two digits can be a day",
    ),
    Case(
        name="a year that loses two digits in the middle",
        test=timed("15/11/2026 08:00:00", "15/11/26 08:00:10", "15/11/2026 08:00:20"),
        refused="line 3 is '15/11/26 08:00:10'",
    ),
    Case(
        name="slashes with the year first",
        test=timed(*stamps(form="%Y/%m/%d %H:%M:%S")),
        values=ROWS,
    ),
    Case(
        name="a comma before the milliseconds",
        test=timed(*(f'"{s},000"' for s in stamps())),
        values=ROWS,
    ),
    Case(
        name="AM and PM", test=timed(*stamps(form="%Y-%m-%d %I:%M:%S %p")), values=ROWS
    ),
    Case(
        name="date and time in two columns",
        test=timed(*stamps(form="%Y-%m-%d,%H:%M:%S"), header="Date,Time,A,B"),
        values=ROWS,
    ),
    Case(
        name="date and time of day in German",
        test=timed(*stamps(form="%d.%m.%Y,%H:%M:%S"), header="Datum,Uhrzeit,A,B"),
        toml='[columns]\ntime = ["Datum", "Uhrzeit"]\n',
        values=ROWS,
        notices=("its dates were read with the day first",),
    ),
    Case(
        name="local time and UTC",
        test=timed(
            *stamps(form="%Y-%m-%d %H:%M:%S,%Y-%m-%dT%H:%M:%SZ"),
            header="Timestamp,TimestampUTC,A,B",
        ),
        values=ROWS,
        notices=("time was read from Timestamp, not from TimestampUTC",),
    ),
    Case(
        name="another form in train than in test",
        train=timed(*stamps(form="%d.%m.%Y %H:%M"))
        .replace("08:00,2", "08:01,2")
        .replace("08:00,3", "08:02,3"),
        test=PLAIN,
        values=ROWS,
        notices=("train.csv: its dates were read with the day first",),
    ),
    Case(
        name="two forms in one file",
        test=timed(stamps()[0], "15.11.2026 08:00:10", stamps()[2]),
        refused="line 3 is '15.11.2026 08:00:10'",
    ),
    Case(
        name="the year 1900 of an empty cell",
        test=timed("00/01/1900 00:00:00", *stamps(form="%d/%m/%Y %H:%M:%S")[:2]),
        refused="line 2 is '00/01/1900 00:00:00'",
    ),
    Case(
        name="24 o'clock",
        test=timed(stamps()[0], f"{DAY} 24:00:00", f"{DAY} 08:00:20"),
        refused=f"line 3 is '{DAY} 24:00:00'",
    ),
    Case(
        name="a zone by its letters",
        test=timed(*(f"{s} CET" for s in stamps())),
        refused="line 2 is '2026-11-15 08:00:00 CET'",
    ),
    Case(
        name="UTC by its letters",
        test=timed(*(f"{s} UTC" for s in stamps())),
        values=ROWS,
    ),
    Case(
        name="a stamp twice",
        test=timed(stamps()[0], stamps()[1], stamps()[1], stamps()[2]),
        values=[[1, 10], [4, 40]],
        notices=("the clock went back or repeated itself",),
    ),
    Case(
        name="the hour that comes twice, zone stated",
        test=timed(
            *(
                f"2026-10-25 0{h}:{m:02d}:00"
                for h, m in ((2, 0), (2, 30), (2, 0), (2, 30), (3, 0))
            )
        ),
        toml='timezone = "Europe/Berlin"\nhold_s = 7200\n',
        first=datetime(2026, 10, 25, 0, tzinfo=UTC).timestamp(),
        values=[[k, 10 * k] for k in range(1, 6)],
    ),
    Case(
        name="the hour that comes twice, no zone",
        test=timed(
            *(
                f"2026-10-25 0{h}:{m:02d}:00"
                for h, m in ((2, 0), (2, 30), (2, 0), (2, 30), (3, 0))
            )
        ),
        values=[[1, 10], [2, 20], [5, 50]],
        first=1_792_893_600.0,
        notices=("2 rows were left out from 2026-10-25 02:00:00 on (line 4)",),
    ),
    Case(
        name="the hour that is left out, zone stated",
        test=timed("2026-03-29 01:30:00", "2026-03-29 02:30:00", "2026-03-29 03:30:00"),
        toml='timezone = "Europe/Berlin"\n',
        values=[[1, 10], [3, 30]],
        first=1_774_744_200.0,
        notices=("1 row was left out from 2026-03-29 02:30:00 on (line 3)",),
    ),
    Case(
        name="a row without a time",
        test=PLAIN.replace(f"{DAY} 08:00:10", ""),
        refused="line 3 has no time",
    ),
]
NOW, SOON = stamps(2, form="%Y-%m-%dT%H:%M:%SZ")
LONG = [
    Case(
        name="long, with a tag of labels",
        test="tag,time,value\nA,2026-11-15 08:00:00,1\n"
        "is_attack,2026-11-15 08:00:00,0\n",
        tags="tag,role\nA,sensor\n",
        refused="has a tag called 'is_attack': write the labels",
    ),
    Case(
        name="a long table with words in train, a long one with numbers in test",
        train="tag,time,value\nA,2026-11-15 08:00:00,ON\nA,2026-11-15 08:00:10,OFF\n",
        test="tag,time,value\nA,2026-11-16 08:00:00,1\nA,2026-11-16 08:00:10,0\n",
        refused="holds words such as 'OFF' in train.csv and numbers in test.csv",
    ),
    Case(
        name="Wonderware",
        test="DateTime,TagName,Value,vValue,Quality,QualityDetail,OPCQuality\n"
        + "".join(
            f"{s}.0000000,{tag},{v},{v},0,192,{192 if v < 3 else 0}\n"
            for v, s in enumerate(stamps(), start=1)
            for tag in "AB"
        ),
        values=[[1, 1], [2, 2]],
        notices=("2 of 6 readings are of bad quality (192 and more is good (OPC))",),
    ),
    Case(
        name="Ignition",
        test="tagpath,intvalue,floatvalue,stringvalue,dataintegrity,t_stamp\n"
        + "".join(
            f"{reading},192,{(int(EIGHT) + 10 * v) * 1000}\n"
            for v in range(3)
            for reading in (f"A,,{v}.5,", f"B,{v},,")
        ),
        values=[[0.5, 0], [1.5, 1], [2.5, 2]],
    ),
    Case(
        name="InfluxDB, annotated",
        test="#group,false,false,false,false,true,true\n"
        "#datatype,string,long,dateTime:RFC3339,double,string,string\n"
        "#default,_result,,,,,\n"
        ",result,table,_time,_value,_field,_measurement\n"
        + "".join(
            f",,{k},{s},{v},{field},plant\n"
            for k, field in enumerate("AB")
            for v, s in enumerate(stamps(form="%Y-%m-%dT%H:%M:%SZ"), start=1)
        ),
        values=[[1, 1], [2, 2], [3, 3]],
    ),
    Case(
        name="InfluxDB with two hosts",
        test="_time,_value,_field,_measurement,host\n"
        + "".join(
            f"{s},{v},A,plant,{h}\n" for h in "xy" for v, s in enumerate(stamps())
        ),
        refused="tag 'A' has several series, which differ in column 'host'",
    ),
    Case(
        name="WinCC",
        test='"VarName";"TimeString";"VarValue";"Validity";"Time_ms"\n'
        + "".join(
            f'"{tag}";"{s}";{v},5;1;46341333333,333\n'
            for v, s in enumerate(stamps(form=GERMAN), start=1)
            for tag in "AB"
        )
        + '"$RT_OFF$";"15.11.2026 08:00:20";0;2;46341333333,333\n',
        values=[[1.5, 1.5], [2.5, 2.5], [3.5, 3.5]],
        notices=("1 row of the historian's own tag $RT_OFF$: left out",),
    ),
    Case(
        name="PI with words for one tag",
        test="Tag,Timestamp,Value\n"
        + "".join(
            f"A,{s},{v}\nB,{s},{w}\n"
            for v, w in enumerate(("Open", "No Data", "Closed"))
            for s in stamps()[v : v + 1]
        ),
        values=[[0, 1], [1, NAN], [2, 0]],
        notices=("Closed = 0, Open = 1 in B", "own word ('No Data' 1)"),
    ),
    Case(
        name="readings without a column of tags",
        test="Timestamp,Value,UOM\n"
        + "".join(f"{s},{v},m3/h\n" for v, s in enumerate(stamps())),
        channels=("Value",),
        values=[[0], [1], [2]],
        notices=("UOM holds no reading and was left out",),
    ),
    Case(
        name="status codes of OPC UA",
        test="tag,SourceTimestamp,Value,StatusCode\n"
        + "".join(
            f"{tag},{s},{v},{0 if v < 2 else 2150891520}\n"
            for v, s in enumerate(stamps())
            for tag in "AB"
        ),
        values=[[0, 0], [1, 1]],
        notices=("2 of 6 readings are of bad quality (0 is good (OPC UA))",),
    ),
    Case(
        name="changes only, held as the plant states",
        test="tag,time,value\n"
        + "".join(f"A,{s},{k}\n" for k, s in enumerate(stamps(13)))
        + f"B,{stamps()[0]},1\n",
        tags="tag,role\nA,sensor\nB,actuator\n",
        toml='[hold_s]\ndefault = 30\nactuator = "forever"\n',
        values=[[k, 1] for k in range(13)],
        notices=("got one row every 10 s",),
    ),
    Case(
        name="a held value that a bad reading ends",
        test="tag,time,value,quality\n"
        + "".join(f"A,{s},{k},Good\n" for k, s in enumerate(stamps(13)))
        + f"B,{stamps()[0]},1,Good\nB,{stamps(10)[9]},0,Bad\n",
        toml='step_s = 10\n[hold_s]\nB = "forever"\n',
        values=[[k, 1 if k < 9 else NAN] for k in range(13)],
        notices=("1 of 15 readings are of bad quality",),
    ),
    Case(
        name="a wide export of changes, held until bad text ends it",
        test=wide(
            *(
                f"{k},{'OPEN' if k == 0 else 'Bad Input' if k == 9 else ''}"
                for k in range(12)
            )
        ),
        toml='[hold_s]\nB = "forever"\n',
        values=[[k, 1 if k < 9 else NAN] for k in range(12)],
        notices=("OPEN = 1 in B", "own word ('Bad Input' 1)"),
    ),
    Case(
        name="a tag that begins late",
        test="tag,time,value\n"
        + "".join(f"A,{s},{k}\n" for k, s in enumerate(stamps()))
        + f"B,{stamps()[2]},7\n",
        values=[[0, NAN], [1, NAN], [2, 7]],
        notices=("2 cells without a value",),
    ),
    Case(
        name="a name in hold_s that is no tag",
        test="tag,time,value\n" + "".join(f"A,{s},1\nB,{s},2\n" for s in stamps()),
        toml="[hold_s]\nactuators = 60\n",
        refused="names 'actuators', which is neither a role nor a tag; did you mean",
    ),
    Case(
        name="columns of quality beside each tag",
        test=wide(
            "1,Good,10,Good",
            "2,Bad,20,Good",
            "3,Good,30,Good",
            header="time,A,A quality,B,B quality",
        ),
        values=[[1, 10], [NAN, 20], [3, 30]],
        notices=("1 cell of bad quality by the source's own word: A (1)",),
    ),
]
TEN = [f"{k},{10 * k}" for k in range(1, 7)]
TEN_ROWS = [[k, 10 * k] for k in range(1, 7)]
BEFORE = PLAIN.replace(DAY, "2026-11-01")
INCIDENTS = [
    Case(
        name="incidents in Excel",
        train=BEFORE,
        test=wide(*TEN),
        lists={
            "incidents.xlsx": excel(
                [
                    ["id", "start", "end", "tags"],
                    ["7", f"{DAY} 08:00:20", f"{DAY} 08:00:30", "A"],
                ]
            )
        },
        values=TEN_ROWS,
        labels=[0, 0, 1, 1, 0, 0],
    ),
    Case(
        name="an incident without an end",
        train=BEFORE,
        test=wide(*TEN),
        lists={"incidents.csv": f"id,start,end\n7,{DAY} 08:00:30,\n"},
        labels=[0, 0, 0, 1, 1, 1],
        notices=("7 has no end and was taken to last until the end of the record",),
    ),
    Case(
        name="an incident with a duration",
        train=BEFORE,
        test=wide(*TEN),
        lists={"incidents.csv": f"id,start,duration_min\n7,{DAY} 08:00:10,0.5\n"},
        labels=[0, 1, 1, 1, 1, 0],
    ),
    Case(
        name="an incident of a whole day",
        train=BEFORE,
        test=timed("2026-11-14 23:59:50", "2026-11-15 00:00:00", "2026-11-15 00:00:10"),
        first=None,
        lists={"attacks.csv": "id,start,end\n7,2026-11-14,2026-11-14\n"},
        labels=[1, 0, 0],
        notices=("7: dates without a time of day were taken as whole days",),
    ),
    Case(
        name="an open incident of train ends with train",
        train=wide(*TEN).replace(DAY, "2026-11-01"),
        test=wide(*TEN),
        lists={"incidents.csv": "id,start,end\n7,2026-11-01 08:00:40,\n"},
        labels=[0] * 6,
    ),
    Case(
        name="incidents whose days only the list decides",
        train=BEFORE,
        test=wide(*TEN),
        lists={
            "incidents.csv": "id,start,end\n7,15/11/2026 08:00:20,15/11/2026 08:00:30\n"
            "8,05/11/2026 08:00:00,05/11/2026 09:00:00\n"
        },
        labels=[0, 0, 1, 1, 0, 0],
        notices=("1 incident lies outside of train and test: 8 (2026-11-05 08:00:00)",),
    ),
    Case(
        name="incidents whose days cannot be told",
        train=BEFORE,
        test=wide(*TEN),
        lists={"incidents.csv": "id,start,end\n8,05/11/2026 08:00,05/11/2026 09:00\n"},
        refused="day and month cannot be told apart",
    ),
    Case(
        name="a list in Windows letters with tabs",
        train=BEFORE,
        test=wide(*TEN),
        lists={
            "incidents.csv": (
                f"id\tstart\tend\tnote\n7\t{DAY} 08:00:20\t{DAY} 08:00:30\tÜberlauf\n"
            ).encode("cp1252")
        },
        labels=[0, 0, 1, 1, 0, 0],
    ),
]
SETTINGS = [
    Case(
        name="the start of train is left out",
        train=BEFORE,
        test=PLAIN,
        toml="trim_start_s = 10\n",
        values=ROWS,
        notices=("The first 1 row of train: left out, as trim_start_s",),
    ),
    Case(
        name="train with more decimals than test",
        train=wide(*(f"{k}.123456789,{k}" for k in range(12))).replace(
            DAY, "2026-11-01"
        ),
        test=wide(*(f"{k}.1,{k}" for k in range(12))),
        toml='train_decimals = "as-test"\n',
        values=[[k + 0.1, k] for k in range(12)],
        notices=("Train was rounded to the decimals of test", "A (1)"),
    ),
    Case(
        name="a start of train that is all of it",
        test=PLAIN,
        toml="trim_start_s = 3600\n",
        refused="plant.toml: trim_start_s = 3600 leaves no row of train",
    ),
    Case(
        name="units in the header and in the list of tags",
        test=PLAIN.replace("A,B", "A [mm],B [m3/h]"),
        tags="tag,role\nA [mm],sensor\nB [m3/h],ignore\n",
        channels=("A",),
        values=[[1], [2], [3]],
        notices=("tags.csv: B was left out, because its role is ignore",),
    ),
    Case(
        name="a setting of columns that is misspelt",
        test=PLAIN,
        toml='[columns]\ntimes = "time"\n',
        refused="[columns]: has an unknown key 'times'; did you mean 'time'?",
    ),
]
CASES = [*FILES, *HEADERS, *NUMBERS, *WORDS, *TIMES, *LONG, *INCIDENTS, *SETTINGS]
