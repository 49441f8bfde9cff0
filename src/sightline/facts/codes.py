"""The table of codes: what may be wrong with data, how serious it is, what to do.

Every finding about data has a code. ``SL2xx`` are findings about recordings, made by
`sightline.facts.audit`. One row of `CODES` says all that is the same for every finding
of a code; a `Finding` adds where it was found. Terminal, ``evaluation.json`` and page
read both, so a new code is one row here and one check.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


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
    """

    code: str
    severity: Severity
    text: str
    table: str = ""
    tags: tuple[str, ...] = ()
    cells: tuple[str, ...] = ()
    effect: str = ""
    remedy: str = ""


CODES: Mapping[str, Code] = {}
