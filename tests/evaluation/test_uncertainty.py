import json

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from strategies import make_stream, streams

from sightline import evaluate
from sightline.evaluation.result import BootstrapFacts, EffectiveAttacks
from sightline.figures import with_interval
from sightline.metrics.chance import Floor
from sightline.metrics.intervals import block_length

FIGURES = (
    "roc_auc pauc_1 pauc_5 average_precision mean_segment_auc p_full "
    "p_full_per_segment median_d_full d_drift d_drift_robust f1 precision recall hits "
    "false_alarm_rate"
).split()
OF_CALM_TIME = {"d_drift", "d_drift_robust", "false_alarm_rate"}
# Short and unevenly spaced: few shifts move attacks onto attacks.
STARTS = (30, 95, 210, 300, 470, 525, 660, 810, 930, 1125)
MANY = [(start, start + 12) for start in STARTS]


def test_every_figure_has_an_interval_about_it_and_a_floor():
    evaluation = evaluate(make_stream(attacks=MANY, strength=2.0), metrics="none")
    measured = {e.key: e.of(evaluation) for e in with_interval()}
    assert list(evaluation.intervals) == list(measured) == FIGURES
    assert list(evaluation.floor) == [n for n in FIGURES if n not in OF_CALM_TIME]
    for name, (low, high) in evaluation.intervals.items():
        assert low <= measured[name] <= high, name
        assert low < high, name
    for name, floor in evaluation.floor.items():
        assert floor.value < measured[name], name
        assert floor.above_floor is True, name


def test_figures_are_the_evaluations_own():
    evaluation = evaluate(make_stream(), intervals=False)
    measured = {e.key: e.of(evaluation) for e in with_interval()}
    written = evaluation.to_dict()
    for block in ("rank", "windows", "drift", "probe"):
        for name in written[block].keys() & measured.keys():
            assert measured.pop(name) == written[block][name], name
    assert measured == {}


def test_how_it_was_drawn_is_stated():
    stream = make_stream(attacks=MANY)
    evaluation = evaluate(stream, seed=7, metrics="none")
    energy = evaluation.traces.test_energy[stream.labels == 0]
    assert evaluation.bootstrap == BootstrapFacts(
        method="one-more-attack",
        n=500,
        block=block_length(np.log(energy)),
        seed=7,
        effective_attacks=EffectiveAttacks(rows=pytest.approx(10), segments=10),
        few_events=False,
        shifts=199,
    )


@pytest.mark.parametrize(("n_attacks", "few"), [(1, True), (9, True), (10, False)])
def test_few_attacks_are_marked(n_attacks, few):
    evaluation = evaluate(make_stream(attacks=MANY[:n_attacks]), metrics="none")
    assert evaluation.stream.n_segments == n_attacks
    assert evaluation.bootstrap.few_events is few


def test_intervals_may_be_turned_off():
    evaluation = evaluate(make_stream(), intervals=False)
    written = evaluation.to_dict()
    for block in ("intervals", "floor", "bootstrap"):
        assert getattr(evaluation, block) is None
        assert written[block] is None


def test_turning_intervals_off_changes_nothing_else():
    on, off = (evaluate(make_stream(), intervals=i).to_dict() for i in (True, False))
    for block in ("intervals", "floor", "bootstrap", "notices"):
        del on[block], off[block]
    assert without_uncertainty(on) == without_uncertainty(off)


def without_uncertainty(values):
    """Return a file's values without the floor and interval of single figures."""
    if isinstance(values, dict):
        kept = {k: v for k, v in values.items() if k not in ("floor", "interval")}
        return {key: without_uncertainty(value) for key, value in kept.items()}
    if isinstance(values, list):
        return [without_uncertainty(value) for value in values]
    return values


def test_attacks_of_very_unlike_length_weigh_like_few():
    attacks = [*MANY[:9], (1000, 1180)]
    evaluation = evaluate(make_stream(attacks=attacks), metrics="none")
    facts = evaluation.bootstrap
    assert facts.effective_attacks.segments == 10
    assert facts.effective_attacks.rows == pytest.approx(288**2 / (180**2 + 9 * 144))
    assert facts.few_events is True
    sentence = "10 attacks weigh like 2.5 in pooled figures: one holds 62% of the rows."
    assert sentence in evaluation.notices


def test_without_attacks_only_what_needs_none_has_intervals():
    evaluation = evaluate(make_stream(attacks=[]))
    known = {name for name, value in evaluation.intervals.items() if value is not None}
    assert known == OF_CALM_TIME
    assert list(evaluation.intervals) == FIGURES
    assert set(evaluation.floor.values()) == {None}
    for name in OF_CALM_TIME:
        low, high = evaluation.intervals[name]
        assert low < {e.key: e.of(evaluation) for e in with_interval()}[name] < high


def test_one_attack_has_wide_intervals_and_a_floor():
    evaluation = evaluate(
        make_stream(attacks=[(300, 340)], strength=9.0), metrics="none"
    )
    assert None not in evaluation.intervals.values()
    assert evaluation.intervals["hits"] == pytest.approx((0.025, 1.0))
    assert evaluation.rank.pauc_1 == evaluation.probe.recall == 1.0
    for name in ("pauc_1", "recall"):
        assert evaluation.intervals[name] == pytest.approx((0.025, 1.0), abs=0.02)
    # What leaves no trace is worth 0.5 to a ROC-AUC; nothing bounds the evidence above.
    assert evaluation.intervals["roc_auc"] == pytest.approx((0.51, 1.0), abs=0.02)
    assert evaluation.intervals["median_d_full"][1] is None
    assert None not in evaluation.floor.values()


def test_hits_have_an_exact_interval():
    evaluation = evaluate(make_stream(attacks=MANY, strength=0.3), metrics="none")
    hits, n = evaluation.probe.hits, len(MANY)
    assert 0 < hits < n
    exact = scipy.stats.binomtest(hits, n).proportion_ci(method="exact")
    assert evaluation.intervals["hits"] == pytest.approx(
        (n * exact.low, n * exact.high)
    )


def test_an_attack_without_matched_windows_has_no_window_interval():
    evaluation = evaluate(make_stream(attacks=[(50, 500), (520, 1100)]), metrics="none")
    assert evaluation.windows.p_full is None
    assert (evaluation.intervals["p_full"], evaluation.floor["p_full"]) == (None, None)
    assert evaluation.intervals["median_d_full"] is not None
    assert evaluation.intervals["roc_auc"] is not None


def test_a_rule_without_alarms_has_no_precision():
    stream = make_stream(attacks=MANY, strength=0.0)
    test = np.concatenate([*stream.test.chunks()]) * 0.1
    evaluation = evaluate(stream.replace(test=test), metrics="none")
    assert evaluation.probe.precision is None
    assert evaluation.intervals["precision"] is None
    assert evaluation.floor["precision"] is None
    low, high = evaluation.intervals["recall"]
    assert low == 0.0
    # None of ten attacks of one length: as a count of 0 of 10.
    assert high == pytest.approx(0.308, abs=0.03)
    assert evaluation.floor["recall"] == Floor(value=0.0, above_floor=False, p=1.0)


def test_the_same_seed_gives_the_same_and_another_seed_does_not():
    stream = make_stream(strength=1.0)
    one, same, other = (
        evaluate(stream, seed=seed, metrics="none") for seed in (1, 1, 2)
    )
    assert one.to_dict() == same.to_dict()
    for block in ("intervals", "floor"):
        assert getattr(one, block) != getattr(other, block)
    assert {e.key: e.of(one) for e in with_interval()} == {
        e.key: e.of(other) for e in with_interval()
    }


def test_chance_is_not_above_its_floor_and_a_clear_stream_is():
    rated = ("roc_auc", "average_precision", "mean_segment_auc", "p_full", "f1")
    at_chance, clear = (
        evaluate(make_stream(3, attacks=MANY, strength=strength), metrics="none").floor
        for strength in (0.0, 4.0)
    )
    for name in rated:
        assert at_chance[name].above_floor is False, name
        assert clear[name].above_floor is True, name
    for floor in (at_chance, clear):
        assert floor["p_full"].value == pytest.approx(0.5, abs=0.05)
        assert floor["mean_segment_auc"].value == pytest.approx(0.5, abs=0.1)
    assert at_chance["roc_auc"].value == pytest.approx(0.5, abs=0.05)


def test_more_attacks_narrow_the_interval():
    def width(attacks):
        stream = make_stream(attacks=attacks, strength=0.8)
        low, high = evaluate(stream, metrics="none").intervals["mean_segment_auc"]
        return high - low

    assert width(MANY[:2]) > 2 * width(MANY)


@settings(deadline=None, max_examples=25)
@given(streams())
def test_any_small_stream_gives_ordered_intervals_and_clean_json(stream):
    evaluation = evaluate(stream, metrics="none")
    written = evaluation.to_dict()
    assert json.loads(json.dumps(written, allow_nan=False)) == written
    assert list(evaluation.intervals) == FIGURES
    measured = {e.key: e.of(evaluation) for e in with_interval()}
    for name, interval in evaluation.intervals.items():
        if interval is None:
            continue
        low, high = interval
        assert np.isfinite(low), name
        assert name == "median_d_full" or high is not None, name
        assert high is None or low <= high < np.inf, name
        assert measured[name] is not None, name
    for name, floor in evaluation.floor.items():
        assert floor is None or np.isfinite(floor.value), name
        # A chance figure is only given beside a figure.
        assert floor is None or measured[name] is not None, name


@settings(deadline=None, max_examples=5)
@given(streams())
def test_floors_of_alarm_metrics_of_any_small_stream_are_clean_json(stream):
    written = evaluate(stream, diagnosis=False).to_dict()
    assert json.loads(json.dumps(written, allow_nan=False)) == written
