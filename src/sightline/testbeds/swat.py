"""SWaT: Secure Water Treatment, iTrust (SUTD), A1 & A2, December 2015.

Files: ``SWaT_Dataset_Normal_v0`` or ``_v1`` is train, ``SWaT_Dataset_Attack_v0`` is
test, both as CSV or Excel, one row a second.

- The normal file may have a line of stage names above its header. The attack file
  begins with a byte order mark and has blanks before tag names and time stamps. A copy
  with semicolons and decimal commas exists. All of them are read.
- Time stamps have the day first and 12 hours, in Singapore time.
- The attack file lacks 81 s on 31 December: a break.
- 37 rows are labelled ``A ttack``; they count as attacks, with a notice.
- The label column and the attack list differ, see `_LABEL_ERRORS`; neither is changed.
- The damaged copy on Kaggle is refused.

Actuators have the codes 1 (off or closed), 2 (on or open) and 0 (moving). See
docs/testbeds.md for where the facts come from.
"""

from contextlib import suppress
from datetime import datetime

import numpy as np

from sightline.data.segments import attacks_at, labels_of
from sightline.errors import FileError
from sightline.testbeds import base, csv_reader
from sightline.testbeds.base import attack_table

TAGS = base.tags_of("swat")
CHANNELS = tuple(tag.name for tag in TAGS)

# Day first, 12 hours; spreadsheet programs write the other two.
_TIME = ("%d/%m/%Y %I:%M:%S %p", "%Y-%m-%d %H:%M:%S", "%d/%m/%Y %H:%M:%S")
_STEP_S = 1.0
_ATTACKS_BEGIN = datetime(2015, 12, 28, 10)
_V1_BEGINS = datetime(2015, 12, 22, 16, 30)
_EXPECTED = {
    "Normal_v0": base.Expected(rows=496_800, attack_rows=0, gaps=0),
    "Normal_v1": base.Expected(rows=495_000, attack_rows=0, gaps=0),
    # One gap of 81 s, on 31 December between 16:06 and 22:06.
    "Attack_v0": base.Expected(
        rows=449_919, attack_rows=54_621, attack_runs=35, gaps=1
    ),
}
_RECUT = (
    "the re-cut of SWaT found on Kaggle, in which days occur twice, seven tags are "
    "mostly empty and attack rows are out of order: ask iTrust for the original "
    "SWaT_Dataset_Normal and SWaT_Dataset_Attack files."
)
_LABEL_ERRORS = (
    "The label column marks 2015-12-29 06:30 to 06:42, which is in no attack list (it "
    "is 12 h before attack 21), and ends attack 41 15 s late: labels='list' does not."
)
_ADJUSTED_LEAVES_OUT = (
    "The adjusted times leave out attacks 4, 14 and 29, which are not visible in the "
    "readings: their rows count as normal."
)
_LABEL_NOTICES = {
    base.LabelSource.BUILT_IN: (_LABEL_ERRORS,),
    base.LabelSource.LIST: (),
    base.LabelSource.ADJUSTED: (_ADJUSTED_LEAVES_OUT,),
}
_RECUT_ROWS = (1_387_098, 54_621, 1_441_719)


class Swat(base.Reader):
    """Reads SWaT from the CSV or Excel files that iTrust sends.

    Releases ``v0`` and ``v1`` differ in the normal file: v1 is v0 without its first
    30 minutes.
    """

    card = base.card_of("swat")

    def recognise(self, file: csv_reader.SourceFile) -> base.ReleasePart | None:
        """Recognise Normal v0, v1 and Attack v0 by tags and first time stamp.

        A file of the damaged re-cut is a part without releases, so that it is refused
        with its name if nothing better is found.
        """
        layout = csv_reader.find_header(file, set(CHANNELS).issubset)
        if layout is None:
            return None
        row = csv_reader.first_row(file, layout)
        text, begins = next(iter(row.values()), "").strip(), None
        for form in _TIME:
            with suppress(ValueError):
                begins = begins or datetime.strptime(text, form)
        # The part by the first time stamp, else by the file's name.
        is_attack, is_v1 = (word in file.path.name.lower() for word in ("attack", "v1"))
        if begins is not None:
            is_attack, is_v1 = begins >= _ATTACKS_BEGIN, begins == _V1_BEGINS
        name = "Attack_v0" if is_attack else "Normal_v1" if is_v1 else "Normal_v0"
        releases: tuple[str, ...] = ("v0", "v1")
        if name.startswith("Normal"):
            releases = (name[-2:],)
        # The damaged re-cut by its name, its start or its first label.
        stem = file.path.name.lower().partition(".")[0]
        is_late = begins is not None and begins >= _ATTACKS_BEGIN
        label = next(reversed(row.values()), "").replace(" ", "")
        if stem == "merged" or (stem == "normal" and is_late) or label == "Attack":
            name, releases = _RECUT, ()
        expected = _EXPECTED.get(name, base.Expected())
        return base.ReleasePart(name, releases, file, layout, expected)

    def needed(self, release: str) -> tuple[str, ...]:
        """Return the normal file of the release, and the attack file."""
        return f"Normal_{release}", "Attack_v0"

    def parse(self, part: base.ReleasePart) -> csv_reader.ParsedFile:
        """Return the 51 tags, time and the label column of one file.

        Raises
        ------
        FileError
            If the file is the re-cut, by its number of rows, or a label is unknown.
        """
        time_name = part.layout.columns[0]
        label_names = [c for c in part.layout.columns if "attack" in c.lower()]
        cells = csv_reader.read_cells(
            part.file, part.layout, numbers=CHANNELS, texts=[time_name, *label_names]
        )
        if len(cells.values) in _RECUT_ROWS:
            raise FileError(f"{part.file.path}: is {_RECUT}")
        notices, labels = [], None
        if label_names:
            texts = cells.texts[label_names[0]]
            # Blanks within a word are ignored: some rows say "A ttack".
            words = texts.str.replace_all(" ", "").fill_null("")
            is_attack, is_word = words == "Attack", words.is_in(["Normal", "Attack"])
            if not is_word.all():
                row = int((~is_word).arg_max() or 0)
                why = "check that the file is the original one"
                if row == len(texts) - 1:
                    why = (
                        "the file ends in the middle of that row: copy it again from "
                        "its source"
                    )
                raise FileError(
                    f"{part.file.path}: column 'Normal/Attack' must say Normal or "
                    f"Attack; data row {row + 1} says {texts[row]!r:.40}: {why}."
                )
            misspelt = int((is_attack & (texts.str.strip_chars() != "Attack")).sum())
            if misspelt:
                notices.append(
                    f"{part.file.place}: {misspelt} rows are labelled 'A ttack' and "
                    "were read as Attack."
                )
            labels = np.asarray(is_attack.to_numpy()).astype(np.int8)
        return csv_reader.ParsedFile(
            channels=CHANNELS,
            values=cells.values,
            time=csv_reader.seconds_of_text(
                cells.texts[time_name], _TIME, file=part.file, column=time_name
            ),
            labels=labels,
            notices=tuple(notices),
        )

    def assemble(
        self, release: str, parts: base.Parts, *, labels: base.LabelSource
    ) -> base.Assembled:
        """Return train (Normal) and test (Attack), labelled by one source.

        Raises
        ------
        FileError
            If labels are to be built in and the file has no label column.
        """
        read, table = parts[1], attack_table("swat")
        field = {"list": "listed", "adjusted": "adjusted", "built-in": "labelled"}
        spans = [(attack, getattr(attack, field[labels])) for attack in table]
        attacks = attacks_at(read.parsed.time, spans)
        marked = labels_of(attacks, len(read.parsed.time))
        if labels == base.LabelSource.BUILT_IN:
            if read.parsed.labels is None:
                raise FileError(
                    f"{read.part.file.path}: has no column 'Normal/Attack' to take "
                    "labels from; use labels='list' instead."
                )
            marked = read.parsed.labels
        source = f"SWaT A1 & A2 Dec 2015, {parts[0].part.name}, {parts[1].part.name}"
        return base.assembled(
            parts[:1],
            parts[1:],
            TAGS,
            _STEP_S,
            sources=(source, f"{source}, labels {labels}"),
            labels=marked,
            attacks=attacks,
            notices=_LABEL_NOTICES[labels],
        )
