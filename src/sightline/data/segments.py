"""Runs of rows: what is one attack, one alarm, one continuous stretch.

A segment is half-open, [start, stop), and never crosses a break: the first row
of a continuous run of the recording.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import (
    IGNORED,
    NORMAL,
    Bools,
    Floats,
    Ints,
    Labels,
    as_rectangle,
)
from sightline.errors import StreamError

# A step this many times the median one starts a new continuous run.
GAP_FACTOR = 1.5


@dataclass(frozen=True, order=True)
class Segment:
    """Rows [start, stop)."""

    start: int
    stop: int

    def __post_init__(self) -> None:
        """Refuse an empty or negative run."""
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
        """The rows, for indexing an array."""
        return slice(self.start, self.stop)

    def overlap(self, other: "Segment") -> int:
        """Return the number of rows both have."""
        return max(0, min(self.stop, other.stop) - max(self.start, other.start))


@dataclass(frozen=True, kw_only=True)
class Attack:
    """What is known of one attack besides its label: who, where, what."""

    id: str
    start: int
    stop: int
    name: str | None = None
    targets: tuple[str, ...] = ()
    note: str | None = None

    @property
    def segment(self) -> Segment:
        """The rows of the attack."""
        return Segment(self.start, self.stop)


def segments_of(mask: Bools, breaks: Ints | None = None) -> list[Segment]:
    """Return the maximal runs of True, cut at breaks.

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
    """Return first rows and one-past-last rows of the runs `segments_of` names."""
    if len(mask) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    begins = np.empty(len(mask), np.bool_)
    begins[0] = True
    np.not_equal(mask[1:], mask[:-1], out=begins[1:])
    if breaks is not None:
        begins[breaks] = True
    starts = np.flatnonzero(begins)
    stops = np.append(starts[1:], len(mask))
    held = mask[starts]
    return starts[held], stops[held]


def breaks_from_time(time: Floats, step_s: float | None = None) -> Ints:
    """Return the first row of each continuous run, from time stamps in seconds.

    A new run begins where time jumps by more than 1.5 steps, or goes back. A step is
    the median one, where it is not given.
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
    """Return sorted first rows of continuous runs, row 0 among them."""
    rows = as_rectangle(values, name)
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


def breaks_kept(breaks: Ints, keep: Bools) -> Ints:
    """Return where each run begins once rows are left out; empty runs vanish."""
    new_row = np.concatenate([[0], np.cumsum(keep)])
    starts = new_row[breaks]
    return np.unique(starts[starts < new_row[-1]])


def with_guard(
    labels: Labels, attacks: Sequence[Segment], breaks: Ints, guard: int
) -> Labels:
    """Turn up to `guard` normal rows after each attack into ignored ones.

    The guard ends at a break: what follows one is another stretch of time.
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
        tail[tail == NORMAL] = IGNORED
    return guarded


def name_segments(
    segments: Sequence[Segment], attacks: Sequence[Attack]
) -> list[Attack]:
    """Give each labelled run the identity of the attacks it overlaps.

    Two attacks that touch make one run, ids joined with ``+``. Runs nobody named
    are numbered; a name used twice (one attack cut by a break) gets a part number.
    """
    named: list[Attack] = []
    taken: set[str] = set()
    for number, segment in enumerate(segments, start=1):
        here = [a for a in attacks if segment.overlap(a.segment)]
        # A bare number could be another attack's id, so say that nobody listed it.
        unnamed = f"unlisted-{number}" if attacks else str(number)
        id_ = "+".join(a.id for a in here) or unnamed
        part, whole_id = 1, id_
        while id_ in taken:
            part += 1
            id_ = f"{whole_id}/{part}"
        taken.add(id_)
        named.append(
            Attack(
                id=id_,
                start=segment.start,
                stop=segment.stop,
                name=_joined([a.name for a in here]),
                targets=tuple(dict.fromkeys(t for a in here for t in a.targets)),
                note=_joined([a.note for a in here]),
            )
        )
    return named


def _joined(texts: Sequence[str | None]) -> str | None:
    return "; ".join(text for text in texts if text) or None
