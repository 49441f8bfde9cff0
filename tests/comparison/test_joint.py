"""What several detectors together say of an attack: the veto and its laws."""

from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import make_stream

from sightline import evaluate
from sightline.audit.attack_facts import MOVES, STILL, AttackFacts, Movement
from sightline.comparison.runs import (
    LEAST_SHOWING,
    MatchedAttack,
    group_runs,
    joint_verdicts,
    joint_verdicts_on,
    telemetry_of,
)
from sightline.evaluation.result import SegmentResult
from sightline.judgement.verdicts import RungName, RungOutcome, Verdict
from sightline.storage import Result

RULES = (RungName.OWN_RULE, RungName.PROBE)
REPAIRS = (RungName.EVIDENCE, RungName.REFERENCE, RungName.SPACE, RungName.MEMORY)
NOT, WEAK = Verdict.NOT_IN_TELEMETRY, Verdict.WEAK_EVIDENCE
MEASURED = evaluate(
    make_stream(n_train=200, n_test=300, attacks=((50, 60),)),
    intervals=False,
    diagnosis=False,
).segments[0]


def facts(p_value, n_windows=200):
    movement = Movement.UNCLEAR
    if p_value <= MOVES:
        movement = Movement.MOVES
    elif p_value > STILL:
        movement = Movement.STILL
    return AttackFacts(id="1", p_value=p_value, n_windows=n_windows, movement=movement)


def seen(verdict, *shown, telemetry=None) -> SegmentResult:
    """Return an attack with a verdict, and the rungs that show it."""
    ladder = {
        str(name): RungOutcome(coverage=0.5, calm=0, limit=0.1, visible=name in shown)
        for name in RungName
    }
    return replace(MEASURED, verdict=verdict, ladder=ladder, telemetry=telemetry)


def joint(**segments):
    """Return the joint verdict of each detector, by name."""
    attack = MatchedAttack("1", (50, 60), dict.fromkeys(segments, 0), segments)
    return joint_verdicts_on(attack)


def words(**segments):
    return [one.verdict for one in joint(**segments).values()]


def still(*shown):
    return seen(NOT, *shown, telemetry=facts(0.38))


DETECTED = seen(Verdict.DETECTED, RungName.PROBE)


def test_one_word_for_all_where_nothing_shows_the_attack():
    together = joint(a=still(), b=seen(WEAK), c=still())
    assert {one.verdict for one in together.values()} == {NOT}
    assert {one.vetoed_by for one in together.values()} == {()}
    assert together["a"].note == "None of 3 detectors shows it."


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_that_shows_it_vetoes_and_is_named(rule):
    cause = Verdict.DETECTED if rule is RungName.OWN_RULE else Verdict.THRESHOLD
    together = joint(a=still(), b=seen(cause, rule), c=seen(WEAK))
    assert [one.verdict for one in together.values()] == [WEAK, cause, WEAK]
    assert [one.vetoed_by for one in together.values()] == [("b",), (), ("b",)]
    assert together["a"].note.endswith("does not show this attack, but b detects it.")


@pytest.mark.parametrize("rung", REPAIRS)
def test_two_detectors_with_a_repair_veto_one_alone_does_not(rung):
    cause = seen(Verdict.DILUTED, rung)
    assert LEAST_SHOWING == 2
    alone = joint(a=still(), b=cause, c=still())
    assert [one.verdict for one in alone.values()] == [NOT, NOT, NOT]
    assert "only b shows it, by a repair" in alone["a"].note
    both = joint(a=still(), b=cause, c=cause)
    assert both["a"].verdict is WEAK
    assert both["a"].vetoed_by == ("b", "c")
    assert both["a"].note.endswith("but b and c show it by a repair.")


def test_quiet_never_vetoes():
    quiet = seen(Verdict.QUIET, RungName.QUIET)
    assert words(a=still(), b=quiet, c=quiet, d=quiet)[0] is NOT


def test_a_detector_alone_keeps_its_verdict_and_says_nothing_of_others():
    assert joint(a=still())["a"].verdict is NOT
    assert joint(a=still())["a"].note == ""


def test_facts_from_most_calm_time_count_for_all():
    few, many = facts(0.9, n_windows=40), facts(0.03, n_windows=200)
    segments = {"a": seen(NOT, telemetry=few), "b": seen(WEAK, telemetry=many)}
    assert words(**segments) == [WEAK, WEAK]
    attack = MatchedAttack("1", (50, 60), {"a": 0, "b": 0}, segments)
    assert telemetry_of(attack) is many


def test_without_facts_verdicts_of_earlier_rules_stay_unless_vetoed():
    assert words(a=seen(NOT), b=seen(WEAK)) == [NOT, WEAK]
    assert words(a=seen(NOT), b=seen(WEAK), c=DETECTED)[:2] == [WEAK, WEAK]
    assert words(a=seen(None), b=seen(NOT)) == [None, NOT]


SHOWN = st.lists(st.sampled_from(list(RungName)), max_size=3)
FACTS = st.none() | st.builds(
    facts, st.sampled_from([0.01, 0.1, 0.3, 1.0]), st.sampled_from([40, 200])
)
SEGMENT = st.builds(
    lambda verdict, shown, telemetry: seen(verdict, *shown, telemetry=telemetry),
    st.none() | st.sampled_from(list(Verdict)),
    SHOWN,
    FACTS,
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from("abcd"), SEGMENT, min_size=1))
def test_the_order_of_detectors_changes_nothing(segments):
    expected = joint(**segments)
    for order in permutations(segments):
        assert joint(**{name: segments[name] for name in order}) == expected


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from("abcd"), SEGMENT))
def test_a_detector_that_detects_removes_every_not_in_telemetry(segments):
    assert NOT not in words(**segments, detecting=DETECTED)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from("abcd"), SEGMENT, min_size=1))
def test_a_cause_is_changed_only_where_all_get_the_same_word(segments):
    together = joint(**segments)
    judged = [one.verdict for one in together.values() if one.verdict is not None]
    for name, segment in segments.items():
        if together[name].verdict is NOT and len(judged) > 1:
            facts_of_all = telemetry_of(MatchedAttack("1", (50, 60), {}, segments))
            if facts_of_all is not None:
                assert set(judged) == {NOT}
        elif segment.verdict not in (NOT, WEAK):
            assert together[name].verdict is segment.verdict
            assert together[name].vetoed_by == ()
        else:
            assert together[name].verdict in (NOT, WEAK)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from("abcd"), SEGMENT, min_size=1))
def test_detectors_with_facts_never_contradict_each_other(segments):
    if not any(segment.telemetry for segment in segments.values()):
        return
    open_words = {word for word in words(**segments) if word in (NOT, WEAK)}
    assert len(open_words) <= 1


def test_verdicts_of_a_study_by_testbed_detector_and_own_id():
    results = []
    for name, strength in (("loud", 6.0), ("deaf", 0.0)):
        stream = make_stream(
            n_train=400,
            n_test=900,
            attacks=((300, 330), (600, 640)),
            strength=strength,
            detector=name,
            testbed="plant",
            name=name,
        )
        results.append(Result.of(evaluate(stream, intervals=False)))
    found = joint_verdicts(group_runs(results))
    assert list(found) == [("plant", d, i) for i in "12" for d in ("loud", "deaf")]
    assert found["plant", "loud", "1"].verdict is Verdict.DETECTED
