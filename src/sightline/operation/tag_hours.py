"""Leading tags an hour before and after an alarm: measured, expected, and the limit."""

from collections.abc import Iterator
from html import escape
from typing import Final, NamedTuple

import numpy as np

from sightline.data.arrays import Floats
from sightline.data.zones import stamp
from sightline.operation.alarms import AlarmKind, AlarmRecord
from sightline.operation.watch_state import Minutes, WatchState
from sightline.rules.choose import lasting_steps
from sightline.rules.making import MadeRule
from sightline.text import number

# Time that is drawn before an alarm and after it, and how much at most.
AROUND_S: Final = 3600.0
MOST_S: Final = 8 * 3600.0
MOST_TAGS: Final = 3
# Alarms with pictures: the latest.
MOST_ALARMS: Final = 40
WIDTH, HEIGHT = 320.0, 90.0


class TagHours(NamedTuple):
    """One tag around one alarm: the picture, and what is said below it."""

    tag: str
    words: str
    svg: str


def tag_hours(
    state: WatchState, made: MadeRule, alarms: list[AlarmRecord], zone: str | None
) -> dict[str, tuple[TagHours, ...]]:
    """Return pictures of the leading tags of the latest alarms of a rule, by their id.

    Parameters
    ----------
    state : WatchState
        It has the last row of each minute.
    made : MadeRule
        The rule.
    alarms : list of AlarmRecord
        In order.
    zone : str, optional
        Of times; None for the plant's own clock.
    """
    shown = [one for one in alarms if one.kind is AlarmKind.ANOMALY and one.tags]
    pictures = {}
    for one in shown[-MOST_ALARMS:]:
        end = min(one.end or np.inf, one.start + MOST_S - 2 * AROUND_S)
        minutes = state.minutes(one.start - AROUND_S, end + AROUND_S)
        if len(minutes.time) > 1:
            found = _of_alarm(one, minutes, made, zone)
            pictures[one.id] = tuple(found)
    return pictures


def _of_alarm(
    alarm: AlarmRecord,
    minutes: Minutes,
    made: MadeRule,
    zone: str | None,
) -> Iterator[TagHours]:
    """Yield the pictures of an alarm, one for each of its leading tags."""
    place = {one.name: j for j, one in enumerate(made.rule.channels)}
    steps = lasting_steps(made.rule)
    known = [tag for tag in alarm.tags if tag in place]
    for tag in known[:MOST_TAGS]:
        j, channel = place[tag], made.rule.channels[place[tag]]
        measured, expected = minutes.measured[:, j], minutes.expected[:, j]
        if np.isfinite(measured).sum() < 2:
            continue
        inside = measured[np.isfinite(measured)]
        ends = f"{number(float(inside.min()))} to {number(float(inside.max()))}"
        words = (
            f"{ends} {channel.unit or ''}".strip()
            + f", {stamp(float(minutes.time[0]), zone)} to "
            + stamp(float(minutes.time[-1]), zone)[-8:]
        )
        # Residuals that were read as such are shown in their own units.
        band = float(steps[j]) * (abs(channel.scale) if channel.scale else 1.0)
        yield TagHours(
            tag, words, _svg(tag, alarm, minutes.time, measured, expected, band)
        )


def _svg(
    tag: str,
    alarm: AlarmRecord,
    time: Floats,
    measured: Floats,
    expected: Floats,
    band: float,
) -> str:
    """Return measured and expected values of a tag, with the limit as a band."""
    wide = band if np.isfinite(band) else 0.0
    values = np.concatenate([measured, expected])
    finite = values[np.isfinite(values)]
    low, high = float(finite.min()), float(finite.max())
    # The band is drawn as far as it does not hide what was measured.
    room = max(high - low, wide) or 1.0
    low, high = low - min(wide, 0.6 * room), high + min(wide, 0.6 * room)
    begin, span = float(time[0]), float(time[-1] - time[0]) or 1.0

    def x(at: float) -> float:
        return WIDTH * min(max((at - begin) / span, 0.0), 1.0)

    def y(value: float) -> float:
        return HEIGHT * (1 - min(max((value - low) / (high - low), 0.0), 1.0))

    def line(kind: str, series: Floats) -> str:
        pieces, is_down = [], False
        for at, value in zip(time.tolist(), series.tolist(), strict=True):
            if np.isfinite(value):
                pieces.append(f"{'L' if is_down else 'M'}{x(at):.1f} {y(value):.1f}")
            is_down = bool(np.isfinite(value))
        return f'<path class="{kind}" d="{"".join(pieces)}"/>'

    ok = np.isfinite(expected)
    middle = list(zip(time[ok].tolist(), expected[ok].tolist(), strict=True))
    above = [f"{x(at):.1f},{y(value + wide):.1f}" for at, value in middle]
    below = [f"{x(at):.1f},{y(value - wide):.1f}" for at, value in middle[::-1]]
    left = x(alarm.start)
    right = x(alarm.end if alarm.end is not None else float(time[-1]))
    shaded = (
        f'<rect x="{left:.1f}" y="0" width="{max(right - left, 1.5):.1f}" '
        f'height="{HEIGHT:.0f}"/>'
    )
    polygon = f'<polygon points="{" ".join([*above, *below])}"/>' if wide else ""
    return (
        f'<svg class="tag-hours" viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}" '
        'preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(tag)} around the alarm: measured and expected">'
        f"{polygon}{shaded}{line('expected', expected)}{line('measured', measured)}"
        "</svg>"
    )
