"""`evaluate`: from a residual stream to its figures.

The walk has five stages, each a function of what the stages before it returned:

score
    Reads the residuals: train twice (fit the reference, energy of each row), test and
    calibration once. Gives the energy of every row, the alarms of the p99 rule, and
    D_FULL and D_MS of every attack and of the normal windows of its length.
measure
    Reads energy, labels and alarms. Gives one record for each block of the stream
    (`StreamMeasures`) and one for each attack (`SegmentMeasures`).
diagnose
    Reads the test residuals again, once for each repair that is carried out. Gives the
    reason why each attack was missed, and what each repair would gain. Left out without
    attacks, or if it was not asked for.
uncertainty
    Draws from the energy alone. Gives a 95% interval and a chance floor for each
    figure. Left out if it was not asked for.
assemble
    Joins the records into one `Evaluation`, with remarks, versions and chart data.

A test without attacks passes all stages: whatever needs an attack is None, and drift,
quality and false alarms are measured.
"""

import inspect
import platform
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from sightline import _version
from sightline.data.arrays import (
    ATTACK,
    IGNORED,
    NORMAL,
    Bools,
    Floats,
    Labels,
    check_residuals,
    finite,
)
from sightline.data.row_tables import (
    KeptRows,
    Rows,
    finite_rows,
    gather_rows,
    make_calls,
    parts_of,
)
from sightline.data.segments import Attack, breaks_kept, with_guard
from sightline.data.stream import ResidualStream, stream_given
from sightline.energy.energy import ScoredStream, ScoredTest, Track, score_stream
from sightline.energy.one_sided import as_judged, two_sided_energy
from sightline.energy.reference import crossfit_excess
from sightline.errors import StreamError
from sightline.evaluation import result
from sightline.evaluation.caveats import remarks
from sightline.evaluation.chart_data import chart_data, read_chart_rows
from sightline.evaluation.lint import Linted, lint_stream
from sightline.evaluation.localisation import Localisation, localise
from sightline.evaluation.protocol import Protocol, protocol_named
from sightline.evaluation.uncertainty import measure_uncertainty
from sightline.facts.attack_facts import AttackFacts
from sightline.facts.calm_rows import facts_of_stream, quiet_rows
from sightline.facts.codes import Finding, by_severity
from sightline.facts.records import AUDIT_KEY, audit_in
from sightline.judgement.judge import (
    Diagnosis,
    JudgedAttacks,
    diagnose,
    judge_attacks,
)
from sightline.judgement.verdicts import SegmentDiagnosis
from sightline.metrics import quality, ranking
from sightline.metrics.alarm_figures import (
    ALL,
    AlarmFigure,
    chosen_figures,
    measure_figures,
)
from sightline.metrics.alarm_load import DAY_S
from sightline.metrics.alarm_runs import AlarmRuns, LabelledRows
from sightline.metrics.probe import AlarmMetrics, judge_alarms
from sightline.metrics.score_metrics import ScoreRanks
from sightline.metrics.segment import SegmentMeasures, measure_segments
from sightline.metrics.window_collection import WindowWatch, windows_of_parts
from sightline.metrics.window_kl import WindowEnergies, measure_windows, plan_windows
from sightline.parallel import threads, together
from sightline.progress import Progress, Step, StepKind, one_at_a_time, silent
from sightline.rules import Budget, QuantileRule
from sightline.rules.against_ceiling import Ceiling
from sightline.rules.ceiling import Sightings, ceilings, find_sightings
from sightline.rules.commission import FIRST, Commissioning
from sightline.rules.episodes import unexplained_episodes
from sightline.rules.limits import LEAST_ALARMS
from sightline.rules.replacements import replacements

# Threads of a client, while workers compute what is independent.
WAITING: Final = 8


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
    estimator: str = "ledoit-wolf",
    nonfinite: Literal["error", "drop"] = "error",
    intervals: bool = True,
    diagnosis: bool = True,
    metrics: str | Collection[str] = ALL,
    attribution: npt.ArrayLike | None = None,
    budget: Budget | str | None = "6/day,1%",
    seed: int = 0,
    protocol: str = Protocol.SIGHTLINE,
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
        stream.
    labels : array of shape (n_test,) or str, optional
        1 attack, 0 normal, -1 ignore; or the column of the frame `test` that holds
        them.
    detector, testbed : str, optional
        Names. The stream is called after the detector unless `name` is given.
    channels : sequence of str, optional
        Names of the channels; by default the columns of a frame, else numbers.
    guard : int
        Rows after each attack to leave out as recovery. 0 is the paper's protocol.
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
    asked = _Asked(
        guard=guard,
        estimator=estimator,
        intervals=intervals,
        diagnosis=diagnosis,
        keys=chosen_figures(metrics),
        budget=None if budget is None else Budget.parse(budget),
        seed=seed,
        protocol=protocol_named(protocol),
        progress=one_at_a_time(progress or silent),
    )
    named = {"detector": detector, "testbed": testbed, "channels": channels}
    options = tuple(inspect.signature(evaluate).parameters)[:-1]
    given = stream_given(stream, train, test, labels, named | stream_options, options)
    if parts_of(given.test) is not None:
        # Threads that wait for workers.
        jobs = max(jobs or WAITING, 2)
    with threads(jobs):
        given, dropped = _settle_nonfinite(given, nonfinite)
        blamed = _attribution(given, attribution, dropped["test"])
        return _evaluated(given, asked, dropped, blamed)


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """What the caller of `evaluate` asked for, checked; see there."""

    guard: int
    estimator: str
    intervals: bool
    diagnosis: bool
    keys: frozenset[str]
    budget: Budget | None
    seed: int
    protocol: Protocol
    progress: Progress


@dataclass(frozen=True, kw_only=True, eq=False)
class _Known:
    """A scored stream, as all later stages read it."""

    stream: ResidualStream
    scored: ScoredStream
    test: ScoredTest
    windows: WindowEnergies
    facts: Sequence[AttackFacts]

    @cached_property
    def ranks(self) -> ranking.AttackRanks:
        """Where attack rows stand among normal rows by energy."""
        return _ranks_of(self.test.energy, self.test.labels)

    @cached_property
    def is_quiet(self) -> Bools:
        """Calm rows, without ten minutes after each attack."""
        return quiet_rows(self.test, self.facts)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Figures:
    """What is measured of a stream without its judgement.

    `made` are the alarm rules, or `refused` says why there are none; `sightings` are
    what an oracle sees of the attacks, None unless ceilings are wanted.
    """

    measures: result.StreamMeasures
    uncertainty: result.Uncertainty
    made: Commissioning | None
    refused: str | None
    alarm_metrics: dict[str, dict[str, AlarmFigure]] | None
    findings: tuple[Finding, ...]
    sightings: Sightings | None = None


def _evaluated(
    stream: ResidualStream,
    asked: _Asked,
    dropped: dict[str, int],
    blamed: Floats | None,
) -> result.Evaluation:
    """Return the evaluation of a stream; what is independent is done side by side."""
    known = _known(stream, asked)
    stream, scored, test = known.stream, known.scored, known.test
    figures, judged, localisation, shown = together(
        partial(_figures, known, asked, dropped),
        partial(_judged, known, asked),
        partial(_localised, known, asked, blamed),
        partial(read_chart_rows, stream, scored, test),
    )
    measures, made = figures.measures, figures.made
    rows, verdicts = _diagnosed(known, measures, judged, made)
    segments = _segments(rows, verdicts)
    record = _assembled(stream, measures, figures.uncertainty, verdicts, segments)
    limits, traces = together(
        partial(_ceilings, known, segments, figures),
        partial(chart_data, stream, test, known.ranks, known.windows, segments, shown),
    )
    segments = tuple(map(_with_ceiling, segments, limits))
    episodes = None
    if made and not test.attacks:
        episodes = unexplained_episodes(stream, scored, test, known.facts, made)
    return replace(
        record,
        segments=segments,
        findings=by_severity((*record.findings, *figures.findings)),
        alarm_metrics=figures.alarm_metrics,
        localisation=localisation,
        rules=made.facts if made else None,
        rules_refused=figures.refused,
        episodes=episodes,
        traces=traces,
    )


def _known(stream: ResidualStream, asked: _Asked) -> _Known:
    """Score a stream, and find what the telemetry says of its attacks."""
    if asked.protocol is Protocol.PAPER:
        stream = stream.replace(one_sided=False)
    stream = as_judged(stream)
    attacks, labels = _attacks_and_labels(stream, asked.guard)
    scored, test, windows = _score(stream, labels, attacks, asked)
    facts = facts_of_stream(stream, test)
    return _Known(
        stream=stream,
        scored=scored,
        test=test,
        windows=windows,
        facts=facts,
    )


# Score


def _settle_nonfinite(
    stream: ResidualStream, nonfinite: str
) -> tuple[ResidualStream, dict[str, int]]:
    """Return the stream to evaluate, and how many rows each array lost.

    With "error" nothing is dropped here: scoring raises `StreamError` at the first row
    that is not finite, and names its row and channel.
    """
    if nonfinite == "drop":
        return drop_nonfinite(stream)
    if nonfinite != "error":
        raise StreamError(f"`nonfinite` must be error or drop; got {nonfinite!r}.")
    return stream, {"train": 0, "test": 0, "calibration": 0}


def drop_nonfinite(stream: ResidualStream) -> tuple[ResidualStream, dict[str, int]]:
    """Return the stream without its non-finite rows, and how many each array lost.

    Parameters
    ----------
    stream : ResidualStream
        Its train, test and calibration are read once.

    Returns
    -------
    stream : ResidualStream
        The same object if all rows are finite. Labels, time stamps, alarms, score and
        telemetry lose the same rows as their array; attacks are moved to the rows that
        remain. Breaks are those of the full record: a dropped row makes no break of its
        own.
    dropped : dict
        Number of rows dropped from ``train``, ``test`` and ``calibration``.

    Examples
    --------
    >>> train, test = [[0.0], [1.0], [2.0]], [[0.0], [np.nan], [1.0]]
    >>> finite, dropped = drop_nonfinite(ResidualStream(train, test))
    >>> finite.test.n_rows, dropped
    (2, {'train': 0, 'test': 1, 'calibration': 0})
    """
    dropped = {"train": 0, "test": 0, "calibration": 0}
    changes: dict[str, Any] = {}
    for name in dropped:
        rows: Rows | None = getattr(stream, name)
        if rows is None:
            continue
        keep, n_bad, _ = finite_rows(rows)
        if not n_bad:
            continue
        dropped[name] = int((~keep).sum())
        changes[name] = KeptRows(rows, keep)
        if name != "calibration":
            changes |= _kept_with(stream, name, keep)
    return (stream.replace(**changes) if changes else stream), dropped


def _kept_with(stream: ResidualStream, part: str, keep: Bools) -> dict[str, Any]:
    """Return what goes with the rows of train or test, for those that are kept.

    An attack of which no row is left is removed, and a notice names it.
    """
    series = [f"{part}_time", *(["alarms", "score"] if part == "test" else [])]
    changes: dict[str, Any] = {
        name: values[keep]
        for name in series
        if (values := getattr(stream, name)) is not None
    }
    telemetry: Rows | None = getattr(stream, f"telemetry_{part}")
    if telemetry is not None:
        changes[f"telemetry_{part}"] = KeptRows(telemetry, keep)
    changes[f"{part}_breaks"] = breaks_kept(getattr(stream, f"{part}_breaks"), keep)
    if part == "train":
        return changes
    new_row = np.concatenate([[0], np.cumsum(keep)]).tolist()
    moved = [
        replace(attack, start=new_row[attack.start], stop=new_row[attack.stop])
        for attack in stream.segments
    ]
    gone = [attack.id for attack in moved if attack.start == attack.stop]
    notice = f"Every row of these attacks was dropped: {', '.join(gone)}."
    return changes | {
        "labels": stream.labels[keep],
        "segments": [attack for attack in moved if attack.start < attack.stop],
        "notices": [*stream.notices, *([notice] if gone else [])],
    }


def _attribution(
    stream: ResidualStream, attribution: npt.ArrayLike | None, n_dropped: int
) -> Floats | None:
    """Return a detector's own attribution, checked against the test rows."""
    if attribution is None:
        return None
    values = check_residuals(attribution, "attribution").astype(np.float64)
    shape = (stream.test.n_rows + n_dropped, stream.p)
    if values.shape != shape:
        raise StreamError(
            f"`attribution` must have one value for each test row and channel, shape "
            f"{shape}; got {values.shape}."
        )
    if n_dropped:
        raise StreamError(
            f"`attribution` cannot be matched to test rows of which {n_dropped} were "
            "dropped: remove the rows that are not finite from both first."
        )
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values).all(axis=1)))
        raise StreamError(f"`attribution` must be finite; row {row} is not: repair it.")
    return values


def _attacks_and_labels(
    stream: ResidualStream, guard: int
) -> tuple[list[Attack], Labels]:
    """Return the attacks, and the labels with a guard after each of them ignored.

    The `guard` rows after an attack get the label -1, so that recovery counts neither
    as attack nor as normal; a guard ends at the next break. `StreamError` if no normal
    row is left.
    """
    attacks = stream.attack_segments()
    runs = [attack.segment for attack in attacks]
    labels = with_guard(stream.labels, runs, stream.test_breaks, guard)
    if not (labels == NORMAL).any():
        raise StreamError(
            f"A guard of {guard} rows leaves no normal test row: choose a smaller one."
        )
    return attacks, labels


def _score(
    stream: ResidualStream,
    labels: Labels,
    attacks: Sequence[Attack],
    asked: _Asked,
) -> tuple[ScoredStream, ScoredTest, WindowEnergies]:
    """Fit the reference on train, and score every row under it.

    Parameters
    ----------
    stream : ResidualStream
        The residuals; each table is read block by block.
    labels : array of shape (n_test,)
        1 attack, 0 normal, -1 ignored, guards included.
    attacks : sequence of Attack
        The attack runs of `labels`.
    asked : _Asked
        The covariance estimator of the reference. The protocol `PAPER` fits it on
        held-out rows too, and uses plain covariances.

    Returns
    -------
    scored : ScoredStream
        The reference and all energies.
    test : ScoredTest
        Energy, labels and alarms of the test. The limit of the p99 rule is the 99%
        quantile of train energy.
    windows : WindowEnergies
        D_FULL and D_MS of the attacks and of normal windows of their length, filled in
        the same pass; empty without attacks.
    """
    runs = [attack.segment for attack in attacks]
    plan = plan_windows(runs, labels, stream.test_breaks)
    plain = asked.protocol is Protocol.PAPER
    track = Track(asked.progress, stream)
    n_test = stream.test.n_rows
    watch = WindowWatch(plan, stream.p, n_test, is_plain=plain) if attacks else None
    scored = score_stream(
        stream, labels, asked.estimator, watch, track, use_held_out=plain
    )
    rule = QuantileRule.from_normal(scored.train.energy)
    test = ScoredTest(
        energy=scored.test.energy,
        labels=labels,
        attacks=attacks,
        breaks=stream.test_breaks,
        reference=scored.reference,
        threshold=rule.threshold,
        alarms=rule.alarms(scored.test.energy),
        own_alarms=None if stream.alarms is None else stream.alarms == 1,
        step_s=stream.step_s,
    )
    parts = scored.test.collected if attacks else ()
    windows = windows_of_parts(plan, stream.p, parts, is_plain=plain)
    scored = replace(scored, test=replace(scored.test, collected=()))
    return scored, test, windows


# Measure


def _measure(
    stream: ResidualStream,
    scored: ScoredStream,
    test: ScoredTest,
    ranks: ranking.AttackRanks,
    windows: WindowEnergies,
    is_quiet: Bools,
    protocol: Protocol,
) -> result.StreamMeasures:
    """Return what is measured on the stream as a whole.

    Parameters
    ----------
    stream : ResidualStream
        Names and channels; its rows are read only if it has a single channel that is
        judged two-sided, to rank by the raw value as well.
    scored, test : ScoredStream, ScoredTest
        All energies, and labels and alarms of the test.
    ranks : AttackRanks
        Where attack rows stand among normal rows by energy.
    windows : WindowEnergies
        Of the attacks and of the normal windows of their length.
    is_quiet : array of bool, shape (n_test,)
        Calm rows, over which alarms are counted.
    protocol : Protocol
        `PAPER` counts false-positive segments by rows.

    Returns
    -------
    StreamMeasures
        Without guard and dropped rows, which the caller knows. Without attacks the
        figures of `rank`, `windows` and the hits of the rules are None. `own_rule` and
        `own_score` are None if the stream has none.
    """
    labels, mean = test.labels, scored.train_mean
    lengths = np.array([segment.length for segment in test.segments])
    reference, hindsight = scored.reference, _hindsight_limit(test)
    by_rows = protocol is Protocol.PAPER

    def judge(alarms: Bools, tau99: float | None = None) -> AlarmMetrics:
        return _judge(test, alarms, is_quiet, tau99, by_rows=by_rows)

    return result.StreamMeasures(
        stream=_stream_facts(stream, scored, test),
        reference=result.ReferenceFacts(
            estimator=reference.estimator,
            shrinkage=reference.shrinkage,
            n_rows=reference.n_rows,
            **_standardised(scored, test, stream.p),
        ),
        rank=ranking.measure_rank(
            ranks, lengths, raw=_raw_ranks(stream, ranks, labels)
        ),
        two_sided=_two_sided(scored, test) if stream.one_sided else None,
        windows=measure_windows(windows),
        drift=quality.measure_drift(
            mean,
            np.sort(test.energy[test.is_normal]),
            max_z=scored.test.max_z or 0.0,
            calibration_mean=scored.calibration_mean,
            d_crossfit=crossfit_excess(
                scored.folds,
                mean,
                estimator=reference.estimator,
                one_sided=bool(stream.one_sided),
            ),
        ),
        compactness=quality.measure_compactness(mean, stream.p),
        quality=_quality(stream, scored),
        probe=judge(test.alarms, test.threshold),
        probe_test_calibrated=judge(test.energy > hindsight, hindsight),
        own_rule=None if test.own_alarms is None else judge(test.own_alarms),
        own_score=None
        if stream.score is None
        else ranking.measure_rank(_ranks_of(stream.score, labels), lengths),
        guard=0,
        dropped_rows={},
        protocol=protocol,
    )


def _hindsight_limit(test: ScoredTest) -> float:
    """Return the limit that 1% of the attack-free test rows exceed."""
    return QuantileRule.from_normal(test.energy[test.is_normal]).threshold


def _standardised(
    scored: ScoredStream, test: ScoredTest, p: int
) -> dict[str, float | None]:
    """Return the figures that units may decide, with each channel in its own spread.

    All None without attacks.
    """
    energy = scored.test.other_energy
    if energy is None:
        return {"standardised_roc_auc": None}
    normal = scored.standardised_train
    if normal is None:
        normal = scored.train.energy
    ranks = _ranks_of(energy, test.labels)
    alarms = QuantileRule.from_normal(normal).alarms(energy)
    return {
        "standardised_roc_auc": ranking.roc_auc_of_ranks(ranks),
        "standardised_pauc_1": ranking.partial_auc_of_ranks(
            ranks, ranking.PAUC_RATES[0]
        ),
        "standardised_f1": _judge(test, alarms).f1,
        "standardised_compactness": finite(2 * float(np.mean(normal)) / p),
    }


def _ranks_of(score: Floats, labels: Labels) -> ranking.AttackRanks:
    """Return where attack rows stand among normal rows by a score.

    Ignored rows count as neither. Higher scores rank as more anomalous; without attacks
    the ranks are empty, and every figure of them is None.
    """
    normal = np.sort(score[labels == NORMAL])
    return ranking.rank_attacks(score[labels == ATTACK], normal)


def _raw_ranks(
    stream: ResidualStream, ranks: ranking.AttackRanks, labels: Labels
) -> ranking.AttackRanks | None:
    """Return the ranks by the raw value of a single channel.

    Those by energy if it is judged one-sided, which grows with the value. None with
    several channels or no attack.
    """
    if stream.p > 1 or not (labels == ATTACK).any():
        return None
    if stream.one_sided:
        return ranks
    raw = gather_rows(stream.test, np.arange(stream.test.n_rows))[:, 0]
    return _ranks_of(raw, labels)


def _two_sided(scored: ScoredStream, test: ScoredTest) -> result.TwoSided:
    """Return how a stream that is judged one-sided would do by two-sided energy."""
    if not test.attacks:
        return result.TwoSided()
    train, tested = (
        two_sided_energy(each.energy, scored.reference, scored.moments)
        for each in (scored.train, scored.test)
    )
    ranks = _ranks_of(tested, test.labels)
    alarms = QuantileRule.from_normal(train).alarms(tested)
    return result.TwoSided(
        roc_auc=ranking.roc_auc_of_ranks(ranks),
        pauc_1=ranking.partial_auc_of_ranks(ranks, ranking.PAUC_RATES[0]),
        f1=_judge(test, alarms).f1,
    )


def _judge(
    test: ScoredTest,
    alarms: Bools,
    is_quiet: Bools | None = None,
    tau99: float | None = None,
    *,
    by_rows: bool = False,
) -> AlarmMetrics:
    """Return how a rule did on the test, by its alarms.

    `tau99` is the limit of the p99 rule; None for the detector's own rule, whose limit
    is not known. With `by_rows` false-positive segments are counted as the paper does.
    """
    return judge_alarms(
        alarms,
        test.labels,
        test.segments,
        breaks=test.breaks,
        step_s=test.step_s,
        tau99=tau99,
        is_quiet=is_quiet,
        ids=[attack.id for attack in test.attacks],
        by_rows=by_rows,
    )


def _quality(stream: ResidualStream, scored: ScoredStream) -> quality.Quality:
    """Return warning signs in the residuals themselves.

    Largest whitened residual and kurtosis (of train; the first also of normal test
    rows), and the names of channels that are constant in train, never negative in train
    and test, or too small in scale to count. The lists are empty if nothing is wrong.
    """
    constant = scored.moments.constant
    blind = quality.scale_blind(
        np.diag(scored.moments.covariance),
        np.diag(scored.reference.covariance),
        constant,
    )
    # Never negative: an absolute error, or a score.
    one_sided = scored.train.one_sided & scored.test.one_sided & ~constant
    if stream.one_sided:
        # A floor hides whether values were negative; one channel has no other's scale.
        one_sided &= getattr(stream.train, "floor", 0.0) == 0
        blind[:] = False
    return quality.Quality(
        max_z=scored.train.max_z,
        max_z_test_normal=scored.test.max_z,
        excess_kurtosis=scored.train.excess_kurtosis,
        constant_channels=quality.names_where(constant, stream.channels),
        one_sided_channels=quality.names_where(one_sided, stream.channels),
        scale_blind_channels=quality.names_where(blind, stream.channels),
    )


def _stream_facts(
    stream: ResidualStream, scored: ScoredStream, test: ScoredTest
) -> result.StreamFacts:
    """Return what was evaluated: names as the stream has them, and numbers of rows."""
    n_attack = int((test.labels == ATTACK).sum())
    given = ("name", "detector", "testbed", "space", "p", "step_s", "timezone")
    return result.StreamFacts(
        **{name: getattr(stream, name) for name in given},
        n_train=scored.rows.n_rows,
        n_test=test.n_rows,
        n_attack=n_attack,
        n_ignored=test.n_rows - n_attack - int(test.is_normal.sum()),
        n_segments=len(test.attacks),
    )


def _alarm_metrics(
    stream: ResidualStream,
    test: ScoredTest,
    made: Commissioning | None,
    uncertainty: result.Uncertainty,
    asked: _Asked,
) -> dict[str, dict[str, AlarmFigure]] | None:
    """Return the alarm and score metrics, by whose alarms or score they are.

    Without attacks, or without keys, None. Recall of attacks by the p99 rule has the
    floor of `hits`: one figure, one floor. The chosen one of the rules `made` for a
    budget is judged on the rows after those it was made on.
    """
    if not (test.attacks and asked.keys):
        return None
    rows = LabelledRows(test.labels, test.breaks)
    alarms = {"probe": test.alarms, "own_rule": test.own_alarms}
    scores = {"energy": test.energy, "score": stream.score}
    # A score is sorted where its figures are measured.
    given: dict[str, Callable[[], AlarmRuns | ScoreRanks]] = {
        name: partial(AlarmRuns.of, rows, each)
        for name, each in alarms.items()
        if each is not None
    }
    for name, score in scores.items():
        if score is not None:
            given[name] = partial(ScoreRanks.of, rows, score)
    given |= _of_chosen_rule(test, made)
    drawn = uncertainty.bootstrap
    calls = [
        partial(
            _figures_of,
            each,
            asked.keys,
            uncertainty=drawn is not None,
            block=drawn.block if drawn else 1,
            seed=asked.seed,
        )
        for each in given.values()
    ]

    def done(k: int) -> None:
        asked.progress(Step(StepKind.MEASURING_ALARMS, k + 1, len(given)))

    blocks = dict(zip(given, make_calls(stream.test, calls, done), strict=True))
    hits = (uncertainty.floor or {}).get("hits")
    recall = blocks["probe"].get("event_recall")
    if hits and recall:
        blocks["probe"]["event_recall"] = replace(
            recall,
            floor=replace(hits, value=hits.value / len(test.attacks)),
        )
    return {name: figures for name, figures in blocks.items() if figures}


def _figures_of(
    given: Callable[[], AlarmRuns | ScoreRanks], keys: Collection[str], **options: Any
) -> dict[str, AlarmFigure]:
    """Return the figures of alarms or of a score, made where they are measured."""
    return measure_figures(given(), keys, **options)


def _of_chosen_rule(
    test: ScoredTest, made: Commissioning | None
) -> dict[str, Callable[[], AlarmRuns]]:
    """Return the alarms of the chosen rule on judged rows; empty without any attack.

    Earlier rows count nowhere, nor does an attack that begins among them.
    """
    if made is None:
        return {}
    name, split = made.facts.chosen, made.facts.split
    labels = test.labels.copy()
    labels[:split] = IGNORED
    for attack in test.segments:
        if attack.start < split < attack.stop:
            labels[split : attack.stop] = IGNORED
    if not (labels == ATTACK).any():
        return {}
    alarms = np.zeros(test.n_rows, np.bool_)
    alarms[split:] = made.alarm_rows[name]
    rows = LabelledRows(labels, test.breaks)
    return {f"rule:{name}": partial(AlarmRuns.of, rows, alarms)}


def _figures(known: _Known, asked: _Asked, dropped: dict[str, int]) -> _Figures:
    """Return what is measured of a stream without its judgement."""
    measure = partial(_figures_of_rules, known, asked, dropped)
    if not _has_calm_time(known, asked.budget):
        figures = measure()
        sightings = _sightings(known, asked) if figures.made else None
        return replace(figures, sightings=sightings)
    # What only rules are compared with need not wait for them.
    figures, seen = together(measure, partial(_sightings_or_error, known, asked))
    if figures.made is None:
        return figures
    if isinstance(seen, StreamError):
        raise seen
    return replace(figures, sightings=seen)


def _has_calm_time(known: _Known, budget: Budget | None) -> bool:
    """Return whether the test alone has calm time for the rules of a budget."""
    step_s, first = known.stream.step_s, int(FIRST * known.test.n_rows)
    if budget is None or step_s is None:
        return False
    days = np.count_nonzero(known.is_quiet[:first]) * step_s / DAY_S
    return bool(budget.per_day * days >= LEAST_ALARMS)


def _figures_of_rules(
    known: _Known, asked: _Asked, dropped: dict[str, int]
) -> _Figures:
    """Return the same without what an oracle sees of the attacks."""
    (made, refused), (measures, uncertainty) = together(
        partial(_rules, known, asked), partial(_measured, known, asked, dropped)
    )
    stream, scored, test = known.stream, known.scored, known.test
    linted = Linted(stream, scored, test, known.windows, measures, known.facts)
    alarm_metrics, findings = together(
        partial(_alarm_metrics, stream, test, made, uncertainty, asked),
        partial(lint_stream, linted),
    )
    return _Figures(
        measures=measures,
        uncertainty=uncertainty,
        made=made,
        refused=refused,
        alarm_metrics=alarm_metrics,
        findings=findings,
    )


def _measured(
    known: _Known, asked: _Asked, dropped: dict[str, int]
) -> tuple[result.StreamMeasures, result.Uncertainty]:
    """Return the figures of the stream, and their uncertainty if it was asked for."""
    measures = replace(
        _measure(
            known.stream,
            known.scored,
            known.test,
            known.ranks,
            known.windows,
            known.is_quiet,
            asked.protocol,
        ),
        guard=asked.guard,
        dropped_rows=dropped,
    )
    if not asked.intervals:
        return measures, result.Uncertainty()
    return measures, measure_uncertainty(
        known.test,
        measures,
        known.windows,
        train_mean=known.scored.train_mean,
        seed=asked.seed,
        progress=asked.progress,
        rows=known.stream.test,
    )


def _localised(
    known: _Known, asked: _Asked, blamed: Floats | None
) -> Localisation | None:
    """Return whether the evidence points at the attacked tags."""
    return localise(
        known.stream.test,
        known.stream.channels,
        known.test.reference,
        known.test.attacks,
        known.test.alarms,
        stages=_provenance(known.stream).stages,
        attribution=blamed,
        uncertainty=asked.intervals,
        seed=asked.seed,
    )


# Diagnose


def _judged(known: _Known, asked: _Asked) -> JudgedAttacks | None:
    """Return every attack compared with calm windows; None if it is not wanted."""
    if not (asked.diagnosis and known.test.attacks):
        return None
    return judge_attacks(
        known.stream,
        known.scored,
        known.test,
        known.facts,
        seed=asked.seed,
        progress=asked.progress,
    )


def _diagnosed(
    known: _Known,
    measures: result.StreamMeasures,
    judged: JudgedAttacks | None,
    made: Commissioning | None,
) -> tuple[list[SegmentMeasures], Diagnosis | None]:
    """Return what was measured of each attack, and why it was missed."""
    test = known.test
    rows = measure_segments(
        test.attacks,
        test.energy,
        test.labels,
        test.alarms,
        known.ranks,
        measures.drift,
        windows=known.windows,
        train_mean=known.scored.train_mean,
        step_s=known.stream.step_s,
    )
    if judged is None:
        return rows, None
    return rows, diagnose(judged, rows, known.facts, made.facts if made else None)


def _sightings(known: _Known, asked: _Asked) -> Sightings | None:
    """Return what an oracle sees of each attack; None without budget or judgement."""
    if asked.budget is None or not asked.diagnosis:
        return None
    return find_sightings(known.stream.test, known.test, known.is_quiet, asked.budget)


def _sightings_or_error(known: _Known, asked: _Asked) -> Sightings | StreamError | None:
    """Return the same, or the error that matters only if there are rules."""
    try:
        return _sightings(known, asked)
    except StreamError as error:
        return error


def _ceilings(
    known: _Known, segments: Sequence[result.SegmentResult], figures: _Figures
) -> list[Ceiling | None]:
    """Return how early any rule could have raised each attack; None without rules."""
    if figures.made is None or figures.sightings is None:
        return [None] * len(segments)
    shown = [_is_shown(segment) for segment in segments]
    return ceilings(figures.sightings, known.test, figures.made, shown)


# Rules


def _rules(known: _Known, asked: _Asked) -> tuple[Commissioning | None, str | None]:
    """Return alarm rules made for a budget, or why none could be made."""
    if asked.budget is None:
        return None, None
    try:
        made = replacements(
            known.stream, known.scored, known.test, known.facts, asked.budget
        )
        return made, None
    except StreamError as error:
        return None, str(error)


# Assemble


def _assembled(
    stream: ResidualStream,
    measures: result.StreamMeasures,
    uncertainty: result.Uncertainty,
    verdicts: Diagnosis | None,
    segments: tuple[result.SegmentResult, ...],
) -> result.Evaluation:
    """Return one evaluation of all records, with remarks and versions, no traces."""
    audit = audit_in(stream.meta)
    return result.Evaluation(
        **vars(measures),
        **vars(uncertainty),
        diagnosis=verdicts.facts if verdicts else None,
        repairs=verdicts.repairs if verdicts else None,
        verdict_counts=verdicts.verdict_counts if verdicts else None,
        segments=segments,
        notices=(*stream.notices, *remarks(measures, uncertainty)),
        findings=audit.findings if audit else (),
        recording=audit.recording if audit else None,
        provenance=_provenance(stream),
    )


def _provenance(stream: ResidualStream) -> result.Provenance:
    """Return where an evaluation comes from; the audit has a place of its own."""
    audit = audit_in(stream.meta)
    meta = {k: v for k, v in stream.meta.items() if audit is None or k != AUDIT_KEY}
    return result.Provenance(
        sightline=_version.__version__,
        numpy=np.__version__,
        python=platform.python_version(),
        meta=result.plain(meta),
    )


def _segments(
    rows: Sequence[SegmentMeasures], verdicts: Diagnosis | None
) -> tuple[result.SegmentResult, ...]:
    """Return what was measured of each attack, with its diagnosis if there is one.

    Without a diagnosis the fields of `SegmentDiagnosis` keep their defaults.
    """
    reasons = verdicts.segments if verdicts else [SegmentDiagnosis()] * len(rows)
    return tuple(
        result.SegmentResult(**vars(row), **vars(reason))
        for row, reason in zip(rows, reasons, strict=True)
    )


def _is_shown(segment: result.SegmentResult) -> bool:
    """Return whether the present rule or a rung of the ladder shows an attack."""
    is_found = segment.found is not None and segment.found.is_found
    ladder = segment.ladder or {}
    return is_found or any(outcome.visible for outcome in ladder.values())


def _with_ceiling(
    segment: result.SegmentResult, ceiling: Ceiling | None
) -> result.SegmentResult:
    """Return an attack with how early any rule could have raised it."""
    return replace(segment, ceiling=ceiling)
