"""What a search for blind spots needs of a record: rules, rows and tags."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from sightline.blindspots.own_rule import OWN
from sightline.blindspots.rule_view import (
    TwinRecord,
)
from sightline.blindspots.shapes import (
    TagFacts,
    tag_facts,
)
from sightline.data.arrays import ATTACK, Bools, Floats, Ints, Labels
from sightline.data.recording import Recording
from sightline.data.row_tables import read_on_grid
from sightline.data.segments import segments_of
from sightline.data.stream import ResidualStream
from sightline.detectors.base import Detector, LearnedDetector
from sightline.energy.attack_free import AttackFreeTime
from sightline.errors import StreamError
from sightline.metrics.alarm_load import AlarmLoad
from sightline.rules.commission import Commissioning
from sightline.rules.normal import channels_of, stages_of
from sightline.rules.rule import Rule
from sightline.text import did_you_mean

# Rules of the table beside the chosen one.
USUAL_RULES: Final = ("energy", "z", "all")


def rules_of(
    rules: Commissioning | Sequence[Rule], wanted: Sequence[str] | None = None
) -> tuple[list[Rule], int]:
    """Return the rules of a search, the chosen one last, and the first free row.

    Parameters
    ----------
    rules : Commissioning or sequence of Rule
        Of a `Commissioning` the usual rules and the chosen one are taken.
    wanted : sequence of str, optional
        Names of other rules of it.
    """
    if not isinstance(rules, Commissioning):
        if not rules:
            raise StreamError("At least one alarm rule is needed: give one.")
        return list(rules), 0
    chosen = rules.facts.chosen
    usual = [name for name in USUAL_RULES if name in rules.rules]
    # The rule of the sentences comes last: the one that commissioning chose.
    taken = [*(name for name in usual if name != chosen), chosen]
    if wanted is not None:
        taken = [name for name in dict.fromkeys(wanted) if name != OWN]
    for name in taken:
        if name not in rules.rules:
            raise StreamError(
                f"There is no rule {name!r} among those made; "
                f"{did_you_mean(name, rules.rules)}"
            )
    return [rules.rules[name].rule for name in taken], rules.facts.split


def loads_of(rules: Commissioning | Sequence[Rule]) -> dict[str, AlarmLoad]:
    """Return the alarms of rules that a commissioning has judged, by name."""
    if not isinstance(rules, Commissioning):
        return {}
    return {row.name: row.load for row in rules.facts.table}


def twin_record(
    rows: Floats, labels: Labels, breaks: Ints, step_s: float | None, split: int
) -> tuple[TwinRecord, Bools]:
    """Return a record of residual rows, and its attack-free rows."""
    if step_s is None:
        raise StreamError(
            "Seconds a row are not known, so durations cannot be written: give time "
            "stamps or `step_s`."
        )
    attacks = segments_of(labels == ATTACK, breaks)
    is_calm = AttackFreeTime.of(labels, attacks, step_s).beyond_guard
    is_free = is_calm & (np.arange(len(is_calm)) >= split)
    record = TwinRecord(rows=rows, breaks=breaks, is_free=is_free, step_s=step_s)
    return record, is_calm


def residual_tags(stream: ResidualStream) -> tuple[tuple[TagFacts, ...], Floats]:
    """Return the channels of a stream as tags, and the plant's units for 1 of each.

    Range and spread are those of the residuals in train.
    """
    channels = channels_of(stream)
    scales = np.array([channel.scale or 1.0 for channel in channels])
    n, total, squares = 0, np.zeros(stream.p), np.zeros(stream.p)
    low, high = np.full(stream.p, np.inf), np.full(stream.p, -np.inf)
    for _, block in read_on_grid(stream.train):
        rows = block * scales
        n, total = n + len(rows), total + rows.sum(axis=0)
        squares = squares + np.square(rows).sum(axis=0)
        low, high = (
            np.minimum(low, rows.min(axis=0)),
            np.maximum(high, rows.max(axis=0)),
        )
    spread = np.sqrt(np.maximum(squares / n - np.square(total / n), 0.0))
    stages = {
        name: stage for stage, members in stages_of(stream).items() for name in members
    }
    tags = tuple(
        TagFacts(
            name=channel.name,
            column=j,
            stage=stages.get(channel.name),
            unit=f"{channel.unit or ''} (residual)".strip(),
            spread=float(spread[j]),
            lowest=float(low[j]),
            highest=float(high[j]),
        )
        for j, channel in enumerate(channels)
    )
    return tags, scales


def stated_memory(detector: Detector) -> int:
    """Return the rows that a detector says it looks back at; 1 where it does not."""
    if isinstance(detector, LearnedDetector):
        try:
            return max(detector.look_back(), 1)
        except StreamError:
            return 1
    return 1


def tags_of(train: Recording) -> tuple[TagFacts, ...]:
    """Return what train says of each tag."""
    return tuple(
        tag_facts(
            tag.name,
            column,
            np.asarray(train.values[:, column], np.float64),
            role=tag.role,
            stage=tag.stage,
            unit=tag.unit,
            least=tag.low,
            most=tag.high,
        )
        for column, tag in enumerate(train.tags)
    )
