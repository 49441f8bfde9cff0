"""Moments of many windows from one pass over whitened rows, compiled.

Rows arrive in blocks. Each block is cut into short sub-blocks whose moments are made
once; the piece of a window that lies in the block is put together from them, merged by
Chan's formula, so that its cost does not grow with its length and a huge value in one
window leaves the digits of all others alone. Only upper triangles are used.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from sightline.data.arrays import Floats, Ints

SUB_ROWS = 32
# Beyond this spread of eigenvalues the smallest have no digits left.
ABSORBED = 1e10
# When a plain covariance counts as singular: see `sightline.metrics.window_kl`.
SINGULAR_PIVOT = 1e-12
SINGULAR_ROUNDINGS = 10
EPS = 2.0**-52
# Only what is called from outside is cached. No relaxed arithmetic here: the compiler
# would then order sums in one way in a fresh process and in another when it loads the
# kernel from its cache, and the last digits would differ between first and second run.


class WindowJobs(NamedTuple):
    """Which windows to fill, one job for each length. The kernel only reads these.

    Job i has the windows ``starts[bounds[i]:bounds[i + 1]]``, sorted, all of
    ``lengths[i]`` rows. The accumulators of those that are filled at the same time are
    ``slots[i]`` to ``slots[i] + n_slots[i]``. The moments of window k are stored under
    ``kept[k]``, unless that is negative. `is_plain` is 1 if covariances are to be used
    as they are, 0 if pseudo-rows of the reference are to be added.
    """

    starts: Ints
    bounds: Ints
    lengths: Ints
    slots: Ints
    n_slots: Ints
    kept: Ints
    is_plain: int


class WindowState(NamedTuple):
    """How far the windows are filled. The kernel writes into these.

    Of job i the windows from ``first_open[i]`` up to ``next_open[i]`` are being filled.
    `counts`, `means` and `seconds` are the accumulators; `kept_means` and
    `kept_seconds` the stored moments; `d_full` and `d_ms` the integrated energies of
    the windows that have ended.
    """

    first_open: Ints
    next_open: Ints
    counts: Floats
    means: Floats
    seconds: Floats
    kept_means: Floats
    kept_seconds: Floats
    d_full: Floats
    d_ms: Floats


class _Work(NamedTuple):
    """Moments of the sub-blocks of a block, and arrays that are written over."""

    sub_mean: Floats
    sub: Floats
    up_to_mean: Floats
    up_to: Floats
    after_mean: Floats
    after: Floats
    items: Floats
    product: Floats
    mean: Floats
    second: Floats
    shift: Floats


@njit()
def merge_moments(
    count: float,
    mean: Floats,
    second: Floats,
    more: float,
    more_mean: Floats,
    more_second: Floats,
    shift: Floats,
) -> float:
    """Merge `more` rows into `count` rows in place; return the new count.

    By Chan's formula, with `mean` and `second` the mean and centred second-moment sum;
    `shift` is an array of the shape of `mean` that is written over.
    """
    p = len(mean)
    total = count + more
    if count == 0.0:
        mean[:] = more_mean
        second[:, :] = more_second
        return total
    weight, step = count * more / total, more / total
    for j in range(p):
        shift[j] = more_mean[j] - mean[j]
        mean[j] += step * shift[j]
    for i in range(p):
        wi = weight * shift[i]
        for j in range(p):
            second[i, j] += more_second[i, j] + wi * shift[j]
    return total


@njit()
def _work_for(n_subs: int, p: int) -> _Work:
    """Return the arrays for a block of `n_subs` sub-blocks, not filled."""
    return _Work(
        np.empty((n_subs, p)),
        np.empty((n_subs, p, p)),
        np.empty((n_subs + 1, p)),
        np.empty((n_subs + 1, p, p)),
        np.empty((n_subs + 1, p)),
        np.empty((n_subs + 1, p, p)),
        np.empty((3 * SUB_ROWS + n_subs, p)),
        np.empty((p, p)),
        np.empty(p),
        np.empty((p, p)),
        np.empty(p),
    )


@njit()
def _prepare(rows: Floats, work: _Work) -> None:
    """Write the moments of each sub-block, of all up to each, and of all from each."""
    sub_mean, sub, items, product = work.sub_mean, work.sub, work.items, work.product
    up_to_mean, up_to = work.up_to_mean, work.up_to
    after_mean, after = work.after_mean, work.after
    n_subs, p = sub_mean.shape
    for k in range(n_subs):
        block = rows[k * SUB_ROWS : (k + 1) * SUB_ROWS]
        for j in range(p):
            sub_mean[k, j] = block[:, j].mean()
        for t in range(SUB_ROWS):
            items[t] = block[t] - sub_mean[k]
        np.dot(items[:SUB_ROWS].T, items[:SUB_ROWS], product)
        sub[k] = product
    for k in range(n_subs):
        back = n_subs - 1 - k
        if k:
            up_to_mean[k + 1], up_to[k + 1] = up_to_mean[k], up_to[k]
            after_mean[back], after[back] = after_mean[back + 1], after[back + 1]
        count = float(k * SUB_ROWS)
        merge_moments(
            count, up_to_mean[k + 1], up_to[k + 1],
            SUB_ROWS, sub_mean[k], sub[k], work.shift,
        )  # fmt: skip
        merge_moments(
            count, after_mean[back], after[back],
            SUB_ROWS, sub_mean[back], sub[back], work.shift,
        )  # fmt: skip


@njit()
def _collect_items(
    rows: Floats, first: int, last: int, work: _Work
) -> tuple[int, int, float]:
    """Write the means of the items that make up rows [first, last) into `items`.

    The items are whole sub-blocks, one by one or already merged, and the single rows
    before and after them; `second` gets the second moments within the sub-blocks.
    Returns the number of items, how many of them are sub-blocks, and the rows of one.
    """
    items, second = work.items, work.second
    p, n_subs = rows.shape[1], len(work.sub_mean)
    one, two = (first + SUB_ROWS - 1) // SUB_ROWS, min(last // SUB_ROWS, n_subs)
    second[:, :] = 0.0
    n_items = 0
    head, tail = last, last
    inner, merged = 1.0, 0
    if one < two:
        head, tail = one * SUB_ROWS, two * SUB_ROWS
        if one == 0:
            inner, merged = float(two * SUB_ROWS), 1
            items[0], second[:, :] = work.up_to_mean[two], work.up_to[two]
        elif two == n_subs:
            inner, merged = float((two - one) * SUB_ROWS), 1
            items[0], second[:, :] = work.after_mean[one], work.after[one]
        else:
            inner, merged = float(SUB_ROWS), two - one
            for k in range(one, two):
                items[k - one] = work.sub_mean[k]
                for i in range(p):
                    for j in range(p):
                        second[i, j] += work.sub[k, i, j]
        n_items = merged
    for t in range(first, head):
        items[n_items] = rows[t]
        n_items += 1
    for t in range(tail, last):
        items[n_items] = rows[t]
        n_items += 1
    return n_items, merged, inner


@njit()
def _moments_of_rows(rows: Floats, first: int, last: int, work: _Work) -> None:
    """Write mean and second moment of rows [first, last) of the block.

    All items merge at once: with m the mean of all, the second moment is the sum over
    items (single rows too) of their own plus count * (mean - m)(mean - m)'.
    """
    items, mean, second, product = work.items, work.mean, work.second, work.product
    if last - first == 1:
        mean[:] = rows[first]
        second[:, :] = 0.0
        return
    p = rows.shape[1]
    n_items, merged, inner = _collect_items(rows, first, last, work)
    for j in range(p):
        total = 0.0
        for k in range(merged):
            total += inner * items[k, j]
        for k in range(merged, n_items):
            total += items[k, j]
        mean[j] = total / (last - first)
    root = np.sqrt(inner)
    for k in range(n_items):
        weight = root if k < merged else 1.0
        for j in range(p):
            items[k, j] = weight * (items[k, j] - mean[j])
    if n_items > 1:
        np.dot(items[:n_items].T, items[:n_items], product)
        for i in range(p):
            for j in range(p):
                second[i, j] += product[i, j]


@njit()
def _open_windows(
    job: int, t: int, stop: int, jobs: WindowJobs, state: WindowState
) -> int:
    """Open the windows that begin at row t; return the next row where one changes."""
    starts, last = jobs.starts, jobs.bounds[job + 1]
    while state.next_open[job] < last and starts[state.next_open[job]] == t:
        slot = jobs.slots[job] + state.next_open[job] % jobs.n_slots[job]
        state.counts[slot] = 0.0
        state.next_open[job] += 1
    end: int = min(stop, starts[state.first_open[job]] + jobs.lengths[job])
    if state.next_open[job] < last:
        end = min(end, starts[state.next_open[job]])
    return end


@njit()
def _add_rows(
    job: int, n_rows: int, end: int, jobs: WindowJobs, state: WindowState, work: _Work
) -> None:
    """Merge rows up to `end` into all open windows; close those that end there."""
    for k in range(state.first_open[job], state.next_open[job]):
        slot = jobs.slots[job] + k % jobs.n_slots[job]
        state.counts[slot] = merge_moments(
            state.counts[slot], state.means[slot], state.seconds[slot],
            float(n_rows), work.mean, work.second, work.shift,
        )  # fmt: skip
    length = jobs.lengths[job]
    while (
        state.first_open[job] < state.next_open[job]
        and jobs.starts[state.first_open[job]] + length == end
    ):
        k = state.first_open[job]
        slot = jobs.slots[job] + k % jobs.n_slots[job]
        if jobs.kept[k] >= 0:
            state.kept_means[jobs.kept[k]] = state.means[slot]
            state.kept_seconds[jobs.kept[k]] = state.seconds[slot]
        if jobs.is_plain:
            state.d_full[k], state.d_ms[k] = plain_energies_of_window(
                length, state.means[slot], state.seconds[slot], work.product
            )
        else:
            state.d_full[k], state.d_ms[k] = energies_of_window(
                length, state.means[slot], state.seconds[slot], work.product
            )
        state.first_open[job] += 1


@njit(cache=True, nogil=True)
def take_block(start: int, rows: Floats, jobs: WindowJobs, state: WindowState) -> None:
    """Add one block of whitened rows to every window that it touches.

    The rows are those from row `start` of the test on; blocks come in order. A window
    that ends gets its integrated energies.
    """
    n_rows, p = rows.shape
    stop = start + n_rows
    work = _work_for(n_rows // SUB_ROWS, p)
    prepared = False
    for job in range(len(jobs.lengths)):
        t = start
        while t < stop:
            following = state.next_open[job]
            if state.first_open[job] == following:
                # No window is open: go to the next one that begins in this block.
                if following == jobs.bounds[job + 1] or jobs.starts[following] >= stop:
                    break
                t = max(t, jobs.starts[following])
            end = _open_windows(job, t, stop, jobs, state)
            if not prepared:
                prepared = True
                _prepare(rows, work)
            _moments_of_rows(rows, t - start, end - start, work)
            _add_rows(job, end - t, end, jobs, state, work)
            t = end


@njit(cache=True, nogil=True)
def energies_of_window(
    length: int, mean: Floats, second: Floats, work: Floats
) -> tuple[float, float]:
    """Return D_FULL and D_MS of a window; infinite if its rows lie beyond 1e150.

    The formulas are in `sightline.metrics.window_kl`. `second` is the centred
    second-moment sum of the window's rows, `work` an array of its shape.
    """
    p = len(mean)
    shift = trace = 0.0
    for i in range(p):
        shift += mean[i] * mean[i]
        for j in range(p):
            work[i, j] = second[i, j] / (length + p)
        work[i, i] += p / (length + p)
        trace += work[i, i]
    if not np.isfinite(trace + shift):  # whitened values beyond 1e150
        return np.inf, np.inf
    least = p / (length + p)
    if trace > ABSORBED * least:
        # In floating point a burst absorbs the added pseudo-rows; even so no eigenvalue
        # can be smaller than they make it.
        log_det = np.log(np.maximum(np.linalg.eigvalsh(work), least)).sum()
    else:
        log_det = 0.0
        lower = np.linalg.cholesky(work)
        for i in range(p):
            log_det += 2.0 * np.log(lower[i, i])
    kl = 0.5 * (trace + shift - p - log_det)
    return length * kl, length * 0.5 * shift


@njit(cache=True, nogil=True)
def plain_energies_of_window(
    length: int, mean: Floats, second: Floats, work: Floats
) -> tuple[float, float]:
    """Return D_FULL by the plain covariance, and D_MS; D_MS twice if it is singular.

    The conditions are those of `sightline.metrics.window_kl.plain_kl`.
    """
    p = len(mean)
    shift = trace = log_det = 0.0
    for i in range(p):
        shift += mean[i] * mean[i]
        for j in range(p):
            work[i, j] = second[min(i, j), max(i, j)] / length
        trace += work[i, i]
    if not np.isfinite(trace + shift):
        return np.inf, np.inf
    d_ms = length * 0.5 * shift
    if length <= p:
        return d_ms, d_ms
    spectrum = np.linalg.eigvalsh(work)
    if not spectrum[0] > SINGULAR_ROUNDINGS * p * EPS * spectrum[-1]:
        return d_ms, d_ms
    for i in range(p):
        log_det += np.log(work[i, i])
    # Cholesky factor of the correlation matrix, in place below the diagonal.
    scale = np.sqrt(np.diag(work))
    for i in range(p):
        for j in range(i + 1):
            total = work[j, i] / (scale[i] * scale[j]) if j < i else 1.0
            for k in range(j):
                total -= work[i, k] * work[j, k]
            if j < i:
                work[i, j] = total / work[j, j]
        if total < SINGULAR_PIVOT:
            return d_ms, d_ms
        work[i, i] = np.sqrt(total)
        log_det += np.log(total)
    return length * 0.5 * (trace + shift - p - log_det), d_ms
