"""The two protocols: what we believe is right, and the letter of the paper.

``paper`` gives the numbers of the paper's tables from the same residuals. It changes
only what `SWITCHES` lists; docs/paper.md says why each of them differs.
"""

from enum import StrEnum

from sightline.errors import StreamError

# What the limit of `probe_test_calibrated` is called wherever it is shown.
HINDSIGHT = "limit set in hindsight on attack-free test rows"


class Protocol(StrEnum):
    """How a stream is evaluated: a value is what `protocol=` and a plan say."""

    SIGHTLINE = "sightline"
    PAPER = "paper"


# One sentence for each thing that protocol `paper` does otherwise.
SWITCHES = (
    "The reference is fitted on all attack-free train rows, those held out included.",
    "D_FULL, P_FULL and their medians use the plain covariance of a window; where it "
    "is singular, D_MS stands in place of D_FULL.",
    "A false-positive segment is a run of false-positive rows, also beside an attack.",
    "A stream of one score is measured two-sided, as all others.",
)


def protocol_named(name: str) -> Protocol:
    """Return the protocol of a name; `StreamError` if there is none.

    Examples
    --------
    >>> protocol_named("paper")
    <Protocol.PAPER: 'paper'>
    """
    try:
        return Protocol(name)
    except ValueError:
        raise StreamError(
            f"`protocol` must be {' or '.join(Protocol)}; got {name!r}."
        ) from None
