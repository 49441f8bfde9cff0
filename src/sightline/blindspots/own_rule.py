"""A detector's own alarm rule at the places of a search for blind spots."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from sightline.blindspots.places import Grid
from sightline.blindspots.rule_view import Change, TwinRecord
from sightline.data.arrays import Bools, Floats, Ints
from sightline.data.recording import Recording
from sightline.detectors.base import LearnedDetector, Residuals, RuleInput
from sightline.errors import StreamError
from sightline.export import rule_input
from sightline.metrics.alarm_load import AlarmLoad, Delays, alarm_load, episodes_of

OWN: Final = "own"
# Rows before a place that the rule is given, for what it smooths.
_BEFORE: Final = 30


@dataclass(frozen=True, kw_only=True)
class OwnRule:
    """Name and delays of a detector's own rule, as other rules have them."""

    name: str
    delays: Delays


@dataclass(frozen=True, eq=False)
class OwnRuleView:
    """The own rule at the places, for one duration; see `RuleView`."""

    source: "OwnRuleViews"
    grid: Grid
    places: Ints
    is_usable: Bools
    is_linear: bool = False

    @property
    def rule(self) -> OwnRule:
        """Name and delays."""
        return self.source.rule

    def crossings(self, change: Change) -> Floats:
        """Refuse: the rule is not known in closed form."""
        raise StreamError("A detector's own rule has no closed form.")

    def raises(self, change: Change) -> Bools:
        """Return which usable rows raise an alarm under a change."""
        p = self.source.record.rows.shape[1]
        added, first, pieces = change.through(np.eye(p)), 0, []
        for start, stop in self.grid.runs:
            part = added[:, first : first + stop - start]
            pieces.append(self.source.alarms(self.places + start, part))
            first += stop - start
        return np.asarray(np.concatenate(pieces, axis=1) & self.is_usable)


class OwnRuleViews:
    """A detector's own rule over a record and at places; see `RuleViews`.

    Parameters
    ----------
    given : RuleInput
        What the rule may look at; its test is replaced.
    detector : LearnedDetector
        Fitted, with a rule that looks at nothing of the test.
    record : TwinRecord
        The record.
    places : array of int
        First row of each falsification.
    grids : sequence of Grid
        The durations.
    fits : array of bool, shape (n_places, n_grids)
        The places at which each of them fits.
    """

    def __init__(
        self,
        given: RuleInput,
        detector: LearnedDetector,
        record: TwinRecord,
        places: Ints,
        grids: Sequence[Grid],
        fits: Bools,
    ) -> None:
        self.given, self.detector, self.record = given, detector, record
        self.places, self.grids, self.fits = places, grids, fits
        self.rule = OwnRule(name=OWN, delays=Delays.of_step(record.step_s))
        self.is_alarm = self._of_rows(record.rows)
        near = np.zeros(len(self.is_alarm) + 1, np.int64)
        rings, off = np.flatnonzero(self.is_alarm), self.rule.delays.off
        np.add.at(near, np.maximum(rings - off, 0), 1)
        np.add.at(near, np.minimum(rings + off + 1, len(near) - 1), -1)
        self.is_usable = np.cumsum(near[:-1]) == 0

    def views(self) -> list[OwnRuleView]:
        """Return the rule at the places, one for each duration."""
        return [self.at(grid, self.fits[:, k]) for k, grid in enumerate(self.grids)]

    def at(self, grid: Grid, fits: Bools) -> OwnRuleView:
        """Return the rule for one duration at the places at which it fits."""
        places = self.places[fits]
        return OwnRuleView(
            self, grid, places, self.is_usable[places[:, None] + grid.offsets]
        )

    def load(self) -> AlarmLoad:
        """Return the alarms of the rule on the free rows of the record."""
        episodes = episodes_of(self.is_alarm, self.rule.delays, self.record.breaks)
        return alarm_load(
            episodes, self.record.is_free, self.rule.delays, self.record.step_s
        )

    def alarms(self, first: Ints, added: Floats) -> Bools:
        """Return alarms of falsified stretches, shape (n_places, n_rows).

        Parameters
        ----------
        first : array of int
            First row of each stretch.
        added : array of shape (n_places, n_rows, n_channels)
            What is added to the residuals.
        """
        n = added.shape[1]
        before = np.minimum(first, _BEFORE)
        length = _BEFORE + n
        rows = np.maximum(first - before, 0)[:, None] + np.arange(length)
        values = self.record.rows[np.minimum(rows, len(self.record.rows) - 1)].copy()
        inside = before[:, None] + np.arange(n)
        values[np.arange(len(first))[:, None], inside] += added
        alarms = self._of_rows(values.reshape(-1, values.shape[2]))
        by_place = alarms.reshape(len(first), length)
        return np.take_along_axis(by_place, inside, axis=1)

    def _of_rows(self, values: Floats) -> Bools:
        """Return the alarms of residual rows."""
        known = self.given.test_residuals
        residuals = Residuals(
            values=values,
            index=np.arange(len(values)),
            channels=known.channels,
            space=known.space,
            scale=known.scale,
        )
        made = self.detector.native_alarms(
            replace(self.given, test_residuals=residuals)
        )
        if made is None or made.alarms is None or len(made.alarms) != len(values):
            raise StreamError(
                "it does not judge residual rows by themselves, so falsified ones "
                "cannot be put before it."
            )
        return np.asarray(made.alarms, np.bool_)


def own_rule_of(
    detector: object, train: Recording, test: Recording
) -> tuple[RuleInput, LearnedDetector] | None:
    """Return what a detector's own rule needs; None if it has none for service."""
    if not isinstance(detector, LearnedDetector):
        return None
    if not any(not rule.looks_at for rule in detector.rules):
        return None
    given: Any = rule_input(detector, train, test)
    return given, detector
