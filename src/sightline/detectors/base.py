"""What every detector gives: residuals of a recording, each row with its step.

A detector learns from an attack-free recording what is normal, and returns for any
recording of the same plant observed minus expected. It has no threshold and never sees
a label.
"""

import difflib
import hashlib
import json
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from sightline._version import __version__
from sightline.data.arrays import (
    Bools,
    Floats,
    Ints,
    Labels,
    check_residuals,
    check_unique,
    read_arrays,
)
from sightline.data.arrays import Residuals as Matrix
from sightline.data.recording import Recording, Tag
from sightline.detectors.native_rules import NativeAlarms, NativeRule, rule_named
from sightline.detectors.settings import (
    PreprocessingSettings,
    RowSettings,
    resolved,
)
from sightline.errors import FileError, SightlineError, StreamError
from sightline.files import reading, staged_file
from sightline.progress import Progress, silent
from sightline.showing import Shown
from sightline.text import names, plural

FORMAT = 1
# Residuals that a detector which was read from a file computes to be tried out.
_TRIAL_ROWS = 16
T = TypeVar("T")
Arrays = dict[str, npt.NDArray[Any]]
# What detectors, numpy and torch raise for numbers that do not fit together.
_MISFITS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    SightlineError,
    TypeError,
    ValueError,
)


# ------------------------------------------------------ files: arrays and JSON, no code


def write_saved(path: Path, about: Mapping[str, object], arrays: Arrays) -> None:
    """Write arrays and a description; the file is whole or absent.

    Parameters
    ----------
    path : path
        The file, which is replaced if it exists.
    about : mapping
        The description, as JSON can hold it.
    arrays : dict of array
        By name; no name is "about_json".
    """
    page = json.dumps({"format": FORMAT, "sightline": __version__, **about})
    with staged_file(path) as partial, partial.open("wb") as file:
        np.savez(file, about_json=np.array(page), **arrays)  # type: ignore[arg-type]


def read_saved(path: Path) -> tuple[dict[str, Any], Arrays]:
    """Return description and arrays of a file; nothing in it is ever executed.

    Raises
    ------
    FileError
        If the file is missing, damaged, or written in another format.
    """
    with reading(path), path.open("rb"):
        arrays, _ = read_arrays(path)
    what = f"{path}: is not a whole detector or checkpoint that Sightline saved"
    with restoring(f"{what}."):
        about = json.loads(str(arrays.pop("about_json")))
        if not isinstance(about["detector" if "detector" in about else "kind"], str):
            raise TypeError("detector")
        version = about["format"]
    if version != FORMAT:
        raise FileError(
            f"{path}: was saved in format {version} by sightline "
            f"{about.get('sightline', 'of unknown version')}, and this is sightline "
            f"{__version__}, which reads format {FORMAT}: load it with the version "
            "that wrote it, or fit the detector again."
        )
    return about, arrays


def fingerprint_of(arrays: Iterable[npt.NDArray[Any]], facts: object) -> str:
    """Return what a checkpoint must agree with: a digest of data and facts of the work.

    Parameters
    ----------
    arrays : iterable of array
        The data.
    facts : object
        Everything else that decides the result, as JSON can hold it.
    """
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    digest.update(json.dumps(facts).encode())
    return digest.hexdigest()


def read_checkpoint(
    path: Path, kind: str, fingerprint: str
) -> tuple[dict[str, Any], Arrays]:
    """Return description and arrays of a checkpoint.

    Parameters
    ----------
    path : path
        The file.
    kind : str
        What the file must hold, such as "training checkpoint".
    fingerprint : str
        What the file must agree with.

    Raises
    ------
    FileError
        If it holds something else, or the checkpoint of other work.
    """
    about, arrays = read_saved(path)
    work = kind.partition(" ")[0]
    if about.get("kind") != kind:
        raise FileError(f"{path}: is not a checkpoint of a {work}: name another file.")
    if about.get("fingerprint") != fingerprint:
        raise FileError(
            f"{path}: is the checkpoint of another {work} (other data, settings or "
            "seed): name another file, or delete it to start again."
        )
    return about, arrays


@contextmanager
def restoring(sentence: str) -> Iterator[None]:
    """Turn whatever a damaged file leads to inside into a `FileError`.

    Parameters
    ----------
    sentence : str
        The message: the file, what is wrong with it, and what to do.
    """
    try:
        yield
    except FileError:
        raise
    except _MISFITS as error:
        raise FileError(sentence) from error


def under(prefix: str, arrays: Mapping[str, T]) -> dict[str, T]:
    """Return the entries whose names begin with a prefix, without it.

    Examples
    --------
    >>> under("network/", {"network/bias": 1, "mean": 2})
    {'bias': 1}
    """
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


# ---------------------------------------------------------------- cards and residuals


@dataclass(frozen=True, kw_only=True)
class PaperSettings:
    """What the letter of the paper asks of a detector, other than its card's settings.

    Parameters
    ----------
    preset : {"export", "official"}, optional
        How it is trained; as always if not given.
    settings : mapping
        By testbed: settings that replace those of the card.
    sources : mapping
        By testbed: what they follow from.
    """

    preset: str | None = None
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class UnstatedChoice:
    """A choice of published code that others may have made and a paper did not state.

    Parameters
    ----------
    why : str
        Who makes it: one sentence.
    settings : mapping
        The detector's settings that make it.
    train_share : float
        Share of train's rows that is learned from, the first ones (`train_rows` of
        `open_testbed`).
    """

    why: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    train_share: float = 1.0


@dataclass(frozen=True, kw_only=True)
class DetectorCard:
    """What a detector is, its paper, and how far it is the published one.

    Parameters
    ----------
    name, title : str
        What the user types, and what the user reads.
    paper : str
        Authors, title, venue, year.
    kind : str
        How it arrives at an expectation: forecast, reconstruction, ...
    space : str
        What its residuals are of: observation, sensor, invariant.
    version : int
        Raised whenever the same settings, data and seed give other residuals than
        before, so that nothing stored is mistaken for the result of another version.
    extra : str, optional
        The extra of Sightline that installs what it needs.
    is_random : bool
        Whether another seed gives other residuals.
    faithful, deviates : tuple of str
        Sentences: what is as published, and what is not and why.
    settings : mapping
        By testbed: settings other than the defaults, from the paper or our own choice.
    sources : mapping
        By testbed: where these settings come from.
    ours : mapping
        By testbed: the names of those settings that are our own choice; all others are
        stated by the detector's authors.
    paper_protocol : PaperSettings
        What changes with protocol ``paper``.
    choices : mapping
        By name: choices with which somebody may have trained it, none of them made
        here; ``docs/paper.md`` says what each of them moves.
    """

    name: str
    title: str
    paper: str
    kind: str
    space: str = "observation"
    version: int = 1
    extra: str | None = None
    is_random: bool = False
    faithful: tuple[str, ...] = ()
    deviates: tuple[str, ...] = ()
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    ours: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    paper_protocol: PaperSettings = PaperSettings()
    choices: Mapping[str, UnstatedChoice] = field(default_factory=dict)


def read_card(detector: str) -> DetectorCard:
    """Return the card of a detector from the ``card.toml`` in its folder.

    Examples
    --------
    >>> read_card("gdn").title
    'GDN'
    """
    path = files("sightline.detectors") / detector / "card.toml"
    values = tomllib.loads(path.read_text(encoding="utf-8"))
    values["settings"] = {
        testbed: {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
        for testbed, given in values["settings"].items()
    }
    return msgspec.convert(values, DetectorCard)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Residuals(Shown):
    """Observed minus expected, and the step of the recording of each row.

    Parameters
    ----------
    values : array of shape (n_rows, n_channels)
        Signed, in the detector's scaled units; 0 where a row is as expected.
    index : array of shape (n_rows,)
        Step of the recording, ascending; the first step where a row was made of
        several.
    channels : tuple of str
        Names of the columns.
    tags : tuple of str, optional
        The tag that each column is of; of that name if not given.
    space : str
        observation, sensor, invariant, or any other word.
    every : int
        How many steps of the recording one row was made of.
    spacing : int, optional
        Steps from one row to the next within a run; `every` if not given.
    score : array of shape (n_rows,), optional
        The detector's own score of a row, high where it is odd.
    alarms : array of bool, shape (n_rows,), optional
        Rows that the detector's own rule calls odd.
    is_warm_up : array of shape (n_rows,), optional
        Rows computed from fewer steps than the detector looks back; none if not given.
    scale : array of shape (n_channels,), optional
        Factor from a residual to the plant's units.
    is_unknown : array of bool, shape of `values`, optional
        Residuals that rest on cells of lost tags so much that they say nothing.
    notices : tuple of str
        Sentences about what was filled, left out or chosen.

    Raises
    ------
    StreamError
        If shapes do not agree or steps do not ascend.

    Examples
    --------
    >>> rows = Residuals(values=[[0.5], [-0.1]], index=[3, 4], channels=("LIT101",))
    >>> rows.values.shape, rows.spacing
    ((2, 1), 1)
    """

    values: Matrix
    index: Ints
    channels: tuple[str, ...]
    tags: tuple[str, ...] = ()
    space: str = "observation"
    every: int = 1
    spacing: int | None = None
    score: Floats | None = None
    alarms: Bools | None = None
    is_warm_up: Bools | None = None
    scale: Floats | None = None
    is_unknown: Bools | None = None
    notices: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check shapes and that steps ascend."""
        values = check_residuals(self.values, "values")
        index = np.asarray(self.index, dtype=np.int64)
        if index.shape != (len(values),) or (np.diff(index) <= 0).any():
            raise StreamError(
                "`index` must give one step for each row of residuals, ascending."
            )
        channels = tuple(self.channels)
        if len(channels) != values.shape[1]:
            raise StreamError(
                f"`channels` must name every column; got {len(channels)} names for "
                f"{values.shape[1]} columns."
            )
        if self.every < 1:
            raise StreamError(f"`every` must be 1 or more steps; got {self.every}.")
        check_unique(channels, "channels")
        tags = tuple(self.tags) or channels
        if len(tags) != len(channels):
            raise StreamError("`tags` must have one name for each channel.")
        if self.scale is not None and np.shape(self.scale) != (len(channels),):
            raise StreamError("`scale` must have one value for each channel.")
        for name in ("is_warm_up", "score", "alarms"):
            series = getattr(self, name)
            if series is not None and np.shape(series) != index.shape:
                raise StreamError(f"`{name}` must have one value for each row.")
        warm_up = np.zeros(len(values)) if self.is_warm_up is None else self.is_warm_up
        for name, value in (
            ("spacing", self.every if self.spacing is None else self.spacing),
            ("values", values),
            ("index", index),
            ("channels", channels),
            ("tags", tags),
            ("is_warm_up", np.asarray(warm_up, np.bool_)),
        ):
            object.__setattr__(self, name, value)

    def _line(self) -> str:
        rows, channels = plural(len(self.index), "row"), len(self.channels)
        return f"of space {self.space!r}: {rows}, {plural(channels, 'channel')}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Split:
    """Which steps of the fitted recording were learned from, and which were held out.

    Steps in neither were trimmed, or too near to the held-out block.

    Parameters
    ----------
    trained, held_out : array of int
        Steps of the recording, ascending, none in both.
    """

    trained: Ints
    held_out: Ints


@dataclass(frozen=True, kw_only=True, eq=False)
class RuleInput:
    """What a detector's own alarm rule may look at.

    Parameters
    ----------
    train, test : Recording
        Without labels.
    train_residuals, test_residuals : Residuals
        Of these recordings.
    is_trained, is_held_out : array of bool
        Rows of `train_residuals`: those learned from, and those held out.
    preset : {"export", "official"}
        How the residuals were computed.
    """

    train: Recording
    test: Recording
    train_residuals: Residuals
    test_residuals: Residuals
    is_trained: Bools
    is_held_out: Bools
    preset: str = "export"

    @property
    def held_out_values(self) -> Matrix:
        """Residuals of the held-out block."""
        return self.train_residuals.values[self.is_held_out]

    @property
    def normal_values(self) -> Matrix:
        """Residuals of normal rows of train, without trimmed and warm-up rows."""
        return self.train_residuals.values[self.is_trained | self.is_held_out]


class Detector(Protocol):
    """The two methods that every detector must have, also those of users.

    Examples
    --------
    >>> import numpy as np
    >>> from sightline import Recording, Tag
    >>> class Median:
    ...     def fit(self, recording):
    ...         self.middle = np.median(recording.values, axis=0)
    ...         return self
    ...
    ...     def residuals(self, recording):
    ...         return Residuals(
    ...             values=recording.values - self.middle,
    ...             index=np.arange(len(recording.values)),
    ...             channels=recording.channels,
    ...         )
    >>> tags = [Tag(name="LIT101")]
    >>> recording = Recording(values=[[1.0], [2.0], [6.0]], tags=tags)
    >>> Median().fit(recording).residuals(recording).values.ravel().tolist()
    [-1.0, 0.0, 4.0]
    """

    def fit(self, recording: Recording, /) -> Self:
        """Learn what is normal from an attack-free recording."""

    def residuals(self, recording: Recording, /) -> Residuals:
        """Return observed minus expected, row by row."""


def detector_line(card: DetectorCard, channels: tuple[str, ...] | None) -> str:
    """Return name and state of a detector in one line.

    Examples
    --------
    >>> card = DetectorCard(name="own", title="Own", paper="Of the user.", kind="known")
    >>> detector_line(card, None)
    "'own': not fitted"
    """
    state = "not fitted"
    if channels is not None:
        state = f"fitted on {plural(len(channels), 'channel')}"
    return f"{card.name!r}: {state}"


class LearnedDetector(Shown, ABC):
    """What Sightline's own detectors share: checks of the input, saving, loading.

    A subclass implements how it learns (`_learn`), its residuals (`_residuals`) and
    what is saved (`_arrays`, `_restore`).

    Parameters
    ----------
    preset : {"export", "official"}
        How it learns: as suits a stream to be evaluated, or exactly as the published
        code does.
    testbed : str, optional
        Use the card's settings for this testbed.
    **overrides
        Any setting by its name; it takes precedence over preset and testbed.

    Raises
    ------
    StreamError
        If a setting does not exist or has a wrong value.
    """

    card: ClassVar[DetectorCard]
    settings_type: ClassVar[type[RowSettings]]
    # Settings of the published code that differ from our defaults.
    official: ClassVar[Mapping[str, Any]] = {}
    # Alarm rules of the paper or its code; the first that looks at nothing of the test
    # is the default.
    rules: ClassVar[tuple[NativeRule, ...]] = ()

    def __init__(
        self, preset: str = "export", *, testbed: str | None = None, **overrides: Any
    ) -> None:
        self.preset, self.testbed = preset, testbed
        self.overrides = dict(overrides)
        self.settings = self._settings(preset)
        # The checked values are of Python's own types, which a file can hold.
        self.overrides = {name: getattr(self.settings, name) for name in overrides}
        self.channels: tuple[str, ...] | None = None
        self.split: Split | None = None

    def _line(self) -> str:
        return detector_line(self.card, self.channels)

    def _settings(self, preset: str) -> Any:
        """Return the settings under a preset, with the card's for the testbed."""
        testbed = (self.testbed or "").lower().partition("-")[0]
        if testbed not in self.card.settings and self.card.settings:
            near = difflib.get_close_matches(testbed, self.card.settings, 1, 0.75)
            if near:
                raise StreamError(
                    f"{self.card.title} has no settings for {self.testbed!r}; did you "
                    f"mean {near[0]!r}?"
                )
        return resolved(
            self.settings_type,
            preset,
            official=self.official,
            testbed=self.card.settings.get(testbed, {}),
            overrides=self.overrides,
            whose=self.card.title,
        )

    def fit(
        self,
        recording: Recording,
        *,
        progress: Progress = silent,
        checkpoint: str | Path | None = None,
    ) -> Self:
        """Learn what is normal from an attack-free recording.

        Parameters
        ----------
        recording : Recording
            Its labels are not used.
        progress : callable, optional
            Called with a `Step`.
        checkpoint : path, optional
            File that stores the state of the training; if it exists, the training
            continues from it and gives the same result as one never interrupted.

        Returns
        -------
        LearnedDetector
            The detector itself.
        """
        unseen = unlabelled(recording)
        self.split = self._learn(
            unseen, progress, None if checkpoint is None else Path(checkpoint)
        )
        self.channels = unseen.channels
        return self

    def residuals(
        self,
        recording: Recording,
        *,
        preset: str = "export",
        progress: Progress = silent,
    ) -> Residuals:
        """Return observed minus expected.

        Parameters
        ----------
        recording : Recording
            With the channels of the recording it was fitted on, in the same order; its
            labels are not used.
        preset : {"export", "official"}
            As suits a stream to be evaluated, or exactly as published.
        progress : callable, optional
            Called with a `Step`.

        Raises
        ------
        StreamError
            Before `fit`, for other channels, or if the recording is too short.
        """
        channels = self._fitted(self.channels)
        unseen = unlabelled(recording)
        check_channels(unseen, channels)
        # What is not finite is refused by `Residuals`, with its row and channel.
        with np.errstate(all="ignore"):
            return self._residuals(unseen, self._settings(preset), progress)

    def native_alarms(
        self, given: RuleInput, *, rule: str | None = None, labels: Labels | None = None
    ) -> NativeAlarms | None:
        """Return score and alarms by the detector's own rule; None if it has none.

        Parameters
        ----------
        given : RuleInput
            Recordings and residuals of train and test.
        rule : str, optional
            Name of one of `rules` (`sightline detectors NAME` lists them); by default
            the first that looks at nothing of the test.
        labels : array of shape (n_rows,), optional
            Of the test, for rules that use them, which their names say.
        """
        if rule is not None:
            rule_named(self.rules, rule, self.card.title)
        return None

    def row_settings(self, preset: str = "export") -> PreprocessingSettings:
        """Return what is done to rows before the detector sees them."""
        settings = self._settings(preset)
        made = getattr(settings, "preprocessing", None)
        return settings if made is None else made()  # type: ignore[no-any-return]

    def look_back(self, preset: str = "export") -> int:
        """Return how many earlier rows of its run a residual depends on.

        A detector in service keeps this many rows to go on from one file to the next.

        Parameters
        ----------
        preset : {"export", "official"}
            How residuals are computed.

        Raises
        ------
        StreamError
            If a residual depends on all earlier rows, on later ones, or on rows before
            a gap: then the detector needs the whole record.

        Examples
        --------
        >>> from sightline.detectors import make_detector
        >>> make_detector("last-value").look_back()
        1
        """
        rows, settings = self.row_settings(preset), self._settings(preset)
        n_rows = self._look_back(settings)
        is_cut = rows.missing == "mean" or rows.test_scaling == "own"
        if n_rows is None or is_cut or rows.cross_gaps or rows.across_breaks:
            raise StreamError(
                f"{self.card.title} needs a whole record for its residuals, so it "
                "cannot go on from one file to the next: give one table of all rows, "
                "or use a detector that looks at a window of rows."
            )
        return n_rows

    def memory(self, preset: str = "export") -> int:
        """Return how many earlier rows of a tag its residual depends on, if few."""
        return self._look_back(self._settings(preset)) or 0

    def _look_back(self, settings: Any) -> int | None:
        """Return the same by the model alone; None for all earlier rows."""
        return None

    def _run_length(self, settings: Any) -> int:
        """Return the rows of a run that is long enough for a residual."""
        return (self._look_back(settings) or 0) + 1

    def _chosen(self, *settings: str) -> dict[str, Any]:
        """Return some settings by name, for a call that takes them as arguments."""
        return {name: getattr(self.settings, name) for name in settings}

    def _fitted(self, part: T | None) -> T:
        """Return a part that `fit` has set; raise before `fit`."""
        if part is None:
            raise StreamError(
                f"{self.card.title} has not learned anything yet: call `fit` first."
            )
        return part

    @abstractmethod
    def _learn(
        self, recording: Recording, progress: Progress, checkpoint: Path | None
    ) -> Split:
        """Learn, and return which steps were learned from and which held out."""

    @abstractmethod
    def _residuals(
        self, recording: Recording, settings: Any, progress: Progress
    ) -> Residuals:
        """Return the residuals of a recording."""

    @abstractmethod
    def _arrays(self) -> Arrays:
        """Return everything that was learned, as named arrays."""

    @abstractmethod
    def _restore(self, arrays: Arrays) -> None:
        """Set what `_arrays` returned."""

    def about(self) -> dict[str, object]:
        """Return what is needed to make the same detector again; JSON can hold it."""
        return {
            "detector": self.card.name,
            "version": self.card.version,
            "preset": self.preset,
            "testbed": self.testbed,
            "settings": self.settings.to_dict(),
        }

    def save(self, path: str | Path) -> None:
        """Write what was learned to one npz file: numbers and text, no code."""
        split = self._fitted(self.split)
        write_saved(
            Path(path),
            self.about() | {"overrides": self.overrides, "channels": self.channels},
            self._arrays()
            | {"split/trained": split.trained, "split/held_out": split.held_out},
        )

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return a detector as it was saved.

        Raises
        ------
        FileError
            If the file holds another detector, another version of this one, or no
            whole detector.
        """
        about, arrays = read_saved(Path(path))
        if about.get("detector") != cls.card.name:
            content = about.get("detector") or about.get("kind")
            raise FileError(
                f"{path}: holds {content!r}, not the detector {cls.card.name!r}; "
                "sightline.load_detector recognises it by itself."
            )
        if about.get("version") != cls.card.version:
            raise FileError(
                f"{path}: was saved by version {about.get('version')} of "
                f"{cls.card.title}, and this is version {cls.card.version}, which "
                "gives other residuals: load it with the Sightline that wrote it "
                f"({about.get('sightline')}), or fit it again."
            )
        with restoring(
            f"{path}: is not a whole detector as Sightline saves it: fit it again."
        ):
            loaded = cls(
                about["preset"], testbed=about["testbed"], **about["overrides"]
            )
            loaded.channels = tuple(about["channels"])
            loaded.split = Split(
                trained=arrays.pop("split/trained"),
                held_out=arrays.pop("split/held_out"),
            )
            for rows in (loaded.split.trained, loaded.split.held_out):
                if rows.ndim != 1 or rows.dtype.kind not in "iu":
                    raise TypeError("split")
            loaded._restore(arrays)
            loaded._try_out(len(loaded.channels))
        return loaded

    def _try_out(self, n_channels: int) -> None:
        """Compute residuals once, so that a damaged file is noticed when it is read.

        Whatever they raise, a `StreamError` too, means that the file is damaged.
        """
        tags = tuple(Tag(name=name) for name in self._fitted(self.channels))
        settings = self._settings("export")
        look = self._run_length(settings) + _TRIAL_ROWS
        n_rows = int(getattr(self.row_settings(), "every", 1)) * look
        trial = Recording(values=np.zeros((n_rows, n_channels)), tags=tags)
        self.residuals(trial)


def unlabelled(recording: Recording) -> Recording:
    """Return a recording without its labels and attacks: all a detector may see."""
    if not isinstance(recording, Recording):
        raise StreamError(
            f"A detector takes a Recording; got {type(recording).__name__}: make one "
            "with sightline.Recording(values=..., tags=...)."
        )
    return replace(recording, labels=None, attacks=())


def check_channels(recording: Recording, channels: tuple[str, ...]) -> None:
    """Raise if a recording's channels are not those a detector was fitted on."""
    given = recording.channels
    if given == channels:
        return
    missing = [name for name in channels if name not in given]
    extra = [name for name in given if name not in channels]
    if missing:
        raise StreamError(
            f"The recording lacks {names(missing, 3)}, which the detector learned "
            "from: give it every channel of the recording it was fitted on."
        )
    if extra:
        raise StreamError(
            f"The recording has {names(extra, 3)}, which the detector never saw: leave "
            "it out or fit again."
        )
    first = next(k for k, name in enumerate(channels) if given[k] != name)
    raise StreamError(
        f"The recording's channels are in another order than those the detector "
        f"learned from (column {first} is {given[first]}, then it was "
        f"{channels[first]}): put them in the same order."
    )
