"""Attacks of an evaluation as a frame of polars or pandas."""

import json
from typing import Any

from sightline.data.arrays import require
from sightline.errors import StreamError
from sightline.evaluation.result import Evaluation
from sightline.storage.results import SEGMENT_COLUMNS, segment_rows
from sightline.text import did_you_mean

LIBRARIES = ("polars", "pandas")


def frame_of(evaluation: Evaluation, library: str = "polars") -> Any:
    """Return one row for each attack, with the columns of ``segments.csv``.

    Parameters
    ----------
    evaluation : Evaluation
        With any number of attacks, also none.
    library : {"polars", "pandas"}
        Whose frame.

    Returns
    -------
    frame
        Numbers stay numbers; records and lists are JSON text, as in ``segments.csv``.

    Raises
    ------
    StreamError
        If the library is another one.
    MissingExtraError
        If it is not installed.
    """
    if library not in LIBRARIES:
        raise StreamError(
            f"There is no frame of {library!r}; {did_you_mean(str(library), LIBRARIES)}"
        )
    frames = require(library, extra=library, caller="to_frame")
    rows = segment_rows(evaluation)
    columns = {name: [_cell(row[name]) for row in rows] for name in SEGMENT_COLUMNS}
    if library == "pandas":
        return frames.DataFrame(columns)
    return frames.DataFrame(columns, strict=False)


def _cell(value: object) -> object:
    """Return a scalar as it is, and JSON text of a list or an object."""
    return json.dumps(value) if isinstance(value, list | dict) else value
