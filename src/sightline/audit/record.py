"""Findings and facts about a recording: the table of codes, and the record.

Every finding has a code. ``SL1xx`` are findings about how a stream was made and judged,
by `sightline.audit.protocol`; ``SL2xx`` are findings about recordings, made by
`sightline.audit.data`. One row of `CODES` says all that is the same for every finding
of a code; a `Finding` adds where it was found. Terminal, ``evaluation.json`` and page
read both, so a new code is one row here and one check.

`sightline.audit.data` makes an `Audit` once from a testbed; a stream carries it as
plain JSON in its ``meta``; ``evaluation.json`` and the page show it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import msgspec

from sightline.audit.attack_facts import AttackFacts
from sightline.data.standing import Stillness
from sightline.data.validity import Mode, Unwatched
from sightline.text import Labelling, as_labelled

# The key of a stream's `meta` under which its audit travels.
AUDIT_KEY = "recording_audit"
# The key that says that another seed of the detector gives other residuals.
RANDOM_KEY = "detector_is_random"


class Severity(StrEnum):
    """How serious a finding is.

    ``ERROR``
        Results computed from the data would be wrong. A command that trains on a plant
        of the user refuses them until they are mended or accepted.
    ``WARNING``
        Results may be misleading; every page that shows them says so.
    ``NOTE``
        Worth knowing before the data are used.
    """

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, kw_only=True)
class Code:
    """One row of the table of codes.

    Parameters
    ----------
    code : str
        Such as ``"SL201"``; it never changes its meaning.
    title : str
        A few words for a table.
    severity : Severity
        Of a finding with this code, unless the finding says otherwise.
    effect : str
        One sentence: what it does to results.
    """

    code: str
    title: str
    severity: Severity
    effect: str


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was found in the data.

    Parameters
    ----------
    code : str
        A key of `CODES`.
    severity : Severity
        How serious it is here.
    text : str
        One sentence: what was found and where, with counts.
    table : str
        ``"train"``, ``"test"``, a file, or empty if it concerns all of them.
    tags : tuple of str
        The tags concerned, the worst first; empty if it concerns all.
    cells : tuple of str
        The first places of each: row and time, in the plant's time zone.
    effect : str
        One sentence: what it does to results.
    remedy : str
        What to do: where there is one, the line to write into ``plant.toml``.
    missing_values : tuple of float
        Fault codes that the remedy adds to ``missing_values``; else empty.
    """

    code: str
    severity: Severity
    text: str
    table: str = ""
    tags: tuple[str, ...] = ()
    cells: tuple[str, ...] = ()
    effect: str = ""
    remedy: str = ""
    missing_values: tuple[float, ...] = ()

    @property
    def is_protocol(self) -> bool:
        """Whether it is about how a stream was made and judged, not about data."""
        return self.code.startswith("SL1")

    @property
    def is_serious(self) -> bool:
        """Whether it is an error or a warning."""
        return self.severity is not Severity.NOTE

    @property
    def line(self) -> str:
        """Code, severity, what was found and what to do, in one line."""
        return f"{self.code} {self.severity}: {self.text} {self.remedy}".rstrip()


_TABLE = (
    # Protocol: how a stream was made and judged.
    Code(
        code="SL101",
        title="Limit saw the test",
        severity=Severity.ERROR,
        effect="No rule in service can know this limit: alarms, F1 and delays of the "
        "own rule are too good.",
    ),
    Code(
        code="SL102",
        title="Scaler saw the test",
        severity=Severity.ERROR,
        effect="The test was scaled by its own statistics, which a detector in service "
        "cannot know; a shifted level may vanish.",
    ),
    Code(
        code="SL103",
        title="Point adjustment",
        severity=Severity.ERROR,
        effect="Own alarms were filled up to whole attacks by the labels: their F1 is "
        "no measure of a detector.",
    ),
    Code(
        code="SL104",
        title="Labels lag behind the energy",
        severity=Severity.WARNING,
        effect="Detections count as false alarms, and normal rows as missed attacks.",
    ),
    Code(
        code="SL105",
        title="Train inside test",
        severity=Severity.ERROR,
        effect="The detector has already seen what it is tested on.",
    ),
    Code(
        code="SL106",
        title="Units decide",
        severity=Severity.WARNING,
        effect="Another choice of units gives other figures from the same residuals.",
    ),
    Code(
        code="SL107",
        title="Attacks in train",
        severity=Severity.WARNING,
        effect="The reference counts attacks as normal, so that they hide.",
    ),
    Code(
        code="SL108",
        title="Standing alarm",
        severity=Severity.WARNING,
        effect="A rule that hardly ever stops hits every attack and finds none.",
    ),
    Code(
        code="SL109",
        title="Too few attacks for a claim",
        severity=Severity.WARNING,
        effect="Even if all are found, the true share may be below a half.",
    ),
    Code(
        code="SL110",
        title="One attack holds most rows",
        severity=Severity.WARNING,
        effect="Pooled figures (ROC-AUC, recall, F1) are those of one attack.",
    ),
    Code(
        code="SL111",
        title="Labelled attack without trace",
        severity=Severity.NOTE,
        effect="No rule or repair that was tried shows it; it counts as missed.",
    ),
    Code(
        code="SL112",
        title="Residuals of different resolution",
        severity=Severity.WARNING,
        effect="Rounding alone makes rows of one table look abnormal.",
    ),
    Code(
        code="SL113",
        title="Down-sampled twice",
        severity=Severity.ERROR,
        effect="Rows are longer than anyone states: short attacks vanish, and figures "
        "cannot be compared with published ones.",
    ),
    Code(
        code="SL114",
        title="Labels begin late",
        severity=Severity.WARNING,
        effect="First rows of attacks count as attack-free: alarms on them as false, "
        "and limits are set on them.",
    ),
    Code(
        code="SL115",
        title="One seed of a random detector",
        severity=Severity.WARNING,
        effect="Another seed gives other figures, so an order of detectors may be that "
        "of the seed.",
    ),
    # Files and time.
    Code(
        code="SL201",
        title="Counts differ from the release",
        severity=Severity.ERROR,
        effect="Figures cannot be compared with those published for the release.",
    ),
    Code(
        code="SL202",
        title="Gaps in time",
        severity=Severity.NOTE,
        effect="No window of a detector crosses a gap; what happened there is unknown.",
    ),
    Code(
        code="SL203",
        title="Time goes back",
        severity=Severity.ERROR,
        effect="Rows stand in a wrong order: windows and delays mean nothing there.",
    ),
    Code(
        code="SL204",
        title="Unlikely dates",
        severity=Severity.WARNING,
        effect="Incidents with their true dates would fall on no row.",
    ),
    Code(
        code="SL205",
        title="Numbers taken as seconds",
        severity=Severity.ERROR,
        effect="Steps, delays and alarms a day are wrong by a constant factor.",
    ),
    Code(
        code="SL206",
        title="Train later than test",
        severity=Severity.WARNING,
        effect="A detector learns from a time after the incidents: drift and repairs "
        "count in its favour or against it.",
    ),
    Code(
        code="SL207",
        title="Train and test share time stamps",
        severity=Severity.ERROR,
        effect="The detector has already seen what it is tested on.",
    ),
    Code(
        code="SL208",
        title="Train and test share rows",
        severity=Severity.ERROR,
        effect="The detector has already seen what it is tested on.",
    ),
    Code(
        code="SL209",
        title="Notice of reading",
        severity=Severity.NOTE,
        effect="The recording differs from its files in this respect.",
    ),
    # Labels and incidents.
    Code(
        code="SL211",
        title="Labels and attack list differ",
        severity=Severity.ERROR,
        effect="Rows count as attacks that were none, or the other way round.",
    ),
    Code(
        code="SL212",
        title="Incidents that cannot be judged",
        severity=Severity.WARNING,
        effect="They are missing from every count of detected attacks.",
    ),
    Code(
        code="SL213",
        title="Labels shifted in time",
        severity=Severity.WARNING,
        effect="Detections count as false alarms, and normal rows as missed attacks.",
    ),
    Code(
        code="SL214",
        title="Incidents in train",
        severity=Severity.WARNING,
        effect="Without their rows train has breaks; with them a detector would learn "
        "attacks as normal.",
    ),
    Code(
        code="SL215",
        title="Train and test may be swapped",
        severity=Severity.ERROR,
        effect="The detector learns from the incidents and is tested on none.",
    ),
    Code(
        code="SL216",
        title="Attacked tags that do not vary",
        severity=Severity.NOTE,
        effect="The attack leaves no trace in its own column, or only if constant "
        "tags are kept.",
    ),
    # Tags and cells.
    Code(
        code="SL221",
        title="Resolution differs between train and test",
        severity=Severity.WARNING,
        effect="Rounding alone makes every row of test look abnormal, or hides "
        "what the detector has learned.",
    ),
    Code(
        code="SL222",
        title="Fault codes among the values",
        severity=Severity.ERROR,
        effect="One such cell changes means, spreads and limits of a whole recording, "
        "and so the verdicts.",
    ),
    Code(
        code="SL223",
        title="Impossible extremes",
        severity=Severity.WARNING,
        effect="A few cells decide the spread of the tag, so that all else looks "
        "small beside them.",
    ),
    Code(
        code="SL224",
        title="Values beyond single precision",
        severity=Severity.ERROR,
        effect="Detectors compute in single precision, where they are infinite.",
    ),
    Code(
        code="SL225",
        title="Cells without a finite number",
        severity=Severity.ERROR,
        effect="They are filled with older values, which look like a frozen sensor.",
    ),
    Code(
        code="SL226",
        title="Tags that never vary",
        severity=Severity.NOTE,
        effect="They carry no information; any change of them is new to a detector.",
    ),
    Code(
        code="SL227",
        title="Most tags never vary",
        severity=Severity.WARNING,
        effect="There is little to learn from: the plant may have stood still.",
    ),
    Code(
        code="SL228",
        title="Start-up at the beginning of train",
        severity=Severity.WARNING,
        effect="The start-up widens what counts as normal, so that attacks hide in it.",
    ),
    Code(
        code="SL229",
        title="Tag stands still",
        severity=Severity.WARNING,
        effect="A frozen reading looks like an attack to one detector and like "
        "perfect operation to another.",
    ),
    Code(
        code="SL230",
        title="Tag cut off at a limit",
        severity=Severity.NOTE,
        effect="Beyond the limit nothing is measured, so no detector sees a change.",
    ),
    Code(
        code="SL231",
        title="Tag lies elsewhere in test",
        severity=Severity.WARNING,
        effect="Every row of test is new to a detector, so that it is in alarm "
        "throughout, or its limits mean nothing.",
    ),
    Code(
        code="SL232",
        title="Attack-free rows outside train's range",
        severity=Severity.WARNING,
        effect="On such a day a detector sees values that it has never learned, and "
        "may be in alarm without any attack.",
    ),
)
CODES: Mapping[str, Code] = {row.code: row for row in _TABLE}
# How a finding about single tags begins; it goes on with "3 tags have" and a list.
LEADS: Mapping[str, str] = {
    "SL221": "{} coarser values in one table than in the other",
    "SL222": "{} fault codes among the values",
    "SL223": "{} extremes that nothing leads up to",
    "SL224": "{} values beyond 3.4e38",
    "SL228": "{} a start-up at the beginning of train",
    "SL229": "{} a stretch without any change, far longer than usual",
    "SL230": "{} many rows at an exact limit",
    "SL231": "{} values in test far outside all of train",
    "SL232": "{} attack-free test rows outside train's range",
}
# What is said if no error or warning has one of the codes.
PASSED: Mapping[str, str] = {
    "SL204 SL205 SL206": "Dates are plausible, and train is not later than test.",
    "SL212 SL214 SL215": "Every listed incident lies in test.",
    "SL213": "No shift of the labels fits the telemetry far better.",
    "SL208": "Train and test share no stretch of rows.",
    "SL207": "Train and test share no time stamp.",
    "SL221": "Train and test have the same resolution where it matters.",
    "SL222 SL223 SL224": "No tag holds fault codes or impossible extremes.",
    "SL225": "Every cell is a finite number.",
    "SL227 SL229": "No tag stands still for unusually long.",
    "SL228": "Train begins as it goes on.",
    "SL231 SL232": "On each day of test every tag has at least 80% of its attack-free "
    "rows within train's range.",
}


def finding(
    code: str,
    text: str,
    *,
    severity: Severity | None = None,
    table: str = "",
    tags: Sequence[str] = (),
    cells: Sequence[str] = (),
    remedy: str = "",
    missing_values: Sequence[float] = (),
) -> Finding:
    """Return a finding of a code; severity and effect are the code's by default.

    Examples
    --------
    >>> found = finding("SL203", "train.csv: time goes back 2 times.")
    >>> found.severity, found.effect[:27]
    (<Severity.ERROR: 'error'>, 'Rows stand in a wrong order')
    """
    row = CODES[code]
    return Finding(
        code=code,
        severity=severity or row.severity,
        text=text,
        table=table,
        tags=tuple(tags),
        cells=tuple(cells),
        effect=row.effect,
        remedy=remedy,
        missing_values=tuple(missing_values),
    )


def by_severity(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings with the most serious first, else in their order."""
    rank = {severity: k for k, severity in enumerate(Severity)}
    return tuple(sorted(findings, key=lambda one: rank[one.severity]))


# --- What was read --------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class TableFacts:
    """One table or file as it was read.

    Parameters
    ----------
    name : str
        Its path below the root.
    part : str
        ``"train"``, ``"test"`` or the part of the release that it is.
    rows : int
        Number of rows.
    expected : int, optional
        How many rows it should have; None if unknown.
    first, last : str
        Its first and last time stamp in the plant's time zone; empty without time.
    gaps : int
        Interruptions of its time stamps.
    """

    name: str
    part: str
    rows: int
    expected: int | None = None
    first: str = ""
    last: str = ""
    gaps: int = 0


@dataclass(frozen=True, kw_only=True)
class TagSummary:
    """One tag in one table, train or test.

    Parameters
    ----------
    lowest, highest : float, optional
        Range of its finite values; None if there are none.
    spread : float, optional
        Standard deviation of its finite values.
    resolution : float, optional
        Smallest step between two different values; None if it is constant.
    missing : float
        Share of rows without a number, in [0, 1]; what was held while reading counts
        as a number.
    outline : tuple of (float, float)
        Lowest and highest value of each of at most 60 stretches, for a small picture.
    """

    lowest: float | None
    highest: float | None
    spread: float | None
    resolution: float | None
    missing: float
    outline: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, kw_only=True)
class TagFacts:
    """One tag of a plant, in train and in test.

    Parameters
    ----------
    name, role : str
        As in ``tags.csv``.
    stage, unit : str, optional
        As in ``tags.csv``.
    train, test : TagSummary
        What the two tables hold.
    low, high : float, optional
        The range of the instrument, as in ``tags.csv``.
    outside : dict of str to float
        Share of attack-free test rows outside the range of train, for each day of test
        (plant's clock) that has such rows; one day without a name if there is no time.
    """

    name: str
    role: str
    stage: str | None
    unit: str | None
    train: TagSummary
    test: TagSummary
    low: float | None = None
    high: float | None = None
    outside: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RecordingFacts:
    """What was read: the tables and tags of train and test.

    Parameters
    ----------
    plant : str
        Name of the testbed or of the plant's folder, with its release.
    timezone : str
        IANA name of the zone in which times are shown, ``"UTC"``, or empty for the
        plant's own clock.
    tables : tuple of TableFacts
        The tables that were read.
    tags : tuple of TagFacts
        In the order of the columns.
    words : dict of str to str
        For each column of words, how they were mapped to numbers, such as
        ``"OFF = 0, ON = 1"``.
    notices : tuple of str
        What was held, filled, left out or chosen while reading.
    attacks : tuple of AttackFacts
        What the telemetry says of each attack: the same for all detectors.
    holds : dict of str to float
        Seconds for which a reading of a tag is held; 1e300 for ever.
    mode : Mode, optional
        When the plant runs; the rest of the time is not watched.
    date_order : {"", "day", "month"}
        Which number comes first in dates of exports, where that is known.
    unwatched : tuple of Unwatched
        The time of train and test that was not watched.
    stillness : dict of str to Stillness
        How each tag stood still in attack-free rows.
    is_own_plant : bool
        Whether it is a plant of the user, whose labels mark incidents, and no testbed.
    """

    plant: str
    timezone: str = ""
    tables: tuple[TableFacts, ...] = ()
    tags: tuple[TagFacts, ...] = ()
    words: dict[str, str] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    attacks: tuple[AttackFacts, ...] = ()
    holds: dict[str, float] = field(default_factory=dict)
    mode: Mode | None = None
    date_order: str = ""
    unwatched: tuple[Unwatched, ...] = ()
    stillness: dict[str, Stillness] = field(default_factory=dict)
    is_own_plant: bool = False


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What was read and what was found in it: what `sightline inspect` shows.

    Parameters
    ----------
    recording : RecordingFacts
        Tables and tags.
    findings : tuple of Finding
        The most serious first.
    passed : tuple of str
        One sentence for each check that found nothing.
    """

    recording: RecordingFacts
    findings: tuple[Finding, ...] = ()
    passed: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The testbed and its release."""
        return self.recording.plant

    @property
    def files(self) -> tuple[TableFacts, ...]:
        """The tables that were read."""
        return self.recording.tables

    @property
    def is_right(self) -> bool:
        """Whether no finding has the severity ``ERROR``."""
        return not self.errors

    @property
    def serious(self) -> tuple[Finding, ...]:
        """The findings of severity ``ERROR`` and ``WARNING``."""
        return tuple(one for one in self.findings if one.is_serious)

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings of severity ``ERROR``."""
        return tuple(one for one in self.findings if one.severity is Severity.ERROR)


def carried(audit: Audit | None) -> dict[str, object]:
    """Return the entry of a stream's `meta` that `audit_in` reads; empty for None."""
    return {} if audit is None else {AUDIT_KEY: msgspec.to_builtins(audit)}


def worded(
    findings: Iterable[Finding], labels: Labelling, names: Sequence[str]
) -> Iterator[Finding]:
    """Yield findings in words that fit labels; `names` of users stay as they are."""
    for one in findings:
        text, remedy = (as_labelled(x, labels, names) for x in (one.text, one.remedy))
        yield replace(one, text=text, remedy=remedy)


def is_own_plant(meta: Mapping[str, Any]) -> bool:
    """Return whether the `meta` of a stream says that it is of the user's own plant."""
    audit = audit_in(meta)
    return audit is not None and audit.recording.is_own_plant


def audit_in(meta: Mapping[str, Any]) -> Audit | None:
    """Return the audit that the `meta` of a stream carries; None if it has none.

    Parameters
    ----------
    meta : mapping
        Plain values. What is stored under `AUDIT_KEY` and is no audit, as of another
        version, is not read.
    """
    try:
        return msgspec.convert(meta.get(AUDIT_KEY), Audit)
    except msgspec.ValidationError:
        return None
