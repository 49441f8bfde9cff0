"""Scores without training data: the first part of the test is the reference."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import sklearn.metrics as sklearn_metrics
from typer.testing import CliRunner

import sightline
from sightline import StreamError, evaluate, read_evaluation, score_report
from sightline.cli.app import app
from sightline.comparison.runs import group_runs
from sightline.data.stream import REFERENCE_KEY, stream_of_scores
from sightline.errors import FileError
from sightline.metrics import ALARM_METRICS
from sightline.storage import Result, read_scores, score_files


def made(n=1200, start=800, seed=0):
    rng = np.random.default_rng(seed)
    score, labels = rng.exponential(size=n), np.zeros(n, int)
    labels[start : start + 40] = 1
    score[start : start + 40] += 4
    return score, labels


def test_the_first_part_is_the_reference_and_leaves_the_test():
    score, labels = made()
    stream = stream_of_scores(score, labels, step_s=1.0, alarms=score > 5)
    n = stream.train.n_rows
    # At most up to ten minutes before the attack.
    assert n == 800 - 600
    np.testing.assert_array_equal(next(iter(stream.train.chunks()))[:, 0], score[:n])
    np.testing.assert_array_equal(next(iter(stream.test.chunks()))[:, 0], score[n:])
    np.testing.assert_array_equal(stream.labels, labels[n:])
    np.testing.assert_array_equal(stream.alarms, score[n:] > 5)
    assert stream.meta[REFERENCE_KEY] == n
    assert "first 200 rows of the test" in stream.notices[0]
    assert "localisation and blind spots cannot be judged" in stream.notices[0]


def test_the_figures_are_those_of_a_stream_that_was_cut_by_hand():
    score, labels = made()
    by_call = evaluate(test=score, labels=labels, reference_rows=300, intervals=False)
    by_hand = evaluate(
        train=score[:300, None],
        test=score[300:, None],
        labels=labels[300:],
        intervals=False,
        space="score",
        channels=["score"],
    )
    for block in ("rank", "probe", "drift", "windows", "quality"):
        assert getattr(by_call, block) == getattr(by_hand, block)
    # No rows were learned from, so nothing can fit them too well.
    both = "Drift mixes two causes"
    assert any(notice.startswith(both) for notice in by_hand.notices)
    assert not any(notice.startswith(both) for notice in by_call.notices)
    (runs,) = group_runs([Result(Path("score"), by_call)])
    assert runs.detectors[0].label.endswith("(reference from test)")


@pytest.mark.parametrize(
    ("start", "rows", "told"),
    [
        (150, None, "first attack begins at row 150 of 1,200"),
        (800, 50, "at least 100"),
        (800, 801, "first attack begins at row 800"),
    ],
)
def test_too_short_a_reference_is_refused(start, rows, told):
    score, labels = made(start=start)
    with pytest.raises(StreamError, match=told):
        evaluate(test=score, labels=labels, reference_rows=rows)


def test_residuals_without_train_are_refused():
    with pytest.raises(StreamError, match=r"`train` is missing.*one score"):
        evaluate(test=np.zeros((500, 3)))


def table_of(folder, name="001_made_tr_400_1st_800.csv"):
    score, labels = made()
    rng = np.random.default_rng(1)
    path = folder / name
    frame = pl.DataFrame(
        {"a": rng.normal(size=1200), "b": rng.normal(size=1200), "Label": labels}
    )
    frame.write_csv(path)
    return path, score


def test_score_folders_of_a_benchmark_are_read(tmp_path):
    path, score = table_of(tmp_path)
    for k, name in enumerate(("IForest", "PCA")):
        (tmp_path / "scores" / name).mkdir(parents=True)
        np.save(tmp_path / "scores" / name / f"{path.stem}.npy", score + k)
    found = score_files(tmp_path / "scores", path)
    assert list(found) == ["IForest", "PCA"]
    stream = read_scores(path, label="Label", score=found["PCA"], name="x")
    # The name of the file says how many rows are for training.
    assert (stream.train.n_rows, stream.test.n_rows) == (400, 800)
    assert stream.telemetry_channels == ("a", "b")
    done = CliRunner().invoke(
        app,
        [
            *("evaluate", "--test", str(path), "--label", "Label"),
            *("--scores", str(tmp_path / "scores"), "--out", str(tmp_path / "out")),
            *("--no-intervals", "--no-diagnosis", "--no-report"),
        ],
    )
    assert done.exit_code == 0, done.output
    assert "No training data" in done.output
    one = read_evaluation(tmp_path / "out" / f"{path.stem}-PCA")
    other = read_evaluation(tmp_path / "out" / f"{path.stem}-IForest")
    assert one.rank.roc_auc == other.rank.roc_auc > 0.9
    with pytest.raises(FileError, match="has no score of"):
        score_files(tmp_path / "out", path)


def test_a_column_or_a_text_file_is_a_score_too(tmp_path):
    path, score = table_of(tmp_path, "plain.csv")
    frame = pl.read_csv(path).with_columns(pl.Series("s", score))
    frame.write_csv(path)
    np.savetxt(tmp_path / "own.csv", score)
    by_column = read_scores(path, label="Label", score="s")
    by_file = read_scores(path, label="Label", score=str(tmp_path / "own.csv"))
    for stream in (by_column, by_file):
        np.testing.assert_allclose(next(iter(stream.test.chunks()))[:, 0], score[400:])
    with pytest.raises(FileError, match="which column is the score"):
        read_scores(path, label="Label")
    only = frame.select("s", "Label")
    only.write_csv(tmp_path / "only.csv")
    stream = read_scores(tmp_path / "only.csv", label="Label")
    # Nobody said that this column is a score: a raw series would be judged as one.
    assert any("is taken as the score" in notice for notice in stream.notices)
    assert not any("is taken as" in notice for notice in by_column.notices)
    assert stream.telemetry_test is None


def test_scores_go_with_a_test_alone(tmp_path):
    path, _ = table_of(tmp_path)
    for arguments, told in (
        (["--train", str(path), "--test", str(path), "--scores", "x"], "without --tra"),
        (["--test", str(path), "--score", "a", "--scores", "x"], "--score or with"),
    ):
        done = CliRunner().invoke(app, ["evaluate", *arguments])
        assert done.exit_code == 2
        assert told in " ".join(done.output.split())


def test_a_score_report_has_every_published_figure():
    score, labels = made()
    frame = score_report(labels, score, score > 5, library="polars")
    rows = {row["figure"]: row for row in frame.to_dicts()}
    assert {row["of"] for row in rows.values()} == {"score", "alarms"}
    assert len(rows) == len(sightline.figures.published()) + 7 > 20
    assert rows["vus_roc"]["value"] == ALARM_METRICS["vus"](labels, score)["roc"]
    assert rows["vus_roc"]["chance"] < 0.7 < rows["vus_roc"]["value"]
    alone = score_report(labels, score, chance=False)
    assert set(alone["of"]) == {"score"}
    assert alone["chance"].isna().all()


def test_a_score_report_has_the_figures_of_scikit_learn():
    score, labels = made()
    labels = labels.copy()
    labels[3] = -1
    frame = score_report(labels, score, score > 5, metrics="none")
    rows = frame.set_index("figure")
    is_attack, kept = labels[labels >= 0], score[labels >= 0]
    assert dict(rows["value"]) == pytest.approx(
        {
            "roc_auc": sklearn_metrics.roc_auc_score(is_attack, kept),
            "average_precision": sklearn_metrics.average_precision_score(
                is_attack, kept
            ),
            # scikit-learn turns chance into 0.5, we into 0.
            "pauc_1": 2 * sklearn_metrics.roc_auc_score(is_attack, kept, max_fpr=0.01)
            - 1,
            "pauc_5": 2 * sklearn_metrics.roc_auc_score(is_attack, kept, max_fpr=0.05)
            - 1,
            "precision": sklearn_metrics.precision_score(is_attack, kept > 5),
            "recall": sklearn_metrics.recall_score(is_attack, kept > 5),
            "f1": sklearn_metrics.f1_score(is_attack, kept > 5),
        }
    )
    assert rows["chance"]["roc_auc"] == pytest.approx(0.5, abs=0.1)
    normal = score_report(np.zeros(200, int), np.arange(200.0), metrics="none")
    assert normal["value"].isna().all()
