"""The ladder on a record with more calm data: the same time once more, without attacks.

Such a record holds several versions of the same time one after the other. What is near
in time is then not near by row, which `clock` says: the time of each row. The atoms of
`sightline.judgement` are composed here as `climb` composes them, with "near" and the
order of time taken from the clock.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from known_causes import KnownStream

from sightline import ResidualStream, energy_trace, fit_reference
from sightline.data.arrays import Ints, Labels
from sightline.data.row_tables import gather_rows
from sightline.data.segments import Segment
from sightline.energy.energy import ScoredTest
from sightline.judgement.calm import NEAREST, CalmWindows
from sightline.judgement.evidence import Evidence, gather_evidence
from sightline.judgement.ladder import Case, LadderResult, climb_one
from sightline.judgement.refit import (
    LOCAL_FOLDS,
    N_BLOCKS,
    judge_around,
    n_rows_around,
    refit_all,
)
from sightline.judgement.verdicts import Verdict


def climb_with_calm(known: KnownStream, replicas: int = 0) -> list[LadderResult]:
    """Climb the ladder, with `replicas` more calm versions of the record."""
    n_rows = known.stream.test.n_rows
    clock = np.tile(np.arange(n_rows), replicas + 1)
    evidence = evidence_with_calm(known, replicas, clock)
    segments = evidence.scored.segments
    normal_rows = np.flatnonzero(evidence.scored.is_normal)
    around = [
        rows_around(segment, normal_rows, clock, known.stream.p, replicas + 1)
        for segment in segments
    ]
    folds = [alternating(rows, clock, LOCAL_FOLDS) for rows in around]
    local = judge_around(evidence.test, evidence.scored.breaks, segments, around, folds)
    results = []
    for segment, refit in zip(segments, local, strict=True):
        windows = evidence.windows[segment.length]
        if windows is None:
            results.append(LadderResult(verdict=Verdict.UNDECIDED))
            continue
        near = nearest(windows, segment, clock)
        results.append(climb_one(evidence, Case(segment, windows, near, refit)))
    return results


def evidence_with_calm(known: KnownStream, replicas: int, clock: Ints) -> Evidence:
    """Return the evidence of a record and more calm versions of it."""
    stream, n_rows = known.stream, known.stream.test.n_rows
    test = gather_rows(stream.test, np.arange(n_rows))
    values = np.concatenate([test, *(known.calm(k) for k in range(replicas))])
    reference = fit_reference(stream.train)
    threshold = float(np.quantile(energy_trace(stream.train, reference), 0.99))
    energy = energy_trace(values, reference)
    scored = ScoredTest(
        energy=energy,
        labels=np.concatenate([stream.labels, np.zeros(replicas * n_rows, np.int8)]),
        attacks=stream.attack_segments(),
        breaks=np.concatenate(
            [stream.test_breaks + k * n_rows for k in range(replicas + 1)]
        ),
        reference=reference,
        threshold=threshold,
        alarms=energy > threshold,
    )
    longer = ResidualStream(
        stream.train, values, scored.labels, channels=stream.channels
    )
    evidence = gather_evidence(longer, scored)
    fold = np.full(len(values), -1, np.int8)
    normal_rows = np.flatnonzero(scored.is_normal)
    fold[normal_rows] = alternating(normal_rows, clock, 2)
    return replace(evidence, refitted=refit_all(longer.test, fold))


def nearest(windows: CalmWindows, segment: Segment, clock: Ints) -> CalmWindows:
    """Return the windows nearest to a segment by the clock."""
    centre = 0.5 * float(clock[segment.start] + clock[segment.stop - 1])
    centres = 0.5 * (clock[windows.starts] + clock[windows.stops - 1])
    order = np.argsort(np.abs(centres - centre), kind="stable")[:NEAREST]
    return CalmWindows(length=windows.length, starts=np.sort(windows.starts[order]))


def alternating(rows: Ints, clock: Ints, n_folds: int) -> Labels:
    """Return the fold of each row: 20 blocks by the clock, taken in turn."""
    order = np.argsort(clock[rows], kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return ((rank * N_BLOCKS // len(order)) % n_folds).astype(np.int8)


def rows_around(
    segment: Segment, normal_rows: Ints, clock: Ints, p: int, times: int
) -> Ints:
    """Return the attack-free rows nearest by the clock, `times` as many as usual."""
    first, last = np.searchsorted(normal_rows, [segment.start, segment.stop])
    others = np.delete(normal_rows, slice(first, last))
    begin, end = clock[segment.start], clock[segment.stop - 1]
    when = clock[others]
    distance = np.maximum(np.maximum(begin - when, when - end), 0)
    wanted = times * n_rows_around(segment, p)
    return np.sort(others[np.argsort(distance, kind="stable")[:wanted]])


def words(results: Sequence[LadderResult]) -> list[str]:
    """Return the verdict of each attack."""
    return [str(result.verdict) for result in results]
