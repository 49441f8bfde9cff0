"""Attention over a graph of channels, dense: what GDN and FuSAGNet share."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

SLOPE = 0.2
# Stands for minus infinity where an edge is not there; finite, for gradients' sake.
NO_EDGE = -1e30


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
            # A node that nobody sends to gathers nothing.
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
        """Return the nodes (rows of the batch one after another), before and after."""
        gathered, weights = self.gnn(x, embedding, is_edge)
        flat = gathered.flatten(0, 1)
        return torch.relu(self.bn(flat)), gathered, weights


class Head(nn.Module):
    """From a node's features to its forecast; one linear map, or a small network."""

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
    """Return how many layers the head of official weights has."""
    last = max(
        int(name.split(".")[2]) for name in weights if name.startswith("out_layer.mlp.")
    )
    return last // 3 + 1


def nearest_channels(embedding: Tensor, k: int) -> Tensor:
    """Return for each channel the k most alike in direction, itself among them."""
    fixed = embedding.detach()
    length = fixed.norm(dim=-1)
    alike = (fixed @ fixed.T) / (length.unsqueeze(1) * length.unsqueeze(0))
    return torch.topk(alike, min(k, len(fixed)), dim=-1).indices


def edges_of(nearest: Tensor, *, self_loops: bool) -> Tensor:
    """Return who receives from whom, (receiver, sender)."""
    n = len(nearest)
    is_edge = torch.zeros(n, n, dtype=torch.bool, device=nearest.device)
    is_edge.scatter_(1, nearest, True)
    return is_edge.fill_diagonal_(self_loops)
