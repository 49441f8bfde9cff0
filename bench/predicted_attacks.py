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
from dataclasses import dataclass, replace

import numpy as np
from twin_truth import share

from sightline import Recording, make_detector
from sightline.blindspots.result import WhatIf
from sightline.blindspots.what_if import (
    ActionKind,
    Falsification,
    PlannedAttack,
    what_if,
)
from sightline.detectors.base import Detector
from sightline.export import NO_RULE, ExportedRows, export_rows, export_stream
from sightline.operation.spot_search import SpotArena
from sightline.operation.spot_settings import SpotSettings
from sightline.rules.budget import Budget
from sightline.rules.commission import Commissioning, commission
from sightline.rules.rule import Rule
from sightline.testbeds import network, tep
from sightline.testbeds.twin.scenario import PlannedAttack as Attack
from sightline.testbeds.twin.simulation import Simulation

PLANTS = {"tep": tep.simulate, "network": network.simulate}
BUDGETS = {
    "tep": Budget(per_day=6, share=0.01),
    "network": Budget(per_day=1, share=0.01),
}
RULES = ("energy", "z", "all")
DETECTORS = ("var", "pca")
# Rows before an attack that detector and rules are given.
MEMORY = 400


@dataclass(frozen=True, eq=False)
class Plant:
    """A simulated plant with a fitted detector and rules made on its clean test."""

    simulation: Simulation
    clean: Recording
    detector: Detector
    made: Commissioning
    budget: Budget

    def arena(self, **settings: object) -> SpotArena:
        return SpotArena.of_detector(
            self.detector,
            self.clean,
            self.simulation.train,
            self.made,
            self.budget,
            SpotSettings(rules=RULES, **settings),  # type: ignore[arg-type]
        )


def plant_with(simulation: Simulation, detector: str, budget: Budget) -> Plant:
    clean = simulation.clean_test()
    fitted = make_detector(detector, testbed=simulation.name).fit(simulation.train)
    stream = export_stream(fitted, simulation.train, clean, rule=NO_RULE)
    return Plant(simulation, clean, fitted, commission(stream, budget=budget), budget)


def single_sensor(attacks: Sequence[Attack]) -> list[Attack]:
    """Return the attacks that forge the reading of one sensor and do nothing else."""
    return [a for a in attacks if len(a.actions) == 1 and a.actions[0].kind.forges]


def as_what_if(attack: Attack) -> PlannedAttack:
    action = attack.actions[0]
    return PlannedAttack(
        id=attack.id,
        duration_s=attack.duration_s,
        actions=(
            Falsification(
                tag=action.tag,
                kind=ActionKind(action.kind.value),
                value=action.value,
                rate=action.rate,
            ),
        ),
    )


def attacked_alone(plant: Plant, wanted: Sequence[Attack]) -> dict[str, ExportedRows]:
    """Return residuals of each attack in a plant that is otherwise not attacked.

    Rows before it are those of the clean record; it runs from the same state and with
    the same random numbers as its twin there.
    """
    clean = plant.clean
    runner = plant.simulation._before_test.copy()
    scratch, row, found = np.empty(clean.values.shape, np.float32), 0, {}
    every = plant.detector.row_settings().every
    for attack in sorted(wanted, key=lambda one: one.start_s):
        rows = attack.rows(int(clean.step_s))
        runner.run(scratch, start=row, stop=rows.start)
        row = rows.start
        runner.copy().run(scratch, start=row, stop=rows.stop, attack=attack)
        first = max(row // every - MEMORY, 0) * every
        values = np.concatenate([clean.values[first:row], scratch[row : rows.stop]])
        # Whole blocks only: rows after the attack are those of the clean record.
        rest = -len(values) % every
        after = clean.values[rows.stop : rows.stop + rest]
        piece = Recording(
            values=np.concatenate([values, after]),
            tags=clean.tags,
            step_s=clean.step_s,
        )
        exported = export_rows(plant.detector, piece)
        found[attack.id] = replace(exported, index=exported.index + first)
        # The next attack may repeat what was read without this one.
        scratch[row : rows.stop] = clean.values[row : rows.stop]
    return found


def actually_seen(
    plant: Plant, rule: Rule, wanted: Sequence[Attack], alone: dict[str, ExportedRows]
) -> dict[str, bool]:
    """Return which attacks raise an alarm that their twin has not."""
    twin = export_rows(plant.detector, plant.clean)
    calm = rule.run(twin.values, breaks=twin.breaks)
    off, seen = rule.delays.off, {}
    near = np.zeros(len(twin.index), bool)
    for row in np.flatnonzero(calm.exceeds & calm.in_alarm):
        near[max(row - off, 0) : row + off + 1] = True
    for attack in wanted:
        rows, its = alone[attack.id], attack.rows(int(plant.clean.step_s))
        run = rule.run(rows.values, breaks=rows.breaks)
        inside = (rows.index >= its.start) & (rows.index < its.stop)
        at = np.searchsorted(twin.index, rows.index)
        usable = ~near[np.minimum(at, len(near) - 1)]
        seen[attack.id] = bool((run.exceeds & run.in_alarm & inside & usable).any())
    return seen


def predict(name: str, seeds: Sequence[int]) -> None:
    """Print how often what if is right, by detector and rule, and where it is not."""
    right: dict[tuple[str, str], list[bool]] = defaultdict(list)
    answered: dict[tuple[str, bool], list[bool]] = defaultdict(list)
    brier: dict[tuple[str, str], list[float]] = defaultdict(list)
    common: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for seed in seeds:
        simulation = PLANTS[name](seed=seed)
        wanted = single_sensor(simulation.scenario.attacks)
        moves_others = {t.id: t.moves_others for t in simulation.truth}
        for detector in DETECTORS:
            plant = plant_with(simulation, detector, BUDGETS[name])
            tried = what_if(plant.arena().arena, [as_what_if(a) for a in wanted])
            said = {(w.id, w.rule): w for w in tried if isinstance(w, WhatIf)}
            alone = attacked_alone(plant, wanted)
            for rule in RULES:
                made = plant.made.rules[rule].rule
                truth = actually_seen(plant, made, wanted, alone)
                for attack in wanted:
                    if (prediction := said.get((attack.id, rule))) is None:
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
