"""Blind spots against twin truth on plants by other people's physics.

    python bench/predicted_attacks.py tep --seeds 401 402 403
    python bench/predicted_attacks.py network --seeds 401 402 403

Every attack of the plant's scenario that forges one sensor is written into the places
of a record without attacks (`what if`), before it is looked at. The truth: the same
attack run alone in the simulator, where the controls read it, from the state of its
twin and with the same random numbers. An attack is seen if it raises an alarm that the
twin has not. Where the attack moves other tags as well, the plant's controls answer it,
which a record cannot: these are counted apart. Nothing is tuned on these plants.
"""

import os

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import argparse
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from blind_spots import (
    DETECTORS,
    RULES,
    Plant,
    actually_seen,
    as_what_if,
    attacked_alone,
)
from twin_truth import share

from sightline import make_detector
from sightline.blindspots.attackers import what_if
from sightline.blindspots.result import WhatIf
from sightline.blindspots.search import SpotArena, SpotSettings
from sightline.export import NO_RULE, export_stream
from sightline.rules.commission import commission
from sightline.rules.limits import Budget
from sightline.testbeds import network, tep
from sightline.testbeds.twin.scenario import PlannedAttack as Attack
from sightline.testbeds.twin.simulation import Simulation

PLANTS = {"tep": tep.simulate, "network": network.simulate}
BUDGETS = {
    "tep": Budget(per_day=6, share=0.01),
    "network": Budget(per_day=1, share=0.01),
}


def plant_with(simulation: Simulation, detector: str, budget: Budget) -> Plant:
    clean = simulation.clean_test()
    fitted = make_detector(detector, testbed=simulation.name).fit(simulation.train)
    stream = export_stream(fitted, simulation.train, clean, rule=NO_RULE)
    return Plant(simulation, clean, fitted, commission(stream, budget=budget))


def shares_seen(
    plant: Plant, budget: Budget, wanted: Sequence[Attack]
) -> dict[tuple[str, str], WhatIf]:
    """Return what is said of each attack and rule before it is run."""
    arena = SpotArena.of_detector(
        plant.detector,
        plant.clean,
        plant.simulation.train,
        plant.made,
        budget,
        SpotSettings(rules=RULES),
    )
    tried = what_if(arena.arena, [as_what_if(attack) for attack in wanted])
    return {(w.id, w.rule): w for w in tried if isinstance(w, WhatIf)}


def predict(name: str, seeds: Sequence[int]) -> None:
    """Print how often what if is right, by detector and rule, and where it is not."""
    right: dict[tuple[str, str], list[bool]] = defaultdict(list)
    answered: dict[tuple[str, bool], list[bool]] = defaultdict(list)
    brier: dict[tuple[str, str], list[float]] = defaultdict(list)
    common: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for seed in seeds:
        simulation = PLANTS[name](seed=seed)
        wanted = [
            attack
            for attack in simulation.scenario.attacks
            if len(attack.actions) == 1 and attack.actions[0].kind.forges
        ]
        moves_others = {t.id: t.moves_others for t in simulation.truth}
        for detector in DETECTORS:
            plant = plant_with(simulation, detector, BUDGETS[name])
            said = shares_seen(plant, BUDGETS[name], wanted)
            alone = attacked_alone(plant, wanted)
            for rule in RULES:
                made = plant.made.rules[rule].rule
                truth = actually_seen(plant, made, wanted, alone)
                for attack in wanted:
                    prediction = said.get((attack.id, rule))
                    # In neither can anything be seen: the twin is in alarm throughout.
                    if prediction is None or attack.id not in truth:
                        continue
                    key, is_seen = (detector, rule), truth[attack.id]
                    predicted = prediction.share_seen
                    right[key].append((predicted >= 0.5) == is_seen)
                    answered[detector, moves_others[attack.id]].append(right[key][-1])
                    brier[key].append((predicted - is_seen) ** 2)
                    common[key].append(is_seen)
                    if not right[key][-1]:
                        print(
                            f"  {name} {seed} {detector} {rule} attack {attack.id}: "
                            f"{prediction.text}: said {predicted:.2f}, "
                            f"{'seen' if is_seen else 'not seen'}",
                            flush=True,
                        )
    for key, hits in sorted(right.items()):
        seen = np.mean(common[key])
        print(
            f"{name} {key[0]} {key[1]}: right {share(sum(hits), len(hits))}, Brier "
            f"{np.mean(brier[key]):.3f}; always the commoner {max(seen, 1 - seen):.2f}"
        )
    for (detector, moved), hits in sorted(answered.items()):
        which = "answers" if moved else "does not answer"
        print(
            f"{name} {detector}, the plant {which}, all rules: "
            f"right {share(sum(hits), len(hits))}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("plant", choices=PLANTS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[401])
    args = parser.parse_args()
    predict(args.plant, args.seeds)


if __name__ == "__main__":
    main()
