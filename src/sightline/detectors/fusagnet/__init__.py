"""FuSAGNet: a sparse autoencoder's codes, forecast on a graph (Han and Woo, 2022).

Published code has errors as expected minus observed. The sign matters for the score of
the reconstruction alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from sightline.data.arrays import Bools, Floats, Ints, Labels
from sightline.data.arrays import Residuals as Matrix
from sightline.data.recording import Recording, Tag
from sightline.detectors.base import Arrays, Residuals, RuleInput, read_card
from sightline.detectors.native_rules import (
    BEST_BY_RANK,
    NativeAlarms,
    NativeRule,
    TestUse,
    alarms_by_labels,
    centre_and_spread,
    checked_errors,
    held_out_threshold,
    normalised_errors,
    rule_named,
    smoothed,
)
from sightline.detectors.preprocessing import RowWindows, ScaledRows, forecast_windows
from sightline.detectors.settings import Count, GraphSettings, NonNegative, Share
from sightline.detectors.trained import Evaluator, WindowedDetector
from sightline.errors import StreamError

if TYPE_CHECKING:
    from torch import Tensor, nn


WindowErrors = npt.NDArray[np.float32] | npt.NDArray[np.float64]

RULES = (
    NativeRule(
        "held-out",
        "Our own, for want of a published rule without labels: median, IQR and "
        "threshold (the largest fused score) are those of the held-out block.",
    ),
    BEST_BY_RANK,
)


@dataclass(frozen=True, eq=False)
class FusagnetErrors:
    """Both kinds of errors of one block, observed minus expected.

    Parameters
    ----------
    forecast : array of shape (n_rows, n_channels)
        Errors of the forecast of each row.
    windows : array of shape (n_rows, n_channels, window)
        Errors of the reconstruction of the window that each row was forecast from.
    """

    forecast: Matrix
    windows: WindowErrors

    def __post_init__(self) -> None:
        """Check that shapes agree and all values are finite."""
        forecast = checked_errors(self.forecast, "forecast")
        windows = np.asarray(self.windows)
        if windows.ndim != 3 or windows.shape[:2] != forecast.shape:
            raise StreamError(
                "`windows` must have shape (rows, channels, window), with the rows and "
                f"channels of `forecast`; got {windows.shape} for {forecast.shape}."
            )
        flat = checked_errors(windows.reshape(len(windows), -1), "windows")
        object.__setattr__(self, "forecast", forecast)
        object.__setattr__(self, "windows", flat.reshape(windows.shape))


def channel_scores(errors: WindowErrors, by: WindowErrors | None = None) -> Floats:
    """Return the scores of forecast or reconstruction, of shape (n_rows, n_channels).

    Signed errors are centred, then made positive. Of each window only the largest of
    expected minus observed counts, with its sign, as published: a reconstruction that
    is far too low does not show.

    Parameters
    ----------
    errors : array of shape (n_rows, n_channels) or (n_rows, n_channels, window)
        Observed minus expected.
    by : array of the same number of axes, optional
        Errors whose median and IQR are used; `errors` itself if not given.
    """
    centre, spread = centre_and_spread(errors if by is None else by)
    # The least of observed minus expected: the absolute value removes the sign.
    of_rows = errors.min(axis=2) if errors.ndim == 3 else errors
    distance = normalised_errors(of_rows, centre, spread)
    return smoothed(np.abs(distance, out=distance))


def fused_scores(forecast: Floats, reconstruction: Floats, alpha: float) -> Floats:
    """Return the weighted harmonic mean of both scores.

    Examples
    --------
    >>> fused_scores(np.array([1.0]), np.array([0.0]), 0.5)
    array([0.])
    """
    if not 0 <= alpha <= 1:
        raise StreamError(f"`alpha` must be from 0 to 1; got {alpha}.")
    weights = alpha * reconstruction + (1 - alpha) * forecast
    fused = (alpha + (1 - alpha)) * forecast * reconstruction
    return np.asarray(fused / (weights + 0.01), np.float64)


def fusagnet_scores(
    errors: FusagnetErrors, by: FusagnetErrors | None = None, *, alpha: float = 0.5
) -> Floats:
    """Return FuSAGNet's fused scores of each channel, of shape (n_rows, n_channels).

    The score of a row is the largest of its channels.

    Parameters
    ----------
    errors : FusagnetErrors
        Of the block to score.
    by : FusagnetErrors, optional
        Errors whose medians and IQRs are used; `errors` itself if not given.
    alpha : float
        Weight of the forecast in the loss the network was trained with.
    """
    basis = errors if by is None else by
    checked_errors(basis.forecast, "by", errors.forecast.shape[1])
    return fused_scores(
        channel_scores(errors.forecast, basis.forecast),
        channel_scores(errors.windows, basis.windows),
        alpha,
    )


def fusagnet_alarms(
    held_out: FusagnetErrors,
    test: FusagnetErrors,
    rule: str = "held-out",
    labels: npt.ArrayLike | None = None,
    *,
    alpha: float = 0.5,
) -> NativeAlarms:
    """Return FuSAGNet's alarms.

    Parameters
    ----------
    held_out, test : FusagnetErrors
        Of the held-out block and of the test.
    rule : str
        Name of one of `RULES`.
    labels : array-like of shape (n_rows,), optional
        Of the test; used only by the rule whose name says so.
    alpha : float
        Weight of the forecast in the loss the network was trained with.
    """
    chosen = rule_named(RULES, rule, "FuSAGNet")
    if TestUse.LABELS in chosen.looks_at:
        score = fusagnet_scores(test, alpha=alpha).max(axis=1)
        return alarms_by_labels(chosen, score, labels)
    threshold = held_out_threshold(fusagnet_scores(held_out, alpha=alpha))
    score = fusagnet_scores(test, held_out, alpha=alpha).max(axis=1)
    return NativeAlarms.above(threshold, chosen, score)


# The target activations are drawn from between these.
_RHO = (1e-5, 1e-2)


@dataclass(frozen=True, kw_only=True)
class FuSAGNetSettings(GraphSettings):
    """Settings of FuSAGNet, beyond those of `GraphSettings`; `dim` must be even.

    Parameters
    ----------
    embedding_dropout : float
        Share dropped in training between recurrent layers.
    alpha, beta : float
        Weight of the forecast's loss against the rest, and of sparsity within it.
    noise_std : float
        Noise added to the windows in training, in units of a channel's range.
    self_loops : {"none", "all", "official"}
        Which channels receive from themselves: none, all, or (as in the published code)
        the first nodes of each batch.
    recurrent : bool
        Let the recurrent layers run from channel to channel.
    fixed_rho : bool
        Judge the held-out block by one fixed draw of target activations.
    exported : {"forecast", "reconstruction"}
        Which residual to return; the reconstruction's is of the window's newest row.
    """

    embedding_dropout: Share = 0.2
    alpha: Annotated[float, Meta(ge=0, le=1)] = 0.5
    beta: NonNegative = 1.0
    noise_std: NonNegative = 1.0
    self_loops: Literal["none", "all", "official"] = "none"
    recurrent: bool = False
    fixed_rho: bool = True
    exported: Literal["forecast", "reconstruction"] = "forecast"
    epochs: Count = 50
    batch_size: Annotated[int, Meta(ge=2)] = 32
    patience: Count | None = 10
    constant_channels: Literal["unit", "ratio", "epsilon", "keep", "drop"] = "ratio"

    def __post_init__(self) -> None:
        """Check every field, and that `dim` is even."""
        super().__post_init__()
        if self.dim % 2:
            raise StreamError(f"`dim` must be even; got {self.dim}.")


class FuSAGNet(WindowedDetector):
    """Fused Sparse Autoencoder and Graph Net.

    Channels of one stage (process) share a recurrent embedding, so stages are taken
    from the recording's tags; the channels without one form a stage of their own.

    Parameters
    ----------
    preset : {"export", "official"}
        How it learns; "official" has the published code's self-loops, which depend on
        a window's place in its batch, and a held-out loss that is partly random.
    testbed : str, optional
        Use the card's settings for this testbed.
    **overrides
        Any of `FuSAGNetSettings` by name.
    """

    card = read_card("fusagnet")
    rules = RULES
    settings_type = FuSAGNetSettings
    # The encoder cannot be normalised by the spread of a single window, which is 0.
    least_batch = 2
    official: ClassVar[Mapping[str, Any]] = {
        "self_loops": "official",
        "fixed_rho": False,
        "cross_gaps": True,
        "round_raw": True,
    }

    # Channels in the order of their stages, as the network takes them.
    _order: Ints = np.empty(0, np.int64)

    def _windows(self, scaled: ScaledRows, settings: FuSAGNetSettings) -> RowWindows:
        ahead = int(settings.exported == "forecast")
        return forecast_windows(scaled.values, scaled.breaks, settings.window + ahead)

    def _training_windows(
        self, scaled: ScaledRows, settings: FuSAGNetSettings
    ) -> RowWindows:
        return forecast_windows(scaled.values, scaled.breaks, settings.window + 1)

    def _build(self, tags: Sequence[Tag]) -> "nn.Module":
        from sightline.detectors.fusagnet.network import FuSAGNetNetwork

        self._order, stages = stage_order([tag.stage for tag in tags])
        sizes = self._chosen("window", "dim", "top_k", "head_layers", "head_width")
        shares = self._chosen("dropout", "embedding_dropout")
        graph = self._chosen("self_loops", "recurrent")
        return FuSAGNetNetwork(stages, **sizes, **shares, **graph)

    def _rebuild(self, weights: Arrays) -> "nn.Module":
        from sightline.detectors.fusagnet.network import FuSAGNetNetwork

        return FuSAGNetNetwork.of_weights(weights, **self._chosen("top_k", "recurrent"))

    def _arrays(self) -> Arrays:
        return super()._arrays() | {"order": self._order}

    def _restore(self, arrays: Arrays) -> None:
        super()._restore(arrays)
        self._order = arrays["order"]

    def loss(self, network: "nn.Module", batch: "Tensor", epoch: int) -> "Tensor":
        """Return the published loss of a batch, with noise and random activations."""
        import torch

        x = batch[:, self._order, :-1]
        noisy = x + self.settings.noise_std * torch.randn_like(x)
        rho = torch.empty(x[0].numel(), device=x.device).uniform_(*_RHO)
        return self._loss(network, noisy, batch[:, self._order, -1], rho)

    def validation_loss(
        self, network: "nn.Module", batch: "Tensor", epoch: int
    ) -> "Tensor":
        """Return the published loss of a held-out batch, without noise."""
        import torch

        x = batch[:, self._order, :-1]
        if self.settings.fixed_rho:
            draws = np.random.default_rng(0).uniform(*_RHO, x[0].numel())
            rho = torch.from_numpy(draws).to(x)
        else:
            rho = torch.empty(x[0].numel(), device=x.device).uniform_(*_RHO)
        return self._loss(network, x, batch[:, self._order, -1], rho)

    def _loss(
        self, network: Any, x: "Tensor", target: "Tensor", rho: "Tensor"
    ) -> "Tensor":
        from sightline.detectors.fusagnet.network import fusagnet_loss

        weights = self._chosen("alpha", "beta")
        return fusagnet_loss(network.detailed(x), x, target, rho, **weights).total

    def _evaluator(self, network: Any, settings: FuSAGNetSettings) -> Evaluator:
        network.self_loops = settings.self_loops
        order, back = self._order, np.argsort(self._order)

        def residuals(batch: "Tensor") -> Any:
            if settings.exported == "reconstruction":
                _, reconstruction = network(batch[:, order])
                return batch[..., -1] - reconstruction[:, back, -1]
            forecast, _ = network(batch[:, order, :-1])
            return batch[..., -1] - forecast[:, back]

        return residuals

    def _inference_chunk(self, settings: FuSAGNetSettings) -> int:
        # The official self-loops depend on the batch. Of more windows the intermediate
        # results would be memory fresh from the system, at half of the time.
        return settings.batch_size if settings.self_loops == "official" else 128

    def native_alarms(
        self, given: RuleInput, *, rule: str | None = None, labels: Labels | None = None
    ) -> NativeAlarms | None:
        """Return FuSAGNet's score and alarms; see `fusagnet_alarms`."""
        if self.settings.exported != "forecast":
            if rule is None:
                return None
            raise StreamError(
                f"FuSAGNet's rule {rule!r} is of its forecast: set `exported` to "
                "'forecast'."
            )
        if not given.is_held_out.any() and rule is None:
            return None
        preset = given.preset
        return fusagnet_alarms(
            self._both_errors(
                given.train, given.train_residuals, preset, given.is_held_out
            ),
            self._both_errors(given.test, given.test_residuals, preset),
            rule or "held-out",
            labels,
            alpha=self.settings.alpha,
        )

    def _both_errors(
        self,
        recording: Recording,
        forecast: Residuals,
        preset: str = "export",
        which: Bools | None = None,
    ) -> FusagnetErrors:
        """Return errors of the forecast and of the reconstruction."""
        from sightline.detectors.networks import computing, in_chunks

        settings: FuSAGNetSettings = self._settings(preset)
        network: Any = self._fitted(self.network)
        network.self_loops = settings.self_loops
        scaled = self._fitted(self._preprocessing).test(
            recording, settings, self.settings.precision
        )
        windows = self._training_windows(scaled, settings)
        is_row = slice(None) if which is None else which
        rows = np.isin(scaled.rows[windows.steps], forecast.index[is_row])
        order, back = self._order, np.argsort(self._order)

        def errors(batch: "Tensor") -> Any:
            x = batch[:, order, :-1]
            return (x - network(x)[1])[:, back]

        with computing(settings) as device:
            of_windows = in_chunks(
                windows,
                np.flatnonzero(rows),
                errors,
                chunk=self._inference_chunk(settings),
                device=device,
            )
        return FusagnetErrors(forecast.values[is_row], of_windows)


def stage_order(stages: Sequence[str | None]) -> tuple[Ints, list[int]]:
    """Return channels in the order of their stages, and the size of each stage.

    Examples
    --------
    >>> stage_order(["P1", "P2", "P1"])
    (array([0, 2, 1]), [2, 1])
    """
    first: dict[str | None, int] = {}
    for stage in stages:
        first.setdefault(stage, len(first))
    number = np.array([first[stage] for stage in stages])
    return np.argsort(number, kind="stable"), np.bincount(number).tolist()
