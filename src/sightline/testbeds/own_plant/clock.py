"""Time stamps of one's own plant, with a zone or on the plant's own clock."""

from pathlib import Path
from typing import Any

import numpy as np

from sightline.data.arrays import Bools, Floats, Ints
from sightline.errors import FileError

# Offsets first: a format without one would not see it.
_FORMATS = (
    "%Y-%m-%dT%H:%M:%S%.f%z",
    "%Y-%m-%dT%H:%M%z",
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%dT%H:%M",
    "%Y-%m-%d",
)
# Numbers beyond this are milliseconds: as seconds they would lie after the year 5000.
_MOST_SECONDS = 1e11


def check_zone(zone: str, path: Path) -> str:
    """Return the name of a time zone, or say that there is none of that name."""
    import polars as pl

    try:
        # Polars takes an empty name for none.
        pl.Series([0]).cast(pl.Datetime("us", zone or "none"))
    except (pl.exceptions.PolarsError, ValueError) as error:
        raise FileError(
            f"{path}: timezone {zone!r} is not known; write it like 'Europe/Berlin' or "
            "'UTC'."
        ) from error
    return zone


def seconds_from(
    column: Any,
    *,
    path: Path,
    zone: str | None,
    time_format: str | None,
    series: Any = None,
    first_line: int | None = None,
) -> tuple[Floats, bool]:
    """Return a column of time stamps as seconds since 1970, and whether that is UTC.

    Stamps with an offset, and those of a stated zone, become UTC; the hour that comes
    twice in autumn is told by the order of the rows, or, where a table holds several
    series (tags), by the order within each. Stamps without either stay on the plant's
    own clock. Errors count rows, or lines from `first_line` on.
    """
    import polars as pl

    if column.null_count():
        row = _row(column.is_null(), first_line)
        raise FileError(
            f"{path}: column {column.name!r} must be complete; {row} has no time."
        )
    if column.dtype.is_numeric():
        numbers = column.cast(pl.Float64).to_numpy()
        wrong = ~pl.Series(numbers).is_finite()
        if wrong.any():
            raise FileError(
                f"{path}: column {column.name!r} must hold time stamps; "
                f"{_row(wrong, first_line)} is {numbers[wrong.arg_max() or 0]}."
            )
        is_ms = len(numbers) > 0 and float(np.abs(numbers).max()) > _MOST_SECONDS
        if is_ms and float(np.abs(numbers).max()) > 1000 * _MOST_SECONDS:
            raise FileError(
                f"{path}: column {column.name!r} must hold seconds or milliseconds "
                f"since 1970; {numbers[0]:g} is neither: divide it first."
            )
        return np.asarray(numbers / 1000.0 if is_ms else numbers, np.float64), True
    if column.dtype == pl.String:
        column = _parsed(column, path, time_format, first_line)
    elif not column.dtype.is_temporal() or column.dtype in (pl.Time, pl.Duration):
        raise FileError(
            f"{path}: column {column.name!r} must hold time stamps; it holds "
            f"{column.dtype}."
        )
    column = column.cast(pl.Datetime("us", getattr(column.dtype, "time_zone", None)))
    if column.dtype.time_zone is not None:
        return _seconds(column.dt.convert_time_zone("UTC")), True
    if zone is None:
        return _seconds(column), False
    return _seconds(_in_zone(column, zone, path, series)), True


def _parsed(
    column: Any, path: Path, time_format: str | None, first_line: int | None
) -> Any:
    stripped = column.str.strip_chars()
    if time_format is None:
        # One way to write what ISO allows to be written in three.
        stripped = stripped.str.replace(r"^(\d{4}-\d\d-\d\d) ", "${1}T")
        stripped = stripped.str.replace(r"\s*[Zz]$", "+0000")
        stripped = stripped.str.replace(r"\s*([+-]\d\d):?(\d\d)$", "${1}${2}")
        stripped = stripped.str.replace(
            r"(:\d\d(?:\.\d+)?)\s*([+-]\d\d)$", "${1}${2}00"
        )
    formats = (time_format,) if time_format else _FORMATS
    tried = [
        stripped.str.to_datetime(form, time_unit="us", strict=False) for form in formats
    ]
    best = min(tried, key=lambda times: times.null_count())
    if not best.null_count():
        return best
    found = column[best.is_null().arg_max() or 0]
    raise FileError(
        f"{path}: column {column.name!r} must hold time stamps like '2026-11-15 "
        f"08:00:00' or '2026-11-15T08:00:00+01:00'; {_row(best.is_null(), first_line)} "
        f"is {found!r:.60}: for another form give time_format in plant.toml, such "
        "as '%d/%m/%Y %H:%M:%S'."
    )


def _in_zone(column: Any, zone: str, path: Path, series: Any) -> Any:
    import polars as pl

    is_second = _second_comings(column.to_physical().to_numpy(), series)
    which = pl.Series(np.where(is_second, "latest", "earliest"))
    placed = pl.DataFrame({"t": column, "which": which}).select(
        pl.col("t").dt.replace_time_zone(
            zone, ambiguous=pl.col("which"), non_existent="null"
        )
    )["t"]
    if placed.null_count():
        row = int(placed.is_null().arg_max() or 0)
        raise FileError(
            f"{path}: {column[row]} (data row {row + 1}) does not exist in {zone}, "
            "where clocks went forward over it: the stamps are of another zone, or of "
            "none."
        )
    return placed.dt.convert_time_zone("UTC")


def _row(is_wrong: Any, first_line: int | None) -> str:
    """Name the first row that is wrong."""
    row = int(is_wrong.arg_max() or 0)
    return f"data row {row + 1}" if first_line is None else f"line {row + first_line}"


def _second_comings(clock: Ints, series: Any) -> Bools:
    """Return which rows show the hour that comes twice for the second time.

    Where a clock goes back, all rows up to the time it had reached are second comings.
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
    return np.asarray(column.to_physical().to_numpy() / 1e6)
