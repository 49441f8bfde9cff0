"""The attacker who knows detector, rule and limit, and stays just below it.

For a linear detector the largest deviation that no row shows is the solution of a
convex problem: maximise the mean deviation such that every row stays below the limit.
A member that looks at the largest deviation gives linear constraints, one that looks at
an energy quadratic ones; both are met by cuts, added where the last solution violates
them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from sightline.blindspots.result import KnowingAttacker
from sightline.blindspots.rule_view import MemberView, RuleView
from sightline.blindspots.shapes import TagFacts
from sightline.data.arrays import Floats
from sightline.rules.rule import Memory

# Rows may exceed their limit by this share when the search ends.
SLACK: Final = 1e-4
_MOST_ROUNDS: Final = 200
# A tag whose lasting response is below this share of its first one reads anything.
_NO_RESPONSE: Final = 1e-6


@dataclass(frozen=True, eq=False)
class _Constraint:
    """One member over the rows of one place: ``f(t) = base(t) + sum_s G(t - s) d(s)``.

    Parameters
    ----------
    base : array of shape (n_rows, q)
        Without deviation.
    response : array of shape (n_rows, q)
        G: what a deviation of 1 in one row does now, a row later, ...
    view : MemberView
        The member, with its limits.
    """

    base: Floats
    response: Floats
    view: MemberView

    def seen(self, deviation: Floats) -> Floats:
        """Return what the member looks at, shape (n_rows, q)."""
        n = len(self.base)
        out = self.base.copy()
        for lag in range(min(n, len(self.response))):
            out[lag:] += deviation[: n - lag, None] * self.response[lag]
        return out

    def cuts(self, deviation: Floats) -> tuple[list[Floats], list[float], float]:
        """Return linear constraints that the deviation violates, and by how much.

        Each is ``row @ d <= bound``; the last value is the largest ratio of what the
        member looks at to its limit.
        """
        seen, n = self.seen(deviation), len(self.base)
        view, rows, bounds = self.view, [], []
        if view.bounds is None:
            ratio = np.abs(seen) / view.limits
            worst = ratio.argmax(axis=1)
            peak = ratio.max(axis=1)
            for t in np.flatnonzero(peak > 1 + SLACK / 2).tolist():
                j = worst[t]
                sign = np.sign(seen[t, j])
                rows.append(sign * self._row(t, self.response[:, j], n))
                bounds.append(float(view.limits[j] - sign * self.base[t, j]))
            return rows, bounds, float(peak.max(initial=0.0))
        largest = 0.0
        for g, limit in enumerate(view.limits):
            part = slice(view.bounds[g], view.bounds[g + 1])
            energy = 0.5 * np.square(seen[:, part]).sum(axis=1)
            largest = max(largest, float(np.sqrt((energy / limit).max(initial=0.0))))
            for t in np.flatnonzero(energy > limit * (1 + SLACK / 2)).tolist():
                # The tangent of the energy at the point where the ray from the twin's
                # row meets the limit: it cuts deeper than one at the point itself.
                at = _on_limit(self.base[t, part], seen[t, part], float(limit))
                slope = sum(
                    (
                        self._row(t, self.response[:, j], n) * at[k]
                        for k, j in enumerate(range(part.start, part.stop))
                    ),
                    start=np.zeros(n),
                )
                rows.append(slope)
                bounds.append(float(at @ (at - self.base[t, part])))
        return rows, bounds, largest

    @staticmethod
    def _row(t: int, response: Floats, n: int) -> Floats:
        """Return how row t depends on the deviation of each row."""
        row = np.zeros(n)
        reach = min(t + 1, len(response))
        row[t - reach + 1 : t + 1] = response[:reach][::-1]
        return row


def _on_limit(inside: Floats, outside: Floats, limit: float) -> Floats:
    """Return the point between two at which half the squared length is the limit."""
    step = outside - inside
    a, b = float(step @ step), float(inside @ step)
    c = float(inside @ inside) - 2 * limit
    root = np.sqrt(max(b * b - a * c, 0.0))
    return np.asarray(inside + (root - b) / a * step)


def _constraints(view: RuleView, taps: Floats, place: int) -> list[_Constraint]:
    """Return the members of a rule at one place."""
    n = view.grid.rows
    found = []
    for one in view.members:
        response = np.zeros((n, one.weights.shape[1]))
        reach = min(n, len(taps))
        response[:reach] = taps[:reach] @ one.weights
        if one.member.memory is Memory.AVERAGE:
            from scipy.signal import lfilter

            weight = one.member.weight
            response = lfilter([weight], [1.0, weight - 1.0], response, axis=0)
        found.append(_Constraint(one.base[place, :n], response, one))
    return found


def largest_deviation(
    view: RuleView, taps: Floats, place: int, most: float
) -> Floats | None:
    """Return the deviation of each row with the largest mean that no row shows.

    Parameters
    ----------
    view : RuleView
        A rule with linear memory, for a duration that is judged whole.
    taps : array of shape (memory + 1, n_channels)
        Response of the detector to the tag.
    place : int
        Which place.
    most : float
        The deviation is kept within plus and minus this.

    Returns
    -------
    array of shape (n_rows,), optional
        None if the twin itself is over a limit there.
    """
    from scipy.optimize import linprog

    members = _constraints(view, taps, place)
    n = view.grid.rows
    if any(one.cuts(np.zeros(n))[2] >= 1 for one in members):
        return None
    rows: list[Floats] = []
    bounds: list[float] = []
    deviation = np.full(n, most)
    for _ in range(_MOST_ROUNDS):
        worst = 0.0
        for one in members:
            new_rows, new_bounds, ratio = one.cuts(deviation)
            rows += new_rows
            bounds += new_bounds
            worst = max(worst, ratio)
        if worst <= 1 + SLACK:
            break
        # In units of `most`, so that the solver sees numbers near 1.
        scale = np.maximum(np.abs(rows).max(axis=1), 1e-300)
        solved = linprog(
            -np.ones(n) / n,
            A_ub=np.asarray(rows) / scale[:, None],
            b_ub=np.asarray(bounds) / scale / most,
            bounds=(-1.0, 1.0),
            method="highs",
        )
        if solved.x is None:
            return None
        deviation = solved.x * most
    return _pulled_in(members, deviation)


def _pulled_in(members: Sequence[_Constraint], deviation: Floats) -> Floats:
    """Return the deviation scaled so that no row is over its limit."""
    low, high = 0.0, 1.0
    if all(one.cuts(deviation)[2] <= 1 for one in members):
        return deviation
    for _ in range(40):
        middle = 0.5 * (low + high)
        if all(one.cuts(middle * deviation)[2] <= 1 for one in members):
            low = middle
        else:
            high = middle
    return low * deviation


def held_for_good(view: RuleView, taps: Floats) -> float | None:
    """Return the deviation that can be held for good if it is approached slowly.

    ``sqrt(2 (limit - median energy) / h'Ph)`` with h the sum of the responses; of a
    largest deviation ``(limit - median) / |h|``. The least over members and units; None
    where the detector forgets the deviation, so that any can be held.
    """
    total, least = taps.sum(axis=0), np.inf
    for one in view.members:
        moved = total @ one.weights
        first = np.abs(taps @ one.weights).max(initial=0.0)
        if np.abs(moved).max(initial=0.0) <= _NO_RESPONSE * first:
            continue
        base = one.base.reshape(-1, one.base.shape[2])
        if one.bounds is None:
            typical = np.median(np.abs(base), axis=0)
            with np.errstate(divide="ignore"):
                sizes = np.maximum(one.limits - typical, 0.0) / np.abs(moved)
            least = min(least, float(sizes.min()))
            continue
        for g, limit in enumerate(one.limits):
            part = slice(one.bounds[g], one.bounds[g + 1])
            squares = float(np.square(moved[part]).sum())
            energy = float(np.median(0.5 * np.square(base[:, part]).sum(axis=1)))
            if squares > 0:
                room = max(float(limit) - energy, 0.0)
                least = min(least, float(np.sqrt(2 * room / squares)))
    return least if np.isfinite(least) else None


def knowing_attacker(
    view: RuleView,
    taps: Floats,
    tag: TagFacts,
    places: Sequence[int],
    *,
    step_s: float,
    most: float,
    injected: float | None = None,
) -> KnowingAttacker | None:
    """Return how far an attacker who knows everything can push one tag, unseen.

    Parameters
    ----------
    view : RuleView
        The rule, for the duration.
    taps : array of shape (memory + 1, n_channels)
        Response of the detector to the tag.
    tag : TagFacts
        The tag.
    places : sequence of int
        Which places are solved; the median is reported.
    step_s : float
        Seconds a row.
    most : float
        Largest deviation.
    injected : float, optional
        50% size of a plain step.
    """
    means = []
    for place in places:
        found = [
            largest_deviation(view, sign * taps, place, most) for sign in (1.0, -1.0)
        ]
        known = [float(one.mean()) for one in found if one is not None]
        if known:
            means.append(max(known))
    if not means:
        return None
    mean = float(np.median(means))
    return KnowingAttacker(
        tag=tag.name,
        rule=view.rule.name,
        unit=tag.unit or "",
        duration_s=view.grid.rows * step_s,
        held=held_for_good(view, taps),
        mean=mean,
        of_range=mean / tag.range,
        injected=injected,
    )
