"""Blind spots in sentences: what an engineer can take to a meeting."""

from collections.abc import Sequence
from typing import Final

from sightline.blindspots.result import (
    BlindSpot,
    BlindSpots,
    RuleSight,
    SpotOutcome,
    nearest_duration,
)
from sightline.text import duration, number, share

N_SENTENCES: Final = 10


def blindest(result: BlindSpots, rule: str | None = None) -> list[BlindSpot]:
    """Return the largest blind spot of each tag, the blindest tag first.

    Steps and ramps of the usual duration; by 50% size as a share of the tag's range.
    Tags whose reading leaves its possible range before anything is seen come first.
    """
    spots = [s for s in result.of_rule(rule) if s.shape in ("step", "ramp")]
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


def sentence(spot: BlindSpot, *, is_residual: bool = False) -> str:
    """Return what can be done to a tag without an alarm, in half of the tries.

    Examples
    --------
    >>> from sightline.blindspots.result import SizeAt
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
    """Return the blindest tags in sentences, and which rule would see more."""
    lines = [
        sentence(spot, is_residual=result.is_residual)
        for spot in blindest(result)[:N_SENTENCES]
    ]
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
