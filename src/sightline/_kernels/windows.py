"""Moments of many windows from one pass over whitened rows, compiled.

Rows arrive in blocks. Each block is cut into short sub-blocks whose moments are made
once; the piece of a window that lies in the block is put together from them, merged by
Chan's formula, so that its cost does not grow with its length and a huge value in one
window leaves the digits of all others alone. Only upper triangles are used.
"""

from typing import NamedTuple

import numpy as np

from sightline._kernels.compiling import inner, kernel, part
from sightline.data.arrays import Floats, Ints

SUB_ROWS = 32
# Beyond this spread of eigenvalues the smallest have no digits left.
ABSORBED = 1e10
# When a plain covariance counts as singular: see `sightline.metrics.window_kl`.
SINGULAR_PIVOT = 1e-12
SINGULAR_ROUNDINGS = 10
EPS = 2.0**-52
# Loops are written out: an assignment of a whole array takes numba far longer to
# compile. No relaxed arithmetic here: the compiler would then order sums in one way in
# a fresh process and in another when it loads the kernel from its cache, and the last
# digits would differ between first and second run.


class WindowJobs(NamedTuple):
    """Which windows to fill, one job for each length. The kernel only reads these.

    Job i has the windows ``starts[bounds[i]:bounds[i + 1]]``, sorted, all of
    ``lengths[i]`` rows. The accumulators of those that are filled at the same time are
    ``slots[i]`` to ``slots[i] + n_slots[i]``.
    """

    starts: Ints
    bounds: Ints
    lengths: Ints
    slots: Ints
    n_slots: Ints


class WindowState(NamedTuple):
    """How far the windows are filled. The kernel writes into these.

    Of job i the windows from ``first_open[i]`` up to ``next_open[i]`` are being filled.
    `counts`, `means` and `seconds` are the accumulators.
    """

    first_open: Ints
    next_open: Ints
    counts: Floats
    means: Floats
    seconds: Floats


class EndedWindows(NamedTuple):
    """Numbers and moments of windows that end in a block. The kernel writes these."""

    numbers: Ints
    means: Floats
    seconds: Floats


class Work(NamedTuple):
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


@inner
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
        _copy(more_mean, more_second, mean, second)
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


@inner
def _copy(mean: Floats, second: Floats, to_mean: Floats, to_second: Floats) -> None:
    """Copy the moments of some rows."""
    for i in range(len(mean)):
        to_mean[i] = mean[i]
        for j in range(len(mean)):
            to_second[i, j] = second[i, j]


def work_for(n_rows: int, p: int) -> Work:
    """Return the arrays for a block of rows, not filled."""
    n_subs = n_rows // SUB_ROWS
    return Work(
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


@inner
def _add_product(items: Floats, n_items: int, product: Floats, second: Floats) -> None:
    """Add the second-moment sum of the first items."""
    np.dot(items[:n_items].T, items[:n_items], product)
    for i in range(len(second)):
        for j in range(len(second)):
            second[i, j] += product[i, j]


@part
def _prepare(rows: Floats, work: Work) -> None:
    """Write the moments of each sub-block, of all up to each, and of all from each."""
    sub_mean, sub, items = work.sub_mean, work.sub, work.items
    up_to_mean, up_to = work.up_to_mean, work.up_to
    after_mean, after = work.after_mean, work.after
    n_subs, p = sub_mean.shape
    for k in range(n_subs):
        first = k * SUB_ROWS
        for j in range(p):
            total = 0.0
            for t in range(SUB_ROWS):
                total += rows[first + t, j]
            sub_mean[k, j] = total / SUB_ROWS
            for i in range(p):
                sub[k, i, j] = 0.0
        for t in range(SUB_ROWS):
            for j in range(p):
                items[t, j] = rows[first + t, j] - sub_mean[k, j]
        _add_product(items, SUB_ROWS, work.product, sub[k])
    for k in range(n_subs):
        back = n_subs - 1 - k
        if k:
            _copy(up_to_mean[k], up_to[k], up_to_mean[k + 1], up_to[k + 1])
            _copy(after_mean[back + 1], after[back + 1], after_mean[back], after[back])
        count = float(k * SUB_ROWS)
        merge_moments(
            count, up_to_mean[k + 1], up_to[k + 1],
            float(SUB_ROWS), sub_mean[k], sub[k], work.shift,
        )  # fmt: skip
        merge_moments(
            count, after_mean[back], after[back],
            float(SUB_ROWS), sub_mean[back], sub[back], work.shift,
        )  # fmt: skip


@part
def _collect_items(
    rows: Floats, first: int, last: int, work: Work
) -> tuple[int, int, float]:
    """Write the means of the items that make up rows [first, last) into `items`.

    The items are whole sub-blocks, one by one or already merged, and the single rows
    before and after them; `second` gets the second moments within the sub-blocks.
    Returns the number of items, how many of them are sub-blocks, and the rows of one.
    """
    items, second = work.items, work.second
    p, n_subs = rows.shape[1], len(work.sub_mean)
    one, two = (first + SUB_ROWS - 1) // SUB_ROWS, min(last // SUB_ROWS, n_subs)
    for i in range(p):
        for j in range(p):
            second[i, j] = 0.0
    n_items = 0
    head, tail = last, last
    inner, merged = 1.0, 0
    if one < two:
        head, tail = one * SUB_ROWS, two * SUB_ROWS
        if one == 0:
            inner, merged = float(two * SUB_ROWS), 1
            _copy(work.up_to_mean[two], work.up_to[two], items[0], second)
        elif two == n_subs:
            inner, merged = float((two - one) * SUB_ROWS), 1
            _copy(work.after_mean[one], work.after[one], items[0], second)
        else:
            inner, merged = float(SUB_ROWS), two - one
            for k in range(one, two):
                for i in range(p):
                    items[k - one, i] = work.sub_mean[k, i]
                    for j in range(p):
                        second[i, j] += work.sub[k, i, j]
        n_items = merged
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
    items, mean, second = work.items, work.mean, work.second
    p = rows.shape[1]
    if last - first == 1:
        for i in range(p):
            mean[i] = rows[first, i]
            for j in range(p):
                second[i, j] = 0.0
        return
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
        _add_product(items, n_items, work.product, second)


@part
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


@part
def _add_rows(
    job: int, n_rows: int, jobs: WindowJobs, state: WindowState, work: Work
) -> None:
    """Merge rows into all open windows of a job."""
    for k in range(state.first_open[job], state.next_open[job]):
        slot = jobs.slots[job] + k % jobs.n_slots[job]
        state.counts[slot] = merge_moments(
            state.counts[slot], state.means[slot], state.seconds[slot],
            float(n_rows), work.mean, work.second, work.shift,
        )  # fmt: skip


@kernel
def take_block(
    rows: Floats,
    jobs: WindowJobs,
    state: WindowState,
    work: Work,
    reached: Ints,
    stop: int,
    ended: EndedWindows,
) -> int:
    """Add one block of whitened rows to every window that it touches.

    The rows end before row `stop` of the test; blocks come in order. Writes the moments
    of the windows that end, and returns their number. Where there is no room for more
    of them it returns early, and is to be called again with the same arguments:
    ``reached[job]`` is the row up to which a job is done, the first row of the block
    before the first call, and ``reached[-1]`` is 0 before it.
    """
    start = stop - len(rows)
    n_ended = 0
    for job in range(len(jobs.lengths)):
        t = reached[job]
        while True:
            while (
                state.first_open[job] < state.next_open[job]
                and jobs.starts[state.first_open[job]] + jobs.lengths[job] == t
            ):
                if n_ended == len(ended.numbers):
                    reached[job] = t
                    return n_ended
                k = state.first_open[job]
                slot = jobs.slots[job] + k % jobs.n_slots[job]
                ended.numbers[n_ended] = k
                _copy(
                    state.means[slot], state.seconds[slot],
                    ended.means[n_ended], ended.seconds[n_ended],
                )  # fmt: skip
                state.first_open[job] += 1
                n_ended += 1
            if t >= stop:
                break
            following = state.next_open[job]
            if state.first_open[job] == following:
                # No window is open: go to the next one that begins in this block.
                if following == jobs.bounds[job + 1] or jobs.starts[following] >= stop:
                    t = stop
                    break
                t = max(t, jobs.starts[following])
            end = _open_windows(job, t, stop, jobs, state)
            if not reached[-1]:
                reached[-1] = 1
                _prepare(rows, work)
            _moments_of_rows(rows, t - start, end - start, work)
            _add_rows(job, end - t, jobs, state, work)
            t = end
        reached[job] = t
    return n_ended


@kernel
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


def energies_of_windows(
    lengths: Ints, means: Floats, seconds: Floats
) -> tuple[Floats, Floats]:
    """Return D_FULL and D_MS of windows; infinite if rows lie beyond 1e150.

    The formulas are in `sightline.metrics.window_kl`. `seconds` are the centred
    second-moment sums of the windows' rows, shape (n_windows, p, p).
    """
    p = means.shape[1]
    n_rows = (lengths + p).astype(np.float64)
    least = p / n_rows
    shift = np.einsum("kj,kj->k", means, means)
    covariance = seconds / n_rows[:, None, None]
    covariance.reshape(len(means), -1)[:, :: p + 1] += least[:, None]
    trace = np.einsum("kjj->k", covariance)
    log_det = np.full(len(means), -np.inf)
    is_finite = np.isfinite(trace + shift)  # else whitened values are beyond 1e150
    # In floating point a burst absorbs the added pseudo-rows; even so no eigenvalue can
    # be smaller than they make it.
    absorbs = is_finite & (trace > ABSORBED * least)
    spectrum = np.linalg.eigvalsh(covariance[absorbs])
    log_det[absorbs] = np.log(np.maximum(spectrum, least[absorbs, None])).sum(axis=1)
    plain = is_finite & ~absorbs
    pivots = np.einsum("kjj->kj", np.linalg.cholesky(covariance[plain]))
    log_det[plain] = (2.0 * np.log(pivots)).sum(axis=1)
    with np.errstate(invalid="ignore", over="ignore"):
        d_full = lengths * 0.5 * (trace + shift - p - log_det)
        d_ms = lengths * 0.5 * shift
    d_full[~is_finite] = d_ms[~is_finite] = np.inf
    return d_full, d_ms
