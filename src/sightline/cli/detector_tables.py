"""Detectors and their cards, as tables for the terminal."""

from collections.abc import Sequence
from dataclasses import MISSING, fields

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sightline.detectors.base import DetectorCard, LearnedDetector
from sightline.detectors.native_rules.rules import RULES

# What an extra brings, by the name one imports.
MODULES = {"detectors": "torch"}


def detectors_table(
    cards: Sequence[DetectorCard], missing: Sequence[str]
) -> RenderableType:
    """Return what detectors there are; `missing` names extras not installed."""
    # Two columns only: with one for each fact a paper's title becomes a tower of words.
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for card in cards:
        table.add_row(
            Text(card.name),
            Text.assemble(
                f"{card.title}: {card.kind}\n",
                (f"{_ended(card.paper)}\n", "dim"),
                f"residuals: {card.space}; needs {_needs(card)}: ",
                _state(card, missing),
                "\n",
            ),
        )
    return Group(
        table,
        *_how_to_install(cards, missing),
        Text("All about one of them: sightline detectors NAME"),
        Text("One's own detector: any class with fit and residuals does."),
    )


def card_table(kind: type[LearnedDetector], missing: Sequence[str]) -> RenderableType:
    """Return all there is to say about one detector."""
    card = kind.card
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", min_width=9)
    facts.add_column(overflow="fold")
    facts.add_row("paper", Text(_ended(card.paper)))
    facts.add_row("kind", Text(card.kind))
    facts.add_row("residuals", Text(f"{card.space}: observed minus expected"))
    facts.add_row("needs", Text(_needs(card)))
    facts.add_row("state", _state(card, missing))
    return Group(
        Text(f"{card.title} ({card.name})", style="bold"),
        facts,
        *_how_to_install([card], missing),
        *_sentences("As published", card.faithful),
        *_sentences("Not as published, and why", card.deviates),
        *_sentences("Its own alarm rules", _rules(card)),
        *_testbeds(card),
        Text("\nSettings", style="bold"),
        _settings(kind),
    )


def _ended(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


def _needs(card: DetectorCard) -> str:
    if card.extra is None:
        return "nothing more"
    return MODULES.get(card.extra, card.extra)


def _state(card: DetectorCard, missing: Sequence[str]) -> Text:
    if card.extra in missing:
        return Text("not installed", style="yellow")
    return Text("ready", style="green")


def _how_to_install(
    cards: Sequence[DetectorCard], missing: Sequence[str]
) -> list[RenderableType]:
    """Return for each extra that is missing who waits for it, and how to get it."""
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


def _sentences(title: str, texts: Sequence[str]) -> list[RenderableType]:
    if not texts:
        return []
    table = Table.grid(padding=(0, 1))
    table.add_column()
    table.add_column(overflow="fold")
    for text in texts:
        table.add_row("-", Text(text))
    return [Text(f"\n{title}", style="bold"), table]


def _rules(card: DetectorCard) -> list[str]:
    """Return a sentence for each alarm rule of a detector's own."""
    told = []
    for rule in RULES.get(card.name, ()):
        looks = f" Looks at {' and '.join(rule.looks_at)}." if rule.looks_at else ""
        told.append(f"{rule.name}: {rule.what}{looks}")
    return told


def _testbeds(card: DetectorCard) -> list[RenderableType]:
    """Return the settings for each testbed, and where they come from."""
    if not card.settings:
        return []
    table = Table.grid(padding=(0, 2))
    table.add_column(min_width=9, overflow="fold")
    table.add_column(overflow="fold")
    for testbed, settings in card.settings.items():
        told = ", ".join(f"{name}={value!r}" for name, value in settings.items())
        table.add_row(Text(testbed), Text(told or "the defaults"))
        if source := card.sources.get(testbed):
            table.add_row("", Text(f"from: {source}", style="dim"))
    return [Text("\nSettings for testbeds", style="bold"), table]


def _settings(kind: type[LearnedDetector]) -> RenderableType:
    """Return every setting with its default, and what preset 'official' makes of it."""
    official = kind.official
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("setting", overflow="fold")
    table.add_column("default", overflow="fold")
    if official:
        table.add_column("preset official", overflow="fold")
    for field in fields(kind.settings_type):
        default = field.default
        if default is MISSING and field.default_factory is not MISSING:
            default = field.default_factory()
        cells = ["to be given" if default is MISSING else repr(default)]
        if official:
            changed = field.name in official
            cells.append(repr(official[field.name]) if changed else "")
        table.add_row(Text(field.name), *(Text(cell) for cell in cells))
    return table
