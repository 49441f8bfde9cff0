"""A rule applied to a record: its alarms, its promises, and drift since it was made.

A record is rows of a stream, of a table of residuals, or of a plant's telemetry.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np

from sightline.audit.record import is_own_plant
from sightline.data.arrays import ATTACK, Bools, Floats, Ints, Labels
from sightline.data.row_tables import ArrayRows, KeptRows, Rows, gather_rows
from sightline.data.segments import (
    Attack,
    breaks_from_time,
    name_segments,
    segments_of,
)
from sightline.data.stream_input import TableColumns
from sightline.data.validity import LEAST_WATCHED, Unwatched, watched_words
from sightline.data.zones import FIRST_DATE, iso_stamp, stamp
from sightline.energy.attack_free import AttackFreeTime
from sightline.errors import FileError, StreamError, naming
from sightline.operation.questions import (
    SAY_IN_FILE,
    UNANSWERED_S,
    Reply,
    TagAnswer,
    asked_words,
    begin_of,
    unanswered_words,
)
from sightline.operation.telemetry import (
    check_names,
    check_step,
    detector_of,
    read_telemetry,
    rule_rows,
)
from sightline.progress import Progress, silent
from sightline.rules.judging import (
    JudgedRows,
    RuleOutcome,
    judge_rule,
    limit_in_hindsight,
)
from sightline.rules.limits import LEAST_ALARMS
from sightline.rules.making import MadeRule
from sightline.rules.normal import CalmChannel, calm_channels, raw_rows, stream_digest
from sightline.rules.promise import Kept, Period, gap_words
from sightline.rules.rule import Rule, RuleRun
from sightline.rules.scoring import score
from sightline.rules.standalone import LONG_GAP_S, Question, long_gaps
from sightline.storage import is_stream, read_stream
from sightline.storage.frames import check_table_file, read_numbers
from sightline.tables.cells import columns_called
from sightline.tables.stamps import seconds_from
from sightline.tables.text_tables import PARQUET, TEXT, read_table
from sightline.text import Labelling, names

# Leading tags of an alarm that are named.
MOST_TAGS: Final = 3
# A tag has moved if its mean changed by this many of its spreads in train.
MOVED: Final = 0.5


# --- Records --------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class ResidualRecord:
    """Rows that a rule is applied to.

    Parameters
    ----------
    name : str
        For people.
    rows : Rows
        Residuals of the rule's channels.
    breaks : array of int
        Rows at which a new run begins.
    is_attack_free : array of bool, shape (n_rows,)
        Attack-free rows, as far as labels say.
    attacks : tuple of Attack
        By rows; empty without labels.
    early : array of int, shape (n_attacks,), optional
        Rows before each attack that count as its own, by the slop of its label.
    time : array of shape (n_rows,), optional
        Seconds since 1970 of each row.
    timezone : str, optional
        Zone to show times in; None for the plant's own clock.
    score : array of shape (n_rows,), optional
        The detector's own score.
    is_commissioned : bool
        Whether these are the rows that the rule was made on.
    notices : tuple of str
        What was filled or left out.
    unwatched : tuple of Unwatched
        Time without rows, because nothing could be watched.
    is_own_plant : bool
        Whether labels mark incidents of a plant, not attacks of a testbed.
    """

    name: str
    rows: Rows
    breaks: Ints
    is_attack_free: Bools
    attacks: tuple[Attack, ...] = ()
    early: Ints | None = None
    time: Floats | None = None
    timezone: str | None = None
    score: Floats | None = None
    is_commissioned: bool = False
    notices: tuple[str, ...] = ()
    unwatched: tuple[Unwatched, ...] = ()
    is_own_plant: bool = True


def open_record(
    source: Path,
    made: MadeRule,
    rule_path: Path,
    *,
    detector: Path | None = None,
    progress: Progress = silent,
) -> ResidualRecord:
    """Return the rows at a path, ready for a rule.

    Parameters
    ----------
    source : Path
        A residual stream (its test rows); a CSV or Parquet table of residuals; or a
        folder of telemetry, which first passes through the rule's detector.
    made, rule_path : MadeRule, Path
        The rule and its file.
    detector : Path, optional
        Where the rule's detector lies, if not where the rule says.
    progress : callable, optional
        Called with a `Step`.

    Raises
    ------
    FileError
        If nothing at the path can be read.
    StreamError
        If channels or step are not those of the rule.
    """
    with naming(source):
        if is_stream(source):
            return _from_stream(source, made)
        if source.is_dir():
            return _from_folder(source, made, rule_path, detector, progress)
        check_table_file(source)
        if source.suffix.lower() not in (*TEXT, *PARQUET):
            raise FileError(
                f"{source}: is neither a stream (.npz), a table (.csv, .parquet) nor a "
                "folder of telemetry."
            )
        return _from_table(source, made)


def _from_stream(path: Path, made: MadeRule) -> ResidualRecord:
    stream = read_stream(path)
    check_names(stream.channels, made)
    check_step(stream.step_s, made)
    scored = score(stream)
    stream, test, origin = scored.stream, scored.test, made.origin
    return ResidualRecord(
        name=stream.name,
        rows=raw_rows(stream.test),
        breaks=stream.test_breaks,
        is_attack_free=test.attack_free.for_alarms,
        attacks=tuple(test.attacks),
        early=test.attack_free.margins[:, 0],
        time=stream.test_time,
        timezone=stream.timezone,
        score=stream.score,
        is_commissioned=origin is not None
        and origin.stream_sha256 == stream_digest(stream),
        notices=stream.notices,
        is_own_plant=is_own_plant(stream.meta),
    )


def _from_table(path: Path, made: MadeRule) -> ResidualRecord:
    """Return the rows of a table of residuals; its other columns are left out."""
    import polars as pl

    table = read_table(path)
    every = table.frame.columns
    channels = [channel.name for channel in made.rule.channels]
    free = [column for column in every if column not in channels]
    known = {
        role: next(iter(columns_called(role, free)), None) for role in ("time", "label")
    }
    score = next((name for name in free if name.lower() == "score"), None)
    used = (*known.values(), score)
    other = [column for column in free if column not in used]
    check_names([name for name in channels if name in every], made)
    ignored = [*other, *filter(None, (known["time"],))]
    columns = TableColumns(label=known["label"], score=score, ignore=tuple(ignored))
    numbers = read_numbers(table, columns)
    frame = numbers.frame
    time = zone = None
    if known["time"] is not None:
        # Time stamps without an offset are on the clock of the rule's plant.
        plant = None if made.origin is None else made.origin.timezone
        stamps = seconds_from(
            table.frame[known["time"]],
            path=table.path,
            zone=plant,
            place_of=table.place_of,
        )
        time, zone = stamps.seconds, (plant or "UTC") if stamps.is_utc else None
    labels = None if known["label"] is None else frame[known["label"]].to_numpy()
    breaks = np.zeros(1, np.int64)
    if time is not None:
        step_s = float(np.median(np.diff(time))) if len(time) > 1 else None
        check_step(step_s, made)
        breaks = breaks_from_time(time, made.rule.step_s)
    slop_s = None if made.origin is None else made.origin.label_slop_s
    attacks, is_attack_free, early = _labelled(
        frame.height, labels, (), breaks, made.rule.step_s, slop_s
    )
    notices = list(numbers.notices)
    if other:
        notices.append(f"{path.name}: {names(other, 4)} is no channel of the rule.")
    return ResidualRecord(
        name=path.stem,
        rows=ArrayRows(frame.select(channels).cast(pl.Float64).to_numpy()),
        breaks=breaks,
        is_attack_free=is_attack_free,
        attacks=attacks,
        early=early,
        time=time,
        timezone=zone,
        score=None if score is None else frame[score].cast(pl.Float64).to_numpy(),
        notices=tuple(notices),
    )


def _from_folder(
    folder: Path,
    made: MadeRule,
    rule_path: Path,
    detector_path: Path | None,
    progress: Progress,
) -> ResidualRecord:
    """Return the rows of a plant's test, or of all tables of telemetry in a folder."""
    detector = detector_of(made, rule_path, detector_path)
    recording, notices = read_telemetry([folder], made, detector, progress=progress)
    rows = rule_rows(recording, made, detector, progress=progress)
    slop_s = recording.label_slop_s
    if slop_s is None and made.origin is not None:
        slop_s = made.origin.label_slop_s
    attacks, is_attack_free, early = _labelled(
        len(rows.values), rows.labels, rows.attacks, rows.breaks, rows.step_s, slop_s
    )
    return ResidualRecord(
        name=folder.resolve().name,
        rows=ArrayRows(rows.values),
        breaks=rows.breaks,
        is_attack_free=is_attack_free,
        attacks=attacks,
        early=early,
        time=rows.time,
        timezone=recording.timezone,
        score=rows.score,
        notices=(*notices, *rows.notices),
        unwatched=recording.unwatched,
    )


def _labelled(
    n_rows: int,
    labels: Labels | None,
    listed: Sequence[Attack],
    breaks: Ints,
    step_s: float | None,
    slop_s: float | None,
) -> tuple[tuple[Attack, ...], Bools, Ints]:
    """Return attacks, the rows on which an alarm is false, and `early`."""
    if labels is None:
        return (), np.ones(n_rows, np.bool_), np.zeros(0, np.int64)
    attacks = name_segments(segments_of(labels == ATTACK, breaks), listed)
    runs = [attack.segment for attack in attacks]
    known = AttackFreeTime.of(labels, runs, step_s, label_slop_s=slop_s, breaks=breaks)
    return tuple(attacks), known.for_alarms, known.margins[:, 0]


# --- The rule on a record -------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """One alarm: a row of ``alarms.csv``.

    Parameters
    ----------
    start, end : str
        Time of its first row and of its last exceedance, ISO 8601 in the plant's zone;
        row numbers, counted from 0, without a clock.
    seconds : float
        From its start to the end of the last exceedance's row.
    peak : float
        Largest value of the rule over its limit, to four figures.
    member : str
        Which member of the rule led at the peak.
    tags : tuple of str
        Leading tags, the first one leading at the peak.
    """

    start: str
    end: str
    seconds: float
    peak: float
    member: str
    tags: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class TagDrift:
    """How far the residual of one tag has moved since the rule was made.

    Parameters
    ----------
    channel : str
        The tag.
    shift : float
        Mean over attack-free rows minus the mean over commissioning rows, in spreads
        of train; 0 if nothing has changed.
    energy_share, energy_share_then : float
        The tag's share of the summed squares of all tags, in spreads of train: now,
        and over commissioning rows.
    """

    channel: str
    shift: float
    energy_share: float
    energy_share_then: float


@dataclass(frozen=True, kw_only=True)
class ResidualDrift:
    """How far residuals have moved since the rule was made.

    Parameters
    ----------
    shift : float
        Root mean square of the tags' shifts; 0 if nothing has changed.
    energy_ratio : float
        Summed squares of all tags, in spreads of train, over those of commissioning
        rows; 1 if nothing has changed.
    tags : tuple of TagDrift
        The largest shift first.
    """

    shift: float
    energy_ratio: float
    tags: tuple[TagDrift, ...]

    @property
    def moved(self) -> tuple[TagDrift, ...]:
        """The tags that have moved by at least `MOVED` spreads."""
        return tuple(tag for tag in self.tags if abs(tag.shift) >= MOVED)


@dataclass(frozen=True, kw_only=True, eq=False)
class Applied:
    """What a rule says of a record.

    Parameters
    ----------
    alarms : tuple of Alarm
        All of its alarms.
    outcome : RuleOutcome
        Cost, attacks caught and promise, on rows after commissioning.
    drift : ResidualDrift, optional
        None where the rule does not say how calm rows looked, or no row is calm.
    run : RuleRun
        The rule over the whole record.
    notices : tuple of str
        What was left out.
    questions : tuple of str
        What was asked about tags, and what became of it.
    undecided : str
        That questions about most tags stand unanswered, in a sentence; else empty.
    labels : Labelling
        What the labels of the judged rows mark.
    """

    alarms: tuple[Alarm, ...]
    outcome: RuleOutcome
    drift: ResidualDrift | None
    run: RuleRun
    notices: tuple[str, ...]
    questions: tuple[str, ...] = ()
    undecided: str = ""
    labels: Labelling = Labelling.NONE


def apply_rule(
    made: MadeRule, record: ResidualRecord, answers: Sequence[TagAnswer] = ()
) -> Applied:
    """Return what a rule says of a record.

    Alarms are those of the whole record. The promises and the drift are judged on
    attack-free rows after the last commissioning row, where clocks tell. Means are
    followed as a watch follows them, from the first row of the record on.

    Parameters
    ----------
    made : MadeRule
        The rule, as it was read.
    record : ResidualRecord
        What it is applied to.
    answers : sequence of TagAnswer
        What people said of tags that jumped.
    """
    rule = made.rule
    if answers and not rule.night:
        raise StreamError(
            f"The rule {rule.name!r} does not follow means, so that nothing is asked: "
            "leave the answers out."
        )
    anew = () if record.time is None else long_gaps(record.time).tolist()
    run = rule.run(
        record.rows,
        breaks=record.breaks,
        score=record.score,
        answers=_rows_of(answers, record, rule, Reply.NORMAL),
        anew=anew,
    )
    is_later = np.ones(record.rows.n_rows, np.bool_)
    ends = None if made.origin is None else made.origin.ends
    notices = list(record.notices)
    if record.time is not None and ends is not None:
        is_later = np.asarray(record.time > ends)
    elif record.is_commissioned:
        notices.append(
            "These are the rows that set the limit and have no clock, so the promise "
            "is judged on them too and looks better than it is."
        )
    if n_before := int((~is_later).sum()):
        notices.append(
            f"{n_before:,} rows are not later than those that set the limit: their "
            "alarms are listed, and the promise is judged on the others."
        )
    is_judged = record.is_attack_free & is_later
    kept = [k for k, a in enumerate(record.attacks) if is_later[a.start]]
    judged = JudgedRows(
        first=0,
        is_attack_free=is_judged,
        attacks=[record.attacks[k] for k in kept],
        early=None if record.early is None else record.early[kept],
        breaks=np.unique(np.append(0, record.breaks)),
        step_s=made.rule.step_s or 1.0,
        time=record.time,
    )
    outcome = judge_rule(run, judged, made.promise)
    budget = made.rule.budget
    if record.unwatched:
        words, is_enough = _watched(record, is_later, ends, made.rule.step_s or 1.0)
        notices.insert(0, words)
        if not is_enough:
            outcome = replace(outcome, kept=Kept.UNJUDGED)
    notices += _gap_words(outcome.periods, record.timezone)
    # Enough time to say which limit these rows would give.
    if (
        outcome.kept is Kept.UNUSED
        and budget is not None
        and budget.per_day * judged.days >= LEAST_ALARMS
    ):
        limit = limit_in_hindsight(run.trace, judged, made.rule.delays, budget)
        outcome = replace(outcome, hindsight_limit=limit)
    return Applied(
        alarms=tuple(alarms_of(made, run, record)),
        outcome=outcome,
        drift=drift_of(made, record, is_judged),
        run=run,
        notices=tuple(notices),
        questions=tuple(_questions_of(run, record)),
        undecided=_undecided(run, record, answers),
        labels=Labelling.of(len(kept), record.is_own_plant),
    )


def _watched(
    record: ResidualRecord, is_later: Bools, ends: float | None, step_s: float
) -> tuple[str, bool]:
    """Return how much of a record was watched, and whether enough of the later rows."""
    spans, hours = record.unwatched, len(is_later) * step_s / 3600
    total = hours + sum(one.end - one.start for one in spans) / 3600
    since = -np.inf if ends is None else ends
    # A gap that ends a promise is no lost part of it.
    lost_s = sum(
        max(one.end - max(one.start, since), 0.0)
        for one in spans
        if one.end - one.start <= LONG_GAP_S
    )
    later_s = int(is_later.sum()) * step_s
    words = watched_words(hours, total, spans, record.timezone)
    return words, later_s >= LEAST_WATCHED * (later_s + lost_s)


def _gap_words(periods: Sequence[Period], zone: str | None) -> Iterator[str]:
    """Yield what follows from each gap that ended a promise."""
    for before, after in pairwise(periods):
        if before.gap_s and after.begins is not None:
            yield gap_words(before.gap_s, stamp(after.begins, zone))


def _undecided(
    run: RuleRun, record: ResidualRecord, answers: Sequence[TagAnswer]
) -> str:
    """Return that questions about most tags stand unanswered at the end, if so."""
    time, names = _clock(record, run.rule), [one.name for one in run.rule.channels]
    begin = max(long_gaps(time).tolist(), default=0)
    last = {q.channel: q for q in run.questions if q.row >= begin}
    about = {q: {*q.together} or {q.channel} for q in last.values() if q.off}
    normal = _rows_of(answers, record, run.rule, Reply.NORMAL)
    fault = _rows_of(answers, record, run.rule, Reply.FAULT)

    def is_in(question: Question, said: list[tuple[int, int]]) -> bool:
        return any(row > question.row and j in about[question] for row, j in said)

    # What jumped in the same night was called normal too.
    settled = {q.row for q in about if is_in(q, normal)}
    waits = [
        q
        for q in about
        if q.row not in settled
        and not is_in(q, fault)
        and time[-1] - time[q.row] >= UNANSWERED_S
    ]
    asked = {j for q in waits for j in about[q]}
    if 2 * len(asked) <= len(names):
        return ""
    since = _when(record, min(q.row for q in waits))
    return unanswered_words(len(asked), len(names), since, SAY_IN_FILE)


def _clock(record: ResidualRecord, rule: Rule) -> Floats:
    """Return the time of each row, in seconds."""
    if record.time is not None:
        return record.time
    return np.arange(record.rows.n_rows, dtype=np.float64) * (rule.step_s or 1.0)


def _rows_of(
    answers: Sequence[TagAnswer], record: ResidualRecord, rule: Rule, reply: Reply
) -> list[tuple[int, int]]:
    """Return the row from which on an answer holds for each tag, and its channel."""
    places = {channel.name: j for j, channel in enumerate(rule.channels)}
    time = np.arange(record.rows.n_rows) if record.time is None else record.time
    return [
        (int(np.searchsorted(time, answer.time, side="right")), places[answer.tag])
        for answer in answers
        if answer.reply is reply
    ]


def _questions_of(run: RuleRun, record: ResidualRecord) -> Iterator[str]:
    """Yield what was asked, and until when."""
    for k, question in enumerate(run.questions):
        if question.off:
            since = _when(record, begin_of(question, run.rule))
            later = run.questions[k + 1 :]
            end = next((q for q in later if q.channel == question.channel), None)
            text = asked_words(question, run.rule, since)
            if end is not None and not end.off:
                text += f" Back where it was on {_when(record, end.row)}."
            yield text


# --- Alarms ---------------------------------------------------------------------------


def alarms_of(made: MadeRule, run: RuleRun, record: ResidualRecord) -> Iterator[Alarm]:
    """Yield the alarms of a run, in order."""
    rule, episodes, time = made.rule, run.episodes, record.time
    step_s = rule.step_s or 1.0
    pairs = list(zip(episodes.starts.tolist(), episodes.lasts.tolist(), strict=True))
    peaks = []
    for first, last in pairs:
        # The exceedance with the largest trace, as `RuleRun.leaders` takes it.
        inside = np.arange(first, last + 1)[run.exceeds[first : last + 1]]
        peaks.append(int(inside[np.argmax(run.trace[inside])]))
    rows = gather_rows(record.rows, np.asarray(peaks, np.int64))
    spread = spread_of(made)
    for (first, last), peak, row in zip(pairs, peaks, rows, strict=True):
        member, units = run.leaders(first, last, MOST_TAGS)
        seconds = (last - first + 1) * step_s
        if time is not None:
            seconds = float(time[last] - time[first]) + step_s
        yield Alarm(
            start=_stamp(record, first),
            end=_stamp(record, last),
            seconds=seconds,
            peak=float(f"{run.trace[peak] / rule.limit:.4g}"),
            member=member,
            tags=leading_tags(run, peak, row, spread) or tuple(units),
        )


def spread_of(made: MadeRule) -> Floats | None:
    """Return the spread of each channel in train, if the rule says it."""
    return np.array([c.spread for c in made.origin.calm]) if made.origin else None


def leading_tags(
    run: RuleRun, peak: int, row: Floats, spread: Floats | None, least: float = 0.0
) -> tuple[str, ...]:
    """Return the leading tags of a unit of several, by their deviation at the peak.

    Parameters
    ----------
    run : RuleRun
        What the rule says of rows.
    peak : int
        The row of them at the peak.
    row : array of shape (p,)
        Its residuals.
    spread : array of shape (p,), optional
        Of each channel, in whose units deviations are compared.
    least : float
        Smallest deviation that is named, as a share of the largest.

    Returns
    -------
    tuple of str
        Empty where each unit is a tag, or the member reads the own score.
    """
    view = run.rule.view_of(run.rule.members[run.leading[peak]])
    if view is None or view.bounds is None:
        return ()
    unit = int(run.unit[peak])
    inside = view.order[view.bounds[unit] : view.bounds[unit + 1]]
    size = np.abs(row - view.mean)[inside]
    if spread is not None and len(spread) == len(row):
        size = size / spread[inside]
    size = np.nan_to_num(size)
    first = np.argsort(-size, kind="stable")[:MOST_TAGS]
    first = first[size[first] >= least * size.max(initial=0.0)]
    return tuple(run.rule.channels[j].name for j in inside[first])


def _stamp(record: ResidualRecord, row: int) -> str:
    if record.time is None or record.time[0] < FIRST_DATE:
        return str(row)
    return iso_stamp(float(record.time[row]), record.timezone)


def _when(record: ResidualRecord, row: int) -> str:
    """Return the time of a row in words."""
    if record.time is None or record.time[0] < FIRST_DATE:
        return f"row {row:,}"
    return stamp(float(record.time[row]), record.timezone)


# --- Drift ----------------------------------------------------------------------------


def drift_of(
    made: MadeRule, record: ResidualRecord, is_calm: Bools
) -> ResidualDrift | None:
    """Return how far residuals of some rows lie from those of commissioning rows."""
    then = made.origin.calm if made.origin is not None else ()
    if not then or not is_calm.any():
        return None
    blocks = KeptRows(record.rows, is_calm).chunks()
    return drift_between(then, (np.asarray(rows, np.float64) for rows in blocks))


def drift_between(
    then: Sequence[CalmChannel], blocks: Iterable[Floats]
) -> ResidualDrift:
    """Return how far some rows lie from those of commissioning.

    Parameters
    ----------
    then : sequence of CalmChannel
        How channels looked in commissioning rows.
    blocks : iterable of array of shape (n_rows, p)
        The rows.

    Examples
    --------
    >>> then = [CalmChannel(channel="a", mean=0, spread=2, calm_mean=0, calm_square=1)]
    >>> now = drift_between(then, [np.full((5, 1), 4.0)])
    >>> now.shift, now.energy_ratio
    (2.0, 4.0)
    """
    mean, spread = (np.array([getattr(c, k) for c in then]) for k in ("mean", "spread"))
    now = calm_channels([c.channel for c in then], mean, spread, blocks)
    return drift_to(now, then)


def drift_to(now: Sequence[CalmChannel], then: Sequence[CalmChannel]) -> ResidualDrift:
    """Return how far channels have moved from how they looked then."""
    shifts = np.array(
        [(b.calm_mean - a.calm_mean) / a.spread for a, b in zip(then, now, strict=True)]
    )
    parts = [np.array([c.calm_square for c in one]) for one in (now, then)]
    shares = [part / max(float(part.sum()), 1e-300) for part in parts]
    tags = [
        TagDrift(
            channel=channel.channel,
            shift=float(shift),
            energy_share=float(share),
            energy_share_then=float(before),
        )
        for channel, shift, share, before in zip(then, shifts, *shares, strict=True)
    ]
    return ResidualDrift(
        shift=float(np.sqrt(np.mean(shifts**2))),
        energy_ratio=float(parts[0].sum() / max(float(parts[1].sum()), 1e-300)),
        tags=tuple(sorted(tags, key=lambda tag: -abs(tag.shift))),
    )
