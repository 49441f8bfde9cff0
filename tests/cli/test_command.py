"""The command: what it prints, what it writes, and what it leaves alone."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from samples import (
    arrays_of,
    bare_stream,
    columns_of,
    full_stream,
    states_of,
    write_csv,
    write_states,
)
from typer.main import get_command
from typer.testing import CliRunner

import sightline
from sightline import read_evaluation, storage, write_stream
from sightline.audit.record import Audit, RecordingFacts, carried, finding
from sightline.cli.app import app
from sightline.data import stream_input
from sightline.evaluation import pipeline
from sightline.text import from_csv_cell

WRITTEN = {"evaluation.json", "segments.csv", "traces.npz"}


def run(*arguments, **options):
    options.setdefault("catch_exceptions", True)
    return CliRunner().invoke(app, [str(a) for a in arguments], **options)


def evaluate(*arguments, out, **options):
    """Run the command without intervals and report, which take time."""
    less = ("--no-intervals", "--no-report")
    return run("evaluate", *arguments, *less, "--out", out, **options)


def succeeded(result):
    assert result.exit_code == 0, result.output
    return result


def refused(result, *words):
    """Exit code 1, one sentence on stderr with these words, nothing on stdout."""
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit), result.exception
    assert re.fullmatch(r"error: [^\n]+\n", result.stderr), result.stderr
    assert result.stdout == ""
    missing = [word for word in words if word not in result.stderr]
    assert not missing, result.stderr


def contents(folder):
    """Return the bytes of every file below a folder, by relative path."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def rows_of(path):
    with open(path, newline="", encoding="utf-8") as handle:
        return list(csv.DictReader(handle))


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


@pytest.fixture
def stream(tmp_path):
    write_stream(full_stream(), tmp_path / "sample.npz")
    return tmp_path / "sample.npz"


# ---- what it writes and says -----------------------------------------------------


def test_a_stream_gives_a_folder_a_summary_and_a_table(stream, out):
    result = succeeded(evaluate(stream, out=out))
    assert {path.name for path in out.iterdir()} == {"sample", "summary.csv"}
    assert {path.name for path in (out / "sample").iterdir()} == WRITTEN
    assert "sample" in result.stdout
    assert f"Written to {out}/" in result.stdout
    assert "traces.npz" in result.stdout
    assert result.stderr == ""
    assert "\x1b" not in result.stdout
    [row] = rows_of(out / "summary.csv")
    evaluation = read_evaluation(out / "sample")
    assert row["result"] == row["name"] == "sample"
    assert float(row["roc_auc"]) == evaluation.rank.roc_auc
    assert int(row["own_rule_hits"]) == evaluation.own_rule.hits
    ids = [segment["id"] for segment in rows_of(out / "sample" / "segments.csv")]
    assert ids == ["A1", "A2"]


def test_the_folder_is_called_result_when_not_said(stream, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    succeeded(run("evaluate", "sample.npz", "--no-intervals"))
    assert {path.name for path in (tmp_path / "result" / "sample").iterdir()} == WRITTEN


def test_intervals_are_measured_unless_left_out(stream, out):
    succeeded(run("evaluate", stream, "--out", out / "with"))
    succeeded(evaluate(stream, out=out / "without"))
    assert read_evaluation(out / "with" / "sample").intervals
    assert read_evaluation(out / "without" / "sample").intervals is None


def test_every_format_gives_the_same_files(tmp_path, out):
    write_stream(full_stream(), tmp_path / "npz" / "sample.npz")
    write_stream(full_stream(), tmp_path / "parquet" / "sample")
    for kind, name in (("npz", "sample.npz"), ("parquet", "sample")):
        succeeded(evaluate(tmp_path / kind / name, out=out / kind))
    npz, parquet = contents(out / "npz"), contents(out / "parquet")
    for archives in (npz, parquet):
        del archives["sample/traces.npz"]  # a zip holds the time it was written
    assert npz == parquet


@pytest.mark.parametrize("label", ["7", "x"])
def test_a_wrong_label_is_named_by_its_file_and_line(tmp_path, out, label):
    train, test = tmp_path / "train.csv", tmp_path / "test.csv"
    train.write_text("LIT101\n0.1\n0.2\n")
    test.write_text(f"LIT101,y\n0.1,0\n0.3,1\n0.2,{label}\n")
    result = evaluate("--train", train, "--test", test, "--label", "y", out=out)
    refused(result, f"error: {test}: column 'y'", f"row 2 (line 4) is '{label}'")


def test_attacks_are_listed_by_their_times_where_rows_have_dates(tmp_path, out):
    rng = np.random.default_rng(0)
    test = rng.normal(size=(3000, 2))
    test[100:160] += 9
    labels = np.zeros(3000, int)
    labels[100:160] = 1
    for first, words in ((1_792_800_000, "2026-10-24 00:16:40"), (0, "100-159")):
        stream = sightline.ResidualStream(
            rng.normal(size=(3000, 2)),
            test,
            labels,
            test_time=first + 10.0 * np.arange(3000),
            timezone="UTC",
            name=f"from{first}",
        )
        path = tmp_path / f"{first}.npz"
        write_stream(stream, path)
        told = succeeded(evaluate(path, out=out)).stdout
        assert words in told
        assert ("times in UTC" in told) == (first > 0)


@pytest.mark.parametrize("kinds", [("csv", "csv"), ("parquet", "csv")], ids="-".join)
def test_two_tables_are_a_stream(tmp_path, out, kinds):
    times = {"train": np.arange(60) * 30, "test": np.arange(50) * 30}
    arguments = []
    for split, kind in zip(("train", "test"), kinds, strict=True):
        columns = columns_of(bare_stream(), split) | {"t": times[split]}
        path = tmp_path / f"{split}.{kind}"
        if kind == "csv":
            write_csv(path, columns)
        else:
            pq.write_table(pa.table(columns), path)
        arguments += [f"--{split}", path]
    arguments += ["--label", "y", "--time", "t"]
    succeeded(evaluate(*arguments, out=out))
    facts = read_evaluation(out / "test").stream
    assert (facts.p, facts.n_train, facts.n_attack, facts.step_s) == (3, 60, 9, 30.0)
    succeeded(evaluate(*arguments, "--name", "mine", out=out))
    assert [row["result"] for row in rows_of(out / "summary.csv")] == ["mine", "test"]


def test_tables_come_with_alarms_score_attacks_and_telemetry(tmp_path, out):
    sample = full_stream()
    clock = {"time": 2e9 + np.arange(50) * 10}
    own = {"alarm": sample.alarms, "score": sample.score}
    train = write_csv(tmp_path / "train.csv", columns_of(sample, "train"))
    test = write_csv(tmp_path / "test.csv", columns_of(sample, "test") | clock | own)
    plant = {"level": np.arange(60.0), "flow": np.arange(60.0) % 7}
    measured = write_csv(tmp_path / "plant.csv", plant)
    later = {name: values[:50] for name, values in plant.items()}
    measured_later = write_csv(tmp_path / "later.csv", later | clock)
    attacks = tmp_path / "attacks.csv"
    attacks.write_text("id,start,end,tags\nA1,2000000100,2000000140,LIT101\n")
    succeeded(
        evaluate(
            *("--train", train, "--test", test, "--label", "y", "--time", "time"),
            *("--alarms", "alarm", "--score", "score", "--attacks", attacks),
            *("--telemetry-train", measured, "--telemetry-test", measured_later),
            *("--estimator", "oas", "--name", "mine"),
            out=out,
        )
    )
    result = read_evaluation(out / "mine")
    assert result.own_rule is not None
    assert result.own_score is not None
    assert result.reference.estimator == "oas"
    assert [row.id for row in result.segments] == ["A1", "unlisted-2"]
    assert result.segments[0].targets == ("LIT101",)


def test_a_stream_comes_with_attacks_and_an_alarm_log(tmp_path, out):
    clock = {"test_time": 2e9 + np.arange(50) * 10}
    write_stream(bare_stream(**clock), tmp_path / "bare.npz")
    (tmp_path / "attacks.csv").write_text("id,start,end\ndrain,10,14\n")
    (tmp_path / "log.csv").write_text("start,end,tag\n2000000120,2000000130,x\n")
    score = write_csv(tmp_path / "score.csv", {"score": np.arange(50)})
    result = succeeded(
        evaluate(
            *(tmp_path / "bare.npz", "--attacks", tmp_path / "attacks.csv"),
            *("--alarm-log", tmp_path / "log.csv", "--score", score),
            out=out,
        )
    )
    evaluation = read_evaluation(out / "bare")
    assert [row.id for row in evaluation.segments] == ["drain", "unlisted-2"]
    assert evaluation.own_rule.hits == 1
    assert "start and end are rows of test" in " ".join(result.stdout.split())


def test_an_ipal_folder_is_a_stream(tmp_path, out):
    for split in ("train", "test"):
        states = states_of(bare_stream(), split)
        for state in states:
            state["scores"]["Other"] = [state["timestamp"] % 5, 1.0]
        write_states(tmp_path / "plant" / f"{split}.state", states)
    refused(evaluate(tmp_path / "plant", out=out), "GeCo, Other", "--detector")
    succeeded(evaluate(tmp_path / "plant", "--detector", "GeCo", out=out))
    assert read_evaluation(out / "plant").stream.detector == "GeCo"


def test_seconds_a_row_may_be_said(tmp_path, out):
    np.savez(tmp_path / "bare.npz", **arrays_of(bare_stream()))
    result = succeeded(evaluate(tmp_path / "bare.npz", out=out / "a"))
    assert "The time step is not known" in " ".join(result.stdout.split())
    result = succeeded(evaluate(tmp_path / "bare.npz", "--step", 60, out=out / "b"))
    assert read_evaluation(out / "b" / "bare").probe.false_alarms_per_day is not None
    refused(evaluate(tmp_path / "bare.npz", "--step", "-1", out=out / "c"), "`step_s`")


def test_rows_are_checked_once_although_the_step_is_set(tmp_path, out, monkeypatch):
    np.savez(tmp_path / "bare.npz", **arrays_of(bare_stream()))
    checked = []

    def counting(values, name, *rest, real=stream_input.rows_of):
        checked.append(name)
        return real(values, name, *rest)

    monkeypatch.setattr(stream_input, "rows_of", counting)
    succeeded(evaluate(tmp_path / "bare.npz", "--step", 60, out=out))
    assert checked == ["train", "test"]
    assert read_evaluation(out / "bare").stream.step_s == 60


def test_an_unknown_array_is_told_and_is_no_error(tmp_path, out):
    path = tmp_path / "more.npz"
    np.savez(path, weights=np.ones(3), **arrays_of(bare_stream()))
    result = succeeded(evaluate(path, out=out))
    assert "'weights' is not one Sightline knows" in " ".join(result.stdout.split())
    assert any("'weights'" in told for told in read_evaluation(out / "more").notices)


def test_a_stream_without_attacks_is_measured(tmp_path, out):
    write_stream(bare_stream().replace(labels=np.zeros(50)), tmp_path / "quiet.npz")
    result = succeeded(evaluate(tmp_path / "quiet.npz", out=out))
    assert "No test row is labelled an incident" in result.stdout
    [row] = rows_of(out / "summary.csv")
    assert row["roc_auc"] == ""
    assert row["d_drift"] != ""


def test_nonfinite_rows_are_dropped_only_when_asked(tmp_path, out):
    arrays = arrays_of(bare_stream())
    arrays["train"][[4, 9], 1] = np.nan
    arrays["test"][20, 2] = np.inf
    np.savez(tmp_path / "holes.npz", **arrays)
    result = evaluate(tmp_path / "holes.npz", out=out)
    refused(
        result,
        "holes.npz",
        "`train`",
        "row 4",
        "'channel_1'",
        "2 values",
        "--drop-nonfinite",
    )
    assert not out.exists()
    result = succeeded(evaluate(tmp_path / "holes.npz", "--drop-nonfinite", out=out))
    told = " ".join(result.stdout.split())
    assert "dropped: 2 of train, 1 of test" in told
    evaluation = read_evaluation(out / "holes")
    assert evaluation.dropped_rows == {"train": 2, "test": 1, "calibration": 0}
    assert (evaluation.stream.n_train, evaluation.stream.n_test) == (58, 49)


# ---- several streams -------------------------------------------------------------


@pytest.fixture
def three(tmp_path):
    for k, name in enumerate("abc"):
        stream = bare_stream()
        stream = stream.replace(test=stream.test.values * (1 + k))
        write_stream(stream, tmp_path / f"{name}.npz")
    return [tmp_path / f"{name}.npz" for name in "abc"]


def test_each_of_several_streams_has_a_row(three, out):
    result = succeeded(evaluate(*three, out=out))
    assert [row["result"] for row in rows_of(out / "summary.csv")] == ["a", "b", "c"]
    assert all({p.name for p in (out / name).iterdir()} == WRITTEN for name in "abc")
    assert all(f"  {name}/: " in result.stdout for name in "abc")


def test_the_summary_covers_what_the_folder_held_before(three, out):
    succeeded(evaluate(three[2], out=out))
    before = rows_of(out / "summary.csv")
    succeeded(evaluate(three[0], out=out))
    after = rows_of(out / "summary.csv")
    assert [row["result"] for row in after] == ["a", "c"]
    assert after[1:] == before


def test_a_bad_second_stream_writes_nothing_at_all(three, tmp_path, out):
    bad = tmp_path / "bad.npz"
    np.savez(bad, **arrays_of(bare_stream()) | {"labels": np.zeros(3)})
    refused(evaluate(three[0], bad, three[1], out=out), "bad.npz", "`labels`")
    assert not out.exists()
    succeeded(evaluate(three[2], out=out))
    before = contents(out)
    refused(evaluate(three[0], bad, out=out), "bad.npz")
    assert contents(out) == before


def test_two_streams_of_one_name_are_refused(three, tmp_path, out):
    (tmp_path / "other").mkdir()
    twin = tmp_path / "other" / "a.npz"
    twin.write_bytes(three[0].read_bytes())
    refused(evaluate(three[0], twin, out=out), str(twin), "'a'", "rename")
    refused(evaluate(three[0], three[0], out=out), "'a'")
    assert not out.exists()


def test_a_guard_has_a_folder_of_its_own(stream, out):
    succeeded(evaluate(stream, out=out))
    plain = contents(out / "sample")
    result = succeeded(evaluate(stream, "--guard", 4, out=out))
    assert "guard 4" in result.stdout
    assert contents(out / "sample") == plain
    rows = rows_of(out / "summary.csv")
    assert [(row["result"], row["guard"]) for row in rows] == [
        ("sample", "0"),
        ("sample-guard4", "4"),
    ]
    n_ignored = [int(row["n_ignored"]) for row in rows]
    assert n_ignored[1] > n_ignored[0]
    refused(evaluate(stream, "--guard", 4, out=out), "sample-guard4", "--overwrite")


# ---- earlier results -------------------------------------------------------------


def never(*args, **kwargs):
    raise AssertionError("was to be refused before")


def test_earlier_results_are_kept_and_that_is_found_first(stream, out, monkeypatch):
    succeeded(evaluate(stream, out=out))
    before = contents(out)
    monkeypatch.setattr(pipeline, "evaluate", never)
    monkeypatch.setattr(storage, "read_stream", never)
    refused(evaluate(stream, out=out), str(out / "sample"), "kept", "--overwrite")
    assert contents(out) == before


def test_overwrite_replaces_results_and_nothing_else(three, tmp_path, out):
    succeeded(evaluate(three[0], three[1], out=out))
    (out / "a" / "notes.txt").write_text("mine")
    (out / "thesis.tex").write_text("mine too")
    neighbour = contents(out / "b")
    old = contents(out / "a")
    three[0].write_bytes(three[2].read_bytes())
    succeeded(evaluate(three[0], "--overwrite", out=out))
    new = contents(out / "a")
    assert new["evaluation.json"] != old["evaluation.json"]
    assert (out / "a" / "notes.txt").read_text() == "mine"
    assert (out / "thesis.tex").read_text() == "mine too"
    assert contents(out / "b") == neighbour
    assert [row["result"] for row in rows_of(out / "summary.csv")] == ["a", "b"]


def test_the_same_run_again_gives_the_same_bytes(stream, out):
    succeeded(run("evaluate", stream, "--out", out))
    before = contents(out)
    succeeded(run("evaluate", stream, "--out", out, "--overwrite"))
    after = contents(out)
    for results in (before, after):
        del results["sample/traces.npz"]  # a zip holds the time it was written
    assert after == before


DAMAGED = {
    "cut": '{"schema": 1, "str',
    "empty": "",
    "a list": "[]",
    "another JSON": '{"a": 1}',
    "from the future": '{"schema": 99, "stream": {}}',
    "odd block": '{"schema": 1, "stream": {}, "rank": 5}',
    "odd segments": '{"schema": 1, "stream": {}, "segments": [5]}',
    "empty segments": '{"schema": 1, "stream": {}, "segments": [null]}',
    "too deep": "[" * 100_000,
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_evaluation_in_the_folder_is_named_first(
    stream, out, monkeypatch, case
):
    (out / "earlier").mkdir(parents=True)
    (out / "earlier" / "evaluation.json").write_text(DAMAGED[case])
    before = contents(out)
    monkeypatch.setattr(pipeline, "evaluate", never)
    refused(evaluate(stream, out=out), str(out / "earlier" / "evaluation.json"))
    assert contents(out) == before


def test_a_damaged_evaluation_can_be_overwritten(stream, out):
    (out / "sample").mkdir(parents=True)
    (out / "sample" / "evaluation.json").write_text("{")
    refused(evaluate(stream, out=out), "--overwrite")
    succeeded(evaluate(stream, "--overwrite", out=out))
    assert read_evaluation(out / "sample").stream.name == "sample"


def fail_once(monkeypatch, at):
    """Make the disk full for one call among those that put files in their place."""
    calls = 0

    def failing(real):
        def call(*args, **kwargs):
            nonlocal calls
            calls += 1
            if calls == at:
                raise OSError(28, "No space left on device")
            return real(*args, **kwargs)

        return call

    for name in ("replace", "fsync"):
        monkeypatch.setattr(os, name, failing(getattr(os, name)))


# Of a result and the summary four files are flushed, then moved.
@pytest.mark.parametrize("fails_at", range(1, 9))
def test_a_disk_that_fails_leaves_the_old_results(three, out, monkeypatch, fails_at):
    succeeded(evaluate(three[0], out=out))
    before = contents(out)
    three[0].write_bytes(three[2].read_bytes())
    with monkeypatch.context() as patched:
        fail_once(patched, fails_at)
        result = evaluate(three[0], "--overwrite", out=out)
    refused(result, str(out), "No space left on device", "space left")
    assert contents(out) == before
    succeeded(evaluate(three[0], "--overwrite", out=out))


@pytest.mark.parametrize("fails_at", range(5, 8))
def test_a_disk_that_fails_leaves_no_new_results(three, out, monkeypatch, fails_at):
    succeeded(evaluate(three[0], out=out))
    before = contents(out)
    with monkeypatch.context() as patched:
        fail_once(patched, fails_at + 3)
        refused(evaluate(*three[1:], out=out), "No space left on device")
    assert contents(out) == before
    assert not (out / "b").exists()
    succeeded(evaluate(*three[1:], out=out))


KILLED = """
import os, signal, sys
sys.argv[0] = "sightline"
from sightline.cli.app import app
name, at = os.environ["KILL"].split()
real, calls = getattr(os, name), 0
def deadly(*args, **kwargs):
    global calls
    calls += 1
    if calls == int(at):
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*args, **kwargs)
setattr(os, name, deadly)
app()
"""
KILLED_EVALUATE = (sys.executable, "-c", KILLED, "evaluate", "--no-intervals")


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
@pytest.mark.parametrize(
    "at",
    [
        *("fsync 1", "replace 4"),
        *(pytest.param(at, marks=pytest.mark.slow) for at in ("fsync 4", "replace 1")),
    ],
)
def test_a_killed_run_leaves_whole_files_and_the_next_one_works(three, out, at):
    succeeded(evaluate(three[0], out=out))
    old = contents(out)
    three[0].write_bytes(three[2].read_bytes())
    less = ("--no-intervals", "--no-report")
    arguments = ["evaluate", three[0], *less, "--overwrite", "--out", out]
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, *map(str, arguments)],
        env=os.environ | {"KILL": at},
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    left = {
        name: data for name, data in contents(out).items() if ".partial" not in name
    }
    succeeded(run(*arguments))
    new = contents(out)
    assert set(new) == set(old)
    assert left.keys() == old.keys()
    for name in ("a/evaluation.json", "a/segments.csv", "summary.csv"):
        assert left[name] in (old[name], new[name])
    assert not list(out.rglob("*.partial"))


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_what_a_killed_run_left_is_no_result(three, out):
    succeeded(evaluate(three[1], out=out))
    killed = subprocess.run(
        [*KILLED_EVALUATE, three[0], "--out", out],
        env=os.environ | {"KILL": "replace 1"},
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert list(out.rglob("a/evaluation.json"))
    assert not (out / "a").exists()
    succeeded(evaluate(three[2], out=out))
    assert [row["result"] for row in rows_of(out / "summary.csv")] == ["b", "c"]
    assert {path.name for path in out.iterdir()} == {"b", "c", "summary.csv"}


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_run_killed_before_its_folder_exists_leaves_no_folder(three, out):
    killed = subprocess.run(
        [*KILLED_EVALUATE, three[0], "--out", out],
        env=os.environ | {"KILL": "rename 1"},
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert not out.exists()
    succeeded(evaluate(three[0], out=out))
    assert not list(out.parent.rglob("*.partial"))


# ---- bad input -------------------------------------------------------------------


def npz(**changes):
    def write(place):
        np.savez(place / "bad.npz", **(arrays_of(bare_stream()) | changes))
        return [place / "bad.npz"]

    return write


def file(name, data):
    def write(place):
        (place / name).write_bytes(data)
        return [place / name]

    return write


def tables(header, row, *options, n_rows=9):
    def write(place):
        text = header + "\n" + f"{row}\n" * n_rows
        for split in ("train", "test"):
            (place / f"{split}.csv").write_text(text)
        return ["--train", place / "train.csv", "--test", place / "test.csv", *options]

    return write


def folder(name, parts):
    def write(place):
        for part, data in parts.items():
            path = place / name / part
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        (place / name).mkdir(exist_ok=True)
        return [place / name]

    return write


BAD = {
    "missing": (lambda place: [place / "no.npz"], ["no.npz", "no such file"]),
    "empty": (file("bad.npz", b""), ["bad.npz", "is empty"]),
    "a picture": (file("bad.npz", b"\x89PNG\r\n\x1a\n"), ["bad.npz", "numpy.savez"]),
    "a table alone": (file("bad.csv", b"a\n1\n"), ["bad.csv", "--train and --test"]),
    "shape": (npz(train=np.zeros(9)), ["bad.npz", "`train`", "(9,)", "reshape"]),
    "lengths": (npz(labels=np.zeros(9)), ["bad.npz", "`labels`", "9 for 50 rows"]),
    "label 3": (npz(labels=np.full(50, 3)), ["bad.npz", "`labels`", "row 0 is 3"]),
    "labels 1, -1": (npz(labels=-np.ones(50)), ["bad.npz", "`labels`", "normal (0)"]),
    "nan": (
        npz(test=np.full((50, 3), np.nan)),
        ["bad.npz", "`test`", "row 0", "'channel_0'", "150 values", "--drop-nonfinite"],
    ),
    "huge values": (npz(test=np.full((50, 3), 1e300)), ["bad.npz", "`test`", "1e300"]),
    "constant": (npz(train=np.ones((9, 3))), ["bad.npz", "`train`", "never changes"]),
    "few rows": (npz(train=np.ones((1, 3))), ["bad.npz", "`train`", "at least 2 rows"]),
    "objects": (
        npz(train=np.array([[None]], object)),
        ["bad.npz", "'train'", "pickled"],
    ),
    "text in a table": (
        tables("a,b", "1,Bad Input"),
        ["train.csv", "'b'", "row 0", "line 2", "'Bad Input'", "repair"],
    ),
    "wrong label": (
        tables("a,b,y", "1,2,0", "--label", "z"),
        ["test.csv", "'z'", "label", "'y'"],
    ),
    "wrong time": (
        tables("a,b,y", "1,2,0", "--time", "t"),
        ["test.csv", "'t'", "time", "'y'"],
    ),
    "alarms taken as a residual": (
        tables("a,b,Alarm", "1,2,0"),
        ["test.csv", "'Alarm'", "--alarms, --score or --label", "--ignore Alarm"],
    ),
    "alarms that are nowhere": (
        tables("a,b", "1,2", "--alarms", "mine.csv"),
        ["--alarms mine.csv", "neither a column", "nor a file"],
    ),
    "no such alarms": (
        lambda place: [*npz()(place), "--alarms", place / "mine.csv"],
        ["mine.csv", "no such file"],
    ),
    "no such attacks": (
        lambda place: [*npz()(place), "--attacks", place / "mine.csv"],
        ["mine.csv", "no such file"],
    ),
    "estimator": (
        lambda place: [*npz()(place), "--estimator", "best"],
        ["bad.npz", "`estimator`", "ledoit-wolf", "'best'"],
    ),
    "ragged": (
        tables("a,b", "1,2\n1,2,3"),
        ["train.csv", "same number of columns"],
    ),
    "missing table": (
        lambda place: ["--train", place / "a.csv", "--test", place / "b.csv"],
        ["a.csv", "no such file"],
    ),
    "nothing in a folder": (folder("bad", {}), ["bad", "train.state"]),
    "half a folder": (folder("bad", {"train/a.parquet": b"PAR1"}), ["bad", "Parquet"]),
    "no parts": (folder("bad", {"train/readme.txt": b""}), ["train", "*.parquet"]),
    "bad meta": (
        folder("bad", {"meta.json": b"{", "train/a.parquet": b""}),
        ["meta.json", "JSON object"],
    ),
    "bad state": (
        folder("bad", {"train.state": b"{}\n", "test.state": b"{}\n"}),
        ["train.state", "line 1", "scores"],
    ),
    "half an IPAL folder": (folder("bad", {"test.state": b""}), ["train.state"]),
    "a name that is too long": (
        lambda place: [place / ("x" * 300 + ".npz")],
        ["File name too long"],
    ),
    "a name that is no folder": (
        tables("a", "1", "--name", "../escaped"),
        ["'../escaped'", "choose another"],
    ),
    "guard over all": (
        lambda place: [
            *npz(labels=np.r_[np.ones(9), np.zeros(41)])(place),
            "--guard",
            99,
        ],
        ["bad.npz", "guard of 99", "smaller"],
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gives_one_sentence_and_writes_nothing(tmp_path, out, case):
    write, words = BAD[case]
    arguments = write(tmp_path)
    before = contents(tmp_path)
    refused(evaluate(*arguments, out=out), *words)
    assert not out.exists()
    assert contents(tmp_path) == before


def test_results_do_not_go_into_a_file(stream, tmp_path):
    place = tmp_path / "file"
    place.write_text("mine")
    refused(evaluate(stream, out=place), "file", "--out must be a folder")
    refused(evaluate(stream, out=place / "below"), "cannot be", "file")
    assert place.read_text() == "mine"


def test_debug_shows_where_an_error_came_from(tmp_path, out):
    result = run("evaluate", tmp_path / "no.npz", "--debug", "--out", out)
    assert isinstance(result.exception, sightline.FileError)
    assert result.exit_code == 1


def test_a_bug_is_not_dressed_up_as_bad_input(stream, out, monkeypatch):
    monkeypatch.setattr(pipeline, "evaluate", lambda *args, **kwargs: 1 / 0)
    result = evaluate(stream, out=out)
    assert isinstance(result.exception, ZeroDivisionError)
    assert not out.exists()


# ---- usage -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["evaluate"],
        ["evaluate", "--train", "a.csv"],
        ["evaluate", "--test", "a.csv", "--telemetry-train", "b.csv"],
        ["evaluate", "s.npz", "--train", "a.csv", "--test", "b.csv"],
        ["evaluate", "s.npz", "--label", "y"],
        ["evaluate", "s.npz", "--time", "t"],
        ["evaluate", "s.npz", "--name", "n"],
        ["evaluate", "s.npz", "--ignore", "c"],
        ["evaluate", "s.npz", "--telemetry-train", "p", "--telemetry-test", "q"],
        ["evaluate", "s.npz", "t.npz", "--alarms", "a.csv"],
        ["evaluate", "s.npz", "t.npz", "--score", "a.csv"],
        ["evaluate", "s.npz", "t.npz", "--alarm-log", "a.csv"],
        ["evaluate", "s.npz", "--alarms", "a.csv", "--alarm-log", "a.csv"],
        ["evaluate", "--train", "a", "--test", "b", "--telemetry-train", "a.csv"],
        ["evaluate", "s.npz", "--guard", "-1"],
        ["evaluate", "s.npz", "--guard", "many"],
        ["evaluate", "s.npz", "--step", "slow"],
        ["evaluate", "s.npz", "--nonsense"],
        ["evaluate", "s.npz", "--out"],
        ["nonsense"],
        ["compare"],
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert not list(tmp_path.iterdir())


def test_the_version_is_told():
    assert succeeded(run("--version")).stdout == f"sightline {sightline.__version__}\n"


def test_help_loads_no_room_of_the_evaluation():
    code = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from sightline.cli.app import app\n"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0\n"
        "print(*sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True
    )
    loaded = done.stdout.split()
    ours = {name for name in loaded if name.split(".")[0] == "sightline"}
    rooms = {name.split(".")[1] for name in ours if "." in name}
    assert rooms == {
        "_version",
        "cli",
        "errors",
        "figures",
        "files",
        "progress",
        "show",
        "terminal",
        "text",
    }
    assert len(ours) <= 26
    heavy = {"numpy", "scipy", "polars", "pyarrow", "torch", "msgspec", "distributed"}
    assert not heavy & set(loaded)


def test_examples_of_help_pages_are_commands():
    commands = get_command(app).commands
    n_examples = 0
    for command in commands.values():
        for line in command.help.splitlines():
            words = line.split()
            if words[:1] == ["sightline"]:
                commands[words[1]].make_context(words[1], words[2:])
                n_examples += 1
    assert n_examples >= 10


@pytest.mark.parametrize("arguments", [["--help"], ["evaluate", "--help"]])
def test_help_is_told(arguments):
    assert "evaluate" in succeeded(run(*arguments)).stdout


def test_comparing_what_is_no_result_is_refused(tmp_path):
    refused(run("compare", tmp_path), str(tmp_path), "holds no evaluation")


# ---- names -----------------------------------------------------------------------

NAMES = ["[bold]x[", "[red]", ":smile:", "größe", "a b", "x.y", "-", "\udcff"]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_printed_as_they_are(tmp_path, name):
    path = tmp_path / f"{name}.npz"
    write_stream(bare_stream(), tmp_path / "plain.npz")
    (tmp_path / "plain.npz").rename(path)
    out = tmp_path / f"to {name}"
    result = succeeded(evaluate(path, out=out))
    shown = name.encode(errors="backslashreplace").decode()
    assert f"Written to {tmp_path}/to {shown}/" in result.stdout
    assert f"  {shown}/: evaluation.json" in result.stdout
    assert (out / name / "evaluation.json").exists()
    [row] = rows_of(out / "summary.csv")
    assert from_csv_cell(row["result"]) == shown
    refused(evaluate(path, out=out), f"to {shown}/{shown}: ")


def test_results_may_go_where_one_stands(stream, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    succeeded(evaluate(stream, out="."))
    assert {path.name for path in Path().iterdir()} == {"sample", "summary.csv"}


def test_a_stream_is_found_from_within_its_folder(tmp_path, out, monkeypatch):
    write_stream(bare_stream(), tmp_path / "plant.d")
    monkeypatch.chdir(tmp_path / "plant.d")
    succeeded(evaluate(".", out=out))
    assert read_evaluation(out / "plant.d").stream.name == "plant.d"


def test_capital_letters_in_the_suffix_change_nothing(tmp_path, out):
    write_stream(bare_stream(), tmp_path / "SAMPLE.NPZ")
    succeeded(evaluate(tmp_path / "SAMPLE.NPZ", out=out))
    assert (out / "SAMPLE").is_dir()
    refused(evaluate(tmp_path / "SAMPLE.NPZ", out=out), "--overwrite")


def test_a_progress_bar_is_shown_on_a_terminal_alone(stream, out):
    colours = {"FORCE_COLOR": "1", "TTY_COMPATIBLE": "1", "TERM": "xterm"}
    result = succeeded(evaluate(stream, out=out / "a", env=colours))
    assert "\x1b" in result.stderr
    assert "sample: " in result.stderr
    assert succeeded(evaluate(stream, out=out / "b")).stderr == ""


def test_the_installed_command_runs_where_the_terminal_knows_only_ascii(tmp_path):
    write_stream(bare_stream(), tmp_path / "größe.npz")
    command = [sys.executable, "-m", "sightline", "evaluate", "größe.npz"]
    done = subprocess.run(
        [*command, "--no-intervals"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert rb"gr\xf6\xdfe" in done.stdout
    assert json.loads(
        Path(tmp_path, "result", "größe", "evaluation.json").read_text("utf-8")
    )


def test_findings_that_a_stream_carries_are_counted_and_written(tmp_path):
    audit = Audit(
        recording=RecordingFacts(plant="mine"),
        findings=(
            finding("SL222", "LIT101 holds -9999.", remedy="Take it as missing."),
            finding("SL226", "P603 never varies."),
        ),
    )
    stream = full_stream().replace(meta={"seed": 4} | carried(audit))
    write_stream(stream, tmp_path / "mine.npz")
    result = evaluate(tmp_path / "mine.npz", out=tmp_path / "out")
    said = " ".join(result.stdout.split())
    assert "The audit of the data made 1 serious finding: `sightline inspect`" in said
    assert "SL222" not in said
    evaluation = read_evaluation(tmp_path / "out" / "mine")
    assert set(audit.findings) <= set(evaluation.findings)
    assert evaluation.recording == audit.recording
    assert evaluation.provenance.meta == {"seed": 4}
