"""A report that may leave the plant: pseudonyms for names, no times, no telemetry.

Names of the plant, its tags, stages and files are replaced everywhere, also inside
sentences and longer words. Times become times since the start of the test record.
Texts that a user or a file brought are left out. `what_remains` says what stays.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any, TypeVar

import numpy as np

from sightline.audit.attack_facts import AttackFacts
from sightline.audit.record import Finding, RecordingFacts
from sightline.evaluation.caveats import remarks
from sightline.evaluation.localisation import Localisation
from sightline.evaluation.result import (
    ChartData,
    Evaluation,
    SegmentResult,
)
from sightline.storage import Result
from sightline.text import plural

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
# An attack's id that says nothing about the plant; more digits may be a date.
_PLAIN_ID = re.compile(r"[A-Za-z]?\d{1,4}")
# Names of tables that say nothing about the plant.
_PLAIN_TABLES = ("", "train", "test", "train.csv", "test.csv")
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|(?-i:May)|june?|july?|"
    r"aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
# Dates and times of day however they are written, and seconds since 1970.
_TIMES = (
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}",
    r"\d{1,2}[-/.]\d{1,2}[-/.](?:19|20)?\d\d",
    r"(?:19|20)\d{6}(?:T?\d{4,6})?Z?",
    rf"\d{{1,2}}\.?[ -]{_MONTH}(?:[ -]\d{{2,4}})?",
    rf"{_MONTH} \d{{1,2}}(?:,? \d{{4}})?",
    r"\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?[ap]m)?(?: ?(?:Z|[+-]\d\d:?\d\d))?",
    r"1\d{9}(?:\d{3})?(?:\.\d+)?",
)
_TIME = re.compile(rf"(?i)(?<![\d.])(?:{'|'.join(_TIMES)})(?![\d])")
HIDDEN_TIME = "[time]"
_SEVERAL = re.compile(rf"{re.escape(HIDDEN_TIME)}(?:[T ,]*{re.escape(HIDDEN_TIME)})+")
# What a text quotes may come from a file.
_QUOTED = re.compile(r"(?<!\w)'[^']*'(?!\w)|\"[^\"]*\"")


class Pseudonyms:
    """The name of each tag, stage, attack, plant and file outside the plant.

    Parameters
    ----------
    tags, stages : sequence of str
        Become ``CH-001`` and ``STAGE-01``, numbered in this order.
    attacks : sequence of str
        Ids. A number of up to four digits, or a letter and such a number, stays;
        others become ``A-01``.
    plants, streams, files : sequence of str
        Become ``PLANT-01``, ``STREAM-001`` and ``FILE-01``. Blanks, underscores and
        hyphens in the name of a plant may be exchanged or left out.
    aliases : mapping of str to str
        Further names of plants, and the name whose pseudonym they share.
    hide_times : bool
        Whether dates and times of day in texts become `HIDDEN_TIME`.

    Examples
    --------
    >>> Pseudonyms(["LIT101"], ["raw water"]).text("lit101_max of Raw water")
    'CH-001_max of STAGE-01'
    >>> Pseudonyms([], [], plants=["My works"], hide_times=True).text(
    ...     "my_works since 2026-03-29 03:00:00 +02:00"
    ... )
    'PLANT-01 since [time]'
    """

    def __init__(
        self,
        tags: Sequence[str],
        stages: Sequence[str],
        attacks: Sequence[str] = (),
        *,
        plants: Sequence[str] = (),
        streams: Sequence[str] = (),
        files: Sequence[str] = (),
        aliases: Mapping[str, str] | None = None,
        hide_times: bool = False,
    ) -> None:
        self.names: dict[str, str] = {}
        self.hide_times = hide_times
        revealing = [name for name in attacks if not _PLAIN_ID.fullmatch(name)]
        for group, pattern in (
            (tags, "CH-{:03d}"),
            (stages, "STAGE-{:02d}"),
            (revealing, "A-{:02d}"),
            (plants, "PLANT-{:02d}"),
            (streams, "STREAM-{:03d}"),
            (files, "FILE-{:02d}"),
        ):
            new = [name for name in group if name not in self.names]
            self.names |= {name: pattern.format(k) for k, name in enumerate(new, 1)}
        aliases = aliases or {}
        self.names = {a: self.names[n] for a, n in aliases.items()} | self.names
        # Texts may also quote a name as Python prints it.
        hidden = [name for name in self.names if name and not _NUMBER.fullmatch(name)]
        self._spellings = {repr(name)[1:-1]: self.names[name] for name in hidden}
        self._spellings |= {name: self.names[name] for name in hidden}
        # One pattern, so that no pseudonym is replaced again; the longest name first,
        # so that no name is taken for a part of another.
        ordered = sorted(self._spellings, key=len, reverse=True)
        self._groups = [self._spellings[name] for name in ordered]
        joined = "|".join(
            f"({_pattern(name, is_plant=name in {*plants, *aliases})})"
            for name in ordered
        )
        self._pattern = re.compile(joined) if joined else None

    def name(self, name: str) -> str:
        """Return the pseudonym of a tag or a stage."""
        return self.names.get(name) or self.text(name)

    def attack(self, name: str) -> str:
        """Return the pseudonym of an attack; a number stays a number."""
        return self.text(name) if _PLAIN_ID.fullmatch(name) else self.name(name)

    def text(self, text: str) -> str:
        """Return a sentence with every name, and if asked for every time, replaced.

        Case does not matter, except for names of one or two letters.
        """
        if self._pattern is not None:
            text = self._pattern.sub(self._replacement, text)
        if self.hide_times:
            text = _SEVERAL.sub(HIDDEN_TIME, _TIME.sub(HIDDEN_TIME, text))
        return text

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


def _pattern(name: str, *, is_plant: bool) -> str:
    """Return the regular expression that recognises a name in a text."""
    if not re.search(r"[^\W\d_]", name):
        # Without a letter it may be a part of many numbers and dates.
        return rf"(?<![\w.,-]){re.escape(name)}(?![\w-])"
    if len(name) <= 2:
        # One or two letters are a part of nearly every word.
        return rf"(?<!\w){re.escape(name)}(?!\w)"
    spelled = re.escape(name)
    if is_plant:
        words = [re.escape(word) for word in re.split(r"[\s_-]+", name) if word]
        # The settings of any plant are called plant.toml.
        spelled = (r"[\s_-]*".join(words) or spelled) + r"(?!(?<=plant)\.toml)"
    # It may be spelled in another case, and be a part of a longer word: lit101_max.
    return rf"(?i:{spelled})"


def redacted(
    results: Sequence[Result], *, keep_times: bool = False, keep_plant: bool = False
) -> tuple[list[Result], Pseudonyms]:
    """Return results with pseudonyms, without notes, settings and telemetry.

    Parameters
    ----------
    results : sequence of Result
        All results of one report.
    keep_times : bool
        Whether dates, times of day and the time zone stay. Else times count from the
        first row of each test record.
    keep_plant : bool
        Whether names of testbeds, streams and files stay.

    Returns
    -------
    results : list of Result
        The same tag, stage, attack or plant has the same pseudonym in all of them.
    names : Pseudonyms
        For further texts of the page.
    """
    groups: dict[str, dict[str, None]] = {
        key: {} for key in ("tags", "stages", "attacks", "plants", "streams", "files")
    }
    for result in sorted(results, key=lambda result: result.name):
        for key, found in _names(result, keep_plant=keep_plant).items():
            groups[key] |= dict.fromkeys(found)
    # Plants are numbered in the order of the page, streams in that of their seeds.
    for result in results if not keep_plant else ():
        groups["plants"] |= dict.fromkeys(filter(None, [_plant(result)]))
    aliases = {
        facts.plant: _plant(result)
        for result in results
        if not keep_plant and (facts := result.evaluation.recording) and facts.plant
    }
    names = Pseudonyms(
        sorted(groups["tags"]),
        sorted(groups["stages"]),
        list(groups["attacks"]),
        plants=list(groups["plants"]),
        streams=list(groups["streams"]),
        files=list(groups["files"]),
        aliases=aliases,
        hide_times=not keep_times,
    )
    return [
        Result(
            result.folder if keep_plant else None,
            _evaluation(result.evaluation, result.traces, names),
        )
        for result in results
    ], names


def what_remains(*, keep_times: bool = False, keep_plant: bool = False) -> str:
    """Return what a redacted page still shows, in one sentence.

    Examples
    --------
    >>> what_remains(keep_times=True)[-58:]
    'versions of software, and dates and times with their zone.'
    """
    kept = [
        "names of detectors",
        "numbers of rows, channels and attacks",
        "durations, and times since the start of the test record",
        "the energy of every row, with the part of each channel",
        "all figures and verdicts",
        "roles of tags and their share of missing values",
        "findings about the data with their numbers, without names and quoted texts",
        "seeds",
        "versions of software",
    ]
    if keep_plant:
        kept.append("names of plants, streams and files")
    if keep_times:
        kept.append("dates and times with their zone")
    return f"Remains: {', '.join(kept[:-1])}, and {kept[-1]}."


def _plant(result: Result) -> str:
    """Return what a result calls its plant; empty if it does not say."""
    facts = result.evaluation.recording
    return result.evaluation.stream.testbed or (facts.plant if facts else "")


def _names(result: Result, *, keep_plant: bool) -> dict[str, list[str]]:
    """Return what a result calls its tags, stages, attacks, stream and files."""
    evaluation = result.evaluation
    facts, traces, quality = evaluation.recording, result.traces, evaluation.quality
    known = evaluation.provenance.stages
    tags, stages = [*known], [*known.values()]
    for channels in (
        traces.channel_names,
        traces.telemetry_names,
        quality.constant_channels,
        quality.one_sided_channels,
        quality.scale_blind_channels,
    ):
        tags += [str(name) for name in (() if channels is None else channels)]
    for segment in evaluation.segments:
        tags += [*(segment.targets or ()), *(segment.evidence_channels or ())]
        tags += segment.telemetry.channels if segment.telemetry else ()
    files: list[str] = []
    if facts is not None:
        tags += [*(tag.name for tag in facts.tags), *facts.words]
        tags += [channel for one in facts.attacks for channel in one.channels]
        stages += [tag.stage for tag in facts.tags if tag.stage]
        files = [table.name for table in facts.tables]
    files += [found.table for found in evaluation.findings]
    named = {
        "tags": [*tags, *(tag for found in evaluation.findings for tag in found.tags)],
        "stages": stages,
        "attacks": [segment.id for segment in evaluation.segments],
    }
    if keep_plant:
        return named
    stems = [name.rpartition("/")[2].partition(".")[0] for name in files]
    return named | {
        "streams": [evaluation.stream.name],
        "files": [name for name in (*files, *stems) if name not in _PLAIN_TABLES],
    }


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
    facts, stream = evaluation.recording, evaluation.stream
    # Notices that Sightline words itself stay; others came with the stream: from a
    # user, a file or a detector.
    worded = set(remarks(evaluation, evaluation))
    notices = [names.text(text) for text in evaluation.notices if text in worded]
    if n_lost := len(evaluation.notices) - len(notices):
        notices.append(f"{_left_out(n_lost, 'notice')} about the stream.")
    return replace(
        evaluation,
        stream=replace(
            names.nested(stream),
            name=names.name(stream.name),
            testbed=None if stream.testbed is None else names.name(stream.testbed),
            timezone=None if names.hide_times else stream.timezone,
        ),
        quality=names.nested(evaluation.quality),
        segments=tuple(_segment(segment, names) for segment in evaluation.segments),
        localisation=evaluation.localisation
        and _localisation(evaluation.localisation, names),
        notices=tuple(notices),
        rules_refused=names.nested(evaluation.rules_refused),
        diagnosis=names.nested(evaluation.diagnosis),
        repairs=names.nested(evaluation.repairs),
        # A mask tells a state of the plant.
        rules=evaluation.rules and replace(names.nested(evaluation.rules), mask=None),
        episodes=names.nested(evaluation.episodes),
        findings=tuple(
            _finding(found, names)
            for found in evaluation.findings
            if facts is None or found.text not in facts.notices
        ),
        recording=None if facts is None else _recording(facts, names),
        provenance=replace(evaluation.provenance, meta=public),
        traces=_traces(traces, names),
    )


def _left_out(count: int, word: str) -> str:
    """Return the beginning of a sentence about texts that are not shown."""
    return f"Left out of this redacted page: {plural(count, word)}"


def _finding(found: Finding, names: Pseudonyms) -> Finding:
    """Return a finding without names, times, quoted values and places."""

    def hidden(text: str) -> str:
        return names.text(_QUOTED.sub("[text]", text))

    return replace(
        found,
        text=hidden(found.text),
        effect=hidden(found.effect),
        remedy=hidden(found.remedy),
        table=names.text(found.table),
        tags=tuple(names.name(tag) for tag in found.tags),
        cells=(),
    )


def _recording(facts: RecordingFacts, names: Pseudonyms) -> RecordingFacts:
    """Return the facts about a recording without names, times and measured values."""
    lost = facts.notices
    unmeasured: dict[str, Any] = dict.fromkeys(
        ("lowest", "highest", "spread", "resolution")
    )
    unmeasured["outline"] = ()
    return replace(
        facts,
        plant=names.name(facts.plant),
        timezone="" if names.hide_times else facts.timezone,
        tables=tuple(
            replace(
                table,
                name=names.name(table.name),
                part=names.text(table.part),
                first="" if names.hide_times else table.first,
                last="" if names.hide_times else table.last,
            )
            for table in facts.tables
        ),
        tags=tuple(
            replace(
                tag,
                name=names.name(tag.name),
                stage=names.name(tag.stage) if tag.stage else None,
                unit=None,
                train=replace(tag.train, **unmeasured),
                test=replace(tag.test, **unmeasured),
            )
            for tag in facts.tags
        ),
        attacks=tuple(_attack(facts, names) for facts in facts.attacks),
        words={names.name(column): "words mapped to numbers" for column in facts.words},
        notices=(f"{_left_out(len(lost), 'notice')} of reading.",) if lost else (),
    )


def _attack(facts: AttackFacts, names: Pseudonyms) -> AttackFacts:
    """Return what the telemetry says of an attack, under pseudonyms."""
    return replace(
        facts,
        id=names.attack(facts.id),
        channels=tuple(names.name(channel) for channel in facts.channels),
    )


def _segment(segment: SegmentResult, names: Pseudonyms) -> SegmentResult:
    """Return an attack with pseudonyms, without its name and note."""
    return replace(
        segment,
        id=names.attack(segment.id),
        name=None,
        note=None,
        targets=tuple(names.name(name) for name in segment.targets or ()),
        evidence_channels=tuple(names.name(n) for n in segment.evidence_channels or ()),
        ladder=names.nested(segment.ladder),
        telemetry=segment.telemetry and _attack(segment.telemetry, names),
        sentence=names.nested(segment.sentence),
    )


def _localisation(found: Localisation, names: Pseudonyms) -> Localisation:
    """Return where evidence points, under pseudonyms."""
    return replace(
        found,
        attacks=tuple(
            replace(
                attack,
                id=names.attack(attack.id),
                targets=tuple(names.name(name) for name in attack.targets),
                leading={
                    moment: tuple(
                        replace(one, channel=names.name(one.channel)) for one in leading
                    )
                    for moment, leading in attack.leading.items()
                },
            )
            for attack in found.attacks
        ),
    )


def _traces(traces: ChartData, names: Pseudonyms) -> ChartData:
    """Return chart data with pseudonyms, without telemetry and times of day."""
    changes: dict[str, Any] = dict.fromkeys(_TELEMETRY)
    for key in ("channel_names", "telemetry_names"):
        if (tags := getattr(traces, key)) is not None:
            changes[key] = np.array([names.name(str(tag)) for tag in tags], np.str_)
    if names.hide_times and traces.test_time is not None and len(traces.test_time):
        changes["test_time"] = traces.test_time - traces.test_time[0]
    return replace(traces, **changes)
