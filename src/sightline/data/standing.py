"""How long tags show one value: in attack-free rows, and while a plant is watched.

A tag that stands still for much longer than it ever did is *frozen*; a tag that had
one value in all attack-free rows and has another has *moved*. Both are marked in the
codes of cells. Nothing is taken from later rows: rows in pieces give the same as at
once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import NORMAL, Bools, Floats, Ints
from sightline.data.recording import Recording
from sightline.data.validity import Codes, Validity, breaks_after

# A tag is frozen after so many times the longest time for which it stood still before,
STILL_LIMIT: Final = 1.5
# unless that would be after more than a day: such a tag shows a state, and may stand.
LONGEST_S: Final = 24 * 3600.0 / STILL_LIMIT
# A number that is read differs by less than this share from the same one elsewhere.
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, kw_only=True)
class Stillness:
    """How a tag stood still in attack-free rows.

    Parameters
    ----------
    longest_s : float
        The longest time in train for which its value did not change.
    later : tuple of (float, float)
        When it began to stand for longer than ever before in test, and for how many
        seconds it did.
    value : float, optional
        Its only value in train; None if it had several.
    resolution : float
        What is no other value: the smallest step of its instrument; 0 if not known.
    moved : float, optional
        When it first had another value in test.
    """

    longest_s: float
    later: tuple[tuple[float, float], ...] = ()
    value: float | None = None
    resolution: float = 0.0
    moved: float | None = None

    def longest_until(self, time: float | None) -> float:
        """Return the longest time it stood still in train, and in test up to a time."""
        lengths = [
            min(length, time - begin)
            for begin, length in self.later
            if time is not None and begin < time
        ]
        return max([self.longest_s, *lengths])

    def value_until(self, time: float | None) -> float | None:
        """Return its only value in train, and in test up to a time; None if several."""
        has_moved = self.moved is not None and time is not None and self.moved <= time
        return None if has_moved else self.value


def stillness_of(train: Recording, test: Recording) -> dict[str, Stillness]:
    """Return how each tag stood still in the attack-free rows of train and test.

    Tags without a value in train are left out; without a step nothing is known.
    """
    found: dict[str, Stillness] = {}
    if train.step_s is None or test.step_s is None:
        return found
    parts = [_attack_free(recording) for recording in (train, test)]
    for k, tag in enumerate(train.tags):
        (time, column, begins), (later, others, breaks) = (
            (at, rows[:, k].astype(np.float64), breaks) for at, rows, breaks in parts
        )
        known = column[np.isfinite(column)]
        if not len(known):
            continue
        _, lengths = _standing(time, column, begins)
        starts, longer = _standing(later, others, breaks)
        longest = float(lengths.max(initial=0.0))
        before = np.maximum.accumulate(np.append(longest, longer))[:-1]
        records = np.flatnonzero(longer > before)
        value, resolution = float(known[0]), tag.resolution or 0.0
        is_constant = not differs(known, value).any()
        moves = later[differs(others, value, resolution) & is_constant]
        found[tag.name] = Stillness(
            longest_s=longest,
            later=tuple(
                zip(starts[records].tolist(), longer[records].tolist(), strict=True)
            ),
            value=value if is_constant else None,
            resolution=resolution,
            moved=float(moves[0]) if len(moves) else None,
        )
    return found


def differs(values: Floats, value: float, resolution: float = 0.0) -> Bools:
    """Return which values are another one, by more than the resolution; nan is none."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(np.abs(values - value) > resolution + _ROUNDING * abs(value))


def _attack_free(recording: Recording) -> tuple[Floats, npt.NDArray[Any], Bools]:
    """Return time, values and where runs begin, of rows that are labelled normal."""
    is_normal = np.asarray(recording.labels == NORMAL)
    steps = np.arange(recording.n_steps) * (recording.step_s or 1.0)
    time = steps if recording.time is None else recording.time
    breaks = np.zeros(1, np.int64) if recording.breaks is None else recording.breaks
    begins = np.zeros(int(is_normal.sum()), np.bool_)
    begins[breaks_after(is_normal, breaks)] = True
    return time[is_normal], recording.values[is_normal], begins


def _standing(time: Floats, column: Floats, begins: Bools) -> tuple[Floats, Floats]:
    """Return when one tag began to stand still, each time, and for how long it did."""
    since = StandingTags(1).since(time, column[:, None], begins)[:, 0]
    is_known = np.isfinite(since)
    time, since = time[is_known], since[is_known]
    lasts = np.flatnonzero(np.append(np.diff(since) != 0, True)[: len(since)])
    return since[lasts], time[lasts] - since[lasts]


class StandingTags:
    """Follows since when each tag shows one value, and marks cells of tags.

    Parameters
    ----------
    n_tags : int
        How many tags.
    longest_s : array of shape (n_tags,), optional
        For how long each may stand still before its limit counts; nan for one that may
        always. None for all of them.
    constant : mapping of int to (float, float)
        The only value of some tags, and their resolution.
    saved : mapping of str to array, optional
        What `arrays` gave.
    """

    def __init__(
        self,
        n_tags: int,
        longest_s: Floats | None = None,
        constant: Mapping[int, tuple[float, float]] | None = None,
        saved: Mapping[str, npt.NDArray[Any]] | None = None,
    ) -> None:
        self.longest_s = np.full(n_tags, np.nan) if longest_s is None else longest_s
        self.constant = constant or {}
        # The value that each tag shows, and since when; nan where it is not known.
        self.shown = np.full((2, n_tags), np.nan)
        if saved is not None and "shown" in saved:
            self.shown = saved["shown"].copy()

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return all that it remembers."""
        return {"shown": self.shown.copy()}

    def since(
        self,
        time: Floats,
        values: npt.NDArray[np.floating],
        begins: Bools,
    ) -> Floats:
        """Return for each cell since when its tag shows this value; nan without one.

        Parameters
        ----------
        time : array of shape (n_rows,)
            Seconds of each row.
        values : array of shape (n_rows, n_tags)
            nan where a cell cannot be used; such a cell changes nothing.
        begins : array of bool, shape (n_rows,)
            Rows before which others are missing: all tags begin again.

        Examples
        --------
        >>> rows = np.array([[1.0], [1.0], [np.nan], [1.0], [2.0]])
        >>> StandingTags(1).since(np.arange(5.0), rows, np.zeros(5, bool)).ravel()
        array([ 0.,  0., nan,  0.,  4.])
        """
        found = np.full(values.shape, np.nan)
        for k in range(values.shape[1]):
            rows, firsts, start = self._runs(k, time, values[:, k], begins)
            lengths = np.diff(np.append(firsts, len(rows)))
            found[rows, k] = np.repeat(start, lengths)
        return found

    def _runs(
        self,
        k: int,
        time: Floats,
        column: npt.NDArray[np.floating],
        begins: Bools,
    ) -> tuple[Ints, Ints, Floats]:
        """Return where a tag shows one value, row after row, and since when.

        Returns
        -------
        rows : array of int
            The rows with a value.
        firsts : array of int
            Places in `rows` at which another value, or another recording, begins.
        start : array
            Since when each of these values is shown.
        """
        rows = np.flatnonzero(~np.isnan(column))
        column = column[rows]
        is_new = np.append(True, column[1:] != column[:-1])[: len(rows)]
        begun = np.flatnonzero(begins)
        # The first row with a value at or after each beginning.
        after = np.searchsorted(rows, begun)
        is_new[after[after < len(rows)]] = True
        firsts = np.flatnonzero(is_new)
        start = time[rows[firsts]]
        shown, since = self.shown[:, k]
        if len(rows) and column[0] == shown and not (after == 0).any():
            start[0] = since
        if len(rows):
            self.shown[:, k] = column[-1], start[-1]
        if (after == len(rows)).any():
            self.shown[:, k] = np.nan
        return rows, firsts, start

    def mark(
        self, time: Floats, values: Floats, codes: Codes, begins: Bools
    ) -> dict[int, Floats]:
        """Write ``FROZEN`` and ``MOVED`` into the codes of watched rows.

        Parameters
        ----------
        time, values, begins : array
            As for `since`.
        codes : array of int8, shape (n_rows, n_tags)
            Changed where a tag is frozen or has moved.

        Returns
        -------
        dict of int to array of shape (n_rows,)
            For each tag that is frozen in some rows: since when it shows its value.
        """
        columns = np.ascontiguousarray(values.T)
        stands: dict[int, Floats] = {}
        for k in np.flatnonzero(np.isfinite(self.longest_s)).tolist():
            limit = STILL_LIMIT * self.longest_s[k]
            rows, firsts, start = self._runs(k, time, columns[k], begins)
            stops = np.append(firsts[1:], len(rows))[: len(firsts)]
            for run in np.flatnonzero(time[rows[stops - 1]] - start > limit).tolist():
                inside = rows[firsts[run] : stops[run]]
                frozen = inside[time[inside] - start[run] > limit]
                codes[frozen, k] = Validity.FROZEN
                stands.setdefault(k, np.full(len(time), np.nan))[frozen] = start[run]
        for k, (value, resolution) in self.constant.items():
            codes[differs(columns[k], value, resolution), k] = Validity.MOVED
        return stands
