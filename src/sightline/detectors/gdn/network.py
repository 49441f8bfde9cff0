"""The network of GDN: channels forecast each other along a learned graph."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

from sightline.detectors.networks import (
    Dropout,
    GraphLayer,
    Head,
    edges_of,
    head_shape,
    load_weights,
    nearest_channels,
)


@dataclass(frozen=True)
class GDNOutput:
    """Forecast, with the intermediate results it came from.

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


class GDNNetwork(nn.Module):
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
        self.gnn_layers = nn.ModuleList([GraphLayer(window, dim)])
        self.bn_outlayer_in = nn.BatchNorm1d(dim)
        self.out_layer = Head(dim, head_layers, head_width)
        self.dropout = Dropout(dropout)
        nn.init.uniform_(self.embedding.weight, -(dim**-0.5), dim**-0.5)

    @classmethod
    def of_weights(cls, weights: Mapping[str, Any], *, top_k: int) -> Self:
        """Return the network that official weights belong to, in their precision."""
        channels, dim = weights["embedding.weight"].shape
        layers = head_shape(weights)
        network = cls(
            channels,
            window=weights["gnn_layers.0.gnn.lin.weight"].shape[1],
            dim=dim,
            top_k=top_k,
            head_layers=layers,
            head_width=len(weights["out_layer.mlp.0.weight"]),
        )
        return load_weights(network, weights)

    def detailed(self, x: Tensor) -> GDNOutput:
        """Return the forecast of windows (batch, channels, rows), with details."""
        batch, channels, _ = x.shape
        embedding = self.embedding.weight
        nearest = nearest_channels(embedding, self.top_k)
        layer = self.gnn_layers[0]
        features, gathered, attention = layer(
            x, embedding, edges_of(nearest, self_loops=True)
        )
        mixed = features.view(batch, channels, -1) * embedding
        nodes = torch.relu(self.bn_outlayer_in(mixed.flatten(0, 1)))
        forecast = self.out_layer(self.dropout(nodes))
        return GDNOutput(
            forecast=forecast.view(batch, channels),
            nearest=nearest,
            attention=attention,
            gathered=gathered,
            features=features.view(batch, channels, -1),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the forecast from windows (batch, channels, rows)."""
        return self.detailed(x).forecast
