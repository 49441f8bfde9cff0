"""Verdicts and advice in plain words."""

from dataclasses import replace

import pytest

from sightline.audit.attack_facts import AttackFacts, Movement
from sightline.judgement.event_test import (
    LEAST_ROWS,
    LEAST_WINDOWS,
    Flag,
    Way,
    WindowFacts,
)
from sightline.judgement.sentences import (
    FLAG_TEXTS,
    sentence_of,
    telemetry_finding,
)
from sightline.judgement.verdicts import (
    VERDICTS,
    Found,
    RungName,
    RungOutcome,
    SegmentDiagnosis,
    Verdict,
)


def outcome(coverage, *by, **known):
    given = {"calm": 0.01, "limit": 0.05, "visible": True, "p_value": 1 / 61}
    given |= {"ways": (Way.COVERAGE,), "peak": 3.0, "onset": 40.2}
    return RungOutcome(coverage=coverage, by=by, **(given | known))


LADDER_MADE = {
    "probe": outcome(0.12),
    "evidence": outcome(0.34),
    "reference": outcome(0.56),
    "space": outcome(0.78, "LIT301", "FIT101"),
    "memory": outcome(0.87, "LIT301", "300"),
    "quiet": outcome(0.23),
}
FACTS = AttackFacts(
    id="1",
    movement=Movement.STILL,
    p_value=0.38,
    n_windows=200,
    channels=("LIT301", "P101"),
    onset_s=130.0,
)


def text_of(verdict, **known):
    given = {
        "verdict": Verdict(verdict),
        "confidence": 0.95,
        "alternatives": {},
        "ladder": LADDER_MADE,
        "windows": WindowFacts(count=60, length=120, matched=400, disjoint=90),
        "flags": (),
        "contributing": (),
        "found": Found(
            is_found=True,
            p_value=1 / 61,
            q_value=0.05,
            statistic=Way.COVERAGE,
            rule=RungName.PROBE,
        ),
    }
    return sentence_of(SegmentDiagnosis(**(given | known)), n_channels=51)


@pytest.mark.parametrize("verdict", [v for v in VERDICTS if v != "undecided"])
def test_every_verdict_has_a_sentence_with_numbers(verdict):
    text = text_of(verdict, telemetry=FACTS)
    assert text.endswith(".")
    assert text[0].isupper()
    assert any(sign.isdigit() for sign in text)
    for words in ("{", "  ", "caused by", "nothing to see", "None"):
        assert words not in text


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        ("threshold", ["in hindsight 34%"]),
        ("drift", ["in hindsight 56%", "First confirm"]),
        ("diluted", ["in hindsight 78%", "evidence in LIT301 and FIT101", "51 pooled"]),
        ("sequential", ["Evidence in LIT301, averaged over 300 rows", "hindsight 87%"]),
        ("quiet", ["23% of the usual", "any of 400 stretches"]),
        ("detected", ["The p99 rule detects it: 12%", "none of 60", "(p 0.016)"]),
        ("not-in-telemetry", ["from 200 attack-free stretches (p 0.38)"]),
    ],
)
def test_sentences_say_what_was_measured(verdict, words):
    text = text_of(verdict, telemetry=FACTS)
    assert [word for word in words if word not in text] == []


def test_an_onset_is_a_multiple_of_the_limit():
    probe = outcome(0.02, ways=(Way.ONSET,))
    text = text_of("detected", ladder={**LADDER_MADE, "probe": probe})
    assert "its first 10 rows peak at 40 times the limit; none of 60" in text
    peak = replace(probe, ways=(Way.PEAK,))
    text = text_of("detected", ladder={**LADDER_MADE, "probe": peak})
    assert "it peaks at 3 times the limit" in text
    beyond = replace(probe, onset=None)
    text = text_of("detected", ladder={**LADDER_MADE, "probe": beyond})
    assert "far beyond the limit" in text


@pytest.mark.parametrize(
    ("p_value", "words"),
    [(1 / 61, "none of 60"), (2 / 61, "1 of 60"), (3 / 61, "2 of 60")],
)
def test_windows_that_do_the_same_are_counted(p_value, words):
    probe = outcome(0.5, p_value=p_value)
    text = text_of("detected", ladder={**LADDER_MADE, "probe": probe})
    assert f"{words} attack-free stretches of this length do" in text


def test_few_windows_print_no_p():
    text = text_of("detected", flags=(Flag.FEW_WINDOWS,))
    assert "none of 60 overlapping attack-free stretches" in text
    assert "(p" not in text


def test_doubt_comes_first_and_other_causes_last():
    assert "may be" in text_of("threshold", confidence=0.6)
    assert "may be" not in text_of("threshold", confidence=0.7)
    both = (Verdict.DRIFT, Verdict.QUIET)
    text = text_of("threshold", contributing=both)
    assert text.endswith("The repairs for drift and quiet show it as well.")
    assert "as well" not in text_of("detected", contributing=both)
    changed = text_of("threshold", flags=(Flag.STATE_CHANGED,))
    assert "state after the attack differs" in changed


def test_undecided_names_two_or_says_what_is_missing():
    text = text_of(
        "undecided",
        confidence=0.4,
        alternatives={"diluted": 0.5, "sequential": 0.4, "drift": 0.1},
    )
    assert "diluted (50% of draws) and sequential (40% of draws)" in text
    assert "drift" not in text
    text = text_of("undecided", windows=None, confidence=None, ladder={})
    assert f"at least {LEAST_WINDOWS} attack-free" in text
    assert f"or of {LEAST_ROWS} rows" in text


def test_the_telemetry_is_reported_with_its_p():
    assert "not judged" in telemetry_finding(None)
    moves = replace(FACTS, movement=Movement.MOVES, p_value=0.005)
    text = telemetry_finding(moves)
    assert "moves (p 0.005), most in LIT301 and P101" in text
    assert "after its start" in text
    unclear = replace(FACTS, movement=Movement.UNCLEAR, p_value=0.1)
    assert "unclear" in telemetry_finding(unclear)
    assert "200 attack-free stretches (p 0.38)" in telemetry_finding(FACTS)


def test_every_flag_has_a_text():
    assert set(FLAG_TEXTS) == set(Flag)
