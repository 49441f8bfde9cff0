import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import breaks

from sightline import Attack, ResidualStream, StreamError
from sightline.data.row_tables import gather_rows
from sightline.data.stream import drop_nonfinite

TRAIN = np.arange(12.0).reshape(6, 2)
TEST = np.arange(10.0).reshape(5, 2) / 10
LABELS = [0, 1, 1, 0, -1]


def values_of(rows):
    return gather_rows(rows, np.arange(rows.n_rows))


def test_a_finite_stream_loses_nothing():
    stream = ResidualStream(TRAIN, TEST, LABELS)
    kept, dropped = drop_nonfinite(stream)
    assert kept is stream
    assert dropped == {"train": 0, "test": 0, "calibration": 0}


def test_a_row_is_dropped_with_all_that_belongs_to_it():
    train, test, calibration = TRAIN.copy(), TEST.copy(), TRAIN[:3].copy()
    train[0, 1] = calibration[2, 0] = np.inf
    test[1] = np.nan
    stream = ResidualStream(
        train,
        test,
        LABELS,
        calibration=calibration,
        alarms=[0, 1, 0, 1, 0],
        score=[1, 2, 3, 4, 5],
        test_time=[0, 1, 2, 3, 4],
        train_time=[0, 1, 2, 3, 4, 5],
        test_breaks=[3],
        segments=[
            Attack(id="A", start=1, stop=3),
            Attack(id="gone", start=1, stop=2),
        ],
        telemetry_train=TRAIN,
        telemetry_test=TEST,
    )
    kept, dropped = drop_nonfinite(stream)
    assert dropped == {"train": 1, "test": 1, "calibration": 1}
    left = [0, 2, 3, 4]
    np.testing.assert_array_equal(values_of(kept.train), TRAIN[1:])
    np.testing.assert_array_equal(values_of(kept.calibration), TRAIN[:2])
    np.testing.assert_array_equal(values_of(kept.test), TEST[left])
    np.testing.assert_array_equal(values_of(kept.telemetry_test), TEST[left])
    np.testing.assert_array_equal(values_of(kept.telemetry_train), TRAIN[1:])
    assert kept.labels.tolist() == [0, 1, 0, -1]
    assert kept.alarms.tolist() == [0, 0, 1, 0]
    assert kept.score.tolist() == [1, 3, 4, 5]
    assert kept.test_time.tolist() == [0, 2, 3, 4]
    assert kept.train_time.tolist() == [1, 2, 3, 4, 5]
    assert kept.test_breaks.tolist() == [0, 2]
    assert [(a.id, a.start, a.stop) for a in kept.segments] == [("A", 1, 2)]
    assert any("gone" in notice for notice in kept.notices)


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_after_a_drop_two_rows_share_a_stretch_iff_they_did_before(data):
    n_rows = data.draw(st.integers(2, 30))
    first_rows = data.draw(breaks(n_rows))
    lost = data.draw(st.sets(st.integers(0, n_rows - 1), max_size=n_rows - 1))
    test = np.zeros((n_rows, 1))
    test[list(lost)] = np.nan
    kept, _ = drop_nonfinite(ResidualStream(TRAIN[:, :1], test, test_breaks=first_rows))
    before = np.searchsorted(first_rows, np.arange(n_rows), side="right")
    after = np.searchsorted(kept.test_breaks, np.arange(n_rows - len(lost)), "right")
    left = [run for row, run in enumerate(before) if row not in lost]
    assert np.diff(after).tolist() == (np.diff(left) > 0).astype(int).tolist()


def test_too_few_rows_left_are_refused():
    train = np.full((3, 1), np.nan)
    train[0] = 1.0
    with pytest.raises(StreamError, match="`train` must have at least 2 rows"):
        drop_nonfinite(ResidualStream(train, [[1.0]]))
