"""The reference fitted again on attack-free test data, and judged on other such data.

A reference must not judge the rows it was fitted on. So the attack-free rows are cut
into blocks, and each row is scored by a reference fitted on other blocks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import numpy as np

from sightline.data import row_tables
from sightline.data.arrays import Bools, Floats, Ints, Labels, Residuals
from sightline.data.row_tables import Part, Rows, Tick
from sightline.data.segments import Segment, segments_of
from sightline.energy.energy import ScoredTest, energy_of_block
from sightline.energy.moments import GrowingMoments, Moments, merged, moments_of
from sightline.energy.reference import Reference, reference_of
from sightline.errors import StreamError
from sightline.judgement import calm
from sightline.judgement.calm import AboveLimit, CalmWindows
from sightline.judgement.verdicts import RungOutcome

# Attack-free rows are cut into this many blocks, which the folds take in turn.
N_BLOCKS = 20
WHOLE_FOLDS, LOCAL_FOLDS = 2, 5
# A refit around an attack takes this many rows a channel, at least this many rows, and
# at least this many lengths of the attack.
ROWS_PER_CHANNEL, LEAST_ROWS, LENGTHS = 20, 2000, 2
# At most this many rows of an attack, evenly spaced, are scored.
MOST_ROWS = 10_000


class RefitScope(StrEnum):
    """The attack-free rows that a refit uses; the value is the name in files."""

    AROUND = "around it"
    WHOLE = "whole record"

    @property
    def phrase(self) -> str:
        """The name as a part of a sentence."""
        return "around the attack" if self is RefitScope.AROUND else f"of the {self}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Refitted:
    """Two references, each fitted on every other block, and the energies they give.

    Parameters
    ----------
    energy : array of shape (n_rows,)
        Of attack-free rows: the energy under the reference that was not fitted on
        them. Of all other rows: the smaller of the two energies.
    both : tuple of two arrays of shape (n_rows,)
        Energy of each row under either reference.
    limit : float
        The limit that `BUDGET` of attack-free rows exceed.
    above : AboveLimit
        Where `energy` is above `limit`.
    """

    energy: Floats
    both: tuple[Floats, Floats]
    limit: float
    above: AboveLimit

    def judged(self, segment: Segment, windows: CalmWindows) -> RungOutcome:
        """Judge an attack by the smaller of its coverages under the two references."""
        attack_coverage = min(
            float(np.mean(energy[segment.rows] > self.limit)) for energy in self.both
        )
        usual = calm.coverages(self.above.counts, windows)
        return calm.judged(attack_coverage, usual, by=(RefitScope.WHOLE.value,))


def alternating(n_rows: int, n_folds: int) -> Labels:
    """Return the fold of each of n rows in time: `N_BLOCKS` blocks, taken in turn.

    Examples
    --------
    >>> alternating(40, 2)[:6].tolist()
    [0, 0, 1, 1, 0, 0]
    """
    return (np.arange(n_rows) * N_BLOCKS // max(n_rows, 1) % n_folds).astype(np.int8)


def folds_of(is_normal: Bools) -> Labels:
    """Return the fold, 0 or 1, of each attack-free row, and -1 of all others."""
    fold = np.full(len(is_normal), -1, np.int8)
    fold[is_normal] = alternating(int(is_normal.sum()), WHOLE_FOLDS)
    return fold


# Rows too large to be squared overflow; a reference fitted on them is refused.
@np.errstate(over="ignore", invalid="ignore")
def refit_all(
    rows: Rows, fold: Labels, tick: Tick = row_tables.no_tick
) -> Refitted | None:
    """Fit one reference on the attack-free rows of each fold, and score all rows.

    Parameters
    ----------
    rows : Rows
        Test residuals; they are read twice.
    fold : array of int8, shape (n_rows,)
        0 or 1 for attack-free rows, -1 for all others; see `folds_of`.
    tick : callable
        Called with the number of rows of each block read.

    Returns
    -------
    Refitted or None
        None where the rows do not determine a reference: fewer than `N_BLOCKS`, never
        varying, or too large to be squared.
    """
    if (fold >= 0).sum() < N_BLOCKS:
        return None
    try:
        parts = list(row_tables.map_parts(rows, _moments_of_folds, fold, tick=tick))
        references = [
            reference_of(merged([m for m in of_fold if m is not None])).checked()
            for of_fold in zip(*parts, strict=True)
        ]
    except (StreamError, FloatingPointError):
        return None
    score = partial(_energies_under, references=references)
    energies = list(row_tables.map_parts(rows, score, tick=tick))
    one, other = (
        row_tables.joined(of_reference) for of_reference in zip(*energies, strict=True)
    )
    energy = np.select([fold == 0, fold == 1], [other, one], np.minimum(one, other))
    limit = float(np.quantile(energy[fold >= 0], 1 - calm.BUDGET))
    above = AboveLimit(energy > limit)
    return Refitted(energy=energy, both=(one, other), limit=limit, above=above)


def _moments_of_folds(part: Part, fold: Labels) -> list[Moments | None]:
    """Return the moments of the rows of either fold, None where there are none."""
    n_channels = part.rows.n_channels
    sums = (GrowingMoments(n_channels), GrowingMoments(n_channels))
    for start, block in part.blocks():
        of_block = fold[start : start + len(block)]
        for k in (0, 1):
            if (of_block == k).any():
                sums[k].add(block[of_block == k])
    return [sums[k].value() if (fold == k).any() else None for k in (0, 1)]


def _energies_under(part: Part, *, references: list[Reference]) -> list[Floats]:
    """Return the energies of the rows under each reference."""
    both = [np.empty(part.rows.n_rows) for _ in references]
    for start, block in part.blocks():
        for energy, reference in zip(both, references, strict=True):
            energy[start : start + len(block)] = _energy(reference, block)
    return both


def _energy(reference: Reference, rows: Residuals) -> Floats:
    """Return the energy of each row under a reference."""
    return energy_of_block(rows - reference.mean, reference.factor.T)


def refit_around(
    rows: Rows, scored: ScoredTest, segments: Sequence[Segment]
) -> list[RungOutcome | None]:
    """Judge each segment under references fitted on the attack-free rows around it.

    All rows needed are read in one pass. A segment may be attack-free itself; then its
    rows are not used for its references.

    Returns
    -------
    list of RungOutcome or None
        None where too few rows or windows are near, or where rows never vary.
    """
    normal_rows = np.flatnonzero(scored.is_normal)
    around = [rows_around(one, normal_rows, rows.n_channels) for one in segments]
    folds = [alternating(len(near), LOCAL_FOLDS) for near in around]
    return judge_around(rows, scored.breaks, segments, around, folds)


def judge_around(
    rows: Rows,
    breaks: Ints,
    segments: Sequence[Segment],
    around: Sequence[Ints],
    folds: Sequence[Labels],
) -> list[RungOutcome | None]:
    """Judge each segment under references fitted on given rows in given folds."""
    inside = [_evenly_spaced(segment) for segment in segments]
    needed = np.unique(np.concatenate([*around, *inside, np.empty(0, np.int64)]))
    values = row_tables.gather_rows(rows, needed)
    outcomes = []
    for segment, near, fold, rows_inside in zip(
        segments, around, folds, inside, strict=True
    ):
        normal, attack = (
            values[np.searchsorted(needed, at)] for at in (near, rows_inside)
        )
        outcomes.append(judge_local(normal, near, fold, attack, segment, breaks))
    return outcomes


def _evenly_spaced(segment: Segment) -> Ints:
    """Return the rows of a segment, at most `MOST_ROWS` of them."""
    n_rows = min(segment.length, MOST_ROWS)
    return segment.start + (np.arange(n_rows) * segment.length) // n_rows


def n_rows_around(segment: Segment, n_channels: int) -> int:
    """Return how many attack-free rows a refit around a segment takes."""
    length = min(segment.length, MOST_ROWS)
    return max(ROWS_PER_CHANNEL * n_channels, LEAST_ROWS, LENGTHS * length)


def rows_around(segment: Segment, normal_rows: Ints, n_channels: int) -> Ints:
    """Return the attack-free rows nearest to a segment, sorted, without its own rows.

    Examples
    --------
    >>> near = rows_around(Segment(5000, 5100), np.arange(9000), n_channels=3)
    >>> len(near), int(near[0]), int(near[-1])
    (2000, 4000, 6099)
    """
    first, last = np.searchsorted(normal_rows, [segment.start, segment.stop])
    others = np.delete(normal_rows, slice(first, last))
    wanted = n_rows_around(segment, n_channels)
    # Rows are in the order of time: the nearest are the next on either side.
    near = others[max(int(first) - wanted, 0) : int(first) + wanted]
    distance = np.maximum(segment.start - near, near - (segment.stop - 1)).clip(0)
    return np.sort(near[np.argsort(distance, kind="stable")[:wanted]])


@np.errstate(over="ignore", invalid="ignore")
def judge_local(
    values: Floats,
    rows: Ints,
    fold: Labels,
    attack: Floats,
    segment: Segment,
    breaks: Ints,
) -> RungOutcome | None:
    """Judge an attack under references fitted on the rows around it.

    Each fold is scored by a reference fitted on all others; the attack takes the median
    coverage of these references.

    Parameters
    ----------
    values : array of shape (n_near, n_channels)
        Residuals of `rows`.
    rows : array of int, shape (n_near,)
        Attack-free rows near the attack, sorted.
    fold : array of int8, shape (n_near,)
        Fold of each of these rows, 0 to ``LOCAL_FOLDS - 1``.
    attack : array of shape (n_attack, n_channels)
        Residuals of the attack.
    segment : Segment
        Rows of the attack.
    breaks : array of int
        Rows at which a new recording begins.

    Returns
    -------
    RungOutcome or None
        None where rows or calm windows among them are too few, or never vary.
    """
    if len(rows) < N_BLOCKS:
        return None
    energy, attack_energies = np.empty(len(rows)), []
    for k in range(LOCAL_FOLDS):
        try:
            reference = reference_of(moments_of(values[fold != k])).checked()
        except StreamError:
            return None
        unseen = fold == k
        energy[unseen] = _energy(reference, values[unseen])
        attack_energies.append(_energy(reference, attack))
    limit = float(np.quantile(energy, 1 - calm.BUDGET))
    covered = float(np.median([np.mean(e > limit) for e in attack_energies]))
    # Neighbours among `rows` are neighbours in the record, unless rows lie between.
    gaps = np.flatnonzero(np.diff(rows) > 1) + 1
    cuts = np.flatnonzero(np.isin(rows, breaks))
    begins = np.unique(np.concatenate([[0], gaps, cuts]))
    stretches = segments_of(np.ones(len(rows), np.bool_), begins)
    windows = calm.calm_windows(stretches, segment.length)
    if windows is None:
        return None
    usual = calm.coverages(AboveLimit(energy > limit).counts, windows)
    return calm.judged(covered, usual, by=(RefitScope.AROUND.value,))
