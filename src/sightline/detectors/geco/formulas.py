"""A formula: what it is, how people read it, as arrays, and what it leaves of rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sightline.data.arrays import Floats, Ints
from sightline.detectors.saving import Arrays

Family = Literal["Sum", "Product"]
FAMILIES: tuple[Family, Family] = ("Sum", "Product")
# Their places in it: how families are told in arrays and while searching.
SUM, PRODUCT = 0, 1


@dataclass(frozen=True, kw_only=True)
class Formula:
    """What one channel is expected to be, from the row before.

    Parameters
    ----------
    target : str
        The channel it tells.
    family : {"Sum", "Product"}
        Whether the other channels are added up or multiplied.
    inputs : tuple of str
        Other channels, in the order of the recording.
    parameters : tuple of float
        Factor of the target's own value, then of each input (of their product), then
        the offset.
    error : float
        Mean squared error over all rows of train.
    drift, threshold : float
        Mean absolute error plus its spread, and the largest CUSUM of train.
    """

    target: str
    family: Family
    inputs: tuple[str, ...]
    parameters: tuple[float, ...]
    error: float
    drift: float
    threshold: float

    def __str__(self) -> str:
        own, *factors, offset = self.parameters
        is_product = self.family == "Product"
        terms = (" x ".join(self.inputs),) if is_product else self.inputs
        text = f"{self.target} = {own:.6g} {self.target}"
        for factor, term in zip(factors, terms, strict=True):
            text += f" {_signed(factor)} {term}"
        return text if offset == 0 else f"{text} {_signed(offset)}"


def _signed(number: float) -> str:
    return f"{'-' if number < 0 else '+'} {abs(number):.6g}"


def n_parameters(family: Family, n_inputs: int) -> int:
    """Return how many parameters a formula has: own factor, others, offset."""
    return 3 if family == "Product" else n_inputs + 2


def formula_arrays(formulas: Sequence[Formula], channels: Sequence[str]) -> Arrays:
    """Return formulas as arrays: what the kernels take, and what is saved."""
    place = {name: k for k, name in enumerate(channels)}
    width = max((len(f.inputs) for f in formulas), default=0) + 1
    inputs = np.full((len(formulas), width), -1, np.int64)
    parameters = np.full((len(formulas), max(width + 1, 3)), np.nan)
    for k, formula in enumerate(formulas):
        names = (formula.target, *formula.inputs)
        inputs[k, : len(names)] = [place[name] for name in names]
        parameters[k, : len(formula.parameters)] = formula.parameters
    return {
        "formulas/family": np.array(
            [FAMILIES.index(f.family) for f in formulas], np.int8
        ),
        "formulas/inputs": inputs,
        "formulas/count": (inputs >= 0).sum(axis=1).astype(np.int64),
        "formulas/parameters": parameters,
        "formulas/error": np.array([f.error for f in formulas], np.float64),
        "formulas/drift": np.array([f.drift for f in formulas], np.float64),
        "formulas/threshold": np.array([f.threshold for f in formulas], np.float64),
    }


def formulas_of(arrays: Arrays, channels: Sequence[str]) -> list[Formula]:
    """Take back what `formula_arrays` gave."""
    formulas = []
    for k, number in enumerate(arrays["formulas/family"]):
        family = FAMILIES[number]
        count = int(arrays["formulas/count"][k])
        target, *inputs = (channels[c] for c in arrays["formulas/inputs"][k, :count])
        held = n_parameters(family, len(inputs))
        formulas.append(
            Formula(
                target=target,
                family=family,
                inputs=tuple(inputs),
                parameters=tuple(arrays["formulas/parameters"][k, :held].tolist()),
                error=float(arrays["formulas/error"][k]),
                drift=float(arrays["formulas/drift"][k]),
                threshold=float(arrays["formulas/threshold"][k]),
            )
        )
    return formulas


def observed_minus_expected(
    formulas: Sequence[Formula], channels: Sequence[str], values: Floats, rows: Ints
) -> Floats:
    """Return what each formula leaves of the given rows, each from the row before."""
    from sightline._kernels.formulas import observed_minus_predicted

    arrays = formula_arrays(formulas, channels)
    residuals = np.empty((len(rows), len(formulas)))
    observed_minus_predicted(
        values,
        rows,
        arrays["formulas/family"],
        arrays["formulas/inputs"],
        arrays["formulas/count"],
        arrays["formulas/parameters"],
        residuals,
    )
    return residuals
