"""Water networks: EPANET's own answer, balanced, reproducible, known by the twin."""

from pathlib import Path

import numpy as np
import pytest
from water_accounts import network_water_of

wntr = pytest.importorskip(
    "wntr", reason="needs wntr: pip install 'sightline-cps[water]'"
)

from typer.testing import CliRunner  # noqa: E402

from sightline import open_testbed  # noqa: E402
from sightline.cli.app import app  # noqa: E402
from sightline.errors import FileError  # noqa: E402
from sightline.study.plan import plan_of  # noqa: E402
from sightline.testbeds.network import (  # noqa: E402
    Action,
    PlannedAttack,
    Scenario,
    default_scenario,
    nominal_day,
    read_scenario,
    simulate,
    write_simulation,
)
from sightline.testbeds.network.plant import STEP_S, read_network  # noqa: E402

C_TOWN = Path(__file__).parents[4] / "shared" / "data" / "networks" / "CTOWN.INP"
START, LENGTH = 36_000, 14_400
DAYS = ("--days-train", "0.2", "--days-test", "2")
FIRST, LAST = START // STEP_S, (START + LENGTH) // STEP_S


def attacked(*actions, start=START, duration=LENGTH, days_test=1.0):
    attack = PlannedAttack(id="1", start_s=start, duration_s=duration, actions=actions)
    return simulate(
        days_train=1, days_test=days_test, scenario=Scenario(attacks=(attack,))
    )


def column(made, tag):
    return made.test.channels.index(tag)


def during(made, tag, values=None):
    values = made.test.values if values is None else values
    return values[FIRST:LAST, column(made, tag)].astype(np.float64)


@pytest.fixture(scope="module")
def net3():
    return read_network("Net3")


@pytest.fixture(scope="module")
def low_level():
    return attacked(Action(tag="L_1", kind="constant", value=4.9))


def test_a_day_without_noise_is_what_epanet_itself_finds(net3, tmp_path):
    """Levels and flows of EPANET's own run, controls and patterns included."""
    model = wntr.network.WaterNetworkModel("Net3")
    times = model.options.time
    times.duration, times.hydraulic_timestep = 3 * 86_400, STEP_S
    times.report_timestep, times.pattern_timestep = STEP_S, 3600
    model.options.hydraulic.demand_model = "PDA"
    model.options.hydraulic.required_pressure = 14.0
    model.options.hydraulic.minimum_pressure = 0.0
    model.options.hydraulic.pressure_exponent = 0.5
    simulator = wntr.sim.EpanetSimulator(model)
    found = simulator.run_sim(file_prefix=str(tmp_path / "net3"))
    ours = nominal_day(net3)
    names = [tag.name for tag in net3.tags]
    rows = slice(2 * 288 + 1, 3 * 288 + 1)
    for tank in ("1", "2", "3"):
        theirs = found.node["pressure"][tank].to_numpy()[rows]
        mine = ours[:, names.index(f"L_{tank}")]
        # Our controllers act up to one step after EPANET's.
        assert np.abs(mine - theirs).mean() < 0.12
        assert np.corrcoef(mine, theirs)[0, 1] > 0.95
    flow = 1000.0 * found.link["flowrate"]["10"].to_numpy()[2 * 288 : 3 * 288]
    assert np.abs(ours[:, names.index("F_10")] - flow).mean() < 2.0


def test_water_is_neither_made_nor_lost(low_level):
    supplied, error = network_water_of(low_level)
    assert supplied > 10_000
    # EPANET fills a tank to the second.
    assert abs(error) < 1e-5 * supplied


def test_same_seed_same_bytes_and_another_seed_others(tmp_path, low_level):
    again = attacked(Action(tag="L_1", kind="constant", value=4.9))
    folders = [
        write_simulation(made, tmp_path / name)
        for made, name in ((low_level, "a"), (again, "b"))
    ]
    for path in folders[0].iterdir():
        assert path.read_bytes() == (folders[1] / path.name).read_bytes(), path.name
    other = simulate(days_train=1, days_test=1, seed=2, scenario=Scenario())
    assert not np.array_equal(other.train.values, low_level.train.values)


def test_up_to_the_attack_test_equals_the_clean_run_bit_for_bit(low_level):
    clean = low_level.clean_test().values
    assert clean[:FIRST].tobytes() == low_level.test.values[:FIRST].tobytes()
    peace = simulate(days_train=1, days_test=1, scenario=Scenario())
    assert peace.test.values.tobytes() == clean.tobytes()


def test_a_forged_level_misleads_the_controller_that_reads_it(low_level):
    assert set(during(low_level, "L_1")) == {np.float64(np.float32(4.9))}
    assert set(during(low_level, "S_335")[1:]) == {1.0}
    assert low_level.truth[0].moves_others
    assert during(low_level, "L_1", low_level.true_values)[-1] > 6.2
    differs = low_level.true_values != low_level.test.values
    differs[FIRST:LAST, column(low_level, "L_1")] = False
    assert not differs.any()


def test_a_sensor_that_no_control_reads_moves_alone():
    made = attacked(Action(tag="P_203", kind="bias", value=2.0))
    assert made.truth[0].moved_tags == ("P_203",)
    added = during(made, "P_203") - during(made, "P_203", made.true_values)
    np.testing.assert_allclose(added, 2.0, atol=1e-4)


def test_a_held_pump_is_where_it_is_held_and_comes_back():
    made = attacked(Action(tag="S_10", kind="set", value=0))
    assert set(during(made, "S_10")) == {0.0}
    assert np.abs(during(made, "F_10")).max() < 6
    assert made.test.values[LAST, column(made, "S_10")] == 1.0


def test_a_raised_limit_switches_earlier(net3):
    limit = net3.setpoints["L_1.335_ON"]
    made = attacked(
        Action(tag="L_1.335_ON", kind="setpoint", value=limit + 3.0), start=3600
    )
    assert made.truth[0].targets == ("L_1",)
    assert made.test.values[3600 // STEP_S + 1, column(made, "S_335")] == 1.0


def test_the_usual_command_moves_nothing():
    made = attacked(Action(tag="S_10", kind="set", value=1), duration=7200)
    assert (made.truth[0].moves, made.truth[0].recovery_s) == (False, 0)


def test_attacks_are_planned_for_the_network_alone():
    attacks = default_scenario().attacks
    assert len(attacks) == 36
    kinds = {str(action.kind) for attack in attacks for action in attack.actions}
    assert kinds == {
        *("set", "setpoint", "constant", "ramp", "replay", "freeze", "bias", "gain")
    }
    week = default_scenario(7.0).attacks
    assert week == attacks[: len(week)]


def test_a_scenario_on_disk_can_be_run_again(low_level, tmp_path):
    folder = write_simulation(low_level, tmp_path / "run")
    assert read_scenario(folder / "scenario.csv") == low_level.scenario
    opened = open_testbed(folder)
    assert [known.id for known in opened.truth] == ["1"]


def test_another_network_by_name_has_its_own_tags():
    made = simulate(network="Net1", days_train=0.2, days_test=0.2)
    assert made.test.channels[0] == "L_2"
    assert "S_9" in made.test.channels
    assert made.release == "Net1-seed1"


@pytest.mark.skipif(not C_TOWN.is_file(), reason="needs ../shared/data/networks")
def test_c_town_is_read_from_a_file_and_has_the_tags_of_batadal():
    made = simulate(network=C_TOWN, days_train=0.2, days_test=2.0)
    batadal = {f"L_T{k}" for k in range(1, 8)} | {f"F_PU{k}" for k in range(1, 12)}
    batadal |= {f"S_PU{k}" for k in range(1, 12)} | {"F_V2", "S_V2"}
    assert batadal <= set(made.test.channels)
    assert len(made.truth) >= 1
    supplied, error = network_water_of(made)
    assert abs(error) < 1e-4 * supplied


def test_command_plan_and_folder_know_the_network(tmp_path):
    out = tmp_path / "plant"
    told = CliRunner().invoke(
        app,
        ["simulate", "network", "--network", "Net1", "--out", str(out), *DAYS],
    )
    assert told.exit_code == 0, told.output
    assert "network.png" in told.output
    assert len(open_testbed(out).truth) == 1
    tables = {
        "testbeds": {
            "mine": {"testbed": "network", "network": "x.inp", "seed": 3},
            "network": {"network": "ky10"},
        },
        "detectors": {"pca": {}},
    }
    mine, shipped = plan_of(tables, folder=tmp_path).testbeds
    assert mine.options == {"network": str(tmp_path / "x.inp"), "seed": 3}
    assert shipped.options == {"network": "ky10"}


def test_drift_is_an_option_of_waterworks_alone(tmp_path):
    told = CliRunner().invoke(
        app, ["simulate", "network", "--drift", "mild", "--out", str(tmp_path / "x")]
    )
    assert told.exit_code == 1
    assert "no option 'drift' for network" in " ".join(told.output.split())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "there is no such file"),
        ("nonsense", "has no tank or no pump|is no EPANET file"),
    ],
)
def test_what_is_no_network_is_refused_in_one_sentence(tmp_path, text, words):
    path = tmp_path / "x.inp"
    if text is not None:
        path.write_text(text)
    with pytest.raises(FileError, match=words) as told:
        simulate(network=path)
    assert "\n" not in str(told.value)


def test_rules_are_refused(tmp_path):
    source = Path(wntr.__file__).parent / "library" / "networks" / "Net1.inp"
    text = source.read_text()
    rule = "[RULES]\nRULE 1\nIF TANK 2 LEVEL BELOW 100\nTHEN PUMP 9 STATUS IS OPEN\n\n"
    path = tmp_path / "rules.inp"
    path.write_text(text.replace("[ENERGY]", rule + "[ENERGY]"))
    with pytest.raises(FileError, match="rule-based controls"):
        simulate(network=path)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        # EPANET's own reason, not only that there is one.
        (
            "[CONTROLS]",
            "[PIPES]\n C 12 13 9 9 99 0 CV\n[CONTROLS]\n LINK C CLOSED AT TIME 6",
            r"Error 207: attempt to control CV/GPV link C in \[CONTROLS\]",
        ),
        ("[PATTERNS]", "[PATTERNS]\n 1 1e300", "beyond 1e\\+12"),
        ("Pattern Timestep   \t2:00", "Pattern Timestep 0", "not finish a step"),
        ("1500        \t250", "0.001 -3", "EPANET"),
        (" Unbalanced         \tContinue 10\n", "", None),
    ],
)
def test_a_network_that_cannot_be_run_is_refused_in_one_sentence(
    tmp_path, old, new, words
):
    source = Path(wntr.__file__).parent / "library" / "networks" / "Net1.inp"
    assert old in source.read_text()
    path = tmp_path / "x.inp"
    path.write_text(source.read_text().replace(old, new, 1))
    if words is None:
        simulate(network=path, days_train=0.1, days_test=0.1)
        return
    with pytest.raises(FileError, match=words) as told:
        simulate(network=path, days_train=0.1, days_test=0.1)
    assert str(told.value).startswith(f"{path}: ")
    assert "\n" not in str(told.value)
