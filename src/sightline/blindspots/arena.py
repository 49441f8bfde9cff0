"""Record, detector, rules and places, through which every tag and shape is taken."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from sightline.blindspots.places import Timing
from sightline.blindspots.result import BlindSpot
from sightline.blindspots.rule_view import PlaceRule, RecordRule
from sightline.blindspots.sizes import Case
from sightline.blindspots.targets import Target
from sightline.blindspots.telemetry import Falsifier, PlaceRows, Stage1, Telemetry
from sightline.data.arrays import Bools, Ints

# Seed of the noise, beside the seed of the places.
_NOISE: Final = 77


@dataclass(frozen=True, kw_only=True, eq=False)
class Arena:
    """All that a search needs: telemetry, detector, rules and places.

    Parameters
    ----------
    telemetry : Telemetry
        The record.
    stage : Stage1
        What makes residuals of it.
    timing : Timing
        The durations.
    places : array of int
        First row of each falsification.
    fits : array of bool, shape (n_places, n_durations)
        Which durations fit.
    reach, room : array of int, shape (n_places,)
        Attack-free rows before each place, and from it on.
    rules : tuple of RecordRule
        The rules at the places.
    seed : int
        Of the noise.
    """

    telemetry: Telemetry
    stage: Stage1
    timing: Timing
    places: Ints
    fits: Bools
    reach: Ints
    room: Ints
    rules: tuple[RecordRule, ...]
    seed: int = 0
    views: list[list[PlaceRule]] = field(init=False)
    falsifiers: list[Falsifier] = field(init=False)

    def __post_init__(self) -> None:
        """Read the rules' views and the normal numbers of the places."""
        longest = max(grid.rows for grid in self.timing.grids) * self.telemetry.every
        draws = np.stack(
            [
                np.random.default_rng([self.seed, _NOISE, k]).standard_normal(longest)
                for k in range(len(self.places))
            ]
        )
        self.__dict__["views"] = [list(one.views()) for one in self.rules]
        self.__dict__["falsifiers"] = [
            Falsifier(
                self.telemetry,
                PlaceRows(
                    grid=grid,
                    places=self.places[self.fits[:, k]],
                    memory=self.stage.memory,
                ),
                draws[self.fits[:, k]],
                self.reach[self.fits[:, k]],
            )
            for k, grid in enumerate(self.timing.grids)
        ]

    def spots(self, target: Target) -> Iterator[BlindSpot]:
        """Yield what every rule sees of every shape and duration."""
        for shape in target.shapes:
            for k, falsifier in enumerate(self.falsifiers):
                views = [by_duration[k] for by_duration in self.views]
                case = Case(target, shape, falsifier, self.stage, views)
                if case.is_valid.sum() >= 1:
                    yield from case.spots(self.timing.seconds(falsifier.rows.grid))
