"""A new rung is one row of the table and one function; all else follows from it."""

import json
import re
from functools import cache

import numpy as np
import pytest
from rich.console import Console

from sightline import (
    ResidualStream,
    evaluate,
    read_results,
    write_report,
    write_results,
)
from sightline.cli.tables import summary
from sightline.data.row_tables import gather_rows
from sightline.judgement.calm import AboveLimit
from sightline.judgement.ladder import LADDER, Finding, Rung
from sightline.judgement.verdicts import Verdict


def is_positive(evidence):
    """Return where the first channel is above zero, which no energy can tell."""
    return gather_rows(evidence.test, np.arange(evidence.test.n_rows))[:, 0] > 0


def judge_sign(evidence, case):
    outcome = AboveLimit(is_positive(evidence)).judged(case.segment, case.windows)
    return Finding(outcome)


MADE_UP = Rung(
    name="one-sided",
    label="The sign of the first channel",
    judge=judge_sign,
    proves=Verdict.SEQUENTIAL,
    repair="watching the sign of the first channel",
    alarms=lambda evidence, used: is_positive(evidence),
)


def one_sided_stream():
    """Return an attack that only turns the sign of one channel: its energy stays."""
    rng = np.random.default_rng(5)
    train, test = rng.normal(size=(3000, 6)), rng.normal(size=(4000, 6))
    labels = np.zeros(4000, np.int8)
    labels[2000:2100] = 1
    test[2000:2100, 0] = np.abs(test[2000:2100, 0])
    return ResidualStream(train, test, labels, step_s=1.0, name="one-sided")


@cache
def evaluated():
    return evaluate(one_sided_stream(), intervals=False)


@pytest.fixture
def evaluation(monkeypatch):
    """Return the result of a ladder with one more rung, while that rung is there."""
    monkeypatch.setitem(LADDER, MADE_UP.name, MADE_UP)
    return evaluated()


def test_without_it_no_repair_shows_the_attack():
    assert MADE_UP.name not in LADDER
    (row,) = evaluate(one_sided_stream(), intervals=False).segments
    assert row.verdict is Verdict.WEAK_EVIDENCE
    assert MADE_UP.name not in row.ladder


def test_it_is_in_the_result(evaluation):
    values = json.loads(json.dumps(evaluation.to_dict()))
    (segment,) = values["segments"]
    assert segment["ladder"]["one-sided"]["coverage"] == 1.0
    assert segment["ladder"]["one-sided"]["visible"]
    assert segment["contributing"] == ["sequential"]
    assert segment["verdict"] == "sequential"
    assert values["repairs"]["one-sided"]["segments_gained"] == ["1"]
    assert values["repairs"]["one-sided"]["false_alarms_per_day_after"] > 0
    assert values["verdict_counts"]["sequential"] == 1


def test_it_is_in_the_terminal(evaluation):
    console = Console(width=400)
    with console.capture() as capture:
        console.print(summary([evaluation]))
    text = capture.get()
    assert "1 (sequential): Missed point by point" in text
    assert "First try watching the sign of the first channel." in text


def test_it_is_on_the_page(evaluation, tmp_path):
    folder = tmp_path / "result"
    write_results([evaluation], folder)
    (result,) = read_results([folder])
    (row,) = result.evaluation.segments
    assert row.ladder == evaluation.segments[0].ladder
    page = write_report(folder, tmp_path / "report.html").read_text("utf-8")
    (bar,) = re.findall(r'\{"rung":"one-sided"[^}]*\}', page)
    shown = json.loads(bar)
    assert shown["label"] == "The sign of the first channel"
    assert (shown["coverage"], shown["visible"]) == (1.0, True)
    assert "First try watching the sign of the first channel." in page
