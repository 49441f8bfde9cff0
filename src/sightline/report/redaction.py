"""A report that may leave the plant: pseudonyms for tags, and no telemetry."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sightline.evaluation import Evaluation
from sightline.metrics.segment import SegmentRow
from sightline.report.entries import stages_of
from sightline.storage import Result

# What the plant measured, or tells of it.
_TELEMETRY = (
    "excerpt_signals",
    "excerpt_telemetry",
    "state_channel",
    "state_value",
    "state_time_share",
    "state_alarm_share",
)
# Names that Sightline gives itself, where none are given.
_NUMBER = re.compile(r"\d{1,4}")


class Pseudonyms:
    """What each tag and each stage is called outside the plant."""

    def __init__(self, tags: Sequence[str], stages: Sequence[str]) -> None:
        self.names = {tag: f"CH-{k:03d}" for k, tag in enumerate(tags, 1)}
        known = [stage for stage in stages if stage not in self.names]
        self.names |= {stage: f"STAGE-{k:02d}" for k, stage in enumerate(known, 1)}
        hidden = [name for name in self.names if name and not _NUMBER.fullmatch(name)]
        # The longest first, so that no name is taken for a part of another.
        listed = "|".join(re.escape(n) for n in sorted(hidden, key=len, reverse=True))
        self._pattern = re.compile(rf"(?<!\w)(?:{listed})(?!\w)") if listed else None
        self._anywhere = re.compile(listed) if listed else None

    def name(self, name: str) -> str:
        """Return the pseudonym of a tag or a stage."""
        return self.names.get(name) or self.text(name)

    def text(self, text: str) -> str:
        """Return a sentence with every name in it replaced."""
        if self._pattern is None or self._anywhere is None:
            return text
        text = self._pattern.sub(lambda found: self.names[found[0]], text)
        # A name may be a part of a longer word, such as LIT101_max. A name of one or
        # two letters is part of nearly every word.
        return self._anywhere.sub(
            lambda found: self.names[found[0]] if len(found[0]) > 2 else found[0], text
        )

    def anything(self, value: Any) -> Any:
        """Return nested values with every text in them replaced."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {key: self.anything(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self.anything(item) for item in value)
        return value


def redacted(results: Sequence[Result]) -> list[Result]:
    """Return results with pseudonyms for tags and stages, without notes or telemetry.

    The same tag has the same pseudonym in all of them.
    """
    tags: dict[str, None] = {}
    stages: dict[str, None] = {}
    for result in results:
        tags |= dict.fromkeys(_tags(result))
        stages |= dict.fromkeys(stages_of(result.evaluation).values())
    names = Pseudonyms(sorted(tags), sorted(stages))
    return [
        Result(
            result.folder,
            _evaluation(result.evaluation, names),
            _traces(result.traces, names),
        )
        for result in results
    ]


def _tags(result: Result) -> list[str]:
    """Return every tag name a result holds."""
    evaluation, traces = result.evaluation, result.traces
    quality = evaluation.quality
    found = [*(stages_of(evaluation))]
    for key in ("channel_names", "telemetry_names"):
        found += [str(name) for name in traces.get(key, ())]
    for listed in (
        quality.constant_channels,
        quality.one_sided_channels,
        getattr(quality, "scale_blind_channels", None),
    ):
        found += list(listed or ())
    for segment in evaluation.segments:
        found += [*(segment.targets or ()), *(segment.refocus_channels or ())]
    return found


def _evaluation(evaluation: Evaluation, names: Pseudonyms) -> Evaluation:
    meta = (evaluation.provenance or {}).get("meta")
    groups = meta.get("groups") if isinstance(meta, Mapping) else None
    kept: dict[str, Any] = {}
    if isinstance(groups, Mapping):
        by_stage: dict[str, list[str]] = {}
        for tag, stage in stages_of(evaluation).items():
            by_stage.setdefault(names.name(stage), []).append(names.name(tag))
        kept["groups"] = by_stage
    if isinstance(meta, Mapping) and isinstance(meta.get("seed"), int):
        kept["seed"] = meta["seed"]
    provenance = {**(evaluation.provenance or {}), "meta": kept}
    return replace(
        evaluation,
        segments=tuple(_segment(segment, names) for segment in evaluation.segments),
        notices=names.anything(tuple(evaluation.notices or ())),
        diagnosis=names.anything(evaluation.diagnosis),
        repairs=names.anything(evaluation.repairs),
        provenance=provenance,
    )


def _segment(segment: SegmentRow, names: Pseudonyms) -> SegmentRow:
    return replace(
        segment,
        id=names.text(segment.id),
        name=None,
        note=None,
        targets=tuple(names.name(name) for name in segment.targets or ()),
        refocus_channels=tuple(names.name(n) for n in segment.refocus_channels or ()),
        ladder=names.anything(segment.ladder),
        sentence=None if segment.sentence is None else names.text(segment.sentence),
    )


def _traces(traces: dict[str, Any], names: Pseudonyms) -> dict[str, Any]:
    kept = {key: value for key, value in traces.items() if key not in _TELEMETRY}
    for key in ("channel_names", "telemetry_names"):
        if key in kept:
            kept[key] = np.array([names.name(str(n)) for n in kept[key]], dtype=np.str_)
    return kept
