"""Tags that hide one another: laws, an oracle, and falsified telemetry."""

from dataclasses import replace

import numpy as np
import pytest
from blind_records import fitted
from hidden_together import Truth
from scipy.optimize import lsq_linear

from sightline import ResidualStream, commission, find_blind_spots, make_detector
from sightline.blindspots.result import (
    BlindSpot,
    SpotOutcome,
    helped,
    together_row,
    unseen_sentences,
)
from sightline.blindspots.search import SpotArena, SpotSettings, maker
from sightline.blindspots.shapes import SHAPES
from sightline.blindspots.together import Helpers, _within_box, within
from sightline.errors import StreamError
from sightline.export import NO_RULE, export_stream
from sightline.rules.limits import Budget
from sightline.show.blind_spots import together_table

BUDGET = Budget(per_day=6, share=0.01)


def searched(name, rule, shapes=("step", "ramp"), seed=0):
    detector, train, test = fitted(name)
    settings = SpotSettings(
        shapes=shapes, durations_s=(900.0,), rules=(rule,), seed=seed
    )
    stream = export_stream(detector, train, test, rule=NO_RULE)
    made = maker(stream, settings)(BUDGET)
    arena = SpotArena.of_detector(detector, test, train, made, BUDGET, settings)
    return arena, made


@pytest.mark.parametrize("rule", ["energy", "z", "group~"])
@pytest.mark.parametrize("name", ["var", "pca"])
def test_sizes_with_others_are_seen_as_stated_in_falsified_telemetry(name, rule):
    """The whole record through detector and rule says what the closed form says."""
    arena, made = searched(name, rule)
    made = replace(made, facts=replace(made.facts, chosen=rule))
    found = arena.result("x").together
    truth = Truth(fitted(name)[0], fitted(name)[2], made)
    assert {one.count for one in found} == {0, 1, 2, 5, None}
    for one in found:
        if one.tag in ("LIT101", "AIT201"):
            share, n = truth.share(one, arena)
            # Some places lie too near to one another to be written at once.
            assert n >= 25
            assert share == pytest.approx(one.share_seen, abs=0.1), one


@pytest.mark.parametrize("rule", ["energy", "all"])
def test_more_others_never_make_the_size_smaller_and_alone_is_the_table(rule):
    arena, _ = searched("pca", rule)
    spots = arena.result("x")
    by_tag = {}
    for one in spots.together:
        by_tag.setdefault(one.tag, []).append(one)
    assert len(by_tag) == 4  # the pump is no sensor
    table = {(s.tag, s.shape, s.sign): s for s in spots.of_rule()}
    for tag, row in by_tag.items():
        sizes = [one.size for one in row]
        assert sizes == sorted(sizes)
        alone = table[tag, row[0].shape, row[0].sign]
        if row[0].outcome is SpotOutcome.SEEN:
            assert sizes[0] == pytest.approx(alone.half.size, rel=1e-6)
        for one in row:
            assert len(one.others) <= (one.count if one.count is not None else 3)
            assert len(one.others) == len(one.factors)
    assert any(row[-1].size > 1.2 * row[0].size for row in by_tag.values())


def test_the_others_cancel_all_that_they_can():
    """Where no limit stops them: the inverse of the products of the answers."""
    arena, _ = searched("pca", "energy", ("step",))
    tags = [
        replace(within(tag), least=-1e9, most=1e9)
        for tag in arena.tags
        if tag.role != "actuator"
    ]
    view = arena.arena.views[0][0]
    helpers = Helpers(
        arena.arena.stage, view, arena.arena.falsifiers[0], SHAPES["step"], tags
    )
    products = helpers.answers.T @ helpers.answers
    for target in range(4):
        others = [j for j in range(4) if j != target]
        first, second = helpers.moves(target, others, 1)
        whole = np.insert(first, target, 1.0)
        least = 1 / np.sqrt(np.linalg.inv(products)[target, target])
        assert np.linalg.norm(helpers.answers @ whole) == pytest.approx(least)
        # One unit, the energy: evening out has nothing to do but over rows.
        evened = np.abs(helpers.answers @ np.insert(second, target, 1.0))
        assert np.linalg.norm(evened) >= least * (1 - 1e-9)
        # The first selected is the best single one.
        (best,) = helpers.selected(target, 1)
        left = [
            np.linalg.lstsq(helpers.answers[:, [j]], helpers.answers[:, target])[1][0]
            for j in others
        ]
        assert best == others[int(np.argmin(left))]


def test_values_within_bounds_are_near_the_exact_solution():
    rng = np.random.default_rng(0)
    for _ in range(30):
        columns, wanted = rng.normal(size=(12, 5)), rng.normal(size=12)
        low, high = -rng.random(5) * 0.3, rng.random(5) * 0.3
        found = _within_box(columns, wanted, low, high)
        exact = lsq_linear(columns, wanted, (low, high)).x
        assert (found >= low - 1e-12).all()
        assert (found <= high + 1e-12).all()
        ours, best = (np.linalg.norm(columns @ x - wanted) for x in (found, exact))
        assert ours <= 1.1 * best


def test_what_cannot_be_computed_is_said_with_its_reason():
    rows = np.random.default_rng(0).normal(size=(60_000, 3))
    stream = ResidualStream(rows[:20_000], rows[20_000:], step_s=10.0)
    settings = SpotSettings(shapes=("step",), durations_s=(900.0,), rules=("z",))
    made = maker(stream, settings)(BUDGET)
    spots = SpotArena.of_stream(stream, made, BUDGET, settings).result("x")
    assert spots.together == ()
    assert any("not computed: which tags move a residual" in n for n in spots.notes)
    arena, _ = searched("pca", "cusum", ("step",))
    spots = arena.result("x")
    assert any("rule 'cusum' remembers is not linear" in n for n in spots.notes)


def test_sentences_tables_and_files_show_both():
    arena, _ = searched("pca", "energy")
    spots = arena.result("x")
    table = together_table(spots, 2)
    assert [c.header for c in table.columns][2:] == [
        "alone",
        "with 1",
        "with 2",
        "with 5",
        "with any",
    ]
    assert len(table.records) == 2
    last = [one for one in spots.together if one.others][-1]
    assert together_row(last)["others"] == "; ".join(last.others)
    assert any(" Together with " in line for line in spots.sentences)
    assert helped([one for one in spots.together if one.count == 0][:1]) == ""


def test_frozen_dead_and_replayed_tags_are_in_the_sentences():
    detector, train, test = fitted("pca")
    spots = find_blind_spots(
        detector, test, train=train, durations_s=[60.0], shapes=["frozen", "dead"]
    )
    missed = {s.tag for s in spots.of_rule() if s.share_seen < 0.5}
    lines = unseen_sentences(spots)
    assert all("misses this in more than half of the tries" in line for line in lines)
    assert missed == {tag for tag in missed if any(tag in line for line in lines)}
    # All read about 100, so that 0 is seen at once.
    dead = [s for s in spots.of_rule() if s.shape == "dead"]
    assert dead
    assert all(s.share_seen == 1 for s in dead if s.tag != "P101")
    assert isinstance(spots.spots[0], BlindSpot)


def test_in_residual_space_no_reading_falls_below_zero():
    """A level at 600 cannot drift down by 1,616: the stream's telemetry says so."""
    rng = np.random.default_rng(3)
    residuals = rng.normal(size=(60_000, 2))
    levels = 4 + np.abs(rng.normal(size=(60_000, 2)))
    known = ResidualStream(
        residuals[:20_000],
        residuals[20_000:],
        channels=["a", "b"],
        step_s=10.0,
        telemetry_train=levels[:20_000],
        telemetry_test=levels[20_000:],
        telemetry_channels=["b", "a"],
    )
    plain = known.replace(telemetry_train=None, telemetry_test=None)
    settings = SpotSettings(shapes=("step",), durations_s=(60.0,), rules=("energy",))
    outcomes = []
    for stream in (known, plain):
        low = stream.replace(telemetry_channels=stream.telemetry_channels or None)
        made = maker(low, settings)(BUDGET)
        found = SpotArena.of_stream(low, made, BUDGET, settings)
        outcomes.append({s.sign: s for s in found.search() if s.tag == "a"})
    assert outcomes[0][1] == outcomes[1][1]
    assert outcomes[1][-1].half.size > 0
    sizes = levels[20_000:, 1]
    low = outcomes[0][-1]
    assert low.half.size is None or low.half.size <= sizes.max()


def test_a_rule_of_a_file_is_judged_as_it_is(tmp_path):
    from sightline import read_rule, write_rule

    detector, train, test = fitted("pca")
    time = np.arange(test.n_steps) * 10.0 + 1.7e9
    stream = export_stream(detector, train, replace(test, time=time), rule=NO_RULE)
    made = commission(stream, budget="6/day,1%", choose="z")
    write_rule(made, tmp_path / "rule.json")
    rule = read_rule(tmp_path / "rule.json")
    spots = find_blind_spots(
        detector,
        replace(test, time=time),
        rule,
        train=train,
        shapes=["step"],
        durations_s=[900.0],
    )
    assert [one.name for one in spots.rules] == ["z"]
    # Rows that set the limit hold no place.
    assert spots.days == pytest.approx(test.n_steps * 0.65 / 8640, rel=0.01)
    with pytest.raises(StreamError, match="made for other channels"):
        find_blind_spots(
            make_detector("pca").fit(of_three(train)), of_three(test), rule
        )


def of_three(recording):
    return replace(recording, values=recording.values[:, :3], tags=recording.tags[:3])
