"""A small plant on disk: telemetry, a saved detector, its stream, and a rule."""

import csv
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np

from sightline import (
    export_stream,
    inspect_testbed,
    make_detector,
    open_testbed,
    write_stream,
)

ZONE = "Europe/Berlin"
# Over the change to summer time.
BEGIN = datetime(2026, 3, 26, tzinfo=ZoneInfo(ZONE))
TAGS = ("FIT101", "LIT101", "MV101", "P201", "TT301")
STEP_S = 60
DAY = 1440
N_TRAIN, N_TEST = 4 * DAY, 6 * DAY


def readings(n_rows: int, seed: int) -> np.ndarray:
    """Return five tags that follow one another, with noise and daily load."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_t(5, size=(n_rows, 5))
    values = np.zeros((n_rows, 5))
    for t in range(1, n_rows):
        before = values[t - 1]
        values[t, 0] = 0.6 * before[0] + noise[t, 0]
        values[t, 1] = 0.5 * before[1] + 0.4 * before[0] + noise[t, 1]
        values[t, 2] = 0.3 * before[1] + noise[t, 2]
        values[t, 3] = 0.7 * before[3] + 0.2 * before[2] + noise[t, 3]
        values[t, 4] = 0.9 * before[4] + 0.1 * before[3] + noise[t, 4]
    return np.round(values, 6)


def stamps(first: int, n_rows: int) -> list[str]:
    """Return time stamps with their offset, which changes on the fourth day."""
    zone = ZoneInfo(ZONE)
    start = BEGIN.timestamp() + first * STEP_S
    return [
        datetime.fromtimestamp(start + k * STEP_S, zone).isoformat(sep=" ")
        for k in range(n_rows)
    ]


def write_table(path: Path, first: int, values: np.ndarray) -> None:
    """Write rows of telemetry."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["time", *TAGS])
        for at, row in zip(stamps(first, len(values)), values.tolist(), strict=True):
            writer.writerow([at, *row])


def write_plant(folder: Path) -> np.ndarray:
    """Write a plant's folder with an attack on each later day; return its test."""
    write_table(folder / "train.csv", 0, readings(N_TRAIN, 1))
    test = readings(N_TEST, 2)
    lines = ["id,start,end,tags"]
    for k in range(1, 6):
        first = k * DAY + 300
        test[first : first + 30, k % 5] += 25
        starts = BEGIN + timedelta(0)
        at = [
            datetime.fromtimestamp(
                starts.timestamp() + (N_TRAIN + row) * STEP_S, ZoneInfo(ZONE)
            ).isoformat(sep=" ")
            for row in (first, first + 29)
        ]
        lines.append(f"A{k},{at[0]},{at[1]},{TAGS[k % 5]}")
    write_table(folder / "test.csv", N_TRAIN, test)
    (folder / "attacks.csv").write_text("\n".join(lines) + "\n")
    (folder / "plant.toml").write_text(f"timezone = '{ZONE}'\n")
    (folder / "tags.csv").write_text(
        "tag,stage,unit\nFIT101,P1,m3/h\nLIT101,P1,mm\nMV101,P1,\n"
        "P201,P2,\nTT301,P2,degC\n"
    )
    return test


def write_all(folder: Path) -> None:
    """Write plant/, streams/var.npz and detectors/var.npz."""
    write_plant(folder / "plant")
    plant = open_testbed(folder / "plant")
    detector = make_detector("var").fit(plant.train)
    (folder / "detectors").mkdir()
    detector.save(folder / "detectors" / "var.npz")
    audit = inspect_testbed(folder / "plant")
    stream = export_stream(detector, plant.train, plant.test, audit=audit)
    (folder / "streams").mkdir()
    write_stream(stream, folder / "streams" / "var.npz")
