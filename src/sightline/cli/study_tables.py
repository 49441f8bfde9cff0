"""A study on the terminal: the live table of its cells, and what came of them."""

from collections import defaultdict
from collections.abc import Callable, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from sightline.cli.tables import figures_table
from sightline.progress import Step
from sightline.report.overview import GlanceRow
from sightline.study import Study
from sightline.study.cell import Cell
from sightline.study.collect import REPORT
from sightline.study.status import Board, Standing

# Lines around the table that must fit on the screen too.
_AROUND = 7
# More advice than this is left to the report.
_MOST_ADVICE = 10
_STYLES = {"done": "green", "failed": "red", "waiting": "dim"}


def board_table(board: Board, height: int) -> RenderableType:
    """Return where each cell stands; of very many, those that matter most.

    Parameters
    ----------
    board : Board
        The cells.
    height : int
        Lines of the screen.
    """
    standings = list(board.standings.values())
    shown = _chosen(standings, max(height - _AROUND, 3))
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for header in ("testbed", "detector", "seed", "what"):
        table.add_column(header, no_wrap=True)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("time left", justify="right", no_wrap=True)
    for standing in shown:
        table.add_row(
            Text(standing.cell.testbed),
            Text(standing.cell.detector),
            str(standing.cell.seed),
            Text(standing.doing, style=_STYLES.get(_word(standing), "")),
            "" if standing.share is None else f"{standing.share:.0%}",
            _time(board, standing),
        )
    left = board.whole_seconds_left()
    told = board.count() + ("" if not left else f"; about {duration(left)} left")
    hidden = len(standings) - len(shown)
    if hidden:
        told += f" ({hidden} cells not shown)"
    return Group(table, Text(told))


def _chosen(standings: list[Standing], most: int) -> list[Standing]:
    """Return what fits: running cells first, then failed, waiting and done ones."""
    if len(standings) <= most:
        return standings
    order = {"": 0, "failed": 1, "waiting": 2, "done": 3}
    ranked = sorted(standings, key=lambda standing: order[_word(standing)])
    return ranked[:most]


def _word(standing: Standing) -> str:
    if standing.is_running:
        return ""
    if standing.outcome is None:
        return "waiting"
    return "done" if standing.outcome.is_done else "failed"


def _time(board: Board, standing: Standing) -> str:
    if standing.seconds is not None:
        return f"took {duration(standing.seconds)}"
    left = board.seconds_left(standing)
    return "" if left is None else duration(left)


def duration(seconds: float) -> str:
    """Return seconds in words: 12 s, 3 min 20 s, 2 h 05 min.

    Examples
    --------
    >>> duration(200)
    '3 min 20 s'
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


class StudyScreen:
    """What a study shows while it runs: a line on what it does, then its board.

    Where nobody can watch, as in a log, a line for each cell that ends.
    """

    def __init__(self, screen: Console) -> None:
        self._screen = screen
        self._line = ""
        self._board: Board | None = None
        self._ended: set[str] = set()

    def progress(self, step: Step) -> None:
        """Take in what is being done before and after the cells."""
        self._line = step.text
        if step.total:
            self._line += f" {step.done / step.total:.0%}"

    def watch(self, board: Board) -> None:
        """Take in where the cells stand."""
        self._board, self._line = board, ""
        if not self._screen.is_terminal:
            self._log(board)

    def _log(self, board: Board) -> None:
        for name, standing in board.standings.items():
            if standing.seconds is None or name in self._ended:
                continue
            self._ended.add(name)
            told = (
                f"{name}: {standing.doing}, {_time(board, standing)}; {board.count()}"
            )
            self._screen.print(Text(told), soft_wrap=True)

    def __rich__(self) -> RenderableType:
        """Return what is to be seen now."""
        if self._line or self._board is None:
            return Text(self._line)
        return board_table(self._board, self._screen.height)


def cells_table(cells: Sequence[Cell], is_done: Callable[[Cell], bool]) -> Table:
    """Return the cells of a plan that is not carried out."""
    table = Table(title="Cells", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for header in ("testbed", "detector", "seed", "key", "kept"):
        table.add_column(header, overflow="fold")
    for cell in cells:
        table.add_row(
            Text(cell.testbed),
            Text(cell.detector),
            str(cell.seed),
            cell.key[:12],
            "yes" if is_done(cell) else "no",
        )
    return table


def study_summary(study: Study) -> RenderableType:
    """Return what came of a study: figures, advice, failures, and where all is."""
    parts: list[RenderableType] = []
    if study.comparison is not None:
        parts += [*_glance_tables(study), figures_table(study.comparison)]
    if 0 < len(study.at_a_glance) <= _MOST_ADVICE:
        parts.append(Text("What to check first", style="bold"))
        parts += [
            Text(f"{row.detector} on {row.testbed}: {row.check}")
            for row in study.at_a_glance
        ]
        parts.append(Text())
    parts += [Text(f"- {notice}") for notice in study.notices]
    for name, reason in study.failed.items():
        parts.append(Text(f"{name} failed: {reason}", style="red"))
    if study.failed:
        parts.append(Text("The same command tries again what failed."))
    if study.done:
        parts.append(
            Text(
                f"Written to {study.folder}/: streams/, tables/, figures/, "
                "findings.md, methods.md, summary.csv, and each result.\n"
                f"The report, for a browser: {study.folder / REPORT}"
            )
        )
    return Group(*parts)


def _glance_tables(study: Study) -> list[Table]:
    """Return what each alarm rule found, in an operator's words; by testbed."""
    grouped: dict[str, list[GlanceRow]] = defaultdict(list)
    for row in study.at_a_glance:
        grouped[row.testbed].append(row)
    return [_glance_table(testbed, rows) for testbed, rows in grouped.items()]


def _glance_table(testbed: str, rows: Sequence[GlanceRow]) -> Table:
    seeded = any(row.n_seeds > 1 for row in rows)
    title = f"At a glance on {testbed}" + (", each first seed" if seeded else "")
    table = Table(
        title=Text(title, style="italic"),
        title_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("detector", overflow="fold")
    table.add_column("rule", no_wrap=True)
    for header in ("attacks found,\n95% interval", "false alarms", "typical\ndelay"):
        table.add_column(header, justify="right", no_wrap=True)
    for row in rows:
        who = row.detector
        for rule in row.rules:
            table.add_row(
                Text(who),
                rule.rule,
                f"{rule.found_text}, {rule.interval}".removesuffix(", "),
                rule.false_alarms,
                rule.delay,
            )
            # Said once, for the first of its rules.
            who = ""
    return table
