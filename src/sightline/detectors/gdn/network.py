"""The network of GDN: channels forecast each other along a learned graph."""

from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from sightline.detectors.networks import (
    NO_EDGE,
    SLOPE,
    GraphNetwork,
    GraphOutput,
    edges_of,
    load_weights,
    nearest_channels,
)


class GDNNetwork(GraphNetwork):
    """Forecast of the next row from a window of rows.

    Parameters
    ----------
    channels, window, dim, top_k : int
        Number of channels, rows in a window, length of an embedding, and how many
        channels each channel receives from (itself included).
    head_layers, head_width : int
        Layers of the head, and their width where there are several.
    dropout : float
        Share of features dropped before the head in training.
    """

    def __init__(
        self,
        channels: int,
        *,
        window: int,
        dim: int,
        top_k: int,
        head_layers: int = 1,
        head_width: int = 64,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        self.top_k = top_k
        self.embedding = nn.Embedding(channels, dim)
        self._add_graph(window, dim, head_layers, head_width, dropout)
        nn.init.uniform_(self.embedding.weight, -(dim**-0.5), dim**-0.5)

    @classmethod
    def of_weights(cls, weights: Mapping[str, Any], *, top_k: int) -> Self:
        """Return the network that official weights belong to, in their precision."""
        channels, dim = weights["embedding.weight"].shape
        network = cls(channels, dim=dim, top_k=top_k, **cls.sizes_of(weights))
        return load_weights(network, weights)

    def detailed(self, x: Tensor) -> GraphOutput:
        """Return the forecast of windows (batch, channels, rows), with details."""
        embedding = self.embedding.weight
        nearest = nearest_channels(embedding, self.top_k)
        is_edge = edges_of(nearest, self_loops=True)
        return self._on_graph(x, embedding, nearest, is_edge)

    def forward(self, x: Tensor) -> Tensor:
        """Return the forecast from windows (batch, channels, rows)."""
        return self.detailed(x).forecast


class FixedForecast:
    """The forecast of a network that no longer changes, at a fraction of its cost.

    What does not depend on the window is computed once: the graph, and both
    normalisations, which become part of the linear maps before and after them.
    Attention is computed along edges alone. Agrees with the network in evaluation mode
    but for rounding.

    Parameters
    ----------
    network : GDNNetwork
        Its weights at this moment.
    """

    @torch.no_grad()
    def __init__(self, network: GDNNetwork) -> None:
        layer: Any = network.gnn_layers[0]
        attention, embedding = layer.gnn, network.embedding.weight
        nearest = nearest_channels(embedding, network.top_k)
        is_edge = edges_of(nearest, self_loops=True)
        # The senders of each channel, (sender, receiver); those with fewer are filled
        # up with channels that they do not receive from.
        is_sender, senders = is_edge.T.float().topk(int(is_edge.sum(1).max()), dim=0)
        self.senders = senders
        self.no_edge = None if is_sender.all() else (1 - is_sender) * NO_EDGE
        weight = attention.lin.weight
        keys = [attention.att_i.view(-1) @ weight, attention.att_j.view(-1) @ weight]
        added = [
            embedding @ part.view(-1)
            for part in (attention.att_em_i, attention.att_em_j)
        ]
        self.keys, self.key_bias = torch.stack(keys, 1), torch.stack(added, 1)
        scale, shift = _as_linear(layer.bn)
        self.weight = weight * scale.unsqueeze(1)
        self.bias = attention.bias * scale + shift
        scale, self.shift = _as_linear(network.bn_outlayer_in)
        self.scale = embedding * scale
        self.head = network.out_layer

    def __call__(self, x: Tensor) -> Tensor:
        """Return the forecast from windows (batch, channels, rows)."""
        batch, channels, _ = x.shape
        received, sent = (x @ self.keys + self.key_bias).unbind(-1)
        logits = sent.index_select(1, self.senders.flatten())
        logits = logits.view(batch, -1, channels).add_(received.unsqueeze(1))
        if self.no_edge is not None:
            logits += self.no_edge
        weights = functional.leaky_relu_(logits, SLOPE).softmax(1)
        dense = weights.new_zeros(batch, channels, channels)
        dense.scatter_(1, self.senders.expand(batch, -1, -1), weights)
        gathered = (x.transpose(1, 2) @ dense).transpose(1, 2)
        nodes = functional.linear(gathered, self.weight, self.bias).relu_()
        nodes = nodes.mul_(self.scale).add_(self.shift).relu_()
        forecast: Tensor = self.head(nodes.flatten(0, 1))
        return forecast.view(batch, channels)


def _as_linear(norm: Any) -> tuple[Tensor, Tensor]:
    """Return scale and shift of a batch normalisation in evaluation mode."""
    scale = norm.weight * (norm.running_var + norm.eps).rsqrt()
    return scale, norm.bias - norm.running_mean * scale
