"""Plants to learn from: SWaT, WADI, HAI, BATADAL, SKAB, simulated ones, your own.

==============================  ====================================================
`base`                          what a testbed is made of, what a reader must offer,
                                the attack lists that ship with the package
`csv_reader`                    from a folder to files, and from a file to numbers
`copies`                        Parquet copies of parsed files, and where they are
`swat`, `wadi`, `hai`,          one reader for each published testbed
`batadal`, `skab`
`own_plant`                     a folder with exports of your historian
`waterworks`, `tep`, `network`  the simulated plants
`twin`                          what simulated plants share: attacks, twins, truth
==============================  ====================================================

To add a testbed: write a module with a `Reader`, list it in `sightline.plugins` and in
the entry points of pyproject.toml, and put its card into ``cards.toml``, its tags into
``tags.csv`` and its attack list into ``attack_lists/``. A simulated one: write a
module with `simulate`, `read_scenario` and `write_simulation`, and list it there.
"""

import inspect
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from sightline import plugins
from sightline.data.arrays import ATTACK, check_choice
from sightline.data.downsampling import (
    TrainDecimals,
    train_rounded_like,
    without_shared_time,
)
from sightline.data.downsampling import preset as preset_named
from sightline.data.segments import run_bounds
from sightline.errors import FileError, SightlineError, StreamError
from sightline.plugins import Registry
from sightline.progress import Progress, Step, StepKind, silent
from sightline.testbeds.base import (
    MOST_NAMES,
    LabelSource,
    ParsedPart,
    Reader,
    ReleasePart,
    Testbed,
    TestbedCard,
    card_of,
)
from sightline.testbeds.copies import Copies
from sightline.testbeds.csv_reader import SourceFile, find_files
from sightline.testbeds.own_plant import read_folder
from sightline.text import did_you_mean, names

if TYPE_CHECKING:
    from sightline.testbeds.twin.simulation import Simulation

__all__ = [
    "READERS",
    "SIMULATED",
    "Testbed",
    "TestbedCard",
    "list_testbeds",
    "open_testbed",
    "simulation_of",
    "simulator",
]


def _with_card(name: str, testbed: Any) -> Any:
    """Return what a package registers; `TypeError` if it has no card of that name."""
    if not isinstance(testbed.card, TestbedCard) or testbed.card.name != name:
        raise TypeError(f"it has no card of {name!r}")
    return testbed


def _simulated_plant(name: str, plant: Any) -> ModuleType:
    """Return the module of a simulated plant; `TypeError` if it is none."""
    if name not in plugins.OURS[plugins.TESTBEDS]:
        _with_card(name, plant)
    if not callable(plant.simulate):
        raise TypeError("its `simulate` is no function")
    return plant  # type: ignore[no-any-return]


# A class reads files, a module simulates.
READERS: Registry[Reader] = Registry(
    plugins.TESTBEDS,
    lambda name, kind: _with_card(name, kind()),
    lambda entry: ":" in entry.value,
)
SIMULATED = Registry(
    plugins.TESTBEDS, _simulated_plant, lambda entry: ":" not in entry.value
)


def list_testbeds() -> tuple[TestbedCard, ...]:
    """Return the cards of all testbeds, those of other packages last.

    A testbed of another package that cannot be imported is left out; asked for by name,
    it says why.

    Returns
    -------
    tuple of TestbedCard
        What each is, its releases, its licence, and where to get it.

    Examples
    --------
    >>> [card.name for card in list_testbeds()]
    ['swat', 'wadi', 'hai', 'batadal', 'skab', 'waterworks', 'tep', 'network']
    """
    others = (*READERS.others()[0].values(), *SIMULATED.others()[0].values())
    return (
        *(card_of(name) for name in plugins.OURS[plugins.TESTBEDS]),
        *(testbed.card for testbed in others),
    )


def open_testbed(
    name: str | Path,
    root: str | Path | None = None,
    *,
    release: str | None = None,
    labels: str | None = None,
    preset: str = "raw",
    trim_s: float | None = None,
    every: int | None = None,
    sampling: str | None = None,
    label_rule: str | None = None,
    across_breaks: bool | None = None,
    train_decimals: str | None = None,
    cut_leak: bool = False,
    strict: bool = True,
    cache: bool = True,
    progress: Progress | None = None,
    **simulation: Any,
) -> Testbed:
    """Read a testbed from its original files, or simulate one.

    Parameters
    ----------
    name : str or path
        ``"swat"``, ``"wadi"``, ``"hai"``, ``"batadal"`` or ``"skab"``, optionally with
        the release after a dash (``"hai-22.04"``); ``"waterworks"``, ``"tep"`` or
        ``"network"``, which are simulated; or a folder with your own plant
        (docs/own-plant.md).
    root : path, optional
        Folder with the files, at any depth. Published testbeds need it.
    release : str, optional
        Which edition; by default the first of the testbed's card that is complete.
    labels : {"built-in", "list", "adjusted"}, optional
        The source of the labels: the label column, the published attack list, or times
        corrected by looking at the readings. By default the column, if there is one.
    preset : {"raw", "gdn", "nsibf", "tranad", "geco"}
        A paper's convention for the five options that follow; each of them, if given,
        replaces the preset's value.
    trim_s, every, sampling, label_rule, across_breaks : optional
        See `sightline.data.downsampling.Preparation`.
    train_decimals : {"as-test", "raw"}, optional
        Round train to the decimals of test, where test has fewer, or read it as it is.
        By default BATADAL is rounded, plant.toml decides about your own plant, and all
        others are read as they are.
    cut_leak : bool
        Remove the rows of train whose time stamps occur in test.
    strict : bool
        Refuse files whose counts are not those of the release; if False, report the
        differences in `Testbed.notices`.
    cache : bool
        Keep a Parquet copy of each file, which is read faster next time, below `root`
        or the folder that the environment variable ``SIGHTLINE_CACHE`` names (``off``:
        none). `Testbed.copies` says what was written.
    progress : callable, optional
        Takes a `Step` for each file, or for each part of a simulation.
    **simulation : optional
        For a simulated plant: the arguments of its `simulate`, such as ``seed``;
        `drift` may be given as text, `scenario` as the path of a file.

    Returns
    -------
    Testbed
        Recordings `train` and `test`, and `notices` about everything that was done.

    Raises
    ------
    FileError
        If files are missing, damaged, or not those of the release.
    StreamError
        If an option is unknown, or does not apply to this testbed.

    Examples
    --------
    >>> testbed = open_testbed("waterworks", days_train=0.02, days_test=0.02, every=10)
    >>> testbed.train.values.shape, testbed.train.step_s
    ((172, 51), 10.0)
    >>> testbed.notices[0][:24]
    'Each row is made of 10 r'
    """
    progress = progress or silent
    if train_decimals not in (None, *TrainDecimals):
        raise StreamError(
            f"`train_decimals` must be {' or '.join(TrainDecimals)}; "
            f"got {train_decimals!r}."
        )
    decimals = TrainDecimals(train_decimals) if train_decimals else None
    if name in SIMULATED and root is None:
        testbed = _simulated(str(name), simulation, progress)
    elif simulation:
        raise StreamError(
            f"`open_testbed` has no option {next(iter(simulation))!r} for {name}."
        )
    elif (source := reader_of(name, root, release)) is None:
        for option, value in (("release", release), ("labels", labels)):
            if value is not None:
                raise StreamError(
                    f"`{option}` is an option of published testbeds; {name} is a "
                    "folder with your own plant and has no such choice."
                )
        from sightline.testbeds.twin.folder_writer import read_truth

        plant = read_folder(name, train_decimals=decimals, progress=progress)
        testbed = replace(plant, truth=read_truth(name))
    else:
        testbed = _read(
            *source, labels=labels, strict=strict, cache=cache, progress=progress
        )
        decimals = decimals or source[0].train_decimals
    known = next((card for card in list_testbeds() if card.name == testbed.name), None)
    if known is not None and known.label_slop_s is not None:
        slop = replace(testbed.test, label_slop_s=known.label_slop_s)
        testbed = replace(testbed, test=slop)
    if decimals is TrainDecimals.AS_TEST:
        train, rounding = train_rounded_like(testbed.train, testbed.test)
        for notice in rounding:
            # It changes every figure: say it on the terminal too.
            progress(Step(StepKind.NOTICE, detail=notice))
        testbed = replace(testbed, train=train, notices=(*testbed.notices, *rounding))
    preparation = preset_named(preset, testbed.name).with_options(
        trim_s=trim_s,
        every=every,
        sampling=sampling,
        label_rule=label_rule,
        across_breaks=across_breaks,
    )
    train, notices = testbed.train, list(testbed.notices)
    if cut_leak:
        train = without_shared_time(train, testbed.test)
        notices.append(
            f"{testbed.train.n_steps - train.n_steps:,} rows of train were left out, "
            "because their time stamps occur in test."
        )
    return replace(
        testbed,
        train=preparation.train(train),
        test=preparation.test(testbed.test),
        notices=(*notices, *preparation.notices()),
    )


def reader_of(
    name: str | Path, root: str | Path | None, release: str | None
) -> tuple[Reader, str | Path, str | None] | None:
    """Return the reader of a testbed, its folder and release; None for a plain folder.

    A folder of that name wins over a testbed if no `root` is given.

    Raises
    ------
    FileError
        If there is no such testbed, or its `root` is missing.
    """
    text = str(name)
    chosen, _, edition = text.partition("-")
    chosen = chosen.lower()
    reader = READERS[chosen] if chosen in READERS else None
    # `Path` asks the system in a way that fails for a name that is too long.
    if root is None and os.path.isdir(text):
        return None
    if text in SIMULATED:
        raise FileError(
            f"{text} has no files of its own: run `sightline simulate {text} --out "
            "DIR` and name DIR instead."
        )
    if reader is None and os.path.isfile(text):
        raise FileError(
            f"{text}: is a file, and a plant is a folder: `sightline start {text}` "
            "makes one of it."
        )
    if reader is None:
        raise FileError(
            f"There is no testbed and no folder called {text!r}; "
            f"testbeds are {names([*READERS, *SIMULATED])}."
        )
    if root is None:
        raise FileError(
            f"{reader.card.title} is read from files; say where they are with root "
            f"(--root): {reader.card.where}"
        )
    return reader, root, release or edition or None


def _read(
    reader: Reader,
    root: str | Path,
    release: str | None,
    *,
    labels: str | None,
    strict: bool,
    cache: bool,
    progress: Progress,
) -> Testbed:
    """Return a published testbed from its files.

    Parameters
    ----------
    reader, root, release
        What `reader_of` returned.
    labels : str, optional
        A `LabelSource`; else the reader's default.
    strict : bool
        Refuse files that differ from the release; else report it as notices.
    cache, progress
        As for `open_testbed`.
    """
    if labels is not None:
        check_choice("labels", labels, LabelSource)
    opened = open_parts(
        reader, root, release=release, use_cache=cache, progress=progress
    )
    if strict and opened.departures:
        raise FileError(opened.departures[0])
    assembled = reader.assemble(
        opened.release,
        opened.parts,
        labels=LabelSource(labels or reader.default_labels(opened.release)),
    )
    if strict and assembled.departures:
        raise FileError(assembled.departures[0])
    return Testbed(
        name=reader.card.name,
        release=opened.release,
        train=assembled.train,
        test=assembled.test,
        notices=(
            *opened.notices,
            *opened.departures,
            *assembled.notices,
            *assembled.departures,
        ),
        digests={read.part.file.place: read.part.file.sha256 for read in opened.parts},
        n_shared=assembled.n_shared,
        copies=opened.copies,
    )


def simulator(name: str) -> ModuleType:
    """Return the package of a simulated plant.

    Raises
    ------
    FileError
        If there is no simulated plant of that name.
    """
    if name not in SIMULATED:
        raise FileError(
            f"There is no simulated plant called {name!r}; there are "
            f"{names(list(SIMULATED))}."
        )
    return SIMULATED[name]


def simulation_of(
    name: str, options: Mapping[str, Any], progress: Progress = silent
) -> "Simulation":
    """Simulate a plant; drift may come as text, the scenario as a path.

    Parameters
    ----------
    name : str
        The plant.
    options : mapping
        Arguments of its `simulate`.
    progress : callable, optional
        Takes a `Step` for each part of the simulation.

    Raises
    ------
    StreamError
        If the plant has no such option, or its value is impossible.
    """
    plant = simulator(name)
    known = inspect.signature(plant.simulate).parameters
    options = dict(options)
    for option in options:
        if option not in known or option == "progress":
            raise StreamError(f"`open_testbed` has no option {option!r} for {name}.")
    if isinstance(options.get("drift"), str):
        options["drift"] = plant.Drift.of(options["drift"])
    if isinstance(options.get("scenario"), str | Path):
        where = {key: options[key] for key in ("network",) if key in options}
        options["scenario"] = plant.read_scenario(options["scenario"], **where)
    checks: dict[str, tuple[type, str]] = dict.fromkeys(
        ("quick", "recovery_labels"), (bool, "true or false")
    )
    if "scenario" in known:
        wanted = "a scenario or the path of its table"
        checks["scenario"] = (plant.Scenario, wanted)
    if "drift" in known:
        checks["drift"] = (plant.Drift, "a drift such as 'mild'")
    for option, (kind, wanted) in checks.items():
        value = options.get(option)
        if value is not None and not isinstance(value, kind):
            raise StreamError(f"`{option}` must be {wanted}; got {value!r}.")
    made: Simulation = plant.simulate(progress=progress, **options)
    return made


def _simulated(name: str, options: Mapping[str, Any], progress: Progress) -> Testbed:
    """Return a simulation as a testbed."""
    made: Simulation | Testbed = simulation_of(name, options, progress)
    if isinstance(made, Testbed):  # Plants of other packages may return one.
        return made
    return Testbed(
        name=name,
        release=made.release,
        train=made.train,
        test=made.test,
        truth=tuple(attack.known for attack in made.truth),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Opened:
    """The parts of one release, parsed.

    Parameters
    ----------
    release : str
        The release that was chosen.
    parts : tuple of ParsedPart
        In the order of `Reader.needed`.
    notices : tuple of str
        What was chosen or left out on the way.
    departures : tuple of str
        How the files differ from the counts the release is known to have.
    copies : str
        A sentence about the Parquet copies that were written; empty if none was.
    """

    release: str
    parts: tuple[ParsedPart, ...]
    notices: tuple[str, ...]
    departures: tuple[str, ...]
    copies: str = ""


def open_parts(
    reader: Reader,
    root: str | Path,
    *,
    release: str | None,
    use_cache: bool,
    progress: Progress = silent,
) -> Opened:
    """Find a testbed's files below a folder, choose the release and read them.

    Parameters
    ----------
    reader : Reader
        The testbed.
    root : path
        Any folder above the files.
    release : str, optional
        The wanted release; else the first of the card that is complete.
    use_cache : bool
        Read from Parquet copies, and write them where there are none.
    progress : callable
        Takes a `Step` for each part, and one about copies that were written.

    Raises
    ------
    FileError
        If a part is missing, damaged, or only a Git LFS pointer.
    """
    folder = Path(root).expanduser()
    files = find_files(folder)
    recognised = _recognised(reader, files)
    complete = _complete(reader, recognised)
    notices = []
    chosen = release
    if release is not None:
        by_name = {known.lower(): known for known in reader.card.releases}
        if (chosen := by_name.get(release.lower())) is None:
            raise FileError(
                f"{reader.card.title} has no release {release!r}; "
                f"{did_you_mean(release, reader.card.releases)}"
            )
    elif complete:
        chosen = complete[0]
        if len(complete) > 1:
            notices.append(
                f"The folder holds the releases {names(complete)}; {chosen} was read: "
                f"choose another with release={complete[1]!r}."
            )
    if chosen is None or chosen not in complete:
        raise _incomplete(reader, folder, files, recognised, chosen)
    needed = reader.needed(chosen)
    copies = Copies(folder, use_cache=use_cache)
    parts = []
    for done, name in enumerate(needed):
        progress(Step(StepKind.READING, done, len(needed), name))
        part, *twins = [
            p for p in recognised if p.name == name and chosen in p.releases
        ]
        if twins:
            others = [twin.file.place for twin in twins]
            notices.append(
                f"{name} was read from {part.file.place}; also found, and not read: "
                f"{names(others, MOST_NAMES)}."
            )
        parsed = copies.parsed(part.file, partial(reader.parse, part))
        notices.extend(parsed.notices)
        parts.append(ParsedPart(part=part, parsed=parsed))
    if announcement := copies.finish():
        progress(Step(StepKind.NOTICE, detail=announcement))
    return Opened(
        release=chosen,
        parts=tuple(parts),
        notices=tuple(notices),
        departures=tuple(text for part in parts for text in _departures(part)),
        copies=announcement,
    )


def found_releases(reader: Reader, files: Sequence[SourceFile]) -> list[str]:
    """Return the releases of which every part is among some files."""
    return _complete(reader, _recognised(reader, files))


def _complete(reader: Reader, parts: Sequence[ReleasePart]) -> list[str]:
    """Return the releases of which no part is missing, in the order of the card."""
    return [r for r in reader.card.releases if not _missing(reader, parts, r)]


def _recognised(reader: Reader, files: Sequence[SourceFile]) -> list[ReleasePart]:
    """Return the parts among files, in the order of the files.

    Excel files are opened only if no release is complete without them. Git LFS pointers
    are never parts.
    """
    parts: list[ReleasePart] = []
    for is_excel in (False, True):
        if is_excel and _complete(reader, parts):
            break
        candidates = [f for f in files if f.is_excel == is_excel and not f.is_pointer]
        parts += filter(None, map(reader.recognise, candidates))
    return parts


def _missing(reader: Reader, parts: Sequence[ReleasePart], release: str) -> list[str]:
    """Return the names of the parts that a release lacks."""
    have = {part.name for part in parts if release in part.releases}
    return [name for name in reader.needed(release) if name not in have]


def _incomplete(
    reader: Reader,
    folder: Path,
    files: Sequence[SourceFile],
    parts: Sequence[ReleasePart],
    wanted: str | None,
) -> FileError:
    """Return the error for a release with missing parts.

    The message gives the most likely cause: a known damaged copy, an Excel file that
    cannot be opened, a Git LFS pointer, or else simply the names of the missing parts.
    If no release is wanted, that of which the largest share is present is the likely
    one.
    """
    card = reader.card
    release = wanted or min(
        card.releases,
        key=lambda r: len(_missing(reader, parts, r)) / len(reader.needed(r)),
    )
    missing = names(_missing(reader, parts, release), MOST_NAMES)
    damaged = [part for part in parts if not part.releases]
    if damaged:
        return FileError(f"{damaged[0].file.path}: is {damaged[0].name}")
    for file in files:
        if file.is_excel:
            try:
                _ = file.frame
            except SightlineError as error:  # it may have been the missing one
                return FileError(str(error))
    pointers = [file.place for file in files if file.is_pointer]
    present = [part.file.place for part in parts if release in part.releases]
    what = f"{card.title} {release}" if len(card.releases) > 1 else card.title
    if pointers:
        return FileError(
            f"{folder}: {names(pointers, MOST_NAMES)} holds a Git LFS pointer of some "
            f"130 bytes and not the data; {what} needs {missing}: run `git lfs pull` "
            "in that folder, or download the files themselves."
        )
    has = (
        f"has {names(present, MOST_NAMES)} but not"
        if present
        else "has no file that is"
    )
    return FileError(
        f"{folder}: {has} {missing} of {what}; found "
        f"{len(files)} CSV and Excel files in all: {card.where}"
    )


def _departures(read: ParsedPart) -> list[str]:
    """Return how a file differs from its expected counts, a sentence each.

    Compared are rows and, if the file has labels, attack rows and attack runs; counts
    that are unknown are not compared.
    """
    expected, parsed, path = read.part.expected, read.parsed, read.part.file.path
    texts, n_rows = [], len(parsed.values)
    if expected.rows is not None and n_rows != expected.rows:
        is_short = n_rows < expected.rows
        likely = "it seems cut short" if is_short else "it is another edition"
        texts.append(
            f"{path}: has {n_rows:,} rows where {read.part.name} has "
            f"{expected.rows:,}; {likely}: copy it again from its source, or read it "
            "as it is with strict=False."
        )
    counts = []
    if parsed.labels is not None:
        is_attack = parsed.labels == ATTACK
        counts += [("attack rows", int(is_attack.sum()), expected.attack_rows)]
        n_runs = len(run_bounds(is_attack)[0])
        counts += [("attack runs", n_runs, expected.attack_runs)]
    return texts + [
        f"{path}: labels {count:,} {what} where {read.part.name} has {known:,}: its "
        "labels were changed; copy it again from its source, or read it as it is with "
        "strict=False."
        for what, count, known in counts
        if known is not None and count != known
    ]
