import inspect
import pkgutil
import subprocess
import sys

import pytest

import sightline

HEAVY = (
    "matplotlib",
    "numba",
    "pandas",
    "plotly",
    "polars",
    "pyarrow",
    "rich",
    "scipy",
    "sklearn",
    "torch",
    "typer",
)


def test_the_list_of_public_names_is_sorted():
    assert sightline.__all__ == sorted(sightline.__all__)


def test_every_public_name_is_listed_and_every_listed_name_is_there():
    there = {
        name
        for name, value in vars(sightline).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert set(sightline.__all__) == there | {"__version__"}


def test_no_public_name_hides_a_module():
    modules = {module.name for module in pkgutil.iter_modules(sightline.__path__)}
    assert "evaluation" in modules
    assert not modules & set(sightline.__all__)


@pytest.mark.parametrize("name", sightline.__all__)
def test_every_public_name_says_what_it_is(name):
    if name == "__version__":
        assert sightline.__version__[0].isdigit()
    else:
        assert inspect.getdoc(getattr(sightline, name))


def test_every_error_is_a_sightline_error():
    errors = [
        value
        for value in vars(sightline).values()
        if inspect.isclass(value)
        and issubclass(value, Exception)
        and not issubclass(value, Warning)
    ]
    assert len(errors) == 5
    assert all(issubclass(error, sightline.SightlineError) for error in errors)


def test_importing_sightline_imports_none_of_the_heavy_libraries():
    code = (
        "import sys, sightline; print(' '.join({m.split('.')[0] for m in sys.modules}))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    loaded = set(ran.stdout.split())
    assert "numpy" in loaded
    assert not loaded & set(HEAVY)
    assert ran.stderr == ""
