"""HAI: a boiler, turbine and water treatment testbed; releases 20.07 to 23.05.

Each release has several train and test files, as ``.csv`` or ``.csv.gz``, one row a
second. Each file is a run of its own; files are not in the order of time.

- 20.07 is separated by semicolons and labels some rows of its train files as attacks:
  they are left out of train.
- 21.03 repeats rows of train in test, see `_OVERLAP`; they are kept, with a notice.
- 22.04 and 23.05 are in Git LFS; a pointer instead of the data is refused.
- 23.05 has its labels in files of their own, some with time stamps to the minute: rows
  are matched by order.
- The attack lists of 20.07 and 23.05 are known to the minute and cannot label rows.
  Labelled runs get the names of the listed attacks in order.

Tags of each release are in ``tags.csv``, counts of its files in ``hai_files.csv``.
See docs/testbeds.md for where the facts come from.
"""

import re
from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import numpy as np

from sightline.data.arrays import ATTACK, Floats, Labels
from sightline.data.downsampling import without_attacks
from sightline.data.recording import Recording
from sightline.data.segments import Attack, Segment, segments_of
from sightline.errors import FileError
from sightline.testbeds.attack_tables import (
    ListedAttack,
    attack_table,
    attacks_at,
    labels_of,
)
from sightline.testbeds.base import (
    Assembled,
    Expected,
    LabelSource,
    ParsedPart,
    Part,
    Reader,
    card_of,
    parse_table,
    recording_of,
    shipped_rows,
    tags_of,
)
from sightline.testbeds.csv_reader import (
    Layout,
    ParsedFile,
    SourceFile,
    find_header,
    first_row,
)

_STEP_S = 1.0
_TIME = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M")
# Attack rows of a whole release, where the counts of single files are unknown.
_ATTACK_ROWS = {"20.07": 17_527, "22.04": 12_030}
_NAMED = re.compile(r"(label-)?(train|test)[-_ ]?(\d)", re.IGNORECASE)
# Starts in these lists are known to the minute only.
_TO_THE_MINUTE = ("20.07", "23.05")
_N_SHARED = 43_202
_OVERLAP = (
    f"HAI 21.03: the last {_N_SHARED - 1:,} rows of train1 are also the first of "
    "test3, and its first row is the last of test2: a detector trained on train1 has "
    "seen part of the test. Leave those rows out of train with cut_leak=True."
)


@cache
def _files_of(release: str) -> dict[str, tuple[Expected, str]]:
    """Return counts and first time stamp of each file: train, test, labels.

    The release notes give train3 and train4 of 23.05 in hours, not in rows: their
    counts are not checked.
    """
    return {
        row["part"]: (
            Expected(
                rows=_count(row["rows"]),
                attack_rows=_count(row["attack_rows"]),
                attack_runs=_count(row["attack_runs"]),
            ),
            row["begins"],
        )
        for row in shipped_rows("hai_files.csv")
        if row["release"] == release
    }


def _count(text: str) -> int | None:
    """Return a count; None if it is unknown."""
    return int(text) if text else None


class Hai(Reader):
    """Reads four releases of HAI, packed or plain.

    Labels are a column of the files, or, in 23.05, files of their own.
    """

    card = card_of("hai")

    def recognise(self, file: SourceFile) -> Part | None:
        """Recognise the release by its tags, the part by first time stamp or name.

        A table with the columns timestamp and label alone is a label file of 23.05.
        """
        named = _NAMED.search(file.path.name)
        layout = find_header(file, lambda names: names[:2] == ["timestamp", "label"])
        if layout is not None and len(layout.columns) == 2:
            return _label_part(file, layout, named)
        for release in self.card.releases:
            tags = {tag.name for tag in tags_of("hai", release)}
            layout = find_header(file, tags.issubset)
            if layout is not None:
                begins = next(iter(first_row(file, layout).values()), "")
                name = _part_name(release, begins, named)
                if name is None:
                    return None
                return _part(name, release, file, layout)
        return None

    def needed(self, release: str) -> tuple[str, ...]:
        """Return the files of a release: train, test, labels."""
        return tuple(_files_of(release))

    def parse(self, part: Part) -> ParsedFile:
        """Return the tags, time and overall label of one file.

        A label file of 23.05 has no tags; it is matched to its test file by row.
        """
        columns = part.layout.columns
        is_labels = part.name.startswith("label")
        tags = () if is_labels else tags_of("hai", part.releases[0])
        label_column = "label" if is_labels else "attack"
        return parse_table(
            part,
            tuple(tag.name for tag in tags),
            time_column=columns[0],
            formats=_TIME,
            label_column=next((c for c in columns if c.lower() == label_column), None),
        )

    def assemble(
        self, release: str, parts: Sequence[ParsedPart], *, labels: LabelSource
    ) -> Assembled:
        """Return train and test; each file is a run of its own.

        Raises
        ------
        FileError
            If labels are missing, do not fit their test file, or the source does not
            exist for this release.
        """
        trains, tests, label_files = (
            [read for read in parts if read.part.name.startswith(kind)]
            for kind in ("train", "test", "label")
        )
        notices: list[str] = []
        if release == "21.03":
            notices.append(_OVERLAP)
        train, left_out = without_attacks(_train(trains, release))
        notices.extend(left_out)  # 20.07 labels some rows of train as attacks
        attacks, marked = _labelled(
            release, tests, _labels_by_file(tests, label_files), labels
        )
        test = recording_of(
            tests,
            tags_of("hai", release),
            _STEP_S,
            source=f"HAI {release}, labels {labels}",
            labels=marked,
            attacks=attacks,
        )
        departures = []
        counted = int((marked == ATTACK).sum())
        expected = _ATTACK_ROWS.get(release, counted)
        if labels == LabelSource.BUILT_IN and counted != expected:
            departures.append(
                f"HAI {release}: labels {counted:,} rows of all test files as attacks "
                f"where the release has {expected:,}: copy the files again from their "
                "source, or read them as they are with strict=False."
            )
        return Assembled(
            train=train,
            test=test,
            notices=tuple(notices),
            departures=tuple(departures),
            n_shared=_N_SHARED if release == "21.03" else 0,
        )


def _label_part(
    file: SourceFile, layout: Layout, named: re.Match[str] | None
) -> Part | None:
    """Return a label file of 23.05, by its name; None if it is another file."""
    if named is None or f"label-test{named[3]}" not in _files_of("23.05"):
        return None
    return _part(f"label-test{named[3]}", "23.05", file, layout)


def _part(name: str, release: str, file: SourceFile, layout: Layout) -> Part:
    """Return a part of one release, with its expected counts."""
    return Part(
        name=name,
        releases=(release,),
        file=file,
        layout=layout,
        expected=_files_of(release)[name][0],
    )


def _part_name(release: str, begins: str, named: re.Match[str] | None) -> str | None:
    """Return the part by its first time stamp, else by the file's name."""
    parts = _files_of(release)
    for name, (_, first) in parts.items():
        if first and begins.strip() == first:
            return name
    if named is None:
        return None
    name = f"{named[2]}{named[3]}".lower()
    return name if name in parts else None


def _train(trains: Sequence[ParsedPart], release: str) -> Recording:
    """Return all train files as one recording; files without labels are normal."""
    labels = [
        np.zeros(len(read.parsed.values), np.int8)
        if read.parsed.labels is None
        else read.parsed.labels
        for read in trains
    ]
    return recording_of(
        trains,
        tags_of("hai", release),
        _STEP_S,
        source=f"HAI {release}",
        labels=np.concatenate(labels),
    )


def _labels_by_file(
    tests: Sequence[ParsedPart], label_files: Sequence[ParsedPart]
) -> list[Labels]:
    """Return the labels of each test file: its column, or its label file by row.

    Raises
    ------
    FileError
        If there is no label column, or a label file has another number of rows.
    """
    sources = label_files or tests
    for test, source in zip(tests, sources, strict=True):
        path = source.part.file.path
        n_rows, n_labels = len(test.parsed.values), len(source.parsed.values)
        if source.parsed.labels is None:
            raise FileError(
                f"{path}: has no label column 'attack', so that the times of the "
                "attacks are unknown: copy it again from its source."
            )
        if n_rows != n_labels:
            raise FileError(
                f"{path}: has {n_labels:,} labels for the {n_rows:,} "
                f"rows of {test.part.file.place}; they belong together row by row: "
                "copy both again from one release."
            )
    return [read.parsed.labels for read in sources if read.parsed.labels is not None]


def _labelled(
    release: str,
    tests: Sequence[ParsedPart],
    labels: Sequence[Labels],
    source: LabelSource,
) -> tuple[tuple[Attack, ...], Labels]:
    """Return attacks and labels by the label column or by the attack list.

    Parameters
    ----------
    release : str
        Which attack list.
    tests : sequence of ParsedPart
        The test files in order.
    labels : sequence of arrays
        The labels of each test file.
    source : LabelSource
        ``ADJUSTED`` does not exist for HAI.
    """
    table = attack_table(f"hai_{release}")
    time = np.concatenate([read.parsed.time for read in tests])
    if source == LabelSource.LIST:
        if release in _TO_THE_MINUTE:
            raise FileError(
                f"HAI {release}: its attack list is known to the minute only and "
                "cannot label rows; use labels='built-in'."
            )
        listed = attacks_at(time, ((a, a.listed) for a in table))
        return listed, labels_of(listed, len(time))
    if source == LabelSource.ADJUSTED:
        raise FileError(
            "HAI: no adjusted attack times are published; use labels='built-in'."
        )
    starts = np.cumsum([0, *map(len, labels)])
    attacks = (
        attack
        for read, of_file, (first, stop) in zip(
            tests, labels, pairwise(starts.tolist()), strict=True
        )
        for attack in _named_runs(
            read.part.name, of_file, first, table, time[first:stop]
        )
    )
    return tuple(attacks), np.concatenate(labels)


def _named_runs(
    file: str, labels: Labels, first: int, table: Sequence[ListedAttack], time: Floats
) -> list[Attack]:
    """Return the labelled runs of one file, named after its listed attacks in order.

    Where the numbers differ (a changed file), a run gets the name of the attack it
    overlaps, if there is one. `first` is the file's first row in test.
    """
    runs = segments_of(labels == ATTACK)
    candidates = [attack for attack in table if attack.file == file]
    pairs = list(zip(runs, candidates, strict=False))
    if len(runs) != len(candidates):
        pairs = [
            (run, attack)
            for run in runs
            for attack in candidates
            if attack.listed is not None and _overlaps(run, attack.listed, time)
        ]
    return [
        Attack(
            id=attack.id,
            start=first + run.start,
            stop=first + run.stop,
            targets=attack.targets,
            note=attack.note or None,
        )
        for run, attack in pairs
    ]


def _overlaps(run: Segment, span: tuple[float, float], time: Floats) -> bool:
    """Return whether a run of rows overlaps a span that is known to the minute."""
    return bool(time[run.start] <= span[1] + 59 and time[run.stop - 1] >= span[0])
