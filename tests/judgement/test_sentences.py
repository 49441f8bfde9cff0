"""Verdicts and advice in plain words."""

from dataclasses import replace

import numpy as np
import pytest
from contradictions import contradictions

from sightline.audit.attack_facts import AttackFacts, Movement
from sightline.judgement.event_test import (
    LEAST_ROWS,
    LEAST_WINDOWS,
    Flag,
    Judged,
    Way,
    WindowFacts,
)
from sightline.judgement.judge import (
    FLAG_TEXTS,
    sentence_of,
    telemetry_finding,
)
from sightline.judgement.ladder import (
    LADDER,
    LADDER_LEVEL,
    ORDER,
    Kind,
    MomentCases,
    contributing,
    decide,
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
        (
            "diluted",
            ["in hindsight 78%", "in LIT301 and FIT101", "51 channels"],
        ),
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


# --- No clause contradicts the ladder -------------------------------------------------


def random_diagnosis(rng):
    """Return a record whose verdict follows from its random rungs, as `decide` says."""
    judged, outcomes = {}, {}
    has_own, has_moment = bool(rng.random() < 0.3), rng.random() < 0.8
    p_value = float(rng.choice([1, 1, 2, 3, 10])) / 61
    names = ["own-rule"] * has_own + ["probe", "evidence", "reference", "space"]
    names = [n for n in (*names, "memory") if n != "reference" or rng.random() < 0.5]
    standing = frozenset(n for n in names[: 1 + has_own] if rng.random() < 0.1)
    for name in names:
        coverage, calm = float(rng.choice([0, 0.02, 0.29, 0.5, 1])), rng.random() * 0.5
        limit, far = min(calm + rng.random() * 0.3, 1.0), rng.random() < 0.1
        by_coverage = bool(coverage >= calm + 0.25 and coverage > limit)
        has_peaks = name in ("own-rule", "probe", "evidence", "reference")
        by_peak = bool(has_peaks and rng.random() < 0.15)
        far = far and by_coverage and name in ("probe", "evidence")
        one = Judged(
            by_coverage=np.array([by_coverage]),
            by_peak=np.array([by_peak]),
            p_value=np.array([p_value]),
            coverage=np.array([coverage]),
            best=np.zeros(1, np.int64),
            way=np.zeros(1, np.int64),
            t=np.array([1.0]),
            calm_t=np.where(np.arange(60) < round(p_value * 61) - 1, 2.0, 0.0)[None],
            median=np.zeros((1, 1, 3)),
            rare=np.zeros((1, 1, 3)),
            peak_effects=np.array([[by_peak, False]]),
            is_far=np.array([far]),
        )
        judged[name] = one
        pays = LADDER[name].kind is Kind.RULE or p_value <= LADDER_LEVEL or far
        ways = (Way.COVERAGE,) * (by_coverage and pays) + (Way.PEAK,) * by_peak
        ways = () if name in standing else ways
        peak = None if name == "own-rule" else float(np.round(3 + 90 * rng.random()))
        known = {"calm": calm, "limit": limit, "p_value": p_value, "peak": peak}
        known |= {"ways": ways, "visible": bool(ways), "onset": peak}
        outcomes[name] = outcome(coverage, "LIT301", **known)
    is_shown, ratio = rng.random() < 0.4, float(rng.choice([4.0, 10.0, 3000.0]))
    is_quiet = rng.random() < 0.2
    cases = None
    if has_moment:
        far = np.array([ratio >= 10])
        cases = MomentCases(is_shown=np.array([is_shown]), is_far=far)
        n_blocks = int(rng.choice([60, 900]))
        known = {"ways": (), "visible": is_shown, "limit": 1.4, "n_blocks": n_blocks}
        outcomes["moment"] = outcome(ratio, "LIT301", **known)
    outcomes["quiet"] = outcome(0.3, ways=(), visible=is_quiet)
    untried = rng.random() < 0.2
    verdicts, ladder_p = decide(
        judged,
        np.array([is_quiet]),
        standing=standing,
        moment=cases,
        untried=untried,
    )
    verdict = ORDER[verdicts[0]]
    is_open = verdict is Verdict.UNDECIDED
    if verdict is Verdict.WEAK_EVIDENCE and rng.random() < 0.5:
        verdict = Verdict.NOT_IN_TELEMETRY
    shown = [name for name, one in outcomes.items() if one.visible]
    return SegmentDiagnosis(
        verdict=verdict,
        confidence=None if is_open else float(rng.choice([0.6, 0.8, 1.0])),
        alternatives={},
        ladder={n: outcomes[n] for n in LADDER if n in outcomes},
        ladder_p_value=float(ladder_p[0]),
        contributing=contributing(shown, verdict),
        windows=WindowFacts(
            count=60, length=120, matched=400, disjoint=90, margin=int(rng.integers(9))
        ),
        untried=("space",) if is_open else (),
        flags=(Flag.FEW_WINDOWS,) if rng.random() < 0.2 else (),
        found=Found(
            is_found=verdict is Verdict.DETECTED,
            p_value=p_value,
            q_value=p_value,
            statistic=Way.COVERAGE,
            rule=RungName.OWN_RULE if has_own else RungName.PROBE,
        ),
    )


def test_no_clause_contradicts_the_ladder():
    rng, said = np.random.default_rng(0), set()
    for _ in range(6000):
        record = random_diagnosis(rng)
        text = sentence_of(record, n_channels=51)
        record = replace(record, sentence=text)
        assert contradictions(record) == []
        assert "  " not in text
        assert text.endswith(".")
        said |= {(record.verdict, c) for c in WATCHED if c in text}
    # Every clause that can be wrong was said.
    assert {clause for _, clause in said} == {*WATCHED}


WATCHED = (
    "hidden among",
    "clearer there than",
    "single rows do not stand out",
    "single rows are as attack-free ones may be",
    "channels pooled do not tell",
    "the one from training does not tell",
    "Missed by its limit",
    "Not told apart by its limit",
    "not with the present limit",
    "no repair shows it",
    "it peaks at",
    "one moment of",
    "a handful left out",
    "10 or more times",
    "nothing explains",
    "the p99 rule shows it",
    "could not be tried",
)


@pytest.mark.parametrize(
    ("verdict", "words", "rungs"),
    [
        ("diluted", "hidden among", {"evidence": {}}),
        ("diluted", "hidden among", {"evidence": {"visible": False}}),
        ("sequential", "single rows do not stand out", {"probe": {}}),
        (
            "weak-evidence",
            "no repair shows it (at best 50%",
            {"probe": {"coverage": 1.0}},
        ),
        ("sequential", "single rows do not stand out", {"space": {}}),
        ("threshold", "Missed by its limit", {"probe": {"coverage": 1.0}}),
        ("weak-evidence", "no repair shows it (at best 50%", {"space": {}}),
    ],
)
def test_a_contradiction_is_seen(verdict, words, rungs):
    ladder = {
        name: replace(one, visible=False) for name, one in LADDER_MADE.items()
    } | {name: replace(LADDER_MADE[name], **known) for name, known in rungs.items()}
    text = f"{words} {{}}."
    record = SegmentDiagnosis(verdict=Verdict(verdict), ladder=ladder, sentence=text)
    assert contradictions(record)
