"""Attack-free time: where it is decided that a row is attack-free, and why it is not.

A row may be left out for several reasons (`LeftOut`), which are kept row by row in one
value, `AttackFreeTime`. It is computed once for a test and travels inside `ScoredTest`;
everything that reads attack-free rows takes one of its masks. A further reason is one
more member of `LeftOut`, set in `AttackFreeTime.of` and named in the masks it matters
for.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntFlag
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import ATTACK, IGNORED, NORMAL, Bools, Floats, Ints, Labels
from sightline.data.segments import Segment, segments_of

# Rows this long after an attack are left out where alarms are counted.
GUARD_S: Final = 600.0
# Labels may begin late and end early by so long, at least a row, unless a stream says
# otherwise: operators write down minutes, and a plant takes seconds to answer.
LABEL_SLOP_S: Final = 60.0
# Aftermath by energy: blocks of this many rows,
ENERGY_BLOCK_ROWS: Final = 20
# until this many in a row are as usual.
BACK: Final = 3
FAR_QUANTILE: Final = 0.99
LEAST_FAR: Final = 20
# It lasts at most this many lengths of the attack, seconds, or rows.
CAP_LENGTHS: Final = 3
CAP_S: Final = 3600.0
CAP_ROWS: Final = 36
# Blocks that are looked at together.
_AT_ONCE: Final = 512
_SMALLEST: Final = np.finfo(np.float64).tiny


class LeftOut(IntFlag):
    """Why a row does not count as attack-free; several reasons may hold at once."""

    # The label says attack.
    ATTACK = 1
    # The label says ignore, or the row lies in the guard that the user asked for.
    IGNORED = 2
    # The plant, or the energy, is not yet back to what is usual far from any attack.
    AFTERMATH = 4
    # Within ten minutes after an attack.
    GUARD = 8
    # The data of the row are not valid. No check sets it yet.
    INVALID = 16
    # So close to an attack that it may be part of it: labels begin late and end early.
    SLOP = 32


BY_LABEL: Final = LeftOut.ATTACK | LeftOut.IGNORED | LeftOut.INVALID


@dataclass(frozen=True, eq=False)
class AttackFreeTime:
    """Which rows are attack-free, and why the others are left out.

    Parameters
    ----------
    left_out : array of uint8, shape (n_rows,)
        `LeftOut` of each row; 0 where nothing speaks against it.
    margins : array of int, shape (n_attacks, 2)
        Rows before and after the label of each attack that may be part of it; see
        `label_margins`.

    Examples
    --------
    >>> labels = np.array([0, 0, 1, 0, 0, 0])
    >>> time = AttackFreeTime.of(labels, [Segment(2, 3)], 600.0, aftermath_s=[1200.0])
    >>> time.left_out.tolist()
    [0, 32, 1, 44, 4, 0]
    >>> time.for_alarms.astype(int).tolist()
    [1, 0, 0, 0, 0, 1]
    """

    left_out: npt.NDArray[np.uint8]
    margins: Ints

    @classmethod
    def of(
        cls,
        labels: Labels,
        attacks: Sequence[Segment],
        step_s: float | None,
        *,
        aftermath_s: Sequence[float | None] = (),
        label_slop_s: float | None = None,
        breaks: Ints | None = None,
    ) -> "AttackFreeTime":
        """Return the attack-free time of labelled rows.

        Parameters
        ----------
        labels : array of shape (n_rows,)
            1 attack, 0 normal, -1 ignored.
        attacks : sequence of Segment
            Rows of each attack.
        step_s : float, optional
            Seconds a row; 1 for the aftermath, and a guard of one row, if not known.
        aftermath_s : sequence of float
            Seconds of recovery after each attack; empty if they are not known.
        label_slop_s : float, optional
            Seconds by which labels may begin late or end early; by default
            `LABEL_SLOP_S`. 0 takes them as they are.
        breaks : array of int, optional
            Rows at which a new recording begins: no label slips across one.
        """
        left_out = np.zeros(len(labels), np.uint8)

        def leave_out(rows: Bools | slice, reason: LeftOut) -> None:
            left_out[rows] |= np.uint8(reason)

        leave_out(labels == ATTACK, LeftOut.ATTACK)
        leave_out(labels == IGNORED, LeftOut.IGNORED)
        n_guard = max(1, int(np.ceil(GUARD_S / (step_s or GUARD_S) - 1e-6)))
        for attack in attacks:
            leave_out(slice(attack.stop, attack.stop + n_guard), LeftOut.GUARD)
        for attack, after in zip(attacks, aftermath_s, strict=bool(aftermath_s)):
            n_after = int(np.ceil((after or 0.0) / (step_s or 1.0) - 1e-6))
            leave_out(slice(attack.stop, attack.stop + n_after), LeftOut.AFTERMATH)
        n_slop = slop_rows(step_s, label_slop_s)
        # No label slips across rows that count nowhere.
        ignored = np.flatnonzero(labels == IGNORED)
        own = np.zeros(0, np.int64) if breaks is None else breaks
        cuts = np.concatenate([own, ignored, ignored + 1])
        margins = label_margins(attacks, len(labels), n_slop, cuts)
        for attack, (before, after) in zip(attacks, margins.tolist(), strict=True):
            leave_out(slice(attack.start - before, attack.start), LeftOut.SLOP)
            leave_out(slice(attack.stop, attack.stop + after), LeftOut.SLOP)
        return cls(left_out, margins)

    def without(self, reasons: LeftOut) -> Bools:
        """Return the rows that none of some reasons speaks against."""
        return np.asarray((self.left_out & np.uint8(reasons)) == 0)

    @cached_property
    def by_label(self) -> Bools:
        """Rows labelled normal.

        Ranks, matched windows, drift and the false alarms of the paper's figures are
        measured on them, so that a figure depends on the labels alone.
        """
        return self.without(BY_LABEL)

    @cached_property
    def without_aftermath(self) -> Bools:
        """Rows labelled normal, neither aftermath nor within the slop of a label.

        Attacks are compared with windows of them: a plant that recovers is not normal,
        and a label may begin late. Where nothing would be left the slop is given up
        first; then the aftermath cannot be told from normal operation, and the labels
        alone decide.
        """
        for reasons in (LeftOut.AFTERMATH | LeftOut.SLOP, LeftOut.AFTERMATH):
            rows = self.without(BY_LABEL | reasons)
            if rows.any():
                return rows
        return self.by_label

    @property
    def aftermath_share(self) -> float:
        """Share of rows labelled normal that are aftermath; 0 where all would be."""
        share = 1 - self.without(BY_LABEL | LeftOut.AFTERMATH).sum() / max(
            int(self.by_label.sum()), 1
        )
        return float(share) if share < 1 else 0.0

    @property
    def is_slop_given_up(self) -> bool:
        """Whether rows within the slop of a label count: there are no others."""
        slop = LeftOut.SLOP in LeftOut(int(np.bitwise_or.reduce(self.left_out)))
        return (
            slop and not self.without(BY_LABEL | LeftOut.AFTERMATH | LeftOut.SLOP).any()
        )

    @cached_property
    def beyond_guard(self) -> Bools:
        """The same without ten minutes, at least a row, after each attack.

        Perhaps no row: for records on which a rule is applied or searched.
        """
        return self.without_aftermath & self.without(LeftOut.GUARD)

    @cached_property
    def for_alarms(self) -> Bools:
        """Rows on which an alarm is false: limits are set and alarms counted on them.

        Those `beyond_guard`: the jump back at an attack's end is as large as its onset,
        so an alarm there is neither false nor raised by the attack. Where none is left,
        those without aftermath.
        """
        return self.beyond_guard if self.beyond_guard.any() else self.without_aftermath


def slop_rows(step_s: float | None, label_slop_s: float | None = None) -> int:
    """Return label slop in rows: at least one, unless it is 0 seconds.

    Examples
    --------
    >>> [slop_rows(1.0), slop_rows(3600.0), slop_rows(None), slop_rows(1.0, 0.0)]
    [60, 1, 1, 0]
    """
    slop_s = LABEL_SLOP_S if label_slop_s is None else label_slop_s
    if slop_s == 0 or step_s is None:
        return int(slop_s > 0)
    return max(1, int(np.ceil(slop_s / step_s - 1e-6)))


def label_margins(
    attacks: Sequence[Segment], n_rows: int, slop: int, breaks: Ints | None = None
) -> Ints:
    """Return how many rows before and after each attack may be part of it.

    At most the slop, half of the attack, and half way to a neighbouring attack; none
    beyond a break or an end of the record.

    Parameters
    ----------
    attacks : sequence of Segment
        In the order of their rows.
    n_rows : int
        Rows of the record.
    slop : int
        Rows by which a label may slip.
    breaks : array of int, optional
        Rows at which a new recording begins.

    Returns
    -------
    array of int, shape (n_attacks, 2)

    Examples
    --------
    >>> label_margins([Segment(3, 103), Segment(113, 115)], 500, 60).tolist()
    [[3, 5], [1, 1]]
    """
    starts = np.array([attack.start for attack in attacks], np.int64)
    stops = np.array([attack.stop for attack in attacks], np.int64)
    cuts = np.zeros(0, np.int64) if breaks is None else breaks
    edges = np.unique(np.concatenate([[0, n_rows], cuts])).astype(np.int64)
    room = np.stack(
        [
            starts - edges[np.searchsorted(edges, starts, "right") - 1],
            edges[np.searchsorted(edges, stops, "left")] - stops,
        ],
        axis=1,
    )
    gaps = np.maximum(starts[1:] - stops[:-1], 0) // 2
    room[1:, 0] = np.minimum(room[1:, 0], gaps)
    room[:-1, 1] = np.minimum(room[:-1, 1], gaps)
    most = np.minimum(slop, (stops - starts + 1) // 2)
    return np.asarray(np.minimum(room, most[:, None]))


def attack_free_before(
    row: int,
    energy: Floats,
    labels: Labels,
    breaks: Ints,
    attacks: Sequence[Segment],
    step_s: float | None,
    label_slop_s: float | None = None,
) -> Bools:
    """Return the attack-free rows before a row, for alarms, by what was known then.

    No label and no energy from that row on is read. The aftermath of an attack is
    taken from the energy: facts of the recording were found with later labels too.
    """
    energy, labels, breaks = energy[:row], labels[:row], breaks[breaks < row]
    attacks = [Segment(a.start, min(a.stop, row)) for a in attacks if a.start < row]
    after = energy_aftermath(energy, labels, breaks, attacks, step_s)
    seconds = [n_rows * (step_s or 1.0) for n_rows in after]
    return AttackFreeTime.of(
        labels,
        attacks,
        step_s,
        aftermath_s=seconds,
        label_slop_s=label_slop_s,
        breaks=breaks,
    ).for_alarms


# --- Aftermath ------------------------------------------------------------------------


def energy_aftermath(
    energy: Floats,
    labels: Labels,
    breaks: Ints,
    segments: Sequence[Segment],
    step_s: float | None,
) -> list[int]:
    """Return the rows of aftermath of each attack by a detector's own energy.

    For streams without telemetry: the statistic of a block is its median log energy.
    """
    return aftermath_rows(
        np.log(np.clip(energy, _SMALLEST, 1e300))[:, None],
        labels,
        breaks,
        segments,
        block=ENERGY_BLOCK_ROWS,
        step_s=step_s,
        size=lambda blocks: np.median(blocks, axis=1),
    )


def aftermath_rows(
    statistic: Floats,
    labels: Labels,
    breaks: Ints,
    segments: Sequence[Segment],
    *,
    block: int,
    step_s: float | None,
    size: Callable[[Floats], Floats],
) -> list[int]:
    """Return how many rows after each attack are its aftermath.

    From the attack's end, blocks of normal rows are *out* while their statistic is
    above the 99th percentile of blocks that are far from any attack. The aftermath
    runs to the last block that is out before three blocks in a row are in. Without a
    return within the cap there is none: a change that stays is a new normal.

    Parameters
    ----------
    statistic : array of shape (n_rows, k)
        A block is out if any column is above its own far 99th percentile.
    labels, breaks, segments
        Of the same rows.
    block : int
        Rows of a block.
    step_s : float, optional
        Seconds of a row.
    size : callable
        Returns the statistic of each column of blocks, shape (n_blocks, k), from their
        rows, shape (n_blocks, block, k).

    Returns
    -------
    list of int
        0 where there is none, and everywhere if fewer than `LEAST_FAR` blocks are far.
    """
    hour = 0 if step_s is None else int(CAP_S / step_s)
    caps = [max(CAP_LENGTHS * s.length, hour, CAP_ROWS) for s in segments]
    is_far = labels == NORMAL
    for segment, cap in zip(segments, caps, strict=True):
        is_far[segment.stop : segment.stop + cap] = False
    far = np.concatenate(
        [np.empty(0, np.int64)]
        + [
            np.arange(s.start, s.stop - block + 1, block)
            for s in segments_of(is_far, breaks)
        ]
    )
    if len(far) < LEAST_FAR:
        return [0] * len(segments)
    sizes = [
        size(statistic[some[:, None] + np.arange(block)])
        for some in np.array_split(far, 1 + len(far) // _AT_ONCE)
    ]
    usual = np.quantile(np.concatenate(sizes), FAR_QUANTILE, axis=0)
    ends = np.append(breaks[1:], len(labels))
    is_normal = labels == NORMAL
    found = []
    for segment, cap in zip(segments, caps, strict=True):
        run = np.searchsorted(breaks, segment.stop - 1, "right") - 1
        rows = np.arange(segment.stop, min(segment.stop + cap, int(ends[run])))
        # Other attacks are passed over.
        rows = rows[is_normal[rows]]
        n_rows = last = n_in = 0
        for k in range(len(rows) // block):
            if (size(statistic[None, rows[k * block : (k + 1) * block]]) > usual).any():
                last, n_in = k + 1, 0
                continue
            n_in += 1
            if n_in == BACK:
                n_rows = int(rows[last * block - 1] + 1 - segment.stop) if last else 0
                break
        found.append(n_rows)
    return found
