"""Every export of the corpus is read as stated, or refused with one sentence."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from export_corpus import CASES, FILES, HEADERS, NUMBERS, PLAIN, TIMES, Case

from sightline import SightlineError, files, open_testbed, read_tables
from sightline.tables.cells import NAMES
from sightline.tables.text_tables import read_table
from sightline.testbeds.own_plant.look import look_at

# Residuals have one column of time, and it does not go back.
NO_RESIDUALS = ("date and time in two columns", "a stamp twice", "comes twice, no zone")
# What a table says to `read_tables` too: no words, lists or settings of a plant.
SHARED = [
    case
    for case in (*FILES, *HEADERS, *NUMBERS, *TIMES)
    if case.values is not None
    and not (case.toml or case.tags or case.lists)
    and not case.name.endswith(NO_RESIDUALS)
]


def folder_of(case: Case, tmp_path):
    folder = tmp_path / "plant"
    folder.mkdir()
    train = case.test if case.train is None else case.train
    files = {f"train{case.file}": train, f"test{case.file}": case.test, **case.lists}
    if case.train is not None and case.file == ".csv.gz":
        files[f"train{case.file}"] = case.train
    files |= {
        n: t for n, t in (("plant.toml", case.toml), ("tags.csv", case.tags)) if t
    }
    for name, content in files.items():
        data = content if isinstance(content, bytes) else content.encode("utf-8")
        (folder / name).write_bytes(data)
    return folder


def test_the_corpus_is_large_and_every_trap_has_a_name():
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names) >= 60
    assert all(
        (case.refused == "") != (case.values is case.labels is None) for case in CASES
    )


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_an_export_is_read_as_stated_or_refused(case, tmp_path):
    folder = folder_of(case, tmp_path)
    if case.refused:
        with pytest.raises(SightlineError) as caught:
            open_testbed(folder)
        said = str(caught.value)
        assert case.refused in said
        assert said.startswith(str(folder))
        assert said.endswith((".", "?"))
        assert "\n" not in said
        return
    testbed = open_testbed(folder)
    assert testbed.test.channels == case.channels
    if case.values is not None:
        np.testing.assert_allclose(testbed.test.values, case.values, rtol=1e-12)
    if case.first is not None:
        assert testbed.test.time[0] == pytest.approx(case.first, abs=1e-3)
    if case.labels is not None:
        assert testbed.test.labels.tolist() == case.labels
    said = " ".join(testbed.notices)
    missing = [words for words in case.notices if words not in said]
    assert not missing, said


@pytest.mark.parametrize("case", SHARED, ids=[case.name for case in SHARED])
def test_two_tables_of_residuals_are_read_by_the_same_reader(case, tmp_path):
    folder = folder_of(case, tmp_path)
    path = folder / f"test{case.file}"
    columns = read_table(path).frame.columns
    time = next(name for name in columns if name.lower() in ("time", "timestamp"))
    others = [name for name in ("id", "TimestampUTC") if name in columns]
    said = " ".join(case.notices)
    if any(words in said for words in ("missing", "held", "own word", "is empty")):
        # A plant's cells may be missing; residuals must be complete.
        with pytest.raises(SightlineError, match="must hold numbers"):
            read_tables(path, path, time=time)
        return
    stream = read_tables(path, path, time=time, ignore=others)
    assert tuple(stream.channels) == case.channels
    np.testing.assert_allclose(stream.test.values, case.values, rtol=1e-6)
    if case.first is not None:
        assert stream.test_time[0] == pytest.approx(case.first, abs=1e-3)


def test_a_file_that_unpacks_to_more_than_the_limit_is_refused(tmp_path, monkeypatch):
    case = next(case for case in CASES if case.name == "packed by gzip")
    monkeypatch.setattr(files, "MOST_UNPACKED", len(PLAIN) - 1)
    with pytest.raises(SightlineError, match=r"unpacks to more than .* the limit"):
        open_testbed(folder_of(case, tmp_path))


FORMS = list(
    itertools.product(
        (",", ";", "\t", "|"), ("utf-8", "utf-16", "cp1252"), ("\n", "\r\n", "\r")
    )
)


@pytest.mark.parametrize(("separator", "encoding", "end"), FORMS)
def test_separator_encoding_and_line_ends_do_not_matter(
    separator, encoding, end, tmp_path
):
    text = PLAIN.replace(",", separator).replace("A", "Füll").replace("\n", end)
    case = Case(name="", test=text.encode(encoding))
    testbed = open_testbed(folder_of(case, tmp_path))
    assert testbed.test.channels == ("Füll", "B")
    assert testbed.test.values.tolist() == [[1, 10], [2, 20], [3, 30]]


def test_the_page_lists_every_name_of_a_column():
    page = (Path(__file__).parents[2] / "docs" / "own-plant.md").read_text("utf-8")
    rows = dict(
        re.findall(
            r"^\| (\w+) \| (`time`.*|`tag`.*|`value`.*|`opc.*|`label`.*) \|$",
            page,
            re.M,
        )
    )
    found = {role: tuple(re.findall(r"`(\w+)`", text)) for role, text in rows.items()}
    assert found == dict(NAMES)


STARTED = [
    case
    for case in CASES
    if not (case.toml or case.tags or case.lists)
    and case.train is None
    # `start` leaves it to the reader of the folder to refuse what a tag holds.
    and "no number at all" not in case.refused
]


@pytest.mark.parametrize("case", STARTED, ids=[case.name for case in STARTED])
def test_start_understands_an_export_as_the_folder_does(case, tmp_path):
    path = folder_of(case, tmp_path) / f"test{case.file}"
    if case.refused:
        with pytest.raises(SightlineError, match=re.escape(case.refused)):
            look_at(path)
        return
    export = look_at(path)
    assert sorted(tag.name for tag in export.tags) == sorted(case.channels)
    if case.first is not None:
        assert export.seconds.min() == pytest.approx(case.first, abs=1e-3)
