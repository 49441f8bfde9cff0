"""An alarm rule that needs numpy alone: the same alarms as Sightline, to the last bit.

Keep this file beside its ``rule.json``. From a shell::

    python rule.py residuals.csv > alarms.csv

The table has one column for each channel of the rule, in any order, perhaps a column
``time`` (seconds, or ISO 8601) and, if the rule reads it, a column ``score``. From
Python::

    from rule import Live, alarms

    in_alarm = alarms(rows)              # rows of shape (n, channels)
    live = Live()
    live.update(row)                     # True while an alarm runs

Everything that an alarm rule computes stands here once, in plain numpy; within
Sightline the loops are compiled, and give the same bits.
"""

import csv
import hashlib
import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

# Gaps of more than this many steps start a new recording.
GAP_FACTOR = 1.5
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
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


def join_members(
    exceeds: Bools, off: int, unit: int, state: Ints, out: Bools, shelved: Bools
) -> None:
    """Write where any member that is not shelved exceeds, and who is shelved.

    A member that exceeds after `unit` rows of alarm without pause is shelved; it comes
    back after `unit` rows below its limit. `state[m]` holds the rows since its alarm
    began (0: no alarm), the rows since it last exceeded, and whether it is shelved.
    With `unit` 0 none is ever shelved.
    """
    members = state.tolist()
    for t, row in enumerate(exceeds.tolist()):
        for m, above in enumerate(row):
            age, since, is_shelved = members[m]
            since = 0 if above else since + 1
            if age > 0 and since > off:
                age = 0
            elif age > 0 or above:
                age += 1
            if is_shelved and since >= unit:
                is_shelved, age = 0, 0
            elif unit > 0 and age > unit and above:
                is_shelved = 1
            members[m] = age, since, is_shelved
            shelved[t, m] = is_shelved
        out[t] = any(above and not m[2] for above, m in zip(row, members, strict=True))
    state[:] = members


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
    join_members=join_members,
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


class RuleSteps:
    """What a rule does with rows, one or some after the other; its memory moves on.

    Parameters
    ----------
    rule : Rule
        Its channels, views, members, limit and delays.

    Attributes
    ----------
    memory : list of array
        Memory of each member.
    members : array of int, shape (n_members, 3)
        Age of each member's alarm, rows since its last exceedance, whether shelved.
    latch : array of int, shape (3,)
        Last exceedances as bits, rows since the last one, whether an alarm runs.
    """

    loops: Any = PLAIN

    def __init__(self, rule: Any) -> None:
        self.rule = rule
        self.views = {view.kind: view for view in rule.views}
        self.restart()

    def restart(self) -> None:
        """Forget all earlier rows, as after a break."""
        views = [self.views.get(member.view) for member in self.rule.members]
        sizes = [1 if view is None else len(view.order) for view in views]
        self.memory = [np.zeros((2, size)) for size in sizes]
        self.members = np.zeros((len(sizes), 3), np.int64)
        self.latch = np.zeros(3, np.int64)

    def look(self, rows: Any, view: Any) -> Floats:
        """Return a view of rows."""
        return view_of(rows, view)

    def scores(self, rows: Any, score: Any = None) -> tuple[Floats, Ints]:
        """Return each member over its limit in each row, and whose score it is."""
        members = self.rule.members
        seen = {kind: self.look(rows, view) for kind, view in self.views.items()}
        if score is not None:
            seen["score"] = np.asarray(score, np.float64)[:, None]
        trace = np.empty((len(rows), len(members)))
        units = np.empty((len(rows), len(members)), np.int64)
        for m, member in enumerate(members):
            view = self.views.get(member.view)
            values = unit_values(
                member,
                seen[member.view],
                self.memory[m],
                None if view is None else view.bounds,
                self.loops,
            )
            column, units[:, m] = member_scores(member, values, self.loops)
            np.divide(column, member.limit, out=trace[:, m])
        return trace, units

    def flags(self, trace: Floats) -> tuple[Bools, Bools, Bools, Bools]:
        """Return which members exceed and are shelved, any of them, and the alarm."""
        delays = self.rule.delays
        # In one memory order, so that a loop is compiled once.
        exceeds = np.ascontiguousarray(trace > self.rule.limit)
        shelved = np.empty_like(exceeds)
        joint, in_alarm = np.empty((2, len(trace)), np.bool_)
        unit = delays.unit if self.rule.shelves else 0
        self.loops.join_members(exceeds, delays.off, unit, self.members, joint, shelved)
        self.loops.latch(
            joint, delays.on, delays.within, delays.off, self.latch, in_alarm
        )
        return exceeds, shelved, joint, in_alarm


# --- A rule from its file -------------------------------------------------------------


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
    for view in rule.views:
        for key in ("mean", "weights"):
            view[key] = np.array(view[key], np.float64)
    for member in rule.members:
        for key in ("centre", "allowance", "levels"):
            member[key] = np.array(member[key], np.float64)
    return rule


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
        trace, _ = self.scores(rows, score)
        return trace, self.flags(trace)[-1].tolist()


def run(
    rows: Any, breaks: Iterable[int] = (), score: Any = None, rule: Any = None
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return the largest member over its limit, and which rows are in alarm."""
    live = Live(rule)
    rows = np.asarray(rows, np.float64)
    cuts = sorted({0, len(rows), *(int(row) for row in breaks)})
    trace, flags = [np.empty(0)], []
    for first, stop in pairwise(cuts):
        live.restart()
        own = None if score is None else np.asarray(score)[first:stop]
        members, in_alarm = live.advance(rows[first:stop], own)
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
        Residuals of the rule's channels, in their order.
    breaks : iterable of int
        Rows at which a new recording begins.
    score : array of shape (n_rows,), optional
        The detector's own score, if the rule reads it.
    rule : Numbers, optional
        What `read` returns.
    """
    return run(rows, breaks, score, rule)[1]


def seconds(cell: str) -> float:
    """Return a time stamp as seconds."""
    try:
        return float(cell)
    except ValueError:
        moment = datetime.fromisoformat(cell)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def main(path: str) -> None:
    """Print the alarms of a table of residuals as CSV."""
    rule = read()
    with open(path, newline="", encoding="utf-8-sig") as file:
        table = list(csv.DictReader(file))
    names = [channel["name"] for channel in rule["channels"]]
    missing = [name for name in names if table and name not in table[0]]
    if missing or not table:
        raise SystemExit(f"{path}: has no column {', '.join(missing)}, or no row.")
    rows = np.array([[float(row[name]) for name in names] for row in table])
    score = [float(row["score"]) for row in table] if "score" in table[0] else None
    stamps = [row.get("time", str(k)) for k, row in enumerate(table)]
    breaks = np.zeros(1, np.int64)
    if "time" in table[0] and rule["step_s"]:
        steps = np.diff([seconds(stamp) for stamp in stamps])
        is_gap = (steps > GAP_FACTOR * rule["step_s"]) | (steps < 0)
        breaks = np.flatnonzero(is_gap) + 1
    trace, in_alarm = run(rows, breaks, score, rule)
    edges = np.diff(np.concatenate([[0], in_alarm.astype(np.int8), [0]]))
    write = csv.writer(sys.stdout, lineterminator="\n").writerow
    write(("start", "end", "rows", "peak"))
    ends = (np.flatnonzero(edges == sign) for sign in (1, -1))
    for start, stop in zip(*ends, strict=True):
        peak = trace[start:stop].max() / rule["limit"]
        write((stamps[start], stamps[stop - 1], stop - start, f"{peak:.4g}"))


if __name__ == "__main__":
    main(sys.argv[1])
