"""The commands `card` and `verify`: results that others can check without the rows."""

from pathlib import Path
from typing import Annotated

from rich.text import Text
from typer import Argument, Exit, Option

from sightline.cli.console import DebugOption, console, door
from sightline.errors import FileError
from sightline.progress import progress_bar
from sightline.text import names, plural, size

# A card that contradicts itself, or the stream.
CONTRADICTED = 3


def card_command(
    result: Annotated[
        Path, Argument(metavar="RESULT", help="The folder of one result.")
    ],
    out: Annotated[
        Path, Option(help="The card to write, such as card.json.gz.")
    ] = Path("card.json.gz"),
    by: Annotated[str, Option(help="Who makes it.")] = "",
    licence: Annotated[str, Option(help="Its terms, such as CC-BY-4.0.")] = "",
    overwrite: Annotated[
        bool, Option("--overwrite", help="Replace an earlier card.")
    ] = False,
    debug: DebugOption = False,
) -> None:
    """Write what a result shows as one small file without telemetry or residuals.

    \b
    Examples:
      sightline card result --out card.json.gz --by Lab --licence CC-BY-4.0
    """
    from sightline.cards import card_of_result, write_card_file
    from sightline.storage import read_results

    with door(debug=debug, writes=[out]):
        if out.exists() and not overwrite:
            raise FileError(
                f"{out}: is there already, and is kept: choose another --out, or pass "
                "--overwrite."
            )
        found = read_results([result])
        if len(found) != 1:
            raise FileError(
                f"{result}: holds {plural(len(found), 'result')}; a card is of one: "
                f"name one of {names([one.name for one in found], 6)}."
            )
        card = card_of_result(found[0], made_by=by, licence=licence)
        write_card_file(card, out)
        console().print(
            f"Written: {out} ({size(out.stat().st_size)}; "
            f"{plural(len(card.figures), 'figure')} of "
            f"{plural(len(card.attacks), 'attack')}, no telemetry and no residual).",
            soft_wrap=True,
        )


def verify_command(
    card: Annotated[Path, Argument(metavar="CARD", help="A card.")],
    stream: Annotated[
        Path | None,
        Argument(metavar="[STREAM]", help="The stream it is said to be of."),
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Compute a card's figures again, and name those that do not follow.

    From the card alone: figures of ranks and of the p99 rule's alarms, of windows, and
    of single attacks; all others must be possible. With the stream everything is
    evaluated again and compared. Exits with 3 if anything is contradicted.

    \b
    Examples:
      sightline verify card.json.gz
      sightline verify card.json.gz gdn.npz
    """
    from sightline.cards import read_card_file, verify_card
    from sightline.storage import read_stream

    with door(debug=debug), progress_bar(card.name) as progress:
        read = read_card_file(card)
        streamed = None if stream is None else read_stream(stream)
        found = verify_card(read, streamed, progress=progress)
    screen = console()
    for one in found.contradictions:
        screen.print(Text(one.sentence, style="red"), soft_wrap=True)
    screen.print(
        f"{card}: {plural(len(found.computed), 'figure')} computed again, "
        f"{len(found.bounded)} only known to be possible"
        + (f" ({names(found.bounded, 4)})" if found.bounded else "")
        + (
            f"; {plural(len(found.contradictions), 'contradiction')}."
            if found.contradictions
            else "; nothing is contradicted."
        ),
        soft_wrap=True,
    )
    if found.contradictions:
        raise Exit(CONTRADICTED)
