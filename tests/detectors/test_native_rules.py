"""The detectors' own scores and rules: against published codes, by hand, by force."""

from dataclasses import replace

import numpy as np
import pytest
from golden_files import Golden
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import genpareto, rankdata

from sightline.detectors import DETECTORS, tranad
from sightline.detectors.fusagnet import (
    FusagnetErrors,
    channel_scores,
    fusagnet_alarms,
    fusagnet_scores,
    fused_scores,
)
from sightline.detectors.gdn import gdn_alarms, gdn_scores
from sightline.detectors.native_rules import (
    NativeRule,
    best_rank_threshold,
    centre_and_spread,
    held_out_threshold,
    judged_at,
    normalised_errors,
    rule_named,
    smoothed,
)
from sightline.detectors.nsibf import (
    best_adjusted_threshold,
    nsibf_alarms,
)
from sightline.detectors.tranad import (
    Pareto,
    dynamic_thresholds,
    fit_pareto,
    official_pareto,
    official_static,
    peaks_over_threshold,
    scale_of_shape,
    tail_quantile,
    tranad_alarms,
    tranad_scores,
)
from sightline.errors import StreamError

# Rounding; and what a search may end at where another machine rounds otherwise (here
# it ends at the very numbers).
EXACT, SEARCHED = 1e-12, 1e-7
RULES = {name: kind.rules for name, kind in DETECTORS.items() if kind.rules}
LABEL_RULE = "best-f1-on-test-labels"


def rng(seed=0):
    return np.random.default_rng(seed)


# -------------------------------------------------------------- published numbers


def assert_judged(golden, key, judged):
    """F1, precision, recall and threshold are the published ones; AUC is left out."""
    np.testing.assert_allclose(judged, golden[key][[0, 1, 2, 4]], rtol=0, atol=EXACT)


def test_gdn_as_published():
    golden = Golden("gdn_scoring")
    test = golden["test_true"] - golden["test_pred"]
    held_out = golden["val_true"] - golden["val_pred"]
    labels = golden["labels"]
    scored = gdn_scores(test)
    golden.check("test_scores", scored.T, EXACT)
    golden.check("val_scores", gdn_scores(held_out).T, EXACT)
    score = scored.max(axis=1)
    golden.check("top1", score, EXACT)
    best = best_rank_threshold(score, labels)
    assert_judged(golden, "best_f1_prec_rec_auc_thr", best)
    threshold = held_out_threshold(gdn_scores(held_out))
    at = judged_at(score, labels, threshold)
    assert_judged(golden, "val_f1_prec_rec_auc_thr", at)
    assert golden.compared | golden.given == set(golden.arrays)
    # The entry does the same.
    by_labels = gdn_alarms(held_out, test, LABEL_RULE, labels)
    assert by_labels.threshold == best.threshold
    assert (by_labels.score == score).all()
    by_test = gdn_alarms(held_out, test, "by-test-statistics")
    assert by_test.threshold == threshold
    assert by_test.alarms.sum() == (score > threshold).sum()


def test_fusagnet_as_published():
    golden = Golden("fusagnet_scoring")
    test = FusagnetErrors(
        golden["test_true"] - golden["test_pred"],
        golden["test_window"] - golden["test_recon"],
    )
    forecast = channel_scores(test.forecast)
    reconstruction = channel_scores(test.windows)
    golden.check("forecast_scores", forecast.T, EXACT)
    golden.check("recon_scores", reconstruction.T, EXACT)
    golden.check("whm_scores", fusagnet_scores(test).T, EXACT)
    golden.check(
        "whm_scores_alpha03", fused_scores(forecast, reconstruction, 0.3).T, EXACT
    )
    score = fusagnet_scores(test).max(axis=1)
    golden.check("top1", score, EXACT)
    best = best_rank_threshold(score, golden["labels"])
    assert_judged(golden, "best_f1_prec_rec_auc_thr", best)
    # Held-out forecasts are computed by the published code, and then ignored.
    assert golden["val_pred"].shape == golden["val_true"].shape
    assert golden.compared | golden.given == set(golden.arrays)
    held_out = FusagnetErrors(test.forecast[:50], test.windows[:50])
    found = fusagnet_alarms(held_out, test, LABEL_RULE, golden["labels"])
    assert found.threshold == best.threshold
    assert (found.alarms == (score > best.threshold)).all()


def test_sign_of_the_reconstruction_matters():
    golden = Golden("fusagnet_scoring")
    wrong = channel_scores(golden["test_recon"] - golden["test_window"])
    assert abs(wrong.T - golden["recon_scores"]).max() > 0.1


def test_peaks_over_threshold_as_published():
    golden = Golden("tranad_pot")
    cases = {key.rsplit("/", 1)[0] for key in golden.arrays if key.count("/") == 2}
    assert len(cases) == 8
    for case in sorted(cases):
        name, level = case.split("/")
        known, stream = golden[f"{name}/init"], golden[f"{name}/stream"]
        tail = {"level": float(level), "risk": 1e-5}
        ours = peaks_over_threshold(known, **tail)
        golden.check(f"{case}/t", ours.start)
        golden.check(f"{case}/Nt", ours.n_peaks)
        # SciPy's own search ends within its tolerance of these.
        unit = max(ours.start, 1.0)
        golden.check(f"{case}/gamma_mle", ours.shape, 1e-6)
        golden.check(f"{case}/sigma_mle", ours.scale, 1e-6 * unit)
        golden.check(f"{case}/z_mle", ours.threshold, 1e-5 * unit)
        theirs = peaks_over_threshold(known, **tail, fit="official")
        golden.check(f"{case}/gamma_repo", theirs.shape, SEARCHED)
        golden.check(f"{case}/sigma_repo", theirs.scale, SEARCHED)
        golden.check(f"{case}/z_repo", theirs.threshold, SEARCHED)
        static, found = official_static(known, stream, **tail)
        assert found == theirs
        golden.check(f"{case}/static_threshold_repo", static, SEARCHED)
        moving = dynamic_thresholds(known, stream, **tail, fit="official")
        golden.check(f"{case}/dynamic_thresholds_repo", moving.thresholds, SEARCHED)
        alarms = np.flatnonzero(moving.alarms)
        golden.check(f"{case}/dynamic_alarms_repo", alarms)
        entry = tranad_alarms(
            known, stream, "official-static-by-test-statistics", level=float(level)
        )
        assert entry.threshold == static
    assert golden.compared | golden.given == set(golden.arrays)


def test_nsibf_as_published():
    golden = Golden("nsibf_train")
    score, labels = golden["bf/score"], golden["bf/label"]
    *figures, threshold = best_adjusted_threshold(score, labels)
    result = golden["bf/result"]
    np.testing.assert_allclose(figures, result[:3], rtol=0, atol=EXACT)
    golden.check("bf/threshold", threshold, EXACT)
    mine = {key for key in golden.arrays if key.startswith("bf/")}
    assert golden.compared | golden.given == mine
    entry = nsibf_alarms(score, LABEL_RULE, labels)
    assert entry.threshold == threshold
    # The alarms themselves are not adjusted; adjusted, they give the counts.
    assert (entry.alarms == (score > threshold)).all()
    adjusted = slow_adjusted(entry.alarms, labels)
    assert (adjusted & (labels == 1)).sum() == result[3]
    assert (adjusted & (labels == 0)).sum() == result[5]


# ------------------------------------------------------------------- scores by hand


def test_centre_and_spread_by_hand():
    errors = np.array([[4.0, 1.0], [0.0, 1.0], [3.0, 1.0], [1.0, 1.0]])
    centre, spread = centre_and_spread(errors)
    # Sorted 0 1 3 4: the quartiles lie at 0.75, 1.5 and 2.25 steps.
    assert centre.tolist() == [2.0, 1.0]
    assert spread.tolist() == [3.25 - 0.75, 0.0]
    in_windows = centre_and_spread(errors.reshape(2, 2, 2).transpose(0, 2, 1))
    assert in_windows[0].tolist() == centre.tolist()
    assert in_windows[1].tolist() == spread.tolist()


def test_normalised_errors_by_hand():
    found = normalised_errors([[3.0, 1.0]], [1.0, 1.0], [-1.99, 0.0])
    assert found == pytest.approx(np.array([[1.0, 0.0]]))


def test_gdn_scores_by_hand():
    errors = np.array([[0.0], [-4.0], [3.0], [1.0], [0.0]])
    held_out = np.array([[0.0], [1.0], [-2.0], [3.0], [4.0]])
    # Of the held-out sizes: median 2, IQR 2.
    scored = gdn_scores(errors, held_out)
    expected = np.array([0, 0, 0, (-2 + 2 + 1 - 1) / 4, (2 + 1 - 1 - 2) / 4]) / 2.01
    assert scored[:, 0] == pytest.approx(expected)
    assert gdn_scores(held_out)[:, 0] == pytest.approx(
        np.array([0, 0, 0, -0.5, 0.5]) / 2.01
    )
    found = gdn_alarms(held_out, errors)
    assert found.threshold == pytest.approx(0.5 / 2.01)
    assert not found.alarms.any()


def test_smoothing_of_short_blocks_is_zero():
    for n in range(4):
        assert (smoothed(np.ones((n, 2))) == 0).all()
        assert smoothed(np.ones((n, 2))).shape == (n, 2)
    with pytest.raises(StreamError, match="held-out block has 3 rows"):
        gdn_alarms(np.eye(3), np.eye(3))


def test_fused_score_by_hand():
    assert fused_scores(np.array([2.0]), np.array([1.0]), 0.25) == pytest.approx(
        [2 / (0.25 * 1 + 0.75 * 2 + 0.01)]
    )


def test_window_far_too_high_does_not_show_and_far_too_low_does():
    rest = rng(1).normal(0, 0.1, (40, 1, 3))
    for sign, shows in ((1, False), (-1, True)):
        windows = rest.copy()
        windows[20, 0, 1] = sign * 5.0
        # Observed far below expected is the large positive error of the paper.
        at = channel_scores(windows)[20, 0]
        assert (at > 5) == shows


def test_tranad_score_by_hand():
    assert tranad_scores(np.float32([[1, -3], [0, 2]])).tolist() == [5.0, 2.0]


errors_of = arrays(
    np.float64, (12, 3), elements=st.floats(-8, 8, allow_subnormal=False, width=32)
)


@given(errors_of, errors_of, st.permutations(range(3)))
@settings(max_examples=30, deadline=None)
def test_order_of_channels_means_nothing(test, held_out, order):
    for by in (None, held_out):
        scored = gdn_scores(test, by)
        other = gdn_scores(test[:, order], None if by is None else by[:, order])
        assert (other == scored[:, order]).all()
    windows = np.stack([test, held_out], axis=2)
    straight = fusagnet_scores(FusagnetErrors(test, windows))
    turned = fusagnet_scores(FusagnetErrors(test[:, order], windows[:, order]))
    assert (turned == straight[:, order]).all()


@given(errors_of, errors_of)
@settings(max_examples=30, deadline=None)
def test_sign_of_forecast_errors_means_nothing(test, held_out):
    assert (gdn_scores(-test, held_out) == gdn_scores(test, -held_out)).all()
    np.testing.assert_allclose(
        channel_scores(-test), channel_scores(test), rtol=0, atol=1e-12 * 800
    )


@given(errors_of, errors_of)
@settings(max_examples=20, deadline=None)
def test_by_held_out_statistics_no_row_depends_on_later_ones(test, held_out):
    whole = gdn_alarms(held_out, test)
    part = gdn_alarms(held_out, test[:7])
    assert (whole.score[:7] == part.score).all()
    assert whole.threshold == part.threshold


# ------------------------------------------------------------- searches by labels


def test_rank_search_by_hand():
    # Ranks 1 3 2 4; all but the first alarm: 2 hits, 1 false, F1 4/5.
    found = best_rank_threshold([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
    # The row at the threshold itself is lost to precision and recall.
    assert found == (0.8, 0.5, 0.5, 0.35)


def slow_rank_search(scores, labels):
    ranks = rankdata(scores, method="ordinal")
    best = (-1.0, None)
    for i in range(400):
        alarms = ranks > i / 400 * len(scores)
        hits = (alarms & (labels == 1)).sum()
        f1 = 2 * hits / (alarms.sum() + labels.sum())
        if f1 > best[0]:
            at = int(i / 400 * len(scores) + 1)
            best = (f1, scores[np.flatnonzero(ranks == at)[0]])
    return best


labelled = st.integers(1, 60).flatmap(
    lambda n: st.tuples(
        arrays(np.float64, n, elements=st.integers(0, 12).map(lambda k: k / 4)),
        arrays(np.int8, n, elements=st.integers(0, 1)),
    )
)


@given(labelled)
@settings(max_examples=60, deadline=None)
def test_rank_search_by_force(case):
    scores, labels = case
    labels[-1] = 1
    found = best_rank_threshold(scores, labels)
    f1, threshold = slow_rank_search(scores, labels)
    assert found.f1 == pytest.approx(f1, abs=1e-15)
    assert found.threshold == threshold
    alarms = scores > threshold
    hits = (alarms & (labels == 1)).sum()
    assert found.precision == (hits / alarms.sum() if alarms.any() else 0)
    assert found.recall == hits / labels.sum()


@given(labelled)
@settings(max_examples=40, deadline=None)
def test_rank_search_knows_no_unit(case):
    scores, labels = case
    labels[0] = 1
    found = best_rank_threshold(scores, labels)
    for scaled in (lambda s: 1024 * s + 3, np.exp):
        other = best_rank_threshold(scaled(scores), labels)
        np.testing.assert_array_equal(other[:3], found[:3])
        assert other.threshold == scaled(found.threshold)


def test_rank_search_over_a_long_test():
    scores = rng(3).random(4013).round(3)
    labels = (rng(4).random(4013) < scores / 2).astype(np.int8)
    found = best_rank_threshold(scores, labels)
    assert (found.f1, found.threshold) == slow_rank_search(scores, labels)


def slow_adjusted(alarms, labels):
    """Alarms with every attack filled that has one; row 0 is never filled."""
    alarms, inside = list(alarms), False
    for i in range(len(alarms)):
        if labels[i] == 1 and alarms[i] and not inside:
            inside, j = True, i
            while j > 0 and labels[j] == 1:
                alarms[j] = True
                j -= 1
        elif labels[i] != 1:
            inside = False
        if inside:
            alarms[i] = True
    return np.array(alarms, bool)


def test_adjusted_search_by_hand():
    #          start at 0    |  hit at once | never hit | third row
    labels = [1, 1, 1, 1, 0, 1, 1, 0, 1, 0, 1, 1, 1]
    scores = [0, 0, 0, 5, 0, 5, 0, 0, 0, 0, 0, 0, 5]
    found = best_adjusted_threshold(scores, labels)
    # All but row 0 and the attack that was never hit.
    assert found.precision == pytest.approx(8 / 8.00001, abs=1e-12)
    assert found.recall == pytest.approx(8 / 10.00001, abs=1e-12)


@given(labelled)
@settings(max_examples=40, deadline=None)
def test_adjusted_search_by_force(case):
    scores, labels = case
    labels[-1] = 1
    found = best_adjusted_threshold(scores, labels, n_thresholds=50)
    best = None
    for k in range(1, 51):
        threshold = k / 50 * np.percentile(scores, 99.9)
        filled = slow_adjusted(scores > threshold, labels)
        hits = int((filled & (labels == 1)).sum())
        false = int((filled & (labels == 0)).sum())
        p = hits / (hits + false + 1e-5)
        r = hits / (labels.sum() + 1e-5)
        f1 = 2 * p * r / (p + r + 1e-5)
        if best is None or f1 > best[0]:
            best = (f1, p, r, threshold)
    assert found.threshold == best[3]
    assert found[:3] == pytest.approx(best[:3], abs=1e-15)


def test_nan_is_no_alarm_and_is_counted():
    labels = np.array([0, 1, 1, 0, 1, 0] * 5)
    scores = np.where(labels == 1, 3.0, 1.0)
    scores[[1, 3, 4]] = np.nan
    for rule in (None, LABEL_RULE):
        found = nsibf_alarms(scores, rule, labels)
        assert np.isnan(found.score[[1, 3, 4]]).all()
        assert found.notices[0] == "3 of 30 scores are nan and raise no alarm."
    assert not found.alarms[[1, 3, 4]].any()
    assert 1 <= found.threshold < 3
    # The attack at row 1 is filled from row 2; that at row 4 was never seen.
    best = best_adjusted_threshold(scores, labels)
    n_attack = labels.sum()
    assert best.recall == pytest.approx((n_attack - 1) / (n_attack + 1e-5), abs=1e-12)
    # A normal row without a score is counted as one without an alarm.
    assert best.precision == pytest.approx(1, abs=1e-5)
    with pytest.raises(StreamError, match="no finite row"):
        best_adjusted_threshold(np.full(3, np.nan), [0, 1, 0])


def test_ignored_rows_are_neither_right_nor_wrong():
    scores, labels = rng(5).random(200), (rng(6).random(200) < 0.2).astype(int)
    labels[[3, 50, 51, 199]] = -1
    loud = np.where(labels == -1, 9.0, scores)
    kept = labels != -1
    expected = best_rank_threshold(scores[kept], labels[kept])
    assert best_rank_threshold(loud, labels) == expected
    found = best_adjusted_threshold(loud, labels)
    alarms = slow_adjusted(loud > found.threshold, labels)
    hits, false = (alarms & (labels == 1)).sum(), (alarms & (labels == 0)).sum()
    assert found.precision == pytest.approx(hits / (hits + false + 1e-5), abs=1e-12)


def test_labels_are_checked():
    for search in (best_rank_threshold, best_adjusted_threshold):
        with pytest.raises(StreamError, match="marks no attack"):
            search([1.0, 2.0], [0, 0])
        with pytest.raises(StreamError, match="one label for each score"):
            search([1.0, 2.0], [0, 1, 0])
        with pytest.raises(StreamError, match="shape"):
            search([[1.0, 2.0]], [0, 1])
    with pytest.raises(StreamError, match="finite"):
        best_rank_threshold([1.0, np.nan], [0, 1])


# ------------------------------------------------------------ peaks over threshold


def heavy(n, shape, seed):
    return genpareto.rvs(shape, scale=0.3, size=n, random_state=seed)


def test_tail_by_hand():
    scores = np.arange(100.0)
    found = peaks_over_threshold(scores[::-1], level=0.9, risk=0.05)
    # The 91st of 100, and nine above it: too few for a shape, so an exponential law.
    assert (found.start, found.n_peaks, found.shape, found.scale) == (90, 9, 0, 5)
    assert found.threshold == pytest.approx(90 - 5 * np.log(0.05 * 100 / 9))
    assert "Only 9 scores" in found.notices[0]
    assert tail_quantile(0, Pareto(-0.5, 1.0), 0.25) == pytest.approx(1.0)
    near = tail_quantile(0, Pareto(1e-9, 1.0), 0.01)
    assert near == pytest.approx(tail_quantile(0, Pareto(0.0, 1.0), 0.01), rel=1e-7)


@given(st.floats(-0.3, 0.6), st.integers(0, 10**6), st.sampled_from([0.9, 0.98]))
@settings(max_examples=15, deadline=None)
def test_fit_is_scipys(shape, seed, level):
    scores = heavy(3000, shape, seed)
    found = peaks_over_threshold(scores, level=level, risk=1e-3)
    start = np.sort(scores)[int(level * 3000)]
    peaks = scores[scores > start] - start
    mean = peaks.mean()
    theirs, _, scale = genpareto.fit(peaks / mean, floc=0)
    assert found.start == start
    if not found.notices:
        assert (found.shape, found.scale) == (theirs, scale * mean)
        expected = genpareto.isf(1e-3 * 3000 / len(peaks), theirs, start, scale * mean)
        assert found.threshold == pytest.approx(expected, rel=1e-9)


@given(st.floats(-0.3, 0.6), st.integers(0, 10**6))
@settings(max_examples=10, deadline=None)
def test_threshold_follows_unit_and_risk(shape, seed):
    scores = heavy(2000, shape, seed)
    risks = (1e-2, 1e-3, 1e-4)
    found = [peaks_over_threshold(scores, risk=risk).threshold for risk in risks]
    assert found == sorted(found)
    for unit in (2.0**20, 2.0**-20):
        other = peaks_over_threshold(unit * scores, risk=1e-3)
        assert other.threshold == pytest.approx(unit * found[1], rel=1e-12)


def test_true_tail_is_found():
    scores = heavy(200_000, 0.2, 1)
    found = peaks_over_threshold(scores)
    assert found.shape == pytest.approx(0.2, abs=0.05)
    assert found.threshold == pytest.approx(
        genpareto.isf(1e-4, 0.2, scale=0.3), rel=0.1
    )
    fresh = heavy(200_000, 0.2, 2)
    assert 5 <= (fresh > found.threshold).sum() <= 45


def likelihood(peaks, law):
    return genpareto.logpdf(peaks, law.shape, scale=law.scale).sum()


@pytest.mark.parametrize("shape", [-0.4, -0.1, 0.3, 0.8])
def test_fit_from_the_previous_one_is_as_likely(shape):
    peaks = heavy(1500, shape, 7)
    before = fit_pareto(peaks[:-1])
    after = fit_pareto(peaks, before)
    afresh = fit_pareto(peaks)
    assert after.shape == pytest.approx(afresh.shape, abs=1e-3)
    assert after != afresh  # it did not go the slow way
    assert likelihood(peaks, after) >= likelihood(peaks, afresh) - 1e-9


@pytest.mark.parametrize(("shape", "seed"), [(0.3, 8), (-0.3, 9), (0.01, 10)])
def test_fit_from_a_far_one_is_not_led_astray(shape, seed):
    peaks = heavy(400, shape, seed)
    afresh = fit_pareto(peaks)
    # From shapes of either sign whose ratio to the scale is tiny to huge.
    for ratio in (*np.geomspace(1e-9, 1e6, 16), *-np.geomspace(1e-9, 3, 14)):
        found = fit_pareto(peaks, Pareto(np.sign(ratio), abs(1 / ratio)))
        assert found.shape == pytest.approx(afresh.shape, abs=1e-3), ratio
        assert likelihood(peaks, found) >= likelihood(peaks, afresh) - 1e-6


@pytest.mark.parametrize("shape", [-0.5, -0.2, 0.4, 1.0])
def test_scale_of_a_given_shape_is_most_likely(shape):
    peaks = heavy(300, 0.1, 9)
    scale = scale_of_shape(peaks, shape)
    best = likelihood(peaks, Pareto(shape, scale))
    for factor in (0.9, 0.999, 1.001, 1.1):
        assert likelihood(peaks, Pareto(shape, factor * scale)) < best


def test_unlikely_shapes_are_set_back():
    even = np.linspace(0.01, 1, 200)
    assert fit_pareto(even).shape == -0.5
    wild = heavy(400, 3.0, 10)
    found = fit_pareto(wild)
    assert found.shape == 1.0
    assert "set to 1" in found.notices[0]
    assert found.scale == scale_of_shape(wild, 1.0)


def test_too_few_peaks_are_exponential():
    peaks = heavy(40, 0.2, 11)
    assert fit_pareto(peaks[:20]).shape != 0
    few = fit_pareto(peaks[:19])
    assert (few.shape, few.scale) == (0, peaks[:19].mean())
    assert "Only 19 scores" in few.notices[0]
    tied = np.resize(peaks[:10], 40)
    assert "only 10 distinct" in fit_pareto(tied).notices[0]
    assert fit_pareto(np.resize(peaks[:11], 44)).notices == ()


def test_tails_that_tell_nothing_are_refused():
    with pytest.raises(StreamError, match="All calibration scores are 2"):
        peaks_over_threshold(np.full(100, 2.0))
    with pytest.raises(StreamError, match="lower the risk or the level"):
        peaks_over_threshold(np.arange(1000.0), risk=0.019)
    # Ties at the top leave no peak at all.
    with pytest.raises(StreamError, match="only 0 lie in the tail"):
        peaks_over_threshold(np.minimum(np.arange(100.0), 50))
    for wrong in ({"level": 1.0}, {"risk": 0.0}):
        with pytest.raises(StreamError, match="between 0 and 1"):
            peaks_over_threshold(np.arange(100.0), **wrong)
    with pytest.raises(StreamError, match="must be finite"):
        peaks_over_threshold([1.0, np.nan])
    with pytest.raises(StreamError, match="at least one row"):
        peaks_over_threshold([])
    with pytest.raises(StreamError, match="`fit` must be one of"):
        peaks_over_threshold(np.arange(100.0), fit="best")
    with pytest.raises(StreamError, match="`stream` must have"):
        official_static(np.arange(1000.0), [])


def test_official_fit_survives_equal_and_huge_peaks():
    for peaks in (np.full(30, 0.5), np.arange(1.0, 40) * 1e9):
        found = official_pareto(peaks)
        assert np.isfinite(found[:2]).all()
        assert found.scale > 0


def test_official_static_by_hand():
    scores = heavy(2000, 0.1, 12)
    found = peaks_over_threshold(scores, level=0.993, risk=1e-5, fit="official")
    quiet = np.full(10, found.start)
    assert official_static(scores, quiet)[0] == pytest.approx(found.threshold)
    stream = quiet.copy()
    stream[4:] += 1
    expected = (4 * found.threshold + 6 * found.start) / 10
    assert official_static(scores, stream)[0] == pytest.approx(expected)
    assert official_static(scores, stream, multiplier=1.5)[0] == pytest.approx(
        1.5 * expected
    )


def slow_stream(scores, stream, level, risk):
    start = np.sort(scores)[int(level * len(scores))]
    peaks, n = list(scores[scores > start] - start), len(scores)
    law = fit_pareto(np.array(peaks))
    threshold = tail_quantile(start, law, risk * n / len(peaks))
    thresholds, alarms = [], []
    for s in stream:
        alarms.append(s > threshold)
        if not alarms[-1]:
            n += 1
            if s > start:
                peaks.append(s - start)
                law = fit_pareto(np.array(peaks))
                threshold = tail_quantile(start, law, risk * n / len(peaks))
        thresholds.append(threshold)
    return np.array(thresholds), np.array(alarms)


def test_stream_by_force():
    scores, stream = heavy(1500, 0.15, 13), heavy(400, 0.15, 14)
    stream[100:105] = 50.0
    tail = {"level": 0.95, "risk": 1e-3}
    thresholds, alarms = slow_stream(scores, stream, **tail)
    found = dynamic_thresholds(scores, stream, **tail)
    # SciPy's search ends within 1e-4 of the maximum, ours nearer.
    np.testing.assert_allclose(found.thresholds, thresholds, rtol=1e-3)
    assert (found.alarms == alarms).all()
    assert alarms.sum() >= 5


def test_stream_is_judged_by_what_came_before():
    scores, stream = heavy(1500, 0.15, 15), heavy(600, 0.3, 16)
    whole = dynamic_thresholds(scores, stream)
    for n in (1, 250, 599):
        part = dynamic_thresholds(scores, stream[:n])
        assert (part.thresholds == whole.thresholds[:n]).all()
        assert (part.alarms == whole.alarms[:n]).all()
    entry = tranad_alarms(scores, stream, "pot-dynamic")
    assert entry.threshold[0] == whole.first.threshold
    assert (entry.threshold[1:] == whole.thresholds[:-1]).all()
    assert (entry.alarms == (entry.score > entry.threshold)).all()


def test_seldom_fits_change_little(monkeypatch):
    scores, stream = heavy(60_000, 0.1, 17), heavy(4000, 0.1, 18)
    seldom = dynamic_thresholds(scores, stream)
    monkeypatch.setattr(tranad, "REFIT_AFTER", 0.0)
    always = dynamic_thresholds(scores, stream)
    np.testing.assert_allclose(seldom.thresholds, always.thresholds, rtol=5e-3)
    assert len(np.unique(seldom.thresholds)) < len(np.unique(always.thresholds))


def test_guarded_fits_along_a_stream_are_told():
    found = dynamic_thresholds(np.arange(200.0), np.full(5, 197.5), level=0.95)
    assert "Only 9 scores" in found.notices[0]
    assert found.notices[-1].startswith("5 of 5 fits along the stream")


# -------------------------------------------------------------------------- rules


def example(detector):
    """All that an entry takes but the rule and the labels, and the labels."""
    draw = rng(20)
    labels = np.zeros(400, np.int8)
    labels[100:150] = labels[300:320] = 1
    held_out, test = draw.normal(size=(300, 4)), draw.normal(size=(400, 4))
    test[labels == 1] *= 3
    windows = draw.normal(size=(700, 4, 3))
    scores = np.square(draw.normal(size=3000))
    return {
        "gdn": (gdn_alarms, (held_out, test)),
        "fusagnet": (
            fusagnet_alarms,
            (
                FusagnetErrors(held_out, windows[:300]),
                FusagnetErrors(test, windows[300:]),
            ),
        ),
        "tranad": (tranad_alarms, (scores, np.square(test).mean(axis=1))),
        "nsibf": (nsibf_alarms, (np.square(test).mean(axis=1),)),
    }[detector], labels


def first_rows(test, n):
    if isinstance(test, FusagnetErrors):
        return FusagnetErrors(test.forecast[:n], test.windows[:n])
    return test[:n]


ENTRIES = [
    (detector, rule)
    for detector in RULES
    if detector not in ("geco", "kalman")
    for rule in RULES[detector]
]


@pytest.mark.parametrize(
    ("detector", "rule"), ENTRIES, ids=lambda x: getattr(x, "name", x)
)
def test_labels_mean_something_only_to_rules_that_say_so(detector, rule):
    (entry, given_), labels = example(detector)
    if "test labels" in rule.looks_at:
        with pytest.raises(StreamError, match="needs the labels of the test"):
            entry(*given_, rule.name)
        found = entry(*given_, rule.name, labels)
        other = entry(*given_, rule.name, np.roll(labels, 60))
        assert found.threshold != other.threshold
        assert any("labels of the test" in notice for notice in found.notices)
    else:
        found = entry(*given_, rule.name)
        for whatever in (labels, 1 - labels, "no labels at all"):
            other = entry(*given_, rule.name, whatever)
            assert (other.score == found.score).all()
            assert (other.alarms == found.alarms).all()
            assert np.array_equal(other.threshold, found.threshold)
            assert other.notices == found.notices
    assert found.rule is rule
    assert found.alarms.dtype == bool
    assert found.score.shape == found.alarms.shape == (400,)
    assert (found.alarms == (found.score > found.threshold)).all()
    assert found.alarms[labels == 1].mean() > found.alarms[labels == 0].mean()


@pytest.mark.parametrize(
    ("detector", "rule"), ENTRIES, ids=lambda x: getattr(x, "name", x)
)
def test_test_statistics_mean_something_only_to_rules_that_say_so(detector, rule):
    (entry, given_), labels = example(detector)
    *known, test = given_
    whole = entry(*known, test, rule.name, labels)
    part = entry(*known, first_rows(test, 200), rule.name, labels[:200])
    same = np.array_equal(
        np.broadcast_to(whole.threshold, 400)[:200],
        np.broadcast_to(part.threshold, 200),
    ) and np.array_equal(whole.score[:200], part.score)
    assert same == (not rule.looks_at)


def test_defaults_look_at_nothing():
    defaults = {
        name: next((rule for rule in rules if not rule.looks_at), None)
        for name, rules in RULES.items()
    }
    assert {name: rule and rule.name for name, rule in defaults.items()} == {
        "gdn": "held-out",
        "fusagnet": "held-out",
        "tranad": "pot",
        "nsibf": None,
        "geco": "cusum",
        "kalman": "kl",
    }
    for detector in ("gdn", "fusagnet", "tranad", "nsibf"):
        (entry, given_), labels = example(detector)
        assert entry(*given_).rule == defaults[detector]
        assert entry(*given_, labels=labels).rule == defaults[detector]
    (entry, given_), _ = example("nsibf")
    alone = entry(*given_)
    assert (alone.alarms, alone.threshold, alone.notices) == (None, None, ())


def test_table_of_rules():
    names = {name: [rule.name for rule in rules] for name, rules in RULES.items()}
    assert names == {
        "gdn": ["held-out", "by-test-statistics", LABEL_RULE],
        "fusagnet": ["held-out", LABEL_RULE],
        "tranad": ["pot", "pot-dynamic", "official-static-by-test-statistics"],
        "nsibf": [LABEL_RULE],
        "geco": ["cusum"],
        "kalman": ["kl"],
    }
    for rules in RULES.values():
        for rule in rules:
            assert replace(rule) == rule  # the name is checked
            assert rule.what.endswith(".")
    assert "Our own" in rule_named(RULES["fusagnet"], "held-out", "FuSAGNet").what


def test_a_name_must_say_what_is_looked_at():
    for name, looks_at in (
        ("best", ("test labels",)),
        ("by-test-statistics", ("test statistics", "test labels")),
        ("held-out", ("test statistics",)),
    ):
        with pytest.raises(StreamError, match="in its name"):
            NativeRule(name, "Something.", looks_at)
    with pytest.raises(StreamError, match="'the weather'"):
        NativeRule("by-weather", "Something.", ("the weather",))


def test_unknown_rules_are_refused():
    with pytest.raises(StreamError, match="choose one of pot, pot-dynamic"):
        tranad_alarms([1.0, 2.0], [1.0], "best")
    with pytest.raises(StreamError, match=r"usad has no alarm rule .*'pot'"):
        rule_named((), "pot", "usad")
    with pytest.raises(StreamError, match="`multiplier` means nothing"):
        tranad_alarms([1.0, 2.0], [1.0], multiplier=2.0)


def test_errors_are_checked():
    good = np.ones((5, 2))
    bad = good.copy()
    bad[3, 1] = np.inf
    with pytest.raises(StreamError, match=r"row 3 is not \(1 such rows\)"):
        gdn_scores(bad)
    with pytest.raises(StreamError, match="2 channels where 3 are scored"):
        gdn_scores(np.ones((5, 3)), good)
    with pytest.raises(StreamError, match="at least one row"):
        gdn_scores(np.ones((0, 3)))
    with pytest.raises(StreamError, match="`windows` must have shape"):
        FusagnetErrors(good, np.ones((5, 3, 2)))
    with pytest.raises(StreamError, match="`windows` must be finite"):
        FusagnetErrors(good, np.stack([good, bad], axis=2))
    three = FusagnetErrors(np.ones((5, 3)), np.ones((5, 3, 4)))
    two = FusagnetErrors(good, np.ones((5, 2, 4)))
    with pytest.raises(StreamError, match="2 channels where 3 are scored"):
        fusagnet_scores(three, two)
    with pytest.raises(StreamError, match="`alpha` must be from 0 to 1"):
        fusagnet_scores(two, alpha=1.5)
    # Large and finite is fine, even where the sum is not.
    assert np.isfinite(gdn_scores(np.full((5, 2), 1e308))).all()


def test_given_arrays_are_left_alone():
    for detector in ("gdn", "fusagnet", "tranad", "nsibf"):
        (entry, given_), labels = example(detector)
        (_, fresh), _ = example(detector)
        for rule in RULES[detector]:
            entry(*given_, rule.name, labels)
        for ours, theirs in zip(given_, fresh, strict=True):
            if isinstance(ours, FusagnetErrors):
                assert (ours.forecast == theirs.forecast).all()
                assert (ours.windows == theirs.windows).all()
            else:
                assert (ours == theirs).all()


def test_single_precision_goes_in_and_double_comes_out():
    (entry, (held_out, test)), _ = example("gdn")
    single = entry(held_out.astype(np.float32), test.astype(np.float32))
    assert single.score.dtype == np.float64
    np.testing.assert_allclose(single.score, entry(held_out, test).score, atol=1e-5)
