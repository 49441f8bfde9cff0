"""Do figures stay equal from one version of Sightline to the next?

    python bench/same_figures.py evaluate OUT [STREAM ...]   with either version
    python bench/same_figures.py commands OUT [DATA]         with either version
    python bench/same_figures.py compare OLD NEW [CLOSE]     with the newer one

``evaluate`` makes 14 synthetic streams (and reads others, as ``*.npz``), evaluates
them and writes the results (a minute). ``commands`` runs what users run and keeps what
it writes: the demo with its seven detectors, four alarm rules with their alarms, a
table of blind spots and, where the folder DATA holds ``batadal`` and ``skab``, two
detectors and GeCo on them (ten minutes). ``compare`` reads both folders and lists every
figure of a JSON file, a table or a trace that differs; texts, versions, dates and
seconds may. Exit code 1 if any does. Figures must be equal to the last bit, or to the
share CLOSE of the larger one (of the largest value of a trace).
"""

import csv
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import sightline

# What is worded, who made it and how long it took: not figures.
TEXTS = {"sentence", "advice", "notices", "provenance", "schema", "text", "sightline"}
TEXTS |= {"cost", "seconds", "settings", "created", "made_at", "version", "digest"}
# The rules that `commands` makes of a detector's stream.
RULES = {"all": "all", "energy": "energy", "z-memory": "z~", "cusum": "cusum"}


def synthetic_streams() -> Iterator[tuple[sightline.ResidualStream, dict[str, Any]]]:
    """Yield streams that between them hold all that a stream may hold."""
    yield from ten_streams()
    yield from odd_streams()


def odd_streams() -> Iterator[tuple[sightline.ResidualStream, dict[str, Any]]]:
    """Yield a frozen channel, many channels, many short attacks, float32 of a plant."""
    for k, (p, n, n_attacks, length) in enumerate(
        [
            (1, 6000, 8, 60),
            (123, 9000, 9, 90),
            (6, 12_000, 120, 1),
            (26, 30_000, 9, 400),
        ]
    ):
        rng = np.random.default_rng([24, k])
        mixing = np.eye(p) + rng.normal(size=(p, p)) / p
        train, test = (rng.normal(size=(n, p)) @ mixing for _ in range(2))
        labels = np.zeros(n, int)
        for a in range(n_attacks):
            start = (2 * a + 1) * n // (2 * n_attacks)
            stop = start + length + a % 3
            labels[start:stop] = 1
            if k == 0:
                test[start:stop] = test[start]
            else:
                test[start:stop, a % p] += 6 / (1 + a % 4)
        if k == 0:
            test[n // 2 : n // 2 + 700] = 0.25
        known: dict[str, Any] = {"name": f"odd{k}", "detector": f"odd-{k}"}
        if k in (0, 3):
            steps = np.cumsum(test, axis=0) % 40
            known |= {"telemetry_train": np.cumsum(train, axis=0) % 40}
            known |= {"telemetry_test": np.where(labels[:, None] == 1, 7.0, steps)}
        if k == 3:
            train, test = train.astype(np.float32), test.astype(np.float32)
        yield sightline.ResidualStream(train, test, labels, step_s=10.0, **known), {}


def ten_streams() -> Iterator[tuple[sightline.ResidualStream, dict[str, Any]]]:
    """Yield ten streams of many kinds."""
    for seed in range(10):
        rng = np.random.default_rng([15, seed])
        p = (1, 3, 8, 8, 24, 8, 5, 8, 12, 51)[seed]
        n_train, n_test = 6000 + 500 * seed, 5000 + 700 * seed
        mixing = np.eye(p) + 0.3 * rng.normal(size=(p, p))
        train = rng.normal(size=(n_train, p)) @ mixing
        test = rng.normal(size=(n_test, p)) @ mixing
        labels = np.zeros(n_test, int)
        if seed in (2, 5, 8):  # drift
            test += np.linspace(0, 1.5, n_test)[:, None] * mixing[0]
        attacks = []
        for k, start in enumerate(range(400, n_test - 400, 700)):
            stop = start + (30, 60, 120, 200)[k % 4]
            if seed == 6:  # no attack at all
                continue
            labels[start:stop] = 1
            kind = (k + seed) % 6
            if kind == 0:
                test[start:stop] += 2.5
            elif kind == 1:
                test[start:stop, 0] += 4.0
            elif kind == 2:
                test[start:stop] *= 0.2
            elif kind == 3:
                test[start:stop, -1] += np.linspace(0, 3, stop - start)
            elif kind == 4:
                test[start:stop, p // 2] = test[start, p // 2]
            attacks.append(
                sightline.Attack(id=f"A{k}", start=start, stop=stop, targets=("C0",))
            )
        labels[100:120] = -1
        known: dict[str, Any] = {
            "channels": [f"C{j}" for j in range(p)],
            "name": f"synthetic{seed}",
            "detector": f"made-{seed}",
            "testbed": "made",
            "step_s": None if seed == 3 else 10.0,
        }
        if attacks:
            known["segments"] = attacks
        if seed in (1, 4, 7):
            score = np.abs(test).max(axis=1)
            known |= {"score": score, "alarms": (score > 3.5).astype(int)}
        if seed in (2, 9):
            known["calibration"] = rng.normal(size=(900, p)) @ mixing
        if seed in (4, 9):
            halves = {"one": known["channels"][: p // 2], "two": known["channels"][3:]}
            known["meta"] = {"groups": halves}
            known |= {
                "telemetry_train": np.cumsum(train[:, :4], axis=0) % 50,
                "telemetry_test": np.cumsum(test[:, :4], axis=0) % 50,
                "telemetry_channels": [f"T{j}" for j in range(4)],
            }
        if seed == 5:
            known["test_breaks"] = [0, 1000, 3333]
        options = {"guard": 20} if seed == 7 else {}
        yield sightline.ResidualStream(train, test, labels, **known), options


def evaluate_all(out: Path, streams: list[Path]) -> None:
    """Evaluate the synthetic streams and those given, and write the results."""
    for stream, options in synthetic_streams():
        sightline.write_results([sightline.evaluate(stream, **options)], out)
    for path in streams:
        sightline.write_results([sightline.evaluate(sightline.read_stream(path))], out)


def differences(
    old: Any, new: Any, close: float = 0.0, place: str = ""
) -> Iterator[str]:
    """Yield where two JSON values differ, apart from texts; new keys do not count."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key, value in old.items():
            if key in TEXTS:
                continue
            if key not in new:
                yield f"{place}.{key}: is gone"
            else:
                yield from differences(value, new[key], close, f"{place}.{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for k, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from differences(one, other, close, f"{place}[{k}]")
    elif isinstance(old, float) and isinstance(new, float):
        if abs(old - new) > close * max(abs(old), abs(new)):
            yield f"{place}: {old} -> {new}"
    elif old != new:
        yield f"{place}: {str(old)[:60]} -> {str(new)[:60]}"


def is_same(old: Any, new: Any, close: float) -> bool:
    """Return whether two arrays are equal, or as close as asked for."""
    if old.dtype.kind != "f":
        return np.array_equal(old, new)
    if old.shape != new.shape:
        return False
    largest = np.max(np.abs(old), initial=0.0, where=np.isfinite(old))
    return np.allclose(old, new, rtol=0.0, atol=close * largest, equal_nan=True)


def run_commands(out: Path, data: Path | None) -> None:
    """Run the commands of users, and keep what they write."""

    def sightline_command(*arguments: object) -> None:
        command = [sys.executable, "-m", "sightline", *map(str, arguments)]
        print("sightline", *arguments, flush=True)
        done = subprocess.run(command, stdout=subprocess.DEVNULL)
        if done.returncode not in (0, 3):  # 3: a promise is broken
            sys.exit(f"exit code {done.returncode}")

    sightline_command("demo", "--out", out / "demo")
    stream = out / "demo" / "streams" / "waterworks-var-seed0.npz"
    for folder, rule in RULES.items():
        place = out / "rules" / folder
        options = ("--rule", "cusum", "--choose", rule, "--out", place)
        sightline_command("commission", stream, *options)
        sightline_command("apply", place / "rule.json", stream, "--out", place / "on")
    sightline_command(
        *("blindspots", stream, "--tags", "LIT101,FIT101,MV101", "--places", 10),
        *("--durations", "1min,15min", "--shapes", "step,ramp", "--out", out / "blind"),
    )
    if data is not None:
        for testbed, detectors in (("batadal", "var,pca,geco"), ("skab", "var,pca")):
            options = ("--root", data / testbed, "--detectors", detectors)
            sightline_command("run", testbed, *options, "--out", out / testbed)


def values_of(path: Path) -> Any:
    """Return a JSON file, or a table as a list of records with numbers as floats."""
    if path.suffix == ".json":
        return json.loads(path.read_text("utf-8"))
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [{key: _number(text) for key, text in row.items()} for row in rows]


def _number(text: str) -> float | str:
    try:
        return float(text)
    except (TypeError, ValueError):
        return text


def trace_differences(old: Path, new: Path, close: float) -> list[str]:
    """Return the names of the arrays that differ."""
    with np.load(old) as before, np.load(new) as after:
        return [
            f"{key}"
            for key in before.files
            if key not in after.files or not is_same(before[key], after[key], close)
        ]


def compare_all(old: Path, new: Path, close: float) -> int:
    """Print every difference between two folders; return how many there are."""
    count = n_files = 0
    for path in sorted(old.rglob("*")):
        name = path.relative_to(old)
        if path.suffix not in (".json", ".csv", ".npz") or "cache" in name.parts:
            continue
        n_files += 1
        other = new / name
        if not other.exists():
            lines = ["is gone"]
        elif path.suffix == ".npz":
            lines = trace_differences(path, other, close)
        else:
            lines = list(differences(values_of(path), values_of(other), close))
        count += len(lines)
        if lines:
            print(f"{name}: {len(lines)} differences")
        for line in lines[:20]:
            print(f"  {line}")
    print(f"{count} differences in {n_files} files")
    return count


if __name__ == "__main__":
    command, first, *rest = sys.argv[1:]
    if command == "evaluate":
        evaluate_all(Path(first), [Path(path) for path in rest])
    elif command == "commands":
        run_commands(Path(first), Path(rest[0]) if rest else None)
    else:
        close = float(rest[1]) if len(rest) > 1 else 0.0
        sys.exit(min(compare_all(Path(first), Path(rest[0]), close), 1))
