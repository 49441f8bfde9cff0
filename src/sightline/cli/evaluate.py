"""The commands on results: `evaluate` makes them, `compare` and `report` read them."""

import sys
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
    ProtocolOption,
    console,
    door,
    options_named,
    shown_notices,
)
from sightline.errors import FileError, SightlineError, naming
from sightline.progress import progress_bar, silent
from sightline.text import names

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
    Option(metavar="COLUMN|FILE", help="Your own score, in the same way."),
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
class _Source:
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
    alarm_log: _AlarmLog = None,
    attribution: _Attribution = None,
    attacks: _Attacks = None,
    telemetry_train: _TelemetryTrain = None,
    telemetry_test: _TelemetryTest = None,
    ignore: _Ignore = None,
    name: _Name = None,
    step: _Step = None,
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
      sightline evaluate --train train.csv --test test.csv --label attack
      sightline evaluate --train a.csv --test b.csv --alarms alarm --score score
    """
    own = {"alarms": alarms, "score": score, "alarm_log": alarm_log}
    tables = {
        **{"label": label, "time": time, "ignore": ignore or None, "name": name},
        **{"telemetry_train": telemetry_train, "telemetry_test": telemetry_test},
    }
    lists = {"attacks": attacks, "time_format": time_format}
    _check_usage(streams, train, test, own | {"attribution": attribution}, tables)
    with door(debug=debug, writes=[out]):
        from sightline.evaluation.pipeline import evaluate
        from sightline.evaluation.protocol import protocol_named
        from sightline.metrics.alarm_figures import chosen_figures
        from sightline.rules.limits import Budget
        from sightline.storage import folder_name

        chosen = protocol_named(protocol)
        if train is not None and test is not None:
            known = {k: v for k, v in tables.items() if v is not None}
            sources = _table_source(train, test, own | lists | known)
        else:
            sources = _sources(streams or [], detector, own | lists)
        measure = partial(
            evaluate,
            guard=guard,
            protocol=chosen,
            estimator=estimator,
            nonfinite="drop" if drop_nonfinite else "error",
            intervals=not no_intervals,
            diagnosis=not no_diagnosis,
            metrics=chosen_figures(metrics),
            attribution=None if attribution is None else _array_in(attribution),
            budget=budget or str(Budget()),
            jobs=jobs,
        )
        with_step = {} if step is None else {"step_s": step}
        _evaluate_all(
            sources,
            partial(_evaluated, known=with_step, cluster=cluster, measure=measure),
            out,
            naming=partial(folder_name, guard=guard, protocol=chosen),
            overwrite=overwrite,
            report=not no_report,
        )


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
    if (train is None) != (test is None) or bool(streams) == (train is not None):
        raise BadParameter(
            "give either streams, or one table with --train and one with --test."
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


def _evaluate_all(
    sources: Mapping[str, _Source],
    evaluated: "Callable[[str, _Source], Evaluation]",
    out: Path,
    *,
    naming: "Callable[[str], str]",
    overwrite: bool,
    report: bool,
) -> None:
    """Evaluate all streams, then write and print all results, or none.

    `naming` gives the folder of the result of a stream.
    """
    from sightline.storage import check_out, write_results

    folders = [naming(stream_name) for stream_name in sources]
    neighbours = check_out(out, folders, overwrite=overwrite)
    evaluations = [evaluated(*source) for source in sources.items()]
    write_results(evaluations, out, overwrite=overwrite, neighbours=neighbours)
    _print_results(evaluations, out, folders)
    if report:
        add_report(out, evaluations, neighbours)


def _table_source(
    train: Path, test: Path, known: Mapping[str, Any]
) -> dict[str, _Source]:
    """Return how to read two tables, by the name that their results will have."""
    from sightline.storage import read_tables

    read = partial(read_tables, train, test, **known)
    return {known.get("name") or test.stem: _Source(f"{train}, {test}", read)}


def _sources(
    streams: Sequence[Path], detector: str | None, files: Mapping[str, Any]
) -> dict[str, _Source]:
    """Return how to read each stream with its files, by the name of its results.

    Nothing is read yet: a name that occurs twice, or an output folder that must not be
    replaced, is refused before any work is done.
    """
    from sightline.storage import join_files, read_stream, stream_name

    def read(path: Path) -> "ResidualStream":
        return join_files(read_stream(path, detector=detector), **files)

    sources: dict[str, _Source] = {}
    for path in streams:
        name = stream_name(path)
        if name in sources:
            raise FileError(
                f"{path}: another stream is called {name!r} too, and one would "
                "overwrite the other: rename one of them."
            )
        sources[name] = _Source(str(path), partial(read, path))
    return sources


def _evaluated(
    name: str,
    source: _Source,
    *,
    known: Mapping[str, float],
    cluster: str | None,
    measure: "Callable[..., Evaluation]",
) -> "Evaluation":
    """Read one stream and return its evaluation; its rows are read and checked once."""
    with progress_bar(name) as advance:
        with options_named():
            stream = source.read()
        with naming(source.place):
            if known:
                stream = stream.replace(**known)
            if cluster is None:
                from sightline._kernels.compiling import announce_compiling

                # The line goes with the bar, which only a terminal shows.
                with announce_compiling(advance if sys.stderr.isatty() else silent):
                    return measure(stream, progress=advance)
            from sightline.cluster import on_cluster

            with on_cluster(stream, cluster) as shared:
                return measure(shared, progress=advance)


def _print_results(
    evaluations: "Sequence[Evaluation]", out: Path, folders: Sequence[str]
) -> None:
    """Print the summary and the names of all files written."""
    from sightline.cli.summary import summary

    screen = console()
    screen.print(summary(evaluations))
    screen.print(f"Written to {out}/: summary.csv, and for each stream", soft_wrap=True)
    for folder in folders:
        screen.print(
            f"  {folder}/: evaluation.json, segments.csv, traces.npz", soft_wrap=True
        )


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
    from sightline.report import what_remains, write_report
    from sightline.study.manifest import study_title

    if (keep_times or keep_plant) and not redact:
        raise BadParameter("--keep-times and --keep-plant need --redact.")
    keep = {"keep_times": keep_times, "keep_plant": keep_plant}
    path = folders[0] / "report.html" if out is None else out
    with door(debug=debug, writes=[path]):
        if path.is_file() and not overwrite:
            raise FileError(
                f"{path}: exists already: choose another --out, or pass --overwrite."
            )
        write_report(
            folders,
            path,
            redact=redact,
            keep_times=keep_times,
            keep_plant=keep_plant,
            title=title or (study_title(folders[0]) if len(folders) == 1 else None),
            figures=bool(figures),
        )
        screen = console()
        screen.print(f"Written: {path}", soft_wrap=True)
        if redact:
            screen.print(f"{what_remains(**keep)} Look at it first.", soft_wrap=True)
        if about := _about_figures(path, figures, redact=redact):
            screen.print(about, soft_wrap=True)


def _about_figures(page: Path, wanted: bool | None, *, redact: bool) -> str:
    """Return where a page's figures for print are, or how to get them.

    Empty if they are not wanted, and none of an earlier report is there to be taken for
    this one's.
    """
    from sightline.report import figures_folder, figures_in

    folder = figures_folder(page)
    if wanted:
        return f"Figures: {folder}/"
    if figures_in(folder):
        return (
            f"The figures in {folder}/ are of an earlier report"
            f"{' and may show real names' if redact else ''}: draw them again with "
            "--figures --overwrite."
        )
    if wanted is None:
        return "Figures for print (PDF, SVG, PNG): add --figures --overwrite."
    return ""


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
    overwrite: Annotated[
        bool, Option("--overwrite", help="Replace an earlier file or write-up.")
    ] = False,
    debug: DebugOption = False,
) -> None:
    """Compare detectors: differences, agreement, and whether a ranking transfers.

    Results of one detector on one testbed count as its seeds. Detectors are paired by
    attack and by time, so that row rates do not matter; p is corrected over all pairs.

    \b
    Examples:
      sightline compare result
      sightline compare swat wadi --out compared.json --write-up paper
    """
    from sightline.cli.summary import comparison
    from sightline.comparison.compare import compare
    from sightline.paper import write_up
    from sightline.storage import read_results, write_json

    with door(debug=debug, writes=[out, write_up_to]):
        with progress_bar("Comparing") as advance:
            results = read_results(folders)
            compared = compare(results, progress=advance)
        if out is not None:
            write_json(compared.to_dict(), out, overwrite=overwrite)
        messages: list[str] = []
        if write_up_to is not None:
            written = write_up(
                results, write_up_to, overwrite=overwrite, comparison=compared
            )
            count = f"{len(written.files)} files are in {write_up_to}."
            n_testbeds = len({row.evaluation.stream.testbed for row in results})
            shown = shown_notices(written.notices, written.skipped, n_testbeds)
            messages = [*shown, count]
        screen = console()
        screen.print(comparison(compared))
        for message in messages:
            screen.print(f"- {message}", soft_wrap=True)
