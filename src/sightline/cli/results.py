"""The commands `report` and `compare`, which read what `evaluate` wrote."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from sightline.cli.console import DebugOption, console, door
from sightline.errors import FileError
from sightline.progress import progress_bar

if TYPE_CHECKING:
    from sightline.evaluation.result import Evaluation


def report_command(
    folders: Annotated[
        list[Path],
        Argument(metavar="DIR...", help="Folders that `evaluate` wrote."),
    ],
    out: Annotated[
        Path | None,
        Option(help="Page to write; by default report.html in the first folder."),
    ] = None,
    redact: Annotated[
        bool,
        Option(
            "--redact",
            help="Use pseudonyms for tags, stages and attacks; no notes or telemetry.",
        ),
    ] = False,
    title: Annotated[str | None, Option(help="Title at the top of the page.")] = None,
    no_figures: Annotated[
        bool, Option("--no-figures", help="Leave out the SVG and PNG files.")
    ] = False,
    overwrite: Annotated[
        bool, Option("--overwrite", help="Replace an earlier report.")
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


def compare_command(
    folders: Annotated[
        list[Path], Argument(metavar="DIR", help="Folders that `evaluate` wrote.")
    ],
    out: Annotated[Path | None, Option(help="File for all figures, as JSON.")] = None,
    write_up_to: Annotated[
        Path | None,
        Option(
            "--write-up",
            metavar="DIR",
            help="Folder for the tables, figures and findings of a paper.",
        ),
    ] = None,
    overwrite: Annotated[
        bool, Option("--overwrite", help="Replace an earlier file or write-up.")
    ] = False,
    debug: DebugOption = False,
) -> None:
    """Compare detectors: differences, agreement, and whether a ranking transfers.

    Results of one detector on one testbed count as its seeds. Differences between
    detectors have 95% intervals from a paired bootstrap.

    \b
    Examples:
      sightline compare result
      sightline compare swat wadi --out compared.json --write-up paper
    """
    from sightline.cli.tables import comparison
    from sightline.comparison.compare import compare
    from sightline.paper import write_up
    from sightline.storage import read_results, write_json

    with door(debug=debug):
        with progress_bar("Comparing") as advance:
            results = read_results(folders)
            compared = compare(results, progress=advance)
        if out is not None:
            write_json(compared.to_dict(), out, overwrite=overwrite)
        messages: list[str] = []
        if write_up_to is not None:
            written = write_up(
                results, write_up_to, overwrite=overwrite, comparison=compared
            )
            count = f"{len(written.files)} files are in {write_up_to}."
            messages = [*written.notices, count]
        screen = console()
        screen.print(comparison(compared))
        for message in messages:
            screen.print(f"- {message}", soft_wrap=True)
