"""Commissioning: what rules may see, who is refused, and streams of all kinds."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from sightline import ResidualStream, StreamError, commission
from sightline.data.row_tables import KeptRows
from sightline.metrics.ranking import partial_auc_score, roc_auc_score
from sightline.rules.judging import (
    JudgedRows,
    judge_rule,
    run_family,
)
from sightline.rules.named import default_rules, members_of
from sightline.rules.promise import Kept
from sightline.rules.rule import Rule
from tests import strategies
from tests.rules.made_rules import (
    BY_NAME,
    CHANNELS,
    DAY,
    STEP_S,
    made_rules,
    one_score,
    plant_stream,
    residuals,
)


def numbers(made):
    """Return all numbers of all rules."""
    return {
        name: [
            one.rule.limit,
            one.promise,
            one.limit,
            *(
                np.concatenate([m.centre, m.levels, m.allowance, [m.limit]]).tobytes()
                for m in one.rule.members
            ),
            *(view.weights.tobytes() for view in one.rule.views),
        ]
        for name, one in made.rules.items()
    }


@settings(deadline=None, max_examples=3)
@given(strategies.seeds)
def test_no_row_and_no_label_after_the_split_changes_a_rule(seed):
    stream, rng = plant_stream(), np.random.default_rng(seed)
    n = stream.test.n_rows
    split = int(0.35 * n)
    rows = np.concatenate(list(stream.test.chunks()))
    labels = stream.labels.copy()
    labels[split:] = np.repeat(rng.integers(-1, 2, n // 50 + 1), 50)[: n - split]
    rows[split:] *= rng.uniform(0.5, 30, size=(n - split, 1))
    kept = [a for a in stream.attack_segments() if a.stop <= split]
    later = stream.replace(test=rows, labels=labels, segments=())
    assert [a.start for a in later.attack_segments()][: len(kept)] == [
        a.start for a in kept
    ]
    given = {"budget": "6/day", "rules": BY_NAME}
    assert numbers(commission(later, **given)) == numbers(commission(stream, **given))


@pytest.mark.parametrize("unit", [15, 60, 10**9])
def test_rules_decided_from_the_family_are_the_rules_themselves(unit):
    made, stream = made_rules(), plant_stream()
    split, n = made.facts.split, stream.test.n_rows
    members = {m.name: m for one in made.rules.values() for m in one.rule.members}
    views = {v.kind: v for one in made.rules.values() for v in one.rule.views}
    family = Rule(
        name="family",
        channels=made.chosen.rule.channels,
        views=tuple(views.values()),
        members=tuple(replace(m, limit=1.0) for m in members.values()),
        limit=1.0,
        delays=made.chosen.rule.delays,
    )
    judged = JudgedRows.of(
        stream.labels == 0, stream.attack_segments(), stream.test_breaks, split, STEP_S
    )
    later = np.arange(n) >= split
    rows, score = KeptRows(stream.test, later), stream.score[split:]
    rules = {
        name: replace(one.rule, delays=replace(one.rule.delays, unit=unit))
        for name, one in made.rules.items()
    }
    runs = run_family(family, rules, rows, judged, score)
    for name, rule in rules.items():
        direct = rule.run(rows, breaks=judged.breaks, score=score)
        for key in ("trace", "exceeds", "in_alarm", "leading", "unit", "service"):
            np.testing.assert_array_equal(
                getattr(direct, key), getattr(runs[name], key)
            )
    n_changes = sum(len(run.service) for run in runs.values())
    assert (n_changes > 0) == (unit < 10**9)


@pytest.mark.parametrize("name", [*default_rules(has_stages=True), *BY_NAME])
def test_a_rule_that_always_rings_is_counted_every_hour_and_raises_nothing(name):
    made, stream = made_rules(), plant_stream()
    judged = JudgedRows.of(
        stream.labels == 0,
        stream.attack_segments(),
        np.zeros(1, np.int64),
        made.facts.split,
        STEP_S,
    )
    rule = replace(made.rules[name].rule, limit=-1.0)
    n_first = made.facts.split
    rows = np.concatenate(list(stream.test.chunks()))[n_first:]
    outcome = judge_rule(
        rule.run(rows, score=stream.score[n_first:]), judged, made.rules[name].promise
    )
    assert 24 <= outcome.load.alarms_per_day <= 26
    assert outcome.load.share_of_time == 1.0
    assert outcome.kept is Kept.BROKEN
    assert outcome.attacks.raised == 0
    assert outcome.attacks.skill <= 0


def test_rules_obey_the_budget_on_the_rows_that_set_their_limits():
    for one in made_rules().rules.values():
        # Between two limits that are tried alarms may be one more, time a twentieth.
        assert one.limit.alarms <= 6 * made_rules().facts.days + 1
        assert one.limit.share <= 0.0105


def test_attacks_before_the_split_are_left_out_and_counted():
    made, stream = made_rules(), plant_stream()
    n_before = sum(a.start < made.facts.split for a in stream.attack_segments())
    assert n_before == 3
    assert made.facts.notes[0].startswith("3 attacks were left out")
    # An hour of attack rows that never commission may hold anything.
    rows = np.concatenate(list(stream.test.chunks()))
    rows[stream.labels == 1] *= 1000
    other = commission(stream.replace(test=rows), budget="6/day", rules=BY_NAME)
    assert other.facts.days == pytest.approx(made.facts.days, rel=0.02)


# --- Streams of all kinds -------------------------------------------------------------


def calm_stream(p=3, days=5, seed=2, **known):
    rng = np.random.default_rng(seed)
    train, test = (residuals(rng, n * DAY, p) for n in (2, days))
    return ResidualStream(train, test, **{"step_s": STEP_S} | known)


def test_streams_without_stages_have_no_rule_of_stages():
    made = commission(calm_stream(), budget="6/day")
    assert tuple(made.rules) == ("energy", "z", "x", "z~", "x~", "rows", "all")
    joined = made.rules["all"].rule
    assert [member.name for member in joined.members] == ["z", "x", "z~", "x~"]


def test_a_single_channel_has_its_rules():
    made = commission(calm_stream(p=1), budget="6/day")
    assert made.facts.chosen == made.facts.choice.rule
    assert all(one.promise.per_day <= 6.6 for one in made.rules.values())


def test_a_single_score_has_its_own_family():
    assert tuple(one_score().rules) == ("energy", "x", "x~", "x+x~")
    assert one_score().facts.chosen in one_score().rules
    rng = np.random.default_rng(5)
    train, test = (np.abs(residuals(rng, n * DAY, 1)) for n in (3, 6))
    stream = ResidualStream(train, test, step_s=STEP_S)
    # A rule by name is made, but not chosen.
    made = commission(stream, rules=["cusum"])
    assert made.facts.chosen in one_score().rules
    assert "cusum" in made.rules


def test_channels_that_stand_still_set_no_scale():
    stream = calm_stream(p=4)
    rows = np.concatenate(list(stream.test.chunks()))
    train = np.concatenate(list(stream.train.chunks()))
    rows[:, 1] = train[:, 1] = 7.0  # never moves
    rows[: DAY // 2, 2] = 0.0  # stands still in the first stretches
    made = commission(ResidualStream(train, rows, step_s=STEP_S), budget="6/day")
    plain = commission(stream, budget="6/day")
    for name in ("x", "x~", "z"):
        one, other = made.rules[name].rule, plain.rules[name].rule
        assert 1 / 3 < one.limit / other.limit < 3
    # And rings if it moves after all.
    rows = rows[:100].copy()
    rows[50, 1] += 0.1
    assert made.rules["x"].rule.alarms(rows)[50]


def test_a_level_far_from_zero_changes_nothing():
    stream = calm_stream()
    far = calm_stream()
    far = far.replace(
        train=np.concatenate(list(far.train.chunks())) + 2.0**20,
        test=np.concatenate(list(far.test.chunks())) + 2.0**20,
    )
    one, other = commission(stream), commission(far)
    for name, made in one.rules.items():
        assert other.rules[name].rule.limit == pytest.approx(made.rule.limit, rel=1e-4)


def test_calibration_rows_are_used_if_they_ring_alike():
    rng = np.random.default_rng(6)
    alike = calm_stream(calibration=residuals(rng, 2 * DAY, 3))
    made = commission(alike, budget="6/day")
    assert made.facts.uses_calibration
    assert made.facts.days == pytest.approx(2 + 0.35 * 5)
    louder = calm_stream(calibration=3 * residuals(rng, 2 * DAY, 3))
    made = commission(louder, budget="6/day")
    assert not made.facts.uses_calibration
    assert made.facts.days == pytest.approx(0.35 * 5)
    assert "do not ring as often" in made.facts.notes[0]


def test_train_commissions_on_request():
    made = commission(calm_stream(), train=True)
    assert made.facts.days == pytest.approx(2 + 0.35 * 5)


def test_a_refitted_reference_follows_a_drift():
    stream = calm_stream()
    rows = np.concatenate(list(stream.test.chunks())) + np.array([0.5, 0.0, 0.0])
    drifted = stream.replace(test=rows)
    kept = commission(drifted).rules["energy"].rule
    refitted = commission(drifted, reference="commissioning").rules["energy"].rule
    assert refitted.views[0].mean[0] - kept.views[0].mean[0] == pytest.approx(
        0.5, abs=0.05
    )
    assert refitted.limit < kept.limit


def test_rules_from_another_stream_are_judged_on_all_rows():
    stream, other = plant_stream(seed=0), plant_stream(seed=1)
    made = commission(stream, calm=other, budget="6/day")
    assert made.facts.split == 0
    assert made.facts.n_attacks == 8
    assert "8 attacks" in made.facts.notes[0]


def test_without_later_rows_nothing_is_judged():
    made = commission(calm_stream(), first=1.0)
    assert {row.kept for row in made.table} == {Kept.UNJUDGED}
    assert made.facts.notes[-1].startswith("No rows are left")


def test_the_split_may_be_a_time():
    stream = plant_stream()
    at = float(stream.test_time[4000])
    assert commission(stream, until=at).facts.split == 4000


def test_an_unused_promise_names_the_limit_of_hindsight():
    stream = calm_stream(days=8)
    rows = np.concatenate(list(stream.test.chunks()))
    rows[int(0.35 * len(rows)) :] *= 0.2  # the plant became calmer
    made = commission(stream.replace(test=rows))
    row = made.facts.row("x")
    assert row.kept is Kept.UNUSED
    assert row.hindsight_limit < row.limit / 2


def test_scores_of_rules_rank_attack_rows_whatever_the_limit():
    stream, made = plant_stream(), made_rules()
    split = int(0.35 * stream.test.n_rows)
    rows = np.concatenate(list(stream.test.chunks()))[split:]
    labels = stream.labels[split:]
    breaks, score = stream.test_breaks - split, stream.score[split:]
    breaks = breaks[breaks > 0]
    scarce = commission(stream, budget="3/day", choose="all")
    for name, one in made.rules.items():
        trace = one.rule.run(rows, breaks=breaks, score=score).trace
        row = made.facts.row(name)
        assert row.roc_auc == roc_auc_score(labels, trace)
        assert row.pauc_1 == partial_auc_score(labels, trace, max_fpr=0.01)
        if name in ("energy", "z", "x~"):
            again = scarce.facts.row(name)
            assert again.limit > row.limit
            assert (again.roc_auc, again.pauc_1) == (row.roc_auc, row.pauc_1)
    assert all(row.pauc_1 is None for row in made.facts.present)
    assert one_score().facts.table[0].pauc_1 is None  # no attack


def test_k_of_n_rings_less_and_its_limit_is_lower():
    one = commission(calm_stream())
    three = commission(calm_stream(), on=3, within=5)
    for name in ("energy", "z", "x"):
        assert three.rules[name].rule.limit < one.rules[name].rule.limit
    assert three.chosen.rule.delays.within == 5


@pytest.mark.parametrize("name", ["largest2", "x+largest3", "group~+z", "rows+quiet~"])
def test_rules_by_name(name):
    made = commission(plant_stream(), choose=name)
    assert made.facts.chosen == name
    assert [m.name for m in made.chosen.rule.members] == list(members_of(name, True))


def test_a_channel_may_be_left_out():
    made = commission(plant_stream(), without=["LIT201"])
    rule = made.chosen.rule
    for view in rule.views:
        assert CHANNELS.index("LIT201") not in view.order
    rows = np.concatenate(list(plant_stream().test.chunks()))[:500]
    changed = rows.copy()
    changed[:, CHANNELS.index("LIT201")] = 1e9
    np.testing.assert_array_equal(rule.run(rows).trace, rule.run(changed).trace)


# --- Refusals -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"budget": "1/day"},
            r"42.0 attack-free hours .* 30.0 hours are missing, or "
            "allow at least 2 alarms a day",
        ),
        ({"first": 0.0}, "must be a share in"),
        ({"first": 1e-4}, r"0.0 attack-free hours .* 12.0 hours are missing\.$"),
        ({"until": "2026-01-01"}, "no time stamps"),
        ({"rules": ["grup"]}, "no rule 'grup'"),
        ({"rules": ["group"]}, "needs the stage of each channel"),
        ({"rules": ["score"]}, "needs the detector's own score"),
        ({"without": ["nothing"]}, "no channel 'nothing' to leave out"),
        ({"on": 3, "within": 70}, "got 3 in 70"),
        ({"calm": plant_stream()}, "`calm` must have the channels"),
    ],
)
def test_what_cannot_be_commissioned_is_refused(options, sentence):
    with pytest.raises(StreamError, match=sentence):
        commission(calm_stream(), **options)


def test_rows_of_another_step_cannot_commission():
    with pytest.raises(StreamError, match=r"60.0 s\); they are 10.0 s apart"):
        commission(calm_stream(), calm=calm_stream(step_s=10.0))


def test_a_budget_a_day_needs_the_seconds_of_a_row():
    with pytest.raises(StreamError, match="Seconds a row are not known"):
        commission(calm_stream(step_s=None))


def test_attacks_everywhere_leave_nothing_to_commission():
    stream = calm_stream()
    labels = np.ones(stream.test.n_rows, np.int8)
    labels[-1000:] = 0
    with pytest.raises(StreamError, match="too few to set a limit"):
        commission(stream.replace(labels=labels))
