"""What choices that the paper does not state move, on the simulated plant.

    python bench/unstated_choices.py --out build/choices [--detectors gdn,tranad]

The choices stand on the cards of the detectors (``choices``), each with a reason. One
at a time is made, on rows and trainings that are small enough for minutes: a day of
waterworks to learn from, two days with attacks, rows of 30 s, ten epochs of GDN and
five of TranAD; protocol ``paper``, each seed its own training and its own plant. "A
start-up in train" puts two hours in front of train in which every sensor climbs from
nothing, and leaves them in; nothing else knows of them.

Every run is kept in a file of its own, so that it can be stopped and taken up again.
The table at the end has the mean over seeds of the difference to the base on the same
plant. "Another seed of the training" is the noise: bold is what has the same sign on
all plants, and is on each of them more than the largest of that line.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sightline import Recording, evaluate
from sightline.data.downsampling import Preparation
from sightline.detectors import detector_type, make_detector
from sightline.export import export_stream
from sightline.testbeds.waterworks import simulate

BASE: dict[str, dict[str, Any]] = {
    "gdn": {"every": 30, "epochs": 10},
    "tranad": {"every": 30, "epochs": 5, "dtype": "float32"},
}
START_UP, START_UP_S = "a start-up in train", 7200
ANOTHER = "another seed of the training"
FIGURES = {
    "ROC-AUC": ("rank", "roc_auc"),
    "pAUC@1%": ("rank", "pauc_1"),
    "P_FULL": ("windows", "p_full"),
    "F1@p99": ("probe", "f1"),
    "the same in hindsight": ("probe_test_calibrated", "f1"),
    "compactness": ("compactness", "compactness"),
    "drift": ("drift", "d_drift"),
    "robust drift": ("drift", "d_drift_robust"),
}


def with_start_up(train: Recording) -> Recording:
    """Return train with two hours in which every sensor climbs from nothing."""
    values = np.array(train.values)
    rows = round(START_UP_S / (train.step_s or 1.0))
    sensors = [k for k, tag in enumerate(train.tags) if tag.role == "sensor"]
    values[:rows, sensors] *= np.linspace(0.0, 1.0, rows)[:, None]
    return replace(train, values=values)


def measured(name: str, choice: str, seed: int) -> dict[str, float | None]:
    """Return the figures of one training, by protocol ``paper``."""
    card = detector_type(name).card
    made = simulate(days_train=1, days_test=2, seed=seed)
    train, settings = made.train, dict(BASE[name])
    own_seed = seed
    if choice == START_UP:
        train = with_start_up(train)
    elif choice == ANOTHER:
        own_seed = seed + 1000
    elif choice:
        settings |= card.choices[choice].settings
        n_rows = round(card.choices[choice].train_share * train.n_steps)
        train = Preparation(train_rows=n_rows).train(train)
    detector = make_detector(
        name,
        card.paper_protocol.preset or "export",
        testbed="waterworks",
        seed=own_seed,
        **settings,
    ).fit(train)
    stream = export_stream(
        detector,
        train,
        made.test,
        preset=card.paper_protocol.preset or "export",
        testbed="waterworks",
        rule="none",
    )
    found = evaluate(stream, protocol="paper", diagnosis=False, intervals=False)
    told: dict[str, float | None] = {}
    for label, path in FIGURES.items():
        value: Any = found.to_dict()
        for key in path:
            value = value[key]
        told[label] = value
    return told


def table(folder: Path, name: str, seeds: list[int]) -> str:
    """Return what each choice moves, against the base with the same seed."""

    def read(choice: str) -> list[dict[str, float]] | None:
        paths = [folder / f"{name}-{slug(choice)}-{seed}.json" for seed in seeds]
        if not all(path.exists() for path in paths):
            return None
        return [json.loads(path.read_text()) for path in paths]

    base, again = read("") or [], read(ANOTHER) or []
    lines = [
        f"| {name} | {' | '.join(FIGURES)} |",
        "|---" + "|--:" * len(FIGURES) + "|",
    ]
    cells = []
    for label in FIGURES:
        values = [one[label] for one in base]
        cells.append(f"{min(values):.3g} to {max(values):.3g}")
    lines.append(f"| **as by the paper's plan** | {' | '.join(cells)} |")
    for choice in [ANOTHER, *detector_type(name).card.choices, START_UP]:
        if (runs := read(choice)) is None:
            continue
        cells = []
        for label in FIGURES:
            first = [one[label] for one in base]
            moved = np.array([one[label] for one in runs]) - np.array(first)
            if "drift" in label:  # over powers of ten: the values themselves
                cells.append(
                    " to ".join(
                        f"{f(one[label] for one in runs):.3g}" for f in (min, max)
                    )
                )
                continue
            noise = np.array([one[label] for one in again]) - np.array(first)
            is_clear = choice != ANOTHER and abs(np.sign(moved).sum()) == len(moved)
            is_clear = is_clear and abs(moved).min() > abs(noise).max()
            text = f"{moved.mean():+.3f}"
            cells.append(f"**{text}**" if is_clear else text)
        lines.append(f"| {choice} | {' | '.join(cells)} |")
    return "\n".join(lines)


def slug(choice: str) -> str:
    """Return a choice as part of a file's name."""
    return "".join(c if c.isalnum() else "-" for c in choice) or "base"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/choices"))
    parser.add_argument("--detectors", default="gdn,tranad")
    parser.add_argument("--seeds", default="51,52,53")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    seeds = [int(seed) for seed in asked.seeds.split(",")]
    for seed in seeds:
        for name in asked.detectors.split(","):
            for choice in ["", ANOTHER, START_UP, *detector_type(name).card.choices]:
                path = asked.out / f"{name}-{slug(choice)}-{seed}.json"
                if path.exists():
                    continue
                began = time.process_time()
                path.write_text(json.dumps(measured(name, choice, seed)))
                spent = time.process_time() - began
                print(
                    f"{name}, {choice or 'base'}, {seed}: {spent:.0f} CPU s", flush=True
                )
    for name in asked.detectors.split(","):
        print(table(asked.out, name, seeds), end="\n\n")


if __name__ == "__main__":
    main()
