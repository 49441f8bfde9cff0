"""Names from files: shown as they are, obeyed by nothing."""

import csv
import subprocess
import sys

import numpy as np
import pytest
from samples import full_stream

from sightline import Attack, StreamError, evaluate, fit_reference, write_results
from sightline.cli.console import console
from sightline.tables.lists import list_rows
from sightline.text import MOST_LETTERS, csv_cell, from_csv_cell

FORMULAS = ["=1+1", "+x", "-x", "@SUM(A1)", "\tx", "\rx"]


@pytest.mark.parametrize("text", FORMULAS)
def test_no_cell_of_a_csv_file_begins_like_a_formula(tmp_path, text):
    attacks = [Attack(id=f"{text}!", start=10, stop=15, note=text)]
    write_results([evaluate(full_stream(segments=attacks), intervals=False)], tmp_path)
    with open(tmp_path / "sample" / "segments.csv", newline="") as file:
        rows = list(csv.reader(file))
    cells = [cell for row in rows for cell in row]
    assert f"'{text}!" in cells
    for cell in cells:
        if cell.startswith(("=", "+", "-", "@", "\t", "\r")):
            float(cell)


@pytest.mark.parametrize("text", [*FORMULAS[:4], "LIT101", "'quoted'", "-1.5"])
def test_a_cell_is_read_back_as_it_was(tmp_path, text):
    assert from_csv_cell(str(csv_cell(text))) == text
    with open(tmp_path / "tags.csv", "w", newline="") as file:
        csv.writer(file).writerows([["tag"], [csv_cell(text)]])
    (row,) = list_rows(tmp_path / "tags.csv", ["tag"]).values()
    assert row["tag"] == text


@pytest.mark.parametrize("name", ["a\x1b[2Jb", "a\u202eb", "a\x9bb", "a\rb", "a\x07b"])
def test_a_name_does_not_control_the_terminal(capsys, name):
    console().print(name)
    printed = capsys.readouterr().out
    assert not set(printed) & set("\x1b\u202e\x9b\r\x07")
    assert "\\" in str(StreamError(f"There is no tag {name}."))


def test_a_message_has_bounded_length_and_keeps_both_ends():
    text = str(StreamError(f"There is no {'9' * 5000}: do this."))
    assert len(text) <= MOST_LETTERS
    assert text.startswith("There is no 999")
    assert text.endswith(": do this.")


@pytest.mark.parametrize("power", [-90, -78, -40, 0, 40, 70])
def test_shrinkage_does_not_depend_on_the_scale(power):
    rows = np.random.default_rng(1).normal(size=(40, 6)) @ np.diag([1, 2, 3, 4, 5, 6])
    expected = fit_reference(rows).shrinkage
    assert 0.01 < expected < 1
    scaled = rows * 2.0 ** round(power * np.log2(10))
    assert fit_reference(scaled).shrinkage == pytest.approx(expected, rel=1e-12)


def test_values_too_small_are_called_small():
    rows = np.random.default_rng(1).normal(size=(40, 6)) * 1e-150
    with pytest.raises(StreamError, match="so small that their powers are lost"):
        fit_reference(rows)


def run(arguments, **options):
    command = [sys.executable, "-m", "sightline", *arguments]
    return subprocess.run(command, text=True, stderr=subprocess.PIPE, **options)


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is of Linux")
def test_a_full_standard_output_is_one_sentence():
    with open("/dev/full", "w") as full:
        done = run(["detectors"], stdout=full, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
