"""A rule at the places: which size of a falsification brings which row over its limit.

A member's view of a row is linear in the row, and so is its average. So the view of a
falsified row is ``f0 + d``: `f0` without falsification (the *twin*), `d` the view of
what the falsification changes. For a change of size `a` that grows in proportion,
``d = a f1``, and the size at which the row crosses is a root of a line (largest
deviation) or of a parabola (energy).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from sightline.blindspots.places import Change, Grid
from sightline.data.arrays import ATTACK, Bools, Floats, Ints, Labels
from sightline.data.row_tables import as_rows, read_on_grid
from sightline.data.segments import segments_of
from sightline.energy.attack_free import AttackFreeTime
from sightline.errors import StreamError
from sightline.metrics.alarm_load import AlarmLoad, alarm_load
from sightline.rules.rule import LinearView, Member, Memory, Rule, RuleRun
from sightline.rules.standalone import EnergyTags, is_by_tag

# An average forgets a row after this many spans: to 2e-7 of its weight.
FORGOTTEN_SPANS: Final = 8
# Other memories reach back to the beginning of a falsification.
NEVER_FORGOTTEN: Final = 10**9


class Named(Protocol):
    """A rule by its name."""

    @property
    def name(self) -> str:
        """Its name."""


class PlaceRule(Protocol):
    """A rule at the places, for one duration: `RuleView`, or a detector's own."""

    @property
    def rule(self) -> Named:
        """The rule."""

    @property
    def grid(self) -> Grid:
        """The rows."""

    @property
    def is_usable(self) -> Bools:
        """Rows that are further than the off-delay from the twin's alarms."""

    @property
    def is_linear(self) -> bool:
        """Whether `crossings` can be used."""

    def crossings(self, change: Change) -> Floats:
        """Return the size at which each row raises an alarm, for both signs."""

    def raises(self, change: Change) -> Bools:
        """Return which usable rows raise an alarm under a change."""


class RecordRule(Protocol):
    """A rule over a record, with its places: `RuleViews`, or a detector's own."""

    def views(self) -> Sequence[PlaceRule]:
        """Return the rule at the places, one for each duration."""

    def at(self, grid: Grid, fits: Bools) -> PlaceRule:
        """Return the rule for one duration at the places at which it fits."""


@dataclass(frozen=True, eq=False)
class RowChange:
    """A change given row by row.

    Parameters
    ----------
    rows : array of shape (n_places, n_offsets, n_channels)
        Falsified minus twin.
    """

    rows: Floats

    def through(self, weights: Floats) -> Floats:
        """Return the change seen through a linear map; see `Change`."""
        return np.asarray(self.rows @ weights)


def memory_rows(rules: Sequence[Rule]) -> int:
    """Return after how many rows the averages of some rules have forgotten a row."""
    members = [member for rule in rules for member in rule.members]
    if not all(has_linear_memory(member) for member in members):
        return NEVER_FORGOTTEN
    return FORGOTTEN_SPANS * max((member.span for member in members), default=0)


def has_linear_memory(member: Member) -> bool:
    """Return whether what a member looks at is linear in the rows."""
    return (
        member.memory in (Memory.NONE, Memory.AVERAGE)
        and not member.largest
        and not member.is_one_sided
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class MemberView:
    """One member of a rule at the places.

    Parameters
    ----------
    member : Member
        The member.
    bounds : array of int, optional
        Columns of units that have several.
    weights : array of shape (n_channels, q)
        Its view of a change in the rows.
    base : array of shape (n_places, n_offsets, q)
        What it looks at in the twin: with its average, if that is linear, and without
        what is out of service; else the view alone.
    states : array of shape (n_places, 2, q)
        Its memory before the first row of each place.
    limits : array of shape (n_units,)
        Above these the rule exceeds.
    is_out : array of bool, shape (n_places, n_offsets, q), optional
        Columns that are out of service in the twin, so that they cannot ring; tags, if
        they are left out of an energy. None where nothing is.
    tags : EnergyTags, optional
        The energy from which tags are left out.
    """

    member: Member
    bounds: Ints | None
    weights: Floats
    base: Floats
    states: Floats
    limits: Floats
    is_out: Bools | None = None
    tags: EnergyTags | None = None

    def in_service(self, seen: Floats, place: int | None = None) -> Floats:
        """Return what is left of a view, or of its change, of what is in service.

        Parameters
        ----------
        seen : array of shape (n_places, n_offsets, q), or (n_offsets, q) at one place
            Linear in the rows.
        place : int, optional
            The place.
        """
        if self.is_out is None:
            return seen
        is_out = self.is_out if place is None else self.is_out[place, : len(seen)]
        if self.tags is None:
            return np.where(is_out, 0.0, seen)
        rest, q = seen.reshape(-1, seen.shape[-1]).copy(), seen.shape[-1]
        patterns, which = np.unique(is_out.reshape(-1, q), axis=0, return_inverse=True)
        for k, pattern in enumerate(patterns):
            rows, out = np.flatnonzero(which.reshape(-1) == k), np.flatnonzero(pattern)
            rest[rows] = self.tags.energies(rest[rows], (), out)[0]
        return rest.reshape(seen.shape)


@dataclass(frozen=True, kw_only=True, eq=False)
class RuleView:
    """A rule at the places, for one duration.

    Parameters
    ----------
    rule : Rule
        The rule.
    grid : Grid
        The rows.
    members : tuple of MemberView
        Its members.
    is_usable : array of bool, shape (n_places, n_offsets)
        Rows that are further than the off-delay from every alarm row of the twin: an
        alarm there is due to the falsification.
    """

    rule: Rule
    grid: Grid
    members: tuple[MemberView, ...]
    is_usable: Bools

    @property
    def is_linear(self) -> bool:
        """Whether `crossings` can be used."""
        return all(has_linear_memory(view.member) for view in self.members)

    def crossings(self, change: Change) -> Floats:
        """Return the size at which each row raises an alarm, for both signs.

        Parameters
        ----------
        change : Change
            Of a size of 1; other sizes change in proportion.

        Returns
        -------
        array of shape (2, n_places, n_offsets)
            Least size of the falsification as given and of its opposite; infinite
            where no size raises an alarm, or the row is not usable.
        """
        from sightline._kernels import rows as kernels

        shape = self.is_usable.shape
        sizes = np.full((2, *shape), np.inf)
        for view in self.members:
            found = np.full((2, shape[0] * shape[1]), np.inf)
            difference = self._remembered(view, change.through(view.weights))
            q = difference.shape[2]
            flat = view.base.reshape(-1, q), difference.reshape(-1, q)
            if view.bounds is None:
                kernels.channel_crossings(*flat, view.limits, *found)
            else:
                kernels.energy_crossings(*flat, view.bounds, view.limits, *found)
            np.minimum(sizes, found.reshape(2, *shape), out=sizes)
        raised = np.stack([self._delayed(one) for one in sizes])
        raised[:, ~self.is_usable] = np.inf
        return raised

    def raises(self, change: Change) -> Bools:
        """Return which usable rows raise an alarm under a change.

        Returns
        -------
        array of bool, shape (n_places, n_offsets)
        """
        exceeds = np.zeros(self.is_usable.shape, np.bool_)
        for view in self.members:
            difference = change.through(view.weights)
            if has_linear_memory(view.member):
                seen = view.base + self._remembered(view, difference)
                sizes = np.abs(seen)
                if view.bounds is not None:
                    squares = np.square(seen)
                    sizes = 0.5 * np.add.reduceat(squares, view.bounds[:-1], axis=2)
                over = np.asarray((sizes > view.limits).any(axis=2))
            else:
                over = self._exceeds_by_row(view, view.base + difference)
            exceeds |= over
        # A row exceeds at no size at all, or at any.
        return np.asarray(
            (self._delayed(np.where(exceeds, 0.0, np.inf)) == 0) & self.is_usable
        )

    def _remembered(self, view: MemberView, difference: Floats) -> Floats:
        """Return the average of a change, of what is in service.

        Nothing was changed before its first row.
        """
        if view.member.memory is not Memory.AVERAGE:
            return view.in_service(difference)
        from scipy.signal import lfilter

        weight, first, pieces = view.member.weight, 0, []
        for start, stop in self.grid.runs:
            part = difference[:, first : first + stop - start]
            pieces.append(lfilter([weight], [1.0, weight - 1.0], part, axis=1))
            first += stop - start
        return view.in_service(np.concatenate(pieces, axis=1))

    def _exceeds_by_row(self, view: MemberView, seen: Floats) -> Bools:
        """Return where a member with another memory exceeds: row by row."""
        member, over = view.member, np.empty(seen.shape[:2], np.bool_)
        limit = member.limit * self.rule.limit
        for k, (rows, state) in enumerate(zip(seen, view.states, strict=True)):
            values = member.values(
                np.ascontiguousarray(rows), state.copy(), view.bounds
            )
            if view.is_out is None:
                over[k] = member.score(values)[0] > limit
                continue
            firsts = slice(None) if view.bounds is None else view.bounds[:-1]
            is_out = view.is_out[k][:, firsts]
            left = np.where(is_out, 0.0, values)
            over[k] = (member.score(left)[0] > limit) & ~is_out.all(axis=1)
        return over

    def _delayed(self, sizes: Floats) -> Floats:
        """Return the size at which each row completes the on-delay."""
        delays = self.rule.delays
        if delays.within == 1:
            return sizes
        padding = np.full((len(sizes), delays.within - 1), np.inf)
        padded = np.concatenate([padding, sizes], axis=1)
        windows = np.lib.stride_tricks.sliding_window_view(
            padded, delays.within, axis=1
        )
        needed = np.partition(windows, delays.on - 1, axis=2)[..., delays.on - 1]
        return np.asarray(np.maximum(needed, sizes))


@dataclass(frozen=True, kw_only=True, eq=False)
class TwinRecord:
    """The attack-free record that falsifications are written into.

    Parameters
    ----------
    rows : array of shape (n_rows, n_channels)
        Its residual rows.
    breaks : array of int
        First row of each run.
    is_free : array of bool, shape (n_rows,)
        Attack-free rows on which no limit was set.
    step_s : float
        Seconds a row.
    """

    rows: npt.NDArray[Any]
    breaks: Ints
    is_free: Bools
    step_s: float

    @classmethod
    def of(
        cls,
        rows: Floats,
        labels: Labels,
        breaks: Ints,
        step_s: float | None,
        split: int,
    ) -> tuple["TwinRecord", Bools]:
        """Return a record of residual rows, and its attack-free rows.

        Those before row `split` set limits.
        """
        if step_s is None:
            raise StreamError(
                "Seconds a row are not known, so durations cannot be written: give "
                "time stamps or `step_s`."
            )
        attacks = segments_of(labels == ATTACK, breaks)
        is_calm = AttackFreeTime.of(labels, attacks, step_s).beyond_guard
        is_free = is_calm & (np.arange(len(is_calm)) >= split)
        return cls(rows=rows, breaks=breaks, is_free=is_free, step_s=step_s), is_calm

    def load(self, run: RuleRun) -> AlarmLoad:
        """Return the alarms of a rule on the free rows."""
        return alarm_load(
            run.episodes,
            self.is_free,
            run.rule.delays,
            self.step_s,
            exceeds=run.exceeds,
            shelved=run.n_out > 0,
            standing=run.standing,
            breaks=self.breaks,
        )


class RuleViews:
    """A rule at the places for every duration; the record is read once.

    Parameters
    ----------
    rule : Rule
        The rule. One that reads the detector's own score is refused.
    record : TwinRecord
        The record.
    places : array of int
        First row of each falsification.
    grids : sequence of Grid
        The durations.
    fits : array of bool, shape (n_places, n_grids)
        The places at which each of them fits.
    run : RuleRun, optional
        What the rule says of the record, if it is known.
    """

    def __init__(
        self,
        rule: Rule,
        record: TwinRecord,
        places: Ints,
        grids: Sequence[Grid],
        fits: Bools,
        run: RuleRun | None = None,
    ) -> None:
        if rule.needs_score:
            raise StreamError(
                f"The rule {rule.name!r} reads the detector's own score, whose answer "
                "to falsified telemetry is not known: choose a rule on residuals."
            )
        self.rule, self.record, self.places = rule, record, places
        self.run = run or rule.run(record.rows, breaks=record.breaks)
        self.grids, self.fits = grids, fits
        rows = [places[fits[:, k], None] + g.offsets for k, g in enumerate(grids)]
        self.bases, self.states = self._bases(rows)
        rings = self.run.exceeds & self.run.in_alarm
        self.is_usable = far_from(rings, rule.delays.off)

    def views(self) -> list[RuleView]:
        """Return the rule at the places, one for each duration."""
        return [self.at(grid, self.fits[:, k]) for k, grid in enumerate(self.grids)]

    def at(self, grid: Grid, fits: Bools) -> RuleView:
        """Return the rule for one duration at the places at which it fits.

        The record is read again for a duration that is not among `grids`.
        """
        rows = self.places[fits, None] + grid.offsets
        if not np.isin(rows, self._wanted).all():
            other = RuleViews(
                self.rule, self.record, self.places, [grid], fits[:, None], self.run
            )
            return other.at(grid, fits)
        members = tuple(
            self._member(m, rows, fits) for m in range(len(self.rule.members))
        )
        return RuleView(
            rule=self.rule, grid=grid, members=members, is_usable=self.is_usable[rows]
        )

    def _member(self, m: int, rows: Ints, fits: Bools) -> MemberView:
        member = self.rule.members[m]
        view = self.rule.view_of(member)
        assert view is not None  # noqa: S101
        place = np.searchsorted(self._wanted, rows)
        found = MemberView(
            member=member,
            bounds=view.bounds,
            weights=view_weights(view, len(self.rule.channels)),
            base=np.ascontiguousarray(self.bases[m][place]),
            states=self.states[m][fits],
            limits=member.levels * member.limit * self.rule.limit,
        )
        is_out = self.run.is_out(m, rows.ravel())
        if not is_out.any():
            return found
        has_tags = is_by_tag(member, view)
        if has_tags:
            is_out = is_out[:, view.order]
        elif is_out.shape[1] == 1:  # the whole member
            is_out = np.repeat(is_out, view.n_columns, axis=1)
        elif view.bounds is not None:
            is_out = np.repeat(is_out, np.diff(view.bounds), axis=1)
        found = replace(
            found,
            is_out=is_out.reshape(*rows.shape, -1),
            tags=EnergyTags(member, view) if has_tags else None,
        )
        if not has_linear_memory(member):
            return found
        return replace(found, base=found.in_service(found.base))

    def _bases(self, rows: Sequence[Ints]) -> tuple[list[Floats], list[Floats]]:
        """Return what each member looks at in the wanted rows, and its memory."""
        from sightline._kernels.alarms import average_rows

        rule = self.rule
        self._wanted = np.unique(np.concatenate([one.ravel() for one in rows]))
        views = [v for m in rule.members if (v := rule.view_of(m)) is not None]
        widths = [view.n_columns for view in views]
        bases = [np.empty((len(self._wanted), q)) for q in widths]
        states = [np.zeros((len(self.places), 2, q)) for q in widths]
        memory = [np.zeros((2, q)) for q in widths]
        for start, block, begins in self._blocks():
            if begins:
                memory = [np.zeros((2, q)) for q in widths]
            if (at := np.searchsorted(self.places, start)) < len(
                self.places
            ) and self.places[at] == start:
                for one, now in zip(states, memory, strict=True):
                    one[at] = now
            stop = start + len(block)
            inside = slice(*np.searchsorted(self._wanted, (start, stop)))
            kept = self._wanted[inside] - start
            seen = {view.kind: view.of(block) for view in rule.views}
            for m, member in enumerate(rule.members):
                looked = seen[member.view]
                if member.memory is Memory.AVERAGE and has_linear_memory(member):
                    looked = looked.copy()
                    average_rows(looked, member.centre, member.weight, memory[m][0])
                elif member.memory is not Memory.NONE:
                    # Only its memory moves on.
                    member.values(looked, memory[m], views[m].bounds)
                bases[m][inside] = looked[kept]
        return bases, states

    def _blocks(self) -> Iterator[tuple[int, npt.NDArray[Any], bool]]:
        """Yield first row, rows and whether a run begins; cut at places and breaks."""
        breaks = self.record.breaks
        begins = {0, *breaks.tolist()}
        cuts = np.union1d(breaks, self.places).tolist()
        for start, block in read_on_grid(as_rows(self.record.rows, "rows"), cuts):
            yield start, block, start in begins


def far_from(rings: Bools, off: int) -> Bools:
    """Return rows that are further than the off-delay from every alarm row.

    Examples
    --------
    >>> far_from(np.array([0, 0, 0, 1, 0, 0], bool), 1)
    array([ True,  True, False, False, False,  True])
    """
    at, near = np.flatnonzero(rings), np.zeros(len(rings) + 1, np.int64)
    np.add.at(near, np.maximum(at - off, 0), 1)
    np.add.at(near, np.minimum(at + off + 1, len(near) - 1), -1)
    return np.asarray(np.cumsum(near[:-1]) == 0)


def view_weights(view: LinearView, n_channels: int) -> Floats:
    """Return the linear map of a view: shape (n_channels, q).

    Examples
    --------
    >>> from sightline.rules.rule import View
    >>> view = LinearView(kind=View.X, mean=np.zeros(2), order=np.array([1]),
    ...     weights=np.eye(1), first=np.array([0]), stop=np.array([1]), units=("b",))
    >>> view_weights(view, 2)
    array([[0.],
           [1.]])
    """
    weights = np.zeros((n_channels, view.n_columns))
    for j, channel in enumerate(view.order.tolist()):
        reached = slice(view.first[j], view.stop[j])
        weights[channel, reached] = view.weights[j, reached]
    return weights
