"""The first screen, and detectors at a glance: what an operator asks first.

What was looked at, what to change, what was found and not seen, what can be believed:
each answered in a few lines with its number, and a link to the section that has the
rest. The detector that is spoken of is the first of the testbed, as
`sightline.report.entries.entries_of` orders them. `sightline.cli` prints the rows of
`glance` after a study.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from sightline import text
from sightline.audit.record import Finding, Severity
from sightline.blindspots.result import blindest, sentence
from sightline.comparison import compare
from sightline.comparison.paired import STAR_LEVEL
from sightline.evaluation.result import SWITCHES, Evaluation, Protocol
from sightline.figures import FIGURES, Figure
from sightline.judgement.judge import METHOD
from sightline.judgement.verdicts import Verdict
from sightline.metrics.alarm_load import DAY_S
from sightline.report.entries import Entry
from sightline.rules.choose import (
    PRESENT_WORDS,
    advice,
)
from sightline.rules.judging import (
    ChoiceOutcome,
    CommissioningFacts,
    RuleOutcome,
    SetAction,
)
from sightline.show.evaluations import (
    OWN,
    P99,
    cost_of,
    on_rows,
    over_alarms,
)
from sightline.show.rules import GlanceRow
from sightline.show.table import CellNote

# Detectors that a sentence names.
MAX_NAMES = 3
EARLIER = (
    "These verdicts and counts were made by the rules of an earlier version, which "
    "judged many attacks differently. Evaluate the stream again to get the present "
    "ones."
)
# Figures by which the table at a glance says who is not told apart from the best.
STANDING_FIGURES = (Figure.ROC_AUC, Figure.PAUC_1)
# A line, the key of its term in the glossary, the section that has more, and whether it
# is a warning.
Statement = tuple[str, str, str, bool]


def glance(entries: Sequence[Entry]) -> list[GlanceRow]:
    """Return one row for each entry: what an operator asks first."""
    return [
        GlanceRow(
            entry.testbed,
            entry.label,
            len(entry.results),
            first_check(entry.evaluation),
            entry.at_a_glance,
        )
        for entry in entries
    ]


def ties(comparison: compare.Comparison, testbed: str) -> list[str]:
    """Return who has the highest figure, and who cannot be told apart from it.

    A sentence for each of `STANDING_FIGURES`, where a testbed has several detectors.
    """
    sentences = []
    for figure in STANDING_FIGURES:
        means = {
            row.detector: row.mean
            for row in comparison.figures
            if (row.testbed, row.figure) == (testbed, figure) and row.mean is not None
        }
        if len(means) < 2:
            continue
        best = max(means, key=lambda label: means[label] or 0.0)
        tests = {
            one: row.p_adjusted
            for row in comparison.differences
            if (row.testbed, row.figure) == (testbed, figure) and best in row.detectors
            for one in row.detectors
        }
        found: dict[str, list[str]] = {}
        for label in sorted(
            means.keys() - {best}, key=lambda one: -(means[one] or 0.0)
        ):
            p = tests.get(label)
            kind = "not compared with it"
            if p is not None:
                kind = "below it" if p <= STAR_LEVEL else "not told apart from it"
            found.setdefault(kind, []).append(
                label if p is None else f"{label} ({text.p_value(p)})"
            )
        said = "; ".join(f"{kind}: {text.names(who)}" for kind, who in found.items())
        highest = f"{best} has the highest {FIGURES[figure].name}"
        sentences.append(f"{highest}, {text.score(means[best])}; {said}.")
    return sentences


def notes_of(entry: Entry) -> list[CellNote]:
    """Return what stands below the name of a detector."""
    lines = []
    if entry.is_earlier:
        lines.append(CellNote("verdicts by earlier rules", is_warning=True))
    if len(entry.results) > 1:
        lines.append(CellNote(f"{len(entry.results)} seeds; the first is shown"))
    return lines


# ---- what to change ----------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Advised:
    """What to change.

    Parameters
    ----------
    heading : str
        What to do, in one phrase.
    text : str
        The decision with its conditions.
    why : str
        What it rests on, for those who ask.
    rules : tuple of (str, str, RuleOutcome)
        The rule in use, and the one that is compared with it: role ("now", "instead",
        "added", "compared"), name and outcome.
    basis, caveat : str
        On which rows; what speaks against trusting it.
    command : str
        The command that writes the rule; empty unless it is advised.
    """

    heading: str
    text: str = ""
    why: str = ""
    rules: tuple[tuple[str, str, RuleOutcome], ...] = ()
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
        heading, why = "No alarm rule could be made", evaluation.rules_refused
        if why is None:
            heading = "No alarm rule was asked for"
            why = "Evaluate again with a budget of false alarms (--budget 6/day,1%)."
        return Advised(heading=heading, text=f"{why} {withheld}".strip())
    present, chosen = facts.present[-1], facts.row(facts.chosen)
    words = PRESENT_WORDS[present.name]
    heading, role = _what_to_do(entry, facts, words)
    if not facts.judged_days:
        return Advised(heading=heading, text=rule_advice(evaluation))
    caveats = [withheld]
    if chosen.promised_per_day is not None and chosen.promised_interval:
        low, high = map(text.per_day, chosen.promised_interval)
        caveats.append(
            f"{text.per_day(chosen.promised_per_day)} a day were expected of it (90% "
            f"interval {low} to {high})."
        )
    later = ""
    if facts.n_attacks:
        word = "later attack" if facts.split else "attack"
        later = f" and {text.plural(facts.n_attacks, word)}"
    decision, in_set, why = facts.choice, facts.set_choice, rule_advice(evaluation)
    said = "" if decision is None else decision.sentence
    if in_set and not in_set.action.changes and decision is not None:
        said = in_set.sentence
    return Advised(
        heading=heading,
        text=facts.said(said),
        why=why,
        rules=(
            ("now", words.removeprefix("the "), present),
            (role, f"rule {chosen.name!r}", chosen),
        ),
        basis=f"Both are judged on {facts.judged_days:.1f} {facts.later_days}{later}.",
        caveat=" ".join(filter(None, caveats)),
        command=commission_command(entry) if role != "compared" else "",
    )


def _what_to_do(
    entry: Entry, facts: CommissioningFacts, in_use: str
) -> tuple[str, str]:
    """Return the decision as a heading, and the role of the chosen rule in it."""
    if facts.choice is None:
        return f"Rules for {entry.label}", "compared"
    outcome, in_set = facts.choice.outcome, facts.set_choice
    if not outcome.has_rule:
        return {
            ChoiceOutcome.REVIEW_FIRST: f"Review episodes of {entry.label} first",
            ChoiceOutcome.TRAIN_AGAIN: f"Train {entry.label} again",
            ChoiceOutcome.NO_RULE: f"No rule yet for {entry.label}",
        }[outcome], "compared"
    action = SetAction.REPLACE if in_set is None else in_set.action
    if action is SetAction.KEEP:
        return f"Keep {in_use} for {entry.label}", "compared"
    if action is SetAction.NEITHER:
        return f"No rule within twice the budget for {entry.label}", "compared"
    verb, role = "Take", "instead"
    if action is SetAction.ADD:
        verb, role = "Add", "added"
    heading = f"{verb} rule {facts.chosen!r} for {entry.label}"
    if outcome is ChoiceOutcome.TAKE:
        return heading, role
    return f"{heading}, with conditions", "compared"


def commission_command(entry: Entry) -> str:
    """Return the command that writes the chosen rule; empty without one."""
    name, facts = entry.evaluation.stream.name, entry.evaluation.rules
    if facts is None:
        return ""
    chosen = f"--budget {facts.budget} --choose {facts.chosen}"
    return f"sightline commission {name}.npz {chosen} --out rule"


def first_check(evaluation: Evaluation) -> str:
    """Return the first thing to check with one detector.

    Parameters
    ----------
    evaluation : Evaluation
        Of the first seed.

    Returns
    -------
    str
        A warning if the rule in use never stops or is in alarm too often, then whether
        no cause is to be believed, then the alarm rule to use, or why none could be
        made. Without any of these, and for results of an earlier version, what to do
        instead.
    """
    facts = evaluation.diagnosis
    if facts is not None and facts.method < METHOD:
        return "Evaluate the stream again: these verdicts are by earlier rules."
    withheld = (facts.advice_withheld or "") if facts else ""
    parts = [f"{withheld} {rule_advice(evaluation)}".strip()]
    if evaluation.stream.n_segments == 0:
        calm = (
            "No attack is labelled: check where alarms come from, and whether the "
            "reference is stable."
        )
        parts.insert(0, calm)
    rule = "Its own rule" if evaluation.own_rule else "The p99 rule"
    in_use = OWN if evaluation.own_rule else P99
    rate, rows = cost_of(evaluation, in_use)[1], on_rows(evaluation, in_use).rows
    is_standing = facts is not None and facts.is_standing
    if is_standing or over_alarms(evaluation, in_use):
        caught = on_rows(evaluation, in_use).attacks
        so = "." if caught and caught.beats_chance else ", so an alarm says little."
        if is_standing:
            so = ": it never stops for long, so its alarms say little."
        if not any(parts):
            parts = ["Check the alarm limit first."]
        where = f"of attack-free time ({rows})"
        parts.insert(0, f"{rule} is in alarm for {rate} {where}{so}")
    words = " ".join(filter(None, parts))
    names = [one.id for one in evaluation.segments]
    return text.as_labelled(words, evaluation.stream.labels, names) or (
        "Evaluated without a diagnosis: evaluate again to learn what to check."
    )


def rule_advice(evaluation: Evaluation) -> str:
    """Return which alarm rule to use, or why none could be made."""
    if evaluation.rules is not None:
        return advice(evaluation.rules)
    if evaluation.rules_refused is not None:
        return f"No alarm rule was made: {evaluation.rules_refused}"
    return (evaluation.diagnosis.advice or "") if evaluation.diagnosis else ""


# ---- what was looked at, found and missed --------------------------------------------


def looked_at(entries: Sequence[Entry]) -> list[tuple[str, str]]:
    """Return what was looked at, with the keys of the terms in the glossary.

    Facts of the recording, whichever detector comes first: its tags, and the rows and
    attacks of the finest stream made of it.
    """
    streams = [entry.evaluation.stream for entry in entries]
    stream = max(streams, key=lambda one: one.n_test)
    known = [one for e in entries if (one := e.evaluation.recording) is not None]
    n_tags = max((len(one.tags) for one in known), default=0)
    rows, step = f"{stream.n_test:,} rows", stream.step_s
    if step is not None:
        seconds = stream.n_test * step
        days = f"{seconds / DAY_S:.1f} days"
        span = days if seconds >= DAY_S else text.duration(seconds)
        rows += f", {span} in rows of {text.duration(step)}"
    n, n_entries = max(one.n_segments for one in streams), len(entries)
    detectors = text.plural(n_entries, "detector")
    parts = [
        (rows, "record"),
        (text.plural(n_tags or max(one.p for one in streams), "tag"), "tag"),
        (text.plural(n, "attack") if n else "no incident listed", "attack"),
        (entries[0].label if n_entries == 1 else detectors, "detector"),
    ]
    if known and known[0].plant not in ("", entries[0].testbed):
        parts.insert(0, (known[0].plant, "testbed"))
    return parts


def cost_words(entry: Entry) -> str:
    """Return what the rule in use costs."""
    words, rate = cost_of(entry.evaluation, entry.main_rule)
    load, _, rows = on_rows(entry.evaluation, entry.main_rule)
    count, _, rest = words.partition(" ")
    noun = "" if load is None else f" false alarm{'' if count == '1' else 's'}"
    words = f"{count}{noun} {rest}, {rate} of attack-free time ({rows})"
    return text.as_labelled(words, entry.evaluation.stream.labels)


def others_catch(others: Sequence[Entry]) -> str:
    """Return what the rules in use of other detectors catch; empty without others."""
    known = [on_rows(one.evaluation, one.main_rule).attacks for one in others]
    counts = [attacks.caught for attacks in known if attacks is not None]
    if not counts:
        return ""
    spread = " to ".join(dict.fromkeys(map(str, (min(counts), max(counts)))))
    if len(counts) == 1:
        return f"The rule in use of {others[0].label} catches {spread}."
    return f"The rules in use of the other {len(counts)} catch {spread}."


def largest_blind_spot(entries: Sequence[Entry]) -> str:
    """Return the blindest tag in one sentence; empty if none was searched."""
    spots = next((s for e in entries if (s := e.results[0].blind_spots)), None)
    if spots is None:
        return ""
    worst = blindest(spots)
    if not worst:
        return "No tag could be falsified by a step or a ramp."
    return sentence(worst[0], is_residual=spots.is_residual)


def blind_command(entry: Entry) -> str:
    """Return the command that searches blind spots."""
    folder = entry.results[0].folder
    if folder is not None and (folder.parent / "study.json").exists():
        return f"sightline blindspots STUDY --detector {entry.detector}"
    return f"sightline blindspots {entry.evaluation.stream.name}.npz --out blind"


def reviewed_first(entries: Sequence[Entry]) -> list[Statement]:
    """Return what must be reviewed before figures are believed, with links."""

    def counts(what: str, findings: Sequence[Finding], link: str) -> Statement:
        n = Counter(one.severity for one in findings)
        words = [text.plural(n[one], str(one)) for one in Severity if n[one]]
        is_warning = bool(n[Severity.ERROR] or n[Severity.WARNING])
        line = f"{what}: {text.names(words) if words else 'nothing found'}"
        return line, "finding", link, is_warning

    carried = [e.evaluation for e in entries if e.evaluation.recording is not None]
    if carried:
        notices = carried[0].recording.notices if carried[0].recording else ()
        findings = carried[0].findings
        about = [f for f in findings if not f.is_protocol and f.text not in notices]
        data = counts("Data", about, "your-data")
    else:
        line = "Data: not audited, these results carry no facts about the recording"
        data = (line, "finding", "your-data", False)
    protocol = {f for e in entries for f in e.evaluation.findings if f.is_protocol}
    rows = [data, counts("Method", list(protocol), "protocol")]
    evaluation = entries[0].evaluation
    facts = evaluation.diagnosis
    if evaluation.episodes:
        n = text.plural(len(evaluation.episodes), "unexplained episode")
        line = f"{n}: say which were incidents"
        rows.insert(0, (line, "episode", "episodes", True))
    undecided = [one.word for one in entries[0].verdicts].count(Verdict.UNDECIDED)
    if undecided:
        line = f"{text.plural(undecided, 'attack')} without a verdict"
        rows.append((line, "verdict-undecided", "each-attack", False))
    if facts is not None and facts.false_cause_rate is not None:
        line = (
            f"False causes: {text.share(facts.false_cause_rate, 1)} of "
            f"{facts.n_calm_windows:,} attack-free windows would get one"
        )
        is_withheld = facts.advice_withheld is not None
        rows.append((line, "false-cause-rate", "provenance", is_withheld))
    if evaluation.segments:
        line = "Verdicts and repairs: judged in hindsight, on the same record"
        rows.append((line, "repair", "provenance", False))
    return rows


def protocol_note(entries: Sequence[Entry]) -> str:
    """Return which detectors were evaluated to the letter of the paper; or nothing."""
    letter = [e.label for e in entries if e.protocol is Protocol.PAPER]
    if not letter:
        return ""
    who = "All figures" if len(letter) == len(entries) else text.names(letter)
    return f"{who}: to the letter of the paper. {' '.join(SWITCHES)}"


def earlier_note(entries: Sequence[Entry]) -> str:
    """Return which detectors have verdicts of an earlier version; or nothing."""
    earlier = [entry.label for entry in entries if entry.is_earlier]
    return f"{text.names(earlier, MAX_NAMES)}: {EARLIER}" if earlier else ""


def later_rows(entries: Sequence[Entry]) -> str:
    """Return on which rows the rules of a testbed are counted."""
    known = [one for e in entries if (one := e.evaluation.rules) and one.judged_days]
    if not known:
        return ""
    days = dict.fromkeys(f"{one.judged_days:.1f}" for one in known)
    is_labelled = any(one.is_labelled for one in known)
    is_later = all(one.split for one in known)
    counted = "Attacks caught and false alarms" if is_labelled else "Alarms"
    days_words = text.as_labelled(
        "attack-free days", text.Labelling.of_all(one.labels for one in known)
    )
    return (
        f"{counted} of all rules are counted on the same {'later ' * is_later}rows, "
        f"{' to '.join(sorted(days))} {days_words}{' that set no limit' * is_later}, "
        f"where a line does not say otherwise."
        + " Verdicts are of the whole test."
        * is_labelled
    )
