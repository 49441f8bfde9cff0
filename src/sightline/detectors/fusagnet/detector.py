"""FuSAGNet: a sparse autoencoder's codes, forecast on a graph (Han and Woo, 2022)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from sightline.data.arrays import Bools, Ints, Labels
from sightline.data.recording import Recording, Tag
from sightline.detectors.base import DetectorCard, Looked, Residuals
from sightline.detectors.native_rules.rules import NativeAlarms, fusagnet_alarms
from sightline.detectors.native_rules.scores import FusagnetErrors
from sightline.detectors.preprocessing import Scaled
from sightline.detectors.saving import Arrays
from sightline.detectors.settings import (
    Settings,
    check_at_least,
    check_choice,
    check_share,
    check_whole,
)
from sightline.detectors.trained import WindowedDetector
from sightline.detectors.trained_settings import TrainedSettings
from sightline.detectors.windows import Windows, forecast_windows
from sightline.errors import StreamError

if TYPE_CHECKING:
    from torch import Tensor, nn

# The wanted activations are drawn from between these.
_RHO = (1e-5, 1e-2)
_SWAT = {"every": 10, "trim_s": 21_600.0}


@dataclass(frozen=True, kw_only=True)
class FuSAGNetSettings(TrainedSettings):
    """What FuSAGNet can be told, beyond what every trained detector can.

    Parameters
    ----------
    window : int
        Rows a forecast is made from.
    dim : int
        Length of a channel's embedding; even.
    top_k : int
        How many channels each one listens to.
    head_layers, head_width : int
        Layers of the head, and their width where there are several.
    dropout, embedding_dropout : float
        Shares dropped in training: before the head, between recurrent layers.
    alpha, beta : float
        Weight of the forecast's loss against the rest, and of sparsity within it.
    noise_std : float
        Noise added to the windows in training, in units of a channel's range.
    self_loops : {"none", "all", "official"}
        Who listens to itself: nobody, everyone, or the first nodes of each batch.
    recurrent : bool
        Let the recurrent layers run from channel to channel.
    fixed_rho : bool
        Judge the held-out block by one and the same draw of wanted activations.
    exported : {"forecast", "reconstruction"}
        Which residual to give; the reconstruction's is of the window's newest row.
    """

    window: int = 5
    dim: int = 64
    top_k: int = 15
    head_layers: int = 1
    head_width: int = 64
    dropout: float = 0.2
    embedding_dropout: float = 0.2
    alpha: float = 0.5
    beta: float = 1.0
    noise_std: float = 1.0
    self_loops: Literal["none", "all", "official"] = "none"
    recurrent: bool = False
    fixed_rho: bool = True
    exported: Literal["forecast", "reconstruction"] = "forecast"
    epochs: int = 50
    patience: int | None = 10
    constant_channels: Literal["unit", "ratio", "epsilon", "keep", "drop"] = "ratio"

    def __post_init__(self) -> None:
        """Refuse what is not an option."""
        super().__post_init__()
        check_whole(self, 1, "window", "dim", "top_k", "head_layers", "head_width")
        check_whole(self, 2, "batch_size")
        check_at_least(self, 0, "noise_std", "beta", "alpha")
        check_share(self, "dropout", "embedding_dropout")
        check_choice(self, "self_loops", ("none", "all", "official"))
        check_choice(self, "exported", ("forecast", "reconstruction"))
        if self.dim % 2:
            raise StreamError(f"`dim` must be even; got {self.dim}.")
        if self.alpha > 1:
            raise StreamError(f"`alpha` must be at most 1; got {self.alpha}.")


class FuSAGNet(WindowedDetector):
    """Fused Sparse Autoencoder and Graph Net.

    Channels of one stage (process) share a recurrent embedding, so stages are taken
    from the recording's tags; channels without one are a stage by themselves.

    Parameters
    ----------
    preset : {"export", "official"}
        How it learns; "official" has the published code's self-loops, which depend on
        a window's place in its batch, and a held-out loss that is partly drawn.
    testbed : str, optional
        Take the card's settings for this testbed.
    **overrides
        Any of `FuSAGNetSettings` by name.
    """

    card: ClassVar[DetectorCard] = DetectorCard(
        name="fusagnet",
        title="FuSAGNet",
        paper="S. Han and S. S. Woo, Learning Sparse Latent Graph Representations for "
        "Anomaly Detection in Multivariate Time Series, KDD 2022",
        kind="forecast by graph attention on an autoencoder's codes",
        extra="detectors",
        faithful=(
            "Network, initialisation, loss, noise and optimiser are those of the "
            "published code (commit 9ab537e), its oddities included: no bottleneck, "
            "no recurrence over channels, unit noise on data of unit range.",
            "Constant channels are divided by their value, so that they are 1.",
        ),
        deviates=(
            "Nobody listens to itself (self_loops 'none'): in the published code the "
            "first nodes of each batch do, so that a forecast depends on its place in "
            "the batch (preset 'official').",
            "The held-out loss uses one fixed draw of wanted activations; published, a "
            "new one each time (preset 'official').",
            "The sparsity term is computed in logarithms, so that it stays finite.",
            "Rows are trimmed by duration and not by number; a last batch of one "
            "window is left out; patience is at least 1.",
            "Windows end at gaps of the recording (preset 'official': they do not).",
        ),
        settings={
            "swat": _SWAT,
            "wadi": _SWAT | {"dim": 128, "top_k": 30},
            "hai": {
                "every": 10,
                "window": 16,
                "dim": 32,
                "batch_size": 64,
                "epochs": 30,
                "patience": 6,
                "learning_rate": 5e-4,
            },
            "waterworks": {"every": 10},
            "batadal": {},
        },
        sources={
            "swat": "the published defaults, on rows of 10 s as GDN's (the shipped "
            "files are of 1 s; the paper's are not known)",
            "wadi": "as SWaT, with GDN's dim and top_k (our choice: none published)",
            "hai": "a user's quotation of the paper (issue 5 of the repository), on "
            "rows of 10 s (our choice)",
            "waterworks": "as SWaT, nothing trimmed (our choice)",
            "batadal": "hourly rows as they are (our choice)",
        },
    )
    settings_type: ClassVar[type[Settings]] = FuSAGNetSettings
    # The spread of a single window is 0: its encoder could not be normalised by it.
    least_batch = 2
    official: ClassVar[dict[str, Any]] = {
        "self_loops": "official",
        "fixed_rho": False,
        "cross_gaps": True,
        "round_raw": True,
    }

    def __init__(
        self, preset: str = "export", *, testbed: str | None = None, **overrides: Any
    ) -> None:
        super().__init__(preset, testbed=testbed, **overrides)
        # Channels in the order of their stages, as the network wants them.
        self._order: Ints = np.empty(0, np.int64)

    def _windows(self, scaled: Scaled, settings: FuSAGNetSettings) -> Windows:
        ahead = int(settings.exported == "forecast")
        return forecast_windows(scaled.values, scaled.breaks, settings.window + ahead)

    def _training_windows(self, scaled: Scaled, settings: FuSAGNetSettings) -> Windows:
        return forecast_windows(scaled.values, scaled.breaks, settings.window + 1)

    def _build(self, tags: Sequence[Tag]) -> "nn.Module":
        from sightline.detectors.fusagnet.network import FuSAGNetNetwork

        settings: FuSAGNetSettings = self.settings
        self._order, sizes = stage_order([tag.stage for tag in tags])
        return FuSAGNetNetwork(
            sizes,
            window=settings.window,
            dim=settings.dim,
            top_k=settings.top_k,
            head_layers=settings.head_layers,
            head_width=settings.head_width,
            dropout=settings.dropout,
            embedding_dropout=settings.embedding_dropout,
            self_loops=settings.self_loops,
            recurrent=settings.recurrent,
        )

    def _rebuild(self, weights: Arrays) -> "nn.Module":
        from sightline.detectors.fusagnet.network import FuSAGNetNetwork

        settings: FuSAGNetSettings = self.settings
        return FuSAGNetNetwork.of_weights(
            weights, top_k=settings.top_k, recurrent=settings.recurrent
        )

    def _arrays(self) -> Arrays:
        return super()._arrays() | {"order": self._order}

    def _restore(self, arrays: Arrays) -> None:
        super()._restore(arrays)
        self._order = arrays["order"]

    def loss(self, network: "nn.Module", batch: "Tensor", epoch: int) -> "Tensor":
        """Return the published loss of a batch, with noise and a draw of its own."""
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

        settings: FuSAGNetSettings = self.settings
        return fusagnet_loss(
            network.detailed(x),
            x,
            target,
            rho,
            alpha=settings.alpha,
            beta=settings.beta,
        ).total

    def _expected(
        self, network: Any, batch: "Tensor", settings: FuSAGNetSettings
    ) -> "tuple[Tensor, Tensor]":
        network.self_loops = settings.self_loops
        back = np.argsort(self._order)
        if settings.exported == "reconstruction":
            _, rebuilt = network(batch[:, self._order])
            return batch[..., -1], rebuilt[:, back, -1]
        forecast, _ = network(batch[:, self._order, :-1])
        return batch[..., -1], forecast[:, back]

    def _inference_chunk(self, settings: FuSAGNetSettings) -> int:
        # The official self-loops depend on the batch.
        return settings.batch_size if settings.self_loops == "official" else 512

    def native_alarms(
        self, looked: Looked, *, rule: str | None = None, labels: Labels | None = None
    ) -> NativeAlarms | None:
        """Return FuSAGNet's own score and alarms; see `native.rules`."""
        if self.settings.exported != "forecast":
            if rule is None:
                return None
            raise StreamError(
                f"FuSAGNet's rule {rule!r} is of its forecast: set `exported` to "
                "'forecast'."
            )
        if not looked.is_held_out.any() and rule is None:
            return None
        preset = looked.preset
        return fusagnet_alarms(
            self._both_errors(looked.train, looked.learned, preset, looked.is_held_out),
            self._both_errors(looked.test, looked.tested, preset),
            rule or "held-out",
            labels,
            alpha=self.settings.alpha,
        )

    def _both_errors(
        self,
        recording: Recording,
        told: Residuals,
        preset: str = "export",
        which: Bools | None = None,
    ) -> FusagnetErrors:
        """Return errors of forecast and of reconstruction; the latter are made anew."""
        import torch

        from sightline.detectors.training import WindowTensor, computing

        settings: FuSAGNetSettings = self._settings(preset)
        network: Any = self._known(self.network)
        network.self_loops = settings.self_loops
        scaled = self._known(self._preprocessing).test(
            recording, settings, self.settings.precision
        )
        windows = self._training_windows(scaled, settings)
        index = told.index if which is None else told.index[which]
        rows = np.flatnonzero(np.isin(scaled.rows[windows.steps], index))
        back = np.argsort(self._order)
        errors = []
        with computing(settings) as device, torch.inference_mode():
            data = WindowTensor(windows, device)
            for part in torch.from_numpy(rows).split(self._inference_chunk(settings)):
                x = data[part][:, self._order, :-1]
                _, rebuilt = network(x)
                errors.append((x - rebuilt)[:, back].cpu().numpy())
        values = told.values if which is None else told.values[which]
        empty = np.empty((0, values.shape[1], settings.window))
        return FusagnetErrors(values, np.concatenate([empty, *errors]))


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
