"""The commands `testbeds`, `inspect`, `simulate`, `detectors` and `cache`."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Group, RenderableType
from rich.text import Text
from typer import Argument, Exit, Option

from sightline.cli.console import DebugOption, NoCacheOption, console, door
from sightline.progress import progress_bar
from sightline.show.table import RecordTable
from sightline.show.terminal import bullets, facts, rendered
from sightline.text import names, plural, size

if TYPE_CHECKING:
    from sightline.audit.record import Audit
    from sightline.detectors.base import DetectorCard, LearnedDetector
    from sightline.plugins import Registry
    from sightline.testbeds.base import TestbedCard

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
    from sightline.testbeds import READERS, SIMULATED, found_releases, list_testbeds
    from sightline.testbeds.csv_reader import find_files

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
        moving = sum(truth.moves for truth in simulation.truth)
        console().print(
            f"{simulation.train.n_steps:,} steps of train, "
            f"{simulation.test.n_steps:,} of test with {len(simulation.truth)} "
            f"attacks, of which {moving} change a measured value.\n"
            f"Written to {out}/: train.parquet, test.parquet, attacks.csv, tags.csv, "
            f"truth.csv, {simulation.name}.png and more.",
            soft_wrap=True,
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
        known: list[tuple[str, str | Text]] = [
            ("what", card.what),
            ("channels", card.channels),
            ("attacks", card.attacks),
            ("releases", ", ".join(card.releases) if len(card.releases) > 1 else ""),
            ("licence", card.licence),
            ("to get it", card.where),
            ("found", _found(card, releases)),
        ]
        pairs = [(name, text) for name, text in known if text]
        parts += [Text(card.name, style="bold"), facts(pairs, min_width=10), Text()]
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
    from sightline.audit.record import Severity
    from sightline.show.catalogue import files_table

    styles = {
        Severity.ERROR: "bold red",
        Severity.WARNING: "bold yellow",
        Severity.NOTE: "yellow",
    }
    pairs = []
    for one in audit.findings:
        text = Text(one.text)
        if one.is_serious:
            text.append(f" {one.effect}", style="dim")
            text.append(f" {one.remedy}" if one.remedy else "")
        pairs.append((Text(f"{one.code} {one.severity}", styles[one.severity]), text))
    pairs += [(Text("passed", style="green"), Text(text)) for text in audit.passed]
    verdict = Text("\nThe data are what they should be.", style="green")
    if not audit.is_right:
        errors = plural(len(audit.errors), "error")
        words = f"\nThe data are not what they should be: {errors} above."
        verdict = Text(words, style="bold red")
    elif audit.serious:
        warnings = plural(len(audit.serious), "warning")
        words = f"\nRead {warnings} above before you use the data."
        verdict = Text(words, style="bold yellow")
    return Group(rendered(files_table(audit)), facts(pairs, dim=False), verdict)


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
    pairs = [
        (
            Text(card.name, style="bold", no_wrap=True),
            Text.assemble(
                f"{card.title}: {card.kind}\n",
                (f"{card.paper.removesuffix('.')}.\n", "dim"),
                f"residuals: {card.space}; needs {_needs(card)}: ",
                _state(card, missing),
                "\n",
            ),
        )
        for card in cards
    ]
    return Group(
        facts(pairs, dim=False),
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
    from sightline.show.catalogue import defaults_table

    card = kind.card
    known: list[tuple[str, str | Text]] = [
        ("paper", f"{card.paper.removesuffix('.')}."),
        ("kind", card.kind),
        ("residuals", f"{card.space}: observed minus expected"),
        ("needs", _needs(card)),
        ("state", _state(card, missing)),
    ]
    rules = [
        f"{rule.name}: {rule.what}"
        + (f" Looks at {' and '.join(rule.looks_at)}." if rule.looks_at else "")
        for rule in kind.rules
    ]
    choices = []
    for name, choice in card.choices.items():
        made = [f"{key}={value!r}" for key, value in choice.settings.items()]
        if choice.train_share < 1:
            made.append(f"the first {choice.train_share:.1%} of train's rows")
        choices.append(f"{name} ({', '.join(made)}): {choice.why}")
    return Group(
        Text(f"{card.title} ({card.name})", style="bold"),
        facts(known, min_width=9),
        *_how_to_install([card], missing),
        *bullets("As published", card.faithful),
        *bullets("Not as published, and why", card.deviates),
        *bullets("Its own alarm rules", rules),
        *_testbed_settings(card),
        *bullets("Choices that others may have made, none of them here", choices),
        Text("\nSettings", style="bold"),
        rendered(defaults_table(kind)),
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
        needing = [card.name for card in cards if card.extra == extra]
        if needing:
            verb = "needs" if len(needing) == 1 else "need"
            parts.append(
                Text(
                    f"{', '.join(needing)} {verb} {MODULES.get(extra, extra)}, which "
                    f'is not installed yet: pip install "sightline-cps[{extra}]"',
                    style="yellow",
                )
            )
    return parts


def _testbed_settings(card: "DetectorCard") -> list[RenderableType]:
    """Return the settings for each testbed, and where they come from."""
    if not card.settings:
        return []
    pairs: list[tuple[str, str | Text]] = []
    for testbed, settings in card.settings.items():
        values = ", ".join(f"{name}={value!r}" for name, value in settings.items())
        pairs.append((testbed, values or "the defaults"))
        if source := card.sources.get(testbed):
            pairs.append(("", Text(f"from: {source}", style="dim")))
        letter = card.paper_protocol.settings.get(testbed, {})
        changes = [f"{name}={value!r}" for name, value in letter.items()]
        if source := card.paper_protocol.sources.get(testbed):
            if card.paper_protocol.preset:
                changes.append(f"preset {card.paper_protocol.preset!r}")
            text = f"protocol paper: {', '.join(changes)}; from: {source}"
            pairs.append(("", Text(text, style="dim")))
    table = facts(pairs, dim=False, min_width=9)
    return [Text("\nSettings for testbeds", style="bold"), table]


# A folder with one of these is the cache of a study.
_STUDY_PARTS = ("cells", "evaluations", "testbeds")
_MOST_NAMES = 4


def cache_command(
    paths: Annotated[
        list[Path] | None,
        Argument(
            metavar="[PATH]...",
            help="Folders with data, with copies, or of a study; all by default.",
        ),
    ] = None,
    clear: Annotated[
        bool, Option("--clear", help="Remove the copies, and nothing else.")
    ] = False,
    debug: DebugOption = False,
) -> None:
    """List the Parquet copies of testbeds' files, or remove them.

    Copies make reading faster and can be made again at any time. SIGHTLINE_CACHE=PATH
    puts new ones elsewhere, SIGHTLINE_CACHE=off and --no-cache make none.

    \b
    Examples:
      sightline cache
      sightline cache --clear /data/swat
    """
    from sightline.show.catalogue import COPIES, CopiesPlace
    from sightline.testbeds.copies import clear_copies, list_copies

    with door(debug=debug):
        studies = [cache for path in paths or () if (cache := _study_cache(path))]
        others = [path for path in paths or () if _study_cache(path) is None]
        # Without paths all copies are meant; with studies alone, none.
        is_for_copies = bool(others) or not paths
        if clear:
            for cache in studies:
                console().print(
                    f"{cache}: holds finished cells of a study, which are not copies, "
                    "and was left; delete the folder if the study is complete.",
                    soft_wrap=True,
                )
            cleared = 0
            for place in clear_copies(others) if is_for_copies else ():
                cleared += 1
                text = f"{place.folder}: removed {plural(place.n_files, 'file')}"
                text += f" ({size(place.n_bytes)})"
                if place.others:
                    left = names(place.others, _MOST_NAMES)
                    text += f"; left {left}, which Sightline did not write"
                console().print(f"{text}.", soft_wrap=True)
            if is_for_copies and not cleared:
                console().print("There are no copies to remove.")
            return
        listed = list_copies(others) if is_for_copies else []
        if not listed and not studies:
            console().print("There are no copies.")
            return
        places = [
            CopiesPlace(
                one.folder,
                f"for {'unknown files' if one.root is None else one.root}",
                one.n_files,
                one.n_bytes,
                one.last_used,
            )
            for one in listed
        ]
        for cache in studies:
            files = [file.stat() for file in cache.rglob("*") if file.is_file()]
            n_bytes = sum(file.st_size for file in files)
            last = max((file.st_mtime for file in files), default=None)
            what = "finished cells of a study"
            places.append(CopiesPlace(cache, what, len(files), n_bytes, last))
        total = size(sum(one.n_bytes for one in listed))
        title = f"Parquet copies: {total} in all"
        console().print(rendered(RecordTable(title, COPIES, places)))


def _study_cache(path: Path) -> Path | None:
    """Return the cache of a study at a path, or in its folder ``cache``; else None."""
    for folder in (path, path / "cache"):
        if any((folder / part).is_dir() for part in _STUDY_PARTS):
            return folder
    return None
