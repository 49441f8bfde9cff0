"""The command `watch`, for cron; `alarm` and `answer`, for those who see to alarms."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.table import Table
from typer import Argument, BadParameter, Exit, Option

from sightline.cli.console import DebugOption, console, door
from sightline.progress import progress_bar
from sightline.text import by_kind, counted, names, plural, span_s

if TYPE_CHECKING:
    from sightline.operation.alarms import AlarmRecord

# Alarms that have ended and nobody has acknowledged, of which so many are listed.
_MOST_ENDED = 20
_Settings = Annotated[
    Path | None,
    Option("--settings", help="The watch.toml, if not the one beside the state."),
]


class CsvChoice(StrEnum):
    """What alarms.csv has a row for."""

    ALARMS = "alarms"
    CHANGES = "changes"


class AlarmAction(StrEnum):
    """What is done with alarms."""

    LIST = "list"
    ACK = "ack"
    SHELVE = "shelve"
    UNSHELVE = "unshelve"


class AnswerChoice(StrEnum):
    """What a tag that has moved is."""

    NORMAL = "normal"
    FAULT = "fault"


class VerdictChoice(StrEnum):
    """What an alarm was."""

    REAL = "real"
    MAINTENANCE = "maintenance"
    FALSE = "false"
    UNKNOWN = "unknown"


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
        Option("--out", help="Folder of page, metrics and log; else the state's."),
    ] = None,
    settings: _Settings = None,
    on_alarm: Annotated[
        str | None,
        Option(
            metavar="COMMAND",
            help="Run for each new line of the log, which it gets on standard input.",
        ),
    ] = None,
    csv: Annotated[
        CsvChoice, Option(help="Rows of alarms.csv: one an alarm, or one a change.")
    ] = CsvChoice.ALARMS,
    forget_after: Annotated[
        str | None,
        Option(
            metavar="TIME",
            help="Forget what was read from this time on, as after a wrong clock.",
        ),
    ] = None,
    exit_zero: Annotated[
        bool,
        Option("--exit-zero", help="End with 0 whatever alarms say, for cron mail."),
    ] = False,
    debug: DebugOption = False,
) -> None:
    """Read new exports of a folder, and follow the alarms of a rule.

    Meant for cron: a run reads only files that it has not read yet, in order of their
    time, and goes on where the last run stopped. It writes alarms.jsonl (a line for
    each change of an alarm), alarms.csv, week.html (the last seven days) and
    sightline.prom (metrics for Prometheus). Telemetry passes through the saved detector
    of the rule.

    Exit code 7 if nothing is watched now (no data, or the rule is out of service), 6 if
    an alarm of priority 1 or 2 runs that nobody has acknowledged, 4 if most tags have
    moved and nobody has said for 48 hours whether that is normal (no decision), 3 if
    the rule's promise is broken, or its last one was, 1 if a file could not be read
    (the others were), or has only rows before the last one read. The largest counts.

    \b
    Examples:
      sightline watch rule --folder exports --state watch.db
      sightline watch rule --folder exports --state watch.db --on-alarm ./tell.sh
    """
    from sightline.operation.alarm_files import CsvRows
    from sightline.operation.watch import PAGE, watch_folder

    with door(debug=debug), progress_bar(folder.name) as advance:
        done = watch_folder(
            rule,
            folder,
            state,
            detector=detector,
            residuals=residuals,
            out=out,
            settings=settings,
            on_alarm=on_alarm,
            csv=CsvRows(csv),
            forget_after=forget_after,
            progress=advance,
        )
    screen, errors = console(), console(stderr=True)
    for notice in by_kind(done.notices):
        errors.print(notice, soft_wrap=True)
    read = f"{plural(len(done.read), 'file')} read"
    waiting = f", {names(done.waiting, 3)} left" if done.waiting else ""
    lines = [f"{read}{waiting}; {plural(done.alarms, 'alarm')} of the rule ended."]
    lines += [done.readings] if done.readings else []
    if done.n_waiting:
        said = counted(done.n_waiting, "alarm", "of any kind has", "of all kinds have")
        lines.append(
            f"{said} ended and nobody has acknowledged: sightline alarm list {state}"
        )
    if done.week is not None:
        first = done.week.undecided, done.week.state_line()
        lines = [*filter(None, first), *lines]
        lines += [*done.week.service_lines(), *done.week.facts()]
        lines += done.week.warnings()
    if done.off:
        lines.append(f"Turned off in watch.toml: {names(done.off)}.")
    if done.week is not None:
        lines.append(f"Wrote {(out or state.parent) / PAGE}")
    for line in lines:
        screen.print(line, soft_wrap=True)
    if done.exit_code and not exit_zero:
        raise Exit(done.exit_code)


def alarm_command(
    action: Annotated[AlarmAction, Argument(help="What to do.")],
    state: Annotated[Path, Argument(help="SQLite file of `sightline watch`.")],
    targets: Annotated[
        list[str] | None,
        Argument(metavar="ID|TAG", help="Alarms by their id; shelve also takes tags."),
    ] = None,
    by: Annotated[str, Option("--by", metavar="NAME", help="Who does it.")] = "",
    verdict: Annotated[
        VerdictChoice | None,
        Option("--as", help="What the alarm was; real goes to incidents.csv."),
    ] = None,
    note: Annotated[str, Option("--note", help="In your own words.")] = "",
    shelved_for: Annotated[
        str, Option("--for", metavar="TIME", help="How long it is shelved: 30min, 8h.")
    ] = "8h",
    everything: Annotated[
        bool, Option("--all", help="List all alarms, also those that were seen to.")
    ] = False,
    settings: _Settings = None,
    debug: DebugOption = False,
) -> None:
    """List, acknowledge, shelve and unshelve the alarms of a watch.

    An acknowledged alarm goes on running; a shelved one counts for no exit code until
    its time is over, 24 hours at most. What was done is a line of alarms.jsonl. An
    alarm acknowledged as real becomes a row of incidents.csv beside the state.

    \b
    Examples:
      sightline alarm list watch.db
      sightline alarm ack watch.db 1c0b3d --by Kim --as real --note "valve stuck"
      sightline alarm shelve watch.db LIT101 --by Kim --for 8h
      sightline alarm unshelve watch.db LIT101 --by Kim
    """
    from sightline.data.zones import stamp
    from sightline.operation.alarm_files import alarm_desk
    from sightline.operation.alarms import AlarmVerdict

    chosen = targets or []
    if action is AlarmAction.LIST and chosen:
        raise BadParameter("list takes no id.")
    if action is not AlarmAction.LIST and not (chosen and by):
        raise BadParameter(f"{action} needs the id of an alarm, and --by NAME.")
    if verdict is not None and action is not AlarmAction.ACK:
        raise BadParameter("--as belongs to ack.")
    try:
        seconds = span_s(shelved_for)
    except ValueError as error:
        raise BadParameter(f"--for: {error}") from None
    older: list[AlarmRecord] = []
    with door(debug=debug), alarm_desk(state, settings) as desk:
        if action is AlarmAction.ACK:
            said = None if verdict is None else AlarmVerdict(verdict)
            found = desk.acknowledge(chosen, by, said, note)
        elif action is AlarmAction.SHELVE:
            found = desk.shelve(chosen, by, seconds, note)
        elif action is AlarmAction.UNSHELVE:
            found = desk.unshelve(chosen, by)
        else:
            found, older = desk.alarms(everything=everything, most=_MOST_ENDED)
        remarks = desk.save()
        zone = desk.zone
    for remark in remarks:
        console(stderr=True).print(remark, soft_wrap=True)
    _print_alarms(found, zone)
    if older:
        first, last = (stamp(older[k].start, zone)[:10] for k in (0, -1))
        console().print(
            f"And {plural(len(older), 'older alarm')} that nobody has acknowledged, of "
            f"{first} to {last}: --all lists them.",
            soft_wrap=True,
        )


def answer_command(
    state: Annotated[Path, Argument(help="SQLite file of `sightline watch`.")],
    question: Annotated[str, Argument(metavar="ID", help="Its id, or how it begins.")],
    reply: Annotated[AnswerChoice, Argument(help="What it is.")],
    by: Annotated[str, Option("--by", metavar="NAME", help="Who says so.")],
    note: Annotated[str, Option("--note", help="In your own words.")] = "",
    settings: _Settings = None,
    debug: DebugOption = False,
) -> None:
    """Answer a question of a watch: whether it is normal that a tag has moved.

    A rule follows means that move slowly; a jump it never learns unasked. After normal
    the tag is judged by where it lies now, and so is what jumped in the same night; no
    limit changes. After fault, or without an answer, its alarm stands. Where more than
    half of the tags moved together it is one question, and the answer is for all of
    them. A fault becomes a row of incidents.csv beside the state; every answer is a row
    of answers.csv for each tag, which `sightline apply --answers` takes.

    \b
    Examples:
      sightline answer watch.db 1c0b3d normal --by Kim
      sightline answer watch.db 1c0b3d fault --by Kim
    """
    from sightline.operation.alarm_files import alarm_desk
    from sightline.operation.questions import Reply

    with door(debug=debug), alarm_desk(state, settings) as desk:
        found = desk.answer(question, Reply(reply), by, note)
        remarks = desk.save()
        zone = desk.zone
    for remark in remarks:
        console(stderr=True).print(remark, soft_wrap=True)
    _print_alarms(found, zone)


def _print_alarms(alarms: "list[AlarmRecord]", zone: str | None) -> None:
    """Print alarms, one row each."""
    from sightline.operation.alarm_files import state_words

    if not alarms:
        console().print("No alarm is open.")
        return
    table = Table(box=None, pad_edge=False)
    for name in ("id", "priority", "state", "kind", "what"):
        table.add_column(name, no_wrap=name == "id")
    for one in alarms:
        by = f" ({one.by})" if one.by not in ("", "rule") else ""
        state = f"{state_words(one)}{by}"
        table.add_row(one.id, str(one.priority), state, one.kind, one.text(zone))
    console().print(table)
