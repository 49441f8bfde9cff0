"""Formulas and the transitions they are fitted to; formulas as arrays and as files.

Files are those of IPAL's GeCo: JSON with the formulas and some settings.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np

from sightline.data.arrays import Bools, Floats, Ints
from sightline.data.recording import Recording
from sightline.detectors.base import Arrays
from sightline.errors import FileError, StreamError
from sightline.files import brief, read_document, staged_file
from sightline.text import names

Family = Literal["Sum", "Product"]
FAMILIES: tuple[Family, Family] = ("Sum", "Product")
# Their places in `FAMILIES`: the codes of families in arrays and in the search.
SUM, PRODUCT = 0, 1
# The largest number of other channels in a formula that the search tries.
MOST_INPUTS = 3
# Rows worked on at a time.
ROWS_AT_ONCE = 2_048
# Names in IPAL's files, and ours.
_SETTINGS = {
    "ignore": "ignore",
    "max_formel_length": "max_inputs",
    "threshold_factor": "threshold_factor",
    "cusum_factor": "cusum_factor",
}


@dataclass(frozen=True, kw_only=True)
class Formula:
    """The expected value of one channel, from the row before.

    Parameters
    ----------
    target : str
        The channel it predicts.
    family : {"Sum", "Product"}
        Whether the other channels are added or multiplied.
    inputs : tuple of str
        Other channels, in the order of the recording.
    parameters : tuple of float
        Factor of the target's last value, then of each input (of their product), then
        the offset.
    error : float
        Mean squared error over all rows of train.
    drift, threshold : float
        Mean absolute error plus its standard deviation, and the largest CUSUM of train.

    Examples
    --------
    >>> print(Formula(target="L1", family="Sum", inputs=("P1",),
    ...               parameters=(1.0, 0.5, -1.2), error=0.0, drift=0.0, threshold=0.0))
    L1 = 1 L1 + 0.5 P1 - 1.2
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
    """Return the number of parameters: factor of the target, of the inputs, offset."""
    return 3 if family == "Product" else n_inputs + 2


def formula_arrays(formulas: Sequence[Formula], channels: Sequence[str]) -> Arrays:
    """Return formulas as arrays, for the kernels and for saving.

    Parameters
    ----------
    formulas : sequence of Formula
        Of these channels.
    channels : sequence of str
        Names of the columns.
    """
    place = {name: k for k, name in enumerate(channels)}
    width = max((len(f.inputs) for f in formulas), default=0) + 1
    inputs = np.full((len(formulas), width), -1, np.int64)
    parameters = np.full((len(formulas), max(width + 1, 3)), np.nan)
    for k, formula in enumerate(formulas):
        columns = (formula.target, *formula.inputs)
        inputs[k, : len(columns)] = [place[name] for name in columns]
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
    """Return the formulas that `formula_arrays` gave as arrays."""
    formulas = []
    for k, number in enumerate(arrays["formulas/family"]):
        family = FAMILIES[number]
        count = int(arrays["formulas/count"][k])
        target, *inputs = (channels[c] for c in arrays["formulas/inputs"][k, :count])
        n = n_parameters(family, len(inputs))
        formulas.append(
            Formula(
                target=target,
                family=family,
                inputs=tuple(inputs),
                parameters=tuple(arrays["formulas/parameters"][k, :n].tolist()),
                error=float(arrays["formulas/error"][k]),
                drift=float(arrays["formulas/drift"][k]),
                threshold=float(arrays["formulas/threshold"][k]),
            )
        )
    return formulas


def observed_minus_expected(
    formulas: Sequence[Formula], channels: Sequence[str], values: Floats, rows: Ints
) -> Floats:
    """Return the residual of each formula for some rows.

    Parameters
    ----------
    formulas : sequence of Formula
        Of these channels.
    channels : sequence of str
        Names of the columns of `values`.
    values : array of shape (n, n_channels)
        In the plant's units.
    rows : array of shape (n_rows,)
        Each is predicted from the row before it.

    Returns
    -------
    array of shape (n_rows, n_formulas)
    """
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


@dataclass(frozen=True, kw_only=True, eq=False)
class Transitions:
    """Rows that have a row before them, in order; the first ones are fitted on.

    Parameters
    ----------
    values : array of shape (n, channels)
        All rows, finite.
    rows : array of shape (n_transitions,)
        Rows to predict, each from the one before it.
    begins : array of shape (n_transitions,)
        Whether it is the first transition of a run.
    n_fitted : int
        Number of transitions that are fitted on; the others count for the choice.
    """

    values: Floats
    rows: Ints
    begins: Bools
    n_fitted: int

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def of(
        cls, values: Floats, breaks: Ints | None = None, fit_share: float = 0.8
    ) -> "Transitions":
        """Return the transitions within runs.

        Parameters
        ----------
        values : array of shape (n, channels)
            All rows, finite.
        breaks : array of int, optional
            First row of each run; one run if not given.
        fit_share : float
            Share of the transitions, from the first, that are fitted on.
        """
        rows, begins = predicted_rows(len(values), breaks)
        n_fitted = int(fit_share * len(rows))
        if n_fitted < 2:
            raise StreamError(
                f"Train leaves {n_fitted} steps to fit formulas to, and 2 or more are "
                "needed: give a longer recording, or raise `fit_share`."
            )
        return cls(values=values, rows=rows, begins=begins, n_fitted=n_fitted)

    @property
    def n_channels(self) -> int:
        """Number of channels of a row."""
        return int(self.values.shape[1])

    def column(self, number: int) -> tuple[Floats, Floats]:
        """Return the values of a channel before each transition, and after it."""
        column = np.ascontiguousarray(self.values[:, number])
        return column[self.rows - 1], column[self.rows]

    def chunks(self) -> Iterator[tuple[bool, slice]]:
        """Yield some transitions at a time, and whether they are fitted on."""
        for is_fitted, start, stop in (
            (True, 0, self.n_fitted),
            (False, self.n_fitted, len(self)),
        ):
            for first in range(start, stop, ROWS_AT_ONCE):
                yield is_fitted, slice(first, min(first + ROWS_AT_ONCE, stop))


def predicted_rows(n_rows: int, breaks: Ints | None = None) -> tuple[Ints, Bools]:
    """Return the rows with a row before them in their run, and where runs begin.

    Examples
    --------
    >>> predicted_rows(5, np.array([0, 3]))
    (array([1, 2, 4]), array([ True, False,  True]))
    """
    is_predicted = np.ones(n_rows, np.bool_)
    is_predicted[0 if breaks is None else breaks] = False
    rows = np.flatnonzero(is_predicted)
    return rows, ~is_predicted[rows - 1]


# ------------------------------------------------------------ model files of IPAL


class IpalModel(NamedTuple):
    """Content of a model file.

    Parameters
    ----------
    formulas : tuple of Formula
        One for each channel that is not ignored.
    settings : mapping
        By our names: those of `GeCoSettings` that IPAL has as well.
    is_incomplete : bool
        Whether the search was interrupted.
    """

    formulas: tuple[Formula, ...]
    settings: Mapping[str, Any]
    is_incomplete: bool


class _IpalFormula(msgspec.Struct):
    equation: Family
    combination: tuple[str, ...]
    parameters: tuple[float, ...]
    error: float
    drift: float
    threshold: float


class _IpalPage(msgspec.Struct):
    formulas: dict[str, _IpalFormula] = msgspec.field(name="CI")
    settings: dict[str, object] | None = None
    incomplete: bool = False


def write_ipal_model(path: Path, model: IpalModel) -> None:
    """Write a model file that IPAL's GeCo reads; other settings are left out."""
    page = {
        "_name": "GeCo",
        "settings": {
            "_type": "GeCo",
            "model-file": f"./{path.name}",
            **{theirs: model.settings[ours] for theirs, ours in _SETTINGS.items()},
            "cpus": 1,
            "refit": False,
            "resume": False,
        },
        "incomplete": model.is_incomplete,
        "CI": {
            formula.target: {
                "error": formula.error,
                "equation": formula.family,
                "combination": [formula.target, *formula.inputs],
                "parameters": list(formula.parameters),
                "drift": formula.drift,
                "threshold": formula.threshold,
            }
            for formula in model.formulas
        },
    }
    with staged_file(path) as partial:
        partial.write_text(json.dumps(page, indent=4) + "\n", encoding="utf-8")


def read_ipal_model(path: Path) -> IpalModel:
    """Return the content of a model file, each formula checked.

    Raises
    ------
    FileError
        If the file cannot be read, is no model, or holds an impossible formula.
    """
    try:
        page = msgspec.json.decode(read_document(path), type=_IpalPage)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise FileError(
            f"{path}: is not a model of IPAL's GeCo ({brief(error)}): it must be "
            "JSON with `settings` and `CI`."
        ) from error
    if not page.formulas:
        raise FileError(f"{path}: holds no formula: train the model first.")
    formulas = []
    for target, entry in page.formulas.items():
        first, *inputs = entry.combination or ("",)
        if (
            first != target
            or len({target, *inputs}) <= len(inputs)
            or len(inputs) < (entry.equation == "Product")
            or len(entry.parameters) != n_parameters(entry.equation, len(inputs))
        ):
            raise FileError(
                f"{path}: the formula of {target!r} is not one that GeCo writes: its "
                "equation, combination and parameters must fit together."
            )
        formulas.append(
            Formula(
                target=target,
                family=entry.equation,
                inputs=tuple(inputs),
                parameters=entry.parameters,
                error=entry.error,
                drift=entry.drift,
                threshold=entry.threshold,
            )
        )
    theirs = page.settings or {}
    settings = {name: theirs[key] for key, name in _SETTINGS.items() if key in theirs}
    # Formulas with more inputs can be read, but not be searched for.
    if isinstance(most := settings.get("max_inputs"), int):
        settings["max_inputs"] = min(most, MOST_INPUTS)
    return IpalModel(
        formulas=tuple(formulas), settings=settings, is_incomplete=page.incomplete
    )


def channels_of(
    formulas: Sequence[Formula],
    ignored: Sequence[str],
    path: Path,
    train: Recording | None,
) -> tuple[str, ...]:
    """Return the channels that recordings must have for these formulas, in order.

    Parameters
    ----------
    formulas : sequence of Formula
        Of the model.
    ignored : sequence of str
        Channels without a formula.
    path : path
        The model file, for the error messages.
    train : Recording, optional
        Gives the order; else the model's, the ignored channels last.
    """
    used = dict.fromkeys(
        [f.target for f in formulas] + [name for f in formulas for name in f.inputs]
    )
    if clash := [name for name in used if name in ignored]:
        raise FileError(
            f"{path}: {names(clash, 3)} is both ignored and part of a formula: take "
            "it off the list."
        )
    if train is None:
        return (*used, *ignored)
    if missing := [name for name in used if name not in train.channels]:
        raise StreamError(
            f"`train` lacks {names(missing, 3)}, which the model {path} is about: "
            "give a recording of the same plant."
        )
    return train.channels
