"""How the report was made: versions, settings, definitions, and limitations.

The definitions are the glossary of the page; its tables show them as tooltips. Numbers
in them come from the constants of the method.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sightline.comparison.runs import Figure
from sightline.evaluation.result import Evaluation
from sightline.facts import attack_facts
from sightline.judgement import confidence, event_test
from sightline.judgement.judge import METHOD
from sightline.metrics import alarm_load, ranking
from sightline.report.entries import Entry
from sightline.rules import advice
from sightline.text import DAGGER, duration, share

CITATION = (
    "P. Shi, J. Xiang, X. Zhang, C. Fu. What the Detector Can See: Evaluating CPS "
    "Anomaly Detectors Independently of the Decision Rule. 2026. Code and data: "
    "https://zenodo.org/records/20653309"
)
LIMITATIONS = (
    "The report covers past incidents only: the attacks labelled in this record.",
    "It says nothing about other attacks, nor about an attacker who adapts to the "
    "detector.",
    "Repairs are judged in hindsight, with attack-free test time of the same record. "
    "A repair in operation would not have had this data.",
    "A channel that carries evidence is not necessarily the cause.",
)
# Metadata of a stream that the section shows elsewhere, or that is too long.
_HIDDEN = ("groups", "scale", "detector_settings", "seed")
MAX_LETTERS = 200


@dataclass(frozen=True, kw_only=True)
class StreamRow:
    """What is known of the streams of one detector on one testbed.

    Parameters
    ----------
    label, testbed : str
        Names of the detector and the testbed.
    facts : dict of str to str
        Sizes, settings of the evaluation, versions.
    settings : dict of str to str
        Settings of the detector; empty in a redacted report.
    notices : tuple of str
        What to watch out for.
    """

    label: str
    testbed: str
    facts: dict[str, str]
    settings: dict[str, str]
    notices: tuple[str, ...]


def definitions() -> dict[str, str]:
    """Return the glossary of the page.

    Returns
    -------
    dict of str to str
        Each term and its definition. Figures are under the label that their column
        has, so that the page can show the definition there.

    Examples
    --------
    >>> definitions()["ROC-AUC"]
    'Probability that an attack row has more energy than a normal row; 0.5 is chance.'
    """
    return {
        "Attacks found": "Attacks during which the rule does what it does in at most "
        f"{share(event_test.LEVEL)} of attack-free stretches of the same length: it is "
        f"in alarm at least {100 * event_test.EFFECT:.0f} percentage points more of "
        "the time than in the usual one, or its score peaks, at the onset or later, at "
        f"{event_test.PEAK_EFFECT:.0f} times the limit or more. An alarm that never "
        "stops finds nothing. The interval is exact (Clopper-Pearson, 95%).",
        "Blindness": "Geometric mean over sensors of the deviation that is seen in "
        "half of the places, as a share of the tag's range in train (at most 10): "
        "steps and ramps of 15 minutes, raised and lowered. Lower is better.",
        "By chance": "Attacks that the same rule would find if each were replaced by "
        "an attack-free stretch, on average, and the probability p of as many or more. "
        "Of a rule that is not the present one an upper bound.",
        "Alarm because of it": "Whether the present rule finds the attack: the "
        "detector's own rule if it has one, else the p99 rule. With the p-value of "
        "this attack alone, and the statistic that stands out most: coverage, peak or "
        f"onset (the first {event_test.ONSET_ROWS} rows).",
        "Evidence": "Whether the deviation score itself shows the attack with a limit "
        "from attack-free time, whatever the present rule does; or only a repair.",
        "p, q": "p: share of attack-free stretches that stand out at least as much as "
        "the attack. q: the same corrected for the number of attacks (Benjamini and "
        "Hochberg).",
        "Confidence": "Share of redrawn versions of the attack and of attack-free time "
        f"that lead to the same verdict: sure from {share(confidence.SURE)}, likely "
        f"from {share(confidence.UNSURE)}, may be below. Below "
        f"{share(confidence.UNDECIDED)} no verdict is given.",
        "Tag in first three": "Attacks with an alarm of the p99 rule of which an "
        "attacked tag is among the three tags that deviate most at the first alarm, "
        "from what all other tags lead to expect. Chance: with the targets of other "
        "attacks.",
        "Telemetry": "Whether the measured values themselves move during the attack, "
        "by a test of their own: the same for all detectors. It moves if p is at most "
        f"{attack_facts.MOVES}, and is still if p is above {attack_facts.STILL:.2f}. "
        "If it is still but a rule detects the attack, or repairs of two detectors "
        "show it, these contradict the test, and the page names them.",
        "Aftermath": "Time after an attack in which the plant recovers. It is not used "
        "as attack-free time.",
        "False alarms a day": "Alarms that start in attack-free time, for each day of "
        "it; an alarm is over once nothing exceeds the limit for "
        f"{alarm_load.OFF_S / 60:.0f} minutes. A standing alarm counts once more for "
        "each full hour, so that one that never stops makes 24 to 26 a day. Fewer than "
        f"{advice.FEW} are counted, not divided by the days. Results of earlier "
        "versions have runs of alarms that touch no attack, and say so.",
        "Alarm load": "How alarms come, in the words of ISA-18.2. The most in any 10 "
        f"minutes; floods: 10 minutes with {alarm_load.FLOOD} or more; standing: "
        "counted because an alarm did not stop; chattering: alarms that return "
        f"{alarm_load.CHATTER} times within a minute. Up to "
        f"{alarm_load.MANAGEABLE_PER_DAY} a day are manageable for one operator, "
        f"{alarm_load.MOST_PER_DAY} are the most.",
        "Raised": "Attacks in which an alarm starts; one that stood before raises "
        "nothing. By chance: the same for attack-free windows of each attack's length, "
        "summed over the attacks.",
        "Skill": "(raised - by chance) / (attacks - by chance): 1 if all attacks are "
        "raised, 0 if no more than by chance, so that rules with different numbers of "
        "alarms can be compared.",
        "Rule for the budget": "An alarm rule whose limit was set on attack-free rows "
        "of the first part of the test, for the false alarms that you accept. Its "
        "figures are of the rows after that, which set no limit.",
        "Typical delay": "Median time from the start of an attack to the first alarm, "
        "over the attacks found.",
        "Own rule, p99 rule": "The detector's own alarms as it runs today; and one "
        "fixed rule for all detectors: energy above the 99th percentile of train "
        "energy (the alarm limit tau99), with nothing tuned.",
        "Energy": "Deviation score of a row: half the squared Mahalanobis distance of "
        "its residuals from the reference, the model of normal operation fitted on "
        "train. The average is p/2 if nothing changes.",
        "Train level": "Mean energy of train.",
        "Told apart": "Two detectors can be told apart in a figure if exchanges of "
        "detectors within attacks give any pair so large a difference in at most 5% of "
        "tries.",
        "Drift floor": "Mean energy of attack-free test rows; their median if a few "
        f"extreme points dominate the mean ({DAGGER}).",
        Figure.ROC_AUC.label: "Probability that an attack row has more energy than a "
        "normal row; 0.5 is chance.",
        Figure.PAUC_1.label: f"The same, where at most {share(ranking.PAUC_RATES[0])} "
        "of normal rows are in alarm; 0 is chance, 1 is perfect.",
        "D_FULL": "Evidence of a whole attack window against the reference: its length "
        "times a Gaussian Kullback-Leibler divergence. Compare it only with windows of "
        "the same length.",
        Figure.MEDIAN_D_FULL.label: "Median of D_FULL over the attacks.",
        Figure.P_FULL.label: "Probability that an attack window has a larger D_FULL "
        "than a normal window of its length; 0.5 is chance.",
        Figure.D_DRIFT.label: "Mean energy of attack-free test rows minus mean train "
        f"energy. {DAGGER}: a few extreme points dominate it; use the robust value.",
        Figure.D_DRIFT_ROBUST.label: "Median energy of attack-free test rows minus "
        "mean train energy.",
        Figure.COMPACTNESS.label: "Share of the residual dimensions that normal data "
        "use. It describes the detector; it is neither good nor bad.",
        Figure.F1.label: "Point-wise F1 of the p99 rule, without point adjustment.",
        Figure.HINDSIGHT_F1.label: "The same with the limit set in hindsight on "
        "attack-free test rows: 1% of them exceed it. No rule in service could know "
        "it; the difference to F1@p99 is what drift costs.",
        "Interval": "95%, for attacks of these kinds and lengths and calm time as in "
        "this test: whole attacks and blocks of calm time are redrawn, with one more "
        "attack, unseen or wholly seen. It says nothing of other plants, other kinds "
        "of attack, or drift.",
        "Chance": "The same figure with calm windows at a like level in the place of "
        "the attacks. A figure that is no better than chance is marked.",
        "Coverage": "Share of the rows of an attack beyond the limit.",
        "Agreement": "Spearman's rank correlation of D_FULL over the attacks that two "
        "detectors share, the mean over pairs of seeds.",
        "False-cause rate": "Share of attack-free windows to which the same ladder of "
        "repairs would assign a cause.",
    }


def stream_rows(entries: Sequence[Entry], *, redact: bool = False) -> list[StreamRow]:
    """Return what is known of the streams of each entry.

    Parameters
    ----------
    entries : sequence of Entry
        In the order of the page.
    redact : bool
        Whether to leave out the detector's settings.

    Returns
    -------
    list of StreamRow
        In the same order.
    """
    return [
        StreamRow(
            label=entry.label,
            testbed=entry.testbed,
            facts=_facts(entry),
            settings={} if redact else _settings(entry.evaluation),
            notices=tuple(entry.evaluation.notices or ()),
        )
        for entry in entries
    ]


def _facts(entry: Entry) -> dict[str, str]:
    """Return names and values; all but names and seeds are of the first seed."""
    e = entry.evaluation
    evaluations = [result.evaluation for result in entry.results]
    seeds = [one.provenance.seed for one in evaluations]
    ignored = f"; {e.stream.n_ignored:,} rows ignored" if e.stream.n_ignored else ""
    shrinkage = e.reference.shrinkage
    return {
        "streams": ", ".join(one.stream.name for one in evaluations),
        "seeds": ", ".join(
            "not given" if seed is None else str(seed) for seed in seeds
        ),
        "rows": f"train {e.stream.n_train:,}, test {e.stream.n_test:,}",
        "channels": f"{e.stream.p} ({e.stream.space or 'space not given'})",
        "attacks": f"{e.stream.n_segments} in {e.stream.n_attack:,} rows{ignored}",
        "time between rows": "not known"
        if e.stream.step_s is None
        else duration(e.stream.step_s),
        "reference": e.reference.estimator
        + ("" if shrinkage is None else f", shrinkage {shrinkage:.3g}"),
        "guard after attacks": f"{e.guard} rows",
        "protocol": str(e.protocol),
        "verdicts": _method(e),
        "false-cause rate": _false_causes(e),
        "aftermath": _aftermath(e),
        "telemetry judged": "yes"
        if e.diagnosis and e.diagnosis.telemetry_judged
        else "no: none was given, or no diagnosis was made",
        "intervals": _intervals(e),
        "versions": _versions(e),
    }


def _false_causes(evaluation: Evaluation) -> str:
    """Return the share of attack-free windows to which the ladder gives a cause."""
    facts = evaluation.diagnosis
    if facts is None or facts.false_cause_rate is None:
        return "not measured"
    rate, n_windows = share(facts.false_cause_rate), facts.n_calm_windows
    return f"{rate} of {n_windows} attack-free windows"


def _method(evaluation: Evaluation) -> str:
    """Return which rules made the verdicts."""
    facts = evaluation.diagnosis
    if facts is None:
        return "none: no diagnosis was made"
    return (
        "by the present rules"
        if facts.method == METHOD
        else "by earlier rules: evaluate the stream again"
    )


def _aftermath(evaluation: Evaluation) -> str:
    """Return how much attack-free time was left out as aftermath of attacks."""
    facts = evaluation.diagnosis
    if facts is None or facts.aftermath_share is None:
        return "not measured"
    return f"{share(facts.aftermath_share)} of attack-free time left out"


def _intervals(evaluation: Evaluation) -> str:
    """Return how the intervals were drawn."""
    facts = evaluation.bootstrap
    if facts is None:
        return "not computed"
    return f"{facts.n} draws in blocks of {facts.block:,} rows, seed {facts.seed}"


def _versions(evaluation: Evaluation) -> str:
    """Return the versions that computed the evaluation."""
    made_by = evaluation.provenance
    versions = [
        f"{name} {version}"
        for name in ("sightline", "numpy", "python")
        if (version := getattr(made_by, name))
    ]
    return ", ".join(versions) or "not known"


def _settings(evaluation: Evaluation) -> dict[str, str]:
    """Return the settings that a stream's metadata hold, shortened if long."""
    meta = evaluation.provenance.meta
    inner = meta.get("detector_settings")
    merged = {**meta, **(inner if isinstance(inner, Mapping) else {})}
    texts = {
        str(key): str(value)
        for key, value in merged.items()
        if value is not None and key not in _HIDDEN
    }
    return {
        key: text if len(text) <= MAX_LETTERS else f"{text[:MAX_LETTERS]}\u2026"
        for key, text in texts.items()
    }
