"""Moments of many windows from one pass over whitened rows, compiled.

Rows arrive in blocks. Each block is cut into short sub-blocks whose moments are made
once; the piece of a window that lies in the block is put together from them, merged by
Chan's formula, so that its cost does not grow with its length and a huge value in one
window leaves the digits of all others alone. Only upper triangles are used.
"""

from typing import NamedTuple

import numpy as np

from sightline._kernels import inner, kernel, part
from sightline.data.arrays import Floats, Ints

SUB_ROWS = 32
# Loops are written out: an assignment of a whole array takes numba far longer to
# compile. No relaxed arithmetic here: the compiler would then order sums in one way in
# a fresh process and in another when it loads the kernel from its cache, and the last
# digits would differ between first and second run.


# Few arrays go in, because each takes time to compile: the moments of some rows are one
# array of shape (p + 1, p), the centred second-moment sum and below it the mean.


class WindowJobs(NamedTuple):
    """Which windows to fill, one job for each length. The kernel only reads these.

    Job i has the windows of `starts` up to `last`, sorted, all of `length` rows. The
    accumulators of those that are filled at the same time are `slot` to
    ``slot + n_slots``. Row i of `each` is (last, length, slot, n_slots).
    """

    starts: Ints
    each: Ints


class WindowState(NamedTuple):
    """How far the windows are filled. The kernel writes into these.

    Of job i the windows from ``opened[i, 0]`` up to ``opened[i, 1]`` are being filled.
    `counts` and `moments` are the accumulators.
    """

    opened: Ints
    counts: Floats
    moments: Floats


class EndedWindows(NamedTuple):
    """Numbers and moments of windows that end in a block. The kernel writes these."""

    numbers: Ints
    moments: Floats


class Work(NamedTuple):
    """Moments of sub-blocks of a block, and arrays that are written over.

    `sub` are those of each sub-block, `up_to` of all before it, `after` of all from it.
    """

    sub: Floats
    up_to: Floats
    after: Floats
    items: Floats
    product: Floats
    moments: Floats
    shift: Floats


@inner
def merge_moments(
    count: float, moments: Floats, more: float, others: Floats, shift: Floats
) -> float:
    """Merge `more` rows into `count` rows in place, by Chan's formula.

    Returns the new count; `shift` is an array of shape (p,) that is written over.
    """
    p = len(shift)
    total = count + more
    if count == 0.0:
        _copy(others, moments)
        return total
    weight, step = count * more / total, more / total
    for j in range(p):
        shift[j] = others[p, j] - moments[p, j]
        moments[p, j] += step * shift[j]
    for i in range(p):
        wi = weight * shift[i]
        for j in range(p):
            moments[i, j] += others[i, j] + wi * shift[j]
    return total


@inner
def _copy(moments: Floats, to: Floats) -> None:
    """Copy the moments of some rows."""
    for i in range(moments.shape[0]):
        for j in range(moments.shape[1]):
            to[i, j] = moments[i, j]


def work_for(n_rows: int, p: int) -> Work:
    """Return the arrays for a block of rows, not filled."""
    n_subs = n_rows // SUB_ROWS
    return Work(
        np.empty((n_subs, p + 1, p)),
        np.empty((n_subs + 1, p + 1, p)),
        np.empty((n_subs + 1, p + 1, p)),
        np.empty((3 * SUB_ROWS + n_subs, p)),
        np.empty((p, p)),
        np.empty((p + 1, p)),
        np.empty(p),
    )


def prepare(rows: Floats, work: Work) -> None:
    """Write the moments of each sub-block."""
    n_subs, p = len(work.sub), rows.shape[1]
    cut = rows[: n_subs * SUB_ROWS].reshape(n_subs, SUB_ROWS, p)
    # What overflows has an infinite energy.
    with np.errstate(over="ignore", invalid="ignore"):
        work.sub[:, p] = np.sum(cut, axis=1) / SUB_ROWS
        centered = cut - work.sub[:, p:]
        np.matmul(centered.transpose(0, 2, 1), centered, out=work.sub[:, :p])


@part
def _collect_items(
    rows: Floats, first: int, last: int, work: Work
) -> tuple[int, int, float]:
    """Write the means of the items that make up rows [first, last) into `items`.

    The items are whole sub-blocks, one by one or already merged, and the single rows
    before and after them; `moments` gets the second moments within the sub-blocks.
    Returns the number of items, how many of them are sub-blocks, and the rows of one.
    """
    items, moments, sub = work.items, work.moments, work.sub
    p, n_subs = rows.shape[1], len(sub)
    one, two = (first + SUB_ROWS - 1) // SUB_ROWS, min(last // SUB_ROWS, n_subs)
    n_items, head, tail, inner = 0, last, last, 1.0
    if one < two and (one == 0 or two == n_subs):
        n_items, inner = 1, float((two - one) * SUB_ROWS)
        _copy(work.up_to[two] if one == 0 else work.after[one], moments)
        for j in range(p):
            items[0, j] = moments[p, j]
    else:
        for i in range(p):
            for j in range(p):
                moments[i, j] = 0.0
        for k in range(one, two):
            for j in range(p):
                items[n_items, j] = sub[k, p, j]
                for i in range(p):
                    moments[i, j] += sub[k, i, j]
            n_items, inner = n_items + 1, float(SUB_ROWS)
    merged = n_items
    if merged:
        head, tail = one * SUB_ROWS, two * SUB_ROWS
    for t in range(first, last):
        if t < head or t >= tail:
            for j in range(p):
                items[n_items, j] = rows[t, j]
            n_items += 1
    return n_items, merged, inner


@part
def _moments_of_rows(rows: Floats, first: int, last: int, work: Work) -> None:
    """Write mean and second moment of rows [first, last) of the block.

    All items merge at once: with m the mean of all, the second moment is the sum over
    items (single rows too) of their own plus count * (mean - m)(mean - m)'.
    """
    items, moments = work.items, work.moments
    p = rows.shape[1]
    n_items, merged, inner = _collect_items(rows, first, last, work)
    for j in range(p):
        total = 0.0
        for k in range(n_items):
            total += inner * items[k, j] if k < merged else items[k, j]
        moments[p, j] = total / (last - first)
    root = np.sqrt(inner)
    for k in range(n_items):
        weight = root if k < merged else 1.0
        for j in range(p):
            items[k, j] = weight * (items[k, j] - moments[p, j])
    if n_items > 1:
        np.dot(items[:n_items].T, items[:n_items], work.product)
        for i in range(p):
            for j in range(p):
                moments[i, j] += work.product[i, j]


@kernel
def take_block(
    rows: Floats,
    jobs: WindowJobs,
    state: WindowState,
    work: Work,
    reached: Ints,
    stop: int,
    ended: EndedWindows,
    is_new: bool,
) -> int:
    """Add one block of whitened rows to every window that it touches.

    The rows end before row `stop` of the test; blocks come in order; `work` is prepared
    for them. Writes the moments of the windows that end, and returns their number.
    Where there is no room for more of them it returns early, and is to be called again
    with the same arguments, but `is_new` false: ``reached[job]`` is the row up to which
    a job is done, the first row of the block before the first call.
    """
    if is_new:
        # Moments of all sub-blocks up to each, and of all from it.
        n_subs = len(work.sub)
        for k in range(n_subs):
            back = n_subs - 1 - k
            if k:
                _copy(work.up_to[k], work.up_to[k + 1])
                _copy(work.after[back + 1], work.after[back])
            rows_before, size = float(k * SUB_ROWS), float(SUB_ROWS)
            up_to, after = work.up_to[k + 1], work.after[back]
            merge_moments(rows_before, up_to, size, work.sub[k], work.shift)
            merge_moments(rows_before, after, size, work.sub[back], work.shift)
    starts, counts, moments = jobs.starts, state.counts, state.moments
    start = stop - len(rows)
    n_ended = 0
    for job in range(len(jobs.each)):
        t, opened = reached[job], state.opened[job]
        each = jobs.each[job]
        last, length, slot, n_slots = each[0], each[1], each[2], each[3]
        while True:
            while opened[0] < opened[1] and starts[opened[0]] + length == t:
                if n_ended == len(ended.numbers):
                    reached[job] = t
                    return n_ended
                ended.numbers[n_ended] = opened[0]
                _copy(moments[slot + opened[0] % n_slots], ended.moments[n_ended])
                opened[0] += 1
                n_ended += 1
            if t >= stop:
                break
            if opened[0] == opened[1]:
                # No window is open: go to the next one that begins in this block.
                if opened[1] == last or starts[opened[1]] >= stop:
                    t = stop
                    break
                t = max(t, starts[opened[1]])
            while opened[1] < last and starts[opened[1]] == t:
                counts[slot + opened[1] % n_slots] = 0.0
                opened[1] += 1
            # The next row where a window opens or ends.
            end = min(stop, starts[opened[0]] + length)
            if opened[1] < last:
                end = min(end, starts[opened[1]])
            _moments_of_rows(rows, t - start, end - start, work)
            more = float(end - t)
            for k in range(opened[0], opened[1]):
                at = slot + k % n_slots
                counts[at] = merge_moments(
                    counts[at], moments[at], more, work.moments, work.shift
                )
            t = end
        reached[job] = t
    return n_ended
