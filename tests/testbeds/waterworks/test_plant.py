"""The plant's facts: SWaT's tags in SWaT's order."""

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sightline.testbeds.waterworks import SETPOINTS, TAGS, plant

SWAT = """
FIT101 LIT101 MV101 P101 P102 AIT201 AIT202 AIT203 FIT201 MV201 P201 P202 P203 P204
P205 P206 DPIT301 FIT301 LIT301 MV301 MV302 MV303 MV304 P301 P302 AIT401 AIT402 FIT401
LIT401 P401 P402 P403 P404 UV401 AIT501 AIT502 AIT503 AIT504 FIT501 FIT502 FIT503 FIT504
P501 P502 PIT501 PIT502 PIT503 FIT601 P601 P602 P603
""".split()


def test_tags_are_those_of_swat_in_its_order():
    assert [tag.name for tag in TAGS] == SWAT
    roles = [tag.role for tag in TAGS]
    assert (roles.count("sensor"), roles.count("actuator")) == (25, 26)
    assert {tag.stage for tag in TAGS} == {"P1", "P2", "P3", "P4", "P5", "P6"}


def test_every_tag_and_set_point_has_its_own_constant():
    assert [getattr(plant, name) for name in SWAT] == list(range(51))
    names = [name.replace(".", "_") for name in SETPOINTS]
    assert [getattr(plant, name) for name in names] == list(range(len(SETPOINTS)))


@pytest.mark.parametrize("tank", ["LIT101", "LIT301", "LIT401"])
def test_levels_of_a_tank_are_in_order(tank):
    limits = [SETPOINTS[f"{tank}.{limit}"] for limit in ("LL", "L", "H", "HH")]
    assert sorted(limits) == limits
    assert limits[-1] < plant.HEIGHT_MM


def test_one_unit_is_noise_and_rounding_for_sensors_and_1_for_actuators():
    units = plant.UNIT
    assert units[plant.P101] == 1.0
    assert units[plant.LIT101] == pytest.approx(np.hypot(0.6, 0.1 / np.sqrt(12)))


def test_the_first_state_follows_from_the_seed():
    one, same, other = (plant.first_state(seed, 0) for seed in (1, 1, 2))
    assert one.tobytes() == same.tobytes() != other.tobytes()


def test_compiled_code_is_cached_for_the_present_sources_only():
    folder = Path(plant.__file__).parents[1]
    compiled = {
        path.relative_to(folder).as_posix()
        for path in folder.glob("waterworks/*.py")
        if "@njit" in path.read_text(encoding="utf-8")
    }
    assert compiled <= set(plant.SOURCES)
    digest = hashlib.sha256()
    for name in plant.SOURCES:
        digest.update((folder / name).read_bytes())
    assert plant.STATE_TYPE.names[0] == f"sources_{digest.hexdigest()[:16]}"


def test_importing_it_loads_nothing_heavy():
    code = (
        "import sys, sightline.testbeds.waterworks; "
        "print([m for m in ('numba', 'polars', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
