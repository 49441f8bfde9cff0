"""Waterworks: a simulated six-stage water treatment plant modelled on SWaT.

`simulate` runs it; `write_simulation` writes a run to disk. docs/waterworks.md
describes the process, the attacks and the truth.

================  ===================================================================
`plant`           tags, tanks, set-points, instruments, the state
`physics`         water, pressure and chemistry of one second
`process`         the PLCs, one second of everything, and runs of many
================  ===================================================================

Attacks, twins, truth and folders are those of every simulated plant: `testbeds.twin`.

Examples
--------
>>> from sightline.testbeds.waterworks import Drift, Scenario, simulate
>>> worn = simulate(
...     days_train=0.01,
...     days_test=0.01,
...     drift=Drift(pump_wear="strong"),
...     scenario=Scenario(),
... )
>>> worn.test.n_steps, str(worn.drift)
(864, 'pump_wear strong')
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from pathlib import Path

import numpy as np

from sightline.data.arrays import check_choice
from sightline.errors import StreamError
from sightline.progress import Progress
from sightline.testbeds.twin.folder_writer import write_simulation
from sightline.testbeds.twin.scenario import (
    Action,
    PlannedAttack,
    Scenario,
    scenario_from,
    scenario_to_csv,
    shipped_scenario,
)
from sightline.testbeds.twin.simulation import (
    AttackTruth,
    Panel,
    PlantFacts,
    Simulation,
    simulate_plant,
)
from sightline.testbeds.waterworks import plant as p
from sightline.testbeds.waterworks.plant import (
    SETPOINTS,
    TAGS,
)
from sightline.text import did_you_mean

__all__ = [
    "SETPOINTS",
    "TAGS",
    "Action",
    "AttackTruth",
    "Drift",
    "PlannedAttack",
    "PlantDrift",
    "Scenario",
    "Simulation",
    "WaterworksSimulation",
    "default_scenario",
    "quick_scenario",
    "read_scenario",
    "scenario_to_csv",
    "simulate",
    "write_simulation",
]

USUAL_DAYS, QUICK_DAYS = (7.0, 4.0), (1.0, 0.5)
FACTS = PlantFacts(
    name="waterworks",
    tags=TAGS,
    vocabulary=p.VOCABULARY,
    yardstick=p.YARDSTICK,
    unit="a sensor's own noise and rounding (standard deviation); "
    "an actuator's code by 1",
    panels=(
        *(
            Panel(
                title=title,
                unit="mm",
                tags=(tag,),
                limits={word: SETPOINTS[f"{tag}.{word}"] for word in ("L", "H")},
            )
            for title, tag in (
                ("Raw water tank T101", "LIT101"),
                ("Ultrafiltration feed tank T301", "LIT301"),
                ("Reverse-osmosis feed tank T401", "LIT401"),
            )
        ),
        Panel(
            title="Flow into and out of T101", unit="m³/h", tags=("FIT101", "FIT201")
        ),
        Panel(
            title="Flow into and out of T401", unit="m³/h", tags=("FIT301", "FIT401")
        ),
    ),
)


def default_scenario(days: float = 4.0) -> Scenario:
    """Return the shipped attacks that fit into a number of days; they fill four.

    Examples
    --------
    >>> len(default_scenario().attacks), len(default_scenario(days=1).attacks)
    (51, 17)
    """
    return shipped_scenario("waterworks", days)


def quick_scenario(days: float = 0.5) -> Scenario:
    """Return the attacks of the quick preset; they fill half a day.

    Examples
    --------
    >>> len(quick_scenario().attacks)
    12
    """
    return shipped_scenario("waterworks_quick", days)


def read_scenario(path: str | Path) -> Scenario:
    """Read attacks on waterworks from a ``.csv`` or ``.toml`` file.

    Raises
    ------
    FileError
        If the file cannot be read or an attack is impossible; the message names the
        line or the table.
    """
    return scenario_from(path, p.VOCABULARY)


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
class PlantDrift:
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
            check_choice(field.name, strength, Strength)
            object.__setattr__(self, field.name, Strength(strength))

    @classmethod
    def of(cls, text: str) -> PlantDrift:
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


# What scenarios of users call it.
Drift = PlantDrift


def conditions_of(drift: PlantDrift) -> p.Conditions:
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
class WaterworksSimulation(Simulation):
    """A simulation of waterworks.

    Parameters
    ----------
    drift : PlantDrift
        How the plant changed between train and test.
    """

    drift: PlantDrift

    def options(self) -> dict[str, object]:
        """Return the drift, for truth.json."""
        return {"drift": asdict(self.drift)}


def simulate(
    *,
    days_train: float | None = None,
    days_test: float | None = None,
    seed: int = 1,
    drift: PlantDrift | None = None,
    scenario: Scenario | None = None,
    quick: bool = False,
    recovery_labels: bool = True,
    progress: Progress | None = None,
) -> WaterworksSimulation:
    """Simulate the plant: normal operation (train), then more with attacks (test).

    The same arguments give the same numbers, bit for bit. A row is one second.

    Parameters
    ----------
    days_train, days_test : float, optional
        Days of plant time: 7 and 4 by default, 1 and 0.5 if quick.
    seed : int
        Seed of all random numbers, 0 or more.
    drift : PlantDrift, optional
        How the plant changes between train and test; not at all by default.
    scenario : Scenario, optional
        The attacks; by default the shipped ones that fit into test.
    quick : bool
        Fewer days and a short scenario, for demonstrations and tests.
    recovery_labels : bool
        Label rows in which the plant recovers from an attack -1
        (`twin.simulation.recovery_s`); if False, they are labelled 0 like all other
        rows outside of attacks.
    progress : callable, optional
        Takes a `Step` for each part of train and test.

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
    from sightline.testbeds.waterworks.process import WaterworksPlant

    worn = drift or PlantDrift()
    return simulate_plant(
        WaterworksSimulation,
        FACTS,
        lambda seed: WaterworksPlant.warmed_up(seed, conditions_of(PlantDrift())),
        days=(days_train, days_test),
        usual_days=QUICK_DAYS if quick else USUAL_DAYS,
        seed=seed,
        scenario=scenario,
        planned=quick_scenario if quick else default_scenario,
        source=f"waterworks seed {seed}, drift {worn}",
        recovery_labels=recovery_labels,
        progress=progress,
        between=lambda trained: trained.copy(conditions_of(worn)),
        drift=worn,
    )
