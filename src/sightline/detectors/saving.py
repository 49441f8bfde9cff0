"""A detector on disk: one npz file of arrays and a page of JSON; no code in it."""

import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline._version import __version__
from sightline.errors import FileError
from sightline.files import reading, staged_file

FORMAT = 1
Arrays = dict[str, npt.NDArray[Any]]
# What numpy, json and zipfile raise where bytes are not what they should be.
_DAMAGES = (
    KeyError,
    TypeError,
    ValueError,
    EOFError,
    NotImplementedError,
    zipfile.BadZipFile,
    zlib.error,
)


def write_saved(path: Path, about: dict[str, Any], arrays: Arrays) -> None:
    """Write arrays and what there is to say about them; whole or not at all."""
    page = json.dumps({"format": FORMAT, "sightline": __version__} | about)
    with staged_file(path) as partial, partial.open("wb") as file:
        np.savez(file, about_json=np.array(page), **arrays)  # type: ignore[arg-type]


def read_saved(path: Path) -> tuple[dict[str, Any], Arrays]:
    """Return what was written; nothing in the file is ever run."""
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
            "that wrote it, or fit the detector anew."
        )
    return about, arrays
