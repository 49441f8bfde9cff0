"""What a path says before it is opened: whether it is there, and its stream's name."""

import os
from pathlib import Path

from sightline.files import reading


def is_npz(path: Path) -> bool:
    """Tell whether a path is an ``.npz`` file by its name; a folder never is."""
    return path.suffix.lower() == ".npz" and not path.is_dir()


def stream_name(path: Path) -> str:
    """Return what a stream is called: a file's stem, a folder's whole name.

    A folder may be called 2026.11.15, so only a file has a stem.
    """
    with reading(path):
        return path.stem if is_npz(path) else os.path.basename(os.path.abspath(path))
