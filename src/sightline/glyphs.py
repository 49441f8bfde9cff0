"""Which characters a figure can show.

Apart from `text`, because it knows matplotlib.
"""

from functools import cache

# The font of all figures; matplotlib ships it.
FONT = "DejaVu Sans"


def drawable(text: str) -> str:
    r"""Return text with "?" for characters the font lacks, and no formula in it.

    Examples
    --------
    >>> drawable("tank$1")
    'tank\\$1'
    """
    known = _characters()
    drawn = "".join(c if ord(c) in known and c.isprintable() else "?" for c in text)
    return drawn.replace("$", r"\$")


@cache
def _characters() -> frozenset[int]:
    """Return the code points that the font of figures has."""
    from matplotlib import font_manager

    path = font_manager.findfont(FONT)
    return frozenset(font_manager.get_font(path).get_charmap())
