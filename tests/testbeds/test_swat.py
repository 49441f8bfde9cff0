"""SWaT: every way its files come, read exactly."""

import csv
import gzip
import re
from dataclasses import replace
from datetime import datetime
from importlib.resources import files

import numpy as np
import pytest
import xlsxwriter
from testbed_files import (
    ATTACK_V0,
    DATA,
    NORMAL_V0,
    SECOND,
    SEMICOLON,
    SWAT_TAGS,
    assert_exact,
    assert_same_recording,
    drawn,
    fixture,
    made_part,
    parsed,
    place,
    put,
    recognised,
    refused,
    rows_of,
    seconds,
    swat_csv,
    table_of,
    times_from,
)

import sightline
from sightline.data.segments import AttackOutcome, name_segments, segments_of
from sightline.testbeds.base import attack_table
from sightline.testbeds.swat import Swat

STAMP = "%d/%m/%Y %I:%M:%S %p"
NORMAL, ATTACK = "SWaT_Dataset_Normal_v0.csv", "SWaT_Dataset_Attack_v0.csv"
NORMAL_TEXT = fixture(NORMAL_V0)
STAGES = NORMAL_TEXT.splitlines(keepends=True)[0]
N_ATTACK_ROWS = 449_919


def opened(root, **options):
    options = {"strict": False, "cache": False} | options
    return sightline.open_testbed("swat", root, **options)


def both(tmp_path, normal=None, attack=None):
    """Write the two files, as they are or changed."""
    put(tmp_path / NORMAL, fixture(NORMAL_V0) if normal is None else normal)
    put(tmp_path / ATTACK, fixture(ATTACK_V0) if attack is None else attack)
    return tmp_path


def plain(content, separator=",", skip=1):
    """Return time, values and labels as the csv module and float() read them."""
    rows = [row for row in rows_of(content, separator)[skip:] if row]
    time = np.array([seconds(row[0], STAMP) for row in rows])
    labels = [row[-1].replace(" ", "") for row in rows]
    assert set(labels) <= {"Normal", "Attack"}
    marks = np.array([label == "Attack" for label in labels], np.int8)
    return time, table_of(row[1:-1] for row in rows), marks


def assert_reads(read, content, **how):
    time, values, marks = plain(content, **how)
    assert_exact(read.values, values)
    assert_exact(read.time, time)
    np.testing.assert_array_equal(read.labels, marks)


def write_xlsx(path, rows, *, dates=False):
    """Write what the CSV file holds: time stamps as text, numbers as numbers."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with xlsxwriter.Workbook(path) as book:
        sheet = book.add_worksheet("Combined Data")
        form = book.add_format({"num_format": "d/m/yyyy h:mm:ss AM/PM"})
        for i, row in enumerate(rows):
            for j, cell in enumerate(row):
                if re.fullmatch(r"-?\d+(\.\d+)?", cell):
                    sheet.write_number(i, j, float(cell))
                elif dates and re.match(r" \d", cell):
                    when = datetime.strptime(cell.strip(), STAMP)
                    sheet.write_datetime(i, j, when, form)
                elif cell:
                    sheet.write_string(i, j, cell)
    return path


# ---- the files as they are ---------------------------------------------------------


def test_the_tags_are_the_51_of_the_files_in_their_order(tmp_path):
    read = opened(both(tmp_path))
    assert list(read.test.channels) == SWAT_TAGS
    assert list(read.train.channels) == SWAT_TAGS
    roles = [tag.role for tag in read.test.tags]
    assert (roles.count("sensor"), roles.count("actuator")) == (25, 26)
    sensors = {tag.name for tag in read.test.tags if tag.role == "sensor"}
    assert {"PIT501", "DPIT301", "FIT601"} < sensors
    assert not sensors & {"P501", "UV401", "MV101"}
    stages = [tag.stage for tag in read.test.tags]
    assert [stages.count(f"P{k}") for k in range(1, 7)] == [5, 11, 9, 9, 13, 4]


def test_the_normal_file_reads_exactly(tmp_path):
    read = parsed(Swat(), place(tmp_path, NORMAL_V0))
    assert_reads(read, fixture(NORMAL_V0), skip=2)
    assert read.time[0] == seconds("2015-12-22 16:00:00")
    assert not read.labels.any()
    assert read.notices == ()


def test_the_attack_file_reads_exactly(tmp_path):
    read = parsed(Swat(), place(tmp_path, ATTACK_V0))
    assert_reads(read, fixture(ATTACK_V0))
    days = ["2015-12-28 10:00:00", "2015-12-28 10:29:14", "2015-12-30 09:51:08"]
    days += ["2016-01-02 13:41:11", "2016-01-02 14:59:59"]
    assert read.time.tolist() == [seconds(day) for day in days]


def test_a_misspelt_label_is_an_attack_and_is_counted(tmp_path):
    content = fixture(ATTACK_V0)
    assert content.count(b"A ttack") == 1
    read = opened(both(tmp_path))
    assert read.test.labels.tolist() == [0, 1, 1, 1, 0]
    assert any(f"{ATTACK}: 1 rows" in text for text in read.notices)
    twice = content.replace(b",Attack\n", b",A ttack\n", 1).replace(b"10:29:14", b"x")
    twice = twice.replace(b" 28/12/2015 x", b" 28/12/2015 10:29:14")
    read = opened(both(tmp_path, attack=twice))
    assert read.test.labels.tolist() == [0, 1, 1, 1, 0]
    assert any("2 rows are labelled 'A ttack'" in text for text in read.notices)


def test_decimal_commas_between_semicolons_read_exactly(tmp_path):
    read = parsed(Swat(), place(tmp_path, SEMICOLON))
    assert_reads(read, fixture(SEMICOLON), separator=";")


def test_train_is_normal_and_test_is_attack(tmp_path):
    read = opened(both(tmp_path))
    assert (read.name, read.release, read.revision) == ("swat", "v0", "swat-v0")
    assert_exact(read.train.values, plain(fixture(NORMAL_V0), skip=2)[1])
    assert_exact(read.test.values, plain(fixture(ATTACK_V0))[1])
    assert not read.train.labels.any()
    assert read.train.step_s == read.test.step_s == 1.0
    assert read.train.breaks.tolist() == [0]
    assert read.test.breaks.tolist() == [0, 1, 2, 3, 4]
    assert set(read.digests) == {NORMAL, ATTACK}


# ---- the ways they come ------------------------------------------------------------


def without_stage_row(content):
    return content.removeprefix(STAGES)


def with_bom(content):
    return b"\xef\xbb\xbf" + content.removeprefix(b"\xef\xbb\xbf")


def with_crlf(content):
    return content.replace(b"\n", b"\r\n")


def without_last_line_end(content):
    return content.rstrip(b"\n")


def with_empty_lines_at_the_end(content):
    return content + b"\n\n"


def with_blanks_around_names(content):
    lines = content.split(b"\n")
    at = next(k for k, line in enumerate(lines) if b"LIT101" in line)
    lines[at] = lines[at].replace(b",", b" , ")
    return b"\n".join(lines)


def with_blanks_around_numbers(content):
    return content.replace(b",2,1,", b", 2 , 1,")


def without_blanks_before_time(content):
    return content.replace(b"\n ", b"\n").replace(b" Timestamp", b"Timestamp")


def with_quotes(content):
    return content.replace(b"Normal\n", b'"Normal"\n')


NORMAL_WAYS = [
    without_stage_row,
    with_bom,
    with_crlf,
    without_last_line_end,
    with_empty_lines_at_the_end,
    with_blanks_around_names,
    with_blanks_around_numbers,
    without_blanks_before_time,
    with_quotes,
]


@pytest.mark.parametrize("way", NORMAL_WAYS, ids=lambda way: way.__name__)
def test_the_normal_file_reads_alike_however_it_is_written(tmp_path, way):
    changed = way(fixture(NORMAL_V0))
    assert changed != fixture(NORMAL_V0)
    read = parsed(Swat(), put(tmp_path / NORMAL, changed))
    assert_reads(read, fixture(NORMAL_V0), skip=2)


def with_stage_row(content):
    return with_bom(STAGES + content.removeprefix(b"\xef\xbb\xbf"))


def without_bom(content):
    return content.removeprefix(b"\xef\xbb\xbf")


@pytest.mark.parametrize(
    "way",
    [with_stage_row, without_bom, with_crlf, without_blanks_before_time],
    ids=lambda way: way.__name__,
)
def test_the_attack_file_reads_alike_however_it_is_written(tmp_path, way):
    changed = way(fixture(ATTACK_V0))
    assert changed != fixture(ATTACK_V0)
    read = parsed(Swat(), put(tmp_path / ATTACK, changed))
    assert_reads(read, fixture(ATTACK_V0))


def test_some_decimal_commas_in_quotes_read_exactly(tmp_path):
    content = fixture(NORMAL_V0)
    changed = re.sub(rb",(6\d\d)\.(\d+),", rb',"\1,\2",', content)
    assert 1 < changed.count(b'"') < 200
    assert changed.count(b".") > 10
    read = parsed(Swat(), put(tmp_path / NORMAL, changed))
    assert_reads(read, content, skip=2)
    assert_reads(read, changed, skip=2)


@pytest.mark.parametrize("path", ["fast", "text"])
def test_numbers_are_rounded_as_python_rounds_them(tmp_path, path):
    hard = ["0.1", "1e23", "9007199254740993", "7.8e-41", "2.2250738585072011e-308"]
    hard += ["179.76931348623157e306", "-0.0", "4.35", "0.30000000000000004", "5e-324"]
    hard += ["123456789012345678901234567890.5", "1.7976931348623157e308", "+2.5"]
    lines = fixture(NORMAL_V0).decode().splitlines()
    cells = lines[2].split(",")
    cells[1 : len(hard) + 1] = hard
    # A blank before a number is what makes the reader take cells as text.
    cells[-2] = " 1" if path == "text" else "1"
    content = "\n".join([lines[0], lines[1], ",".join(cells)]) + "\n"
    read = parsed(Swat(), put(tmp_path / NORMAL, content))
    assert_reads(read, content.encode(), skip=2)


@pytest.mark.parametrize("name", [NORMAL_V0, ATTACK_V0])
@pytest.mark.parametrize("dates", [False, True], ids=["texts", "dates"])
def test_the_excel_twin_reads_exactly(tmp_path, name, dates):
    rows = rows_of(fixture(name))
    if name == ATTACK_V0:
        rows = [rows_of(STAGES)[0], *rows]
    stem = name.split("_", 1)[1].removesuffix(".csv")
    path = write_xlsx(tmp_path / f"{stem}.xlsx", rows, dates=dates)
    read = parsed(Swat(), path)
    assert_reads(read, fixture(name), skip=2 if name == NORMAL_V0 else 1)


def test_a_release_may_be_all_excel_with_the_attack_list_beside(tmp_path):
    rows = rows_of(fixture(NORMAL_V0))
    write_xlsx(tmp_path / "Physical" / "SWaT_Dataset_Normal_v0.xlsx", rows)
    rows = [[""] * 53, *rows_of(fixture(ATTACK_V0))]
    write_xlsx(tmp_path / "Physical" / "SWaT_Dataset_Attack_v0.xlsx", rows)
    table = [["Attack #", "Start Time", "Attack Point"], ["1", "28/12/2015", "MV-101"]]
    write_xlsx(tmp_path / "List_of_attacks_Final.xlsx", table)
    read = opened(tmp_path)
    texts = opened(both(tmp_path / "csv"))
    assert_same_recording(read.train, texts.train)
    assert_same_recording(read.test, texts.test)
    assert sorted(read.digests) == [
        "Physical/SWaT_Dataset_Attack_v0.xlsx",
        "Physical/SWaT_Dataset_Normal_v0.xlsx",
    ]


def test_csv_is_read_where_excel_lies_beside(tmp_path):
    for name in (NORMAL, ATTACK):
        put(tmp_path / name.replace(".csv", ".xlsx"), b"not opened, else refused")
    read = opened(both(tmp_path))
    assert set(read.digests) == {NORMAL, ATTACK}


def test_a_packed_file_reads_alike(tmp_path):
    put(tmp_path / f"{NORMAL}.gz", gzip.compress(fixture(NORMAL_V0)))
    place(tmp_path, ATTACK_V0)
    assert_exact(opened(tmp_path).train.values, plain(fixture(NORMAL_V0), skip=2)[1])


@pytest.mark.parametrize(
    ("normal", "attack"),
    [
        ("SWaT_dataset_Normal_v0.csv", "SWaT_dataset_Attack_v0.csv"),
        ("SwaT_Dataset_Normal_v0.csv", "SwaT_Dataset_Attack_v0_1.csv"),
        ("SWaT.A1 & A2_Dec 2015/Physical/n.CSV", "SWaT.A1 & A2_Dec 2015/a[1].csv"),
        ("a/b/c/d/x*.csv", "a/b/y?.csv"),
        ("Größe 水.csv", "attack list.csv"),
    ],
)
def test_files_are_known_by_how_they_begin(tmp_path, normal, attack):
    place(tmp_path, NORMAL_V0, normal)
    place(tmp_path, ATTACK_V0, attack)
    read = opened(tmp_path)
    assert set(read.digests) == {normal, attack}
    assert_exact(read.test.values, plain(fixture(ATTACK_V0))[1])


def test_an_attack_list_beside_is_not_data(tmp_path):
    both(tmp_path / "Physical")
    listed = "Attack #,Start Time,End Time,Attack Point\n1,28/12/2015 10:29:14,,MV-101"
    put(tmp_path / "List_of_attacks_Final.csv", listed)
    put(tmp_path / "attack.csv", listed)
    read = opened(tmp_path)
    assert set(read.digests) == {f"Physical/{NORMAL}", f"Physical/{ATTACK}"}


def v1(content=None):
    """Return a Normal file that begins half an hour later, whatever it is called."""
    return (content or fixture(NORMAL_V0)).replace(b" 4:00:0", b" 4:30:0")


def test_the_first_time_stamp_tells_v0_from_v1(tmp_path):
    put(tmp_path / "SWaT_Dataset_Normal_v0.csv", v1())
    place(tmp_path, ATTACK_V0)
    read = opened(tmp_path)
    assert read.release == "v1"
    assert read.train.time[0] == seconds("2015-12-22 16:30:00")
    with refused(str(tmp_path), "Normal_v0", ATTACK):
        opened(tmp_path, release="v0")


def test_where_both_are_there_v0_is_read_and_v1_on_request(tmp_path):
    put(both(tmp_path) / "SWaT_Dataset_Normal_v1.csv", v1())
    read = opened(tmp_path)
    assert read.release == "v0"
    assert any("v0 and v1" in text and "release='v1'" in text for text in read.notices)
    for name, options in [
        ("swat", {"release": "v1"}),
        ("swat", {"release": "V1"}),
        ("swat-v1", {}),
    ]:
        later = sightline.open_testbed(
            name, tmp_path, strict=False, cache=False, **options
        )
        assert later.revision == "swat-v1"
        assert later.train.time[0] == seconds("2015-12-22 16:30:00")


def test_a_second_copy_is_told_and_not_read(tmp_path):
    place(both(tmp_path) / "copies" / "old", NORMAL_V0)
    read = opened(tmp_path)
    assert set(read.digests) == {NORMAL, ATTACK}
    assert any(f"copies/old/{NORMAL}" in text for text in read.notices)


def test_time_of_a_spreadsheet_program_that_knew_better_is_read(tmp_path):
    content = re.sub(
        rb" 22/12/2015 4:00:0(\d) PM", rb"2015-12-22 16:00:0\1", fixture(NORMAL_V0)
    )
    read = parsed(Swat(), put(tmp_path / NORMAL, content))
    np.testing.assert_array_equal(
        read.time, seconds("2015-12-22 16:00:00") + np.arange(3)
    )


# ---- whom to believe ---------------------------------------------------------------


def test_the_list_labels_what_the_column_does_not(tmp_path):
    times = times_from(
        datetime(2015, 12, 28, 12), 300
    )  # attack 6: 12:00:55 to 12:04:10
    content = swat_csv(times, drawn(300, 51), attacked=[(10, 20)])
    root = both(tmp_path, attack=content)
    built_in = opened(root)
    assert np.flatnonzero(built_in.test.labels).tolist() == list(range(10, 20))
    assert any("06:30" in text and "41" in text for text in built_in.notices)
    by_list = opened(root, labels="list")
    assert np.flatnonzero(by_list.test.labels).tolist() == list(range(55, 251))
    assert not any("06:30" in text for text in by_list.notices)
    for read in (built_in, by_list):
        (attack,) = read.test.attacks
        assert (attack.id, attack.start, attack.stop) == ("6", 55, 251)
        assert attack.targets == ("AIT202",)
    assert "labels list" in by_list.test.source


def test_adjusted_times_are_those_of_the_later_study(tmp_path):
    with (files("sightline.testbeds") / "attack_lists" / "swat.csv").open() as handle:
        row = next(row for row in csv.DictReader(handle) if row["attack_id"] == "6")
    times = times_from(datetime(2015, 12, 28, 12), 300)
    root = both(tmp_path, attack=swat_csv(times, drawn(300, 51)))
    read = opened(root, labels="adjusted")
    first, last = (
        int(seconds(row[f"adjusted_{end}"]) - seconds(times[0]))
        for end in ("start", "end")
    )
    assert (first, last) != (55, 250)
    assert np.flatnonzero(read.test.labels).tolist() == list(range(first, last + 1))
    assert any("4, 14 and 29" in text for text in read.notices)


def test_without_a_label_column_the_list_must_be_asked_for(tmp_path):
    content = re.sub(rb"(?m),[^,\n]*$", b"", fixture(ATTACK_V0))
    root = both(tmp_path, attack=content)
    with refused(str(root / ATTACK), "Normal/Attack", "labels='list'"):
        opened(root)
    assert opened(root, labels="list").test.labels.tolist() == [0, 1, 1, 0, 0]


# ---- as many rows as the real files ------------------------------------------------


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """Return the two parts as long as they are, labels by row number."""
    root = both(tmp_path_factory.mktemp("swat"))
    every = seconds("2015-12-28 10:00:00") + np.arange(450_000)
    lost = seconds("2015-12-31 20:00:00")
    time = every[(every < lost) | (every >= lost + 81)]
    labels = np.zeros(len(time), np.int8)
    with (files("sightline.testbeds") / "attack_lists" / "swat.csv").open() as handle:
        rows = [row for row in csv.DictReader(handle) if row["row_start0"]]
    for row in rows:
        labels[int(row["row_start0"]) : int(row["row_end0"]) + 1] = 1
    normal = recognised(Swat(), root / NORMAL)
    attack = recognised(Swat(), root / ATTACK)
    parts = (
        made_part(normal, 51, seconds("2015-12-22 16:00:00") + np.arange(10.0)),
        made_part(attack, 51, time, labels),
    )
    return parts, rows


def assembled(full, source):
    return Swat().assemble("v0", full[0], labels=source).test


def test_the_label_column_has_54621_rows_in_35_runs(full):
    parts, rows = full
    test = assembled(full, "built-in")
    assert test.n_steps == N_ATTACK_ROWS
    assert int((test.labels == 1).sum()) == 54_621
    assert len(segments_of(test.labels == 1)) == 35
    found = {a.id: (a.start, a.stop - 1) for a in test.attacks}
    known = {r["attack_id"]: (int(r["row_start0"]), int(r["row_end0"])) for r in rows}
    assert found == known
    assert len(found) == 37  # 36 attacks, and a run that no list knows
    expected = parts[1].part.expected
    assert (expected.rows, expected.attack_rows) == (N_ATTACK_ROWS, 54_621)
    assert (expected.attack_runs, expected.gaps) == (35, 1)
    runs = segments_of(test.labels == 1)
    apart = {a.id: a for a in name_segments(runs, test.attacks)}
    assert {"10", "11", "27", "28"} <= set(apart)
    assert len(apart) == 37
    merged = {a.id for a in name_segments(runs, test.attacks, apart=False)}
    assert {"10+11", "27+28"} <= merged
    assert len(merged) == 35


def test_what_the_owners_say_became_of_each_attack():
    said = {attack.id: attack.outcome for attack in attack_table("swat")}
    assert None not in said.values()
    assert {k for k, v in said.items() if v is AttackOutcome.NO_EFFECT} == {
        *("4", "5", "9", "12", "15", "18")
    }
    assert said["13"] == said["14"] == AttackOutcome.FAILED
    assert said["29"] is AttackOutcome.BLOCKED


def test_81_seconds_lack_and_make_a_break(full):
    test = assembled(full, "built-in")
    _, after = test.breaks.tolist()
    assert test.time[after] - test.time[after - 1] == 82
    assert test.time[-1] == seconds("2016-01-02 14:59:59")


def test_the_list_has_53885_rows_of_36_attacks(full):
    test = assembled(full, "list")
    assert int((test.labels == 1).sum()) == 53_885
    assert len(test.attacks) == 36
    assert not {"5", "9", "12", "15", "18", "U1"} & {a.id for a in test.attacks}


def test_adjusted_times_leave_out_three_attacks(full):
    test = assembled(full, "adjusted")
    of_list = {a.id for a in assembled(full, "list").attacks}
    assert of_list - {a.id for a in test.attacks} == {"4", "14", "29"}


@pytest.mark.skipif(
    not (DATA / "labels" / "swat_labels.csv").is_file(),
    reason="the public label stream of SWaT is not in ../shared/data/labels",
)
def test_labels_are_those_of_the_public_stream_but_for_the_unlisted_run(full):
    lines = (DATA / "labels" / "swat_labels.csv").read_text().split()
    public = np.array(lines, int) == -1
    test = assembled(full, "built-in")
    unlisted = next(a for a in test.attacks if a.id == "U1")
    ours = test.labels == 1
    assert ours[unlisted.start : unlisted.stop].all()
    ours[unlisted.start : unlisted.stop] = False
    np.testing.assert_array_equal(ours, public)


def test_the_two_normal_files_differ_by_half_an_hour(tmp_path):
    v0 = recognised(Swat(), place(tmp_path, NORMAL_V0)).expected
    later = recognised(Swat(), put(tmp_path / "v1.csv", v1())).expected
    assert (v0.rows, later.rows) == (496_800, 495_000)


# ---- what is refused ---------------------------------------------------------------


def test_a_file_with_other_rows_than_the_release_is_refused(tmp_path):
    root = both(tmp_path)
    with refused(str(root / NORMAL), "3 rows", "496,800", "cut short", "strict=False"):
        opened(root, strict=True)
    read = opened(root)
    assert any("496,800" in text for text in read.notices)
    assert any("449,919" in text for text in read.notices)
    assert any("54,621" in text for text in read.notices)


def recut_normal():
    """Normal rows of the attack file come first in it."""
    return without_bom(fixture(ATTACK_V0))


def recut_attack():
    header, _, *rows = without_bom(fixture(ATTACK_V0)).splitlines(keepends=True)
    return header + b"".join(row for row in rows if b"Attack" in row)


@pytest.mark.parametrize("there", [(), (ATTACK_V0,)], ids=["alone", "with-attack"])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("normal.csv", recut_normal()),
        ("attack.csv", recut_attack()),
        ("merged.csv", without_stage_row(fixture(NORMAL_V0))),
    ],
)
def test_the_recut_of_kaggle_is_refused_by_name(tmp_path, name, content, there):
    put(tmp_path / name, content)
    for other in there:
        place(tmp_path, other)
    with refused(str(tmp_path / name), "re-cut", "Kaggle", "ask iTrust"):
        opened(tmp_path)


def test_the_recut_beside_the_originals_is_left_alone(tmp_path):
    both(tmp_path / "original")
    put(tmp_path / "normal.csv", recut_normal())
    put(tmp_path / "attack.csv", recut_attack())
    read = opened(tmp_path)
    assert set(read.digests) == {f"original/{NORMAL}", f"original/{ATTACK}"}


@pytest.mark.parametrize("name", [NORMAL, ATTACK])
@pytest.mark.parametrize("kept", [0.2, 0.5, 0.9, 0.97])
def test_a_file_cut_in_the_middle_of_a_row_is_refused(tmp_path, name, kept):
    root = both(tmp_path)
    content = (root / name).read_bytes()
    last = content.rstrip(b"\n").rfind(b"\n") + 1
    put(root / name, content[: last + int(kept * (len(content) - last))])
    with refused(str(root / name), "copy it again"):
        opened(root)


def test_a_row_cut_in_the_middle_of_the_file_is_refused(tmp_path):
    content = re.sub(
        rb"(?m)^( 22/12/2015 4:00:01 PM(,[^,]*){9}).*$", rb"\1", NORMAL_TEXT
    )
    root = both(tmp_path, normal=content)
    with refused(str(root / NORMAL), "data row 2"):
        opened(root)


def test_a_row_with_too_many_cells_is_refused(tmp_path):
    content = NORMAL_TEXT.replace(b",259.5,", b",259.5,1,")
    root = both(tmp_path, normal=content)
    with refused(str(root / NORMAL), "copy it again"):
        opened(root)


def test_a_label_that_is_neither_is_refused(tmp_path):
    content = fixture(ATTACK_V0).replace(b"A ttack", b"Attacked")
    root = both(tmp_path, attack=content)
    with refused(str(root / ATTACK), "Normal or Attack", "data row 3", "Attacked"):
        opened(root)


def test_text_among_numbers_is_refused(tmp_path):
    content = NORMAL_TEXT.replace(b",259.5,", b",Bad Input,")
    root = both(tmp_path, normal=content)
    with refused(str(root / NORMAL), "'LIT101'", "data row 2", "Bad Input", "original"):
        opened(root)


def test_text_among_numbers_of_an_excel_file_is_refused(tmp_path):
    rows = rows_of(NORMAL_TEXT.replace(b",259.5,", b",Bad Input,"))
    path = write_xlsx(tmp_path / "SWaT_Dataset_Normal_v0.xlsx", rows)
    place(tmp_path, ATTACK_V0)
    with refused(str(path), "'LIT101'", "data row 2", "Bad Input"):
        opened(tmp_path)


def test_a_time_stamp_that_is_none_is_refused(tmp_path):
    content = NORMAL_TEXT.replace(b" 22/12/2015 4:00:01 PM", b" #######")
    root = both(tmp_path, normal=content)
    with refused(str(root / NORMAL), "Timestamp", "data row 2", "#######"):
        opened(root)


def test_a_damaged_excel_file_is_refused(tmp_path):
    path = write_xlsx(tmp_path / "SWaT_Dataset_Normal_v0.xlsx", rows_of(NORMAL_TEXT))
    place(tmp_path, ATTACK_V0)
    path.write_bytes(path.read_bytes()[:-400])
    with refused(str(path), "Excel", "damaged or cut short", "copy it again"):
        opened(tmp_path)


def test_a_missing_part_is_named(tmp_path):
    place(tmp_path, ATTACK_V0)
    with refused(str(tmp_path), ATTACK, "not Normal_v0 of SWaT v0", "ask iTrust"):
        opened(tmp_path)


def test_a_normal_file_cut_before_its_first_row_is_refused(tmp_path):
    root = both(tmp_path, normal=b"".join(NORMAL_TEXT.splitlines(keepends=True)[:2]))
    with refused(str(root / NORMAL)):
        opened(root, strict=True)


def test_a_file_of_the_right_length_is_not_refused(tmp_path, monkeypatch):
    from sightline.testbeds import swat

    counts = {"Normal_v0": (3, 0), "Attack_v0": (5, 3)}
    expected = {
        name: replace(swat._EXPECTED[name], rows=rows, attack_rows=n, attack_runs=None)
        for name, (rows, n) in counts.items()
    }
    monkeypatch.setattr(swat, "_EXPECTED", expected)
    read = opened(both(tmp_path), strict=True)
    assert read.test.n_steps == 5
    first = expected["Attack_v0"]
    monkeypatch.setitem(expected, "Attack_v0", replace(first, attack_rows=4))
    with refused(str(tmp_path / ATTACK), "labels 3 attack rows", "has 4"):
        opened(tmp_path, strict=True)


def test_time_is_told_by_the_row_and_not_by_its_number(tmp_path):
    times = times_from(datetime(2015, 12, 31, 11, 59, 55), 20, gap_at=12)
    read = opened(both(tmp_path, attack=swat_csv(times, drawn(20, 51))))
    assert read.test.time.tolist() == [seconds(when) for when in times]
    assert read.test.breaks.tolist() == [0, 12]
    assert times[12] - times[11] == 6 * SECOND
