"""The command ``sightline``, also as ``python -m sightline``."""

import _thread
import errno
import math
import os
import signal
import sys
import threading
import time
from contextlib import suppress

# A disk or a quota is full.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_MEMORY_WORDS = (
    *("cannot allocate memory", "failed to map segment", "out of memory"),
    "can't start new thread",
)
_MEMORY = (
    "error: Memory ran out: close other programs, or use a machine with more memory."
)
# With less address space the libraries of linear algebra may hang while they are
# loaded, or end the process, instead of saying so.
_LEAST_MB = 1000


def main() -> None:
    """Run the command line and exit with its code.

    What no command can answer for ends here in one sentence: too little memory even to
    import the libraries, and a standard output that cannot be written.
    """
    code: str | int | None = 1
    if (allowed := _allowed_mb()) < _LEAST_MB:
        _say(
            f"error: The limit on memory (ulimit -v) is {allowed:.0f} MB, and "
            f"{_LEAST_MB} MB are the least that is needed: raise it."
        )
        sys.exit(1)
    sys.unraisablehook = _press_again
    try:
        from sightline.cli.app import app

        app()
        code = 0
    except SystemExit as end:
        code = end.code
    except KeyboardInterrupt:  # while the command line is imported
        code = 130
    except Exception as error:
        if _is_memory(error):
            _say(_MEMORY)
        elif isinstance(error, OSError) and error.errno in _FULL:
            _say(f"error: The output cannot be written ({error.strerror}).")
        else:
            raise
    sys.exit(_flushed(code))


def _press_again(ignored: "sys.UnraisableHookArgs") -> None:
    """Repeat a Ctrl-C that came while an object was being freed: Python ignores it."""
    if issubclass(ignored.exc_type, KeyboardInterrupt):
        # Once the object is gone, and the main thread waits in its next call or works:
        # pressed while it only begins to wait, Python would see it when the wait ends.
        while True:
            try:
                _thread.start_new_thread(_press_later, ())
                return
            except KeyboardInterrupt:  # pressed again, in here
                continue
    else:
        sys.__unraisablehook__(ignored)


def _press_later() -> None:
    """Press Ctrl-C after a fifth of a second; ends what the main thread waits for."""
    time.sleep(0.2)
    if os.name == "nt":  # has no signal for one thread
        _thread.interrupt_main()
    else:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def _allowed_mb() -> float:
    """Return how much address space the process may take; infinite if not limited."""
    try:
        import resource
    except ImportError:  # not a POSIX system
        return math.inf
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return math.inf if limit == resource.RLIM_INFINITY else limit / 2**20


def _flushed(code: str | int | None) -> str | int | None:
    """Return the exit code after writing out what standard output still holds."""
    try:
        sys.stdout.flush()
    except OSError as error:
        # Else the interpreter would try again while it ends, and fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if error.errno != errno.EPIPE:
            _say(f"error: Standard output cannot be written ({error.strerror}).")
        return code or 1
    return code


def _is_memory(error: BaseException | None) -> bool:
    """Return whether an error, or one that led to it, is a lack of memory.

    Libraries that cannot be loaded, or start no thread, say so in the words of Linux.
    """
    while error is not None:
        is_import = isinstance(error, ImportError | OSError | RuntimeError)
        if isinstance(error, MemoryError) or getattr(error, "errno", 0) == errno.ENOMEM:
            return True
        if is_import and any(text in str(error).lower() for text in _MEMORY_WORDS):
            return True
        error = error.__cause__ or error.__context__
    return False


def _say(sentence: str) -> None:
    with suppress(OSError):
        sys.stderr.write(f"{sentence}\n")


if __name__ == "__main__":
    main()
