"""The command that writes a report from folders of results."""

from pathlib import Path
from typing import Annotated

import typer

from sightline.cli.console import console, door
from sightline.errors import FileError


def report_command(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", help="Folders that `evaluate` wrote."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="Page to write; else report.html in the first folder."),
    ] = None,
    redact: Annotated[
        bool,
        typer.Option(
            "--redact",
            help="Pseudonyms for tags, stages, attacks; no notes, no telemetry.",
        ),
    ] = False,
    title: Annotated[str | None, typer.Option(help="What stands at the top.")] = None,
    no_figures: Annotated[
        bool,
        typer.Option("--no-figures", help="Leave out the SVG and PNG files."),
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an earlier report.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show where an error came from.")
    ] = False,
) -> None:
    """Write one stand-alone page that shows what each detector can see."""
    from sightline.report import figures_folder, write_report

    with door(debug=debug):
        path = folders[0] / "report.html" if out is None else out
        if path.is_file() and not overwrite:
            raise FileError(
                f"{path}: exists and is kept: choose another --out, or pass "
                "--overwrite."
            )
        write_report(folders, path, redact=redact, title=title, figures=not no_figures)
        screen = console()
        screen.print(f"Written: {path}", soft_wrap=True)
        if not no_figures:
            screen.print(f"Figures: {figures_folder(path)}/", soft_wrap=True)


def report_beside(out: Path) -> None:
    """Write the page over all results of a folder, and say where it is.

    Results are worth having without: what is in the way is told, and no error.
    """
    from sightline.report import write_report

    screen = console()
    try:
        path = write_report(out, out / "report.html")
    except FileError as error:
        screen.print(f"- report.html was left out: {error}", soft_wrap=True)
    else:
        screen.print(f"  {path.name}: all of it, to be opened in a browser")
