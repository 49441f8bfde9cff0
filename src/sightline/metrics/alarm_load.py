"""What alarms cost and what they raise: episodes counted over attack-free time.

An *alarm* is an episode: it starts at the row that completes the on-delay and ends when
more than `off` rows have passed since its last exceedance. Its time runs from its start
to its last exceedance, without the latch's tail. An alarm that never stops is counted
again for every hour that it stands, so that it is never cheaper than one that rings.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np

from sightline.data.arrays import Bools, Ints
from sightline.data.segments import Segment, covered_rows, run_bounds
from sightline.errors import StreamError

DAY_S: Final = 86_400.0
# Alarms a day that one operator can manage, and the most: ISA-18.2.
MANAGEABLE_PER_DAY: Final = 144
MOST_PER_DAY: Final = 288
# An alarm flood: this many alarms in ten minutes.
FLOOD: Final = 10
TEN_MINUTES_S: Final = 600.0
# An alarm is over when nothing exceeds the limit for so long (at least 3 rows), and
# counts again for every hour (at least 12 rows) that it stands.
OFF_S: Final = 300.0
UNIT_S: Final = 3600.0
# A chattering alarm: this many returns within a minute.
CHATTER: Final = 3
# Exceedances of this many rows are remembered as bits of one integer.
MOST_WITHIN: Final = 60


@dataclass(frozen=True, kw_only=True)
class Delays:
    """When an alarm starts, ends, and counts as standing, in rows.

    Parameters
    ----------
    on : int
        Exceedances that start an alarm,
    within : int
        in this many rows; equal to `on` for exceedances in a row. At most 60.
    off : int
        An alarm ends when more rows than this have passed since its last exceedance.
    unit : int
        A standing alarm is counted once more for this many rows.
    """

    on: int = 1
    within: int = 1
    off: int = 3
    unit: int = 12

    def __post_init__(self) -> None:
        """Refuse an on-delay that can never be met."""
        if not 1 <= self.on <= self.within <= MOST_WITHIN:
            raise StreamError(
                "An alarm starts with `on` exceedances in `within` rows, with 1 <= on "
                f"<= within <= {MOST_WITHIN}; got {self.on} in {self.within}."
            )
        if self.off < 0 or self.unit < 1:
            raise StreamError(
                "An off-delay must be at least 0 rows and the unit of a standing alarm "
                f"at least 1; got {self.off} and {self.unit}."
            )

    @classmethod
    def of_step(cls, step_s: float | None, on: int = 1, within: int = 1) -> "Delays":
        """Return off-delay max(5 min, 3 rows) and unit max(1 h, 12 rows).

        Examples
        --------
        >>> Delays.of_step(10.0)
        Delays(on=1, within=1, off=30, unit=360)
        >>> Delays.of_step(3600.0).unit
        12
        """
        step = step_s or np.inf
        return cls(
            on=on,
            within=max(on, within),
            off=max(3, round(OFF_S / step)),
            unit=max(12, round(UNIT_S / step)),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Episodes:
    """Alarms as episodes.

    Parameters
    ----------
    starts, lasts : array of int, shape (n_alarms,)
        First row of each alarm, and its last exceedance.
    n_rows : int
        Rows of the record.
    counts : array of int, shape (n_alarms,), optional
        How many false alarms each one counts as, if labels are known.
    """

    starts: Ints
    lasts: Ints
    n_rows: int
    counts: Ints | None = None

    @property
    def rows(self) -> Bools:
        """Which rows are alarm time: from a start to the last exceedance."""
        return covered_rows(self.starts, self.lasts + 1, self.n_rows)

    def between(self, first: int, stop: int) -> "Episodes":
        """Return the alarms that start in rows [first, stop)."""
        kept = (self.starts >= first) & (self.starts < stop)
        return Episodes(
            starts=self.starts[kept], lasts=self.lasts[kept], n_rows=self.n_rows
        )


def episodes_of(exceeds: Bools, delays: Delays, breaks: Ints | None = None) -> Episodes:
    """Return the alarms that a series of exceedances makes.

    Parameters
    ----------
    exceeds : array of bool, shape (n_rows,)
        Where a score is above its limit; or the alarms of a rule given as such.
    delays : Delays
        On-delay and off-delay.
    breaks : array of int, optional
        Rows at which a new recording begins; no alarm crosses one.

    Examples
    --------
    >>> rows = np.zeros(30, bool)
    >>> rows[[2, 4, 20]] = True
    >>> found = episodes_of(rows, Delays(off=3))
    >>> found.starts.tolist(), found.lasts.tolist()
    ([2, 20], [4, 20])
    """
    latched = latched_rows(exceeds, delays, breaks)
    return episodes_in(latched, exceeds, breaks)


def latched_rows(exceeds: Bools, delays: Delays, breaks: Ints | None = None) -> Bools:
    """Return which rows are in alarm, the latch of the off-delay included."""
    edges = [0, len(exceeds)] if breaks is None else [0, *breaks, len(exceeds)]
    bounds = np.unique(edges)
    if delays.on == 1:
        places = np.flatnonzero(exceeds)
        ends = bounds[np.searchsorted(bounds, places, side="right")]
        stops = np.minimum(places + delays.off + 1, ends)
        return covered_rows(places, stops, len(exceeds))
    from sightline._kernels.alarms import latch

    out = np.zeros(len(exceeds), np.bool_)
    for first, stop in pairwise(bounds.tolist()):
        state = np.zeros(3, np.int64)
        latch(
            exceeds[first:stop],
            delays.on,
            delays.within,
            delays.off,
            state,
            out[first:stop],
        )
    return out


def episodes_in(latched: Bools, exceeds: Bools, breaks: Ints | None = None) -> Episodes:
    """Return the alarms of rows that are in alarm, by their exceedances."""
    starts, stops = run_bounds(latched, breaks)
    places = np.flatnonzero(exceeds)
    lasts = places[np.searchsorted(places, stops) - 1] if len(starts) else stops
    return Episodes(starts=starts, lasts=lasts, n_rows=len(latched))


# --- Cost -----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class AlarmLoad:
    """What alarms cost over attack-free time.

    Attack-free time is calm: labelled normal, not the aftermath of an attack, and not
    within ten minutes after one.

    Parameters
    ----------
    alarms : int
        False alarms. One born in calm time counts 1, and 1 more for every full hour (at
        least 12 rows) of its calm time. Of one born in an attack or its aftermath the
        first hour of calm time is lingering and counts nothing; beyond that it counts 1
        for every full hour.
    days : float, optional
        Calm days; None if seconds a row are not known.
    alarms_per_day : float, optional
        `alarms` over `days`.
    share_of_time : float
        Share of calm time in alarm, lingering left out.
    standing : int
        How many of `alarms` were counted because an alarm stood.
    lingering_share : float
        Share of calm time in the first hour of alarms born in an attack.
    peak_10min : int, optional
        Most alarms in ten minutes of calm time, each return announced (no off-delay).
        None where a row is longer than ten minutes.
    floods : int, optional
        Stretches of ten minutes, without overlap, with at least ten of these.
    chattering : int, optional
        Alarms with at least three returns within a minute. None where rows are longer
        than 20 s.
    shelved_share : float
        Share of calm time in which a member of a joined rule was shelved. While its
        alarm stands this is part of `share_of_time` and of `standing`.
    """

    alarms: int
    days: float | None
    alarms_per_day: float | None
    share_of_time: float
    standing: int = 0
    lingering_share: float = 0.0
    peak_10min: int | None = None
    floods: int | None = None
    chattering: int | None = None
    shelved_share: float = 0.0

    @property
    def standing_per_day(self) -> float | None:
        """How many alarms a day were counted because one stood."""
        return None if not self.days else self.standing / self.days


def counted(episodes: Episodes, is_calm: Bools, unit: int) -> tuple[Ints, Ints, Ints]:
    """Return for each alarm its count, the part from standing, and its rows of cost.

    Examples
    --------
    >>> alarm = Episodes(starts=np.array([0]), lasts=np.array([29]), n_rows=30)
    >>> counted(alarm, np.ones(30, bool), unit=12)  # once, and 2 full units
    (array([3]), array([2]), array([30]))
    >>> born = np.arange(30) >= 1  # the first row is an attack
    >>> counted(alarm, born, unit=12)  # the first unit lingers
    (array([1]), array([1]), array([17]))
    """
    n_calm = _calm_rows_of(episodes, is_calm)
    is_born_calm = is_calm[episodes.starts]
    rows = np.where(is_born_calm, n_calm, np.maximum(n_calm - unit, 0))
    standing = rows // unit
    return is_born_calm.astype(np.int64) + standing, standing, rows


def _calm_rows_of(episodes: Episodes, is_calm: Bools) -> Ints:
    """Return the number of calm rows of each alarm."""
    before = np.zeros(len(is_calm) + 1, np.int32)
    np.cumsum(is_calm, out=before[1:])
    n_calm = before[episodes.lasts + 1] - before[episodes.starts]
    return n_calm.astype(np.int64)


def alarm_load(
    episodes: Episodes,
    is_calm: Bools,
    delays: Delays,
    step_s: float | None,
    *,
    exceeds: Bools | None = None,
    shelved: Bools | None = None,
    standing: Bools | None = None,
    breaks: Ints | None = None,
) -> AlarmLoad:
    """Return what alarms cost over calm time.

    The alarm of a shelved member is counted as standing until it ends: a member that
    never stops is never free.

    Parameters
    ----------
    episodes : Episodes
        The alarms.
    is_calm : array of bool, shape (n_rows,)
        Calm rows; others cost nothing.
    delays : Delays
        Of which `unit` says how long an alarm stands before it counts again.
    step_s : float, optional
        Seconds a row.
    exceeds : array of bool, optional
        Exceedances, for the peak, floods and chattering.
    shelved : array of bool, optional
        Where a member of a joined rule is shelved.
    standing : array of bool, optional
        Where a shelved member exceeds.
    breaks : array of int, optional
        Rows at which a new recording begins, if `standing` is given.
    """
    stands = episodes
    if standing is not None and standing.any():
        joined = replace(delays, on=1, within=1)
        stands = episodes_of(episodes.rows | standing, joined, breaks)
    _, again, rows = counted(stands, is_calm, delays.unit)
    n_calm = int(is_calm.sum())
    days = None if step_s is None else n_calm * step_s / DAY_S or None
    alarms = int(is_calm[episodes.starts].sum() + again.sum())
    spent = int(rows.sum())
    in_calm = int(_calm_rows_of(stands, is_calm).sum())
    announced = None
    if exceeds is not None:
        # Calm rows at which exceedances begin again.
        begins = exceeds & ~np.concatenate([[False], exceeds[:-1]])
        announced = np.flatnonzero(begins & is_calm)
    return AlarmLoad(
        alarms=alarms,
        days=days,
        alarms_per_day=None if days is None else alarms / days,
        share_of_time=spent / n_calm if n_calm else 0.0,
        standing=int(again.sum()),
        lingering_share=(in_calm - spent) / n_calm if n_calm else 0.0,
        peak_10min=_peak(announced, step_s, TEN_MINUTES_S),
        floods=_floods(announced, step_s),
        chattering=_chattering(announced, episodes, step_s),
        shelved_share=float(shelved[is_calm].mean())
        if shelved is not None and n_calm
        else 0.0,
    )


def _peak(announced: Ints | None, step_s: float | None, span_s: float) -> int | None:
    """Return the most beginnings within a span of time."""
    if announced is None or step_s is None or step_s > span_s:
        return None
    n_rows = span_s / step_s
    until = np.searchsorted(announced, announced + n_rows, side="left")
    return int(np.max(until - np.arange(len(announced)), initial=0))


def _floods(announced: Ints | None, step_s: float | None) -> int | None:
    """Return how many stretches of ten minutes are alarm floods."""
    if announced is None or step_s is None or step_s > TEN_MINUTES_S / FLOOD:
        return None
    n_rows, last = TEN_MINUTES_S / step_s, FLOOD - 1
    is_dense = announced[last:] - announced[:-last] < n_rows
    # A flood begins at the first dense place past the ten minutes of the one before.
    begins = announced[: len(is_dense)][is_dense]
    n_floods, k = 0, 0
    while k < len(begins):
        n_floods += 1
        k = int(np.searchsorted(begins, begins[k] + n_rows))
    return n_floods


def _chattering(
    announced: Ints | None, episodes: Episodes, step_s: float | None
) -> int | None:
    """Return how many alarms begin at least three times within a minute."""
    if announced is None or step_s is None or step_s > 60 / CHATTER:
        return None
    last = CHATTER - 1
    close = announced[last:] - announced[: len(announced) - last] < 60 / step_s
    which = np.searchsorted(episodes.starts, announced[last:][close], side="right")
    return len(np.unique(which))


# --- Use ------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class AttackAlarms:
    """Which attacks alarms raise, beside what chance would.

    Parameters
    ----------
    n_attacks : int
        Attacks judged.
    raised : int
        Attacks in which an alarm starts; a standing one raises nothing.
    raised_by_chance : float
        The same for calm windows of each attack's length, summed over attacks.
    rings, rings_by_chance : int, float
        Attacks with any row of alarm time, and the same for calm windows.
    skill : float, optional
        ``(raised - chance) / (n_attacks - chance)``: 1 all attacks, 0 no better than
        chance; it compares rules of different counts. None without attacks, or where
        chance raises all.
    delay_s : float, optional
        Median seconds from the start of a raised attack to its alarm.
    which : tuple of str
        Ids of the raised attacks, where they were given.
    """

    n_attacks: int
    raised: int
    raised_by_chance: float
    rings: int
    rings_by_chance: float
    skill: float | None
    delay_s: float | None
    which: tuple[str, ...] = ()


def attack_alarms(
    episodes: Episodes,
    attacks: Sequence[Segment],
    is_calm: Bools,
    *,
    step_s: float | None = None,
    breaks: Ints | None = None,
    ids: Sequence[str] = (),
) -> AttackAlarms:
    """Return which attacks alarms raise, and how many chance would raise.

    Parameters
    ----------
    episodes : Episodes
        The alarms.
    attacks : sequence of Segment
        Rows of each attack.
    is_calm : array of bool, shape (n_rows,)
        Calm rows: every window of an attack's length within them is a chance.
    step_s : float, optional
        Seconds a row, for the delay.
    breaks : array of int, optional
        Rows at which a new recording begins.
    ids : sequence of str
        Names of the attacks.
    """
    begins = np.zeros(episodes.n_rows, np.bool_)
    begins[episodes.starts] = True
    first = np.searchsorted(episodes.starts, [a.start for a in attacks])
    stops = np.array([a.stop for a in attacks], np.int64)
    at = np.append(episodes.starts, np.iinfo(np.int64).max)[first]
    is_raised = at < stops
    in_alarm = episodes.rows
    rings = sum(bool(in_alarm[a.rows].any()) for a in attacks)
    lengths = [a.length for a in attacks]
    chances = [
        _chances(events, is_calm, breaks, lengths) for events in (begins, in_alarm)
    ]
    n, raised, chance = len(attacks), int(is_raised.sum()), sum(chances[0])
    delays = [
        row - attack.start
        for row, attack, hit in zip(at.tolist(), attacks, is_raised, strict=True)
        if hit
    ]
    is_known = step_s is not None and bool(delays)
    return AttackAlarms(
        n_attacks=n,
        raised=raised,
        raised_by_chance=chance,
        rings=rings,
        rings_by_chance=sum(chances[1]),
        skill=(raised - chance) / (n - chance) if n - chance > 1e-9 else None,
        delay_s=float(np.median(delays)) * (step_s or 0.0) if is_known else None,
        which=tuple(id_ for id_, hit in zip(ids, is_raised, strict=False) if hit),
    )


def _chances(
    events: Bools, is_calm: Bools, breaks: Ints | None, lengths: Sequence[int]
) -> list[float]:
    """Return for each length the share of calm windows that hold an event.

    A window without an event lies between two of them, so that runs of calm rows
    without an event tell how many there are. Where no stretch of calm rows is as long
    as the window, events are taken as independent at their mean rate.
    """
    starts, stops = run_bounds(is_calm, breaks)
    stretches = stops - starts
    starts, stops = run_bounds(is_calm & ~events, breaks)
    gaps = stops - starts
    n_rows, n_events = int(stretches.sum()), int((is_calm & events).sum())
    # Attacks of one length share their chance.
    shares = {}
    for length in dict.fromkeys(lengths):
        total, empty = (
            int(np.sum(runs[runs >= length] - (length - 1)))
            for runs in (stretches, gaps)
        )
        if total:
            shares[length] = (total - empty) / total
        else:
            expected = length * n_events / n_rows if n_rows else 0.0
            shares[length] = float(-np.expm1(-expected))
    return [shares[length] for length in lengths]
