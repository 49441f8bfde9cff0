"""From a fitted detector and two recordings to the residual stream of both.

This is the only place where labels meet residuals; the detector never sees any.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from sightline.audit.record import Audit, carried
from sightline.data.arrays import ATTACK, IGNORED, NORMAL, Bools, Floats, Ints, Labels
from sightline.data.downsampling import Preparation
from sightline.data.recording import Recording
from sightline.data.segments import Attack
from sightline.data.stream import ResidualStream
from sightline.detectors.base import (
    Detector,
    LearnedDetector,
    Residuals,
    RuleInput,
    unlabelled,
)
from sightline.detectors.native_rules import TestUse, rule_named
from sightline.detectors.preprocessing import Matrix, fill_missing, means_of
from sightline.detectors.settings import RowSettings
from sightline.errors import StreamError
from sightline.progress import Progress, Step, StepKind, silent
from sightline.text import names

NO_RULE = "none"
# How many tags a notice names before it counts the rest.
_MOST_TAGS = 20
_T = TypeVar("_T")


@dataclass
class _StreamParts:
    """What is gathered for a stream beside its rows."""

    notices: list[str]
    meta: dict[str, object]
    score: Floats | None = None
    alarms: Labels | None = None
    telemetry_train: Matrix | None = None
    telemetry_test: Matrix | None = None
    telemetry_channels: tuple[str, ...] | None = None
    attacks: list[Attack] = field(default_factory=list)


def export_stream(
    detector: Detector,
    train: Recording,
    test: Recording,
    *,
    name: str | None = None,
    testbed: str | None = None,
    telemetry: bool = False,
    rule: str | None = None,
    preset: str = "export",
    audit: Audit | None = None,
    progress: Progress = silent,
) -> ResidualStream:
    """Return the residual stream of a fitted detector, ready to be evaluated.

    A row has the label of its step; one made of several steps is an attack if any of
    them is. Warm-up rows are left out of train, and ignored (-1) in test.

    Parameters
    ----------
    detector : Detector
        Already fitted. If it has a `split`, the rows it learned from become `train` and
        those held out `calibration`; else all rows become `train`.
    train : Recording
        The one it was fitted on. Rows labelled other than normal are left out.
    test : Recording
        The one to be judged on.
    name, testbed : str, optional
        Names of the stream (else the detector and the testbed) and of the plant.
    telemetry : bool
        Include what the plant measured at the step of each row; a missing cell takes
        the last value before it, else the mean of train.
    rule : str, optional
        The detector's own alarm rule, whose score and alarms become part of the stream;
        by default the first that looks at nothing of the test, if there is one. Rules
        that look at its statistics or labels say so in their names. "none" for no rule.
    preset : {"export", "official"}
        How residuals are computed: as suits a stream to be evaluated, or exactly as
        published.
    audit : Audit, optional
        What `inspect_testbed` found in the recordings; the stream carries it, so that
        results and page show it.
    progress : callable, optional
        Called with a `Step`.

    Returns
    -------
    ResidualStream
        Its `meta` holds what is needed to make it again; its `notices` say what was
        filled, left out or chosen.

    Raises
    ------
    StreamError
        If the detector has no such rule, train is not the recording it was fitted on,
        or no row of train is left.

    Examples
    --------
    >>> from sightline import Recording, Tag, export_stream, make_detector
    >>> rng = np.random.default_rng(0)
    >>> tags = [Tag(name=name) for name in "abc"]
    >>> train = Recording(values=rng.normal(size=(500, 3)), tags=tags)
    >>> test = Recording(values=rng.normal(size=(200, 3)), tags=tags)
    >>> detector = make_detector("mean").fit(train)
    >>> stream = export_stream(detector, train, test, testbed="plant")
    >>> stream.test.n_rows, stream.detector
    (200, 'mean')
    """
    check_rule(detector, rule)
    wanted = getattr(detector, "settings", None)
    if not isinstance(wanted, RowSettings):
        wanted = RowSettings()  # a class of the user: rows as they are
    test = Preparation(test_until=wanted.test_until).test(test)
    given, n_not_normal = _both_residuals(detector, train, test, preset, progress)
    learned, tested = given.train_residuals, given.test_residuals
    labels = np.where(_set(tested.is_warm_up), IGNORED, _labels(tested, test))
    export = _described(detector, learned, tested, test)
    if n_not_normal:
        export.notices.append(
            f"train: {n_not_normal:,} rows not labelled normal were left out."
        )
    if preset != "export":
        export.meta["residuals_preset"] = preset
    export.meta |= carried(audit)
    _add_alarms(export, detector, given, rule, labels)
    is_reference, is_held_out = _reference_rows(given, wanted, train)
    facts = {
        "every": train.prepared.every * tested.every,
        # What later telemetry must look like before the detector reads it.
        "recording_step_s": train.step_s,
        "sampling": train.prepared.sampling or None,
        "trim_s": wanted.trim_s or train.prepared.trim_s,
        "reference_trim_s": wanted.reference_trim_s,
        "test_until": wanted.test_until,
    }
    export.meta["rows"] = {k: fact for k, fact in facts.items() if fact is not None}
    title, rows = _title(detector), learned.index[is_reference]
    if telemetry:
        _add_telemetry(export, train, rows, test, tested.index)
    step_s = None if test.step_s is None else test.step_s * _set(tested.spacing)
    return ResidualStream(
        learned.values[is_reference],
        tested.values,
        labels,
        calibration=learned.values[is_held_out] if is_held_out.any() else None,
        channels=tested.channels,
        train_time=_at(train.time, rows),
        test_time=_at(test.time, tested.index),
        train_breaks=_breaks(rows, _set(learned.spacing), train.breaks),
        test_breaks=_breaks(tested.index, _set(tested.spacing), test.breaks),
        segments=export.attacks,
        space=tested.space,
        name=name or (f"{title}-{testbed}" if testbed else title),
        detector=title,
        testbed=testbed,
        step_s=step_s,
        timezone=test.timezone,
        score=export.score,
        alarms=export.alarms,
        telemetry_train=export.telemetry_train,
        telemetry_test=export.telemetry_test,
        telemetry_channels=export.telemetry_channels,
        meta=export.meta,
        notices=export.notices,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class ExportedRows:
    """Residuals of one recording, ready for an alarm rule.

    Parameters
    ----------
    values : array of shape (n_rows, n_channels)
        Residuals.
    channels : tuple of str
        Their names.
    index : array of int, shape (n_rows,)
        Step of the recording that each row belongs to.
    time : array of shape (n_rows,), optional
        Seconds of each row.
    breaks : array of int
        Rows at which a new run begins.
    labels : array of shape (n_rows,)
        Of the recording; warm-up rows are ignored (-1).
    attacks : tuple of Attack
        By rows.
    step_s : float, optional
        Seconds a row.
    score : array of shape (n_rows,), optional
        The detector's own score, if its residuals have one.
    notices : tuple of str
        What was filled or left out.
    """

    values: Matrix
    channels: tuple[str, ...]
    index: Ints
    time: Floats | None
    breaks: Ints
    labels: Labels
    attacks: tuple[Attack, ...]
    step_s: float | None
    score: Floats | None
    notices: tuple[str, ...]


def export_rows(
    detector: Detector,
    recording: Recording,
    *,
    preset: str = "export",
    progress: Progress = silent,
) -> ExportedRows:
    """Return the residuals of one recording, as `export_stream` has them in its test.

    Parameters
    ----------
    detector : Detector
        Already fitted.
    recording : Recording
        Of the same plant, prepared as the one it was fitted on.
    preset : {"export", "official"}
        How residuals are computed.
    progress : callable, optional
        Called with a `Step`.
    """
    rows = _residuals(detector, recording, "the recording", preset, progress)
    moved = (_moved(attack, rows) for attack in recording.attacks)
    spacing = _set(rows.spacing)
    return ExportedRows(
        values=rows.values,
        channels=rows.channels,
        index=rows.index,
        time=_at(recording.time, rows.index),
        breaks=_breaks(rows.index, spacing, recording.breaks),
        labels=np.where(_set(rows.is_warm_up), IGNORED, _labels(rows, recording)),
        attacks=tuple(attack for attack in moved if attack.start < attack.stop),
        step_s=None if recording.step_s is None else recording.step_s * spacing,
        score=rows.score,
        notices=rows.notices,
    )


def _at(time: Floats | None, rows: Ints) -> Floats | None:
    """Return the time of some rows, if there is one."""
    return None if time is None else time[rows]


def check_rule(detector: Detector, rule: str | None) -> None:
    """Raise if a detector does not have an alarm rule; call it before fitting."""
    if rule is not None and rule != NO_RULE:
        rules = detector.rules if isinstance(detector, LearnedDetector) else ()
        rule_named(rules, rule, _title(detector))


def _both_residuals(
    detector: Detector,
    train: Recording,
    test: Recording,
    preset: str,
    progress: Progress,
) -> tuple[RuleInput, int]:
    """Return the residuals of both recordings, and how many of train are not normal."""
    learned = _residuals(detector, train, "train", preset, progress)
    tested = _residuals(detector, test, "test", preset, progress)
    _check_same(learned.channels, tested.channels, "The residuals")
    is_usable = ~_set(learned.is_warm_up)
    is_normal = _labels(learned, train) == NORMAL
    is_trained, is_held_out = _parts(
        detector, learned, is_usable & is_normal, train.n_steps
    )
    given = RuleInput(
        train=unlabelled(train),
        test=unlabelled(test),
        train_residuals=learned,
        test_residuals=tested,
        is_trained=is_trained,
        is_held_out=is_held_out,
        preset=preset,
    )
    return given, int((is_usable & ~is_normal).sum())


def rule_input(detector: Detector, train: Recording, test: Recording) -> RuleInput:
    """Return what a detector's own alarm rule may look at."""
    return _both_residuals(detector, train, test, "export", silent)[0]


def _described(
    detector: Detector, learned: Residuals, tested: Residuals, test: Recording
) -> _StreamParts:
    """Return notices, description and attacks of a stream."""
    sources = dict.fromkeys(learned.notices, "train")
    for text in tested.notices:
        sources[text] = "train and test" if text in learned.notices else "test"
    about = detector.about() if hasattr(detector, "about") else {}
    export = _StreamParts(
        notices=[f"{source}: {text}" for text, source in sources.items()],
        # What is needed to make the stream again and to read it.
        meta={
            "detector_name" if k == "detector" else f"detector_{k}": value
            for k, value in about.items()
        },
    )
    if tested.scale is not None:
        export.meta["scale"] = [float(scale) for scale in tested.scale]
    groups: dict[str, list[str]] = {}
    for tag in test.tags:
        if tag.stage is not None and tag.name in tested.channels:
            groups.setdefault(tag.stage, []).append(tag.name)
    if len(groups) > 1:
        export.meta["groups"] = groups
    attacks = [_moved(attack, tested) for attack in test.attacks]
    export.attacks = [attack for attack in attacks if attack.start < attack.stop]
    if lost := [attack.id for attack in attacks if attack.start >= attack.stop]:
        export.notices.append(
            f"test: no residual belongs to a step of {names(lost, 6, quoted=True)}."
        )
    absent = [tag for tag in test.channels if tag not in tested.channels]
    # Channels of a latent space are no tags: then it makes no sense to name tags.
    if 0 < len(absent) < len(test.channels):
        verb = "has" if len(absent) == 1 else "have"
        export.notices.append(
            f"{len(absent)} of {len(test.channels)} tags {verb} no residual of "
            f"{'its' if len(absent) == 1 else 'their'} own: "
            f"{names(absent, _MOST_TAGS)}."
        )
    return export


def _add_alarms(
    export: _StreamParts,
    detector: Detector,
    given: RuleInput,
    rule: str | None,
    labels: Labels,
) -> None:
    """Add score and alarms of a detector's own rule, with a description of the rule.

    Labels reach only a rule that was asked for by name and whose name says it.
    """
    if rule == NO_RULE:
        return
    if not isinstance(detector, LearnedDetector):
        _add_own(export, given.test_residuals.score, given.test_residuals.alarms)
        return
    title = _title(detector)
    uses = () if rule is None else rule_named(detector.rules, rule, title).looks_at
    try:
        native = detector.native_alarms(
            given, rule=rule, labels=labels if TestUse.LABELS in uses else None
        )
    except StreamError as error:
        if rule is not None:
            raise
        # The rule was not asked for: the stream is useful without it.
        export.notices.append(f"own rule: it could not be used: {error}")
        return
    if native is None:
        return
    export.notices += [f"own rule: {notice}" for notice in native.notices]
    if native.rule is not None:
        looks_at = tuple(str(what) for what in native.rule.looks_at)
        facts: dict[str, object] = {"name": native.rule.name, "looks_at": looks_at}
        if isinstance(native.threshold, float):
            facts["threshold"] = native.threshold
        export.meta["native_rule"] = facts
        if looks_at:
            export.notices.append(
                f"own rule: it looks at {' and '.join(looks_at)}, which no detector in "
                "service could."
            )
    _add_own(export, native.score, native.alarms)


def _add_own(export: _StreamParts, score: Floats | None, alarms: Bools | None) -> None:
    """Add the score and the alarms of a detector's own rule, as far as it has them."""
    if alarms is not None:
        export.alarms = np.asarray(alarms).astype(np.int8)
    if score is None:
        return
    if np.isfinite(score).all():
        export.score = score
    else:
        export.notices.append(
            "own rule: its score is left out, for some rows have none."
        )


def _add_telemetry(
    export: _StreamParts,
    train: Recording,
    train_rows: Ints,
    test: Recording,
    rows: Ints,
) -> None:
    """Add the measured values at the rows of both recordings."""
    _check_same(train.channels, test.channels, "The recordings")
    means = means_of(train.values)
    # A missing cell would spoil every average of the telemetry after it.
    filled, _ = fill_missing(train.values, _set(train.breaks), means)
    tested, _ = fill_missing(test.values, _set(test.breaks), means)
    export.telemetry_train, export.telemetry_test = filled[train_rows], tested[rows]
    export.telemetry_channels = train.channels


def _residuals(
    detector: Detector,
    recording: Recording,
    which: str,
    preset: str,
    progress: Progress,
) -> Residuals:
    """Return the residuals of a recording without its labels; leave out nan rows."""
    unseen = unlabelled(recording)
    progress(Step(StepKind.RESIDUALS, 0, 1, f"of {which}"))
    residuals = (
        detector.residuals(unseen, preset=preset, progress=progress)
        if isinstance(detector, LearnedDetector)
        else detector.residuals(unseen)
    )
    progress(Step(StepKind.RESIDUALS, 1, 1, f"of {which}"))
    if not isinstance(residuals, Residuals):
        raise StreamError(
            "`residuals` must return sightline.Residuals; got "
            f"{type(residuals).__name__}."
        )
    index = residuals.index
    if len(index) and not 0 <= index[0] <= index[-1] < recording.n_steps:
        raise StreamError(
            f"`index` of the {which} residuals must lie within the recording's "
            f"{recording.n_steps:,} steps; got {index[0]} to {index[-1]}."
        )
    is_number = np.asarray(~np.isnan(residuals.values).any(axis=1))
    if is_number.all():
        return residuals
    lost = len(is_number) - int(is_number.sum())
    return replace(
        residuals,
        values=residuals.values[is_number],
        index=index[is_number],
        is_warm_up=_set(residuals.is_warm_up)[is_number],
        score=None if residuals.score is None else residuals.score[is_number],
        alarms=None if residuals.alarms is None else residuals.alarms[is_number],
        notices=(
            *residuals.notices,
            f"{lost:,} rows of {len(is_number):,} have residuals that are nan and were "
            "left out.",
        ),
    )


def _parts(
    detector: Detector, residuals: Residuals, is_usable: Bools, n_steps: int
) -> tuple[Bools, Bools]:
    """Return which rows of train were learned from, and which were held out."""
    is_trained, is_held_out = is_usable, np.zeros_like(is_usable)
    split = getattr(detector, "split", None)
    if split is not None:
        if max(split.trained.max(initial=0), split.held_out.max(initial=0)) >= n_steps:
            raise StreamError(
                f"`train` is too short with its {n_steps:,} steps to be what the "
                "detector was fitted on: give that same recording."
            )
        is_trained = is_usable & _made_of(split.trained, residuals, n_steps)
        is_held_out = is_usable & _made_of(split.held_out, residuals, n_steps)
    if not is_trained.any():
        raise StreamError(
            f"None of the {len(residuals.index):,} rows of train is left (all are "
            "warm-up, held out, trimmed, not labelled normal or without a finite "
            "residual): give a longer recording, or check the detector's residuals."
        )
    return is_trained, is_held_out


def _reference_rows(
    given: RuleInput, wanted: RowSettings, train: Recording
) -> tuple[Bools, Bools]:
    """Return the rows of train that fit the reference, and those held out.

    Without `reference_trim_s` they are the rows learned from. With it they are all
    normal rows from that second on, counted from the first measured row.
    """
    is_trained, is_held_out = given.is_trained, given.is_held_out
    if wanted.reference_trim_s is None:
        return is_trained, is_held_out
    learned, left = given.train_residuals, wanted.reference_trim_s
    left -= train.prepared.trim_s
    if train.time is None and train.step_s is None:
        raise StreamError(
            f"`reference_trim_s` is {wanted.reference_trim_s:g} s, but the recording "
            "has neither `time` nor `step_s`: give one of them."
        )
    since = (
        train.time[learned.index] - train.time[0]
        if train.time is not None
        else learned.index * (train.step_s or 0.0)
    )
    is_late = np.asarray(since >= left)
    is_normal = _labels(learned, train) == NORMAL
    is_usable = is_late & is_normal & ~_set(learned.is_warm_up)
    if not (is_usable & ~is_held_out).any():
        raise StreamError(
            f"`reference_trim_s` of {wanted.reference_trim_s:g} s leaves no row of "
            "train to fit the reference on: lower it."
        )
    return is_usable & ~is_held_out, is_late & is_held_out


def _made_of(firsts: Ints, residuals: Residuals, n_steps: int) -> Bools:
    """Return which rows were made only of steps of these blocks.

    Where train was trimmed its blocks may begin at other steps than those of the rows.
    """
    is_in_block = np.zeros(n_steps + residuals.every, np.bool_)
    for k in range(residuals.every):
        is_in_block[firsts + k] = True
    so_far = np.append(0, np.cumsum(~is_in_block))
    stops = np.minimum(residuals.index + residuals.every, n_steps)
    return np.asarray(so_far[stops] == so_far[residuals.index])


def _labels(residuals: Residuals, recording: Recording) -> Labels:
    """Return the label of each row: attack before ignored before normal."""
    chosen = np.full(len(residuals.index), NORMAL, np.int8)
    stops = np.minimum(residuals.index + residuals.every, recording.n_steps)
    for code in (IGNORED, ATTACK):
        so_far = np.append(0, np.cumsum(_set(recording.labels) == code))
        chosen[so_far[stops] > so_far[residuals.index]] = code
    return chosen


def _set(value: _T | None) -> _T:
    """Return a field that recordings and residuals always have once they are made."""
    assert value is not None  # noqa: S101
    return value


def _breaks(index: Ints, every: int, breaks: Ints | None) -> Ints:
    """Return where a run of rows begins: after a break, or where rows are missing."""
    run = np.searchsorted(_set(breaks), index, side="right")
    is_new = (np.diff(run) > 0) | (np.diff(index) > every)
    return np.append(0, np.flatnonzero(is_new) + 1)


def _moved(attack: Attack, residuals: Residuals) -> Attack:
    """Return an attack by row numbers: empty if no row belongs to it."""
    ends = residuals.index + residuals.every
    start = np.searchsorted(ends, attack.start, side="right")
    stop = np.searchsorted(residuals.index, attack.stop)
    return replace(attack, start=int(start), stop=int(stop))


def _title(detector: Detector) -> str:
    """Return the name of the card, else of the class."""
    card = getattr(detector, "card", None)
    return type(detector).__name__ if card is None else str(card.name)


def _check_same(train: Sequence[str], test: Sequence[str], whose: str) -> None:
    """Raise unless both have the same channels in the same order."""
    if tuple(train) != tuple(test):
        differ = names(sorted(set(train) ^ set(test)), 6, quoted=True)
        raise StreamError(
            f"{whose} of train and test must have the same channels in the same order; "
            + (f"only one has {differ}." if differ else "the order differs.")
        )
