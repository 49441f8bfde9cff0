"""What is shown of blind spots: the blindest tags, the rules, and what-if attacks."""

from sightline.blindspots.result import BlindSpot, BlindSpots, RuleSight, WhatIf
from sightline.blindspots.words import blindest, range_words, size
from sightline.show.table import Column, Columns, RecordTable, pick
from sightline.text import UNKNOWN, duration, number, per_day, share

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
SIGHTS: Columns[RuleSight] = (
    Column("rule", "rule", lambda r: r.name),
    Column(
        "alarms_per_day",
        "alarms a day",
        lambda r: UNKNOWN if r.alarms_per_day is None else per_day(r.alarms_per_day),
        "r",
    ),
    Column("share", "time in alarm", lambda r: share(r.share_of_time, 1), "r"),
    Column(
        "blindness",
        "blindness",
        lambda r: number(r.blindness),
        "r",
        tip="How large a change it misses, over tags and shapes.",
    ),
)
WHAT_IF: Columns[WhatIf] = (
    Column("attack", "attack", lambda w: w.id),
    Column("what", "what", lambda w: w.text),
    Column("lasts", "lasts", lambda w: duration(w.duration_s)),
    Column("rule", "rule", lambda w: w.rule),
    Column("seen", "seen", lambda w: f"{share(w.share_seen)} of {w.n_places}"),
    Column("after", "after", lambda w: duration(w.delay_s)),
)


def terminal_tables(
    found: BlindSpots,
) -> list[RecordTable[RuleSight] | RecordTable[WhatIf]]:
    """Return cost and blindness of the rules, and what the user's attacks would do."""
    where = "residual space" if found.is_residual else "telemetry"
    title = (
        f"{found.name}: {found.n_places} places in {number(found.days)} days, "
        f"falsified {where}"
    )
    name: Column[RuleSight] = Column(
        "rule",
        "rule",
        lambda r: f"{r.name} (chosen)" if r.name == found.chosen else r.name,
    )
    columns = (name, *pick(SIGHTS, "alarms_per_day", "share", "blindness"))
    return [
        RecordTable(title, columns, found.rules),
        RecordTable("What if", WHAT_IF, found.what_if),
    ]


def notebook_tables(
    found: BlindSpots,
) -> list[RecordTable[BlindSpot] | RecordTable[RuleSight]]:
    """Return the blindest tags, and the rules."""
    title = "Missed in half of the tries, the blindest tag first"
    return [
        RecordTable(title, SPOTS, blindest(found)),
        RecordTable("Rules", SIGHTS, found.rules),
    ]
