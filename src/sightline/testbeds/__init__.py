"""Plants one can learn from: SWaT, WADI, HAI, open data, one's own, a simulated one."""

from pathlib import Path
from typing import Any

from sightline.data.downsampling import preset as preparation_of
from sightline.data.downsampling import without_shared_time
from sightline.errors import FileError, StreamError
from sightline.progress import Progress
from sightline.testbeds.base import Testbed, TestbedCard
from sightline.testbeds.batadal import Batadal
from sightline.testbeds.hai import Hai
from sightline.testbeds.open_release import Reader, open_parts
from sightline.testbeds.own_plant.folder import read_folder
from sightline.testbeds.skab import Skab
from sightline.testbeds.swat import Swat
from sightline.testbeds.wadi import Wadi

__all__ = [
    "Testbed",
    "TestbedCard",
    "list_testbeds",
    "open_testbed",
]

LABEL_SOURCES = ("built-in", "list", "adjusted")
READERS: dict[str, Reader] = {
    reader.card.name: reader for reader in (Swat(), Wadi(), Hai(), Batadal(), Skab())
}
WATERWORKS = TestbedCard(
    name="waterworks",
    title="Waterworks",
    what="simulated six-stage water treatment plant in the image of SWaT, 1 s step",
    channels="51",
    attacks="36 and more",
    licence="part of Sightline",
    where="nothing to get: it is simulated.",
)


def list_testbeds() -> tuple[TestbedCard, ...]:
    """Return what there is: the five read from files, and the simulated plant."""
    return (*(reader.card for reader in READERS.values()), WATERWORKS)


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
    cut_leak: bool = False,
    strict: bool = True,
    cache: bool = True,
    progress: Progress | None = None,
    **simulation: Any,
) -> Testbed:
    """Read a testbed from the files as one gets them.

    Parameters
    ----------
    name : str or path
        ``"swat"``, ``"wadi"``, ``"hai"``, ``"batadal"``, ``"skab"``, with the release
        after a dash if need be (``"hai-22.04"``); ``"waterworks"``; or a folder with
        one's own plant.
    root : path, optional
        Folder with the files, at any depth.
    release : str, optional
        Which edition; else the one the evaluation's paper used, if it is there.
    labels : {"built-in", "list", "adjusted"}, optional
        Whom to believe on when attacks ran: the label column, the published list, or
        times adjusted to what the readings show. By default the column, where there
        is one.
    preset : {"raw", "gdn", "nsibf", "tranad", "geco"}
        A paper's convention for what follows; each part of it can be set by itself.
    trim_s, every, sampling, label_rule, across_breaks
        See `sightline.data.downsampling.Preparation`.
    cut_leak : bool
        Leave rows out of train whose time stamps occur in test.
    strict : bool
        Refuse files whose counts are not those of the release; else tell them in
        `notices`.
    cache : bool
        Keep a Parquet copy beside the files, to read faster next time.
    progress : callable, optional
        Told ``(what, done, total)``.
    **simulation
        For ``"waterworks"``: the arguments of `simulate`, such as ``seed``; the drift
        may be given as text, the scenario as a file.

    Raises
    ------
    FileError
        Where files are missing, damaged, or not what they should be.
    """
    is_simulated = name == WATERWORKS.name and root is None
    if simulation and not is_simulated:
        raise StreamError(
            f"`open_testbed` has no option {next(iter(simulation))!r} for {name}."
        )
    found = None if is_simulated else reader_of(name, root, release)
    if is_simulated:
        testbed = _simulated(progress, simulation)
    elif found is None:
        _refuse_for_folder(name, release=release, labels=labels)
        testbed = read_folder(name)
    else:
        reader, folder, edition = found
        testbed = _read(
            reader,
            folder,
            release=edition,
            labels=labels,
            strict=strict,
            cache=cache,
            progress=progress,
        )
    prepared = preparation_of(preset, testbed.name).of(
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
            "for their time stamps occur in test."
        )
    return Testbed(
        name=testbed.name,
        release=testbed.release,
        train=prepared.train(train),
        test=prepared.test(testbed.test),
        notices=(*notices, *prepared.told()),
        digests=testbed.digests,
    )


def reader_of(
    name: str | Path, root: str | Path | None, release: str | None
) -> tuple[Reader, str | Path, str | None] | None:
    """Return whose files to read, where, and which release; None for a plain folder."""
    given = str(name)
    chosen, _, edition = given.partition("-")
    reader = READERS.get(chosen.lower())
    if root is None and Path(given).is_dir():
        return None
    if given == WATERWORKS.name:
        raise FileError(
            f"{given} has no files of its own: run `sightline simulate {given} --out "
            "DIR` and name DIR instead."
        )
    if reader is None:
        raise FileError(
            f"There is no testbed and no folder called {given!r}; testbeds are "
            f"{', '.join([*READERS, WATERWORKS.name])}."
        )
    if root is None:
        raise FileError(
            f"{reader.card.title} is read from files; say where they are with root "
            f"(--root): {reader.card.where}"
        )
    return reader, root, release or edition or None


def _refuse_for_folder(name: str | Path, **options: str | None) -> None:
    """Refuse what one's own plant does not have, rather than pass over it."""
    for option, value in options.items():
        if value is not None:
            raise StreamError(
                f"`{option}` is an option of published testbeds; {name} is a folder "
                "with one's own plant and has no such choice."
            )


def _read(
    reader: Reader,
    root: str | Path,
    *,
    release: str | None,
    labels: str | None,
    strict: bool,
    cache: bool,
    progress: Progress | None,
) -> Testbed:
    if labels is not None and labels not in LABEL_SOURCES:
        raise StreamError(
            f"`labels` must be one of {', '.join(LABEL_SOURCES)}; got {labels!r}."
        )
    opened = open_parts(
        reader, root, release=release, use_cache=cache, progress=progress
    )
    if strict and opened.departures:
        raise FileError(opened.departures[0])
    assembled = reader.assemble(
        opened.release,
        opened.parts,
        labels=labels or reader.default_labels(opened.release),
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
    )


def _simulated(progress: Progress | None, options: dict[str, Any]) -> Testbed:
    from sightline.testbeds.waterworks import (
        Drift,
        Scenario,
        read_scenario,
        simulate,
    )

    if isinstance(options.get("drift"), str):
        options["drift"] = Drift.of(options["drift"])
    if isinstance(options.get("scenario"), str | Path):
        options["scenario"] = read_scenario(options["scenario"])
    for name, kind, wanted in (
        ("drift", Drift, "a drift such as 'mild'"),
        ("scenario", Scenario, "a scenario or the path of its table"),
        ("quick", bool, "true or false"),
    ):
        given = options.get(name)
        if given is not None and not isinstance(given, kind):
            raise StreamError(f"`{name}` must be {wanted}; got {given!r}.")
    made = simulate(progress=progress, **options)
    return Testbed(
        name=WATERWORKS.name,
        release=f"seed{made.seed}",
        train=made.train,
        test=made.test,
    )
