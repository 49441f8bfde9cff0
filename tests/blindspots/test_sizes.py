"""Sizes against bisection, long streams, laws of shapes, and the attacker who knows."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from blind_records import ar1, fitted
from blind_spots import coverage

from sightline import Residuals, ResidualStream, find_blind_spots
from sightline.blindspots.attackers import held_for_good, largest_deviation
from sightline.blindspots.detector import AnyStage1, detector_rows
from sightline.blindspots.rule_view import RowChange
from sightline.blindspots.search import SpotArena, SpotSettings, maker
from sightline.blindspots.shapes import SHAPES, OwnShape
from sightline.blindspots.sizes import SpotCase, searched
from sightline.export import NO_RULE, export_rows, export_stream
from sightline.rules.limits import Budget

BUDGET = Budget(per_day=6, share=0.01)


def residual_arena(coefficient, seed=0, rules=("energy", "z", "all"), **settings):
    rows = ar1(70_000, 4, coefficient, seed)
    stream = ResidualStream(rows[:20_000], rows[20_000:], step_s=10.0)
    chosen = SpotSettings(rules=rules, **settings)
    return SpotArena.of_stream(stream, maker(stream, chosen)(BUDGET), BUDGET, chosen)


def seen_at(case, view, sign):
    """Whether each place is seen at its size: the rule itself on falsified rows."""

    def seen(sizes):
        raised = view.raises(case.change(sign * sizes))
        return raised[:, view.grid.is_judged].any(axis=1)

    return seen


# Each shape and each coefficient by default; the other pairs are slow.
@pytest.mark.parametrize(
    ("coefficient", "shape"),
    [
        *((0.0, "step"), (0.9, "ramp"), (0.9, "noise")),
        *(
            pytest.param(*pair, marks=pytest.mark.slow)
            for pair in ((0.9, "step"), (0.0, "ramp"), (0.0, "noise"))
        ),
    ],
)
def test_a_places_size_equals_bisection(coefficient, shape):
    arena = residual_arena(
        coefficient, shapes=(shape,), durations_s=(60.0, 900.0, 14_400.0)
    )
    target = arena.targets[1]
    for k, falsifier in enumerate(arena.arena.falsifiers):
        views = [by_duration[k] for by_duration in arena.arena.views]
        case = SpotCase(target, SHAPES[shape], falsifier, arena.arena.stage, views)
        response = case.unit_change(np.ones(len(case.is_valid)))
        for view in views:
            first, _ = case._first_sizes(view, response)
            for sign, sizes in zip((1, -1), first, strict=True):
                bisected = searched(
                    seen_at(case, view, sign),
                    np.full(len(sizes), 2.0),
                    case.largest,
                    tolerance=1 + 1e-5,
                )
                is_known = np.isfinite(sizes) & (sizes < case.largest)
                assert is_known.sum() >= 10
                np.testing.assert_allclose(
                    sizes[is_known], bisected[is_known], rtol=1e-4
                )


def test_rules_with_other_memories_are_bisected_on_the_rows():
    arena = residual_arena(
        0.0, rules=("cusum",), shapes=("step",), durations_s=(900.0,)
    )
    spots = arena.search()
    assert all(s.half.size is not None for s in spots)
    # A cumulative sum collects a lasting shift of less than one standard deviation.
    assert np.median([s.half.size for s in spots]) < 2.0


def test_half_sizes_are_those_of_a_long_stream_and_intervals_cover():
    """Size of a step in one of four white channels, from a direct simulation."""
    arena = residual_arena(
        0.0, rules=("x",), shapes=("step",), durations_s=(60.0,), places=400
    )
    spots = [s for s in arena.search() if s.sign == 1]
    view = arena.arena.views[0][0]
    rng = np.random.default_rng(9)
    for spot in spots:
        j = [t.name for t in arena.tags].index(spot.tag)
        limit = view.members[0].limits[j]
        rows = rng.normal(size=(40_000, 6))
        truth = np.median((limit - rows).min(axis=1))
        assert spot.half.size == pytest.approx(truth, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("coefficient", [0.0, 0.9])
def test_intervals_of_forty_places_cover_the_size_of_a_long_stream(coefficient):
    for held in coverage(coefficient, seed=7).values():
        assert len(held) == 300
        assert 0.85 <= np.mean(held) <= 0.98


def test_sizes_are_whole_steps_of_an_instrument_where_its_resolution_is_known():
    detector, train, test = fitted("var")
    tags = (replace(train.tags[0], resolution=0.25), *train.tags[1:])
    exact, rounded = (
        find_blind_spots(
            detector,
            replace(test, tags=t),
            train=replace(train, tags=t),
            shapes=["step", "scale"],
            durations_s=[900.0],
        )
        for t in (train.tags, tags)
    )
    assert len(exact.spots) == len(rounded.spots)
    n_rounded = 0
    for one, other in zip(exact.spots, rounded.spots, strict=True):
        if one.tag != tags[0].name or one.unit == "%":
            assert one == other
            continue
        for share in ("half", "most"):
            size, whole = getattr(one, share).size, getattr(other, share).size
            assert whole == pytest.approx(0.25 * np.ceil(size / 0.25))
            n_rounded += whole != size
    assert n_rounded


@pytest.mark.parametrize("name", ["var", "pca", "mean", "last-value"])
def test_linear_detectors_are_recognised_and_agree_with_calls(name):
    detector, train, test = fitted(name)
    settings = SpotSettings(
        shapes=("step", "ramp", "scale"), durations_s=(900.0,), rules=("energy", "z")
    )
    stream = export_stream(detector, train, test, rule=NO_RULE)
    arena = SpotArena.of_detector(
        detector, test, train, maker(stream, settings)(BUDGET), BUDGET, settings
    )
    assert arena.arena.stage.is_linear
    source = detector_rows(detector, test, arena.tags)
    called = AnyStage1(source, arena.arena.stage.memory, is_linear=True)
    rng = np.random.default_rng(0)
    falsifier = arena.arena.falsifiers[0]
    for target in arena.targets[:3]:
        for shape in target.shapes:
            views = [v[0] for v in arena.arena.views]
            closed = SpotCase(target, shape, falsifier, arena.arena.stage, views)
            by_call = SpotCase(target, shape, falsifier, called, views)
            sizes = rng.normal(size=len(closed.is_valid))
            weights = np.eye(len(arena.tags))
            np.testing.assert_allclose(
                closed.change(sizes).through(weights),
                by_call.change(sizes).through(weights),
                atol=1e-9,
            )


def test_the_whole_rule_rings_where_a_view_says_so():
    """`raises` equals the deployed rule on a record with the falsification written."""
    arena = residual_arena(0.5, shapes=("step",), durations_s=(900.0,))
    target = arena.targets[0]
    falsifier = arena.arena.falsifiers[0]
    for views in arena.arena.views:
        view = views[0]
        case = SpotCase(target, SHAPES["step"], falsifier, arena.arena.stage, [view])
        sizes = np.linspace(0.5, 8.0, len(case.is_valid))
        raised = view.raises(case.change(sizes))
        for place in (3, 17, 30):
            row = int(arena.row_places[place])
            rows = arena.record.rows.copy()
            rows[row : row + view.grid.rows, target.tags[0].column] += sizes[place]
            run = view.rule.run(rows, breaks=arena.record.breaks)
            inside = run.exceeds[row : row + len(view.grid.offsets)]
            usable = view.is_usable[place]
            assert (inside & usable == raised[place]).all()


def test_a_false_alarm_of_the_twin_is_never_a_sighting():
    arena = residual_arena(0.9, shapes=("step",), durations_s=(14_400.0,))
    nothing = RowChange(
        np.zeros((*arena.arena.views[0][0].is_usable.shape, len(arena.tags)))
    )
    for views in arena.arena.views:
        assert not views[0].raises(nothing).any()


def test_larger_budgets_see_smaller_deviations():
    arena = residual_arena(0.0, shapes=("step",), durations_s=(900.0,))
    rows = ar1(70_000, 4, 0.0, 0)
    stream = ResidualStream(rows[:20_000], rows[20_000:], step_s=10.0)
    curve = arena.trade_off(maker(stream, arena.settings))
    for rule in ("energy", "z", "all"):
        line = [p.deviation for p in curve if p.rule == rule]
        assert len(line) >= 3
        assert line == sorted(line, reverse=True)


class _Bent:
    """Residuals grow faster than the deviation: a detector that is not linear."""

    def fit(self, recording, /):
        self.mean = recording.values.mean(axis=0)
        return self

    def residuals(self, recording, /):
        away = recording.values - self.mean
        values = away + 0.05 * away**3
        return Residuals(
            values=values, index=np.arange(len(values)), channels=recording.channels
        )


def test_the_trade_off_of_a_detector_that_is_not_linear():
    _, train, test = fitted("mean")
    detector = _Bent().fit(train)
    spots = find_blind_spots(
        detector,
        test,
        train=train,
        shapes=["step"],
        durations_s=[900.0],
        tags=["LIT101", "AIT201"],
    )
    assert not spots.is_linear
    line = [p for p in spots.trade_off if p.rule == spots.chosen]
    assert len(line) >= 3
    sizes = [p.deviation for p in line]
    # A searched size is known to 5% on either side.
    assert sizes[-1] < sizes[0]
    assert all(b <= 1.1 * a for a, b in pairwise(sizes))
    # At the budget of the search the curve goes through the table, to its tolerance.
    (same,) = (p.deviation for p in line if p.budget_per_day == 6)
    table = [s.half.of_range for s in spots.of_rule(spots.chosen)]
    assert same == pytest.approx(np.exp(np.log(table).mean()), rel=0.1)


@pytest.mark.parametrize("name", ["var", "pca"])
def test_the_attacker_who_knows_rides_the_limit_and_never_crosses_it(name):
    detector, train, test = fitted(name)
    settings = SpotSettings(
        shapes=("step",), durations_s=(900.0,), rules=("energy", "z", "group~")
    )
    stream = export_stream(detector, train, test, rule=NO_RULE)
    arena = SpotArena.of_detector(
        detector, test, train, maker(stream, settings)(BUDGET), BUDGET, settings
    )
    stage, tag = arena.arena.stage, arena.targets[0].tags[0]
    taps, falsifier = stage.taps[tag.column], arena.arena.falsifiers[0]
    for views in arena.arena.views:
        view = views[0]
        place = int(np.flatnonzero(view.is_usable.all(axis=1))[0])
        best = largest_deviation(view, taps, place, 10 * tag.range)
        assert best is not None
        rings = []
        for factor in (0.999, 1.02):
            delta = np.zeros((len(falsifier.rows.places), len(falsifier.rows.offsets)))
            delta[place, falsifier.rows.is_falsified] = factor * best
            change = stage.change({tag.column: delta}, falsifier.rows)
            rings.append(view.raises(change)[place, view.grid.is_judged].any())
        assert rings == [False, True]
        # Nobody who only holds one value can do better.
        case = SpotCase(arena.targets[0], SHAPES["step"], falsifier, stage, [view])
        first, _ = case._first_sizes(
            view, case.unit_change(np.ones(len(case.is_valid)))
        )
        assert best.mean() >= 0.999 * first[0][place]


def test_what_can_be_held_for_good_is_held():
    detector, train, test = fitted("pca")
    settings = SpotSettings(shapes=("step",), durations_s=(900.0,), rules=("energy",))
    stream = export_stream(detector, train, test, rule=NO_RULE)
    arena = SpotArena.of_detector(
        detector, test, train, maker(stream, settings)(BUDGET), BUDGET, settings
    )
    tag = arena.targets[0].tags[0]
    view = arena.arena.views[0][0]
    held = held_for_good(view, arena.arena.stage.taps[tag.column])
    spots = [s for s in arena.search() if s.tag == tag.name]
    # PCA keeps no memory: a deviation that lasts is seen a little earlier.
    assert max(s.half.size for s in spots) <= 1.05 * held


@pytest.mark.parametrize("name", ["var", "pca"])
@pytest.mark.parametrize("rule", ["energy", "group~"])
def test_who_does_not_know_the_readings_is_seen_at_half_of_the_places(name, rule):
    detector, train, test = fitted(name)
    settings = SpotSettings(
        shapes=("step",), durations_s=(900.0, 3600.0), rules=(rule,)
    )
    stream = export_stream(detector, train, test, rule=NO_RULE)
    arena = SpotArena.of_detector(
        detector, test, train, maker(stream, settings)(BUDGET), BUDGET, settings
    )
    view, one = arena.arena.views[0][1], next(arena.attackers(arena.search()))
    assert one.unread_s == 3600.0
    assert 0 < one.held_unread < one.held
    column = test.channels.index(one.tag)
    rows = arena.row_places[:, None] + view.grid.offsets
    counts = (view.is_usable & view.grid.is_judged).any(axis=1)
    for factor, is_half in ((0.999, False), (1.001, True)):
        shares = []
        for sign in (1, -1):
            # The deviation is there from the first row of the record on.
            values = test.values.copy()
            values[:, column] += sign * factor * one.held_unread
            made = export_rows(detector, replace(test, values=values))
            run = view.rule.run(made.values, breaks=made.breaks)
            rings = run.exceeds[rows] & view.is_usable & view.grid.is_judged
            shares.append(rings.any(axis=1)[counts].mean())
        # The attacker takes the sign that is seen later.
        assert (min(shares) >= 0.5) == is_half


def test_steps_of_both_signs_and_own_shapes_are_found():
    own = OwnShape("pulse", [0.0, 100.0], [1.0, 0.0])
    arena = residual_arena(
        0.0, rules=("x",), shapes=("step",), own_shapes=(own,), durations_s=(900.0,)
    )
    spots = arena.search()
    assert {(s.shape, s.sign) for s in spots} == {
        ("step", 1),
        ("step", -1),
        ("pulse", 1),
        ("pulse", -1),
    }
    mean = {
        name: np.mean([s.half.size for s in spots if s.shape == name])
        for name in ("step", "pulse")
    }
    assert mean["pulse"] > mean["step"]


def test_the_table_depends_on_neither_jobs_nor_order():
    few = {"shapes": ("step", "noise"), "durations_s": (60.0,)}
    one = residual_arena(0.3, jobs=1, **few).search()
    two = residual_arena(0.3, jobs=2, **few).search()
    assert one == two


@pytest.mark.parametrize("name", ["var", "pca"])
def test_the_formula_is_near_what_injections_say(name):
    detector, train, test = fitted(name)
    settings = SpotSettings(shapes=("step",), durations_s=(900.0,), rules=("energy",))
    stream = export_stream(detector, train, test, rule=NO_RULE)
    arena = SpotArena.of_detector(
        detector, test, train, maker(stream, settings)(BUDGET), BUDGET, settings
    )
    ratios = [s.half.size / s.analytic for s in arena.search()]
    # It knows no noise, which lifts some of 90 rows towards the limit.
    assert 0.25 < min(ratios) <= max(ratios) < 1.1


def counted(respond, calls):
    """Return `seen` and `predicted` of a response, with the places that were tried."""

    def seen(sizes):
        calls.append(np.count_nonzero(sizes))
        # A place that is known already must not change, whatever is returned for it.
        return np.where(sizes > 0, respond(sizes) >= 1.0, np.arange(len(sizes)) % 2)

    def predicted(sizes):
        with np.errstate(divide="ignore", invalid="ignore"):
            return sizes / respond(sizes)

    return seen, predicted


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_a_search_with_predictions_finds_the_same_sizes_in_fewer_calls(power):
    rng = np.random.default_rng(3)
    truth = np.append(np.exp(rng.normal(size=37)), [1e4, 50.0, 1e9])
    largest = np.append(np.full(37, 1e3), [1e3, 40.0, 0.0])
    start = np.minimum(truth * np.exp(rng.normal(size=40)), largest)
    plain, fewer = [], []
    for calls in (plain, fewer):
        seen, predicted = counted(lambda a: (a / truth) ** power, calls)
        found = searched(
            seen, start, largest, predicted=predicted if calls is fewer else None
        )
        assert np.isinf(found[37:]).all()
        np.testing.assert_allclose(found[:37], truth[:37], rtol=0.05)
    assert sum(fewer) < 0.8 * sum(plain)


def test_a_misleading_prediction_does_no_harm():
    truth = np.geomspace(0.01, 100.0, 20)
    for misleading in (0.0, 1e-6, 3.0, np.inf, np.nan):
        found = searched(
            lambda a: a >= truth,
            np.ones(20),
            1e3,
            predicted=lambda a, value=misleading: np.full(20, value),
        )
        np.testing.assert_allclose(found, truth, rtol=0.05)


def test_places_where_nothing_is_added_are_not_read():
    detector, train, test = fitted("var")
    settings = SpotSettings(shapes=("step",), durations_s=(900.0,), rules=("energy",))
    from sightline.export import NO_RULE, export_stream

    stream = export_stream(detector, train, test, rule=NO_RULE)
    arena = SpotArena.of_detector(
        detector, test, train, maker(stream, settings)(BUDGET), BUDGET, settings
    )
    source = detector_rows(detector, test, arena.tags)
    stage = AnyStage1(source, arena.arena.stage.memory, is_linear=False)
    view, target = arena.arena.views[0][0], arena.targets[0]
    case = SpotCase(target, SHAPES["step"], arena.arena.falsifiers[0], stage, [view])
    sizes = np.ones(len(case.is_valid))
    whole = case.change(sizes).rows
    n_read = []
    read = source.through
    object.__setattr__(
        source, "through", lambda rows: n_read.append(len(rows.breaks)) or read(rows)
    )
    sizes[::2] = 0.0
    some = case.change(sizes).rows
    assert n_read == [len(sizes) // 2]
    assert (some[::2] == 0).all()
    np.testing.assert_allclose(some[1::2], whole[1::2], atol=1e-12)
    case.change(0 * sizes)
    assert len(n_read) == 1
