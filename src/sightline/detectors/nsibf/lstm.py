"""The LSTM of NSIBF on a processor, in single precision: faster than torch's.

Windows are the last axis of everything: the gates of a row are one matrix product, and
then one compiled loop over contiguous numbers. A row's product takes the input, a 1 for
the bias, and the code of the row before together, so that the gradient by all weights
of a layer is one product a row as well.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from sightline._kernels.recurrent import gates_ahead, gates_back


def last_codes(lstm: nn.LSTM, u: Tensor) -> Tensor:
    """Return the code of the last layer after the last row.

    Parameters
    ----------
    lstm : torch.nn.LSTM
        In single precision, on a processor.
    u : tensor of shape (batch, rows, inputs)
        Covariates; no gradient is computed for them.

    Returns
    -------
    tensor of shape (batch, width)
        As ``lstm`` itself gives it, to single precision.
    """
    joined = []
    for k in range(lstm.num_layers):
        inward, again, bias, other = (
            lstm.get_parameter(f"{name}_l{k}")
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        joined.append(torch.cat([inward, (bias + other).unsqueeze(1), again], 1))
    by_row = u.permute(1, 2, 0)
    if not torch.is_grad_enabled():
        return _layers(by_row, joined, is_kept=False)[-1].codes[-1].T
    codes: Tensor = _Codes.apply(by_row, *joined)
    return codes.T


class _Layer:
    """One layer's numbers of all rows, as the way back needs them.

    Parameters
    ----------
    weights : tensor of shape (4 * width, inputs + 1 + width)
        Of the gates' sums.
    below : tensor of shape (rows, inputs, batch)
        What the layer reads.
    is_kept : bool
        Whether gates are kept, for `back`.
    """

    def __init__(self, weights: Tensor, below: Tensor, is_kept: bool) -> None:
        rows, inputs, batch = below.shape
        width = len(weights) // 4
        self.weights = weights
        # Input, 1 and code before each row; after the last row the code alone.
        self.seen = torch.empty(rows + 1, inputs + 1 + width, batch)
        self.codes = self.seen[:, inputs + 1 :]
        self.seen[:-1, :inputs] = below
        self.seen[:, inputs] = 1.0
        self.codes[0] = 0.0
        self.gates = torch.empty(rows if is_kept else 1, 4 * width, batch)
        self.cells = torch.empty(rows + 1, width, batch)
        self.cells[0] = 0.0

    def ahead(self) -> None:
        """Compute all rows."""
        gates, cells, seen = _flat(self.gates), _flat(self.cells), _flat(self.seen)
        sums = list(self.gates) * (1 if len(gates) > 1 else len(seen))
        for t, row in enumerate(self.seen[:-1]):
            torch.mm(self.weights, row, out=sums[t])
            gates_ahead(t, gates, cells, seen)

    def back(self, above: Tensor, last: Tensor, needs_input: bool) -> Tensor:
        """Return the gradient by the weights; that by what was seen takes its place.

        Parameters
        ----------
        above : tensor of shape (rows or 1, width or more, batch)
            Begins with the gradient by each row's code, from the layer above.
        last : tensor of shape (width, batch)
            Added to that of the last row.
        needs_input : bool
            Whether the gradient by the input is needed.
        """
        of_weights = torch.zeros_like(self.weights.T)
        self.codes[-1] = last
        gates, cells, after = _flat(self.gates), _flat(self.cells), _flat(self.seen)
        upper = _flat(above)
        of_cell = torch.zeros(cells.shape[1]).numpy()
        written = self.seen if needs_input else self.codes
        backwards = self.weights.T[-written.shape[1] :]
        rows = zip(self.seen, self.gates, written, strict=False)
        for t, (row, of_sums, of_row) in reversed(list(enumerate(rows))):
            gates_back(t, gates, cells, upper, after, of_cell)
            of_weights.addmm_(row, of_sums.T)
            torch.mm(backwards, of_sums, out=of_row)
        return of_weights.T


def _flat(rows: Tensor) -> Any:
    """Return an array with one row for each row, which shares the memory."""
    return rows.view(len(rows), -1).numpy()


def _layers(
    by_row: Tensor, weights: Sequence[Tensor], *, is_kept: bool
) -> list[_Layer]:
    """Return a stack of layers that has read covariates (rows, inputs, batch)."""
    layers = []
    for one in weights:
        layer = _Layer(one, by_row, is_kept)
        layer.ahead()
        layers.append(layer)
        by_row = layer.codes[1:]
    return layers


class _Codes(torch.autograd.Function):
    """The last code of a stack of layers; see `last_codes`."""

    @staticmethod
    def forward(ctx: Any, by_row: Tensor, *weights: Tensor) -> Tensor:
        ctx.layers = _layers(by_row, weights, is_kept=True)
        return ctx.layers[-1].codes[-1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, given: Tensor) -> tuple[Tensor | None, ...]:
        layers: list[_Layer] = ctx.layers
        # Its numbers are overwritten: there is no second way back.
        ctx.layers = None
        above = torch.zeros(1, *given.shape)
        last, gradients = given, []
        for layer in reversed(layers):
            gradients.append(layer.back(above, last, layer is not layers[0]))
            above, last = layer.seen, torch.zeros_like(given)
        return None, *reversed(gradients)
