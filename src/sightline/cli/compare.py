"""The command `compare`: results of several detectors side by side."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from sightline.cli.console import DebugOption, console, door
from sightline.progress import progress_bar


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
