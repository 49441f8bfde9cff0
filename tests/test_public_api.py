import ast
import inspect
import pkgutil
import re
import subprocess
import sys
from enum import Enum
from pathlib import Path

import pytest

import sightline

HEAVY = {
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
}
MOST_MODULES = 25


def test_the_list_of_public_names_is_sorted():
    assert sightline.__all__ == sorted(sightline.__all__)


def test_every_public_name_is_listed_and_every_listed_name_exists():
    lazy = {name for name in sightline._HOME_OF if not name.startswith("_")}
    assert set(sightline.__all__) == lazy | {"__version__"}
    assert all(hasattr(sightline, name) for name in sightline.__all__)
    assert set(sightline.__all__) <= set(dir(sightline))


def test_type_checkers_and_the_interpreter_take_each_name_from_the_same_module():
    tree = ast.parse(Path(sightline.__file__).with_suffix(".pyi").read_text())
    typed = {
        alias.name: line.module
        for line in tree.body
        if isinstance(line, ast.ImportFrom)
        for alias in line.names
    }
    assert typed == sightline._HOME_OF | {"__version__": "sightline._version"}
    (exported,) = [line.value for line in tree.body if isinstance(line, ast.Assign)]
    assert ast.literal_eval(exported) == sightline.__all__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'evaluat'"):
        _ = sightline.evaluat


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


def documented(value):
    """Return the docstring, with those of the records that a class extends."""
    if not inspect.isclass(value):
        return inspect.getdoc(value)
    ours = [base for base in value.__mro__ if base.__module__.startswith("sightline")]
    return "\n".join(inspect.getdoc(base) or "" for base in ours)


def section(text, title):
    """Return the lines of a section of a docstring in numpy style."""
    found = re.search(rf"^{title}\n-+\n(.*?)(?=^\S[^\n]*\n-+$|\Z)", text, re.M | re.S)
    return found[1] if found else ""


def parameters_of(value):
    """Return the names that a caller passes; errors, enums and protocols have none."""
    if inspect.isclass(value) and issubclass(value, (Exception, Enum)):
        return []
    if getattr(value, "_is_protocol", False):
        return []
    return list(inspect.signature(value).parameters)


PUBLIC = [name for name in sightline.__all__ if name != "__version__"]


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_documented_in_full(name):
    """Each parameter, what is returned, and an example, which the suite runs."""
    value = getattr(sightline, name)
    text = documented(value)
    listed = {
        word.strip(" *")
        for line in re.findall(
            r"^(\S.*?)(?: : .*)?$",
            "\n".join(section(part, "Parameters") for part in split(text)),
            re.M,
        )
        for word in line.split(",")
    }
    assert set(parameters_of(value)) <= listed
    if inspect.isfunction(value) and value.__annotations__["return"] is not None:
        assert section(text, "Returns") or section(text, "Yields")
    assert ">>> " in section(inspect.getdoc(value), "Examples")


def split(text):
    """Return the parts of joined docstrings that have a list of parameters."""
    return re.split(r"^(?=Parameters\n-)", text, flags=re.M)


def test_every_error_is_a_sightline_error():
    public = [getattr(sightline, name) for name in sightline.__all__]
    errors = [
        value
        for value in public
        if inspect.isclass(value)
        and issubclass(value, Exception)
        and not issubclass(value, Warning)
    ]
    assert len(errors) == 5
    assert all(issubclass(error, sightline.SightlineError) for error in errors)


def modules_loaded_by(statement):
    code = (
        f"import sys; before = set(sys.modules); {statement}; "
        "print(' '.join(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize("statement", ["import sightline", "import sightline.data"])
def test_importing_sightline_loads_few_modules_and_of_third_parties_numpy_alone(
    statement,
):
    loaded = modules_loaded_by(statement)
    ours = [name for name in loaded if name.split(".")[0] == "sightline"]
    assert 0 < len(ours) <= MOST_MODULES
    others = {name.split(".")[0] for name in loaded} - {"sightline"}
    assert others - set(sys.stdlib_module_names) <= {"numpy"}


def test_a_stream_needs_none_of_the_heavy_libraries():
    loaded = modules_loaded_by("import sightline; sightline.ResidualStream")
    libraries = {name.split(".")[0] for name in loaded}
    assert "numpy" in libraries
    assert not libraries & HEAVY
    assert sum(name.split(".")[0] == "sightline" for name in loaded) <= MOST_MODULES
