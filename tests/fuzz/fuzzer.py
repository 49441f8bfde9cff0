"""Damage a file, run a command on it, and see that it works or says why not.

A case is a number: the same number damages the same file in the same way and runs the
same command. `python -m fuzz.fuzzer --cases 10000 --jobs 2` runs many, with ``tests``
on the path; `--case 4711` runs one and shows what it did.
"""

import argparse
import collections
import faulthandler
import json
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
from fuzz.corpus import KINDS, Kind, build
from fuzz.mutations import BY_SUFFIX, damage_bytes, one_of, replace_by_another_kind
from typer.testing import CliRunner

from sightline.cli.app import app

# Bounds of a case.
MOST_LETTERS = 400 + len("error: ")
MOST_BYTES = 1e9
MOST_SECONDS = 30
# Cases of a process: it warms up for some ten seconds.
BATCH = 1000
# Shares of damages: contents within a valid container, and no file at all.
STRUCTURED, ANOTHER_KIND = 0.7, 0.04
CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)
# How often a kind is drawn.
SHARES = np.array([kind.weight for kind in KINDS])
SHARES /= SHARES.sum()
# Exit code 3: a promise is broken, a finding is an error, or a card contradicted.
MAY_FAIL = ("apply", "watch", "lint", "verify")
# What they have finished stays, and they go on from there.
GOES_ON = ("watch", "run")


class HangError(BaseException):
    """A case took too long. No `Exception`, which commands may catch."""


@dataclass(frozen=True)
class Case:
    """What a case did.

    Parameters
    ----------
    number : int
        Its number.
    kind, damage, command : str
        What was damaged and how, and what was run.
    code : int or None
        Exit code; None if no code was reached.
    seconds : float
        How long it took.
    problem : str
        What is wrong; empty if nothing is.
    """

    number: int
    kind: str
    damage: str
    command: str
    code: int | None
    seconds: float
    problem: str


def run_case(number: int, corpus: Path, work: Path) -> Case:
    """Run one case in a folder of its own."""
    rng = np.random.default_rng([number, 20])
    kind = KINDS[int(rng.choice(len(KINDS), p=SHARES))]
    command = one_of(rng, kind.commands)
    folder = work / "case"
    shutil.rmtree(folder, ignore_errors=True)
    _copy(kind, command, corpus, folder)
    damage = _damage(rng, folder / one_of(rng, damageable(kind, folder)))
    if kind.mend is not None:
        kind.mend(folder)
    before = _listing(folder)
    begin = time.perf_counter()
    code, problem = None, ""
    try:
        with _limits(), _within(folder):
            result = CliRunner().invoke(app, list(command), catch_exceptions=False)
        code = result.exit_code
        problem = _problem(command[0], code, result.stdout, result.stderr)
        problem = problem or _left(folder, before, command, code)
    except HangError:
        problem = f"hangs for {MOST_SECONDS} s"
    except Exception:
        problem = "traceback: " + " | ".join(traceback.format_exc().splitlines()[-9:])
    seconds = time.perf_counter() - begin
    peak = _peak_growth()
    if not problem and peak > MOST_BYTES:
        problem = f"takes {peak / 1e9:.1f} GB"
    return Case(number, kind.name, damage, " ".join(command), code, seconds, problem)


def _copy(kind: Kind, command: tuple[str, ...], corpus: Path, folder: Path) -> None:
    """Copy what a command needs of the corpus."""
    folder.mkdir(parents=True)
    for name in sorted(kind.read_by(command)):
        source = corpus / name
        if source.is_dir():
            shutil.copytree(source, folder / name)
        elif source.is_file():
            shutil.copyfile(source, folder / name)


def damageable(kind: Kind, folder: Path) -> list[str]:
    """Return the files that can be damaged in a folder with what a command reads."""
    found = {path for name in kind.damaged for path in folder.glob(name)}
    return sorted(str(path.relative_to(folder)) for path in found)


def _damage(rng: np.random.Generator, path: Path) -> str:
    """Damage a file; return how."""
    share = rng.random()
    if share < ANOTHER_KIND:
        replace_by_another_kind(rng, path)
        return f"{path.name}: another kind of file"
    change = BY_SUFFIX[path.suffix]
    is_packed_text = path.name.endswith(".state.gz")
    if share < ANOTHER_KIND + STRUCTURED and not is_packed_text:
        try:
            change(rng, path)
            return f"{path.name}: contents"
        except Exception as error:  # the damage itself was impossible
            damage_bytes(rng, path)
            return f"{path.name}: bytes ({type(error).__name__}: {error})"
    damage_bytes(rng, path)
    return f"{path.name}: bytes"


def _problem(command: str, code: int, stdout: str, stderr: str) -> str:
    """Return what is wrong with what a command printed, or an empty text."""
    # `start` says with 5 that it left tags out.
    may_end = {"start": (0, 1, 5)}.get(command, (0, 1))
    if code not in ((0, 1, 3, 6, 7) if command in MAY_FAIL else may_end):
        return f"exit code {code}: {stderr[-300:]!r}"
    found = CONTROL.search(stdout + stderr)
    if found:
        return f"control character {found[0]!r}"
    if "Traceback" in stdout + stderr:
        return "traceback in the output"
    # Both say in their tables what they found.
    if code != 1 or command == "watch" or "not what they should be" in stdout:
        return ""
    lines = stderr.rstrip("\n").split("\n")
    if not lines[-1].startswith("error: "):
        return f"no sentence: {stderr[-300:]!r}"
    if sum(line.startswith("error: ") for line in lines) > 1:
        return "several errors"
    if len(lines[-1]) > MOST_LETTERS:
        return f"a sentence of {len(lines[-1])} characters"
    return ""


def _listing(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Return what tells of each path below a folder whether it was written to."""
    facts = {}
    for path in folder.rglob("*"):
        about = path.lstat()
        is_folder = stat.S_ISDIR(about.st_mode)
        written = (0, 0) if is_folder else (about.st_mtime_ns, about.st_ino)
        facts[str(path.relative_to(folder))] = (about.st_mode, *written)
    return facts


def _left(
    folder: Path, before: dict[str, Any], command: tuple[str, ...], code: int
) -> str:
    """Return which file a command left that it should not have, or an empty text."""
    after = _listing(folder)
    new = sorted(set(after) - set(before))
    hidden = [name for name in new if any(p.startswith(".") for p in Path(name).parts)]
    if hidden:
        return f"left {hidden[0]}"
    if code != 1 or command[0] in GOES_ON:
        return ""
    if new:
        return f"failed, but left {new[0]}"
    changed = sorted(name for name in before if after.get(name) != before[name])
    return f"failed, but changed {changed[0]}" if changed else ""


@contextmanager
def _within(folder: Path) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextmanager
def _limits() -> Iterator[None]:
    """Interrupt after `MOST_SECONDS`; what cannot be interrupted ends the process.

    A machine with much else to do is slow by the clock, so work is what counts.
    """

    def hang(number: int, frame: object) -> None:
        raise HangError

    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    _BASE[0] = _memory("VmRSS")
    # What takes far more than it may must not take the machine down with it.
    data = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, data[1]))
    # Seconds of work; and many more by the clock, for what waits without working.
    before = {one: signal.signal(one, hang) for one in (signal.SIGPROF, signal.SIGALRM)}
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    signal.setitimer(signal.ITIMER_REAL, 10 * MOST_SECONDS)
    faulthandler.dump_traceback_later(20 * MOST_SECONDS, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        for timer in (signal.ITIMER_PROF, signal.ITIMER_REAL):
            signal.setitimer(timer, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
        resource.setrlimit(resource.RLIMIT_DATA, data)


_BASE = [0.0]


def _peak_growth() -> float:
    return _memory("VmHWM") - _BASE[0]


def _memory(field: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return float(line.split()[1]) * 1024
    return 0.0


@contextmanager
def built_corpus(built: Path | None = None) -> Iterator[Path]:
    """Yield a folder with the corpus; one that is built already is not built again."""
    if built is not None:
        yield built
        return
    with tempfile.TemporaryDirectory() as place:
        build(Path(place))
        yield Path(place)


def run_cases(numbers: Iterable[int], corpus: Path) -> Iterator[Case]:
    """Run cases one after another in this process."""
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in numbers:
            yield run_case(number, corpus, Path(place))


def run_batch(numbers: Sequence[int], corpus: Path) -> list[Case]:
    """Run cases in processes of their own; one that dies is a problem of its case."""
    cases: list[Case] = []
    while len(cases) < len(numbers):
        left = numbers[len(cases) :]
        process = subprocess.run(
            [
                *(sys.executable, "-m", "fuzz.fuzzer", "--first", str(left[0])),
                *("--cases", str(len(left)), "--jobs", "0", "--corpus", str(corpus)),
            ],
            capture_output=True,
            check=False,
        )
        lines = process.stdout.decode(errors="replace").splitlines()
        cases += [Case(**json.loads(line)) for line in lines if line.startswith("{")]
        if len(cases) < len(numbers):
            last = process.stderr.decode(errors="replace")[-600:]
            problem = f"ends the process with {process.returncode}: {last}"
            number = numbers[len(cases)]
            unknown = ("unknown",) * 3
            cases.append(Case(number, *unknown, None, 0.0, problem))
    return cases


def main() -> int:
    """Run the cases that the command line asks for, and print a summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="0: here, as JSON lines")
    parser.add_argument("--case", type=int, help="one case, with its traceback")
    parser.add_argument("--corpus", type=Path, help="a folder with the corpus")
    options = parser.parse_args()
    with built_corpus(options.corpus) as corpus:
        if options.case is not None:
            (case,) = run_cases([options.case], corpus)
            print(case)
            return int(bool(case.problem))
        numbers = range(options.first, options.first + options.cases)
        if options.jobs == 0:
            for case in run_cases(numbers, corpus):
                print(json.dumps(asdict(case)), flush=True)
            return 0
        return _run_all(numbers, options.jobs, corpus)


def _run_all(numbers: Sequence[int], jobs: int, corpus: Path) -> int:
    """Run cases in processes beside each other, and print a summary."""
    begin = time.perf_counter()
    size = min(BATCH, -(-len(numbers) // jobs))
    batches = [numbers[k : k + size] for k in range(0, len(numbers), size)]
    cases: list[Case] = []
    with ThreadPoolExecutor(jobs) as pool:
        for done in pool.map(run_batch, batches, repeat(corpus)):
            cases += done
            for case in done:
                if case.problem:
                    print(case, flush=True)
            print(f"{len(cases):,} cases", file=sys.stderr, flush=True)
    _print_summary(cases, time.perf_counter() - begin)
    return int(any(case.problem for case in cases))


def _print_summary(cases: list[Case], seconds: float) -> None:
    problems = [case for case in cases if case.problem]
    structured = sum(case.damage.endswith(": contents") for case in cases)
    codes = collections.Counter(case.code for case in cases)
    slowest = max(cases, key=lambda case: case.seconds)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = spent.ru_utime + spent.ru_stime
    print(
        f"{len(cases):,} cases in {seconds / 60:.1f} min ({cpu / 60:.1f} of CPU), "
        f"{structured / len(cases):.0%} of them contents in a valid container; "
        f"exit codes {dict(sorted(codes.items(), key=str))}; "
        f"slowest {slowest.seconds:.1f} s (case {slowest.number}, {slowest.command}); "
        f"{len(problems)} problems."
    )
    names = collections.Counter(case.kind for case in cases)
    print(", ".join(f"{name} {count}" for name, count in names.most_common()))
    kinds = collections.Counter((case.kind, case.problem[:60]) for case in problems)
    for (kind, problem), count in kinds.most_common():
        print(f"  {count} x {kind}: {problem}")


if __name__ == "__main__":
    sys.exit(main())
