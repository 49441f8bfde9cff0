"""Reference outputs of the official detectors, and what of them was compared."""

from pathlib import Path

import numpy as np
import torch

FOLDER = Path(__file__).parent / "golden"


class Golden:
    """One file; remembers what was handed out and what was compared."""

    def __init__(self, name):
        with np.load(FOLDER / f"{name}.npz") as file:
            self.arrays = dict(file)
        self.given, self.compared = set(), set()

    def __getitem__(self, key):
        self.given.add(key)
        return self.arrays[key]

    def part(self, prefix):
        found = [key for key in self.arrays if key.startswith(prefix)]
        return {key.removeprefix(prefix): self[key] for key in found}

    def check(self, key, ours, tolerance=0.0):
        ours = np.asarray(ours.detach() if isinstance(ours, torch.Tensor) else ours)
        theirs = self.arrays[key]
        assert ours.shape == theirs.shape, key
        # Rounding of a single-precision number is in proportion to its size.
        relative = tolerance if theirs.dtype == np.float32 else 0.0
        np.testing.assert_allclose(
            ours, theirs, rtol=relative, atol=tolerance, err_msg=key
        )
        self.compared.add(key)

    def check_part(self, prefix, ours, tolerance=0.0):
        assert set(ours) == set(self.part(prefix))
        for name, array in ours.items():
            self.check(prefix + name, array, tolerance)


def tensor(array, dtype=np.float64):
    return torch.as_tensor(array.astype(dtype))


def of_kind(weights, dtype):
    return {
        name: array.astype(dtype) if array.dtype == np.float32 else array
        for name, array in weights.items()
    }


def statistics(network):
    learned = dict(network.named_parameters())
    return {k: v for k, v in network.state_dict().items() if k not in learned}


def in_order(edges):
    edges = np.asarray(edges)
    return edges[:, np.lexsort(edges)]


def attention_on(edges, attention):
    """Ours on their list of edges, for nodes numbered through the batch."""
    senders, receivers = edges
    n = attention.shape[-1]
    assert (senders // n == receivers // n).all()
    return attention.detach()[senders // n, receivers % n, senders % n]


def edges_with_weight(attention):
    sample, receiver, sender = np.nonzero(attention.detach().numpy())
    n = attention.shape[-1]
    return np.stack([sample * n + sender, sample * n + receiver])
