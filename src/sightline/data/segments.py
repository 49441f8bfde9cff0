"""Segments: runs of rows that are one attack, one alarm or one continuous run.

A segment is half-open, [start, stop). It never crosses a break, which is the first row
of a continuous run of the recording. Lists of attacks say when each ran, and become
attacks and labels by row.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from sightline.data import arrays
from sightline.data.arrays import ATTACK, IGNORED, NORMAL, Bools, Floats, Ints, Labels
from sightline.errors import StreamError

# A step this many times the median one starts a new continuous run.
GAP_FACTOR = 1.5


@dataclass(frozen=True, order=True)
class Segment:
    """Rows [start, stop), sorted by start.

    Parameters
    ----------
    start, stop : int
        First row, and one past the last; 0 <= start < stop.

    Raises
    ------
    StreamError
        If the run is empty or begins before row 0.

    Examples
    --------
    >>> Segment(10, 25).length, Segment(10, 25).overlap(Segment(20, 40))
    (15, 5)
    """

    start: int
    stop: int

    def __post_init__(self) -> None:
        """Raise `StreamError` for an empty or negative run."""
        if not 0 <= self.start < self.stop:
            raise StreamError(
                f"A segment needs 0 <= start < stop; got [{self.start}, {self.stop})."
            )

    @property
    def length(self) -> int:
        """Number of rows."""
        return self.stop - self.start

    @property
    def rows(self) -> slice:
        """The rows as a slice, to index an array."""
        return slice(self.start, self.stop)

    def overlap(self, other: "Segment") -> int:
        """Return the number of rows that both segments have."""
        return max(0, min(self.stop, other.stop) - max(self.start, other.start))


@dataclass(frozen=True, kw_only=True)
class KnownEffect:
    """What one attack does to the recorded values, where a simulator knows it.

    The simulator runs a twin without the attack; all distances are from that twin. A
    unit is, for a sensor, the standard deviation of its noise and rounding; for an
    actuator, one step of its code.

    Parameters
    ----------
    id : str
        The attack.
    tags : tuple of str
        The tags that differ from the twin during the attack, the farthest first; empty
        if the attack moves nothing that is recorded.
    largest : float
        Largest distance of any tag in any row of the attack, in units.
    mean : float
        Mean distance over the attack, of the tag for which it is largest, in units.
    recovery_s : float or None
        Seconds after the attack for which the plant is in recovery: different from the
        twin, and where it never is without attacks; None if it does not come back.
    """

    id: str
    tags: tuple[str, ...] = ()
    largest: float = 0.0
    mean: float = 0.0
    recovery_s: float | None = None

    @property
    def moves(self) -> bool:
        """Whether anything recorded differs from the twin at all."""
        return bool(self.tags)


class AttackOutcome(StrEnum):
    """What became of an attack, by the owners of the testbed."""

    HAD_EFFECT = "had-effect"
    NO_EFFECT = "no-effect"
    FAILED = "failed"
    BLOCKED = "blocked"
    NOT_RECORDED = "not-recorded"
    UNKNOWN = "unknown"

    @property
    def words(self) -> str:
        """What is said of it in a sentence."""
        return {
            AttackOutcome.HAD_EFFECT: "it had an effect",
            AttackOutcome.NO_EFFECT: "it had no effect",
            AttackOutcome.FAILED: "it failed",
            AttackOutcome.BLOCKED: "an interlock blocked it",
            AttackOutcome.NOT_RECORDED: "what it changed is not recorded",
            AttackOutcome.UNKNOWN: "nothing",
        }[self]


@dataclass(frozen=True, kw_only=True)
class Attack:
    """Identity, target and description of one attack.

    Parameters
    ----------
    id : str
        The testbed's own number or name.
    start, stop : int
        Rows [start, stop) of the test recording.
    name : str, optional
        A short title.
    targets : tuple of str
        The attacked channels.
    note : str, optional
        A description.
    outcome : AttackOutcome, optional
        What became of it, by the owners of the testbed.

    Examples
    --------
    >>> Attack(id="7", start=100, stop=160, targets=("LIT101",)).segment
    Segment(start=100, stop=160)
    """

    id: str
    start: int
    stop: int
    name: str | None = None
    targets: tuple[str, ...] = ()
    note: str | None = None
    outcome: AttackOutcome | None = None

    @property
    def segment(self) -> Segment:
        """The rows of the attack."""
        return Segment(self.start, self.stop)


def segments_of(mask: Bools, breaks: Ints | None = None) -> list[Segment]:
    """Return the maximal runs of True, cut at breaks, in order.

    Parameters
    ----------
    mask : bool array of shape (rows,)
        Which rows belong to a segment.
    breaks : int array, optional
        First row of each continuous run.

    Examples
    --------
    >>> segments_of(np.array([0, 1, 1, 0, 1], dtype=bool))
    [Segment(start=1, stop=3), Segment(start=4, stop=5)]
    >>> segments_of(np.array([1, 1, 1], dtype=bool), np.array([0, 2]))
    [Segment(start=0, stop=2), Segment(start=2, stop=3)]
    """
    starts, stops = run_bounds(mask, breaks)
    return [
        Segment(int(start), int(stop))
        for start, stop in zip(starts, stops, strict=True)
    ]


def run_bounds(mask: Bools, breaks: Ints | None = None) -> tuple[Ints, Ints]:
    """Return `start` and `stop` of the segments of `segments_of` as two arrays."""
    if len(mask) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    begins = np.empty(len(mask), np.bool_)
    begins[0] = True
    np.not_equal(mask[1:], mask[:-1], out=begins[1:])
    if breaks is not None:
        begins[breaks] = True
    starts = np.flatnonzero(begins)
    stops = np.append(starts[1:], len(mask))
    is_segment = mask[starts]
    return starts[is_segment], stops[is_segment]


def covered_rows(starts: Ints, stops: Ints, n_rows: int) -> Bools:
    """Return which of `n_rows` rows lie in a run [start, stop); runs may overlap.

    Examples
    --------
    >>> covered_rows(np.array([1, 2]), np.array([3, 4]), 5).astype(int)
    array([0, 1, 1, 1, 0])
    """
    steps = np.zeros(n_rows + 1, np.int32)
    np.add.at(steps, starts, 1)
    np.add.at(steps, stops, -1)
    np.cumsum(steps, out=steps)
    return np.asarray(steps[:-1] > 0)


def breaks_from_time(time: Floats, step_s: float | None = None) -> Ints:
    """Return the first row of each continuous run.

    A run begins at row 0, wherever time advances by more than `GAP_FACTOR` steps, and
    wherever it goes back.

    Parameters
    ----------
    time : array of shape (rows,)
        Time stamps in seconds.
    step_s : float, optional
        Seconds per step. Not given: the median of the positive steps.

    Examples
    --------
    >>> breaks_from_time(np.array([0.0, 1.0, 2.0, 60.0, 61.0])).tolist()
    [0, 3]
    """
    if len(time) < 2:
        return np.zeros(min(len(time), 1), np.int64)
    steps = np.diff(time)
    forward = steps[steps > 0]
    median = float(np.median(forward)) if len(forward) else 0.0
    usual = median if step_s is None else step_s
    jumps = (steps > GAP_FACTOR * usual) | (steps < 0)
    return np.concatenate([[0], np.flatnonzero(jumps) + 1]).astype(np.int64)


def check_breaks(values: npt.ArrayLike, name: str, n_rows: int) -> Ints:
    """Return the first rows of continuous runs, sorted, unique and with row 0.

    Raises
    ------
    StreamError
        If `values` is no list of row numbers, or one lies outside the `n_rows` rows.
    """
    rows = arrays.as_rectangle(values, name)
    if rows.ndim != 1 or rows.dtype.kind not in ("iu" if rows.size else "iuf"):
        raise StreamError(
            f"`{name}` must be a list of row numbers (the first row of each "
            f"continuous run); got shape {rows.shape} of type {rows.dtype}."
        )
    if rows.size and (rows.min() < 0 or rows.max() >= n_rows):
        raise StreamError(
            f"`{name}` must lie within the {n_rows} rows; "
            f"got {int(rows.min())} to {int(rows.max())}."
        )
    return np.unique(np.append(rows, 0)).astype(np.int64)


def resolve_breaks(
    breaks: npt.ArrayLike | None, time: Floats | None, name: str, n_rows: int
) -> Ints:
    """Return the first row of each continuous run: given, from time, or row 0 alone."""
    if breaks is not None:
        return check_breaks(breaks, name, n_rows)
    return np.zeros(1, np.int64) if time is None else breaks_from_time(time)


def breaks_kept(breaks: Ints, keep: Bools) -> Ints:
    """Return the first row of each run among the rows where `keep` is true.

    A run of which no row is kept vanishes.

    Examples
    --------
    >>> breaks_kept(np.array([0, 2, 4]), np.array([1, 1, 0, 1, 1, 1], dtype=bool))
    array([0, 2, 3])
    """
    new_row = np.concatenate([[0], np.cumsum(keep)])
    starts = new_row[breaks]
    return np.unique(starts[starts < new_row[-1]])


def with_guard(
    labels: Labels, attacks: Sequence[Segment], breaks: Ints, guard: int
) -> Labels:
    """Return labels in which up to `guard` normal rows after each attack are ignored.

    The guard ends at a break, after which another run begins.

    Parameters
    ----------
    labels : int8 array of shape (rows,)
        1 attack, 0 normal, -1 ignored; not changed.
    attacks : sequence of Segment
        The attacks.
    breaks : int array
        First row of each continuous run.
    guard : int
        Rows, 0 or more.
    """
    if guard < 0:
        raise StreamError(f"`guard` must be 0 or more rows; got {guard}.")
    guarded = labels.copy()
    for attack in attacks:
        following = breaks[np.searchsorted(breaks, attack.stop - 1, side="right") :]
        end = min(
            attack.stop + guard, int(following[0]) if len(following) else len(labels)
        )
        tail = guarded[attack.stop : end]
        tail[tail == arrays.NORMAL] = arrays.IGNORED
    return guarded


def name_segments(
    segments: Sequence[Segment], attacks: Sequence[Attack], *, apart: bool = True
) -> list[Attack]:
    """Return each labelled run with the identity of the attacks that it overlaps.

    Two listed attacks that touch, without a row between them, are two segments: the
    second begins where its own first row is. The ids of several attacks in one segment
    are joined with ``+``. A run that no attack overlaps is numbered (``unlisted-3`` if
    other attacks are listed). If an id occurs twice, because a break cuts an attack,
    the second gets a part number: ``7/2``.

    Parameters
    ----------
    segments : sequence of Segment
        The labelled runs.
    attacks : sequence of Attack
        The listed attacks.
    apart : bool
        Whether attacks that touch are judged apart, or by the runs of labels, as the
        paper does.

    Returns
    -------
    list of Attack
        Ids are unique.

    Examples
    --------
    >>> first, second = Attack(id="1", start=2, stop=5), Attack(id="2", start=5, stop=9)
    >>> [a.segment for a in name_segments([Segment(2, 9)], [first, second])]
    [Segment(start=2, stop=5), Segment(start=5, stop=9)]
    """
    named: list[Attack] = []
    ids: set[str] = set()
    for number, run in enumerate(segments, start=1):
        overlapping = [a for a in attacks if run.overlap(a.segment)]
        groups = [(run, overlapping)]
        if apart and len(overlapping) > 1:
            groups = _apart(run, overlapping)
        for segment, group in groups:
            # A bare number could be the id of another attack.
            unlisted = f"unlisted-{number}" if attacks else str(number)
            id_ = "+".join(a.id for a in group) or unlisted
            part, whole_id = 1, id_
            while id_ in ids:
                part += 1
                id_ = f"{whole_id}/{part}"
            ids.add(id_)
            targets = dict.fromkeys(t for a in group for t in a.targets)
            outcomes = {a.outcome for a in group}
            named.append(
                Attack(
                    id=id_,
                    start=segment.start,
                    stop=segment.stop,
                    name="; ".join(a.name for a in group if a.name) or None,
                    targets=tuple(targets),
                    note="; ".join(a.note for a in group if a.note) or None,
                    outcome=outcomes.pop() if len(outcomes) == 1 else None,
                )
            )
    return named


def _apart(
    run: Segment, attacks: Sequence[Attack]
) -> list[tuple[Segment, list[Attack]]]:
    """Return the parts of a run, each with its attacks, cut where attacks touch.

    Listed times are inclusive, so that the last second of one attack may be the first
    of the next: one row in both is still a touch.
    """
    cuts, end = [run.start], run.start
    groups: list[list[Attack]] = [[]]
    for attack in sorted(attacks, key=lambda a: (a.start, a.stop)):
        is_touch = end - 1 <= attack.start <= end and attack.stop > end
        if groups[-1] and is_touch and attack.start > cuts[-1]:
            cuts.append(attack.start)
            groups.append([])
        groups[-1].append(attack)
        end = max(end, attack.stop)
    parts = (Segment(*pair) for pair in pairwise([*cuts, run.stop]))
    # In the order of the list, as everywhere.
    return [
        (part, [a for a in attacks if a in group])
        for part, group in zip(parts, groups, strict=True)
    ]


def window_starts(runs: Sequence[Segment], length: int) -> Ints:
    """Return where windows of a length begin, every quarter of it, within runs of rows.

    Examples
    --------
    >>> window_starts([Segment(0, 10), Segment(20, 23)], 8)
    array([0, 2])
    """
    starts = [
        np.arange(s.start, s.stop - length + 1, max(1, length // 4))
        for s in runs
        if s.length >= length
    ]
    return np.concatenate(starts) if starts else np.zeros(0, np.int64)


def evenly_chosen(values: Ints, most: int) -> Ints:
    """Return at most `most` of the values, evenly spaced, first and last included.

    Examples
    --------
    >>> evenly_chosen(np.arange(10), 4)
    array([0, 3, 6, 9])
    """
    n = min(len(values), most)
    return values[np.linspace(0, len(values) - 1, n).round().astype(np.int64)]


Span = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class ListedAttack:
    """One line of an attack list; times in seconds, both ends inclusive.

    Parameters
    ----------
    id : str
        The number in the owners' list; ``"U..."`` for a labelled run without one.
    listed : (start, end), optional
        When the owners say it ran; None for an attack without an end time.
    labelled : (start, end), optional
        When the label column of the files marks it.
    adjusted : (start, end), optional
        When a later study of the readings saw it.
    targets : tuple of str
        The attacked tags that are recorded.
    note : str
        What the attacker did and aimed at.
    outcome : AttackOutcome, optional
        What became of it, by the owners.
    file : str
        The part of the release it lies in (HAI).
    """

    id: str
    listed: Span | None
    labelled: Span | None = None
    adjusted: Span | None = None
    targets: tuple[str, ...] = ()
    note: str = ""
    outcome: AttackOutcome | None = None
    file: str = ""

    def over(self, start: int, stop: int) -> Attack:
        """Return the attack over rows [start, stop)."""
        return Attack(
            id=self.id,
            start=start,
            stop=stop,
            targets=self.targets,
            note=self.note or None,
            outcome=self.outcome,
        )


@dataclass(frozen=True, kw_only=True)
class Incident(ListedAttack):
    """One line of your own `attacks.csv`: its times may be uncertain.

    Parameters
    ----------
    uncertainty_s : float
        By how many seconds start and end may be wrong.
    """

    listed: Span
    uncertainty_s: float = 0.0


def rows_within(time: Floats, span: Span) -> Bools:
    """Return which rows lie in a span of seconds, both ends included."""
    return np.asarray((time >= span[0]) & (time <= span[1]))


def attacks_at(
    time: Floats, spans: Iterable[tuple[ListedAttack, Span | None]]
) -> tuple[Attack, ...]:
    """Return attacks by the rows they cover; an attack without a row is left out.

    Parameters
    ----------
    time : array of shape (n_rows,)
        Seconds of each row.
    spans : iterable of (ListedAttack, (start, end) or None)
        Each attack with the time it is taken to have run; None leaves it out.
    """
    attacks = []
    for attack, span in spans:
        if span is None:
            continue
        rows = np.flatnonzero(rows_within(time, span))
        if len(rows):
            attacks.append(attack.over(int(rows[0]), int(rows[-1]) + 1))
    return tuple(attacks)


def labels_of(attacks: Sequence[Attack], n_rows: int) -> Labels:
    """Return labels of shape (n_rows,) that mark exactly the rows of some attacks."""
    labels = np.zeros(n_rows, np.int8)
    for attack in attacks:
        labels[attack.start : attack.stop] = ATTACK
    return labels


def labelled(
    time: Floats, labels: Labels | None, incidents: Sequence[Incident]
) -> tuple[Labels, tuple[Attack, ...]]:
    """Return labels of shape (n_rows,) and attacks by row.

    Parameters
    ----------
    time : array of shape (n_rows,)
        Seconds of each row.
    labels : array of shape (n_rows,), optional
        Labels of the recording itself, which then decide. Not given: incidents mark
        their rows as attacks, and the rows within their uncertainty before and after
        are ignored.
    incidents : sequence of Incident
        The list; an incident without a row gives no attack.
    """
    attacks = attacks_at(time, ((i, i.listed) for i in incidents))
    if labels is not None:
        return labels.copy(), attacks
    labels = labels_of(attacks, len(time))
    for incident in incidents:
        start, end = incident.listed
        margin = incident.uncertainty_s
        around = rows_within(time, (start - margin, end + margin))
        labels[around & (labels == NORMAL)] = IGNORED
    return labels, attacks
