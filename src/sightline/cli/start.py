"""The command `start`: from exports of a historian to a plant's folder."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from zoneinfo import ZoneInfo

from rich.console import Group, RenderableType
from rich.text import Text
from typer import Argument, BadParameter, Exit, Option

from sightline.cli.console import (
    DebugOption,
    as_options,
    console,
    door,
    options_named,
)
from sightline.errors import FileError, SightlineError
from sightline.progress import Progress, Step, StepKind, progress_bar
from sightline.show.terminal import bullets, facts
from sightline.text import by_kind, exact, names

if TYPE_CHECKING:
    from sightline.audit.record import Audit
    from sightline.testbeds.own_plant.look import Export
    from sightline.testbeds.own_plant.proposal import Proposal
    from sightline.testbeds.own_plant.settings import ColumnNames

# Exit code if tags were left out.
TAGS_DROPPED = 5
# The option that says which column is what.
_COLUMN = "--column {}=NAME"
# Tables that are larger are announced before they are written.
_LARGE_BYTES = 100_000_000


def start_command(
    exports: Annotated[
        list[Path],
        Argument(metavar="EXPORT...", help="Exports: CSV, Parquet or Excel."),
    ],
    out: Annotated[
        Path | None, Option(help="Folder to write; by default named after the export.")
    ] = None,
    incidents: Annotated[
        Path | None,
        Option(help="List of incidents: id, start, end, tags, note."),
    ] = None,
    timezone: Annotated[
        str | None,
        Option(help="Zone of time stamps without an offset, such as Europe/Berlin."),
    ] = None,
    time_format: Annotated[
        str | None, Option(help="Form of time stamps, such as '%d/%m/%Y %H:%M:%S'.")
    ] = None,
    step: Annotated[
        float | None, Option(min=0.001, help="Seconds between rows.")
    ] = None,
    split: Annotated[
        str | None,
        Option(metavar="TIME", help="When test begins, such as '2026-03-01 06:00'."),
    ] = None,
    accept_dropped: Annotated[
        bool, Option("--accept-dropped", help="Exit code 0 although tags are left out.")
    ] = False,
    column: Annotated[
        list[str] | None,
        Option(
            metavar="ROLE=NAME",
            help="Which column is time, tag, value, quality or label, or which to "
            "ignore, where names do not say it; may be repeated.",
        ),
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Look at exports of a historian, and make a plant's folder of them.

    One export is split into train and test by time; of two the earlier is train. The
    folder has the tables, plant.toml with every setting explained, tags.csv and
    incidents.csv. Nothing that exists is overwritten.

    \b
    Examples:
      sightline start export.csv
      sightline start january.csv february.csv --out plant --timezone Europe/Berlin
      sightline start export.csv --column time=Moment --column ignore=Remark
    """
    from sightline.files import staged_folder
    from sightline.testbeds.own_plant.proposal import propose, write_plant

    folder = Path(exports[0].name.split(".")[0] or "plant") if out is None else out
    with door(debug=debug, writes=[folder]):
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise FileError(
                f"{folder}: exists already and is kept: choose another --out."
            )
        columns = _columns(column or [])
        with progress_bar("Reading") as advance, options_named(_COLUMN):
            stated = {"timezone": timezone, "time_format": time_format}
            seen = _looked_at(exports, {**stated, "columns": columns}, advance)
            proposal = propose(
                seen,
                timezone=timezone,
                time_format=time_format,
                incidents=incidents,
                step_s=step,
                split_s=None if split is None else _split_time(split, timezone, seen),
            )
        screen = console()
        understood = dict(proposal.understood)
        screen.print(Text(understood.pop("kept"), style="bold"))
        screen.print(facts(understood.items(), min_width=6))
        n_bytes = sum(t.estimated_size() for t in (proposal.train, proposal.test))
        if n_bytes > _LARGE_BYTES:
            screen.print(f"The tables hold {n_bytes / 1e6:,.0f} MB; writing them now.")
        with staged_folder(folder) as partial:
            write_plant(proposal, partial)
            audit = _audit(partial, folder)
            # Fault codes that the audit would have in plant.toml.
            codes = [code for one in audit.findings for code in one.missing_values]
            if codes:
                missing = tuple(dict.fromkeys(codes))
                proposal = replace(proposal, missing_values=missing)
                write_plant(proposal, partial)
                audit = _audit(partial, folder)
            steps = {
                tag.name: step
                for tag in audit.recording.tags
                if (step := tag.train.resolution) is not None
            }
            write_plant(proposal, partial, remedies=_remedies(audit), resolutions=steps)
        screen.print(_result(proposal, audit, folder))
    if proposal.left_out and not accept_dropped:
        raise Exit(TAGS_DROPPED)


def _looked_at(
    paths: Sequence[Path], stated: Mapping[str, Any], advance: Progress
) -> "list[Export]":
    """Return what exports hold; refuse all that cannot be read in one round.

    Where dates of one file may have the day or the month first, others may tell.
    """
    from sightline.testbeds.own_plant.look import joined, look_at

    seen: dict[Path, Export] = {}
    refusals = dict.fromkeys(paths, "")
    for _ in range(2):
        orders = {one.date_order for one in seen.values()} - {""}
        order = orders.pop() if len(orders) == 1 else ""
        for k, path in enumerate([*refusals]):
            advance(Step(StepKind.READING, k, len(paths), path.name))
            try:
                seen[path] = look_at(path, date_order=order, **stated)
                del refusals[path]
            except FileError as error:
                refusals[path] = str(error)
    if not refusals:
        return [seen[path] for path in paths]
    if len(paths) == 1:
        raise FileError(next(iter(refusals.values())))
    lines = _by_refusal(refusals)
    try:
        joined([*seen.values()]) if seen else None
    except FileError as error:
        lines.append(str(error))
    if len(lines) == 1:
        raise FileError(lines[0])
    for line in lines:
        detail = f"- {as_options(line, _COLUMN)}"
        advance(Step(StepKind.NOTICE, detail=detail))
    raise FileError(
        f"{len(refusals)} of {len(paths)} exports cannot be read, for the "
        f"{len(lines)} reasons above: mend these files, or leave them out."
    )


def _by_refusal(refusals: Mapping[Path, str]) -> list[str]:
    """Return what is wrong with some files: one line for each reason, with all names.

    Examples
    --------
    >>> late = {Path(f"in/{k}.csv"): f"in/{k}.csv: line {k} is late." for k in range(3)}
    >>> _by_refusal(late | {Path("b.csv"): "b.csv: is empty."})
    ['in/0.csv: line 0 is late. The same in 1.csv and 2.csv.', 'b.csv: is empty.']
    """
    kinds: dict[str, list[Path]] = {}
    for path, text in refusals.items():
        kind = re.sub(r"'[^']*'|[\d.,:-]+", "#", text.replace(str(path), ""))
        kinds.setdefault(kind, []).append(path)
    return [
        f"{refusals[first]} The same in {names([path.name for path in rest])}."
        if rest
        else refusals[first]
        for first, *rest in kinds.values()
    ]


def _split_time(text: str, timezone: str | None, seen: "Sequence[Export]") -> float:
    """Return the time at which test begins, on the clock of the exports."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadParameter(
            f"--split {text!r} is no time: write it like 2026-03-01 or "
            "'2026-03-01 06:00'."
        ) from None
    if moment.tzinfo is None:
        zone = timezone if timezone and seen[0].is_utc else "UTC"
        moment = moment.replace(tzinfo=ZoneInfo(zone))
    return moment.timestamp()


def _columns(stated: Sequence[str]) -> "ColumnNames":
    """Return which column is what, from texts such as ``"time=Moment"``."""
    from sightline.testbeds.own_plant.settings import ColumnNames

    by_role: dict[str, list[str]] = {field.name: [] for field in fields(ColumnNames)}
    for text in stated:
        role, _, name = text.partition("=")
        if role not in by_role or not name:
            raise BadParameter(
                f"--column takes ROLE=NAME, where ROLE is one of {', '.join(by_role)}; "
                f"got {text!r}."
            )
        by_role[role].append(name)
    for role, found in by_role.items():
        if len(found) > {"time": 2, "ignore": len(found)}.get(role, 1):
            raise BadParameter(f"--column {role} is given too often.")
    times, ignore = by_role.pop("time"), by_role.pop("ignore")
    return ColumnNames(
        time=(times[0], times[1]) if times[1:] else next(iter(times), None),
        ignore=tuple(ignore),
        **{role: next(iter(found), None) for role, found in by_role.items()},
    )


def _audit(partial: Path, folder: Path) -> "Audit":
    """Return the audit of the folder as written, or the error that reading it gives."""
    from sightline.audit.data import audit_of
    from sightline.testbeds.own_plant import read_folder

    try:
        with options_named(_COLUMN):
            return audit_of(read_folder(partial))
    except SightlineError as error:
        raise FileError(str(error).replace(str(partial), str(folder))) from error


def _remedies(audit: "Audit") -> list[str]:
    """Return the findings with what to do, for plant.toml; in one line each."""
    return [
        " ".join(f"{one.code} ({one.severity}): {one.text} {one.remedy}".split())
        for one in audit.serious
    ]


def _result(proposal: "Proposal", audit: "Audit", folder: Path) -> RenderableType:
    """Return what to check, what the audit found, what was written and what is next."""
    checks = list(proposal.checks)
    if proposal.missing_values:
        codes = names([exact(code) for code in proposal.missing_values])
        checks.insert(
            0,
            f"{codes} look like fault codes and are read as missing: missing_values in "
            "plant.toml; take them out if they are measured.",
        )
    notes = by_kind([*proposal.notices, *audit.recording.notices])
    kept = len(proposal.tags) - len(proposal.left_out)
    loud = []
    if proposal.left_out:
        reasons = [f"{tag} ({why})" for tag, why in proposal.left_out.items()]
        loud.append(
            f"{kept} of {len(proposal.tags)} tags left. Left out: {names(reasons, 8)}."
        )
    if proposal.n_in_train:
        loud.append(
            f"Error: {proposal.n_in_train} of {proposal.n_incidents} incidents lie in "
            "the training part and are not judged: choose another time with --split, "
            "or leave it out."
        )
    parts = [
        *(Text(line, style="bold red") for line in loud),
        *bullets("What was done while reading", notes),
        *bullets("What the audit found", _remedies(audit)),
        *bullets("What to check", checks),
    ]
    if not audit.is_right:
        refusal = "run refuses the data until the errors above are mended or accepted."
        parts.append(Text(f"\n{refusal}", style="red"))
    files = ("plant.toml", "tags.csv", "incidents.csv", "train.parquet", "test.parquet")
    parts.append(
        Text(
            f"\nWritten to {folder}/: {', '.join(files)}.\n"
            f"Next: sightline inspect {folder}\n"
            f"Then: sightline run {folder}\n"
            "Without incidents: "
            f"sightline blindspots {folder} --out {folder.name}-blind"
        )
    )
    return Group(*parts)
