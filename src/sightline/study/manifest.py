"""The manifest of a study's folder, as later commands read it."""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from sightline.errors import FileError

MANIFEST = "study.json"


@dataclass(frozen=True)
class _CellEntry:
    """A cell in the manifest of an earlier run: its name and its result folder."""

    name: str
    result: str = ""


@dataclass(frozen=True)
class _ListedCells:
    """The part of a manifest that a later run reads."""

    cells: list[_CellEntry]


def cells_in(out: Path) -> dict[str, str]:
    """Return the result folder of each cell of the study in a folder, by name."""
    path = out / MANIFEST
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=_ListedCells)
    except msgspec.DecodeError as error:
        raise FileError(
            f"{path}: cannot be read: delete it, or choose another --out."
        ) from error
    return {cell.name: cell.result or cell.name for cell in manifest.cells}


@dataclass(frozen=True)
class StudyCell:
    """A cell of a finished study: where its files lie, and what it was made of.

    Parameters
    ----------
    name, result : str
        Name of its stream and detector, and of its result folder.
    detector, testbed : str
        Labels of both.
    key : str
        Of its content.
    content : str
        Of its testbed's recordings, in the cache.
    """

    name: str
    result: str
    detector: str
    testbed: str
    key: str
    content: str = ""


@dataclass(frozen=True)
class _ManifestCell:
    name: str
    result: str
    detector: str
    testbed: str
    key: str
    failed: str | None = None


@dataclass(frozen=True)
class _ManifestTestbed:
    content: str


@dataclass(frozen=True)
class _Manifest:
    title: str
    cells: list[_ManifestCell]
    testbeds: dict[str, _ManifestTestbed]


def study_cells(folder: Path) -> list[StudyCell]:
    """Return the cells of the study in a folder that did not fail.

    Raises
    ------
    FileError
        If its manifest cannot be read.
    """
    manifest = _read_manifest(folder)
    return [
        StudyCell(
            name=cell.name,
            result=cell.result,
            detector=cell.detector,
            testbed=cell.testbed,
            key=cell.key,
            content=manifest.testbeds[cell.testbed].content,
        )
        for cell in manifest.cells
        if cell.failed is None and cell.testbed in manifest.testbeds
    ]


def study_title(folder: Path) -> str | None:
    """Return the title of the study in a folder; None if it holds none."""
    if not (folder / MANIFEST).is_file():
        return None
    return _read_manifest(folder).title


def _read_manifest(folder: Path) -> _Manifest:
    path = folder / MANIFEST
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Manifest)
    except (OSError, msgspec.DecodeError) as error:
        raise FileError(f"{path}: cannot be read: run the study again.") from error
