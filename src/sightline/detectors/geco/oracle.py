"""Each candidate fitted as published, by scipy's optimiser: what the search is held to.

The same formulas as by the closed form, at some thousand times the cost.
"""

import warnings

import numpy as np

from sightline.data.arrays import Floats
from sightline.detectors.geco.candidates import Columns, Fitted, candidates
from sightline.detectors.geco.formulas import PRODUCT
from sightline.detectors.geco.transitions import Transitions


def fits_by_optimiser(
    transitions: Transitions, target: int, max_inputs: int
) -> list[Fitted]:
    """Return all candidates of a target, less those the optimiser gives up."""
    columns_of = Columns(transitions, target)
    fits = (
        fit_by_optimiser(columns_of, *candidate)
        for candidate in candidates(target, transitions.n_channels, max_inputs)
    )
    return [fit for fit in fits if fit is not None]


def fit_by_optimiser(
    columns_of: Columns, family: int, inputs: tuple[int, ...]
) -> Fitted | None:
    """Fit a candidate as the published code does, by scipy's `curve_fit`.

    Returns
    -------
    family, inputs, parameters, mean squared error
        None where the optimiser gives up.
    """
    from scipy.optimize import OptimizeWarning, curve_fit

    columns, n_fitted = columns_of.of(family, inputs), columns_of.transitions.n_fitted
    start = [1.0] + [float(family == PRODUCT)] * (len(columns) - 1) + [0.0]

    def told(given: Floats, *parameters: float) -> Floats:
        total = parameters[0] * given[0]
        for factor, column in zip(parameters[1:-1], given[1:], strict=True):
            total = total + factor * column
        return np.asarray(total + parameters[-1])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OptimizeWarning)
        try:
            parameters, _ = curve_fit(
                told,
                np.array([column[:n_fitted] for column in columns]),
                columns_of.after[:n_fitted],
                p0=start,
            )
        except (RuntimeError, TypeError, ValueError):
            # The optimiser gave up, or has fewer rows than parameters, or no numbers.
            return None
    error = float(np.mean(columns_of.errors(columns, parameters) ** 2))
    return family, inputs, np.asarray(parameters, np.float64), error
