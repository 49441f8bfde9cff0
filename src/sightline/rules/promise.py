"""What a rule promises for its next period, learned from the periods before.

A period is some watched days. Its alarms have a negative binomial law: they vary within
a period as they did from hour to hour among commissioning rows (`spread`), and from
period to period as far as earlier periods were missed (`between`). Nothing is promised
for longer than a period; the next promise is made when it ends. Before the first later
row the same is fed with rolling origins: limits set on the first commissioning rows,
and what they made of the rows that follow.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple

import numpy as np

from sightline.data.arrays import Floats
from sightline.data.validity import LEAST_WATCHED
from sightline.metrics.alarm_load import DAY_S, AlarmLoad
from sightline.rules.limits import (
    PROMISE_ENDS,
    Budget,
    Limit,
    Trace,
    set_limit,
    spread_of_counts,
)
from sightline.rules.standalone import LONG_GAP_S
from sightline.text import plural

# A period is at most so many watched days, and at least one; else a quarter of those of
# the commissioning rows.
LONGEST, SHORTEST, PART = 7.0, 1.0, 4.0
# Rolling origins begin at this share of the commissioning rows.
FIRST_ORIGIN: Final = 1 / 3
# The rate moves by this share of its last error.
MOVES_BY: Final = 0.35
# Before any period counts differ between periods by this much (standard deviation of
# their logarithm), which weighs as much as so many periods.
USUAL_BETWEEN, WEIGHS, LEAST_BETWEEN = 0.9, 8, 0.15
# Time in alarm varies so many times as much as the number of alarms.
UNEQUAL: Final = 2.0
# Periods that are learned from, and those that are kept to be shown.
REMEMBERED: Final = 12
MOST_PAST: Final = 60
# After a miss the interval is wider, after a hit narrower: balanced at 10% of misses.
WIDER, NARROWER = 0.35, 0.039
WIDTHS: Final = (0.4, 4.0)
# No fewer alarms are expected of a period.
LEAST_MEAN: Final = 0.3
# More than so many budgets is never promised: who needs more has no promise to keep.
MOST_BUDGETS: Final = 10.0
# So many broken periods as chance would bring this seldom break the promise as a whole.
TOO_SELDOM: Final = 0.06


class Kept(StrEnum):
    """What became of a promise.

    ``KEPT``
        The count lies in the 90% interval, and time in alarm is not longer.
    ``BROKEN``
        There are more alarms, or more time in alarm.
    ``UNUSED``
        The count lies below the interval: the limit is higher than it must be.
    ``UNJUDGED``
        Too little was watched to judge, or a long gap ended it.
    """

    KEPT = "kept"
    BROKEN = "broken"
    UNUSED = "unused"
    UNJUDGED = "unjudged"


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """How many alarms some days will bring.

    Parameters
    ----------
    per_day : float
        Alarms a day.
    spread : float
        Variance of counts over their mean within a period: 1 for a Poisson count.
    errors : tuple of float
        Squares of the logarithm of what earlier periods were missed by, beyond what
        `spread` explains.
    width : float
        Factor of `between`, learned from misses.
    """

    per_day: float
    spread: float
    errors: tuple[float, ...] = ()
    width: float = 1.0

    @property
    def between(self) -> float:
        """Standard deviation of the logarithm of counts between periods."""
        squares = WEIGHS * USUAL_BETWEEN**2 + sum(self.errors)
        usual = float(np.sqrt(squares / (WEIGHS + len(self.errors))))
        return max(usual, LEAST_BETWEEN) * self.width

    def mean(self, days: float) -> float:
        """Return how many alarms are expected."""
        return max(self.per_day * days, LEAST_MEAN)

    def interval(self, days: float) -> tuple[float, float]:
        """Return the 90% interval of the number of alarms in some days.

        Examples
        --------
        >>> Forecast(per_day=6, spread=2).interval(7)
        (3.0, 119.0)
        >>> Forecast(per_day=6, spread=2, errors=(0.02,) * 12).interval(7)
        (10.0, 92.0)
        """
        mean = self.mean(days)
        variance = self.spread * mean + (self.between * mean) ** 2
        low, high = (count_at(end, mean, variance) for end in PROMISE_ENDS)
        return low, high

    def after(self, count: float, days: float, *, is_later: bool = True) -> "Forecast":
        """Return what is forecast after a period.

        Parameters
        ----------
        count : float
            Its alarms.
        days : float
            Its watched days.
        is_later : bool
            Whether it was promised; else it is one of the commissioning rows, which
            say nothing of how wide a promise must be.
        """
        mean, width = self.mean(days), self.width
        low, high = self.interval(days)
        if is_later:
            width *= np.exp(-NARROWER if low <= count <= high else WIDER)
        error = np.log((count + 1) / (mean + 1)) ** 2 - self.spread / (mean + 1)
        return replace(
            self,
            per_day=self.per_day + MOVES_BY * (count / days - self.per_day),
            errors=(*self.errors, max(float(error), 0.0))[-REMEMBERED:],
            width=float(np.clip(width, *WIDTHS)),
        )


@dataclass(frozen=True, kw_only=True)
class Period:
    """A period, what was promised for it, and what came.

    Parameters
    ----------
    days : float
        Watched days.
    low, high : float
        90% interval of its alarms.
    most_share : float
        Largest share of time in alarm, in 19 of 20 periods.
    alarms : float
        Alarms that came.
    share : float
        Share of time in alarm.
    begins : float, optional
        Time of its first row, where a clock tells.
    is_judged : bool
        Whether enough of it was watched.
    gap_s : float
        Seconds without rows that ended it; 0 where none did.
    """

    days: float
    low: float
    high: float
    most_share: float
    alarms: float
    share: float
    begins: float | None = None
    is_judged: bool = True
    gap_s: float = 0.0

    @property
    def kept(self) -> Kept:
        """What became of the promise."""
        if not self.is_judged:
            return Kept.UNJUDGED
        if self.alarms > self.high or self.share > self.most_share:
            return Kept.BROKEN
        return Kept.UNUSED if self.alarms < self.low else Kept.KEPT


@dataclass(frozen=True, kw_only=True)
class Promise:
    """What a rule promises for its next period.

    Parameters
    ----------
    alarms : Forecast
        Of alarms.
    time : Forecast
        Of time in alarm, in units of `usual_s`.
    usual_s : float
        Seconds that an alarm usually lasted on commissioning rows.
    budget : Budget
        No less than its share of time is promised, and nothing above `MOST_BUDGETS`.
    days : float
        Watched days of a period.
    """

    alarms: Forecast
    time: Forecast
    usual_s: float
    budget: Budget
    days: float = LONGEST

    @property
    def per_day(self) -> float:
        """Alarms a day that are expected."""
        return self.alarms.per_day

    def period(
        self,
        days: float,
        alarms: float,
        share: float,
        *,
        begins: float | None = None,
        is_judged: bool = True,
        gap_s: float = 0.0,
    ) -> Period:
        """Return a period of some watched days, and what came in it."""
        low, high = self.interval(days)
        return Period(
            days=days,
            low=low,
            high=high,
            most_share=self.most_share(days),
            alarms=alarms,
            share=share,
            begins=begins,
            is_judged=is_judged,
            gap_s=gap_s,
        )

    def n_rows(self, step_s: float) -> int:
        """Return how many watched rows a period has."""
        return max(round(self.days * DAY_S / step_s), 1)

    def interval(self, days: float) -> tuple[float, float]:
        """Return the 90% interval of the number of alarms in some days."""
        low, high = self.alarms.interval(days)
        most = MOST_BUDGETS * self.budget.per_day * days
        return min(low, most), min(high, most)

    def most_share(self, days: float) -> float:
        """Return the largest share of time in alarm in some days, in 19 of 20."""
        most = self.time.interval(days)[1] * self.usual_s / (days * DAY_S)
        share = self.budget.share
        return min(max(most, share), MOST_BUDGETS * share, 1.0)

    def after(self, period: Period, *, is_later: bool = True) -> "Promise":
        """Return the promise for the period that follows."""
        if not period.is_judged:
            return self
        time = period.share * period.days * DAY_S / self.usual_s
        return replace(
            self,
            alarms=self.alarms.after(period.alarms, period.days, is_later=is_later),
            time=self.time.after(time, period.days, is_later=is_later),
        )

    def notices(self) -> float:
        """Return how many budgets must come for a period to notice it, in 9 of 10.

        Examples
        --------
        >>> alarms = Forecast(per_day=6, spread=2, errors=(0.0,) * 12, width=0.4)
        >>> made = Promise(alarms=alarms, time=alarms, usual_s=60, budget=Budget())
        >>> round(made.notices(), 1)
        2.1
        """
        high, times = self.interval(self.days)[1], 0.5
        mean = self.budget.per_day * self.days
        while count_at(0.1, times * mean, self.alarms.spread * times * mean) <= high:
            times *= 1.05
        return times


class PeriodEnd(NamedTuple):
    """Where a period ends.

    Parameters
    ----------
    row : int
        It ends before this row.
    is_full : bool
        Whether all of its days were watched.
    gap_s : float
        Seconds without rows before it, if they are a long gap; else 0.
    """

    row: int
    is_full: bool
    gap_s: float


def period_end(
    time: Floats, begins: float, last: float, taken: int, n: int, step_s: float
) -> PeriodEnd | None:
    """Return before which of some rows a period ends; None if it goes on after them.

    It ends with its n-th row; or where less than half is watched, when twice its time
    is over; or at a gap of more than `LONG_GAP_S`. So it depends on rows alone, and not
    on when they arrive.

    Parameters
    ----------
    time : array of shape (n_rows,)
        Of the rows.
    begins, last : float
        Time of the first row of the period, and of the row before these.
    taken : int
        Rows of the period so far.
    n : int
        Rows of a whole period.
    step_s : float
        Seconds a row.

    Examples
    --------
    >>> period_end(np.arange(100.0), 0.0, 0.0, 0, 60, 1.0)
    PeriodEnd(row=60, is_full=True, gap_s=0.0)
    >>> period_end(np.array([0.0, 119.0, 120.0]), 0.0, 0.0, 0, 60, 1.0)
    PeriodEnd(row=2, is_full=False, gap_s=0.0)
    """
    steps = np.diff(time, prepend=last)
    is_full = np.arange(len(time)) >= n - taken
    is_late = time - begins >= n * step_s / LEAST_WATCHED
    ends = np.flatnonzero(is_full | is_late | (steps > LONG_GAP_S))
    if not len(ends):
        return None
    row = int(ends[0])
    gap_s = float(steps[row]) if steps[row] > LONG_GAP_S else 0.0
    return PeriodEnd(row, bool(is_full[row]), gap_s)


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """The promise in force, and the periods before it.

    Parameters
    ----------
    promise : Promise
        For the period that runs.
    begins : float
        Time of its first row.
    past : tuple of Period
        The periods before, with what came; the last `MOST_PAST`.
    rows : int
        Its rows so far.
    stood : int, optional
        Rows, when it began, of the alarm that ran then. None: not known.
    n_silent : int
        Of its rows, those in which the rule as a whole was out of service and stood.
    """

    promise: Promise
    begins: float
    past: tuple[Period, ...] = ()
    rows: int = 0
    stood: int | None = None
    n_silent: int = 0

    def ended(
        self, end: PeriodEnd, begins: float, load: AlarmLoad, first: Promise, stood: int
    ) -> "Ledger":
        """Return the period that follows.

        Parameters
        ----------
        end : PeriodEnd
            Why this one ends.
        begins : float
            Time of the first row of the next one.
        load : AlarmLoad
            What came in this one.
        first : Promise
            The promise after a long gap: that of the rule.
        stood : int
            Rows of the alarm that runs.
        """
        period = self.promise.period(
            load.days or 0.0,
            float(load.alarms),
            load.share_of_time,
            begins=self.begins,
            is_judged=end.is_full,
            gap_s=0.0 if end.is_full else end.gap_s,
        )
        promise = first if end.gap_s else self.promise.after(period)
        past = (*self.past, period)[-MOST_PAST:]
        return Ledger(promise=promise, begins=begins, past=past, stood=stood)

    def kept(self, load: AlarmLoad) -> Kept:
        """Return what became of the last promise; of this one, if it is broken already.

        Alarms and time in alarm only grow, so that no later row mends it.
        """
        days, promise = load.days or 0.0, self.promise
        most = promise.most_share(promise.days) * promise.days
        is_over = load.alarms > promise.interval(promise.days)[1]
        if is_over or load.share_of_time * days > most:
            return Kept.BROKEN
        return self.past[-1].kept if self.past else Kept.UNJUDGED


def gap_words(gap_s: float, since: str) -> str:
    """Return what follows from a gap so long that it ended a promise.

    Examples
    --------
    >>> gap_words(31 * 86_400.0, "1 March 00:30")
    'No data for 31 days before 1 March 00:30: the promise ended there, neither kept nor
    broken, and means are followed from those of the commissioning rows again. If the
    plant has changed, make the rule again on later rows.'
    """
    return (
        f"No data for {plural(round(gap_s / DAY_S), 'day')} before {since}: the "
        "promise ended there, neither kept nor broken, and means are followed from "
        "those of the commissioning rows again. If the plant has changed, make the "
        "rule again on later rows."
    )


def as_a_whole(periods: tuple[Period, ...], first: Promise) -> Kept:
    """Return what became of the promises of some periods, together.

    One of 20 may be broken; more are too many if chance would bring as many in less
    than `TOO_SELDOM` of such records, as one of one or two of eight. Unused: the first
    promise, for all periods as one, expects more alarms.
    """
    from scipy.special import betainc

    judged = [period for period in periods if period.is_judged]
    if not judged:
        return Kept.UNJUDGED
    n = sum(period.kept is Kept.BROKEN for period in judged)
    if n and betainc(n, len(judged) - n + 1, PROMISE_ENDS[0]) < TOO_SELDOM:
        return Kept.BROKEN
    low, _ = first.interval(sum(period.days for period in judged))
    is_unused = sum(period.alarms for period in judged) < low
    return Kept.UNUSED if is_unused else Kept.KEPT


def first_promise(trace: Trace, limit: Limit, budget: Budget, step_s: float) -> Promise:
    """Return the promise of a limit for the first period after commissioning.

    Parameters
    ----------
    trace : Trace
        Over the commissioning rows.
    limit : Limit
        The limit that was set on them.
    budget : Budget
        For which it was set.
    step_s : float
        Seconds a row.
    """
    per_day = limit.alarms / trace.days
    spread = spread_of_counts(trace, step_s)
    usual_s = limit.share * trace.days * DAY_S / max(limit.alarms, 1.0)
    # Budgets are what is expected where nothing has rung yet.
    forecast = Forecast(per_day=per_day or budget.per_day / 2, spread=spread)
    promise = Promise(
        alarms=forecast,
        time=replace(forecast, spread=UNEQUAL * spread),
        usual_s=max(usual_s, step_s),
        budget=budget,
        days=float(np.clip(trace.days // PART, SHORTEST, LONGEST)),
    )
    for first, stop in origins(trace, promise.days):
        early = set_limit(trace.part(0, first), budget)
        later = trace.part(first, stop)
        alarms, share = later.cost_above(early.value)
        period = promise.period(later.days, float(alarms), share)
        promise = promise.after(period, is_later=False)
    return promise


def origins(trace: Trace, days: float) -> Iterator[tuple[int, int]]:
    """Yield the rows before which a limit is set, and the end of the period after."""
    n = round(days / trace.days * trace.n_rows)
    first = max(round(FIRST_ORIGIN * trace.n_rows), n)
    for start in range(first, trace.n_rows - n + 1, max(n, 1)):
        yield start, start + n


def count_at(level: float, mean: float, variance: float) -> float:
    """Return a quantile of the negative binomial law.

    It is the smallest k with ``I_p(shape, k + 1) >= level``, the incomplete beta.
    """
    # To import scipy.stats takes half a second.
    from scipy.special import betainc

    p = mean / max(variance, 1.0001 * mean)
    shape = mean * p / (1 - p)
    # At most `above` - 1, but more than `below` - 1.
    below, above = 0.0, 1.0
    while betainc(shape, above, p) < level:
        below, above = above, 2 * above
    while (middle := (below + above) // 2) not in (below, above):
        if betainc(shape, middle, p) < level:
            below = middle
        else:
            above = middle
    return above - 1
