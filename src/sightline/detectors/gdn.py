"""GDN: channels forecast each other along a learned graph (Deng and Hooi, 2021).

The card says what the detector is, its paper, and how far it is the published one; the
rules are those of the published code. The network is in `sightline.detectors.networks`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Labels
from sightline.data.recording import Tag
from sightline.detectors import native_rules
from sightline.detectors.base import DetectorCard, RuleInput
from sightline.detectors.native_rules import (
    NativeAlarms,
    NativeRule,
    NativeScores,
    TestUse,
)
from sightline.detectors.preprocessing import Scaled, Windows, forecast_windows
from sightline.detectors.saving import Arrays
from sightline.detectors.settings import Count, Share, TrainedSettings
from sightline.detectors.trained import WindowedDetector

if TYPE_CHECKING:
    from torch import Tensor, nn

# Down-sampling and trimming of the published pipeline; the range of each channel is
# taken before both.
_TEN_SECONDS = {
    "every": 10,
    "trim_s": 21_600.0,
    "scale_before_trim": True,
    "across_breaks": True,
}

CARD = DetectorCard(
    name="gdn",
    title="GDN",
    paper="A. Deng and B. Hooi, Graph Neural Network-Based Anomaly Detection in "
    "Multivariate Time Series, AAAI 2021",
    kind="forecast by graph attention",
    extra="detectors",
    faithful=(
        "Network, initialisation, loss, optimiser, held-out block and early stop "
        "are those of the published code (commit 9853899).",
        "A channel is among its own top_k, so that it receives from top_k - 1 others.",
        "The range of each channel is taken before trimming and down-sampling.",
    ),
    deviates=(
        "Attention is dense and windows are gathered before they are projected: "
        "the same sums, without edge lists.",
        "Missing cells hold the last value before them; the published code takes "
        "the mean of the same recording, which looks ahead (preset 'official').",
        "Windows end at gaps of the recording (preset 'official': they do not).",
        "Residuals are observed minus expected and signed.",
    ),
    settings={
        "swat": _TEN_SECONDS,
        "wadi": _TEN_SECONDS | {"dim": 128, "top_k": 30},
        "hai": {"every": 10},
        "waterworks": {"every": 10, "scale_before_trim": True},
        "batadal": {},
    },
    sources={
        "swat": "the published script and pipeline; top_k 15 from the paper",
        "wadi": "the paper's dim 128 and top_k 30, recalled and not read again",
        "hai": "no published setting: as SWaT, nothing trimmed (our choice)",
        "waterworks": "as SWaT, nothing trimmed (our choice)",
        "batadal": "hourly rows as they are (our choice)",
    },
)

RULES = (
    NativeRule(
        "held-out",
        "Median, IQR and threshold (the largest smoothed score) are those of the "
        "held-out block.",
    ),
    NativeRule(
        "by-test-statistics",
        "The threshold is the largest smoothed score of the held-out block, each block "
        "scored by its own median and IQR (report=val of the published code).",
        (TestUse.STATISTICS,),
    ),
    native_rules.BEST_BY_RANK,
)


def gdn_scores(errors: npt.ArrayLike, by: npt.ArrayLike | None = None) -> NativeScores:
    """Return GDN's scores: smoothed absolute errors in units of their spread.

    Parameters
    ----------
    errors : array-like of shape (n_rows, n_channels)
        Forecast errors; their sign does not matter.
    by : array-like of shape (n_other_rows, n_channels), optional
        Errors whose median and IQR are used; `errors` itself if not given.

    Returns
    -------
    NativeScores
        About 0 where nothing is wrong, higher where a row looks more like an attack.
    """
    size = np.abs(native_rules.checked_errors(errors, "errors"))
    basis = (
        size
        if by is None
        else np.abs(native_rules.checked_errors(by, "by", size.shape[1]))
    )
    channels = native_rules.smoothed(
        native_rules.normalised_errors(size, *native_rules.centre_and_spread(basis))
    )
    return NativeScores(channels, channels.max(axis=1))


def gdn_alarms(
    held_out_errors: npt.ArrayLike,
    test_errors: npt.ArrayLike,
    rule: str = "held-out",
    labels: npt.ArrayLike | None = None,
) -> NativeAlarms:
    """Return GDN's alarms.

    Parameters
    ----------
    held_out_errors, test_errors : array-like of shape (n_rows, n_channels)
        Forecast errors of the held-out block and of the test.
    rule : str
        Name of one of `RULES`.
    labels : array-like of shape (n_rows,), optional
        Of the test; used only by the rule whose name says so.
    """
    chosen = native_rules.rule_named(RULES, rule, "GDN")
    if TestUse.LABELS in chosen.looks_at:
        return native_rules.alarms_by_labels(
            chosen, gdn_scores(test_errors).score, labels
        )
    by = None if TestUse.STATISTICS in chosen.looks_at else held_out_errors
    threshold = native_rules.held_out_threshold(gdn_scores(held_out_errors))
    return NativeAlarms.above(threshold, gdn_scores(test_errors, by).score, chosen)


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

    card = CARD
    rules = RULES
    settings_type = GDNSettings
    official: ClassVar[Mapping[str, Any]] = {"missing": "mean", "cross_gaps": True}

    def _windows(self, scaled: Scaled, settings: GDNSettings) -> Windows:
        return forecast_windows(scaled.values, scaled.breaks, settings.window + 1)

    def _build(self, tags: Sequence[Tag]) -> "nn.Module":
        from sightline.detectors.networks import GDNNetwork

        sizes = self._chosen("window", "dim", "top_k", "head_layers", "head_width")
        return GDNNetwork(len(tags), **sizes, dropout=self.settings.dropout)

    def _rebuild(self, weights: Arrays) -> "nn.Module":
        from sightline.detectors.networks import GDNNetwork

        return GDNNetwork.of_weights(weights, top_k=self.settings.top_k)

    def loss(self, network: "nn.Module", batch: "Tensor", epoch: int) -> "Tensor":
        """Return the mean squared error of the forecast of a batch."""
        from torch.nn import functional

        return functional.mse_loss(network(batch[..., :-1]), batch[..., -1])

    def _expected(
        self, network: Any, batch: "Tensor", settings: GDNSettings
    ) -> "tuple[Tensor, Tensor]":
        return batch[..., -1], network(batch[..., :-1])

    def native_alarms(
        self, given: RuleInput, *, rule: str | None = None, labels: Labels | None = None
    ) -> NativeAlarms | None:
        """Return GDN's score and alarms; see `gdn_alarms`."""
        held_out = given.held_out_values
        if not len(held_out) and rule is None:
            return None
        tested = given.test_residuals.values
        return gdn_alarms(held_out, tested, rule or "held-out", labels)
