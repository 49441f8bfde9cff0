"""What the page is made from: the recording, its tags, streams and versions.

The facts belong to the recording, so every detector of a testbed carries the same ones;
the section "Your data" shows those of the first detector that has any.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sightline.audit.codes import CODES, Finding, Severity, by_severity
from sightline.audit.record import RecordingFacts, TagFacts, TagSummary
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


@dataclass(frozen=True, kw_only=True)
class FindingRow:
    """One finding as the page shows it.

    Parameters
    ----------
    code, title, symbol : str
        Of the table of codes, and the sign of its severity.
    severity : Severity
        How serious it is.
    text, effect, remedy : str
        Sentences of the finding.
    cells : str
        Where it was found; places that the text names are not repeated.
    """

    code: str
    title: str
    symbol: str
    severity: Severity
    text: str
    effect: str
    remedy: str
    cells: str


@dataclass(frozen=True, kw_only=True)
class Side:
    """One tag in train or in test, as text and as numbers to sort by.

    Parameters
    ----------
    range, resolution, spread, missing : str
        Figures of `TagSummary` in words.
    summary : TagSummary
        The figures themselves.
    picture : str
        Path of an SVG drawing of size `WIDTH` by `HEIGHT`; empty without an outline.
    """

    range: str
    resolution: str
    spread: str
    missing: str
    summary: TagSummary
    picture: str


@dataclass(frozen=True, kw_only=True)
class TagRow:
    """One row of the table of tags.

    Parameters
    ----------
    tag : TagFacts
        Name, role, stage and unit.
    train, test : Side
        What both tables hold; their pictures share one scale.
    is_coarse : bool
        Whether the finest steps of train and test differ.
    n_findings : int
        Findings that name the tag.
    """

    tag: TagFacts
    train: Side
    test: Side
    is_coarse: bool
    n_findings: int


@dataclass(frozen=True, kw_only=True)
class YourData:
    """The section of one testbed.

    Parameters
    ----------
    facts : RecordingFacts, optional
        None if no result of the testbed carries any.
    summary : str
        What was read, in one sentence; `NO_FACTS` without facts.
    alert : str
        Errors and warnings in one sentence for the first screen; empty without.
    findings, folded : list of FindingRow
        Those to show at once, and the others.
    tags : list of TagRow
        In the order of the columns.
    has_values : bool
        Whether any tag has a range; those of a redacted page have none.
    remarks : list of str
        Detectors whose results carry other facts, or none.
    """

    facts: RecordingFacts | None
    summary: str
    alert: str
    findings: list[FindingRow]
    folded: list[FindingRow]
    tags: list[TagRow]
    has_values: bool
    remarks: list[str]


def your_data(entries: Sequence[Entry]) -> YourData:
    """Return the section of one testbed.

    Parameters
    ----------
    entries : sequence of Entry
        All entries of the testbed, at least one.

    Returns
    -------
    YourData
        Errors first, then warnings, then notes.
    """
    carried = [e for e in entries if e.evaluation.recording is not None]
    shown = (carried or entries)[0].evaluation
    facts = shown.recording
    # A notice of reading is also a finding, and is shown among what was held.
    notices = facts.notices if facts else ()
    found = [
        one for one in shown.findings if one.text not in notices and not one.is_protocol
    ]
    order = list(Severity)
    rows = [
        _finding_row(f) for f in sorted(found, key=lambda f: order.index(f.severity))
    ]
    # An error or a warning is never folded.
    n_serious = sum(row.severity is not Severity.NOTE for row in rows)
    n_open = max(MAX_FINDINGS, n_serious)
    named = Counter(tag for one in found for tag in one.tags)
    tags = facts.tags if facts else ()
    return YourData(
        facts=facts,
        summary=_summary(facts) if facts else NO_FACTS,
        alert=_alert(rows),
        findings=rows[:n_open],
        folded=rows[n_open:],
        tags=[_tag_row(tag, named[tag.name]) for tag in tags],
        has_values=any(
            side.lowest is not None for tag in tags for side in (tag.train, tag.test)
        ),
        remarks=_remarks(entries, facts) if facts else [],
    )


@dataclass(frozen=True, kw_only=True)
class ProtocolFinding:
    """One finding about how streams were made and judged, and whose it is.

    Parameters
    ----------
    finding : FindingRow
        The finding.
    detectors : str
        The detectors that have it, in words.
    """

    finding: FindingRow
    detectors: str


def protocol_findings(entries: Sequence[Entry]) -> list[ProtocolFinding]:
    """Return what the protocol linter found, the most serious first.

    The same finding of several detectors is one row; of each detector the first seed.
    """
    owners: dict[Finding, list[str]] = {}
    for entry in entries:
        for one in entry.evaluation.findings:
            if one.is_protocol:
                owners.setdefault(one, []).append(entry.label)
    return [
        ProtocolFinding(finding=_finding_row(one), detectors=names(owners[one]))
        for one in by_severity(owners)
    ]


def protocol_alert(entries: Sequence[Entry]) -> str:
    """Return errors and warnings about the protocol in one sentence; or nothing."""
    rows = [one.finding for one in protocol_findings(entries)]
    return _alert(rows).replace(" about the data", " about the protocol")


def _summary(facts: RecordingFacts) -> str:
    """Return what was read, in one sentence."""
    rows = sum(table.rows for table in facts.tables)
    gaps = sum(table.gaps for table in facts.tables)
    with_time = any(table.first for table in facts.tables)
    clock = f"; {zone_words(facts.timezone or None)}" if with_time else ""
    return (
        f"{facts.plant}: {plural(len(facts.tables), 'table')} with "
        f"{plural(rows, 'row')} and {plural(len(facts.tags), 'tag')}, "
        f"{plural(gaps, 'gap') if gaps else 'no gap'}{clock}."
    )


def _alert(rows: Sequence[FindingRow]) -> str:
    """Return the errors and warnings in one sentence; empty if there are none."""
    serious = [row for row in rows if row.severity is not Severity.NOTE]
    if not serious:
        return ""
    titles = dict.fromkeys(
        row.code if row.title == row.code else f"{row.title} ({row.code})"
        for row in serious
    )
    n = plural(len(serious), "finding")
    return f"{n} about the data: {names(list(titles), MAX_NAMES)}."


def _remarks(entries: Sequence[Entry], facts: RecordingFacts) -> list[str]:
    """Return sentences about detectors with other facts, and without any."""
    carried = {entry.label: entry.evaluation.recording for entry in entries}
    without = [label for label, known in carried.items() if known is None]
    other = [label for label, known in carried.items() if known not in (None, facts)]
    texts = []
    if other:
        texts.append(
            f"The results of {names(other, MAX_NAMES)} carry other facts about the "
            "recording: they may not be comparable."
        )
    if without:
        texts.append(
            f"The results of {names(without, MAX_NAMES)} carry no facts about the "
            "recording."
        )
    return texts


def _finding_row(found: Finding) -> FindingRow:
    """Return a finding with the texts of its code."""
    row = CODES.get(found.code)
    return FindingRow(
        code=found.code,
        title=row.title if row else found.code,
        symbol=SYMBOLS[found.severity],
        severity=found.severity,
        text=found.text,
        effect=found.effect or (row.effect if row else ""),
        remedy=found.remedy,
        cells="; ".join(cell for cell in found.cells if cell not in found.text),
    )


def _tag_row(tag: TagFacts, n_findings: int) -> TagRow:
    """Return a row of the table; both pictures are drawn on the range of both."""
    sides = (tag.train, tag.test)
    values = [value for side in sides for pair in side.outline for value in pair]
    low, high = min(values, default=0.0), max(values, default=0.0)
    steps = {side.resolution for side in sides if side.resolution is not None}
    return TagRow(
        tag=tag,
        train=_side(tag.train, low, high),
        test=_side(tag.test, low, high),
        is_coarse=len(steps) == 2 and max(steps) > COARSE * min(steps),
        n_findings=n_findings,
    )


def _side(summary: TagSummary, low: float, high: float) -> Side:
    """Return one tag in one table; `low` and `high` are the ends of the picture."""
    ends = (summary.lowest, summary.highest)
    known = None not in ends
    return Side(
        range=" to ".join(dict.fromkeys(map(number, ends))) if known else UNKNOWN,
        # A step of 0.001 is not written as a power of ten.
        resolution=UNKNOWN
        if summary.resolution is None
        else f"{summary.resolution:.3g}",
        spread=number(summary.spread),
        missing=share(summary.missing, 1) if summary.missing else "none",
        summary=summary,
        picture=outline_path(summary.outline, low, high),
    )


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
