"""The section "What it could not see": sentences, heat map, trade-off, what if."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from sightline.blindspots.result import BlindSpot, BlindSpots, SpotOutcome, TradeOff
from sightline.blindspots.words import blindest, sentence, size, weight
from sightline.report.entries import Entry
from sightline.text import UNKNOWN, duration, number, share

# Shapes with a heat map, and what people read.
_MAPS = {"step": "Kept off by the same amount", "ramp": "Drifting away"}
_SIGNS = {1: "raised", -1: "lowered", 0: ""}
# Shapes without a size, and what people read.
_UNSIZED = {
    "frozen": "stays where it was",
    "replay": "repeats the stretch before",
    "actuator": "shows another state",
}
# Ends of the scale of a heat map, in shares of a tag's range.
_COOL, _HOT = 0.01, 10.0
# The picture of the trade-off.
WIDTH, HEIGHT = 560, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 130, 14, 44
_DASHES = ("", "6 3", "2 3", "8 3 2 3", "1 3", "10 4")


@dataclass(frozen=True)
class HeatCell:
    """One cell of a heat map.

    Parameters
    ----------
    text, title : str
        What is shown, and what a pointer shows.
    heat : int
        0 for a deviation of 1% of the range or less, to 100 for 10 ranges or more.
    """

    text: str
    title: str
    heat: int


@dataclass(frozen=True)
class HeatMap:
    """Tags by duration, for one shape.

    Parameters
    ----------
    title : str
        What is done.
    durations : tuple of str
        Its columns.
    rows : tuple of pair
        Tag and cells, the blindest tag first.
    """

    title: str
    durations: tuple[str, ...]
    rows: tuple[tuple[str, tuple[HeatCell, ...]], ...]


@dataclass(frozen=True, kw_only=True)
class BlindSection:
    """What the section says of one detector.

    Parameters
    ----------
    found : BlindSpots
        The record.
    maps : tuple of HeatMap
        For the chosen rule.
    unseen : tuple of BlindSpot and str
        Shapes without a size that are missed more often than not, with what they do.
    curve : str
        The trade-off as SVG; empty without.
    """

    found: BlindSpots
    maps: tuple[HeatMap, ...]
    unseen: tuple[tuple[BlindSpot, str], ...]
    curve: str


def blind_section(entry: Entry) -> BlindSection | None:
    """Return what the section says of a detector; None if nothing was searched."""
    found = entry.results[0].blind_spots
    if found is None:
        return None
    spots = found.of_rule()
    return BlindSection(
        found=found,
        maps=tuple(m for shape in _MAPS if (m := _heat_map(spots, shape)) is not None),
        unseen=_unseen(spots),
        curve=trade_off_svg(found.trade_off),
    )


def _heat_map(spots: Sequence[BlindSpot], shape: str) -> HeatMap | None:
    """Return tags by duration; of both signs the one that is seen later."""
    cells: dict[str, dict[float, BlindSpot]] = {}
    for spot in spots:
        if spot.shape != shape:
            continue
        known = cells.setdefault(spot.tag, {}).get(spot.duration_s)
        if known is None or weight(spot) > weight(known):
            cells[spot.tag][spot.duration_s] = spot
    if not cells:
        return None
    durations = sorted({d for by_duration in cells.values() for d in by_duration})

    def total(tag: str) -> float:
        return sum(min(weight(spot), 100.0) for spot in cells[tag].values())

    order = sorted(cells, key=total, reverse=True)
    return HeatMap(
        title=_MAPS[shape],
        durations=tuple(duration(one) for one in durations),
        rows=tuple(
            (tag, tuple(_heat_cell(cells[tag].get(d)) for d in durations))
            for tag in order
        ),
    )


def _heat_cell(spot: BlindSpot | None) -> HeatCell:
    if spot is None:
        return HeatCell(UNKNOWN, "Too few places for this duration.", 0)
    sign = _SIGNS[spot.sign]
    if spot.outcome is SpotOutcome.NO_POSSIBLE_VALUE:
        return HeatCell("any value", f"{sign}: no possible value is seen", 100)
    if spot.half is None or spot.half.of_range is None:
        return HeatCell("any size", f"{sign}: not seen up to {size(spot)}", 100)
    part = spot.half.of_range
    high = UNKNOWN if spot.half.high is None else number(spot.half.high)
    most = spot.most.size if spot.most else None
    title = (
        f"{sign} by {size(spot)}, seen in half of {spot.n_places} places (90% interval "
        f"{number(spot.half.low)} to {high}); in 90% of them from "
        f"{number(most)} on; alarm after {duration(spot.delay_s)}"
    )
    heat = np.log(max(part, _COOL) / _COOL) / np.log(_HOT / _COOL)
    return HeatCell(share(part), title, round(100 * min(float(heat), 1.0)))


def _unseen(spots: Sequence[BlindSpot]) -> tuple[tuple[BlindSpot, str], ...]:
    """Return shapes without a size that are missed for the longest duration."""
    longest: dict[tuple[str, str], BlindSpot] = {}
    for spot in spots:
        if spot.shape in _UNSIZED and spot.share_seen is not None:
            known = longest.setdefault((spot.tag, spot.shape), spot)
            if spot.duration_s > known.duration_s:
                longest[spot.tag, spot.shape] = spot
    missed = [s for s in longest.values() if (s.share_seen or 0.0) < 0.5]
    missed.sort(key=lambda s: (s.shape, s.share_seen or 0.0, s.tag))
    return tuple((spot, _UNSIZED[spot.shape]) for spot in missed)


def first_sentence(found: BlindSpots) -> str:
    """Return the blindest tag in one sentence, for the head of a page."""
    worst = blindest(found)
    if not worst:
        return "No tag could be falsified by a step or a ramp."
    return sentence(worst[0], is_residual=found.is_residual)


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
    labels = _spread({rule: y(line[-1].deviation) for rule, line in lines.items()})
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


def _spread(heights: dict[str, float], least: float = 15.0) -> dict[str, float]:
    """Return label heights moved apart, so that none covers another."""
    placed: dict[str, float] = {}
    last = -np.inf
    for name in sorted(heights, key=lambda name: heights[name]):
        last = max(heights[name], last + least)
        placed[name] = float(last)
    return placed
