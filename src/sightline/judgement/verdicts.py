"""The table of verdicts, and the records that a diagnosis consists of.

Everything that is said or drawn of a verdict is read from `VERDICTS`: the terminal,
the page, its scripts and the printed figures have no words, symbols or colours of their
own. The table of the ladder's rungs is `sightline.judgement.ladder.LADDER`.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sightline.audit.attack_facts import AttackFacts
from sightline.data.segments import AttackOutcome
from sightline.judgement.event_test import Flag, Way, WindowFacts
from sightline.rules.judging import RuleOutcome


class Verdict(StrEnum):
    """Why the present rule does or does not see an attack; the value is the word used.

    Examples
    --------
    >>> Verdict("diluted") is Verdict.DILUTED, f"{Verdict.DILUTED}"
    (True, 'diluted')
    """

    DETECTED = "detected"
    ALREADY_IN_ALARM = "already-in-alarm"
    THRESHOLD = "threshold"
    SEQUENTIAL = "sequential"
    DRIFT = "drift"
    DILUTED = "diluted"
    QUIET = "quiet"
    UNDECIDED = "undecided"
    WEAK_EVIDENCE = "weak-evidence"
    NOT_IN_TELEMETRY = "not-in-telemetry"


# Verdicts by which the alarms of the present rule single the attack out.
SINGLED_OUT: Final = (Verdict.DETECTED, Verdict.ALREADY_IN_ALARM)
# Verdicts that say there is evidence of the attack.
EVIDENT: Final = frozenset(Verdict) - {
    Verdict.UNDECIDED,
    Verdict.WEAK_EVIDENCE,
    Verdict.NOT_IN_TELEMETRY,
}


def agrees_with_owners(
    verdict: Verdict | None, outcome: AttackOutcome | None
) -> bool | None:
    """Return whether a verdict fits what the owners say became of an attack.

    None where the two say nothing of the same thing: of an attack that failed, or
    whose targets are not recorded, anything may be seen.

    Examples
    --------
    >>> agrees_with_owners(Verdict.NOT_IN_TELEMETRY, AttackOutcome.NO_EFFECT)
    True
    >>> agrees_with_owners(Verdict.DRIFT, AttackOutcome.BLOCKED)
    False
    """
    if verdict not in EVIDENT and verdict != Verdict.NOT_IN_TELEMETRY:
        return None
    if outcome is AttackOutcome.HAD_EFFECT:
        return verdict in EVIDENT
    if outcome in (AttackOutcome.NO_EFFECT, AttackOutcome.BLOCKED):
        return verdict not in EVIDENT
    return None


class RungName(StrEnum):
    """The rungs of the ladder by the names they have in files."""

    OWN_RULE = "own-rule"
    PROBE = "probe"
    EVIDENCE = "evidence"
    REFERENCE = "reference"
    SPACE = "space"
    MOMENT = "moment"
    MEMORY = "memory"
    QUIET = "quiet"


class Reading(StrEnum):
    """What the paper's table reads from four figures of one attack."""

    COVERED = "covered"
    THRESHOLD = "threshold"
    DRIFT = "drift"
    NO_EVIDENCE = "no-evidence"
    UNCLEAR = "unclear"


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What decides which clauses of a sentence hold for an attack.

    Parameters
    ----------
    evidence, space, moment : bool
        Whether these rungs show it.
    others : bool
        Whether another rung that looks at single rows does: a rule, or the energy about
        a reference from attack-free time around it.
    lies_beyond : bool
        Whether 30% of it or more lies beyond the limit of `evidence`, shown or not.
    is_covered : bool
        Whether the present rule catches it, or is in alarm in 30% of it or more.
    has_windows : bool
        Whether there was attack-free time to compare it with.
    is_untried : bool
        Whether a rung could not be tried.
    """

    evidence: bool = False
    space: bool = False
    moment: bool = False
    others: bool = False
    lies_beyond: bool = False
    is_covered: bool = False
    has_windows: bool = True
    is_untried: bool = False

    @property
    def by_rows(self) -> bool:
        """Whether single rows show it."""
        return self.evidence or self.space or self.moment or self.others

    @property
    def is_below(self) -> bool:
        """Whether `evidence` neither shows it nor has much of it beyond its limit."""
        return not (self.evidence or self.lies_beyond)

    @property
    def is_common(self) -> bool:
        """Whether much of it lies beyond a limit that attack-free time exceeds too."""
        return self.lies_beyond and not self.evidence

    @property
    def names_space(self) -> bool:
        """Whether the few channels that show it are named: always without a moment."""
        return self.space or not self.moment


@dataclass(frozen=True)
class Clause:
    """A part of a sentence, and when it may be said.

    Parameters
    ----------
    text : str
        Template: `sightline.judgement.judge` fills it in, a rung by its name
        (``{space.finding}``), and a few phrases.
    needs : tuple of str
        Names of `Facts` that must all be true; after "not " they must be false.
    """

    text: str
    needs: tuple[str, ...] = ()

    def holds(self, facts: Facts) -> bool:
        """Return whether the clause may be said.

        Examples
        --------
        >>> Clause("hidden", ("moment", "not evidence")).holds(Facts(moment=True))
        True
        """
        return all(
            getattr(facts, name.removeprefix("not ")) != name.startswith("not ")
            for name in self.needs
        )


@dataclass(frozen=True, kw_only=True)
class VerdictInfo:
    """One row of the table: everything that is said or drawn of one verdict.

    Parameters
    ----------
    word : str
        The verdict as files and the paper write it.
    plain : str
        The same in an operator's words, with ``{n_tags}`` for the number of tags.
    meaning, repair : str
        What it says of an attack, and what to do about it.
    sentence : tuple of Clause
        The sentence on one attack: those clauses that hold.
    symbol : str
        One character. A verdict is never shown by its colour alone.
    marker, print_marker : str
        What plotly and matplotlib call the same symbol.
    is_hollow : bool
        Whether matplotlib draws its marker with a white face.
    light, dark : str
        Colour on a light and on a dark page (Okabe and Ito's colours, which readers
        with any colour vision tell apart).
    """

    word: str
    plain: str
    meaning: str
    repair: str
    sentence: tuple[Clause, ...]
    symbol: str
    marker: str
    print_marker: str
    is_hollow: bool = False
    light: str
    dark: str

    def in_words(self, n_tags: int | None = None) -> str:
        """Return the verdict in an operator's words.

        Examples
        --------
        >>> info_of("diluted").in_words(51), info_of("diluted").in_words()
        ('clearest in few of 51 tags', 'clearest in few of many tags')
        """
        return self.plain.format(n_tags="many" if n_tags is None else n_tags)

    def page_fields(self) -> dict[str, str]:
        """Return what the scripts of the page need: all texts but the sentence."""
        names = ("word", "symbol", "marker", "light", "dark", "meaning", "repair")
        return {name: getattr(self, name) for name in names}


# Said only where every rung was tried: else the attack is undecided.
NO_REPAIR: Final = (
    Clause("Missed, and no repair shows it", ("not is_covered",)),
    Clause(
        "Not told apart by the present alarms ({rule.against}), and no repair shows it",
        ("is_covered",),
    ),
    Clause(" ({best_finding}). {telemetry_finding}"),
)

VERDICTS: Final[dict[Verdict, VerdictInfo]] = {
    Verdict.DETECTED: VerdictInfo(
        word=Verdict.DETECTED,
        plain="caught and singled out",
        meaning="the present rule catches this attack, and its alarms single it out",
        repair="nothing to repair",
        sentence=(Clause("{rule_name} detects it: {rule.finding}."),),
        symbol="\u25cf",
        marker="circle",
        print_marker="o",
        light="#00805d",
        dark="#2cc79a",
    ),
    Verdict.ALREADY_IN_ALARM: VerdictInfo(
        word=Verdict.ALREADY_IN_ALARM,
        plain="in alarm before it began",
        meaning="the present rule's alarms single it out, but it was in alarm before: "
        "no alarm starts in the attack, so it is not caught",
        repair="a rule that is in alarm less: a higher limit, or shorter alarms",
        sentence=(
            Clause(
                "{rule_name} singles it out ({rule.finding}), but does not catch it: "
                "the alarm began before the attack, and none starts in it. Check "
                "whether a rule that is in alarm less helps."
            ),
        ),
        symbol="\u25d0",
        marker="circle-cross-open",
        print_marker="P",
        light="#4f7300",
        dark="#a3c94a",
    ),
    Verdict.THRESHOLD: VerdictInfo(
        word=Verdict.THRESHOLD,
        plain="needs another alarm limit",
        meaning="the deviation score shows it, the alarm limit does not extract it",
        repair="the limit",
        sentence=(
            Clause("Missed by its limit: ", ("not is_covered",)),
            Clause("Not told apart by its limit: ", ("is_covered",)),
            Clause("the energy stands out ({evidence.finding})", ("evidence",)),
            Clause("the p99 rule shows it ({probe.finding})", ("not evidence",)),
            Clause(
                ", but not with the present limit ({rule.against}).",
                ("not is_covered",),
            ),
            Clause(
                ", but its present alarms do not single it out: {rule.against}.",
                ("is_covered",),
            ),
            Clause(
                " Check whether the alarm limit can be set on attack-free time of this "
                "plant."
            ),
        ),
        symbol="\u25b2",
        marker="triangle-up",
        print_marker="^",
        light="#a86f00",
        dark="#f0b429",
    ),
    Verdict.SEQUENTIAL: VerdictInfo(
        word=Verdict.SEQUENTIAL,
        plain="adds up over time",
        meaning="single rows do not stand out, their accumulation does",
        repair="accumulate over time (EWMA, MEWMA)",
        sentence=(
            Clause("Missed row by row: ", ("not is_covered",)),
            Clause("Not told apart row by row: ", ("is_covered",)),
            Clause(
                "single rows do not stand out ({evidence.against}), but their "
                "accumulation does.",
                ("not by_rows", "is_below"),
            ),
            Clause(
                "single rows are as attack-free ones may be ({evidence.against}), but "
                "their accumulation is not.",
                ("not by_rows", "not is_below"),
            ),
            Clause(
                "some rows stand out ({rows_finding}), their accumulation much more.",
                ("by_rows",),
            ),
            Clause(
                " Evidence in {memory.by}: {memory.finding}. Check whether a rule that "
                "accumulates deviations helps."
            ),
        ),
        symbol="\u2261",
        marker="hash-open",
        print_marker="s",
        is_hollow=True,
        light="#2c7fb0",
        dark="#66c2f0",
    ),
    Verdict.DRIFT: VerdictInfo(
        word=Verdict.DRIFT,
        plain="normal operation has moved",
        meaning="shown about a reference from attack-free time around it, and the "
        "reference has moved",
        repair="stabilise or update the reference",
        sentence=(
            Clause("Missed by drift: ", ("not is_covered",)),
            Clause(
                "Not told apart by the present alarms ({rule.against}): ",
                ("is_covered",),
            ),
            Clause(
                "normal operation has moved away from training. It stands out about a "
                "reference from attack-free time around it ({reference.finding})"
            ),
            Clause(
                ", but not about the one from training ({evidence.against}).",
                ("is_below",),
            ),
            Clause(
                ", which the one from training does not tell ({evidence.against}).",
                ("is_common",),
            ),
            Clause(
                ", more than about the one from training ({evidence.against}).",
                ("evidence",),
            ),
            Clause(
                " First confirm that the change of normal operation is a known one: an "
                "attack that lasts looks like drift."
            ),
        ),
        symbol="\u25e2",
        marker="triangle-se",
        print_marker=">",
        light="#c04f00",
        dark="#ff8a4c",
    ),
    Verdict.DILUTED: VerdictInfo(
        word=Verdict.DILUTED,
        plain="clearest in few of {n_tags} tags",
        meaning="shown in a few channels more clearly than when all are pooled",
        repair="score a smaller space separately",
        sentence=(
            Clause("Missed by dilution: ", ("not is_covered",)),
            Clause(
                "Not told apart by the present alarms ({rule.against}): ",
                ("is_covered",),
            ),
            Clause("{moment.moment}", ("moment",)),
            Clause("; ", ("moment", "space")),
            Clause(
                "evidence in {space.by} ({space.finding})",
                ("names_space",),
            ),
            Clause(
                ", hidden among {n_channels} pooled channels ({evidence.against}).",
                ("is_below",),
            ),
            Clause(
                ", which all {n_channels} channels pooled do not tell "
                "({evidence.against}).",
                ("is_common",),
            ),
            Clause(
                ", clearer there than in all {n_channels} channels pooled "
                "({evidence.against}).",
                ("evidence",),
            ),
            Clause(" Check whether a limit for each tag helps.", ("moment",)),
            Clause(
                " Check whether scoring these channels separately helps.",
                ("not moment",),
            ),
        ),
        symbol="\u25c6",
        marker="diamond",
        print_marker="D",
        light="#a8467e",
        dark="#e58fc0",
    ),
    Verdict.QUIET: VerdictInfo(
        word=Verdict.QUIET,
        plain="too quiet",
        meaning="much less energy than any attack-free window: frozen or replayed "
        "signals",
        repair="alarm on too little movement as well",
        sentence=(
            Clause("Missed because it is quiet: ", ("not is_covered",)),
            Clause(
                "Not told apart by the present alarms ({rule.against}), but quiet: ",
                ("is_covered",),
            ),
            Clause(
                "it has {quiet.coverage} of the usual energy of attack-free time, less "
                "than any of {n_matched} stretches of its length (the lowest has "
                "{quiet.limit}), as frozen or replayed signals have. Check whether an "
                "alarm on too little movement helps."
            ),
        ),
        symbol="\u25bd",
        marker="triangle-down-open",
        print_marker="v",
        is_hollow=True,
        light="#0062a3",
        dark="#7fb2ff",
    ),
    Verdict.UNDECIDED: VerdictInfo(
        word=Verdict.UNDECIDED,
        plain="cannot be decided",
        meaning="too little attack-free time to compare it with, or too close to call",
        repair="a longer attack-free recording",
        sentence=(
            Clause(
                "Cannot be judged: it needs at least {least_windows} attack-free "
                "stretches of its length, or of {least_rows} rows, to compare it with. "
                "Record more attack-free time.",
                ("not has_windows",),
            ),
            Clause(
                "Not decided: {untried} could not be tried on it, and what was tried "
                "does not show it.",
                ("has_windows", "is_untried"),
            ),
            Clause(
                "Too close to call: {leading}. A longer attack-free recording would "
                "help.",
                ("has_windows", "not is_untried"),
            ),
        ),
        symbol="?",
        marker="star",
        print_marker="*",
        light="#6b6b6b",
        dark="#a8a8a8",
    ),
    Verdict.WEAK_EVIDENCE: VerdictInfo(
        word=Verdict.WEAK_EVIDENCE,
        plain="not in the residuals",
        meaning="no repair shows it; the telemetry moves, is unclear, or was not given",
        repair="a better model of the plant",
        sentence=NO_REPAIR,
        symbol="\u25cb",
        marker="circle-open",
        print_marker="o",
        is_hollow=True,
        light="#3d3d3d",
        dark="#d0d0d0",
    ),
    Verdict.NOT_IN_TELEMETRY: VerdictInfo(
        word=Verdict.NOT_IN_TELEMETRY,
        plain="not in the measurements",
        meaning="the telemetry's own test does not show it, nor does any detector",
        repair="no advice: no test here tells it from attack-free time",
        sentence=NO_REPAIR,
        symbol="\u00d7",
        marker="x-thin",
        print_marker="x",
        light="#707070",
        dark="#9a9a9a",
    ),
}
# How an attack without a verdict is shown.
NOT_DIAGNOSED: Final = VerdictInfo(
    word="not-diagnosed",
    plain="not diagnosed",
    meaning="evaluated without a diagnosis",
    repair="evaluate again without --no-diagnosis",
    sentence=(),
    symbol="\u00b7",
    marker="circle-dot",
    print_marker=".",
    light="#6b6b6b",
    dark="#a8a8a8",
)


def info_of(verdict: str | None) -> VerdictInfo:
    """Return the row of the table of a verdict; a missing one is "not-diagnosed".

    Examples
    --------
    >>> info_of("quiet").marker, info_of(None).word
    ('triangle-down-open', 'not-diagnosed')
    """
    try:
        return VERDICTS[Verdict(verdict or "")]
    except ValueError:
        return NOT_DIAGNOSED


def all_infos() -> tuple[VerdictInfo, ...]:
    """Return all rows of the table in its order, "not-diagnosed" last."""
    return (*VERDICTS.values(), NOT_DIAGNOSED)


@dataclass(frozen=True, kw_only=True)
class RungOutcome:
    """What one rung of the ladder makes of one attack.

    Parameters
    ----------
    coverage : float
        Share of the attack's rows beyond the rung's limit, in [0, 1]. For the rung
        ``quiet``: mean energy as a share of the usual, from 0. For ``moment``: largest
        row of a tag, as a multiple of its usual extreme.
    calm : float
        Median coverage of the calm windows it is compared with.
    limit : float
        The coverage that one calm window in twenty exceeds; for ``quiet`` that of the
        lowest window, for ``moment`` the largest attack-free block.
    visible : bool
        Whether the attack is shown; see `sightline.judgement.event_test`.
    ways : tuple of Way
        By which statistics it is shown: coverage, peak, onset.
    p_value : float, optional
        Share of calm windows that stand out at least as much.
    peak, onset : float, optional
        Mean of the three largest scores of all rows, and of the first ten, as multiples
        of the limit.
    by : tuple of str
        What was used: channels, or what is accumulated and over how many rows.
    n_blocks : int, optional
        Of ``moment``: attack-free blocks it is compared with.
    row : int, optional
        Of ``moment``: the row of the test.
    """

    coverage: float
    calm: float
    limit: float
    visible: bool
    ways: tuple[Way, ...] = ()
    p_value: float | None = None
    peak: float | None = None
    onset: float | None = None
    by: tuple[str, ...] = ()
    n_blocks: int | None = None
    row: int | None = None


@dataclass(frozen=True, kw_only=True)
class Signature:
    """The four figures of the paper's attack explanations, and what they read."""

    reading: Reading
    auc: float
    coverage: float
    sdr: float | None
    d_eff: float | None


@dataclass(frozen=True, kw_only=True)
class Found:
    """Whether a rule or a score shows an attack.

    Parameters
    ----------
    is_found : bool
        Whether it does.
    p_value : float
        Share of calm windows that stand out at least as much.
    q_value : float
        The same corrected for the number of attacks (Benjamini and Hochberg).
    statistic : Way
        The statistic that stands out most.
    rule : RungName
        Whose alarms or score: ``own-rule``, ``probe`` or ``evidence``.
    """

    is_found: bool
    p_value: float
    q_value: float
    statistic: Way
    rule: RungName


@dataclass(frozen=True, kw_only=True)
class SegmentDiagnosis:
    """What a diagnosis says of one attack. All is None without a diagnosis.

    Parameters
    ----------
    verdict : Verdict, optional
        Why the present rule sees the attack or not, by this stream alone.
    confidence : float, optional
        Share of redrawn versions of attack and calm time with the same verdict.
    alternatives : dict of str to float, optional
        The share of each other verdict among them, the most frequent first.
    found : Found, optional
        Whether the present rule alarms because of the attack.
    evidence : Found, optional
        Whether the energy shows it with a limit from attack-free time.
    caught : bool, optional
        Whether an alarm of the present rule catches it, by chance or not.
        Formula: see `AttackAlarms`.
        Null: in results of earlier versions.
    ladder : dict, optional
        Outcome of each rung by its name, in the order of the ladder; empty where there
        is too little calm time.
    ladder_p_value : float, optional
        Of the whole ladder: it pays for its length.
    evidence_channels : tuple of str, optional
        Channels that carry most evidence, whatever the verdict.
    contributing : tuple of Verdict, optional
        Causes of other rungs that show the attack.
    windows : WindowFacts, optional
        With which calm windows it was compared.
    untried : tuple of str, optional
        Rungs that had to be tried and could not be; then the verdict is ``undecided``.
    flags : tuple of Flag, optional
        What limits the comparison.
    aftermath_s : float, optional
        Seconds after the attack that are not calm, because the plant recovers.
    telemetry : AttackFacts, optional
        What the telemetry itself says; None where none was given.
    signature : Signature, optional
        The paper's reading of four figures.
    signature_agrees : bool, optional
        Whether this reading and the verdict agree; None where one of them is silent.
    sentence : str, optional
        The verdict in words.
    """

    verdict: Verdict | None = None
    confidence: float | None = None
    alternatives: dict[str, float] | None = None
    found: Found | None = None
    evidence: Found | None = None
    caught: bool | None = None
    ladder: dict[str, RungOutcome] | None = None
    ladder_p_value: float | None = None
    evidence_channels: tuple[str, ...] | None = None
    contributing: tuple[Verdict, ...] | None = None
    windows: WindowFacts | None = None
    untried: tuple[str, ...] | None = None
    flags: tuple[Flag, ...] | None = None
    aftermath_s: float | None = None
    telemetry: AttackFacts | None = None
    signature: Signature | None = None
    signature_agrees: bool | None = None
    sentence: str | None = None


@dataclass(frozen=True, kw_only=True)
class Repair:
    """Which attacks one repair shows, in hindsight.

    Parameters
    ----------
    recall_before, recall_after : float
        Share of all attacks that the present rule shows, and that the repair shows in
        its place.
    segments_gained : tuple of str
        Ids of the attacks that the repair shows and the present rule does not.
    segments_lost : tuple of str
        Ids of the attacks that the present rule shows and the repair does not.
    by : tuple of str
        What it uses: channels, or what is accumulated.
    before, after : RuleOutcome, optional
        The present rule, and the alarm rule that carries the repair out in its place,
        made for the budget: limit, alarms, share of time, attacks raised with chance,
        skill and delay, on rows that set no limit. None where no rule could be made.
    sentence : str
        What it shows and what it costs, in words; empty where it shows nothing more.
    false_alarms_per_day_before, false_alarms_per_day_after : float, optional
        Runs of false alarms, in results of earlier versions; else None.
    """

    recall_before: float
    recall_after: float
    segments_gained: tuple[str, ...]
    segments_lost: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    before: RuleOutcome | None = None
    after: RuleOutcome | None = None
    sentence: str = ""
    false_alarms_per_day_before: float | None = None
    false_alarms_per_day_after: float | None = None


@dataclass(frozen=True, kw_only=True)
class Count:
    """How many attacks, and how many by chance.

    Parameters
    ----------
    count, total : int
        How many of how many attacks.
    by_chance : float
        The mean count if each attack is replaced by one of its calm windows.
    p_value : float
        Probability of that count or more, if each attack were a calm window.
    """

    count: int
    total: int
    by_chance: float
    p_value: float


@dataclass(frozen=True, kw_only=True)
class DiagnosisFacts:
    """What a diagnosis says of the stream as a whole.

    Parameters
    ----------
    advice : str, optional
        The first thing to change, in words: the alarm rule that keeps the budget, with
        what it costs and what it raises. None where no rule could be made.
    advice_withheld : str, optional
        Why no cause on this stream is to be believed.
    false_cause_rate : float, optional
        Share of calm windows to which the same ladder gives a cause; None where there
        were none to try.
    n_calm_windows : int
        Number of calm windows tried.
    telemetry_judged : bool
        Whether the telemetry was given and could be judged.
    rule : RungName, optional
        The present rule: the user's own if it was given, else the p99 rule.
    found : Count, optional
        Attacks that the present rule finds.
    rings : Count, optional
        Attacks with any alarm of the present rule, of those with calm windows.
    is_standing : bool
        Whether the present rule is in alarm in half of a usual calm window, so that it
        finds nothing.
    share_in_alarm, share_in_alarm_calm : float, optional
        Share of attack-free time in alarm, counted as `AlarmLoad.share_of_time`; they
        differ in results of earlier versions only.
    aftermath_share : float, optional
        Share of attack-free time that is the aftermath of attacks.
    method : int
        Which rules made the verdicts: 2 for those of this version, 1 for the earlier
        ones, by which many attacks were judged differently.
    """

    advice: str | None
    false_cause_rate: float | None
    n_calm_windows: int
    telemetry_judged: bool
    advice_withheld: str | None = None
    rule: RungName | None = None
    found: Count | None = None
    rings: Count | None = None
    is_standing: bool = False
    share_in_alarm: float | None = None
    share_in_alarm_calm: float | None = None
    aftermath_share: float | None = None
    method: int = 1
