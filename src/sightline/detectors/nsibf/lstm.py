"""The LSTM of NSIBF on a processor, in single precision: faster than torch's.

Windows are the last axis of everything: the gates of a row are one matrix product, and
then one compiled loop over contiguous numbers. A row's product takes the input, a 1 for
the bias, and the code of the row before together, so that the gradient by all weights
of a layer is one product a row as well.
"""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from sightline._kernels.recurrent import gates_ahead, gates_back


class Reader:
    """Reads windows by an LSTM; what it writes is kept to be written again.

    Fresh memory for each batch would cost a fifth of a training. Several threads may
    read at a time.
    """

    def __init__(self) -> None:
        # By size: layers that no batch is using.
        self._spare: dict[tuple[int, ...], list[list[_Layer]]] = {}

    def clear(self) -> None:
        """Give the memory back."""
        self._spare.clear()

    def last_codes(self, lstm: nn.LSTM, u: Tensor) -> Tensor:
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
        codes: Tensor = _Codes.apply(
            self, torch.is_grad_enabled(), u.permute(1, 2, 0), *joined
        )
        return codes.T

    def take(self, sizes: Sequence[int]) -> "list[_Layer]":
        """Return layers for windows, with any numbers.

        Parameters
        ----------
        sizes : sequence of int
            Windows, rows, inputs, and the width of each layer.
        """
        try:
            return self._spare[tuple(sizes)].pop()
        except LookupError:
            batch, rows, *widths = sizes
            # A training may use what a validation made.
            with torch.inference_mode(False):
                return [_Layer(rows, a, b, batch) for a, b in pairwise(widths)]

    def give(self, sizes: Sequence[int], layers: "list[_Layer]") -> None:
        """Let other batches use the layers."""
        self._spare.setdefault(tuple(sizes), []).append(layers)


class _Layer:
    """One layer's numbers of all rows, as the way back needs them."""

    def __init__(self, rows: int, inputs: int, width: int, batch: int) -> None:
        # Input, 1 and code before each row; after the last row the code alone.
        self.seen = torch.empty(rows + 1, inputs + 1 + width, batch)
        self.seen[:, inputs] = 1.0
        self.inputs, self.codes = self.seen[:-1, :inputs], self.seen[:, inputs + 1 :]
        self.gates = torch.empty(rows, 4 * width, batch)
        self.cells = torch.zeros(rows + 1, width, batch)

    def ahead(self, below: Tensor, weights: Tensor, is_kept: bool) -> None:
        """Compute all rows.

        Parameters
        ----------
        below : tensor of shape (rows, inputs, batch)
            What the layer reads.
        weights : tensor of shape (4 * width, inputs + 1 + width)
            Of the gates' sums.
        is_kept : bool
            Whether the gates of all rows are kept, for `back`.
        """
        self.inputs.copy_(below)
        used = self.gates if is_kept else self.gates[:1]
        gates, cells, seen = _flat(used), _flat(self.cells), _flat(self.seen)
        sums = used.expand_as(self.gates)
        for t, (row, out) in enumerate(zip(self.seen, sums, strict=False)):
            n = self._n_seen(t)
            torch.mm(weights[:, :n], row[:n], out=out)
            gates_ahead(t, gates, cells, seen)

    def _n_seen(self, t: int) -> int:
        """Return how much of what row t sees is not 0: no code comes before row 0."""
        return self.inputs.shape[1] + 1 if t == 0 else self.seen.shape[1]

    def back(
        self, weights: Tensor, above: Tensor, last: Tensor, needs_input: bool
    ) -> Tensor:
        """Return the gradient by the weights; that by what was seen takes its place.

        Parameters
        ----------
        weights : tensor
            As `ahead` had them.
        above : tensor of shape (rows or 1, width or more, batch)
            Begins with the gradient by each row's code, from the layer above.
        last : tensor of shape (width, batch)
            Added to that of the last row.
        needs_input : bool
            Whether the gradient by the input is needed.
        """
        # The other way round than the weights: this product is faster by a seventh.
        of_weights = torch.zeros(weights.shape[1], weights.shape[0])
        self.codes[-1] = last
        gates, cells, after = _flat(self.gates), _flat(self.cells), _flat(self.seen)
        upper, of_cell = _flat(above), torch.zeros(cells.shape[1]).numpy()
        written = self.seen if needs_input else self.codes
        backwards = weights.T[-written.shape[1] :]
        rows = zip(self.seen, self.gates, written, strict=False)
        for t, (row, of_sums, of_row) in reversed(list(enumerate(rows))):
            gates_back(t, gates, cells, upper, after, of_cell)
            n = self._n_seen(t)
            of_weights[:n].addmm_(row[:n], of_sums.T)
            if t or needs_input:
                torch.mm(backwards, of_sums, out=of_row)
        # Where the gradient by it is now.
        self.seen[:, self.inputs.shape[1]] = 1.0
        return of_weights.T.contiguous()


def _flat(rows: Tensor) -> Any:
    """Return an array with one row for each row, which shares the memory."""
    return rows.view(len(rows), -1).numpy()


class _Codes(torch.autograd.Function):
    """The last code of a stack of layers; see `Reader.last_codes`."""

    @staticmethod
    def forward(
        ctx: Any, reader: Reader, is_kept: bool, by_row: Tensor, *weights: Tensor
    ) -> Tensor:
        rows, inputs, batch = by_row.shape
        sizes = (batch, rows, inputs, *(len(one) // 4 for one in weights))
        layers = reader.take(sizes)
        below = by_row
        for layer, one in zip(layers, weights, strict=True):
            layer.ahead(below, one, is_kept)
            below = layer.codes[1:]
        codes = below[-1].clone()
        if is_kept:
            ctx.layers, ctx.give = layers, partial(reader.give, sizes)
            ctx.save_for_backward(*weights)
        else:
            reader.give(sizes, layers)
        return codes

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, given: Tensor) -> tuple[Tensor | None, ...]:
        layers: list[_Layer] = ctx.layers
        # Their numbers are overwritten: there is no second way back.
        ctx.layers = None
        above, last = torch.zeros(1, *given.shape), given
        gradients = []
        for layer, one in reversed(list(zip(layers, ctx.saved_tensors, strict=True))):
            needs_input = layer is not layers[0]
            gradients.append(layer.back(one, above, last, needs_input))
            above, last = layer.seen, torch.zeros_like(given)
        ctx.give(layers)
        return None, None, None, *reversed(gradients)
