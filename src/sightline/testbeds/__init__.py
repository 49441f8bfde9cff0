"""Plants to learn from: SWaT, WADI, HAI, BATADAL, SKAB, simulated ones, your own.

==============================  ====================================================
`base`                          what a testbed is made of, what a reader must offer,
                                the attack lists that ship with the package
`csv_reader`, `open_release`    from a folder to parsed files of one release
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
package with `simulate`, `read_scenario` and `write_simulation`, and list it there.
"""

import inspect
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from sightline import plugins
from sightline.data.downsampling import (
    TrainDecimals,
    train_rounded_like,
    without_shared_time,
)
from sightline.data.downsampling import preset as preset_named
from sightline.errors import FileError, StreamError
from sightline.plugins import Registry
from sightline.progress import Progress, Step, StepKind, silent
from sightline.testbeds.base import LabelSource, Reader, Testbed, TestbedCard, card_of
from sightline.testbeds.open_release import open_parts
from sightline.testbeds.own_plant import read_folder
from sightline.text import names

if TYPE_CHECKING:
    from sightline.testbeds.twin.simulation import Simulation

__all__ = [
    "READERS",
    "SIMULATED",
    "WATERWORKS",
    "Testbed",
    "TestbedCard",
    "list_testbeds",
    "open_testbed",
    "simulation_of",
    "simulator",
]


def _reader(name: str, kind: Any) -> Reader:
    """Return the reader that a package registers; `TypeError` if it is none."""
    reader: Reader = kind()
    if not isinstance(reader.card, TestbedCard) or reader.card.name != name:
        raise TypeError(f"it has no card of {name!r}")
    return reader


def _simulated_plant(name: str, plant: ModuleType) -> ModuleType:
    """Return the module of a simulated plant; `TypeError` if it is none."""
    if name not in plugins.OURS[plugins.TESTBEDS]:
        if not isinstance(plant.card, TestbedCard) or plant.card.name != name:
            raise TypeError(f"it has no card of {name!r}")
    if not callable(plant.simulate):
        raise TypeError("its `simulate` is no function")
    return plant


# A class reads files, a module simulates.
READERS = Registry(plugins.TESTBEDS, _reader, lambda entry: ":" in entry.value)
SIMULATED = Registry(
    plugins.TESTBEDS, _simulated_plant, lambda entry: ":" not in entry.value
)
WATERWORKS = card_of("waterworks")


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
        Takes a `Step` for each file, or for each stretch of a simulation.
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
    if labels is not None and labels not in tuple(LabelSource):
        raise StreamError(
            f"`labels` must be one of {', '.join(LabelSource)}; got {labels!r}."
        )
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
        Takes a `Step` for each stretch of the simulation.

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
    checks: list[tuple[str, Any, str]] = [
        ("quick", bool, "true or false"),
        ("recovery_labels", bool, "true or false"),
    ]
    if "scenario" in known:
        wanted = "a scenario or the path of its table"
        checks.insert(0, ("scenario", plant.Scenario, wanted))
    if "drift" in known:
        checks.append(("drift", plant.Drift, "a drift such as 'mild'"))
    for option, kind, wanted in checks:
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
