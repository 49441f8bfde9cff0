"""How long tags stand still, the reference of it, and what marks cells."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline import Recording, Tag
from sightline.data.standing import StandingTags, Stillness, stillness_of
from sightline.data.validity import Validity

NAN = np.nan
BEGIN = 1_790_000_000.0


def recording(values, first=0, **options):
    values = np.asarray(values, np.float64)
    time = BEGIN + 10.0 * np.arange(first, first + len(values))
    tags = [Tag(name=f"T{k}") for k in range(values.shape[1])]
    options = {"tags": tags, "time": time, "step_s": 10.0} | options
    return Recording(values=values, **options)


def since_one_row_at_a_time(time, values, begins):
    """Return since when each tag shows its value, by the words of the docstring."""
    found = np.full(values.shape, NAN)
    for k in range(values.shape[1]):
        shown = start = NAN
        for t, value in enumerate(values[:, k]):
            shown = NAN if begins[t] else shown
            if np.isnan(value):
                continue
            if value != shown:
                shown, start = value, time[t]
            found[t, k] = start
    return found


@st.composite
def telemetry(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n = draw(st.integers(1, 60))
    values = rng.integers(0, 3, (n, 2)).astype(np.float64)
    values[rng.random((n, 2)) < 0.2] = NAN
    time = np.cumsum(rng.integers(1, 4, n)).astype(np.float64)
    return time, values, rng.random(n) < 0.1, draw(st.integers(0, n))


@settings(max_examples=100, deadline=None)
@given(telemetry())
def test_rows_in_two_pieces_stand_since_the_same_time_as_at_once(drawn):
    time, values, begins, cut = drawn
    expected = since_one_row_at_a_time(time, values, begins)
    whole = StandingTags(2).since(time, values, begins)
    np.testing.assert_array_equal(whole, expected)
    first = StandingTags(2)
    parts = [first.since(time[:cut], values[:cut], begins[:cut])]
    second = StandingTags(2, saved=first.arrays())
    parts.append(second.since(time[cut:], values[cut:], begins[cut:]))
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_the_reference_is_train_and_attack_free_test_until_the_split():
    # Rows of 10 s: T0 stands for 20 s in train; T1 never moves in it.
    train = recording([[1, 5], [2, 5], [2, 5], [2, 5], [3, 5], [4, 5]])
    values = [[1, 5], [1, 5], [2, 5], *[[7, 5]] * 5, [8, 5], [9, 6]]
    test = recording(values, first=10)
    found = stillness_of(train, test)
    start, moved = BEGIN + 130, BEGIN + 190
    assert found["T0"] == Stillness(longest_s=20.0, later=((start, 40.0),))
    assert found["T1"].value == 5.0
    assert found["T1"].moved == moved
    longest = [found["T0"].longest_until(t) for t in (None, start, start + 30, moved)]
    assert longest == [20.0, 20.0, 30.0, 40.0]
    assert [found["T1"].value_until(t) for t in (None, moved - 1, moved)] == [
        5,
        5,
        None,
    ]
    # What happens during an attack is no reference, and the tag stands anew after it.
    labels = np.array([0] * 5 + [1] + [0] * 3 + [1], np.int8)
    found = stillness_of(train, recording(values, first=10, labels=labels))
    assert found["T0"].later == ()
    assert found["T1"].moved is None


def test_a_tag_that_moved_in_train_is_not_constant_whatever_its_resolution():
    pump, drum = (Tag(name=name, resolution=1.0) for name in ("P101", "DRUM"))
    train = recording([[2, 5], [2, 5], [1, 5]], tags=[pump, drum])
    test = recording([[2, 5.5], [2, 5]], 5, tags=[pump, drum])
    found = stillness_of(train, test)
    assert found["P101"].value is None
    assert (found["DRUM"].value, found["DRUM"].moved) == (5.0, None)


def test_a_break_ends_the_time_for_which_a_tag_stands():
    values = [[1.0]] * 10
    train = recording(values, breaks=np.array([0, 7]))
    assert stillness_of(train, recording(values, 20))["T0"].longest_s == 60.0


def test_a_tag_is_frozen_after_one_and_a_half_times_its_longest_time():
    standing = StandingTags(2, np.array([40.0, NAN]))
    values = np.column_stack([[1.0] * 8 + [2.0, 2.0], [5.0] * 10])
    codes = np.zeros(values.shape, np.int8)
    standing.mark(10.0 * np.arange(10), values, codes, np.arange(10) == 0)
    assert codes[:, 0].tolist() == [Validity.GOOD] * 7 + [Validity.FROZEN, 0, 0]
    assert not codes[:, 1].any()


def test_a_tag_that_never_moved_has_moved_by_more_than_its_resolution():
    standing = StandingTags(1, constant={0: (5.0, 0.5)})
    values = np.array([[5.0], [5.4], [5.6], [NAN], [4.0], [5.0]])
    codes = np.array([[0], [0], [0], [Validity.BAD], [1], [0]], np.int8)
    standing.mark(np.arange(6.0), values, codes, np.zeros(6, bool))
    moved = Validity.MOVED
    assert codes.ravel().tolist() == [0, 0, moved, Validity.BAD, moved, 0]
