"""How the report was made: versions, settings and limitations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sightline.evaluation.result import Evaluation
from sightline.judgement.judge import METHOD
from sightline.report.entries import Entry
from sightline.text import duration, share

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
