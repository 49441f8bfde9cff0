"""Checks of one tag at a time, over the columns of train and test.

`check_tags` reads every column once. Each check is a function of `TagColumns` that
returns a `Hit` or None; the hits of all tags with one code become one finding.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
import numpy.typing as npt

from sightline.audit.record import (
    LEADS,
    Finding,
    Severity,
    TagFacts,
    TagSummary,
    finding,
)
from sightline.data.arrays import ATTACK, NORMAL, Bools, Floats, Ints
from sightline.data.recording import Recording, Role, Tag
from sightline.data.segments import run_bounds
from sightline.data.zones import local_seconds, stamp
from sightline.progress import Progress, Step, StepKind, silent
from sightline.text import duration, exact, names, plural, share

# Values that historians, loggers and converters write where nothing was measured.
_MAGNITUDES = np.array(
    (
        *(999.0, 9999.0, 99999.0, 999999.0, 9999999.0, 999.9, 9999.9, 999.99, 9999.99),
        *(1e30, 1e31, 1e35, 1e37, 1e38, 9.96921e36, 9.9e37),
        # The largest single, and as text of fewer digits.
        *(3.4028234663852886e38, 3.40282347e38, 3.4028235e38, 3.402823e38),
        *(32767.0, 32766.0, 32768.0, 65535.0, 65534.0, 2147483647.0, 2147483648.0),
        *(4294967295.0, 1.7976931348623157e308),
    )
)
FAULT_CODES = np.concatenate([_MAGNITUDES, -_MAGNITUDES])
_LARGEST_SINGLE = float(np.finfo(np.float32).max)
# The same as single precision stores them.
_STORED_CODES = np.concatenate(
    [FAULT_CODES, np.float32(FAULT_CODES[np.abs(FAULT_CODES) <= _LARGEST_SINGLE])]
)
# A value is far outside if it lies this many widths beyond the usual range, which
# is that from the 1% to the 99% quantile.
_CODE_WIDTHS, _EXTREME_WIDTHS = 2.0, 20.0
# Test lies elsewhere than train if it is this many widths of train away from it.
_PLACE_WIDTHS = 2.0
# More cells than this share are no fault codes but how the tag is.
_MOST_CODES = 0.2
# Impossible extremes are this short, and this few.
_EXTREME_ROWS, _EXTREME_SHARE, _FEW = 3, 1e-4, 5
# A grid needs this many of its points in use, and this share of different values on it;
# a grid that is not one of decimals needs more points.
_DECIMAL_POINTS, _GRID_POINTS, _ON_GRID = 3, 6, 0.98
# Share of the finer table off the coarser grid that makes a difference of resolution.
_OFF_GRID = 0.5
# A tag stands still if it does so for this many rows, and this many times as long as
# ever in train; it must else change in this share of rows.
STILL_ROWS, _STILL_TIMES, _MOVING = 60, 10, 0.2
# Share of rows at the exact limit of a tag that is cut off, and its different values.
_CUT_SHARE, _CUT_VALUES, _CUT_RUNS = 0.01, 50, 3
# A tag is named if on some day more of its attack-free test rows lie outside train.
MOST_OUTSIDE = 0.2
DAY_S = 86_400
# Start-up: within this share of train, this many widths beyond the range of the rest.
_START_SHARE, _START_WIDTHS, _START_ROWS = 0.25, 0.5, 10
# How many tags and cells a sentence lists before it counts the rest.
_MOST_TAGS, _MOST_CELLS = 6, 4
# Columns that are copied at a time: a column of a wide table is slow to read alone.
_COLUMNS_AT_ONCE = 16
# Values of a tag that are sorted at most; of more, evenly spaced ones.
MOST_SORTED = 10_000
# Windows of the outline of a tag.
OUTLINE_WINDOWS = 60
# Differences below this many units of rounding are no difference.
_ROUNDING_UNITS = 8


def columns_of(
    values: npt.NDArray[np.floating],
) -> Iterator[npt.NDArray[np.floating]]:
    """Yield each column of a table, contiguous in memory, in their order."""
    for first in range(0, values.shape[1], _COLUMNS_AT_ONCE):
        yield from np.ascontiguousarray(values[:, first : first + _COLUMNS_AT_ONCE].T)


def thinned(column: npt.NDArray[np.floating]) -> Floats:
    """Return the finite ones of at most `MOST_SORTED` evenly spaced values, sorted."""
    chosen = column[:: -(-len(column) // MOST_SORTED) or 1]
    return np.sort(chosen[np.isfinite(chosen)]).astype(np.float64)


def smallest_step(ordered: Floats, dtype: npt.DTypeLike = np.float64) -> float | None:
    """Return the smallest step between two different values; None if there is none.

    Parameters
    ----------
    ordered : array
        Finite values, ascending.
    dtype : dtype
        The type the values were stored in: smaller differences than a few units of its
        rounding do not count.

    Examples
    --------
    >>> smallest_step(np.array([1.0, 1.0, 1.25, 1.75]))
    0.25
    """
    steps = np.diff(ordered)
    if not len(steps):
        return None
    largest = max(abs(ordered[0]), abs(ordered[-1]))
    steps = steps[steps > _ROUNDING_UNITS * float(np.finfo(dtype).eps) * largest]
    return float(steps.min()) if len(steps) else None


def summary_of(column: npt.NDArray[np.floating]) -> TagSummary:
    """Return range, spread, resolution, missing cells and outline of one column."""
    is_finite = np.isfinite(column)
    n_finite = int(is_finite.sum())
    if not n_finite:
        return TagSummary(
            lowest=None,
            highest=None,
            spread=None,
            resolution=None,
            missing=1.0 if len(column) else 0.0,
        )
    finite = column[is_finite]
    lowest, highest = float(finite.min()), float(finite.max())
    with np.errstate(over="ignore", invalid="ignore"):
        spread = float(np.std(finite, dtype=np.float64))
    # The lowest and highest value of each window, to a 1000th of the range; a window
    # without a finite value is left out.
    edges = np.linspace(0, len(column), OUTLINE_WINDOWS + 1)
    starts = np.unique(edges[:-1].astype(np.int64))
    low = np.minimum.reduceat(np.where(is_finite, column, np.inf), starts)
    high = np.maximum.reduceat(np.where(is_finite, column, -np.inf), starts)
    span = highest - lowest
    digits = 3 - int(np.floor(np.log10(span))) if 0 < span < np.inf else 6
    return TagSummary(
        lowest=lowest,
        highest=highest,
        spread=spread if np.isfinite(spread) else None,
        resolution=smallest_step(thinned(column), column.dtype),
        missing=1 - n_finite / len(column),
        outline=tuple(
            (round(a, digits), round(b, digits))
            for a, b in zip(low.tolist(), high.tolist(), strict=True)
            if a <= b
        ),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class TagInTable:
    """One tag in one table.

    Parameters
    ----------
    table : str
        ``"train"`` or ``"test"``.
    values : array of shape (n_rows,)
        float32 or float64, nan where a cell is missing.
    recording : Recording
        The table, for times, breaks and labels.
    """

    table: str
    values: npt.NDArray[np.floating]
    recording: Recording

    @cached_property
    def ordered(self) -> Floats:
        """Some of the finite values, sorted."""
        return thinned(self.values)

    @cached_property
    def different(self) -> Floats:
        """The different ones among `ordered`."""
        return np.unique(self.ordered)

    @cached_property
    def change_bounds(self) -> tuple[Ints, Ints]:
        """First row, and row past the end, of each run of equal finite values."""
        values = self.values
        begins = np.empty(len(values), np.bool_)
        np.not_equal(values[1:], values[:-1], out=begins[1:])
        if len(values):
            begins[self.recording.breaks] = True
        starts = np.flatnonzero(begins)
        return starts, np.append(starts[1:], len(values))

    def cells(self, rows: Ints) -> list[str]:
        """Return the first of some rows with their times."""
        time, zone = self.recording.time, self.recording.timezone
        return [
            f"{self.table} row {row:,}"
            + ("" if time is None else f" ({stamp(float(time[row]), zone)})")
            for row in rows[:_MOST_CELLS].tolist()
        ]


@dataclass(frozen=True, kw_only=True, eq=False)
class TagColumns:
    """One tag in both tables.

    Parameters
    ----------
    tag : Tag
        The tag.
    train, test : TagInTable
        Its values.
    is_attack : array of shape (n_test,)
        Which rows of test are attacks.
    days : Days
        The days of test.
    """

    tag: Tag
    train: TagInTable
    test: TagInTable
    is_attack: Bools
    days: "Days"

    @cached_property
    def outside(self) -> dict[str, float]:
        """Share of attack-free test rows outside train's range, for each day."""
        return self.days.outside(self.train.values, self.test.values)

    @property
    def columns(self) -> tuple[TagInTable, ...]:
        """Both columns; that of test where all rows of train are among its own."""
        is_one_record = self.test.recording.parts > 1
        return (self.test,) if is_one_record else (self.train, self.test)

    @cached_property
    def usual(self) -> tuple[float, float] | None:
        """Lowest and highest usual value of both tables, fault codes left out."""
        values = np.concatenate([self.train.ordered, self.test.ordered])
        values = values[~np.isin(values, _STORED_CODES)]
        if not len(values):
            return None
        low, high = np.quantile(values, [0.01, 0.99])
        return float(low), float(high)

    @cached_property
    def rounding(self) -> "Hit | None":
        """What `check_resolution` found."""
        return check_resolution(self)


@dataclass(frozen=True, eq=False)
class Days:
    """The days of test, by the plant's clock; `of` makes them.

    Parameters
    ----------
    names : list of str
        Of each day; one without a name if there is no time.
    number : array of int, shape (n_test,)
        The day of each row; -1 where it is not attack-free.
    is_whole : array of bool, shape (n_days,)
        Days with at least half as many attack-free rows as the usual day.
    """

    names: list[str]
    number: Ints
    is_whole: Bools

    @classmethod
    def of(cls, test: Recording) -> "Days":
        """Return the days of a recording."""
        names, number = [""], np.zeros(test.n_steps, np.int64)
        if test.time is not None and test.n_steps:
            day = local_seconds(test.time, test.timezone) // DAY_S
            first, number = np.unique(day, return_inverse=True)
            names = [stamp(float(one) * DAY_S)[:10] for one in first]
        number = np.where(test.labels == NORMAL, number, -1)
        counts = np.bincount(number[number >= 0], minlength=len(names))
        usual = np.median(counts[counts > 0]) if counts.any() else 0
        return cls(names, number, (counts >= usual / 2) & (counts > 0))

    def outside(
        self, train: npt.NDArray[np.floating], test: npt.NDArray[np.floating]
    ) -> dict[str, float]:
        """Return the share of attack-free rows outside train's range, by day."""
        known = train[np.isfinite(train)]
        is_free = (self.number >= 0) & np.isfinite(test)
        if not len(known) or not is_free.any():
            return {}
        is_out = is_free & ((test < known.min()) | (test > known.max()))
        n_days = len(self.names)
        rows = np.bincount(self.number[is_free], minlength=n_days)
        out = np.bincount(self.number[is_out], minlength=n_days)
        return {
            self.names[k]: round(float(out[k] / rows[k]), 4)
            for k in np.flatnonzero(rows).tolist()
        }


@dataclass(frozen=True, kw_only=True)
class Hit:
    """What a check found in one tag.

    Parameters
    ----------
    text : str
        What is wrong with it: a phrase that follows the tag's name.
    cells : sequence of str
        Where.
    weight : float
        Hits with more weight are listed first.
    severity : Severity, optional
        If it is not that of the code.
    details : tuple of float
        What the remedy needs: the codes, or rows and seconds to leave out.
    """

    text: str
    cells: Sequence[str] = ()
    weight: float = 0.0
    severity: Severity | None = None
    details: tuple[float, ...] = ()


def grid_step(column: TagInTable) -> float | None:
    """Return the step of the grid on which the values lie; None if there is none.

    Tries decimals from whole numbers to 1e-6, and the smallest step that occurs.
    """
    different = column.different
    if len(different) < _DECIMAL_POINTS:
        return None
    smallest = smallest_step(different, column.values.dtype)
    if smallest is None:
        return None
    candidates = {smallest: _GRID_POINTS}
    candidates |= {10.0**-d: _DECIMAL_POINTS for d in range(7)}
    least = 100 * float(np.finfo(column.values.dtype).eps) * np.abs(different).max()
    for step in sorted((c for c in candidates if c >= least), reverse=True):
        points = np.round((different - different[0]) / step)
        is_on_grid = _off_grid(different, different[0], step).mean() <= 1 - _ON_GRID
        if is_on_grid and len(np.unique(points)) >= candidates[step]:
            return step
    return None


def _off_grid(values: Floats, anchor: float, step: float) -> Bools:
    """Return which values do not lie on a grid, within a tenth of its step."""
    steps = (values - anchor) / step
    return np.asarray(np.abs(steps - np.round(steps)) > 0.1)


def check_resolution(tag: TagColumns) -> Hit | None:
    """Find a tag that is rounded in one table and not, or less, in the other.

    It is a warning if the coarser step is more than half the spread of train, or of
    its changes from row to row: then rounding is as large as what a detector learns.
    """
    for coarse, fine in ((tag.test, tag.train), (tag.train, tag.test)):
        step = grid_step(coarse)
        # An operator's few set points say nothing about the decimals of an export.
        if step is None or len(fine.different) < 3 * _GRID_POINTS:
            continue
        if _off_grid(fine.different, coarse.different[0], step).mean() < _OFF_GRID:
            continue
        finite = tag.train.values[np.isfinite(tag.train.values)].astype(np.float64)
        spread, change = float(finite.std()), float(np.diff(finite).std())
        is_large = step > 0.5 * min(spread, change)
        return Hit(
            text=f" ({coarse.table} in steps of {step:g}, spread of "
            f"train {spread:.2g})",
            weight=step / spread if spread else 0.0,
            severity=None if is_large else Severity.NOTE,
        )
    return None


def check_codes(tag: TagColumns) -> Hit | None:
    """Find fault codes: known values far outside the usual range, not approached.

    A code is a value of `FAULT_CODES` that lies more than two widths of the usual range
    outside of it, and that is reached from within the range by one jump.
    """
    codes: dict[float, int] = {}
    cells: list[str] = []
    for column in tag.columns:
        outside = _far_outside(column.values, tag.usual, _CODE_WIDTHS)
        if outside is None:
            continue
        rows = np.flatnonzero(outside)
        values = column.values[rows].astype(np.float64)
        is_code = np.isin(values, _STORED_CODES)
        rows, values = rows[is_code], values[is_code]
        if not 0 < len(rows) <= _MOST_CODES * len(column.values):
            continue
        is_far = np.zeros(len(column.values), np.bool_)
        is_far[rows] = True
        keep = np.isin(rows, _jumped(column.values, is_far, tag.usual))
        for code in values[keep].tolist():
            listed = float(FAULT_CODES[np.abs(FAULT_CODES - code).argmin()])
            codes[listed] = codes.get(listed, 0) + 1
        cells += column.cells(rows[keep])
    if not codes:
        return None
    said = [f"{exact(code)} in {plural(n, 'cell')}" for code, n in codes.items()]
    return Hit(
        text=f" holds {names(said)}: {names(cells, _MOST_CELLS)}",
        cells=cells,
        weight=float(sum(codes.values())),
        details=tuple(codes),
    )


def _far_outside(
    values: npt.NDArray[np.floating], usual: tuple[float, float] | None, widths: float
) -> Bools | None:
    """Return which values lie far outside the usual range; None if none does."""
    if usual is None:
        return None
    low, high = usual
    margin = widths * (high - low) or max(10 * abs(low), 1.0)
    outside = (values < low - margin) | (values > high + margin)
    return outside if outside.any() else None


def _jumped(
    values: npt.NDArray[np.floating],
    is_far: Bools,
    usual: tuple[float, float] | None,
    most_rows: float = np.inf,
) -> Ints:
    """Return the far rows whose run begins and ends with a jump from the usual range.

    A run at an end of the table needs the other jump only; a missing neighbour counts
    as usual.
    """
    low, high = usual or (0.0, 0.0)
    width = high - low or max(abs(low), 1.0)
    starts, stops = run_bounds(is_far)
    is_usual = ~((values < low - width) | (values > high + width))
    before = (starts == 0) | is_usual[np.maximum(starts - 1, 0)]
    after = (stops == len(values)) | is_usual[np.minimum(stops, len(values) - 1)]
    keep = before & after & (stops - starts <= most_rows)
    rows = [np.arange(a, b) for a, b in zip(starts[keep], stops[keep], strict=True)]
    return np.concatenate([np.empty(0, np.int64), *rows])


def check_extremes(tag: TagColumns) -> Hit | None:
    """Find a few short jumps to values that the tag is nowhere near otherwise.

    They lie more than `_EXTREME_WIDTHS` widths of the usual range outside of it, last
    at most three rows, are no known fault codes, and are not part of an attack. A tag
    that hardly ever moves has no usual range, so nothing is said of it.
    """
    if tag.usual is None or tag.usual[0] == tag.usual[1]:
        return None
    cells: list[str] = []
    n_cells, farthest = 0, 0.0
    for column in tag.columns:
        is_far = _far_outside(column.values, tag.usual, _EXTREME_WIDTHS)
        if is_far is None:
            continue
        is_far &= ~np.isin(column.values, _STORED_CODES)
        if column is tag.test:
            is_far &= ~tag.is_attack
        rows = _jumped(column.values, is_far, tag.usual, _EXTREME_ROWS)
        if not 0 < len(rows) <= max(_FEW, _EXTREME_SHARE * len(column.values)):
            continue
        n_cells += len(rows)
        farthest = max(column.values[rows].tolist(), key=abs)
        cells += column.cells(rows)
    if not cells:
        return None
    low, high = tag.usual
    return Hit(
        text=f" ({plural(n_cells, 'cell')} such as {farthest:.4g}, usual "
        f"range {low:.4g} to {high:.4g}): {names(cells, _MOST_CELLS)}",
        cells=cells,
        weight=abs(farthest) / (high - low),
    )


def check_single_precision(tag: TagColumns) -> Hit | None:
    """Find finite values that single precision cannot hold."""
    cells: list[str] = []
    for column in tag.columns:
        if column.values.dtype == np.float32:
            continue
        is_large = np.isfinite(column.values) & (
            np.abs(column.values) > _LARGEST_SINGLE
        )
        is_large &= ~np.isin(column.values, FAULT_CODES)
        if is_large.any():
            cells += column.cells(np.flatnonzero(is_large))
    if not cells:
        return None
    return Hit(
        text=f": {names(cells, _MOST_CELLS)}",
        cells=cells,
    )


def check_still(tag: TagColumns) -> Hit | None:
    """Find a tag that normally moves and stands still far longer than ever in train.

    In test, stretches with an attack in them do not count; in train, the longest
    stretch is compared with the second longest.
    """
    starts, stops = tag.train.change_bounds
    lengths = np.sort(stops - starts)
    is_moving = len(lengths) >= max(_MOVING * len(tag.train.values), 2)
    # Rounded values stand still between two steps.
    if not is_moving or tag.rounding is not None:
        return None
    found: list[tuple[TagInTable, int, int]] = []
    if lengths[-1] > _STILL_TIMES * lengths[-2] and lengths[-1] >= STILL_ROWS:
        at = int(np.argmax(stops - starts))
        found.append((tag.train, int(starts[at]), int(lengths[-1])))
    longest = int(lengths[-2] if found else lengths[-1])
    starts, stops = tag.test.change_bounds
    attacked = np.append(0, np.cumsum(tag.is_attack))
    is_free = attacked[stops] == attacked[starts]
    still = np.where(is_free, stops - starts, 0)
    if len(still) and still.max() >= max(STILL_ROWS, _STILL_TIMES * longest):
        at = int(np.argmax(still))
        found.append((tag.test, int(starts[at]), int(still[at])))
    found = [one for one in found if np.isfinite(one[0].values[one[1]])]
    # What stands still in a record that is judged in parts does so in both tables.
    found = found[-len(tag.columns) :]
    if not found:
        return None
    cells = [one[0].cells(np.array([one[1]]))[0] for one in found]
    said = []
    for (column, _, rows), cell in zip(found, cells, strict=True):
        step_s = column.recording.step_s
        lasting = f", {duration(rows * step_s)}" if step_s else ""
        said.append(f"{rows:,} rows{lasting} from {cell}")
    return Hit(
        text=f" ({names(said)}; else at most {longest:,} rows)",
        cells=cells,
        weight=float(max(rows for *_, rows in found)),
    )


def check_cut(tag: TagColumns) -> Hit | None:
    """Find a tag that rests at its exact highest or lowest value, as if cut off.

    Zero does not count: a flow is zero while its pump stands.
    """
    said = []
    for column in tag.columns:
        ordered = column.ordered
        if len(column.different) < _CUT_VALUES:
            continue
        for limit, inner in ((ordered[-1], -1), (ordered[0], 1)):
            share = float(np.mean(ordered == limit))
            beside = column.different[inner - 1 if inner < 0 else inner]
            near = abs(beside - limit) <= 0.01 * (ordered[-1] - ordered[0])
            if limit == 0 or share < _CUT_SHARE or not near:
                continue
            is_limit = column.values == limit
            beyond = column.values > limit if inner < 0 else column.values < limit
            if not beyond.any() and len(run_bounds(is_limit)[0]) >= _CUT_RUNS:
                said.append(f"{share:.0%} of {column.table} at {limit:.6g}")
    if not said:
        return None
    return Hit(text=f" ({names(said)})")


def check_start(tag: TagColumns) -> Hit | None:
    """Find a tag that begins train far outside the range of the rest of train.

    The rest is what comes after the first quarter. Its usual range is that from the 1%
    to the 99% quantile; the first rows must lie more than half its width outside.
    """
    values = tag.train.values
    n_first = int(_START_SHARE * len(values))
    rest = thinned(values[n_first:])
    if n_first < 4 * _START_ROWS or len(np.unique(rest)) < _CUT_VALUES:
        return None
    low, high = (float(q) for q in np.quantile(rest, [0.01, 0.99]))
    first = float(np.median(values[:_START_ROWS]))
    margin = _START_WIDTHS * (high - low)
    if not (first < low - margin or first > high + margin):
        return None
    is_usual = (values[:n_first] >= low) & (values[:n_first] <= high)
    starts, stops = run_bounds(is_usual)
    settled = starts[stops - starts >= _START_ROWS]
    if not len(settled) or settled[0] < _START_ROWS:
        return None
    rows = int(settled[0])
    step_s = tag.train.recording.step_s or 0.0
    spreads = [float(np.nanstd(part, dtype=np.float64)) for part in (values, rest)]
    return Hit(
        text=f" (begins at {first:.4g}, later {low:.4g} to {high:.4g}; "
        f"spread {spreads[0]:.3g}, without the start {spreads[1]:.3g})",
        cells=tag.train.cells(np.array([0])),
        weight=float(rows),
        details=(rows, rows * step_s),
    )


def check_place(tag: TagColumns) -> Hit | None:
    """Find a sensor that test has far outside all that train has, as in another unit.

    The usual range of test, from its 1% to its 99% quantile, lies more than
    `_PLACE_WIDTHS` widths of the whole range of train above or below it.
    """
    train, test = tag.train.ordered, tag.test.ordered
    if tag.tag.role is not Role.SENSOR or not len(train) or not len(test):
        return None
    low, high = (float(value) for value in np.quantile(test, [0.01, 0.99]))
    first, last = float(train[0]), float(train[-1])
    distance = max(low - last, first - high)
    if not (first < last and distance > _PLACE_WIDTHS * (last - first)):
        return None
    return Hit(
        text=f" ({first:.4g} to {last:.4g} in train, {low:.4g} to {high:.4g} in test)",
        weight=distance / (last - first),
    )


def check_outside(tag: TagColumns) -> Hit | None:
    """Find a tag with many attack-free test rows outside train's range on some day.

    Days with few attack-free rows do not count.
    """
    whole = [tag.days.names[k] for k in np.flatnonzero(tag.days.is_whole).tolist()]
    shares = {day: tag.outside[day] for day in whole if day in tag.outside}
    many = [day for day, part in shares.items() if part > MOST_OUTSIDE]
    if not many:
        return None
    worst = max(many, key=lambda day: shares[day])
    part, n_days = shares[worst], len(shares)
    where = "" if n_days == 1 else f" on {worst}, {len(many)} of {n_days} days"
    return Hit(text=f" ({share(part)}{where})", weight=part)


TAG_CHECKS: dict[str, Callable[[TagColumns], Hit | None]] = {
    "SL221": lambda tag: tag.rounding,
    "SL222": check_codes,
    "SL223": check_extremes,
    "SL224": check_single_precision,
    "SL228": check_start,
    "SL229": check_still,
    "SL230": check_cut,
    "SL231": check_place,
    "SL232": check_outside,
}


def check_tags(
    train: Recording, test: Recording, progress: Progress = silent
) -> tuple[tuple[TagFacts, ...], list[Finding], Floats]:
    """Check all tags, reading every column once.

    Parameters
    ----------
    train, test : Recording
        The same tags in the same order.
    progress : callable, optional
        Called with a `Step` for each tag.

    Returns
    -------
    facts : tuple of TagFacts
        What each tag holds, in the order of the columns.
    findings : list of Finding
        Of all checks of single tags.
    unusual : array of shape (n_test,)
        How far the tags of each test row lie outside their range in train: the mean
        over tags of the excess in widths of that range, at most 1 each. The range is
        that from the 0.5% to the 99.5% quantile.
    """
    facts: list[TagFacts] = []
    hits: dict[str, list[tuple[str, Hit]]] = {code: [] for code in TAG_CHECKS}
    is_attack, days = np.asarray(test.labels == ATTACK), Days.of(test)
    unusual = np.zeros(test.n_steps)
    for tag, first, second in zip(
        train.tags, columns_of(train.values), columns_of(test.values), strict=True
    ):
        progress(Step(StepKind.AUDITING, len(facts), len(train.tags), tag.name))
        columns = TagColumns(
            tag=tag,
            train=TagInTable(table="train", values=first, recording=train),
            test=TagInTable(table="test", values=second, recording=test),
            is_attack=is_attack,
            days=days,
        )
        facts.append(
            TagFacts(
                name=tag.name,
                role=str(tag.role),
                stage=tag.stage,
                unit=tag.unit,
                train=summary_of(first),
                test=summary_of(second),
                low=tag.low,
                high=tag.high,
                outside=columns.outside,
            )
        )
        for code, check in TAG_CHECKS.items():
            if (hit := check(columns)) is not None:
                hits[code].append((tag.name, hit))
        if len(columns.train.ordered):
            low, high = np.quantile(columns.train.ordered, [0.005, 0.995])
            if low < high:
                # A missing cell is no excess.
                excess = np.maximum(low - second, second - high) / (high - low)
                excess = np.clip(np.nan_to_num(excess, copy=False), 0, 1)
                unusual += excess / len(train.tags)
    findings = [one for code in hits for one in _findings(code, hits[code], len(facts))]
    return tuple(facts), findings, unusual


def _findings(
    code: str, hits: Sequence[tuple[str, Hit]], n_tags: int
) -> Iterator[Finding]:
    """Yield one finding for the hits of a code in each severity, the heaviest first."""
    groups: dict[Severity | None, list[tuple[str, Hit]]] = {}
    for tag, hit in sorted(hits, key=lambda one: -one[1].weight):
        groups.setdefault(hit.severity, []).append((tag, hit))
    for severity, group in groups.items():
        # One tag that drifts is no start-up of the plant.
        if code == "SL228" and len(group) < min(2, n_tags):
            continue
        has = f"{plural(len(group), 'tag')} {'has' if len(group) == 1 else 'have'}"
        listed = names([f"{tag}{hit.text}" for tag, hit in group], _MOST_TAGS)
        details = [hit.details for _, hit in group]
        yield finding(
            code,
            f"{LEADS[code].format(has)}: {listed}.",
            severity=severity,
            table="train" if code == "SL228" else "",
            tags=[tag for tag, _ in group],
            cells=[cell for _, hit in group for cell in hit.cells],
            remedy=_remedy(code, details),
            missing_values=sorted({*chain(*details)}) if code == "SL222" else (),
        )


def _remedy(code: str, details: Sequence[tuple[float, ...]]) -> str:
    """Return what to write into plant.toml or tags.csv, by the details of the hits."""
    ignore = "give such a tag role ignore in tags.csv"
    match code:
        case "SL221":
            return (
                'Write train_decimals = "as-test" into plant.toml (for BATADAL an '
                "option of the testbed), or export both tables alike."
            )
        case "SL222":
            listed = ", ".join(map(exact, sorted({*chain(*details)})))
            return f"Write missing_values = [{listed}] into plant.toml."
        case "SL228":
            seconds = max(seconds for _, seconds in details)
            if not seconds:
                rows = max(rows for rows, _ in details)
                return f"Leave out the first {rows:,.0f} rows of train."
            unit = 3600 if seconds > 3600 else 60
            trim = int(np.ceil(seconds / unit) * unit)
            return (
                f"Write trim_start_s = {trim} into plant.toml, or open the testbed "
                f"with trim_s={trim}: this leaves out {duration(trim)}."
            )
        case "SL223" | "SL224":
            return f"Correct these cells in the export, or {ignore}."
        case "SL231":
            return (
                "Export both tables in one unit; if the plant runs elsewhere now, "
                "learn from a later time."
            )
        case "SL232":
            return f"Learn from a later time, or {ignore} if nothing depends on it."
        case _:
            return f"Check the sensor; {ignore} if it was out of service."
