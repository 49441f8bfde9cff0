"""GDN: channels forecast each other along a learned graph (Deng and Hooi, 2021)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Floats, Labels
from sightline.data.recording import Tag
from sightline.detectors.base import Arrays, RuleInput, read_card
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
from sightline.detectors.settings import Count, GraphSettings
from sightline.detectors.trained import Evaluator, WindowedDetector

if TYPE_CHECKING:
    from torch import Tensor, nn


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
    BEST_BY_RANK,
)


def gdn_scores(errors: npt.ArrayLike, by: npt.ArrayLike | None = None) -> Floats:
    """Return GDN's scores: smoothed absolute errors in units of their spread.

    Parameters
    ----------
    errors : array-like of shape (n_rows, n_channels)
        Forecast errors; their sign does not matter.
    by : array-like of shape (n_other_rows, n_channels), optional
        Errors whose median and IQR are used; `errors` itself if not given.

    Returns
    -------
    array of shape (n_rows, n_channels)
        About 0 where nothing is wrong, higher where a row looks more like an attack.
        The score of a row is the largest of its channels.
    """
    size = np.abs(checked_errors(errors, "errors"))
    basis = size if by is None else np.abs(checked_errors(by, "by", size.shape[1]))
    return smoothed(normalised_errors(size, *centre_and_spread(basis)))


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
    chosen = rule_named(RULES, rule, "GDN")
    if TestUse.LABELS in chosen.looks_at:
        return alarms_by_labels(chosen, gdn_scores(test_errors).max(axis=1), labels)
    held_out = gdn_scores(held_out_errors)
    by = None if TestUse.STATISTICS in chosen.looks_at else held_out_errors
    score = gdn_scores(test_errors, by).max(axis=1)
    return NativeAlarms.above(held_out_threshold(held_out), chosen, score)


@dataclass(frozen=True, kw_only=True)
class GDNSettings(GraphSettings):
    """Settings of GDN; a channel is one of the `top_k` that it receives from itself.

    Parameters
    ----------
    residual : {"signed", "absolute"}
        Observed minus expected, or its size, which the published code takes at once.
    """

    residual: Literal["signed", "absolute"] = "signed"
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

    def _windows(self, scaled: ScaledRows, settings: GDNSettings) -> RowWindows:
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
        if settings.residual == "absolute":
            return lambda batch: (batch[..., -1] - forecast(batch[..., :-1])).abs()
        return lambda batch: batch[..., -1] - forecast(batch[..., :-1])

    def native_alarms(
        self, given: RuleInput, *, rule: str | None = None, labels: Labels | None = None
    ) -> NativeAlarms | None:
        """Return GDN's score and alarms; see `gdn_alarms`."""
        held_out = given.held_out_values
        if not len(held_out) and rule is None:
            return None
        tested = given.test_residuals.values
        return gdn_alarms(held_out, tested, rule or "held-out", labels)
