"""The command start: from raw exports to a folder that inspect and run accept."""

import csv
import os
import tomllib
from datetime import datetime, timedelta
from pathlib import Path

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
GECCO = Path(__file__).parents[3] / "shared/data/gecco/export_2016.csv.gz"


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
        *("timezone", "step_s = 10", "[hold_s]", "missing_values", "trim_start_s"),
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


def test_an_early_incident_is_judged_in_parts(home):
    export = write_wide(home / "boiler.csv")
    text = started(export, "--incidents", incident(home / "list.csv", 100))
    assert "each of 5 parts is judged by a model of the other parts" in text
    plant = open_testbed("boiler")
    # All rows are judged; those within an hour of the incident are not learned from.
    assert (plant.test.n_steps, plant.test.parts) == (N_ROWS, 5)
    assert plant.train.n_steps == N_ROWS - (131 + 360)
    assert [attack.id for attack in plant.test.attacks] == ["leak"]
    assert inspect_testbed("boiler").is_right


def test_incidents_before_a_stated_split_are_an_error_that_names_it(home):
    export = write_wide(home / "boiler.csv")
    listed = incident(home / "list.csv", 100)
    begin = times()[2000]
    text = started(export, "--incidents", listed, "--split", begin)
    assert "Error: 1 of 1 incidents lie in the training part" in text
    assert "--split" in text
    assert open_testbed("boiler").test.parts == 1


def test_incidents_that_leave_no_time_give_the_first_part(home):
    export = write_wide(home / "boiler.csv")
    rows = [f"{k},{times()[100 * k]},{times()[100 * k + 9]},," for k in range(1, 29)]
    listed = home / "list.csv"
    listed.write_text("\n".join(["id,start,end,tags,note", *rows]) + "\n")
    text = started(export, "--incidents", listed)
    assert "incidents in it are left out of train" in text
    assert "lie in the training part" in text


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
    rare = [None] * 1600 + [1.5] * 1400
    slow = [float(k % 7) if k % 12 == 3 else None for k in range(N_ROWS)]
    more = {"LATE": late, "DEAD": dead, "RARE": rare, "NONE": "", "SLOW": slow}
    result = invoke("start", write_wide(home / "boiler.csv", **more))
    assert result.exit_code == 5, result.output
    text = " ".join(result.stdout.split())
    assert "8 of 10 tags left." in text
    assert "RARE (it has readings in 47% of the time)" in text
    assert "NONE (it has no reading)" in text
    # Rows before the first reading of SLOW.
    assert "The first 30 s were left out" in text
    started("boiler.csv", "--accept-dropped", "--out", "again")
    settings = tomllib.loads((home / "boiler/plant.toml").read_text())
    assert settings == {"hold_s": {"default": 60, "SLOW": 240}}
    testbed = open_testbed("boiler")
    assert testbed.test.channels == (*TAGS, "LATE", "DEAD", "SLOW")
    read = np.concatenate([testbed.train.values, testbed.test.values])
    lost = np.isnan(read)
    # From row 3 on; LATE and DEAD are out of service where they have no value.
    assert np.flatnonzero(lost.any(axis=0)).tolist() == [5, 6]
    assert np.flatnonzero(lost[:, 5]).tolist() == [*range(1000 - 3)]
    # The last value before the hole is held for 60 s, and once more where test begins.
    hole = {*range(1006 - 3, 2000 - 3)}
    assert {*np.flatnonzero(lost[:, 6]).tolist()} <= hole
    assert len(hole) - lost[:, 6].sum() <= 7
    assert not testbed.train.unwatched


def test_fault_codes_are_no_values_and_said(home):
    level = plant()[:, 1]
    level[[100, 2500]] = -9999
    text = started(write_wide(home / "boiler.csv", LIT101=level))
    assert "-9999 look like fault codes" in text
    settings = tomllib.loads((home / "boiler/plant.toml").read_text())
    assert settings == {"missing_values": [-9999]}
    testbed = open_testbed("boiler")
    assert np.argwhere(np.isnan(testbed.train.values)).tolist() == [[100, 1]]
    assert testbed.train.values[101, 1] == level[101]
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
            ["column 'y' holds no number at all", "--column ignore=NAME"],
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


@pytest.mark.skipif(not GECCO.is_file(), reason="../shared/data/gecco is missing")
def test_a_real_export_keeps_every_tag_and_its_outages_are_not_watched(home):
    text = started(GECCO, "--timezone", "Europe/Berlin", "--out", "works")
    assert "Understood: 10 of 10 tags, 2,308.7 of 2,326.1 hours" in text
    testbed = open_testbed("works")
    spans = [*testbed.train.unwatched, *testbed.test.unwatched]
    assert len(spans) == 2
    assert sum(round((span.end - span.start) / 60) for span in spans) == 1044


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


# ---- what people really export -------------------------------------------------------


def test_errors_of_several_files_come_together(home):
    for name in ("a", "b", "c"):
        (home / f"{name}.csv").write_text("FIT101,LIT101\n1,2\n")
    (home / "d.csv").write_text("time,FIT101\n")
    result = invoke("start", "a.csv", "b.csv", "c.csv", "d.csv", "--out", "plant")
    assert result.exit_code == 1
    *reasons, error = result.stderr.splitlines()
    assert error.startswith("error: 4 of 4 exports cannot be read, for the 2 reasons")
    assert len(reasons) == 2
    assert "a.csv: has no column of time" in reasons[0]
    assert "--column time=NAME" in reasons[0]
    assert reasons[0].endswith("The same in b.csv and c.csv.")
    assert "d.csv: has a" in reasons[1]
    assert not (home / "plant").exists()


def test_a_workbook_with_titles_units_commas_and_an_empty_sheet(home):
    import xlsxwriter

    values = plant()
    with xlsxwriter.Workbook("station.xlsx") as book:
        sheet, _ = book.add_worksheet("Werte"), book.add_worksheet("Leer")
        sheet.write(0, 0, "Wasserwerk Nord")
        sheet.write_row(3, 0, ["Datum/Uhrzeit", *TAGS])
        sheet.write_row(4, 1, ["m³/h", "mm", "mm", "", "°C"])
        date = book.add_format({"num_format": "dd.mm.yyyy hh:mm:ss"})
        for k, (at, row) in enumerate(zip(times(), values.tolist(), strict=True)):
            sheet.write_datetime(5 + k, 0, at, date)
            sheet.write_row(5 + k, 1, row)
            if k % 20 == 0:
                sheet.write_string(5 + k, 2, str(row[1]).replace(".", ","))
            if k % 500 == 7:
                sheet.write_string(5 + k, 1, "#Ausfall")
    text = started("station.xlsx", "--timezone", "Europe/Berlin")
    assert "Understood: 5 of 5 tags" in text
    assert "Excel, sheet 'Werte'" in text
    testbed = open_testbed("station")
    read = np.concatenate([testbed.train.values, testbed.test.values])
    expected = values.copy()
    expected[7::500, 0] = np.nan
    np.testing.assert_allclose(read, expected)
    assert [tag.unit for tag in testbed.train.tags] == ["m³/h", "mm", "mm", None, "°C"]
    finest = {tag.name: tag.resolution for tag in testbed.train.tags}
    assert (finest["FIT101"], finest["LIT101.SP"]) == (0.001, None)


def test_a_workbook_with_notes_first_comments_and_a_sheet_a_month(home):
    import xlsxwriter

    values, stamps = plant(), times()
    with xlsxwriter.Workbook("station.xlsx") as book:
        book.add_worksheet("Notes").write(0, 0, "Ask the shift leader.")
        date = book.add_format({"num_format": "dd.mm.yyyy hh:mm:ss"})
        for name, rows in (("March", range(1000)), ("April", range(1000, N_ROWS))):
            sheet = book.add_worksheet(name)
            sheet.merge_range(0, 0, 0, 5, "Waterworks North")
            sheet.write_row(2, 0, ["Time", *TAGS, "Bemerkung"])
            sheet.write_row(3, 1, ["m³/h", "mm", "mm", "", "°C"])
            for line, k in enumerate(rows, start=4):
                sheet.write_datetime(line, 0, stamps[k], date)
                sheet.write_row(line, 1, values[k].tolist())
                if k % 300 == 0:
                    sheet.write(line, 6, f"cleaned {k}")
    text = started("station.xlsx")
    assert "Understood: 5 of 5 tags" in text
    assert "only the sheet 'April' and 'March' was read" not in text
    assert "only the sheet 'March' and 'April' was read, not Notes." in text
    assert "Bemerkung holds no reading" in text
    testbed = open_testbed("station")
    read = np.concatenate([testbed.train.values, testbed.test.values])
    np.testing.assert_allclose(read, values)


def test_columns_called_q_are_quality_where_they_hold_nothing_else(home):
    quality = np.where(np.arange(N_ROWS) % 500 == 7, "UNCERTAIN", "GOOD")
    flow = np.arange(N_ROWS) % 90 + 100.0
    columns = {
        "FIT101_Q": quality,
        "P201 Status": np.full(N_ROWS, 192),
        "TT301_Q": flow,
    }
    text = started(write_wide(home / "scada.csv", **columns))
    assert "Understood: 6 of 6 tags" in text
    assert (
        "2 columns of quality (FIT101_Q and P201 Status): by them 6 cells are" in text
    )
    testbed = open_testbed("scada")
    assert testbed.train.channels == (*TAGS, "TT301_Q")
    read = np.concatenate([testbed.train.values, testbed.test.values])
    # What the source calls bad is never held.
    assert np.flatnonzero(np.isnan(read[:, 0])).tolist() == [*range(7, N_ROWS, 500)]


def test_a_column_of_text_is_left_out_and_said_and_name_may_be_the_tag(home):
    batch = [f"B-{k // 100:03d}x" for k in range(N_ROWS)]
    result = invoke("start", write_wide(home / "batch.csv", Batch=batch))
    assert result.exit_code == 5, result.output
    said = " ".join(result.stdout.split())
    assert "5 of 6 tags left. Left out: Batch (it holds text that is no state)" in said
    assert open_testbed("batch").train.channels == TAGS
    write_changes(home / "hist.csv")
    text = (home / "hist.csv").read_text().replace("TagName,Times", "Name,Times")
    (home / "hist.csv").write_text(text)
    assert "long: one row for each reading" in started("hist.csv")


def test_files_of_the_first_days_of_a_month_have_their_dates_from_others(home):
    paths = []
    for k, day in enumerate((11, 12, 13)):
        paths.append(home / f"{day}.csv")
        rows = slice(1000 * k, 1000 * (k + 1))
        stamps = [t.replace(day=day) for t in times()[rows]]
        pl.DataFrame(
            {
                "time": [f"{t:%d/%m/%Y %H:%M:%S}" for t in stamps],
                **dict(zip(TAGS, plant().T[:, rows], strict=True)),
            }
        ).write_csv(paths[-1])
    text = started(*paths, "--out", "works")
    assert "2026-03-11 00:00:00 to 2026-03-13" in text
    settings = tomllib.loads((home / "works/plant.toml").read_text())
    assert settings["date_order"] == "day"
    assert inspect_testbed("works").recording.date_order == "day"
    refused(invoke("start", *paths[:2], "--out", "other"), "cannot be told apart")


def test_an_export_of_changes_may_be_silent_while_nothing_changes(home):
    """Some quiet minutes are no outage, and 3 hours without anything are."""
    rng = np.random.default_rng(3)
    lines, at = ["tag,timestamp,value"], np.zeros(3)
    while at.min() < 86_400 * 4:
        k = int(at.argmin())
        is_night = at[k] % 86_400 < 20_000
        at[k] += rng.uniform(600, 2400) if is_night else rng.uniform(20, 90)
        if not 200_000 < at[k] < 210_800:
            stamp = BEGIN + timedelta(seconds=float(at[k]))
            lines.append(f"T{k},{stamp:%Y-%m-%dT%H:%M:%SZ},{rng.normal():.3f}")
    (home / "pi.csv").write_text("\n".join(lines) + "\n")
    text = started("pi.csv")
    assert "Understood: 3 of 3 tags" in text
    assert "1 outage, not watched: 3.0 h" in text


def test_a_long_export_is_judged_in_parts_though_train_and_test_share_a_step(home):
    write_changes(home / "hist.csv")
    lines = (home / "hist.csv").read_text().splitlines()
    # The last reading of train and the first of test lie within one step.
    first, last = (datetime.fromisoformat(lines[k].split(",")[1]) for k in (1, -1))
    cut = first + 0.6 * (last - first)
    for seconds in (-3, 3):
        at = (cut + timedelta(seconds=seconds)).isoformat()
        lines.append(f"FIT101,{at},2.5,Good")
    (home / "hist.csv").write_text("\n".join(lines) + "\n")
    (home / "list.csv").write_text(
        "id,start,end\n1,2026-03-02T00:20:00+01:00,2026-03-02T00:21:00+01:00\n"
    )
    text = started("hist.csv", "--incidents", "list.csv")
    assert "each of 5 parts is judged by a model of the other parts" in text
    testbed = open_testbed("hist")
    assert np.unique(np.diff(testbed.test.time)).tolist() == [10.0]


def test_a_long_table_of_changes_with_jitter_and_digital_states(home):
    """As PI writes it: compressed, stamps some seconds off, states for no value."""
    rng = np.random.default_rng(2)
    lines, last = ["tag;timestamp;value;status"], {}
    for at, row in zip(times(), plant(), strict=True):
        for tag, value in zip(TAGS, row, strict=True):
            if abs(value - last.get(tag, np.inf)) < {"LIT101": 1.0}.get(tag, 0.01):
                continue
            last[tag] = value
            stamp = at + timedelta(seconds=int(rng.integers(0, 4)))
            word = ("Bad", "I/O Timeout", "No Data")[len(lines) % 3]
            is_bad = len(lines) % 400 == 0
            cell = f"{word};Bad" if is_bad else f"{value};Good"
            lines.append(f"P.{tag};{stamp:%d-%b-%Y %H:%M:%S};{cell}")
    (home / "pi.csv").write_text("\n".join(lines) + "\n")
    text = started("pi.csv", "--timezone", "Europe/Berlin")
    assert "Understood: 5 of 5 tags" in text
    assert "this is an export of changes" in text
    settings = tomllib.loads((home / "pi/plant.toml").read_text())
    assert settings["hold_s"]["P.LIT101.SP"] == "forever"
    testbed = open_testbed("pi")
    level = testbed.train.channels.index("P.LIT101")
    known = testbed.train.values[:, level]
    shown = plant()[: len(known), 1]
    # Not further from the plant than the deviation that is left out, and two rows.
    assert np.nanmax(np.abs(known - shown)) < 40
    assert np.isfinite(known).mean() > 0.95
    assert inspect_testbed("pi").is_right


def test_what_was_understood_comes_first_and_a_remark_of_many_files_once(home):
    for k in range(12):
        write_wide(home / f"w{k:02d}.csv", slice(k * 250, (k + 1) * 250))
    text = (home / "w00.csv").read_text().replace("FIT101", "FIT101 µ")
    for k in range(12):
        part = (home / f"w{k:02d}.csv").read_text().replace("FIT101", "FIT101 µ")
        (home / f"w{k:02d}.csv").write_bytes(part.encode("cp1252"))
    assert "µ" in text
    result = invoke("start", *sorted(home.glob("w*.csv")), "--out", "plant")
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    assert said.startswith(
        "Understood: 5 of 5 tags, 8.3 of 8.3 hours, from 12 files (w00.csv, w01.csv "
        "and 10 more)."
    )
    assert said.count("was read as Windows text") == 1
    assert "(And 11 files more.)" in said
