"""What the columns of a table mean, and the numbers in their text.

Names of columns are compared without case, blanks and punctuation. The table `NAMES`
holds the headers of PI (DataLink, Web API), Wonderware, Ignition, InfluxDB and WinCC,
and their German names.

Text is read as numbers with decimal commas, thousands and units; state words and labels
become numbers as well. A number is read only where it is certain: ``1.234,5`` is
1234.5, ``1,234`` alone could be 1.234 or 1234 and is refused unless another cell of the
table decides.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sightline.data.arrays import ATTACK, IGNORED, NORMAL
from sightline.errors import FileError

# By role, the preferred name first.
NAMES: Mapping[str, tuple[str, ...]] = {
    "time": (
        *("time", "timestamp", "datetime", "date", "tstamp", "timestring"),
        *(
            "localtime",
            "timelocal",
            "timestamplocal",
            "localtimestamp",
            "datetimelocal",
        ),
        *("utctime", "timeutc", "timestamputc", "utctimestamp", "datetimeutc"),
        *("sourcetimestamp", "servertimestamp", "eventtime", "sampletime", "utc"),
        *("zeitstempel", "datumuhrzeit", "datumzeit", "datum", "zeit", "uhrzeit"),
    ),
    "tag": (
        *("tag", "tagname", "tagpath", "point", "pointname", "varname", "field"),
        *("tagid", "itemid", "variable", "signal", "sensor", "channel", "metric"),
        *("externalid", "nodeid", "signalname", "pitag", "name"),
        *("messstelle", "kanal", "bezeichnung"),
    ),
    "value": (
        *("value", "varvalue", "vvalue", "floatvalue", "intvalue", "stringvalue"),
        *("wert", "messwert"),
    ),
    "quality": (
        *("opcquality", "qualitydetail", "quality", "dataintegrity", "validity"),
        *("statuscode", "isgood", "good", "qualitycode", "status", "qualität"),
    ),
    "label": (
        *("label", "labels", "normalattack", "attack", "isattack", "attflag"),
        *("attacklabel", "anomaly", "isanomaly"),
    ),
}
# Columns of exports that hold no reading, whatever they hold.
NO_TAGS = frozenset(
    "uom units unit annotated questionable substituted annotations timems "
    "result table start stop measurement rowid id "
    "comment comments remark remarks note notes bemerkung bemerkungen kommentar "
    "kommentare anmerkung anmerkungen notiz notizen hinweis hinweise".split()
)
# Words of quality, besides those in `MISSING`; compared without case.
GOOD = frozenset(("good", "ok", "valid", "true", "raw", "good, non-specific"))
_NOT_GOOD = frozenset(
    "uncertain questionable invalid stale substituted doubtful suspect not good "
    "estimated manual interpolated".split()
)
_UNITS = frozenset(
    "mm cm dm m km in ft mm2 cm2 m2 m² m3 m³ l ml ul gal m3/h m³/h m3/s m³/s m3/d m³/d "
    "m^3/h m3/min nm3/h nm³/h l/s l/min l/h gpm cmh mgd "
    "bar mbar barg bara pa hpa kpa mpa psi psig psia mmhg mh2o mwc mws inh2o "
    "°c ºc degc celsius k °f degf c f % %rh pct percent ppm ppb ph "
    "v mv kv a ma ka w kw mw gw va kva var kvar kwh mwh wh hz khz mhz rpm 1/min u/min "
    "s sec ms min h d kg g mg t kg/h t/h kg/s kg/m3 kg/m³ g/cm3 "
    "µs/cm us/cm ms/cm µs us ntu fnu mg/l ug/l µg/l g/l mmol/l mol/l "
    "m/s mm/s m/s2 m/s² n kn nm j kj mj deg rad ° ohm db dbm cp cst "
    "on/off 0/1 bool - 1".split()
)
# A bare letter in round brackets names a pump as often as a unit: P101 (A).
_BRACKETS = re.compile(r"^(.+?)\s*(?:\[([^\[\]]*)\]|\(([^()]{2,}|%|°)\))$")
_NOT_A_LETTER = re.compile(r"[\W_]+")


def plain(name: str) -> str:
    """Return a column's name as it is compared.

    Examples
    --------
    >>> plain("Date Time"), plain("t_stamp"), plain("_value"), plain("Normal/Attack")
    ('datetime', 'tstamp', 'value', 'normalattack')
    """
    return _NOT_A_LETTER.sub("", name).lower()


def is_unit(text: str) -> bool:
    """Return whether a text is the name of a unit, such as ``m3/h``, or of none."""
    return text.strip().strip("[]()").strip().lower() in _UNITS


def name_and_unit(name: str) -> tuple[str, str]:
    """Return the name of a column without its unit, and the unit (empty if none).

    Examples
    --------
    >>> name_and_unit("LIT101 [mm]"), name_and_unit("P101 (A)"), name_and_unit("x (%)")
    (('LIT101', 'mm'), ('P101 (A)', ''), ('x', '%'))
    """
    match = _BRACKETS.match(name.strip())
    if match is None:
        return name, ""
    unit = (match[2] if match[2] is not None else match[3]).strip()
    # Valve [1] is the first of several valves.
    return (match[1], unit) if is_unit(unit) and unit not in ("", "1") else (name, "")


def columns_called(role: str, columns: Sequence[str]) -> list[str]:
    """Return the columns whose names mean a role, the preferred one first.

    Parameters
    ----------
    role : str
        A key of `NAMES`.
    columns : sequence of str
        All columns of the table.

    Examples
    --------
    >>> columns_called("time", ["UTC time", "Timestamp", "LIT101"])
    ['Timestamp', 'UTC time']
    """
    wanted = NAMES[role]
    found = [c for c in columns if plain(name_and_unit(c)[0]) in wanted]
    return sorted(found, key=lambda c: wanted.index(plain(name_and_unit(c)[0])))


# A column of words has at most this many different ones.
MOST_WORDS = 12
# What stands for an empty cell; compared without case.
EMPTY = frozenset(
    {
        *("", "-", "--", "---", "?", "*", "n/a", "#n/a", "na", "nan", "nil", "none"),
        *("null", "(null)", "<null>", "missing"),
    }
)
# What historians write where there is no value: also that the source is bad.
MISSING = EMPTY | frozenset(
    {
        *("bad", "bad input", "bad data", "bad quality"),
        *("no data", "no value", "no sample", "no result", "i/o timeout", "io timeout"),
        *("configure", "pt created", "scan off", "scan timeout", "comm fail", "failed"),
        *("not connected", "not connect", "out of serv", "intf shut", "calc failed"),
        *(
            "no alarm limits",
            "unit down",
            "invalid data",
            "data error",
            "access denied",
        ),
        *("over range", "under range", "#value!", "#ref!", "#div/0!", "#name?"),
        *("digital state", "no good data", "no good data for calculation"),
        *("inp outrange", "ausfall", "#ausfall", "störung", "gestört", "ungültig"),
    }
)
# Words of two states, 0 and 1.
_ZERO = frozenset(
    "off close closed stop stopped false no man manual normal inactive disabled idle "
    "low ok aus zu geschlossen halt stopp hand".split()
)
_ONE = frozenset(
    "on open opened run running start started true yes auto automatic alarm active "
    "enabled high fault trip tripped ein an auf offen läuft betrieb automatik".split()
)
_LABELS: Mapping[str, int] = {
    **dict.fromkeys(("normal", "benign", "noattack", "false", "no"), NORMAL),
    **dict.fromkeys(("attack", "anomaly", "anomalous", "true", "yes"), ATTACK),
    **dict.fromkeys(("ignore", "ignored", "unknown"), IGNORED),
}
_NO_LETTER = re.compile(r"[\s_-]+")
_ENGLISH = r"^[-+]?\d{1,3}(?:(?:,\d{3})+\.\d+|(?:,\d{3}){2,})$"
_GERMAN = r"^[-+]?\d{1,3}(?:(?:\.\d{3})+,\d+|(?:\.\d{3}){2,})$"
_SPACED = r"^[-+]?\d{1,3}(?:[ '\u00a0\u202f\u2019]\d{3})+(?:[.,]\d+)?$"
_COMMA = r"^[-+]?\d*,\d+(?:[eE][-+]?\d+)?$"
_EITHER_COMMA = r"^[-+]?[1-9]\d{0,2},\d{3}$"
_EITHER_POINT = r"^[-+]?[1-9]\d{0,2}\.\d{3}$"
_WITH_UNIT = r"^([-+]?[\d.,]*\d(?:[eE][-+]?\d+)?)\s*([^\d\s.,+-]\S*)$"


class TextCells(NamedTuple):
    """A column of text, read.

    Parameters
    ----------
    numbers : polars series
        Float64; null where a cell is no number.
    words : polars series
        What is neither a number nor empty, without surrounding blanks; else null.
    unit : str
        The unit that stood behind each number; empty if there was none.
    """

    numbers: Any
    words: Any
    unit: str = ""


def has_certain_comma(texts: Any) -> bool:
    """Return whether a column of text has a decimal comma that can be nothing else."""
    texts = texts.str.strip_chars()
    is_comma = texts.str.contains(_COMMA) & ~texts.str.contains(_EITHER_COMMA)
    return bool((is_comma | texts.str.contains(_GERMAN)).any())


def read_cells(texts: Any, *, path: object, decimal_comma: bool = False) -> TextCells:
    """Return the numbers and the words in a column of text.

    Parameters
    ----------
    texts : polars series of text
        The column.
    path : path
        The table, for messages.
    decimal_comma : bool
        Whether other columns of the table have decimal commas: it decides on cells such
        as ``1,234``.

    Raises
    ------
    FileError
        If a number could be read in two ways, or the column mixes decimal points with
        decimal commas.

    Examples
    --------
    >>> import polars as pl
    >>> cells = read_cells(pl.Series("A", ["1.234,5", "7,25", "Bad Input"]), path="x")
    >>> cells.numbers.to_list(), cells.words.to_list()
    ([1234.5, 7.25, None], [None, None, 'Bad Input'])
    """
    import polars as pl

    stripped = texts.str.strip_chars(" \t\r\u00a0\ufeff")
    numbers = stripped.cast(pl.Float64, strict=False)
    words = _rest(stripped, numbers)
    if not words.len() - words.null_count():
        is_either = stripped.str.contains(_EITHER_POINT).fill_null(False)
        has_point = stripped.str.contains(".", literal=True).fill_null(False)
        if decimal_comma and is_either.any() and bool((is_either == has_point).all()):
            raise FileError(
                f"{path}: column {texts.name!r} holds "
                f"{stripped[is_either.arg_max() or 0]!r}, which can be a decimal point "
                "or a thousands separator, because other columns have decimal commas: "
                "export numbers without thousands separators."
            )
        return TextCells(numbers, words)
    unit = ""
    # Only the different texts that are no plain number: there are few, or all are.
    different = words.drop_nulls().unique()
    with_unit = different.str.extract_groups(_WITH_UNIT).struct.unnest()
    units = {u for u in with_unit["2"].drop_nulls() if is_unit(u)}
    if len(units) == 1:
        (unit,) = units
        is_with = stripped.str.extract(_WITH_UNIT, 2) == unit
        bare = stripped.str.extract(_WITH_UNIT, 1)
        stripped = _where(is_with.fill_null(False), bare, stripped)
    numbers = _with_separators(stripped, path, texts.name, decimal_comma)
    return TextCells(numbers, _rest(stripped, numbers), unit)


def _rest(texts: Any, numbers: Any) -> Any:
    """Return the texts that are no number; null for a number and an empty cell."""
    import polars as pl

    is_word = numbers.is_null() & (texts != "").fill_null(False)
    return _where(is_word, texts, pl.lit(None, pl.String))


def _where(condition: Any, yes: Any, no: Any) -> Any:
    """Return one series where a condition holds and another where it does not."""
    import polars as pl

    return pl.select(pl.when(condition).then(yes).otherwise(no)).to_series()


def _with_separators(texts: Any, path: object, name: str, decimal_comma: bool) -> Any:
    """Return text as numbers, with decimal commas and thousands where certain."""
    import polars as pl

    def cells(pattern: str) -> Any:
        return texts.str.contains(pattern).fill_null(False)

    commas, either = cells(_COMMA), cells(_EITHER_COMMA)
    english, german, spaced = cells(_ENGLISH), cells(_GERMAN), cells(_SPACED)
    points = cells(r"^[-+]?\d*\.\d") & ~cells(_GERMAN)
    either_point = cells(_EITHER_POINT)
    is_english = bool((english | (points & ~either_point)).any())
    is_german = bool((german | (commas & ~either)).any())
    if is_english and is_german:
        wrong = (german | (commas & ~either)).arg_max() or 0
        other = (english | (points & ~either_point)).arg_max() or 0
        raise FileError(
            f"{path}: column {name!r} has decimal points and decimal commas, such as "
            f"{texts[other]!r} and {texts[wrong]!r}: export it with one of them."
        )
    if commas.any() and not (is_english or is_german or decimal_comma):
        found = texts[commas.arg_max() or 0]
        raise FileError(
            f"{path}: column {name!r} holds {found!r}, which can be a decimal comma or "
            "a thousands separator: export numbers without thousands separators, and "
            "with a decimal point."
        )
    cleaned = texts
    if spaced.any():
        bare = texts.str.replace_all(r"[ '\u00a0\u202f\u2019]", "")
        cleaned = _where(spaced, bare, texts)
    if is_german or (decimal_comma and not is_english):
        thousands = german | (either_point if is_german else german)
        bare = cleaned.str.replace_all(".", "", literal=True)
        cleaned = _where(thousands, bare, cleaned)
        cleaned = cleaned.str.replace(r"^([-+]?\d*),(\d+)", "${1}.${2}")
    elif is_english:
        bare = cleaned.str.replace_all(",", "", literal=True)
        cleaned = _where(english | either, bare, cleaned)
    return cleaned.cast(pl.Float64, strict=False)


def is_quality(column: Any) -> bool:
    """Return whether a column holds words of quality, or OPC codes, and nothing else.

    Examples
    --------
    >>> import polars as pl
    >>> is_quality(pl.Series(["GOOD", "Bad"])), is_quality(pl.Series([192, 0]))
    (True, True)
    >>> is_quality(pl.Series(["OK", "Trip"])), is_quality(pl.Series([0, 1]))
    (False, False)
    """
    import polars as pl

    texts = column.cast(pl.String).str.strip_chars().str.to_lowercase().drop_nulls()
    different = {*texts.unique()} - {""}
    codes = pl.Series(sorted(different), dtype=pl.String).cast(pl.Float64, strict=False)
    if different and not codes.null_count():
        return 192.0 in codes and bool(codes.is_between(0, 255).all())
    return bool(different) and different <= GOOD | _NOT_GOOD | MISSING


def is_missing(words: Any) -> Any:
    """Return which words of a series say that there is no value."""
    return words.str.to_lowercase().is_in(list(MISSING)).fill_null(False)


def word_numbers(words: Iterable[str]) -> dict[str, int] | None:
    """Return the number of each state word, or None if they are no states.

    Words of the first state (off, closed, stopped, false ...) come first, then those of
    the second (on, open, running, true ...), then others in alphabetical order; they
    are counted from 0. Case does not matter.

    Parameters
    ----------
    words : iterable of str
        The different words of a column, train and test together. Those in `MISSING` do
        not count.

    Returns
    -------
    dict or None
        By word in lower case; None if there are more than `MOST_WORDS`, none at all,
        or one begins with a digit.

    Examples
    --------
    >>> word_numbers(["OPEN", "CLOSED"]), word_numbers(["On", "on", "Travel", "Off"])
    ({'closed': 0, 'open': 1}, {'off': 0, 'on': 1, 'travel': 2})
    >>> word_numbers(["OPEN"])
    {'open': 1}
    """
    states = {word.lower() for word in words} - MISSING
    if not 0 < len(states) <= MOST_WORDS:
        return None
    if any(re.match(r"^[-+]?[.,]?\d", word) for word in states):
        return None
    if len(states) == 1:
        (word,) = states
        return {word: int(word in _ONE)}
    order = sorted(states, key=lambda w: (w not in _ZERO, w not in _ONE, w))
    return {word: number for number, word in enumerate(order)}


def words_in_text(numbers: Mapping[str, int], words: Iterable[str]) -> str:
    """Return a map of words as text, in the spelling of the table.

    Examples
    --------
    >>> words_in_text({"closed": 0, "open": 1}, ["Open", "Closed"])
    'Closed = 0, Open = 1'
    """
    spelling = {word.lower(): word for word in sorted(words, reverse=True)}
    return ", ".join(f"{spelling.get(w, w)} = {n}" for w, n in numbers.items())


def label_codes(column: Any) -> tuple[Any, str]:
    """Return labels that are words as numbers, and the map in words.

    Parameters
    ----------
    column : polars series
        Words such as Normal and Attack (also ``A ttack``, as SWaT spells it), true and
        false, or numbers.

    Returns
    -------
    codes : array of shape (n_rows,)
        What the caller checks; the column itself if a word is unknown.
    words : str
        Such as ``"Attack = 1, Normal = 0"``; empty if nothing was mapped.
    """
    import polars as pl

    if str(column.dtype) in ("Int128", "UInt128"):
        column = column.cast(pl.Float64)
    if column.dtype not in (pl.String, pl.Boolean):
        return column.to_numpy(), ""
    texts = column.cast(pl.String).str.strip_chars()
    numbers = texts.cast(pl.Float64, strict=False)
    bare = texts.str.to_lowercase().str.replace_all(_NO_LETTER.pattern, "")
    mapped = bare.replace_strict(_LABELS, default=None, return_dtype=pl.Float64)
    codes = numbers.fill_null(mapped)
    if codes.null_count() > texts.null_count():
        return texts.to_numpy(), ""
    different = texts.filter(numbers.is_null()).drop_nulls().unique().sort().to_list()
    known = [
        f"{word} = {_LABELS[_NO_LETTER.sub('', word.lower())]}" for word in different
    ]
    return codes.fill_null(np.nan).to_numpy(), ", ".join(known)
