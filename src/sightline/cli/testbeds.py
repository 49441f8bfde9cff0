"""The commands `testbeds`, `inspect` and `simulate`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from typer import Argument, Exit, Option

from sightline.cli.console import DebugOption, console, door, grid
from sightline.errors import FileError
from sightline.progress import progress_bar
from sightline.text import plural

if TYPE_CHECKING:
    from sightline.facts.audit import Audit
    from sightline.testbeds.base import TestbedCard
    from sightline.testbeds.waterworks import Simulation

_Days = Annotated[float | None, Option(help="Days of normal operation (7; quick: 1).")]
_TestDays = Annotated[float | None, Option(help="Days with attacks (4; quick: 0.5).")]
_Drift = Annotated[
    str, Option(help="none, mild or strong; or by cause: fouling=strong,setpoint=mild")
]
_Scenario = Annotated[
    Path | None, Option(help="Table of attacks (CSV or TOML) of your own.")
]


def list_testbeds_command(
    root: Annotated[
        Path | None, Option(help="Folder to search for their files.")
    ] = None,
    debug: DebugOption = False,
) -> None:
    """List the testbeds: what they are, where to get them, which files are present.

    \b
    Example:
      sightline testbeds --root /data
    """
    from sightline.testbeds import READERS, list_testbeds
    from sightline.testbeds.csv_reader import find_files
    from sightline.testbeds.open_release import found_releases

    with door(debug=debug):
        releases = None
        if root is not None:
            files = find_files(root)
            releases = {
                name: found_releases(reader, files) for name, reader in READERS.items()
            }
        console().print(cards_table(list_testbeds(), releases))


def inspect_command(
    name: Annotated[
        str,
        Argument(
            metavar="NAME|FOLDER", help="A testbed, or a folder with your own plant."
        ),
    ],
    root: Annotated[
        Path | None, Option(help="Folder with the testbed's files.")
    ] = None,
    release: Annotated[
        str | None, Option(help="Which release, if there are several.")
    ] = None,
    no_cache: Annotated[
        bool, Option("--no-cache", help="Keep no Parquet copy next to the files.")
    ] = False,
    debug: DebugOption = False,
) -> None:
    """Audit a testbed's files before you trust a number computed from them.

    Checks rows, gaps, labels and attacks against what is published about the release.
    Exits with 1 if the data are not what they should be.

    \b
    Examples:
      sightline inspect swat --root /data/swat
      sightline inspect my-plant/
    """
    from sightline.facts.audit import inspect_testbed

    with door(debug=debug):
        with progress_bar(name) as advance:
            audit = inspect_testbed(
                name, root, release=release, cache=not no_cache, progress=advance
            )
        console().print(audit_table(audit))
    if not audit.is_right:
        raise Exit(1)


def simulate_command(
    name: Annotated[
        str, Argument(metavar="NAME", help="The simulated plant: waterworks.")
    ],
    out: Annotated[Path, Option(help="Folder to write.")],
    days_train: _Days = None,
    days_test: _TestDays = None,
    seed: Annotated[int, Option(help="The same seed gives the same bytes.")] = 1,
    drift: _Drift = "none",
    scenario: _Scenario = None,
    quick: Annotated[
        bool, Option("--quick", help="A short run with a few attacks.")
    ] = False,
    overwrite: Annotated[
        bool, Option("--overwrite", help="Replace an earlier run.")
    ] = False,
    debug: DebugOption = False,
) -> None:
    """Simulate a plant with attacks whose truth is known; see docs/waterworks.md.

    The folder has the form of a plant of your own, so that `run` and `study` open it.

    \b
    Examples:
      sightline simulate waterworks --out plant --quick
      sightline simulate waterworks --out plant --drift fouling=strong --seed 7
    """
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
            simulation = simulate(
                days_train=days_train,
                days_test=days_test,
                seed=seed,
                drift=Drift.of(drift),
                scenario=attacks,
                quick=quick,
                progress=advance,
            )
            write_simulation(simulation, out, overwrite=overwrite)
        console().print(_simulated(simulation, out), soft_wrap=True)


def _simulated(simulation: "Simulation", out: Path) -> str:
    """Return how long a simulation is, what its attacks move, and its files."""
    moving = sum(truth.moves for truth in simulation.truth)
    return (
        f"{simulation.train.n_steps:,} steps of train, "
        f"{simulation.test.n_steps:,} of test with {len(simulation.truth)} attacks, of "
        f"which {moving} change a measured value.\n"
        f"Written to {out}/: train.parquet, test.parquet, attacks.csv, tags.csv, "
        "truth.csv, waterworks.png and more."
    )


def cards_table(
    cards: "Sequence[TestbedCard]", releases: Mapping[str, Sequence[str]] | None
) -> RenderableType:
    """Return the testbeds with origin, licence and whether their files are present.

    Parameters
    ----------
    cards : sequence of TestbedCard
        The testbeds to list.
    releases : mapping, optional
        Releases found on disk, by testbed; None if no folder was searched.
    """
    parts: list[RenderableType] = []
    for card in cards:
        table = grid(dim=True, min_width=10)
        table.add_row("what", Text(card.what))
        table.add_row("channels", Text(card.channels))
        table.add_row("attacks", Text(card.attacks))
        if len(card.releases) > 1:
            table.add_row("releases", Text(", ".join(card.releases)))
        table.add_row("licence", Text(card.licence))
        table.add_row("to get it", Text(card.where))
        table.add_row("found", _found(card, releases))
        parts += [Text(card.name, style="bold"), table, Text()]
    advice = "Your own plant: a folder with train.csv and test.csv; see "
    return Group(*parts, Text(f"{advice}docs/own-plant.md."))


def _found(card: "TestbedCard", releases: Mapping[str, Sequence[str]] | None) -> Text:
    """Return which releases of a testbed are present; a simulated one always is."""
    if not card.releases:
        return Text("always", style="green")
    if releases is None:
        return Text("name a folder to search with --root", style="dim")
    present = releases.get(card.name, ())
    if not present:
        return Text("no")
    return Text(", ".join(present) if len(card.releases) > 1 else "yes", style="green")


def audit_table(audit: "Audit") -> RenderableType:
    """Return the files and the findings of an audit, and its verdict.

    A number of rows that differs from the published one is printed in red. Findings
    that are wrong come first, then notes, then checks that passed.
    """
    from sightline.facts.audit import Level

    marks = {
        Level.WRONG: ("WRONG", "bold red"),
        Level.NOTE: ("note", "yellow"),
        Level.RIGHT: ("right", "green"),
    }
    files = Table(title=f"Audit: {audit.title}", title_justify="left", box=SIMPLE_HEAD)
    files.add_column("file", overflow="fold", ratio=1)
    for header in ("rows", "expected", "gaps"):
        files.add_column(header, justify="right", no_wrap=True)
    files.add_column("from, to", no_wrap=True)
    for row in audit.files:
        is_right = row.expected is None or row.expected == row.rows
        files.add_row(
            Text(row.place),
            Text(f"{row.rows:,}", style="" if is_right else "bold red"),
            "-" if row.expected is None else f"{row.expected:,}",
            str(row.gaps),
            f"{row.first}\n{row.last}",
        )
    findings = grid()
    for level, (word, style) in marks.items():
        for finding in audit.findings:
            if finding.level is level:
                findings.add_row(Text(word, style=style), Text(finding.text))
    if audit.is_right:
        verdict = Text("\nThe data are what they should be.", style="green")
    else:
        n_wrong = sum(finding.level is Level.WRONG for finding in audit.findings)
        verdict = Text(
            "\nThe data are not what they should be: "
            f"{plural(n_wrong, 'finding')} above.",
            style="bold red",
        )
    return Group(files, findings, verdict)
