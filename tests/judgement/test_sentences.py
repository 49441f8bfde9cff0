"""Verdicts in plain words."""

from dataclasses import replace

import pytest

from sightline.judgement.calm import BUDGET, LEAST_ROWS, LEAST_WINDOWS, RARE
from sightline.judgement.evidence import WAYS
from sightline.judgement.ladder import LADDER, Finding, LadderResult
from sightline.judgement.refit import RefitScope
from sightline.judgement.sentences import advice_of, sentence_of
from sightline.judgement.subspaces import Subspace, SubspaceKind
from sightline.judgement.verdicts import VERDICTS, Repair, RungOutcome, Verdict

LIT301 = Subspace(SubspaceKind.CHANNEL, "LIT301", ("LIT301",), 1, 0)
LARGEST = Subspace(SubspaceKind.LARGEST, "largest 3", (), 3, 60)
GROUP = Subspace(SubspaceKind.GROUP, "stage 1", ("a", "b"), 2, 51)


def make_result(verdict, *, telemetry=False, space=LIT301, **given):
    def finding(share, used=None, by=""):
        names = (by or str(used),)
        outcome = RungOutcome(
            coverage=share, calm=0.01, limit=0.05, visible=True, by=names
        )
        return Finding(outcome, used)

    findings = {
        "detected": finding(0.12),
        "recalibrate": finding(0.34),
        "rereference": finding(0.56, RefitScope.AROUND),
        "refocus": finding(0.78, space),
        "accumulate": finding(0.87, WAYS[0]),
        "quiet": finding(0.23),
    }
    if telemetry or verdict == "not-in-telemetry":
        findings["telemetry"] = finding(0.45, by="FIT101 (change)")
    return LadderResult(
        verdict=Verdict(verdict),
        findings={} if verdict == "undecided" else findings,
        **given,
    )


def told(verdict, n_channels=51, also=(), more_alarms=None, **given):
    result = make_result(verdict, **given)
    return sentence_of(
        result, n_channels=n_channels, also=also, more_alarms=more_alarms
    )


@pytest.mark.parametrize("verdict", VERDICTS)
def test_every_verdict_has_a_sentence_with_numbers(verdict):
    text = told(verdict)
    assert text.endswith(".")
    assert text[0].isupper()
    assert any(sign.isdigit() for sign in text)
    assert "caused by" not in text


@pytest.mark.parametrize(
    ("verdict", "share"),
    [("threshold", "34%"), ("drift", "56%"), ("diluted", "78%"), ("sequential", "87%")],
)
def test_repairs_are_told_in_hindsight(verdict, share):
    text = told(verdict)
    assert f"in hindsight {share}" in text
    assert "attack-free time: 1%" in text


def test_drift_asks_to_confirm_first():
    assert "First confirm" in told("drift")
    assert "around the attack" in told("drift")


def test_dilution_names_its_space_and_what_it_gains():
    assert "LIT301 alone" in told("diluted")
    assert "51 pooled channels" in told("diluted")
    assert "3 largest channels" in told("diluted", space=LARGEST)
    assert "stage 1 separately stands out" in told("diluted", space=GROUP)
    text = told("diluted", also=["4", "7"], more_alarms=0.25)
    assert "also detects attacks 4 and 7, with 0.2 more false alarms a day." in text
    assert "This gives 1.0 more false alarms" in told("diluted", more_alarms=1.0)
    assert "This gives 2.5 fewer false alarms" in told("diluted", more_alarms=-2.5)
    assert "also detects attack 4." in told("diluted", also=["4"])


def test_a_channel_with_the_name_of_a_kind_of_space_is_a_channel():
    name = "largest tank level"
    tank = Subspace(SubspaceKind.CHANNEL, name, (name,), 1, 0)
    text = told("diluted", space=tank)
    assert "largest tank level alone stands out" in text
    assert "channels of each row" not in text
    repairs = {"refocus": make_repair("3", by=(name,))}
    advice = advice_of(repairs, {"refocus": [tank]})
    assert advice.startswith("First try scoring largest tank level separately.")


def test_other_causes_are_named_unless_detected():
    three = (Verdict.THRESHOLD, Verdict.DRIFT, Verdict.QUIET)
    text = told("threshold", contributing=three)
    assert text.endswith("The repairs for drift and quiet show it as well.")
    text = told("threshold", contributing=three[:2])
    assert text.endswith("The repair for drift shows it as well.")
    assert "as well" not in told("detected", contributing=three[:1])


def test_what_the_own_rule_detects_is_not_reported_as_missed():
    result = make_result("weak-evidence")
    found = RungOutcome(coverage=0.9, calm=0.0, limit=0.1, visible=True, by=())
    missed = RungOutcome(coverage=0.0, calm=0.0, limit=0.1, visible=False, by=())
    for own, is_said in ((found, True), (missed, False)):
        findings = {**result.findings, "own-rule": Finding(own)}
        text = sentence_of(replace(result, findings=findings), n_channels=51)
        assert text.startswith("Your own rule detects it") == is_said


def test_weak_evidence_says_whether_telemetry_was_judged():
    assert "no usable one was given" in told("weak-evidence")
    assert "FIT101 (change)" in told("weak-evidence", telemetry=True)


def make_repair(*gained, before=2.0, after=3.5, by=()):
    return Repair(
        recall_before=0.25,
        recall_after=0.75,
        segments_gained=gained,
        false_alarms_per_day_before=before,
        false_alarms_per_day_after=after,
        by=by,
    )


def test_advice_is_the_first_repair_that_gains_something():
    text = advice_of(
        {"quiet": make_repair(), "refocus": make_repair("3", "5", by=("LIT301",))},
        {"refocus": [LIT301]},
    )
    assert text.startswith("First try scoring LIT301 separately. In hindsight")
    assert "this also detects attacks 3 and 5" in text
    assert "75% of all attacks instead of 25%" in text
    assert text.endswith("from 2.0 to 3.5.")


def test_advice_beside_ones_own_rule_says_what_it_is_counted_against():
    spaces = make_repair("3", by=("LIT301",))
    text = advice_of(
        {"own-rule": make_repair(), "refocus": spaces}, {"refocus": [LIT301, LARGEST]}
    )
    both = "LIT301 and the 3 largest channels of each row"
    assert f"scoring {both} separately in addition to the p99 rule." in text
    assert "instead of 25% (your own rule: 25%)" in text
    best = replace(make_repair(), recall_before=0.8, recall_after=0.8)
    told = advice_of({"own-rule": best, "refocus": spaces})
    assert told.startswith("Your own rule detects 80% of all attacks; no repair")
    own = advice_of({"own-rule": make_repair("3"), "refocus": spaces})
    assert own.startswith("First try using the p99 rule beside your own.")


def test_advice_without_a_step_names_no_rates():
    text = advice_of({"quiet": make_repair("3", before=None, after=None)})
    assert "false alarms" not in text
    assert "this also detects attack 3:" in text


def test_advice_counts_where_names_are_many():
    assert "1, 2, 3, 4 and 2 more" in advice_of({"quiet": make_repair(*"123456")})


def test_advice_where_nothing_helps():
    assert advice_of({"quiet": make_repair()}).startswith("No repair shows")


def test_numbers_in_sentences_are_those_of_the_constants():
    assert BUDGET == 0.01
    assert "1% of training" in told("detected")
    assert 1 - RARE == pytest.approx(1 / 20)
    assert "one window in 20 above 5%" in told("threshold")
    text = told("undecided")
    assert f"at least {LEAST_WINDOWS} attack-free stretches" in text
    assert f"or of {LEAST_ROWS} rows" in text


@pytest.mark.parametrize("name", [n for n, r in LADDER.items() if r.repair])
def test_every_repair_can_be_advised(name):
    used = {"refocus": [LARGEST], "accumulate": [WAYS[0], WAYS[2]]}
    used["rereference"] = [RefitScope.WHOLE]
    text = advice_of({str(name): make_repair("3")}, used)
    assert text.startswith("First try ")
    assert "{" not in text
    assert "  " not in text
