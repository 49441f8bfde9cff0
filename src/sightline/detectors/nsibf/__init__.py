"""NSIBF: a neural model of the plant inside a Bayesian filter (Feng and Tian, 2021)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from sightline.data.arrays import (
    ATTACK,
    NORMAL,
    Bools,
    Floats,
    Ints,
    Labels,
    as_array,
)
from sightline.data.recording import Recording, Role, Tag
from sightline.data.segments import run_bounds
from sightline.detectors.base import (
    Arrays,
    Residuals,
    RuleInput,
    Split,
    read_card,
    under,
)
from sightline.detectors.native_rules import (
    LabelThreshold,
    NativeAlarms,
    NativeRule,
    TestUse,
    checked_test_labels,
    needed_labels,
    rule_named,
)
from sightline.detectors.nsibf.filter import (
    Design,
    FilterRun,
    Form,
    Layers,
    Matrix,
    Repair,
    UnscentedFilter,
    covariance_of,
    design_of,
    drawn_sizes,
    filter_tracks,
    measurements,
    run_filters,
    smallest_ridge,
)
from sightline.detectors.preprocessing import RowWindows, ScaledRows, forecast_windows
from sightline.detectors.settings import (
    Count,
    Natural,
    NonNegative,
    Share,
    TrainedSettings,
)
from sightline.detectors.trained import TrainedDetector
from sightline.errors import StreamError
from sightline.progress import Progress, Step, StepKind

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn


ADJUSTED_STEPS = 10_000
# The published code adds this to denominators so that none is 0.
_GUARD = 1e-5

RULES = (
    NativeRule(
        "best-f1-on-test-labels",
        f"The best F1 score of {ADJUSTED_STEPS:,} thresholds after point adjustment on "
        "the labels of the test; no rule without labels is published.",
        (TestUse.STATISTICS, TestUse.LABELS),
    ),
)


def _above(thresholds: Floats, values: Floats, weights: Ints) -> Ints:
    """Return for each threshold the total weight of the values above it."""
    order = np.argsort(values)
    up_to = np.concatenate([[0], np.cumsum(weights[order])])
    n_below = np.searchsorted(values[order], thresholds, side="right")
    return np.asarray(up_to[-1] - up_to[n_below], np.int64)


def best_adjusted_threshold(
    scores: npt.ArrayLike, labels: npt.ArrayLike, n_thresholds: int = ADJUSTED_STEPS
) -> LabelThreshold:
    """Return the threshold of best F1 after point adjustment, as NSIBF reports it.

    Adjusted, an attack with one alarm has alarms in all of its rows but row 0 of the
    test, as published. One lucky row counts as a whole attack detected, so this serves
    only to compare with papers that do it.

    Parameters
    ----------
    scores : array-like of shape (n_rows,)
        A nan raises no alarm at any threshold and does not count for their range.
    labels : array-like of shape (n_rows,)
        1 attack, 0 normal; an alarm at a row labelled -1 is neither right nor wrong.
    n_thresholds : int
        Number of thresholds, equally spaced up to the 99.9 percentile of the scores.

    Returns
    -------
    LabelThreshold
    """
    score = checked_scores(scores)
    checked = checked_test_labels(labels, len(score))
    attack, normal = checked == ATTACK, checked == NORMAL
    finite = score[np.isfinite(score)]
    if len(finite) == 0:
        raise StreamError(
            "`scores` has no finite row, so there is no threshold to search for: give "
            "the scores of a filter that ran."
        )
    steps = np.arange(1, n_thresholds + 1) / n_thresholds
    thresholds = steps * float(np.percentile(finite, 99.9))
    highest = np.where(np.isnan(score), -np.inf, score)
    starts, stops = run_bounds(attack)
    lengths = stops - starts
    firsts = np.cumsum(lengths) - lengths  # without the rows between attacks
    of_attacks = np.maximum.reduceat(highest[attack], firsts)
    # Row 0 is never filled: it counts by its own score, apart from its attack.
    filled = stops - np.maximum(starts, 1)
    hits = _above(thresholds, of_attacks, filled)
    if attack[0]:
        hits = hits + (highest[0] > thresholds)
    false_alarms = _above(
        thresholds, highest[normal], np.ones(int(normal.sum()), np.int64)
    )
    n_attack = int(attack.sum())
    precision = hits / (hits + false_alarms + _GUARD)
    recall = hits / (n_attack + _GUARD)
    f1 = 2 * precision * recall / (precision + recall + _GUARD)
    best = int(np.argmax(f1))
    return LabelThreshold(
        *(float(figure[best]) for figure in (f1, precision, recall, thresholds))
    )


def checked_scores(scores: object) -> Floats:
    """Return float64 scores of shape (n_rows,), which may hold nan."""
    array = as_array(scores, "scores")
    if array.ndim != 1 or array.dtype.kind not in "iufb":
        raise StreamError(
            f"`scores` must be numbers of shape (rows,); got type {array.dtype} and "
            f"shape {array.shape}: give one score a row."
        )
    return np.asarray(array, np.float64)


def nsibf_alarms(
    test_scores: npt.ArrayLike,
    rule: str | None = None,
    labels: npt.ArrayLike | None = None,
) -> NativeAlarms:
    """Return NSIBF's alarms, or its score alone if no rule is named.

    Parameters
    ----------
    test_scores : array-like of shape (n_rows,)
        A nan, where the filter's covariance was invalid, stays nan and raises no
        alarm.
    rule : str, optional
        Name of one of `RULES`; there is no default, for no rule without labels is
        published.
    labels : array-like of shape (n_rows,), optional
        Of the test; used only if a rule is named.
    """
    score = checked_scores(test_scores)
    n_missing = int(np.isnan(score).sum())
    notices: tuple[str, ...] = ()
    if n_missing:
        notices = (f"{n_missing} of {len(score)} scores are nan and raise no alarm.",)
    if rule is None:
        return NativeAlarms(rule=None, score=score, notices=notices)
    chosen = rule_named(RULES, rule, "NSIBF")
    best = best_adjusted_threshold(score, needed_labels(labels, chosen))
    figures = (
        f"Chosen on the labels of the test: F1 {best.f1:.4f}, precision "
        f"{best.precision:.4f}, recall {best.recall:.4f}, all after point adjustment."
    )
    return NativeAlarms.above(best.threshold, chosen, score, (*notices, figures))


# Windows read by the LSTM at a time when nothing is learned, to bound the memory.
_AT_ONCE = 512


@dataclass(frozen=True, kw_only=True)
class NSIBFSettings(TrainedSettings):
    """Settings of NSIBF, beyond those of every trained detector.

    Parameters
    ----------
    window, input_range : int
        Rows of a measurement, and rows of covariates read before it.
    state : int, optional
        Size of the state; by default half the number of sensors.
    encoder_layers, transition_layers, transition_width, lstm_layers, lstm_width : int
        Sizes of the networks.
    penalty : float
        Weight of the squares of the states in the loss.
    noise_share : float
        Share of train at its end that the noise is estimated on; the network does not
        learn from it.
    search : int
        Number of sizes to draw; each is trained for `search_epochs`, and the one that
        forecasts the last part of train best is kept. 0 for the sizes as set.
    search_epochs : int
        How long each draw is trained.
    other_tags : {"leave", "use"}
        Leave out tags that are neither sensor nor actuator, or read them.
    most_levels : int
        An actuator with more levels than this in train is read as a number.
    per_row : bool
        Return a residual for every row, by as many filters as a window has rows, each
        a row later than the one before; else one for every window.
    form : {"whitened", "plain"}
        How the filter is computed; the numbers agree.
    repair : {"official", "corrected"}
        Which triangle of the root a repaired covariance gives.
    """

    window: Count = 12
    input_range: Count = 36
    state: Count | None = None
    encoder_layers: Count = 1
    transition_layers: Count = 1
    transition_width: Count = 128
    lstm_layers: Count = 1
    lstm_width: Count = 64
    penalty: NonNegative = 0.02
    noise_share: Annotated[
        float,
        Meta(
            gt=0,
            lt=1,
            description="between 0 and 1 (the filter's noise is estimated on that "
            "part of train)",
        ),
    ] = 0.25
    search: Natural = 0
    search_epochs: Count = 5
    other_tags: Literal["leave", "use"] = "leave"
    most_levels: Count = 20
    per_row: bool = False
    form: Form = "whitened"
    repair: Repair = "official"
    epochs: Count = 25
    batch_size: Count = 2048
    validation_share: Share = 0.1
    adam_eps: NonNegative = 1e-7
    keras_adam: bool = True
    weigh_windows: bool = True
    constant_channels: Literal["unit", "ratio", "epsilon", "keep", "drop"] = "keep"

    def __post_init__(self) -> None:
        """Check every field, and that recordings are scaled by train's range."""
        super().__post_init__()
        if self.test_scaling != "train":
            raise StreamError(
                "NSIBF scales every recording by train's range, because its noise is "
                "in these units: leave `test_scaling` at 'train'."
            )

    @property
    def reach(self) -> int:
        """Rows a window of measurements and covariates looks back."""
        return max(self.window, self.input_range)


class NSIBF(TrainedDetector):
    """Neural System Identification and Bayesian Filtering.

    Residuals are of the sensors alone: measured minus what the filter expected a window
    earlier. The roles of the recording's tags say which channels are sensors and which
    are actuators.

    Parameters
    ----------
    preset : {"export", "official"}
        How it learns; "official" lets windows run through gaps.
    testbed : str, optional
        Use the card's settings for this testbed.
    **overrides
        Any of `NSIBFSettings` by name.
    """

    card = read_card("nsibf")
    rules = RULES
    settings_type = NSIBFSettings
    official: ClassVar[Mapping[str, Any]] = {"cross_gaps": True}

    # Set by `fit`.
    design: Design | None = None
    state_noise: Floats | None = None
    measurement_noise: Floats | None = None
    ridge: float = 0.0
    chosen: Mapping[str, int | float] = MappingProxyType({})
    _forecast_error: float = np.inf

    # ------------------------------------------------------------------- learning

    def _learn(
        self, recording: Recording, progress: Progress, checkpoint: Path | None
    ) -> Split:
        self.settings, self.chosen = self._settings(self.preset), {}
        if self.settings.search:
            self._use_sizes(self._searched(recording, progress))
        return super()._learn(recording, progress, checkpoint)

    def _use_sizes(self, chosen: Any) -> None:
        """Set the sizes that a search chose."""
        self.chosen = chosen
        self.settings = replace(self.settings, **chosen)

    def _searched(
        self, recording: Recording, progress: Progress
    ) -> dict[str, int | float]:
        """Return the drawn sizes that forecast the last part of train best.

        Each draw is trained for `search_epochs`; only normal rows judge it.
        """
        asked: NSIBFSettings = self.settings
        sensors = sum(tag.role is Role.SENSOR for tag in recording.tags)
        rng = np.random.default_rng(asked.seed)
        least, best = np.inf, dict[str, int | float]()
        for draw in range(asked.search):
            sizes: Any = drawn_sizes(rng, sensors)
            self.settings = replace(
                asked, **sizes, search=0, epochs=asked.search_epochs
            )

            def report(step: Step, draw: int = draw) -> None:
                progress(
                    Step(
                        step.kind,
                        draw * step.total + step.done,
                        asked.search * step.total,
                        f"{step.detail}, draw {draw + 1} of {asked.search}",
                    )
                )

            super()._learn(recording, report, None)
            if self._forecast_error < least:
                least, best = self._forecast_error, sizes
        self.settings = asked
        if not best:
            raise StreamError(
                f"None of the {asked.search} drawn sizes could be trained: set them."
            )
        return best

    def _unscaled(self, tags: Sequence[Tag]) -> Bools:
        return np.array([tag.role is Role.ACTUATOR for tag in tags])

    def _designed(self, scaled: ScaledRows, tags: Sequence[Tag]) -> ScaledRows:
        """Choose the columns the network reads, and return train as covariate rows."""
        roles = [tag.role for tag in tags]
        self.design = design_of(
            scaled.values,
            roles,
            use_others=self.settings.other_tags == "use",
            most_levels=self.settings.most_levels,
        )
        if not len(self.design.sensors):
            raise StreamError(
                "NSIBF needs sensors, and no tag of the recording has the role "
                "'sensor': give its tags their roles."
            )
        return replace(scaled, values=self.design.apply(scaled.values))

    def _training_windows(
        self, scaled: ScaledRows, settings: NSIBFSettings
    ) -> RowWindows:
        """Return windows of covariates with the measurement that follows them."""
        return forecast_windows(
            scaled.values, scaled.breaks, settings.reach + settings.window
        )

    def _last_trained_row(self, windows: RowWindows) -> int:
        """Return the last row that the network learns from."""
        share = 1 - self.settings.noise_share
        return int(len(windows.values) * share)

    def _divided(self, windows: RowWindows) -> tuple[Ints, Ints]:
        """Return windows to train on and to judge by, all before the noise rows."""
        settings: NSIBFSettings = self.settings
        usable = np.flatnonzero(windows.steps <= self._last_trained_row(windows))
        usable = usable[:: settings.stride]
        n_trained = int(len(usable) * (1 - settings.validation_share))
        noise = windows.starts >= self._last_trained_row(windows)
        if n_trained < 2 or noise.sum() < 2:
            raise StreamError(
                f"Train gives {n_trained} windows of {windows.length} rows to learn "
                f"from and {int(noise.sum())} to estimate the noise on: NSIBF needs at "
                "least 2 of each; give it a longer recording, or lower `every`."
            )
        return usable[:n_trained], usable[n_trained:]

    def _split(
        self, scaled: ScaledRows, windows: RowWindows, trained: Ints, held_out: Ints
    ) -> Split:
        """Return the rows of the network, and those the noise was estimated on."""
        last = self._last_trained_row(windows)
        return Split(trained=scaled.rows[: last + 1], held_out=scaled.rows[last + 1 :])

    def _build(self, tags: Sequence[Tag] = ()) -> "nn.Module":
        """Return a fresh network of the sizes set."""
        from sightline.detectors.nsibf.network import NSIBFNetwork

        design, state = self._fitted(self.design), self.settings.state
        sensors = len(design.sensors)
        return NSIBFNetwork(
            sensors,
            design.n_inputs,
            state=max(1, sensors // 2) if state is None else state,
            **self._chosen("window", "encoder_layers", "transition_layers"),
            **self._chosen("transition_width", "lstm_layers", "lstm_width"),
        )

    def _parts(self, batch: "Tensor") -> "tuple[Tensor, Tensor, Tensor]":
        """Return measurement, covariates and next measurement of windows.

        Of shapes (batch, sensors * window), (batch, input_range, inputs) and (batch,
        sensors * window).
        """
        settings: NSIBFSettings = self.settings
        reach, window = settings.reach, settings.window
        sensors = len(self._fitted(self.design).sensors)
        measured = batch[:, :sensors, reach - window : reach].flatten(1)
        read = batch[:, :, reach - settings.input_range : reach].transpose(1, 2)
        return measured, read, batch[:, :sensors, reach:].flatten(1)

    def loss(self, network: Any, batch: "Tensor", epoch: int) -> "Tensor":
        """Return the published loss of a batch; see `NSIBFNetwork.loss`."""
        return network.loss(*self._parts(batch), self.settings.penalty).total  # type: ignore[no-any-return]

    def _finish(
        self, windows: RowWindows, device: "torch.device", progress: Progress
    ) -> None:
        """Estimate the noise on the last part of train.

        The state noise Q is the covariance of predicted minus encoded states, the
        measurement noise R that of reconstruction minus measurement.
        """
        import torch

        from sightline.detectors.networks import WindowTensor

        network: Any = self._fitted(self.network)
        network.eval()
        which = np.flatnonzero(windows.starts >= self._last_trained_row(windows))
        data = WindowTensor(windows, device)
        transitions, reconstructions, errors = [], [], []
        with torch.inference_mode():
            for part in torch.from_numpy(which).split(_AT_ONCE):
                x, u, y = self._parts(data[part])
                now = network.encode(x)
                following = network.step(now, u)
                transitions.append((following - network.encode(y)).cpu().numpy())
                reconstructions.append((network.h(now) - x).cpu().numpy())
                squares = (network.h(following) - y) ** 2
                errors.append(squares.mean(1).cpu().numpy())
                done, total = int(part[-1]), int(which[-1])
                progress(Step(StepKind.TRAINING, done, total, "NSIBF, noise"))
        self._forecast_error = float(np.concatenate(errors).mean())
        self.state_noise = covariance_of(transitions)
        noise = covariance_of(reconstructions)
        self.ridge = smallest_ridge(noise)
        self.measurement_noise = noise + self.ridge * np.eye(len(noise))

    # ------------------------------------------------------------------ residuals

    def _look_back(self, settings: NSIBFSettings) -> None:
        """Return None: a filter carries its state along the whole run."""

    def _run_length(self, settings: NSIBFSettings) -> int:
        return settings.reach + settings.window

    def _residuals(
        self, recording: Recording, settings: NSIBFSettings, progress: Progress
    ) -> Residuals:
        """Run the filters along a recording; return innovations of the newest rows."""
        from sightline.detectors.networks import computing

        preprocessing = self._fitted(self._preprocessing)
        design = self._fitted(self.design)
        seen = preprocessing.test(recording, settings, self.settings.precision)
        scaled = replace(seen, values=design.apply(seen.values))
        tracks = filter_tracks(
            scaled.breaks,
            len(scaled.values),
            window=settings.window,
            reach=settings.reach,
            per_row=settings.per_row,
        )
        if not tracks:
            raise StreamError(
                f"The recording has no run of {self._run_length(settings)} rows, "
                "which NSIBF needs for a residual: give it a longer one."
            )
        with computing(settings) as device:
            run = self._filtered(scaled.values, tracks, settings, device, progress)
        rows = np.concatenate([track[1:] for track in tracks])
        order = np.argsort(rows, kind="stable")
        kept = preprocessing.kept[design.sensors]
        spacing = scaled.every * (1 if settings.per_row else settings.window)
        return Residuals(
            values=run.values[order],
            index=scaled.rows[rows[order]],
            channels=tuple(recording.channels[column] for column in kept),
            space=self.card.space,
            every=scaled.every,
            spacing=spacing,
            score=run.score[order],
            scale=scaled.scale[design.sensors],
            notices=(
                *scaled.notices,
                *design.remarks(seen.values, recording.tags, preprocessing.kept),
                *self._filter_remarks(run),
            ),
        )

    def _filtered(
        self,
        values: Matrix,
        tracks: list[Ints],
        settings: NSIBFSettings,
        device: "torch.device",
        progress: Progress,
    ) -> FilterRun:
        """Return the results of the filters on covariate rows.

        Parameters
        ----------
        values : array of shape (n_rows, n_inputs)
            Covariate rows, sensors first.
        tracks : list of array of int
            Rows at which each filter steps, the longest first.
        settings : NSIBFSettings
            Under the preset of the residuals.
        device : torch.device
            For the LSTM; the filters run in numpy.
        progress : callable
            Called with a `Step`.
        """
        network: Any = self._fitted(self.network)
        network.eval().to(device)
        weights = network.keras_arrays()
        lstm = 3 * network.lstm.num_layers
        filters = UnscentedFilter(
            weights["f"][lstm:],
            weights["h"],
            self._fitted(self.state_noise),
            self._fitted(self.measurement_noise),
            form=settings.form,
            repair=settings.repair,
        )
        encoder = Layers.of(weights["g"])
        sensors = len(self._fitted(self.design).sensors)
        measured = measurements(values, sensors, settings.window)

        def first_states(rows: Ints) -> Floats:
            x = measured(rows).astype(filters.dtype)
            return np.tanh(encoder(x)).astype(np.float64)

        codes = [self._codes(network, values, track, device) for track in tracks]
        return run_filters(
            filters,
            tracks,
            window=settings.window,
            codes=[filters.code_part(code) for code in codes],
            measured=measured,
            first_states=first_states,
            progress=progress,
        )

    def _codes(
        self, network: Any, values: Matrix, track: Ints, device: "torch.device"
    ) -> Matrix:
        """Return the LSTM's codes for all windows of a track but the last."""
        import torch

        length = self.settings.input_range
        view = torch.from_numpy(values).unfold(0, length, 1)
        starts = torch.from_numpy(track[:-1] - length + 1)
        with torch.inference_mode():
            read = [
                network.read(view[part].transpose(1, 2).to(device)).cpu().numpy()
                for part in starts.split(_AT_ONCE)
            ]
        return np.concatenate(read)

    def _filter_remarks(self, run: FilterRun) -> tuple[str, ...]:
        """Return sentences on what went wrong in the filters."""
        remarks = []
        repaired, lost = int(run.is_repaired.sum()), int(run.is_lost.sum())
        if self.ridge:
            remarks.append(
                f"A ridge of {self.ridge:.2g} was added to NSIBF's measurement noise, "
                "which did not factor."
            )
        if repaired:
            remarks.append(
                f"NSIBF's state covariance was repaired in {repaired:,} of "
                f"{len(run.score):,} steps."
            )
        if lost:
            remarks.append(
                f"NSIBF's filter could not continue after {lost:,} steps and restarted "
                "from the measurement."
            )
        if unscored := int(np.isnan(run.score).sum()):
            remarks.append(
                f"Steps without a score: {unscored:,} (its square was negative, which "
                "an indefinite covariance allows, or not finite)."
            )
        return tuple(remarks)

    def native_alarms(
        self, given: RuleInput, *, rule: str | None = None, labels: Labels | None = None
    ) -> NativeAlarms | None:
        """Return NSIBF's score, and alarms if a rule is named; see `nsibf_alarms`."""
        return nsibf_alarms(self._fitted(given.test_residuals.score), rule, labels)

    # --------------------------------------------------------------------- saving

    def about(self) -> dict[str, object]:
        """Return what is needed to make the same detector again; JSON can hold it."""
        return super().about() | {"ridge": self.ridge, "chosen": dict(self.chosen)}

    def _rebuild(self, weights: Arrays) -> "nn.Module":
        from sightline.detectors.networks import load_weights

        return load_weights(self._build(), weights)

    def _arrays(self) -> Arrays:
        design = self._fitted(self.design)
        joined = [np.empty(0), *design.levels]
        return super()._arrays() | {
            "sensors": design.sensors,
            "actuators": design.actuators,
            "numbers": design.numbers,
            "levels": np.concatenate(joined),
            "level_counts": np.array([len(one) for one in design.levels], np.int64),
            "state_noise": self._fitted(self.state_noise),
            "measurement_noise": self._fitted(self.measurement_noise),
            "ridge": np.array(self.ridge),
            **{f"chosen/{name}": np.array(v) for name, v in self.chosen.items()},
        }

    def _restore(self, arrays: Arrays) -> None:
        ends = np.cumsum(arrays["level_counts"])
        self.design = Design(
            arrays["sensors"],
            arrays["actuators"],
            tuple(np.split(arrays["levels"], ends)[:-1]),
            arrays["numbers"],
        )
        if not self.design.sensors.size:
            raise ValueError("sensors")
        self.state_noise = arrays["state_noise"]
        self.measurement_noise = arrays["measurement_noise"]
        self.ridge = float(arrays["ridge"])
        chosen = under("chosen/", arrays)
        self._use_sizes({name: array.item() for name, array in chosen.items()})
        super()._restore(arrays)
