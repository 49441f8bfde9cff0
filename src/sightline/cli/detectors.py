"""The command `detectors`: a list of all detectors, or the card of one."""

from collections.abc import Sequence
from dataclasses import MISSING, fields
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from typer import Argument

from sightline.cli.console import DebugOption, console, door, grid

if TYPE_CHECKING:
    from sightline.detectors.base import DetectorCard, LearnedDetector

# The module that each optional extra of the package installs.
MODULES = {"detectors": "torch"}


def detectors_command(
    name: Annotated[
        str | None, Argument(metavar="NAME", help="Show the card of this detector.")
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
    from sightline.detectors import detector_type, list_detectors

    with door(debug=debug):
        # `find_spec` does not import: torch alone takes seconds.
        missing = [extra for extra, module in MODULES.items() if not find_spec(module)]
        console().print(
            detectors_table(list_detectors(), missing)
            if name is None
            else card_table(detector_type(name), missing)
        )


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
                    f'not installed yet: pip install "sightline[{extra}]"',
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
