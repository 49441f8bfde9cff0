"""What each repair gains, and what it costs."""

import numpy as np
import pytest

from sightline import Attack, ResidualStream, energy_trace, fit_reference
from sightline.energy.energy import ScoredTest
from sightline.judgement.evidence import (
    Accumulation,
    AccumulationKind,
    gather_evidence,
)
from sightline.judgement.judge import alarms_per_day, measure_repairs
from sightline.judgement.ladder import Finding, LadderResult, causes
from sightline.judgement.verdicts import RungOutcome, Verdict
from sightline.metrics.probe import judge_alarms

ATTACKS = [Attack(id=f"A{k}", start=s, stop=s + 50) for k, s in enumerate((500, 900))]


def make_evidence(alarms=None, step_s=60.0):
    rng = np.random.default_rng(0)
    train = rng.normal(size=(800, 3))
    reference = fit_reference(train)
    test, labels = rng.normal(size=(2000, 3)), np.zeros(2000, np.int8)
    for attack in ATTACKS:
        labels[attack.segment.rows] = 1
    labels[1500:1600] = -1
    test[1500:1600] += 100
    energy = energy_trace(test, reference)
    scored = ScoredTest(
        energy=energy,
        labels=labels,
        attacks=ATTACKS,
        breaks=np.array([0, 1200]),
        reference=reference,
        threshold=6.0,
        alarms=energy > 6.0,
        own_alarms=alarms,
        step_s=step_s,
    )
    stream = ResidualStream(train, test, labels, channels=("a", "b", "c"))
    return gather_evidence(stream, scored)


EVIDENCE = make_evidence()
SPACE = EVIDENCE.exceedances.family.spaces[1]
SUM = Accumulation(AccumulationKind.SUM)


def climbed_by(*names):
    """Return an attack that these rungs show."""
    used = {"accumulate": SUM, "refocus": SPACE}
    return LadderResult(
        verdict=Verdict.WEAK_EVIDENCE,
        findings={
            n: Finding(
                RungOutcome(coverage=1.0, calm=0.0, limit=0.0, visible=n in names),
                used.get(n),
            )
            for n in ("own-rule", "detected", *causes())
        },
    )


UNDECIDED = LadderResult(verdict=Verdict.UNDECIDED)


def test_recall_counts_what_is_detected_and_what_is_gained():
    climbed = [climbed_by("detected", "refocus"), climbed_by("refocus")]
    made = measure_repairs(EVIDENCE, climbed)
    assert set(made) == set(causes())
    assert (made["refocus"].recall_before, made["refocus"].recall_after) == (0.5, 1.0)
    assert made["refocus"].segments_gained == ("A1",)
    assert made["refocus"].by == ("b",)
    assert made["quiet"].recall_after == 0.5
    assert made["quiet"].segments_gained == ()


def test_an_undecided_attack_is_neither_detected_nor_gained():
    climbed = [UNDECIDED, climbed_by("quiet")]
    made = measure_repairs(make_evidence(step_s=None), climbed)
    assert (made["quiet"].recall_before, made["quiet"].recall_after) == (0.0, 0.5)
    assert made["quiet"].false_alarms_per_day_after is None


def test_what_gains_most_comes_first_then_what_costs_least():
    climbed = [climbed_by("quiet", "accumulate"), climbed_by("quiet")]
    made = measure_repairs(EVIDENCE, climbed)
    assert list(made)[:2] == ["quiet", "accumulate"]
    assert made["accumulate"].by == ("cumulative sum",)
    ranks = [
        (
            -len(r.segments_gained),
            r.false_alarms_per_day_after - r.false_alarms_per_day_before,
        )
        for r in made.values()
    ]
    assert ranks == sorted(ranks)


def test_a_repair_that_is_not_needed_costs_nothing():
    climbed = [climbed_by("detected")] * 2
    for repair in measure_repairs(EVIDENCE, climbed).values():
        assert repair.false_alarms_per_day_after == repair.false_alarms_per_day_before


def expected_rate(evidence, is_alarm):
    return judge_alarms(
        is_alarm & (evidence.scored.labels != -1),
        evidence.scored.labels,
        [attack.segment for attack in ATTACKS],
        breaks=evidence.scored.breaks,
        step_s=60.0,
    ).false_alarms_per_day


def test_false_alarms_a_day_are_those_of_the_alarm_metrics():
    evidence = make_evidence()
    climbed = [climbed_by("recalibrate", "refocus")] * 2
    made = measure_repairs(evidence, climbed)
    probe = evidence.scored.energy > evidence.scored.threshold
    limit = np.quantile(evidence.scored.energy[evidence.scored.labels == 0], 0.99)
    for name, also in (
        ("recalibrate", evidence.scored.energy > limit),
        ("refocus", evidence.exceedances.above(1)),
    ):
        repair = made[name]
        before, after = (
            expected_rate(evidence, probe),
            expected_rate(evidence, probe | also),
        )
        assert repair.false_alarms_per_day_before == pytest.approx(before)
        assert repair.false_alarms_per_day_after == pytest.approx(after)
    assert alarms_per_day(make_evidence(step_s=None).scored, probe) is None


def test_own_alarms_come_first_beside_the_probe():
    alarms = np.zeros(2000, bool)
    alarms[100:110] = True
    evidence = make_evidence(alarms)
    climbed = [climbed_by("own-rule", "detected"), climbed_by("detected", "quiet")]
    made = measure_repairs(evidence, climbed)
    assert next(iter(made)) == "own-rule"
    own = made["own-rule"]
    assert (own.recall_before, own.recall_after) == (0.5, 1.0)
    assert own.segments_gained == ("A1",)
    assert own.false_alarms_per_day_before == pytest.approx(
        expected_rate(evidence, alarms)
    )
    probe = evidence.scored.energy > evidence.scored.threshold
    assert own.false_alarms_per_day_after == pytest.approx(
        expected_rate(evidence, alarms | probe)
    )
