"""Reading scores that come without training data, as benchmarks publish them."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from sightline.data.scores import with_own_reference
from sightline.data.stream import ResidualStream
from sightline.data.stream_input import TableColumns
from sightline.errors import FileError, naming
from sightline.files import reading
from sightline.storage.companions import columns_and_files, join_files
from sightline.storage.frames import check_table_file, read_numbers
from sightline.tables.text_tables import read_table
from sightline.text import names

# Endings of files that hold one score for each row.
_ENDINGS = (".npy", ".csv", ".txt")
# TSB-AD's names of series say how many first rows are for training.
_TRAIN_ROWS = re.compile(r"_tr_(\d+)_")


def score_files(place: Path, test: Path) -> dict[str, Path]:
    """Return the scores of a series in a file or folder, by the name of their detector.

    Parameters
    ----------
    place : Path
        A file, or a folder with ``DETECTOR/SERIES.npy`` (as TSB-AD keeps them) or
        ``SERIES.npy`` below it.
    test : Path
        The table of the series; its stem is SERIES.

    Raises
    ------
    FileError
        If the folder has no score of the series.
    """
    if not place.is_dir():
        return {place.stem if place.stem != test.stem else place.parent.name: place}
    found = {
        path.parent.name if path.parent != place else place.name: path
        for path in sorted(place.rglob(f"{test.stem}.*"))
        if path.suffix.lower() in _ENDINGS and path.resolve() != test.resolve()
    }
    if not found:
        raise FileError(
            f"{place}: has no score of {test.stem!r}: expected "
            f"{test.stem}.npy (or .csv) in it or in a folder for each detector."
        )
    return found


def read_scores(
    test: str | Path,
    *,
    label: str | None = None,
    time: str | None = None,
    score: str | Path | None = None,
    alarms: str | Path | None = None,
    alarm_log: str | Path | None = None,
    attacks: str | Path | None = None,
    ignore: tuple[str, ...] = (),
    time_format: str | None = None,
    name: str | None = None,
    reference_rows: int | None = None,
    **known: Any,
) -> ResidualStream:
    """Read a score without training data: the first part of the test is its reference.

    Parameters
    ----------
    test : path
        A table with labels and, unless `score` is a file, the score. Its further
        columns are the telemetry.
    score : str or path, optional
        Column of the table, or a file with one value for each row (``.npy``, text).
        Not given: the one column that is left.
    reference_rows : int, optional
        As for `sightline.data.scores.stream_of_scores`. Not given: what TSB-AD's file
        names say (``_tr_1000_``).
    label, time, alarms, alarm_log, attacks, ignore, time_format, name, **known
        As for `sightline.read_tables`.

    Raises
    ------
    FileError
        If a file cannot be read.
    StreamError
        If the score is not known, or too few attack-free rows come first.
    """
    test = Path(test)
    check_table_file(test)
    table = read_table(test)
    given = {"alarms": alarms, "score": score}
    named, files = columns_and_files(given, table.frame.columns, test)
    columns = TableColumns(label=label, time=time, ignore=tuple(ignore), **named)
    claimed = (label, time, *named.values(), *ignore)
    left = [column for column in table.frame.columns if column not in claimed]
    with naming(test):
        numbers = read_numbers(table, columns, time_format)
        frame = numbers.frame
        own = named.get("score")
        taken: tuple[str, ...] = ()
        if own is None and "score" not in files:
            if len(left) != 1:
                raise FileError(
                    f"without --train it must be known which column is the score; it "
                    f"has {names(left, quoted=True)}: name it with --score, or give "
                    "--train."
                )
            own, left = left[0], []
            taken = (
                f"Column {own!r} is taken as the score, as it is the only one left: if "
                "it is a measurement, name the score with --score or --scores.",
            )
        n_rows = len(frame)
        stream = ResidualStream(
            np.zeros((2, 1)),
            np.zeros((n_rows, 1)),
            None if label is None else frame[label].to_numpy(),
            test_time=None if time is None else frame[time].to_numpy(),
            alarms=frame[named["alarms"]].to_numpy() if "alarms" in named else None,
            name=name or test.stem,
            notices=(*taken, *numbers.notices),
            timezone=numbers.zone,
            **known,
        )
    stream = _with_files(stream, files, alarm_log, attacks, time_format)
    values = stream.score if own is None else frame[own].to_numpy()
    rows = np.asarray(values, np.float64).reshape(-1, 1)
    telemetry = frame.select(left).to_numpy() if left else None
    stream = stream.replace(
        train=rows,
        test=rows,
        channels=["score"],
        score=None,
        space="score",
        train_breaks=stream.test_breaks,
        telemetry_train=telemetry,
        telemetry_test=telemetry,
        telemetry_channels=left or None,
    )
    stated = _TRAIN_ROWS.search(test.stem)
    if reference_rows is None and stated:
        reference_rows = int(stated[1])
    with naming(test):
        return with_own_reference(stream, reference_rows)


def _with_files(
    stream: ResidualStream,
    files: dict[str, Path],
    alarm_log: str | Path | None,
    attacks: str | Path | None,
    time_format: str | None,
) -> ResidualStream:
    """Return a stream with the score, alarms and attacks of these files."""
    arrays = {
        option: _numbers(path, stream.test.n_rows)
        for option, path in files.items()
        if path.suffix.lower() == ".npy"
    }
    return join_files(
        stream.replace(**arrays) if arrays else stream,
        **{option: path for option, path in files.items() if option not in arrays},
        alarm_log=alarm_log,
        attacks=attacks,
        time_format=time_format,
    )


def _numbers(path: Path, n_rows: int) -> np.ndarray[Any, Any]:
    """Return the values in a file of `numpy.save`, one for each row."""
    with reading(path):
        try:
            values = np.load(path, allow_pickle=False).astype(np.float64).ravel()
        except (ValueError, EOFError, TypeError) as error:
            raise FileError(
                f"{path}: is no array of numbers that numpy.save wrote."
            ) from error
    if len(values) != n_rows:
        raise FileError(
            f"{path}: has {len(values):,} values; the table has {n_rows:,} rows."
        )
    return np.asarray(values)
