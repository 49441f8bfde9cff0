"""The network of TranAD: one encoder, two decoders; the first guides the second."""

from collections.abc import Mapping
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from sightline.detectors.networks import dropout, load_weights

Activation = Literal["identity", "relu", "leaky_relu"]
Positions = Literal["official", "standard"]
Output = Literal["sigmoid", "linear"]

_ACTIVATE = {
    "identity": lambda x: x,
    "relu": functional.relu,
    "leaky_relu": functional.leaky_relu,
}


class OutProjection(nn.Module):
    """Weight and bias of the map after the heads, under their published names."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width, width))
        self.bias = nn.Parameter(torch.zeros(width))
        nn.init.uniform_(self.weight, -(width**-0.5), width**-0.5)


class Attention(nn.Module):
    """Attention of many heads with a few columns each; batch first.

    With heads as small as two columns one matrix product a head is mostly overhead:
    scores are summed over the columns of a head instead, for all heads together.
    """

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.in_proj_weight = nn.Parameter(torch.empty(3 * width, width))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * width))
        self.out_proj = OutProjection(width)
        nn.init.xavier_uniform_(self.in_proj_weight)

    def forward(self, rows: Tensor, memory: Tensor) -> Tensor:
        """Return what each row gathers from the rows of the memory."""
        width = self.in_proj_weight.shape[1]
        if rows is memory and rows.shape[1] == 1:
            gathered = self._from_itself(memory)
        else:
            if rows is memory:
                query, key, value = functional.linear(
                    rows, self.in_proj_weight, self.in_proj_bias
                ).split(width, dim=-1)
            else:
                query = functional.linear(
                    rows, self.in_proj_weight[:width], self.in_proj_bias[:width]
                )
                key, value = functional.linear(
                    memory, self.in_proj_weight[width:], self.in_proj_bias[width:]
                ).split(width, dim=-1)
            gathered = self._gather(query, key, value)
        return functional.linear(gathered, self.out_proj.weight, self.out_proj.bias)

    def _from_itself(self, memory: Tensor) -> Tensor:
        """Return a single row's value: all its attention is on itself.

        Query and key have no effect, but their part of the weights must stay in the
        graph: their gradient is zero, and so they decay.
        """
        width = self.in_proj_weight.shape[1]
        packed = functional.linear(memory, self.in_proj_weight, self.in_proj_bias)
        value = packed[..., 2 * width :]
        if not (self.training and self.dropout):
            return value
        batch = len(value)
        kept = dropout(value.new_ones(batch, 1, self.heads, 1), self.dropout, True)
        return (value.view(batch, 1, self.heads, -1) * kept).flatten(2)

    def _gather(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        batch, n_rows, width = query.shape
        size = width // self.heads
        query, key, value = (
            part.view(batch, -1, self.heads, size).permute(3, 0, 1, 2).contiguous()
            for part in (query * size**-0.5, key, value)
        )
        scores = query[0].unsqueeze(2) * key[0].unsqueeze(1)
        for k in range(1, size):
            scores = torch.addcmul(scores, query[k].unsqueeze(2), key[k].unsqueeze(1))
        weights = dropout(scores.softmax(2), self.dropout, self.training)
        columns = [(weights * column.unsqueeze(1)).sum(2) for column in value]
        return torch.stack(columns, -1).view(batch, n_rows, width)


class Layer(nn.Module):
    """Attention to itself, to a memory if it is a decoder's, and a small network."""

    def __init__(
        self,
        channels: int,
        *,
        hidden: int,
        dropout: float,
        decodes: bool,
        activation: Activation,
        layer_norm: bool,
    ) -> None:
        super().__init__()
        width = 2 * channels
        self.self_attn = Attention(width, channels, dropout)
        if decodes:
            self.multihead_attn = Attention(width, channels, dropout)
        self.linear1 = nn.Linear(width, hidden)
        self.linear2 = nn.Linear(hidden, width)
        self.activation, self.dropout = activation, dropout
        self.norms = nn.ModuleList(
            [nn.LayerNorm(width) for _ in range(3 if decodes else 2) if layer_norm]
        )

    def forward(self, rows: Tensor, memory: Tensor | None = None) -> Tensor:
        """Return the rows after one layer."""
        rows = self._added(rows, self.self_attn(rows, rows), 0)
        if memory is not None:
            rows = self._added(rows, self.multihead_attn(rows, memory), 1)
        inner = self._dropped(_ACTIVATE[self.activation](self.linear1(rows)))
        return self._added(rows, self.linear2(inner), -1)

    def _added(self, rows: Tensor, branch: Tensor, norm: int) -> Tensor:
        total = rows + self._dropped(branch)
        return self.norms[norm](total) if len(self.norms) else total

    def _dropped(self, rows: Tensor) -> Tensor:
        return dropout(rows, self.dropout, self.training)


class Stack(nn.Module):
    """The single layer of an encoder or a decoder, under its published name."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.layers = nn.ModuleList([layer])

    def forward(self, rows: Tensor, memory: Tensor | None = None) -> Tensor:
        """Return the rows after the layer."""
        return self.layers[0](rows, memory)  # type: ignore[no-any-return]


class PositionTable(nn.Module):
    """What is added to each row of a window to encode its place."""

    pe: Tensor

    def __init__(self, window: int, width: int, kind: Positions) -> None:
        super().__init__()
        place = torch.arange(window, dtype=torch.float32).unsqueeze(1)
        column = torch.arange(width, dtype=torch.float32)
        if kind == "official":
            angle = place * torch.exp(-column * (torch.tensor(10_000.0).log() / width))
            table = angle.sin() + angle.cos()
        else:
            pair = torch.div(column, 2, rounding_mode="floor") * 2
            angle = place * torch.exp(-pair * (torch.tensor(10_000.0).log() / width))
            table = torch.where(column % 2 == 0, angle.sin(), angle.cos())
        self.register_buffer("pe", table.unsqueeze(1))

    def forward(self, rows: Tensor) -> Tensor:
        """Return rows (batch, window, width) with the code of their places added."""
        return rows + self.pe.squeeze(1)


class TranADNetwork(nn.Module):
    """Two reconstructions of the last row of a window.

    Parameters
    ----------
    channels, window, hidden : int
        Number of channels, rows in a window, width of the inner network.
    dropout : float
        Share dropped in training.
    layer_norm : bool
        Normalise after each branch, as in the paper and not in the code.
    ff_activation : {"identity", "relu", "leaky_relu"}
        Of the inner network; in the published code it is the identity.
    pos_encoding : {"official", "standard"}
        Sine and cosine added in every column, or in alternate columns.
    output : {"sigmoid", "linear"}
        Of the head.
    """

    def __init__(
        self,
        channels: int,
        *,
        window: int = 10,
        hidden: int = 16,
        dropout: float = 0.1,
        layer_norm: bool = False,
        ff_activation: Activation = "identity",
        pos_encoding: Positions = "official",
        output: Output = "sigmoid",
    ) -> None:
        super().__init__()
        self.output, self.dropout = output, dropout
        self.pos_encoder = PositionTable(window, 2 * channels, pos_encoding)

        def layer(decodes: bool) -> Stack:
            return Stack(
                Layer(
                    channels,
                    hidden=hidden,
                    dropout=dropout,
                    decodes=decodes,
                    activation=ff_activation,
                    layer_norm=layer_norm,
                )
            )

        self.transformer_encoder = layer(decodes=False)
        self.transformer_decoder1 = layer(decodes=True)
        self.transformer_decoder2 = layer(decodes=True)
        self.fcn = nn.Sequential(nn.Linear(2 * channels, channels))

    @classmethod
    def of_weights(cls, weights: Mapping[str, Any], **options: Any) -> Self:
        """Return the network that official weights belong to, in their precision."""
        network = cls(
            len(weights["fcn.0.bias"]),
            window=len(weights["pos_encoder.pe"]),
            hidden=len(weights["transformer_encoder.layers.0.linear1.bias"]),
            **options,
        )
        return load_weights(network, weights)

    def forward(self, x: Tensor, target: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return both reconstructions from windows (batch, rows, channels).

        `target` (batch, channels) is the row given to the decoders; by default the last
        row of each window, which is also what they are to reconstruct. The squared
        error of the first reconstruction guides the second.
        """
        given = x[:, -1] if target is None else target
        query = given.repeat(1, 2).unsqueeze(1)
        memory = self._encode(x, torch.zeros_like(x))
        first = self._head(self.transformer_decoder1(query, memory))
        memory = self._encode(x, (first - x) ** 2)
        second = self._head(self.transformer_decoder2(query, memory))
        return first.squeeze(1), second.squeeze(1)

    def _encode(self, x: Tensor, focus: Tensor) -> Tensor:
        """Return the memory of windows and the focus on their rows."""
        rows = torch.cat([x, focus], -1) * x.shape[-1] ** 0.5
        entered = dropout(self.pos_encoder(rows), self.dropout, self.training)
        return self.transformer_encoder(entered)  # type: ignore[no-any-return]

    def _head(self, decoded: Tensor) -> Tensor:
        row = self.fcn(decoded)
        return torch.sigmoid(row) if self.output == "sigmoid" else row


def tranad_loss(first: Tensor, second: Tensor, target: Tensor, epoch: int) -> Tensor:
    """Return the published loss: the weight moves from the first to the second.

    Parameters
    ----------
    first, second, target : tensor of shape (batch, channels)
        Both reconstructions, and the row.
    epoch : int
        Counted from 1; the first reconstruction has the weight 1 / epoch.

    Notes
    -----
    The second term is kept where its weight is 0: its zero gradient still counts as a
    step of the optimiser.
    """
    weight = 1 / epoch
    return torch.mean(
        weight * (first - target) ** 2 + (1 - weight) * (second - target) ** 2
    )
