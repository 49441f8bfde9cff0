"""One step of a water network by EPANET's toolkit, from a state that the caller keeps.

EPANET remembers nothing between steps: levels of tanks, states of links, demands and
the clock are set, flows begin from EPANET's own first guess, and the step is solved. So
the same state gives the same future, bit for bit, and a plant and its twin can share
one EPANET project.
"""

import ctypes
import itertools
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from sightline.data.arrays import Floats
from sightline.errors import FileError
from sightline.files import brief
from sightline.text import legible

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


@dataclass(frozen=True, kw_only=True, eq=False)
class Solved:
    """One solved step: litres a second, metres and cubic metres.

    Parameters
    ----------
    level, volume : array of shape (n_tanks,)
        Of each tank, at the end of the step.
    pressure : array of shape (n_nodes,)
        At each asked node, m; nan at the others.
    flow, status : array of shape (n_links,)
        Of each asked link; nan at the others. The status is 0 closed, 1 open.
    supplied_m3, delivered_m3, stored_m3 : float
        Water from reservoirs, water to consumers, and water into tanks in the step.
    """

    level: Floats
    volume: Floats
    pressure: Floats
    flow: Floats
    status: Floats
    supplied_m3: float
    delivered_m3: float
    stored_m3: float


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
        weakref.finalize(self, _close, engine, folder)
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
        self._library, self._project = engine.ENlib, engine._project
        self._number, self._seconds = ctypes.c_double(), ctypes.c_long()
        self.step_s = step_s
        self.nodes, self.links = (
            tuple(model.node_name_list),
            tuple(model.link_name_list),
        )
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
        library, project = self._library, self._project
        count = ctypes.c_int()
        for k in self.junctions:
            node = self._node[k]
            self._check(library.EN_getnumdemands(project, node, ctypes.byref(count)))
            for category in range(1, count.value + 1):
                zero = ctypes.c_double(0.0)
                self._check(library.EN_setbasedemand(project, node, category, zero))
                self._check(library.EN_setdemandpattern(project, node, category, 0))
        one = ctypes.c_double(1.0)
        self._check(library.EN_setoption(project, _DEMAND_MULTIPLIER, one))
        limits = (_NO_PRESSURE_M, _FULL_PRESSURE_M, _EXPONENT)
        self._check(
            library.EN_setdemandmodel(
                project, _PRESSURE_DRIVEN, *(ctypes.c_double(x) for x in limits)
            )
        )
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
        number, project = self._link[link], self._project
        if status and setting is not None:
            code, value = _INITIAL_SETTING, setting
        else:
            code, value = _INITIAL_STATUS, status
        self._check(
            self._library.EN_setlinkvalue(project, number, code, ctypes.c_double(value))
        )

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
        self._check(library.EN_initH(project, _FROM_SCRATCH))
        moved, done = np.zeros(3), 0
        for _ in range(_MOST_CUTS):
            self._check(library.EN_runH(project, ctypes.byref(self._seconds)))
            flows = self._water()
            self._check(library.EN_nextH(project, ctypes.byref(self._seconds)))
            moved += flows * self._seconds.value / 1000.0
            done += self._seconds.value
            if done == self.step_s:
                return self._solved(asked_nodes, asked_links, moved)
            if not self._seconds.value:  # EPANET gives up
                break
        raise FileError(
            f"{self.path}: EPANET does not finish a step {clock_s / 3600:.1f} hours "
            "after the start: write 'Unbalanced Continue 10' in [OPTIONS], or check "
            "its times, pumps and tanks."
        )

    def _water(self) -> Floats:
        """Return flow from reservoirs, to consumers and into tanks, litres a second."""
        parts = (self.reservoirs, self.junctions, self.tanks)
        sums = [sum(self._of_node(k, _DEMAND) for k in part) for part in parts]
        return np.array([-sums[0], sums[1], sums[2]])

    def _solved(
        self, asked_nodes: Sequence[int], asked_links: Sequence[int], moved: Floats
    ) -> Solved:
        """Return what EPANET knows at the end of a step."""
        pressure = np.full(len(self.nodes), np.nan)
        flow, status = np.full((2, len(self.links)), np.nan)
        for k in asked_nodes:
            pressure[k] = self._of_node(k, _PRESSURE)
        for k in asked_links:
            flow[k], status[k] = self._of_link(k, _FLOW), self._of_link(k, _STATUS)
        # The pressure at a tank's bottom is its level.
        level = np.array([self._of_node(k, _PRESSURE) for k in self.tanks])
        volume = np.array([self._of_node(k, _VOLUME) for k in self.tanks])
        asked = pressure[list(asked_nodes)], flow[list(asked_links)]
        # Not a number is not below the bound either.
        if not np.abs(np.concatenate([level, volume, moved, *asked])).max() < _MOST:
            raise self._refused(f"levels, pressures or flows beyond {_MOST:.0e}")
        return Solved(
            level=level,
            volume=volume,
            pressure=pressure,
            flow=flow,
            status=status,
            supplied_m3=float(moved[0]),
            delivered_m3=float(moved[1]),
            stored_m3=float(moved[2]),
        )

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

    def _check(self, code: int) -> None:
        """Raise `FileError` for an error of EPANET; its warnings are no errors."""
        if code >= _FIRST_ERROR:
            raise self._refused(f"error {code}")

    def _refused(self, reason: str) -> FileError:
        """Return the error to raise for what EPANET refuses."""
        return FileError(
            f"{self.path}: EPANET cannot run it ({reason}): correct it in EPANET and "
            "save it again."
        )


def _close(engine: Any, folder: str) -> None:
    """Close EPANET and delete its files."""
    if engine.isOpen():
        engine.ENclose()
    shutil.rmtree(folder, ignore_errors=True)
