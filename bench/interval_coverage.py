"""How often does the 95% interval of ROC-AUC hold the truth? A simulation.

Log energy is an AR(1) series of unit variance; each attack lasts 40 rows and lifts it
by its own amount, drawn from N(1, 0.7). The true ROC-AUC, over such attacks and such
normal time, is Phi(1 / sqrt(2 + 0.49)) = 0.737. For each number of attacks and each
autocorrelation, 400 streams of 8,000 rows are made, and an interval for each.
The table of docs/metrics.md comes from here. Run: python bench/interval_coverage.py
"""

import numpy as np
from scipy.signal import lfilter
from scipy.stats import norm

from sightline.data.segments import Segment
from sightline.metrics.intervals import Drawable, bootstrap, percentile_interval

STREAMS, ROWS, LENGTH, REPLICATES = 400, 8000, 40, 300
LIFT, SPREAD = 1.0, 0.7
TRUTH = float(norm.cdf(LIFT / np.sqrt(2 + SPREAD**2)))


def one_interval(rng, n_attacks: int, correlation: float):
    """Return the widened and the plain percentile interval of one made-up stream."""
    noise = rng.normal(size=ROWS + 500) * np.sqrt(1 - correlation**2)
    log_energy = lfilter([1.0], [1.0, -correlation], noise)[500:]
    starts = np.linspace(100, ROWS - 100 - LENGTH, n_attacks).astype(int)
    attacks = [Segment(int(s), int(s) + LENGTH) for s in starts]
    labels = np.zeros(ROWS, np.int8)
    for attack in attacks:
        labels[attack.rows] = 1
        log_energy[attack.rows] += rng.normal(LIFT, SPREAD)
    stream = Drawable.of(
        np.exp(log_energy),
        labels,
        np.zeros(ROWS, bool),
        attacks,
        np.zeros(1, np.int64),
    )
    drawn = bootstrap(
        stream,
        train_mean=0.0,
        n_replicates=REPLICATES,
        seed=int(rng.integers(2**31)),
    )["roc_auc"]
    n_normal = float(stream.block_rows.sum())
    estimate = 1 - np.mean(stream.above + stream.up_to) / (2 * n_normal)
    plain = np.percentile(drawn, [2.5, 97.5])
    return percentile_interval("roc_auc", estimate, drawn, n_attacks), plain


def main() -> None:
    print("| attacks | autocorrelation | coverage | without widening | mean width |")
    print("|--:|--:|--:|--:|--:|")
    for n_attacks in (5, 10, 35):
        for correlation in (0.0, 0.5, 0.9, 0.95):
            rng = np.random.default_rng([n_attacks, int(100 * correlation)])
            runs = [one_interval(rng, n_attacks, correlation) for _ in range(STREAMS)]
            wide = np.array([run[0] for run in runs])
            plain = np.array([run[1] for run in runs])
            held = [
                np.mean((i[:, 0] <= TRUTH) & (TRUTH <= i[:, 1])) for i in (wide, plain)
            ]
            width = np.mean(wide[:, 1] - wide[:, 0])
            print(
                f"| {n_attacks} | {correlation} | {held[0]:.3f} | {held[1]:.3f} "
                f"| {width:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
