"""Every command that writes: killed at any moment, or run twice at once.

SIGHTLINE_KILLS, SIGHTLINE_PAIRS and SIGHTLINE_INTERRUPTS (Ctrl-C in a study) set how
often. In the default suite every command but `study`, which does the same as `run`, is
either killed or run twice, once; the rest is slow.

`demo` is not among them: it is `study` with a plan of the package. `lint`, `testbeds`,
`detectors` and `cache` write nothing; `cache --clear` removes copies, which the next
command makes again.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from built_once import built_once
from fuzz.corpus import QUICK, SEARCH, build
from zygote import Zygote, kill

N_KILLS = int(os.environ.get("SIGHTLINE_KILLS", "34"))
N_PAIRS = int(os.environ.get("SIGHTLINE_PAIRS", "17"))
N_INTERRUPTS = int(os.environ.get("SIGHTLINE_INTERRUPTS", "3"))
TOLD = "another run is writing there"
pytestmark = pytest.mark.skipif(os.name != "posix", reason="SIGKILL is of POSIX")


@dataclass(frozen=True)
class Writer:
    """A command that writes.

    Parameters
    ----------
    command : str
        Its arguments; inputs lie in the current folder.
    places : tuple of str
        What it writes.
    again : str
        What to add when it is run again.
    told : str
        What it says if the other of two has finished.
    shares : bool
        Whether both of two may end well: it goes on where another has stopped, so that
        a later second one finds all done, or what it writes is only a copy.
    needs : str
        A package that it cannot do without.
    ends : tuple of int
        Its exit codes when it has done its work.
    """

    command: str
    places: tuple[str, ...] = ("out",)
    again: str = "--overwrite"
    told: str = "--overwrite"
    shares: bool = False
    needs: str = "sightline"
    ends: tuple[int, ...] = (0, 3)


def simulate(name: str, options: str, needs: str = "sightline") -> Writer:
    """Return the writer that simulates a plant."""
    return Writer(
        f"simulate {name} {options} --out out",
        told="exists and is not changed",
        needs=needs,
    )


TABLES = "--train a.csv --test b.csv --label label --time time"
WRITERS = {
    "evaluate": Writer(f"evaluate stream.npz --out out {' '.join(QUICK[:-1])}"),
    "tables": Writer(f"evaluate {TABLES} --out out {' '.join(QUICK)}"),
    "report": Writer("report results --out out/page.html"),
    "compare": Writer("compare results --out out/compared.json"),
    "card": Writer("card results/sample --out out/card.json.gz"),
    "write-up": Writer("compare results --write-up out"),
    "commission": Writer(
        "commission pca_stream.npz --detector pca.npz --budget 24/day,9% --out out"
    ),
    "apply": Writer("apply by_pca arrivals --out out"),
    "watch": Writer(
        "watch by_pca --folder arrivals --state state/state.sqlite --out out",
        again="",
        shares=True,
    ),
    "simulate": simulate("waterworks", "--days-train 0.05 --days-test 0.05 --quick"),
    "simulate tep": simulate("tep", "--days-train 0.01 --days-test 0.02", "tep_studio"),
    "simulate network": simulate(
        "network", "--network network.inp --days-train 0.2 --days-test 0.2", "wntr"
    ),
    "start": Writer("start a.csv --out out", again="", told="exists already"),
    # The short files are read, copied, and found too short.
    "inspect": Writer(
        "inspect skab --root skab",
        places=("skab/.sightline-cache",),
        again="",
        shares=True,
        ends=(1,),
    ),
    "run": Writer(
        "run plant --detectors mean,pca --out out --workers 2", again="", shares=True
    ),
    "study": Writer("study plan.toml --out out --workers 2", again="", shares=True),
    "blindspots": Writer(
        f"blindspots pca_stream.npz {' '.join(SEARCH)} --out out",
        again="",
        shares=True,
    ),
    "improve": Writer("improve pca_stream.npz --budget 24/day,9% --out out"),
    "episodes": Writer(
        "episodes pca_stream.npz --budget 24/day,9% --out out/review.csv",
        again="",
        shares=True,
    ),
}
WRITERS = {name: one for name, one in WRITERS.items() if find_spec(one.needs)}


@pytest.fixture(scope="module")
def zygote():
    process = Zygote()
    yield process
    process.close()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return built_once(tmp_path_factory, "corpus", build)


def fresh(corpus: Path, folder: Path) -> Path:
    """Return a new copy of the inputs."""
    shutil.rmtree(folder, ignore_errors=True)
    # But for what a killed search left: nothing hidden must be there before a case.
    return shutil.copytree(corpus, folder, ignore=shutil.ignore_patterns("killed"))


WRITTEN_AT = re.compile(rb'"written": "[^"]*", ')


def written(folder: Path, writer: Writer) -> dict[str, bytes]:
    """Return the content of all files that a command wrote, but for a study's cache.

    When a line of a watch's log was written is not compared, nor what cells cost.
    """
    return {
        str(path.relative_to(folder)): WRITTEN_AT.sub(b"", path.read_bytes())
        for place in writer.places
        for path in sorted((folder / place).rglob("*"))
        if path.is_file()
        and path.name != ".lock"
        and path.stem != "costs"
        and "cache" not in path.relative_to(folder).parts
    }


def hidden(folder: Path) -> list[str]:
    """Return what was left under hidden names."""
    # A folder of copies keeps its lock.
    usual = (".gitignore", ".sightline-cache", ".sightline-cache/.lock")
    return [
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.name.startswith(".") and not str(path).endswith(usual)
    ]


def assert_no_orphan(pid: int) -> None:
    """Fail if a process of the group of a killed command lives on."""
    for _ in range(2400):
        try:
            os.killpg(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    raise AssertionError(f"a process of group {pid} is left")


@pytest.fixture(scope="module")
def alone(zygote, corpus, tmp_path_factory):
    """Give what a command writes when it is left alone, and how long it takes."""
    base = tmp_path_factory.mktemp("reference")

    @cache
    def ran(name):
        writer, folder = WRITERS[name], fresh(corpus, base / name)
        begin = time.monotonic()
        code = zygote.run(writer.command.split(), folder, base / "log")
        seconds = time.monotonic() - begin
        assert code in writer.ends, (name, (base / "log").read_text())
        assert hidden(folder) == []
        return written(folder, writer), seconds

    return ran


def cases(count, first):
    """Return a command and a number for each case; commands take turns.

    Every other command is tried once in the default suite, from the `first` one on.
    """
    names = list(WRITERS)
    sample = {*range(first, len(names), 2)} - {names.index("study")}
    return [
        pytest.param(
            *(names[k % len(names)], k), marks=[] if k in sample else pytest.mark.slow
        )
        for k in range(count)
    ]


@pytest.mark.parametrize(("name", "number"), cases(N_KILLS, first=0))
def test_a_killed_command_goes_on_to_the_same_bytes(
    zygote, corpus, alone, tmp_path, name, number
):
    writer, (reference, seconds) = WRITERS[name], alone(name)
    folder, log = fresh(corpus, tmp_path / "work"), tmp_path / "log"
    pid = zygote.start(writer.command.split(), folder, log)
    time.sleep(float(np.random.default_rng([number, 7]).uniform(0, 1.05 * seconds)))
    kill(pid)
    zygote.wait(pid)
    assert_no_orphan(pid)
    again = f"{writer.command} {writer.again}".split()
    code = zygote.run(again, folder, log)
    text = log.read_text()
    # `start` replaces nothing, not even what the killed run completed.
    assert code in writer.ends or (name == "start" and writer.told in text), text
    assert written(folder, writer) == reference
    assert hidden(folder) == []


@pytest.mark.parametrize(("name", "number"), cases(N_PAIRS, first=1))
def test_of_two_writers_one_wins_and_the_other_is_told(
    zygote, corpus, alone, tmp_path, name, number
):
    writer, (reference, seconds) = WRITERS[name], alone(name)
    folder = fresh(corpus, tmp_path / "work")
    logs = [tmp_path / f"log{k}" for k in range(2)]
    wait = float(np.random.default_rng([number, 8]).uniform(0, 0.5 * seconds))
    pids = []
    for log in logs:
        pids.append(zygote.start(writer.command.split(), folder, log))
        time.sleep(wait if log is logs[0] else 0)
    codes = [zygote.wait(pid) for pid in pids]
    texts = [log.read_text() for log in logs]
    losers = [text for text in texts if "error: " in text]
    winning = [
        code for code, text in zip(codes, texts, strict=True) if text not in losers
    ]
    assert set(winning) <= set(writer.ends), (codes, texts)
    if writer.shares:
        assert len(losers) <= 1, texts
        told = (TOLD,)
    else:
        assert len(losers) == 1, texts
        told = (TOLD, writer.told)
    assert all(any(words in text for words in told) for text in losers), losers
    assert all("Traceback" not in text for text in texts), texts
    if name == "inspect":
        # A copy that both wanted to write may be skipped; the next run makes it.
        assert written(folder, writer).items() <= reference.items()
        zygote.run(writer.command.split(), folder, logs[0])
    assert written(folder, writer) == reference
    assert hidden(folder) == []


def test_a_ctrl_c_while_an_object_is_freed_counts():
    code = """if True:
        import signal, sys, time, weakref
        from sightline.__main__ import _press_again
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.unraisablehook = _press_again
        class Thing: pass
        thing = Thing()
        seen = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))
        try:
            del thing
            time.sleep(900)
        except KeyboardInterrupt:
            print("ended")
    """
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300
    )
    assert (done.stdout, done.stderr, done.returncode) == ("ended\n", "", 0)


@pytest.mark.parametrize(
    "number",
    [0, *(pytest.param(k, marks=pytest.mark.slow) for k in range(1, N_INTERRUPTS))],
)
def test_one_ctrl_c_ends_a_study(zygote, corpus, alone, tmp_path, number):
    writer, (reference, seconds) = WRITERS["run"], alone("run")
    folder, log = fresh(corpus, tmp_path / "work"), tmp_path / "log"
    pid = zygote.start(writer.command.split(), folder, log)
    wait = float(np.random.default_rng([number, 9]).uniform(0.05, 0.9)) * seconds
    time.sleep(wait)
    # As a terminal does: to the command and to its workers.
    os.killpg(pid, signal.SIGINT)
    code = zygote.wait(pid)
    text = log.read_text()
    # The study may have ended just before.
    assert code == 130 or (code == 0 and wait > 0.5 * seconds), (code, text)
    assert "Traceback" not in text
    assert_no_orphan(pid)
    assert zygote.run(writer.command.split(), folder, tmp_path / "again") == 0
    assert written(folder, writer) == reference
    assert hidden(folder) == []
