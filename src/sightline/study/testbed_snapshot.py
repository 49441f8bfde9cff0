"""Testbeds as a study has opened them, kept by content for whoever runs its cells.

A cell then needs no testbed files of its own: what it learns from is in the cache, and
is called by the digest of every number in it.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.data.recording import Recording, Tag
from sightline.data.segments import Attack
from sightline.errors import FileError
from sightline.files import staged_folder
from sightline.storage.npz import read_arrays
from sightline.study.cache import Cache
from sightline.testbeds import Testbed

_SERIES = ("values", "labels", "time", "breaks")
_PARTS = ("train", "test")
_SIZES = "sizes.json"


@dataclass(frozen=True, kw_only=True)
class RecordedTestbed:
    """What a study knows of a testbed it has opened.

    `content` is the digest of both recordings as prepared; `n_bytes` their size.
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

    @classmethod
    def of(cls, testbed: Testbed) -> "RecordedTestbed":
        """Return what is to be known of a testbed."""
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
        )


def keep_testbed(testbed: Testbed, cache: Cache) -> RecordedTestbed:
    """Write both recordings into a cache, by their content; if not there yet."""
    recorded = RecordedTestbed.of(testbed)
    place = cache.testbeds / recorded.content
    with cache.locked(f"testbed-{recorded.content}", lambda: None):
        if not _is_whole(place):
            with staged_folder(place, whole=True) as partial:
                _write(testbed, partial)
    return recorded


def _write(testbed: Testbed, folder: Path) -> None:
    sizes = {}
    for part in _PARTS:
        path = folder / f"{part}.npz"
        with open(path, "wb") as handle:
            np.savez(handle, allow_pickle=False, **_arrays(getattr(testbed, part)))
        sizes[path.name] = path.stat().st_size
    (folder / _SIZES).write_text(json.dumps(sizes) + "\n", encoding="utf-8")


def _is_whole(place: Path) -> bool:
    """Tell whether both recordings are there, as long as they were written."""
    try:
        sizes = json.loads((place / _SIZES).read_text(encoding="utf-8"))
        return all((place / n).stat().st_size == size for n, size in sizes.items())
    except (OSError, ValueError):
        return False


def kept_recordings(folder: Path, content: str) -> tuple[Recording, Recording]:
    """Return train and test as they were kept."""
    train, test = (_kept(folder / content / f"{part}.npz") for part in _PARTS)
    return train, test


def _content(testbed: Testbed) -> str:
    digest = hashlib.sha256(testbed.name.encode())
    for part in _PARTS:
        for name, array in sorted(_arrays(getattr(testbed, part)).items()):
            digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data.cast("B"))
    return digest.hexdigest()[:32]


def _arrays(recording: Recording) -> dict[str, npt.NDArray[Any]]:
    """Return a recording as arrays: four series, and one text for all the rest."""
    series = {name: getattr(recording, name) for name in _SERIES}
    about = {
        "tags": [asdict(tag) for tag in recording.tags],
        "attacks": [asdict(attack) for attack in recording.attacks],
        "step_s": recording.step_s,
        "source": recording.source,
    }
    # As bytes: numpy's own text would drop what ends in a zero.
    text = json.dumps(about, sort_keys=True).encode()
    return {name: array for name, array in series.items() if array is not None} | {
        "about": np.frombuffer(text, np.uint8)
    }


def _kept(path: Path) -> Recording:
    try:
        arrays = read_arrays(path)[0]
        about = json.loads(arrays["about"].tobytes())
        return Recording(
            values=arrays["values"],
            tags=tuple(Tag(**tag) for tag in about["tags"]),
            labels=arrays["labels"],
            time=arrays.get("time"),
            step_s=about["step_s"],
            breaks=arrays["breaks"],
            attacks=tuple(
                Attack(**attack | {"targets": tuple(attack["targets"])})
                for attack in about["attacks"]
            ),
            source=about["source"],
        )
    except (FileError, KeyError, TypeError, ValueError) as error:
        raise FileError(
            f"{path}: is not what a study kept: delete {path.parent} and run the study "
            "again."
        ) from error
