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
"""

import csv
import hashlib
import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

# Gaps of more than this many steps start a new recording.
GAP_FACTOR = 1.5
Floats = npt.NDArray[np.float64]
# Of one rule, view or member, by their names in rule.json.
Numbers = dict[str, Any]


def read(path: str | Path | None = None) -> Numbers:
    """Return the numbers of a rule; by default of the rule.json beside this file."""
    place = Path(__file__).with_name("rule.json") if path is None else Path(path)
    values: Numbers = json.loads(place.read_text(encoding="utf-8"))
    digest = values.pop("digest", "")
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    if hashlib.sha256(text.encode()).hexdigest() != digest:
        raise ValueError(f"{place}: was changed since it was written.")
    rule: Numbers = values["rule"]
    for view in rule["views"]:
        for key in ("mean", "weights"):
            view[key] = np.array(view[key], np.float64)
    for member in rule["members"]:
        for key in ("centre", "allowance", "levels"):
            member[key] = np.array(member[key], np.float64)
    return rule


class Live:
    """A rule that takes one row, or some, after the other.

    Parameters
    ----------
    rule : dict, optional
        What `read` returns.
    """

    def __init__(self, rule: Numbers | None = None) -> None:
        self.rule = read() if rule is None else rule
        self.views = {view["kind"]: view for view in self.rule["views"]}
        self.restart()

    def restart(self) -> None:
        """Forget all earlier rows, as after a break."""
        members = self.rule["members"]
        sizes = [
            len(self.views[m["view"]]["order"]) if m["view"] in self.views else 1
            for m in members
        ]
        self.memory = [np.zeros((2, size)) for size in sizes]
        self.members = [[0, 0, False] for _ in members]
        self.recent: list[bool] = []
        self.quiet, self.is_on = 0, False

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
        trace = self.scores(np.asarray(rows, np.float64), score)
        exceeds = (trace > self.rule["limit"]).tolist()
        return trace, [self._latched(self._joined(row)) for row in exceeds]

    def scores(self, rows: Floats, score: Any = None) -> Floats:
        """Return each member over its limit in each row."""
        rule = self.rule
        if rows.ndim != 2 or rows.shape[1] != len(rule["channels"]):
            raise ValueError(f"Rows must have {len(rule['channels'])} channels.")
        seen = {kind: view_of(rows, view) for kind, view in self.views.items()}
        if score is not None:
            seen["score"] = np.asarray(score, np.float64)[:, None]
        columns = [
            self._score(seen, member, state)
            for member, state in zip(rule["members"], self.memory, strict=True)
        ]
        return np.stack(columns, axis=1)

    def _score(self, seen: Any, member: Any, state: Floats) -> Floats:
        """Return one member over its limit in each row; its memory moves on."""
        if member["view"] not in seen:
            raise ValueError("The rule reads the detector's own score.")
        values, kind = seen[member["view"]], member["memory"]
        weight = 2 / (member["span"] + 1)
        if kind == "average":
            values = averaged(values, member["centre"], weight, state[0])
            if member["is_one_sided"]:
                values = np.maximum(values, 0.0)
        elif kind == "cusum":
            values = accumulated(values, member["centre"], member["allowance"], state)
        elif member["view"] == "score":
            values = np.maximum(values - member["centre"], 0.0)
        view = self.views.get(member["view"])
        if view is not None and view["bounds"] is not None:
            values = energies(values, view["bounds"])
        if kind in ("log-average", "quiet"):
            values = np.log(np.maximum(values, np.finfo(np.float64).tiny))
            past = state[0, : values.shape[1]]
            values = averaged(values, member["centre"], weight, past)
            values = np.maximum(-values if kind == "quiet" else values, 0.0)
        ratios = np.abs(values) / member["levels"]
        if not member["largest"]:
            return np.asarray(ratios.max(axis=1) / member["limit"])
        ratios = -np.sort(-ratios, axis=1)
        total = np.zeros(len(ratios))
        for k in range(min(member["largest"], ratios.shape[1])):
            total += ratios[:, k] * ratios[:, k]
        return np.asarray(0.5 * total / member["limit"])

    def _joined(self, exceeds: Iterable[bool]) -> bool:
        """Return whether a member exceeds that is not shelved."""
        delays, shelves = self.rule["delays"], self.rule["shelves"]
        off, unit = delays["off"], delays["unit"] if shelves else 0
        found = False
        for state, above in zip(self.members, exceeds, strict=True):
            age, quiet, shelved = state
            quiet = 0 if above else quiet + 1
            if age > 0 and quiet > off:
                age = 0
            elif age > 0 or above:
                age += 1
            if shelved and quiet >= unit:
                shelved, age = False, 0
            elif unit > 0 and age > unit and above:
                shelved = True
            found = found or (above and not shelved)
            state[:] = age, quiet, shelved
        return found

    def _latched(self, exceeds: bool) -> bool:
        """Return whether an alarm runs after the on-delay and the off-delay."""
        delays = self.rule["delays"]
        self.recent = [*self.recent, exceeds][-delays["within"] :]
        self.quiet = 0 if exceeds else self.quiet + 1
        if self.is_on:
            self.is_on = self.quiet <= delays["off"]
        elif exceeds:
            self.is_on = sum(self.recent) >= delays["on"]
        return self.is_on


def view_of(rows: Floats, view: Numbers) -> Floats:
    """Return a linear view of rows; sums run over channels in one fixed order."""
    out = np.zeros((len(rows), len(view["order"])))
    for j, channel in enumerate(view["order"]):
        first, stop = view["first"][j], view["stop"][j]
        y = rows[:, channel] - view["mean"][channel]
        out[:, first:stop] += y[:, None] * view["weights"][j, first:stop]
    return np.maximum(out, 0.0) if view["is_one_sided"] else out


def averaged(values: Floats, centre: Floats, weight: float, state: Floats) -> Floats:
    """Return exponentially weighted averages of rows about a centre."""
    out = np.empty_like(values)
    for t, row in enumerate(values):
        state += weight * ((row - centre) - state)
        out[t] = state
    return out


def accumulated(
    values: Floats, centre: Floats, allowance: Floats, state: Floats
) -> Floats:
    """Return the larger of two cumulative sums of rows about a centre."""
    out = np.empty_like(values)
    for t, row in enumerate(values):
        y = row - centre
        state[0] = np.maximum(0.0, state[0] + y - allowance)
        state[1] = np.maximum(0.0, state[1] - y - allowance)
        out[t] = np.maximum(state[0], state[1])
    return out


def energies(values: Floats, bounds: Sequence[int]) -> Floats:
    """Return half the sum of squares of the columns of each unit."""
    out = np.zeros((len(values), len(bounds) - 1))
    for g in range(len(bounds) - 1):
        for j in range(bounds[g], bounds[g + 1]):
            out[:, g] += values[:, j] * values[:, j]
    return 0.5 * out


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
    rule : dict, optional
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
