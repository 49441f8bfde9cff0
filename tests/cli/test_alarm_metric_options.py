"""`--metrics` and `--attribution` on the command line, and `metrics` in a plan."""

import json

import numpy as np
import pytest
from samples import full_stream
from typer.testing import CliRunner

from sightline import StreamError, plan_of, write_stream
from sightline.cli.app import app


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture
def stream(tmp_path):
    path = tmp_path / "mine.npz"
    write_stream(full_stream(name="mine"), path)
    return path


def evaluated(stream, tmp_path, *options):
    quick = ("--no-diagnosis", "--no-report", "--no-intervals")
    done = run("evaluate", stream, "--out", tmp_path / "out", *quick, *options)
    assert done.exit_code == 0, done.output
    return json.loads((tmp_path / "out/mine/evaluation.json").read_text("utf-8"))


def test_chosen_metrics_alone_are_measured(stream, tmp_path):
    values = evaluated(stream, tmp_path, "--metrics", "etapr, vus_roc")
    assert set(values["alarm_metrics"]["probe"]) == {
        "etapr_precision",
        "etapr_recall",
        "etapr_f1",
    }
    assert set(values["alarm_metrics"]["energy"]) == {"vus_roc"}
    assert "own" not in values["localisation"]["figures"]


def test_an_unknown_metric_is_one_sentence(stream, tmp_path):
    done = run("evaluate", stream, "--out", tmp_path / "out", "--metrics", "f7")
    assert done.exit_code == 1
    assert "No alarm metric is called 'f7'" in " ".join(done.output.split())
    assert not (tmp_path / "out").exists()


def test_an_attribution_is_judged_beside(stream, tmp_path):
    np.save(tmp_path / "blame.npy", np.ones((50, 3)))
    values = evaluated(stream, tmp_path, "--attribution", tmp_path / "blame.npy")
    assert "own" in values["localisation"]["figures"]


def test_a_file_that_is_no_array_is_one_sentence(stream, tmp_path):
    path = tmp_path / "blame.npy"
    path.write_text("tag,blame\n", "utf-8")
    done = run("evaluate", stream, "--out", tmp_path / "out", "--attribution", path)
    assert done.exit_code == 1
    assert "is no array of numbers" in " ".join(done.output.split())


def test_a_plan_refuses_an_unknown_metric():
    tables = {
        "testbeds": {"waterworks": {}},
        "detectors": {"var": {}},
        "evaluation": {"metrics": "etapr,f7"},
    }
    with pytest.raises(StreamError, match=r"\[evaluation\].*No alarm metric .* 'f7'"):
        plan_of(tables)
    tables["evaluation"] = {"metrics": "etapr"}
    assert plan_of(tables).evaluation.metrics == "etapr"
