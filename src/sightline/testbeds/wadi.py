"""WADI: Water Distribution, iTrust (SUTD), releases A1 (2017) and A2 (2019).

Files: ``WADI_14days.csv`` and ``WADI_attackdata.csv`` are A1, ``WADI_14days_new.csv``
and ``WADI_attackdataLABLE.csv`` are A2; one row a second.

- Lines above the header, paths before tag names, blanks after them and rows without a
  row number are skipped. ``1.#QNAN`` and its like mean "no number".
- Four of the 127 tags have no number in any file and are left out (`EMPTY`). Cells that
  are missing in other tags are held at the last value, see `hold`.
- The time column of A2 has no hours: time is computed from the row numbers. 73 h are
  cut out of its normal file: a break.
- A1 has no labels; the attack list is used. Its rows of the second leg of attack 7
  beyond the first are ignored, because most label sets call them normal.
- The label column of A2 marks attack 13 twelve hours too early, see `_LABEL_ERROR`; it
  is not changed.

Tags that never vary in normal operation are kept, because some of them are attacked.
See docs/testbeds.md for where the facts come from.
"""

from dataclasses import replace

import numpy as np

from sightline.data.arrays import IGNORED, NORMAL, Floats
from sightline.data.recording import seconds
from sightline.data.segments import (
    attacks_at,
    breaks_from_time,
    labels_of,
    rows_within,
)
from sightline.data.validity import code_counts, codes_of, hold
from sightline.errors import FileError
from sightline.testbeds import base, csv_reader
from sightline.testbeds.base import attack_table
from sightline.text import names

# The 127 tags in the order of the files. Roles are those of NSIBF, 67 sensors and 26
# actuators; the others never vary in normal operation.
ALL_CHANNELS = tuple(tag.name for tag in base.tags_of("wadi"))
# These have no number in any file.
EMPTY = ("2_LS_001_AL", "2_LS_002_AL", "2_P_001_STATUS", "2_P_002_STATUS")
TAGS = tuple(tag for tag in base.tags_of("wadi") if tag.name not in EMPTY)
CHANNELS = tuple(tag.name for tag in TAGS)

_TIME = ("%m/%d/%Y %I:%M:%S%.3f %p", "%m/%d/%Y %I:%M:%S %p")
_STEP_S = 1.0
_NO_NUMBER = ("1.#QNAN", "-1.#IND", "1.#INF", "NaN", "nan")
_BEGINS = {
    "A2 normal": seconds("2017-09-25 18:00:00"),
    "A2 attack": seconds("2017-10-09 18:00:00"),
}
_EXPECTED = {
    "A1 normal": base.Expected(rows=1_209_601, gaps=0),
    "A1 attack": base.Expected(rows=172_801, gaps=0),
    # 73 h were cut out of A2 after row 335,999.
    "A2 normal": base.Expected(rows=784_571, gaps=1),
    "A2 attack": base.Expected(rows=172_801, attack_rows=9_977, attack_runs=14, gaps=0),
}
# The label column of A2 has 1 for normal rows and this for attacks.
_ATTACKED = -1
_LABEL_ERROR = (
    "The label column marks attack 13 at 00:07:33 to 00:10:55; it ran twelve hours "
    "later, 12:07:30 to 12:10:52, and is labelled normal there: labels='list' has it "
    "right."
)


class Wadi(base.Reader):
    """Reads WADI A1 and A2 from the CSV files that iTrust sends.

    The releases differ in their normal data, their time stamps and their labels: A1
    has no label column.
    """

    card = base.card_of("wadi")

    def recognise(self, file: csv_reader.SourceFile) -> base.ReleasePart | None:
        """Recognise A1 and A2 by the header, the attack file by label or date."""
        layout = csv_reader.find_header(file, set(CHANNELS).issubset)
        if layout is None:
            return None
        is_long = "\\" in file.lines[layout.header_line]
        date = csv_reader.first_row(file, layout).get("Date", "")
        has_label = len(layout.columns) > len(ALL_CHANNELS) + 3
        is_attack = has_label or date.startswith(("10/9", "9/10"))
        name = f"{'A1' if is_long else 'A2'} {'attack' if is_attack else 'normal'}"
        return base.ReleasePart(name, (name[:2],), file, layout, _EXPECTED[name])

    def needed(self, release: str) -> tuple[str, ...]:
        """Return the normal and the attack file of a release."""
        return f"{release} normal", f"{release} attack"

    def parse(self, part: base.ReleasePart) -> csv_reader.ParsedFile:
        """Return the 123 tags that hold numbers, time, and the label of A2.

        Raises
        ------
        FileError
            If a cell or a label is not what it should be; the message names the row.
        """
        import polars as pl

        label_names = [c for c in part.layout.columns if c.lower().startswith("attack")]
        cells = csv_reader.read_cells(
            part.file,
            part.layout,
            numbers=["Row", *CHANNELS],
            texts=["Date", "Time", *label_names],
            missing=_NO_NUMBER,
        )
        is_row = ~np.isnan(cells.values[:, 0])
        n_empty = cells.n_empty + int((~is_row).sum())
        notices = []
        if n_empty:
            notices.append(
                f"{part.file.place}: {n_empty} rows without a row number were left out."
            )
        row_number = cells.values[is_row, 0]
        values = np.ascontiguousarray(cells.values[:, 1:][is_row])
        labels = None
        if label_names:
            texts = cells.texts[label_names[0]].filter(is_row).str.strip_chars()
            codes = texts.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()
            labels = base.labels_from(
                codes, part, label_names[0], normal=1, attack=_ATTACKED
            )
        if part.name.startswith("A2"):
            # Its time column has no hours; the row numbers count seconds.
            time = _BEGINS[part.name] + row_number - 1
        else:
            dates, times = (cells.texts[c].filter(is_row) for c in ("Date", "Time"))
            time = csv_reader.seconds_of_text(
                dates.str.strip_chars() + " " + times.str.strip_chars(),
                _TIME,
                file=part.file,
                column="Date, Time",
            )
        return csv_reader.ParsedFile(
            channels=CHANNELS,
            values=values,
            time=np.asarray(time),
            labels=labels,
            notices=tuple(notices),
        )

    def default_labels(self, release: str) -> base.LabelSource:
        """Return the attack list for A1, which has no label column."""
        return base.LabelSource.LIST if release == "A1" else base.LabelSource.BUILT_IN

    def assemble(
        self, release: str, parts: base.Parts, *, labels: base.LabelSource
    ) -> base.Assembled:
        """Return train (14 days) and test (2 days); missing cells are held.

        Raises
        ------
        FileError
            If labels are to be built in and the release is A1.
        """
        notices = [
            f"WADI: {names(EMPTY)} are left out, because no file has a number in them."
        ]
        filled = []
        for read in parts:
            values, told = _held(read.parsed)
            notices += [f"{read.part.file.place}: {text}" for text in told]
            filled.append(replace(read, parsed=replace(read.parsed, values=values)))
        parsed, source = parts[1].parsed, f"WADI {release}"
        if labels == base.LabelSource.BUILT_IN:
            if parsed.labels is None:
                raise FileError(
                    f"{parts[1].part.file.path}: WADI A1 has no label column; ask for "
                    "labels='list' or labels='adjusted'."
                )
            table = attack_table("wadi", release="A2_label")
            attacks = attacks_at(parsed.time, ((a, a.listed) for a in table))
            marked = parsed.labels
            notices.append(_LABEL_ERROR)
        else:
            table = attack_table("wadi", release="A1_doc")
            by = "adjusted" if labels == base.LabelSource.ADJUSTED else "listed"
            spans = [(a, getattr(a, by) or a.listed) for a in table]
            attacks = attacks_at(parsed.time, spans)
            first_legs = tuple(attack for attack in attacks if attack.id != "7b")
            marked = labels_of(first_legs, len(parsed.time))
            second_leg = next(attack.listed for attack in table if attack.id == "7b")
            if second_leg is not None:
                beyond = rows_within(parsed.time, second_leg) & (marked == NORMAL)
                marked[beyond] = IGNORED
            ignored = int(np.sum(marked == IGNORED))
            notices.append(
                f"{ignored} rows after attack 7, in which its second leg ran on to "
                "15:00:32, are ignored: most label sets call them normal."
            )
        return base.assembled(
            filled[:1],
            filled[1:],
            TAGS,
            _STEP_S,
            sources=(source, f"{source}, labels {labels}"),
            labels=marked,
            attacks=attacks,
            notices=notices,
        )


def _held(parsed: csv_reader.ParsedFile) -> tuple[Floats, list[str]]:
    """Return the values of a file with missing ones held, and sentences about them."""
    time, values = parsed.time, parsed.values.copy()
    some = np.flatnonzero(np.isnan(values).any(axis=0))
    held, codes = values[:, some], codes_of(values[:, some])
    firsts = breaks_from_time(time, _STEP_S).tolist()
    for run in map(slice, firsts, [*firsts[1:], len(time)]):
        held[run], codes[run] = hold(held[run], codes[run], time[run], base.HOLD_S)
    values[:, some] = held
    return values, code_counts(codes, [CHANNELS[k] for k in some])
