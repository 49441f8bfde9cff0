"""Small studies, and detectors that misbehave on purpose."""

import time
from pathlib import Path

import numpy as np

from sightline import Residuals
from sightline.study.cell import Cell
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
        if path.is_file() and "cache" not in path.relative_to(folder).parts
    }


def diary(path):
    return path.read_text().splitlines() if path.exists() else []
