"""The command `cache`: where copies of data lie, how large they are, and clearing."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.table import Table
from rich.text import Text
from typer import Argument, Option

from sightline.cli.console import DebugOption, console, door, titled_table
from sightline.text import UNKNOWN, names, plural, size

if TYPE_CHECKING:
    from sightline.testbeds.copies import Cleared, CopiesFolder

# A folder with one of these is the cache of a study.
_STUDY_PARTS = ("cells", "evaluations", "testbeds")
_MOST_NAMES = 4


def cache_command(
    paths: Annotated[
        list[Path] | None,
        Argument(
            metavar="[PATH]...",
            help="Folders with data, with copies, or of a study; all by default.",
        ),
    ] = None,
    clear: Annotated[
        bool, Option("--clear", help="Remove the copies, and nothing else.")
    ] = False,
    debug: DebugOption = False,
) -> None:
    """List the Parquet copies of testbeds' files, or remove them.

    Copies make reading faster and can be made again at any time. SIGHTLINE_CACHE=PATH
    puts new ones elsewhere, SIGHTLINE_CACHE=off and --no-cache make none.

    \b
    Examples:
      sightline cache
      sightline cache --clear /data/swat
    """
    from sightline.testbeds.copies import clear_copies, list_copies

    with door(debug=debug):
        studies = [cache for path in paths or () if (cache := _study_cache(path))]
        others = [path for path in paths or () if _study_cache(path) is None]
        # Without paths all copies are meant; with studies alone, none.
        is_for_copies = bool(others) or not paths
        if clear:
            for cache in studies:
                console().print(
                    f"{cache}: holds finished cells of a study, which are not copies, "
                    "and was left; delete the folder if the study is complete.",
                    soft_wrap=True,
                )
            cleared = 0
            for place in clear_copies(others) if is_for_copies else ():
                cleared += 1
                console().print(_removed(place), soft_wrap=True)
            if is_for_copies and not cleared:
                console().print("There are no copies to remove.")
            return
        listed = list_copies(others) if is_for_copies else []
        if not listed and not studies:
            console().print("There are no copies.")
            return
        console().print(copies_table(listed, studies))


def copies_table(listed: "Sequence[CopiesFolder]", studies: Sequence[Path]) -> Table:
    """Return folders with copies, and caches of studies, with size and last use."""
    n_bytes = sum(place.n_bytes for place in listed)
    table = titled_table(f"Parquet copies: {size(n_bytes)} in all")
    table.add_column("place, and what for", overflow="fold", ratio=1)
    for header in ("files", "size", "last used"):
        table.add_column(header, justify="right", no_wrap=True)
    for place in listed:
        root = "unknown files" if place.root is None else str(place.root)
        table.add_row(
            Text.assemble(f"{place.folder}\n", (f"for {root}", "dim")),
            str(place.n_files),
            size(place.n_bytes),
            _day(place.last_used),
        )
    for cache in studies:
        files = [file.stat() for file in cache.rglob("*") if file.is_file()]
        table.add_row(
            Text.assemble(f"{cache}\n", ("finished cells of a study", "dim")),
            str(len(files)),
            size(sum(file.st_size for file in files)),
            _day(max((file.st_mtime for file in files), default=None)),
        )
    return table


def _study_cache(path: Path) -> Path | None:
    """Return the cache of a study at a path, or in its folder ``cache``; else None."""
    for folder in (path, path / "cache"):
        if any((folder / part).is_dir() for part in _STUDY_PARTS):
            return folder
    return None


def _removed(place: "Cleared") -> str:
    """Return what was removed from a folder, and what was left in it."""
    text = f"{place.folder}: removed {plural(place.n_files, 'file')}"
    text += f" ({size(place.n_bytes)})"
    if place.others:
        left = names(place.others, _MOST_NAMES)
        text += f"; left {left}, which Sightline did not write"
    return f"{text}."


def _day(seconds: float | None) -> str:
    """Return a local date and time to the minute."""
    if seconds is None:
        return UNKNOWN
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")
