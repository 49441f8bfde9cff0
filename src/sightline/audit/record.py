"""Facts about a recording, the same for every detector: one record for all of them.

`sightline.audit.data` makes an `Audit` once from a testbed; a stream carries it as
plain JSON in its ``meta``; ``evaluation.json`` and the page show it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sightline.audit.attack_facts import AttackFacts
from sightline.audit.codes import Finding, Severity

# The key of a stream's `meta` under which its audit travels.
AUDIT_KEY = "recording_audit"


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
    """

    name: str
    role: str
    stage: str | None
    unit: str | None
    train: TagSummary
    test: TagSummary


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
    """

    plant: str
    timezone: str = ""
    tables: tuple[TableFacts, ...] = ()
    tags: tuple[TagFacts, ...] = ()
    words: dict[str, str] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    attacks: tuple[AttackFacts, ...] = ()


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
