"""The commands about testbeds: what they print, and how they exit."""

import re
from datetime import datetime
from importlib.util import find_spec

import polars as pl
import pytest
from testbed_files import (
    ATTACK_V0,
    DATA,
    NORMAL_V0,
    drawn,
    needs_batadal,
    place,
    put,
    swat_csv,
    times_from,
    write_hai,
)
from typer.testing import CliRunner

from sightline import list_testbeds
from sightline.cli.app import app
from sightline.testbeds import network, swat, tep, waterworks
from sightline.testbeds.base import Expected

ATTACK = "SWaT_Dataset_Attack_v0.csv"


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def assert_fits(text):
    assert max(map(len, text.splitlines())) <= 80, text
    assert "\N{HORIZONTAL ELLIPSIS}" not in text


def said(result, code):
    """Return what was printed, words joined as a reader joins them."""
    assert result.exit_code == code, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert re.fullmatch(r"(Parquet copies of [^\n]+\n)?", result.stderr)
    assert_fits(result.stdout)
    return re.sub(r"\s+", " ", result.stdout)


def refused(result, *words):
    """Exit code 1, one sentence on stderr with these words, nothing on stdout."""
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit), result.exception
    assert re.fullmatch(r"error: [^\n]+\n", result.stderr), result.stderr
    assert result.stdout == ""
    missing = [word for word in words if word not in result.stderr]
    assert not missing, result.stderr


@pytest.fixture
def right(tmp_path, monkeypatch):
    """Return a folder with a small SWaT of which everything is right."""
    normal = times_from(datetime(2015, 12, 22, 16), 100)
    attack = times_from(datetime(2015, 12, 28, 12), 300)
    root = tmp_path / "data"
    put(root / "SWaT_Dataset_Normal_v0.csv", swat_csv(normal, drawn(100, 51, 1)))
    put(root / ATTACK, swat_csv(attack, drawn(300, 51, 2), [(55, 251)]))
    expected = {
        "Normal_v0": Expected(rows=100, attack_rows=0, gaps=0),
        "Attack_v0": Expected(rows=300, attack_rows=196, attack_runs=1, gaps=0),
    }
    monkeypatch.setattr(swat, "_EXPECTED", expected)
    return root


# ---- testbeds ----------------------------------------------------------------------


def test_every_testbed_is_listed_with_where_to_get_it():
    text = said(run("testbeds"), 0)
    for card in list_testbeds():
        for word in (card.name, card.what, card.licence, card.where):
            assert word in text, word
    assert "--root" in text
    assert "20.07" in text


def test_the_list_says_what_was_found(tmp_path):
    place(tmp_path, NORMAL_V0)
    place(tmp_path, ATTACK_V0)
    write_hai(tmp_path / "hai", "22.04")
    text = said(run("testbeds", "--root", tmp_path), 0)
    assert re.findall(r"found (\S+)", text) == [
        "v0",
        "no",
        "22.04",
        "no",
        "no",
        "always",
        "always" if find_spec("tep_studio") else "pip",
        "always" if find_spec("wntr") else "pip",
    ]
    assert not (tmp_path / ".sightline-cache").exists()


def test_a_folder_to_look_in_must_be_there(tmp_path):
    refused(
        run("testbeds", "--root", tmp_path / "nowhere"), "nowhere", "no such folder"
    )


def test_a_damaged_excel_file_does_not_hide_what_else_is_there(tmp_path):
    write_hai(tmp_path / "hai", "22.04")
    put(tmp_path / "notes.xlsx", b"damaged")
    text = said(run("testbeds", "--root", tmp_path), 0)
    assert "found 22.04" in text


# ---- inspect -----------------------------------------------------------------------


def test_right_files_exit_with_0(right):
    text = said(run("inspect", "swat", "--root", right), 0)
    assert "Audit: SWaT v0" in text
    assert "The data are what they should be." in text
    assert "error" not in text
    assert ATTACK in text
    assert "06:30" in text
    assert (right / ".sightline-cache").is_dir()


def test_wrong_files_exit_with_1_and_say_what_is_wrong_first(right):
    path = right / ATTACK
    path.write_text(path.read_text().replace(",Attack\n", ",Normal\n"))
    text = said(run("inspect", "swat", "--root", right), 1)
    wanted = "SL211 error 1 attack has no labelled row: 6 (2015-12-28 12:00:55)."
    assert wanted in text
    assert "not what they should be: 4 errors above" in text
    assert text.rindex(" error ") < text.index(" note ") < text.index(" passed ")


def test_one_finding_is_told_in_the_singular(right, monkeypatch):
    monkeypatch.setitem(swat._EXPECTED, "Normal_v0", Expected(rows=101))
    text = said(run("inspect", "swat", "--root", right), 1)
    assert "1 error above" in text


def test_no_copy_is_kept_when_none_is_wanted(right):
    said(run("inspect", "swat", "--root", right, "--no-cache"), 0)
    assert not (right / ".sightline-cache").exists()


def test_long_names_fit_on_the_screen(right):
    deep = right / ("a rather long name of a folder " * 2) / "x"
    place(deep, ATTACK_V0, f"{'z' * 100}.csv")
    (right / ATTACK).unlink()
    said(run("inspect", "swat", "--root", right), 1)


def test_the_release_may_be_asked_for(tmp_path):
    for release in ("20.07", "22.04"):
        write_hai(tmp_path / release, release)
    text = said(run("inspect", "hai", "--root", tmp_path, "--release", "20.07"), 1)
    assert "Audit: HAI 20.07" in text
    text = said(run("inspect", "hai-20.07", "--root", tmp_path), 1)
    assert "Audit: HAI 20.07" in text
    assert "309,600" in text


@needs_batadal
def test_batadal_is_right_on_the_screen(tmp_path):
    for name in ("dataset03.csv", "dataset04.csv", "test_dataset.csv"):
        put(tmp_path / name, (DATA / "batadal" / name).read_bytes())
    for _ in range(2):
        text = said(run("inspect", "batadal", "--root", tmp_path), 0)
        assert "14 labelled runs (built-in) with 899 rows" in text
        assert "8,761" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("swot", "--root", "."), ("'swot'", "swat, wadi")),
        (("swat",), ("SWaT", "--root")),
        (("swat", "--root", "nowhere"), ("nowhere", "no such folder")),
        (("swat", "--root", ".", "--release", "v9"), ("'v9'", "v0 or v1")),
        (("swat", "--root", "."), ("Normal_v0", "ask iTrust")),
        (("waterworks",), ("sightline simulate waterworks",)),
        (("nowhere",), ("'nowhere'", "no folder")),
    ],
)
def test_what_cannot_be_inspected_is_told_in_one_sentence(
    tmp_path, monkeypatch, arguments, words
):
    monkeypatch.chdir(tmp_path)
    refused(run("inspect", *arguments), *words)


def test_a_damaged_file_is_told_in_one_sentence(right):
    path = right / ATTACK
    path.write_text(path.read_text()[:-100])
    refused(run("inspect", "swat", "--root", right), str(path), "copy it again")


def test_debug_shows_where_an_error_came_from(tmp_path):
    result = run("inspect", "swat", "--root", tmp_path, "--debug")
    assert result.exit_code == 1
    assert not isinstance(result.exception, SystemExit)


# ---- simulate ----------------------------------------------------------------------


def test_the_help_page_says_how_many_days_are_simulated():
    text = said(run("simulate", "--help"), 0)
    for days in zip(
        waterworks.USUAL_DAYS, tep.USUAL_DAYS, network.USUAL_DAYS, strict=True
    ):
        words = "(waterworks {:g}, tep {:g}, network {:g})".format(*days)
        assert words in " ".join(text.replace("\u2502", " ").split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("swat",), ("'swat'", "waterworks")),
        (
            ("waterworks", "--drift", "rust=mild"),
            ("drift has no option", "'rust'", "fouling"),
        ),
        (("waterworks", "--scenario", "nowhere.csv"), ("nowhere.csv",)),
    ],
)
def test_what_cannot_be_simulated_is_told_in_one_sentence(tmp_path, arguments, words):
    out = tmp_path / "out"
    refused(run("simulate", *arguments, "--out", out), *words)
    assert not out.exists()


def test_recovery_may_be_labelled_as_normal(tmp_path):
    options = ("--days-train", 0.1, "--days-test", 0.1)
    for flag, labels in (("", {-1, 0, 1}), ("--no-recovery-labels", {0, 1})):
        out = tmp_path / f"run{flag}"
        flags = (flag,) if flag else ()
        done = run("simulate", "waterworks", *options, *flags, "--out", out)
        assert done.exit_code == 0, done.output
        assert set(pl.read_parquet(out / "test.parquet")["label"]) == labels
