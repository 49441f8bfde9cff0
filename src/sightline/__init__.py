"""Sightline: what an anomaly detector can see, before any alarm rule is chosen."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sightline._version import __version__

if TYPE_CHECKING:
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
    from sightline.facts.audit import inspect_testbed
    from sightline.paper import write_up
    from sightline.progress import Step, StepKind, progress_bar
    from sightline.report import write_report
    from sightline.rules.quantile import QuantileRule
    from sightline.storage import (
        read_evaluation,
        read_results,
        read_stream,
        read_tables,
        write_results,
        write_stream,
    )
    from sightline.study import StudyPlan, plan_of, read_plan, run_study
    from sightline.testbeds import Testbed, list_testbeds, open_testbed

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

# Where each public name lives; it is imported when it is first asked for, so that
# `import sightline` takes a fraction of a second.
_HOMES = {
    "sightline.cluster": ("on_cluster",),
    "sightline.comparison.compare": (
        "Comparison",
        "compare",
    ),
    "sightline.data.recording": (
        "Recording",
        "Tag",
    ),
    "sightline.data.segments": (
        "Attack",
        "Segment",
    ),
    "sightline.data.stream": ("ResidualStream",),
    "sightline.detectors": (
        "Detector",
        "Residuals",
        "check_detector",
        "list_detectors",
        "load_detector",
        "make_detector",
    ),
    "sightline.energy.energy": (
        "contributions",
        "energy_trace",
    ),
    "sightline.energy.reference": (
        "Reference",
        "fit_reference",
    ),
    "sightline.errors": (
        "FileError",
        "MissingExtraError",
        "SightlineError",
        "StreamError",
        "TrainingError",
        "UndefinedMetricWarning",
    ),
    "sightline.evaluation.pipeline": ("evaluate",),
    "sightline.evaluation.result": ("Evaluation",),
    "sightline.export": ("export_stream",),
    "sightline.facts.audit": ("inspect_testbed",),
    "sightline.paper": ("write_up",),
    "sightline.progress": (
        "Step",
        "StepKind",
        "progress_bar",
    ),
    "sightline.report": ("write_report",),
    "sightline.rules.quantile": ("QuantileRule",),
    "sightline.storage": (
        "read_evaluation",
        "read_results",
        "read_stream",
        "read_tables",
        "write_results",
        "write_stream",
    ),
    "sightline.study": (
        "StudyPlan",
        "plan_of",
        "read_plan",
        "run_study",
    ),
    "sightline.testbeds": (
        "Testbed",
        "list_testbeds",
        "open_testbed",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name from its home."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'sightline' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, for completion."""
    return sorted({*globals(), *__all__})
