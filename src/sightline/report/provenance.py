"""How the report was made: versions, settings, definitions, and limitations.

The definitions are the glossary of the page; its tables show them as tooltips. Numbers
in them come from the constants of the method.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sightline.comparison.runs import Figure
from sightline.evaluation.result import Evaluation
from sightline.judgement import calm
from sightline.metrics import ranking
from sightline.report.entries import Entry
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
        "Attacks found": "Attacks during which the rule is in alarm at least "
        f"{100 * calm.CONTRAST:.0f} percentage points more of the time than in "
        "attack-free windows of the same length nearby (their median), and more than "
        f"in {share(calm.RARE)} of them. An alarm that never stops finds nothing. The "
        "interval is exact (Clopper-Pearson, 95%).",
        "False alarms a day": "Runs of alarms that touch no attack, for each day of "
        "attack-free test time.",
        "Typical delay": "Median time from the start of an attack to the first alarm, "
        "over the attacks found.",
        "Own rule, p99 rule": "The detector's own alarms as it runs today; and one "
        "fixed rule for all detectors: energy above the 99th percentile of train "
        "energy (the alarm limit tau99), with nothing tuned.",
        "Energy": "Deviation score of a row: half the squared Mahalanobis distance of "
        "its residuals from the reference, the model of normal operation fitted on "
        "train. The average is p/2 if nothing changes.",
        "Train level": "Mean energy of train.",
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
        "Interval": "95%, from a bootstrap that draws attacks whole and normal time in "
        "blocks.",
        "Chance": "The same figure with the labels shifted at random along the record. "
        "A figure that is no better than chance is marked.",
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
        "false-cause rate": _false_causes(e),
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
