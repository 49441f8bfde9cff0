"""Tep: the Tennessee Eastman process with twin truth, by the package `tep_studio`.

`simulate` runs it; `write_simulation` writes a run to disk. docs/tep.md describes the
process, the attacks, and what is published and what is ours. It needs the extra
``tep``.

================  ===================================================================
`plant`           tags, instruments, set-points
`model`           the compiled model, advanced step by step
`controllers`     the loops of Ricker's strategy
`process`         model, controllers, and the attacker between them
`simulation`      train and test from one seed
================  ===================================================================
"""

from sightline.testbeds.tep.plant import SETPOINTS, TAGS
from sightline.testbeds.tep.simulation import (
    Simulation,
    default_scenario,
    read_scenario,
    simulate,
)
from sightline.testbeds.twin.folder_writer import write_simulation
from sightline.testbeds.twin.scenario import Action, PlannedAttack, Scenario
from sightline.testbeds.twin.truth import AttackTruth

__all__ = [
    "SETPOINTS",
    "TAGS",
    "Action",
    "AttackTruth",
    "PlannedAttack",
    "Scenario",
    "Simulation",
    "default_scenario",
    "read_scenario",
    "simulate",
    "write_simulation",
]
