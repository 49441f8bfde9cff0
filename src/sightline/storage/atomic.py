"""Files that are whole or not there: written beside their place, then renamed."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sightline.errors import FileError


@contextmanager
def staged_file(target: Path) -> Iterator[Path]:
    """Give a path to write to; put it in place of `target` once all went well."""
    partial = target.with_name(f".{target.name}.partial")
    with _telling(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield partial
            _flush(partial)
            os.replace(partial, target)
        finally:
            partial.unlink(missing_ok=True)


@contextmanager
def staged_folder(target: Path) -> Iterator[Path]:
    """Give a folder to fill; put its files into `target` once all went well.

    A new target appears whole, by one rename. Into an existing one the files move
    one by one, in alphabetical order but for ``evaluation.json``, which goes last:
    it is what readers look for. Other files of the target are left alone.
    """
    partial = target.with_name(f".{target.name}.partial")
    with _telling(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        # What a killed run left behind.
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        try:
            yield partial
            files = [path for path in partial.rglob("*") if path.is_file()]
            for path in files:
                _flush(path)
            if not target.exists():
                os.rename(partial, target)
                return
            for path in sorted(files, key=lambda f: (f.name == "evaluation.json", f)):
                place = target / path.relative_to(partial)
                place.parent.mkdir(parents=True, exist_ok=True)
                os.replace(path, place)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def _telling(target: Path) -> Iterator[None]:
    """Turn what the operating system says into one of our sentences."""
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        raise FileError(
            f"{target}: cannot be written ({error.strerror or error}): check the "
            "path, its permissions and the space left."
        ) from error


def _flush(path: Path) -> None:
    with open(path, "rb") as handle:
        os.fsync(handle.fileno())
