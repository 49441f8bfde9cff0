"""What all commands share: a console, a progress bar, and one door for errors."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper

import typer
from rich.console import Console

from sightline.errors import SightlineError


def console(*, stderr: bool = False) -> Console:
    """Return a console that prints names of files and tags as they are."""
    stream = sys.stderr if stderr else sys.stdout
    if isinstance(stream, TextIOWrapper):
        # A name may hold what the terminal has no character for.
        stream.reconfigure(errors="backslashreplace")
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


@contextmanager
def door(*, debug: bool) -> Iterator[None]:
    """Turn expected errors into one sentence and exit code 1: here, nowhere else."""
    try:
        yield
    except SightlineError as error:
        if debug:
            raise
        console(stderr=True).print(f"error: {error}", soft_wrap=True)
        raise typer.Exit(1) from error
