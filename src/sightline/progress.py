"""A progress bar for long work in one's own programs; the commands have the same."""

from collections.abc import Callable
from contextlib import AbstractContextManager


def progress_bar(
    called: str,
) -> AbstractContextManager[Callable[[str, int, int], None]]:
    """Show a bar with what is being done, how far it is, and the time left.

    Give what it yields as ``progress`` to `fit`, `residuals`, `export_stream` or
    `evaluate`; where there is no terminal nothing is shown.

    Parameters
    ----------
    called : str
        What stands before the bar.

    Examples
    --------
    >>> from sightline import progress_bar
    >>> with progress_bar("gdn") as progress:
    ...     progress("Training", 1, 10)
    """
    from sightline.shell import bar

    return bar(called)
