"""The Tennessee Eastman process: reproducible, balanced, and known by its twin."""

from pathlib import Path

import numpy as np
import pytest

tep_studio = pytest.importorskip(
    "tep_studio", reason="needs tep-studio: pip install 'sightline-cps[tep]'"
)

from sightline import open_testbed  # noqa: E402
from sightline.errors import FileError, StreamError  # noqa: E402
from sightline.testbeds import tep as p  # noqa: E402
from sightline.testbeds.tep import (  # noqa: E402
    SETPOINTS,
    Action,
    PlannedAttack,
    Scenario,
    default_scenario,
    read_scenario,
    simulate,
    write_simulation,
)

START, LENGTH = 1800, 1080
FIRST = START // p.STEP_S
LAST = (START + LENGTH) // p.STEP_S
# Measurements that a controller reads: forging another one moves nothing else.
READ_BY_CONTROL = tuple(
    f"XMEAS{k}" for k in (1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 14, 15, 17, 23, 25)
)
COLUMN = {name: column for column, name in enumerate(p.FACTS.yardstick.tags)}


def attacked(*actions, start=START, duration=LENGTH):
    attack = PlannedAttack(id="1", start_s=start, duration_s=duration, actions=actions)
    return simulate(
        days_train=0.02, days_test=0.05, scenario=Scenario(attacks=(attack,))
    )


def during(values, tag):
    return values[FIRST:LAST, COLUMN[tag]].astype(np.float64)


@pytest.fixture(scope="module")
def biased():
    return attacked(Action(tag="XMEAS9", kind="bias", value=0.5))


def test_tags_units_and_noise_are_those_of_the_model():
    from tep_studio.simulation.schema import TEP_SCHEMA

    assert len(p.TAGS) == 53
    for tag, variable in zip(p.TAGS, TEP_SCHEMA.measurements, strict=False):
        assert variable.unit.replace(" ", "").startswith(tag.unit)
    from tep_studio.control.registry import RICKER_MODE1

    read = {TEP_SCHEMA.index("measurements", n) for n in RICKER_MODE1.measurement_pvs()}
    # Without feedback from %G, with the two analysers of A and C.
    read = read - {39} | {22, 24}
    assert {f"XMEAS{k + 1}" for k in read} == set(READ_BY_CONTROL)


def test_set_points_are_those_of_the_controllers():
    from sightline.testbeds.tep import warmed_up

    used = warmed_up(1)._controllers.setpoints
    for name, field in p.SETPOINT_FIELDS.items():
        assert used[field] == pytest.approx(SETPOINTS[name], rel=1e-4)


def test_plant_and_controllers_are_those_of_tep_studio_bit_for_bit():
    from tep_studio.control import registry
    from tep_studio.control.controller import RickerMultiLoopController
    from tep_studio.simulation import native, schema
    from tep_studio.simulation.core import TennesseeEastmanProcess

    from sightline.testbeds.tep import MODEL_FLAGS, Controllers, Model

    theirs = TennesseeEastmanProcess(ms_flag=MODEL_FLAGS)
    reading, _ = theirs.reset(seed=12345677.0)
    controller = RickerMultiLoopController(enable_overrides=True)
    controller.reset(reading, time=0.0)
    ours = Model(native)
    ours.reset(12345677.0, MODEL_FLAGS)
    controllers = Controllers(registry, schema, ours.measured)
    disturbed = np.zeros(28)
    for step in range(2500):
        if step == 800:
            disturbed[[5, 7, 12]] = 1.0
        if step == 1600:
            ours, controllers = ours.copy(), controllers.copy()
        expected, _ = controller.compute_action(reading, time=theirs.time)
        result = theirs.advance(
            expected, control_interval=p.CONTROL_H, disturbances=disturbed
        )
        reading = result.measurements
        commands = controllers.commands(ours.measured.copy(), ours.time_h)
        ours.advance(commands, disturbed, p.CONTROL_H)
        np.testing.assert_array_equal(commands, expected)
        np.testing.assert_array_equal(ours.measured, reading)


def test_noise_of_readings_is_the_unit_of_effects():
    made = simulate(days_train=0.2, days_test=0.01, scenario=Scenario())
    differences = np.diff(made.train.values.astype(float), axis=0)
    # Flows that nothing but noise moves from row to row; controllers move the others.
    for tag in ("XMEAS2", "XMEAS3", "XMEAS5", "XMEAS6", "XMEAS12", "XMEAS15"):
        spread = differences[:, COLUMN[tag]].std() / np.sqrt(2)
        assert spread == pytest.approx(p.FACTS.yardstick.unit[COLUMN[tag]], rel=0.15)


def test_same_seed_same_bytes_and_another_seed_others(tmp_path, biased):
    again = attacked(Action(tag="XMEAS9", kind="bias", value=0.5))
    folders = [
        write_simulation(made, tmp_path / name)
        for made, name in ((biased, "a"), (again, "b"))
    ]
    for path in folders[0].iterdir():
        assert path.read_bytes() == (folders[1] / path.name).read_bytes(), path.name
    other = simulate(days_train=0.02, days_test=0.05, seed=2, scenario=Scenario())
    assert not np.array_equal(other.train.values, biased.train.values)


def test_up_to_the_attack_test_equals_the_clean_run_bit_for_bit(biased):
    clean = biased.clean_test().values
    assert clean[:FIRST].tobytes() == biased.test.values[:FIRST].tobytes()
    rows = slice(FIRST, LAST)
    distance = np.abs(biased.test.values[rows].astype(float) - clean[rows])
    largest = (distance / p.FACTS.yardstick.unit).max(axis=0)
    np.testing.assert_array_equal(list(biased.truth[0].effect.values()), largest)


def test_a_forged_sensor_misleads_the_controller_that_reads_it(biased):
    added = during(biased.test.values, "XMEAS9") - during(biased.true_values, "XMEAS9")
    np.testing.assert_allclose(added, 0.5, atol=1e-4)
    assert biased.truth[0].moves_others
    # The controller cools until the forged temperature is right again.
    assert during(biased.true_values, "XMEAS9")[-5:].mean() < 120.2
    differs = biased.true_values != biased.test.values
    differs[FIRST:LAST, COLUMN["XMEAS9"]] = False
    assert not differs.any()


def test_a_sensor_that_no_controller_reads_moves_alone():
    made = attacked(Action(tag="XMEAS20", kind="gain", value=1.1))
    assert made.truth[0].moved_tags == ("XMEAS20",)
    np.testing.assert_allclose(
        during(made.test.values, "XMEAS20"),
        1.1 * during(made.true_values, "XMEAS20"),
        rtol=1e-5,
    )


def test_a_replay_equals_the_earlier_stretch():
    made = attacked(Action(tag="XMEAS13", kind="replay", value=1440))
    back = 1440 // p.STEP_S
    column = COLUMN["XMEAS13"]
    earlier = made.test.values[FIRST - back : LAST - back, column]
    np.testing.assert_array_equal(made.test.values[FIRST:LAST, column], earlier)


@pytest.mark.parametrize(
    "action",
    [
        Action(tag="XMV5", kind="set", value=22.21),
        Action(tag="XMV12", kind="set", value=50.0),
        Action(tag="XMEAS7.HH", kind="setpoint", value=2850.0),
    ],
)
def test_asking_for_what_is_the_case_moves_nothing(action):
    truth = attacked(action).truth[0]
    assert (truth.moves, truth.blocked, truth.recovery_s) == (False, False, 0)


def test_a_disturbance_leaves_the_noise_as_it_is():
    made = attacked(Action(tag="IDV4", kind="disturbance"))
    truth = made.truth[0]
    assert truth.targets == ()
    assert truth.mean_distance["XMV10"] > 1
    # The feeds of the first row, which it cannot have reached, have the same noise.
    first = made.test.values[FIRST], made.clean_test().values[FIRST]
    np.testing.assert_array_equal(first[0][:4], first[1][:4])
    assert first[0][20] != first[1][20]


def test_a_shutdown_is_refused_in_one_sentence():
    held = [Action(tag="XMV10", kind="set", value=0.0)]
    with pytest.raises(StreamError, match="attack 1 shuts the plant down"):
        attacked(*held, duration=2160)


def test_the_inert_component_is_balanced():
    """What comes in with the feeds leaves by the purge or stays: B does not react."""
    from tep_studio.control.controller import RickerMultiLoopController
    from tep_studio.simulation.core import TennesseeEastmanProcess

    process = TennesseeEastmanProcess(ms_flag=0x1C)  # no noise, all monitors
    reading, _ = process.reset()
    controller = RickerMultiLoopController()
    controller.reset(reading, time=0.0)
    lbmol_a_kscm, lbmol_a_kg_of_d = 35.3145 / 0.359, 1 / (32.0 * 0.454)
    stays, came, left = 0.0, 0.0, 0.0
    for _ in range(2000):
        commands, _ = controller.compute_action(reading, time=process.time)
        before = process.state[[1, 10, 19, 28]].sum()
        result = process.advance(commands, control_interval=p.CONTROL_H)
        reading = result.measurements
        # Shares of B in feed D, A, A and C, and in the purge; they are fractions.
        d, a, ac, purge = result.concentration_monitors.reshape(12, 8)[[0, 2, 3, 8], 1]
        gas = a * reading[0] + ac * reading[3]
        rate = gas * lbmol_a_kscm + d * reading[1] * lbmol_a_kg_of_d
        came += rate * p.CONTROL_H
        left += purge * reading[9] * lbmol_a_kscm * p.CONTROL_H
        stays += process.state[[1, 10, 19, 28]].sum() - before
    # 1 % of what leaves does so with the product.
    assert left > 4.0
    assert stays == pytest.approx(came - left, abs=0.02 * left)


def test_the_default_has_the_kinds_that_are_promised():
    attacks = default_scenario().attacks
    kinds = {str(action.kind) for attack in attacks for action in attack.actions}
    assert kinds >= {"set", "constant", "ramp", "replay", "freeze", "bias", "gain"}
    assert len(attacks) >= 30
    published = [a for a in attacks if a.note.startswith("published")]
    nothing = [a for a in attacks if a.note.endswith("nothing moves")]
    assert (len(attacks), len(published), len(nothing)) == (42, 9, 7)
    forged = {tag for attack in attacks for tag in attack.forged_tags}
    assert forged & set(READ_BY_CONTROL)
    assert forged - set(READ_BY_CONTROL)


def test_the_page_lists_the_default_attacks():
    page = (Path(__file__).parents[3] / "docs" / "tep.md").read_text("utf-8")
    for attack in default_scenario().attacks:
        assert f"| {attack.duration_s} | {attack.actions[0].tag} " in page
        assert f" | {attack.note} |" in page


def test_a_table_names_the_line_that_does_not_fit(tmp_path):
    path = tmp_path / "s.csv"
    path.write_text("id,start_s,duration_s,tag,kind\n1,3600,350,XMEAS1,freeze\n")
    with pytest.raises(FileError, match=r"line 2: .* multiple of 36 s"):
        read_scenario(path)


def test_it_opens_like_any_testbed():
    testbed = open_testbed("tep", days_train=0.02, days_test=0.02, every=2)
    assert testbed.revision == "tep-seed1"
    assert testbed.train.step_s == 72.0
    assert len(testbed.train.channels) == 53


@pytest.mark.slow
def test_the_default_attacks_do_not_shut_the_plant_down():
    made = simulate(days_train=0.1, seed=3)
    assert len(made.truth) == 42
    still = {truth.id for truth in made.truth if not truth.moves}
    attacks = made.scenario.attacks
    assert still >= {a.id for a in attacks if a.note.endswith("nothing moves")}
    # A random disturbance may begin after the attack.
    assert len(still) <= 9
