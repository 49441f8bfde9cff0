"""The commands run, study and demo, as a person types them."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from study_plans import CELL, diary
from typer.testing import CliRunner

from sightline.cli.app import app
from sightline.cli.study import board_table
from sightline.progress import Step, StepKind
from sightline.study.cell import Board, CellOutcome
from sightline.testbeds.waterworks import simulate, write_simulation

HERE = Path(__file__).parents[1]
pytestmark = pytest.mark.usefixtures("unrendered")
OWN = """
import numpy as np
from sightline import Residuals

class Mine:
    def fit(self, recording):
        self.mean = recording.values.mean(axis=0)
        return self

    def residuals(self, recording):
        return Residuals(
            values=recording.values - self.mean,
            index=np.arange(recording.n_steps),
            channels=recording.channels,
        )
"""


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def plant(tmp_path_factory):
    """A folder with one's own plant, and a detector of one's own beside it."""
    folder = tmp_path_factory.mktemp("home")
    write_simulation(simulate(days_train=0.1, days_test=0.1), folder / "my plant")
    (folder / "mymodels.py").write_text(OWN)
    return folder


def test_ones_own_plant_and_detector_from_one_command(plant, monkeypatch):
    monkeypatch.chdir(plant)
    told = invoke(
        *("run", "--testbed", "my plant", "--detectors", "mymodels:Mine,pca,geco"),
        *("--out", "study"),
    )
    assert told.exit_code == 0, told.output
    assert "ROC-AUC" in told.output
    assert "At a glance" in told.output
    assert "The report, for a browser: study/report.html" in told.output
    for name in (
        *("report.html", "methods.md", "findings.md", "tables/main.tex"),
        *("my-plant-Mine-seed0/evaluation.json", "streams/my-plant-pca-seed0.npz"),
        *("summary.csv", "comparison.json", "study.json"),
    ):
        assert (plant / "study" / name).is_file(), name
    # Again, and nothing is left to do.
    again = invoke(
        *("run", "--testbed", "my plant", "--detectors", "mymodels:Mine,pca,geco"),
        *("--out", "study"),
    )
    assert again.exit_code == 0
    assert again.stdout == told.stdout
    assert "my-plant-pca-seed0: done, took" in told.stderr
    assert "done, took" not in again.stderr
    compared = invoke("compare", "study")
    assert compared.exit_code == 0, compared.output


def test_a_plant_folder_alone_is_enough(plant, monkeypatch):
    monkeypatch.chdir(plant / "my plant")
    told = invoke("run", ".", "--out", plant / "alone", "--dry-run")
    assert told.exit_code == 0, told.output
    assert [line.split()[:2] for line in told.stdout.splitlines()[4:7]] == [
        ["my-plant", "var"],
        ["my-plant", "pca"],
        ["my-plant", "geco"],
    ]
    assert "need no torch" in told.stderr
    assert not (plant / "alone").exists()


@pytest.mark.usefixtures("quick_studies")
def test_the_plant_is_the_title_of_its_report(plant):
    told = invoke("run", plant / "my plant", "--detectors", "pca", "--out", plant / "t")
    assert told.exit_code == 0, told.output
    assert "need no torch" not in told.output
    # A single plant cannot have the tables that compare testbeds and seeds.
    assert "kipped" not in told.output
    assert json.loads((plant / "t/study.json").read_text())["title"] == "my plant"
    page = (plant / "t/report.html").read_text("utf-8")
    assert "<title>my plant" in page
    # What a plant's own record lists are incidents: no text of ours says attack.
    people_read = re.sub(r"<(script|style)\b.*?</\1>|<[^>]*>", " ", page, flags=re.S)
    attack = re.compile(r"(?<![\w.-])attacks?(?![\w-]|\.\w)", re.IGNORECASE)
    for text in (told.output, people_read):
        assert re.search(r"incidents caught", text, re.IGNORECASE)
        assert not (m := attack.search(text)), text[m.start() - 80 : m.end() + 80]


@pytest.mark.parametrize("words", [[], ["waterworks", "--testbed", "waterworks"]])
def test_a_run_has_one_testbed(words):
    told = invoke("run", *words)
    assert told.exit_code == 2
    assert "name one testbed or folder" in told.output


@pytest.mark.usefixtures("quick_studies")
def test_a_failure_is_told_and_ends_with_1(plant, tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text(
        f'[testbeds.mine]\ntestbed = "{plant}/my plant"\n'
        "[detectors.mean]\n[detectors.bad]\ndetector = 'mean'\nevery = 99999\n"
        "[evaluation]\nintervals = false\n"
    )
    told = invoke("study", plan, "--out", tmp_path / "out")
    assert told.exit_code == 1
    assert "mine-bad-seed0 failed: `every` is 99999 rows" in told.output
    assert "runs the failed cells again" in told.output
    assert (tmp_path / "out/mine-mean-seed0").is_dir()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--detectors", "gdnn"], "did you mean 'gdn'"),
        (["--detectors", ","], "--detectors names nothing"),
        (["--detectors", "pca,pca"], "'pca' is named twice"),
        (
            ["--detectors", "pca", "--seeds", "one"],
            "`seeds` must be different",
        ),
        (["--detectors", "pca", "--seeds", "1,1"], "different whole numbers"),
        (["--detectors", "pca", "--preset", "best"], "`preset` must be one of"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(tmp_path, words, told):
    result = invoke("run", "--testbed", "waterworks", *words, "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert told in result.output
    assert result.output.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_root_without_a_testbed_is_wrong_usage(tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text("[testbeds.swat]\n[detectors.pca]\n")
    assert invoke("study", plan, "--root", "/data").exit_code == 2


def test_a_stopped_study_says_how_to_go_on(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(HERE), prepend=os.pathsep)
    book = tmp_path / "diary"
    plan = tmp_path / "plan.toml"
    plan.write_text(
        "[testbeds.waterworks]\ndays_train = 0.1\ndays_test = 0.1\n"
        f"[detectors.slow]\ndetector = 'study_plans:Slow'\ndiary = '{book}'\n"
        "seconds = 3000\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "sightline", "study", plan, "--out", tmp_path / "out"],
        stderr=subprocess.PIPE,
    )
    until = time.monotonic() + 300
    while not diary(book):
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 130
    assert said.decode().endswith(
        "Stopped. The same command continues where it stopped.\n"
    )


def shown(board, height):
    from rich.console import Console

    screen = Console(width=100, height=height, force_terminal=False)
    with screen.capture() as caught:
        screen.print(board_table(board, height))
    return caught.get()


def test_the_live_table_shows_each_cell_and_the_time_left(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    cells = [type(CELL)(**{**vars(CELL), "seed": seed}) for seed in range(4)]
    board = Board(cells)
    board.update(cells[0], Step(StepKind.TRAINING, 0, 30, "GDN, epoch 1 of 30"))
    board.update(cells[1], Step(StepKind.SCORING, 0, 10, "test"))
    now[0] = 60
    board.update(cells[0], Step(StepKind.TRAINING, 6, 30, "GDN, epoch 7 of 30"))
    board.update(cells[1], CellOutcome(is_done=True))
    board.update(cells[2], CellOutcome(is_done=False, reason="no"))
    told = shown(board, 40)
    assert "Training GDN, epoch 7 of 30" in told
    assert "20%" in told
    assert "4 min" in told
    assert "took 60 s" in told
    assert "Waiting" in told
    assert "1 of 4 cells done, 1 running, 1 failed" in told


def test_of_very_many_cells_those_at_work_are_shown():
    cells = [type(CELL)(**{**vars(CELL), "seed": seed}) for seed in range(99)]
    board = Board(cells)
    board.update(cells[98], Step(StepKind.SCORING, 1, 10, "test"))
    told = shown(board, 20)
    assert "Scoring test" in told
    assert told.count("\n") <= 20
    assert "cells not shown" in told


@pytest.mark.parametrize(
    ("absent", "testbeds", "n_detectors", "said"),
    [
        (
            ("wntr",),
            ["waterworks"],
            7,
            "Left out, because wntr is not installed: network. To run it too: pip "
            "install 'sightline-cps[water]'.",
        ),
        (
            ("torch",),
            ["waterworks", "network"],
            3,
            "Left out, because torch is not installed: fusagnet, nsibf, gdn, tranad. "
            "To run them too: pip install 'sightline-cps[detectors]'.",
        ),
        (("wntr", "torch"), ["waterworks"], 3, "wntr is not installed: network."),
        ((), ["waterworks", "network"], 7, ""),
    ],
)
def test_the_demo_leaves_out_what_is_not_installed(
    monkeypatch, tmp_path, absent, testbeds, n_detectors, said
):
    from sightline.cli import study

    plans = []
    monkeypatch.setattr(study, "find_spec", lambda name: name not in absent or None)
    monkeypatch.setattr(study, "run_plan", lambda plan, *_, **__: plans.append(plan))
    result = invoke("demo", "--out", tmp_path / "demo")
    assert result.exit_code == 0, result.output
    assert [one.label for one in plans[0].testbeds] == testbeds
    assert len(plans[0].detectors) == n_detectors
    told = " ".join(result.output.split())
    assert said in told
    assert told.count("Left out") == len(absent)
