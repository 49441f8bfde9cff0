"""From a fitted detector and two recordings to the residual stream of both.

Here labels meet residuals for the first time; the detector never sees any.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from sightline.data.arrays import ATTACK, IGNORED, NORMAL, Bools, Floats, Ints, Labels
from sightline.data.recording import Recording, Tag
from sightline.data.segments import Attack
from sightline.data.stream import ResidualStream
from sightline.detectors.base import (
    Detector,
    LearnedDetector,
    Looked,
    Residuals,
    unlabelled,
)
from sightline.detectors.native_rules.rules import RULES, NativeAlarms, native_rule
from sightline.detectors.scaling import Matrix, fill_missing, means_of
from sightline.errors import StreamError
from sightline.progress import Progress, Step, StepKind, silent
from sightline.text import names

NO_RULE = "none"
_T = TypeVar("_T")


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
        What to call the stream (else the detector and the testbed), and the plant.
    telemetry : bool
        Take along what the plant measured at the step of each row; a missing cell
        takes the last value before it, else the mean of train.
    rule : str, optional
        The detector's own alarm rule, whose score and alarms go with the stream; by
        default the one that looks at nothing of the test, where it has one. Those that
        look at its statistics or labels say so in their names. "none" for no rule.
    preset : {"export", "official"}
        How the detector looks: as is best for a stream to be evaluated, or to the
        letter as published.
    progress : callable, optional
        Told ``(what, done, total)``.
    """
    check_rule(detector, rule)
    learned = _residuals(detector, train, "train", preset, progress)
    tested = _residuals(detector, test, "test", preset, progress)
    _check_same(learned.channels, tested.channels, "The residuals")
    labels = np.where(_known(tested.is_warm_up), IGNORED, _labels(tested, test))
    is_usable = ~_known(learned.is_warm_up)
    is_normal = _labels(learned, train) == NORMAL
    is_trained, is_held_out = _parts(
        detector, learned, is_usable & is_normal, train.n_steps
    )
    attacks = [_moved(attack, tested) for attack in test.attacks]
    lost = [attack.id for attack in attacks if attack.start >= attack.stop]
    notices = _told(learned.notices, tested.notices)
    if left_out := int((is_usable & ~is_normal).sum()):
        notices.append(f"train: {left_out:,} rows not labelled normal were left out.")
    if lost:
        notices.append(
            f"test: no residual belongs to a step of {names(lost, 6, quoted=True)}."
        )
    called, rows = _called(detector), learned.index[is_trained]
    known: dict[str, Any] = {}
    meta = _meta(detector, tested, test.tags)
    if preset != "export":
        meta["residuals_preset"] = preset
    if isinstance(detector, LearnedDetector):
        looked = Looked(
            train=unlabelled(train),
            test=unlabelled(test),
            learned=learned,
            tested=tested,
            is_trained=is_trained,
            is_held_out=is_held_out,
            preset=preset,
        )
        known |= _own_alarms(detector, looked, rule, labels, meta, notices)
    if telemetry:
        _check_same(train.channels, test.channels, "The recordings")
        means = means_of(train.values)
        known["telemetry_train"] = _telemetry(train, rows, means)
        known["telemetry_test"] = _telemetry(test, tested.index, means)
        known["telemetry_channels"] = train.channels
    return ResidualStream(
        learned.values[is_trained],
        tested.values,
        labels,
        calibration=learned.values[is_held_out] if is_held_out.any() else None,
        channels=tested.channels,
        train_time=None if train.time is None else train.time[rows],
        test_time=None if test.time is None else test.time[tested.index],
        train_breaks=_breaks(rows, _known(learned.spacing), train.breaks),
        test_breaks=_breaks(tested.index, _known(tested.spacing), test.breaks),
        segments=[attack for attack in attacks if attack.start < attack.stop],
        space=tested.space,
        name=name or (f"{called}-{testbed}" if testbed else called),
        detector=called,
        testbed=testbed,
        step_s=None if test.step_s is None else test.step_s * _known(tested.spacing),
        meta=meta,
        notices=notices,
        **known,
    )


def check_rule(detector: Detector, rule: str | None) -> None:
    """Refuse an alarm rule that a detector does not have; best before it learns."""
    if rule is None or rule == NO_RULE:
        return
    name = detector.card.name if isinstance(detector, LearnedDetector) else ""
    if name not in RULES:
        raise StreamError(
            f"{_called(detector)} has no alarm rule of its own; got rule {rule!r}."
        )
    native_rule(name, rule)


def _own_alarms(
    detector: LearnedDetector,
    looked: Looked,
    rule: str | None,
    labels: Labels,
    meta: dict[str, Any],
    notices: list[str],
) -> dict[str, Any]:
    """Return a detector's own score and alarms; labels go only to rules that say so."""
    if rule == NO_RULE:
        return {}
    shown = labels if rule is not None and "test-labels" in rule else None
    try:
        own = detector.native_alarms(looked, rule=rule, labels=shown)
    except StreamError as error:
        if rule is not None:
            raise
        # Nobody asked for it: the stream is worth having without.
        notices.append(f"own rule: it could not be used: {error}")
        return {}
    return {} if own is None else _own_rule(own, meta, notices)


def _own_rule(
    own: NativeAlarms, meta: dict[str, Any], notices: list[str]
) -> dict[str, Any]:
    """Return score and alarms for the stream; tell the rule in meta and notices."""
    notices += [f"own rule: {notice}" for notice in own.notices]
    if own.rule is not None:
        meta["native_rule"] = {"name": own.rule.name, "looks_at": own.rule.looks_at}
        if isinstance(own.threshold, float):
            meta["native_rule"]["threshold"] = own.threshold
        if own.rule.looks_at:
            notices.append(
                f"own rule: it looks at {' and '.join(own.rule.looks_at)}, which no "
                "detector in service could."
            )
    known: dict[str, Any] = {}
    if own.alarms is not None:
        known["alarms"] = own.alarms.astype(np.int8)
    if np.isfinite(own.score).all():
        known["score"] = own.score
    else:
        notices.append("own rule: its score is left out, for some rows have none.")
    return known


def _residuals(
    detector: Detector,
    recording: Recording,
    which: str,
    preset: str,
    progress: Progress,
) -> Residuals:
    """Return what a detector makes of a recording whose labels it does not see."""
    seen = unlabelled(recording)
    progress(Step(StepKind.RESIDUALS, 0, 1, f"of {which}"))
    made = (
        detector.residuals(seen, preset=preset, progress=progress)
        if isinstance(detector, LearnedDetector)
        else detector.residuals(seen)
    )
    progress(Step(StepKind.RESIDUALS, 1, 1, f"of {which}"))
    if not isinstance(made, Residuals):
        raise StreamError(
            f"`residuals` must return sightline.Residuals; got {type(made).__name__}."
        )
    if len(made.index) and not 0 <= made.index[0] <= made.index[-1] < recording.n_steps:
        raise StreamError(
            f"`index` of the {which} residuals must lie within the recording's "
            f"{recording.n_steps:,} steps; got {made.index[0]} to {made.index[-1]}."
        )
    return _told_in_numbers(made)


def _told_in_numbers(made: Residuals) -> Residuals:
    """Return residuals without the rows in which a detector could tell nothing."""
    is_told = np.asarray(~np.isnan(made.values).any(axis=1))
    if is_told.all():
        return made
    lost = len(is_told) - int(is_told.sum())
    return replace(
        made,
        values=made.values[is_told],
        index=made.index[is_told],
        is_warm_up=_known(made.is_warm_up)[is_told],
        score=None if made.score is None else made.score[is_told],
        notices=(
            *made.notices,
            f"{lost:,} rows of {len(is_told):,} have residuals that are no numbers and "
            "were left out.",
        ),
    )


def _parts(
    detector: Detector, made: Residuals, is_usable: Bools, n_steps: int
) -> tuple[Bools, Bools]:
    """Return which rows of train were learned from, and which were held out."""
    is_trained, is_held_out = is_usable, np.zeros_like(is_usable)
    split = getattr(detector, "split", None)
    if split is not None:
        if max(split.trained.max(initial=0), split.held_out.max(initial=0)) >= n_steps:
            raise StreamError(
                f"`train` is too short with its {n_steps:,} steps to be what the "
                "detector was fitted on: give that very recording."
            )
        is_trained = is_usable & _made_of(split.trained, made, n_steps)
        is_held_out = is_usable & _made_of(split.held_out, made, n_steps)
    if not is_trained.any():
        raise StreamError(
            f"None of the {len(made.index):,} rows of train is left (all are warm-up, "
            "held out, trimmed, not labelled normal or without a finite residual): "
            "give a longer recording, or look at what the detector gives."
        )
    return is_trained, is_held_out


def _made_of(firsts: Ints, made: Residuals, n_steps: int) -> Bools:
    """Return which rows were made of nothing but steps of these blocks.

    Where train was trimmed its blocks may begin at other steps than those of the rows.
    """
    is_known = np.zeros(n_steps + made.every, np.bool_)
    for k in range(made.every):
        is_known[firsts + k] = True
    so_far = np.append(0, np.cumsum(~is_known))
    stops = np.minimum(made.index + made.every, n_steps)
    return np.asarray(so_far[stops] == so_far[made.index])


def _labels(made: Residuals, recording: Recording) -> Labels:
    chosen = np.full(len(made.index), NORMAL, np.int8)
    stops = np.minimum(made.index + made.every, recording.n_steps)
    for code in (IGNORED, ATTACK):  # an attack goes before all else
        so_far = np.append(0, np.cumsum(_known(recording.labels) == code))
        chosen[so_far[stops] > so_far[made.index]] = code
    return chosen


def _known(field: _T | None) -> _T:
    """Return what recordings and residuals always have once they are made."""
    assert field is not None  # noqa: S101
    return field


def _breaks(index: Ints, every: int, breaks: Ints | None) -> Ints:
    """Return where a run of rows begins: after a break, or where rows are missing."""
    run = np.searchsorted(_known(breaks), index, side="right")
    is_new = (np.diff(run) > 0) | (np.diff(index) > every)
    return np.append(0, np.flatnonzero(is_new) + 1)


def _moved(attack: Attack, made: Residuals) -> Attack:
    """Return an attack by row numbers: empty where it lies in no row."""
    start = np.searchsorted(made.index + made.every, attack.start, side="right")
    return replace(
        attack, start=int(start), stop=int(np.searchsorted(made.index, attack.stop))
    )


def _telemetry(recording: Recording, rows: Ints, means: Floats) -> Matrix:
    # A missing cell would spoil every average of the telemetry after it.
    filled, _ = fill_missing(recording.values, _known(recording.breaks), means)
    return filled[rows]


def _called(detector: Detector) -> str:
    card = getattr(detector, "card", None)
    return type(detector).__name__ if card is None else str(card.name)


def _meta(detector: Detector, made: Residuals, tags: Sequence[Tag]) -> dict[str, Any]:
    """Return what one must know to make the stream again and to read it."""
    about = detector.about() if hasattr(detector, "about") else {}
    meta = {
        "detector_name" if k == "detector" else f"detector_{k}": value
        for k, value in about.items()
    }
    if made.scale is not None:
        meta["scale"] = [float(scale) for scale in made.scale]
    groups: dict[str, list[str]] = {}
    for tag in tags:
        if tag.stage is not None and tag.name in made.channels:
            groups.setdefault(tag.stage, []).append(tag.name)
    return meta | ({"groups": groups} if len(groups) > 1 else {})


def _told(train: Sequence[str], test: Sequence[str]) -> list[str]:
    """Return each sentence once, with what it is about."""
    of = dict.fromkeys(train, "train")
    for text in test:
        of[text] = "train and test" if text in train else "test"
    return [f"{which}: {text}" for text, which in of.items()]


def _check_same(train: Sequence[str], test: Sequence[str], whose: str) -> None:
    if tuple(train) != tuple(test):
        differ = sorted(set(train) ^ set(test))
        raise StreamError(
            f"{whose} of train and test must have the same channels in the same order; "
            + (
                f"only one has {names(differ, 6, quoted=True)}."
                if differ
                else "the order differs."
            )
        )
