"""The folder: same seed, same bytes; every table says what the simulation says."""

import csv
import json

import numpy as np
import polars as pl
import pytest

from sightline import open_testbed
from sightline.errors import FileError
from sightline.testbeds.twin.folder_writer import read_truth
from sightline.testbeds.waterworks import (
    Action,
    PlannedAttack,
    Scenario,
    read_scenario,
    simulate,
    write_simulation,
)
from sightline.testbeds.waterworks.plant import TAG_NAMES


@pytest.fixture(scope="module")
def folder(quick, tmp_path_factory):
    return write_simulation(quick, tmp_path_factory.mktemp("made") / "run")


def rows_of(path):
    with open(path, encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


def test_same_seed_same_bytes(tmp_path):
    folders = []
    for name in ("one", "other"):
        made = simulate(days_train=0.05, days_test=0.15, quick=True)
        folders.append(write_simulation(made, tmp_path / name))
    names = sorted(path.name for path in folders[0].iterdir())
    assert names == sorted(path.name for path in folders[1].iterdir())
    assert len(names) == 9
    for name in names:
        one, other = (folder / name for folder in folders)
        assert one.read_bytes() == other.read_bytes(), name


def test_values_are_those_of_the_recordings(folder, quick):
    for name, values in (
        ("train", quick.train.values),
        ("test", quick.test.values),
        ("true_values", quick.true_values),
    ):
        table = pl.read_parquet(folder / f"{name}.parquet")
        np.testing.assert_array_equal(table.select(TAG_NAMES).to_numpy(), values)
    test = pl.read_parquet(folder / "test.parquet")
    assert test.columns == ["time", *TAG_NAMES, "label"]
    assert test.schema["time"] == pl.Datetime("ms")
    assert test.schema["label"] == pl.Int8
    np.testing.assert_array_equal(test["label"].to_numpy(), quick.test.labels)
    seconds = test["time"].dt.epoch("ms").to_numpy() / 1000.0
    np.testing.assert_array_equal(seconds, quick.test.time)


def test_attacks_give_first_and_last_second_of_the_label(folder):
    test = pl.read_parquet(folder / "test.parquet", columns=["time", "label"])
    stamps = test["time"].dt.strftime("%Y-%m-%d %H:%M:%S").to_list()
    is_attack = np.zeros(len(test), bool)
    for row in rows_of(folder / "attacks.csv"):
        first, last = stamps.index(row["start"]), stamps.index(row["end"])
        is_attack[first : last + 1] = True
        assert set(row["tags"].split(";")) <= set(TAG_NAMES)
    np.testing.assert_array_equal(is_attack, test["label"].to_numpy() == 1)


def test_the_truth_on_disk_is_that_of_the_simulation(folder, quick):
    facts = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    for told, truth in zip(facts["attacks"], quick.truth, strict=True):
        assert told["moves"] == truth.moves
        assert told["blocked"] == truth.blocked
        assert tuple(told["moved"]) == truth.moved_tags
    rows = rows_of(folder / "truth.csv")
    assert len(rows) == sum(len(truth.moved_tags) for truth in quick.truth)


def test_the_opened_folder_knows_the_truth_and_the_labels(folder, quick):
    opened, simulated = open_testbed(folder), open_testbed("waterworks", quick=True)
    assert [known.id for known in opened.truth] == [a.id for a in quick.test.attacks]
    for read, known in zip(opened.truth, simulated.truth, strict=True):
        assert (read.tags, read.recovery_s) == (known.tags, known.recovery_s)
        assert read.largest == pytest.approx(known.largest, rel=1e-5)
        assert read.mean == pytest.approx(known.mean, rel=1e-5)
    np.testing.assert_array_equal(opened.test.labels, quick.test.labels)
    old = open_testbed("waterworks", quick=True, recovery_labels=False)
    assert -1 not in old.test.labels


@pytest.mark.parametrize("text", ["{", "[]", '{"testbed": "other", "attacks": []}'])
def test_a_file_of_that_name_that_is_not_ours_is_not_read(tmp_path, text):
    assert read_truth(tmp_path) == ()
    (tmp_path / "truth.json").write_text(text)
    assert read_truth(tmp_path) == ()


def test_the_scenario_on_disk_can_be_run_again(folder, quick):
    assert read_scenario(folder / "scenario.csv") == quick.scenario


def test_every_tag_has_a_row(folder):
    rows = rows_of(folder / "tags.csv")
    assert [row["tag"] for row in rows] == list(TAG_NAMES)
    assert all(row["unit"] for row in rows)


def test_there_is_a_picture(folder):
    assert (folder / "waterworks.png").read_bytes().startswith(b"\x89PNG")


def test_any_id_of_an_attack_can_be_drawn(tmp_path):
    # A formula that is none, characters that the font lacks; a warning is an error.
    ids = (r"$\frac$", "\x1b[2J\u202e", "\u6c34" * 300)
    action = Action(tag="LIT101", kind="bias", value=0.5)
    attacks = tuple(
        PlannedAttack(id=name, start_s=600 * (k + 1), duration_s=300, actions=(action,))
        for k, name in enumerate(ids)
    )
    made = simulate(days_train=0.02, days_test=0.05, scenario=Scenario(attacks=attacks))
    write_simulation(made, tmp_path / "run")


def test_a_folder_in_use_is_kept_unless_it_may_be_overwritten(folder, quick, tmp_path):
    before = (folder / "truth.csv").read_bytes()
    with pytest.raises(FileError, match="exists and is not changed"):
        write_simulation(quick, folder)
    assert write_simulation(quick, folder, overwrite=True) == folder
    assert (folder / "truth.csv").read_bytes() == before
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="is a file"):
        write_simulation(quick, tmp_path / "file")
