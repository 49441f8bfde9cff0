"""From telemetry to a rule, and from the rule back to telemetry."""

import csv
import json
import os
import shutil
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from sightline import (
    commission,
    export_stream,
    load_detector,
    open_testbed,
    read_rule,
    read_stream,
    write_rule,
    write_stream,
)
from sightline.cli.app import app
from tests.operation.plant_files import (
    DAY,
    N_TEST,
    N_TRAIN,
    STEP_S,
    readings,
    write_all,
    write_table,
)

# The rule that all tests share is written with its charts; later ones without.
pytestmark = pytest.mark.usefixtures("unrendered")


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def done(*words, code=0):
    result = invoke(*words)
    assert result.exit_code == code, result.output
    return " ".join(result.stdout.split())


def refused(result, *words):
    assert result.exit_code == 1, result.output
    assert result.stderr.count("\n") == 1
    assert not [word for word in words if word not in result.stderr], result.stderr


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A plant, its stream and detector, and a rule that was commissioned on it."""
    folder = tmp_path_factory.mktemp("made")
    write_all(folder)
    before = os.getcwd()
    os.chdir(folder)
    try:
        text = done("commission", "streams/var.npz", "--out", "rule")
    finally:
        os.chdir(before)
    (folder / "said.txt").write_text(text)
    return folder


@pytest.fixture
def home(made, tmp_path, monkeypatch):
    """A copy of it to work in."""
    shutil.copytree(made, tmp_path / "home")
    monkeypatch.chdir(tmp_path / "home")
    return tmp_path / "home"


def rows_of(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_commission_writes_the_rule_in_all_forms(made):
    written = {path.name for path in (made / "rule").iterdir()}
    assert written == {
        "curve.pdf",
        "curve.png",
        "curve.svg",
        "detector.npz",
        "rule.json",
        "rule.py",
        "rules.csv",
    }
    rule = read_rule(made / "rule")
    assert rule.origin.saved_detector.path == "detector.npz"
    assert rule.origin.timezone == "Europe/Berlin"
    units = {channel.name: channel.unit for channel in rule.rule.channels}
    assert units["FIT101"] == "m3/h"
    assert units["P201"] is None
    assert rule.origin.telemetry.step_s == STEP_S
    assert rule.origin.telemetry.roles["LIT101"] == "sensor"
    facts = commission(read_stream(made / "streams" / "var.npz"), budget="6/day").facts
    rows = rows_of(made / "rule" / "rules.csv")
    assert [row["rule"] for row in rows] == [
        *(row.name for row in facts.present),
        *(row.name for row in facts.table),
    ]
    (chosen,) = [row for row in rows if row["chosen"] == "True"]
    outcome = facts.row(facts.chosen)
    assert chosen["rule"] == facts.chosen == facts.choice.rule
    assert rule.origin.advice == facts.advice
    assert float(chosen["limit"]) == outcome.limit == rule.rule.limit
    assert float(chosen["promised_per_day"]) == outcome.promised_per_day
    assert int(chosen["raised"]) == outcome.attacks.raised
    assert chosen["promise"] == outcome.kept.value
    assert rows[0]["rule"] == "p99"
    assert rows[0]["promise"] == ""


def test_commission_says_what_was_promised_and_what_came_true(made):
    text = (made / "said.txt").read_text()
    assert "Alarm rules for 6/day,1%: made on 2.9 incident-free days" in text
    assert "It promised" in text
    assert "Before (p99)" in text
    assert "1 incident was left out of the commissioning rows" in text
    assert "could not see: `sightline blindspots`" in text
    assert "Blindness" not in text


def test_blind_spots_are_searched_if_asked(home):
    words = ("commission", "streams/var.npz", "--out", "rule", "--overwrite")
    (home / "rule" / "rule.st").write_text("of an earlier version")
    text = done(*words, "--blind-spots")
    assert "Blindness, in residual space: energy" in text
    assert "rule/rule.st is of an earlier rule, and stays as it is." in text


def test_nothing_is_replaced_without_being_asked(home):
    before = (home / "rule" / "rule.json").read_bytes()
    result = invoke("commission", "streams/var.npz", "--out", "rule")
    refused(result, "rule/rule.json", "--overwrite")
    assert (home / "rule" / "rule.json").read_bytes() == before
    done("commission", "streams/var.npz", "--out", "rule", "--overwrite")
    assert (home / "rule" / "rule.json").read_bytes() == before


def test_a_time_and_a_share_that_mean_the_same_row_give_the_same_rule(home):
    stream = read_stream(home / "streams" / "var.npz")
    row = int(0.35 * stream.test.n_rows)
    at = np.datetime64(int(stream.test_time[row]), "s")
    # The plant's zone is two hours ahead of UTC then.
    local = str(at + np.timedelta64(2, "h")).replace("T", " ")
    done("commission", "streams/var.npz", "--out", "until", "--until", local)
    one, other = (
        json.loads((home / d / "rule.json").read_text()) for d in ("rule", "until")
    )
    assert one == other


def test_options_reach_the_rule(home):
    done(
        *("commission", "streams/var.npz", "--out", "other", "--on", "2/3"),
        *("--choose", "cusum", "--without", "TT301", "--budget", "8/day,2%"),
        *("--first", "0.5", "--rule", "z+x~", "--reference", "commissioning"),
        "--train",
    )
    rule = read_rule(home / "other").rule
    assert rule.name == "cusum"
    assert (rule.delays.on, rule.delays.within) == (2, 3)
    assert "TT301" not in rule.views[0].units
    assert (rule.budget.per_day, rule.budget.share) == (8, 0.02)
    names = [row["rule"] for row in rows_of(home / "other" / "rules.csv")]
    assert names[-2:] == ["z+x~", "cusum"]


def test_commissioning_on_another_stream_judges_all_rows(home):
    done("commission", "streams/var.npz", "--calm", "streams/var.npz", "--out", "calm")
    row = rows_of(home / "calm" / "rules.csv")[-1]
    assert float(row["days"]) > 5


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--budget", "1/month"], ["too few to set a limit", "hours are missing"]),
        (["--budget", "often"], ["budget 'often' is not understood"]),
        (["--rule", "cusom"], ["no rule 'cusom'", "did you mean 'cusum'"]),
        (["--without", "TT300"], ["TT301"]),
        (["--until", "tomorrow"], ["--until 'tomorrow' is no time"]),
        (["--until", "2020-01-01"], ["before the first test row"]),
        (["--detector", "plant/tags.csv"], ["tags.csv"]),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_written(home, words, said):
    refused(invoke("commission", "streams/var.npz", "--out", "new", *words), *said)
    assert not (home / "new").exists()


@pytest.mark.parametrize(
    "words",
    [["--on", "5/3"], ["--reference", "test"], ["--first", "0.3", "--until", "x"]],
)
def test_wrong_usage(home, words):
    result = invoke("commission", "streams/var.npz", "--out", "new", *words)
    assert result.exit_code == 2
    assert not (home / "new").exists()


# --- Apply ----------------------------------------------------------------------------


def residual_table(path, stream, n_rows=None):
    """Write the test rows of a stream as a table, with time and label."""
    rows = np.concatenate(list(stream.test.chunks()))
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        # Channels in another order, with one more column.
        order = [4, 2, 0, 1, 3]
        writer.writerow(["Time", *(stream.channels[k] for k in order), "label", "note"])
        for t in range(n_rows or len(rows)):
            at = np.datetime64(int(stream.test_time[t]), "s")
            cells = [repr(float(rows[t, k])) for k in order]
            writer.writerow([f"{at}+00:00", *cells, int(stream.labels[t]), "x"])


def test_a_stream_its_plant_its_exports_and_its_table_give_the_same_alarms(home):
    stream = read_stream(home / "streams" / "var.npz")
    residual_table(home / "residuals.csv", stream)
    pl.read_csv(home / "residuals.csv").write_parquet(home / "residuals.parquet")
    lines = (home / "plant" / "test.csv").read_text().splitlines()
    (home / "exports").mkdir()
    # Two exports, with the tags in another order and one more.
    for name, part in (("b.csv", lines[1:4001]), ("a.csv", lines[4001:])):
        swapped = []
        for line in [lines[0], *part]:
            at, *cells = line.split(",")
            extra = "SPARE" if line == lines[0] else "1"
            swapped.append(",".join([at, *cells[::-1], extra]))
        (home / "exports" / name).write_text("\n".join(swapped) + "\n")
    texts = {}
    for source in (
        "streams/var.npz",
        "plant",
        "exports",
        "residuals.csv",
        "residuals.parquet",
    ):
        out = source.replace("/", "-")
        done("apply", "rule/rule.json", source, "--out", f"out/{out}")
        texts[source] = (home / "out" / out / "alarms.csv").read_text()
    text = texts.pop("plant")
    for other in texts.values():
        assert other == text
    alarms = rows_of(home / "out" / "plant" / "alarms.csv")
    assert list(alarms[0]) == ["start", "end", "seconds", "peak", "member", "tags"]
    assert alarms[0]["start"].endswith("+02:00")
    known = read_rule(home / "rule").rule.episodes(
        np.concatenate(list(stream.test.chunks())), breaks=stream.test_breaks
    )
    assert len(alarms) == len(known.starts)
    seconds = (known.lasts - known.starts + 1) * STEP_S
    assert [float(row["seconds"]) for row in alarms] == seconds.tolist()
    # The tag of the fourth attack moves no other, and leads.
    attack = stream.attack_segments()[3]
    (hit,) = [k for k, t in enumerate(known.starts) if attack.start <= t < attack.stop]
    assert alarms[hit]["tags"].split()[0] == attack.targets[0] == "TT301"
    # What came true is what commissioning said of the same later rows.
    applied = json.loads(
        (home / "out" / "streams-var.npz" / "applied.json").read_text()
    )
    (chosen,) = [
        row for row in rows_of(home / "rule" / "rules.csv") if row["chosen"] == "True"
    ]
    assert applied["outcome"]["load"]["alarms"] == int(chosen["alarms"])
    assert applied["outcome"]["attacks"]["raised"] == int(chosen["raised"])
    assert applied["outcome"]["kept"] == chosen["promise"]


def test_a_workbook_with_a_tag_that_dies_is_applied_and_drift_is_a_number(home):
    lines = (home / "plant" / "test.csv").read_text().splitlines()
    names, *rows = (line.split(",") for line in [lines[0], *lines[-3000:]])
    dead = len(names) - 1
    (home / "exports").mkdir()
    columns = {
        name: [row[k] if k == 0 else float(row[k]) for row in rows]
        for k, name in enumerate(names)
    }
    columns[names[dead]][1000:] = [None] * 2000
    pl.DataFrame(columns).write_excel(home / "exports" / "week.xlsx")
    text = done("apply", "rule/rule.json", "exports", "--out", "out")
    assert "nan" not in text
    drift = json.loads((home / "out" / "applied.json").read_text())["drift"]
    assert 0 <= drift["shift"] < 5
    tags = rows_of(home / "out" / "drift.csv")
    assert all(np.isfinite(float(tag["shift"])) for tag in tags)


def shifted(home, size):
    """Write a later stream whose second tag has moved, without attacks."""
    stream = read_stream(home / "streams" / "var.npz")
    rows = np.concatenate(list(stream.test.chunks()))
    train = np.concatenate(list(stream.train.chunks()))
    calm = stream.labels == 0
    rows = rows[calm]
    rows[:, 1] += size * train[:, 1].std(ddof=1)
    time = stream.test_time[-1] + STEP_S * np.arange(1, len(rows) + 1)
    later = stream.replace(
        test=rows,
        labels=np.zeros(len(rows), np.int8),
        score=None,
        alarms=None,
        segments=(),
        test_time=time,
        test_breaks=None,
        telemetry_train=None,
        telemetry_test=None,
        meta={k: v for k, v in stream.meta.items() if k in ("groups", "scale")},
    )
    write_stream(later, home / "later.npz")


def test_a_broken_promise_is_exit_code_3_and_drift_names_the_tag(home):
    shifted(home, 30.0)
    text = done("apply", "rule", "later.npz", "--out", "out", code=3)
    assert "of 6 promises, renewed each watched day, 1 broken, and yet more" in text
    assert "LIT101 lies 38.0 spreads higher since 2026-04-05 01:00:00" in text
    assert "100.0% of the time, more than twice the 1% of the budget" in text
    first, *others = rows_of(home / "out" / "drift.csv")
    assert first["channel"] == "LIT101"
    assert float(first["shift"]) == pytest.approx(30, rel=0.02)
    assert all(abs(float(row["shift"])) < 0.2 for row in others)
    assert float(first["energy_share"]) > 0.95
    assert float(first["energy_share_then"]) < 0.5
    applied = json.loads((home / "out" / "applied.json").read_text())
    # It rings for an hour, and then it stands, which the promise does not count.
    assert applied["outcome"]["kept"] == "kept"
    # It stands for as long as the record: once an hour. The other tags go on.
    load = applied["outcome"]["load"]
    assert load["standing"] / load["days"] == pytest.approx(24, abs=3)
    assert 24 < load["alarms_per_day"] < 24 + 2 * 6
    assert applied["drift"]["shift"] == pytest.approx(30 / np.sqrt(5), rel=0.03)


def test_without_drift_nothing_has_moved(home):
    shifted(home, 0.0)
    text = done("apply", "rule", "later.npz", "--out", "out")
    assert "Tags that have moved" not in text
    applied = json.loads((home / "out" / "applied.json").read_text())
    assert applied["drift"]["shift"] < 0.1
    assert applied["drift"]["energy_ratio"] == pytest.approx(1, abs=0.15)


def test_rows_that_set_the_limit_are_not_judged(home):
    done("apply", "rule", "streams/var.npz", "--out", "out")
    applied = json.loads((home / "out" / "applied.json").read_text())
    assert any("not later than those" in text for text in applied["notices"])
    assert applied["outcome"]["load"]["days"] < 0.66 * 6


def test_a_record_before_commissioning_cannot_be_judged(home):
    stream = read_stream(home / "streams" / "var.npz")
    residual_table(home / "early.csv", stream, n_rows=DAY)
    text = done("apply", "rule", "early.csv", "--out", "out")
    assert "No attack-free row is left to judge its promise on" in text


def changed_rule(home):
    path = home / "rule" / "rule.json"
    path.write_text(path.read_text().replace('"per_day": 6.0', '"per_day": 9.0'))


def newer_rule(home):
    path = home / "rule" / "rule.json"
    path.write_text(path.read_text().replace('"schema": 2', '"schema": 3'))


def changed_detector(home):
    shutil.copy(home / "streams" / "var.npz", home / "rule" / "detector.npz")


def no_detector(home):
    (home / "rule" / "detector.npz").unlink()


def fewer_tags(home):
    path = home / "exports" / "a.csv"
    path.parent.mkdir()
    path.write_text("time,FIT101\n2026-04-01 00:00,1\n2026-04-01 00:01,2\n")


def other_step(home):
    values = np.zeros((500, 5))
    write_table(home / "exports" / "a.csv", N_TRAIN, values)
    path = home / "exports" / "a.csv"
    lines = path.read_text().splitlines()
    # Every second and a half row: 90 s.
    moved = [lines[0]]
    for k, line in enumerate(lines[1:]):
        at = np.datetime64("2026-06-01T00:00") + np.timedelta64(90 * k, "s")
        moved.append(f"{at}+02:00," + line.split(",", 1)[1])
    path.write_text("\n".join(moved) + "\n")


@pytest.mark.parametrize(
    ("damage", "source", "said"),
    [
        (changed_rule, "streams/var.npz", ["was changed since it was written"]),
        (newer_rule, "streams/var.npz", ["has schema 3", "update it"]),
        (changed_detector, "plant", ["is not the detector that the rule was made for"]),
        (no_detector, "plant", ["there is no such file", "--detector"]),
        (
            fewer_tags,
            "exports",
            ["a.csv: nothing was watched", "half of the detector's tags"],
        ),
        (other_step, "exports", ["90 s apart", "60 s apart"]),
        (None, "nothing.csv", ["nothing.csv: there is no such file"]),
        (None, "rule/rule.py", ["is neither a stream"]),
        (None, "plant/tags.csv", ["lack"]),
    ],
)
def test_bad_input_of_apply(home, damage, source, said):
    if damage is not None:
        damage(home)
    refused(invoke("apply", "rule/rule.json", source, "--out", "out"), *said)
    assert not (home / "out").exists()


def test_another_place_of_the_detector(home):
    (home / "rule" / "detector.npz").rename(home / "moved.npz")
    done("apply", "rule", "plant", "--out", "out", "--detector", "moved.npz")
    result = invoke("apply", "rule", "plant", "--out", "out", "--detector", "moved.npz")
    refused(result, "out/alarms.csv", "--overwrite")


def test_a_stream_of_other_channels_is_refused(home):
    stream = read_stream(home / "streams" / "var.npz")
    names = ["A", *stream.channels[1:]]
    write_stream(stream.replace(channels=names, meta={}), home / "other.npz")
    result = invoke("apply", "rule", "other.npz", "--out", "out")
    refused(result, "other.npz", "lack FIT101")
    assert not (home / "out").exists()


def test_faster_telemetry_is_brought_to_the_step_of_the_detector(home):
    """Three rows of 20 s, of which the median is the row of a minute."""
    lines = (home / "plant" / "test.csv").read_text().splitlines()
    faster = [lines[0]]
    for line in lines[1:]:
        at, cells = line.split(",", 1)
        values = np.array([float(cell) for cell in cells.split(",")])
        for k, row in enumerate((values - 1, values, values + 1)):
            faster.append(
                ",".join([f"{at[:17]}{20 * k:02}{at[19:]}", *map(repr, row.tolist())])
            )
    (home / "exports").mkdir()
    (home / "exports" / "a.csv").write_text("\n".join(faster) + "\n")
    for source in ("exports", "plant"):
        done("apply", "rule", source, "--out", f"out/{source}")
    one, other = (
        (home / "out" / source / "alarms.csv").read_text()
        for source in ("exports", "plant")
    )
    assert one == other


def test_labels_of_exports_are_respected(home):
    lines = (home / "plant" / "test.csv").read_text().splitlines()
    stream = read_stream(home / "streams" / "var.npz")
    labels = (np.asarray(stream.labels) == 1).astype(int)
    labels = [0] * (len(lines) - 1 - len(labels)) + labels.tolist()
    text = [f"{lines[0]},label"]
    text += [f"{line},{label}" for line, label in zip(lines[1:], labels, strict=True)]
    (home / "exports").mkdir()
    (home / "exports" / "a.csv").write_text("\n".join(text) + "\n")
    raised = []
    for source in ("exports", "plant"):
        done("apply", "rule", source, "--out", f"out/{source}")
        applied = json.loads((home / "out" / source / "applied.json").read_text())
        raised.append(applied["outcome"]["attacks"])
    assert raised[0]["n_attacks"] == 4
    assert raised[0]["raised"] == raised[1]["raised"]


def test_a_stream_without_clock_needs_the_step(home):
    rng = np.random.default_rng(0)
    train, test = rng.normal(size=(2000, 3)), rng.normal(size=(20_000, 3))
    np.savez(home / "mine.npz", train=train, test=test)
    result = invoke("commission", "mine.npz", "--out", "mine")
    refused(result, "Seconds a row are not known")
    done("commission", "mine.npz", "--out", "mine", "--step", "60")
    text = done("apply", "mine", "mine.npz", "--out", "out")
    assert "the promise is judged on them too" in text
    first = rows_of(home / "out" / "alarms.csv")[0]
    # Rows, as there is no clock.
    assert 0 <= int(first["start"]) <= int(first["end"]) < 20_000


def test_a_rule_without_detector_cannot_read_telemetry(home):
    shutil.move(home / "streams" / "var.npz", home / "var.npz")
    text = done("commission", "var.npz", "--out", "alone")
    assert "No saved detector is known" in text
    result = invoke("apply", "alone", "plant", "--out", "out")
    refused(result, "names no saved detector")


# --- Reviewed episodes, and rows of exports -------------------------------------------


def test_an_episode_that_decides_is_written_to_be_reviewed(home):
    stream = read_stream(home / "streams" / "var.npz")
    rows = np.concatenate([np.asarray(part) for part in stream.test.chunks()])
    rows[600:620] += 400 * rows.std(axis=0)
    write_stream(stream.replace(test=rows), home / "streams" / "var.npz")
    words = ("commission", "streams/var.npz", "--out", "new")
    text = done(*words, code=4)
    assert "Look at 1 episode first" in text
    assert "decide each row of new/review.csv" in text
    assert not (home / "new" / "rule.json").exists()
    (row,) = rows_of(home / "new" / "review.csv")
    assert row["decision"] == "unknown"
    limits = []
    for decision in ("normal", "incident"):
        table = (home / "new" / "review.csv").read_text()
        (home / "list.csv").write_text(table.replace("unknown", decision))
        text = done(*words, "--incidents", "list.csv", "--overwrite")
        assert "1 of 1 reviewed episode" in text or decision == "normal"
        limits.append(read_rule(home / "new").limit.value)
    assert limits[0] != limits[1]
    words = (*words, "--incidents", "list.csv", "--overwrite")
    # A list that nobody has decided, and one about other times.
    (home / "list.csv").write_text(table)
    refused(invoke(*words), "decide what is known")
    (home / "list.csv").write_text(
        table.replace("2026-", "2020-").replace("unknown", "normal")
    )
    refused(invoke(*words), "none of its 1 episode has a test row")


@pytest.mark.parametrize("form", ["folder", "files"])
def test_exports_commission_as_a_stream_of_the_same_rows(home, form):
    rows = readings(5 * DAY, 3)
    rows[2000:2020, 1] += 20.0
    for k in range(2):
        part = slice(3600 * k, 3600 * (k + 1))
        write_table(
            home / "exports" / f"{k}.csv", N_TRAIN + N_TEST + 3600 * k, rows[part]
        )
    shutil.copytree(home / "plant", home / "later")
    write_table(home / "later" / "test.csv", N_TRAIN + N_TEST, rows)
    (home / "later" / "attacks.csv").unlink()
    plant = open_testbed(home / "later", cache=False)
    detector = load_detector(home / "detectors" / "var.npz")
    later = export_stream(detector, plant.train, plant.test)
    write_stream(later, home / "later.npz")
    files = [home / "exports" / f"{k}.csv" for k in range(2)]
    sources = [home / "exports"] if form == "folder" else files
    words = ("commission", "streams/var.npz", "--choose", "all")
    calm = [word for path in sources for word in ("--calm", path)]
    done(*words, *calm, "--out", "one")
    done(*words, "--calm", "later.npz", "--out", "other")
    one, other = (
        json.loads((home / d / "rule.json").read_text())["rule"]
        for d in ("one", "other")
    )
    assert one == other


def test_exports_that_the_detector_learned_from_set_no_limit(home):
    words = ("commission", "streams/var.npz", "--calm", "plant/train.csv")
    refused(invoke(*words, "--out", "one"), "No row of these exports is left")
    shutil.move(home / "streams" / "var.npz", home / "var.npz")
    words = ("commission", "var.npz", "--calm", "plant/test.csv", "--out", "one")
    refused(invoke(*words), "name it with --detector")


def test_the_rule_in_use_is_kept_or_replaced_in_one_sentence(home):
    words = ("commission", "streams/var.npz", "--out", "new", "--keep", "rule")
    text = done(*words)
    said = read_rule(home / "new").origin.advice
    assert said in text
    assert said.startswith("Keep the rule in use rather than rule ")
    assert "looks better than it is" not in text
    text = done(*words, "--overwrite", "--first", "0.3")
    assert "it looks better than it is" in text
    write_rule(done_with(read_rule(home / "rule")), home / "high.json")
    text = done(*words[:-1], "high.json", "--overwrite")
    assert "Replace the rule in use by rule " in text
    assert read_rule(home / "new").origin.advice in text


def test_a_rule_in_use_of_another_detector_is_refused(home):
    made = read_rule(home / "rule")
    other = replace(made, origin=replace(made.origin, detector="another"))
    write_rule(other, home / "other.json")
    words = ("commission", "streams/var.npz", "--out", "new", "--keep", "other.json")
    refused(invoke(*words), "'another'", "'var'", "give the stream of its own detector")


def test_a_fixed_rule_is_judged_by_fixed_means_and_asks_nothing(home):
    name = read_rule(home / "rule").rule.name
    words = ("commission", "streams/var.npz", "--choose", name)
    for out, more in (("following", ()), ("fixed", ("--fixed",))):
        done(*words, "--out", out, *more)
    following, fixed = read_rule(home / "following"), read_rule(home / "fixed")
    assert (following.rule.night > 0, fixed.rule.night) == (True, 0)
    # Nothing else differs: limits are set on rows on which no mean is followed.
    assert replace(following.rule, night=0).limit == fixed.rule.limit
    assert fixed.promise == following.promise
    # What it is judged on is what `apply --fixed` says of the other.
    applied = [
        done("apply", rule, "streams/var.npz", "--out", f"applied-{rule}", *more)
        for rule, more in (("following", ("--fixed",)), ("fixed", ()))
    ]
    assert applied[0].partition("Written")[0] == applied[1].partition("Written")[0]


def done_with(made):
    """Return a rule that rings hardly ever."""
    limit = replace(made.limit, value=1e4)
    return replace(made, rule=made.rule.with_limit(1e4), limit=limit)


def test_a_rule_for_telemetry_is_made_again_from_exports(home):
    rows = readings(4 * DAY, 3)
    rows[3000:3030, 2] = np.nan
    for k in range(4):
        part = slice(k * DAY, (k + 1) * DAY)
        write_table(
            home / "exports" / f"{k}.csv", N_TRAIN + N_TEST + k * DAY, rows[part]
        )
        os.utime(home / "exports" / f"{k}.csv", (1e9, 1e9))
    words = ("--folder", "exports", "--state", "watch.db")
    done("watch", "rule", *words, "--exit-zero")
    text = done("recommission", "watch.db", "--last", "3d", "--out", "again")
    assert "made on 3.0 days without an incident for 6/day,1%" in text
    again = read_rule(home / "again")
    assert again.origin.saved_detector.path == "detector.npz"
    assert again.origin.ends - again.origin.begins == 3 * DAY * 60 - 60
    done("apply", "again", "exports", "--out", "out", code=0)
