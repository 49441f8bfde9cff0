"""What detectors with a network share: windows, held-out block, training, chunks."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from sightline.data.arrays import Bools, Ints, require
from sightline.data.recording import Recording, Tag
from sightline.detectors.base import Arrays, LearnedDetector, Residuals, Split, under
from sightline.detectors.preprocessing import (
    Preprocessing,
    RowWindows,
    ScaledRows,
    held_out_block,
)
from sightline.errors import StreamError
from sightline.progress import Progress, Step, StepKind

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from sightline.detectors.networks import History

# From windows (batch, channels, rows) to observed minus expected of their newest rows,
# (batch, channels).
Evaluator: TypeAlias = "Callable[[Tensor], Tensor]"


class TrainedDetector(LearnedDetector):
    """A detector with a network, which a subclass builds and evaluates.

    Windows reach the network as (batch, channels, rows).

    Attributes
    ----------
    network : torch.nn.Module, optional
        Set by `fit`.
    history : History, optional
        Losses of the training, set by `fit`.
    """

    # A last batch with fewer windows is left out of training.
    least_batch = 1

    def __init__(
        self, preset: str = "export", *, testbed: str | None = None, **overrides: Any
    ) -> None:
        require("torch", extra="detectors", caller=self.card.title)
        super().__init__(preset, testbed=testbed, **overrides)
        self.network: nn.Module | None = None
        self.history: History | None = None
        self._preprocessing: Preprocessing | None = None

    @abstractmethod
    def _training_windows(self, scaled: ScaledRows, settings: Any) -> RowWindows:
        """Return the windows to train on."""

    @abstractmethod
    def _build(self, tags: Sequence[Tag]) -> "nn.Module":
        """Return a fresh network for these channels."""

    @abstractmethod
    def _rebuild(self, weights: Arrays) -> "nn.Module":
        """Return the network that saved weights belong to."""

    @abstractmethod
    def loss(self, network: "nn.Module", batch: "Tensor", epoch: int) -> "Tensor":
        """Return the training loss of a batch.

        Parameters
        ----------
        network : torch.nn.Module
            In training mode.
        batch : tensor of shape (batch, channels, rows)
            Windows of train.
        epoch : int
            Counted from 1.

        Returns
        -------
        tensor
            One number, lower is better.
        """

    def validation_loss(
        self, network: "nn.Module", batch: "Tensor", epoch: int
    ) -> "Tensor":
        """Return the loss of a held-out batch; by default that of training.

        Parameters
        ----------
        network, batch, epoch
            As for `loss`; the network is in evaluation mode.
        """
        return self.loss(network, batch, epoch)

    def _learn(
        self, recording: Recording, progress: Progress, checkpoint: Path | None
    ) -> Split:
        """Preprocess train, cut windows, and train the network on them."""
        from sightline.detectors.networks import Training, computing

        settings = self.settings
        # A failed fit must not leave a mixture of a new and an old state.
        self.channels = None
        self._preprocessing = Preprocessing.fit(
            recording, settings, unscaled=self._unscaled(recording.tags)
        )
        tags = [recording.tags[column] for column in self._preprocessing.kept]
        scaled = self._preprocessing.train(recording, settings, settings.precision)
        scaled = self._designed(scaled, tags)
        windows = self._training_windows(scaled, settings)
        trained, held_out = self._divided(windows)
        with computing(settings) as device:
            self.network = self._build(tags)
            if settings.dtype == "float64":
                self.network.double()
            self.network.to(device)
            training = Training(
                network=self.network,
                windows=windows,
                trained=trained,
                held_out=held_out,
                objective=self,
                settings=settings,
                title=self.card.title,
                progress=progress,
            )
            facts = [self.card.version, [(t.name, t.role, t.stage) for t in tags]]
            self.history = training.run(checkpoint, key=str(facts))
            self._finish(windows, device, progress)
        return self._split(scaled, windows, trained, held_out)

    def _unscaled(self, tags: Sequence[Tag]) -> Bools | None:
        """Return which channels stay in the plant's units; None for no channel."""
        return None

    def _designed(self, scaled: ScaledRows, tags: Sequence[Tag]) -> ScaledRows:
        """Return train as the network takes it; may learn from it how."""
        return scaled

    def _finish(
        self, windows: RowWindows, device: "torch.device", progress: Progress
    ) -> None:
        """Learn what is learned after the network."""

    def _split(
        self, scaled: ScaledRows, windows: RowWindows, trained: Ints, held_out: Ints
    ) -> Split:
        """Return the steps of train that were learned from, and those held out.

        A window that a stride skips counts as its neighbours do.
        """
        is_held_out = np.zeros(len(windows), np.bool_)
        is_trained = np.ones(len(windows), np.bool_)
        if len(held_out):
            is_held_out[held_out[0] : held_out[-1] + 1] = True
            before = trained[trained < held_out[0]]
            after = trained[trained > held_out[-1]]
            first = before[-1] + 1 if len(before) else 0
            last = after[0] if len(after) else len(windows)
            is_trained[first:last] = False
        # The first rows were learned from windows that later reach into trimmed rows.
        is_full = ~windows.is_warm_up
        steps = scaled.rows[windows.steps]
        return Split(
            trained=steps[is_trained & is_full], held_out=steps[is_held_out & is_full]
        )

    def _divided(self, windows: RowWindows) -> tuple[Ints, Ints]:
        """Return the numbers of the windows to train on, and of those held out.

        With `purge` windows that overlap the held-out block are in neither.
        """
        settings = self.settings
        candidates = np.arange(0, len(windows), settings.stride)
        block = held_out_block(
            len(candidates), settings.validation_share, settings.seed
        )
        margin = -(-windows.length // settings.stride) if settings.purge else 0
        is_trained = np.ones(len(candidates), np.bool_)
        if block.stop:
            is_trained[max(block.start - margin, 0) : block.stop + margin] = False
        trained = candidates[is_trained]
        if len(trained) < 2:
            raise StreamError(
                f"Train gives {len(candidates)} windows of {windows.length} rows, "
                f"{len(trained)} of them to learn from: {self.card.title} needs at "
                "least 2; give it a longer recording, or lower `every` or `trim_s`."
            )
        return trained, candidates[block]

    def about(self) -> dict[str, object]:
        """Return what is needed to make the same detector again; JSON can hold it."""
        import torch

        about = super().about() | {"torch": torch.__version__}
        if self.history is not None:
            about["training"] = {
                "epochs": self.history.epochs,
                "best_epoch": self.history.best_epoch,
                "train_loss": self.history.train,
                "validation_loss": self.history.validation,
            }
        return about

    def _arrays(self) -> Arrays:
        from sightline.detectors.networks import weights_of

        history = self._fitted(self.history)
        network = weights_of(self._fitted(self.network))
        weights = {f"network/{k}": v for k, v in network.items()}
        losses = {
            "history/train": np.array(history.train),
            "history/validation": np.array(history.validation),
            "history/best_epoch": np.array(history.best_epoch),
        }
        return self._fitted(self._preprocessing).arrays() | weights | losses

    def _restore(self, arrays: Arrays) -> None:
        from sightline.detectors.networks import History

        weights = under("network/", arrays)
        if any(array.size == 0 for array in weights.values()):
            raise ValueError("a layer of the network is empty")
        self._preprocessing = Preprocessing.of_arrays(arrays)
        self.network = self._rebuild(weights)
        self.history = History(
            train=arrays["history/train"].tolist(),
            validation=arrays["history/validation"].tolist(),
            best_epoch=int(arrays["history/best_epoch"]),
        )


class WindowedDetector(TrainedDetector):
    """A trained detector that evaluates each window by itself.

    What it expects of a window's newest row does not depend on any other window.
    """

    @abstractmethod
    def _windows(self, scaled: ScaledRows, settings: Any) -> RowWindows:
        """Return the windows of scaled rows."""

    def _training_windows(self, scaled: ScaledRows, settings: Any) -> RowWindows:
        """Return the windows to train on; by default those evaluated later."""
        return self._windows(scaled, settings)

    @abstractmethod
    def _evaluator(self, network: Any, settings: Any) -> Evaluator:
        """Return what gives observed minus expected of windows' newest rows.

        It is called by several threads at a time.

        Parameters
        ----------
        network : torch.nn.Module
            In evaluation mode.
        settings : TrainedSettings
            Under the preset of the residuals.
        """

    def _inference_chunk(self, settings: Any) -> int:
        """Return how many windows are evaluated together; few fit into the cache."""
        return 64

    def _residuals(
        self, recording: Recording, settings: Any, progress: Progress
    ) -> Residuals:
        """Evaluate the network on all windows of a recording, a chunk at a time."""
        from sightline.detectors.networks import computing, in_chunks

        preprocessing = self._fitted(self._preprocessing)
        network = self._fitted(self.network)
        scaled = preprocessing.test(recording, settings, self.settings.precision)
        windows = self._windows(scaled, settings)
        if not len(windows):
            raise StreamError(
                f"The recording has no run of {windows.length} rows, which "
                f"{self.card.title} needs for a residual: give it a longer one."
            )
        network.eval()
        n, by = len(windows), f"by {self.card.title}"
        with computing(settings) as device:
            network.to(device)
            values = in_chunks(
                windows,
                np.arange(n),
                self._evaluator(network, settings),
                chunk=self._inference_chunk(settings),
                device=device,
                done=lambda k: progress(Step(StepKind.RESIDUALS, k, n, by)),
            )
        return Residuals(
            values=values,
            index=scaled.rows[windows.steps],
            channels=tuple(recording.channels[k] for k in preprocessing.kept),
            space=self.card.space,
            every=scaled.every,
            is_warm_up=windows.is_warm_up,
            scale=scaled.scale,
            notices=(*scaled.notices, *self._remarks(scaled)),
        )

    def _look_back(self, settings: Any) -> int | None:
        """Return the rows of a window: one more than those before its newest row."""
        return int(settings.window)

    def _remarks(self, scaled: ScaledRows) -> tuple[str, ...]:
        """Return sentences that a reader of the stream should see."""
        return ()
