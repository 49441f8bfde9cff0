"""The one grouping of results, its matched attacks, and the one agreement."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from strategies import make_stream

from sightline import compare, evaluate
from sightline.comparison.compare import agreements, why_undefined
from sightline.comparison.runs import group_runs, match_spans
from sightline.figures import FIGURES, Figure
from sightline.paper.study import PaperStudy
from sightline.paper.tables import agreement_table
from sightline.storage import Result

ATTACKS = [(50, 60), (120, 140), (200, 210), (250, 255)]


@cache
def evaluated(detector, attacks, seed):
    stream = make_stream(
        n_train=200,
        n_test=300,
        attacks=attacks,
        strength=1.0,
        seed=seed,
        detector=detector,
        testbed="plant",
        name=f"{detector}-{seed}",
    )
    return evaluate(stream, intervals=False)


def result(detector, attacks=ATTACKS, seed=0, guard=0):
    evaluation = replace(evaluated(detector, tuple(attacks), seed), guard=guard)
    return Result(Path(f"{detector}-{seed}"), evaluation)


def one_testbed(*results):
    (runs,) = group_runs(results)
    return runs


def test_results_are_grouped_by_testbed_detector_and_guard():
    runs = one_testbed(
        result("b", seed=2), result("a"), result("b", seed=1), result("b", guard=5)
    )
    assert [one.label for one in runs.detectors] == ["b", "a", "b (guard 5)"]
    assert [r.folder.name for r in runs["b"].results] == ["b-1", "b-2"]
    assert "c" not in runs


def test_a_figure_over_seeds():
    runs = one_testbed(*(result("a", seed=seed) for seed in range(3)))["a"]
    values = runs.values(Figure.ROC_AUC)
    spread = runs.spread(Figure.ROC_AUC)
    assert values == [r.evaluation.rank.roc_auc for r in runs.results]
    assert (spread.low, spread.high, spread.n) == (min(values), max(values), 3)
    assert spread.mean == pytest.approx(sum(values) / 3)


@pytest.mark.parametrize("figure", Figure)
def test_every_figure_is_a_field_of_an_evaluation(figure):
    evaluation = result("a").evaluation
    entry = FIGURES[figure]
    block = getattr(evaluation, entry.block)
    assert entry.of(evaluation) == getattr(block, entry.field)


def test_every_attack_of_any_detector_is_matched():
    first, second = ATTACKS[:2], [(55, 62), (160, 170), (200, 210)]
    runs = one_testbed(result("a", first), result("b", second))
    assert [(x.span[0], dict(x.places)) for x in runs.attacks] == [
        (55, {"b": 0, "a": 0}),
        (120, {"a": 1}),
        (160, {"b": 1}),
        (200, {"b": 2}),
    ]
    # Both call another attack "2".
    assert [x.id for x in runs.attacks] == ["1", "2 of a", "2", "3"]
    assert runs.places(runs["a"].first).tolist() == [0, 1, -1, -1]
    assert list(runs.attacks[0].segments) == ["a", "b"]


def test_compare_shows_attacks_that_the_first_detector_does_not_have():
    results = [result("a", ATTACKS[:2]), result("b", ATTACKS)]
    found = {
        r.attack: set(r.verdicts) for r in compare(results, n_replicates=2).verdicts
    }
    assert found == {"1": {"a", "b"}, "2": {"a", "b"}, "3": {"b"}, "4": {"b"}}


def test_agreement_of_a_pair_is_one_number_on_page_and_in_tables():
    results = [result(name, seed=seed) for name in "ab" for seed in range(3)]
    compared = compare(results, n_replicates=2)
    (row,) = compared.agreement
    low, high = row.rho_range
    assert (
        low < row.rho < high
    )  # seeds differ, so the first seeds alone differ from all
    table = agreement_table(PaperStudy(results), compared)
    cells = [column.cell(table.groups[0].records[0]) for column in table.columns[1:]]
    assert row.rho in [cell.values[0] for cell in cells]


@pytest.mark.parametrize(
    ("results", "why"),
    [
        ([result("a")], "at least two detectors on one testbed"),
        (
            [result("a"), result("b", ATTACKS[:2])],
            "at least 3 attacks; no two detectors share more than 2",
        ),
    ],
)
def test_why_there_is_no_agreement(results, why):
    assert why in why_undefined(agreements(one_testbed(*results)))


def test_spans_pair_one_to_one_by_greatest_overlap():
    assert match_spans([(0, 10)], [(8, 20), (2, 9)]) == [(0, 1)]
    assert match_spans([(0, 10), (10, 20)], [(5, 14)]) == [(0, 0)]
    assert match_spans([(0, 5)], [(5, 9)]) == []


def test_attacks_match_by_row_unless_all_results_have_time_stamps():
    timed = result("a")
    times = 1e6 + 10.0 * np.arange(300)
    evaluation = timed.evaluation
    timed = replace(
        timed,
        evaluation=replace(
            evaluation, traces=replace(evaluation.traces, test_time=times)
        ),
    )
    assert one_testbed(timed).attacks[0].span == (1e6 + 500, 1e6 + 590)
    mixed = one_testbed(timed, result("b"))
    assert [set(x.places) for x in mixed.attacks] == [{"a", "b"}] * len(ATTACKS)
    assert mixed.attacks[0].span == (50, 60)
