"""HAI: four releases, packed or not, labels inside or beside."""

import csv
import gzip
from importlib.resources import files

import numpy as np
import pytest
from testbed_files import (
    HAI_BEGINS,
    HAI_FIXTURES,
    assert_exact,
    assert_same_recording,
    fixture,
    hai_csv,
    hai_file,
    hai_tags,
    made_part,
    marks_of,
    parsed,
    put,
    recognised,
    refused,
    rows_of,
    seconds,
    table_of,
    write_hai,
)

import sightline
from sightline.data.segments import segments_of
from sightline.testbeds.base import tags_of
from sightline.testbeds.hai import Hai

RELEASES = list(HAI_BEGINS)
N_TAGS = {"20.07": 59, "21.03": 79, "22.04": 86, "23.05": 86}
POINTER = (
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4f1f0d1c2d0a3b9e8d7c6b5a4f3e2d1c0b9a8f7e6d5c4b3a2f1e0d9c8b7a6f5e\n"
    "size 43567890\n"
)


def opened(root, **options):
    options = {"strict": False, "cache": False} | options
    return sightline.open_testbed("hai", root, **options)


def plain(release, content=None):
    """Return time, values and labels as the csv module and float() read them."""
    separator = ";" if release == "20.07" else ","
    header, *rows = rows_of(content or fixture(HAI_FIXTURES[release]), separator)
    is_label = [name.lower().startswith("attack") for name in header]
    values = [
        [cell for cell, skip in zip(row, is_label, strict=True) if not skip][1:]
        for row in rows
    ]
    label = [int(row[is_label.index(True)]) for row in rows] if any(is_label) else None
    return np.array([seconds(row[0]) for row in rows]), table_of(values), label


def known_files(release):
    with (files("sightline.testbeds") / "hai_files.csv").open() as handle:
        return {r["part"]: r for r in csv.DictReader(handle) if r["release"] == release}


def list_of(release):
    table = files("sightline.testbeds") / "attack_lists" / f"hai_{release}.csv"
    with table.open(encoding="utf-8") as handle:
        return list(csv.DictReader(handle))


# ---- the files as they are ---------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
@pytest.mark.parametrize("release", RELEASES)
def test_every_fixture_reads_exactly(tmp_path, release, packed):
    content = fixture(HAI_FIXTURES[release])
    name = hai_file(release, "test2" if release == "23.05" else "test1")
    path = tmp_path / (f"{name}.gz" if packed else name)
    put(path, gzip.compress(content) if packed else content)
    read = parsed(Hai(), path)
    time, values, labels = plain(release)
    assert_exact(read.values, values)
    assert_exact(read.time, time)
    if release == "23.05":
        assert read.labels is labels is None
    else:
        assert read.labels.tolist() == labels
        assert 1 in labels


@pytest.mark.parametrize("release", RELEASES)
def test_channels_are_the_columns_without_time_and_labels(tmp_path, release):
    write_hai(tmp_path, release)
    read = opened(tmp_path)
    assert read.revision == f"hai-{release}"
    assert list(read.test.channels) == list(read.train.channels) == hai_tags(release)
    assert len(read.test.channels) == N_TAGS[release]
    assert not any("attack" in name.lower() for name in read.test.channels)


@pytest.mark.parametrize("release", ["21.03", "22.04", "23.05"])
def test_there_are_27_sensors(release):
    assert [tag.role for tag in tags_of("hai", release)].count("sensor") == 27


@pytest.mark.parametrize("release", RELEASES)
def test_stages_are_told_by_the_names(release):
    for tag in tags_of("hai", release):
        assert tag.stage == (tag.name[:2] if tag.name[0] == "P" else "P1"), tag


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
@pytest.mark.parametrize("release", RELEASES)
def test_each_file_is_an_episode_of_its_own(tmp_path, release, packed):
    attacked = {"test1": [(1, 3)], "test2": [(0, 1), (3, 4)]}
    written = write_hai(tmp_path, release, packed=packed, attacked=attacked)
    read = opened(tmp_path)
    for kind, recording in (("train", read.train), ("test", read.test)):
        parts = [name for name in HAI_BEGINS[release] if name.startswith(kind)]
        assert_exact(recording.values, np.concatenate([written[p] for p in parts]))
        starts = [seconds(HAI_BEGINS[release][p]) for p in parts]
        expected = np.concatenate([start + np.arange(4.0) for start in starts])
        assert_exact(recording.time, expected)
        assert recording.breaks.tolist() == list(range(0, 4 * len(parts), 4))
        assert recording.step_s == 1.0
    assert np.flatnonzero(read.test.labels).tolist() == [1, 2, 4, 7]
    assert not read.train.labels.any()


def test_labels_beside_belong_to_rows_by_their_order(tmp_path):
    attacked = {"test1": [(2, 5)], "test2": [(0, 1), (6, 7)]}
    write_hai(tmp_path, "23.05", n_rows=7, attacked=attacked)
    beside = (tmp_path / "label-test2.csv").read_bytes()
    assert beside.startswith(b"timestamp,label\r\n2022-08-17 0:00,1\r\n")
    read = opened(tmp_path)
    expected = [*marks_of(7, [(2, 5)]), *marks_of(7, [(0, 1), (6, 7)])]
    assert read.test.labels.tolist() == expected
    # Minutes of the labels are not the time of the rows.
    assert_exact(read.test.time[7:], seconds("2022-08-17 00:00:01") + np.arange(7.0))


@pytest.mark.parametrize("which", ["1", "2"])
def test_the_label_fixtures_read_exactly(tmp_path, which):
    name = f"hai_23.05_label-test{which}.csv"
    path = put(tmp_path / f"label-test{which}.csv", fixture(name))
    assert recognised(Hai(), path).name == f"label-test{which}"
    rows = rows_of(fixture(name))[1:]
    read = parsed(Hai(), path)
    assert read.labels.tolist() == [int(row[1]) for row in rows]
    form = "%Y-%m-%d %H:%M:%S" if which == "1" else "%Y-%m-%d %H:%M"
    assert read.time.tolist() == [seconds(row[0], form) for row in rows]


# ---- the ways they come ------------------------------------------------------------


@pytest.mark.parametrize("word", ["attack", "Attack", "ATTACK"])
def test_the_label_column_may_be_written_in_any_case(tmp_path, word):
    write_hai(tmp_path, "22.04", attacked={"test3": [(1, 2)]})
    for path in tmp_path.glob("*.csv"):
        put(path, path.read_text().replace(",Attack\n", f",{word}\n"))
    read = opened(tmp_path)
    assert np.flatnonzero(read.test.labels).tolist() == [9]
    assert len(read.test.channels) == 86


@pytest.mark.parametrize("release", RELEASES)
def test_line_ends_do_not_matter(tmp_path, release):
    write_hai(tmp_path / "lf", release, attacked={"test1": [(1, 3)]})
    for path in (tmp_path / "lf").glob("*.csv"):
        content = path.read_bytes().replace(b"\r\n", b"\n")
        put(tmp_path / "crlf" / path.name, content.replace(b"\n", b"\r\n"))
        put(path, content)
    lf, crlf = opened(tmp_path / "lf"), opened(tmp_path / "crlf")
    assert_same_recording(lf.train, crlf.train)
    assert_same_recording(lf.test, crlf.test)


def test_packed_and_plain_files_may_be_mixed_at_any_depth(tmp_path):
    written = write_hai(tmp_path, "21.03")
    path = tmp_path / "train2.csv"
    packed = tmp_path / "hai-21.03" / "more" / "train2.csv.gz"
    put(packed, gzip.compress(path.read_bytes()))
    path.unlink()
    read = opened(tmp_path)
    assert_exact(read.train.values[4:8], written["train2"])
    assert "hai-21.03/more/train2.csv.gz" in read.digests


def test_a_part_is_known_by_its_first_time_stamp_before_its_name(tmp_path):
    written = write_hai(tmp_path, "21.03")
    (tmp_path / "test1.csv").rename(tmp_path / "x.csv")
    (tmp_path / "test5.csv").rename(tmp_path / "test1.csv")
    (tmp_path / "x.csv").rename(tmp_path / "test5.csv")
    read = opened(tmp_path)
    assert_exact(read.test.values[:4], written["test1"])
    assert_exact(read.test.values[-4:], written["test5"])


def test_the_paper_s_release_is_read_where_there_are_several(tmp_path):
    for release in RELEASES:
        write_hai(tmp_path / f"hai-{release}", release)
    read = opened(tmp_path)
    assert read.release == "21.03"
    assert any("release='22.04'" in text for text in read.notices)
    for release in RELEASES:
        by_name = sightline.open_testbed(
            f"hai-{release}", tmp_path, strict=False, cache=False
        )
        assert by_name.release == release
        assert len(by_name.test.channels) == N_TAGS[release]


def test_what_lies_beside_is_not_data(tmp_path):
    write_hai(tmp_path, "23.05")
    end = "timestamp,1001.1-OUT,1002.7-OUT\n2022-08-04 18:00:01,1.0,2.0\n"
    put(tmp_path / "haiend-23.05" / "end-train1.csv", end)
    put(tmp_path / "haiend-23.05" / "end-test1.csv", end)
    put(tmp_path / "summary_label1.txt", "no table")
    read = opened(tmp_path)
    assert not any("end-" in place for place in read.digests)


def test_rows_of_train_labelled_as_attacks_are_left_out_and_told(tmp_path):
    written = write_hai(tmp_path, "20.07", n_rows=6, attacked={"train1": [(2, 4)]})
    read = opened(tmp_path)
    assert read.train.n_steps == 10
    expected = np.concatenate([written["train1"][[0, 1, 4, 5]], written["train2"]])
    assert_exact(read.train.values, expected)
    assert read.train.breaks.tolist() == [0, 2, 4]
    assert any("2 rows of train" in text for text in read.notices)


# ---- whom to believe ---------------------------------------------------------------


def test_runs_get_the_names_of_the_listed_attacks_in_their_order(tmp_path):
    runs = [(k, k + 1) for k in range(0, 10, 2)]
    write_hai(tmp_path, "21.03", n_rows=10, attacked={"test1": runs, "test4": runs})
    read = opened(tmp_path)
    found = [(a.id, a.start, a.stop) for a in read.test.attacks]
    first = [(f"A10{k + 1}", a, b) for k, (a, b) in enumerate(runs)]
    later = [(f"A40{k + 1}", a + 30, b + 30) for k, (a, b) in enumerate(runs)]
    assert found == [*first, *later]
    targets = {row["attack_id"]: row["targets"].split(";") for row in list_of("21.03")}
    assert all(list(a.targets) == targets[a.id] for a in read.test.attacks)


def test_where_runs_are_not_as_many_they_are_named_by_time(tmp_path):
    starts = {"test1": "2020-07-07 17:28:00"}
    write_hai(
        tmp_path, "21.03", n_rows=30, attacked={"test1": [(11, 30)]}, begins=starts
    )
    read = opened(tmp_path)
    assert [(a.id, a.start, a.stop) for a in read.test.attacks] == [("A102", 11, 30)]


@pytest.mark.parametrize(
    ("release", "part", "start"),
    [("21.03", "test1", "2020-07-07 17:28:00"), ("22.04", "test1", None)],
)
def test_the_list_labels_the_releases_known_to_the_second(
    tmp_path, release, part, start
):
    start = start or "2021-07-10 07:19:01"
    write_hai(tmp_path, release, n_rows=20, begins={part: start})
    read = opened(tmp_path, labels="list")
    assert read.test.labels.tolist() == [*marks_of(20, [(11, 20)])] + [0] * (
        read.test.n_steps - 20
    )
    assert [a.id for a in read.test.attacks] == ["A102"]


@pytest.mark.parametrize("release", ["20.07", "23.05"])
def test_a_list_known_to_the_minute_cannot_label_rows(tmp_path, release):
    write_hai(tmp_path, release)
    with refused(f"HAI {release}", "to the minute", "labels='built-in'"):
        opened(tmp_path, labels="list")


def test_there_are_no_adjusted_times(tmp_path):
    write_hai(tmp_path, "21.03")
    with refused("HAI", "adjusted", "labels='built-in'"):
        opened(tmp_path, labels="adjusted")


def test_the_overlap_of_21_03_is_told_and_cut_on_request(tmp_path):
    # The last 4 s of train1 are the first of test3, in these files as in the real ones.
    write_hai(
        tmp_path,
        "21.03",
        n_rows=10,
        begins={"train1": "2020-07-12 23:59:54"},
    )
    read = opened(tmp_path)
    assert any("43,201" in text and "cut_leak=True" in text for text in read.notices)
    cut = opened(tmp_path, cut_leak=True)
    assert read.train.n_steps - cut.train.n_steps == 4
    assert not np.isin(cut.train.time, cut.test.time).any()
    assert any("4 rows of train were left out" in text for text in cut.notices)
    assert cut.train.breaks.tolist() == [0, 6, 16]
    write_hai(tmp_path / "other", "22.04")
    assert not any("43,201" in text for text in opened(tmp_path / "other").notices)


# ---- as many rows as the real files ------------------------------------------------


def test_row_counts_are_those_that_were_counted():
    sums = {
        release: {
            kind: sum(
                int(row["rows"])
                for part, row in known_files(release).items()
                if part.startswith(kind) and row["rows"]
            )
            for kind in ("train", "test", "label")
        }
        for release in RELEASES
    }
    assert sums["20.07"] == {"train": 550_800, "test": 444_600, "label": 0}
    assert sums["21.03"] == {"train": 921_603, "test": 402_005, "label": 0}
    assert sums["22.04"] == {"train": 1_004_402, "test": 361_200, "label": 0}
    assert sums["23.05"]["test"] == sums["23.05"]["label"] == 284_400
    runs = {
        release: sum(int(r["attack_runs"] or 0) for r in known_files(release).values())
        for release in RELEASES
    }
    assert runs == {"20.07": 38, "21.03": 50, "22.04": 58, "23.05": 52}


@pytest.mark.parametrize(
    ("release", "n_rows", "n_attacked", "n_runs"),
    [("21.03", 402_005, 8_947, 50), ("22.04", 361_200, 12_030, 58)],
)
@pytest.mark.parametrize("source", ["built-in", "list"])
def test_full_releases_have_the_attack_rows_that_were_counted(
    tmp_path, release, n_rows, n_attacked, n_runs, source
):
    write_hai(tmp_path, release)
    parts = []
    for name, row in known_files(release).items():
        is_test = name.startswith("test")
        count = int(row["rows"]) if is_test else 5
        begin = seconds(HAI_BEGINS[release][name])
        labels = np.zeros(count, np.int8)
        for attack in list_of(release):
            if attack["file"] == name:
                first = int(seconds(attack["start"]) - begin)
                labels[first : first + int(attack["label_rows"])] = 1
        part = recognised(Hai(), tmp_path / hai_file(release, name))
        time = begin + np.arange(float(count))
        parts.append(made_part(part, N_TAGS[release], time, labels))
    test = Hai().assemble(release, parts, labels=source).test
    assert test.n_steps == n_rows
    assert int((test.labels == 1).sum()) == n_attacked
    assert len(segments_of(test.labels == 1)) == len(test.attacks) == n_runs
    runs = [(run.start, run.stop) for run in segments_of(test.labels == 1)]
    assert [(a.start, a.stop) for a in test.attacks] == runs
    assert [a.id for a in test.attacks] == [r["attack_id"] for r in list_of(release)]


def test_attack_rows_other_than_the_release_s_are_told(tmp_path):
    write_hai(tmp_path, "22.04", attacked={"test1": [(0, 2)]})
    assert any(
        "labels 2 rows" in text and "12,030" in text
        for text in opened(tmp_path).notices
    )


# ---- what is refused ---------------------------------------------------------------


@pytest.mark.parametrize("release", RELEASES)
def test_files_with_other_rows_than_the_release_are_refused(tmp_path, release):
    write_hai(tmp_path, release)
    rows = known_files(release)["train1"]["rows"]
    path = tmp_path / hai_file(release, "train1")
    with refused(str(path), "4 rows", f"{int(rows):,}", "copy it again"):
        opened(tmp_path, strict=True)


def test_labels_beside_must_be_as_many_as_rows(tmp_path):
    write_hai(tmp_path, "23.05")
    put(tmp_path / "hai-test2.csv", fixture("hai_23.05_hai-test2.csv"))
    path = put(tmp_path / "label-test2.csv", fixture("hai_23.05_label-test2.csv"))
    with refused(str(path), "4 labels", "3 rows", "hai-test2.csv", "copy both again"):
        opened(tmp_path)


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_a_pointer_of_git_lfs_is_told(tmp_path, suffix):
    write_hai(tmp_path, "22.04")
    for part in ("train2", "test4"):
        (tmp_path / f"{part}.csv").unlink()
        put(tmp_path / f"{part}{suffix}", POINTER)
    with refused(str(tmp_path), f"train2{suffix}", "Git LFS pointer", "git lfs pull"):
        opened(tmp_path)


def test_a_clone_of_pointers_alone_is_told(tmp_path):
    for part in HAI_BEGINS["22.04"]:
        put(tmp_path / "hai-22.04" / f"{part}.csv", POINTER)
    with refused(str(tmp_path), "hai-22.04/test1.csv", "and 6 more", "git lfs pull"):
        opened(tmp_path, release="22.04")


def test_a_missing_part_is_named(tmp_path):
    write_hai(tmp_path, "21.03")
    (tmp_path / "test3.csv").unlink()
    with refused(str(tmp_path), "test3 of HAI 21.03", "icsdataset/hai", "--root"):
        opened(tmp_path)


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.95])
def test_a_packed_file_cut_short_is_refused(tmp_path, kept):
    write_hai(tmp_path, "21.03", n_rows=300, packed=True)
    path = tmp_path / "train2.csv.gz"
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content))])
    with refused(str(path), "cut short", "copy it again"):
        opened(tmp_path)


def test_a_packed_file_with_a_wrong_byte_is_refused(tmp_path):
    write_hai(tmp_path, "21.03", n_rows=300, packed=True)
    path = tmp_path / "train2.csv.gz"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    with refused(str(path), "copy it again"):
        opened(tmp_path)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("kept", [0.01, 0.4, 0.9])
def test_a_file_cut_in_the_middle_of_a_row_is_refused(tmp_path, release, kept):
    write_hai(tmp_path, release)
    path = tmp_path / hai_file(release, "test1")
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-1]) + lines[-1][: int(kept * len(lines[-1]))])
    with refused(str(path), "copy it again"):
        opened(tmp_path)


def test_a_label_that_is_neither_is_refused(tmp_path):
    write_hai(tmp_path, "21.03", attacked={"test2": [(2, 3)]})
    path = tmp_path / "test2.csv"
    path.write_text(path.read_text().replace(",1,0,0,0\n", ",2,0,0,0\n"))
    with refused(str(path), "'attack'", "0 or 1", "data row 3 is 2"):
        opened(tmp_path)


def test_a_label_beside_that_is_neither_is_refused(tmp_path):
    write_hai(tmp_path, "23.05", attacked={"test2": [(2, 3)]})
    path = tmp_path / "label-test2.csv"
    path.write_text(path.read_text().replace(",1", ",7"))
    with refused(str(path), "'label'", "0 or 1", "data row 3 is 7"):
        opened(tmp_path)


def test_text_among_numbers_is_refused(tmp_path):
    write_hai(tmp_path, "21.03")
    text = hai_csv("21.03", HAI_BEGINS["21.03"]["train2"], np.ones((3, 79)))
    lines = text.splitlines()
    lines[2] = lines[2].replace("1.0", "offline", 1)
    path = put(tmp_path / "train2.csv", "\n".join(lines))
    with refused(str(path), "'P1_B2004'", "data row 2", "offline"):
        opened(tmp_path)


def test_a_test_file_without_labels_is_refused_with_its_name(tmp_path):
    write_hai(tmp_path, "22.04")
    path = tmp_path / "test2.csv"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(line.rpartition(",")[0] for line in lines) + "\n")
    with refused("test2.csv", "label"):
        opened(tmp_path)
