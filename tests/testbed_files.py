"""Files of testbeds: fixtures, made-up ones in exact formats, and a plain parse."""

import csv
import gzip
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightline.errors import FileError, SightlineError
from sightline.testbeds.base import ParsedPart, Reader, ReleasePart
from sightline.testbeds.csv_reader import ParsedFile, SourceFile

FIXTURES = Path(__file__).parent / "testbeds" / "fixtures"
DATA = Path(__file__).parents[2] / "shared" / "data"
needs_batadal = pytest.mark.skipif(
    not (DATA / "batadal" / "dataset03.csv").is_file(),
    reason="BATADAL is not in ../shared/data/batadal",
)
needs_skab = pytest.mark.skipif(
    not (DATA / "skab" / "anomaly-free").is_dir(),
    reason="SKAB is not in ../shared/data/skab",
)

NORMAL_V0 = "swat_SWaT_Dataset_Normal_v0.csv"
ATTACK_V0 = "swat_SWaT_Dataset_Attack_v0.csv"
SEMICOLON = "swat_SWaT_Dataset_Attack_v0_semicolon.csv"
SECOND = timedelta(seconds=1)

# As they stand in section 1.4 of the facts on the files.
SWAT_TAGS = (
    "FIT101 LIT101 MV101 P101 P102 "
    "AIT201 AIT202 AIT203 FIT201 MV201 P201 P202 P203 P204 P205 P206 "
    "DPIT301 FIT301 LIT301 MV301 MV302 MV303 MV304 P301 P302 "
    "AIT401 AIT402 FIT401 LIT401 P401 P402 P403 P404 UV401 "
    "AIT501 AIT502 AIT503 AIT504 FIT501 FIT502 FIT503 FIT504 P501 P502 "
    "PIT501 PIT502 PIT503 FIT601 P601 P602 P603"
).split()
WADI_EMPTY = ("2_LS_001_AL", "2_LS_002_AL", "2_P_001_STATUS", "2_P_002_STATUS")

HAI_FIXTURES = {
    "20.07": "hai_20.07_test1.csv",
    "21.03": "hai_21.03_test1.csv",
    "22.04": "hai_22.04_test1.csv",
    "23.05": "hai_23.05_hai-test2.csv",
}
# First time stamps; made up where nobody has told them.
HAI_BEGINS = {
    "20.07": {
        "train1": "2019-09-11 20:00:00",
        "train2": "2019-11-01 20:00:00",
        "test1": "2019-10-29 11:00:00",
        "test2": "2019-11-04 15:00:00",
    },
    "21.03": {
        "train1": "2020-07-11 00:00:00",
        "train2": "2020-07-31 22:00:00",
        "train3": "2020-08-04 22:00:00",
        "test1": "2020-07-07 15:00:00",
        "test2": "2020-07-09 15:00:00",
        "test3": "2020-07-13 00:00:00",
        "test4": "2020-07-28 12:00:00",
        "test5": "2020-07-30 10:50:00",
    },
    "22.04": {
        "train1": "2021-07-11 10:00:00",
        "train2": "2021-07-18 00:00:00",
        "train3": "2021-07-22 00:00:00",
        "train4": "2021-07-25 00:00:00",
        "train5": "2021-07-28 00:00:00",
        "train6": "2021-08-06 09:00:01",
        "test1": "2021-07-10 00:00:01",
        "test2": "2021-07-13 16:00:01",
        "test3": "2021-07-14 17:40:01",
        "test4": "2021-07-15 12:00:01",
    },
    "23.05": {
        "train1": "2022-08-04 18:00:01",
        "train2": "2022-08-13 07:00:01",
        "train3": "2022-08-22 00:00:01",
        "train4": "2022-08-25 00:00:01",
        "test1": "2022-08-12 16:00:01",
        "test2": "2022-08-17 00:00:01",
    },
}

BATADAL_TAGS = (
    [f"L_T{k}" for k in range(1, 8)]
    + [f"{what}_PU{k}" for k in range(1, 12) for what in "FS"]
    + ["F_V2", "S_V2"]
    + [f"P_J{k}" for k in "280 269 300 256 289 415 302 306 307 317 14 422".split()]
)
BATADAL_BEGINS = {
    "dataset03.csv": ("06/01/14", 4),
    "dataset04.csv": ("04/07/16", 5),
    "test_dataset.csv": ("04/01/17", 3),
}


# ---- fixtures, and what a plain parse makes of them --------------------------------


def fixture(name: str) -> bytes:
    return (FIXTURES / name).read_bytes()


def put(path: Path, content: bytes | str) -> Path:
    """Write a file, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def place(folder: Path, name: str, called: str | None = None) -> Path:
    """Copy a fixture, by default under the name that the real file has."""
    return put(folder / (called or name.split("_", 1)[1]), fixture(name))


def rows_of(content: bytes, separator: str = ",") -> list[list[str]]:
    """Return the cells as Python's csv module sees them."""
    text = content.decode("utf-8-sig")
    return list(csv.reader(io.StringIO(text, newline=""), delimiter=separator))


def number(cell: str) -> float:
    """Return a cell as Python's float() reads it; nan where there is no number."""
    told = cell.strip().replace(",", ".")
    return float("nan") if told in ("", "1.#QNAN") else float(told)


def table_of(rows: Iterable[Sequence[str]]) -> np.ndarray:
    return np.array([[number(cell) for cell in row] for row in rows])


def seconds(when: str | datetime, form: str = "%Y-%m-%d %H:%M:%S") -> float:
    if isinstance(when, str):
        when = datetime.strptime(when.strip(), form)
    return (when - datetime(1970, 1, 1)).total_seconds()


def assert_exact(values: np.ndarray, expected: np.ndarray) -> None:
    """Compare bit for bit."""
    assert values.dtype == expected.dtype == np.float64
    assert values.shape == expected.shape
    assert values.tobytes() == np.ascontiguousarray(expected).tobytes()


def assert_same_recording(one: Any, other: Any) -> None:
    for name in ("values", "labels", "time", "breaks"):
        found, expected = getattr(one, name), getattr(other, name)
        assert found.dtype == expected.dtype, name
        assert found.tobytes() == expected.tobytes(), name
    for name in ("tags", "step_s", "attacks", "source"):
        assert getattr(one, name) == getattr(other, name), name


def recognised(reader: Reader, path: Path, root: Path | None = None) -> ReleasePart:
    part = reader.recognise(SourceFile(path, root or path.parent))
    assert part is not None, path
    return part


def parsed(reader: Reader, path: Path) -> ParsedFile:
    """Read one file, whatever else its release needs."""
    return reader.parse(recognised(reader, path))


def made_part(
    part: ReleasePart,
    n_channels: int,
    time: np.ndarray,
    labels: np.ndarray | None = None,
) -> ParsedPart:
    """Return a part as long as the real one, of zeros."""
    values = np.zeros((len(time), n_channels), np.float32)
    channels = tuple(f"c{k}" for k in range(n_channels))
    held = ParsedFile(channels=channels, values=values, time=time, labels=labels)
    return ParsedPart(part=part, parsed=held)


@contextmanager
def refused(*words: str, kind: type[SightlineError] = FileError) -> Iterator[None]:
    """Expect one sentence that has these words in it, in any order."""
    with pytest.raises(kind) as caught:
        yield
    message = str(caught.value)
    assert re.fullmatch(r"[^\n]+\.", message), message
    missing = [word for word in words if word not in message]
    assert not missing, message


# ---- made-up files -----------------------------------------------------------------


def drawn(n_rows: int, n_channels: int, seed: int = 0) -> np.ndarray:
    """Return made-up readings with four decimals."""
    return np.random.default_rng(seed).uniform(1, 900, (n_rows, n_channels)).round(4)


def marks_of(n_rows: int, attacked: Iterable[tuple[int, int]]) -> np.ndarray:
    marks = np.zeros(n_rows, np.int8)
    for start, stop in attacked:
        marks[start:stop] = 1
    return marks


def swat_stamp(when: datetime) -> str:
    """Return a time stamp as SWaT has it: day first, 12 hours, a blank before it."""
    half = "AM" if when.hour < 12 else "PM"
    return (
        f" {when.day}/{when.month}/{when.year} "
        f"{when.hour % 12 or 12}:{when.minute:02}:{when.second:02} {half}"
    )


def swat_csv(
    times: Sequence[datetime],
    values: np.ndarray,
    attacked: Iterable[tuple[int, int]] = (),
) -> str:
    marks = marks_of(len(times), attacked)
    lines = [" Timestamp," + ",".join(SWAT_TAGS) + ",Normal/Attack"]
    lines += [
        f"{swat_stamp(when)},{','.join(map(repr, row))},{'Attack' if m else 'Normal'}"
        for when, row, m in zip(times, values.tolist(), marks, strict=True)
    ]
    return "\n".join(lines) + "\n"


def times_from(start: datetime, n_rows: int, *, gap_at: int = 0) -> list[datetime]:
    """Return a time stamp a second, with 5 s lacking before one row if asked for."""
    return [
        start + SECOND * (k + (5 if gap_at and k >= gap_at else 0))
        for k in range(n_rows)
    ]


def hai_columns(release: str) -> list[str]:
    separator = ";" if release == "20.07" else ","
    return rows_of(fixture(HAI_FIXTURES[release]), separator)[0]


def hai_tags(release: str) -> list[str]:
    return [c for c in hai_columns(release)[1:] if not c.lower().startswith("attack")]


def hai_csv(
    release: str,
    start: str,
    values: np.ndarray,
    attacked: Iterable[tuple[int, int]] = (),
) -> str:
    separator = ";" if release == "20.07" else ","
    columns = hai_columns(release)
    n_labels = len(columns) - 1 - values.shape[1]
    begin = datetime.strptime(start, "%Y-%m-%d %H:%M:%S")
    marks = marks_of(len(values), attacked)
    lines = [separator.join(columns)]
    for k, (row, mark) in enumerate(zip(values.tolist(), marks, strict=True)):
        labels = [str(mark)] + ["0"] * (n_labels - 1) if n_labels else []
        stamp = str(begin + SECOND * k)
        lines.append(separator.join([stamp, *map(repr, row), *labels]))
    return "\n".join(lines) + "\n"


def hai_file(release: str, part: str) -> str:
    return f"hai-{part}.csv" if release == "23.05" else f"{part}.csv"


def write_hai(
    folder: Path,
    release: str,
    *,
    n_rows: int = 4,
    packed: bool = False,
    attacked: dict[str, list[tuple[int, int]]] | None = None,
    values: dict[str, np.ndarray] | None = None,
    begins: dict[str, str] | None = None,
) -> dict[str, np.ndarray]:
    """Write all files of a release; return the values of each by its name."""
    written = {}
    n_tags = len(hai_tags(release))
    for k, (part, begin) in enumerate(HAI_BEGINS[release].items()):
        of_part = (values or {}).get(part, drawn(n_rows, n_tags, seed=k))
        marked = (attacked or {}).get(part, [])
        start = (begins or {}).get(part, begin)
        text = hai_csv(release, start, of_part, marked)
        path = folder / hai_file(release, part)
        if packed:
            put(path.with_name(f"{path.name}.gz"), gzip.compress(text.encode()))
        else:
            put(path, text)
        if release == "23.05" and part.startswith("test"):
            labels = marks_of(len(of_part), marked)
            lines = ["timestamp,label", *(f"2022-08-17 0:00,{m}" for m in labels)]
            put(folder / f"label-{part}.csv", "\r\n".join(lines) + "\r\n")
        written[part] = of_part
    return written


def write_batadal(folder, **flags):
    """Write three short files; flags of each may be given by its name."""
    for name, (day, n_rows) in BATADAL_BEGINS.items():
        marks = flags.get(name.removesuffix(".csv"), [0] * n_rows)
        lines = [",".join(["DATETIME", *BATADAL_TAGS, "ATT_FLAG"])]
        for k, mark in enumerate(marks):
            cells = [f"{day} {k:02}", *(f"{k}.{j:02}" for j in range(43)), str(mark)]
            lines.append(",".join(cells))
        put(folder / name, "\n".join(lines) + "\n")
    return folder


def column_of(content: bytes, column: str, separator: str = ",") -> list[str]:
    """Return the cells of one column of a plain CSV file."""
    header, *rows = rows_of(content, separator)
    return [row[header.index(column)] for row in rows]
