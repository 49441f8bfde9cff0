"""Do intervals of differences hold the truth, and do stars mean something?

    python bench/differences.py

Attacks have strengths of three kinds (spread; rare: one in five shows anything; most:
four in five do), and leave a trace in two detectors whose noise has correlation rho;
the second is as good or sees 30% less. The figure averages the share of normal time
below the trace: over attacks, or over rows of attacks whose lengths are log-normal
(0.9). `covers`: how often the interval holds the value of 400,000 such attacks.
`length`: its mean length over that of the oracle, which knows how such differences are
distributed. `stars`: how often five equal detectors have any star among their ten
pairs.
"""

from itertools import combinations

import numpy as np
from scipy.stats import norm

from sightline.comparison.paired import PairedFigure, holm

KINDS = ("spread", "rare", "most")
N_STREAMS = 300
NO_DEVIATION = np.zeros(1)


def traces(kind, shape, rho, weaker, n_detectors, rng):
    """Return what each attack is worth to each detector, and the attacks' lengths."""
    strong, weak = rng.uniform(2, 5, shape), rng.uniform(0, 0.7, shape)
    strength = {
        "spread": rng.uniform(0, 4, shape),
        "rare": np.where(rng.random(shape) < 0.2, strong, weak),
        "most": np.where(rng.random(shape) < 0.8, strong, weak),
    }[kind]
    shared, values = rng.normal(size=shape), []
    for k in range(n_detectors):
        noise = np.sqrt(rho) * shared + np.sqrt(1 - rho) * rng.normal(size=shape)
        seen = strength * (1 - weaker * (k == n_detectors - 1)) + 0.8 * noise
        values.append(norm.cdf(np.maximum(seen, 0)))
    return values, np.exp(rng.normal(0, 0.9, shape))


def paired(first, second, weight):
    """Return the difference of two detectors."""
    return PairedFigure(
        weight=weight / weight.sum(), by_attack=first - second, deviation=NO_DEVIATION
    )


def coverage(n, kind, rho, weaker, by_rows, rng):
    """Return how often an interval holds the truth, and its length to the oracle's."""
    (a, b), weight = traces(kind, 400_000, rho, weaker, 2, rng)
    truth = np.average(a - b, weights=weight if by_rows else None)
    held, lengths, found = 0, [], []
    for _ in range(N_STREAMS):
        (a, b), weight = traces(kind, n, rho, weaker, 2, rng)
        seen = paired(a, b, weight if by_rows else np.ones(n))
        low, high = seen.interval()
        held += low <= truth <= high
        lengths.append(high - low)
        found.append(seen.difference)
    oracle = np.diff(np.quantile(found, (0.025, 0.975)))[0]
    return held / N_STREAMS, np.mean(lengths) / oracle


def stars(n, kind, rho, by_rows, rng):
    """Return how often any of five equal detectors has a star."""
    found = 0
    for _ in range(N_STREAMS):
        values, weight = traces(kind, n, rho, 0.0, 5, rng)
        weight = weight if by_rows else np.ones(n)
        p = [paired(a, b, weight).p for a, b in combinations(values, 2)]
        found += min(holm(p)[0]) <= 0.05
    return found / N_STREAMS


def main() -> None:
    """Print a table with a row for each number of attacks."""
    settings = [
        (kind, rho, by) for kind in KINDS for rho in (0, 0.8, 0.99) for by in (0, 1)
    ]
    print("attacks  covers mean (lowest)  length mean (longest)  stars mean (most)")
    for n in (5, 12, 35):
        rng = np.random.default_rng([41, n])
        rows = [
            coverage(n, kind, rho, weaker, by, rng)
            for kind, rho, by in settings
            for weaker in (0.0, 0.3)
        ]
        held, length = np.array(rows).T
        share = np.array([stars(n, *setting, rng) for setting in settings])
        print(
            f"{n:7d}  {held.mean():.3f} ({held.min():.2f})         "
            f"{length.mean():.2f} ({length.max():.2f})            "
            f"{share.mean():.3f} ({share.max():.3f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
