"""Settings of detectors that are trained: epochs, batches, seed, device, precision."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from sightline.detectors.preprocessing import PreprocessingSettings
from sightline.detectors.settings import (
    check_at_least,
    check_choice,
    check_share,
    check_whole,
    is_number,
)
from sightline.errors import StreamError


@dataclass(frozen=True, kw_only=True)
class TrainedSettings(PreprocessingSettings):
    """What the one training loop can be told.

    Parameters
    ----------
    epochs, batch_size, learning_rate, betas, weight_decay
        Of the optimiser, Adam.
    adam_eps, keras_adam
        What is added to the root of the squares, and whether before they are corrected
        for the first steps' bias, as Keras does, which counts for more.
    decoupled_decay : bool
        Let weights decay by themselves (AdamW) rather than through the gradient.
    lr_factor, lr_every
        Multiply the learning rate by the factor after every so many epochs.
    validation_share : float
        Share of the windows held out, one block; 0 for none.
    purge : bool
        Leave windows out of training that overlap the held-out block.
    patience : int, optional
        Stop after so many epochs in a row without a lower held-out loss.
    keep_best : bool
        Keep the weights of the epoch with the lowest held-out loss; else the last.
    stride : int
        Take every so-manieth window of train.
    shuffle : bool
        Draw the order of the windows anew in each epoch.
    seed, threads : int
        Seed of all that is drawn; threads torch may use.
    device : str
        ``"auto"``, ``"cpu"``, ``"cuda"`` or any that torch knows.
    dtype : {"float32", "float64"}
        Precision of data and network.
    """

    epochs: int = 30
    batch_size: int = 32
    learning_rate: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = 0.0
    adam_eps: float = 1e-8
    keras_adam: bool = False
    decoupled_decay: bool = False
    lr_factor: float = 1.0
    lr_every: int = 5
    validation_share: float = 0.2
    purge: bool = False
    patience: int | None = None
    keep_best: bool = True
    stride: int = 1
    shuffle: bool = True
    seed: int = 0
    threads: int = 1
    device: str = "auto"
    dtype: Literal["float32", "float64"] = "float32"

    def __post_init__(self) -> None:
        """Refuse what is not an option."""
        super().__post_init__()
        check_whole(self, 1, "epochs", "batch_size", "stride", "threads", "lr_every")
        check_whole(self, 0, "seed")
        check_at_least(
            self, 0, "learning_rate", "weight_decay", "lr_factor", "adam_eps"
        )
        if self.patience is not None:
            check_whole(self, 1, "patience")
        check_share(self, "validation_share")
        check_choice(self, "dtype", ("float32", "float64"))
        betas = tuple(self.betas) if isinstance(self.betas, tuple | list) else ()
        if len(betas) != 2 or not all(is_number(b) and 0 <= b < 1 for b in betas):
            raise StreamError(
                f"`betas` must be two numbers from 0 to below 1; got {self.betas!r}."
            )
        object.__setattr__(self, "betas", (float(betas[0]), float(betas[1])))

    @property
    def precision(self) -> type[np.floating]:
        """The numpy type of data and network."""
        return np.float32 if self.dtype == "float32" else np.float64

    def learning_rate_in(self, epoch: int) -> float:
        """Return the learning rate of an epoch; they count from 1."""
        passed = (epoch - 1) // self.lr_every
        return float(self.learning_rate * self.lr_factor**passed)
