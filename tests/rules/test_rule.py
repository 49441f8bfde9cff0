"""A rule in all its forms: batch, in pieces, live; against plain numpy and Python."""

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline import StreamError
from sightline._kernels.alarms import serve_units
from sightline.metrics.alarm_load import Delays
from sightline.rules.named import default_rules
from sightline.rules.rule import Memory, View
from sightline.rules.standalone import RuleSteps
from tests import strategies
from tests.rules.made_rules import BY_NAME, made_rules, one_score, plant_stream

EVERY = (*default_rules(has_stages=True), *BY_NAME)
N_ROWS = 1300
BY_ROW = ("trace", "exceeds", "in_alarm", "leading", "unit", "standing", "n_out")


def record(n_rows=N_ROWS):
    """Return rows with an attack, so that rules ring and units stand."""
    stream = plant_stream()
    rows = np.concatenate(list(stream.test.chunks()))
    return rows[700 : 700 + n_rows].copy(), stream.score[700 : 700 + n_rows]


def stood():
    """Return the same with two tags that stand, one after the other."""
    rows, score = record()
    rows[200:500, 2] += 20 * rows[:, 2].std()
    rows[900:960, 1] -= 30 * rows[:, 1].std()
    rows[1000:1050] = rows.mean(axis=0)
    return rows, score


def nervous(name):
    """Return a rule that rings often, soon takes units out, and needs 2 of 3.

    Its nights are short, so that what jumps is asked about.
    """
    rule = made_rules().rules[name].rule
    delays = Delays(on=2, within=3, off=4, unit=14)
    return replace(rule, limit=rule.limit / 3, delays=delays, night=110)


def assert_same(one, other):
    for key in (*BY_ROW, "service"):
        np.testing.assert_array_equal(getattr(one, key), getattr(other, key))
    assert one.questions == other.questions
    np.testing.assert_array_equal(one.episodes.starts, other.episodes.starts)
    np.testing.assert_array_equal(one.episodes.lasts, other.episodes.lasts)


@pytest.mark.parametrize("name", EVERY)
@settings(deadline=None, max_examples=6)
@given(data=st.data())
def test_batch_pieces_live_and_restored_agree_to_the_last_bit(name, data):
    rule, (rows, score) = nervous(name), stood()
    if data.draw(st.booleans()):
        rows = with_holes(rows)
    breaks = data.draw(strategies.breaks(N_ROWS))
    cuts = data.draw(strategies.cuts(N_ROWS))
    whole = rule.run(rows, breaks=breaks, score=score)
    assert 0 < whole.in_alarm.sum() < N_ROWS
    assert bool(whole.questions) == bool(rule.views)
    pieces = rule.run(strategies.ChunkedRows(rows, cuts), breaks=breaks, score=score)
    assert_same(whole, pieces)
    state, begins, live = rule.start(), set(breaks.tolist()), []
    for t, (row, own) in enumerate(zip(rows, score, strict=True)):
        if t in cuts:
            state = rule.start(state.arrays())
        live.append(state.update(row, after_break=t in begins, score=own))
    np.testing.assert_array_equal(live, whole.in_alarm)


def with_holes(rows, seed=0):
    """Return rows of which some lack channels: single cells, and one for a while."""
    rng = np.random.default_rng(seed)
    rows = rows.copy()
    lacks = rng.random(rows.shape) < 0.02
    lacks[300:700, 3] = True
    lacks[lacks.all(axis=1), 0] = False
    rows[lacks] = np.nan
    return rows


@pytest.mark.parametrize("name", EVERY)
def test_plain_numpy_takes_the_same_units_out_of_service(name):
    rule, (rows, score) = nervous(name), stood()
    rows = with_holes(rows)
    whole = rule.run(rows, breaks=[700], score=score)
    assert whole.n_out.any()
    steps, pieces = RuleSteps(rule), []
    for start in range(0, N_ROWS, 100):
        if start == 700:
            steps.restart()
        part = slice(start, start + 100)
        own = score[part] if rule.needs_score else None
        pieces.append((start, steps.judge(steps.scores(rows[part], own))))
    for key in ("exceeds", "in_alarm", "standing", "n_out"):
        joined = np.concatenate([getattr(piece, key) for _, piece in pieces])
        np.testing.assert_array_equal(joined, getattr(whole, key))
    trace = np.concatenate([piece.trace for _, piece in pieces], axis=1).max(axis=0)
    assert trace.tobytes() == whole.trace.tobytes()
    service = [(at + row, *rest) for at, one in pieces for row, *rest in one.service]
    np.testing.assert_array_equal(service, whole.service)


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
    # The last is out of service after an hour.
    assert found.counts.tolist() == [1, 0, 0, 1, 2]
    assert rule.episodes(rows).counts is None
    with pytest.raises(StreamError, match=r"each of the 1,300 rows; it has 4"):
        rule.episodes(rows, labels=[0, 0, 1, 0])


def test_the_leading_member_is_one_that_rings():
    rule, (rows, _) = nervous("all"), record()
    run = rule.run(rows)
    assert run.n_out.any()
    for m in range(len(rule.members)):
        rows = np.flatnonzero(run.exceeds & (run.leading == m))
        assert not run.is_out(m, rows)[np.arange(len(rows)), run.unit[rows]].any()
    assert (run.trace[run.exceeds] > rule.limit).all()


# --- Out of service -------------------------------------------------------------------


def out_by_definition(exceeds, off, unit, back):
    """Return where a unit is out of service: after `unit` rows, until `back`."""
    out, is_out, begin, last = [], False, None, None
    for t, e in enumerate(exceeds):
        if begin is not None and t - last - (1 if e else 0) > off:
            begin = None
        if e:
            begin, last = t if begin is None else begin, t
        if is_out and t - last >= back:
            is_out, begin = False, None
        elif e and t - begin >= unit:
            is_out = True
        out.append(is_out)
    return np.array(out, bool)


def served(ratios, limit, off, unit, back, stop):
    """Return what `serve_units` makes of ratios, cut at a row and at every change."""
    n, q = ratios.shape
    state = np.zeros((q, 3), np.int64)
    ringing, which = ratios.max(axis=1), ratios.argmax(axis=1)
    standing, n_out = np.zeros(n, bool), np.zeros(n, np.int16)
    for part in (slice(0, stop), slice(stop, n)):
        row, rows = 0, ratios[part]
        while row < len(rows):
            row = serve_units(
                *(rows, np.ones(q), 1.0, limit, off, unit, back, state, row),
                *(ringing[part], which[part], standing[part], n_out[part]),
            )
    return ringing, which, standing, n_out


@settings(deadline=None)
@given(
    strategies.codes([0, 1], most=200),
    strategies.codes([0, 1], most=200),
    st.integers(0, 6),
    st.integers(1, 20),
    st.integers(1, 30),
    st.data(),
)
def test_units_leave_and_return_as_defined(one, other, off, unit, back, data):
    n = min(len(one), len(other))
    ratios = np.stack([one[:n] * 2.0, other[:n] * 3.0], axis=1)
    stop = data.draw(st.integers(0, n))
    columns = [out_by_definition(c, off, unit, back) for c in (ratios > 1.0).T]
    is_out = np.stack(columns, axis=1)
    ringing, which, standing, n_out = served(ratios, 1.0, off, unit, back, stop)
    left = np.where(is_out, -1.0, ratios)
    np.testing.assert_array_equal(ringing, left.max(axis=1))
    np.testing.assert_array_equal(which, left.argmax(axis=1))
    np.testing.assert_array_equal(standing, ((ratios > 1.0) & is_out).any(axis=1))
    np.testing.assert_array_equal(n_out, is_out.sum(axis=1))


def test_two_units_by_hand():
    """Off-delay 1, a unit of 3 rows, back after 4 rows below."""
    a = [2, 2, 0, 2, 2, 0, 0, 0, 0, 2, 0, 0]
    b = [0, 0, 0, 0, 3, 0, 3, 0, 0, 3, 0, 0]
    ratios = np.array([a, b], float).T
    ringing, which, standing, n_out = served(ratios, 1.0, 1, 3, 4, 5)
    # a has been in alarm for rows 0 to 2 and exceeds in row 3; its last is row 4.
    assert n_out.tolist() == [0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0]
    assert standing.tolist() == [t in (3, 4) for t in range(12)]
    assert ringing.tolist() == [2, 2, 0, 0, 3, 0, 3, 0, 0, 3, 0, 0]
    assert which[[0, 4, 6, 9]].tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize("name", EVERY)
def test_what_does_not_stand_stays_in_service(name):
    rule, (rows, score) = nervous(name), stood()
    forever = replace(rule, delays=replace(rule.delays, unit=10**9))
    whole, never = (r.run(rows, score=score) for r in (rule, forever))
    assert not len(never.service)
    assert not never.n_out.any()
    np.testing.assert_array_equal(never.exceeds, whole.trace > rule.limit)
    np.testing.assert_array_equal(never.trace, whole.trace)
    # What rings rings without this too; what no longer does stands.
    assert not (whole.exceeds & ~never.exceeds).any()
    assert not (never.exceeds & ~whole.exceeds & ~whole.standing).any()
    np.testing.assert_array_equal(
        whole.exceeds[: rule.delays.unit], never.exceeds[: rule.delays.unit]
    )


@pytest.mark.parametrize("name", EVERY)
def test_changes_say_who_is_out_of_service(name):
    rule, (rows, score) = nervous(name), stood()
    run = rule.run(rows, breaks=[500], score=score)
    n_out, out = np.zeros(N_ROWS, int), {}
    for row, member, unit, is_out in run.service.tolist():
        assert (unit in out.setdefault(member, set())) != is_out
        out[member] ^= {unit}
        n_out[row:] += 1 if is_out else -1
        assert rule.unit_name(member, unit)
    np.testing.assert_array_equal(n_out, run.n_out)
    every = [run.is_out(m, np.arange(N_ROWS)) for m in range(len(rule.members))]
    np.testing.assert_array_equal(sum(one.sum(axis=1) for one in every), run.n_out)
    assert run.n_out[500] <= run.n_out[499]
    assert run.n_out.max() <= rule.n_units
    assert (np.diff(run.service[:, 0]) >= 0).all()


def test_a_standing_tag_leaves_the_others_to_ring():
    for name in ("x", "x~", "rows", "all", "energy", "group"):
        rule, (rows, _) = made_rules().rules[name].rule, record()
        rows[:] = rule.views[0].mean
        rows[100:1200, 0] = 1e4  # stands
        rows[700:703, 4] = 1e7  # a short one of another stage
        run = rule.run(rows)
        forever = replace(rule, delays=replace(rule.delays, unit=10**9))
        assert forever.run(rows).episodes.starts.tolist() == [100]
        assert run.episodes.starts[0] == 100
        assert run.episodes.lasts[0] < 100 + 4 * rule.delays.unit
        assert 700 in run.episodes.starts
        assert not run.in_alarm[600:700].any()
        assert (run.standing[600:700] & (run.n_out[600:700] > 0)).all()
        out = {rule.unit_name(*one[1:3]) for one in run.service.tolist() if one[3]}
        assert out & {"LIT101", "P1"}


def test_a_fault_that_all_others_show_too_takes_the_whole_rule_out_of_service():
    rule, (rows, _) = made_rules().rules["z"].rule, record()
    rows[:] = rule.views[0].mean
    rows[100:1200, 0] = 1e4  # a million spreads: every tag is unlike it
    run = rule.run(rows)
    assert run.n_out[200] == rule.n_units == 6
    assert run.episodes.starts.tolist() == [100]


# A tag and another one of another stage; the energy hardly sees the first tags, whose
# spread is a thousandth of that of the last.
PAIRS = [
    *product([*default_rules(has_stages=True)[1:], "cusum"], range(6)),
    *product(["energy"], [2, 5]),
]


@pytest.mark.parametrize(("name", "tag"), PAIRS)
def test_ten_ranges_for_four_hours_ring_while_another_tag_is_out(name, tag):
    rule, (rows, _) = made_rules().rules[name].rule, record()
    ranges = np.ptp(rows, axis=0)
    other = (tag + 3) % 6
    for _ in range(5):
        rows[60:, other] += ranges[other]
        if rule.run(rows).n_out[600]:
            break
    rows[700:940, tag] += 10 * ranges[tag]
    run = rule.run(rows)
    assert run.n_out[699]
    assert run.exceeds[705:750].all()


def test_other_orders_of_channels_give_the_same():
    order = [3, 0, 5, 1, 4, 2]
    for name in ("z", "x~", "energy", "all", "z+x~"):
        rule, (rows, _) = nervous(name).fixed, stood()
        rows = with_holes(rows)
        turned = replace(
            rule,
            channels=tuple(rule.channels[k] for k in order),
            views=tuple(turned_view(view, order) for view in rule.views),
            members=tuple(
                turned_member(m, rule.view_of(m), order) for m in rule.members
            ),
        )
        one, other = rule.run(rows), turned.run(rows[:, order])
        np.testing.assert_allclose(one.trace, other.trace, rtol=1e-6)
        for key in ("exceeds", "in_alarm", "standing", "n_out"):
            np.testing.assert_array_equal(getattr(one, key), getattr(other, key))
        assert changes(one) == changes(other) != []


def changes(run):
    """Return what leaves and returns, by name, in an order of their own."""
    rows = run.service.tolist()
    return sorted((r, m, run.rule.unit_name(m, u), out) for r, m, u, out in rows)


def turned_view(view, order):
    if view.bounds is not None and len(view.units) > 1:
        # Whitened stages: only the numbers of the channels change.
        place = np.argsort(order)
        return replace(view, mean=view.mean[order], order=place[view.order])
    weights = view.weights[np.ix_(order, order)]
    first, stop = view.first, view.stop
    if view.bounds is not None:
        lower = np.linalg.cholesky(np.linalg.inv(covariance_of(view)[order][:, order]))
        weights, first, stop = lower, np.zeros(6, np.int64), np.full(6, 6)
    units = view.units if view.bounds is not None else [view.units[k] for k in order]
    return replace(
        view,
        mean=view.mean[order],
        weights=np.ascontiguousarray(weights),
        first=first,
        stop=stop,
        units=tuple(units),
    )


def covariance_of(view):
    return np.linalg.inv(view.weights @ view.weights.T)


def turned_member(member, view, order):
    if view.bounds is not None:
        return member
    arrays = ("centre", "allowance", "levels")
    return replace(
        member,
        **{k: a[order] if len(a := getattr(member, k)) == 6 else a for k in arrays},
    )


def test_an_energy_leaves_tags_out_as_the_covariance_of_the_others_says():
    """Three tags by hand, against the inverse of the covariance of what is left."""
    covariance = np.array([[1.0, 0.8, 0.0], [0.8, 1.0, 0.3], [0.0, 0.3, 2.0]])
    weights = np.linalg.inv(np.linalg.cholesky(covariance)).T
    plain = made_rules().rules["energy"].rule
    view = replace(
        plain.views[0],
        mean=np.zeros(3),
        order=np.arange(3),
        weights=np.ascontiguousarray(weights),
        first=np.arange(3),
        stop=np.full(3, 3),
        bounds=np.array([0, 3]),
    )
    rule = replace(
        plain,
        channels=plain.channels[:3],
        views=(view,),
        members=(replace(plain.members[0], levels=np.ones(1), limit=1.0),),
        limit=10.0,
        delays=Delays(off=1, unit=3),
    )
    rows = np.zeros((40, 3))
    rows[5:20, 1] = 6.0  # stands, and is left out from its fourth row on
    rows[12:14, 0] = 7.0  # rings meanwhile
    rows[5:20] += np.random.default_rng(0).normal(size=(15, 3)) / 10
    run = rule.run(rows)
    whole = half_squares(rows, covariance)
    left = half_squares(rows[:, [0, 2]], covariance[np.ix_([0, 2], [0, 2])])
    np.testing.assert_allclose(run.trace, whole, rtol=1e-9)
    # Out with row 8 (rows 5 to 7 are a unit); back 12 rows after row 19.
    assert run.service.tolist() == [[8, 0, 1, 1], [31, 0, 1, 0]]
    assert rule.n_units == 3
    assert rule.unit_name(0, 1) == "FIT101"
    is_out = (np.arange(40) >= 8) & (np.arange(40) < 31)
    assert run.n_out.tolist() == is_out.astype(int).tolist()
    expected = np.where(is_out, left, whole) > 10
    assert np.flatnonzero(expected).tolist() == [5, 6, 7, 12, 13]
    assert run.exceeds.tolist() == expected.tolist()
    assert run.standing.tolist() == (is_out & (whole > 10)).tolist()
    # What is left is never more than the whole.
    said = rule.start().judge(rule.start().scores(rows))
    assert (said.ringing <= said.trace * (1 + 1e-12)).all()
    # Of three tags one may be left out: the alarm of another one stands.
    rows[5:] = 9.0, 0.0, -9.0
    run = rule.run(rows)
    assert run.service.tolist() == [[8, 0, 0, 1]]
    assert run.exceeds[5:].all()


def test_an_old_state_goes_on_with_everything_in_service():
    rule, (rows, _) = nervous("all"), record()
    state = rule.start()
    for row in rows[:400]:
        state.update(row)
    saved = state.arrays()
    assert any(saved[f"service/{k}"].any() for k in range(6))
    old = {k: v for k, v in saved.items() if not k.startswith("service")}
    again = rule.start(old | {"members": np.zeros((6, 3), np.int64)})
    assert not any(again.arrays()[f"service/{k}"].any() for k in range(6))
    np.testing.assert_array_equal(again.arrays()["memory/3"], saved["memory/3"])
    with pytest.raises(StreamError, match="start the rule without it"):
        rule.start(old)


# --- Channels without a value ---------------------------------------------------------


@pytest.mark.parametrize("lacking", [[0], [2], [1, 4], [0, 1, 2], [0, 2, 3, 5]])
def test_a_lacking_channel_counts_as_what_the_others_expect(lacking):
    made, (rows, _) = made_rules(), record(200)
    normal = made.source.normal
    y = rows - normal.reference.mean
    rows[40:150, lacking] = np.nan
    kept = [j for j in range(6) if j not in lacking]
    covariance = normal.reference.covariance
    stages = [[0, 1, 2], [3, 4], [5]]
    run = made.rules["energy"].rule.run(rows)
    left = half_squares(y[:, kept], covariance[np.ix_(kept, kept)])
    np.testing.assert_allclose(run.trace[40:150], left[40:150], rtol=1e-6)
    for name in ("x", "z", "group"):
        rule = made.rules[name].rule
        seen = rule.start().scores(rows).members[0]
        if name == "group":
            for k, stage in enumerate(stages):
                inside = [j for j in stage if j in kept]
                left = half_squares(y[:, inside], covariance[np.ix_(inside, inside)])
                np.testing.assert_allclose(
                    seen.values[40:150, k], left[40:150], rtol=1e-6, atol=1e-9
                )
            continue
        assert not seen.values[40:150, lacking].any()
        if name == "x":
            np.testing.assert_allclose(seen.values[40:150][:, kept], y[40:150, kept])
            continue
        inner = np.linalg.inv(normal.standardised.precision)[np.ix_(kept, kept)]
        precision = np.linalg.inv(inner)
        full = np.diag(normal.standardised.precision)[kept]
        expected = y[:, kept] @ precision / np.sqrt(full)
        np.testing.assert_allclose(
            seen.values[40:150][:, kept], expected[40:150], rtol=1e-6, atol=1e-9
        )


@pytest.mark.parametrize("name", EVERY)
def test_rows_that_lack_nothing_are_read_as_without_the_others(name):
    rule, (rows, score) = nervous(name), record(300)
    if any(m.memory is not Memory.NONE for m in rule.members):
        return
    plain = rule.run(rows, score=score)
    rows[120:180, 2] = np.nan
    run = rule.run(rows, score=score)
    same = np.r_[0:120, 180:300]
    assert run.trace[same].tobytes() == plain.trace[same].tobytes()


def test_a_dead_tag_rings_no_more_than_the_others():
    for name in ("x", "z", "x~", "energy", "group", "all"):
        rule, (rows, _) = made_rules().rules[name].rule, record(600)
        rows[:] = rule.views[0].mean
        rows[:, 2] = 1e6
        assert rule.alarms(rows).any()
        rows[:, 2] = np.nan
        assert not rule.alarms(rows).any()


# --- Refusals -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"rows": np.zeros((5, 4))}, "reads 6 channels .* the rows have 4"),
        ({"rows": np.full((5, 6), np.nan)}, "got a row without any value: leave"),
        ({"rows": np.diag([np.inf] * 6)[:5]}, "got inf for the channel 'LIT101'"),
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
