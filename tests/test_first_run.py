"""The first evaluation after an installation: a second process compiles beside it."""

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sightline._kernels import beside

_COMPILE = [sys.executable, "-m", "sightline._kernels.later_loops"]
# Evaluates a stream in single and in double precision; prints by name how often each
# later loop came from the cache, and how often it was compiled here.
_EVALUATE = """
import json
import numpy as np
from sightline import ResidualStream, evaluate
from sightline._kernels.later_loops import later_loops

rng = np.random.default_rng(0)
train, test = rng.normal(size=(2, 4000, 4))
labels = np.zeros(4000, int)
for k in range(6):
    start = 400 + 600 * k
    labels[start : start + 40 + 10 * k] = 1
test[labels == 1, 0] += 4.0
for kind in (np.float32, np.float64):
    stream = ResidualStream(train.astype(kind), test.astype(kind), labels, step_s=300.0)
    evaluation = evaluate(stream)
assert evaluation.rules is not None
stats = {loop.__name__: loop.stats for loop, _ in later_loops()}
print(json.dumps({
    name: [sum(one.cache_hits.values()), sum(one.cache_misses.values())]
    for name, one in stats.items()
}))
"""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache of compiled loops."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(beside, "usual_jobs", lambda: 2)
    return tmp_path


def indexes(cache: Path) -> list[Path]:
    return list(cache.rglob("*.nbi"))


def test_the_second_process_compiles_loops_just_as_an_evaluation_calls_them(cache):
    assert not beside._are_compiled()
    with subprocess.Popen(_COMPILE, stdin=subprocess.PIPE) as process:
        assert process.wait() == 0
    assert beside._are_compiled()
    ran = subprocess.run(
        [sys.executable, "-c", _EVALUATE], check=True, stdout=subprocess.PIPE
    )
    counted = json.loads(ran.stdout)
    assert {name for name, (hits, _) in counted.items() if not hits} == set()
    assert {name for name, (_, misses) in counted.items() if misses} == set()


def test_loops_of_an_older_source_are_compiled_again(cache):
    module, loop = beside._LAST
    python = "".join(map(str, sys.version_info[:2]))
    index = cache / f"{module}.{loop}-1.py{python}.nbi"
    index.touch()
    assert beside._are_compiled()
    os.utime(index, (0, 0))
    assert not beside._are_compiled()
    source = Path(beside.__file__).with_name(f"{module}.py").read_bytes()
    index.write_bytes(b"stamp " + hashlib.sha256(source).digest())
    os.utime(index, (0, 0))
    assert beside._are_compiled()  # the same text, installed again
    index.rename(cache / f"{module}.{loop}-1.py27.nbi")
    assert not beside._are_compiled()


def test_modules_of_the_current_folder_are_not_run(
    cache, tmp_path_factory, monkeypatch
):
    folder = tmp_path_factory.mktemp("downloaded")
    marker = folder / "ran"
    for name in ("numba", "numpy", "sightline"):
        (folder / f"{name}.py").write_text(f"open({str(marker)!r}, 'w').close()")
    monkeypatch.chdir(folder)
    with beside.compiled_beside(2):
        until = time.monotonic() + 60
        while not indexes(cache) and time.monotonic() < until:
            time.sleep(0.05)
    assert indexes(cache)
    assert not marker.exists()


def test_a_process_whose_input_is_closed_ends_soon(cache):
    subprocess.run(_COMPILE, check=True, stdin=subprocess.DEVNULL)
    assert len(indexes(cache)) <= 1


def test_the_second_process_ends_with_the_block(cache, monkeypatch):
    started = []
    popen = subprocess.Popen

    def recorded(*args, **options):
        started.append(popen(*args, **options))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", recorded)
    with beside.compiled_beside(2):
        until = time.monotonic() + 60
        while not indexes(cache) and time.monotonic() < until:
            time.sleep(0.05)
    (process,) = started
    assert process.returncode is not None
    assert indexes(cache)
    with beside.compiled_beside(1):  # no core is free
        pass
    assert len(started) == 1


def test_a_process_that_cannot_be_started_is_not_missed(cache, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(cache / "missing"))
    with beside.compiled_beside(2):
        pass
    assert not indexes(cache)
