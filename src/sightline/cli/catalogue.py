"""The commands `testbeds`, `inspect`, `simulate` and `detectors`."""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from typer import Argument, Exit, Option

from sightline.cli.console import DebugOption, NoCacheOption, console, door, grid
from sightline.progress import progress_bar
from sightline.text import plural

if TYPE_CHECKING:
    from sightline.audit.codes import Finding
    from sightline.audit.record import Audit
    from sightline.detectors.base import DetectorCard, LearnedDetector
    from sightline.plugins import Registry
    from sightline.testbeds.base import TestbedCard
    from sightline.testbeds.twin.simulation import Simulation

# The module that each optional extra of the package installs.
MODULES = {"detectors": "torch", "tep": "tep_studio", "water": "wntr"}

_Days = Annotated[
    float | None,
    Option(help="Days of normal operation (waterworks 7, tep 3, network 60)."),
]
_TestDays = Annotated[
    float | None,
    Option(help="Days with attacks (waterworks 4, tep 10.75, network 46)."),
]
_Drift = Annotated[
    str | None,
    Option(
        help="waterworks: none, mild or strong; or by cause: fouling=strong,"
        "setpoint=mild"
    ),
]
_Network = Annotated[
    str | None,
    Option(help="network: an EPANET file, or Net3, ky10 and others of wntr."),
]
_Scenario = Annotated[
    Path | None, Option(help="Table of attacks (CSV or TOML) of your own.")
]


def _detector_names() -> list[str]:
    """Return the detectors, for completion by the shell."""
    from sightline.detectors import list_detectors

    return [card.name for card in list_detectors()]


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
    from sightline.testbeds import READERS, SIMULATED, list_testbeds
    from sightline.testbeds.csv_reader import find_files
    from sightline.testbeds.open_release import found_releases

    with door(debug=debug):
        releases, cards = None, list_testbeds()
        if root is not None:
            files = find_files(root)
            releases = {
                card.name: found_releases(READERS[card.name], files)
                for card in cards
                if card.name in READERS
            }
        console().print(cards_table(cards, releases))
        for registry in (READERS, SIMULATED):
            _print_problems(registry)


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
    no_cache: NoCacheOption = False,
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
    from sightline.audit.data import inspect_testbed

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
        str,
        Argument(
            metavar="NAME",
            help="A simulated plant: waterworks, tep, network.",
            autocompletion=lambda: ["waterworks", "tep", "network"],
        ),
    ],
    out: Annotated[Path, Option(help="Folder to write.")],
    days_train: _Days = None,
    days_test: _TestDays = None,
    seed: Annotated[int, Option(help="The same seed gives the same bytes.")] = 1,
    drift: _Drift = None,
    network: _Network = None,
    scenario: _Scenario = None,
    quick: Annotated[
        bool, Option("--quick", help="A short run with a few attacks.")
    ] = False,
    recovery_labels: Annotated[
        bool,
        Option(
            "--recovery-labels/--no-recovery-labels",
            help="Label rows in which the plant recovers from an attack -1, or 0.",
        ),
    ] = True,
    overwrite: Annotated[
        bool, Option("--overwrite", help="Replace an earlier run.")
    ] = False,
    debug: DebugOption = False,
) -> None:
    """Simulate a plant with attacks whose truth is known; see docs/testbeds.md.

    The folder has the form of a plant of your own, so that `run` and `study` open it.

    \b
    Examples:
      sightline simulate waterworks --out plant --quick
      sightline simulate waterworks --out plant --drift fouling=strong --seed 7
      sightline simulate network --out plant --network ky10
    """
    from sightline.testbeds import simulation_of
    from sightline.testbeds.twin.folder_writer import write_simulation

    with door(debug=debug, writes=[out]):
        given = {"drift": drift, "network": network, "scenario": scenario}
        options = {
            "days_train": days_train,
            "days_test": days_test,
            "seed": seed,
            "quick": quick,
            "recovery_labels": recovery_labels,
            **{name: value for name, value in given.items() if value is not None},
        }
        with progress_bar(name) as advance:
            simulation = simulation_of(name, options, advance)
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
        f"truth.csv, {simulation.name}.png and more."
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
    """Return which releases of a testbed are present; a simulated one always is.

    Unless it needs an extra that is not installed.
    """
    if card.extra and not find_spec(MODULES[card.extra]):
        return Text(f"pip install 'sightline-cps[{card.extra}]'", style="yellow")
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

    A number of rows that differs from the published one is printed in red. Errors come
    first, then warnings, notes, and checks that passed.
    """
    from sightline.data.zones import OWN_CLOCK

    files = Table(title=f"Audit: {audit.title}", title_justify="left", box=SIMPLE_HEAD)
    files.add_column("file", overflow="fold", ratio=1)
    for header in ("rows", "expected", "gaps"):
        files.add_column(header, justify="right", no_wrap=True)
    zone = audit.recording.timezone or OWN_CLOCK
    files.add_column(f"from, to\n({zone})", no_wrap=True)
    for row in audit.files:
        is_right = row.expected is None or row.expected == row.rows
        files.add_row(
            Text(row.name),
            Text(f"{row.rows:,}", style="" if is_right else "bold red"),
            "-" if row.expected is None else f"{row.expected:,}",
            str(row.gaps),
            f"{row.first}\n{row.last}",
        )
    table = findings_table(audit.findings)
    for sentence in audit.passed:
        table.add_row(Text("passed", style="green"), Text(sentence))
    return Group(files, table, _audit_verdict(audit))


def findings_table(findings: "Sequence[Finding]") -> Table:
    """Return findings with code, severity, text and remedy."""
    from sightline.audit.codes import Severity

    styles = {
        Severity.ERROR: "bold red",
        Severity.WARNING: "bold yellow",
        Severity.NOTE: "yellow",
    }
    table = grid()
    for one in findings:
        text = Text(one.text)
        if one.is_serious:
            text.append(f" {one.effect}", style="dim")
            text.append(f" {one.remedy}" if one.remedy else "")
        mark = Text(f"{one.code} {one.severity}", style=styles[one.severity])
        table.add_row(mark, text)
    return table


def _audit_verdict(audit: "Audit") -> Text:
    """Return the last line of an audit: whether the data may be used."""
    if not audit.serious:
        return Text("\nThe data are what they should be.", style="green")
    if not audit.is_right:
        errors = plural(len(audit.errors), "error")
        words = f"\nThe data are not what they should be: {errors} above."
        return Text(words, style="bold red")
    return Text(
        f"\nRead {plural(len(audit.serious), 'warning')} above before you use the "
        "data.",
        style="bold yellow",
    )


def detectors_command(
    name: Annotated[
        str | None,
        Argument(
            metavar="NAME",
            help="Show the card of this detector.",
            autocompletion=_detector_names,
        ),
    ] = None,
    debug: DebugOption = False,
) -> None:
    """List the detectors with their papers, or show everything about one.

    The card of a detector says what it does as published and what not, its alarm rules,
    and every setting with its default.

    \b
    Examples:
      sightline detectors
      sightline detectors gdn
    """
    from sightline.detectors import DETECTORS, detector_type, list_detectors

    with door(debug=debug):
        # `find_spec` does not import: torch alone takes seconds.
        missing = [extra for extra, module in MODULES.items() if not find_spec(module)]
        console().print(
            detectors_table(list_detectors(), missing)
            if name is None
            else card_table(detector_type(name), missing)
        )
        if name is None:
            _print_problems(DETECTORS)


def _print_problems(registry: "Registry[Any]") -> None:
    """Print a sentence on each plug-in that cannot be used."""
    for problem in registry.others()[1]:
        console().print(Text(problem, style="yellow"), soft_wrap=True)


def detectors_table(
    cards: "Sequence[DetectorCard]", missing: Sequence[str]
) -> RenderableType:
    """Return all detectors with paper, residual space and what they need.

    Parameters
    ----------
    cards : sequence of DetectorCard
        The detectors to list.
    missing : sequence of str
        Names of the extras that are not installed; how to install them is added.
    """
    # Two columns only: one for each fact would squeeze a paper's title into a tower.
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for card in cards:
        table.add_row(
            Text(card.name),
            Text.assemble(
                f"{card.title}: {card.kind}\n",
                (f"{card.paper.removesuffix('.')}.\n", "dim"),
                f"residuals: {card.space}; needs {_needs(card)}: ",
                _state(card, missing),
                "\n",
            ),
        )
    return Group(
        table,
        *_how_to_install(cards, missing),
        Text("Everything about one of them: sightline detectors NAME"),
        Text("Your own detector: any class with fit and residuals works."),
    )


def card_table(kind: "type[LearnedDetector]", missing: Sequence[str]) -> RenderableType:
    """Return the card of one detector: paper, deviations, rules and settings.

    Parameters
    ----------
    kind : type
        The detector's class; it is not instantiated.
    missing : sequence of str
        Names of the extras that are not installed.
    """
    card = kind.card
    facts = grid(dim=True, min_width=9)
    facts.add_row("paper", Text(f"{card.paper.removesuffix('.')}."))
    facts.add_row("kind", Text(card.kind))
    facts.add_row("residuals", Text(f"{card.space}: observed minus expected"))
    facts.add_row("needs", Text(_needs(card)))
    facts.add_row("state", _state(card, missing))
    rules = [
        f"{rule.name}: {rule.what}"
        + (f" Looks at {' and '.join(rule.looks_at)}." if rule.looks_at else "")
        for rule in kind.rules
    ]
    return Group(
        Text(f"{card.title} ({card.name})", style="bold"),
        facts,
        *_how_to_install([card], missing),
        *_bullets("As published", card.faithful),
        *_bullets("Not as published, and why", card.deviates),
        *_bullets("Its own alarm rules", rules),
        *_testbed_settings(card),
        Text("\nSettings", style="bold"),
        _settings(kind),
    )


def _needs(card: "DetectorCard") -> str:
    """Return the module that a detector needs besides the core of the package."""
    return MODULES.get(card.extra, card.extra) if card.extra else "nothing more"


def _state(card: "DetectorCard", missing: Sequence[str]) -> Text:
    """Return whether a detector can run on this machine."""
    is_ready = card.extra not in missing
    return Text("ready", "green") if is_ready else Text("not installed", "yellow")


def _how_to_install(
    cards: "Sequence[DetectorCard]", missing: Sequence[str]
) -> list[RenderableType]:
    """Return for each missing extra which detectors need it, and the pip command."""
    parts: list[RenderableType] = []
    for extra in missing:
        names = [card.name for card in cards if card.extra == extra]
        if names:
            verb = "needs" if len(names) == 1 else "need"
            parts.append(
                Text(
                    f"{', '.join(names)} {verb} {MODULES.get(extra, extra)}, which is "
                    f'not installed yet: pip install "sightline-cps[{extra}]"',
                    style="yellow",
                )
            )
    return parts


def _bullets(title: str, sentences: Sequence[str]) -> list[RenderableType]:
    """Return a titled list of sentences; nothing if there are none."""
    if not sentences:
        return []
    table = Table.grid(padding=(0, 1))
    table.add_column()
    table.add_column(overflow="fold")
    for sentence in sentences:
        table.add_row("-", Text(sentence))
    return [Text(f"\n{title}", style="bold"), table]


def _testbed_settings(card: "DetectorCard") -> list[RenderableType]:
    """Return the settings for each testbed, and where they come from."""
    if not card.settings:
        return []
    table = grid(min_width=9)
    for testbed, settings in card.settings.items():
        values = ", ".join(f"{name}={value!r}" for name, value in settings.items())
        table.add_row(Text(testbed), Text(values or "the defaults"))
        if source := card.sources.get(testbed):
            table.add_row("", Text(f"from: {source}", style="dim"))
        letter = card.paper_protocol.settings.get(testbed, {})
        changes = [f"{name}={value!r}" for name, value in letter.items()]
        if source := card.paper_protocol.sources.get(testbed):
            if card.paper_protocol.preset:
                changes.append(f"preset {card.paper_protocol.preset!r}")
            changed = ", ".join(changes)
            text = f"protocol paper: {changed}; from: {source}"
            table.add_row("", Text(text, style="dim"))
    return [Text("\nSettings for testbeds", style="bold"), table]


def _settings(kind: "type[LearnedDetector]") -> RenderableType:
    """Return every setting with its default and its value in preset 'official'."""
    official = kind.official
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for header in ("setting", "default", *(["preset official"] if official else [])):
        table.add_column(header, overflow="fold")
    for field in fields(kind.settings_type):
        default = field.default
        if default is MISSING and field.default_factory is not MISSING:
            default = field.default_factory()
        cells = ["required" if default is MISSING else repr(default)]
        if official:
            changed = field.name in official
            cells.append(repr(official[field.name]) if changed else "")
        table.add_row(Text(field.name), *(Text(cell) for cell in cells))
    return table
