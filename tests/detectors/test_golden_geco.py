"""GeCo against the official implementation: every candidate, winner, step and alarm."""

import csv
import functools
import json
from pathlib import Path

import numpy as np
import pytest
from golden_files import FOLDER, Golden
from testbed_files import DATA, needs_batadal

from sightline import Recording, Tag, open_testbed
from sightline.detectors.geco import GeCo
from sightline.detectors.geco.formulas import FAMILIES, Transitions
from sightline.detectors.geco.search import (
    FormulaRanking,
    SearchState,
    TargetColumns,
    candidates,
    find_formulas,
    fit_by_optimiser,
    fit_exactly,
    measured,
)

# What the specification asks of a closed form, relative: errors, drifts, thresholds;
# residuals by the error of train, CUSUM by the threshold.
ERROR, DRIFT, THRESHOLD, RESIDUAL, CUSUM = 2e-6, 1e-6, 1e-5, 1e-5, 1e-4
SHARED = Path(__file__).parents[3] / "shared" / "golden"
PLANTS = ("geco", "geco_edge")
NEVER_TRIED, GAVE_UP = 1, 2


@functools.cache
def golden(name):
    return Golden(name)


@functools.cache
def model(name):
    return json.loads((FOLDER / f"{name}_model.json").read_text())


def names_of(name):
    return [str(channel) for channel in golden(name)["names"]]


def recording(name, which):
    tags = tuple(Tag(name=channel) for channel in names_of(name))
    return Recording(values=golden(name)[which], tags=tags)


@functools.cache
def transitions(name):
    return Transitions.of(golden(name)["train"])


@functools.cache
def fitted(name):
    return GeCo().fit(recording(name, "train"))


def tried(name):
    """Yield the row, target, family and inputs of every candidate that was tried."""
    g = golden(name)
    for row in np.flatnonzero(g["cand_status"] != NEVER_TRIED):
        inputs = tuple(int(c) for c in g["cand_inputs"][row] if c >= 0)
        yield row, int(g["cand_target"][row]), int(g["cand_family"][row]), inputs


@pytest.mark.parametrize("name", PLANTS)
def test_candidates_are_enumerated_in_the_official_order(name):
    n = len(names_of(name))
    ours = [(t, *c) for t in range(n) for c in candidates(t, n)]
    assert ours == [told[1:] for told in tried(name)]


@pytest.mark.parametrize("name", PLANTS)
def test_optimiser_gives_every_candidate(name):
    g, rows = golden(name), transitions(name)
    names = names_of(name)
    for row, target, family, inputs in tried(name):
        columns = TargetColumns(rows, target)
        fit = fit_by_optimiser(columns, family, inputs)
        assert (fit is None) == (g["cand_status"][row] == GAVE_UP)
        if fit is None:
            continue
        # Another scipy may take another last step.
        _, _, parameters, error = fit
        np.testing.assert_allclose(error, g["cand_mse"][row], rtol=ERROR)
        theirs = g["cand_params"][row][: len(parameters)]
        assert np.isnan(g["cand_params"][row][len(parameters) :]).all()
        # Parameters of columns that depend on each other are anybody's.
        if fit_exactly(columns, family, inputs) is not None:
            np.testing.assert_allclose(parameters, theirs, rtol=1e-4, atol=1e-6)
        made = measured(rows, target, names, family, inputs, theirs)
        # From their very parameters all else follows to rounding.
        assert made.error == pytest.approx(g["cand_mse"][row], rel=1e-12, abs=1e-300)
        assert made.drift == pytest.approx(g["cand_drift"][row], rel=1e-12, abs=1e-300)
        assert made.threshold == pytest.approx(
            g["cand_threshold"][row], rel=1e-9, abs=1e-300
        )


@pytest.mark.parametrize(("name", "n_usable"), [("geco", 728), ("geco_edge", 8)])
def test_exact_fit_of_every_candidate(name, n_usable):
    g, rows = golden(name), transitions(name)
    names, usable = names_of(name), 0
    for row, target, family, inputs in tried(name):
        fit = fit_exactly(TargetColumns(rows, target), family, inputs)
        if fit is None or g["cand_status"][row] == GAVE_UP:
            continue
        usable += 1
        made = measured(rows, target, names, family, inputs, fit[2])
        assert made.error == fit[3]
        np.testing.assert_allclose(made.error, g["cand_mse"][row], rtol=ERROR)
        np.testing.assert_allclose(made.drift, g["cand_drift"][row], rtol=DRIFT)
    assert usable == n_usable


def without_constants(name, inputs):
    train = golden(name)["train"][: transitions(name).n_fitted]
    return tuple(c for c in inputs if np.ptp(train[:, c]) > 0)


def test_candidates_left_out_are_no_better_than_shorter_ones():
    g, rows, left_out = golden("geco"), transitions("geco"), 0
    for row, target, family, inputs in tried("geco"):
        fit = fit_exactly(TargetColumns(rows, target), family, inputs)
        kept = without_constants("geco", inputs)
        if fit is not None or not np.ptp(g["train"][:, target]):
            continue
        left_out += 1
        # What was constant adds nothing (constant 1 in a product as well).
        assert kept != inputs
        shorter = fit_exactly(TargetColumns(rows, target), family if kept else 0, kept)
        np.testing.assert_allclose(shorter[3], g["cand_mse"][row], rtol=ERROR)
    assert left_out > 100


@pytest.mark.parametrize("name", PLANTS)
def test_inner_products_tell_the_error_of_every_candidate(name):
    rows, n = transitions(name), len(names_of(name))
    ranking, state = FormulaRanking(rows, 3, n_best=2_000), SearchState()
    ranking.search(lambda *told: None, state)
    for target in ranking.targets:
        told = ranking.estimates(int(target), state)
        if not np.ptp(rows.values[: rows.n_fitted + 1, target]):
            continue
        columns, unit = TargetColumns(rows, int(target)), ranking.unit(target)
        for estimate, family, inputs in told:
            exact = fit_exactly(columns, family, inputs)
            assert estimate * unit == pytest.approx(exact[3], rel=1e-9)
        # All there are but those whose columns depend on each other, and products of
        # one channel, which are sums of one, or with a constant, which are shorter.
        train = rows.values
        due = {
            (family, inputs)
            for family, inputs in candidates(int(target), n)
            if fit_exactly(columns, family, inputs) is not None
            and (family == 0 or len(inputs) > 1)
            and all(np.ptp(train[:-1, c]) for c in inputs)
        }
        assert {(family, inputs) for _, family, inputs in told} == due


def test_inner_products_in_single_precision_tell_enough_to_choose():
    rows = transitions("geco")
    ranking, state = FormulaRanking(rows, 3, "float32", n_best=2_000), SearchState()
    ranking.search(lambda *told: None, state)
    for target in ranking.targets:
        moved = np.mean(np.diff(rows.values[:, target]) ** 2)
        columns, unit = TargetColumns(rows, int(target)), ranking.unit(target)
        for estimate, family, inputs in ranking.estimates(int(target), state):
            exact = fit_exactly(columns, family, inputs)
            assert abs(estimate * unit - exact[3]) < 1e-4 * moved


def winners(name):
    g = golden(name)
    for k, invariant in enumerate(model(name)["invariants"]):
        row = int(g["inv_candidate"][k])
        assert names_of(name)[g["inv_target"][k]] == invariant["target"]
        assert FAMILIES[g["cand_family"][row]] == invariant["family"]
        yield k, row, invariant


@pytest.mark.parametrize("name", PLANTS)
def test_winners_are_the_official_ones(name):
    g = golden(name)
    formulas = fitted(name).formulas
    assert len(formulas) == len(model(name)["invariants"])
    for k, row, theirs in winners(name):
        ours = formulas[k]
        assert ours.target == theirs["target"]
        assert ours.inputs == tuple(theirs["inputs"])
        # A product of one channel is a sum of one; the earlier of equals is ours.
        is_alias = theirs["family"] == "Product" and len(ours.inputs) == 1
        assert ours.family == ("Sum" if is_alias else theirs["family"])
        assert ours.error == pytest.approx(theirs["mse"], rel=ERROR)
        assert ours.error == pytest.approx(g["cand_mse"][row], rel=ERROR)
        assert ours.drift == pytest.approx(g["inv_drift"][k], rel=DRIFT)
        assert ours.threshold == pytest.approx(g["inv_threshold"][k], rel=THRESHOLD)
        np.testing.assert_allclose(
            ours.parameters, theirs["parameters"], rtol=1e-3, atol=1e-5
        )
        margin = theirs["relative_mse_margin_to_runner_up"]
        # A formula without an error is ahead by more than JSON can tell.
        theirs_too = g["inv_margin"][k]
        assert (np.inf if margin is None else margin) == pytest.approx(theirs_too)


def test_winners_in_single_precision_are_the_same():
    single = GeCo(precision="float32").fit(recording("geco", "train"))
    assert single.formulas == fitted("geco").formulas


@pytest.mark.parametrize("name", PLANTS)
def test_winners_by_the_optimiser_have_the_official_labels(name):
    ours = find_formulas(transitions(name), names_of(name), search="curve_fit")
    for k, _, theirs in winners(name):
        assert (ours[k].family, ours[k].inputs) == (
            theirs["family"],
            tuple(theirs["inputs"]),
        )
        np.testing.assert_allclose(
            ours[k].parameters, theirs["parameters"], rtol=1e-6, atol=1e-9
        )


@pytest.mark.parametrize("which", ["train", "test"])
@pytest.mark.parametrize("name", PLANTS)
def test_residuals_cusum_and_alarms(name, which):
    g, detector = golden(name), fitted(name)
    told = detector.residuals(recording(name, which))
    theirs = g[f"residual_{which}"]
    assert np.isnan(theirs[0]).all()
    assert told.index.tolist() == list(range(1, len(theirs)))
    errors = np.sqrt([formula.error for formula in detector.formulas])
    # Ours is observed minus expected.
    assert (np.abs(-told.values - theirs[1:]) <= RESIDUAL * errors).all()
    made = detector.cusum(recording(name, which))
    thresholds = np.array([formula.threshold for formula in detector.formulas])
    apart = np.abs(made.values - g[f"cusum_{which}"][1:])
    assert (apart <= CUSUM * thresholds + 1e-12).all()
    assert (made.is_alarm.any(axis=1) == g[f"alarm_{which}"][1:]).all()
    assert not g[f"alarm_{which}"][0]
    assert not g[f"cusum_{which}"][0].any()
    if which == "test":
        assert (made.is_alarm == g["inv_alarm_test"][1:]).all()
        assert not g["inv_alarm_test"][0].any()


def test_residuals_of_the_official_parameters_bit_by_bit(tmp_path):
    for name in PLANTS:
        detector = GeCo.from_ipal(ipal_model(name, tmp_path))
        for which in ("train", "test"):
            told = detector.residuals(recording(name, which))
            assert np.array_equal(-told.values, golden(name)[f"residual_{which}"][1:])
            made = detector.cusum(recording(name, which))
            assert np.array_equal(made.values, golden(name)[f"cusum_{which}"][1:])


def ipal_model(name, folder):
    """Write the golden winners as a model of IPAL's GeCo."""
    formulas = {
        theirs["target"]: {
            "error": theirs["mse"],
            "equation": theirs["family"],
            "combination": [theirs["target"], *theirs["inputs"]],
            "parameters": theirs["parameters"],
            "drift": theirs["drift"],
            "threshold": theirs["threshold"],
        }
        for theirs in model(name)["invariants"]
    }
    settings = {
        key: model(name)["config"][key]
        for key in ("ignore", "max_formel_length", "threshold_factor", "cusum_factor")
    }
    page = {"_name": "GeCo", "settings": settings, "incomplete": False, "CI": formulas}
    path = folder / f"{name}.model"
    path.write_text(json.dumps(page))
    return path


def test_no_array_is_left_uncompared():
    for name in PLANTS:
        g = golden(name)
        g.given.clear()
        for check in (
            test_optimiser_gives_every_candidate,
            test_winners_are_the_official_ones,
        ):
            check(name)
        for which in ("train", "test"):
            test_residuals_cusum_and_alarms(name, which)
        # Labels are compared with IPAL's output below.
        assert set(g.arrays) - g.given == {"label"}


# ------------------------------------------------------- IPAL's own output and report


def states():
    lines = (FOLDER / "geco_out.state").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_output_of_the_official_command_line():
    made = fitted("geco").cusum(recording("geco", "test"))
    told = states()
    assert [list(state["state"]) for state in told[:1]] == [names_of("geco")]
    values = np.array([list(state["state"].values()) for state in told])
    assert np.array_equal(values, golden("geco")["test"])
    scores = np.array([state["scores"]["GeCo"] for state in told])
    thresholds = [formula.threshold for formula in fitted("geco").formulas]
    assert (np.abs(made.values - scores[1:]) <= CUSUM * np.array(thresholds)).all()
    alarms = [state["ids"] for state in told]
    assert made.is_alarm.any(axis=1).tolist() == alarms[1:]
    assert not alarms[0]


def test_figures_of_the_official_evaluation():
    g = golden("geco")
    report = json.loads((FOLDER / "geco_ipal_evaluate.json").read_text())
    made = fitted("geco").cusum(recording("geco", "test"))
    alarm, attack = np.append(False, made.is_alarm.any(axis=1)), g["label"] > 0
    figures = {
        "tp": alarm & attack,
        "fp": alarm & ~attack,
        "fn": ~alarm & attack,
        "tn": ~alarm & ~attack,
    }
    assert {key: int(which.sum()) for key, which in figures.items()} == {
        key: report[key] for key in figures
    }
    attacks = json.loads((FOLDER / "geco_attacks.json").read_text())
    start = states()[0]["timestamp"]
    recalls = {}
    for told in attacks:
        rows = slice(told["start"] - start, told["end"] - start + 1)
        assert (g["label"][rows] == int(told["id"])).all()
        recalls[told["id"]] = alarm[rows].mean()
    assert recalls == pytest.approx(report["Scenario-Recall"])


@pytest.mark.parametrize("which", ["train", "test"])
def test_tables_hold_the_same_numbers_as_the_arrays(which):
    with (FOLDER / f"geco_{which}.csv").open() as file:
        rows = list(csv.DictReader(file))
    values = [[float(row[name]) for name in names_of("geco")] for row in rows]
    assert np.array_equal(values, golden("geco")[which])


# --------------------------------------------------------------------------- BATADAL

needs_published = pytest.mark.skipif(
    not (SHARED / "geco_batadal.npz").is_file(),
    reason="the published BATADAL model is not in ../shared/golden",
)
PUBLISHED = SHARED / "geco_batadal_published_model.json"
FILES = ("dataset04", "test_dataset")


@functools.cache
def batadal():
    # The published model was learned from train with all its decimals.
    return open_testbed(
        "batadal", root=DATA / "batadal", cache=False, train_decimals="raw"
    )


def confusion(detector):
    """Return tp, fp, fn over the test files; the first row of each has no alarm."""
    test = batadal().test
    made = detector.cusum(test)
    is_alarm, index = made.is_alarm, made.index
    alarm = np.zeros(test.n_steps, np.bool_)
    alarm[index] = is_alarm.any(axis=1)
    attack = test.labels == 1
    return [int(np.sum(k)) for k in (alarm & attack, alarm & ~attack, ~alarm & attack)]


@needs_batadal
@needs_published
def test_the_published_batadal_model_is_found_again():
    detector = GeCo(testbed="batadal").fit(batadal().train)
    published = GeCo.from_ipal(PUBLISHED, train=batadal().train)
    assert len(detector.formulas) == 42
    for ours, theirs in zip(detector.formulas, published.formulas, strict=True):
        assert (ours.target, ours.family) == (theirs.target, theirs.family)
        assert ours.inputs == theirs.inputs
        assert ours.error == pytest.approx(theirs.error, rel=1e-6, abs=1e-300)
        assert ours.drift == pytest.approx(theirs.drift, rel=1e-5, abs=1e-300)
        assert ours.threshold == pytest.approx(theirs.threshold, rel=1e-4, abs=1e-300)
    assert confusion(detector) == [660, 44, 239]
    for key in ("ignore", "threshold_factor", "cusum_factor"):
        assert getattr(detector.settings, key) == getattr(published.settings, key)


@needs_batadal
@needs_published
def test_the_published_batadal_model_bit_by_bit():
    detector = GeCo.from_ipal(PUBLISHED, train=batadal().train)
    with np.load(SHARED / "geco_batadal.npz") as file:
        told = dict(file)
    assert told["invariants"].tolist() == [f.target for f in detector.formulas]

    def joined(key):
        return np.concatenate([told[f"{name}_{key}"][1:] for name in FILES])

    residuals = detector.residuals(batadal().test)
    assert np.array_equal(-residuals.values, joined("residual"))
    made = detector.cusum(batadal().test)
    values, is_alarm, index = made.values, made.is_alarm, made.index
    assert np.array_equal(values, joined("cusum"))
    assert np.array_equal(is_alarm.any(axis=1), joined("alarm"))
    assert np.array_equal(batadal().test.labels[index] == 1, joined("label") > 0)
    assert confusion(detector) == [660, 44, 239]


@needs_batadal
@needs_published
def test_without_a_fresh_start_batadal_has_three_false_points_more():
    detector = GeCo.from_ipal(PUBLISHED, train=batadal().train)
    test = batadal().test
    made = detector.cusum(test, preset="official")
    assert len(made.index) == test.n_steps - 1
    alarm = np.append(False, made.is_alarm.any(axis=1))
    assert int((alarm & (test.labels == 0)).sum()) == 44 + 3
