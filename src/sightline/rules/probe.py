"""Alarm rules: from energy to alarms. Fitted on normal energy only."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Bools, Floats, check_series
from sightline.errors import StreamError


@dataclass(frozen=True, kw_only=True)
class QuantileRule:
    """Alarm if the energy exceeds a quantile of normal energy.

    With quantile 0.99 on train energy this is the paper's controlled Stage-2 probe:
    it does not promise a false-alarm rate of 1% on the test trace.

    Parameters
    ----------
    threshold : float
        Energy above which the rule is in alarm.
    quantile : float
        Quantile of normal energy at which it was set, in [0, 1].

    Examples
    --------
    >>> rule = QuantileRule.from_normal([0.0, 1.0, 2.0, 3.0, 4.0], quantile=0.75)
    >>> rule
    QuantileRule(threshold=3.0, quantile=0.75)
    """

    threshold: float
    quantile: float

    @classmethod
    def from_normal(
        cls, energy: npt.ArrayLike, *, quantile: float = 0.99
    ) -> "QuantileRule":
        """Return a rule with its threshold at a quantile of normal energy.

        Parameters
        ----------
        energy : array-like of shape (n_steps,)
            Energy of normal steps; at least one.
        quantile : float
            In [0, 1]; interpolated linearly between steps.

        Raises
        ------
        StreamError
            If there is no step, or the quantile is not in [0, 1].

        Examples
        --------
        >>> QuantileRule.from_normal([0.0, 1.0, 2.0], quantile=0.75).threshold
        1.5
        """
        normal = check_series(energy, "energy")
        if len(normal) == 0:
            raise StreamError("`energy` must have at least one normal step.")
        if not 0 <= quantile <= 1:
            raise StreamError(f"`quantile` must lie in [0, 1]; got {quantile}.")
        return cls(threshold=float(np.quantile(normal, quantile)), quantile=quantile)

    def alarms(self, energy: Floats) -> Bools:
        """Return the steps with energy above the threshold, as booleans."""
        return np.asarray(energy) > self.threshold
