"""Which columns of two tables are residuals, and which are labels, time or alarms."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from sightline.data.stream_input import MOST_NAMES, check_same_channels
from sightline.errors import StreamError
from sightline.text import names

# Words in the names of columns that hold no residual, by the option that claims them.
_ALARM_WORDS = ("alarm", "alarms", "alert", "alerts")
_SCORE_WORDS = ("score", "scores")
_LABEL_WORDS = ("label", "labels", "attack", "attacks", "anomaly", "anomalies")
_TIME_WORDS = ("time", "timestamp", "datetime", "date")
_WORDS = (*_ALARM_WORDS, *_SCORE_WORDS, *_LABEL_WORDS)
# Words that may stand beside them; other words, such as a tag, make it a channel.
_FILLERS = frozenset(
    ("is", "has", "own", "flag", "normal", "no", "detector", "anomalie")
)
# How near a misspelt word must be: "attak", not "store" for "score".
_NEAR = 0.85
_SPLIT = re.compile(r"[\W_]+|(?<=[a-z])(?=[A-Z])")


def is_time_name(column: str) -> bool:
    """Return whether a column is called like one of time stamps.

    Examples
    --------
    >>> is_time_name("Date Time"), is_time_name("timestamp"), is_time_name("runtime")
    (True, True, False)
    """
    words = _words(column)
    return bool(words) and all(
        word in (*_TIME_WORDS, "stamp", "utc", "local") for word in words
    )


def is_called(column: str, kind: str) -> bool:
    """Return whether a column is called like alarms, a score or labels.

    Parameters
    ----------
    column : str
        Its name; case, blanks and small spelling mistakes do not matter.
    kind : {"alarms", "score", "any"}
        What it should be called like.

    Examples
    --------
    >>> is_called("Normal/Attack", "any"), is_called("Anomaly_Score", "score")
    (True, True)
    >>> is_called("alram", "any"), is_called("ALARM_LIT101", "any")
    (True, False)
    """
    wanted = {"alarms": _ALARM_WORDS, "score": _SCORE_WORDS}.get(kind, _WORDS)
    words = _words(column)
    if not all(word in _FILLERS or word.isdigit() or _known(word) for word in words):
        return False
    known = [_known(word) for word in words]
    # "score 1" may be one of several residuals; "attack label (1: attack)" is none.
    if any(word.isdigit() for word in words) and len(list(filter(None, known))) < 2:
        return False
    return any(word in wanted for word in known)


def _words(column: str) -> list[str]:
    return [word.lower() for word in _SPLIT.split(column) if word]


def _known(word: str) -> str:
    """Return the word of `_WORDS` that a word is, or is a misspelling of."""
    for known in _WORDS:
        if word[0] == known[0] and sorted(word) == sorted(known):
            return known
    return next(iter(get_close_matches(word, _WORDS, n=1, cutoff=_NEAR)), "")


@dataclass(frozen=True, kw_only=True)
class TableColumns:
    """The columns of two tables, train and test, that are no residuals.

    Parameters
    ----------
    label, time, alarms, score : str, optional
        Columns of the test table; the train table may have them too.
    ignore : tuple of str
        Columns of either table to leave out.
    """

    label: str | None = None
    time: str | None = None
    alarms: str | None = None
    score: str | None = None
    ignore: tuple[str, ...] = ()

    def residuals(self, columns: Sequence[str], table: str) -> list[str]:
        """Return the columns of one table that hold residuals.

        Raises
        ------
        StreamError
            If a column that no option claims is called like alarms, a score, labels
            or time: a detector's alarms taken as a residual would give it away.
        """
        claimed = (self.label, self.time, self.alarms, self.score, *self.ignore)
        left = [column for column in columns if column not in claimed]
        for column in left:
            if not is_time_name(column) and not is_called(column, "any"):
                continue
            options = (
                "--time" if is_time_name(column) else "--alarms, --score or --label"
            )
            raise StreamError(
                f"`{table}` column {column!r} is probably no residual: name it with "
                f"{options}, leave it out with --ignore {column} (in Python the "
                "arguments of these names), or rename it if it is one."
            )
        return left

    def channels(self, train: Sequence[str], test: Sequence[str]) -> list[str]:
        """Return the channels of two tables with these columns, in the order of train.

        Raises
        ------
        StreamError
            If `test` lacks a named column, one to ignore is in neither table, or the
            other columns differ.
        """
        for option in ("label", "time", "alarms", "score"):
            column = getattr(self, option)
            if column is not None and column not in test:
                raise StreamError(
                    f"`test` has no column {column!r} to take the {option} from; it "
                    f"has {names(test, MOST_NAMES, quoted=True)}."
                )
        for column in self.ignore:
            if column not in train and column not in test:
                raise StreamError(
                    f"`test` has no column {column!r} to ignore; it has "
                    f"{names(test, MOST_NAMES, quoted=True)}."
                )
        channels = self.residuals(train, "train")
        check_same_channels(channels, self.residuals(test, "test"))
        return channels
