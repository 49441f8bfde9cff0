"""How often is the verdict the one that more calm data would give?"""

from functools import cache

import numpy as np
import pytest
from known_causes import make_known_stream

from sightline import energy_trace, fit_reference
from sightline.data.row_tables import ArrayRows, gather_rows
from sightline.judgement.ladder import climb, gather_evidence

UNBLAMED = ("weak-evidence", "undecided")


def verdicts(known, replicas=0):
    """Climb the ladder, with so many more calm versions of the record."""
    stream = known.stream
    attacks = [attack.segment for attack in stream.attack_segments()]
    n_rows = stream.test.n_rows
    test = gather_rows(stream.test, np.arange(n_rows))
    values = np.concatenate([test, *(known.calm(k) for k in range(replicas))])
    labels = np.concatenate([stream.labels, np.zeros(replicas * n_rows, np.int8)])
    breaks = np.concatenate(
        [stream.test_breaks + k * n_rows for k in range(replicas + 1)]
    )
    reference = fit_reference(stream.train)
    evidence = gather_evidence(
        ArrayRows(values),
        labels,
        breaks,
        attacks,
        energy_trace(values, reference),
        reference,
        train_limit=float(np.quantile(energy_trace(stream.train, reference), 0.99)),
        channels=stream.channels,
        clock=np.tile(np.arange(n_rows), replicas + 1),
    )
    return [one.verdict for one in climb(evidence, attacks, times=replicas + 1)]


@cache
def judged_stream(seed):
    """Return (intended, found, true) of each attack of a hard stream."""
    known = make_known_stream(seed, hard=True)
    intended = {segment.start: segment.intended for segment in known.segments}
    attacks = known.stream.attack_segments()
    return [
        (intended[attack.start], found, true)
        for attack, found, true in zip(
            attacks, verdicts(known), verdicts(known, 3), strict=True
        )
    ]


def judged_streams(seeds):
    return [one for seed in seeds for one in judged_stream(seed)]


def share_right(judged):
    return np.mean([found == true for _, found, true in judged])


def n_blamed(judged):
    return sum(
        intended == "none" and found not in UNBLAMED for intended, found, _ in judged
    )


def test_two_hard_streams_are_diagnosed():
    judged = judged_streams([2002, 2003])
    assert share_right(judged) >= 0.85
    assert n_blamed(judged) <= 1


@pytest.mark.slow
def test_verdicts_of_hard_streams_are_nearly_always_right():
    judged = judged_streams(range(2000, 2006))
    assert share_right(judged) >= 0.85
    assert n_blamed(judged) <= 2
