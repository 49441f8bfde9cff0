"""Evaluations as runs of MLflow, where it is installed."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path

from sightline.data.arrays import require
from sightline.errors import SightlineError
from sightline.evaluation.result import Evaluation, plain
from sightline.notebook.views import plot_evaluation
from sightline.report import write_report
from sightline.storage import folder_name, write_results
from sightline.text import slug

# Blocks of the evaluation whose numbers are metrics, by their keys.
BLOCKS = (
    "rank",
    "windows",
    "drift",
    "compactness",
    "quality",
    "probe",
    "probe_test_calibrated",
    "own_rule",
    "own_score",
    "largest",
)
# Facts that are parameters of a run.
_PARAMETERS = (
    "name",
    "detector",
    "testbed",
    "space",
    "p",
    "n_train",
    "n_test",
    "n_attack",
    "n_segments",
    "step_s",
)
ARTIFACTS = "sightline"


def log_to_mlflow(
    evaluation: Evaluation, *, run_name: str | None = None, report: bool = True
) -> str:
    """Log an evaluation as a run of MLflow: figures, verdict counts and files.

    Metrics have the names of ``evaluation.json``, such as ``rank.roc_auc`` and
    ``probe.f1``; the ends of a 95% interval are ``interval.roc_auc.low`` and ``.high``,
    the number of attacks with a verdict is ``verdict.diluted``. Undefined figures are
    left out. Files go into the artifact folder ``sightline``.

    Parameters
    ----------
    evaluation : Evaluation
        With its traces.
    run_name : str, optional
        Name of a new run. Not given: the active run is used, else a new one is called
        after the stream.
    report : bool
        Whether the page is among the files (some 5 MB).

    Returns
    -------
    str
        The id of the run.

    Raises
    ------
    MissingExtraError
        If MLflow is not installed.
    SightlineError
        If it is no evaluation, or the active run holds another one.

    Examples
    --------
    >>> import numpy as np
    >>> from sightline import evaluate, log_to_mlflow
    >>> rows = np.random.default_rng(0).normal(size=(200, 2))
    >>> evaluation = evaluate(train=rows, test=rows, detector="pca")
    >>> run_id = log_to_mlflow(evaluation)  # doctest: +SKIP
    >>> [name for name in metrics_of(evaluation) if name.startswith("drift.")][:2]
    ['drift.d_drift', 'drift.d_drift_robust']
    """
    if not isinstance(evaluation, Evaluation):
        raise SightlineError(
            f"log_to_mlflow takes an Evaluation; got {type(evaluation).__name__}: call "
            "it once for each."
        )
    mlflow = require("mlflow", extra="mlflow", caller="log_to_mlflow")
    active = mlflow.active_run()
    if active is not None and run_name is None:
        # An active run does not show what was logged since it began.
        logged = mlflow.MlflowClient().get_run(active.info.run_id).data.tags
        if "sightline" in logged:
            raise SightlineError(
                "The active run of MLflow holds an evaluation already: give `run_name`."
            )
        context = nullcontext(active)
    else:
        name = run_name or evaluation.stream.name
        context = mlflow.start_run(run_name=name, nested=active is not None)
    with context as run, tempfile.TemporaryDirectory() as folder:
        mlflow.set_tag("sightline", str(evaluation.provenance.sightline))
        mlflow.log_params(parameters_of(evaluation))
        mlflow.log_metrics(metrics_of(evaluation))
        write_results([evaluation], folder)
        stream, guard = evaluation.stream.name, evaluation.guard
        out = Path(folder) / folder_name(stream, guard, evaluation.protocol)
        plot_evaluation(evaluation).savefig(out / "energy.png", dpi=150)
        if report:
            write_report([evaluation], out / "report.html")
        mlflow.log_artifacts(str(out), ARTIFACTS)
    return str(run.info.run_id)


def parameters_of(evaluation: Evaluation) -> dict[str, str]:
    """Return what was evaluated, by name; what is not known is left out."""
    facts = {name: getattr(evaluation.stream, name) for name in _PARAMETERS}
    facts |= {
        "guard": evaluation.guard,
        "protocol": str(evaluation.protocol),
        "seed": evaluation.provenance.seed,
    }
    return {name: str(value) for name, value in facts.items() if value is not None}


def metrics_of(evaluation: Evaluation) -> dict[str, float]:
    """Return every defined figure of an evaluation under its stable name.

    Parameters
    ----------
    evaluation : Evaluation
        Of any stream.

    Returns
    -------
    dict of str to float
        Truth values are 1 and 0.

    Examples
    --------
    >>> import numpy as np
    >>> from sightline import evaluate
    >>> rows = np.random.default_rng(0).normal(size=(200, 2))
    >>> "drift.d_drift" in metrics_of(evaluate(train=rows, test=rows))
    True
    """
    metrics: dict[str, float] = {}
    for block in BLOCKS:
        metrics |= _numbers(plain(getattr(evaluation, block)), block)
    for name, ends in (evaluation.intervals or {}).items():
        low, high = ends or (None, None)
        metrics |= _numbers({"low": low, "high": high}, f"interval.{name}")
    for word, count in (evaluation.verdict_counts or {}).items():
        metrics[f"verdict.{slug(word)}"] = float(count)
    for whose, figures in (evaluation.alarm_metrics or {}).items():
        for key, figure in figures.items():
            # MLflow takes no colon on some systems.
            name = f"alarm_metrics.{whose.replace(':', '.')}.{key}"
            metrics |= _numbers({"value": figure.value}, name)
    return metrics


def _numbers(value: object, name: str) -> dict[str, float]:
    """Return the numbers in a plain value by the path to each; lists are left out."""

    def found(value: object, name: str) -> Iterator[tuple[str, float]]:
        if isinstance(value, Mapping):
            for key, inner in value.items():
                yield from found(inner, f"{name}.{key}")
        elif isinstance(value, bool | int | float):
            yield name, float(value)

    return dict(found(value, name))
