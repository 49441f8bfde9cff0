"""Streams as IPAL folders: ``train.state[.gz]`` and ``test.state[.gz]``.

A file has one JSON object on each line, as IPAL's detectors write them::

    {"timestamp": 1450000000, "malicious": false,
     "scores": {"GeCo": [0.1, -0.2]}, "alerts": {"GeCo": false}}

A list in ``scores`` is the residual vector of a detector, a number its score.
``malicious`` is false or null in normal rows, true or the id of the attack in others.
``alerts`` are the detector's alarms; ``timestamp`` is in seconds. A list ``_channels``
on the first line names the channels.
"""

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from sightline.data.arrays import Bools, Floats
from sightline.data.segments import Attack
from sightline.data.stream import ResidualStream
from sightline.data.stream_input import attack_free_rows
from sightline.errors import FileError, naming
from sightline.files import brief, check_ordinary, check_unpacked
from sightline.storage.metadata import stream_name
from sightline.text import size

# Bytes of a line; one of 10,000 channels has some 200 kB.
MOST_LINE = 1 << 24
_SCORE_ONLY = (
    "Its scores are one number a row, not a residual of each channel: only a high "
    "score is taken as odd.",
)


def state_file(folder: Path, split: str) -> Path | None:
    """Return the state file of a split, plain or compressed; None if none exists."""
    paths = (folder / f"{split}{suffix}" for suffix in (".state", ".state.gz"))
    return next((path for path in paths if path.is_file()), None)


def read_ipal(folder: Path, *, detector: str | None = None) -> ResidualStream:
    """Read a stream from a folder with IPAL state files.

    Parameters
    ----------
    folder : Path
        Holds the state files of train and test.
    detector : str, optional
        Whose ``scores`` to read, if several detectors wrote some. A list is a residual
        vector. A number is a score; the stream then has the space ``"score"`` and a
        notice.

    Returns
    -------
    ResidualStream
        Alarms and time stamps are used only if every row has them.

    Raises
    ------
    FileError
        If a file is missing, a line is no state, or the choice of detector is not
        clear; the message names the line.
    StreamError
        If a row of train is marked as an attack.
    """
    paths = []
    for split in ("train", "test"):
        path = state_file(folder, split)
        if path is None:
            raise FileError(
                f"{folder}: has no {split}.state or {split}.state.gz; an IPAL stream "
                "is a folder with both."
            )
        paths.append(path)
    train = _read_states(paths[0], detector)
    test = _read_states(paths[1], train.detector)
    with naming(folder):
        attack_free_rows(_labels(train.malicious), "train")
        return ResidualStream(
            train.residuals,
            test.residuals,
            _labels(test.malicious),
            alarms=test.alarms,
            channels=test.channels or train.channels,
            train_time=train.time,
            test_time=test.time,
            segments=_attacks(test.malicious),
            detector=train.detector,
            space="score" if train.is_score else None,
            notices=_SCORE_ONLY if train.is_score else (),
            name=stream_name(folder),
        )


@dataclass(frozen=True, eq=False)
class _IpalStates:
    """The rows of one state file. `alarms` and `time` are None if rows lack them."""

    detector: str
    residuals: Floats
    malicious: list[object]
    alarms: list[int] | None
    time: Floats | None
    channels: list[str] | None
    is_score: bool


def _read_states(path: Path, detector: str | None) -> _IpalStates:
    """Return the rows of a state file; all must have the same number of scores."""
    residuals: list[Floats] = []
    malicious: list[object] = []
    alarms: list[int | None] = []
    times: list[object] = []
    channels: list[str] | None = None
    is_score = False
    for number, state in _lines(path):
        if not residuals:
            detector = _choose(state, detector, path, number)
            listed = state.get("_channels")
            channels = [str(c) for c in listed] if isinstance(listed, list) else None
        vector = _scores(state).get(str(detector))
        if not residuals:
            is_score = _is_number(vector)
        if is_score:
            vector = [vector]
        if not isinstance(vector, list) or not _is_vector(vector):
            raise FileError(
                f"{path}: line {number}: scores of {detector!r} must be a list of "
                f"numbers; got {vector!r:.60}."
            )
        if residuals and len(vector) != len(residuals[0]):
            raise FileError(
                f"{path}: line {number}: scores of {detector!r} has {len(vector)} "
                f"values where the first line has {len(residuals[0])}."
            )
        residuals.append(_floats(vector, path))
        mark = state.get("malicious")
        malicious.append(None if mark is False else mark)
        alerts = state.get("alerts")
        alert = alerts.get(str(detector)) if isinstance(alerts, dict) else None
        alarms.append(None if alert is None else int(bool(alert)))
        times.append(state.get("timestamp"))
    if not residuals:
        raise FileError(f"{path}: is empty; IPAL writes one JSON object a line.")
    numeric = [t for t in times if isinstance(t, int | float) and t is not True]
    given = [a for a in alarms if a is not None]
    seconds = _floats(numeric, path)
    return _IpalStates(
        detector=str(detector),
        residuals=np.array(residuals),
        malicious=malicious,
        alarms=given if len(given) == len(alarms) else None,
        time=seconds if len(seconds) == len(times) else None,
        channels=channels,
        is_score=is_score,
    )


def _floats(values: Sequence[float], path: Path) -> Floats:
    """Return numbers as an array, which takes a quarter of the memory of a list."""
    try:
        return np.array(values, dtype=np.float64)
    except OverflowError as error:
        raise FileError(f"{path}: holds a whole number too large to use.") from error


def _lines(path: Path) -> Iterator[tuple[int, Mapping[str, object]]]:
    """Yield (line number, JSON object); raise `FileError` for any other line."""
    is_packed = path.suffix == ".gz"
    opener: Any = gzip.open if is_packed else open
    number = length = 0
    check_ordinary(path)
    try:
        with opener(path, "rb") as handle:
            while line := handle.readline(MOST_LINE + 1):
                number += 1
                length += len(line)
                if len(line) > MOST_LINE:
                    raise FileError(
                        f"{path}: line {number} has more than {size(MOST_LINE)}, the "
                        "limit: IPAL writes one JSON object a line."
                    )
                if is_packed:
                    check_unpacked(path, length)
                if not line.strip():
                    continue
                state = json.loads(line.decode("utf-8"))
                if not isinstance(state, dict):
                    raise FileError(f"{path}: line {number} must be a JSON object.")
                yield number, state
    except (OSError, EOFError, zlib.error, ValueError, RecursionError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(
            f"{path}: cannot be read as IPAL states at line {number} ({brief(error)}): "
            "it must have one JSON object a line and be whole."
        ) from error


def _scores(state: Mapping[str, object]) -> Mapping[str, object]:
    scores = state.get("scores")
    return scores if isinstance(scores, dict) else {}


def _is_vector(value: object) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(map(_is_number, value))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _choose(
    state: Mapping[str, object], detector: str | None, path: Path, number: int
) -> str:
    """Return the detector to read: as given, else the only one that has scores."""
    scores = _scores(state)
    vectors = [name for name, value in scores.items() if _is_vector(value)]
    numbers = [name for name, value in scores.items() if _is_number(value)]
    if detector is not None:
        if detector not in vectors + numbers:
            raise FileError(
                f"{path}: line {number}: detector {detector!r} has no list in scores; "
                f"those that have: {', '.join(vectors) or 'none'}."
            )
        return detector
    candidates = vectors or numbers
    if len(candidates) != 1:
        raise FileError(
            f"{path}: line {number}: scores must hold the residual vector of one "
            f"detector as a list; found {', '.join(candidates) or 'none'}: choose one "
            "with --detector."
        )
    return candidates[0]


def _labels(malicious: list[object]) -> Bools:
    return np.array([mark is not None for mark in malicious], dtype=np.bool_)


def _attacks(malicious: list[object]) -> list[Attack]:
    """Return one attack for each run of rows with the same id; true is no id."""
    attacks, start = [], 0
    # The id 1 is not the mark true, although the two are equal.
    for (is_true, mark), run in groupby(malicious, lambda mark: (mark is True, mark)):
        stop = start + len(list(run))
        if mark is not None and not is_true:
            attacks.append(Attack(id=str(mark), start=start, stop=stop))
        start = stop
    return attacks
