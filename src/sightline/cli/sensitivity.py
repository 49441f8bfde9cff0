"""The command `sensitivity`: how much figures depend on choices nobody states."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from sightline.cli.console import DebugOption, JobsOption, console, door
from sightline.errors import FileError
from sightline.progress import progress_bar


def sensitivity_command(
    paths: Annotated[
        list[Path],
        Argument(metavar="STREAM...", help="Streams; several of one recording rank."),
    ],
    out: Annotated[
        Path | None,
        Option(help="Folder for sensitivity.json, .csv, .md and .tex."),
    ] = None,
    overwrite: Annotated[
        bool, Option("--overwrite", help="Replace an earlier one.")
    ] = False,
    jobs: JobsOption = None,
    debug: DebugOption = False,
) -> None:
    """Say how far each headline figure moves with choices that papers rarely state.

    Five covariance estimators, standardised units, guards after attacks, label slop,
    and the paper's protocol: each figure's range over all of them, and whether two
    streams change places.

    \b
    Examples:
      sightline sensitivity gdn.npz
      sightline sensitivity study/streams/*.npz --out sensitivity
    """
    from sightline.evaluation.sensitivity import sensitivity
    from sightline.files import staged_folder
    from sightline.parallel import threads
    from sightline.show.phrases import words
    from sightline.show.printed import PaperTable, one_group
    from sightline.show.sensitivity import RANGES, ranking_lines
    from sightline.show.table import RecordTable, to_csv
    from sightline.show.terminal import rendered
    from sightline.storage import read_stream, write_json

    with door(debug=debug, timed=True, writes=[out]):
        if out is not None and (out / "sensitivity.json").exists() and not overwrite:
            raise FileError(
                f"{out}: holds an earlier sensitivity.json, which is kept: choose "
                "another --out, or pass --overwrite."
            )
        with progress_bar("Sensitivity") as advance, threads(jobs):
            found = sensitivity([read_stream(path) for path in paths], advance)
        screen = console()
        title = "Range of each figure over all settings"
        screen.print(rendered(RecordTable(title, RANGES, found.ranges)))
        for line in (*ranking_lines(found.to_dict()), *found.notices):
            screen.print(f"- {line}", soft_wrap=True)
        if out is None:
            return
        table = PaperTable(
            name="sensitivity",
            caption=words(
                "Sensitivity of headline figures: value by default, and range over "
                "covariance estimators, standardised units, guards after attacks, "
                "label slop, and the paper's protocol, each changed alone. An end "
                "without a choice is the value by default."
            ),
            columns=RANGES,
            groups=one_group(found.ranges),
            grouped_by=None,
        )
        with staged_folder(out) as folder:
            write_json(found.to_dict(), folder / "sensitivity.json", overwrite=True)
            texts = {
                "csv": to_csv(RANGES, found.ranges),
                "md": table.to_markdown(),
                "tex": table.to_latex(),
            }
            for kind, text in texts.items():
                path = folder / f"sensitivity.{kind}"
                path.write_text(text, encoding="utf-8", errors="backslashreplace")
        screen.print(f"Written to {out}/: sensitivity.json, .csv, .md, .tex")
