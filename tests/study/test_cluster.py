"""Studies on a real Dask cluster: a scheduler and two worker processes."""

import os
import signal
import threading
from pathlib import Path

import pytest
from clusters import local_cluster
from study_plans import contents, diary, small_plan

from sightline.errors import FileError
from sightline.study.run import run_study

HERE = Path(__file__).parents[1]
pytestmark = pytest.mark.usefixtures("unrendered")


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    """Let cells find the detectors of these tests."""
    monkeypatch.setenv("PYTHONPATH", str(HERE), prepend=os.pathsep)


@pytest.mark.slow
def test_a_cluster_gives_the_same_bits_as_this_machine(tmp_path):
    plan = small_plan(
        {
            "pca": {},
            "gdn": {"epochs": 2},
            "failing": {"detector": "study_plans:Failing"},
        },
        seeds=(0, 1),
    )
    heard = set()
    with local_cluster() as cluster:
        there = run_study(
            plan,
            tmp_path / "there",
            cluster=cluster.address,
            watch=lambda board: heard.update(
                status.text for status in board.statuses.values()
            ),
        )
    here = run_study(plan, tmp_path / "here")
    assert there.done == here.done
    assert len(there.done) == 4
    assert there.failed == here.failed
    assert "a bug of the user's class" in there.failed["one-failing-seed0"]
    assert contents(tmp_path / "there") == contents(tmp_path / "here")
    assert any(doing.startswith("Training GDN, epoch") for doing in heard)


def test_cells_of_a_killed_worker_run_elsewhere(tmp_path):
    book = tmp_path / "diary"
    slow = {"detector": "study_plans:Slow", "diary": str(book), "seconds": 2.0}
    plan = small_plan({"slow": slow}, seeds=(0, 1))
    ended = threading.Event()
    with local_cluster() as cluster:

        def kill_one():
            while len(diary(book)) < 2 and not ended.wait(0.02):
                pass
            os.kill(cluster.worker_pids[0], signal.SIGKILL)

        killer = threading.Thread(target=kill_one)
        killer.start()
        study = run_study(plan, tmp_path / "out", cluster=cluster.address)
        ended.set()
        killer.join()
    assert len(study.done) == 2
    assert not study.failed
    # One was begun on the worker that died, and once more on the other.
    assert sorted(set(diary(book))) == ["begun 0", "begun 1"]
    assert len(diary(book)) == 3


def test_a_cluster_that_is_not_there_is_told(tmp_path):
    plan = small_plan({"pca": {}})
    with pytest.raises(FileError, match="no Dask scheduler answers there"):
        run_study(plan, tmp_path / "out", cluster="tcp://127.0.0.1:9")
