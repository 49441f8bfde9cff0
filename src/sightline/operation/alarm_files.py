"""What a watch tells the world of its alarms: log, table, incident list, command.

All are made from the state. ``alarms.jsonl`` is only appended to: what it lacks of the
state's lines is written at its end, so that a run that was killed between any two
writes loses no line and doubles none.
"""

import csv
import difflib
import io
import json
import os
import shlex
import subprocess
import time as clock
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final

import msgspec
import numpy as np

from sightline.data.zones import iso_stamp
from sightline.errors import FileError
from sightline.files import brief, read_toml, reading, sole_writer, staged_file, writing
from sightline.operation.alarms import (
    MAX_SHELVED_S,
    QUESTIONS,
    AlarmBook,
    AlarmKind,
    AlarmRecord,
    AlarmVerdict,
    Event,
    Happening,
    State,
)
from sightline.operation.questions import COLUMNS as COLUMNS_OF_ANSWERS
from sightline.operation.questions import Reply, TagAnswer
from sightline.operation.watch_state import DAMAGE, WatchMemory, WatchState
from sightline.rules.standalone import Followed, answered
from sightline.tables.lists import EpisodeDecision
from sightline.text import csv_cell, did_you_mean, duration, legible, plural, span_s

SETTINGS: Final = "watch.toml"
LOG: Final = "alarms.jsonl"
TABLE: Final = "alarms.csv"
INCIDENTS: Final = "incidents.csv"
ANSWERS: Final = "answers.csv"
# A command for a line of the log may take so long.
HOOK_S: Final = 10.0
_MARK: Final = "# Alarms with a verdict. Written by sightline: edit a copy."
# And of earlier versions.
_MARKS: Final = (_MARK, "# Alarms with the verdict real.")
# What a verdict decides about the rows of an alarm.
_DECISIONS: Final = {
    AlarmVerdict.REAL: EpisodeDecision.INCIDENT,
    AlarmVerdict.FALSE: EpisodeDecision.NORMAL,
    AlarmVerdict.MAINTENANCE: EpisodeDecision.UNKNOWN,
    AlarmVerdict.UNKNOWN: EpisodeDecision.UNKNOWN,
}
_COLUMNS: Final = (
    *("id", "time", "source", "kind", "priority", "state", "acknowledged", "text"),
    *("tags", "start", "end", "duration_s", "by", "until"),
)


class CsvRows(StrEnum):
    """What ``alarms.csv`` has a row for."""

    ALARMS = "alarms"
    CHANGES = "changes"


@dataclass(frozen=True, kw_only=True)
class WatchSettings:
    """What ``watch.toml`` says.

    Parameters
    ----------
    off : frozenset of AlarmKind
        Kinds of alarms that are turned off.
    max_shelved_s : float
        Nothing is shelved for longer.
    """

    off: frozenset[AlarmKind] = frozenset()
    max_shelved_s: float = MAX_SHELVED_S


def watch_settings(state: Path, path: Path | None = None) -> WatchSettings:
    """Return the settings of a watch: of a file, else of the one beside its state.

    Raises
    ------
    FileError
        If it names a key or a kind that does not exist, or too long a time.
    """
    given = path is not None
    path = state.parent / SETTINGS if path is None else path
    if not given and not path.exists():
        return WatchSettings()
    values = read_toml(path)
    for key in values:
        if key not in ("off", "max_shelved"):
            hint = did_you_mean(key, ("off", "max_shelved"))
            raise FileError(f"{path}: there is no key {key!r}: {hint}")
    off = values.get("off", [])
    if not isinstance(off, list):
        raise FileError(f"{path}: off must be a list of kinds of alarms.")
    can_be_off = [kind for kind in AlarmKind if kind is not AlarmKind.SHELVED]
    for name in off:
        if name not in can_be_off:
            hint = did_you_mean(str(name), can_be_off)
            raise FileError(f"{path}: there is no kind of alarm {name!r}: {hint}")
    longest = MAX_SHELVED_S
    if "max_shelved" in values:
        try:
            longest = span_s(str(values["max_shelved"]))
        except ValueError as error:
            raise FileError(f"{path}: max_shelved: {error}") from None
        if longest > MAX_SHELVED_S:
            raise FileError(f"{path}: max_shelved is 24h at most.")
    return WatchSettings(off=frozenset(map(AlarmKind, off)), max_shelved_s=longest)


def now_at(zone: str | None) -> float:
    """Return the time now, as rows have it: on the plant's own clock without a zone."""
    if zone is not None:
        return clock.time()
    return datetime.now().replace(tzinfo=UTC).timestamp()


# --- Log and tables -------------------------------------------------------------------


def write_log(store: WatchState, path: Path) -> str | None:
    """Append the lines of the state that a file does not have yet.

    Returns
    -------
    str or None
        A sentence if the file is not what was written: it was cut, or edited.
    """
    lines = store.lines()
    n_logged = number_of(store, "logged")
    wanted = "".join(f"{line}\n" for line in lines).encode()
    given = b""
    if path.is_file():
        with reading(path):
            given = path.read_bytes()
    if not lines and not given:
        return None
    said, text = None, b""
    if wanted.startswith(given):
        n_there = given.count(b"\n")
        text = wanted[len(given) :]
        if n_there < n_logged:
            said = (
                f"{path.name}: lines {n_there + 1:,} to {n_logged:,} were missing and "
                "have been added."
            )
    else:
        said = (
            f"{path.name}: was edited: it holds other lines than the state. New lines "
            "go to its end; move it away to have all lines written again."
        )
        new = lines[max(n_logged, _last_number(given)) :]
        text = "".join(f"{line}\n" for line in new).encode()
        text = b"\n" + text if text and not given.endswith(b"\n") else text
    if text:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                file.write(text)
    _set_number(store, "logged", len(lines))
    return said


def _last_number(content: bytes) -> int:
    """Return the number of the last line of a log that can be read; else 0."""
    try:
        return int(json.loads(content.splitlines()[-1])["seq"])
    except (ValueError, KeyError, TypeError, IndexError):
        return 0


def number_of(store: WatchState, key: str) -> int:
    """Return a number that the state keeps; 0 before it was written."""
    text = store.about().get(key, "0")
    return int(text) if text.isdecimal() else 0


def _set_number(store: WatchState, key: str, value: int) -> None:
    if number_of(store, key) != value:
        with store.transaction():
            store.set_about({key: str(value)})


def write_table(store: WatchState, rows: CsvRows, path: Path) -> None:
    """Write ``alarms.csv``: for each alarm its newest line, or every line."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_COLUMNS)
    with store.intact(*DAMAGE):
        lines = [json.loads(line) for line in store.lines()]
        if rows is CsvRows.ALARMS:
            lines = [*{line["id"]: line for line in lines}.values()]
        for line in lines:
            line |= {"tags": ";".join(line["tags"]), "duration_s": _seconds(line)}
            line["acknowledged"] = str(line["acknowledged"]).lower()
            cells = [line[name] for name in _COLUMNS]
            writer.writerow(["" if cell is None else csv_cell(cell) for cell in cells])
    with staged_file(path) as partial:
        partial.write_text(out.getvalue(), encoding="utf-8")


def _seconds(line: Mapping[str, str | None]) -> str:
    """Return for how long the alarm of a line lasted; empty while it runs."""
    start, end = line["start"], line["end"]
    if not start or not end:
        return ""
    lasted = datetime.fromisoformat(end) - datetime.fromisoformat(start)
    return f"{lasted.total_seconds():.0f}"


def write_incidents(store: WatchState, zone: str | None, path: Path) -> None:
    """Write what persons called alarms, as a reviewed list, if there is any.

    What is real is an incident. Alarms of the rule that are false are normal, and of
    others (maintenance) it is not known what their rows are.

    Raises
    ------
    FileError
        If another file of that name is there: nothing of a person is overwritten.
    """
    judged = [
        (one, _DECISIONS[one.verdict])
        for one in store.alarms()
        if one.verdict is not None
        and (one.verdict is AlarmVerdict.REAL or one.kind is AlarmKind.ANOMALY)
    ]
    is_ours = False
    if path.exists():
        with reading(path):
            is_ours = path.read_text("utf-8", "replace").startswith(_MARKS)
        if judged and not is_ours:
            raise FileError(
                f"{path}: is a list of your own, so the alarms with a verdict cannot "
                "be written there: rename it."
            )
    if not judged and not is_ours:
        return
    out = io.StringIO(f"{_MARK}\n")
    out.seek(0, io.SEEK_END)
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["id", "start", "end", "tags", "decision", "note"])
    for one, decision in judged:
        end = "" if one.end is None else iso_stamp(one.end, zone)
        tags = ";".join(one.tags)
        cells = [one.id, iso_stamp(one.start, zone), end, tags, decision, one.note]
        writer.writerow([csv_cell(cell) for cell in cells])
    with staged_file(path) as partial:
        partial.write_text(out.getvalue(), encoding="utf-8")


def write_answers(store: WatchState, zone: str | None, path: Path) -> None:
    """Write what people said of tags that jumped, for `apply`; nothing without any."""
    answers = answers_of(store)
    if not answers:
        return
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS_OF_ANSWERS)
    for answer in answers:
        writer.writerow([csv_cell(cell) for cell in answer.cells(zone)])
    with staged_file(path) as partial:
        partial.write_text(out.getvalue(), encoding="utf-8")


def answers_of(store: WatchState) -> list[TagAnswer]:
    """Return what people said of tags that jumped, in order."""
    with store.intact(*DAMAGE):
        text = store.about().get("answers", "[]")
        return msgspec.json.decode(text, type=list[TagAnswer])


# --- A command for each line ----------------------------------------------------------


def run_hooks(store: WatchState, command: str | None) -> list[str]:
    """Run a command for each new line of the log, in order; return remarks.

    A line for which the command fails is tried again at the next run, and those after
    it wait. Without a command nobody waits for the lines so far.
    """
    if command is None:
        _set_number(store, "hooked", store.n_changes())
        return []
    done = number_of(store, "hooked")
    for seq, line in enumerate(store.lines(done), start=done + 1):
        problem = run_hook(command, line)
        if problem:
            _set_number(store, "hook_failures", number_of(store, "hook_failures") + 1)
            return [
                f"--on-alarm: {problem} at line {seq:,} of the log; it is tried again "
                "at the next run."
            ]
        _set_number(store, "hooked", seq)
    return []


def run_hook(command: str, line: str) -> str:
    """Run a command for one line of the log; return what went wrong, else nothing.

    Parameters
    ----------
    command : str
        Program and words, as in a shell; but none is started.
    line : str
        The JSON object, which the command gets on its standard input. Its event, id,
        kind, priority, state and text are in the environment as ``SIGHTLINE_EVENT`` and
        so on.
    """
    values = json.loads(line)
    names = ("event", "id", "kind", "priority", "state", "text")
    own = {f"SIGHTLINE_{name.upper()}": str(values[name]) for name in names}
    try:
        words = shlex.split(command)
        if not words:
            return "the command is empty"
        with TemporaryFile() as said:
            done = subprocess.run(
                words,
                input=f"{line}\n".encode(),
                env=os.environ | {k: v.replace("\0", "") for k, v in own.items()},
                stdout=subprocess.DEVNULL,
                stderr=said,
                timeout=HOOK_S,
                check=False,
            )
            said.seek(0)
            reason = " ".join(said.read(400).decode("utf-8", "replace").split())
    except subprocess.TimeoutExpired:
        return f"the command took longer than {HOOK_S:.0f} s"
    except (OSError, ValueError) as error:
        return f"the command cannot be run ({brief(error)})"
    if done.returncode:
        reason = f" ({legible(reason)})" if reason else ""
        return f"the command ended with {done.returncode}{reason}"
    return ""


# --- What persons do ------------------------------------------------------------------


class AlarmDesk:
    """The alarms of a state, for a person who sees to them.

    Parameters
    ----------
    store : WatchState
        The state.
    settings : WatchSettings
        For how long something may be shelved.
    """

    def __init__(self, store: WatchState, settings: WatchSettings) -> None:
        about = store.about()
        self.store, self.settings = store, settings
        self.zone = about.get("zone") or None
        self.out = Path(about.get("out", store.path.parent))
        self.channels: list[str] = json.loads(about.get("channels", "[]"))
        self.now = now_at(self.zone)
        self.book = AlarmBook(
            about.get("rule_name", ""), about.get("rule", ""), store.open_alarms()
        )
        self.book.expire(self.now)
        self.answers: list[TagAnswer] = []
        self.live: WatchMemory | None = None

    def alarms(
        self, *, everything: bool = False, most: int = 20
    ) -> tuple[list[AlarmRecord], list[AlarmRecord]]:
        """Return the alarms that run, are shelved, or still wait for a person.

        Parameters
        ----------
        everything : bool
            Also those that were seen to.
        most : int
            Of those that have ended the latest count.

        Returns
        -------
        alarms, older : list of AlarmRecord
            Those that wait as well, and are older, apart.
        """
        known = {one.id: one for one in self.store.alarms()} | self.book.alarms
        every = sorted(known.values(), key=lambda one: (one.start, one.id))
        if everything:
            return every, []
        waiting = [one for one in every if one.is_waiting]
        older = waiting[: max(len(waiting) - most, 0)]
        left = {one.id for one in older}
        is_over = [not one.is_running and one.until is None for one in every]
        return [
            one
            for one, over in zip(every, is_over, strict=True)
            if not over or (one.is_waiting and one.id not in left)
        ], older

    def acknowledge(
        self, names: Sequence[str], by: str, verdict: AlarmVerdict | None, note: str
    ) -> list[AlarmRecord]:
        """Acknowledge alarms, each named by its id."""
        return [
            self._happen(
                self._alarm(name), Event.ACKNOWLEDGED, by, verdict=verdict, note=note
            )
            for name in names
        ]

    def answer(
        self, name: str, reply: Reply, by: str, note: str = ""
    ) -> list[AlarmRecord]:
        """Answer a question, named by its id; return what is settled.

        Normal moves the mean from the next row on, and that of what jumped in the same
        night; a fault is never learned, and goes to the list of incidents. Of a change
        of the plant either holds for all of its tags.

        Raises
        ------
        FileError
            If there is no such question, or it is settled.
        """
        alarm = self._alarm(name)
        if alarm.kind not in QUESTIONS or not alarm.is_running:
            raise FileError(
                f"{self.store.path}: {name!r} is no open question: `sightline alarm "
                "list` shows them."
            )
        live = self.store.live()
        last = float(live.arrays["rule/last"][0])
        self.answers += [
            TagAnswer(time=last, tag=tag, reply=reply, by=by) for tag in alarm.tags
        ]
        if reply is Reply.FAULT:
            return self.acknowledge([alarm.id], by, AlarmVerdict.REAL, note)
        tags = json.loads(self.store.about()["rule_tags"])
        channel = live.arrays["rule/night/channel"]
        followed = Followed(
            **{key: live.arrays[f"rule/night/{key}"] for key in Followed._fields}
        )
        own = np.isin(channel, [tags.index(tag) for tag in alarm.tags])
        is_plant = alarm.kind is AlarmKind.CHANGE
        now = answered(followed, own, is_plant=is_plant)
        moved = {f"rule/night/{key}": one for key, one in now._asdict().items()}
        self.live = replace(live, arrays=live.arrays | moved)
        asked = {tags[k] for k in channel[now.is_asked].tolist()}
        return [
            self._happen(one, Event.ENDED, by, why=f"{reply} ({by})", note=note)
            for one in self.book.running
            if one.kind in QUESTIONS and not asked & {*one.tags}
        ]

    def shelve(
        self, names: Sequence[str], by: str, seconds: float, note: str
    ) -> list[AlarmRecord]:
        """Shelve alarms or tags for some seconds.

        Raises
        ------
        FileError
            If that is too long, or there is no such alarm and no such tag.
        """
        if seconds > self.settings.max_shelved_s:
            raise FileError(
                f"{self.store.path}: nothing is shelved for longer than "
                f"{duration(self.settings.max_shelved_s)} (max_shelved): shelve it "
                "again when that is over."
            )
        until, found = self.now + seconds, []
        for name in names:
            if name in self.channels:
                self.book.shelve_tag(name, self.now, until, by, note)
                tag = self.book.find(AlarmKind.SHELVED, name)
                found += [tag] if tag is not None else []
            else:
                alarm = self._alarm(name)
                found.append(
                    self._happen(alarm, Event.SHELVED, by, until=until, note=note)
                )
        return found

    def unshelve(self, names: Sequence[str], by: str) -> list[AlarmRecord]:
        """Take alarms or tags from the shelf."""
        found = []
        for name in names:
            alarm = self.book.find(AlarmKind.SHELVED, name) or self._alarm(name)
            if alarm.until is None:
                raise FileError(f"{self.store.path}: {name!r} is not shelved.")
            self.book.unshelve(alarm, self.now, by)
            found.append(self.book.alarms[alarm.id])
        return found

    def _happen(
        self, alarm: AlarmRecord, event: Event, by: str, **more: Any
    ) -> AlarmRecord:
        self.book.happen(
            alarm,
            Happening(
                event=event,
                kind=alarm.kind,
                source=alarm.source,
                time=self.now,
                by=by,
                **more,
            ),
        )
        return self.book.alarms[alarm.id]

    def _alarm(self, name: str) -> AlarmRecord:
        """Return the alarm whose id is, or begins with, a name."""
        known = {one.id: one for one in self.store.alarms(since=-1e300)}
        known |= self.book.alarms
        found = [one for key, one in known.items() if name and key.startswith(name)]
        if len(found) == 1:
            return found[0]
        if found:
            raise FileError(
                f"{self.store.path}: {name!r} begins the id of "
                f"{plural(len(found), 'alarm')}: give more of it."
            )
        near = difflib.get_close_matches(name, [*known, *self.channels], n=1)
        hint = "`sightline alarm list --all` shows all alarms with their ids."
        hint = f"did you mean {near[0]!r}?" if near else hint
        raise FileError(f"{self.store.path}: has no alarm and no tag {name!r}: {hint}")

    def save(self) -> list[str]:
        """Write what was done into the state, then log, table and incident list."""
        if not self.book.changes:
            return []
        every = [*answers_of(self.store), *self.answers]
        with self.store.transaction():
            self.store.put_changes(self.book.changes, self.zone, clock.time())
            if self.live is not None:
                self.store.put_live(self.live)
            self.store.set_about({"answers": msgspec.json.encode(every).decode()})
        with self.store.intact(*DAMAGE):
            rows = CsvRows(self.store.about().get("csv", CsvRows.ALARMS))
        said = write_log(self.store, self.out / LOG)
        write_table(self.store, rows, self.out / TABLE)
        write_incidents(self.store, self.zone, self.store.path.parent / INCIDENTS)
        write_answers(self.store, self.zone, self.store.path.parent / ANSWERS)
        return [said] if said else []


@contextmanager
def alarm_desk(
    state: str | Path, settings: str | Path | None = None
) -> Iterator[AlarmDesk]:
    """Open the alarms of a state; what is done inside is saved at the end.

    Parameters
    ----------
    state : path
        The SQLite file of a watch.
    settings : path, optional
        The ``watch.toml``; by default the one beside the state.

    Raises
    ------
    FileError
        If it is no state, a watch runs on it, or it is of an earlier version.
    """
    path = Path(state)
    if not path.is_file():
        raise FileError(
            f"{path}: there is no such state: name that of `watch --state`."
        )
    with sole_writer(path):
        own = watch_settings(path, None if settings is None else Path(settings))
        store = WatchState(path)
        try:
            with store.intact():
                if store.migrated:
                    raise FileError(
                        f"{path}: was written by an earlier Sightline: run `sightline "
                        "watch` once."
                    )
                with store.intact(*DAMAGE):
                    desk = AlarmDesk(store, own)
                yield desk
        finally:
            store.close()


def state_words(alarm: AlarmRecord) -> str:
    """Return the state of an alarm in words, and whether it is acknowledged."""
    said: str = alarm.state
    if alarm.state is State.SHELVED and alarm.kind is not AlarmKind.SHELVED:
        said = f"{alarm.below_shelf}, shelved"
    if alarm.state is State.OUT:
        said += " (by the rule)"
    if alarm.acknowledged and alarm.kind is not AlarmKind.SHELVED:
        said += ", acknowledged"
    return said
