"""The public names, for type checkers; `__init__.py` imports each on first use."""

from sightline._version import __version__
from sightline.audit.data import inspect_testbed
from sightline.blindspots.result import BlindSpots
from sightline.blindspots.search import find_blind_spots
from sightline.cluster import on_cluster
from sightline.comparison.compare import Comparison, compare
from sightline.data.recording import Recording, Tag
from sightline.data.segments import Attack, Segment
from sightline.data.stream import ResidualStream
from sightline.detectors import (
    Detector,
    Residuals,
    check_detector,
    list_detectors,
    load_detector,
    make_detector,
)
from sightline.energy.energy import contributions, energy_trace
from sightline.energy.reference import Reference, fit_reference
from sightline.errors import (
    FileError,
    MissingExtraError,
    SightlineError,
    StreamError,
    TrainingError,
    UndefinedMetricWarning,
)
from sightline.evaluation.pipeline import evaluate
from sightline.evaluation.result import Evaluation
from sightline.export import export_stream
from sightline.improvement.improve import Improvement, improve
from sightline.notebook.tracking import log_to_mlflow
from sightline.operation.watch import watch_folder
from sightline.paper import write_tables, write_up
from sightline.progress import Step, StepKind, progress_bar
from sightline.report import write_report
from sightline.rules import Budget, QuantileRule, Rule
from sightline.rules.commission import commission
from sightline.rules.episodes import find_episodes
from sightline.show.score_report import score_report
from sightline.storage import (
    read_evaluation,
    read_results,
    read_rule,
    read_stream,
    read_tables,
    write_results,
    write_rule,
    write_stream,
)
from sightline.storage.companions import write_review_list
from sightline.study.plan import StudyPlan, plan_of, read_plan
from sightline.study.run import run_study
from sightline.testbeds import Testbed, list_testbeds, open_testbed

__all__ = [
    "Attack",
    "BlindSpots",
    "Budget",
    "Comparison",
    "Detector",
    "Evaluation",
    "FileError",
    "Improvement",
    "MissingExtraError",
    "QuantileRule",
    "Recording",
    "Reference",
    "ResidualStream",
    "Residuals",
    "Rule",
    "Segment",
    "SightlineError",
    "Step",
    "StepKind",
    "StreamError",
    "StudyPlan",
    "Tag",
    "Testbed",
    "TrainingError",
    "UndefinedMetricWarning",
    "__version__",
    "check_detector",
    "commission",
    "compare",
    "contributions",
    "energy_trace",
    "evaluate",
    "export_stream",
    "find_blind_spots",
    "find_episodes",
    "fit_reference",
    "improve",
    "inspect_testbed",
    "list_detectors",
    "list_testbeds",
    "load_detector",
    "log_to_mlflow",
    "make_detector",
    "on_cluster",
    "open_testbed",
    "plan_of",
    "progress_bar",
    "read_evaluation",
    "read_plan",
    "read_results",
    "read_rule",
    "read_stream",
    "read_tables",
    "run_study",
    "score_report",
    "watch_folder",
    "write_report",
    "write_results",
    "write_review_list",
    "write_rule",
    "write_stream",
    "write_tables",
    "write_up",
]
