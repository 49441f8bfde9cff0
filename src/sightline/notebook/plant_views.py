"""What is shown of a plant and what watches it: streams, testbeds, detectors, rules."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.blindspots.result import BlindSpots
from sightline.blindspots.words import blindest, range_words, size
from sightline.data.recording import Recording
from sightline.data.segments import Attack
from sightline.data.stream import ResidualStream
from sightline.detectors.adapters.adapter import Adapter
from sightline.detectors.adapters.arrays import KnownExpectation
from sightline.detectors.base import DetectorCard, LearnedDetector
from sightline.notebook.view import (
    MOST_NAMES,
    MOST_ROWS,
    Table,
    View,
    named,
    rows_of,
    shown,
    table_of,
)
from sightline.rules.advice import advice, count_words
from sightline.rules.commission import Commissioning
from sightline.rules.judging import CommissioningFacts, RuleOutcome
from sightline.rules.making import MadeRule
from sightline.rules.rule import Rule
from sightline.testbeds.base import Testbed
from sightline.text import UNKNOWN, duration, mean_count, names, number, plural, share

_ATTACK = ("attack", "rows", "targets", "note")


def stream_view(value: ResidualStream) -> View:
    """Show names, channels and attacks."""
    return shown(
        value,
        [
            ("detector", named(value.detector)),
            ("testbed", named(value.testbed)),
            ("residual space", named(value.space)),
            ("step", None if value.step_s is None else duration(value.step_s)),
            ("channels", names(value.channels, MOST_NAMES)),
            ("own alarms", "yes" if value.alarms is not None else None),
            ("own score", "yes" if value.score is not None else None),
            ("telemetry", names(value.telemetry_channels, MOST_NAMES)),
        ],
        [
            table_of("Attacks", _ATTACK, _attack_rows(value.attack_segments())),
        ],
        value.notices,
    )


def _attack_rows(attacks: Sequence[Attack]) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (
            attack.id,
            rows_of(attack.start, attack.stop),
            names(attack.targets, MOST_NAMES),
            attack.note or attack.name or "",
        )
        for attack in attacks
    )


def recording_view(value: Recording) -> View:
    """Show its tags with their ranges."""
    finite = np.where(np.isfinite(value.values), value.values, np.nan)
    some = finite[:, :MOST_ROWS]
    bounds = [(_bound(np.fmin, c), _bound(np.fmax, c)) for c in some.T]
    rows = tuple(
        (tag.name, str(tag.role), tag.stage or "", tag.unit or "", *ends)
        for tag, ends in zip(value.tags, bounds, strict=False)
    )
    table = Table(
        title="Channels",
        headers=("tag", "role", "stage", "unit", "lowest", "highest"),
        rows=rows,
        left_out=len(value.tags) - len(rows),
    )
    return shown(value, [("time zone", named(value.timezone))], [table])


def _bound(extreme: np.ufunc, column: npt.NDArray[Any]) -> str:
    """Return an end of a channel's values; unknown if none is a number."""
    end = float(extreme.reduce(column)) if len(column) else np.nan
    return number(end) if np.isfinite(end) else UNKNOWN


def testbed_view(value: Testbed) -> View:
    """Show its recordings and attacks."""
    parts = (("train", value.train), ("test", value.test))
    rows = tuple(
        (
            name,
            f"{part.n_steps:,}",
            duration(part.step_s),
            plural(len(part.breaks if part.breaks is not None else ()), "run"),
            str(len(part.attacks)),
        )
        for name, part in parts
    )
    return shown(
        value,
        [("channels", names(value.train.channels, MOST_NAMES))],
        [
            table_of(
                "Recordings", ("", "steps", "step", "continuous", "attacks"), rows
            ),
            table_of("Attacks of the test", _ATTACK, _attack_rows(value.test.attacks)),
        ],
        value.notices,
    )


def detector_view(value: LearnedDetector | Adapter | KnownExpectation) -> View:
    """Show its card, what it learned from, its settings."""
    card: DetectorCard = value.card
    split, settings = value.split, getattr(value, "settings", None)
    learned = None
    if split is not None:
        learned = (
            f"{plural(len(split.trained), 'step')}, {len(split.held_out):,} held out"
        )
    chosen = tuple((name, str(one)) for name, one in _settings(settings).items())
    return shown(
        value,
        [
            ("title", card.title),
            ("kind", card.kind),
            ("residual space", card.space),
            ("from", card.paper),
            ("learned from", learned),
            ("channels", names(value.channels or (), MOST_NAMES)),
        ],
        [table_of("Settings", ("setting", "value"), chosen)],
        card.deviates,
    )


def _settings(settings: object) -> Mapping[str, object]:
    """Return settings by name; empty if there are none."""
    if not is_dataclass(settings):
        return {}
    return {field.name: getattr(settings, field.name) for field in fields(settings)}


def rule_view(value: Rule) -> View:
    """Show what it looks at and its limits."""
    members = tuple(
        (m.name, str(m.view), str(m.memory), str(m.span or ""), number(m.limit))
        for m in value.members
    )
    delays = value.delays
    return shown(
        value,
        [
            ("budget", None if value.budget is None else str(value.budget)),
            ("step", None if value.step_s is None else duration(value.step_s)),
            ("alarm after", f"{delays.on} of {plural(delays.within, 'row')}"),
            ("channels", names([c.name for c in value.channels], MOST_NAMES)),
        ],
        [table_of("Scores", ("score", "looks at", "memory", "rows", "limit"), members)],
    )


def made_rule_view(value: MadeRule) -> View:
    """Show the rule, and what it promises."""
    inner, promise = rule_view(value.rule), value.promise
    promised = (
        f"{number(promise.per_day)} alarms a day, {share(promise.share, 1)} of time, "
        f"by {promise.days:.2g} days"
    )
    return shown(value, [("promise", promised), *inner.facts], inner.tables)


def commissioning_view(value: Commissioning) -> View:
    """Show all rules on later rows, and the advice."""
    facts = value.facts
    return shown(
        value,
        [
            ("budget", facts.budget),
            ("chosen", f"rule {facts.chosen!r}"),
            ("made on", f"{facts.days:.2g} days of attack-free rows"),
            ("judged on", f"{facts.judged_days:.2g} later days"),
        ],
        [_rules_table(facts)],
        [advice(facts), *facts.notes],
    )


def _rules_table(facts: CommissioningFacts) -> Table:
    """Return rules in use and rules for the budget, on judged rows."""

    def row(one: RuleOutcome) -> tuple[str, ...]:
        raised, is_known = one.attacks, one.attacks.n_attacks > 0
        return (
            one.name,
            UNKNOWN if not one.load.days else count_words(one.load),
            share(one.load.share_of_time, 1),
            f"{raised.raised} of {raised.n_attacks}" if is_known else UNKNOWN,
            mean_count(raised.raised_by_chance) if is_known else UNKNOWN,
            UNKNOWN if one.kept is None else str(one.kept),
        )

    return table_of(
        "Rules on later rows",
        ("rule", "false alarms", "time in alarm", "raised", "by chance", "promise"),
        tuple(row(one) for one in (*facts.present, *facts.table)),
    )


def blind_spots_view(value: BlindSpots) -> View:
    """Show the blindest tags, and the rules."""
    spots = tuple(
        (
            spot.tag,
            spot.shape,
            duration(spot.duration_s),
            size(spot) if spot.half and spot.half.size is not None else "any size",
            range_words(spot.half.of_range) if spot.half else "",
            str(spot.outcome),
        )
        for spot in blindest(value)
    )
    rules = tuple(
        (
            rule.name,
            UNKNOWN if rule.alarms_per_day is None else number(rule.alarms_per_day),
            share(rule.share_of_time, 1),
            number(rule.blindness),
        )
        for rule in value.rules
    )
    return shown(
        value,
        [
            ("detector", named(value.detector)),
            ("testbed", named(value.testbed)),
            ("budget", value.budget),
            ("rule of the table", repr(value.chosen)),
        ],
        [
            table_of(
                "Missed in half of the tries, the blindest tag first",
                ("tag", "shape", "for", "up to", "", "outcome"),
                spots,
            ),
            table_of(
                "Rules", ("rule", "alarms a day", "time in alarm", "blindness"), rules
            ),
        ],
        [*value.sentences, *value.notes],
    )
