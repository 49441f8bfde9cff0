"""What the page is made from: the recording, its tags, streams and versions.

The facts belong to the recording, so every detector of a testbed carries the same ones;
the section "Your data" shows those of the first detector that has any.
"""

from collections.abc import Mapping, Sequence

from sightline.audit.record import (
    CODES,
    Finding,
    RecordingFacts,
    Severity,
    TagFacts,
    TagSummary,
    by_severity,
)
from sightline.data.zones import zone_words
from sightline.evaluation.result import Evaluation
from sightline.judgement.judge import METHOD
from sightline.report.entries import Entry
from sightline.text import UNKNOWN, duration, names, number, plural, share

NO_FACTS = (
    "These results carry no facts about the recording. Run `sightline inspect` on the "
    "testbed or the plant's folder, and `sightline run` to get a page with its facts; "
    "residuals from elsewhere have none."
)
SYMBOLS = {Severity.ERROR: "\u2715", Severity.WARNING: "\u25b2", Severity.NOTE: "i"}
# Findings and notices that are shown at once; the others are folded.
MAX_FINDINGS = 5
MAX_NOTICES = 6
# Detectors and codes that are named before "and n more".
MAX_NAMES = 6
# Steps of train and test that differ by more than this factor are marked.
COARSE = 1.5
# The picture of a tag in one table, in units of the drawing.
WIDTH, HEIGHT = 60, 24
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


def audited(entries: Sequence[Entry]) -> Evaluation:
    """Return the first evaluation of a testbed that carries facts; else the first."""
    carried = [e for e in entries if e.evaluation.recording is not None]
    return (carried or entries)[0].evaluation


def data_findings(evaluation: Evaluation) -> list[Finding]:
    """Return what was found in the data: errors first, then warnings, then notes."""
    # A notice of reading is also a finding, and is shown among what was held.
    notices = evaluation.recording.notices if evaluation.recording else ()
    findings = (
        one
        for one in evaluation.findings
        if one.text not in notices and not one.is_protocol
    )
    return sorted(findings, key=lambda one: list(Severity).index(one.severity))


def n_open(findings: Sequence[Finding]) -> int:
    """Return how many findings are shown at once: all errors and warnings."""
    return max(MAX_FINDINGS, sum(one.is_serious for one in findings))


def protocol_findings(entries: Sequence[Entry]) -> list[tuple[Finding, str]]:
    """Return what the protocol linter found, and in which detectors, in words.

    The most serious first. The same finding of several detectors is one row; of each
    detector the first seed.
    """
    owners: dict[Finding, list[str]] = {}
    for entry in entries:
        for one in entry.evaluation.findings:
            if one.is_protocol:
                owners.setdefault(one, []).append(entry.label)
    return [(one, names(owners[one])) for one in by_severity(owners)]


def summary(facts: RecordingFacts) -> str:
    """Return what was read, in one sentence."""
    rows = sum(table.rows for table in facts.tables)
    gaps = sum(table.gaps for table in facts.tables)
    with_time = any(table.first for table in facts.tables)
    clock = f"; {zone_words(facts.timezone or None)}" if with_time else ""
    # One record that is judged in parts is train and test at once.
    lost = set(facts.unwatched)
    seconds = sum(one.end - one.start for one in lost)
    why = names(sorted({str(one.reason) for one in lost}))
    watched = f" Not watched, and in no figure: {duration(seconds)} ({why})."
    return (
        f"{facts.plant}: {plural(len(facts.tables), 'table')} with "
        f"{plural(rows, 'row')} and {plural(len(facts.tags), 'tag')}, "
        f"{plural(gaps, 'gap') if gaps else 'no gap'}{clock}.{watched if lost else ''}"
    )


def alert(findings: Sequence[Finding], what: str) -> str:
    """Return the errors and warnings in one sentence; empty if there are none."""
    codes = [one.code for one in findings if one.is_serious]
    if not codes:
        return ""
    titles = [
        f"{CODES[code].title} ({code})" if code in CODES else code
        for code in dict.fromkeys(codes)
    ]
    return f"{plural(len(codes), 'finding')} about {what}: {names(titles, MAX_NAMES)}."


def remarks(entries: Sequence[Entry]) -> list[str]:
    """Return sentences about detectors with other facts than the first, and without."""
    facts = audited(entries).recording
    carried = {entry.label: entry.evaluation.recording for entry in entries}
    without = [label for label, known in carried.items() if known is None]
    other = [label for label, known in carried.items() if known not in (None, facts)]
    texts = []
    if other:
        texts.append(
            f"The results of {names(other, MAX_NAMES)} carry other facts about the "
            "recording: they may not be comparable."
        )
    if facts is not None and without:
        texts.append(
            f"The results of {names(without, MAX_NAMES)} carry no facts about the "
            "recording."
        )
    return texts


def outlines(tag: TagFacts) -> tuple[str, str]:
    """Return the pictures of a tag in train and in test, on the range of both."""
    sides = (tag.train, tag.test)
    values = [value for side in sides for pair in side.outline for value in pair]
    low, high = min(values, default=0.0), max(values, default=0.0)
    train, test = (outline_path(side.outline, low, high) for side in sides)
    return train, test


def is_coarse(tag: TagFacts) -> bool:
    """Return whether the finest steps of a tag in train and in test differ."""
    steps = {s.resolution for s in (tag.train, tag.test) if s.resolution is not None}
    return len(steps) == 2 and max(steps) > COARSE * min(steps)


def ends_text(summary: TagSummary) -> str:
    """Return the range of a tag; a dash if it is not known."""
    ends = (summary.lowest, summary.highest)
    return UNKNOWN if None in ends else " to ".join(dict.fromkeys(map(number, ends)))


def outline_path(
    outline: Sequence[tuple[float, float]], low: float, high: float
) -> str:
    """Return an outline as the path of an SVG drawing.

    Parameters
    ----------
    outline : sequence of (float, float)
        Lowest and highest value of each stretch.
    low, high : float
        Values at the bottom and the top of the drawing.

    Returns
    -------
    str
        A closed band of size `WIDTH` by `HEIGHT`, in whole units; empty without an
        outline.

    Examples
    --------
    >>> outline_path([(0, 0), (0, 1)], 0, 1)
    'M0 23L60 1L60 23L0 23Z'
    """
    if not outline:
        return ""
    width = (high - low) or 1.0
    last = max(len(outline) - 1, 1)
    tops = [(k, max(pair)) for k, pair in enumerate(outline)]
    bottoms = [(k, min(pair)) for k, pair in enumerate(outline)]
    if len(outline) == 1:
        tops, bottoms = [*tops, (1, tops[0][1])], [*bottoms, (1, bottoms[0][1])]
    points = [
        f"{WIDTH * k / last:.0f} {HEIGHT - 1 - (HEIGHT - 2) * (at - low) / width:.0f}"
        for k, at in [*tops, *reversed(bottoms)]
    ]
    return f"M{'L'.join(points)}Z"


def stream_facts(entry: Entry) -> dict[str, str]:
    """Return sizes, settings of the evaluation and versions, by name.

    All but names and seeds are of the first seed.
    """
    e = entry.evaluation
    stream, diagnosis, drawn = e.stream, e.diagnosis, e.bootstrap
    evaluations = [result.evaluation for result in entry.results]
    seeds = [one.provenance.seed for one in evaluations]
    ignored = f"; {stream.n_ignored:,} rows ignored" if stream.n_ignored else ""
    shrinkage = e.reference.shrinkage
    method, causes, aftermath = "none: no diagnosis was made", "not measured", ""
    if diagnosis is not None:
        method = "by the present rules"
        if diagnosis.method != METHOD:
            method = "by earlier rules: evaluate the stream again"
        if diagnosis.false_cause_rate is not None:
            rate = share(diagnosis.false_cause_rate)
            causes = f"{rate} of {diagnosis.n_calm_windows} attack-free windows"
        if diagnosis.aftermath_share is not None:
            aftermath = (
                f"{share(diagnosis.aftermath_share)} of attack-free time left out"
            )
    intervals = "not computed"
    if drawn is not None:
        intervals = (
            f"{drawn.n} draws in blocks of {drawn.block:,} rows, seed {drawn.seed}"
        )
    versions = [
        f"{name} {version}"
        for name in ("sightline", "numpy", "python")
        if (version := getattr(e.provenance, name))
    ]
    return {
        "streams": ", ".join(one.stream.name for one in evaluations),
        "seeds": ", ".join("not given" if one is None else str(one) for one in seeds),
        "rows": f"train {stream.n_train:,}, test {stream.n_test:,}",
        "channels": f"{stream.p} ({stream.space or 'space not given'})",
        "attacks": f"{stream.n_segments} in {stream.n_attack:,} rows{ignored}",
        "time between rows": "not known"
        if stream.step_s is None
        else duration(stream.step_s),
        "reference": e.reference.estimator
        + ("" if shrinkage is None else f", shrinkage {shrinkage:.3g}"),
        "guard after attacks": f"{e.guard} rows",
        "protocol": str(e.protocol),
        "verdicts": method,
        "false-cause rate": causes,
        "aftermath": aftermath or "not measured",
        "telemetry judged": "yes"
        if diagnosis and diagnosis.telemetry_judged
        else "no: none was given, or no diagnosis was made",
        "intervals": intervals,
        "versions": ", ".join(versions) or "not known",
    }


def stream_settings(entry: Entry) -> dict[str, str]:
    """Return the settings that a stream's metadata hold, shortened if long."""
    meta = entry.evaluation.provenance.meta
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
