"""A network read from an EPANET file: its tags, instruments, controls and demands.

Names follow BATADAL: L_ is the level of a tank, F_ and S_ are flow and status of a
pump, valve or controlled pipe, P_ is the pressure at a junction.

`Hydraulics` solves one step by EPANET's toolkit. EPANET remembers nothing between
steps: levels of tanks, states of links, demands and the clock are set, flows begin from
EPANET's own first guess, and the step is solved. So the same state gives the same
future, bit for bit, and a plant and its twin can share one EPANET project.
"""

import ctypes
import itertools
import re
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from sightline.data.arrays import Floats, require
from sightline.data.recording import Role, Tag
from sightline.errors import FileError
from sightline.files import brief, damage, read_document
from sightline.testbeds.twin.scenario import DAY_S, Vocabulary
from sightline.testbeds.twin.simulation import CLEAR, Yardstick, sensor_units
from sightline.text import legible

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

# Codes of EPANET's toolkit (epanet2_enums.h).
_CONTROLS, _RULES = 5, 6
JUNCTION, RESERVOIR, TANK = range(3)
PUMP, FIRST_VALVE = 2, 3
_LEVEL, _DEMAND, _PRESSURE, _VOLUME = 8, 9, 11, 24
_INITIAL_STATUS, _INITIAL_SETTING, _FLOW, _STATUS = 4, 5, 8, 11
_DURATION, _HYDRAULIC_STEP, _PATTERN_START, _REPORT_STEP = 0, 1, 4, 5
_DEMAND_MULTIPLIER, _PRESSURE_DRIVEN = 4, 1
# Reinitialise all flows, save nothing to a file.
_FROM_SCRATCH = 10
_FIRST_ERROR = 100
# Demand is served in full from this pressure in m (20 psi), and less of it below.
_NO_PRESSURE_M, _FULL_PRESSURE_M, _EXPONENT = 0.0, 14.0, 0.5
# A step is cut where a tank runs full or empty; more cuts than this are an error.
_MOST_CUTS = 100
# Metres, litres a second or cubic metres that no network has.
_MOST = 1e12


class Solved(NamedTuple):
    """One solved step: litres a second, metres and cubic metres.

    Parameters
    ----------
    level, volume : array of shape (n_tanks,)
        Of each tank, at the end of the step.
    pressure : array of shape (n_asked_nodes,)
        At each asked node, m.
    flow, status : array of shape (n_asked_links,)
        Of each asked link; the status is 0 closed, 1 open.
    supplied_m3, delivered_m3 : float
        Water from reservoirs, and water to consumers in the step.
    """

    level: Floats
    volume: Floats
    pressure: Floats
    flow: Floats
    status: Floats
    supplied_m3: float
    delivered_m3: float


class Hydraulics:
    """EPANET with one network, its own controls taken out.

    Parameters
    ----------
    wntr : module
        The package, which ships EPANET's library.
    model : WaterNetworkModel
        The network as `wntr` read it. It is written for EPANET in litres a second and
        metres.
    step_s : int
        Seconds a step.
    path : Path
        The network's file, for messages.

    Raises
    ------
    FileError
        If EPANET refuses the network; a later step that it cannot solve raises it too.

    Attributes
    ----------
    nodes, links : tuple of str
        Names; an index below is a place in one of them.
    node_types, link_types : tuple of int
        EPANET's codes.
    controls : tuple of mapping
        The simple controls of the file, which EPANET no longer follows.
    tanks, junctions, reservoirs : list of int
        Indices of nodes.
    """

    def __init__(self, wntr: ModuleType, model: Any, step_s: int, path: Path) -> None:
        self.path = path
        folder = tempfile.mkdtemp(prefix="sightline-network-")
        engine = wntr.epanet.toolkit.ENepanet()
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        source, report, binary = (
            str(Path(folder) / f"network.{ending}") for ending in ("inp", "rpt", "bin")
        )
        wntr.network.write_inpfile(model, source, units="LPS")
        try:
            engine.ENopen(source, report, binary)
        except Exception as error:
            engine.ENclose()
            # The first error that EPANET reports, with its line.
            lines = Path(report).read_text("utf-8", "replace").splitlines()
            errors = [
                legible(f"{line.strip()} {more.strip()}".strip())[:200]
                for line, more in itertools.pairwise(lines)
                if line.strip().startswith("Error ")
            ]
            raise self._refused(errors[0] if errors else brief(error)) from error
        weakref.finalize(self, engine.ENclose)
        self._library, self._project = engine.ENlib, engine._project
        self._number = ctypes.c_double()
        self.step_s = step_s
        self.nodes = tuple(model.node_name_list)
        self.links = tuple(model.link_name_list)
        self._node = [engine.ENgetnodeindex(name) for name in self.nodes]
        self._link = [engine.ENgetlinkindex(name) for name in self.links]
        self.node_types = tuple(engine.ENgetnodetype(k) for k in self._node)
        self.link_types = tuple(engine.ENgetlinktype(k) for k in self._link)
        self.junctions, self.reservoirs, self.tanks = (
            [k for k, found in enumerate(self.node_types) if found == kind]
            for kind in (JUNCTION, RESERVOIR, TANK)
        )
        self.controls = self._take_controls(engine)
        self._prepare(engine)

    def _take_controls(self, engine: Any) -> tuple[dict[str, float], ...]:
        """Return the controls of the file and remove them from EPANET.

        Node and link of each are places in `nodes` and `links`; node is -1 for a time.
        """
        if engine.ENgetcount(_RULES):
            raise FileError(
                f"{self.path}: has rule-based controls ([RULES]), which are not "
                "supported: write them as simple ones ([CONTROLS])."
            )
        controls = []
        for _ in range(engine.ENgetcount(_CONTROLS)):
            found = engine.ENgetcontrol(1)
            engine.ENdeletecontrol(1)
            node, link = found.pop("nodeindex"), found.pop("linkindex")
            found["node"] = self._node.index(node) if node else -1
            found["link"] = self._link.index(link)
            controls.append(found)
        return tuple(controls)

    def _prepare(self, engine: Any) -> None:
        """Make demands plain numbers that depend on pressure, and open the solver."""
        count, number = ctypes.c_int(), ctypes.c_double
        for k in self.junctions:
            node = self._node[k]
            self._call("EN_getnumdemands", node, ctypes.byref(count))
            for category in range(1, count.value + 1):
                self._call("EN_setbasedemand", node, category, number(0.0))
                self._call("EN_setdemandpattern", node, category, 0)
        self._call("EN_setoption", _DEMAND_MULTIPLIER, number(1.0))
        limits = map(number, (_NO_PRESSURE_M, _FULL_PRESSURE_M, _EXPONENT))
        self._call("EN_setdemandmodel", _PRESSURE_DRIVEN, *limits)
        engine.ENsettimeparam(_DURATION, 10 * self.step_s)
        # EPANET also stops where it would report: at the end of every step.
        engine.ENsettimeparam(_REPORT_STEP, self.step_s)
        engine.ENsettimeparam(_HYDRAULIC_STEP, self.step_s)
        engine.ENopenH()

    def first_levels(self) -> Floats:
        """Return the level of each tank that the file begins with."""
        return np.array([self._of_node(k, _LEVEL) for k in self.tanks])

    def first_state(self, link: int) -> tuple[float, float]:
        """Return the status (0 closed, 1 open) and setting that a link begins with."""
        status = self._of_link(link, _INITIAL_STATUS)
        return float(status > 0), self._of_link(link, _INITIAL_SETTING)

    def command(self, link: int, status: float, setting: float | None) -> None:
        """Open or close a link; an open valve or pump with a setting follows it."""
        code, value = _INITIAL_STATUS, status
        if status and setting is not None:
            code, value = _INITIAL_SETTING, setting
        number = ctypes.c_double(value)
        self._call("EN_setlinkvalue", self._link[link], code, number)

    def solve(
        self,
        clock_s: int,
        levels: Floats,
        demands: Floats,
        asked_nodes: Sequence[int],
        asked_links: Sequence[int],
    ) -> Solved:
        """Return one step from a state; links are as they were commanded last.

        Parameters
        ----------
        clock_s : int
            Seconds since midnight of the first day, for patterns of the file.
        levels : array of shape (n_tanks,)
            At the start of the step, m.
        demands : array of shape (n_junctions,)
            What consumers want, litres a second.
        asked_nodes, asked_links : sequence of int
            Whose pressure, and whose flow and status, are returned.
        """
        library, project, number = self._library, self._project, ctypes.c_double
        for k, level in zip(self.tanks, levels.tolist(), strict=True):
            library.EN_setnodevalue(project, self._node[k], _LEVEL, number(level))
        for k, demand in zip(self.junctions, demands.tolist(), strict=True):
            library.EN_setbasedemand(project, self._node[k], 1, number(demand))
        library.EN_settimeparam(project, _PATTERN_START, ctypes.c_long(clock_s))
        self._call("EN_initH", _FROM_SCRATCH)
        # Litres from reservoirs, to consumers and into tanks.
        moved, done = np.zeros(3), 0
        places, seconds = (self.reservoirs, self.junctions, self.tanks), ctypes.c_long()
        for _ in range(_MOST_CUTS):
            self._call("EN_runH", ctypes.byref(seconds))
            sums = [sum(self._of_node(k, _DEMAND) for k in nodes) for nodes in places]
            self._call("EN_nextH", ctypes.byref(seconds))
            flows = np.array([-sums[0], sums[1], sums[2]])
            moved += flows * seconds.value / 1000.0
            done += seconds.value
            if done == self.step_s or not seconds.value:  # done, or EPANET gives up
                break
        if done != self.step_s:
            raise FileError(
                f"{self.path}: EPANET does not finish a step {clock_s / 3600:.1f} "
                "hours after the start: write 'Unbalanced Continue 10' in [OPTIONS], "
                "or check its times, pumps and tanks."
            )
        # The pressure at a tank's bottom is its level.
        level, volume, pressure = (
            np.array([self._of_node(k, code) for k in nodes])
            for nodes, code in (
                (self.tanks, _PRESSURE),
                (self.tanks, _VOLUME),
                (asked_nodes, _PRESSURE),
            )
        )
        flow, status = (
            np.array([self._of_link(k, code) for k in asked_links])
            for code in (_FLOW, _STATUS)
        )
        # Not a number is not below the bound either.
        figures = np.concatenate([level, volume, moved, pressure, flow])
        if not np.abs(figures).max() < _MOST:
            raise self._refused(f"levels, pressures or flows beyond {_MOST:.0e}")
        supplied, delivered, _ = moved.tolist()
        return Solved(level, volume, pressure, flow, status, supplied, delivered)

    def _of_node(self, node: int, code: int) -> float:
        """Return one value of a node."""
        self._library.EN_getnodevalue(
            self._project, self._node[node], code, ctypes.byref(self._number)
        )
        return self._number.value

    def _of_link(self, link: int, code: int) -> float:
        """Return one value of a link."""
        self._library.EN_getlinkvalue(
            self._project, self._link[link], code, ctypes.byref(self._number)
        )
        return self._number.value

    def _call(self, function: str, *arguments: Any) -> None:
        """Call EPANET; `FileError` for its errors, its warnings are no errors."""
        code = getattr(self._library, function)(self._project, *arguments)
        if code >= _FIRST_ERROR:
            raise self._refused(f"error {code}")

    def _refused(self, reason: str) -> FileError:
        """Return the error to raise for what EPANET refuses."""
        return FileError(
            f"{self.path}: EPANET cannot run it ({reason}): correct it in EPANET and "
            "save it again."
        )


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


class Instruments(NamedTuple):
    """Noise and rounding of each tag, of shape (n_tags,); 0 for a status."""

    noise: Floats
    quantum: Floats


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

    def instruments(self, largest_flow: Floats) -> Instruments:
        """Return noise and rounding of each tag, for flows up to the largest."""
        counts = [len(self.levels), len(self.pressure_tags)]
        counts += [len(self.flow_tags), len(self.status_tags)]
        noise = np.repeat([_LEVEL_NOISE, _PRESSURE_NOISE, 0.0, 0.0], counts)
        quantum = np.repeat(
            [_LEVEL_QUANTUM, _PRESSURE_QUANTUM, _FLOW_QUANTUM, 0.0], counts
        )
        of_flows = np.maximum(_FLOW_NOISE * largest_flow, _FLOW_QUANTUM)
        noise[sum(counts[:2]) : sum(counts[:3])] = of_flows
        return Instruments(noise, quantum)

    def yardstick(self, instruments: Instruments) -> Yardstick:
        """Return how effects on this network are measured."""
        unit = sensor_units(*instruments)
        return Yardstick(
            tags=tuple(tag.name for tag in self.tags),
            unit=unit,
            noise=np.where(instruments.noise > 0, CLEAR * unit, 0.5),
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
