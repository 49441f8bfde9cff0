"""On a cluster every figure is what it is here, wherever the parts begin."""

import json
import logging
import os
import pickle
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from clusters import local_cluster
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import bare_stream, refused
from strategies import ChunkedRows, inner_cuts, seeds, window_energies
from typer.testing import CliRunner

from sightline import (
    Attack,
    Evaluation,
    ResidualStream,
    evaluate,
    on_cluster,
    read_stream,
    write_stream,
)
from sightline import cluster as cluster_module
from sightline.cli.app import app
from sightline.data.row_tables import (
    BLOCK_ROWS,
    GRID_ROWS,
    ArrayRows,
    KeptRows,
    PartedRows,
    Parts,
    bounds_on_grid,
    gather_rows,
    map_parts,
)
from sightline.metrics.windows import RUN_ROWS, WindowWatch, windows_of_parts
from sightline.progress import StepKind

EQUAL = 1e-10
N_TRAIN, N_TEST, P = 5000, 7000, 3
# Parts of one row, of none that begins on the grid, and of several blocks.
TRAIN_CUTS, TEST_CUTS = [1, 700, 1500, 2301, 4100], [1, 2, 1100, 2300, 4097, 6999]


@pytest.fixture(scope="module")
def cluster():
    with local_cluster() as started:
        yield started


@pytest.fixture
def small_parts(monkeypatch):
    """Let parts begin with any block, so that small streams have several."""
    monkeypatch.setattr(cluster_module, "GRID_ROWS", BLOCK_ROWS)
    monkeypatch.setattr(cluster_module, "LEAST_ROWS", 1)


def drawn(p=P, *, attacked=True, seed=0, **known):
    """A stream of short attacks, and one that is longer than two parts."""
    rng = np.random.default_rng(seed)
    labels = np.zeros(N_TEST, np.int8)
    for start, length in ((300, 20), (1000, 60), (1900, 2500), (6950, 50)):
        labels[start : start + length] = attacked
    labels[5000:5040] = -1
    train, test = rng.normal(size=(N_TRAIN, p)), rng.normal(size=(N_TEST, p))
    test[labels == 1, 0] += 2.0
    return ResidualStream(
        train, test, labels if attacked else np.minimum(labels, 0), **known
    )


def everything():
    rng = np.random.default_rng(5)
    moving = np.cumsum(rng.normal(size=(N_TRAIN + N_TEST, 2)), axis=0) * 0.1
    moving += rng.normal(size=moving.shape)
    moving[4000:4700, 1] = np.nan
    moving[N_TRAIN + 1000 : N_TRAIN + 1100, 0] = np.nan
    return drawn(
        4,
        calibration=rng.normal(size=(2500, 4)),
        alarms=rng.random(N_TEST) < 0.05,
        score=rng.normal(size=N_TEST),
        test_time=np.arange(N_TEST) * 10.0,
        train_breaks=[0, 2048, 3000],
        test_breaks=[0, 1024, 4500],
        segments=[Attack(id="A1", start=300, stop=320, targets=("0",))],
        telemetry_train=moving[:N_TRAIN],
        telemetry_test=moving[N_TRAIN:],
        telemetry_channels=["level", "flow"],
        meta={
            "groups": {
                "one": ["channel_0", "channel_1"],
                "two": ["channel_1", "channel_2", "channel_3"],
            }
        },
    )


def written(stream: ResidualStream, folder: Path) -> Path:
    """Write a stream as a folder of parts of odd sizes."""

    def cut(rows, cuts):
        return rows and ChunkedRows(rows.values, cuts)

    write_stream(
        stream.replace(
            train=cut(stream.train, TRAIN_CUTS),
            test=cut(stream.test, TEST_CUTS),
            calibration=cut(stream.calibration, [5, 1300]),
            telemetry_train=cut(stream.telemetry_train, [2500]),
            telemetry_test=cut(stream.telemetry_test, TEST_CUTS),
        ),
        folder,
    )
    return folder


def ignore_some_train_rows(folder: Path) -> None:
    """Give the train parts labels, of which some say that a row is to be ignored."""
    for k, path in enumerate(sorted((folder / "train").iterdir())):
        table = pq.read_table(path)
        label = -(np.arange(len(table)) % (7 + k) == 3).astype(np.int8)
        pq.write_table(table.append_column("label", pa.array(label)), path)


def assert_equal_figures(found: Evaluation, wanted: Evaluation) -> None:
    """Every figure of the result, and every trace."""
    assert_near(
        json.loads(json.dumps(found.to_dict())),
        json.loads(json.dumps(wanted.to_dict())),
    )
    for name, values in vars(wanted.traces).items():
        if isinstance(values, np.ndarray) and values.dtype.kind == "f":
            np.testing.assert_allclose(
                getattr(found.traces, name), values, EQUAL, EQUAL, err_msg=name
            )


def assert_near(found, wanted, place=""):
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys(), place
        for key in wanted:
            assert_near(found[key], wanted[key], f"{place}/{key}")
    elif isinstance(wanted, list):
        assert len(found) == len(wanted), place
        for k, (one, other) in enumerate(zip(found, wanted, strict=True)):
            assert_near(one, other, f"{place}/{k}")
    elif isinstance(wanted, float):
        assert found == pytest.approx(wanted, rel=EQUAL, abs=EQUAL), place
    else:
        assert found == wanted, place


def with_nan(stream):
    test = stream.test.values.copy()
    test[[0, 1500, 1501, 6000], [0, 1, 0, 2]] = np.nan
    train = stream.train.values.copy()
    train[2300] = np.inf
    return stream.replace(train=train, test=test)


STREAMS = {
    "everything": (everything, {"seed": 3}),
    "guard": (drawn, {"guard": 100, "intervals": False}),
    "one channel": (lambda: drawn(1), {"intervals": False}),
    "no attacks": (lambda: drawn(attacked=False), {}),
    "dropped rows": (
        lambda: with_nan(everything()),
        {"nonfinite": "drop", "intervals": False},
    ),
    "standardised": (
        drawn,
        {"estimator": "ledoit-wolf-standardised", "intervals": False},
    ),
}


@pytest.mark.parametrize("case", STREAMS)
@pytest.mark.usefixtures("small_parts")
def test_every_figure_is_the_same_on_a_cluster(case, cluster, tmp_path):
    make, options = STREAMS[case]
    stream = read_stream(written(make(), tmp_path / "stream"))
    with on_cluster(stream, cluster.address) as shared:
        assert len(shared.train.parts.bounds) > 3
        assert len(shared.test.parts.bounds) > 3
        found = evaluate(shared, **options)
    assert_equal_figures(found, evaluate(stream, **options))


@pytest.mark.usefixtures("small_parts")
def test_ignored_train_rows_are_left_out_on_a_cluster_too(cluster, tmp_path):
    folder = written(drawn(), tmp_path / "stream")
    ignore_some_train_rows(folder)
    stream = read_stream(folder)
    assert isinstance(stream.train, KeptRows)
    with on_cluster(stream, cluster.address) as shared:
        assert len(shared.train.parts.bounds) > 3
        found = evaluate(shared, intervals=False)
    assert_equal_figures(found, evaluate(stream, intervals=False))


def test_parts_of_their_usual_size_give_the_same_bits(cluster, tmp_path):
    """Of windows that lie in two parts, too."""
    rng = np.random.default_rng(0)
    train, test = rng.normal(size=(2, 300_000, 2)).astype(np.float32)
    labels = np.zeros(300_000, np.int8)
    for start, length in ((30_000, 1), (100_000, 700), (150_000, 20_000)):
        labels[start : start + length] = 1
    write_stream(
        ResidualStream(
            ChunkedRows(train, [150_000]),
            ChunkedRows(test, [140_000]),
            labels,
            step_s=10.0,
        ),
        tmp_path / "stream",
    )
    stream = read_stream(tmp_path / "stream")
    with on_cluster(stream, cluster.address) as shared:
        assert shared.train.parts.bounds.tolist() == [0, 163_840, 300_000]
        found = evaluate(shared, intervals=False, metrics="none")
    wanted = evaluate(stream, intervals=False, metrics="none")
    assert found.segments[1].ceiling is not None
    assert found.to_dict() == wanted.to_dict()
    for name in ("test_energy", "matched_d_full"):
        one, other = getattr(found.traces, name), getattr(wanted.traces, name)
        np.testing.assert_array_equal(one, other)


@pytest.mark.usefixtures("small_parts")
def test_progress_counts_the_rows_of_parts_as_they_are_done(cluster, tmp_path):
    stream = read_stream(written(drawn(), tmp_path / "stream"))
    steps = []
    with on_cluster(stream, cluster.address) as shared:
        evaluate(
            shared,
            intervals=False,
            diagnosis=False,
            progress=steps.append,
        )
    assert len(steps) > 10
    rows = [step for step in steps if step.kind is not StepKind.MEASURING_ALARMS]
    assert rows[-1].done == rows[-1].total == 3 * N_TRAIN + N_TEST


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.usefixtures("small_parts")
def test_a_nan_is_told_as_it_is_here(split, cluster, tmp_path):
    bad = drawn()
    values = getattr(bad, split).values.copy()
    values[[2400, 4500], 1] = np.nan
    stream = read_stream(written(bad.replace(**{split: values}), tmp_path / "stream"))
    with pytest.raises(ValueError, match="must be finite") as here:
        evaluate(stream)
    with (
        on_cluster(stream, cluster.address) as shared,
        pytest.raises(ValueError, match="must be finite") as there,
    ):
        evaluate(shared)
    assert str(there.value) == str(here.value)
    assert "row 2400 (part-" in str(there.value)


@pytest.mark.usefixtures("small_parts")
def test_a_file_that_is_damaged_is_named(cluster, tmp_path):
    folder = written(drawn(), tmp_path / "stream")
    stream = read_stream(folder)
    damaged = sorted((folder / "test").iterdir())[3]
    with (
        on_cluster(stream, cluster.address) as shared,
        refused(damaged.name, "write it again"),
    ):
        damaged.write_bytes(b"PAR1" + b"\0" * (damaged.stat().st_size - 4))
        evaluate(shared)


@pytest.mark.usefixtures("small_parts")
def test_the_parts_of_a_worker_that_dies_are_done_by_another(tmp_path):
    stream = read_stream(written(drawn(), tmp_path / "stream"))
    killed = []
    with local_cluster() as cluster:

        def kill(step):
            if step.text == "Scoring test" and not killed:
                killed.append(cluster.worker_pids[0])
                os.kill(killed[0], signal.SIGKILL)

        with on_cluster(stream, cluster.address) as shared:
            found = evaluate(shared, intervals=False, progress=kill)
    assert killed
    assert_equal_figures(found, evaluate(stream, intervals=False))


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize(
    "who", [pytest.param("the last worker", marks=pytest.mark.slow), "the scheduler"]
)
def test_a_lost_cluster_is_one_sentence_within_the_patience(who, monkeypatch, tmp_path):
    monkeypatch.setattr(cluster_module, "LOST_S", 2)
    monkeypatch.setattr(cluster_module, "PATIENCE_S", 5)
    stream = read_stream(written(drawn(), tmp_path / "stream"))
    with local_cluster(1) as cluster:
        killed = []

        def kill(step):
            if step.text == "Scoring test" and not killed:
                pids = {"the last worker": cluster.worker_pids[0]}
                killed.append(pids.get(who, cluster.scheduler_pid))
                os.kill(killed[0], signal.SIGKILL)

        begin = time.monotonic()
        with (
            refused(cluster.address, "the cluster was lost during the"),
            on_cluster(stream, cluster.address) as shared,
        ):
            evaluate(shared, intervals=False, progress=kill)
        assert killed
        assert time.monotonic() - begin < 300


def test_dask_prints_no_traceback_of_a_lost_cluster(cluster, tmp_path):
    # A client that finds its scheduler gone logs an error, with its traceback.
    logger = logging.getLogger("distributed.client")
    stream = read_stream(written(drawn(), tmp_path / "stream"))
    before = logger.level
    with on_cluster(stream, cluster.address):
        assert not logger.isEnabledFor(logging.ERROR)
    assert logger.level == before
    assert logger.isEnabledFor(logging.ERROR)


# Evaluates a folder on the workers at an address; prints which slow imports it made.
_CLIENT = """
import sys
from sightline import evaluate, on_cluster, read_stream

with on_cluster(read_stream(sys.argv[1]), sys.argv[2]) as shared:
    evaluation = evaluate(shared)
assert evaluation.rules is not None
assert evaluation.segments[0].ceiling is not None
print(sorted({"numba", "pandas"} & {*sys.modules}))
"""


def test_the_client_compiles_nothing(cluster, tmp_path):
    folder = written(drawn(step_s=120.0), tmp_path / "stream")
    command = [sys.executable, "-c", _CLIENT, str(folder), cluster.address]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    assert ran.stdout == "[]\n"


def test_nobody_at_the_address(monkeypatch, tmp_path):
    monkeypatch.setattr(cluster_module, "PATIENCE_S", 0.5)
    stream = read_stream(written(drawn(), tmp_path / "stream"))
    address = "tcp://127.0.0.1:9"
    started = time.monotonic()
    with refused(address, "dask scheduler"), on_cluster(stream, address):
        pass
    assert time.monotonic() - started < 120


def test_nobody_works_there(monkeypatch, tmp_path):
    stream = read_stream(written(drawn(), tmp_path / "stream"))
    with local_cluster(n_workers=0) as cluster:
        monkeypatch.setattr(cluster_module, "PATIENCE_S", 4)
        with (
            refused("no workers", "dask worker"),
            on_cluster(stream, cluster.address),
        ):
            pass


class ToldBy:
    """A client whose workers say one thing."""

    def __init__(self, answer):
        self.answer = answer

    def run(self, look):
        return {"tcp://w:1": self.answer}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((None, None), ("has no sightline", "install")),
        (("0.0.1", None), ("has sightline 0.0.1", "install")),
        (
            (cluster_module.__version__, "/data/x"),
            ("/data/x", "does not see", "same path"),
        ),
    ],
)
def test_workers_that_lack_something_are_refused_at_once(answer, words):
    with refused("tcp://w:1", *words):
        cluster_module.Cluster("tcp://s:1", ToldBy(answer)).check_workers(
            [], "use the same path"
        )


def test_what_is_no_parquet_folder_is_refused():
    with (
        refused("Parquet folder", "write_stream"),
        on_cluster(bare_stream(), "tcp://127.0.0.1:9"),
    ):
        pass


def test_the_command_gives_the_same_results(cluster, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # workers stand elsewhere
    written(drawn(), Path("big"))
    for out, more in (("here", []), ("there", ["--cluster", cluster.address])):
        result = CliRunner().invoke(
            app, ["evaluate", "big", "--out", out, "--no-intervals", *more]
        )
        assert result.exit_code == 0, result.output
    here, there = (
        json.loads((tmp_path / out / "big" / "evaluation.json").read_text())
        for out in ("here", "there")
    )
    assert_near(there, here)


def test_the_command_says_what_to_do_with_another_format(tmp_path):
    write_stream(bare_stream(), tmp_path / "small.npz")
    result = CliRunner().invoke(
        app,
        ["evaluate", str(tmp_path / "small.npz"), "--cluster", "tcp://127.0.0.1:9"],
    )
    assert result.exit_code == 1
    assert "write_stream" in result.stderr


class HereAndNow:
    """A runner that carries out calls at once, as they would arrive elsewhere."""

    def run(self, calls, done):
        for k, call in enumerate(calls):
            result = pickle.loads(pickle.dumps(call))()
            done(k)
            yield pickle.loads(pickle.dumps(result))

    def n_threads(self):
        return 2


def parted(values: np.ndarray, places: list[int]) -> PartedRows:
    bounds = bounds_on_grid(np.array([0, *sorted(places), len(values)]), BLOCK_ROWS)
    return PartedRows(ArrayRows(values), Parts(bounds, BLOCK_ROWS, HereAndNow()))


places = st.lists(st.integers(0, 6000), max_size=5)


@settings(deadline=None, max_examples=4)
@given(places, places, st.integers(0, 99))
def test_it_does_not_matter_where_parts_begin(in_train, in_test, seed):
    stream = everything() if seed % 2 else drawn(seed=seed)
    cut = {"train": parted(stream.train.values, in_train)} | {
        name: parted(rows.values, in_test)
        for name in ("test", "telemetry_test")
        if (rows := getattr(stream, name)) is not None
    }
    options = {"intervals": False, "diagnosis": True}
    found = evaluate(stream.replace(**cut), **options)
    assert_equal_figures(found, evaluate(stream, **options))


def test_windows_are_cut_where_tables_are_divided():
    assert RUN_ROWS == GRID_ROWS


@settings(deadline=None, max_examples=30)
@given(inner_cuts(400), seeds)
def test_windows_are_put_together_from_pieces(places, seed):
    rng = np.random.default_rng(seed)
    whitened = rng.normal(size=(400, 2)) * 10.0 ** rng.integers(0, 6)
    labels = np.zeros(400, np.int8)
    for start, length in ((20, 1), (50, 7), (90, 150), (300, 40)):
        labels[start : start + length] = 1
    wanted = window_energies(whitened, labels)
    watch = WindowWatch(wanted.plan)
    parts = []
    for first, stop in pairwise([0, *places, 400]):
        collector = watch.begin(first, stop)
        collector.take(first, whitened[first:stop])
        parts.append(collector.ended())
    found = windows_of_parts(watch, 2, parts)
    for name in ("d_full", "d_ms", "means", "seconds"):
        one, other = getattr(found, name), getattr(wanted, name)
        np.testing.assert_allclose(one, other, EQUAL, EQUAL * np.abs(other).max())


@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_any_rows_between_two_are_read_from_files_of_any_size(data, tmp_path_factory):
    cuts = data.draw(st.lists(st.integers(0, 200), max_size=5).map(sorted))
    values = np.arange(400.0).reshape(200, 2)
    rows = parquet_rows(values, cuts, data.draw(st.integers(1, 90)), tmp_path_factory)
    first, stop = sorted(data.draw(st.tuples(*[st.integers(0, 200)] * 2)))
    part = rows.between(first, stop)
    assert part.n_rows == stop - first
    read = np.concatenate([values[:0], *part.chunks()])
    np.testing.assert_array_equal(read, values[first:stop])
    low, high = sorted(data.draw(st.tuples(*[st.integers(0, stop - first)] * 2)))
    again = np.concatenate([values[:0], *part.between(low, high).chunks()])
    np.testing.assert_array_equal(again, values[first:stop][low:high])
    if first < stop:
        assert part.where(0) == rows.where(first)


def parquet_rows(values, cuts, row_group_size, tmp_path_factory):
    from sightline.storage.parquet import open_rows

    folder = tmp_path_factory.mktemp("parts")
    edges = [0, *cuts, len(values)]
    files = []
    for k, (start, stop) in enumerate(pairwise(edges)):
        table = pa.table({"a": values[start:stop, 0], "b": values[start:stop, 1]})
        files.append(folder / f"part-{k}.parquet")
        pq.write_table(table, files[-1], row_group_size=row_group_size)
    return open_rows(files, ["a", "b"])


def test_wanted_rows_come_from_the_parts_that_have_them():
    values = np.random.default_rng(0).normal(size=(5000, 2))
    rows = parted(values, [1000, 3000])
    wanted = np.array([0, 1023, 1024, 3071, 3072, 4999])
    np.testing.assert_array_equal(gather_rows(rows, wanted), values[wanted])


def test_ticks_of_parts_add_up_to_all_rows():
    ticks: list[int] = []
    rows = parted(np.zeros((5000, 2)), [1000, 3000])
    list(map_parts(rows, first_row_of, tick=ticks.append))
    assert ticks == [1024, 2048, 1928]


def first_row_of(part):
    return part.first


def test_the_docs_say_how_small_a_part_may_be():
    text = (Path(__file__).parents[1] / "docs/scale.md").read_text(encoding="utf-8")
    assert f"at least {cluster_module.LEAST_ROWS:,} rows" in text
