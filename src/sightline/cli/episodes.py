"""The command `episodes`: what no incident explains, as a list to be reviewed."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.table import Table
from typer import Argument, Option

from sightline.cli.console import DebugOption, console, door, titled_table
from sightline.errors import naming
from sightline.progress import Step, StepKind, progress_bar
from sightline.text import duration, plural, row_span

if TYPE_CHECKING:
    from sightline.data.stream import ResidualStream
    from sightline.storage.review_list import ReviewRow


def episodes_command(
    stream: Annotated[
        Path,
        Argument(help="Residual stream: .npz file, Parquet folder or IPAL folder."),
    ],
    out: Annotated[Path, Option(help="The review list to write, a CSV file.")],
    budget: Annotated[
        str,
        Option(help="Alarms a day, and share of time in alarm: 6/day,1% or 1/week."),
    ] = "6/day,1%",
    most: Annotated[int, Option(min=1, help="How many episodes to list.")] = 20,
    step: Annotated[
        float | None,
        Option(help="Seconds per row, if the stream does not contain it."),
    ] = None,
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
    from sightline.storage import read_stream
    from sightline.storage.review_list import write_review_list

    with door(debug=debug, writes=[out]):
        with progress_bar(stream.name) as advance:
            advance(Step(StepKind.READING, detail=stream.name))
            with naming(stream):
                read = read_stream(stream)
                if step is not None:
                    read = read.replace(step_s=step)
                found = find_episodes(read, budget=budget, most=most)
            advance(Step(StepKind.WRITING, detail=str(out)))
            rows = write_review_list(found, read, out)
        screen = console()
        if rows:
            screen.print(_table(rows, read))
        counts = Counter(row.decision.value for row in rows)
        decided = ", ".join(f"{n} {word}" for word, n in counts.items())
        screen.print(
            f"Written to {out}: {plural(len(rows), 'episode')}"
            f"{f' ({decided})' if rows else ''}. Write incident, normal or unknown as "
            f"the decision of each, then: sightline evaluate {stream} --attacks {out}",
            soft_wrap=True,
        )


def _table(rows: "Sequence[ReviewRow]", stream: "ResidualStream") -> Table:
    """Return the table that the terminal shows."""
    table = titled_table("Unexplained episodes")
    for name in ("Start", "Lasted", "Peak", "Tags", "Decision"):
        table.add_column(
            name, justify="right" if name in ("Lasted", "Peak") else "left"
        )
    for row in rows:
        start, end = row.span
        lasted = row_span(end - start + 1, stream.step_s)
        if stream.test_time is not None:
            lasted = duration(end - start + (stream.step_s or 0.0))
        cells = [row.cells[name] for name in ("start", "peak", "tags", "decision")]
        table.add_row(cells[0], lasted, *cells[1:])
    return table
