"""Compiled loops of blind spots: the size at which a row crosses a limit.

A row of a rule's view is ``f = base + a * change``. Both signs of the size `a` are
solved at once; a row that no size brings over its limit gets infinity.
"""

import numpy as np
from numba import njit

from sightline.data.arrays import Floats, Ints


@njit(cache=True, nogil=True)
def channel_crossings(
    base: Floats, change: Floats, limits: Floats, up: Floats, down: Floats
) -> None:
    """Lower `up` and `down` to the least size with ``abs(f_j) > limits_j`` for one j.

    Parameters
    ----------
    base, change : array of shape (n, q)
        Rows without injection, and what a size of 1 adds.
    limits : array of shape (q,)
        Limit of each column.
    up, down : array of shape (n,)
        Sizes found before for the positive and the negative sign; changed.
    """
    n, q = base.shape
    for t in range(n):
        best_up, best_down = up[t], down[t]
        for j in range(q):
            slope = change[t, j]
            if slope < 0.0:
                slope, value = -slope, -base[t, j]
            else:
                value = base[t, j]
            if slope == 0.0:
                continue
            # The nearer limit lies at either side; both signs have one each.
            room_up = max(limits[j] - value, 0.0)
            if room_up < best_up * slope:
                best_up = room_up / slope
            room_down = max(limits[j] + value, 0.0)
            if room_down < best_down * slope:
                best_down = room_down / slope
        up[t], down[t] = best_up, best_down


@njit(cache=True, nogil=True)
def energy_crossings(
    base: Floats,
    change: Floats,
    bounds: Ints,
    limits: Floats,
    up: Floats,
    down: Floats,
) -> None:
    """Lower `up` and `down` to the least size with one unit's energy over its limit.

    The energy of unit g is ``e0 + a b + a^2 c``, half the sum of squares of columns
    [bounds[g], bounds[g + 1]). Parameters as of `channel_crossings`; `limits` has one
    value for each unit.
    """
    n = len(base)
    for t in range(n):
        for g in range(len(bounds) - 1):
            e0, b, c = 0.0, 0.0, 0.0
            for j in range(bounds[g], bounds[g + 1]):
                e0 += base[t, j] * base[t, j]
                b += base[t, j] * change[t, j]
                c += change[t, j] * change[t, j]
            room, c = limits[g] - 0.5 * e0, 0.5 * c
            if c == 0.0:
                continue
            if room <= 0.0:
                up[t], down[t] = 0.0, 0.0
                continue
            root = np.sqrt(b * b + 4.0 * c * room)
            # The form without cancellation, for either sign of b.
            if b >= 0.0:
                size_up, size_down = 2.0 * room / (b + root), (b + root) / (2.0 * c)
            else:
                size_up, size_down = (root - b) / (2.0 * c), 2.0 * room / (root - b)
            up[t] = min(up[t], size_up)
            down[t] = min(down[t], size_down)
