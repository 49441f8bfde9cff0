"""`improve`: laws of what is written into telemetry, and a walk for each user."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import sightline
from sightline import FileError, Recording, StreamError, Tag
from sightline.cli.app import app
from sightline.data.segments import Attack
from sightline.improvement import files
from sightline.improvement.falsify import (
    DURATIONS_S,
    LEAST,
    LEAST_ROWS,
    SIZES,
    falsified,
    held_copy,
)
from sightline.improvement.files import (
    improvement_schema,
    read_improvement,
    write_improvement,
)
from sightline.improvement.record import seen_alone, seen_by, tables
from sightline.storage import read_rule, read_stream, write_stream

STEP_S = 30.0
NAMES = ("FLOW", "LEVEL", "TEMP", "PUMP", "STILL")


def recording(n, seed, attacked=True):
    """A flow, the level it makes, a temperature, a pump of two states; one still."""
    rng = np.random.default_rng(seed)
    pump = (np.arange(n) // 97 % 2).astype(float)
    flow = 2.0 * pump + 0.1 * rng.normal(size=n)
    level = np.cumsum(flow - flow.mean()) / 50 + 0.02 * rng.normal(size=n)
    temp = np.empty(n)
    temp[0] = 0.0
    for t in range(1, n):
        temp[t] = 0.97 * temp[t - 1] + 0.1 * rng.normal()
    values = np.stack([flow, level, temp, pump, np.full(n, 7.0)], axis=1)
    labels, attacks = np.zeros(n, np.int8), []
    if attacked:
        for k, (first, column) in enumerate(((500, 2), (3500, 0), (5500, 1))):
            rows = slice(first, first + 40)
            values[rows, column] += 1.5
            labels[rows] = 1
            attacks.append(Attack(id=f"attack {k + 1}", start=first, stop=first + 40))
    roles = {"PUMP": "actuator"}
    return Recording(
        values=values,
        tags=[Tag(name=name, role=roles.get(name, "sensor")) for name in NAMES],
        labels=labels,
        time=1e9 + STEP_S * np.arange(n),
        attacks=attacks,
    )


@pytest.fixture(scope="module")
def plant():
    return recording(4000, 1, attacked=False), recording(8000, 2)


@pytest.fixture(scope="module")
def given(plant):
    """The detector at hand, and its stream."""
    detector = sightline.make_detector("pca").fit(plant[0])
    return detector, sightline.export_stream(detector, *plant, name="mine")


@pytest.fixture(scope="module")
def found(plant, given):
    detector, stream = given
    return sightline.improve(stream, plant, detector=detector, budget="12/day,2%")


# --- What is written ------------------------------------------------------------------


@pytest.fixture(scope="module")
def part(plant):
    return held_copy(plant[1], 2800)


def written(part, plant, seed=0):
    free = plant[1].labels[:2800] == 0
    return list(falsified(part, plant[0], free, row_s=STEP_S, seed=seed))


def test_the_same_seed_writes_the_same_bytes(part, plant):
    first, again = written(part, plant), written(part, plant)
    assert [one for _, one in first] == [one for _, one in again]
    assert b"".join(v.tobytes() for v, _ in first) == b"".join(
        v.tobytes() for v, _ in again
    )
    assert [one for _, one in written(part, plant, seed=1)] != [one for _, one in first]


def test_copies_differ_only_where_and_in_what_is_listed(part, plant):
    longest, n, free = max(DURATIONS_S) / STEP_S, 0, plant[1].labels[:2800] == 0
    for values, listed in written(part, plant):
        untouched = np.ones(values.shape, bool)
        before = -np.inf
        for one in listed:
            rows, column = slice(one.start, one.stop), NAMES.index(one.tag)
            untouched[rows, column] = False
            moved = values[rows, column] - part.values[rows, column]
            assert np.abs(moved).max() > 0
            assert free[rows].all()
            assert one.start - before >= longest
            before = one.stop
            if one.kind == "step":
                spread = one.size * plant[0].values[:, column].std()
                np.testing.assert_allclose(moved, spread)
            if one.kind == "frozen":
                assert np.ptp(values[rows, column]) < 1e-9
            if one.kind == "actuator":
                assert one.tag == "PUMP"
                assert {*np.unique(values[rows, column])} <= {0.0, 1.0}
            n += 1
        np.testing.assert_array_equal(values[untouched], part.values[untouched])
    assert n >= LEAST


def test_all_kinds_sizes_signs_and_lengths_are_drawn(part, plant):
    every = [one for _, listed in written(part, plant) for one in listed]
    assert {one.kind for one in every} == {
        *("step", "ramp", "frozen", "replay", "actuator")
    }
    sized = {one.size for one in every if one.size is not None}
    assert sized == {sign * size for sign in (-1, 1) for size in SIZES}
    assert {one.minutes for one in every} == {6.0, 15.0}
    assert LEAST_ROWS * STEP_S == 6 * 60
    assert {one.tag for one in every} == {*NAMES} - {"STILL"}


def test_a_record_without_room_is_refused(part, plant):
    free = np.zeros(2800, bool)
    free[1000:1050] = True
    with pytest.raises(StreamError, match="Only 0 falsifications fit"):
        list(falsified(part, plant[0], free, row_s=STEP_S))


# --- What is found --------------------------------------------------------------------


def test_pair_stands_beside_the_detector_and_its_energy(found):
    names = [one.name for one in found.table]
    assert names == ["pca with energy", "pca with largest", "pair with largest"]
    assert found.record.recommended == "pca with largest"
    assert found.table[2].train_cpu_s > 0
    assert all(len(one.seen) == 3 for one in found.record.falsifications)
    large = [
        one
        for one in found.record.falsifications
        if one.tag == "TEMP" and one.kind == "step" and abs(one.size) == 4
    ]
    assert large
    # A step of four spreads of a tag that moves slowly is seen by its own past.
    assert all(one.seen[2] for one in large)


def test_counts_by_kind_size_and_tag_are_those_of_the_falsifications(found):
    every = found.record.falsifications
    for key in (lambda one: one.kind, lambda one: one.tag):
        rows = seen_by(found.record, key)
        assert sum(row.n for row in rows) == len(every)
        for k in range(3):
            assert sum(row.seen[k] for row in rows) == sum(o.seen[k] for o in every)
    own, other = seen_alone(found.record)
    assert not {*own} & {*other}
    assert all(every[k].seen[1] and not every[k].seen[2] for k in own)
    assert found.record.keep_both == (min(len(own), len(other)) >= 3)


def test_the_page_says_what_the_record_says(found):
    page = found.page()
    assert page.startswith("<!doctype html>")
    assert "src=" not in page
    for sentence in found.record.sentences():
        assert sentence[:60].replace("'", "&#39;") in page
    assert [len(t.records) > 0 for t in tables(found.record)] == [True] * 4


def test_figures_are_those_of_commission(found, given):
    made = sightline.commission(given[1], budget="12/day,2%", choose="z")
    row = made.facts.row("z")
    own = found.table[1]
    assert own.pauc_1 == row.pauc_1
    assert own.caught == row.attacks.which
    assert own.alarms_per_day == row.load.alarms_per_day
    assert found.rule.rule.limit == made.rules["z"].rule.limit


def test_a_limit_that_does_not_hold_is_not_written(given, tmp_path):
    stream = given[1]
    rows = np.concatenate([np.asarray(b, float) for b in stream.test.chunks()])
    loud = rows.copy()
    # The second half of the first part is three times as loud as the first.
    loud[1400:2800] *= 3.0
    found = sightline.improve(stream.replace(test=loud), budget="12/day,2%")
    assert not found.table[1].holds
    assert found.rule is None
    said = " ".join(found.record.sentences())
    assert "no limit of it holds here, so no rule is written" in said
    names = write_improvement(found, tmp_path / "out")
    assert names == ["candidates.csv", "improve.html", "improvement.json"]


def test_without_incidents_nothing_is_called_an_attack(given):
    _, stream = given
    bare = stream.replace(labels=np.zeros(stream.test.n_rows, np.int8), segments=())
    found = sightline.improve(bare, budget="12/day,2%")
    assert [one.pauc_1 for one in found.table] == [None, None]
    assert "catches" not in " ".join(found.record.sentences())
    body = found.page().partition("<body>")[2]
    assert "ttack" not in body
    assert "false alarm" not in body
    assert found.pair is None


def test_without_its_detector_only_pair_is_falsified(plant, given):
    found = sightline.improve(given[1], plant, budget="12/day,2%")
    assert {one.seen[:2] for one in found.record.falsifications} == {(None, None)}
    assert "The detector pca is not at hand" in " ".join(found.record.sentences())


def test_another_plant_or_detector_is_refused(plant, given):
    detector, stream = given
    other = plant[0], replace(plant[1], values=plant[1].values + 1.0)
    with pytest.raises(StreamError, match="does not begin with the residuals"):
        sightline.improve(stream, other, detector=detector, budget="12/day,2%")
    with pytest.raises(StreamError, match="must be a share"):
        sightline.improve(stream, plant, detector=detector, first=0)
    with pytest.raises(StreamError, match="train and of test"):
        sightline.improve(stream, plant[0], budget="12/day,2%")


# --- Files and the command ------------------------------------------------------------


def test_what_is_written_reads_back(found, given, tmp_path):
    given[0].save(tmp_path / "mine.npz")
    out = tmp_path / "out"
    names = write_improvement(found, out, detector=tmp_path / "mine.npz")
    assert read_improvement(out) == found.record
    pair = [f"pair/{name}" for name in ("detector.npz", "stream.npz")]
    assert {*names} >= {"falsifications.csv", "improve.html", *pair}
    again = read_stream(out / "pair" / "stream.npz")
    assert again.channels == found.stream.channels
    rule = read_rule(out / "pair" / "rule.json")
    assert rule.origin.saved_detector.path == "detector.npz"
    # Again, without telemetry: files of the user stay, rules of the first run go.
    (out / "notes.txt").write_text("mine")
    write_improvement(replace(found, rule=None, pair=None), out)
    assert (out / "notes.txt").is_file()
    assert not list(out.rglob("rule.json"))
    assert not list(out.rglob("*.npz"))
    (out / "improvement.json").write_text('{"schema": 1}')
    with pytest.raises(FileError, match="holds no improvement"):
        read_improvement(out)


def test_the_shipped_schema_is_the_generated_one():
    path = Path(files.__file__).with_name("improvement.schema.json")
    shipped = json.loads(path.read_text(encoding="utf-8"))
    assert shipped == json.loads(json.dumps(improvement_schema())), (
        "write it again: json.dumps(improvement_schema(), indent=1)"
    )


def test_a_stream_alone_on_the_command_line(given, tmp_path):
    path, out = tmp_path / "mine.npz", tmp_path / "out"
    write_stream(given[1], path)
    words = ["improve", str(path), "--budget", "12/day,2%", "--out", str(out)]
    said = CliRunner().invoke(app, words)
    assert said.exit_code == 0, said.output
    assert "Take the score largest" in said.output
    assert read_improvement(out).falsifications == ()
    twice = CliRunner().invoke(app, words)
    assert twice.exit_code == 1
    shutil.rmtree(out)
    said = CliRunner().invoke(app, [*words, "--detector", "x.npz"])
    assert said.exit_code == 1
