"""What `improve` found, as a record, and its sentences and tables.

The recommendation follows what was measured on plants with known attacks
(docs/improve.md); falsifications explain it, they do not choose it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from sightline._version import __version__
from sightline.figures import LARGEST
from sightline.improvement.falsify import Written
from sightline.report.glossary import glossary
from sightline.show.table import Column, Columns, RecordTable, TableCell
from sightline.text import (
    Labelling,
    as_labelled,
    legible,
    names,
    per_day,
    plural,
    share,
)

SCHEMA: Final = 1
# Each sees what the other does not from so many falsifications on.
LEAST_ALONE: Final = 3
# How many names a sentence lists.
_MOST_NAMES: Final = 6
UNKNOWN: Final = "-"
_STYLES: Final = ("page.css", "tables.css", "print.css")


@dataclass(frozen=True, kw_only=True)
class DetectorScore:
    """A detector with an alarm rule at the budget.

    Parameters
    ----------
    name : str
        Such as ``"gdn with energy"``.
    detector : str
        The detector.
    score : str
        Its score: ``energy`` or ``largest``.
    is_given : bool
        Whether the residuals are those that were given.
    alarms_per_day, share_of_time : float, optional
        What the rule cost on later attack-free rows; None without any.
    caught : tuple of str
        Ids of the labelled attacks (incidents) that it caught there.
    n_attacks, caught_by_chance : int, float
        How many there were, and how many chance would catch.
    roc_auc, pauc_1 : float, optional
        How the score ranks attack rows there; None without attacks.
    fixed_share, share : float
        Time in alarm on the second half of the attack-free rows of the first part by a
        limit made on the first half: with fixed means, and with means that follow.
    most_share : float
        How much of it a limit may be in alarm, to be written.
    train_cpu_s, row_cpu_us : float, optional
        CPU seconds to train, and microseconds a row in blocks; None where unknown.
    """

    name: str
    detector: str
    score: str
    is_given: bool
    alarms_per_day: float | None
    share_of_time: float | None
    caught: tuple[str, ...]
    n_attacks: int
    caught_by_chance: float
    roc_auc: float | None
    pauc_1: float | None
    fixed_share: float
    share: float
    most_share: float
    train_cpu_s: float | None = None
    row_cpu_us: float | None = None

    @property
    def holds(self) -> bool:
        """Whether a limit with means that follow may be written.

        Neither on the second half nor on later rows is it in alarm for longer.
        """
        return max(self.share, self.share_of_time or 0.0) <= self.most_share

    @property
    def holds_fixed(self) -> bool:
        """Whether a limit with fixed means could be, too."""
        return self.fixed_share <= self.most_share


@dataclass(frozen=True, kw_only=True)
class SeenFalsification(Written):
    """A falsification, and who saw it.

    Parameters
    ----------
    seen : tuple of (bool or None)
        Of each candidate, in their order; None where it could not be asked.
    """

    seen: tuple[bool | None, ...]


@dataclass(frozen=True, kw_only=True)
class ImprovementRecord:
    """What was found; the content of ``improvement.json``.

    Parameters
    ----------
    schema : int
        Of the file.
    stream, detector, testbed : str, optional
        What was given.
    budget : str
        Alarms that limits were made for.
    first, seed : float, int
        Share of the test that made the limits, and the seed of the falsifications.
    first_days, later_days : float
        Attack-free days that made limits, and later ones that judged them.
    candidates : tuple of DetectorScore
        The detector given with its energy, then with `largest`, then `pair`.
    falsifications : tuple of SeenFalsification
        Empty without telemetry.
    recommended : str
        Name of the candidate to take in place of the first.
    keep_both : bool
        Whether it and `pair` each see what the other does not.
    labels : Labelling
        What the labels of the record mark.
    notes : tuple of str
        What could not be done.
    """

    schema: int = SCHEMA
    stream: str
    detector: str | None
    testbed: str | None
    budget: str
    first: float
    seed: int
    first_days: float
    later_days: float
    candidates: tuple[DetectorScore, ...]
    falsifications: tuple[SeenFalsification, ...] = ()
    recommended: str
    keep_both: bool
    labels: Labelling
    notes: tuple[str, ...] = ()

    def place(self, name: str) -> int:
        """Return where a candidate stands."""
        return [one.name for one in self.candidates].index(name)

    @property
    def taken(self) -> DetectorScore:
        """The recommended candidate."""
        return self.candidates[self.place(self.recommended)]

    @property
    def pair(self) -> DetectorScore | None:
        """The detector `pair`; None without telemetry."""
        return next((one for one in self.candidates if not one.is_given), None)

    def sentences(self) -> list[str]:
        """Return what to do and why, the most important first."""
        ids = {name for one in self.candidates for name in one.caught}
        said = (*_what_to_take(self), *_what_each_sees(self), *self.notes)
        return [as_labelled(one, self.labels, ids) for one in said]


def _what_to_take(found: ImprovementRecord) -> Iterator[str]:
    taken, first = found.taken, found.candidates[0]
    measured = (
        "on most plants with known attacks it caught more of them beyond chance at the "
        "same budget, see docs/improve.md"
    )
    if taken.holds:
        yield (
            f"Take the score {LARGEST} of the residuals of {taken.detector} in place "
            f"of their energy: {measured}."
        )
    else:
        yield (
            f"The score {LARGEST} is usually the better one ({measured}). But no "
            f"limit of it holds here, so no rule is written: {_why_not(taken)}. "
            + (
                "That of the energy does: keep it."
                if first.holds
                else "Nor does one of the energy: train again on rows that are like "
                "those of today."
            )
        )
    if taken.holds and not taken.holds_fixed:
        yield (
            f"A fixed limit will not hold here (in alarm for "
            f"{share(taken.fixed_share, 1)} of the second half of the attack-free "
            "rows): the rule that is written follows its means night by night."
        )
    if found.later_days:
        yield (
            f"On {found.later_days:.2g} later attack-free days: {_cost(first)}; "
            f"{_cost(taken)}."
        )
    gained, lost = _apart(taken.caught, first.caught)
    if gained or lost:
        would_be = f", and loses {_listed(lost)}" if lost else ""
        yield (
            f"Of {plural(taken.n_attacks, 'attack')} there {taken.name} catches "
            f"{_listed(gained)} that {first.name} does not{would_be}."
        )


def _why_not(one: DetectorScore) -> str:
    """Return why the limit of a candidate is not written."""
    if one.share > one.most_share:
        rows = "the second half of the attack-free rows, made on their first half"
        found = one.share
    else:
        rows, found = "later attack-free rows", one.share_of_time or 0.0
    return (
        f"it is in alarm for {share(found, 1)} of {rows}, and "
        f"{share(one.most_share, 1)} is allowed"
    )


def _cost(one: DetectorScore) -> str:
    rate = UNKNOWN if one.alarms_per_day is None else per_day(one.alarms_per_day)
    return f"{one.name} {rate} alarms a day, {share(one.share_of_time, 1)} of the time"


def _apart(first: Sequence[str], second: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return what only the first has, and what only the second."""
    return [x for x in first if x not in second], [x for x in second if x not in first]


def _listed(ids: Sequence[str]) -> str:
    return names(ids, _MOST_NAMES, quoted=True) or "none"


def seen_alone(found: ImprovementRecord) -> tuple[list[int], list[int]]:
    """Return the falsifications that only the recommended sees, and only `pair`."""
    pair = found.pair
    if pair is None:
        return [], []
    a, b = found.place(found.recommended), found.place(pair.name)
    own, other = [], []
    for k, one in enumerate(found.falsifications):
        if one.seen[a] and one.seen[b] is False:
            own.append(k)
        elif one.seen[b] and one.seen[a] is False:
            other.append(k)
    return own, other


def _what_each_sees(found: ImprovementRecord) -> Iterator[str]:
    pair, taken = found.pair, found.taken
    if pair is None or not found.falsifications:
        return
    seen = [one.seen[found.place(taken.name)] for one in found.falsifications]
    if seen[0] is None:
        return
    own, other = seen_alone(found)
    n = len(found.falsifications)
    head = (
        f"Of {n} falsifications written into attack-free telemetry {taken.name} alone "
        f"sees {len(own)}, {pair.name} alone {len(other)}"
    )
    if found.keep_both:
        yield (
            f"{head}: keep both, for each sees what the other does not. "
            f"{_by_tag(found, own, taken.name)} {_by_tag(found, other, pair.name)}"
        )
    elif len(other) < LEAST_ALONE:
        yield f"{head}: {pair.name} adds nothing here."
    else:
        yield f"{head}: {pair.name} sees nearly all that {taken.name} sees, and more."
    gained, lost = _apart(pair.caught, taken.caught)
    if gained or lost:
        yield (
            f"Of the labelled attacks {pair.name} catches {_listed(gained)} that "
            f"{taken.name} does not, and {taken.name} catches {_listed(lost)} that "
            f"{pair.name} does not."
        )
    if not pair.holds:
        yield f"No rule of {pair.name} is written: {_why_not(pair)}."


def _by_tag(found: ImprovementRecord, which: Sequence[int], name: str) -> str:
    """Return the tags of some falsifications that one candidate alone sees."""
    tags = [found.falsifications[k].tag for k in which]
    order = sorted(dict.fromkeys(tags), key=lambda tag: (-tags.count(tag), tag))
    listed = names([f"{tag} ({tags.count(tag)})" for tag in order], _MOST_NAMES)
    return f"Only {name}: {listed}."


# --- Tables ---------------------------------------------------------------------------


def _plain(value: float | None, text: Callable[[float], str]) -> TableCell:
    return TableCell(UNKNOWN if value is None else text(value), values=(value,))


def _three(value: float) -> str:
    return f"{value:.3f}"


def _caught(one: DetectorScore) -> TableCell:
    if not one.n_attacks:
        return TableCell(UNKNOWN, values=(None,))
    text = f"{len(one.caught)} of {one.n_attacks} ({one.caught_by_chance:.1f})"
    return TableCell(text, values=(len(one.caught),))


CANDIDATES: Columns[DetectorScore] = (
    Column("name", "detector and score", lambda c: c.name, term="score-largest"),
    Column(
        "alarms_per_day",
        "alarms\na day",
        lambda c: _plain(c.alarms_per_day, per_day),
        "r",
        tip="On later attack-free rows.",
    ),
    Column(
        "share_of_time",
        "time in\nalarm",
        lambda c: _plain(c.share_of_time, lambda v: share(v, 1)),
        "r",
    ),
    Column(
        "caught",
        "caught\n(chance)",
        _caught,
        "r",
        tip="Labelled attacks of the later rows; in brackets as many as chance would.",
    ),
    Column("pauc_1", "pAUC@1%", lambda c: _plain(c.pauc_1, _three), "r"),
    Column("roc_auc", "ROC-AUC", lambda c: _plain(c.roc_auc, _three), "r"),
    Column(
        "half_share",
        "second half:\nfollowing (fixed)",
        lambda c: TableCell(
            f"{share(c.share, 1)} ({share(c.fixed_share, 1)})",
            values=(c.share, c.fixed_share),
        ),
        "r",
        parts=("", "fixed"),
        tip="Time in alarm on the second half of the attack-free rows of the first "
        "part, by a limit made on the first half.",
    ),
    Column(
        "train_cpu_s",
        "CPU s\nto train",
        lambda c: _plain(c.train_cpu_s, lambda v: f"{v:.2g}"),
        "r",
    ),
    Column(
        "row_cpu_us",
        "\N{MICRO SIGN}s\na row",
        lambda c: _plain(c.row_cpu_us, lambda v: f"{v:.2g}"),
        "r",
        tip="CPU time of the detector in blocks of rows.",
    ),
)


@dataclass(frozen=True, kw_only=True)
class SeenOf:
    """How many of some falsifications each candidate sees.

    Parameters
    ----------
    what : str
        Which falsifications.
    n : int
        How many there are.
    seen : tuple of (int or None)
        Of each candidate.
    """

    what: str
    n: int
    seen: tuple[int | None, ...]


def seen_by(
    found: ImprovementRecord, key: Callable[[SeenFalsification], str]
) -> list[SeenOf]:
    """Return how many each candidate sees, for each value of a key."""
    groups: dict[str, list[SeenFalsification]] = {}
    for one in found.falsifications:
        groups.setdefault(key(one), []).append(one)
    return [
        SeenOf(what=what, n=len(ones), seen=_counts(ones, len(found.candidates)))
        for what, ones in groups.items()
    ]


def _counts(
    ones: Sequence[SeenFalsification], n_candidates: int
) -> tuple[int | None, ...]:
    return tuple(
        None
        if any(one.seen[k] is None for one in ones)
        else sum(bool(one.seen[k]) for one in ones)
        for k in range(n_candidates)
    )


def _kind(one: SeenFalsification) -> str:
    return "another state" if one.kind == "actuator" else one.kind


def _size(one: SeenFalsification) -> str:
    if one.size is None:
        return "without size"
    return f"{one.kind} of {abs(one.size):g} spread{'s' if abs(one.size) > 1 else ''}"


def _share_of(k: int) -> Callable[[SeenOf], TableCell]:
    def get(row: SeenOf) -> TableCell:
        seen = row.seen[k]
        if seen is None:
            return TableCell(UNKNOWN, values=(None,))
        return TableCell(share(seen / row.n), values=(seen,))

    return get


def seen_columns(found: ImprovementRecord) -> Columns[SeenOf]:
    """Return the columns of tables of what is seen: one for each candidate."""
    return (
        Column("what", "falsified", lambda row: row.what, term="falsification"),
        Column("n", "n", lambda row: TableCell(str(row.n), values=(row.n,)), "r"),
        *(
            Column(
                f"seen_{k}", one.name.replace(" with ", "\nwith "), _share_of(k), "r"
            )
            for k, one in enumerate(found.candidates)
        ),
    )


def tables(found: ImprovementRecord) -> list[RecordTable[Any]]:
    """Return the tables of terminal and page; those without records are left out."""
    columns = seen_columns(found)
    by_size = sorted(seen_by(found, _size), key=lambda row: row.what)
    by_tag = sorted(seen_by(found, lambda one: one.tag), key=lambda row: row.what)
    by_kind = sorted(seen_by(found, _kind), key=lambda row: row.what)
    by_kind = [*seen_by(found, lambda one: "all"), *by_kind]
    title = "Share of falsifications seen at the budget"
    made: list[RecordTable[Any]] = [
        RecordTable(f"At {found.budget}", CANDIDATES, found.candidates),
        RecordTable(f"{title}, by kind", columns, by_kind),
        RecordTable(f"{title}, by size", columns, by_size),
        RecordTable(f"{title}, by tag", columns, by_tag),
    ]
    return [table.as_labelled(found.labels) for table in made if table.records]


def falsification_columns(found: ImprovementRecord) -> Columns[SeenFalsification]:
    """Return the columns of ``falsifications.csv``."""

    def seen(k: int) -> Callable[[SeenFalsification], TableCell]:
        return lambda one: TableCell(values=(one.seen[k],))

    def value(key: str) -> Callable[[SeenFalsification], TableCell]:
        return lambda one: TableCell(values=(getattr(one, key),))

    keys = ("copy", "start", "stop", "tag", "kind", "size", "minutes")
    return (
        *(Column(key, key, value(key)) for key in keys),
        *(
            Column(f"seen by {c.name}", "", seen(k))
            for k, c in enumerate(found.candidates)
        ),
    )


# --- The page -------------------------------------------------------------------------


def page_of(record: ImprovementRecord) -> str:
    """Return the page: what to take, and why; HTML that needs nothing else."""
    assets = files("sightline.report") / "assets"
    shown = tables(record)
    return str(
        _template(record.labels)
        .render(
            record=record,
            sentences=record.sentences(),
            figures=shown[0],
            seen=shown[1:],
            terms=glossary(record.labels),
            styles="\n".join((assets / name).read_text("utf-8") for name in _STYLES),
            version=__version__,
        )
        .lstrip()
    )


@cache
def _template(labels: Labelling) -> Any:
    """Return the template in the words that fit the labels of a record."""
    import jinja2

    environment = jinja2.Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["legible"] = lambda text: legible(str(text))
    page = files("sightline.improvement") / "improve.html"
    return environment.from_string(as_labelled(page.read_text("utf-8"), labels))
