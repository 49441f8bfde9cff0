"""Moments of many windows from one pass over whitened rows, compiled.

Rows arrive in blocks. Each block is cut into short sub-blocks whose moments are made
once; the piece of a window that lies in the block is put together from them, merged by
Chan's formula, so that its cost does not grow with its length and a huge value in one
window leaves the digits of all others alone. Only upper triangles are used.
"""

import numpy as np
from numba import njit

from sightline.data.arrays import Floats, Ints

SUB_ROWS = 32
# Beyond this spread of eigenvalues the smallest have no digits left.
ABSORBED = 1e10
# Only what is called from outside is cached. No relaxed arithmetic here: the compiler
# would then order sums in one way in a fresh process and in another when it loads the
# kernel from its cache, and the last digits would differ between first and second run.


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
    """Merge `more` rows into `count` rows in place; return the new count."""
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
def _cell(
    rows: Floats,
    first: int,
    last: int,
    sub_mean: Floats,
    sub: Floats,
    up_to_mean: Floats,
    up_to: Floats,
    after_mean: Floats,
    after: Floats,
    items: Floats,
    mean: Floats,
    second: Floats,
    product: Floats,
) -> None:
    """Write the moments of rows [first, last) of the block.

    The rows are those before the first whole sub-block, whole sub-blocks, and those
    after the last. All merge at once: with m the mean of all, the second moment is the
    sum over items (single rows too) of their own plus count * (mean - m)(mean - m)'.
    """
    if last - first == 1:
        mean[:] = rows[first]
        second[:, :] = 0.0
        return
    p = rows.shape[1]
    n_subs = len(sub_mean)
    one, two = (first + SUB_ROWS - 1) // SUB_ROWS, min(last // SUB_ROWS, n_subs)
    second[:, :] = 0.0
    n_items = 0
    head, tail = last, last
    inner, merged = 1.0, 0
    if one < two:
        head, tail = one * SUB_ROWS, two * SUB_ROWS
        if one == 0:
            inner, merged = float(two * SUB_ROWS), 1
            items[0], second[:, :] = up_to_mean[two], up_to[two]
        elif two == n_subs:
            inner, merged = float((two - one) * SUB_ROWS), 1
            items[0], second[:, :] = after_mean[one], after[one]
        else:
            inner, merged = float(SUB_ROWS), two - one
            for k in range(one, two):
                items[k - one] = sub_mean[k]
                for i in range(p):
                    for j in range(p):
                        second[i, j] += sub[k, i, j]
        n_items = merged
    for t in range(first, head):
        items[n_items] = rows[t]
        n_items += 1
    for t in range(tail, last):
        items[n_items] = rows[t]
        n_items += 1
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
def _prepare(
    rows: Floats,
    sub_mean: Floats,
    sub: Floats,
    up_to_mean: Floats,
    up_to: Floats,
    after_mean: Floats,
    after: Floats,
    items: Floats,
    product: Floats,
) -> None:
    """Write the moments of each sub-block, of all up to each, and of all from each."""
    n_subs, p = sub_mean.shape
    shift = np.empty(p)
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
            SUB_ROWS, sub_mean[k], sub[k], shift,
        )  # fmt: skip
        merge_moments(
            count, after_mean[back], after[back],
            SUB_ROWS, sub_mean[back], sub[back], shift,
        )  # fmt: skip


@njit(cache=True)
def take_block(
    start: int,
    rows: Floats,
    starts: Ints,
    job_bounds: Ints,
    lengths: Ints,
    first_open: Ints,
    next_open: Ints,
    slots: Ints,
    n_slots: Ints,
    counts: Floats,
    means: Floats,
    seconds: Floats,
    kept: Ints,
    kept_mean: Floats,
    kept_second: Floats,
    d_full: Floats,
    d_ms: Floats,
) -> None:
    """Add one block of whitened rows to every window that it touches.

    Job i has windows `starts[job_bounds[i]:job_bounds[i + 1]]`, sorted, all of
    `lengths[i]` rows; those from `first_open[i]` up to `next_open[i]` are being filled,
    in the accumulators that begin at `slots[i]`. A window that ends gets its integrated
    energies; where `kept` is not negative, its moments are kept too.
    """
    n_rows, p = rows.shape
    n_subs = n_rows // SUB_ROWS
    stop = start + n_rows
    shift, mean = np.empty(p), np.empty(p)
    second, product = np.empty((p, p)), np.empty((p, p))
    items = np.empty((3 * SUB_ROWS + n_subs, p))
    sub_mean, sub = np.empty((n_subs, p)), np.empty((n_subs, p, p))
    up_to_mean, up_to = np.empty((n_subs + 1, p)), np.empty((n_subs + 1, p, p))
    after_mean, after = np.empty((n_subs + 1, p)), np.empty((n_subs + 1, p, p))
    prepared = False
    for job in range(len(lengths)):
        last, length = job_bounds[job + 1], lengths[job]
        t = start
        while t < stop:
            if first_open[job] == next_open[job]:
                # Nothing is being filled: go to the next window that begins here.
                if next_open[job] == last or starts[next_open[job]] >= stop:
                    break
                t = max(t, starts[next_open[job]])
            while next_open[job] < last and starts[next_open[job]] == t:
                counts[slots[job] + next_open[job] % n_slots[job]] = 0.0
                next_open[job] += 1
            end = min(stop, starts[first_open[job]] + length)
            if next_open[job] < last:
                end = min(end, starts[next_open[job]])
            if not prepared:
                prepared = True
                _prepare(
                    rows, sub_mean, sub, up_to_mean, up_to, after_mean, after,
                    items, product,
                )  # fmt: skip
            _cell(
                rows, t - start, end - start, sub_mean, sub, up_to_mean, up_to,
                after_mean, after, items, mean, second, product,
            )  # fmt: skip
            for k in range(first_open[job], next_open[job]):
                slot = slots[job] + k % n_slots[job]
                counts[slot] = merge_moments(
                    counts[slot], means[slot], seconds[slot],
                    float(end - t), mean, second, shift,
                )  # fmt: skip
            while (
                first_open[job] < next_open[job]
                and starts[first_open[job]] + length == end
            ):
                k = first_open[job]
                slot = slots[job] + k % n_slots[job]
                if kept[k] >= 0:
                    kept_mean[kept[k]] = means[slot]
                    kept_second[kept[k]] = seconds[slot]
                d_full[k], d_ms[k] = energies_of_window(
                    length, means[slot], seconds[slot], product
                )
                first_open[job] += 1
            t = end


@njit()
def energies_of_window(
    length: int, mean: Floats, second: Floats, work: Floats
) -> tuple[float, float]:
    """Return D_FULL and D_MS of a window; see `sightline.metrics.window_kl`."""
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
        # A burst swallows the added pseudo-rows in floating point; that no eigenvalue
        # can be smaller than they make it is known all the same.
        log_det = np.log(np.maximum(np.linalg.eigvalsh(work), least)).sum()
    else:
        log_det = 0.0
        lower = np.linalg.cholesky(work)
        for i in range(p):
            log_det += 2.0 * np.log(lower[i, i])
    kl = 0.5 * (trace + shift - p - log_det)
    return length * kl, length * 0.5 * shift
