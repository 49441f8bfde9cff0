"""What can go wrong, as types.

Every expected failure is one of these, so that a caller (and the command line's
door) can tell "your input needs a hand" from "Sightline has a bug"::

    SightlineError                      anything below
    |-- StreamError (ValueError)        these numbers do not make a residual stream
    |-- FileError (OSError)             this file or folder cannot be read or written
    |-- TrainingError (RuntimeError)    a detector could not learn from this recording
    `-- MissingExtraError (ImportError) an optional dependency is not installed

    UndefinedMetricWarning (UserWarning)  a metric has no value here; nan is returned

Each message is one sentence: what is wrong, where, and what to do.
"""

from collections.abc import Iterator
from contextlib import contextmanager


class SightlineError(Exception):
    """Base of every expected failure."""


class StreamError(SightlineError, ValueError):
    """The given numbers do not make a residual stream, a recording or a metric."""


class FileError(SightlineError, OSError):
    """A file or folder cannot be read as what it should be, or not be written."""


class TrainingError(SightlineError, RuntimeError):
    """A detector could not learn: its loss is no number any more."""


class MissingExtraError(SightlineError, ImportError):
    """An optional dependency is needed and not installed."""


class UndefinedMetricWarning(UserWarning):
    """A metric is undefined for this input; nan was returned."""


@contextmanager
def naming(place: object) -> Iterator[None]:
    """Put the file's name before the sentence of a `StreamError` raised inside."""
    try:
        yield
    except StreamError as error:
        raise StreamError(f"{place}: {error}") from error
