"""``rule.py`` on telemetry: forecast and rule with numpy alone, as `apply` has them."""

import importlib.util
import subprocess
import sys

import numpy as np
import pytest
from watched_plants import dump

from sightline import (
    commission,
    export_stream,
    make_detector,
    open_testbed,
    read_rule,
    write_rule,
)
from sightline.data.validity import NotWatched
from sightline.operation.apply import apply_rule, open_record
from sightline.operation.telemetry import with_forecast
from sightline.operation.watch import watch_folder
from sightline.rules.file import write_script
from tests.operation.plant_files import (
    BEGIN,
    DAY,
    N_TEST,
    N_TRAIN,
    STEP_S,
    TAGS,
    readings,
    write_plant,
    write_table,
)

DETECTORS = ("var", "pca", "mean")


@pytest.fixture(scope="module")
def plant(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plant")
    write_plant(folder / "plant")
    return folder, open_testbed(folder / "plant", cache=False)


def script_of(plant, name, folder):
    """Write a rule with its forecast; return it, as read back, and its script."""
    _, recordings = plant
    detector = make_detector(name).fit(recordings.train)
    detector.save(folder / "detector.npz")
    stream = export_stream(detector, recordings.train, recordings.test)
    made = commission(stream, budget="12/day,3%", choose="all").deployed()
    made = with_forecast(made, detector)
    write_rule(made, folder / "rule.json", detector=folder / "detector.npz")
    write_script(folder / "rule.py")
    spec = importlib.util.spec_from_file_location("rule_script", folder / "rule.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return read_rule(folder / "rule.json"), module


def later():
    """Return three days with attacks, lost cells, lost tags, outages and a gap."""
    rows = readings(3 * DAY, 7)
    for k in range(6):
        rows[300 + 600 * k : 330 + 600 * k, k % 5] += 12.0
    rows[100, 1] = rows[101:106, 2] = np.nan
    rows[1000:1400, 3] = np.nan  # lost for hours
    rows[2000:2003] = np.nan  # an outage
    rows[2003:2010, 0] = np.nan  # not back at once
    rows[2500:2600, :3] = np.nan  # more than half of the tags
    rows[3000, [0, 4]] = np.nan
    rows[3100:3160, [0, 4]] = np.nan  # too few tags, after the memory
    rows[3150:3155] = np.nan
    rows[3300:3306, [1, 2]] = np.nan  # too short for the memory of some
    return rows


def applied(rows, folder, made):
    """Return trace and alarms of `apply`, row by row; nan where it has no residual."""
    write_table(folder / "exports" / "a.csv", N_TRAIN + N_TEST, rows[:1800])
    write_table(folder / "exports" / "b.csv", N_TRAIN + N_TEST + 1800, rows[1800:])
    record = open_record(folder / "exports", made, folder / "rule.json")
    run = apply_rule(made, record).run
    first = record.time[0] - STEP_S * (5 if len(made.forecast.weights) else 0)
    place = np.rint((record.time - first) / STEP_S).astype(int)
    trace, in_alarm = np.full(len(rows), np.nan), np.zeros(len(rows), bool)
    trace[place], in_alarm[place] = run.trace, run.in_alarm
    return trace, in_alarm


@pytest.mark.parametrize("name", DETECTORS)
@pytest.mark.parametrize("is_whole", [True, False])
def test_the_script_has_the_alarms_of_apply_to_the_last_bit(
    plant, name, is_whole, tmp_path
):
    made, script = script_of(plant, name, tmp_path)
    rows = later()
    if is_whole:
        rows = np.where(np.isnan(rows), 0.5, rows)
    trace, in_alarm = applied(rows, tmp_path, made)
    assert in_alarm.any()
    found, flags = script.run_telemetry(rows)
    assert found.tobytes() == trace.tobytes()
    assert np.array_equal(flags, in_alarm)
    live = script.LiveTelemetry()
    assert [live.update(row) for row in rows] == in_alarm.tolist()


def watched_in_pieces(folder, rows, size):
    """Return alarms and time not watched of a watch of files of some rows."""
    first = N_TRAIN + N_TEST
    for k in range(0, len(rows), size):
        path = folder / f"by{size}" / f"{k:05d}.csv"
        write_table(path, first + k, rows[k : k + size])
        # A tag that says a word in place of its values, one of them unknown.
        lines = path.read_text().splitlines()
        for at in range(max(200 - k, 0), min(400 - k, size)):
            word = "#Ausfall" if at + k < 230 else "Wartung"
            cells = lines[at + 1].split(",")
            lines[at + 1] = ",".join([*cells[:-1], word])
        path.write_text("\n".join([*lines, ""]).replace("nan", ""))
    state = folder / f"{size}.db"
    watch_folder(folder / "rule.json", folder / f"by{size}", state, settle_s=0)
    found = dump(state, len(TAGS))
    del found["read"]
    return found


@pytest.mark.parametrize("name", ["var", "pca"])
def test_rows_with_too_few_tags_are_not_watched_after_the_memory(plant, name, tmp_path):
    made, _ = script_of(plant, name, tmp_path)
    rows = later()[:3500]
    rows[3380:3480, [0, 4]] = np.nan
    rows[200:400, 4] = np.nan
    by_size = [watched_in_pieces(tmp_path, rows, size) for size in (3500, 700, 60)]
    assert by_size[0] == by_size[1] == by_size[2]
    applied(rows, tmp_path, made)
    record = open_record(tmp_path / "exports", made, tmp_path / "rule.json")
    assert list(record.unwatched) == by_size[0]["unwatched"]
    # One row is held; then as many are watched as a residual is made of.
    begin = BEGIN.timestamp() + STEP_S * (N_TRAIN + N_TEST)
    too_few = [
        tuple(round((at - begin) / STEP_S) for at in (one.start, one.end))
        for one in record.unwatched
        if one.reason is NotWatched.TOO_FEW
    ]
    memory = made.forecast.looks_at
    lost = [(3101, 3151), (3301, 3306), (3381, 3480)]
    wanted = [(a + memory, b) for a, b in lost if a + memory < b]
    assert too_few == sorted([*wanted, (3155, 3160)])
    said = {one.kind: one.text() for one in by_size[0]["alarms"] if one.cause}
    assert "(too few tags: more than a quarter has no usable value)" in said["no data"]
    assert said["tag lost"].startswith("TT301 has no usable value since")
    assert "the export says 'Wartung', which is no number" in said["tag lost"]


def test_a_break_begins_a_run(plant, tmp_path):
    made, script = script_of(plant, "var", tmp_path)
    rows = later()
    flags = script.alarms_of_telemetry(rows, breaks=[1200])
    parts = [script.alarms_of_telemetry(part) for part in (rows[:1200], rows[1200:])]
    assert np.array_equal(flags, np.concatenate(parts))
    live = script.LiveTelemetry()
    again = [live.update(row, after_break=t == 1200) for t, row in enumerate(rows)]
    assert again == flags.tolist()
    assert made.forecast.looks_at == 6


def test_telemetry_is_read_from_a_table_with_numpy_alone(plant, tmp_path):
    _, script = script_of(plant, "var", tmp_path)
    rows = later()
    write_table(tmp_path / "export.csv", N_TRAIN + N_TEST, rows)
    text = (tmp_path / "export.csv").read_text().replace("nan", "")
    (tmp_path / "export.csv").write_text(text)
    blocked = (
        "import sys; sys.modules.update(sightline=None, scipy=None, numba=None);"
        "sys.argv = ['rule.py', '--telemetry', 'export.csv'];"
        "import runpy; runpy.run_path('rule.py', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", blocked],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()[1:]
    flags = script.alarms_of_telemetry(rows).astype(int)
    assert len(lines) == np.sum(np.diff(flags, prepend=0) == 1) > 3


def test_a_rule_without_forecast_says_so(plant, tmp_path):
    made, script = script_of(plant, "last-value", tmp_path)
    assert made.forecast is None
    with pytest.raises(ValueError, match="holds no forecast: give residuals"):
        script.alarms_of_telemetry(np.zeros((10, len(TAGS))))
    _, script = script_of(plant, "mean", tmp_path)
    with pytest.raises(ValueError, match="must have the 5 tags"):
        script.alarms_of_telemetry(np.zeros((10, 4)))
