"""The size and the shape of the package, as numbers that a change must not exceed.

`bench/size.py` counts, and `python bench/size.py lists` shows what stands behind the
counts. A bound is lowered when the code gets smaller. Raising one needs a line in the
changelog that says what users get for it.
"""

import ast
from functools import cache

import pytest
from size import (
    BOUNDS,
    FUNCTIONS,
    PACKAGE,
    class_names_twice,
    code_lines,
    counts,
    docstring_lines,
    sources,
    trees,
)

import sightline

HOMES = sorted(set(sightline._HOME_OF.values()))
# Names that hide what they hold.
EMPTY_NAMES = {"utils", "util", "helpers", "common", "core", "misc", "tools"}


@cache
def nodes_of(path):
    return list(ast.walk(trees()[path]))


def docstring_of(node):
    """Return the lines of a docstring, as numbers that count from 1."""
    if ast.get_docstring(node) is None:
        return range(0)
    return range(node.body[0].lineno, node.body[0].end_lineno + 1)


def total(paths):
    """Return the lines of code and of docstrings of modules."""
    n_docstring = 0
    for path in paths:
        lines = sources()[path].splitlines()
        numbers = docstring_lines(trees()[path])
        n_docstring += sum(bool(lines[number - 1].strip()) for number in numbers)
    return sum(map(code_lines, paths)), n_docstring


@pytest.mark.parametrize("what", BOUNDS)
def test_the_code_does_not_grow(what):
    bound, _ = BOUNDS[what]
    assert 0 <= measured()[what] <= bound


@cache
def measured():
    return counts()


def test_a_class_name_stands_for_one_thing():
    assert class_names_twice() == {}


def test_a_module_is_named_by_what_it_holds():
    names = {path.stem for path in sources()} | {path.parent.name for path in sources()}
    assert names.isdisjoint(EMPTY_NAMES)


def test_few_files_lie_at_the_root():
    assert 0 < len(list(PACKAGE.glob("*.py"))) <= 14


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
    assert n_untyped <= 29


def test_the_word_of_a_verdict_is_written_in_one_table():
    places = [path for path, text in sources().items() if '"detected"' in text]
    assert 0 < len(places) <= 2


def test_functions_are_short():
    lengths = [
        node.end_lineno - node.body[0].lineno + 1 - len(docstring_of(node))
        for path in sources()
        for node in nodes_of(path)
        if isinstance(node, FUNCTIONS)
    ]
    assert len(lengths) > 1000
    assert sum(length > 60 for length in lengths) <= 0.003 * len(lengths)


def test_evaluate_reads_from_top_to_bottom_in_one_screen():
    """One function lists all stages: no branch of threads, no error caught."""
    path = PACKAGE / "evaluation" / "pipeline.py"
    walk = next(
        node
        for node in nodes_of(path)
        if isinstance(node, FUNCTIONS) and node.name == "_evaluate"
    )
    assert walk.end_lineno - walk.body[1].lineno + 1 <= 60
    assert not any(isinstance(node, ast.Try | ast.With) for node in ast.walk(walk))
    names = {node.id for node in ast.walk(walk) if isinstance(node, ast.Name)}
    assert {"score", "measure", "judge"} <= names
    assert "map_threads" not in names
