"""What simulated plants share: forging, units, recovery; missing extras."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.errors import StreamError
from sightline.testbeds import simulation_of
from sightline.testbeds.twin.scenario import (
    Action,
    ActionKind,
    PlannedAttack,
    Scenario,
    Vocabulary,
    forged_value,
)
from sightline.testbeds.twin.simulation import NoiseSource, sensor_units

WORDS = Vocabulary(
    sensors=("level",),
    actuators=("valve",),
    setpoints={"level.H": 3.0},
    disturbances=("leak",),
    states=(0.0, 100.0),
    whole=False,
    hint="0 to 100",
    step_s=60,
)
numbers = st.floats(-1e3, 1e3)


@given(reading=numbers, value=numbers, before=numbers, replayed=numbers)
def test_what_a_forged_sensor_reads(reading, value, before, replayed):
    def forged(kind, rate=0.0, elapsed=10.0, lowest=-np.inf):
        code = ActionKind(kind).code
        return forged_value(
            code, reading, value, rate, elapsed, before, replayed, lowest
        )

    assert forged("constant") == value
    assert forged("freeze") == before
    assert forged("replay") == replayed
    assert forged("gain") == reading * value
    assert forged("bias", rate=0.5) == reading + value + 5.0
    assert forged("ramp", rate=0.5) == min(before + 5.0, value)
    assert forged("ramp", rate=-0.5) == max(before - 5.0, value)
    assert forged("gain", lowest=0.0) == max(reading * value, 0.0)


def test_codes_of_the_kinds_are_those_that_forging_reads():
    from sightline.testbeds.twin import scenario

    for kind in ActionKind:
        assert getattr(scenario, kind.name) == kind.code


def attack(*actions, start=600, duration=120):
    return PlannedAttack(id="a", start_s=start, duration_s=duration, actions=actions)


@pytest.mark.parametrize(
    ("planned", "words"),
    [
        (attack(Action(tag="x", kind="freeze")), "'x' is no sensor"),
        (attack(Action(tag="x", kind="disturbance")), "use one of leak"),
        (attack(Action(tag="valve", kind="set", value=101)), "use 0 to 100"),
        (attack(Action(tag="level", kind="freeze"), start=610), "multiple of 60 s"),
        (attack(Action(tag="level", kind="freeze"), duration=90), "multiple of 60 s"),
        (attack(Action(tag="level", kind="replay", value=150)), "replay of level"),
    ],
)
def test_an_attack_that_does_not_fit_the_plant_is_refused(planned, words):
    with pytest.raises(StreamError, match=words):
        WORDS.check_attack(planned)
    with pytest.raises(StreamError, match=words):
        WORDS.check_scenario(Scenario(attacks=(planned,)), 3600)


def test_a_disturbance_has_a_strength_and_no_target():
    leak = attack(Action(tag="leak", kind="disturbance", value=0.5))
    WORDS.check_attack(leak)
    assert (leak.targets, leak.forged_tags) == ((), ())
    with pytest.raises(StreamError, match="share of full strength"):
        Action(tag="leak", kind="disturbance", value=1.5)


def test_the_unit_of_a_sensor_is_the_spread_of_its_readings():
    draws = np.random.default_rng(0).normal(7.0, 0.3, 200_000)
    spread = (np.round(draws / 0.5) * 0.5).std()
    units = sensor_units(np.array([0.3, 0.0]), np.array([0.5, 0.0]))
    assert units[0] == pytest.approx(spread, rel=0.02)
    assert units[1] == 1.0


@given(step=st.integers(0, 20_000), seed=st.integers(0, 5))
def test_noise_depends_on_the_seed_and_the_step_alone(step, seed):
    whole, part = NoiseSource(seed, 3), NoiseSource(seed, 3)
    part.upto(0, 1)
    np.testing.assert_array_equal(whole.upto(step, 5)[:1], part.upto(step, 1))


@pytest.mark.parametrize("name", ["waterworks", "tep", "network"])
def test_a_plant_without_such_an_option_says_so(name):
    with pytest.raises(StreamError, match=f"no option 'colour' for {name}"):
        simulation_of(name, {"colour": "blue"})


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [("tep", "tep_studio", "tep"), ("network", "wntr", "water")],
)
def test_without_its_extra_one_sentence_says_how_to_install_it(name, module, extra):
    code = (
        f"import sys; sys.modules[{module!r}] = None\n"
        "from sightline import open_testbed, list_testbeds\n"
        "list_testbeds()\n"
        "from sightline.errors import MissingExtraError\n"
        "try:\n"
        f"    open_testbed({name!r}, days_train=0.1, days_test=0.1)\n"
        "except MissingExtraError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.count("\n") == 1
    assert f"pip install 'sightline-cps[{extra}]'" in done.stdout


@pytest.mark.parametrize("name", ["tep", "network"])
def test_importing_a_plant_loads_nothing_heavy(name):
    code = (
        f"import sys, sightline.testbeds.{name}; "
        "heavy = ('numba', 'polars', 'matplotlib', 'wntr', 'tep_studio', 'scipy')\n"
        "print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
