"""GeCo: each channel explained by a formula of a few others (Wolsing et al., 2025).

`formulas` has the formulas, the transitions they are fitted to and IPAL's model files;
`search` judges all candidates at once, chooses the best and can be interrupted. The
detector combines them and raises the alarms.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from msgspec import Meta

from sightline.data.arrays import Bools, Floats, Ints, Labels
from sightline.data.recording import Recording
from sightline.detectors.base import (
    Arrays,
    LearnedDetector,
    Residuals,
    RuleInput,
    Split,
    check_channels,
    fingerprint_of,
    read_card,
    unlabelled,
)
from sightline.detectors.geco.formulas import (
    MOST_INPUTS,
    Formula,
    IpalModel,
    Transitions,
    channels_of,
    formula_arrays,
    formulas_of,
    observed_minus_expected,
    predicted_rows,
    read_ipal_model,
    write_ipal_model,
)
from sightline.detectors.geco.search import BLOCK, N_BEST, SearchState, find_formulas
from sightline.detectors.native_rules import NativeAlarms, NativeRule, rule_named
from sightline.detectors.preprocessing import (
    Preprocessing,
    ScaledRows,
    Scaling,
    means_of,
)
from sightline.detectors.settings import (
    Natural,
    NonNegative,
    PreprocessingSettings,
    RowSettings,
)
from sightline.errors import StreamError
from sightline.progress import Progress, Step, StepKind
from sightline.text import names

# Added to the slack of the CUSUM when it runs, as published.
EPSILON = 1e-10

RULES = (
    NativeRule(
        "cusum",
        "A sum of what exceeds the drift of each invariant, against its threshold; any "
        "invariant raises the alarm.",
    ),
)


@dataclass(frozen=True, kw_only=True, eq=False)
class CusumAlarms:
    """The accumulated errors of each formula, and its alarms.

    Parameters
    ----------
    values : array of shape (n_rows, n_formulas)
        The CUSUM: 0 where nothing is wrong, at most its cap.
    is_alarm : array of shape (n_rows, n_formulas)
        Whether it is above its level; any of a row is an alarm of the detector.
    index : array of shape (n_rows,)
        Step of the recording.
    channels : tuple of str
        Targets of the formulas.
    """

    values: Floats
    is_alarm: Bools
    index: Ints
    channels: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class GeCoSettings(RowSettings):
    """Settings of GeCo; values stay in the plant's units.

    Parameters
    ----------
    ignore : tuple of str
        Channels that are neither predicted nor used to predict.
    max_inputs : int
        How many other channels a formula may have: 0 to 3.
    fit_share : float
        Share of train, from its beginning, that formulas are fitted on.
    threshold_factor, cusum_factor : float
        Of the native alarm: its level in multiples of train's largest CUSUM, and how
        far above it the CUSUM may grow, in multiples of the drift.
    search : {"closed form", "curve_fit"}
        From inner products, or each candidate by scipy's optimiser as published.
    precision : {"float64", "float32"}
        Of the inner products of products in the search.
    missing : {"hold", "mean"}
        A missing cell takes the last value before it (else train's mean), or the mean
        of the same recording, which looks ahead.
    cross_gaps : bool
        Treat steps through a gap as ordinary ones, as published code does.
    seed : int
        Not used, for nothing is random; accepted so that every detector has it.
    """

    ignore: Annotated[tuple[str, ...], Meta(description="names of channels")] = ()
    max_inputs: Natural = MOST_INPUTS
    fit_share: Annotated[float, Meta(ge=0, le=1)] = 0.8
    threshold_factor: NonNegative = 1.1
    cusum_factor: NonNegative = 2.0
    search: Literal["closed form", "curve_fit"] = "closed form"
    precision: Literal["float64", "float32"] = "float64"
    missing: Literal["hold", "mean"] = "hold"
    cross_gaps: bool = False
    seed: Natural = 0

    def __post_init__(self) -> None:
        """Check every field; one name alone may be ignored as text."""
        if isinstance(self.ignore, str):
            object.__setattr__(self, "ignore", (self.ignore,))
        super().__post_init__()
        if self.max_inputs > MOST_INPUTS:
            raise StreamError(
                f"`max_inputs` must be {MOST_INPUTS} or less, for the search goes no "
                f"further; got {self.max_inputs}."
            )

    def preprocessing(self) -> PreprocessingSettings:
        """Return the settings of the common preprocessing; values are never scaled."""
        shared = {field.name for field in fields(PreprocessingSettings)}
        return PreprocessingSettings(
            **{name: value for name, value in vars(self).items() if name in shared}
        )


class GeCo(LearnedDetector):
    """Formulas found by a complete search: the next value of each channel.

    A formula has the target's last value and up to three other channels, added or
    multiplied; of all candidates the one with the least squared error is kept.

    Parameters
    ----------
    preset : {"export", "official"}
        "official" treats steps through gaps as ordinary ones, as published.
    testbed : str, optional
        Use the published ignore list and factors for this testbed.
    **overrides
        Any of `GeCoSettings` by name.

    Examples
    --------
    >>> GeCo(testbed="batadal").settings.ignore
    ('P_J280',)
    """

    card = read_card("geco")
    rules = RULES
    settings_type = GeCoSettings
    official: ClassVar[Mapping[str, Any]] = {"cross_gaps": True}

    _preprocessing: Preprocessing | None = None
    # One for each channel that is not ignored.
    formulas: tuple[Formula, ...] = ()
    _is_incomplete: bool = False

    def printed(self) -> list[str]:
        """Return the formulas as text, such as ``L1 = 0.99 L1 + 0.5 P1 - 1.2``."""
        return [str(formula) for formula in self.formulas]

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
        state = None
        if checkpoint is not None:
            # The number of blocks done means nothing without their size.
            facts = [transitions.n_fitted, asdict(settings), N_BEST, BLOCK]
            fingerprint = fingerprint_of(
                (transitions.values, transitions.rows), [*facts, self.card.version]
            )
            state = SearchState.stored(checkpoint, fingerprint, channels)
        formulas = find_formulas(
            transitions,
            channels,
            max_inputs=settings.max_inputs,
            search=settings.search,
            precision=settings.precision,
            progress=progress,
            state=state,
        )
        self._preprocessing, self.formulas = preprocessing, tuple(formulas)
        self._is_incomplete = False
        return _split(train, transitions)

    def _unscaled(self, channels: Sequence[str], means: Floats) -> Preprocessing:
        """Return the common preprocessing with all scales 1, without ignored ones."""
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
        residuals, _ = self._formula_residuals(recording, settings)
        progress(Step(StepKind.RESIDUALS, 1, 1, "by GeCo"))
        return residuals

    def _look_back(self, settings: Any) -> int:
        return 1

    def _formula_residuals(
        self, recording: Recording, settings: GeCoSettings
    ) -> tuple[Residuals, Bools]:
        """Return the residuals of all formulas, and the rows at which a run begins."""
        preprocessing = self._fitted(self._preprocessing)
        scaled = preprocessing.test(recording, settings.preprocessing(), np.float64)
        values = np.asarray(scaled.values, np.float64)
        if np.isnan(preprocessing.means).any() and not np.isfinite(values).all():
            raise StreamError(
                "The recording lacks values at the beginning of a run, and the IPAL "
                "model does not hold train's means: give `train` to `from_ipal`."
            )
        rows, begins = predicted_rows(len(values), scaled.breaks)
        if not len(rows):
            raise StreamError(
                "No run of the recording has 2 rows, which GeCo needs: give a longer "
                "recording."
            )
        channels = [recording.channels[k] for k in preprocessing.kept]
        residuals = Residuals(
            values=observed_minus_expected(self.formulas, channels, values, rows),
            index=scaled.rows[rows],
            channels=tuple(formula.target for formula in self.formulas),
            space=self.card.space,
            every=scaled.every,
            scale=np.ones(len(self.formulas)),
            notices=(*scaled.notices, *self._remarks(recording)),
        )
        return residuals, begins

    def _remarks(self, recording: Recording) -> tuple[str, ...]:
        """Return sentences about settings that could not be followed."""
        absent = [n for n in self.settings.ignore if n not in recording.channels]
        remarks = []
        if absent:
            remarks.append(
                f"To be ignored, but not in the recording: {names(absent, 3)}."
            )
        asked = self.settings.max_inputs
        most = len(set(recording.channels) - set(self.settings.ignore)) - 1
        # For a model without its train the searched channels are unknown.
        if self.split is not None and asked > most:
            remarks.append(
                f"`max_inputs` was lowered from {asked} to {most}, for a formula can "
                "have no more than all other channels."
            )
        if self._is_incomplete:
            remarks.append(
                "The IPAL model was marked incomplete: its search was interrupted."
            )
        return tuple(remarks)

    # -------------------------------------------------------------- native alarms

    def cusum(self, recording: Recording, *, preset: str = "export") -> CusumAlarms:
        """Return GeCo's own alarms: accumulated errors, formula by formula.

        Parameters
        ----------
        recording : Recording
            As for `residuals`.
        preset : {"export", "official"}
            Restart in each run, or continue through gaps as published.
        """
        from sightline._kernels.formulas import cusum_alarms

        channels = self._fitted(self.channels)
        unseen = unlabelled(recording)
        check_channels(unseen, channels)
        settings: GeCoSettings = self._settings(preset)
        residuals, begins = self._formula_residuals(unseen, settings)
        drifts = np.array([formula.drift for formula in self.formulas])
        # The alarm level, and the cap of the CUSUM above it.
        levels = settings.threshold_factor * np.array(
            [formula.threshold for formula in self.formulas]
        )
        caps = levels + settings.cusum_factor * drifts + EPSILON
        errors = np.asarray(residuals.values, np.float64)
        values, is_alarm = np.empty_like(errors), np.empty(errors.shape, np.bool_)
        cusum_alarms(errors, begins, drifts, EPSILON, levels, caps, values, is_alarm)
        return CusumAlarms(
            values=values,
            is_alarm=is_alarm,
            index=residuals.index,
            channels=residuals.channels,
        )

    def native_alarms(
        self, given: RuleInput, *, rule: str | None = None, labels: Labels | None = None
    ) -> NativeAlarms | None:
        """Return GeCo's own alarms; its score is the CUSUM over the alarm level."""
        chosen = rule_named(RULES, rule or "cusum", self.card.title)
        cusum = self.cusum(given.test, preset=given.preset)
        is_row = np.isin(cusum.index, given.test_residuals.index)
        factor = self.settings.threshold_factor
        levels = np.array([factor * one.threshold for one in self.formulas])
        return NativeAlarms(
            rule=chosen,
            score=(cusum.values / (levels + EPSILON)).max(axis=1)[is_row],
            alarms=np.asarray(cusum.is_alarm.any(axis=1))[is_row],
        )

    # ----------------------------------------------------------------------- files

    def save(self, path: str | Path) -> None:
        """Write what was learned to one npz file: numbers and text, no code."""
        if self.split is None and self.formulas:
            raise StreamError(
                "GeCo was read from an IPAL model and does not know its train: give "
                "`train` to `from_ipal`, or write it with `to_ipal`."
            )
        super().save(path)

    def _arrays(self) -> Arrays:
        preprocessing = self._fitted(self._preprocessing)
        channels = self._fitted(self.channels)
        kept = [channels[k] for k in preprocessing.kept]
        return (
            preprocessing.arrays()
            | formula_arrays(self.formulas, kept)
            | {"is_incomplete": np.array(self._is_incomplete)}
        )

    def _restore(self, arrays: Arrays) -> None:
        preprocessing = Preprocessing.of_arrays(arrays)
        channels = self.channels or ()
        kept = [channels[k] for k in preprocessing.kept]
        self._preprocessing = preprocessing
        self.formulas = tuple(formulas_of(arrays, kept))
        self._is_incomplete = bool(arrays["is_incomplete"])

    def to_ipal(self, path: str | Path) -> None:
        """Write the formulas as a model file that IPAL's GeCo reads."""
        self._fitted(self.channels)
        model = IpalModel(self.formulas, self.settings.to_dict(), self._is_incomplete)
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
            What it was trained on, or any of the same plant: gives the order of the
            channels, the values for missing cells, and the steps fitted on. Without it
            recordings must have the file's channels in the file's order, the ignored
            ones last.
        preset : {"export", "official"}
            As for a detector that is yet to be fitted.
        **settings
            What the file does not hold, such as `every`, the number of steps that one
            row of the formulas was made of.
        """
        path = Path(path)
        model = read_ipal_model(path)
        detector = cls(preset, **(dict(model.settings) | settings))
        channels = channels_of(model.formulas, detector.settings.ignore, path, train)
        means = np.full(len(channels), np.nan)
        if train is not None:
            means = means_of(np.asarray(train.values, np.float64))
        detector.channels = channels
        detector._preprocessing = detector._unscaled(channels, means)
        detector.formulas = model.formulas
        detector._is_incomplete = model.is_incomplete
        if train is not None:
            scaled = detector._preprocessing.train(
                unlabelled(train), detector.settings.preprocessing(), np.float64
            )
            values = np.asarray(scaled.values, np.float64)
            share = detector.settings.fit_share
            made = Transitions.of(values, scaled.breaks, share)
            detector.split = _split(scaled, made)
        return detector


def _split(train: ScaledRows, transitions: Transitions) -> Split:
    """Return the steps of train that formulas were fitted on, and the others."""
    steps = train.rows[transitions.rows]
    return Split(
        trained=steps[: transitions.n_fitted], held_out=steps[transitions.n_fitted :]
    )
