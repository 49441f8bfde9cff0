"""A new rung is one row of the table and one function; all else follows from it."""

import json
import re
from functools import cache

import numpy as np
import pytest
from judged_streams import calm_stream, with_test
from rich.console import Console

from sightline import evaluate, read_results, write_report, write_results
from sightline.cli.summary import summary
from sightline.data.row_tables import gather_rows
from sightline.judgement.event_test import Scores
from sightline.judgement.ladder import LADDER, Kind, Rung
from sightline.judgement.verdicts import Verdict


def score_order(case):
    """Return how evenly channels 0 and 1 agree, which no energy can tell."""
    test = case.record.test
    rows = gather_rows(test, np.arange(test.n_rows))
    own, calm = case.values(-np.abs(rows[:, 0] - rows[:, 1]))
    # Nearer than all but one calm row in 20.
    return [Scores(own=own, calm=calm, limit=float(np.quantile(calm, 0.95)))]


MADE_UP = Rung(
    name="agreement",
    label="Two channels that agree too well",
    kind=Kind.REPAIR,
    score=score_order,
    proves=Verdict.DILUTED,
    repair="comparing two channels",
)


def copied_stream():
    """Return an attack that copies one channel to another: its energy stays."""

    def attack(test):
        test[2000:2100, 1] = test[2000:2100, 0]

    return with_test(calm_stream((2000, 2100), p=8, n_test=5000, name="copied"), attack)


@cache
def evaluated():
    return evaluate(copied_stream(), intervals=False)


@pytest.fixture
def evaluation(monkeypatch):
    """Return the result of a ladder with one more rung, while that rung is there."""
    monkeypatch.setitem(LADDER, MADE_UP.name, MADE_UP)
    return evaluated()


def test_without_it_no_repair_shows_the_attack():
    assert MADE_UP.name not in LADDER
    (row,) = evaluate(copied_stream(), intervals=False).segments
    assert row.verdict is Verdict.WEAK_EVIDENCE
    assert MADE_UP.name not in row.ladder


def test_it_is_in_the_result(evaluation):
    values = json.loads(json.dumps(evaluation.to_dict()))
    (segment,) = values["segments"]
    assert segment["ladder"]["agreement"]["coverage"] == 1.0
    assert segment["ladder"]["agreement"]["visible"]
    assert segment["verdict"] == "diluted"
    assert values["repairs"]["agreement"]["segments_gained"] == ["1"]
    assert values["verdict_counts"]["diluted"] == 1


def test_it_is_in_the_terminal(evaluation):
    console = Console(width=400)
    with console.capture() as capture:
        console.print(summary([evaluation]))
    text = capture.get()
    assert "1 (diluted" in text
    assert "Comparing two channels shows in hindsight attack 1" in text


def test_it_is_on_the_page(evaluation, tmp_path):
    folder = tmp_path / "result"
    write_results([evaluation], folder)
    (result,) = read_results([folder])
    (row,) = result.evaluation.segments
    assert row.ladder == evaluation.segments[0].ladder
    page = write_report(folder, tmp_path / "report.html").read_text("utf-8")
    (bar,) = re.findall(r'\{"rung":"agreement"[^}]*\}', page)
    shown = json.loads(bar)
    assert shown["label"] == "Two channels that agree too well"
    assert (shown["coverage"], shown["visible"]) == (1.0, True)
