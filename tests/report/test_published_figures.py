"""Tables of published figures on the page and in print, and localisation."""

import csv
import io
import re

import pytest
from report.plant import CHANNELS, evaluations
from report.test_data import changed, in_use

from sightline.evaluation.localisation import Moment
from sightline.figures import FIGURES
from sightline.metrics.alarm_figures import AlarmFigure
from sightline.metrics.chance import Floor
from sightline.paper import tables
from sightline.paper.study import PaperStudy
from sightline.report.attacks import localisation_of
from sightline.report.entries import entries_of
from sightline.report.page import render
from sightline.report.redaction import redacted
from sightline.show.comparison import published_tables
from sightline.storage import Result
from sightline.text import MINUS


@pytest.fixture(scope="module")
def results():
    return [Result.of(evaluation) for evaluation in evaluations()]


@pytest.fixture(scope="module")
def entries(results):
    return entries_of(results)


def figure(value, floor=None, interval=None):
    above = floor is not None and value > floor
    chance = None if floor is None else Floor(value=floor, above_floor=above)
    return AlarmFigure(value=value, floor=chance, interval=interval, definition="d")


def test_a_point_adjusted_figure_is_not_shown_without_its_floor():
    assert not FIGURES["pa_f1"].can_show(figure(0.9))
    assert FIGURES["pa_f1"].can_show(figure(0.9, 0.8, (0.5, 0.95)))
    assert FIGURES["etapr_f1"].can_show(figure(0.9))
    assert not FIGURES["etapr_f1"].can_show(None)
    assert FIGURES["pa_f1"].range_text((0.5, 0.95)) == "0.500 to 0.950"
    assert FIGURES["nab_standard"].text(-562.8) == f"{MINUS}563"


def test_figures_below_their_floor_are_grey_and_last(entries):
    for testbed in {entry.testbed for entry in entries}:
        tables = published_tables([e for e in entries if e.testbed == testbed])
        places = [table.columns[1].cell(table.records[0]).place for table in tables]
        assert places[-1].startswith("energy.")
        for table in tables:
            is_below = [table.style(row) == "below" for row in table.records]
            assert is_below == sorted(is_below)
            for row, below in zip(table.records, is_below, strict=True):
                cells = [column.cell(row) for column in table.columns[1:]]
                with_floor = [
                    cell
                    for cell in cells
                    if any(
                        getattr(note, "text", "")[:6] == "chance" for note in cell.notes
                    )
                ]
                all_dim = all(cell.style == "dim" for cell in with_floor)
                assert below == (bool(with_floor) and all_dim)


def test_a_figure_below_its_floor_is_in_a_row_below(entries):
    entry = entries[0]
    figures = {
        "probe": {"etapr_f1": figure(0.1, 0.2), "etapr_recall": figure(0.3, 0.2)}
    }
    (table,) = published_tables([changed(entry, alarm_metrics=figures)])
    assert [known.key for known in table.records] == ["etapr_recall", "etapr_f1"]
    assert [table.style(known) for known in table.records] == ["", "below"]


def test_the_page_has_every_measured_figure_with_its_definition(entries):
    page = render(entries)
    evaluation = next(e.evaluation for e in entries if e.evaluation.floor)
    for source, figures in evaluation.alarm_metrics.items():
        for key, one in figures.items():
            if one.value is not None:
                pattern = f'data-figure="{source}.{key}" data-value="{one.value}"'
                assert pattern in page
    assert page.count("Oracle: the threshold saw the labels") >= 2
    assert 'data-term="figure-best-f1"' in page
    assert re.search(r'class="num below" data-figure="\w+\.\w+"', page)
    assert "Tag in first three" in page


def test_the_first_three_at_a_glance(entries):
    entry = next(e for e in entries if e.evaluation.floor)
    found = entry.evaluation.localisation.figures["conditional"]["first_alarm"]
    cell = in_use(entry)[-1]["named"]
    assert (
        cell.text
        == f"{round(found.hit_3.value * found.n_attacks)} of {found.n_attacks}"
    )
    assert cell.notes[0].startswith("chance ")


def test_bars_of_an_attack_mark_its_target(entries):
    entry = entries[0]
    attack = entry.evaluation.localisation.attacks[0]
    shown = localisation_of(entry, attack.id)
    first = shown["moments"][-1]["channels"][0]
    leading = attack.leading[Moment.ATTACK][0]
    assert (first["channel"], first["share"]) == (leading.channel, 1.0)
    assert first["is_target"] == (leading.channel in attack.targets)
    assert f"of {len(CHANNELS)} tags" in shown["sentence"]
    assert localisation_of(entry, "no such attack") is None


def test_a_redacted_result_names_no_tag_and_no_attack(results):
    hidden, _ = redacted(results)
    for result in hidden:
        text = repr(result.evaluation.localisation)
        assert not [name for name in CHANNELS if name in text]
        assert "A<" not in text


def rows_of(table):
    return list(csv.DictReader(io.StringIO(table.to_csv())))


def test_tables_for_print(results):
    study = PaperStudy(results)
    alarms, scores = tables.alarm_table(study), tables.score_table(study)
    places = tables.localisation_table(study)
    rows = [row for row in rows_of(alarms) if row["of"] == "p99 rule"]
    assert {"pa_f1", "pa_f1_floor", "etapr_recall_interval_low"} <= set(rows[0])
    # A point-adjusted figure never stands without its floor.
    assert all(bool(row["pa_f1"]) == bool(row["pa_f1_floor"]) for row in rows)
    assert any(row["pa_f1"] for row in rows)
    assert {r["of"] for r in rows_of(scores)} >= {"energy"}
    assert {r["method"] for r in rows_of(places)} >= {"conditional", "contribution"}
    for table in (alarms, scores, places):
        assert r"\begin{tabular}" in table.to_latex()
        assert table.to_markdown()
