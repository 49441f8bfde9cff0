"""The command start: from raw exports to a folder that inspect and run accept."""

import csv
import os
import tomllib
from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from sightline import inspect_testbed, open_testbed
from sightline.cli.app import app

BEGIN = datetime(2026, 3, 2)
STEP_S = 10
TAGS = ("FIT101", "LIT101", "LIT101.SP", "P201", "TT301")
N_ROWS = 3000


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def started(*words):
    result = invoke("start", *words)
    assert result.exit_code == 0, result.output
    return " ".join(result.stdout.split())


def refused(result, *words):
    assert result.exit_code == 1, result.output
    assert result.stderr.count("\n") == 1
    assert not [word for word in words if word not in result.stderr], result.stderr


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def plant(n_rows=N_ROWS):
    """A tank that a pump empties: readings by tag, with three decimals."""
    rng = np.random.default_rng(5)
    values = np.zeros((n_rows, 5))
    level, pump = 500.0, 0
    for row in values:
        pump = 1 if level > 700 else 0 if level < 400 else pump
        flow = 2.5 + rng.normal(0, 0.02)
        level += 3 * (flow - 3.6 * pump) + rng.normal(0, 0.3)
        row[:] = flow, level, 700, pump, 20 + rng.normal(0, 0.05)
    return values.round(3)


def times(n_rows=N_ROWS):
    return [BEGIN + timedelta(seconds=STEP_S * k) for k in range(n_rows)]


def write_wide(path, rows=slice(None), *, form="%Y-%m-%d %H:%M:%S", **more):
    """One column for each tag; `more` are further columns, None takes one out."""
    columns = {"time": [t.strftime(form) for t in times()[rows]]}
    columns |= dict(zip(TAGS, plant().T[:, rows], strict=True)) | more
    columns = {name: v for name, v in columns.items() if v is not None}
    pl.DataFrame(columns).write_csv(path)
    return path


def write_changes(path, *, offset="+01:00"):
    """One line for each change of a tag, as a historian with exception reporting."""
    shown = [None] * 5
    thresholds = (0.05, 2.0, 0.5, 0.5, 0.1)
    lines = ["TagName,Timestamp,Value,Quality"]
    on_grid = np.zeros((N_ROWS, 5))
    for k, (time, row) in enumerate(zip(times(), plant(), strict=True)):
        for j, value in enumerate(row):
            if shown[j] is None or abs(value - shown[j]) > thresholds[j]:
                shown[j] = value
                lines.append(f"{TAGS[j]},{time.isoformat()}{offset},{value},Good")
        on_grid[k] = shown
    path.write_text("\n".join(lines) + "\n")
    return on_grid


def tags_of(folder):
    with open(folder / "tags.csv", newline="", encoding="utf-8") as file:
        return {row["tag"]: row for row in csv.DictReader(file)}


# ---- one export ---------------------------------------------------------------------


def test_a_wide_export_becomes_train_and_test(home):
    text = started(write_wide(home / "boiler.csv"))
    assert "wide: one column for each tag; 3,000 rows, 5 tags" in text
    assert "column 'time', such as '2026-03-02 00:00:00'" in text
    assert "plant's own clock" in text
    assert "10 s; 0 gaps" in text
    assert "train is the first 60% of time" in text
    assert text.endswith(
        "Next: sightline inspect boiler Then: sightline run boiler Without incidents: "
        "sightline blindspots boiler --out boiler-blind"
    )
    testbed = open_testbed(home / "boiler")
    assert (testbed.train.n_steps, testbed.test.n_steps) == (1800, 1200)
    read = np.concatenate([testbed.train.values, testbed.test.values])
    np.testing.assert_array_equal(read, plant())
    assert set(os.listdir(home / "boiler")) == {
        *("plant.toml", "tags.csv", "incidents.csv", "train.parquet", "test.parquet")
    }


def test_settings_are_explained_and_roles_guessed(home):
    started(write_wide(home / "boiler.csv"))
    text = (home / "boiler/plant.toml").read_text()
    assert tomllib.loads(text) == {}
    assert max(map(len, text.splitlines())) <= 88
    for key in (
        *("timezone", "step_s = 10", "hold_s = 60", "missing_values", "trim_start_s"),
        *("train_decimals", "accept"),
    ):
        assert f"# {key}" in text
    tags = tags_of(home / "boiler")
    assert {name: row["role"] for name, row in tags.items()} == {
        **{"FIT101": "sensor", "LIT101": "sensor", "LIT101.SP": "setpoint"},
        **{"P201": "actuator", "TT301": "sensor"},
    }
    assert [row["stage"] for row in tags.values()] == ["1", "1", "1", "2", "3"]
    header, _, example = (home / "boiler/incidents.csv").read_text().splitlines()
    assert header.startswith("id,start,end,tags,note")
    assert example.startswith("# A1,2026-03-02 05:00:00,")


def test_other_forms_are_understood(home):
    path = home / "export.csv"
    rows = ["Timestamp;LIT101 [m³];P201", *_german_rows(), ""]
    path.write_bytes("\r\n".join(rows).encode("cp1252"))
    text = started(path, "--timezone", "Europe/Berlin", "--out", "plant")
    assert "Windows text (cp1252)" in text
    assert "times in Europe/Berlin" in text
    settings = tomllib.loads((home / "plant/plant.toml").read_text())
    assert settings == {"timezone": "Europe/Berlin"}
    assert tags_of(home / "plant")["LIT101"]["unit"] == "m³"
    testbed = open_testbed("plant")
    assert testbed.train.timezone == "Europe/Berlin"
    assert testbed.train.time[0] == BEGIN.timestamp() - 3600
    np.testing.assert_array_equal(testbed.train.values[:, 0], plant()[:1800, 1])


def _german_rows():
    for time, row in zip(times(), plant(), strict=True):
        level = str(row[1]).replace(".", ",")
        yield f"{time:%d.%m.%Y %H:%M:%S};{level};{row[3]:g}"


def test_an_excel_file_is_read(home):
    columns = {"time": times(400)} | dict(zip(TAGS, plant(400).T, strict=True))
    pl.DataFrame(columns).write_excel(home / "export.xlsx")
    started(home / "export.xlsx")
    assert open_testbed("export").test.n_steps == 160


# ---- long exports -------------------------------------------------------------------


def test_an_export_of_changes_gives_the_last_value_at_every_moment(home):
    on_grid = write_changes(home / "changes.csv")
    text = started(home / "changes.csv")
    assert "long: one row for each reading" in text
    assert "so this is an export of changes" in text
    settings = tomllib.loads((home / "changes/plant.toml").read_text())
    assert settings["step_s"] == STEP_S
    testbed = open_testbed("changes")
    read = np.concatenate([testbed.train.values, testbed.test.values])
    # The grid ends with the last change of any tag.
    np.testing.assert_array_equal(read, on_grid[: len(read)])
    assert len(read) > 0.99 * N_ROWS
    assert inspect_testbed("changes").is_right


def test_a_regular_long_export_needs_no_settings(home):
    frame = pl.DataFrame({"time": times()} | dict(zip(TAGS, plant().T, strict=True)))
    frame.unpivot(index="time", variable_name="point").write_csv(home / "long.csv")
    started("long.csv")
    settings = tomllib.loads((home / "long/plant.toml").read_text())
    assert settings == {"step_s": STEP_S}
    testbed = open_testbed("long")
    np.testing.assert_array_equal(testbed.train.values, plant()[:1800])


# ---- several exports ----------------------------------------------------------------


def test_of_two_exports_the_earlier_is_train(home):
    late = write_wide(home / "b.csv", slice(2000, None))
    early = write_wide(home / "a.csv", slice(2000))
    text = started(late, early, "--out", "plant")
    assert "train is a.csv, the earlier, test is b.csv" in text
    assert open_testbed("plant").train.n_steps == 2000


def test_names_say_which_is_train(home):
    test = write_wide(home / "attack_week.csv", slice(1000))
    train = write_wide(home / "normal_week.csv", slice(1000, None))
    started(test, train, "--out", "plant")
    assert open_testbed("plant").train.n_steps == 2000


def test_three_exports_are_joined_and_split(home):
    parts = [
        write_wide(home / f"{k}.csv", slice(1000 * k, 1000 * k + 1000))
        for k in (2, 0, 1)
    ]
    started(*parts, "--out", "plant")
    testbed = open_testbed("plant")
    read = np.concatenate([testbed.train.values, testbed.test.values])
    np.testing.assert_array_equal(read, plant())


# ---- incidents, labels and gaps -----------------------------------------------------


def incident(path, at):
    start, end = times()[at], times()[at + 30]
    path.write_text(f"id,start,end,tags\nleak,{start},{end},LIT101\n")
    return path


def test_train_ends_before_the_first_incident(home):
    export = write_wide(home / "boiler.csv")
    text = started(export, "--incidents", incident(home / "list.csv", 1200))
    assert "train is the time before the first incident" in text
    testbed = open_testbed("boiler")
    # 2% of 3,000 rows before the incident, on the safe side.
    assert testbed.train.n_steps == 1141
    assert [attack.id for attack in testbed.test.attacks] == ["leak"]


def test_an_early_incident_is_left_out_of_train(home):
    export = write_wide(home / "boiler.csv")
    text = started(export, "--incidents", incident(home / "list.csv", 100))
    assert "incidents in it are left out of train" in text
    assert open_testbed("boiler").train.n_steps == 1800 - 31


def test_labels_count_like_incidents(home):
    labels = np.zeros(N_ROWS, int)
    labels[1500:1520] = 1
    text = started(write_wide(home / "boiler.csv", Attack=labels))
    assert "Column 'Attack' is taken as labels" in text
    testbed = open_testbed("boiler")
    assert testbed.train.n_steps == 1441
    assert testbed.test.labels.sum() == 20


def test_an_export_without_labels_beside_one_with_them_is_free_of_attacks(home):
    labels = np.zeros(N_ROWS - 1800, int)
    labels[300:320] = 1
    calm = write_wide(home / "calm.csv", slice(1800))
    attacked = write_wide(home / "attacked.csv", slice(1800, None), label=labels)
    text = started(calm, attacked, "--out", "boiler")
    assert "calm.csv has no column of labels" in text
    testbed = open_testbed("boiler")
    assert testbed.train.n_steps == 1800
    np.testing.assert_array_equal(testbed.test.labels, labels)


def test_what_cannot_be_used_is_left_out_and_said(home):
    late = [None] * 1000 + [1.5] * 2000
    dead = [2.5] * 1000 + [None] * 1000 + [2.5] * 1000
    slow = [float(k % 7) if k % 12 == 3 else None for k in range(N_ROWS)]
    export = write_wide(home / "boiler.csv", LATE=late, DEAD=dead, NONE="", SLOW=slow)
    text = started(export)
    assert "LATE (its first reading is 2.8 h late)" in text
    assert "DEAD (it has no value for up to 2.8 h)" in text
    assert "NONE (it has no reading)" in text
    assert "The first 30 s were left out" in text
    testbed = open_testbed("boiler")
    assert testbed.test.channels == (*TAGS, "SLOW")
    assert not np.isnan(testbed.train.values).any()
    assert not np.isnan(testbed.test.values).any()
    assert tomllib.loads((home / "boiler/plant.toml").read_text())["hold_s"] == 130


def test_fault_codes_are_read_as_missing_and_said(home):
    level = plant()[:, 1]
    level[[100, 2500]] = -9999
    text = started(write_wide(home / "boiler.csv", LIT101=level))
    assert "-9999 look like fault codes" in text
    settings = tomllib.loads((home / "boiler/plant.toml").read_text())
    assert settings == {"missing_values": [-9999]}
    testbed = open_testbed("boiler")
    assert testbed.train.values[100, 1] == plant()[99, 1]
    assert inspect_testbed("boiler").is_right


def test_state_words_and_two_digit_years_are_read(home):
    words = np.where(plant()[:, 3] == 1, "RUN", "STOP")
    path = write_wide(home / "pi.csv", form="%d-%b-%y %H:%M:%S", P201=words)
    text = started(path)
    assert "P201: STOP = 0, RUN = 1" in text
    assert "2026-03-02 00:00:00 to 2026-03-02 08:19:50" in text
    testbed = open_testbed("pi")
    np.testing.assert_array_equal(testbed.train.values, plant()[:1800])
    assert tags_of(home / "pi")["P201"]["role"] == "actuator"


# ---- refusals -----------------------------------------------------------------------


def test_nothing_existing_is_overwritten(home):
    write_wide(home / "boiler.csv")
    (home / "boiler").mkdir()
    (home / "boiler/mine.txt").write_text("mine")
    refused(invoke("start", "boiler.csv"), "boiler: exists already", "--out")
    assert os.listdir(home / "boiler") == ["mine.txt"]
    (home / "empty").mkdir()
    started("boiler.csv", "--out", "empty")


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"a.csv": "when,x\n1,2\n"}, ["a.csv", "no column of time stamps"]),
        ({"a.csv": "time\n2026-01-01\n"}, ["a.csv"]),
        ({"a.csv": "time,x\n2026-01-01,1\n"}, ["a.csv"]),
        (
            {"a.csv": "time,x\n03/04/2026 08:00,1\n03/04/2026 08:01,1\n"},
            ["a.csv", "--time-format"],
        ),
        (
            {"a.csv": "time,x\n1,1\n2,1\n", "b.csv": "time,tag,value\n3,x,1\n4,x,1\n"},
            ["a.csv is wide and b.csv is long"],
        ),
        (
            {"a.csv": "time,x\n1,1\n5,1\n", "b.csv": "time,x\n3,1\n9,1\n"},
            ["a.csv and b.csv overlap in time"],
        ),
        (
            {"a.csv": "time,x\n1,1\n2,1\n", "b.csv": "time,y\n3,1\n4,1\n"},
            ["must have the same tags", "'x' and 'y'"],
        ),
        (
            {
                "a.csv": "time,x\n2026-01-01 00:00,1\n2026-01-01 00:01,1\n",
                "b.csv": "time,x\n2026-01-02 00:00Z,1\n2026-01-02 00:01Z,1\n",
            },
            ["one carry a zone", "--timezone"],
        ),
    ],
)
def test_what_cannot_be_started_is_one_sentence(home, files, words):
    for name, text in files.items():
        (home / name).write_text(text)
    refused(invoke("start", *files, "--out", "plant"), *words)
    assert sorted(os.listdir(home)) == sorted(files)


def test_a_missing_export_is_named(home):
    refused(invoke("start", "no.csv"), "no.csv")
    assert not os.listdir(home)


@pytest.mark.parametrize("words", [["inspect"], ["run", "--detectors", "pca"]])
def test_a_file_where_a_folder_belongs_leads_to_start(home, words):
    write_wide(home / "boiler.csv")
    refused(invoke(*words, "boiler.csv"), "sightline start boiler.csv")


# ---- the whole way ------------------------------------------------------------------


def test_from_one_raw_export_to_a_report(home):
    """A plant engineer: one export, three commands, and no other file by hand."""
    write_changes(home / "historian.csv")
    started("historian.csv")
    inspected = invoke("inspect", "historian")
    assert inspected.exit_code == 0, inspected.output
    ran = invoke("run", "historian", "--out", "study", "--workers", 1)
    assert ran.exit_code == 0, ran.output
    assert "var, pca and geco" in ran.stderr
    page = (home / "study/report.html").read_text("utf-8")
    assert "<title>historian" in page
    for name in ("var", "pca", "geco"):
        assert (home / f"study/historian-{name}-seed0/evaluation.json").is_file()


def test_columns_are_named_by_an_option(home):
    rows = ["When,Zone,FIT101,Note"]
    rows += [f"{at:%Y-%m-%d},{at:%H:%M:%S},{k % 7},x" for k, at in enumerate(times(60))]
    (home / "export.csv").write_text("\n".join(rows) + "\n")
    refused(invoke("start", "export.csv"), "name it with --column time=NAME.")
    columns = ("time=When", "time=Zone", "ignore=Note")
    started("export.csv", *(word for c in columns for word in ("--column", c)))
    assert open_testbed("export").train.channels == ("FIT101",)
    wrong = invoke("start", "export.csv", "--column", "moment=When", "--out", "other")
    assert wrong.exit_code == 2
    assert "ROLE=NAME" in wrong.stderr
