"""The test of one event: a score does in an attack what it does not do in calm time.

*Calm* rows are labelled normal and are not the aftermath of an attack. An attack is
compared with calm windows of its length whose surroundings are in a similar state.

A score ``s`` (more is more anomalous) is brought to ``u = (s - calm median) / (limit -
calm median)``, so that 1 is the limit. Three statistics describe a stretch of rows:

coverage
    Share of its rows above the limit, in [0, 1].
peak
    Logarithm of the mean of the three largest ``u``.
onset
    The same of its first `ONSET_ROWS` rows, for stretches of more than `LEAST_ONSET`
    rows: a forecaster sounds at the onset and then adapts.

For each, ``t = (own - calm median) / max(calm 95th percentile - calm median, floor)``,
and ``T`` is the largest ``t``. With n calm windows ``p = (1 + windows whose T is at
least as large) / (1 + n)``: the best of three pays for being the best.

All functions work on many cases at once: the first axis counts the cases (the attack
itself, its redrawn versions, or each calm window in the attack's place).
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Final

import numpy as np

from sightline.data.arrays import Bools, Floats, Ints
from sightline.data.segments import (
    Segment,
    covered_rows,
    evenly_chosen,
    segments_of,
)

# A judgement needs this many calm windows, of at least this many rows.
LEAST_WINDOWS: Final = 40
LEAST_ROWS: Final = 20
# At most this many evenly spaced windows are scored, of at most this many rows.
MOST_WINDOWS: Final = 60
MOST_ROWS: Final = 4096
# The state of a stretch: mean log energy of this many calm rows on either side,
STATE_ROWS: Final = 300
# or of the other side alone where one has fewer than this.
LEAST_STATE_ROWS: Final = 100
# Two states within this distance are alike.
LIKE: Final = 0.35
# Whether windows are shortened, to this share of the attack, until enough are alike.
IS_SHORTENED_TO_MATCH = True
SHORTEST: Final = 8
# Fewer windows that do not overlap than this are few.
FEW_DISJOINT: Final = 19
# An attack is shown at this level,
LEVEL: Final = 0.05
# and only with a minimum effect: coverage above the calm median,
EFFECT: Final = 0.30
# peak or onset at this multiple of the limit and of what one calm window in 20 reaches,
PEAK_EFFECT: Final = 2.0
# coverage of the first rows, where there are alarms and no score.
ONSET_EFFECT: Final = 0.5
ONSET_ROWS: Final = 10
LEAST_ONSET: Final = 20
RARE: Final = 0.95
# Far outside: this many times the limit and what one window in 20 reaches,
FAR: Final = 5.0
# where this share of the windows, or one, does the same: episodes nothing explains.
EPISODES: Final = 0.05
# Share of calm rows above a limit that is set on calm rows.
BUDGET: Final = 0.01
_FLOORS: Final = np.array([0.10, 0.5, 0.5])
_ALARM_FLOORS: Final = np.array([0.10, 1.0, 0.10])
# Logarithm of a u that is not above the calm median.
_NOTHING: Final = -7.0


# --- Windows to compare with ----------------------------------------------------------


class Flag(StrEnum):
    """What limits the comparison of an attack with calm time.

    ``UNMATCHED``
        Too few windows in a similar state: the nearest in state were taken.
    ``SHORTENED``
        The windows are shorter than the attack.
    ``STATE_CHANGED``
        The state after the attack differs from the state before it, so that a change of
        normal operation cannot be told from the attack.
    ``FEW_WINDOWS``
        Fewer than 19 of the windows do not overlap.
    """

    UNMATCHED = "unmatched"
    SHORTENED = "shortened"
    STATE_CHANGED = "state-changed"
    FEW_WINDOWS = "few-windows"


@dataclass(frozen=True, kw_only=True)
class WindowFacts:
    """With which calm windows an attack was compared.

    Parameters
    ----------
    count : int
        Windows that were scored.
    length : int
        Rows of each.
    matched : int
        Windows in a similar state, of which `count` were scored.
    disjoint : int
        How many of the matched windows do not overlap.
    margin : int
        Rows before the label that were looked at too, of the attack and of the windows.
    """

    count: int
    length: int
    matched: int
    disjoint: int
    margin: int = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class AttackFreeWindows:
    """Calm windows [start, start + length) to compare one attack with.

    Parameters
    ----------
    length : int
        Rows of each window.
    starts : array of int
        First row of each window that is scored, sorted.
    matched : array of int
        First row of every window in a similar state, sorted.
    disjoint : int
        How many of the matched windows do not overlap.
    flags : tuple of Flag
        What limits the comparison.
    margins : tuple of int
        Attack-free rows before and after each window, as many as those of the attack
        that may be part of it.
    label_margins : tuple of int
        Those of the attack, before they were halved.
    """

    length: int
    starts: Ints
    matched: Ints
    disjoint: int
    flags: tuple[Flag, ...] = ()
    margins: tuple[int, int] = (0, 0)
    label_margins: tuple[int, int] = (0, 0)

    @property
    def segments(self) -> list[Segment]:
        """The rows of each window that is scored."""
        return [Segment(s, s + self.length) for s in self.starts.tolist()]

    def rows(self, n_rows: int) -> Bools:
        """Return which of `n_rows` rows lie in a matched window."""
        return covered_rows(self.matched, self.matched + self.length, n_rows)


@dataclass(frozen=True, kw_only=True, eq=False)
class AttackFreeRecord:
    """The calm rows of a test record, with their energy.

    Parameters
    ----------
    is_attack_free : array of bool, shape (n_rows,)
        Rows labelled normal that are not the aftermath of an attack.
    log_energy : array of shape (n_rows,)
        Logarithm of the energy of each row.
    breaks : array of int
        Rows at which a new recording begins.
    """

    is_attack_free: Bools
    log_energy: Floats
    breaks: Ints

    def __getstate__(self) -> dict[str, object]:
        """Return what is sent to a worker: not what it finds itself."""
        fields = ("is_attack_free", "log_energy", "breaks")
        return {name: vars(self)[name] for name in fields}

    @cached_property
    def rows(self) -> Ints:
        """The numbers of the calm rows."""
        return np.flatnonzero(self.is_attack_free)

    @cached_property
    def _sums(self) -> Floats:
        """Sum of the log energy of the calm rows before each, and of all."""
        return np.concatenate([[0.0], np.cumsum(self.log_energy[self.rows])])

    @cached_property
    def _stretches(self) -> list[Segment]:
        return segments_of(self.is_attack_free, self.breaks)

    def _starts(self, length: int, margins: tuple[int, int]) -> Ints:
        """Return where windows begin that have attack-free margins on either side."""
        before, after = margins
        step, around = max(1, length // 4), before + length + after
        found = [
            np.arange(s.start, s.stop - around + 1, step) + before
            for s in self._stretches
            if s.length >= around
        ]
        return np.concatenate([np.zeros(0, np.int64), *found])

    def windows_for(
        self, segment: Segment, margins: tuple[int, int] = (0, 0)
    ) -> AttackFreeWindows | None:
        """Return the calm windows to compare an attack with.

        Windows begin every quarter of their length, with attack-free margins. Where
        there are fewer than `LEAST_WINDOWS` of the attack's length, first the margins
        are halved, then the length. A window matches if its state before and its state
        after are each within `LIKE` of one of the attack's two; where too few do,
        shorter ones are looked for, down to an eighth of the attack.

        Parameters
        ----------
        segment : Segment
            Rows of the attack.
        margins : tuple of int
            Rows before and after it that may be part of it.

        Returns
        -------
        AttackFreeWindows or None
            None where there are too few windows of `LEAST_ROWS` rows as well.
        """
        length, given = min(segment.length, MOST_ROWS), margins
        while len(starts := self._starts(length, margins)) < LEAST_WINDOWS:
            half = margins[0] // 2, margins[1] // 2
            if len(starts := self._starts(length, half)) >= LEAST_WINDOWS:
                margins = half
                break
            if length > LEAST_ROWS:
                length = max(length // 2, LEAST_ROWS)
                margins = min(margins[0], length // 2), min(margins[1], length // 2)
            elif any(margins):
                margins = 0, 0
            else:
                return None
        (before,), (after,) = self.state(
            np.array([segment.start]), np.array([segment.stop])
        )

        def distances(starts: Ints, length: int) -> Floats:
            far = np.zeros(len(starts))
            # As far from a window as attack-free rows are from the attack.
            begins, ends = starts - given[0], starts + length + given[1]
            for state in self.state(begins, ends):
                to_nearer = np.minimum(np.abs(state - before), np.abs(state - after))
                far = np.maximum(far, np.nan_to_num(to_nearer, nan=0.0))
            return far

        distance = distances(starts, length)
        shorter, least = length, max(LEAST_ROWS, segment.length // SHORTEST)
        while IS_SHORTENED_TO_MATCH and shorter > least:
            if np.count_nonzero(distance <= LIKE) >= LEAST_WINDOWS:
                break
            shorter = max(shorter // 2, LEAST_ROWS)
            less = min(margins[0], shorter // 2), min(margins[1], shorter // 2)
            nearer = distances(others := self._starts(shorter, less), shorter)
            if np.count_nonzero(nearer <= LIKE) >= LEAST_WINDOWS:
                starts, length, margins, distance = others, shorter, less, nearer
        flags = [Flag.SHORTENED] if length < segment.length else []
        order = np.flatnonzero(distance <= LIKE)
        if len(order) < LEAST_WINDOWS:
            flags.append(Flag.UNMATCHED)
            order = np.sort(np.argsort(distance, kind="stable")[:LEAST_WINDOWS])
        if abs(before - after) > LIKE:
            flags.append(Flag.STATE_CHANGED)
        matched = starts[order]
        # For each window the next one that begins after its end.
        following = np.searchsorted(matched, matched + length).tolist()
        disjoint = k = 0
        while k < len(following):
            disjoint, k = disjoint + 1, following[k]
        if disjoint < FEW_DISJOINT:
            flags.append(Flag.FEW_WINDOWS)
        return AttackFreeWindows(
            length=length,
            starts=evenly_chosen(matched, MOST_WINDOWS),
            matched=matched,
            disjoint=disjoint,
            flags=tuple(flags),
            margins=margins,
            label_margins=given,
        )

    def state(self, starts: Ints, stops: Ints) -> tuple[Floats, Floats]:
        """Return the state before and after each stretch [start, stop).

        The mean log energy of the `STATE_ROWS` calm rows on that side. Where a side
        has fewer than `LEAST_STATE_ROWS`, that of the other side; nan where both have.
        """
        first = np.searchsorted(self.rows, starts)
        last = np.searchsorted(self.rows, stops)
        low = np.maximum(first - STATE_ROWS, 0)
        high = np.minimum(last + STATE_ROWS, len(self.rows))
        before, after = (
            np.where(
                stop - start >= LEAST_STATE_ROWS,
                (self._sums[stop] - self._sums[start]) / np.maximum(stop - start, 1),
                np.nan,
            )
            for start, stop in ((low, first), (last, high))
        )
        return (
            np.where(np.isnan(before), after, before),
            np.where(np.isnan(after), before, after),
        )


# --- The test -------------------------------------------------------------------------


class Way(StrEnum):
    """By which statistic an attack stands out."""

    COVERAGE = "coverage"
    PEAK = "peak"
    ONSET = "onset"


WAYS: Final = tuple(Way)


@dataclass(frozen=True, kw_only=True, eq=False)
class Scores:
    """One score of an attack and of its calm windows, and the limit.

    Parameters
    ----------
    own : array of shape (n_rows,)
        Score of each row of the attack.
    calm : array of shape (n_windows, length)
        Score of each row of each calm window.
    pool : array, optional
        Calm rows that set median and limit, sorted; by default those of `calm`.
    limit : float, optional
        The rule's own limit; by default the one that `BUDGET` of the pool exceeds.
    is_alarm : bool
        Whether the score is 1 in alarm and 0 else, so that only coverage and the
        coverage of the first rows have a meaning.
    name : str
        What was used, for the result.
    channels : tuple of str
        The channels that lead; empty if it is the energy, or all channels alike.
    before : pair of array, optional
        Score of the rows before the label that may be part of the attack, shape
        (n_margin,), and of as many before each window, shape (n_windows, n_margin).
    """

    own: Floats
    calm: Floats
    pool: Floats | None = None
    limit: float | None = None
    is_alarm: bool = False
    name: str = ""
    channels: tuple[str, ...] = ()
    before: tuple[Floats, Floats] | None = None

    @cached_property
    def in_units(self) -> tuple[Floats, Floats]:
        """``u`` of the attack's rows and of the calm rows; 1 is the limit."""
        return self._scaled(self.own, self.calm)

    @cached_property
    def before_in_units(self) -> tuple[Floats, Floats]:
        """The same of the rows before the label, and before each window."""
        if self.before is None:
            return np.zeros(0), np.zeros((len(self.calm), 0))
        return self._scaled(*self.before)

    @cached_property
    def _median_and_limit(self) -> tuple[float, float]:
        pool = np.sort(self.calm, axis=None) if self.pool is None else self.pool
        if self.limit is not None:
            return float(middle_of(pool)), self.limit
        median, limit = (quantile_of(pool, share) for share in (0.5, 1 - BUDGET))
        return float(median), float(limit)

    def _scaled(self, own: Floats, calm: Floats) -> tuple[Floats, Floats]:
        if self.is_alarm:
            return 2.0 * own, 2.0 * calm
        median, limit = self._median_and_limit
        if limit <= median:
            # The rule stands: a row is above its limit or not, and has no multiple.
            above = (own > limit, calm > limit)
            return 2 * above[0].astype(np.float64), 2 * above[1].astype(np.float64)
        unit = limit - median
        return (own - median) / unit, (calm - median) / unit

    def without_calm(self) -> "Scores":
        """Return the same without the calm rows, which need much memory."""
        own, calm = self.in_units
        # A part of an array would hold all of it in memory.
        none = np.empty((0, calm.shape[1]))
        bare = replace(self, calm=none, pool=None, before=None)
        bare.__dict__["in_units"] = own, none
        bare.__dict__["before_in_units"] = self.before_in_units[0], none[:, :0]
        return bare


def statistics(
    u: Floats, length: int, *, is_alarm: bool = False, draws: Ints | None = None
) -> Floats:
    """Return coverage, peak and onset of stretches.

    Parameters
    ----------
    u : array of shape (n_stretches, n_rows)
        Score in units of its limit.
    length : int
        Peak looks at this many rows from the first on: as many as a calm window has.
    is_alarm : bool
        Whether the score is that of an alarm: then peak is 0, and onset the coverage of
        the first rows.
    draws : array of int, shape (n_draws, n_rows), optional
        Redrawn rows of the one stretch in `u`: each draw is described in its place.

    Returns
    -------
    array of shape (n_stretches, 3)
        In the order of `WAYS`.
    """
    from sightline._kernels.rows import describe_draws

    rows = np.arange(u.shape[1])[None] if draws is None else draws
    found = np.empty((len(u) * len(rows), len(WAYS)))
    # A mean of huge values may overflow; its logarithm need not be more than 1e300's.
    describe_draws(u, rows, length, found)
    # An attack has an onset only if its calm windows are long enough to have one.
    has_onset = min(u.shape[1], length) > LEAST_ONSET
    if is_alarm:
        first = np.mean(u[:, rows[:, :ONSET_ROWS]] > 1, axis=2).ravel()
        found[:, 1], found[:, 2] = 0.0, first if has_onset else 0.0
        return found
    found[:, 1] = _log_of(found[:, 1])
    found[:, 2] = _NOTHING
    if has_onset:
        first = np.empty((len(found), 2))
        describe_draws(u, np.ascontiguousarray(rows[:, :ONSET_ROWS]), ONSET_ROWS, first)
        found[:, 2] = _log_of(first[:, 1])
    return found


def with_margin(
    found: Floats, u: Floats, before: Floats, length: int, *, is_alarm: bool = False
) -> Floats:
    """Return statistics that look at the rows before the label too.

    Peak: the larger of that of the stretch and that of the rows before it. Onset: the
    rows before, and the first `ONSET_ROWS` or as many as there are before; of alarms
    the best run of `ONSET_ROWS` rows there. Rows after the end do not count: the jump
    back is no alarm in time.

    Parameters
    ----------
    found : array of shape (n_stretches, 3)
        `statistics` of the stretches alone.
    u, before : array of shape (n_stretches, n_rows), (n_stretches, n_margin)
        Score in units of its limit, of the stretches and of the rows before them.
    length : int
        Rows of a calm window.
    is_alarm : bool
        Whether the score is that of an alarm.
    """
    n_margin = before.shape[1]
    if not n_margin:
        return found
    found = found.copy()
    first = np.concatenate([before, u[:, : max(ONSET_ROWS, n_margin)]], axis=1)
    has_onset = min(u.shape[1], length) > LEAST_ONSET
    if is_alarm:
        if has_onset:
            runs = np.lib.stride_tricks.sliding_window_view(first > 1, ONSET_ROWS, 1)
            found[:, 2] = runs.mean(axis=2).max(axis=1)
        return found
    if n_margin >= 3:
        found[:, 1] = np.maximum(found[:, 1], _log_of(largest_three(before)))
    if has_onset:
        found[:, 2] = _log_of(largest_three(first))
    return found


def largest_three(u: Floats) -> Floats:
    """Return the mean of the three largest values of each row, or of all it has."""
    n = min(3, u.shape[1])
    top = np.partition(u, u.shape[1] - n, axis=1)[:, u.shape[1] - n :]
    return np.asarray(np.minimum(np.sort(top, axis=1), 1e300).mean(axis=1))


def _log_of(u: Floats) -> Floats:
    """Return the logarithm of a value in units of the limit, at least `_NOTHING`."""
    return np.asarray(np.log(np.maximum(u, np.exp(_NOTHING))))


@dataclass(frozen=True, kw_only=True, eq=False)
class Judged:
    """Outcome of the test, one entry for each case.

    Parameters
    ----------
    by_coverage, by_peak : array of bool, shape (n_cases,)
        Whether it is shown by coverage; by peak or onset.
    p_value : array of shape (n_cases,)
        Of the largest t.
    coverage : array of shape (n_cases,)
        Of the best variant.
    best : array of int, shape (n_cases,)
        The variant that stands out most.
    way : array of int, shape (n_cases,)
        Which statistic has the largest t.
    t : array of shape (n_cases,)
        The largest t of coverage.
    calm_t : array of shape (n_cases, n_windows)
        The same of each calm window.
    median, rare : array of shape (n_cases, n_variants, 3 or 1)
        Median and 95th percentile of the calm windows.
    peak_effects : array of bool, shape (n_cases, 2)
        Whether peak, and onset, have the minimum effect.
    is_far : array of bool, shape (n_cases,)
        Whether it is shown by coverage because most of it lies far outside, whatever a
        handful of windows do.
    """

    by_coverage: Bools
    by_peak: Bools
    p_value: Floats
    coverage: Floats
    best: Ints
    way: Ints
    t: Floats
    calm_t: Floats
    median: Floats
    rare: Floats
    peak_effects: Bools
    is_far: Bools

    def with_far(self, lasts: Bools, peaks: Bools) -> "Judged":
        """Return the outcome where some cases lie far outside attack-free time.

        Parameters
        ----------
        lasts, peaks : array of bool, shape (n_cases,)
            By most of their rows, and by their peak; see `far_outside`.
        """
        if not (lasts | peaks).any():
            return self
        effects = self.peak_effects.copy()
        effects[:, 0] |= peaks
        return replace(
            self,
            by_coverage=self.by_coverage | lasts,
            by_peak=self.by_peak | peaks,
            peak_effects=effects,
            is_far=lasts,
        )

    @property
    def is_shown(self) -> Bools:
        """Whether the attack is shown in any way."""
        return self.by_coverage | self.by_peak


def judge(
    own: Floats,
    calm: Floats,
    *,
    effect: float = EFFECT,
    has_peaks: bool = True,
    is_alarm: bool = False,
) -> Judged:
    """Test each case against its calm windows, under the variants of one rung.

    *Shown by coverage*: p is at most `LEVEL`, and the coverage of a variant is above
    the calm 95th percentile and at least `effect` above the calm median. *Shown by
    peak or onset*: no calm window has so large a T, and the peak is at least
    `PEAK_EFFECT` times both the limit and the calm 95th percentile.

    Parameters
    ----------
    own : array of shape (n_cases, n_variants, 3)
        `statistics` of the attack, or of what stands in its place.
    calm : array of shape (n_cases, n_variants, n_windows, 3)
        Those of the calm windows.
    effect : float
        Minimum effect in coverage.
    has_peaks : bool
        Whether peak and onset count.
    is_alarm : bool
        Whether the scores are alarms.
    """
    n_windows = calm.shape[2]
    n_used = len(WAYS) if has_peaks else 1
    own, calm = own[..., :n_used], calm[..., :n_used]
    ordered = np.moveaxis(np.sort(calm, axis=2), 2, -1)
    median, rare = middle_of(ordered), quantile_of(ordered, RARE)
    floors = (_ALARM_FLOORS if is_alarm else _FLOORS)[:n_used]
    scale = np.maximum(rare - median, floors)
    t = (own - median) / scale
    calm_t = (calm - median[:, :, None]) / scale[:, :, None]
    largest, calm_largest = t.max(axis=(1, 2)), calm_t.max(axis=(1, 3))
    p_value = p_values(largest, calm_largest)
    coverage = own[..., 0]
    # Coverages are shares of whole rows; a rounding error must not decide.
    has_effect = (coverage >= median[..., 0] + effect - 1e-9) & (
        coverage > rare[..., 0]
    )
    peaks = np.zeros((*own.shape[:2], 2), np.bool_)
    if has_peaks and is_alarm:
        peaks[..., 1] = (own[..., 2] >= median[..., 2] + ONSET_EFFECT - 1e-9) & (
            own[..., 2] > rare[..., 2]
        )
    elif has_peaks:
        least = np.log(PEAK_EFFECT)
        peaks = (own[..., 1:] >= least) & (own[..., 1:] >= least + rare[..., 1:])
    best = np.argmax(
        np.where(has_effect, 1.0 + coverage - median[..., 0], np.tanh(t[..., 0]) - 1),
        axis=1,
    )
    is_rare = p_value <= (1 + 1e-9) / (1 + n_windows)
    return Judged(
        by_coverage=(p_value <= LEVEL) & has_effect.any(axis=1),
        by_peak=is_rare & peaks.any(axis=(1, 2)),
        p_value=p_value,
        coverage=np.take_along_axis(coverage, best[:, None], 1)[:, 0],
        best=best,
        way=t.max(axis=1).argmax(axis=1),
        t=t[..., 0].max(axis=1),
        calm_t=calm_t[..., 0].max(axis=1),
        median=median,
        rare=rare,
        peak_effects=np.asarray(peaks.any(axis=1)),
        is_far=np.zeros(len(own), np.bool_),
    )


def far_outside(
    middle: Floats, usual: Floats, peak: Floats, usual_peaks: Floats
) -> tuple[Bools, Bools]:
    """Return which cases lie far outside, by most of their rows, and by their peak.

    By most rows: the median row is `FAR` times the limit, and at most a handful of the
    windows have a median row of half of that. By peak: it is `FAR` times the limit and
    what one window in 20 reaches, and at most a handful of the windows reach it.

    Parameters
    ----------
    middle, peak : array of shape (n_cases,)
        Median row in units of the limit, and logarithm of the peak.
    usual, usual_peaks : array of shape (n_cases, n_windows)
        The same of the calm windows.
    """
    most = max(1, int(EPISODES * usual.shape[1]))
    lasts = (middle >= FAR) & ((usual >= middle[:, None] / 2).sum(axis=1) <= most)
    rare = np.maximum(quantile_of(np.sort(usual_peaks), 1 - EPISODES), 0.0)
    peaks = (peak >= np.log(FAR) + rare) & (
        (usual_peaks >= peak[:, None]).sum(axis=1) <= most
    )
    return np.asarray(lasts), np.asarray(peaks)


def middle_of(ordered: Floats) -> Floats:
    """Return the median along the last axis, which is sorted."""
    n = ordered.shape[-1]
    return np.asarray(0.5 * (ordered[..., (n - 1) // 2] + ordered[..., n // 2]))


def quantile_of(ordered: Floats, share: float) -> Floats:
    """Return what `numpy.quantile` does along the last axis, which is sorted.

    To sort some values once takes a fraction of what numpy needs to part them for each
    quantile.

    Examples
    --------
    >>> quantile_of(np.arange(11.0), 0.95)
    array(9.5)
    """
    place = share * (ordered.shape[-1] - 1)
    k = int(place)
    below, above, part = ordered[..., k], ordered[..., k + 1], place - k
    step = above - below
    # The end that is nearer is exact.
    nearer = below + part * step if part < 0.5 else above - (1 - part) * step
    return np.asarray(nearer)


def p_values(own: Floats, calm: Floats) -> Floats:
    """Return ``(1 + windows at least as large) / (1 + windows)`` of each case.

    Parameters
    ----------
    own : array of shape (n_cases,)
    calm : array of shape (n_cases, n_windows)

    Examples
    --------
    >>> p_values(np.array([2.0, 0.0]), np.array([[0.0, 1.0, 1.0], [0.0, 1.0, 1.0]]))
    array([0.25, 1.  ])
    """
    reached = (calm >= own[:, None] - 1e-12).sum(axis=1)
    return np.asarray((1 + reached) / (1 + calm.shape[1]))
