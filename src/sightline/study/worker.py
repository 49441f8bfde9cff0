"""A process for cells, as seen from outside: give it one, hear news, get the outcome.

Processes, not threads: torch's random numbers and the number of threads of a library
belong to a whole process, and one that is killed takes nobody with it.
"""

import json
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from sightline.progress import Progress, step_from
from sightline.study.cell import Cell, Outcome

# One thread a library, or cells would fight for the cores.
_ONE_THREAD = (
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "POLARS_MAX_THREADS",
)


class ProcessDiedError(Exception):
    """The process ended before its cell did: killed, or out of memory."""


class CellProcess:
    """A process that carries out one cell after another."""

    def __init__(self) -> None:
        # Kept, for the last words of a process that dies.
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "sightline.study.worker_main"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=os.environ | dict.fromkeys(_ONE_THREAD, "1"),
            # Ctrl-C is for the study, which ends its processes itself.
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._process.pid

    def run(self, cell: Cell, cache: Path, news: Progress) -> Outcome:
        """Return how a cell ended; `ProcessDiedError` if it did not."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None  # noqa: S101
        assert stdout is not None  # noqa: S101
        asked = {"cache": os.path.abspath(cache), "cell": cell.to_dict()}
        try:
            stdin.write(json.dumps(asked).encode() + b"\n")
            stdin.flush()
        except OSError as error:
            raise ProcessDiedError(self._last_words()) from error
        for line in stdout:
            try:
                said = json.loads(line)
            except ValueError:  # cut short by the end of the process
                break
            if "step" in said:
                news(step_from(said["step"]))
            else:
                return Outcome(**said["ended"])
        raise ProcessDiedError(self._last_words())

    def _last_words(self) -> str:
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        ended = f"by signal {-code}" if code < 0 else f"with code {code}"
        return f"it ended {ended}" + (f", saying {lines[-1][:200]!r}" if lines else "")

    def kill(self) -> None:
        """End the process, whatever it is doing; whoever waits for it hears of it."""
        self._process.kill()

    def close(self) -> None:
        """End the process and let go of all that belonged to it."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            # What could not be sent any more does not matter.
            with suppress(OSError):
                if stream is not None:
                    stream.close()
