"""The first screen: what was looked at, what to change, what was found and not seen.

Five questions, each answered in a few lines with its number, and a link to the section
that has the rest. The detector that is spoken of is the first of the testbed, as
`sightline.report.entries.entries_of` orders them.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from sightline.audit.codes import Finding, Severity
from sightline.judgement.verdicts import Verdict, VerdictInfo
from sightline.metrics.alarm_load import DAY_S
from sightline.metrics.intervals import count_interval
from sightline.report.blind_spots import first_sentence
from sightline.report.entries import OWN, RULE_LABELS, Entry, cost_of, found, load_of
from sightline.report.overview import found_by_chance, rule_advice
from sightline.rules.advice import PRESENT_WORDS, RuleDecision, decide
from sightline.rules.judging import CommissioningFacts, RuleOutcome
from sightline.rules.named import CHOSEN
from sightline.text import (
    duration,
    mean_count,
    names,
    p_value,
    per_day,
    plural,
    share,
)


@dataclass(frozen=True)
class AdvisedRule:
    """A rule of the advice: its role ("now", "instead", "compared") and its outcome."""

    role: str
    name: str
    outcome: RuleOutcome


@dataclass(frozen=True, kw_only=True)
class Advised:
    """What to change.

    Parameters
    ----------
    heading : str
        What to do, in one phrase.
    text : str
        Why, where there is no table of rules.
    rules : tuple of AdvisedRule
        The rule in use, and the one that is compared with it.
    basis, caveat : str
        On which rows; what speaks against trusting it.
    command : str
        The command that writes the rule; empty unless it is advised.
    """

    heading: str
    text: str = ""
    rules: tuple[AdvisedRule, ...] = ()
    basis: str = ""
    caveat: str = ""
    command: str = ""


def advised(entry: Entry) -> Advised:
    """Return what to change first with one detector."""
    evaluation, facts = entry.evaluation, entry.evaluation.rules
    if entry.is_earlier:
        return Advised(
            heading="Evaluate the stream again",
            text="These results were made by the rules of an earlier version.",
        )
    withheld = (evaluation.diagnosis and evaluation.diagnosis.advice_withheld) or ""
    if facts is None:
        refused = evaluation.rules_refused
        if refused is None:
            heading = "No alarm rule was asked for"
            text = "Evaluate again with a budget of false alarms (--budget 6/day,1%)."
        else:
            heading, text = "No alarm rule could be made", refused
        return Advised(heading=heading, text=f"{text} {withheld}".strip())
    present, chosen = facts.present[-1], facts.row(facts.chosen)
    words, decision = PRESENT_WORDS[present.name], decide(facts)
    replaced = f"Replace {words} of {entry.label} by rule {chosen.name!r}"
    headings = {
        RuleDecision.REPLACE: replaced,
        RuleDecision.KEEP: f"Keep {words} of {entry.label}",
        RuleDecision.WAIT: f"Do not change the rule of {entry.label} yet",
        RuleDecision.REFUSE: f"Do not use rule {chosen.name!r} with {entry.label}",
        RuleDecision.UNJUDGED: f"Rule {chosen.name!r} is made, but not yet judged",
    }
    if decision is RuleDecision.UNJUDGED:
        return Advised(heading=headings[decision], text=rule_advice(evaluation))
    is_advised = decision is RuleDecision.REPLACE
    later = f" and {plural(facts.n_attacks, 'later attack')}" if facts.n_attacks else ""
    return Advised(
        heading=headings[decision],
        rules=(
            AdvisedRule("now", words.removeprefix("the "), present),
            AdvisedRule(
                "instead" if is_advised else "compared", f"rule {chosen.name!r}", chosen
            ),
        ),
        basis=f"Made for {facts.budget}. Both are judged on {facts.judged_days:.1f} "
        f"later attack-free days{later}.",
        caveat=" ".join(filter(None, [withheld, _caveat(facts, chosen)])),
        command=f"sightline commission {evaluation.stream.name}.npz --budget "
        f"{facts.budget} --choose {chosen.name} --out rule"
        if is_advised
        else "",
    )


def _caveat(facts: CommissioningFacts, chosen: RuleOutcome) -> str:
    """Return what speaks against trusting the number of alarms of the chosen rule."""
    parts = []
    if chosen.promised_per_day is not None and chosen.promised_interval:
        low, high = map(per_day, chosen.promised_interval)
        parts.append(
            f"{per_day(chosen.promised_per_day)} a day were expected of it (90% "
            f"interval {low} to {high})."
        )
    if facts.chosen != CHOSEN and any(repr(CHOSEN) in note for note in facts.notes):
        parts.append(
            f"It is chosen in hindsight: rule {CHOSEN!r} is over the budget there."
        )
    return " ".join(parts)


@dataclass(frozen=True, kw_only=True)
class FoundAttacks:
    """How many attacks the rule in use finds, and at what cost.

    Parameters
    ----------
    count, rule : str
        Such as "17 of 26", and "by the p99 rule of var".
    interval, chance, cost : str
        The exact 95% interval, what chance finds, false alarms and share of time.
    others : str
        What other detectors find; empty without others.
    """

    count: str
    rule: str
    interval: str
    chance: str
    cost: str
    others: str


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One line with a link to its section, and whether it is a warning."""

    text: str
    key: str
    link: str
    is_warning: bool = False


@dataclass(frozen=True, kw_only=True)
class FirstScreen:
    """The first screen of one testbed.

    Parameters
    ----------
    detector : str
        The detector that is spoken of.
    looked_at : tuple of (str, str)
        Numbers, and the keys of their terms in the glossary.
    advised : Advised
        What to change.
    found : FoundAttacks, optional
        None without attacks.
    cost : str
        False alarms of the rule in use.
    believed : tuple of Statement
        How far the figures can be trusted.
    missed : tuple of (VerdictInfo, str, int)
        Why attacks are missed: verdict, words and count.
    n_missed : int
        How many are.
    blind : str
        The largest blind spot; empty if none was searched.
    blind_command : str
        The command that searches them.
    n_episodes : int, optional
        Unexplained episodes of a record without attacks.
    """

    detector: str
    looked_at: tuple[tuple[str, str], ...]
    advised: Advised
    found: FoundAttacks | None
    cost: str
    believed: tuple[Statement, ...]
    missed: tuple[tuple[VerdictInfo, str, int], ...]
    n_missed: int
    blind: str
    blind_command: str
    n_episodes: int | None


def first_screen(entries: Sequence[Entry]) -> FirstScreen:
    """Return the first screen of a testbed.

    Parameters
    ----------
    entries : sequence of Entry
        All entries of one testbed, at least one, the best detector first.
    """
    best = entries[0]
    evaluation = best.evaluation
    p, folder = evaluation.stream.p, best.results[0].folder
    missed = [
        (info, info.in_words(p), count)
        for info, count in best.verdict_counts
        if info.word != Verdict.DETECTED
    ]
    is_study = folder is not None and (folder.parent / "study.json").exists()
    searched = f"{evaluation.stream.name}.npz --out blind"
    if is_study:
        searched = f"STUDY --detector {best.detector}"
    spots = next((s for e in entries if (s := e.results[0].blind_spots)), None)
    return FirstScreen(
        detector=best.label,
        looked_at=_looked_at(entries),
        advised=advised(best),
        found=_found(best, entries[1:]) if evaluation.segments else None,
        cost=_cost(best),
        believed=_believed(entries),
        missed=tuple(sorted(missed, key=lambda row: -row[2])),
        n_missed=sum(count for _, _, count in missed),
        blind="" if spots is None else first_sentence(spots),
        blind_command=f"sightline blindspots {searched}",
        n_episodes=None if evaluation.episodes is None else len(evaluation.episodes),
    )


def later_rows(entries: Sequence[Entry]) -> str:
    """Return on which rows the false alarms of a testbed's rules are counted."""
    known = [one for e in entries if (one := e.evaluation.rules) and one.judged_days]
    if not known:
        return ""
    days = dict.fromkeys(f"{one.judged_days:.1f}" for one in known)
    return (
        "False alarms of all rules are counted on the same later rows, "
        f"{' to '.join(sorted(days))} attack-free days that set no limit. Attacks "
        f"found are of the whole record, attacks raised of the same later rows."
    )


def _looked_at(entries: Sequence[Entry]) -> tuple[tuple[str, str], ...]:
    """Return what was looked at: rows, days, tags, attacks and detectors."""
    stream = entries[0].evaluation.stream
    known = [one for e in entries if (one := e.evaluation.recording) is not None]
    rows, step = stream.n_test, stream.step_s
    span = "" if step is None else f", {_days(rows * step)} in rows of {duration(step)}"
    parts = [
        (f"{rows:,} rows{span}", "record"),
        (plural(stream.p, "tag"), "tag"),
        (
            plural(stream.n_segments, "attack")
            if stream.n_segments
            else "no incident listed",
            "attack",
        ),
        (
            entries[0].label if len(entries) == 1 else plural(len(entries), "detector"),
            "detector",
        ),
    ]
    if known and known[0].plant not in ("", entries[0].testbed):
        parts.insert(0, (known[0].plant, "testbed"))
    return tuple(parts)


def _days(seconds: float) -> str:
    """Return a length of time in days, or in words if it is short.

    Examples
    --------
    >>> _days(172_800.0), _days(3600.0)
    ('2.0 days', '60 min')
    """
    return f"{seconds / DAY_S:.1f} days" if seconds >= DAY_S else duration(seconds)


def _cost(entry: Entry) -> str:
    """Return what the rule in use costs."""
    words, rate = cost_of(entry.evaluation, entry.main_rule)
    load = load_of(entry.evaluation, entry.main_rule)
    noun = "" if load is None else " false alarms"
    count, _, rest = words.partition(" ")
    if count == "1":
        noun = noun.removesuffix("s")
    return f"{count}{noun} {rest}, {rate} of attack-free time"


def _found(best: Entry, others: Sequence[Entry]) -> FoundAttacks:
    """Return what the rule in use of the best detector finds."""
    evaluation, rule = best.evaluation, best.main_rule
    n, n_found = evaluation.stream.n_segments, found(evaluation, rule)
    low, high = count_interval(n_found, n)
    count = found_by_chance(evaluation, rule)
    chance = "chance not measured"
    if count is not None:
        chance = f"{mean_count(count.by_chance)} by chance, {p_value(count.p_value)}"
    counts = [found(one.evaluation, one.main_rule) for one in others]
    rest = ""
    if counts:
        spread = " to ".join(dict.fromkeys(map(str, (min(counts), max(counts)))))
        rest = f"The rules in use of the other {len(counts)} find {spread}."
        if len(counts) == 1:
            rest = f"The rule in use of {others[0].label} finds {spread}."
    of = "own rule" if rule == OWN else RULE_LABELS[rule]
    return FoundAttacks(
        count=f"{n_found} of {n}",
        rule=f"by the {of} of {best.label}",
        interval=f"{share(low / n)} to {share(high / n)}",
        chance=chance,
        cost=_cost(best),
        others=rest,
    )


def _believed(entries: Sequence[Entry]) -> tuple[Statement, ...]:
    """Return how far the figures can be trusted, with links to the sections."""
    evaluation = entries[0].evaluation
    carried = [e.evaluation for e in entries if e.evaluation.recording is not None]
    if carried:
        notices = carried[0].recording.notices if carried[0].recording else ()
        about = [
            f
            for f in carried[0].findings
            if not f.is_protocol and f.text not in notices
        ]
        data = _counts("Data", about, "your-data")
    else:
        data = Statement(
            text="Data: not audited, these results carry no facts about the recording",
            key="finding",
            link="your-data",
        )
    protocol = {f for e in entries for f in e.evaluation.findings if f.is_protocol}
    rows = [data, _counts("Method", sorted(protocol, key=str), "protocol")]
    facts = evaluation.diagnosis
    if facts is not None and facts.false_cause_rate is not None:
        rows.append(
            Statement(
                text=f"False causes: {share(facts.false_cause_rate, 1)} of "
                f"{facts.n_calm_windows:,} attack-free windows would get one",
                key="false-cause-rate",
                link="provenance",
                is_warning=facts.advice_withheld is not None,
            )
        )
    if evaluation.segments:
        rows.append(
            Statement(
                text="Verdicts and repairs: judged in hindsight, on the same record",
                key="repair",
                link="provenance",
            )
        )
    return tuple(rows)


def _counts(what: str, found_: Sequence[Finding], link: str) -> Statement:
    """Return the findings by severity, in one line."""
    counts = Counter(one.severity for one in found_)
    words = [
        plural(counts[severity], str(severity))
        for severity in Severity
        if counts[severity]
    ]
    return Statement(
        text=f"{what}: {names(words) if words else 'nothing found'}",
        key="finding",
        link=link,
        is_warning=bool(counts[Severity.ERROR] or counts[Severity.WARNING]),
    )
