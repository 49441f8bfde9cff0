"""BATADAL: hourly readings of a simulated network, with all labels or some."""

import numpy as np
import pytest
from testbed_files import (
    BATADAL_BEGINS,
    BATADAL_TAGS,
    DATA,
    assert_exact,
    column_of,
    needs_batadal,
    put,
    refused,
    rows_of,
    seconds,
    table_of,
    write_batadal,
)

import sightline
from sightline.data.segments import segments_of
from sightline.errors import StreamError
from sightline.progress import StepKind

HERE = DATA / "batadal"
PARTLY = "original_partial_labels_dataset04.csv"


def opened(root, **options):
    options = {"cache": False} | options
    return sightline.open_testbed("batadal", root, **options)


def test_made_up_files_read_exactly(tmp_path):
    read = opened(write_batadal(tmp_path, dataset04=[0, 1, 1, 0, 0]), strict=False)
    assert read.revision == "batadal-full"
    assert list(read.train.channels) == BATADAL_TAGS
    expected = [[float(f"{k}.{j:02}") for j in range(43)] for k in range(4)]
    assert_exact(read.train.values, np.array(expected))
    assert read.train.time[0] == seconds("2014-01-06 00:00:00")
    assert read.test.time[0] == seconds("2016-07-04 00:00:00")
    assert read.test.time[5] == seconds("2017-01-04 00:00:00")
    assert read.test.labels.tolist() == [0, 1, 1, 0, 0, 0, 0, 0]
    assert read.test.breaks.tolist() == [0, 5]
    assert read.train.step_s == read.test.step_s == 3600.0


def test_tags_have_roles_and_units(tmp_path):
    tags = {
        tag.name: tag
        for tag in opened(write_batadal(tmp_path), strict=False).train.tags
    }
    assert [tag.role for tag in tags.values()].count("actuator") == 12
    units = {name: tags[name].unit for name in ("L_T1", "F_PU1", "P_J14", "S_V2")}
    assert units == {"L_T1": "m", "F_PU1": "l/s", "P_J14": "m", "S_V2": None}


def test_rows_marked_unknown_are_ignored_and_told(tmp_path):
    write_batadal(tmp_path, dataset04=[-999, -999, 1, 1, -999])
    read = opened(tmp_path, strict=False)
    assert read.release == "competition"
    assert read.test.labels.tolist() == [-1, -1, 1, 1, -1, 0, 0, 0]
    assert any("3 rows" in text and "-999" in text for text in read.notices)


def test_a_flag_that_is_none_is_refused(tmp_path):
    path = write_batadal(tmp_path, dataset04=[0, 0, 3, 0, 0]) / "dataset04.csv"
    with refused(str(path), "ATT_FLAG", "data row 3 is 3", "copy it again"):
        opened(tmp_path, strict=False)


@pytest.mark.parametrize("name", BATADAL_BEGINS)
def test_a_file_cut_in_the_middle_of_a_row_is_refused(tmp_path, name):
    path = write_batadal(tmp_path) / name
    path.write_bytes(path.read_bytes()[:-60])
    with refused(str(path), "copy it again"):
        opened(tmp_path, strict=False)


def test_a_missing_part_is_named(tmp_path):
    (write_batadal(tmp_path) / "test_dataset.csv").unlink()
    with refused(str(tmp_path), "dataset03.csv", "test_dataset", "batadal.net"):
        opened(tmp_path, strict=False)


def test_a_first_row_that_is_damaged_is_refused(tmp_path):
    path = write_batadal(tmp_path, dataset04=["x", 0, 0, 0, 0]) / "dataset04.csv"
    with refused(str(path)):
        opened(tmp_path, strict=False)


def test_short_files_are_refused(tmp_path):
    path = write_batadal(tmp_path) / "dataset03.csv"
    with refused(str(path), "4 rows", "8,761"):
        opened(tmp_path)


def test_there_are_no_adjusted_times(tmp_path):
    with refused("BATADAL", "adjusted", "labels='built-in'"):
        opened(write_batadal(tmp_path), strict=False, labels="adjusted")


# ---- decimals of train ---------------------------------------------------------------


def more_decimals(folder):
    """Write files of which train alone has six decimals."""
    path = write_batadal(folder) / "dataset03.csv"
    header, *rows = path.read_text().splitlines()
    cells = [row.split(",") for row in rows]
    longer = [[c[0], *(f"{cell}1234" for cell in c[1:-1]), c[-1]] for c in cells]
    put(path, "\n".join([header, *map(",".join, longer)]) + "\n")
    return folder


@pytest.mark.parametrize("cache", [False, True])
def test_train_is_rounded_like_test_unless_it_is_asked_for_raw(tmp_path, cache):
    more_decimals(tmp_path)
    # Twice, because the copies hold train with all its decimals.
    for _ in range(2):
        raw = opened(tmp_path, strict=False, cache=cache, train_decimals="raw")
        read = opened(tmp_path, strict=False, cache=cache)
        steps = []
        asked = opened(
            tmp_path,
            strict=False,
            cache=cache,
            train_decimals="as-test",
            progress=steps.append,
        )
        assert raw.train.values[1, 2] == 1.021234
        assert_exact(read.train.values, raw.train.values.round(2))
        assert_exact(asked.train.values, read.train.values)
        assert_exact(read.test.values, raw.test.values)
        told = [text for text in read.notices if "were rounded" in text]
        assert len(told) == 1
        assert "43 of 43 tags of train were rounded to the" in told[0]
        assert [s.detail for s in steps if s.kind is StepKind.NOTICE] == told
        assert not any("were rounded" in text for text in raw.notices)


def test_another_word_for_decimals_is_refused(tmp_path):
    with refused("train_decimals", "as-test or raw", "'two'", kind=StreamError):
        opened(write_batadal(tmp_path), strict=False, train_decimals="two")


@pytest.mark.parametrize("in_file", [None, "raw", "as-test"])
def test_your_own_plant_is_rounded_if_its_settings_or_an_option_ask(tmp_path, in_file):
    rows = "\n".join(f"{k},{k}.1234567" for k in range(9))
    put(tmp_path / "train.csv", f"time,LIT101\n{rows}\n")
    put(tmp_path / "test.csv", "time,LIT101\n1,1.5\n2,2.25\n3,3.75\n")
    if in_file:
        put(tmp_path / "plant.toml", f'train_decimals = "{in_file}"\n')
    expected = {"raw": 1.1234567, "as-test": 1.12}
    for option in (None, "raw", "as-test"):
        read = sightline.open_testbed(tmp_path, train_decimals=option)
        asked = option or in_file or "raw"
        assert read.train.values[1, 0] == expected[asked]
        told = [text for text in read.notices if "rounded to the" in text]
        assert len(told) == (asked == "as-test")


# ---- the real files ----------------------------------------------------------------


@pytest.fixture(scope="module")
def full():
    return opened(HERE, train_decimals="raw")


@needs_batadal
def test_the_real_train_is_rounded_to_two_decimals(full):
    read = opened(HERE)
    assert_exact(read.train.values, full.train.values.round(2))
    assert_exact(read.test.values, full.test.values)
    (told,) = [text for text in read.notices if "were rounded" in text]
    assert "28 of 43 tags" in told
    assert "P_J280 (standard deviation 0.0064)" in told


@needs_batadal
def test_the_real_files_have_the_counts_of_the_release(full):
    assert full.release == "full"
    assert full.train.values.shape == (8_761, 43)
    assert full.test.values.shape == (4_177 + 2_089, 43)
    assert full.test.breaks.tolist() == [0, 4_177]
    assert full.train.breaks.tolist() == [0]
    assert full.test.step_s == 3600.0
    is_attack = full.test.labels == 1
    assert int(is_attack.sum()) == 899
    assert (int(is_attack[:4177].sum()), int(is_attack[4177:].sum())) == (492, 407)
    assert len(full.test.attacks) == len(segments_of(is_attack)) == 14


@needs_batadal
@pytest.mark.parametrize(("name", "at_least"), [("var", 0.93), ("pca", 0.88)])
def test_simple_detectors_see_the_attacks_if_train_is_rounded(full, name, at_least):
    """As `sightline run batadal` does by default; train as it is misleads VAR."""
    areas = []
    for testbed in (opened(HERE), full):
        detector = sightline.make_detector(name, testbed="batadal").fit(testbed.train)
        stream = sightline.export_stream(detector, testbed.train, testbed.test)
        measured = sightline.evaluate(stream, intervals=False, diagnosis=False)
        areas.append(measured.rank.roc_auc)
    rounded, raw = areas
    assert rounded >= at_least
    assert raw < 0.75


@needs_batadal
def test_the_real_files_read_exactly(full):
    def cells(name):
        rows = rows_of((HERE / name).read_bytes())[1:]
        time = np.array([seconds(row[0], "%d/%m/%y %H") for row in rows])
        return time, table_of(row[1:-1] for row in rows)

    time, values = cells("dataset03.csv")
    assert_exact(full.train.values, values)
    assert_exact(full.train.time, time)
    (t4, v4), (t5, v5) = cells("dataset04.csv"), cells("test_dataset.csv")
    assert_exact(full.test.values, np.concatenate([v4, v5]))
    assert_exact(full.test.time, np.concatenate([t4, t5]))


@needs_batadal
def test_labels_are_the_flags_of_the_files(full):
    flags = [
        int(float(cell))
        for name in ("dataset04.csv", "test_dataset.csv")
        for cell in column_of((HERE / name).read_bytes(), "ATT_FLAG")
    ]
    assert full.test.labels.tolist() == flags


@needs_batadal
def test_the_list_labels_the_same_rows(full):
    by_list = opened(HERE, labels="list")
    np.testing.assert_array_equal(by_list.test.labels, full.test.labels)


@needs_batadal
def test_the_competition_s_labels_are_partly_unknown():
    read = opened(HERE, release="competition")
    assert PARTLY in read.digests
    labels = read.test.labels
    assert int((labels[:4177] == 1).sum()) == 219
    assert int((labels == -1).sum()) == 3_958
    assert int((labels[4177:] == 1).sum()) == 407
    assert any("3,958" in text for text in read.notices)
    flags = [
        int(float(cell)) for cell in column_of((HERE / PARTLY).read_bytes(), "ATT_FLAG")
    ]
    expected = [-1 if flag == -999 else flag for flag in flags]
    assert labels[:4177].tolist() == expected


@needs_batadal
def test_blanks_around_numbers_do_not_matter(full):
    read = opened(HERE, release="competition")
    rows = rows_of((HERE / PARTLY).read_bytes())[1:]
    assert_exact(read.test.values[:4177], table_of(row[1:-1] for row in rows))


@needs_batadal
def test_attacks_have_targets_that_are_tags(full):
    names = set(full.test.channels)
    targets = {target for attack in full.test.attacks for target in attack.targets}
    assert targets
    assert targets <= names


@needs_batadal
def test_where_both_releases_are_there_full_is_read_and_told(full):
    assert any("release='competition'" in text for text in full.notices)
