"""Blind spots against what is known from elsewhere, and their speed.

    python bench/blind_spots.py speed                    closed form, 51 tags
    python bench/blind_spots.py gdn                      searched through a network
    python bench/blind_spots.py agree                    closed form against bisection
    python bench/blind_spots.py intervals                how often they hold the truth
    python bench/blind_spots.py attacks --seeds 301 302 303
    python bench/blind_spots.py loop --seeds 301
    python bench/blind_spots.py unsized --seeds 301      frozen, replay, actuators
    python bench/blind_spots.py seeds --seeds 301 302    other seeds, the same tags

`attacks`: single-sensor attacks of the waterworks scenario, predicted on a record
without them, then each run alone from the state of its twin. `loop` and `unsized`:
falsifications inside the simulator, where the controller reads them, against those
written into the record. Seeds used while this was built: 5, 11 and 301 to 303.
"""

import os

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import argparse
import time
from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np
from scipy.signal import lfilter
from scipy.stats import spearmanr

from sightline import Recording, ResidualStream, make_detector
from sightline.blindspots.attackers import (
    Falsification,
    TagAction,
    WhatIfAttack,
    what_if,
)
from sightline.blindspots.detector import AnyStage1
from sightline.blindspots.places import quantile_sizes
from sightline.blindspots.result import BlindSpot, SpotOutcome, WhatIf
from sightline.blindspots.search import SpotArena, SpotSettings
from sightline.blindspots.sizes import SpotCase, _is_seen
from sightline.export import NO_RULE, ExportedRows, export_rows, export_stream
from sightline.rules.commission import Commissioning, commission
from sightline.rules.limits import Budget
from sightline.rules.rule import Rule
from sightline.testbeds.waterworks import (
    Action,
    Scenario,
    Simulation,
    default_scenario,
    simulate,
)
from sightline.testbeds.waterworks import PlannedAttack as Attack
from sightline.testbeds.waterworks import plant as p

BUDGET = Budget(per_day=6, share=0.01)
RULES = ("energy", "z", "all")
DETECTORS = ("var", "pca")
SIZED = ("step", "ramp", "scale", "noise")
# Rows before an attack that detectors are given; rules go on from the twin's state.
MEMORY = 60


@dataclass(frozen=True, eq=False)
class Plant:
    """A simulated plant with a fitted detector and rules made on its clean test."""

    simulation: Simulation
    clean: Recording
    detector: object
    made: Commissioning


def plant_of(seed: int, detector: str, scenario: Scenario | None = None) -> Plant:
    simulation = _simulated(seed, scenario)
    clean = simulation.clean_test()
    fitted = make_detector(detector, testbed="waterworks").fit(simulation.train)
    stream = export_stream(fitted, simulation.train, clean, rule=NO_RULE)
    return Plant(simulation, clean, fitted, commission(stream, budget=BUDGET))


_KNOWN: dict[int, Simulation] = {}


def _simulated(seed: int, scenario: Scenario | None) -> Simulation:
    if seed not in _KNOWN:
        _KNOWN.clear()
        _KNOWN[seed] = simulate(
            days_train=3,
            days_test=4,
            seed=seed,
            scenario=scenario or default_scenario(),
        )
    return _KNOWN[seed]


def arena_of(plant: Plant, **settings: object) -> SpotArena:
    return SpotArena.of_detector(
        plant.detector,
        plant.clean,
        plant.simulation.train,
        plant.made,
        BUDGET,
        SpotSettings(rules=RULES, **settings),  # type: ignore[arg-type]
    )


# --- Speed ----------------------------------------------------------------------------


def speed(seeds: list[int]) -> None:
    """Time 51 tags x 4 shapes x 5 durations x 40 places, two rules."""
    for detector in DETECTORS:
        plant = plant_of(seeds[0], detector, Scenario())
        for _ in range(2):  # the first compiles
            wall, cpu = time.perf_counter(), time.process_time()
            arena = SpotArena.of_detector(
                plant.detector,
                plant.clean,
                plant.simulation.train,
                plant.made,
                BUDGET,
                SpotSettings(rules=("energy", "z"), shapes=SIZED),
            )
            # Every tag that moves, actuators too, as often as it takes for 51.
            every = [t for t in arena.tags if t.range > 0]
            targets = [arena.targets[k % len(arena.targets)] for k in range(51)]
            arena.targets = [
                type(t)(name=f"{t.name} {k}", tags=t.tags, shapes=t.shapes)
                for k, t in enumerate(targets)
            ]
            spots = arena.search()
        print(
            f"{detector}: {len(arena.targets)} tags ({len(every)} move, repeated), "
            f"{len(spots)} falsifications: {time.process_time() - cpu:.1f} CPU s, "
            f"{time.perf_counter() - wall:.1f} s"
        )


def gdn(seeds: list[int]) -> None:
    """Time one tag through a briefly trained GDN, and say what 51 would take."""
    simulation = _simulated(seeds[0], Scenario())
    clean = simulation.clean_test()
    fitted = make_detector("gdn", testbed="waterworks", epochs=2).fit(simulation.train)
    stream = export_stream(fitted, simulation.train, clean, rule=NO_RULE)
    plant = Plant(simulation, clean, fitted, commission(stream, budget=BUDGET))
    arena = SpotArena.of_detector(
        plant.detector,
        plant.clean,
        plant.simulation.train,
        plant.made,
        BUDGET,
        SpotSettings(rules=("all",), shapes=SIZED, tags=("LIT101", "FIT401")),
    )
    wall, cpu = time.perf_counter(), time.process_time()
    spots = arena.search()
    spent = time.process_time() - cpu
    print(
        f"gdn: {len(arena.targets)} tags, {len(spots)} falsifications: {spent:.0f} CPU "
        f"s, {time.perf_counter() - wall:.0f} s; 51 tags on two cores: about "
        f"{spent / len(arena.targets) * 51 / 120:.0f} minutes; uneven: "
        f"{sum(s.is_uneven for s in spots)}"
    )


# --- Closed form against bisection ----------------------------------------------------


def agree(seeds: list[int], tolerance: float = 1e-3) -> None:
    """Check that just below the size nothing is seen, and just above it is."""
    for detector in DETECTORS:
        plant = plant_of(seeds[0], detector, Scenario())
        arena = arena_of(plant, shapes=SIZED, durations_s=(60.0, 900.0))
        through = AnyStage1(
            source=arena_source(plant, arena),
            memory=arena.arena.stage.memory,
            is_linear=False,
        )
        wrong: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
        for target in arena.targets[::5]:
            for shape in target.shapes:
                for k, falsifier in enumerate(arena.arena.falsifiers):
                    views = [by_duration[k] for by_duration in arena.arena.views]
                    closed = SpotCase(
                        target, shape, falsifier, arena.arena.stage, views
                    )
                    called = SpotCase(target, shape, falsifier, through, views)
                    for view in views:
                        _compare(closed, called, view, tolerance, wrong)
        for (shape, rule), (bad, n) in wrong.items():
            print(f"{detector} {shape} {rule}: {n - bad} of {n} places agree")


def arena_source(plant: Plant, arena: SpotArena):  # type: ignore[no-untyped-def]
    from sightline.blindspots.detector import detector_rows

    return detector_rows(plant.detector, plant.clean, arena.tags)


def _compare(closed, called, view, tolerance, wrong) -> None:  # type: ignore[no-untyped-def]
    guess = np.full(len(closed.is_valid), closed.guess)
    first, _ = closed._first_sizes(view, closed.unit_change(guess))
    for k, sign in enumerate((1, -1) if closed.shape.has_signs else (1,)):
        at = first[k]
        if not closed.shape.is_exact:
            at = closed._corrected(view, sign, at)[:, view.grid.is_judged].min(axis=1)
        known = np.isfinite(at) & (at < closed.largest) & (at > 1e-9)
        sizes = np.where(known, at, closed.guess)

        def seen(sizes: np.ndarray, sign: int = sign) -> np.ndarray:
            return _is_seen(view, view.raises(called.change(sign * sizes)))

        bad = seen(sizes * (1 - tolerance)) | ~seen(sizes * (1 + tolerance))
        count = wrong[closed.shape.name, view.rule.name]
        count[0] += int((bad & known).sum())
        count[1] += int(known.sum())


# --- Intervals ------------------------------------------------------------------------


def intervals(seeds: list[int]) -> None:
    """Print how often intervals of 40 places hold the size of a long stream."""
    for coefficient in (0.0, 0.9):
        for share, held in coverage(coefficient, seeds[0]).items():
            print(
                f"AR(1) {coefficient:g}, {share}: {np.mean(held):.3f} of {len(held)} "
                "draws"
            )


def coverage(
    coefficient: float, seed: int, n_draws: int = 300
) -> dict[str, list[bool]]:
    """Return which intervals of 40 places hold the size of a long stream.

    A step of a minute in a channel of autoregressive residuals, seen by the largest
    deviation. Every draw is a record of its own; the channels take turns.
    """

    def arena(n_rows: int, draw: int, places: int) -> SpotArena:
        stream = ResidualStream(train, noise(n_rows, draw), step_s=10.0)
        settings = SpotSettings(
            shapes=("step",), durations_s=(60.0,), places=places, seed=draw
        )
        return SpotArena.of_stream(stream, [rule], BUDGET, settings)

    def noise(n_rows: int, draw: int) -> np.ndarray:
        normal = np.random.default_rng([seed, draw]).normal(size=(n_rows + 500, 4))
        normal *= np.sqrt(1 - coefficient**2)
        return np.asarray(lfilter([1.0], [1.0, -coefficient], normal, axis=0)[500:])

    train = noise(20_000, 0)
    made = commission(
        ResidualStream(train, noise(50_000, 1), step_s=10.0), budget=BUDGET
    )
    rule = made.rules["x"].rule
    truth = [s for s in arena(400_000, 2, 4000).search() if s.sign == 1]
    held: dict[str, list[bool]] = {"half": [], "most": []}
    for draw in range(n_draws):
        spots = [s for s in arena(20_000, 3 + draw, 40).search() if s.sign == 1]
        k = draw % len(spots)
        for name, inside in held.items():
            one, size = getattr(spots[k], name), getattr(truth[k], name).size
            inside.append(one.low <= size <= (one.high or np.inf))
    return held


# --- Attacks predicted ----------------------------------------------------------------


def single_sensor(attacks: tuple[Attack, ...]) -> list[Attack]:
    kinds = ("constant", "ramp", "bias", "freeze", "replay")
    return [a for a in attacks if len(a.actions) == 1 and a.actions[0].kind in kinds]


def as_what_if(attack: Attack) -> WhatIfAttack:
    action = attack.actions[0]
    return WhatIfAttack(
        id=attack.id,
        duration_s=attack.duration_s,
        actions=(
            Falsification(
                tag=action.tag,
                kind=TagAction(action.kind.value),
                value=action.value,
                rate=action.rate,
            ),
        ),
    )


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What was said of one attack before it was run, and what came.

    Parameters
    ----------
    share : float
        Share of places that see it: what if.
    table : bool, optional
        Whether the table says that it is seen; None where it cannot say.
    is_seen : bool
        Whether it is seen, run alone in the simulator from its twin's state.
    is_seen_here : bool
        The same if it is written into the record at that very place, where the control
        does not read it.
    """

    name: str
    share: float
    table: bool | None
    is_seen: bool
    is_seen_here: bool

    @property
    def is_right(self) -> bool:
        return (self.share >= 0.5) == self.is_seen

    @property
    def cause(self) -> str:
        """Why it is wrong: this moment is another than most, or the control answers."""
        return "control" if self.is_seen != self.is_seen_here else "moment"


def attacks(seeds: list[int]) -> None:
    """Predict single-sensor attacks on the clean record, then run them."""
    for detector in DETECTORS:
        made: dict[str, list[Prediction]] = defaultdict(list)
        for seed in seeds:
            for rule, predictions in predicted(seed, detector).items():
                made[rule] += predictions
        for rule, predictions in made.items():
            report_attacks(f"{detector} {rule}", predictions)


def predicted(seed: int, detector: str) -> dict[str, list[Prediction]]:
    """Return the predictions of each rule."""
    plant = plant_of(seed, detector)
    wanted = single_sensor(plant.simulation.scenario.attacks)
    arena = arena_of(
        plant,
        shapes=("step", "ramp", "frozen", "replay"),
        tags=tuple({attack.actions[0].tag for attack in wanted}),
    )
    spots = arena.search()
    tried = what_if(arena.arena, [as_what_if(a) for a in wanted])
    shares = {(w.id, w.rule): w.share_seen for w in tried if isinstance(w, WhatIf)}
    alone, here = attacked_alone(plant, wanted), written_here(plant, wanted)
    made: dict[str, list[Prediction]] = {}
    for rule in RULES:
        is_seen, is_seen_here = (
            actually_seen(plant, plant.made.rules[rule].rule, wanted, rows)
            for rows in (alone, here)
        )
        made[rule] = [
            Prediction(
                name=f"{seed} attack {attack.id} ({attack.actions[0].tag} "
                f"{attack.actions[0].kind})",
                share=shares[attack.id, rule],
                table=from_table(spots, rule, attack, plant),
                is_seen=is_seen[attack.id],
                is_seen_here=is_seen_here[attack.id],
            )
            for attack in wanted
            if (attack.id, rule) in shares and attack.id in is_seen
        ]
        left_out = [a.id for a in wanted if a.id not in is_seen]
        if left_out:
            print(
                f"{detector} {rule} {seed}: the twin is in alarm throughout, left out: "
                f"{', '.join(left_out)}"
            )
    return made


def report_attacks(name: str, predictions: list[Prediction]) -> None:
    share = np.array([one.share for one in predictions])
    is_seen = np.array([one.is_seen for one in predictions])
    is_right = [one.is_right for one in predictions]
    by_table = [
        one.table == one.is_seen for one in predictions if one.table is not None
    ]
    print(
        f"{name}: what if {np.mean(is_right):.3f} right of {len(share)}, by its own "
        "shares to be expected "
        f"{np.maximum(share, 1 - share).mean():.3f}; table {np.mean(by_table):.3f} of "
        f"{len(by_table)}; Brier {np.square(share - is_seen).mean():.3f}; always the "
        f"commoner {max(is_seen.mean(), 1 - is_seen.mean()):.2f}"
    )
    for one in predictions:
        if not one.is_right:
            print(
                f"    {one.name}: seen in {one.share:.2f} of places, "
                f"{'seen' if one.is_seen else 'not seen'} when run: {one.cause}"
            )


def attacked_alone(plant: Plant, wanted: list[Attack]) -> dict[str, ExportedRows]:
    """Return residuals of each attack in a plant that is otherwise not attacked.

    Rows before it are those of the clean record; it runs from the same state and with
    the same random numbers as its twin there.
    """
    runner = plant.simulation._before_test.copy()
    scratch, row, found = np.empty(plant.clean.values.shape, np.float32), 0, {}
    for attack in sorted(wanted, key=lambda one: one.start_s):
        its = attack.rows(int(plant.clean.step_s))
        runner.run(scratch, start=row, stop=its.start)
        row = its.start
        runner.copy().run(scratch, start=row, stop=its.stop, attack=attack)
        found[attack.id] = _residuals_of(plant, its, scratch[its])
    return found


def written_here(plant: Plant, wanted: list[Attack]) -> dict[str, ExportedRows]:
    """Return residuals of each attack written into the clean record at its own time."""
    found = {}
    for attack in wanted:
        inside = slice(attack.start_s, attack.stop_s)
        values = plant.clean.values[inside].astype(np.float64)
        action = attack.actions[0]
        column = plant.clean.channels.index(action.tag)
        whole = plant.clean.values[:, column]
        last, value, rate = whole[attack.start_s - 1], action.value, action.rate or 0.0
        moved = rate * np.arange(1, len(values) + 1)
        if action.kind == "constant":
            values[:, column] = value
        elif action.kind == "bias":
            values[:, column] += (value or 0.0) + moved
        elif action.kind == "replay":
            back = int(value or 0)
            values[:, column] = whole[inside.start - back : inside.stop - back]
        else:
            values[:, column] = last + moved
            if value is not None:
                stop = np.minimum if rate > 0 else np.maximum
                values[:, column] = stop(values[:, column], value)
        found[attack.id] = _residuals_of(plant, inside, values)
    return found


def _residuals_of(plant: Plant, its: slice, values: np.ndarray) -> ExportedRows:
    """Return residuals of an attack's readings in its rows, with clean rows about."""
    clean = plant.clean.values
    every = plant.detector.row_settings().every  # type: ignore[attr-defined]
    first = max(its.start // every - MEMORY, 0) * every
    before = clean[first : its.start]
    # Whole blocks only: rows after the attack are those of the clean record.
    rest = -(len(before) + len(values)) % every
    after = clean[its.stop : its.stop + rest]
    piece = Recording(
        values=np.concatenate([before, values, after]),
        tags=plant.clean.tags,
        step_s=plant.clean.step_s,
    )
    exported = export_rows(plant.detector, piece)
    # From the block on in which the attack begins.
    kept = exported.index + first > its.start - every
    return replace(
        exported, values=exported.values[kept], index=exported.index[kept] + first
    )


def actually_seen(
    plant: Plant, rule: Rule, wanted: list[Attack], rows: dict[str, ExportedRows]
) -> dict[str, bool]:
    """Return which attacks raise an alarm that their twin has not.

    An attack of which every row is nearer than the off-delay to an alarm of the twin
    can neither be seen nor missed: it is left out.
    """
    twin = export_rows(plant.detector, plant.clean)
    calm = rule.run(twin.values, breaks=twin.breaks)
    off, seen = rule.delays.off, {}
    near = np.zeros(len(twin.index), bool)
    for row in np.flatnonzero(calm.exceeds & calm.in_alarm):
        near[max(row - off, 0) : row + off + 1] = True
    starts = {
        a.id: int(np.searchsorted(twin.index, rows[a.id].index[0])) for a in wanted
    }
    states = states_before(rule, twin.values, list(starts.values()))
    for attack in wanted:
        one, start = rows[attack.id], starts[attack.id]
        # An alarm rings at the end of its row; the attack must be under way then.
        ends = one.index + int(np.diff(one.index[:2])[0])
        its = attack.rows(int(plant.clean.step_s))
        inside = (ends > its.start) & (ends <= its.stop)
        usable = inside & ~near[start : start + len(inside)]
        if usable.any():
            rings = rings_after(rule, states[start], one.values)
            seen[attack.id] = bool((rings & usable).any())
    return seen


# What a rule remembers, by the names of `RuleState.arrays`.
State = dict[str, np.ndarray]


def states_before(rule: Rule, rows: np.ndarray, starts: list[int]) -> dict[int, State]:
    """Return what a rule remembers of the twin before some of its rows."""
    state, row, found = rule.start(), 0, {}
    for start in sorted(set(starts)):
        state.advance(np.asarray(rows[row:start], np.float64))
        row, found[start] = start, state.arrays()
    return found


def rings_after(rule: Rule, before: State, rows: np.ndarray) -> np.ndarray:
    """Return which rows raise an alarm if the rule goes on from the twin's state."""
    piece = rule.start(before).advance(np.asarray(rows, np.float64))
    return piece.exceeds & piece.in_alarm


def from_table(
    table: list[BlindSpot], rule: str, attack: Attack, plant: Plant
) -> bool | None:
    """Return whether the table says that an attack is seen; None if it cannot."""
    action = attack.actions[0]
    column = plant.clean.channels.index(action.tag)
    usual = float(np.median(plant.clean.values[:, column]))
    if action.kind == "freeze":
        shape, size = "frozen", None
    elif action.kind == "replay":
        shape, size = "replay", None
    elif action.kind == "constant":
        shape, size = "step", action.value - usual
    elif action.rate:
        shape, size = (
            "ramp",
            action.rate * attack.duration_s
            + (action.value or 0) * (action.kind == "bias"),
        )
        if action.kind == "ramp" and action.value is not None:
            size = np.sign(size) * min(abs(size), abs(action.value - usual))
    else:
        shape, size = "step", action.value
    spots = [
        s
        for s in table
        if (s.tag, s.shape, s.rule) == (action.tag, shape, rule)
        and (size is None or s.sign == (1 if size > 0 else -1))
    ]
    if not spots:
        return None
    spots.sort(key=lambda s: s.duration_s)
    lengths = np.log([s.duration_s for s in spots])
    at = np.log(attack.duration_s)
    if size is None:
        return bool(np.interp(at, lengths, [s.share_seen for s in spots]) >= 0.5)
    sizes = [np.log(_half(s)) for s in spots]
    return bool(np.log(abs(size)) >= np.interp(at, lengths, sizes))


def _half(spot: BlindSpot) -> float:
    known = spot.half.size if spot.half else None
    return known if known is not None else 1e12


# --- Closed loop ----------------------------------------------------------------------

IMPOSSIBLE = SpotOutcome.NO_POSSIBLE_VALUE
LOOP_PLACES = 12
LOOP_S = 900
GRID = 1.26
# Sensors that the controller of the waterworks reads.
READ_BY_CONTROL = (
    *("AIT201", "AIT202", "AIT203", "AIT402", "AIT502", "AIT504"),
    *("DPIT301", "FIT201", "FIT401", "LIT101", "LIT301", "LIT401"),
)


def loop(seeds: list[int]) -> None:
    """Compare sizes written into the record with those inside the simulator."""
    for detector in DETECTORS:
        ratios: dict[str, list[tuple[str, float, float]]] = defaultdict(list)
        left_out: dict[str, list[str]] = defaultdict(list)
        for seed in seeds:
            plant = plant_of(seed, detector, Scenario())
            arena = arena_of(
                plant,
                shapes=("step", "ramp"),
                durations_s=(float(LOOP_S),),
                tags=tuple(p.SENSORS),
                places=LOOP_PLACES,
            )
            spots = {(s.tag, s.shape, s.sign, s.rule): s for s in arena.search()}
            closed = ClosedLoop(plant, arena)
            for target in arena.targets:
                for shape in target.shapes:
                    for sign in (1, -1):
                        sizes = closed.sizes(target.tags[0], shape.name, sign)
                        for rule in RULES:
                            spot = spots.get((target.name, shape.name, sign, rule))
                            name = f"{target.name} {shape.name} {sign:+d}"
                            if spot is None or spot.outcome is IMPOSSIBLE:
                                left_out[rule].append(name)
                                continue
                            counts = closed.judgeable(target, shape, rule, sign)
                            half = quantile_sizes(sizes[rule][counts], 0.5)[0]
                            size = spot.half.size if spot.half else None
                            scale = target.tags[0].range
                            ratios[rule].append(
                                (name, (size or np.inf) / scale, half / scale)
                            )
        for rule, rows in ratios.items():
            report_loop(detector, rule, rows)
            print(f"    no possible reading, left out: {', '.join(left_out[rule])}")


def report_loop(detector: str, rule: str, rows: list[tuple[str, float, float]]) -> None:
    opened = np.minimum([r[1] for r in rows], 20.0)
    closed = np.minimum([r[2] for r in rows], 20.0)
    both_unseen = (opened >= 10) & (closed >= 10)
    ratio = closed / opened
    within = both_unseen | ((ratio > 0.5 / 1.13) & (ratio < 2.0 * 1.13))
    print(
        f"{detector} {rule}: rank correlation {spearmanr(opened, closed)[0]:.3f}, "
        f"within 2 times {within.sum()} of {len(rows)} ({both_unseen.sum()} unseen "
        "both ways)"
    )
    is_read = np.array([row[0].split()[0] in READ_BY_CONTROL for row in rows])
    is_near = both_unseen | ((ratio > 1 / GRID) & (ratio < GRID))
    print(
        f"    of sensors that no control reads within a step of the grid: "
        f"{(is_near & ~is_read).sum()} of {(~is_read).sum()}"
    )
    for row, one, is_within in zip(rows, ratio, within, strict=True):
        if not is_within:
            print(
                f"    {row[0]}: {row[1]:.3f} in the record, {row[2]:.3f} in the loop"
                f" ({one:.1f} times)"
            )


class ClosedLoop:
    """Falsifications inside the simulator at the places of an arena.

    The plant is kept before each place; every size runs from there, with the same
    random numbers as its twin.
    """

    def __init__(self, plant: Plant, arena: SpotArena) -> None:
        self.plant, self.arena = plant, arena
        runner = plant.simulation._before_test.copy()
        self.starts = arena.telemetry.starts[arena.arena.places]
        self.before, row = [], 0
        recorded = p.empty_rows(plant.clean.n_steps)
        for start in self.starts:
            runner.run(recorded, start=row, stop=int(start))
            self.before.append(runner.copy())
            row = int(start)
        self.states = {
            view.rule.name: states_before(
                view.rule, arena.record.rows, arena.row_places.tolist()
            )
            for view in arena.views
        }

    def judgeable(self, target, shape, rule: str, sign: int = 0) -> np.ndarray:  # type: ignore[no-untyped-def]
        """Return the places that count in the record, so that both count the same."""
        arena = self.arena.arena
        views = [by_duration[0] for by_duration in arena.views]
        case = SpotCase(target, shape, arena.falsifiers[0], arena.stage, views)
        (view,) = (view for view in views if view.rule.name == rule)
        return case.judgeable(view, sign)

    def sizes(self, tag, shape: str, sign: int) -> dict[str, np.ndarray]:  # type: ignore[no-untyped-def]
        """Return the size at which each place is seen, by rule, on a grid of 26%."""
        grid = tag.range * GRID ** np.arange(-20, 11)
        low = {rule: np.full(len(self.starts), -1) for rule in RULES}
        high = {rule: np.full(len(self.starts), len(grid)) for rule in RULES}
        for k in range(len(self.starts)):
            seen: dict[int, dict[str, bool]] = {}

            def looked(i: int, k: int = k, seen=seen) -> dict[str, bool]:  # type: ignore[no-untyped-def]
                if i not in seen:
                    seen[i] = self._seen(k, tag, shape, sign * grid[i])
                return seen[i]

            for rule in RULES:
                a, b = -1, len(grid)
                while b - a > 1:
                    middle = (a + b) // 2
                    if looked(middle)[rule]:
                        b = middle
                    else:
                        a = middle
                low[rule][k], high[rule][k] = a, b
        out = {}
        for rule in RULES:
            i = high[rule]
            sizes = np.where(i < len(grid), grid[np.minimum(i, len(grid) - 1)], np.inf)
            # The size lies between two points of the grid.
            out[rule] = sizes / np.sqrt(GRID)
        return out

    def seen(self, tag, shape: str) -> dict[str, np.ndarray]:  # type: ignore[no-untyped-def]
        """Return which places see a shape without a size, by rule."""
        seen = []
        column = self.plant.clean.channels.index(tag.name)
        for k, start in enumerate(self.starts):
            last = float(self.plant.clean.values[int(start) - 1, column])
            action = {
                "frozen": {"kind": "freeze"},
                "replay": {"kind": "replay", "value": float(LOOP_S)},
                "actuator": {"kind": "set", "value": 1.0 if last == 2 else 2.0},
            }[shape]
            seen.append(self._under(k, Action(tag=tag.name, **action)))
        return {rule: np.array([one[rule] for one in seen]) for rule in RULES}

    def _seen(self, k: int, tag, shape: str, size: float) -> dict[str, bool]:  # type: ignore[no-untyped-def]
        how = {"value": size} if shape == "step" else {"rate": size / LOOP_S}
        return self._under(k, Action(tag=tag.name, kind="bias", **how))

    def _under(self, k: int, action: Action) -> dict[str, bool]:
        start = int(self.starts[k])
        attack = Attack(
            id="x", start_s=max(start, 1), duration_s=LOOP_S, actions=(action,)
        )
        every = self.arena.telemetry.every
        memory = self.arena.arena.stage.memory
        values = p.empty_rows(start + LOOP_S)
        # What a frozen or replayed tag repeats.
        earlier = slice(max(start - LOOP_S - 1, 0), start)
        values[earlier] = self.plant.clean.values[earlier]
        self.before[k].copy().run(
            values, start=start, stop=start + LOOP_S, attack=attack
        )
        clean = self.plant.clean
        before = clean.values[start - memory * every : start]
        rows = np.concatenate([before, values[start:]])
        piece = Recording(values=rows, tags=clean.tags, step_s=1.0)
        exported = export_rows(self.plant.detector, piece)
        falsified = exported.values[exported.index >= memory * every]
        place = int(self.arena.row_places[k])
        answer = {}
        for view in self.arena.views:
            state = self.states[view.rule.name][place]
            rings = rings_after(view.rule, state, falsified)
            usable = view.is_usable[place : place + len(rings)]
            answer[view.rule.name] = bool((rings & usable).any())
        return answer


def unsized(seeds: list[int]) -> None:
    """Compare shapes without a size in the record and inside the simulator."""
    for detector in DETECTORS:
        pairs: dict[tuple[str, str], list[tuple[str, float, float]]]
        pairs = defaultdict(list)
        for seed in seeds:
            plant = plant_of(seed, detector, Scenario())
            arena = arena_of(
                plant,
                shapes=("frozen", "replay", "actuator"),
                durations_s=(float(LOOP_S),),
                places=LOOP_PLACES,
            )
            closed = ClosedLoop(plant, arena)
            table = {(s.tag, s.shape, s.rule): s for s in arena.search()}
            for target in arena.targets:
                for shape in target.shapes:
                    seen = closed.seen(target.tags[0], shape.name)
                    for rule in RULES:
                        spot = table.get((target.name, shape.name, rule))
                        if spot is None or spot.share_seen is None:
                            continue
                        counts = closed.judgeable(target, shape, rule)
                        share = float(seen[rule][counts].mean())
                        pairs[shape.name, rule].append(
                            (target.name, spot.share_seen, share)
                        )
        for (shape, rule), found in sorted(pairs.items()):
            differ = [one for one in found if (one[1] >= 0.5) != (one[2] >= 0.5)]
            print(
                f"{detector} {shape} {rule}: {len(found) - len(differ)} of {len(found)}"
                " tags agree"
            )
            for name, opened, looped in differ:
                print(
                    f"    {name}: {opened:.2f} in the record, {looped:.2f} in the loop"
                )


def other_seeds(seeds: list[int]) -> None:
    """Rank correlation of the tags between places of two seeds."""
    for detector in DETECTORS:
        plant = plant_of(seeds[0], detector, Scenario())
        tables = [
            arena_of(
                plant, shapes=("step", "ramp"), durations_s=(900.0,), seed=s
            ).search()
            for s in (0, 1)
        ]
        for rule in RULES:
            sizes = [
                [min(_half(s), 1e9) for s in table if s.rule == rule]
                for table in tables
            ]
            n = min(map(len, sizes))
            print(
                f"{detector} {rule}: rank correlation over seeds of the places "
                f"{spearmanr(sizes[0][:n], sizes[1][:n])[0]:.3f}"
            )


RUNS = {
    "speed": speed,
    "gdn": gdn,
    "agree": agree,
    "intervals": intervals,
    "attacks": attacks,
    "loop": loop,
    "unsized": unsized,
    "seeds": other_seeds,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=RUNS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[301])
    args = parser.parse_args()
    RUNS[args.what](args.seeds)


if __name__ == "__main__":
    main()
