"""What a path says before it is opened: whether it is there, and its stream's name."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from sightline.errors import FileError


def is_npz(path: Path) -> bool:
    """Tell whether a path is an ``.npz`` file by its name; a folder never is."""
    return path.suffix.lower() == ".npz" and not path.is_dir()


def stream_name(path: Path) -> str:
    """Return what a stream is called: a file's stem, a folder's whole name.

    A folder may be called 2026.11.15, so only a file has a stem.
    """
    with reading(path):
        return path.stem if is_npz(path) else os.path.basename(os.path.abspath(path))


def reading(path: Path) -> AbstractContextManager[None]:
    """Turn what the operating system says while reading into one of our sentences."""
    return _telling(path, "read", "check the path and its permissions")


def writing(path: Path) -> AbstractContextManager[None]:
    """Turn what the operating system says while writing into one of our sentences."""
    advice = "check the path, its permissions and the space left"
    return _telling(path, "written", advice)


@contextmanager
def _telling(path: Path, done: str, advice: str) -> Iterator[None]:
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        raise FileError(
            f"{path}: cannot be {done} ({error.strerror or error}): {advice}."
        ) from error


def brief(error: BaseException) -> str:
    """Return the first line of what a library says, if need be cut."""
    return (str(error).splitlines() or [""])[0][:200]
