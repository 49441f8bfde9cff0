"""The command line: parse, call one function, print."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from sightline._version import __version__
from sightline.errors import FileError, SightlineError, naming
from sightline.evaluation import Progress as ProgressTold
from sightline.evaluation import evaluate
from sightline.storage import (
    check_out,
    folder_name,
    read_stream,
    read_tables,
    write_results,
)
from sightline.stream import ResidualStream
from sightline.terminal import summary

app = typer.Typer(
    help="What an anomaly detector can see, before any alarm rule is chosen.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sightline {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version."
        ),
    ] = False,
) -> None:
    """Tell what an anomaly detector can see, before any alarm rule is chosen."""


@app.command("evaluate")
def evaluate_command(
    streams: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[STREAM]...",
            help="Residual streams: .npz files, Parquet folders or IPAL folders.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("result"),
    train: Annotated[
        Path | None, typer.Option(help="Table (CSV, Parquet) of train residuals.")
    ] = None,
    test: Annotated[
        Path | None, typer.Option(help="Table (CSV, Parquet) of test residuals.")
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(help="Column of the test table: 1 attack, 0 normal, -1 ignore."),
    ] = None,
    time: Annotated[
        str | None, typer.Option(help="Column of the tables with time stamps.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="What to call the stream of two tables.")
    ] = None,
    step: Annotated[
        float | None,
        typer.Option(help="Seconds a row, where the input does not say."),
    ] = None,
    detector: Annotated[
        str | None, typer.Option(help="Detector to take from an IPAL folder.")
    ] = None,
    guard: Annotated[
        int, typer.Option(min=0, help="Rows after each attack to leave out.")
    ] = 0,
    drop_nonfinite: Annotated[
        bool, typer.Option("--drop-nonfinite", help="Drop rows with nan or infinity.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace earlier results.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show where an error came from.")
    ] = False,
) -> None:
    """Measure what residuals show: attack evidence, drift, false alarms."""
    if (train is None) != (test is None) or bool(streams) == (train is not None):
        raise typer.BadParameter(
            "give either streams, or one table with --train and one with --test."
        )
    with _door(debug=debug):
        if train is not None and test is not None:
            readers: dict[str, Callable[[], ResidualStream]] = {
                name or test.stem: partial(
                    read_tables, train, test, label=label, time=time, name=name
                )
            }
        else:
            readers = _by_name(streams or [], detector)
        folders = [folder_name(stream_name, guard) for stream_name in readers]
        check_out(out, folders, overwrite=overwrite)
        evaluations = []
        for stream_name, read in readers.items():
            with _bar(stream_name) as advance:
                stream = read()
                with naming(stream_name):
                    if step is not None:
                        stream = stream.replace(step_s=step)
                    evaluations.append(
                        evaluate(
                            stream,
                            guard=guard,
                            nonfinite="drop" if drop_nonfinite else "error",
                            progress=advance,
                        )
                    )
        write_results(evaluations, out, overwrite=overwrite)
        console = Console()
        console.print(summary(evaluations))
        console.print(f"Written to {out}/: summary.csv, and for each stream")
        for folder in folders:
            console.print(f"  {folder}/: evaluation.json, segments.csv, traces.npz")


def _by_name(
    streams: list[Path], detector: str | None
) -> dict[str, Callable[[], ResidualStream]]:
    """Return how to read each stream, by the name its results will have."""
    readers: dict[str, Callable[[], ResidualStream]] = {}
    for path in streams:
        # A folder may be called 2026.11.15; only a file has a stem.
        stream_name = path.stem if path.suffix == ".npz" else path.resolve().name
        if stream_name in readers:
            raise FileError(
                f"{path}: another stream is called {stream_name!r} too, and one would "
                "overwrite the other: rename one of them."
            )
        readers[stream_name] = partial(read_stream, path, detector=detector)
    return readers


@contextmanager
def _door(*, debug: bool) -> Iterator[None]:
    """Turn expected errors into one sentence and exit code 1: here, nowhere else."""
    try:
        yield
    except SightlineError as error:
        if debug:
            raise
        Console(stderr=True, soft_wrap=True, highlight=False, markup=False).print(
            f"error: {error}"
        )
        raise typer.Exit(1) from error


@contextmanager
def _bar(stream_name: str) -> Iterator[ProgressTold]:
    """Show a progress bar on a terminal, and nothing elsewhere."""
    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.fields[stream]}: {task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task("Reading", total=None, stream=stream_name)

        def told(doing: str, done: int, total: int) -> None:
            bar.update(task, description=doing, completed=done, total=total)

        yield told
