"""TranAD: a transformer rebuilds the newest row, twice (Tuli et al., 2022)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from sightline.data.arrays import Labels
from sightline.data.recording import Tag
from sightline.detectors.base import DetectorCard, Looked
from sightline.detectors.native_rules.rules import NativeAlarms, tranad_alarms
from sightline.detectors.native_rules.scores import tranad_scores
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
from sightline.detectors.windows import Windows, padded_windows
from sightline.errors import StreamError

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True, kw_only=True)
class TranADSettings(TrainedSettings):
    """What TranAD can be told, beyond what every trained detector can.

    Parameters
    ----------
    window, hidden : int
        Rows in a window; width of the inner network.
    dropout : float
        Share dropped in training.
    layer_norm : bool
        Normalise after each branch, as the paper has it and the code has not.
    ff_activation : {"identity", "relu", "leaky_relu"}
        Of the inner network; published, the identity.
    pos_encoding : {"official", "standard"}
        Sine and cosine added in every column, or in turn.
    output : {"sigmoid", "linear"}
        Of the head.
    mask_target : bool
        Show the decoders the row before, not the one they are to rebuild: another
        model than the published one.
    alignment : {"aligned", "official"}
        Give a row the window that ends with it, or the one that ends before it.
    exported : {"second", "first"}
        Which of the two reconstructions to take.
    pot_level, pot_risk : float, optional
        Of its own alarm rule: where the tail of scores begins (a quantile), and how
        often a normal score may exceed the threshold.
    pot_multiplier : float
        Of the rule that looks at test statistics.
    """

    window: int = 10
    hidden: int = 16
    dropout: float = 0.1
    layer_norm: bool = False
    ff_activation: Literal["identity", "relu", "leaky_relu"] = "identity"
    pos_encoding: Literal["official", "standard"] = "official"
    output: Literal["sigmoid", "linear"] = "sigmoid"
    mask_target: bool = False
    alignment: Literal["aligned", "official"] = "aligned"
    exported: Literal["second", "first"] = "second"
    pot_level: float | None = None
    pot_risk: float | None = None
    pot_multiplier: float = 1.0
    epochs: int = 5
    batch_size: int = 128
    learning_rate: float = 1e-4
    weight_decay: float = 1e-5
    decoupled_decay: bool = True
    lr_factor: float = 0.9
    shuffle: bool = False
    keep_best: bool = False
    validation_share: float = 0.1
    range_epsilon: float = 1e-4

    def __post_init__(self) -> None:
        """Refuse what is not an option."""
        super().__post_init__()
        check_whole(self, 1, "window", "hidden")
        check_share(self, "dropout")
        check_choice(self, "ff_activation", ("identity", "relu", "leaky_relu"))
        check_choice(self, "pos_encoding", ("official", "standard"))
        check_choice(self, "output", ("sigmoid", "linear"))
        check_choice(self, "alignment", ("aligned", "official"))
        check_choice(self, "exported", ("second", "first"))
        for name in ("pot_level", "pot_risk"):
            if getattr(self, name) is not None:
                check_share(self, name)
        check_at_least(self, 0, "pot_multiplier")
        if self.mask_target:
            check_whole(self, 2, "window")


class TranAD(WindowedDetector):
    """TranAD as its published code has it, which is not what its paper describes.

    Parameters
    ----------
    preset : {"export", "official"}
        How it learns; "official" gives each row the window that ends before it, holds
        nothing out, and divides constant channels by 0.0001.
    testbed : str, optional
        Take the card's settings for this testbed.
    **overrides
        Any of `TranADSettings` by name.
    """

    card: ClassVar[DetectorCard] = DetectorCard(
        name="tranad",
        title="TranAD",
        paper="S. Tuli, G. Casale and N. R. Jennings, TranAD: Deep Transformer "
        "Networks for Anomaly Detection in Multivariate Time Series Data, PVLDB "
        "15(6), 2022",
        kind="reconstruction by a transformer",
        extra="detectors",
        faithful=(
            "Network, initialisation, loss, optimiser and order of the windows are "
            "those of the published code (commit 7ffb98d): no adversarial loss, no "
            "meta-learning, no layer norm, an identity for an activation, and decoders "
            "that are shown the row they are to rebuild.",
            "The residual is that of the second reconstruction.",
        ),
        deviates=(
            "A row gets the window that ends with it; published, the one that ends a "
            "row earlier, so that scores are a row late (preset 'official').",
            "A tenth of train is held out for calibration (preset 'official': none).",
            "Constant channels keep their unit; published, they are divided by 0.0001 "
            "(preset 'official').",
            "Recordings are scaled by train's range; the published code scales WADI's "
            "test by its own (test_scaling 'own').",
            "Windows begin anew at gaps; the first rows of a run are marked warm-up.",
            "Single precision; published, double (dtype 'float64').",
        ),
        settings={
            "swat": {"every": 10},
            "wadi": {"every": 10, "sampling": "stride", "across_breaks": True},
            "hai": {"every": 10},
            "waterworks": {"every": 10},
            "batadal": {},
        },
        sources={
            "swat": "no published setting (the repository's SWaT is another series): "
            "WADI's learning rate, rows of 10 s (our choice)",
            "wadi": "the repository: learning rate 0.0001, every 10th row",
            "hai": "as SWaT (our choice)",
            "waterworks": "as SWaT (our choice)",
            "batadal": "hourly rows as they are (our choice)",
        },
    )
    settings_type: ClassVar[type[Settings]] = TranADSettings
    official: ClassVar[dict[str, Any]] = {
        "alignment": "official",
        "validation_share": 0.0,
        "constant_channels": "epsilon",
        "cross_gaps": True,
        "dtype": "float64",
    }

    def _windows(self, scaled: Scaled, settings: TranADSettings) -> Windows:
        return padded_windows(
            scaled.values,
            scaled.breaks,
            settings.window,
            ahead=int(settings.alignment == "official"),
        )

    def _build(self, tags: Sequence[Tag]) -> "nn.Module":
        from sightline.detectors.tranad.network import TranADNetwork

        settings: TranADSettings = self.settings
        return TranADNetwork(
            len(tags),
            window=settings.window,
            hidden=settings.hidden,
            dropout=settings.dropout,
            layer_norm=settings.layer_norm,
            ff_activation=settings.ff_activation,
            pos_encoding=settings.pos_encoding,
            output=settings.output,
        )

    def _rebuild(self, weights: Arrays) -> "nn.Module":
        from sightline.detectors.tranad.network import TranADNetwork

        settings: TranADSettings = self.settings
        return TranADNetwork.of_weights(
            weights,
            layer_norm=settings.layer_norm,
            ff_activation=settings.ff_activation,
            pos_encoding=settings.pos_encoding,
            output=settings.output,
        )

    def loss(self, network: "nn.Module", batch: "Tensor", epoch: int) -> "Tensor":
        """Return the published loss of a batch; epochs count from 1."""
        from sightline.detectors.tranad.network import tranad_loss

        first, second = network(*self._shown(batch))
        return tranad_loss(first, second, batch[..., -1], epoch)

    def _shown(self, batch: "Tensor") -> "tuple[Tensor, Tensor]":
        """Return windows (batch, rows, channels), and what the decoders are shown."""
        shown = batch[..., -2 if self.settings.mask_target else -1]
        return batch.transpose(1, 2), shown

    def _expected(
        self, network: Any, batch: "Tensor", settings: TranADSettings
    ) -> "tuple[Tensor, Tensor]":
        first, second = network(*self._shown(batch))
        return batch[..., -1], second if settings.exported == "second" else first

    def _inference_chunk(self, settings: TranADSettings) -> int:
        return 128

    def _remarks(self, scaled: Scaled) -> tuple[str, ...]:
        if self.settings.output != "sigmoid":
            return ()
        outside = float(np.mean((scaled.values < 0) | (scaled.values > 1)))
        if not outside:
            return ()
        return (
            f"{outside:.2%} of the cells lie outside train's range, which TranAD's "
            "output cannot reach: there its residual is at least the overshoot.",
        )

    def native_alarms(
        self, looked: Looked, *, rule: str | None = None, labels: Labels | None = None
    ) -> NativeAlarms | None:
        """Return TranAD's own score and alarms; see `native.rules`."""
        settings: TranADSettings = self.settings
        if settings.exported != "second":
            if rule is None:
                return None
            raise StreamError(
                f"TranAD's rule {rule!r} is of its second reconstruction: set "
                "`exported` to 'second'."
            )
        return tranad_alarms(
            tranad_scores(looked.normal_values),
            tranad_scores(looked.tested.values),
            rule or "pot",
            labels,
            level=settings.pot_level,
            risk=settings.pot_risk,
            multiplier=settings.pot_multiplier,
        )
