"""The size and the shape of the package, as numbers that a change must not exceed."""

import ast
from functools import cache
from pathlib import Path

import sightline

PACKAGE = Path(sightline.__file__).parent
DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
HOMES = sorted(set(sightline._HOME_OF.values()))
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def sources():
    return {path: path.read_text("utf-8") for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def nodes_of(path):
    return list(ast.walk(ast.parse(sources()[path])))


def docstring_of(node):
    """Return the lines of a docstring, as numbers that count from 1."""
    if ast.get_docstring(node) is None:
        return range(0)
    return range(node.body[0].lineno, node.body[0].end_lineno + 1)


def size_of(path):
    """Return the lines of code, and of docstrings, that are not blank."""
    in_docstring = {
        number
        for node in nodes_of(path)
        if isinstance(node, (ast.Module, *DEFINITIONS))
        for number in docstring_of(node)
    }
    lines = [
        (number in in_docstring, line.strip())
        for number, line in enumerate(sources()[path].splitlines(), start=1)
        if line.strip()
    ]
    n_code = sum(not doc and not line.startswith("#") for doc, line in lines)
    return n_code, sum(doc for doc, _ in lines)


def total(paths):
    sizes = [size_of(path) for path in paths]
    return sum(code for code, _ in sizes), sum(doc for _, doc in sizes)


def test_few_files_lie_at_the_root():
    assert 0 < len(list(PACKAGE.glob("*.py"))) <= 12


def test_docstrings_carry_the_specification():
    n_code, n_docstring = total(sources())
    assert n_docstring / n_code >= 0.3


def test_docstrings_of_public_modules_are_complete():
    homes = [PACKAGE.parent / home.replace(".", "/") for home in HOMES]
    modules = [h / "__init__.py" if h.is_dir() else h.with_suffix(".py") for h in homes]
    assert len(modules) > 10
    n_code, n_docstring = total(modules)
    assert n_docstring / n_code >= 0.5


def test_values_have_types():
    n_untyped = sum(text.count("dict[str, Any]") for text in sources().values())
    assert n_untyped <= 25


def test_the_word_of_a_verdict_is_written_in_one_table():
    places = [path for path, text in sources().items() if '"detected"' in text]
    assert 0 < len(places) <= 2


def test_functions_are_short():
    lengths = [
        node.end_lineno - node.lineno + 1 - len(docstring_of(node))
        for path in sources()
        for node in nodes_of(path)
        if isinstance(node, FUNCTIONS)
    ]
    assert len(lengths) > 1000
    assert sum(length > 60 for length in lengths) <= 0.003 * len(lengths)
