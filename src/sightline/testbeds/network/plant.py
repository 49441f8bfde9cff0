"""A network read from an EPANET file: its tags, instruments, controls and demands.

Names follow BATADAL: L_ is the level of a tank, F_ and S_ are flow and status of a
pump, valve or controlled pipe, P_ is the pressure at a junction.
"""

import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from sightline.data.arrays import Floats, require
from sightline.data.recording import Role, Tag
from sightline.errors import FileError
from sightline.files import damage, read_document
from sightline.testbeds.network.hydraulics import FIRST_VALVE, PUMP, Hydraulics
from sightline.testbeds.twin.scenario import DAY_S, Vocabulary
from sightline.testbeds.twin.truth import CLEAR, Yardstick, sensor_units

STEP_S = 300
# Networks that `wntr` ships, by name.
SHIPPED = ("Net1", "Net2", "Net3", "Net6", "ky4", "ky10")
DEFAULT = "Net3"
# Junctions with a pressure sensor besides those at pumps and valves: the largest
# consumers.
_CONSUMERS_READ = 10
# Noise and rounding of level and pressure in m; of flow as a share of its largest value
# on a day without noise, and in litres a second.
_LEVEL_NOISE, _LEVEL_QUANTUM = 0.005, 0.001
_PRESSURE_NOISE, _PRESSURE_QUANTUM = 0.1, 0.01
_FLOW_NOISE, _FLOW_QUANTUM = 0.005, 0.01


class When(IntEnum):
    """What a simple control of EPANET waits for; the codes are EPANET's."""

    BELOW = 0
    ABOVE = 1
    TIME = 2
    TIME_OF_DAY = 3


@dataclass(frozen=True, kw_only=True)
class Control:
    """One simple control of the file.

    Parameters
    ----------
    when : When
        What it waits for.
    link : int
        Place in `Network.actuators`.
    status : float
        0 closes the link, 1 opens it.
    setting : float, optional
        Speed of a pump or setting of a valve, if the control sets one.
    tag : str
        The sensor that it reads; empty for a time.
    limit : float
        Level or pressure in m, or seconds.
    name : str
        What the limit is called as a set-point, such as ``"L_T1.PU1_ON"``; empty for a
        time.
    """

    when: When
    link: int
    status: float
    setting: float | None
    tag: str
    limit: float
    name: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Network:
    """What is known about one network.

    Parameters
    ----------
    name : str
        The name of the file.
    hydraulics : Hydraulics
        EPANET with this network.
    actuators : tuple of int
        Links that are commanded: pumps, valves, and pipes with a control.
    pressures : tuple of int
        Junctions with a pressure sensor.
    demands : array of shape (n_times, n_junctions)
        What consumers want over one period of the patterns, litres a second.
    demand_step_s : int
        Seconds between its rows.
    timer_period_s : int
        After this time controls by time begin again.
    levels, pressure_tags, flow_tags, status_tags : tuple of str
        The tags of the levels of tanks, of the pressure sensors, and of flow and status
        of each actuator.
    """

    name: str
    hydraulics: Hydraulics
    actuators: tuple[int, ...]
    pressures: tuple[int, ...]
    demands: Floats
    demand_step_s: int
    timer_period_s: int
    levels: tuple[str, ...]
    pressure_tags: tuple[str, ...]
    flow_tags: tuple[str, ...]
    status_tags: tuple[str, ...]

    @cached_property
    def tags(self) -> tuple[Tag, ...]:
        """All tags in the order of the columns."""
        units = (
            *((name, Role.SENSOR, "m") for name in self.levels),
            *((name, Role.SENSOR, "m") for name in self.pressure_tags),
            *((name, Role.SENSOR, "l/s") for name in self.flow_tags),
            *((name, Role.ACTUATOR, "state") for name in self.status_tags),
        )
        return tuple(Tag(name=name, role=role, unit=unit) for name, role, unit in units)

    @cached_property
    def controls(self) -> tuple[Control, ...]:
        """The simple controls of the file, in its order."""
        tags = dict(zip(self.hydraulics.tanks, self.levels, strict=True))
        tags |= dict(zip(self.pressures, self.pressure_tags, strict=True))
        controls = []
        for found in self.hydraulics.controls:
            link = self.actuators.index(int(found["link"]))
            tag = tags.get(int(found["node"]), "")
            is_plain = found["setting"] in (0.0, 1.0)
            word = "OFF" if found["setting"] == 0.0 else "ON"
            controls.append(
                Control(
                    when=When(int(found["type"])),
                    link=link,
                    status=float(found["setting"] > 0),
                    setting=None if is_plain else found["setting"],
                    tag=tag,
                    limit=found["level"],
                    name=f"{tag}.{self.flow_tags[link][2:]}_{word}" if tag else "",
                )
            )
        return tuple(controls)

    @cached_property
    def setpoints(self) -> dict[str, float]:
        """The limits of level and pressure at which links are switched."""
        return {one.name: one.limit for one in self.controls if one.name}

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """What attackers can act on."""
        return Vocabulary(
            sensors=(*self.levels, *self.pressure_tags, *self.flow_tags),
            actuators=self.status_tags,
            setpoints=self.setpoints,
            states=(0.0, 1.0),
            hint="0 (off or closed) or 1 (on or open)",
            step_s=STEP_S,
        )

    def instruments(self, largest_flow: Floats) -> tuple[Floats, Floats]:
        """Return noise and rounding of each tag; both are 0 for a status."""
        n_flows = len(self.flow_tags)
        parts = (
            (len(self.levels), _LEVEL_NOISE, _LEVEL_QUANTUM),
            (len(self.pressure_tags), _PRESSURE_NOISE, _PRESSURE_QUANTUM),
            (n_flows, 0.0, _FLOW_QUANTUM),
            (n_flows, 0.0, 0.0),
        )
        noise, quantum = (
            np.concatenate([np.full(part[0], part[column]) for part in parts])
            for column in (1, 2)
        )
        flows = slice(-2 * n_flows, len(noise) - n_flows)
        noise[flows] = np.maximum(_FLOW_NOISE * largest_flow, _FLOW_QUANTUM)
        return noise, quantum

    def yardstick(self, noise: Floats, quantum: Floats) -> Yardstick:
        """Return how effects on this network are measured."""
        unit = sensor_units(noise, quantum)
        return Yardstick(
            tags=tuple(tag.name for tag in self.tags),
            unit=unit,
            noise=np.where(noise > 0, CLEAR * unit, 0.5),
            step_s=STEP_S,
            block_s=3600,
            shortest_cap_s=43_200,
        )


def read_network(network: str | Path) -> Network:
    """Read a network: one that `wntr` ships, by name, or an EPANET file.

    Raises
    ------
    MissingExtraError
        If `wntr` is not installed.
    FileError
        If there is no such file, or it holds no network with a tank and a pump.
    """
    with warnings.catch_warnings():
        # `wntr` warns of curves without use; its own imports warn of theirs.
        warnings.simplefilter("ignore")
        # It changes how numpy prints, for everybody.
        with np.printoptions():
            wntr = require("wntr", extra="water", caller="Testbed network")
        path = Path(network)
        if str(network) in SHIPPED:
            library = Path(str(wntr.__file__)).parent / "library" / "networks"
            path = library / f"{network}.inp"
        elif not path.is_file():
            raise FileError(
                f"{network}: there is no such file: give an EPANET file (.inp), or one "
                f"of {', '.join(SHIPPED)}."
            )
        read_document(path)
        advice = "open it in EPANET and save it again"
        # Its reader raises whatever a damaged line leads to.
        with damage(
            f"{path}: is no EPANET file that can be run", Exception, advice=advice
        ):
            model = wntr.network.WaterNetworkModel(str(path))
            hydraulics = Hydraulics(wntr, model, STEP_S, path)
            if not hydraulics.tanks or PUMP not in hydraulics.link_types:
                raise FileError(
                    f"{path}: has no tank or no pump: choose another network."
                )
            return _network(path.stem, model, hydraulics, wntr)


def _network(
    name: str, model: Any, hydraulics: Hydraulics, wntr: ModuleType
) -> Network:
    """Return the network: which links are commanded, and where pressure is read."""
    controlled = {int(found["link"]) for found in hydraulics.controls}
    actuators = tuple(
        k
        for k, kind in enumerate(hydraulics.link_types)
        if kind == PUMP or kind >= FIRST_VALVE or k in controlled
    )
    # What consumers want over one period of all patterns, litres a second.
    step_s = int(model.options.time.pattern_timestep)
    lengths = [len(pattern.multipliers) for _, pattern in model.patterns()] or [1]
    n_times = max(round(DAY_S / step_s), *lengths)
    wanted = wntr.metrics.expected_demand(model, 0, (n_times - 1) * step_s, step_s)
    columns = [hydraulics.nodes[k] for k in hydraulics.junctions]
    demands = 1000.0 * wanted[columns].to_numpy()
    ends = [
        hydraulics.nodes.index(node)
        for link in (model.get_link(hydraulics.links[k]) for k in actuators)
        for node in (link.start_node_name, link.end_node_name)
    ]
    read = [int(found["node"]) for found in hydraulics.controls]
    largest = np.argsort(-demands.mean(axis=0), kind="stable")[:_CONSUMERS_READ]
    consumers = [hydraulics.junctions[k] for k in largest]
    junctions = set(hydraulics.junctions)
    pressures = dict.fromkeys(k for k in [*read, *ends, *consumers] if k in junctions)
    nodes, links = _labels(hydraulics.nodes), _labels(hydraulics.links)
    return Network(
        name=name,
        hydraulics=hydraulics,
        actuators=actuators,
        pressures=tuple(pressures),
        demands=demands,
        demand_step_s=step_s,
        timer_period_s=max(round(model.options.time.duration / DAY_S), 1) * DAY_S,
        levels=tuple(f"L_{nodes[k]}" for k in hydraulics.tanks),
        pressure_tags=tuple(f"P_{nodes[k]}" for k in pressures),
        flow_tags=tuple(f"F_{links[k]}" for k in actuators),
        status_tags=tuple(f"S_{links[k]}" for k in actuators),
    )


def _labels(names: Iterable[str]) -> list[str]:
    """Return each name as a part of a tag: letters, digits, _ and -, each once."""
    labels: dict[str, None] = {}
    for name in names:
        label = re.sub(r"[^0-9A-Za-z_-]+", "_", name).strip("_") or "x"
        while label in labels:
            label += "_"
        labels[label] = None
    return list(labels)


def due(control: Control, readings: Mapping[str, float], clock_s: int) -> bool:
    """Return whether a control acts now, on what its sensor reads."""
    if control.when is When.BELOW:
        return readings[control.tag] <= control.limit
    if control.when is When.ABOVE:
        return readings[control.tag] >= control.limit
    return clock_s <= control.limit < clock_s + STEP_S
