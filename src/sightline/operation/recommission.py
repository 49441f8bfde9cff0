"""Rules made from a plant's exports: commissioning on them, and making a rule again."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from sightline.data.arrays import IGNORED, NORMAL
from sightline.data.row_tables import Rows
from sightline.data.stream import ResidualStream
from sightline.detectors.base import LearnedDetector
from sightline.errors import StreamError
from sightline.export import expected
from sightline.metrics.alarm_load import Delays
from sightline.operation.telemetry import read_telemetry, rule_rows
from sightline.progress import Progress, silent
from sightline.rules.limits import Limit, Promise
from sightline.rules.making import MadeRule
from sightline.rules.normal import channels_of, origin_of, raw_rows
from sightline.rules.rule import Rule
from sightline.text import counted

# Rows of train that tell what the other tags say of one without a value.
_MOST_ROWS: Final = 50_000


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
    made = _without_members(stream)
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


def _without_members(stream: ResidualStream) -> MadeRule:
    """Return a rule that says what rows it reads, and nothing of alarms."""
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
    return MadeRule(
        rule=rule,
        limit=Limit(value=1.0, alarms=0.0, share=0.0),
        promise=Promise(per_day=0.0, share=0.0, days=1.0, spread=2.0, alarms=0.0),
        origin=origin_of(stream, (), None),
    )
