from dataclasses import replace

import numpy as np
import pytest
from strategies import make_stream

from sightline import evaluate
from sightline.data.row_tables import gather_rows
from sightline.evaluation.caveats import remarks
from sightline.metrics.chance import Floor

# Short and unevenly spaced: few shifts move attacks onto attacks.
STARTS = (30, 95, 210, 300, 470, 525, 660, 810, 930, 1125)
MANY = [(start, start + 12) for start in STARTS]
AT_CHANCE = "Not shown to be better than chance (attack-free windows in their place, "
AT_CHANCE += "p above 0.05)"
UNMATCHED = "longer than any attack-free stretch"
FEW = "intervals are wide"
ONE_LARGE = "dominates the pooled ranking"


def values_of(rows):
    return gather_rows(rows, np.arange(rows.n_rows))


def remark(evaluation, beginning):
    """Return the one sentence with these words; None where there is none."""
    found = [sentence for sentence in evaluation.notices if beginning in sentence]
    assert len(found) <= 1
    return found[0] if found else None


def quiet(**known):
    """A stream about which little need be said."""
    stream = make_stream(attacks=MANY, strength=4.0, step_s=600.0, **known)
    calibration = values_of(stream.train)[:300]
    return stream.replace(calibration=calibration)


def test_a_clear_stream_has_nothing_to_watch_out_for():
    evaluation = evaluate(quiet())
    assert evaluation.notices == ()
    assert remarks(evaluation, evaluation) == []


def test_a_chance_stream_is_said_to_be_one():
    evaluation = evaluate(make_stream(3, attacks=MANY, strength=0.0), metrics="none")
    sentence = remark(evaluation, AT_CHANCE)
    rank, floor = evaluation.rank, evaluation.floor
    assert (
        f"ROC-AUC ({rank.roc_auc:.3f}; chance {floor['roc_auc'].value:.3f}, p "
        f"{floor['roc_auc'].p:.2g})" in sentence
    )
    assert (
        f"P_FULL ({evaluation.windows.p_full:.3f}; chance "
        f"{floor['p_full'].value:.3f}, p {floor['p_full'].p:.2g})" in sentence
    )


def test_only_what_is_not_above_its_floor_is_named():
    evaluation = evaluate(quiet(), metrics="none")
    floor = evaluation.floor | {"f1": Floor(value=0.25, above_floor=False)}
    (sentence,) = remarks(evaluation, replace(evaluation, floor=floor))
    assert sentence == f"{AT_CHANCE}: F1 ({evaluation.probe.f1:.3f}; chance 0.250)."


def test_a_figure_of_zero_is_told_as_zero():
    stream = make_stream(attacks=MANY, strength=0.0)
    test = 0.1 * values_of(stream.test)
    evaluation = evaluate(stream.replace(test=test), metrics="none")
    assert evaluation.probe.f1 == 0
    assert "F1 (0.000; chance 0.000, p 1)" in remark(evaluation, AT_CHANCE)


def test_without_intervals_nothing_is_said_of_chance():
    evaluation = evaluate(make_stream(strength=0.0), intervals=False)
    assert remark(evaluation, AT_CHANCE) is None
    assert remark(evaluation, FEW) is None


@pytest.mark.parametrize("intervals", [True, False])
def test_attacks_without_matched_windows_are_reported(intervals):
    stream = make_stream(attacks=[(50, 60), (100, 600), (610, 1150)])
    evaluation = evaluate(stream, intervals=intervals, metrics="none")
    assert "2 of 3 attacks" in remark(evaluation, UNMATCHED)
    matched = evaluate(make_stream(attacks=MANY), intervals=False)
    assert remark(matched, UNMATCHED) is None


@pytest.mark.parametrize(("n_attacks", "few"), [(2, True), (9, True), (10, False)])
def test_few_attacks_are_reported(n_attacks, few):
    stream = make_stream(attacks=MANY[:n_attacks])
    sentence = remark(evaluate(stream, metrics="none"), FEW)
    assert (sentence is not None) is few


def test_no_attack_is_told_and_nothing_of_chance():
    evaluation = evaluate(make_stream(attacks=[]))
    assert remark(evaluation, "No test row is labelled an incident")
    for words in (AT_CHANCE, FEW, UNMATCHED, ONE_LARGE):
        assert remark(evaluation, words) is None


def test_one_attack_that_holds_most_rows_is_reported():
    stream = make_stream(attacks=[(100, 110), (500, 530)])
    assert "holds 75% of all" in remark(evaluate(stream, intervals=False), ONE_LARGE)
    for attacks in ([(500, 530)], [(100, 130), (500, 530)]):
        evaluation = evaluate(make_stream(attacks=attacks), intervals=False)
        assert remark(evaluation, ONE_LARGE) is None


def test_notices_of_the_stream_come_first():
    stream = make_stream()
    stream = stream.replace(notices=["Said before."])
    evaluation = evaluate(stream)
    assert evaluation.notices == ("Said before.", *remarks(evaluation, evaluation))
    assert len(evaluation.notices) > 2
