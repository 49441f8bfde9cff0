"""Waterworks: a simulated six-stage water treatment plant modelled on SWaT.

`simulate` runs it; `write_simulation` writes a run to disk. docs/waterworks.md
describes the process, the attacks and the truth.

================  ===================================================================
`plant`           tags, tanks, set-points, instruments, the state, water accounts
`physics`         water, pressure and chemistry of one second
`controller`      the PLCs: readings in, commands out
`process`         one second of everything, and runs of many
`scenario`        the attacks that ship with it
`simulation`      train and test from one seed, and drift between them
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

from sightline.testbeds.twin.folder_writer import write_simulation
from sightline.testbeds.twin.scenario import (
    Action,
    PlannedAttack,
    Scenario,
    scenario_to_csv,
    scenario_to_toml,
)
from sightline.testbeds.twin.truth import AttackTruth
from sightline.testbeds.waterworks.plant import (
    SETPOINTS,
    TAGS,
    TankBalance,
    WaterBalance,
)
from sightline.testbeds.waterworks.simulation import (
    Drift,
    Simulation,
    default_scenario,
    quick_scenario,
    read_scenario,
    simulate,
)

__all__ = [
    "SETPOINTS",
    "TAGS",
    "Action",
    "AttackTruth",
    "Drift",
    "PlannedAttack",
    "Scenario",
    "Simulation",
    "TankBalance",
    "WaterBalance",
    "default_scenario",
    "quick_scenario",
    "read_scenario",
    "scenario_to_csv",
    "scenario_to_toml",
    "simulate",
    "write_simulation",
]
