"""What blind spots are, as typed records and in sentences.

What is written is what is read. The sentences are what an engineer can take to a
meeting.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from sightline.showing import Shown
from sightline.text import duration, names, number, share

# The duration of the figures that stand for many: sentences, blindness, trade-off.
USUAL_S: Final = 900.0
# A size counts as no more than this many ranges in the blindness of a rule.
MOST_IN_MEAN: Final = 10.0
N_SENTENCES: Final = 10
# A size with more others is told where it is larger by this factor.
_WORTH_SAYING: Final = 1.1
# Shapes without a size: what people read of a tag, and what it can do.
UNSIZED: Final = {
    "frozen": "stays where it was",
    "dead": "shows its lowest reading",
    "replay": "repeats the window before",
    "actuator": "shows another state",
}
_CAN: Final = {
    "frozen": "stay at the last reading",
    "dead": "fall to the lowest reading",
    "replay": "repeat the window before",
    "actuator": "show another state",
}


class SpotOutcome(StrEnum):
    """Whether a falsification is seen at half of the places.

    ``SEEN``
        From the stated size on.
    ``NOT_SEEN``
        Not up to the largest size that was tried.
    ``NO_POSSIBLE_VALUE``
        The reading leaves its possible range before anything is seen.
    ``WITHOUT_SIZE``
        The shape has no size; `share_seen` is the answer.
    """

    SEEN = "seen"
    NOT_SEEN = "not seen"
    NO_POSSIBLE_VALUE = "no possible value is seen"
    WITHOUT_SIZE = "no size"


@dataclass(frozen=True, kw_only=True)
class SizeAt:
    """The size that is seen in a share of places.

    Parameters
    ----------
    size : float, optional
        In the shape's unit; None if no size is seen so often.
    low, high : float, optional
        90% interval; a high of None: no upper limit.
    of_range : float, optional
        `size` as a share of the tag's range in train.
    """

    size: float | None
    low: float | None
    high: float | None
    of_range: float | None


@dataclass(frozen=True, kw_only=True)
class BlindSpot:
    """What one rule sees of one falsification.

    Parameters
    ----------
    tag : str
        The tag, or the stage.
    shape : str
        Name of the shape.
    sign : int
        1 raised, -1 lowered, 0 for shapes without a sign.
    duration_s : float
        How long it lasts.
    rule : str
        The alarm rule.
    outcome : SpotOutcome
        Whether it is seen at half of the places.
    unit : str
        What sizes are in: the tag's unit, per cent, or standard deviations.
    half, most : SizeAt, optional
        The size seen in 50% and in 90% of places; None for shapes without a size.
    largest : float, optional
        The largest size that was tried.
    delay_s : float, optional
        Median time from the beginning to the alarm at the 50% size, or of what is seen.
    share_seen : float, optional
        Of shapes without a size: share of places at which it is seen.
    on_release : float, optional
        Share of the places that do not see the 50% size, and ring in the minute after
        its end.
    n_places : int
        Places that could be judged.
    analytic : float, optional
        ``sqrt((limit - median) / max c)``: what a formula says in place of injections,
        for steps and the energy.
    is_uneven : bool
        Whether larger sizes were missed where smaller ones were seen; the size is then
        that from which the share of places stays above.
    """

    tag: str
    shape: str
    sign: int
    duration_s: float
    rule: str
    outcome: SpotOutcome
    unit: str
    n_places: int
    half: SizeAt | None = None
    most: SizeAt | None = None
    largest: float | None = None
    delay_s: float | None = None
    share_seen: float | None = None
    on_release: float | None = None
    analytic: float | None = None
    is_uneven: bool = False


@dataclass(frozen=True, kw_only=True)
class RuleSight:
    """One rule on the record, and how blind it is.

    Parameters
    ----------
    name : str
        The rule.
    alarms_per_day : float, optional
        On the attack-free record in which the places lie.
    share_of_time : float
        Share of that record in alarm.
    blindness : float, optional
        Geometric mean over sensors of min(10, 50% size / range in train), of steps and
        ramps of 15 minutes (or the nearest duration), both signs. Lower is better.
    """

    name: str
    alarms_per_day: float | None
    share_of_time: float
    blindness: float | None = None


@dataclass(frozen=True, kw_only=True)
class TradeOff:
    """How large a deviation stays unseen at one number of alarms a day.

    Parameters
    ----------
    rule : str
        The rule, its limit set for the budget.
    budget_per_day : float
        Alarms a day that the limit was set for.
    alarms_per_day : float, optional
        Alarms a day on the attack-free record.
    duration_s : float
        How long the deviation is kept.
    deviation : float
        Geometric mean over sensors of min(10, 50% size of a step / range in train).
    """

    rule: str
    budget_per_day: float
    alarms_per_day: float | None
    duration_s: float
    deviation: float


@dataclass(frozen=True, kw_only=True)
class KnowingAttacker:
    """How far an attacker who knows rule and detector can push one tag, unseen.

    Parameters
    ----------
    tag, rule : str
        The tag and the rule, of linear detectors.
    unit : str
        Unit of the tag.
    duration_s : float
        For how long.
    held : float, optional
        Deviation that can be held for good if it is approached slowly; None: any.
    mean : float
        Largest mean deviation over the duration, knowing every reading: median over
        places.
    of_range : float
        `mean` as a share of the tag's range in train.
    injected : float, optional
        50% size of a plain step, for comparison.
    held_unread : float, optional
        Deviation that half of the places keep unseen for `unread_s`, approached slowly,
        by someone who does not know the readings; None: any.
    unread_s : float, optional
        For how long; None where too few places can be judged.
    """

    tag: str
    rule: str
    unit: str
    duration_s: float
    held: float | None
    mean: float
    of_range: float
    injected: float | None = None
    held_unread: float | None = None
    unread_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class TogetherSize:
    """How far one tag can be off while other sensors are falsified with it.

    Parameters
    ----------
    tag, rule : str
        The tag and the rule, of linear detectors.
    shape : str
        Name of the shape, the one of which the rule sees least of the tag alone.
    sign : int
        1 raised, -1 lowered.
    duration_s : float
        How long it lasts.
    unit : str
        Unit of the tag.
    count : int, optional
        At most so many others; None: any number of sensors.
    outcome : SpotOutcome
        Whether it is seen at half of the places.
    size : float
        Seen at half of the places; or the largest at which no reading of the tag or of
        the others leaves its possible range, in the median over places.
    of_range : float
        `size` as a share of the tag's range in train.
    share_seen : float
        Share of the places that see `size`, or what of it is possible there.
    n_places : int
        Places that could be judged.
    others : tuple of str
        The other tags.
    factors : tuple of float
        By how much of its unit each of them moves for 1 unit of the tag.
    """

    tag: str
    rule: str
    shape: str
    sign: int
    duration_s: float
    unit: str
    count: int | None
    outcome: SpotOutcome
    size: float
    of_range: float
    share_seen: float
    n_places: int
    others: tuple[str, ...] = ()
    factors: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class WhatIf:
    """How often a rule sees an attack of the user's table.

    Parameters
    ----------
    id : str
        The attack.
    text : str
        What it does, in words.
    rule : str
        The rule.
    duration_s : float
        How long it lasts.
    share_seen : float
        Share of places at which it is seen.
    n_places : int
        Places that could be judged: not those whose twin is in alarm throughout.
    delay_s : float, optional
        Median time to the alarm where it is seen.
    leaves_range : float
        Share of places at which a reading leaves its possible range.
    """

    id: str
    text: str
    rule: str
    duration_s: float
    share_seen: float
    n_places: int
    delay_s: float | None = None
    leaves_range: float = 0.0


@dataclass(frozen=True, kw_only=True, repr=False)
class BlindSpots(Shown):
    """What a detector with its rules could not see.

    Parameters
    ----------
    name : str
        Name of the stream or study cell.
    detector, testbed : str, optional
        Their names.
    budget : str
        Alarms that the limits were set for.
    is_residual : bool
        Whether falsifications were written into residuals, for want of a detector.
    is_linear : bool
        Whether sizes are in closed form.
    chosen : str
        The rule of the sentences.
    n_places, seed : int
        Places that were drawn, and the seed of the draw.
    days : float
        Days of the attack-free record in which they lie.
    rules : tuple of RuleSight
        Cost and blindness of each rule.
    spots : tuple of BlindSpot
        The table.
    tags : tuple of str
        The tags that were falsified.
    sentences : tuple of str
        The ten blindest tags in words.
    trade_off : tuple of TradeOff
        The curve.
    attackers : tuple of KnowingAttacker
        Those who know the rule.
    what_if : tuple of WhatIf
        The user's attacks.
    together : tuple of TogetherSize
        Each sensor alone, and with others, the blindest first.
    notes : tuple of str
        What was left out, and why.
    key : str
        Of the detector and the record that they belong to.

    Examples
    --------
    As `find_blind_spots` returns it; `spots` has one row for each rule, tag and shape.

    >>> from sightline import Recording, Tag, find_blind_spots, make_detector
    >>> rows = np.random.default_rng(0).normal(size=(40_000, 2))
    >>> tags = [Tag(name="LIT101"), Tag(name="FIT101")]
    >>> train = Recording(values=rows[:10_000], tags=tags, step_s=10.0)
    >>> later = Recording(values=rows[10_000:], tags=tags, step_s=10.0)
    >>> spots = find_blind_spots(
    ...     make_detector("mean").fit(train),
    ...     later,
    ...     train=train,
    ...     durations_s=[60.0],
    ...     shapes=["step"],
    ... )
    >>> len(spots.tags), {spot.rule for spot in spots.of_rule()} == {spots.chosen}
    (2, True)
    """

    name: str
    detector: str | None
    testbed: str | None
    budget: str
    is_residual: bool
    is_linear: bool
    chosen: str
    n_places: int
    seed: int
    days: float
    rules: tuple[RuleSight, ...]
    spots: tuple[BlindSpot, ...]
    tags: tuple[str, ...] = ()
    sentences: tuple[str, ...] = ()
    trade_off: tuple[TradeOff, ...] = ()
    attackers: tuple[KnowingAttacker, ...] = ()
    what_if: tuple[WhatIf, ...] = ()
    together: tuple[TogetherSize, ...] = ()
    notes: tuple[str, ...] = ()
    key: str = ""

    def _line(self) -> str:
        return (
            f"{self.name!r}: {len(self.tags)} tags, "
            f"{len(self.rules)} rules, {len(self.spots)} falsifications, "
            f"{self.n_places} places"
        )

    def of_rule(self, rule: str | None = None) -> tuple[BlindSpot, ...]:
        """Return the table of one rule, by default of the chosen one."""
        return tuple(s for s in self.spots if s.rule == (rule or self.chosen))

    def rows(self) -> list[dict[str, object]]:
        """Return the rows of ``blindspots.csv``."""
        return [spot_row(spot) for spot in self.spots]


def spot_row(spot: BlindSpot) -> dict[str, object]:
    """Return one row of ``blindspots.csv``."""
    row: dict[str, object] = {
        "tag": spot.tag,
        "shape": spot.shape,
        "sign": spot.sign,
        "duration_s": spot.duration_s,
        "rule": spot.rule,
        "outcome": spot.outcome.value,
        "unit": spot.unit,
    }
    for name, at in (("50", spot.half), ("90", spot.most)):
        row |= {
            f"size_{name}": at and at.size,
            f"low_{name}": at and at.low,
            f"high_{name}": at and at.high,
            f"of_range_{name}": at and at.of_range,
        }
    return row | {
        "largest": spot.largest,
        "delay_s": spot.delay_s,
        "share_seen": spot.share_seen,
        "on_release": spot.on_release,
        "places": spot.n_places,
        "analytic": spot.analytic,
        "uneven": spot.is_uneven,
    }


def together_row(one: TogetherSize) -> dict[str, object]:
    """Return one row of ``together.csv``; an empty count stands for any number."""
    moves = zip(one.others, one.factors, strict=True)
    return asdict(one) | {
        "outcome": one.outcome.value,
        "others": "; ".join(one.others),
        "factors": "; ".join(f"{name} {factor:.4g}" for name, factor in moves),
    }


def nearest_duration(durations: Iterable[float], wanted: float = USUAL_S) -> float:
    """Return the duration that is nearest to the usual one, by ratio."""
    return min(durations, key=lambda one: (abs(np.log(one / wanted)), one))


def mean_share(spots: Sequence[BlindSpot]) -> float | None:
    """Return the geometric mean of min(10, 50% size / range); None without spots.

    Examples
    --------
    >>> at = SizeAt(size=2.0, low=1.0, high=3.0, of_range=0.1)
    >>> spot = BlindSpot(tag="a", shape="step", sign=1, duration_s=900, rule="z",
    ...     outcome=SpotOutcome.SEEN, unit="m", n_places=40, half=at, most=at)
    >>> mean_share([spot])
    0.1
    """
    shares = [
        min(MOST_IN_MEAN, s.half.of_range)
        if s.half and s.half.of_range is not None
        else MOST_IN_MEAN
        for s in spots
    ]
    if not shares:
        return None
    return float(np.exp(np.mean(np.log(np.maximum(shares, 1e-12)))))


def blindness_of(
    spots: Iterable[BlindSpot], sensors: Iterable[str] | None = None
) -> float | None:
    """Return the blindness of a rule from its table; see `RuleSight`."""
    wanted = None if sensors is None else set(sensors)
    usable = [
        s
        for s in spots
        if s.shape in ("step", "ramp") and (wanted is None or s.tag in wanted)
    ]
    if not usable:
        return None
    usual = nearest_duration({s.duration_s for s in usable})
    return mean_share([s for s in usable if s.duration_s == usual])


# --- In words -------------------------------------------------------------------------


def blindest(result: BlindSpots, rule: str | None = None) -> list[BlindSpot]:
    """Return the largest blind spot of each tag, the blindest tag first.

    Steps and ramps of the usual duration; by 50% size as a share of the tag's range.
    Tags whose reading leaves its possible range before anything is seen come first.
    """
    return blindest_of(result.of_rule(rule))


def blindest_of(spots: Iterable[BlindSpot]) -> list[BlindSpot]:
    """Return the same of the table of one rule."""
    spots = [s for s in spots if s.shape in ("step", "ramp")]
    if not spots:
        return []
    usual = nearest_duration({s.duration_s for s in spots})
    worst: dict[str, BlindSpot] = {}
    for spot in spots:
        if spot.duration_s == usual and (
            spot.tag not in worst or weight(spot) > weight(worst[spot.tag])
        ):
            worst[spot.tag] = spot
    return sorted(worst.values(), key=weight, reverse=True)


def weight(spot: BlindSpot) -> float:
    """Return by how much a rule is blind: the size as a share of the range."""
    if spot.half is not None and spot.half.of_range is not None:
        return spot.half.of_range
    return float("inf") if spot.outcome is SpotOutcome.NOT_SEEN else 1e6


def unseen(result: BlindSpots) -> list[BlindSpot]:
    """Return shapes without a size that are missed for the longest duration."""
    longest: dict[tuple[str, str], BlindSpot] = {}
    for spot in result.of_rule():
        if spot.shape in UNSIZED and spot.share_seen is not None:
            known = longest.setdefault((spot.tag, spot.shape), spot)
            if spot.duration_s > known.duration_s:
                longest[spot.tag, spot.shape] = spot
    missed = [s for s in longest.values() if (s.share_seen or 0.0) < 0.5]
    return sorted(missed, key=lambda s: (s.shape, s.share_seen or 0.0, s.tag))


def unseen_sentences(result: BlindSpots) -> list[str]:
    """Return which tags can be frozen, dead or replayed unseen, a line a shape."""
    missed, lines = unseen(result), []
    for shape, verb in _CAN.items():
        if spots := [spot for spot in missed if spot.shape == shape]:
            who = names([spot.tag for spot in spots], 5)
            longest = duration(max(spot.duration_s for spot in spots))
            lines.append(
                f"{who} can {verb} for {longest} ({shape}): rule {spots[0].rule!r} "
                "misses this in more than half of the tries."
            )
    return lines


def helped(sizes: Iterable[TogetherSize]) -> str:
    """Return how far a tag can be off with others, as the end of a sentence.

    Examples
    --------
    >>> from dataclasses import replace
    >>> one = TogetherSize(tag="L1", rule="z", shape="step", sign=1, duration_s=900,
    ...     unit="m", count=0, outcome=SpotOutcome.SEEN, size=1.2, of_range=0.3,
    ...     share_seen=0.5, n_places=40)
    >>> two = replace(one, count=2, size=2.4, others=("L2", "P1"))
    >>> helped([one, two, replace(two, count=None)])
    ' Together with L2 and P1 by 2.4 m.'
    """
    parts, last = [], 0.0
    for one in sizes:
        if one.count == 0 or one.size <= last * _WORTH_SAYING:
            last = max(last, one.size)
            continue
        last = one.size
        amount = f"by {number(one.size)} {one.unit}".strip()
        if one.outcome is not SpotOutcome.SEEN:
            amount += " (more is not possible)"
        parts.append(f"with {names(one.others, 3)} {amount}")
    return f" Together {', '.join(parts)}." if parts else ""


def sentence(spot: BlindSpot, *, is_residual: bool = False) -> str:
    """Return what can be done to a tag without an alarm, in half of the tries.

    Examples
    --------
    >>> at = SizeAt(size=350.0, low=300.0, high=400.0, of_range=0.32)
    >>> print(sentence(BlindSpot(tag="LIT301", shape="ramp", sign=1, duration_s=900,
    ...     rule="all", outcome=SpotOutcome.SEEN, unit="mm", n_places=40, half=at)))
    LIT301 can drift up by 350 mm within 15 min (32% of its range): rule 'all' misses
    this in half of 40 tries.
    """
    what = f"The residual of {spot.tag}" if is_residual else spot.tag
    verb = {
        ("ramp", 1): "drift up",
        ("ramp", -1): "drift down",
        ("step", 1): "be raised",
        ("step", -1): "be lowered",
    }.get((spot.shape, spot.sign), f"be falsified ({spot.shape})")
    span = duration(spot.duration_s)
    when = f"within {span}" if spot.shape == "ramp" else f"for {span}"
    if spot.outcome is SpotOutcome.NO_POSSIBLE_VALUE:
        return (
            f"{what} can {verb} to any possible value {when}: rule {spot.rule!r} "
            f"misses this in more than half of {spot.n_places} tries."
        )
    if spot.half is None or spot.half.size is None:
        largest = "" if spot.largest is None else f" (tried up to {size(spot)})"
        return (
            f"{what} can {verb} by any amount {when}{largest}: rule {spot.rule!r} "
            f"misses this in more than half of {spot.n_places} tries."
        )
    part = range_words(spot.half.of_range)
    return (
        f"{what} can {verb} by {size(spot)} {when} ({part}): rule {spot.rule!r} misses "
        f"this in half of {spot.n_places} tries."
    )


def range_words(of_range: float | None) -> str:
    """Return a share of a tag's range in words.

    Examples
    --------
    >>> range_words(0.32), range_words(7.8)
    ('32% of its range', '7.8 times its range')
    """
    if of_range is None:
        return "of unknown range"
    if of_range > 1.5:
        return f"{number(round(of_range, 1))} times its range"
    return f"{share(of_range)} of its range"


def size(spot: BlindSpot) -> str:
    """Return the 50% size, or the largest one that was tried, with its unit."""
    value = spot.half.size if spot.half and spot.half.size is not None else spot.largest
    return f"{number(value)} {spot.unit}".strip()


def sentences_of(result: BlindSpots) -> tuple[str, ...]:
    """Return the blindest tags in sentences, and which rule would see more.

    After them: tags that can be frozen, dead or replayed unseen.
    """
    others: dict[str, list[TogetherSize]] = {}
    for one in result.together:
        others.setdefault(one.tag, []).append(one)
    lines = [
        sentence(spot, is_residual=result.is_residual)
        + helped(others.get(spot.tag, ()))
        for spot in blindest(result)[:N_SENTENCES]
    ]
    lines += unseen_sentences(result)
    better = better_rule(result.rules, result.chosen)
    return (*lines, better) if better else tuple(lines)


def better_rule(rules: Sequence[RuleSight], chosen: str) -> str | None:
    """Return which rule sees smaller deviations than the chosen one, if any does."""
    known = {rule.name: rule for rule in rules if rule.blindness}
    if chosen not in known or len(known) < 2:
        return None
    here = known[chosen]
    best = min(known.values(), key=lambda rule: rule.blindness or 1e9)
    if best.name == chosen or not best.blindness or not here.blindness:
        return None
    return (
        f"Rule {best.name!r} sees deviations {here.blindness / best.blindness:.1f} "
        f"times smaller than rule {chosen!r}, as a mean over tags."
    )
