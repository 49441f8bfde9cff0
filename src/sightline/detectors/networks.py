"""Parts that the networks of several detectors share. Importing this needs torch.

Tensors bear the names of the published code, so that its state dictionaries load as
they are.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

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


def head_shape(weights: Mapping[str, object]) -> int:
    """Return the number of layers of the head of official weights."""
    last = max(
        int(name.split(".")[2]) for name in weights if name.startswith("out_layer.mlp.")
    )
    return last // 3 + 1


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
