"""`evaluate`: from a residual stream to its figures, stage after stage.

score
    Reads the residuals: train twice (fit the reference, energy of each row), test and
    calibration once. Gives the energy of every row, the alarms of the p99 rule, the
    attack-free time of the test, and D_FULL and D_MS of every attack and of the normal
    windows of its length.
measure
    Reads energy, labels and alarms: the figures of the stream and of each attack, then
    a 95% interval and a chance floor for each, drawn from the energy alone.
commission
    Makes alarm rules for the budget on the first part of the test, and judges them on
    the rest. Left out without a budget; a refusal is reported.
judge
    Reads the test residuals again, once for each repair that is carried out: why each
    attack was missed, and what each repair would gain.
extras
    Alarm metrics, localisation, ceilings, unexplained episodes, the linter, chart data:
    each a function of the stages before.

A stage starts when the one before has ended; threads, or the workers of a cluster, work
within a stage. A test without attacks passes all stages: whatever needs an attack is
None, and drift, quality and false alarms are measured.
"""

import inspect
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy.typing as npt

from sightline.audit.protocol import lint_stream
from sightline.audit.record import AUDIT_KEY, audit_in, by_severity
from sightline.data.arrays import Floats
from sightline.data.stream import ResidualStream, drop_nonfinite, stream_given
from sightline.errors import StreamError
from sightline.evaluation import result
from sightline.evaluation.caveats import remarks
from sightline.evaluation.chart_data import chart_data
from sightline.evaluation.localisation import check_attribution, localise
from sightline.evaluation.measure import (
    measure,
    measure_alarm_metrics,
    measure_attacks,
    measure_uncertainty,
)
from sightline.evaluation.result import Protocol, protocol_named
from sightline.figures import LARGEST
from sightline.judgement.judge import Diagnosis, judge
from sightline.judgement.verdicts import SegmentDiagnosis
from sightline.metrics.alarm_figures import ALL, chosen_figures
from sightline.metrics.measures import SegmentMeasures
from sightline.parallel import threads
from sightline.progress import Progress, one_at_a_time, silent
from sightline.rules import Budget
from sightline.rules.ceiling import Ceiling, ceilings
from sightline.rules.commission import (
    Commissioning,
    CommissionSettings,
    commission_scored,
)
from sightline.rules.episodes import unexplained_episodes
from sightline.rules.row_scores import largest_scores
from sightline.rules.scoring import ScoredStream, score


def evaluate(
    stream: ResidualStream | None = None,
    *,
    train: object = None,
    test: object = None,
    labels: npt.ArrayLike | str | None = None,
    detector: str | None = None,
    testbed: str | None = None,
    channels: Sequence[str] | None = None,
    guard: int = 0,
    label_slop_s: float | None = None,
    estimator: str = "ledoit-wolf",
    nonfinite: Literal["error", "drop"] = "error",
    intervals: bool = True,
    diagnosis: bool = True,
    metrics: str | Collection[str] = ALL,
    attribution: npt.ArrayLike | None = None,
    budget: Budget | str | None = "6/day,1%",
    seed: int = 0,
    protocol: str = Protocol.SIGHTLINE,
    score: npt.ArrayLike | str | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
    **stream_options: Any,
) -> result.Evaluation:
    """Measure what a detector's residuals show, before any alarm rule is chosen.

    Parameters
    ----------
    stream : ResidualStream, optional
        The residuals; see there for what it may hold. Not given: made of the next
        arguments.
    train, test : array or frame of shape (n_rows, p), optional
        Residuals of attack-free training data and of the test recording, in place of a
        stream. One score may come without `train`: then the first rows of `test`, up to
        the first attack, are its reference, and ``reference_rows`` says how many.
    labels : array of shape (n_test,) or str, optional
        1 attack, 0 normal, -1 ignore; or the column of the frame `test` that holds
        them.
    detector, testbed : str, optional
        Names. The stream is called after the detector unless `name` is given.
    channels : sequence of str, optional
        Names of the channels; by default the columns of a frame, else numbers.
    guard : int
        Rows after each attack to leave out as recovery. 0 is the paper's protocol.
    label_slop_s : float, optional
        In place of the stream's own; see `ResidualStream`.
    estimator : str
        Covariance estimator of the reference; anything but ``ledoit-wolf`` is for
        sensitivity analysis.
    nonfinite : {"error", "drop"}
        What to do with rows that hold a nan or an infinity.
    intervals : bool
        Whether to measure 95% intervals and chance floors.
    diagnosis : bool
        Whether to find out why each attack was missed, by carrying out every repair.
    metrics : str or collection of str
        Alarm and score metrics to measure: ``all``, ``none``, or names of figures or
        families (``etapr,vus_roc``), as a list or separated by commas.
    attribution : array-like of shape (n_test, p), optional
        The detector's own attribution of each test row to the channels, higher where it
        blames a channel more: its localisation is judged beside that of the residuals.
    budget : Budget or str, optional
        False alarms that are accepted, such as ``"6/day,1%"`` or ``"1/week"``: alarm
        rules are made for it on the first part of the test and judged on the rest. None
        makes no rules.
    seed : int
        Seed of the random draws; the same seed gives the same intervals.
    protocol : {"sightline", "paper"}
        What we believe is right, or the letter of the paper (docs/paper.md).
    score : array of shape (n_test,) or str, optional
        ``"largest"``: rank rows by the largest deviation of a tag in units of its own
        tail too (`sightline.rules.row_scores`). Else, beside `train` and `test`, the
        detector's own score: values, or the column of the frame `test`.
    jobs : int, optional
        Threads that work at a time; by default one for each core. Results are the same
        to the last bit for any number.
    progress : callable, optional
        Called with a `Step`: what is being done, and how many of all rows are done.
        Perhaps from another thread, but never twice at a time.
    **stream_options
        Any further argument of `ResidualStream`, such as ``step_s`` or ``name``; of
        frames also ``time`` and ``ignore``, as in `ResidualStream.from_tables`.

    Returns
    -------
    Evaluation
        Without any attack label, whatever needs one is None.

    Raises
    ------
    StreamError
        If the stream cannot be measured, or the arguments make none; the message says
        where and why.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> train, test = rng.normal(size=(500, 3)), rng.normal(size=(300, 3))
    >>> labels = np.zeros(300, int)
    >>> labels[100:120] = 1
    >>> test[100:120, 0] += 8.0
    >>> evaluation = evaluate(ResidualStream(train, test, labels))
    >>> evaluation.rank.roc_auc
    1.0
    >>> evaluation == evaluate(train=train, test=test, labels=labels)
    True
    >>> evaluation.probe.hits
    1
    """
    if nonfinite not in ("error", "drop"):
        raise StreamError(f"`nonfinite` must be error or drop; got {nonfinite!r}.")
    request = _EvaluationRequest(
        guard=guard,
        estimator=estimator,
        intervals=intervals,
        diagnosis=diagnosis,
        figures=chosen_figures(metrics),
        budget=None if budget is None else Budget.parse(budget),
        seed=seed,
        protocol=protocol_named(protocol),
        has_largest=isinstance(score, str) and score == LARGEST,
        progress=one_at_a_time(progress or silent),
    )
    named: dict[str, object] = {
        "detector": detector,
        "testbed": testbed,
        "channels": channels,
    }
    named["score"] = None if request.has_largest else score
    options = tuple(inspect.signature(evaluate).parameters)[:-1]
    known = named | stream_options
    stream = stream_given(stream, train, test, labels, known, options)
    with threads(jobs):
        if label_slop_s is not None:
            stream = stream.replace(label_slop_s=label_slop_s)
        dropped = {"train": 0, "test": 0, "calibration": 0}
        if nonfinite == "drop":
            # Else scoring raises at the first row that is not finite, and names it.
            stream, dropped = drop_nonfinite(stream)
        blame = None
        if attribution is not None:
            blame = check_attribution(stream, attribution, dropped["test"])
        return _evaluate(stream, request, dropped, blame)


@dataclass(frozen=True, kw_only=True)
class _EvaluationRequest:
    """What the caller of `evaluate` asked for, checked; see there."""

    guard: int
    estimator: str
    intervals: bool
    diagnosis: bool
    figures: frozenset[str]
    budget: Budget | None
    seed: int
    protocol: Protocol
    has_largest: bool
    progress: Progress


def _evaluate(
    stream: ResidualStream,
    request: _EvaluationRequest,
    dropped: dict[str, int],
    blame: Floats | None,
) -> result.Evaluation:
    """Evaluate a stream: the stages, in their order.

    `dropped` rows are reported; `blame` is the detector's own attribution.
    """
    drawn: dict[str, Any] = {"seed": request.seed, "progress": request.progress}
    scored = score(
        stream,
        guard=request.guard,
        estimator=request.estimator,
        is_paper=request.protocol is Protocol.PAPER,
        with_windows=True,
        progress=request.progress,
    )
    if request.has_largest:
        scored = replace(scored, largest=largest_scores(scored))
    stream = scored.stream
    measures = measure(scored, request.protocol, guard=request.guard, dropped=dropped)
    attacks = measure_attacks(scored, measures)
    uncertainty = result.Uncertainty()
    if request.intervals:
        uncertainty = measure_uncertainty(scored, measures, **drawn)
    rules, refusal = _commission(scored, request.budget)
    verdicts = None
    if request.diagnosis and attacks:
        verdicts = judge(scored, attacks, rules.facts if rules else None, **drawn)
    shown = _shown(verdicts, attacks)
    alarm_metrics = measure_alarm_metrics(
        scored, rules, uncertainty, keys=request.figures, **drawn
    )
    audit = audit_in(stream.meta)  # it has a place of its own
    meta = {k: v for k, v in stream.meta.items() if audit is None or k != AUDIT_KEY}
    provenance = result.Provenance.of_now(meta)
    localisation = localise(
        stream.test,
        stream.channels,
        scored.test.reference,
        scored.test.attacks,
        scored.test.alarms,
        stages=provenance.stages,
        attribution=blame,
        uncertainty=request.intervals,
        seed=request.seed,
    )
    findings = lint_stream(scored, measures, shown)
    episodes = unexplained_episodes(scored, rules) if rules and not attacks else None
    segments = _segments(scored, attacks, rules, verdicts, shown)
    return result.Evaluation(
        **vars(measures),
        **vars(uncertainty),
        diagnosis=verdicts.facts if verdicts else None,
        repairs=verdicts.repairs if verdicts else None,
        verdict_counts=verdicts.verdict_counts if verdicts else None,
        segments=segments,
        notices=(*stream.notices, *remarks(measures, uncertainty, stream.meta)),
        findings=by_severity((*(audit.findings if audit else ()), *findings)),
        recording=audit.recording if audit else None,
        provenance=provenance,
        alarm_metrics=alarm_metrics,
        localisation=localisation,
        rules=rules.facts if rules else None,
        rules_refused=refusal,
        episodes=episodes,
        traces=chart_data(scored, segments, rules.trace if rules else None),
    )


def _commission(
    scored: ScoredStream, budget: Budget | None
) -> tuple[Commissioning | None, str | None]:
    """Return alarm rules for the budget, and why none could be made."""
    if budget is None:
        return None, None
    joined = () if scored.stream.one_sided else ("memory",)
    settings = CommissionSettings(budget=budget, rules=joined, with_repairs=True)
    try:
        return commission_scored(scored, settings), None
    except StreamError as error:
        return None, str(error)


def _shown(
    verdicts: Diagnosis | None, rows: Sequence[SegmentMeasures]
) -> frozenset[str]:
    """Return the attacks that the rule in use or a repair shows."""
    return frozenset(
        row.id
        for row, one in zip(rows, verdicts.segments if verdicts else (), strict=False)
        if (one.found is not None and one.found.is_found)
        or any(outcome.visible for outcome in (one.ladder or {}).values())
    )


def _segments(
    scored: ScoredStream,
    rows: Sequence[SegmentMeasures],
    rules: Commissioning | None,
    verdicts: Diagnosis | None,
    shown: frozenset[str],
) -> tuple[result.SegmentResult, ...]:
    """Return each attack: what was measured, why it was missed, and its ceiling.

    `shown`: which attacks the judgement shows by the rule in use or a repair. Without
    a diagnosis the fields of `SegmentDiagnosis` keep their defaults; without one, or
    without rules, there is no ceiling.
    """
    reasons = verdicts.segments if verdicts else (SegmentDiagnosis(),) * len(rows)
    limits: Sequence[Ceiling | None] = [None] * len(rows)
    if rules and verdicts:
        is_shown = [row.id in shown for row in rows]
        limits = ceilings(scored, rules, is_shown)
    return tuple(
        result.SegmentResult(**vars(row), **vars(reason), ceiling=ceiling)
        for row, reason, ceiling in zip(rows, reasons, limits, strict=True)
    )
