"""An alarm rule that needs numpy alone: the same alarms as Sightline, to the last bit.

Keep this file beside its ``rule.json``. From a shell::

    python rule.py residuals.csv > alarms.csv

The table has one column for each channel of the rule, in any order, perhaps a column
``time`` (seconds, or ISO 8601) and, if the rule reads it, a column ``score``. A cell is
empty where a channel has no usable value. From Python::

    from rule import Live, alarms

    in_alarm = alarms(rows)              # rows of shape (n, channels)
    live = Live()
    live.update(row)                     # True while an alarm runs

Where ``rule.json`` also holds the forecast of its detector (VAR, PCA, mean), telemetry
is read as well, one row each step of the rule, words as numbers::

    python rule.py --telemetry export.csv > alarms.csv

    from rule import LiveTelemetry, alarms_of_telemetry

    in_alarm = alarms_of_telemetry(rows)  # rows of shape (n, tags), nan: not usable
    live = LiveTelemetry()
    live.update(row)

These are the alarms of ``sightline apply`` on those rows; one row at a time sums may
differ in their last bit. A reading is held as long as the rule says, but not over a
break. A tag that is lost for longer has no residual, the detector reads what the others
expect of it (or its last value), and a row that lacks half of the tags is a break. What
``watch`` knows beside that is not done here: ranges and words of tags, units, clocks,
and the mode of the plant.

Everything that an alarm rule computes stands here once, in plain numpy; within
Sightline the loops are compiled, and give the same bits.
"""

import csv
import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

# Gaps of more than this many steps start a new recording.
GAP_FACTOR = 1.5
# After so many seconds without rows means are followed from the usual ones again.
LONG_GAP_S = 28 * 86_400.0
# What is out of service returns after this many units of time below its limit.
BACK = 4
# Marks in a state what was out of service before a break: it returns with the next row.
ENDED = 2
# Rows that are read at a time.
AT_ONCE = 4096
# Sets of tags of which an energy remembers how to leave them out.
MOST_SOLUTIONS = 1000
# Rows of a night of which medians are taken, at the most.
SAMPLES = 288
# A column that lies off by more than this in a night, in its spreads, has jumped.
JUMP = 2.0
# A column is followed beyond this, by so much a night, and so far in all.
LEEWAY, MOST_A_NIGHT, MOST_IN_ALL = 0.25, 0.25, 3.0
# Nights whose medians set the aim; nights in a row after which a jump is a question.
NIGHTS, ASKS_AFTER = 7, 2
# The channel of a question that is about more than half of them at once.
PLANT_CHANGED = -1
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Shorts = npt.NDArray[np.int16]
Bools = npt.NDArray[np.bool_]


# --- Loops, which Sightline has compiled as well --------------------------------------


def average_rows(values: Floats, centre: Floats, weight: float, state: Floats) -> None:
    """Replace rows by their exponentially weighted average about a centre."""
    past = state[: values.shape[1]]
    for t, row in enumerate(values):
        past += weight * ((row - centre) - past)
        values[t] = past


def accumulate_rows(
    values: Floats, centre: Floats, allowance: Floats, state: Floats
) -> None:
    """Replace rows by two-sided cumulative sums, the larger of both sides."""
    for t, row in enumerate(values):
        y = row - centre
        state[0] = np.maximum(0.0, state[0] + y - allowance)
        state[1] = np.maximum(0.0, state[1] - y - allowance)
        values[t] = np.maximum(state[0], state[1])


def unit_energies(values: Floats, bounds: Sequence[int], out: Floats) -> None:
    """Write half the sum of squares of columns [bounds[g], bounds[g + 1])."""
    for g, (first, stop) in enumerate(pairwise(bounds)):
        square = np.zeros(len(values))
        for j in range(first, stop):
            square += values[:, j] * values[:, j]
        out[:, g] = 0.5 * square


def largest_unit(
    values: Floats, levels: Floats, ratios: Floats, out: Floats, which: Ints
) -> None:
    """Write the largest ``abs(value) / level`` of each row, and its column."""
    every = np.abs(values) / levels
    which[:] = np.argmax(every, axis=1)
    out[:] = every.max(axis=1)


def serve_units(
    values: Floats,
    levels: Floats,
    divisor: float,
    limit: float,
    off: int,
    unit: int,
    back: int,
    state: Ints,
    first: int,
    ringing: Floats,
    which: Ints,
    standing: Bools,
    n_out: Shorts,
) -> int:
    """Take units that stand out of service, up to the row at which one goes or returns.

    A unit exceeds where ``abs(value) / level / divisor > limit``. One that exceeds
    after `unit` rows of alarm, without a pause of more than `off` rows, is out of
    service from that row on, until it has been below its limit for `back` rows.

    Parameters
    ----------
    values : array of shape (n_rows, n_units)
        Value of each unit.
    levels : array of shape (n_units,)
        Its level.
    divisor, limit : float
        Limit of the member, and of the rule.
    off, unit, back : int
        Off-delay, after how many rows an alarm stands, and how many rows below its
        limit bring a unit back.
    state : array of int, shape (n_units, 3)
        Rows since its alarm began (0: no alarm), rows since it last exceeded, whether
        it is out of service; changed. All 0 for a unit at rest.
    first : int
        First row to look at.
    ringing, which : array of shape (n_rows,)
        Largest of all units over both limits, and whose it is; -1 where every unit is
        out of service. Changed where units are out of service.
    standing : array of bool, shape (n_rows,)
        Set where a unit that is out of service exceeds.
    n_out : array of int, shape (n_rows,)
        The number of units that are out of service is added.

    Returns
    -------
    int
        The row after that at which a unit left or returned; else the number of rows.
    """
    exceedances, at = np.flatnonzero(ringing > limit), first
    while at < len(values):
        if not state.any():
            k = np.searchsorted(exceedances, at)
            at = int(np.append(exceedances, len(values))[k])
            if at == len(values):
                break
        age, since, is_out = state.T
        ratio = np.abs(values[at]) / levels / divisor
        above = ratio > limit
        since = np.where(above, 0, since + 1)
        ends = (age > 0) & (since > off)
        age = np.where(ends, 0, age + ((age > 0) | above))
        returns = (is_out > 0) & (since >= back)
        goes = above & (age > unit) & (is_out == 0)
        age[returns] = 0
        now = np.where(returns, 0, is_out | goes)
        since[(age == 0) & (now == 0)] = 0
        state[:] = np.stack([age, since, now], axis=1)
        if now.any():
            left = np.where(now > 0, -1.0, ratio)
            which[at] = np.argmax(left)
            ringing[at] = left.max()
            standing[at] |= bool((above & (now > 0)).any())
            n_out[at] += np.count_nonzero(now)
        at += 1
        if returns.any() or goes.any():
            break
    return at


def latch(
    exceeds: Bools, n_needed: int, within: int, off: int, state: Ints, out: Bools
) -> None:
    """Write which rows are in alarm, the latch included.

    An alarm starts at the row with `n_needed` exceedances in the last `within` rows; it
    ends when more than `off` rows have passed since its last one. `state`: the last
    exceedances as bits, rows since the last one, whether an alarm runs.
    """
    bits, since, is_on = state.tolist()
    for t, above in enumerate(exceeds.tolist()):
        bits = ((bits << 1) | above) & ((1 << within) - 1)
        since = 0 if above else since + 1
        if is_on:
            is_on = since <= off
        elif above:
            is_on = bits.bit_count() >= n_needed
        out[t] = is_on
    state[:] = bits, since, is_on


PLAIN = SimpleNamespace(
    average_rows=average_rows,
    accumulate_rows=accumulate_rows,
    unit_energies=unit_energies,
    largest_unit=largest_unit,
    serve_units=serve_units,
    latch=latch,
)


# --- What a rule computes -------------------------------------------------------------


def view_of(rows: Floats, view: Any) -> Floats:
    """Return a linear view of rows; sums run over channels in one fixed order."""
    out = np.zeros((len(rows), len(view.order)))
    for j, channel in enumerate(view.order):
        first, stop = view.first[j], view.stop[j]
        y = rows[:, channel] - view.mean[channel]
        out[:, first:stop] += y[:, None] * view.weights[j, first:stop]
    return np.maximum(out, 0.0) if view.is_one_sided else out


def log_of(values: Floats) -> Floats:
    """Return the logarithm of energies; of 0, that of the smallest number."""
    return np.asarray(np.log(np.maximum(values, np.finfo(np.float64).tiny)))


def unit_values(
    member: Any, seen: Floats, state: Floats, bounds: Any, loops: Any = PLAIN
) -> Floats:
    """Return the value of each unit of a member in each row; the state moves on.

    Parameters
    ----------
    member : Member
        Its view, memory, span, centre and allowance.
    seen : array of shape (n_rows, q)
        Its view of the rows.
    state : array of shape (2, q)
        Its memory; changed.
    bounds : sequence of int, optional
        Columns of units that have several.
    loops : namespace
        The loops above, or compiled ones.
    """
    weight = 2 / (member.span + 1)
    if member.memory == "average":
        seen = seen.copy()
        loops.average_rows(seen, member.centre, weight, state[0])
        if member.is_one_sided:
            np.maximum(seen, 0.0, out=seen)
    elif member.memory == "cusum":
        seen = seen.copy()
        loops.accumulate_rows(seen, member.centre, member.allowance, state)
    elif member.view == "score":
        seen = np.maximum(seen - member.centre, 0.0)
    values = seen
    if bounds is not None:
        values = np.empty((len(seen), len(bounds) - 1))
        loops.unit_energies(seen, bounds, values)
    if member.memory in ("log-average", "quiet"):
        values = log_of(values)
        loops.average_rows(values, member.centre, weight, state[0])
        values = np.maximum(-values if member.memory == "quiet" else values, 0.0)
    return values


def member_scores(
    member: Any, values: Floats, loops: Any = PLAIN
) -> tuple[Floats, Ints]:
    """Return the largest value over its level in each row, and whose it is."""
    score, which = np.empty(len(values)), np.empty(len(values), np.int64)
    work = np.empty(len(member.levels))
    loops.largest_unit(values, member.levels, work, score, which)
    if member.largest:
        # What overflows is far above any limit.
        with np.errstate(over="ignore"):
            ordered = np.sort(np.abs(values) / member.levels, axis=1)
            score[:] = 0.0
            for column in ordered[:, : -member.largest - 1 : -1].T:
                score += column * column
            score *= 0.5
    return score, which


# --- Rows without some values, and energies without some tags -------------------------


class Hole(NamedTuple):
    """Rows that lack the same channels.

    Parameters
    ----------
    channels : array of bool, shape (n_channels,)
        The channels without a value.
    rows : array of int
        The rows.
    """

    channels: Bools
    rows: Ints


def holes_in(rows: Any) -> list[Hole]:
    """Return which rows lack which channels (nan), those of each pattern together."""
    if not len(rows) or not np.isnan(rows.min()):
        return []
    lacks = np.isnan(rows)
    at = np.flatnonzero(lacks.any(axis=1))
    patterns, which = np.unique(lacks[at], axis=0, return_inverse=True)
    which = which.reshape(-1)
    return [Hole(one, at[which == k]) for k, one in enumerate(patterns)]


def sums_in_order(rows: Floats, weights: Floats) -> Floats:
    """Return ``rows @ weights.T``, every sum in the order of the columns of rows."""
    total = np.zeros((len(rows), len(weights)))
    for column, weight in zip(rows.T, weights.T, strict=True):
        total += column[:, None] * weight
    return total


def fill_in(rows: Any, view: Any, hole: Hole) -> tuple[Ints, Floats]:
    """Return the channels of a view that some rows lack, and what the others expect.

    That is the conditional mean given the channels that the rows have, by the precision
    of the view: the view of the lacking channel itself is then 0, and an energy is that
    of the channels that are there (of each stage: given the others of the stage).
    """
    order = np.asarray(view.order)
    lacks = hole.channels[order]
    precision = view.weights.T
    if view.bounds is not None:
        precision = view.weights @ view.weights.T
    ours, others = order[lacks], order[~lacks]
    expected = -np.linalg.solve(
        precision[np.ix_(lacks, lacks)], precision[np.ix_(lacks, ~lacks)]
    )
    y = np.asarray(rows[hole.rows][:, others], np.float64) - view.mean[others]
    return ours, sums_in_order(y, expected) + view.mean[ours]


class Without(NamedTuple):
    """What the energy needs to leave some tags out; see `EnergyTags`.

    Parameters
    ----------
    tags : array of int
        The tags that are left out.
    whitening : array of shape (n_left, q)
        Their weights.
    solved : array of shape (n_left, q)
        Gives each one's deviation from what the tags that are not left out expect.
    variance : array of shape (n_left,)
        Of these deviations.
    falls : array of shape (q,)
        How much the energy falls without a further tag, for a slope of 1; 0 for `tags`.
    """

    tags: Ints
    whitening: Floats
    solved: Floats
    variance: Floats
    falls: Floats


class EnergyTags:
    """Energies from which tags are left out: marginal energies of the other tags.

    With whitening W and whitened row f, the energy is ``f @ f / 2`` and the precision
    ``W @ W.T``. To leave tags out is to put in their place what the others expect of
    them, which takes out of f its part along their weights. Tags are counted in the
    order of the view.

    Parameters
    ----------
    member, view : Member, LinearView
        The energy, and its whitened view of all channels.
    """

    def __init__(self, member: Any, view: Any) -> None:
        self.order = np.asarray(view.order)
        self.weights, self.bounds = view.weights, view.bounds
        self.divisors = float(member.levels[0]), member.limit
        self._solved: dict[bytes, Without] = {}

    def _without(self, out: Ints, hole: Hole | None) -> Without:
        """Return what leaves tags out, and those that rows lack."""
        is_left = np.zeros(len(self.order), np.bool_)
        if hole is not None:
            is_left |= hole.channels[self.order]
        is_left[out] = True
        key = is_left.tobytes()
        if key not in self._solved:
            if len(self._solved) >= MOST_SOLUTIONS:
                self._solved.clear()
            left = self.weights[is_left]
            inverse = np.linalg.inv(left @ left.T)
            solved = inverse @ left
            rest = self.weights - (self.weights @ left.T) @ solved
            squares = np.where(is_left, np.inf, (rest * rest).sum(axis=1))
            self._solved[key] = Without(
                np.flatnonzero(is_left), left, solved, np.diagonal(inverse), 1 / squares
            )
        return self._solved[key]

    def energies(
        self, seen: Floats, holes: Sequence[Hole], out: Ints, loops: Any = PLAIN
    ) -> tuple[Floats, Floats, Floats]:
        """Return what is left of whitened rows, its energy, and that with each tag.

        The last, of shape (n_rows, n_out), is the energy if one of the tags that are
        left out came back. Energies are over level and limit of the member.
        """
        rest, added = seen.copy(), np.zeros((len(seen), len(out)))
        is_whole = np.ones(len(seen), np.bool_)
        for hole in holes:
            is_whole[hole.rows] = False
        nowhere = np.zeros(int(self.order.max()) + 1, np.bool_)
        for hole in (Hole(nowhere, np.flatnonzero(is_whole)), *holes):
            rows, left = hole.rows, self._without(out, hole)
            deviations = sums_in_order(seen[rows], left.solved)
            for deviation, weight in zip(deviations.T, left.whitening, strict=True):
                rest[rows] -= deviation[:, None] * weight
            place = np.searchsorted(left.tags, out)
            part = deviations[:, place]
            added[rows] = 0.5 * (part * part) / left.variance[place]
            added[np.ix_(rows, np.flatnonzero(hole.channels[self.order[out]]))] = 0.0
        energy = np.empty((len(seen), 1))
        loops.unit_energies(rest, self.bounds, energy)
        level, limit = self.divisors
        return rest, energy[:, 0] / level / limit, (energy + added) / level / limit

    def parts(self, rest: Floats, out: Ints, hole: Hole | None) -> Floats:
        """Return by what share the energy of a row falls without each tag."""
        slopes = (self.weights * rest).sum(axis=1)
        falls = self._without(out, hole).falls
        return np.asarray(slopes * slopes * falls / (rest * rest).sum())


# --- Means that are followed ----------------------------------------------------------


class Followed(NamedTuple):
    """How far the columns of views have moved, in spreads from their usual median.

    Parameters
    ----------
    accepted : array of shape (q,)
        What a person called normal.
    shift : array of shape (q,)
        By how much it is followed, from there.
    jumps : array of shape (q,)
        Nights in a row in which it lay off by more than `JUMP`.
    latest : array of shape (ASKS_AFTER, q)
        Medians of the last such nights.
    learned : array of shape (NIGHTS, q)
        Medians of the last other nights: first those of commissioning, which are 0;
        nan after an answer, until there are so many again.
    """

    accepted: Floats
    shift: Floats
    jumps: Floats
    latest: Floats
    learned: Floats

    @classmethod
    def at_rest(cls, q: int) -> "Followed":
        """Return the state before the first night."""
        jumped, learned = np.zeros((ASKS_AFTER, q)), np.zeros((NIGHTS, q))
        return cls(np.zeros(q), np.zeros(q), np.zeros(q), jumped, learned)

    @property
    def moved(self) -> Floats:
        """What is subtracted from each column, in spreads."""
        return self.accepted + self.shift

    @property
    def is_asked(self) -> Bools:
        """Columns of which a person must say whether this is normal."""
        return (self.jumps >= ASKS_AFTER) | (np.abs(self.shift) >= MOST_IN_ALL)

    @property
    def off(self) -> Floats:
        """By how much each has jumped from its mean; else how far it was followed."""
        return np.where(self.jumps > 0, self.now - self.moved, self.shift)

    @property
    def now(self) -> Floats:
        """Where each column lies: in its last nights, where it has jumped.

        In the very last one, if it lay off on the other side before.
        """
        is_alike = (self.jumps > 1) & ((self.latest - self.moved).prod(axis=0) > 0)
        lately = np.where(is_alike, self.latest.mean(axis=0), self.latest[-1])
        return np.where(self.jumps > 0, lately, self.moved)


def next_night(before: Followed, medians: Floats) -> Followed:
    """Return the state after a night.

    A column that lies within `JUMP` of where it was last night is learned from: it
    moves towards the median of its last such nights, but for `LEEWAY`.

    Parameters
    ----------
    before : Followed
        The state.
    medians : array of shape (q,)
        Of the night, in spreads from the usual median; nan without enough values.
    """
    learns = np.abs(medians - before.moved) <= JUMP
    jumps = ~learns & ~np.isnan(medians)
    learned = np.where(
        learns, np.concatenate([before.learned[1:], medians[None]]), before.learned
    )
    latest = np.where(
        jumps, np.concatenate([before.latest[1:], medians[None]]), before.latest
    )
    shift = before.shift.copy()
    aim = np.nanmedian(learned[:, learns], axis=0) - before.moved[learns]
    step = np.clip(np.abs(aim) - LEEWAY, 0.0, MOST_A_NIGHT) * np.sign(aim)
    shift[learns] = np.clip(shift[learns] + step, -MOST_IN_ALL, MOST_IN_ALL)
    counts = np.where(learns, 0.0, before.jumps + jumps)
    return Followed(before.accepted, shift, counts, latest, learned)


def answered(before: Followed, own: Bools, *, is_plant: bool = False) -> Followed:
    """Return the state after a person called normal what is asked of some columns.

    So is what jumped in the same night, because one change moves several columns; of a
    change of the whole plant also what is not asked about yet.
    """
    asked, jumps = before.is_asked | (is_plant & own & (before.jumps > 0)), before.jumps
    alike = (jumps > 0) & np.isin(jumps, jumps[asked & own])
    return accepted(before, (asked | (is_plant & alike)) & (own | alike))


def accepted(before: Followed, columns: Bools) -> Followed:
    """Return the state after a person called normal where some columns lie now."""
    now, nothing = before.now, np.where(columns, 0.0, 1.0)
    learned = np.where(columns, np.nan, before.learned)
    learned[-1] = np.where(columns, now, before.learned[-1])
    return Followed(
        np.where(columns, now, before.accepted),
        before.shift * nothing,
        before.jumps * nothing,
        before.latest,
        learned,
    )


class Question(NamedTuple):
    """A channel that a person is asked about, or no longer.

    `row` is the last of the night; `off` how far it lies off, in spreads, 0.0 if it is
    no longer asked about. If it is `PLANT_CHANGED`, `off` is the largest of all, and
    `together` says which channels, the largest first.
    """

    row: int
    channel: int
    off: float
    together: tuple[int, ...] = ()


class Nights:
    """Medians of the columns of a rule's views, night by night, and what follows them.

    A night is over after `rule.night` rows, whatever the clock says.

    Parameters
    ----------
    rule : Rule
        Its views, each with the usual median and the spread of its columns.

    Attributes
    ----------
    rows : array of shape (n_samples, n_channels)
        Rows of this night that count for the medians.
    count : array of int, shape (1,)
        Rows of this night so far.
    channel : array of int, shape (q,)
        Channel of each column.
    followed : Followed
        The state of all columns, view after view.
    """

    def __init__(self, rule: Any) -> None:
        self.views, self.night = rule.views, rule.night
        self.every = -(-rule.night // SAMPLES)
        self.usual = np.concatenate([np.asarray(view.usual) for view in rule.views])
        self.spread = np.concatenate([np.asarray(view.spread) for view in rule.views])
        self.channel = np.concatenate([np.asarray(view.order) for view in rule.views])
        own = [np.full(len(view.order), view.kind == "x") for view in rule.views]
        self.is_own = np.concatenate(own)
        self.rows = np.zeros((-(-rule.night // self.every), len(rule.channels)))
        self.count = np.zeros(1, np.int64)
        self.followed = Followed.at_rest(len(self.usual))

    def follow(
        self, rows: Any, seen: dict[str, Floats], look: Callable[..., Floats]
    ) -> list[Question]:
        """Subtract from views of rows what is followed; return what is asked now.

        Parameters
        ----------
        rows : array of shape (n_rows, n_channels)
            The rows.
        seen : dict of str to array
            Their views; changed.
        look : callable
            Returns a view of rows of which some lack channels.
        """
        first, asked = 0, []
        while first < len(rows):
            n_before = int(self.count[0])
            stop = min(first + self.night - n_before, len(rows))
            moved, place = self.followed.moved * self.spread, 0
            for view in self.views:
                q = len(view.order)
                if moved[place : place + q].any():
                    seen[view.kind][first:stop] -= moved[place : place + q]
                place += q
            chosen = np.arange(first + (-n_before) % self.every, stop, self.every)
            self.rows[(n_before + chosen - first) // self.every] = rows[chosen]
            self.count[0] += stop - first
            if self.count[0] == self.night:
                before, self.count[0] = self.asked(), 0
                self.followed = next_night(self.followed, self._medians(look))
                now, plant = self.asked(), tuple(self.together()[1].tolist())
                asked += [
                    Question(
                        stop - 1,
                        channel,
                        now.get(channel, 0.0),
                        plant if channel == PLANT_CHANGED else (),
                    )
                    for channel in sorted({*before} ^ {*now})
                ]
            first = stop
        return asked

    def _medians(self, look: Callable[..., Floats]) -> Floats:
        """Return the median of each column, in spreads; nan where most rows lack it."""
        holes, found = holes_in(self.rows), []
        for view in self.views:
            seen = look(self.rows, view, holes)
            for hole in holes:
                lacks = np.flatnonzero(hole.channels[np.asarray(view.order)])
                seen[np.ix_(hole.rows, lacks)] = np.nan
            is_known = 2 * np.isnan(seen).sum(axis=0) < len(seen)
            median = np.full(seen.shape[1], np.nan)
            median[is_known] = np.nanmedian(seen[:, is_known], axis=0)
            found.append(median)
        medians: Floats = (np.concatenate(found) - self.usual) / self.spread
        return medians

    def asked(self) -> dict[int, float]:
        """Return the channels that a person is asked about, and how far they are off.

        Of the columns of a channel the one that lies off most counts. What moved
        `together` is one question, of `PLANT_CHANGED`.
        """
        window, _ = self.together()
        off, order = self._by_size(self.followed.is_asked | window)
        is_one = np.isin(self.channel, self.channel[window])
        keys = np.where(is_one, PLANT_CHANGED, self.channel)
        return {int(keys[k]): float(off[k]) for k in order}

    def together(self) -> tuple[Bools, Ints]:
        """Return the columns that jumped in a change of the plant, and which channels.

        More than half of the channels jumped within `ASKS_AFTER` nights, and the first
        of them is asked about. A tag that moves shows in what the others tell of
        theirs, so only its own reading counts (view ``x``); of a rule without, what
        lies at least half as far off as the largest. None: both are empty.
        """
        jumps, n_channels = self.followed.jumps, len(np.unique(self.channel))
        size = np.abs(self.followed.off)
        for first in np.unique(jumps[jumps >= ASKS_AFTER])[::-1]:
            window = (jumps > first - ASKS_AFTER) & (jumps <= first)
            moved = window & self.is_own
            if not self.is_own.any():
                moved = window & (size >= 0.5 * size[window].max())
            _, order = self._by_size(moved)
            channels = list(dict.fromkeys(self.channel[order[::-1]].tolist()))
            if 2 * len(channels) > n_channels > 1:
                return window, np.array(channels, np.int64)
        return np.zeros(len(jumps), np.bool_), np.zeros(0, np.int64)

    def _by_size(self, columns: Bools) -> tuple[Floats, Ints]:
        """Return how far columns are off, and some of them, the largest last."""
        off, places = self.followed.off, np.flatnonzero(columns)
        return off, places[np.argsort(np.abs(off[places]), kind="stable")]

    def accept(self, channel: int) -> None:
        """Take what is asked about a channel for normal; see `answered`.

        Of one that moved with the plant, as of `PLANT_CHANGED`, all of them.
        """
        _, plant = self.together()
        is_plant = channel == PLANT_CHANGED or channel in plant
        own = np.isin(self.channel, plant if is_plant else channel)
        self.followed = answered(self.followed, own, is_plant=is_plant)


# --- A rule, row by row ---------------------------------------------------------------


class MemberRows(NamedTuple):
    """What a member makes of some rows: its view, the value of each unit, the largest.

    The largest is in units of its level; `which` says whose it is.
    """

    seen: Floats
    values: Floats
    score: Floats
    which: Ints


class ScoredRows(NamedTuple):
    """What members make of some rows, before any limit, and what the rows lack.

    `questions`: what was asked or settled meanwhile.
    """

    members: Sequence[MemberRows]
    holes: Sequence[Hole]
    questions: Sequence["Question"] = ()


class Decision(NamedTuple):
    """What a rule makes of some rows.

    Parameters
    ----------
    trace : array of shape (n_members, n_rows)
        Each member over its limit.
    ringing : array of shape (n_members, n_rows)
        The same of what is in service; -1 where nothing is.
    units : list of array of int, shape (n_rows,)
        Whose value that is, for each member.
    exceeds, in_alarm : array of bool, shape (n_rows,)
        Where anything in service exceeds, and the alarms.
    standing : array of bool, shape (n_rows,)
        Where something exceeds that is out of service.
    n_out : array of int16, shape (n_rows,)
        How many units are out of service.
    service : list of tuple of int
        Row, member, unit, and 1 if it goes out of service or 0 if it returns.
    """

    trace: Floats
    ringing: Floats
    units: list[Ints]
    exceeds: Bools
    in_alarm: Bools
    standing: Bools
    n_out: Shorts
    service: list[tuple[int, int, int, int]]


def is_by_tag(member: Any, view: Any) -> bool:
    """Return whether single tags of a member's energy can be out of service."""
    return (
        member.view == "energy"
        and member.memory == "none"
        and not member.largest
        and len(view.order) > 1
    )


def n_units_of(member: Any, view: Any) -> int:
    """Return how many units of a member can be out of service, each by itself.

    Its channels or stages; the tags of an energy; one for a member that has a joint
    memory or adds up channels.
    """
    if view is None or member.memory in ("log-average", "quiet") or member.largest:
        return 1
    return len(view.order) if is_by_tag(member, view) else len(view.units)


class RuleSteps:
    """What a rule does with rows, one or some after the other; its memory moves on.

    A unit (a channel, a stage) of a member that exceeds for `delays.unit` rows, without
    a pause of more than the off-delay, is out of service from then on; it returns when
    it has been below its limit for `BACK` times as long. Other units go on. Of an
    energy that exceeds for so long, the tag with the largest part is left out: what is
    left is the marginal energy of the other tags, which is never larger than that of
    all, so that the limit stays as it is. If it still exceeds for another unit of time
    a further tag is left out, at most half of them. A tag returns when the energy with
    it has been below the limit for `BACK` times as long.

    Parameters
    ----------
    rule : Rule
        Its channels, views, members, limit and delays.

    Attributes
    ----------
    memory : list of array
        Memory of each member; of an energy, the part of each tag in a running alarm.
    service : list of array of int, shape (n_units, 3)
        See `serve_units`. For an energy the tags, of which the first column is 0, and
        as last row the alarm of the energy.
    latch : array of int, shape (3,)
        Last exceedances as bits, rows since the last one, whether an alarm runs.
    nights : Nights, optional
        What follows the means, which goes on over breaks; None if they are fixed.
    """

    loops: Any = PLAIN

    def __init__(self, rule: Any) -> None:
        self.rule = rule
        self.views = {view.kind: view for view in rule.views}
        self.of_member = [self.views.get(member.view) for member in rule.members]
        self.service, self.energies = [], []
        for member, view in zip(rule.members, self.of_member, strict=True):
            has_tags = is_by_tag(member, view)
            self.energies.append(EnergyTags(member, view) if has_tags else None)
            n_rows = n_units_of(member, view) + has_tags
            self.service.append(np.zeros((n_rows, 3), np.int64))
        self.begin_anew()

    def restart(self) -> None:
        """Forget all earlier rows, as after a break."""
        sizes = [1 if view is None else len(view.order) for view in self.of_member]
        self.memory = [np.zeros((2, size)) for size in sizes]
        self.latch = np.zeros(3, np.int64)
        for state in self.service:
            state[:, :2] = 0
            state[state[:, 2] > 0, 2] = ENDED
        self.find_active()

    def begin_anew(self) -> None:
        """Forget what was followed as well, as after `LONG_GAP_S` without rows."""
        self.restart()
        self.nights = Nights(self.rule) if self.rule.night and self.rule.views else None

    def find_active(self) -> None:
        """Find the members of which a unit is in alarm or out of service."""
        self.active = [bool(state.any()) for state in self.service]

    def look(self, rows: Any, view: Any) -> Floats:
        """Return a view of rows."""
        return view_of(rows, view)

    def look_with_holes(self, rows: Any, view: Any, holes: Sequence[Hole]) -> Floats:
        """Return a view of rows of which some lack channels; see `fill_in`."""
        order, filled = np.asarray(view.order), np.array(rows, np.float64)
        holes = [hole for hole in holes if hole.channels[order].any()]
        for hole in holes:
            ours, cells = fill_in(rows, view, hole)
            filled[np.ix_(hole.rows, ours)] = cells
        return self.look(filled, view)

    def scores(self, rows: Any, score: Any = None) -> ScoredRows:
        """Return what each member makes of some rows; nan where a channel has no value.

        Such a channel counts as what the others expect of it.
        """
        holes, seen = holes_in(rows), {}
        for kind, view in self.views.items():
            seen[kind] = (
                self.look_with_holes(rows, view, holes)
                if holes
                else self.look(rows, view)
            )
        questions = []
        if self.nights is not None:
            questions = self.nights.follow(rows, seen, self.look_with_holes)
        for kind, view in self.views.items() if holes else ():
            for hole in holes if view.bounds is None else ():
                lacks = np.flatnonzero(hole.channels[np.asarray(view.order)])
                seen[kind][np.ix_(hole.rows, lacks)] = 0.0
        if score is not None:
            seen["score"] = np.asarray(score, np.float64)[:, None]
        scored = []
        for m, (member, view) in enumerate(
            zip(self.rule.members, self.of_member, strict=True)
        ):
            values = unit_values(
                member,
                seen[member.view],
                self.memory[m],
                None if view is None else view.bounds,
                self.loops,
            )
            largest = member_scores(member, values, self.loops)
            scored.append(MemberRows(seen[member.view], values, *largest))
        return ScoredRows(scored, holes, questions)

    def judge(self, scored: ScoredRows) -> Decision:
        """Return what the rule makes of rows that its members have scored."""
        rule, delays = self.rule, self.rule.delays
        n = len(scored.members[0].score)
        trace, units = np.empty((len(rule.members), n)), []
        for m, one in enumerate(scored.members):
            np.divide(one.score, rule.members[m].limit, out=trace[m])
            units.append(one.which)
        exceeds, in_alarm, standing = np.zeros((3, n), np.bool_)
        n_out, ringing = np.zeros(n, np.int16), trace
        service: list[tuple[int, int, int, int]] = []
        if n and (trace.max() > rule.limit or any(self.active)):
            ringing = trace.copy()
            for m, row in enumerate(ringing):
                if self.active[m] or row.max() > rule.limit:
                    units[m] = units[m].copy()
                    rows = row, units[m], standing, n_out
                    service += self._serve(m, scored, *rows)
            np.greater(ringing.max(axis=0), rule.limit, out=exceeds)
        self.loops.latch(
            exceeds, delays.on, delays.within, delays.off, self.latch, in_alarm
        )
        flags = exceeds, in_alarm, standing, n_out
        return Decision(trace, ringing, units, *flags, sorted(service))

    def _serve(
        self,
        m: int,
        scored: ScoredRows,
        ringing: Floats,
        which: Ints,
        standing: Bools,
        n_out: Shorts,
    ) -> list[tuple[int, int, int, int]]:
        """Take units of a member out of service and back; return what changed."""
        member, one, state = self.rule.members[m], scored.members[m], self.service[m]
        energy, delays, row = self.energies[m], self.rule.delays, 0
        ended = np.flatnonzero(state[:, 2] == ENDED).tolist()
        state[ended] = 0
        changes = [(0, j, 0) for j in ended]
        if energy is not None:
            rows = ringing, standing, n_out
            changes += self._serve_energy(m, energy, one.seen, scored.holes, *rows)
            row = len(ringing)
        values, levels = one.values, member.levels
        if len(state) < len(levels) or member.largest:
            values, levels = one.score[:, None], np.ones(1)
        while row < len(ringing):
            before = state[:, 2].copy()
            row = self.loops.serve_units(
                *(values, levels, member.limit, self.rule.limit),
                *(delays.off, delays.unit, BACK * delays.unit, state, row),
                *(ringing, which, standing, n_out),
            )
            for j in np.flatnonzero(before != state[:, 2]).tolist():
                changes.append((row - 1, j, int(state[j, 2])))
        self.active[m] = bool(state.any())
        names = range(len(state)) if energy is None else energy.order
        return [(at, m, int(names[j]), is_out) for at, j, is_out in changes]

    def _serve_energy(
        self,
        m: int,
        energy: EnergyTags,
        seen: Floats,
        holes: Sequence[Hole],
        ringing: Floats,
        standing: Bools,
        n_out: Shorts,
    ) -> Iterator[tuple[int, int, int]]:
        """Leave tags that stand out of an energy, and take them back.

        Yields row, tag in the order of the view, and whether it is left out. A tag's
        part is by how much the energy falls without it, over the energy, added up over
        the exceedances of the running alarm.
        """
        limit, delays = self.rule.limit, self.rule.delays
        state, parts, first = self.service[m], self.memory[m][0], 0
        tags, alarm = state[:-1], state[-1]
        while first < len(ringing):
            out = np.flatnonzero(tags[:, 2])
            later = [Hole(c, r[r >= first] - first) for c, r in holes]
            rest, ratio = seen[first:], ringing[first:]
            returned = np.empty((len(ratio), 0))
            if len(out):
                rest, ratio, returned = energy.energies(rest, later, out, self.loops)
            above, each = ratio > limit, np.arange(len(ratio))
            # Rows since each tag that is out would last have exceeded.
            last = np.where(returned > limit, each[:, None], -1 - tags[out, 1])
            since = each[:, None] - np.maximum.accumulate(last, axis=0)
            is_back = since >= BACK * delays.unit
            # Rows since the last exceedance, and since the alarm began.
            before = -1 - alarm[1] if alarm[0] else -2 - delays.off - len(each)
            last = np.maximum.accumulate(np.where(above, each, before))
            begins = above & (each - np.append(before, last[:-1]) > delays.off + 1)
            start = np.maximum.accumulate(np.where(begins, each, -alarm[0]))
            has_room = len(out) < len(tags) // 2
            stands = above & (each - start >= delays.unit) & has_room
            stop = int(np.argmax(np.append(is_back.any(axis=1) | stands, True)))
            leaves = stop < len(each) and not is_back[stop].any()
            for row in np.flatnonzero(above[: stop + leaves]) if has_room else ():
                hole = next((one for one in later if row in one.rows), None)
                parts[:] = 0.0 if begins[row] else parts
                parts += energy.parts(rest[row], out, hole)
            part = slice(first, first + stop)
            standing[part] |= (ringing[part] > limit) & (len(out) > 0)
            ringing[part] = ratio[:stop]
            n_out[part] += len(out)
            first += stop
            if stop:
                tags[out, 1] = since[stop - 1]
                quiet = int(each[stop - 1] - last[stop - 1])
                age = int(each[stop - 1] - start[stop - 1]) + 1
                alarm[:2] = (age, quiet) if quiet <= delays.off else 0
            if stop == len(each):
                break
            changed = out[is_back[stop]]
            if leaves:
                changed = np.argmax(parts, keepdims=True)
            tags[changed] = 0, 0, leaves
            alarm[:], parts[:] = 0, 0.0
            for j in changed.tolist():
                yield first, j, int(leaves)


# --- From telemetry to residuals ------------------------------------------------------

# A row that lacks at least this share of the tags, and so many, is a break; so is one
# that lacks more than the other share, after more rows of it than a forecast looks at.
OUTAGE_SHARE, POOR_SHARE, LEAST_TAGS = 0.5, 0.25, 2
# Rows of which a forecast is computed at a time, in each form.
STACKED = {"lags": 4096, "components": 16_384, "mean": 16_384}


class UsableRows(NamedTuple):
    """Rows of telemetry as a forecast reads them, without outages.

    Parameters
    ----------
    values : array of shape (n_left, n_tags)
        Readings; in place of a lost one the last of its run, else its mean.
    lost : array of bool, shape (n_left, n_tags)
        Cells without a usable reading.
    place : array of int, shape (n_left,)
        Where each row was.
    breaks : array of int
        Rows at which a run begins.
    """

    values: Floats
    lost: Bools
    place: Ints
    breaks: Ints


def begin_of_runs(n_rows: int, breaks: Ints) -> Ints:
    """Return the first row of the run of each row."""
    begins: Ints = breaks[np.searchsorted(breaks, np.arange(n_rows), side="right") - 1]
    return begins


def latest(known: Bools, breaks: Ints) -> Ints:
    """Return the last row of its run in which each cell is known; -1 if none is."""
    rows = np.arange(len(known))
    begins = begin_of_runs(len(known), breaks)
    seen = np.maximum.accumulate(np.where(known, rows[:, None], -1), axis=0)
    return np.asarray(np.where(seen >= begins[:, None], seen, -1))


def measured(
    rows: Floats, breaks: Ints, forecast: Any, step_s: float, before: Any = None
) -> UsableRows:
    """Return rows of telemetry as a forecast reads them.

    `before` holds the last readings of the run that goes on with the first row.
    """
    known = np.isfinite(rows)
    seen = latest(known, breaks)
    age = (np.arange(len(rows))[:, None] - seen) * step_s
    held = ~known & (seen >= 0) & (age <= forecast.hold_s + 1e-6)
    lost = ~known & ~held
    columns = np.arange(rows.shape[1])
    values = np.where(held, rows[seen, columns], rows)
    n_lost, n_tags = lost.sum(axis=1), rows.shape[1]
    is_several = n_lost >= min(LEAST_TAGS, n_tags)
    is_poor = is_several & (n_lost > POOR_SHARE * n_tags)
    poor = np.arange(len(rows)) - latest(~is_poor[:, None], breaks)[:, 0]
    poor = np.minimum(poor, 1 + np.arange(len(rows)) - begin_of_runs(len(rows), breaks))
    is_out = is_several & (n_lost >= OUTAGE_SHARE * n_tags) | (poor > forecast.looks_at)
    place = np.flatnonzero(~is_out)
    run = np.searchsorted(breaks, place, side="right")
    begins = (np.diff(place, prepend=-2) != 1) | (np.diff(run, prepend=-1) != 0)
    values, lost, firsts = values[place], lost[place], np.flatnonzero(begins)
    if lost.any():
        seen = latest(~lost, firsts)
        filled = np.where(seen >= 0, values[seen, columns], forecast.means)
        if before is not None and place[0] == 0:
            is_first = np.arange(len(place)) < np.append(firsts, len(place))[1]
            goes_on = is_first[:, None] & (seen < 0) & np.isfinite(before)
            filled = np.where(goes_on, before, filled)
        values = filled
    return UsableRows(values, lost, place, firsts)


def told_by_others(lost: Bools, forecast: Any) -> Iterator[tuple[Any, ...]]:
    """Yield how lost cells follow from the others, for rows that lack the same.

    Rows, lost and other channels, weights of these, correlation, unit of channels.
    """
    variance = np.diag(forecast.covariance)
    unit = np.sqrt(np.where(variance > 0, variance, 1.0))
    correlation = forecast.covariance / np.outer(unit, unit)
    correlation.flat[:: len(unit) + 1] *= 1 + forecast.ridge
    at = np.flatnonzero(lost.any(axis=1))
    patterns, which = np.unique(lost[at], axis=0, return_inverse=True)
    for k, pattern in enumerate(patterns):
        columns, known = np.flatnonzero(pattern), np.flatnonzero(~pattern)
        weights = np.linalg.pinv(correlation[np.ix_(known, known)], hermitian=True)
        weights = weights @ correlation[np.ix_(known, columns)]
        yield at[which.reshape(-1) == k], columns, known, weights, correlation, unit


def expected_of_others(values: Floats, lost: Bools, forecast: Any) -> Floats:
    """Return scaled rows in which lost cells are what the others expect of them."""
    filled, mean = values.copy(), forecast.mean
    for rows, columns, known, weights, _, unit in told_by_others(lost, forecast):
        total = np.zeros((len(rows), len(columns)))
        for j, weight in zip(known.tolist(), weights, strict=True):
            total += ((values[rows, j] - mean[j]) / unit[j])[:, None] * weight
        filled[np.ix_(rows, columns)] = mean[columns] + total * unit[columns]
    return filled


def forecast_errors(values: Floats, rows: Ints, forecast: Any) -> Floats:
    """Return scaled rows minus what a forecast expects of them."""
    errors = np.empty((len(rows), values.shape[1]))
    many, mean, unit = STACKED[forecast.kind], forecast.mean, forecast.unit
    for start in range(0, len(rows), many):
        at = rows[start : start + many]
        if forecast.kind == "mean":
            part = values[at] - mean
        elif forecast.kind == "components":
            part = (values[at] - mean) / unit
            part -= (part @ forecast.loadings) @ forecast.loadings.T
            part = part * unit
        else:
            expected = np.tile(forecast.intercept, (len(at), 1))
            for lag, weights in enumerate(forecast.weights, start=1):
                expected += (values[at - lag] - mean) / unit @ weights
            part = values[at] - mean - expected * unit
        errors[start : start + len(at)] = part
    return errors


def uncertain_residuals(lost: Bools, forecast: Any) -> Bools:
    """Return which residuals are more uncertain by lost readings than by themselves.

    `lost` marks tags with a lost reading among those that a residual depends on.
    """
    scale, share = forecast.unit, forecast.loadings @ forecast.loadings.T
    by_lag = forecast.weights if forecast.kind == "lags" else share[None]
    change = by_lag / scale[:, None] * scale
    found = np.zeros(lost.shape, np.bool_)
    for rows, columns, known, weights, r, unit in told_by_others(lost, forecast):
        left = r[np.ix_(columns, columns)] - r[np.ix_(columns, known)] @ weights
        left = left * np.outer(unit[columns], unit[columns])
        each, every = change[:, columns], change[:, columns].sum(axis=0)
        apart = np.einsum("lji,jk,lki->i", each, left, each)
        together = np.einsum("ji,jk,ki->i", every, left, every)
        found[rows] = np.maximum(apart, together) > forecast.noise
    return found


def lost_residuals(given: UsableRows, rows: Ints, forecast: Any) -> Bools:
    """Return which residuals are of tags that are lost, or were a short time before.

    A tag waits for as many usable rows as its residual depends on, unless more than
    half of the tags would have to.
    """
    begins = given.breaks[np.searchsorted(given.breaks, rows, side="right") - 1]
    lost = given.lost[:, forecast.kept]
    now, ever = lost[rows], lost[rows]
    for back in range(1, forecast.memory + 1) if lost.any() else ():
        inside = rows - back >= begins
        ever[inside] |= lost[rows[inside] - back]
    waits = 2 * ever.sum(axis=1) <= len(forecast.tags)
    is_lost = np.where(waits[:, None], ever, now)
    if lost.any() and forecast.noise.size and forecast.kind != "mean":
        looked_at = now
        if forecast.kind == "lags":
            looked_at = np.zeros_like(now)
            for back in range(1, len(forecast.weights) + 1):
                looked_at |= lost[rows - back]
        is_lost |= uncertain_residuals(looked_at, forecast)
    return np.asarray(is_lost)


def residuals_of(
    rows: Floats,
    forecast: Any,
    step_s: float,
    breaks: Iterable[int] = (),
    before: Any = None,
) -> tuple[Floats, Ints, Ints]:
    """Return residuals of telemetry, the row of each, and where runs of them begin."""
    rows = np.asarray(rows, np.float64)
    if rows.ndim != 2 or rows.shape[1] != len(forecast.tags):
        raise ValueError(f"Rows must have the {len(forecast.tags)} tags.")
    cuts = np.array(sorted({0, *(int(row) for row in breaks)}), np.int64)
    given = measured(rows, cuts, forecast, step_s, before)
    kept = forecast.kept
    values = (given.values[:, kept] - forecast.offset[kept]) / forecast.scale[kept]
    lost = given.lost[:, kept]
    if lost.any() and forecast.covariance.size:
        values = expected_of_others(values, lost, forecast)
    every = np.arange(len(values))
    begins = begin_of_runs(len(values), given.breaks)
    chosen = every[every - begins >= forecast.looks_at - 1]
    errors = forecast_errors(values, chosen, forecast)
    errors[lost_residuals(given, chosen, forecast)] = np.nan
    starts = np.flatnonzero(np.diff(chosen, prepend=-2) != 1)
    starts = np.union1d(starts, np.searchsorted(chosen, given.breaks))
    return errors, given.place[chosen], starts[starts < len(chosen)]


# --- A rule from its file -------------------------------------------------------------


# Arrays of a forecast in rule.json.
FORECAST_NUMBERS = (
    *("offset", "scale", "means", "hold_s", "mean", "unit", "intercept"),
    *("weights", "loadings", "covariance", "noise"),
)


class Numbers(dict[str, Any]):
    """Numbers of a rule, a view or a member by their names in rule.json."""

    def __getattr__(self, name: str) -> Any:
        """Return a number as an attribute."""
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def read(path: str | Path | None = None) -> Numbers:
    """Return the numbers of a rule; by default of the rule.json beside this file."""
    place = Path(__file__).with_name("rule.json") if path is None else Path(path)
    values = json.loads(place.read_text(encoding="utf-8"), object_hook=Numbers)
    digest = values.pop("digest", "")
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    if hashlib.sha256(text.encode()).hexdigest() != digest:
        raise ValueError(f"{place}: was changed since it was written.")
    rule: Numbers = values["rule"]
    rule.setdefault("night", 0)
    for view in rule.views:
        for key in ("mean", "weights"):
            view[key] = np.array(view[key], np.float64)
    for member in rule.members:
        for key in ("centre", "allowance", "levels"):
            member[key] = np.array(member[key], np.float64)
    rule["forecast"] = forecast = values.get("forecast")
    for key in (*FORECAST_NUMBERS, "kept") if forecast else ():
        kind = np.int64 if key == "kept" else np.float64
        # Files of earlier versions lack some.
        forecast[key] = np.array(forecast.get(key, ()), kind)
    return rule


def forecast_of(rule: Any) -> Any:
    """Return the forecast of a rule; raise if it has none."""
    if rule.forecast is None:
        raise ValueError("The rule holds no forecast: give residuals.")
    return rule.forecast


class LiveTelemetry:
    """A rule that takes telemetry, one row after the other.

    Parameters
    ----------
    rule : Numbers, optional
        What `read` returns; it holds a forecast.
    """

    def __init__(self, rule: Numbers | None = None) -> None:
        self.live = Live(rule)
        self.forecast = forecast_of(self.live.rule)
        hold = int(self.forecast.hold_s.max() / (self.live.rule.step_s or 1.0)) + 1
        # Rows that say what is held, which rows of a residual lack tags, and who waits.
        self.most = max(hold, 1) + 2 * self.forecast.looks_at + self.forecast.memory
        self.restart()

    def restart(self) -> None:
        """Forget all earlier rows, as after a break."""
        self.rows = np.empty((0, len(self.forecast.tags)))
        self.last = np.full(len(self.forecast.tags), np.nan)
        self.begins = True

    def update(self, row: Sequence[float], after_break: bool = False) -> bool:
        """Return whether the rule is in alarm after one more row; nan: not usable."""
        if after_break:
            self.restart()
        values = np.asarray(row, np.float64).reshape(1, -1)
        self.rows = np.concatenate([self.rows, values])
        if len(self.rows) > self.most:
            first, self.rows = self.rows[0], self.rows[1:]
            known = np.isfinite(first)
            self.last = np.where(known, first, self.last)
            if 2 * np.count_nonzero(known) <= len(known):
                self.last = np.full(len(known), np.nan)  # perhaps an outage
        step_s = self.live.rule.step_s or 1.0
        found, place, _ = residuals_of(
            self.rows, self.forecast, step_s, before=self.last
        )
        if not len(place) or place[-1] != len(self.rows) - 1:
            self.begins = True
            return False
        in_alarm = self.live.update(found[-1], after_break=self.begins)
        self.begins = False
        return in_alarm


class Live(RuleSteps):
    """A rule that takes one row, or some, after the other.

    Parameters
    ----------
    rule : Numbers, optional
        What `read` returns.
    """

    def __init__(self, rule: Numbers | None = None) -> None:
        super().__init__(read() if rule is None else rule)

    def update(
        self, row: Sequence[float], after_break: bool = False, score: Any = None
    ) -> bool:
        """Return whether the rule is in alarm after one more row."""
        if after_break:
            self.restart()
        one = None if score is None else [score]
        return self.advance(np.asarray(row, np.float64).reshape(1, -1), one)[1][0]

    def advance(self, rows: Floats, score: Any = None) -> tuple[Floats, list[bool]]:
        """Return each member over its limit, and whether the rule is in alarm."""
        rows = np.asarray(rows, np.float64)
        n_channels = len(self.rule.channels)
        if rows.ndim != 2 or rows.shape[1] != n_channels:
            raise ValueError(f"Rows must have {n_channels} channels.")
        if score is None and any(m.view == "score" for m in self.rule.members):
            raise ValueError("The rule reads the detector's own score.")
        if np.isinf(rows).any() or np.isnan(rows).all(axis=1).any():
            raise ValueError("A row has no value at all, or an infinite one.")
        decision = self.judge(self.scores(rows, score))
        return decision.trace.T, decision.in_alarm.tolist()


def run(
    rows: Any,
    breaks: Iterable[int] = (),
    score: Any = None,
    rule: Any = None,
    anew: Iterable[int] = (),
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return the largest member over its limit, and which rows are in alarm."""
    live = Live(rule)
    rows = np.asarray(rows, np.float64)
    cuts, late = sorted({0, len(rows), *(int(row) for row in breaks)}), {*anew}
    trace, flags = [np.empty(0)], []
    for first, stop in pairwise(cuts):
        live.restart()
        if first in late:
            live.begin_anew()
        for at in range(first, stop, AT_ONCE):
            part = slice(at, min(at + AT_ONCE, stop))
            own = None if score is None else np.asarray(score)[part]
            members, in_alarm = live.advance(rows[part], own)
            trace.append(members.max(axis=1))
            flags += in_alarm
    return np.concatenate(trace), np.array(flags, np.bool_)


def alarms(
    rows: Any, breaks: Iterable[int] = (), score: Any = None, rule: Any = None
) -> npt.NDArray[np.bool_]:
    """Return which rows are in alarm.

    Parameters
    ----------
    rows : array of shape (n_rows, n_channels)
        Residuals of the rule's channels, in their order; nan where a channel has no
        usable value.
    breaks : iterable of int
        Rows at which a new recording begins.
    score : array of shape (n_rows,), optional
        The detector's own score, if the rule reads it.
    rule : Numbers, optional
        What `read` returns.
    """
    return run(rows, breaks, score, rule)[1]


def run_telemetry(
    rows: Any, breaks: Iterable[int] = (), rule: Any = None, anew: Iterable[int] = ()
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return the largest member over its limit, and which rows are in alarm.

    nan, and no alarm, where a row has no residual. Parameters as of
    `alarms_of_telemetry`.
    """
    rule = read() if rule is None else rule
    rows = np.asarray(rows, np.float64)
    step_s = rule.step_s or 1.0
    residuals, place, cuts = residuals_of(rows, forecast_of(rule), step_s, breaks)
    trace, in_alarm = np.full(len(rows), np.nan), np.zeros(len(rows), np.bool_)
    # The first residual after each long gap.
    late = np.searchsorted(place, np.fromiter(anew, np.int64)).tolist()
    trace[place], in_alarm[place] = run(residuals, cuts, rule=rule, anew=late)
    return trace, in_alarm


def alarms_of_telemetry(
    rows: Any, breaks: Iterable[int] = (), rule: Any = None
) -> npt.NDArray[np.bool_]:
    """Return which rows of telemetry are in alarm.

    Parameters
    ----------
    rows : array of shape (n_rows, n_tags)
        Readings of the forecast's tags, in their order; nan where one is not usable.
    breaks : iterable of int
        Rows at which a new recording begins.
    rule : Numbers, optional
        What `read` returns.
    """
    return run_telemetry(rows, breaks, rule)[1]


def long_gaps(time: Floats) -> Ints:
    """Return the rows before which there are none for longer than `LONG_GAP_S`."""
    return np.flatnonzero(np.diff(time) > LONG_GAP_S) + 1


def seconds(cell: str) -> float:
    """Return a time stamp as seconds."""
    try:
        return float(cell)
    except ValueError:
        moment = datetime.fromisoformat(cell)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def main(path: str, is_telemetry: bool = False) -> None:
    """Print the alarms of a table of residuals, or of telemetry, as CSV."""
    rule = read()
    with open(path, newline="", encoding="utf-8-sig") as file:
        table = list(csv.DictReader(file))
    names = [channel["name"] for channel in rule["channels"]]
    if is_telemetry:
        names = forecast_of(rule).tags
    missing = [name for name in names if table and name not in table[0]]
    if missing or not table:
        raise SystemExit(f"{path}: has no column {', '.join(missing)}, or no row.")
    rows = np.array([[float(row[name] or "nan") for name in names] for row in table])
    score = [float(row["score"]) for row in table] if "score" in table[0] else None
    stamps = [row.get("time", str(k)) for k, row in enumerate(table)]
    breaks = anew = np.zeros(0, np.int64)
    if "time" in table[0] and rule["step_s"]:
        time = np.array([seconds(stamp) for stamp in stamps])
        is_gap = (np.diff(time) > GAP_FACTOR * rule["step_s"]) | (np.diff(time) < 0)
        breaks, anew = np.flatnonzero(is_gap) + 1, long_gaps(time)
    if is_telemetry:
        trace, in_alarm = run_telemetry(rows, breaks, rule, anew)
    else:
        trace, in_alarm = run(rows, breaks, score, rule, anew)
    edges = np.diff(np.concatenate([[0], in_alarm.astype(np.int8), [0]]))
    write = csv.writer(sys.stdout, lineterminator="\n").writerow
    write(("start", "end", "rows", "peak"))
    ends = (np.flatnonzero(edges == sign) for sign in (1, -1))
    for start, stop in zip(*ends, strict=True):
        peak = np.nanmax(trace[start:stop]) / rule["limit"]
        write((stamps[start], stamps[stop - 1], stop - start, f"{peak:.4g}"))


if __name__ == "__main__":
    main(sys.argv[-1], "--telemetry" in sys.argv[1:-1])
