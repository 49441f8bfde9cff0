"""The last seven days of a watch: alarms, promise and drift, and the files of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from sightline._version import __version__
from sightline.data.validity import (
    LEAST_WATCHED,
    NotWatched,
    Unwatched,
    watched_words,
    with_gaps,
)
from sightline.data.zones import local_seconds, stamp, zone_words
from sightline.files import staged_file
from sightline.metrics.alarm_load import DAY_S, AlarmLoad
from sightline.operation.alarm_files import number_of, state_words
from sightline.operation.alarms import (
    KINDS,
    QUESTIONS,
    AlarmKind,
    AlarmRecord,
    AlarmVerdict,
)
from sightline.operation.apply import MOST_TAGS, MOVED, ResidualDrift, drift_to
from sightline.operation.questions import (
    SAY_IN_WATCH,
    UNANSWERED_S,
    unanswered_words,
)
from sightline.operation.tag_hours import TagHours, tag_hours
from sightline.operation.watch_state import (
    AlarmWindow,
    Fate,
    Hours,
    OpenAlarm,
    OpenWindow,
    TimedAlarm,
    WatchState,
)
from sightline.rules.making import MadeRule
from sightline.rules.promise import (
    Kept,
    Ledger,
    Promise,
    as_a_whole,
    gap_words,
)
from sightline.rules.rule import Rule
from sightline.text import by_kind, duration, names, number, per_day, plural, share

WEEK_H: Final = 7 * 24
# Tags whose drift is listed.
MOST_DRIFTS: Final = 20
# Share of time in alarm, in budgets, above which a sentence warns.
MUCH_TIME: Final = 2.0
_STYLES: Final = ("page.css", "tables.css", "pictures.css", "print.css")


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


class Band(NamedTuple):
    """A piece of a band of time.

    Parameters
    ----------
    kind : str
        ``"unwatched"`` or ``"alarm"``.
    left, width : float
        Percent of the whole.
    text : str
        What it is.
    """

    kind: str
    left: float
    width: float
    text: str


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
        Stretches in alarm, also of what is out of service.
    is_running : bool
        Whether the last alarm still runs.
    unwatched : tuple of Unwatched
        Time of these days that was not watched, gaps between files included.
    since : float
        From here on there could have been rows: the first hour, or the first row ever.
    judged : float
        From here on the promise counts: the hour after which the rule began.
    records : tuple of AlarmRecord
        Alarms of all kinds that were open in these days, in order of their start.
    ledger : Ledger, optional
        The promise in force, and those before.
    pictures : mapping
        Leading tags around alarms of the rule, by the alarm's id.
    so_far : AlarmLoad, optional
        What came since it began.
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
    unwatched: tuple[Unwatched, ...] = ()
    since: float = 0.0
    judged: float = 0.0
    records: tuple[AlarmRecord, ...] = ()
    ledger: Ledger | None = None
    so_far: AlarmLoad | None = None
    pictures: Mapping[str, tuple[TagHours, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, state: WatchState, made: MadeRule, zone: str | None) -> "Week | None":
        """Return the last seven days of a state; None before the first row.

        Parameters
        ----------
        state : WatchState
            The state.
        made : MadeRule
            The rule.
        zone : str, optional
            See above.
        """
        runs = state.runs()
        if not len(runs):
            return None
        step, live = made.rule.step_s or 1.0, state.live()
        last = float(runs[-1, 1])
        last_hour = int(last // 3600)
        first, end = last_hour - WEEK_H + 1, 3600.0 * (last_hour + 1)
        begin = 3600.0 * first
        ledger, running = state.ledger(made), (live.alarm, live.stretch)
        alarms, stretches = alarms_since(state, made, begin, running)
        records = state.alarms(since=begin)
        return cls(
            unwatched=unwatched_time(state, step, begin),
            since=max(begin, float(runs[0, 0])),
            made=made,
            zone=zone,
            begin=begin,
            end=end,
            last=last,
            hours=state.hours(first),
            alarms=alarms,
            stretches=stretches,
            is_running=live.alarm is not None,
            judged=3600.0 * np.ceil(state.rule_since() / 3600),
            records=tuple(records),
            pictures=tag_hours(state, made, list(records), zone),
            ledger=ledger,
            so_far=load_of(state, made, ledger, live.alarm),
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
        """What alarms cost over these days, as far as they are of this rule."""
        begin = max(self.begin, self.judged)
        rows = self.hours.rows[3600.0 * self.hours.hour >= begin]
        return self.load_between(begin, self.end, int(rows.sum()))

    def load_between(self, begin: float, end: float, n_rows: int) -> AlarmLoad:
        """Return what alarms cost over some time.

        An alarm counts 1 where it starts, and 1 more for every full unit (see `Delays`)
        that it stands, there where the unit is full. The alarm of what is
        out of service counts as standing until it ends.

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
    def promise(self) -> Promise:
        """The promise in force."""
        return self.made.promise if self.ledger is None else self.ledger.promise

    @property
    def watched_share(self) -> float:
        """Share of the time that the promise counts that was watched."""
        seconds = self.last + self.step_s - max(self.since, self.judged)
        return min((self.load.days or 0.0) * DAY_S / max(seconds, self.step_s), 1.0)

    @property
    def out_since(self) -> Unwatched | None:
        """The time up to the last row that is not watched; None if that row was."""
        last = self.unwatched[-1] if self.unwatched else None
        return last if last is not None and last.end > self.last else None

    @property
    def kept(self) -> Kept:
        """What became of the promise; unjudged if less than half was watched."""
        if self.watched_share < LEAST_WATCHED or self.ledger is None:
            return Kept.UNJUDGED
        kept = self.ledger.kept(self.so_far or self.load)
        whole = as_a_whole(self.ledger.past, self.made.promise)
        return whole if kept is Kept.KEPT and whole is Kept.UNUSED else kept

    @property
    def is_watching(self) -> bool:
        """Whether the last row was watched by the rule, and files still arrive."""
        missing = (AlarmKind.NO_DATA, AlarmKind.RULE_OUT)
        is_missing = any(o.is_running and o.kind in missing for o in self.records)
        return self.out_since is None and not is_missing

    @property
    def unanswered(self) -> tuple[AlarmRecord, ...]:
        """The questions that nobody has answered."""
        running = [one for one in self.records if one.is_running]
        return tuple(o for o in running if o.kind in QUESTIONS and o.verdict is None)

    @property
    def undecided(self) -> str:
        """That questions about most tags stand unanswered, in a sentence; else empty.

        Whether they are shelved or not.
        """
        waits = [
            one
            for one in self.unanswered
            if self.last - max(one.raised, one.start) >= UNANSWERED_S
        ]
        n, n_tags = len(tags_of(waits)), len(self.rule.channels)
        if 2 * n <= n_tags:
            return ""
        since = stamp(min(max(one.raised, one.start) for one in waits), self.zone)
        return unanswered_words(n, n_tags, since, SAY_IN_WATCH)

    def state_line(self) -> str | None:
        """Return in one line that an alarm runs or nothing is watched; else None."""
        running = {one.kind: one for one in self.records if one.is_running}
        missing = running.get(AlarmKind.NO_DATA)
        if self.out_since is not None or missing is not None:
            start = min(
                one.start for one in (self.out_since, missing) if one is not None
            )
            why = AlarmKind.NO_DATA if self.out_since is None else self.out_since.reason
            return f"NOT WATCHED since {stamp(start, self.zone)}: {why}."
        if (out := running.get(AlarmKind.RULE_OUT)) is not None:
            since = stamp(out.start, self.zone)
            return f"NOT WATCHED since {since}: {AlarmKind.RULE_OUT}."
        if self.is_running:
            alarm = self.alarms[-1]
            tags = (
                running[AlarmKind.ANOMALY].tags
                if AlarmKind.ANOMALY in running
                else alarm.tags
            )
            return f"RUNNING since {stamp(alarm.start, self.zone)}: {names(tags)}."
        return None

    def running(self, *, shelved: bool = False) -> list[AlarmRecord]:
        """Return the alarms that run, the highest priority first, shelved or not."""
        found = [one for one in self.records if one.is_running]
        found = [one for one in found if (one.until is not None) == shelved]
        return sorted(found, key=lambda one: (one.priority, one.start))

    def service_lines(self) -> list[str]:
        """Return what is out of service or shelved, a sentence each."""
        found = [
            f"{one.kind.capitalize()}: {one.text(self.zone)}{self.what_to_do(one)}"
            for one in self.running()
            if one.kind is not AlarmKind.ANOMALY
        ]
        for one in self.running(shelved=True):
            by = f" (by {one.by})" if one.by else ""
            found.append(f"Shelved{by}: {one.text(self.zone)}.")
        return found

    @staticmethod
    def what_to_do(alarm: AlarmRecord) -> str:
        """Return what follows the sentence of an alarm: how a question is answered."""
        if alarm.kind not in QUESTIONS:
            return "."
        if alarm.verdict is not None:
            is_real = alarm.verdict is AlarmVerdict.REAL
            return f" {'A fault' if is_real else alarm.verdict}, says {alarm.by}."
        return (
            f" If so: `sightline answer STATE {alarm.id[:6]} normal --by NAME`; if "
            "not: `fault`. Until then its alarm stands."
        )

    def bands(self) -> list[Band]:
        """Return these days as bands of a picture: not watched, and in alarm."""
        width = max(self.end - self.begin, 1.0)

        def band(kind: str, start: float, end: float, text: str) -> Band:
            left = max(start - self.begin, 0.0) / width
            right = min(end - self.begin, width) / width
            return Band(kind, 100 * left, 100 * max(right - left, 0.002), text)

        found = [
            band("unwatched", one.start, one.end, str(one.reason))
            for one in self.unwatched
        ]
        if self.since > self.begin:
            found.append(band("unwatched", self.begin, self.since, "no row yet"))
        return found + [
            band("alarm", one.start, one.end or self.end, one.text(self.zone))
            for one in self.records
            if one.kind is AlarmKind.ANOMALY
        ]

    def watched_words(self) -> str:
        """Return how much of the time was watched, and which was not, in words."""
        hours = (self.load.days or 0.0) * 24
        total = (self.last + self.step_s - self.since) / 3600
        return watched_words(hours, total, self.unwatched, self.zone, self.begin)

    @cached_property
    def days(self) -> tuple[Day, ...]:
        """The days on the plant's clock, an hour counts to the day it begins in."""
        begins = np.asarray(3600.0 * self.hours.hour, np.float64)
        day = np.floor(local_seconds(begins, self.zone) / DAY_S).astype(np.int64)
        found = []
        last = np.floor(local_seconds(np.array([self.last]), self.zone) / DAY_S)
        # A day on which nothing was watched is listed too.
        for value in range(int(day[0]) if len(day) else int(last[0]), int(last[0]) + 1):
            of_day = day == value
            if not of_day.any():
                date = stamp(value * DAY_S)[:10]
                found.append(Day(date=date, hours=0.0, alarms=0, share=0.0))
                continue
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
        sums, squares, counts = self.hours.sums.sum(axis=0)
        then = () if self.made.origin is None else self.made.origin.calm
        now = [
            replace(
                one,
                calm_mean=float(total) / n,
                calm_square=max(square / n - 2 * one.mean * total / n + one.mean**2, 0)
                / one.spread**2,
            )
            # A tag without any residual stays where it was.
            if n
            else one
            for one, total, square, n in zip(
                then, sums, squares, counts.tolist(), strict=False
            )
        ]
        return drift_to(now, then) if then else None

    def promise_words(self) -> Iterator[str]:
        """Yield what is promised, what came of it so far, and what became of others."""
        if self.ledger is None or self.so_far is None:
            return
        promise, came = self.promise, self.so_far
        low, high = promise.interval(promise.days)
        yield (
            f"Promised for {plural(round(promise.days), 'watched day')} from "
            f"{stamp(self.ledger.begins, self.zone)} on: {low:.0f} to {high:.0f} "
            f"alarms (90%), at most {share(promise.most_share(promise.days), 1)} of "
            "time in alarm, without tags out of service. So far "
            f"{plural(came.alarms, 'alarm')} in "
            f"{duration((came.days or 0) * DAY_S)}, {share(came.share_of_time, 1)} of "
            "the time."
        )
        if past := self.ledger.past:
            last, kept = past[-1], [period.kept for period in past]
            yield (
                f"Of {plural(len(past), 'promise')} before, {kept.count(Kept.KEPT)} "
                f"kept, {kept.count(Kept.BROKEN)} broken, {kept.count(Kept.UNUSED)} "
                f"not used, {kept.count(Kept.UNJUDGED)} not judged; the last: "
                f"{last.low:.0f} to {last.high:.0f} alarms and at most "
                f"{share(last.most_share, 1)} of the time, {last.alarms:.0f} and "
                f"{share(last.share, 1)} came in {duration(last.days * DAY_S)}."
            )

    def facts(self) -> list[str]:
        """Return what came, in sentences: alarms, promises, and time watched."""
        load = self.load
        told = (
            f"{plural(load.alarms, 'alarm')} in {duration((load.days or 0) * DAY_S)} "
            f"({per_day(load.alarms_per_day or 0)} a day); in alarm "
            f"{share(load.share_of_time, 1)} of the time."
        )
        watched = [] if self.unwatched else [self.watched_words()]
        return [told, *self.promise_words(), *watched]

    def warnings(self) -> list[str]:
        """Return what asks for a person: time not watched, a broken promise."""
        load = self.load
        found = [self.watched_words()] if self.unwatched else []
        if self.ledger is not None and self.ledger.past and self.ledger.past[-1].gap_s:
            begins = stamp(self.ledger.begins, self.zone)
            found.append(gap_words(self.ledger.past[-1].gap_s, begins))
        if self.watched_share < LEAST_WATCHED:
            found.append(
                "The promise is not judged: less than half of the time was watched."
            )
        elif self.kept is Kept.BROKEN:
            first = "Look at the drift of the tags (in the page)"
            if self.unanswered:
                first = "Answer the questions first: alarms stand until then"
            found.append(
                "The promise is broken: more alarms, or more time in alarm, than it "
                f"allows. {first}; `sightline recommission` makes a new limit from the "
                "last days, and says whether it is better."
            )
        elif self.kept is Kept.UNUSED:
            found.append(
                "There are fewer alarms than promised, so the limit is higher than "
                "this plant needs: `sightline recommission` makes one from the last "
                "days."
            )
        budget = self.rule.budget
        if budget is not None and load.share_of_time > MUCH_TIME * budget.share:
            found.append(
                f"Time in alarm is above twice the budget of {share(budget.share, 1)}."
            )
        return found


Running = tuple[OpenAlarm | None, OpenWindow | None]


def tags_of(alarms: Sequence[AlarmRecord]) -> set[str]:
    """Return the tags of some alarms."""
    return {tag for one in alarms for tag in one.tags}


def alarms_since(
    state: WatchState, made: MadeRule, begin: float, running: Running
) -> tuple[tuple[TimedAlarm, ...], tuple[AlarmWindow, ...]]:
    """Return alarms and stretches that last beyond a time, with what runs."""
    alarms, stretches = state.episodes(begin), state.stretches(begin)
    alarm, stretch = running
    if alarm is not None:
        alarms.append(alarm.as_alarm(made.rule.limit, MOST_TAGS))
    if stretch is not None:
        stretches.append(stretch.so_far())
    return tuple(alarms), tuple(stretches)


def load_of(
    state: WatchState, made: MadeRule, ledger: Ledger, alarm: OpenAlarm | None
) -> AlarmLoad:
    """Return what rang since the promise in force began, to the row.

    A tag out of service rings no more; a rule that is out of service as a whole counts
    as in alarm. `alarm` is the one that runs.
    """
    step, unit = made.rule.step_s or 1.0, made.rule.delays.unit
    started, spent = 0, ledger.n_silent
    standing = spent // unit
    for one in alarms_since(state, made, ledger.begins, (alarm, None))[0]:
        # One that ran when the promise began.
        before = 0
        if one.start < ledger.begins:
            before = _rows_until(one, ledger.begins, step)
            before = before if ledger.stood is None else ledger.stood
        started += one.start >= ledger.begins
        standing += one.rows // unit - before // unit
        spent += one.rows - before
    days = ledger.rows * step / DAY_S
    return AlarmLoad(
        alarms=started + standing,
        days=days,
        alarms_per_day=(started + standing) / days if days else None,
        share_of_time=spent / ledger.rows if ledger.rows else 0.0,
        standing=standing,
    )


def unwatched_time(
    state: WatchState, step_s: float, since: float = -np.inf
) -> tuple[Unwatched, ...]:
    """Return the time not watched that lasts beyond a time, gaps between files too."""
    return with_gaps(state.runs(), state.unwatched(since), step_s, since)


def _rows_until(stretch: TimedAlarm | AlarmWindow, at: float, step_s: float) -> int:
    """Return how many rows of an alarm or a stretch lie before a time."""
    n_rows = int(np.ceil((at - stretch.start) / step_s - 1e-6))
    return min(max(n_rows, 0), stretch.rows)


# --- Files ----------------------------------------------------------------------------


def write_page(
    week: Week,
    off: Sequence[AlarmKind],
    notices: Sequence[str],
    frozen: str,
    path: Path,
) -> None:
    """Write the page of the week: self-contained HTML.

    Parameters
    ----------
    week, off, notices
        The week, kinds of alarms that are turned off, and remarks about files.
    frozen : str
        After how long tags are called frozen.
    path : Path
        The file.
    """
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
        "signed": lambda value: f"{value:+z.2f}".replace("-", "\N{MINUS SIGN}"),
    }
    styles = files("sightline.report") / "assets"
    template = (files("sightline.operation") / "assets" / "week.html").read_text(
        "utf-8"
    )
    text = environment.from_string(template).render(
        week=week,
        notices=by_kind(notices),
        frozen=frozen,
        off=off,
        running=week.running(),
        shelved=week.running(shelved=True),
        past=[one for one in week.records[::-1] if not one.is_running],
        state_words=state_words,
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

    def add(name: str, kind: str, text: str, *values: tuple[str, float]) -> None:
        lines.append(f"# HELP sightline_{name} {text}\n# TYPE sightline_{name} {kind}")
        lines.extend(
            f"sightline_{name}{{{rule}{labels}}} {value:.10g}"
            for labels, value in values
        )

    def one(name: str, kind: str, text: str, value: float) -> None:
        add(name, kind, text, ("", value))

    step = made.rule.step_s or 1.0
    failures = number_of(state, "hook_failures")
    one("alarms_total", "counter", "Alarms that have ended.", len(state.episodes()))
    one("log_lines_total", "counter", "Lines of the log.", state.n_changes())
    one("hook_failures_total", "counter", "Failures of --on-alarm.", failures)
    seconds = float(state.hours().rows.sum()) * step
    one("watched_seconds_total", "counter", "Time watched.", seconds)
    missed = dict.fromkeys(NotWatched, 0.0)
    for span in unwatched_time(state, step):
        missed[span.reason] += span.end - span.start
    reasons = [(f',reason="{why}"', value) for why, value in missed.items()]
    add("unwatched_seconds_total", "counter", "Time not watched.", *reasons)
    running = [alarm for alarm in state.open_alarms() if alarm.is_running]
    active = {(kind, facts.priority): 0 for kind, facts in KINDS.items()}
    active[AlarmKind.ANOMALY, KINDS[AlarmKind.ANOMALY].priority - 1] = 0
    for alarm in running:
        if alarm.until is None:
            key = alarm.kind, alarm.priority
            active[key] = active.get(key, 0) + 1
    counts = [(f',kind="{k}",priority="{p}"', n) for (k, p), n in active.items()]
    add("alarms_active", "gauge", "Alarms that run and are not shelved.", *counts)
    n_shelved = sum(alarm.until is not None for alarm in running)
    one("alarms_shelved", "gauge", "Alarms and tags that are shelved.", n_shelved)
    n_out = sum(alarm.kind is AlarmKind.OUT for alarm in running)
    one("units_out_of_service", "gauge", "Tags that the rule goes without.", n_out)
    fates = [file.fate for file in state.files().values()]
    for fate in Fate:
        one(f"files_{fate}", "gauge", f"Files that are {fate}.", fates.count(fate))
    for name, text, value in [] if week is None else _week_figures(week):
        one(name, "gauge", text, value)
    tags = () if week is None or week.drift is None else week.drift.tags
    if tags:
        shifts = [
            (f',tag="{_escaped(tag.channel)}"', tag.shift)
            for tag in sorted(tags, key=lambda tag: tag.channel)
        ]
        text = "Mean of a residual since commissioning, in spreads of train."
        add("tag_shift", "gauge", text, *shifts)
    with staged_file(path) as partial:
        partial.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _week_figures(week: Week) -> list[tuple[str, str, float]]:
    """Return name, help and value of each metric of a week."""
    load, promise = week.load, week.promise
    low, high = promise.interval(promise.days)
    most = promise.most_share(promise.days)
    broken = int(week.kept is Kept.BROKEN)
    good = week.out_since.start if week.out_since else week.last
    return [
        ("last_row_seconds", "Time of the last row.", week.last),
        ("last_good_row_seconds", "Time up to which rows were watched.", good),
        (
            "watching",
            "0 if nothing is watched now: no data, or the rule is out of service.",
            int(week.is_watching),
        ),
        ("alarm_running", "Whether an alarm of the rule runs.", int(week.is_running)),
        (
            "questions_open",
            "Tags that a person is asked about, unanswered.",
            len(tags_of(week.unanswered)),
        ),
        (
            "undecided",
            "1 if most tags are asked about, and nobody has answered for 48 hours.",
            int(bool(week.undecided)),
        ),
        ("week_days", "Watched days of the last 7.", load.days or 0),
        ("week_watched_share", "Share of time watched.", week.watched_share),
        ("week_alarms", "Alarms of the last 7 days.", load.alarms),
        ("promised_days", "Watched days of the promise in force.", promise.days),
        ("promised_low", "Fewest alarms promised for these days (90%).", low),
        ("promised_high", "Most alarms promised for these days (90%).", high),
        ("promised_alarm_share", "Largest share of time promised.", most),
        ("week_alarm_share", "Share of time in alarm.", load.share_of_time),
        ("week_promise_broken", "Whether the promise is broken.", broken),
    ]


def _escaped(text: str) -> str:
    r"""Return a label's value as Prometheus wants it.

    Examples
    --------
    >>> _escaped('a "b"')
    'a \\"b\\"'
    """
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
