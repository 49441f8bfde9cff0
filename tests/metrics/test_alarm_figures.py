"""Floors and intervals of the alarm figures, and which metric each figure is."""

from pathlib import Path

import numpy as np
import pytest
from golden_alarms import large

from sightline import StreamError
from sightline.figures import MeasuredOn, published
from sightline.metrics import ALARM_METRICS, AlarmRuns, ScoreRanks
from sightline.metrics.alarm_figures import (
    attack_intervals,
    chosen_figures,
    measure_figures,
)
from sightline.metrics.chance import FLOOR_SHARE, N_SHIFTS, floor_of
from sightline.metrics.intervals import count_interval

FIGURES = {entry.key: entry for entry in published()}


def record(seed=0, n=400, n_attacks=6, share=0.05):
    rng = np.random.default_rng(seed)
    labels = np.zeros(n, np.int8)
    for start in rng.choice(np.arange(5, n - 30, 30), n_attacks, replace=False):
        labels[start : start + rng.integers(3, 20)] = 1
    scores = rng.normal(size=n) + labels * rng.normal(1.5, 1)
    return labels, (scores > np.quantile(scores, 1 - share)).astype(np.int8), scores


def test_the_keys_are_those_of_the_file():
    assert [spec.key for spec in published(MeasuredOn.ALARMS)] == (
        "pa_f1 pak_20_f1 pak_auc range_precision range_recall range_f1 "
        "etapr_precision etapr_recall etapr_f1 affiliation_precision "
        "affiliation_recall affiliation_f1 event_precision event_recall event_f1 "
        "composite_f1 esa_f05 esa_alarming_precision nab_standard delay_mean "
        "delay_median delay_censored_mean delayed_f1 latency_f1 pate_f1"
    ).split()
    assert [spec.key for spec in published(MeasuredOn.SCORE)] == (
        "best_f1 best_pa_f1 pa_average_precision vus_roc vus_pr r_auc_roc r_auc_pr pate"
    ).split()


def test_a_figure_is_the_output_of_its_metric():
    labels, alarms, scores = record()
    measured = measure_figures(
        AlarmRuns.of(labels, alarms), FIGURES, uncertainty=False
    ) | measure_figures(ScoreRanks.of(labels, scores), FIGURES, uncertainty=False)
    assert set(measured) == set(FIGURES)
    for key, spec in FIGURES.items():
        given = alarms if spec.on is MeasuredOn.ALARMS else scores
        outputs = ALARM_METRICS[spec.family](labels, given, **dict(spec.parameters))
        assert measured[key].value == outputs[spec.output]
        assert measured[key].definition == spec.definition
        assert measured[key].floor is measured[key].interval is None


def test_oracles_say_that_they_saw_the_labels():
    oracles = {key for key, spec in FIGURES.items() if "oracle" in spec.name}
    assert oracles == {key for key in FIGURES if key.startswith("best_")}
    assert all("saw the labels" in FIGURES[key].definition for key in oracles)


def test_a_floor_is_the_mean_over_rolled_rows():
    labels, alarms, scores = record()
    shifts = np.random.default_rng(3).integers(1, len(labels), N_SHIFTS)
    for given, stream, keys in (
        (AlarmRuns.of(labels, alarms), alarms, ("etapr_f1", "delay_censored_mean")),
        (ScoreRanks.of(labels, scores), scores, ("best_pa_f1", "vus_pr")),
    ):
        measured = measure_figures(given, keys, seed=3)
        for key in keys:
            spec = FIGURES[key]
            draws = [
                ALARM_METRICS[spec.family](labels, np.roll(stream, shift))[spec.output]
                for shift in shifts
            ]
            floor = measured[key].floor
            assert floor.value == pytest.approx(np.mean(draws))
            sign = 1 if spec.higher_is_better else -1
            reached = np.sum(
                sign * np.array(draws) >= sign * measured[key].value - 1e-12
            )
            assert floor.p == (1 + reached) / 200
            assert floor.above_floor == (floor.p <= 0.05)


def test_alarms_at_random_on_long_attacks_reach_high_point_adjusted_f1():
    labels = large("L1")[0]
    alarms = np.random.default_rng(0).random(len(labels)) < 0.01
    keys = ("pa_f1", "pak_20_f1", "affiliation_f1", "etapr_f1")
    measured = measure_figures(AlarmRuns.of(labels, alarms), keys)
    assert measured["pa_f1"].value > 0.9
    assert measured["affiliation_f1"].value > 0.6
    assert measured["pak_20_f1"].value < 0.05
    for figure in measured.values():
        assert figure.value == pytest.approx(figure.floor.value, abs=0.05)
        assert not figure.floor.above_floor


def test_a_good_detector_is_above_its_floors():
    labels, _, _ = record(n=2000, n_attacks=12)
    alarms = np.roll(labels, 1)
    measured = measure_figures(AlarmRuns.of(labels, alarms), FIGURES)
    assert {key for key, f in measured.items() if f.floor is None} == {"pate_f1"}
    below = {k for k, f in measured.items() if f.floor and not f.floor.above_floor}
    # These look at the detected attacks alone, of which a shift has fewer.
    assert below <= {"esa_alarming_precision", "delay_mean", "delay_median"}


def test_a_figure_that_every_shift_reaches_is_not_above_its_floor():
    labels, alarms, scores = record()
    always = measure_figures(AlarmRuns.of(labels, np.ones_like(alarms)), FIGURES)
    constant = measure_figures(ScoreRanks.of(labels, np.ones_like(scores)), FIGURES)
    for figure in (*always.values(), *constant.values()):
        if figure.floor is None:
            continue
        assert figure.floor.p == 1.0
        assert not figure.floor.above_floor


def test_event_recall_has_the_exact_interval_of_a_count():
    labels, alarms, _ = record()
    runs = AlarmRuns.of(labels, alarms)
    low, high = attack_intervals(runs)["event_recall"]
    hits, n = int((runs.touching > 0).sum()), runs.rows.n_attacks
    assert (low * n, high * n) == pytest.approx(count_interval(hits, n))


def test_one_attack_wholly_covered_may_be_any_share():
    """The exact interval of 1 out of 1 is 0.025 to 1."""
    alarms = [0, 0, 1, 1, 0, 0]
    ranges = attack_intervals(AlarmRuns.of(alarms, alarms))
    for key in ("range_recall", "etapr_recall", "affiliation_recall"):
        assert ranges[key] == pytest.approx((0.025, 1.0), abs=0.02)


@pytest.mark.parametrize("seed", range(4))
def test_an_interval_holds_its_figure(seed):
    labels, alarms, _ = record(seed)
    measured = measure_figures(AlarmRuns.of(labels, alarms), FIGURES, block=10)
    with_interval = {key for key, f in measured.items() if f.interval is not None}
    assert with_interval == {
        "pa_f1",
        "pak_20_f1",
        "range_recall",
        "etapr_recall",
        "affiliation_precision",
        "affiliation_recall",
        "event_recall",
    }
    for key in with_interval:
        low, high = measured[key].interval
        assert 0 <= low <= measured[key].value <= high <= 1


def test_intervals_shrink_with_more_attacks():
    def width(n_attacks):
        labels, alarms, _ = record(n=6000, n_attacks=n_attacks)
        low, high = attack_intervals(AlarmRuns.of(labels, alarms))["etapr_recall"]
        return high - low

    assert width(100) < 0.5 * width(6)


def test_without_attacks_figures_are_undefined_and_nothing_is_drawn():
    measured = measure_figures(
        AlarmRuns.of(np.zeros(50, int), np.ones(50, int)), FIGURES
    )
    assert measured
    for figure in measured.values():
        assert figure.value is figure.floor is figure.interval is None


def test_no_alarm_at_all():
    labels, _, _ = record()
    measured = measure_figures(AlarmRuns.of(labels, np.zeros_like(labels)), FIGURES)
    assert (
        measured["etapr_precision"].value is measured["etapr_precision"].floor is None
    )
    assert measured["event_recall"].value == 0
    assert not measured["event_recall"].floor.above_floor


def test_choosing_figures():
    assert chosen_figures("all") == set(FIGURES)
    assert chosen_figures("none") == frozenset()
    assert chosen_figures(["etapr", "vus_roc"]) == {
        "etapr_precision",
        "etapr_recall",
        "etapr_f1",
        "vus_roc",
    }
    with pytest.raises(
        StreamError, match="No alarm metric is called 'f2': choose among"
    ):
        chosen_figures("etapr,f2")


def test_undefined_draws_are_left_out_of_the_mean():
    floor = floor_of(0.2, [0.1, None, 0.3])
    assert (floor.value, floor.p) == pytest.approx((0.2, 0.5))
    assert floor_of(None, [0.1]) is floor_of(0.1, [None]) is None


def test_the_page_has_every_figure_with_its_definition():
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text("utf-8")
    for key, spec in FIGURES.items():
        row = f"| `{key}` | {spec.name} | {spec.better} | {spec.definition} |"
        assert row in page.splitlines()
    assert f"the mean over {N_SHIFTS} shifts" in page
    assert f"whether `p` is at\n  most {FLOOR_SHARE}" in page
