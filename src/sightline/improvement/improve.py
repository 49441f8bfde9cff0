"""`improve`: set what ranked attacks better on plants beside the detector at hand.

1. The residuals at hand, with their energy and with the score `largest`.
2. With telemetry, the detector `pair`, trained on the same rows.
3. Limits for the budget on attack-free rows of the first part of the test.
4. Falsifications written into copies of these rows go through both detectors.
5. Alarms, time in alarm and labelled attacks of later rows.

There is no search: to choose among candidates by falsifications was worse on plants
than to take the same one always.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from sightline.data.arrays import Bools, Ints
from sightline.data.recording import Recording
from sightline.data.row_tables import kept_rows
from sightline.data.stream import ResidualStream
from sightline.detectors import make_detector
from sightline.detectors.base import Detector
from sightline.errors import StreamError
from sightline.export import NO_RULE, ExportedRows, export_rows, export_stream
from sightline.figures import LARGEST
from sightline.improvement.falsify import Written, falsified, held_copy
from sightline.improvement.record import (
    LEAST_ALONE,
    DetectorScore,
    ImprovementRecord,
    SeenFalsification,
    page_of,
    seen_alone,
)
from sightline.metrics.alarm_load import DAY_S, Delays
from sightline.parallel import threads
from sightline.progress import Progress, Step, StepKind, silent
from sightline.rules.commission import (
    FIRST,
    Basis,
    Commissioning,
    CommissionSettings,
    commission_scored,
    split_row,
)
from sightline.rules.limits import Budget
from sightline.rules.making import Fitting, MadeRule, RuleMaker
from sightline.rules.normal import raw_rows
from sightline.rules.rule import Rule
from sightline.rules.scoring import score
from sightline.showing import Shown
from sightline.text import plural

PAIR: Final = "pair"
ENERGY: Final = "energy"
# A limit made on one half of the attack-free rows may be in alarm for this share of the
# other, or for so many rows an allowed alarm.
MOST_SHARE: Final = 0.02
ROWS_AN_ALARM: Final = 4
# Residuals of the telemetry are those of the stream to this share of their spread.
_SAME: Final = 1e-2


@dataclass(frozen=True, kw_only=True, eq=False)
class Contender:
    """Residuals of one detector, with its rules.

    Parameters
    ----------
    name : str
        The detector.
    stream : ResidualStream
        Its residuals.
    basis : Basis
        What its rules are made of.
    made : Commissioning
        Its rules at the budget.
    scores : tuple of str
        Scores of it that are candidates.
    detector : Detector, optional
        Fitted; None where it is not at hand.
    twin : ExportedRows, optional
        Its residuals of the first part as it is, without labels and missing cells.
    train_cpu_s, row_cpu_us : float, optional
        See `DetectorScore`.
    """

    name: str
    stream: ResidualStream
    basis: Basis
    made: Commissioning
    scores: tuple[str, ...]
    detector: Detector | None = None
    twin: ExportedRows | None = None
    train_cpu_s: float | None = None
    row_cpu_us: float | None = None

    def rule(self, score: str) -> MadeRule:
        """Return the rule of a score, with where it comes from."""
        return self.made.deployed(rule_of(score, self.stream))


def rule_of(score: str, stream: ResidualStream) -> str:
    """Return the name of the rule that has a score."""
    if score == LARGEST:
        return "z" if stream.p > 1 else "x"
    return score


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Improvement(Shown):
    """What to take in place of a detector's energy, and what it would gain.

    Parameters
    ----------
    record : ImprovementRecord
        All figures.
    stream : ResidualStream
        The residuals of `pair`; without telemetry those that were given.
    rule : MadeRule, optional
        The recommended rule at the budget, for the residuals that were given. None if
        no limit holds.
    pair_rule : MadeRule, optional
        The rule of `pair`; None without telemetry, or if no limit holds.
    pair : Detector, optional
        The detector `pair`, fitted; None without telemetry.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.normal(size=(2000, 3)), rng.normal(size=(40_000, 3))
    >>> improve(ResidualStream(*rows, step_s=10.0, name="mine"))
    Improvement of 'mine': take 'mine with largest'
    """

    record: ImprovementRecord
    stream: ResidualStream
    rule: MadeRule | None
    pair_rule: MadeRule | None = None
    pair: Any = None

    def _line(self) -> str:
        n = len(self.record.falsifications)
        return (
            f"of {self.record.stream!r}: take {self.record.recommended!r}"
            f"{' beside pair' if self.record.keep_both else ''}"
            + (f", {plural(n, 'falsification')}" if n else "")
        )

    @property
    def table(self) -> tuple[DetectorScore, ...]:
        """The candidates and their figures."""
        return self.record.candidates

    def page(self) -> str:
        """Return the page, as HTML that needs nothing else."""
        return page_of(self.record)


def improve(
    stream: ResidualStream,
    recording: Any = None,
    *,
    detector: Detector | None = None,
    budget: Budget | str = "6/day,1%",
    first: float = FIRST,
    seed: int = 0,
    jobs: int | None = None,
    progress: Progress = silent,
) -> Improvement:
    """Set the score `largest`, and the detector `pair`, beside a detector's energy.

    Parameters
    ----------
    stream : ResidualStream
        Residuals of the detector at hand.
    recording : Testbed or pair of Recording, optional
        The telemetry that the residuals were made of: what `open_testbed` returns, or
        train and test. Without it only `largest` is set beside the energy.
    detector : Detector, optional
        The detector at hand, fitted; without it no falsification goes through it.
    budget : Budget or str
        Alarms that limits are made for.
    first : float
        Share of the test whose attack-free rows make limits and are falsified.
    seed : int
        Of the falsifications: the same seed writes the same.
    jobs : int, optional
        Threads that work at a time; by default one for each core.
    progress : callable, optional
        Called with a `Step`.

    Returns
    -------
    Improvement
        What to take, the figures of all candidates, rules and page.

    Raises
    ------
    StreamError
        If the telemetry is not that of the stream, or there is too little attack-free
        time for the budget or the falsifications.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> stream = ResidualStream(
    ...     rng.normal(size=(2000, 3)), rng.normal(size=(40_000, 3)), step_s=10.0,
    ...     detector="mine",
    ... )
    >>> found = improve(stream, budget="6/day")
    >>> [one.name for one in found.table], found.rule.rule.name
    (['mine with energy', 'mine with largest'], 'z')
    """
    limit = Budget.parse(budget)
    split_row(stream, first, None)  # refuses a share that is none
    with threads(jobs):
        if recording is None:
            contenders = [_own(stream, limit, first)]
            return _result(contenders, [], limit, first, seed)
        train, test = _train_and_test(recording)
        n_steps = int(first * test.n_steps)
        part = held_copy(test, n_steps)
        progress(Step(StepKind.TRAINING, detail=PAIR))
        contenders = [_given(stream, detector, part, test, limit, first)]
        if contenders[0].name != PAIR:
            contenders.append(_pair(stream, train, test, part, limit))
        found = _through(contenders, part, train, seed, progress)
        return _result(contenders, found, limit, first, seed)


def _train_and_test(recording: Any) -> tuple[Recording, Recording]:
    """Return both recordings of a testbed or a pair."""
    train = getattr(recording, "train", None)
    pair = recording if train is None else (train, recording.test)
    if (
        not isinstance(pair, Sequence)
        or len(pair) != 2
        or not all(isinstance(one, Recording) for one in pair)
    ):
        raise StreamError(
            "improve needs the telemetry of train and of test: give what open_testbed "
            f"returns, or a pair of Recordings; got {type(recording).__name__}."
        )
    if pair[1].parts > 1:
        raise StreamError(
            "train and test of this plant are one record, judged in parts: set a split "
            "(`sightline start --split`), so that both can be told apart."
        )
    return pair[0], pair[1]


def _commissioned(
    name: str,
    stream: ResidualStream,
    n_first: int,
    scores: tuple[str, ...],
    budget: Budget,
    **known: Any,
) -> Contender:
    """Return a contender whose rules are made on its first rows."""
    scored = score(stream)
    family = tuple(rule_of(one, stream) for one in scores)
    # Half a row more, so that the share gives this number of rows.
    first = min((n_first + 0.5) / stream.test.n_rows, 1.0)
    settings = CommissionSettings(
        budget=budget, first=first, family=family, choose=family[-1]
    )
    made = commission_scored(scored, settings)
    basis = Basis.of(scored, made.facts.split)
    return Contender(
        name=name, stream=stream, basis=basis, made=made, scores=scores, **known
    )


def _own(stream: ResidualStream, budget: Budget, first: float) -> Contender:
    """Return the residuals at hand, without a detector."""
    name = stream.detector or stream.name
    n_first = split_row(stream, first, None)
    return _commissioned(name, stream, n_first, (ENERGY, LARGEST), budget)


def _given(
    stream: ResidualStream,
    detector: Detector | None,
    part: Recording,
    test: Recording,
    budget: Budget,
    first: float,
) -> Contender:
    """Return the residuals at hand, with their detector if there is one."""
    if detector is None:
        if stream.test_time is None or part.time is None:
            return _own(stream, budget, first)
        n_first = int(np.searchsorted(stream.test_time, part.time[-1], side="right"))
        name = stream.detector or stream.name
        return _commissioned(name, stream, n_first, (ENERGY, LARGEST), budget)
    twin, cpu = _timed_rows(detector, part)
    _check_same_rows(stream, export_rows(detector, _cut(test, part.n_steps)))
    return _commissioned(
        stream.detector or stream.name,
        stream,
        len(twin.index),
        (ENERGY, LARGEST),
        budget,
        detector=detector,
        twin=twin,
        row_cpu_us=cpu,
    )


def _cut(test: Recording, n_steps: int) -> Recording:
    """Return the first steps of a recording as they were measured."""
    breaks = np.asarray(test.breaks)
    return replace(
        test,
        values=test.values[:n_steps],
        labels=None,
        attacks=(),
        time=None if test.time is None else test.time[:n_steps],
        breaks=breaks[breaks < n_steps],
        validity=None if test.validity is None else test.validity[:n_steps],
        unwatched=(),
    )


def _pair(
    stream: ResidualStream,
    train: Recording,
    test: Recording,
    part: Recording,
    budget: Budget,
) -> Contender:
    """Return the detector `pair`, trained on the same telemetry."""
    began = time.process_time()
    fitted = make_detector(PAIR, testbed=stream.testbed).fit(train)
    cpu_s = time.process_time() - began
    made = export_stream(
        fitted, train, test, name=PAIR, testbed=stream.testbed, rule=NO_RULE
    ).replace(label_slop_s=stream.label_slop_s, timezone=stream.timezone)
    twin, row_us = _timed_rows(fitted, part)
    return _commissioned(
        PAIR,
        made,
        len(twin.index),
        (LARGEST,),
        budget,
        detector=fitted,
        twin=twin,
        train_cpu_s=cpu_s,
        row_cpu_us=row_us,
    )


def _timed_rows(detector: Detector, part: Recording) -> tuple[ExportedRows, float]:
    """Return residuals of the first part, and CPU microseconds a row."""
    began = time.process_time()
    rows = export_rows(detector, part)
    return rows, 1e6 * (time.process_time() - began) / max(len(rows.index), 1)


def _check_same_rows(stream: ResidualStream, rows: ExportedRows) -> None:
    """Raise unless a stream begins with the residuals of its detector's telemetry."""
    made, n = np.asarray(rows.values, np.float64), len(rows.index)
    is_same = made.shape[1] == stream.p and n <= stream.test.n_rows
    if is_same:
        is_first = np.arange(stream.test.n_rows) < n
        table = kept_rows(raw_rows(stream.test), is_first)
        given = np.concatenate([np.asarray(block) for block in table.chunks()])
        spread = np.maximum(given.std(axis=0), 1e-9 + 1e-6 * np.abs(given).max())
        off = np.nanmax(np.abs(made - given) / spread, axis=1)
        # Cells without a value were filled in the stream.
        is_same = bool(np.median(off) <= _SAME)
    if not is_same:
        raise StreamError(
            "The stream does not begin with the residuals that the detector gives of "
            "this telemetry: give the detector and the telemetry that it was made of."
        )


# --- What each sees -------------------------------------------------------------------


def _through(
    contenders: Sequence[Contender],
    part: Recording,
    train: Recording,
    seed: int,
    progress: Progress,
) -> list[SeenFalsification]:
    """Send falsified copies through every detector; return who saw what."""
    able = [one for one in contenders if one.detector is not None]
    if not able:
        return []
    steps = [float(one.twin.step_s or 0.0) for one in able if one.twin is not None]
    copies = falsified(
        part, train, _attack_free_steps(able, part), row_s=max(steps), seed=seed
    )
    before = {one.name: _exceeds(one, _twin(one)) for one in able}
    found: list[SeenFalsification] = []
    for values, written in copies:
        progress(Step(StepKind.FALSIFYING, detail=plural(len(found), "falsification")))
        said: dict[str, tuple[Ints, list[Bools]]] = {}
        for one in able:
            rows = export_rows(one.detector, replace(part, values=values))  # type: ignore[arg-type]
            new = [
                after & ~already
                for after, already in zip(
                    _exceeds(one, rows), before[one.name], strict=True
                )
            ]
            said[one.name] = rows.index, new
        for each in written:
            seen = tuple(
                answer
                for one in contenders
                for answer in _answers(one, said.get(one.name), each, part)
            )
            found.append(SeenFalsification(**vars(each), seen=seen))
    return found


def _twin(one: Contender) -> ExportedRows:
    """Return the residuals of the first part as it is."""
    assert one.twin is not None  # noqa: S101
    return one.twin


def _exceeds(one: Contender, rows: ExportedRows) -> list[Bools]:
    """Return which rows exceed the limit of each of a contender's rules."""
    values = np.asarray(rows.values, np.float64)
    return [
        one.rule(name).rule.fixed.run(values, breaks=rows.breaks).exceeds
        for name in one.scores
    ]


def _answers(
    one: Contender,
    said: tuple[Ints, list[Bools]] | None,
    each: Written,
    part: Recording,
) -> list[bool | None]:
    """Return whether each rule of a contender sees a falsification."""
    if said is None:
        return [None] * len(one.scores)
    index, news = said
    every = _steps_a_row(one, part)
    lo = int(np.searchsorted(index, each.start - every, side="right"))
    hi = int(np.searchsorted(index, each.stop))
    return [bool(new[lo:hi].any()) for new in news]


def _steps_a_row(one: Contender, part: Recording) -> int:
    return max(round((_twin(one).step_s or 1.0) / (part.step_s or 1.0)), 1)


def _attack_free_steps(able: Sequence[Contender], part: Recording) -> Bools:
    """Return the steps that are attack-free rows of every detector."""
    free = np.ones(part.n_steps, np.bool_)
    for one in able:
        index, every = _twin(one).index, _steps_a_row(one, part)
        rows = index[one.basis.is_attack_free[: len(index)]]
        own = np.zeros(part.n_steps + every, np.bool_)
        for k in range(every):
            own[rows + k] = True
        free &= own[: part.n_steps]
    return free


# --- The result -----------------------------------------------------------------------


def _result(
    contenders: Sequence[Contender],
    found: Sequence[SeenFalsification],
    budget: Budget,
    first: float,
    seed: int,
) -> Improvement:
    """Return the record, the rules that hold, and the stream to keep."""
    given = contenders[0]
    candidates = tuple(
        _candidate(one, name, budget, is_given=one is given)
        for one in contenders
        for name in one.scores
    )
    basis, notes = given.basis, []
    if len(contenders) > 1 and given.detector is None:
        notes.append(
            f"The detector {given.name} is not at hand, so falsifications went through "
            "pair alone: give its file with --detector."
        )
    record = ImprovementRecord(
        stream=given.stream.name,
        detector=given.stream.detector,
        testbed=given.stream.testbed,
        budget=str(budget),
        first=first,
        seed=seed,
        first_days=given.made.facts.days,
        later_days=float(basis.judged.is_attack_free.sum() * basis.step_s / DAY_S),
        candidates=candidates,
        falsifications=tuple(found),
        recommended=candidates[1].name,
        keep_both=False,
        labels=given.made.facts.labels,
        notes=tuple(notes),
    )
    alone = min(map(len, seen_alone(record)))
    record = replace(record, keep_both=alone >= LEAST_ALONE)
    last, pair = contenders[-1], record.pair
    has_pair_rule = pair is not None and pair.holds
    return Improvement(
        record=record,
        stream=last.stream,
        rule=given.rule(LARGEST) if record.taken.holds else None,
        pair_rule=last.rule(LARGEST) if has_pair_rule else None,
        pair=None if pair is None else last.detector,
    )


def _candidate(
    one: Contender, name: str, budget: Budget, *, is_given: bool
) -> DetectorScore:
    """Return the figures of a detector with one of its rules."""
    row = one.made.facts.row(rule_of(name, one.stream))
    fixed, follows = _on_second_half(one.basis, row.name, budget)
    most = ROWS_AN_ALARM * budget.per_day * one.basis.step_s / DAY_S
    has_later = bool(one.basis.judged.is_attack_free.any())
    return DetectorScore(
        name=f"{one.name} with {name}",
        detector=one.name,
        score=name,
        is_given=is_given,
        alarms_per_day=row.load.alarms_per_day if has_later else None,
        share_of_time=row.load.share_of_time if has_later else None,
        caught=row.attacks.which,
        n_attacks=row.attacks.n_attacks,
        caught_by_chance=row.attacks.caught_by_chance,
        roc_auc=row.roc_auc,
        pauc_1=row.pauc_1,
        fixed_share=fixed,
        share=follows,
        most_share=max(MOST_SHARE, most),
        train_cpu_s=one.train_cpu_s,
        row_cpu_us=one.row_cpu_us,
    )


def _on_second_half(basis: Basis, name: str, budget: Budget) -> tuple[float, float]:
    """Return the time in alarm on the second half by a limit made on the first.

    Of the attack-free rows before the split; with fixed means, and with means that
    follow.
    """
    free = basis.is_attack_free[: basis.split]
    middle = int(np.flatnonzero(free)[free.sum() // 2])
    at = np.arange(basis.test.n_rows)
    period = replace(basis, within=at < middle).period(
        with_calibration=False, with_train=False
    )
    fitting = Fitting(basis.normal, [name], period)
    maker = RuleMaker(fitting, budget, Delays.of_step(basis.step_s))
    rule: Rule = maker.limited(name)[0]
    is_second = (at >= middle) & (at < basis.split)
    rows = kept_rows(raw_rows(basis.stream.test), is_second)
    breaks = basis.test.breaks
    inside = breaks[(breaks > middle) & (breaks < basis.split)] - middle
    fixed, follows = (
        float(one.run(rows, breaks=inside).episodes.rows[free[middle:]].mean())
        for one in (rule.fixed, rule)
    )
    return fixed, follows
