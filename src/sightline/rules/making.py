"""Rules made for a budget, from attack-free commissioning rows alone.

`Fitting` sets centres, own levels and traces of members; `RuleMaker` a rule's limit and
promise. Every level is cross-fitted: the trace on which a limit is set has the levels
of other windows, so that a channel is not judged by the rows that gave its own level.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Bools, Floats, Ints
from sightline.data.linear_forecast import LinearForecast
from sightline.data.row_tables import (
    JoinedRows,
    Rows,
    gather_rows,
    kept_rows,
    read_on_grid,
)
from sightline.data.segments import run_bounds
from sightline.data.stream import ResidualStream
from sightline.metrics.alarm_load import DAY_S, Delays
from sightline.rules.limits import (
    Budget,
    Limit,
    Trace,
    alarms_at_level,
    set_limit,
)
from sightline.rules.named import ALLOWANCE, blank_member, members_of
from sightline.rules.normal import LEVEL_FLOOR, Normal, Origin
from sightline.rules.promise import Promise, first_promise
from sightline.rules.rule import LinearView, Member, Memory, Rule, View
from sightline.rules.standalone import LEEWAY, log_of
from sightline.showing import Shown
from sightline.text import per_day

# A unit's level: this quantile over commissioning rows,
LEVEL_QUANTILE: Final = 0.999
# and the level of one half is not under this share of that of all.
LEAST_HALF: Final = 0.7
# Windows of commissioning rows that alternate in cross-fitting.
N_WINDOWS: Final = 10
# Calibration rows ring alike above this p-value.
ALIKE: Final = 0.1
# Commissioning rows of which the usual median and spread of a column are taken.
N_USUAL: Final = 10_000
# A night: a day, less where there are few days, and no fewer rows.
NIGHTS_AT_LEAST: Final = 7
SHORTEST_NIGHT: Final = 1 / 3
LEAST_NIGHT_ROWS: Final = 72
# A column of at most so many values is a state.
MOST_STATES: Final = 3


# --- Members fitted on attack-free rows -----------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class AttackFreeTable:
    """Attack-free rows of one table, with where windows of them begin.

    Parameters
    ----------
    rows : Rows
        The rows.
    breaks : array of int
        First row of each window; memory starts again there.
    score : array of shape (n_rows,), optional
        The detector's own score.
    n_attacks : int
        Attacks that were left out.
    ends : pair of float, optional
        Time of the first and the last row.
    normal : array of bool, shape (n_rows,), optional
        Rows that somebody reviewed and called normal: they are never left out.
    index : array of int, shape (n_rows,), optional
        Where each row is in its record. None for rows of train.
    record : ResidualStream, optional
        Whose test the record is: incidents and all.
    """

    rows: Rows
    breaks: Ints
    score: Floats | None = None
    n_attacks: int = 0
    ends: tuple[float, float] | None = None
    normal: Bools | None = None
    index: Ints | None = None
    record: ResidualStream | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class AttackFreePeriod:
    """The commissioning rows: one or two tables, one after the other.

    Parameters
    ----------
    tables : tuple of AttackFreeTable
        Rows of train if asked for, calibration rows, then rows of the test.
    step_s : float
        Seconds a row.
    is_fixed : bool
        Whether rules that are made on them follow no means.
    """

    tables: tuple[AttackFreeTable, ...]
    step_s: float
    is_fixed: bool = False

    @cached_property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(table.rows.n_rows for table in self.tables)

    @property
    def days(self) -> float:
        """Days of all rows."""
        return self.n_rows * self.step_s / DAY_S

    @cached_property
    def breaks(self) -> Ints:
        """First row of each window, over all tables."""
        found, offset = [], 0
        for table in self.tables:
            found.append(np.append(0, table.breaks) + offset)
            offset += table.rows.n_rows
        return np.unique(np.concatenate(found))

    @property
    def normal(self) -> Bools:
        """Which rows somebody reviewed and called normal."""
        return np.concatenate(
            [
                np.zeros(one.rows.n_rows, np.bool_)
                if one.normal is None
                else one.normal
                for one in self.tables
            ]
        )

    @property
    def rows(self) -> Rows:
        """The rows of all tables."""
        tables = tuple(table.rows for table in self.tables)
        return tables[0] if len(tables) == 1 else JoinedRows(tables)

    def place_of(self, row: int) -> tuple[int | None, float | None]:
        """Return where a row is in its record, and its time; None for rows of train."""
        for table in self.tables:
            if row < table.rows.n_rows and table.index is not None:
                place = int(table.index[row])
                clock = None if table.record is None else table.record.test_time
                return place, None if clock is None else float(clock[place])
            row -= table.rows.n_rows
        return None, None

    def blocks(
        self, cuts: Sequence[int] | Ints = ()
    ) -> Iterator[tuple[int, npt.NDArray[Any], bool, Floats | None]]:
        """Yield first row, rows, whether a window begins, and own score.

        Parameters
        ----------
        cuts : sequence of int
            Further rows at which a block begins.
        """
        offset, begins = 0, set(self.breaks.tolist())
        edges = np.union1d(np.asarray(cuts, np.int64), self.breaks)
        for table in self.tables:
            n = table.rows.n_rows
            inside = edges[(edges > offset) & (edges < offset + n)] - offset
            for start, block in read_on_grid(table.rows, inside.tolist()):
                stop = start + len(block)
                own = None if table.score is None else table.score[start:stop]
                yield offset + start, block, offset + start in begins, own
            offset += n

    @property
    def night(self) -> int:
        """Rows of a night: after so many means are followed. 0: they are fixed."""
        if self.is_fixed:
            return 0
        days = float(np.clip(self.days / NIGHTS_AT_LEAST, SHORTEST_NIGHT, 1.0))
        return max(round(days * DAY_S / self.step_s), LEAST_NIGHT_ROWS)

    def some(self, most: int) -> Floats:
        """Return at most so many rows, at equal distances."""
        every, offset, found = max(-(-self.n_rows // most), 1), 0, []
        for table in self.tables:
            stop = offset + table.rows.n_rows
            places = np.arange(-(-offset // every) * every, stop, every)
            found.append(gather_rows(table.rows, places - offset))
            offset = stop
        return np.concatenate(found)

    def without(self, left_out: Bools) -> "AttackFreePeriod":
        """Return the same without some rows, which are counted over all tables."""
        tables, offset = [], 0
        for table in self.tables:
            keep = ~left_out[offset : offset + table.rows.n_rows]
            offset += len(keep)
            starts, _ = run_bounds(keep, np.append(0, table.breaks))
            if len(starts):
                place = np.concatenate([[0], np.cumsum(keep)])
                tables.append(
                    replace(
                        table,
                        rows=kept_rows(table.rows, keep),
                        breaks=place[starts],
                        score=None if table.score is None else table.score[keep],
                        normal=None if table.normal is None else table.normal[keep],
                        index=None if table.index is None else table.index[keep],
                    )
                )
        return replace(self, tables=tuple(tables))


class Fitting:
    """Centres, levels and cross-fitted traces of members over attack-free rows.

    Parameters
    ----------
    normal : Normal
        What rules know of normal operation.
    members : sequence of str
        Names of the members.
    period : AttackFreePeriod
        Commissioning rows; read three times.
    """

    def __init__(
        self, normal: Normal, members: Sequence[str], period: AttackFreePeriod
    ) -> None:
        self.normal, self.period = normal, period
        blank = [blank_member(name, period.step_s) for name in members]
        kinds = dict.fromkeys(m.view for m in blank if m.view is not View.SCORE)
        some = period.some(N_USUAL)
        self.views: dict[View, LinearView] = {
            kind: with_usual(normal.view(kind), some, normal) for kind in kinds
        }
        self.bounds = {kind: view.bounds for kind, view in self.views.items()}
        window = np.arange(period.n_rows) * N_WINDOWS // max(period.n_rows, 1)
        self.cuts = np.searchsorted(window, np.arange(N_WINDOWS))
        self.half = (window % 2).astype(np.int8)
        self.members = self._with_levels(self._with_centres(blank))

    def seen(
        self, rows: npt.NDArray[Any], score: Floats | None
    ) -> dict[View, npt.NDArray[Any]]:
        """Return every view of some rows."""
        seen: dict[View, npt.NDArray[Any]] = {
            kind: view.of(rows) for kind, view in self.views.items()
        }
        if score is not None:
            seen[View.SCORE] = score[:, None]
        return seen

    def _with_centres(self, blank: Sequence[Member]) -> list[Member]:
        """Return the members with the attack-free mean of what they remember."""
        sums: dict[str, Floats] = {}
        squares: dict[str, Floats] = {}
        for _, rows, _, score in self.period.blocks(self.cuts):
            seen = self.seen(rows, score)
            for member in blank:
                values = seen[member.view]
                if member.memory in (Memory.LOG_AVERAGE, Memory.QUIET):
                    plain = replace(member, memory=Memory.NONE)
                    bounds = self.bounds.get(member.view)
                    values = plain.values(values, np.empty(0), bounds)
                    values = log_of(values)
                sums[member.name] = sums.get(member.name, 0.0) + values.sum(axis=0)
                squares[member.name] = squares.get(member.name, 0.0) + np.square(
                    values
                ).sum(axis=0)
        n, made = self.period.n_rows, []
        for member in blank:
            mean = sums[member.name] / n
            spread = np.sqrt(np.maximum(squares[member.name] / n - mean**2, 0.0))
            if member.memory is Memory.NONE and member.view is not View.SCORE:
                made.append(member)
            elif member.memory is Memory.CUSUM:
                floor = self.normal.floors(member.view)
                allowance = ALLOWANCE * np.maximum(spread, floor)
                made.append(replace(member, centre=mean, allowance=allowance))
            else:
                made.append(
                    replace(member, centre=mean, is_one_sided=self.normal.is_one_sided)
                )
        return made

    def _with_levels(self, members: list[Member]) -> list[Member]:
        """Return the members with levels of all rows; keep those of the halves."""
        from sightline._kernels.alarms import take_tails

        n = self.period.n_rows
        # One value more than the quantile of all rows needs.
        size = int(np.ceil((1 - LEVEL_QUANTILE) * n)) + 2
        widths = [
            1 if m.view is View.SCORE else len(self.views[m.view].units)
            for m in members
        ]
        tops = [np.full((2, width, size), -1.0) for width in widths]
        for start, values in self._values(members):
            half = self.half[start]
            for one, top in zip(values, tops, strict=True):
                take_tails(one, top[half])
        made = []
        self.half_levels: list[tuple[Floats, Floats]] = []
        counts = np.bincount(self.half, minlength=2)
        for member, top, width in zip(members, tops, widths, strict=True):
            if width == 1:
                # One unit needs no level: the limit is then in the score's own units.
                one = np.ones(1)
                self.half_levels.append((one, one))
                made.append(replace(member, levels=one))
                continue
            floor = self.normal.floors(member.view)
            both = np.concatenate([top[0], top[1]], axis=1)
            whole = np.maximum(_upper_quantile(both, n), floor)
            halves = [
                np.maximum(_upper_quantile(top[k], int(counts[k])), LEAST_HALF * whole)
                for k in (0, 1)
            ]
            self.half_levels.append((halves[0], halves[1]))
            made.append(replace(member, levels=whole))
        return made

    def _values(self, members: Sequence[Member]) -> Iterator[tuple[int, list[Floats]]]:
        """Yield first row and the units' values of each member, block by block."""
        memory: list[Floats] = []
        for start, rows, begins, score in self.period.blocks(self.cuts):
            if begins or not memory:
                views = [self.views.get(member.view) for member in members]
                memory = [np.zeros((2, len(v.order) if v else 1)) for v in views]
            seen = self.seen(rows, score)
            yield (
                start,
                [
                    member.values(
                        seen[member.view], state, self.bounds.get(member.view)
                    )
                    for member, state in zip(members, memory, strict=True)
                ],
            )

    @cached_property
    def traces(self) -> Floats:
        """The cross-fitted trace of each member, shape (n_rows, n_members).

        It is large: deleted once the limits are set.
        """
        traces = np.empty((self.period.n_rows, len(self.members)))
        other = [
            [replace(m, levels=levels[1 - k]) for k in (0, 1)]
            for m, levels in zip(self.members, self.half_levels, strict=True)
        ]
        for start, values in self._values(self.members):
            half = int(self.half[start])
            for k, one in enumerate(values):
                score, _ = other[k][half].score(one)
                traces[start : start + len(one), k] = score
        return traces

    def trace(self, values: Floats, delays: Delays) -> Trace:
        """Return values over the commissioning rows as a trace."""
        return Trace(
            values=values,
            breaks=self.period.breaks,
            days=self.period.days,
            delays=delays,
        )


def with_usual(view: LinearView, rows: Floats, normal: Normal) -> LinearView:
    """Return a view that knows the usual median and spread of its columns.

    A spread is the smaller of standard deviation and 1.48 times the median distance
    from the median, so that a few rows far off do not hide a change; it has the floor
    of a level. Of a column that stands at one value in most rows that distance is 0:
    of a coarse reading it is then the deviation of all rows, each no farther off than
    all but the farthest hundredth. A state (2 to `MOST_STATES` values) has no mean:
    it is so wide that none of its values is followed or asked about.
    """
    floor = normal.floors(view.kind) if view.kind is View.X else LEVEL_FLOOR
    seen = view.of(rows)
    usual = np.median(seen, axis=0)
    distance = np.abs(seen - usual)
    near = 1.4826 * np.median(distance, axis=0)
    clipped = np.minimum(distance, np.quantile(distance, 0.99, axis=0))
    near = np.where(near > floor, near, np.sqrt(np.mean(clipped**2, axis=0)))
    spread = np.maximum(np.minimum(seen.std(axis=0), near), floor)
    for j in range(seen.shape[1]):
        if 1 < len(values := np.unique(seen[:, j])) <= MOST_STATES:
            spread[j] = 1.001 * (values[-1] - values[0]) / LEEWAY
    return replace(view, usual=usual, spread=spread)


def _upper_quantile(top: Floats, n: int) -> Floats:
    """Return the level quantile of n values of each column, from the largest ones.

    Interpolated linearly, as `np.quantile` does.
    """
    place = LEVEL_QUANTILE * (n - 1)
    low = int(np.floor(place))
    ordered = -np.sort(-top, axis=1)
    below = ordered[:, min(n - 1 - low, ordered.shape[1] - 1)]
    above = ordered[:, max(n - 2 - low, 0)]
    return np.asarray(below + (place - low) * (above - below))


# --- Rules for a budget ---------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MadeRule(Shown):
    """A rule with its limit for a budget, and what it promises.

    Parameters
    ----------
    rule : Rule
        The rule.
    limit : Limit
        Its limit, with what it costs on commissioning rows.
    promise : Promise
        How many alarms its next period will bring.
    origin : Origin, optional
        Where it comes from; see `Commissioning.deployed`.
    forecast : LinearForecast, optional
        What makes its rows of telemetry, where that is linear.
    """

    rule: Rule
    limit: Limit
    promise: Promise
    origin: Origin | None = None
    forecast: LinearForecast | None = None

    def _line(self) -> str:
        promised = f"promises {per_day(self.promise.per_day)} alarms a day"
        return f"{self.rule._line()}, {promised}"


class RuleMaker:
    """Makes rules for a budget, from commissioning rows alone.

    Parameters
    ----------
    fitting : Fitting
        Members with their levels and traces.
    budget : Budget
        Alarms a day, and share of time.
    delays : Delays
        On-delay and off-delay.
    """

    def __init__(self, fitting: Fitting, budget: Budget, delays: Delays) -> None:
        self.fitting, self.budget, self.delays = fitting, budget, delays
        self._place = {member.name: k for k, member in enumerate(fitting.members)}
        self._alone: dict[int, Limit] = {}

    def alone(self, k: int) -> Limit:
        """Return the limit of a member by itself."""
        if k not in self._alone:
            trace = self.fitting.trace(self.fitting.traces[:, k], self.delays)
            self._alone[k] = set_limit(trace, self.budget)
        return self._alone[k]

    def trace(self, name: str) -> tuple[list[Member], Trace]:
        """Return the members of a rule, and its trace over commissioning rows.

        Members of a joined rule are divided by their own limits.
        """
        fitting = self.fitting
        names = members_of(name, fitting.normal.has_stages)
        chosen = [self._place[member] for member in names]
        members = [fitting.members[k] for k in chosen]
        if len(members) == 1:
            return members, fitting.trace(fitting.traces[:, chosen[0]], self.delays)
        limits = [self.alone(k).value for k in chosen]
        members = [
            replace(member, limit=limit)
            for member, limit in zip(members, limits, strict=True)
        ]
        joint = fitting.traces[:, chosen[0]] / limits[0]
        for k, limit in zip(chosen[1:], limits[1:], strict=True):
            np.maximum(joint, fitting.traces[:, k] / limit, out=joint)
        return members, fitting.trace(joint, self.delays)

    def make(self, name: str) -> MadeRule:
        """Return a rule with its limit and its promise."""
        rule, limit, trace = self.limited(name)
        promise = first_promise(trace, limit, self.budget, self.fitting.period.step_s)
        return MadeRule(rule=rule, limit=limit, promise=promise)

    def limited(self, name: str) -> tuple[Rule, Limit, Trace]:
        """Return a rule with its limit, and the trace on which it was set."""
        members, trace = self.trace(name)
        is_alone = len(members) == 1
        limit = (
            self.alone(self._place[members[0].name])
            if is_alone
            else set_limit(trace, self.budget)
        )
        kinds = dict.fromkeys(m.view for m in members if m.view is not View.SCORE)
        rule = Rule(
            name=name,
            channels=self.fitting.normal.channels,
            views=tuple(self.fitting.views[kind] for kind in kinds),
            members=tuple(members),
            limit=limit.value,
            delays=self.delays,
            step_s=self.fitting.period.step_s,
            budget=self.budget,
            night=self.night,
        )
        return rule, limit, trace

    @property
    def family(self) -> Rule:
        """All members as one rule, so that what they make of rows is computed once."""
        return Rule(
            name="family",
            channels=self.fitting.normal.channels,
            views=tuple(self.fitting.views.values()),
            members=tuple(self.fitting.members),
            limit=1.0,
            delays=self.delays,
            night=self.night,
        )

    @property
    def night(self) -> int:
        """Rows of a night; a score has a floor, which stays where it is."""
        fitting = self.fitting
        return 0 if fitting.normal.is_one_sided else fitting.period.night

    def rings_alike(self, name: str, n_first: int) -> bool:
        """Return whether the first rows ring as often as the others.

        Alarms of a rule at the level with `N_PEAKS` of them: binomial test of how many
        fall into the first rows, with counts halved because alarms come in bursts.
        """
        starts = alarms_at_level(self.trace(name)[1])
        n, n_in_first = len(starts) // 2, int(np.sum(starts < n_first)) // 2
        share = n_first / self.fitting.period.n_rows
        return binomial_p_value(n_in_first, n, share) > ALIKE


def binomial_p_value(hits: int, n: int, share: float) -> float:
    """Return the p-value of the exact binomial test, two-sided.

    The chance of all counts that are at most as likely as `hits` of `n`.

    Examples
    --------
    >>> binomial_p_value(1, 4, 0.5)
    0.625
    """
    # To import scipy.stats takes half a second.
    from scipy.special import gammaln, xlog1py, xlogy

    k = np.arange(n + 1)
    choices = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    chances = np.exp(choices + xlogy(k, share) + xlog1py(n - k, -share))
    # Counts that are as likely differ in the last digits.
    return min(1.0, float(chances[chances <= chances[hits] * (1 + 1e-7)].sum()))
