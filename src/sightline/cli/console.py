"""What all commands share: consoles, option types, and the handling of errors."""

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

from typer import Exit, Option

from sightline.errors import FileError, SightlineError
from sightline.files import sole_writer
from sightline.progress import TIME_SPENT
from sightline.terminal import Terminal

DebugOption = Annotated[bool, Option("--debug", help="Show the traceback of an error.")]
BudgetOption = Annotated[
    str | None,
    Option(
        metavar="BUDGET",
        help="False alarms accepted, such as 6/day,1% (the default) or 1/week: alarms "
        "and share of attack-free time in alarm.",
    ),
]
JobsOption = Annotated[
    int | None,
    Option(min=1, help="Threads that work at a time; by default one for each core."),
]
NoCacheOption = Annotated[
    bool,
    Option("--no-cache", help="Neither read nor write Parquet copies of the files."),
]
LabelSlopOption = Annotated[
    float | None,
    Option(
        "--label-slop",
        metavar="SECONDS",
        min=0,
        help="Seconds by which labels may begin late or end early; by default 60.",
    ),
]
ProtocolOption = Annotated[
    str,
    Option(help="sightline, or paper: to the letter of the paper (docs/paper.md)."),
]


def console(*, stderr: bool = False) -> Terminal:
    """Return a console; characters that its encoding cannot show are escaped.

    Parameters
    ----------
    stderr : bool
        Whether to print to standard error instead of standard output.
    """
    stream = sys.stderr if stderr else sys.stdout
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    return Terminal(stderr=stderr)


@contextmanager
def door(
    *, debug: bool, writes: Sequence[Path | None] = (), timed: bool = False
) -> Iterator[None]:
    """Print an expected error as one sentence and exit with code 1.

    This is the only place where a `SightlineError` ends. Any other exception is a bug
    and keeps its traceback.

    Parameters
    ----------
    debug : bool
        Whether to let the error pass with its traceback.
    writes : sequence of Path or None
        Files and folders that the command writes. It is their sole writer from its
        first check to its last line: a second run is refused at once.
    timed : bool
        Whether to say at the end where the time went, if it was long.
    """
    # Imported here: help does without it.
    from sightline.parallel import return_freed_arrays

    return_freed_arrays()
    TIME_SPENT.begin()
    try:
        with ExitStack() as held:
            for path in writes:
                if path is not None:
                    held.enter_context(sole_writer(path))
            yield
        TIME_SPENT.at()
        if timed and TIME_SPENT.line:
            console(stderr=True).print(TIME_SPENT.line, style="dim", soft_wrap=True)
    except SightlineError as error:
        if debug:
            raise
        console(stderr=True).print(f"error: {error}", soft_wrap=True)
        raise Exit(1) from error


def as_options(text: str, column: str = "--{}") -> str:
    """Return a text that names options of the command in place of keys of plant.toml.

    Parameters
    ----------
    text : str
        An error message.
    column : str
        The option that says which column is what, with ``{}`` for what it is.

    Examples
    --------
    >>> as_options("name it with time in the section [columns] of plant.toml.")
    'name it with --time.'
    """

    def options(match: re.Match[str]) -> str:
        return " or ".join(column.format(role) for role in match[1].split(" or "))

    text = re.sub(
        r"(\w+(?: or \w+)?) in (?:the section )?\[columns\] of plant\.toml",
        options,
        text,
    )
    for key in ("time_format", "timezone"):
        text = text.replace(f"{key} in plant.toml", f"--{key.replace('_', '-')}")
    return text


@contextmanager
def options_named(column: str = "--{}") -> Iterator[None]:
    """Name options of the command in errors; see `as_options`."""
    try:
        yield
    except FileError as error:
        raise FileError(as_options(str(error), column)) from error


def shown_notices(
    notices: Sequence[str], skipped: Sequence[str], n_testbeds: int
) -> list[str]:
    """Return the notices to print; on a single testbed, not what was skipped.

    The tables and figures of the paper compare testbeds and seeds, which a single plant
    does not have.

    Parameters
    ----------
    notices : sequence of str
        All of them.
    skipped : sequence of str
        Those about a skipped table or figure.
    n_testbeds : int
        Testbeds among the results.

    Examples
    --------
    >>> shown_notices(["One seed.", "No table."], ["No table."], n_testbeds=1)
    ['One seed.']
    """
    if n_testbeds != 1:
        return list(notices)
    return [notice for notice in notices if notice not in skipped]


def check_free(out: Path, name: str, *, overwrite: bool) -> None:
    """Refuse, before any work is done, to write over earlier results."""
    from sightline.files import reading

    with reading(out):
        if out.exists() and not out.is_dir():
            raise FileError(f"{out}: is no folder: choose another --out.")
        if (out / name).exists() and not overwrite:
            raise FileError(
                f"{out / name}: exists and is kept: choose another --out, or pass "
                "--overwrite."
            )
