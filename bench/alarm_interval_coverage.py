"""How often do the intervals of the alarm figures hold the truth? A simulation.

    python bench/alarm_interval_coverage.py

Log energy is an AR(1) series of unit variance, 8,000 rows of it calm; an alarm is a row
above its 99% quantile. Attacks of 10, 160, 20, 80 and 40 rows, in turn, add an amount
each: 40% nothing, 30% up to 3, 30% about 5. The truth of a mean over attacks is its
mean over all streams of the same design; that of F1 follows from the mean adjusted rows
and the mean false alarms.
"""

import numpy as np
from scipy.signal import lfilter

from sightline.metrics import AlarmRuns
from sightline.metrics.alarm_figures import attack_intervals, measure_figures
from sightline.metrics.alarm_metrics import adjusted_rows

STREAMS, CALM = 200, 8000
LENGTHS = (10, 160, 20, 80, 40)
LIMIT, CORRELATION, BLOCK = 2.326, 0.9, 60
F1S = {"pa_f1": 0.0, "pak_20_f1": 20.0}


def stream(rng: np.random.Generator, n_attacks: int) -> AlarmRuns:
    lengths = np.resize(LENGTHS, n_attacks)
    n_rows = CALM + int(lengths.sum())
    noise = rng.normal(size=n_rows + 500) * np.sqrt(1 - CORRELATION**2)
    energy = lfilter([1.0], [1.0, -CORRELATION], noise)[500:]
    gaps = np.full(n_attacks, CALM // (n_attacks + 1))
    starts = np.cumsum(gaps) + np.cumsum(lengths) - lengths
    labels = np.zeros(n_rows, np.int8)
    for start, length in zip(starts, lengths, strict=True):
        kind = rng.random()
        lift = (
            0.0 if kind < 0.4 else rng.uniform(0.5, 3) if kind < 0.7 else rng.normal(5)
        )
        labels[start : start + length] = 1
        energy[start : start + length] += lift
    return AlarmRuns.of(labels, energy > LIMIT)


def main() -> None:
    keys = ("range_recall", "etapr_recall", "affiliation_precision")
    keys += ("affiliation_recall", "event_recall")
    print("attacks  share of intervals that hold the truth (mean length)")
    for n_attacks in (5, 15, 35):
        rng = np.random.default_rng(n_attacks)
        made = [stream(rng, n_attacks) for _ in range(STREAMS)]
        figures = [measure_figures(runs, keys, uncertainty=False) for runs in made]
        truth = {
            key: np.mean([f[key].value for f in figures if f[key].value is not None])
            for key in keys
        }
        false = np.mean([runs.false_rows for runs in made])
        n_attack = made[0].rows.n_attack_rows
        for key, k in F1S.items():
            true = np.mean([adjusted_rows(runs, k).sum() for runs in made])
            truth[key] = 2 * true / (true + false + n_attack)
        ranges = [
            attack_intervals(runs, block=BLOCK, seed=i) for i, runs in enumerate(made)
        ]
        cells = []
        for key, value in truth.items():
            known = [r[key] for r in ranges if key in r]
            held = np.mean([low <= value <= high for low, high in known])
            length = np.mean([high - low for low, high in known])
            cells.append(f"{key} {held:.2f} ({length:.2f})")
        print(f"{n_attacks:7}  {', '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
