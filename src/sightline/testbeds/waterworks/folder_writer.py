"""A simulation on disk: plain tables, the truth, and a picture.

The folder holds::

    train.parquet         time and 51 tags, one row a second
    test.parquet          the same, and label: 1 in an attack, else 0
    attacks.csv           each attack: first and last second, tags, note
    tags.csv              each tag: role, stage, unit
    truth.json            each attack: what it moved, by how much, when first
    truth.csv             the same as a table, one row an attack and moved tag
    true_values.parquet   test as its sensors read before any forging
    scenario.csv          the attacks as planned, to be edited and run again
    waterworks.png        levels and flows of a day, attacks shaded

The same simulation makes the same bytes.
"""

import csv
import json
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from sightline.data.arrays import Floats, Labels, Residuals
from sightline.data.recording import Recording
from sightline.errors import FileError
from sightline.files import reading, staged_folder
from sightline.testbeds.waterworks.picture import draw_simulation
from sightline.testbeds.waterworks.plant import TAG_NAMES
from sightline.testbeds.waterworks.scenario_files import scenario_to_csv
from sightline.testbeds.waterworks.simulation import Simulation
from sightline.testbeds.waterworks.truth import AttackTruth
from sightline.testbeds.waterworks.water import WaterBalance


def write_simulation(
    simulation: Simulation, out: str | Path, *, overwrite: bool = False
) -> Path:
    """Write a simulation to a folder, whole or not at all; return the folder.

    Raises
    ------
    FileError
        If the folder holds anything and may not be overwritten, or cannot be written.
    """
    out = Path(out)
    with reading(out):
        if out.exists() and not out.is_dir():
            raise FileError(f"{out}: is a file: choose another folder.")
        if not overwrite and out.is_dir() and any(out.iterdir()):
            raise FileError(
                f"{out}: exists and is kept: choose another folder, or allow to "
                "overwrite."
            )
    with staged_folder(out) as folder:
        test = simulation.test
        _write_values(
            simulation.train, simulation.train.values, folder / "train.parquet"
        )
        _write_values(test, test.values, folder / "test.parquet", test.labels)
        _write_values(test, simulation.true_values, folder / "true_values.parquet")
        _write_table(folder / "tags.csv", _tag_rows(test))
        _write_table(folder / "attacks.csv", _attack_rows(test))
        _write_table(folder / "truth.csv", _truth_rows(simulation.truth))
        text = json.dumps(_facts(simulation), indent=1, allow_nan=False)
        (folder / "truth.json").write_text(text + "\n", encoding="utf-8")
        planned = scenario_to_csv(simulation.scenario)
        (folder / "scenario.csv").write_text(planned, encoding="utf-8", newline="\n")
        draw_simulation(simulation, folder / "waterworks.png")
    return out


def _write_values(
    recording: Recording,
    values: Residuals,
    path: Path,
    labels: Labels | None = None,
) -> None:
    import polars as pl

    milliseconds = np.round(_time_of(recording) * 1000.0).astype(np.int64)
    columns = {"time": pl.Series(milliseconds).cast(pl.Datetime("ms"))}
    for column, name in enumerate(TAG_NAMES):
        columns[name] = pl.Series(np.ascontiguousarray(values[:, column]))
    if labels is not None:
        columns["label"] = pl.Series(labels)
    pl.DataFrame(columns).write_parquet(path, compression="zstd", statistics=False)


def _time_of(recording: Recording) -> Floats:
    # A simulated recording always has its time.
    return np.empty(0) if recording.time is None else recording.time


def _write_table(path: Path, rows: Iterable[list[Any]]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as handle:
        csv.writer(handle, lineterminator="\n").writerows(rows)


def _tag_rows(recording: Recording) -> Iterable[list[Any]]:
    yield ["tag", "role", "stage", "unit"]
    for tag in recording.tags:
        yield [tag.name, tag.role, tag.stage, tag.unit]


def _attack_rows(recording: Recording) -> Iterable[list[Any]]:
    yield ["id", "start", "end", "tags", "note", "uncertainty_min"]
    time = _time_of(recording)
    for attack in recording.attacks:
        first, last = _stamp(time[attack.start]), _stamp(time[attack.stop - 1])
        # Of a simulated attack the times are known to the second.
        yield [attack.id, first, last, ";".join(attack.targets), attack.note, 0]


def _stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _truth_rows(truth: Iterable[AttackTruth]) -> Iterable[list[Any]]:
    yield [
        "id",
        "tag",
        "forged",
        "effect",
        "mean_effect",
        "first_move_s",
        "first_clear_s",
    ]
    for attack in truth:
        for tag in attack.moved_tags:
            yield [
                attack.id,
                tag,
                int(tag in attack.forged_tags),
                _short(attack.effect[tag]),
                _short(attack.mean_effect[tag]),
                attack.first_move_s[tag],
                attack.first_clear_s[tag],
            ]


def _short(value: float) -> float:
    """Keep six digits: beyond them an effect has no meaning."""
    return float(f"{value:.6g}")


def _facts(simulation: Simulation) -> dict[str, Any]:
    return {
        "testbed": "waterworks",
        "seed": simulation.seed,
        "drift": asdict(simulation.drift),
        "n_train": simulation.train.n_steps,
        "n_test": simulation.test.n_steps,
        "unit": "a sensor's own noise and rounding (standard deviation); "
        "an actuator's code by 1",
        "attacks": [_attack_facts(attack) for attack in simulation.truth],
        "water": {
            "train": _water_facts(simulation.train_water),
            "test": _water_facts(simulation.test_water),
        },
    }


def _attack_facts(attack: AttackTruth) -> dict[str, Any]:
    return {
        "id": attack.id,
        "start": attack.start,
        "stop": attack.stop,
        "targets": list(attack.targets),
        "forged_tags": list(attack.forged_tags),
        "moves": attack.moves,
        "moves_others": attack.moves_others,
        "blocked": attack.blocked,
        "moved": {
            tag: {
                "effect": _short(attack.effect[tag]),
                "mean_effect": _short(attack.mean_effect[tag]),
                "first_move_s": attack.first_move_s[tag],
                "first_clear_s": attack.first_clear_s[tag],
            }
            for tag in attack.moved_tags
        },
    }


def _water_facts(water: WaterBalance) -> dict[str, Any]:
    facts = asdict(water)
    facts["tanks"] = [
        {key: _short(value) if isinstance(value, float) else value for key, value in t}
        for t in (tank.items() for tank in facts["tanks"])
    ]
    return {
        key: _short(value) if isinstance(value, float) else value
        for key, value in facts.items()
    }
