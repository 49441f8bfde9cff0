"""Tags of words as numbers: the same map for train and test, announced once."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sightline.errors import FileError
from sightline.tables.cells import is_missing, word_numbers, words_in_text
from sightline.testbeds.base import MOST_NAMES
from sightline.testbeds.own_plant.tables import Source
from sightline.text import names


@dataclass(frozen=True)
class States:
    """How words are read.

    Parameters
    ----------
    numbers : mapping
        For each tag of words, the number of each word in lower case.
    texts : mapping of str to str
        The same in words, such as ``"CLOSED = 0, OPEN = 1"``.
    """

    numbers: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)

    def notices(self) -> list[str]:
        """Return one sentence about all tags of words; nothing if there are none."""
        by_text: dict[str, list[str]] = defaultdict(list)
        for tag, text in self.texts.items():
            by_text[text].append(tag)
        said = [
            f"{text} in {names(tags, MOST_NAMES)}" for text, tags in by_text.items()
        ]
        return [f"Words were read as numbers: {'; '.join(said)}."] if said else []


def leave_out_empty(sources: Sequence[Source]) -> list[str]:
    """Leave out columns that are empty in all wide tables; return a notice about them.

    A column that is empty in one table only stays, and is refused when it is read.
    """
    if any(source.columns.tag is not None for source in sources):
        return []
    empty = set.intersection(
        *(
            {
                tag
                for tag in source.columns.tags
                if source.table.frame[tag].null_count() == len(source.time)
            }
            for source in sources
        )
    )
    if not empty or any(empty >= {*source.columns.tags} for source in sources):
        return []
    for source in sources:
        kept = tuple(tag for tag in source.columns.tags if tag not in empty)
        source.columns = replace(source.columns, tags=kept)
    return [f"{names(sorted(empty), MOST_NAMES)} is empty in all tables: left out."]


@dataclass
class _Content:
    """What one tag holds in one table."""

    place: str
    n_numbers: int
    words: Counter[str]


def states_of(sources: Sequence[Source]) -> States:
    """Return how the words of some tables are read, all tables together.

    A tag is one of words if it holds no number and at most twelve different words in
    all tables; words that say "no value" do not count.

    Raises
    ------
    FileError
        If a tag holds words in one table and numbers in another, or two words or more
        in each table and none in both, as ON and OFF against OPEN and CLOSED.
    """
    contents: dict[str, list[_Content]] = defaultdict(list)
    for source in sources:
        for tag, content in _contents(source).items():
            contents[tag].append(content)
    numbers: dict[str, Mapping[str, int]] = {}
    texts: dict[str, str] = {}
    for tag, parts in contents.items():
        words: Counter[str] = sum((part.words for part in parts), Counter())
        n_numbers = sum(part.n_numbers for part in parts)
        mapped = word_numbers(words)
        if mapped is None:
            continue
        if not n_numbers:
            _check_same_words(tag, parts, sources[0].path.parent)
            numbers[tag] = mapped
            texts[tag] = words_in_text(mapped, words)
            continue
        only_words = [p for p in parts if p.words and not p.n_numbers]
        if only_words:
            others = [p.place for p in parts if p.n_numbers]
            raise FileError(
                f"{sources[0].path.parent}: tag {tag!r} holds words such as "
                f"{min(only_words[0].words)!r} in {only_words[0].place} and "
                f"numbers in {others[0]}: export both in one form, or give it the role "
                "ignore in tags.csv."
            )
    return States(numbers, texts)


def _check_same_words(tag: str, parts: Sequence[_Content], folder: Path) -> None:
    """Refuse two tables that call the states of a tag by other words."""
    spoken = [{word.lower() for word in part.words} for part in parts]
    if (
        len(spoken) == 2
        and min(map(len, spoken)) > 1
        and spoken[0].isdisjoint(spoken[1])
    ):
        said = [f"{names(sorted(p.words), 3)} in {p.place}" for p in parts]
        raise FileError(
            f"{folder}: tag {tag!r} has other words in each table, "
            f"{' but '.join(said)}: write the states of both tables with the "
            "same words, or give it the role ignore in tags.csv."
        )


def _contents(source: Source) -> dict[str, _Content]:
    """Return how many numbers and which words each tag of text holds."""
    import polars as pl

    frame, columns = source.table.frame, source.columns
    if columns.tag is None:
        return {
            tag: _Content(
                source.place,
                _n_numbers(source, tag),
                _counted(source.cells[tag].words) if tag in source.cells else Counter(),
            )
            for tag in columns.tags
        }
    value = columns.values[0]
    cells, tags = source.cells.get(value), frame[columns.tag]
    is_number = (frame[value] if cells is None else cells.numbers).is_not_null()
    n_numbers = dict(
        pl.DataFrame({"t": tags, "n": is_number.cast(pl.Int64)})
        .group_by("t")
        .agg(pl.col("n").sum())
        .sort("t")
        .rows()
    )
    words: dict[str, Counter[str]] = defaultdict(Counter)
    if cells is None:
        return {
            tag: _Content(source.place, n, words[tag]) for tag, n in n_numbers.items()
        }
    stated = pl.DataFrame({"t": tags, "w": cells.words}).filter(
        cells.words.is_not_null() & ~is_missing(cells.words)
    )
    for tag, word, count in sorted(stated.group_by(["t", "w"]).len().rows()):
        words[tag][word] = count
    return {
        tag: _Content(source.place, n, words[tag])
        for tag, n in n_numbers.items()
        if tag not in source.ignored
    }


def _n_numbers(source: Source, tag: str) -> int:
    column: Any = source.table.frame[tag]
    if tag in source.cells:
        column = source.cells[tag].numbers
    return int(len(column) - column.null_count())


def _counted(words: Any) -> Counter[str]:
    """Return the words of a column that are states, with their counts."""
    stated = words.filter(words.is_not_null() & ~is_missing(words))
    return Counter(dict(sorted(stated.value_counts().rows())))
