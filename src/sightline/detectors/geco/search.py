"""The search for GeCo's formulas: complete, and in closed form.

Every target gets the formula with the least squared error among all sums and products
of up to three other channels: all are judged by inner products, and the best few are
then fitted exactly.
"""

from collections.abc import Callable, Sequence

import numpy as np

from sightline.data.arrays import Floats
from sightline.detectors.geco.candidates import MOST_INPUTS, Columns, Fitted
from sightline.detectors.geco.closed_form import Ranking
from sightline.detectors.geco.exact_fit import fit_exactly
from sightline.detectors.geco.formulas import FAMILIES, SUM, Formula
from sightline.detectors.geco.oracle import fits_by_optimiser
from sightline.detectors.geco.search_state import SearchState
from sightline.detectors.geco.transitions import Transitions
from sightline.progress import Progress, Step, StepKind, silent

# Errors nearer to each other than this share are a tie: the earlier candidate wins.
_TIE = 1e-9
# An error below this share of the target's size is rounding, and a tie as well.
_ROUNDING = 1e-12
# A candidate is not fitted exactly if inner products put it above the best by more than
# they can be wrong: this share of the error and of the target's movement.
_WRONG = {"float64": 1e-6, "float32": 1e-4}
_PERSISTENCE = np.array([1.0, 0.0])


def find_formulas(
    transitions: Transitions,
    channels: Sequence[str],
    *,
    max_inputs: int = MOST_INPUTS,
    search: str = "closed form",
    precision: str = "float64",
    progress: Progress = silent,
    state: SearchState | None = None,
    keep: Callable[[SearchState], None] | None = None,
) -> list[Formula]:
    """Return the best formula of every channel.

    Parameters
    ----------
    transitions : Transitions
        What is to be told, and from what.
    channels : sequence of str
        Names of the columns.
    max_inputs : int
        How many other channels a formula may have, 3 at most.
    search : {"closed form", "curve_fit"}
        From inner products, or each candidate by scipy's optimiser as published.
    precision : {"float64", "float32"}
        Of the inner products of products; the best are always fitted in double. Single
        leaves out products that are nearly the own value.
    progress : callable, optional
        Told ``(what, done, total)``.
    state, keep : optional
        Where to go on, and what to call whenever a block or a target is finished.
    """
    state = state or SearchState()
    ranking = None
    if search == "closed form":
        ranking = Ranking(transitions, max_inputs, precision)
        ranking.search(progress, state, keep)
    n_channels = len(channels)
    for target in range(len(state.formulas), n_channels):
        if ranking is None:
            # To the letter: an optimiser's noise decides between equals.
            fits = fits_by_optimiser(transitions, target, max_inputs)
            chosen = _first_of_the_best(fits, 0.0, 0.0)
        else:
            fits = _fits_of_the_best(ranking, target, state)
            with np.errstate(over="ignore"):
                rounding = float(np.square(_ROUNDING * ranking.inner.size[target]))
            chosen = _first_of_the_best(fits, _TIE, rounding)
        state.formulas.append(measured(transitions, target, channels, *chosen))
        if keep is not None:
            keep(state)
        progress(Step(StepKind.TRAINING, target + 1, n_channels, "the best formulas"))
    return state.formulas


def _fits_of_the_best(
    ranking: Ranking, target: int, state: SearchState
) -> list[Fitted]:
    """Return the best candidates, fitted exactly; none if the target stands still.

    What stands still on the rows fitted on gives an optimiser that begins with the
    last value no reason to move.
    """
    estimates = ranking.estimates(target, state)
    if not estimates:
        return []
    columns = Columns(ranking.transitions, target)
    own_change = columns.after - columns.own
    if not own_change[: ranking.transitions.n_fitted].any():
        return []
    unit, moved = ranking.unit(target), ranking.moved(target)
    share = _WRONG[ranking.precision]
    # The formula without inputs is always tried: ties are decided by order.
    fits = [fit_exactly(columns, SUM, ())]
    least = np.inf
    for estimate, family, inputs in estimates:
        if estimate * unit > least + share * (least + moved * unit):
            break
        if inputs:
            fits.append(fit_exactly(columns, family, inputs))
        least = min((fit[3] for fit in fits if fit is not None), default=np.inf)
    return [fit for fit in fits if fit is not None]


def _first_of_the_best(
    fits: Sequence[Fitted], tie: float, rounding: float
) -> tuple[int, tuple[int, ...], Floats]:
    """Return the first of those candidates whose error is the least but for a tie."""
    if not fits:
        return SUM, (), _PERSISTENCE
    limit = min(fit[3] for fit in fits) * (1 + tie) + rounding
    in_order = sorted(fits, key=lambda fit: (fit[0], len(fit[1]), fit[1]))
    family, inputs, parameters, _ = next(f for f in in_order if f[3] <= limit)
    return family, inputs, parameters


def measured(
    transitions: Transitions,
    target: int,
    channels: Sequence[str],
    family: int,
    inputs: tuple[int, ...],
    parameters: Floats,
) -> Formula:
    """Return a fitted candidate as a formula: with error, drift and threshold."""
    from sightline._kernels.formulas import cusum_peak

    columns = Columns(transitions, target)
    errors = columns.errors(columns.of(family, inputs), parameters)
    drift = float(np.mean(np.abs(errors)) + np.std(errors))
    return Formula(
        target=channels[target],
        family=FAMILIES[family],
        inputs=tuple(channels[column] for column in inputs),
        parameters=tuple(parameters.tolist()),
        error=float(np.mean(errors**2)),
        drift=drift,
        threshold=cusum_peak(errors, drift, transitions.begins),
    )
