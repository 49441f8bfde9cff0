"""Episodes, what they cost and what they raise, against plain Python."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline import StreamError
from sightline.data.segments import Segment
from sightline.metrics.alarm_load import (
    Delays,
    Episodes,
    alarm_load,
    attack_alarms,
    beside_chance,
    counted,
    episodes_of,
    latched_rows,
)
from tests import strategies

delays = st.builds(
    lambda on, more, off, unit: Delays(on=on, within=on + more, off=off, unit=unit),
    st.integers(1, 4),
    st.integers(0, 5),
    st.integers(0, 6),
    st.integers(1, 9),
)


@st.composite
def records(draw):
    exceeds = draw(strategies.codes([0, 1], most=120)).astype(bool)
    calm = draw(strategies.codes([0, 1], least=len(exceeds), most=len(exceeds)))
    return exceeds, calm.astype(bool), draw(strategies.breaks(len(exceeds)))


def alarms_by_definition(exceeds, d, breaks):
    """Return (start, last exceedance, end of the latch) of each alarm."""
    found = []
    for begin, end in pairwise(sorted({0, *breaks.tolist(), len(exceeds)})):
        t = begin
        while t < end:
            recent = exceeds[max(begin, t - d.within + 1) : t + 1]
            if not (exceeds[t] and recent.sum() >= d.on):
                t += 1
                continue
            start = last = t
            while t < end and (exceeds[t] or t - last <= d.off):
                last = t if exceeds[t] else last
                t += 1
            found.append((start, last, t))
    return found


@settings(deadline=None)
@given(records(), delays)
def test_alarms_start_and_end_as_defined(record, d):
    exceeds, _, breaks = record
    expected = alarms_by_definition(exceeds, d, breaks)
    found = episodes_of(exceeds, d, breaks)
    assert list(zip(found.starts, found.lasts, strict=True)) == [
        (start, last) for start, last, _ in expected
    ]
    latched = np.zeros(len(exceeds), bool)
    for start, _, stop in expected:
        latched[start:stop] = True
    np.testing.assert_array_equal(latched_rows(exceeds, d, breaks), latched)
    rows = np.zeros(len(exceeds), bool)
    for start, last, _ in expected:
        rows[start : last + 1] = True
    np.testing.assert_array_equal(found.rows, rows)


def cost_by_definition(start, last, calm, unit):
    """Return count and rows of cost of one alarm."""
    rows = [t for t in range(start, last + 1) if calm[t]]
    if calm[start]:
        return 1 + len(rows) // unit, len(rows)
    return len(rows[unit:]) // unit, len(rows[unit:])


@settings(deadline=None)
@given(records(), delays)
def test_alarms_are_counted_as_defined(record, d):
    exceeds, calm, breaks = record
    found = episodes_of(exceeds, d, breaks)
    counts, standing, rows = counted(found, calm, d.unit)
    pairs = list(zip(found.starts, found.lasts, strict=True))
    expected = [cost_by_definition(*pair, calm, d.unit) for pair in pairs]
    assert list(zip(counts, rows, strict=True)) == expected
    assert (counts - standing == calm[found.starts]).all()
    load = alarm_load(found, calm, d, 60.0)
    assert load.alarms == sum(count for count, _ in expected)
    spent = sum(cost for _, cost in expected)
    assert load.share_of_time * calm.sum() == pytest.approx(spent)
    in_calm = (found.rows & calm).sum()
    assert load.lingering_share * calm.sum() == pytest.approx(in_calm - spent)


# Rows of an alarm [3, last], calm from row `calm_from` on, in units of 10 rows.
@settings(deadline=None)
@given(strategies.codes([0, 1], least=1, most=400), st.sampled_from([5.0, 20.0, 60.0]))
def test_floods_are_stretches_of_ten_minutes_one_after_the_other(codes, step_s):
    exceeds, d = codes.astype(bool), Delays.of_step(step_s)
    begins = np.flatnonzero(exceeds & ~np.append(False, exceeds[:-1])) * step_s
    n_floods, free_from = 0, -np.inf
    for begin in begins:
        in_ten_minutes = (begins >= begin) & (begins < begin + 600)
        if begin >= free_from and in_ten_minutes.sum() >= 10:
            n_floods, free_from = n_floods + 1, begin + 600
    everywhere = np.ones(len(exceeds), bool)
    load = alarm_load(episodes_of(exceeds, d), everywhere, d, step_s, exceeds=exceeds)
    assert load.floods == n_floods


@settings(deadline=None)
@given(records(), st.lists(st.integers(1, 30), min_size=1, max_size=4))
def test_chance_is_the_share_of_calm_windows_that_hold_an_alarm(record, lengths):
    exceeds, calm, breaks = record
    attacks = [Segment(0, min(length, len(exceeds))) for length in lengths]
    episodes = episodes_of(exceeds, Delays(), breaks)
    use = attack_alarms(episodes, attacks, calm, breaks=breaks)
    edges = {*breaks.tolist()}
    expected = 0.0
    for attack in attacks:
        firsts = [
            first
            for first in range(len(calm) - attack.length + 1)
            if calm[first : first + attack.length].all()
            and not edges & set(range(first + 1, first + attack.length))
        ]
        if firsts:
            windows = [slice(first, first + attack.length) for first in firsts]
            expected += np.mean([episodes.rows[each].any() for each in windows])
        elif calm.any():
            expected -= np.expm1(-attack.length * np.mean(episodes.rows[calm]))
    assert use.rings_by_chance == pytest.approx(expected)


@pytest.mark.parametrize(
    ("last", "calm_from", "count", "cost"),
    [
        (3, 0, 1, 1),  # one row
        (11, 0, 1, 9),  # not yet a full unit
        (12, 0, 2, 10),  # one full unit
        (102, 0, 11, 100),  # stands for ten
        (12, 4, 0, 0),  # born in an attack: the first unit lingers
        (13, 4, 0, 0),
        (22, 4, 0, 9),
        (23, 4, 1, 10),  # and what follows counts
        (102, 4, 8, 89),
        (12, 50, 0, 0),  # never in calm time
    ],
)
def test_a_table_of_counts(last, calm_from, count, cost):
    alarm = Episodes(starts=np.array([3]), lasts=np.array([last]), n_rows=200)
    counts, _, rows = counted(alarm, np.arange(200) >= calm_from, unit=10)
    assert (counts.tolist(), rows.tolist()) == ([count], [cost])


def test_an_alarm_that_never_stops_is_counted_every_hour_and_catches_nothing():
    n, d = 3 * 1440, Delays.of_step(60.0)
    found = episodes_of(np.ones(n, bool), d)
    calm = np.ones(n, bool)
    calm[1000:1060] = False
    load = alarm_load(found, calm, d, 60.0)
    assert 24 <= load.alarms_per_day <= 26
    assert load.share_of_time == 1.0
    use = attack_alarms(found, [Segment(1000, 1060)], calm, step_s=60.0)
    assert (use.caught, use.raised) == (0, 0)
    assert use.skill <= 0
    assert (use.rings, use.rings_by_chance) == (1, 1.0)


@settings(deadline=None)
@given(records(), delays)
def test_a_shelved_member_costs_what_its_alarm_would(record, d):
    """All alarms of a member are shelved from some row of each on."""
    exceeds, calm, breaks = record
    d = replace(d, on=1, within=1)
    whole = episodes_of(exceeds, d, breaks)
    numbers = np.arange(len(exceeds))
    alarm = np.searchsorted(whole.starts, numbers, side="right") - 1
    age = numbers - np.append(whole.starts, 0)[alarm]
    standing = exceeds & whole.rows & (age >= d.unit)
    cut = episodes_of(exceeds & ~standing, d, breaks)
    load = alarm_load(cut, calm, d, 60.0, standing=standing, breaks=breaks)
    expected = alarm_load(whole, calm, d, 60.0)
    # Only births can differ: of an alarm that begins again while it is shelved.
    births = calm[cut.starts].sum() - calm[whole.starts].sum()
    assert load.alarms == expected.alarms + births
    assert load.share_of_time == expected.share_of_time
    assert load.standing == expected.standing


def test_attacks_are_caught_by_starts_beside_chance():
    n, d = 1000, Delays(off=3, unit=100)
    exceeds = np.zeros(n, bool)
    exceeds[[100, 305, 498, 499, 500, 501, 700]] = True
    attacks = [Segment(300, 320), Segment(500, 510), Segment(800, 810)]
    calm = np.ones(n, bool)
    for a in attacks:
        calm[a.rows] = False
    found = episodes_of(exceeds, d)
    use = attack_alarms(found, attacks, calm, step_s=2.0, ids=["a", "b", "c"])
    # The alarm of row 498 stands when the second attack begins.
    assert (use.raised, use.which, use.rings, use.delay_s) == (1, ("a",), 2, 10.0)
    chance = 0.0
    for attack in attacks:
        windows = [
            (t, t + attack.length)
            for t in range(n - attack.length + 1)
            if calm[t : t + attack.length].all()
        ]
        hits = [any(a <= s < b for s in found.starts) for a, b in windows]
        chance += np.mean(hits)
    assert use.caught_by_chance == use.raised_by_chance == pytest.approx(chance)
    assert use.skill == pytest.approx((1 - chance) / (3 - chance))


def test_an_alarm_left_over_catches_only_where_another_tag_takes_the_lead():
    """By hand: one alarm stands in both attacks, another tag leads from row 505 on."""
    n, calm = 1000, np.ones(1000, bool)
    attacks = [Segment(300, 320), Segment(500, 510)]
    for attack in attacks:
        calm[attack.rows] = False
    alarm = Episodes(
        starts=np.array([250]),
        lasts=np.array([600]),
        n_rows=n,
        rises=np.array([250, 505]),
    )
    use = attack_alarms(alarm, attacks, calm, step_s=2.0, ids=["a", "b"])
    assert (use.caught, use.which, use.delay_s) == (1, ("b",), 10.0)
    assert (use.raised, use.rings) == (0, 2)
    # Windows that hold row 250: 20 of 281, and 180 - 19 and 490 - 19 hold none.
    assert use.caught_by_chance == pytest.approx(
        20 / (281 + 161 + 471) + 10 / (291 + 171 + 481)
    )
    early = attack_alarms(alarm, attacks, calm, early=[50, 0])
    assert early.caught == 2


@pytest.mark.parametrize(
    ("caught", "by_chance", "skill", "low", "high", "p"),
    [
        # 14 of 14 with 11.8 by chance is a skill of 1 that chance explains.
        (14, [11.8 / 14] * 14, 1.0, -0.48, 1.0, 0.092),
        (5, [0.0] * 5, 1.0, 0.48, 1.0, 0.0),
        (0, [0.5] * 4, -1.0, -1.0, 0.2, 1.0),
        (2, [1.0, 1.0], None, None, None, 1.0),
    ],
)
def test_a_skill_has_an_interval_and_a_p(caught, by_chance, skill, low, high, p):
    known = beside_chance(caught, by_chance, [100] * len(by_chance), 100_000)
    assert known["skill"] == (None if skill is None else pytest.approx(skill))
    ends = known["skill_interval"]
    assert ends == (None if low is None else pytest.approx((low, high), abs=0.01))
    assert known["p_value"] == pytest.approx(p, abs=0.002)


@pytest.mark.parametrize("n_attacks", [5, 35])
@pytest.mark.parametrize("n_alarms", [1, 5, 40])
@pytest.mark.parametrize("sees", [0.0, 0.3, 0.95])
def test_the_interval_of_a_skill_holds_the_true_one(n_attacks, n_alarms, sees):
    """A rule that sees each attack with a probability, and rings by chance too."""
    rng, n_calm, length = np.random.default_rng(0), 100_000, 1000
    true = -np.expm1(-n_alarms * length / n_calm)
    share, held, false = 1 - (1 - sees) * (1 - true), [], []
    for _ in range(400):
        seen = -np.expm1(-rng.poisson(n_alarms) * length / n_calm)
        known = beside_chance(
            int(rng.binomial(n_attacks, share)),
            [seen] * n_attacks,
            [length] * n_attacks,
            n_calm,
        )
        low, high = known["skill_interval"]
        held.append(low - 1e-12 <= sees <= high + 1e-12)
        false.append(known["p_value"] <= 0.05)
    assert np.mean(held) >= 0.92
    if not sees:
        assert np.mean(false) <= 0.08


def test_peaks_floods_and_chattering():
    d = Delays.of_step(10.0)
    exceeds = np.zeros(1000, bool)
    exceeds[100:124:2] = True  # twelve returns in four minutes
    exceeds[500] = exceeds[900] = True
    load = alarm_load(
        episodes_of(exceeds, d), np.ones(1000, bool), d, 10.0, exceeds=exceeds
    )
    assert (load.alarms, load.peak_10min, load.floods, load.chattering) == (3, 12, 1, 1)
    slow = alarm_load(
        episodes_of(exceeds, d), np.ones(1000, bool), d, 3600.0, exceeds=exceeds
    )
    assert (slow.peak_10min, slow.floods, slow.chattering) == (None, None, None)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"on": 0, "within": 1}, "1 <= on <= within <= 60; got 0 in 1"),
        ({"on": 3, "within": 2}, "got 3 in 2"),
        ({"on": 2, "within": 61}, "got 2 in 61"),
        ({"off": -1}, "at least 0 rows"),
        ({"unit": 0}, "at least 1; got 3 and 0"),
    ],
)
def test_delays_that_cannot_be_met_are_refused(values, sentence):
    with pytest.raises(StreamError, match=sentence):
        Delays(**values)
