"""A record that is judged in parts, each by a model of the other parts.

Where incidents lie everywhere there is no time before the first to learn from. The
record is then cut into parts: what is fitted to the rows of all other parts judges one
part, so that no row is judged by anything that has seen it.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from sightline.data.arrays import NORMAL, Bools, Floats, Ints
from sightline.data.downsampling import rows_of, rows_selected
from sightline.data.recording import Recording
from sightline.errors import StreamError

# How many parts, where they are not stated.
N_PARTS: Final = 5
# Rows this long before and after a part judge it no more than the part itself, at most
# this share of the part.
SEAM_S, SEAM_SHARE = 86_400.0, 0.1
# Rows this long before and after an incident are not learned from.
AROUND_S: Final = 3600.0


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordPart:
    """One part of a record, and the rest to learn from.

    Parameters
    ----------
    train : Recording
        Attack-free rows of the other parts, without those near this one.
    test : Recording
        The rows of the part, after some that are only read, so that a detector with a
        memory is ready when the part begins.
    begin_s : float
        Time of its first row.
    """

    train: Recording
    test: Recording
    begin_s: float


def outside(time: Floats, first: float, last: float) -> Bools:
    """Return the rows that may decide about a part that lasts from one time to another.

    All but the part and its seams: a day before and after, at most a tenth of the part.

    Examples
    --------
    >>> int(outside(np.arange(40.0), 10.0, 19.0).sum())
    30
    """
    seam = _seam(first, last)
    return np.asarray((time < first - seam) | (time > last + seam))


def _seam(first: float, last: float) -> float:
    """Return how long the time before and after a part is that it shares."""
    return min(SEAM_S, SEAM_SHARE * (last - first))


def part_firsts(test: Recording) -> Ints:
    """Return the first row of each part of a recording.

    Parts have as many rows, but none begins within an incident.
    """
    normal = np.flatnonzero(test.labels == NORMAL)
    even = np.arange(test.parts) * test.n_steps // test.parts
    if not len(normal) or test.n_steps < 2 * test.parts:
        raise StreamError(
            f"{test.n_steps:,} rows cannot be judged in {test.parts} parts: leave "
            "`parts` out of plant.toml."
        )
    later = normal[np.minimum(np.searchsorted(normal, even), len(normal) - 1)]
    return np.unique(np.where(even == 0, 0, later))


def away_from_incidents(recording: Recording) -> Recording:
    """Return the rows of a recording that lie an hour or more from any incident.

    Raises
    ------
    StreamError
        If none does.
    """
    time, is_normal = _time(recording), recording.labels == NORMAL
    near = time[~is_normal]
    after = np.append(near, np.inf)[np.searchsorted(near, time)]
    before = np.append(-np.inf, near)[np.searchsorted(near, time, side="right")]
    is_far = is_normal & (after - time > AROUND_S) & (time - before > AROUND_S)
    if not is_far.any():
        raise StreamError(
            "No row lies an hour or more from any incident: nothing normal is left to "
            "learn from."
        )
    return rows_selected(recording, np.asarray(is_far))


def parts_of(train: Recording, test: Recording) -> list[RecordPart]:
    """Return the parts of a record, in order of time.

    Parameters
    ----------
    train : Recording
        Its attack-free rows (`away_from_incidents`).
    test : Recording
        All its rows; `Recording.parts` says in how many parts they are judged.

    Raises
    ------
    StreamError
        If the record has no time stamps, or is too short.
    """
    time, learned = _time(test), _time(train)
    firsts = part_firsts(test)
    parts = []
    for first, stop in zip(firsts, np.append(firsts[1:], test.n_steps), strict=True):
        begin, end = float(time[first]), float(time[stop - 1])
        is_other = outside(learned, begin, end)
        if not is_other.any():
            raise StreamError(
                f"A part of the record leaves no row to learn from: give more than "
                f"{test.n_steps:,} rows, or leave `parts` out of plant.toml."
            )
        lead = int(np.searchsorted(time, begin - _seam(begin, end)))
        parts.append(
            RecordPart(
                train=rows_selected(train, is_other),
                test=replace(rows_of(test, lead, int(stop)), parts=1),
                begin_s=begin,
            )
        )
    return parts


def _time(recording: Recording) -> Floats:
    if recording.time is None:
        raise StreamError("A record without time stamps cannot be judged in parts.")
    return recording.time
