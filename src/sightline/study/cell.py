"""One cell of a study: one detector on one testbed with one seed.

A cell is identified by its content. Everything that its residuals depend on enters
`Cell.key`, so a finished cell is found again by any study that needs the same one.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from sightline._version import __version__
from sightline.evaluation.result import plain
from sightline.storage.results import folder_name
from sightline.study.plan import EvaluationChoice

# To be raised whenever the same key would give other residuals than before.
FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What a detector learns from, how it is set, and how it is evaluated.

    Parameters
    ----------
    testbed, detector : str
        Their labels in the study.
    plant : str
        The testbed's own name, which selects a detector's settings for it.
    content : str
        Digest of the testbed's two recordings as prepared for training.
    kind : str
        Name of a detector, or ``package.module:Class``.
    version : str
        Version of that detector's code; see `execute_cell.code_version`.
    preset : {"export", "official"}
        How the detector is trained.
    rule : str, optional
        The detector's own alarm rule to export with the stream.
    settings : mapping
        The settings that the plan sets.
    resolved : mapping
        All settings of the detector, defaults included.
    seed : int
        Seed of the training.
    evaluation : EvaluationChoice
        How the stream is evaluated.
    release : str
        Release of the testbed's files.
    digests : mapping
        Digest of each of the testbed's files, by name.
    options : mapping
        Options with which the testbed was opened. Like `release` and `digests` they
        are recorded with the stream and do not enter the key.
    """

    testbed: str
    detector: str
    plant: str
    content: str
    kind: str
    version: str
    preset: str
    rule: str | None
    settings: Mapping[str, Any]
    resolved: Mapping[str, Any]
    seed: int
    evaluation: EvaluationChoice
    release: str
    digests: Mapping[str, str]
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the stream and of its results."""
        return cell_name(self.testbed, self.detector, self.seed)

    @property
    def result_name(self) -> str:
        """Name of the folder with the evaluation; it contains the guard, if any."""
        return folder_name(self.name, self.evaluation.guard)

    @property
    def key(self) -> str:
        """Digest of everything that the residuals depend on: 32 hex digits."""
        return _digest(
            FORMAT,
            self.plant,
            self.content,
            self.kind,
            self.version,
            self.preset,
            self.rule,
            self.settings,
            self.resolved,
            self.seed,
            self.evaluation.telemetry,
        )

    @property
    def evaluation_key(self) -> str:
        """Digest of everything else that the evaluation depends on."""
        return _digest(
            __version__, self.testbed, self.detector, asdict(self.evaluation)
        )


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a cell ended.

    Parameters
    ----------
    is_done : bool
        Whether stream and evaluation are in the cache.
    reason : str
        Why the cell failed, in one sentence.
    trace : str
        Traceback of an unexpected error, for a bug report.
    """

    is_done: bool
    reason: str = ""
    trace: str = ""


def cell_name(testbed: str, detector: str, seed: int) -> str:
    """Return the name of a stream and its results in a study.

    Examples
    --------
    >>> cell_name("swat", "gdn", 3)
    'swat-gdn-seed3'
    """
    return f"{testbed}-{detector}-seed{seed}"


def _digest(*values: object) -> str:
    """Return a digest of plain values; the order of keys in a mapping is ignored."""
    text = json.dumps(plain(list(values)), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
