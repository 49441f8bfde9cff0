"""The terminal's summary of an evaluation as plain text."""

from sightline.cli.tables import as_text, summary
from sightline.evaluation.result import Evaluation

# Wide enough for the legends, which are broken by hand.
WIDTH = 88


def summary_of(evaluation: Evaluation) -> str:
    """Return what `sightline evaluate` prints of one evaluation; see there."""
    return as_text(summary([evaluation]), width=WIDTH)
