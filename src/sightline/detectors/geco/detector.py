"""GeCo as a detector: it learns formulas, and tells what they leave of a recording."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from sightline.data.arrays import Bools, Floats, Ints, Labels
from sightline.data.recording import Recording
from sightline.detectors.base import (
    DetectorCard,
    LearnedDetector,
    Looked,
    Residuals,
    Split,
    check_channels,
    unlabelled,
)
from sightline.detectors.geco.card import CARD
from sightline.detectors.geco.checkpoint import Checkpoint, fingerprint_of
from sightline.detectors.geco.cusum import EPSILON, CusumAlarms, cusum_of
from sightline.detectors.geco.formulas import (
    Formula,
    formula_arrays,
    formulas_of,
    observed_minus_expected,
)
from sightline.detectors.geco.ipal_model import (
    IpalModel,
    channels_of,
    read_ipal_model,
    write_ipal_model,
)
from sightline.detectors.geco.search import find_formulas
from sightline.detectors.geco.settings import GeCoSettings
from sightline.detectors.geco.transitions import Transitions, rows_told
from sightline.detectors.native_rules.rules import NativeAlarms, native_rule
from sightline.detectors.preprocessing import Preprocessing, Scaled
from sightline.detectors.saving import Arrays
from sightline.detectors.scaling import Scaling, means_of
from sightline.detectors.settings import Settings
from sightline.errors import StreamError
from sightline.progress import Progress, Step, StepKind
from sightline.text import names

_NOT_FITTED = "GeCo has not learned anything yet: call `fit` first."


@dataclass(frozen=True, eq=False)
class _Told:
    """Observed minus expected, where runs begin, the step of each row, and remarks."""

    residuals: Floats
    begins: Bools
    index: Ints
    notices: tuple[str, ...]


class GeCo(LearnedDetector):
    """Formulas found by a complete search: the next value of each channel.

    A target is its own last value and up to three other channels, added up or
    multiplied; of all candidates the one with the least squared error is kept.

    Parameters
    ----------
    preset : {"export", "official"}
        "official" takes steps through gaps for ordinary ones, as published.
    testbed : str, optional
        Take the published ignore list and factors for this testbed.
    **overrides
        Any of `GeCoSettings` by name.

    Examples
    --------
    >>> GeCo(testbed="batadal").settings.ignore
    ('P_J280',)
    """

    card: ClassVar[DetectorCard] = CARD
    settings_type: ClassVar[type[Settings]] = GeCoSettings
    official: ClassVar[Mapping[str, Any]] = {"cross_gaps": True}

    _preprocessing: Preprocessing | None = None
    _formulas: tuple[Formula, ...] = ()
    _is_incomplete: bool = False

    # ---------------------------------------------------------------- what it found

    @property
    def formulas(self) -> tuple[Formula, ...]:
        """The formulas, one for each channel that is not ignored."""
        return self._formulas

    def printed(self) -> list[str]:
        """Return the formulas for people, such as ``L1 = 0.99 L1 + 0.5 P1 - 1.2``."""
        return [str(formula) for formula in self._formulas]

    # ------------------------------------------------------------------- learning

    def _learn(
        self, recording: Recording, progress: Progress, checkpoint: Path | None
    ) -> Split:
        settings: GeCoSettings = self.settings
        preprocessing = self._unscaled(
            recording.channels, means_of(np.asarray(recording.values, np.float64))
        )
        train = preprocessing.train(recording, settings.preprocessing(), np.float64)
        values = np.asarray(train.values, np.float64)
        transitions = Transitions.of(values, train.breaks, settings.fit_share)
        channels = [recording.channels[k] for k in preprocessing.kept]
        state, keep = None, None
        if checkpoint is not None:
            fingerprint = fingerprint_of(transitions, settings, self.card.version)
            kept = Checkpoint(checkpoint, fingerprint, channels)
            state, keep = kept.state(), kept.keep
        formulas = find_formulas(
            transitions,
            channels,
            max_inputs=settings.max_inputs,
            search=settings.search,
            precision=settings.precision,
            progress=progress,
            state=state,
            keep=keep,
        )
        self._preprocessing, self._formulas = preprocessing, tuple(formulas)
        self._is_incomplete = False
        return _split(train, transitions)

    def _unscaled(self, channels: Sequence[str], means: Floats) -> Preprocessing:
        """Return the common preprocessing with all scales 1, less what is ignored."""
        kept = [
            k for k, name in enumerate(channels) if name not in self.settings.ignore
        ]
        if not kept:
            raise StreamError(
                "`ignore` names every channel of the recording: leave one at least."
            )
        return Preprocessing(
            scaling=Scaling(
                offset=np.zeros(len(channels)), scale=np.ones(len(channels))
            ),
            means=means,
            kept=np.array(kept, np.int64),
        )

    # ------------------------------------------------------------------ residuals

    def _residuals(
        self, recording: Recording, settings: Any, progress: Progress
    ) -> Residuals:
        told = self._told(recording, settings)
        progress(Step(StepKind.RESIDUALS, 1, 1, "GeCo"))
        return Residuals(
            values=told.residuals,
            index=told.index,
            channels=tuple(formula.target for formula in self._formulas),
            space=self.card.space,
            every=settings.every,
            scale=np.ones(len(self._formulas)),
            notices=(*told.notices, *self._remarks(recording)),
        )

    def _told(self, recording: Recording, settings: GeCoSettings) -> _Told:
        """Return what the formulas leave of a recording."""
        preprocessing = self._preprocessing
        if preprocessing is None:
            raise StreamError(_NOT_FITTED)
        scaled = preprocessing.test(recording, settings.preprocessing(), np.float64)
        values = np.asarray(scaled.values, np.float64)
        if np.isnan(preprocessing.means).any() and not np.isfinite(values).all():
            raise StreamError(
                "The recording lacks values at the beginning of a run, and the IPAL "
                "model does not tell train's means: give `train` to `from_ipal`."
            )
        rows, begins = rows_told(len(values), scaled.breaks)
        if not len(rows):
            raise StreamError(
                "No run of the recording has 2 rows, which GeCo needs: give a longer "
                "recording."
            )
        channels = [recording.channels[k] for k in preprocessing.kept]
        residuals = observed_minus_expected(self._formulas, channels, values, rows)
        return _Told(residuals, begins, scaled.rows[rows], scaled.notices)

    def _remarks(self, recording: Recording) -> tuple[str, ...]:
        """Return what is to be told about settings that could not be followed."""
        absent = [n for n in self.settings.ignore if n not in recording.channels]
        remarks = []
        if absent:
            remarks.append(
                f"To be ignored, but not in the recording: {names(absent, 3)}."
            )
        asked = self.settings.max_inputs
        most = len(set(recording.channels) - set(self.settings.ignore)) - 1
        # Of a model without its train nobody knows which channels were searched.
        if self.split is not None and asked > most:
            remarks.append(
                f"`max_inputs` was lowered from {asked} to {most}, for a formula can "
                "have no more than all other channels."
            )
        if self._is_incomplete:
            remarks.append("The IPAL model was marked incomplete: its search was cut.")
        return tuple(remarks)

    # -------------------------------------------------------------- native alarms

    def cusum(self, recording: Recording, *, preset: str = "export") -> CusumAlarms:
        """Return GeCo's own alarms: errors added up, formula by formula.

        Parameters
        ----------
        recording : Recording
            As for `residuals`.
        preset : {"export", "official"}
            Begin anew in each run, or go on through gaps as published.
        """
        if self.channels is None:
            raise StreamError(_NOT_FITTED)
        seen = unlabelled(recording)
        check_channels(seen, self.channels)
        settings: GeCoSettings = self._settings(preset)
        told = self._told(seen, settings)
        values, is_alarm = cusum_of(
            told.residuals,
            told.begins,
            self._formulas,
            threshold_factor=settings.threshold_factor,
            cusum_factor=settings.cusum_factor,
        )
        return CusumAlarms(
            values=values,
            is_alarm=is_alarm,
            index=told.index,
            channels=tuple(formula.target for formula in self._formulas),
        )

    def native_alarms(
        self, looked: Looked, *, rule: str | None = None, labels: Labels | None = None
    ) -> NativeAlarms | None:
        """Return GeCo's own alarms; its score is the CUSUM over the alarm level."""
        chosen = native_rule("geco", rule or "cusum")
        made = self.cusum(looked.test, preset=looked.preset)
        is_told = np.isin(made.index, looked.tested.index)
        factor = self.settings.threshold_factor
        levels = np.array([factor * one.threshold for one in self._formulas])
        return NativeAlarms(
            rule=chosen,
            score=(made.values / (levels + EPSILON)).max(axis=1)[is_told],
            alarms=np.asarray(made.is_alarm.any(axis=1))[is_told],
        )

    # ----------------------------------------------------------------------- files

    def save(self, path: str | Path) -> None:
        """Write what was learned to one file: numbers and text, no code."""
        if self.split is None and self._formulas:
            raise StreamError(
                "GeCo was read from an IPAL model and does not know its train: give "
                "`train` to `from_ipal`, or keep it with `to_ipal`."
            )
        super().save(path)

    def _arrays(self) -> Arrays:
        preprocessing, channels = self._preprocessing, self.channels
        if preprocessing is None or channels is None:
            raise StreamError(_NOT_FITTED)
        kept = [channels[k] for k in preprocessing.kept]
        return (
            preprocessing.arrays()
            | formula_arrays(self._formulas, kept)
            | {"is_incomplete": np.array(self._is_incomplete)}
        )

    def _restore(self, arrays: Arrays) -> None:
        preprocessing = Preprocessing.of_arrays(arrays)
        channels = self.channels or ()
        kept = [channels[k] for k in preprocessing.kept]
        self._preprocessing = preprocessing
        self._formulas = tuple(formulas_of(arrays, kept))
        self._is_incomplete = bool(arrays["is_incomplete"])

    def to_ipal(self, path: str | Path) -> None:
        """Write the formulas as a model file that IPAL's GeCo reads."""
        if not self._formulas or self.channels is None:
            raise StreamError(_NOT_FITTED)
        model = IpalModel(
            formulas=self._formulas,
            settings=self.settings.to_dict(),
            is_incomplete=self._is_incomplete,
        )
        write_ipal_model(Path(path), model)

    @classmethod
    def from_ipal(
        cls,
        path: str | Path,
        *,
        train: Recording | None = None,
        preset: str = "export",
        **settings: Any,
    ) -> Self:
        """Return a detector with the formulas of an IPAL model file.

        Parameters
        ----------
        path : path
            A model that IPAL's GeCo, or `to_ipal`, wrote.
        train : Recording, optional
            What it was trained on, or any of the same plant: tells the order of the
            channels, what stands in for missing cells, and which steps were fitted on.
            Without it recordings must have the file's channels in the file's order,
            the ignored ones last.
        preset : {"export", "official"}
            As for a detector that is yet to learn.
        **settings
            What the file does not hold, such as `every`: formulas are of rows, and of
            what steps a row was made must be known.
        """
        path = Path(path)
        model = read_ipal_model(path)
        made = cls(preset, **(dict(model.settings) | settings))
        channels = channels_of(model.formulas, made.settings.ignore, path, train)
        means = np.full(len(channels), np.nan)
        if train is not None:
            means = means_of(np.asarray(train.values, np.float64))
        made.channels = channels
        made._preprocessing = made._unscaled(channels, means)
        made._formulas = model.formulas
        made._is_incomplete = model.is_incomplete
        if train is not None:
            seen = made._preprocessing.train(
                unlabelled(train), made.settings.preprocessing(), np.float64
            )
            values = np.asarray(seen.values, np.float64)
            made.split = _split(
                seen, Transitions.of(values, seen.breaks, made.settings.fit_share)
            )
        return made


def _split(train: Scaled, transitions: Transitions) -> Split:
    steps = train.rows[transitions.rows]
    return Split(
        trained=steps[: transitions.n_fitted], held_out=steps[transitions.n_fitted :]
    )
