"""The command `lint`: protocol checks with codes."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.text import Text
from typer import Argument, Exit, Option

from sightline.cli.console import DebugOption, console, door
from sightline.progress import progress_bar

if TYPE_CHECKING:
    from sightline.study.lint import LintReport

# A finding of severity error is a check that failed.
FAILED = 3
_STYLES = {"error": "red", "warning": "yellow", "note": "dim"}


def lint_command(
    paths: Annotated[
        list[Path],
        Argument(
            metavar="STREAM|RESULT|STUDY...",
            help="Streams, result folders, folders of studies, or plans (*.toml).",
        ),
    ],
    ignore: Annotated[
        list[str] | None,
        Option(help="A code that is not reported, or several separated by commas."),
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Check how streams were made and judged; each finding has a code.

    Looks for a limit or scaler that saw the test, point adjustment, labels that lag,
    train inside test, units that decide, and more: docs/lint.md has every code. Exits
    with 3 if a finding is an error.

    \b
    Examples:
      sightline lint gdn.npz
      sightline lint study/ --ignore SL109,SL110
      sightline lint studies/paper.toml
    """
    from sightline.study.lint import lint

    with door(debug=debug):
        codes = [one.strip() for text in ignore or [] for one in text.split(",")]
        reports: list[LintReport] = []
        for path in paths:
            with progress_bar(path.name) as progress:
                reports += lint(path, ignore=codes, progress=progress)
    screen = console()
    for report in reports:
        for one in report.findings:
            line = f"{report.subject}: {one.line}"
            screen.print(Text(line, style=_STYLES[one.severity]), soft_wrap=True)
        if not report.findings:
            screen.print(f"{report.subject}: nothing found.", soft_wrap=True)
    if any(report.has_error for report in reports):
        raise Exit(FAILED)
