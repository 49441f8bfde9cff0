"""A report that may leave the plant: pseudonyms for names, and no telemetry.

Names of tags and stages are replaced everywhere, also inside sentences and longer
words. Names of detectors, testbeds and streams, time stamps and numbers stay.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any, TypeVar

import numpy as np

from sightline.evaluation.result import ChartData, Evaluation, SegmentResult
from sightline.storage import Result

T = TypeVar("T")
# Chart data that the plant measured, or that describe it.
_TELEMETRY = (
    "excerpt_signals",
    "excerpt_telemetry",
    "state_channel",
    "state_value",
    "state_time_share",
    "state_alarm_share",
)
# Names of channels that Sightline numbers itself if none are given.
_NUMBER = re.compile(r"\d{1,4}")
# An attack's id that says nothing about the plant.
_PLAIN_ID = re.compile(r"[A-Za-z]?\d+")


class Pseudonyms:
    """The name of each tag, stage and attack outside the plant.

    Parameters
    ----------
    tags, stages : sequence of str
        Become ``CH-001`` and ``STAGE-01``, numbered in this order.
    attacks : sequence of str
        Ids. A number, or a letter and a number, stays; others become ``A-01``.

    Examples
    --------
    >>> Pseudonyms(["LIT101"], ["raw water"]).text("lit101_max of Raw water")
    'CH-001_max of STAGE-01'
    """

    def __init__(
        self, tags: Sequence[str], stages: Sequence[str], attacks: Sequence[str] = ()
    ) -> None:
        self.names: dict[str, str] = {}
        revealing = [name for name in attacks if not _PLAIN_ID.fullmatch(name)]
        for group, pattern in (
            (tags, "CH-{:03d}"),
            (stages, "STAGE-{:02d}"),
            (revealing, "A-{:02d}"),
        ):
            new = [name for name in group if name not in self.names]
            self.names |= {name: pattern.format(k) for k, name in enumerate(new, 1)}
        # Texts may also quote a name as Python prints it.
        hidden = [name for name in self.names if name and not _NUMBER.fullmatch(name)]
        self._spellings = {repr(name)[1:-1]: self.names[name] for name in hidden}
        self._spellings |= {name: self.names[name] for name in hidden}
        # One pattern, so that no pseudonym is replaced again; the longest name first,
        # so that no name is taken for a part of another.
        ordered = sorted(self._spellings, key=len, reverse=True)
        self._groups = [self._spellings[name] for name in ordered]
        joined = "|".join(f"({_pattern(name)})" for name in ordered)
        self._pattern = re.compile(joined) if joined else None

    def name(self, name: str) -> str:
        """Return the pseudonym of a tag or a stage."""
        return self.names.get(name) or self.text(name)

    def attack(self, name: str) -> str:
        """Return the pseudonym of an attack; a number stays a number."""
        return self.text(name) if _PLAIN_ID.fullmatch(name) else self.name(name)

    def text(self, text: str) -> str:
        """Return a sentence with every name in it replaced.

        Case does not matter, except for names of one or two letters.
        """
        if self._pattern is None:
            return text
        return self._pattern.sub(self._replacement, text)

    def _replacement(self, match: re.Match[str]) -> str:
        # Tags may differ in case only: the exact spelling has priority.
        exact = self._spellings.get(match[0])
        return exact or self._groups[(match.lastindex or 1) - 1]

    def nested(self, value: T) -> T:
        """Return nested values with every text in them replaced.

        Mappings keep their keys; records, lists and tuples keep their type. Members
        of enumerations stay, since they are words of Sightline.
        """
        result: Any = value
        if isinstance(value, str) and not isinstance(value, Enum):
            result = self.text(value)
        elif is_dataclass(value) and not isinstance(value, type):
            values = {f.name: getattr(value, f.name) for f in fields(value)}
            result = replace(value, **self.nested(values))
        elif isinstance(value, Mapping):
            result = {key: self.nested(item) for key, item in value.items()}
        elif isinstance(value, list | tuple):
            result = type(value)(self.nested(item) for item in value)
        return result  # type: ignore[no-any-return]


def _pattern(name: str) -> str:
    """Return the regular expression that recognises a name in a text."""
    if not re.search(r"[^\W\d_]", name):
        # Without a letter it may be a part of many numbers and dates.
        return rf"(?<![\w.,-]){re.escape(name)}(?![\w-])"
    if len(name) <= 2:
        # One or two letters are a part of nearly every word.
        return rf"(?<!\w){re.escape(name)}(?!\w)"
    # It may be spelled in another case, and be a part of a longer word: lit101_max.
    return rf"(?i:{re.escape(name)})"


def redacted(results: Sequence[Result]) -> list[Result]:
    """Return results with pseudonyms, without notes, settings and telemetry.

    Parameters
    ----------
    results : sequence of Result
        All results of one report.

    Returns
    -------
    list of Result
        The same tag, stage or attack has the same pseudonym in all of them.
    """
    tags: dict[str, None] = {}
    stages: dict[str, None] = {}
    attacks: dict[str, None] = {}
    for result in results:
        tags |= dict.fromkeys(_tags(result))
        stages |= dict.fromkeys(result.evaluation.provenance.stages.values())
        attacks |= dict.fromkeys(one.id for one in result.evaluation.segments)
    names = Pseudonyms(sorted(tags), sorted(stages), list(attacks))
    return [
        Result(result.folder, _evaluation(result.evaluation, result.traces, names))
        for result in results
    ]


def _tags(result: Result) -> list[str]:
    """Return every tag name that a result holds."""
    evaluation, traces = result.evaluation, result.traces
    quality = evaluation.quality
    tags = [*evaluation.provenance.stages]
    for channels in (
        traces.channel_names,
        traces.telemetry_names,
        quality.constant_channels,
        quality.one_sided_channels,
        quality.scale_blind_channels,
    ):
        tags += [str(name) for name in (() if channels is None else channels)]
    for segment in evaluation.segments:
        tags += [*(segment.targets or ()), *(segment.refocus_channels or ())]
    return tags


def _evaluation(
    evaluation: Evaluation, traces: ChartData, names: Pseudonyms
) -> Evaluation:
    """Return an evaluation with pseudonyms; of its metadata groups and seed stay."""
    public: dict[str, object] = {}
    groups: dict[str, list[str]] = {}
    for tag, stage in evaluation.provenance.stages.items():
        groups.setdefault(names.name(stage), []).append(names.name(tag))
    if groups:
        public["groups"] = groups
    if isinstance(seed := evaluation.provenance.meta.get("seed"), int):
        public["seed"] = seed
    return replace(
        evaluation,
        segments=tuple(_segment(segment, names) for segment in evaluation.segments),
        notices=names.nested(tuple(evaluation.notices or ())),
        diagnosis=names.nested(evaluation.diagnosis),
        repairs=names.nested(evaluation.repairs),
        provenance=replace(evaluation.provenance, meta=public),
        traces=_traces(traces, names),
    )


def _segment(segment: SegmentResult, names: Pseudonyms) -> SegmentResult:
    """Return an attack with pseudonyms, without its name and note."""
    return replace(
        segment,
        id=names.attack(segment.id),
        name=None,
        note=None,
        targets=tuple(names.name(name) for name in segment.targets or ()),
        refocus_channels=tuple(names.name(n) for n in segment.refocus_channels or ()),
        ladder=names.nested(segment.ladder),
        sentence=names.nested(segment.sentence),
    )


def _traces(traces: ChartData, names: Pseudonyms) -> ChartData:
    """Return chart data with pseudonyms, without telemetry."""
    changes: dict[str, Any] = dict.fromkeys(_TELEMETRY)
    for key in ("channel_names", "telemetry_names"):
        if (tags := getattr(traces, key)) is not None:
            changes[key] = np.array([names.name(str(tag)) for tag in tags], np.str_)
    return replace(traces, **changes)
