"""Studies from plan to results: finished, failed, killed, shared."""

import csv
import json
import os
import random
import shutil
import subprocess
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
import numpy as np
import pytest
from study_plans import CELL, Witness, contents, diary, quick_studies, small_plan
from threadpoolctl import threadpool_limits

from sightline import (
    evaluate,
    export_stream,
    open_testbed,
    read_evaluation,
    read_stream,
)
from sightline.data.segments import KnownEffect
from sightline.errors import FileError, StreamError
from sightline.progress import Step, StepKind
from sightline.study.cell import Board, CellOutcome
from sightline.study.collect import Study
from sightline.study.execute_cell import MOST_DEATHS
from sightline.study.plan import plan_of
from sightline.study.run import run_study

HERE = Path(__file__).parents[1]
pytestmark = pytest.mark.usefixtures("unrendered")


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    """Let cells find the detectors of these tests."""
    monkeypatch.setenv("PYTHONPATH", str(HERE), prepend=os.pathsep)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished study of one cell, to be read; who changes it takes a copy."""
    out = tmp_path_factory.mktemp("finished") / "out"
    with quick_studies():
        run_study(small_plan({"pca": {}}), out)
    return out


def test_streams_evaluate_to_what_the_study_says(tmp_path):
    plan = small_plan({"pca": {}, "mean": {}}, diagnosis=True, intervals=True)
    study = run_study(plan, tmp_path / "out", workers=1)
    assert study.done == ("one-pca-seed0", "one-mean-seed0")
    assert not study.failed
    for name in study.done:
        stream = read_stream(tmp_path / "out/streams" / f"{name}.npz")
        assert (stream.name, stream.testbed) == (name, "one")
        # With as many threads as the study gives a cell the bits are the same too.
        with threadpool_limits(limits=1):
            again = json.loads(json.dumps(evaluate(stream).to_dict()))
        told = json.loads((tmp_path / "out" / name / "evaluation.json").read_text())
        assert again == told
        assert read_evaluation(tmp_path / "out" / name).stream.detector in name
        recording = read_evaluation(tmp_path / "out" / name).recording
        assert [tag.name for tag in recording.tags] == list(stream.telemetry_channels)
    told = json.loads((tmp_path / "out/study.json").read_text())
    assert [cell["failed"] for cell in told["cells"]] == [None, None]
    assert (tmp_path / "out/summary.csv").read_text().count("\n") == 3


@pytest.mark.usefixtures("quick_studies")
def test_a_failed_cell_is_told_and_stops_nobody(tmp_path):
    plan = small_plan(
        {
            "pca": {},
            "failing": {"detector": "study_plans:Failing"},
            "short": {"detector": "mean", "trim_s": 1e9},
        }
    )
    study = run_study(plan, tmp_path / "out")
    assert study.done == ("one-pca-seed0",)
    reason = study.failed["one-failing-seed0"]
    assert reason.startswith(
        "ZeroDivisionError: a bug of the user's class (study_plans.py, "
    )
    assert "Traceback" in study.traces["one-failing-seed0"]
    assert "leaves no row of train" in study.failed["one-short-seed0"]
    assert not (tmp_path / "out/one-failing-seed0").exists()


@pytest.mark.usefixtures("quick_studies")
def test_where_all_fail_nothing_of_before_is_left(finished, tmp_path):
    out = shutil.copytree(finished, tmp_path / "out")
    assert (out / "report.html").is_file()
    failing = small_plan({"pca": {"detector": "study_plans:Failing"}})
    study = run_study(failing, out)
    assert not study.done
    left = {path.name for path in out.iterdir()}
    assert left == {"cache", "detectors", "streams", "study.json"}
    assert not list((out / "detectors").iterdir())


@pytest.mark.usefixtures("quick_studies")
def test_costs_of_each_cell_are_measured_and_kept_beside_its_stream(finished):
    lines = (finished / "tables/costs.csv").read_text().splitlines()
    (row,) = csv.DictReader(lines)
    assert (row["testbed"], row["detector"], row["seed"]) == ("one", "pca", "0")
    assert 0 < float(row["train_cpu_s"]) < 60
    assert 0 < float(row["score_cpu_s"]) < 60
    (saved,) = (finished / "detectors").glob("*.npz")
    with np.load(saved) as arrays:
        kept = sum(a.size for a in arrays.values() if a.dtype.kind in "fiu")
    assert int(row["n_numbers"]) == kept > 100
    if sys.platform == "linux":
        assert 20 < float(row["peak_mib"]) < 20_000
    assert "Training, CPU s" in (finished / "tables/costs.md").read_text()


def test_a_study_gives_its_costs_as_a_frame(finished):
    with quick_studies():
        study = run_study(small_plan({"pca": {}}), finished)
    for library in ("polars", "pandas"):
        frame = study.cost_frame(library)
        assert list(frame["detector"]) == ["pca"]
        assert frame["train_cpu_s"][0] > 0


def test_a_guard_is_told_by_the_name_of_a_result(finished, tmp_path):
    plan = small_plan({"pca": {}}, guard=2)
    shutil.copytree(finished / "cache", tmp_path / "out/cache")
    study = run_study(plan, tmp_path / "out")
    assert study.done == ("one-pca-seed0-guard2",)
    assert read_evaluation(tmp_path / "out" / study.done[0]).guard == 2
    # Without one again: the same stream, and no result left beside.
    again = run_study(small_plan({"pca": {}}), tmp_path / "out")
    assert again.done == ("one-pca-seed0",)
    assert len(list((tmp_path / "out").glob("*/evaluation.json"))) == 1


def test_a_stream_of_the_cache_is_not_written_into(finished):
    place = finished / "streams/one-pca-seed0.npz"
    assert place.stat().st_mode & 0o222 == 0


def test_a_stream_carries_what_the_simulator_knows_about_its_attacks(finished):
    testbed = open_testbed("waterworks", days_train=0.1, days_test=0.1, every=10)
    evaluation = read_evaluation(finished / "one-pca-seed0")
    known = evaluation.provenance.meta["attack_truth"]
    assert msgspec.convert(known, tuple[KnownEffect, ...]) == testbed.truth
    assert [row["id"] for row in known] == [row.id for row in evaluation.segments]


@pytest.mark.usefixtures("quick_studies")
def test_a_folder_that_may_be_replaced_may_be_broken_too(finished, tmp_path):
    out = shutil.copytree(finished, tmp_path / "out")
    plan = small_plan({"pca": {}})
    (out / "study.json").write_text("{")
    with pytest.raises(FileError, match="cannot be read: delete it"):
        run_study(plan, out)
    assert run_study(plan, out, overwrite=True).done == ("one-pca-seed0",)


def test_no_processes_are_no_number_of_processes(tmp_path):
    with pytest.raises(StreamError, match="`workers` must be 1 or more; got -1"):
        run_study(small_plan({"pca": {}}), tmp_path / "out", workers=-1)


def test_a_process_that_is_killed_is_replaced(tmp_path):
    book = tmp_path / "diary"
    plan = small_plan({"dying": {"detector": "study_plans:Dying", "diary": str(book)}})
    study = run_study(plan, tmp_path / "out", workers=1)
    assert study.done == ("one-dying-seed0",)
    assert len(diary(book)) == 2


def test_a_cell_whose_process_always_dies_is_given_up(tmp_path):
    book = tmp_path / "diary"
    dying = {"detector": "study_plans:Dying", "diary": str(book), "times": 99}
    study = run_study(small_plan({"dying": dying, "pca": {}}), tmp_path / "out")
    assert study.done == ("one-pca-seed0",)
    assert "died 3 times (it ended by signal 9)" in study.failed["one-dying-seed0"]
    assert len(diary(book)) == MOST_DEATHS == 3
    text = (HERE.parent / "docs/studies.md").read_text(encoding="utf-8")
    assert f"up to {MOST_DEATHS} times" in " ".join(text.split())


@pytest.mark.usefixtures("quick_studies")
def test_what_is_done_is_not_done_again_and_may_be_shared(tmp_path):
    book = tmp_path / "diary"
    slow = {"detector": "study_plans:Slow", "diary": str(book), "seconds": 0.0}
    plan = small_plan({"slow": slow}, seeds=(0, 1))
    first = run_study(plan, tmp_path / "a", cache=tmp_path / "cache")
    assert sorted(diary(book)) == ["begun 0", "begun 1"]
    texts = []
    run_study(
        plan,
        tmp_path / "b",
        cache=tmp_path / "cache",
        watch=lambda board: texts.append(board.text),
    )
    assert texts == ["2 of 2 cells done (2 before), 0 running"]
    assert len(diary(book)) == 2
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    # Under another name it is the same cell, told under that name.
    renamed = small_plan({"other": slow}, seeds=(0, 1), testbeds=("elsewhere",))
    second = run_study(renamed, tmp_path / "c", cache=tmp_path / "cache")
    assert len(diary(book)) == 2
    assert second.done == ("elsewhere-other-seed0", "elsewhere-other-seed1")
    stream = read_stream(tmp_path / "c/streams/elsewhere-other-seed0.npz")
    assert (stream.detector, stream.testbed) == ("other", "elsewhere")
    told = read_evaluation(tmp_path / "c/elsewhere-other-seed0").to_dict()
    with threadpool_limits(limits=1):
        again = evaluate(stream, intervals=False, diagnosis=False).to_dict()
    assert json.loads(json.dumps(again)) == json.loads(json.dumps(told))
    assert isinstance(first, Study)


def test_two_studies_at_once_do_a_cell_once(tmp_path):
    book = tmp_path / "diary"
    script = tmp_path / "one.py"
    script.write_text(
        "import sys\n"
        "from study_plans import small_plan, unrendered\n"
        "from sightline.report import print_figures\n"
        "from sightline.study.run import run_study\n"
        "print_figures.rendered = unrendered\n"
        f"slow = dict(detector='study_plans:Slow', diary={str(book)!r}, seconds=1.5)\n"
        "run_study(small_plan({'slow': slow}), sys.argv[1], cache=sys.argv[2])\n"
    )
    both = [
        subprocess.Popen([sys.executable, script, tmp_path / name, tmp_path / "cache"])
        for name in ("a", "b")
    ]
    assert [process.wait(600) for process in both] == [0, 0]
    assert diary(book) == ["begun 0"]
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


@pytest.mark.usefixtures("quick_studies")
def test_an_added_seed_costs_only_itself(tmp_path):
    book = tmp_path / "diary"
    slow = {"detector": "study_plans:Slow", "diary": str(book), "seconds": 0.0}
    run_study(small_plan({"slow": slow}), tmp_path / "out")
    study = run_study(small_plan({"slow": slow}, seeds=(0, 1)), tmp_path / "out")
    assert study.done == ("one-slow-seed0", "one-slow-seed1")
    assert diary(book) == ["begun 0", "begun 1"]


@pytest.mark.usefixtures("quick_studies")
def test_results_of_another_study_are_kept(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "out")
    with pytest.raises(FileError, match="holds another study, with 'one-pca-seed0'"):
        run_study(small_plan({"mean": {}}), tmp_path / "out")
    study = run_study(small_plan({"mean": {}}), tmp_path / "out", overwrite=True)
    assert study.done == ("one-mean-seed0",)
    assert not (tmp_path / "out/one-pca-seed0").exists()
    assert not (tmp_path / "out/streams/one-pca-seed0.npz").exists()


def test_results_that_are_no_studys_are_kept(tmp_path):
    (tmp_path / "summary.csv").write_text("precious")
    with pytest.raises(FileError, match="not of a study"):
        run_study(small_plan({"pca": {}}), tmp_path)
    assert (tmp_path / "summary.csv").read_text() == "precious"


@pytest.mark.parametrize(
    ("detector", "told"),
    [
        ({"detector": "study_plans:Nobody"}, "no 'study_plans:Nobody' to import"),
        ({"detector": "nowhere.at_all:X"}, "no 'nowhere.at_all:X' to import"),
        ({"detector": "json:dumps"}, "not a class with `fit`"),
        ({"detector": "study_plans:Shift", "facto": 1}, "did you mean 'factor'"),
        ({"detector": "gdn", "epochs": 0}, "`epochs` must be"),
    ],
)
def test_a_detector_that_cannot_be_made_is_refused_at_once(tmp_path, detector, told):
    with pytest.raises(StreamError, match=rf"\[detectors\.mine\].*{told}"):
        run_study(small_plan({"mine": detector}), tmp_path / "out")


@pytest.mark.parametrize("about", ["true", "{}", "[1]", "{", '{"detector": "pca"}'])
def test_a_damaged_stream_of_the_cache_is_reported(finished, tmp_path, about):
    plan = small_plan({"pca": {}})
    shutil.copytree(finished / "cache", tmp_path / "cache")
    (stream,) = (tmp_path / "cache").glob("cells/*/stream.npz")
    with np.load(stream) as file:
        arrays = dict(file)
    stream.unlink()  # it is read-only
    np.savez(stream, **arrays | {"meta_json": np.array(about)})
    with pytest.raises(FileError, match=r"damaged: delete .* run the study again\.$"):
        run_study(plan, tmp_path / "again", cache=tmp_path / "cache")


# ---- killed --------------------------------------------------------------------------

GRID = {
    "gdn": {"epochs": 4, "validation_share": 0.1},
    "tranad": {"epochs": 3},
    "pca": {},
}


def begun(out, cache):
    """Start a study of 3 detectors x 2 testbeds x 2 seeds in a process of its own."""
    code = (
        "import sys\n"
        "from study_plans import small_plan\n"
        "from sightline.study.run import run_study\n"
        f"plan = small_plan({GRID!r}, seeds=(0, 1), testbeds=('one', 'two'))\n"
        "run_study(plan, sys.argv[1], cache=sys.argv[2], workers=2)\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, out, cache], start_new_session=True
    )


def has_begun(cache, n_cells, n_work):
    """Tell whether so many cells are finished, and so many at work."""
    finished = len(list(cache.glob("cells/*/stream.npz")))
    working = len(list(cache.glob("work/*/checkpoint.npz")))
    return finished >= n_cells and working >= n_work


def killed_when(process, is_time, patience=300):
    """Kill a process a moment after something has happened; nobody knows which."""
    until = time.monotonic() + patience
    while not is_time():
        assert process.poll() is None, "the study ended before it could be killed"
        assert time.monotonic() < until
        time.sleep(0.01)
    time.sleep(random.uniform(0, 0.5))
    assert process.poll() is None, "the study ended before it could be killed"
    process.kill()
    process.wait()


@pytest.mark.slow
def test_a_study_killed_three_times_gives_the_same_bits(tmp_path):
    whole, cut, cache = tmp_path / "whole", tmp_path / "cut", tmp_path / "cut-cache"
    assert begun(whole, tmp_path / "whole-cache").wait(900) == 0
    # In the middle of a training, of writing or judging, and of another training.
    for moment in ((0, 1), (3, 0), (6, 1)):
        process = begun(cut, cache)
        killed_when(process, lambda m=moment: has_begun(cache, *m))
    assert begun(cut, cache).wait(900) == 0
    one, other = contents(whole), contents(cut)
    assert one.keys() == other.keys()
    assert sum(name.endswith("stream.npz") for name in one) == 0
    assert sum(name.startswith("streams/") for name in one) == 12
    for name in one:
        assert one[name] == other[name], name


def test_cells_end_with_the_study_that_began_them(tmp_path):
    book = tmp_path / "diary"
    code = (
        "import sys\n"
        "from study_plans import small_plan\n"
        "from sightline.study.run import run_study\n"
        f"slow = dict(detector='study_plans:Slow', diary={str(book)!r}, seconds=3000)\n"
        "run_study(small_plan({'slow': slow}), sys.argv[1])\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, tmp_path / "out"])
    killed_when(process, lambda: bool(diary(book)))
    until = time.monotonic() + 120
    while _children_of_the_study(tmp_path) and time.monotonic() < until:
        time.sleep(0.1)
    assert not _children_of_the_study(tmp_path)


def _children_of_the_study(folder):
    """Return processes that hold a lock below a folder."""
    held = []
    for fd in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if str(folder) in os.readlink(fd):
                held.append(fd)
        except OSError:
            continue
    return held


# ---- the board -----------------------------------------------------------------------


def test_the_board_tells_where_each_cell_stands(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    other = type(CELL)(**{**vars(CELL), "seed": 1})
    board = Board([CELL, other])
    assert board.text == "0 of 2 cells done, 0 running"
    assert board.seconds_left() is None
    board.update(CELL, Step(StepKind.TRAINING, 0, 100, "GDN, epoch 1 of 4"))
    now[0] += 10
    board.update(CELL, Step(StepKind.TRAINING, 25, 100, "GDN, epoch 2 of 4"))
    status = board.statuses[CELL.name]
    assert status.seconds_left() == pytest.approx(30)
    board.update(CELL, Step(StepKind.SCORING, 0, 50, "test"))
    assert status.seconds_left() is None
    now[0] += 10
    board.update(CELL, CellOutcome(is_done=True))
    assert status.seconds == pytest.approx(20)
    # The other has yet to take what this one took.
    assert board.seconds_left() == pytest.approx(20)
    board.update(other, CellOutcome(is_done=False, reason="no"))
    assert board.text == "1 of 2 cells done, 0 running, 1 failed"


def test_no_row_of_a_record_in_parts_is_judged_by_a_model_that_saw_it(tmp_path):
    """The first model of a study that could: each row of train is a row of test too."""
    plant = tmp_path / "plant"
    plant.mkdir()
    begin = datetime(2026, 3, 1)
    at = [begin + timedelta(minutes=15 * k) for k in range(2880)]
    rows = [f"{at[k]},{k},{k % 7}" for k in range(2880)]
    for name, part in (("train", rows[:1500]), ("test", rows[1500:])):
        (plant / f"{name}.csv").write_text("\n".join(["time,LIT101,FIT101", *part]))
    listed = [f"{k},{at[k]},{at[k + 3]}" for k in range(100, 2800, 300)]
    (plant / "incidents.csv").write_text("\n".join(["id,start,end", *listed]))
    (plant / "plant.toml").write_text("parts = 5\n")
    plan = plan_of(
        {
            "testbeds": {"plant": {"testbed": str(plant)}},
            "detectors": {"witness": {"detector": "study_plans:Witness"}},
            "evaluation": {"intervals": False, "diagnosis": False},
        }
    )
    out = tmp_path / "out"
    assert run_study(plan, out).done == ("plant-witness-seed0",)
    stream = read_stream(out / "streams/plant-witness-seed0.npz")
    assert stream.test.n_rows == 2880
    assert np.abs(stream.test.values).max() < 20
    assert len(stream.part_firsts) == 5
    evaluation = read_evaluation(out / "plant-witness-seed0")
    assert len(evaluation.segments) == 9
    assert "judged by a model of the other parts" in evaluation.notices[0]
    # What would leak is refused where a model of all rows is asked for.
    testbed = open_testbed(plant)
    with pytest.raises(StreamError, match="use `sightline run`"):
        export_stream(Witness().fit(testbed.train), testbed.train, testbed.test)
