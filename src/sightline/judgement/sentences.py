"""Verdicts and advice in words: channels and numbers, and honest about hindsight."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sightline.audit.attack_facts import AttackFacts, Movement
from sightline.judgement.confidence import UNSURE
from sightline.judgement.event_test import (
    FEW_DISJOINT,
    LEAST_ROWS,
    LEAST_WINDOWS,
    ONSET_ROWS,
    RARE,
    Flag,
    Way,
)
from sightline.judgement.ladder import LADDER, Kind
from sightline.judgement.verdicts import (
    VERDICTS,
    Count,
    Repair,
    RungName,
    RungOutcome,
    SegmentDiagnosis,
    Verdict,
)
from sightline.rules.advice import load_words, raised_words
from sightline.text import duration, mean_count, names, number, p_value, share

# More channels than this are counted, not listed.
MOST_NAMES: Final = 5
_RULES: Final = {
    RungName.OWN_RULE: "Your own rule",
    RungName.PROBE: "The p99 rule",
}
# What limits the comparison with calm time, in words.
FLAG_TEXTS: Final = {
    Flag.UNMATCHED: "too few attack-free stretches in a similar state: the nearest in "
    "state were used",
    Flag.SHORTENED: "the attack-free stretches are shorter than the attack",
    Flag.STATE_CHANGED: "the state after the attack differs from that before it, so a "
    "change of normal operation cannot be told from the attack",
    Flag.FEW_WINDOWS: f"fewer than {FEW_DISJOINT} attack-free stretches do not "
    "overlap, so no p-value is given",
}


def chance_of(count: Count) -> str:
    """Return the chance that stands beside a count of attacks.

    Examples
    --------
    >>> chance_of(Count(count=18, total=26, by_chance=0.43, p_value=1e-9))
    '0.4 by chance, p < 0.001'
    """
    return f"{mean_count(count.by_chance)} by chance, {p_value(count.p_value)}"


@dataclass(frozen=True)
class _RungWords:
    """The figures of a rung as the templates of the sentences name them."""

    outcome: RungOutcome
    n_windows: int
    few: bool = False
    is_rule: bool = False

    @property
    def is_alarm(self) -> bool:
        """Whether the rung is a rule of which only the alarms are known."""
        return self.is_rule and self.outcome.peak is None

    @property
    def coverage(self) -> str:
        return share(self.outcome.coverage)

    @property
    def limit(self) -> str:
        return share(self.outcome.limit)

    @property
    def by(self) -> str:
        """What was used, in words."""
        used = [by for by in self.outcome.by if not by.isdecimal()]
        spans = [by for by in self.outcome.by if by.isdecimal()]
        over = f", averaged over {spans[0]} rows" if spans else ""
        return f"{names(used)}{over}"

    @property
    def finding(self) -> str:
        """How the attack stands out, in hindsight, against calm windows."""
        ways, outcome = self.outcome.ways, self.outcome
        if Way.COVERAGE in ways or not ways:
            # The limit of a rule was there before; that of a repair was not.
            when = "" if self.is_rule else "in hindsight "
            where = "is in alarm" if self.is_alarm else "lies beyond the limit"
            text = f"{when}{self.coverage} of it {where}; "
            text += f"attack-free stretches: {share(outcome.calm)}"
        elif Way.ONSET in ways:
            text = f"its first {ONSET_ROWS} rows peak at {_times(outcome.onset)}"
        else:
            text = f"it peaks at {_times(outcome.peak)}"
        return f"{text}; {self.rarely}"

    @property
    def against(self) -> str:
        """Coverage of an attack that a rung does not show, and of calm windows."""
        where = "is in alarm" if self.is_alarm else "lies beyond"
        return (
            f"{self.coverage} of it {where}; attack-free stretches: "
            f"{share(self.outcome.calm)}, one in {round(1 / (1 - RARE))} above "
            f"{self.limit}"
        )

    @property
    def rarely(self) -> str:
        """How many calm stretches do the same, with the p-value where it has one."""
        p_value = self.outcome.p_value
        if p_value is None:
            return "as attack-free stretches do not"
        n = round(p_value * (1 + self.n_windows)) - 1
        count = "none" if n == 0 else f"{n}"
        kind = "overlapping " if self.few else ""
        text = f"{count} of {self.n_windows} {kind}attack-free stretches of this length"
        text += " does that" if n <= 1 else " do that"
        return text if self.few else f"{text} (p {p_value:.2g})"


def _times(multiple: float | None) -> str:
    if multiple is None or multiple >= 1e4:
        return "far beyond the limit"
    return f"{number(float(f'{multiple:.2g}'))} times the limit"


def sentence_of(diagnosis: SegmentDiagnosis, *, n_channels: int) -> str:
    """Return the verdict on one attack in words, for an operator of the plant.

    Parameters
    ----------
    diagnosis : SegmentDiagnosis
        The verdict, and what each rung makes of the attack.
    n_channels : int
        Channels that are pooled.
    """
    verdict = diagnosis.verdict or Verdict.UNDECIDED
    if diagnosis.windows is None or diagnosis.confidence is None:
        return VERDICTS[Verdict.UNDECIDED].sentence.format(
            least_windows=LEAST_WINDOWS, least_rows=LEAST_ROWS
        )
    words = _words(diagnosis, n_channels)
    if verdict is Verdict.UNDECIDED:
        leading = list((diagnosis.alternatives or {}).items())[:2]
        named = [f"{word} ({share(part)} of draws)" for word, part in leading]
        return (
            f"Too close to call: {names(named)}. A longer attack-free recording would "
            "help."
        )
    text = VERDICTS[verdict].sentence.format_map(words)
    if diagnosis.confidence < UNSURE:
        text = f"It may be so ({share(diagnosis.confidence)} of draws agree). {text}"
    others = list(diagnosis.contributing or ())
    if others and verdict is not Verdict.DETECTED:
        repair, shows = ("repair", "shows") if len(others) == 1 else ("repairs", "show")
        text += f" The {repair} for {names(others)} {shows} it as well."
    if Flag.STATE_CHANGED in (diagnosis.flags or ()):
        text += (
            " The plant's state after the attack differs from that before it, so that "
            "a change of normal operation cannot be told from the attack."
        )
    return text


def _words(diagnosis: SegmentDiagnosis, n_channels: int) -> dict[str, object]:
    """Return what the templates name: figures of rungs, and a few phrases."""
    ladder, windows = diagnosis.ladder or {}, diagnosis.windows
    few = Flag.FEW_WINDOWS in (diagnosis.flags or ())
    count = 0 if windows is None else windows.count
    rungs = {
        name: _RungWords(outcome, count, few, LADDER[name].kind is Kind.RULE)
        for name, outcome in ladder.items()
    }
    present = diagnosis.found.rule if diagnosis.found else RungName.PROBE
    repairs = [
        (name, outcome)
        for name, outcome in ladder.items()
        if LADDER[name].kind in (Kind.REPAIR, Kind.MEMORY)
    ]
    best = max(repairs, key=lambda pair: pair[1].coverage - pair[1].calm)
    return {
        **rungs,
        "rule": rungs[present],
        "rule_name": _RULES[present],
        "n_channels": n_channels,
        "n_matched": 0 if windows is None else windows.matched,
        "best_finding": f"at best {share(best[1].coverage)} of it lies beyond a limit; "
        f"attack-free stretches: {share(best[1].calm)}",
        "telemetry_finding": telemetry_finding(diagnosis.telemetry),
    }


def telemetry_finding(facts: AttackFacts | None) -> str:
    """Return what the telemetry's own test says, in one sentence."""
    if facts is None or facts.p_value is None:
        return "Whether the telemetry moves was not judged: no usable one was given."
    p_value = f"p {facts.p_value:.2g}"
    if facts.movement is Movement.MOVES:
        onset = "" if facts.onset_s is None else f", {duration(facts.onset_s)} after"
        onset = onset and f"{onset} its start"
        return (
            f"But the telemetry itself moves ({p_value}), most in "
            f"{names(facts.channels)}{onset}: a better model of the plant is needed."
        )
    if facts.movement is Movement.UNCLEAR:
        return (
            "Whether the telemetry itself moves is unclear: it moves more than most of "
            f"{facts.n_windows} attack-free stretches ({p_value})."
        )
    return (
        "The telemetry's own test does not tell this attack from "
        f"{facts.n_windows} attack-free stretches ({p_value})."
    )


def repair_sentence(name: str, repair: Repair) -> str:
    """Return what a repair shows in hindsight, and what it costs as an alarm rule.

    Parameters
    ----------
    name : str
        Name of its rung.
    repair : Repair
        What it shows, and the rule that carries it out.

    Returns
    -------
    str
        Empty where it shows no attack that the present rule misses.
    """
    if not repair.segments_gained:
        return ""
    by = names(repair.by, MOST_NAMES) or "single channels"
    what = (LADDER[name].repair or name).format(by=by)
    text = (
        f"{what[0].upper()}{what[1:]} shows in hindsight "
        f"{_attacks(repair.segments_gained)}, which the present rule misses"
    )
    if repair.segments_lost:
        text += f", but not {_attacks(repair.segments_lost)}"
    if repair.after is None:
        return f"{text}. No alarm rule was made of it."
    rule = repair.after
    return (
        f"{text}. As alarm rule {rule.name!r} (limit {number(rule.limit)}) it makes "
        f"{load_words(rule.load)} on later rows and raises "
        f"{raised_words(rule.attacks)}."
    )


def _attacks(ids: Sequence[str]) -> str:
    return f"attack{'' if len(ids) == 1 else 's'} {names(ids)}"
