"""Sightline: what an anomaly detector can see, before any alarm rule is chosen.

The public names are those of `__all__`. The path of most users::

    stream = sightline.ResidualStream(train, test, labels)   # or read_stream(path)
    evaluation = sightline.evaluate(stream)
    sightline.write_results([evaluation], "result")
    sightline.write_report("result", "report.html")

Residuals of a detector of this package come from `open_testbed`, `make_detector` and
`export_stream`; `run_study` does all of it for several detectors, testbeds and seeds.
"""

from importlib import import_module
from typing import Any

from sightline._version import __version__ as __version__

# Where each public name lives. It is imported on first use, so that `import sightline`
# loads no package of it. Type checkers read the names in `__init__.pyi`.
_HOMES = {
    "blindspots.search": "find_blind_spots",
    "blindspots.result": "BlindSpots",
    "cluster": "on_cluster",
    "comparison.compare": "Comparison compare",
    "data.recording": "Recording Tag",
    "data.segments": "Attack Segment",
    "data.stream": "ResidualStream",
    "detectors": "Detector Residuals check_detector list_detectors load_detector "
    "make_detector",
    "energy.energy": "contributions energy_trace",
    "energy.reference": "Reference fit_reference",
    "errors": "FileError MissingExtraError SightlineError StreamError TrainingError "
    "UndefinedMetricWarning",
    "evaluation.pipeline": "evaluate",
    "evaluation.result": "Evaluation",
    "export": "export_stream",
    "improvement.improve": "Improvement improve",
    "audit.data": "inspect_testbed",
    "notebook.tracking": "log_to_mlflow",
    "operation.watch": "watch_folder",
    "paper": "write_tables write_up",
    "progress": "Step StepKind progress_bar",
    "report": "write_report",
    "rules": "Budget QuantileRule Rule",
    "rules.commission": "commission",
    "rules.episodes": "find_episodes",
    "show.score_report": "score_report",
    "storage": "read_evaluation read_results read_rule read_stream read_tables "
    "write_results write_rule write_stream",
    "storage.companions": "write_review_list",
    "study.plan": "StudyPlan plan_of read_plan",
    "study.run": "run_study",
    "testbeds": "Testbed list_testbeds open_testbed",
}
_HOME_OF = {
    name: f"sightline.{home}"
    for home, names in _HOMES.items()
    for name in names.split()
}
__all__ = sorted(["__version__", *_HOME_OF])


def __getattr__(name: str) -> Any:
    """Return a public name, imported from the module that defines it."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'sightline' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, for completion in a shell."""
    return list(__all__)
