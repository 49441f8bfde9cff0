"""The operating system's complaints, as sentences of ours."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from sightline.errors import FileError


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
