"""`sightline cache`: what it lists, what it removes, and what it leaves."""

import re

import pytest
from testbed_files import ATTACK_V0, NORMAL_V0, place, put
from typer.testing import CliRunner

from sightline import open_testbed
from sightline.cli.app import app

FOLDER = ".sightline-cache"


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def said(result):
    """Return what was printed, words joined as a reader joins them."""
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return re.sub(r"\s+", " ", result.stdout)


@pytest.fixture
def root(tmp_path, monkeypatch):
    """Return a folder with a small SWaT whose copies were written."""
    # Long paths would be folded on a screen of 80 columns.
    monkeypatch.setenv("COLUMNS", "300")
    folder = tmp_path / "swat"
    place(folder, NORMAL_V0)
    place(folder, ATTACK_V0)
    open_testbed("swat", folder, strict=False)
    return folder


def test_without_copies_it_says_so(tmp_path):
    assert said(run("cache")) == "There are no copies. "
    assert said(run("cache", "--clear")) == "There are no copies to remove. "


@pytest.mark.parametrize("by_path", [False, True])
def test_it_lists_place_purpose_files_size_and_last_use(root, by_path):
    text = said(run("cache", *([root] if by_path else [])))
    assert re.search(
        rf"{root}/{FOLDER} +2 +7\.5 kB +20\d\d-\d\d-\d\d \d\d:\d\d +for {root} ", text
    )
    assert "7.5 kB in all" in text


def test_it_clears_and_says_what(root):
    put(root / FOLDER / "notes.txt", "mine")
    text = said(run("cache", "--clear"))
    assert text.startswith(f"{root / FOLDER}: removed 2 files (7.5 kB); left notes.txt")
    left = {path.name for path in (root / FOLDER).iterdir()}
    assert left == {"notes.txt", ".gitignore"}
    assert len(list(root.glob("*.csv"))) == 2
    (root / FOLDER / "notes.txt").unlink()
    said(run("cache", "--clear", root))
    assert not (root / FOLDER).exists()
    assert said(run("cache", "--clear")) == "There are no copies to remove. "


def test_only_the_named_folder_is_cleared(root, tmp_path):
    other = tmp_path / "other"
    place(other, NORMAL_V0)
    place(other, ATTACK_V0)
    open_testbed("swat", other, strict=False)
    said(run("cache", "--clear", other))
    assert not (other / FOLDER).exists()
    assert (root / FOLDER).is_dir()


@pytest.mark.parametrize("where", ["", "cache"])
def test_finished_cells_of_a_study_are_listed_and_never_removed(root, tmp_path, where):
    cell = put(tmp_path / "study" / "cache" / "cells" / "k" / "stream.npz", "x" * 2000)
    path = tmp_path / "study" / where
    text = said(run("cache", path))
    assert "2.0 kB" in text
    assert "finished cells of a study" in text
    text = said(run("cache", "--clear", path))
    assert "finished cells of a study" in text
    assert cell.exists()
    # Copies were not asked for.
    assert (root / FOLDER).is_dir()


def test_a_path_without_copies_is_refused_in_one_sentence(tmp_path):
    for arguments in ([tmp_path], ["--clear", tmp_path]):
        result = run("cache", *arguments)
        assert result.exit_code == 1
        assert re.fullmatch(
            rf"error: {tmp_path}: there are no Parquet copies here: [^\n]+\.\n",
            result.stderr,
        )


def test_run_announces_copies_and_no_cache_makes_none(tmp_path):
    root = tmp_path / "swat"
    place(root, NORMAL_V0)
    place(root, ATTACK_V0)
    arguments = ("run", "swat", "--root", root, "--detectors", "pca", "--dry-run")
    plan = put(
        tmp_path / "plan.toml",
        '[testbeds.swat]\nroot = "swat"\nstrict = false\n[detectors.pca]\n',
    )
    study = ("study", plan, "--dry-run")
    for command in (arguments, study):
        run(*command, "--no-cache")
        assert not (root / FOLDER).exists()
    result = run(*study)
    assert result.exit_code == 0
    assert result.stderr.startswith("Parquet copies of 2 files")
    assert "Parquet copies" not in run(*study).stderr
    assert "key" in result.stdout
    assert run(*study, "--no-cache").stdout == result.stdout
