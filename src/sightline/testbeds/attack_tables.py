"""The attack lists that ship with the package: when, on which tags, and a note."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from sightline.data.arrays import ATTACK, Bools, Floats, Labels
from sightline.data.recording import seconds
from sightline.data.segments import Attack
from sightline.testbeds.base import shipped_rows

Span = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class ListedAttack:
    """One line of an attack list; times in seconds, both ends inclusive.

    Parameters
    ----------
    id : str
        The number in the owners' list; ``"U..."`` for a labelled run without one.
    listed : (start, end), optional
        When the owners say it ran; None for an attack without an end time.
    labelled : (start, end), optional
        When the label column of the files marks it.
    adjusted : (start, end), optional
        When a later study of the readings saw it.
    targets : tuple of str
        The attacked tags that are recorded.
    note : str
        What the attacker did and aimed at.
    has_no_impact : bool
        Whether the owners say that nothing physical followed.
    file : str
        The part of the release it lies in (HAI).
    """

    id: str
    listed: Span | None
    labelled: Span | None = None
    adjusted: Span | None = None
    targets: tuple[str, ...] = ()
    note: str = ""
    has_no_impact: bool = False
    file: str = ""

    def over(self, start: int, stop: int) -> Attack:
        """Return the attack over rows [start, stop)."""
        note = self.note or None
        return Attack(
            id=self.id, start=start, stop=stop, targets=self.targets, note=note
        )


@cache
def attack_table(name: str, *, release: str = "") -> tuple[ListedAttack, ...]:
    """Return the attack list of a testbed.

    Parameters
    ----------
    name : str
        The file's name without ending, such as ``"swat"`` or ``"hai_21.03"``.
    release : str
        Only the lines of that release, where the list has several.

    Examples
    --------
    >>> attack_table("swat")[0].targets
    ('MV101',)
    """
    return tuple(
        _listed(row)
        for row in shipped_rows(f"attack_lists/{name}.csv")
        if not release or row.get("release") == release
    )


def _listed(row: dict[str, str]) -> ListedAttack:
    """Return one line of a list."""
    is_listed = not row["attack_id"].startswith("U")
    return ListedAttack(
        id=row["attack_id"],
        listed=_span(row["start"], row["end"]) if is_listed else None,
        labelled=_span(row.get("label_start"), row.get("label_end")),
        adjusted=_span(row.get("adjusted_start"), row.get("adjusted_end")),
        targets=tuple(
            filter(None, row.get("targets_in_data", row["targets"]).split(";"))
        ),
        note=row.get("note", ""),
        has_no_impact=row.get("no_physical_impact") == "true",
        file=row.get("file", ""),
    )


def _span(start: str | None, end: str | None) -> Span | None:
    """Return two time stamps as seconds; None if one is missing."""
    return (seconds(start), seconds(end)) if start and end else None


def rows_within(time: Floats, span: Span) -> Bools:
    """Return which rows lie in a span of seconds, both ends included."""
    return np.asarray((time >= span[0]) & (time <= span[1]))


def attacks_at(
    time: Floats, spans: Iterable[tuple[ListedAttack, Span | None]]
) -> tuple[Attack, ...]:
    """Return attacks by the rows they cover; an attack without a row is left out.

    Parameters
    ----------
    time : array of shape (n_rows,)
        Seconds of each row.
    spans : iterable of (ListedAttack, (start, end) or None)
        Each attack with the time it is taken to have run; None leaves it out.
    """
    attacks = []
    for attack, span in spans:
        if span is None:
            continue
        rows = np.flatnonzero(rows_within(time, span))
        if len(rows):
            attacks.append(attack.over(int(rows[0]), int(rows[-1]) + 1))
    return tuple(attacks)


def labels_of(attacks: Sequence[Attack], n_rows: int) -> Labels:
    """Return labels of shape (n_rows,) that mark exactly the rows of some attacks."""
    labels = np.zeros(n_rows, np.int8)
    for attack in attacks:
        labels[attack.start : attack.stop] = ATTACK
    return labels
