"""A stream diagnosed: a verdict for every attack, and what each repair would buy."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sightline.data.arrays import Floats, Labels
from sightline.data.row_tables import Tick, no_tick
from sightline.data.segments import Attack, Segment
from sightline.data.stream import ResidualStream
from sightline.energy.reference import Reference
from sightline.judgement.calm import (
    CalmWindows,
    Counts,
    coverage,
    coverages,
    judged,
    running_count,
)
from sightline.judgement.ladder import (
    Climbed,
    Evidence,
    FalseCauses,
    climb,
    false_cause_rate,
    gather_evidence,
    positions_of,
)
from sightline.judgement.paper_signature import agrees, signature_of
from sightline.judgement.repairs import alarms_per_day, measure_repairs
from sightline.judgement.sentences import advice_of, sentence_of
from sightline.judgement.telemetry import TelemetryEvidence, gather_telemetry
from sightline.judgement.verdicts import (
    VERDICTS,
    DiagnosisFacts,
    Repair,
    SegmentDiagnosis,
    Verdict,
)
from sightline.metrics.segment import SegmentMeasures


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """What is known of a stream once every attack has climbed the ladder.

    `false_cause_rate` is the share of calm windows that the same ladder gives a cause,
    of `n_calm_windows` tried.
    """

    segments: tuple[SegmentDiagnosis, ...]
    repairs: dict[str, Repair]
    verdict_counts: dict[str, int]
    advice: str
    false_cause_rate: float | None
    n_calm_windows: int
    telemetry_judged: bool

    def facts(self) -> DiagnosisFacts:
        """Return what belongs to the stream as a whole."""
        return DiagnosisFacts(
            advice=self.advice,
            false_cause_rate=self.false_cause_rate,
            n_calm_windows=self.n_calm_windows,
            telemetry_judged=self.telemetry_judged,
        )


def diagnose(
    stream: ResidualStream,
    labels: Labels,
    attacks: Sequence[Attack],
    rows: Sequence[SegmentMeasures],
    energy: Floats,
    reference: Reference,
    *,
    train_limit: float,
    tick: Tick = no_tick,
) -> Diagnosis:
    """Carry out every repair on every attack of a stream.

    Parameters
    ----------
    stream : ResidualStream
        The residuals, and telemetry if it was given.
    labels : array of shape (n_test,)
        1 attack, 0 normal, -1 ignore.
    attacks, rows
        The attacks, and what was measured of each.
    energy : array of shape (n_test,)
        Test energy under `reference`.
    reference : Reference
        Fitted on train.
    train_limit : float
        The limit that 1% of train energy exceeds.
    tick : callable
        Told the number of rows of each block read.
    """
    runs = [attack.segment for attack in attacks]
    own_alarms = None if stream.alarms is None else stream.alarms == 1
    evidence = gather_evidence(
        stream.test,
        labels,
        stream.test_breaks,
        runs,
        energy,
        reference,
        train_limit=train_limit,
        channels=stream.channels,
        groups=groups_of(stream),
        alarms=own_alarms,
        tick=tick,
    )
    evidence = replace(
        evidence, telemetry=_telemetry(stream, labels, evidence, runs, tick)
    )
    climbed = climb(evidence, runs)
    repairs = measure_repairs(
        evidence, climbed, attacks, step_s=stream.step_s, own_alarms=own_alarms
    )
    falsely = (
        false_cause_rate(evidence, runs)
        if runs
        else FalseCauses(n_windows=0, rate=None)
    )
    counts = Counter(one.verdict for one in climbed)
    return Diagnosis(
        segments=tuple(
            _told(row, k, climbed, attacks, evidence, stream)
            for k, row in enumerate(rows)
        ),
        repairs=repairs,
        verdict_counts={str(word): counts[word] for word in VERDICTS},
        advice=advice_of(repairs),
        false_cause_rate=falsely.rate,
        n_calm_windows=falsely.n_windows,
        telemetry_judged=evidence.telemetry is not None,
    )


def passes_over_test(stream: ResidualStream) -> int:
    """Return how often a diagnosis reads the test rows, for a progress bar."""
    return 4 if stream.telemetry_test is None else 6


def groups_of(stream: ResidualStream) -> Mapping[str, Sequence[str]] | None:
    """Return the groups of channels (stages) a stream brings in its ``meta``."""
    groups = stream.meta.get("groups")
    if not isinstance(groups, Mapping):
        return None
    return {
        str(name): [str(member) for member in members]
        for name, members in groups.items()
        if isinstance(members, Sequence) and not isinstance(members, str)
    }


def _telemetry(
    stream: ResidualStream,
    labels: Labels,
    evidence: Evidence,
    runs: Sequence[Segment],
    tick: Tick,
) -> TelemetryEvidence | None:
    train, test = stream.telemetry_train, stream.telemetry_test
    if train is None or test is None or not runs:
        return None
    return gather_telemetry(
        train,
        test,
        train_breaks=stream.train_breaks,
        test_breaks=stream.test_breaks,
        labels=labels,
        positions=positions_of(runs, evidence.windows),
        channels=stream.telemetry_channels,
        tick=tick,
    )


def _told(
    row: SegmentMeasures,
    k: int,
    climbed: Sequence[Climbed],
    attacks: Sequence[Attack],
    evidence: Evidence,
    stream: ResidualStream,
) -> SegmentDiagnosis:
    """Return what was measured of an attack with its verdict."""
    one = climbed[k]
    also: list[str] = []
    more_alarms = None
    if one.verdict is Verdict.DILUTED and one.refocus_space is not None:
        also, more_alarms = _bought(
            one.refocus_space, k, climbed, attacks, evidence, stream
        )
    signature = signature_of(row)
    return SegmentDiagnosis(
        verdict=one.verdict,
        ladder=dict(one.rungs),
        refocus_channels=one.refocus_channels,
        contributing=one.contributing,
        signature=signature,
        signature_agrees=agrees(signature.reading, one.verdict),
        sentence=sentence_of(
            one, n_channels=stream.p, also=also, more_alarms=more_alarms
        ),
    )


def _bought(
    space: int,
    k: int,
    climbed: Sequence[Climbed],
    attacks: Sequence[Attack],
    evidence: Evidence,
    stream: ResidualStream,
) -> tuple[list[str], float | None]:
    """Return the other missed attacks one smaller space shows, and its extra alarms."""
    is_above = evidence.exceedances.above(space)
    counts = running_count(is_above)
    also = [
        attack.id
        for i, (attack, one) in enumerate(zip(attacks, climbed, strict=True))
        if i != k
        and one.verdict is not Verdict.DETECTED
        and _is_shown(counts, attack.segment, evidence.windows[attack.segment.length])
    ]
    probe = evidence.energy > evidence.train_limit
    before, after = (
        alarms_per_day(evidence, alarms, stream.step_s)
        for alarms in (probe, probe | is_above)
    )
    more = None if before is None or after is None else after - before
    return also, more


def _is_shown(counts: Counts, segment: Segment, windows: CalmWindows | None) -> bool:
    if windows is None:
        return False
    return judged(coverage(counts, segment), coverages(counts, windows)).visible
