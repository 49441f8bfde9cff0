"""Time stamps as seconds since 1970 on the plant's own clock, and back."""

from datetime import UTC, datetime


def seconds(stamp: str) -> float:
    """Return an ISO time stamp as seconds since 1970 on the plant's own clock.

    Examples
    --------
    >>> seconds("1970-01-02 00:00:01")
    86401.0
    """
    return datetime.fromisoformat(stamp).replace(tzinfo=UTC).timestamp()


def stamp(at: float) -> str:
    """Return seconds as a readable time stamp, to the second.

    Examples
    --------
    >>> stamp(86401.0)
    '1970-01-02 00:00:01'
    """
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")
