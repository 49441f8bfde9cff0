"""Test with the lowest and with the newest versions that ``pyproject.toml`` allows.

For each Python from 3.11 to 3.13 that can be found, and for both ends of the declared
versions, an environment is made by uv, a fast part of the tests is run, and a
simulated plant goes through the command line. torch is left out: its detectors are
tested with one version in ``make test``. Run by ``make check-versions``; a Python that
is not installed is named in one sentence.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
RESOLUTIONS = ("lowest-direct", "highest")
# What the tests below need; torch and the tools of `make check` are not among it.
TEST_TOOLS = (
    "dask",
    "fastexcel",
    "hypothesis",
    "pandas",
    "pyarrow",
    "pytest",
    "scikit-learn",
    "tqdm",
    "xlsxwriter",
)
TESTS = (
    "tests/test_public_api.py",
    "tests/energy",
    "tests/metrics/test_ranking.py",
    "tests/storage/test_parquet_folders.py",
    "tests/storage/test_results.py",
    "tests/storage/test_tables.py",
)
SMOKE = (
    ("--help",),
    ("simulate", "waterworks", "--out", "plant", "--days-train", "0.3", "--quick"),
    ("run", "plant", "--detectors", "pca", "--out", "study"),
    ("compare", "study"),
)


def main() -> int:
    """Test every pair of a Python and a resolution; return 1 if one fails."""
    uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    chosen = sys.argv[1:] or PYTHONS
    failed = []
    for version in chosen:
        python = _find(version)
        if python is None:
            _say(f"Python {version} is not installed, so it was not tested.")
            continue
        for resolution in RESOLUTIONS:
            is_right = _test(uv, python, resolution)
            _say(
                f"Python {version}, {resolution}: {'passed' if is_right else 'FAILED'}"
            )
            failed += [] if is_right else [(version, resolution)]
    return int(bool(failed))


def _find(version: str) -> str | None:
    """Return a Python of a version: on the path, or where pyenv keeps its own."""
    found = shutil.which(f"python{version}")
    if found and _works(found):
        return found
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    pattern = f"versions/{version}.*/bin/python{version}"
    return next((str(p) for p in sorted(root.glob(pattern)) if _works(str(p))), None)


def _works(python: str) -> bool:
    return subprocess.run([python, "-c", ""], capture_output=True).returncode == 0


def _requirements() -> list[str]:
    """Return the tools of the tests, with the bounds that the project declares."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    dev = project["optional-dependencies"]["dev"]
    return [one for one in dev if one.startswith(TEST_TOOLS)]


def _test(uv: str, python: str, resolution: str) -> bool:
    """Make an environment, and run tests and commands in it."""
    with tempfile.TemporaryDirectory() as place:
        environment = Path(place, "environment")
        binary = environment / "bin" / "python"
        steps = [
            [uv, "venv", "--quiet", "--python", python, str(environment)],
            [
                *(uv, "pip", "install", "--quiet", "--python", str(binary)),
                *("--resolution", resolution, str(ROOT), *_requirements()),
            ],
            [uv, "pip", "freeze", "--python", str(binary)],
        ]
        if not all(_run(step, ROOT) for step in steps):
            return False
        sightline = str(environment / "bin" / "sightline")
        tests = [str(binary), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        tests += ["-o", "addopts=--import-mode=importlib", *TESTS]
        # The tests must not see the source: they test what was installed.
        return all(_run([sightline, *step], Path(place)) for step in SMOKE) and _run(
            tests, ROOT
        )


def _run(command: list[str], folder: Path) -> bool:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        _say(f"{' '.join(command)}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    elif "freeze" in command:
        _say(" ".join(done.stdout.split()))
    return done.returncode == 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
