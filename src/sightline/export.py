"""From a fitted detector and two recordings to the residual stream of both.

This is the only place where labels meet residuals; the detector never sees any.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from sightline import plugins
from sightline.audit.record import RANDOM_KEY, Audit, carried
from sightline.data.arrays import ATTACK, IGNORED, NORMAL, Bools, Floats, Ints, Labels
from sightline.data.downsampling import Preparation, block_codes
from sightline.data.recording import Recording
from sightline.data.segments import Attack
from sightline.data.stream import ResidualStream
from sightline.data.validity import is_usable
from sightline.detectors.base import (
    Detector,
    LearnedDetector,
    Residuals,
    RuleInput,
    unlabelled,
)
from sightline.detectors.native_rules import NativeAlarms, TestUse, rule_named
from sightline.detectors.preprocessing import (
    Matrix,
    expected_cells,
    fill_missing,
    means_of,
)
from sightline.detectors.settings import RowSettings
from sightline.errors import StreamError
from sightline.progress import Progress, Step, StepKind, silent
from sightline.text import names

NO_RULE = "none"
# How many tags a notice names before it counts the rest.
_MOST_TAGS = 20
# Telemetry of this size is announced.
_LARGE_BYTES = 100_000_000
_T = TypeVar("_T")


def export_stream(
    detector: Detector,
    train: Recording,
    test: Recording,
    *,
    name: str | None = None,
    testbed: str | None = None,
    telemetry: bool = True,
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
        Names of the stream (else the detector and the testbed) and of the plant. Of a
        detector of your own, tables show this name, without a ``-seed3`` at its end.
    telemetry : bool
        Include what the plant measured at the step of each row, so that an attack
        without evidence can be told from one that moved nothing; a missing cell takes
        the last value before it, else the mean of train. The file holds a number for
        each tag more.
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
    if test.parts > 1:
        raise StreamError(
            "train and test are one record, whose parts are judged by a model of the "
            "other parts: use `sightline run`, or leave `parts` out of plant.toml."
        )
    wanted = getattr(detector, "settings", None)
    if not isinstance(wanted, RowSettings):
        wanted = RowSettings()  # a class of the user: rows as they are
    test = Preparation(test_until=wanted.test_until).test(test)
    given = rule_input(detector, train, test, preset=preset, progress=progress)
    learned, tested = given.train_residuals, given.test_residuals
    rows = _exported(tested, test, detector, preset)
    notices = _remarks(given, train, test)
    meta = _description(detector, test, tested)
    if preset != "export":
        meta["residuals_preset"] = preset
    meta |= carried(audit)
    score, alarms = _own_alarms(detector, given, rule, rows.labels, meta, notices)
    facts = {
        "every": train.prepared.every * tested.every,
        # What later telemetry must look like before the detector reads it.
        "recording_step_s": train.step_s,
        "sampling": train.prepared.sampling or None,
        "trim_s": wanted.trim_s or train.prepared.trim_s,
        "reference_trim_s": wanted.reference_trim_s,
        "test_until": wanted.test_until,
    }
    meta["rows"] = {k: fact for k, fact in facts.items() if fact is not None}
    is_reference, is_held_out = _reference_rows(given, wanted, train)
    title, at = _title(detector), learned.index[is_reference]
    measured: tuple[Matrix, Matrix] | tuple[None, None] = None, None
    of_train = without_lost(learned, train, detector, preset)
    of_test = rows.values
    if np.isnan(of_train).any() or np.isnan(of_test).any():
        n_lost = [int(np.isnan(part).sum()) for part in (of_train, of_test)]
        notices.append(
            f"{n_lost[0]:,} residuals of train and {n_lost[1]:,} of test are of tags "
            "without a usable value: each was replaced by what the other tags tell of "
            "it, so that it is no evidence."
        )
        normal = of_train[is_reference]
        of_train, of_test = expected(of_train, normal), expected(of_test, normal)
    if telemetry:
        _check_same(train.channels, test.channels, "The recordings")
        _announce_size(train.values, test.values, progress)
        # A missing cell would spoil every average of the telemetry after it.
        means = means_of(train.values)
        before, _ = fill_missing(train.values, _set(train.breaks), means)
        after, _ = fill_missing(test.values, _set(test.breaks), means)
        measured = before[at], after[tested.index]
    return ResidualStream(
        of_train[is_reference],
        of_test,
        rows.labels,
        calibration=of_train[is_held_out] if is_held_out.any() else None,
        channels=tested.channels,
        train_time=None if train.time is None else train.time[at],
        test_time=rows.time,
        train_breaks=_breaks(at, _set(learned.spacing), train.breaks),
        test_breaks=rows.breaks,
        segments=list(rows.attacks),
        space=tested.space,
        name=name or (f"{title}-{testbed}" if testbed else title),
        detector=_shown(title, name),
        testbed=testbed,
        step_s=rows.step_s,
        label_slop_s=test.label_slop_s,
        timezone=test.timezone,
        score=score,
        alarms=alarms,
        telemetry_train=measured[0],
        telemetry_test=measured[1],
        telemetry_channels=train.channels if telemetry else None,
        meta=meta,
        notices=notices,
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
    return _exported(rows, recording, detector, preset)


def _exported(
    residuals: Residuals, recording: Recording, detector: Detector, preset: str
) -> ExportedRows:
    """Return residuals with what the recording says of their rows."""
    moved = (_moved(attack, residuals) for attack in recording.attacks)
    index, spacing = residuals.index, _set(residuals.spacing)
    return ExportedRows(
        values=without_lost(residuals, recording, detector, preset),
        channels=residuals.channels,
        index=index,
        time=None if recording.time is None else recording.time[index],
        breaks=_breaks(index, spacing, recording.breaks),
        labels=_labels(residuals, recording),
        attacks=tuple(attack for attack in moved if attack.start < attack.stop),
        step_s=None if recording.step_s is None else recording.step_s * spacing,
        score=residuals.score,
        notices=residuals.notices,
    )


def without_lost(
    residuals: Residuals, recording: Recording, detector: Detector, preset: str
) -> Matrix:
    """Return residuals with nan for tags that had no usable value.

    A row made of several steps is lost if at least half of them are, or the first where
    the detector reads only that. A tag is back when as many rows of it are usable as
    its residual depends on, unless more than half of the tags would have to wait.
    So has one whose residual says nothing without a lost tag, as the detector says.
    Channels that are no tags, as those of a latent space, are left as they are.
    """
    places = {name: k for k, name in enumerate(recording.channels)}
    is_lost = ~is_usable(recording.codes())
    tags = list(dict.fromkeys(residuals.tags))
    if not is_lost.any() or not {*tags} <= {*places}:
        return residuals.values
    every, starts, memory = residuals.every, residuals.index, 0
    n_seen = every
    if isinstance(detector, LearnedDetector):
        memory = detector.memory(preset)
        settings = detector.row_settings(preset)
        n_seen = 1 if getattr(settings, "sampling", "") == "stride" else every
    breaks = _set(recording.breaks)
    begins = breaks[np.searchsorted(breaks, starts, side="right") - 1]
    # Whether a tag is lost in a row, and whether it is in that or an earlier one.
    marks = np.zeros((2, len(residuals.values), len(tags)), np.bool_)
    for k, name in enumerate(tags):
        lost = is_lost[:, places[name]].astype(np.int8)[:, None]
        for back in range(memory + 1) if lost.any() else ():
            inside = starts - back * every >= begins
            at = starts[inside] - back * every
            marks[min(back, 1), inside, k] |= block_codes(lost, at, n_seen)[:, 0] > 0
    marks[1] |= marks[0]
    has_many = 2 * marks[1].sum(axis=1) > len(places)
    of = [tags.index(tag) for tag in residuals.tags]
    is_without = np.where(has_many[:, None], marks[0], marks[1])[:, of]
    if residuals.is_unknown is not None:
        is_without |= residuals.is_unknown
    return np.where(is_without, np.nan, residuals.values)


def expected(values: Matrix, train: Matrix) -> Matrix:
    """Return rows with nan replaced by what the other channels tell of it.

    The conditional mean by mean and covariance of train: the energy of such a row is
    that of its other channels alone.

    Parameters
    ----------
    values : array of shape (n_rows, n_channels)
        Residuals; nan where a tag had no value.
    train : array of shape (m, n_channels)
        Residuals of train; rows with nan do not count.

    Examples
    --------
    >>> train = np.array([[0.0, 0.0], [1.0, 2.0], [2.0, 4.0], [3.0, 6.0]])
    >>> expected(np.array([[1.5, np.nan]]), train).round(2).tolist()
    [[1.5, 3.0]]
    """
    is_lost = np.isnan(values)
    if not is_lost.any():
        return values
    whole = train[~np.isnan(train).any(axis=1)].astype(np.float64)
    if len(whole) < 2:
        return np.where(is_lost, means_of(train), values)
    covariance = np.atleast_2d(np.cov(whole, rowvar=False, ddof=0))
    return expected_cells(values, is_lost, whole.mean(axis=0), covariance, 1e-9)


def check_rule(detector: Detector, rule: str | None) -> None:
    """Raise if a detector does not have an alarm rule; call it before fitting."""
    if rule is not None and rule != NO_RULE:
        rules = detector.rules if isinstance(detector, LearnedDetector) else ()
        rule_named(rules, rule, _title(detector))


def rule_input(
    detector: Detector,
    train: Recording,
    test: Recording,
    *,
    preset: str = "export",
    progress: Progress = silent,
) -> RuleInput:
    """Return what a detector's own alarm rule may look at."""
    learned = _residuals(detector, train, "train", preset, progress)
    tested = _residuals(detector, test, "test", preset, progress)
    _check_same(learned.channels, tested.channels, "The residuals")
    is_trained: Bools = _labels(learned, train) == NORMAL
    is_held_out = np.zeros_like(is_trained)
    split = getattr(detector, "split", None)
    if split is not None:
        n_steps = train.n_steps
        if max(split.trained.max(initial=0), split.held_out.max(initial=0)) >= n_steps:
            raise StreamError(
                f"`train` is too short with its {n_steps:,} steps to be what the "
                "detector was fitted on: give that same recording."
            )
        is_held_out = is_trained & _made_of(split.held_out, learned, n_steps)
        is_trained = is_trained & _made_of(split.trained, learned, n_steps)
    if not is_trained.any():
        raise StreamError(
            f"None of the {len(learned.index):,} rows of train is left (all are "
            "warm-up, held out, trimmed, not labelled normal or without a finite "
            "residual): give a longer recording, or check the detector's residuals."
        )
    return RuleInput(
        train=unlabelled(train),
        test=unlabelled(test),
        train_residuals=learned,
        test_residuals=tested,
        is_trained=is_trained,
        is_held_out=is_held_out,
        preset=preset,
    )


def _description(
    detector: Detector, test: Recording, tested: Residuals
) -> dict[str, object]:
    """Return what is needed to make a stream again and to read it."""
    about = detector.about() if hasattr(detector, "about") else {}
    meta: dict[str, object] = {
        "detector_name" if k == "detector" else f"detector_{k}": value
        for k, value in about.items()
    }
    if getattr(getattr(detector, "card", None), "is_random", False):
        meta[RANDOM_KEY] = True
    if tested.scale is not None:
        meta["scale"] = [float(scale) for scale in tested.scale]
    groups: dict[str, list[str]] = {}
    pairs = list(zip(tested.channels, tested.tags, strict=True))
    for tag in test.tags:
        own = [channel for channel, name in pairs if name == tag.name]
        if tag.stage is not None and own:
            groups.setdefault(tag.stage, []).extend(own)
    if len(groups) > 1:
        meta["groups"] = groups
    return meta


def _remarks(given: RuleInput, train: Recording, test: Recording) -> list[str]:
    """Return what residuals say, and sentences on what has none."""
    learned, tested = given.train_residuals, given.test_residuals
    remarks = []
    for text in dict.fromkeys((*learned.notices, *tested.notices)):
        sources = (("train", learned), ("test", tested))
        where = [name for name, residuals in sources if text in residuals.notices]
        remarks.append(f"{' and '.join(where)}: {text}")
    moved = [_moved(attack, tested) for attack in test.attacks]
    if lost := [attack.id for attack in moved if attack.start >= attack.stop]:
        remarks.append(
            f"test: no residual belongs to a step of {names(lost, 6, quoted=True)}."
        )
    absent = [tag for tag in test.channels if tag not in tested.channels]
    # Channels of a latent space are no tags: then it makes no sense to name tags.
    if 0 < len(absent) < len(test.channels):
        verb, whose = ("has", "its") if len(absent) == 1 else ("have", "their")
        remarks.append(
            f"{len(absent)} of {len(test.channels)} tags {verb} no residual of {whose} "
            f"own: {names(absent, _MOST_TAGS)}."
        )
    is_left_out = (_labels(learned, train) != NORMAL) & ~_set(learned.is_warm_up)
    if count := int(is_left_out.sum()):
        remarks.append(f"train: {count:,} rows not labelled normal were left out.")
    return remarks


def _own_alarms(
    detector: Detector,
    given: RuleInput,
    rule: str | None,
    labels: Labels,
    meta: dict[str, object],
    notices: list[str],
) -> tuple[Floats | None, Labels | None]:
    """Return score and alarms of a detector's own rule; describe the rule in `meta`.

    Labels reach only a rule that was asked for by name and whose name says it.
    """
    if rule == NO_RULE:
        return None, None
    own: Residuals | NativeAlarms | None = given.test_residuals
    if isinstance(detector, LearnedDetector):
        uses: tuple[TestUse, ...] = ()
        if rule is not None:
            uses = rule_named(detector.rules, rule, _title(detector)).looks_at
        try:
            own = detector.native_alarms(
                given, rule=rule, labels=labels if TestUse.LABELS in uses else None
            )
        except StreamError as error:
            if rule is not None:
                raise
            # The rule was not asked for: the stream is useful without it.
            notices.append(f"own rule: it could not be used: {error}")
            return None, None
    if own is None:
        return None, None
    if isinstance(own, NativeAlarms):
        notices += [f"own rule: {notice}" for notice in own.notices]
        if own.rule is not None:
            looks_at = tuple(str(what) for what in own.rule.looks_at)
            facts: dict[str, object] = {"name": own.rule.name, "looks_at": looks_at}
            if isinstance(own.threshold, float):
                facts["threshold"] = own.threshold
            meta["native_rule"] = facts
            if looks_at:
                notices.append(
                    f"own rule: it looks at {' and '.join(looks_at)}, which no "
                    "detector in service could."
                )
    score = own.score
    if score is not None and not np.isfinite(score).all():
        notices.append("own rule: its score is left out, for some rows have none.")
        score = None
    alarms = None if own.alarms is None else np.asarray(own.alarms).astype(np.int8)
    return score, alarms


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
        is_unknown=None
        if residuals.is_unknown is None
        else residuals.is_unknown[is_number],
        notices=(
            *residuals.notices,
            f"{lost:,} rows of {len(is_number):,} have residuals that are nan and were "
            "left out.",
        ),
    )


def _reference_rows(
    given: RuleInput, wanted: RowSettings, train: Recording
) -> tuple[Bools, Bools]:
    """Return the rows of train that fit the reference, and those held out.

    Without `reference_trim_s` they are the rows learned from. With it they are all
    normal rows from that second on, counted from the first measured row.
    """
    trim_s, is_held_out = wanted.reference_trim_s, given.is_held_out
    if trim_s is None:
        return given.is_trained, is_held_out
    learned = given.train_residuals
    if train.time is not None:
        since = train.time[learned.index] - train.time[0]
    elif train.step_s is not None:
        since = learned.index * train.step_s
    else:
        raise StreamError(
            f"`reference_trim_s` is {trim_s:g} s, but the recording has neither `time` "
            "nor `step_s`: give one of them."
        )
    is_late = since >= trim_s - train.prepared.trim_s
    is_reference = is_late & (_labels(learned, train) == NORMAL) & ~is_held_out
    if not is_reference.any():
        raise StreamError(
            f"`reference_trim_s` of {trim_s:g} s leaves no row of train to fit the "
            "reference on: lower it."
        )
    return is_reference, is_late & is_held_out


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
    """Return the label of each row: attack before ignored before normal.

    Warm-up rows are ignored.
    """
    chosen = np.full(len(residuals.index), NORMAL, np.int8)
    stops = np.minimum(residuals.index + residuals.every, recording.n_steps)
    for code in (IGNORED, ATTACK):
        so_far = np.append(0, np.cumsum(_set(recording.labels) == code))
        chosen[so_far[stops] > so_far[residuals.index]] = code
    chosen[_set(residuals.is_warm_up)] = IGNORED
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


def _shown(title: str, name: str | None) -> str:
    """Return the name in tables: as stated, of detectors that are not registered.

    Examples
    --------
    >>> _shown("Middle", "my median-seed3"), _shown("var", "mine"), _shown("Middle", "")
    ('my median', 'var', 'Middle')
    """
    if not name or title in plugins.registered(plugins.DETECTORS):
        return title
    return re.sub(r"[-_ ]seed[-_ ]?\d+$", "", name) or title


def _announce_size(train: Matrix, test: Matrix, progress: Progress) -> None:
    """Say how much telemetry adds to a stream, where that is much."""
    n_bytes = train.nbytes + test.nbytes
    if n_bytes > _LARGE_BYTES:
        said = f"The stream carries the plant's telemetry, {n_bytes / 1e6:,.0f} MB"
        detail = f"{said}; telemetry=False leaves it out."
        progress(Step(StepKind.NOTICE, detail=detail))


def _check_same(train: Sequence[str], test: Sequence[str], whose: str) -> None:
    """Raise unless both have the same channels in the same order."""
    if tuple(train) != tuple(test):
        differ = names(sorted(set(train) ^ set(test)), 6, quoted=True)
        raise StreamError(
            f"{whose} of train and test must have the same channels in the same order; "
            + (f"only one has {differ}." if differ else "the order differs.")
        )
