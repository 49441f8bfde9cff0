"""GDN: channels forecast each other along a learned graph (Deng and Hooi, 2021)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from sightline.data.arrays import Labels
from sightline.data.recording import Tag
from sightline.detectors.base import RuleInput, read_card
from sightline.detectors.gdn.rule import RULES, gdn_alarms
from sightline.detectors.native_rules import NativeAlarms
from sightline.detectors.preprocessing import Scaled, Windows, forecast_windows
from sightline.detectors.saving import Arrays
from sightline.detectors.settings import Count, Share, TrainedSettings
from sightline.detectors.trained import Evaluator, WindowedDetector

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True, kw_only=True)
class GDNSettings(TrainedSettings):
    """Settings of GDN, beyond those of every trained detector.

    Parameters
    ----------
    window : int
        Rows a forecast is made from.
    dim : int
        Length of a channel's embedding.
    top_k : int
        How many channels each channel receives from, itself included.
    head_layers, head_width : int
        Layers of the head, and their width where there are several.
    dropout : float
        Share of features dropped before the head in training.
    """

    window: Count = 5
    dim: Count = 64
    top_k: Count = 15
    head_layers: Count = 1
    head_width: Count = 64
    dropout: Share = 0.2
    patience: Count | None = 15


class GDN(WindowedDetector):
    """Graph Deviation Network: the next row of each channel from its neighbours'.

    Parameters
    ----------
    preset : {"export", "official"}
        How it learns; "official" fills missing cells with the recording's own mean and
        lets windows run through gaps, as the published code does.
    testbed : str, optional
        Use the card's settings for this testbed.
    **overrides
        Any of `GDNSettings` by name.
    """

    card = read_card("gdn")
    rules = RULES
    settings_type = GDNSettings
    official: ClassVar[Mapping[str, Any]] = {"missing": "mean", "cross_gaps": True}

    def _windows(self, scaled: Scaled, settings: GDNSettings) -> Windows:
        return forecast_windows(scaled.values, scaled.breaks, settings.window + 1)

    def _build(self, tags: Sequence[Tag]) -> "nn.Module":
        from sightline.detectors.gdn.network import GDNNetwork

        sizes = self._chosen("window", "dim", "top_k", "head_layers", "head_width")
        return GDNNetwork(len(tags), **sizes, dropout=self.settings.dropout)

    def _rebuild(self, weights: Arrays) -> "nn.Module":
        from sightline.detectors.gdn.network import GDNNetwork

        return GDNNetwork.of_weights(weights, top_k=self.settings.top_k)

    def loss(self, network: "nn.Module", batch: "Tensor", epoch: int) -> "Tensor":
        """Return the mean squared error of the forecast of a batch."""
        from torch.nn import functional

        return functional.mse_loss(network(batch[..., :-1]), batch[..., -1])

    def _evaluator(self, network: Any, settings: GDNSettings) -> Evaluator:
        from sightline.detectors.gdn.network import FixedForecast

        forecast = FixedForecast(network)
        return lambda batch: (batch[..., -1], forecast(batch[..., :-1]))

    def native_alarms(
        self, given: RuleInput, *, rule: str | None = None, labels: Labels | None = None
    ) -> NativeAlarms | None:
        """Return GDN's score and alarms; see `gdn.rule`."""
        held_out = given.held_out_values
        if not len(held_out) and rule is None:
            return None
        tested = given.test_residuals.values
        return gdn_alarms(held_out, tested, rule or "held-out", labels)
