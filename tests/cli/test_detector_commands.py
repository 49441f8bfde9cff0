"""The command about detectors: what it prints, and how it exits."""

import re
import sys
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from sightline.cli import catalogue
from sightline.cli.catalogue import card_table, detectors_table
from sightline.detectors import detector_type, list_detectors
from sightline.detectors.base import DetectorCard, LearnedDetector
from sightline.detectors.settings import Settings

CARDS = list_detectors()
NAMES = [card.name for card in CARDS]
PIP = 'pip install "sightline-cps[detectors]"'


@pytest.fixture
def app():
    made = typer.Typer()
    made.command("detectors")(catalogue.detectors_command)
    return made


@pytest.fixture
def without_torch(monkeypatch):
    monkeypatch.setattr(catalogue, "find_spec", lambda module: None)


@pytest.fixture
def with_torch(monkeypatch):
    monkeypatch.setattr(catalogue, "find_spec", lambda module: object())


def joined(text):
    return re.sub(r"\s+", " ", text)


def said(app, *arguments, code=0):
    """Return what was printed, words joined as a reader joins them."""
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == code, result.output
    assert result.stderr == ""
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "\N{HORIZONTAL ELLIPSIS}" not in result.stdout
    return joined(result.stdout)


def shown(table, width):
    """Return a table as a terminal of so many columns shows it, all blanks out."""
    screen = Console(width=width, markup=False, emoji=False, highlight=False)
    with screen.capture() as kept:
        screen.print(table)
    assert max(map(len, kept.get().splitlines())) <= width
    return kept.get()


# ---- the list ----------------------------------------------------------------------


def test_every_detector_is_listed_with_its_paper(app, with_torch):
    text = said(app)
    for card in CARDS:
        for word in (card.name, card.title, card.kind, card.paper, card.space):
            assert word in text, word
    assert text.count(": ready") == len(CARDS)
    assert "pip install" not in text
    assert "sightline detectors NAME" in text


def test_what_is_missing_is_said_with_the_way_to_get_it(app, without_torch):
    text = said(app)
    waiting = [card.name for card in CARDS if card.extra == "detectors"]
    assert f"{', '.join(waiting)} need torch, which is not installed yet: {PIP}" in text
    assert text.count(PIP) == 1
    assert text.count(": not installed") == len(waiting)
    assert text.count(": ready") == len(CARDS) - len(waiting)


def test_torch_is_looked_for_and_not_imported(app, monkeypatch):
    asked = []
    monkeypatch.setattr(catalogue, "find_spec", asked.append)
    # Any import of it would fail now.
    monkeypatch.setitem(sys.modules, "torch", None)
    said(app)
    assert asked[0] == "torch"


# ---- one card ----------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_card_is_told_in_full(app, with_torch, name):
    text = said(app, name)
    card = detector_type(name).card
    told = [card.name, card.title, card.paper, card.kind, card.space]
    told += [*card.faithful, *card.deviates, *card.settings, *card.sources.values()]
    for word in told:
        assert word in text, word
    for setting in detector_type(name)().settings.to_dict():
        assert setting in text, setting
    assert "pip install" not in text


@pytest.mark.parametrize("name", NAMES)
def test_a_card_says_what_is_missing(app, without_torch, name):
    text = said(app, name)
    needs = detector_type(name).card.extra == "detectors"
    wanted = f"{name} needs torch, which is not installed yet: {PIP}"
    assert (wanted in text) == needs


def test_a_name_that_is_nearly_right_is_set_right(app):
    result = CliRunner().invoke(app, ["GND"])
    assert result.exit_code == 1
    assert re.fullmatch(r"error: [^\n]+\n", result.stderr)
    assert "'gdn'" in result.stderr
    assert result.stdout == ""


def test_an_unknown_name_is_refused_with_those_there_are(app):
    result = CliRunner().invoke(app, ["zzz"])
    assert result.exit_code == 1
    assert re.fullmatch(r"error: [^\n]+\n", result.stderr)
    for name in NAMES:
        assert name in result.stderr


# ---- what a table must bear --------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class OddSettings(Settings):
    """Settings of several kinds."""

    depth: int = 3
    betas: tuple[float, float] = (0.9, 0.5)
    rate: float = 1e-4
    mode: str = "[bold]fast"
    limit: int | None = None


class Odd(LearnedDetector):
    """A detector with a strange card; it is never made."""

    card: ClassVar[DetectorCard] = DetectorCard(
        name="odd", title="Odd [red]one", paper="Nobody", kind=":smile:", space="mine"
    )
    settings_type: ClassVar[type[Settings]] = OddSettings
    official: ClassVar[dict[str, Any]] = {"depth": 77, "limit": None}


def test_settings_are_shown_as_one_types_them():
    lines = [line.split() for line in shown(card_table(Odd, []), 80).splitlines()]
    assert ["setting", "default", "preset", "official"] in lines
    assert ["depth", "3", "77"] in lines
    assert ["betas", "(0.9,", "0.5)"] in lines
    assert ["rate", "0.0001"] in lines
    assert ["mode", "'[bold]fast'"] in lines
    assert ["limit", "None", "None"] in lines


def test_a_card_without_testbeds_or_deviations_leaves_them_out():
    text = shown(card_table(Odd, ["detectors"]), 80)
    assert "Odd [red]one (odd)" in text
    assert ":smile:" in text
    assert "needs      nothing more" in text
    assert "published" not in text
    assert "testbeds" not in text
    assert "pip install" not in text


@pytest.mark.parametrize("width", [1, 5, 12, 20, 40, 80, 133, 400])
@pytest.mark.parametrize("missing", [[], ["detectors"]])
def test_any_terminal_is_wide_enough(width, missing):
    tables = [detectors_table(CARDS, missing)]
    tables += [card_table(detector_type(name), missing) for name in NAMES]
    for table in tables:
        text = shown(table, width)
        if width >= 20:
            assert "residuals" in text


def test_no_detector_at_all_is_no_error():
    assert "NAME" in shown(detectors_table([], ["detectors"]), 80)
