"""Compile loops in a second process while the first evaluation runs.

An evaluation uses some twenty compiled loops. numba keeps them in its cache, so that
only the first evaluation after an installation has to wait for them. It compiles what
it needs first; a second process compiles the rest, in the order in which it is needed.
Whichever process has compiled a loop writes it to the cache, where the other finds it.

numba itself is not imported here, so that the second process can start at once.
"""

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
        if (jobs or usual_jobs()) > 1 and not _are_compiled():
            process = subprocess.Popen(
                [sys.executable, "-m", "sightline._kernels.later_loops"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
    try:
        yield
    finally:
        if process is not None:
            process.communicate()


def _are_compiled() -> bool:
    """Return whether numba's cache has the last of the loops, as it is now."""
    module, loop = _LAST
    source = (_HERE / f"{module}.py").stat().st_mtime
    return any(
        index.stat().st_mtime >= source
        for folder in _cache_folders()
        for index in folder.rglob(f"{module}.{loop}-*.nbi")
    )


def _cache_folders() -> list[Path]:
    """Return where numba keeps what it compiles: beside the source if it can."""
    if given := os.environ.get("NUMBA_CACHE_DIR"):
        return [Path(given)]
    return [_HERE / "__pycache__", user_cache_path("numba", appauthor=False)]
