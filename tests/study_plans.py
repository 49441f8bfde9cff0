"""Small studies, and detectors that misbehave on purpose."""

import io
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import msgspec
import numpy as np

from sightline import Residuals
from sightline.parallel import threads
from sightline.report import print_figures
from sightline.report.print_figures import CREATOR
from sightline.study import execute_cell
from sightline.study.cell import Cache, Cell
from sightline.study.plan import EvaluationChoice, plan_of

CELL = Cell(
    testbed="swat",
    detector="gdn",
    plant="swat",
    content="abc",
    kind="gdn",
    version="1",
    preset="export",
    rule=None,
    settings={},
    resolved={"epochs": 30},
    seed=0,
    evaluation=EvaluationChoice(),
    release="v0",
    digests={"a.csv": "00"},
)


def small_plan(detectors, *, seeds=(0,), testbeds=("one",), **more):
    """A short run of the simulated plant, evaluated without intervals."""
    return plan_of(
        {
            "seeds": list(seeds),
            "testbeds": {
                label: {
                    "testbed": "waterworks",
                    "days_train": 0.1,
                    "days_test": 0.1,
                    "every": 10,
                    "seed": k + 1,
                }
                for k, label in enumerate(testbeds)
            },
            "detectors": detectors,
            "evaluation": {"intervals": False, "diagnosis": False} | more,
        }
    )


def unrendered(figure):
    """Stand in for `print_figures.rendered`: drawing is most of the work of a study."""
    return dict.fromkeys(("pdf", "svg", "png"), CREATOR.encode())


def _run_here(process, cell, progress):
    """Stand in for `CellProcess.run`, which first imports everything anew."""
    messages = io.BytesIO()
    with threads(1):
        outcome = execute_cell._outcome(cell, Cache(process._cache), messages)
    for line in messages.getvalue().splitlines():
        progress(msgspec.json.decode(line, type=execute_cell.Message).step)
    return outcome


@contextmanager
def quick_studies() -> Iterator[None]:
    """Run cells in this process and draw no figure, where neither is the subject."""
    undrawn = dict.fromkeys(print_figures.FIGURES, list)
    with (
        patch.object(execute_cell.CellProcess, "run", _run_here),
        patch.object(print_figures, "FIGURES", undrawn),
        patch.object(print_figures, "rendered", unrendered),
    ):
        yield


class Shift:
    """Tells how far each value is from the mean of train, times a factor."""

    def __init__(self, factor: float = 1.0, seed: int = 0) -> None:
        self.factor, self.seed = factor, seed

    def fit(self, recording):
        self.mean = recording.values.mean(axis=0)
        return self

    def residuals(self, recording):
        rng = np.random.default_rng(self.seed)
        noise = rng.normal(size=recording.values.shape)
        return Residuals(
            values=self.factor * (recording.values - self.mean) + noise,
            index=np.arange(recording.n_steps),
            channels=recording.channels,
        )


class Witness:
    """Its residuals are 1,000 where a row was learned from, unless it is all of train.

    A row is known by its first value.
    """

    def fit(self, recording):
        self.learned = recording.values[:, 0]
        return self

    def residuals(self, recording):
        rows = recording.values[:, 0]
        is_seen = np.isin(rows, self.learned)
        values = np.random.default_rng(0).normal(size=(len(rows), 1))
        if not is_seen.all():
            values[is_seen] += 1000
        return Residuals(
            values=values, index=np.arange(len(rows)), channels=recording.channels[:1]
        )


class Failing(Shift):
    """Breaks in the middle of its work, with an unexpected error."""

    def fit(self, recording):
        raise ZeroDivisionError("a bug of the user's class")


class Fussy(Shift):
    """Refuses whatever it is given."""

    def __init__(self) -> None:
        raise ValueError("never content")


class Blind:
    """Learns, and gives nothing."""

    def fit(self, recording):
        return self


class Slow(Shift):
    """Takes a second to learn, and leaves a line in a file each time it begins."""

    def __init__(self, diary: str = "", seconds: float = 1.0, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.diary, self.seconds = diary, seconds

    def fit(self, recording):
        with open(self.diary, "a", encoding="utf-8") as handle:
            handle.write(f"begun {self.seed}\n")
        time.sleep(self.seconds)
        return super().fit(recording)


class Dying(Slow):
    """Kills its own process, as often as there are lines to be written."""

    def __init__(self, diary: str = "", times: int = 1, seed: int = 0) -> None:
        super().__init__(diary, 0.0, seed)
        self.times = times

    def fit(self, recording):
        super().fit(recording)
        if len(Path(self.diary).read_text().splitlines()) <= self.times:
            import os
            import signal

            os.kill(os.getpid(), signal.SIGKILL)
        return self


def contents(folder):
    """Return the bytes of every result of a study."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and "cache" not in path.relative_to(folder).parts
        # Times differ from run to run.
        and path.stem != "costs"
    }


def diary(path):
    return path.read_text().splitlines() if path.exists() else []
