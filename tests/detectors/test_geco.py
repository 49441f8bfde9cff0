"""GeCo: the search against brute force, its laws, its files, its alarms by hand."""

import functools
import json
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from sightline._kernels.formulas import (
    cusum_alarms,
    cusum_peak,
    observed_minus_predicted,
)
from sightline.data.recording import Recording, Tag
from sightline.detectors.conformance import check_detector
from sightline.detectors.geco import EPSILON, GeCo, GeCoSettings
from sightline.detectors.geco.formulas import (
    FAMILIES,
    Formula,
    Transitions,
    formula_arrays,
    formulas_of,
    predicted_rows,
)
from sightline.detectors.geco.search import (
    SearchState,
    TargetColumns,
    candidates,
    find_formulas,
    fit_by_optimiser,
    fit_exactly,
)
from sightline.errors import FileError, StreamError
from sightline.progress import Step, StepKind


def recording_of(values, names=None, **fields):
    values = np.asarray(values)
    names = names or [f"c{k}" for k in range(values.shape[1])]
    return Recording(values=values, tags=tuple(Tag(name=n) for n in names), **fields)


def plant(n_rows=900, seed=0):
    """Return a level, an inflow, a pump, a product of them, a spare and a noise."""
    rng = np.random.default_rng(seed)
    values = np.empty((n_rows, 6))
    level, inflow, power = 500.0, 2.0, 10.0
    pump = np.cumsum(rng.random(n_rows) < 0.05) % 2
    for row in range(n_rows):
        values[row] = level, inflow, pump[row], power, 1.0, rng.normal(0, 1e-4)
        level, inflow, power = (
            0.99 * level + 3 * inflow - 2 * pump[row] + 1 + 0.05 * rng.normal(),
            0.9 * inflow + 0.2 + 0.1 * rng.normal(),
            0.5 * power + 0.01 * level * inflow * pump[row] + 0.01 * rng.normal(),
        )
    return values


PACKAGE = "sightline.detectors.geco"
NAMES = ["LIT1", "FIT1", "P1", "PWR", "P2", "AIT1"]


@functools.cache
def fitted():
    return GeCo().fit(recording_of(plant(), NAMES))


def chosen(formula):
    return formula.target, formula.family, formula.inputs


def found(values, **settings):
    names = [f"c{k}" for k in range(values.shape[1])]
    return find_formulas(Transitions.of(values), names, **settings)


# ----------------------------------------------------------------- what is found


def test_formulas_of_a_known_plant():
    level, inflow, pump, power, spare, _ = fitted().formulas
    assert chosen(power) == ("PWR", "Product", ("LIT1", "FIT1", "P1"))
    np.testing.assert_allclose(power.parameters, [0.5, 0.01, 0], atol=0.02)
    assert {"FIT1", "P1"} < set(level.inputs)
    assert level.family == "Sum"
    own = dict(zip(("LIT1", *level.inputs, "1"), level.parameters, strict=True))
    assert own["LIT1"] == pytest.approx(0.99, abs=0.01)
    assert own["FIT1"] == pytest.approx(3, abs=0.1)
    assert own["P1"] == pytest.approx(-2, abs=0.1)
    assert inflow.parameters[0] == pytest.approx(0.9, abs=0.05)
    assert pump.target == "P1"
    assert spare == Formula(
        target="P2",
        family="Sum",
        inputs=(),
        parameters=(1.0, 0.0),
        error=0.0,
        drift=0.0,
        threshold=0.0,
    )


def test_formulas_for_people():
    formula = Formula(
        target="LIT301",
        family="Sum",
        inputs=("P101", "P301"),
        parameters=(0.998, 0.52, -0.31, 1.2),
        error=1.0,
        drift=1.0,
        threshold=1.0,
    )
    assert str(formula) == "LIT301 = 0.998 LIT301 + 0.52 P101 - 0.31 P301 + 1.2"
    product = replace(formula, family="Product", parameters=(1.0, -0.2, -3e-7))
    assert str(product) == "LIT301 = 1 LIT301 - 0.2 P101 x P301 - 3e-07"
    still = replace(formula, inputs=(), parameters=(1.0, 0.0))
    assert str(still) == "LIT301 = 1 LIT301"
    assert fitted().printed() == [str(formula) for formula in fitted().formulas]


def awkward(seed):
    """Return few channels with all that makes a search hard."""
    rng = np.random.default_rng(seed)
    n_rows, n_channels = int(rng.integers(40, 900)), int(rng.integers(2, 7))
    values = np.zeros((n_rows, n_channels))
    rows = np.arange(n_rows)
    for c in range(n_channels):
        kind = rng.integers(0, 9)
        if kind == 0:
            values[:, c] = rng.integers(0, 3)
        elif kind == 1:
            values[:, c] = 1 + np.cumsum(rng.random(n_rows) < 0.03) % 2
        elif kind == 2:
            walk = np.cumsum(rng.normal(size=n_rows)) * 10.0 ** rng.integers(-4, 4)
            values[:, c] = walk + 10.0 ** rng.integers(0, 5)
        elif kind == 3:
            wave = 1e-2 * np.sin(rows / 7) + 1e-3 * rng.normal(size=n_rows)
            values[:, c] = 1e5 + wave
        elif kind == 4 and c:
            values[:, c] = values[:, c - 1]
        elif kind == 5:
            values[:, c] = 0.1 * rows
        elif kind == 6:
            values[:, c] = np.where(rows < 0.85 * n_rows, 5, 6 + rows % 3)
        elif kind == 7 and c:
            values[1:, c] = 2 * values[:-1, c - 1] + 3
        else:
            values[:, c] = np.sin(rows / rng.uniform(2, 50)) + rng.normal(size=n_rows)
    return values


def by_brute_force(values):
    """Return the first of the best of all candidates, each fitted by itself."""
    rows, n = Transitions.of(values), values.shape[1]
    for target in range(n):
        best = (0, ())
        column = values[: rows.n_fitted, target]
        columns = TargetColumns(rows, target)
        fits = [fit_exactly(columns, *c) for c in candidates(target, n)]
        fits = [fit for fit in fits if fit is not None]
        if np.ptp(column) and fits:
            rounding = (1e-12 * np.abs(values[:-1, target]).max()) ** 2
            limit = min(fit[3] for fit in fits) * (1 + 1e-9) + rounding
            best = next(fit[:2] for fit in fits if fit[3] <= limit)
        yield FAMILIES[best[0]], tuple(f"c{k}" for k in best[1])


@pytest.mark.parametrize("seed", range(40))
def test_search_finds_what_brute_force_finds(seed):
    values = awkward(seed)
    ours = [(f.family, f.inputs) for f in found(values)]
    assert ours == list(by_brute_force(values))


@pytest.mark.parametrize("max_inputs", [0, 1, 2])
def test_fewer_inputs(max_inputs):
    values = plant(300)
    exact = Transitions.of(values)
    for formula in found(values, max_inputs=max_inputs):
        assert len(formula.inputs) <= max_inputs
        target = int(formula.target[1:])
        fits = [
            fit_exactly(TargetColumns(exact, target), *candidate)
            for candidate in candidates(target, 6, max_inputs)
        ]
        least = min((fit[3] for fit in fits if fit is not None), default=0.0)
        assert formula.error == pytest.approx(least, rel=1e-9)


def test_optimiser_and_closed_form_agree():
    values = plant(250)
    ours, theirs = found(values), found(values, search="curve_fit")
    for one, other in zip(ours, theirs, strict=True):
        assert one.error == pytest.approx(other.error, rel=2e-6)
        assert one.drift == pytest.approx(other.drift, rel=1e-5)


def test_number_of_candidates():
    # Section 3: d (2 sum_r C(d - 1, r) - 1).
    assert sum(1 for t in range(8) for _ in candidates(t, 8)) == 1_016
    assert sum(1 for _ in candidates(0, 20)) * 20 == 46_380


def test_one_and_two_channels():
    values = plant(200)[:, :2]
    assert found(values[:, :1])[0].inputs == ()
    assert {len(f.inputs) for f in found(values)} <= {0, 1}


# ------------------------------------------------------------------------- ties


def test_the_first_of_equal_channels_wins():
    values = plant(400)
    doubled = np.hstack([values, values[:, [1, 2]]])
    used = 0
    for formula in found(doubled):
        for first, copy in (("c1", "c6"), ("c2", "c7")):
            used += first in formula.inputs
            # A copy has a place only beside the first: as a square, or as its rival.
            if copy in formula.inputs:
                assert first in (formula.target, *formula.inputs)
    assert used


def test_what_is_told_exactly_is_told_by_the_fewest_inputs():
    values = plant(400)
    copied = np.zeros(400)
    copied[1:] = 3 * values[:-1, 1] - 7
    told = found(np.column_stack([values, copied]))[-1]
    assert (told.family, told.inputs) == ("Sum", ("c1",))
    np.testing.assert_allclose(told.parameters, [0, 3, -7], atol=1e-9)


def test_a_counter_needs_no_inputs():
    values = np.column_stack([0.1 * np.arange(300), plant(300)])
    told = found(values)[0]
    assert told.inputs == ()
    np.testing.assert_allclose(told.parameters, [1, 0.1], atol=1e-9)


def test_constants_are_in_no_formula():
    values = np.hstack([np.full((300, 2), [1.0, 7.0]), plant(300)[:, :4]])
    for formula in found(values):
        assert not {"c0", "c1"} & set(formula.inputs)


# ----------------------------------------------------------- channels that stand still


def test_target_constant_where_it_is_fitted_keeps_its_value():
    values = plant(500)
    values[:, 4] = np.where(np.arange(500) < 450, 3.0, np.arange(500))
    told = found(values)[4]
    assert chosen(told) == ("c4", "Sum", ())
    assert told.parameters == (1.0, 0.0)
    changes = np.diff(values[:, 4])
    assert told.error == np.mean(changes**2)
    assert told.drift == pytest.approx(np.mean(np.abs(changes)) + np.std(changes))


def test_factor_that_moves_only_later_still_counts():
    # Where it moves it turns a product into another one: a candidate of its own.
    rng = np.random.default_rng(1)
    drive, late = rng.normal(size=1000) + 3, np.full(1000, 2.0)
    late[850:] = rng.normal(size=150) + 4
    target = np.zeros(1000)
    for s in range(1, 1000):
        target[s] = 0.5 * target[s - 1] + drive[s - 1] * late[s - 1]
    target += 0.01 * rng.normal(size=1000)
    told = found(np.column_stack([target, drive, late]))[0]
    assert (told.family, told.inputs) == ("Product", ("c1", "c2"))


def test_only_constants():
    told = found(np.full((50, 3), 4.0))
    assert all(f.parameters == (1.0, 0.0) and f.error == 0 for f in told)


# -------------------------------------------------------------------------- laws


def test_order_of_channels_means_nothing():
    values = plant()
    order = np.array([3, 5, 1, 0, 4, 2])
    moved = GeCo().fit(recording_of(values[:, order], [NAMES[k] for k in order]))
    before = {formula.target: formula for formula in fitted().formulas}
    for formula in moved.formulas:
        same = before[formula.target]
        assert formula.family == same.family
        assert set(formula.inputs) == set(same.inputs)
        assert formula.error == pytest.approx(same.error, rel=1e-9)
        assert formula.threshold == pytest.approx(same.threshold, rel=1e-6)


@pytest.mark.parametrize("factor", [2.0**-20, 1e-9, 1e7])
def test_unit_of_a_channel_scales_its_formula(factor):
    scale = np.array([factor, 1, 1, 1 / factor, 1, factor])
    moved = GeCo().fit(recording_of(plant() * scale, NAMES))
    for k, (formula, same) in enumerate(
        zip(moved.formulas, fitted().formulas, strict=True)
    ):
        assert chosen(formula) == chosen(same)
        assert formula.error == pytest.approx(same.error * scale[k] ** 2, rel=1e-6)
        assert formula.drift == pytest.approx(same.drift * scale[k], rel=1e-6)
        inputs = [NAMES.index(name) for name in formula.inputs]
        terms = scale[inputs]
        if formula.family == "Product":
            terms = [np.prod(terms)]
        by = scale[k] / np.array([scale[k], *terms, 1])
        for ours, theirs in zip(formula.parameters, same.parameters * by, strict=True):
            assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-6 * scale[k])


def test_memory_for_prepared_rows_changes_nothing(monkeypatch):
    values = plant(3000)
    before = found(values)
    monkeypatch.setattr(f"{PACKAGE}.search._MOST_BYTES", 0)
    monkeypatch.setattr(f"{PACKAGE}.search.BLOCK", 3)
    monkeypatch.setattr(f"{PACKAGE}.search._PRODUCTS_AT_ONCE", 2)
    monkeypatch.setattr(f"{PACKAGE}.search._COLUMNS_AT_ONCE", 1)
    assert found(values) == before


class StoppedError(Exception):
    pass


@pytest.mark.parametrize("after", [1, 3, 6, 9])
@pytest.mark.parametrize("search", ["closed form", "curve_fit"])
def test_search_taken_up_is_as_if_never_stopped(tmp_path, monkeypatch, after, search):
    monkeypatch.setattr(f"{PACKAGE}.search.BLOCK", 4)
    train = recording_of(plant(200)[:, :4])
    whole = GeCo(search=search, max_inputs=3).fit(train)
    path = tmp_path / "search.npz"
    told = []

    def stop(step):
        told.append(step)
        if len(told) == after:
            raise StoppedError

    detector = GeCo(search=search, max_inputs=3)
    try:
        detector.fit(train, progress=stop, checkpoint=path)
    except StoppedError:
        assert detector.formulas == ()
        assert detector.channels is None
    detector.fit(train, checkpoint=path)
    assert detector.formulas == whole.formulas
    # What is finished is not done again.
    again = []
    detector.fit(train, progress=again.append, checkpoint=path)
    assert again == []
    assert detector.formulas == whole.formulas


def test_checkpoint_of_another_search_is_refused(tmp_path):
    path, train = tmp_path / "search.npz", recording_of(plant(100))
    GeCo().fit(train, checkpoint=path)
    for other, settings in (
        (recording_of(plant(100, seed=1)), {}),
        (train, {"max_inputs": 2}),
        (train, {"fit_share": 0.7}),
    ):
        with pytest.raises(FileError, match="checkpoint of another search"):
            GeCo(**settings).fit(other, checkpoint=path)
    fitted().save(path)
    with pytest.raises(FileError, match="is not a checkpoint of a search"):
        GeCo().fit(train, checkpoint=path)
    with pytest.raises(FileError, match="not the detector 'geco'"):
        GeCo().fit(train, checkpoint=tmp_path / "new.npz").load(tmp_path / "new.npz")


def test_progress_is_told_to_the_end():
    told = []
    GeCo().fit(recording_of(plant(100)), progress=told.append)
    assert told[-1] == Step(StepKind.TRAINING, 6, 6, "the best formulas")
    assert Step(StepKind.SEARCHING, 1, 1, "formulas") in told
    told.clear()
    GeCo(max_inputs=1).fit(recording_of(plant(100)), progress=told.append)
    assert all(step.total > 0 for step in told)


# ------------------------------------------------------------- kernels by hand


def test_predictions_are_rounded_after_every_step():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(50, 4)) * 10.0 ** rng.integers(-3, 4, (50, 4))
    formulas = [
        Formula(
            target="a",
            family=family,
            inputs=("b", "c", "d"),
            parameters=tuple(rng.normal(size=5 if family == "Sum" else 3)),
            error=0.0,
            drift=0.0,
            threshold=0.0,
        )
        for family in ("Sum", "Product")
    ]
    arrays = formula_arrays(formulas, "abcd")
    rows = np.arange(1, 50)
    out = np.empty((49, 2))
    observed_minus_predicted(
        values,
        rows,
        arrays["formulas/family"],
        arrays["formulas/inputs"],
        arrays["formulas/count"],
        arrays["formulas/parameters"],
        out,
    )
    fused = 0
    for r in range(49):
        a, b, c, d = (float(x) for x in values[r])
        p = formulas[0].parameters
        told = p[0] * a + p[1] * b + p[2] * c + p[3] * d + p[4]
        assert out[r, 0] == float(values[r + 1, 0]) - told
        one = Fraction(p[0] * a) + Fraction(p[1]) * Fraction(b)
        fused += float(one) != p[0] * a + p[1] * b
        q = formulas[1].parameters
        told = q[0] * a + q[1] * (b * c * d) + q[2]
        assert out[r, 1] == float(values[r + 1, 0]) - told
    # A fused multiply-add would have been seen.
    assert fused > 5


def test_training_peak_by_hand():
    errors = np.array([3.0, -2.0, 0.5, 4.0, -4.0])
    begins = np.array([True, False, False, False, False])
    assert cusum_peak(errors, 1.0, begins) == 2 + 1 - 0.5 + 3 + 3
    begins[3] = True
    assert cusum_peak(errors, 1.0, begins) == 6
    assert cusum_peak(errors, 9.0, begins) == 0


def test_alarms_by_hand():
    residuals = np.array([[3.0], [-3.0], [3.0], [0.0], [0.0], [3.0], [1.0]])
    begins = np.array([1, 0, 0, 0, 0, 1, 0], bool)
    values, is_alarm = np.empty((7, 1)), np.empty((7, 1), bool)
    cusum_alarms(
        residuals,
        begins,
        np.array([1.0]),
        EPSILON,
        np.array([3.0]),
        np.array([3.0 + 2 * 1.0 + EPSILON]),
        values,
        is_alarm,
    )
    np.testing.assert_allclose(values[:, 0], [2, 4, 5, 4, 3, 2, 2], atol=1e-9)
    # Down again by a little more than the drift each step, not above its level then.
    assert is_alarm[:, 0].tolist() == [False, True, True, True, False, False, False]
    assert values[2, 0] == 5.0 + EPSILON


def test_constant_invariant_alarms_for_one_step():
    values = np.column_stack([np.ones(60), plant(60)[:, 0]])
    detector = GeCo().fit(recording_of(values))
    test = np.column_stack([np.ones(20), plant(20)[:, 0]])
    test[8:, 0] = 2.0
    made = detector.cusum(recording_of(test))
    assert made.index[made.is_alarm[:, 0]].tolist() == [8]
    assert made.channels == ("c0", "c1")


# --------------------------------------------------------------- rows and gaps


def test_rows_that_have_one_before_them():
    rows, begins = predicted_rows(6, np.array([0, 2, 3]))
    assert rows.tolist() == [1, 4, 5]
    assert begins.tolist() == [True, True, False]
    assert predicted_rows(3)[0].tolist() == [1, 2]


def test_fit_rows_are_the_first_share_rounded_down():
    rows = Transitions.of(np.zeros((100, 1)))
    assert (len(rows), rows.n_fitted) == (99, 79)
    train = recording_of(plant(100), breaks=[0, 40])
    split = GeCo(fit_share=0.5).fit(train).split
    told = np.setdiff1d(np.arange(100), [0, 40])
    assert split.trained.tolist() == told[:49].tolist()
    assert split.held_out.tolist() == told[49:].tolist()
    assert not len(GeCo(fit_share=1).fit(train).split.held_out)


def test_steps_through_gaps_are_left_out_of_fitting():
    before, after = plant(300), plant(300, seed=1) + 100
    values, breaks = np.vstack([before, after]), [0, 300]
    apart = GeCo().fit(recording_of(values, breaks=breaks))
    through = GeCo("official").fit(recording_of(values, breaks=breaks))
    ordinary = GeCo().fit(recording_of(values))
    assert through.formulas == ordinary.formulas
    assert apart.formulas[0].error < 0.5 * through.formulas[0].error
    assert 300 in through.split.trained
    assert 300 not in apart.split.trained
    told = apart.residuals(recording_of(values, breaks=breaks))
    assert 300 not in told.index
    told = apart.residuals(recording_of(values, breaks=breaks), preset="official")
    assert told.index.tolist() == list(range(1, 600))


def test_alarms_begin_anew_after_a_gap():
    values = plant(400, seed=5)
    values[100:200, 0] += 30 * (np.arange(100) % 2)
    gap = recording_of(values, NAMES, breaks=[0, 200])
    made = fitted().cusum(gap)
    scores, is_alarm, index = made.values, made.is_alarm, made.index
    assert is_alarm[index == 199, 0].all()
    alone = fitted().cusum(recording_of(values[200:], NAMES))
    after = index > 200
    assert np.array_equal(scores[after], alone.values)
    assert np.array_equal(is_alarm[after], alone.is_alarm)
    through = fitted().cusum(gap, preset="official")
    assert through.values[through.index == 201, 0] > scores[index == 201, 0]
    residuals = fitted().residuals(gap)
    assert np.array_equal(residuals.index, index)
    assert residuals.channels == tuple(NAMES)
    assert residuals.space == "invariant"


def test_residual_is_observed_minus_expected_in_the_targets_unit():
    values = plant(50, seed=3)
    told = fitted().residuals(recording_of(values, NAMES))
    formula = fitted().formulas[3]
    a, b, c = formula.parameters
    product = values[:-1, 0] * values[:-1, 1] * values[:-1, 2]
    expected = a * values[:-1, 3] + b * product + c
    np.testing.assert_array_equal(told.values[:, 3], values[1:, 3] - expected)
    assert told.scale.tolist() == [1] * 6


def test_train_gives_no_alarm():
    assert not fitted().cusum(recording_of(plant(), NAMES)).is_alarm.any()


def test_single_precision_recordings_are_taken_as_they_are():
    values = plant(300).astype(np.float32)
    one = GeCo().fit(recording_of(values))
    assert one.formulas == GeCo().fit(recording_of(values.astype(float))).formulas
    assert one.residuals(recording_of(values)).values.dtype == np.float64


# ------------------------------------------------------------------------ settings


def test_ignored_channels_are_in_no_formula():
    train = recording_of(plant(300), NAMES)
    detector = GeCo(ignore=("FIT1", "nowhere")).fit(train)
    assert [f.target for f in detector.formulas] == [n for n in NAMES if n != "FIT1"]
    assert not any("FIT1" in f.inputs for f in detector.formulas)
    told = detector.residuals(train)
    assert "FIT1" not in told.channels
    assert any("nowhere" in notice for notice in told.notices)
    with pytest.raises(StreamError, match="names every channel"):
        GeCo(ignore=NAMES).fit(train)


def test_fewer_inputs_than_asked_for_are_told():
    values = plant(60)
    few = GeCo(ignore=("c2", "c3", "c4", "c5")).fit(recording_of(values))
    told = few.residuals(recording_of(values)).notices
    assert [n for n in told if n.startswith("`max_inputs` was lowered from 3 to 1,")]
    for enough in (GeCo(max_inputs=1, ignore=few.settings.ignore), GeCo()):
        told = enough.fit(recording_of(values)).residuals(recording_of(values))
        assert told.notices == ()


def test_missing_cells_hold_and_are_told():
    values = plant(300)
    values[50:60, 1] = np.nan
    detector = GeCo().fit(recording_of(values))
    held = values.copy()
    held[50:60, 1] = values[49, 1]
    assert detector.formulas == GeCo().fit(recording_of(held)).formulas
    told = detector.residuals(recording_of(values))
    assert "10 missing cells" in told.notices[0]


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"max_inputs": 4}, "`max_inputs` must be 3 or less"),
        ({"max_inputs": -1}, "`max_inputs` must be a whole number"),
        ({"fit_share": 1.5}, "`fit_share` must be"),
        ({"threshold_factor": -1}, "`threshold_factor` must be"),
        ({"ignore": 3}, "`ignore` must be names"),
        ({"search": "luck"}, "`search` must be one of"),
        ({"precision": "float16"}, "`precision` must be one of"),
        ({"missing": "zero"}, "`missing` must be one of"),
        ({"every": 0}, "`every` must be"),
    ],
)
def test_settings_are_checked(settings, match):
    with pytest.raises(StreamError, match=match):
        GeCo(**settings)


def test_settings_of_testbeds():
    counts = {"swat": 4, "wadi": 8, "hai": 7, "batadal": 1, "waterworks": 0}
    for testbed, count in counts.items():
        settings = GeCo(testbed=testbed).settings
        assert len(settings.ignore) == count
        assert testbed in GeCo.card.sources
    assert GeCo(testbed="swat").settings.threshold_factor == 1.4178738316276462
    assert GeCoSettings(ignore="P1").ignore == ("P1",)


def test_too_short():
    for n_rows in (1, 2, 3):
        with pytest.raises(StreamError, match="Train leaves"):
            GeCo().fit(recording_of(plant(n_rows)))
    with pytest.raises(StreamError, match="No run of the recording has 2 rows"):
        fitted().residuals(recording_of(plant(1), NAMES))
    GeCo().fit(recording_of(plant(6)))
    for call in (GeCo().cusum, GeCo().residuals):
        with pytest.raises(StreamError, match="has not learned anything yet"):
            call(recording_of(plant(9)))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"every": 3, "ignore": ("P101", "nowhere")},
        {"max_inputs": 1, "trim_s": 30},
        {"precision": "float32"},
    ],
    ids=str,
)
def test_conformance(settings):
    check_detector(lambda: GeCo(**settings))


# --------------------------------------------------------------------------- files


def test_saved_and_loaded(tmp_path):
    path = tmp_path / "geco.npz"
    detector = GeCo(ignore=("FIT1",), threshold_factor=3).fit(
        recording_of(plant(300), NAMES)
    )
    detector.save(path)
    loaded = GeCo.load(path)
    assert loaded.formulas == detector.formulas
    assert loaded.settings == detector.settings
    test = recording_of(plant(100, seed=2), NAMES)
    first, second = detector.cusum(test), loaded.cusum(test)
    for one, other in (
        (first.values, second.values),
        (first.is_alarm, second.is_alarm),
        (first.index, second.index),
    ):
        assert np.array_equal(one, other)


def test_formulas_as_arrays_and_back(tmp_path):
    formulas = list(fitted().formulas)
    assert formulas_of(formula_arrays(formulas, NAMES), NAMES) == formulas
    assert formulas_of(formula_arrays([], NAMES), NAMES) == []
    path = tmp_path / "search.npz"
    SearchState(formulas=formulas, channels=NAMES, checkpoint=path).save()
    assert SearchState.stored(path, "", NAMES).formulas == formulas


def test_ipal_model_there_and_back(tmp_path):
    path = tmp_path / "geco.model"
    train = recording_of(plant(), NAMES)
    detector = GeCo(ignore=("AIT1",), cusum_factor=3.5).fit(train)
    detector.to_ipal(path)
    page = json.loads(path.read_text())
    assert page["_name"] == "GeCo"
    assert page["incomplete"] is False
    assert list(page["CI"]) == NAMES[:-1]
    assert page["CI"]["PWR"]["combination"] == ["PWR", "LIT1", "FIT1", "P1"]
    assert page["settings"]["max_formel_length"] == 3
    test = recording_of(plant(100, seed=2), NAMES)
    told = detector.residuals(test)
    for back in (GeCo.from_ipal(path), GeCo.from_ipal(path, train=train)):
        assert back.formulas == detector.formulas
        assert back.settings == detector.settings
        assert np.array_equal(back.residuals(test).values, told.values)
        assert np.array_equal(back.cusum(test).values, detector.cusum(test).values)
    assert np.array_equal(back.split.trained, detector.split.trained)
    back.save(tmp_path / "back.npz")
    assert GeCo.load(tmp_path / "back.npz").formulas == detector.formulas
    second = tmp_path / "second.model"
    back.to_ipal(second)
    assert json.loads(second.read_text())["CI"] == page["CI"]


def test_ipal_model_without_train(tmp_path):
    path = tmp_path / "geco.model"
    fitted().to_ipal(path)
    detector = GeCo.from_ipal(path)
    assert detector.split is None
    with pytest.raises(StreamError, match="does not know its train"):
        detector.save(tmp_path / "geco.npz")
    values = plant(50)
    values[20, 1] = np.nan
    assert np.isfinite(detector.residuals(recording_of(values, NAMES)).values).all()
    values[0, 1] = np.nan
    with pytest.raises(StreamError, match="does not hold train's means"):
        detector.residuals(recording_of(values, NAMES))
    with pytest.raises(StreamError, match="`train` lacks AIT1"):
        GeCo.from_ipal(path, train=recording_of(plant(9)[:, :5], NAMES[:5]))


def test_ipal_model_of_many_inputs_and_cut_short(tmp_path):
    path = tmp_path / "long.model"
    fitted().to_ipal(path)
    page = json.loads(path.read_text())
    page["settings"]["max_formel_length"] = 5
    page["incomplete"] = True
    page["CI"]["P2"] |= {
        "combination": ["P2", "LIT1", "FIT1", "P1", "PWR", "AIT1"],
        "parameters": [1, 2, 3, 4, 5, 6, 7],
    }
    path.write_text(json.dumps(page))
    detector = GeCo.from_ipal(path)
    values = plant(20)
    told = detector.residuals(recording_of(values, NAMES))
    expected = values[:-1, [4, 0, 1, 2, 3, 5]] @ np.arange(1.0, 7) + 7
    np.testing.assert_allclose(told.values[:, 4], values[1:, 4] - expected)
    assert any("incomplete" in notice for notice in told.notices)


@pytest.mark.parametrize(
    "change",
    [
        lambda page: page.pop("CI"),
        lambda page: page.update(CI={}),
        lambda page: page.update(CI=[1]),
        lambda page: page["CI"]["LIT1"].pop("drift"),
        lambda page: page["CI"]["LIT1"].update(equation="Quotient"),
        lambda page: page["CI"]["LIT1"].update(parameters=[1.0]),
        lambda page: page["CI"]["P2"].update(parameters=[10**400, 1]),
        lambda page: page["CI"]["LIT1"].update(threshold=float("nan")),
        lambda page: page["CI"]["LIT1"].update(combination=["P1", "LIT1"]),
        lambda page: page["CI"]["PWR"].update(combination=["PWR"]),
        lambda page: page["settings"].update(ignore=["PWR"]),
    ],
)
def test_broken_ipal_models_are_refused(tmp_path, change):
    path = tmp_path / "geco.model"
    fitted().to_ipal(path)
    page = json.loads(path.read_text())
    change(page)
    path.write_text(json.dumps(page))
    with pytest.raises(FileError, match=r"geco\.model: .*\.$"):
        GeCo.from_ipal(path)


def test_files_that_are_no_ipal_models(tmp_path):
    path = tmp_path / "geco.model"
    with pytest.raises(FileError, match="cannot be read"):
        GeCo.from_ipal(path)
    for content in (b"", b"[]", b"{", b"\xff\xfe"):
        path.write_bytes(content)
        with pytest.raises(FileError, match="is not a model of IPAL's GeCo"):
            GeCo.from_ipal(path)
    with pytest.raises(StreamError, match="has not learned anything yet"):
        GeCo().to_ipal(path)


def test_importing_it_does_not_import_numba():
    script = "import sys, sightline.detectors; print('numba' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


def test_optimiser_that_gives_up_drops_the_candidate(monkeypatch):
    import scipy.optimize

    def gives_up(*args, **options):
        raise RuntimeError("too many calls")

    rows = Transitions.of(plant(60))
    monkeypatch.setattr(scipy.optimize, "curve_fit", gives_up)
    assert fit_by_optimiser(TargetColumns(rows, 0), 0, ()) is None
    assert found(plant(60), search="curve_fit")[0].parameters == (1.0, 0.0)
