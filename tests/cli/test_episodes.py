"""The command `episodes`: written, reviewed, and read back as attacks."""

import numpy as np
import pytest
from typer.testing import CliRunner

from sightline import ResidualStream, read_evaluation, write_stream
from sightline.cli.app import app


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def stream_path(tmp_path):
    rng = np.random.default_rng(31)
    test = rng.normal(size=(25_000, 3))
    test[15_000:15_030, 0] += 12.0
    stream = ResidualStream(
        rng.normal(size=(5000, 3)),
        test,
        channels=["LIT101", "FIT201", "AIT301"],
        test_time=1_770_000_000.0 + 10.0 * np.arange(25_000),
        timezone="Europe/Berlin",
    )
    path = tmp_path / "mine.npz"
    write_stream(stream, path)
    return path


def test_a_review_becomes_the_incident_list(stream_path, tmp_path):
    review = tmp_path / "review.csv"
    first = invoke("episodes", stream_path, "--out", review, "--budget", "6/day")
    assert first.exit_code == 0, first.output
    assert "LIT101" in first.stdout
    lines = review.read_text().splitlines()
    assert lines[0] == "start,end,peak,tags,decision,note"
    burst = next(k for k, line in enumerate(lines) if "T21:20:00+01:00" in line)
    lines[burst] = lines[burst].replace("unknown", "incident") + "seal broke"
    review.write_text("\n".join(lines) + "\n")

    again = invoke("episodes", stream_path, "--out", review)
    assert again.exit_code == 0, again.output
    assert "1 incident" in " ".join(again.stdout.split())
    assert lines[burst] in review.read_text().splitlines()

    out = tmp_path / "result"
    judged = invoke(
        "evaluate", stream_path, "--attacks", review, "--out", out, "--no-intervals"
    )
    assert judged.exit_code == 0, judged.output
    (segment,) = read_evaluation(out / "mine").segments
    assert 15_000 <= segment.start < 15_030
    assert segment.note == "seal broke"
    assert segment.targets == ("LIT101",)


def test_bad_input_is_one_sentence(stream_path, tmp_path):
    review = tmp_path / "review.csv"
    review.write_text("start,end,decision\n2026-02-03T05:00:00+01:00,soon,normal\n")
    for words in (
        ("episodes", stream_path, "--out", review),
        ("episodes", stream_path, "--out", tmp_path / "list.txt"),
        ("episodes", stream_path, "--out", review, "--budget", "often"),
        ("episodes", tmp_path / "none.npz", "--out", review),
        ("evaluate", stream_path, "--attacks", review, "--out", tmp_path / "r"),
    ):
        result = invoke(*words)
        assert result.exit_code == 1, result.output
        assert result.stderr.count("\n") == 1
    assert "line 2" in invoke("episodes", stream_path, "--out", review).stderr
