"""TranAD: a transformer reconstructs the newest row, twice (Tuli et al., 2022)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from msgspec import Meta

from sightline.data.arrays import Labels
from sightline.data.recording import Tag
from sightline.detectors.base import Arrays, RuleInput, read_card
from sightline.detectors.native_rules import NativeAlarms
from sightline.detectors.preprocessing import RowWindows, ScaledRows, padded_windows
from sightline.detectors.settings import (
    Count,
    NonNegative,
    Share,
    TrainedSettings,
    checked_value,
)
from sightline.detectors.trained import Evaluator, WindowedDetector
from sightline.detectors.tranad.rule import RULES, tranad_alarms, tranad_scores
from sightline.errors import StreamError
from sightline.text import share

if TYPE_CHECKING:
    from torch import Tensor, nn

# Settings of the network that its weights do not show.
_SHAPE = ("layer_norm", "ff_activation", "pos_encoding", "output")


@dataclass(frozen=True, kw_only=True)
class TranADSettings(TrainedSettings):
    """Settings of TranAD, beyond those of every trained detector.

    Parameters
    ----------
    window, hidden : int
        Rows in a window; width of the inner network.
    dropout : float
        Share dropped in training.
    layer_norm : bool
        Normalise after each branch, as in the paper and not in the code.
    ff_activation : {"identity", "relu", "leaky_relu"}
        Of the inner network; published, the identity.
    pos_encoding : {"official", "standard"}
        Sine and cosine added in every column, or in alternate columns.
    output : {"sigmoid", "linear"}
        Of the head.
    mask_target : bool
        Give the decoders the row before the one they are to reconstruct: another model
        than the published one.
    alignment : {"aligned", "official"}
        Give a row the window that ends with it, or the one that ends before it.
    exported : {"second", "first"}
        Which of the two reconstructions to use.
    pot_level, pot_risk : float, optional
        Of its own alarm rule: the quantile at which the tail of scores begins, and how
        often a normal score may exceed the threshold.
    pot_multiplier : float
        Of the rule that looks at test statistics.
    """

    window: Count = 10
    hidden: Count = 16
    dropout: Share = 0.1
    layer_norm: bool = False
    ff_activation: Literal["identity", "relu", "leaky_relu"] = "identity"
    pos_encoding: Literal["official", "standard"] = "official"
    output: Literal["sigmoid", "linear"] = "sigmoid"
    mask_target: bool = False
    alignment: Literal["aligned", "official"] = "aligned"
    exported: Literal["second", "first"] = "second"
    pot_level: Share | None = None
    pot_risk: Share | None = None
    pot_multiplier: NonNegative = 1.0
    epochs: Count = 5
    batch_size: Count = 128
    learning_rate: NonNegative = 1e-4
    weight_decay: NonNegative = 1e-5
    decoupled_decay: bool = True
    lr_factor: NonNegative = 0.9
    shuffle: bool = False
    keep_best: bool = False
    validation_share: Share = 0.1
    range_epsilon: NonNegative = 1e-4

    def __post_init__(self) -> None:
        """Check every field, and that a masked target has a row before it."""
        super().__post_init__()
        if self.mask_target:
            checked_value("window", self.window, Annotated[int, Meta(ge=2)])


class TranAD(WindowedDetector):
    """TranAD as its published code has it, which is not what its paper describes.

    Parameters
    ----------
    preset : {"export", "official"}
        How it learns; "official" gives each row the window that ends before it, holds
        nothing out, and divides constant channels by 0.0001.
    testbed : str, optional
        Use the card's settings for this testbed.
    **overrides
        Any of `TranADSettings` by name.
    """

    card = read_card("tranad")
    rules = RULES
    settings_type = TranADSettings
    official: ClassVar[Mapping[str, Any]] = {
        "alignment": "official",
        "validation_share": 0.0,
        "constant_channels": "epsilon",
        "cross_gaps": True,
        "dtype": "float64",
    }

    def _windows(self, scaled: ScaledRows, settings: TranADSettings) -> RowWindows:
        return padded_windows(
            scaled.values,
            scaled.breaks,
            settings.window,
            ahead=int(settings.alignment == "official"),
        )

    def _build(self, tags: Sequence[Tag]) -> "nn.Module":
        from sightline.detectors.tranad.network import TranADNetwork

        sizes = self._chosen("window", "hidden", "dropout")
        return TranADNetwork(len(tags), **sizes, **self._chosen(*_SHAPE))

    def _rebuild(self, weights: Arrays) -> "nn.Module":
        from sightline.detectors.tranad.network import TranADNetwork

        return TranADNetwork.of_weights(weights, **self._chosen(*_SHAPE))

    def loss(self, network: "nn.Module", batch: "Tensor", epoch: int) -> "Tensor":
        """Return the published loss of a batch; epochs count from 1."""
        from sightline.detectors.tranad.network import tranad_loss

        first, second = network(*self._network_input(batch))
        return tranad_loss(first, second, batch[..., -1], epoch)

    def _network_input(self, batch: "Tensor") -> "tuple[Tensor, Tensor]":
        """Return windows (batch, rows, channels), and the row given to the decoders."""
        row = batch[..., -2 if self.settings.mask_target else -1]
        return batch.transpose(1, 2), row

    def _evaluator(self, network: Any, settings: TranADSettings) -> Evaluator:
        which = int(settings.exported == "second")
        return lambda batch: (
            batch[..., -1],
            network(*self._network_input(batch))[which],
        )

    def _inference_chunk(self, settings: TranADSettings) -> int:
        return 128

    def _remarks(self, scaled: ScaledRows) -> tuple[str, ...]:
        if self.settings.output != "sigmoid":
            return ()
        outside = float(np.mean((scaled.values < 0) | (scaled.values > 1)))
        if not outside:
            return ()
        return (
            f"{share(outside, 2)} of the cells lie outside train's range, which "
            "TranAD's output cannot reach: their residual is at least the overshoot.",
        )

    def native_alarms(
        self, given: RuleInput, *, rule: str | None = None, labels: Labels | None = None
    ) -> NativeAlarms | None:
        """Return TranAD's score and alarms; see `tranad_alarms`."""
        settings: TranADSettings = self.settings
        if settings.exported != "second":
            if rule is None:
                return None
            raise StreamError(
                f"TranAD's rule {rule!r} is of its second reconstruction: set "
                "`exported` to 'second'."
            )
        return tranad_alarms(
            tranad_scores(given.normal_values),
            tranad_scores(given.test_residuals.values),
            rule or "pot",
            labels,
            level=settings.pot_level,
            risk=settings.pot_risk,
            multiplier=settings.pot_multiplier,
        )
