"""What attacks do: to readings, to the plant, and what is known about both."""

from functools import partial

import numpy as np
import pytest
from water_accounts import water_of

from sightline.errors import StreamError
from sightline.testbeds.twin import simulation as shared
from sightline.testbeds.waterworks import (
    Action,
    PlannedAttack,
    Scenario,
    default_scenario,
    simulate,
)
from sightline.testbeds.waterworks.plant import (
    COLUMN,
    SENSORS,
    TAG_NAMES,
    UNIT,
    YARDSTICK,
)

START, LENGTH = 4000, 600
usual_of = partial(shared.usual_of, by=YARDSTICK)
recovery_s = partial(shared.recovery_s, by=YARDSTICK)


def attacked(*actions, start=START, duration=LENGTH, seed=1):
    attack = PlannedAttack(id="1", start_s=start, duration_s=duration, actions=actions)
    return simulate(
        days_train=0.02, days_test=0.08, seed=seed, scenario=Scenario(attacks=(attack,))
    )


def recorded(made, tag, start=START, stop=START + LENGTH):
    return made.test.values[start:stop, COLUMN[tag]].astype(np.float64)


def real(made, tag, start=START, stop=START + LENGTH):
    return made.true_values[start:stop, COLUMN[tag]].astype(np.float64)


def test_without_attacks_test_equals_its_twin_bit_for_bit(peaceful):
    assert peaceful.truth == ()
    assert peaceful.clean_test().values.tobytes() == peaceful.test.values.tobytes()
    assert peaceful.true_values.tobytes() == peaceful.test.values.tobytes()


def test_up_to_the_first_attack_test_equals_the_clean_run_bit_for_bit(quick):
    clean, first = quick.clean_test().values, quick.test.attacks[0].start
    assert clean[:first].tobytes() == quick.test.values[:first].tobytes()
    assert not np.array_equal(clean, quick.test.values)


def test_the_truth_of_the_first_attack_is_its_distance_from_the_clean_run(quick):
    first, truth = quick.test.attacks[0], quick.truth[0]
    rows = slice(first.start, first.stop)
    difference = quick.test.values[rows].astype(float) - quick.clean_test().values[rows]
    distance = np.abs(difference / UNIT)
    np.testing.assert_array_equal(list(truth.effect.values()), distance.max(axis=0))
    for column, tag in enumerate(TAG_NAMES):
        moved = np.flatnonzero(distance[:, column])
        assert truth.first_move_s[tag] == (moved[0] if len(moved) else None)


def test_true_values_differ_only_where_a_reading_is_forged(quick):
    differs = quick.true_values != quick.test.values
    for attack, planned in zip(quick.test.attacks, quick.scenario.attacks, strict=True):
        forged = [COLUMN[tag] for tag in planned.forged_tags]
        differs[attack.start : attack.stop, forged] = False
    assert not differs.any()


def test_a_constant_is_what_is_recorded_and_what_the_plc_reads():
    made = attacked(Action(tag="LIT101", kind="constant", value=850.0))
    assert set(recorded(made, "LIT101")) == {850.0}
    assert real(made, "LIT101").std() > 1.0
    # Above H: the inlet stays closed while the tank empties.
    assert set(recorded(made, "MV101", START + 10)) == {1.0}


def test_a_ramp_moves_by_its_rate_and_stops_at_its_value():
    made = attacked(Action(tag="LIT301", kind="ramp", rate=-0.5, value=700.0))
    steps = np.diff(recorded(made, "LIT301", START - 1))
    until = int(np.argmin(recorded(made, "LIT301")))
    np.testing.assert_allclose(steps[:until], -0.5, atol=1e-4)
    assert recorded(made, "LIT301").min() == 700.0


def test_a_frozen_sensor_repeats_its_last_reading():
    made = attacked(Action(tag="AIT503", kind="freeze"))
    assert set(recorded(made, "AIT503")) == set(
        recorded(made, "AIT503", START - 1, START)
    )


def test_a_replay_equals_the_earlier_stretch():
    made = attacked(Action(tag="LIT401", kind="replay", value=3000))
    earlier = recorded(made, "LIT401", START - 3000, START - 3000 + LENGTH)
    np.testing.assert_array_equal(recorded(made, "LIT401"), earlier)


def test_a_gain_multiplies_what_the_sensor_reads():
    made = attacked(Action(tag="PIT501", kind="gain", value=1.25))
    np.testing.assert_allclose(
        recorded(made, "PIT501"), 1.25 * real(made, "PIT501"), rtol=1e-6
    )


def test_a_bias_is_added_to_what_the_sensor_reads():
    made = attacked(Action(tag="PIT501", kind="bias", value=2.0, rate=0.01))
    added = recorded(made, "PIT501") - real(made, "PIT501")
    expected = 2.0 + 0.01 * np.arange(1, LENGTH + 1)
    np.testing.assert_allclose(added, expected, atol=1e-4)
    truth = made.truth[0]
    assert truth.moved_tags == ("PIT501",)
    assert not truth.moves_others
    assert truth.mean_effect["PIT501"] == pytest.approx(
        expected.mean() / UNIT[COLUMN["PIT501"]], rel=1e-3
    )


def test_a_held_actuator_is_where_it_is_held_and_comes_back():
    made = attacked(Action(tag="UV401", kind="set", value=1))
    assert set(recorded(made, "UV401")) == {1.0}
    assert set(recorded(made, "UV401", START + LENGTH + 200, 6900)) == {2.0}


def test_the_standby_pump_takes_over():
    made = attacked(Action(tag="P402", kind="set", value=1))
    assert set(recorded(made, "P401", START + 10)) == {2.0}
    assert recorded(made, "FIT401", START + 60).mean() > 1.2


def test_a_set_point_moves_what_it_controls():
    made = attacked(
        Action(tag="AIT402.L", kind="setpoint", value=260.0),
        Action(tag="AIT402.H", kind="setpoint", value=300.0),
        duration=1800,
    )
    clean = made.clean_test().values[START : START + 1800, COLUMN["AIT402"]]
    assert recorded(made, "AIT402", stop=START + 1800).max() > clean.max() + 30
    assert made.truth[0].targets == ("AIT402",)


def held(**states):
    return [Action(tag=tag, kind="set", value=value) for tag, value in states.items()]


def test_an_overflow_is_counted_and_the_account_still_holds():
    forged = Action(tag="LIT101", kind="constant", value=450.0)
    made = attacked(forged, *held(MV101=2, P101=1, P102=1), duration=2400)
    water = water_of(made)
    tank = water.tanks[0]
    assert tank.highest == pytest.approx(1300.0)
    assert tank.overflow > 0.01
    assert abs(tank.error) < 1e-9
    assert abs(water.error) < 1e-9


def test_a_dry_tank_gives_no_water_and_the_account_still_holds():
    forged = Action(tag="LIT101", kind="constant", value=700.0)
    made = attacked(forged, *held(MV101=1, MV201=2, P101=2), duration=2400)
    tank = water_of(made).tanks[0]
    assert tank.lowest == pytest.approx(0.0, abs=1e-6)
    assert tank.unmet > 0.01
    assert abs(tank.error) < 1e-9
    assert recorded(made, "FIT201", START + 2300, START + 2400).mean() < 0.02


@pytest.mark.parametrize(
    ("tank", "drains"), [("LIT101", ("P101", "P102")), ("LIT301", ("P302", "P301"))]
)
def test_the_highest_limit_holds_where_an_attacker_raised_the_others(tank, drains):
    raised = [
        Action(tag=f"{tank}.{limit}", kind="setpoint", value=1290.0)
        for limit in ("L", "H")
    ]
    made = attacked(*raised, *held(**dict.fromkeys(drains, 1)), duration=2800)
    assert 1190 < real(made, tank, stop=START + 2800).max() < 1215


@pytest.mark.parametrize("tag", ["P502", "P603"])
def test_an_interlock_blocks_and_nothing_moves(tag):
    truth = attacked(Action(tag=tag, kind="set", value=2)).truth[0]
    assert truth.blocked
    assert not truth.moves
    assert truth.moved_tags == ()
    assert set(truth.effect.values()) == {0.0}


@pytest.mark.parametrize(
    "action",
    [
        Action(tag="P401", kind="set", value=1),
        Action(tag="UV401", kind="set", value=2),
        Action(tag="LIT401.HH", kind="setpoint", value=1150.0),
    ],
)
def test_asking_for_what_is_the_case_moves_nothing_and_is_no_block(action):
    truth = attacked(action).truth[0]
    assert (truth.moves, truth.blocked) == (False, False)


def test_dosing_pumps_do_not_start_without_flow():
    tags = ("P201", "P203", "P205")
    made = attacked(*held(P101=1, P102=1, P201=2, P203=2, P205=2))
    for tag in tags:
        assert set(recorded(made, tag, START + 30)) == {1.0}


def test_the_backwash_pump_runs_only_with_its_valve_open():
    made = attacked(*held(P602=2), duration=2800)
    pump, valve = (recorded(made, tag, stop=START + 2800) for tag in ("P602", "MV301"))
    assert set(pump[1:][valve[:-1] != 2]) == {1.0}
    assert 2.0 in pump


def test_the_backwash_valve_opens_only_while_the_outlet_is_closed():
    made = attacked(*held(MV301=2), duration=2800)
    valve, outlet = (
        recorded(made, tag, stop=START + 2800) for tag in ("MV301", "MV302")
    )
    assert 2.0 in outlet
    assert 2.0 not in valve[outlet == 2]


def test_the_quick_scenario_has_obvious_stealthy_and_invisible_attacks(quick):
    largest = [max(truth.effect.values()) for truth in quick.truth]
    assert max(largest) > 100
    assert any(0 < effect < 60 for effect in largest)
    assert sum(effect == 0 for effect in largest) >= 2
    assert any(truth.blocked for truth in quick.truth)


def test_labels_and_attacks_of_test_agree(quick):
    labels = np.zeros(quick.test.n_steps, np.int8)
    for truth in quick.truth:
        labels[truth.stop : truth.stop + (truth.recovery_s or 0)] = -1
    for attack in quick.test.attacks:
        labels[attack.start : attack.stop] = 1
    np.testing.assert_array_equal(labels, quick.test.labels)
    assert -1 in labels
    assert [attack.id for attack in quick.test.attacks] == [t.id for t in quick.truth]


def test_recovery_labels_can_be_left_out_and_change_no_reading(quick):
    old = simulate(quick=True, recovery_labels=False)
    assert old.test.values.tobytes() == quick.test.values.tobytes()
    assert old.truth == quick.truth
    np.testing.assert_array_equal(old.test.labels == 1, quick.test.labels == 1)
    assert set(old.test.labels.tolist()) == {0, 1}


def slow_recovery(made):
    """Return the recovery of a single attack, block by block, from the clean run."""
    stop, clean = made.test.attacks[0].stop, made.clean_test().values.astype(float)
    train, recorded = made.train.values, made.test.values.astype(float)
    noise = np.where(np.isin(TAG_NAMES, SENSORS), 3 * UNIT, 0.5)

    def blocks(rows):
        n = len(rows) // 120
        return [rows[120 * k : 120 * (k + 1)].astype(float) for k in range(n)]

    peace = [block.mean(axis=0) for block in blocks(train) + blocks(clean)]
    low, high = np.min(peace, axis=0) - noise, np.max(peace, axis=0) + noise
    is_out = []
    for block, twin in zip(blocks(recorded[stop:]), blocks(clean[stop:]), strict=True):
        mean, distance = block.mean(axis=0), np.abs(block - twin).mean(axis=0)
        is_out.append(((distance > noise) & ((mean < low) | (mean > high))).any())
    for k in range(len(is_out) - 2):
        if not any(is_out[k : k + 3]):
            return 120 * k
    return None


@pytest.mark.parametrize(
    ("actions", "recovery_s"),
    [
        ([Action(tag="AIT402", kind="constant", value=260.0)], 240),
        ([Action(tag="AIT202", kind="constant", value=6.0)], None),
        ([Action(tag="P501", kind="set", value=1)], None),
        ([Action(tag="AIT503", kind="freeze")], 0),
    ],
)
def test_the_recovery_from_one_attack_is_that_of_the_clean_run(actions, recovery_s):
    made = attacked(*actions)
    truth = made.truth[0]
    assert truth.recovery_s == slow_recovery(made)
    if recovery_s is not None:
        assert truth.recovery_s == recovery_s
    assert (made.test.labels == -1).sum() == (truth.recovery_s or 0)


def after_an_attack(n_blocks, out, attacked_blocks=()):
    """Return the recovery where LIT101 is 10 mm too high in some blocks."""
    twin = np.full((120 * n_blocks, len(TAG_NAMES)), 100.0, np.float32)
    rows, is_attacked = twin.copy(), np.zeros(len(twin), bool)
    for block in out:
        rows[120 * block : 120 * (block + 1), COLUMN["LIT101"]] += 10.0
    for block in attacked_blocks:
        is_attacked[120 * block + 60] = True
    return recovery_s(rows, twin, is_attacked, usual_of(twin))


def test_recovery_ends_with_the_last_block_before_three_quiet_ones():
    assert after_an_attack(10, ()) == 0
    assert after_an_attack(10, (0, 1)) == 240
    assert after_an_attack(10, (0, 3)) == 480
    assert after_an_attack(10, (0, 4)) == 120
    assert after_an_attack(10, (3,)) == 0
    assert after_an_attack(10, range(10)) is None
    assert after_an_attack(3, (0,)) is None


def test_blocks_of_another_attack_are_passed_over():
    assert after_an_attack(10, (0, 4), attacked_blocks=(2,)) == 600
    assert after_an_attack(10, (0, 1, 2), attacked_blocks=(1, 2)) == 120


def test_a_plant_that_differs_within_what_is_usual_is_not_in_recovery():
    twin = np.full((3600, len(TAG_NAMES)), 100.0, np.float32)
    other = twin + np.float32(30.0)
    is_attacked = np.zeros(3600, bool)
    assert recovery_s(other, twin, is_attacked, usual_of(twin, other)) == 0
    assert recovery_s(other, twin, is_attacked, usual_of(twin)) is None


def test_the_rows_of_the_next_attack_stay_attack_rows():
    actions = (Action(tag="AIT402", kind="constant", value=260.0),)
    attacks = [
        PlannedAttack(id=i, start_s=start, duration_s=duration, actions=actions)
        for i, start, duration in (("1", START, LENGTH), ("2", START + LENGTH + 60, 60))
    ]
    made = simulate(
        days_train=0.02, days_test=0.08, scenario=Scenario(attacks=tuple(attacks))
    )
    stop = START + LENGTH
    assert made.truth[0].recovery_s > 120
    assert set(made.test.labels[stop : stop + 60]) == {-1}
    assert set(made.test.labels[stop + 60 : stop + 120]) == {1}
    assert made.test.labels[stop + 120] == -1


def test_what_is_known_of_an_attack_is_its_largest_effect_by_tag(quick):
    for truth in quick.truth:
        known = truth.known
        assert known.moves is truth.moves
        assert set(known.tags) == set(truth.moved_tags)
        assert known.largest == max(truth.effect.values())
        assert known.mean <= known.largest
        assert known.recovery_s == truth.recovery_s
        for tag, mean in truth.mean_effect.items():
            assert abs(mean) <= truth.mean_distance[tag] + 1e-12
            assert known.mean >= truth.mean_distance[tag]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_most_of_the_default_attacks_move_something(seed):
    made = simulate(days_train=0.1, seed=seed)
    moves = [truth.moves for truth in made.truth]
    assert len(moves) == len(default_scenario().attacks)
    assert len(moves) - sum(moves) >= 5
    assert sum(moves) >= 30


def test_an_attack_outside_of_the_run_is_refused():
    with pytest.raises(StreamError, match="ends at 90600 s, after the run of 6912 s"):
        attacked(Action(tag="P101", kind="set", value=1), start=90_000)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"days_train": 0}, "`days_train` must be days"),
        ({"days_test": float("nan")}, "`days_test` must be days"),
        ({"seed": -1}, "`seed` must be a whole number"),
        ({"seed": 1.5}, "`seed` must be a whole number"),
    ],
)
def test_what_makes_no_run_is_refused(arguments, words):
    with pytest.raises(StreamError, match=words):
        simulate(**arguments)
