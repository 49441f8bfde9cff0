"""Near and far: the regressions of scikit-learn, and what each of both still sees."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from sightline.data.recording import Recording, Tag
from sightline.data.validity import Validity
from sightline.detectors import baselines, load_detector
from sightline.detectors.baselines import (
    FAR_RIDGE,
    LAGS,
    NEAR_RIDGE,
    NearAndFar,
    VectorAutoregression,
    joined_moments,
    moments_between,
)
from sightline.detectors.conformance import check_detector
from sightline.errors import StreamError
from sightline.export import export_stream, without_lost

GAP = 4


def plant(n_steps=1500, seed=0, memory=0.6, **fields):
    """Return four tags in many units that depend on one another, and a constant."""
    rng = np.random.default_rng(seed)
    mixing = np.eye(4) + np.random.default_rng(9).normal(size=(4, 4))
    values = np.zeros((n_steps, 4))
    for t in range(1, n_steps):
        values[t] = memory * values[t - 1] + rng.normal(size=4)
    values = values @ mixing * 10.0 ** np.arange(-1, 3) + 30
    tags = tuple(Tag(name=f"c{k}", stage=str(k // 2)) for k in range(5))
    return Recording(
        values=np.insert(values, 2, 7.0, axis=1), tags=tags, **({"step_s": 60} | fields)
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"gap": 2},
        {"gap": 3, "every": 3, "trim_s": 30},
        {"gap": 1, "validation_share": 0.0},
    ],
)
def test_it_passes_every_check(options):
    check_detector(lambda: NearAndFar(**options))


def test_residuals_are_those_of_scikit_learns_ridge():
    train, test = plant(breaks=[0, 500]), plant(300, seed=3, breaks=[0, 120])
    detector = NearAndFar(gap=GAP).fit(train)
    told, trained = detector.residuals(test), detector.split.trained
    moving = [0, 1, 3, 4]
    mean, spread = (f(train.values[trained], axis=0) for f in (np.mean, np.std))
    spread[2] = 1.0
    learned, seen = ((r.values - mean) / spread for r in (train, test))

    def joined(rows, at, lags):
        return np.hstack([rows[at - lag][:, moving] for lag in lags])

    expected = np.empty((len(told.index), 9))
    expected[:, 2] = seen[told.index, 2]
    lags = range(GAP + 1, GAP + 1 + LAGS)
    model = Ridge(alpha=FAR_RIDGE * len(trained), fit_intercept=False)
    model.fit(joined(learned, trained, lags), learned[trained][:, moving])
    now = seen[told.index][:, moving]
    expected[:, 5:] = now - model.predict(joined(seen, told.index, lags))
    for k, column in enumerate(moving):
        inputs = [
            joined(r, at, range(LAGS + 1))
            for r, at in ((learned, trained), (seen, told.index))
        ]
        inputs = [np.delete(one, k, axis=1) for one in inputs]
        model = Ridge(alpha=NEAR_RIDGE * len(trained), fit_intercept=False)
        model.fit(inputs[0], learned[trained, column])
        expected[:, column] = now[:, k] - model.predict(inputs[1])
    units = spread[[0, 1, 2, 3, 4, *moving]]
    np.testing.assert_allclose(told.values * told.scale, expected * units, atol=1e-7)
    assert told.channels[5:] == ("c0-far", "c1-far", "c3-far", "c4-far")
    assert told.tags == (*test.channels, "c0", "c1", "c3", "c4")
    assert told.index[0] == GAP + LAGS
    assert 120 + GAP + LAGS in told.index
    assert not set(range(120, 120 + GAP + LAGS)) & set(told.index.tolist())


def test_without_ridge_near_is_what_var_makes_of_a_tag_given_the_others(monkeypatch):
    monkeypatch.setattr(baselines, "NEAR_RIDGE", 0.0)
    train, test = plant(4000), plant(400, seed=5)
    near = NearAndFar(gap=1, validation_share=0.0).fit(train)
    var = VectorAutoregression(order=LAGS, ridge=0.0, validation_share=0.0).fit(train)
    fitted, told = (var.residuals(one) for one in (train, test))
    moving = [0, 1, 3, 4]
    precision = np.linalg.inv(np.cov(fitted.values[:, moving], rowvar=False))
    given = told.values[:, moving] @ precision
    ours = near.residuals(test)
    same = np.isin(told.index, ours.index)
    for k, column in enumerate(moving):
        pairs = np.corrcoef(given[same, k], ours.values[:, column])
        assert pairs[0, 1] > 0.9999


@pytest.mark.parametrize(
    ("step_s", "every", "gap"),
    [(1, 1, 60), (10, 1, 60), (36, 1, 17), (20, 2, 15), (3600, 1, 1), (None, 1, 60)],
)
def test_the_gap_is_ten_minutes_within_bounds(step_s, every, gap):
    detector = NearAndFar(every=every).fit(plant(step_s=step_s))
    assert detector.gap == gap
    assert detector.look_back() == gap + LAGS
    words = "the last row." if gap == 1 else f"the last {gap} rows."
    assert detector.residuals(plant(300, step_s=step_s)).notices[-1].endswith(words)


def test_far_still_sees_an_offset_to_which_near_has_got_used():
    train, test = plant(6000, memory=0.98), plant(600, seed=2, memory=0.98)
    detector = NearAndFar(gap=30).fit(train)
    values, usual = np.array(test.values), detector.residuals(train).values.std(axis=0)
    before = detector.residuals(test)
    values[300:400] += 2 * np.ptp(train.values, axis=0)  # of all tags: no contradiction
    change = detector.residuals(replace(test, values=values)).values - before.values
    off = np.abs(change / np.where(usual > 0, usual, 1.0))
    first = int(np.searchsorted(before.index, 300))
    near, far = off[:, [0, 1, 3, 4]].max(axis=1), off[:, 5:].max(axis=1)
    assert near[first] > 10
    assert near[first + 5 : first + 30].max() < near[first] / 5
    assert (far[first : first + 30] > 3).all()
    assert (far[first + 100 : first + 130] > 3).all()  # it expects that it goes on
    assert far[:first].max() == 0.0


def test_both_residuals_of_a_lost_tag_are_lost_and_both_belong_to_its_stage():
    train, test = plant(), plant(400, seed=1)
    detector = NearAndFar(gap=GAP).fit(train)
    codes = np.full(test.values.shape, Validity.GOOD, np.int8)
    codes[200:210, 1] = Validity.MISSING
    marked = replace(test, validity=codes)
    told = detector.residuals(marked)
    rows = without_lost(told, marked, detector, "export")
    lost = np.isnan(rows)
    assert np.flatnonzero(lost.any(axis=0)).tolist() == [1, 6]
    at = told.index[np.flatnonzero(lost[:, 6])]
    assert (at[0], at[-1]) == (200, 209 + GAP + LAGS)
    groups = export_stream(detector, train, test).meta["groups"]
    assert groups["0"] == ["c0", "c0-far", "c1", "c1-far"]


def test_it_is_the_same_after_saving(tmp_path):
    detector, test = NearAndFar(every=2).fit(plant()), plant(300, seed=1)
    detector.save(tmp_path / "pair.npz")
    again = load_detector(tmp_path / "pair.npz")
    assert again.gap == detector.gap == 5
    assert (
        again.residuals(test).values.tobytes()
        == detector.residuals(test).values.tobytes()
    )
    with pytest.raises(StreamError, match="`gap` must be a whole number, 1 or more"):
        NearAndFar(gap=0)


def test_moments_by_distance_are_those_of_joined_rows():
    rng = np.random.default_rng(3)
    values = rng.normal(size=(3000, 4)).cumsum(axis=0) % 5
    rows = np.concatenate(
        [np.arange(70, 900), np.arange(1000, 1003), np.arange(1200, 3000)]
    )
    now, past = (0, 1, 2, 3), (61, 62, 63)
    joined = joined_moments(values, rows, (*now, *past))
    near = moments_between(values, rows, now, now)
    far = moments_between(values, rows, past, (*past, 0))
    np.testing.assert_allclose(near, joined[:16, :16], atol=1e-12)
    np.testing.assert_allclose(far[:, :12], joined[16:, 16:], atol=1e-12)
    np.testing.assert_allclose(far[:, 12:], joined[16:, :4], atol=1e-12)
