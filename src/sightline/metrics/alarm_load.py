"""What alarms cost and what they catch: episodes counted over attack-free time.

An *alarm* is an episode: it starts at the row that completes the on-delay and ends when
more than `off` rows have passed since its last exceedance. Its time runs from its start
to its last exceedance, without the latch's tail. An alarm that never stops is counted
again for every hour that it stands, so that it is never cheaper than one that rings.

`judge_alarms` says what one alarm rule makes of the energy (the controlled Stage-2
probe); the same questions are asked of the detector's own alarms.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, TypedDict

import numpy as np

from sightline.data.arrays import ATTACK, NORMAL, Bools, Ints, Labels
from sightline.data.segments import Segment, covered_rows, run_bounds
from sightline.errors import StreamError
from sightline.metrics.intervals import count_interval, count_p_value

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
# A rule that is in alarm more often than this while nothing happens over-alarms.
OVER_ALARMING_RATE: Final = 0.05
# A count that chance reaches with this probability is no reason to boast.
BY_CHANCE: Final = 0.05


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
    rises : array of int, optional
        Rows at which an alarm starts, or another tag comes to lead one that runs; by
        default the starts alone, as of a rule that tells no tags apart.
    """

    starts: Ints
    lasts: Ints
    n_rows: int
    counts: Ints | None = None
    rises: Ints | None = None

    @property
    def caught_at(self) -> Ints:
        """Rows at which an attack is caught: `rises`, or else the starts."""
        return self.starts if self.rises is None else self.rises

    @property
    def rows(self) -> Bools:
        """Which rows are alarm time: from a start to the last exceedance."""
        return covered_rows(self.starts, self.lasts + 1, self.n_rows)


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
    peak = floods = chattering = None
    if exceeds is not None and step_s is not None:
        # Calm rows at which exceedances begin again.
        begins = exceeds & ~np.concatenate([[False], exceeds[:-1]])
        announced = np.flatnonzero(begins & is_calm)
        ten_minutes = TEN_MINUTES_S / step_s
        if step_s <= TEN_MINUTES_S:
            until = np.searchsorted(announced, announced + ten_minutes, side="left")
            peak = int(np.max(until - np.arange(len(announced)), initial=0))
        if step_s <= TEN_MINUTES_S / FLOOD:
            dense = _begins_of(announced, FLOOD, ten_minutes)[0]
            # One begins at the first dense place past the ten minutes of the last.
            floods = k = 0
            while k < len(dense):
                floods += 1
                k = int(np.searchsorted(dense, dense[k] + ten_minutes))
        if step_s <= 60 / CHATTER:
            ends = _begins_of(announced, CHATTER, 60 / step_s)[1]
            which = np.searchsorted(episodes.starts, ends, side="right")
            chattering = len(np.unique(which))
    return AlarmLoad(
        alarms=alarms,
        days=days,
        alarms_per_day=None if days is None else alarms / days,
        share_of_time=spent / n_calm if n_calm else 0.0,
        standing=int(again.sum()),
        lingering_share=(in_calm - spent) / n_calm if n_calm else 0.0,
        peak_10min=peak,
        floods=floods,
        chattering=chattering,
        shelved_share=float(shelved[is_calm].mean())
        if shelved is not None and n_calm
        else 0.0,
    )


def _begins_of(rows: Ints, n: int, within: float) -> tuple[Ints, Ints]:
    """Return first and last of each `n` rows one after another that lie within a span.

    Examples
    --------
    >>> _begins_of(np.array([0, 1, 9, 10, 11]), 3, 4)
    (array([9]), array([11]))
    """
    first, last = rows[: max(len(rows) - n + 1, 0)], rows[n - 1 :]
    is_dense = last - first < within
    return first[is_dense], last[is_dense]


# --- Use ------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class AttackAlarms:
    """Which attacks alarms catch, beside what chance would.

    An attack is *caught* by an alarm that starts in it, or within the slop of its label
    before it, or that began earlier and rises again there by another tag. One that is
    left over from before catches nothing. Chance is the same count over attack-free
    windows of as many rows.

    Parameters
    ----------
    n_attacks : int
        Attacks judged.
    caught : int
        Attacks caught.
    caught_by_chance : float
        The same for attack-free windows, summed over attacks.
    p_value : float, optional
        Probability that chance catches as many or more (Poisson-binomial), with one
        alarm more in attack-free time than there was: that no window is caught does
        not mean that none ever is. None without attacks or attack-free time.
    skill : float, optional
        ``(caught - chance) / (n_attacks - chance)``: 1 all attacks, 0 no better than
        chance; it compares rules of different counts. None without attacks, or where
        chance catches all.
    skill_interval : pair of float, optional
        95% interval of the skill, cut at -1: that of the share of attacks caught
        (Clopper-Pearson), the lower end with one alarm more in attack-free time.
    delay_s : float, optional
        Median seconds from the start of a caught attack to its alarm; 0 for an alarm
        before it.
    raised, raised_by_chance : int, float
        Attacks in which an alarm starts, without those that rise again; and by chance.
    rings, rings_by_chance : int, float
        Attacks with any row of alarm time in the same rows, and by chance.
    which : tuple of str
        Ids of the caught attacks, where they were given.
    """

    n_attacks: int
    caught: int
    caught_by_chance: float
    raised: int
    raised_by_chance: float
    rings: int
    rings_by_chance: float
    skill: float | None
    delay_s: float | None
    which: tuple[str, ...] = ()
    p_value: float | None = None
    skill_interval: tuple[float, float] | None = None

    @property
    def beats_chance(self) -> bool:
        """Whether more attacks are caught than chance would catch."""
        p_value, skill = self.p_value, self.skill or 0.0
        return p_value is not None and p_value <= BY_CHANCE and skill > 0

    @property
    def least_skill(self) -> float:
        """The lower end of the skill, by which rules are ordered; -1 if unknown."""
        return -1.0 if self.skill_interval is None else self.skill_interval[0]


def first_rises(rises: Ints, starts: Ints, stops: Ints) -> tuple[Ints, Bools]:
    """Return the first rise from each start on, and whether it comes before the stop.

    Examples
    --------
    >>> first_rises(np.array([3, 9]), np.array([2, 4]), np.array([5, 8]))
    (array([3, 9]), array([ True, False]))
    """
    places = np.searchsorted(rises, starts)
    at = np.append(rises, np.iinfo(np.int64).max)[places]
    return at, at < stops


def attack_alarms(
    episodes: Episodes,
    attacks: Sequence[Segment],
    is_calm: Bools,
    *,
    step_s: float | None = None,
    breaks: Ints | None = None,
    ids: Sequence[str] = (),
    early: Sequence[int] | Ints = (),
) -> AttackAlarms:
    """Return which attacks alarms catch, and how many chance would catch.

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
    early : sequence of int
        Rows before each attack that count as its own, by the slop of its label; none
        by default.
    """
    lead = np.asarray(early, np.int64) if len(early) else np.zeros(len(attacks), int)
    begins = np.array([attack.start for attack in attacks], np.int64)
    stops = np.array([attack.stop for attack in attacks], np.int64)
    firsts, in_alarm = np.maximum(begins - lead, 0), episodes.rows
    lengths = (stops - firsts).tolist()
    at, is_caught = first_rises(episodes.caught_at, firsts, stops)
    raised = first_rises(episodes.starts, firsts, stops)[1]

    def chances(rows: Ints) -> list[float]:
        events = np.zeros(episodes.n_rows, np.bool_)
        events[rows] = True
        return _chances(events, is_calm, breaks, lengths)

    by_chance = chances(episodes.caught_at)
    delays = np.maximum(at - begins, 0)[is_caught]
    return AttackAlarms(
        n_attacks=len(attacks),
        caught=int(is_caught.sum()),
        caught_by_chance=sum(by_chance),
        raised=int(raised.sum()),
        raised_by_chance=sum(chances(episodes.starts)),
        rings=sum(
            bool(in_alarm[first:stop].any())
            for first, stop in zip(firsts, stops, strict=True)
        ),
        rings_by_chance=sum(chances(np.flatnonzero(in_alarm))),
        delay_s=float(np.median(delays)) * step_s
        if step_s is not None and len(delays)
        else None,
        which=tuple(id_ for id_, hit in zip(ids, is_caught, strict=False) if hit),
        **beside_chance(int(is_caught.sum()), by_chance, lengths, int(is_calm.sum())),
    )


class _Skill(TypedDict):
    skill: float | None
    p_value: float | None
    skill_interval: tuple[float, float] | None


def beside_chance(
    caught: int, by_chance: Sequence[float], lengths: Sequence[int], n_calm: int
) -> _Skill:
    """Return skill, its interval and the p-value of a count of attacks."""
    n, chance = len(by_chance), sum(by_chance)
    if not n or not n_calm:
        skill = caught / n if n else None
        return _Skill(skill=skill, p_value=None, skill_interval=None)
    # With one alarm more: a window holds it by its share of attack-free time.
    one_more = [
        part + (1 - part) * min(length / n_calm, 1.0)
        for part, length in zip(by_chance, lengths, strict=True)
    ]
    low, high = count_interval(caught, n)
    skills = [
        (count - by) / (n - by) if n - by > 1e-9 else None
        for count, by in (
            (caught, chance),
            (low, sum(one_more)),
            (high, chance),
        )
    ]
    lowest = -1.0 if skills[1] is None else max(skills[1], -1.0)
    return _Skill(
        skill=skills[0],
        p_value=count_p_value(caught, one_more),
        skill_interval=None if skills[2] is None else (lowest, skills[2]),
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


# --- One alarm rule -------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class AlarmMetrics:
    """How one alarm rule did, judged row by row without point adjustment.

    Parameters
    ----------
    tau99 : float, optional
        The limit.
        Formula: 0.99 quantile of `e_train`.
        Range: from 0.
        Nothing wrong: near half the 0.99 quantile of a chi-squared with p degrees of
        freedom.
        Paper: tau_99.
        Null: in `own_rule`.
    f1 : float, optional
        Precision and recall in one figure.
        Formula: `2 TP / (2 TP + FP + FN)`, by rows.
        Range: 0 to 1.
        Better: higher.
        Nothing wrong: under 0.02.
        Paper: F1@p99.
        Null: without attacks. 0 without alarms. Depends on the share of attack rows.
    precision : float, optional
        Share of alarmed rows that are attack rows.
        Formula: alarmed attack rows / alarmed attack and normal rows.
        Range: 0 to 1.
        Better: higher.
        Nothing wrong: share of attack rows among attack and normal rows.
        Paper: Prec.
        Null: without attacks, or without any alarm.
    recall : float, optional
        Share of attack rows in alarm.
        Formula: alarmed attack rows / attack rows.
        Range: 0 to 1.
        Better: higher.
        Nothing wrong: 0.01.
        Paper: Rec.
        Null: without attacks. Dominated by the longest attack.
    false_positive_segments : int
        False alarms, counted as runs.
        Formula: maximal runs of alarms that touch a normal row and no attack row; with
        protocol `paper` maximal runs of alarmed normal rows.
        Range: from 0.
        Better: lower.
        Nothing wrong: 0.01 of the normal rows if rows are independent, fewer runs if
        neighbours resemble each other.
        Paper: FP-seg.
        Null: never.
    hits : int, optional
        Attacks with at least one alarm.
        Formula: segments with an alarmed row.
        Range: 0 to `n_segments`.
        Better: higher.
        Nothing wrong: grows with the attacks' length.
        Paper: Hits.
        Null: without attacks. Worth little if `over_alarming`, or if not above its
        `floor`.
    false_alarm_rate : float
        Share of normal test rows in alarm.
        Formula: alarmed normal rows / normal rows.
        Range: 0 to 1.
        Better: lower.
        Nothing wrong: 0.01.
        Null: never.
    false_alarms_per_day : float, optional
        False alarms per day of attack-free test time.
        Formula: `false_positive_segments / (normal rows * step_s / 86,400)`.
        Range: from 0.
        Better: lower.
        Nothing wrong: see `false_positive_segments`.
        Null: if `step_s` is not known. Jumpy with less than a few days of normal rows.
    minutes_in_alarm_per_day : float, optional
        How long normal operation is in alarm.
        Formula: `false_alarm_rate * 1,440`.
        Range: 0 to 1,440.
        Better: lower.
        Nothing wrong: 14.4.
        Null: if `step_s` is not known.
    over_alarming : bool
        In alarm so often that a hit says little.
        Formula: `load.share_of_time > 0.05`.
        Better: false.
        Nothing wrong: false.
        Null: never.
    load : AlarmLoad, optional
        What its alarms cost over attack-free time, counted as episodes.
        Formula: see `AlarmLoad`.
        Null: in results of earlier versions.
    attacks : AttackAlarms, optional
        Which attacks its alarms catch, beside what chance would.
        Formula: see `AttackAlarms`.
        Null: in results of earlier versions.
    """

    tau99: float | None
    f1: float | None
    precision: float | None
    recall: float | None
    false_positive_segments: int
    hits: int | None
    false_alarm_rate: float
    false_alarms_per_day: float | None
    minutes_in_alarm_per_day: float | None
    over_alarming: bool
    load: AlarmLoad | None = None
    attacks: AttackAlarms | None = None

    @property
    def time_in_alarm(self) -> float:
        """Share of attack-free time in alarm; of normal rows in earlier results."""
        return self.false_alarm_rate if self.load is None else self.load.share_of_time


def f1_score(precision: float, recall: float) -> float:
    """Return the harmonic mean of precision and recall.

    ``2 P R / (P + R)``, in [0, 1]. Higher is better; 0 if both are 0.

    Parameters
    ----------
    precision, recall : float
        In [0, 1].

    Examples
    --------
    >>> f1_score(0.902, 0.663)
    0.764
    """
    total = precision + recall
    return 2 * precision * recall / total if total else 0.0


def false_alarm_runs(
    is_alarm: Bools, labels: Labels, breaks: Ints | None = None
) -> tuple[Ints, Ints]:
    """Return the runs of alarms that touch normal steps and no attack step.

    Parameters
    ----------
    is_alarm, labels : array of shape (n_steps,)
        Where the rule is in alarm; 1 attack, 0 normal, -1 ignore.
    breaks : array of int, optional
        First step of each continuous run; no run of alarms crosses one.

    Returns
    -------
    starts, stops : array of int, shape (n_runs,)
        First step of each run, and the step past its end; empty without false alarms.

    Examples
    --------
    >>> alarms = np.array([1, 1, 0, 1, 0, 1], bool)
    >>> starts, stops = false_alarm_runs(alarms, np.array([0, 0, 0, 1, 0, 0]))
    >>> starts.tolist(), stops.tolist()
    ([0, 5], [2, 6])
    """
    starts, stops = run_bounds(is_alarm, breaks)
    before = [np.append(0, np.cumsum(labels == mark)) for mark in (ATTACK, NORMAL)]
    n_attack, n_normal = (counts[stops] - counts[starts] for counts in before)
    is_false = (n_attack == 0) & (n_normal > 0)
    return starts[is_false], stops[is_false]


def judge_alarms(
    is_alarm: Bools,
    labels: Labels,
    attacks: Sequence[Segment],
    *,
    breaks: Ints | None = None,
    step_s: float | None = None,
    tau99: float | None = None,
    is_attack_free: Bools | None = None,
    ids: Sequence[str] = (),
    early: Sequence[int] | Ints = (),
    by_rows: bool = False,
) -> AlarmMetrics:
    """Return how a rule did, row by row and without point adjustment.

    Parameters
    ----------
    is_alarm : array of bool, shape (n_steps,)
        Where the rule is in alarm.
    labels : array of shape (n_steps,)
        1 attack, 0 normal, -1 ignore.
    attacks : sequence of Segment
        The attack runs of `labels`.
    breaks : array of int, optional
        First step of each continuous run; no run of alarms crosses one.
    step_s : float, optional
        Seconds a step, for the rates a day.
    tau99 : float, optional
        The threshold, for the record.
    is_attack_free : array of bool, optional
        Calm rows, over which alarms are counted as episodes; by default all normal
        rows.
    ids, early
        Names of the attacks, and rows before each that count as its own where alarms
        are counted as episodes; see `attack_alarms`.
    by_rows : bool
        Count `false_positive_segments` as maximal runs of false-positive rows, as the
        paper does; else as runs of alarms that touch no attack row.

    Returns
    -------
    AlarmMetrics
        See there for formulas, and for when a figure is None.

    Examples
    --------
    >>> labels = np.array([0, 0, 1, 1, 0])
    >>> alarms = np.array([0, 1, 0, 1, 0], bool)
    >>> found = judge_alarms(alarms, labels, [Segment(2, 4)])
    >>> found.precision, found.recall, found.f1, found.hits
    (0.5, 0.5, 0.5, 1)
    """
    is_attack, is_normal = labels == ATTACK, labels == NORMAL
    n_attack, n_normal = int(is_attack.sum()), int(is_normal.sum())
    true_alarms = int(np.sum(is_alarm & is_attack))
    false_alarms = int(np.sum(is_alarm & is_normal))
    n_alarms = true_alarms + false_alarms
    runs = (
        run_bounds(is_alarm & is_normal, breaks)
        if by_rows
        else false_alarm_runs(is_alarm, labels, breaks)
    )
    n_false = len(runs[0])
    rate = false_alarms / n_normal
    is_attack_free = is_normal if is_attack_free is None else is_attack_free
    delays = Delays.of_step(step_s)
    episodes = episodes_of(is_alarm, delays, breaks)
    load = alarm_load(episodes, is_attack_free, delays, step_s, exceeds=is_alarm)
    # A step may be too short to make any time at all.
    days = None if step_s is None else n_normal * step_s / DAY_S or None
    return AlarmMetrics(
        tau99=tau99,
        f1=2 * true_alarms / (n_attack + n_alarms) if n_attack else None,
        precision=true_alarms / n_alarms if n_attack and n_alarms else None,
        recall=true_alarms / n_attack if n_attack else None,
        false_positive_segments=n_false,
        hits=sum(bool(is_alarm[attack.rows].any()) for attack in attacks)
        if attacks
        else None,
        false_alarm_rate=rate,
        false_alarms_per_day=None if days is None else n_false / days,
        minutes_in_alarm_per_day=None if days is None else rate * DAY_S / 60,
        over_alarming=load.share_of_time > OVER_ALARMING_RATE,
        load=load,
        attacks=attack_alarms(
            episodes,
            attacks,
            is_attack_free,
            step_s=step_s,
            breaks=breaks,
            ids=ids,
            early=early,
        ),
    )
