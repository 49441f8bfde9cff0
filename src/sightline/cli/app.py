"""The typer application: the list of commands. Each lives in its own module.

A new command is a function in the module of its group, and one line here. Its options
are annotated parameters, its docstring is its help page, and its body runs within
`console.door`.
"""

from typing import Annotated

from typer import Exit, Option, Typer, echo

from sightline._version import __version__
from sightline.cli import catalogue
from sightline.cli.blindspots import blindspots_command
from sightline.cli.caches import cache_command
from sightline.cli.episodes import episodes_command
from sightline.cli.evaluate import compare_command, evaluate_command, report_command
from sightline.cli.lint import lint_command
from sightline.cli.rules import apply_command, commission_command
from sightline.cli.start import start_command
from sightline.cli.study import demo_command, run_command, study_command
from sightline.cli.watch import watch_command

app = Typer(
    help="What an anomaly detector can see, before any alarm rule is chosen.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    # Boxes would load rich's Markdown and pygments: twice the time of a help page.
    rich_markup_mode=None,
)
app.command("demo")(demo_command)
app.command("evaluate")(evaluate_command)
app.command("report")(report_command)
app.command("compare")(compare_command)
app.command("commission")(commission_command)
app.command("apply")(apply_command)
app.command("blindspots")(blindspots_command)
app.command("episodes")(episodes_command)
app.command("testbeds")(catalogue.list_testbeds_command)
app.command("start")(start_command)
app.command("inspect")(catalogue.inspect_command)
app.command("simulate")(catalogue.simulate_command)
app.command("detectors")(catalogue.detectors_command)
app.command("lint")(lint_command)
app.command("cache")(cache_command)
app.command("run")(run_command)
app.command("study")(study_command)
app.command("watch")(watch_command)


def _print_version(wanted: bool) -> None:
    if wanted:
        echo(f"sightline {__version__}")
        raise Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Show the version.",
        ),
    ] = False,
) -> None:
    """Show what an anomaly detector can see, before any alarm rule is chosen."""
