"""The command `watch`: a rule that reads a folder of exports, for cron."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Exit, Option

from sightline.cli.console import DebugOption, console, door
from sightline.progress import progress_bar
from sightline.text import names, plural


def watch_command(
    rule: Annotated[Path, Argument(help="The rule.json, or the folder that holds it.")],
    folder: Annotated[Path, Option("--folder", help="Folder in which exports arrive.")],
    state: Annotated[
        Path, Option("--state", help="SQLite file that remembers everything.")
    ],
    detector: Annotated[
        Path | None,
        Option("--detector", help="Saved detector, if not where the rule says."),
    ] = None,
    residuals: Annotated[
        bool,
        Option("--residuals", help="The tables hold residuals, not telemetry."),
    ] = False,
    out: Annotated[
        Path | None,
        Option("--out", help="Folder of page, metrics and lines; else the state's."),
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Read new exports of a folder, and list the alarms of a rule.

    Meant for cron: a run reads only files that it has not read yet, in order of their
    time, and goes on where the last run stopped. It writes week.html (the last seven
    days), sightline.prom (metrics for Prometheus) and episodes.jsonl (a line for each
    alarm that has ended). Telemetry passes through the saved detector of the rule.

    Exit code 3 if the last seven days broke the rule's promise, 1 if a file could not
    be read (the others were).

    \b
    Example:
      sightline watch rule --folder exports --state watch.db
    """
    from sightline.operation.watch import PAGE, watch_folder

    with door(debug=debug), progress_bar(folder.name) as advance:
        done = watch_folder(
            rule,
            folder,
            state,
            detector=detector,
            residuals=residuals,
            out=out,
            progress=advance,
        )
    screen, errors = console(), console(stderr=True)
    for notice in done.notices:
        errors.print(notice, soft_wrap=True)
    read = f"{plural(len(done.read), 'file')} read"
    waiting = f", {names(done.waiting, 3)} left" if done.waiting else ""
    ended = f"{plural(done.alarms, 'alarm')} ended"
    screen.print(f"{read}{waiting}; {ended}.", soft_wrap=True)
    if done.week is not None:
        for sentence in done.week.sentences():
            screen.print(sentence, soft_wrap=True)
        screen.print(f"Wrote {(out or state.parent) / PAGE}", soft_wrap=True)
    if done.is_broken:
        raise Exit(3)
    if done.broken:
        raise Exit(1)
