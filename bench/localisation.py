"""Whether the evidence points at the attacked tag, on the simulated plant.

    python bench/localisation.py WORK --seeds 31 32 33 34 35 36

Runs the demo's study (seven detectors, two days of training, two of test) on plants of
other seeds, ranks the channels of each attack by each method, and counts how often a
target is among the first 1, 3 and 5. Single-target attacks that move something recorded
(known from a twin without the attack) are counted by themselves. Streams are kept in
WORK; a second run only judges them again. Seed used for tuning: 1.
"""

import argparse
from collections import defaultdict
from pathlib import Path

import numpy as np
from twin_truth import study_of

from sightline import evaluate, open_testbed, read_stream

DRIFT = "fouling=mild"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[31, 32, 33])
    args = parser.parse_args()
    single = defaultdict(list)
    every = defaultdict(list)
    by_chance = defaultdict(list)
    for seed in args.seeds:
        folder = study_of(args.work, "waterworks", seed)
        testbed = open_testbed(
            "waterworks", days_train=2, days_test=2, seed=seed, drift=DRIFT
        )
        moves = {effect.id: effect.moves for effect in testbed.truth}
        for path in sorted((folder / "study" / "streams").glob("*.npz")):
            stream = read_stream(path)
            found = evaluate(stream, diagnosis=False, metrics="none").localisation
            detector = stream.detector or ""
            for method, by_moment in found.figures.items():
                for moment, figures in by_moment.items():
                    key = detector, method, moment
                    by_chance[key].append(figures.hit_3.floor.value)
            for attack in found.attacks:
                targets = next(
                    a.targets for a in stream.attack_segments() if a.id == attack.id
                )
                for method, by_moment in attack.ranks.items():
                    for moment, rank in by_moment.items():
                        if rank is not None:
                            key = detector, method, moment
                            every[key].append(rank)
                            if len(targets) == 1 and moves.get(attack.id):
                                single[key].append(rank)
    print("single-target attacks that move something recorded | all attacks")
    print("detector method moment: n hit@1 @3 @5 | n hit@1 @3 @5, chance @3")
    for key in sorted(every):
        print(" ".join(key), shares(single[key]), "|", shares(every[key]), end="")
        print(f", {np.mean(by_chance[key]):.2f}")


def shares(ranks: list[float]) -> str:
    hits = [f"{np.mean(np.array(ranks) <= k):.2f}" for k in (1, 3, 5)]
    return f"{len(ranks)} {' '.join(hits)}"


if __name__ == "__main__":
    main()
