"""Verdicts in plain words: channels and numbers, and honest about hindsight."""

from collections.abc import Mapping, Sequence

from sightline.judgement.ladder import LADDER, Climbed
from sightline.judgement.verdicts import Repair, RungName, RungOutcome, Verdict

# More names than this are counted, not listed.
_MOST_NAMES = 4


def sentence_of(
    climbed: Climbed,
    *,
    n_channels: int,
    also: Sequence[str] = (),
    more_alarms: float | None = None,
) -> str:
    """Return one sentence on one attack, for somebody who runs the plant.

    `also` are other attacks that the same smaller space shows, `more_alarms` what it
    adds to false alarms a day.
    """
    if climbed.verdict is Verdict.UNDECIDED:
        return (
            "Cannot be judged: there are fewer than 20 attack-free stretches of its "
            "length, or of 20 rows, to compare it with; record more calm hours."
        )
    rungs = climbed.rungs
    told = _TOLD[climbed.verdict]
    text = told(rungs, climbed, n_channels)
    own = rungs.get("own-rule")
    if own is not None and own.visible and climbed.verdict is not Verdict.DETECTED:
        text = f"Your own rule finds it; what follows is of the p99 rule. {text}"
    if climbed.verdict is Verdict.DILUTED:
        text += _what_else(also, more_alarms)
    others = [word for word in climbed.contributing if word != climbed.verdict]
    if others and climbed.verdict is not Verdict.DETECTED:
        text += f" Also shown by the repair for: {', '.join(others)}."
    return text


def _share(value: float) -> str:
    return f"{value:.0%}"


def _hindsight(rung: RungOutcome, limit: str) -> str:
    return (
        f"in hindsight {_share(rung.coverage)} of this attack lies beyond {limit}; "
        f"calm hours {_share(rung.calm)}"
    )


def _beside_calm(rung: RungOutcome) -> str:
    """Return why a rung does not stand out: the attack, and calm hours beside it."""
    return (
        f"{_share(rung.coverage)}; calm hours near it {_share(rung.calm)}, one in "
        f"twenty over {_share(rung.limit)}"
    )


def _detected(
    rungs: Mapping[str, RungOutcome], climbed: Climbed, n_channels: int
) -> str:
    rung = rungs[RungName.DETECTED]
    return (
        f"Detected: {_share(rung.coverage)} of this attack is above the limit that 1% "
        f"of training exceeds; calm hours near it {_share(rung.calm)}."
    )


def _threshold(
    rungs: Mapping[str, RungOutcome], climbed: Climbed, n_channels: int
) -> str:
    rung, seen = rungs["recalibrate"], rungs[RungName.DETECTED]
    return (
        f"Missed by its limit: the energy stands out ({_hindsight(rung, _CALM_LIMIT)}) "
        "but not beside calm hours by the limit from training "
        f"({_beside_calm(seen)}). Check whether the alarm limit can be set anew on "
        "calm hours of this plant."
    )


def _drift(rungs: Mapping[str, RungOutcome], climbed: Climbed, n_channels: int) -> str:
    rung, seen = rungs["rereference"], rungs[RungName.DETECTED]
    where = "around it" if rung.by == ("around it",) else "of the whole record"
    return (
        "Missed by drift: with the normal reference fitted anew on calm hours "
        f"{where}, it stands out ({_hindsight(rung, _CALM_LIMIT)}), with the one from "
        f"training it does not ({_beside_calm(seen)}). Confirm first that the change "
        "of normal operation is a known one: an attack that lasts looks like drift."
    )


def _diluted(
    rungs: Mapping[str, RungOutcome], climbed: Climbed, n_channels: int
) -> str:
    rung, pooled = rungs["refocus"], rungs["recalibrate"]
    space = rung.by[0]
    if space.startswith("largest "):
        what = (
            f"the {space.removeprefix('largest ')} largest channels of each row stand"
        )
        limit = "their own 1% limit"
    elif len(climbed.refocus_channels) > 1:
        what, limit = f"{space} by itself stands", "its own 1% limit"
    else:
        what, limit = f"{space} alone stands", "its own 1% limit"
    return (
        f"Missed by dilution: {what} out ({_hindsight(rung, limit)}) but is lost among "
        f"{n_channels} pooled channels ({_share(pooled.coverage)}). Check whether "
        "scoring this smaller space by itself would serve."
    )


def _what_else(also: Sequence[str], more_alarms: float | None) -> str:
    parts = []
    if also:
        parts.append(f"it would also show attack{_plural(also)} {_names(also)}")
    if more_alarms is not None:
        parts.append(f"at {more_alarms:.1f} more false alarms a day")
    if not parts:
        return ""
    text = ", ".join(parts)
    return f" {text[0].upper()}{text[1:]}." if also else f" It would come {text}."


def _sequential(
    rungs: Mapping[str, RungOutcome], climbed: Climbed, n_channels: int
) -> str:
    rung, pooled = rungs["accumulate"], rungs["recalibrate"]
    return (
        "Missed point by point: single points do not stand out "
        f"({_share(pooled.coverage)} beyond a limit set on calm hours), their "
        f"accumulation does (by {_way(rung)}; {_hindsight(rung, _CALM_LIMIT)}). Check "
        "whether a rule that accumulates would serve."
    )


def _way(rung: RungOutcome) -> str:
    way = rung.by[0]
    return f"an {way} rows" if way.startswith("average") else f"a {way}"


def _quiet(rungs: Mapping[str, RungOutcome], climbed: Climbed, n_channels: int) -> str:
    rung = rungs["quiet"]
    return (
        f"Missed for being quiet: it has {_share(rung.coverage)} of the usual energy "
        f"of calm hours near it, less than any of them (the least has "
        f"{_share(rung.limit)}), as frozen or replayed signals have. Check whether an "
        "alarm on too little movement would serve."
    )


def _weak(rungs: Mapping[str, RungOutcome], climbed: Climbed, n_channels: int) -> str:
    best = max(
        (rungs[name] for name in ("recalibrate", "rereference", "refocus")),
        key=lambda rung: rung.coverage - rung.calm,
    )
    start = (
        "Not seen, and no repair shows it: at best "
        f"{_share(best.coverage)} of it lies beyond a 1% limit, calm hours "
        f"{_share(best.calm)}"
    )
    if "telemetry" in rungs:
        moved = rungs["telemetry"]
        return (
            f"{start}; but the telemetry itself moves in {moved.by[0]} "
            f"({_hindsight(moved, 'its 1% limit')}). The detector's model of the plant "
            "would have to be better."
        )
    return (
        f"{start}. Whether the telemetry itself moves was not judged: none was given."
    )


def _nothing(
    rungs: Mapping[str, RungOutcome], climbed: Climbed, n_channels: int
) -> str:
    moved = rungs["telemetry"]
    return (
        "Not seen, and nothing to see: no repair shows it, and the measured telemetry "
        f"itself does not move clearly more than in calm hours (at most "
        f"{_share(moved.coverage)} beyond a 1% limit; calm hours {_share(moved.calm)}, "
        f"one in twenty over {_share(moved.limit)})."
    )


_CALM_LIMIT = "a 1% limit set on calm hours"
_TOLD = {
    Verdict.DETECTED: _detected,
    Verdict.THRESHOLD: _threshold,
    Verdict.DRIFT: _drift,
    Verdict.DILUTED: _diluted,
    Verdict.SEQUENTIAL: _sequential,
    Verdict.QUIET: _quiet,
    Verdict.WEAK_EVIDENCE: _weak,
    Verdict.NOT_IN_TELEMETRY: _nothing,
}


def advice_of(repairs: Mapping[str, Repair]) -> str:
    """Return the first thing to check: the repair that buys most."""
    name, best = next(
        ((n, r) for n, r in repairs.items() if r.segments_gained), (None, None)
    )
    if name is None or best is None:
        return "No repair would show an attack that is not detected already."
    cost = ""
    before, after = best.false_alarms_per_day_before, best.false_alarms_per_day_after
    # A rule that is always in alarm has none that begins outside an attack.
    if before is not None and after is not None and after > 0:
        cost = f"; false alarms a day would go from {before:.1f} to {after:.1f}"
    used = f" ({_names(best.by)})" if best.by else ""
    known = ""
    if "own-rule" in repairs and name != "own-rule":
        # Where there are two rules, a repair is one of the p99 rule.
        own = repairs["own-rule"].recall_before
        if own >= best.recall_after:
            return (
                f"Your own rule finds {_share(own)} of all attacks; no repair of the "
                "p99 rule would find more."
            )
        used += " beside the p99 rule"
        known = f" (your own rule finds {_share(own)})"
    return (
        f"Check first whether {LADDER[name].repair}{used} would serve: in hindsight it "
        f"shows attack{_plural(best.segments_gained)} {_names(best.segments_gained)} "
        f"as well, {_share(best.recall_after)} of all instead of "
        f"{_share(best.recall_before)}{known}{cost}."
    )


def _plural(names: Sequence[str]) -> str:
    return "" if len(names) == 1 else "s"


def _names(names: Sequence[str]) -> str:
    if len(names) > _MOST_NAMES:
        return f"{', '.join(names[:_MOST_NAMES])} and {len(names) - _MOST_NAMES} more"
    return (
        " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]
    )
