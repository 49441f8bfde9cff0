"""Questions about means that have jumped, and what people answer.

A rule that follows means never learns a jump by itself: it asks. *Normal* moves the
mean of that tag, and of what jumped in the same night; the limit stays. *Fault*, or
nothing: it is not learned, and its alarm stands.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from sightline.data.zones import iso_stamp
from sightline.errors import FileError
from sightline.operation.alarms import FOLLOWED, KINDS, AlarmKind
from sightline.rules.rule import Rule
from sightline.rules.standalone import (
    ASKS_AFTER,
    MOST_IN_ALL,
    PLANT_CHANGED,
    Question,
)
from sightline.tables.lists import list_rows
from sightline.tables.stamps import seconds_of_cell
from sightline.text import did_you_mean, number

COLUMNS: Final = ("time", "tag", "answer", "by")
# Questions about more than half of the tags, unanswered for so long: no decision.
UNANSWERED_S: Final = 48 * 3600.0
SAY_IN_FILE: Final = (
    "Say of each in a file whether it is normal or a fault, and give it with --answers."
)
SAY_IN_WATCH: Final = (
    "Answer with `sightline answer STATE ID normal --by NAME` or `fault`; `sightline "
    "alarm list STATE` shows the questions."
)


class Reply(StrEnum):
    """What a person says of a tag that is asked about."""

    NORMAL = "normal"
    FAULT = "fault"


@dataclass(frozen=True, kw_only=True)
class TagAnswer:
    """An answer.

    Parameters
    ----------
    time : float
        Time of the last row before it; a row number without a clock.
    tag : str
        The tag.
    reply : Reply
        What was said.
    by : str
        Who said it.
    """

    time: float
    tag: str
    reply: Reply
    by: str = ""

    def cells(self, zone: str | None) -> tuple[str, ...]:
        """Return it as a row of ``answers.csv``."""
        return iso_stamp(self.time, zone), self.tag, str(self.reply), self.by


def read_answers(
    path: Path, tags: Sequence[str], zone: str | None = None
) -> list[TagAnswer]:
    """Return the answers of a file with the columns time, tag and answer.

    Parameters
    ----------
    path : Path
        The file, such as the ``answers.csv`` of a watch.
    tags : sequence of str
        Tags of the rule.
    zone : str, optional
        Of times without an offset.

    Raises
    ------
    FileError
        If a time, a tag or an answer is not known; the message names the line.
    """
    found = []
    for line, row in list_rows(path, COLUMNS[:3]).items():
        place = f"{path}: line {line}"
        if row["tag"] not in tags:
            hint = did_you_mean(row["tag"], tags)
            raise FileError(f"{place}: the rule has no tag {row['tag']!r}: {hint}")
        if row["answer"] not in list(Reply):
            raise FileError(
                f"{place}: the answer is {row['answer']!r}; write normal or fault."
            )
        cell = row["time"]
        if cell.isdigit():
            time = float(cell)  # a row number
        else:
            time, _ = seconds_of_cell(cell, "time", line, path=path, zone=zone)
        reply = Reply(row["answer"])
        found.append(
            TagAnswer(time=time, tag=row["tag"], reply=reply, by=row.get("by", ""))
        )
    return found


def begin_of(question: Question, rule: Rule) -> int:
    """Return the row at which what a question is about began, as nights tell."""
    if abs(question.off) == MOST_IN_ALL and question.channel != PLANT_CHANGED:
        return question.row
    return max(question.row + 1 - ASKS_AFTER * rule.night, 0)


def asked_words(question: Question, rule: Rule, since: str) -> str:
    """Return what is asked, about a tag or about the plant."""
    if question.channel != PLANT_CHANGED:
        tag = rule.channels[question.channel].name
        return question_words(tag, question.off, since)
    tags = [rule.channels[j].name for j in question.together]
    return KINDS[AlarmKind.CHANGE].text.format(
        since=since,
        n=len(tags),
        of=len(rule.channels),
        largest=tags[0],
        peak=number(question.off),
    )


def unanswered_words(n: int, n_tags: int, since: str, what_to_do: str) -> str:
    """Return that questions about most tags stand unanswered, and what to do.

    Examples
    --------
    >>> unanswered_words(7, 10, "18 Jan 00:30", "Answer.")
    'NO DECISION since 18 Jan 00:30: 7 of 10 tags have moved, and nobody has said for 48
    h or more whether that is normal. Until then their alarms stand. Answer.'
    """
    return (
        f"NO DECISION since {since}: {n} of {n_tags} tags have moved, and nobody has "
        f"said for {UNANSWERED_S / 3600:.0f} h or more whether that is normal. Until "
        f"then their alarms stand. {what_to_do}"
    )


def question_words(tag: str, off: float, since: str) -> str:
    """Return a question about a tag.

    Examples
    --------
    >>> question_words("TIRC_01", -2.14, "18 Jan 00:30")
    'TIRC_01 lies 2.1 spreads lower since 18 Jan 00:30: is this normal?'
    >>> question_words("QIR_pH_01", 3.0, "18 Jan 00:30")
    'QIR_pH_01 was followed by 3 spreads until 18 Jan 00:30, all that is allowed; a slow
    fault looks like this: is this normal?'
    """
    way = "higher" if off > 0 else "lower"
    if abs(off) == MOST_IN_ALL:
        return FOLLOWED.format(source=tag, peak=number(off), since=since)
    return f"{tag} lies {abs(off):.1f} spreads {way} since {since}: is this normal?"
