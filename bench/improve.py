"""Is the rule `largest` better than the energy, and is `pair` better than both?

    python bench/improve.py simulate --seeds 701-720 --folder STREAMS
    python bench/improve.py plants --seeds 701 --folder STREAMS --batadal DATA \\
        --skab DATA --plant FOLDER
    python bench/improve.py judge --folder STREAMS
    python bench/improve.py table --folder STREAMS

``simulate``: streams of VAR, PCA, GeCo and `pair`, 2 + 2 days (`--days`) of waterworks
for each seed. ``plants``: the same of strong fouling, of the Tennessee Eastman process,
a water network, and where they are given BATADAL, SKAB and a plant of your own (as
`sightline start` writes it). What exists is not made again.

``judge``: every stream is commissioned on the attack-free rows of its first 35%, at 6
alarms a day but no more than one in 60 rows (SKAB: the fewest for which there are rows
enough). Of the later rows: how each rule's score
ranks attack rows among all rows that are labelled normal (pAUC@1%, ROC-AUC, VUS-PR) and
among attack-free rows (without a minute before attacks and what follows them); attacks
caught beyond chance at its limit (skill), alarms over the budget, and the share of time
in alarm. Written beside the streams, a file for each; what exists is not judged again.

``table``: the figures of each plant, means over seeds; then differences from VAR with
its energy and from VAR with `largest`, with 95% intervals over seeds (one paired
procedure, `comparison.paired`; a seed counts as an attack does there), over plants too.

Seeds 701 and later chose nothing. BATADAL, SKAB and the plant were seen while rules
were built.
"""

import argparse
import json
import os
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from sightline import (
    ResidualStream,
    export_stream,
    open_testbed,
    read_stream,
    write_stream,
)
from sightline import make_detector as new_detector
from sightline.comparison.paired import PairedFigure
from sightline.metrics.ranking import partial_auc_score
from sightline.metrics.score_metrics import vus
from sightline.rules.commission import (
    FIRST,
    Basis,
    CommissionSettings,
    commission_scored,
    split_row,
)
from sightline.rules.limits import LEAST_ALARMS, Budget
from sightline.rules.normal import raw_rows
from sightline.rules.promise import Kept
from sightline.rules.scoring import score

DETECTORS = ("var", "pca", "geco", "pair")
RULES = ("energy", "z", "x", "chosen")
FIGURES = ("pauc", "roc", "vus_pr", "pauc_free", "skill", "budgets", "share")
COMPARED = ("pauc", "roc", "vus_pr", "pauc_free", "skill", "share")
Plants = dict[str, tuple[str, dict[str, object]]]


# --- Streams --------------------------------------------------------------------------


def waterworks(seeds: Sequence[int], n_days: int) -> Plants:
    """Return some days for train and for test of waterworks, for each seed."""
    days = {"days_train": n_days, "days_test": n_days}
    return {
        f"waterworks_{seed}": ("waterworks", days | {"seed": seed}) for seed in seeds
    }


def plants(seed: int, given: argparse.Namespace) -> Plants:
    """Return one of each other plant."""
    days = {"days_train": given.days, "days_test": given.days, "seed": seed}
    network = {"days_train": 40, "days_test": 40, "seed": seed}
    found: Plants = {
        f"strong_{seed}": ("waterworks", days | {"drift": "fouling=strong"}),
        f"tep_{seed}": ("tep", {"days_train": 2, "days_test": 5, "seed": seed}),
        f"network_{seed}": ("network", network),
    }
    for name in ("batadal", "skab"):
        if folder := getattr(given, name):
            found[name] = name, {"root": folder, "cache": False}
    if given.plant is not None:
        found[given.plant.name] = str(given.plant), {}
    return found


def make_streams(made: Plants, folder: Path) -> None:
    """Write the streams of some plants, one for each detector."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (opened, options) in made.items():
        paths = {each: folder / f"{name}-{each}.npz" for each in DETECTORS}
        if all(path.exists() for path in paths.values()):
            continue
        testbed, known = open_testbed(opened, **options), opened.split("/")[-1]
        for each, path in paths.items():
            began = time.process_time()
            detector = new_detector(each, testbed=known).fit(testbed.train)
            stream = export_stream(detector, testbed.train, testbed.test, testbed=known)
            write_stream(stream, path)
            print(f"{path.stem}: {time.process_time() - began:.1f} CPU s", flush=True)


# --- Judging --------------------------------------------------------------------------


def judged(stream: ResidualStream) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield each rule, the chosen one last, and its figures on later rows."""
    scored, step_s = score(stream), stream.step_s or 1.0
    basis = Basis.of(scored, split_row(stream, FIRST, None))
    days = basis.is_attack_free[: basis.split].sum() * step_s / 86_400
    per_day = max(min(6.0, 86_400 / step_s / 60), 1.01 * LEAST_ALARMS / days)
    budget, later = Budget(per_day=per_day), basis.judged
    made = commission_scored(scored, CommissionSettings(budget=budget))
    every = [np.asarray(c, float) for c in raw_rows(scored.stream.test).chunks()]
    rows, labels = np.concatenate(every)[later.first :], stream.labels[later.first :]
    counted, free = labels >= 0, later.is_attack_free | (labels == 1)
    for name in RULES:
        row = made.facts.row(made.facts.chosen if name == "chosen" else name)
        trace = made.rules[row.name].rule.run(rows, breaks=later.breaks).trace
        periods = [one.kept for one in row.periods if one.is_judged]
        kept = [one is Kept.KEPT for one in periods]
        figures = {
            "pauc": row.pauc_1,
            "roc": row.roc_auc,
            "vus_pr": vus(labels[counted], trace[counted])["pr"],
            "pauc_free": partial_auc_score(labels[free], trace[free], max_fpr=0.01),
            "skill": row.attacks.skill,
            "budgets": (row.load.alarms_per_day or 0.0) / budget.per_day,
            "share": row.load.share_of_time,
            "promises": float(np.mean(kept)) if kept else None,
        }
        yield name, {k: np.nan if v is None else float(v) for k, v in figures.items()}


def judge_all(folder: Path) -> None:
    """Judge every stream of a folder, and write what was found beside it."""
    for path in sorted(folder.glob("*.npz")):
        out = path.with_suffix(".json")
        if out.exists():
            continue
        found = dict(judged(read_stream(path)))
        out.write_text(json.dumps(found))
        print(f"{path.stem}:", flush=True)
        for name, row in found.items():
            print(f"  {name:8}", *(f"{row[key]:.3f}" for key in FIGURES), flush=True)


# --- The table ------------------------------------------------------------------------

Results = dict[str, dict[str, dict[str, float]]]


def results_in(folder: Path) -> dict[str, Results]:
    """Return figures by plant (without its seed), seed and detector with rule."""
    found: dict[str, Results] = defaultdict(lambda: defaultdict(dict))
    for path in sorted(folder.glob("*.json")):
        name, _, detector = path.stem.rpartition("-")
        plant, _, seed = name.partition("_")
        for rule, row in json.loads(path.read_text()).items():
            found[plant][seed][f"{detector} {rule}"] = row
    return found


def interval_of(differences: Sequence[float]) -> str:
    """Return a mean difference, its 95% interval, and how many are above 0."""
    d = np.asarray(differences, np.float64)
    d = d[np.isfinite(d)]
    up = f"{int((d > 0).sum())} of {len(d)}"
    if len(d) < 3:
        return f"{d.mean():+.3f} ({up})" if len(d) else "-"
    paired = PairedFigure(
        weight=np.full(len(d), 1 / len(d)), by_attack=d, deviation=np.zeros(1)
    )
    low, high = paired.interval()
    return f"{d.mean():+.3f} [{low:+.3f}, {high:+.3f}] ({up})"


def print_differences(pairs: Sequence[tuple[str, str]], seeds: Results) -> None:
    """Print differences of two scores over seeds (or plants), figure by figure."""
    for one, other in pairs:
        print(f"  {one} minus {other}")
        for key in COMPARED:
            d = [s[one][key] - s[other][key] for s in seeds.values() if one in s]
            print(f"    {key:10} {interval_of(d)}")


PAIRS = (
    *(("var z", "var energy"), ("pca z", "pca energy"), ("pca x", "pca energy")),
    *(("geco z", "geco energy"), ("geco x", "geco energy")),
    *(("pair z", "var z"), ("pair x", "var z"), ("pair x", "pca x")),
    ("pair x", "geco x"),
)


def print_table(folder: Path) -> None:
    """Print figures of each plant, and differences."""
    found = results_in(folder)
    means: Results = {}
    for plant, seeds in found.items():
        print(f"{plant}: {len(seeds)} records; {' '.join(FIGURES)}")
        names = [f"{d} {r}" for d in DETECTORS for r in RULES]
        means[plant] = {}
        for name in names:
            rows = [seed[name] for seed in seeds.values() if name in seed]
            if not rows:
                continue
            means[plant][name] = {
                key: float(np.mean([row[key] for row in rows])) for key in rows[0]
            }
            line = " ".join(f"{means[plant][name][key]:.3f}" for key in FIGURES)
            print(f"  {name:12} {line}  {means[plant][name]['promises']:.2f}")
        if len(seeds) > 2:
            print_differences(PAIRS, seeds)
    print(f"{len(means)} plants, each once")
    print_differences(PAIRS, means)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["simulate", "plants", "judge", "table"])
    for name in ("--batadal", "--skab", "--plant"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--seeds", default="701-720")
    parser.add_argument("--days", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=Path("improve_streams"))
    given = parser.parse_args()
    first, _, last = given.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    if given.what == "simulate":
        make_streams(waterworks(seeds, given.days), given.folder)
    elif given.what == "plants":
        make_streams(plants(seeds[0], given), given.folder)
    elif given.what == "judge":
        judge_all(given.folder)
    else:
        print_table(given.folder)


if __name__ == "__main__":
    main()
