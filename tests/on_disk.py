"""Streams that hold everything a file can, and what must survive the disk."""

import json
from typing import Any

import numpy as np
from strategies import make_stream

from sightline import Attack, Evaluation, ResidualStream
from sightline.data.row_tables import Rows, gather_rows

TABLES = ("train", "test", "calibration", "telemetry_train", "telemetry_test")
SERIES = (
    "labels",
    "alarms",
    "score",
    "train_time",
    "test_time",
    "train_breaks",
    "test_breaks",
)
FACTS = (
    "channels",
    "telemetry_channels",
    "segments",
    "space",
    "detector",
    "testbed",
    "step_s",
    "meta",
)


def full_stream(*, n_train: int = 1500, n_test: int = 1200) -> ResidualStream:
    """Return a stream with every optional field, gaps and ignored rows."""
    rng = np.random.default_rng(3)
    stream = make_stream(n_train=n_train, n_test=n_test)
    labels = stream.labels.copy()
    labels[600:620] = -1
    return stream.replace(
        labels=labels,
        calibration=rng.normal(size=(300, 4)),
        alarms=rng.random(n_test) < 0.05,
        score=rng.normal(size=n_test),
        channels=["FIT 101", "LIT/101", "Ventil-\u00fc", "d"],
        train_time=np.arange(n_train) * 10.0,
        test_time=np.arange(n_test) * 10.0 + 500 * (np.arange(n_test) > 700),
        train_breaks=[0, 400],
        test_breaks=[0, 701, 1000],
        segments=[
            Attack(
                id="A1",
                start=200,
                stop=240,
                name="overflow",
                targets=("LIT/101", "P 1"),
                note="valve",
            ),
            Attack(id="A2", start=500, stop=503),
        ],
        telemetry_train=rng.normal(size=(n_train, 2)),
        telemetry_test=rng.normal(size=(n_test, 2)),
        telemetry_channels=["label", "u"],
        space="sensor",
        detector="GDN",
        testbed="SWaT",
        step_s=10.0,
        meta={"seed": 7, "of": {"lr": 0.1, "layers": [1, 2]}},
    )


def values_of(rows: Rows) -> np.ndarray:
    return gather_rows(rows, np.arange(rows.n_rows))


def assert_same_stream(found: ResidualStream, wanted: ResidualStream) -> None:
    """Compare everything but the name and the notices."""
    for name in TABLES:
        rows, expected = getattr(found, name), getattr(wanted, name)
        assert (rows is None) == (expected is None), name
        if expected is not None:
            np.testing.assert_array_equal(values_of(rows), values_of(expected), name)
    for name in SERIES:
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name), name)
    for name in FACTS:
        assert getattr(found, name) == getattr(wanted, name), name


def figures_of(evaluation: Evaluation) -> dict[str, Any]:
    return json.loads(json.dumps(evaluation.to_dict()))
