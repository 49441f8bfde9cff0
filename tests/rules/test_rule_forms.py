import importlib.util
import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from sightline import FileError, read_rule, write_rule
from sightline.metrics.alarm_load import Delays
from sightline.rules.file import write_script
from sightline.rules.named import default_rules
from tests.rules.made_rules import BY_NAME, STEP_S, made_rules, one_score, plant_stream

EVERY = (*default_rules(has_stages=True), *BY_NAME)
N_ROWS = 4000


def record():
    """Return some rows around the gap of a test, with breaks and score."""
    stream = plant_stream()
    half = int(stream.test_breaks[1])
    rows = np.concatenate(list(stream.test.chunks()))[half - 2000 : half + 2000]
    score = stream.score[half - 2000 : half + 2000]
    return rows, [2000], score


def rule_named(name):
    """Return a rule; units of ``standing`` stand soon, ``k of n`` has an on-delay."""
    if name == "standing":
        made = made_rules().deployed("all")
        delays = Delays(off=3, unit=12)
        members = [replace(m, limit=m.limit / 3) for m in made.rule.members]
        return replace(
            made, rule=replace(made.rule, delays=delays, members=tuple(members))
        )
    if name == "k of n":
        made = made_rules().deployed("x")
        delays = Delays(on=2, within=4, off=3, unit=12)
        limit = made.rule.limit / 3
        return replace(
            made,
            rule=replace(made.rule, delays=delays, limit=limit, night=400),
            limit=replace(made.limit, value=limit),
        )
    if name == "one score":
        return one_score().deployed()
    return made_rules().deployed(name)


def script_of(folder, made):
    """Return the module that is written beside a rule."""
    write_rule(made, folder / "rule.json")
    write_script(folder / "rule.py")
    spec = importlib.util.spec_from_file_location("rule_script", folder / "rule.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FORMS = [*EVERY, "standing", "k of n"]


@pytest.mark.parametrize("name", FORMS)
def test_the_script_gives_the_same_alarms_to_the_last_bit(name, tmp_path):
    made = rule_named(name)
    rows, breaks, score = record()
    known = made.rule.run(rows, breaks=breaks, score=score)
    script = script_of(tmp_path, made)
    trace, in_alarm = script.run(rows, breaks, score)
    assert trace.tobytes() == known.trace.tobytes()
    assert np.array_equal(in_alarm, known.in_alarm)
    assert np.array_equal(script.alarms(rows, breaks, score), known.in_alarm)
    assert known.in_alarm.any()
    live = script.Live()
    flags = [
        live.update(row, after_break=t == 2000, score=score[t])
        for t, row in enumerate(rows[:2200])
    ]
    assert flags == known.in_alarm[:2200].tolist()


@pytest.mark.parametrize("name", ["standing", "energy", "group~"])
def test_the_script_reads_rows_that_lack_channels(name, tmp_path):
    made = rule_named(name)
    rows, breaks, _ = record()
    rows = rows.copy()
    rows[500:900, 2] = np.nan
    rows[700:720, :5] = np.nan
    known = made.rule.run(rows, breaks=breaks)
    script = script_of(tmp_path, made)
    trace, in_alarm = script.run(rows, breaks)
    assert trace.tobytes() == known.trace.tobytes()
    assert np.array_equal(in_alarm, known.in_alarm)
    for row in (np.full(6, np.nan), [np.inf, 0, 0, 0, 0, 0]):
        with pytest.raises(ValueError, match="no value at all, or an infinite"):
            script.Live().update(row)


def test_rules_of_one_score(tmp_path):
    made = rule_named("one score")
    rows = np.abs(record()[0][:600, :1])
    known = made.rule.run(rows)
    trace, in_alarm = script_of(tmp_path, made).run(rows)
    assert trace.tobytes() == known.trace.tobytes()
    assert np.array_equal(in_alarm, known.in_alarm)


def test_the_script_needs_numpy_alone_and_reads_a_table(tmp_path):
    made = made_rules().deployed()
    script_of(tmp_path, made)
    stream = plant_stream()
    half = int(stream.test_breaks[1])
    rows, (cut,), _ = record()
    time = stream.test_time[half - 2000 : half + 2000]
    names = [channel.name for channel in made.rule.channels]
    order = [3, 0, 5, 1, 4, 2]
    lines = [",".join(["time", *(names[k] for k in order)])]
    lines += [
        ",".join([repr(at), *(repr(row[k]) for k in order)])
        for at, row in zip(time.tolist(), rows.tolist(), strict=True)
    ]
    (tmp_path / "residuals.csv").write_text("\n".join(lines))
    blocked = (
        "import sys; sys.modules.update(sightline=None, scipy=None, numba=None);"
        "sys.argv = ['rule.py', 'residuals.csv'];"
        "import runpy; runpy.run_path('rule.py', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", blocked],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    starts = [line.split(",")[0] for line in done.stdout.splitlines()[1:]]
    known = made.rule.episodes(rows, breaks=[cut])
    assert [float(at) for at in starts] == time[known.starts].tolist()
    assert time[cut] - time[cut - 1] == 7200 + STEP_S


# Values of a rule.json that are meant to be edited: none, since its promise and its
# limit come from commissioning alone.
MEANT_TO_BE_EDITED: frozenset[tuple[str | int, ...]] = frozenset()


def single_values(value, place=()):
    """Return the place of every number, text, truth value and null below a value."""
    if isinstance(value, dict | list) and value:
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        return [one for k, part in parts for one in single_values(part, (*place, k))]
    return [place]


def flipped(value):
    """Return the nearest other value of the same type."""
    if value is None or isinstance(value, bool | list | dict):
        return not value
    if isinstance(value, str):
        return value[:-1] + ("x" if value[-1:] != "x" else "y")
    return value + 1 if isinstance(value, int) else float(np.nextafter(value, np.inf))


def test_no_single_value_of_a_rule_changes_unnoticed(tmp_path):
    script = script_of(tmp_path, made_rules().deployed())
    path = tmp_path / "rule.json"
    whole = path.read_text()
    places, accepted = single_values(json.loads(whole)), set()
    for place in places:
        values = inner = json.loads(whole)
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = flipped(inner[place[-1]])
        path.write_text(json.dumps(values))
        for read, error in ((read_rule, FileError), (script.read, ValueError)):
            try:
                read(path)
            except error as refusal:
                told = str(refusal)
                assert "was changed since" in told or place == ("schema",), told
            else:
                accepted.add(place)
    assert accepted == MEANT_TO_BE_EDITED
    assert len(places) > 400
    path.write_text(whole)
    assert read_rule(path).rule.limit == script.read(path)["limit"]
