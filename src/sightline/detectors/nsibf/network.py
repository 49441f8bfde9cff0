"""The networks of NSIBF: encoder g, decoder h, and transition f with an LSTM."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import torch
from torch import Tensor, nn

# Weights of the terms of the loss: reconstruction, forecast, smoothness.
WEIGHTS = (0.45, 0.45, 0.10)
# Parameters of one LSTM layer in Keras' order; torch has the gates in the same order.
_LSTM_NAMES = ("weight_ih", "weight_hh", "bias_ih")


@dataclass(frozen=True)
class NSIBFLoss:
    """The terms of the loss, and their weighted sum."""

    reconstruction: Tensor
    forecast: Tensor
    smoothness: Tensor
    penalty_now: Tensor
    penalty_next: Tensor
    total: Tensor


def hidden_sizes(measured: int, state: int, layers: int) -> list[int]:
    """Return the widths between a measurement and a state, in even steps.

    Examples
    --------
    >>> hidden_sizes(804, 101, 3)
    [629, 454, 279]
    """
    step = (measured - state) // (layers + 1)
    return [max(1, measured - k * step) for k in range(1, layers + 1)]


class Dense(nn.Module):
    """Linear layers with ReLU between them."""

    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(a, b) for a, b in pairwise(sizes)])
        for layer in self.layers:
            nn.init.xavier_uniform_(layer.get_parameter("weight"))
            nn.init.zeros_(layer.get_parameter("bias"))

    def forward(self, x: Tensor) -> Tensor:
        """Return the output of the last layer, before any activation."""
        for k, layer in enumerate(self.layers):
            x = layer(torch.relu(x) if k else x)
        return x


class NSIBFNetwork(nn.Module):
    """Encoder, decoder and transition of a state-space model.

    Parameters
    ----------
    sensors, window : int
        Measured channels, and rows of a measurement.
    inputs : int
        Columns of a covariate row: the sensors and the actuators' levels.
    state : int
        Size of the state.
    encoder_layers, transition_layers, transition_width : int
        Hidden layers of g (h has them reversed) and of f, and the width of f's.
    lstm_layers, lstm_width : int
        Of the LSTM that reads the covariates.
    """

    def __init__(
        self,
        sensors: int,
        inputs: int,
        *,
        window: int,
        state: int,
        encoder_layers: int,
        transition_layers: int,
        transition_width: int,
        lstm_layers: int,
        lstm_width: int,
    ) -> None:
        super().__init__()
        measured = sensors * window
        hidden = hidden_sizes(measured, state, encoder_layers)
        self._make(
            [measured, *hidden, state],
            [state, *hidden[::-1], measured],
            [state + lstm_width, *[transition_width] * transition_layers, state],
            inputs,
            lstm_width,
            lstm_layers,
        )

    def _make(
        self,
        encoder: Sequence[int],
        decoder: Sequence[int],
        transition: Sequence[int],
        inputs: int,
        width: int,
        layers: int,
    ) -> None:
        self.g = Dense(encoder)
        self.h = Dense(decoder)
        self.f = Dense(transition)
        self.lstm = nn.LSTM(inputs, width, layers)
        for name, parameter in self.lstm.named_parameters():
            if name.startswith("weight_ih"):
                nn.init.xavier_uniform_(parameter)
            elif name.startswith("weight_hh"):
                # Orthogonal as (width, 4 width), Keras' layout.
                nn.init.orthogonal_(parameter.data.T)
            else:
                nn.init.zeros_(parameter)
            if name.startswith("bias_ih"):
                nn.init.ones_(parameter[width : 2 * width])
            if name.startswith("bias_hh"):
                # Published cells have one bias.
                parameter.requires_grad_(False)

    @classmethod
    def of_keras(cls, g: Sequence[Any], h: Sequence[Any], f: Sequence[Any]) -> Self:
        """Return the networks that published weights belong to, in their precision.

        Parameters
        ----------
        g, h, f : sequence of array
            In Keras' order and layout: kernel (in, out) and bias of each layer; of f
            first kernel, recurrent kernel and bias of each LSTM layer.
        """
        recurrent = []
        rest = list(f)
        # A dense kernel is followed by a bias, an LSTM's by a square-ish kernel.
        while rest[1].ndim == 2:
            recurrent.append(rest[:3])
            rest = rest[3:]
        network = cls.__new__(cls)
        nn.Module.__init__(network)
        network._make(
            [g[0].shape[0], *(bias.shape[0] for bias in g[1::2])],
            [h[0].shape[0], *(bias.shape[0] for bias in h[1::2])],
            [rest[0].shape[0], *(bias.shape[0] for bias in rest[1::2])],
            recurrent[0][0].shape[0],
            recurrent[0][1].shape[0],
            len(recurrent),
        )
        if g[0].dtype.itemsize == 8:
            network.double()
        with torch.no_grad():
            for dense, arrays in ((network.g, g), (network.h, h), (network.f, rest)):
                for layer, kernel, bias in zip(
                    dense.layers, arrays[::2], arrays[1::2], strict=True
                ):
                    layer.get_parameter("weight").copy_(torch.as_tensor(kernel.T))
                    layer.get_parameter("bias").copy_(torch.as_tensor(bias))
            for k, arrays in enumerate(recurrent):
                for name, array in zip(_LSTM_NAMES, arrays, strict=True):
                    part = network.lstm.get_parameter(f"{name}_l{k}")
                    part.copy_(torch.as_tensor(array.T))
        return network

    def keras_arrays(self, gradients: bool = False) -> Mapping[str, list[Any]]:
        """Return weights (or gradients) of g, h and f as `of_keras` takes them."""

        def array(parameter: Tensor) -> Any:
            tensor = parameter.grad if gradients else parameter
            assert tensor is not None  # noqa: S101
            return tensor.detach().cpu().numpy().copy()

        def dense(part: Dense) -> list[Any]:
            return [
                one
                for layer in part.layers
                for one in (
                    array(layer.get_parameter("weight")).T,
                    array(layer.get_parameter("bias")),
                )
            ]

        recurrent = [
            array(self.lstm.get_parameter(f"{name}_l{k}")).T
            for k in range(self.lstm.num_layers)
            for name in _LSTM_NAMES
        ]
        return {
            "g": dense(self.g),
            "h": dense(self.h),
            "f": [*recurrent, *dense(self.f)],
        }

    def encode(self, x: Tensor) -> Tensor:
        """Return the state of measurements."""
        return torch.tanh(self.g(x))

    def step(self, state: Tensor, u: Tensor) -> Tensor:
        """Return the state a window later, from covariates (batch, rows, inputs)."""
        return torch.tanh(self.f(torch.cat([state, self.read(u)], -1)))

    def read(self, u: Tensor) -> Tensor:
        """Return the LSTM's code of covariates (batch, rows, inputs)."""
        codes: Tensor = self.lstm(u.transpose(0, 1))[1][0][-1]
        return codes

    def loss(self, x: Tensor, u: Tensor, y: Tensor, penalty: float) -> NSIBFLoss:
        """Return the published loss of a batch.

        Parameters
        ----------
        x, y : tensor of shape (batch, sensors * window)
            A measurement, and the next one.
        u : tensor of shape (batch, rows, inputs)
            Covariates read between them.
        penalty : float
            Weight of the squares of the states.
        """
        now = self.encode(x)
        following = self.step(now, u)
        reconstruction = torch.mean((self.h(now) - x) ** 2)
        forecast = torch.mean((self.h(following) - y) ** 2)
        smoothness = torch.mean((now - following) ** 2)
        penalties = [penalty * (z**2).sum() / len(z) for z in (now, following)]
        a, b, c = WEIGHTS
        return NSIBFLoss(
            reconstruction=reconstruction,
            forecast=forecast,
            smoothness=smoothness,
            penalty_now=penalties[0],
            penalty_next=penalties[1],
            total=a * reconstruction + b * forecast + c * smoothness + sum(penalties),
        )
