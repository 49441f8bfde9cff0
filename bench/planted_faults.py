"""Which alarm names a fault of data, how soon, and what else changes.

A simulated plant is exported as its historian would, `start` makes a plant's folder of
the first days, and a rule is made. Faults are written into copies of later days of the
raw export, one fault a copy, and `watch` reads every copy and the untouched one. A row
of the table is a fault: in how many places the right kind of alarm named it, after how
long, how much time was not watched more than without it, and how many alarms of the
rule were more and fewer that name other tags.

    python bench/planted_faults.py            the table of docs/alarm-rules.md
    python bench/planted_faults.py quiet      alarms by kind of undisturbed records
    python bench/planted_faults.py outages    outages at 40 places, and what follows

Some 20 minutes in all. `quiet` also reads the drinking-water works of ../shared, where
it is.
"""

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"

import gzip
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import polars as pl
from typer.testing import CliRunner

from sightline import (
    commission,
    export_stream,
    make_detector,
    open_testbed,
    watch_folder,
    write_rule,
)
from sightline.audit.data import audit_of
from sightline.cli.app import app
from sightline.data.validity import NotWatched
from sightline.energy.attack_free import LABEL_SLOP_S
from sightline.operation.alarms import AlarmKind
from sightline.operation.watch_state import WatchState
from sightline.testbeds.waterworks import Scenario, simulate

Floats = npt.NDArray[np.float64]
STEP_S, HOUR, DAY_S = 10, 360, 86_400
DAY = DAY_S // STEP_S
BEGIN = datetime(2026, 3, 2, tzinfo=UTC).timestamp()
HISTORY_DAYS, LATER_DAYS = 6, 14
# Places for outages, and windows of three days in which other faults are written.
N_PLACES, PLACES = 40, 1
GECCO = Path(__file__).parents[2] / "shared" / "data" / "gecco" / "export_2016.csv.gz"
# Sensors that move in different ways: levels, flows, quality, pressure.
FROZEN = "LIT101 FIT101 AIT201 AIT203 DPIT301 LIT401 FIT501 AIT503 PIT501".split()
CONSTANT = ("P102", "P401", "P603")
# Alarms just after an outage are those that start within so long.
AFTER_S = 600.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Export:
    """Rows as a historian writes them.

    Parameters
    ----------
    time : array of shape (n_rows,)
        Stamps, in the order of the rows.
    values : array of shape (n_rows, n_tags)
        nan for an empty cell.
    tags : tuple of str
        The columns.
    units : dict of str to str
        Units of columns, in the header.
    """

    time: Floats
    values: Floats
    tags: tuple[str, ...]
    units: dict[str, str]

    def rows(self, keep: slice | npt.NDArray[np.bool_]) -> "Export":
        """Return some rows."""
        return replace(self, time=self.time[keep], values=self.values[keep])

    def days(self) -> list["Export"]:
        """Return it in pieces of a day."""
        starts = range(0, len(self.time), DAY)
        return [self.rows(slice(start, start + DAY)) for start in starts]

    def write(self, path: Path) -> None:
        """Write CSV with local time stamps and empty cells."""
        stamps = pl.from_epoch(pl.Series(np.rint(self.time).astype(np.int64)), "s")
        columns = {
            f"{tag} [{self.units[tag]}]" if tag in self.units else tag: pl.Series(
                column, nan_to_null=True
            )
            for tag, column in zip(self.tags, self.values.T.round(6), strict=True)
        }
        pl.DataFrame({"time": stamps.dt.strftime("%F %T"), **columns}).write_csv(path)


def waterworks(days: float, later: float, seed: int = 1) -> Export:
    """Return a record of the simulated plant without attacks, a row every 10 s."""
    run = simulate(days_train=days, days_test=later, scenario=Scenario(), seed=seed)
    parts = [r.values[::STEP_S].astype(np.float64) for r in (run.train, run.test)]
    values = np.concatenate(parts)
    return Export(
        time=BEGIN + STEP_S * np.arange(len(values)),
        values=values,
        tags=run.train.channels,
        units={
            tag.name: tag.unit
            for tag in run.train.tags
            if tag.unit and tag.unit != "state"
        },
    )


def rule_for(
    export: Export, folder: Path, *, mode: str = "", low_high: str = ""
) -> Path:
    """Return the rule that `start` and commissioning make of an export."""
    folder.mkdir(parents=True)
    export.write(folder / "history.csv")
    return made_rule(folder, folder / "history.csv", mode=mode, ranges=low_high)


def made_rule(
    folder: Path,
    history: Path,
    *options: str,
    mode: str = "",
    ranges: str = "",
    detector: str = "var",
) -> Path:
    """Return the rule that is made of a plant's export.

    Parameters
    ----------
    folder : Path
        Where everything is written.
    history : Path
        The export.
    options : str
        Further words for `start`.
    mode : str
        Lines for plant.toml.
    ranges : str
        A tag of which readings above 2,000 are out of its instrument's range.
    detector : str
        Name of the detector.
    """
    words = ["start", str(history), "--out", str(folder / "plant"), *options]
    done = CliRunner().invoke(app, words)
    assert done.exit_code in (0, 5), done.output
    settings = folder / "plant" / "plant.toml"
    settings.write_text(f"{mode}\n{settings.read_text()}")
    if ranges:
        table = folder / "plant" / "tags.csv"
        tags = pl.read_csv(table, infer_schema=False)
        high = pl.when(pl.col("tag") == ranges).then(pl.lit("2000"))
        tags.with_columns(high=high.otherwise(pl.lit(""))).write_csv(table)
    plant = open_testbed(folder / "plant")
    fitted = make_detector(detector).fit(plant.train)
    fitted.save(folder / "detector.npz")
    stream = export_stream(
        fitted, plant.train, plant.test, audit=audit_of(plant), name="plant"
    )
    made = commission(stream, budget="6/day,1%", first=0.9)
    write_rule(made, folder / "rule.json", detector=folder / "detector.npz")
    return folder / "rule.json"


# --- What a watch says ----------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """An alarm of the log."""

    kind: AlarmKind
    source: str
    tags: tuple[str, ...]
    time: float
    start: float


@dataclass(frozen=True, kw_only=True)
class Watched:
    """What a watch says of a record: its alarms, and hours that were not watched."""

    alarms: tuple[Alarm, ...]
    unwatched_h: float
    reasons: frozenset[NotWatched]
    remarks: tuple[str, ...]

    def named(self, kind: AlarmKind, source: str = "") -> list[Alarm]:
        """Return the alarms of a kind, of a tag."""
        return [
            a
            for a in self.alarms
            if a.kind is kind and source in (a.source, *a.tags, "")
        ]


def watched(rule: Path, days: list[Export]) -> Watched:
    """Return what `watch` says of files, one for each day."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        for k, day in enumerate(days):
            path = folder / f"day{k:02d}.csv"
            day.write(path)
            changed = float(np.median(day.time)) + DAY_S / 2 + 60
            os.utime(path, (changed, changed))
        return log_of(rule, folder, len(days[0].tags))


def log_of(rule: Path, exports: Path, n_tags: int) -> Watched:
    """Return what `watch` says of the files in a folder, from its log."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        done = watch_folder(rule, exports, folder / "state.db", settle_s=0)
        assert not done.broken, done.notices
        lines = [
            json.loads(line)
            for line in (folder / "alarms.jsonl").read_text().splitlines()
        ]
        store = WatchState(folder / "state.db", n_tags)
        try:
            spans = store.unwatched()
        finally:
            store.close()
    started: dict[str, Alarm] = {}
    for line in lines:
        alarm = Alarm(
            kind=AlarmKind(line["kind"]),
            source=line["source"],
            tags=tuple(line["tags"]),
            time=_seconds(line["time"]),
            start=_seconds(line["start"]) if line.get("start") else 0.0,
        )
        if line["event"] in ("started", "out-of-service"):
            started[line["id"]] = alarm
        elif line["id"] in started:
            tags = dict.fromkeys((*started[line["id"]].tags, *alarm.tags))
            started[line["id"]] = replace(started[line["id"]], tags=tuple(tags))
    return Watched(
        alarms=tuple(started.values()),
        unwatched_h=sum(span.end - span.start for span in spans) / 3600,
        reasons=frozenset(span.reason for span in spans),
        remarks=tuple(done.notices),
    )


def _seconds(text: str) -> float:
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


# --- Faults ---------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What is done to an export from some row on.

    Parameters
    ----------
    name : str
        For the table.
    kind : AlarmKind, optional
        The alarm that should name it; None if nothing needs to.
    tag : str
        The tag that the alarm should name; empty for the plant.
    rows : int
        For how long.
    write : callable
        Takes an export and its first row, and returns what is written.
    remark : str
        What a remark of `watch` should say, where there is no alarm for it.
    is_of_file : bool
        Whether it concerns a whole file, as what stands in its header.
    reason : NotWatched, optional
        Why its time is not watched, where that says it.
    """

    name: str
    rows: int
    write: Callable[[Export, int], Export]
    kind: AlarmKind | None = None
    tag: str = ""
    remark: str = ""
    is_of_file: bool = False
    reason: NotWatched | None = None

    def days(self, days: list[Export], at: int) -> list[Export]:
        """Return three days with the fault from a row of the second on."""
        if self.is_of_file:
            return [days[0], self.write(days[1], 0), days[2]]
        # Within the second and third day, so that files stay as they are.
        late = replace(
            days[1],
            time=np.concatenate([day.time for day in days]),
            values=np.concatenate([day.values for day in days]),
        )
        marked = replace(
            late, values=np.column_stack([late.values, np.arange(3 * DAY)])
        )
        marked = replace(marked, tags=(*late.tags, "row"))
        done = self.write(marked, DAY + at)
        place = done.values[:, -1] // DAY
        done = replace(done, values=done.values[:, :-1], tags=done.tags[:-1])
        return [done.rows(place == k) for k in range(3) if (place == k).any()]


def _cells(tags: tuple[str, ...], rows: int, value: float | None) -> Callable:
    """Return what writes a value into cells, or the one before them."""

    def write(export: Export, at: int) -> Export:
        values = export.values.copy()
        columns = [export.tags.index(tag) for tag in tags]
        before = values[at - 1, columns]
        values[at : at + rows, columns] = before if value is None else value
        return replace(export, values=values)

    return write


def _factor(tag: str, unit: str, factor: float) -> Callable:
    """Return what writes a tag in another unit."""

    def write(export: Export, at: int) -> Export:
        values = export.values.copy()
        values[:, export.tags.index(tag)] *= factor
        return replace(export, values=values, units=export.units | {tag: unit})

    return write


def _shifted(rows: int, seconds: float) -> Callable:
    """Return what shifts stamps of some rows: the clock returns after them."""

    def write(export: Export, at: int) -> Export:
        time = export.time.copy()
        time[at : at + rows] += seconds
        return replace(export, time=time)

    return write


def _lost(tag: str) -> Callable:
    def write(export: Export, at: int) -> Export:
        kept = [k for k, name in enumerate(export.tags) if name != tag]
        return replace(
            export,
            values=export.values[:, kept],
            tags=tuple(export.tags[k] for k in kept),
        )

    return write


def _stopped(export: Export, at: int) -> Export:
    """Stop the pump of stage 5: both flow meters are 0, and its state is off."""
    export = _cells(("FIT401", "FIT501"), DAY, 0.0)(export, at)
    return _cells(("P501",), DAY, 1.0)(export, at)


def faults() -> Iterator[Fault]:
    """Yield the faults that are written, in the order of the table."""
    for tag in FROZEN:
        yield Fault(
            name="dead for a day (empty cells)",
            kind=AlarmKind.LOST,
            tag=tag,
            rows=DAY,
            write=_cells((tag,), DAY, np.nan),
        )
    for name, rows in (("15 min", 90), ("4 h", 4 * HOUR), ("a day", DAY)):
        for tag in FROZEN:
            yield Fault(
                name=f"frozen for {name}",
                kind=AlarmKind.FROZEN,
                tag=tag,
                rows=rows,
                write=_cells((tag,), rows, None),
            )
    yield Fault(
        name="above its range for 4 h",
        kind=AlarmKind.LOST,
        tag="LIT101",
        rows=4 * HOUR,
        write=_cells(("LIT101",), 4 * HOUR, 32767.0),
    )
    for tag, unit, factor in (("LIT101", "m", 1e-3), ("PIT501", "bar", 0.01)):
        yield Fault(
            name="another unit in the header",
            kind=AlarmKind.UNIT,
            tag=tag,
            rows=DAY,
            write=_factor(tag, unit, factor),
            is_of_file=True,
        )
    yield Fault(
        name="column gone",
        kind=AlarmKind.LOST,
        tag="LIT401",
        rows=DAY,
        write=_lost("LIT401"),
        is_of_file=True,
    )
    for tag in CONSTANT:
        yield Fault(
            name="moves for the first time, for 1 h",
            kind=AlarmKind.MOVED,
            tag=tag,
            rows=HOUR,
            write=_cells((tag,), HOUR, 0.0),
        )
    yield Fault(
        name="pump stopped for a day, no mode_tag",
        kind=AlarmKind.MOVED,
        tag="P501",
        rows=DAY,
        write=_stopped,
    )
    for name, rows, shift in (
        ("back by 30 min", 2 * DAY, -1800.0),
        ("repeats one stamp", 1, -float(STEP_S)),
        ("ahead by 2 h for 10 min", 60, 7200.0),
    ):
        yield Fault(
            name=f"clock: {name}",
            kind=AlarmKind.CLOCK,
            rows=rows,
            write=_shifted(rows, shift),
        )
    yield Fault(
        name="clock: one row of 2099",
        rows=1,
        write=_shifted(1, 73 * 365.25 * DAY_S),
        remark="dated later than the file",
    )


# --- Places ---------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of one fault at one place."""

    is_named: bool
    delay_s: float
    unwatched_h: float
    more: int
    fewer: int


def outcome_of(fault: Fault, begin: float, before: Watched, after: Watched) -> Outcome:
    """Return what a watch said of a fault that it does not say without it.

    Parameters
    ----------
    fault : Fault
        What was written.
    begin : float
        From when on.
    before, after : Watched
        What is said without it, and with it.
    """
    until = begin + fault.rows * STEP_S + 2 * 3600
    named = [
        alarm
        for alarm in (after.named(fault.kind, fault.tag) if fault.kind else [])
        # A clock that goes back makes doubtful what was read before.
        if begin - 3600 <= alarm.time <= until and alarm not in before.alarms
    ]
    is_said = bool(fault.remark) and any(fault.remark in r for r in after.remarks)
    others = [
        {
            alarm.start
            for alarm in one.named(AlarmKind.ANOMALY)
            if begin <= alarm.time <= until and fault.tag not in alarm.tags
        }
        for one in (before, after)
    ]
    return Outcome(
        is_named=bool(named) or is_said or fault.reason in after.reasons,
        delay_s=float(
            np.maximum(0.0, min((a.time for a in named), default=np.nan) - begin)
        ),
        unwatched_h=after.unwatched_h - before.unwatched_h,
        more=len(others[1] - others[0]),
        fewer=len(others[0] - others[1]),
    )


def windows(export: Export, n_places: int) -> Iterator[tuple[list[Export], int]]:
    """Yield three days, and a row of the second of them, at some places."""
    days = export.days()
    for place in range(n_places):
        k = place * (len(days) - 2) // n_places
        yield days[k : k + 3], (place * 1741 + 300) % (DAY - 5 * HOUR)


def table(
    export: Export, rule: Path, chosen: Iterable[Fault], places: int
) -> Iterator[str]:
    """Yield the rows of the table, one for each name of a fault."""
    known: dict[float, Watched] = {}
    for name, same in groupby(chosen, lambda fault: fault.name):
        every = []
        for fault in same:
            for days, at in windows(export, places):
                first = float(days[0].time[0])
                if first not in known:
                    known[first] = watched(rule, days)
                said = watched(rule, fault.days(days, at))
                begin = float(days[1].time[0 if fault.is_of_file else at])
                every.append(outcome_of(fault, begin, known[first], said))
        yield line(name, str(fault.kind or fault.reason or "a remark"), every)


def line(name: str, kind: str, every: list[Outcome]) -> str:
    """Return a row of the table."""
    delays = np.array([one.delay_s for one in every if one.is_named]) / 60
    delays = delays[np.isfinite(delays)]
    delay = f"{np.median(delays):.1f} min" if len(delays) else "-"
    named = f"{sum(o.is_named for o in every)} of {len(every)}"
    hours = np.mean([one.unwatched_h for one in every])
    more, fewer = (sum(getattr(o, k) for o in every) for k in ("more", "fewer"))
    cells = (name, kind, named, delay, f"{hours:.2f} h", more, fewer)
    return f"| {' | '.join(map(str, cells))} |"


HEAD = """\
| fault | what names it | named | delay (median) | not watched | others: more | fewer |
|---|---|--:|--:|--:|--:|--:|"""


# --- Outages --------------------------------------------------------------------------


def outages(export: Export, rule: Path, rows: int, whole: Watched) -> str:
    """Return what outages of some rows do, at `N_PLACES` places of the record.

    As many as fit are written into one copy, eight hours apart or twice their length.
    """
    apart = max(2 * rows, 8 * HOUR)
    per_copy = (len(export.time) - DAY) // apart
    n_copies = -(-N_PLACES // per_copy)
    named, delays, just_after, spans = 0, [], 0, []
    for copy in range(n_copies):
        first = HOUR + copy * apart // n_copies
        at = first + apart * np.arange(min(per_copy, N_PLACES - copy * per_copy))
        keep = np.ones(len(export.time), np.bool_)
        for place in at.tolist():
            keep[place : place + rows] = False
        parts = np.split(keep, len(keep) // DAY)
        days = [day.rows(kept) for day, kept in zip(export.days(), parts, strict=True)]
        said = watched(rule, [day for day in days if len(day.time)])
        for begin in export.time[at].tolist():
            end = begin + rows * STEP_S
            no_data = [
                alarm.time
                for alarm in said.named(AlarmKind.NO_DATA)
                if begin <= alarm.time <= end + STEP_S
            ]
            named += bool(no_data)
            delays += [(time - begin) / 60 for time in no_data[:1]]
            just_after += _starts(said, end)
            spans.append(end)
    before = sum(_starts(whole, end) for end in spans)
    per_row = len(whole.named(AlarmKind.ANOMALY)) / len(export.time)
    expected = per_row * len(spans) * AFTER_S / STEP_S
    delay = f"{np.median(delays):.1f} min" if delays else "-"
    return (
        f"no rows for {rows * STEP_S:6} s: no data {named} of {len(spans)}, delay "
        f"{delay}; alarms of the rule within {AFTER_S / 60:g} min after: {just_after}, "
        f"untouched {before}, expected of other rows {expected:.1f}"
    )


def _starts(said: Watched, end: float) -> int:
    """Return how many alarms of the rule start just after a time."""
    starts = [alarm.start for alarm in said.named(AlarmKind.ANOMALY)]
    return sum(end <= start < end + AFTER_S for start in starts)


# --- Reports --------------------------------------------------------------------------


def report_faults(folder: Path) -> None:
    """Print the table of faults."""
    export = waterworks(HISTORY_DAYS / 2, HISTORY_DAYS / 2 + LATER_DAYS)
    cut = HISTORY_DAYS * DAY
    rule = rule_for(export.rows(slice(cut)), folder / "plain", low_high="LIT101")
    later = export.rows(slice(cut, None))
    print(HEAD, flush=True)
    for row in table(later, rule, faults(), PLACES):
        print(row, flush=True)
    mode = 'mode_tag = "P501"\nmode_running = [2]'
    rule = rule_for(export.rows(slice(cut)), folder / "mode", mode=mode)
    stopped = Fault(
        name="pump stopped for a day, mode_tag",
        rows=DAY,
        write=_stopped,
        reason=NotWatched.STOPPED,
    )
    for row in table(later, rule, [stopped], PLACES):
        print(row, flush=True)


def report_quiet(folder: Path) -> None:
    """Print the alarms of each kind a day on undisturbed records."""
    export = waterworks(HISTORY_DAYS / 2, HISTORY_DAYS / 2 + LATER_DAYS)
    cut = HISTORY_DAYS * DAY
    rule = rule_for(export.rows(slice(cut)), folder / "plain")
    later = export.rows(slice(cut, None))
    print_kinds("waterworks", watched(rule, later.days()), LATER_DAYS)

    if GECCO.is_file():
        print_kinds("gecco", *watched_gecco(folder), incidents_of_gecco())


def gecco_exports(folder: Path) -> tuple[Path, Path, int]:
    """Write 40 days of a real plant, and a file for each of 30 more.

    Returns
    -------
    history, exports : Path
        The first days, and the folder of the others.
    n_days : int
        How many these are.
    """
    lines = gzip.decompress(GECCO.read_bytes()).split(b"\n")
    head, rows = lines[0], [line for line in lines[1:] if line.strip()]
    n_first, n_later = 40 * 1440, 30 * 1440
    history = folder / "gecco.csv"
    history.write_bytes(b"\n".join([head, *rows[:n_first], b""]))
    exports = folder / "exports"
    exports.mkdir()
    (exports / "plant.toml").write_text('timezone = "Europe/Berlin"\n')
    for day in range(n_later // 1440):
        part = rows[n_first + day * 1440 : n_first + (day + 1) * 1440]
        path = exports / f"day{day:02d}.csv"
        path.write_bytes(b"\n".join([head, *part, b""]))
    return history, exports, n_later // 1440


def watched_gecco(folder: Path) -> tuple[Watched, float]:
    """Return what a watch says of the second month of a real plant, and its days."""
    history, exports, n_days = gecco_exports(folder)
    (folder / "gecco").mkdir()
    zone = ("--timezone", "Europe/Berlin", "--accept-dropped")
    rule = made_rule(folder / "gecco", history, *zone)
    return log_of(rule, exports, 10), n_days


def incidents_of_gecco() -> list[tuple[float, float]]:
    """Return first and last second of the labelled incidents, with their slop."""
    table = pl.read_csv(GECCO.parent / "vorfaelle.csv", separator=";")
    zone = ZoneInfo("Europe/Berlin")
    spans = [
        [
            datetime.strptime(cell, "%d.%m.%Y %H:%M").replace(tzinfo=zone).timestamp()
            for cell in row
        ]
        for row in table.select("Beginn", "Ende").iter_rows()
    ]
    return [(start - LABEL_SLOP_S, end + LABEL_SLOP_S) for start, end in spans]


def print_kinds(
    name: str,
    said: Watched,
    days: float,
    incidents: Iterable[tuple[float, float]] = (),
) -> None:
    """Print how many alarms there are of each kind, and a day outside incidents."""
    incidents, total = tuple(incidents), 0.0
    for kind in AlarmKind:
        alarms = said.named(kind)
        outside = [
            alarm
            for alarm in alarms
            if not any(start <= alarm.time <= end for start, end in incidents)
        ]
        a_day = len(outside) / days
        total += a_day * (kind is not AlarmKind.ANOMALY)
        tags = sorted({alarm.source for alarm in outside})
        print(f"{name:12} {kind:20} {len(alarms):4} {a_day:6.2f} a day", tags)
    print(f"{name:12} all but anomalies         {total:6.2f} a day")
    print(f"{name:12} not watched {said.unwatched_h:.1f} h of {24 * days:.0f} h")


def report_outages(folder: Path) -> None:
    """Print what outages of a row, an hour and a day do."""
    export = waterworks(HISTORY_DAYS / 2, HISTORY_DAYS / 2 + LATER_DAYS)
    cut = HISTORY_DAYS * DAY
    rule = rule_for(export.rows(slice(cut)), folder / "plain")
    later = export.rows(slice(cut, None))
    whole = watched(rule, later.days())
    for rows in (1, HOUR + 1, DAY):  # no data is what is missing for over an hour
        print(outages(later, rule, rows, whole), flush=True)


REPORTS = {"faults": report_faults, "quiet": report_quiet, "outages": report_outages}


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else "faults"
    with TemporaryDirectory() as folder:
        REPORTS[name](Path(folder))


if __name__ == "__main__":
    main()
