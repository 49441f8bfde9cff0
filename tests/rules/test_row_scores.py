"""The score `largest`: the rule `z` without a limit, over the whole test."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import sightline
from sightline import StreamError
from sightline.cli.app import app
from sightline.metrics.ranking import roc_auc_score
from sightline.rules.row_scores import largest_scores
from sightline.rules.scoring import score
from sightline.storage import read_results, write_stream

N, SPLIT = 16_000, int(0.35 * 16_000)


@pytest.fixture(scope="module")
def stream():
    """Five channels, the last two alike; two attacks that no channel shows alone."""
    rng = np.random.default_rng(4)
    train, test = rng.normal(size=(4000, 5)), rng.normal(size=(N, 5))
    for rows in (train, test):
        rows[:, 4] = rows[:, 3] + 0.1 * rng.normal(size=len(rows))
    labels = np.zeros(N, np.int8)
    for first in (1500, 8000):
        labels[first : first + 120] = 1
        test[first : first + 120, 4] += 0.4
    return sightline.ResidualStream(train, test, labels, step_s=10.0, name="made")


def later_auc(stream, values):
    return roc_auc_score(stream.labels[SPLIT:], values[SPLIT:])


def test_it_ranks_later_rows_as_the_rule_z_does(stream):
    made = sightline.commission(stream, choose="z")
    found = largest_scores(score(stream))
    assert later_auc(stream, found) == pytest.approx(made.facts.row("z").roc_auc)
    assert later_auc(stream, found) > 0.95


def test_a_unit_is_the_tail_that_one_row_in_a_thousand_exceeds(stream):
    # The largest of five exceeds it about five times as often.
    found = largest_scores(score(stream))
    assert 0.002 < np.mean(found[stream.labels == 0] > 1) < 0.01


def test_no_label_of_a_later_row_is_read(stream):
    labels = np.where(np.arange(N) < SPLIT, stream.labels, 0)
    labels[9000:9500] = 1
    other = stream.replace(labels=labels)
    np.testing.assert_array_equal(
        largest_scores(score(other)), largest_scores(score(stream))
    )


def test_parts_of_a_record_have_the_levels_of_the_others(stream):
    time = 10.0 * np.arange(N)
    whole = stream.replace(test_time=time)
    in_parts = whole.replace(meta={"parts_begin": [0.0, time[N // 2]]})
    found = largest_scores(score(in_parts))
    assert later_auc(stream, found) > 0.95
    loud = np.asarray(stream.test.chunks().__next__(), float).copy()
    loud[N // 2 :] *= 3.0
    louder = in_parts.replace(test=loud)
    first, again = found[: N // 2], largest_scores(score(louder))[: N // 2]
    # Levels of the first part are those of the second, which is three times as loud.
    assert np.median(again) == pytest.approx(np.median(first) / 3, rel=0.1)


def test_a_single_channel_is_ranked_by_its_own_deviation(stream):
    rows = np.asarray(next(iter(stream.test.chunks())), float)[:, :1]
    train = np.asarray(next(iter(stream.train.chunks())), float)[:, :1]
    alone = sightline.ResidualStream(train, rows, stream.labels, step_s=10.0)
    made = sightline.commission(alone, choose="x")
    found = largest_scores(score(alone))
    assert later_auc(alone, found) == pytest.approx(made.facts.row("x").roc_auc)


def test_too_few_rows_are_refused(stream):
    rows = np.asarray(next(iter(stream.test.chunks())), float)[:2000]
    short = stream.replace(test=rows, labels=np.zeros(2000, np.int8))
    with pytest.raises(StreamError, match="at least 1,000 attack-free"):
        sightline.evaluate(short, score="largest")


def test_evaluate_sets_it_beside_the_energy_and_leaves_the_rest(stream, tmp_path):
    quick = {"intervals": False, "diagnosis": False, "metrics": "vus_pr"}
    plain = sightline.evaluate(stream, **quick)
    asked = sightline.evaluate(stream, score="largest", **quick)
    assert plain.largest is None
    assert asked.largest.pauc_1 > asked.rank.pauc_1
    assert asked.alarm_metrics["largest"]["vus_pr"].value > 0.5
    (notice,) = [one for one in asked.notices if one.startswith("Score largest")]
    assert f"{asked.rank.pauc_1:.3f}" in notice
    rest = dict(asked.alarm_metrics)
    del rest["largest"]
    assert plain == replace(
        asked, largest=None, alarm_metrics=rest, notices=plain.notices
    )
    path = tmp_path / "made.npz"
    write_stream(stream, path)
    words = ["evaluate", str(path), "--score", "largest", "--out", str(tmp_path / "r")]
    words += ["--no-report", "--no-intervals", "--no-diagnosis"]
    said = CliRunner().invoke(app, [*words, "--metrics", "vus_pr"])
    assert said.exit_code == 0, said.output
    (result,) = read_results([tmp_path / "r"])
    assert result.evaluation.largest == asked.largest
    content = json.loads((tmp_path / "r" / "made" / "evaluation.json").read_text())
    assert content["largest"]["roc_auc"] == asked.largest.roc_auc
