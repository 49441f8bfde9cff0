"""The typer application: the list of commands. Each lives in its own module.

A new command is a function in the module of its group, and one line here. Its options
are annotated parameters, its docstring is its help page, and its body runs within
`console.door`.
"""

from itertools import islice
from pathlib import Path
from shlex import quote
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


# What `sightline` alone prints, with three lines of what fits the folder.
BEGIN = """\
What an anomaly detector can see, before any alarm rule is chosen.

Where to begin:
{}

  sightline --help                    all commands
  sightline evaluate --help           options of a command, with examples
  sightline --install-completion      commands and options by the tab key"""
_TABLES = (".csv", ".csv.gz", ".txt", ".xlsx", ".xls", ".parquet")
# Files of a folder that are looked at.
_MOST_FILES = 1000


def beginnings(folder: Path) -> list[tuple[str, str]]:
    """Return the three lines to start from: what lies in a folder comes first.

    Parameters
    ----------
    folder : Path
        The current folder.

    Returns
    -------
    list of (str, str)
        A command and what it does: residuals, a plant, the demo.
    """
    try:
        names = sorted(path.name for path in islice(folder.iterdir(), _MOST_FILES))
    except OSError:
        names = []
    streams = [quote(name) for name in names if name.endswith(".npz")]
    tables = [name for name in names if name.lower().endswith(_TABLES)]
    plants = [quote(n) for n in names if (folder / n / "plant.toml").is_file()]
    if "plant.toml" in names:
        plants, tables = ["."], []
    residuals = (
        f"evaluate {streams[0] if streams else 'mine.npz'} --out result",
        "residuals of your own detector",
    )
    plant = ("start export.csv", "your own plant, from a historian's export")
    if plants:
        plant = (f"run {plants[0]}", "train detectors on this plant, with a report")
    elif tables:
        # The largest; a list of incidents is no export. Of several of one form all.
        largest = max(tables, key=lambda name: (folder / name).stat().st_size)
        form = largest.partition(".")[2]
        alike = [name for name in tables if name.partition(".")[2] == form]
        plant = (f"start {f'*.{form}' if alike[1:] else quote(largest)}", plant[1])
    demo = ("demo --quick", "a simulated plant, in a minute or two")
    if plants or (tables and not streams):
        return [plant, residuals, demo]
    return [residuals, plant, demo]


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
        lines = beginnings(Path.cwd())
        width = max(len(command) for command, _ in lines)
        begin = (f"  sightline {one:<{width}}   {what}" for one, what in lines)
        echo(BEGIN.format("\n".join(begin)))
