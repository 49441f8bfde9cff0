"""What adapters share: the same door, rows, scaling and held-out block as ours."""

import random
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np

from sightline.data.arrays import Floats, Ints
from sightline.data.recording import Recording
from sightline.detectors.base import (
    DetectorCard,
    Residuals,
    Split,
    check_channels,
    unlabelled,
)
from sightline.detectors.baselines import BaselineSettings
from sightline.detectors.preprocessing import Preprocessing, Scaled
from sightline.detectors.scaling import Scaling
from sightline.detectors.windows import forecast_windows, held_out_block
from sightline.errors import SightlineError, StreamError
from sightline.files import brief


class Adapter(ABC):
    """Somebody's model as a detector.

    Rows are filled, down-sampled and scaled to train's range, a block of train is held
    out, and no label is seen. What the model draws, from whichever generator, comes
    from `seed`; yours are left as they were.
    """

    # Rows before a row that it takes to tell of it.
    lags: int = 0

    def __init__(self, name: str, kind: str, settings: BaselineSettings) -> None:
        self.card = DetectorCard(
            name=name, title=name, paper="Somebody's own.", kind=kind
        )
        self.settings = settings
        self.channels: tuple[str, ...] | None = None
        self.split: Split | None = None

    @abstractmethod
    def _learn(self, train: Scaled, trained: Ints, scaling: Scaling) -> Any:
        """Return what was learned from some rows."""

    @abstractmethod
    def _told(self, learned: Any, seen: Scaled, scaling: Scaling) -> Residuals:
        """Return the residuals of rows, `index` counting these rows."""

    def fit(self, recording: Recording) -> Self:
        """Learn what is normal from an attack-free recording."""
        seen, settings = unlabelled(recording), self.settings
        preprocessing = Preprocessing.fit(seen, settings)
        train = preprocessing.train(seen, settings, np.float64)
        rows = self._rows(train)
        if len(rows) < 2:
            raise StreamError(
                f"Train leaves {len(rows)} rows to learn from, and {self.card.title} "
                "needs 2 or more: give a longer recording."
            )
        is_held_out = np.zeros(len(rows), np.bool_)
        block = held_out_block(len(rows), settings.validation_share, settings.seed)
        is_held_out[block] = True
        with self._asked("could not learn from train"):
            learned = self._learn(train, rows[~is_held_out], preprocessing.scaling)
        self.preprocessing, self.learned = preprocessing, learned
        self.split = Split(
            trained=train.rows[rows[~is_held_out]],
            held_out=train.rows[rows[is_held_out]],
        )
        self.channels = seen.channels
        return self

    def residuals(self, recording: Recording) -> Residuals:
        """Return observed minus expected, row by row."""
        if self.channels is None:
            raise StreamError(
                f"{self.card.title} has not learned anything yet: call `fit` first."
            )
        seen = unlabelled(recording)
        check_channels(seen, self.channels)
        scaled = self.preprocessing.test(seen, self.settings, np.float64)
        with self._asked("could not tell of the recording"):
            told = self._told(self.learned, scaled, self.preprocessing.scaling)
        if not len(told.index):
            raise StreamError(
                f"{self.card.title} tells of no row of the recording: give a longer "
                "one."
            )
        in_space = told.space == "observation"
        return Residuals(
            values=told.values,
            index=scaled.rows[told.index],
            channels=seen.channels if in_space else told.channels,
            space=told.space,
            every=self.settings.every,
            scale=self.preprocessing.scaling.scale if in_space else None,
            notices=(*scaled.notices, *told.notices),
        )

    def about(self) -> dict[str, Any]:
        """Return what one must know to make the same again, as JSON can hold it."""
        return {
            "detector": self.card.name,
            "adapter": type(self).__name__,
            "settings": self.settings.to_dict(),
        } | self._about()

    def _about(self) -> dict[str, Any]:
        return {}

    def _rows(self, seen: Scaled) -> Ints:
        return forecast_windows(seen.values, seen.breaks, self.lags + 1).steps

    @contextmanager
    def _asked(self, what: str) -> Iterator[None]:
        """Draw from the seed, and turn whatever the model raises into a sentence."""
        try:
            with seeded(self.settings.seed):
                yield
        except SightlineError:
            raise
        except Exception as error:
            said = brief(error).rstrip(".") or "it did not say why"
            raise StreamError(
                f"{self.card.title} {what} ({type(error).__name__}: {said}): see that "
                "it takes such rows by itself."
            ) from error


def adapter_settings(
    every: int, trim_s: float, validation_share: float, seed: int
) -> BaselineSettings:
    """Return what every adapter can be told, checked."""
    return BaselineSettings(
        every=every, trim_s=trim_s, validation_share=validation_share, seed=seed
    )


def observation(values: Floats, index: Ints, *notices: str) -> Residuals:
    """Return residuals of all channels; who made them names the channels."""
    names = tuple(str(k) for k in range(values.shape[1]))
    return Residuals(values=values, index=index, channels=names, notices=notices)


def runs_of(rows: Ints, breaks: Ints) -> list[Ints]:
    """Return rows cut where one is missing or a run of the recording begins.

    Examples
    --------
    >>> runs_of(np.array([0, 1, 2, 5, 6]), np.array([0, 6]))
    [array([0, 1, 2]), array([5]), array([6])]
    """
    run = np.searchsorted(breaks, rows, side="right")
    cuts = np.flatnonzero((np.diff(run) > 0) | (np.diff(rows) > 1)) + 1
    return np.split(rows, cuts)


def check_expected(expected: object, observed: Floats, whose: str) -> Floats:
    """Return expected rows as an array, refusing those of another shape."""
    array = np.asarray(expected, np.float64)
    if array.shape != observed.shape:
        raise StreamError(
            f"{whose} must give one row of {observed.shape[1]} channels for each row "
            f"given; it gave shape {array.shape} for {observed.shape}: where it "
            "expects nothing it may give nan."
        )
    return array


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed every global generator within, and leave them as before after.

    Models that were given no seed draw from these.
    """
    torch = sys.modules.get("torch")
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    drawn = None if torch is None else torch.get_rng_state()
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    if torch is not None:
        torch.manual_seed(seed)
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
        if torch is not None:
            torch.set_rng_state(drawn)
