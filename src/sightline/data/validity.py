"""Which cells of a record can be used, and which of its rows were watched.

Every cell has one `Validity` code, made once by whatever reads it. A cell that cannot
be used holds nan, and its tag is out of service for that row. A row in which too few
tags can be used, or in which the plant stands still, is not *watched*: it is taken out
of the record, the rows around it are separated by a break, and no hour, rate or promise
counts it. `Unwatched` remembers when and why.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Bools, Floats, Ints
from sightline.data.zones import stamp
from sightline.text import names, plural

Codes = npt.NDArray[np.int8]

# A row is an outage if at least this share of the tags cannot be used,
OUTAGE_SHARE: Final = 0.5
# and not watched if more than this share cannot, for longer than the memory of the
# detector: then all that it expects was told by the others. Without a detector, for
# longer than this.
POOR_SHARE: Final = 0.25
POOR_S: Final = 600.0
# A single tag among others is lost; it never makes an outage.
LEAST_TAGS: Final = 2
# A promise is judged if at least this share of the time was watched.
LEAST_WATCHED: Final = 0.5
# Times not watched that are named.
_MOST_SPANS: Final = 4
# After the mode of a plant has changed, rows this long are left out.
SETTLE_S: Final = 600.0


class Validity(IntEnum):
    """What a cell is worth; codes from ``BAD`` on cannot be used.

    ``GOOD``
        A reading.
    ``HELD``
        No reading; the last one, which is not too old.
    ``FROZEN``
        A reading that has not changed for longer than its tag ever stood still.
    ``MOVED``
        A reading that differs from the only value that its tag ever had.
    ``BAD``
        The source itself says that there is no value.
    ``MISSING``
        No reading, and none to hold.
    ``RANGE``
        Outside the range of the instrument.
    ``UNIT``
        In another unit than the rule was made for.
    ``CLOCK``
        Its time cannot be believed.
    """

    GOOD = 0
    HELD = 1
    FROZEN = 2
    MOVED = 3
    BAD = 4
    MISSING = 5
    RANGE = 6
    UNIT = 7
    CLOCK = 8


# What is said of cells with a code.
CODE_WORDS: Final = {
    Validity.HELD: "without a reading: the last value was held",
    Validity.FROZEN: "of a tag that stands still",
    Validity.MOVED: "of a tag that never moved before",
    Validity.BAD: "of bad quality by the source's own word",
    Validity.MISSING: "without a value, and the last one is too old to be held",
    Validity.RANGE: "outside the range of the instrument (tags.csv)",
    Validity.UNIT: "in another unit",
    Validity.CLOCK: "whose time cannot be believed",
}


# The same in fewer words, where one sentence counts all codes.
READING_WORDS: Final = {
    Validity.HELD: "held",
    Validity.FROZEN: "frozen",
    Validity.MOVED: "moved for the first time",
    Validity.BAD: "bad",
    Validity.MISSING: "missing",
    Validity.RANGE: "out of range",
    Validity.UNIT: "in another unit",
    Validity.CLOCK: "of a time that cannot be believed",
}


class NotWatched(StrEnum):
    """Why rows were not watched."""

    NO_DATA = "no data"
    TOO_FEW = "too few tags"
    STOPPED = "stopped"

    @property
    def code(self) -> int:
        """Its number among the reasons of rows; 0 means watched."""
        return 1 + list(NotWatched).index(self)


@dataclass(frozen=True)
class Unwatched:
    """Time in which a plant was not watched.

    Parameters
    ----------
    start, end : float
        Seconds since 1970; the end is the time of the next watched row, or one step
        after the last row.
    reason : NotWatched
        Why.
    """

    start: float
    end: float
    reason: NotWatched


def watched_words(
    hours: float,
    total: float,
    unwatched: Sequence[Unwatched],
    zone: str | None,
    since: float = -np.inf,
) -> str:
    """Return how many of some hours were watched, and which time was not, in words."""
    told = f"{hours:.1f} of {total:.1f} hours watched"
    longest = sorted(unwatched, key=lambda one: one.start - one.end)
    chosen = sorted(longest[:_MOST_SPANS], key=lambda one: one.start)
    spans = [
        f"{stamp(max(one.start, since), zone)} to {stamp(one.end, zone)} ({one.reason})"
        for one in chosen
    ]
    if not spans:
        return f"{told}."
    more = len(unwatched) - len(chosen)
    rest = f", and {plural(more, 'shorter time')}" if more else ""
    said = f"{told}; not watched: {'; '.join(spans)}{rest}."
    if any(one.reason is NotWatched.TOO_FEW for one in unwatched):
        said += (
            f" Too few tags: more than {POOR_SHARE:.0%} had no usable value for longer "
            "than the memory of the detector."
        )
    return said


@dataclass(frozen=True, kw_only=True)
class Mode:
    """When a plant runs: only then it is learned from and judged.

    Parameters
    ----------
    tag : str
        The tag that says it.
    running : tuple of float
        Its values while the plant runs.
    settle_s : float
        Seconds after a change of the mode that are left out as well.
    """

    tag: str
    running: tuple[float, ...]
    settle_s: float = SETTLE_S


def is_usable(codes: Codes) -> Bools:
    """Return which cells can be used."""
    return np.asarray(codes < Validity.BAD)


def codes_of(values: npt.NDArray[np.floating]) -> Codes:
    """Return the codes of values of which nothing else is known."""
    return np.where(np.isnan(values), Validity.MISSING, Validity.GOOD).astype(np.int8)


def code_counts(
    codes: Codes,
    channels: Sequence[str],
    most: int = 6,
    texts: Mapping[str, int] | None = None,
) -> list[str]:
    """Return in words how many cells have each code but ``GOOD``, by tag.

    `texts` are those in the place of bad values, with their counts.
    """
    found: list[str] = []
    table = code_table(codes)
    for code, words in CODE_WORDS.items():
        counts = table[code]
        if counts.any():
            order = np.argsort(-counts, kind="stable")
            by_tag = [f"{channels[k]} ({counts[k]:,})" for k in order if counts[k]]
            total = int(counts.sum())
            cells = f"{total:,} {'cell' if total == 1 else 'cells'}"
            said = [f"{text!r:.40} {n:,}" for text, n in (texts or {}).items()]
            if code is Validity.BAD and said:
                words += f" ({names(said, most)})"
            found.append(f"{cells} {words}: {names(by_tag, most)}.")
    return found


def code_table(codes: Codes) -> Ints:
    """Return how many cells have each code: an array of shape (codes, channels)."""
    n_codes, (n_rows, n_channels) = len(Validity), codes.shape
    # All cells are counted in one pass, most often over nothing but good ones.
    odd = np.flatnonzero(codes)
    place = codes.ravel()[odd].astype(np.int64) * n_channels + odd % n_channels
    table = np.bincount(place, minlength=n_codes * n_channels).reshape(n_codes, -1)
    table[Validity.GOOD] = n_rows - table[1:].sum(axis=0)
    return table


def reading_words(
    table: Ints, channels: Sequence[str], texts: Sequence[str] = (), most: int = 3
) -> str:
    """Return what the readings of some rows were worth as one sentence.

    Parameters
    ----------
    table : array of int, shape (codes, channels)
        See `code_table`.
    channels : sequence of str
        The columns.
    texts : sequence of str
        What stood in the place of bad ones.
    most : int
        Tags and texts of each code that are named.

    Returns
    -------
    str
        Empty if all are good.

    Examples
    --------
    >>> table = code_table(np.array([[0, 4], [1, 4], [0, 0]], np.int8))
    >>> print(reading_words(table, ["pH", "Redox"], ["#Ausfall"]))
    Of 6 readings 1 was held and 2 were bad (Redox; '#Ausfall').
    """
    said = []
    for code, words in READING_WORDS.items():
        count = int(table[code].sum())
        if not count:
            continue
        order = np.argsort(-table[code], kind="stable")
        tags = names([channels[k] for k in order if table[code, k]], most)
        if code is Validity.BAD and texts:
            tags += f"; {names(texts, most, quoted=True)}"
        of = "" if code is Validity.HELD else f" ({tags})"
        said.append(f"{count:,} {'was' if count == 1 else 'were'} {words}{of}")
    return f"Of {int(table.sum()):,} readings {names(said)}." if said else ""


# --- Holding --------------------------------------------------------------------------


@dataclass(kw_only=True, eq=False)
class LastKnown:
    """The last reading of each tag, to be held in the rows that follow.

    Parameters
    ----------
    values, time : array of shape (n_channels,)
        The last good reading and its time; nan and minus infinity before the first.
    codes : array of int8, shape (n_channels,)
        ``GOOD``, or the code of a cell since then that ended it.
    """

    values: Floats
    time: Floats
    codes: Codes

    @classmethod
    def nothing(cls, n_channels: int) -> "LastKnown":
        """Return what is known before the first row."""
        return cls(
            values=np.full(n_channels, np.nan),
            time=np.full(n_channels, -np.inf),
            codes=np.zeros(n_channels, np.int8),
        )


def hold(
    values: Floats,
    codes: Codes,
    time: Floats,
    hold_s: float | Floats,
    last: LastKnown | None = None,
) -> tuple[Floats, Codes]:
    """Hold the last good reading in cells without one, and return values and codes.

    A cell after one that the source called bad, or that was out of range, is never
    held: it has that cell's code. Nothing is taken from later rows, so that rows in
    pieces give the same as rows at once.

    Parameters
    ----------
    values : array of shape (n_rows, n_channels)
        Cells that are not good are ignored.
    codes : array of int8, shape (n_rows, n_channels)
        Every cell that is neither good nor missing ends what is held.
    time : array of shape (n_rows,)
        Seconds of each row.
    hold_s : float or array of shape (n_channels,)
        The largest age of a reading that is held.
    last : LastKnown, optional
        What was known before; moves on.

    Returns
    -------
    values, codes : array of shape (n_rows, n_channels)
        nan where a cell cannot be used.

    Examples
    --------
    >>> values = np.array([[1.0], [np.nan], [np.nan], [2.0]])
    >>> hold(values, codes_of(values), np.arange(4.0), 1.0)[1].ravel().tolist()
    [0, 1, 5, 0]
    """
    last = LastKnown.nothing(values.shape[1]) if last is None else last
    holds = np.broadcast_to(np.asarray(hold_s, np.float64), values.shape[1])
    if (codes == Validity.GOOD).all():
        if len(values):
            last.values, last.codes = values[-1].copy(), np.zeros_like(last.codes)
            last.time = np.full(len(last.time), time[-1])
        return values, codes
    values, codes = np.where(codes == Validity.GOOD, values, np.nan), codes.copy()
    rows = np.arange(len(values))
    for k in range(values.shape[1]):
        column, code = values[:, k], codes[:, k]
        good = np.maximum.accumulate(np.where(code == Validity.GOOD, rows, -1))
        ends = (code != Validity.GOOD) & (code != Validity.MISSING)
        ended = np.maximum.accumulate(np.where(ends, rows, -1))
        at = np.where(good >= 0, time[good], last.time[k])
        known = np.where(good >= 0, column[good], last.values[k])
        by = np.where(
            ended > good, code[ended], np.where(good < 0, last.codes[k], Validity.GOOD)
        )
        if len(rows):
            last.values[k], last.time[k], last.codes[k] = known[-1], at[-1], by[-1]
        is_gap = code == Validity.MISSING
        is_ended = is_gap & (by != Validity.GOOD)
        is_held = is_gap & ~is_ended & (time - at <= holds[k] + 1e-6)
        column[is_held], code[is_held] = known[is_held], Validity.HELD
        code[is_ended] = by[is_ended]
    return values, codes


# --- Watched rows ---------------------------------------------------------------------


@dataclass(kw_only=True, eq=False)
class Gate:
    """Decides row by row what was watched; the same in pieces as at once.

    Parameters
    ----------
    step_s : float
        Seconds a row.
    poor_s : float
        For how long more than a quarter of the tags may be away.
    mode : (int, Mode), optional
        The channel that says whether the plant runs, and when it does.
    state : array of shape (3,)
        Rows for which too many tags could not be used, the last value of the mode (nan
        before the first), and the rows since it changed.
    """

    step_s: float
    poor_s: float = POOR_S
    mode: tuple[int, Mode] | None = None
    state: Floats = field(default_factory=lambda: np.array([0.0, np.nan, np.inf]))

    def reasons(
        self, values: Floats, codes: Codes, begins: Bools | None = None
    ) -> Codes:
        """Return for each row why it was not watched, as `NotWatched.code`; else 0.

        Parameters
        ----------
        values, codes : array of shape (n_rows, n_channels)
            Of the rows, in order of time.
        begins : array of bool, shape (n_rows,), optional
            Rows before which others are missing: there a detector forgets.

        Examples
        --------
        >>> codes = np.array([[0, 0], [5, 5], [0, 5]], np.int8)
        >>> Gate(step_s=60.0).reasons(np.zeros((3, 2)), codes).tolist()
        [0, 1, 0]
        """
        found = np.zeros(len(codes), np.int8)
        if self.mode is None and codes.max(initial=0) < Validity.BAD:
            self.state[0] *= not len(codes)
            return found
        n_tags = codes.shape[1]
        n_lost = (~is_usable(codes)).sum(axis=1)
        is_several = n_lost >= min(LEAST_TAGS, n_tags)
        is_poor = is_several & (n_lost > POOR_SHARE * n_tags)
        poor = _run_lengths(is_poor, self.state[0], begins)
        if len(poor):
            self.state[0] = poor[-1]
        if self.mode is not None and len(codes):
            found[~self._runs(values)] = NotWatched.STOPPED.code
        found[poor * self.step_s > self.poor_s + 1e-6] = NotWatched.TOO_FEW.code
        found[is_several & (n_lost >= OUTAGE_SHARE * n_tags)] = NotWatched.NO_DATA.code
        return found

    def _runs(self, values: Floats) -> Bools:
        """Return the rows in which the plant runs and has settled."""
        channel, mode = self.mode or (0, Mode(tag="", running=()))
        value = values[:, channel]
        known = np.append(self.state[1], value)
        # A mode that is not known is the last one.
        place = np.maximum.accumulate(
            np.where(np.isnan(known), 0, np.arange(len(known)))
        )
        known = known[place]
        changed = (np.diff(known) != 0) & ~np.isnan(known[:-1])
        since = _run_lengths(~changed, self.state[2])
        self.state[1:] = known[-1], since[-1]
        is_running = np.isin(known[1:], mode.running)
        return is_running & (since * self.step_s >= mode.settle_s)


def _run_lengths(flags: Bools, before: float, begins: Bools | None = None) -> Floats:
    """Return how many rows in a row a flag has been set, with those before."""
    rows = np.arange(1.0, len(flags) + 1)
    since = -before if begins is None else np.where(begins, rows - 1, -before)
    cleared = np.maximum.accumulate(np.where(flags, since, rows))
    return np.where(flags, rows - cleared, 0.0)


def spans(time: Floats, reasons: Codes, step_s: float) -> tuple[Unwatched, ...]:
    """Return the time that was not watched, neighbouring rows of a reason together."""
    if not reasons.any():
        return ()
    is_new = np.ones(len(time), np.bool_)
    is_new[1:] = (reasons[1:] != reasons[:-1]) | (np.diff(time) > 1.5 * step_s)
    firsts = np.flatnonzero(is_new)
    why = list(NotWatched)
    return tuple(
        Unwatched(float(time[a]), float(time[b - 1]) + step_s, why[reasons[a] - 1])
        for a, b in zip(firsts, np.append(firsts[1:], len(time)), strict=True)
        if reasons[a]
    )


def with_gaps(
    runs: Floats, unwatched: Sequence[Unwatched], step_s: float, since: float = -np.inf
) -> tuple[Unwatched, ...]:
    """Return the time not watched with the gaps between runs of rows, in order.

    Parameters
    ----------
    runs : array of shape (n, 2)
        Time of the first and the last row of each run.
    unwatched : sequence of Unwatched
        Time that has rows.
    step_s : float
        Seconds per row.
    since : float
        Gaps that end before it do not count.

    Examples
    --------
    >>> runs = np.array([[0.0, 60.0], [600.0, 900.0]])
    >>> [(one.start, one.end) for one in with_gaps(runs, (), 60.0)]
    [(120.0, 600.0)]
    """
    gaps = [
        Unwatched(end + step_s, start, NotWatched.NO_DATA)
        for (_, end), (start, _) in pairwise(runs.tolist())
        if start > since
    ]
    every = sorted([*gaps, *unwatched], key=lambda one: one.start)
    return tuple(_joined(every, step_s))


def _joined(times: Sequence[Unwatched], step_s: float) -> Iterator[Unwatched]:
    """Yield spans in order, those that touch and have one reason as one."""
    last: Unwatched | None = None
    for span in times:
        if last is not None and (
            span.reason is last.reason and span.start <= last.end + 0.5 * step_s
        ):
            last = replace(last, end=max(last.end, span.end))
            continue
        if last is not None:
            yield last
        last = span
    if last is not None:
        yield last


def breaks_after(is_kept: Bools, breaks: Ints) -> Ints:
    """Return the breaks of the rows that are kept: also where rows were taken out."""
    after = np.flatnonzero(is_kept[1:] & ~is_kept[:-1]) + 1
    begins = np.union1d(np.append(0, breaks), after)
    places = np.append(0, np.cumsum(is_kept))[begins]
    return np.unique(places[places < int(is_kept.sum())]).astype(np.int64)
