"""Differences of each two detectors of a testbed, from the same draws for both."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from sightline.comparison.clock import Clock, Drawing, timed_results
from sightline.comparison.permutation import (
    STAR_LEVEL,
    Exchanges,
    LargestDifferences,
    PairedValues,
    critical_distance,
    joined_groups,
    ranks_of,
)
from sightline.comparison.runs import DetectorRuns, TestbedRuns
from sightline.data.arrays import Bools, Floats
from sightline.evaluation.result import Interval
from sightline.figures import FIGURES, Figure
from sightline.metrics.drawing import DrawnStream, Value
from sightline.metrics.intervals import (
    MEANS,
    Ends,
    WeightedMean,
    Weighting,
    drift_ends,
    ends_of,
    interval_of,
    weights_of,
)
from sightline.text import names

# Figures whose difference between two detectors is measured.
PAIRED_FIGURES = (
    Figure.ROC_AUC,
    Figure.PAUC_1,
    Figure.PAUC_5,
    Figure.AVERAGE_PRECISION,
    Figure.MEAN_SEGMENT_AUC,
    Figure.P_FULL,
    Figure.F1,
    Figure.PRECISION,
    Figure.RECALL,
    Figure.HITS,
)
# From this many seeds on their spread is part of an interval.
FEWEST_SEEDS = 3
# With fewer attacks no exchange within attacks is rare enough.
FEWEST_ATTACKS = 6
# "Could have been seen": with a star in four of five such studies.
_POWER_SDS = 0.84
# Beyond this many attacks a number says no more than "very many".
MOST_NEEDED = 10_000


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A figure of the first detector minus that of the second, on shared attacks.

    Parameters
    ----------
    testbed : str
        Name of the testbed.
    detectors : tuple of str
        Labels of the first and the second detector.
    figure : str
        Name of the figure; `hits` is the share of attacks with an alarm.
    difference : float
        First minus second, means over seeds. 0 if they do not differ.
    interval : tuple, optional
        95% interval of the difference over all attacks of these kinds: the same draws
        for both, and one more attack that only one of both sees.
    p : float, optional
        Probability of so large a difference if the two could be exchanged within each
        attack. None for figures that are no mean over attacks (AP, F1, precision).
    p_adjusted : float, optional
        The same for the largest difference of all pairs of the testbed in this figure,
        so that it holds for all of them together.
    n_attacks : int
        Attacks that both detectors have.
    better, worse, same : int, optional
        Attacks on which the first does better, worse, and the same.
    n_alone : tuple of int
        Attacks that only the first, and only the second detector has.
    seeds_in_interval : bool
        Whether the spread over seeds is part of the interval; it needs three seeds of
        both.
    detectable : float, optional
        The smallest difference that four of five such studies would mark with a star.
    n_needed : int, optional
        About how many such attacks it takes to mark this difference; None if it is
        marked, or 0.
    power : str
        Both in one sentence.
    """

    testbed: str
    detectors: tuple[str, str]
    figure: str
    difference: float
    interval: tuple[float, float] | None
    p: float | None
    p_adjusted: float | None
    n_attacks: int
    better: int | None
    worse: int | None
    same: int | None
    n_alone: tuple[int, int]
    seeds_in_interval: bool
    detectable: float | None
    n_needed: int | None
    power: str

    @property
    def has_star(self) -> bool:
        """Whether the two differ by more than chance, in view of all pairs."""
        return self.p_adjusted is not None and self.p_adjusted <= STAR_LEVEL


@dataclass(frozen=True, kw_only=True)
class MeanRanks:
    """Mean ranks of detectors over attacks, by the AUC of each attack.

    Parameters
    ----------
    testbed : str
        Name of the testbed.
    detectors : tuple of str
        Labels, the best first.
    ranks : tuple of float
        Mean rank of each over the attacks; 1 if it is the best on every attack.
    critical : float
        Detectors closer than this are not told apart.
    groups : tuple of tuple of str
        Largest groups of detectors that are not told apart.
    n_attacks : int
        Attacks that all detectors have.
    """

    testbed: str
    detectors: tuple[str, ...]
    ranks: tuple[float, ...]
    critical: float
    groups: tuple[tuple[str, ...], ...]
    n_attacks: int


class PairedTestbed:
    """All detectors of one testbed, drawn on one clock.

    Parameters
    ----------
    runs : TestbedRuns
        The detectors.
    n_replicates, seed : int
        Number of draws, and the seed that makes them reproducible.
    tick : callable
        Called after the draws of one result.
    """

    def __init__(
        self,
        runs: TestbedRuns,
        *,
        n_replicates: int,
        seed: int,
        tick: Callable[[], None],
    ) -> None:
        self.runs, self._n, self._seed, self._tick = runs, n_replicates, seed, tick
        self._unpaired: dict[str, list[str]] = {}

    @cached_property
    def _groups(self) -> list["_Compared"]:
        """The detectors with attacks, in groups that share a clock."""
        results = [r for r in self.runs.results if r.evaluation.segments]
        groups = []
        for timed in timed_results(results):
            clock = Clock.of(timed)
            detectors = [
                one
                for one in self.runs.detectors
                if all(result in clock.drawables for result in one.results)
            ]
            drawing = Drawing(
                clock,
                n=self._n,
                seed=self._seed,
                # Only the interval of a drift over seeds needs them.
                medians=any(len(one.results) > 1 for one in detectors),
                tick=self._tick,
            )
            groups.append(_Compared(self.runs.testbed, detectors, drawing, self._seed))
        return groups

    def _group_of(self, runs: DetectorRuns) -> "_Compared | None":
        return next((one for one in self._groups if runs in one.detectors), None)

    def differences(self) -> list[Difference]:
        """Return the differences of each two detectors in all `PAIRED_FIGURES`."""
        rows: dict[tuple[str, str], list[Difference]] = {}
        if len(self.runs.detectors) < 2:
            return []
        for row in (row for group in self._groups for row in group.differences()):
            rows.setdefault(row.detectors, []).append(row)
        found = []
        for a, b in combinations(self.runs.detectors, 2):
            pair = (a.label, b.label)
            if pair not in rows:
                self._unpaired.setdefault(self._reason(a, b), []).append(
                    f"{a.label} and {b.label}"
                )
            found += rows.get(pair, [])
        return found

    def _reason(self, a: DetectorRuns, b: DetectorRuns) -> str:
        """Return why two detectors are not compared."""
        without = [one.label for one in (a, b) if not one.evaluation.segments]
        if without:
            return (
                f"{names(without)} {'has' if len(without) == 1 else 'have'} no attack"
            )
        if self._group_of(a) is not self._group_of(b):
            n_a, n_b = (len(one.traces.labels) for one in (a, b))
            return (
                f"they have {n_a:,} and {n_b:,} test rows and not both have time stamps"
            )
        return "they have no attack in common by their time stamps"

    def ranks(self) -> list[MeanRanks]:
        """Return the mean ranks of detectors that share a clock and two attacks."""
        if len(self.runs.detectors) < 2:
            return []
        rows = (group.mean_ranks() for group in self._groups)
        return [row for row in rows if row is not None]

    def seeded_interval(self, runs: DetectorRuns, figure: str) -> "SeededInterval":
        """Return the interval of a figure's mean over seeds."""
        evaluations = [result.evaluation for result in runs.results]
        stored = (evaluations[0].intervals or {}).get(figure)
        if len(runs.results) == 1 or (group := self._group_of(runs)) is None:
            return SeededInterval(stored, False)
        drawing = group.drawing
        kept = _kept(drawing.clock, [runs])
        ends = _ends_over_seeds(runs, drawing, kept, None).get(figure)
        values = runs.values(figure)
        if ends is None or not values:
            return SeededInterval(None, False)
        scale = int(kept.sum()) if figure == Figure.HITS else 1
        low, high = FIGURES[figure].low, FIGURES[figure].high
        if figure == Figure.HITS:
            high = scale
        interval = interval_of(
            float(np.mean(values)),
            Ends(scale * ends.low, scale * ends.high),
            low=low,
            high=high,
        )
        if interval is None or len(values) < FEWEST_SEEDS:
            return SeededInterval(interval, False)
        spread = float(np.std(values, ddof=1)) ** 2
        wider = _widened(interval, float(np.mean(values)), spread, len(values))
        top = None if wider[1] is None else min(wider[1], high)
        return SeededInterval((max(wider[0], low), top), True)

    def notices(self) -> list[str]:
        """Return which detectors are not compared and why, and which attacks are one.

        One notice for each reason.
        """
        testbed = self.runs.testbed
        notices = [
            f"{testbed}: not compared are {'; '.join(pairs)}: {reason}."
            for reason, pairs in self._unpaired.items()
        ]
        for group in self._groups if len(self.runs.detectors) > 1 else ():
            joined = [" and ".join(ids) for ids in group.drawing.clock.joined]
            if joined:
                notices.append(
                    f"{testbed}: in differences of detectors, attacks "
                    f"{'; '.join(joined)} count as one, as a coarse row of some "
                    "detector joins them."
                )
        return notices


@dataclass(frozen=True)
class SeededInterval:
    """The interval of a mean over seeds, and whether it holds their spread."""

    interval: Interval | None
    seeds_in_interval: bool


class _Compared:
    """Detectors of one clock, compared with each other."""

    def __init__(
        self,
        testbed: str,
        detectors: Sequence[DetectorRuns],
        drawing: Drawing,
        seed: int,
    ) -> None:
        self.testbed, self.detectors, self.drawing = testbed, detectors, drawing
        self.has = np.array([_kept(drawing.clock, [one]) for one in detectors])
        self._seed = seed
        self._ends: dict[tuple[object, ...], dict[str, Ends]] = {}

    @property
    def exchanges(self) -> Exchanges:
        n_draws = len(self.drawing.draws) - 1
        return Exchanges.of(self.has, n_draws, self._seed)

    def differences(self) -> list[Difference]:
        """Return the differences of each two detectors."""
        pairs = [
            _Pair(self, i, j)
            for i, j in combinations(range(len(self.detectors)), 2)
            if (self.has[i] & self.has[j]).any()
        ]
        if not pairs:
            return []
        exchanges, rows = self.exchanges, []
        for figure in PAIRED_FIGURES:
            mean, largest = MEANS.get(figure), None
            paired: dict[tuple[int, int], PairedValues] = {}
            if mean is not None:
                paired = {
                    (pair.i, pair.j): made
                    for pair in pairs
                    if (made := pair.values(mean)) is not None
                }
                if paired:
                    values = np.array(
                        [self.values(k, mean.value) for k in range(len(self.detectors))]
                    )
                    largest = LargestDifferences.of_pairs(values, paired, exchanges)
            for pair in pairs:
                of_pair = paired.get((pair.i, pair.j))
                row = pair.difference(figure, of_pair, largest, exchanges)
                rows += [row] if row is not None else []
        order = {pair.labels: k for k, pair in enumerate(pairs)}
        return sorted(rows, key=lambda row: order[row.detectors])

    def values(self, k: int, value: Value) -> Floats:
        """Return what each attack is worth to detector k, the mean over its seeds."""
        own = np.full(self.drawing.clock.n_attacks, np.nan)
        own[self.has[k]] = self.drawn_values(k, value, self.has[k])[0]
        return own

    def drawn_values(self, k: int, value: Value, kept: Bools) -> Floats:
        """Return what some attacks are worth in every draw, the mean over seeds."""
        of_seeds = [
            self.drawing.of(result, self.has[k]).values[value]
            for result in self.detectors[k].results
        ]
        mean = of_seeds[0] if len(of_seeds) == 1 else np.mean(of_seeds, axis=0)
        own = kept[self.has[k]]
        return mean if own.all() else np.asarray(mean[:, own])

    def ends(
        self, k: int, kept: Bools, weights: dict[Weighting, Floats]
    ) -> dict[str, Ends]:
        """Return every figure of detector k in every draw, the mean over seeds.

        Pairs with the same attacks and weights share them.
        """
        key = (k, kept.tobytes(), *(one.tobytes() for one in weights.values()))
        if key not in self._ends:
            self._ends[key] = _ends_over_seeds(
                self.detectors[k], self.drawing, kept, weights
            )
        return self._ends[key]

    def mean_ranks(self) -> MeanRanks | None:
        """Return the mean ranks over the attacks that all detectors have."""
        shared = self.has.all(axis=0)
        if len(self.detectors) < 2 or shared.sum() < 2:
            return None
        aucs = [self.values(k, Value.AUC) for k in range(len(self.detectors))]
        values = np.array(aucs)[:, shared]
        ranks = ranks_of(values)
        means = ranks.mean(axis=1)
        order = np.argsort(means, kind="stable")
        exchanges = Exchanges.of(self.has[:, shared], 1, self._seed)
        critical = critical_distance(ranks, exchanges)
        labels = [self.detectors[k].label for k in order]
        groups = joined_groups(means[order], critical)
        return MeanRanks(
            testbed=self.testbed,
            detectors=tuple(labels),
            ranks=tuple(means[order].tolist()),
            critical=critical,
            groups=tuple(tuple(labels[k] for k in group) for group in groups),
            n_attacks=int(shared.sum()),
        )


class _Pair:
    """Detectors i and j of a testbed, on the attacks that both have."""

    def __init__(self, compared: _Compared, i: int, j: int) -> None:
        self.compared, self.i, self.j = compared, i, j
        self.first, self.second = compared.detectors[i], compared.detectors[j]
        self.labels = (self.first.label, self.second.label)
        has_first, has_second = compared.has[i], compared.has[j]
        self.kept: Bools = has_first & has_second
        self.n_alone = (
            int(np.sum(has_first & ~has_second)),
            int(np.sum(has_second & ~has_first)),
        )
        self._ends: dict[str, Ends] | None = None

    @cached_property
    def weights(self) -> dict[Weighting, Floats]:
        """What each shared attack weighs, the same for both detectors.

        Its seconds in the rows of the finer of both; its matched windows, as a share
        of all, the mean of both.
        """
        clock, drawing = self.compared.drawing.clock, self.compared.drawing
        finer = min(
            (one.first for one in (self.first, self.second)),
            key=lambda result: clock.steps[result],
        )
        windows = np.zeros(int(self.kept.sum()))
        for one in (self.first, self.second):
            number = drawing.clock.drawables[one.first].n_windows[self.kept]
            windows += number / max(number.sum(), 1.0)
        return {
            Weighting.ROWS: clock.seconds(finer)[self.kept],
            Weighting.WINDOWS: windows,
            Weighting.EQUAL: np.ones(int(self.kept.sum())),
        }

    def values(self, mean: WeightedMean) -> PairedValues | None:
        """Return what the attacks are worth to both; None if no attack has a value."""
        drawn = [
            self.compared.drawn_values(k, mean.value, self.kept)
            for k in (self.i, self.j)
        ]
        known = ~np.isnan(drawn[0][0] - drawn[1][0])
        weight = np.where(known, self.weights[mean.weighting], 0.0)
        if weight.sum() == 0:
            return None
        weight = weight / weight.sum()
        differences = np.where(known, drawn[0] - drawn[1], 0.0) @ weight
        n_draws = len(self.compared.drawing.draws) - 1
        deviation = np.zeros(n_draws)
        if len(differences) > 1:
            deviation = np.nan_to_num(differences[1:] - differences[0])
        by_attack = np.zeros((2, len(self.kept)))
        by_attack[0, self.kept] = weight
        by_attack[1, self.kept] = weight * np.where(
            known, drawn[0][0] - drawn[1][0], 0.0
        )
        return PairedValues(by_attack[0], by_attack[1], deviation)

    def ends(self, figure: Figure) -> Ends | None:
        """Return the difference in every draw; None where one has no such figure."""
        if self._ends is None:
            sides = [
                self.compared.ends(k, self.kept, self.weights) for k in (self.i, self.j)
            ]
            self._ends = {
                name: sides[0][name] - sides[1][name]
                for name in sides[0].keys() & sides[1].keys()
            }
        return self._ends.get(figure)

    def difference(
        self,
        figure: Figure,
        paired: PairedValues | None,
        largest: LargestDifferences | None,
        exchanges: Exchanges,
    ) -> Difference | None:
        """Return the difference in one figure; None if it is undefined."""
        ends = self.ends(figure)
        if ends is None or not np.isfinite(ends.estimate):
            return None
        plain = interval_of(ends.estimate, ends, low=-np.inf, high=np.inf)
        (low, high), has_seeds = self._with_seeds(figure, ends.estimate, plain)
        tested = _Tested()
        if paired is not None and largest is not None:
            is_only = len(self.compared.detectors) == 2
            tested = _Tested.of(paired, largest, exchanges, is_only=is_only)
        return Difference(
            testbed=self.compared.testbed,
            detectors=self.labels,
            figure=figure.value,
            difference=ends.estimate,
            interval=None if low is None or high is None else (low, high),
            n_attacks=int(self.kept.sum()),
            n_alone=self.n_alone,
            seeds_in_interval=has_seeds,
            **vars(tested),
        )

    def _with_seeds(
        self, figure: Figure, estimate: float, interval: Interval | None
    ) -> tuple[tuple[float | None, float | None], bool]:
        """Return the interval with the spread over seeds of both detectors."""
        values = [one.values(figure) for one in (self.first, self.second)]
        n = min(map(len, values))
        if interval is None or n < FEWEST_SEEDS:
            return interval or (None, None), False
        scale = int(self.kept.sum()) if figure == Figure.HITS else 1
        spread = sum(float(np.var(own, ddof=1)) for own in values) / scale**2
        return _widened(interval, estimate, spread, n), True


def _kept(clock: Clock, detectors: Sequence[DetectorRuns]) -> Bools:
    """Return which attacks every seed of all these detectors has."""
    has = [clock.has(result) for one in detectors for result in one.results]
    return np.asarray(np.all(has, axis=0))


def _ends_over_seeds(
    runs: DetectorRuns,
    drawing: Drawing,
    kept: Bools,
    weights: dict[Weighting, Floats] | None,
) -> dict[str, Ends]:
    """Return every figure in every draw, the mean over seeds.

    Attacks weigh as `weights` says; as in the result itself if None.
    """
    draws = drawing.draws_of(kept)
    of_seeds = []
    for result in runs.results:
        drawn: DrawnStream = drawing.of(result, kept)
        ends = ends_of(drawn, draws, weights or weights_of(drawn))
        train_mean = result.evaluation.compactness.p_eff / 2
        of_seeds.append(ends | drift_ends(drawn, train_mean))
    if len(of_seeds) == 1:
        return of_seeds[0]
    shared = set.intersection(*(set(ends) for ends in of_seeds))
    return {
        name: Ends(
            np.mean([ends[name].low for ends in of_seeds], axis=0),
            np.mean([ends[name].high for ends in of_seeds], axis=0),
        )
        for name in shared
    }


def _widened(
    interval: Interval, estimate: float, variance: float, n_seeds: int
) -> Interval:
    """Return an interval with the variance of a figure over seeds added.

    Each half-length h becomes ``sqrt(h^2 + (t sd)^2 / S)`` with t the 97.5% point of
    Student's t for S - 1.
    """
    from scipy.special import stdtrit

    low, high = interval
    t_point = float(stdtrit(n_seeds - 1, 0.975))
    more = t_point**2 * variance / n_seeds
    bottom = estimate - float(np.sqrt((estimate - low) ** 2 + more))
    if high is None:
        return bottom, None
    return bottom, estimate + float(np.sqrt((high - estimate) ** 2 + more))


@dataclass(frozen=True)
class _Tested:
    """What the exchange of two detectors says; see `Difference`."""

    p: float | None = None
    p_adjusted: float | None = None
    better: int | None = None
    worse: int | None = None
    same: int | None = None
    detectable: float | None = None
    n_needed: int | None = None
    power: str = ""

    @classmethod
    def of(
        cls,
        pair: PairedValues,
        largest: LargestDifferences,
        exchanges: Exchanges,
        *,
        is_only: bool,
    ) -> "_Tested":
        """Test one pair; `is_only` if there is no other."""
        n, total = pair.n_attacks, pair.total
        p_adjusted = largest.p(total)
        better, worse = (int(np.sum(sign * pair.difference > 0)) for sign in (1, -1))
        swapped, detectable, n_needed = exchanges.swapped(pair), None, None
        if n >= (FEWEST_ATTACKS if is_only else 2):
            error = _standard_error(pair)
            null_sd = float(np.sqrt(np.mean(swapped.moved**2)))
            errors = largest.critical / null_sd if null_sd else 0.0
            detectable = error * _detectable(errors, float(np.sum(pair.weight**2)))
            if p_adjusted > STAR_LEVEL and total != 0:
                needed = n * (error * (errors + _POWER_SDS) / abs(total)) ** 2
                n_needed = int(np.clip(np.ceil(needed), n + 1, 10 * MOST_NEEDED))
        return cls(
            p=swapped.p(total),
            p_adjusted=p_adjusted,
            better=better,
            worse=worse,
            same=n - better - worse,
            detectable=detectable,
            n_needed=n_needed,
            power=_power(n, detectable, n_needed),
        )


def _detectable(errors: float, s: float) -> float:
    """Return the smallest difference that is seen in four of five studies.

    In standard errors. A difference must exceed `errors` of them; but a difference d
    widens what exchanges give, by ``sqrt(1 + s d^2)`` with s the sum of squared weights
    of the attacks. So d is where ``d - 0.84`` is `errors` times that; without that
    factor if there is no such d.

    Examples
    --------
    >>> round(_detectable(1.96, 0.0), 2), round(_detectable(1.96, 0.05), 2)
    (2.8, 3.27)
    """
    z, grows = _POWER_SDS, 1 - errors**2 * s
    if grows <= 0:
        return errors + z
    return float((z + np.sqrt(z**2 - grows * (z**2 - errors**2))) / grows)


def _standard_error(pair: PairedValues) -> float:
    """Return the standard error of a difference: over attacks, and by calm time."""
    known, n = pair.weight > 0, pair.n_attacks
    around = pair.difference[known] - pair.weight[known] * pair.total
    spread = float(np.sum(around**2)) * n / (n - 1) + float(np.var(pair.deviation))
    return float(np.sqrt(spread))


def _power(n_attacks: int, detectable: float | None, n_needed: int | None) -> str:
    """Return in one sentence which difference could have been seen.

    Examples
    --------
    >>> _power(26, 0.08, 110)
    'With 26 attacks a difference of 0.08 could have been seen; to see this one takes
     about 110 such attacks.'
    """
    attacks = f"{n_attacks} attack{'' if n_attacks == 1 else 's'}"
    if detectable is None:
        return f"With {attacks} no difference could have been seen: it takes 6."
    start = f"With {attacks} a difference of {detectable:.2g} could have been seen"
    if n_needed is None:
        return f"{start}."
    many = (
        f"more than {MOST_NEEDED:,}"
        if n_needed > MOST_NEEDED
        else f"about {n_needed:,}"
    )
    return f"{start}; to see this one takes {many} such attacks."
