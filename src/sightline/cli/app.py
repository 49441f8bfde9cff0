"""The command line: parse, call one function, print."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from sightline._version import __version__
from sightline.cli.console import console, door
from sightline.cli.detectors import list_command as detectors_command
from sightline.cli.report import report_beside, report_command
from sightline.cli.study import demo_command, run_command, study_command
from sightline.cli.tables import comparison, summary
from sightline.cli.testbeds import (
    inspect_command,
    list_command,
    simulate_command,
)
from sightline.cluster import on_cluster
from sightline.comparison.compare import compare
from sightline.data.stream import ResidualStream
from sightline.errors import FileError, naming
from sightline.evaluation.pipeline import evaluate
from sightline.paper import write_up
from sightline.progress import progress_bar
from sightline.storage import (
    check_out,
    folder_name,
    read_results,
    read_stream,
    read_tables,
    stream_name,
    write_json,
    write_results,
)

app = typer.Typer(
    help="What an anomaly detector can see, before any alarm rule is chosen.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


app.command("testbeds")(list_command)
app.command("inspect")(inspect_command)
app.command("simulate")(simulate_command)
app.command("detectors")(detectors_command)
app.command("run")(run_command)
app.command("study")(study_command)
app.command("demo")(demo_command)
app.command("report")(report_command)


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
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Dask scheduler whose workers read the Parquet folders.",
        ),
    ] = None,
    guard: Annotated[
        int, typer.Option(min=0, help="Rows after each attack to leave out.")
    ] = 0,
    no_intervals: Annotated[
        bool,
        typer.Option("--no-intervals", help="Leave out intervals and chance floors."),
    ] = False,
    no_diagnosis: Annotated[
        bool,
        typer.Option("--no-diagnosis", help="Leave out why each attack was missed."),
    ] = False,
    no_report: Annotated[
        bool, typer.Option("--no-report", help="Leave out report.html.")
    ] = False,
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
    if streams and not (label is time is name is None):
        raise typer.BadParameter("--label, --time and --name go with --train, --test.")
    with door(debug=debug):
        if train is not None and test is not None:
            read_both = partial(
                read_tables, train, test, label=label, time=time, name=name
            )
            sources = {name or test.stem: _Source(f"{train}, {test}", read_both)}
        else:
            sources = _by_name(streams or [], detector)
        folders = [folder_name(called, guard) for called in sources]
        check_out(out, folders, overwrite=overwrite)
        evaluations = []
        for called, source in sources.items():
            with progress_bar(called) as advance:
                stream = source.read()
                with naming(source.place):
                    if step is not None:
                        stream = stream.replace(step_s=step)
                    with _on(cluster, stream) as placed:
                        evaluated = evaluate(
                            placed,
                            guard=guard,
                            nonfinite="drop" if drop_nonfinite else "error",
                            intervals=not no_intervals,
                            diagnosis=not no_diagnosis,
                            progress=advance,
                        )
                evaluations.append(evaluated)
        write_results(evaluations, out, overwrite=overwrite)
        screen = console()
        screen.print(summary(evaluations))
        screen.print(
            f"Written to {out}/: summary.csv, and for each stream", soft_wrap=True
        )
        for folder in folders:
            screen.print(
                f"  {folder}/: evaluation.json, segments.csv, traces.npz",
                soft_wrap=True,
            )
        if not no_report:
            report_beside(out)


def _on(
    cluster: str | None, stream: ResidualStream
) -> AbstractContextManager[ResidualStream]:
    return nullcontext(stream) if cluster is None else on_cluster(stream, cluster)


@dataclass(frozen=True)
class _Source:
    """Where a stream comes from, for errors, and how to read it."""

    place: str
    read: Callable[[], ResidualStream]


@app.command("compare")
def compare_command(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", help="Folders that `evaluate` wrote."),
    ],
    out: Annotated[
        Path | None, typer.Option(help="File for all figures, as JSON.")
    ] = None,
    write_up_to: Annotated[
        Path | None,
        typer.Option(
            "--write-up",
            metavar="DIR",
            help="Folder for the paper's tables, figures and findings of this study.",
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an earlier file or write-up.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show where an error came from.")
    ] = False,
) -> None:
    """Lay results side by side: differences, agreement, does a ranking transfer."""
    with door(debug=debug):
        with progress_bar("Comparing") as advance:
            results = read_results(folders)
            compared = compare(results, progress=advance)
        if out is not None:
            write_json(compared.to_dict(), out, overwrite=overwrite)
        told: list[str] = []
        if write_up_to is not None:
            made = write_up(
                results, write_up_to, overwrite=overwrite, comparison=compared
            )
            told = [*made.notices, f"{len(made.files)} files are in {write_up_to}."]
        screen = console()
        screen.print(comparison(compared))
        for notice in told:
            screen.print(f"- {notice}", soft_wrap=True)


def _by_name(streams: list[Path], detector: str | None) -> dict[str, _Source]:
    """Return how to read each stream, by the name its results will have."""
    sources: dict[str, _Source] = {}
    for path in streams:
        called = stream_name(path)
        if called in sources:
            raise FileError(
                f"{path}: another stream is called {called!r} too, and one would "
                "overwrite the other: rename one of them."
            )
        sources[called] = _Source(
            str(path), partial(read_stream, path, detector=detector)
        )
    return sources
