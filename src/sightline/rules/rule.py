"""Alarm rules: frozen values that turn residual rows into alarms, causally.

A rule has members; a member has a *view* of the rows (a linear map), perhaps a *memory*
of earlier rows, and a *measure* that makes one value for each unit (a channel, a stage,
all channels). A value is divided by the unit's own level, the largest counts, and the
rule is in alarm where the largest of its members is above the limit::

    trace_t = max over members of (max over units of value / level) / member limit
    exceeds_t = trace_t > limit

`Rule.alarms` reads a record at once; `Rule.start` gives the state of a live rule, which
takes one row after the other. Both run the arithmetic of `standalone` with compiled
loops, so that their alarms are the same to the last bit. `named` lists all rules.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, cached_property
from types import ModuleType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import (
    ATTACK,
    Bools,
    Floats,
    Ints,
    check_labels,
    check_series,
)
from sightline.data.row_tables import as_rows, read_on_grid
from sightline.data.segments import segments_of
from sightline.energy.attack_free import AttackFreeTime
from sightline.errors import StreamError
from sightline.metrics.alarm_load import Delays, Episodes, counted, episodes_in
from sightline.rules.limits import Budget
from sightline.rules.standalone import (
    Question,
    RuleSteps,
    ScoredRows,
    Shorts,
    is_by_tag,
    member_scores,
    n_units_of,
    unit_values,
)
from sightline.showing import Shown
from sightline.text import names, plural

# Rows with larger values are refused: squares of what is made of them would overflow.
LARGEST_VALUE: Final = np.float64(1e100)
# What a `RuleRun` says of each row.
_BY_ROW: Final = tuple("trace exceeds in_alarm leading unit standing n_out".split())


@cache
def _kernels() -> ModuleType:
    """Return the compiled loops; numba is imported when the first rule runs."""
    from sightline._kernels import alarms

    return alarms


class View(StrEnum):
    """What a member looks at.

    ``X``
        Each channel: deviation from its mean in train.
    ``Z``
        Each channel given all others: ``(P y)_j / sqrt(P_jj)`` with P the precision.
    ``STAGE``
        The channels of each stage, whitened.
    ``ALL``
        All channels, whitened: the energy.
    ``SCORE``
        The detector's own score.
    """

    X = "x"
    Z = "z"
    STAGE = "group"
    ALL = "energy"
    SCORE = "score"


class Memory(StrEnum):
    """What a member remembers of earlier rows.

    ``NONE``
        Nothing.
    ``AVERAGE``
        Signed exponentially weighted average of the view about its attack-free mean.
    ``CUSUM``
        Two-sided cumulative sums of the view about its attack-free mean.
    ``LOG_AVERAGE``
        Exponentially weighted average of the logarithm of the measure.
    ``QUIET``
        The same, of which values that are too small count.
    """

    NONE = "none"
    AVERAGE = "average"
    CUSUM = "cusum"
    LOG_AVERAGE = "log-average"
    QUIET = "quiet"


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearView:
    """A view of rows: ``f_k = sum_j (r_order[j] - mean_order[j]) weights[j, k]``.

    Parameters
    ----------
    kind : View
        Which view it is.
    mean : array of shape (p,)
        Mean of each channel in train.
    order : array of int, shape (q,)
        Channels in the order in which they are summed.
    weights : array of shape (q, q)
        Whitening, or the precision scaled by its diagonal.
    first, stop : array of int, shape (q,)
        Channel j reaches only columns [first[j], stop[j]).
    bounds : array of int, optional
        Units of several columns: [bounds[g], bounds[g + 1]); else each column is one.
    units : tuple of str
        Names of the units: channels, or stages.
    is_one_sided : bool
        Whether values below the mean count as the mean, as of a score.
    usual, spread : array of shape (q,)
        Median and spread of each column over commissioning rows, for `Rule.night`;
        empty in rules of earlier versions.
    """

    kind: View
    mean: Floats
    order: Ints
    weights: Floats
    first: Ints
    stop: Ints
    units: tuple[str, ...]
    bounds: Ints | None = None
    is_one_sided: bool = False
    usual: Floats = field(default_factory=lambda: np.empty(0))
    spread: Floats = field(default_factory=lambda: np.empty(0))

    @property
    def n_columns(self) -> int:
        """Number of columns of the view."""
        return len(self.order)

    @cached_property
    def _reach(self) -> Ints:
        """First and last plus one of the channels that reach each column."""
        columns = np.arange(len(self.order))
        return np.stack(
            [
                np.searchsorted(self.stop, columns, "right"),
                np.searchsorted(self.first, columns, "right"),
            ]
        )

    def of(self, rows: npt.NDArray[Any]) -> Floats:
        """Return the view of some rows, shape (n_rows, q)."""
        group, n, q = _kernels().ROWS, len(rows), len(self.order)
        out = np.empty((n, q))
        given = self.mean, self.order, self._reach, self.weights
        _kernels().view_rows(rows, *given, out)
        if n_left := n % group:
            last = np.zeros((group, rows.shape[1]), rows.dtype)
            last[:n_left], of_last = rows[n - n_left :], np.empty((group, q))
            _kernels().view_rows(last, *given, of_last)
            out[n - n_left :] = of_last[:n_left]
        return np.maximum(out, 0.0) if self.is_one_sided else out


@dataclass(frozen=True, kw_only=True, eq=False)
class Member:
    """One score of a rule.

    Parameters
    ----------
    name : str
        Such as ``"z~"``.
    view : View
        What it looks at.
    memory : Memory
        What it remembers.
    span : int
        Rows of the average; 0 without.
    largest : int
        Half the sum of this many largest squares, each value over its level, in place
        of the largest; 0: the largest.
    centre : array
        Attack-free mean of the view (average, cumulative sum), or of the logarithm, or
        of the own score. Empty without memory.
    allowance : array
        Of the cumulative sums: what is subtracted each row. Empty without.
    levels : array of shape (n_units,)
        The unit's own level: its 0.999 quantile over attack-free rows.
    limit : float
        Its limit at the budget, in units of its level; joined members are divided by
        it.
    is_one_sided : bool
        Whether an average below its centre counts as nothing, as of a score.
    """

    name: str
    view: View
    memory: Memory = Memory.NONE
    span: int = 0
    largest: int = 0
    centre: Floats = field(default_factory=lambda: np.empty(0))
    allowance: Floats = field(default_factory=lambda: np.empty(0))
    levels: Floats = field(default_factory=lambda: np.ones(1))
    limit: float = 1.0
    is_one_sided: bool = False

    @property
    def weight(self) -> float:
        """Weight of a new row in the average."""
        return 2 / (self.span + 1)

    def values(self, seen: Floats, state: Floats, bounds: Ints | None) -> Floats:
        """Return the value of each unit in each row; see `unit_values`."""
        return unit_values(self, seen, state, bounds, _kernels())

    def score(self, values: Floats) -> tuple[Floats, Ints]:
        """Return the largest value over its level in each row, and whose it is."""
        return member_scores(self, values, _kernels())


@dataclass(frozen=True, kw_only=True)
class Channel:
    """One channel that a rule reads.

    Parameters
    ----------
    name : str
        Its name.
    unit : str, optional
        Engineering unit of the tag.
    scale : float, optional
        Engineering units for 1 of the residual.
    """

    name: str
    unit: str | None = None
    scale: float | None = None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Rule(Shown):
    """An alarm rule: what it reads, remembers and compares, and its limit.

    Parameters
    ----------
    name : str
        Such as ``"all"`` or ``"z~"``.
    channels : tuple of Channel
        The channels of the rows, in order.
    views : tuple of LinearView
        The views that its members need, each once.
    members : tuple of Member
        Its scores.
    limit : float
        Above it the largest member exceeds.
    delays : Delays
        On-delay, off-delay, and after how long an alarm stands.
    step_s : float, optional
        Seconds a row.
    budget : Budget, optional
        For which its limit was set.
    night : int
        Rows after which the means of all columns are followed; 0: they are fixed.

    Examples
    --------
    >>> from sightline import ResidualStream, commission
    >>> rows = np.random.default_rng(0).normal(size=(42_000, 3))
    >>> rule = commission(
    ...     ResidualStream(rows[:2000], rows[2000:], step_s=10.0), budget="6/day"
    ... ).chosen.rule
    >>> len(rule.channels), rule.step_s, str(rule.budget)
    (3, 10.0, '6/day,1%')
    """

    name: str
    channels: tuple[Channel, ...]
    views: tuple[LinearView, ...]
    members: tuple[Member, ...]
    limit: float
    delays: Delays
    step_s: float | None = None
    budget: Budget | None = None
    night: int = 0

    def _line(self) -> str:
        budget = "" if self.budget is None else f" for {self.budget}"
        members = plural(len(self.members), "score")
        channels = plural(len(self.channels), "channel")
        return f"{self.name!r}{budget}: {members} of {channels}, limit {self.limit:.4g}"

    @cached_property
    def needs_score(self) -> bool:
        """Whether it reads the detector's own score."""
        return any(member.view is View.SCORE for member in self.members)

    @cached_property
    def _view_of(self) -> dict[View, LinearView]:
        return {view.kind: view for view in self.views}

    def view_of(self, member: Member) -> LinearView | None:
        """Return the view of a member; None for the own score."""
        return self._view_of.get(member.view)

    @cached_property
    def n_units(self) -> int:
        """How many units can be out of service: of all members, added up.

        With more than half of them out of service, the rule itself is.
        """
        return sum(n_units_of(m, self.view_of(m)) for m in self.members)

    def unit_name(self, member: int, unit: int) -> str:
        """Return the name of a unit in `RuleRun.service`.

        A channel or a stage; the name of the member, if it is out of service as a
        whole.
        """
        one = self.members[member]
        view = self.view_of(one)
        if view is None or n_units_of(one, view) == 1:
            return one.name
        if is_by_tag(one, view):
            return self.channels[unit].name
        return view.units[unit]

    def start(self, saved: Mapping[str, npt.NDArray[Any]] | None = None) -> "RuleState":
        """Return the state of a live rule, before its first row.

        Parameters
        ----------
        saved : mapping of str to array, optional
            What `RuleState.arrays` gave: the state continues from there, to the last
            bit.

        Raises
        ------
        StreamError
            If `saved` is not the state of a rule with these members.
        """
        state = RuleState(self)
        if saved is not None:
            state.restore(saved)
        return state

    def alarms(
        self, rows: object, *, breaks: Sequence[int] | Ints = (), score: object = None
    ) -> Bools:
        """Return which rows are in alarm, the latch of the off-delay included.

        Parameters
        ----------
        rows : array of shape (n_rows, p), or Rows
            Residuals of the rule's channels, in their order; nan where a channel has no
            usable value. It then counts as what the others expect of it.
        breaks : sequence of int
            Rows at which a new recording begins: memory and alarms start again.
        score : array of shape (n_rows,), optional
            The detector's own score, if a member reads it.
        """
        return self.run(rows, breaks=breaks, score=score).in_alarm

    def episodes(
        self,
        rows: object,
        *,
        breaks: Sequence[int] | Ints = (),
        labels: object = None,
        score: object = None,
    ) -> Episodes:
        """Return the alarms as episodes, with the time that counts.

        Parameters
        ----------
        rows, breaks, score
            As of `alarms`.
        labels : array of shape (n_rows,), optional
            1 attack, 0 normal, -1 ignored. With these, `Episodes.counts` says how many
            false alarms each one counts as.
        """
        found = self.run(rows, breaks=breaks, score=score).episodes
        if labels is None:
            return found
        marks, cuts = check_labels(labels), np.unique(np.append(0, breaks))
        if len(marks) != found.n_rows:
            raise StreamError(
                f"`labels` must have one value for each of the {found.n_rows:,} rows; "
                f"it has {len(marks):,}."
            )
        attacks = segments_of(marks == ATTACK, cuts.astype(np.int64))
        time = AttackFreeTime.of(marks, attacks, self.step_s)
        counts, _, _ = counted(found, time.beyond_guard, self.delays.unit)
        return replace(found, counts=counts)

    def run(
        self,
        rows: object,
        *,
        breaks: Sequence[int] | Ints = (),
        score: object = None,
        answers: Sequence[tuple[int, int]] = (),
        anew: Collection[int] = (),
    ) -> "RuleRun":
        """Return all that the rule says of a record.

        Parameters
        ----------
        rows, breaks, score
            As of `alarms`.
        answers : sequence of (int, int)
            Rows from which on what is asked about a channel is normal, and the channel.
        anew : collection of int
            Breaks so long that means are followed from the usual ones again.
        """
        state, pieces, place = self.start(), [], 0
        cuts, given = np.asarray(breaks, np.int64), sorted(answers)
        for block, begins, own in self.blocks(rows, cuts, score, {r for r, _ in given}):
            if begins and place in anew:
                state.begin_anew()
            for row, channel in given:
                if row == place and state.nights is not None:
                    state.nights.accept(channel)
            pieces.append(state.advance(block, after_break=begins, score=own))
            place += len(block)
        return RuleRun.joined(self, pieces, np.unique(np.append(0, cuts)))

    def blocks(
        self,
        rows: object,
        breaks: Ints,
        score: object = None,
        cuts: Collection[int] = (),
    ) -> Iterator[tuple[npt.NDArray[Any], bool, Floats | None]]:
        """Yield blocks of a record, whether a recording begins, and the own score.

        A block begins at each of `cuts` too.
        """
        table = as_rows(rows, "rows")
        self.check_channels(table.n_channels)
        own = None if score is None else check_series(score, "score")
        if own is not None and len(own) != table.n_rows:
            raise StreamError(
                f"`score` must have one value for each of the {table.n_rows:,} rows; "
                f"it has {len(own):,}."
            )
        begins = set(breaks.tolist())
        for start, block in read_on_grid(table, sorted({*begins, *cuts})):
            part = None if own is None else own[start : start + len(block)]
            yield block, start in begins, part

    def check_channels(self, n_channels: int) -> None:
        """Raise unless rows have as many channels as the rule reads."""
        if n_channels != len(self.channels):
            raise StreamError(
                f"The rule {self.name!r} reads {len(self.channels)} channels "
                f"({names([c.name for c in self.channels], 4)}); the rows have "
                f"{n_channels}: give the residuals of the detector it was made for."
            )

    @property
    def fixed(self) -> "Rule":
        """The same rule, with means as they were on commissioning rows."""
        return replace(self, night=0)

    def with_limit(self, limit: float) -> "Rule":
        """Return the same rule with another limit."""
        return replace(self, limit=limit)


@dataclass(frozen=True, kw_only=True, eq=False)
class RuleRun:
    """What a rule says of a record.

    Parameters
    ----------
    rule : Rule
        The rule.
    trace : array of shape (n_rows,)
        The largest member over its limit, units that are out of service included.
    exceeds : array of bool, shape (n_rows,)
        Where a unit in service exceeds.
    in_alarm : array of bool, shape (n_rows,)
        The same after on-delay and off-delay.
    leading, unit : array of int, shape (n_rows,)
        Which member is the largest by its units in service, and which unit of its view.
    standing : array of bool, shape (n_rows,)
        Where a unit that is out of service exceeds: its alarm still stands.
    n_out : array of int, shape (n_rows,)
        How many units of `Rule.n_units` are out of service because they stand.
    service : array of int, shape (n_changes, 4)
        Row, member, unit, and 1 if it goes out of service in that row or 0 if it
        returns; in the order of rows. Of an energy the unit is a channel of the rule.
        What is out of service returns at a break. See `Rule.unit_name`.
    breaks : array of int
        Rows at which a new recording begins.
    questions : tuple of Question
        Channels that a person is asked about, in the order of rows.
    """

    rule: Rule
    trace: Floats
    exceeds: Bools
    in_alarm: Bools
    leading: Shorts
    unit: Shorts
    standing: Bools
    n_out: Shorts
    service: Ints
    breaks: Ints
    questions: tuple[Question, ...] = ()

    @property
    def arrays(self) -> tuple[npt.NDArray[Any], ...]:
        """What it says of each row, one array after the other."""
        return tuple(getattr(self, name) for name in _BY_ROW)

    @classmethod
    def joined(cls, rule: Rule, pieces: "Iterable[RuleRun]", breaks: Ints) -> "RuleRun":
        """Return what a rule says of pieces of a record, one after the other."""
        no_rows = np.empty((0, len(rule.channels)))
        no_score = np.empty(0) if rule.needs_score else None
        nothing = rule.start().advance(no_rows, score=no_score)
        columns = [[array] for array in nothing.arrays]
        service, n_rows = [nothing.service], 0
        questions: list[Question] = []
        for piece in pieces:
            for column, array in zip(columns, piece.arrays, strict=True):
                column.append(array)
            service.append(piece.service + np.array([n_rows, 0, 0, 0]))
            questions += [q._replace(row=q.row + n_rows) for q in piece.questions]
            n_rows += len(piece.trace)
        joined: dict[str, npt.NDArray[Any]] = {}
        for name, column in zip(_BY_ROW, columns, strict=True):
            joined[name] = np.concatenate(column)
            # Pieces that came from an iterator are held by nothing else.
            column.clear()
        changes = np.concatenate(service)
        asked = tuple(questions)
        return cls(rule=rule, service=changes, breaks=breaks, questions=asked, **joined)

    @property
    def rule_is_out(self) -> Bools:
        """Where more than half of its units, and so the rule, are out of service."""
        return 2 * self.n_out.astype(np.int64) > self.rule.n_units

    @property
    def is_silent(self) -> Bools:
        """Where a rule out of service still stands: that counts as in alarm."""
        return self.rule_is_out & self.standing & ~self.in_alarm

    @cached_property
    def episodes(self) -> Episodes:
        """The alarms, with the rows at which another tag comes to lead one."""
        alarms = episodes_in(self.in_alarm, self.exceeds, self.breaks)
        rows = np.flatnonzero(self.exceeds & self.in_alarm)
        alarm = np.searchsorted(alarms.starts, rows, side="right")
        led = np.stack([alarm, self.leading[rows], self.unit[rows]], axis=1)
        _, first = np.unique(led, axis=0, return_index=True)
        return replace(alarms, rises=np.sort(rows[first]))

    def is_out(self, member: int, rows: Ints) -> Bools:
        """Return which units of a member are out of service in some rows.

        Returns
        -------
        array of bool, shape (n_rows, n_units)
            Of an energy, each channel of the rule.
        """
        one = self.rule.members[member]
        view = self.rule.view_of(one)
        has_tags = is_by_tag(one, view)
        n = len(self.rule.channels) if has_tags else n_units_of(one, view)
        out = np.zeros((len(rows), n), np.bool_)
        changes = self.service[self.service[:, 1] == member]
        for unit in np.unique(changes[:, 2]).tolist():
            # Out and back follow each other.
            own = changes[changes[:, 2] == unit, 0]
            out[:, unit] = np.searchsorted(own, rows, side="right") % 2
        return out

    def leaders(self, first: int, last: int, most: int = 3) -> tuple[str, list[str]]:
        """Return which member led rows [first, last], and the units by how often.

        Only exceedances count; the member at the peak is named.
        """
        rows = np.arange(first, last + 1)[self.exceeds[first : last + 1]]
        peak = rows[np.argmax(self.trace[rows])]
        found: dict[str, int] = {}
        for row in rows.tolist():
            for name in self.units_at(row):
                found[name] = found.get(name, 0) + 1
        at_peak = dict.fromkeys(self.units_at(int(peak)))
        order = sorted(found, key=lambda name: (name not in at_peak, -found[name]))
        return self.rule.members[self.leading[peak]].name, order[:most]

    def units_at(self, row: int) -> tuple[str, ...]:
        """Return the channel, or the stage, that is the largest in a row."""
        view = self.rule.view_of(self.rule.members[self.leading[row]])
        return () if view is None else (view.units[self.unit[row]],)


class RuleState(RuleSteps):
    """A live rule: takes one row, or some, after the other, by compiled loops.

    Parameters
    ----------
    rule : Rule
        The rule.
    """

    rule: Rule

    def __init__(self, rule: Rule) -> None:
        self.loops = _kernels()
        super().__init__(rule)

    def look(self, rows: npt.NDArray[Any], view: LinearView) -> Floats:
        """Return a view of rows."""
        return view.of(rows)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return copies of all that it remembers, for `Rule.start`.

        Examples
        --------
        >>> from sightline import ResidualStream
        >>> from sightline.rules.commission import commission
        >>> rows = np.random.default_rng(0).normal(size=(20_000, 2))
        >>> stream = ResidualStream(rows[:2000], rows, step_s=10.0)
        >>> rule = commission(stream, budget="24/day").chosen.rule
        >>> first = rule.start()
        >>> for row in rows[:50]:
        ...     _ = first.update(row)
        >>> second = rule.start(first.arrays())
        >>> first.update(rows[50]) == second.update(rows[50])
        True
        """
        return {name: array.copy() for name, array in self._named().items()}

    def restore(self, saved: Mapping[str, npt.NDArray[Any]]) -> None:
        """Continue from what `arrays` gave; see `Rule.start`."""
        is_old = "members" in saved  # which took members, not units, out of service
        for name, array in self._named().items():
            given = saved.get(name)
            if is_old and name.startswith("service/"):
                given = np.zeros_like(array)
            if given is None or (given.shape, given.dtype) != (
                array.shape,
                array.dtype,
            ):
                raise StreamError(
                    f"The saved state is not one of the rule {self.rule.name!r}: "
                    "start the rule without it."
                )
            array[...] = given
        self.find_active()

    def _named(self) -> dict[str, npt.NDArray[Any]]:
        memory = {f"memory/{k}": array for k, array in enumerate(self.memory)}
        service = {f"service/{k}": array for k, array in enumerate(self.service)}
        nights: dict[str, npt.NDArray[Any]] = {}
        if self.nights is not None:
            names = "rows", "count", "channel"
            nights = {name: getattr(self.nights, name) for name in names}
            nights |= self.nights.followed._asdict()
            nights = {f"night/{name}": array for name, array in nights.items()}
        return {**memory, **service, **nights, "latch": self.latch}

    def update(
        self, row: object, *, after_break: bool = False, score: float | None = None
    ) -> bool:
        """Return whether the rule is in alarm after one more row.

        Parameters
        ----------
        row : array of shape (p,)
            Residuals of the rule's channels; nan where one has no usable value.
        after_break : bool
            Whether rows before it are missing: memory and alarms start again.
        score : float, optional
            The detector's own score, if a member reads it.
        """
        values = np.asarray(row, np.float64).reshape(1, -1)
        self.rule.check_channels(values.shape[1])
        own = None if score is None else np.array([score], np.float64)
        self._check_values(values, own)
        if after_break:
            self.restart()
        return bool(self.judge(self.scores(values, own)).in_alarm[0])

    def advance(
        self,
        rows: npt.NDArray[Any],
        *,
        after_break: bool = False,
        score: Floats | None = None,
    ) -> RuleRun:
        """Return what the rule says of some more rows.

        Raises
        ------
        StreamError
            If a value is infinite or as large as `LARGEST_VALUE`, or a row has no value
            at all; the state stays.
        """
        self._check_values(rows, score)
        if after_break:
            self.restart()
        return self.decide(self.scores(rows, score))

    def _check_values(self, rows: npt.NDArray[Any], score: Floats | None) -> None:
        if rows.size and not -LARGEST_VALUE < rows.min() <= rows.max() < LARGEST_VALUE:
            for row, channel in np.argwhere(np.abs(rows) >= LARGEST_VALUE):
                raise StreamError(
                    f"The rule {self.rule.name!r} got {rows[row, channel]} for the "
                    f"channel {self.rule.channels[channel].name!r}: give nan for a "
                    "value that cannot be used."
                )
            if np.isnan(rows).all(axis=1).any():
                raise StreamError(
                    f"The rule {self.rule.name!r} got a row without any value: leave "
                    "such rows out and begin again after a break."
                )
        if score is not None and not (np.abs(score) < LARGEST_VALUE).all():
            raise StreamError(
                f"The rule {self.rule.name!r} got a score that is not a finite number."
            )

    def decide(self, scored: ScoredRows) -> RuleRun:
        """Return what the rule makes of rows that its members have scored."""
        said = self.judge(scored)
        leading, unit = np.zeros(len(said.exceeds), np.int64), said.units[0]
        if len(said.units) > 1:
            leading = np.argmax(said.ringing, axis=0)
            unit = np.stack(said.units)[leading, np.arange(len(leading))]
        return RuleRun(
            rule=self.rule,
            trace=said.trace.max(axis=0),
            exceeds=said.exceeds,
            in_alarm=said.in_alarm,
            leading=leading.astype(np.int16),
            unit=unit.astype(np.int16),
            standing=said.standing,
            n_out=said.n_out,
            service=np.array(said.service, np.int64).reshape(-1, 4),
            breaks=np.zeros(1, np.int64),
            questions=tuple(scored.questions),
        )

    def scores(self, rows: npt.NDArray[Any], score: Floats | None = None) -> ScoredRows:
        """Return what each member makes of some rows; see `RuleSteps.scores`."""
        if self.rule.needs_score and score is None:
            raise StreamError(
                f"The rule {self.rule.name!r} reads the detector's own score: give it "
                "as `score`."
            )
        return super().scores(rows, score)
