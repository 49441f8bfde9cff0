"""Pictures that need no library: the rule's trace, and tags by their smallest fault."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from sightline.audit.record import TagFacts
from sightline.blindspots.result import (
    BlindSpot,
    BlindSpots,
    SpotOutcome,
    blindest,
    range_words,
    size,
)
from sightline.data.arrays import Floats
from sightline.metrics.alarm_load import DAY_S
from sightline.report import charts, sources
from sightline.report.charts import PageClock
from sightline.report.entries import Entry
from sightline.text import plural

# The rule's trace is drawn over so many days at the end of the record.
TRACE_DAYS: Final = 28.0
WIDTH, HEIGHT = 1000.0, 150.0
# Dates below it.
N_TICKS: Final = 5
# Faults larger than so many ranges of a tag are cut.
MOST_RANGES: Final = 2.0
# Width and height of the picture of a tag, and of what it did in train.
TAG_WIDTH, TRAIN_WIDTH, TAG_HEIGHT = 120.0, 96.0, 48.0


class TracePicture(NamedTuple):
    """The score of the chosen rule through time, with what is said below it."""

    svg: str
    ticks: tuple[str, ...]
    days: float | None
    n_alarms: int
    has_unwatched: bool


def rule_trace(entry: Entry, clock: PageClock) -> TracePicture | None:
    """Return the score of the chosen rule over the last weeks of the record.

    The height grows with the logarithm of the score over its limit. None in results of
    earlier versions, and where no rule was made.
    """
    traces = entry.traces
    if (
        traces.rule_rows is None
        or traces.rule_peaks is None
        or not len(traces.rule_peaks)
    ):
        return None
    rows, peaks = traces.rule_rows, np.nan_to_num(traces.rule_peaks, posinf=1e9)
    at = charts.moments(entry, clock)
    a_day = {PageClock.DATE: DAY_S, PageClock.HOURS: 24.0}.get(clock)
    last = float(at[-1])
    begin = float(at[rows[0]])
    if a_day is not None:
        begin = max(begin, last - TRACE_DAYS * a_day)
    from_column = int(np.searchsorted(at[rows], begin))
    rows, peaks = rows[from_column:], peaks[from_column:]
    if len(peaks) < 2:
        return None
    begin = float(at[rows[0]])
    span = (last - begin) or 1.0

    def x(moment: float) -> float:
        return WIDTH * min(max((moment - begin) / span, 0.0), 1.0)

    def box(kind: str, start: float, stop: float, top: float, height: float) -> str:
        wide = max(x(stop) - x(start), 0.8)
        return (
            f'<rect class="{kind}" x="{x(start):.1f}" y="{top:.0f}" '
            f'width="{wide:.1f}" height="{height:.0f}"/>'
        )

    def spans(pairs: Sequence[tuple[int, int]]) -> Iterator[tuple[float, float]]:
        for first, stop in pairs:
            if stop > rows[0]:
                yield float(at[max(first, rows[0])]), float(at[min(stop, len(at)) - 1])

    segments = [(one.start, one.stop) for one in entry.evaluation.segments]
    alarms = traces.rule_alarms if traces.rule_alarms is not None else np.empty((0, 2))
    in_alarm = list(spans([(int(a), int(b)) for a, b in alarms]))
    unwatched = list(_unwatched(entry, clock, begin, last))
    heights = np.log10(1 + 9 * np.maximum(peaks, 0.0))
    top = max(float(heights.max()), 1.25)
    y = HEIGHT * (1 - heights / top)
    line = "".join(
        f"{'M' if k == 0 else 'L'}{x(float(at[row])):.1f} {value:.1f}"
        for k, (row, value) in enumerate(zip(rows, y, strict=True))
    )
    limit = HEIGHT * (1 - 1 / top)
    label = (
        f"Score of the chosen rule through time, with its limit and "
        f"{plural(len(in_alarm), 'alarm')}"
    )
    parts = [
        f'<svg class="rule-trace" viewBox="0 0 {WIDTH:.0f} {HEIGHT + 12:.0f}" '
        f'preserveAspectRatio="none" role="img" aria-label="{label}">',
        *(box("attack", a, b, 0, HEIGHT) for a, b in spans(segments)),
        f'<path d="{line}"/>',
        *(box("unwatched", a, b, 0, HEIGHT) for a, b in unwatched),
        f'<line x1="0" x2="{WIDTH:.0f}" y1="{limit:.1f}" y2="{limit:.1f}"/>',
        *(box("alarm", a, b, HEIGHT + 3, 9) for a, b in in_alarm),
        "</svg>",
    ]
    ends = np.linspace(begin, last, N_TICKS)
    tick_rows = np.minimum(np.searchsorted(at, ends), len(at) - 1)
    ticks = tuple(charts.time_text(entry, int(row), clock) for row in tick_rows)
    if clock is not PageClock.ROW:
        ticks = tuple(text.rpartition(":")[0] for text in ticks)
    days = None if a_day is None else span / a_day
    return TracePicture("".join(parts), ticks, days, len(in_alarm), bool(unwatched))


def _unwatched(
    entry: Entry, clock: PageClock, begin: float, last: float
) -> Iterator[tuple[float, float]]:
    """Yield time that was not watched, and gaps of the record, on a clock."""
    facts = entry.evaluation.recording
    if facts is not None and clock is PageClock.DATE:
        for one in facts.unwatched:
            if one.end > begin and one.start < last:
                yield one.start, one.end
    at: Floats = charts.moments(entry, clock)
    for row in entry.traces.test_breaks[1:]:
        if at[row] > begin:
            yield float(at[row - 1]), float(at[row])


class TagFault(NamedTuple):
    """A tag, the smallest lasting fault that is seen of it, and both as a picture."""

    tag: str
    words: str
    part: str
    svg: str


def tag_faults(spots: BlindSpots, tags: Sequence[TagFacts]) -> list[TagFault]:
    """Return the tags by their smallest fault that is seen, the blindest first.

    Of steps and ramps and both directions the one that is seen latest, beside what the
    tag did in train, on one scale.
    """
    known = {tag.name: tag for tag in tags}
    return [
        TagFault(spot.tag, *_fault_words(spot), _fault_svg(spot, known.get(spot.tag)))
        for spot in blindest(spots)
    ]


def _fault_words(spot: BlindSpot) -> tuple[str, str]:
    if spot.outcome is SpotOutcome.NO_POSSIBLE_VALUE:
        return "any possible value", "is missed"
    if spot.half is None or spot.half.size is None:
        return "any size", "is missed"
    return size(spot), range_words(spot.half.of_range)


def _fault_svg(spot: BlindSpot, tag: TagFacts | None) -> str:
    """Return a tag in train, and beside it the fault as a bar of the same scale."""
    outline = () if tag is None else tag.train.outline
    part = None if spot.half is None else spot.half.of_range
    ranges = MOST_RANGES if part is None else min(part, MOST_RANGES)
    # One range of the tag is so high: both fit.
    unit = TAG_HEIGHT / max(ranges, 1.0)
    bar = max(ranges * unit, 1.0)
    drawn = ""
    if outline:
        values = [value for pair in outline for value in pair]
        path = sources.outline_path(outline, min(values), max(values))
        wide, high = TRAIN_WIDTH / sources.WIDTH, unit / sources.HEIGHT
        drawn = (
            f'<path transform="translate(0 {TAG_HEIGHT - unit:.1f}) '
            f'scale({wide:.2f} {high:.3f})" d="{path}"/>'
        )
    is_cut = part is None or part > MOST_RANGES
    return (
        f'<svg class="tag-fault" viewBox="0 0 {TAG_WIDTH:.0f} {TAG_HEIGHT:.0f}" '
        f'aria-hidden="true">{drawn}<rect{" class=cut" if is_cut else ""} '
        f'x="{TRAIN_WIDTH + 8:.0f}" y="{TAG_HEIGHT - bar:.1f}" width="12" '
        f'height="{bar:.1f}"/></svg>'
    )
