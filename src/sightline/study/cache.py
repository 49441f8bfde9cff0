"""The cache of a study: testbeds and finished cells, each filed by its content.

::

    testbeds/<content>/      the two recordings of a testbed as prepared, their audit,
                             and the effects of its attacks where they are known
    cells/<key>/             the stream of a cell, and its detector
    evaluations/<key>-<key>/ the evaluation of that stream
    work/<key>/              checkpoints of a training that is under way
    locks/                   one lock file per cell and testbed

A folder appears complete, by one rename, or not at all. Several studies, on this
machine or on others that see the folder, may share one cache: the process that works on
a cell holds its lock, which the operating system releases if the process dies.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from sightline.audit.codes import Finding
from sightline.audit.record import Audit
from sightline.data.archives import read_arrays
from sightline.data.recording import AS_MEASURED, Prepared, Recording, Tag
from sightline.data.segments import Attack, KnownEffect
from sightline.errors import FileError
from sightline.evaluation.result import plain
from sightline.files import staged_file, staged_folder, writing
from sightline.study.cell import Cell
from sightline.testbeds import Testbed

# Seconds between two attempts to take a lock that another process holds.
_RETRY_S = 1.0
_SERIES = ("values", "labels", "time", "breaks")
_PARTS = ("train", "test")
_SIZES = "sizes.json"
_AUDIT = "audit.json"
_TRUTH = "truth.json"
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class RecordedTestbed:
    """What a study records about a testbed that it has opened.

    Parameters
    ----------
    name, release : str
        The testbed's own name and the release of its files.
    content : str
        Digest of both recordings as prepared: the name of their folder in a cache.
    digests : mapping
        Digest of each file that was read, by name.
    notices : tuple of str
        Sentences about the files that a reader should see.
    n_train, n_test, n_channels, n_attacks : int
        Steps of the two recordings, channels, and attacks in test.
    n_bytes : int
        Size of both recordings in memory.
    findings : tuple of Finding
        What the audit found in the recordings.
    truth : tuple of KnownEffect
        What each attack does to the recorded values, of a simulated testbed.
    prepared : Prepared
        What the testbed's options did to the rows of train.
    """

    name: str
    release: str
    content: str
    digests: Mapping[str, str]
    notices: tuple[str, ...]
    n_train: int
    n_test: int
    n_channels: int
    n_attacks: int
    n_bytes: int
    findings: tuple[Finding, ...] = ()
    truth: tuple[KnownEffect, ...] = ()
    prepared: Prepared = AS_MEASURED

    @classmethod
    def of(cls, testbed: Testbed, audit: Audit) -> "RecordedTestbed":
        """Return the record of an opened testbed."""
        return cls(
            name=testbed.name,
            release=testbed.release,
            content=_content(testbed),
            digests=dict(testbed.digests),
            notices=testbed.notices,
            n_train=testbed.train.n_steps,
            n_test=testbed.test.n_steps,
            n_channels=len(testbed.train.tags),
            n_attacks=len(testbed.test.attacks),
            n_bytes=testbed.train.values.nbytes + testbed.test.values.nbytes,
            findings=audit.findings,
            truth=testbed.truth,
            prepared=testbed.train.prepared,
        )


class Cache:
    """A folder of testbeds and cells, each filed by its content.

    Parameters
    ----------
    folder : path
        The folder; it need not exist yet.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def stream(self, cell: Cell) -> Path:
        """Return the path of a cell's residual stream."""
        return self._cell(cell) / "stream.npz"

    def result(self, cell: Cell) -> Path:
        """Return the folder of a cell's evaluation."""
        return self._evaluations(cell) / cell.result_name

    def is_done(self, cell: Cell) -> bool:
        """Return whether both the stream and the evaluation of a cell exist."""
        return self.stream(cell).exists() and self.result(cell).exists()

    def work(self, cell: Cell) -> Path:
        """Return the folder for the checkpoints of a cell that is under way."""
        return self.folder / "work" / cell.key

    def testbed(self, content: str) -> Path:
        """Return the folder of a testbed's recordings, by their digest."""
        return self.folder / "testbeds" / content

    @contextmanager
    def locked(self, key: str, waiting: Callable[[], None]) -> Iterator[None]:
        """Hold a lock while the body runs.

        Parameters
        ----------
        key : str
            Name of the lock.
        waiting : callable
            Called about once a second while another process holds the lock.
        """
        from filelock import FileLock, Timeout

        path = self.folder / "locks" / f"{key}.lock"
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path)
        while True:
            try:
                lock.acquire(timeout=0)
                break
            except Timeout:
                waiting()
                time.sleep(_RETRY_S)
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def new_cell(self, cell: Cell) -> Iterator[Path]:
        """Give a folder for a cell's stream; it appears complete or not at all."""
        with staged_folder(self._cell(cell), whole=True) as partial:
            yield partial
            # Each study links to these: writing to the link must not change them.
            for name in ("stream.npz", "detector.npz"):
                if (partial / name).is_file():
                    (partial / name).chmod(0o444)
            text = msgspec.json.encode(cell, enc_hook=plain, order="sorted")
            (partial / "cell.json").write_bytes(
                msgspec.json.format(text, indent=1) + b"\n"
            )
        # The checkpoints are of no more use.
        shutil.rmtree(self.work(cell), ignore_errors=True)

    @contextmanager
    def new_result(self, cell: Cell) -> Iterator[Path]:
        """Give a folder for a cell's evaluation; it appears complete or not at all."""
        with staged_folder(self._evaluations(cell), whole=True) as partial:
            yield partial

    def add_testbed(self, testbed: Testbed, audit: Audit) -> RecordedTestbed:
        """Write a testbed's facts, and its recordings unless they are complete here."""
        recorded = RecordedTestbed.of(testbed, audit)
        folder = self.testbed(recorded.content)
        with self.locked(f"testbed-{recorded.content}", lambda: None):
            if not _is_complete(folder):
                with staged_folder(folder, whole=True) as partial:
                    _write_recordings(testbed, partial)
            for name, facts in ((_AUDIT, audit), (_TRUTH, testbed.truth)):
                with staged_file(folder / name) as path:
                    path.write_bytes(msgspec.json.encode(facts) + b"\n")
        return recorded

    def recordings(self, content: str) -> tuple[Recording, Recording]:
        """Return train and test of a testbed, equal to the last bit to the original.

        Raises
        ------
        FileError
            If a file is missing or damaged.
        """
        train, test = (
            _read_recording(self.testbed(content) / f"{part}.npz") for part in _PARTS
        )
        return train, test

    def audit(self, content: str) -> Audit:
        """Return the audit of a testbed.

        Raises
        ------
        FileError
            If its file is missing or damaged.
        """
        return _read_facts(self.testbed(content) / _AUDIT, Audit)

    def truth(self, content: str) -> tuple[KnownEffect, ...]:
        """Return what is known about each attack of a testbed; empty if nothing is.

        Raises
        ------
        FileError
            If its file is missing or damaged.
        """
        return _read_facts(self.testbed(content) / _TRUTH, tuple[KnownEffect, ...])

    def _cell(self, cell: Cell) -> Path:
        return self.folder / "cells" / cell.key

    def _evaluations(self, cell: Cell) -> Path:
        return self.folder / "evaluations" / f"{cell.key}-{cell.evaluation_key}"


def _read_facts(path: Path, kind: type[_T]) -> _T:
    """Return the record in a JSON file; `FileError` if it is missing or damaged."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError) as error:
        raise FileError(f"{path}: is damaged: run the study again.") from error


def _write_recordings(testbed: Testbed, folder: Path) -> None:
    """Write both recordings, and how long each file must be."""
    sizes = {}
    for part in _PARTS:
        path = folder / f"{part}.npz"
        with open(path, "wb") as handle:
            np.savez(handle, allow_pickle=False, **_arrays(getattr(testbed, part)))
        sizes[path.name] = path.stat().st_size
    (folder / _SIZES).write_text(json.dumps(sizes) + "\n", encoding="utf-8")


def _is_complete(folder: Path) -> bool:
    """Return whether both recordings exist and have the size that was written."""
    try:
        sizes = msgspec.json.decode((folder / _SIZES).read_bytes(), type=dict[str, int])
        return set(sizes) == {f"{part}.npz" for part in _PARTS} and all(
            (folder / name).stat().st_size == size for name, size in sizes.items()
        )
    except (OSError, ValueError, msgspec.DecodeError):
        return False


def _content(testbed: Testbed) -> str:
    """Return the digest of a testbed's name and of every array of its recordings."""
    digest = hashlib.sha256(testbed.name.encode())
    for part in _PARTS:
        for name, array in sorted(_arrays(getattr(testbed, part)).items()):
            digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data.cast("B"))
    return digest.hexdigest()[:32]


def _arrays(recording: Recording) -> dict[str, npt.NDArray[Any]]:
    """Return a recording as arrays: up to four series, and one text for the rest.

    The digest of a testbed is computed from these arrays, so they must not change
    without need: every cell of every cache would be computed again.
    """
    series = {name: getattr(recording, name) for name in _SERIES}
    about: dict[str, Any] = {
        "tags": [_tag(tag) for tag in recording.tags],
        "attacks": [asdict(attack) for attack in recording.attacks],
        "step_s": recording.step_s,
        "source": recording.source,
    }
    if recording.timezone is not None:
        about["timezone"] = recording.timezone
    if recording.prepared != AS_MEASURED:
        about["prepared"] = asdict(recording.prepared)
    # As bytes: numpy's own text type drops zeros at the end.
    text = json.dumps(about, sort_keys=True).encode()
    return {name: array for name, array in series.items() if array is not None} | {
        "about": np.frombuffer(text, np.uint8)
    }


def _tag(tag: Tag) -> dict[str, Any]:
    """Return a tag as plain values; a range that is not known is left out."""
    return {
        name: value
        for name, value in asdict(tag).items()
        if name not in ("low", "high") or value is not None
    }


@dataclass(frozen=True, kw_only=True)
class _About:
    """Everything of a recording but its series, as stored in JSON."""

    tags: tuple[Tag, ...]
    attacks: tuple[Attack, ...]
    step_s: float | None
    source: str
    timezone: str | None = None
    prepared: Prepared = AS_MEASURED


def _read_recording(path: Path) -> Recording:
    """Return the recording that `_arrays` describes; `FileError` if it is damaged."""
    try:
        arrays = read_arrays(path)[0]
        about = msgspec.json.decode(arrays["about"].tobytes(), type=_About)
        return Recording(
            values=arrays["values"],
            tags=about.tags,
            labels=arrays["labels"],
            time=arrays.get("time"),
            step_s=about.step_s,
            breaks=arrays["breaks"],
            attacks=about.attacks,
            source=about.source,
            timezone=about.timezone,
            prepared=about.prepared,
        )
    except (FileError, KeyError, TypeError, ValueError) as error:
        raise FileError(
            f"{path}: is damaged: delete {path.parent} and run the study again."
        ) from error
