"""Waterworks: a simulated six-stage water treatment plant modelled on SWaT.

`simulate` runs it; `write_simulation` writes a run to disk. docs/waterworks.md
describes the process, the attacks and the truth.
"""

from sightline.testbeds.waterworks.folder_writer import write_simulation
from sightline.testbeds.waterworks.plant import SETPOINTS, TAGS
from sightline.testbeds.waterworks.scenario import (
    Action,
    PlannedAttack,
    Scenario,
    default_scenario,
    quick_scenario,
    read_scenario,
    scenario_to_csv,
    scenario_to_toml,
)
from sightline.testbeds.waterworks.simulation import Drift, Simulation, simulate
from sightline.testbeds.waterworks.truth import AttackTruth, TankBalance, WaterBalance

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
