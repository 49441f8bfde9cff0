"""Commands about testbeds: what there is, are the files right, simulate a plant."""

from pathlib import Path
from typing import Annotated

import typer

from sightline.cli.console import console, door
from sightline.errors import FileError
from sightline.progress import progress_bar

_Debug = Annotated[bool, typer.Option("--debug", help="Show where an error came from.")]


def list_command(
    root: Annotated[
        Path | None, typer.Option(help="Folder to look for their files in.")
    ] = None,
    debug: _Debug = False,
) -> None:
    """List the testbeds: what they are, where to get them, whether they are found."""
    from sightline.cli.testbed_tables import cards_table
    from sightline.testbeds import READERS, list_testbeds
    from sightline.testbeds.discovery import find_files
    from sightline.testbeds.open_release import found_releases

    with door(debug=debug):
        found = None
        if root is not None:
            files = find_files(root)
            found = {
                name: found_releases(reader, files) for name, reader in READERS.items()
            }
        console().print(cards_table(list_testbeds(), found))


def inspect_command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME|FOLDER", help="A testbed, or a folder with one's own plant."
        ),
    ],
    root: Annotated[
        Path | None, typer.Option(help="Folder with the testbed's files.")
    ] = None,
    release: Annotated[
        str | None, typer.Option(help="Which release, where there are several.")
    ] = None,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Keep no Parquet copy beside the files.")
    ] = False,
    debug: _Debug = False,
) -> None:
    """Audit a testbed's files before anyone trusts a number made from them.

    Exits with 1 where the data are not what they should be.
    """
    from sightline.cli.testbed_tables import audit_table
    from sightline.facts.audit import inspect_testbed

    with door(debug=debug):
        with progress_bar(name) as advance:
            audited = inspect_testbed(
                name, root, release=release, cache=not no_cache, progress=advance
            )
        console().print(audit_table(audited))
    if not audited.is_right:
        raise typer.Exit(1)


def simulate_command(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The simulated plant: waterworks.")
    ],
    out: Annotated[Path, typer.Option(help="Folder to write.")],
    days_train: Annotated[
        float | None, typer.Option(help="Days of normal operation (7; quick: 1).")
    ] = None,
    days_test: Annotated[
        float | None, typer.Option(help="Days with attacks (4; quick: 0.5).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same bytes.")] = 1,
    drift: Annotated[
        str,
        typer.Option(
            help="none, mild, strong; or of what: fouling=strong,setpoint=mild"
        ),
    ] = "none",
    scenario: Annotated[
        Path | None, typer.Option(help="Table of attacks (CSV or TOML) of your own.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A short run with a few attacks.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an earlier run.")
    ] = False,
    debug: _Debug = False,
) -> None:
    """Simulate a plant with attacks whose truth is known; see docs/waterworks.md."""
    from sightline.testbeds import WATERWORKS
    from sightline.testbeds.waterworks import (
        Drift,
        read_scenario,
        simulate,
        write_simulation,
    )

    with door(debug=debug):
        if name != WATERWORKS.name:
            raise FileError(
                f"There is no simulated plant called {name!r}; there is "
                f"{WATERWORKS.name}."
            )
        attacks = None if scenario is None else read_scenario(scenario)
        with progress_bar(name) as advance:
            made = simulate(
                days_train=days_train,
                days_test=days_test,
                seed=seed,
                drift=Drift.of(drift),
                scenario=attacks,
                quick=quick,
                progress=advance,
            )
            write_simulation(made, out, overwrite=overwrite)
        moved = sum(truth.moves for truth in made.truth)
        console().print(
            f"{made.train.n_steps:,} steps of train, {made.test.n_steps:,} of test "
            f"with {len(made.truth)} attacks, of which {moved} move something that is "
            f"measured.\nWritten to {out}/: train.parquet, test.parquet, attacks.csv, "
            "tags.csv, truth.csv, waterworks.png and more.",
            soft_wrap=True,
        )
