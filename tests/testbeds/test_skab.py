"""SKAB: 34 short runs, known by the folder they lie in."""

import numpy as np
import pytest
from testbed_files import (
    DATA,
    assert_exact,
    column_of,
    needs_skab,
    put,
    refused,
    rows_of,
    seconds,
    table_of,
)

import sightline

HERE = DATA / "skab"
CHANNELS = [
    *"Accelerometer1RMS Accelerometer2RMS Current Pressure Temperature".split(),
    *("Thermocouple", "Voltage", "Volume Flow RateRMS"),
]
RUNS = [
    *(f"valve1/{k}" for k in range(16)),
    *(f"valve2/{k}" for k in range(4)),
    *(f"other/{k}" for k in range(1, 15)),
]


def opened(root, **options):
    options = {"cache": False} | options
    return sightline.open_testbed("skab", root, **options)


def run_text(number, *, flags=(0, 1, 1, 0), skips=(0, 1, 2, 3)):
    columns = ["datetime", *CHANNELS, *(["anomaly", "changepoint"] if flags else [])]
    lines = [";".join(columns)]
    for k, second in enumerate(skips):
        cells = [f"2020-03-09 10:34:{second:02}"]
        cells += [f"{number}.{k}{j}" for j in range(8)]
        cells += [f"{flags[k]}.0", "0.0"] if flags else []
        lines.append(";".join(cells))
    return "\r\n".join(lines) + "\r\n"


def made_up(folder, **changed):
    put(folder / "anomaly-free" / "anomaly-free.csv", run_text(99, flags=()))
    for number, name in enumerate(RUNS):
        put(folder / f"{name}.csv", changed.get(name) or run_text(number))
    return folder


def test_made_up_runs_read_exactly_in_their_order(tmp_path):
    read = opened(made_up(tmp_path), strict=False)
    assert read.revision == "skab-1"
    assert list(read.test.channels) == CHANNELS
    expected = [
        [float(f"{number}.{k}{j}") for j in range(8)]
        for number in range(34)
        for k in range(4)
    ]
    assert_exact(read.test.values, np.array(expected))
    assert read.test.labels.tolist() == [0, 1, 1, 0] * 34
    assert read.test.breaks.tolist() == list(range(0, 136, 4))
    assert [a.id for a in read.test.attacks] == RUNS
    first = read.test.attacks[0]
    assert (first.start, first.stop) == (1, 3)
    assert all(attack.note for attack in read.test.attacks)
    assert read.train.values.shape == (4, 8)


def test_a_few_skipped_seconds_are_no_break_but_more_are(tmp_path):
    changed = {"valve1/0": run_text(0, skips=(0, 5, 6, 12))}
    read = opened(made_up(tmp_path, **changed), strict=False)
    assert read.test.breaks.tolist()[:3] == [0, 3, 4]
    assert any("5 s" in text for text in read.notices)


def test_a_missing_run_is_named(tmp_path):
    (made_up(tmp_path) / "other" / "7.csv").unlink()
    with refused(str(tmp_path), "other/7", "waico/SKAB"):
        opened(tmp_path, strict=False)


def test_a_flag_that_is_neither_is_refused(tmp_path):
    made_up(tmp_path, **{"other/3": run_text(22, flags=(0, 2, 1, 0))})
    path = tmp_path / "other" / "3.csv"
    with refused(str(path), "'anomaly'", "0 or 1", "copy it again"):
        opened(tmp_path, strict=False)


@pytest.mark.parametrize("name", ["other/3", "anomaly-free/anomaly-free"])
def test_a_file_cut_in_the_middle_of_a_row_is_refused(tmp_path, name):
    path = made_up(tmp_path) / f"{name}.csv"
    path.write_bytes(path.read_bytes()[:-30])
    with refused(str(path), "copy it again"):
        opened(tmp_path, strict=False)


@pytest.mark.parametrize("source", ["list", "adjusted"])
def test_its_only_labels_are_its_own(tmp_path, source):
    with refused("SKAB", "labels='built-in'"):
        opened(made_up(tmp_path), strict=False, labels=source)


def test_a_short_file_is_refused(tmp_path):
    made_up(tmp_path)
    with refused("anomaly-free.csv", "4 rows", "9,405"):
        opened(tmp_path)


def test_a_run_with_two_anomalies_is_told(tmp_path):
    made_up(tmp_path, **{"other/3": run_text(22, flags=(1, 0, 1, 0))})
    read = opened(tmp_path, strict=False)
    assert any("other/3" in text and "2 attack runs" in text for text in read.notices)


# ---- the real files ----------------------------------------------------------------


@pytest.fixture(scope="module")
def full():
    return opened(HERE)


@needs_skab
def test_the_real_files_have_the_counts_of_the_release(full):
    assert full.train.values.shape == (9_405, 8)
    assert full.test.n_steps == 37_401
    assert int((full.test.labels == 1).sum()) == 13_067
    assert len(full.test.attacks) == 34
    assert [attack.id for attack in full.test.attacks] == RUNS
    assert len(full.digests) == 35


@needs_skab
def test_the_real_files_read_exactly(full):
    start = 0
    for name in RUNS:
        content = (HERE / f"{name}.csv").read_bytes()
        rows = rows_of(content, ";")[1:]
        here = slice(start, start + len(rows))
        assert_exact(full.test.values[here], table_of(row[1:9] for row in rows))
        assert full.test.time[here].tolist() == [seconds(row[0]) for row in rows]
        flags = [int(float(cell)) for cell in column_of(content, "anomaly", ";")]
        assert full.test.labels[here].tolist() == flags
        assert start in full.test.breaks
        start += len(rows)
    assert start == full.test.n_steps


@needs_skab
def test_the_anomaly_free_run_reads_exactly(full):
    rows = rows_of((HERE / "anomaly-free" / "anomaly-free.csv").read_bytes(), ";")[1:]
    assert_exact(full.train.values, table_of(row[1:] for row in rows))
    assert not full.train.labels.any()
