"""Alarms as a state machine: what they are, what happens to them, what is said of it.

Whatever watches a plant makes `Happening` values: this began, that ended. `AlarmBook`
lets them pass through one table, `TABLE`, and gives an `AlarmChange` for each that
counts: one line of the log. Nothing here knows a file, a clock or a database.

Two words are kept apart everywhere: a person *shelves* an alarm or a tag, for some
hours; the rule itself takes a tag *out of service* that stands.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple

from sightline.data.zones import iso_stamp, stamp
from sightline.rules.standalone import MOST_IN_ALL
from sightline.text import duration, names, number

# An anomaly of more than this many limits, or of this many tags, is of priority 2.
HIGH_PEAK: Final = 3.0
HIGH_TAGS: Final = 2
# An unacknowledged alarm of this priority or a higher one (a smaller number) is urgent.
URGENT: Final = 2
# Nothing is shelved for longer.
MAX_SHELVED_S: Final = 24 * 3600.0
# The source of alarms that concern no single tag.
PLANT: Final = "plant"


class AlarmKind(StrEnum):
    """What an alarm is about; the words of each stand in `KINDS`."""

    ANOMALY = "anomaly"
    NO_DATA = "no data"
    LOST = "tag lost"
    FROZEN = "tag frozen"
    MOVED = "tag moved"
    OUT = "tag out of service"
    UNIT = "unit changed"
    CLOCK = "clock"
    RULE_OUT = "rule out of service"
    PROMISE = "promise broken"
    QUESTION = "question"
    CHANGE = "plant changed"
    SHELVED = "tag shelved"


# The sentence of a question about a mean that was followed as far as is allowed.
FOLLOWED: Final = (
    "{source} was followed by {peak} spreads until {since}, all that is allowed; a "
    "slow fault looks like this: is this normal?"
)
# Kinds that ask a person something.
QUESTIONS: Final = (AlarmKind.QUESTION, AlarmKind.CHANGE)


class KindFacts(NamedTuple):
    """What is said of a kind of alarm.

    Parameters
    ----------
    priority : int
        From 1, the highest, to 4.
    text : str
        Its sentence, with places for source, tags, time and peak.
    meaning : str
        When it is raised.
    """

    priority: int
    text: str
    meaning: str


KINDS: Final = {
    AlarmKind.ANOMALY: KindFacts(
        3,
        "{tags} unlike the other tags since {since}, {peak} times the limit",
        "the rule rings",
    ),
    AlarmKind.NO_DATA: KindFacts(
        1,
        "No data since {since}",
        "no file, no rows, or too few tags with values for an hour",
    ),
    AlarmKind.LOST: KindFacts(
        4, "{source} has no usable value since {since}", "no usable value for an hour"
    ),
    AlarmKind.FROZEN: KindFacts(
        4,
        "{source} stands still since {since}",
        "its value has not changed for longer than it ever stood still",
    ),
    AlarmKind.MOVED: KindFacts(
        4,
        "{source} moves since {since}, which it never did before",
        "it differs from the only value that it ever had",
    ),
    AlarmKind.OUT: KindFacts(
        4,
        "{source} stands in alarm; out of service since {since}",
        "it stands in alarm; the rule goes on without it",
    ),
    AlarmKind.UNIT: KindFacts(
        4,
        "{source} comes in another unit since {since}; its values are not used",
        "the header states another unit than the rule was made for",
    ),
    AlarmKind.CLOCK: KindFacts(
        4,
        "Time stamps cannot be believed since {since}",
        "time goes back, repeats or jumps",
    ),
    AlarmKind.RULE_OUT: KindFacts(
        1,
        "The rule {source} is out of service since {since}: more than half of its "
        "units stand in alarm",
        "more than half of its units are out of service: it sees little",
    ),
    AlarmKind.PROMISE: KindFacts(
        3,
        "The rule {source} makes more alarms than it promised, since {since}",
        "more alarms, or more time in alarm, than promised, at a midnight (UTC) or "
        "at the end of its days",
    ),
    AlarmKind.QUESTION: KindFacts(
        3,
        "{source} has moved by {peak} spreads since {since}: is this normal?",
        "a mean has jumped for two nights, or was followed as far as is allowed",
    ),
    AlarmKind.CHANGE: KindFacts(
        3,
        "The plant changed at {since}: {n} of {of} tags moved together (largest: "
        "{largest}, by {peak} spreads): is this normal?",
        "more than half of the tags have jumped within two nights: one question",
    ),
    AlarmKind.SHELVED: KindFacts(
        4, "{source} is shelved since {since}", "a person shelved the tag"
    ),
}


class Event(StrEnum):
    """What happens to an alarm."""

    STARTED = "started"
    CHANGED = "changed"
    ENDED = "ended"
    ACKNOWLEDGED = "acknowledged"
    SHELVED = "shelved"
    UNSHELVED = "unshelved"
    OUT = "out-of-service"
    BACK = "back"


class State(StrEnum):
    """What an alarm is; `AlarmRecord.state` is ``SHELVED`` above all others."""

    ACTIVE = "active"
    OUT = "out of service"
    ENDED = "ended"
    SHELVED = "shelved"


class AlarmVerdict(StrEnum):
    """What a person who acknowledges an alarm says of it."""

    REAL = "real"
    MAINTENANCE = "maintenance"
    FALSE = "false"
    UNKNOWN = "unknown"


# From what to what an event leads, shelved or not; None: there is no alarm yet. What is
# not here does not happen: the event is left without a line.
TABLE: Final[dict[tuple[State | None, Event], State]] = {
    (None, Event.STARTED): State.ACTIVE,
    (State.ACTIVE, Event.CHANGED): State.ACTIVE,
    (State.ACTIVE, Event.ENDED): State.ENDED,
    (None, Event.OUT): State.OUT,
    (State.OUT, Event.BACK): State.ENDED,
    # A tag that is shelved while it has no alarm.
    (None, Event.SHELVED): State.ACTIVE,
    **{
        (state, event): state
        for state in (State.ACTIVE, State.OUT, State.ENDED)
        for event in (Event.ACKNOWLEDGED, Event.SHELVED, Event.UNSHELVED)
    },
}
_ENDS: Final = (Event.ENDED, Event.BACK)


@dataclass(frozen=True, kw_only=True)
class Happening:
    """Something that may change an alarm.

    Parameters
    ----------
    event : Event
        What happens.
    kind, source : AlarmKind, str
        To which alarm: at most one of them runs at a time.
    time : float
        When.
    start : float, optional
        When what the alarm is about began, if not at `time`.
    end : float, optional
        When it ended, if not at `time`.
    tags : tuple of str
        Its tags, those that led first; by default the source.
    peak : float, optional
        Largest value of the rule over its limit.
    limit : float, optional
        Limit of the rule.
    why : str
        What ended it, if not itself: ``"an outage"``.
    cause : str
        What began it, where that is known and its kind does not say it.
    by : str
        The person, or the rule.
    until : float, optional
        Until when it is shelved.
    verdict : AlarmVerdict, optional
        What the person says it was.
    note : str
        In the person's own words.
    n_tags : int, optional
        Of how many tags the rule is, where more than half changed.
    """

    event: Event
    kind: AlarmKind
    source: str
    time: float
    start: float | None = None
    end: float | None = None
    tags: tuple[str, ...] = ()
    peak: float | None = None
    limit: float | None = None
    why: str = ""
    cause: str = ""
    by: str = ""
    until: float | None = None
    verdict: AlarmVerdict | None = None
    note: str = ""
    n_tags: int | None = None


@dataclass(frozen=True, kw_only=True)
class AlarmRecord:
    """One alarm, as it is now.

    Parameters
    ----------
    id : str
        See `alarm_id`.
    kind, source : AlarmKind, str
        What it is about.
    rule : str
        Name of the rule.
    start : float
        When what it is about began.
    priority : int
        From 1, the highest, to 4.
    tags : tuple of str
        Its tags, those that led first.
    peak, limit : float, optional
        See `Happening`.
    end : float, optional
        When it ended; None while it runs.
    why, cause : str
        See `Happening`.
    acknowledged : bool
        Whether a person has.
    by : str
        Who did the newest thing with it.
    until : float, optional
        Until when it is shelved; None if it is not.
    shelf : str
        The tag by which it is shelved; empty if it is by itself.
    verdict : AlarmVerdict, optional
        What a person says it was.
    note : str
        In the person's own words.
    time : float
        Of its newest change.
    raised : float
        When it was raised, which may be later than `start`.
    n_tags : int, optional
        See `Happening`.
    """

    id: str
    kind: AlarmKind
    source: str
    rule: str
    start: float
    priority: int
    tags: tuple[str, ...] = ()
    peak: float | None = None
    limit: float | None = None
    end: float | None = None
    why: str = ""
    cause: str = ""
    acknowledged: bool = False
    by: str = ""
    until: float | None = None
    shelf: str = ""
    verdict: AlarmVerdict | None = None
    note: str = ""
    time: float = 0.0
    raised: float = 0.0
    n_tags: int | None = None

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self.end is None

    @property
    def is_waiting(self) -> bool:
        """Whether it has ended and still waits for a person."""
        is_over = not self.is_running and self.until is None
        return is_over and not self.acknowledged

    @property
    def below_shelf(self) -> State:
        """What it is, shelved or not."""
        if not self.is_running:
            return State.ENDED
        return State.OUT if self.kind is AlarmKind.OUT else State.ACTIVE

    @property
    def state(self) -> State:
        """What it is."""
        return self.below_shelf if self.until is None else State.SHELVED

    @property
    def is_urgent(self) -> bool:
        """Whether it runs, is of priority 1 or 2, and nobody has seen to it."""
        is_open = self.is_running and self.until is None and not self.acknowledged
        return is_open and self.priority <= URGENT

    def text(self, zone: str | None = None) -> str:
        """Return it as one sentence, without its end.

        Examples
        --------
        >>> alarm = AlarmRecord(
        ...     id="", kind=AlarmKind.ANOMALY, source="all", rule="all", start=5580.0,
        ...     priority=2, tags=("Redox 01", "pH 01"), peak=4.2,
        ... )
        >>> alarm.text()
        'Redox 01 and pH 01 unlike the other tags since 1970-01-01 01:33:00, 4.2 times
        the limit'
        """
        text = KINDS[self.kind].text
        if self.kind is AlarmKind.QUESTION and abs(self.peak or 0.0) == MOST_IN_ALL:
            text = FOLLOWED
        said = text.format(
            source=self.source,
            tags=names(self.tags) or self.source,
            since=stamp(self.start, zone),
            peak=number(self.peak),
            n=len(self.tags),
            of=self.n_tags,
            largest=self.tags[0] if self.tags else self.source,
        )
        if self.cause:
            said += f" ({self.cause})"
        if self.until is not None:
            said += f"; shelved until {stamp(self.until, zone)}"
        if self.end is not None and self.kind is not AlarmKind.SHELVED:
            said += f"; ended after {duration(self.end - self.start)}"
            said += f" by {self.why}" if self.why else ""
        return said


@dataclass(frozen=True, kw_only=True)
class AlarmChange:
    """One line of the log: what happened, and the alarm after it."""

    event: Event
    time: float
    alarm: AlarmRecord
    by: str = ""


def alarm_id(rule: str, kind: AlarmKind, source: str, start: float) -> str:
    """Return the name of an alarm: the same in every run that sees the same rows.

    Parameters
    ----------
    rule : str
        Digest of the rule.
    kind, source, start
        See `AlarmRecord`.

    Examples
    --------
    >>> alarm_id("f00", AlarmKind.LOST, "pH 01", 60.0)
    'e27b4b734d4e'
    """
    text = "\n".join((rule, kind, source, f"{start:.3f}"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def priority_of(kind: AlarmKind, tags: Sequence[str], peak: float | None) -> int:
    """Return the priority of an alarm: 1 is the highest."""
    is_high = kind is AlarmKind.ANOMALY and (
        len(tags) >= HIGH_TAGS or (peak or 0.0) > HIGH_PEAK
    )
    return KINDS[kind].priority - is_high


def after(
    alarm: AlarmRecord | None, what: Happening, rule: str, digest: str
) -> AlarmRecord | None:
    """Return an alarm after something happened; None if that does not concern it.

    Parameters
    ----------
    alarm : AlarmRecord, optional
        Before.
    what : Happening
        What happened.
    rule, digest : str
        Name and digest of the rule, for a new alarm.
    """
    before = None if alarm is None else alarm.below_shelf
    if (before, what.event) not in TABLE:
        return None
    if what.event is Event.UNSHELVED and alarm is not None and alarm.until is None:
        return None
    if alarm is None:
        start = what.time if what.start is None else what.start
        tags = what.tags or (() if what.source == PLANT else (what.source,))
        alarm = AlarmRecord(
            id=alarm_id(digest, what.kind, what.source, start),
            kind=what.kind,
            source=what.source,
            rule=rule,
            start=start,
            priority=priority_of(what.kind, tags, what.peak),
            tags=tags,
            peak=what.peak,
            limit=what.limit,
            cause=what.cause,
            acknowledged=what.event is Event.SHELVED,
            raised=what.time,
            n_tags=what.n_tags,
        )
    alarm = replace(alarm, time=what.time, by=what.by or alarm.by)
    if what.event is Event.ACKNOWLEDGED:
        return replace(
            alarm, acknowledged=True, verdict=what.verdict, note=what.note or alarm.note
        )
    if what.event is Event.SHELVED:
        note = what.note or alarm.note
        return replace(alarm, until=what.until, note=note, shelf="")
    if what.event is Event.UNSHELVED:
        end = what.time if alarm.kind is AlarmKind.SHELVED else alarm.end
        return replace(alarm, until=None, shelf="", end=end)
    if what.event is Event.CHANGED or what.event in _ENDS:
        tags, peak = what.tags or alarm.tags, what.peak or alarm.peak
        priority = min(alarm.priority, priority_of(alarm.kind, tags, peak))
        alarm = replace(alarm, tags=tags, peak=peak, priority=priority)
    if what.event in _ENDS:
        end = what.time if what.end is None else what.end
        alarm = replace(alarm, end=max(end, alarm.start), why=what.why)
    return alarm


def in_order(happenings: Iterable[Happening]) -> list[Happening]:
    """Return happenings in order of time: at one time, what ends comes first."""
    kinds = list(AlarmKind)
    return sorted(
        happenings,
        key=lambda one: (
            one.time,
            one.event not in _ENDS,
            kinds.index(one.kind),
            one.source,
            one.event is not Event.STARTED,
        ),
    )


class AlarmBook:
    """The alarms that run or are shelved, and what happens to them.

    Parameters
    ----------
    rule, digest : str
        Name and digest of the rule that new alarms are of.
    alarms : iterable of AlarmRecord
        Those that run or are shelved.
    off : collection of AlarmKind
        Kinds that are turned off: nothing starts.

    Attributes
    ----------
    changes : list of AlarmChange
        What has changed so far.
    """

    def __init__(
        self,
        rule: str,
        digest: str,
        alarms: Iterable[AlarmRecord] = (),
        off: Iterable[AlarmKind] = (),
    ) -> None:
        self.rule, self.digest, self.off = rule, digest, frozenset(off)
        self.alarms = {alarm.id: alarm for alarm in alarms}
        self.changes: list[AlarmChange] = []

    @property
    def running(self) -> list[AlarmRecord]:
        """The alarms that run, the highest priority first, then the earliest."""
        found = [alarm for alarm in self.alarms.values() if alarm.is_running]
        return sorted(found, key=lambda one: (one.priority, one.start, one.id))

    def find(self, kind: AlarmKind, source: str) -> AlarmRecord | None:
        """Return the alarm of a kind and source that runs."""
        for alarm in self.alarms.values():
            if alarm.is_running and (alarm.kind, alarm.source) == (kind, source):
                return alarm
        return None

    def take(self, what: Happening) -> None:
        """Let something happen to the alarm that runs, or to a new one."""
        alarm = self.find(what.kind, what.source)
        if alarm is None and what.kind in self.off:
            return
        self.happen(alarm, what)

    def happen(self, alarm: AlarmRecord | None, what: Happening) -> None:
        """Let something happen to an alarm."""
        changed = after(alarm, what, self.rule, self.digest)
        if changed is None:
            return
        shelved = what.event in (Event.SHELVED, Event.UNSHELVED)
        changed = changed if shelved else self._by_tags(changed)
        self.alarms[changed.id] = changed
        self.changes.append(
            AlarmChange(event=what.event, time=what.time, alarm=changed, by=what.by)
        )

    def _by_tags(self, alarm: AlarmRecord) -> AlarmRecord:
        """Return an alarm that is shelved if all of its tags are."""
        if not alarm.is_running or alarm.kind is AlarmKind.SHELVED:
            return alarm
        if alarm.until is not None and not alarm.shelf:
            return alarm
        shelves = {
            one.source: one
            for one in self.alarms.values()
            if one.is_running and one.kind is AlarmKind.SHELVED
        }
        own = [shelves.get(tag) for tag in alarm.tags]
        known = [shelf for shelf in own if shelf is not None]
        if not known or len(known) < len(own):
            return replace(alarm, until=None, shelf="")
        first = min(known, key=lambda one: one.until or 0.0)
        return replace(alarm, until=first.until, shelf=first.source, by=first.by)

    def turn_off(self, time: float) -> None:
        """End alarms of kinds that are turned off."""
        for alarm in self.running:
            if alarm.kind in self.off:
                event = Event.BACK if alarm.kind is AlarmKind.OUT else Event.ENDED
                self.happen(
                    alarm,
                    Happening(
                        event=event,
                        kind=alarm.kind,
                        source=alarm.source,
                        time=time,
                        why="the settings",
                    ),
                )

    # --- What persons do --------------------------------------------------------------

    def shelve_tag(
        self, tag: str, time: float, until: float, by: str, note: str
    ) -> None:
        """Shelve a tag, and the alarms that are of shelved tags alone."""
        self.take(
            Happening(
                event=Event.SHELVED,
                kind=AlarmKind.SHELVED,
                source=tag,
                time=time,
                by=by,
                until=until,
                note=note,
            )
        )
        for alarm in self.running:
            covered = self._by_tags(alarm)
            if covered.until is not None and covered != alarm:
                covered = replace(covered, time=time)
                self.alarms[alarm.id] = covered
                self.changes.append(
                    AlarmChange(event=Event.SHELVED, time=time, alarm=covered, by=by)
                )

    def unshelve(self, alarm: AlarmRecord, time: float, by: str = "") -> None:
        """Take an alarm from the shelf; of a tag, also the alarms that it covers."""
        if alarm.kind is AlarmKind.SHELVED:
            under = [one for one in self.alarms.values() if one.shelf == alarm.source]
        else:
            under = []
        for one in [alarm, *sorted(under, key=lambda one: one.id)]:
            self.happen(
                one,
                Happening(
                    event=Event.UNSHELVED,
                    kind=one.kind,
                    source=one.source,
                    time=time,
                    by=by,
                ),
            )

    def expire(self, now: float) -> None:
        """Take from the shelf what has been there for long enough."""
        due = [one for one in self.alarms.values() if (one.until or now + 1) <= now]
        for alarm in sorted(due, key=lambda one: (one.until or 0.0, one.id)):
            current = self.alarms[alarm.id]
            if current.until is not None:
                self.unshelve(current, current.until)


# --- Lines ----------------------------------------------------------------------------


def log_line(
    change: AlarmChange, seq: int, written: str, zone: str | None
) -> dict[str, object]:
    """Return a change as a line of the log has it.

    Parameters
    ----------
    change : AlarmChange
        What happened.
    seq : int
        Number of the line, from 1.
    written : str
        When it is written: the one field that depends on when a watch ran.
    zone : str, optional
        Of the other times.
    """
    alarm = change.alarm

    def when(at: float | None) -> str | None:
        return None if at is None else iso_stamp(at, zone)

    return {
        "id": alarm.id,
        "seq": seq,
        "time": when(change.time),
        "written": written,
        "kind": alarm.kind,
        "state": alarm.state,
        "event": change.event,
        "acknowledged": alarm.acknowledged,
        "priority": alarm.priority,
        "source": alarm.source,
        "tags": list(alarm.tags),
        "text": alarm.text(zone),
        "peak": None if alarm.peak is None else float(f"{alarm.peak:.4g}"),
        "limit": alarm.limit,
        "rule": alarm.rule,
        "by": change.by or None,
        "until": when(alarm.until),
        "start": when(alarm.start),
        "end": when(alarm.end),
        "verdict": alarm.verdict,
        "note": alarm.note or None,
    }
