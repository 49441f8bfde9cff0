"""What a testbed is made of: its card, its recordings, and what a reader must offer."""

import csv
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields
from enum import StrEnum
from functools import cache, partial
from importlib.resources import files
from typing import Any, Protocol, TypeVar, get_args, get_type_hints

import msgspec
import numpy as np

from sightline.data.arrays import (
    ATTACK,
    IGNORED,
    NORMAL,
    Floats,
    Ints,
    Labels,
)
from sightline.data.downsampling import TrainDecimals
from sightline.data.recording import Recording, Role, Tag, seconds
from sightline.data.segments import (
    Attack,
    AttackOutcome,
    KnownEffect,
    ListedAttack,
    Span,
    breaks_from_time,
)
from sightline.data.validity import Mode
from sightline.errors import FileError, StreamError
from sightline.showing import Shown
from sightline.testbeds import csv_reader
from sightline.text import did_you_mean, names, plural

# How many seconds a reading stays valid when no other follows it.
HOLD_S = 60.0
# How many names a sentence lists before it counts the rest.
MOST_NAMES = 4
Record = TypeVar("Record")
BreaksOf = Callable[[Floats], Ints]


class LabelSource(StrEnum):
    """Where the labels of a testbed come from.

    ``BUILT_IN``
        The label column or label files of the release.
    ``LIST``
        The attack list that the owners published.
    ``ADJUSTED``
        Attack times that a later study corrected by looking at the readings.
    """

    BUILT_IN = "built-in"
    LIST = "list"
    ADJUSTED = "adjusted"


@dataclass(frozen=True, kw_only=True)
class TestbedCard:
    """What a testbed is, and where to get it.

    Parameters
    ----------
    name, title : str
        The name for `open_testbed`, and the name for people.
    what : str
        One line: kind of plant, length, step, date.
    channels, attacks : str
        How many there are; text, because releases differ.
    licence : str
        Under which terms the files are given away.
    where : str
        What to download or whom to ask.
    step_s : float
        Seconds a row, as measured.
    label_slop_s : float, optional
        Seconds by which its labels may begin late or end early; by default 60.
    releases : tuple of str
        Editions of the files, the one that is read by default first; empty if the
        testbed is not read from files.
    extra : str
        The extra of this package that a simulated testbed needs; empty if none.
    """

    name: str
    title: str
    what: str
    channels: str
    attacks: str
    licence: str
    where: str
    step_s: float = 1.0
    label_slop_s: float | None = None
    releases: tuple[str, ...] = ()
    extra: str = ""

    # Not a test class, whatever pytest thinks of its name.
    __test__ = False


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Testbed(Shown):
    """One testbed as read: two recordings and a record of everything done to them.

    Parameters
    ----------
    name, release : str
        Which plant and which edition of its files, such as ``"wadi"``, ``"A1"``.
    train, test : Recording
        Attack-free rows to learn from; rows with attacks to evaluate on.
    notices : tuple of str
        One sentence for everything left out, held, filled or chosen, and for known
        errors of the files that were not corrected.
    digests : mapping
        SHA-256 of each file read, by its path below the root: the data's revision.
    incidents : tuple of ListedAttack
        All incidents that a plant of the user lists, also those in train, in a gap, or
        outside of both tables.
    n_shared : int
        How many rows of train the release itself repeats in test.
    accepts : tuple of str, optional
        Codes of audit findings that the owner of a plant accepts, so that `run` and
        `study` do not refuse it; None for a testbed that they never refuse.
    copies : str
        A sentence about Parquet copies that were written on this machine while the
        files were read, with place and size; empty if none was. It says nothing about
        the data.
    words : mapping
        For each tag of words how they were read, such as ``"CLOSED = 0, OPEN = 1"``.
    holds : mapping of str to float
        Seconds for which a reading of a tag is held, where they are not the default.
    mode : Mode, optional
        When the plant runs, if it says so.
    date_order : {"", "day", "month"}
        Which number comes first in dates of its exports, where that is known.
    truth : tuple of KnownEffect
        What each attack does to the recorded values; empty unless it is simulated.

    Examples
    --------
    >>> from sightline import open_testbed
    >>> testbed = open_testbed("waterworks", days_train=0.02, days_test=0.02)
    >>> testbed.revision, testbed.train.n_steps, len(testbed.test.channels)
    ('waterworks-seed1', 1728, 51)
    """

    name: str
    release: str
    train: Recording
    test: Recording
    notices: tuple[str, ...] = ()
    digests: dict[str, str] = field(default_factory=dict)
    incidents: tuple[ListedAttack, ...] = ()
    n_shared: int = 0
    accepts: tuple[str, ...] | None = None
    copies: str = ""
    words: dict[str, str] = field(default_factory=dict)
    holds: Mapping[str, float] = field(default_factory=dict)
    mode: Mode | None = None
    date_order: str = ""
    truth: tuple[KnownEffect, ...] = ()

    __test__ = False

    @property
    def revision(self) -> str:
        """Name and release in one word, such as ``"wadi-A1"``."""
        return f"{self.name}-{self.release}" if self.release else self.name

    def _line(self) -> str:
        return (
            f"{self.revision!r}: {plural(len(self.train.tags), 'channel')}, "
            f"{plural(self.train.n_steps, 'train step')}, "
            f"{plural(self.test.n_steps, 'test step')}, "
            f"{plural(len(self.test.attacks), 'attack')}"
        )


@dataclass(frozen=True, kw_only=True)
class Expected:
    """The counts that a published file is known to have; None where unknown.

    Parameters
    ----------
    rows : int, optional
        Rows of data.
    attack_rows, attack_runs : int, optional
        Rows labelled as attacks, and the number of runs they form.
    gaps : int, optional
        Interruptions of the time stamps.
    """

    rows: int | None = None
    attack_rows: int | None = None
    attack_runs: int | None = None
    gaps: int | None = None


@dataclass(frozen=True, eq=False)
class ReleasePart:
    """A file that was recognised as one part of a testbed.

    Parameters
    ----------
    name : str
        The part's name in the release, such as ``"Normal_v0"``.
    releases : tuple of str
        The releases it belongs to; empty for a known damaged copy.
    file, layout
        The file, and where its columns are.
    expected : Expected
        The counts it must have.
    """

    name: str
    releases: tuple[str, ...]
    file: csv_reader.SourceFile
    layout: csv_reader.Layout
    expected: Expected


@dataclass(frozen=True, kw_only=True, eq=False)
class ParsedPart:
    """A part and its content."""

    part: ReleasePart
    parsed: csv_reader.ParsedFile


# Files of one release, in the order of `Reader.needed`.
Parts = Sequence[ParsedPart]


@dataclass(frozen=True, kw_only=True, eq=False)
class Assembled:
    """The two recordings made of parsed parts.

    Parameters
    ----------
    train, test : Recording
        What `Testbed` will hold.
    notices : tuple of str
        What the user should know, one sentence each.
    departures : tuple of str
        Ways in which the files differ from the release; `open_testbed` refuses them
        unless it is called with ``strict=False``.
    n_shared : int
        How many rows of train the release itself repeats in test.
    """

    train: Recording
    test: Recording
    notices: tuple[str, ...] = ()
    departures: tuple[str, ...] = ()
    n_shared: int = 0


class Reader(Protocol):
    """What the module of one testbed offers; everything else is shared."""

    @property
    def card(self) -> TestbedCard:
        """What the testbed is."""

    @property
    def train_decimals(self) -> TrainDecimals:
        """With how many decimals train is read when the caller does not say."""
        return TrainDecimals.RAW

    def recognise(self, file: csv_reader.SourceFile) -> ReleasePart | None:
        """Return which part a file is, by its first lines; None if it is none."""

    def needed(self, release: str) -> tuple[str, ...]:
        """Return the names of the parts of a release, train before test."""

    def parse(self, part: ReleasePart) -> csv_reader.ParsedFile:
        """Return the content of a part."""

    def default_labels(self, release: str) -> LabelSource:
        """Return the label source that is used when the caller names none."""
        return LabelSource.BUILT_IN

    def assemble(self, release: str, parts: Parts, *, labels: LabelSource) -> Assembled:
        """Return the recordings, labelled by one label source."""


@cache
def shipped_rows(name: str) -> tuple[dict[str, str], ...]:
    """Return the rows of a CSV table that ships with the package, by column name."""
    table = files("sightline.testbeds") / name
    return tuple(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))


def card_of(testbed: str) -> TestbedCard:
    """Return the card of a testbed from ``cards.toml``.

    Examples
    --------
    >>> card_of("swat").releases
    ('v0', 'v1')
    """
    text = (files("sightline.testbeds") / "cards.toml").read_text(encoding="utf-8")
    return record_from({"name": testbed, **tomllib.loads(text)[testbed]}, TestbedCard)


@cache
def tags_of(testbed: str, release: str = "") -> tuple[Tag, ...]:
    """Return the tags of a testbed in the order of its files, from ``tags.csv``.

    Parameters
    ----------
    testbed : str
        Its name.
    release : str
        Needed for HAI alone, whose releases have different tags.

    Examples
    --------
    >>> [tag.name for tag in tags_of("swat")][:3], len(tags_of("hai", "21.03"))
    (['FIT101', 'LIT101', 'MV101'], 79)
    """
    return tuple(
        Tag(
            name=row["tag"],
            role=Role(row["role"]),
            stage=row["stage"] or None,
            unit=row["unit"] or None,
        )
        for row in shipped_rows("tags.csv")
        if (row["testbed"], row["release"]) == (testbed, release)
    )


def recording_of(
    parts: Parts,
    tags: tuple[Tag, ...],
    step_s: float,
    *,
    source: str,
    labels: Labels | None = None,
    attacks: tuple[Attack, ...] = (),
    breaks_of: BreaksOf | None = None,
) -> Recording:
    """Return several files as one recording, one after the other.

    Each file begins a new run, and so does each gap within a file.

    Parameters
    ----------
    parts : sequence of ParsedPart
        At least one.
    tags : tuple of Tag
        The columns of all of them.
    step_s : float
        Seconds between rows.
    source : str
        Where the recording comes from: plant, release, parts.
    labels, attacks
        By the rows of the recording; none by default.
    breaks_of : callable, optional
        First rows of the runs in a file with these times; by default `step_s` decides.
    """
    breaks_of = breaks_of or partial(breaks_from_time, step_s=step_s)
    starts = np.cumsum([0, *(len(p.parsed.values) for p in parts[:-1])])
    breaks = [
        start + breaks_of(p.parsed.time) for start, p in zip(starts, parts, strict=True)
    ]
    values, time = parts[0].parsed.values, parts[0].parsed.time
    if len(parts) > 1:
        values = np.concatenate([p.parsed.values for p in parts])
        time = np.concatenate([p.parsed.time for p in parts])
    return Recording(
        values=values,
        tags=tags,
        labels=labels,
        time=time,
        step_s=step_s,
        breaks=np.concatenate(breaks),
        attacks=attacks,
        source=source,
    )


def assembled(
    train: Parts,
    test: Parts,
    tags: tuple[Tag, ...],
    step_s: float,
    *,
    sources: tuple[str, str],
    labels: Labels,
    attacks: tuple[Attack, ...],
    notices: Sequence[str] = (),
    breaks_of: BreaksOf | None = None,
) -> Assembled:
    """Return train without labels and test with labels and attacks.

    Parameters
    ----------
    train, test : sequence of ParsedPart
        The files of each, in order.
    tags, step_s
        The columns, and seconds between rows.
    sources : (str, str)
        Where train and test come from.
    labels, attacks
        By the rows of test.
    notices : sequence of str
        What the user should know, one sentence each.
    breaks_of
        As for `recording_of`.
    """
    made = partial(recording_of, tags=tags, step_s=step_s, breaks_of=breaks_of)
    return Assembled(
        train=made(train, source=sources[0]),
        test=made(test, source=sources[1], labels=labels, attacks=attacks),
        notices=tuple(notices),
    )


def labels_from(
    values: Floats,
    part: ReleasePart,
    column: str,
    *,
    normal: int = NORMAL,
    attack: int = ATTACK,
    unknown: int | None = None,
) -> Labels:
    """Return a column of codes as labels: 0 normal, 1 attack, -1 ignore.

    Parameters
    ----------
    values : array of shape (n_rows,)
        The codes; nan where the file has none.
    part, column
        Where they were read, for the message.
    normal, attack : int
        The codes of normal and attack rows.
    unknown : int, optional
        The code of rows to ignore.

    Raises
    ------
    FileError
        If a row holds another number; the message names the row.
    """
    codes = (normal, attack) if unknown is None else (normal, attack, unknown)
    is_code = np.isin(values, codes)
    if not is_code.all():
        row = int(np.argmin(is_code))
        raise FileError(
            f"{part.file.path}: column {column!r} must be "
            f"{names(codes).replace(' and ', ' or ')}; data row {row + 1} is "
            f"{values[row]:g}: the file may be cut short or changed; copy it again "
            "from its source."
        )
    labels = np.where(values == attack, ATTACK, NORMAL).astype(np.int8)
    if unknown is not None:
        labels[values == unknown] = IGNORED
    return labels


def parse_table(
    part: ReleasePart,
    channels: tuple[str, ...],
    *,
    time_column: str,
    formats: Sequence[str],
    label_column: str | None = None,
    unknown: int | None = None,
    time_suffix: str = "",
) -> csv_reader.ParsedFile:
    """Return a table of number columns, a column of time stamps and one of labels.

    Parameters
    ----------
    part : ReleasePart
        The file and its layout.
    channels : tuple of str
        Columns to read as values.
    time_column, formats
        The column of time stamps, and the formats it may have.
    label_column : str, optional
        A column of 0 and 1, and of `unknown` where rows are to be ignored.
    time_suffix : str
        Text to append to each time stamp before it is parsed.

    Raises
    ------
    FileError
        If a cell is not what it should be; the message names the row.
    """
    n_channels = len(channels)
    label_columns = [] if label_column is None else [label_column]
    cells = csv_reader.read_cells(
        part.file, part.layout, numbers=[*channels, *label_columns], texts=[time_column]
    )
    labels = None
    if label_column is not None:
        labels = labels_from(cells.values[:, -1], part, label_column, unknown=unknown)
    return csv_reader.ParsedFile(
        channels=channels,
        values=np.ascontiguousarray(cells.values[:, :n_channels]),
        time=csv_reader.seconds_of_text(
            cells.texts[time_column].str.strip_chars() + time_suffix,
            formats,
            file=part.file,
            column=time_column,
        ),
        labels=labels,
    )


def counts_by_channel(counts: Ints, channels: Sequence[str]) -> str:
    """Return the channels with a count above 0, each with its count."""
    return names(
        [f"{channels[k]} ({counts[k]:,})" for k in np.flatnonzero(counts).tolist()],
        MOST_NAMES,
    )


def record_from(
    values: Mapping[str, object], kind: type[Record], *, strict: bool = True
) -> Record:
    """Build a record from a table that a user wrote, and check every value.

    Parameters
    ----------
    values : mapping
        Keys and values of a TOML table or of a row of CSV.
    kind : dataclass
        Its fields say which keys there are and of which type. A field may be annotated
        with ``msgspec.Meta(description=...)``: the words that follow "must be" in the
        message.
    strict : bool
        If False, take numbers that are written as text, as in CSV.

    Raises
    ------
    StreamError
        If a key is unknown or missing, or a value has another type.

    Examples
    --------
    >>> record_from({"rows": 12}, Expected).rows
    12
    >>> record_from({"row": 12}, Expected)
    Traceback (most recent call last):
    sightline.errors.StreamError: has an unknown key 'row'; did you mean 'rows'?
    """
    hints = get_type_hints(kind, include_extras=True)
    for key in values:
        if key not in hints:
            raise StreamError(f"has an unknown key {key!r}; {did_you_mean(key, hints)}")
    known: Any = kind
    missing = [
        f.name
        for f in fields(known)
        if f.default is f.default_factory is MISSING and f.name not in values
    ]
    if missing:
        raise StreamError(f"{', '.join(missing)} is missing: give it.")
    converted = {}
    for key, value in values.items():
        try:
            converted[key] = msgspec.convert(value, hints[key], strict=strict)
        except msgspec.ValidationError as error:
            hint = hints[key]
            metas = [m for t in (hint, *get_args(hint)) for m in get_args(t)[1:]]
            words = [m.description for m in metas if isinstance(m, msgspec.Meta)]
            wanted = words[0] if words else f"valid ({error})"
            raise StreamError(f"{key} must be {wanted}; got {value!r:.40}.") from error
    return kind(**converted)


@contextmanager
def in_file(place: object) -> Iterator[None]:
    """Turn a `StreamError` raised inside into a `FileError` that names the place."""
    try:
        yield
    except StreamError as error:
        raise FileError(f"{place}: {error}") from error


@cache
def attack_table(name: str, *, release: str = "") -> tuple[ListedAttack, ...]:
    """Return the attack list of a testbed.

    Parameters
    ----------
    name : str
        The file's name without ending, such as ``"swat"`` or ``"hai_21.03"``.
    release : str
        Only the lines of that release, where the list has several.

    Examples
    --------
    >>> attack_table("swat")[0].targets
    ('MV101',)
    """
    attacks = []
    for row in shipped_rows(f"attack_lists/{name}.csv"):
        if release and row.get("release") != release:
            continue
        spans: dict[str, Span | None] = {}
        for kind in ("", "label_", "adjusted_"):
            start, end = row.get(f"{kind}start"), row.get(f"{kind}end")
            spans[kind] = (seconds(start), seconds(end)) if start and end else None
        targets = row.get("targets_in_data", row["targets"]).split(";")
        attacks.append(
            ListedAttack(
                id=row["attack_id"],
                listed=None if row["attack_id"].startswith("U") else spans[""],
                labelled=spans["label_"],
                adjusted=spans["adjusted_"],
                targets=tuple(filter(None, targets)),
                note=row.get("note", ""),
                outcome=AttackOutcome(row["outcome"]) if row.get("outcome") else None,
                file=row.get("file", ""),
            )
        )
    return tuple(attacks)
