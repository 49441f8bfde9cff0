"""The audit: what is planted is found, what is known is noted, what is right is so."""

from datetime import datetime

import numpy as np
import pytest
from testbed_files import (
    ATTACK_V0,
    DATA,
    NORMAL_V0,
    SWAT_TAGS,
    drawn,
    fixture,
    needs_batadal,
    needs_skab,
    place,
    put,
    swat_csv,
    times_from,
    write_hai,
)

import sightline
from sightline.testbeds import swat
from sightline.testbeds.base import Expected

N_NORMAL, N_ATTACK = 200, 300
NORMAL, ATTACK = "SWaT_Dataset_Normal_v0.csv", "SWaT_Dataset_Attack_v0.csv"
# Attack 6, on AIT202, ran from 12:00:55 to 12:04:10.
ATTACK_6 = (55, 251)
AIT202 = SWAT_TAGS.index("AIT202")
NORMAL_BEGINS, ATTACK_BEGINS = datetime(2015, 12, 22, 16), datetime(2015, 12, 28, 12)


@pytest.fixture
def audited(tmp_path, monkeypatch):
    """Return the audit of a small SWaT: all is right, but for what is changed."""

    def audit(
        *,
        normal=None,
        attack=None,
        normal_times=None,
        attacked=(ATTACK_6,),
        gaps=0,
        edit=lambda text: text,
        **counts,
    ):
        normal_times = normal_times or times_from(NORMAL_BEGINS, N_NORMAL)
        normal = quiet() if normal is None else normal
        put(tmp_path / NORMAL, edit(swat_csv(normal_times, normal)))
        attack_times = times_from(ATTACK_BEGINS, N_ATTACK)
        attack = busy() if attack is None else attack
        put(tmp_path / ATTACK, edit(swat_csv(attack_times, attack, attacked)))
        known = {"rows": N_ATTACK, "attack_rows": 196, "attack_runs": 1} | counts
        expected = {
            "Normal_v0": Expected(rows=N_NORMAL, attack_rows=0, gaps=0),
            "Attack_v0": Expected(gaps=gaps, **known),
        }
        monkeypatch.setattr(swat, "_EXPECTED", expected)
        return sightline.inspect_testbed("swat", tmp_path, cache=False)

    return audit


def quiet():
    return drawn(N_NORMAL, 51, seed=1)


def busy():
    return drawn(N_ATTACK, 51, seed=2)


def with_copied_rows():
    """Return the attack file's values with 80 rows of the normal one."""
    values = busy()
    values[100:180] = quiet()[20:100]
    return values


def texts(audit, severity):
    return [one.text for one in audit.findings if one.severity == severity]


def only_wrong(audit, *words):
    """Exactly one finding is wrong, and says so."""
    (text,) = texts(audit, "error")
    assert_words(text, *words)
    assert not audit.is_right


def assert_words(text, *words):
    missing = [word for word in words if word not in text]
    assert not missing, text


def noted(audit, *words):
    found = [t for t in texts(audit, "note") if all(word in t for word in words)]
    assert found, texts(audit, "note")


# ---- what is right -----------------------------------------------------------------


def test_files_that_are_right_are_said_to_be_so(audited):
    audit = audited()
    assert texts(audit, "error") == []
    assert audit.is_right
    assert audit.title == "SWaT v0"
    right = " ".join(audit.passed)
    assert_words(
        right,
        "2 of 2 files",
        "1 labelled runs (built-in) with 196 rows, against 1 known attacks",
        "share no stretch",
        "Every cell is a finite number",
    )
    first, second = audit.files
    assert (first.name, first.part, first.rows) == (NORMAL, "Normal_v0", N_NORMAL)
    assert (second.rows, second.expected, second.gaps) == (N_ATTACK, N_ATTACK, 0)
    assert (first.first, first.last) == ("2015-12-22 16:00:00", "2015-12-22 16:03:19")


def test_known_errors_of_the_labels_are_a_note(audited):
    noted(audited(), "06:30", "labels='list'")


def test_a_misspelt_label_is_a_note(audited):
    audit = audited(edit=lambda text: text.replace(",Attack\n", ",A ttack\n", 3))
    assert audit.is_right
    noted(audit, "3 rows are labelled 'A ttack'")


# ---- what is wrong -----------------------------------------------------------------


def test_other_rows_than_the_release_s_are_wrong(audited):
    audit = audited(rows=N_ATTACK + 1)
    only_wrong(audit, ATTACK, "300 rows", "301", "cut short")
    assert audit.files[1].expected == 301


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({"attack_rows": 197}, ("196 attack rows", "197")),
        ({"attack_runs": 2}, ("1 attack runs", "2")),
    ],
)
def test_other_labels_than_the_release_s_are_wrong(audited, counts, words):
    only_wrong(audited(**counts), ATTACK, *words)


def test_a_gap_too_many_is_wrong(audited):
    audit = audited(normal_times=times_from(NORMAL_BEGINS, N_NORMAL, gap_at=50))
    only_wrong(audit, NORMAL, "1 gaps", "has 0", "5 s after 2015-12-22 16:00:49")
    assert audit.files[0].gaps == 1


def test_a_gap_too_few_is_wrong(audited):
    only_wrong(audited(gaps=1), ATTACK, "0 gaps", "has 1")


def test_a_labelled_run_that_nobody_lists_is_wrong(audited):
    audit = audited(attacked=[ATTACK_6, (270, 280)], attack_rows=206, attack_runs=2)
    only_wrong(audit, "no attack list", "2015-12-28 12:04:30 (10 rows)")


def test_a_listed_attack_that_is_not_labelled_is_wrong(audited):
    audit = audited(attacked=[], attack_rows=0, attack_runs=0)
    assert not audit.is_right
    wrong = texts(audit, "error")
    assert "1 attack has no labelled row: 6 (2015-12-28 12:00:55)." in wrong


@pytest.mark.parametrize(
    ("span", "words"),
    [
        ((50, 251), ("5 rows too long", "0 rows too short")),
        ((55, 240), ("0 rows too long", "11 rows too short")),
    ],
)
def test_an_attack_labelled_too_long_or_short_is_wrong(audited, span, words):
    only_wrong(audited(attacked=[span], attack_rows=span[1] - span[0]), *words)


def test_time_that_goes_back_is_wrong(audited):
    times = times_from(NORMAL_BEGINS, N_NORMAL)
    times[80:90], times[90:100] = times[90:100], times[80:90]
    audit = audited(normal_times=times)
    assert not audit.is_right
    wrong = texts(audit, "error")
    assert any(NORMAL in t and "time goes back 1 times" in t for t in wrong)


def test_a_stretch_of_rows_in_train_and_test_is_wrong(audited):
    only_wrong(
        audited(attack=with_copied_rows()),
        "share 80 rows",
        "2015-12-22 16:00:20 of train",
        "2015-12-28 12:01:40 of test",
    )


def test_time_stamps_in_train_and_test_are_wrong(audited):
    begin = datetime(2015, 12, 28, 9, 59, 59)
    times = [begin, *times_from(ATTACK_BEGINS, N_NORMAL - 1)]
    wrong = texts(audited(normal_times=times), "error")
    assert any("199 time stamps of train occur in test" in text for text in wrong)


@pytest.mark.parametrize("word", ["", "nan", "inf"])
@pytest.mark.parametrize("name", ["train", "test"])
def test_a_cell_that_is_no_finite_number_is_wrong(audited, word, name):
    values = quiet() if name == "train" else busy()
    cell = f",{float(values[30, 1])!r},"
    audit = audited(edit=lambda text: text.replace(cell, f",{word},"))
    only_wrong(audit, f"{name}: 1 cell without", "LIT101 (1)")


def test_several_defects_are_all_found(audited):
    audit = audited(
        attack=with_copied_rows(),
        attacked=[ATTACK_6, (270, 280)],
        normal_times=times_from(NORMAL_BEGINS, N_NORMAL, gap_at=50),
    )
    wrong = " ".join(texts(audit, "error"))
    words = ("206 attack rows", "2 attack runs", "1 gaps", "no attack list", "share 80")
    assert_words(wrong, *words)
    assert len(texts(audit, "error")) == 5


def test_short_files_are_audited_and_not_refused(tmp_path):
    place(tmp_path, NORMAL_V0)
    place(tmp_path, ATTACK_V0)
    audit = sightline.inspect_testbed("swat", tmp_path, cache=False)
    assert not audit.is_right
    assert [row.rows for row in audit.files] == [3, 5]
    assert [row.expected for row in audit.files] == [496_800, 449_919]


@pytest.mark.parametrize("name", [NORMAL, ATTACK])
def test_a_file_without_a_row_is_told_and_is_no_crash(tmp_path, name):
    place(tmp_path, NORMAL_V0)
    place(tmp_path, ATTACK_V0)
    lines = (tmp_path / name).read_bytes().splitlines(keepends=True)
    n_header = 2 if name == NORMAL else 1
    (tmp_path / name).write_bytes(b"".join(lines[:n_header]))
    try:
        is_right = sightline.inspect_testbed("swat", tmp_path, cache=False).is_right
    except sightline.FileError:
        is_right = False
    assert not is_right


# ---- what is worth knowing ---------------------------------------------------------


def test_tags_that_never_vary_are_a_note(audited):
    normal, attack = quiet(), busy()
    normal[:, 3] = 1.0
    attack[:, [3, 7]] = 2.0
    audit = audited(normal=normal, attack=attack)
    assert audit.is_right
    noted(audit, "1 of 51 tags never vary in train", SWAT_TAGS[3])
    noted(audit, "2 of 51 tags never vary in test", SWAT_TAGS[3], SWAT_TAGS[7])


def test_an_attacked_tag_that_never_varies_is_a_note(audited):
    attack = busy()
    attack[:, AIT202] = 6.0
    audit = audited(attack=attack)
    assert audit.is_right
    noted(audit, "Attacked tags that never vary in test", "AIT202 (attack 6)")


def test_an_attacked_tag_that_varies_in_test_only_is_a_note(audited):
    normal = quiet()
    normal[:, AIT202] = 6.0
    audit = audited(normal=normal)
    assert audit.is_right
    noted(audit, "Attacked tags that vary in test only", "AIT202 (attack 6)")


def shared(audit, level):
    return [text for text in texts(audit, level) if "share 80 rows" in text]


def test_the_overlap_that_hai_21_03_is_known_for_is_a_note(tmp_path):
    n_tags = 79
    values = {"train1": drawn(100, n_tags, seed=50), "test3": drawn(100, n_tags, 51)}
    values["test3"][:80] = values["train1"][20:]
    # Its last 80 rows are the first of test3, in time too.
    begins = {"train1": "2020-07-12 23:59:40"}
    write_hai(tmp_path, "21.03", n_rows=30, values=values, begins=begins)
    audit = sightline.inspect_testbed("hai", tmp_path, cache=False)
    assert shared(audit, "note")
    assert not shared(audit, "error")
    noted(audit, "80 time stamps of train occur in test")
    noted(audit, "43,201", "cut_leak=True")


def test_the_same_overlap_in_another_release_is_wrong(tmp_path):
    values = {"train2": drawn(100, 86, seed=50), "test3": drawn(100, 86, seed=51)}
    values["test3"][:80] = values["train2"][20:]
    begins = {"train2": "2021-07-14 17:39:41"}
    write_hai(tmp_path, "22.04", n_rows=30, values=values, begins=begins)
    audit = sightline.inspect_testbed("hai", tmp_path, cache=False)
    assert shared(audit, "error")
    assert not shared(audit, "note")
    assert any("80 time stamps of train" in text for text in texts(audit, "error"))


def test_a_moment_at_which_one_file_ends_and_the_other_begins_is_a_note(tmp_path):
    content = fixture("wadi_A1_WADI_14days.csv")
    content = content.replace(b"9/25/2017,6:00:02.000", b"10/9/2017,6:00:00.000")
    put(tmp_path / "WADI_14days.csv", content)
    place(tmp_path, "wadi_A1_WADI_attackdata.csv")
    audit = sightline.inspect_testbed("wadi", tmp_path, cache=False)
    noted(audit, "1 time stamps of train occur in test")
    assert not any("time stamps" in text for text in texts(audit, "error"))


# ---- the real files ----------------------------------------------------------------


@needs_batadal
@pytest.mark.parametrize("release", ["full", "competition"])
def test_batadal_is_what_it_should_be(release):
    audit = sightline.inspect_testbed(
        "batadal", DATA / "batadal", release=release, cache=False
    )
    assert texts(audit, "error") == []
    assert audit.is_right


@needs_batadal
def test_batadal_with_one_row_less_is_not(tmp_path):
    for name in ("dataset03.csv", "dataset04.csv", "test_dataset.csv"):
        content = (DATA / "batadal" / name).read_bytes()
        if name == "dataset03.csv":
            lines = content.splitlines(keepends=True)
            content = b"".join(lines[:4000] + lines[4001:])
        put(tmp_path / name, content)
    audit = sightline.inspect_testbed("batadal", tmp_path, cache=False)
    (text,) = texts(audit, "error")
    assert_words(text, "8,760 rows", "8,761")
    noted(audit, "dataset03.csv: lacks 3,600 s after")


@needs_skab
def test_the_rows_that_skab_has_in_train_and_test_are_found():
    audit = sightline.inspect_testbed("skab", DATA / "skab", cache=False)
    assert any("share 572 rows" in finding.text for finding in audit.findings)
    assert audit.files[0].rows == 9_405


def test_a_folder_of_one_s_own_is_audited_too(tmp_path):
    values = np.arange(40.0)
    lines = ["time,a,b", *(f"{k},{v},{v % 7}" for k, v in enumerate(values))]
    put(tmp_path / "train.csv", "\n".join(lines) + "\n")
    lines = ["time,a,b,label"]
    lines += [
        f"{100 + k},{v % 5},{v},{int(10 <= k < 15)}" for k, v in enumerate(values)
    ]
    put(tmp_path / "test.csv", "\n".join(lines) + "\n")
    audit = sightline.inspect_testbed(tmp_path)
    assert audit.is_right, texts(audit, "error")
    assert [row.rows for row in audit.files] == [40, 40]


def test_the_fixtures_are_not_changed_by_looking(tmp_path):
    path = place(tmp_path, NORMAL_V0)
    place(tmp_path, ATTACK_V0)
    sightline.inspect_testbed("swat", tmp_path)
    assert path.read_bytes() == fixture(NORMAL_V0)
