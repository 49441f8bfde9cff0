"""Model files of IPAL's GeCo: JSON with the formulas and some settings."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sightline.data.recording import Recording
from sightline.detectors.geco.candidates import MOST_INPUTS
from sightline.detectors.geco.formulas import FAMILIES, Formula, n_parameters
from sightline.detectors.settings import is_number
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
# What reading JSON and looking into it raise where it is not what it should be.
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
    """What a model file tells.

    Parameters
    ----------
    formulas : tuple of Formula
        One for each channel that is not ignored.
    settings : mapping
        By our names: those of `GeCoSettings` that IPAL knows as well.
    is_incomplete : bool
        Whether the search was cut.
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
    """Return what a model file tells, each formula checked."""
    with reading(path):
        content = path.read_bytes()
    try:
        page = json.loads(content)
        formulas = _formulas_in(page, path)
        told = page.get("settings") or {}
        settings = {
            ours: told[theirs] for theirs, ours in _SETTINGS.items() if theirs in told
        }
        is_incomplete = bool(page.get("incomplete", False))
    except _NOT_A_MODEL as error:
        raise FileError(
            f"{path}: is not a model of IPAL's GeCo ({brief(error)}): it must be "
            "JSON with `settings` and `CI`."
        ) from error
    # Formulas of more inputs can be read, though not be searched for.
    if isinstance(settings.get("max_inputs"), int):
        settings["max_inputs"] = min(settings["max_inputs"], MOST_INPUTS)
    return IpalModel(formulas=formulas, settings=settings, is_incomplete=is_incomplete)


def _formulas_in(page: Any, path: Path) -> tuple[Formula, ...]:
    """Return the formulas of an IPAL model, each checked."""
    if not page["CI"]:
        raise FileError(f"{path}: holds no formula: train the model first.")
    formulas = []
    for target, told in page["CI"].items():
        family, names = told["equation"], tuple(told["combination"])
        numbers = [*told["parameters"]]
        measures = [told[key] for key in ("error", "drift", "threshold")]
        is_whole = (
            family in FAMILIES
            and all(isinstance(name, str) for name in names)
            and names[:1] == (target,)
            and len(set(names)) == len(names) > (family == "Product")
            and len(numbers) == n_parameters(family, len(names) - 1)
            and all(map(is_number, numbers + measures))
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
                inputs=names[1:],
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
    """Return the channels that recordings must have for these formulas, in order."""
    named = dict.fromkeys(
        [f.target for f in formulas] + [name for f in formulas for name in f.inputs]
    )
    if clash := [name for name in named if name in ignored]:
        raise FileError(
            f"{path}: {names(clash, 3)} is both ignored and part of a formula: take "
            "it off the list."
        )
    if train is None:
        return (*named, *ignored)
    if missing := [name for name in named if name not in train.channels]:
        raise StreamError(
            f"`train` lacks {names(missing, 3)}, which the model {path} is about: "
            "give a recording of the same plant."
        )
    return train.channels
