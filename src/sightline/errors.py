"""The errors of this package.

Every expected failure is one of these, so that a caller, and the command line, can
tell a mistake in the input from a bug in Sightline::

    SightlineError                      base of all errors
    |-- StreamError (ValueError)        numbers do not make a valid stream or recording
    |-- FileError (OSError)             a file or folder cannot be read or written
    |-- TrainingError (RuntimeError)    a detector could not learn from a recording
    `-- MissingExtraError (ImportError) an optional dependency is not installed

    UndefinedMetricWarning (UserWarning)  a metric has no value; nan is returned

Each message is one sentence: what is wrong, where, and what to do. Names in it come
from files: what would control a terminal is escaped, and what is too long shortened.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from sightline.text import message


class SightlineError(Exception):
    r"""Base of every expected failure.

    Examples
    --------
    >>> print(SightlineError("There is no tag 'a\x1b[2J'."))
    There is no tag 'a\x1b[2J'.
    """

    def __str__(self) -> str:
        """Return the message as one legible line of bounded length."""
        return message(super().__str__())


class StreamError(SightlineError, ValueError):
    """Numbers do not make a valid residual stream, recording or metric.

    Examples
    --------
    >>> from sightline import ResidualStream
    >>> ResidualStream([[0.1], [0.2]], [[0.1, 5.0]])
    Traceback (most recent call last):
    ...
    sightline.errors.StreamError: `test` must have the 1 channel of `train`; it has 2.
    """


class FileError(SightlineError, OSError):
    """A file or folder cannot be read, is not what it should be, or cannot be written.

    The message begins with the path.

    Examples
    --------
    >>> from sightline import read_evaluation
    >>> try:
    ...     read_evaluation("no/such/folder")
    ... except FileError as error:
    ...     print(error)
    no/such/folder: there is no such evaluation.
    """


class TrainingError(SightlineError, RuntimeError):
    """A detector could not learn from a recording: its loss is not a number.

    Examples
    --------
    >>> raise TrainingError("GDN: the loss is not a number after epoch 3.")
    Traceback (most recent call last):
    ...
    sightline.errors.TrainingError: GDN: the loss is not a number after epoch 3.
    """


class MissingExtraError(SightlineError, ImportError):
    """An optional dependency is not installed; the message has the pip command.

    Examples
    --------
    >>> from sightline.data.arrays import require
    >>> require("no_such_module", extra="detectors", caller="GDN")
    Traceback (most recent call last):
    ...
    sightline.errors.MissingExtraError: GDN needs no_such_module, which is not \
installed: pip install 'sightline-cps[detectors]'.
    """


class UndefinedMetricWarning(UserWarning):
    """A metric is undefined for this input; nan was returned.

    Examples
    --------
    >>> import warnings
    >>> from sightline.metrics.ranking import roc_auc_score
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     value = roc_auc_score([0, 0], [1.0, 2.0])
    >>> value, caught[0].category.__name__
    (nan, 'UndefinedMetricWarning')
    """


@contextmanager
def naming(place: object) -> Iterator[None]:
    """Put a place, usually a path, before the message of a `StreamError` raised inside.

    Examples
    --------
    >>> with naming("mine.npz"):
    ...     raise StreamError("`train` must have at least 2 rows.")
    Traceback (most recent call last):
    ...
    sightline.errors.StreamError: mine.npz: `train` must have at least 2 rows.
    """
    try:
        yield
    except StreamError as error:
        raise StreamError(f"{place}: {error}") from error
