"""The network of FuSAGNet: an autoencoder's codes feed a graph of channels."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from sightline.detectors.networks.graph import (
    GraphLayer,
    Head,
    edges_of,
    head_shape,
    nearest_channels,
)
from sightline.detectors.networks.weights import load_weights

SelfLoops = Literal["none", "all", "official"]


@dataclass(frozen=True)
class FuSAGNetOutput:
    """Forecast (batch, channels), reconstruction and codes (batch, channels, rows)."""

    forecast: Tensor
    reconstruction: Tensor
    codes: Tensor
    embedding: Tensor
    nearest: Tensor
    attention: Tensor
    gathered: Tensor
    features: Tensor
    hidden: tuple[Tensor, Tensor]


@dataclass(frozen=True)
class FuSAGNetLoss:
    """The three terms of the loss, and their weighted sum."""

    forecast: Tensor
    reconstruction: Tensor
    sparsity: Tensor
    total: Tensor


class Squeezer(nn.Module):
    """Two layers of linear map, normalisation and sigmoid, all of one size."""

    def __init__(self, name: str, size: int) -> None:
        super().__init__()
        self.name = name
        layers = nn.ModuleList([nn.Linear(size, size) for _ in range(2)])
        self.add_module(name, layers)
        self.bns = nn.ModuleList([nn.BatchNorm1d(size) for _ in range(2)])

    def forward(self, flat: Tensor) -> tuple[Tensor, Tensor]:
        """Return the result, and what the first layer gave."""
        first, second = self.get_submodule(self.name)
        hidden = torch.sigmoid(self.bns[0](first(flat)))
        return torch.sigmoid(self.bns[1](second(hidden))), hidden


class FuSAGNetNetwork(nn.Module):
    """Forecast of the next row and reconstruction of the window before it.

    Parameters
    ----------
    processes : sequence of int
        How many channels each process (stage) has, in the order of the channels.
    window, dim, top_k : int
        Rows in a window, length of an embedding (even), and how many channels each one
        listens to.
    head_layers, head_width : int
        Layers of the head, and their width where there are several.
    dropout, embedding_dropout : float
        Shares dropped in training: before the head, and between recurrent layers.
    self_loops : {"none", "all", "official"}
        Who listens to itself: nobody, everyone, or (as the published code has it) the
        first `window` nodes of a batch.
    recurrent : bool
        Let the recurrent layers run from channel to channel; in the published code
        every channel is a sequence of its own, of length one.
    """

    def __init__(
        self,
        processes: Sequence[int],
        *,
        window: int,
        dim: int,
        top_k: int,
        head_layers: int = 1,
        head_width: int = 64,
        dropout: float = 0.2,
        embedding_dropout: float = 0.2,
        self_loops: SelfLoops = "none",
        recurrent: bool = False,
    ) -> None:
        super().__init__()
        self.top_k, self.self_loops, self.recurrent = top_k, self_loops, recurrent
        self.embeddings = nn.ModuleList([nn.Embedding(n, dim) for n in processes])
        self.rnn_embedding_modules = nn.ModuleList(
            [
                nn.GRU(
                    dim,
                    dim // 2,
                    num_layers=3,
                    bidirectional=True,
                    dropout=embedding_dropout,
                )
                for _ in processes
            ]
        )
        size = sum(processes) * window
        self.encoder = Squeezer("encoder", size)
        self.decoder = Squeezer("decoder", size)
        self.gnn_layers = nn.ModuleList([GraphLayer(window, dim)])
        self.bn_outlayer_in = nn.BatchNorm1d(dim)
        self.out_layer = Head(dim, head_layers, head_width)
        self.dropout = nn.Dropout(dropout)
        for table in self.embeddings:
            nn.init.kaiming_uniform_(table.get_parameter("weight"), nonlinearity="relu")

    @classmethod
    def of_weights(
        cls,
        weights: Mapping[str, Any],
        *,
        top_k: int,
        self_loops: SelfLoops = "none",
        recurrent: bool = False,
    ) -> Self:
        """Return the network that official weights belong to, in their precision."""
        tables = sorted(
            (int(found[1]), name)
            for name in weights
            if (found := re.fullmatch(r"embeddings\.(\d+)\.weight", name))
        )
        network = cls(
            [len(weights[name]) for _, name in tables],
            window=weights["gnn_layers.0.gnn.lin.weight"].shape[1],
            dim=weights[tables[0][1]].shape[1],
            top_k=top_k,
            head_layers=head_shape(weights),
            head_width=len(weights["out_layer.mlp.0.weight"]),
            self_loops=self_loops,
            recurrent=recurrent,
        )
        return load_weights(network, weights)

    def embed(self) -> Tensor:
        """Return the embedding of every channel, after the recurrent layers."""
        along = 1 if self.recurrent else 0
        return torch.cat(
            [
                recurrent(table.weight.unsqueeze(along))[0].squeeze(along)
                for table, recurrent in zip(
                    self.embeddings, self.rnn_embedding_modules, strict=True
                )
            ]
        )

    def edges(self, nearest: Tensor, batch: int, window: int) -> Tensor:
        """Return who receives from whom; per sample where the official rule says so."""
        is_edge = edges_of(nearest, self_loops=self.self_loops == "all")
        if self.self_loops != "official":
            return is_edge
        n = len(nearest)
        first = torch.arange(batch * n, device=nearest.device) < window
        loops = torch.diag_embed(first.view(batch, n))
        return is_edge.unsqueeze(0) | loops

    def detailed(self, x: Tensor) -> FuSAGNetOutput:
        """Return forecast and reconstruction from windows (batch, channels, rows)."""
        batch, channels, window = x.shape
        flat, first_hidden = self.encoder(x.flatten(1))
        rebuilt, second_hidden = self.decoder(flat)
        codes = flat.view(batch, channels, window)
        embedding = self.embed()
        nearest = nearest_channels(embedding, self.top_k)
        layer = self.gnn_layers[0]
        features, gathered, attention = layer(
            codes, embedding, self.edges(nearest, batch, window)
        )
        mixed = features.view(batch, channels, -1) * embedding
        nodes = torch.relu(self.bn_outlayer_in(mixed.flatten(0, 1)))
        forecast = self.out_layer(self.dropout(nodes))
        return FuSAGNetOutput(
            forecast=forecast.view(batch, channels),
            reconstruction=rebuilt.view(batch, channels, window),
            codes=codes,
            embedding=embedding,
            nearest=nearest,
            attention=attention,
            gathered=gathered,
            features=features.view(batch, channels, -1),
            hidden=(first_hidden, second_hidden),
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return forecast and reconstruction from windows (batch, channels, rows)."""
        output = self.detailed(x)
        return output.forecast, output.reconstruction


def fusagnet_loss(
    output: FuSAGNetOutput,
    x: Tensor,
    target: Tensor,
    rho: Tensor,
    *,
    alpha: float = 0.5,
    beta: float = 1.0,
) -> FuSAGNetLoss:
    """Return the published loss for a batch and a draw of the wanted activations.

    The sparsity term is written in logarithms: with a large batch one unit's share
    comes so near to 1 that one minus it would be 0.
    """
    forecast = functional.mse_loss(output.forecast, target).sqrt()
    reconstruction = functional.mse_loss(output.reconstruction, x)
    wanted = rho.to(x.dtype).view(-1).softmax(-1)
    found = output.codes.flatten(1).sum(0)
    log_found = found.log_softmax(-1)
    sparsity = (wanted * (wanted.log() - log_found)).sum() + (
        (1 - wanted) * (torch.log1p(-wanted) - _log_of_others(found))
    ).sum()
    total = alpha * forecast + (1 - alpha) * (reconstruction + beta * sparsity)
    return FuSAGNetLoss(
        forecast=forecast,
        reconstruction=reconstruction,
        sparsity=sparsity,
        total=total,
    )


def _log_of_others(levels: Tensor) -> Tensor:
    """Return log(1 - softmax), exact also where one unit has nearly all.

    1 - q_i is the sum of all others' shares. For all but the largest it is at least
    a half, so that the plain form keeps its digits; the largest one's is summed anew.
    """
    log_share = levels.log_softmax(-1)
    largest = levels.argmax()
    is_largest = torch.zeros_like(levels, dtype=torch.bool)
    is_largest[largest] = True
    plain = torch.log1p(-log_share.masked_fill(is_largest, NO_SHARE).exp())
    others = log_share.masked_fill(is_largest, NO_SHARE).logsumexp(-1)
    return torch.where(is_largest, others, plain)


# The logarithm of a share so small that it counts for nothing.
NO_SHARE = -1e4
