"""Help pages, the first words to a new user, and completion by the shell."""

import os
import subprocess
import sys

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from sightline.cli.app import BEGIN, app

COMMANDS = get_command(app).commands


def said(*arguments):
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize("command", [None, *COMMANDS])
def test_every_help_page_has_an_example(command):
    page = said(*filter(None, [command]), "--help")
    heading = "Example:" if "Example:" in page else "Examples:"
    examples = page.partition(heading)[2].splitlines()[1:]
    first = f"sightline {command}" if command else "sightline "
    assert examples[0].strip().startswith(first)


def options_of(command):
    return {name for option in command.params for name in option.opts}


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_use_options_that_exist(name):
    page = said(name, "--help")
    lines = [
        line for line in page.splitlines() if line.startswith(f"    sightline {name}")
    ]
    assert lines
    used = {word for line in lines for word in line.split() if word.startswith("--")}
    assert used <= options_of(COMMANDS[name])


def test_the_command_alone_says_where_to_begin():
    text = said()
    before, after = BEGIN.split("{}")
    assert text.startswith(before)
    assert text.strip().endswith(after)
    begun = [line.split()[1] for line in text.splitlines() if "  sightline " in line]
    assert set(begun) <= {*COMMANDS, "--help", "--install-completion"}


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("comm", "commission"),
        ("detectors ge", "geco"),
        ("evaluate --pro", "--protocol"),
    ],
)
def test_the_shell_completes(typed, offered):
    words = f"sightline {typed}"
    completing = os.environ | {
        "_SIGHTLINE_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    code = (
        "import sys; from sightline.__main__ import main; "
        "sys.argv[0] = 'sightline'; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=completing, capture_output=True, text=True
    )
    assert offered in done.stdout.split()
