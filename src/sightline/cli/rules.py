"""The commands on alarm rules: `commission` and `apply`."""

import csv
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
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
    check_free,
    console,
    door,
)
from sightline.errors import FileError, StreamError, naming
from sightline.progress import Progress, Step, StepKind, progress_bar
from sightline.text import (
    UNKNOWN,
    as_labelled,
    by_kind,
    csv_cell,
    names,
    plural,
    share,
    span_s,
)

if TYPE_CHECKING:
    from sightline.data.stream import ResidualStream
    from sightline.operation.apply import Applied
    from sightline.operation.recommission import Recommissioned
    from sightline.rules.commission import Commissioning
    from sightline.rules.judging import CommissioningFacts, RuleChoice
    from sightline.rules.making import MadeRule
    from sightline.rules.rule import Rule

BROKEN_PROMISE = 3
# Exit code where no rule is written, because the decision is not to take one yet.
NO_DECISION = 4
DETECTOR_FILE = "detector.npz"
REVIEW = "review.csv"
# Tags of drift that the terminal shows.
_MOST_TAGS = 5
# Questions that are printed, the last ones.
_MOST_QUESTIONS = 10
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
    list[Path] | None,
    Option(
        metavar="STREAM|EXPORT",
        help="Commission on another stream's test rows, or on exports of the plant (a "
        "file or a folder; may be repeated).",
    ),
]
_Incidents = Annotated[
    Path | None,
    Option(
        metavar="LIST",
        help="Reviewed list of episodes, or a list of incidents: incidents are "
        "attacks, normal rows commission, the others do not.",
    ),
]
_Rules = Annotated[
    list[str] | None,
    Option(metavar="NAME", help="A further rule, such as cusum; may be repeated."),
]
_Choose = Annotated[
    str | None,
    Option(metavar="NAME", help="The rule to write, whatever is decided."),
]
_Keep = Annotated[
    Path | None,
    Option(
        metavar="RULE",
        help="The rule in use (rule.json): is it kept, is the chosen one added, or "
        "does it replace it?",
    ),
]
_Fixed = Annotated[
    bool,
    Option("--fixed", help="Rules follow no means: judge by those of these rows."),
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
    incidents: _Incidents = None,
    rule: _Rules = None,
    choose: _Choose = None,
    keep: _Keep = None,
    fixed: _Fixed = False,
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
      sightline commission gdn.npz --incidents review.csv --calm exports --out r
    """
    if sum(value is not None for value in (until, first, calm or None)) > 1:
        raise BadParameter("give only one of --until, --first and --calm.")
    if reference not in ("train", "commissioning"):
        raise BadParameter("--reference is train or commissioning.")
    from sightline.show.rules import promise_words

    needed, within = _on_delay(on)
    from sightline.storage import read_rule

    with door(debug=debug, timed=True, writes=[out]):
        check_free(out, "rule.json", overwrite=overwrite)
        with progress_bar(stream.name) as advance:
            advance(Step(StepKind.READING, detail=stream.name))
            detector = _detector_file(stream, detector)
            in_use = None if keep is None else read_rule(keep)
            read, other, remarks = _streams(
                stream,
                calm or (),
                incidents,
                detector,
                step=step,
                label_slop=label_slop,
                progress=advance,
            )
            advance(Step(StepKind.SEARCHING, detail="alarm rules"))
            with naming(stream):
                made = _commissioned(
                    read,
                    other,
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
                    keep=_rule_in_use(in_use, read),
                    fixed=fixed,
                    jobs=jobs,
                )
            advance(Step(StepKind.WRITING, detail=str(out)))
            written, notes = _write_commissioning(made, out, detector, other or read)
        screen = console()
        for part in commissioning_tables(made.facts):
            screen.print(part)
        if blind_spots:
            notes.append(_blindness(made))
        if in_use is not None and _has_seen(in_use, read, made.facts.split):
            notes.append(
                "The rule in use was made on some of the rows that it is judged on "
                "here, so it looks better than it is."
            )
        for note in (*remarks, *made.facts.notes, *notes):
            screen.print(f"- {note}", soft_wrap=True)
        screen.print(f"Written to {out}/: {names(written)}.", soft_wrap=True)
        screen.print(made.facts.advice, soft_wrap=True)
        if made.has_rule:
            after = "What the rule could not see: `sightline blindspots`."
            for line in (promise_words(made.chosen.promise), after):
                screen.print(line, soft_wrap=True)
            return
        why = "No rule was written: name one with --choose to take it all the same."
        for line in (why, f"Next: {_next_step(made.facts, out)}"):
            screen.print(line, soft_wrap=True)
    raise Exit(NO_DECISION)


def _rule_in_use(made: "MadeRule | None", stream: "ResidualStream") -> "Rule | None":
    """Return the rule in use, which must read residuals of the same detector."""
    origin = None if made is None else made.origin
    ours = stream.detector
    if origin and origin.detector and ours and origin.detector != ours:
        raise StreamError(
            f"The rule of --keep was made for residuals of the detector "
            f"{origin.detector!r}, and the stream holds those of {ours!r}: give the "
            "stream of its own detector."
        )
    return None if made is None else made.rule


def _has_seen(rule: "MadeRule", stream: "ResidualStream", split: int) -> bool:
    """Return whether rows that set a rule's limit are among judged ones."""
    origin, time = rule.origin, stream.test_time
    if origin is None or origin.begins is None or origin.ends is None or time is None:
        return False
    later = time[split:]
    return bool(((later >= origin.begins) & (later <= origin.ends)).any())


def _next_step(facts: "CommissioningFacts", out: Path) -> str:
    """Return what a decision without a rule leads to."""
    from sightline.rules.judging import ChoiceOutcome

    if facts.choice and facts.choice.outcome is ChoiceOutcome.REVIEW_FIRST:
        where = "list them with `sightline episodes STREAM --out review.csv`, decide"
        if any(one.rows for one in facts.choice.episodes):
            where = f"decide each row of {out / REVIEW} (incident, normal or unknown)"
            return f"{where}, then the same command with --incidents {out / REVIEW}."
        return f"{where} each, then the same command with --incidents review.csv."
    if facts.choice and facts.choice.outcome is ChoiceOutcome.NO_RULE:
        return (
            "the same command with a higher --budget, with --first or --until so that "
            "newer rows set limits, or `sightline run` with another detector."
        )
    return (
        "`sightline start EXPORTS --split TIME` with a later time, and `sightline run` "
        "on the folder that it writes."
    )


def _blindness(made: "Commissioning") -> str:
    """Return how blind each rule is, in residual space, in one sentence."""
    from sightline.blindspots.search import blindness_of_rules

    try:
        with progress_bar(made.source.stream.name) as advance:
            blindness = blindness_of_rules(made.source.stream, made, advance)
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


def _streams(
    path: Path,
    calm: Sequence[Path],
    incidents: Path | None,
    detector: Path | None,
    *,
    step: float | None,
    label_slop: float | None,
    progress: Progress,
) -> "tuple[ResidualStream, ResidualStream | None, list[str]]":
    """Return the stream, the one that commissions in its place, and remarks."""
    from sightline.detectors import load_detector
    from sightline.operation.recommission import stream_of_exports
    from sightline.storage import is_stream, join_files, read_stream

    with naming(path):
        stream = read_stream(path)
        if step is not None:
            stream = stream.replace(step_s=step)
        if label_slop is not None:
            stream = stream.replace(label_slop_s=label_slop)
    streams = [stream]
    remarks: list[str] = []
    if len(calm) == 1 and is_stream(calm[0]):
        streams.append(read_stream(calm[0]))
    elif calm:
        if detector is None:
            raise FileError(
                f"{calm[0]}: exports pass through the detector that made the stream: "
                "name it with --detector."
            )
        loaded = load_detector(detector)
        with naming(calm[0]):
            streams.append(stream_of_exports(calm, stream, loaded, progress=progress))
        remarks += streams[-1].notices
    if incidents is not None:
        # The list may be about one of both.
        errors: list[FileError] = []
        for k, before in enumerate(streams):
            try:
                streams[k] = join_files(before, attacks=incidents)
            except FileError as error:
                errors.append(error)
            remarks += [n for n in streams[k].notices if n not in before.notices]
        if len(errors) == len(streams):
            raise errors[0]
    return streams[0], streams[1] if calm else None, list(dict.fromkeys(remarks))


def _commissioned(
    stream: "ResidualStream",
    calm: "ResidualStream | None",
    *,
    until: str | None,
    **settings: object,
) -> "Commissioning":
    """Make the rules."""
    from sightline.rules.commission import commission

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
        calm=calm,
        **settings,  # type: ignore[arg-type]
    )


def _detector_file(stream: Path, detector: Path | None) -> Path | None:
    """Return the saved detector of a stream: as named, or as a study places it."""
    from sightline.detectors import load_detector

    near = stream.parent.parent / "detectors" / f"{stream.stem}.npz"
    if detector is not None:
        load_detector(detector)
    elif stream.parent.name == "streams" and near.is_file():
        detector = near
    return detector


def _write_commissioning(
    made: "Commissioning",
    out: Path,
    detector: Path | None,
    record: "ResidualStream",
) -> tuple[list[str], list[str]]:
    """Write all files, or none; return their names, and sentences about the others.

    `record` is the stream that commissions.
    """
    from sightline.detectors import load_detector
    from sightline.files import staged_folder
    from sightline.operation.telemetry import with_forecast
    from sightline.report.print_figures import write_rule_figure
    from sightline.rules.file import write_rule, write_script
    from sightline.show.rules import rule_rows

    notes = []
    if (out / "rule.st").exists():
        notes.append(f"{out}/rule.st is of an earlier rule, and stays as it is.")
    with staged_folder(out) as folder:
        rows = list(rule_rows(made.facts))
        _write_csv(folder / "rules.csv", rows, list(rows[0]))
        _write_review(made.facts.choice, record, out, folder)
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
            ready = made.deployed()
            if saved is not None:
                ready = with_forecast(ready, load_detector(saved))
            write_rule(ready, folder / "rule.json", detector=saved)
            write_script(folder / "rule.py")
        if not write_rule_figure(made.facts, folder):
            notes.append(
                made.facts.said("curve.svg was not written: no attack is judged.")
            )
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


# --- Recommission ---------------------------------------------------------------------


def recommission_command(
    state: Annotated[Path, Argument(help="SQLite file of `sightline watch`.")],
    out: Annotated[Path, Option("--out", help="Folder for the new rule.")],
    last: Annotated[
        str, Option(metavar="TIME", help="Watched time that sets the limit: 28d, 72h.")
    ] = "28d",
    folder: Annotated[
        Path | None, Option(help="The exports, if not those that the watch reads.")
    ] = None,
    rule: Annotated[
        Path | None, Option(help="The rule in use, if it lies elsewhere now.")
    ] = None,
    detector: Annotated[
        Path | None, Option(help="Its saved detector, if it lies elsewhere now.")
    ] = None,
    incidents: _Incidents = None,
    reference: Annotated[
        str,
        Option(help="Means and covariance: of the rule, or of the commissioning rows."),
    ] = "rule",
    overwrite: _Overwrite = False,
    debug: DebugOption = False,
) -> None:
    """Make the rule of a watch again, on the last days that it has watched.

    The new rule has the kind and the budget of the rule in use. Outages, alarms that
    were acknowledged as real or maintenance, and unexplained episodes are left out;
    alarms acknowledged as false are not. Both rules are shown on the same rows, and
    nothing is put into use: the last line is the command that does. OUT gets rule.json,
    with the rules before it, rule.py, the detector and review.csv. Without a rule to
    take the exit code is 4.

    \b
    Examples:
      sightline recommission watch.db --last 28d --out rule-2
      sightline recommission watch.db --out rule-2 --incidents rule-2/review.csv
    """
    from sightline.operation.recommission import recommission
    from sightline.show.rules import DRIFT, same_rows_table
    from sightline.show.table import RecordTable
    from sightline.show.terminal import with_legend

    if reference not in ("rule", "commissioning"):
        raise BadParameter("--reference is rule or commissioning.")
    try:
        last_s = span_s(last)
    except ValueError as error:
        raise BadParameter(f"--last: {error}") from None
    with door(debug=debug, timed=True, writes=[out]):
        check_free(out, "rule.json", overwrite=overwrite)
        with progress_bar(state.name) as advance:
            again = recommission(
                state,
                last_s=last_s,
                folder=folder,
                rule=rule,
                detector=detector,
                incidents=incidents,
                reference=reference,  # type: ignore[arg-type]
                progress=advance,
            )
            written = _write_again(again, out)
        screen = console()
        moved = again.drift.moved[:_MOST_TAGS]
        for part in with_legend(same_rows_table(again.rows)):
            screen.print(part)
        if moved:
            title = "Tags that have moved since the rule in use was made"
            for part in with_legend(RecordTable(title, DRIFT, moved)):
                screen.print(part)
        notes = [
            f"The new rule was made on {again.days:.1f} days without an incident for "
            f"{again.made.rule.budget}.",
            *again.notices,
        ]
        for note in notes:
            screen.print(f"- {note}", soft_wrap=True)
        if written:
            screen.print(f"Written to {out}/: {names(written)}.", soft_wrap=True)
        screen.print(again.sentence, soft_wrap=True)
        if again.choice.outcome.has_rule:
            screen.print(
                "The rule in use stays in use. To take the new one: sightline watch "
                f"{out} --folder {again.folder} --state {state}",
                soft_wrap=True,
            )
            return
        steps = _next_steps(again, out / REVIEW if REVIEW in written else None)
        screen.print(f"No rule was written. Next: {steps}.", soft_wrap=True)
    raise Exit(NO_DECISION)


def _next_steps(again: "Recommissioned", review: Path | None) -> str:
    """Return what to do where no rule is made again."""
    from sightline.rules.judging import ChoiceOutcome

    steps = []
    if review is not None:
        steps = [f"decide each row of {review}, then add --incidents {review}"]
    if again.choice.outcome is ChoiceOutcome.TRAIN_AGAIN:
        steps.append("train a detector on later rows (sightline start, then run)")
    return "; or ".join(steps)


def _write_again(again: "Recommissioned", out: Path) -> list[str]:
    """Write all files, or none; return their names."""
    from sightline.files import staged_folder
    from sightline.rules.file import write_rule, write_script

    with staged_folder(out) as folder:
        _write_review(again.choice, again.stream, out, folder)
        if again.choice.outcome.has_rule:
            saved = None
            if again.detector is not None:
                saved = folder / DETECTOR_FILE
                shutil.copyfile(again.detector, saved)
            write_rule(again.made, folder / "rule.json", detector=saved)
            write_script(folder / "rule.py")
        return sorted(path.name for path in folder.iterdir())


def _write_review(
    choice: "RuleChoice | None", record: "ResidualStream", out: Path, folder: Path
) -> None:
    """Write the episodes that were left out; what was decided of them is kept."""
    from sightline.rules.episodes import Episode
    from sightline.storage.companions import write_review_list

    episodes = [
        Episode(start=one.rows[0], stop=one.rows[1], peak=one.peak, tags=one.tags)
        for one in (choice.episodes if choice else ())
        if one.rows is not None
    ]
    if not episodes:
        return
    if (out / REVIEW).exists():
        shutil.copyfile(out / REVIEW, folder / REVIEW)
    write_review_list(episodes, record, folder / REVIEW)


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
    answers: Annotated[
        Path | None,
        Option(
            metavar="CSV",
            help="What people said of tags that jumped: columns time, tag, answer "
            "(normal or fault), as a watch writes its answers.csv.",
        ),
    ] = None,
    fixed: Annotated[
        bool, Option("--fixed", help="Do not follow means: judge by the first ones.")
    ] = False,
    overwrite: _Overwrite = False,
    debug: DebugOption = False,
) -> None:
    """Apply an alarm rule to later rows, and see whether its promises hold.

    OUT gets alarms.csv (start, end, seconds, peak, member, tags), drift.csv (how far
    each tag has moved since commissioning) and applied.json. Telemetry passes through
    the detector that the rule names. Means are followed night by night, as `watch`
    does. The exit code is 4 if most tags have moved at the end and nobody has said for
    48 hours whether that is normal, else 3 if promises are broken more often than 1 in
    20 explains, or alarms stood and cost more than twice the budget.

    \b
    Examples:
      sightline apply rules/rule.json later.npz --out march
      sightline apply rules/rule.json residuals.csv --out march
      sightline apply rules/rule.json exports/ --out march
      sightline apply rules/rule.json exports/ --answers answers.csv --out march
    """
    from sightline.operation.apply import apply_rule, open_record
    from sightline.operation.questions import read_answers
    from sightline.rules.choose import is_far_over
    from sightline.rules.promise import Kept
    from sightline.storage import read_rule

    with door(debug=debug, writes=[out]):
        check_free(out, "alarms.csv", overwrite=overwrite)
        made = read_rule(rule)
        if fixed:
            made = replace(made, rule=made.rule.fixed)
        with progress_bar(source.name) as advance:
            record = open_record(
                source, made, rule, detector=detector, progress=advance
            )
            tags = [channel.name for channel in made.rule.channels]
            said = (
                [] if answers is None else read_answers(answers, tags, record.timezone)
            )
            applied = apply_rule(made, record, said)
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
    if applied.undecided:
        raise Exit(NO_DECISION)
    # What stands is not in the promise, but a script must notice it as well.
    load, budget = applied.outcome.load, made.rule.budget
    stands = load.standing and budget is not None and is_far_over(load, budget)
    if stands or applied.outcome.kept is Kept.BROKEN:
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
            "questions": list(applied.questions),
            "notices": list(applied.notices),
        }
        (folder / "applied.json").write_text(
            json.dumps(plain(values), indent=1, allow_nan=False) + "\n",
            encoding="utf-8",
        )


def applied_tables(applied: "Applied", made: "MadeRule") -> list[RenderableType]:
    """Return what became of the promise, attacks caught, and drift."""
    from sightline.show.evaluations import caught_chance
    from sightline.show.rules import (
        DRIFT,
        Rates,
        kept_words,
        period_table,
        share_warning,
    )
    from sightline.show.table import RecordTable
    from sightline.show.terminal import with_legend

    outcome, budget = applied.outcome, made.rule.budget
    rates = Rates(budget.per_day if budget is not None else 1.0)
    load, use = outcome.load, outcome.attacks
    lines = [
        *filter(None, [applied.undecided]),
        f"{plural(len(applied.alarms), 'alarm')} of the rule {made.rule.name!r}.",
        kept_words(outcome, rates, budget),
    ]
    if load.days:
        lines.append(
            as_labelled(
                f"On {load.days:.1f} attack-free days: "
                f"{plural(load.alarms, 'false alarm')} ",
                applied.labels,
            )
            + f"({load.standing:,} because one stood), {share(load.share_of_time, 1)} "
            f"of time in alarm, {share(load.lingering_share, 1)} lingering."
        )
    if use.n_attacks:
        caught = f"Of {plural(use.n_attacks, 'attack')} it caught {use.caught} "
        lines.append(as_labelled(f"{caught}({caught_chance(use)}).", applied.labels))
    if warning := share_warning(outcome, budget):
        lines.append(warning)
    if len(applied.questions) > _MOST_QUESTIONS:
        asked = plural(len(applied.questions), "question")
        lines.append(f"The last {_MOST_QUESTIONS} of {asked} (all: applied.json):")
    lines += applied.questions[-_MOST_QUESTIONS:]
    zone = None if made.origin is None else made.origin.timezone
    periods = with_legend(period_table(outcome.periods, zone))
    drift = applied.drift
    if drift is None:
        return [*(Text(line) for line in lines), *periods]
    lines.append(
        f"Drift since commissioning: {drift.shift:.2f} spreads (all tags), energy "
        f"{drift.energy_ratio:.2g} times as large."
    )
    moved = RecordTable("Tags that have moved", DRIFT, drift.moved[:_MOST_TAGS])
    return [*(Text(line) for line in lines), *periods, *with_legend(moved)]
