"""Detectors at a glance and side by side: attacks found, figures, agreement.

The functions return records; `sightline.report.page` puts them into tables, and
`sightline.cli` prints the rows of `glance` after a study.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sightline import text
from sightline.comparison import compare
from sightline.comparison.permutation import STAR_LEVEL
from sightline.evaluation.result import Evaluation
from sightline.figures import FIGURES, Figure
from sightline.judgement.event_test import LEVEL
from sightline.judgement.judge import METHOD
from sightline.judgement.sentences import chance_of
from sightline.judgement.verdicts import Count, RungName, VerdictInfo
from sightline.metrics.alarm_load import AlarmLoad
from sightline.metrics.intervals import count_interval
from sightline.metrics.probe import AlarmMetrics
from sightline.report.entries import (
    OWN,
    P99,
    RULE_LABELS,
    Entry,
    cost_of,
    found,
    is_judged,
    load_of,
    rules_of,
)
from sightline.report.figure_tables import LocalisedCell, localised
from sightline.rules.advice import (
    advice,
    is_over,
    load_words,
    raised_words,
)
from sightline.rules.judging import CommissioningFacts

# Detectors that a headline names.
MAX_NAMES = 3
# A count that chance reaches with this probability is no reason to boast.
BY_CHANCE = 0.05
EARLIER = (
    "These verdicts and counts were made by the rules of an earlier version, which "
    "judged many attacks differently. Evaluate the stream again to get the present "
    "ones."
)
# Figures by which the table at a glance says who is not told apart from the best.
STANDING_FIGURES = (Figure.ROC_AUC, Figure.PAUC_1)


@dataclass(frozen=True, kw_only=True)
class RuleRow:
    """What one alarm rule of a detector did, as the table at a glance shows it.

    Parameters
    ----------
    rule : str
        "own rule" or "p99 rule".
    found : int, optional
        Attacks because of which the rule alarms; without a diagnosis, attacks with an
        alarm. None without attacks.
    n_attacks : int
        Attacks in the test.
    low, high : float
        Exact 95% interval of the share of attacks found.
    chance : str
        How many it would find by chance, with the probability of as many; or why that
        is not known. Empty without attacks.
    rings : str
        Attacks with any alarm, and how many by chance; empty where that was not
        measured.
    hits : int, optional
        Attacks in which the rule alarms, whether because of them or not.
    is_judged, is_standing : bool
        Whether the diagnosis says what the rule finds, and that it never stops.
    seeds : str
        Mean and range of `found` over seeds; empty with one seed.
    false_alarms, rate, delay : str
        False alarms a day, share of attack-free time in alarm, median delay.
    burden : str
        Standing, chattering and floods of alarms in words; empty if not measured.
    raised : str
        Attacks in which an alarm starts, beside chance; empty if not measured.
    is_over_alarming : bool
        Whether the rule is in alarm too much of the normal time to tell anything.
    """

    rule: str
    found: int | None
    n_attacks: int
    low: float
    high: float
    chance: str
    rings: str
    hits: int | None
    is_judged: bool
    is_standing: bool
    seeds: str
    false_alarms: str
    rate: str
    burden: str
    raised: str
    is_over_alarming: bool
    delay: str

    @property
    def found_text(self) -> str:
        """Attacks found of all attacks, such as "12 of 26"."""
        return (
            text.UNKNOWN if self.found is None else f"{self.found} of {self.n_attacks}"
        )

    @property
    def interval(self) -> str:
        """The interval in per cent; empty without attacks."""
        return (
            f"{text.share(self.low)} to {text.share(self.high)}"
            if self.n_attacks
            else ""
        )


@dataclass(frozen=True, kw_only=True)
class GlanceRow:
    """One detector at a glance: its rules, its verdicts, and what to check first.

    Parameters
    ----------
    key : str
        Key of the entry on the page.
    testbed, detector : str
        Names; the detector's includes its guard if it has one.
    n_seeds : int
        Number of results; all texts are of the first, unless they say so.
    rules : tuple of RuleRow
        The detector's own rule first, if it has one, then the p99 rule.
    commissioned : CommissioningFacts, optional
        The rules that were made for the budget; None where no rows were left to judge
        them.
    verdicts : tuple of (VerdictInfo, int)
        Number of attacks with each verdict that occurs; empty without a diagnosis.
    check : str
        The first thing to check.
    localised : LocalisedCell, optional
        How often the evidence points at the attacked tag; None where that is not known.
    is_earlier : bool
        Whether the verdicts were made by the rules of an earlier version.
    """

    key: str
    testbed: str
    detector: str
    n_seeds: int
    rules: tuple[RuleRow, ...]
    commissioned: CommissioningFacts | None
    verdicts: tuple[tuple[VerdictInfo, int], ...]
    check: str
    localised: LocalisedCell | None = None
    is_earlier: bool = False
    standings: tuple["Standing", ...] = ()


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How a detector compares with the best of its testbed in one figure.

    Parameters
    ----------
    figure : Figure
        The figure.
    mean : float
        Its mean over seeds.
    is_best : bool
        Whether it is the highest.
    p_adjusted : float, optional
        Of the difference from the highest; None if the two were not compared.
    """

    figure: Figure
    mean: float
    is_best: bool
    p_adjusted: float | None

    @property
    def text(self) -> str:
        """The figure, and whether it can be told apart from the highest."""
        start = f"{FIGURES[self.figure].name} {text.score(self.mean)}"
        if self.is_best:
            return f"{start}: the highest"
        if self.p_adjusted is None:
            return f"{start}: not compared with the highest"
        p = text.p_value(self.p_adjusted)
        if self.p_adjusted <= STAR_LEVEL:
            return f"{start}: below the highest ({p})"
        return f"{start}: not told apart ({p})"


@dataclass(frozen=True, kw_only=True)
class Headline:
    """The first thing to read on a testbed.

    Parameters
    ----------
    detector : str
        The best detector: the first entry of the testbed.
    title : str
        How many attacks it finds, by which rule, compared with the others.
    chance : str
        How many it would find by chance, and what that costs; empty without attacks.
    check : str
        The first thing to check with it; empty for verdicts of an earlier version.
    earlier : str
        Which detectors have verdicts of an earlier version; empty if none has.
    """

    detector: str
    title: str
    chance: str
    check: str
    earlier: str


def glance(
    entries: Sequence[Entry], comparison: compare.Comparison | None = None
) -> list[GlanceRow]:
    """Return one row for each entry: what an operator asks first.

    Parameters
    ----------
    entries : sequence of Entry
        In the order of the page.
    comparison : Comparison, optional
        Of the same results; without it no row says how it compares with the best.

    Returns
    -------
    list of GlanceRow
        In the same order.
    """
    standings = {} if comparison is None else _standings(comparison)
    return [
        GlanceRow(
            key=entry.key,
            testbed=entry.testbed,
            detector=entry.label,
            n_seeds=len(entry.results),
            rules=tuple(
                _rule_row(entry, rule, alarms)
                for rule, alarms in rules_of(entry.evaluation).items()
            ),
            commissioned=facts
            if (facts := entry.evaluation.rules) and facts.judged_days
            else None,
            verdicts=entry.verdict_counts,
            check=first_check(entry.evaluation),
            localised=localised(entry.evaluation),
            is_earlier=entry.is_earlier,
            standings=standings.get((entry.testbed, entry.label), ()),
        )
        for entry in entries
    ]


def _standings(
    comparison: compare.Comparison,
) -> dict[tuple[str, str], tuple[Standing, ...]]:
    """Return how each detector compares with the best of its testbed, by figure."""
    found: dict[tuple[str, str], list[Standing]] = {}
    for figure in STANDING_FIGURES:
        means: dict[str, dict[str, float]] = {}
        for row in comparison.figures:
            if row.figure == figure and row.mean is not None:
                means.setdefault(row.testbed, {})[row.detector] = row.mean
        tests = {
            (row.testbed, frozenset(row.detectors)): row
            for row in comparison.differences
            if row.figure == figure
        }
        for testbed, values in means.items():
            best = max(values, key=lambda label: values[label])
            for label, mean in values.items() if len(values) > 1 else ():
                test = tests.get((testbed, frozenset((label, best))))
                is_best = label == best
                p = None if test is None else test.p_adjusted
                found.setdefault((testbed, label), []).append(
                    Standing(figure=figure, mean=mean, is_best=is_best, p_adjusted=p)
                )
    return {key: tuple(rows) for key, rows in found.items()}


def _rule_row(entry: Entry, rule: RungName, alarms: AlarmMetrics) -> RuleRow:
    """Return the row of one rule, with the exact interval of the attacks found."""
    evaluation = entry.evaluation
    facts = evaluation.diagnosis
    is_present = facts is not None and facts.rule == rule
    n, load = evaluation.stream.n_segments, load_of(evaluation, rule)
    words, rate = cost_of(evaluation, rule)
    n_found = found(evaluation, rule)
    low, high = count_interval(n_found, n) if n else (0.0, 0.0)
    chance, count = "", found_by_chance(evaluation, rule)
    if count is not None:
        chance = ("" if is_present else "at most ") + chance_of(count)
    elif n:
        why = "attacks with any alarm" if facts is None else "by earlier rules"
        chance = f"{why}; chance not measured"
    evaluations = [result.evaluation for result in entry.results]
    counts = [found(one, rule) for one in evaluations if rule in rules_of(one)]
    seeds = ""
    if n and len(counts) > 1:
        seeds = (
            f"mean {np.mean(counts):.1f}, {min(counts)} to {max(counts)} "
            f"over {len(counts)} seeds"
        )
    # In results of earlier versions an alarm that never stops touches an attack each
    # time, so it counts as no false alarm although it lasts all the normal time.
    is_silent = alarms.load is None and alarms.false_positive_segments == 0
    if is_silent and alarms.over_alarming:
        words = "none fully outside attacks"
    return RuleRow(
        rule=RULE_LABELS[rule],
        found=n_found if n else None,
        n_attacks=n,
        low=low / n if n else 0.0,
        high=high / n if n else 0.0,
        chance=chance,
        rings=chance_of(facts.rings) if facts and is_present and facts.rings else "",
        hits=alarms.hits,
        is_judged=is_judged(evaluation, rule),
        is_standing=bool(facts and is_present and facts.is_standing),
        seeds=seeds,
        false_alarms=words,
        rate=rate,
        burden="" if load is None else burden(load),
        raised=raised_words(alarms.attacks) if n and alarms.attacks else "",
        is_over_alarming=bool(alarms.over_alarming),
        delay=text.delay(entry.median_delay(rule), evaluation.stream.step_s),
    )


def skill_words(skill: float | None) -> str:
    """Return a skill with two decimals."""
    return text.UNKNOWN if skill is None else f"{skill:.2f}".replace("-", text.MINUS)


def delay_words(seconds: float | None) -> str:
    """Return the time to an alarm."""
    return "at once" if seconds == 0 else text.duration(seconds)


def found_by_chance(evaluation: Evaluation, rule: RungName) -> Count | None:
    """Return how many attacks a rule finds, with the number by chance.

    Of the present rule it is measured, with attack-free stretches in the place of the
    attacks. Another rule finds each of them with a probability of at most `LEVEL`,
    which bounds both figures from above.

    Returns
    -------
    Count, optional
        None without attacks or a diagnosis, and for results of an earlier version.
    """
    from scipy.special import bdtrc

    facts, n = evaluation.diagnosis, evaluation.stream.n_segments
    if facts is None or facts.found is None or not n:
        return None
    if facts.rule == rule:
        return facts.found
    count = found(evaluation, rule)
    p_value = float(bdtrc(min(count - 1, n), n, LEVEL))
    return Count(count=count, total=n, by_chance=LEVEL * n, p_value=p_value)


def burden(load: AlarmLoad) -> str:
    """Return how alarms come, in the words of ISA-18.2.

    Examples
    --------
    >>> burden(AlarmLoad(alarms=143, days=1.6, alarms_per_day=90.6, share_of_time=0.1,
    ...                  standing=2, peak_10min=5, floods=0, chattering=1))
    'at most 5 in 10 min, 2 from standing, 1 chattering'
    """
    parts = [
        ((load.peak_10min or 0) > 1, f"at most {load.peak_10min} in 10 min"),
        (load.floods, text.plural(load.floods or 0, "flood")),
        (load.standing, f"{load.standing} from standing"),
        (load.chattering, f"{load.chattering} chattering"),
    ]
    return ", ".join(words for is_said, words in parts if is_said)


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
    alarms = evaluation.own_rule or evaluation.probe
    facts = evaluation.diagnosis
    if facts is not None and facts.method < METHOD:
        return "Evaluate the stream again: these verdicts are by earlier rules."
    withheld = (facts.advice_withheld or "") if facts else ""
    advised = f"{withheld} {rule_advice(evaluation)}".strip()
    rule = "Its own rule" if evaluation.own_rule else "The p99 rule"
    rate = cost_of(evaluation, OWN if evaluation.own_rule else P99)[1]
    warning = ""
    if facts is not None and facts.is_standing:
        warning = (
            f"{rule} is in alarm for {rate} of attack-free time: it never stops for "
            "long, so it finds nothing."
        )
    elif alarms.over_alarming:
        warning = (
            f"{rule} is in alarm for {rate} of attack-free time, so an alarm says "
            "little."
        )
    if evaluation.stream.n_segments == 0:
        calm = (
            "No attack is labelled: check where false alarms come from, and whether "
            "the reference is stable."
        )
        return " ".join(part for part in (warning, calm, advised) if part)
    if warning or advised:
        return f"{warning} {advised or 'Check the alarm limit first.'}".strip()
    return "Evaluated without a diagnosis: evaluate again to learn what to check."


def rule_advice(evaluation: Evaluation) -> str:
    """Return which alarm rule to use, or why none could be made."""
    if evaluation.rules is not None:
        return advice(evaluation.rules)
    if evaluation.rules_refused is not None:
        return f"No alarm rule was made: {evaluation.rules_refused}"
    return (evaluation.diagnosis.advice or "") if evaluation.diagnosis else ""


def headline(entries: Sequence[Entry]) -> Headline:
    """Return the headline of a testbed.

    Parameters
    ----------
    entries : sequence of Entry
        All entries of one testbed, at least one, the best detector first.

    Returns
    -------
    Headline
        It says "the most of all" only if no rule of another detector finds as many
        attacks, and chance does not.
    """
    best, *others = entries
    earlier = [entry.label for entry in entries if entry.is_earlier]
    return Headline(
        detector=best.label,
        title=_title(best, others),
        chance=_headline_chance(best),
        check="" if best.is_earlier else first_check(best.evaluation),
        earlier=f"{text.names(earlier, MAX_NAMES)}: {EARLIER}" if earlier else "",
    )


def _headline_chance(best: Entry) -> str:
    """Return chance and cost of the attacks found by the rule in use."""
    evaluation, rule = best.evaluation, best.main_rule
    alarms, n = rules_of(evaluation)[rule], evaluation.stream.n_segments
    if not n:
        return ""
    cost = f"is in alarm for {text.share(alarms.time_in_alarm, 1)} of attack-free time"
    if (load := load_of(evaluation, rule)) is not None:
        cost = f"makes {load_words(load)} where there is no attack"
    count = found_by_chance(evaluation, rule)
    if count is None:
        return f"Its rule {cost}."
    chance = f"{text.mean_count(count.by_chance)} ({text.p_value(count.p_value)})"
    if best.budget_rules is None:
        return f"By chance it would find {chance}. Its rule {cost}."
    which = "Its own rule" if rule == OWN else "The p99 rule"
    return (
        f"{which} finds {found(evaluation, rule)} of {n} attacks; by chance it would "
        f"find {chance}. It {cost}."
    )


def _title(best: Entry, others: Sequence[Entry]) -> str:
    """Return what the best detector finds, in one phrase."""
    n, where = best.evaluation.stream.n_segments, text.on_testbed(best.testbed)
    if n == 0:
        return f"{best.label}{where}"
    facts = best.budget_rules
    if facts is not None:
        return _budget_title(best, facts, others)
    if others and not any(_most_found(entry) for entry in (best, *others)):
        return f"No detector finds an attack{where}; {best.label} comes closest"
    rule = best.main_rule
    n_found = found(best.evaluation, rule)
    by = "by its own rule" if rule == OWN else "by the p99 rule"
    n_seeds = len(best.results)
    seeds = f" in the first of {n_seeds} seeds" if n_seeds > 1 else ""
    count = found_by_chance(best.evaluation, rule)
    verb = "finds" if is_judged(best.evaluation, rule) else "alarms in"
    start = f"{best.label} {verb} {n_found} of {n} attacks{where} {by}{seeds}"
    if count is not None and count.p_value > BY_CHANCE:
        return f"{start}, no more than by chance"
    if rules_of(best.evaluation)[rule].over_alarming:
        return f"{start}, but is in alarm too often for an alarm to say much"
    most = max(map(_most_found, others), default=None)
    if most is None or most > n_found or n_found == 0:
        return start
    if most < n_found:
        return f"{start}, the most of all"
    equal = [entry.label for entry in others if _most_found(entry) == n_found]
    return f"{start}, as many as {text.names(equal, MAX_NAMES)}"


def _budget_title(
    best: Entry, facts: CommissioningFacts, others: Sequence[Entry]
) -> str:
    """Return what the rule for the budget raises, and whether none is better."""
    chosen, where = facts.row(facts.chosen), text.on_testbed(best.testbed)
    start = (
        f"With a rule for {facts.budget}, {best.label} raises "
        f"{raised_words(chosen.attacks)}{where} at {load_words(chosen.load)}"
    )
    if is_over(chosen.load, facts):
        return f"{start}, which is over the budget"
    skill = chosen.attacks.skill or 0.0
    if skill <= 0:
        return f"{start}, no more than by chance"
    rivals = [
        (row.attacks.skill or 0.0, is_over(row.load, other))
        for entry in others
        if (other := entry.budget_rules) is not None
        for row in [other.row(other.chosen)]
    ]
    if not rivals or len(rivals) < len(others):
        return start
    if all(rival < skill for rival, _ in rivals):
        return f"{start}, the best of all"
    if all(rival < skill for rival, over in rivals if not over):
        return f"{start}, the best that keeps the budget"
    return start


def _most_found(entry: Entry) -> int:
    """Return the most attacks that any rule of a detector finds."""
    return max(found(entry.evaluation, rule) for rule in rules_of(entry.evaluation))
