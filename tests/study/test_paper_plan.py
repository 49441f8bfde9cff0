"""The paper's grid, walked from end to end on made-up files of the exact formats."""

import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from testbed_files import (
    SECOND,
    drawn,
    fixture,
    hai_tags,
    put,
    rows_of,
    swat_csv,
    times_from,
    write_hai,
)
from typer.testing import CliRunner

from sightline.cli.app import app
from sightline.study.plan import read_plan
from sightline.study.run import run_study

PAPER = Path(__file__).parents[2] / "studies/paper.toml"
N_TRAIN, N_TEST = 700, 400
ATTACKED = [(100, 160), (250, 280)]


def moved(values):
    """Return readings of which two stand out under attack."""
    for start, stop in ATTACKED:
        values[start:stop, :2] += 3000
    return values


def write_swat(folder):
    for name, begin, n_rows, attacked in (
        ("SWaT_Dataset_Normal_v0.csv", datetime(2015, 12, 22, 16), N_TRAIN, []),
        ("SWaT_Dataset_Attack_v0.csv", datetime(2015, 12, 28, 10), N_TEST, ATTACKED),
    ):
        values = drawn(n_rows, 51, seed=n_rows)
        text = swat_csv(
            times_from(begin, n_rows), moved(values) if attacked else values, attacked
        )
        put(folder / name, text)


def write_wadi(folder):
    for name, n_rows, attacked in (
        ("wadi_A2_WADI_14days_new.csv", N_TRAIN, []),
        ("wadi_A2_WADI_attackdataLABLE.csv", N_TEST, ATTACKED),
    ):
        lines = fixture(name).decode().splitlines()
        columns = 2 if attacked else 1
        header = rows_of("\n".join(lines[:columns]).encode())[-1]
        values = drawn(n_rows, len(header) - 3 - bool(attacked), seed=n_rows)
        values = moved(values) if attacked else values
        begin = datetime(2017, 10, 9, 18) if attacked else datetime(2017, 9, 25, 18)
        marks = np.ones(n_rows, int)
        for start, stop in attacked:
            marks[start:stop] = -1
        for k, row in enumerate(values.tolist()):
            when: datetime = begin + SECOND * k
            cells = [str(k + 1), f"{when:%-m/%-d/%Y}", f"{when:%M:%S}.0"]
            cells += map(repr, row)
            if attacked:
                cells.append(str(marks[k]))
            lines.append(",".join(cells))
        whole = [*lines[:columns], *lines[-n_rows:]]
        put(folder / name.removeprefix("wadi_A2_"), "\n".join(whole) + "\n")


def write_hai_files(folder):
    tags = len(hai_tags("21.03"))
    values = {
        part: drawn(N_TRAIN if part.startswith("train") else N_TEST, tags, seed=k)
        for k, part in enumerate(
            ["train1", "train2", "train3", *(f"test{k}" for k in range(1, 6))]
        )
    }
    write_hai(
        folder,
        "21.03",
        values={
            part: moved(table) if part.startswith("test") else table
            for part, table in values.items()
        },
        attacked={f"test{k}": ATTACKED for k in range(1, 6)},
    )


@pytest.fixture(scope="module")
def roots(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made-up")
    write_swat(folder / "swat")
    write_wadi(folder / "wadi")
    write_hai_files(folder / "hai")
    return {name: folder / name for name in ("swat", "wadi", "hai")}


def shortened(roots):
    """Return the paper's plan for files that are much too short for it."""
    plan = read_plan(PAPER, roots=roots)
    quick = {
        "gdn": {"epochs": 1, "every": 2, "trim_s": 0.0},
        "fusagnet": {"epochs": 1, "every": 2, "trim_s": 0.0},
        "tranad": {"epochs": 1, "every": 2},
        "nsibf": {"epochs": 1, "every": 2, "batch_size": 256},
        "geco": {"max_inputs": 1, "trim_s": 60.0, "reference_trim_s": 120.0},
    }
    return replace(
        plan,
        seeds=(0,),
        testbeds=tuple(
            replace(t, options={**t.options, "strict": False}) for t in plan.testbeds
        ),
        detectors=tuple(
            replace(d, settings={**d.settings, **quick[d.label]})
            for d in plan.detectors
        ),
        evaluation=replace(plan.evaluation, intervals=False),
    )


@pytest.mark.slow
def test_the_papers_grid_comes_out_beside_the_papers_figures(tmp_path, roots):
    study = run_study(shortened(roots), tmp_path / "out")
    assert study.failed == {}
    assert len(study.done) == 15
    beside = (tmp_path / "out/tables/main_beside_paper.md").read_text()
    assert "(protocol paper)" in beside
    methods = (tmp_path / "out/methods.md").read_text()
    assert "Protocol `paper`, to the letter of the paper" in methods
    # GeCo's ROC-AUC on SWaT, TranAD's on HAI and NSIBF's on WADI, as published.
    for figure in ("0.877", "0.917", "0.796"):
        assert figure in beside
    table = (tmp_path / "out/tables/cross_testbed_ranking.csv").read_text()
    assert table.count("\n") == 10


def test_files_that_are_not_there_are_asked_for():
    told = CliRunner().invoke(app, ["study", str(PAPER), "--dry-run"])
    assert told.exit_code == 1
    assert "--root" in told.output


def test_a_dry_run_lists_every_cell_and_trains_nothing(tmp_path, roots):
    plan = tmp_path / "plan.toml"
    text = PAPER.read_text().replace(".swat]", ".swat]\nstrict = false")
    text = text.replace(".wadi]", ".wadi]\nstrict = false")
    plan.write_text(text.replace(".hai]", ".hai]\nstrict = false"))
    given = [f"--root={name}={root}" for name, root in roots.items()]
    out = tmp_path / "out"
    told = CliRunner().invoke(
        app, ["study", str(plan), "--dry-run", f"--out={out}", *given]
    )
    assert told.exit_code == 0, told.output
    assert told.output.count("nsibf") == 9
    assert not out.exists()


def test_the_plan_is_explained_without_data_torch_or_user_code(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    plan = tmp_path / "plan.toml"
    plan.write_text(
        PAPER.read_text() + "\n[detectors.mine]\ndetector = 'nowhere.at_all:Mine'\n"
    )
    told = CliRunner().invoke(app, ["study", str(plan), "--explain"])
    assert told.exit_code == 0, told.output
    text = " ".join(told.output.split())
    assert "protocol paper; seeds 0, 1, 2" in text
    assert "SWaT v0, a row every 1 s as measured" in text
    assert "nowhere.at_all:Mine is user code and was not imported" in text
    for words in (
        "trim_s = 0.0 (paper)",
        "trim_s = 21600.0 (authors)",
        "every = 10 (ours)",
        "preset = 'official' (paper)",
        "test until 2017-10-10 15:48:24",
        "a residual every 120 s",
        "train without its first 1800 s; reference without the first 21600 s",
        "the median of 10 measured rows",
    ):
        assert words in text, words


def test_another_protocol_explains_other_settings():
    told = CliRunner().invoke(
        app, ["study", str(PAPER), "--explain", "--protocol", "sightline"]
    )
    assert "(paper)" not in told.output
    assert "protocol sightline" in told.output
    assert "a residual every 60 s" in " ".join(told.output.split())
