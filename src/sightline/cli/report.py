"""The command `report`, and the page that `evaluate` writes with its results."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sightline.cli.console import DebugOption, console, door
from sightline.errors import FileError

if TYPE_CHECKING:
    from sightline.evaluation.result import Evaluation


def report_command(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", help="Folders that `evaluate` wrote."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="Page to write; by default report.html in the first folder."),
    ] = None,
    redact: Annotated[
        bool,
        typer.Option(
            "--redact",
            help="Use pseudonyms for tags, stages and attacks; no notes or telemetry.",
        ),
    ] = False,
    title: Annotated[
        str | None, typer.Option(help="Title at the top of the page.")
    ] = None,
    no_figures: Annotated[
        bool, typer.Option("--no-figures", help="Leave out the SVG and PNG files.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an earlier report.")
    ] = False,
    debug: DebugOption = False,
) -> None:
    """Write one stand-alone page that shows what each detector can see."""
    from sightline.report import figures_folder, write_report

    with door(debug=debug):
        path = folders[0] / "report.html" if out is None else out
        if path.is_file() and not overwrite:
            raise FileError(
                f"{path}: exists already: choose another --out, or pass --overwrite."
            )
        write_report(folders, path, redact=redact, title=title, figures=not no_figures)
        screen = console()
        screen.print(f"Written: {path}", soft_wrap=True)
        if not no_figures:
            screen.print(f"Figures: {figures_folder(path)}/", soft_wrap=True)


def add_report(
    out: Path,
    evaluations: "Sequence[Evaluation]",
    neighbours: "Mapping[Path, Evaluation]",
) -> None:
    """Write ``report.html`` over all results of a folder, and print where it is.

    The results are complete without the page, so a page that cannot be written is a
    notice and no error.

    Parameters
    ----------
    out : Path
        The folder with the results.
    evaluations : sequence of Evaluation
        Results in memory that were just written; they are not read again.
    neighbours : mapping of Path to Evaluation
        The other evaluations in the folder, as `check_out` returns them; only their
        charts are read.
    """
    from sightline.report import write_report
    from sightline.storage import Result, folder_name, read_traces

    screen = console()
    try:
        results = [
            Result(out / folder_name(one.stream.name, one.guard), one)
            for one in evaluations
        ]
        results += [
            Result(path.parent, replace(one, traces=read_traces(path.parent)))
            for path, one in neighbours.items()
        ]
        results.sort(key=lambda result: result.name)
        path = write_report(results, out / "report.html")
    except FileError as error:
        screen.print(f"- report.html was not written: {error}", soft_wrap=True)
    else:
        screen.print(f"  {path.name}: the report, for a browser")
