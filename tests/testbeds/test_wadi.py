"""WADI: two releases with two kinds of header, one of them without hours."""

import csv
import re
from importlib.resources import files

import numpy as np
import pytest
from testbed_files import (
    WADI_EMPTY,
    assert_exact,
    fixture,
    made_part,
    parsed,
    place,
    put,
    recognised,
    refused,
    rows_of,
    seconds,
    table_of,
)

import sightline
from sightline.data.segments import segments_of
from sightline.testbeds.wadi import Wadi

A1_NORMAL, A1_ATTACK = "wadi_A1_WADI_14days.csv", "wadi_A1_WADI_attackdata.csv"
A2_NORMAL = "wadi_A2_WADI_14days_new.csv"
A2_ATTACK = "wadi_A2_WADI_attackdataLABLE.csv"
PARTS = {
    A1_NORMAL: "A1 normal",
    A1_ATTACK: "A1 attack",
    A2_NORMAL: "A2 normal",
    A2_ATTACK: "A2 attack",
}
FILES = {name: name.split("_", 2)[2] for name in PARTS}
# Constant while nothing is wrong: attacks on some of them, so they are kept.
STILL = """
1_LS_001_AL 1_LS_002_AL 1_MV_002_STATUS 1_MV_003_STATUS 1_P_002_STATUS 1_P_004_STATUS
1_P_006_STATUS 2_MCV_007_CO 2_MV_001_STATUS 2_MV_002_STATUS 2_MV_004_STATUS
2_MV_005_STATUS 2_MV_009_STATUS 2_P_004_STATUS 2_PIC_003_SP 2_SV_101_STATUS
2_SV_201_STATUS 2_SV_301_STATUS 2_SV_401_STATUS 2_SV_501_STATUS 2_SV_601_STATUS
3_LS_001_AL 3_MV_001_STATUS 3_MV_002_STATUS 3_MV_003_STATUS 3_P_001_STATUS
3_P_002_STATUS 3_P_003_STATUS 3_P_004_STATUS PLANT_START_STOP_LOG
""".split()


def opened(root, **options):
    options = {"strict": False, "cache": False} | options
    return sightline.open_testbed("wadi", root, **options)


def release(tmp_path, *names, **changed):
    """Write the files of a release, as they are or changed."""
    for name in names:
        put(tmp_path / FILES[name], changed.get(PARTS[name][3:]) or fixture(name))
    return tmp_path


def a1(tmp_path, **changed):
    return release(tmp_path, A1_NORMAL, A1_ATTACK, **changed)


def a2(tmp_path, **changed):
    return release(tmp_path, A2_NORMAL, A2_ATTACK, **changed)


def plain(content):
    """Return row numbers, texts, channels, values and labels by the csv module."""
    rows = rows_of(content)
    at = next(k for k, row in enumerate(rows) if row and row[0].strip() == "Row")
    names = [cell.strip().split("\\")[-1] for cell in rows[at]]
    data = [row for row in rows[at + 1 :] if row and row[0]]
    kept = [
        k
        for k, name in enumerate(names)
        if k > 2 and name not in WADI_EMPTY and not name.startswith("Attack")
    ]
    values = table_of([row[k] for k in kept] for row in data)
    return data, [names[k] for k in kept], values


# ---- the files as they are ---------------------------------------------------------


@pytest.mark.parametrize("name", PARTS, ids=PARTS.values())
def test_every_file_reads_exactly(tmp_path, name):
    path = put(tmp_path / FILES[name], fixture(name))
    assert recognised(Wadi(), path).name == PARTS[name]
    read = parsed(Wadi(), path)
    _, channels, values = plain(fixture(name))
    assert list(read.channels) == channels
    assert len(channels) == 123
    assert_exact(read.values, values)


@pytest.mark.parametrize("name", [A1_NORMAL, A1_ATTACK])
def test_time_of_a1_is_month_first_and_twelve_hours(tmp_path, name):
    read = parsed(Wadi(), put(tmp_path / FILES[name], fixture(name)))
    data, _, _ = plain(fixture(name))
    form = "%m/%d/%Y %I:%M:%S.%f %p"
    assert_exact(read.time, np.array([seconds(f"{r[1]} {r[2]}", form) for r in data]))
    day = "2017-09-25" if name == A1_NORMAL else "2017-10-09"
    assert read.time[0] == seconds(f"{day} 18:00:00")


def test_midnight_and_noon_of_a1_are_told_apart(tmp_path):
    content = fixture(A1_NORMAL).replace(b"6:00:01.000 PM", b"12:00:01.000 AM")
    content = content.replace(b"6:00:02.000 PM", b"12:00:02.000 PM")
    read = parsed(Wadi(), put(tmp_path / FILES[A1_NORMAL], content))
    noon = seconds("2017-09-25 12:00:00")
    assert read.time.tolist() == [noon + 21_600, noon - 43_200 + 1, noon + 2]


@pytest.mark.parametrize("name", [A2_NORMAL, A2_ATTACK])
def test_time_of_a2_is_counted_by_its_row_numbers(tmp_path, name):
    read = parsed(Wadi(), put(tmp_path / FILES[name], fixture(name)))
    data, _, _ = plain(fixture(name))
    day = "2017-09-25" if name == A2_NORMAL else "2017-10-09"
    rows = np.array([float(row[0]) for row in data])
    assert_exact(read.time, seconds(f"{day} 18:00:00") + rows - 1)


def test_a_break_stands_where_73_hours_were_cut_out(tmp_path):
    lines = fixture(A2_NORMAL).splitlines(keepends=True)
    content = lines[0] + b"".join(
        re.sub(rb"^\d+", str(number).encode(), lines[1])
        for number in (335_997, 335_998, 335_999, 600_004, 600_005)
    )
    read = opened(a2(tmp_path, normal=content))
    assert read.train.breaks.tolist() == [0, 3]
    assert read.train.time[3] - read.train.time[2] == 264_005
    assert read.train.step_s == 1.0


def test_the_label_of_a2_is_minus_one_where_attacked(tmp_path):
    read = parsed(Wadi(), put(tmp_path / FILES[A2_ATTACK], fixture(A2_ATTACK)))
    data, _, _ = plain(fixture(A2_ATTACK))
    assert set(r[-1] for r in data) == {"1", "-1"}
    expected = [int(row[-1] == "-1") for row in data]
    assert read.labels.tolist() == expected
    assert 0 < sum(expected) < len(expected)


def test_two_empty_rows_at_the_end_are_left_out_and_told(tmp_path):
    assert fixture(A2_ATTACK).rstrip(b"\n").endswith(b"," * 130)
    read = opened(a2(tmp_path))
    assert read.test.n_steps == len(plain(fixture(A2_ATTACK))[0])
    assert any(f"{FILES[A2_ATTACK]}: 2 rows" in text for text in read.notices)


def test_channels_are_67_sensors_26_actuators_and_30_that_stand_still(tmp_path):
    tags = opened(a1(tmp_path)).test.tags
    roles = [tag.role for tag in tags]
    assert len(tags) == 123
    assert (roles.count("sensor"), roles.count("actuator")) == (67, 26)
    others = [tag.name for tag in tags if tag.role not in ("sensor", "actuator")]
    assert sorted(others) == sorted(STILL)
    stages = [tag.stage for tag in tags]
    counts = [stages.count(stage) for stage in ("P1", "P2", "P3", "plant")]
    assert counts == [19, 86, 15, 3]


def test_the_four_empty_tags_are_named(tmp_path):
    read = opened(a1(tmp_path))
    assert not set(WADI_EMPTY) & set(read.train.channels)
    assert any(all(tag in text for tag in WADI_EMPTY) for text in read.notices)


# ---- the ways they come ------------------------------------------------------------


@pytest.mark.parametrize("name", PARTS, ids=PARTS.values())
@pytest.mark.parametrize("way", ["crlf", "bom", "no-line-end"])
def test_files_read_alike_however_they_are_written(tmp_path, name, way):
    content = fixture(name)
    changed = {
        "crlf": content.replace(b"\n", b"\r\n"),
        "bom": b"\xef\xbb\xbf" + content,
        "no-line-end": content.rstrip(b"\n"),
    }[way]
    read = parsed(Wadi(), put(tmp_path / "any name.csv", changed))
    assert_exact(read.values, plain(content)[2])


def test_the_preamble_may_lack(tmp_path):
    content = fixture(A1_NORMAL)
    content = content[content.index(b"Row,") :]
    read = parsed(Wadi(), put(tmp_path / FILES[A1_NORMAL], content))
    assert_exact(read.values, plain(content)[2])


def test_the_number_line_may_lack(tmp_path):
    content = fixture(A2_ATTACK).split(b"\n", 1)[1]
    part = recognised(Wadi(), put(tmp_path / FILES[A2_ATTACK], content))
    assert part.name == "A2 attack"
    assert_exact(Wadi().parse(part).values, plain(content)[2])


@pytest.mark.parametrize("word", [b"1.#QNAN", b"", b"NaN", b"-1.#IND"])
def test_a_cell_without_a_number_is_held_and_told(tmp_path, word):
    data, channels, values = plain(fixture(A1_NORMAL))
    column = channels.index("1_AIT_003_PV")
    cell = data[1][5].encode()
    assert fixture(A1_NORMAL).count(b"," + cell + b",") == 1
    content = fixture(A1_NORMAL).replace(b"," + cell + b",", b"," + word + b",")
    root = a1(tmp_path, normal=content)
    read = parsed(Wadi(), root / FILES[A1_NORMAL])
    assert np.isnan(read.values[1, column])
    assert np.isnan(read.values).sum() == 1
    held = opened(root)
    values[1, column] = values[0, column]
    assert_exact(held.train.values, values)
    assert any(
        FILES[A1_NORMAL] in text and "1_AIT_003_PV (1)" in text for text in held.notices
    )


def test_a_cell_that_never_had_a_number_stays_empty_and_is_told(tmp_path):
    data, channels, _ = plain(fixture(A1_NORMAL))
    cell = data[0][5].encode()
    content = fixture(A1_NORMAL).replace(b"," + cell + b",", b",1.#QNAN,")
    read = opened(a1(tmp_path, normal=content))
    column = channels.index("1_AIT_003_PV")
    assert np.isnan(read.train.values[0, column])
    assert any(
        "without a value" in text and "1_AIT_003_PV" in text for text in read.notices
    )


def test_a1_is_read_where_both_releases_are_there(tmp_path):
    a1(tmp_path / "WADI.A1_9 Oct 2017")
    a2(tmp_path / "WADI.A2_19 Nov 2019")
    read = opened(tmp_path)
    assert read.revision == "wadi-A1"
    assert any("A1 and A2" in text and "release='A2'" in text for text in read.notices)
    assert opened(tmp_path, release="a2").revision == "wadi-A2"
    assert all(place.startswith("WADI.A1") for place in read.digests)


# ---- whom to believe ---------------------------------------------------------------


def test_a1_has_no_label_column_to_believe(tmp_path):
    root = a1(tmp_path)
    with refused(str(root / FILES[A1_ATTACK]), "no label column", "labels='list'"):
        opened(root, labels="built-in")
    assert "labels list" in opened(root).test.source


def test_a2_is_labelled_by_its_column_and_its_slip_is_told(tmp_path):
    read = opened(a2(tmp_path))
    assert "labels built-in" in read.test.source
    assert any("attack 13" in text and "00:07:33" in text for text in read.notices)
    by_list = opened(tmp_path, labels="list")
    assert not any("00:07:33" in text for text in by_list.notices)
    # Row 5104 is 19:25:03, within attack 1 of the list, which begins at 19:25:00.
    rows = [int(row[0]) for row in plain(fixture(A2_ATTACK))[0]]
    expected = [int(5101 <= row <= 6617) for row in rows]
    assert by_list.test.labels.tolist() == expected


# ---- as many rows as the real files ------------------------------------------------


def listed(which):
    with (files("sightline.testbeds") / "attack_lists" / "wadi.csv").open() as handle:
        return [row for row in csv.DictReader(handle) if row["release"] == which]


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """Return a function to the parts of a release as long as the attack file is."""
    root = tmp_path_factory.mktemp("wadi")
    time = seconds("2017-10-09 18:00:00") + np.arange(172_801.0)
    labels = np.zeros(len(time), np.int8)
    for row in listed("A2_label"):
        labels[int(row["row_start0"]) : int(row["row_end0"]) + 1] = 1

    def parts(which):
        names = (A1_NORMAL, A1_ATTACK) if which == "A1" else (A2_NORMAL, A2_ATTACK)
        normal, attack = (recognised(Wadi(), place(root, name)) for name in names)
        quiet = seconds("2017-09-25 18:00:00") + np.arange(5.0)
        return (
            made_part(normal, 123, quiet),
            made_part(attack, 123, time, labels if which == "A2" else None),
        )

    return parts


def test_the_list_has_9948_rows_in_14_runs_and_37_are_ignored(full):
    made = Wadi().assemble("A1", full("A1"), labels="list")
    test = made.test
    assert int((test.labels == 1).sum()) == 9_948
    assert len(segments_of(test.labels == 1)) == 14
    ignored = np.flatnonzero(test.labels == -1)
    assert len(ignored) == 37
    span = test.time[ignored[[0, -1]]].tolist()
    assert span == [seconds(f"2017-10-10 {t}") for t in ("14:59:56", "15:00:32")]
    assert any("37 rows" in text for text in made.notices)
    found = {a.id: (a.start, a.stop - 1) for a in test.attacks}
    assert found == {
        row["attack_id"]: (int(row["row_start0"]), int(row["row_end0"]))
        for row in listed("A1_doc")
    }
    assert len(found) == 16  # 15 attacks, one of them with two legs


def test_the_column_of_a2_has_9977_rows_in_14_runs(full):
    test = Wadi().assemble("A2", full("A2"), labels="built-in").test
    assert int((test.labels == 1).sum()) == 9_977
    runs = segments_of(test.labels == 1)
    assert len(runs) == len(test.attacks) == 14
    assert [(r.start, r.stop) for r in runs] == sorted(
        (a.start, a.stop) for a in test.attacks
    )


def test_the_list_labels_attack_13_of_a2_where_it_ran(full):
    test = Wadi().assemble("A2", full("A2"), labels="list").test
    noon = test.time == seconds("2017-10-11 12:08:00")
    midnight = test.time == seconds("2017-10-11 00:08:00")
    assert test.labels[noon].tolist() == [1]
    assert test.labels[midnight].tolist() == [0]


def test_adjusted_times_stand_where_the_study_has_any(full):
    made = Wadi().assemble("A1", full("A1"), labels="adjusted")
    expected = np.zeros(172_801, np.int8)
    for row in listed("A1_doc"):
        first, last = (
            int(
                seconds(row[f"adjusted_{e}"] or row[e]) - seconds("2017-10-09 18:00:00")
            )
            for e in ("start", "end")
        )
        if row["attack_id"] != "7b":
            expected[first : last + 1] = 1
    np.testing.assert_array_equal(made.test.labels == 1, expected == 1)


@pytest.mark.parametrize("source", ["list", "adjusted"])
def test_as_many_rows_are_ignored_as_are_told(full, source):
    made = Wadi().assemble("A1", full("A1"), labels=source)
    ignored = int((made.test.labels == -1).sum())
    assert any(f"{ignored} rows" in text for text in made.notices)


def test_row_counts_of_the_four_files_are_known(tmp_path):
    known = {
        A1_NORMAL: (1_209_601, 0, None, None),
        A1_ATTACK: (172_801, 0, None, None),
        A2_NORMAL: (784_571, 1, None, None),
        A2_ATTACK: (172_801, 0, 9_977, 14),
    }
    for name, counts in known.items():
        expected = recognised(Wadi(), place(tmp_path, name)).expected
        found = (expected.rows, expected.gaps)
        assert (*found, expected.attack_rows, expected.attack_runs) == counts


# ---- what is refused ---------------------------------------------------------------


def test_a_file_with_other_rows_than_the_release_is_refused(tmp_path):
    root = a1(tmp_path)
    with refused(str(root / FILES[A1_NORMAL]), "3 rows", "1,209,601", "strict=False"):
        opened(root, strict=True)


def test_a_missing_part_is_named(tmp_path):
    put(tmp_path / FILES[A2_NORMAL], fixture(A2_NORMAL))
    with refused(str(tmp_path), FILES[A2_NORMAL], "A2 attack", "ask iTrust"):
        opened(tmp_path)


def test_a_label_that_is_neither_is_refused(tmp_path):
    content = fixture(A2_ATTACK).replace(b",-1\n", b",0\n", 1)
    root = a2(tmp_path, attack=content)
    with refused(str(root / FILES[A2_ATTACK]), "1 or -1", "row 3", "copy it again"):
        opened(root)


def test_text_among_numbers_is_refused(tmp_path):
    cell = plain(fixture(A1_NORMAL))[0][1][5].encode()
    content = fixture(A1_NORMAL).replace(b"," + cell + b",", b",Bad Input,")
    root = a1(tmp_path, normal=content)
    words = ("'1_AIT_003_PV'", "data row 2", "Bad Input")
    with refused(str(root / FILES[A1_NORMAL]), *words):
        opened(root)


@pytest.mark.parametrize("name", PARTS, ids=PARTS.values())
@pytest.mark.parametrize("kept", [0.02, 0.3, 0.6, 0.9])
def test_a_file_cut_in_the_middle_of_a_row_is_refused(tmp_path, name, kept):
    names = (A1_NORMAL, A1_ATTACK) if name[5:7] == "A1" else (A2_NORMAL, A2_ATTACK)
    root = release(tmp_path, *names)
    lines = fixture(name).rstrip(b"\n,").splitlines(keepends=True)
    cut = lines[-1][: int(kept * len(lines[-1]))]
    put(root / FILES[name], b"".join(lines[:-1]) + cut)
    with refused(str(root / FILES[name]), "copy it again"):
        opened(root)
