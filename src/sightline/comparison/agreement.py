"""Agreement of two detectors on which attacks are strong."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from sightline.comparison.runs import DetectorRuns, TestbedRuns
from sightline.data.arrays import Ints
from sightline.metrics.ranking import FEWEST_RANKED, rank_correlation
from sightline.storage import Result


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Whether two detectors of a testbed find the same attacks strong.

    Parameters
    ----------
    testbed : str
        Name of the testbed.
    detectors : tuple of str
        Labels of the two detectors.
    rho : float, optional
        Spearman's rank correlation of D_FULL over the attacks that both detectors have,
        the mean over all pairs of their seeds. From -1 (opposite order) to 1 (same
        order); 0 is no relation. None if they share fewer than three attacks, or if all
        attacks are equally strong for one of them.
    rho_range : tuple of float, optional
        Lowest and highest rho over pairs of seeds.
    n_matched : int
        Attacks that both detectors have (first seeds).
    n_alone : tuple of int
        Attacks that only the first, and only the second detector has.
    """

    testbed: str
    detectors: tuple[str, str]
    rho: float | None
    rho_range: tuple[float, float] | None
    n_matched: int
    n_alone: tuple[int, int]


def agreements(runs: TestbedRuns) -> list[Agreement]:
    """Return the agreement of each two detectors of a testbed, in their order."""
    places = {result: runs.places(result) for result in runs.results}
    return [
        _agreement(first, second, places)
        for first, second in combinations(runs.detectors, 2)
    ]


def _agreement(
    first: DetectorRuns, second: DetectorRuns, places: Mapping[Result, Ints]
) -> Agreement:
    rhos = []
    for a, b in product(first.results, second.results):
        shared = (places[a] >= 0) & (places[b] >= 0)
        rho = rank_correlation(
            a.traces.segment_d_full[places[a][shared]],
            b.traces.segment_d_full[places[b][shared]],
        ).rho
        if rho is not None:
            rhos.append(rho)
    of_first, of_second = places[first.first] >= 0, places[second.first] >= 0
    return Agreement(
        testbed=first.testbed,
        detectors=(first.label, second.label),
        rho=float(np.mean(rhos)) if rhos else None,
        rho_range=(min(rhos), max(rhos)) if rhos else None,
        n_matched=int((of_first & of_second).sum()),
        n_alone=(
            int((of_first & ~of_second).sum()),
            int((of_second & ~of_first).sum()),
        ),
    )


def why_undefined(agreement: Sequence[Agreement]) -> str | None:
    """Return the reason why no pair of detectors has a rho; None if one has.

    Examples
    --------
    >>> why_undefined([])
    'it needs at least two detectors on one testbed'
    """
    if any(row.rho is not None for row in agreement):
        return None
    if not agreement:
        return "it needs at least two detectors on one testbed"
    most = max(row.n_matched for row in agreement)
    if most < FEWEST_RANKED:
        return (
            f"it needs two detectors that share at least {FEWEST_RANKED} attacks; no "
            f"two detectors share more than {most}"
        )
    return "the detectors share attacks, but D_FULL is the same for all of them"
