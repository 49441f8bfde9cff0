"""Evaluations as runs of MLflow: with a stand-in, and with MLflow where it is."""

import json
import sys
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from sightline import MissingExtraError, SightlineError, evaluate, log_to_mlflow
from sightline.notebook.tracking import metrics_of

MLFLOW = "MLflow is not installed: pip install mlflow-skinny"


@pytest.fixture(scope="module")
def evaluation():
    rng = np.random.default_rng(0)
    train, test = rng.normal(size=(1500, 3)), rng.normal(size=(900, 3))
    labels = np.repeat([0, 1, 0, 1, 0], [300, 40, 200, 40, 320])
    test[300:340, 1] += 5.0
    return evaluate(train=train, test=test, labels=labels, detector="a", testbed="t")


class StandIn(ModuleType):
    """What `log_to_mlflow` calls of MLflow; it keeps what it gets."""

    def __init__(self):
        super().__init__("mlflow")
        self.runs, self.active = [], None

    def active_run(self):
        """Return the active run as it began: MLflow shows nothing logged since."""
        if self.active is None:
            return None
        return SimpleNamespace(
            info=self.active.info, data=SimpleNamespace(tags={}, params={}, metrics={})
        )

    def MlflowClient(self):
        return SimpleNamespace(get_run=lambda run_id: self.runs[int(run_id)])

    @contextmanager
    def start_run(self, run_name=None, nested=False):
        run = SimpleNamespace(
            info=SimpleNamespace(run_id=str(len(self.runs)), run_name=run_name),
            data=SimpleNamespace(tags={}, params={}, metrics={}),
            nested=nested,
            files={},
        )
        self.runs.append(run)
        before, self.active = self.active, run
        try:
            yield run
        finally:
            self.active = before

    def set_tag(self, key, value):
        self.active.data.tags[key] = value

    def log_params(self, values):
        self.active.data.params |= values

    def log_metrics(self, values):
        self.active.data.metrics |= values

    def log_artifacts(self, folder, path):
        files = {f.name: f.stat().st_size for f in Path(folder).iterdir()}
        self.active.files[path] = files


@pytest.fixture
def mlflow(monkeypatch):
    module = StandIn()
    monkeypatch.setitem(sys.modules, "mlflow", module)
    return module


def test_metrics_are_the_figures_under_their_names(evaluation):
    metrics = metrics_of(evaluation)
    written = evaluation.to_dict()
    assert metrics["rank.roc_auc"] == written["rank"]["roc_auc"]
    assert metrics["probe.f1"] == written["probe"]["f1"]
    assert metrics["interval.roc_auc.low"] == written["intervals"]["roc_auc"][0]
    assert sum(v for k, v in metrics.items() if k.startswith("verdict.")) == 2
    assert all(np.isfinite(value) for value in metrics.values())
    assert all(set(name) <= set(ALLOWED) for name in metrics)


ALLOWED = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./ "


def test_one_call_logs_figures_names_and_files(evaluation, mlflow):
    assert log_to_mlflow(evaluation) == "0"
    (run,) = mlflow.runs
    assert run.info.run_name == "a"
    assert run.data.params["detector"] == "a"
    assert run.data.metrics == metrics_of(evaluation)
    files = run.files["sightline"]
    wanted = {"evaluation.json", "segments.csv", "traces.npz", "energy.png"}
    assert set(files) == wanted | {"report.html"}
    assert all(size > 0 for size in files.values())


def test_an_active_run_gets_one_evaluation_and_a_name_makes_a_nested_one(
    evaluation, mlflow
):
    with mlflow.start_run("mine") as run:
        assert log_to_mlflow(evaluation, report=False) == run.info.run_id
        assert "report.html" not in run.files["sightline"]
        with pytest.raises(SightlineError, match="holds an evaluation already"):
            log_to_mlflow(evaluation)
        log_to_mlflow(evaluation, run_name="second", report=False)
    assert [run.nested for run in mlflow.runs] == [False, True]


def test_what_is_no_evaluation_is_refused(evaluation, mlflow):
    with pytest.raises(SightlineError, match="got list: call it once for each"):
        log_to_mlflow([evaluation])


def test_without_mlflow_the_command_to_install_it_is_given(evaluation, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(MissingExtraError, match=r"needs mlflow.*\[mlflow\]"):
        log_to_mlflow(evaluation)


@pytest.mark.filterwarnings("ignore")
def test_mlflow_itself_holds_the_run(evaluation, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason=MLFLOW)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    run_id = log_to_mlflow(evaluation, run_name="real", report=False)
    client = mlflow.MlflowClient()
    run = client.get_run(run_id)
    assert run.data.metrics == pytest.approx(metrics_of(evaluation))
    assert run.data.params["testbed"] == "t"
    listed = {Path(f.path).name for f in client.list_artifacts(run_id, "sightline")}
    assert {"evaluation.json", "segments.csv", "energy.png"} <= listed
    (path,) = (tmp_path / "runs").rglob("evaluation.json")
    assert json.loads(path.read_text())["rank"] == evaluation.to_dict()["rank"]
