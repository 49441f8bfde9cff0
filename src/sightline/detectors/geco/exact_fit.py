"""One candidate fitted exactly, by QR: what the best of a search get."""

import numpy as np

from sightline.data.arrays import Floats
from sightline.detectors.geco.candidates import LEAST_LEFT, Columns, Fitted


def fit_exactly(
    columns_of: Columns, family: int, inputs: tuple[int, ...]
) -> Fitted | None:
    """Fit a candidate by QR.

    Returns
    -------
    family, inputs, parameters, mean squared error
        None where its columns depend on each other on the rows fitted on.
    """
    columns, n_fitted = columns_of.of(family, inputs), columns_of.transitions.n_fitted
    with np.errstate(all="ignore"):
        parameters = _least_squares(
            [column[:n_fitted] for column in columns], columns_of.after[:n_fitted]
        )
        if parameters is None:
            return None
        error = float(np.mean(columns_of.errors(columns, parameters) ** 2))
    return (family, inputs, parameters, error) if np.isfinite(error) else None


def _least_squares(columns: list[Floats], after: Floats) -> Floats | None:
    """Return the parameters of a formula, or none if columns depend on each other.

    What is told is the change from the own value: where that hardly moves, nothing is
    lost to the size of the value itself. Centred and scaled columns do the rest.
    """
    n = len(columns)
    design = np.empty((len(after), n + 1), order="F")
    scales = np.empty(n)
    for k, column in enumerate(columns):
        centred = column - column[0]
        centred -= centred.mean()
        scales[k] = np.abs(centred).max()
        if not 0 < scales[k] < np.inf:
            return None
        np.divide(centred, scales[k], out=design[:, k])
    np.subtract(after, columns[0], out=design[:, n])
    design[:, n] -= design[:, n].mean()
    norms = np.einsum("ij,ij->j", design, design)
    triangle: Floats = np.linalg.qr(design, mode="r")  # type: ignore[assignment]
    if len(triangle) < n:
        return None
    # A column constant but for rounding: nothing of it is left by taking off the mean.
    size = np.array([np.abs(column).max() for column in columns])
    if (scales < 16 * np.finfo(float).eps * size).any():
        return None
    if (np.diag(triangle)[:n] ** 2 < LEAST_LEFT["float64"] * norms[:n]).any():
        return None
    factors = np.linalg.solve(triangle[:n, :n], triangle[:n, n]) / scales
    factors[0] += 1.0
    told = factors[0] * columns[0]
    for factor, column in zip(factors[1:], columns[1:], strict=True):
        told += factor * column
    return np.append(factors, np.mean(after - told))
