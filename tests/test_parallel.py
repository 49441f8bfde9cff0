"""Threads under control: order, errors, nesting, and one thread for each library."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from sightline import ResidualStream, StreamError, evaluate
from sightline.data.row_tables import GRID_ROWS, ArrayRows, map_parts
from sightline.parallel import (
    map_threads,
    n_jobs,
    one_thread_each,
    threads,
    usual_jobs,
)
from sightline.storage.results import write_results


def blas_threads():
    libraries = [one for one in threadpool_info() if one["user_api"] == "blas"]
    return {one["num_threads"] for one in libraries}


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_calls_return_in_order_and_each_is_made_once(jobs):
    made, reported = [], []

    def call(k):
        time.sleep(0.002 * (k % 3))
        made.append(k)
        return k * k

    with threads(jobs):
        values = map_threads([lambda k=k: call(k) for k in range(20)], reported.append)
    assert values == [k * k for k in range(20)]
    assert sorted(made) == list(range(20))
    assert reported == list(range(20))


@pytest.mark.parametrize("jobs", [1, 3])
def test_an_error_reaches_the_caller_and_ends_the_rest(jobs):
    made = []

    def fail():
        raise StreamError("no")

    calls = [fail, *(lambda k=k: made.append(time.sleep(0.01)) for k in range(500))]
    with threads(jobs), pytest.raises(StreamError, match="no"):
        map_threads(calls)
    assert len(made) < 500


def test_of_several_errors_the_first_in_order_is_raised():
    barrier = threading.Barrier(2, timeout=300)

    def fail(k):
        barrier.wait()
        time.sleep(0.05 * (1 - k))
        raise StreamError(f"call {k}")

    with threads(2), pytest.raises(StreamError, match="call 0"):
        map_threads([lambda k=k: fail(k) for k in range(2)])


def test_what_the_caller_is_told_may_end_the_calls():
    made = []

    def stop(k):
        raise KeyboardInterrupt

    calls = [lambda k=k: made.append(time.sleep(0.01)) for k in range(500)]
    with threads(2), pytest.raises(KeyboardInterrupt):
        map_threads(calls, stop)
    assert len(made) < 500


def test_calls_within_calls_come_to_an_end():
    def outer(k):
        return sum(map_threads([lambda j=j: 10 * k + j for j in range(4)]))

    with threads(2):
        values = map_threads([lambda k=k: outer(k) for k in range(8)])
    assert values == [40 * k + 6 for k in range(8)]


def test_two_threads_work_at_the_same_time():
    barrier = threading.Barrier(2, timeout=300)
    with threads(2):
        assert len(set(map_threads(2 * [barrier.wait]))) == 2


def test_settings_of_the_caller_hold_in_other_threads():
    def overflow():
        return np.float64(1e300) * np.float64(1e300)

    with threads(2), np.errstate(over="raise"):
        both = [lambda: _error_of(overflow)] * 2
        assert map_threads(both) == [FloatingPointError] * 2


def _error_of(call):
    try:
        call()
    except FloatingPointError as error:
        return type(error)
    return None


def test_outside_of_the_block_there_is_one_job_and_inside_the_outer_number_holds():
    assert n_jobs() == 1
    with threads(3):
        with threads(1):
            assert n_jobs() == 3
        assert n_jobs() == 3
    assert n_jobs() == 1


def test_jobs_below_one_are_refused():
    with pytest.raises(StreamError, match="at least 1; got 0"), threads(0):
        pass


def test_the_usual_number_is_bounded_by_the_environment(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert usual_jobs() == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    assert usual_jobs() == len(os.sched_getaffinity(0))


def test_the_limit_of_one_thread_ends_with_the_last_caller():
    import scipy.linalg.lapack  # noqa: F401
    from threadpoolctl import threadpool_limits

    with threadpool_limits(2, user_api="blas"):
        first, second = one_thread_each(), one_thread_each()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert blas_threads() == {1}
        second.__exit__(None, None, None)
        assert blas_threads() == {2}


def test_who_needs_scipy_limits_it_even_if_another_is_inside_without():
    import scipy.linalg.lapack  # noqa: F401
    from threadpoolctl import threadpool_limits

    with threadpool_limits(2, user_api="blas"):
        first, second = one_thread_each(with_scipy=False), one_thread_each()
        first.__enter__()
        with threadpool_limits(2, user_api="blas"):  # as a library loaded only now
            second.__enter__()
            assert blas_threads() == {1}
        first.__exit__(None, None, None)
        second.__exit__(None, None, None)
        assert blas_threads() == {2}


_FREED = """
import numpy as np
from sightline.parallel import return_freed_arrays

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20

return_freed_arrays()
# After it, freed arrays of up to this size would stay in the heap of a thread.
np.ones(3_900_000)
before, held, between = resident(), [], []
for _ in range(10):
    held.append(np.ones(2_000_000))
    between.append(np.ones(1_000))
del held
print(resident() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_freed_arrays_go_back_to_the_system():
    run = subprocess.run(
        [sys.executable, "-c", _FREED],
        env={k: v for k, v in os.environ.items() if not k.startswith("MALLOC_")},
        capture_output=True,
        check=True,
        text=True,
    )
    assert float(run.stdout) < 10


def test_a_part_begins_with_a_run_of_blocks():
    rows = ArrayRows(np.zeros((5 * GRID_ROWS + 7, 1)))
    with threads(2):
        parts = list(map_parts(rows, lambda part: (part.first, part.rows.n_rows)))
    assert len(parts) > 1
    assert sum(n for _, n in parts) == rows.n_rows
    assert all(first % GRID_ROWS == 0 for first, _ in parts)


_EVALUATE = """
import sys
import numpy as np
from sightline import ResidualStream, evaluate, write_results
p, n = 123, 70_000
rng = np.random.default_rng(5)
mixing = np.eye(p) + rng.normal(size=(p, p)) / p
train, test = (rng.normal(size=(n, p)) @ mixing for _ in range(2))
labels = np.zeros(n, int)
for k in range(5):
    labels[9000 + 12_000 * k : 9100 + 12_000 * k] = 1
test[labels == 1, 3] += 3
stream = ResidualStream(
    train, test, labels, step_s=10.0, name="wide",
    telemetry_train=train[:, :6], telemetry_test=test[:, :6],
)
jobs = int(sys.argv[2])
write_results([evaluate(stream, metrics="none", jobs=jobs)], sys.argv[1])
"""


@pytest.mark.slow
def test_bits_do_not_depend_on_jobs_or_threads_of_libraries(tmp_path):
    for name, blas, jobs in (("one", "1", "1"), ("four", "4", "3")):
        subprocess.run(
            [sys.executable, "-c", _EVALUATE, str(tmp_path / name), jobs],
            check=True,
            env=os.environ | {"OPENBLAS_NUM_THREADS": blas},
        )
    assert _files(tmp_path / "one") == _files(tmp_path / "four")


def test_results_do_not_depend_on_jobs(tmp_path):
    rng = np.random.default_rng(1)
    train, test = rng.normal(size=(70_000, 3)), rng.normal(size=(70_000, 3))
    labels = np.zeros(70_000, int)
    labels[30_000:30_060] = labels[50_000:50_020] = 1
    test[labels == 1, 0] += 3
    stream = ResidualStream(train, test, labels, step_s=10.0, name="few")
    for jobs in (1, 3):
        write_results([evaluate(stream, jobs=jobs)], tmp_path / str(jobs))
    assert _files(tmp_path / "1") == _files(tmp_path / "3")


def _files(folder: Path):
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".npz":
            with np.load(path) as arrays:
                found[path.name] = {k: arrays[k].tobytes() for k in arrays.files}
        elif path.is_file():
            found[path.name] = path.read_bytes()
    return found
