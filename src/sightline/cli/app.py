"""The typer application: the list of commands. Each lives in its own module.

A new command is a function in the module of its group, and one line here. Its options
are annotated parameters, its docstring is its help page, and its body runs within
`console.door`.
"""

from typing import Annotated, Any

from typer import Context, Exit, Option, Typer, echo
from typer.core import TyperCommand

from sightline._version import __version__
from sightline.cli import catalogue
from sightline.cli.blindspots import blindspots_command
from sightline.cli.cards import card_command, verify_command
from sightline.cli.evaluate import (
    compare_command,
    episodes_command,
    evaluate_command,
    report_command,
)
from sightline.cli.improve import improve_command
from sightline.cli.lint import lint_command
from sightline.cli.rules import (
    apply_command,
    commission_command,
    recommission_command,
)
from sightline.cli.sensitivity import sensitivity_command
from sightline.cli.start import start_command
from sightline.cli.study import demo_command, run_command, study_command
from sightline.cli.watch import alarm_command, answer_command, watch_command


class Command(TyperCommand):
    """A command whose files are checked where they are read.

    The framework would refuse an unreadable file as wrong usage, with exit code 2.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for parameter in self.params:
            kind: Any = getattr(parameter, "type", None)
            if hasattr(kind, "readable"):
                kind.readable = False


# What `sightline` alone prints.
BEGIN = """\
What an anomaly detector can see, before any alarm rule is chosen.

Where to begin:
  sightline demo --quick              a simulated plant, in a minute or two
  sightline evaluate mine.npz         residuals of your own detector
  sightline start export.csv          your own plant, from a historian's export
  sightline run plant                 train detectors on it, and write the report
  sightline commission stream.npz     an alarm rule for your number of alarms a day

  sightline --help                    all commands
  sightline evaluate --help           options of a command, with examples
  sightline --install-completion      commands and options by the tab key"""

app = Typer(
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    # Boxes would load rich's Markdown and pygments: twice the time of a help page.
    rich_markup_mode=None,
)
app.command("demo", cls=Command)(demo_command)
app.command("evaluate", cls=Command)(evaluate_command)
app.command("report", cls=Command)(report_command)
app.command("compare", cls=Command)(compare_command)
app.command("sensitivity", cls=Command)(sensitivity_command)
app.command("card", cls=Command)(card_command)
app.command("verify", cls=Command)(verify_command)
app.command("commission", cls=Command)(commission_command)
app.command("apply", cls=Command)(apply_command)
app.command("recommission", cls=Command)(recommission_command)
app.command("blindspots", cls=Command)(blindspots_command)
app.command("improve", cls=Command)(improve_command)
app.command("episodes", cls=Command)(episodes_command)
app.command("testbeds", cls=Command)(catalogue.list_testbeds_command)
app.command("start", cls=Command)(start_command)
app.command("inspect", cls=Command)(catalogue.inspect_command)
app.command("simulate", cls=Command)(catalogue.simulate_command)
app.command("detectors", cls=Command)(catalogue.detectors_command)
app.command("lint", cls=Command)(lint_command)
app.command("cache", cls=Command)(catalogue.cache_command)
app.command("run", cls=Command)(run_command)
app.command("study", cls=Command)(study_command)
app.command("watch", cls=Command)(watch_command)
app.command("alarm", cls=Command)(alarm_command)
app.command("answer", cls=Command)(answer_command)


def _print_version(wanted: bool) -> None:
    if wanted:
        echo(f"sightline {__version__}")
        raise Exit


@app.callback()
def main(
    context: Context,
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
    """Show what an anomaly detector can see, before any alarm rule is chosen.

    \b
    Examples:
      sightline demo --quick
      sightline evaluate mine.npz --step 1 --out result
    """
    if context.invoked_subcommand is None:
        echo(BEGIN)
