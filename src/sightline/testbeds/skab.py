"""SKAB: Skoltech anomaly benchmark, a pump-and-valve rig with 34 faulty runs.

``anomaly-free.csv`` is train. The folders ``valve1``, ``valve2`` and ``other`` hold
runs of about 20 minutes with one fault each; together they are test, with breaks
between them.

- The logger often skips a second or a few; only a longer pause is a break.
- The column ``anomaly`` holds the labels; ``changepoint`` is not read.
- Train and test share rows, see `_OVERLAP`; they are kept, with a notice.

See docs/testbeds.md for where the facts come from.
"""

import re
from dataclasses import replace

import numpy as np

from sightline.data.arrays import ATTACK, Floats, Ints
from sightline.data.segments import Attack
from sightline.errors import FileError
from sightline.testbeds import base
from sightline.testbeds.csv_reader import ParsedFile, SourceFile, find_header

TAGS = base.tags_of("skab")
CHANNELS = tuple(tag.name for tag in TAGS)
_TIME = ("%Y-%m-%d %H:%M:%S",)
# The logger often skips a second or a few; only a longer pause is a break.
_LONGEST_STEP_S = 5.0
_N_SHARED = 572
_OVERLAP = (
    f"SKAB: the last {_N_SHARED} rows of anomaly-free are also the first of other/5: a "
    "detector trained on them has seen part of the test. Leave those rows out of train "
    "with cut_leak=True."
)
_RUNS = {"valve1": 16, "valve2": 4, "other": 14}
# By the folder or the name of a run.
_NOTES = {
    row["attack_id"]: row["note"] for row in base.shipped_rows("attack_lists/skab.csv")
}


class Skab(base.Reader):
    """Reads SKAB: an anomaly-free run for train, 34 runs with one fault each for test.

    Faults count as attacks; a run's folder and number are the attack's id.
    """

    card = base.card_of("skab")

    def recognise(self, file: SourceFile) -> base.ReleasePart | None:
        """Recognise a run by its columns, and name it after its folder and number."""
        layout = find_header(file, set(CHANNELS).issubset)
        if layout is None:
            return None
        name, expected = "anomaly-free", base.Expected(rows=9_405)
        if "anomaly" in layout.columns:
            number = re.sub(r"\D", "", file.path.stem)
            name = f"{file.path.parent.name}/{number}"
            expected = base.Expected(attack_runs=1)
        return base.ReleasePart(name, ("1",), file, layout, expected)

    def needed(self, release: str) -> tuple[str, ...]:
        """Return the anomaly-free run, then the 34 others."""
        first = {"valve1": 0, "valve2": 0, "other": 1}
        runs = [
            f"{folder}/{first[folder] + k}"
            for folder, count in _RUNS.items()
            for k in range(count)
        ]
        return "anomaly-free", *runs

    def parse(self, part: base.ReleasePart) -> ParsedFile:
        """Return the 8 sensors, time and the anomaly flag.

        Raises
        ------
        FileError
            If a flag is neither 0 nor 1; the message names the row.
        """
        has_flag = "anomaly" in part.layout.columns
        return base.parse_table(
            part,
            CHANNELS,
            time_column="datetime",
            formats=_TIME,
            label_column="anomaly" if has_flag else None,
        )

    def assemble(
        self, release: str, parts: base.Parts, *, labels: base.LabelSource
    ) -> base.Assembled:
        """Return the anomaly-free run as train, all others in one test.

        Raises
        ------
        FileError
            If a run has no flag, or labels other than its own are asked for.
        """
        if labels != base.LabelSource.BUILT_IN:
            raise FileError("SKAB: has no labels but its own; use labels='built-in'.")
        normal, *runs = parts
        attacks, marked, n_rows = [], [], 0
        for read in runs:
            of_run, name = read.parsed.labels, read.part.name
            if of_run is None:
                raise FileError(f"{read.part.file.path}: has no column 'anomaly'.")
            rows = n_rows + np.flatnonzero(of_run == ATTACK)
            if len(rows):
                note = _NOTES.get(name) or _NOTES[name.partition("/")[0]]
                start, stop = int(rows[0]), int(rows[-1]) + 1
                attacks.append(Attack(id=name, start=start, stop=stop, note=note))
            marked.append(of_run)
            n_rows += len(of_run)
        assembled = base.assembled(
            [normal],
            runs,
            TAGS,
            1.0,
            sources=("SKAB anomaly-free", "SKAB valve1, valve2, other"),
            labels=np.concatenate(marked),
            attacks=tuple(attacks),
            notices=(
                _OVERLAP,
                f"SKAB: the logger skips up to {_LONGEST_STEP_S:g} s at a time, which "
                "is no break; the column of change points is not read.",
            ),
            breaks_of=_pauses,
        )
        return replace(assembled, n_shared=_N_SHARED)


def _pauses(time: Floats) -> Ints:
    """Return row 0 and the first row after each pause beyond `_LONGEST_STEP_S`."""
    steps = np.diff(time)
    pauses = np.flatnonzero((steps > _LONGEST_STEP_S) | (steps < 0)) + 1
    return np.concatenate([[0], pauses]).astype(np.int64)
