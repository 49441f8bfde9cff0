"""Named arrays into a network and out of it."""

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

N = TypeVar("N", bound=nn.Module)


def load_weights(network: N, weights: Mapping[str, Any]) -> N:
    """Put named arrays into a network, which takes on their precision."""
    tensors = {
        name: torch.as_tensor(np.array(array)) for name, array in weights.items()
    }
    kinds = {t.dtype for t in tensors.values() if t.is_floating_point()}
    if torch.float64 in kinds:
        network.double()
    network.load_state_dict(tensors)
    return network


def weights_of(network: nn.Module) -> dict[str, npt.NDArray[Any]]:
    """Return a network's tensors as named arrays."""
    return {
        name: tensor.detach().cpu().numpy().copy()
        for name, tensor in network.state_dict().items()
    }
