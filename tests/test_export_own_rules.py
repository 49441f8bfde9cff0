"""The detectors' own scores and alarms go with the stream, and leak only by name."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from sightline import (
    Attack,
    Recording,
    Residuals,
    StreamError,
    Tag,
    evaluate,
    export_stream,
    make_detector,
)
from sightline.detectors import DETECTORS
from sightline.detectors.gdn import gdn_alarms

RULES = {name: kind.rules for name, kind in DETECTORS.items()}
SMALL = {
    "gdn": {"epochs": 1, "dim": 8, "top_k": 3},
    "fusagnet": {"epochs": 1, "dim": 8, "top_k": 3},
    "tranad": {"epochs": 1},
    "nsibf": {"epochs": 1, "window": 3, "input_range": 6, "lstm_width": 8},
    "geco": {"max_inputs": 1},
    "kalman": {"kl_rows": 20},
}
NAMED = [(name, rule.name) for name in SMALL for rule in RULES[name]]


def plant(n, seed, attacked=False):
    rng = np.random.default_rng(seed)
    t = np.arange(n)
    waves = [np.sin(t / (9 + 3 * k)) + 0.1 * rng.normal(size=n) for k in range(4)]
    values = np.column_stack([*waves, np.sin(t / 20) > 0])
    tags = tuple(
        Tag(name=f"T{k}", role="sensor" if k < 4 else "actuator", stage=f"P{k % 2}")
        for k in range(5)
    )
    labels, attacks = None, ()
    if attacked:
        values[300:340, 1] += 3.0
        labels = np.zeros(n, int)
        labels[300:340] = 1
        attacks = (Attack(id="A", start=300, stop=340),)
    return Recording(
        values=values, tags=tags, step_s=1.0, labels=labels, attacks=attacks
    )


TRAIN, TEST = plant(900, 0), plant(500, 1, attacked=True)


@cache
def fitted(name):
    return make_detector(name, **SMALL[name]).fit(TRAIN)


@pytest.mark.parametrize("name", SMALL)
def test_by_default_nothing_of_the_test_is_looked_at(name):
    stream = export_stream(fitted(name), TRAIN, TEST)
    rule = stream.meta.get("native_rule")
    assert rule is None or rule["looks_at"] == ()
    labels = np.roll(TEST.labels, 100)
    other = export_stream(fitted(name), TRAIN, replace(TEST, labels=labels, attacks=()))
    for ours, theirs in ((stream.alarms, other.alarms), (stream.score, other.score)):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            assert (ours == theirs).all()


@pytest.mark.parametrize(("name", "rule"), NAMED)
def test_every_rule_gives_alarms_that_are_evaluated(name, rule):
    stream = export_stream(fitted(name), TRAIN, TEST, rule=rule)
    assert stream.alarms is not None
    assert stream.meta["native_rule"]["name"] == rule
    looks = next(one.looks_at for one in RULES[name] if one.name == rule)
    told = [text for text in stream.notices if "no detector in service could" in text]
    assert bool(told) == bool(looks)
    found = evaluate(stream, intervals=False, diagnosis=False)
    assert found.own_rule is not None
    threshold = stream.meta["native_rule"].get("threshold")
    if threshold is not None and stream.score is not None:
        assert ((stream.score > threshold) == stream.alarms).all()


@pytest.mark.parametrize(("name", "rule"), NAMED)
def test_what_looks_at_the_test_says_so_in_its_name(name, rule):
    card = next(one for one in RULES[name] if one.name == rule)
    if "test labels" in card.looks_at:
        assert "test-labels" in rule
    elif card.looks_at:
        assert "test-statistics" in rule


@pytest.mark.parametrize("name", [*SMALL, "pca"])
def test_a_rule_nobody_knows_is_refused(name):
    detector = fitted(name) if name in SMALL else make_detector(name).fit(TRAIN)
    with pytest.raises(StreamError, match="rule"):
        export_stream(detector, TRAIN, TEST, rule="point-adjusted")


def test_gdns_alarms_are_those_of_its_residuals():
    detector = fitted("gdn")
    stream = export_stream(detector, TRAIN, TEST)
    learned, tested = detector.residuals(TRAIN), detector.residuals(TEST)
    held_out = learned.values[np.isin(learned.index, detector.split.held_out)]
    wanted = gdn_alarms(held_out, tested.values)
    np.testing.assert_array_equal(stream.score, wanted.score)
    np.testing.assert_array_equal(stream.alarms, wanted.alarms)


def test_fusagnets_reconstruction_errors_are_of_the_windows_it_forecast_from():
    detector = fitted("fusagnet")
    tested = detector.residuals(TEST)
    errors = detector._both_errors(TEST, tested)
    assert errors.windows.shape == (len(tested.index), 5, 5)
    rebuilt = make_detector("fusagnet", **SMALL["fusagnet"], exported="reconstruction")
    newest = rebuilt.fit(TRAIN).residuals(TEST)
    # The newest row of a window is the row before the one it forecasts.
    at = np.isin(newest.index, tested.index - 1)
    np.testing.assert_allclose(errors.windows[..., -1], newest.values[at], atol=1e-6)


def test_gecos_alarms_are_those_of_its_cusum():
    detector = fitted("geco")
    stream = export_stream(detector, TRAIN, TEST)
    cusum = detector.cusum(TEST)
    assert (stream.alarms == cusum.is_alarm.any(axis=1)).all()
    assert stream.alarms[300:340].any()
    # The score is above 1 where the sum is above the alarm level.
    assert (stream.score[stream.alarms == 0] <= 1).all()


def test_a_score_that_some_rows_lack_is_left_out_and_said_so(monkeypatch):
    detector = make_detector("nsibf", **SMALL["nsibf"]).fit(TRAIN)
    whole = detector.residuals

    def holed(recording, **options):
        made = whole(recording, **options)
        score = made.score.copy()
        score[3] = np.nan
        return replace(made, score=score)

    monkeypatch.setattr(detector, "residuals", holed)
    stream = export_stream(detector, TRAIN, TEST)
    assert stream.score is None
    assert any("score is left out" in text for text in stream.notices)


class Foreign:
    """Expects nothing to be other than 0; cannot tell row 7 of test."""

    def fit(self, recording):
        return self

    def residuals(self, recording):
        values = recording.values.copy()
        if recording.n_steps == 500:
            values[7, 0] = np.nan
        return Residuals(
            values=values, index=np.arange(len(values)), channels=recording.channels
        )


def test_rows_without_a_residual_are_left_out_and_said_so():
    stream = export_stream(Foreign(), TRAIN, TEST)
    assert stream.test.n_rows == 499
    assert any("1 rows of 500" in text for text in stream.notices)
    assert stream.labels.sum() == 40
    assert stream.test_breaks.tolist() == [0, 7]


def test_a_foreign_detector_has_no_rule():
    with pytest.raises(StreamError, match="no alarm rule of its own"):
        export_stream(Foreign(), TRAIN, TEST, rule="held-out")


def odd_start(recording, rows):
    values = recording.values.copy()
    values[:rows] += 50.0
    return replace(recording, values=values)


def test_tranads_threshold_is_of_normal_rows_alone():
    quiet = make_detector("tranad", epochs=1, trim_s=200).fit(TRAIN)
    plain = export_stream(quiet, TRAIN, TEST).meta["native_rule"]["threshold"]
    # Rows that were trimmed may hold anything: they choose nothing.
    odd = odd_start(TRAIN, 200)
    trimmed = make_detector("tranad", epochs=1, trim_s=200).fit(odd)
    assert export_stream(trimmed, odd, TEST).meta["native_rule"]["threshold"] == plain
    # Nor do rows of train that are labelled as attacks.
    labels = np.zeros(TRAIN.n_steps, int)
    labels[:200] = 1
    marked = replace(TRAIN, labels=labels)
    detector = make_detector("tranad", epochs=1).fit(marked)
    loud = export_stream(detector, marked, TEST).meta["native_rule"]["threshold"]
    tested = export_stream(detector, TRAIN, TEST).meta["native_rule"]["threshold"]
    assert loud != tested


@pytest.mark.parametrize(
    ("name", "exported"), [("tranad", "first"), ("fusagnet", "reconstruction")]
)
def test_a_rule_is_of_the_published_output_or_of_none(name, exported):
    detector = make_detector(name, **SMALL[name], exported=exported).fit(TRAIN)
    assert export_stream(detector, TRAIN, TEST).score is None
    with pytest.raises(StreamError, match="set `exported` to"):
        export_stream(detector, TRAIN, TEST, rule=RULES[name][0].name)


def test_a_rule_nobody_asked_for_does_not_stand_in_the_way():
    detector = make_detector("gdn", **SMALL["gdn"], validation_share=0.003).fit(TRAIN)
    stream = export_stream(detector, TRAIN, TEST)
    assert stream.alarms is None
    assert any("could not be used" in text for text in stream.notices)
    with pytest.raises(StreamError):
        export_stream(detector, TRAIN, TEST, rule="held-out")


def test_no_rule_can_be_asked_for():
    stream = export_stream(fitted("gdn"), TRAIN, TEST, rule="none")
    assert stream.alarms is None
    assert stream.score is None


def test_a_stream_may_be_looked_at_to_the_letter():
    detector = fitted("tranad")
    late = export_stream(detector, TRAIN, TEST, preset="official")
    assert late.meta["residuals_preset"] == "official"
    wanted = detector.residuals(TEST, preset="official").values
    np.testing.assert_array_equal(next(iter(late.test.chunks())), wanted)


def test_an_array_is_no_residuals():
    class Bare(Foreign):
        def residuals(self, recording):
            return recording.values

    with pytest.raises(StreamError, match="must return"):
        export_stream(Bare(), TRAIN, TEST)
