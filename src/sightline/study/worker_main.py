"""The process that cells run in: cells come in by standard input, news go out.

    python -m sightline.study.worker_main

Each line in is ``{"cache": ..., "cell": {...}}``; each line out is
``{"step": {...}}`` or ``{"ended": {...}}``. When the input ends, because the study was
stopped or killed, so does the process, whatever it is doing.
"""

import json
import os
import queue
import sys
import threading
import time
import traceback
from dataclasses import asdict
from typing import IO, Any

from sightline.errors import SightlineError
from sightline.files import brief
from sightline.progress import Step, StepKind
from sightline.study.cache import Cache
from sightline.study.cell import Cell, Outcome
from sightline.study.execute_cell import carry_out

# Seconds between two words on the same thing.
_TELL_EVERY_S = 0.2


def main() -> None:
    """Carry out cells until there are no more."""
    # Whatever else prints must not be taken for news.
    news = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    cells: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_listen, args=(cells,), daemon=True).start()
    while True:
        asked = json.loads(cells.get())
        outcome = _outcome(Cell.from_dict(asked["cell"]), Cache(asked["cache"]), news)
        _say(news, {"ended": asdict(outcome)})


def _listen(cells: "queue.Queue[str]") -> None:
    for line in sys.stdin:
        cells.put(line)
    # Nobody is there any more to whom a result would matter.
    os._exit(0)


def _outcome(cell: Cell, cache: Cache, news: IO[str]) -> Outcome:
    last: tuple[StepKind, str] | None = None
    last_at = 0.0

    def progress(step: Step) -> None:
        nonlocal last, last_at
        now = time.monotonic()
        if (step.kind, step.detail) != last or now - last_at > _TELL_EVERY_S:
            last, last_at = (step.kind, step.detail), now
            _say(news, {"step": asdict(step)})

    try:
        carry_out(cell, cache, progress)
    except SightlineError as error:
        return Outcome(is_done=False, reason=str(error))
    except MemoryError:
        return Outcome(
            is_done=False,
            reason="Memory ran out: run fewer cells at a time, with --workers 1.",
        )
    except Exception as error:
        # A stranger's detector may fail in any way; the other cells go on.
        frame = traceback.extract_tb(error.__traceback__)[-1]
        return Outcome(
            is_done=False,
            reason=f"{type(error).__name__}: {brief(error)} "
            f"({os.path.basename(frame.filename)}, line {frame.lineno})",
            trace=traceback.format_exc(),
        )
    return Outcome(is_done=True)


def _say(news: IO[str], what: dict[str, Any]) -> None:
    try:
        news.write(json.dumps(what) + "\n")
        news.flush()
    except OSError:
        os._exit(0)


if __name__ == "__main__":
    main()
