"""Compiled loops over draws: rank figures of a stream that is relabelled.

Rows are sorted by falling energy once. A draw then costs one pass over them and no
sort.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sightline._kernels.compiling import kernel, part
from sightline.data.arrays import Bools, Floats, Ints

Codes = npt.NDArray[np.int32]


@part
def _ramp(first: float, last: float, limit: float) -> float:
    """Return the area up to `limit` of a step that rises from rate first to last."""
    if limit >= last:
        return limit - 0.5 * (first + last)
    if limit > first:
        return 0.5 * (limit - first) ** 2 / (last - first)
    return 0.0


class AllRows(NamedTuple):
    """Calm rows and attack rows together, by falling energy.

    `block` is -1 for an attack row; `last` marks the last row of equal energy. `place`
    says where in that order the rows are: first all calm ones, then those of attacks.
    """

    block: Codes
    alarm: Bools
    last: Bools
    place: Ints


@kernel
def chance_ranks(
    rows: AllRows,
    first: Ints,
    length: Ints,
    count: Codes,
    calm_total: float,
    limits: Floats,
    times: Codes,
    auc: Floats,
    areas: Floats,
    segment_auc: Floats,
) -> tuple[float, float]:
    """Return what ranking gives if other rows stand in the place of the attacks.

    Rows ``first[i]`` to ``first[i] + length[i]`` stand for attack i; calm rows that
    stand for none weigh as often as their block is drawn, `calm_total` with the others.
    `times` and `auc` have an entry for each row; `times` and `areas` are 0 before,
    `times` also after.

    Returns the average precision and the share of the remaining calm rows in alarm, nan
    if none remains; adds up ROC areas up to each limit, and writes each attack's AUC.
    """
    n = len(rows.block)
    total = calm_total - _mark(rows, first, length, count, times)
    above = alarms = hits = precision = 0.0
    start = 0
    while start < n and total > 0.0:
        stop, calm, group = start, 0.0, 0
        while True:
            if times[stop]:
                group += times[stop]
            elif rows.block[stop] >= 0:
                weight = count[rows.block[stop]]
                calm += weight
                if rows.alarm[stop]:
                    alarms += weight
            stop += 1
            if rows.last[stop - 1]:
                break
        if group:
            hits += group
            precision += group * hits / (hits + above + calm)
            low, high = above / total, (above + calm) / total
            for a in range(len(limits)):
                areas[a] += group * _ramp(low, high, limits[a])
            for k in range(start, stop):
                auc[k] = 1.0 - 0.5 * (low + high)
        above += calm
        start = stop
    for i in range(len(first)):
        summed = 0.0
        for k in range(first[i], first[i] + length[i]):
            summed += auc[rows.place[k]]
            times[rows.place[k]] = 0
        segment_auc[i] = summed / length[i]
    return precision / hits, alarms / total


@part
def _mark(
    rows: AllRows, first: Ints, length: Ints, count: Codes, times: Codes
) -> float:
    """Count how often each row stands for an attack; return their calm weight."""
    weight = 0.0
    for i in range(len(first)):
        for k in range(first[i], first[i] + length[i]):
            place = rows.place[k]
            if times[place] == 0 and rows.block[place] >= 0:
                weight += count[rows.block[place]]
            times[place] += 1
    return weight
