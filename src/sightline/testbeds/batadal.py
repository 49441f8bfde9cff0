"""BATADAL: the battle of the attack detection algorithms, C-Town water network.

``dataset03.csv`` is train; ``dataset04.csv`` and ``test_dataset.csv`` are test, with a
break between them; one row an hour, time stamps ``dd/mm/yy HH``.

- Release ``full``: the flags of dataset04 are complete.
- Release ``competition``: dataset04 as published, where -999 means unknown; those rows
  are ignored.

Train is written with up to nine decimals, test with two. `open_testbed` rounds train to
the decimals of test, unless it is called with ``train_decimals="raw"``.

The header's names may have blanks before them. Tags: L level of a tank (m), F flow
(l/s) and S state of a pump or valve, P pressure at a junction (m). See docs/testbeds.md
for where the facts come from.
"""

import numpy as np

from sightline.data.arrays import IGNORED
from sightline.data.downsampling import TrainDecimals
from sightline.data.segments import attacks_at, labels_of
from sightline.errors import FileError
from sightline.testbeds import base
from sightline.testbeds.base import attack_table
from sightline.testbeds.csv_reader import ParsedFile, SourceFile, find_header, first_row

TAGS = base.tags_of("batadal")
CHANNELS = tuple(tag.name for tag in TAGS)
_TIME = ("%d/%m/%y %H:%M",)
_STEP_S = 3600.0
_UNKNOWN = -999
# The files and their counts, by first time stamp.
_BEGINS = {
    "06/01/14 00": ("dataset03", base.Expected(rows=8_761, attack_rows=0)),
    "04/07/16 00": (
        "dataset04",
        base.Expected(rows=4_177, attack_rows=492, attack_runs=7),
    ),
    "04/01/17 00": (
        "test_dataset",
        base.Expected(rows=2_089, attack_rows=407, attack_runs=7),
    ),
}
_PARTLY = "dataset04 as published"


class Batadal(base.Reader):
    """Reads BATADAL with full labels, or as the competition published them.

    In the release ``competition`` most labels of dataset04 are unknown; those rows
    are ignored.
    """

    card = base.card_of("batadal")
    train_decimals = TrainDecimals.AS_TEST

    def recognise(self, file: SourceFile) -> base.ReleasePart | None:
        """Recognise the three files by first time stamp, the release by first label."""
        layout = find_header(file, set(CHANNELS).issubset)
        if layout is None:
            return None
        row = first_row(file, layout)
        name, expected = _BEGINS.get(row.get("DATETIME", ""), ("", base.Expected()))
        if not name:
            return None
        releases: tuple[str, ...] = self.card.releases
        if name == "dataset04":
            releases = ("full",)
            if row.get("ATT_FLAG", "").startswith(str(_UNKNOWN)):
                name, releases = _PARTLY, ("competition",)
                expected = base.Expected(rows=expected.rows, attack_rows=219)
        return base.ReleasePart(name, releases, file, layout, expected)

    def needed(self, release: str) -> tuple[str, ...]:
        """Return the files of a release: train, then the two of test."""
        partly = _PARTLY if release == "competition" else "dataset04"
        return "dataset03", partly, "test_dataset"

    def parse(self, part: base.ReleasePart) -> ParsedFile:
        """Return the 43 tags, time and ATT_FLAG, in which unknown rows are ignored.

        Raises
        ------
        FileError
            If a flag is neither 0, 1 nor -999; the message names the row.
        """
        return base.parse_table(
            part,
            CHANNELS,
            time_column="DATETIME",
            formats=_TIME,
            label_column="ATT_FLAG",
            unknown=_UNKNOWN,
            # The parser needs minutes; the files give hours alone.
            time_suffix=":00",
        )

    def assemble(
        self, release: str, parts: base.Parts, *, labels: base.LabelSource
    ) -> base.Assembled:
        """Return dataset03 as train, the other two as test with a break between.

        Raises
        ------
        FileError
            If adjusted labels are asked for: none are published.
        """
        normal, *attacked = parts
        if labels == base.LabelSource.ADJUSTED:
            raise FileError(
                "BATADAL: no adjusted attack times are published; use "
                "labels='built-in'."
            )
        time = np.concatenate([read.parsed.time for read in attacked])
        attacks = attacks_at(time, ((a, a.listed) for a in attack_table("batadal")))
        marked = labels_of(attacks, len(time))
        if labels == base.LabelSource.BUILT_IN:
            flags = [read.parsed.labels for read in attacked]
            marked = np.concatenate([flag for flag in flags if flag is not None])
        notices = []
        if release == "competition" and labels == base.LabelSource.BUILT_IN:
            notices.append(
                f"{int((marked == IGNORED).sum()):,} rows of dataset04 are marked "
                f"{_UNKNOWN} (unknown) and are ignored."
            )
        source = f"BATADAL dataset04, test_dataset ({release}), labels {labels}"
        return base.assembled(
            [normal],
            attacked,
            TAGS,
            _STEP_S,
            sources=("BATADAL dataset03", source),
            labels=marked,
            attacks=attacks,
            notices=notices,
        )
