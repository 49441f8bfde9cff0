"""The reference refitted on attack-free test data, and judged on other such data."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from sightline.data.arrays import Bools, Floats, Ints, Labels
from sightline.data.row_tables import Part, Rows, Tick, joined, map_parts
from sightline.data.segments import Segment, segments_of
from sightline.energy.energy import energy_of_block
from sightline.energy.moments import GrowingMoments, Moments, merged, moments_of
from sightline.energy.reference import Reference, reference_of
from sightline.errors import StreamError
from sightline.judgement.calm import (
    BUDGET,
    CalmWindows,
    Counts,
    calm_windows,
    coverages,
    judged,
    running_count,
)
from sightline.judgement.verdicts import RungOutcome

N_BLOCKS = 20
LOCAL_FOLDS = 5
# A refit near an attack takes so many rows a channel, so many in all, so many lengths.
ROWS_PER_CHANNEL, LEAST_ROWS, LENGTHS = 20, 2000, 2
# Of very long attacks so many rows, evenly spaced, stand for all.
MOST_ROWS = 10_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Refitted:
    """Two references, each fitted on every other block, and what they make of rows.

    `energy` is, of attack-free rows, that under the reference which did not see them;
    of all others the smaller of the two.
    """

    energy: Floats
    both: tuple[Floats, Floats]
    limit: float


def alternating(normal_rows: Ints, clock: Ints, n_folds: int) -> Labels:
    """Return the fold of each attack-free row: 20 blocks in time, taken in turn."""
    order = np.argsort(clock[normal_rows], kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return ((rank * N_BLOCKS // len(order)) % n_folds).astype(np.int8)


def refit_all(rows: Rows, is_normal: Bools, clock: Ints, tick: Tick) -> Refitted | None:
    """Refit on all attack-free test rows; None where they do not make a reference."""
    normal_rows = np.flatnonzero(is_normal)
    if len(normal_rows) < N_BLOCKS:
        return None
    fold = np.full(rows.n_rows, -1, np.int8)
    fold[normal_rows] = alternating(normal_rows, clock, 2)
    try:
        parts = list(map_parts(rows, _moments_of_folds, fold, tick=tick))
        references = [
            reference_of(merged([m for m in of_fold if m is not None])).checked()
            for of_fold in zip(*parts, strict=True)
        ]
    except (StreamError, FloatingPointError):
        # Rows that never vary, too few of them, or too large to be squared.
        return None
    scored = list(
        map_parts(rows, partial(_energies_under, references=references), tick=tick)
    )
    one, other = (joined(energies) for energies in zip(*scored, strict=True))
    return _crossed((one, other), fold)


def _moments_of_folds(part: Part, fold: Labels) -> list[Moments | None]:
    """Return the moments of the rows of either fold, None where there are none."""
    n_channels = part.rows.n_channels
    sums = (GrowingMoments(n_channels), GrowingMoments(n_channels))
    for start, block in part.blocks():
        here = fold[start : start + len(block)]
        for k in (0, 1):
            if (here == k).any():
                sums[k].add(block[here == k])
    return [sums[k].value() if (fold == k).any() else None for k in (0, 1)]


def _energies_under(part: Part, *, references: list[Reference]) -> list[Floats]:
    """Return the energies of the rows under each reference."""
    both = [np.empty(part.rows.n_rows) for _ in references]
    for start, block in part.blocks():
        for energy, reference in zip(both, references, strict=True):
            energy[start : start + len(block)] = energy_of_block(
                block - reference.mean, reference.factor.T
            )
    return both


def _crossed(both: tuple[Floats, Floats], fold: Labels) -> Refitted:
    """Give each attack-free row the energy of the reference that did not see it."""
    energy = np.where(
        fold == 0, both[1], np.where(fold == 1, both[0], np.minimum(*both))
    )
    limit = float(np.quantile(energy[fold >= 0], 1 - BUDGET))
    return Refitted(energy=energy, both=both, limit=limit)


def judge_refit(
    refitted: Refitted, segment: Segment, windows: CalmWindows, counts: Counts
) -> RungOutcome:
    """Return an attack under the refitted references: the smaller of its coverages."""
    own = min(
        float(np.mean(energy[segment.rows] > refitted.limit))
        for energy in refitted.both
    )
    return judged(own, coverages(counts, windows), by=("whole record",))


def local_rows(
    segment: Segment,
    normal_rows: Ints,
    clock: Ints,
    p: int,
    *,
    times: int = 1,
) -> Ints:
    """Return the attack-free rows nearest to a segment in time, sorted by row.

    Its own rows are not among them, though it may be a calm one.
    """
    first, last = np.searchsorted(normal_rows, [segment.start, segment.stop])
    normal_rows = np.delete(normal_rows, slice(first, last))
    wanted = times * max(
        ROWS_PER_CHANNEL * p, LEAST_ROWS, LENGTHS * min(segment.length, MOST_ROWS)
    )
    begin, end = clock[segment.start], clock[segment.stop - 1]
    if times == 1:
        # Rows are in the order of time: the nearest are the next on either side.
        middle = int(np.searchsorted(normal_rows, segment.start))
        normal_rows = normal_rows[max(middle - wanted, 0) : middle + wanted]
    when = clock[normal_rows]
    distance = np.maximum(np.maximum(begin - when, when - end), 0)
    nearest = np.argsort(distance, kind="stable")[:wanted]
    return np.sort(normal_rows[nearest])


def judge_local(
    values: Floats,
    rows: Ints,
    attack: Floats,
    segment: Segment,
    breaks: Ints,
    clock: Ints,
) -> RungOutcome | None:
    """Return an attack under references refitted on the rows around it.

    `values` are the residuals of `rows`, `attack` those of the attack.
    """
    if len(rows) < N_BLOCKS:
        return None
    fold = alternating(rows, clock, LOCAL_FOLDS)
    energy, own = np.empty(len(rows)), []
    for k in range(LOCAL_FOLDS):
        try:
            reference = reference_of(moments_of(values[fold != k])).checked()
        except StreamError:
            return None
        unseen = fold == k
        energy[unseen] = energy_of_block(
            values[unseen] - reference.mean, reference.factor.T
        )
        own.append(energy_of_block(attack - reference.mean, reference.factor.T))
    limit = float(np.quantile(energy, 1 - BUDGET))
    covered = float(np.median([np.mean(e > limit) for e in own]))
    # Consecutive rows of the record are consecutive here too, unless something lies
    # between them.
    gaps = np.flatnonzero(np.diff(rows) > 1) + 1
    cuts = np.flatnonzero(np.isin(rows, breaks))
    stretches = segments_of(
        np.ones(len(rows), np.bool_), np.unique(np.concatenate([[0], gaps, cuts]))
    )
    windows = calm_windows(stretches, segment.length)
    if windows is None:
        return None
    counts = running_count(energy > limit)
    return judged(covered, coverages(counts, windows), by=("around it",))
