"""What users wait for: prints the table of goals of docs/speed.md.

    python bench/speed.py                   every row (half an hour)
    python bench/speed.py whole page ...    some of them
    python bench/speed.py results FOLDER    write the results that `page` shows

Each row is measured in a process of its own, with one thread for linear algebra. CPU
seconds say most on a machine that others use as well; ratios are of neighbouring runs.

whole     475,200 + 449,919 rows x 51 with telemetry, 34 attacks: everything, one job
cores     the same on all cores, the BLAS library's own threads against one thread
core      reference, energies, ranks, drift, probe at SWaT's and WADI's size, in turns
          with scikit-learn: on the float32 arrays as they are, and on float64 copies
attacks   1,000 attacks in 200,000 rows; 1,600 attacks of one row against 400
channels  1,000 channels x 20,000 rows
growth    by what power the time grows with rows, channels and attacks
memory    10 million rows x 51 in Parquet, by the command line: resident memory
cluster   two Dask workers against one (bench/cluster.py), 2 x 1 million rows x 51
page      `sightline report` of seven detectors with 26 attacks, 60,000 rows x 51 each
help      `sightline --help`
"""

import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

HERE = Path(__file__)
# Rows of train and test, channels.
SWAT, WADI = (475_200, 449_919, 51), (1_209_601, 172_801, 123)
# What a page shows: detectors, attacks, rows of train and of test, channels.
SHOWN = 7, 26, 60_000, 51
CORE_TURNS = 5
LARGE_ROWS, PART_ROWS = 10_000_000, 500_000
# What is left as it is while something else grows.
USUAL = {"n_rows": 250_000, "p": 51, "n_attacks": 50}
GROWING = {
    "n_rows": (125_000, 250_000, 500_000),
    "p": (25, 51, 123),
    "n_attacks": (50, 200, 1000),
}


def row(what: str, goal: str, measured: str) -> None:
    """Print one row of the table."""
    print(f"| {what} | {goal} | {measured} |", flush=True)


def cpu_of(run: Callable[[], object]) -> float:
    """Return the CPU seconds of a call in this process."""
    before = time.process_time()
    run()
    return time.process_time() - before


def cpu_of_command(command: list[str], **environment: str) -> float:
    """Return the CPU seconds of a command."""
    # As installed: bytecode is kept, whatever the shell says.
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        command, check=True, stdout=subprocess.DEVNULL, env=kept | environment
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def warm_up(**options: object) -> None:
    """Compile and import what an evaluation needs: two weeks of minutes, with rules."""
    from sightline import evaluate

    evaluate(made_up_stream(20_000, 20_000, 5, step_s=60.0), **options)


def made_up_stream(n_train: int, n_test: int, p: int, step_s: float):
    from bench_tools import made_up

    from sightline import ResidualStream

    data = made_up(n_train, n_test, p)
    telemetry = {"telemetry_train": data.train, "telemetry_test": data.test}
    return ResidualStream(
        data.train, data.test, data.labels, step_s=step_s, **telemetry
    )


# --- Whole evaluations ----------------------------------------------------------------


def evaluated(jobs: int | None) -> dict[str, float]:
    """Return what an evaluation of SWaT's size takes, in this process."""
    from sightline import evaluate

    warm_up(jobs=jobs)
    stream = made_up_stream(*SWAT, step_s=1.0)
    wall = time.perf_counter()
    cpu = cpu_of(lambda: evaluate(stream, jobs=jobs))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"cpu": cpu, "wall": time.perf_counter() - wall, "peak": peak}


def whole() -> None:
    one = evaluated(jobs=1)
    row(
        "whole evaluation, one job",
        "30 CPU s",
        f"{one['cpu']:.1f} CPU s, {one['peak']:.2f} GiB",
    )


def cores() -> None:
    bare = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    runs = []
    for given in ({"OPENBLAS_NUM_THREADS": "1"}, {}):
        command = [sys.executable, str(HERE), "child"]
        child = subprocess.run(
            command, env=bare | given, check=True, stdout=subprocess.PIPE
        )
        runs.append(json.loads(child.stdout))
    one, own = runs
    row(
        "the same on all cores, BLAS threads not set against 1",
        "1.1 times",
        f"{own['cpu'] / one['cpu']:.2f} times the CPU, "
        f"{own['wall'] / one['wall']:.2f} times the wall time",
    )


def attacked_stream(n_rows: int, p: int, n_attacks: int, length: int):
    """As many rows of train as of test; attacks evenly spread, of nearly one length."""
    from sightline import ResidualStream

    rng = np.random.default_rng(3)
    labels, test = np.zeros(n_rows, np.int8), rng.normal(size=(n_rows, p))
    starts = (2 * np.arange(n_attacks) + 1) * n_rows // (2 * n_attacks)
    for k, start in enumerate(starts.tolist()):
        rows = slice(start, start + length + (k % 17 if length > 1 else 0))
        labels[rows] = 1
        test[rows, k % p] += 2.0
    return ResidualStream(rng.normal(size=(n_rows, p)), test, labels, step_s=10.0)


def evaluation_seconds(stream, **options: object) -> float:
    from sightline import evaluate

    return cpu_of(lambda: evaluate(stream, jobs=1, **options))


def attacks() -> None:
    warm_up(jobs=1)
    many = evaluation_seconds(attacked_stream(200_000, 10, 1000, length=30))
    row("1,000 attacks in 200,000 rows x 10", "15 CPU s", f"{many:.1f} CPU s")
    few, more = (
        evaluation_seconds(attacked_stream(40_000, 10, n, length=1))
        for n in (400, 1600)
    )
    row("1,600 attacks of one row against 400", "4 times", f"{more / few:.1f} times")


def channels() -> None:
    warm_up(jobs=1)
    seconds = evaluation_seconds(attacked_stream(20_000, 1000, 5, length=30))
    row("1,000 channels, 20,000 + 20,000 rows", "20 CPU s", f"{seconds:.1f} CPU s")


def growing_stream(n_rows: int, p: int, n_attacks: int):
    """Half train, half test; attacks of 50 to 500 rows, each of its own length."""
    from bench_tools import made_up

    from sightline import ResidualStream

    data = made_up(n_rows // 2, n_rows // 2, p)
    labels = np.zeros(n_rows // 2, np.int8)
    for k, length in enumerate(np.linspace(50, 500, n_attacks).astype(int)):
        start = (2 * k + 1) * len(labels) // (2 * n_attacks)
        labels[start : start + length] = 1
    data.test[labels == 1] += 0.2
    return ResidualStream(data.train, data.test, labels, step_s=1.0)


def growth() -> None:
    warm_up(jobs=1)
    slopes = []
    for what, sizes in GROWING.items():
        seconds = [
            evaluation_seconds(growing_stream(**USUAL | {what: size})) for size in sizes
        ]
        powers = np.diff(np.log(seconds)) / np.diff(np.log(sizes))
        slopes.append(f"{powers.max():.2f}")
    row(
        "growth: power of rows, channels, attacks (50 to 1,000)",
        "1, 2, 1",
        f"at most {', '.join(slopes)}",
    )


# --- The core against scikit-learn ----------------------------------------------------


def with_sightline(data) -> list[float]:
    """Reference, energies, rank figures, drift and probe; sums are in float64."""
    from sightline.data.row_tables import ArrayRows
    from sightline.data.segments import segments_of
    from sightline.energy.energy import score_rows
    from sightline.energy.reference import fit_reference, fold_moments, merged, scale_of
    from sightline.metrics import ranking
    from sightline.metrics.alarm_load import judge_alarms
    from sightline.metrics.measures import measure_drift
    from sightline.rules import QuantileRule

    train, test = ArrayRows(data.train), ArrayRows(data.test)
    moments = merged(fold_moments(train))
    reference = fit_reference(train, moments=moments)
    scale = scale_of(moments)
    scored_train = score_rows(
        train, reference, name="train", scale=scale, energy_only=True
    )
    is_normal = data.labels == 0
    scored = score_rows(test, reference, name="test", counted=is_normal)
    normal_sorted = np.sort(scored.energy[is_normal])
    ranks = ranking.rank_attacks(scored.energy[~is_normal], normal_sorted)
    rule = QuantileRule.from_normal(scored_train.energy)
    train_mean = float(np.mean(scored_train.energy))
    drift = measure_drift(train_mean, normal_sorted, max_z=scored.max_z or 0.0)
    probe = judge_alarms(
        rule.alarms(scored.energy), data.labels, segments_of(~is_normal), step_s=1.0
    )
    return [
        ranking.roc_auc_of_ranks(ranks),
        ranking.partial_auc_of_ranks(ranks, 0.01),
        ranking.partial_auc_of_ranks(ranks, 0.05),
        ranking.average_precision_of_ranks(ranks),
        drift.d_drift,
        probe.f1 or 0.0,
    ]


def with_scikit_learn(data, dtype: type) -> list[float]:
    """The same figures, in the precision of the arrays."""
    from scipy.linalg import solve_triangular
    from sklearn.covariance import ledoit_wolf
    from sklearn.metrics import average_precision_score, roc_auc_score

    train, test = (one.astype(dtype, copy=False) for one in (data.train, data.test))
    covariance, _ = ledoit_wolf(train)
    mean, factor = train.mean(axis=0), np.linalg.cholesky(covariance)

    def energy(rows):
        whitened = solve_triangular(factor, (rows - mean).T, lower=True)
        return 0.5 * (whitened**2).sum(axis=0)

    train_energy, test_energy = energy(train), energy(test)
    is_attack = data.labels == 1
    alarms = test_energy > np.percentile(train_energy, 99)
    hits = np.sum(alarms & is_attack)
    return [
        roc_auc_score(is_attack, test_energy),
        2 * roc_auc_score(is_attack, test_energy, max_fpr=0.01) - 1,
        2 * roc_auc_score(is_attack, test_energy, max_fpr=0.05) - 1,
        average_precision_score(is_attack, test_energy),
        float(test_energy[~is_attack].mean() - train_energy.mean()),
        2 * hits / (alarms.sum() + is_attack.sum()),
    ]


def core() -> None:
    from bench_tools import made_up
    from threadpoolctl import threadpool_limits

    from sightline.parallel import threads

    for name, size in (("SWaT", SWAT), ("WADI", WADI)):
        data = made_up(*size)
        sides = {
            "ours": with_sightline,
            "float32": partial(with_scikit_learn, dtype=np.float32),
            "float64": partial(with_scikit_learn, dtype=np.float64),
        }
        seconds: dict[str, list[float]] = {side: [] for side in sides}
        figures = {}
        for turn in range(1 + CORE_TURNS):
            for side, run in sides.items():
                with threads(1) if side == "ours" else threadpool_limits(1):
                    before = time.process_time()
                    figures[side] = run(data)
                    spent = time.process_time() - before
                if turn:  # the first one imports and compiles
                    seconds[side].append(spent)
        for other, digits in (("float32", 2e-3), ("float64", 1e-9)):
            np.testing.assert_allclose(
                figures["ours"], figures[other], rtol=digits, atol=digits
            )
            ratios = np.divide(seconds["ours"], seconds[other])
            row(
                f"core against scikit-learn in {other}, {name}'s size",
                "0.30",
                f"{np.median(ratios):.2f} ({ratios.min():.2f} to {ratios.max():.2f}); "
                f"{np.median(seconds['ours']):.2f} and {np.median(seconds[other]):.2f} "
                "CPU s",
            )


# --- From files -----------------------------------------------------------------------


def write_large(folder: Path) -> None:
    """Write float32 parts one by one, so that making the data needs little memory."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    names = [f"c{j}" for j in range(SWAT[2])]
    for split in ("train", "test"):
        (folder / split).mkdir(parents=True)
        for part in range(LARGE_ROWS // 2 // PART_ROWS):
            values = rng.standard_normal((PART_ROWS, len(names)), dtype=np.float32)
            columns = {name: values[:, j].copy() for j, name in enumerate(names)}
            if split == "test":
                columns["label"] = np.zeros(PART_ROWS, np.int8)
                columns["label"][1000:21_000] = 1
            # Noise does not compress; trying to would only take time.
            pq.write_table(
                pa.table(columns),
                folder / split / f"part-{part}.parquet",
                compression="none",
                use_dictionary=False,
            )
    (folder / "meta.json").write_text(json.dumps({"step_s": 1.0}))


def memory() -> None:
    with tempfile.TemporaryDirectory() as name:
        large = Path(name, "large")
        write_large(large)
        command = [sys.executable, "-m", "sightline", "evaluate", str(large)]
        cpu = cpu_of_command([*command, "--jobs", "2", "--out", f"{name}/out"])
    # Linux counts in KiB; what wrote the parts is not a child.
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    row(
        f"memory, {LARGE_ROWS // 10**6} million x 51 from Parquet, two jobs",
        "1.5 GiB",
        f"{peak:.2f} GiB, {cpu:.0f} CPU s",
    )


def cluster() -> None:
    done = subprocess.run(
        [sys.executable, str(HERE.with_name("cluster.py")), "1", "0", "1,2"],
        check=True,
        capture_output=True,
        text=True,
    )
    [times] = re.findall(r"([\d.]+) times as fast", done.stdout)[-1:] or ["?"]
    row("two Dask workers against one, 2 million rows", "1.4 times", f"{times} times")


def results(folder: str) -> None:
    """Evaluate the made-up streams of `SHOWN`, one for each detector."""
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


def page() -> None:
    with tempfile.TemporaryDirectory() as folder:
        shown = Path(folder, "results")
        results(str(shown))
        command = [sys.executable, "-m", "sightline", "report", "--overwrite"]
        alone, printed = (
            min(cpu_of_command([*command, *more, str(shown)]) for _ in range(3))
            for more in ([], ["--figures"])
        )
        size = (shown / "report.html").stat().st_size / 1e6
    row(
        "page of 7 detectors x 26 attacks, 60,000 rows x 51 each",
        "4 CPU s, 8 MB",
        f"{alone:.2f} CPU s, {size:.1f} MB (with `--figures` {printed:.1f} CPU s)",
    )


def help_() -> None:
    command = [sys.executable, "-m", "sightline", "--help"]
    seconds = [cpu_of_command(command) for _ in range(5)]
    row("`sightline --help`", "0.5 CPU s", f"{min(seconds):.2f} CPU s")


ROWS: dict[str, Callable[[], None]] = {
    "whole": whole,
    "cores": cores,
    "core": core,
    "attacks": attacks,
    "channels": channels,
    "growth": growth,
    "memory": memory,
    "cluster": cluster,
    "page": page,
    "help": help_,
}


def main() -> None:
    match sys.argv[1:]:
        case ["child"]:
            print(json.dumps(evaluated(jobs=None)))
        case ["row", name]:
            ROWS[name]()
        case ["results", folder]:
            results(folder)
        case names:
            print("| what | goal | measured |\n|---|--:|--:|", flush=True)
            one = {f"{x}_NUM_THREADS": "1" for x in ("OPENBLAS", "OMP", "NUMBA")}
            for name in names or ROWS:
                command = [sys.executable, str(HERE), "row", name]
                subprocess.run(command, check=True, env=os.environ | one)


if __name__ == "__main__":
    main()
