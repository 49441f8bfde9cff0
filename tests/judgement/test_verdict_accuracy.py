"""How often is the verdict the one that more calm data would give?"""

from functools import cache

import numpy as np
import pytest
from known_causes import make_known_stream
from more_calm_data import climb_with_calm, words

UNBLAMED = ("weak-evidence", "undecided")


@cache
def judged_stream(seed):
    """Return (intended, found, true) of each attack of a hard stream."""
    known = make_known_stream(seed, hard=True)
    intended = {segment.start: segment.intended for segment in known.segments}
    attacks = known.stream.attack_segments()
    return [
        (intended[attack.start], found, true)
        for attack, found, true in zip(
            attacks,
            words(climb_with_calm(known)),
            words(climb_with_calm(known, 3)),
            strict=True,
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
