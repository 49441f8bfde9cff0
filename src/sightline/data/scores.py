"""A score alone, without training data: its own attack-free first part stands in.

Whoever has only a score for each test row, as benchmarks publish them, has no rows to
fit a reference on. The rows before the first attack take their place and leave the
test. What needs several channels cannot be said then, and the notices say so.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from sightline.data.arrays import NORMAL
from sightline.data.row_tables import KeptRows
from sightline.data.segments import breaks_kept
from sightline.data.stream import ResidualStream, kept_with
from sightline.errors import StreamError

# In `meta`: how many first rows of the test are the reference.
REFERENCE_KEY = "reference_rows"
# Fewer rows are no reference; more than this share of the test is not taken unasked.
LEAST_ROWS = 100
MOST_SHARE = 1 / 3
# The reference ends this long before the first attack, whose label may be late.
MARGIN_S = 600.0


def stream_of_scores(
    score: object,
    labels: object = None,
    *,
    reference_rows: int | None = None,
    **known: Any,
) -> ResidualStream:
    """Return the stream of one score, whose first part is the reference.

    Parameters
    ----------
    score : array of shape (n,)
        The score of each test row, larger where it is more anomalous.
    labels : array of shape (n,), optional
        1 attack, 0 normal, -1 ignore.
    reference_rows : int, optional
        How many first rows are the reference. Not given: those up to 10 minutes (100
        rows where seconds are not known) before the first attack, at most a third.
    **known
        Any further argument of `ResidualStream`, of all rows.

    Raises
    ------
    StreamError
        If fewer than 100 attack-free rows come first.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> score, labels = rng.exponential(size=900), np.zeros(900, int)
    >>> labels[700:720] = 1
    >>> stream_of_scores(score, labels, name="mine")
    ResidualStream 'mine': 1 channel, 300 train rows, 600 test rows, 1 attack
    """
    rows = np.asarray(score, dtype=np.float64).reshape(-1, 1)
    defaults = {"channels": ["score"], "space": "score"}
    whole = ResidualStream(rows, rows, labels, **defaults | known)  # type: ignore[arg-type]
    return with_own_reference(whole, reference_rows)


def with_own_reference(
    stream: ResidualStream, reference_rows: int | None = None
) -> ResidualStream:
    """Return the stream whose train is the first part of its test; see above.

    Parameters
    ----------
    stream : ResidualStream
        Its own train is left out.
    reference_rows : int, optional
        As for `stream_of_scores`.
    """
    n_rows = stream.test.n_rows
    marked = np.flatnonzero(stream.labels != NORMAL)
    first = int(marked[0]) if len(marked) else n_rows
    n = reference_rows
    if n is None:
        margin = LEAST_ROWS if stream.step_s is None else MARGIN_S / stream.step_s
        n = min(first - int(margin), int(MOST_SHARE * n_rows))
    if not LEAST_ROWS <= n <= min(first, n_rows - 1):
        raise StreamError(
            f"Without train the first rows of the test are the reference: at least "
            f"{LEAST_ROWS} attack-free ones are needed, and the first attack begins at "
            f"row {first:,} of {n_rows:,}. Give train, or set how many rows with "
            "reference_rows (--reference-rows)."
        )
    later = np.arange(n_rows) >= n
    changes = kept_with(stream, "test", later) | {
        "test": KeptRows(stream.test, later),
        "train": KeptRows(stream.test, ~later),
        "train_breaks": breaks_kept(stream.test_breaks, ~later),
        "meta": dict(stream.meta) | {REFERENCE_KEY: int(n)},
    }
    if stream.test_time is not None:
        changes["train_time"] = stream.test_time[~later]
    if stream.telemetry_test is not None:
        changes["telemetry_train"] = KeptRows(stream.telemetry_test, ~later)
    notice = (
        f"No training data: the first {n:,} rows of the test, before the first attack, "
        "are the reference of all figures and are not judged."
    )
    if stream.p == 1:
        notice += " One score: dilution, localisation and blind spots cannot be judged."
    changes["notices"] = [notice, *changes["notices"]]
    return stream.replace(**changes)


def score_given(
    test: object, labels: object, known: Mapping[str, Any]
) -> ResidualStream:
    """Return the stream of the one score that a caller gives; refuse more channels."""
    shape = np.asarray(test).shape
    if len(shape) != 1 and shape[1:] != (1,):
        raise StreamError(
            "`train` is missing: without it `test` must be one score for each row; got "
            f"shape {shape}. Give residuals of attack-free training data, as in "
            "evaluate(train=..., test=..., labels=...)."
        )
    name = known.get("detector") or "score"
    return stream_of_scores(test, labels, **{"name": name, **known})
