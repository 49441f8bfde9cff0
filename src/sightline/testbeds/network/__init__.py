"""Network: a water network with twin truth, by EPANET and the package `wntr`.

`simulate` runs any EPANET file; `write_simulation` writes a run to disk.
docs/network.md describes control, noise, attacks, and what is published and what is
ours. It needs the extra ``water``.

================  ===================================================================
`hydraulics`      one step by EPANET's toolkit
`plant`           a network read from a file: tags, instruments, controls, demands
`process`         one row of everything, and runs of many
`scenario`        attacks for any network
`simulation`      train and test from one seed
================  ===================================================================
"""

from sightline.testbeds.network.process import NetworkBalance
from sightline.testbeds.network.simulation import (
    Simulation,
    default_scenario,
    read_scenario,
    simulate,
)
from sightline.testbeds.twin.folder_writer import write_simulation
from sightline.testbeds.twin.scenario import Action, PlannedAttack, Scenario
from sightline.testbeds.twin.truth import AttackTruth

__all__ = [
    "Action",
    "AttackTruth",
    "NetworkBalance",
    "PlannedAttack",
    "Scenario",
    "Simulation",
    "default_scenario",
    "read_scenario",
    "simulate",
    "write_simulation",
]
