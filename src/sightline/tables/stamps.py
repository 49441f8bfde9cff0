"""Time stamps of a table as seconds since 1970.

Stamps are text, numbers or date-times. Text is ISO 8601 or one of the forms in
`_FORMS`; a date such as 03/04/2026 is read only if some row has a day above 12, which
shows which number is the day. Numbers are seconds, milliseconds, microseconds or
nanoseconds since 1970, days since 1900 (Excel), or digits such as 20261115083000.
"""

import re
import warnings
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from sightline.data.arrays import Bools, Floats, Ints
from sightline.errors import FileError

# What `time_format` may say of numbers: seconds for each unit, and the unit's name.
_UNITS = {
    "s": (1.0, "seconds since 1970"),
    "ms": (1e-3, "milliseconds since 1970"),
    "us": (1e-6, "microseconds since 1970"),
    "ns": (1e-9, "nanoseconds since 1970"),
    "excel": (86_400.0, "days of Excel since 1900"),
}
# Day 0 of Excel's 1900 system, 1899-12-30, in days before 1970.
_EXCEL_1970 = 25_569
# Fractions in this range are days of Excel from 1954 to 2064, or seconds of a counter.
_EXCEL_RANGE = (20_000, 60_000)
# Dates of milliseconds and finer units must lie in these years: 1991 to 2100. Ticks of
# .NET and of Windows, read as nanoseconds, would lie before.
_FIRST_DATE, _LAST_DATE = 662_688_000.0, 4_133_894_400.0
_FIRST_YEAR = 1900
_COMPACT = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
_EXAMPLES = "'2026-11-15 08:00:00' or '2026-11-15T08:00:00+01:00'"
# ISO 8601 after `_iso` brought it to one spelling. Formats with an offset first: the
# others would ignore it.
_ISO = (
    "%Y-%m-%dT%H:%M:%S%.f%z",
    "%Y-%m-%dT%H:%M%z",
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%dT%H:%M",
    "%Y-%m-%d",
    "%Y-%m-%dT%I:%M:%S%.f %p",
    "%Y%m%dT%H%M%S%z",
    "%Y%m%dT%H%M%S",
    "%Y%m%d %H%M%S",
)
_USUAL = "%Y-%m-%d %H:%M:%S%.f"
_CLOCKS = (" %H:%M:%S%.f", " %H:%M", "", " %I:%M:%S%.f %p", " %I:%M %p")
# Day, month and year as numbers, in unknown order of day and month.
_TWO_ORDERS = re.compile(r"^\d{1,2}([./-])\d{1,2}[./-]\d{4}\b")
_ORDER = re.compile(r"^\s*(\d{1,2})[./-](\d{1,2})[./-]")
_PARTS = re.compile(r"^(\d{1,2})([./-])(\d{1,2})[./-](\d{4})\b")
_NUMBER = re.compile(r"^\s*[-+]?\d+([.,]\d+)?\s*$")
_SHORT_YEAR = re.compile(r"^\d{1,2}[./-]\d{1,2}[./-]\d{2}\b(?!:)")


class Seconds(NamedTuple):
    """A column of time stamps, read.

    Parameters
    ----------
    seconds : array of shape (n_rows,)
        Since 1970, in UTC or on the plant's own clock.
    is_utc : bool
        Whether they are UTC.
    notices : tuple of str
        What was understood, where it is not obvious: half a sentence each.
    second_pass_s : float
        Where all rows lie in the hour that comes twice in autumn, and nothing in the
        table tells in which pass: the seconds to add if it is the second. Else 0.
    """

    seconds: Floats
    is_utc: bool
    notices: tuple[str, ...] = ()
    second_pass_s: float = 0.0


def check_zone(zone: str, path: object) -> str:
    """Return the name of a time zone.

    Raises
    ------
    FileError
        If there is no zone of that name; the message names `path`.
    """
    import polars as pl

    try:
        # Polars takes an empty name for "no zone".
        pl.Series([0]).cast(pl.Datetime("us", zone or "none"))
    except (pl.exceptions.PolarsError, ValueError) as error:
        raise FileError(
            f"{path}: timezone {zone!r} is not known; write it like 'Europe/Berlin' or "
            "'UTC'."
        ) from error
    return zone


def _data_row(row: int) -> str:
    return f"data row {row + 1}"


def seconds_from(
    column: Any,
    *,
    path: object,
    zone: str | None = None,
    time_format: str | None = None,
    series: Any = None,
    place_of: Callable[[int], str] = _data_row,
    may_skip: bool = False,
    date_order: str = "",
) -> Seconds:
    """Return a column of time stamps as seconds since 1970.

    Stamps with an offset, and stamps in a stated zone, become UTC. The hour that comes
    twice in autumn is resolved by the order of the rows. Stamps without offset and
    zone stay on the plant's own clock. All stamps of a column have one form.

    Parameters
    ----------
    column : polars series
        Text, numbers or date-times.
    path : path
        The table, for messages.
    zone : str, optional
        The time zone of stamps without an offset.
    time_format : str, optional
        The format of stamps as text; for numbers a key of `_UNITS`, such as ``"ms"``.
        By default the form is found.
    series : polars series, optional
        The tag of each row, where a table holds several series: the order of rows
        counts within each.
    place_of : callable
        Takes a row, counted from 0, and returns it in words, for messages.
    may_skip : bool
        Return nan for a time that the clock skipped in spring, instead of refusing it.
    date_order : {"", "day", "month"}
        Which number comes first in dates such as 05/11/2026, where no number above 12
        tells.

    Returns
    -------
    Seconds

    Raises
    ------
    FileError
        If a stamp is missing or cannot be read, or could be read in two ways.
    """
    import polars as pl

    if column.null_count():
        row = place_of(int(column.is_null().arg_max() or 0))
        raise FileError(
            f"{path}: column {column.name!r} must be complete; {row} has no time."
        )
    refuse = _Refusal(path, column, place_of)
    is_text = column.dtype == pl.String
    may_be_number = time_format is None or time_format in _UNITS
    if is_text and may_be_number and len(column) and _NUMBER.match(column[0]):
        numbers = column.str.strip_chars().str.replace(",", ".", literal=True)
        numbers = numbers.cast(pl.Float64, strict=False)
        column = column if numbers.null_count() else numbers
    notices: tuple[str, ...] = ()
    if column.dtype.is_numeric():
        dates = _dates_of_numbers(column, time_format, refuse)
        if isinstance(dates, Seconds):
            return dates
        column, notices = dates
    elif column.dtype == pl.String:
        column, notices = _parsed(column, time_format, refuse, date_order)
        # %Y takes two digits too, and makes the year 26 of them.
        if (is_early := column.dt.year() < _FIRST_YEAR).any():
            raise refuse.at(is_early)
    elif not column.dtype.is_temporal() or column.dtype in (pl.Time, pl.Duration):
        raise refuse.kind(f"it holds {column.dtype}")
    column = column.cast(pl.Datetime("us", getattr(column.dtype, "time_zone", None)))
    if column.dtype.time_zone is not None:
        return Seconds(_seconds(column.dt.convert_time_zone("UTC")), True, notices)
    if zone is None:
        return Seconds(_seconds(column), False, notices)
    placed, second_pass_s = _in_zone(column, check_zone(zone, path), series)
    skipped = placed.is_null()
    if skipped.any() and not may_skip:
        first = int(skipped.arg_max() or 0)
        raise FileError(
            f"{path}: {column[first]} ({place_of(first)}) does not exist in {zone}, "
            "because clocks were set forward over it: the stamps are in another zone, "
            "or in none."
        )
    seconds = _seconds(placed.fill_null(datetime(1970, 1, 1, tzinfo=UTC)))
    if skipped.any():
        seconds = np.where(skipped.to_numpy(), np.nan, seconds)
    return Seconds(seconds, True, notices, second_pass_s)


def seconds_of_cell(
    cell: str,
    name: str,
    line: int,
    *,
    path: object,
    zone: str | None = None,
    time_format: str | None = None,
) -> tuple[float, bool]:
    """Return one time stamp of a list as seconds since 1970, and whether it is UTC.

    Parameters
    ----------
    cell, name, line
        The text, its column, and its line, for messages.
    path, zone, time_format
        As for `seconds_from`.

    Raises
    ------
    FileError
        If the stamp is missing or cannot be read, or could be read in two ways.
    """
    import polars as pl

    column = pl.Series(name, [cell or None], pl.String)
    read = seconds_from(
        column,
        path=path,
        zone=zone,
        time_format=time_format,
        place_of=lambda _: f"line {line}",
    )
    return float(read.seconds[0]), read.is_utc


class _Refusal(NamedTuple):
    """Builds the errors about one column of stamps."""

    path: object
    column: Any
    place_of: Callable[[int], str]

    def kind(self, problem: str) -> FileError:
        return FileError(
            f"{self.path}: column {self.column.name!r} must hold time stamps; "
            f"{problem}: name the column of time stamps with time in the section "
            "[columns] of plant.toml."
        )

    def at(self, wrong: Any, advice: str = "") -> FileError:
        row = int(wrong.arg_max() or 0)
        advice = advice or (
            "for another form give time_format in plant.toml, such as '%d/%m/%Y "
            "%H:%M:%S'"
        )
        return FileError(
            f"{self.path}: column {self.column.name!r} must hold time stamps like "
            f"{_EXAMPLES}; {self.place_of(row)} is {self.column[row]!r:.60}: {advice}."
        )


def _dates_of_numbers(
    column: Any, time_format: str | None, refuse: _Refusal
) -> Seconds | tuple[Any, tuple[str, ...]]:
    """Return numbers as seconds, or as date-times of a clock with what was understood.

    Seconds and finer units are UTC; days of Excel and dates in digits are on a clock.
    """
    import polars as pl

    numbers = column.cast(pl.Float64).to_numpy()
    wrong = ~pl.Series(numbers).is_finite()
    if wrong.any():
        row = int(wrong.arg_max() or 0)
        raise FileError(
            f"{refuse.path}: column {column.name!r} must hold time stamps; "
            f"{refuse.place_of(row)} is {numbers[row]}."
        )
    if time_format is not None and time_format not in _UNITS:
        column = column.cast(pl.Int64) if _is_whole(numbers) else column
        texts = column.cast(pl.String)
        return _parsed(texts, time_format, refuse._replace(column=texts))
    if time_format is None and (compact := _compact(numbers)) is not None:
        return compact
    unit = time_format or _unit_of(numbers, refuse)
    if unit != "excel":
        return Seconds(np.asarray(numbers * _UNITS[unit][0], np.float64), True)
    # A fraction of a day is exact to some microseconds: round to milliseconds.
    milliseconds = np.rint((numbers - _EXCEL_1970) * 86_400_000.0)
    seconds = np.rint(milliseconds / 1000)
    # Days with up to six decimals are exact to half of the last one.
    error = 0.0
    for decimals in range(7):
        scaled = numbers * 10.0**decimals
        if np.abs(scaled - np.rint(scaled)).max(initial=0) < 1e-3:
            error = 0.5 * 86_400_000 / float(10**decimals) + 1
            break
    if np.abs(milliseconds - 1000 * seconds).max(initial=0) <= error:
        milliseconds = 1000 * seconds
    dates = pl.Series(milliseconds.astype(np.int64)).cast(pl.Datetime("ms"))
    said = f"its time was read as days of Excel, {numbers[0]:.10g} as {dates[0]}"
    return dates, (said,)


def _is_whole(numbers: Floats) -> bool:
    return bool((numbers == np.rint(numbers)).all())


def _compact(numbers: Floats) -> tuple[Any, tuple[str, ...]] | None:
    """Return digits such as 20261115083000 as date-times; None if they are no dates."""
    import polars as pl

    if not len(numbers) or not _is_whole(numbers) or numbers.min() <= 0:
        return None
    form = _COMPACT.get(len(str(int(numbers[0]))))
    if form is None:
        return None
    texts = pl.Series(numbers.astype(np.int64)).cast(pl.String)
    # The format needs a clock in every case.
    padded = texts + "0" * (14 - len(texts[0]))
    times = _times(padded, _COMPACT[14])
    if times.has_nulls() or not times.dt.year().is_between(1990, 2100).all():
        return None
    example = f"its time was read as dates in digits, {texts[0]} as {times[0]}"
    return times, (example,)


def _unit_of(numbers: Floats, refuse: _Refusal) -> str:
    """Return the unit of numbers by their size; refuse what could be two."""
    if not len(numbers):
        return "s"
    low, high = float(numbers.min()), float(numbers.max())
    advice = (
        "state what it is with time_format in plant.toml, one of "
        f"{', '.join(map(repr, _UNITS))}"
    )
    is_whole = _is_whole(numbers)
    if _EXCEL_RANGE[0] <= low and high <= _EXCEL_RANGE[1] and not is_whole:
        in_thousandths = numbers * 1000
        if np.abs(in_thousandths - np.rint(in_thousandths)).max() > 1e-6:
            return "excel"
        raise FileError(
            f"{refuse.path}: column {refuse.column.name!r} holds {low:g} to {high:g}, "
            f"which can be days of Excel or seconds: {advice}."
        )
    largest = max(abs(low), abs(high))
    unit = next(u for u, most in _LARGEST.items() if largest < most)
    factor, what = _UNITS[unit]
    first = -np.inf if unit == "s" else _FIRST_DATE
    if not (first <= low * factor and high * factor <= _LAST_DATE):
        raise FileError(
            f"{refuse.path}: column {refuse.column.name!r} must hold times of 1991 to "
            f"2100; as {what} {low:.15g} is none: {advice}, or give it as text."
        )
    return unit


_LARGEST = {"s": 1e11, "ms": 1e14, "us": 1e17, "ns": np.inf}


def _iso(texts: Any) -> Any:
    """Return the spellings of ISO 8601, and forms with the year first, as one."""
    texts = texts.str.replace(r"^(\d{4})[/.](\d{1,2})[/.](\d{1,2})\b", "${1}-${2}-${3}")
    texts = texts.str.replace(r"^(\d{4}-\d{1,2}-\d{1,2})[ ,]+", "${1}T")
    texts = texts.str.replace(r"(:\d\d),(\d+)", "${1}.${2}")
    texts = texts.str.replace(r"(?i)\s*(?:Z|UTC|GMT)$", "+0000")
    texts = texts.str.replace(r"\s*([+-]\d\d):?(\d\d)$", "${1}${2}")
    return texts.str.replace(r"(:\d\d(?:\.\d+)?)\s*([+-]\d\d)$", "${1}${2}00")


def _clock(texts: Any) -> Any:
    """Return other dates with one blank before the clock and before AM or PM."""
    texts = texts.str.replace(r"(:\d\d),(\d+)", "${1}.${2}")
    texts = texts.str.replace(r"[ ,T]+(\d{1,2}:\d\d)", " ${1}")
    return texts.str.replace(r"(?i)\s*([ap])\.?m\.?$", " ${1}M")


def _parsed(
    column: Any, time_format: str | None, refuse: _Refusal, date_order: str = ""
) -> tuple[Any, tuple[str, ...]]:
    """Return stamps as date-times, by the one format that fits them all."""
    import polars as pl

    stripped = column.str.strip_chars(" \t\r\"'\ufeff\u00a0")
    # A format is stated for a table whose dates are ambiguous; another table of the
    # plant may have the year first, which is not.
    is_other_form = (
        time_format is not None
        and len(stripped) > 0
        and re.search(r"%d.*%Y|%d.*%y|%D|%x", time_format)
        and re.match(r"^\d{4}[-/.]\d{1,2}[-/.]\d{1,2}", stripped[0])
        and _times(stripped, time_format).null_count() == len(stripped)
    )
    if time_format is not None and not is_other_form:
        return _fit(stripped, [time_format], refuse), ()
    # The usual form needs no second look.
    times = _times(stripped[:1], _USUAL)
    if not times.has_nulls():
        times = _times(stripped, _USUAL)
        if not times.has_nulls():
            return times, ()
    first = stripped[0] if len(stripped) else ""
    if _TWO_ORDERS.match(first):
        return _day_and_month(_clock(stripped), first, refuse, date_order)
    if _SHORT_YEAR.match(first):
        raise refuse.at(
            pl.Series([True]),
            "a year of two digits can be a day: give time_format in plant.toml, such "
            "as '%d/%m/%y %H:%M:%S'",
        )
    if re.match(r"^\d{1,2}[- ./][A-Za-z]{3}", first):
        texts = _clock(stripped).str.replace(
            r"^(\d{1,2})[- ./]([A-Za-z]{3})[a-z]*\.?[- ./](\d+)", "${1}-${2}-${3}"
        )
        year = "%Y" if re.search(r"[A-Za-z]-\d{4}", texts[0]) else "%y"
        return _fit(texts, [f"%d-%b-{year}{clock}" for clock in _CLOCKS], refuse), ()
    texts = _iso(stripped).str.replace(r"(?i)\s*([ap])\.?m\.?$", " ${1}M")
    return _fit(texts, _ISO, refuse), ()


def _times(texts: Any, form: str) -> Any:
    """Return texts as date-times; null where one has another form."""
    import polars as pl

    # Python writes a fraction of a second as ".%f", polars with its point.
    form = form.replace(".%f", "%.f")
    try:
        with warnings.catch_warnings(action="ignore"):
            return texts.str.to_datetime(form, time_unit="us", strict=False)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError):
        # The stated format is none, has no date, or an hour without minutes.
        return pl.repeat(None, len(texts), dtype=pl.Datetime("us"), eager=True)


def _fit(texts: Any, formats: Sequence[str], refuse: _Refusal) -> Any:
    """Return the stamps by the format that fits all; refuse the first that differs."""
    best = None
    for form in formats:
        if len(formats) > 1 and _times(texts[:1], form).has_nulls():
            continue
        times = _times(texts, form)
        if not times.has_nulls():
            return times
        if best is None or times.null_count() < best.null_count():
            best = times
    if best is None:
        # No format fits the first stamp.
        tried = [_times(texts, f) for f in formats]
        best = min(tried, key=lambda times: times.null_count())
    raise refuse.at(best.is_null())


def date_order_of(column: Any) -> str:
    """Return whether the day or the month comes first in dates; empty if unknown.

    Examples
    --------
    >>> import polars as pl
    >>> date_order_of(pl.Series(["05/11/2026 08:00", "15/11/2026 08:00"]))
    'day'
    >>> date_order_of(pl.Series(["05/11/2026"])), date_order_of(pl.Series(["2026-11"]))
    ('', '')
    """
    import polars as pl

    if column.dtype != pl.String:
        return ""
    parts = column.str.extract_groups(_ORDER.pattern).struct.unnest()
    largest = [parts[name].cast(pl.Int64).max() or 0 for name in parts.columns]
    if max(largest) <= 12:
        return ""
    return "month" if largest[1] > 12 >= largest[0] else "day"


def _day_and_month(
    texts: Any, first: str, refuse: _Refusal, stated: str
) -> tuple[Any, tuple[str, ...]]:
    """Return dates of day, month and year; refuse them if each could be the other."""
    import polars as pl

    match = _TWO_ORDERS.match(first)
    mark = match[1] if match else "/"
    orders = {
        name: [f"%{a}{mark}%{b}{mark}%Y{clock}" for clock in _CLOCKS]
        for name, a, b in (("day", "d", "m"), ("month", "m", "d"))
    }
    chosen = date_order_of(texts) or ("day" if mark == "." else stated)
    if not chosen:
        fits = [
            k
            for k, form in enumerate(orders["day"])
            if not _times(texts[:1], form).has_nulls()
        ]
        clock = fits[0] if fits else 0
        raise refuse.at(
            pl.Series([True]),
            "day and month cannot be told apart, because no number in the file is "
            "above 12: give time_format in plant.toml, "
            + " or ".join(f"'{forms[clock]}'" for forms in orders.values()).replace(
                "%.f", ""
            ),
        )
    times = _fit(texts, orders[chosen], refuse)
    return times, (
        f"its dates were read with the {chosen} first, {first} as {times[0]}",
    )


def iso_dates(cells: Sequence[str]) -> list[str]:
    """Return texts with dates of day, month and year as ISO 8601, where it is certain.

    All texts together show which number is the day: one above 12 decides for all. Texts
    of another form, and all texts if nothing decides, are returned as they are.

    Examples
    --------
    >>> iso_dates(["05/11/2026 08:00", "15/11/2026", "2026-11-16"])
    ['2026-11-05 08:00', '2026-11-15', '2026-11-16']
    >>> iso_dates(["05/11/2026"])
    ['05/11/2026']
    """
    matches = [_PARTS.match(cell) for cell in cells]
    found = [match for match in matches if match]
    firsts = [int(match[1]) for match in found]
    seconds = [int(match[3]) for match in found]
    has_dots = any(match[2] == "." for match in found)
    is_day_first = max(firsts, default=0) > 12 or has_dots
    is_month_first = max(seconds, default=0) > 12
    if is_day_first == is_month_first:
        return list(cells)
    day, month = (1, 3) if is_day_first else (3, 1)
    return [
        f"{match[4]}-{int(match[month]):02d}-{int(match[day]):02d}{cell[match.end() :]}"
        if match
        else cell
        for cell, match in zip(cells, matches, strict=True)
    ]


def _in_zone(column: Any, zone: str, series: Any) -> tuple[Any, float]:
    """Return stamps of a zone's clock as UTC, and `Seconds.second_pass_s`.

    Null for times that the clock skipped.
    """
    import polars as pl

    def placed(column: Any, which: Any) -> Any:
        frame = pl.DataFrame({"t": column, "which": which})
        in_zone = pl.col("t").dt.replace_time_zone(
            zone, ambiguous=pl.col("which"), non_existent="null"
        )
        return frame.select(in_zone)["t"].dt.convert_time_zone("UTC")

    is_second = _is_repeated_hour(column.to_physical().to_numpy(), series)
    if not is_second.any() and len(column):
        first = column.head(1)
        passes = [placed(first, pl.Series([w]))[0] for w in ("earliest", "latest")]
        if passes[0] != passes[1]:
            # It begins in the hour that comes twice. What goes on beyond that hour,
            # without the clock going back, is of its second pass.
            either = [
                placed(column, pl.Series([w] * len(column)))
                for w in ("earliest", "latest")
            ]
            is_twice = (either[0] != either[1]).fill_null(False)
            if is_twice.all():
                return either[0], (passes[1] - passes[0]).total_seconds()
            is_second = is_twice.to_numpy()
    return placed(column, pl.Series(np.where(is_second, "latest", "earliest"))), 0.0


def _is_repeated_hour(clock: Ints, series: Any) -> Bools:
    """Return which rows lie in the repeated hour of autumn, its second pass.

    After a clock goes back, these are all rows up to the time it had reached.
    """
    is_second = np.zeros(len(clock), np.bool_)
    if series is None:
        parts = [np.arange(len(clock))]
    else:
        codes = np.unique(np.asarray(series), return_inverse=True)[1]
        order = np.argsort(codes, kind="stable")
        parts = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
    for rows in parts:
        times = clock[rows]
        steps_back = np.flatnonzero(np.diff(times) < 0) + 1
        if len(steps_back):
            reached = np.maximum.accumulate(times)
            last = np.searchsorted(steps_back, np.arange(len(times)), side="right") - 1
            peak = reached[steps_back[np.maximum(last, 0)] - 1]
            is_second[rows] = (last >= 0) & (times <= peak)
    return is_second


def _seconds(column: Any) -> Floats:
    """Return date-times as seconds since 1970."""
    return np.asarray(column.to_physical().to_numpy() / 1e6)
