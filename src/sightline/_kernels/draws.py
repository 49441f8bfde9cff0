"""Compiled loops over draws: rank figures of a stream that is reweighted or relabelled.

Rows are sorted by falling energy once. A draw then costs one pass over them and no
sort: all that is needed of the calm rows is the weight of those above each attack row,
and of those at or above it.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sightline._kernels.compiling import kernel, part
from sightline.data.arrays import Bools, Floats, Ints

Codes = npt.NDArray[np.int32]


class SortedRows(NamedTuple):
    """Calm rows and attack rows, each by falling energy.

    `blocks` and `energy` are of the calm rows. `attack` tells which attack a row is
    part of, `tied` whether it has the energy of the row before; `above` and `up_to`
    count the calm rows with more, and with at least, its energy.
    """

    blocks: Codes
    energy: Floats
    attack: Codes
    tied: Bools
    above: Ints
    up_to: Ints


class DrawnRanks(NamedTuple):
    """What `draw_ranks` writes, a row for each draw.

    `areas` are by attack, and 0 before: the area under the ROC curve and that up to
    each limit of the false-alarm rate, summed over its rows. `precision` is the average
    precision with one more attack, unseen and wholly seen. `median` is the median
    energy of calm rows. Nothing is written for a draw without calm rows.
    """

    areas: Floats
    precision: Floats
    median: Floats


@kernel
def draw_ranks(
    rows: SortedRows,
    counts: Codes,
    totals: Ints,
    weight: Floats,
    extra: Floats,
    limits: Floats,
    work: Floats,
    drawn: DrawnRanks,
) -> None:
    """Write the rank figures of each draw.

    `counts` says how often each block is drawn, `totals` how many calm rows that makes.
    For the average precision a row of attack i weighs ``weight[r, i]``, and one more
    attack weighs ``extra[r]`` rows. `work` has two numbers for each attack row.
    """
    n_normal, n_attack = len(rows.blocks), len(rows.attack)
    above, up_to = work[0], work[1]
    for r in range(len(counts)):
        total, count = totals[r], counts[r]
        if total == 0:
            continue
        _weigh(rows, count, above, up_to)
        drawn.median[r] = _median(rows, count, total, above)
        _areas(rows, above, up_to, total, limits, drawn.areas[r])
        scale = n_normal / total
        low, high = _precision(rows, weight[r], up_to, scale, extra[r])
        share = n_attack / (n_attack + n_normal)
        if n_attack > 0:
            drawn.precision[r, 0] = (low + extra[r] * share) / n_attack
            drawn.precision[r, 1] = (high + extra[r]) / n_attack


@part
def _weigh(rows: SortedRows, count: Codes, above: Floats, up_to: Floats) -> None:
    """Weigh the calm rows above, and at or above, each attack row."""
    # Whole numbers add up four times as fast as floats, one after another.
    seen = 0
    place = 0
    for i in range(len(above)):
        while place < rows.above[i]:
            seen += count[rows.blocks[place]]
            place += 1
        above[i] = seen
        if i > 0 and rows.up_to[i] == rows.up_to[i - 1]:
            # The same ties as for the row before: count them once.
            up_to[i] = up_to[i - 1]
            continue
        tied = seen
        for k in range(place, rows.up_to[i]):
            tied += count[rows.blocks[k]]
        up_to[i] = tied


@part
def _median(rows: SortedRows, count: Codes, total: int, above: Floats) -> float:
    """Return the weighted median energy of calm rows."""
    # Attack rows mark how much weight lies above them: begin at the last in the half.
    last, end = -1, len(above)
    while end - last > 1:
        middle = (last + end) // 2
        if above[middle] < total / 2:
            last = middle
        else:
            end = middle
    start, seen = 0, 0
    if last >= 0:
        start, seen = rows.above[last], int(above[last])
    upper = -1
    for place in range(start, len(rows.blocks)):
        seen += count[rows.blocks[place]]
        if upper < 0 and 2 * seen >= total:
            upper = place
        if 2 * seen > total:
            return float(0.5 * (rows.energy[upper] + rows.energy[place]))
    return float(rows.energy[upper])


@part
def _areas(
    rows: SortedRows,
    above: Floats,
    up_to: Floats,
    total: float,
    limits: Floats,
    areas: Floats,
) -> None:
    """Add up each attack's area under the ROC curve: whole, and up to each limit."""
    largest = 0.0
    for a in range(len(limits)):
        largest = max(largest, total * limits[a])
    share = 1.0 / total
    for i in range(len(above)):
        attack = rows.attack[i]
        areas[attack, 0] += 1.0 - 0.5 * share * (above[i] + up_to[i])
        # Rows come by falling energy: from here on none is above a limit.
        if above[i] < largest:
            first, last = share * above[i], share * up_to[i]
            for a in range(len(limits)):
                areas[attack, 1 + a] += _ramp(first, last, limits[a])


@part
def _ramp(first: float, last: float, limit: float) -> float:
    """Return the area up to `limit` of a step that rises from rate first to last."""
    if limit >= last:
        return limit - 0.5 * (first + last)
    if limit > first:
        return 0.5 * (limit - first) ** 2 / (last - first)
    return 0.0


@part
def _precision(
    rows: SortedRows, weight: Floats, up_to: Floats, scale: float, extra: float
) -> tuple[float, float]:
    """Return summed precisions, without and with `extra` attack rows above all."""
    low = high = hits = 0.0
    n = len(rows.attack)
    i = 0
    while i < n:
        j, group = i, 0.0
        while True:
            group += weight[rows.attack[j]]
            j += 1
            if j == n or not rows.tied[j]:
                break
        if group > 0.0:
            hits += group
            false = scale * up_to[i]
            low += group * hits / (hits + false)
            high += group * (hits + extra) / (hits + extra + false)
        i = j
    return low, high


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
