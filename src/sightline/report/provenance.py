"""How it was made: versions, settings, definitions, and what this cannot say."""

from collections.abc import Mapping, Sequence
from typing import Any

from sightline._version import __version__
from sightline.report.entries import Entry
from sightline.text import duration, share

CITATION = (
    "P. Shi, J. Xiang, X. Zhang, C. Fu. What the Detector Can See: Evaluating CPS "
    "Anomaly Detectors Independently of the Decision Rule. 2026. Code and data: "
    "https://zenodo.org/records/20653309"
)
LIMITS = (
    "It speaks of past incidents only: the attacks labelled in this record.",
    "It says nothing about attacks that are not in this record, nor about an attacker "
    "who adapts to the detector.",
    "Repairs are judged in hindsight, with attack-free test hours of the same record; "
    "a repair in service would not have had them.",
    "A channel that carries evidence need not be the cause.",
)
DEFINITIONS = (
    (
        "Attacks found",
        "Attacks during which the rule is in alarm at least 30 points more of the time "
        "than in calm windows of the same length nearby, and more than in 95% of them. "
        "An alarm that never stops finds nothing. The interval is exact "
        "(Clopper-Pearson, 95%).",
    ),
    (
        "False alarms a day",
        "Runs of alarms that touch no attack, a day of attack-free test time.",
    ),
    (
        "Typical delay",
        "Median time from an attack's start to the first alarm, of attacks found.",
    ),
    (
        "Own rule, p99 rule",
        "The detector's own alarms as it runs today; and one fixed rule for all: "
        "energy above the 99th percentile of train energy (tau99), nothing tuned.",
    ),
    (
        "Energy",
        "Half the squared distance of a row's residuals from the normal reference "
        "fitted on train; p/2 on average if nothing changes.",
    ),
    (
        "Train level, drift floor",
        "Mean energy of train; mean energy of attack-free test rows, or their median "
        "where a few extreme points make the mean (\u2020).",
    ),
    (
        "ROC-AUC",
        "How often an attack row has more energy than a normal one; 0.5 is chance.",
    ),
    (
        "pAUC@1%",
        "The same where false alarms are at most 1% of rows; 0 is chance, 1 perfect.",
    ),
    (
        "D_FULL",
        "Evidence of a whole attack window against the reference (its length times a "
        "Gaussian Kullback-Leibler divergence); read only beside windows as long.",
    ),
    (
        "P_FULL",
        "How often an attack window has more of it than a normal window of its length.",
    ),
    (
        "D_drift (robust)",
        "Mean (median) energy of attack-free test rows minus mean train energy. "
        "\u2020: a few extreme points make the mean; read the robust one.",
    ),
    (
        "p_eff/p",
        "Share of the residual dimensions that normal data use; a signature, no mark.",
    ),
    (
        "F1@p99",
        "Point-wise F1 of the p99 rule, without point adjustment.",
    ),
    (
        "Interval",
        "95%, from attacks drawn whole and normal time drawn in blocks.",
    ),
    (
        "Chance",
        "The same figure with labels moved at random along the record; a figure that "
        "is not above it is marked.",
    ),
    (
        "Coverage",
        "Share of an attack's rows beyond the limit.",
    ),
    (
        "Agreement",
        "Spearman's rank correlation of D_FULL over the attacks two detectors share.",
    ),
    (
        "False-cause rate",
        "Share of calm windows that the same ladder of repairs would give a cause.",
    ),
)
# Of what a detector brings along, what a reader would ask for.
_LEFT_OUT = ("groups", "scale", "detector_settings", "seed")


def making(entries: Sequence[Entry], *, redact: bool = False) -> dict[str, Any]:
    """Return what section seven of the page says."""
    return {
        "sightline": __version__,
        "streams": [_stream(entry, redact=redact) for entry in entries],
        "definitions": [list(pair) for pair in DEFINITIONS],
        "citation": CITATION,
        "limits": list(LIMITS),
    }


def _stream(entry: Entry, *, redact: bool) -> dict[str, Any]:
    e = entry.evaluation
    settings = {} if redact else _settings(e.provenance)
    return {
        "label": entry.label,
        "testbed": entry.testbed,
        "names": [result.evaluation.stream.name for result in entry.results],
        "seeds": [_seed(result.evaluation.provenance) for result in entry.results],
        "facts": [
            ["rows", f"train {e.stream.n_train:,}, test {e.stream.n_test:,}"],
            ["channels", f"{e.stream.p} ({e.stream.space or 'space not given'})"],
            [
                "attacks",
                f"{e.stream.n_segments} in {e.stream.n_attack:,} rows"
                + (f"; {e.stream.n_ignored:,} rows ignored" * bool(e.stream.n_ignored)),
            ],
            [
                "seconds a row",
                "not known" if e.stream.step_s is None else duration(e.stream.step_s),
            ],
            ["reference", _reference(entry)],
            ["guard after attacks", f"{e.guard} rows"],
            ["false-cause rate", _false_causes(e.diagnosis)],
            ["telemetry judged", _telemetry(e.diagnosis)],
            ["intervals", _intervals(e.bootstrap)],
            ["made with", _versions(e.provenance)],
        ],
        "settings": settings,
        "notices": list(e.notices or ()),
    }


def _reference(entry: Entry) -> str:
    facts = entry.evaluation.reference
    shrunk = "" if facts.shrinkage is None else f", shrinkage {facts.shrinkage:.3g}"
    return f"{facts.estimator}{shrunk}"


def _false_causes(diagnosis: Mapping[str, Any] | None) -> str:
    if diagnosis is None or diagnosis.get("false_cause_rate") is None:
        return "not measured"
    n_windows = diagnosis["n_calm_windows"]
    return f"{share(diagnosis['false_cause_rate'])} of {n_windows} calm windows"


def _telemetry(diagnosis: Mapping[str, Any] | None) -> str:
    judged = bool((diagnosis or {}).get("telemetry_judged"))
    return "yes" if judged else "no: none was given, or no diagnosis was made"


def _intervals(bootstrap: Mapping[str, Any] | None) -> str:
    if bootstrap is None:
        return "left out"
    return (
        f"{bootstrap['n']} draws in blocks of {bootstrap['block']:,} rows, "
        f"seed {bootstrap['seed']}"
    )


def _versions(provenance: Mapping[str, Any] | None) -> str:
    known = provenance or {}
    parts = [
        f"{name} {known[name]}"
        for name in ("sightline", "numpy", "python")
        if known.get(name)
    ]
    return ", ".join(parts) or "not known"


def _seed(provenance: Mapping[str, Any] | None) -> str:
    meta = (provenance or {}).get("meta")
    if not isinstance(meta, Mapping):
        return "not given"
    settings = meta.get("detector_settings")
    inner = settings.get("seed") if isinstance(settings, Mapping) else None
    seed = meta.get("seed", inner)
    return "not given" if seed is None else str(seed)


def _settings(provenance: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the configuration a stream brought along, one line for each value."""
    meta = (provenance or {}).get("meta")
    if not isinstance(meta, Mapping):
        return {}
    settings = meta.get("detector_settings")
    known = {str(key): value for key, value in meta.items() if key not in _LEFT_OUT}
    if isinstance(settings, Mapping):
        known |= {str(key): value for key, value in settings.items()}
    return {key: _short(value) for key, value in known.items() if value is not None}


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 200 else f"{text[:200]}\u2026"
