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
from functools import cache

import numpy as np

from sightline.data.arrays import ATTACK, Labels
from sightline.data.downsampling import without_attacks
from sightline.data.segments import Attack, attacks_at, labels_of, segments_of
from sightline.errors import FileError
from sightline.testbeds import base, csv_reader
from sightline.testbeds.base import attack_table

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
def _files_of(release: str) -> dict[str, tuple[base.Expected, str]]:
    """Return counts and first time stamp of each file: train, test, labels.

    The release notes give train3 and train4 of 23.05 in hours, not in rows: their
    counts are not checked.
    """
    return {
        row["part"]: (
            base.Expected(
                **{
                    key: int(row[key])
                    for key in ("rows", "attack_rows", "attack_runs")
                    if row[key]
                }
            ),
            row["begins"],
        )
        for row in base.shipped_rows("hai_files.csv")
        if row["release"] == release
    }


class Hai(base.Reader):
    """Reads four releases of HAI, packed or plain.

    Labels are a column of the files, or, in 23.05, files of their own.
    """

    card = base.card_of("hai")

    def recognise(self, file: csv_reader.SourceFile) -> base.ReleasePart | None:
        """Recognise the release by its tags, the part by first time stamp or name.

        A table with the columns timestamp and label alone is a label file of 23.05.
        """
        named = _NAMED.search(file.path.name)
        layout = csv_reader.find_header(
            file, lambda names: names[:2] == ["timestamp", "label"]
        )
        if layout is not None and len(layout.columns) == 2:
            # Its name says which test file it belongs to.
            name = f"label-test{named[3]}" if named else ""
            return _part(name, "23.05", file, layout)
        for release in self.card.releases:
            tags = {tag.name for tag in base.tags_of("hai", release)}
            layout = csv_reader.find_header(file, tags.issubset)
            if layout is not None:
                begins = next(iter(csv_reader.first_row(file, layout).values()), "")
                by_start = {first: n for n, (_, first) in _files_of(release).items()}
                by_name = f"{named[2]}{named[3]}".lower() if named else ""
                name = by_start.get(begins, by_name) if begins else by_name
                return _part(name, release, file, layout)
        return None

    def needed(self, release: str) -> tuple[str, ...]:
        """Return the files of a release: train, test, labels."""
        return tuple(_files_of(release))

    def parse(self, part: base.ReleasePart) -> csv_reader.ParsedFile:
        """Return the tags, time and overall label of one file.

        A label file of 23.05 has no tags; it is matched to its test file by row.
        """
        columns = part.layout.columns
        is_labels = part.name.startswith("label")
        tags = () if is_labels else base.tags_of("hai", part.releases[0])
        label_column = "label" if is_labels else "attack"
        return base.parse_table(
            part,
            tuple(tag.name for tag in tags),
            time_column=columns[0],
            formats=_TIME,
            label_column=next((c for c in columns if c.lower() == label_column), None),
        )

    def assemble(
        self, release: str, parts: base.Parts, *, labels: base.LabelSource
    ) -> base.Assembled:
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
        tags = base.tags_of("hai", release)
        # 20.07 labels some rows of train as attacks.
        train, left_out = without_attacks(
            base.recording_of(
                trains,
                tags,
                _STEP_S,
                source=f"HAI {release}",
                # Files without labels are normal.
                labels=np.concatenate(
                    [
                        np.zeros(len(read.parsed.values), np.int8)
                        if read.parsed.labels is None
                        else read.parsed.labels
                        for read in trains
                    ]
                ),
            )
        )
        attacks, marked = _labelled(release, tests, label_files or tests, labels)
        test = base.recording_of(
            tests,
            tags,
            _STEP_S,
            source=f"HAI {release}, labels {labels}",
            labels=marked,
            attacks=attacks,
        )
        departures = []
        counted = int((marked == ATTACK).sum())
        expected = _ATTACK_ROWS.get(release, counted)
        if labels == base.LabelSource.BUILT_IN and counted != expected:
            departures.append(
                f"HAI {release}: labels {counted:,} rows of all test files as attacks "
                f"where the release has {expected:,}: copy the files again from their "
                "source, or read them as they are with strict=False."
            )
        is_shared = release == "21.03"
        return base.Assembled(
            train=train,
            test=test,
            notices=(*((_OVERLAP,) if is_shared else ()), *left_out),
            departures=tuple(departures),
            n_shared=_N_SHARED if is_shared else 0,
        )


def _part(
    name: str, release: str, file: csv_reader.SourceFile, layout: csv_reader.Layout
) -> base.ReleasePart | None:
    """Return a part of one release, with its expected counts; None if it has none."""
    if name not in _files_of(release):
        return None
    expected, _ = _files_of(release)[name]
    return base.ReleasePart(name, (release,), file, layout, expected)


def _labelled(
    release: str,
    tests: base.Parts,
    label_files: base.Parts,
    source: base.LabelSource,
) -> tuple[tuple[Attack, ...], Labels]:
    """Return attacks and labels by the label column or by the attack list.

    Labelled runs are named after the listed attacks of their file in order. Where the
    numbers differ (a changed file), a run gets the name of the attack it overlaps, if
    there is one.

    Parameters
    ----------
    release : str
        Which attack list.
    tests, label_files : sequence of ParsedPart
        The test files in order, and the file with the labels of each, row by row.
    source : LabelSource
        ``ADJUSTED`` does not exist for HAI.

    Raises
    ------
    FileError
        If a file has no labels or another number of rows, or there is no such source.
    """
    table = attack_table(f"hai_{release}")
    attacks, labels, first = [], [], 0
    for test, read in zip(tests, label_files, strict=True):
        path, of_file, time = read.part.file.path, read.parsed.labels, test.parsed.time
        if of_file is None:
            raise FileError(
                f"{path}: has no label column 'attack', so that the times of the "
                "attacks are unknown: copy it again from its source."
            )
        if len(time) != len(of_file):
            raise FileError(
                f"{path}: has {len(of_file):,} labels for the {len(time):,} "
                f"rows of {test.part.file.place}; they belong together row by row: "
                "copy both again from one release."
            )
        runs = segments_of(of_file == ATTACK)
        candidates = [attack for attack in table if attack.file == test.part.name]
        pairs = list(zip(runs, candidates, strict=False))
        if len(runs) != len(candidates):
            pairs = [
                (run, attack)
                for run in runs
                for attack in candidates
                # Ends are known to the minute.
                if attack.listed is not None
                and time[run.start] <= attack.listed[1] + 59
                and time[run.stop - 1] >= attack.listed[0]
            ]
        attacks += [a.over(first + run.start, first + run.stop) for run, a in pairs]
        labels.append(of_file)
        first += len(of_file)
    if source == base.LabelSource.ADJUSTED:
        raise FileError(
            "HAI: no adjusted attack times are published; use labels='built-in'."
        )
    if source == base.LabelSource.BUILT_IN:
        return tuple(attacks), np.concatenate(labels)
    if release in _TO_THE_MINUTE:
        raise FileError(
            f"HAI {release}: its attack list is known to the minute only and "
            "cannot label rows; use labels='built-in'."
        )
    clock = np.concatenate([read.parsed.time for read in tests])
    listed = attacks_at(clock, ((a, a.listed) for a in table))
    return listed, labels_of(listed, len(clock))
