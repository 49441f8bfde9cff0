"""The last seven days of a watch: alarms, promise and drift, and the files of them."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Final

import numpy as np

from sightline._version import __version__
from sightline.data.zones import iso_stamp, local_seconds, stamp, zone_words
from sightline.files import reading, staged_file, writing
from sightline.metrics.alarm_load import DAY_S, AlarmLoad
from sightline.operation.apply import MOST_TAGS, MOVED, Alarm, ResidualDrift, drift_to
from sightline.operation.watch_state import (
    AlarmWindow,
    Fate,
    Hours,
    TimedAlarm,
    WatchState,
)
from sightline.rules.judging import Kept, kept_promise
from sightline.rules.making import MadeRule
from sightline.rules.rule import Rule
from sightline.text import duration, number, per_day, plural, share

WEEK_H: Final = 7 * 24
# Tags whose drift is listed.
MOST_DRIFTS: Final = 20
# Share of time in alarm, in budgets, above which a sentence warns.
MUCH_TIME: Final = 2.0
_STYLES: Final = ("page.css", "tables.css", "print.css")


@dataclass(frozen=True, kw_only=True)
class Day:
    """One day of the plant.

    Parameters
    ----------
    date : str
        Such as ``"2026-11-17"``, on the plant's clock.
    hours : float
        Hours with rows.
    alarms : int
        Alarms that started, and one more for each hour that one stood.
    share : float
        Share of these hours in alarm.
    """

    date: str
    hours: float
    alarms: int
    share: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Week:
    """What happened in the last seven days before the last row.

    Parameters
    ----------
    made : MadeRule
        The rule and its promise.
    zone : str, optional
        Zone of times; None for the plant's own clock.
    begin, end, last : float
        From the first hour to the end of the last one; time of the last row.
    hours : Hours
        Rows of each hour.
    alarms : tuple of TimedAlarm
        Alarms that last into these days, in order; the last may still run.
    stretches : tuple of AlarmWindow
        Stretches in alarm, also of a member of the rule that is shelved.
    is_running : bool
        Whether the last alarm still runs.
    """

    made: MadeRule
    zone: str | None
    begin: float
    end: float
    last: float
    hours: Hours
    alarms: tuple[TimedAlarm, ...]
    stretches: tuple[AlarmWindow, ...]
    is_running: bool

    @classmethod
    def of(cls, state: WatchState, made: MadeRule, zone: str | None) -> "Week | None":
        """Return the last seven days of a state; None before the first row."""
        last_hour = state.last_hour()
        if last_hour is None:
            return None
        first = last_hour - WEEK_H + 1
        live, begin = state.live(), 3600.0 * first
        alarms, stretches = state.episodes(begin), state.stretches(begin)
        if live.alarm is not None:
            alarms.append(live.alarm.as_alarm(made.rule.limit, MOST_TAGS))
        if live.stretch is not None:
            stretches.append(live.stretch.so_far())
        return cls(
            made=made,
            zone=zone,
            begin=begin,
            end=3600.0 * (last_hour + 1),
            last=float(state.runs()[-1, 1]),
            hours=state.hours(first),
            alarms=tuple(alarms),
            stretches=tuple(stretches),
            is_running=live.alarm is not None,
        )

    @property
    def rule(self) -> Rule:
        """The rule."""
        return self.made.rule

    @property
    def step_s(self) -> float:
        """Seconds a row."""
        return self.rule.step_s or 1.0

    @cached_property
    def load(self) -> AlarmLoad:
        """What alarms cost over these days."""
        return self.load_between(self.begin, self.end, int(self.hours.rows.sum()))

    def load_between(self, begin: float, end: float, n_rows: int) -> AlarmLoad:
        """Return what alarms cost over some time.

        An alarm counts 1 where it starts, and 1 more for every full unit (see `Delays`)
        that it stands, there where the unit is full. The alarm of a shelved member
        counts as standing until it ends.

        Parameters
        ----------
        begin, end : float
            The time, end excluded.
        n_rows : int
            Rows in it.
        """
        unit, step = self.rule.delays.unit, self.step_s
        alarms = sum(begin <= alarm.start < end for alarm in self.alarms)
        standing = rows = 0
        for stretch in self.stretches:
            before = _rows_until(stretch, begin, step)
            until = _rows_until(stretch, end, step)
            standing += until // unit - before // unit
            rows += until - before
        days = n_rows * step / DAY_S
        return AlarmLoad(
            alarms=alarms + standing,
            days=days,
            alarms_per_day=(alarms + standing) / days if days else None,
            share_of_time=min(rows / n_rows, 1.0) if n_rows else 0.0,
            standing=standing,
        )

    @property
    def promised(self) -> tuple[float, float]:
        """90% interval of the number of alarms in as many days."""
        return self.made.promise.interval(self.load.days or 0.0)

    @property
    def kept(self) -> Kept:
        """What became of the promise."""
        return kept_promise(self.made.promise, self.load)

    @cached_property
    def days(self) -> tuple[Day, ...]:
        """The days on the plant's clock, an hour counts to the day it begins in."""
        begins = np.asarray(3600.0 * self.hours.hour, np.float64)
        day = np.floor(local_seconds(begins, self.zone) / DAY_S).astype(np.int64)
        found = []
        for value in np.unique(day).tolist():
            of_day = day == value
            n_rows = int(self.hours.rows[of_day].sum())
            load = self.load_between(
                float(begins[of_day][0]), float(begins[of_day][-1]) + 3600.0, n_rows
            )
            found.append(
                Day(
                    date=stamp(value * DAY_S)[:10],
                    hours=n_rows * self.step_s / 3600,
                    alarms=load.alarms,
                    share=load.share_of_time,
                )
            )
        return tuple(found)

    @cached_property
    def drift(self) -> ResidualDrift | None:
        """Drift since the rule was made; None if the rule does not say how it was."""
        n, (sums, squares) = int(self.hours.rows.sum()), self.hours.sums.sum(axis=0)
        then = () if self.made.origin is None else self.made.origin.calm
        now = [
            replace(
                one,
                calm_mean=float(total) / n,
                calm_square=max(square / n - 2 * one.mean * total / n + one.mean**2, 0)
                / one.spread**2,
            )
            for one, total, square in zip(then, sums, squares, strict=False)
        ]
        return drift_to(now, then) if then else None

    def sentences(self) -> list[str]:
        """Return what the figures say: promise, share of time, the alarm that runs."""
        low, high = self.promised
        load = self.load
        told = (
            f"{plural(load.alarms, 'alarm')} in {duration((load.days or 0) * DAY_S)} "
            f"({per_day(load.alarms_per_day or 0)} a day), promised {low:.0f} to "
            f"{high:.0f}; in alarm {share(load.share_of_time, 1)} of the time."
        )
        found = [told]
        if self.kept is Kept.BROKEN:
            found.append(
                "The promise is broken: there are more alarms than it allows. Look at "
                "the drift of the tags below; `sightline commission --calm` on later "
                "attack-free rows makes a new limit."
            )
        elif self.kept is Kept.UNUSED:
            found.append(
                "There are fewer alarms than promised, so the limit is higher than "
                "this plant needs: `sightline commission --calm` on later attack-free "
                "rows makes a lower one."
            )
        budget = self.rule.budget
        if budget is not None and load.share_of_time > MUCH_TIME * budget.share:
            found.append(
                f"Time in alarm is above twice the budget of {share(budget.share, 1)}."
            )
        if self.is_running:
            since = stamp(self.alarms[-1].start, self.zone)
            found.append(f"An alarm runs since {since}.")
        return found


def _rows_until(stretch: AlarmWindow, at: float, step_s: float) -> int:
    """Return how many rows of a stretch lie before a time."""
    n_rows = int(np.ceil((at - stretch.start) / step_s - 1e-6))
    return min(max(n_rows, 0), stretch.rows)


# --- Files ----------------------------------------------------------------------------


def write_page(week: Week, notices: Sequence[str], path: Path) -> None:
    """Write the page of the week: self-contained HTML."""
    import jinja2

    environment = jinja2.Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "stamp": lambda at: stamp(at, week.zone),
        "duration": duration,
        "share": lambda value: share(value, 1),
        "number": number,
        "signed": lambda value: f"{value:+.2f}".replace("-", "\N{MINUS SIGN}"),
    }
    styles = files("sightline.report") / "assets"
    template = (files("sightline.operation") / "assets" / "week.html").read_text(
        "utf-8"
    )
    text = environment.from_string(template).render(
        week=week,
        notices=notices,
        alarms=week.alarms[::-1],
        most=max([1, *(day.alarms for day in week.days)]),
        drift=week.drift,
        most_drifts=MOST_DRIFTS,
        moved=MOVED,
        zone=zone_words(week.zone),
        styles="\n".join((styles / name).read_text("utf-8") for name in _STYLES),
        version=__version__,
    )
    with staged_file(path) as partial:
        partial.write_text(text, encoding="utf-8")


def write_metrics(
    week: Week | None, state: WatchState, made: MadeRule, path: Path
) -> None:
    """Write figures in the text format of Prometheus, for its node_exporter."""
    rule = f'rule="{_escaped(made.rule.name)}"'
    lines: list[str] = []

    def add(name: str, kind: str, text: str, value: float) -> None:
        head = f"# HELP sightline_{name} {text}\n# TYPE sightline_{name} {kind}\n"
        lines.append(f"{head}sightline_{name}{{{rule}}} {value:.10g}")

    add("alarms_total", "counter", "Alarms that have ended.", len(state.episodes()))
    fates = [file.fate for file in state.files().values()]
    for fate in Fate:
        add(f"files_{fate}", "gauge", f"Files that are {fate}.", fates.count(fate))
    if week is not None:
        load, (low, high) = week.load, week.promised
        broken = int(week.kept is Kept.BROKEN)
        for name, text, value in (
            ("last_row_seconds", "Time of the last row.", week.last),
            ("alarm_running", "Whether an alarm runs.", int(week.is_running)),
            ("week_days", "Days with rows of the last 7.", load.days or 0),
            ("week_alarms", "Alarms of the last 7 days.", load.alarms),
            ("week_promised_low", "Fewest alarms promised (90%).", low),
            ("week_promised_high", "Most alarms promised (90%).", high),
            ("week_alarm_share", "Share of time in alarm.", load.share_of_time),
            ("week_promise_broken", "Whether the promise is broken.", broken),
        ):
            add(name, "gauge", text, value)
    tags = () if week is None or week.drift is None else week.drift.tags
    if tags:
        text = "Mean of a residual since commissioning, in spreads of train."
        lines.append(f"# HELP sightline_tag_shift {text}")
        lines.append("# TYPE sightline_tag_shift gauge")
    for tag in sorted(tags, key=lambda tag: tag.channel):
        labels = f'{rule},tag="{_escaped(tag.channel)}"'
        lines.append(f"sightline_tag_shift{{{labels}}} {tag.shift:.10g}")
    with staged_file(path) as partial:
        partial.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _escaped(text: str) -> str:
    r"""Return a label's value as Prometheus wants it.

    Examples
    --------
    >>> _escaped('a "b"')
    'a \\"b\\"'
    """
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def write_lines(
    alarms: Sequence[TimedAlarm], rule: Rule, zone: str | None, path: Path
) -> str | None:
    """Append the alarms that are not in a file of JSON lines yet.

    The file must be the beginning of what all alarms make; a line that was cut short is
    completed. Otherwise it is written again. So it never has an alarm twice.

    Parameters
    ----------
    alarms : sequence of TimedAlarm
        All alarms that have ended, in order.
    rule : Rule
        Whose alarms they are.
    zone : str, optional
        Zone of times.
    path : Path
        The file.

    Returns
    -------
    str or None
        A sentence if the file was written again.
    """
    wanted = "".join(
        json.dumps(alarm_line(alarm, rule, zone), ensure_ascii=False) + "\n"
        for alarm in alarms
    ).encode()
    given = b""
    if path.is_file():
        with reading(path):
            given = path.read_bytes()
    if wanted.startswith(given):
        if len(wanted) > len(given) or not path.exists():
            with writing(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("ab") as file:
                    file.write(wanted[len(given) :])
        return None
    with staged_file(path) as partial:
        partial.write_bytes(wanted)
    return f"{path.name}: held other lines than the state and was written again."


def alarm_line(alarm: TimedAlarm, rule: Rule, zone: str | None) -> dict[str, object]:
    """Return an alarm as one JSON line has it: the rule, and a row of alarms.csv."""
    row = Alarm(
        start=iso_stamp(alarm.start, zone),
        end=iso_stamp(alarm.last, zone),
        seconds=alarm.last - alarm.start + (rule.step_s or 0.0),
        peak=float(f"{alarm.peak:.4g}"),
        member=alarm.member,
        tags=alarm.tags,
    )
    return {"rule": rule.name, **asdict(row)}
