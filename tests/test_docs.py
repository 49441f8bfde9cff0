"""What the documentation shows is run, so that it cannot rot."""

import doctest
import importlib.util
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import sightline
from sightline import (
    Attack,
    ResidualStream,
    SightlineError,
    evaluate,
    read_tables,
    write_results,
)
from sightline.cli.app import app
from sightline.data.row_tables import BLOCK_ROWS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# What a page needs besides the package itself.
NEEDS = {"network.md": "wntr", "tep.md": "tep_studio"}
METRICS = ROOT / "docs" / "metrics.md"
OWN_RESIDUALS = ROOT / "docs" / "own-residuals.md"
_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<code>.*?)^```$", re.M | re.S)


@dataclass(frozen=True)
class Block:
    """A fenced block: its info words (```python no-run), its code, where it is."""

    info: tuple[str, ...]
    code: str
    path: Path
    line: int


def blocks_of(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for match in _FENCE.finditer(text):
        line = text.count("\n", 0, match.start("code"))
        yield Block(tuple(match["info"].split()), match["code"], page, line)


def run_python(block: Block, names: dict[str, Any]) -> None:
    """Run a block in the page's namespace; one with prompts, as a doctest."""
    if ">>>" not in block.code:
        # Blank lines before it make a traceback point at the page's own line.
        code = compile("\n" * block.line + block.code, str(block.path), "exec")
        exec(code, names)
        return
    test = doctest.DocTestParser().get_doctest(
        block.code, names, block.path.name, str(block.path), block.line
    )
    told: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    failed = runner.run(test, out=told.append, clear_globs=False).failed
    assert not failed, "".join(told)
    names |= test.globs


def run_shell(block: Block) -> None:
    """Run a block that is marked ```sh run: lines that call sightline."""
    for line in block.code.replace("\\\n", " ").splitlines():
        program, *arguments = shlex.split(line)
        assert program == "sightline", line
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, f"{line}\n{done.output}"


def test_the_page_of_the_command_line_lists_every_command() -> None:
    text = (ROOT / "docs/command-line.md").read_text("utf-8")
    section = text.split("## Commands")[1].split("\n## ")[0]
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert sorted(re.findall(r"`(\w+)`", section)) == sorted(commands)


@pytest.mark.usefixtures("unrendered")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_of_a_page_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if page.name in NEEDS:
        pytest.importorskip(
            NEEDS[page.name], reason=f"{page.name} needs {NEEDS[page.name]}"
        )
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks_of(page):
        match block.info:
            case ("python",):
                run_python(block, names)
            case ("sh", "run"):
                run_shell(block)


@pytest.mark.slow
def test_every_command_of_the_walk_to_a_rule_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also `sightline run`, which takes too long for each run of the tests."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    commands = 0
    for block in blocks_of(ROOT / "docs" / "from-export-to-rule.md"):
        if block.info == ("python",):
            run_python(block, names)
        elif block.info[:1] == ("sh",):
            run_shell(block)
            commands += block.code.count("sightline ")
    assert commands == 7


def test_every_key_is_documented() -> None:
    text = METRICS.read_text(encoding="utf-8")
    written = evaluate(small_stream()).to_dict()
    missing = [key for key in written if f"`{key}`" not in text]
    sections = {
        word: section
        for section in re.split(r"^## ", text, flags=re.M)
        for word in re.findall(r"`(\w+)`", section.splitlines()[0])
    }
    for block, values in written.items():
        keys = values[0] if block == "segments" else values
        if block in sections and isinstance(keys, dict):
            missing += [f"{block}.{k}" for k in keys if f"`{k}`" not in sections[block]]
    assert not missing


def test_every_metric_block_has_a_section() -> None:
    headings = re.findall(r"^## .*$", METRICS.read_text(encoding="utf-8"), flags=re.M)
    wanted = {
        "stream",
        "reference",
        "rank",
        "windows",
        "drift",
        "compactness",
        "quality",
        "probe",
        "own_rule",
        "own_score",
        "segments",
    }
    assert wanted <= set(re.findall(r"`(\w+)`", " ".join(headings)))


ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PACKAGE = ROOT / "src" / "sightline"


def test_the_files_that_the_architecture_names_exist() -> None:
    paths = re.findall(r"`([\w/.]+(?:\.py|\.md|\.html|/))`", ARCHITECTURE)
    assert len(paths) > 50
    absent = {
        p for p in paths if not (PACKAGE / p).exists() and not (ROOT / p).exists()
    }
    assert f"{BLOCK_ROWS:,} rows" in ARCHITECTURE
    # What each new detector has.
    assert absent <= {"detector.py", "network.py", "rule.py", "card.py"}


def test_the_architecture_lists_every_package_and_the_contracts_it_quotes() -> None:
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert rooms
    listed = re.findall(r"^\| (`.*?) \|", ARCHITECTURE, flags=re.M)
    assert {f"`{room}/`" for room in rooms} <= set(listed)
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    quoted = re.findall(r'contract "([^"]+)"', ARCHITECTURE)
    assert quoted
    assert all(f'name = "{name}"' in settings for name in quoted)


def test_the_architecture_says_why_each_dependency_is_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = project["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    wanted = {re.match(r"[\w-]+", one)[0] for some in lists for one in some}
    section = ARCHITECTURE.split("## Dependencies, and why each is there")[1]
    rows = re.findall(r"^\| ([^|]+) \|", section, flags=re.M)
    listed = set(re.findall(r"[\w-]+", " ".join(rows)))
    assert wanted - listed == {"sightline-cps"}


def site_hooks() -> Any:
    spec = importlib.util.spec_from_file_location("hooks", ROOT / "docs" / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    return hooks


def test_every_public_name_has_one_page_of_reference() -> None:
    groups = site_hooks().grouped()
    listed = [name for names in groups.values() for name in names]
    assert sorted([*listed, "__version__"]) == sightline.__all__


def test_every_page_is_in_the_navigation() -> None:
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    docs = ROOT / "docs"
    pages = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")}
    listed = re.findall(r"[\w/-]+\.md$", settings, flags=re.M)
    assert sorted(listed) == sorted(pages), "Correct `nav` in mkdocs.yml."


@pytest.mark.slow
def test_the_site_builds_and_needs_no_network(tmp_path: Path) -> None:
    pytest.importorskip("mkdocstrings", reason="needs pip install -e '.[docs]'")
    building = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    done = subprocess.run(
        [*building, "--site-dir", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > len(sightline.__all__)
    # Scripts, styles, fonts and pictures; links for a reader to follow may lead away.
    asset = re.compile(
        r"<(?:script|img|iframe)[^>]*\ssrc=\"?https?:|<link[^>]*\shref=\"?https?:"
        r"|@import\s+.?https?:|url\(.?https?:"
    )
    files = [*pages, *tmp_path.rglob("*.css")]
    loading = [path for path in files if asset.search(path.read_text("utf-8"))]
    assert not loading


def small_arrays() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    labels = np.zeros(100, int)
    labels[40:50] = 1
    return {
        "train": rng.normal(size=(200, 3)),
        "test": rng.normal(size=(100, 3)),
        "labels": labels,
    }


def small_stream(**changes: Any) -> ResidualStream:
    return ResidualStream(**(small_arrays() | changes))


def with_value(values: np.ndarray, row: int, value: float) -> np.ndarray:
    changed = values.copy()
    changed[row, 1] = value
    return changed


def tables(frame_of: Callable[..., Any]) -> tuple[Any, Any]:
    given = small_arrays()
    train = frame_of(given["train"], schema=["LIT101", "FIT101", "P101"])
    test = frame_of(given["test"], schema=["LIT101", "FIT101", "P101"])
    return train, test.with_columns(label=given["labels"])


def label_not_named() -> None:
    import polars as pl

    train, test = tables(pl.DataFrame)
    ResidualStream.from_tables(train, test)


def attacks_in_train() -> None:
    import polars as pl

    _, test = tables(pl.DataFrame)
    ResidualStream.from_tables(test, test, label="label")


def other_order() -> None:
    import polars as pl

    train, test = tables(pl.DataFrame)
    ResidualStream(train, test.select("P101", "LIT101", "FIT101"))


def text_in_a_channel() -> None:
    Path("train.csv").write_text("LIT101\n0.1\n0.2\n")
    Path("test.csv").write_text("LIT101,label\n0.1,0\nBad Input,1\n")
    read_tables("train.csv", "test.csv", label="label")


def written_twice() -> None:
    for _ in range(2):
        write_results([evaluate(small_stream(name="mine"), intervals=False)], "result")


GIVEN = small_arrays()
ERRORS: dict[str, Callable[[], Any]] = {
    "labels of the whole recording": lambda: small_stream(labels=np.zeros(105, int)),
    "one channel": lambda: small_stream(train=GIVEN["train"][:, 0]),
    "whole windows": lambda: small_stream(test=np.zeros((100, 5, 3))),
    "1 for normal": lambda: small_stream(labels=1 - 2 * GIVEN["labels"]),
    "label not named": label_not_named,
    "attacks in train": attacks_in_train,
    "other order": other_order,
    "text in a channel": text_in_a_channel,
    "nan": lambda: evaluate(small_stream(test=with_value(GIVEN["test"], 7, np.nan))),
    "fault code": lambda: evaluate(
        small_stream(train=with_value(GIVEN["train"], 7, 1e300))
    ),
    "train never changes": lambda: evaluate(small_stream(train=np.zeros((200, 3)))),
    "rows of the recording": lambda: small_stream(
        segments=[Attack(id="A1", start=95, stop=105)]
    ),
    "written twice": written_twice,
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_are_quoted_as_they_are(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SightlineError) as caught:
        ERRORS[case]()
    assert str(caught.value) in OWN_RESIDUALS.read_text(encoding="utf-8")


def absolute(n_channels: int) -> ResidualStream:
    given = small_arrays()
    return small_stream(
        train=np.abs(given["train"][:, :n_channels]),
        test=np.abs(given["test"][:, :n_channels]),
        channels=["LIT101", "FIT101"][:n_channels],
    )


REMARKS: dict[str, tuple[Callable[[], ResidualStream], tuple[str, ...]]] = {
    "absolute": (lambda: absolute(2), ("Never negative",)),
    "score": (lambda: absolute(1), ("Judged one-sided",)),
    "small unit": (
        lambda: small_stream(
            train=GIVEN["train"] * [1, 1, 1e-4],
            test=GIVEN["test"] * [1, 1, 1e-4],
            channels=["LIT101", "FIT101", "P101"],
        ),
        ("Spread too small",),
    ),
    "no labels": (lambda: small_stream(labels=None), ("No labels", "No test row")),
    "no step": (small_stream, ("The time step is", "Drift mixes two")),
    "no label for it": (
        lambda: small_stream(segments=[Attack(id="A1", start=80, stop=90)]),
        ("Named attacks without",),
    ),
    "moved": (
        lambda: small_stream(test=GIVEN["test"] + 3.0),
        ("Over-alarming",),
    ),
}


@pytest.mark.parametrize("case", REMARKS)
def test_remarks_are_quoted_as_they_are(case: str) -> None:
    make, beginnings = REMARKS[case]
    told = evaluate(make(), metrics="none").notices
    page = OWN_RESIDUALS.read_text(encoding="utf-8")
    for beginning in beginnings:
        (sentence,) = [s for s in told if s.startswith(beginning)]
        assert sentence in page
