"""A watch that is killed at any moment loses nothing and doubles nothing."""

import multiprocessing
import os
import shutil
import signal
import sys
import time
from multiprocessing import forkserver

import numpy as np
import pytest
from watched_plants import (
    BEGIN,
    STEP_S,
    _no_waiting,  # noqa: F401
    dump,
    killed_at,
    outputs,
    residuals,
    watched_without_waiting,
    write_pieces,
    write_rule_file,
)

from sightline.operation.watch import watch_folder

N_ROWS = 1200
ROWS = residuals(N_ROWS)
TIME = BEGIN + STEP_S * np.arange(N_ROWS)
CUTS = (150, 151, 700)
# Statements, files opened and renames of a run: the last ones write log, page and
# metrics, and some are beyond its end.
STEPS = (*range(3, 243, 40), *range(263, 9000, 450))


@pytest.fixture(scope="module")
def forked():
    """Return what starts a process that has loaded everything and read nothing."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["forked_watches"])
    with pytest.MonkeyPatch.context() as patch:
        # The server does not take over the path of this process.
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        forkserver.ensure_running()
    return context


@pytest.fixture
def plant(tmp_path):
    write_rule_file(tmp_path)
    write_pieces(tmp_path / "exports", TIME, ROWS, CUTS)
    whole = tmp_path / "whole"
    whole.mkdir()
    shutil.copy(tmp_path / "rule.json", whole)
    watch_folder(tmp_path / "rule.json", tmp_path / "exports", whole / "state.db")
    return tmp_path


def same(plant, folder):
    """Return whether a folder has all that a run without a kill leaves."""
    assert dump(folder / "state.db") == dump(plant / "whole" / "state.db")
    assert outputs(folder) == outputs(plant / "whole")
    left = {path.name for path in folder.iterdir()}
    return not any(name.endswith((".partial", "-journal")) for name in left)


def run(forked, plant, folder, n_steps):
    """Run a watch until its n-th step; return whether it was killed."""
    words = (plant / "rule.json", plant / "exports", folder / "state.db")
    process = forked.Process(target=killed_at, args=(n_steps, *words))
    process.start()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


def test_a_kill_at_each_step_leaves_what_the_next_run_puts_right(forked, plant):
    n_killed = 0
    for n_steps in STEPS:
        folder = plant / f"at{n_steps}"
        folder.mkdir()
        n_killed += run(forked, plant, folder, n_steps)
        watch_folder(plant / "rule.json", plant / "exports", folder / "state.db")
        assert same(plant, folder), n_steps
    assert 15 < n_killed < len(STEPS)


def test_kills_one_after_the_other_end_with_the_same(forked, plant):
    rng = np.random.default_rng(0)
    folder = plant / "often"
    folder.mkdir()
    n_killed = 0
    while run(forked, plant, folder, int(rng.integers(1100, 2200))):
        n_killed += 1
        assert n_killed < 30
    assert n_killed > 1
    assert same(plant, folder)


def test_kills_at_random_moments_end_with_the_same(forked, plant):
    rng = np.random.default_rng(1)
    folder = plant / "random"
    folder.mkdir()
    words = (plant / "rule.json", plant / "exports", folder / "state.db")
    n_killed = 0
    for _ in range(8):
        process = forked.Process(target=watched_without_waiting, args=words)
        process.start()
        time.sleep(float(rng.uniform(0.01, 0.4)))
        process.kill()
        process.join()
        n_killed += process.exitcode != 0
    watch_folder(*words)
    assert n_killed > 0
    assert same(plant, folder)


def test_two_at_once_are_one(forked, plant):
    folder = plant / "both"
    folder.mkdir()
    words = (plant / "rule.json", plant / "exports", folder / "state.db")
    both = [
        forked.Process(target=watched_without_waiting, args=words) for _ in range(2)
    ]
    for process in both:
        process.start()
    for process in both:
        process.join()
    assert 0 in [process.exitcode for process in both]
    assert same(plant, folder)
