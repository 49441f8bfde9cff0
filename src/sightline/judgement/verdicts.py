"""The table of verdicts, and the records that a diagnosis consists of.

Everything that is said or drawn of a verdict is read from `VERDICTS`: the terminal,
the page, its scripts and the printed figures have no words, symbols or colours of their
own. The table of the ladder's rungs is `sightline.judgement.ladder.LADDER`.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Verdict(StrEnum):
    """Why the p99 rule does or does not see an attack; the value is the word in files.

    Examples
    --------
    >>> Verdict("diluted") is Verdict.DILUTED, f"{Verdict.DILUTED}"
    (True, 'diluted')
    """

    DETECTED = "detected"
    THRESHOLD = "threshold"
    SEQUENTIAL = "sequential"
    DRIFT = "drift"
    DILUTED = "diluted"
    QUIET = "quiet"
    UNDECIDED = "undecided"
    WEAK_EVIDENCE = "weak-evidence"
    NOT_IN_TELEMETRY = "not-in-telemetry"


class RungName(StrEnum):
    """The rungs of the ladder by the names they have in files."""

    OWN_RULE = "own-rule"
    DETECTED = "detected"
    RECALIBRATE = "recalibrate"
    REREFERENCE = "rereference"
    REFOCUS = "refocus"
    ACCUMULATE = "accumulate"
    QUIET = "quiet"
    TELEMETRY = "telemetry"


class Reading(StrEnum):
    """What the paper's table reads from four figures of one attack."""

    DETECTED = "detected"
    THRESHOLD = "threshold"
    DRIFT = "drift"
    NO_EVIDENCE = "no-evidence"
    UNCLEAR = "unclear"


@dataclass(frozen=True, kw_only=True)
class VerdictInfo:
    """One row of the table: everything that is said or drawn of one verdict.

    Parameters
    ----------
    word : str
        The verdict as files and people write it.
    meaning, repair : str
        What it says of an attack, and what to do about it.
    sentence : str
        Template of the sentence on one attack. `sightline.judgement.sentences` fills
        it in: a rung by its name (``{refocus.coverage}``), and a few phrases.
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
    meaning: str
    repair: str
    sentence: str
    symbol: str
    marker: str
    print_marker: str
    is_hollow: bool = False
    light: str
    dark: str

    def page_fields(self) -> dict[str, str]:
        """Return what the scripts of the page need: all texts but the sentence."""
        names = ("word", "symbol", "marker", "light", "dark", "meaning", "repair")
        return {name: getattr(self, name) for name in names}


VERDICTS: Final[dict[Verdict, VerdictInfo]] = {
    Verdict.DETECTED: VerdictInfo(
        word=Verdict.DETECTED,
        meaning="the p99 rule sees it, compared with attack-free time around it",
        repair="nothing to repair",
        sentence="Detected: {detected.coverage} of this attack is above the limit that "
        "{budget} of training exceeds; attack-free time near it: {detected.calm}.",
        symbol="\u25cf",
        marker="circle",
        print_marker="o",
        light="#00805d",
        dark="#2cc79a",
    ),
    Verdict.THRESHOLD: VerdictInfo(
        word=Verdict.THRESHOLD,
        meaning="the evidence ranks high, but the limit from training does not "
        "separate it",
        repair="recalibrate the limit",
        sentence="Missed by its limit: the energy stands out "
        "({recalibrate.hindsight} {test_limit}; {recalibrate.usual}), but not with the "
        "limit from training ({detected.against_nearby}). Check whether the alarm "
        "limit can be set on attack-free time of this plant.",
        symbol="\u25b2",
        marker="triangle-up",
        print_marker="^",
        light="#a86f00",
        dark="#f0b429",
    ),
    Verdict.SEQUENTIAL: VerdictInfo(
        word=Verdict.SEQUENTIAL,
        meaning="single points do not stand out, their accumulation does",
        repair="accumulate energy over time (EWMA, CUSUM)",
        sentence="Missed point by point: single points do not stand out "
        "({recalibrate.coverage} beyond {test_limit}), but their accumulation does "
        "(by {accumulation}; {accumulate.hindsight} {test_limit}; "
        "{accumulate.usual}). Check whether a rule that accumulates energy helps.",
        symbol="\u2261",
        marker="hash-open",
        print_marker="s",
        is_hollow=True,
        light="#2c7fb0",
        dark="#66c2f0",
    ),
    Verdict.DRIFT: VerdictInfo(
        word=Verdict.DRIFT,
        meaning="the evidence appears when the reference is fitted again on "
        "attack-free test time",
        repair="stabilise or update the reference",
        sentence="Missed by drift: it stands out with the normal reference fitted "
        "again on attack-free time {refit_scope} ({rereference.hindsight} "
        "{test_limit}; {rereference.usual}), but not with the one from training "
        "({detected.against_nearby}). First confirm that the change of normal "
        "operation is a known one: an attack that lasts looks like drift.",
        symbol="\u25e2",
        marker="triangle-se",
        print_marker=">",
        light="#c04f00",
        dark="#ff8a4c",
    ),
    Verdict.DILUTED: VerdictInfo(
        word=Verdict.DILUTED,
        meaning="the evidence is in a few channels and is lost when all are pooled",
        repair="score a smaller space separately",
        sentence="Missed by dilution: {space_stands} out ({refocus.hindsight} a "
        "{budget} limit of its own; {refocus.usual}), but the evidence is lost among "
        "{n_channels} pooled channels ({recalibrate.coverage}). Check whether scoring "
        "this smaller space separately helps.",
        symbol="\u25c6",
        marker="diamond",
        print_marker="D",
        light="#a8467e",
        dark="#e58fc0",
    ),
    Verdict.QUIET: VerdictInfo(
        word=Verdict.QUIET,
        meaning="less energy than normal: signals frozen or replayed",
        repair="alarm on too little movement as well",
        sentence="Missed because it is quiet: it has {quiet.coverage} of the usual "
        "energy of attack-free time near it, less than any window there (the lowest "
        "has {quiet.limit}), as frozen or replayed signals have. Check whether an "
        "alarm on too little movement helps.",
        symbol="\u25bd",
        marker="triangle-down-open",
        print_marker="v",
        is_hollow=True,
        light="#0062a3",
        dark="#7fb2ff",
    ),
    Verdict.UNDECIDED: VerdictInfo(
        word=Verdict.UNDECIDED,
        meaning="too few attack-free windows to judge",
        repair="record more attack-free time",
        sentence="Cannot be judged: it needs at least {least_windows} attack-free "
        "stretches of its length, or of {least_rows} rows, to compare it with. Record "
        "more attack-free time.",
        symbol="?",
        marker="star",
        print_marker="*",
        light="#6b6b6b",
        dark="#a8a8a8",
    ),
    Verdict.WEAK_EVIDENCE: VerdictInfo(
        word=Verdict.WEAK_EVIDENCE,
        meaning="no repair shows it; the telemetry moves, or was not given",
        repair="a better model of the plant",
        sentence="Missed, and no repair shows it: at best {best.coverage} of it lies "
        "beyond a {budget} limit; {best.usual}. {telemetry_finding}",
        symbol="\u25cb",
        marker="circle-open",
        print_marker="o",
        is_hollow=True,
        light="#3d3d3d",
        dark="#d0d0d0",
    ),
    Verdict.NOT_IN_TELEMETRY: VerdictInfo(
        word=Verdict.NOT_IN_TELEMETRY,
        meaning="no repair shows it, and the measured telemetry itself does not move",
        repair="nothing to see in this telemetry",
        sentence="Missed, and nothing to see: no repair shows it, and the measured "
        "telemetry itself does not move clearly more than in attack-free time (at "
        "most {telemetry.coverage} beyond a {budget} limit; {telemetry.usual}, "
        "{telemetry.rarely}).",
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
    meaning="evaluated without a diagnosis",
    repair="evaluate again without --no-diagnosis",
    sentence="",
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
        ``quiet``: mean energy as a share of the usual, from 0.
    calm : float
        Median coverage of the attack-free windows it is compared with.
    limit : float
        The coverage that one in twenty of these windows exceeds.
    visible : bool
        Whether the attack stands out; see `sightline.judgement.calm.judged`.
    by : tuple of str
        What was used: a subspace, a way to accumulate, the scope of a refit.
    """

    coverage: float
    calm: float
    limit: float
    visible: bool
    by: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Signature:
    """The four figures of the paper's attack explanations, and what they read."""

    reading: Reading
    auc: float
    coverage: float
    sdr: float | None
    d_eff: float | None


@dataclass(frozen=True, kw_only=True)
class SegmentDiagnosis:
    """What a diagnosis says of one attack. All is None without a diagnosis.

    Parameters
    ----------
    verdict : Verdict, optional
        Why the p99 rule sees the attack or not.
    ladder : dict, optional
        Outcome of each rung by its name, in the order of the ladder; empty where the
        attack is undecided.
    refocus_channels : tuple of str, optional
        Members of the best smaller space, whatever the verdict; empty where it is a
        sum of the largest channels.
    contributing : tuple of Verdict, optional
        Causes of all rungs that show the attack.
    signature : Signature, optional
        The paper's reading of four figures.
    signature_agrees : bool, optional
        Whether this reading and the verdict agree; None where one of them is silent.
    sentence : str, optional
        The verdict in words.
    """

    verdict: Verdict | None = None
    ladder: dict[str, RungOutcome] | None = None
    refocus_channels: tuple[str, ...] | None = None
    contributing: tuple[Verdict, ...] | None = None
    signature: Signature | None = None
    signature_agrees: bool | None = None
    sentence: str | None = None


@dataclass(frozen=True, kw_only=True)
class Repair:
    """Attacks detected and false alarms a day, before and after one repair.

    Parameters
    ----------
    recall_before, recall_after : float
        Share of all attacks that are visible; after means before, or by this repair.
    segments_gained : tuple of str
        Ids of the attacks that only the repair shows.
    false_alarms_per_day_before, false_alarms_per_day_after : float, optional
        None without a step in seconds, and after a refit around single attacks.
    by : tuple of str
        The subspaces, ways to accumulate or scopes of a refit that it uses.
    """

    recall_before: float
    recall_after: float
    segments_gained: tuple[str, ...]
    false_alarms_per_day_before: float | None
    false_alarms_per_day_after: float | None
    by: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DiagnosisFacts:
    """What a diagnosis says of the stream as a whole.

    Parameters
    ----------
    advice : str
        The first thing to try, in words.
    false_cause_rate : float, optional
        Share of attack-free windows to which the same ladder gives a cause; None where
        there were none to try.
    n_calm_windows : int
        Number of attack-free windows tried.
    telemetry_judged : bool
        Whether the telemetry was given and could be judged.
    """

    advice: str
    false_cause_rate: float | None
    n_calm_windows: int
    telemetry_judged: bool
