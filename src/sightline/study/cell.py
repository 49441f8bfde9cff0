"""One cell of a study: one detector on one testbed with one seed, called by content."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from sightline._version import __version__
from sightline.evaluation.result import plain
from sightline.storage.results import folder_name
from sightline.study.plan import EvaluationChoice

# Raised whenever cells of one key would be made otherwise than before.
FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What is to be learned from what, and how it is judged.

    Parameters
    ----------
    testbed, detector : str
        What the study calls them.
    plant : str
        The testbed's own name, for settings a detector has for it.
    content : str
        Digest of the testbed's recordings, prepared as they are learned from.
    kind : str
        A detector's name, or ``package.module:Class``.
    version : str
        Of that detector's code.
    preset, rule, settings, seed, telemetry
        How the stream is made.
    resolved : mapping
        All settings of the detector, the defaults too.
    evaluation : EvaluationChoice
        How it is judged.
    release, digests, options
        Of the testbed's files and how they were opened, to be told with the stream.
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
        """What the stream and its results are called."""
        return cell_name(self.testbed, self.detector, self.seed)

    @property
    def result_name(self) -> str:
        """What the folder of its evaluation is called."""
        return folder_name(self.name, self.evaluation.guard)

    @property
    def key(self) -> str:
        """Digest of all that the residuals depend on."""
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
        """Digest of all that the evaluation depends on besides the residuals."""
        return _digest(
            __version__, self.testbed, self.detector, asdict(self.evaluation)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        as_json: dict[str, Any] = plain(asdict(self))
        return as_json

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Cell":
        """Return what `to_dict` gave."""
        chosen = EvaluationChoice(**values["evaluation"])
        return cls(**{**values, "evaluation": chosen})


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a cell ended: done, or failed for a reason; `trace` is for bug reports."""

    is_done: bool
    reason: str = ""
    trace: str = ""


def cell_name(testbed: str, detector: str, seed: int) -> str:
    """Return what a stream and its results are called in a study."""
    return f"{testbed}-{detector}-seed{seed}"


def _digest(*values: object) -> str:
    text = json.dumps(plain(list(values)), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
