"""Random numbers that depend on the seed and the step alone."""

import numpy as np

from sightline.data.arrays import Floats

BLOCK_STEPS = 3600


class NoiseSource:
    """Standard normal draws that depend on the seed and the step alone.

    They come in blocks of `BLOCK_STEPS` steps (3600), each from its own generator. A
    run may start at any step, stop anywhere, and be repeated: step t has the same
    numbers. One block is in memory at a time.
    """

    def __init__(self, seed: int, n_draws: int) -> None:
        self._seed = seed
        self._n_draws = n_draws
        self._number = -1
        self._block: Floats = np.empty((0, n_draws))

    def upto(self, step: int, n_steps: int) -> Floats:
        """Return the draws of up to `n_steps` steps from `step`, within one block."""
        number, offset = divmod(step, BLOCK_STEPS)
        if number != self._number:
            sequence = np.random.SeedSequence(self._seed, spawn_key=(0, number))
            generator = np.random.Generator(np.random.PCG64(sequence))
            self._block = generator.standard_normal((BLOCK_STEPS, self._n_draws))
            self._number = number
        return self._block[offset : offset + n_steps]
