"""Commands in processes that are forked from one that has imported everything.

A process of its own for each command, but without a second of imports: so that hundreds
can be killed. The zygote itself computes nothing, and so has no threads to lose.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

IMPORTED = """
import matplotlib.figure, matplotlib.backends.backend_svg
import matplotlib.backends.backend_agg
import msgspec, numba, numpy, plotly, polars, pyarrow.parquet, scipy.stats
import sightline.cli.app, sightline.evaluation.pipeline, sightline.storage
import sightline.paper, sklearn.covariance
import sightline.report, sightline.comparison.compare, sightline.rules.commission
import sightline.operation.watch, sightline.operation.apply, sightline.study.run
import sightline.testbeds.waterworks, sightline.detectors.baselines, sightline.export
import sightline.testbeds.own_plant.proposal, sightline.testbeds.own_plant.look
import sightline._kernels.windows, sightline._kernels.alarms, sightline._kernels.rows
import sightline.report.print_figures, sightline.audit.data
"""


class Zygote:
    """Starts commands of Sightline, and waits for them."""

    def __init__(self) -> None:
        threads = dict.fromkeys(
            ("OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS", "NUMBA_NUM_THREADS"), "1"
        )
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | threads,
        )
        assert self._ask({})["ready"]

    def start(self, arguments: list[str], folder: Path, log: Path) -> int:
        """Start a command in a folder; return the number of its process."""
        asked = {"run": arguments, "folder": str(folder), "log": str(log)}
        return self._ask(asked)["pid"]

    def wait(self, pid: int) -> int:
        """Return the exit code of a command; negative for the signal that ended it."""
        return self._ask({"wait": pid})["code"]

    def run(self, arguments: list[str], folder: Path, log: Path) -> int:
        return self.wait(self.start(arguments, folder, log))

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def _ask(self, asked: dict[str, Any]) -> dict[str, Any]:
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


def kill(pid: int) -> None:
    """Kill a command and everything it has started."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _child(asked: dict[str, Any]) -> None:
    os.setsid()
    os.chdir(asked["folder"])
    log = os.open(asked["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(number, target)
    # It is ignored in what a shell runs in the background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["sightline", *asked["run"]]
    from sightline.__main__ import main

    code: Any = 70
    try:
        main()
    except SystemExit as end:
        code = end.code or 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def serve() -> None:
    """Fork a process for each command that is asked for."""
    exec(IMPORTED)
    # Files of figures are written, but not drawn: that takes a third of all the time.
    from study_plans import unrendered

    from sightline.report import print_figures

    print_figures.rendered = unrendered
    for line in sys.stdin:
        asked = json.loads(line)
        answer: dict[str, Any] = {"ready": True}
        if "run" in asked:
            pid = os.fork()
            if pid == 0:
                _child(asked)
            answer = {"pid": pid}
        elif "wait" in asked:
            _, status = os.waitpid(asked["wait"], 0)
            answer = {"code": os.waitstatus_to_exitcode(status)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
