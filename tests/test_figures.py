"""Every figure once: the table agrees with its records, and all readers follow it."""

import re
from typing import get_args, get_type_hints

import metric_tables
import numpy as np
import pytest
from samples import full_stream

from sightline import evaluate, read_results, write_results
from sightline.comparison.runs import group_runs
from sightline.evaluation.result import EvaluationRecord
from sightline.figures import (
    FIGURES,
    Better,
    Figure,
    FigureEntry,
    MeasuredOn,
    published,
    with_interval,
)
from sightline.metrics import ALARM_METRICS, AlarmRuns, alarm_figures
from sightline.metrics.alarm_figures import attack_intervals, chosen_figures
from sightline.report.entries import entries_of
from sightline.report.glossary import glossary
from sightline.show.comparison import published_tables
from sightline.storage import Result

PAGE = metric_tables.PAGE.read_text(encoding="utf-8")
OF_A_DETECTOR = [entry for entry in FIGURES.values() if entry.on is None]


def row_of(entry):
    """Return the row of a figure in docs/metrics.md; an empty one if it has none."""
    if entry.on is None:
        kind = get_type_hints(EvaluationRecord)[entry.block]
        # A record that older results lack is "record or None".
        kind = (get_args(kind) or (kind,))[0]
        rows = metric_tables.table(kind).splitlines()
    else:
        rows = PAGE.splitlines()
    return next((row for row in rows if row.startswith(f"| `{entry.field}` |")), "")


@pytest.mark.parametrize("entry", FIGURES.values(), ids=list(FIGURES))
def test_docs_and_table_say_the_same(entry):
    row = row_of(entry)
    assert row in PAGE
    cells = [cell.strip() for cell in row.strip("|").split(" | ")]
    if entry.on is not None:
        assert cells[1:] == [entry.name, entry.better, entry.definition]
        return
    _, _, _, reach, better, _, paper, *_ = cells
    assert better == entry.better
    assert (paper != "-") == bool(entry.reference)
    assert (reach == "0 to 1") <= ((entry.low, entry.high) == (0.0, 1.0))


def test_entries_are_complete_and_unique():
    assert {entry.key for entry in OF_A_DETECTOR} == set(Figure)
    assert all(entry.sentence.endswith(".") for entry in FIGURES.values())
    for name in ("name", "term", "place", "spoken"):
        assert len({getattr(e, name) for e in FIGURES.values()}) == len(FIGURES), name
    directions = {entry.better for entry in FIGURES.values()}
    assert directions == set(Better)


def test_the_page_lists_the_figures_with_an_interval():
    listed = re.search(r"`intervals` gives .*? for (.*?)\. \[uncert", PAGE, re.DOTALL)
    assert re.findall(r"`(\w+)`", listed[1]) == [entry.key for entry in with_interval()]


def test_published_intervals_are_those_that_are_drawn():
    labels, alarms = np.zeros((2, 400), np.int8)
    labels[[*range(50, 60), *range(200, 230)]] = 1
    alarms[[*range(55, 62), *range(100, 104), *range(210, 215)]] = 1
    drawn = attack_intervals(AlarmRuns.of(labels, alarms))
    assert set(drawn) == {entry.key for entry in published() if entry.has_interval}


def test_an_entry_reads_an_evaluation():
    e = evaluate(full_stream())
    assert FIGURES[Figure.F1].of(e) == e.probe.f1
    assert FIGURES[Figure.HINDSIGHT_HITS].of(e) == e.probe_test_calibrated.hits
    assert FIGURES[Figure.F1].interval(e) == e.intervals["f1"]
    assert FIGURES[Figure.F1].floor(e) == e.floor["f1"]
    own = FIGURES["pa_f1"].measured(e, "own_rule")
    assert FIGURES["pa_f1"].of(e, "own_rule") == own.value
    assert FIGURES["vus_roc"].of(e) == e.alarm_metrics["energy"]["vus_roc"].value
    assert (
        FIGURES["vus_roc"].of(evaluate(full_stream(), intervals=False, metrics="none"))
        is None
    )
    assert FIGURES["pa_f1"].range_text((0.25, None)) == "from 0.250"
    assert FIGURES[Figure.HITS].text(None) == "\N{EN DASH}"


def test_a_new_figure_needs_its_function_and_its_entry(monkeypatch, tmp_path):
    def any_alarm(labels, alarms=None):
        return {"value": float(labels.starts.size > 0)}

    entry = FigureEntry(
        key="any_alarm",
        name="Any alarm",
        sentence="Whether there is any alarm.",
        definition="whether there is any alarm",
        on=MeasuredOn.ALARMS,
        family="any",
        output="value",
        has_floor=True,
    )
    monkeypatch.setitem(FIGURES, entry.key, entry)
    monkeypatch.setattr(
        alarm_figures, "ALARM_METRICS", {**ALARM_METRICS, "any": any_alarm}
    )
    assert chosen_figures("any") == {"any_alarm"}
    write_results([evaluate(full_stream())], tmp_path)
    (result,) = read_results([tmp_path])
    e = result.evaluation
    assert entry.of(e, "own_rule") == 1.0
    assert entry.floor(e, "own_rule") is not None
    assert glossary()["figure-any-alarm"].text == "Whether there is any alarm."
    tables = published_tables(entries_of([result]))
    assert entry in [row for table in tables for row in table.records]
    # The check of the docs names it as long as its row is missing.
    assert row_of(entry) == ""


def test_a_field_of_a_record_becomes_a_figure_by_its_entry(monkeypatch):
    entry = FigureEntry(
        key="largest_segment_share",
        block="rank",
        name="Longest attack",
        sentence="Share of all attack rows that lie in the longest attack.",
        better=Better.LOWER,
    )
    monkeypatch.setitem(FIGURES, entry.key, entry)
    e = evaluate(full_stream(), intervals=False)
    (runs,) = group_runs([Result.of(e)])[0].detectors
    assert runs.mean(entry.key) == e.rank.largest_segment_share
    assert entry.text(runs.mean(entry.key)) == f"{e.rank.largest_segment_share:.3f}"
    assert glossary()["largest-segment-share"].name == "Longest attack"
    assert "| lower |" in row_of(entry)
