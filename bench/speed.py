"""What a user waits for: a whole `evaluate`, `--help`, a page.

    python bench/speed.py [whole] [help] [results RESULTS] [page RESULTS]

whole
    475,200 + 449,919 rows x 51 with telemetry, 34 attacks, 500 replicates and traces,
    in fresh processes that take turns: one job, all cores, and all cores with the BLAS
    library's own number of threads. CPU and wall seconds, and peak memory.
help
    CPU seconds of ``sightline --help``, the least of five.
results
    Write the results of seven detectors with 26 attacks, 60,000 + 60,000 rows x 51
    with telemetry, into a folder (a minute or two); nothing is measured.
page
    CPU seconds of ``sightline report`` of the results in a folder, without and with
    figures for print, and the size of the page.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sightline import ResidualStream

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS")
# By setting: threads of the BLAS library (None: its own choice), and our own jobs.
SETTINGS = {
    "one job": ("1", 1),
    "all cores": ("1", None),
    "all cores, BLAS threads not set": (None, None),
}
ROUNDS = 2
# Rows of train and test, channels.
SWAT = 475_200, 449_919, 51
# The same of a small stream: two weeks of minutes, so that alarm rules are made.
SMALL = 20_000, 20_000, 5
# What a page shows: detectors, attacks, rows of train and of test, channels.
SHOWN = 7, 26, 60_000, 51


def made_up_stream(
    n_train: int, n_test: int, p: int, step_s: float
) -> "ResidualStream":
    from bench_tools import made_up

    from sightline import ResidualStream

    data = made_up(n_train, n_test, p)
    telemetry = {"telemetry_train": data.train, "telemetry_test": data.test}
    return ResidualStream(
        data.train, data.test, data.labels, step_s=step_s, **telemetry
    )


def child(jobs: int | None) -> None:
    """Evaluate once to warm up, then measure; print one line of JSON."""
    from sightline import evaluate

    evaluate(made_up_stream(*SMALL, step_s=60.0), jobs=jobs)
    measured = made_up_stream(*SWAT, step_s=1.0)
    cpu, wall = time.process_time(), time.perf_counter()
    evaluate(measured, jobs=jobs)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps({"cpu": cpu, "wall": wall, "peak": peak}))


def measured(blas: str | None, jobs: int | None) -> dict:
    """Return what a fresh process measures."""
    bare = {k: v for k, v in os.environ.items() if k not in THREADS}
    given = {} if blas is None else {"OPENBLAS_NUM_THREADS": blas}
    run = subprocess.run(
        [sys.executable, __file__, "child", str(jobs or 0)],
        env=bare | given,
        check=True,
        stdout=subprocess.PIPE,
    )
    return json.loads(run.stdout)


def whole() -> None:
    runs: dict[str, list[dict]] = {name: [] for name in SETTINGS}
    for _ in range(ROUNDS):
        for name, setting in SETTINGS.items():
            runs[name].append(measured(*setting))
    least = {
        name: {key: min(run[key] for run in each) for key in each[0]}
        for name, each in runs.items()
    }
    for name, best in least.items():
        print(
            f"whole, {name}: {best['cpu']:.1f} CPU s (goal 30), {best['wall']:.1f} s "
            f"wall, {best['peak']:.2f} GiB"
        )
    one, other = least["all cores"], least["all cores, BLAS threads not set"]
    print(
        f"BLAS threads not set against 1: {other['cpu'] / one['cpu']:.2f} times the "
        f"CPU, {other['wall'] / one['wall']:.2f} times the wall time (goal 1.1)"
    )


def cpu_of(command: list[str]) -> float:
    """Return the CPU seconds of a command."""
    # As installed: bytecode is kept, whatever the shell says.
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=kept)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def help_() -> None:
    seconds = [cpu_of([sys.executable, "-m", "sightline", "--help"]) for _ in range(5)]
    print(f"sightline --help: {min(seconds):.2f} CPU s (goal 0.5)")


def results(folder: str) -> None:
    """Evaluate the made-up streams of `SHOWN`, one for each detector."""
    import numpy as np

    from sightline import Attack, ResidualStream, evaluate, write_results

    n_detectors, n_attacks, n, p = SHOWN
    channels = [f"T{j}" for j in range(p)]
    for d in range(n_detectors):
        rng = np.random.default_rng(100 + d)
        mixing = np.eye(p) + rng.normal(size=(p, p)) / p
        train, test = (
            (rng.standard_normal((n, p)) @ mixing).astype(np.float32) for _ in range(2)
        )
        labels, attacks = np.zeros(n, int), []
        for a in range(n_attacks):
            start = 1500 + 2200 * a
            stop = start + 60 + 20 * (a % 20)
            labels[start:stop] = 1
            test[start:stop, (3 * a + d) % p] += 1 + a % 5
            targets = (channels[3 * a % p],)
            attacks.append(
                Attack(id=str(a + 1), start=start, stop=stop, targets=targets)
            )
        stream = ResidualStream(
            train,
            test,
            labels,
            segments=attacks,
            channels=channels,
            step_s=10.0,
            test_time=1.7e9 + 10.0 * np.arange(n),
            telemetry_train=train,
            telemetry_test=test,
            telemetry_channels=channels,
            name=f"plant-d{d}",
            detector=f"D{d}",
            testbed="plant",
        )
        write_results([evaluate(stream)], folder)


def page(shown: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(shown, f"{folder}/results")
        command = [sys.executable, "-m", "sightline", "report", "--overwrite"]
        command += [f"{folder}/results"]
        alone, whole = (
            min(cpu_of([*command, *more]) for _ in range(3))
            for more in ([], ["--figures"])
        )
        size = Path(folder, "results", "report.html").stat().st_size / 1e6
    print(
        f"report of {shown}: {alone:.2f} CPU s (goal 4), {size:.1f} MB (goal 8); "
        f"{whole:.1f} CPU s with figures for print"
    )


COMMANDS: dict[str, Callable[[], None]] = {
    "whole": whole,
    "help": help_,
}


def main() -> None:
    match sys.argv[1:]:
        case ["child", jobs]:
            child(int(jobs) or None)
        case ["results", folder]:
            results(folder)
        case ["page", folder]:
            page(folder)
        case names:
            for name in names or COMMANDS:
                COMMANDS[name]()


if __name__ == "__main__":
    main()
