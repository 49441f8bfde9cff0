"""Columns of pandas and polars frames, which are told by what they can do.

Neither library is imported: a frame is what has `columns` and `to_numpy`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Residuals, as_array, check_residuals, check_unique
from sightline.errors import StreamError


def is_frame(values: object) -> bool:
    """Tell whether values come with named columns."""
    return hasattr(values, "columns") and hasattr(values, "to_numpy")


def columns_of(frame: Any, name: str) -> list[str]:
    """Return the names of the columns, as text."""
    if not is_frame(frame):
        raise StreamError(
            f"`{name}` must be a pandas or polars frame; got {type(frame).__name__}."
        )
    columns = [str(column) for column in frame.columns]
    check_unique(columns, f"{name} columns")
    return columns


def column_of(frame: Any, column: str) -> npt.NDArray[Any]:
    """Return one column, by the text of its name."""
    by_text = {str(known): known for known in frame.columns}
    return np.asarray(frame[by_text[column]].to_numpy())


def matrix_of(frame: Any, channels: Sequence[str], name: str) -> Residuals:
    """Return number columns side by side, in the order of `channels`."""
    if not channels:
        raise StreamError(f"`{name}` must have at least one channel; it has none.")
    arrays = []
    for channel in channels:
        column = as_array(column_of(frame, channel), channel)
        if column.dtype.kind not in "iuf":
            raise StreamError(
                f"`{name}` column {channel!r} must hold numbers; got type "
                f"{column.dtype}: if it is the label or the time, name it as such."
            )
        arrays.append(column)
    dtype = np.result_type(np.float32, *(array.dtype for array in arrays))
    return check_residuals(np.stack(arrays, axis=1).astype(dtype, copy=False), name)
