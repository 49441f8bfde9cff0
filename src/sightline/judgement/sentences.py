"""Verdicts and advice in words: channels and numbers, and honest about hindsight."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sightline.judgement.calm import BUDGET, LEAST_ROWS, LEAST_WINDOWS, RARE
from sightline.judgement.ladder import LADDER, LadderResult, Used
from sightline.judgement.subspaces import Subspace, SubspaceKind
from sightline.judgement.verdicts import (
    VERDICTS,
    Repair,
    RungName,
    RungOutcome,
    Verdict,
)
from sightline.text import names, share

# More names than this are counted, not listed.
MOST_NAMES = 4
_BUDGET = share(BUDGET)


@dataclass(frozen=True)
class _RungWords:
    """The figures of a rung as the templates of the sentences name them."""

    outcome: RungOutcome

    def __getattr__(self, name: str) -> str:
        """Return a figure of the outcome in per cent."""
        return share(getattr(self.outcome, name))

    @property
    def hindsight(self) -> str:
        return f"in hindsight {self.coverage} of this attack lies beyond"

    @property
    def usual(self) -> str:
        return f"attack-free time: {self.calm}"

    @property
    def against_nearby(self) -> str:
        """Coverage of an attack that a rung does not show, and of calm windows."""
        return f"{self.coverage}; attack-free time near it: {self.calm}, {self.rarely}"

    @property
    def rarely(self) -> str:
        return f"one window in {round(1 / (1 - RARE))} above {self.limit}"


def sentence_of(
    result: LadderResult,
    *,
    n_channels: int,
    also: Sequence[str] = (),
    more_alarms: float | None = None,
) -> str:
    """Return the verdict on one attack in words, for an operator of the plant.

    Parameters
    ----------
    result : LadderResult
        The verdict, and what each rung makes of the attack.
    n_channels : int
        Channels that are pooled.
    also : sequence of str
        Ids of other missed attacks that the same subspace shows.
    more_alarms : float, optional
        False alarms a day that this subspace adds.
    """
    verdict = result.verdict
    words = {name: _RungWords(o) for name, o in result.outcomes.items()}
    text = VERDICTS[verdict].sentence.format_map(
        words | _phrases(result, n_channels) if words else _COMMON
    )
    if verdict is Verdict.DETECTED:
        return text
    if result.is_shown(RungName.OWN_RULE):
        text = f"Your own rule detects it; what follows is about the p99 rule. {text}"
    if verdict is Verdict.DILUTED:
        text += _gain(also, more_alarms)
    others = [cause for cause in result.contributing if cause is not verdict]
    if others:
        repair, shows = ("repair", "shows") if len(others) == 1 else ("repairs", "show")
        text += f" The {repair} for {names(others)} {shows} it as well."
    return text


_COMMON: Mapping[str, object] = {
    "budget": _BUDGET,
    "test_limit": f"a {_BUDGET} limit set on attack-free time",
    "least_windows": LEAST_WINDOWS,
    "least_rows": LEAST_ROWS,
}


def _phrases(result: LadderResult, n_channels: int) -> dict[str, object]:
    """Return the phrases that the templates name, other than figures of rungs."""
    used = {
        name: finding.used.phrase
        for name, finding in result.findings.items()
        if finding.used is not None
    }
    repairs = [o for name, o in result.outcomes.items() if LADDER[name].competes]
    best = max(repairs, key=lambda outcome: outcome.coverage - outcome.calm)
    return {
        **_COMMON,
        "n_channels": n_channels,
        "accumulation": used.get(RungName.ACCUMULATE),
        "refit_scope": used.get(RungName.REREFERENCE),
        "space_stands": _space_stands(result.space),
        "best": _RungWords(best),
        "telemetry_finding": _telemetry_finding(result),
    }


def _space_stands(space: Subspace | None) -> str:
    if space is None:
        return ""
    verb = "stand" if space.kind is SubspaceKind.LARGEST else "stands"
    how = {SubspaceKind.CHANNEL: " alone", SubspaceKind.GROUP: " separately"}
    return f"{space.phrase}{how.get(space.kind, '')} {verb}"


def _telemetry_finding(result: LadderResult) -> str:
    telemetry = result.outcomes.get(RungName.TELEMETRY)
    if telemetry is None:
        return "Whether the telemetry moves was not judged: no usable one was given."
    words = _RungWords(telemetry)
    return (
        f"But the telemetry itself moves in {telemetry.by[0]} ({words.hindsight} its "
        f"{_BUDGET} limit; {words.usual}): a better model of the plant is needed."
    )


def _gain(also: Sequence[str], more_alarms: float | None) -> str:
    """Return what else a subspace shows, and the false alarms that it adds."""
    alarms = ""
    if more_alarms is not None:
        word = "fewer" if more_alarms < 0 else "more"
        alarms = f"{abs(more_alarms):.1f} {word} false alarms a day"
    if also:
        cost = f", with {alarms}" if alarms else ""
        return f" In hindsight this also detects {_attacks(also)}{cost}."
    return f" This gives {alarms}." if alarms else ""


def advice_of(
    repairs: Mapping[str, Repair], used: Mapping[str, Sequence[Used]] | None = None
) -> str:
    """Return the first thing to try, in words: the repair that gains most attacks.

    Parameters
    ----------
    repairs : mapping of str to Repair
        By the name of the rung, the best one first; "own-rule" is there where the user
        has a rule, and the other repairs are then those of the p99 rule.
    used : mapping of str to sequence
        What each repair uses: subspaces, ways to accumulate, scopes of a refit.
    """
    name = next((n for n, r in repairs.items() if r.segments_gained), None)
    if name is None:
        return "No repair shows an attack that is not detected already."
    best = repairs[name]
    by = names([one.phrase for one in (used or {}).get(name, ())], MOST_NAMES)
    what = (LADDER[name].repair or "").format(by=by)
    before, after = best.false_alarms_per_day_before, best.false_alarms_per_day_after
    recall, cost = f"instead of {share(best.recall_before)}", ""
    # A rule that is always in alarm has no alarm that begins outside an attack.
    if before is not None and after is not None and after > 0:
        cost = f"; false alarms a day go from {before:.1f} to {after:.1f}"
    if RungName.OWN_RULE in repairs and name != RungName.OWN_RULE:
        own_recall = repairs[RungName.OWN_RULE].recall_before
        if own_recall >= best.recall_after:
            return (
                f"Your own rule detects {share(own_recall)} of all attacks; no repair "
                "of the p99 rule would detect more."
            )
        what += " in addition to the p99 rule"
        recall += f" (your own rule: {share(own_recall)})"
    return (
        f"First try {what}. In hindsight this also detects "
        f"{_attacks(best.segments_gained)}: {share(best.recall_after)} of all attacks "
        f"{recall}{cost}."
    )


def _attacks(ids: Sequence[str]) -> str:
    return f"attack{'' if len(ids) == 1 else 's'} {names(ids, MOST_NAMES)}"
