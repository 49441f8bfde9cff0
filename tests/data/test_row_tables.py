import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import ChunkedRows, cuts

from sightline import StreamError
from sightline.data.row_tables import (
    BLOCK_ROWS,
    ArrayRows,
    KeptRows,
    Rows,
    finite_rows,
    gather_rows,
    read_on_grid,
    refuse_nonfinite,
)


def numbered(n_rows):
    """Rows whose values say which row they are."""
    return np.stack([np.arange(n_rows), -np.arange(n_rows)], axis=1).astype(float)


@settings(deadline=None, max_examples=50)
@given(st.data(), st.integers(0, 3 * BLOCK_ROWS))
def test_any_chunking_gives_the_same_blocks(data, n_rows):
    values = numbered(n_rows)
    grid_cuts = data.draw(cuts(n_rows))
    pieces = ChunkedRows(values, data.draw(cuts(n_rows)))
    whole = list(read_on_grid(ArrayRows(values), grid_cuts))
    chunked = list(read_on_grid(pieces, grid_cuts))
    assert [start for start, _ in chunked] == [start for start, _ in whole]
    for (_, block), (_, expected) in zip(chunked, whole, strict=True):
        np.testing.assert_array_equal(block, expected)


@settings(deadline=None, max_examples=50)
@given(st.data(), st.integers(0, 3 * BLOCK_ROWS))
def test_blocks_tile_the_rows_and_begin_on_the_grid_or_at_a_cut(data, n_rows):
    values = numbered(n_rows)
    grid_cuts = data.draw(cuts(n_rows))
    blocks = list(read_on_grid(ArrayRows(values), grid_cuts))
    read = [block for _, block in blocks]
    np.testing.assert_array_equal(np.concatenate([values[:0], *read]), values)
    edges = {*range(0, n_rows, BLOCK_ROWS), *grid_cuts} - {n_rows}
    assert [start for start, _ in blocks] == sorted(edges)
    assert all(block[0, 0] == start for start, block in blocks)


class Announced(ChunkedRows):
    """Rows that announce another number than they hold."""

    @property
    def n_rows(self):
        return 10


def test_fewer_rows_than_announced_are_refused():
    with pytest.raises(StreamError, match="end after 7 rows where 10 were announced"):
        list(read_on_grid(Announced(numbered(7), [3])))


def test_more_rows_than_announced_are_refused():
    with pytest.raises(StreamError, match="10 rows announced"):
        list(read_on_grid(Announced(numbered(12), [10])))


@settings(deadline=None, max_examples=30)
@given(st.data(), st.integers(1, 2 * BLOCK_ROWS))
def test_kept_rows_are_the_table_without_the_others(data, n_rows):
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    keep = rng.random(n_rows) < 0.7
    values = numbered(n_rows)
    kept = KeptRows(ChunkedRows(values, data.draw(cuts(n_rows))), keep)
    assert isinstance(kept, Rows)
    assert (kept.n_rows, kept.n_channels) == (int(keep.sum()), 2)
    np.testing.assert_array_equal(
        np.concatenate([values[:0], *kept.chunks()]), values[keep]
    )
    assert [kept.where(row) for row in range(min(kept.n_rows, 3))] == [
        f"row {row}" for row in np.flatnonzero(keep)[:3]
    ]


def test_gathered_rows_are_those_asked_for_in_float64():
    values = numbered(3000).astype(np.float32)
    wanted = np.array([0, 7, 1023, 1024, 2999])
    taken = gather_rows(ChunkedRows(values, [5, 1500]), wanted)
    assert taken.dtype == np.float64
    np.testing.assert_array_equal(taken, values[wanted])


def test_finite_rows_counts_values_and_finds_the_first():
    values = numbered(2500)
    values[2000, 0] = np.nan
    values[1100] = np.inf
    keep, n_bad, first = finite_rows(ArrayRows(values))
    assert np.flatnonzero(~keep).tolist() == [1100, 2000]
    assert (n_bad, first) == (3, (1100, 0))


def test_the_sentence_names_array_row_and_channel():
    values = numbered(20)
    values[[4, 9], 1] = np.nan
    with pytest.raises(
        StreamError,
        match=r"`test` must be finite; row 4, channel 'b' is the first of 2 values "
        "that are not, in 2 rows",
    ):
        refuse_nonfinite(ArrayRows(values), "test", ["a", "b"])


def test_finite_rows_that_overflow_get_another_sentence():
    with pytest.raises(StreamError, match="`test` holds values too large"):
        refuse_nonfinite(ArrayRows(numbered(3)), "test", ["a", "b"])
