"""Compiled loops over a block of residuals: moments and energies.

They do in one pass what numpy would do in six. Sums may be reassociated (that is what
lets them run several at a time); nothing else is relaxed: a nan or an infinity in a row
always reaches that row's result.
"""

import numpy as np

from sightline._kernels.compiling import relaxed
from sightline.data.arrays import Bools, Floats, Residuals


@relaxed
def center(
    block: Residuals, mean: Floats, weights: Floats, centered: Floats, squares: Floats
) -> None:
    """Write y = block - mean, and for each row the sum over channels of w_j y_j^2.

    Columns of `centered` beyond those of `block` stay as they are.
    """
    n_rows, n_channels = block.shape
    for t in range(n_rows):
        square = 0.0
        for j in range(n_channels):
            y = np.float64(block[t, j]) - mean[j]
            centered[t, j] = y
            square += weights[j] * y * y
        squares[t] = square


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
