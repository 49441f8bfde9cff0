"""The terminal: what is printed can show any name, and obeys none."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from sightline.text import legible


class Terminal(Console):
    """A console that prints names of files and tags as they are.

    Markup and emoji codes in a name are printed literally. Characters that control a
    terminal, or reverse the direction of writing, are escaped; the console's own styles
    are not.

    Parameters
    ----------
    stderr : bool
        Whether to print to standard error instead of standard output.
    width : int, optional
        Columns, for text that no terminal shows: it then has no colours.
    """

    def __init__(self, *, stderr: bool = False, width: int | None = None) -> None:
        super().__init__(
            stderr=stderr,
            highlight=False,
            markup=False,
            emoji=False,
            width=width,
            no_color=None if width is None else True,
            force_terminal=None if width is None else False,
            force_jupyter=None if width is None else False,
        )

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield the segments of something to print, with escaped control characters."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                lines = (legible(line) for line in segment.text.split("\n"))
                yield Segment("\n".join(lines), segment.style)
