"""Random numbers that depend on the seed and the step alone.

They come in blocks of one hour of plant time, each from a generator of its own. A run
may begin anywhere, stop anywhere, and be done again: step t has the same numbers.
"""

import numpy as np

from sightline.data.arrays import Floats

BLOCK_STEPS = 3600


class NoiseSource:
    """Standard normal draws by step, one block in memory at a time."""

    def __init__(self, seed: int, n_draws: int) -> None:
        self._seed = seed
        self._n_draws = n_draws
        self._number = -1
        self._block: Floats = np.empty((0, n_draws))

    def upto(self, clock: int, n_steps: int) -> Floats:
        """Return draws from step `clock` on: `n_steps`, or as many as the block has."""
        number, offset = divmod(clock, BLOCK_STEPS)
        if number != self._number:
            sequence = np.random.SeedSequence(self._seed, spawn_key=(0, number))
            generator = np.random.Generator(np.random.PCG64(sequence))
            self._block = generator.standard_normal((BLOCK_STEPS, self._n_draws))
            self._number = number
        return self._block[offset : offset + n_steps]
