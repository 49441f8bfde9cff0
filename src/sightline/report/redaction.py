"""A report that may leave the plant: pseudonyms for tags, and no telemetry."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from sightline.evaluation.result import ChartData, Evaluation, SegmentResult
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
# An attack's id that tells nothing of the plant.
_PLAIN_ID = re.compile(r"[A-Za-z]?\d+")


class Pseudonyms:
    """What each tag, each stage and each attack is called outside the plant."""

    def __init__(
        self, tags: Sequence[str], stages: Sequence[str], attacks: Sequence[str] = ()
    ) -> None:
        self.names: dict[str, str] = {}
        telling = [name for name in attacks if not _PLAIN_ID.fullmatch(name)]
        for listed, pattern in (
            (tags, "CH-{:03d}"),
            (stages, "STAGE-{:02d}"),
            (telling, "A-{:02d}"),
        ):
            known = [name for name in listed if name not in self.names]
            self.names |= {n: pattern.format(k) for k, n in enumerate(known, 1)}
        self._written = self._as_written()
        # One pattern, so that a pseudonym is never taken for a name; the longest
        # first, so that no name is taken for a part of another.
        listed_all = sorted(self._written, key=len, reverse=True)
        self._groups = [self._written[name] for name in listed_all]
        joined = "|".join(f"({_pattern(name)})" for name in listed_all)
        self._pattern = re.compile(joined) if joined else None

    def _as_written(self) -> dict[str, str]:
        """Return pseudonyms by every way that texts write a name."""
        hidden = [name for name in self.names if name and not _NUMBER.fullmatch(name)]
        quoted = {repr(name)[1:-1]: self.names[name] for name in hidden}
        return quoted | {name: self.names[name] for name in hidden}

    def name(self, name: str) -> str:
        """Return the pseudonym of a tag or a stage."""
        return self.names.get(name) or self.text(name)

    def attack(self, name: str) -> str:
        """Return the pseudonym of an attack; a number stays a number."""
        return self.text(name) if _PLAIN_ID.fullmatch(name) else self.name(name)

    def text(self, text: str) -> str:
        """Return a sentence with every name in it replaced."""
        return text if self._pattern is None else self._pattern.sub(self._hidden, text)

    def _hidden(self, found: re.Match[str]) -> str:
        # Another tag may have the same name but for its case: the one as written wins.
        return self._written.get(found[0]) or self._groups[(found.lastindex or 1) - 1]

    def anything(self, value: Any) -> Any:
        """Return nested values with every text in them replaced."""
        if isinstance(value, str):
            return self.text(value)
        if is_dataclass(value) and not isinstance(value, type):
            return replace(
                value,
                **{
                    f.name: self.anything(getattr(value, f.name)) for f in fields(value)
                },
            )
        if isinstance(value, Mapping):
            return {key: self.anything(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self.anything(item) for item in value)
        return value


def _pattern(name: str) -> str:
    """Return what finds a name in a text."""
    if not re.search(r"[^\W\d_]", name):
        # Without a letter it is a part of many numbers and dates.
        return rf"(?<![\w.,-]){re.escape(name)}(?![\w-])"
    if len(name) <= 2:
        # One or two letters are a part of nearly every word.
        return rf"(?<!\w){re.escape(name)}(?!\w)"
    # It may be written otherwise, and be a part of a longer word: lit101_max.
    return rf"(?i:{re.escape(name)})"


def redacted(results: Sequence[Result]) -> list[Result]:
    """Return results with pseudonyms for what is named, without notes or telemetry.

    The same tag, stage or attack has the same pseudonym in all of them.
    """
    tags: dict[str, None] = {}
    stages: dict[str, None] = {}
    attacks: dict[str, None] = {}
    for result in results:
        tags |= dict.fromkeys(_tags(result))
        stages |= dict.fromkeys(stages_of(result.evaluation).values())
        attacks |= dict.fromkeys(one.id for one in result.evaluation.segments)
    names = Pseudonyms(sorted(tags), sorted(stages), list(attacks))
    return [
        Result(
            result.folder,
            replace(
                _evaluation(result.evaluation, names),
                traces=_traces(result.traces, names),
            ),
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
    meta = evaluation.provenance.meta
    groups = meta.get("groups")
    kept: dict[str, Any] = {}
    if isinstance(groups, Mapping):
        by_stage: dict[str, list[str]] = {}
        for tag, stage in stages_of(evaluation).items():
            by_stage.setdefault(names.name(stage), []).append(names.name(tag))
        kept["groups"] = by_stage
    if isinstance(meta.get("seed"), int):
        kept["seed"] = meta["seed"]
    return replace(
        evaluation,
        segments=tuple(_segment(segment, names) for segment in evaluation.segments),
        notices=names.anything(tuple(evaluation.notices or ())),
        diagnosis=names.anything(evaluation.diagnosis),
        repairs=names.anything(evaluation.repairs),
        provenance=replace(evaluation.provenance, meta=kept),
    )


def _segment(segment: SegmentResult, names: Pseudonyms) -> SegmentResult:
    return replace(
        segment,
        id=names.attack(segment.id),
        name=None,
        note=None,
        targets=tuple(names.name(name) for name in segment.targets or ()),
        refocus_channels=tuple(names.name(n) for n in segment.refocus_channels or ()),
        ladder=names.anything(segment.ladder),
        sentence=None if segment.sentence is None else names.text(segment.sentence),
    )


def _traces(traces: ChartData, names: Pseudonyms) -> ChartData:
    changes: dict[str, Any] = dict.fromkeys(_TELEMETRY)
    changes |= {
        key: np.array([names.name(str(tag)) for tag in listed], dtype=np.str_)
        for key in ("channel_names", "telemetry_names")
        if (listed := getattr(traces, key)) is not None
    }
    return replace(traces, **changes)
