"""The commands on results: `evaluate` makes them, `compare` and `report` read them.

`episodes` lists what no incident of a stream explains.
"""

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, BadParameter, Option

from sightline.cli.console import (
    BudgetOption,
    DebugOption,
    JobsOption,
    LabelSlopOption,
    ProtocolOption,
    console,
    door,
    options_named,
    shown_notices,
)
from sightline.errors import FileError, SightlineError, StreamError, naming
from sightline.figures import LARGEST
from sightline.progress import Step, StepKind, progress_bar, silent
from sightline.text import names, plural

if TYPE_CHECKING:
    from sightline.data.arrays import Floats
    from sightline.data.stream import ResidualStream
    from sightline.evaluation.result import Evaluation

_Streams = Annotated[
    list[Path] | None,
    Argument(
        metavar="STREAM",
        help="Residual streams: .npz files, Parquet folders or IPAL folders.",
    ),
]
_Out = Annotated[Path, Option(help="Folder for the results.")]
_Train = Annotated[Path | None, Option(help="Table (CSV, Parquet) of train residuals.")]
_Test = Annotated[Path | None, Option(help="Table (CSV, Parquet) of test residuals.")]
_Label = Annotated[
    str | None, Option(help="Column of the test table: 1 attack, 0 normal, -1 ignore.")
]
_Time = Annotated[str | None, Option(help="Column of the tables with time stamps.")]
_TimeFormat = Annotated[
    str | None,
    Option(help="Format of time stamps, such as '%d/%m/%Y %H:%M:%S'; else found."),
]
_Alarms = Annotated[
    str | None,
    Option(
        metavar="COLUMN|FILE",
        help="Your own alarms (0, 1): a column of the test table, or a file with one "
        "value for each row, or with time stamps and values.",
    ),
]
_Score = Annotated[
    str | None,
    Option(
        metavar="COLUMN|FILE|largest",
        help="Your own score, in the same way; largest: rank rows also by the oddest "
        "tag, in units of its own tail.",
    ),
]
_Scores = Annotated[
    Path | None,
    Option(
        metavar="FILE|DIR",
        help="Scores of --test without --train: one file, or a folder with one for "
        "each detector (DETECTOR/NAME OF TEST.npy, as TSB-AD keeps them).",
    ),
]
_ReferenceRows = Annotated[
    int | None,
    Option(
        min=1,
        help="Without --train: how many first rows of test are the reference.",
    ),
]
_AlarmLog = Annotated[
    Path | None,
    Option(help="Your own alarms as a list: start, end, tag, text."),
]
_Attribution = Annotated[
    Path | None,
    Option(
        metavar="FILE.npy",
        help="Your detector's attribution of each test row to the channels, an array "
        "that numpy.save wrote: its localisation is judged beside.",
    ),
]
_Attacks = Annotated[
    Path | None,
    Option(
        help="List of attacks: id, start, end, tags, note; in times, or in rows of "
        "test counted from 0."
    ),
]
_TelemetryTrain = Annotated[
    Path | None,
    Option(help="Table of the plant's measurements in train; matched by --time."),
]
_TelemetryTest = Annotated[Path | None, Option(help="The same for test.")]
_Ignore = Annotated[
    list[str] | None,
    Option(metavar="COLUMN", help="Column to leave out; may be repeated."),
]
_Estimator = Annotated[
    str,
    Option(help="Covariance of the reference; others are for sensitivity analysis."),
]
_Name = Annotated[str | None, Option(help="Name of the stream of two tables.")]
_Step = Annotated[
    float | None, Option(help="Seconds per row, if the input does not contain it.")
]
_Detector = Annotated[str | None, Option(help="Detector to take from an IPAL folder.")]
_Cluster = Annotated[
    str | None,
    Option(
        metavar="ADDRESS", help="Dask scheduler whose workers read the Parquet folders."
    ),
]
_Guard = Annotated[int, Option(min=0, help="Rows after each attack to leave out.")]
_NoIntervals = Annotated[
    bool, Option("--no-intervals", help="Leave out intervals and chance floors.")
]
_NoDiagnosis = Annotated[
    bool, Option("--no-diagnosis", help="Leave out why each attack was missed.")
]
_Metrics = Annotated[
    str,
    Option(
        metavar="NAMES",
        help="Alarm metrics to measure: all, none, or names such as etapr,vus_roc.",
    ),
]
_NoReport = Annotated[bool, Option("--no-report", help="Leave out report.html.")]
_DropNonfinite = Annotated[
    bool, Option("--drop-nonfinite", help="Drop rows with nan or infinity.")
]
_Overwrite = Annotated[bool, Option("--overwrite", help="Replace earlier results.")]


@dataclass(frozen=True)
class StreamSource:
    """One input of the command.

    Parameters
    ----------
    place : str
        File, folder or pair of tables, for error messages.
    read : callable
        Reads the stream.
    """

    place: str
    read: "Callable[[], ResidualStream]"


def evaluate_command(
    streams: _Streams = None,
    out: _Out = Path("result"),
    train: _Train = None,
    test: _Test = None,
    label: _Label = None,
    time: _Time = None,
    time_format: _TimeFormat = None,
    alarms: _Alarms = None,
    score: _Score = None,
    scores: _Scores = None,
    reference_rows: _ReferenceRows = None,
    alarm_log: _AlarmLog = None,
    attribution: _Attribution = None,
    attacks: _Attacks = None,
    telemetry_train: _TelemetryTrain = None,
    telemetry_test: _TelemetryTest = None,
    ignore: _Ignore = None,
    name: _Name = None,
    step: _Step = None,
    label_slop: LabelSlopOption = None,
    estimator: _Estimator = "ledoit-wolf",
    detector: _Detector = None,
    cluster: _Cluster = None,
    guard: _Guard = 0,
    budget: BudgetOption = None,
    protocol: ProtocolOption = "sightline",
    no_intervals: _NoIntervals = False,
    no_diagnosis: _NoDiagnosis = False,
    metrics: _Metrics = "all",
    no_report: _NoReport = False,
    jobs: JobsOption = None,
    drop_nonfinite: _DropNonfinite = False,
    overwrite: _Overwrite = False,
    debug: DebugOption = False,
) -> None:
    """Measure what residuals show: attack evidence, drift, false alarms.

    Give one or more streams, or two tables with --train and --test. Each stream gets a
    folder in OUT; summary.csv and report.html cover all results there, earlier ones
    included. After an error in any stream nothing is written.

    \b
    Examples:
      sightline evaluate gdn.npz geco.npz --out result
      sightline evaluate gdn.npz --attacks attacks.csv --alarm-log alarms.csv
      sightline evaluate gdn.npz --score largest
      sightline evaluate --train train.csv --test test.csv --label attack
      sightline evaluate --train a.csv --test b.csv --alarms alarm --score score
      sightline evaluate --test scores.csv --score score --label attack
      sightline evaluate --test series.csv --label Label --scores scores/
    """
    by_rule = score == LARGEST
    own = {
        "alarms": alarms,
        "score": None if by_rule else score,
        "alarm_log": alarm_log,
    }
    tables = {
        **{"label": label, "time": time, "ignore": ignore or None, "name": name},
        **{"telemetry_train": telemetry_train, "telemetry_test": telemetry_test},
    }
    lists = {"attacks": attacks, "time_format": time_format}
    alone = {"scores": scores, "reference_rows": reference_rows}
    _check_usage(streams, train, test, own | {"attribution": attribution}, tables)
    _check_alone(train, test, alone)
    with door(debug=debug, timed=True, writes=[out]):
        from sightline.cli.summary import summary
        from sightline.evaluation.pipeline import evaluate
        from sightline.evaluation.result import protocol_named
        from sightline.metrics.alarm_figures import chosen_figures
        from sightline.rules.limits import Budget
        from sightline.storage import check_out, folder_name, write_results

        chosen = protocol_named(protocol)
        if test is None:
            sources = _sources(streams or [], detector, own | lists)
        else:
            known = own | lists | {k: v for k, v in tables.items() if v is not None}
            sources = _table_sources(train, test, alone, known)
        measure = partial(
            evaluate,
            guard=guard,
            label_slop_s=label_slop,
            protocol=chosen,
            estimator=estimator,
            nonfinite="drop" if drop_nonfinite else "error",
            intervals=not no_intervals,
            diagnosis=not no_diagnosis,
            metrics=chosen_figures(metrics),
            attribution=None if attribution is None else _array_in(attribution),
            score=LARGEST if by_rule else None,
            budget=budget or str(Budget()),
            jobs=jobs,
        )
        folders = [folder_name(one, guard, chosen) for one in sources]
        neighbours = check_out(out, folders, overwrite=overwrite)
        evaluations = [
            _evaluated(stream_name, source, step, cluster, measure)
            for stream_name, source in sources.items()
        ]
        write_results(evaluations, out, overwrite=overwrite, neighbours=neighbours)
        screen = console()
        screen.print(summary(evaluations))
        lines = [f"Written to {out}/: summary.csv, and for each stream"]
        lines += [f"  {f}/: evaluation.json, segments.csv, traces.npz" for f in folders]
        screen.print("\n".join(lines), soft_wrap=True)
        if not no_report:
            add_report(out, evaluations, neighbours)


def _array_in(path: Path) -> "Floats":
    """Return the array in a file of `numpy.save`."""
    import numpy as np

    from sightline.files import reading

    with reading(path):
        try:
            loaded = np.load(path, allow_pickle=False)
            return np.asarray(loaded, dtype=np.float64)
        except (ValueError, EOFError, TypeError) as error:
            raise FileError(
                f"{path}: is no array of numbers that numpy.save wrote: save it as "
                "shape (test rows, channels)."
            ) from error


def _check_usage(
    streams: Sequence[Path] | None,
    train: Path | None,
    test: Path | None,
    own: Mapping[str, object],
    tables: Mapping[str, object],
) -> None:
    """Refuse options that do not go together, in one sentence."""
    if bool(streams) == (test is not None) or (train is not None and test is None):
        raise BadParameter(
            "give either streams, or one table with --train and one with --test (of "
            "a score alone --test without --train)."
        )
    given = [_option(name) for name, value in tables.items() if value is not None]
    if streams and given:
        verb = "go" if given[1:] else "goes"
        raise BadParameter(f"{names(given)} {verb} with --train, --test.")
    mine = [_option(name) for name, value in own.items() if value is not None]
    if mine and len(streams or []) > 1:
        raise BadParameter(
            f"{names(mine)} can only belong to one stream: evaluate them one by one."
        )
    if own["alarms"] is not None and own["alarm_log"] is not None:
        raise BadParameter("give the alarms with --alarms or with --alarm-log.")
    if (tables["telemetry_train"] is None) != (tables["telemetry_test"] is None):
        raise BadParameter("--telemetry-train and --telemetry-test go together.")


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _sources(
    streams: Sequence[Path], detector: str | None, files: Mapping[str, Any]
) -> dict[str, StreamSource]:
    """Return how to read each stream with its files, by the name of its results.

    Nothing is read yet: a name that occurs twice, or an output folder that must not be
    replaced, is refused before any work is done.
    """
    from sightline.storage import join_files, read_stream, stream_name

    def read(path: Path) -> "ResidualStream":
        return join_files(read_stream(path, detector=detector), **files)

    sources: dict[str, StreamSource] = {}
    for path in streams:
        name = stream_name(path)
        if name in sources:
            raise FileError(
                f"{path}: another stream is called {name!r} too, and one would "
                "overwrite the other: rename one of them."
            )
        sources[name] = StreamSource(str(path), partial(read, path))
    return sources


def _check_alone(
    train: Path | None, test: Path | None, alone: Mapping[str, object]
) -> None:
    """Refuse options of a score alone where there is training data, or no test."""
    if any(alone.values()) and (train is not None or test is None):
        raise BadParameter(
            "--scores and --reference-rows go with --test, without --train."
        )


def _table_sources(
    train: Path | None, test: Path, alone: Mapping[str, Any], known: Mapping[str, Any]
) -> dict[str, StreamSource]:
    """Return how to read two tables, or each score of one table, by name."""
    from sightline.storage import read_scores, read_tables, score_files

    name = known.get("name") or test.stem
    if train is not None:
        read = partial(read_tables, train, test, **known)
        return {name: StreamSource(f"{train}, {test}", read)}
    if known.get("telemetry_train") or known.get("telemetry_test"):
        raise BadParameter("without --train the telemetry is the table's own columns.")
    options = {**known, "ignore": tuple(known.get("ignore") or ())}
    read_one = partial(
        read_scores, test, reference_rows=alone["reference_rows"], testbed=name
    )
    if (place := alone["scores"]) is None:
        read = partial(read_one, **options | {"name": name})
        return {name: StreamSource(str(test), read)}
    if options.get("score") is not None:
        raise BadParameter("give the score with --score or with --scores.")
    return {
        title: StreamSource(
            f"{test}, {path}",
            partial(
                read_one,
                **options | {"name": title, "detector": detector, "score": path},
            ),
        )
        for detector, path in score_files(place, test).items()
        for title in [f"{name}-{detector}"]
    }


def _evaluated(
    name: str,
    source: StreamSource,
    step: float | None,
    cluster: str | None,
    measure: "Callable[..., Evaluation]",
) -> "Evaluation":
    """Read one stream and return its evaluation; its rows are read and checked once."""
    with progress_bar(name) as advance:
        with options_named():
            stream = source.read()
        with naming(source.place):
            if step is not None:
                stream = stream.replace(step_s=step)
            if cluster is None:
                from sightline._kernels import announce_compiling

                # The line goes with the bar, which only a terminal shows.
                with announce_compiling(advance if sys.stderr.isatty() else silent):
                    return measure(stream, progress=advance)
            from sightline.cluster import on_cluster

            with on_cluster(stream, cluster) as shared:
                return measure(shared, progress=advance)


def report_command(
    folders: Annotated[
        list[Path],
        Argument(metavar="DIR...", help="Folders that `evaluate` wrote."),
    ],
    out: Annotated[
        Path | None,
        Option(help="Page to write; by default report.html in the first folder."),
    ] = None,
    redact: Annotated[
        bool,
        Option(
            "--redact",
            help="Use pseudonyms for plant, tags, stages, files and attacks; leave out "
            "dates, notes and telemetry.",
        ),
    ] = False,
    keep_times: Annotated[
        bool, Option("--keep-times", help="With --redact: keep dates and times.")
    ] = False,
    keep_plant: Annotated[
        bool,
        Option("--keep-plant", help="With --redact: keep names of plants and files."),
    ] = False,
    title: Annotated[str | None, Option(help="Title at the top of the page.")] = None,
    figures: Annotated[
        bool | None,
        Option(
            "--figures/--no-figures",
            help="Write figures for print as well: PDF, SVG and PNG files.",
            show_default=False,
        ),
    ] = None,
    overwrite: Annotated[
        bool, Option("--overwrite", help="Replace an earlier report.")
    ] = False,
    debug: DebugOption = False,
) -> None:
    """Write one stand-alone page that shows what each detector can see.

    \b
    Examples:
      sightline report result
      sightline report result --figures
      sightline report result --redact --out page.html
    """
    from sightline.report import (
        figures_folder,
        figures_in,
        what_remains,
        write_report,
    )
    from sightline.study.collect import title_and_primary

    if (keep_times or keep_plant) and not redact:
        raise BadParameter("--keep-times and --keep-plant need --redact.")
    keep = {"keep_times": keep_times, "keep_plant": keep_plant}
    path = folders[0] / "report.html" if out is None else out
    with door(debug=debug, writes=[path]):
        if path.is_file() and not overwrite:
            raise FileError(
                f"{path}: exists already: choose another --out, or pass --overwrite."
            )
        own_title, primary = title_and_primary(folders)
        write_report(
            folders,
            path,
            redact=redact,
            keep_times=keep_times,
            keep_plant=keep_plant,
            title=title or own_title,
            figures=bool(figures),
            primary=primary,
        )
        screen = console()
        screen.print(f"Written: {path}", soft_wrap=True)
        if redact:
            screen.print(f"{what_remains(**keep)} Look at it first.", soft_wrap=True)
        folder = figures_folder(path)
        about = ""
        if figures:
            about = f"Figures: {folder}/"
        elif figures_in(folder):
            # They must not be taken for this report's.
            real = " and may show real names" if redact else ""
            about = (
                f"The figures in {folder}/ are of an earlier report{real}: draw them "
                "again with --figures --overwrite."
            )
        elif figures is None:
            about = "Figures for print (PDF, SVG, PNG): add --figures --overwrite."
        if about:
            screen.print(about, soft_wrap=True)


def add_report(
    out: Path,
    evaluations: "Sequence[Evaluation]",
    neighbours: "Mapping[Path, Evaluation]",
) -> None:
    """Write ``report.html`` over all results of a folder, and print where it is.

    The results are complete without the page, so whatever prevents the page, such as an
    earlier result that is damaged, is a notice and no error.

    Parameters
    ----------
    out : Path
        The folder with the results.
    evaluations : sequence of Evaluation
        Results in memory that were just written; they are not read again.
    neighbours : mapping of Path to Evaluation
        The other evaluations in the folder, as `check_out` returns them; only their
        charts are read.
    """
    from sightline.report import write_report
    from sightline.storage import Result, read_result

    screen = console()
    try:
        results = [Result(out / Result.of(one).name, one) for one in evaluations]
        results += [read_result(path.parent, one) for path, one in neighbours.items()]
        results.sort(key=lambda result: result.name)
        path = write_report(results, out / "report.html")
    except Exception as error:
        what = str(error) if isinstance(error, SightlineError) else repr(error)
        screen.print(f"- report.html was not written: {what}", soft_wrap=True)
    else:
        screen.print(f"  {path.name}: the report, for a browser")


def compare_command(
    folders: Annotated[
        list[Path], Argument(metavar="DIR", help="Folders that `evaluate` wrote.")
    ],
    out: Annotated[Path | None, Option(help="File for all figures, as JSON.")] = None,
    write_up_to: Annotated[
        Path | None,
        Option(
            "--write-up",
            metavar="DIR",
            help="Folder for the tables, figures and findings of a paper.",
        ),
    ] = None,
    primary: Annotated[
        str | None,
        Option(
            help="Figure the detectors are judged by, named before you look; by "
            "default the study's, else mean_segment_auc."
        ),
    ] = None,
    cases: Annotated[
        list[str] | None,
        Option(
            "--case",
            metavar="TESTBED:ATTACK",
            help="Attack for the write-up's table attack_cases, such as swat:3; may "
            "be given again.",
        ),
    ] = None,
    overwrite: Annotated[
        bool, Option("--overwrite", help="Replace an earlier file or write-up.")
    ] = False,
    debug: DebugOption = False,
) -> None:
    """Compare detectors: differences, agreement, and whether a ranking transfers.

    Results of one detector on one testbed count as its seeds. Detectors are paired by
    attack and by time, so that row rates do not matter; p and interval are corrected
    over all pairs in the primary figure, and over all pairs in all other figures.

    \b
    Examples:
      sightline compare result
      sightline compare swat wadi --out compared.json --write-up paper
      sightline compare swat --write-up paper --case swat:3 --case swat:28
    """
    from sightline.cli.summary import comparison
    from sightline.comparison.compare import compare
    from sightline.paper import write_up
    from sightline.storage import read_results, write_json
    from sightline.study.collect import title_and_primary

    with door(debug=debug, timed=True, writes=[out, write_up_to]):
        if cases and write_up_to is None:
            raise StreamError(
                "--case adds an attack to a table of the write-up: add --write-up DIR."
            )
        with progress_bar("Comparing") as advance:
            results = read_results(folders)
            judged_by = primary or title_and_primary(folders)[1]
            compared = compare(results, primary=judged_by, progress=advance)
        if out is not None:
            write_json(compared.to_dict(), out, overwrite=overwrite)
        messages: list[str] = []
        if write_up_to is not None:
            written = write_up(
                results,
                write_up_to,
                overwrite=overwrite,
                comparison=compared,
                cases=cases or (),
            )
            count = f"{len(written.files)} files are in {write_up_to}."
            n_testbeds = len({row.evaluation.stream.testbed for row in results})
            shown = shown_notices(written.notices, written.skipped, n_testbeds)
            messages = [*shown, count]
        screen = console()
        screen.print(comparison(compared))
        for message in messages:
            screen.print(f"- {message}", soft_wrap=True)


def episodes_command(
    stream: Annotated[
        Path,
        Argument(help="Residual stream: .npz file, Parquet folder or IPAL folder."),
    ],
    out: Annotated[Path, Option(help="The review list to write, a CSV file.")],
    budget: BudgetOption = None,
    most: Annotated[int, Option(min=1, help="How many episodes to list.")] = 20,
    step: _Step = None,
    debug: DebugOption = False,
) -> None:
    """List the strongest alarms that no incident explains, to be reviewed.

    OUT gets one row for each: start, end, peak (times the alarm limit), tags, decision
    and note. Write incident, normal or unknown as the decision. If OUT exists, rows
    with a decision or a note stay as they are, and what they cover is not listed again.

    \b
    Examples:
      sightline episodes gdn.npz --out review.csv
      sightline evaluate gdn.npz --attacks review.csv --out result
    """
    from sightline.rules.episodes import find_episodes
    from sightline.rules.limits import Budget
    from sightline.show.catalogue import review_table
    from sightline.show.terminal import rendered
    from sightline.storage import read_stream
    from sightline.storage.companions import read_review_list, write_review_list

    with door(debug=debug, writes=[out]):
        with progress_bar(stream.name) as advance:
            advance(Step(StepKind.READING, detail=stream.name))
            with naming(stream):
                read = read_stream(stream)
                if step is not None:
                    read = read.replace(step_s=step)
                # Those that were reviewed do not take the place of others.
                n_known = len(read_review_list(out, read)) if out.exists() else 0
                budget = budget or str(Budget())
                found = find_episodes(read, budget=budget, most=most + n_known)
            advance(Step(StepKind.WRITING, detail=str(out)))
            rows = write_review_list(found, read, out)
        screen = console()
        if rows:
            screen.print(rendered(review_table(rows, read)))
        counts = Counter(row.decision.value for row in rows)
        decided = ", ".join(f"{n} {word}" for word, n in counts.items())
        screen.print(
            f"Written to {out}: {plural(len(rows), 'episode')}"
            f"{f' ({decided})' if rows else ''}. Write incident, normal or unknown as "
            f"the decision of each, then: sightline evaluate {stream} --attacks {out}, "
            f"or sightline commission {stream} --incidents {out} --out RULE",
            soft_wrap=True,
        )
