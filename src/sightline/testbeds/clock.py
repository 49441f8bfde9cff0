"""Time stamps of one's own plant, with a zone or on the plant's own clock."""

from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from sightline.checks import Floats
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
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise FileError(
            f"{path}: timezone {zone!r} is not known; write it like 'Europe/Berlin' or "
            "'UTC'."
        ) from error
    return zone


def seconds_from(
    column: Any, *, path: Path, zone: str | None, time_format: str | None
) -> tuple[Floats, bool]:
    """Return a column of time stamps as seconds since 1970, and whether that is UTC.

    Stamps with an offset, and those of a stated zone, become UTC; the hour that comes
    twice in autumn is told by the order of the rows. Stamps without either stay on the
    plant's own clock.
    """
    import polars as pl

    if column.null_count():
        row = int(column.is_null().arg_max() or 0)
        raise FileError(
            f"{path}: column {column.name!r} must be complete; data row {row + 1} has "
            "no time."
        )
    if column.dtype.is_numeric():
        numbers = column.cast(pl.Float64).to_numpy()
        is_ms = len(numbers) > 0 and float(numbers[0]) > _MOST_SECONDS
        return np.asarray(numbers / 1000.0 if is_ms else numbers, np.float64), True
    if column.dtype == pl.String:
        column = _parsed(column, path, time_format)
    column = column.cast(pl.Datetime("us", getattr(column.dtype, "time_zone", None)))
    if column.dtype.time_zone is not None:
        return _seconds(column.dt.convert_time_zone("UTC")), True
    if zone is None:
        return _seconds(column), False
    return _seconds(_in_zone(column, zone, path)), True


def _parsed(column: Any, path: Path, time_format: str | None) -> Any:
    stripped = column.str.strip_chars()
    if time_format is None:
        # One way to write what ISO allows to be written in three.
        stripped = stripped.str.replace(r"^(\d{4}-\d\d-\d\d) ", "${1}T")
        stripped = stripped.str.replace(r"\s*[Zz]$", "+0000")
        stripped = stripped.str.replace(r"\s*([+-]\d\d):?(\d\d)$", "${1}${2}")
    formats = (time_format,) if time_format else _FORMATS
    for form in formats:
        times = stripped.str.to_datetime(form, time_unit="us", strict=False)
        if not times.null_count():
            return times
    best = stripped.str.to_datetime(formats[0], time_unit="us", strict=False)
    row = int(best.is_null().arg_max() or 0)
    raise FileError(
        f"{path}: column {column.name!r} must hold time stamps like '2026-11-15 "
        f"08:00:00' or '2026-11-15T08:00:00+01:00'; data row {row + 1} is "
        f"{column[row]!r:.60}: for another form give time_format in plant.toml, such "
        "as '%d/%m/%Y %H:%M:%S'."
    )


def _in_zone(column: Any, zone: str, path: Path) -> Any:
    import polars as pl

    # The hour that comes twice: what lies behind an earlier row is its second coming.
    passed = column.cum_max() > column
    which = pl.select(
        pl.when(passed).then(pl.lit("latest")).otherwise(pl.lit("earliest"))
    ).to_series()
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


def _seconds(column: Any) -> Floats:
    return np.asarray(column.to_physical().to_numpy() / 1e6)
