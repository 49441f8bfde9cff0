"""Waterworks: a simulated six-stage water-treatment plant in the image of SWaT.

`simulate` runs it; `write_simulation` puts a run on disk. The process is described in
docs/waterworks.md.
"""

from sightline.testbeds.waterworks.drift import Drift
from sightline.testbeds.waterworks.folder_writer import write_simulation
from sightline.testbeds.waterworks.plant import SETPOINTS, TAGS
from sightline.testbeds.waterworks.scenario import Action, PlannedAttack, Scenario
from sightline.testbeds.waterworks.scenario_files import (
    default_scenario,
    quick_scenario,
    read_scenario,
    scenario_to_csv,
    scenario_to_toml,
)
from sightline.testbeds.waterworks.simulation import Simulation, simulate
from sightline.testbeds.waterworks.truth import AttackTruth
from sightline.testbeds.waterworks.water import TankBalance, WaterBalance

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
