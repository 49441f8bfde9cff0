"""One's own plant, read from a folder as an engineer would put it together."""

import hashlib
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest

from sightline import FileError, StreamError, inspect_testbed, open_testbed

START = datetime(2026, 11, 15, 8, tzinfo=UTC).timestamp()
CHANNELS = ("FIT101", "LIT101", "P101")


def stamps(n_rows, step_s=10, first=0, form="%Y-%m-%d %H:%M:%S"):
    return [
        datetime.fromtimestamp(START + first + step_s * k, UTC).strftime(form)
        for k in range(n_rows)
    ]


def frame(n_rows=60, first=0, seed=1, **options):
    """A wide table: three tags, one row each ten seconds."""
    values = np.random.default_rng(seed).normal(size=(n_rows, 3)).round(3)
    columns = {"time": stamps(n_rows, first=first, **options)}
    return pl.DataFrame(columns | dict(zip(CHANNELS, values.T, strict=True)))


def melted(table):
    """The same readings as a long table, without those that are missing."""
    return table.unpivot(index="time", variable_name="tag").drop_nulls("value")


def plant(folder, train=None, test=None, **texts):
    """Write a folder; tables as frames (CSV) or text, other files as text."""
    folder.mkdir(exist_ok=True)
    tables = {
        "train": frame() if train is None else train,
        "test": frame(first=3600, seed=2) if test is None else test,
    }
    for name, table in tables.items():
        text = table if isinstance(table, str) else table.write_csv()
        (folder / f"{name}.csv").write_text(text, encoding="utf-8")
    for name, text in texts.items():
        file = "plant.toml" if name == "plant" else f"{name}.csv"
        (folder / file).write_text(text, encoding="utf-8")
    return folder


def refusal(folder, kind=FileError):
    with pytest.raises(kind) as caught:
        open_testbed(folder)
    said = str(caught.value)
    assert said.endswith((".", "?"))
    assert "\n" not in said
    return said


def assert_same(one, other):
    for name in ("train", "test"):
        a, b = getattr(one, name), getattr(other, name)
        order = [b.channels.index(channel) for channel in a.channels]
        np.testing.assert_array_equal(a.values, b.values[:, order])
        np.testing.assert_array_equal(a.time, b.time)
        np.testing.assert_array_equal(a.labels, b.labels)
        np.testing.assert_array_equal(a.breaks, b.breaks)
        assert a.step_s == b.step_s
        assert a.attacks == b.attacks


# The tables.


def test_a_folder_with_two_tables_is_a_plant(tmp_path):
    found = open_testbed(plant(tmp_path / "mine"))
    assert found.name == "mine"
    assert found.release == ""
    assert found.revision == "mine"
    assert found.train.channels == found.test.channels == CHANNELS
    assert found.train.n_steps == found.test.n_steps == 60
    assert found.train.step_s == 10.0
    assert found.train.time[0] == START
    np.testing.assert_array_equal(
        found.test.values, frame(first=3600, seed=2).select(CHANNELS).to_numpy()
    )
    assert {tag.role for tag in found.train.tags} == {"sensor"}
    assert found.notices == (
        "No attacks.csv and no column 'label' in test: all of test is taken as normal.",
    )


def test_the_path_may_be_text_and_the_folder_called_like_a_testbed(
    tmp_path, monkeypatch
):
    plant(tmp_path / "swat")
    monkeypatch.chdir(tmp_path)
    assert open_testbed("swat").train.n_steps == 60


ATTACKS = "id,start,end\n1,2026-11-15 09:01:00,2026-11-15 09:02:00\n"


def with_holes(table):
    """Take out some cells: a few, and more than a minute of one tag."""
    row = pl.int_range(pl.len())
    return table.with_columns(
        LIT101=pl.when(row.is_between(20, 35)).then(None).otherwise("LIT101"),
        P101=pl.when(row.is_in([5, 6, 50])).then(None).otherwise("P101"),
    )


@pytest.mark.parametrize(
    "change", [lambda table: table, with_holes], ids=["all", "holes"]
)
@pytest.mark.parametrize("form", ["wide parquet", "long csv", "long parquet", "typed"])
def test_the_form_of_the_tables_does_not_matter(tmp_path, form, change):
    tables = {"train": frame(), "test": frame(first=3600, seed=2)}
    tables = {name: change(table) for name, table in tables.items()}
    wide = open_testbed(plant(tmp_path / "wide", **tables, attacks=ATTACKS))
    other = tmp_path / "other"
    other.mkdir()
    (other / "attacks.csv").write_text(ATTACKS)
    for name, table in tables.items():
        made = melted(table) if form.startswith("long") else table
        if form == "typed":
            made = made.with_columns(pl.col("time").str.to_datetime())
        if form == "long csv":
            made.write_csv(other / f"{name}.csv")
        else:
            made.write_parquet(other / f"{name}.parquet")
    found = open_testbed(other)
    assert_same(wide, found)
    assert found.test.labels.sum() == 7


def test_semicolons_and_decimal_commas_do_not_matter(tmp_path):
    german = {
        name: table.write_csv(separator=";", decimal_comma=True)
        for name, table in (("train", frame()), ("test", frame(first=3600, seed=2)))
    }
    assert_same(
        open_testbed(plant(tmp_path / "points")),
        open_testbed(plant(tmp_path / "commas", **german)),
    )


def test_columns_are_known_by_name_and_not_by_place(tmp_path):
    test = frame(first=3600, seed=2)
    turned = test.select("P101", "time", "FIT101", "LIT101")
    assert_same(
        open_testbed(plant(tmp_path / "straight", test=test)),
        open_testbed(plant(tmp_path / "turned", test=turned)),
    )


def test_one_table_may_be_wide_and_the_other_long(tmp_path):
    test = frame(first=3600, seed=2)
    turned = test.select("time", "P101", "LIT101", "FIT101")
    train = frame().select("time", "P101", "LIT101", "FIT101")
    assert_same(
        open_testbed(plant(tmp_path / "wide", train=train, test=turned)),
        open_testbed(plant(tmp_path / "mixed", train=train, test=melted(test))),
    )


def test_constant_tags_are_kept(tmp_path):
    still = {
        name: frame(first=first).with_columns(P101=pl.lit(1.0))
        for name, first in (("train", 0), ("test", 3600))
    }
    assert open_testbed(plant(tmp_path / "mine", **still)).train.channels == CHANNELS


def test_what_was_held_is_told_for_each_table(tmp_path):
    found = open_testbed(plant(tmp_path / "mine", test=with_holes(frame(first=3600))))
    assert found.notices[:-1] == (
        "test.csv: 9 cells without a reading: the last value was held: LIT101 (6) and "
        "P101 (3).",
        "test.csv: 10 cells without a value, and the last one is too old to be held: "
        "LIT101 (10).",
    )


def test_a_value_of_a_long_table_is_held_once_and_not_twice(tmp_path):
    test = melted(with_holes(frame(first=3600)))
    found = open_testbed(plant(tmp_path / "mine", train=melted(frame()), test=test))
    level = found.test.values[:, found.test.channels.index("LIT101")]
    assert np.flatnonzero(np.isnan(level)).tolist() == list(range(26, 36))


def test_files_are_known_by_their_digests(tmp_path):
    tags = "tag,role\nP101,actuator\n"
    folder = plant(tmp_path / "mine", attacks=ATTACKS, tags=tags, plant="hold_s = 60\n")
    (folder / "notes.txt").write_text("not read")
    found = open_testbed(folder).digests
    assert set(found) == {
        "train.csv",
        "test.csv",
        "attacks.csv",
        "tags.csv",
        "plant.toml",
    }
    text = (folder / "tags.csv").read_bytes()
    assert found["tags.csv"] == hashlib.sha256(text).hexdigest()


# Labels and attacks.


def labelled(rows, **options):
    values = [1 if k in rows else 0 for k in range(60)]
    return frame(first=3600, seed=2, **options).with_columns(label=pl.Series(values))


def test_a_label_column_is_the_truth(tmp_path):
    found = open_testbed(plant(tmp_path / "mine", test=labelled(range(6, 13))))
    assert np.flatnonzero(found.test.labels == 1).tolist() == list(range(6, 13))
    assert found.test.channels == CHANNELS
    assert found.test.attacks == ()
    assert found.notices == ()


@pytest.mark.parametrize("name", ["attacks", "incidents"])
def test_a_list_of_attacks_is_the_truth_both_ends_included(tmp_path, name):
    listed = (
        "id,start,end,tags,note\n"
        "A7,2026-11-15 09:01:00,2026-11-15 09:02:00,LIT101;P101,level spoofed\n"
    )
    found = open_testbed(plant(tmp_path / "mine", **{name: listed})).test
    assert np.flatnonzero(found.labels == 1).tolist() == list(range(6, 13))
    (attack,) = found.attacks
    assert (attack.id, attack.start, attack.stop) == ("A7", 6, 13)
    assert attack.targets == ("LIT101", "P101")
    assert attack.note == "level spoofed"


@pytest.mark.parametrize(
    "header",
    [
        "id,start,end,tags",
        "Attack_ID, Start, End, Tags",
        "incident,start,stop,targets",
        "incident_id,start,end,targets",
    ],
)
def test_columns_of_the_list_have_several_names(tmp_path, header):
    row = 'A7,2026-11-15 09:01:00,2026-11-15 09:02:00,"LIT101, P101"\n'
    found = open_testbed(plant(tmp_path / "mine", attacks=f"{header}\n{row}"))
    (attack,) = found.test.attacks
    assert attack.id == "A7"
    assert attack.targets == ("LIT101", "P101")


def test_the_list_may_have_semicolons(tmp_path):
    listed = (
        "id;start;end;tags\n1;2026-11-15 09:01:00;2026-11-15 09:02:00;LIT101,P101\n"
    )
    (attack,) = open_testbed(plant(tmp_path / "mine", attacks=listed)).test.attacks
    assert attack.targets == ("LIT101", "P101")


def test_an_attack_without_an_id_is_numbered(tmp_path):
    listed = ATTACKS.replace("\n1,", "\n,")
    (attack,) = open_testbed(plant(tmp_path / "mine", attacks=listed)).test.attacks
    assert attack.id == "1"


def test_of_a_column_and_a_list_the_column_labels_and_the_list_names(tmp_path):
    folder = plant(tmp_path / "mine", test=labelled(range(7, 20)), attacks=ATTACKS)
    found = open_testbed(folder)
    assert np.flatnonzero(found.test.labels == 1).tolist() == list(range(7, 20))
    assert [(a.id, a.start, a.stop) for a in found.test.attacks] == [("1", 6, 13)]


def test_an_empty_list_says_that_there_was_no_attack(tmp_path):
    found = open_testbed(plant(tmp_path / "mine", attacks="id,start,end\n"))
    assert found.test.attacks == ()
    assert found.notices == ()


def uncertain(*rows):
    lines = [
        f"{k},2026-11-15 {start},2026-11-15 {end},{minutes}"
        for k, (start, end, minutes) in enumerate(rows, start=1)
    ]
    return "\n".join(["id,start,end,uncertainty_min", *lines]) + "\n"


def test_minutes_of_uncertainty_are_ignored(tmp_path):
    listed = uncertain(("09:03:00", "09:04:00", "0.5"))
    labels = open_testbed(plant(tmp_path / "mine", attacks=listed)).test.labels
    assert np.flatnonzero(labels == 1).tolist() == list(range(18, 25))
    assert np.flatnonzero(labels == -1).tolist() == [15, 16, 17, 25, 26, 27]


def test_what_is_certain_of_another_attack_stays_an_attack(tmp_path):
    listed = uncertain(("09:03:00", "09:04:00", "1"), ("09:04:20", "09:05:00", ""))
    for text in (listed, "\n".join([listed.split("\n")[k] for k in (0, 2, 1)])):
        labels = open_testbed(plant(tmp_path / "mine", attacks=text)).test.labels
        is_attack = [*range(18, 25), *range(26, 31)]
        assert np.flatnonzero(labels == 1).tolist() == is_attack
        assert np.flatnonzero(labels == -1).tolist() == [*range(12, 18), 25]


def test_uncertain_minutes_of_an_attack_before_test_are_ignored_too(tmp_path):
    listed = uncertain(("08:50:00", "08:59:55", "1"))
    labels = open_testbed(plant(tmp_path / "mine", attacks=listed)).test.labels
    assert np.flatnonzero(labels == -1).tolist() == [0, 1, 2, 3, 4, 5]


def test_an_attack_between_two_rows_is_not_said_to_lie_outside(tmp_path):
    listed = uncertain(("09:03:02", "09:03:07", "0"))
    found = open_testbed(plant(tmp_path / "mine", attacks=listed))
    assert found.notices == (
        "1 incident lies in a gap, between two rows: 1 (2026-11-15 09:03:02).",
    )


def test_an_incident_inside_train_is_left_out_with_a_break(tmp_path):
    listed = uncertain(("08:03:00", "08:04:00", "0.5"))
    found = open_testbed(plant(tmp_path / "mine", incidents=listed))
    assert found.train.n_steps == 60 - 13
    assert found.train.breaks.tolist() == [0, 15]
    assert found.train.attacks == ()
    assert not found.train.labels.any()
    assert found.notices == (
        "13 rows of train are labelled as attacks or ignored and were left out of it.",
    )


def test_rows_of_train_labelled_as_attacks_are_left_out(tmp_path):
    train = frame().with_columns(label=pl.Series([0] * 50 + [1] * 10))
    found = open_testbed(plant(tmp_path / "mine", train=train, attacks=ATTACKS))
    assert found.train.n_steps == 50


def test_an_incident_outside_of_both_tables_is_told(tmp_path):
    listed = uncertain(("07:00:00", "07:10:00", ""), ("09:01:00", "09:02:00", ""))
    found = open_testbed(plant(tmp_path / "mine", attacks=listed))
    assert found.notices == (
        "1 incident lies outside of train and test: 1 (2026-11-15 07:00:00).",
    )
    assert [attack.id for attack in found.test.attacks] == ["2"]
    rows = [(f"07:{k:02d}:00", f"07:{k:02d}:30", "") for k in range(40)]
    many = open_testbed(plant(tmp_path / "many", attacks=uncertain(*rows)))
    (said,) = many.notices
    assert said.startswith("40 incidents lie outside of train and test: 1 (2026-11-15")
    assert said.endswith("and 37 more.")


def test_attacked_tags_that_are_not_recorded_are_told(tmp_path):
    listed = "id,start,end,tags\n4,2026-11-15 09:01:00,2026-11-15 09:02:00,LIT101;MV9\n"
    found = open_testbed(plant(tmp_path / "mine", attacks=listed))
    assert found.notices == ("Attacked tags that are not recorded: MV9 (attack 4).",)


@pytest.mark.parametrize(
    ("listed", "sentences"),
    [
        (
            "id,start\n1,2026-11-15 09:01:00\n",
            ["needs the columns id, start, end", "end"],
        ),
        (
            uncertain(("09:02:00", "09:01:00", "")),
            ["line 2: attack '1' ends before it starts", "check start and end"],
        ),
        (
            uncertain(("09:01:00", "09:02:00", ""), ("09:03:00", "09:04:00", "-1")),
            ["line 3: uncertainty_min must be 0 or more minutes; got '-1'"],
        ),
        (
            uncertain(("09:01:00", "09:02:00", "some")),
            ["line 2: uncertainty_min must be 0 or more minutes; got 'some'"],
        ),
        (uncertain(("09:01:00", "09:02:00", "nan")), ["got 'nan'"]),
        (
            "id,start,end\n1,2026-11-15T09:01:00Z,2026-11-15T09:02:00Z\n",
            [
                "time stamps of the list carry a zone, those of the tables do not",
                "state timezone in plant.toml",
            ],
        ),
    ],
    ids=["column", "backwards", "negative", "words", "nan", "zone"],
)
def test_a_list_that_cannot_be_is_refused(tmp_path, listed, sentences):
    said = refusal(plant(tmp_path / "mine", attacks=listed))
    assert said.startswith(str(tmp_path / "mine" / "attacks.csv"))
    for sentence in sentences:
        assert sentence in said


@pytest.mark.parametrize(
    ("start", "end", "name"),
    [("2026-11-15 09:05:00", "later", "end"), ("", "2026-11-15 09:05:00", "start")],
)
def test_a_time_that_is_none_is_refused_by_its_line(tmp_path, start, end, name):
    listed = f"{ATTACKS}2,{start},{end}\n"
    said = refusal(plant(tmp_path / "mine", attacks=listed))
    assert "attacks.csv: " in said
    assert f"'{name}'" in said
    assert "line 3" in said


# Tags.


def test_roles_stages_and_units_come_from_a_table(tmp_path):
    tags = (
        "tag,role,stage,unit\n"
        "P101,actuator,1,\nLIT101,sensor,1,mm\nFIT101,setpoint,,m3/h\n"
    )
    found = open_testbed(plant(tmp_path / "mine", tags=tags, attacks=ATTACKS))
    assert found.train.channels == CHANNELS
    assert [tag.role for tag in found.train.tags] == ["setpoint", "sensor", "actuator"]
    assert [tag.stage for tag in found.train.tags] == [None, "1", "1"]
    assert [tag.unit for tag in found.train.tags] == ["m3/h", "mm", None]
    assert found.test.tags == found.train.tags
    assert found.notices == ()


def test_a_tag_can_be_left_out_and_is_told(tmp_path):
    tags = "tag,role\nLIT101,ignore\nP101,actuator\nFIT101,\n"
    found = open_testbed(plant(tmp_path / "mine", tags=tags, attacks=ATTACKS))
    assert found.test.channels == found.train.channels == ("FIT101", "P101")
    np.testing.assert_array_equal(
        found.test.values,
        frame(first=3600, seed=2).select("FIT101", "P101").to_numpy(),
    )
    assert found.notices == (
        "tags.csv: LIT101 was left out, because its role is ignore.",
    )


def test_what_the_table_of_tags_does_not_know_is_told(tmp_path):
    tags = "tag,role\nLIT101,sensor\nLIT999,sensor\n"
    found = open_testbed(plant(tmp_path / "mine", tags=tags, attacks=ATTACKS))
    assert found.notices == (
        "tags.csv: LIT999 is in no table.",
        "tags.csv: does not list FIT101 and P101, taken as sensors.",
    )


def test_to_leave_out_every_tag_is_refused(tmp_path):
    tags = "tag,role\n" + "".join(f"{name},ignore\n" for name in CHANNELS)
    for tables in ({}, {"train": melted(frame()), "test": melted(frame(first=3600))}):
        assert "ignore" in refusal(plant(tmp_path / "mine", tags=tags, **tables))


def test_a_table_of_tags_without_tags_is_refused(tmp_path):
    said = refusal(plant(tmp_path / "mine", tags="name,role\nP101,actuator\n"))
    assert "tags.csv: needs the columns tag; tag is missing" in said


def test_a_table_without_tags_is_refused_by_its_name(tmp_path):
    bare = "time,label\n0,0\n1,0\n"
    said = refusal(plant(tmp_path / "mine", train=bare, test=bare))
    assert "train.csv" in said
    assert "tags.csv" not in said


# plant.toml.


def test_a_zone_can_be_stated(tmp_path):
    found = open_testbed(
        plant(tmp_path / "mine", plant='timezone = "Asia/Singapore"\n')
    )
    assert found.train.time[0] == START - 8 * 3600


@pytest.mark.parametrize(
    "listed",
    [
        "id,start,end\n1,2026-11-15 09:01:00,2026-11-15 09:02:00\n",
        "id,start,end\n1,2026-11-15T08:01:00Z,2026-11-15T08:02:00Z\n",
    ],
)
def test_attacks_are_in_the_stated_zone_or_in_their_own(tmp_path, listed):
    folder = plant(tmp_path / "mine", attacks=listed, plant='timezone="Europe/Berlin"')
    (attack,) = open_testbed(folder).test.attacks
    assert (attack.start, attack.stop) == (6, 13)


def test_another_form_of_time_can_be_stated(tmp_path):
    form = "%d/%m/%Y %H:%M:%S"
    folder = plant(
        tmp_path / "mine",
        train=frame(form=form),
        test=frame(first=3600, seed=2, form=form),
        attacks="id,start,end\n1,15/11/2026 09:01:00,15/11/2026 09:02:00\n",
        plant=f'time_format = "{form}"\n',
    )
    found = open_testbed(folder)
    assert found.train.time[0] == START
    assert found.test.labels.sum() == 7


def test_step_and_limit_can_be_stated(tmp_path):
    folder = plant(
        tmp_path / "mine",
        train=melted(frame()),
        test=melted(with_holes(frame(first=3600))),
        plant="step_s = 20\nhold_s = 20.0\n",
    )
    found = open_testbed(folder)
    assert found.test.step_s == 20.0
    assert found.test.n_steps in (30, 31)
    level = found.test.values[:, found.test.channels.index("LIT101")]
    # The last reading, of row 19, is seen at row 20, and held for one row of 20 s.
    assert np.flatnonzero(np.isnan(level)).tolist()[0] == 12


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("hold = 5\n", "has an unknown key 'hold'; did you mean 'hold_s'?"),
        ("hold_s = 0\n", "hold_s must be positive seconds; got 0"),
        ("hold_s = -1.5\n", "hold_s must be positive seconds; got -1.5"),
        ("hold_s = '60'\n", "hold_s must be positive seconds; got '60'"),
        ("step_s = true\n", "step_s must be positive seconds; got True"),
        ("step_s = nan\n", "step_s must be positive seconds; got nan"),
        ("step_s = inf\n", "step_s must be positive seconds; got inf"),
        ("timezone = 8\n", "timezone must be text; got 8"),
        ("time_format = ['%Y']\n", "time_format must be text; got ['%Y']"),
        (
            "timezone = 'Berlin'\n",
            "timezone 'Berlin' is not known; write it like 'Europe/Berlin' or 'UTC'",
        ),
        ("timezone = 'Factory'\n", "timezone 'Factory' is not known"),
        ("hold_s 5\n", "is not valid TOML ("),
    ],
)
def test_settings_that_cannot_be_are_refused(tmp_path, text, sentence):
    said = refusal(plant(tmp_path / "mine", plant=text))
    assert said.startswith(f"{tmp_path / 'mine' / 'plant.toml'}: {sentence}")


# The autumn hour.


def autumn(n_rows=18):
    """Berlin's clock over the night in which 2 o'clock comes twice."""
    first = datetime(2026, 10, 24, 23, tzinfo=UTC).timestamp()
    zone = ZoneInfo("Europe/Berlin")
    return [
        datetime.fromtimestamp(first + 600 * k, zone).strftime("%Y-%m-%d %H:%M:%S")
        for k in range(n_rows)
    ]


@pytest.mark.parametrize("is_long", [False, True], ids=["wide", "long"])
def test_a_night_with_an_hour_twice_is_even_time(tmp_path, is_long):
    table = pl.DataFrame({"time": autumn(), "A": range(18), "B": range(100, 118)})
    made = melted(table) if is_long else table
    settings = 'timezone = "Europe/Berlin"\nstep_s = 600\nhold_s = 600\n'
    folder = plant(tmp_path / "mine", train=made, test=made, plant=settings)
    found = open_testbed(folder).test
    assert np.unique(np.diff(found.time)).tolist() == [600.0]
    np.testing.assert_array_equal(found.values, table.select("A", "B").to_numpy())


def test_rows_in_the_hour_that_clocks_skip_are_left_out_and_said(tmp_path):
    stamps = [f"2026-03-29 {hour}:30:00" for hour in ("00", "01", "02", "03", "04")]
    table = pl.DataFrame({"time": stamps, "A": range(5), "B": range(10, 15)})
    settings = 'timezone = "Europe/Berlin"\n'
    folder = plant(tmp_path / "mine", train=table, test=table, plant=settings)
    testbed = open_testbed(folder)
    found = testbed.test
    assert found.values[:, 0].tolist() == [0, 1, 3, 4]
    assert np.unique(np.diff(found.time)).tolist() == [3600.0]
    said = [notice for notice in testbed.notices if "spring" in notice]
    assert len(said) == 2
    assert "skip in spring in Europe/Berlin" in said[0]


# What is no plant.


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    said = refusal(tmp_path / "nowhere")
    assert "no folder called" in said


@pytest.mark.parametrize("name", ["train", "test"])
def test_a_table_that_is_not_there_is_refused(tmp_path, name):
    folder = plant(tmp_path / "mine")
    (folder / f"{name}.csv").unlink()
    said = refusal(folder)
    assert f"mine: has neither {name}.csv nor {name}.parquet" in said
    assert "a plant's folder needs train and test" in said


def test_tables_with_different_tags_are_refused(tmp_path):
    said = refusal(plant(tmp_path / "mine", test=frame().drop("P101")))
    assert "mine: P101 is in train but not in test" in said
    assert "both tables must have the same tags" in said


def test_one_table_with_a_zone_and_one_without_are_refused(tmp_path):
    with_zone = frame(form="%Y-%m-%dT%H:%M:%SZ")
    said = refusal(plant(tmp_path / "mine", train=with_zone))
    assert "time stamps of one table carry a zone" in said
    assert "state timezone in plant.toml" in said


def test_a_plant_that_is_attacked_all_along_train_is_refused(tmp_path):
    train = frame().with_columns(label=pl.lit(1))
    said = refusal(plant(tmp_path / "mine", train=train), kind=(FileError, StreamError))
    assert "train" in said


def test_a_table_of_bad_readings_only_is_refused(tmp_path):
    bad = melted(frame()).with_columns(quality=pl.lit("Bad"))
    said = refusal(
        plant(tmp_path / "mine", train=melted(frame()), test=bad),
        kind=(FileError, StreamError),
    )
    assert "test" in said


PAGE = Path(__file__).parents[2] / "docs" / "own-plant.md"
QUOTED = {
    "no column of time": {"test": "when,LIT101\n0,1\n1,2\n"},
    "words": {"test": "time,MODE\n" + "".join(f"{k},word {k}\n" for k in range(13))},
    "tags": {"test": frame().with_columns(LIT102=pl.lit(1.0))},
    "zone in one": {"train": frame(form="%Y-%m-%dT%H:%M:%SZ")},
    "zone": {"plant": "timezone = 'Berlin'\n"},
    "setting": {"plant": "hold = 300\n"},
    "swapped": {
        "attacks": "id,start,end\nA1,2026-11-15 09:02:00,2026-11-15 09:01:00\n"
    },
    "labels": {"test": "time,LIT101,label\n0,1,Normal\n1,2,Attack 7\n"},
}


@pytest.mark.parametrize("case", QUOTED)
def test_the_page_quotes_errors_as_they_are(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = refusal(plant(Path("plant"), **QUOTED[case]), kind=(FileError, StreamError))
    assert f"| {said} |" in PAGE.read_text(encoding="utf-8")


def test_the_page_quotes_what_is_said_of_a_table_that_is_not_there(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (plant(Path("plant")) / "test.csv").unlink()
    assert f"| {refusal('plant')} |" in PAGE.read_text(encoding="utf-8")


# The audit.


def texts(audit, severity):
    return [one.text for one in audit.findings if one.severity == severity]


def test_a_plant_that_is_right_is_told_so(tmp_path):
    audit = inspect_testbed(plant(tmp_path / "mine", attacks=ATTACKS))
    assert audit.is_right
    assert audit.title == "mine"
    assert [(row.name, row.rows, row.gaps) for row in audit.files] == [
        ("train", 60, 0),
        ("test", 60, 0),
    ]
    assert audit.files[0].first == "2026-11-15 08:00:00"
    assert audit.passed[0] == (
        "1 labelled runs (label column or attacks.csv) with 7 rows, against 1 known "
        "attacks."
    )
    assert "Train and test share no stretch of rows." in audit.passed
    assert "Every cell is a finite number." in audit.passed


def test_what_is_wrong_with_a_plant_is_told(tmp_path):
    table = with_holes(frame(100))
    audit = inspect_testbed(plant(tmp_path / "mine", train=table, test=table))
    assert not audit.is_right
    wrong = texts(audit, "error") + texts(audit, "warning")
    assert len(wrong) == 4
    assert wrong[0].startswith(
        "Train and test share 100 rows, value by value: 100 from"
    )
    assert wrong[1] == "100 time stamps of train occur in test too."
    assert wrong[2:] == [
        f"{name}: 10 cells without a finite number: LIT101 (10)."
        for name in ("train", "test")
    ]


def test_an_attack_the_label_column_does_not_know_is_wrong(tmp_path):
    folder = plant(tmp_path / "mine", test=labelled(range(30, 40)), attacks=ATTACKS)
    audit = inspect_testbed(folder)
    assert texts(audit, "warning") == [
        "1 incident has no labelled row: 1 (2026-11-15 09:01:00).",
        "Labelled runs that are in no incident list: 2026-11-15 09:05:00 (10 rows).",
    ]


def test_notices_and_pauses_are_part_of_the_audit(tmp_path):
    test = pl.concat([frame(30, first=3600), frame(30, first=7200)])
    audit = inspect_testbed(plant(tmp_path / "mine", test=test))
    notes = texts(audit, "note")
    assert "test: lacks 3,300 s after 2026-11-15 09:04:50." in notes
    assert notes[-1].startswith("No attacks.csv and no column 'label' in test")
    assert audit.files[1].gaps == 1


def test_two_tables_of_one_kind_are_refused(tmp_path):
    folder = plant(tmp_path / "mine")
    frame().write_parquet(folder / "train.parquet")
    said = refusal(folder)
    assert "train.csv and train.parquet" in said
    assert "remove one" in said


def test_two_lists_of_attacks_are_refused(tmp_path):
    said = refusal(plant(tmp_path / "mine", attacks=ATTACKS, incidents=ATTACKS))
    assert "attacks.csv and incidents.csv" in said


def test_a_tag_named_twice_is_refused(tmp_path):
    tags = f"tag,role\n{CHANNELS[0]},sensor\n{CHANNELS[0]},actuator\n"
    assert f"names {CHANNELS[0]!r} twice" in refusal(plant(tmp_path / "m", tags=tags))


def test_a_line_with_too_many_cells_is_refused(tmp_path):
    tags = f"tag,role\n{CHANNELS[0]},sensor,actuator\n"
    assert "line 2 has more cells" in refusal(plant(tmp_path / "mine", tags=tags))


def test_a_misspelt_role_is_refused_with_the_nearest(tmp_path):
    tags = f"tag,role\n{CHANNELS[0]},senser\n"
    with pytest.raises(FileError, match=r"'senser' .* did you mean 'sensor'"):
        open_testbed(plant(tmp_path / "mine", tags=tags))


def test_roles_may_be_written_in_capitals(tmp_path):
    found = open_testbed(
        plant(tmp_path / "mine", tags=f"tag,role\n{CHANNELS[0]},Ignore\n")
    )
    assert CHANNELS[0] not in found.train.channels


@pytest.mark.parametrize("option", ["labels", "release"])
def test_a_choice_that_a_folder_does_not_have_is_refused(tmp_path, option):
    with pytest.raises(StreamError, match=f"`{option}` is an option of published"):
        open_testbed(plant(tmp_path / "mine"), **{option: "list"})


def test_a_step_that_is_far_too_small_is_refused(tmp_path):
    said = refusal(plant(tmp_path / "mine", plant="step_s = 1e-6\n"))
    assert "state a larger step_s" in said


def test_one_stamp_that_is_far_off_is_refused(tmp_path):
    train = melted(frame())
    stray = train.head(1).with_columns(time=pl.lit("1970-01-01 00:00:00"))
    stray = stray.select(train.columns).cast(train.schema)
    said = refusal(plant(tmp_path / "mine", train=pl.concat([stray, train])))
    assert "1970-01-01" in said
    assert "far off" in said


def test_different_steps_of_train_and_test_are_told(tmp_path):
    test = frame(first=3600).gather_every(2)
    found = open_testbed(plant(tmp_path / "mine", test=test))
    assert any("Train has a row every" in text for text in found.notices)


def test_a_tag_called_label_is_refused_in_a_long_table(tmp_path):
    train = melted(frame().with_columns(label=pl.lit(0.0)))
    assert "would learn them" in refusal(plant(tmp_path / "mine", train=train))


def test_a_name_too_long_for_any_file_is_no_testbed():
    with pytest.raises(FileError, match="no testbed and no folder called 'xxx"):
        open_testbed("x" * 5000)
