"""The commands on alarm rules: `commission` and `apply`."""

import csv
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from zoneinfo import ZoneInfo

from rich.console import RenderableType
from rich.text import Text
from typer import Argument, BadParameter, Exit, Option

from sightline.cli.console import (
    DebugOption,
    JobsOption,
    LabelSlopOption,
    console,
    door,
)
from sightline.errors import FileError, StreamError, naming
from sightline.progress import Step, StepKind, progress_bar
from sightline.text import (
    UNKNOWN,
    by_kind,
    csv_cell,
    names,
    plural,
    share,
)

if TYPE_CHECKING:
    from sightline.operation.apply import Applied
    from sightline.rules.commission import Commissioning
    from sightline.rules.judging import CommissioningFacts
    from sightline.rules.making import MadeRule

BROKEN_PROMISE = 3
# Exit code where no rule is written, because the decision is not to take one yet.
NO_DECISION = 4
DETECTOR_FILE = "detector.npz"
# Tags of drift that the terminal shows.
_MOST_TAGS = 5
_Overwrite = Annotated[
    bool, Option("--overwrite", help="Replace what an earlier run wrote.")
]
_Stream = Annotated[
    Path, Argument(help="Residual stream: .npz file, Parquet folder or IPAL folder.")
]
_RuleOut = Annotated[Path, Option("--out", help="Folder for the rule and its tables.")]
_BudgetOption = Annotated[
    str,
    Option(
        "--budget", help="Alarms a day, and share of time in alarm: 6/day,1% or 1/week."
    ),
]
_Until = Annotated[
    str | None, Option(metavar="TIME", help="Commission on rows before this time.")
]
_First = Annotated[
    float | None, Option(help="Commission on this share of the test (0.35).")
]
_Calm = Annotated[
    Path | None,
    Option(metavar="STREAM", help="Commission on another stream's test rows."),
]
_Rules = Annotated[
    list[str] | None,
    Option(metavar="NAME", help="A further rule, such as cusum; may be repeated."),
]
_Choose = Annotated[
    str | None,
    Option(metavar="NAME", help="The rule to write, whatever is decided."),
]
_Without = Annotated[
    list[str] | None,
    Option(metavar="TAG", help="Tag that no rule looks at; may be repeated."),
]
_Reference = Annotated[
    str, Option(help="Rows that fit mean and covariance: train or commissioning.")
]
_On = Annotated[
    str, Option(metavar="K/N", help="Exceedances that start an alarm: 3, or 3/5 rows.")
]
_TrainToo = Annotated[
    bool,
    Option("--train", help="Also commission on the rows that the detector learned."),
]
_StepOption = Annotated[
    float | None,
    Option("--step", help="Seconds per row, if the stream does not contain it."),
]
_Detector = Annotated[
    Path | None,
    Option(
        help="Saved detector that made the stream, for telemetry; by default the one "
        "that a study saved beside its streams."
    ),
]
_BlindSpots = Annotated[
    bool, Option("--blind-spots", help="Also search what each rule could not see.")
]


def commission_command(
    stream: _Stream,
    out: _RuleOut,
    budget: _BudgetOption = "6/day,1%",
    until: _Until = None,
    first: _First = None,
    calm: _Calm = None,
    rule: _Rules = None,
    choose: _Choose = None,
    without: _Without = None,
    reference: _Reference = "train",
    on: _On = "1",
    train: _TrainToo = False,
    detector: _Detector = None,
    step: _StepOption = None,
    label_slop: LabelSlopOption = None,
    jobs: JobsOption = None,
    overwrite: _Overwrite = False,
    blind_spots: _BlindSpots = False,
    debug: DebugOption = False,
) -> None:
    """Make alarm rules for a budget, and judge them on later rows.

    Limits are set on attack-free rows before the split alone. OUT gets rules.csv (all
    rules), the picture curve.pdf, .svg and .png, and the chosen rule as rule.json and
    rule.py (needs numpy alone). Where the decision is to train again or to review
    episodes first, no rule is written, with exit code 4, unless --choose names one.

    \b
    Examples:
      sightline commission gdn.npz --budget 6/day --out rules
      sightline commission gdn.npz --budget 1/week --until 2026-03-01 --out r
      sightline commission gdn.npz --rule cusum --choose z~ --without LIT101 --out r
    """
    if sum(value is not None for value in (until, first, calm)) > 1:
        raise BadParameter("give only one of --until, --first and --calm.")
    if reference not in ("train", "commissioning"):
        raise BadParameter("--reference is train or commissioning.")
    needed, within = _on_delay(on)
    with door(debug=debug, writes=[out]):
        _check_free(out, "rule.json", overwrite=overwrite)
        with progress_bar(stream.name) as advance:
            advance(Step(StepKind.READING, detail=stream.name))
            made = _commissioned(
                stream,
                calm,
                step=step,
                label_slop=label_slop,
                budget=budget,
                until=until,
                **({} if first is None else {"first": first}),
                rules=rule or (),
                choose=choose,
                without=without or (),
                reference=reference,
                on=needed,
                within=within,
                train=train,
                jobs=jobs,
            )
            advance(Step(StepKind.WRITING, detail=str(out)))
            written, notes = _write_commissioning(made, out, stream, detector)
        screen = console()
        for part in commissioning_tables(made.facts):
            screen.print(part)
        if blind_spots:
            notes.append(_blindness(made))
        for note in (*made.facts.notes, *notes):
            screen.print(f"- {note}", soft_wrap=True)
        screen.print(f"Written to {out}/: {names(written)}.", soft_wrap=True)
        screen.print(made.facts.advice, soft_wrap=True)
        if made.has_rule:
            screen.print(
                "What the rule could not see: `sightline blindspots`.", soft_wrap=True
            )
            return
        screen.print(
            "No rule was written: name one with --choose to take it all the same.",
            soft_wrap=True,
        )
    raise Exit(NO_DECISION)


def _blindness(made: "Commissioning") -> str:
    """Return how blind each rule is, in residual space, in one sentence."""
    from sightline.blindspots.search import blindness_of_rules

    try:
        blindness = blindness_of_rules(made.source.stream, made)
    except StreamError as error:
        return f"Blindness is not known: {error}"
    values = [f"{name} {share(value)}" for name, value in blindness.items() if value]
    return (
        f"Blindness, in residual space: {', '.join(values) or UNKNOWN}. So much of a "
        "channel's range in train can be kept off for 15 minutes unseen, in half of "
        "the places, as a mean; the lower, the better."
    )


def _on_delay(text: str) -> tuple[int, int]:
    """Return exceedances and rows of text such as ``3/5``."""
    match = re.fullmatch(r"(\d+)(?:/(\d+))?", text.strip())
    needed = int(match[1]) if match else 0
    within = int(match[2] or needed) if match else 0
    if not 1 <= needed <= within <= 60:
        raise BadParameter(
            f"--on takes a number of rows such as 3, or 3/5 for 3 of 5; got {text!r}."
        )
    return needed, within


def _check_free(out: Path, name: str, *, overwrite: bool) -> None:
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


def _commissioned(
    path: Path,
    calm: Path | None,
    *,
    until: str | None,
    step: float | None,
    label_slop: float | None,
    **settings: object,
) -> "Commissioning":
    """Read the streams and make the rules."""
    from sightline.rules.commission import commission
    from sightline.storage import read_stream

    with naming(path):
        stream = read_stream(path)
        if step is not None:
            stream = stream.replace(step_s=step)
        if label_slop is not None:
            stream = stream.replace(label_slop_s=label_slop)
        moment = None
        if until is not None:
            try:
                moment = datetime.fromisoformat(until)
            except ValueError:
                raise StreamError(
                    f"--until {until!r} is no time: write it like 2026-03-01 or "
                    "'2026-03-01 06:00'."
                ) from None
            if moment.tzinfo is None:
                moment = moment.replace(tzinfo=ZoneInfo(stream.timezone or "UTC"))
        return commission(
            stream,
            until=None if moment is None else moment.timestamp(),
            calm=None if calm is None else read_stream(calm),
            **settings,  # type: ignore[arg-type]
        )


def _write_commissioning(
    made: "Commissioning", out: Path, stream: Path, detector: Path | None
) -> tuple[list[str], list[str]]:
    """Write all files, or none; return their names, and sentences about the others."""
    from sightline.detectors import load_detector
    from sightline.files import staged_folder
    from sightline.report.print_figures import write_rule_figure
    from sightline.rules.file import write_rule, write_script
    from sightline.show.rules import rule_rows

    # The saved detector: as named, or as a study places it.
    near = stream.parent.parent / "detectors" / f"{stream.stem}.npz"
    if detector is not None:
        load_detector(detector)
    elif stream.parent.name == "streams" and near.is_file():
        detector = near
    notes = []
    if (out / "rule.st").exists():
        notes.append(f"{out}/rule.st is of an earlier rule, and stays as it is.")
    with staged_folder(out) as folder:
        rows = list(rule_rows(made.facts))
        _write_csv(folder / "rules.csv", rows, list(rows[0]))
        saved = None
        if not made.has_rule:
            detector = None
        elif detector is None:
            notes.append(
                "No saved detector is known, so the rule reads residuals alone: name "
                "one with --detector to apply it to telemetry."
            )
        if detector is not None:
            saved = folder / DETECTOR_FILE
            shutil.copyfile(detector, saved)
        if made.has_rule:
            write_rule(made, folder / "rule.json", detector=saved)
            write_script(folder / "rule.py")
        if not write_rule_figure(made.facts, folder):
            notes.append("curve.svg was not written: no attack is among judged rows.")
        return sorted(path.name for path in folder.iterdir()), notes


# --- Tables ---------------------------------------------------------------------------


def _write_csv(
    path: Path, rows: Sequence[Mapping[str, object]], columns: Sequence[str]
) -> None:
    with open(
        path, "w", newline="", encoding="utf-8", errors="backslashreplace"
    ) as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for row in rows:
            values = [row[name] for name in columns]
            writer.writerow(["" if v is None else csv_cell(v) for v in values])


def commissioning_tables(facts: "CommissioningFacts") -> list[RenderableType]:
    """Return the two tables of a commissioning, and sentences on the chosen rule."""
    from sightline.show.rules import Rates, chosen_sentences, cost_table, use_table
    from sightline.show.terminal import with_legend

    rates = Rates(facts.accepted.per_day)
    return [
        *with_legend(cost_table(facts, rates)),
        *with_legend(use_table(facts)),
        *(Text(line) for line in chosen_sentences(facts, rates)),
    ]


# --- Apply ----------------------------------------------------------------------------


def apply_command(
    rule: Annotated[Path, Argument(help="rule.json, or the folder that holds it.")],
    source: Annotated[
        Path,
        Argument(
            metavar="STREAM|TABLE|FOLDER",
            help="A residual stream (its test rows), a CSV or Parquet table of "
            "residuals, or a folder of telemetry: a plant, or exports.",
        ),
    ],
    out: Annotated[Path, Option(help="Folder for alarms.csv and what came true.")],
    detector: Annotated[
        Path | None,
        Option(help="The rule's saved detector, if it lies elsewhere."),
    ] = None,
    overwrite: _Overwrite = False,
    debug: DebugOption = False,
) -> None:
    """Apply an alarm rule to later rows, and see whether its promise holds.

    OUT gets alarms.csv (start, end, seconds, peak, member, tags), drift.csv (how far
    each tag has moved since commissioning) and applied.json. Telemetry passes through
    the detector that the rule names. The exit code is 3 if the promise is broken.

    \b
    Examples:
      sightline apply rules/rule.json later.npz --out march
      sightline apply rules/rule.json residuals.csv --out march
      sightline apply rules/rule.json exports/ --out march
    """
    from sightline.operation.apply import apply_rule, open_record
    from sightline.rules.judging import Kept
    from sightline.storage import read_rule

    with door(debug=debug, writes=[out]):
        _check_free(out, "alarms.csv", overwrite=overwrite)
        made = read_rule(rule)
        with progress_bar(source.name) as advance:
            record = open_record(
                source, made, rule, detector=detector, progress=advance
            )
            applied = apply_rule(made, record)
            _write_applied(applied, made, out)
        screen = console()
        for part in applied_tables(applied, made):
            screen.print(part)
        for note in by_kind(applied.notices):
            screen.print(f"- {note}", soft_wrap=True)
        screen.print(
            f"Written to {out}/: alarms.csv, applied.json and drift.csv.",
            soft_wrap=True,
        )
    if applied.outcome.kept is Kept.BROKEN:
        raise Exit(BROKEN_PROMISE)


ALARM_COLUMNS = ("start", "end", "seconds", "peak", "member", "tags")
DRIFT_COLUMNS = ("channel", "shift", "energy_share", "energy_share_then")


def _write_applied(applied: "Applied", made: "MadeRule", out: Path) -> None:
    """Write all files, or none."""
    from sightline.files import staged_folder

    drift = applied.drift
    from sightline.evaluation.result import plain

    alarms = [asdict(a) | {"tags": " ".join(a.tags)} for a in applied.alarms]
    with staged_folder(out) as folder:
        _write_csv(folder / "alarms.csv", alarms, ALARM_COLUMNS)
        tags = [] if drift is None else [asdict(tag) for tag in drift.tags]
        _write_csv(folder / "drift.csv", tags, DRIFT_COLUMNS)
        values = {
            "rule": made.rule.name,
            "budget": str(made.rule.budget),
            "promise": asdict(made.promise),
            "outcome": asdict(applied.outcome),
            "n_alarms": len(applied.alarms),
            "drift": None
            if drift is None
            else {"shift": drift.shift, "energy_ratio": drift.energy_ratio},
            "notices": list(applied.notices),
        }
        (folder / "applied.json").write_text(
            json.dumps(plain(values), indent=1, allow_nan=False) + "\n",
            encoding="utf-8",
        )


def applied_tables(applied: "Applied", made: "MadeRule") -> list[RenderableType]:
    """Return what became of the promise, attacks caught, and drift."""
    from sightline.show.evaluations import caught_chance
    from sightline.show.rules import DRIFT, Rates, kept_words, share_warning
    from sightline.show.table import RecordTable
    from sightline.show.terminal import with_legend

    outcome, budget = applied.outcome, made.rule.budget
    rates = Rates(budget.per_day if budget is not None else 1.0)
    load, use = outcome.load, outcome.attacks
    lines = [
        f"{plural(len(applied.alarms), 'alarm')} of the rule {made.rule.name!r}.",
        kept_words(outcome, rates, budget),
    ]
    if load.days:
        lines.append(
            f"On {load.days:.1f} attack-free days: {plural(load.alarms, 'false alarm')}"
            f" ({load.standing} because one stood), {share(load.share_of_time, 1)} of "
            f"time in alarm, {share(load.lingering_share, 1)} lingering."
        )
    if use.n_attacks:
        lines.append(
            f"Of {plural(use.n_attacks, 'attack')} it caught {use.caught} "
            f"({caught_chance(use)})."
        )
    if warning := share_warning(outcome, budget):
        lines.append(warning)
    drift = applied.drift
    if drift is None:
        return [Text(line) for line in lines]
    lines.append(
        f"Drift since commissioning: {drift.shift:.2f} spreads (all tags), energy "
        f"{drift.energy_ratio:.2g} times as large."
    )
    moved = RecordTable("Tags that have moved", DRIFT, drift.moved[:_MOST_TAGS])
    return [*(Text(line) for line in lines), *with_legend(moved)]
