"""How large is the code, and how far is the walk through it?

    python bench/size.py                 the counts, beside their bounds
    python bench/size.py lists           what stands behind them, to work on

Counted as a reader meets it: lines of code without blank lines, comments and
docstrings; modules; class names that stand for two things; private functions with one
use; and the functions and files that `sightline evaluate` of README's stream and
`sightline commission` visit, all imported and compiled beforehand.
`tests/test_house.py` holds the bounds.
"""

import ast
import sys
import threading
from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import sightline

PACKAGE = Path(sightline.__file__).parent
DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# What the code must not exceed (the last is a share), and what it should come down to.
BOUNDS = {
    "code lines": (65_600, 46_000),
    "modules": (249, 220),
    "functions visited by evaluate": (856, 450),
    "files visited by evaluate": (85, 60),
    "functions visited by commission": (468, 300),
    "files visited by commission": (47, 45),
    "class names twice": (0, 0),
    "private functions used once": (0.521, 0.35),
}


@cache
def sources() -> dict[Path, str]:
    """Return the text of every module."""
    return {path: path.read_text("utf-8") for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def trees() -> dict[Path, ast.Module]:
    """Return the syntax tree of every module."""
    return {path: ast.parse(text) for path, text in sources().items()}


def docstring_lines(tree: ast.AST) -> set[int]:
    """Return the numbers of all lines that are docstrings, from 1."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, *DEFINITIONS)):
            if ast.get_docstring(node) is not None:
                body = node.body[0]
                lines.update(range(body.lineno, (body.end_lineno or 0) + 1))
    return lines


def code_lines(path: Path) -> int:
    """Return the lines of a module without blanks, comments and docstrings."""
    in_docstring = docstring_lines(trees()[path])
    return sum(
        bool(line.strip())
        and not line.strip().startswith("#")
        and number not in in_docstring
        for number, line in enumerate(sources()[path].splitlines(), start=1)
    )


def class_names_twice() -> dict[str, list[str]]:
    """Return the names of classes that more than one place defines."""
    places: dict[str, list[str]] = {}
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                place = f"{path.relative_to(PACKAGE)}:{node.lineno}"
                places.setdefault(node.name.lstrip("_"), []).append(place)
    return {name: at for name, at in sorted(places.items()) if len(at) > 1}


def private_functions() -> dict[str, int]:
    """Return how often each private function of a module is used, in that module."""
    uses: dict[str, int] = {}
    for path, tree in trees().items():
        counts = Counter(n.id for n in ast.walk(tree) if isinstance(n, ast.Name))
        for node in tree.body:
            if isinstance(node, FUNCTIONS) and node.name.startswith("_"):
                place = f"{path.relative_to(PACKAGE)}:{node.lineno} {node.name}"
                uses[place] = counts[node.name]
    return uses


def single_importers() -> dict[str, str]:
    """Return modules that one other module imports, and that of the same folder."""
    importers: dict[str, set[str]] = {}
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for name in (
                    node.module,
                    *(f"{node.module}.{a.name}" for a in node.names),
                ):
                    importers.setdefault(name, set()).add(module_name(path))
    return {
        name: next(iter(users))
        for path in trees()
        if len(users := importers.get(name := module_name(path), set())) == 1
        and next(iter(users)).rpartition(".")[0] == name.rpartition(".")[0]
    }


def module_name(path: Path) -> str:
    """Return the dotted name of a module."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def visited(action: Callable[[], Any]) -> set[tuple[str, str, int]]:
    """Return file, name and line of each function of the package that is called."""
    seen: set[tuple[str, str, int]] = set()

    def profile(frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and not code.co_name.startswith("<"):
            if code.co_filename.startswith(str(PACKAGE)):
                seen.add((code.co_filename, code.co_qualname, code.co_firstlineno))

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        action()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return seen


def write_readme_stream(folder: Path) -> None:
    """Write README's stream with one attack, and one with time enough for rules."""
    rng = np.random.default_rng(0)
    train, test = rng.normal(size=(5000, 8)), rng.normal(size=(2000, 8))
    labels = np.zeros(2000, int)
    labels[800:900] = 1
    test[800:900, 2] += 4.0
    np.savez(folder / "mine.npz", train=train, test=test, labels=labels)
    later = rng.normal(size=(40_000, 8))
    labels = np.zeros(len(later), int)
    labels[30_000:30_100] = 1
    later[30_000:30_100, 2] += 4.0
    np.savez(folder / "later.npz", train=train, test=later, labels=labels)


@cache
def walks() -> dict[str, set[tuple[str, str, int]]]:
    """Return what `sightline evaluate` and `sightline commission` visit."""
    from typer.testing import CliRunner

    from sightline.cli.app import app

    with TemporaryDirectory() as name:
        folder = Path(name)
        write_readme_stream(folder)
        commands = {
            "evaluate": [str(folder / "mine.npz"), "--step", "1"],
            "commission": [str(folder / "later.npz"), "--step", "10"],
        }

        def run(command: str, out: str) -> None:
            arguments = [command, *commands[command], "--out", str(folder / out)]
            done = CliRunner().invoke(app, arguments, catch_exceptions=False)
            assert done.exit_code == 0, done.output

        seen = {}
        for command in commands:
            run(command, f"{command}-first")  # Imports, and compiles loops.
            seen[command] = visited(partial(run, command, f"{command}-second"))
    return seen


def counts() -> dict[str, float]:
    """Return every count that has a bound."""
    uses = private_functions()
    figures: dict[str, float] = {
        "code lines": sum(map(code_lines, sources())),
        "modules": len(sources()),
        "class names twice": len(class_names_twice()),
        "private functions used once": sum(n == 1 for n in uses.values()) / len(uses),
    }
    for name, seen in walks().items():
        figures[f"functions visited by {name}"] = len(seen)
        figures[f"files visited by {name}"] = len({path for path, _, _ in seen})
    return figures


def print_lists() -> None:
    """Print what stands behind the counts."""
    folders: Counter[str] = Counter()
    modules: Counter[str] = Counter()
    for path in sources():
        folder = path.relative_to(PACKAGE).parts[0]
        folders[folder] += code_lines(path)
        modules[folder] += 1
    for folder, n in folders.most_common():
        print(f"{n:7} {modules[folder]:4}  {folder}")
    print("\nClass names twice")
    for name, places in class_names_twice().items():
        print(f"  {name}: {', '.join(places)}")
    print("\nModules with one importer in the same folder")
    for name, importer in single_importers().items():
        print(f"  {name} <- {importer}")
    print("\nPrivate functions used once")
    for place, n in private_functions().items():
        if n == 1:
            print(f"  {place}")
    for name, seen in walks().items():
        files = Counter(path for path, _, _ in seen)
        print(f"\nVisited by {name}")
        for path, n in files.most_common():
            print(f"  {n:4} {Path(path).relative_to(PACKAGE)}")


if __name__ == "__main__":
    if sys.argv[1:] == ["lists"]:
        print_lists()
    else:
        for key, value in counts().items():
            number = f"{value:.3f}" if isinstance(value, float) else f"{value:,}"
            bound, goal = BOUNDS[key]
            print(f"{key:34} {number:>8}  at most {bound:,}, goal {goal:,}")
