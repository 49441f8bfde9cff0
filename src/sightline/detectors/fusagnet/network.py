"""The network of FuSAGNet: an autoencoder's codes feed a graph of channels."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from sightline.detectors.networks import (
    GraphNetwork,
    GraphOutput,
    dropout,
    edges_of,
    load_weights,
    nearest_channels,
)

LAYERS = 3
SelfLoops = Literal["none", "all", "official"]


@dataclass(frozen=True)
class FuSAGNetOutput(GraphOutput):
    """Results of the network, with the intermediate ones.

    Parameters
    ----------
    reconstruction, codes : tensor of shape (batch, channels, rows)
        Of the window.
    embedding : tensor of shape (channels, dim)
        After the recurrent layers.
    hidden : pair of tensor
        First layers of encoder and decoder.
    """

    reconstruction: Tensor
    codes: Tensor
    embedding: Tensor
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
        # Encoder and decoder have different names in the published code.
        self.name = name
        layers = nn.ModuleList([nn.Linear(size, size) for _ in range(2)])
        self.add_module(name, layers)
        self.bns = nn.ModuleList([nn.BatchNorm1d(size) for _ in range(2)])

    def forward(self, flat: Tensor) -> tuple[Tensor, Tensor]:
        """Return the result, and the output of the first layer."""
        first, second = self.get_submodule(self.name).children()
        hidden = torch.sigmoid(self.bns[0](first(flat)))
        return torch.sigmoid(self.bns[1](second(hidden))), hidden


class FuSAGNetNetwork(GraphNetwork):
    """Forecast of the next row and reconstruction of the window before it.

    Parameters
    ----------
    processes : sequence of int
        How many channels each process (stage) has, in the order of the channels.
    window, dim, top_k : int
        Rows in a window, length of an embedding (even), and how many channels each
        channel receives from.
    head_layers, head_width : int
        Layers of the head, and their width where there are several.
    dropout, embedding_dropout : float
        Shares dropped in training: before the head, and between recurrent layers.
    self_loops : {"none", "all", "official"}
        Which channels receive from themselves: none, all, or (as in the published code)
        the first `window` nodes of a batch.
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
        self.embedding_dropout = embedding_dropout
        # The place of each process's channels in a table as wide as the largest one.
        widest = torch.arange(max(processes))
        sizes = torch.tensor(list(processes)).unsqueeze(1)
        firsts = sizes.cumsum(0) - sizes
        self._is_channel: Tensor
        self._place: Tensor
        is_channel = widest < sizes
        self.register_buffer("_is_channel", is_channel, persistent=False)
        place = torch.where(is_channel, firsts + widest, 0)
        self.register_buffer("_place", place, persistent=False)
        self.embeddings = nn.ModuleList([nn.Embedding(n, dim) for n in processes])
        self.rnn_embedding_modules = nn.ModuleList(
            [
                nn.GRU(
                    dim,
                    dim // 2,
                    num_layers=LAYERS,
                    bidirectional=True,
                    dropout=embedding_dropout,
                )
                for _ in processes
            ]
        )
        size = sum(processes) * window
        self.encoder = Squeezer("encoder", size)
        self.decoder = Squeezer("decoder", size)
        self._add_graph(window, dim, head_layers, head_width, dropout)
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
            dim=weights[tables[0][1]].shape[1],
            top_k=top_k,
            self_loops=self_loops,
            recurrent=recurrent,
            **cls.sizes_of(weights),
        )
        return load_weights(network, weights)

    def embed(self) -> Tensor:
        """Return the embedding of every channel, after the recurrent layers."""
        tables: list[Tensor] = [
            table.get_parameter("weight") for table in self.embeddings
        ]
        if self.recurrent:
            return torch.cat(
                [
                    unit(table.unsqueeze(1))[0].squeeze(1)
                    for table, unit in zip(
                        tables, self.rnn_embedding_modules, strict=True
                    )
                ]
            )
        rows = torch.cat(tables)[self._place]
        for layer in range(LAYERS):
            rows = self._one_step(rows, layer)
            if layer < LAYERS - 1:
                rows = dropout(rows, self.embedding_dropout, self.training)
        return rows.flatten(0, 1)[self._is_channel.flatten()]

    def _one_step(self, rows: Tensor, layer: int) -> Tensor:
        """Return (process, channel, dim) after one layer of all processes together.

        Every channel is a sequence of one, so that a recurrent unit has no past: its
        recurrent weights play no part, and what is left is a gated linear map.
        """

        def stacked(name: str) -> Tensor:
            return torch.stack(
                [
                    unit.get_parameter(f"{name}_l{layer}{direction}")
                    for unit in self.rnn_embedding_modules
                    for direction in ("", "_reverse")
                ]
            )

        processes, channels, dim = rows.shape
        both = rows.unsqueeze(1).expand(-1, 2, -1, -1).reshape(-1, channels, dim)
        recurrent = stacked("bias_hh").unsqueeze(1)
        gates = torch.baddbmm(
            stacked("bias_ih").unsqueeze(1), both, stacked("weight_ih").transpose(1, 2)
        )
        half = dim // 2
        open_gates = torch.sigmoid(gates[..., : 2 * half] + recurrent[..., : 2 * half])
        reset, update = open_gates.split(half, -1)
        new = torch.tanh(
            torch.addcmul(gates[..., 2 * half :], reset, recurrent[..., 2 * half :])
        )
        hidden: Tensor = (new - update * new).view(processes, 2, channels, half)
        return hidden.transpose(1, 2).flatten(2)

    def edges(self, nearest: Tensor, batch: int, window: int) -> Tensor:
        """Return (receiver, sender) pairs; for each sample under the official rule."""
        is_edge = edges_of(nearest, self_loops=self.self_loops == "all")
        if self.self_loops != "official":
            return is_edge
        n = len(nearest)
        first = torch.arange(batch * n, device=nearest.device) < window
        loops = torch.diag_embed(first.view(batch, n))
        return is_edge.unsqueeze(0) | loops

    def detailed(self, x: Tensor) -> FuSAGNetOutput:
        """Return forecast and reconstruction from windows (batch, channels, rows)."""
        batch, _, window = x.shape
        flat, first_hidden = self.encoder(x.flatten(1))
        reconstruction, second_hidden = self.decoder(flat)
        codes = flat.view(x.shape)
        embedding = self.embed()
        nearest = nearest_channels(embedding, self.top_k)
        is_edge = self.edges(nearest, batch, window)
        return FuSAGNetOutput(
            **vars(self._on_graph(codes, embedding, nearest, is_edge)),
            reconstruction=reconstruction.view(x.shape),
            codes=codes,
            embedding=embedding,
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
    """Return the published loss for a batch and a draw of the target activations.

    The sparsity term is written in logarithms: with a large batch one unit's share
    comes so near to 1 that one minus it would be 0.

    Parameters
    ----------
    output : FuSAGNetOutput
        Of the windows x.
    x : tensor of shape (batch, channels, rows)
        What is to be reconstructed.
    target : tensor of shape (batch, channels)
        The next row.
    rho : tensor
        Target activation of each code.
    alpha, beta : float
        Weight of the forecast against the rest, and of sparsity within the rest.
    """
    forecast = functional.mse_loss(output.forecast, target).sqrt()
    reconstruction = functional.mse_loss(output.reconstruction, x)
    activations = output.codes.flatten(1).sum(0)
    if len(activations) == 1:
        # The only unit has the whole share in any case.
        sparsity = activations.sum() * 0.0
    else:
        # The divergence of the activations' shares from those of the target.
        share = rho.to(x.dtype).view(-1).softmax(-1)
        inside = share * (share.log() - activations.log_softmax(-1))
        outside = (1 - share) * (torch.log1p(-share) - _log_of_others(activations))
        sparsity = inside.sum() + outside.sum()
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
    a half, so that the plain form keeps its digits; that of the largest is summed.
    """
    log_share = levels.log_softmax(-1)
    largest = levels.argmax()
    is_largest = torch.zeros_like(levels, dtype=torch.bool)
    is_largest[largest] = True
    plain = torch.log1p(-log_share.masked_fill(is_largest, NO_SHARE).exp())
    others = log_share.masked_fill(is_largest, NO_SHARE).logsumexp(-1)
    return torch.where(is_largest, others, plain)


# The logarithm of a negligible share.
NO_SHARE = -1e30
