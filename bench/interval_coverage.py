"""How often do intervals hold the truth, and how often are stars and floors wrong?

Log energy is an AR(1) series of unit variance with 8,000 calm rows, and the alarm limit
is its 0.99 quantile. Attacks of 10, 160, 20, 80, 40 rows, repeated, each add their own
amount mu to the log energy. Everything goes through `evaluate` and `compare`. The
tables of docs/uncertainty.md come from here:

    python bench/interval_coverage.py intervals     # coverage and mean length
    python bench/interval_coverage.py pairs         # differences of two detectors
    python bench/interval_coverage.py null          # any false star, five detectors
    python bench/interval_coverage.py power         # one detector much worse
    python bench/interval_coverage.py floor         # false "above chance"
    python bench/interval_coverage.py seeds         # mean over seeds

`--streams` sets the number of streams of a line (400), `--only` the lines whose name
holds a text.
"""

import argparse
from collections.abc import Callable

import numpy as np
from scipy.signal import lfilter
from scipy.stats import norm

from sightline import ResidualStream, compare, evaluate

CALM, LENGTHS, EDGE = 8000, (10, 160, 20, 80, 40), 100
LIMIT = float(norm.ppf(0.99))
Sampler = Callable[[np.random.Generator, int], np.ndarray]


def mix(rng, n):
    """40% unseen, 30% weak, 30% clear."""
    kind = rng.random(n)
    return np.where(
        kind < 0.4,
        0.0,
        np.where(kind < 0.7, rng.uniform(0.5, 3, n), rng.normal(5, 1, n)),
    )


def rare(rng, n):
    """20% clear, the others hardly visible."""
    weak = 0.2 * np.abs(rng.normal(size=n))
    return np.where(rng.random(n) < 0.2, rng.normal(4, 1, n), weak)


def most(rng, n):
    """85% clear."""
    return np.where(rng.random(n) < 0.85, rng.normal(5, 1, n), 0.0)


KINDS: dict[str, Sampler] = {"mix": mix, "rare": rare, "most": most}


def ar(rng, n, correlation):
    """Return an AR(1) series of unit variance."""
    noise = rng.normal(size=n + 2000) * np.sqrt(1 - correlation**2)
    return lfilter([1.0], [1.0, -correlation], noise)[2000:]


def labels_of(n_attacks, calm=CALM, lengths=LENGTHS, first=0.0):
    """Return labels with attacks spread over the calm rows, and their numbers.

    `first` is the share of the calm rows before which no attack begins.
    """
    sizes = np.resize(lengths, n_attacks)
    labels = np.zeros(calm + sizes.sum(), int)
    number = np.full(len(labels), -1)
    gap = calm * (1 - first) / (n_attacks + 1)
    begin = calm * first
    for i, size in enumerate(sizes):
        begin += gap
        start = int(begin) + int(sizes[:i].sum())
        labels[start : start + size] = 1
        number[start : start + size] = i
    return labels, number


def stream_of(log_energy, labels, name="a"):
    """Return a stream of one channel whose energy is exp(log_energy), up to scale."""
    quantiles = norm.ppf((np.arange(4000) + 0.5) / 4000)
    return ResidualStream(
        np.exp(quantiles / 2)[:, None],
        np.exp(log_energy / 2)[:, None],
        labels,
        test_time=10.0 * np.arange(len(labels)),
        one_sided=True,
        detector=name,
        name=name,
        testbed="simulated",
    )


def lifted(noise, number, mu):
    """Return the log energy with each attack's amount added."""
    return noise + np.where(number >= 0, np.append(mu, 0.0)[number], 0.0)


def truth_of(kind: Sampler, correlation: float, n_attacks: int) -> dict[str, float]:
    """Return every figure for endlessly many attacks, by one very long stream."""
    rng = np.random.default_rng(99)
    strengths = np.sort(kind(rng, 200_000))[250::500]  # 400 quantiles
    per_length = len(strengths)
    n = per_length * len(LENGTHS)
    labels, number = labels_of(n, calm=400_000)
    mu = np.repeat(rng.permutation(strengths), len(LENGTHS))
    log_energy = lifted(ar(rng, len(labels), correlation), number, mu)
    e = evaluate(stream_of(log_energy, labels), intervals=False, diagnosis=False)
    sizes = np.resize(LENGTHS, n_attacks)
    n_attack = float(sizes.sum())
    recall, rate = e.probe.recall, 0.01
    true, alarms = recall * n_attack, recall * n_attack + rate * CALM
    return {
        "roc_auc": e.rank.roc_auc,
        "pauc_1": e.rank.pauc_1,
        "pauc_5": e.rank.pauc_5,
        "recall": recall,
        "mean_segment_auc": e.rank.mean_segment_auc,
        "hits": e.probe.hits / n,
        "p_full_per_segment": e.windows.p_full_per_segment,
        "p_full": _pooled_windows(e, sizes),
        "f1": 2 * true / (n_attack + alarms),
        "precision": true / alarms,
        "average_precision": _precision(log_energy, labels, n_attack),
        "median_d_full": e.windows.median_d_full,
        "false_alarm_rate": rate,
        "d_drift_robust": e.drift.d_drift_robust,
    }


def _pooled_windows(e, sizes):
    """Return P_FULL at the numbers of windows that a stream of 8,000 rows has."""
    t = e.traces
    shares: dict[int, list[float]] = {}
    for k, own, s in zip(t.segment_group, t.segment_d_full, e.segments, strict=True):
        other = t.matched_d_full[t.matched_bounds[k] : t.matched_bounds[k + 1]]
        shares.setdefault(s.length, []).append(float(np.mean(other < own)))
    gap = CALM / (len(sizes) + 1)
    weight = [
        min(1000, (len(sizes) + 1) * (1 + (gap - w) // max(1, w // 2)))
        if gap >= w
        else 0
        for w in sizes
    ]
    mean = [np.mean(shares[w]) for w in sizes]
    return float(np.average(mean, weights=weight)) if sum(weight) else np.nan


def _precision(log_energy, labels, n_attack):
    """Return the average precision at another share of attack rows."""
    calm, attack = np.sort(log_energy[labels == 0]), np.sort(log_energy[labels == 1])
    caught = (len(attack) - np.arange(len(attack))) / len(attack) * n_attack
    false = 1 - np.searchsorted(calm, attack) / len(calm)
    return float(np.mean(caught / (caught + false * CALM)))


def intervals(streams: int, only: str) -> None:
    """Print coverage and mean length of the intervals of one stream."""
    shown = (
        "roc_auc pauc_1 recall mean_segment_auc hits p_full f1 average_precision "
        "precision p_full_per_segment median_d_full false_alarm_rate"
    ).split()
    print(f"| N, mu | {' | '.join(shown)} |\n|---|{'---|' * len(shown)}")
    settings = [(3, "mix"), (5, "mix"), (5, "rare"), (5, "most"), (8, "rare")]
    settings += [(15, "rare"), (35, "mix"), (35, "rare")]
    lines = [(n, kind, 0.9) for n, kind in settings]
    lines += [(5, "mix", 0.0), (5, "mix", 0.99), (5, "rare", 0.99)]
    for n, kind, correlation in lines:
        title = f"{n} {kind}" + (f", AR {correlation}" if correlation != 0.9 else "")
        if only not in title:
            continue
        truth = truth_of(KINDS[kind], correlation, n)
        labels, number = labels_of(n)
        held = {name: [] for name in shown}
        width = {name: [] for name in shown}
        for k in range(streams):
            rng = np.random.default_rng([1, n, len(title), k])
            noise = ar(rng, len(labels), correlation)
            log_energy = lifted(noise, number, KINDS[kind](rng, n))
            e = evaluate(stream_of(log_energy, labels), diagnosis=False, seed=k)
            for name in shown:
                interval = e.intervals[name]
                if interval is None:
                    continue
                low, high = interval
                high = np.inf if high is None else high
                scale = n if name == "hits" else 1
                held[name].append(low / scale <= truth[name] <= high / scale)
                width[name].append((high - low) / scale)
        cells = [
            f"{np.mean(held[name]):.2f} ({np.median(width[name]):.2f})"
            if held[name]
            else "-"
            for name in shown
        ]
        print(f"| {title} | {' | '.join(cells)} |", flush=True)


def floor(streams: int, only: str) -> None:
    """Print how often a figure is called above chance: attacks of no effect, some."""
    shown = ("roc_auc", "pauc_1", "recall", "hits")
    print(f"| above chance | {' | '.join(shown)} |\n|---|{'---|' * len(shown)}")
    # Name, attacks, begin of attacks, step before them, rise over the test, AR, power.
    lines = [
        ("stationary, N 10", 10, 0.0, 0.0, 0.0, 0.9, False),
        ("stationary, N 35", 35, 0.0, 0.0, 0.0, 0.9, False),
        ("1 sd step before all attacks, N 10", 10, 0.5, 1.0, 0.0, 0.9, False),
        ("3 sd step before all attacks, N 10", 10, 0.5, 3.0, 0.0, 0.9, False),
        ("1 sd step, N 35, 43% of the time after it", 35, 0.57, 1.0, 0.0, 0.9, False),
        ("trend of 2 sd, N 10", 10, 0.0, 0.0, 2.0, 0.9, False),
        (
            "trend of 2 sd, attacks in the last half, N 10",
            10,
            0.5,
            0.0,
            2.0,
            0.9,
            False,
        ),
        ("AR 0.99, 1 sd step, N 10", 10, 0.5, 1.0, 0.0, 0.99, False),
        ("power: 40% of 10 attacks at 2 sd", 10, 0.0, 0.0, 0.0, 0.9, True),
        ("power after a 1 sd step", 10, 0.5, 1.0, 0.0, 0.9, True),
    ]
    for title, n, first, step, rise, correlation, has_power in lines:
        if only not in title:
            continue
        labels, number = labels_of(n, first=first)
        rows = np.arange(len(labels))
        level = rise * rows / len(rows) + step * (rows >= first * CALM)
        above = []
        for k in range(streams):
            rng = np.random.default_rng([2, len(title), k])
            log_energy = level + ar(rng, len(labels), correlation)
            if has_power:
                chosen = rng.permutation(n) < 0.4 * n
                log_energy = lifted(log_energy, number, 2.0 * chosen)
            e = evaluate(stream_of(log_energy, labels), diagnosis=False, seed=k)
            above.append([bool(f and f.above_floor) for f in map(e.floor.get, shown)])
        cells = [f"{share:.3f}" for share in np.mean(above, axis=0)]
        print(f"| {title} | {' | '.join(cells)} |", flush=True)


SHARED = 0.8
PAIRED = ("roc_auc", "pauc_1", "recall")


def noises(rng, n_detectors, n_rows, correlation):
    """Return the log energy of alike detectors, 80% of which they share."""
    common = ar(rng, n_rows, correlation)
    return [
        np.sqrt(SHARED) * common + np.sqrt(1 - SHARED) * ar(rng, n_rows, correlation)
        for _ in range(n_detectors)
    ]


def again(rng, mu, size):
    """The second detector sees other attacks as well."""
    return mu, mix(rng, size)


def misses(rng, mu, size):
    """The second misses 20% of the attacks, which the first sees clearly."""
    missed = rng.permutation(size) < round(0.2 * size)
    if size < 100:
        missed = rng.random(size) < 0.2
    clear = rng.normal(5, 1, size)
    return np.where(missed, clear, mu), np.where(missed, 0.0, mu)


def weaker(rng, mu, size):
    """The second sees each attack less well."""
    return mu, 0.7 * mu


def measured(log_energy, labels, name):
    return evaluate(
        stream_of(log_energy, labels, name), intervals=False, diagnosis=False
    )


def in_blocks(log_energy, labels, name, size=6):
    """Return the evaluation of a detector that averages rows, with unit variance."""
    n = len(labels) // size
    means = log_energy[: n * size].reshape(n, size).mean(axis=1)
    scale = np.std(means[labels[: n * size].reshape(n, size).max(axis=1) == 0])
    stream = stream_of(
        means / scale, labels[: n * size].reshape(n, size).max(axis=1), name
    )
    return evaluate(
        stream.replace(
            test_time=10.0 * size * np.arange(n), test_breaks=None, step_s=None
        ),
        intervals=False,
        diagnosis=False,
    )


def compared_pair(rng, effect, n, *, coarse, calm=CALM, n_replicates=300, mu=None):
    """Return the differences of two detectors on one made-up recording."""
    labels, number = labels_of(n, calm=calm)
    mu = mix(rng, n) if mu is None else mu
    both = effect(rng, mu, n)
    energies = [
        lifted(noise, number, own)
        for noise, own in zip(noises(rng, 2, len(labels), 0.9), both, strict=True)
    ]
    second = in_blocks if coarse else measured
    evaluations = [
        measured(energies[0], labels, "a"),
        second(energies[1], labels, "b"),
    ]
    rows = compare(evaluations, n_replicates=n_replicates).differences
    return {row.figure: row for row in rows}


def pairs(streams: int, only: str) -> None:
    """Print coverage of differences, and how often two detectors are told apart."""
    print(
        "| second detector | N | covers | length | p <= 0.05 |\n|---|--:|---|---|---|"
    )
    lines = [
        ("sees others", again, 5, False),
        ("sees others", again, 35, False),
        ("misses 20%", misses, 5, False),
        ("misses 20%", misses, 15, False),
        ("misses 20%", misses, 35, False),
        ("misses 20%, rows of 60 s", misses, 35, True),
        ("weaker", weaker, 35, False),
    ]
    for title, effect, n, coarse in lines:
        if only not in f"{title} {n}":
            continue
        rng = np.random.default_rng(98)
        strengths = np.sort(mix(rng, 200_000))[500::1000]
        mu = np.repeat(rng.permutation(strengths), len(LENGTHS))
        long = compared_pair(
            rng, effect, len(mu), coarse=coarse, calm=200_000, n_replicates=2, mu=mu
        )
        truth = {name: long[name].difference for name in PAIRED}
        if effect is again:
            truth = dict.fromkeys(PAIRED, 0.0)
        held, width, told = [], [], []
        for k in range(streams):
            rng = np.random.default_rng([3, n, len(title), k])
            found = compared_pair(rng, effect, n, coarse=coarse)
            ends = {name: found[name].interval for name in PAIRED}
            held.append(
                [low <= truth[name] <= high for name, (low, high) in ends.items()]
            )
            width.append([high - low for low, high in ends.values()])
            told.append([found[name].p <= 0.05 for name in PAIRED])
        cells = [
            " ".join(f"{value:.2f}" for value in np.mean(table, axis=0))
            for table in (held, width, told)
        ]
        print(f"| {title} | {n} | {' | '.join(cells)} |", flush=True)


def study_of(rng, n, correlation, strengths):
    """Return the comparison of detectors with these factors of their strength."""
    labels, number = labels_of(n)
    energies = noises(rng, len(strengths), len(labels), correlation)
    return compare(
        [
            measured(lifted(noise, number, factor * mix(rng, n)), labels, f"d{k}")
            for k, (noise, factor) in enumerate(zip(energies, strengths, strict=True))
        ],
        n_replicates=199,
    )


def null(streams: int, only: str) -> None:
    """Print how often five alike detectors get any star, figure by figure."""
    print(f"| five alike, N | {' | '.join(PAIRED)} | ranks |\n|---|{'---|' * 4}")
    for n, correlation in ((5, 0.9), (15, 0.9), (35, 0.9), (15, 0.99)):
        title = f"{n}" + (f", AR {correlation}" if correlation != 0.9 else "")
        if only not in f"N {title}":
            continue
        stars = []
        for k in range(streams):
            rng = np.random.default_rng([4, n, int(100 * correlation), k])
            compared = study_of(rng, n, correlation, np.ones(5))
            (ranks,) = compared.ranks
            stars.append(
                [
                    any(d.has_star for d in compared.differences if d.figure == name)
                    for name in PAIRED
                ]
                + [ranks.ranks[-1] - ranks.ranks[0] >= ranks.critical]
            )
        cells = [f"{share:.3f}" for share in np.mean(stars, axis=0)]
        print(f"| {title} | {' | '.join(cells)} |", flush=True)


def power(streams: int, only: str) -> None:
    """Print how often the one detector of five that sees nothing is told apart."""
    print(f"| one of five blind, N | {' | '.join(PAIRED)} | ranks |\n|---|{'---|' * 4}")
    for n in (5, 15):
        told = []
        for k in range(streams):
            rng = np.random.default_rng([5, n, k])
            compared = study_of(rng, n, 0.9, np.array([1.0, 1, 1, 1, 0]))
            (ranks,) = compared.ranks
            told.append(
                [
                    any(
                        d.has_star
                        for d in compared.differences
                        if d.figure == name and d.detectors[1] == "d4"
                    )
                    for name in PAIRED
                ]
                + [
                    ranks.detectors[-1] == "d4"
                    and ranks.ranks[-1] - ranks.ranks[0] >= ranks.critical
                ]
            )
        cells = [f"{share:.2f}" for share in np.mean(told, axis=0)]
        print(f"| {n} | {' | '.join(cells)} |", flush=True)


def seeds(streams: int, only: str) -> None:
    """Print coverage of the mean over seeds, whose strength varies."""
    shown = ("roc_auc", "recall")
    print(f"| seeds, N, factor | {' | '.join(shown)} |\n|---|---|---|")
    for n_seeds, n, spread in ((3, 5, 0.5), (3, 35, 0.5), (5, 35, 0.5), (3, 35, 1.0)):
        title = f"{n_seeds}, {n}, U({1 - spread:g}, {1 + spread:g})"
        rng = np.random.default_rng(97)
        mu = mix(rng, 2_000_000) * rng.uniform(1 - spread, 1 + spread, 2_000_000)
        truth = {
            "roc_auc": float(np.mean(norm.cdf(mu / np.sqrt(2)))),
            "recall": float(np.mean(norm.cdf(mu - LIMIT))),
        }
        labels, number = labels_of(n)
        held = []
        for k in range(streams):
            rng = np.random.default_rng([6, n, n_seeds, int(10 * spread), k])
            mu = mix(rng, n)
            evaluations = []
            for s, noise in enumerate(noises(rng, n_seeds, len(labels), 0.9)):
                factor = rng.uniform(1 - spread, 1 + spread)
                stream = stream_of(lifted(noise, number, factor * mu), labels, "d")
                evaluations.append(
                    evaluate(
                        stream.replace(name=f"d-{s}"), intervals=False, diagnosis=False
                    )
                )
            rows = {f.figure: f.interval for f in compare(evaluations).figures}
            held.append(
                [rows[name][0] <= truth[name] <= rows[name][1] for name in shown]
            )
        cells = [f"{share:.2f}" for share in np.mean(held, axis=0)]
        print(f"| {title} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", choices=sorted(TABLES))
    parser.add_argument("--streams", type=int, default=400)
    parser.add_argument("--only", default="")
    chosen = parser.parse_args()
    TABLES[chosen.table](chosen.streams, chosen.only)


TABLES = {
    "intervals": intervals,
    "floor": floor,
    "pairs": pairs,
    "null": null,
    "power": power,
    "seeds": seeds,
}

if __name__ == "__main__":
    main()
