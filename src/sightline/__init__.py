"""Sightline: what an anomaly detector can see, before any alarm rule is chosen."""

from sightline._version import __version__
from sightline.alarms import QuantileRule
from sightline.comparison import Comparison, compare
from sightline.energy import contributions, energy_trace
from sightline.errors import (
    FileError,
    MissingExtraError,
    SightlineError,
    StreamError,
    UndefinedMetricWarning,
)
from sightline.evaluation import Evaluation
from sightline.recording import Recording, Tag
from sightline.reference import Reference, fit_reference
from sightline.segments import Attack, Segment
from sightline.storage import (
    read_evaluation,
    read_results,
    read_stream,
    read_tables,
    write_results,
    write_stream,
)
from sightline.stream import ResidualStream
from sightline.testbeds import (
    Testbed,
    inspect_testbed,
    list_testbeds,
    open_testbed,
)
from sightline.walk import evaluate

__all__ = [
    "Attack",
    "Comparison",
    "Evaluation",
    "FileError",
    "MissingExtraError",
    "QuantileRule",
    "Recording",
    "Reference",
    "ResidualStream",
    "Segment",
    "SightlineError",
    "StreamError",
    "Tag",
    "Testbed",
    "UndefinedMetricWarning",
    "__version__",
    "compare",
    "contributions",
    "energy_trace",
    "evaluate",
    "fit_reference",
    "inspect_testbed",
    "list_testbeds",
    "open_testbed",
    "read_evaluation",
    "read_results",
    "read_stream",
    "read_tables",
    "write_results",
    "write_stream",
]
