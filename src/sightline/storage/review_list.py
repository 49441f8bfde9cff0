"""The review list of unexplained episodes: a table for somebody who knows the plant.

One row for each episode: start and end in the plant's time zone, peak, tags, decision
(incident, normal or unknown) and note. Read back as a list of attacks (`evaluate
--attacks`, ``incidents.csv`` of a plant's folder), the rows decided ``incident`` are
the incidents.

Writing over a list loses nothing: rows with a decision or a note stay as they are, word
for word, and a new episode that overlaps one of them is not listed again.
"""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from sightline.data.stream import ResidualStream
from sightline.data.zones import iso_stamp
from sightline.errors import FileError
from sightline.files import staged_file
from sightline.rules.episodes import Episode
from sightline.storage.companions import ListTimes
from sightline.tables.lists import EpisodeDecision, decision_of, list_rows
from sightline.tables.stamps import iso_dates
from sightline.text import csv_cell

COLUMNS: Final = ("start", "end", "peak", "tags", "decision", "note")


@dataclass(frozen=True, kw_only=True)
class ReviewRow:
    """One row of a review list.

    Parameters
    ----------
    cells : dict
        Its cells by column.
    span : (start, end)
        Both in seconds, or in rows of a test without time stamps; both included.
    decision : EpisodeDecision
        What was decided; unknown as long as nothing was.
    """

    cells: dict[str, str]
    span: tuple[float, float]
    decision: EpisodeDecision

    @property
    def is_reviewed(self) -> bool:
        """Whether somebody has decided or noted something."""
        return self.decision is not EpisodeDecision.UNKNOWN or bool(
            self.cells["note"].strip()
        )


def write_review_list(
    episodes: Iterable[Episode], stream: ResidualStream, path: str | Path
) -> list[ReviewRow]:
    """Write episodes for review, and keep what an earlier list has decided.

    Parameters
    ----------
    episodes : iterable of Episode
        As `find_episodes` returns them.
    stream : ResidualStream
        The stream they were found in; its clock and zone.
    path : path
        The list, CSV. If it exists, rows with a decision or a note stay as they are,
        and episodes that overlap one of them are not listed again.

    Returns
    -------
    list of ReviewRow
        The rows written, in the order of time.

    Raises
    ------
    FileError
        If the file exists and is no review list, or a cell of it cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> stream = ResidualStream(np.zeros((9, 1)), np.zeros((9, 1)))
    >>> episode = Episode(start=2, stop=5, peak=3.21, tags=("LIT101",))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = write_review_list([episode], stream, f"{folder}/review.csv")
    >>> rows[0].cells["start"], rows[0].cells["end"], rows[0].cells["peak"]
    ('2', '4', '3.2')
    """
    path = Path(path)
    if path.suffix.lower() != ".csv":
        raise FileError(f"{path}: a review list is CSV: name it like review.csv.")
    reviewed, columns = [], list(COLUMNS)
    if path.exists():
        earlier = read_review_list(path, stream)
        reviewed = [row for row in earlier if row.is_reviewed]
        columns += [c for row in reviewed for c in row.cells if c not in columns]
    columns = list(dict.fromkeys(columns))
    found = [_row(episode, stream) for episode in episodes]
    rows = [row for row in found if not _is_listed(row, reviewed)]
    rows = sorted([*reviewed, *rows], key=lambda row: row.span)
    with (
        staged_file(path) as partial,
        open(
            partial, "w", newline="", encoding="utf-8", errors="backslashreplace"
        ) as file,
    ):
        writer = csv.DictWriter(file, columns, restval="")
        writer.writeheader()
        for row in rows:
            writer.writerow({name: csv_cell(cell) for name, cell in row.cells.items()})
    return rows


def read_review_list(path: str | Path, stream: ResidualStream) -> list[ReviewRow]:
    """Return the rows of a review list.

    Parameters
    ----------
    path : path
        The list.
    stream : ResidualStream
        The stream whose episodes it lists.

    Raises
    ------
    FileError
        If it is no review list, or a time or a decision cannot be read; the message
        names the line.
    """
    path = Path(path)
    read_time = ListTimes(path, stream, None)
    rows = list_rows(path, ["start", "end", "decision"])
    moments = iso_dates([row[name] for row in rows.values() for name in COLUMNS[:2]])
    found = []
    for k, (line, cells) in enumerate(rows.items()):
        start, end = (
            read_time(moment, name, line)
            for moment, name in zip(
                moments[2 * k : 2 * k + 2], COLUMNS[:2], strict=True
            )
        )
        if end < start:
            raise FileError(
                f"{path}: line {line}: the episode ends before it starts; check start "
                "and end."
            )
        cells = dict.fromkeys(COLUMNS, "") | cells
        decision = decision_of(cells, path, line)
        found.append(ReviewRow(cells=cells, span=(start, end), decision=decision))
    return found


def _row(episode: Episode, stream: ResidualStream) -> ReviewRow:
    """Return an episode as a row that is not reviewed yet."""
    time, rows = stream.test_time, (episode.start, episode.stop - 1)
    if time is None:
        span = (float(rows[0]), float(rows[1]))
        moments = [str(row) for row in rows]
    else:
        span = (float(time[rows[0]]), float(time[rows[1]]))
        moments = [iso_stamp(at, stream.timezone) for at in span]
    cells = {
        "start": moments[0],
        "end": moments[1],
        "peak": f"{episode.peak:.2g}" if episode.peak < 100 else f"{episode.peak:.0f}",
        "tags": "; ".join(episode.tags),
        "decision": EpisodeDecision.UNKNOWN.value,
        "note": "",
    }
    return ReviewRow(cells=cells, span=span, decision=EpisodeDecision.UNKNOWN)


def _is_listed(row: ReviewRow, reviewed: Sequence[ReviewRow]) -> bool:
    """Return whether a row overlaps one that was reviewed."""
    # Times in the list are whole seconds.
    first, last = np.floor(row.span[0]), np.ceil(row.span[1])
    return any(one.span[0] <= last and one.span[1] >= first for one in reviewed)
