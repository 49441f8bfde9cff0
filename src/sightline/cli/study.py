"""The commands that run detectors on testbeds: `run`, `study` and `demo`."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from importlib.resources import as_file, files
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text
from typer import Argument, BadParameter, Exit, Option

from sightline.cli.catalogue import MODULES
from sightline.cli.console import (
    BudgetOption,
    DebugOption,
    NoCacheOption,
    ProtocolOption,
    console,
    door,
    shown_notices,
)
from sightline.errors import StreamError
from sightline.progress import TIME_SPENT, Step, StepKind
from sightline.show.terminal import rendered
from sightline.text import duration, names, share

if TYPE_CHECKING:
    from sightline.audit.record import Audit
    from sightline.study.cell import Board, CellStatus
    from sightline.study.collect import Study
    from sightline.study.plan import StudyPlan

# Lines of the screen that the table of cells leaves free.
_FREE_LINES = 7
# If there is more advice than this, it is left to the report.
_MOST_ADVICE = 10
# What `run` trains when no detector is named, and why.
_DEFAULT_DETECTORS = ("var", "pca", "geco")
_WHY_THESE = (
    "Detectors: var, pca and geco, as none is named: they need no torch, train in "
    "seconds to minutes, and cover linear prediction, correlation and learned "
    "invariants. Choose others with --detectors; sightline detectors lists them."
)

_Out = Annotated[Path, Option(help="Folder for all results.")]
_Cache = Annotated[
    Path | None,
    Option(help="Folder of finished cells, to share; by default OUT/cache."),
]
_Workers = Annotated[
    int | None,
    Option(min=1, help="Processes; by default as many as cores and memory can hold."),
]
_Cluster = Annotated[
    str | None, Option(help="Address of a Dask scheduler to run the cells on.")
]
_CellTimeout = Annotated[
    float | None,
    Option(
        metavar="SECONDS",
        min=0.001,
        help="End a cell after this time and go on with the others; no limit by "
        "default.",
    ),
]
_Overwrite = Annotated[
    bool, Option("--overwrite", help="Replace results of another study in OUT.")
]
_DryRun = Annotated[
    bool, Option("--dry-run", help="Open and check everything, list the cells.")
]


_Metrics = Annotated[
    str, Option(metavar="NAMES", help="Alarm metrics, as for `evaluate`.")
]


def run_command(
    plant: Annotated[
        str | None,
        Argument(
            metavar="NAME|FOLDER", help="A testbed, or a folder with your own plant."
        ),
    ] = None,
    testbed: Annotated[
        str | None, Option(help="The same, as an option; give one of the two.")
    ] = None,
    detectors: Annotated[
        str | None,
        Option(
            help="Names separated by commas; also package.module:Class. By default "
            f"{','.join(_DEFAULT_DETECTORS)}, which need no torch."
        ),
    ] = None,
    root: Annotated[
        Path | None, Option(help="Folder with the testbed's files.")
    ] = None,
    seeds: Annotated[str, Option(help="Numbers separated by commas.")] = "0",
    preset: Annotated[
        str | None,
        Option(help="export (best for a stream; the default), or official."),
    ] = None,
    protocol: ProtocolOption = "sightline",
    train_decimals: Annotated[
        str | None,
        Option(help="as-test rounds train to the decimals of test; raw does not."),
    ] = None,
    metrics: _Metrics = "all",
    budget: BudgetOption = None,
    out: _Out = Path("study"),
    cache: _Cache = None,
    workers: _Workers = None,
    cluster: _Cluster = None,
    cell_timeout: _CellTimeout = None,
    overwrite: _Overwrite = False,
    dry_run: _DryRun = False,
    no_cache: NoCacheOption = False,
    debug: DebugOption = False,
) -> None:
    """Train detectors on one testbed, and show what each of them can see.

    Exits with 1 if a cell failed, and with 130 after Ctrl-C. The same command continues
    a stopped run.

    \b
    Examples:
      sightline run my-plant/
      sightline run waterworks --detectors pca,gdn --seeds 0,1,2
      sightline run my-plant/ --detectors mymodels:Mine
    """
    if (plant is None) == (testbed is None):
        raise BadParameter(
            "name one testbed or folder: sightline run FOLDER, or --testbed NAME."
        )
    from sightline.evaluation.result import protocol_named

    with door(debug=debug, timed=True):
        decimals = {"train_decimals": train_decimals} if train_decimals else {}
        plan = _plan(plant or testbed or "", detectors, seeds, preset, root, decimals)
        plan = replace(plan, evaluation=replace(plan.evaluation, metrics=metrics))
        plan = _with_budget(plan, budget).by_protocol(protocol_named(protocol))
        if detectors is None:
            console(stderr=True).print(_WHY_THESE, soft_wrap=True)
        run_plan(
            plan,
            out,
            cache=cache,
            workers=workers,
            cluster=cluster,
            cell_timeout=cell_timeout,
            overwrite=overwrite,
            dry_run=dry_run,
            no_cache=no_cache,
            debug=debug,
        )


def plan_for(place: str, detectors: str, budget: str) -> "StudyPlan":
    """Return the plan of a run on one plant or testbed, for other commands."""
    return _with_budget(_plan(place, detectors, "0", None, None, {}), budget)


def _with_budget(plan: "StudyPlan", budget: str | None) -> "StudyPlan":
    """Return a plan with the budget of the command line, if there is one."""
    if budget is None:
        return plan
    return replace(plan, evaluation=replace(plan.evaluation, budget=budget))


def _plan(
    testbed: str,
    detectors: str | None,
    seeds: str,
    preset: str | None,
    root: Path | None,
    how: Mapping[str, str],
) -> "StudyPlan":
    """Return the plan of a run on one testbed; a plant's own name is its title.

    `how` are further options with which the testbed is opened.
    """
    from sightline.study.plan import plan_of

    folder = Path(testbed).expanduser()
    # "." and "plant/.." are folders too, and have a name.
    place = folder.resolve().name if folder.is_dir() else folder.name
    chosen = list(_DEFAULT_DETECTORS)
    if detectors is not None:
        chosen = _listed(detectors, "--detectors")
    tables: dict[str, dict[str, str]] = {}
    for name in chosen:
        detector = _label(name.rpartition(":")[2])
        if detector in tables:
            raise StreamError(f"--detectors: {detector!r} is named twice.")
        tables[detector] = {"detector": name}
        if preset is not None:
            tables[detector]["preset"] = preset
    label = _label(place)
    return plan_of(
        {
            "title": place if folder.is_dir() else f"{', '.join(chosen)} on {testbed}",
            "seeds": [
                int(seed) if seed.isdecimal() else seed
                for seed in _listed(seeds, "--seeds")
            ],
            "testbeds": {label: {"testbed": testbed, **how}},
            "detectors": tables,
        },
        place="the command line",
        roots={} if root is None else {label: root},
    )


def study_command(
    file: Annotated[
        Path, Argument(metavar="FILE", help="The plan; see docs/studies.md.")
    ],
    root: Annotated[
        list[str] | None,
        Option(metavar="TESTBED=PATH", help="Folder with a testbed's files."),
    ] = None,
    budget: BudgetOption = None,
    protocol: Annotated[
        str | None, Option(help="Replaces the protocol of the plan.")
    ] = None,
    only: Annotated[
        list[str] | None,
        Option(
            metavar="TESTBED:DETECTOR",
            help="Run only this pair of the plan; may be given again. TESTBED: and "
            ":DETECTOR stand for all pairs of one.",
        ),
    ] = None,
    explain: Annotated[
        bool,
        Option(
            "--explain",
            help="Say what would be run and who states each setting; needs no data.",
        ),
    ] = False,
    out: _Out = Path("study"),
    cache: _Cache = None,
    workers: _Workers = None,
    cluster: _Cluster = None,
    cell_timeout: _CellTimeout = None,
    overwrite: _Overwrite = False,
    dry_run: _DryRun = False,
    no_cache: NoCacheOption = False,
    debug: DebugOption = False,
) -> None:
    """Run a study from a plan: detectors x testbeds x seeds, resumable.

    Exits with 1 if a cell failed, and with 130 after Ctrl-C. The same command continues
    a stopped study; finished cells are not computed again.

    \b
    Examples:
      sightline study studies/paper.toml --root swat=/data/swat --out paper
      sightline study studies/paper.toml --explain
      sightline study studies/paper.toml --root swat=/data/swat --only swat:geco
      sightline study plan.toml --dry-run
    """
    from sightline.evaluation.result import protocol_named
    from sightline.study.plan import read_plan

    with door(debug=debug, timed=True):
        roots = {}
        for option in root or []:
            label, equals, path = option.partition("=")
            if not equals:
                raise BadParameter(f"--root takes TESTBED=PATH; got {option!r}.")
            roots[label] = path
        plan = _with_budget(read_plan(file, roots=roots), budget)
        if protocol is not None:
            plan = plan.by_protocol(protocol_named(protocol))
        if only:
            plan = plan.restricted_to(only)
        if explain:
            console().print(explained(plan), soft_wrap=True)
            return
        run_plan(
            plan,
            out,
            cache=cache,
            workers=workers,
            cluster=cluster,
            cell_timeout=cell_timeout,
            overwrite=overwrite,
            dry_run=dry_run,
            no_cache=no_cache,
            debug=debug,
        )


def demo_command(
    out: _Out = Path("demo"),
    quick: Annotated[
        bool, Option("--quick", help="In a minute or two, with less to see.")
    ] = False,
    workers: _Workers = None,
    overwrite: _Overwrite = False,
    debug: DebugOption = False,
) -> None:
    """Simulate two plants, train detectors on them, and show what each can see.

    Needs no files. OUT/report.html is the page to open in a browser. What needs torch,
    or wntr for the second plant, is left out where that is not installed.

    \b
    Examples:
      sightline demo --quick
      sightline demo --out demo
    """
    from sightline.detectors import list_detectors
    from sightline.study.plan import read_plan
    from sightline.testbeds import list_testbeds

    with door(debug=debug, timed=True):
        name = "demo_quick.toml" if quick else "demo.toml"
        with as_file(files("sightline.study") / name) as path:
            plan = read_plan(path)
        needs = {card.name: card.extra for card in list_detectors()}
        needs |= {card.name: card.extra for card in list_testbeds()}
        absent: dict[str, list[str]] = {}
        names = [one.testbed for one in plan.testbeds]
        for name in (*names, *(one.detector for one in plan.detectors)):
            if (extra := needs.get(name)) and not find_spec(MODULES[extra]):
                absent.setdefault(extra, []).append(name)
        for extra, left_out in absent.items():
            console().print(
                f"Left out, because {MODULES[extra]} is not installed: "
                f"{', '.join(left_out)}. To run {'them' if left_out[1:] else 'it'} "
                f"too: pip install 'sightline-cps[{extra}]'."
            )
        gone = set(chain(*absent.values()))
        plan = replace(
            plan,
            testbeds=tuple(one for one in plan.testbeds if one.testbed not in gone),
            detectors=tuple(one for one in plan.detectors if one.detector not in gone),
        )
        run_plan(plan, out, workers=workers, overwrite=overwrite, debug=debug)


def _listed(text: str, option: str) -> list[str]:
    """Return the names of a list separated by commas; there must be one."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise StreamError(f"{option} names nothing.")
    return names


def _label(name: str) -> str:
    """Return a name with every character replaced that a file name may not have."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", name).strip("-.") or "plant"


def run_plan(
    plan: "StudyPlan",
    out: Path,
    *,
    cache: Path | None = None,
    workers: int | None = None,
    cluster: str | None = None,
    cell_timeout: float | None = None,
    overwrite: bool = False,
    dry_run: bool = False,
    no_cache: bool = False,
    debug: bool = False,
) -> None:
    """Run a study and print what it gave; exit with 1 where a cell fails.

    With `dry_run` open and check everything that the plan names, and list the cells
    with their keys; nothing is written. With `no_cache` neither read nor write Parquet
    copies of the testbeds' files.
    """
    from sightline.show.catalogue import cells_table
    from sightline.study.cell import Cache
    from sightline.study.collect import check_folder
    from sightline.study.run import cells_of, names_of, open_testbeds, run_study

    if no_cache:
        testbeds = tuple(replace(choice, cache=False) for choice in plan.testbeds)
        plan = replace(plan, testbeds=testbeds)
    if dry_run:
        with _live_screen() as screen:
            check_folder(names_of(plan), out, overwrite=overwrite)
            opened = open_testbeds(plan, None, screen.progress, screen.audited)
            is_done = Cache(cache or out / "cache").is_done
            table = cells_table(cells_of(plan, opened), is_done)
        console().print(rendered(table), soft_wrap=True)
        return
    with _live_screen() as screen:
        study = run_study(
            plan,
            out,
            cache=cache,
            workers=workers,
            cluster=cluster,
            cell_timeout_s=cell_timeout,
            overwrite=overwrite,
            progress=screen.progress,
            watch=screen.watch,
            audited=screen.audited,
        )
    console().print(study_summary(study), soft_wrap=True)
    if debug:
        for trace in filter(None, study.traces.values()):
            console(stderr=True).print(trace, markup=False, soft_wrap=True)
    if study.failed:
        raise Exit(1)


def explained(plan: "StudyPlan") -> RenderableType:
    """Return what a plan would run: rows, trimming, settings and who states them."""
    from sightline.study.plan import explain, plant_name, prepared_by
    from sightline.testbeds import list_testbeds

    cards = {card.name: card for card in list_testbeds()}
    seeds = ", ".join(map(str, plan.seeds))
    lines = [
        Text(plan.title, style="bold"),
        Text(f"protocol {plan.evaluation.protocol}; seeds {seeds}"),
    ]
    pairs = explain(plan)
    for testbed in plan.testbeds:
        card, done = cards.get(plant_name(testbed)), prepared_by(testbed)
        releases = card.releases if card else ()
        release = testbed.options.get("release") or next(iter(releases), "")
        step = f", a row every {card.step_s:g} s as measured" if card else ""
        made = f", opened with rows of {done.every}" if done.every > 1 else ""
        head = f"\n{testbed.label}: {card.title if card else testbed.testbed} {release}"
        lines.append(Text(f"{head.rstrip()}{step}{made}", style="bold"))
        for pair in pairs:
            if pair.testbed != testbed.label:
                continue
            lines.append(Text(f"  {pair.detector}"))
            for name, text in (("rows", pair.rows), ("trimming", pair.trimming)):
                if text:
                    lines.append(Text(f"    {name}: {text}"))
            lines += [
                Text(f"    {one.name} = {one.value!r} ({one.origin})")
                for one in pair.settings
            ]
            lines += [Text(f"    from {text}", style="dim") for text in pair.sources]
    return Group(*lines)


# ---- while a study runs --------------------------------------------------------------


@contextmanager
def _live_screen() -> "Iterator[StudyScreen]":
    """Show a study on a terminal while it runs; Ctrl-C ends it with code 130."""
    from rich.live import Live

    terminal = console(stderr=True)
    screen = StudyScreen(terminal)
    live = (
        Live(screen, console=terminal, transient=True)
        if terminal.is_terminal
        else nullcontext()
    )
    try:
        with live:
            yield screen
    except KeyboardInterrupt:
        terminal.print("Stopped. The same command continues where it stopped.")
        raise Exit(130) from None


class StudyScreen:
    """What a study shows while it runs: one line on its step, then the table of cells.

    If the output is not a terminal, such as a log file, one line is printed for each
    cell that ends.

    Parameters
    ----------
    console : Console
        Where to print.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._line = ""
        self._board: Board | None = None
        self._logged: set[str] = set()

    def progress(self, step: Step) -> None:
        """Show a step of the work before and after the cells; a notice stays."""
        if step.kind is StepKind.NOTICE:
            self._console.print(Text(step.detail), soft_wrap=True)
            return
        TIME_SPENT.at([step.kind])
        self._line = step.text
        if step.total:
            self._line += f" {share(step.done / step.total)}"

    def audited(self, label: str, audit: "Audit") -> None:
        """Print the accepted errors of a testbed's audit, and count its warnings."""
        from sightline.cli.summary import audit_words

        lines = [one.line for one in audit.errors]
        if n_warnings := len(audit.serious) - len(lines):
            lines.append(audit_words(n_warnings))
        for line in lines:
            self._console.print(Text(f"{label}: {line}"), soft_wrap=True)

    def watch(self, board: "Board") -> None:
        """Show the status of all cells."""
        self._board, self._line = board, ""
        TIME_SPENT.at([s.step.kind for s in board.statuses.values() if s.is_running])
        if self._console.is_terminal:
            return
        # In a log file, one line for each cell that has ended since the last call.
        for name, status in board.statuses.items():
            if status.seconds is None or name in self._logged:
                continue
            self._logged.add(name)
            line = f"{name}: {status.text}, {_time(status)}; {board.text}"
            self._console.print(Text(line), soft_wrap=True)

    def __rich__(self) -> RenderableType:
        """Return what the terminal shows now."""
        if self._line or self._board is None:
            return Text(self._line)
        return board_table(self._board, self._console.height)


def board_table(board: "Board", height: int) -> RenderableType:
    """Return the table of all cells with their step and the time left.

    Parameters
    ----------
    board : Board
        The status of the cells.
    height : int
        Lines of the screen. If not all cells fit, running cells are shown first, then
        failed, waiting and finished ones.
    """
    statuses = list(board.statuses.values())
    n_rows = max(height - _FREE_LINES, 3)
    if len(statuses) > n_rows:
        statuses = sorted(statuses, key=lambda status: _rank(status)[0])[:n_rows]
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for header in ("testbed", "detector", "seed", "step"):
        table.add_column(header, no_wrap=True)
    for header in ("", "time left"):
        table.add_column(header, justify="right", no_wrap=True)
    for status in statuses:
        table.add_row(
            Text(status.cell.testbed),
            Text(status.cell.detector),
            str(status.cell.seed),
            Text(status.text, style=_rank(status)[1]),
            "" if status.share is None else share(status.share),
            _time(status),
        )
    left = board.seconds_left()
    line = board.text + ("" if not left else f"; about {duration(left)} left")
    n_hidden = len(board.statuses) - len(statuses)
    if n_hidden:
        line += f" ({n_hidden} cells not shown)"
    return Group(table, Text(line))


def _rank(status: "CellStatus") -> tuple[int, str]:
    """Return the rank of a cell on a full screen, and the style of its text.

    Running cells rank 0, failed cells 1, waiting cells 2 and finished cells 3.
    """
    if status.is_running:
        return 0, ""
    if status.outcome is None:
        return 2, "dim"
    return (1, "red") if status.has_failed else (3, "green")


def _time(status: "CellStatus") -> str:
    """Return how long a cell took, or its present step will still take."""
    if status.seconds is not None:
        return f"took {duration(status.seconds)}"
    left = status.seconds_left()
    return "" if left is None else duration(left)


# ---- after a study -------------------------------------------------------------------


def study_summary(study: "Study") -> RenderableType:
    """Return what a study gave, for the terminal.

    For each testbed what an operator asks first, the figures over seeds, what to check
    first (for up to `_MOST_ADVICE` detectors), notices, failed cells, and where the
    files are.
    """
    from sightline.show.comparison import figures_table
    from sightline.show.rules import glance_table
    from sightline.study.collect import REPORT

    parts: list[RenderableType] = []
    if study.comparison is not None:
        for testbed in dict.fromkeys(row.testbed for row in study.at_a_glance):
            rows = [row for row in study.at_a_glance if row.testbed == testbed]
            parts.append(rendered(glance_table(testbed, rows)))
        parts.append(rendered(figures_table(study.comparison)))
    if 0 < len(study.at_a_glance) <= _MOST_ADVICE:
        parts.append(Text("What to check first", style="bold"))
        parts += [
            Text(f"{row.detector} on {row.testbed}: {row.check}")
            for row in study.at_a_glance
        ]
        parts.append(Text())
    n_testbeds = len({row.testbed for row in study.at_a_glance})
    shown = shown_notices(study.notices, study.skipped, n_testbeds)
    parts += [Text(f"- {notice}") for notice in shown]
    for name, reason in study.failed.items():
        parts.append(Text(f"{name} failed: {reason}", style="red"))
    if study.failed:
        parts.append(Text("The same command runs the failed cells again."))
    if n_testbeds == 1 and study.done:
        streams = names([f"{name}.npz" for name in study.done], 5)
        parts.append(
            Text(
                f"Next, an alarm rule for one of {streams}: sightline commission "
                f"{study.folder}/streams/{study.done[0]}.npz --out rule"
            )
        )
    if study.done:
        parts.append(
            Text(
                f"Written to {study.folder}/: streams/, detectors/, tables/, figures/, "
                "attacks.csv, findings.md, methods.md, summary.csv, and each result.\n"
                f"The report, for a browser: {study.folder / REPORT}"
            )
        )
    return Group(*parts)
