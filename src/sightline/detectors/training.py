"""The one training loop, and inference in chunks. Importing this needs torch."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from sightline.data.arrays import Ints
from sightline.detectors.networks.weights import weights_of
from sightline.detectors.saving import Arrays, read_saved, write_saved
from sightline.detectors.trained_settings import TrainedSettings
from sightline.detectors.windows import Windows
from sightline.errors import FileError, StreamError, TrainingError
from sightline.progress import Progress, Step, StepKind

# Batches between two words to the progress bar.
_TELL_EVERY = 10
CHECKPOINT = "training checkpoint"


class Objective(Protocol):
    """What is minimised; windows come as (batch, channels, rows)."""

    # A last batch of fewer windows is left out.
    least_batch: int

    def loss(self, network: nn.Module, batch: Tensor, epoch: int) -> Tensor:
        """Return the training loss of a batch; epochs count from 1."""

    def validation_loss(self, network: nn.Module, batch: Tensor, epoch: int) -> Tensor:
        """Return the loss of a held-out batch."""


@dataclass
class History:
    """How a training went: mean loss of each epoch, and which one was kept."""

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
    """Windows as a strided view on the device: only the batch asked for is copied."""

    def __init__(self, windows: Windows, device: torch.device) -> None:
        values = torch.from_numpy(windows.values).to(device)
        self._view = values.unfold(0, windows.length, 1)
        self._starts = torch.from_numpy(windows.starts).to(device)

    def __getitem__(self, which: Tensor) -> Tensor:
        return self._view[self._starts[which]]


@contextmanager
def computing(settings: TrainedSettings, *salt: int) -> Iterator[torch.device]:
    """Give the device; threads and seed are as set within, and as before after."""
    threads = torch.get_num_threads()
    device = _device(settings.device)
    with torch.random.fork_rng(devices=None if device.type == "cuda" else []):
        torch.set_num_threads(settings.threads)
        seed_torch(settings.seed, *salt)
        try:
            yield device
        finally:
            torch.set_num_threads(threads)


def seed_torch(*entropy: int) -> None:
    """Seed torch; each tuple of numbers gives a stream of its own."""
    state = np.random.SeedSequence(entropy).generate_state(1, np.uint64)
    torch.manual_seed(int(state[0]))


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise StreamError(
            f"`device` {name!r} cannot be used on this machine: take 'cpu' or 'auto'."
        ) from error
    return device


def train_network(
    network: nn.Module,
    windows: Windows,
    trained: Ints,
    held_out: Ints,
    *,
    objective: Objective,
    settings: TrainedSettings,
    device: torch.device,
    title: str,
    progress: Progress,
    checkpoint: Path | None,
    key: str = "",
) -> History:
    """Train a network in place; return how it went.

    Every epoch draws its randomness anew from the seed and its own number, so that a
    training taken up again is the same as one that was never stopped. `key` says what
    else a checkpoint must agree in.
    """
    data = WindowTensor(windows, device)
    optimizer = _optimizer(network, settings)
    history, best = History(), dict[str, Tensor]()
    fingerprint = _fingerprint(windows, trained, held_out, settings, title + key)
    if checkpoint is not None and checkpoint.exists():
        history, best = _taken_up(checkpoint, network, optimizer, fingerprint)
    batches = -(-len(trained) // settings.batch_size)
    order = torch.from_numpy(trained)

    while history.epochs < settings.epochs and not history.is_over:
        epoch = history.epochs + 1
        seed_torch(settings.seed, epoch)
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate_in(epoch)

        def tell(batch: int, loss: float, epoch: int = epoch) -> None:
            at = f"epoch {epoch} of {settings.epochs}, loss {loss:.3g}"
            progress(
                Step(
                    StepKind.TRAINING,
                    (epoch - 1) * batches + batch,
                    settings.epochs * batches,
                    f"{title}, {at}",
                )
            )

        shuffled = order[torch.randperm(len(order))] if settings.shuffle else order
        history.train.append(
            _one_epoch(
                network, optimizer, data, shuffled, objective, settings, epoch, tell
            )
        )
        if len(held_out):
            lower = _validated(network, data, held_out, objective, settings, history)
            if lower and settings.keep_best:
                best = {k: v.clone() for k, v in network.state_dict().items()}
        history.is_over = (
            settings.patience is not None and history.n_worse >= settings.patience
        )
        if checkpoint is not None:
            _keep(checkpoint, network, optimizer, history, best, fingerprint)
    if best:
        network.load_state_dict(best)
    if not len(held_out):
        # Nobody has looked at what the last step made of the network.
        _check_sound(network, data[order[: settings.batch_size]], objective, settings)
    return history


def _check_sound(
    network: nn.Module, batch: Tensor, objective: Objective, settings: TrainedSettings
) -> None:
    network.eval()
    with torch.inference_mode():
        loss = objective.validation_loss(network, batch, settings.epochs).item()
    if not np.isfinite(loss):
        raise TrainingError(
            f"The loss became {loss} after the last step: try a lower learning_rate "
            f"(it is {settings.learning_rate:g})."
        )


def _one_epoch(
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
    data: WindowTensor,
    order: Tensor,
    objective: Objective,
    settings: TrainedSettings,
    epoch: int,
    tell: Callable[[int, float], None],
) -> float:
    """Go once through the windows; return the mean of the batches' losses."""
    network.train()
    losses = []
    batches = order.split(settings.batch_size)
    for k, which in enumerate(batches):
        if len(which) < objective.least_batch:
            continue
        loss = objective.loss(network, data[which], epoch)
        losses.append(loss.item())
        if not np.isfinite(losses[-1]):
            raise TrainingError(
                f"The loss became {losses[-1]} in epoch {epoch}, batch {k + 1} of "
                f"{len(batches)}: try a lower learning_rate (it is "
                f"{settings.learning_rate:g}), and look for extreme values in train "
                "(`clip` keeps scaled values within bounds)."
            )
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if settings.keras_adam:
            _as_keras(optimizer, settings, (epoch - 1) * len(batches) + k + 1)
        optimizer.step()
        if k % _TELL_EVERY == 0:
            tell(k, losses[-1])
    tell(len(batches), losses[-1])
    return float(np.mean(losses))


def _validated(
    network: nn.Module,
    data: WindowTensor,
    held_out: Ints,
    objective: Objective,
    settings: TrainedSettings,
    history: History,
) -> bool:
    """Note the loss of the held-out block; tell whether it is the lowest so far."""
    network.eval()
    with torch.inference_mode():
        losses = [
            objective.validation_loss(network, data[which], history.epochs).item()
            for which in torch.from_numpy(held_out).split(settings.batch_size)
        ]
    loss = float(np.mean(losses))
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
        return True
    history.n_worse += 1
    return False


def _as_keras(
    optimizer: torch.optim.Optimizer, settings: TrainedSettings, step: int
) -> None:
    """Make torch's Adam add its epsilon where Keras' does."""
    correction = (1 - settings.betas[1] ** step) ** 0.5
    for group in optimizer.param_groups:
        group["eps"] = settings.adam_eps / correction


def _optimizer(network: nn.Module, settings: TrainedSettings) -> torch.optim.Optimizer:
    kind = torch.optim.AdamW if settings.decoupled_decay else torch.optim.Adam
    return kind(
        [p for p in network.parameters() if p.requires_grad],
        lr=settings.learning_rate,
        eps=settings.adam_eps,
        betas=settings.betas,
        weight_decay=settings.weight_decay,
        fused=True,
    )


def residuals_in_chunks(
    windows: Windows,
    expected: Callable[[Tensor], tuple[Tensor, Tensor]],
    *,
    chunk: int,
    device: torch.device,
    progress: Progress,
    doing: str,
) -> npt.NDArray[np.floating]:
    """Return observed minus expected for every window, a chunk at a time."""
    data = WindowTensor(windows, device)
    n, channels = len(windows), windows.values.shape[1]
    found = np.empty((n, channels), windows.values.dtype)
    with torch.inference_mode():
        for start in range(0, n, chunk):
            which = torch.arange(start, min(start + chunk, n), device=device)
            observed, expectation = expected(data[which])
            found[start : start + chunk] = (observed - expectation).cpu().numpy()
            progress(Step(StepKind.RESIDUALS, min(start + chunk, n), n, doing))
    return found


def _fingerprint(
    windows: Windows,
    trained: Ints,
    held_out: Ints,
    settings: TrainedSettings,
    title: str,
) -> str:
    """Return what a checkpoint must agree with: the data, the settings, the network."""
    digest = hashlib.sha256()
    for array in (windows.values, windows.starts, trained, held_out):
        digest.update(np.ascontiguousarray(array).data)
    digest.update(json.dumps([title, windows.length, settings.to_dict()]).encode())
    return digest.hexdigest()


def _keep(
    path: Path,
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
    history: History,
    best: dict[str, Tensor],
    fingerprint: str,
) -> None:
    arrays: Arrays = {f"now/{k}": v for k, v in weights_of(network).items()}
    arrays |= {f"best/{k}": v.cpu().numpy() for k, v in best.items()}
    states = optimizer.state_dict()["state"]
    for number, state in states.items():
        arrays |= {f"optimizer/{number}/{k}": v.cpu().numpy() for k, v in state.items()}
    about = {
        "kind": CHECKPOINT,
        "fingerprint": fingerprint,
        "history": asdict(history),
        "n_states": len(states),
    }
    write_saved(path, about, arrays)


def _taken_up(
    path: Path,
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
    fingerprint: str,
) -> tuple[History, dict[str, Tensor]]:
    """Put a checkpoint into network and optimiser; return the history and the best."""
    about, arrays = read_saved(path)
    if about.get("kind") != CHECKPOINT:
        raise FileError(f"{os.fspath(path)}: is not a checkpoint of a training.")
    if about.get("fingerprint") != fingerprint:
        raise FileError(
            f"{os.fspath(path)}: is the checkpoint of another training (other data, "
            "settings or seed): name another file, or delete it to begin anew."
        )
    tensors = {k: torch.from_numpy(np.array(v)) for k, v in arrays.items()}

    def under(prefix: str) -> dict[str, Tensor]:
        return {
            k.removeprefix(prefix): v
            for k, v in tensors.items()
            if k.startswith(prefix)
        }

    try:
        history, best = History(**about["history"]), under("best/")
        network.load_state_dict(under("now/"))
        if best and best.keys() != network.state_dict().keys():
            raise KeyError("best")
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in under("optimizer/").items():
            number, _, part = name.partition("/")
            state.setdefault(int(number), {})[part] = tensor
        groups: Any = optimizer.state_dict()["param_groups"]
        whole = {"step", "exp_avg", "exp_avg_sq"}
        is_whole = all(one.keys() == whole for one in state.values())
        if len(state) != about["n_states"] or not is_whole:
            raise KeyError("optimizer")
        optimizer.load_state_dict({"state": state, "param_groups": groups})
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise FileError(
            f"{os.fspath(path)}: is not a whole checkpoint: delete it to begin anew."
        ) from error
    return history, best
