"""A mask after a change of state: found before the split, judged after it."""

import numpy as np
import pytest

from sightline import Attack, ResidualStream, evaluate
from sightline.data.row_tables import ArrayRows
from sightline.rules.masking import LEAST, MINUTES, masked_rows

N, STEP = 24_000, 10.0
SPLIT_SHARE = 0.35


def plant(*, later=True, telemetry=True, attack_after_stop=False):
    """Return residuals that jump whenever a pump stops, every 80 minutes."""
    rng = np.random.default_rng(3)
    train, test = rng.normal(size=(6000, 4)), rng.normal(size=(N, 4))
    pump = (np.arange(N) // 240) % 2
    stops = np.flatnonzero((pump[1:] == 0) & (pump[:-1] == 1)) + 1
    labels = np.zeros(N, np.int8)
    starts = [int(row) + (40 if attack_after_stop else 120) for row in stops[30::6]]
    attacks = [
        Attack(id=str(k), start=row, stop=row + 20, targets=())
        for k, row in enumerate(starts)
    ]
    for row in stops:
        if later or row < SPLIT_SHARE * N:
            test[row + 3 : row + 6, 0] += 9.0
    for attack in attacks:
        labels[attack.start : attack.stop] = 1
        test[attack.start : attack.stop, 1] += 9.0
    level = rng.normal(size=N)
    values = np.stack([pump, level, (np.arange(N) // 4000) % 2], axis=1).astype(float)
    given = {
        "telemetry_train": values[:6000],
        "telemetry_test": values,
        "telemetry_channels": ["P101", "LIT101", "MODE"],
    }
    return ResidualStream(
        train,
        test,
        labels,
        segments=attacks,
        step_s=STEP,
        **(given if telemetry else {}),
    )


def mask_of(stream, **known):
    settings = {"intervals": False, "diagnosis": False, "metrics": "none"}
    return evaluate(stream, budget="24/day,5%", **settings | known).rules.mask


def test_the_stop_of_a_pump_is_found_and_masked_on_later_days():
    mask = mask_of(plant())
    assert (mask.channel, mask.value, mask.minutes) == ("P101", 0.0, MINUTES)
    assert mask.n_before_split >= LEAST
    assert mask.n_before_split > 2 * mask.n_expected
    assert mask.is_advised
    saved = mask.before.load.alarms - mask.after.load.alarms
    assert saved > 10
    assert mask.attacks_lost == ()
    assert mask.after.attacks.raised == mask.before.attacks.raised
    assert f"saves {saved} of {mask.before.load.alarms} false alarms" in mask.sentence
    assert "loses no attack" in mask.sentence
    assert mask.share_of_time == pytest.approx(60 / 480, abs=0.02)


def test_a_mask_that_saves_nothing_later_is_not_advised():
    mask = mask_of(plant(later=False))
    assert mask.channel == "P101"
    assert not mask.is_advised
    assert mask.sentence.endswith("it is not advised.")


def test_attacks_that_start_in_the_mask_are_named_as_lost():
    mask = mask_of(plant(attack_after_stop=True))
    lost = set(mask.before.attacks.which) - set(mask.after.attacks.which)
    assert set(mask.attacks_lost) == lost
    assert lost
    assert not mask.is_advised


def test_without_telemetry_or_states_there_is_no_mask():
    assert mask_of(plant(telemetry=False)) is None
    stream = plant()
    rng = np.random.default_rng(0)
    noise = ArrayRows(rng.normal(size=(N, 3)))
    assert mask_of(stream.replace(telemetry_test=noise)) is None


def test_no_label_after_the_split_decides_which_change_is_masked():
    stream = plant()
    labels = np.array(stream.labels)
    first = int(SPLIT_SHARE * N) + 500
    kept = [attack for attack in stream.segments if attack.stop < first]
    labels[first:] = 0
    other = mask_of(stream.replace(labels=labels, segments=kept))
    mask = mask_of(stream)
    for name in ("channel", "value", "n_before_split", "n_expected"):
        assert getattr(other, name) == getattr(mask, name)


def test_masked_rows_by_hand():
    states = np.array([0, 1, 1, 1, 0, 1, 1, 1, 1, 0])
    rows = masked_rows(states, 1.0, 2, np.array([0, 6]))
    assert np.flatnonzero(rows).tolist() == [1, 2, 5]
    rows = masked_rows(states, 0.0, 3, np.array([0]))
    assert np.flatnonzero(rows).tolist() == [4, 5, 6, 9]
    # A value that changes at a break is a new recording, not a change.
    rows = masked_rows(states, 1.0, 2, np.array([0, 5]))
    assert np.flatnonzero(rows).tolist() == [1, 2]
