"""Facts about a recording, the same for every detector: one record for all of them.

`sightline.facts.audit` makes them once from a testbed; a stream carries them as plain
JSON in its ``meta``; ``evaluation.json`` and the page show them.
"""

from dataclasses import dataclass

from sightline.facts.codes import Finding


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
        Share of rows without a number, before anything was filled, in [0, 1].
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
    """What was read, and what was found in it.

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
    findings : tuple of Finding
        The most serious first.
    words : dict of str to str
        For each column of words, how they were mapped to numbers, such as
        ``"OFF = 0, ON = 1"``.
    notices : tuple of str
        What was held, filled, left out or chosen while reading.
    """

    plant: str
    timezone: str = ""
    tables: tuple[TableFacts, ...] = ()
    tags: tuple[TagFacts, ...] = ()
    findings: tuple[Finding, ...] = ()
    words: dict[str, str]
    notices: tuple[str, ...] = ()
