"""Sightline: what an anomaly detector can see, before any alarm rule is chosen."""

from sightline._version import __version__
from sightline.alarms import QuantileRule
from sightline.blockwise import on_cluster
from sightline.comparison import Comparison, compare
from sightline.detectors import (
    Detector,
    Residuals,
    check_detector,
    list_detectors,
    load_detector,
    make_detector,
)
from sightline.energy import contributions, energy_trace
from sightline.errors import (
    FileError,
    MissingExtraError,
    SightlineError,
    StreamError,
    TrainingError,
    UndefinedMetricWarning,
)
from sightline.evaluation import Evaluation
from sightline.exporting import export_stream
from sightline.progress import progress_bar
from sightline.recording import Recording, Tag
from sightline.reference import Reference, fit_reference
from sightline.report import write_report
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
from sightline.study import StudyPlan, plan_of, read_plan, run_study
from sightline.testbeds import (
    Testbed,
    inspect_testbed,
    list_testbeds,
    open_testbed,
)
from sightline.walk import evaluate
from sightline.writeup import write_up

__all__ = [
    "Attack",
    "Comparison",
    "Detector",
    "Evaluation",
    "FileError",
    "MissingExtraError",
    "QuantileRule",
    "Recording",
    "Reference",
    "ResidualStream",
    "Residuals",
    "Segment",
    "SightlineError",
    "StreamError",
    "StudyPlan",
    "Tag",
    "Testbed",
    "TrainingError",
    "UndefinedMetricWarning",
    "__version__",
    "check_detector",
    "compare",
    "contributions",
    "energy_trace",
    "evaluate",
    "export_stream",
    "fit_reference",
    "inspect_testbed",
    "list_detectors",
    "list_testbeds",
    "load_detector",
    "make_detector",
    "on_cluster",
    "open_testbed",
    "plan_of",
    "progress_bar",
    "read_evaluation",
    "read_plan",
    "read_results",
    "read_stream",
    "read_tables",
    "run_study",
    "write_report",
    "write_results",
    "write_stream",
    "write_up",
]
