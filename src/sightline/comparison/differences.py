"""Differences of each two detectors of a testbed, from the same draws for both.

Detectors may have their own row rates and leave out rows to warm up. Attacks are
therefore those of the recording, by their times; attack-free time is cut into blocks of
the clock, and a row is in the block of its time stamp. What is drawn, whole attacks and
blocks, is then the same for all.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.comparison.paired import (
    FEWEST_ATTACKS,
    STAR_LEVEL,
    PairedFigure,
    critical_distance,
    holm,
    joined_groups,
    power_sentence,
)
from sightline.comparison.runs import DetectorRuns, Span, TestbedRuns, spans_in
from sightline.data.arrays import NORMAL, Bools, Floats
from sightline.errors import StreamError
from sightline.evaluation.measure import matched_windows
from sightline.evaluation.result import Interval
from sightline.figures import FIGURES, Figure
from sightline.metrics.intervals import (
    MEANS,
    Drawable,
    DrawnStream,
    Draws,
    Ends,
    MatchedWindows,
    Value,
    WeightedMean,
    Weighting,
    block_of_calm,
    draw,
    drift_ends,
    ends_of,
    interval_of,
    log_of,
    weights_of,
)
from sightline.metrics.ranking import mean_ranks
from sightline.storage import Result
from sightline.text import did_you_mean, names

# The figure that a study is judged by, unless it names another beforehand.
PRIMARY = Figure.MEAN_SEGMENT_AUC
# Figures whose difference between two detectors is measured.
PAIRED_FIGURES = (
    Figure.MEAN_SEGMENT_AUC,
    Figure.ROC_AUC,
    Figure.PAUC_1,
    Figure.PAUC_5,
    Figure.AVERAGE_PRECISION,
    Figure.P_FULL,
    Figure.F1,
    Figure.PRECISION,
    Figure.RECALL,
    Figure.HITS,
)
# From this many seeds on their spread is part of an interval.
FEWEST_SEEDS = 3


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
        Interval of the difference over all attacks of these kinds, as wide as the
        correction for all that is tested together asks: with one pair the 95%
        interval. None with fewer than five attacks.
    p : float, optional
        Probability of so large a difference if the two were alike.
    p_adjusted : float, optional
        The same, corrected (Holm): for all pairs of the testbed in the primary figure;
        for all pairs in all other figures.
    n_attacks : int
        Attacks that both detectors have.
    better, worse, same : int, optional
        Attacks on which the first does better, worse, and the same; None for figures
        that are no mean over attacks (AP, F1, precision).
    n_alone : tuple of int
        Attacks that only the first, and only the second detector has.
    is_primary : bool
        Whether this is the figure that was named before.
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
    is_primary: bool
    seeds_in_interval: bool
    detectable: float | None
    n_needed: int | None
    power: str

    @property
    def has_star(self) -> bool:
        """Whether the two differ by more than chance: the interval excludes 0."""
        return self.interval is not None and (
            self.interval[0] > 0 or self.interval[1] < 0
        )


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


def checked_primary(name: str) -> str:
    """Return the name of a figure if differences in it are measured.

    Raises
    ------
    StreamError
        If they are not.

    Examples
    --------
    >>> checked_primary("roc_auc")
    'roc_auc'
    """
    if name not in {figure.value for figure in PAIRED_FIGURES}:
        raise StreamError(
            f"`primary` must be a figure in which detectors are compared; got "
            f"{name!r}: {did_you_mean(str(name), PAIRED_FIGURES)}"
        )
    return str(name)


# ---- attacks and attack-free time on one clock ---------------------------------------

_NO_WINDOWS = MatchedWindows(np.empty(0, np.int32), np.empty(0, np.bool_))


@dataclass(frozen=True, eq=False)
class Timed:
    """A result with the time of its rows.

    Parameters
    ----------
    result : Result
        The result.
    time : array of shape (n_rows,)
        Time stamps in seconds; row numbers if no result of the testbed has any.
    step : float
        Seconds (or rows) a row stands for.
    """

    result: Result
    time: Floats
    step: float

    @cached_property
    def spans(self) -> list[Span]:
        """Begin and end of each attack."""
        segments = self.result.evaluation.segments
        return spans_in(self.time, [(s.start, s.stop) for s in segments], self.step)

    @property
    def block_s(self) -> float:
        """Seconds of a block of calm time."""
        traces, facts = self.result.traces, self.result.evaluation.bootstrap
        if facts is not None:
            return facts.block * self.step
        calm = log_of(traces.test_energy[traces.labels == NORMAL])
        return block_of_calm(calm) * self.step


@dataclass(frozen=True, eq=False)
class Clock:
    """Results that are compared with each other, cut alike.

    Parameters
    ----------
    drawables : dict
        By result: its test cut into attacks and blocks. An attack of which it has no
        row has 0 rows there.
    steps : dict
        By result: seconds a row stands for.
    n_attacks, n_blocks : int
        Attacks of the recording, and blocks of calm time.
    joined : tuple of tuple of str
        Attacks that count as one, as a coarse row of some detector joins them; by
        their ids in the result that has most attacks.
    """

    drawables: dict[Result, Drawable]
    steps: dict[Result, float]
    n_attacks: int
    n_blocks: int
    joined: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def of(cls, timed: Sequence[Timed]) -> "Clock":
        """Cut results into the same attacks and blocks.

        The block is the longest of all results, so that one set of draws serves all.
        """
        attack_of, n_attacks = _joined_attacks([one.spans for one in timed])
        block_s = max(one.block_s for one in timed)
        begin = min(float(one.time[0]) for one in timed)
        numbers = [
            np.where(
                one.result.traces.labels == NORMAL,
                np.floor((one.time - begin) / block_s),
                -1.0,
            )
            for one in timed
        ]
        occupied = np.unique(np.concatenate([n[n >= 0] for n in numbers]))
        drawables = {
            one.result: _drawable(
                one,
                attacks,
                np.where(number >= 0, np.searchsorted(occupied, number), -1).astype(
                    np.int32
                ),
                block_s / one.step,
                n_attacks,
                len(occupied),
            )
            for one, attacks, number in zip(timed, attack_of, numbers, strict=True)
        }
        most = int(np.argmax([len(attacks) for attacks in attack_of]))
        together: dict[int, list[str]] = {}
        segments = timed[most].result.evaluation.segments
        for attack, segment in zip(attack_of[most], segments, strict=True):
            together.setdefault(attack, []).append(segment.id)
        return cls(
            drawables=drawables,
            steps={one.result: one.step for one in timed},
            n_attacks=n_attacks,
            n_blocks=len(occupied),
            joined=tuple(tuple(ids) for ids in together.values() if len(ids) > 1),
        )

    def has(self, runs: DetectorRuns) -> Bools:
        """Return of which attacks every seed of a detector has rows."""
        rows = [self.drawables[result].attack_rows for result in runs.results]
        return np.asarray(np.all(np.array(rows) > 0, axis=0))

    def seconds(self, result: Result) -> Floats:
        """Return how long each attack lasts in the rows of a result."""
        return self.drawables[result].attack_rows * self.steps[result]


def timed_results(results: Sequence[Result]) -> list[list[Timed]]:
    """Return results in groups whose rows have a common clock.

    A result without time stamps has those of another with as many rows. Results of
    which this is not known are compared by row number, if they have as many rows.
    """
    known = {
        len(result.traces.labels): time
        for result in reversed(results)
        if (time := result.traces.test_time) is not None
    }
    groups: dict[int | None, list[Timed]] = {}
    for result in results:
        n_rows, step = len(result.traces.labels), result.evaluation.stream.step_s
        own = result.traces.test_time
        time = known.get(n_rows) if own is None else own
        if time is None:
            one = Timed(result, np.arange(float(n_rows)), 1.0)
            groups.setdefault(n_rows, []).append(one)
            continue
        if not step or own is None:
            steps = np.diff(time)
            forward = steps[steps > 0]
            step = float(np.median(forward)) if len(forward) else 1.0
        groups.setdefault(None, []).append(Timed(result, time, step))
    return list(groups.values())


def _joined_attacks(spans: Sequence[Sequence[Span]]) -> tuple[list[list[int]], int]:
    """Return the number of each result's attacks among those of the recording.

    Attacks of different results that overlap are one; so are two that overlap the same
    third.

    Examples
    --------
    >>> _joined_attacks([[(0, 2), (3, 4), (9, 12)], [(0, 5)], [(9, 10), (11, 13)]])
    ([[0, 0, 1], [0], [1, 1]], 2)
    """
    ordered = sorted(
        (span, i, j) for i, own in enumerate(spans) for j, span in enumerate(own)
    )
    numbers = [[0] * len(own) for own in spans]
    end, number = -np.inf, -1
    for span, i, j in ordered:
        if span[0] >= end:
            number += 1
        end = max(end, span[1])
        numbers[i][j] = number
    return numbers, number + 1


def _drawable(
    one: Timed,
    attacks: Sequence[int],
    block_of: npt.NDArray[np.int32],
    block: float,
    n_attacks: int,
    n_blocks: int,
) -> Drawable:
    """Return the test of a result, cut into attacks and blocks of the clock."""
    traces, segments = one.result.traces, one.result.evaluation.segments
    attack_of = np.full(len(traces.labels), -1, np.int32)
    d_full, windows = np.full(n_attacks, np.nan), [_NO_WINDOWS] * n_attacks
    matched = matched_windows(
        traces.segment_d_full,
        traces.segment_group,
        np.array([segment.length for segment in segments], np.int64),
        traces.matched_d_full,
        traces.matched_starts,
        traces.matched_bounds,
        block_of,
    )
    for k, number in enumerate(attacks):
        attack_of[segments[k].start : segments[k].stop] = number
        # Evidence adds up; the windows of both parts are compared with.
        d_full[number] = np.nansum([d_full[number], traces.segment_d_full[k]])
        windows[number] = windows[number] + matched[k]
    tau99 = one.result.evaluation.probe.tau99
    return Drawable.of(
        traces.test_energy,
        traces.test_energy > (np.inf if tau99 is None else tau99),
        attack_of,
        block_of,
        block=block,
        n_attacks=n_attacks,
        n_blocks=n_blocks,
        d_full=d_full,
        windows=windows,
    )


class Drawing:
    """Draws results of one clock, each once for every choice of attacks.

    Parameters
    ----------
    clock : Clock
        The results.
    draws : Draws
        What is drawn.
    medians : bool
        Whether the median energy of calm rows is needed.
    tick : callable
        Called after the draws of one result.
    """

    def __init__(
        self,
        clock: Clock,
        draws: Draws,
        *,
        medians: bool = False,
        tick: Callable[[], None],
    ) -> None:
        self.clock, self.draws = clock, draws
        self._medians, self._tick = medians, tick
        self._drawn: dict[tuple[Result, bytes], DrawnStream] = {}
        self._draws: dict[bytes, Draws] = {}

    def of(self, result: Result, kept: Bools) -> DrawnStream:
        """Return what a result gives in every draw, with some of the attacks."""
        own = self.clock.drawables[result]
        key = (result, kept.tobytes())
        if key not in self._drawn:
            self._drawn[key] = draw(
                _with_attacks(own, kept), self.draws_of(kept), medians=self._medians
            )
            self._tick()
        return self._drawn[key]

    def draws_of(self, kept: Bools) -> Draws:
        """Return the draws for some of the attacks, the same object for all results."""
        key = kept.tobytes()
        if key not in self._draws:
            self._draws[key] = self.draws.of_attacks(kept)
        return self._draws[key]


def _with_attacks(stream: Drawable, kept: Bools) -> Drawable:
    """Return a stream as if it had only some of its attacks."""
    if kept.all():
        return stream
    rows = kept[stream.attack]
    new_number = (np.cumsum(kept) - 1).astype(np.int32)
    # A row is tied if any kept row has the energy of the one before it.
    group = np.cumsum(~stream.attack_tied)[rows]
    return replace(
        stream,
        attack=new_number[stream.attack[rows]],
        attack_tied=np.diff(group, prepend=-1) == 0,
        above=stream.above[rows],
        up_to=stream.up_to[rows],
        attack_rows=stream.attack_rows[kept],
        attack_alarms=stream.attack_alarms[kept],
        d_full=None if stream.d_full is None else stream.d_full[kept],
        windows=None
        if stream.windows is None
        else [one for one, keep in zip(stream.windows, kept, strict=True) if keep],
    )


# ---- detectors compared --------------------------------------------------------------


class PairedTestbed:
    """All detectors of one testbed, drawn on one clock.

    Parameters
    ----------
    runs : TestbedRuns
        The detectors.
    n_replicates, seed : int
        Number of draws, and the seed that makes them reproducible.
    primary : str
        The figure that was named before.
    tick : callable
        Called after the draws of one result.
    """

    def __init__(
        self,
        runs: TestbedRuns,
        *,
        n_replicates: int,
        seed: int,
        primary: str,
        tick: Callable[[], None],
    ) -> None:
        self.runs, self._n, self._seed, self._tick = runs, n_replicates, seed, tick
        self._primary = primary
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
            groups.append(_Compared(self.runs.testbed, detectors, clock, self._drawing))
        return groups

    def _drawing(self, clock: Clock, *, with_seeds: bool) -> Drawing:
        """Return what draws results in pairs, or one detector's seeds."""
        make = Draws.of if with_seeds else Draws.of_pairs
        draws = make(clock.n_attacks, clock.n_blocks, n=self._n, seed=self._seed)
        return Drawing(clock, draws, medians=with_seeds, tick=self._tick)

    def _group_of(self, runs: DetectorRuns) -> "_Compared | None":
        return next((one for one in self._groups if runs in one.detectors), None)

    def differences(self) -> list[Difference]:
        """Return the differences of each two detectors in all `PAIRED_FIGURES`."""
        rows: dict[tuple[str, str], list[Difference]] = {}
        if len(self.runs.detectors) < 2:
            return []
        for row in (
            row for group in self._groups for row in group.differences(self._primary)
        ):
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
        rows = (group.mean_ranks(self._seed) for group in self._groups)
        return [row for row in rows if row is not None]

    def seeded_interval(self, runs: DetectorRuns, figure: str) -> "SeededInterval":
        """Return the interval of a figure's mean over seeds."""
        evaluations = [result.evaluation for result in runs.results]
        stored = (evaluations[0].intervals or {}).get(figure)
        if len(runs.results) == 1 or (group := self._group_of(runs)) is None:
            return SeededInterval(stored, False)
        drawing = group.seed_drawing
        kept = drawing.clock.has(runs)
        ends = _ends_over_seeds(runs, drawing, kept, None).get(figure)
        values = runs.values(figure)
        if ends is None or not values:
            return SeededInterval(None, False)
        low, high, scale = FIGURES[figure].low, FIGURES[figure].high, 1
        if figure == Figure.HITS:
            high = scale = int(kept.sum())
        interval = interval_of(
            float(np.mean(values)),
            Ends(scale * ends.low, scale * ends.high, ends.tail),
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
            joined = [" and ".join(ids) for ids in group.clock.joined]
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
        clock: Clock,
        draw: Callable[..., Drawing],
    ) -> None:
        self.testbed, self.detectors, self.clock = testbed, detectors, clock
        self.has = np.array([clock.has(one) for one in detectors])
        self._draw = draw
        self._ends: dict[tuple[object, ...], dict[str, Ends]] = {}

    @cached_property
    def drawing(self) -> Drawing:
        """Draws for pairs."""
        return self._draw(self.clock, with_seeds=False)

    @cached_property
    def seed_drawing(self) -> Drawing:
        """Draws with one more attack, for the mean over a detector's seeds."""
        return self._draw(self.clock, with_seeds=True)

    def differences(self, primary: str) -> list[Difference]:
        """Return the differences of each two detectors, pair by pair.

        The primary figure is corrected over its pairs, all others over all of theirs.
        """
        pairs = [
            _Pair(self, i, j)
            for i, j in combinations(range(len(self.detectors)), 2)
            if (self.has[i] & self.has[j]).any()
        ]
        paired = {
            (k, figure): made
            for k, pair in enumerate(pairs)
            for figure in PAIRED_FIGURES
            if (made := pair.figure(figure)) is not None
        }
        rows = {}
        for is_primary in (True, False):
            keys = [key for key in paired if (key[1] == primary) is is_primary]
            tested = [key for key in keys if pairs[key[0]].can_be_told_apart]
            adjusted, levels = holm([paired[key].p for key in tested])
            by_key = dict(zip(tested, zip(adjusted, levels, strict=True), strict=True))
            # What a difference is tested at, at first.
            first = STAR_LEVEL / max(len(tested), 1)
            for key in keys:
                rows[key] = pairs[key[0]].difference(
                    key[1], paired[key], by_key.get(key), first, is_primary=is_primary
                )
        return [rows[key] for key in paired]

    def values(self, k: int, value: Value) -> Floats:
        """Return what each attack is worth to detector k, the mean over its seeds."""
        own = np.full(self.clock.n_attacks, np.nan)
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

    def mean_ranks(self, seed: int) -> MeanRanks | None:
        """Return the mean ranks over the attacks that all detectors have."""
        shared = self.has.all(axis=0)
        if len(self.detectors) < 2 or shared.sum() < 2:
            return None
        aucs = [self.values(k, Value.AUC) for k in range(len(self.detectors))]
        values = np.array(aucs)[:, shared]
        # Of each detector in each attack; 1 is the best.
        ranks = mean_ranks(-values.T).T
        means = ranks.mean(axis=1)
        order = np.argsort(means, kind="stable")
        critical = critical_distance(ranks, seed)
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

    @cached_property
    def weights(self) -> dict[Weighting, Floats]:
        """What each shared attack weighs, the same for both detectors.

        Its seconds in the rows of the finer of both; its matched windows, as a share
        of all, the mean of both.
        """
        clock = self.compared.clock
        finer = min(
            (one.first for one in (self.first, self.second)),
            key=lambda result: clock.steps[result],
        )
        windows = np.zeros(int(self.kept.sum()))
        for one in (self.first, self.second):
            number = clock.drawables[one.first].n_windows[self.kept]
            windows += number / max(number.sum(), 1.0)
        return {
            Weighting.ROWS: clock.seconds(finer)[self.kept],
            Weighting.WINDOWS: windows,
            Weighting.EQUAL: np.ones(int(self.kept.sum())),
        }

    @property
    def can_be_told_apart(self) -> bool:
        """Whether there are attacks enough for an interval."""
        return int(self.kept.sum()) >= FEWEST_ATTACKS

    def figure(self, figure: Figure) -> PairedFigure | None:
        """Return what is compared in one figure; None if it is undefined."""
        mean = MEANS.get(figure)
        return self._other(figure) if mean is None else self._mean(figure, mean)

    def _mean(self, figure: Figure, mean: WeightedMean) -> PairedFigure | None:
        """Return a figure that is a mean over attacks."""
        first, second = (
            self.compared.drawn_values(k, mean.value, self.kept)
            for k in (self.i, self.j)
        )
        known = ~np.isnan(first[0] - second[0]) & (self.weights[mean.weighting] > 0)
        if not known.any():
            return None
        weight = self.weights[mean.weighting][known]
        weight = weight / weight.sum()
        drawn = (first - second)[:, known]
        redrawn = drawn[1 + self.compared.clock.n_attacks :] @ weight
        return PairedFigure(
            weight=weight,
            by_attack=drawn[0],
            # A value that does not depend on attack-free time has one row.
            deviation=np.nan_to_num(redrawn - drawn[0] @ weight)
            if len(redrawn)
            else np.zeros(1),
            **self._over_seeds(figure),
        )

    def _other(self, figure: Figure) -> PairedFigure | None:
        """Return a figure that is no mean, by what is left without each attack."""
        drawn = [
            self.compared.ends(k, self.kept, self.weights).get(figure)
            for k in (self.i, self.j)
        ]
        if drawn[0] is None or drawn[1] is None:
            return None
        n_attacks = self.compared.clock.n_attacks
        difference = drawn[0].low - drawn[1].low
        weight = self.weights[Weighting.ROWS]
        weight = weight / weight.sum()
        without = difference[1 : 1 + n_attacks][self.kept]
        if not np.isfinite(difference[0]):
            return None
        if len(weight) > 1 and not np.isfinite(without).all():
            return None
        by_attack = np.full(len(weight), difference[0])
        if len(weight) > 1:
            by_attack = (difference[0] - (1 - weight) * without) / weight
        return PairedFigure(
            weight=weight,
            by_attack=by_attack,
            deviation=np.nan_to_num(difference[1 + n_attacks :] - difference[0]),
            estimate=float(difference[0]),
            **self._over_seeds(figure),
        )

    def _over_seeds(self, figure: Figure) -> dict[str, Any]:
        """Return the variance over seeds, if both detectors have enough of them."""
        values = [one.values(figure) for one in (self.first, self.second)]
        n = min(map(len, values))
        if n < FEWEST_SEEDS:
            return {}
        scale = int(self.kept.sum()) if figure == Figure.HITS else 1
        variance = sum(float(np.var(own, ddof=1)) for own in values) / scale**2
        return {"seed_variance": variance / n, "n_seeds": n}

    def difference(
        self,
        figure: Figure,
        paired: PairedFigure,
        tested: tuple[float, float] | None,
        first_level: float,
        *,
        is_primary: bool,
    ) -> Difference:
        """Return the difference in one figure.

        Parameters
        ----------
        figure : Figure
            The figure.
        paired : PairedFigure
            What is compared in it.
        tested : tuple of float, optional
            Corrected p and the level it is tested at; None with too few attacks.
        first_level : float
            The level at which the smallest p of all is tested.
        is_primary : bool
            Whether the figure was named before.
        """
        is_mean, n_attacks = figure in MEANS, int(self.kept.sum())
        detectable, n_needed, interval = None, None, None
        if tested is not None:
            detectable = paired.detectable(first_level)
            n_needed = paired.n_needed(first_level)
            low, high = paired.interval(tested[1])
            interval = (max(low, -1.0), min(high, 1.0))
            n_needed = None if low > 0 or high < 0 else n_needed
        better, worse = (int(np.sum(s * paired.by_attack > 0)) for s in (1, -1))
        return Difference(
            testbed=self.compared.testbed,
            detectors=self.labels,
            figure=figure.value,
            difference=paired.difference,
            interval=interval,
            p=None if tested is None else paired.p,
            p_adjusted=None if tested is None else tested[0],
            n_attacks=n_attacks,
            better=better if is_mean else None,
            worse=worse if is_mean else None,
            same=paired.n_attacks - better - worse if is_mean else None,
            n_alone=self.n_alone,
            is_primary=is_primary,
            seeds_in_interval=paired.n_seeds > 0,
            detectable=detectable,
            n_needed=n_needed,
            power=power_sentence(n_attacks, detectable, n_needed),
        )


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
            of_seeds[0][name].tail,
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
