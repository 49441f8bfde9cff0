"""Compile loops in a second process while the first evaluation runs.

An evaluation uses some twenty compiled loops. numba keeps them in its cache, so that
only the first evaluation after an installation has to wait for them. It compiles what
it needs first; a second process compiles the rest, in the order in which it is needed.
What one has compiled is in the cache, where the other looks before it compiles.

numba itself is not imported here, so that the second process can start at once.
"""

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from platformdirs import user_cache_path

from sightline.parallel import usual_jobs

_HERE = Path(__file__).parent
# The last of the loops that the second process compiles: its module and its name.
_LAST = "alarms", "restarting_sum"
# Seconds that the second process gets to end by itself.
_GRACE_S = 2.0


@contextmanager
def compiled_beside(jobs: int | None = None) -> Iterator[None]:
    """Have a second process compile, if there is a core for it and a need.

    For commands, whose interpreter is known. The process ends with the block, or when
    this process is killed; what it cannot do is left to this process.

    Parameters
    ----------
    jobs : int, optional
        Threads that the caller was asked to use; with 1 there is no second process.
    """
    process = None
    # A cache that cannot be read, or a system that starts no process, is no error.
    with suppress(OSError):
        if min(jobs or usual_jobs(), usual_jobs()) > 1 and not _are_compiled():
            process = subprocess.Popen(
                # No module of the current folder takes the place of ours.
                [sys.executable, "-P", "-m", "sightline._kernels.later_loops"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
    try:
        yield
    finally:
        if process is not None:
            _end(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Let the process end, or end it: numba writes its files at once or not at all."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _are_compiled() -> bool:
    """Return whether numba's cache has the last of the loops, as it is now."""
    module, loop = _LAST
    source = _HERE / f"{module}.py"
    python = "".join(map(str, sys.version_info[:2]))
    return any(
        _is_of(source, index)
        for folder in _cache_folders()
        for index in folder.rglob(f"{module}.{loop}-*.py{python}*.nbi")
    )


def _is_of(source: Path, index: Path) -> bool:
    """Return whether an index is later than the source, or names its content."""
    if index.stat().st_mtime >= source.stat().st_mtime:
        return True
    # Newer versions of numba go by the content, and use older files as well.
    return hashlib.sha256(source.read_bytes()).digest() in index.read_bytes()


def _cache_folders() -> list[Path]:
    """Return where numba may keep what it compiles."""
    folders = [_HERE / "__pycache__", user_cache_path("numba", appauthor=False)]
    given = os.environ.get("NUMBA_CACHE_DIR")
    # A test or a bench that gives an empty folder has nothing compiled.
    return [Path(given)] if given and os.access(given, os.W_OK) else folders
