"""A detector or checkpoint on disk: one npz file of arrays and JSON, without code."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sightline._version import __version__
from sightline.data.archives import read_arrays
from sightline.errors import FileError, SightlineError
from sightline.files import reading, staged_file

FORMAT = 1
T = TypeVar("T")
Arrays = dict[str, npt.NDArray[Any]]
# What detectors, numpy and torch raise for numbers that do not fit together.
_MISFITS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    SightlineError,
    TypeError,
    ValueError,
)


def write_saved(path: Path, about: Mapping[str, object], arrays: Arrays) -> None:
    """Write arrays and a description; the file is whole or absent.

    Parameters
    ----------
    path : path
        The file, which is replaced if it exists.
    about : mapping
        The description, as JSON can hold it.
    arrays : dict of array
        By name; no name is "about_json".
    """
    page = json.dumps({"format": FORMAT, "sightline": __version__, **about})
    with staged_file(path) as partial, partial.open("wb") as file:
        np.savez(file, about_json=np.array(page), **arrays)  # type: ignore[arg-type]


def read_saved(path: Path) -> tuple[dict[str, Any], Arrays]:
    """Return description and arrays of a file; nothing in it is ever executed.

    Raises
    ------
    FileError
        If the file is missing, damaged, or written in another format.
    """
    with reading(path), path.open("rb"):
        arrays, _ = read_arrays(path)
    what = f"{path}: is not a whole detector or checkpoint that Sightline saved"
    with restoring(f"{what}."):
        about = json.loads(str(arrays.pop("about_json")))
        if not isinstance(about["detector" if "detector" in about else "kind"], str):
            raise TypeError("detector")
        version = about["format"]
    if version != FORMAT:
        raise FileError(
            f"{path}: was saved in format {version} by sightline "
            f"{about.get('sightline', 'of unknown version')}, and this is sightline "
            f"{__version__}, which reads format {FORMAT}: load it with the version "
            "that wrote it, or fit the detector again."
        )
    return about, arrays


@contextmanager
def restoring(sentence: str) -> Iterator[None]:
    """Turn whatever a damaged file leads to inside into a `FileError`.

    Parameters
    ----------
    sentence : str
        The message: the file, what is wrong with it, and what to do.
    """
    try:
        yield
    except FileError:
        raise
    except _MISFITS as error:
        raise FileError(sentence) from error


def under(prefix: str, arrays: Mapping[str, T]) -> dict[str, T]:
    """Return the entries whose names begin with a prefix, without it.

    Examples
    --------
    >>> under("network/", {"network/bias": 1, "mean": 2})
    {'bias': 1}
    """
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }
