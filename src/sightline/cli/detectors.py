"""The command about detectors: what there is, what it needs, how true it is."""

from importlib.util import find_spec
from typing import Annotated

import typer

from sightline.cli.console import console, door


def list_command(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Tell all about this one."),
    ] = None,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show where an error came from.")
    ] = False,
) -> None:
    """List the detectors: whose they are, what they need, whether they are ready."""
    from sightline.cli.detector_tables import MODULES, card_table, detectors_table
    from sightline.detectors import detector_type, list_detectors

    with door(debug=debug):
        # Looked for, not imported: torch alone takes seconds.
        missing = [extra for extra, module in MODULES.items() if not find_spec(module)]
        console().print(
            detectors_table(list_detectors(), missing)
            if name is None
            else card_table(detector_type(name), missing)
        )
