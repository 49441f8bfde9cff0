"""A small rule and the folders of exports that a watch reads; runs that are killed."""

import json
import os
import signal
import sqlite3
import sys
import time
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sightline import ResidualStream, commission, write_rule
from sightline.operation.watch import watch_folder
from sightline.operation.watch_state import WatchState

STEP_S = 60.0
CHANNELS = ("LIT101", "FIT101", "MV101", "LIT201")
BEGIN = 1_790_000_000.0
# Long ago: no file has arrived since.
LONG_AGO = 1_000_000_000
# So that no file seems to be written just now, and a watch does not miss new ones.
SOME_TIME_S = 600


def residuals(n_rows, seed=0, factor=1.0):
    """Return residuals with bursts, a shift that stands, and heavy tails."""
    rng = np.random.default_rng(seed)
    rows = factor * rng.standard_t(5, size=(n_rows, len(CHANNELS)))
    for at in range(300, n_rows, 700):
        rows[at : at + 6, rng.integers(len(CHANNELS))] += 25
    rows[n_rows // 2 : n_rows // 2 + 150, 2] += 9
    return rows


@cache
def made():
    """Return a commissioning on calm rows of the same plant."""
    rng = np.random.default_rng(5)
    stream = ResidualStream(
        rng.standard_t(5, size=(4000, 4)),
        rng.standard_t(5, size=(20_000, 4)),
        channels=CHANNELS,
        step_s=STEP_S,
        timezone="Europe/Berlin",
        meta={"groups": {"P1": CHANNELS[:3], "P2": CHANNELS[3:]}},
    )
    return commission(stream, budget="12/day,3%", choose="all")


def write_rule_file(folder):
    """Write the rule into a folder and return its path."""
    write_rule(made(), folder / "rule.json")
    return folder / "rule.json"


def write_export(path, times, rows, channels=CHANNELS):
    """Write a table with UTC time stamps, and let it look some minutes old."""
    stamps = pl.Series(np.round(times * 1000).astype(np.int64))
    columns = {name: rows[:, k] for k, name in enumerate(channels)}
    stamps = pl.from_epoch(stamps, "ms").dt.strftime("%Y-%m-%dT%H:%M:%S%.3fZ")
    pl.DataFrame({"time": stamps, **columns}).write_csv(path)
    some_time_ago = time.time() - SOME_TIME_S
    os.utime(path, (some_time_ago, some_time_ago))


def write_pieces(folder, times, rows, cuts, names=None):
    """Write a record in pieces; the names of files need not follow the time."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for k, (start, stop) in enumerate(pairwise([0, *cuts, len(times)])):
        if start < stop:
            name = f"part{k:03d}" if names is None else names[k]
            paths.append(folder / f"{name}.csv")
            write_export(paths[-1], times[start:stop], rows[start:stop])
    return paths


def dump(state, n_channels=4):
    """Return all that a state says of rows and alarms, to the last bit."""
    store = WatchState(state, n_channels)
    try:
        live, hours = store.live(), store.hours()
        return {
            "episodes": store.episodes(),
            "stretches": store.stretches(),
            "runs": store.runs().tolist(),
            "unwatched": store.unwatched(),
            "hours": (hours.hour.tolist(), hours.rows.tolist(), hours.sums.tobytes()),
            "alarm": live.alarm,
            "stretch": live.stretch,
            "waiting": live.waiting,
            "alarms": store.alarms(),
            "log": [unwritten(line) for line in store.lines()],
            "ledger": store.about().get("ledger"),
            "arrays": {name: array.tobytes() for name, array in live.arrays.items()},
            "read": sorted(
                (file.name, file.rows, file.fate) for file in store.files().values()
            ),
        }
    finally:
        store.close()


def unwritten(line):
    """Return a line of the log without when it was written."""
    return {k: v for k, v in json.loads(line).items() if k != "written"}


def log_of(folder):
    """Return the lines of the log of a folder, without when they were written."""
    path = Path(folder, "alarms.jsonl")
    return [unwritten(line) for line in path.read_text().splitlines()]


def outputs(folder):
    """Return the bytes of page, metrics and table, and the lines of the log."""
    names = ("week.html", "sightline.prom", "alarms.csv")
    return {
        **{name: Path(folder, name).read_bytes() for name in names},
        "log": log_of(folder),
    }


def killed_at(n_events, rule, folder, state):
    """Run a watch that is killed before its n-th step: statement, open or rename."""
    left = [n_events]

    def step(*_):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def audit(event, values):
        is_write = (
            event == "open" and isinstance(values[1], str) and "r" != values[1][0]
        )
        if event == "os.rename" or is_write:
            step()

    sqlite3.connect = connecting(step)
    os.fsync = lambda handle: None
    sys.addaudithook(audit)
    watch_folder(rule, folder, state)


def watched_without_waiting(rule, folder, state):
    """Run a watch in a process of its own that does not wait for the disk."""
    killed_at(0, rule, folder, state)


def connecting(step=None, connect=sqlite3.connect):
    """Return what opens a database that does not wait for the disk.

    A killed process loses nothing by it; only a machine without power would.
    """

    def connected(*words, **options):
        database = connect(*words, **options)
        database.execute("PRAGMA synchronous = OFF")
        database.set_trace_callback(step)
        return database

    return connected


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    """Do not wait for the disk: the law of a watch is not about power cuts."""
    monkeypatch.setattr(sqlite3, "connect", connecting())
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def warm_up():
    """Load compiled loops, once for all processes that are forked from this one."""
    made().chosen.rule.run(np.zeros((3, len(CHANNELS))))
