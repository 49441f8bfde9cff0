"""What networks share: layers, the training loop, residuals. Importing needs torch.

Tensors bear the names of the published code, so that its state dictionaries load as
they are.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from sightline.data.arrays import Ints
from sightline.detectors.base import (
    Arrays,
    fingerprint_of,
    read_checkpoint,
    restoring,
    under,
    write_saved,
)
from sightline.detectors.preprocessing import RowWindows
from sightline.detectors.settings import TrainedSettings
from sightline.errors import StreamError, TrainingError
from sightline.parallel import map_threads, threads
from sightline.progress import Progress, Step, StepKind

if TYPE_CHECKING:
    from sightline.detectors.trained import TrainedDetector

N = TypeVar("N", bound=nn.Module)
_LEVELS = 2**16
# Slope of the leaky ReLU for negative input.
SLOPE = 0.2
# In place of minus infinity where there is no edge; finite for the gradients' sake.
NO_EDGE = -1e30


# -------------------------------------------------------------------------- weights


def load_weights(network: N, weights: Mapping[str, Any]) -> N:
    """Copy named arrays into a network, which takes their precision; return it.

    Parameters
    ----------
    network : torch.nn.Module
        With tensors of the same names and shapes.
    weights : mapping of array
        By name; if one is double, the network becomes double.
    """
    tensors = {
        name: torch.as_tensor(np.array(array)) for name, array in weights.items()
    }
    kinds = {t.dtype for t in tensors.values() if t.is_floating_point()}
    if torch.float64 in kinds:
        network.double()
    network.load_state_dict(tensors)
    return network


def weights_of(network: nn.Module) -> dict[str, npt.NDArray[Any]]:
    """Return a network's tensors as named arrays, each a copy."""
    return {
        name: tensor.detach().cpu().numpy().copy()
        for name, tensor in network.state_dict().items()
    }


# -------------------------------------------------------------------------- dropout


def dropout(x: Tensor, share: float, training: bool) -> Tensor:
    """Return x with a share of its numbers 0 and the others scaled up accordingly.

    Sixteen bits are drawn for a number, four numbers at a time: on a processor torch's
    own dropout spends most of a small network's training in drawing. The share is
    rounded to the nearest 1/65536, and the scale is exact for that.
    """
    cut = min(round(share * _LEVELS), _LEVELS - 1)
    if not training or not cut:
        return x
    n = x.numel()
    drawn = torch.empty(-(-n // 4), dtype=torch.int64, device=x.device)
    drawn.random_(-(2**63), None)
    is_kept = drawn.view(torch.int16)[:n].view(x.shape) >= cut - _LEVELS // 2
    return x * is_kept.to(x.dtype).mul_(_LEVELS / (_LEVELS - cut))


class Dropout(nn.Module):
    """`dropout` as a layer."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.p = share

    def forward(self, x: Tensor) -> Tensor:
        """Return x, in training with a share of it dropped."""
        return dropout(x, self.p, self.training)


# ------------------------------------------------- graph attention: GDN and FuSAGNet


class GraphAttention(nn.Module):
    """One attention head whose keys are the projected window and the embedding."""

    def __init__(self, window: int, dim: int) -> None:
        super().__init__()
        self.lin = nn.Linear(window, dim, bias=False)
        self.att_i, self.att_j, self.att_em_i, self.att_em_j = (
            nn.Parameter(torch.zeros(1, 1, dim)) for _ in range(4)
        )
        self.bias = nn.Parameter(torch.zeros(dim))
        nn.init.xavier_uniform_(self.lin.weight)
        for attention in (self.att_i, self.att_j):
            nn.init.uniform_(
                attention, -((6 / (1 + dim)) ** 0.5), (6 / (1 + dim)) ** 0.5
            )

    def forward(
        self, x: Tensor, embedding: Tensor, is_edge: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return what each node gathers, and the weights (receiver, sender).

        A message is linear in the sender's window, so windows are gathered first and
        projected once: the same sum, at a fraction of its cost.
        """
        weight = self.lin.weight
        receives = x @ (self.att_i.view(-1) @ weight)
        sends = x @ (self.att_j.view(-1) @ weight)
        receives = receives + embedding @ self.att_em_i.view(-1)
        sends = sends + embedding @ self.att_em_j.view(-1)
        logits = functional.leaky_relu(
            receives.unsqueeze(2) + sends.unsqueeze(1), SLOPE
        )
        weights = logits.masked_fill(~is_edge, NO_EDGE).softmax(-1)
        if not is_edge.any(-1).all():
            # A node without a sender gathers nothing.
            weights = weights.masked_fill(~is_edge, 0.0)
        return functional.linear(weights @ x, weight, self.bias), weights


class GraphLayer(nn.Module):
    """Attention, then normalisation over all nodes of the batch."""

    def __init__(self, window: int, dim: int) -> None:
        super().__init__()
        self.gnn = GraphAttention(window, dim)
        self.bn = nn.BatchNorm1d(dim)

    def forward(
        self, x: Tensor, embedding: Tensor, is_edge: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return nodes (batch * channels, dim), what they gathered, and the weights."""
        gathered, weights = self.gnn(x, embedding, is_edge)
        flat = gathered.flatten(0, 1)
        return torch.relu(self.bn(flat)), gathered, weights


class Head(nn.Module):
    """From a node's features to its forecast: one linear map, or a small network."""

    def __init__(self, dim: int, layers: int, width: int) -> None:
        super().__init__()
        parts: list[nn.Module] = []
        for k in range(layers - 1):
            parts += [nn.Linear(dim if k == 0 else width, width)]
            parts += [nn.BatchNorm1d(width), nn.ReLU()]
        parts.append(nn.Linear(dim if layers == 1 else width, 1))
        self.mlp = nn.ModuleList(parts)

    def forward(self, nodes: Tensor) -> Tensor:
        """Return one number for each node."""
        for part in self.mlp:
            nodes = part(nodes)
        return nodes.squeeze(-1)


def nearest_channels(embedding: Tensor, k: int) -> Tensor:
    """Return for each channel the k most similar in direction, itself among them.

    Parameters
    ----------
    embedding : tensor of shape (channels, dim)
        No gradient flows through the choice.
    k : int
        All channels if there are fewer.

    Returns
    -------
    tensor of shape (channels, k)
        Numbers of channels, the most similar first.
    """
    fixed = embedding.detach()
    length = fixed.norm(dim=-1)
    similarity = (fixed @ fixed.T) / (length.unsqueeze(1) * length.unsqueeze(0))
    return torch.topk(similarity, min(k, len(fixed)), dim=-1).indices


def edges_of(nearest: Tensor, *, self_loops: bool) -> Tensor:
    """Return which channel receives from which, as booleans (receiver, sender)."""
    n = len(nearest)
    is_edge = torch.zeros(n, n, dtype=torch.bool, device=nearest.device)
    is_edge.scatter_(1, nearest, True)
    return is_edge.fill_diagonal_(self_loops)


@dataclass(frozen=True)
class GraphOutput:
    """A forecast along a graph, with the intermediate results it came from.

    Parameters
    ----------
    forecast : tensor of shape (batch, channels)
        Of the next row.
    nearest : tensor of shape (channels, top_k)
        Channels that each channel receives from.
    attention : tensor of shape (batch, channels, channels)
        Weights (receiver, sender).
    gathered, features : tensor of shape (batch, channels, dim)
        Before and after normalisation.
    """

    forecast: Tensor
    nearest: Tensor
    attention: Tensor
    gathered: Tensor
    features: Tensor


class GraphNetwork(nn.Module):
    """Channels that forecast each other: one layer of attention, then a head."""

    def _add_graph(
        self, window: int, dim: int, head_layers: int, head_width: int, dropout: float
    ) -> None:
        self.gnn_layers = nn.ModuleList([GraphLayer(window, dim)])
        self.bn_outlayer_in = nn.BatchNorm1d(dim)
        self.out_layer = Head(dim, head_layers, head_width)
        self.dropout = Dropout(dropout)

    @staticmethod
    def sizes_of(weights: Mapping[str, Any]) -> dict[str, int]:
        """Return the sizes of the graph's layers that official weights belong to."""
        numbers = [
            int(name.split(".")[2])
            for name in weights
            if name.startswith("out_layer.mlp.")
        ]
        return {
            "window": weights["gnn_layers.0.gnn.lin.weight"].shape[1],
            "head_layers": max(numbers) // 3 + 1,
            "head_width": len(weights["out_layer.mlp.0.weight"]),
        }

    def _on_graph(
        self, x: Tensor, embedding: Tensor, nearest: Tensor, is_edge: Tensor
    ) -> GraphOutput:
        """Return the forecast from (batch, channels, rows) along these edges."""
        batch, channels, _ = x.shape
        features, gathered, attention = self.gnn_layers[0](x, embedding, is_edge)
        features = features.view(batch, channels, -1)
        mixed = (features * embedding).flatten(0, 1)
        nodes = torch.relu(self.bn_outlayer_in(mixed))
        forecast = self.out_layer(self.dropout(nodes)).view(batch, channels)
        return GraphOutput(forecast, nearest, attention, gathered, features)


# -------------------------------------------------------------------------- training


# Batches between two calls of the progress callback.
_REPORT_EVERY = 10
# Chunks of windows that a thread evaluates before it looks for more.
_CHUNKS_A_CALL = 8
CHECKPOINT = "training checkpoint"


@dataclass
class History:
    """Course of a training.

    Parameters
    ----------
    train, validation : list of float
        Mean loss of each epoch; `validation` is empty without a held-out block.
    best_epoch : int
        The epoch with the lowest held-out loss, counted from 1; 0 for none.
    n_worse : int
        Epochs since then.
    is_over : bool
        Whether the training was stopped early.
    """

    train: list[float] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)
    best_epoch: int = 0
    n_worse: int = 0
    is_over: bool = False

    @property
    def epochs(self) -> int:
        """Number of epochs so far."""
        return len(self.train)


class WindowTensor:
    """Windows as a strided view on the device: only the requested batch is copied."""

    def __init__(self, windows: RowWindows, device: torch.device) -> None:
        values = torch.from_numpy(windows.values).to(device)
        self._view = values.unfold(0, windows.length, 1)
        self._starts = torch.from_numpy(windows.starts).to(device)

    def __getitem__(self, which: Tensor) -> Tensor:
        return self._view[self._starts[which]]


@contextmanager
def computing(settings: TrainedSettings) -> Iterator[torch.device]:
    """Yield the device, with threads and seed as set; both are restored afterwards."""
    threads, name = torch.get_num_threads(), settings.device
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise StreamError(
            f"`device` {name!r} cannot be used on this machine: take 'cpu' or 'auto'."
        ) from error
    with torch.random.fork_rng(devices=None if device.type == "cuda" else []):
        torch.set_num_threads(settings.threads)
        seed_torch(settings.seed)
        try:
            yield device
        finally:
            torch.set_num_threads(threads)


def seed_torch(*entropy: int) -> None:
    """Seed torch; each tuple of numbers gives an independent sequence."""
    state = np.random.SeedSequence(entropy).generate_state(1, np.uint64)
    torch.manual_seed(int(state[0]))


@dataclass(kw_only=True, eq=False)
class Training:
    """A network in training: what is minimised, on which windows, and how far it is.

    Parameters
    ----------
    network : torch.nn.Module
        Trained in place: it holds the weights of the best or of the last epoch
        afterwards.
    windows : RowWindows
        All windows of train.
    trained, held_out : array of int
        Windows to train on, and to judge by.
    objective : TrainedDetector
        The losses.
    settings : TrainedSettings
        Of the loop.
    title : str
        Of the detector, for progress.
    progress : callable
        Called with a `Step`.
    history : History
        Its course so far.
    best : dict of tensor
        Weights of the best epoch, if they are to be kept.
    """

    network: nn.Module
    windows: RowWindows
    trained: Ints
    held_out: Ints
    objective: "TrainedDetector"
    settings: TrainedSettings
    title: str
    progress: Progress
    history: History = field(default_factory=History)
    best: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Make the optimiser, and put the windows where the network is."""
        self.optimizer = _optimizer(self.network, self.settings)
        device = next(self.network.parameters()).device
        self.data = WindowTensor(self.windows, device)

    def run(self, checkpoint: Path | None = None, key: str = "") -> History:
        """Train the network and return the course of the training.

        Every epoch draws its random numbers from the seed and its own number, so that
        a training continued from a checkpoint gives the same result as one never
        stopped.

        Parameters
        ----------
        checkpoint : path, optional
            File to store the state in after each epoch, and to continue from.
        key : str
            What else a checkpoint must agree with.

        Raises
        ------
        TrainingError
            If a loss is not finite.
        FileError
            If the checkpoint belongs to another training or is damaged.
        """
        settings, order = self.settings, torch.from_numpy(self.trained)
        windows, facts = self.windows, [self.title + key, self.windows.length]
        fingerprint = fingerprint_of(
            (windows.values, windows.starts, self.trained, self.held_out),
            [*facts, settings.to_dict()],
        )
        if checkpoint is not None and checkpoint.exists():
            self._restore(checkpoint, fingerprint)
        history = self.history
        while history.epochs < settings.epochs and not history.is_over:
            self.run_epoch(order)
            if len(self.held_out):
                self.validate()
            history.is_over = (
                settings.patience is not None and history.n_worse >= settings.patience
            )
            if checkpoint is not None:
                self._write(checkpoint, fingerprint)
        if self.best:
            self.network.load_state_dict(self.best)
        if not len(self.held_out):
            # The network after the last step was never evaluated.
            loss = self.loss_of(order[: settings.batch_size], settings.epochs)
            if not np.isfinite(loss):
                raise TrainingError(
                    f"The loss became {loss} after the last step: try a lower "
                    f"learning_rate (it is {settings.learning_rate:g})."
                )
        return history

    def run_epoch(self, order: Tensor) -> None:
        """Train on all windows once; append the mean of the batches' losses."""
        settings, network = self.settings, self.network
        epoch = self.history.epochs + 1
        seed_torch(settings.seed, epoch)
        for group in self.optimizer.param_groups:
            group["lr"] = settings.learning_rate_in(epoch)
        shuffled = order[torch.randperm(len(order))] if settings.shuffle else order
        network.train()
        losses: list[float] = []
        batches = shuffled.split(settings.batch_size)
        for k, which in enumerate(batches):
            if len(which) < self.objective.least_batch:
                continue
            self.optimizer.zero_grad(set_to_none=True)
            loss = self.objective.loss(network, self.data[which], epoch)
            loss.backward()
            losses.append(loss.item())
            if not np.isfinite(losses[-1]):
                raise TrainingError(
                    f"The loss became {losses[-1]} in epoch {epoch}, batch {k + 1} of "
                    f"{len(batches)}: try a lower learning_rate (it is "
                    f"{settings.learning_rate:g}), and look for extreme values in "
                    "train (`clip` keeps scaled values within bounds)."
                )
            if settings.keras_adam:
                _as_keras(self.optimizer, settings, (epoch - 1) * len(batches) + k + 1)
            self.optimizer.step()
            if k % _REPORT_EVERY == 0:
                self._report(epoch, k, len(batches), losses[-1])
        self._report(epoch, len(batches), len(batches), losses[-1])
        self.history.train.append(float(np.mean(losses)))

    def _report(self, epoch: int, batch: int, n_batches: int, loss: float) -> None:
        epochs = self.settings.epochs
        self.progress(
            Step(
                StepKind.TRAINING,
                (epoch - 1) * n_batches + batch,
                epochs * n_batches,
                f"{self.title}, epoch {epoch} of {epochs}, loss {loss:.3g}",
            )
        )

    def validate(self) -> None:
        """Append the loss of the held-out block; keep the weights if it is lowest."""
        history, settings = self.history, self.settings
        loss = self.loss_of(torch.from_numpy(self.held_out), history.epochs)
        if not np.isfinite(loss):
            raise TrainingError(
                f"The loss of the held-out block became {loss} after epoch "
                f"{history.epochs}: try a lower learning_rate (it is "
                f"{settings.learning_rate:g})."
            )
        lowest = min(history.validation, default=np.inf)
        history.validation.append(loss)
        if loss < lowest:
            history.best_epoch, history.n_worse = history.epochs, 0
            if settings.keep_best:
                state = self.network.state_dict()
                self.best = {k: v.clone() for k, v in state.items()}
        else:
            history.n_worse += 1

    def loss_of(self, which: Tensor, epoch: int) -> float:
        """Return the mean validation loss of some windows, by batches."""
        self.network.eval()
        parts = which.split(self.settings.batch_size)
        with torch.inference_mode():
            losses = [
                float(
                    self.objective.validation_loss(self.network, self.data[part], epoch)
                )
                for part in parts
            ]
        weights = [len(part) for part in parts] if self.settings.weigh_windows else None
        return float(np.average(losses, weights=weights))

    def _write(self, path: Path, fingerprint: str) -> None:
        """Write network, best weights, optimiser and history."""
        arrays: Arrays = {f"now/{k}": v for k, v in weights_of(self.network).items()}
        arrays |= {f"best/{k}": v.cpu().numpy() for k, v in self.best.items()}
        states = self.optimizer.state_dict()["state"]
        for number, state in states.items():
            for k, v in state.items():
                arrays[f"optimizer/{number}/{k}"] = v.cpu().numpy()
        about = {
            "kind": CHECKPOINT,
            "fingerprint": fingerprint,
            "history": asdict(self.history),
            "n_states": len(states),
        }
        write_saved(path, about, arrays)

    def _restore(self, path: Path, fingerprint: str) -> None:
        """Set network, best weights, optimiser and history from a checkpoint."""
        about, arrays = read_checkpoint(path, CHECKPOINT, fingerprint)
        tensors = {k: torch.from_numpy(np.array(v)) for k, v in arrays.items()}
        with restoring(f"{path}: is not a whole checkpoint: delete it to start again."):
            self.history = History(**about["history"])
            self.best = under("best/", tensors)
            self.network.load_state_dict(under("now/", tensors))
            if self.best and self.best.keys() != self.network.state_dict().keys():
                raise KeyError("best")
            state: dict[int, dict[str, Tensor]] = {}
            for name, tensor in under("optimizer/", tensors).items():
                number, _, part = name.partition("/")
                state.setdefault(int(number), {})[part] = tensor
            whole = {"step", "exp_avg", "exp_avg_sq"}
            is_whole = all(one.keys() == whole for one in state.values())
            if len(state) != about["n_states"] or not is_whole:
                raise KeyError("optimizer")
            self.optimizer.load_state_dict(
                self.optimizer.state_dict() | {"state": state}
            )


def _as_keras(
    optimizer: torch.optim.Optimizer, settings: TrainedSettings, step: int
) -> None:
    """Make torch's Adam add its epsilon where Keras' does."""
    correction = (1 - settings.betas[1] ** step) ** 0.5
    for group in optimizer.param_groups:
        group["eps"] = settings.adam_eps / correction


def _optimizer(network: nn.Module, settings: TrainedSettings) -> torch.optim.Optimizer:
    """Return Adam, or AdamW, for the parameters that have a gradient."""
    kind = torch.optim.AdamW if settings.decoupled_decay else torch.optim.Adam
    return kind(
        [p for p in network.parameters() if p.requires_grad],
        lr=settings.learning_rate,
        eps=settings.adam_eps,
        betas=settings.betas,
        weight_decay=settings.weight_decay,
        fused=True,
    )


# ------------------------------------------------------------------------- residuals


def in_chunks(
    windows: RowWindows,
    which: Ints,
    evaluate: Callable[[Tensor], Tensor],
    *,
    chunk: int,
    device: torch.device,
    done: Callable[[int], None] = lambda n: None,
) -> npt.NDArray[Any]:
    """Return what is evaluated of windows, a chunk at a time, on all cores.

    The chunks, and so what is computed, do not depend on the number of cores: each
    chunk is evaluated by one thread. On another device than a processor one thread
    starts all of them.

    Parameters
    ----------
    windows : RowWindows
        All windows of a recording.
    which : array of int
        Numbers of those to evaluate.
    evaluate : callable
        From windows (batch, channels, rows) to one result for each.
    chunk : int
        Windows evaluated together.
    device : torch.device
        Where to compute.
    done : callable
        Called with the number of windows evaluated so far.

    Returns
    -------
    array of shape (n_windows, ...)
    """
    data = WindowTensor(windows, device)
    spans = torch.from_numpy(which).to(device).split(chunk * _CHUNKS_A_CALL)
    ends = np.cumsum([len(span) for span in spans])

    def evaluated(span: Tensor) -> npt.NDArray[Any]:
        with torch.inference_mode(), one_torch_thread():
            parts = [evaluate(data[part]).cpu() for part in span.split(chunk)]
            return torch.cat(parts).numpy()

    with threads(None if device.type == "cpu" else 1):
        results = map_threads(
            [partial(evaluated, span) for span in spans],
            lambda k: done(int(ends[k])),
        )
    return np.concatenate(results)


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Let torch use one thread in what this thread calls."""
    number = torch.get_num_threads()
    if number != 1:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        if number != 1:
            torch.set_num_threads(number)
