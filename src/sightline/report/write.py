"""A report on disk: the page, and beside it figures for papers and slides."""

from collections.abc import Sequence
from pathlib import Path

from sightline.errors import FileError
from sightline.files import staged_file
from sightline.report.entries import entries_of
from sightline.report.redaction import redacted
from sightline.storage import Result, read_results


def write_report(
    results: Sequence[Result | str | Path] | str | Path,
    path: str | Path,
    *,
    redact: bool = False,
    title: str | None = None,
    figures: bool = False,
) -> Path:
    """Write one stand-alone page that shows what each detector can see.

    Parameters
    ----------
    results : path, or sequence of paths or Result
        Folders that `write_results` wrote, or what `read_results` read from them.
        Several results of one detector on one testbed are its seeds: the first is
        drawn, figures come with the mean and the range of all.
    path : path
        The page to write, such as ``report.html``. It needs no network.
    redact : bool
        Whether to replace names of tags and stages, and ids of attacks that are more
        than numbers, by pseudonyms and to leave out notes and telemetry, so that the
        page may leave the plant.
    title : str, optional
        What stands at the top.
    figures : bool
        Whether to write figures for print beside the page as well, as SVG and PNG:
        into ``figures`` beside ``report.html``, into ``page-figures`` beside
        ``page.html``.

    Returns
    -------
    Path
        Where the page is.

    Raises
    ------
    FileError
        Where there is no result, or the page cannot be written.
    """
    known = _known(results)
    if not known:
        raise FileError("There is no result to report on: evaluate a stream first.")
    if redact:
        known = redacted(known)
    # Imported here so that what writes no report need not wait for it.
    from sightline.report.page import render

    path = Path(path)
    entries = entries_of(known)
    page = render(entries, redact=redact, title=title)
    with staged_file(path) as partial:
        # A name may hold what is not a character.
        partial.write_text(page, encoding="utf-8", errors="backslashreplace")
    if figures:
        from sightline.report.plotting.report_figures import write_figures

        write_figures(entries, figures_folder(path))
    return path


def figures_folder(page: Path) -> Path:
    """Return where a page's figures are, which no other page's figures share."""
    name = "figures" if page.name == "report.html" else f"{page.stem}-figures"
    return page.parent / name


def _known(results: Sequence[Result | str | Path] | str | Path) -> list[Result]:
    given = [results] if isinstance(results, str | Path) else list(results)
    known: list[Result] = []
    folders: set[Path] = set()
    for one in given:
        if isinstance(one, Result):
            known.append(one)
            continue
        for result in read_results([one]):
            # A folder may be given twice, or with a folder that holds it.
            folder = result.folder and result.folder.resolve()
            if folder is not None and folder not in folders:
                folders.add(folder)
                known.append(result)
    return known
