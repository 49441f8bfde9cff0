"""Model files of IPAL's GeCo: JSON with the formulas and some settings."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sightline.data.recording import Recording
from sightline.detectors.geco.formulas import (
    FAMILIES,
    MOST_INPUTS,
    Formula,
    n_parameters,
)
from sightline.errors import FileError, StreamError
from sightline.files import brief, reading, staged_file
from sightline.text import names

# Names in IPAL's files, and ours.
_SETTINGS = {
    "ignore": "ignore",
    "max_formel_length": "max_inputs",
    "threshold_factor": "threshold_factor",
    "cusum_factor": "cusum_factor",
}
# What reading JSON of another structure raises.
_NOT_A_MODEL = (
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
    OverflowError,
    RecursionError,
)


@dataclass(frozen=True, kw_only=True)
class IpalModel:
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
    with reading(path):
        content = path.read_bytes()
    try:
        page = json.loads(content)
        formulas = _formulas_in(page, path)
        theirs = page.get("settings") or {}
        settings = {
            name: theirs[key] for key, name in _SETTINGS.items() if key in theirs
        }
        is_incomplete = bool(page.get("incomplete", False))
    except _NOT_A_MODEL as error:
        raise FileError(
            f"{path}: is not a model of IPAL's GeCo ({brief(error)}): it must be "
            "JSON with `settings` and `CI`."
        ) from error
    # Formulas with more inputs can be read, but not be searched for.
    if isinstance(settings.get("max_inputs"), int):
        settings["max_inputs"] = min(settings["max_inputs"], MOST_INPUTS)
    return IpalModel(formulas=formulas, settings=settings, is_incomplete=is_incomplete)


def _formulas_in(page: Any, path: Path) -> tuple[Formula, ...]:
    """Return the formulas of an IPAL model, each checked."""
    if not page["CI"]:
        raise FileError(f"{path}: holds no formula: train the model first.")
    formulas = []
    for target, entry in page["CI"].items():
        family, columns = entry["equation"], tuple(entry["combination"])
        numbers = [*entry["parameters"]]
        measures = [entry[key] for key in ("error", "drift", "threshold")]
        is_whole = (
            family in FAMILIES
            and all(isinstance(name, str) for name in columns)
            and columns[:1] == (target,)
            and len(set(columns)) == len(columns) > (family == "Product")
            and len(numbers) == n_parameters(family, len(columns) - 1)
            and all(type(one) in (int, float) for one in numbers + measures)
            and all(map(math.isfinite, numbers + measures))
        )
        if not is_whole:
            raise FileError(
                f"{path}: the formula of {target!r} is not one that GeCo writes: its "
                "equation, combination and parameters must fit together."
            )
        error, drift, threshold = map(float, measures)
        formulas.append(
            Formula(
                target=target,
                family=family,
                inputs=columns[1:],
                parameters=tuple(map(float, numbers)),
                error=error,
                drift=drift,
                threshold=threshold,
            )
        )
    return tuple(formulas)


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
