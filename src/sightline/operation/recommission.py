"""Rules made from a plant's exports: commissioning on them, and making a rule again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

import numpy as np

from sightline._version import __version__
from sightline.data.arrays import (
    ATTACK,
    IGNORED,
    NORMAL,
    Bools,
    Floats,
    Ints,
    Labels,
)
from sightline.data.row_tables import Rows
from sightline.data.segments import Attack, breaks_from_time, rows_within
from sightline.data.stream import NORMAL_KEY, ResidualStream
from sightline.detectors.base import LearnedDetector
from sightline.errors import FileError, StreamError
from sightline.export import expected
from sightline.metrics.alarm_load import DAY_S, Delays
from sightline.operation.alarms import AlarmKind, AlarmRecord, AlarmVerdict
from sightline.operation.apply import ResidualDrift, drift_to
from sightline.operation.telemetry import (
    ResidualReader,
    detector_of,
    export_settings,
    exports_in,
    in_order,
    read_telemetry,
    rule_rows,
)
from sightline.operation.watch_state import Fate, SeenFile, WatchState
from sightline.progress import Progress, silent
from sightline.rules.choose import (
    choose_rule,
    choose_set,
    lines_of,
    places_of,
    ranges_of,
    sight_of,
)
from sightline.rules.commission import (
    check_enough,
    left_out_words,
    part_of_test,
    without_episodes,
)
from sightline.rules.file import RULE_FILE, file_digest
from sightline.rules.judging import (
    IN_USE,
    JudgedRows,
    RuleChoice,
    RuleOutcome,
    SetChoice,
    cost_together,
    judge_in_use,
)
from sightline.rules.limits import Budget
from sightline.rules.making import AttackFreePeriod, Fitting, MadeRule, RuleMaker
from sightline.rules.normal import (
    LEVEL_FLOOR,
    CalmChannel,
    EarlierRule,
    Normal,
    Origin,
    calm_channels,
    channels_of,
    normal_of,
    origin_of,
    raw_rows,
    stream_digest,
)
from sightline.rules.rule import LinearView, Rule, View
from sightline.rules.scoring import ScoredStream, score
from sightline.storage import join_files, read_rule
from sightline.text import Labelling, as_labelled, counted

# Rows of train that tell what the other tags say of one without a value.
_MOST_ROWS: Final = 50_000
# How much is read before the first day that counts, for memory to settle.
_BEFORE_S: Final = DAY_S


# --- Exports in place of a stream -----------------------------------------------------


def stream_of_exports(
    sources: Sequence[Path],
    stream: ResidualStream,
    detector: LearnedDetector,
    *,
    progress: Progress = silent,
) -> ResidualStream:
    """Return a stream whose test is what exports give through the detector.

    Rows that the detector learned from are ignored.

    Parameters
    ----------
    sources : sequence of Path
        Exports, folders of them, or the folder of a plant (its test).
    stream : ResidualStream
        What the detector gave before: train, channels and step are its own.
    detector : LearnedDetector
        The detector that made it.
    progress : callable, optional
        Called with a `Step`.

    Raises
    ------
    FileError, StreamError
        If the exports cannot be read, or do not fit.
    """
    made = _rule_of(stream)
    recording, notices = read_telemetry(sources, made, detector, progress=progress)
    rows = rule_rows(recording, made, detector, progress=progress)
    labels, remarks = rows.labels.copy(), [*notices, *rows.notices]
    if stream.train_time is not None and rows.time is not None:
        first, last = stream.train_time[[0, -1]]
        learned = (rows.time >= first) & (rows.time <= last) & (labels == NORMAL)
        labels[learned] = IGNORED
        if n_learned := int(learned.sum()):
            remarks.append(
                f"{counted(n_learned, 'row', 'is', 'are')} of the time that the "
                "detector learned from, and not used."
            )
    if not (labels == NORMAL).any():
        raise StreamError(
            "No row of these exports is left to commission on: give later ones."
        )
    facts = {key: stream.meta[key] for key in ("scale", "groups") if key in stream.meta}
    return ResidualStream(
        stream.train,
        expected(rows.values, _first_rows(raw_rows(stream.train))),
        labels,
        channels=stream.channels,
        test_time=rows.time,
        test_breaks=rows.breaks,
        segments=rows.attacks,
        step_s=rows.step_s,
        label_slop_s=stream.label_slop_s,
        timezone=recording.timezone,
        name=recording.source or stream.name,
        detector=stream.detector,
        meta=facts,
        notices=remarks,
    )


def _first_rows(rows: Rows) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    parts, n_rows = [], 0
    for chunk in rows.chunks():
        parts.append(np.asarray(chunk, np.float64))
        n_rows += len(chunk)
        if n_rows >= _MOST_ROWS:
            break
    return np.concatenate(parts)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Reads:
    """What rows a rule of a stream would read; see `ReadsRows`."""

    rule: Rule
    origin: Origin | None


def _rule_of(stream: ResidualStream) -> _Reads:
    """Return a rule without members: it says what rows it reads, nothing of alarms."""
    step_s = stream.step_s
    rule = Rule(
        name=stream.name,
        channels=channels_of(stream),
        views=(),
        members=(),
        limit=1.0,
        delays=Delays.of_step(step_s or 1.0),
        step_s=step_s,
    )
    return _Reads(rule=rule, origin=origin_of(stream, (), None))


# --- A rule made again ----------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class SameRows:
    """A rule on the rows of a recommissioning.

    Parameters
    ----------
    name : str
        ``"in use"``, or ``"new"``.
    step, sight : float
        See `RuleLine`; ranges of tags are those of these rows.
    outcome : RuleOutcome
        What it costs and raises on these rows; they set the limit of the new one.
    """

    name: str
    step: float
    sight: float
    outcome: RuleOutcome


@dataclass(frozen=True, kw_only=True, eq=False)
class Recommissioned:
    """A rule made again on the last watched days.

    Parameters
    ----------
    made : MadeRule
        The new rule.
    rows : tuple of SameRows
        The rule in use and the new one, on the same rows.
    choice : RuleChoice
        Whether the new rule may be taken.
    set_choice : SetChoice
        Whether it replaces the rule in use.
    stream : ResidualStream
        The rows.
    days : float
        Days of rows that set the new limit.
    drift : ResidualDrift
        How far residuals have moved since the rule in use was made.
    notices : tuple of str
        What was left out.
    detector : Path, optional
        File of the detector.
    folder : Path
        Where the exports are.
    """

    made: MadeRule
    rows: tuple[SameRows, SameRows]
    choice: RuleChoice
    set_choice: SetChoice
    stream: ResidualStream
    days: float
    drift: ResidualDrift
    notices: tuple[str, ...]
    detector: Path | None
    folder: Path

    @property
    def sentence(self) -> str:
        """The decision, as terminal and ``rule.json`` have it."""
        return _sentence(self.choice, self.set_choice)


def recommission(
    state: str | Path,
    *,
    last_s: float,
    folder: str | Path | None = None,
    rule: str | Path | None = None,
    detector: str | Path | None = None,
    incidents: str | Path | None = None,
    reference: Literal["rule", "commissioning"] = "rule",
    progress: Progress = silent,
) -> Recommissioned:
    """Make the rule of a watch again, on the last days that it watched.

    Alarms that a person called real are incidents, false ones commission, others with a
    verdict and unexplained episodes are left out, as is what was not watched.

    Parameters
    ----------
    state : path
        The SQLite file of the watch; it is only read.
    last_s : float
        Seconds of watched rows, counted back from the last.
    folder, rule, detector : path, optional
        Exports, ``rule.json`` and saved detector, if not where the watch found them.
    incidents : path, optional
        A reviewed list of episodes, in addition.
    reference : {"rule", "commissioning"}
        Whether means and covariance are those of the rule, or fitted on these rows.
    progress : callable, optional
        Called with a `Step`.

    Raises
    ------
    FileError, StreamError
        If state, rule, detector or exports cannot be used, or too few rows are left.
    """
    path = Path(state)
    if not path.is_file():
        raise FileError(
            f"{path}: there is no such state: name that of `watch --state`."
        )
    store = WatchState(path)
    try:
        about, files, alarms = store.about(), store.files(), store.alarms()
    finally:
        store.close()
    rule_path = _place(path, about, "rule_path", rule, "--rule")
    rule_path = rule_path / RULE_FILE if rule_path.is_dir() else rule_path
    before = read_rule(rule_path)
    if file_digest(rule_path) != about.get("rule"):
        raise FileError(
            f"{rule_path}: is not the rule that {path} watches with: name that with "
            "--rule."
        )
    exports = _place(path, about, "folder", folder, "--folder")
    tables = _tables(exports, files, last_s)
    model_path = None
    if about.get("detector") or detector is not None:
        given = None if detector is None else Path(detector)
        model = detector_of(before, rule_path, given)
        saved = before.origin.saved_detector if before.origin else None
        model_path = given or rule_path.parent / (saved.path if saved else "")
        residuals, notices = _measured(tables, before, model, progress)
    else:
        residuals, notices = _read_residuals(tables, exports, before)
    residuals = residuals.last(round(last_s / (before.rule.step_s or 1.0)))
    stream = residuals.stream(before, alarms, exports.name)
    if incidents is not None:
        known = stream.notices
        stream = join_files(stream, attacks=incidents)
        notices += [notice for notice in stream.notices if notice not in known]
    digest = file_digest(rule_path)
    again = _made_again(before, stream, residuals.values, reference, digest)
    return replace(
        again,
        notices=(*notices, *again.notices),
        detector=model_path,
        folder=exports,
    )


def _made_again(
    before: MadeRule,
    stream: ResidualStream,
    raw: Floats,
    reference: Literal["rule", "commissioning"],
    digest: str,
) -> Recommissioned:
    """Return a rule of the same kind made on the rows of a stream, and the comparison.

    Parameters
    ----------
    before : MadeRule
        The rule in use; `digest` is that of its file.
    stream : ResidualStream
        Its test are the rows.
    raw : array of shape (n_rows, n_channels)
        The same rows, with nan where a tag has no value.
    reference : {"rule", "commissioning"}
        See `recommission`.
    """
    rule, then = before.rule, _calm_rows(before)
    scored = score(stream)
    is_free = scored.test.attack_free.for_alarms & (stream.labels == NORMAL)
    whole = _maker(before, scored, is_free, reference)
    maker, episodes, far_share = without_episodes(whole)
    made, rules_with = maker.make(rule.name), {}
    if maker is not whole:
        rules_with = {rule.name: whole.make(rule.name).rule}
    ranges = ranges_of(stream)
    lines = lines_of(ranges, maker, {rule.name: made}, rules_with)
    budget, (line,) = maker.budget, lines
    choice = choose_rule(lines, episodes, budget, stale=1.0, far_share=far_share)
    for one in episodes:
        if one.rows is not None and not far_share:
            is_free[slice(*one.rows)] = False
    test, step_s = scored.test, rule.step_s or 1.0
    early = test.attack_free.margins[:, 0]
    judged = JudgedRows.of(is_free, test.attacks, test.breaks, 0, step_s, early)
    runs = [one.run(raw, breaks=judged.breaks) for one in (rule, made.rule)]
    old, new = (judge_in_use(run, judged) for run in runs)
    new = replace(new, name=rule.name)
    places = places_of(whole.fitting.period)
    sight, step = sight_of(rule, maker.fitting, places, ranges)
    first, second = (run.episodes.rows | run.standing for run in runs)
    together = cost_together(first, second, judged)
    set_choice = choose_set(old, new, together, budget, (step, line.step))
    calm = calm_channels(
        [channel.channel for channel in then],
        np.array([channel.mean for channel in then]),
        maker.fitting.normal.spread,
        [raw[is_free]],
    )
    advice = _sentence(choice, set_choice)
    origin = _next_origin(before, digest, stream, calm, advice)
    notes = []
    if episodes and not far_share:
        notes.append(f"{left_out_words(len(episodes))}.")
    return Recommissioned(
        made=replace(made, origin=origin, forecast=before.forecast),
        rows=(
            SameRows(name=IN_USE, step=step, sight=sight, outcome=old),
            SameRows(name="new", step=line.step, sight=line.sight, outcome=new),
        ),
        choice=choice,
        set_choice=set_choice,
        stream=stream,
        days=maker.fitting.period.days,
        drift=drift_to(calm, then),
        notices=tuple(notes),
        detector=None,
        folder=Path(),
    )


def _calm_rows(before: MadeRule) -> tuple[CalmChannel, ...]:
    """Return how rows of a rule looked; raise if it cannot be made again."""
    rule, origin = before.rule, before.origin
    if origin is None or not origin.calm or rule.budget is None:
        raise StreamError(
            "The rule does not say how its rows looked, or its budget: make it again "
            "with `sightline commission`."
        )
    if any(view.is_one_sided for view in rule.views) or rule.needs_score:
        raise StreamError(
            "A rule of a score is not made again from exports: use `sightline "
            "commission`."
        )
    return origin.calm


def _maker(
    before: MadeRule, scored: ScoredStream, is_free: Bools, reference: str
) -> RuleMaker:
    """Return what makes the rule again, on some rows of a stream."""
    rule, budget = before.rule, before.rule.budget or Budget()
    spread = np.array([channel.spread for channel in _calm_rows(before)])
    normal = replace(normal_of(scored.stream, scored.energies), spread=spread)
    if reference == "rule":
        values = {name: getattr(normal, name) for name in _NORMAL_FIELDS}
        views = {view.kind: view for view in rule.views}
        normal = _ViewsKept(**values, views=views)
    table = part_of_test(scored.stream, is_free, len(scored.test.attacks))
    step_s, is_fixed = rule.step_s or 1.0, not rule.night
    period = AttackFreePeriod(tables=(table,), step_s=step_s, is_fixed=is_fixed)
    check_enough(period, budget)
    names = [member.name for member in rule.members]
    return RuleMaker(Fitting(normal, names, period), budget, rule.delays)


def _next_origin(
    before: MadeRule,
    digest: str,
    stream: ResidualStream,
    calm: tuple[CalmChannel, ...],
    advice: str,
) -> Origin | None:
    """Return where the new rule comes from, with the rule in use in its history."""
    origin, time = before.origin, stream.test_time
    if origin is None or time is None:
        return origin
    earlier = EarlierRule(
        name=before.rule.name,
        limit=before.rule.limit,
        sha256=digest,
        begins=origin.begins,
        ends=origin.ends,
    )
    return replace(
        origin,
        stream=stream.name,
        stream_sha256=stream_digest(stream),
        sightline=__version__,
        begins=float(time[0]),
        ends=float(time[-1]),
        calm=calm,
        advice=advice,
        history=(*origin.history, earlier),
    )


_NORMAL_FIELDS: Final = tuple(Normal.__dataclass_fields__)


@dataclass(frozen=True, kw_only=True, eq=False)
class _ViewsKept(Normal):
    """What a rule knows of normal operation, with the views that it has."""

    views: Mapping[View, LinearView] = field(default_factory=dict)

    def view(self, kind: View) -> LinearView:
        """Return one of the views."""
        return self.views[kind]

    def floors(self, kind: View) -> Floats:
        """Return the least level of each unit of a view."""
        if kind is View.X:
            return np.asarray(LEVEL_FLOOR * self.spread[self.views[kind].order])
        n_units = 1 if kind is View.SCORE else len(self.views[kind].units)
        return np.full(n_units, LEVEL_FLOOR)


def _sentence(choice: RuleChoice, in_set: SetChoice) -> str:
    """Return the decision in words."""
    parts = [choice.sentence]
    if choice.outcome.has_rule and in_set.action.changes:
        parts.append(in_set.sentence)
    elif choice.outcome.has_rule:
        parts = [in_set.sentence, f"To change it all the same: {choice.sentence}"]
    ids = (*in_set.lost, *in_set.gained)
    return as_labelled(" ".join(parts), Labelling.INCIDENTS, ids)


# --- Rows -----------------------------------------------------------------------------


def _place(
    state: Path, about: Mapping[str, str], key: str, given: str | Path | None, how: str
) -> Path:
    """Return where something is: as given, else as the watch has found it."""
    if given is not None:
        return Path(given)
    if key not in about:
        raise FileError(
            f"{state}: was written by an earlier Sightline, which did not note where "
            f"rule and exports are: give {how}."
        )
    return Path(about[key])


def _tables(folder: Path, files: Mapping[str, SeenFile], last_s: float) -> list[Path]:
    """Return the exports of a folder that hold the last rows.

    Of those that the watch has read, as many as have rows of the last days; of others
    all.
    """
    if not folder.is_dir():
        raise FileError(f"{folder}: there is no such folder: name it with --folder.")
    tables = exports_in(folder)
    spans = {
        name: (one.first, one.last)
        for name, one in files.items()
        if one.fate is Fate.READ and one.first is not None and one.last is not None
    }
    read = [path for path in tables if path.name in spans]
    if not read:
        return tables
    found: list[Path] = []
    seconds = 0.0
    for path in sorted(read, key=lambda one: -spans[one.name][1]):
        first, last = spans[path.name]
        found.append(path)
        seconds += last - first
        if seconds >= 2 * last_s + _BEFORE_S:
            break
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class _SeenResiduals:
    """Residuals that a watch has seen; nan where a tag has no value."""

    time: Floats
    values: Floats
    breaks: Ints
    labels: Labels
    timezone: str | None

    def last(self, n_rows: int) -> "_SeenResiduals":
        """Return the last rows."""
        first = max(len(self.time) - n_rows, 0)
        return replace(
            self,
            time=self.time[first:],
            values=self.values[first:],
            breaks=np.unique(np.append(0, self.breaks[self.breaks > first] - first)),
            labels=self.labels[first:],
        )

    def stream(
        self, made: MadeRule, alarms: Sequence[AlarmRecord], name: str
    ) -> ResidualStream:
        """Return them as a stream that is its own train, with verdicts as labels.

        What is real is an attack, what is false normal, and other alarms of the rule
        with a verdict are ignored.
        """
        rule, labels = made.rule, self.labels.copy()
        attacks, normal = [], []
        for one in alarms:
            end = float(self.time[-1]) if one.end is None else one.end
            rows = np.flatnonzero(rows_within(self.time, (one.start, end)))
            if one.verdict is None or not len(rows):
                continue
            if one.verdict is AlarmVerdict.REAL:
                labels[rows] = ATTACK
                start, stop = int(rows[0]), int(rows[-1]) + 1
                attacks.append(
                    Attack(id=one.id, start=start, stop=stop, targets=one.tags)
                )
            elif one.kind is AlarmKind.ANOMALY and one.verdict is AlarmVerdict.FALSE:
                normal.append([one.start, end])
            elif one.kind is AlarmKind.ANOMALY:
                labels[rows] = np.where(labels[rows] == ATTACK, ATTACK, IGNORED)
        values = expected(self.values, self.values)
        stages = {
            name: [rule.channels[j].name for j in view.order[start:stop]]
            for view in rule.views
            if view.kind is View.STAGE and view.bounds is not None
            for name, start, stop in zip(
                view.units, view.bounds[:-1], view.bounds[1:], strict=True
            )
        }
        return ResidualStream(
            values[labels == NORMAL],
            values,
            labels,
            channels=[channel.name for channel in rule.channels],
            test_time=self.time,
            test_breaks=self.breaks,
            segments=attacks,
            step_s=rule.step_s,
            timezone=self.timezone,
            name=name,
            meta={"groups": stages, NORMAL_KEY: normal},
        )


def _measured(
    tables: Sequence[Path],
    made: MadeRule,
    model: LearnedDetector,
    progress: Progress,
) -> tuple[_SeenResiduals, list[str]]:
    """Return the residuals of exports of telemetry, and notices."""
    recording, notices = read_telemetry(tables, made, model, progress=progress)
    rows = rule_rows(recording, made, model, progress=progress)
    if rows.time is None:
        raise FileError("The exports have no time stamps.")
    residuals = _SeenResiduals(
        time=rows.time,
        values=np.asarray(rows.values, np.float64),
        breaks=rows.breaks,
        labels=rows.labels,
        timezone=recording.timezone,
    )
    return residuals, [*notices, *rows.notices]


def _read_residuals(
    tables: Sequence[Path], folder: Path, made: MadeRule
) -> tuple[_SeenResiduals, list[str]]:
    """Return tables of residuals, without rows that lack half of them or more."""
    settings, step_s = export_settings(folder, made), made.rule.step_s or 1.0
    channels = [channel.name for channel in made.rule.channels]
    reader = ResidualReader(channels=channels, settings=settings, step_s=step_s)
    parts = [reader(path) for path in tables]
    if not parts:
        raise FileError(f"{folder}: holds no table to read.")
    time = np.concatenate([part.time for part in parts])
    rows = np.concatenate([part.rows for part in parts])
    order = in_order(time)
    order = order[2 * np.isnan(rows[order]).sum(axis=1) < rows.shape[1]]
    residuals = _SeenResiduals(
        time=time[order],
        values=rows[order],
        breaks=breaks_from_time(time[order], step_s),
        labels=np.zeros(len(order), np.int8),
        timezone=settings.timezone or ("UTC" if parts[0].is_utc else None),
    )
    return residuals, [notice for part in parts for notice in part.notices]
