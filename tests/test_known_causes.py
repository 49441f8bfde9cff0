"""The generator of streams with known causes does what it says."""

from collections import Counter
from functools import cache

import numpy as np
import pytest
from known_causes import (
    CAUSES,
    KnownStream,
    Whitened,
    autoregress,
    draw_places,
    draw_settings,
    ewma,
    make_known_stream,
    unit_noise,
)

from sightline import energy_trace, fit_reference

SMALL = {"p": 12, "length": (30, 200), "calm_factor": 30.0, "n_train": 3000}


@cache
def known(seed: int, **fixed) -> KnownStream:
    return make_known_stream(seed, **(SMALL | fixed))


def rows_of(known: KnownStream, which: str) -> np.ndarray:
    return np.concatenate(list(getattr(known.stream, which).chunks()))


def test_a_seed_reproduces_its_stream():
    first, again = known(3), make_known_stream(3, **SMALL)
    np.testing.assert_array_equal(rows_of(first, "train"), rows_of(again, "train"))
    np.testing.assert_array_equal(rows_of(first, "test"), rows_of(again, "test"))
    np.testing.assert_array_equal(first.calm(5), again.calm(5))
    assert first.segments == again.segments
    assert first.settings == again.settings


def test_seeds_and_replicas_differ():
    assert not np.allclose(rows_of(known(3), "train"), rows_of(known(4), "train"))
    assert not np.allclose(known(3).calm(0), known(3).calm(1))


@pytest.mark.parametrize("seed", range(8))
def test_labels_and_segments_fit(seed):
    made = known(seed, adjacent=0.5)
    found = made.stream.attack_segments()
    assert [a.id for a in found] == [str(i) for i in range(12)]
    bounds = [(a.start, a.stop) for a in found]
    assert bounds == [(s.start, s.stop) for s in made.segments]
    assert made.stream.test.n_rows == made.settings["n_test"] == len(made.calm(0))
    assert made.stream.channels[:2] == ("c0", "c1")
    assert made.stream.step_s == 1
    assert made.stream.notices == ()


def test_some_attacks_touch_and_some_are_near():
    made = known(0, adjacent=0.6)
    gaps = [
        after.start - before.stop
        for before, after in zip(made.segments, made.segments[1:], strict=False)
    ]
    assert 0 in gaps
    assert any(5 <= gap <= 50 for gap in gaps)


@pytest.mark.parametrize("seed", range(6))
def test_only_the_attacked_channels_of_attacked_rows_move(seed):
    made = known(seed)
    moved = rows_of(made, "test") != untouched(made)
    for segment in made.segments:
        here = moved[segment.start : segment.stop]
        assert set(np.flatnonzero(here.any(axis=0))) == set(segment.channels)
        assert (segment.size == 0) == (segment.intended == "none")
        assert (segment.effect == "none") == (segment.intended == "none")
        here[:] = False
    assert not moved.any()


def untouched(made: KnownStream) -> np.ndarray:
    """Return the test rows of a stream before its attacks."""
    without = make_known_stream(
        made.settings["seed"], **(SMALL | {"causes": ("none",)})
    )
    assert {s.intended for s in without.segments} == {"none"}
    return rows_of(without, "test")


@pytest.mark.parametrize("drift", ["none", "all", "part", "growing"])
@pytest.mark.parametrize("regimes", ["none", "known", "unknown"])
def test_calm_replicas_have_the_law_of_the_test_rows(drift, regimes):
    made = known(
        11,
        drift=drift,
        regimes=regimes,
        causes=("none",),
        autocorrelation=0.3,
        tails="gauss",
        train_tail="same",
    )
    test = rows_of(made, "test")
    reference = fit_reference(rows_of(made, "train"))
    blocks = np.array_split(np.arange(len(test)), 5)
    traces = [energy_trace(made.calm(i), reference) for i in range(6)]
    calm = np.array([[e[rows].mean() for rows in blocks] for e in traces])
    here = energy_trace(test, reference)
    ours = np.array([here[rows].mean() for rows in blocks])
    spread = calm.std(axis=0, ddof=1) + 0.01 * calm.mean(axis=0)
    assert np.all(np.abs(ours - calm.mean(axis=0)) < 5 * spread)


def test_calm_rows_follow_the_stated_moments():
    made = known(2, autocorrelation=0.6, tails="t4", drift="none", regimes="none")
    law = made.law
    noise = law.noise(np.random.default_rng(1), 40_000) / law.scale
    stated = law.covariance / np.outer(law.scale, law.scale)
    np.testing.assert_allclose(np.diag(stated), 1)
    np.testing.assert_allclose(np.cov(noise.T), stated, atol=0.12)
    lagged = np.mean(noise[1:] * noise[:-1], axis=0) / np.mean(noise**2, axis=0)
    np.testing.assert_allclose(lagged, 0.6, atol=0.03)


@pytest.mark.parametrize("seed", range(4))
def test_drift_is_as_large_as_stated_and_where_it_is_said_to_be(seed):
    ratio = (1.5, 2.0, 3.0, 5.0)[seed]
    made = known(
        seed,
        drift="part",
        regimes="none",
        tails="gauss",
        autocorrelation=0.0,
        train_tail="same",
        drift_ratio=ratio,
    )
    reference = fit_reference(rows_of(made, "train"))
    train = energy_trace(rows_of(made, "train"), reference).mean()
    energy = energy_trace(made.calm(0), reference)
    level = made.law.level
    assert energy[level == 1].mean() == pytest.approx(ratio * train, rel=0.1)
    assert energy[level == 0].mean() == pytest.approx(train, rel=0.1)
    assert 1 < made.law.gain <= 2
    assert np.count_nonzero(made.law.shift) <= 4


def test_an_unknown_regime_occurs_in_test_only():
    def outside(regimes: str) -> float:
        made = known(
            6,
            regimes=regimes,
            scale_decades=1.0,
            drift="none",
            train_tail="same",
            tails="gauss",
            autocorrelation=0.0,
        )
        reference = fit_reference(rows_of(made, "train"))
        energy = energy_trace(made.calm(0), reference)
        return float(np.mean(energy > made.settings["train_p99"]))

    assert outside("known") < 0.02
    assert outside("unknown") > 0.05


@pytest.mark.parametrize("tail", ["bursts", "startup"])
def test_a_loud_train_has_its_p99_far_above_that_of_calm_test(tail):
    made = known(1, train_tail=tail, drift="none", regimes="none")
    reference = fit_reference(rows_of(made, "train"))
    calm = np.quantile(energy_trace(made.calm(0), reference), 0.99)
    assert made.settings["train_p99"] > 2 * calm


@pytest.mark.parametrize("seed", range(5))
def test_coverages_are_what_the_causes_mean(seed):
    """Judge with plain thresholds from fresh calm replicas."""
    made = make_known_stream(
        seed, hard=False, p=30, length=(100, 300), calm_factor=60.0, n_train=5000
    )
    reference = fit_reference(rows_of(made, "train"))
    original = energy_trace(rows_of(made, "test"), reference)
    calm = np.concatenate([made.calm(i) for i in range(2)])
    calm_energy = energy_trace(calm, reference)
    refit = fit_reference(calm)
    refitted = energy_trace(rows_of(made, "test"), refit)
    limit = np.quantile(calm_energy, 0.99)
    refit_limit = np.quantile(energy_trace(calm, refit), 0.99)
    train_p99 = made.settings["train_p99"]
    usual = np.mean(calm_energy > train_p99)
    for segment in made.segments:
        rows = slice(segment.start, segment.stop)
        at_train = np.mean(original[rows] > train_p99) - usual
        at_test = np.mean(original[rows] > limit)
        at_refit = np.mean(refitted[rows] > refit_limit)
        match segment.intended:
            case "detected":
                assert at_train > 0.3
            case "threshold":
                assert at_train < 0.35
                assert at_test > 0.7
            case "drift":
                assert at_test < at_refit
                assert at_refit > 0.7
                assert made.law.level[rows].min() > 0
            case "diluted":
                assert len(segment.channels) <= 3
                assert at_test < 0.8
            case "sequential":
                assert at_test < 0.35
                assert original[rows].mean() > calm_energy.mean()
            case "quiet":
                assert min(at_train, at_test) < 0.05
                assert np.mean(refitted[rows]) < 0.6 * np.mean(
                    energy_trace(calm, refit)
                )


def test_every_cause_and_effect_comes():
    causes, effects = Counter(), Counter()
    for seed in range(12):
        made = known(seed)
        causes.update(s.intended for s in made.segments)
        effects.update(s.effect for s in made.segments)
    assert set(causes) == set(CAUSES)
    assert set(effects) == {"clear", "medium", "bar", "none"}


def test_easy_streams_are_easy():
    for seed in range(3):
        made = make_known_stream(seed, hard=False, **SMALL)
        assert made.settings["tails"] == "gauss"
        assert made.settings["autocorrelation"] == 0
        assert made.settings["regimes"] == "none"
        assert {s.effect for s in made.segments} <= {"clear", "none"}


def test_settings_span_what_was_asked_for():
    drawn = [draw_settings(seed, hard=True, n_segments=12) for seed in range(400)]
    places = [draw_places(seed, settings) for seed, settings in enumerate(drawn)]
    assert min(s["p"] for s in drawn) <= 12
    assert max(s["p"] for s in drawn) >= 140
    assert max(s["autocorrelation"] for s in drawn) > 0.9
    lengths = [stop - start for bounds, _, _ in places for start, stop in bounds]
    assert min(lengths) < 25
    assert max(lengths) > 1800
    assert all(3000 <= s["n_train"] <= 20_000 for s in drawn)
    values = [n * s["p"] for (_, _, n), s in zip(places, drawn, strict=True)]
    assert max(values) < 6.3e6
    assert max(n for _, _, n in places) < 125_000
    assert 0.05 < np.mean([s["calm_factor"] < 20 for s in drawn]) < 0.25
    for name, kinds in (("drift", 4), ("regimes", 3), ("tails", 2), ("train_tail", 3)):
        assert len({s[name] for s in drawn}) == kinds


def test_settings_can_be_pinned_and_must_be_known():
    assert known(0, length=50).settings["length"] == (50, 50)
    with pytest.raises(TypeError, match="no such settings: \\['lenght'\\]"):
        make_known_stream(0, lenght=50)


def test_autoregress_and_ewma_are_the_recursions():
    values = np.random.default_rng(0).normal(size=300)
    state, expected = 0.0, []
    for value in values:
        state = 0.95 * state + value
        expected.append(state)
    np.testing.assert_allclose(autoregress(values, 0.95), expected, rtol=1e-6)
    assert autoregress(values, 0.0).tolist() == values.tolist()
    average, alpha = 0.0, 2 / 31
    for value in values:
        average += alpha * (value - average)
    assert ewma(values, 30)[-1] == pytest.approx(average)


def test_heavy_tails_are_those_of_t_with_4_degrees():
    noise = unit_noise(np.random.default_rng(0), (400_000, 1), "t4")
    # 0.995 quantile of t with 4 degrees is 4.604; its variance is 2.
    assert np.quantile(noise, 0.995) == pytest.approx(4.604 / 2**0.5, rel=0.03)


def test_energies_along_a_direction_are_those_of_the_moved_rows():
    rng = np.random.default_rng(0)
    rows, direction = rng.normal(size=(2, 20, 4))
    reference = Whitened.fit(np.ones(4), np.cov(rng.normal(size=(4, 50))))
    sizes = np.array([0.0, 0.5, 3.0])
    expected = [reference.energy(rows + size * direction) for size in sizes]
    along = reference.energies(rows, direction, sizes)
    np.testing.assert_allclose(along.T, expected)
