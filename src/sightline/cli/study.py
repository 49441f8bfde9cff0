"""Commands that run detectors on testbeds: run, study, demo."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sightline.cli.console import console, door
from sightline.errors import StreamError

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from sightline.cli.study_tables import StudyScreen
    from sightline.study import StudyPlan

_Out = Annotated[Path, typer.Option(help="Folder for all that comes of it.")]
_Cache = Annotated[
    Path | None,
    typer.Option(help="Folder with finished cells, to share; else OUT/cache."),
]
_Workers = Annotated[
    int | None,
    typer.Option(min=1, help="Processes; else as many as cores and memory hold."),
]
_Cluster = Annotated[
    str | None,
    typer.Option(help="Address of a Dask scheduler to run the cells on."),
]
_Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace what another study left in OUT.")
]
_DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Open and check everything, list the cells.")
]
_Debug = Annotated[bool, typer.Option("--debug", help="Show where an error came from.")]


def run_command(
    testbed: Annotated[
        str, typer.Option(help="A testbed, or a folder with one's own plant.")
    ],
    detectors: Annotated[
        str,
        typer.Option(help="Names with commas between; also package.module:Class."),
    ],
    root: Annotated[
        Path | None, typer.Option(help="Folder with the testbed's files.")
    ] = None,
    seeds: Annotated[str, typer.Option(help="Numbers with commas between.")] = "0",
    preset: Annotated[
        str, typer.Option(help="export (best for a stream), or official.")
    ] = "export",
    out: _Out = Path("study"),
    cache: _Cache = None,
    workers: _Workers = None,
    cluster: _Cluster = None,
    overwrite: _Overwrite = False,
    dry_run: _DryRun = False,
    debug: _Debug = False,
) -> None:
    """Train detectors on a testbed, and tell what each of them can see."""
    from sightline.study import plan_of

    with door(debug=debug):
        label = _label(Path(testbed).name)
        named: dict[str, Any] = {}
        for name in _listed(detectors, "--detectors"):
            own = _label(name.rpartition(":")[2])
            if own in named:
                raise StreamError(f"--detectors: {own!r} is named twice.")
            named[own] = {"detector": name, "preset": preset}
        plan = plan_of(
            {
                "title": f"{detectors} on {testbed}",
                "seeds": [_whole(seed) for seed in _listed(seeds, "--seeds")],
                "testbeds": {label: {"testbed": testbed}},
                "detectors": named,
            },
            place="the command line",
            roots={} if root is None else {label: root},
        )
        _carry_out(plan, out, cache, workers, cluster, overwrite, dry_run, debug)


def study_command(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The plan; see docs/studies.md.")
    ],
    root: Annotated[
        list[str] | None,
        typer.Option(metavar="TESTBED=PATH", help="Where a testbed's files are."),
    ] = None,
    out: _Out = Path("study"),
    cache: _Cache = None,
    workers: _Workers = None,
    cluster: _Cluster = None,
    overwrite: _Overwrite = False,
    dry_run: _DryRun = False,
    debug: _Debug = False,
) -> None:
    """Run a study from a plan: detectors x testbeds x seeds, resumable."""
    from sightline.study import read_plan

    with door(debug=debug):
        roots = {}
        for given in root or []:
            label, is_given, path = given.partition("=")
            if not is_given:
                raise typer.BadParameter(f"--root takes TESTBED=PATH; got {given!r}.")
            roots[label] = path
        plan = read_plan(file, roots=roots)
        _carry_out(plan, out, cache, workers, cluster, overwrite, dry_run, debug)


def demo_command(
    out: Annotated[Path, typer.Option(help="Folder for all that comes of it.")] = Path(
        "demo"
    ),
    quick: Annotated[
        bool, typer.Option("--quick", help="Within a minute, with less to see.")
    ] = False,
    workers: _Workers = None,
    overwrite: _Overwrite = False,
    debug: _Debug = False,
) -> None:
    """Simulate a plant, train detectors on it, and show what each can see."""
    from sightline.study import read_plan

    with door(debug=debug):
        called = "demo_quick.toml" if quick else "demo.toml"
        with as_file(files("sightline.study") / called) as plan:
            chosen = read_plan(plan)
        _carry_out(chosen, out, None, workers, None, overwrite, False, debug)


def _carry_out(
    plan: "StudyPlan",
    out: Path,
    cache: Path | None,
    workers: int | None,
    cluster: str | None,
    overwrite: bool,
    dry_run: bool,
    debug: bool,
) -> None:
    """Run a study and tell what came of it, or only what would be done."""
    from sightline.cli.study_tables import study_summary
    from sightline.study import run_study
    from sightline.study.collect import check_folder
    from sightline.study.run import names_of

    told: RenderableType
    with _screen() as shown:
        if dry_run:
            check_folder(names_of(plan), out, overwrite=overwrite)
            told = _cells(plan, Path(out / "cache" if cache is None else cache), shown)
        else:
            study = run_study(
                plan,
                out,
                cache=cache,
                workers=workers,
                cluster=cluster,
                overwrite=overwrite,
                progress=shown.progress,
                watch=shown.watch,
            )
            told = study_summary(study)
    console().print(told, soft_wrap=True)
    if debug and not dry_run:
        for trace in filter(None, study.traces.values()):
            console(stderr=True).print(trace, markup=False, soft_wrap=True)
    if not dry_run and study.failed:
        raise typer.Exit(1)


@contextmanager
def _screen() -> "Iterator[StudyScreen]":
    """Show a study while it runs, on a terminal; Ctrl-C is no error."""
    from rich.live import Live

    from sightline.cli.study_tables import StudyScreen

    screen = console(stderr=True)
    shown = StudyScreen(screen)
    try:
        with (
            Live(shown, console=screen, transient=True)
            if (screen.is_terminal)
            else nullcontext()
        ):
            yield shown
    except KeyboardInterrupt:
        screen.print("Stopped. The same command goes on where it was.")
        raise typer.Exit(130) from None


def _cells(plan: "StudyPlan", cache: Path, shown: "StudyScreen") -> "Table":
    """Return the cells of a plan, after opening and checking all that it names."""
    from sightline.cli.study_tables import cells_table
    from sightline.study.cache import Cache
    from sightline.study.run import cells_of, open_testbeds

    kept = Cache(cache)
    testbeds = open_testbeds(plan, None, shown.progress)
    return cells_table(cells_of(plan, testbeds), kept.is_done)


def _listed(text: str, option: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise StreamError(f"{option} names nothing.")
    return names


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise StreamError(f"--seeds takes whole numbers; got {text!r}.")
    return int(text)


def _label(name: str) -> str:
    """Return a name as it can be part of a file's name."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", name).strip("-.") or "plant"
