"""What `improve` writes: the record as JSON, tables, the page, stream and rules."""

import json
from pathlib import Path
from typing import Any, Final

import msgspec

from sightline.errors import FileError
from sightline.evaluation.result import plain
from sightline.files import damage, read_document, staged_folder
from sightline.improvement.improve import Improvement
from sightline.improvement.record import (
    CANDIDATES,
    SCHEMA,
    ImprovementRecord,
    falsification_columns,
)
from sightline.rules.file import write_rule, write_script
from sightline.show.table import write_csv
from sightline.storage import write_stream

FILE: Final = "improvement.json"
PAGE: Final = "improve.html"
# What a run writes only where it has it.
_NOT_ALWAYS: Final = (
    *("falsifications.csv", "rule.json", "rule.py"),
    *(
        f"pair/{name}"
        for name in ("detector.npz", "rule.json", "rule.py", "stream.npz")
    ),
)


def write_improvement(
    found: Improvement, out: str | Path, *, detector: str | Path | None = None
) -> list[str]:
    """Write all that was found to a folder; return the names of what is there.

    Parameters
    ----------
    found : Improvement
        As `improve` gives it.
    out : path
        Gets ``improvement.json``, ``improve.html``, ``candidates.csv``; with telemetry
        ``falsifications.csv`` and ``pair/`` with its stream, its saved detector and its
        rule; and ``rule.json`` with ``rule.py``. A rule is written only where its limit
        holds.
    detector : path, optional
        The saved detector of the stream that was given, for its ``rule.json``.
    """
    out, record = Path(out), found.record
    with staged_folder(out) as folder:
        text = json.dumps(plain(record), indent=1, allow_nan=False)
        (folder / FILE).write_text(text + "\n", encoding="utf-8")
        (folder / PAGE).write_text(
            found.page(), encoding="utf-8", errors="backslashreplace"
        )
        write_csv(CANDIDATES, record.candidates, folder / "candidates.csv")
        if record.falsifications:
            columns = falsification_columns(record)
            write_csv(columns, record.falsifications, folder / "falsifications.csv")
        if found.rule is not None:
            write_rule(found.rule, folder / "rule.json", detector=detector)
            write_script(folder / "rule.py")
        if found.pair is not None:
            own = folder / "pair"
            own.mkdir()
            write_stream(found.stream, own / "stream.npz")
            found.pair.save(own / "detector.npz")
            if found.pair_rule is not None:
                saved = own / "detector.npz"
                write_rule(found.pair_rule, own / "rule.json", detector=saved)
                write_script(own / "rule.py")
        written = sorted(
            path.relative_to(folder).as_posix()
            for path in folder.rglob("*")
            if path.is_file()
        )
    for name in set(_NOT_ALWAYS).difference(written):
        # Of an earlier run: its limit would stand beside figures that refuse one.
        (out / name).unlink(missing_ok=True)
    return written


def read_improvement(path: str | Path) -> ImprovementRecord:
    """Return the record of an earlier `improve`.

    Parameters
    ----------
    path : path
        ``improvement.json``, or its folder.

    Raises
    ------
    FileError
        If there is no such file, or it is damaged or of a later version.
    """
    path = Path(path)
    path = path / FILE if path.is_dir() else path
    content = read_document(path)
    wrong = (msgspec.DecodeError, ValueError)
    with damage(f"{path}: holds no improvement", *wrong, advice="run improve again"):
        found = msgspec.json.decode(content, type=ImprovementRecord)
        known = [one.name for one in found.candidates]
        n = len(known)
        if found.recommended not in known or any(
            len(one.seen) != n for one in found.falsifications
        ):
            raise ValueError("candidates and falsifications do not fit together")
    if found.schema > SCHEMA:
        raise FileError(
            f"{path}: is of schema {found.schema}, and this version reads up to "
            f"{SCHEMA}: read it with the version that wrote it."
        )
    return found


def improvement_schema() -> dict[str, Any]:
    """Return the JSON schema of ``improvement.json``."""
    return msgspec.json.schema(ImprovementRecord)
