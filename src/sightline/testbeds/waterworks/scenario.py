"""The attacks that ship with waterworks, and SWaT's classes of attacks."""

from pathlib import Path

from sightline.testbeds.twin.scenario import (
    PlannedAttack,
    Scenario,
    shipped_scenario,
)
from sightline.testbeds.twin.scenario import read_scenario as read_any
from sightline.testbeds.waterworks.plant import VOCABULARY

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
