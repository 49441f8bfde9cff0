"""Evidence that adds up: averages and sums of log energy that forget or reset."""

from dataclasses import dataclass

import numpy as np

from sightline.data.arrays import IGNORED, NORMAL, Bools, Floats, Labels
from sightline.data.segments import Segment
from sightline.judgement.calm import (
    BUDGET,
    CalmWindows,
    Counts,
    coverage,
    coverages,
    judged,
    running_count,
)
from sightline.judgement.verdicts import RungOutcome

SPANS = (30, 300)
# A sum of log energy adds what exceeds the usual by so many standard deviations.
SLACK = 0.5
_TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True, kw_only=True, eq=False)
class Accumulated:
    """Running counts of rows above the limit, by each way to accumulate."""

    names: tuple[str, ...]
    counts: tuple[Counts, ...]
    is_above: tuple[Bools, ...]
    is_low: Bools

    def judged(
        self, segment: Segment, windows: CalmWindows, near: CalmWindows
    ) -> RungOutcome:
        """Return the best way against the best of each calm window.

        What has accumulated before an attack, where normal operation drifts, is not
        its own: the windows near it must not have it too.
        """
        own = [coverage(counts, segment) for counts in self.counts]
        best = int(np.argmax(own))
        among_all, among_near = (
            judged(
                own[best],
                np.max([coverages(counts, calm) for counts in self.counts], axis=0),
                by=(self.names[best],),
            )
            for calm in (windows, near)
        )
        return among_all if not among_all.visible else among_near


def accumulated(energy: Floats, labels: Labels, resets: Bools) -> Accumulated:
    """Accumulate log energy, starting anew at each reset; ignored rows do not count."""
    from sightline._kernels.spaces import accumulate

    is_normal, counted = labels == NORMAL, labels != IGNORED
    values = np.log(np.maximum(energy, _TINY))
    level, spread = (
        float(np.median(values[is_normal])),
        float(np.std(values[is_normal])),
    )
    ways = {f"average over {span}": 2 / (span + 1) for span in SPANS}
    traces = [
        accumulate(values, counted, resets, level, SLACK * spread, weight)
        for weight in (*ways.values(), 0.0)
    ]
    above = tuple(trace > np.quantile(trace[is_normal], 1 - BUDGET) for trace in traces)
    return Accumulated(
        names=(*ways, "cumulative sum"),
        counts=tuple(running_count(is_above) for is_above in above),
        is_above=above,
        # Too little for a while: what only 1% of calm rows are below.
        is_low=traces[0] < np.quantile(traces[0][is_normal], BUDGET),
    )
