"""Two fault codes in an export change no verdict: they are refused, or missing."""

import polars as pl
import pytest
from typer.testing import CliRunner

from sightline import evaluate, export_stream, make_detector, open_testbed
from sightline.audit.data import audit_of
from sightline.cli.app import app
from sightline.testbeds.waterworks import simulate, write_simulation

# The tag, the row of test and the code of each planted cell.
PLANTED = (("LIT301", 2_000, -9999.0), ("FIT201", 7_000, 32767.0))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder of a simulated plant, without a fault code."""
    path = tmp_path_factory.mktemp("plants") / "clean"
    write_simulation(simulate(days_train=0.1, days_test=0.25, seed=4), path)
    return path


@pytest.fixture
def faulty(folder, tmp_path):
    """Return a copy with two fault codes, one in train and one in test."""
    for name in ("train.parquet", "test.parquet", "attacks.csv", "tags.csv"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    for (tag, row, code), name in zip(PLANTED, ("train", "test"), strict=True):
        path = tmp_path / f"{name}.parquet"
        table = pl.read_parquet(path).with_row_index("row")
        cell = pl.when(pl.col("row") == row).then(code).otherwise(pl.col(tag))
        table = table.with_columns(cell.cast(pl.Float32).alias(tag))
        table.drop("row").write_parquet(path)
    return tmp_path


def run(folder, *words):
    return CliRunner().invoke(app, ["run", str(folder), *map(str, words)])


def evaluated(folder):
    plant = open_testbed(folder)
    detector = make_detector("pca").fit(plant.train)
    stream = export_stream(detector, plant.train, plant.test, telemetry=True)
    return evaluate(stream, intervals=False)


def verdicts(evaluation):
    return [segment.verdict for segment in evaluation.segments]


def test_a_run_refuses_fault_codes_and_names_the_cells(faulty, tmp_path):
    told = run(faulty, "--detectors", "pca", "--out", tmp_path / "out", "--dry-run")
    assert told.exit_code == 1
    message = " ".join(told.stderr.split())
    for words in (
        "SL222",
        "LIT301 holds -9999 in 1 cell: train row 2,000 (",
        "FIT201 holds 32767 in 1 cell: test row 7,000 (",
        "missing_values = [-9999, 32767]",
        'accept = ["SL222"]',
    ):
        assert words in message
    assert message.count("SL222:") == message.count("LIT301 holds") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "code", ["2147483647", "-3.4028235E+38", "3.40282347E+38", "9.96921E+36", "999.9"]
)
def test_the_remedy_removes_every_digit_of_a_code(code, tmp_path):
    for name, day in (("train", 14), ("test", 15)):
        rows = ["time,A,B"]
        for k in range(600):
            value = code if k == 100 else f"{5 + 0.01 * (k % 37) + 0.001 * day:.3f}"
            at = f"2026-11-{day} {k // 60:02d}:{k % 60:02d}:00"
            rows.append(f"{at},{value},{3 + 0.01 * (k % 41) + 0.001 * day:.3f}")
        (tmp_path / f"{name}.csv").write_text("\n".join(rows) + "\n")
    (error,) = audit_of(open_testbed(tmp_path)).errors
    assert error.code == "SL222"
    line = error.remedy.removeprefix("Write ").removesuffix(" into plant.toml.")
    (tmp_path / "plant.toml").write_text(line + "\n")
    assert audit_of(open_testbed(tmp_path)).errors == ()


def test_findings_that_are_accepted_do_not_stop_a_run(faulty, tmp_path):
    (faulty / "plant.toml").write_text('accept = ["SL222"]\n')
    told = run(faulty, "--detectors", "pca", "--out", tmp_path / "out", "--dry-run")
    assert told.exit_code == 0, told.output
    assert "SL222 error: 2 tags have fault codes" in " ".join(told.stderr.split())


def test_codes_that_change_figures_do_not_as_missing_values(folder, faulty):
    clean = evaluated(folder)
    assert evaluated(faulty).drift.d_drift > 2 * clean.drift.d_drift
    (faulty / "plant.toml").write_text("missing_values = [-9999, 32767]\n")
    repaired = evaluated(faulty)
    assert repaired.drift.d_drift == pytest.approx(clean.drift.d_drift, rel=0.01)
    assert verdicts(repaired) == verdicts(clean)
