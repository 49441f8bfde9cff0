"""Streams and evaluations on disk. Only this package knows their file formats.

A stream is an ``.npz`` file, a Parquet folder or an IPAL folder (`read_stream`), or two
tables, train and test, in CSV or Parquet files (`read_tables`).
"""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.data.stream import ResidualStream, with_own_reference
from sightline.data.stream_input import TableColumns, without_ignored
from sightline.errors import FileError, naming
from sightline.files import reading
from sightline.rules.file import read_rule, write_rule
from sightline.storage.companions import (
    columns_and_files,
    join_files,
    join_telemetry,
)
from sightline.storage.frames import check_table_file, is_parquet, read_numbers
from sightline.storage.ipal import read_ipal, state_file
from sightline.storage.metadata import check_meta, is_npz, plain_json, stream_name
from sightline.storage.npz import read_npz, write_npz
from sightline.storage.parquet import (
    columns_of,
    open_rows,
    read_column,
    read_parquet_folder,
    write_parquet_folder,
)
from sightline.storage.results import (
    Given,
    Result,
    check_out,
    folder_name,
    gather_results,
    read_evaluation,
    read_result,
    read_results,
    read_traces,
    results_of,
    write_json,
    write_results,
)
from sightline.tables.cells import label_codes
from sightline.tables.text_tables import read_table
from sightline.text import names

__all__ = [
    "Given",
    "Result",
    "check_out",
    "folder_name",
    "gather_results",
    "is_stream",
    "join_files",
    "read_evaluation",
    "read_result",
    "read_results",
    "read_rule",
    "read_scores",
    "read_stream",
    "read_tables",
    "read_traces",
    "results_of",
    "score_files",
    "stream_name",
    "write_json",
    "write_results",
    "write_rule",
    "write_stream",
]

# Endings of files that hold one score for each row.
_ENDINGS = (".npy", ".csv", ".txt")
# TSB-AD's names of series say how many first rows are for training.
_TRAIN_ROWS = re.compile(r"_tr_(\d+)_")


def is_stream(path: Path) -> bool:
    """Return whether a path looks like a residual stream, not like telemetry."""
    return is_npz(path) or (
        path.is_dir()
        and any(
            (path / part).is_dir() or state_file(path, part)
            for part in ("train", "test")
        )
    )


def read_stream(path: str | Path, *, detector: str | None = None) -> ResidualStream:
    """Read a residual stream: an ``.npz`` file, a Parquet folder or an IPAL folder.

    The rows of a Parquet folder stay on disk and are read in chunks when needed.

    Parameters
    ----------
    path : path
        The file or folder; its name, without ``.npz``, becomes the stream's name.
    detector : str, optional
        Which detector's scores to take from an IPAL folder that holds several.

    Returns
    -------
    ResidualStream
        The checked stream.

    Raises
    ------
    FileError
        If the file or folder cannot be read.
    StreamError
        If its contents do not make a valid stream.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/mine.npz", train=np.eye(3), test=np.eye(3))
    ...     read_stream(f"{folder}/mine.npz").channels
    ('channel_0', 'channel_1', 'channel_2')
    """
    path = Path(path)
    with reading(path):
        if (path / "train").is_dir() or (path / "test").is_dir():
            return read_parquet_folder(path)
        if path.is_dir() and (state_file(path, "train") or state_file(path, "test")):
            return read_ipal(path, detector=detector)
        if path.is_dir():
            raise FileError(
                f"{path}: is a folder without train/*.parquet (a Parquet stream) and "
                "without train.state (an IPAL stream)."
            )
        if not path.exists():
            raise FileError(f"{path}: there is no such file or folder.")
        if not is_npz(path):
            raise FileError(
                f"{path}: is not an .npz file or a stream folder; for two tables pass "
                "--train and --test."
            )
        if path.stat().st_size == 0:
            raise FileError(f"{path}: is empty.")
        return read_npz(path)


def write_stream(stream: ResidualStream, path: str | Path) -> None:
    """Write a stream to a file or folder that `read_stream` reads back.

    It is written whole or not at all; an earlier stream of that name is replaced.

    Parameters
    ----------
    stream : ResidualStream
        The stream.
    path : path
        An ``.npz`` file if it ends in ``.npz``, else a folder of Parquet files.

    Raises
    ------
    FileError
        If it cannot be written, or the folder holds other files.
    StreamError
        If a channel has a name with another meaning in a Parquet folder, as ``label``,
        or ``scale`` or ``groups`` of its `meta` do not fit its channels.

    Examples
    --------
    >>> import tempfile
    >>> from sightline import ResidualStream, read_stream, write_stream
    >>> stream = ResidualStream([[0.1], [-0.2], [0.0]], [[0.1], [5.0]], [0, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_stream(stream, f"{folder}/mine.npz")
    ...     read_stream(f"{folder}/mine.npz")
    ResidualStream 'mine': 1 channel, 3 train rows, 2 test rows, 1 attack
    """
    path = Path(path)
    used = {key: stream.meta[key] for key in ("scale", "groups") if key in stream.meta}
    check_meta(json.loads(plain_json(used)), stream.channels)
    if path.suffix.lower() == ".npz":
        write_npz(stream, path)
    else:
        write_parquet_folder(stream, path)


def read_tables(
    train: str | Path,
    test: str | Path,
    *,
    label: str | None = None,
    time: str | None = None,
    alarms: str | Path | npt.ArrayLike | None = None,
    score: str | Path | npt.ArrayLike | None = None,
    alarm_log: str | Path | None = None,
    attacks: str | Path | None = None,
    telemetry_train: object = None,
    telemetry_test: object = None,
    ignore: Sequence[str] = (),
    time_format: str | None = None,
    name: str | None = None,
    **known: Any,
) -> ResidualStream:
    r"""Read a stream from two CSV or Parquet tables, one column a channel.

    Parameters
    ----------
    train, test : path
        The tables, in any form that `sightline.tables` reads. Two Parquet files are
        read in chunks, a text file whole.
    label : str, optional
        Column of `test` with 1 attack, 0 normal, -1 ignored, or words such as Normal
        and Attack. If `train` has it too, no
        row of `train` may be an attack, and ignored rows are left out.
    time : str, optional
        Column with time stamps: seconds, dates or text.
    alarms, score : str, path or array, optional
        The detector's own alarms and score: a column of `test`, else a table with one
        value for each test row, or with a column of time stamps and the values.
    alarm_log : path, optional
        The detector's alarms as a list instead: start, end, tag, text.
    attacks : path, optional
        List of attacks: id, start, end, tags, note; in times, or in rows of `test`
        counted from 0, both ends included. It names the labelled attacks, and marks
        them if there is no `label`.
    telemetry_train, telemetry_test : path or array, optional
        The plant's measurements, as tables: matched by time if they have the column
        `time`, else row by row.
    ignore : sequence of str
        Columns of the tables to leave out.
    time_format : str, optional
        Format of time stamps in text files, such as ``"%d/%m/%Y %H:%M:%S"``. Not given:
        found, and refused if day and month cannot be told apart.
    name : str, optional
        Name of the stream. Not given: the stem of `test`.
    **known : optional
        Any further argument of `ResidualStream`, such as ``step_s``.

    Returns
    -------
    ResidualStream
        The checked stream; its channels are the columns of `train`, in that order.

    Raises
    ------
    FileError
        If a file cannot be read, or a column holds text; the message names the line.
    StreamError
        If the two tables do not make a valid stream.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     train, test = Path(folder, "train.csv"), Path(folder, "test.csv")
    ...     _ = train.write_text("LIT101\n0.1\n-0.2\n0.0\n")
    ...     _ = test.write_text("LIT101,attack\n0.1,0\n5.0,1\n")
    ...     read_tables(train, test, label="attack", name="mine")
    ResidualStream 'mine': 1 channel, 3 train rows, 2 test rows, 1 attack
    """
    paths = Path(train), Path(test)
    for path in paths:
        check_table_file(path)
    columns = TableColumns(label=label, time=time, ignore=tuple(ignore))
    are_parquet = all(is_parquet(path) for path in paths)
    tables = [] if are_parquet else [read_table(path) for path in paths]
    has = columns_of([paths[1]]) if are_parquet else tables[1].frame.columns
    own = {"alarms": alarms, "score": score}
    named, files = columns_and_files(own, has, paths[1])
    columns = replace(columns, alarms=named.get("alarms"), score=named.get("score"))
    known |= {"name": name or paths[1].stem}
    known |= {k: v for k, v in own.items() if k not in (*named, *files)}
    with naming(f"{train}, {test}"):
        if are_parquet:
            stream = _from_parquet(*paths, columns, **known)
        else:
            # Before cells are read: text in a column of alarms is no damage.
            columns.channels(*(table.frame.columns for table in tables))
            numbers = [read_numbers(table, columns, time_format) for table in tables]
            notices = [notice for table in numbers for notice in table.notices]
            known["notices"] = [*known.get("notices", ()), *notices]
            known.setdefault("timezone", numbers[1].zone)
            frames = [table.frame for table in numbers]
            stream = ResidualStream.from_tables(*frames, **asdict(columns) | known)
    stream = join_files(
        stream,
        attacks=attacks,
        alarm_log=alarm_log,
        time_format=time_format,
        **files,
    )
    measured = telemetry_train, telemetry_test
    return join_telemetry(stream, *measured, columns, time_format)


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
        As for `sightline.data.stream.stream_of_scores`. Not given: what TSB-AD's file
        names say (``_tr_1000_``).
    label, time, alarms, alarm_log, attacks, ignore, time_format, name, **known
        As for `read_tables`.

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
    stream = join_files(
        stream,
        attacks=attacks,
        alarm_log=alarm_log,
        time_format=time_format,
        **files,
    )
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


def _from_parquet(
    train: Path, test: Path, columns: TableColumns, **known: Any
) -> ResidualStream:
    """Return a stream of two Parquet files, which is read in chunks."""
    import polars as pl

    train_columns, test_columns = columns_of([train]), columns_of([test])
    channels = columns.channels(train_columns, test_columns)
    train_time = read_column([train], columns.time, train_columns)
    labels, notices = [], [*known.get("notices", ())]
    for path, listed in ((train, train_columns), (test, test_columns)):
        codes, words = read_column([path], columns.label, listed), ""
        if codes is not None:
            codes, words = label_codes(pl.Series(codes))
        labels.append(codes)
        notices += [f"{path.name}: labels were read as {words}."] if words else []
    known["notices"] = notices
    rows, known["train_time"], known["train_breaks"] = without_ignored(
        open_rows([train], channels),
        labels[0],
        known.get("train_time") if train_time is None else train_time,
        known.get("train_breaks"),
    )
    for name, column in (("alarms", columns.alarms), ("score", columns.score)):
        if column is not None:
            known[name] = read_column([test], column, test_columns)
    time_type = pl.read_parquet_schema(test).get(columns.time or "")
    known.setdefault("timezone", getattr(time_type, "time_zone", None))
    return ResidualStream(
        rows,
        open_rows([test], channels),
        labels[1],
        test_time=read_column([test], columns.time, test_columns),
        channels=channels,
        **known,
    )
