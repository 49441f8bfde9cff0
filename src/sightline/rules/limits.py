"""Budgets, limits from attack-free rows alone, and what they promise.

A limit is set on the *trace* of a rule over commissioning rows. How many alarms a limit
makes is not monotone in it (two alarms may grow into one), so candidates are scanned
from the highest down, and what counts is the most that a higher one has made.
The paper's rule, a quantile of train energy, is here too: `QuantileRule`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Bools, Floats, Ints, check_series
from sightline.errors import StreamError
from sightline.metrics.alarm_load import Delays, counted, episodes_of

_SPANS = {"hour": 24.0, "day": 1.0, "week": 1 / 7, "month": 1 / 30}
_TEXT = re.compile(
    r"\s*(?P<count>\d+(?:\.\d+)?)\s*(?:/|a|per)\s*(?P<span>[a-z]+)"
    r"\s*(?:,\s*(?P<share>\d+(?:\.\d+)?)\s*%)?\s*",
    re.IGNORECASE,
)
# A budget that allows fewer alarms than this over the commissioning rows is refused,
LEAST_ALARMS: Final = 3.0
# uncertain under this.
FEW_ALARMS: Final = 6.0
# Peaks at whose level the spread of counts is measured.
N_PEAKS: Final = 60
# A limit falls at most by a power of the budget: so many times the usual one, within
# these bounds.
STEEPER: Final = 2.0
STEEPEST: Final = (1.0, 5.0)
# A limit is looked for where alarms cost at most so many budgets.
MOST_BUDGETS: Final = 20.0
# A limit that moves by more than this within a fifth of the budget hangs on few peaks.
MOST_SWING: Final = 3.0
SWING: Final = (0.8, 1.2)
# Ratio of the ranks of neighbouring candidates.
RANK_RATIO: Final = 1.05
# Counts vary at least this many times as much as a Poisson count.
LEAST_SPREAD: Final = 2.0
# Limit of a trace that is 0 in every commissioning row.
SMALLEST_LIMIT: Final = 1e-100
# Interval of a promise.
PROMISE_ENDS: Final = (0.05, 0.95)


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How many false alarms are accepted.

    Parameters
    ----------
    per_day : float
        Alarms a day of attack-free time. ISA-18.2 calls up to 144 a day manageable for
        one operator, from all sources together.
    share : float
        Share of attack-free time in alarm.

    Examples
    --------
    >>> Budget.parse("1/week").share
    0.01
    >>> str(Budget.parse("6/day,2%"))
    '6/day,2%'
    """

    per_day: float = 6.0
    share: float = 0.01

    def __post_init__(self) -> None:
        """Refuse a budget that no rule can keep or every rule keeps."""
        if not 0 < self.per_day < 1e6:
            raise StreamError(
                f"A budget must allow more than 0 alarms a day; got {self.per_day:g}."
            )
        if not 0 < self.share < 1:
            raise StreamError(
                "A budget's share of time in alarm must lie between 0% and 100%; got "
                f"{100 * self.share:g}%."
            )

    @classmethod
    def parse(cls, text: "str | Budget") -> "Budget":
        """Return a budget from text such as ``6/day,1%`` or ``1/week``."""
        if isinstance(text, Budget):
            return text
        match = _TEXT.fullmatch(str(text))
        span = match["span"].lower().rstrip("s") if match else ""
        if match is None or span not in _SPANS:
            raise StreamError(
                f"The budget {text!r} is not understood: write alarms and a span, and "
                "if you like the share of time in alarm, such as 6/day, 1/week or "
                "6/day,1%."
            )
        share = {} if match["share"] is None else {"share": float(match["share"]) / 100}
        return cls(per_day=float(match["count"]) * _SPANS[span], **share)

    def __str__(self) -> str:
        """Return the text that `parse` reads."""
        weekly = self.per_day * 7
        if self.per_day < 1 and abs(weekly - round(weekly)) < 1e-9:
            return f"{round(weekly)}/week,{100 * self.share:.12g}%"
        return f"{self.per_day:.12g}/day,{100 * self.share:.12g}%"


@dataclass(frozen=True, kw_only=True)
class QuantileRule:
    """Alarm if the energy exceeds a quantile of normal energy.

    With quantile 0.99 on train energy this is the paper's controlled Stage-2 probe:
    it does not promise a false-alarm rate of 1% on the test trace.

    Parameters
    ----------
    threshold : float
        Energy above which the rule is in alarm.
    quantile : float
        Quantile of normal energy at which it was set, in [0, 1].

    Examples
    --------
    >>> rule = QuantileRule.from_normal([0.0, 1.0, 2.0, 3.0, 4.0], quantile=0.75)
    >>> rule
    QuantileRule(threshold=3.0, quantile=0.75)
    """

    threshold: float
    quantile: float

    @classmethod
    def from_normal(
        cls, energy: npt.ArrayLike, *, quantile: float = 0.99
    ) -> "QuantileRule":
        """Return a rule with its threshold at a quantile of normal energy.

        Parameters
        ----------
        energy : array-like of shape (n_steps,)
            Energy of normal steps; at least one.
        quantile : float
            In [0, 1]; interpolated linearly between steps.

        Raises
        ------
        StreamError
            If there is no step, or the quantile is not in [0, 1].

        Examples
        --------
        >>> QuantileRule.from_normal([0.0, 1.0, 2.0], quantile=0.75).threshold
        1.5
        """
        normal = check_series(energy, "energy")
        if len(normal) == 0:
            raise StreamError("`energy` must have at least one normal step.")
        if not 0 <= quantile <= 1:
            raise StreamError(f"`quantile` must lie in [0, 1]; got {quantile}.")
        return cls(threshold=float(np.quantile(normal, quantile)), quantile=quantile)

    def alarms(self, energy: Floats) -> Bools:
        """Return the steps with energy above the threshold, as booleans."""
        return np.asarray(energy) > self.threshold


# --- Limits ---------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Trace:
    """A rule's trace over commissioning rows.

    Parameters
    ----------
    values : array of shape (n_rows,)
        The trace, in its cross-fitted form.
    breaks : array of int
        Rows at which a new window begins.
    days : float
        Days of all rows.
    delays : Delays
        Of the rule.
    """

    values: Floats
    breaks: Ints
    days: float
    delays: Delays

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.values)

    def part(self, start: int, stop: int) -> "Trace":
        """Return rows [start, stop)."""
        inside = self.breaks[(self.breaks > start) & (self.breaks < stop)] - start
        return Trace(
            values=self.values[start:stop],
            breaks=np.append(0, inside),
            days=self.days * (stop - start) / self.n_rows,
            delays=self.delays,
        )

    def cost_above(self, limit: float) -> tuple[int, float]:
        """Return how many alarms a limit makes, and the share of time in alarm."""
        every = np.ones(self.n_rows, np.bool_)
        episodes = episodes_of(self.values > limit, self.delays, self.breaks)
        counts, _, rows = counted(episodes, every, self.delays.unit)
        return int(counts.sum()), float(rows.sum() / self.n_rows)


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A limit for a budget.

    Parameters
    ----------
    value : float
        The limit.
    alarms : float
        Alarms it makes on commissioning rows.
    share : float
        Share of commissioning time in alarm.
    interval : pair of float, optional
        Where it may lie (90%), for the number of alarms that set it is a random one.
        None in rules of earlier versions.
    swing : float, optional
        By how much the largest peaks alone would move it within `SWING` of the budget;
        over `MOST_SWING` a few of them decide.
    """

    value: float
    alarms: float
    share: float
    interval: tuple[float, float] | None = None
    swing: float | None = None


class _Scan:
    """Alarms over candidate levels, from the highest down.

    Candidates are midpoints between neighbouring order statistics of the trace, so that
    no row equals a limit and rounding flips nothing. Ranks grow by a ratio.
    """

    def __init__(self, trace: Trace, share: float = 0.0) -> None:
        self.trace = trace
        n = trace.n_rows
        # No limit that keeps to the share is exceeded by more rows than these.
        most = min(n, int(max(0.2, share) * n) + 100)
        top = np.argpartition(trace.values, n - most)[n - most :]
        self.order = top[np.argsort(-trace.values[top], kind="stable")]
        self.levels = trace.values[self.order]

    def ranks(self) -> Iterator[int]:
        """Yield how many of the largest rows exceed each candidate."""
        rank = 1
        while rank < len(self.levels):
            if self.levels[rank] == self.levels[rank - 1]:
                rank += 1  # rows that are equal exceed together
                continue
            yield rank
            rank = max(rank + 1, int(rank * RANK_RATIO))

    def limit(self, rank: int) -> float:
        """Return the limit that the `rank` largest rows exceed."""
        if rank == 0:
            return max(float(self.levels[0]) * (1 + 1e-9), SMALLEST_LIMIT)
        low, high = float(self.levels[rank]), float(self.levels[rank - 1])
        return low + 0.5 * (high - low)

    def cost(self, rank: int) -> tuple[int, float]:
        """Return alarms and share of time where the `rank` largest rows exceed."""
        delays = self.trace.delays
        if delays.on > 1:
            return self.trace.cost_above(self.limit(rank))
        starts, lasts = self.clusters(rank)
        rows = lasts - starts + 1
        n_alarms = len(starts) + int(np.sum(rows // delays.unit))
        return n_alarms, float(rows.sum() / self.trace.n_rows)

    def clusters(self, rank: int) -> tuple[Ints, Ints]:
        """Return first and last row of each run of exceedances, joined over `off`."""
        places = np.sort(self.order[:rank])
        return clusters_of(places, self.trace.breaks, self.trace.delays.off)

    def peaks(self) -> tuple[int, Floats]:
        """Return the rank with `N_PEAKS` clusters (or the most), and their peaks."""
        rank, starts, lasts = 0, np.empty(0, np.int64), np.empty(0, np.int64)
        for candidate in self.ranks():
            first, last = self.clusters(candidate)
            if len(first) > len(starts):
                rank, starts, lasts = candidate, first, last
            if len(starts) >= N_PEAKS:
                break
        values = self.trace.values
        bounds = np.stack([starts, lasts + 1], axis=1)
        return rank, np.array([values[a:b].max() for a, b in bounds])


def clusters_of(places: Ints, breaks: Ints, off: int) -> tuple[Ints, Ints]:
    """Return first and last row of each run of exceedances, joined over `off` rows.

    Parameters
    ----------
    places : array of int
        Rows that exceed, rising.
    breaks : array of int
        Rows at which a new window begins.
    off : int
        Rows without an exceedance that one alarm may have within it.

    Examples
    --------
    >>> clusters_of(np.array([1, 3, 9, 10]), np.array([0, 10]), off=2)
    (array([ 1,  9, 10]), array([ 3,  9, 10]))
    """
    run = np.searchsorted(breaks, places, side="right")
    is_new = np.ones(len(places), np.bool_)
    is_new[1:] = (np.diff(places) > off + 1) | (np.diff(run) > 0)
    ends = np.append(np.flatnonzero(is_new)[1:], len(places)) - 1
    return places[is_new], places[ends[: is_new.sum()]]


class LimitCurve:
    """The limit as a function of the budget: continuous, and nowhere steep.

    The cost of a limit is the larger of alarms over those allowed and share of time
    over that allowed. From the highest limit down, the first at which the cost is
    larger than ever before are joined by straight lines, in logarithms. Where the line
    falls `STEEPER` times as steeply as it usually does (median, up to `MOST_BUDGETS`),
    as between a handful of glitches and what is usual, the limit is lowered until it
    does not.

    Parameters
    ----------
    trace : Trace
        Of commissioning rows.
    budget : Budget
        Alarms a day and share of time.
    """

    def __init__(self, trace: Trace, budget: Budget) -> None:
        scan, allowed = _Scan(trace, budget.share), budget.per_day * trace.days
        self.highest = scan.limit(0)
        costs, limits = [0.0], [self.highest]
        for rank in scan.ranks():
            n_alarms, share = scan.cost(rank)
            cost = max(n_alarms / allowed, share / budget.share)
            if cost > costs[-1]:
                costs.append(cost)
                limits.append(max(scan.limit(rank), SMALLEST_LIMIT))
            if cost > MOST_BUDGETS:
                break
        self._costs, self._logs = np.log(costs[1:]), np.log(limits[1:])
        self._steepest = STEEPEST[0]
        if len(costs) > 2:
            grid = np.linspace(0, np.log(MOST_BUDGETS), N_PEAKS)
            falls = -np.diff(np.interp(grid, self._costs, self._logs)) / grid[1]
            self._steepest = float(np.clip(STEEPER * np.median(falls), *STEEPEST))

    def peaks_at(self, budgets: float) -> float:
        """Return the limit that the peaks alone give, for some budgets."""
        if not len(self._costs) or np.log(budgets) < self._costs[0]:
            return self.highest
        return float(np.exp(np.interp(np.log(budgets), self._costs, self._logs)))

    def at(self, budgets: float = 1.0) -> float:
        """Return the limit for some budgets; 1 is the one that was given."""
        far = self._costs - np.log(budgets)
        lowered = (self._logs + self._steepest * far)[far >= 0]
        lowest = float(np.exp(lowered.min())) if len(lowered) else np.inf
        return min(self.peaks_at(budgets), lowest)


def set_limit(trace: Trace, budget: Budget) -> Limit:
    """Return the limit for a budget; see `LimitCurve`.

    Its interval is where limits for the ends of the 90% interval of a count lie that
    varies `LEAST_SPREAD` times as much as a Poisson count.

    Parameters
    ----------
    trace : Trace
        Of commissioning rows.
    budget : Budget
        Alarms a day and share of time.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> trace = Trace(values=rng.exponential(size=20_000), days=5.0,
    ...               breaks=np.zeros(1, np.int64), delays=Delays(off=5, unit=60))
    >>> limit = set_limit(trace, Budget(per_day=6))
    >>> low, high = limit.interval
    >>> low < limit.value < high, limit.alarms <= 30
    (True, True)
    """
    from scipy.special import gammaincinv

    curve, allowed = LimitCurve(trace, budget), budget.per_day * trace.days
    value = curve.at()
    n_alarms, share = trace.cost_above(value)
    shape = allowed / LEAST_SPREAD + 0.5
    few, many = LEAST_SPREAD * gammaincinv(shape, PROMISE_ENDS) / allowed
    least, most = map(curve.peaks_at, SWING)
    return Limit(
        value=value,
        alarms=float(n_alarms),
        share=share,
        interval=(min(curve.at(many), value), max(curve.at(few), value)),
        swing=least / most,
    )


def alarms_at_level(trace: Trace) -> Ints:
    """Return where alarms start at the level that has `N_PEAKS` of them."""
    scan = _Scan(trace)
    rank, _ = scan.peaks()
    return scan.clusters(rank)[0]


def spread_of_counts(trace: Trace, step_s: float) -> float:
    """Return the variance of counts over their mean, at least `LEAST_SPREAD`.

    Of counts in blocks of max(2 h, a fortieth of all time), at the level with `N_PEAKS`
    alarms.
    """
    starts = alarms_at_level(trace)
    block = max(7200.0 / step_s, trace.n_rows / 40, 1.0)
    n_blocks = int(trace.n_rows / block)
    counts = np.bincount((starts / block).astype(np.int64), minlength=1)[:n_blocks]
    counts = np.concatenate([counts, np.zeros(max(n_blocks - len(counts), 0))])
    mean = float(counts.mean()) if n_blocks > 1 else 0.0
    spread = float(counts.var(ddof=1)) / mean if mean > 0 else LEAST_SPREAD
    return max(spread, LEAST_SPREAD)
