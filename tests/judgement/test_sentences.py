"""Verdicts in plain words."""

from dataclasses import replace

import pytest

from sightline.judgement.ladder import Climbed
from sightline.judgement.sentences import advice_of, sentence_of
from sightline.judgement.verdicts import VERDICTS, Repair, RungOutcome, Verdict


def make_climbed(verdict, *, telemetry=False, by=("LIT301",), **known):
    def rung(share, *by):
        return RungOutcome(coverage=share, calm=0.01, limit=0.05, visible=True, by=by)

    rungs = {
        "detected": rung(0.12),
        "recalibrate": rung(0.34),
        "rereference": rung(0.56, "around it"),
        "refocus": rung(0.78, *by),
        "accumulate": rung(0.87, "average over 30"),
        "quiet": rung(0.23),
    }
    if telemetry or verdict == "not-in-telemetry":
        rungs["telemetry"] = rung(0.45, "FIT101 (change)")
    return Climbed(
        verdict=Verdict(verdict), rungs={} if verdict == "undecided" else rungs, **known
    )


def told(verdict, n_channels=51, also=(), more_alarms=None, **known):
    climbed = make_climbed(verdict, **known)
    return sentence_of(
        climbed, n_channels=n_channels, also=also, more_alarms=more_alarms
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
    assert "calm hours 1%" in text


def test_drift_asks_to_confirm_first():
    assert "Confirm" in told("drift")
    assert "around it" in told("drift")


def test_dilution_names_its_space_and_what_it_buys():
    assert "LIT301 alone" in told("diluted")
    assert "51 pooled channels" in told("diluted")
    assert "3 largest channels" in told("diluted", by=("largest 3",))
    group = told("diluted", by=("stage 1",), refocus_channels=("a", "b"))
    assert "stage 1 by itself" in group
    text = told("diluted", also=["4", "7"], more_alarms=0.25)
    assert "also show attacks 4 and 7, at 0.2 more false alarms a day." in text
    assert "It would come at 1.0 more" in told("diluted", more_alarms=1.0)


def test_other_causes_are_named_unless_detected():
    text = told("threshold", contributing=("threshold", "drift", "quiet"))
    assert text.endswith("Also shown by the repair for: drift, quiet.")
    assert "Also shown" not in told("detected", contributing=("threshold",))


def test_what_ones_own_rule_finds_is_not_told_as_unseen():
    climbed = make_climbed("weak-evidence")
    found = RungOutcome(coverage=0.9, calm=0.0, limit=0.1, visible=True, by=())
    missed = RungOutcome(coverage=0.0, calm=0.0, limit=0.1, visible=False, by=())
    for own, is_said in ((found, True), (missed, False)):
        rungs = {**climbed.rungs, "own-rule": own}
        text = sentence_of(replace(climbed, rungs=rungs), n_channels=51)
        assert text.startswith("Your own rule finds it") == is_said


def test_weak_evidence_says_whether_telemetry_was_judged():
    assert "none was given" in told("weak-evidence")
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


def test_advice_is_the_first_repair_that_buys_something():
    text = advice_of(
        {"quiet": make_repair(), "refocus": make_repair("3", "5", by=("LIT301",))}
    )
    assert "smaller spaces by themselves (LIT301)" in text
    assert "in hindsight it shows attacks 3 and 5 as well" in text
    assert "75% of all instead of 25%" in text
    assert text.endswith("from 2.0 to 3.5.")


def test_advice_beside_ones_own_rule_says_what_it_is_counted_against():
    spaces = make_repair("3", by=("LIT301",))
    text = advice_of({"own-rule": make_repair(), "refocus": spaces})
    assert "by themselves (LIT301) beside the p99 rule would serve" in text
    assert "instead of 25% (your own rule finds 25%)" in text
    best = replace(make_repair(), recall_before=0.8, recall_after=0.8)
    told = advice_of({"own-rule": best, "refocus": spaces})
    assert told.startswith("Your own rule finds 80% of all attacks; no repair")
    own = advice_of({"own-rule": make_repair("3"), "refocus": spaces})
    assert "the p99 rule beside your own would serve" in own


def test_advice_without_a_step_names_no_rates():
    text = advice_of({"quiet": make_repair("3", before=None, after=None)})
    assert "false alarms" not in text
    assert "shows attack 3 as well" in text


def test_advice_counts_where_names_are_many():
    assert "1, 2, 3, 4 and 2 more" in advice_of({"quiet": make_repair(*"123456")})


def test_advice_where_nothing_helps():
    assert advice_of({"quiet": make_repair()}).startswith("No repair would show")
