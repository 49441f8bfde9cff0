"""From a recording to scaled rows: fill, trim, down-sample, scale; train decides."""

from dataclasses import dataclass, replace
from typing import Literal, Self, get_args

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Bools, Floats, Ints
from sightline.data.downsampling import (
    Preparation,
    Sampling,
    downsampled,
    rows_of,
    sampled_blocks,
)
from sightline.data.recording import Recording
from sightline.data.segments import breaks_kept
from sightline.detectors.saving import Arrays
from sightline.detectors.scaling import (
    Constants,
    Scaling,
    fill_missing,
    fit_scaling,
    means_of,
)
from sightline.detectors.settings import (
    Settings,
    check_at_least,
    check_choice,
    check_whole,
    is_number,
)
from sightline.errors import StreamError
from sightline.text import names

SAMPLINGS = ("median", "stride", "first", "last", "by-role")


@dataclass(frozen=True, kw_only=True)
class PreprocessingSettings(Settings):
    """What is done to a recording before a detector sees it.

    Parameters
    ----------
    every, sampling, across_breaks
        Make one row of so many, and how: see `sightline.data.downsampling`.
    trim_s : float
        Seconds left out at the beginning of train, while the plant settles.
    scale_before_trim : bool
        Take the range of each channel from all of train; else from what is left.
    constant_channels : {"unit", "ratio", "epsilon", "keep", "drop"}
        What becomes of a channel that never changes in train: its value is taken off,
        it is divided by it, it is divided by the little that is added to every range,
        it stays as it is, or it is left out.
    range_epsilon : float
        Added to every range.
    clip : pair of float, optional
        Keep scaled values within these.
    missing : {"hold", "mean"}
        A missing cell takes the last value before it (else train's mean), or the mean
        of the very recording, which looks ahead.
    test_scaling : {"train", "own"}
        Scale a recording by train's range, or by its own, which looks ahead.
    cross_gaps : bool
        Let windows run through gaps, as published code does.
    round_raw : bool
        Round values to single precision before anything else, as some published code
        does.
    """

    every: int = 1
    sampling: Sampling = "median"
    across_breaks: bool = False
    trim_s: float = 0.0
    scale_before_trim: bool = False
    constant_channels: Literal["unit", "ratio", "epsilon", "keep", "drop"] = "unit"
    range_epsilon: float = 0.0
    clip: tuple[float, float] | None = None
    missing: Literal["hold", "mean"] = "hold"
    test_scaling: Literal["train", "own"] = "train"
    cross_gaps: bool = False
    round_raw: bool = False

    def __post_init__(self) -> None:
        """Refuse what is not an option."""
        super().__post_init__()
        check_whole(self, 1, "every")
        check_at_least(self, 0, "trim_s", "range_epsilon")
        check_choice(self, "sampling", SAMPLINGS)
        check_choice(self, "constant_channels", (*get_args(Constants), "drop"))
        check_choice(self, "missing", ("hold", "mean"))
        check_choice(self, "test_scaling", ("train", "own"))
        if self.clip is not None:
            object.__setattr__(self, "clip", _checked_clip(self.clip))


def _checked_clip(clip: object) -> tuple[float, float]:
    bounds = tuple(clip) if isinstance(clip, tuple | list) else ()
    if len(bounds) != 2 or not all(map(is_number, bounds)) or bounds[0] >= bounds[1]:
        raise StreamError(f"`clip` must be a low and a high number; got {clip!r}.")
    return float(bounds[0]), float(bounds[1])


@dataclass(frozen=True, kw_only=True, eq=False)
class Scaled:
    """Rows as a detector sees them, and which step of the recording each one is.

    `rows` number the steps of the recording given (the first of each block); `scale` is
    what each channel was divided by.
    """

    values: npt.NDArray[np.floating]
    rows: Ints
    breaks: Ints
    scale: Floats
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Preprocessing:
    """What train decides: the scale of each channel, and what stands in for a gap."""

    scaling: Scaling
    means: Floats
    kept: Ints

    @classmethod
    def fit(
        cls,
        recording: Recording,
        settings: PreprocessingSettings,
        *,
        unscaled: Bools | None = None,
    ) -> Self:
        """Learn scale and means from train; some channels may stay as they are."""
        means = means_of(_rounded(recording, settings).values)
        filled = _filled(recording, settings, means)[0]
        if not settings.scale_before_trim:
            filled = _trimmed(filled, settings)
        values = filled.values
        is_kept = (
            values.min(axis=0) < values.max(axis=0)
            if settings.constant_channels == "drop"
            else np.ones(values.shape[1], np.bool_)
        )
        if not is_kept.any():
            raise StreamError(
                "Every channel of train is constant: there is nothing to learn from."
            )
        scaling = fit_scaling(
            values, epsilon=settings.range_epsilon, constants=_constants(settings)
        )
        if unscaled is not None:
            scaling = Scaling(
                offset=np.where(unscaled, 0.0, scaling.offset),
                scale=np.where(unscaled, 1.0, scaling.scale),
            )
        return cls(
            scaling=scaling,
            means=means,
            kept=np.flatnonzero(is_kept),
        )

    def train(
        self,
        recording: Recording,
        settings: PreprocessingSettings,
        dtype: type[np.floating],
    ) -> Scaled:
        """Return train as a detector sees it: sampled, scaled, trimmed.

        Rows are made before they are trimmed, as in the published pipelines, so that
        they are the very rows `test` makes of the same recording.
        """
        filled, notices = _filled(recording, settings, self.means)
        whole = self._scaled(filled, settings, dtype, self.scaling, notices)
        cut = recording.n_steps - _trimmed(filled, settings).n_steps
        is_kept = whole.rows >= cut
        if not is_kept.any():
            raise StreamError(
                f"`trim_s` of {settings.trim_s:g} s leaves no row of train: lower it."
            )
        return replace(
            whole,
            values=whole.values[is_kept],
            rows=whole.rows[is_kept],
            breaks=breaks_kept(whole.breaks, is_kept),
        )

    def test(
        self,
        recording: Recording,
        settings: PreprocessingSettings,
        dtype: type[np.floating],
    ) -> Scaled:
        """Return any recording as a detector sees it: sampled and scaled."""
        filled, notices = _filled(recording, settings, self.means)
        scaling = self.scaling
        if settings.test_scaling == "own":
            constants: Constants = "unit"
            if settings.constant_channels in ("ratio", "epsilon"):
                constants = settings.constant_channels
            scaling = fit_scaling(
                filled.values, epsilon=settings.range_epsilon, constants=constants
            )
            notices = (
                *notices,
                "The recording was scaled by its own range, which looks ahead.",
            )
        return self._scaled(filled, settings, dtype, scaling, notices)

    def _scaled(
        self,
        recording: Recording,
        settings: PreprocessingSettings,
        dtype: type[np.floating],
        scaling: Scaling,
        notices: tuple[str, ...],
    ) -> Scaled:
        how = {
            "every": settings.every,
            "sampling": settings.sampling,
            "across_breaks": settings.across_breaks,
        }
        starts, _ = sampled_blocks(recording, **how)  # type: ignore[arg-type]
        sampled = downsampled(recording, **how)  # type: ignore[arg-type]
        breaks = sampled.breaks
        if settings.cross_gaps or breaks is None:
            breaks = np.zeros(1, np.int64)
        kept = Scaling(offset=scaling.offset[self.kept], scale=scaling.scale[self.kept])
        values = sampled.values
        if len(self.kept) < values.shape[1]:
            values = values[:, self.kept]
        return Scaled(
            values=kept.apply(values, dtype, settings.clip),
            rows=starts,
            breaks=breaks,
            scale=kept.scale,
            notices=notices,
        )

    def arrays(self) -> Arrays:
        """Return what was learned."""
        return {
            "preprocessing/offset": self.scaling.offset,
            "preprocessing/scale": self.scaling.scale,
            "preprocessing/means": self.means,
            "preprocessing/kept": self.kept,
        }

    @classmethod
    def of_arrays(cls, arrays: Arrays) -> Self:
        """Take back what `arrays` gave."""
        return cls(
            scaling=Scaling(
                offset=arrays["preprocessing/offset"],
                scale=arrays["preprocessing/scale"],
            ),
            means=arrays["preprocessing/means"],
            kept=arrays["preprocessing/kept"],
        )


def _constants(settings: PreprocessingSettings) -> Constants:
    chosen = settings.constant_channels
    return "unit" if chosen == "drop" else chosen


def _filled(
    recording: Recording, settings: PreprocessingSettings, means: Floats
) -> tuple[Recording, tuple[str, ...]]:
    """Return a recording without missing cells, and a sentence if there were any."""
    recording = _rounded(recording, settings)
    breaks = recording.breaks
    if settings.missing == "mean":
        breaks, means = np.arange(recording.n_steps), means_of(recording.values)
    if breaks is None:
        breaks = np.zeros(1, np.int64)
    filled, count = fill_missing(recording.values, breaks, means)
    if not count:
        return recording, ()
    how = (
        "the mean of the recording"
        if settings.missing == "mean"
        else "the last value before them (train's mean where there was none)"
    )
    notices = [
        f"{count:,} missing cells of {recording.values.size:,} were given {how}."
    ]
    never = np.flatnonzero(~np.isfinite(recording.values).any(axis=0))
    if len(never):
        named = names([recording.channels[column] for column in never], 4)
        notices.append(f"Nothing at all is known of {named}: all of it stands in.")
    return replace(recording, values=filled), tuple(notices)


def _rounded(recording: Recording, settings: PreprocessingSettings) -> Recording:
    if not settings.round_raw:
        return recording
    rounded = recording.values.astype(np.float32).astype(np.float64)
    return replace(recording, values=rounded)


def _trimmed(recording: Recording, settings: PreprocessingSettings) -> Recording:
    if not settings.trim_s:
        return recording
    if recording.time is None:
        if recording.step_s is None:
            raise StreamError(
                f"`trim_s` is {settings.trim_s:g} s, but the recording says neither "
                "`time` nor `step_s`: give one of them, or set `trim_s` to 0."
            )
        rows = round(settings.trim_s / recording.step_s)
        if rows >= recording.n_steps:
            raise StreamError(
                f"`trim_s` of {settings.trim_s:g} s leaves no row of train: lower it."
            )
        return rows_of(recording, rows, recording.n_steps)
    return Preparation(trim_s=settings.trim_s).train(recording)
