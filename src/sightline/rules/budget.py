"""The budget of a control room: alarms a day, and the share of time in alarm."""

import re
from dataclasses import dataclass

from sightline.errors import StreamError

_SPANS = {"hour": 24.0, "day": 1.0, "week": 1 / 7, "month": 1 / 30}
_TEXT = re.compile(
    r"\s*(?P<count>\d+(?:\.\d+)?)\s*(?:/|a|per)\s*(?P<span>[a-z]+)"
    r"\s*(?:,\s*(?P<share>\d+(?:\.\d+)?)\s*%)?\s*",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How many false alarms are accepted.

    Parameters
    ----------
    per_day : float
        Alarms a day of attack-free time. ISA-18.2 calls up to 144 a day manageable for
        one operator, from all sources together.
    share : float
        Share of attack-free time in alarm.

    Examples
    --------
    >>> Budget.parse("1/week").share
    0.01
    >>> str(Budget.parse("6/day,2%"))
    '6/day,2%'
    """

    per_day: float = 6.0
    share: float = 0.01

    def __post_init__(self) -> None:
        """Refuse a budget that no rule can keep or every rule keeps."""
        if not 0 < self.per_day < 1e6:
            raise StreamError(
                f"A budget must allow more than 0 alarms a day; got {self.per_day:g}."
            )
        if not 0 < self.share < 1:
            raise StreamError(
                "A budget's share of time in alarm must lie between 0% and 100%; got "
                f"{100 * self.share:g}%."
            )

    @classmethod
    def parse(cls, text: "str | Budget") -> "Budget":
        """Return a budget from text such as ``6/day,1%`` or ``1/week``."""
        if isinstance(text, Budget):
            return text
        match = _TEXT.fullmatch(str(text))
        span = match["span"].lower().rstrip("s") if match else ""
        if match is None or span not in _SPANS:
            raise StreamError(
                f"The budget {text!r} is not understood: write alarms and a span, and "
                "if you like the share of time in alarm, such as 6/day, 1/week or "
                "6/day,1%."
            )
        share = {} if match["share"] is None else {"share": float(match["share"]) / 100}
        return cls(per_day=float(match["count"]) * _SPANS[span], **share)

    def __str__(self) -> str:
        """Return the text that `parse` reads."""
        weekly = self.per_day * 7
        if self.per_day < 1 and abs(weekly - round(weekly)) < 1e-9:
            return f"{round(weekly)}/week,{100 * self.share:.12g}%"
        return f"{self.per_day:.12g}/day,{100 * self.share:.12g}%"
