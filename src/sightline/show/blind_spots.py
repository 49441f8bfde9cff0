"""What is shown of blind spots: the blindest tags, the rules, and what-if attacks.

The page also has heat maps, shapes without a size that are missed, and what fewer
alarms cost.
"""

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from typing import Any

import numpy as np

from sightline.blindspots.result import (
    N_SENTENCES,
    BlindSpot,
    BlindSpots,
    RuleSight,
    SpotOutcome,
    TogetherSize,
    TradeOff,
    WhatIf,
    blindest,
    range_words,
    size,
    weight,
)
from sightline.blindspots.result import (
    UNSIZED as UNSIZED,
)
from sightline.blindspots.result import (
    unseen as unseen,
)
from sightline.show.rules import rule_key
from sightline.show.table import Column, Columns, RecordTable, TableCell
from sightline.text import UNKNOWN, duration, number, per_day, share

# Shapes with a heat map, and what people read.
_MAPS = {"step": "Kept off by the same amount", "ramp": "Drifting away"}
_SIGNS = {1: "raised", -1: "lowered", 0: ""}
# Ends of the scale of a heat map, in shares of a tag's range.
_COOL, _HOT = 0.01, 10.0
# The picture of the trade-off.
WIDTH, HEIGHT = 560, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 130, 14, 44
_LABEL_HEIGHT = 15.0
_DASHES = ("", "6 3", "2 3", "8 3 2 3", "1 3", "10 4")

SPOTS: Columns[BlindSpot] = (
    Column("tag", "tag", lambda s: s.tag),
    Column("shape", "shape", lambda s: s.shape),
    Column("duration", "for", lambda s: duration(s.duration_s)),
    Column(
        "size",
        "up to",
        lambda s: size(s) if s.half and s.half.size is not None else "any size",
    ),
    Column("of_range", "", lambda s: range_words(s.half.of_range) if s.half else ""),
    Column("outcome", "outcome", lambda s: str(s.outcome)),
)
WHAT_IF: Columns[WhatIf] = (
    Column("attack", "attack", lambda w: w.id, term="attack"),
    Column("what", "what", lambda w: w.text, term="what-it-does"),
    Column("lasts", "lasts", lambda w: duration(w.duration_s), term="lasts"),
    Column("rule", "rule", lambda w: w.rule, term="rule"),
    Column(
        "seen",
        "seen",
        lambda w: f"{share(w.share_seen)} of {w.n_places}",
        term="seen-at",
    ),
    Column("after", "after", lambda w: duration(w.delay_s), term="alarm-after"),
)


def sights_table(spots: BlindSpots, title: str = "Rules") -> RecordTable[RuleSight]:
    """Return cost and blindness of the rules."""

    def name(rule: RuleSight) -> TableCell:
        chosen = "\n\u2605 chosen" if rule.name == spots.chosen else ""
        return TableCell(f"{rule.name}{chosen}", term=rule_key(rule.name))

    def alarms(rule: RuleSight) -> TableCell:
        rate = rule.alarms_per_day
        of_time = f"{share(rule.share_of_time, 1)} of time"
        return TableCell(UNKNOWN if rate is None else per_day(rate), notes=(of_time,))

    columns: Columns[RuleSight] = (
        Column("rule", "rule", name, term="rule"),
        Column(
            "alarms_per_day",
            "alarms a day",
            alarms,
            "r",
            term="false-alarms",
            title="False alarms a day",
        ),
        Column("share", "time in alarm", lambda r: share(r.share_of_time, 1), "r"),
        Column(
            "blindness",
            "blindness",
            lambda r: share(r.blindness),
            "r",
            tip="How large a change it misses, over tags and shapes.",
            term="blindness",
        ),
    )
    return RecordTable(title, columns, spots.rules)


def page_sights(spots: BlindSpots) -> RecordTable[RuleSight]:
    """Return the same for the page, where the share of time is a note."""
    table = sights_table(spots)
    return replace(table, columns=[c for c in table.columns if c.key != "share"])


def what_if_table(spots: BlindSpots) -> RecordTable[WhatIf]:
    """Return what the user's attacks would do."""
    return RecordTable("What if", WHAT_IF, spots.what_if)


def together_table(
    spots: BlindSpots, most: int | None = None
) -> RecordTable[tuple[TogetherSize, ...]]:
    """Return how far each tag can be off alone and with others, the blindest first.

    Parameters
    ----------
    spots : BlindSpots
        What was found.
    most : int, optional
        How many tags; all by default.
    """
    rows: dict[str, list[TogetherSize]] = {}
    for one in spots.together:
        rows.setdefault(one.tag, []).append(one)
    records = [tuple(row) for row in rows.values()][:most]
    counts = [one.count for one in records[0]] if records else []

    def column(k: int, count: int | None) -> Column[tuple[TogetherSize, ...]]:
        def get(row: tuple[TogetherSize, ...]) -> TableCell:
            one = row[k]
            amount = f"{number(one.size)} {one.unit}".strip()
            sign = "" if one.outcome is SpotOutcome.SEEN else "> "
            return TableCell(f"{sign}{amount}", (one.of_range,))

        title = "with any" if count is None else f"with {count}"
        return Column(f"with_{count}", title if count != 0 else "alone", get, "r")

    def what(row: tuple[TogetherSize, ...]) -> str:
        return f"{row[0].shape} {_SIGNS[row[0].sign]}, {duration(row[0].duration_s)}"

    columns: Columns[tuple[TogetherSize, ...]] = (
        Column("tag", "tag", lambda row: row[0].tag),
        Column("what", "falsified", what),
        *(column(k, count) for k, count in enumerate(counts)),
    )
    title = "Off unseen in half of the places, alone and with other sensors"
    return RecordTable(title, columns, records)


def terminal_tables(
    spots: BlindSpots,
) -> list[RecordTable[Any]]:
    """Return what the terminal shows.

    Cost and blindness of the rules, tags alone and with others, and what the user's
    attacks would do.
    """
    where = "residual space" if spots.is_residual else "telemetry"
    title = (
        f"{spots.name}: {spots.n_places} places in {number(spots.days)} days, "
        f"falsified {where}"
    )
    together = together_table(spots, N_SENTENCES)
    return [sights_table(spots, title), together, what_if_table(spots)]


def notebook_tables(
    spots: BlindSpots,
) -> list[RecordTable[BlindSpot] | RecordTable[RuleSight]]:
    """Return the blindest tags, and the rules."""
    title = "Missed in half of the tries, the blindest tag first"
    return [RecordTable(title, SPOTS, blindest(spots)), sights_table(spots)]


def heat_maps(
    spots: BlindSpots,
) -> list[tuple[RecordTable[dict[float, BlindSpot]], list[str]]]:
    """Return tags by duration for each shape, the blindest tag first, with their names.

    Of both signs the one that is seen later. A note of a cell is what a pointer shows;
    its value is 0 for a deviation of 1% of the range or less, to 100 for 10 ranges or
    more.
    """
    maps = []
    for shape, title in _MAPS.items():
        rows: dict[str, dict[float, BlindSpot]] = {}
        for spot in spots.of_rule():
            if spot.shape != shape:
                continue
            known = rows.setdefault(spot.tag, {}).get(spot.duration_s)
            if known is None or weight(spot) > weight(known):
                rows[spot.tag][spot.duration_s] = spot
        total = {
            tag: sum(min(weight(spot), 100.0) for spot in by_duration.values())
            for tag, by_duration in rows.items()
        }
        order = sorted(rows, key=lambda tag: total[tag], reverse=True)
        durations = sorted({d for by_duration in rows.values() for d in by_duration})
        columns = [_heat_column(one) for one in durations]
        if rows:
            table = RecordTable(title, columns, [rows[tag] for tag in order])
            maps.append((table, order))
    return maps


def _heat_column(seconds: float) -> Column[dict[float, BlindSpot]]:
    """Return the column of a duration: the smallest deviation that is seen."""

    def get(by_duration: dict[float, BlindSpot]) -> TableCell:
        spot = by_duration.get(seconds)
        if spot is None:
            title = "Too few places for this duration."
            return TableCell(UNKNOWN, (0,), notes=(title,))
        sign = _SIGNS[spot.sign]
        if spot.outcome is SpotOutcome.NO_POSSIBLE_VALUE:
            title = f"{sign}: no possible value is seen"
            return TableCell("any value", (100,), notes=(title,))
        if spot.half is None or spot.half.of_range is None:
            title = f"{sign}: not seen up to {size(spot)}"
            return TableCell("any size", (100,), notes=(title,))
        part, high = spot.half.of_range, spot.half.high
        title = (
            f"{sign} by {size(spot)}, seen in half of {spot.n_places} places (90% "
            f"interval {number(spot.half.low)} to {number(high)}); in 90% of them from "
            f"{number(spot.most.size if spot.most else None)} on; alarm after "
            f"{duration(spot.delay_s)}"
        )
        heat = np.log(max(part, _COOL) / _COOL) / np.log(_HOT / _COOL)
        value = round(100 * min(float(heat), 1.0))
        return TableCell(share(part), (value,), notes=(title,))

    return Column(f"{seconds:g}", duration(seconds), get, "r")


def trade_off_svg(points: Sequence[TradeOff]) -> str:
    """Return the curve "deviation unseen against alarms a day" as SVG.

    Both axes are logarithmic; one line for each rule. Empty without two points.
    """
    lines: dict[str, list[TradeOff]] = {}
    for point in points:
        lines.setdefault(point.rule, []).append(point)
    if not any(len(line) > 1 for line in lines.values()):
        return ""
    xs = [p.budget_per_day for p in points]
    ys = [max(p.deviation, 1e-3) for p in points]
    low_y, high_y = 0.8 * min(ys), 1.25 * max(ys)

    def x(value: float) -> float:
        part = np.log(value / min(xs)) / (np.log(max(xs) / min(xs)) or 1.0)
        return float(_LEFT + part * (WIDTH - _LEFT - _RIGHT))

    def y(value: float) -> float:
        part = np.log(max(value, 1e-3) / low_y) / np.log(high_y / low_y)
        return float(HEIGHT - _BOTTOM - part * (HEIGHT - _TOP - _BOTTOM))

    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" class="trade-off" '
        'aria-label="Deviation that stays unseen against alarms a day, for each rule">'
    ]
    for value in sorted(set(xs)):
        parts.append(
            f'<line class="grid-line" x1="{x(value):.1f}" x2="{x(value):.1f}" '
            f'y1="{_TOP}" y2="{HEIGHT - _BOTTOM}"/><text class="tick" '
            f'x="{x(value):.1f}" y="{HEIGHT - _BOTTOM + 16}" text-anchor="middle">'
            f"{value:g}</text>"
        )
    ticks = [m * 10.0**e for e in range(-4, 3) for m in (1, 2, 5)]
    for value in (tick for tick in ticks if low_y <= tick <= high_y):
        parts.append(
            f'<line class="grid-line" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" '
            f'y1="{y(value):.1f}" y2="{y(value):.1f}"/><text class="tick" '
            f'x="{_LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">'
            f"{share(value)}</text>"
        )
    # Labels are moved apart, so that none covers another.
    heights = {rule: y(line[-1].deviation) for rule, line in lines.items()}
    labels: dict[str, float] = {}
    for rule in sorted(heights, key=lambda rule: heights[rule]):
        lowest = max(labels.values(), default=-np.inf) + _LABEL_HEIGHT
        labels[rule] = max(heights[rule], float(lowest))
    for k, (rule, line) in enumerate(lines.items()):
        at = " ".join(f"{x(p.budget_per_day):.1f},{y(p.deviation):.1f}" for p in line)
        dash = f' stroke-dasharray="{_DASHES[k % len(_DASHES)]}"' if k else ""
        parts.append(f'<polyline class="rule-line hue{k % 4}" points="{at}"{dash}/>')
        parts.append(
            f'<text class="rule-name hue{k % 4}" x="{WIDTH - _RIGHT + 8}" '
            f'y="{labels[rule] + 4:.1f}">{escape(rule, quote=False)}</text>'
        )
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    parts.append(
        f'<text class="tick" x="{middle:.0f}" y="{HEIGHT - 8}" text-anchor="middle">'
        "alarms a day that the limit is set for</text></svg>"
    )
    return "".join(parts)
