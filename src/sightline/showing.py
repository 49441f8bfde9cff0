"""How a value shows itself: one line in a shell, a table in a notebook.

A class says in one line what it is (`Shown._line`). How it looks as HTML, as a picture
or as a frame is the business of `sightline.notebook`, the highest package, which knows
the libraries for it. A value reaches it by name, and only when it is asked to show
itself, so that no package imports one above it.
"""

from importlib import import_module
from typing import Any


class Shown:
    """Base of a value with a short `repr` and a view for notebooks.

    A subclass states `_line`; a dataclass among them has ``repr=False``.

    Examples
    --------
    >>> class Tank(Shown):
    ...     def _line(self):
    ...         return "'T101': 2 m"
    >>> Tank()
    Tank 'T101': 2 m
    """

    def _line(self) -> str:
        """Return name and size in one line; names are quoted by ``!r``."""
        return ""

    def __repr__(self) -> str:
        """Return the type and one line."""
        return f"{type(self).__name__} {self._line()}".rstrip()

    def _repr_html_(self) -> str:
        """Return the view that a notebook shows; every text in it is escaped."""
        return str(in_notebook("html_of", self))


def in_notebook(function: str, *arguments: Any, **options: Any) -> Any:
    """Call a function of `sightline.notebook` by its name.

    Parameters
    ----------
    function : str
        Its name.
    *arguments, **options
        What it gets.

    Returns
    -------
    object
        What it returns.
    """
    notebook = import_module("sightline.notebook")
    return getattr(notebook, function)(*arguments, **options)
