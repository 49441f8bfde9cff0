"""What the telemetry itself says of each attack: the same for every detector.

Whether the plant moves during an attack, and how long it recovers afterwards, are facts
of the recording. They are found once, in seconds, from the measured values alone.

The telemetry is averaged to rows of at least `STEP_S` seconds and standardised by
train. Two views of each channel are judged: its change from row to row, and its
surprise, the residual of a ridge regression on the row before.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Final

import numpy as np

from sightline.data.arrays import NORMAL, Bools, Floats, Ints, Labels
from sightline.data.recording import Recording, forward_fill
from sightline.data.row_tables import ArrayRows, Rows, make_calls, read_on_grid
from sightline.data.segments import (
    Attack,
    KnownEffect,
    Segment,
    evenly_chosen,
    segments_of,
    window_starts,
)
from sightline.energy.attack_free import AttackFreeTime, aftermath_rows

# Telemetry is averaged to rows of at least this many seconds, and at most this many.
STEP_S: Final = 10.0
MOST_ROWS: Final = 200_000
# Ridge penalty of the one-step model, in units of the number of rows.
RIDGE: Final = 1e-3
# An attack is compared with at most this many calm windows, and with no fewer than
MOST_WINDOWS: Final = 200
LEAST_WINDOWS: Final = 19
LEAST_LENGTH: Final = 3
# p at which the telemetry moves, and above which it is still.
MOVES: Final = 0.05
STILL: Final = 0.20
# Floors of the spreads of the three statistics: |mean|, log of peak, log of spread.
_FLOORS: Final = np.array([0.03, 0.5, 0.5])
_LARGEST: Final = 3
_RARE: Final = 0.95
# Added before a logarithm is taken: values are in units of the spread of train.
_TINY: Final = 1e-3
# Values that are looked at together.
_MOST_VALUES: Final = 2_000_000
# Rows of a block of the aftermath.
BLOCK_ROWS: Final = 12
_HUGE: Final = 1e100


class Movement(StrEnum):
    """Whether the telemetry moves in an attack, by its own test."""

    MOVES = "moves"
    UNCLEAR = "unclear"
    STILL = "still"


@dataclass(frozen=True, kw_only=True)
class AttackFacts:
    """What the telemetry says of one attack.

    Parameters
    ----------
    id : str
        The attack.
    movement : Movement, optional
        Whether the telemetry moves; None where it could not be judged.
    p_value : float, optional
        Share of calm stretches that move at least as much.
    n_windows : int
        Number of calm stretches it was compared with.
    channels : tuple of str
        Channels that move most, the first the most; at most three.
    view : str
        In which view: ``"change"`` or ``"surprise"``.
    onset_s : float, optional
        Seconds from the start of the attack until the first channel moves.
    aftermath_s : float, optional
        Seconds after the attack until the plant is back; 0 where it is back at once or
        does not come back within the cap. In steps of the test where their length in
        seconds is not known.
    moves_in_truth : bool, optional
        Whether it moves anything that is recorded, where a simulator knows it.
    """

    id: str
    movement: Movement | None = None
    p_value: float | None = None
    n_windows: int = 0
    channels: tuple[str, ...] = ()
    view: str = ""
    onset_s: float | None = None
    aftermath_s: float | None = None
    moves_in_truth: bool | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedTelemetry:
    """Telemetry in rows of one or more steps, in units of train.

    Parameters
    ----------
    level : array of shape (n_rows, n_channels)
        Measured values, standardised by train.
    change, surprise : array of shape (n_rows, n_channels)
        Difference to the row before, and residual of the one-step model; 0 in the
        first row of a recording, and in the first normal row after others.
    labels : array of shape (n_rows,)
        The label of each row: 1 if any of its steps is an attack, 0 if all are normal.
    breaks : array of int
        First row of each recording.
    starts : array of int
        First step of the test that each row is made of.
    channels : tuple of str
        Names of the channels.
    step_s : float, optional
        Seconds of a row.
    """

    level: Floats
    change: Floats
    surprise: Floats
    labels: Labels
    breaks: Ints
    starts: Ints
    channels: tuple[str, ...]
    step_s: float | None

    @property
    def row_s(self) -> float:
        """Seconds of a row; its steps where their length is not known."""
        if self.step_s is not None:
            return self.step_s
        return float(np.diff(self.starts).max(initial=1))

    def rows_of(self, segment: Segment) -> Segment:
        """Return the rows that hold any step of a segment of the test."""
        first = max(int(np.searchsorted(self.starts, segment.start, "right")) - 1, 0)
        stop = int(np.searchsorted(self.starts, segment.stop, "left"))
        return Segment(first, max(stop, first + 1))


def prepare(
    train: Rows,
    test: Rows,
    *,
    labels: Labels,
    train_breaks: Ints,
    test_breaks: Ints,
    channels: Sequence[str],
    step_s: float | None,
) -> PreparedTelemetry | None:
    """Return the telemetry of a test in rows and units in which it is judged.

    Parameters
    ----------
    train, test : Rows
        Measured values of attack-free training and of the test; a cell that is not
        finite holds the last value of its channel.
    labels : array of shape (n_test,)
        1 attack, 0 normal, -1 ignored.
    train_breaks, test_breaks : array of int
        First step of each recording.
    channels : sequence of str
        Names of the columns.
    step_s : float, optional
        Seconds between steps.

    Returns
    -------
    PreparedTelemetry or None
        None where train has fewer than three rows, no test row is normal, or values of
        train are so large that their squares overflow.
    """
    every = 1 if step_s is None else max(1, round(STEP_S / step_s))
    every = max(every, -(-test.n_rows // MOST_ROWS))
    (learned, learned_breaks), (tested, breaks) = make_calls(
        test,
        [
            partial(_averaged, train, train_breaks, every),
            partial(_averaged, test, test_breaks, every),
        ],
    )
    # The label of a row of several steps: attack before ignored.
    starts = _blocks(test_breaks, test.n_rows, every)
    is_attack = np.maximum.reduceat(labels, starts)
    is_ignored = np.minimum(np.minimum.reduceat(labels, starts), 0)
    row_labels = np.where(is_attack > 0, is_attack, is_ignored).astype(np.int8)
    is_normal = row_labels == NORMAL
    if len(learned) < _LARGEST or not is_normal.any():
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        mean, spread = learned.mean(axis=0), learned.std(axis=0)
        if not (spread < _HUGE).all():
            return None
        # A channel that stands still in train is measured in its normal test spread;
        # if it stands still there as well, any unit does.
        largest = np.abs(tested[is_normal] - mean).max(axis=0)
        least = 1e-9 * np.abs(mean)
        other = np.where(largest > least, largest, np.maximum(np.abs(mean), 1.0))
        spread = np.where(spread > least, spread, other)
        learned = (learned - mean) / spread
        # Squares of what is standardised must not overflow, whatever an attack writes.
        tested = np.clip((tested - mean) / spread, -_HUGE, _HUGE)
    # What a ridge regression on the row before, fitted on train, leaves.
    has_before = np.ones(len(learned), np.bool_)
    has_before[learned_breaks] = False
    now = np.flatnonzero(has_before)
    x, y = learned[now - 1], learned[now]
    inside = x.T @ x
    inside.flat[:: len(inside) + 1] += RIDGE * max(len(x), 1)
    model = np.asarray(np.linalg.solve(inside, x.T @ y))
    before = np.concatenate([tested[:1], tested[:-1]])
    change, surprise = tested - before, tested - before @ model
    # No row of an attack enters what other attacks are compared with.
    is_first = np.concatenate([[False], is_normal[1:] & ~is_normal[:-1]])
    is_first[breaks] = True
    change[is_first] = surprise[is_first] = 0.0
    return PreparedTelemetry(
        level=tested,
        change=change,
        surprise=surprise,
        labels=row_labels,
        breaks=breaks,
        starts=starts,
        channels=tuple(channels),
        step_s=None if step_s is None else every * step_s,
    )


def _blocks(breaks: Ints, n_rows: int, every: int) -> Ints:
    """Return the first step of each row of `every` steps; rows begin at breaks."""
    ends = np.append(breaks[1:], n_rows)
    starts = [np.arange(b, e, every) for b, e in zip(breaks, ends, strict=True)]
    return np.concatenate(starts)


def _averaged(rows: Rows, breaks: Ints, every: int) -> tuple[Floats, Ints]:
    """Return the means of blocks of steps, and the first row of each recording."""
    starts = _blocks(breaks, rows.n_rows, every)
    ends = np.append(starts[1:], rows.n_rows)
    total = np.zeros((len(starts), rows.n_channels))
    last = np.zeros(rows.n_channels)
    for first, block in read_on_grid(rows):
        values = np.asarray(block, np.float64)
        if not np.isfinite(values).all():
            if first == 0:
                # The first finite value of each column; 0 where there is none.
                is_finite = np.isfinite(values)
                held = values[is_finite.argmax(axis=0), np.arange(values.shape[1])]
                last = np.where(is_finite.any(axis=0), held, 0.0)
            whole = np.concatenate([last[None], values])
            run, is_missing = np.zeros(1, np.int64), ~np.isfinite(whole)
            values = forward_fill(whole, run, is_missing=is_missing)[1:]
        values = np.clip(values, -(_HUGE**1.5), _HUGE**1.5)
        last = values[-1]
        row = (
            np.searchsorted(starts, np.arange(first, first + len(values)), "right") - 1
        )
        edges = np.flatnonzero(np.diff(row, prepend=-1))
        total[row[edges]] += np.add.reduceat(values, edges, axis=0)
    means = total / (ends - starts)[:, None]
    return means, np.searchsorted(starts, breaks)


# --- Aftermath ------------------------------------------------------------------------


def telemetry_aftermath(
    telemetry: PreparedTelemetry, segments: Sequence[Segment]
) -> list[int]:
    """Return the rows of aftermath of each attack, by level and surprise."""
    both = np.concatenate([telemetry.level, telemetry.surprise], axis=1)
    centre = np.median(both[telemetry.labels == NORMAL], axis=0)
    return aftermath_rows(
        both - centre,
        telemetry.labels,
        telemetry.breaks,
        segments,
        block=BLOCK_ROWS,
        step_s=telemetry.step_s,
        size=lambda blocks: np.abs(blocks.mean(axis=1)),
    )


# --- Does the telemetry move? ---------------------------------------------------------


def facts_of_attacks(
    telemetry: PreparedTelemetry,
    attacks: Sequence[Attack],
    label_slop_s: float | None = None,
) -> tuple[AttackFacts, ...]:
    """Return what the telemetry says of each attack.

    The statistics of a stretch, by channel and view: |mean|, log of the mean of the
    three largest |.|, log of the spread (two-sided); ``t`` is the distance from the
    median of calm windows in units of their 95th percentile; ``T`` the largest t of
    all. ``p = (1 + windows whose T is at least as large) / (1 + windows)``. A channel
    that stands still in all calm rows and moves in the attack puts p at its floor.

    Parameters
    ----------
    telemetry : PreparedTelemetry
        As `prepare` returns it.
    attacks : sequence of Attack
        By the steps of the test, not by rows of the telemetry.
    label_slop_s : float, optional
        Seconds by which labels may begin late or end early.
    """
    segments = [telemetry.rows_of(attack.segment) for attack in attacks]
    after = telemetry_aftermath(telemetry, segments)
    time = AttackFreeTime.of(
        telemetry.labels,
        segments,
        telemetry.step_s,
        aftermath_s=[n_after * telemetry.row_s for n_after in after],
        label_slop_s=label_slop_s,
        breaks=telemetry.breaks,
    )
    is_calm = time.without_aftermath
    views = np.concatenate([telemetry.change, telemetry.surprise], axis=1)
    stretches = segments_of(is_calm, telemetry.breaks)
    is_still = ~(telemetry.change[is_calm] != 0).any(axis=0)
    limits = np.quantile(np.abs(views[is_calm]), 0.999, axis=0)
    facts = []
    for attack, segment, n_after in zip(attacks, segments, after, strict=True):
        # Shorter windows if there are too few.
        length, judged = segment.length, AttackFacts(id=attack.id)
        while len(starts := window_starts(stretches, length)) < LEAST_WINDOWS:
            if length <= LEAST_LENGTH:
                break
            length = max(length // 2, LEAST_LENGTH)
        else:
            starts = evenly_chosen(starts, MOST_WINDOWS)
            judged = _judged(telemetry, views, is_still, limits, attack, length, starts)
        facts.append(replace(judged, aftermath_s=n_after * telemetry.row_s))
    return tuple(facts)


def facts_of_recordings(
    train: Recording, test: Recording, truth: Sequence[KnownEffect] = ()
) -> tuple[AttackFacts, ...]:
    """Return what the telemetry of a testbed says of each attack in its test.

    Parameters
    ----------
    train, test : Recording
        Both with the same tags.
    truth : sequence of KnownEffect
        What a simulator knows; it is recorded beside, and does not enter the test.

    Returns
    -------
    tuple of AttackFacts
        One for each attack of `test`; empty where the telemetry cannot be judged.
    """
    if not test.attacks or test.labels is None:
        return ()
    telemetry = prepare(
        ArrayRows(train.values),
        ArrayRows(test.values),
        labels=test.labels,
        train_breaks=np.asarray(train.breaks),
        test_breaks=np.asarray(test.breaks),
        channels=test.channels,
        step_s=test.step_s,
    )
    if telemetry is None:
        return ()
    moves = {effect.id: effect.moves for effect in truth}
    return tuple(
        replace(fact, moves_in_truth=moves.get(fact.id))
        for fact in facts_of_attacks(telemetry, test.attacks, test.label_slop_s)
    )


def _judged(
    telemetry: PreparedTelemetry,
    views: Floats,
    is_still: Bools,
    limits: Floats,
    attack: Attack,
    length: int,
    starts: Ints,
) -> AttackFacts:
    """Return what the telemetry says of one attack, but for its aftermath."""
    segment = telemetry.rows_of(attack.segment)
    own = _statistics(views[None, segment.rows], length)[0]
    n_groups = 1 + len(starts) * length * views.shape[1] // _MOST_VALUES
    calm = np.concatenate(
        [
            _statistics(views[some[:, None] + np.arange(length)], length)
            for some in np.array_split(starts, n_groups)
            if len(some)
        ]
    )
    median, rare = np.median(calm, axis=0), np.quantile(calm, _RARE, axis=0)
    low = np.quantile(calm, 1 - _RARE, axis=0)
    above = np.maximum(rare - median, _FLOORS[:, None])
    below = np.maximum(median - low, _FLOORS[:, None])

    def t_of(found: Floats) -> Floats:
        t = np.asarray((found - median) / above)
        # Spread is two-sided: a frozen reading has too little of it.
        t[..., 2, :] = np.maximum(t[..., 2, :], (median - found)[..., 2, :] / below[2])
        return t

    t = t_of(own).max(axis=0)
    reached = int((t_of(calm).max(axis=(1, 2)) >= t.max() - 1e-12).sum())
    n_channels = len(telemetry.channels)
    newly = is_still & (telemetry.change[segment.rows] != 0).any(axis=0)
    if newly.any():
        reached = 0
        t[:n_channels] = np.where(newly, np.inf, t[:n_channels])
    p_value = (1 + reached) / (1 + len(starts))
    order = np.argsort(-t, kind="stable")
    leading = int(order[0])
    channels = dict.fromkeys(int(k) % n_channels for k in order[: 2 * _LARGEST])
    is_beyond = np.abs(views[segment.rows, leading]) > limits[leading]
    onset = int(np.argmax(is_beyond)) if is_beyond.any() else None
    step_s = telemetry.step_s
    movement = Movement.UNCLEAR
    if p_value <= MOVES:
        movement = Movement.MOVES
    elif p_value > STILL:
        movement = Movement.STILL
    return AttackFacts(
        id=attack.id,
        movement=movement,
        p_value=p_value,
        n_windows=len(starts),
        channels=tuple(telemetry.channels[k] for k in list(channels)[:_LARGEST]),
        view="change" if leading < n_channels else "surprise",
        onset_s=None if onset is None or step_s is None else onset * step_s,
    )


def _statistics(rows: Floats, length: int) -> Floats:
    """Return |mean|, log peak and log spread of each column of each stretch.

    `rows` has shape (n_stretches, n_rows, n_columns), the result (n_stretches, 3,
    n_columns). Peaks are those of the first `length` rows: as many as a calm window
    has.
    """
    size = np.abs(rows[:, :length])
    last = size.shape[1] - min(_LARGEST, size.shape[1])
    largest = np.partition(size, last, axis=1)[:, last:]
    return np.stack(
        [
            np.abs(rows.mean(axis=1)),
            np.log(largest.mean(axis=1) + _TINY),
            np.log(rows.std(axis=1) + _TINY),
        ],
        axis=1,
    )
