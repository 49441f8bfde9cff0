"""Runs of the plant: from a state, over rows, with or without an attack."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from sightline.testbeds.waterworks.drift import Conditions
from sightline.testbeds.waterworks.noise import NoiseSource
from sightline.testbeds.waterworks.plant import N_TAGS
from sightline.testbeds.waterworks.process import N_DRAWS, advance
from sightline.testbeds.waterworks.scenario import PlannedAttack
from sightline.testbeds.waterworks.state import State, first_state, start_accounts
from sightline.testbeds.waterworks.water import WaterBalance, balance_of

Rows = npt.NDArray[np.float32]
# Told how many rows are done.
Told = Callable[[int], None]

CHUNK_STEPS = 21_600
WARM_UP_S, DAY_S = 43_200, 86_400
_NO_ACTIONS = np.zeros((0, 4))


def empty_rows(n_steps: int) -> Rows:
    """Return room for the readings of a run."""
    return np.empty((n_steps, N_TAGS), np.float32)


class Runner:
    """A plant that can be run on, and copied at any moment."""

    def __init__(self, seed: int, state: State, conditions: Conditions) -> None:
        self._seed = seed
        self._state = state
        self._conditions = conditions
        self._noise = NoiseSource(seed, N_DRAWS)
        self._opened = state["volume"][0].copy()

    @classmethod
    def warmed_up(cls, seed: int, conditions: Conditions) -> "Runner":
        """Return a plant at midnight that has left its start-up behind."""
        runner = cls(seed, first_state(seed, DAY_S - WARM_UP_S), conditions)
        runner.run(empty_rows(WARM_UP_S))
        return runner

    def copy(self, conditions: Conditions | None = None) -> "Runner":
        """Return a twin in the same state, that has the same random numbers ahead."""
        return Runner(self._seed, self._state.copy(), conditions or self._conditions)

    def run(
        self,
        recorded: Rows,
        *,
        unforged: Rows | None = None,
        start: int = 0,
        stop: int | None = None,
        attack: PlannedAttack | None = None,
        told: Told | None = None,
        chunk_steps: int = CHUNK_STEPS,
    ) -> None:
        """Fill rows [start, stop) of `recorded`, under one attack from its first row.

        Rows before `start` are read by attacks that go on from, or repeat, the past.
        """
        stop = len(recorded) if stop is None else stop
        kept = empty_rows(0) if unforged is None else unforged
        actions = _NO_ACTIONS if attack is None else attack.as_rows()
        row = start
        while row < stop:
            steps = min(stop - row, chunk_steps)
            draws = self._noise.upto(int(self._state["clock"][0]), steps)
            advance(
                self._state,
                self._conditions,
                draws,
                actions,
                start,
                row,
                recorded,
                kept,
            )
            row += len(draws)
            if told is not None:
                told(row)

    def open_accounts(self) -> None:
        """Begin to count water anew."""
        start_accounts(self._state)
        self._opened = self._state["volume"][0].copy()

    def close_accounts(self) -> WaterBalance:
        """Return the water counted since the accounts were opened."""
        return balance_of(self._state, self._opened)
