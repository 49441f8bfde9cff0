"""Lists of attacks: when each ran, on which tags, and the rows of time it covers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from sightline.data.arrays import ATTACK, IGNORED, NORMAL, Bools, Floats, Labels
from sightline.data.segments import Attack

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


@dataclass(frozen=True, kw_only=True)
class Incident(ListedAttack):
    """One line of your own `attacks.csv`: its times may be uncertain.

    Parameters
    ----------
    uncertainty_s : float
        By how many seconds start and end may be wrong.
    """

    listed: Span
    uncertainty_s: float = 0.0


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


def labelled(
    time: Floats, labels: Labels | None, incidents: Sequence[Incident]
) -> tuple[Labels, tuple[Attack, ...]]:
    """Return labels of shape (n_rows,) and attacks by row.

    Parameters
    ----------
    time : array of shape (n_rows,)
        Seconds of each row.
    labels : array of shape (n_rows,), optional
        Labels of the recording itself, which then decide. Not given: incidents mark
        their rows as attacks, and the rows within their uncertainty before and after
        are ignored.
    incidents : sequence of Incident
        The list; an incident without a row gives no attack.
    """
    attacks = attacks_at(time, ((i, i.listed) for i in incidents))
    if labels is not None:
        return labels.copy(), attacks
    labels = labels_of(attacks, len(time))
    for incident in incidents:
        start, end = incident.listed
        margin = incident.uncertainty_s
        around = rows_within(time, (start - margin, end + margin))
        labels[around & (labels == NORMAL)] = IGNORED
    return labels, attacks
