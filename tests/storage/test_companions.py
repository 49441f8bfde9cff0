"""What comes with a stream: alarms, score, attacks, an alarm log and telemetry."""

import numpy as np
import polars as pl
import pytest
from samples import CHANNELS, N_TEST, N_TRAIN, bare_stream, refused

from sightline import ResidualStream, read_tables
from sightline.data.stream_input import is_called, is_time_name
from sightline.storage import join_files

CSV_AND_PARQUET = pytest.mark.parametrize("kind", ["csv", "parquet"])
ALARMS = (np.arange(N_TEST) % 7 == 0).astype(int)
SCORE = np.linspace(-1, 1, N_TEST)
# One row each 10 s, from 08:00:00.
CLOCK = [f"2026-11-15 08:{k // 6:02d}:{k % 6 * 10:02d}" for k in range(N_TRAIN)]


def write(path, columns):
    frame = pl.DataFrame(columns)
    if path.suffix == ".parquet":
        frame.write_parquet(path)
    else:
        frame.write_csv(path)
    return path


def table(path, split, **more):
    stream = bare_stream()
    values = getattr(stream, split).values
    return write(path, dict(zip(CHANNELS, values.T, strict=True)) | more)


@pytest.fixture
def read(tmp_path):
    """Read the sample as two tables with more columns in test, and some options."""

    def read(*, kind="csv", train=None, test=None, **options):
        train = table(tmp_path / f"train.{kind}", "train", **(train or {}))
        test = table(tmp_path / f"test.{kind}", "test", **(test or {}))
        return read_tables(train, test, **options)

    return read


@pytest.fixture
def timed():
    return bare_stream(test_time=CLOCK[:N_TEST])


def lines(path, *rows):
    path.write_text("\n".join(rows) + "\n")
    return path


# ---- alarms and score --------------------------------------------------------------


@CSV_AND_PARQUET
def test_alarms_and_score_are_columns_of_test(read, kind):
    stream = read(
        kind=kind, test={"Alarm": ALARMS, "s": SCORE}, alarms="Alarm", score="s"
    )
    assert stream.channels == CHANNELS
    np.testing.assert_array_equal(stream.alarms, ALARMS)
    np.testing.assert_array_equal(stream.score, SCORE)


@CSV_AND_PARQUET
def test_train_may_have_the_columns_too(read, kind):
    own = {"alarm": np.zeros(N_TRAIN, int), "score": np.zeros(N_TRAIN)}
    stream = read(
        **{"kind": kind, "train": own, "test": {"alarm": ALARMS, "score": SCORE}},
        **{"alarms": "alarm", "score": "score"},
    )
    assert stream.channels == CHANNELS


@CSV_AND_PARQUET
def test_alarms_and_score_are_files_with_a_value_a_row(read, kind, tmp_path):
    alarms = write(tmp_path / f"a.{kind}", {"x": ALARMS})
    score = write(tmp_path / f"s.{kind}", {"n": np.arange(N_TEST), "score": SCORE})
    stream = read(kind=kind, alarms=alarms, score=str(score))
    np.testing.assert_array_equal(stream.alarms, ALARMS)
    np.testing.assert_array_equal(stream.score, SCORE)


def test_arrays_are_taken_as_they_are(read):
    assert read(alarms=ALARMS).alarms.tolist() == ALARMS.tolist()


@pytest.mark.parametrize(
    "words", [("OK", "ALARM"), ("false", "True"), ("clear", "active")]
)
def test_alarms_may_be_two_words(read, tmp_path, timed, words):
    said = [words[k] for k in ALARMS]
    stream = read(test={"alarm": said}, alarms="alarm")
    np.testing.assert_array_equal(stream.alarms, ALARMS)
    assert f"{words[1]} = 1" in str(stream.notices) or words[1] == "True"
    path = write(tmp_path / "a.csv", {"time": CLOCK[:N_TEST], "alarm": said})
    np.testing.assert_array_equal(join_files(timed, alarms=path).alarms, ALARMS)


def test_words_that_do_not_say_which_is_an_alarm_are_refused(read):
    with refused("'alarm'", "must hold numbers", "'hi'"):
        read(test={"alarm": ["hi", "lo"] * (N_TEST // 2)}, alarms="alarm")


def test_a_file_of_numbers_needs_no_header(tmp_path, timed):
    np.savetxt(tmp_path / "bare.csv", SCORE)
    stream = join_files(timed, score=tmp_path / "bare.csv")
    np.testing.assert_allclose(stream.score, SCORE)
    # pandas calls the column of a series without a name "0".
    headed = lines(tmp_path / "pandas.csv", "0", *map(str, SCORE.tolist()))
    np.testing.assert_allclose(join_files(timed, score=headed).score, SCORE)


def test_a_file_with_time_is_matched_by_time(tmp_path, timed):
    order = np.random.default_rng(0).permutation(N_TRAIN)
    values = np.arange(N_TRAIN) * 0.5
    path = write(
        tmp_path / "score.csv",
        {"Timestamp": [CLOCK[k] for k in order], "score": values[order]},
    )
    np.testing.assert_array_equal(join_files(timed, score=path).score, values[:N_TEST])


def test_what_does_not_fit_is_refused(tmp_path, timed, read):
    short = write(tmp_path / "short.csv", {"alarm": ALARMS[1:], "b": 0})
    with refused("short.csv", "50 test rows", "49", "time stamps"):
        join_files(timed, alarms=short)
    three = write(tmp_path / "three.csv", {"a": ALARMS, "b": 0})
    with refused("three.csv", "one column of values", "'alarms'", "'a' and 'b'"):
        join_files(timed, alarms=three)
    late = write(tmp_path / "late.csv", {"time": CLOCK[1:], "x": range(N_TRAIN - 1)})
    with refused("late.csv", "no row for 1 of 50 rows", "08:00:00", "same clock"):
        join_files(timed, score=late)
    with refused("late.csv", "time stamps and the stream has none", "--time"):
        join_files(bare_stream(), score=late)
    with refused("three.csv", "alarms", "0, 1"):
        join_files(timed, alarms=write(tmp_path / "three.csv", {"a": SCORE}))
    with refused("--alarms al: ", "neither a column", "'LIT101'", "nor a file"):
        read(alarms="al")


# ---- columns that are no residuals -------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        *("alarm", "ALARMS", "Score", "anomaly_score", "label", "Labels", "Attack"),
        *("Normal/Attack", "is_anomaly", "IsAttack", "lable", "alram", "attak"),
        *("anomoly", "Attack LABLE (1:No Attack, -1:Attack)", "alert", "own alarm"),
    ],
)
@CSV_AND_PARQUET
def test_a_column_called_like_alarms_is_never_a_residual(read, name, kind):
    more = {name: ALARMS}
    # A message has at most 400 characters: long paths take from a long name.
    is_short = len(name) < 20
    shown = repr(name) if is_short else name[:10]
    ignored = [f"--ignore {name}"] if is_short else []
    with refused(shown, "--alarms, --score or --label", *ignored):
        read(kind=kind, test=more)
    with refused(shown, "`train`"):
        read(kind=kind, train={name: np.zeros(N_TRAIN)}, test=more)
    stream = read(kind=kind, test=more, ignore=[name])
    assert stream.channels == CHANNELS


def test_words_in_such_a_column_are_named_as_what_they_are(read):
    with refused("'Alarm'", "--alarms, --score or --label"):
        read(test={"Alarm": ["OK", "ALARM"] * (N_TEST // 2)})


def test_frames_are_guarded_too():
    frame = pl.DataFrame({"LIT101": [0.1, 0.2, 0.3], "alarm": [0, 1, 0]})
    with refused("'alarm'", "--ignore alarm"):
        ResidualStream.from_tables(frame, frame)
    stream = ResidualStream.from_tables(frame, frame, alarms="alarm")
    assert stream.alarms.tolist() == [0, 1, 0]


def test_a_column_of_time_is_no_residual(read):
    clock = {"Timestamp": np.arange(N_TRAIN)}
    with refused("'Timestamp'", "--time", "--ignore Timestamp"):
        read(train=clock, test={"Timestamp": np.arange(N_TEST)})


@pytest.mark.parametrize(
    "name",
    ["LIT101", "ALARM_LIT101", "score_1", "store", "level", "scale", "P1_attack2"],
)
def test_other_names_are_residuals(name):
    assert not is_called(name, "any")
    assert not is_time_name(name)


def test_text_may_be_ignored_and_what_is_not_there_may_not(read):
    note = {"note": ["x"] * N_TEST}
    assert read(test=note, ignore=["note"]).channels == CHANNELS
    with refused("no column 'nota' to ignore", "'LIT101'"):
        read(ignore=["nota"])


# ---- attacks -----------------------------------------------------------------------


def test_a_list_of_times_marks_and_names_attacks(read, tmp_path):
    path = lines(
        tmp_path / "attacks.csv",
        "id,start,end,tags,note,uncertainty_min",
        "# a comment",
        "A1,2026-11-15 08:01:40,2026-11-15 08:02:20,LIT101;P101,drained,0",
        "A2,2026-11-15 08:05:00,2026-11-15 08:05:00,,,0.5",
    )
    clock = {"time": CLOCK[:N_TEST]}
    stream = read(test=clock, time="time", attacks=path)
    labels = np.zeros(N_TEST, int)
    labels[10:15] = 1
    labels[27:34] = -1
    labels[30] = 1
    np.testing.assert_array_equal(stream.labels, labels)
    first, second = stream.attack_segments()
    assert (first.id, first.targets, first.note) == (
        *("A1", ("LIT101", "P101")),
        "drained",
    )
    assert second.id == "A2"
    assert not any("No labels" in notice for notice in stream.notices)


def test_labels_decide_and_the_list_gives_names(tmp_path, timed):
    path = lines(tmp_path / "a.csv", "id;start;end", "X;2026-11-15 08:01:00;08:02:00")
    path.write_text(path.read_text().replace(";08:02", ";2026-11-15 08:02"))
    stream = join_files(timed, attacks=path)
    np.testing.assert_array_equal(stream.labels, bare_stream().labels)
    assert [a.id for a in stream.attack_segments()] == ["X", "unlisted-2"]


def test_a_list_of_rows_includes_both_ends(read, tmp_path):
    path = lines(tmp_path / "attacks.csv", "id,start,stop", "A,10,14", ",30,33")
    stream = read(attacks=path)
    assert np.flatnonzero(stream.labels).tolist() == [*range(10, 15), *range(30, 34)]
    assert [a.id for a in stream.attack_segments()] == ["A", "2"]
    assert "attacks.csv: start and end are rows of test, counted from 0, both " in str(
        stream.notices
    )


def test_an_open_end_lasts_to_the_end_of_test(tmp_path, timed):
    path = lines(tmp_path / "attacks.csv", "id,start,end", "A,40,")
    stream = join_files(timed, attacks=path)
    assert stream.segments[0].segment.rows == slice(40, N_TEST)
    assert "has no end" in str(stream.notices)


def test_numbers_are_seconds_where_they_fit_the_time(tmp_path):
    path = lines(tmp_path / "attacks.csv", "id,start,end", "A,100,149")
    seconds = bare_stream(test_time=np.arange(N_TEST) * 10.0)
    assert join_files(seconds, attacks=path).segments[0].segment.rows == slice(10, 15)
    rows = lines(tmp_path / "rows.csv", "id,start,end", "A,10,14")
    dated = bare_stream(test_time=CLOCK[:N_TEST])
    assert join_files(dated, attacks=rows).segments[0].segment.rows == slice(10, 15)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (["id,start,end"], ["lists no attack", "leave the list out"]),
        (["id,start", "A,1"], ["needs the columns", "end"]),
        (["id,start,end", "A,5,3"], ["line 2", "'A'", "ends before it starts"]),
        (
            ["id,start,end", "A,2026-11-15 08:01,2026-11-15 08:02", "B,1,2"],
            ["line 3", "all as rows"],
        ),
        (
            ["id,start,end", "A,2026-11-16,2026-11-17"],
            ["none of its 1 attack", "08:00"],
        ),
        (["id,start,end", "A,soon,later"], ["line 2", "'start'", "time stamps like"]),
        (["id,start,end", "A,inf,inf"], ["line 2", "start must be a time"]),
        (
            ["id,start,end", "A,2026-11-15 08:01:00Z,2026-11-15 08:02:00Z"],
            ["line 2", "offset from UTC", "the same way"],
        ),
    ],
)
def test_a_list_that_cannot_be_used_is_refused(tmp_path, timed, rows, words):
    with refused("bad.csv", *words):
        join_files(timed, attacks=lines(tmp_path / "bad.csv", *rows))


def test_the_format_of_times_may_be_stated(read, tmp_path):
    clock = [f"11/03/2026 08:{k // 6:02d}:{k % 6 * 10:02d}" for k in range(N_TEST)]
    path = lines(
        tmp_path / "a.csv", "id,start,end", "A,11/03/2026 08:01:40,11/03/2026 08:02:20"
    )
    with refused("day and month", "time_format"):
        read(test={"time": clock}, time="time", attacks=path)
    for form, month in (("%m/%d/%Y %H:%M:%S", 11), ("%d/%m/%Y %H:%M:%S", 3)):
        stream = read(test={"time": clock}, time="time", attacks=path, time_format=form)
        assert np.flatnonzero(stream.labels).tolist() == [*range(10, 15)]
        assert np.datetime64(int(stream.test_time[0]), "s").item().month == month


def test_a_list_of_times_needs_time(tmp_path):
    path = lines(tmp_path / "a.csv", "id,start,end", "A,2026-11-15,2026-11-15")
    with refused("a.csv", "no time stamps", "--time"):
        join_files(bare_stream(), attacks=path)


def test_offsets_are_respected_on_both_sides(read, tmp_path):
    clock = {"time": [f"{stamp}+01:00" for stamp in CLOCK[:N_TEST]]}
    here = lines(
        tmp_path / "a.csv",
        "id,start,end",
        "A,2026-11-15T07:01:40Z,2026-11-15 07:02:20Z",
    )
    stream = read(test=clock, time="time", attacks=here)
    assert np.flatnonzero(stream.labels).tolist() == [*range(10, 15)]
    bare = lines(tmp_path / "b.csv", "id,start,end", "A,2026-11-15,2026-11-15 07:02")
    with refused("b.csv", "offset", "the same way"):
        read(test=clock, time="time", attacks=bare)


def test_an_attack_without_a_row_is_reported(tmp_path, timed):
    rows = ["A,2026-11-15 08:01:40,2026-11-15 08:02:20", "B,2026-12-01,2026-12-02"]
    path = lines(tmp_path / "a.csv", "id,start,end", *rows)
    assert (
        "a.csv: attacks without a test row: B."
        in join_files(timed, attacks=path).notices
    )


# ---- alarm log ---------------------------------------------------------------------


def test_an_alarm_log_becomes_alarms_by_time(tmp_path):
    time = np.r_[np.arange(25) * 10.0, 1000.0 + np.arange(25) * 10.0]
    stream = bare_stream(test_time=time)
    path = lines(
        tmp_path / "log.csv",
        "start,end,tag,text",
        "43,47,LIT101,between two rows",
        "100,130,LIT101,high",
        "500,600,LIT101,in the gap",
        "900,1012,,across the end of the gap",
        "200,,P101,without end",
        "9999,9999,P101,after test",
    )
    joined = join_files(stream, alarm_log=path)
    rows = [4, *range(10, 14), 20, 25, 26]
    assert np.flatnonzero(joined.alarms).tolist() == rows
    assert "log.csv: 6 alarms, 2 of them outside of test; 8 of 50 test rows" in str(
        joined.notices
    )
    assert "log.csv: 1 alarm without an end" in str(joined.notices)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (["start,end"], ["lists no alarm"]),
        (["when,tag", "1,x"], ["'start'", "'when' and 'tag'"]),
        (["start,end", "2026-11-15 08:01,2026-11-15 08:00"], ["line 2", "ends before"]),
        (["start,end", "2026-11-16,2026-11-17"], ["none of its 1 alarm", "same clock"]),
    ],
)
def test_a_log_that_cannot_be_used_is_refused(tmp_path, timed, rows, words):
    with refused("bad.csv", *words):
        join_files(timed, alarm_log=lines(tmp_path / "bad.csv", *rows))


def test_an_alarm_log_needs_time_and_no_other_alarms(tmp_path, timed):
    path = lines(tmp_path / "log.csv", "start,end", "1,2")
    with refused("log.csv", "matched by time", "--time"):
        join_files(bare_stream(), alarm_log=path)
    with refused("--alarms", "--alarm-log"):
        join_files(timed, alarm_log=path, alarms=path)


# ---- telemetry ---------------------------------------------------------------------


@CSV_AND_PARQUET
def test_telemetry_is_matched_by_time(read, tmp_path, kind):
    level = np.arange(N_TRAIN) * 1.5
    plant = {"t": CLOCK, "level": level, "pump": level % 2}
    paths = {
        f"telemetry_{split}": write(tmp_path / f"plant-{split}.{kind}", plant)
        for split in ("train", "test")
    }
    stream = read(
        **{"kind": kind, "train": {"t": CLOCK}, "test": {"t": CLOCK[5 : N_TEST + 5]}},
        **{"time": "t"} | paths,
    )
    assert stream.telemetry_channels == ("level", "pump")
    for split, rows in (("train", slice(None)), ("test", slice(5, N_TEST + 5))):
        table = getattr(stream, f"telemetry_{split}")
        values = np.concatenate(list(table.chunks()))
        np.testing.assert_array_equal(values[:, 0], level[rows])


@CSV_AND_PARQUET
def test_telemetry_without_time_needs_the_same_rows(read, tmp_path, kind):
    train = write(tmp_path / f"p1.{kind}", {"a": np.arange(N_TRAIN), "b": 1.0})
    test = write(tmp_path / f"p2.{kind}", {"b": 1.0, "a": np.arange(N_TEST)})
    stream = read(kind=kind, telemetry_train=train, telemetry_test=test)
    assert stream.telemetry_channels == ("a", "b")
    rows = np.concatenate(list(stream.telemetry_test.chunks()))
    np.testing.assert_array_equal(rows[:, 0], np.arange(N_TEST))
    with refused("p1", "must have the 50 rows", "60", "--time"):
        read(kind=kind, telemetry_train=train, telemetry_test=train)
    other = write(tmp_path / f"p3.{kind}", {"c": np.arange(N_TEST)})
    with refused("p3", "tags of the telemetry of train", "'c'"):
        read(kind=kind, telemetry_train=train, telemetry_test=other)
    with refused("given together"):
        read(kind=kind, telemetry_train=train)
    with_label = write(tmp_path / f"p4.{kind}", {"a": np.arange(N_TRAIN), "attack": 0})
    with refused("p4", "'attack'", "--ignore attack"):
        read(kind=kind, telemetry_train=with_label, telemetry_test=test)
