"""Streams, labels, breaks and chunkings that more than one test file draws."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import strategies as st

from sightline import ResidualStream
from sightline.data.segments import segments_of
from sightline.metrics.windows import (
    WindowEnergies,
    WindowWatch,
    plan_windows,
    windows_of_parts,
)

seeds = st.integers(0, 2**32 - 1)


@dataclass(frozen=True, eq=False)
class ChunkedRows:
    """Rows that arrive in pieces, cut before each of `cuts`; pieces may be empty."""

    values: np.ndarray
    cuts: Sequence[int] = ()

    @property
    def n_rows(self) -> int:
        return len(self.values)

    @property
    def n_channels(self) -> int:
        return self.values.shape[1]

    def chunks(self) -> Iterator[np.ndarray]:
        edges = [0, *self.cuts, len(self.values)]
        for start, stop in pairwise(edges):
            yield self.values[start:stop].copy()

    def where(self, row: int) -> str:
        return f"row {row}"


def cuts(n_rows: int, most: int = 6) -> st.SearchStrategy[list[int]]:
    """Where to cut n rows into pieces; the same place twice gives an empty piece."""
    return st.lists(st.integers(0, n_rows), max_size=most).map(sorted)


def inner_cuts(n_rows: int, most: int = 6) -> st.SearchStrategy[list[int]]:
    """Where to cut n rows so that no piece is empty."""
    places = st.integers(1, n_rows - 1)
    return st.lists(places, max_size=most, unique=True).map(sorted)


def breaks(n_rows: int) -> st.SearchStrategy[np.ndarray]:
    """First rows of continuous runs, row 0 among them."""
    rows = st.sets(st.integers(0, n_rows - 1), max_size=5)
    return rows.map(lambda drawn: np.array(sorted(drawn | {0})))


@st.composite
def codes(
    draw: st.DrawFn, values: Sequence[int], *, least: int = 1, most: int = 60
) -> np.ndarray:
    """Runs of the given values, as labels and alarms come in."""
    n_rows = draw(st.integers(least, most))
    run = st.tuples(st.sampled_from(values), st.integers(1, 9))
    drawn = draw(st.lists(run, min_size=1, max_size=20))
    runs = np.concatenate([np.full(length, value) for value, length in drawn])
    return np.resize(runs, n_rows)


@st.composite
def traces(draw: st.DrawFn, *, ties: bool) -> tuple[np.ndarray, np.ndarray]:
    """Draw (is_attack, energy) with both classes; coarse energies where `ties`."""
    n_attack, n_normal = draw(st.integers(1, 40)), draw(st.integers(1, 150))
    rng = np.random.default_rng(draw(seeds))
    is_attack = rng.permutation(np.arange(n_attack + n_normal) < n_attack)
    energy = rng.exponential(size=is_attack.size) + draw(st.floats(0, 2)) * is_attack
    return is_attack, np.floor(energy * 2) if ties else energy


def make_stream(
    seed: int = 0,
    *,
    n_train: int = 1500,
    n_test: int = 1200,
    p: int = 4,
    attacks: Sequence[tuple[int, int]] = ((200, 240), (500, 503), (800, 900)),
    strength: float = 2.0,
    **known: Any,
) -> ResidualStream:
    """Return correlated Gaussian residuals, moved while an attack runs."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(p, p)) + 2 * np.eye(p)
    labels = np.zeros(n_test, np.int8)
    for start, stop in attacks:
        labels[start:stop] = 1
    train = rng.normal(size=(n_train, p)) @ mixing
    test = rng.normal(size=(n_test, p)) @ mixing
    test[labels == 1, 0] += strength * np.sqrt(np.sum(mixing[:, 0] ** 2))
    return ResidualStream(train, test, labels, **known)


@st.composite
def streams(draw: st.DrawFn) -> ResidualStream:
    """Small streams with attacks, ignored rows and breaks anywhere."""
    p = draw(st.integers(1, 4))
    labels = draw(codes([0, 1, -1], least=3))
    labels[draw(st.integers(0, len(labels) - 1))] = 0
    rng = np.random.default_rng(draw(seeds))
    return ResidualStream(
        rng.normal(size=(draw(st.integers(15, 60)), p)),
        rng.normal(size=(len(labels), p)) + (labels == 1)[:, None],
        labels,
        test_breaks=draw(breaks(len(labels))),
    )


def window_energies(
    whitened: np.ndarray,
    labels: np.ndarray,
    first_rows: Sequence[int] = (0,),
    cuts: Sequence[int] = (),
) -> WindowEnergies:
    """Measure every attack and its matched windows; rows arrive cut before `cuts`."""
    starts = np.asarray(first_rows, np.int64)
    attacks = segments_of(labels == 1, starts)
    watch = WindowWatch(plan_windows(attacks, labels, starts))
    collector = watch.begin(0, len(whitened))
    for start, stop in pairwise([0, *cuts, len(whitened)]):
        collector.take(start, np.ascontiguousarray(whitened[start:stop], np.float64))
    return windows_of_parts(watch, whitened.shape[1], [collector.ended()])
