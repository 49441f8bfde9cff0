"""Small valid files of every kind that Sightline reads, and the commands that do."""

import csv
import gzip
import hashlib
import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

import numpy as np
import polars as pl
from fuzz.plant_files import NETWORK, write_testbeds
from samples import full_stream, states_of, write_states
from study_plans import quick_studies
from typer.testing import CliRunner

from sightline import (
    evaluate,
    export_stream,
    make_detector,
    open_testbed,
    write_results,
    write_stream,
)
from sightline.blindspots.files import FoundSoFar
from sightline.cli.app import app
from sightline.rules.file import _digest

# Detectors whose files are damaged; networks only where torch is installed.
TRAINED = ("gdn", "tranad", "nsibf", "fusagnet") if find_spec("torch") else ()
SAVED = ("pca", "var", "pair", "kalman", "pasad", "geco", "mean", *TRAINED)
TAGS = ("FIT101", "LIT101", "MV101", "P201")
SCENARIO = """\
id,start_s,duration_s,tag,kind,value,rate,note
A1,600,600,LIT101,bias,0.5,,a level
A2,1800,300,MV101,set,1,,a valve
"""
SCENARIO_TOML = """\
[[attack]]
id = "A1"
start_s = 600
duration_s = 600
note = "a level"
[[attack.action]]
tag = "LIT101"
kind = "bias"
value = 0.5
"""
PLAN = """\
title = "A plan"
seeds = [0, 1]
budget = "6/day,1%"
cell_timeout_s = 60
[testbeds.plant]
testbed = "plant"
[detectors.pca]
every = 2
[detectors.var]
[evaluation]
guard = 0
intervals = false
"""
WHAT_IF = """\
id,duration_s,tag,kind,value,rate,note
A1,300,LIT101,bias,0.5,,a level
A2,120,MV101,set,1,,a valve
A2,120,FIT101,ramp,9,0.01,with a flow
A3,600,LIT101,replay,300,,
"""
SHAPES = """\
seconds,saw,pulse
0,0,1
60,1,0
120,0,1
"""
PLANT = """\
step_s = 60
hold_s = 300
timezone = "Europe/Berlin"
missing_values = [-9999]
[columns]
time = "time"
"""


@dataclass(frozen=True)
class Kind:
    """A kind of input: the files that are damaged, and the commands that read them.

    Parameters
    ----------
    name : str
        What it is.
    damaged : tuple of str
        Files that a case may damage, below the folder of the corpus; or patterns.
    commands : tuple of tuple of str
        One of them is run, in a copy of the folder; OUT is a folder to write to.
    mend : callable, optional
        Called with the folder after the damage, so that what merely guards a file (a
        digest) does not hide its content.
    weight : float
        How often it is drawn; less for commands that take seconds.
    needs : tuple of str
        Files and folders that a command reads without naming them.
    """

    name: str
    damaged: tuple[str, ...]
    commands: tuple[tuple[str, ...], ...]
    mend: Callable[[Path], None] | None = None
    weight: float = 1.0
    needs: tuple[str, ...] = ()

    def read_by(self, command: tuple[str, ...]) -> set[str]:
        """Return the files and folders of the corpus that a command reads."""
        return {Path(token).parts[0] for token in (*command, *self.needs) if token}


def _rows(n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, len(TAGS)))
    values[:, 1] += np.cumsum(values[:, 0]) * 0.1
    values[:, 3] = (values[:, 3] > 0) * 1.0
    return np.round(values, 4)


def _table(path: Path, begin: datetime, rows: np.ndarray, labels=None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["time", *TAGS, *([] if labels is None else ["label"])])
        for k, row in enumerate(rows.tolist()):
            stamp = f"{begin + timedelta(minutes=k):%Y-%m-%d %H:%M:%S}"
            more = [] if labels is None else [int(labels[k])]
            writer.writerow([stamp, *row, *more])


def _plant(folder: Path) -> None:
    begin = datetime(2026, 3, 2)
    labels = np.zeros(400, int)
    labels[200:230] = 1
    _table(folder / "train.csv", begin, _rows(600, 1))
    _table(folder / "test.csv", begin + timedelta(days=1), _rows(400, 2), labels)
    (folder / "plant.toml").write_text(PLANT)
    (folder / "tags.csv").write_text(
        "tag,role,stage,unit\nFIT101,sensor,P1,m3/h\nLIT101,sensor,P1,m\n"
        "MV101,actuator,P1,\nP201,actuator,P2,\n"
    )
    (folder / "incidents.csv").write_text(
        "id,start,end,tags,note\n"
        "I1,2026-03-03 03:20:00,2026-03-03 03:49:00,LIT101,a level\n"
    )


def run(arguments: str) -> None:
    result = CliRunner().invoke(app, arguments.split())
    assert result.exit_code in (0, 3), (arguments, result.output)


@quick_studies()
def build(folder: Path) -> None:
    """Write the corpus; nobody reads its figures for print."""
    stream = full_stream()
    write_stream(stream, folder / "stream.npz")
    write_stream(stream, folder / "parts")
    for split in ("train", "test"):
        write_states(folder / "ipal" / f"{split}.state", states_of(stream, split))
    (folder / "packed").mkdir()
    for split in ("train", "test"):
        states = (folder / "ipal" / f"{split}.state").read_bytes()
        (folder / "packed" / f"{split}.state.gz").write_bytes(gzip.compress(states))
    _plant(folder / "plant")
    begin = datetime(2026, 3, 2)
    labels = np.zeros(200, int)
    labels[80:95] = 1
    _table(folder / "a.csv", begin, _rows(300, 3))
    _table(folder / "b.csv", begin + timedelta(days=1), _rows(200, 4), labels)
    _table(folder / "c.csv", begin + timedelta(days=2), _rows(200, 5))
    pl.read_csv(folder / "a.csv").write_parquet(folder / "a.parquet")
    (folder / "a.csv.gz").write_bytes(gzip.compress((folder / "a.csv").read_bytes()))
    (folder / "attacks.csv").write_text(
        "id,start,end,tags,note\nX,2026-03-03 01:20:00,2026-03-03 01:34:00,LIT101,n\n"
    )
    (folder / "alarms.csv").write_text(
        "start,end,tag,text\n2026-03-03 01:21:00,2026-03-03 01:25:00,LIT101,high\n"
    )
    (folder / "score.csv").write_text(
        "\n".join(["score", *map(str, range(200))]) + "\n"
    )
    (folder / "scenario.csv").write_text(SCENARIO)
    (folder / "scenario.toml").write_text(SCENARIO_TOML)
    (folder / "plan.toml").write_text(PLAN)
    (folder / "network.inp").write_text(NETWORK)
    write_testbeds(folder)
    run(
        f"simulate waterworks --scenario {folder}/scenario.csv --days-train 0.02 "
        f"--days-test 0.04 --out {folder}/simulated"
    )
    _results(folder / "results", stream)
    run(f"card {folder}/results/sample --out {folder}/card.json.gz")
    _rules(folder)
    _excel(folder)
    _blind_spots(folder)
    _study(folder)


def _results(folder: Path, stream) -> None:
    other = stream.replace(name="other", detector="PCA")
    write_results([evaluate(stream), evaluate(other, intervals=False)], folder)


def _rules(folder: Path) -> None:
    """Write detectors, a rule for each, residual exports, and the state of a watch."""
    plant = open_testbed(folder / "plant", cache=False)
    for name in SAVED:
        place = folder / f"by_{name}"
        settings = {"epochs": 1} if name in TRAINED else {}
        detector = make_detector(name, **settings).fit(plant.train)
        detector.save(folder / f"{name}.npz")
        stream = export_stream(detector, plant.train, plant.test, testbed="Mine")
        write_stream(stream, folder / f"{name}_stream.npz")
        run(
            f"commission {folder}/{name}_stream.npz --out {place} --budget 24/day,9% "
            f"--detector {folder}/{name}.npz"
        )
    arrivals = folder / "arrivals"
    for k in range(2):
        path, rows = arrivals / f"day{k}.csv", _rows(300, 7 + k)
        # An alarm, and time that is not watched.
        rows[40:60, :2] += 40
        rows[150:260] = np.nan
        _table(path, datetime(2026, 3, 4 + k), rows)
        # Files that changed just now are left for the next run.
        os.utime(path, (1.77e9, 1.77e9))
    run(
        f"watch {folder}/by_pca --folder {arrivals} --state {folder}/watch/state.sqlite"
    )
    with closing(sqlite3.connect(folder / "watch" / "state.sqlite")) as state:
        tables = state.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        for (name,) in tables.fetchall():
            rows = state.execute(f"SELECT count(*) FROM {name}").fetchone()
            assert rows != (0,), f"{name} has no row that could be damaged"
    _table(arrivals / "day2.csv", datetime(2026, 3, 6), _rows(120, 9))


def _excel(folder: Path) -> None:
    """Write an export and a list of attacks as Excel files."""
    pl.read_csv(folder / "a.csv").write_excel(folder / "a.xlsx")
    pl.read_csv(folder / "attacks.csv").write_excel(folder / "attacks.xlsx")


def _blind_spots(folder: Path) -> None:
    """Write blind spots, what a killed search leaves, and the tables of a user."""
    (folder / "what_if.csv").write_text(WHAT_IF)
    (folder / "shapes.csv").write_text(SHAPES)
    stream = folder / "pca_stream.npz"
    run(
        f"blindspots {stream} --budget 24/day,9% --tags FIT101,LIT101 --places 12 "
        f"--shapes step,ramp,frozen --durations 1min,5min --out {folder}/blind "
        f"--what-if {folder}/what_if.csv --own-shapes {folder}/shapes.csv"
    )
    with patch.object(FoundSoFar, "clear"):
        run(f"blindspots {stream} {' '.join(SEARCH)} --out {folder}/killed")
    run(f"episodes {stream} --budget 24/day,9% --out {folder}/review.csv")
    text = (folder / "review.csv").read_text().replace("unknown", "incident", 1)
    (folder / "review.csv").write_text(text)


def _study(folder: Path) -> None:
    """Write a finished study."""
    run(f"run {folder}/plant --detectors mean,pca --out {folder}/study --workers 1")
    for name in ("figures", "tables"):
        shutil.rmtree(folder / "study" / name)
    # Copied for each case, and never read.
    for page in folder.glob("*/report.html"):
        page.unlink()


def agree(folder: Path) -> None:
    """Bring digests in line, so that damaged contents are reached behind them."""
    for path in folder.glob("by_*/rule.json"):
        # /dev/zero never ends.
        if path.is_symlink() or not path.is_file():
            continue
        try:
            values = json.loads(path.read_text("utf-8"))
            saved = values["origin"]["saved_detector"]
            detector = path.parent / saved["path"]
            if detector.is_symlink() or not detector.is_file():
                continue
            data = detector.read_bytes()
            saved["sha256"] = hashlib.sha256(data).hexdigest()
            content = {k: v for k, v in values.items() if k != "digest"}
            path.write_text(json.dumps(content | {"digest": _digest(content)}), "utf-8")
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            continue
        except RecursionError:  # arrays in arrays: the command is to say so
            continue


QUICK = ("--no-intervals", "--no-diagnosis", "--metrics", "none", "--no-report")
OUT = ("--out", "OUT")
TABLES = ("--train", "a.csv", "--test", "b.csv", "--label", "label", "--time", "time")
ONE = ("--workers", "1")
BUDGET = ("--budget", "24/day,9%")
SEARCH = (
    *(*BUDGET, "--tags", "LIT101", "--shapes", "step"),
    *("--durations", "1min", "--places", "12", "--rules", "energy,z"),
)
KINDS = (
    Kind(
        "stream.npz",
        ("stream.npz",),
        (("evaluate", "stream.npz", *QUICK, *OUT), ("lint", "stream.npz")),
    ),
    Kind(
        "whole evaluation",
        ("stream.npz",),
        (("evaluate", "stream.npz", *OUT),),
        weight=0.2,
    ),
    Kind(
        "stream of a rule",
        ("pca_stream.npz",),
        (("commission", "pca_stream.npz", *BUDGET, *OUT),),
        weight=0.4,
    ),
    Kind(
        "Parquet stream",
        ("parts/meta.json", "parts/train/part-0.parquet", "parts/test/part-0.parquet"),
        (("evaluate", "parts", *QUICK, *OUT),),
    ),
    Kind(
        "IPAL folder",
        ("ipal/train.state", "ipal/test.state"),
        (("evaluate", "ipal", *QUICK, *OUT),),
    ),
    Kind(
        "packed IPAL folder",
        ("packed/train.state.gz",),
        (("evaluate", "packed", *QUICK, *OUT),),
    ),
    Kind(
        "tables",
        ("a.csv", "b.csv"),
        (
            ("evaluate", *TABLES, *QUICK, *OUT),
            ("evaluate", *TABLES, "--time-format", "%d.%m.%Y %H:%M", *QUICK, *OUT),
        ),
    ),
    Kind(
        "lists beside tables",
        ("attacks.csv", "alarms.csv", "score.csv"),
        (
            (
                "evaluate",
                *TABLES[:6],
                "--time",
                "time",
                "--attacks",
                "attacks.csv",
                *QUICK,
                *OUT,
            ),
            ("evaluate", *TABLES, "--alarm-log", "alarms.csv", *QUICK, *OUT),
            ("evaluate", *TABLES, "--score", "score.csv", *QUICK, *OUT),
        ),
    ),
    Kind(
        "exports",
        ("a.csv", "c.csv"),
        (
            ("start", "a.csv", "c.csv", *OUT),
            ("start", "a.csv", *OUT, "--timezone", "UTC"),
        ),
    ),
    Kind(
        "other exports",
        ("a.parquet", "a.csv.gz"),
        (("start", "a.parquet", *OUT), ("start", "a.csv.gz", *OUT)),
    ),
    Kind(
        "Excel files",
        ("a.xlsx", "attacks.xlsx"),
        (
            ("start", "a.xlsx", *OUT),
            (
                *("evaluate", *TABLES[:4], "--time", "time", "--ignore", "label"),
                *("--attacks", "attacks.xlsx", *QUICK, *OUT),
            ),
        ),
    ),
    Kind(
        "plant folder",
        (
            "plant/plant.toml",
            "plant/tags.csv",
            "plant/incidents.csv",
            "plant/train.csv",
            "plant/test.csv",
        ),
        (("inspect", "plant", "--no-cache"),),
    ),
    Kind(
        "plan",
        ("plan.toml",),
        (
            ("study", "plan.toml", "--explain"),
            ("study", "plan.toml", "--dry-run", *OUT),
            ("lint", "plan.toml"),
        ),
        needs=("plant",),
    ),
    Kind(
        "scenario",
        ("scenario.csv", "scenario.toml"),
        tuple(
            (
                "simulate",
                "waterworks",
                "--scenario",
                name,
                "--days-train",
                "0.02",
                "--days-test",
                "0.04",
                *OUT,
            )
            for name in ("scenario.csv", "scenario.toml")
        ),
        weight=0.2,
    ),
    *(
        Kind(
            "EPANET network",
            ("network.inp",),
            (
                (
                    *("simulate", "network", "--network", "network.inp"),
                    *("--days-train", "0.02", "--days-test", "0.04", *OUT),
                ),
            ),
            weight=0.4,
        )
        for _ in range(find_spec("wntr") is not None)
    ),
    *(
        Kind(
            f"files of {name}",
            (f"{name}/*.csv", f"{name}/*/*.csv"),
            (("inspect", name, "--root", name, "--no-cache"),),
            weight=0.25,
        )
        for name in ("skab", "swat", "wadi", "hai", "batadal")
    ),
    Kind(
        "simulated plant",
        ("simulated/truth.json", "simulated/*.csv", "simulated/*.parquet"),
        (("inspect", "simulated", "--no-cache"),),
        weight=0.5,
    ),
    Kind(
        "results",
        ("results/sample/evaluation.json", "results/other/evaluation.json"),
        (
            ("report", "results", "--no-figures", "--out", "OUT/page.html"),
            ("report", "results", "--no-figures", "--redact", "--out", "OUT/page.html"),
            ("compare", "results"),
            ("compare", "results", "--out", "OUT/compared.json"),
            ("lint", "results"),
            ("card", "results/sample", "--out", "OUT/card.json.gz"),
        ),
    ),
    Kind(
        "card",
        ("card.json.gz",),
        (("verify", "card.json.gz"), ("verify", "card.json.gz", "stream.npz")),
        weight=0.4,
    ),
    Kind(
        "write-up",
        ("results/sample/evaluation.json", "results/sample/traces.npz"),
        (("compare", "results", "--write-up", "OUT"),),
        weight=0.2,
    ),
    Kind(
        "charts",
        ("results/sample/traces.npz", "results/other/traces.npz"),
        (
            ("report", "results", "--no-figures", "--out", "OUT/page.html"),
            ("report", "results", "--figures", "--out", "OUT/page.html"),
            ("compare", "results"),
            (
                "evaluate",
                "stream.npz",
                "--overwrite",
                "--no-intervals",
                "--no-diagnosis",
                "--metrics",
                "none",
                "--out",
                "results",
            ),
        ),
    ),
    *(
        Kind(
            f"detector {name}",
            (f"by_{name}/detector.npz",),
            (
                ("apply", f"by_{name}", "arrivals", *OUT),
                (
                    "commission",
                    f"{name}_stream.npz",
                    "--detector",
                    f"by_{name}/detector.npz",
                    *BUDGET,
                    *OUT,
                ),
            ),
            agree,
            weight=0.4 if name in TRAINED else 1.0,
        )
        for name in SAVED
    ),
    Kind(
        "rule",
        ("by_pca/rule.json", "by_var/rule.json"),
        (
            ("apply", "by_pca", "pca_stream.npz", *OUT),
            ("apply", "by_var", "arrivals", *OUT),
        ),
        agree,
    ),
    Kind(
        "arrivals",
        ("arrivals/day0.csv", "arrivals/day1.csv"),
        (("apply", "by_pca", "arrivals", *OUT),),
    ),
    Kind(
        "watch",
        ("watch/state.sqlite", "arrivals/day2.csv", "by_pca/rule.json"),
        (
            (
                "watch",
                "by_pca",
                "--folder",
                "arrivals",
                "--state",
                "watch/state.sqlite",
                *OUT,
            ),
            ("alarm", "list", "watch/state.sqlite"),
        ),
        agree,
    ),
    Kind(
        "blind spots",
        ("blind/blindspots/pca_stream/blindspots.json",),
        (
            ("report", "blind", "--no-figures", "--out", "OUT/page.html"),
            ("report", "blind", "--no-figures", "--redact", "--out", "OUT/page.html"),
            ("compare", "blind"),
            (
                "evaluate",
                "pca_stream.npz",
                "--overwrite",
                *QUICK[:-1],
                "--out",
                "blind",
            ),
        ),
    ),
    Kind(
        "a search that was killed",
        ("killed/blindspots/.pca_stream-found-so-far.jsonl",),
        (("blindspots", "pca_stream.npz", *SEARCH, "--out", "killed"),),
        weight=0.1,
    ),
    Kind(
        "tables of falsifications",
        ("what_if.csv", "shapes.csv"),
        (
            ("blindspots", "pca_stream.npz", *SEARCH, "--what-if", "what_if.csv", *OUT),
            (
                "blindspots",
                "pca_stream.npz",
                *SEARCH,
                "--own-shapes",
                "shapes.csv",
                *OUT,
            ),
        ),
        weight=0.5,
    ),
    Kind(
        "review list",
        ("review.csv",),
        (
            (
                *("episodes", "pca_stream.npz", *BUDGET),
                *("--out", "review.csv"),
            ),
            (
                *("evaluate", "pca_stream.npz", "--attacks", "review.csv"),
                *(*QUICK, *OUT),
            ),
        ),
    ),
    Kind(
        "study",
        (
            "study/study.json",
            "study/comparison.json",
            "study/streams/*pca*.npz",
            "study/detectors/*pca*.npz",
            "study/cache/testbeds/*/*",
        ),
        (
            ("compare", "study"),
            ("report", "study", "--no-figures", "--out", "OUT/page.html"),
            ("lint", "study"),
            ("blindspots", "study", "--detector", "pca", *SEARCH, *OUT),
        ),
        weight=0.5,
    ),
    Kind(
        "a study that goes on",
        (
            "study/study.json",
            "study/cache/cells/*/*",
            "study/cache/testbeds/*/*",
            "study/cache/evaluations/*/*/*",
        ),
        (("run", "plant", "--detectors", "mean,pca", "--out", "study", *ONE),),
        weight=0.1,
    ),
)
