"""A week of normal operation and days of attacks, from one seed; drift between them.

For each attack a twin runs without it, from the same state and with the same random
numbers: `truth` compares the two. Rows after an attack in which the plant recovers are
labelled -1, unless `recovery_labels` is False.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from pathlib import Path

import numpy as np

from sightline.errors import StreamError
from sightline.progress import Progress, silent
from sightline.testbeds.twin.scenario import (
    DAY_S,
    PlannedAttack,
    Scenario,
    shipped_scenario,
)
from sightline.testbeds.twin.scenario import read_scenario as read_any
from sightline.testbeds.twin.simulation import (
    Panel,
    check_seed,
    recordings_of,
    rows_of_days,
    run_days,
)
from sightline.testbeds.twin.simulation import Simulation as TwinSimulation
from sightline.testbeds.waterworks import plant as p
from sightline.testbeds.waterworks.plant import VOCABULARY
from sightline.text import did_you_mean

_PACKAGE = "sightline.testbeds.waterworks"


def default_scenario(days: float = 4.0) -> Scenario:
    """Return the shipped attacks that fit into a number of days; they fill four.

    Examples
    --------
    >>> len(default_scenario().attacks), len(default_scenario(days=1).attacks)
    (51, 17)
    """
    return shipped_scenario(_PACKAGE, "attacks.csv", days)


def quick_scenario(days: float = 0.5) -> Scenario:
    """Return the attacks of the quick preset; they fill half a day.

    Examples
    --------
    >>> len(quick_scenario().attacks)
    12
    """
    return shipped_scenario(_PACKAGE, "quick_attacks.csv", days)


def read_scenario(path: str | Path) -> Scenario:
    """Read attacks on waterworks from a ``.csv`` or ``.toml`` file.

    Raises
    ------
    FileError
        If the file cannot be read or an attack is impossible; the message names the
        line or the table.
    """
    return read_any(path, VOCABULARY)


def stages_of(attack: PlannedAttack) -> tuple[str, ...]:
    """Return the stages that an attack acts on, each once: P1 to P6."""
    return tuple(dict.fromkeys(f"P{tag[-3]}" for tag in attack.targets))


def family_of(attack: PlannedAttack) -> str:
    """Return the class of an attack in SWaT's list.

    SSSP one tag; SSMP tags of one stage; MSSP one tag in each of several stages; MSMP
    tags of several stages, more than one in at least one of them.

    Examples
    --------
    >>> family_of(default_scenario().attacks[0])
    'SSSP'
    """
    stages = stages_of(attack)
    if len(stages) == 1:
        return "SSSP" if len(attack.targets) == 1 else "SSMP"
    return "MSSP" if len(attack.targets) == len(stages) else "MSMP"


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


# Panels of the picture: title, unit, tags.
_PANELS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("Raw water tank T101", "mm", ("LIT101",)),
    ("Ultrafiltration feed tank T301", "mm", ("LIT301",)),
    ("Reverse-osmosis feed tank T401", "mm", ("LIT401",)),
    ("Flow into and out of T101", "m³/h", ("FIT101", "FIT201")),
    ("Flow into and out of T401", "m³/h", ("FIT301", "FIT401")),
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Simulation(TwinSimulation):
    """Train, test, and what is known about test but not recorded.

    Parameters
    ----------
    train, test, true_values, truth, seed, scenario
        As for every simulated plant.
    train_water, test_water : WaterBalance
        The water accounts of both.
    drift : Drift
        How the plant changed between train and test.
    """

    train_water: p.WaterBalance
    test_water: p.WaterBalance
    drift: Drift

    @property
    def panels(self) -> tuple[Panel, ...]:
        """Levels with their set-points, and flows."""
        return tuple(
            Panel(
                title=title,
                unit=unit,
                tags=tags,
                limits={k: p.SETPOINTS[f"{tags[0]}.{k}"] for k in ("L", "H")}
                if tags[0].startswith("LIT")
                else {},
            )
            for title, unit, tags in _PANELS
        )

    @property
    def unit(self) -> str:
        """The unit of an effect, in words."""
        return (
            "a sensor's own noise and rounding (standard deviation); "
            "an actuator's code by 1"
        )

    def options(self) -> dict[str, object]:
        """Return the drift, for truth.json."""
        return {"drift": asdict(self.drift)}

    def accounts(self) -> dict[str, object]:
        """Return the water accounts, for truth.json."""
        water = {"train": asdict(self.train_water), "test": asdict(self.test_water)}
        return {"water": water}


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
    # Imported late, because numba takes a second to import.
    from sightline.testbeds.waterworks.process import Runner

    usual = QUICK_DAYS if quick else USUAL_DAYS
    n_rows = (
        rows_of_days(usual[0] if days_train is None else days_train, "days_train", 1),
        rows_of_days(usual[1] if days_test is None else days_test, "days_test", 1),
    )
    seed, drift = check_seed(seed), drift or Drift()
    if scenario is None:
        scenario = (quick_scenario if quick else default_scenario)(n_rows[1] / DAY_S)
    p.VOCABULARY.check_scenario(scenario, n_rows[1])
    plant = Runner.warmed_up(seed, conditions_of(Drift()))
    plant.open_accounts()
    accounts = []
    tests = []

    def between(trained: Runner) -> Runner:
        accounts.append(trained.close_accounts())
        tests.append(trained.copy(conditions_of(drift)))
        tests[0].open_accounts()
        return tests[0]

    days = run_days(plant, n_rows, scenario, p.YARDSTICK, progress or silent, between)
    source = f"waterworks seed {seed}, drift {drift}"
    train, test = recordings_of(days, p.TAGS, scenario, 1, source, recovery_labels)
    return Simulation(
        name="waterworks",
        train=train,
        test=test,
        true_values=days.true_values,
        truth=days.truth,
        train_water=accounts[0],
        test_water=tests[0].close_accounts(),
        seed=seed,
        drift=drift,
        scenario=scenario,
        _before_test=days.before_test,
    )
