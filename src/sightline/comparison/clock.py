"""Attacks and calm time of a testbed on one clock, the same for all its results.

Detectors may have their own row rates and leave out rows to warm up. Attacks are
therefore those of the recording, by their times; calm time is cut into blocks of the
clock, and a row is in the block of its time stamp. What is drawn, whole attacks and
blocks, is then the same for all.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sightline.comparison.runs import Span, spans_in
from sightline.data.arrays import NORMAL, Bools, Floats
from sightline.evaluation.uncertainty import matched_windows
from sightline.metrics import drawing
from sightline.metrics.drawing import (
    Drawable,
    DrawnStream,
    Draws,
    MatchedWindows,
    draw,
    log_of,
)
from sightline.storage import Result

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
        return drawing.block_of_calm(calm) * self.step


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
        return cls(
            drawables=drawables,
            steps={one.result: one.step for one in timed},
            n_attacks=n_attacks,
            n_blocks=len(occupied),
            joined=_names_of_joined(timed, attack_of),
        )

    def has(self, result: Result) -> Bools:
        """Return which attacks a result has rows of."""
        return np.asarray(self.drawables[result].attack_rows > 0)

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


def _names_of_joined(
    timed: Sequence[Timed], attack_of: Sequence[Sequence[int]]
) -> tuple[tuple[str, ...], ...]:
    """Return the ids of attacks that count as one, of the result with most attacks."""
    i = int(np.argmax([len(numbers) for numbers in attack_of]))
    together: dict[int, list[str]] = {}
    segments = timed[i].result.evaluation.segments
    for number, segment in zip(attack_of[i], segments, strict=True):
        together.setdefault(number, []).append(segment.id)
    return tuple(tuple(ids) for ids in together.values() if len(ids) > 1)


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
    n, seed : int
        Number of draws, and the seed that makes them reproducible.
    medians : bool
        Whether the median energy of calm rows is needed.
    tick : callable
        Called after the draws of one result.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        n: int,
        seed: int,
        medians: bool,
        tick: Callable[[], None],
    ) -> None:
        self.clock = clock
        self.draws = Draws.of(clock.n_attacks, clock.n_blocks, n=n, seed=seed)
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
