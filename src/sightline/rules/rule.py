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

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from sightline.rules.standalone import RuleSteps, member_scores, unit_values
from sightline.showing import Shown
from sightline.text import names, plural

# Rows with larger values are refused: squares of what is made of them would overflow.
LARGEST_VALUE: Final = np.float64(1e100)
# What a `RuleRun` says of each row.
_BY_ROW: Final = tuple("trace exceeds in_alarm leading unit shelved standing".split())


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
    shelves : bool
        Whether a member that stands is shelved: only in joined rules.
    step_s : float, optional
        Seconds a row.
    budget : Budget, optional
        For which its limit was set.

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
    shelves: bool = False
    step_s: float | None = None
    budget: Budget | None = None

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
            Residuals of the rule's channels, in their order.
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
        self, rows: object, *, breaks: Sequence[int] | Ints = (), score: object = None
    ) -> "RuleRun":
        """Return all that the rule says of a record. Parameters as of `alarms`."""
        state, pieces = self.start(), []
        cuts = np.asarray(breaks, np.int64)
        for block, begins, own in self.blocks(rows, cuts, score):
            pieces.append(state.advance(block, after_break=begins, score=own))
        return RuleRun.joined(self, pieces, np.unique(np.append(0, cuts)))

    def blocks(
        self, rows: object, breaks: Ints, score: object = None
    ) -> Iterator[tuple[npt.NDArray[Any], bool, Floats | None]]:
        """Yield blocks of a record, whether a recording begins, and the own score."""
        table = as_rows(rows, "rows")
        self.check_channels(table.n_channels)
        own = None if score is None else check_series(score, "score")
        if own is not None and len(own) != table.n_rows:
            raise StreamError(
                f"`score` must have one value for each of the {table.n_rows:,} rows; "
                f"it has {len(own):,}."
            )
        begins = set(breaks.tolist())
        for start, block in read_on_grid(table, breaks.tolist()):
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
        The largest member over its limit, shelved ones included.
    exceeds : array of bool, shape (n_rows,)
        Where a member that is not shelved exceeds.
    in_alarm : array of bool, shape (n_rows,)
        The same after on-delay and off-delay.
    leading, unit : array of int, shape (n_rows,)
        Which member that is not shelved is the largest, and which unit of its view.
    shelved : array of bool, shape (n_rows, n_members)
        Which members are shelved.
    standing : array of bool, shape (n_rows,)
        Where a member that is shelved exceeds: its alarm still stands.
    breaks : array of int
        Rows at which a new recording begins.
    """

    rule: Rule
    trace: Floats
    exceeds: Bools
    in_alarm: Bools
    leading: Ints
    unit: Ints
    shelved: Bools
    standing: Bools
    breaks: Ints

    @property
    def arrays(self) -> tuple[npt.NDArray[Any], ...]:
        """What it says of each row, one array after the other."""
        return tuple(getattr(self, name) for name in _BY_ROW)

    @classmethod
    def joined(cls, rule: Rule, pieces: "Iterable[RuleRun]", breaks: Ints) -> "RuleRun":
        """Return what a rule says of pieces of a record, one after the other."""
        n_members = len(rule.members)
        nothing = np.empty((0, n_members)), np.empty((0, n_members), np.int64)
        columns = [[array] for array in rule.start().decide(*nothing).arrays]
        for piece in pieces:
            for column, array in zip(columns, piece.arrays, strict=True):
                column.append(array)
        joined = {}
        for name, column in zip(_BY_ROW, columns, strict=True):
            joined[name] = np.concatenate(column)
            # Pieces that came from an iterator are held by nothing else.
            column.clear()
        return cls(rule=rule, breaks=breaks, **joined)

    @cached_property
    def episodes(self) -> Episodes:
        """The alarms."""
        return episodes_in(self.in_alarm, self.exceeds, self.breaks)

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
        for name, array in self._named().items():
            given = saved.get(name)
            if given is None or (given.shape, given.dtype) != (
                array.shape,
                array.dtype,
            ):
                raise StreamError(
                    f"The saved state is not one of the rule {self.rule.name!r}: "
                    "start the rule without it."
                )
            array[...] = given

    def _named(self) -> dict[str, npt.NDArray[Any]]:
        memory = {f"memory/{k}": array for k, array in enumerate(self.memory)}
        return {**memory, "members": self.members, "latch": self.latch}

    def update(
        self, row: object, *, after_break: bool = False, score: float | None = None
    ) -> bool:
        """Return whether the rule is in alarm after one more row.

        Parameters
        ----------
        row : array of shape (p,)
            Residuals of the rule's channels.
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
        return bool(self.flags(self.scores(values, own)[0])[-1][0])

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
            If a value is not finite, or as large as `LARGEST_VALUE`; the state stays.
        """
        self._check_values(rows, score)
        if after_break:
            self.restart()
        trace, units = self.scores(rows, score)
        return self.decide(trace, units)

    def _check_values(self, rows: npt.NDArray[Any], score: Floats | None) -> None:
        if rows.size and not -LARGEST_VALUE < rows.min() <= rows.max() < LARGEST_VALUE:
            row, channel = np.argwhere(~(np.abs(rows) < LARGEST_VALUE))[0]
            raise StreamError(
                f"The rule {self.rule.name!r} got {rows[row, channel]} for the channel "
                f"{self.rule.channels[channel].name!r}: leave rows without a value "
                "out and begin again after a break."
            )
        if score is not None and not (np.abs(score) < LARGEST_VALUE).all():
            raise StreamError(
                f"The rule {self.rule.name!r} got a score that is not a finite number."
            )

    def decide(self, trace: Floats, units: Ints) -> RuleRun:
        """Return what the rule makes of its members' scores.

        Parameters
        ----------
        trace : array of shape (n_rows, n_members)
            Each member over its limit; see `scores`.
        units : array of int, shape (n_rows, n_members)
            Whose score it is.
        """
        exceeds, shelved, joint, in_alarm = self.flags(trace)
        standing = np.asarray((exceeds & shelved).any(axis=1))
        ringing = np.where(shelved, -1.0, trace) if shelved.any() else trace
        each, leading = np.arange(len(trace)), np.argmax(ringing, axis=1)
        return RuleRun(
            rule=self.rule,
            trace=trace.max(axis=1),
            exceeds=joint,
            in_alarm=in_alarm,
            leading=leading,
            unit=units[each, leading],
            shelved=shelved,
            standing=standing,
            breaks=np.zeros(1, np.int64),
        )

    def scores(
        self, rows: npt.NDArray[Any], score: Floats | None = None
    ) -> tuple[Floats, Ints]:
        """Return each member over its limit in each row, and whose score it is."""
        if self.rule.needs_score and score is None:
            raise StreamError(
                f"The rule {self.rule.name!r} reads the detector's own score: give it "
                "as `score`."
            )
        return super().scores(rows, score)
