"""The command `improve`: what could stand beside, or in place of, a detector."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, BadParameter, Option

from sightline.cli.console import (
    BudgetOption,
    DebugOption,
    JobsOption,
    check_free,
    console,
    door,
)
from sightline.errors import StreamError, naming
from sightline.progress import progress_bar

if TYPE_CHECKING:
    from sightline.data.stream import ResidualStream
    from sightline.improvement.improve import Improvement

_FIRST = 0.35


@dataclass(frozen=True, eq=False)
class _Case:
    """One stream, with its telemetry and its saved detector as far as they are known.

    `recording` is what `improve` takes.
    """

    name: str
    stream: "ResidualStream"
    recording: Any
    saved: Path | None


def improve_command(
    place: Annotated[
        Path,
        Argument(
            metavar="STREAM|STUDY",
            help="A residual stream, or a folder that `run` or `study` wrote.",
        ),
    ],
    telemetry: Annotated[
        str | None,
        Option(
            metavar="PLANT",
            help="The plant's folder, or the testbed, of which the stream was made; a "
            "study knows its own.",
        ),
    ] = None,
    detector: Annotated[
        str | None,
        Option(
            metavar="FILE|NAME",
            help="The saved detector of the stream; of a study, one of its detectors.",
        ),
    ] = None,
    budget: BudgetOption = None,
    first: Annotated[
        float,
        Option(help="Share of the test whose attack-free rows make limits."),
    ] = _FIRST,
    out: Annotated[Path, Option(help="Folder for the results.")] = Path("improved"),
    seed: Annotated[int, Option(min=0, help="Seed of the falsifications.")] = 0,
    overwrite: Annotated[
        bool, Option("--overwrite", help="Replace earlier results.")
    ] = False,
    jobs: JobsOption = None,
    debug: DebugOption = False,
) -> None:
    """Set a better score, and the detector `pair`, beside the detector that you have.

    The score `largest` (the oddest tag, in units of its own tail) is set beside the
    energy of the stream. With --telemetry the detector `pair` is trained on the same
    rows, and falsifications that are written into attack-free telemetry go through
    both. OUT gets improve.html, improvement.json, tables, rule.json where a limit
    holds, and `pair` with its stream, file and rule.

    \b
    Examples:
      sightline improve gdn.npz
      sightline improve study/ --detector gdn --out improved
      sightline improve mine.npz --telemetry my-plant/ --detector mine-detector.npz
    """
    with door(debug=debug, writes=[out]):
        from sightline.detectors import load_detector
        from sightline.improvement.files import write_improvement
        from sightline.improvement.improve import improve
        from sightline.rules.limits import Budget

        check_free(out, "improvement.json", overwrite=overwrite)
        cases = list(_cases(place, telemetry, detector))
        for case in cases:
            folder = out if len(cases) == 1 else out / case.name
            with progress_bar(case.name) as advance, naming(case.name):
                saved = None if case.saved is None else load_detector(case.saved)
                found = improve(
                    case.stream,
                    case.recording,
                    detector=saved,
                    budget=budget or str(Budget()),
                    first=first,
                    seed=seed,
                    jobs=jobs,
                    progress=advance,
                )
            written = write_improvement(found, folder, detector=case.saved)
            _say(found, folder, written)


def _say(found: "Improvement", folder: Path, written: list[str]) -> None:
    """Print tables and sentences of one stream."""
    from sightline.improvement.record import tables
    from sightline.show.terminal import rendered

    screen = console()
    # The page has what is seen by size and tag.
    for table in tables(found.record)[:2]:
        screen.print(rendered(table))
    for sentence in found.record.sentences():
        screen.print(f"- {sentence}", soft_wrap=True)
    screen.print(f"Written to {folder}/: {', '.join(written)}", soft_wrap=True)


def _cases(place: Path, telemetry: str | None, detector: str | None) -> Iterator[_Case]:
    """Yield what is to be improved."""
    from sightline.storage import read_stream
    from sightline.study.collect import saved_cells
    from sightline.testbeds import open_testbed

    if (place / "study.json").is_file():
        if telemetry is not None:
            raise BadParameter("--telemetry goes with a stream: a study knows its own.")
        for one in saved_cells(place, detector):
            if one.cell.detector != "pair" or detector is not None:
                yield _Case(one.cell.name, one.stream, one.recordings, one.saved)
        return
    stream = read_stream(place)
    if telemetry is None:
        if detector is not None:
            raise StreamError(
                f"{detector}: a detector reads telemetry: give --telemetry, the "
                "plant's folder."
            )
        yield _Case(stream.name, stream, None, None)
        return
    with progress_bar(telemetry) as advance:
        testbed = open_testbed(telemetry, progress=advance)
    saved = None if detector is None else Path(detector).expanduser()
    yield _Case(stream.name, stream, testbed, saved)
