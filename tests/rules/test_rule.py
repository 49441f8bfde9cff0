"""A rule in all its forms: batch, in pieces, live; against plain numpy and Python."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline import StreamError
from sightline._kernels.alarms import join_members
from sightline.metrics.alarm_load import Delays
from sightline.rules.named import default_rules
from sightline.rules.rule import Memory, View
from tests import strategies
from tests.rules.made_rules import BY_NAME, made_rules, one_score, plant_stream

EVERY = (*default_rules(has_stages=True), *BY_NAME)
N_ROWS = 1300


def record(n_rows=N_ROWS):
    """Return rows with an attack, so that rules ring and members are shelved."""
    stream = plant_stream()
    rows = np.concatenate(list(stream.test.chunks()))
    return rows[700 : 700 + n_rows].copy(), stream.score[700 : 700 + n_rows]


def nervous(name):
    """Return a rule that rings often, shelves soon, and needs 2 of 3 exceedances."""
    rule = made_rules().rules[name].rule
    delays = Delays(on=2, within=3, off=4, unit=14)
    return replace(rule, limit=rule.limit / 3, delays=delays)


def assert_same(one, other):
    for key in ("trace", "exceeds", "in_alarm", "leading", "unit", "shelved"):
        np.testing.assert_array_equal(getattr(one, key), getattr(other, key))
    np.testing.assert_array_equal(one.episodes.starts, other.episodes.starts)
    np.testing.assert_array_equal(one.episodes.lasts, other.episodes.lasts)


@pytest.mark.parametrize("name", EVERY)
@settings(deadline=None, max_examples=8)
@given(data=st.data())
def test_batch_pieces_and_live_agree_to_the_last_bit(name, data):
    rule, (rows, score) = nervous(name), record()
    breaks = data.draw(strategies.breaks(N_ROWS))
    cuts = data.draw(strategies.cuts(N_ROWS))
    whole = rule.run(rows, breaks=breaks, score=score)
    assert 0 < whole.in_alarm.sum() < N_ROWS
    pieces = rule.run(strategies.ChunkedRows(rows, cuts), breaks=breaks, score=score)
    assert_same(whole, pieces)
    state, begins = rule.start(), set(breaks.tolist())
    live = [
        state.update(row, after_break=t in begins, score=own)
        for t, (row, own) in enumerate(zip(rows, score, strict=True))
    ]
    np.testing.assert_array_equal(live, whole.in_alarm)


@pytest.mark.parametrize("name", EVERY)
@settings(deadline=None, max_examples=5)
@given(data=st.data())
def test_later_rows_change_nothing(name, data):
    rule, (rows, score) = nervous(name), record()
    stop = data.draw(st.integers(1, N_ROWS - 1))
    whole = rule.run(rows, score=score)
    cut = rule.run(rows[:stop], score=score[:stop])
    np.testing.assert_array_equal(cut.in_alarm, whole.in_alarm[:stop])
    np.testing.assert_array_equal(cut.trace, whole.trace[:stop])
    rows[stop:] = 1e6
    changed = rule.run(rows, score=score)
    np.testing.assert_array_equal(changed.in_alarm[:stop], whole.in_alarm[:stop])


def test_rows_of_less_precision_are_read_as_they_are():
    rule, (rows, _) = nervous("all"), record()
    narrow = rows.astype(np.float32)
    one, other = rule.run(narrow), rule.run(narrow.astype(np.float64))
    assert_same(one, other)


# --- Against plain numpy --------------------------------------------------------------


@pytest.mark.parametrize("name", ["x", "z", "group", "energy"])
def test_views_are_sums_in_the_order_of_the_channels(name):
    rule, (rows, _) = made_rules().rules[name].rule, record(200)
    (view,) = rule.views
    expected = np.zeros((200, view.n_columns))
    for j, channel in enumerate(view.order):
        y = rows[:, channel] - view.mean[channel]
        reach = slice(view.first[j], view.stop[j])
        expected[:, reach] = expected[:, reach] + y[:, None] * view.weights[j, reach]
    np.testing.assert_array_equal(view.of(rows), expected)


def test_scores_are_the_formulas_of_their_names():
    made, (rows, _) = made_rules(), record(300)
    normal = made.source.normal
    y = rows - normal.reference.mean
    precision = normal.standardised.precision
    of_view = {
        "x": np.abs(y),
        "z": np.abs(y @ precision / np.sqrt(np.diag(precision))),
        "energy": half_squares(y, normal.reference.covariance)[:, None],
        "group": np.stack(
            [
                half_squares(y[:, g], normal.reference.covariance[np.ix_(g, g)])
                for g in ([0, 1, 2], [3, 4], [5])
            ],
            axis=1,
        ),
    }
    for name, values in of_view.items():
        rule = made.rules[name].rule
        (member,) = rule.members
        trace = (values / member.levels).max(axis=1)
        np.testing.assert_allclose(rule.run(rows).trace, trace, rtol=1e-9)
    rule = made.rules["rows"].rule
    joined = [(of_view[m.name] / m.levels).max(axis=1) / m.limit for m in rule.members]
    np.testing.assert_allclose(rule.run(rows).trace, np.max(joined, axis=0), rtol=1e-9)


def half_squares(y, covariance):
    return 0.5 * np.einsum("ti,ij,tj->t", y, np.linalg.inv(covariance), y)


@pytest.mark.parametrize("name", ["x~", "z~", "group~", "cusum", "log-energy~"])
def test_memory_is_the_recursion_of_its_name(name):
    rule, (rows, _) = made_rules().rules[name].rule, record(300)
    (member,), (view,) = rule.members, rule.views
    seen = view.of(rows)
    if member.memory is Memory.AVERAGE:
        assert member.span == 6  # five minutes are fewer than six rows of a minute
        values = energies_or_sizes(averaged(seen - member.centre, 2 / 7), view.bounds)
    elif member.memory is Memory.LOG_AVERAGE:
        log = np.log(energies_or_sizes(seen, view.bounds))
        values = np.maximum(averaged(log - member.centre, 2 / 7), 0)
    else:
        up, down, values = 0.0, 0.0, []
        for y in seen - member.centre:
            up = np.maximum(0, up + y - member.allowance)
            down = np.maximum(0, down - y - member.allowance)
            values.append(np.maximum(up, down))
    expected = (np.asarray(values) / member.levels).max(axis=1)
    np.testing.assert_allclose(rule.run(rows).trace, expected, rtol=1e-9)


def averaged(values, weight):
    state, found = 0.0, []
    for value in values:
        state = state + weight * (value - state)
        found.append(state)
    return np.array(found)


def energies_or_sizes(values, bounds):
    if bounds is None:
        return np.abs(values)
    squares = 0.5 * values**2
    return np.stack(
        [squares[:, a:b].sum(axis=1) for a, b in pairwise(bounds)],
        axis=1,
    )


def test_too_little_is_the_other_side_of_the_logarithm():
    rules, (rows, _) = made_rules().rules, record(300)
    quiet, loud = rules["quiet~"].rule, rules["log-energy~"].rule
    np.testing.assert_array_equal(
        (quiet.run(rows).trace > 0), (loud.run(rows).trace == 0)
    )
    still = np.repeat(rules["x"].rule.views[0].mean[None], 60, axis=0)
    assert quiet.alarms(still).any()
    assert not loud.alarms(still).any()


def test_the_largest_few_count_in_units_of_their_own_levels():
    rule, (rows, _) = made_rules().rules["largest3"].rule, record(300)
    (member,), (view,) = rule.members, rule.views
    ratios = np.sort(np.abs(view.of(rows)) / member.levels, axis=1)[:, ::-1]
    expected = 0.5 * np.sum(ratios[:, :3] ** 2, axis=1)
    np.testing.assert_allclose(rule.run(rows).trace, expected, rtol=1e-12)
    more = replace(rule, members=(replace(member, largest=99),))
    expected = 0.5 * np.sum(ratios**2, axis=1)
    np.testing.assert_allclose(more.run(rows).trace, expected, rtol=1e-12)


def test_the_own_score_rings_only_where_it_is_large():
    rule, (rows, score) = made_rules().rules["score"].rule, record()
    (member,) = rule.members
    trace = rule.run(rows, score=score).trace
    np.testing.assert_array_equal(trace, np.maximum(score - member.centre, 0))
    low = np.full(N_ROWS, -1e9)
    assert not rule.alarms(rows, score=low).any()


def test_a_rule_of_one_score_rings_only_where_it_is_large():
    for made in one_score().rules.values():
        assert not made.rule.alarms(np.full((400, 1), -1e6)).any()
        assert made.rule.alarms(np.full((400, 1), 1e6)).any()


def test_episodes_say_how_often_they_count_where_labels_are_known():
    rule, (rows, _) = made_rules().rules["x"].rule, record()
    rows[:] = rule.views[0].mean
    for t in (100, 305, 405, 600):
        rows[t, 0] = 1e4
    rows[800:950, 0] = 1e4  # two hours and a half
    labels = np.zeros(N_ROWS, int)
    labels[300:400] = 1  # 405 is within ten minutes after it
    found = rule.episodes(rows, labels=labels)
    assert found.starts.tolist() == [100, 305, 405, 600, 800]
    assert found.counts.tolist() == [1, 0, 0, 1, 3]
    assert rule.episodes(rows).counts is None
    with pytest.raises(StreamError, match=r"each of the 1,300 rows; it has 4"):
        rule.episodes(rows, labels=[0, 0, 1, 0])


def test_the_leading_member_is_one_that_rings():
    rule, (rows, _) = nervous("all"), record()
    run = rule.run(rows)
    assert run.shelved.any()
    rings = np.flatnonzero(run.exceeds)
    assert not run.shelved[rings, run.leading[rings]].any()
    assert (run.trace[rings] > rule.limit).all()


# --- Shelving -------------------------------------------------------------------------


def shelved_by_definition(exceeds, off, unit):
    """Return where a member is shelved: in alarm for `unit` rows, then below it."""
    shelved, is_shelved, begin, last = [], False, None, None
    quiet_since = 0
    for t, e in enumerate(exceeds):
        if begin is not None and not e and t - last > off:
            begin = None
        if e:
            begin = t if begin is None else begin
            last, quiet_since = t, t + 1
        if is_shelved and t + 1 - quiet_since >= unit:
            is_shelved, begin = False, None
        elif e and t - begin >= unit:
            is_shelved = True
        shelved.append(is_shelved)
    return np.array(shelved, bool)


@settings(deadline=None)
@given(
    strategies.codes([0, 1], most=200),
    strategies.codes([0, 1], most=200),
    st.integers(0, 6),
    st.integers(1, 20),
    st.data(),
)
def test_members_are_shelved_and_come_back_as_defined(one, other, off, unit, data):
    n = min(len(one), len(other))
    exceeds = np.stack([one[:n], other[:n]], axis=1).astype(bool)
    stop = data.draw(st.integers(0, n))
    state = np.zeros((2, 3), np.int64)
    out, shelved = np.empty(n, bool), np.empty((n, 2), bool)
    for part in (slice(0, stop), slice(stop, n)):
        join_members(exceeds[part], off, unit, state, out[part], shelved[part])
    columns = [shelved_by_definition(column, off, unit) for column in exceeds.T]
    expected = np.stack(columns, axis=1)
    np.testing.assert_array_equal(shelved, expected)
    np.testing.assert_array_equal(out, (exceeds & ~expected).any(axis=1))
    # Without a unit none is ever shelved.
    join_members(exceeds, off, 0, np.zeros((2, 3), np.int64), out, shelved)
    assert not shelved.any()
    np.testing.assert_array_equal(out, exceeds.any(axis=1))


def test_a_standing_member_leaves_the_others_to_ring():
    rule, (rows, _) = made_rules().rules["rows"].rule, record()
    rows[:] = rule.views[0].mean
    rows[100:1200, 0] = 1e4  # stands
    rows[700:703, 4] = 1e7  # a short one, seen by z and group of another stage
    shelving, plain = rule.run(rows), replace(rule, shelves=False).run(rows)
    assert plain.episodes.starts.tolist() == [100]
    assert shelving.episodes.starts[0] == 100
    assert shelving.episodes.lasts[0] < 100 + rule.delays.unit
    assert shelving.shelved[400].any()
    assert (shelving.standing == (plain.exceeds & ~shelving.exceeds)).all()


# --- Refusals -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"rows": np.zeros((5, 4))}, "reads 6 channels .* the rows have 4"),
        ({"rows": np.full((5, 6), np.nan)}, "got nan for the channel 'LIT101'"),
        ({"rows": np.full((5, 6), -1e100)}, "got -1e.100 for the channel"),
        ({"rows": np.zeros(6)}, r"must have shape \(rows, channels\)"),
        ({"score": None}, "reads the detector's own score"),
        ({"score": np.zeros(4)}, "one value for each of the 5 rows; it has 4"),
    ],
)
def test_rows_that_do_not_fit_are_refused(change, sentence):
    rule = made_rules().rules["score"].rule
    given = {"rows": np.zeros((5, 6)), "score": np.zeros(5)} | change
    with pytest.raises(StreamError, match=sentence):
        rule.alarms(given["rows"], score=given["score"])


def test_a_row_that_is_refused_leaves_the_live_rule_as_it_was():
    rule, (rows, _) = nervous("all"), record(400)
    state, other = rule.start(), rule.start()
    for row in rows[:200]:
        state.update(row)
        other.update(row)
    with pytest.raises(StreamError, match="got inf"):
        state.update(np.append(rows[0, :5], np.inf))
    with pytest.raises(StreamError, match="reads 6 channels"):
        state.update(np.zeros(3))
    alarms = [state.update(row) == other.update(row) for row in rows[200:]]
    assert all(alarms)


def test_large_values_leave_no_trace_that_is_not_a_number():
    for name in EVERY:
        rule, (rows, score) = made_rules().rules[name].rule, record(300)
        rows[50] = 9e99
        run = rule.run(rows, score=score)
        assert not np.isnan(run.trace).any()
        if View.SCORE not in {m.view for m in rule.members} and name != "quiet~":
            assert run.in_alarm[50]


def test_an_empty_record_has_no_alarms():
    for name in EVERY:
        rule = made_rules().rules[name].rule
        assert len(rule.alarms(np.empty((0, 6)), score=np.empty(0))) == 0
