"""What `sightline` alone offers, and where the time of a command went."""

import pytest
from typer.testing import CliRunner

from sightline.cli.app import app, beginnings
from sightline.progress import TimeSpent


@pytest.mark.parametrize(
    ("files", "first"),
    [
        ([], "evaluate mine.npz --out result"),
        (["mine.npz"], "evaluate mine.npz --out result"),
        (["a b.npz", "x.csv"], "evaluate 'a b.npz' --out result"),
        (["export.CSV"], "start export.CSV"),
        (["a.csv", "b.csv"], "start *.csv"),
        (["2016.csv.gz"], "start 2016.csv.gz"),
        (["export.csv", "export/plant.toml"], "run export"),
        (["plant.toml", "train.parquet"], "run ."),
    ],
)
def test_three_lines_begin_with_what_lies_in_the_folder(tmp_path, files, first):
    for name in files:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"")
    lines = [command for command, _ in beginnings(tmp_path)]
    assert lines[0] == first
    assert [line.split()[0] for line in lines].count("demo") == 1
    assert len(lines) == 3


def test_sightline_alone_prints_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "export.csv").write_text("time,FIT101\n")
    result = CliRunner().invoke(app, [])
    assert result.exit_code == 0
    lines = [line for line in result.stdout.splitlines() if "  sightline " in line]
    assert lines[0].startswith("  sightline start export.csv ")


def test_a_folder_that_cannot_be_listed_offers_the_usual(tmp_path):
    assert len(beginnings(tmp_path / "missing")) == 3


def test_the_time_of_kinds_that_go_on_together_is_shared(monkeypatch):
    now = iter([0.0, 5.0, 25.0, 30.0])
    monkeypatch.setattr("sightline.progress.monotonic", lambda: next(now))
    clock = TimeSpent(_since=0.0)
    clock.begin()
    clock.at(["Reading"])
    clock.at(["Training", "Scoring"])
    clock.at()
    assert clock.seconds == {"the rest": 5.0, "Reading": 20.0, "Training": 2.5} | {
        "Scoring": 2.5
    }
    assert clock.line == (
        "Took 30 s: reading 67%, the rest 17%, training 8%, scoring 8%."
    )
    assert TimeSpent({"Reading": 1.0}).line == ""
