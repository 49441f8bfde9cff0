"""A week of normal operation and days of attacks, from one seed; drift between them.

For each attack a twin runs without it, from the same state and with the same random
numbers: `truth` compares the two. Rows after an attack in which the plant recovers are
labelled -1, unless `recovery_labels` is False.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np

from sightline.data.arrays import IGNORED, NORMAL, Labels
from sightline.data.attack_list import labels_of
from sightline.data.recording import Recording
from sightline.data.segments import Attack
from sightline.errors import StreamError
from sightline.progress import Progress, Step, StepKind, silent
from sightline.testbeds.waterworks import plant as p
from sightline.testbeds.waterworks.plant import Rows
from sightline.testbeds.waterworks.scenario import (
    DAY_S,
    PlannedAttack,
    Scenario,
    default_scenario,
    quick_scenario,
)
from sightline.testbeds.waterworks.truth import (
    AttackTruth,
    Usual,
    cap_s,
    truth_of,
    usual_of,
)
from sightline.text import did_you_mean

if TYPE_CHECKING:
    from sightline.testbeds.waterworks.process import Runner

# Train begins on Monday, 1 January 2024, at midnight.
FIRST_SECOND = 1_704_067_200.0
USUAL_DAYS, QUICK_DAYS = (7.0, 4.0), (1.0, 0.5)


class Strength(StrEnum):
    """How much something drifts."""

    NONE = "none"
    MILD = "mild"
    STRONG = "strong"

    __repr__ = str.__repr__


# Changes when mild and when strong, as in docs/waterworks.md.
_RAW_SHIFT = {
    Strength.NONE: (0.0, 0.0, 0.0, 0.0),
    Strength.MILD: (8.0, 0.1, 12.0, 6.0),
    Strength.STRONG: (18.0, 0.25, 35.0, 18.0),
}
_FOULING = {
    Strength.NONE: (1.0, 1.0, 1.0),
    Strength.MILD: (1.05, 1.1, 0.99),
    Strength.STRONG: (1.3, 1.6, 0.92),
}
_PUMP_HEAD = {"P101": (0.97, 0.9), "P302": (0.97, 0.9), "P501": (0.985, 0.95)}
_BIAS = {
    "LIT101": (4.0, 15.0),
    "AIT201": (1.0, 4.0),
    "AIT202": (0.02, 0.1),
    "LIT401": (-3.0, -12.0),
    "FIT401": (0.008, 0.06),
    "AIT504": (0.15, 0.8),
    "PIT501": (0.6, 5.0),
}
_SETPOINT_SHIFT = {
    "LIT301.L": (-20.0, -70.0),
    "LIT301.H": (-20.0, -70.0),
    "AIT203.L": (8.0, 30.0),
    "AIT203.H": (8.0, 30.0),
}


@dataclass(frozen=True, kw_only=True)
class Drift:
    """What changes between train and test; each is "none", "mild" or "strong".

    docs/waterworks.md lists the amounts.

    Parameters
    ----------
    raw_water : Strength
        Raw water gets saltier, more alkaline and harder.
    fouling : Strength
        The UF membrane resists more and clogs faster; the RO membrane passes less.
    pump_wear : Strength
        P101, P302 and P501 lose head.
    sensor_bias : Strength
        Seven instruments have an offset, which the PLC sees too.
    setpoint : Strength
        T301's level and the chlorine's ORP are controlled to other set-points.

    Raises
    ------
    StreamError
        If a strength is unknown.

    Examples
    --------
    >>> Drift(fouling="strong").pump_wear
    'none'
    """

    raw_water: Strength = Strength.NONE
    fouling: Strength = Strength.NONE
    pump_wear: Strength = Strength.NONE
    sensor_bias: Strength = Strength.NONE
    setpoint: Strength = Strength.NONE

    def __post_init__(self) -> None:
        """Take strengths that are given as text."""
        for field in fields(self):
            strength = getattr(self, field.name)
            if strength not in tuple(Strength):
                raise StreamError(
                    f"`{field.name}` must be one of {', '.join(Strength)}; "
                    f"got {strength!r}."
                )
            object.__setattr__(self, field.name, Strength(strength))

    @classmethod
    def of(cls, text: str) -> Drift:
        """Return a drift from text: one strength for all options, or for some.

        Examples
        --------
        >>> str(Drift.of("mild")), str(Drift.of("fouling=strong,setpoint=mild"))
        ('mild', 'fouling strong, setpoint mild')
        """
        options = [field.name for field in fields(cls)]
        if "=" not in text:
            return cls(**dict.fromkeys(options, text))  # type: ignore[arg-type]
        chosen = {}
        for item in text.split(","):
            option, _, strength = (word.strip() for word in item.partition("="))
            if option not in options:
                raise StreamError(
                    f"drift has no option {option!r}; "
                    f"{did_you_mean(option, sorted(options))}"
                )
            chosen[option] = strength
        return cls(**chosen)  # type: ignore[arg-type]

    def __str__(self) -> str:
        """Return the drift in words, such as "mild" or "fouling mild"."""
        strengths = {field.name: getattr(self, field.name) for field in fields(self)}
        if len(set(strengths.values())) == 1:
            return str(strengths["raw_water"])
        return ", ".join(f"{k} {s}" for k, s in strengths.items() if s != "none")


def conditions_of(drift: Drift) -> p.Conditions:
    """Return a drift in the form that the compiled process reads.

    Without drift all factors are 1, all shifts 0, and set-points are `SETPOINTS`.
    """
    resistance, cake_rate, permeability = _FOULING[drift.fouling]
    pump_head, bias = np.ones(p.N_TAGS), np.zeros(p.N_TAGS)
    setpoints = np.array(list(p.SETPOINTS.values()))
    for name, head in _changes(_PUMP_HEAD, drift.pump_wear).items():
        pump_head[p.COLUMN[name]] = head
    for name, shift in _changes(_BIAS, drift.sensor_bias).items():
        bias[p.COLUMN[name]] = shift
    for name, shift in _changes(_SETPOINT_SHIFT, drift.setpoint).items():
        setpoints[p.SETPOINT_INDEX[name]] += shift
    return p.Conditions(
        raw_shift=np.array(_RAW_SHIFT[drift.raw_water]),
        uf_resistance=resistance,
        cake_rate=cake_rate,
        ro_permeability=permeability,
        pump_head=pump_head,
        bias=bias,
        setpoints=setpoints,
    )


def _changes(
    table: Mapping[str, tuple[float, float]], strength: Strength
) -> dict[str, float]:
    """Return the changes of one strength by name; none if nothing drifts."""
    if strength is Strength.NONE:
        return {}
    return {name: pair[strength is Strength.STRONG] for name, pair in table.items()}


@dataclass(frozen=True, kw_only=True, eq=False)
class Simulation:
    """Train, test, and what is known about test but not recorded.

    Parameters
    ----------
    train, test : Recording
        Normal operation, and the time that follows, with the scenario's attacks.
    true_values : array of shape (n_steps, 51)
        Readings of test before any forging.
    truth : tuple of AttackTruth
        The effect of each attack, in comparison with its twin.
    train_water, test_water : WaterBalance
        The water accounts of both.
    seed, drift, scenario
        The arguments of `simulate`.
    """

    train: Recording
    test: Recording
    true_values: Rows
    truth: tuple[AttackTruth, ...]
    train_water: p.WaterBalance
    test_water: p.WaterBalance
    seed: int
    drift: Drift
    scenario: Scenario
    _before_test: Runner

    def clean_test(self) -> Recording:
        """Return test without any attack, from the same state and random numbers."""
        recorded = p.empty_rows(self.test.n_steps)
        self._before_test.copy().run(recorded)
        return Recording(
            values=recorded,
            tags=p.TAGS,
            time=self.test.time,
            step_s=1.0,
            source=f"{self.test.source}, attacks removed",
        )


def simulate(
    *,
    days_train: float | None = None,
    days_test: float | None = None,
    seed: int = 1,
    drift: Drift | None = None,
    scenario: Scenario | None = None,
    quick: bool = False,
    recovery_labels: bool = True,
    progress: Progress | None = None,
) -> Simulation:
    """Simulate the plant: normal operation (train), then more with attacks (test).

    The same arguments give the same numbers, bit for bit. A row is one second.

    Parameters
    ----------
    days_train, days_test : float, optional
        Days of plant time: 7 and 4 by default, 1 and 0.5 if quick.
    seed : int
        Seed of all random numbers, 0 or more.
    drift : Drift, optional
        How the plant changes between train and test; not at all by default.
    scenario : Scenario, optional
        The attacks; by default the shipped ones that fit into test.
    quick : bool
        Fewer days and a short scenario, for demonstrations and tests.
    recovery_labels : bool
        Label rows in which the plant recovers from an attack -1 (`truth.recovery_s`);
        if False, they are labelled 0 like all other rows outside of attacks.
    progress : callable, optional
        Takes a `Step` for each stretch of train and test.

    Returns
    -------
    Simulation
        Recordings `train` and `test` with 51 tags, and the `truth` of each attack.

    Raises
    ------
    StreamError
        If a number of days is not above 0, the seed is no whole number, or an attack
        ends after test.

    Examples
    --------
    >>> from sightline.testbeds.waterworks import Action, PlannedAttack
    >>> raise_level = Action(tag="LIT101", kind="ramp", rate=1.0)
    >>> attack = PlannedAttack(
    ...     id="a", start_s=600, duration_s=300, actions=(raise_level,)
    ... )
    >>> simulation = simulate(
    ...     days_train=0.02, days_test=0.02, scenario=Scenario(attacks=(attack,))
    ... )
    >>> simulation.test.values.shape, int((simulation.test.labels == 1).sum())
    ((1728, 51), 300)
    >>> simulation.truth[0].effect["LIT101"] > 100
    True
    """
    usual = QUICK_DAYS if quick else USUAL_DAYS
    n_train = _steps_of(usual[0] if days_train is None else days_train, "days_train")
    n_test = _steps_of(usual[1] if days_test is None else days_test, "days_test")
    drift = drift or Drift()
    if scenario is None:
        scenario = (quick_scenario if quick else default_scenario)(n_test / DAY_S)
    scenario.check_fits(n_test)
    made = _run(n_train, n_test, _check_seed(seed), drift, scenario, progress or silent)
    if not recovery_labels:
        return made
    labels = _with_recovery(made.test, made.truth)
    return replace(made, test=replace(made.test, labels=labels))


def _with_recovery(test: Recording, truth: Sequence[AttackTruth]) -> Labels:
    """Return the labels of test with normal rows in recovery labelled -1."""
    labels = np.array(test.labels)
    for attack in truth:
        rows = labels[attack.stop : attack.stop + (attack.recovery_s or 0)]
        rows[rows == NORMAL] = IGNORED
    return labels


def _run(
    n_train: int,
    n_test: int,
    seed: int,
    drift: Drift,
    scenario: Scenario,
    progress: Progress,
) -> Simulation:
    """Run train, then test with its attacks and their twins.

    The plant is warmed up before train. Drift sets in with the first second of test.
    """
    # Imported late, because numba takes a second to import.
    from sightline.testbeds.waterworks.process import Runner

    plant = Runner.warmed_up(seed, conditions_of(Drift()))
    train = p.empty_rows(n_train)
    plant.open_accounts()
    plant.run(train, report=_reporter(progress, "train", n_train))
    train_water = plant.close_accounts()
    plant = plant.copy(conditions_of(drift))
    before_test = plant.copy()
    recorded, unforged = p.empty_rows(n_test), p.empty_rows(n_test)
    plant.open_accounts()
    twins = _run_attacks(
        plant, scenario, recorded, unforged, _reporter(progress, "test", n_test)
    )
    unattacked = p.empty_rows(n_test)
    before_test.copy().run(unattacked)
    usual = usual_of(train, unattacked)
    source = f"waterworks seed {seed}, drift {drift}"
    return Simulation(
        train=_recording(train, 0, f"{source}, train", Scenario()),
        test=_recording(recorded, n_train, f"{source}, test", scenario),
        true_values=unforged,
        truth=_truth(scenario.attacks, twins, recorded, usual),
        train_water=train_water,
        test_water=plant.close_accounts(),
        seed=seed,
        drift=drift,
        scenario=scenario,
        _before_test=before_test,
    )


def _run_attacks(
    plant: Runner,
    scenario: Scenario,
    recorded: Rows,
    unforged: Rows,
    report: Callable[[int], None],
) -> list[Runner]:
    """Fill the rows of test, and return the plant as it was before each attack.

    Parameters
    ----------
    plant : Runner
        The plant at the first second of test.
    scenario : Scenario
        The attacks.
    recorded, unforged : array of shape (n_steps, 51)
        Filled with readings as recorded, and before any forging.
    report : callable
        Takes the number of rows that are filled.
    """
    run = partial(plant.run, recorded, unforged=unforged, report=report)
    twins = []
    row = 0
    for attack in scenario.attacks:
        run(start=row, stop=attack.start_s)
        twins.append(plant.copy())
        run(start=attack.start_s, stop=attack.stop_s, attack=attack)
        row = attack.stop_s
    run(start=row)
    return twins


def _truth(
    attacks: Sequence[PlannedAttack],
    twins: Sequence[Runner],
    recorded: Rows,
    usual: Usual,
) -> tuple[AttackTruth, ...]:
    """Return the effect of each attack, from a run of its twin up to the cap.

    Parameters
    ----------
    attacks : sequence of PlannedAttack
        In the order of time.
    twins : sequence of Runner
        The plant before the first step of each attack.
    recorded : array of shape (n_steps, 51)
        All of test, with the attacks.
    usual : Usual
        What the plant shows without attacks.
    """
    is_attacked = np.zeros(len(recorded), np.bool_)
    for attack in attacks:
        is_attacked[attack.start_s : attack.stop_s] = True
    # A twin's rows follow what was recorded before: later attacks may repeat the past.
    rows, copied, truth = p.empty_rows(len(recorded)), 0, []
    for k, (attack, twin) in enumerate(zip(attacks, twins, strict=True)):
        start = attack.start_s
        rows[copied:start] = recorded[copied:start]
        copied = start
        stop = min(attack.stop_s + cap_s(attack.duration_s), len(recorded))
        _run_with(twin, attacks[k + 1 :], rows, start, stop)
        seen = slice(start, stop)
        truth.append(
            truth_of(attack, recorded[seen], rows[seen], is_attacked[seen], usual)
        )
    return tuple(truth)


def _run_with(
    plant: Runner, attacks: Sequence[PlannedAttack], rows: Rows, start: int, stop: int
) -> None:
    """Fill rows [start, stop) by a plant, with the attacks that begin within them."""
    for attack in attacks:
        if attack.start_s >= stop:
            break
        plant.run(rows, start=start, stop=attack.start_s)
        start = min(attack.stop_s, stop)
        plant.run(rows, start=attack.start_s, stop=start, attack=attack)
    plant.run(rows, start=start, stop=stop)


def _recording(
    values: Rows, first_row: int, source: str, scenario: Scenario
) -> Recording:
    """Return rows as a recording, labelled by the scenario's attacks."""
    attacks = tuple(
        Attack(
            id=a.id,
            start=a.start_s,
            stop=a.stop_s,
            targets=a.targets,
            note=a.note or None,
        )
        for a in scenario.attacks
    )
    return Recording(
        values=values,
        tags=p.TAGS,
        labels=labels_of(attacks, len(values)),
        time=FIRST_SECOND + first_row + np.arange(len(values), dtype=np.float64),
        step_s=1.0,
        attacks=attacks,
        source=source,
    )


def _reporter(progress: Progress, detail: str, total: int) -> Callable[[int], None]:
    """Return a callback that turns a number of rows into a `Step`."""
    return lambda done: progress(Step(StepKind.SIMULATING, done, total, detail))


def _steps_of(days: float, name: str) -> int:
    """Return days as a number of steps; refuse what is not above 0."""
    is_number = isinstance(days, Real) and np.isfinite(days)
    steps = round(days * DAY_S) if is_number else 0
    if steps < 1:
        raise StreamError(f"`{name}` must be days of plant time above 0; got {days}.")
    return steps


def _check_seed(seed: int) -> int:
    """Return a seed as an integer; refuse what is not a whole number, 0 or more."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise StreamError(f"`seed` must be a whole number, 0 or more; got {seed!r}.")
    return int(seed)
