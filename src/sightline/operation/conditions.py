"""What the codes of cells say of tags, of time stamps and of the data as a whole.

A `Happening` is made where something begins or ends; that it began already is no
concern of this module: the alarms know what runs. What is remembered from file to file
is for how long each tag has had no reading, and the last row with data.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Bools, Floats, Ints
from sightline.data.validity import NotWatched, Validity
from sightline.operation.alarms import PLANT, AlarmKind, Event, Happening
from sightline.operation.telemetry import WatchedRows
from sightline.tables.cells import MISSING
from sightline.text import legible

# A tag without a usable value for so long is lost.
LOST_S: Final = 3600.0
# One that has had none since the watch began may be written seldom: it is lost after
# the longest time for which its readings are held, but not later than after this.
LATEST_S: Final = 86_400.0
# No data for so long, or for three rows where they are further apart.
NO_DATA_S: Final = 3600.0
# Letters of a text that are remembered.
_LETTERS: Final = 40
_TOO_FEW: Final = "too few tags: more than a quarter has no usable value"
_STEPS: Final = 3
# Kinds that one code says by itself.
_BY_CODE: Final = {
    AlarmKind.FROZEN: Validity.FROZEN,
    AlarmKind.MOVED: Validity.MOVED,
    AlarmKind.UNIT: Validity.UNIT,
}


class PlantConditions:
    """Follows codes from file to file; the same in pieces as at once.

    Parameters
    ----------
    channels : sequence of str
        Of the rows.
    step_s : float
        Seconds a row.
    saved : mapping of str to array, optional
        What `arrays` gave.
    holds : float or array of shape (n_channels,)
        For how long readings of each are held.
    """

    def __init__(
        self,
        channels: Sequence[str],
        step_s: float,
        saved: Mapping[str, npt.NDArray[Any]] | None = None,
        holds: float | Floats = 0.0,
    ) -> None:
        self.channels, self.step_s = tuple(channels), step_s
        self.holds = np.broadcast_to(np.clip(holds, LOST_S, LATEST_S), len(channels))
        # Whether each tag has had a value.
        self.seen = np.zeros(len(self.channels), np.bool_)
        # Rows in a row without a reading of each tag, and the time of the first.
        self.without = np.zeros((2, len(self.channels)))
        # Time of the last row with data; nan before the first row.
        self.last = np.full(1, np.nan)
        # Of each tag, the last text that was no value, and its time.
        self.word = np.zeros(len(self.channels), f"<U{_LETTERS}")
        self.word_time = np.full(len(self.channels), -np.inf)
        if saved is not None:
            self.word = saved.get("word", self.word).copy()
            self.word_time = saved.get("word_time", self.word_time).copy()
            self.without, self.last = saved["without"].copy(), saved["last"].copy()
            self.seen = saved.get("seen", ~self.seen).copy()

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return all that it remembers."""
        own = {"without": self.without, "last": self.last, "seen": self.seen}
        own |= {"word": self.word, "word_time": self.word_time}
        return {name: array.copy() for name, array in own.items()}

    def take(
        self, read: WatchedRows, words: Mapping[str, tuple[Floats, Any]] | None = None
    ) -> list[Happening]:
        """Return what begins and ends in some more rows.

        Parameters
        ----------
        read : WatchedRows
            The rows.
        words : mapping of str to (array, polars series), optional
            By tag, times and texts of cells that are no value.
        """
        time, codes = read.read_time, read.codes
        if not len(time):
            return []
        reasons: dict[NotWatched, Bools] = {
            why: np.zeros(len(time), np.bool_) for why in NotWatched
        }
        for span in read.unwatched:
            reasons[span.reason] |= (time >= span.start) & (time < span.end)
        outage = reasons[NotWatched.NO_DATA]
        too_few = reasons[NotWatched.TOO_FEW]
        found = self._no_data(time, outage | too_few, too_few)
        is_clock = (codes == Validity.CLOCK).any(axis=1)
        found += _switches(AlarmKind.CLOCK, PLANT, time, is_clock, ~is_clock)
        is_usable = codes < Validity.BAD
        for kind, code in _BY_CODE.items():
            has_code = codes == code
            ends = is_usable & ~has_code
            for k, name in enumerate(self.channels):
                since = read.stands_since.get(k) if kind is AlarmKind.FROZEN else None
                found += _switches(kind, name, time, has_code[:, k], ends[:, k], since)
        return found + self._lost(time[~outage], codes[~outage], words or {})

    def _no_data(self, time: Floats, no_data: Bools, too_few: Bools) -> list[Happening]:
        """Return where there is no data for too long, and where data return."""
        longest = max(NO_DATA_S, _STEPS * self.step_s)
        before = self.last if np.isfinite(self.last[0]) else time[:1] - self.step_s
        good = np.concatenate([before, time[~no_data]])
        self.last = good[-1:].copy()
        begins = good + self.step_s
        # Data that return just in time are none too late.
        until = np.append(good[1:] - self.step_s, time[-1])
        found = []
        for k in np.flatnonzero(until - begins >= longest).tolist():
            start = float(begins[k])
            at = int(np.searchsorted(time, start + longest - 1e-6))
            found.append(
                Happening(
                    event=Event.STARTED,
                    kind=AlarmKind.NO_DATA,
                    source=PLANT,
                    time=start + longest,
                    start=start,
                    cause=_TOO_FEW if too_few[at : at + 1].any() else "",
                )
            )
            if k + 1 < len(good):
                found.append(_ended(AlarmKind.NO_DATA, PLANT, float(good[k + 1])))
        # One that runs since an earlier file ends with the first row.
        if len(good) > 1:
            # The clock raised it, and then the rows came all the same.
            why = "" if good[1] - begins[0] >= longest else "files that came late"
            found.append(_ended(AlarmKind.NO_DATA, PLANT, float(good[1]), why))
        return found

    def _lost(
        self,
        time: Floats,
        codes: npt.NDArray[np.int8],
        words: Mapping[str, tuple[Floats, Any]],
    ) -> list[Happening]:
        """Return which tags are lost and come back, outages left out."""
        n_rows, found = len(time), []
        has_none = (codes >= Validity.BAD) & (codes != Validity.UNIT)
        has_none &= codes != Validity.CLOCK
        is_without = has_none | (codes == Validity.HELD)
        moves = is_without.any(axis=0) | (self.without[0] > 0)
        for k in np.flatnonzero(moves).tolist() if n_rows else ():
            count, start = self._rows_without(is_without[:, k], time, k)
            was_seen = self.seen[k] | np.logical_or.accumulate(~is_without[:, k])
            longest = np.where(was_seen, LOST_S, self.holds[k])
            is_lost = has_none[:, k] & (count * self.step_s >= longest)
            switches = _switches(
                AlarmKind.LOST,
                self.channels[k],
                time,
                is_lost,
                ~is_without[:, k],
                start,
            )
            found += [
                self._with_word(one, k, words.get(self.channels[k])) for one in switches
            ]
        self.seen |= (~is_without).any(axis=0)
        for k, tag in enumerate(self.channels):
            at, texts = words.get(tag, (self.word_time[k : k + 1], None))
            if texts is not None and at.max() >= self.word_time[k]:
                self.word[k] = texts[int(np.argmax(at))][:_LETTERS]
                self.word_time[k] = at.max()
        return found

    def _with_word(
        self, one: Happening, k: int, words: tuple[Floats, Any] | None
    ) -> Happening:
        """Return that a tag is lost with the last text that stood in its place."""
        at, word = self.word_time[k], self.word[k]
        if words is not None:
            inside = np.where(words[0] <= one.time + 1e-6, words[0], -np.inf)
            place = int(np.argmax(inside))
            if inside[place] > at:
                at, word = inside[place], words[1][place]
        # In a long table a text lies up to a row before its row.
        if one.start is None or at <= one.start - self.step_s:
            return one
        return replace(one, cause=word_cause(str(word)))

    def _rows_without(self, flags: Bools, time: Floats, k: int) -> tuple[Ints, Floats]:
        """Return for how many rows a tag has had no reading, and since when."""
        rows = np.arange(len(flags))
        last = np.maximum.accumulate(np.where(flags, -1, rows))
        count = rows - last
        n_before, start_before = self.without[:, k]
        starts = np.append(time, time[-1:])[np.minimum(last + 1, len(flags))]
        if n_before:
            count = np.where(last < 0, count + int(n_before), count)
            starts = np.where(last < 0, start_before, starts)
        self.without[:, k] = count[-1], starts[-1] if count[-1] else 0.0
        return count, starts


def word_cause(word: str) -> str:
    """Return what it means that a text stands in the place of a value.

    Examples
    --------
    >>> word_cause("#Ausfall")
    "the export says '#Ausfall'"
    >>> word_cause("Wartung")
    "the export says 'Wartung', which is no number and no state that the rule knows: if
    it is a state, commission again with rows that have it"
    """
    said = f"the export says {legible(word[:_LETTERS])!r}"
    if word.lower() in MISSING:
        return said
    return (
        f"{said}, which is no number and no state that the rule knows: if it is a "
        "state, commission again with rows that have it"
    )


def _ended(kind: AlarmKind, source: str, time: float, why: str = "") -> Happening:
    return Happening(event=Event.ENDED, kind=kind, source=source, time=time, why=why)


def _switches(
    kind: AlarmKind,
    source: str,
    time: Floats,
    begins: Bools,
    ends: Bools,
    starts: Floats | None = None,
) -> list[Happening]:
    """Return where something begins and ends; rows in which neither go on as before."""
    state = np.where(begins, 1, np.where(ends, 0, -1))
    rows = np.flatnonzero(state >= 0)
    changed = np.diff(state[rows], prepend=-1) != 0
    found = []
    for row in rows[changed].tolist():
        if not state[row]:
            found.append(_ended(kind, source, float(time[row])))
            continue
        start = None if starts is None else float(starts[row])
        found.append(
            Happening(
                event=Event.STARTED,
                kind=kind,
                source=source,
                time=float(time[row]),
                start=start,
            )
        )
    return found
