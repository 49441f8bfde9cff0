"""Streams and files that the tests of storage and of the command line share."""

import gzip
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightline import Attack, Evaluation, ResidualStream, SightlineError

N_TRAIN, N_TEST = 60, 50
CHANNELS = ("LIT101", "FIT101", "P101")


def labels() -> np.ndarray:
    """Two attacks, and some rows to be ignored."""
    marks = np.zeros(N_TEST, np.int8)
    marks[10:15] = 1
    marks[15:18] = -1
    marks[30:34] = 1
    return marks


def bare_stream(**known: Any) -> ResidualStream:
    """Return residuals and labels, and nothing else."""
    rng = np.random.default_rng(7)
    train, test = rng.normal(size=(N_TRAIN, 3)), rng.normal(size=(N_TEST, 3))
    test[10:15] += 6.0
    given = {"channels": CHANNELS, "name": "sample"} | known
    return ResidualStream(train, test, labels(), **given)


def full_stream(**changes: Any) -> ResidualStream:
    """Return a stream with everything that a stream may hold."""
    rng = np.random.default_rng(8)
    known = {
        "calibration": rng.normal(size=(20, 3)),
        "alarms": (np.arange(N_TEST) % 7 == 0).astype(int),
        "score": rng.normal(size=N_TEST),
        "train_time": 1e9 + np.arange(N_TRAIN) * 10.0,
        "test_time": 2e9 + np.arange(N_TEST) * 10.0,
        "train_breaks": [0, 20, 41],
        "test_breaks": [0, 25],
        "segments": [
            Attack(id="A1", start=10, stop=15, targets=("LIT101", "P101"), note="x"),
            Attack(id="A2", start=30, stop=34, name="drain"),
        ],
        "telemetry_train": rng.normal(size=(N_TRAIN, 2)),
        "telemetry_test": rng.normal(size=(N_TEST, 2)),
        "telemetry_channels": ["level", "flow"],
        "space": "sensor",
        "detector": "GDN",
        "testbed": "SWaT",
        "step_s": 10.0,
        "meta": {"seed": 3, "config": {"lr": 0.1, "layers": [1, 2]}, "né": None},
    }
    return bare_stream(**(known | changes))


def arrays_of(stream: ResidualStream) -> dict[str, np.ndarray]:
    """Return the three arrays that every ``.npz`` stream has."""
    return {
        "train": stream.train.values,
        "test": stream.test.values,
        "labels": stream.labels,
    }


def columns_of(stream: ResidualStream, split: str) -> dict[str, np.ndarray]:
    """Return one column for each channel, and in test the labels as ``y``."""
    values = getattr(stream, split).values
    columns = {name: values[:, j] for j, name in enumerate(stream.channels)}
    return columns | ({"y": stream.labels} if split == "test" else {})


def write_csv(path: Path, columns: Mapping[str, Sequence[Any]]) -> Path:
    lines = [",".join(columns)]
    lines += [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def states_of(stream: ResidualStream, split: str) -> list[dict[str, Any]]:
    """Return what an IPAL detector called GeCo would write, a line for each row."""
    values = getattr(stream, split).values
    attacked = stream.labels == 1 if split == "test" else np.zeros(len(values), bool)
    return [
        {
            "timestamp": 1600000000 + 2 * row,
            "state": {"LIT101": 500.0},
            "malicious": bool(attacked[row]),
            "scores": {"GeCo": scores.tolist(), "Any": 0},
            "alerts": {"GeCo": bool(row % 9 == 0)},
        }
        for row, scores in enumerate(values)
    ]


def write_states(path: Path, states: Sequence[Any]) -> Path:
    path.parent.mkdir(exist_ok=True)
    text = "".join(json.dumps(state) + "\n" for state in states)
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", encoding="utf-8") as handle:
        handle.write(text)
    return path


def assert_same_evaluation(one: Evaluation, other: Evaluation) -> None:
    """Every figure and every trace, to the last bit."""
    assert one.to_dict() == other.to_dict()
    for name, values in vars(one.traces).items():
        np.testing.assert_array_equal(getattr(other.traces, name), values, name)


@contextmanager
def refused(*words: str) -> Iterator[None]:
    """Expect one of our errors: one line that has these words in it, in any order."""
    with pytest.raises(SightlineError) as caught:
        yield
    assert_sentence(str(caught.value), *words)


def assert_sentence(message: str, *words: str) -> None:
    assert re.fullmatch(r"[^\n]+", message)
    missing = [word for word in words if word not in message]
    assert not missing, message
