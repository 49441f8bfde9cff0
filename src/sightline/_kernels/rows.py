"""Compiled loops over rows: moments and energies, subspaces, accumulation.

The loops over a block of residuals do in one pass what numpy would do in six. Those
marked `relaxed` may reassociate sums (that is what lets them run four at a time);
nothing else is relaxed: a nan or an infinity in a row always reaches that row's result.

A family of subspaces has one column each: every channel alone, then groups, then the
sums of the k largest channels. No loop needs more than one block of rows.
"""

import numpy as np

from sightline._kernels.compiling import relaxed
from sightline.data.arrays import Bools, Floats, Residuals


@relaxed
def center_and_sum(
    block: Residuals,
    pilot: Floats,
    centered: Floats,
    squares: Floats,
    total: Floats,
    cubic: Floats,
) -> None:
    """Write y = block - pilot and its squared row norms; add up what moments need.

    ``total += sum y`` and ``cubic += sum |y|^2 y``.
    """
    n_rows, n_channels = block.shape
    for t in range(n_rows):
        square = 0.0
        for j in range(n_channels):
            y = np.float64(block[t, j]) - pilot[j]
            centered[t, j] = y
            square += y * y
        squares[t] = square
        for j in range(n_channels):
            total[j] += centered[t, j]
            cubic[j] += square * centered[t, j]


@relaxed
def center_and_weigh(
    block: Residuals, mean: Floats, weights: Floats, centered: Floats
) -> float:
    """Write y = block - mean; return the sum over rows of (sum_j w_j y_j^2)^2."""
    n_rows, n_channels = block.shape
    fourth = 0.0
    for t in range(n_rows):
        square = 0.0
        for j in range(n_channels):
            y = np.float64(block[t, j]) - mean[j]
            centered[t, j] = y
            square += weights[j] * y * y
        fourth += square * square
    return fourth


@relaxed
def energies(
    whitened: Floats, counted: Bools, energy: Floats
) -> tuple[float, float, float]:
    """Write half the squared row norms; return max z^2, sum z^2 and sum z^4.

    The three figures are over the rows where `counted` is true.
    """
    n_rows, n_channels = whitened.shape
    largest, second, fourth = 0.0, 0.0, 0.0
    for t in range(n_rows):
        square, quartic = 0.0, 0.0
        for j in range(n_channels):
            zz = whitened[t, j] * whitened[t, j]
            square += zz
            quartic += zz * zz
        energy[t] = 0.5 * square
        if counted[t]:
            second += square
            fourth += quartic
            # No coordinate can be the largest so far unless this sum allows it.
            if quartic > largest * largest:
                for j in range(n_channels):
                    zz = whitened[t, j] * whitened[t, j]
                    largest = zz if zz > largest else largest
    return largest, second, fourth
