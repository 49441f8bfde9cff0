"""A detector or checkpoint on disk: one npz file of arrays and JSON, without code."""

import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sightline._version import __version__
from sightline.errors import FileError
from sightline.files import reading, staged_file

FORMAT = 1
T = TypeVar("T")
Arrays = dict[str, npt.NDArray[Any]]
# What numpy, json and zipfile raise for damaged files.
_DAMAGES = (
    KeyError,
    TypeError,
    ValueError,
    EOFError,
    NotImplementedError,
    zipfile.BadZipFile,
    zlib.error,
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
    try:
        with (
            reading(path),
            path.open("rb") as opened,
            np.load(opened, allow_pickle=False) as file,
        ):
            arrays = {name: file[name] for name in file.files}
        about = json.loads(str(arrays.pop("about_json")))
        version = about["format"]
    except _DAMAGES as error:
        raise FileError(
            f"{path}: is not a whole detector or checkpoint that Sightline saved."
        ) from error
    if version != FORMAT:
        raise FileError(
            f"{path}: was saved in format {version} by sightline "
            f"{about.get('sightline', 'of unknown version')}, and this is sightline "
            f"{__version__}, which reads format {FORMAT}: load it with the version "
            "that wrote it, or fit the detector again."
        )
    return about, arrays


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
