"""The scored test: energy, labels, attacks and alarms in one record."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sightline.data.arrays import IGNORED, NORMAL, Bools, Floats, Ints, Labels
from sightline.data.segments import Attack, Segment
from sightline.energy.reference import Reference


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoredTest:
    """What every figure of a test record is measured on.

    Parameters
    ----------
    energy : array of shape (n_rows,)
        Energy of each test row under `reference`.
    labels : array of shape (n_rows,)
        1 attack, 0 normal, -1 ignored (a guard after attacks included).
    attacks : sequence of Attack
        The attacks in the order of their rows.
    breaks : array of int
        Rows at which a new recording begins; the first is 0.
    reference : Reference
        The model of normal operation, fitted on train.
    threshold : float
        The limit of the p99 rule (tau99): 1% of train energy exceeds it.
    alarms : array of bool, shape (n_rows,)
        Where energy is above `threshold`.
    own_alarms : array of bool, shape (n_rows,), optional
        Alarms of the user's own rule.
    step_s : float, optional
        Seconds a row.
    """

    energy: Floats
    labels: Labels
    attacks: Sequence[Attack]
    breaks: Ints
    reference: Reference
    threshold: float
    alarms: Bools
    own_alarms: Bools | None = None
    step_s: float | None = None

    @property
    def n_rows(self) -> int:
        """Number of test rows."""
        return len(self.energy)

    @cached_property
    def segments(self) -> list[Segment]:
        """The rows of each attack."""
        return [attack.segment for attack in self.attacks]

    @cached_property
    def is_normal(self) -> Bools:
        """Which rows are attack-free and not ignored."""
        return np.asarray(self.labels == NORMAL)

    @cached_property
    def is_ignored(self) -> Bools:
        """Which rows belong neither to an attack nor to normal operation."""
        return np.asarray(self.labels == IGNORED)
