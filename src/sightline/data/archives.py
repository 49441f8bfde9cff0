"""Arrays in an ``.npz`` file: numbers and text in a zip, never pickled objects.

A file may come from anywhere, so what it says of itself is checked before memory is
taken.
"""

import lzma
import math
import struct
import sys
import tokenize
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from sightline.errors import FileError
from sightline.files import check_ordinary, damage
from sightline.text import size

# Reading a damaged zip member fails in one of these ways.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    tokenize.TokenError,
    EOFError,
    OverflowError,
    RuntimeError,
    ValueError,
    OSError,
)
_ADVICE = "write the file again with numpy.savez"
# An array larger than this must not be packed to less than this share of its size:
# measurements shrink some 2 to 20 times.
_LARGE_BYTES, _MOST_RATIO = 1 << 27, 100


def read_arrays(
    path: Path, wanted: Collection[str] | None = None
) -> tuple[dict[str, npt.NDArray[Any]], list[str]]:
    """Return arrays of an ``.npz`` file, and the names of those not read.

    Parameters
    ----------
    path : Path
        The file.
    wanted : collection of str, optional
        The names to read. Not given: all.

    Raises
    ------
    FileError
        If the file is damaged, holds two arrays of one name, or pickled objects.
    """
    arrays: dict[str, npt.NDArray[Any]] = {}
    others: list[str] = []
    unreadable = damage(
        f"{path}: is not a readable .npz file", *_DAMAGE, advice=_ADVICE
    )
    check_ordinary(path)
    with unreadable, zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            name = info.filename.removesuffix(".npy")
            if name in arrays:
                raise FileError(f"{path}: holds two arrays called {name!r}.")
            if wanted is None or name in wanted:
                arrays[name] = _read_array(archive, info, f"{path}: array {name!r}")
            else:
                others.append(name)
    return arrays, others


def _read_array(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, place: str
) -> npt.NDArray[Any]:
    """Read one array, after checking that its header agrees with its size.

    Few bytes that unpack to an array that fills the memory are refused.
    """
    try:
        with damage(f"{place} cannot be read", *_DAMAGE, advice=_ADVICE):
            if info.file_size > max(_LARGE_BYTES, _MOST_RATIO * info.compress_size):
                raise FileError(
                    f"{place} unpacks from {size(info.compress_size)} to "
                    f"{size(info.file_size)}, which is more than measurements do: "
                    "write the file again with numpy.savez, which does not pack."
                )
            with archive.open(info) as member:
                _check_header(member, info.file_size, place)
            with archive.open(info) as member:
                array = np.asarray(np.lib.format.read_array(member, allow_pickle=False))
            if array.dtype.kind == "U" and array.nbytes:
                # numpy fails on code points beyond Unicode.
                text = array.astype(array.dtype.newbyteorder("="))
                if np.frombuffer(text, np.uint32).max(initial=0) > sys.maxunicode:
                    raise ValueError("it holds what is not text")
            return array
    except MemoryError as error:
        raise FileError(
            f"{place} says it has {info.file_size:,} bytes, more than memory holds: "
            "write the stream as a Parquet folder, which is read in chunks."
        ) from error


def _check_header(member: IO[bytes], size: int, place: str) -> None:
    """Raise `FileError` for pickles, and if the header disagrees with the size.

    A header can announce an array that is larger than memory; numpy would allocate it
    before it reads.
    """
    version = np.lib.format.read_magic(member)
    headers = np.lib.format
    is_first = version == (1, 0)
    read = headers.read_array_header_1_0 if is_first else headers.read_array_header_2_0
    shape, _, dtype = read(member)
    if dtype.hasobject:
        raise FileError(
            f"{place} holds pickled Python objects, which are not read because they "
            "could run code: save it as numbers or text."
        )
    n_items = math.prod(int(extent) for extent in shape)
    expected, actual = n_items * dtype.itemsize, size - member.tell()
    # Items of size 0 take no byte in the file, but time and memory later.
    is_endless = dtype.itemsize == 0 and n_items > 1
    if expected != actual or is_endless or min(shape, default=0) < 0:
        raise FileError(
            f"{place} is truncated or damaged (its header says {expected} bytes, "
            f"the file holds {actual}): write it again."
        )
