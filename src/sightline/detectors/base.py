"""What every detector gives: residuals of a recording, each with its step.

A detector learns what is expected from an attack-free recording and tells, for any
recording of the same plant, observed minus expected. It knows no threshold and never
sees a label.
"""

import difflib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from sightline.data.arrays import (
    Bools,
    Floats,
    Ints,
    Labels,
    check_residuals,
    check_unique,
)
from sightline.data.arrays import Residuals as Matrix
from sightline.data.recording import Recording
from sightline.detectors.native_rules.rules import NativeAlarms
from sightline.detectors.saving import Arrays, read_saved, write_saved
from sightline.detectors.settings import Settings, resolved
from sightline.errors import FileError, StreamError
from sightline.progress import Progress, silent


@dataclass(frozen=True, kw_only=True)
class DetectorCard:
    """What a detector is, whose it is, and how far it is the published one.

    Parameters
    ----------
    name, title : str
        What one types, and what one reads.
    paper : str
        Authors, title, venue, year.
    kind : str
        How it comes to an expectation: forecast, reconstruction, ...
    space : str
        What its residuals are of: observation, sensor, invariant.
    version : int
        Raised whenever the same settings, data and seed give other residuals than
        before, so that nothing stored is taken for something else.
    extra : str, optional
        The extra of Sightline that brings what it needs.
    faithful, deviates : tuple of str
        Sentences: what is as published, and what is not and why.
    settings : mapping
        By testbed: settings other than the defaults, from the paper or our own choice.
    sources : mapping
        By testbed: where these settings come from.
    """

    name: str
    title: str
    paper: str
    kind: str
    space: str = "observation"
    version: int = 1
    extra: str | None = None
    faithful: tuple[str, ...] = ()
    deviates: tuple[str, ...] = ()
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class Residuals:
    """Observed minus expected, and which step of the recording each row belongs to.

    Parameters
    ----------
    values : array of shape (n_rows, n_channels)
        Signed, in the detector's own scaled units.
    index : array of shape (n_rows,)
        Step of the recording, ascending; the first one where several were made one.
    channels : tuple of str
        Names of the columns.
    space : str
        observation, sensor, invariant, or one's own word.
    every : int
        How many steps of the recording one row was made of.
    spacing : int, optional
        Steps from one row to the next within a run; `every` if not given.
    score : array of shape (n_rows,), optional
        The detector's own score of a row, where it has one beyond the residuals.
    is_warm_up : array of shape (n_rows,), optional
        Rows told from fewer steps than the detector looks back; none if not given.
    scale : array of shape (n_channels,), optional
        What a residual is to be multiplied by to be in the plant's units.
    notices : tuple of str
        Sentences about what was filled, left out or chosen.
    """

    values: Matrix
    index: Ints
    channels: tuple[str, ...]
    space: str = "observation"
    every: int = 1
    spacing: int | None = None
    score: Floats | None = None
    is_warm_up: Bools | None = None
    scale: Floats | None = None
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
        if self.scale is not None and np.shape(self.scale) != (len(channels),):
            raise StreamError("`scale` must have one value for each channel.")
        warm_up = (
            np.zeros(len(values), np.bool_)
            if self.is_warm_up is None
            else np.asarray(self.is_warm_up, np.bool_)
        )
        if warm_up.shape != index.shape:
            raise StreamError("`is_warm_up` must have one value for each row.")
        if self.score is not None and np.shape(self.score) != index.shape:
            raise StreamError("`score` must have one value for each row.")
        for name, value in (
            ("spacing", self.every if self.spacing is None else self.spacing),
            ("values", values),
            ("index", index),
            ("channels", channels),
            ("is_warm_up", warm_up),
        ):
            object.__setattr__(self, name, value)


@dataclass(frozen=True, kw_only=True, eq=False)
class Split:
    """Which steps of the fitted recording were learned from, and which were held out.

    Steps in neither were trimmed, or too near to the held-out block.
    """

    trained: Ints
    held_out: Ints


@dataclass(frozen=True, kw_only=True, eq=False)
class Looked:
    """What a fitted detector made of train and test: what its own rule may look at.

    `is_trained` and `is_held_out` mark rows of `learned`; `preset` is how it looked.
    """

    train: Recording
    test: Recording
    learned: Residuals
    tested: Residuals
    is_trained: Bools
    is_held_out: Bools
    preset: str = "export"

    @property
    def held_out_values(self) -> Matrix:
        """Residuals of the held-out block."""
        return self.learned.values[self.is_held_out]

    @property
    def normal_values(self) -> Matrix:
        """Residuals of normal rows of train, none of them trimmed or warm-up."""
        return self.learned.values[self.is_trained | self.is_held_out]


class Detector(Protocol):
    """All that is asked of anybody's detector."""

    def fit(self, recording: Recording, /) -> Self:
        """Learn what is normal from an attack-free recording."""

    def residuals(self, recording: Recording, /) -> Residuals:
        """Return observed minus expected, row by row."""


class LearnedDetector(ABC):
    """What Sightline's own detectors share: the checks at the door, saving, loading.

    A subclass says how it learns (`_learn`), what it expects (`_residuals`) and what
    of it is to be kept (`_arrays`, `_restore`).

    Parameters
    ----------
    preset : {"export", "official"}
        How it learns: as is best for a stream to be evaluated, or to the letter as the
        published code does.
    testbed : str, optional
        Take the card's settings for this testbed.
    **overrides
        Any setting by its name; it goes before preset and testbed.
    """

    card: ClassVar[DetectorCard]
    settings_type: ClassVar[type[Settings]]
    # What the published code does otherwise than our defaults.
    official: ClassVar[Mapping[str, Any]] = {}

    def __init__(
        self, preset: str = "export", *, testbed: str | None = None, **overrides: Any
    ) -> None:
        self.preset, self.testbed = preset, testbed
        self.overrides = dict(overrides)
        self.settings = self._settings(preset)
        # As checked: numbers of Python's own kind, which a file can hold.
        self.overrides = {name: getattr(self.settings, name) for name in overrides}
        self.channels: tuple[str, ...] | None = None
        self.split: Split | None = None

    def _settings(self, preset: str) -> Any:
        """Return the settings under a preset; a testbed the card knows adds its own."""
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
            Its labels are not looked at.
        progress : callable, optional
            Told ``(what, done, total)``.
        checkpoint : path, optional
            File to keep the state of the training in, and to go on from if it exists.
        """
        seen = unlabelled(recording)
        self.split = self._learn(
            seen, progress, None if checkpoint is None else Path(checkpoint)
        )
        self.channels = seen.channels
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
            Of the same channels in the same order; its labels are not looked at.
        preset : {"export", "official"}
            As is best for a stream to be evaluated, or to the letter as published.
        progress : callable, optional
            Told ``(what, done, total)``.
        """
        if self.channels is None:
            raise StreamError(
                f"{self.card.title} has not learned anything yet: call `fit` first."
            )
        seen = unlabelled(recording)
        check_channels(seen, self.channels)
        return self._residuals(seen, self._settings(preset), progress)

    def native_alarms(
        self, looked: Looked, *, rule: str | None = None, labels: Labels | None = None
    ) -> NativeAlarms | None:
        """Return the detector's own score and alarms; None if it has none.

        Parameters
        ----------
        looked : Looked
            What it made of train and test.
        rule : str, optional
            One of its rules by name (`sightline detectors NAME` lists them); by default
            the one that looks at nothing of the test.
        labels : array of shape (n_rows,), optional
            Of the test, for rules that look at them, which their names say.
        """
        if rule is not None:
            raise StreamError(
                f"{self.card.title} has no alarm rule of its own; got rule {rule!r}."
            )
        return None

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
        """Return all that was learned, as named arrays."""

    @abstractmethod
    def _restore(self, arrays: Arrays) -> None:
        """Take back what `_arrays` gave."""

    def about(self) -> dict[str, Any]:
        """Return what one must know to make the same again, as JSON can hold it."""
        return {
            "detector": self.card.name,
            "version": self.card.version,
            "preset": self.preset,
            "testbed": self.testbed,
            "settings": self.settings.to_dict(),
        }

    def save(self, path: str | Path) -> None:
        """Write what was learned to one file: numbers and text, no code."""
        if self.channels is None or self.split is None:
            raise StreamError(
                f"{self.card.title} has not learned anything yet: call `fit` first."
            )
        split = {
            "split/trained": self.split.trained,
            "split/held_out": self.split.held_out,
        }
        write_saved(
            Path(path),
            self.about() | {"overrides": self.overrides, "channels": self.channels},
            self._arrays() | split,
        )

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return a detector as it was saved."""
        about, arrays = read_saved(Path(path))
        if about.get("detector") != cls.card.name:
            held = about.get("detector") or about.get("kind")
            raise FileError(
                f"{path}: holds {held!r}, not the detector {cls.card.name!r}; "
                "sightline.load_detector finds out by itself."
            )
        if about.get("version") != cls.card.version:
            raise FileError(
                f"{path}: was saved by version {about.get('version')} of "
                f"{cls.card.title}, and this is version {cls.card.version}, which "
                "gives other residuals: load it with the Sightline that wrote it "
                f"({about.get('sightline')}), or fit it anew."
            )
        try:
            made = cls(about["preset"], testbed=about["testbed"], **about["overrides"])
            made.channels = tuple(about["channels"])
            made.split = Split(
                trained=arrays.pop("split/trained"),
                held_out=arrays.pop("split/held_out"),
            )
            made._restore(arrays)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise FileError(
                f"{path}: is not a whole detector as Sightline saves it: fit it anew."
            ) from error
        return made


def unlabelled(recording: Recording) -> Recording:
    """Return a recording without its labels and attacks: all a detector may see."""
    if not isinstance(recording, Recording):
        raise StreamError(
            f"A detector takes a Recording; got {type(recording).__name__}: make one "
            "with sightline.Recording(values=..., tags=...)."
        )
    return replace(recording, labels=None, attacks=())


def check_channels(recording: Recording, channels: tuple[str, ...]) -> None:
    """Refuse a recording whose channels are not those a detector learned."""
    given = recording.channels
    if given == channels:
        return
    missing = [name for name in channels if name not in given]
    strange = [name for name in given if name not in channels]
    if missing:
        raise StreamError(
            f"The recording lacks {_some(missing)}, which the detector learned from: "
            "give it every channel of the recording it was fitted on."
        )
    if strange:
        raise StreamError(
            f"The recording has {_some(strange)}, which the detector never saw: leave "
            "it out or fit anew."
        )
    first = next(k for k, name in enumerate(channels) if given[k] != name)
    raise StreamError(
        f"The recording's channels are in another order than those the detector "
        f"learned from (column {first} is {given[first]}, then it was "
        f"{channels[first]}): put them in the same order."
    )


def _some(names: list[str]) -> str:
    """Return the first few names, and how many more there are."""
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more channels"
