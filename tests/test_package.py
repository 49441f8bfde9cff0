"""The package as it is installed: its core alone, and the wheel in an empty place."""

import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
# Installed by extras alone. (scipy looks for torch and dask among what is imported.)
EXTRAS = ("fastexcel", "pandas", "pyarrow", "sklearn", "wntr")
WITHOUT_EXTRAS = f"""
import sys
for name in {EXTRAS}:
    sys.modules[name] = None
"""
USE = """
import numpy as np, sightline
rng = np.random.default_rng(0)
labels = np.repeat([0, 1, 0], [400, 50, 550])
rows = rng.normal(size=(1000, 3))
stream = sightline.ResidualStream(rows, rows + 5 * labels[:, None], labels, step_s=10.0)
sightline.write_stream(stream, "mine.npz")
sightline.write_results([sightline.evaluate(stream)], "result")
sightline.write_report(["result"], "report.html")
for extra, action in {
    "parquet": lambda: sightline.write_stream(stream, "folder"),
    "robust": lambda: sightline.evaluate(
        stream, estimator="minimum-covariance-determinant"
    ),
}.items():
    try:
        action()
    except sightline.MissingExtraError as error:
        assert f"pip install 'sightline-cps[{extra}]'" in str(error), error
    else:
        raise AssertionError(extra)
"""
OWN_PLANT = """
import numpy as np, sightline
from pathlib import Path
for name in ("train", "test"):
    day = 1 + (name == "test")
    times = [f"2026-11-0{day} 00:{k // 60:02d}:{k % 60:02d}" for k in range(900)]
    lines = [f"{time},{k % 7}" for k, time in enumerate(times)]
    Path(f"{name}.csv").write_text("\\n".join(["time,LIT101", *lines, ""]))
testbed = sightline.open_testbed(".")
assert testbed.train.values.shape == (900, 1)
assert not list(Path().rglob("*.parquet"))
"""


def name_of(requirement):
    return re.match(r"[\w-]+", requirement)[0]


def test_the_name_is_the_same_everywhere():
    assert PROJECT["name"] == "sightline-cps"
    assert PROJECT["scripts"] == {"sightline": "sightline.__main__:main"}
    files = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/**/*.py")]
    files += [ROOT / "pyproject.toml", *ROOT.glob("src/**/*.toml")]
    wrong = [path for path in files if "sightline[" in path.read_text("utf-8")]
    assert not wrong


def test_every_extra_that_a_hint_names_exists():
    texts = [path.read_text("utf-8") for path in ROOT.glob("src/**/*.py")]
    texts += [path.read_text("utf-8") for path in ROOT.glob("docs/**/*.md")]
    named = {
        extra
        for text in texts
        for found in re.findall(r"sightline-cps\[([\w,]+)\]|extra=\"(\w+)\"", text)
        for extra in "".join(found).split(",")
    }
    assert {"detectors", "excel", "parquet"} <= named
    assert named <= set(PROJECT["optional-dependencies"])


def test_the_architecture_says_why_each_dependency_is_there():
    table = ARCHITECTURE.partition("## Dependencies")[2].partition("\n## ")[0]
    extras = PROJECT["optional-dependencies"]
    users = [name for name in extras if name not in ("all", "browser", "dev")]
    needed = [*PROJECT["dependencies"], *(r for name in users for r in extras[name])]
    missing = [r for r in needed if name_of(r).lower() not in table.lower()]
    assert not missing


@pytest.mark.parametrize("code", [USE, OWN_PLANT], ids=["residuals", "plant"])
def test_the_core_needs_no_extra(tmp_path, code):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS + code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def run(*command, cwd):
    # The tree of this repository must not stand in for the installed package.
    alone = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=alone,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
def test_the_wheel_works_in_an_empty_environment(tmp_path):
    """The wheel is built from the source distribution, so both are complete."""
    run(
        sys.executable, "-m", "build", "--outdir", tmp_path / "dist", ROOT, cwd=tmp_path
    )
    (source,) = tmp_path.glob("dist/*.tar.gz")
    (wheel,) = tmp_path.glob("dist/*.whl")
    assert source.name.startswith("sightline_cps-")
    venv.create(tmp_path / "empty", with_pip=True)
    python = tmp_path / "empty" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", wheel, cwd=tmp_path)
    sightline = python.with_name("sightline")
    assert "sightline" in run(sightline, "--version", cwd=tmp_path)
    told = run(sightline, "demo", "--quick", "--out", "demo", cwd=tmp_path)
    assert "Left out, because torch is not installed: nsibf" in told
    assert (tmp_path / "demo" / "report.html").stat().st_size > 1e6
    run(python, "-c", USE, cwd=tmp_path)
