"""NSIBF: a neural model of the plant inside a Bayesian filter (Feng and Tian, 2021)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from sightline.data.arrays import Bools, Floats, Ints, Labels
from sightline.data.recording import Recording, Tag
from sightline.detectors.base import DetectorCard, Looked, Residuals, Split
from sightline.detectors.native_rules.rules import NativeAlarms, nsibf_alarms
from sightline.detectors.nsibf.design import (
    Design,
    Found,
    Matrix,
    design_of,
    filter_tracks,
    measurements,
)
from sightline.detectors.nsibf.filter import (
    FIRST_VARIANCE,
    Form,
    Layers,
    Repair,
    UnscentedFilter,
)
from sightline.detectors.preprocessing import Scaled
from sightline.detectors.saving import Arrays
from sightline.detectors.settings import (
    Settings,
    check_at_least,
    check_choice,
    check_whole,
)
from sightline.detectors.trained import TrainedDetector
from sightline.detectors.trained_settings import TrainedSettings
from sightline.detectors.windows import Windows, forecast_windows
from sightline.errors import StreamError
from sightline.progress import Progress, Step, StepKind

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

# Windows read by the LSTM at a time; what is kept of them is small.
_AT_ONCE = 256
# Ridges tried on a covariance that does not factor, as shares of its mean diagonal.
_RIDGES = (0.0, *(10.0**-k for k in range(12, 0, -2)))
# Settings that a search draws, and from between which numbers.
_DRAWN_LAYERS, _DRAWN_WIDTHS, _DRAWN_PENALTY = (1, 3), (32, 256), (0.0, 0.05)


@dataclass(frozen=True, kw_only=True)
class NSIBFSettings(TrainedSettings):
    """What NSIBF can be told, beyond what every trained detector can.

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
        Last part of train, which the network does not learn from and the noise is
        estimated on.
    search : int
        Draw so many sizes, train each for `search_epochs`, and keep the one that
        forecasts the last part of train best; 0 to take them as set.
    search_epochs : int
        How long each draw is trained.
    other_tags : {"leave", "use"}
        Leave tags that are neither sensor nor actuator out, or let them be read.
    most_levels : int
        An actuator with more levels than that in train is read as a number.
    per_row : bool
        Give a row for every row, by as many filters as a window has rows, each a row
        later than the one before; else one for every window.
    form : {"whitened", "plain"}
        How the filter is computed; the numbers agree.
    repair : {"official", "corrected"}
        Which triangle of the root a repaired covariance gives.
    """

    window: int = 12
    input_range: int = 36
    state: int | None = None
    encoder_layers: int = 1
    transition_layers: int = 1
    transition_width: int = 128
    lstm_layers: int = 1
    lstm_width: int = 64
    penalty: float = 0.02
    noise_share: float = 0.25
    search: int = 0
    search_epochs: int = 5
    other_tags: Literal["leave", "use"] = "leave"
    most_levels: int = 20
    per_row: bool = False
    form: Form = "whitened"
    repair: Repair = "official"
    epochs: int = 25
    batch_size: int = 2048
    validation_share: float = 0.1
    adam_eps: float = 1e-7
    keras_adam: bool = True
    constant_channels: Literal["unit", "ratio", "epsilon", "keep", "drop"] = "keep"

    def __post_init__(self) -> None:
        """Refuse what is not an option."""
        super().__post_init__()
        check_whole(self, 1, "window", "input_range", "encoder_layers", "lstm_layers")
        check_whole(self, 1, "transition_layers", "transition_width", "lstm_width")
        check_whole(self, 1, "search_epochs", "most_levels")
        check_whole(self, 0, "search")
        if self.state is not None:
            check_whole(self, 1, "state")
        check_at_least(self, 0, "penalty")
        check_choice(self, "other_tags", ("leave", "use"))
        check_choice(self, "form", ("whitened", "plain"))
        check_choice(self, "repair", ("official", "corrected"))
        if self.test_scaling != "train":
            raise StreamError(
                "NSIBF scales every recording by train's range, for its noise is in "
                "these units: leave `test_scaling` at 'train'."
            )
        if not 0 < self.noise_share < 1:
            raise StreamError(
                f"`noise_share` must be between 0 and 1; got {self.noise_share}: the "
                "filter's noise is estimated on that part of train."
            )

    @property
    def reach(self) -> int:
        """Rows a window of measurements and covariates looks back."""
        return max(self.window, self.input_range)


class NSIBF(TrainedDetector):
    """Neural System Identification and Bayesian Filtering.

    Residuals are of the sensors alone: what was measured minus what the filter expected
    a window earlier. Sensors and actuators are told apart by the recording's tags.

    Parameters
    ----------
    preset : {"export", "official"}
        How it learns; "official" lets windows run through gaps.
    testbed : str, optional
        Take the card's settings for this testbed.
    **overrides
        Any of `NSIBFSettings` by name.
    """

    card: ClassVar[DetectorCard] = DetectorCard(
        name="nsibf",
        title="NSIBF",
        paper="C. Feng and P. Tian, Time Series Anomaly Detection for Cyber-Physical "
        "Systems via Neural System Identification and Bayesian Filtering, KDD 2021",
        kind="forecast by a neural state-space model in an unscented filter",
        space="sensor",
        extra="detectors",
        faithful=(
            "Networks, initialisation, loss, Adam in Keras' form, noise estimation and "
            "filter are those of the published code (commit 5aa28d7), its repair of "
            "covariances included.",
            "The network learns from the first three quarters of train, the noise from "
            "the last.",
        ),
        deviates=(
            "The filter is computed in whitened form, which gives the same numbers "
            "without the covariance of a whole window (form 'plain' builds it).",
            "The exported residual is that of a window's newest row, of which nothing "
            "later than a window before was known.",
            "A filter whose covariance cannot be repaired is started anew from the "
            "measurement, and told; its score is nan, never 0.",
            "A covariance R that does not factor gets the least ridge that lets it.",
            "Outside SWaT and WADI sizes are fixed or found by a search judged on "
            "normal data alone; the published search uses made-up anomalies.",
            "Windows begin anew at gaps (preset 'official': they do not).",
        ),
        settings={
            "swat": {
                "every": 5,
                "sampling": "by-role",
                "state": 1,
                "transition_layers": 3,
                "transition_width": 120,
                "lstm_layers": 2,
                "lstm_width": 92,
                "penalty": 0.020404,
            },
            "wadi": {
                "every": 5,
                "sampling": "by-role",
                "state": 101,
                "encoder_layers": 3,
                "transition_width": 188,
                "lstm_width": 113,
                "penalty": 0.020503,
                "epochs": 50,
                "batch_size": 4096,
            },
            "hai": {"every": 5, "sampling": "by-role", "other_tags": "use"},
            "waterworks": {"every": 5, "sampling": "by-role"},
            "batadal": {"window": 4, "input_range": 12, "batch_size": 256},
        },
        sources={
            "swat": "the shipped weights; rows of 5 s (sensors: median, others: last)",
            "wadi": "the shipped weights; rows of 5 s; the whole test trace",
            "hai": "none published: fixed sizes, or search=10 (our choice)",
            "waterworks": "none published: fixed sizes, or search=10 (our choice)",
            "batadal": "hourly rows, shorter windows (our choice)",
        },
    )
    settings_type: ClassVar[type[Settings]] = NSIBFSettings
    official: ClassVar[dict[str, Any]] = {"cross_gaps": True}

    def __init__(
        self, preset: str = "export", *, testbed: str | None = None, **overrides: Any
    ) -> None:
        super().__init__(preset, testbed=testbed, **overrides)
        self.design: Design | None = None
        self.state_noise: Floats | None = None
        self.measurement_noise: Floats | None = None
        self.ridge = 0.0
        self._forecast_error = np.inf
        self.chosen: dict[str, Any] = {}

    # Learning

    def _learn(
        self, recording: Recording, progress: Progress, checkpoint: Path | None
    ) -> Split:
        self.settings, self.chosen = self._settings(self.preset), {}
        if self.settings.search:
            self.chosen = self._searched(recording, progress)
            self.settings = replace(self.settings, **self.chosen)
        return super()._learn(recording, progress, checkpoint)

    def _searched(self, recording: Recording, progress: Progress) -> dict[str, Any]:
        """Return the drawn sizes that forecast the last part of train best."""
        asked: NSIBFSettings = self.settings
        sensors = sum(tag.role == "sensor" for tag in recording.tags)
        rng = np.random.default_rng(asked.seed)
        least, best = np.inf, dict[str, Any]()
        for draw in range(asked.search):
            sizes = drawn_sizes(rng, sensors)
            self.settings = replace(
                asked, **sizes, search=0, epochs=asked.search_epochs
            )

            def tell(step: Step, draw: int = draw) -> None:
                progress(
                    Step(
                        step.kind,
                        draw * step.total + step.done,
                        asked.search * step.total,
                        f"{step.detail}, draw {draw + 1} of {asked.search}",
                    )
                )

            super()._learn(recording, tell, None)
            if self._forecast_error < least:
                least, best = self._forecast_error, sizes
        self.settings = asked
        if not best:
            raise StreamError(
                f"None of the {asked.search} drawn sizes could be trained: set them."
            )
        return best

    def _unscaled(self, tags: Sequence[Tag]) -> Bools:
        return np.array([tag.role == "actuator" for tag in tags])

    def _designed(self, scaled: Scaled, tags: Sequence[Tag]) -> Scaled:
        roles = [tag.role for tag in tags]
        self.design = design_of(
            scaled.values,
            roles,
            use_others=self.settings.other_tags == "use",
            most_levels=self.settings.most_levels,
        )
        if not len(self.design.sensors):
            raise StreamError(
                "NSIBF looks at sensors, and no tag of the recording has the role "
                "'sensor': give its tags their roles."
            )
        return replace(scaled, values=self.design.apply(scaled.values))

    def _training_windows(self, scaled: Scaled, settings: NSIBFSettings) -> Windows:
        return forecast_windows(
            scaled.values, scaled.breaks, settings.reach + settings.window
        )

    def _last_trained_row(self, windows: Windows) -> int:
        """Return the row that ends what the network learns from."""
        kept = 1 - self.settings.noise_share
        return int(len(windows.values) * kept)

    def _divided(self, windows: Windows) -> tuple[Ints, Ints]:
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
        self, scaled: Scaled, windows: Windows, trained: Ints, held_out: Ints
    ) -> Split:
        last = self._last_trained_row(windows)
        return Split(trained=scaled.rows[: last + 1], held_out=scaled.rows[last + 1 :])

    def _build(self, tags: Sequence[Tag]) -> "nn.Module":
        return self._network(self.settings)

    def _network(self, settings: NSIBFSettings) -> "nn.Module":
        from sightline.detectors.nsibf.network import NSIBFNetwork

        design = self._known(self.design)
        sensors = len(design.sensors)
        state = settings.state
        return NSIBFNetwork(
            sensors,
            design.n_inputs,
            window=settings.window,
            state=max(1, sensors // 2) if state is None else state,
            encoder_layers=settings.encoder_layers,
            transition_layers=settings.transition_layers,
            transition_width=settings.transition_width,
            lstm_layers=settings.lstm_layers,
            lstm_width=settings.lstm_width,
        )

    def _parts(self, batch: "Tensor") -> "tuple[Tensor, Tensor, Tensor]":
        """Return measurement, covariates and next measurement of windows."""
        settings: NSIBFSettings = self.settings
        reach, window = settings.reach, settings.window
        sensors = len(self._known(self.design).sensors)
        measured = batch[:, :sensors, reach - window : reach].flatten(1)
        read = batch[:, :, reach - settings.input_range : reach].transpose(1, 2)
        return measured, read, batch[:, :sensors, reach:].flatten(1)

    def loss(self, network: Any, batch: "Tensor", epoch: int) -> "Tensor":
        """Return the published loss of a batch."""
        return network.loss(*self._parts(batch), self.settings.penalty).total  # type: ignore[no-any-return]

    def _finish(
        self, windows: Windows, device: "torch.device", progress: Progress
    ) -> None:
        """Estimate the noise on the last part of train."""
        import torch

        from sightline.detectors.training import WindowTensor

        network: Any = self._known(self.network)
        network.eval()
        which = np.flatnonzero(windows.starts >= self._last_trained_row(windows))
        data = WindowTensor(windows, device)
        moved, rebuilt, errors = [], [], []
        with torch.inference_mode():
            for part in torch.from_numpy(which).split(_AT_ONCE):
                x, u, y = self._parts(data[part])
                now = network.encode(x)
                following = network.step(now, u)
                moved.append((following - network.encode(y)).cpu().numpy())
                rebuilt.append((network.h(now) - x).cpu().numpy())
                wrong = (network.h(following) - y) ** 2
                errors.append(wrong.mean(1).cpu().numpy())
                progress(
                    Step(
                        StepKind.TRAINING,
                        int(part[-1]),
                        int(which[-1]),
                        "NSIBF, noise",
                    )
                )
        self._forecast_error = float(np.concatenate(errors).mean())
        self.state_noise = _covariance(moved)
        noise = _covariance(rebuilt)
        self.ridge = smallest_ridge(noise)
        self.measurement_noise = noise + self.ridge * np.eye(len(noise))

    # Looking

    def _residuals(
        self, recording: Recording, settings: NSIBFSettings, progress: Progress
    ) -> Residuals:
        from sightline.detectors.training import computing

        preprocessing = self._known(self._preprocessing)
        design = self._known(self.design)
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
                f"The recording has no run of {settings.reach + settings.window} rows, "
                "which NSIBF needs to look at: give it a longer one."
            )
        with computing(settings) as device:
            found = self._filtered(scaled.values, tracks, settings, device, progress)
        rows = np.concatenate([track[1:] for track in tracks])
        order = np.argsort(rows, kind="stable")
        kept = preprocessing.kept[design.sensors]
        spacing = settings.every * (1 if settings.per_row else settings.window)
        return Residuals(
            values=found.values[order],
            index=scaled.rows[rows[order]],
            channels=tuple(recording.channels[column] for column in kept),
            space=self.card.space,
            every=settings.every,
            spacing=spacing,
            score=found.score[order],
            scale=scaled.scale[design.sensors],
            notices=(
                *scaled.notices,
                *design.remarks(seen.values, recording.tags, preprocessing.kept),
                *self._told(found),
            ),
        )

    def _filtered(
        self,
        values: Matrix,
        tracks: list[Ints],
        settings: NSIBFSettings,
        device: "torch.device",
        progress: Progress,
    ) -> Found:
        """Run all filters side by side; the longest come first and end last."""
        network: Any = self._known(self.network)
        network.eval().to(device)
        weights = network.keras_arrays()
        lstm = 3 * network.lstm.num_layers
        filters = UnscentedFilter(
            weights["f"][lstm:],
            weights["h"],
            self._known(self.state_noise),
            self._known(self.measurement_noise),
            form=settings.form,
            repair=settings.repair,
        )
        encoder = Layers.of(weights["g"])
        sensors = len(self._known(self.design).sensors)
        measured = measurements(values, sensors, settings.window)
        codes = [self._codes(network, values, track, device) for track in tracks]
        parts = [filters.code_part(code) for code in codes]

        def first_states(rows: Ints) -> Floats:
            x = measured(rows).astype(filters.dtype)
            return np.tanh(encoder(x)).astype(np.float64)

        n = filters.n
        states = first_states(np.array([track[0] for track in tracks]))
        covariances = np.tile(FIRST_VARIANCE * np.eye(n), (len(tracks), 1, 1))
        found = Found.empty([len(track) - 1 for track in tracks], sensors)
        longest = len(tracks[0]) - 1
        total = sum(len(track) - 1 for track in tracks)
        done = 0
        for t in range(1, longest + 1):
            going = sum(len(track) > t for track in tracks)
            rows = np.array([track[t] for track in tracks[:going]])
            x = measured(rows).astype(np.float64)
            code = np.stack([part[t - 1] for part in parts[:going]])
            with np.errstate(all="ignore"):
                step = filters.step(states[:going], covariances[:going], code, x)
            newest = step.innovation[:, settings.window - 1 :: settings.window]
            is_lost = np.asarray(
                ~np.isfinite(step.state).all(1)
                | ~np.isfinite(step.covariance).all((1, 2))
            )
            states[:going], covariances[:going] = step.state, step.covariance
            if is_lost.any():
                lost = np.flatnonzero(is_lost)
                states[lost] = first_states(rows[lost])
                covariances[lost] = FIRST_VARIANCE * np.eye(n)
            found.put(t - 1, newest, step.score, step.is_repaired, is_lost)
            done += going
            if t % 50 == 0 or t == longest:
                progress(Step(StepKind.RESIDUALS, done, total, "NSIBF, filter"))
        return found

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

    def _told(self, found: Found) -> tuple[str, ...]:
        told = []
        repaired, lost = int(found.is_repaired.sum()), int(found.is_lost.sum())
        if self.ridge:
            told.append(
                f"A ridge of {self.ridge:.2g} was added to NSIBF's measurement noise, "
                "which did not factor."
            )
        if repaired:
            told.append(
                f"NSIBF's state covariance was repaired in {repaired:,} of "
                f"{len(found.score):,} steps."
            )
        if lost:
            told.append(
                f"NSIBF's filter could not go on after {lost:,} steps and began "
                "anew from the measurement."
            )
        if unscored := int(np.isnan(found.score).sum()):
            told.append(
                f"Steps without a score: {unscored:,} (its square was negative, which "
                "an indefinite covariance allows, or no number)."
            )
        return tuple(told)

    def native_alarms(
        self, looked: Looked, *, rule: str | None = None, labels: Labels | None = None
    ) -> NativeAlarms | None:
        """Return NSIBF's own score, and alarms if a rule is named."""
        return nsibf_alarms(self._known(looked.tested.score), rule, labels)

    # Keeping

    def about(self) -> dict[str, Any]:
        """Return what one must know to make the same again, as JSON can hold it."""
        return super().about() | {"ridge": self.ridge, "chosen": self.chosen}

    def _rebuild(self, weights: Arrays) -> "nn.Module":
        from sightline.detectors.networks.weights import load_weights

        return load_weights(self._network(self.settings), weights)

    def _arrays(self) -> Arrays:
        design = self._known(self.design)
        joined = [np.empty(0), *design.levels]
        return super()._arrays() | {
            "sensors": design.sensors,
            "actuators": design.actuators,
            "numbers": design.numbers,
            "levels": np.concatenate(joined),
            "level_counts": np.array([len(one) for one in design.levels], np.int64),
            "state_noise": self._known(self.state_noise),
            "measurement_noise": self._known(self.measurement_noise),
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
        self.state_noise = arrays["state_noise"]
        self.measurement_noise = arrays["measurement_noise"]
        self.ridge = float(arrays["ridge"])
        self.chosen = {
            name.removeprefix("chosen/"): array.item()
            for name, array in arrays.items()
            if name.startswith("chosen/")
        }
        self.settings = replace(self.settings, **self.chosen)
        super()._restore(arrays)


def drawn_sizes(rng: np.random.Generator, sensors: int) -> dict[str, Any]:
    """Return sizes as the published search draws them."""
    low, high = _DRAWN_LAYERS
    return {
        "state": int(rng.integers(1, 3 * sensors + 1)),
        "encoder_layers": int(rng.integers(low, high + 1)),
        "transition_layers": int(rng.integers(low, high + 1)),
        "lstm_layers": int(rng.integers(low, high + 1)),
        "transition_width": int(rng.integers(*_DRAWN_WIDTHS, endpoint=True)),
        "lstm_width": int(rng.integers(*_DRAWN_WIDTHS, endpoint=True)),
        "penalty": float(rng.uniform(*_DRAWN_PENALTY)),
    }


def _covariance(parts: list[Matrix]) -> Floats:
    """Return the sample covariance of rows that come in parts."""
    rows = np.concatenate(parts).astype(np.float64)
    return np.atleast_2d(np.cov(rows, rowvar=False, ddof=1))


def smallest_ridge(covariance: Floats) -> float:
    """Return the least ridge with which a covariance factors; 0 if it does anyway."""
    level = float(np.mean(np.diag(covariance))) or 1.0
    for share in _RIDGES:
        try:
            np.linalg.cholesky(covariance + share * level * np.eye(len(covariance)))
        except np.linalg.LinAlgError:
            continue
        return share * level
    raise StreamError(
        "NSIBF's measurement noise cannot be factored even with a ridge of a tenth of "
        "its mean: train holds values that are no numbers, or extreme ones."
    )
