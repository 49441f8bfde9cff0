"""The one decision: outcomes by hand-made lines, sight in closed form, episodes."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline import (
    Budget,
    ResidualStream,
    StreamError,
    commission,
    find_episodes,
    read_rule,
    write_rule,
)
from sightline.metrics.alarm_load import AlarmLoad, AttackAlarms
from sightline.rules.choose import (
    IN_USE,
    advice,
    after_later_rows,
    chance_kept,
    choose_rule,
    choose_set,
    is_over,
    load_words,
    places_of,
    ranges_of,
    sight_of,
)
from sightline.rules.judging import (
    ChoiceOutcome,
    RuleLine,
    RuleOutcome,
    SetAction,
    SetAside,
)
from sightline.storage import join_files
from tests.rules.made_rules import made_rules, plant_stream
from tests.rules.test_commission import calm_stream


def line(name, chance=0.9, sight=0.5, **known):
    values = {"limit": 2.0, "limit_with": None, "step": 2.0, "swing": 1.1} | known
    return RuleLine(name=name, chance_kept=chance, sight=sight, **values)


def decision(*lines, stale=1.0, far_share=0.0, episodes=()):
    return choose_rule(lines, episodes, Budget(), stale=stale, far_share=far_share)


EPISODE = SetAside(start=10, stop=20, peak=9.0)


@pytest.mark.parametrize(
    ("lines", "known", "outcome", "words"),
    [
        ([line("energy")], {}, ChoiceOutcome.TAKE, "Take rule 'energy', limit 2,"),
        (
            [line("energy", chance=0.3)],
            {},
            ChoiceOutcome.CONDITIONS,
            "its chance to keep the budget is 30%",
        ),
        (
            [line("energy", sight=0.1)],
            {},
            ChoiceOutcome.CONDITIONS,
            "it sees no step below",
        ),
        (
            [line("energy", chance=0.3)],
            {"stale": 8600.0},
            ChoiceOutcome.TRAIN_AGAIN,
            "8,600 times as far off as in train",
        ),
        (
            [line("energy", step=86.0), line("z", step=40.0)],
            {},
            ChoiceOutcome.TRAIN_AGAIN,
            "is 40 spreads (10 allowed)",
        ),
        (
            [line("energy", swing=84.0)],
            {},
            ChoiceOutcome.REVIEW_FIRST,
            "between 4.8 and 7.2 alarms a day the limit of 'energy' changes 84-fold",
        ),
        (
            [line("energy", guard=84.0)],
            {},
            ChoiceOutcome.REVIEW_FIRST,
            "if 60 s more before and after each attack are left out, the limit of "
            "'energy' changes 84-fold",
        ),
        (
            [line("energy", limit_with=4.0, moves=2**0.5)],
            {"episodes": (EPISODE,)},
            ChoiceOutcome.REVIEW_FIRST,
            "Look at 1 episode first: if it is an incident, the limit of 'energy' is "
            "2, else 4.",
        ),
        (
            [line("all", limit_with=2.1, moves=1.5)],
            {"episodes": (EPISODE, EPISODE)},
            ChoiceOutcome.REVIEW_FIRST,
            "Look at 2 episodes first: if they are incidents, the limits of 'all' stay "
            "as they are, else that of a usual tag is 1.5 times as high",
        ),
        ([line("all", limit_with=2.1, moves=1.1)], {}, ChoiceOutcome.TAKE, "Take"),
        (
            [line("energy")],
            {"far_share": 0.2},
            ChoiceOutcome.REVIEW_FIRST,
            "have no common normal",
        ),
    ],
)
def test_every_outcome_says_why(lines, known, outcome, words):
    found = decision(*lines, **known)
    assert found.outcome is outcome
    assert words in found.sentence


def test_energy_is_taken_unless_another_has_a_clear_lead():
    assert decision(line("energy"), line("all", sight=0.6)).rule == "energy"
    assert decision(line("energy"), line("all", sight=0.7)).rule == "all"


def test_a_rule_that_sees_nothing_is_never_taken():
    blind = line("energy", chance=1.0, sight=0.0)
    assert decision(blind, line("z", chance=0.6, sight=0.3)).rule == "z"
    assert not decision(blind).outcome.has_rule


def test_a_rule_that_hangs_on_few_peaks_gives_way_to_a_firm_one():
    found = decision(line("energy", swing=50.0), line("z", sight=0.3))
    assert (found.rule, found.outcome) == ("z", ChoiceOutcome.TAKE)


def test_an_alarm_more_or_less_changes_little():
    """324 or 330 alarms in 54 days, for a budget of 6 a day."""
    chances = [
        chance_kept(
            AlarmLoad(
                alarms=n, days=54.0, alarms_per_day=n / 54.0, share_of_time=0.005
            ),
            np.full(54, 5),
            np.full(54, 1000),
            Budget(),
        )
        for n in (324, 330)
    ]
    assert chances[0] == pytest.approx(chances[1], abs=0.01)


def test_steps_of_the_sight_reach_the_limit_exactly():
    """A lasting step of the size found, in any one channel, is at the limit."""
    made = commission(calm_stream(), budget="6/day")
    stream, normal = made.source.stream, made.source.normal
    fitting = type("Fitting", (), {"period": made.source.calm, "normal": normal})
    places, ranges = places_of(made.source.calm), ranges_of(stream)
    for name in ("energy", "x", "z"):
        rule = made.rules[name].rule
        sight, step = sight_of(rule, fitting, places, ranges)
        assert 0 < sight < 1
        # Without noise a step of each channel at a time, by search.
        found = []
        for j in range(stream.p):
            low, high = 0.0, 1e3
            for _ in range(60):
                size = (low + high) / 2
                row = normal.train_mean.copy()
                row[j] += size * normal.spread[j]
                is_alarm = rule.alarms(row[None])[0]
                low, high = (low, size) if is_alarm else (size, high)
            found.append(high)
        assert step == pytest.approx(np.median(found), rel=1e-6)


def glitched(size):
    calm = calm_stream()
    rows = np.concatenate([np.asarray(c) for c in calm.test.chunks()])
    for row in (500, 1500, 2300):
        rows[row : row + 3, 1] += size
    return ResidualStream(
        np.concatenate([np.asarray(c) for c in calm.train.chunks()]),
        rows,
        channels=calm.channels,
        step_s=calm.step_s,
    )


def test_unexplained_episodes_are_left_out_with_both_limits():
    clean, made = commission(glitched(0.0)), commission(glitched(300.0))
    choice = made.facts.choice
    assert {one.start for one in choice.episodes} == {500, 1500, 2300}
    assert all(one.peak > 5 for one in choice.episodes)
    for one in choice.lines:
        usual = clean.rules[one.name].rule.limit
        assert one.limit == pytest.approx(usual, rel=0.35)
        assert one.limit_with is not None
    assert clean.facts.choice.episodes == ()
    assert "3 unexplained episodes were left out" in " ".join(made.facts.notes)


def test_a_joined_rule_moves_with_the_member_that_moves_most():
    """Its own limit is a factor of theirs, and says little."""
    stream = glitched(300.0)
    lines = {one.name: one for one in commission(stream).facts.choice.lines}
    found = [abs(np.log(lines[name].moves)) for name in ("x", "z", "x~", "z~", "all")]
    assert found[-1] > 0.8 * max(found) > np.log(1.2)
    joined = replace(lines["all"], sight=1.0, limit_with=lines["all"].limit)
    found = decision(joined, episodes=(EPISODE,))
    assert found.outcome is ChoiceOutcome.REVIEW_FIRST


@pytest.mark.parametrize(
    "decisions", [["incident"] * 3, ["normal"] * 3, ["incident", "unknown", "unknown"]]
)
def test_a_review_decides_what_becomes_of_an_episode(decisions, tmp_path):
    """Normal rows return; the others stay out, and nobody is asked twice."""
    stream = glitched(300.0)
    first = commission(stream).facts.choice
    assert first.outcome is ChoiceOutcome.REVIEW_FIRST
    assert [one.rows for one in first.episodes] == [
        (start, start + 3) for start in (500, 1500, 2300)
    ]
    assert all(one.tags[0] == stream.channels[1] for one in first.episodes)
    lines = [
        f"{one.rows[0]},{one.rows[1] - 1},9,,{decision},"
        for one, decision in zip(first.episodes, decisions, strict=True)
    ]
    path = tmp_path / "review.csv"
    path.write_text("\n".join(["start,end,peak,tags,decision,note", *lines]))
    made = commission(join_files(stream, attacks=path))
    choice = made.facts.choice
    assert choice.episodes == ()
    assert choice.outcome is not ChoiceOutcome.REVIEW_FIRST
    wanted = {one.name: one for one in first.lines}
    for one in choice.lines:
        before = wanted[one.name]
        usual = before.limit_with if "normal" in decisions else before.limit
        assert one.limit == pytest.approx(usual, rel=0.05)


def test_what_was_left_out_is_among_the_episodes_to_review():
    stream = glitched(300.0)
    found = {(one.start, one.stop) for one in find_episodes(stream, most=1)}
    asides = {one.rows for one in commission(stream).facts.choice.episodes}
    assert all(any(a < s and b > e for a, b in found) for e, s in asides)


def test_the_rule_file_holds_the_sentence_of_the_facts(tmp_path):
    made = commission(calm_stream())
    write_rule(made, tmp_path / "rule.json")
    assert read_rule(tmp_path).origin.advice == made.facts.advice
    assert made.facts.advice.startswith(made.facts.choice.sentence)


def test_no_label_and_no_later_row_changes_the_decision():
    calm = calm_stream()
    rows = np.concatenate([np.asarray(c) for c in calm.test.chunks()])
    labels = np.zeros(len(rows), int)
    split = commission(calm).facts.split
    rows[split:] *= 3.0
    labels[split + 500 : split + 600] = 1
    other = calm.replace(test=rows, labels=labels)
    choices = [commission(one).facts.choice for one in (calm, other)]
    assert choices[0].lines == choices[1].lines
    # Later rows may only rule it out: here every rule.
    assert choices[0].outcome.has_rule
    assert choices[1].outcome is ChoiceOutcome.NO_RULE
    assert choices[1].sentence.startswith("No rule yet: on judged rows")


def outcomes(**shares):
    """Rules by name, each in alarm for a share of later days."""
    return [outcome(name, (), 0.9, part) for name, part in shares.items()]


def test_a_rule_over_twice_the_budget_on_judged_rows_is_never_advised():
    lines = line("energy", sight=0.3), line("z")
    choice = decision(*lines)
    assert choice.rule == "z"
    for z, energy, rule, outcome in (
        (0.02, 0.9, "z", ChoiceOutcome.TAKE),
        (0.021, 0.02, "energy", ChoiceOutcome.TAKE),
        (0.021, 0.021, "z", ChoiceOutcome.NO_RULE),
    ):
        found = after_later_rows(choice, outcomes(energy=energy, z=z), Budget())
        assert (found.rule, found.outcome) == (rule, outcome)
        assert (found == choice) == (rule == "z" and outcome.has_rule)
    # Nor is `energy` in its place, where nobody may take it.
    for other in (line("energy", sight=0.0), line("energy", swing=9.0)):
        choice = decision(other, line("z"))
        found = after_later_rows(choice, outcomes(energy=0.0, z=0.1), Budget())
        assert found.outcome is ChoiceOutcome.NO_RULE


def after_incidents(n_rows):
    """Two tags; after late incidents before the split one stays off for some rows."""
    rng = np.random.default_rng(4)
    rows, labels = rng.normal(size=(60_000, 2)), np.zeros(60_000, int)
    for start in range(1000, 60_000, 2500):
        labels[start : start + 60] = 1
        rows[start : start + 60] += 9.0
        if 13_000 < start < 21_000:
            rows[start + 60 : start + 60 + n_rows, 1] += 9.0
    return ResidualStream(rng.normal(size=(5000, 2)), rows, labels, step_s=10.0)


def test_a_rule_that_stands_after_incidents_has_less_chance():
    """The attack-free rows that set limits hold little of that time."""
    for n_rows, low, high in ((0, 0.5, 1.0), (600, 0.0, 0.4)):
        choice = commission(after_incidents(n_rows)).facts.choice
        assert all(low <= one.chance_kept <= high for one in choice.lines), n_rows


def test_a_user_who_chooses_is_obeyed_and_nothing_is_decided():
    made = commission(calm_stream(), choose="z")
    assert made.facts.choice is None
    assert made.has_rule
    assert made.facts.advice.startswith("You chose rule 'z'")


def test_results_of_earlier_versions_keep_their_advice():
    facts = replace(made_rules().facts, choice=None, advice="Keep the p99 rule.")
    assert advice(facts) == "Keep the p99 rule."


def test_few_alarms_are_counted_and_not_turned_into_a_rate():
    load = AlarmLoad(alarms=1, days=0.3, alarms_per_day=3.3, share_of_time=0.0)
    assert load_words(load) == "1 alarm in 0.3 days (0.0% of time)"


def test_either_the_count_or_the_share_can_exceed_a_budget():
    facts = made_rules().facts
    load = AlarmLoad(alarms=1, days=1.0, alarms_per_day=7.0, share_of_time=0.0)
    assert is_over(load, facts)
    assert is_over(replace(load, alarms_per_day=1.0, share_of_time=0.02), facts)


# --- Keep, add or replace -------------------------------------------------------------

IDS = tuple("ABCD")


def outcome(name, which, per_day, part=0.001, n=4):
    load = AlarmLoad(
        alarms=round(10 * per_day),
        days=10.0,
        alarms_per_day=per_day,
        share_of_time=part,
    )
    attacks = AttackAlarms(
        n_attacks=n,
        caught=len(which),
        caught_by_chance=0.1,
        raised=len(which),
        raised_by_chance=0.1,
        rings=len(which),
        rings_by_chance=0.1,
        skill=None,
        delay_s=None,
        which=tuple(which),
    )
    return RuleOutcome(name=name, limit=1.0, load=load, attacks=attacks)


def test_a_rule_that_catches_by_chance_gives_way():
    """What only it catches is named, and first, though both together would fit."""
    by_chance, better = outcome(IN_USE, "ABC", 5), outcome("z", "BD", 5)
    by_chance = replace(by_chance, attacks=replace(by_chance.attacks, p_value=0.6))
    better = replace(better, attacks=replace(better.attacks, p_value=0.001))
    both = outcome("", "", 9.0).load
    found = choose_set(by_chance, better, both, Budget())
    assert found.action is SetAction.REPLACE
    assert found.sentence.startswith("Attacks A and C would be lost and attack D is")
    words = "for the rule in use catches no more than chance, 3 of 4 attacks (0.1 by"
    assert words in found.sentence


def in_set(before, after, together=8.0):
    both = outcome("", "", together).load
    return choose_set(outcome(IN_USE, *before), outcome("z", *after), both, Budget())


@pytest.mark.parametrize(
    ("before", "after", "together", "action", "words"),
    [
        (("AB", 9), ("AB", 5), 9, "replace", "nothing that is caught now is lost."),
        (("AB", 5), ("ABC", 6), 9, "replace", "lost and attack C is gained"),
        (("AB", 5), ("AB", 6), 9, "keep", "catch the same and save nothing"),
        (("AB", 5), ("BCD", 4), 9, "add", "lose attack A, and it gains attacks C and"),
        (("A", 5), ("AB", 13), 11, "add", "it gains attack B; both together catch 2"),
        (("AB", 5), ("BC", 5), 13, "keep", "lose attack A and gain attack C, and bo"),
        (("AB", 5), ("B", 2), 6, "keep", "would lose attack A and gain nothing"),
        (("AB", 5), ("ABC", 13), 14, "keep", "to gain attack C it makes 13 alarms"),
        (
            ("ABC", 80),
            ("BD", 5),
            81,
            "replace",
            "Attacks A and C would be lost and att",
        ),
        (("ABC", 80, 0.2), ("BD", 5, 0.06), 81, "replace", "more than twice 6 a day."),
        # 5 alarms a day are within 6 a day: the time is too much.
        (
            ("ABC", 5, 0.2),
            ("AB", 4, 0.01),
            9,
            "replace",
            "(20.0% of time), more than twice 1% of",
        ),
        # And most would be lost, which a higher budget keeps.
        (("ABC", 5, 0.145), ("B", 4, 0.01), 9, "neither", "keep it, allow 6/day,15%;"),
        (("ABC", 9, 0.145), ("B", 4, 0.01), 9, "neither", "keep it, allow 9/day,15%;"),
        (("ABC", 5, 0.6), ("B", 4, 0.01), 9, "replace", "would be lost: replace"),
        (("", 80, 0.5, 0), ("", 5, 0.001, 0), 81, "replace", "no attack is known"),
        (("", 5, 0.001, 0), ("", 6, 0.001, 0), 7, "keep", "no attack is known"),
        (("AB", 13), ("A", 14), 20, "neither", "is within 2 budgets: they make 13"),
        (("A", 13), ("AB", 14), 20, "neither", "train the detector again."),
    ],
)
def test_keep_add_or_replace(before, after, together, action, words):
    found = in_set(before, after, together)
    assert found.action == action
    assert words in found.sentence
    assert found.sentence.count("rule 'z'") == 1


@given(
    st.lists(st.sampled_from(IDS), unique=True),
    st.lists(st.sampled_from(IDS), unique=True),
    st.tuples(st.floats(0, 40), st.floats(0, 40)),
)
def test_nothing_is_lost_in_silence(before, after, costs):
    found = in_set((before, costs[0]), (after, costs[1]), sum(costs))
    assert {*found.lost} == {*before} - {*after}
    assert {*found.gained} == {*after} - {*before}
    if found.action is SetAction.REPLACE and found.lost:
        # What is lost comes first, and only a rule that costs too much gives way.
        assert found.sentence.startswith("A")
        assert costs[0] > 12
        assert costs[1] <= max(12, costs[0])
        assert all(
            one in found.sentence.split(" would be lost")[0] for one in found.lost
        )
    if found.action is SetAction.KEEP:
        # Never a rule that costs over twice the budget.
        assert costs[0] <= 12
    if found.action is SetAction.ADD:
        assert found.gained
        assert sum(costs) <= 12


def test_the_rule_in_use_is_judged_on_the_same_rows():
    """A rule against itself is kept; one of a far higher limit gives way."""
    stream = plant_stream()
    first = commission(stream, choose="all")
    rule = first.chosen.rule
    same = commission(stream, choose="all", keep=rule).facts
    assert same.present[-1].name == IN_USE
    assert same.present[-1].attacks == same.row("all").attacks
    assert same.present[-1].load == same.row("all").load
    assert same.set_choice.action is SetAction.KEEP
    assert same.set_choice.sentence in same.advice
    deaf = commission(stream, choose="all", keep=rule.with_limit(1e6)).facts
    assert deaf.set_choice.action is SetAction.REPLACE
    assert deaf.set_choice.gained == deaf.row("all").attacks.which
    with pytest.raises(StreamError, match="reads other channels"):
        commission(calm_stream(), keep=rule)
