"""Streams made by hand whose verdicts are known, for the tests of the judgement."""

from typing import Any

import numpy as np
from hard_streams import answer_of

from sightline import Attack, ResidualStream, evaluate
from sightline.evaluation.result import SegmentResult


def normal(n_rows: int, p: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n_rows, p))


def calm_stream(
    *places: tuple[int, int],
    p: int = 10,
    n_train: int = 4000,
    n_test: int = 6000,
    seed: int = 0,
    **known: Any,
) -> ResidualStream:
    """Return normal residuals with attacks that do nothing, at these rows."""
    labels = np.zeros(n_test, np.int8)
    for start, stop in places:
        labels[start:stop] = 1
    attacks = [
        Attack(id=str(k + 1), start=start, stop=stop)
        for k, (start, stop) in enumerate(places)
    ]
    return ResidualStream(
        normal(n_train, p, 1000 + seed),
        normal(n_test, p, 2000 + seed),
        labels,
        segments=attacks,
        **({"step_s": 1.0} | known),
    )


def with_test(stream: ResidualStream, change: Any, **known: Any) -> ResidualStream:
    """Return a stream whose test rows `change` has altered in place."""
    test = stream.test.values.copy()
    change(test)
    return stream.replace(test=test, **known)


def rows_of(stream: ResidualStream) -> tuple[SegmentResult, ...]:
    return evaluate(stream, intervals=False).segments


def verdicts_of(stream: ResidualStream) -> list[str]:
    return [answer_of(row) for row in rows_of(stream)]
