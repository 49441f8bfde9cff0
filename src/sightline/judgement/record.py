"""What the rungs look at: residuals of an attack and of its calm windows.

`JudgedRecord` holds what is the same for all attacks of a stream. `AttackCase` holds
one attack with its calm windows: rows about the centre of their surroundings, whitened
by train. Whatever is estimated around an attack is estimated around each window in the
same way.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Bools, Floats, Ints
from sightline.data.row_tables import (
    Rows,
    even_lots,
    gather_rows,
    make_calls,
    no_tick,
    parts_of,
)
from sightline.data.segments import Segment
from sightline.energy.energy import ScoredTest
from sightline.energy.reference import Reference, fit_reference
from sightline.energy.tag_extremes import TagExtremes
from sightline.errors import StreamError
from sightline.judgement.event_test import AttackFreeRecord, AttackFreeWindows, Flag
from sightline.parallel import map_threads

T = TypeVar("T")

# A centre is the mean of this many calm rows on either side of a stretch,
CENTRE_ROWS: Final = 400
# at this distance from it; one side alone where the other has fewer than this.
CENTRE_GAP: Final = 20
LEAST_CENTRE_ROWS: Final = 200
# Places of a shorter window within a stretch as long as the attack.
N_PLACES: Final = 5
# The reference has moved where the mean of matched calm rows has more energy than this
# many times sqrt(p / 2), the spread of the energy of one normal row.
GATE: Final = 1.0
SPANS: Final = (30, 300)
# Train and calm rows that estimate spreads: stretches of this many rows,
STRETCH_ROWS: Final = 4096
# this many of them.
N_STRETCHES: Final = 20
# What an attack costs besides its rows, in rows (measured: 0.11 s, 2 us a row).
CASE_ROWS: Final = 50_000
# Values of test rows that are held in memory at a time.
MOST_VALUES: Final = 32_000_000
STANDARDISED: Final = "ledoit-wolf-standardised"


@dataclass(frozen=True, kw_only=True, eq=False)
class Units:
    """Scales of the channels, from train alone.

    Parameters
    ----------
    spread : array of shape (p,)
        Standard deviation of each channel.
    correlation : array of shape (p, p)
        Correlation of the channels, with shrinkage that does not depend on units.
    whitening : array of shape (p, p)
        Multiply centred rows by it from the right: unit covariance.
    memory : dict of int to array of shape (p,)
        Deviation of the exponentially weighted average of each channel over train, in
        units of the channel's spread, by span.
    """

    spread: Floats
    correlation: Floats
    whitening: Floats
    memory: dict[int, Floats]


def energy_under(whitening: Floats, rows: Floats) -> Floats:
    """Return the energy of centred rows under a whitening."""
    whitened = rows @ whitening
    return np.asarray(0.5 * np.einsum("tj,tj->t", whitened, whitened))


def weight_of(span: int) -> float:
    """Return the weight of a new row in an average over a span."""
    return 2 / (span + 1)


def growth(n_rows: int, span: int) -> Floats:
    """Return the spread of an average started at zero, over that of a settled one."""
    t = np.arange(1, n_rows + 1)
    return np.asarray(np.sqrt(1 - (1 - weight_of(span)) ** (2 * t)))


def averages(rows: Floats, span: int) -> Floats:
    """Return exponentially weighted averages along the rows, started at zero.

    They are divided by ``sqrt(1 - (1 - w)^2t)``, so that averages of independent noise
    have the same spread from the first row on.

    Parameters
    ----------
    rows : array of shape (n_rows, n_columns)
    span : int
        Rows of the span; the weight w is 2 / (span + 1).
    """
    from sightline._kernels.alarms import average_rows

    averaged, zeros = rows.copy(), np.zeros(rows.shape[1])
    average_rows(averaged, zeros, weight_of(span), zeros.copy())
    return averaged / growth(len(rows), span)[:, None]


def units_of(train: Rows, reference: Reference) -> Units:
    """Return the scales of the channels.

    Parameters
    ----------
    train : Rows
        At most `N_STRETCHES` evenly spaced stretches of it are read.
    reference : Reference
        Fitted on train in units of each channel's own spread.
    """
    n_rows = train.n_rows
    starts, length = np.zeros(1, np.int64), n_rows
    if n_rows > N_STRETCHES * STRETCH_ROWS:
        length = STRETCH_ROWS
        starts = np.linspace(0, n_rows - length, N_STRETCHES).astype(np.int64)
    rows = gather_rows(train, (starts[:, None] + np.arange(length)).ravel())
    spread = np.sqrt(np.diag(reference.covariance))
    scaled = ((rows - reference.mean) / spread).reshape(len(starts), length, -1)
    memory = {}
    for span in SPANS:
        w = weight_of(span)
        settled = min(3 * span, length // 4)
        squares = [
            np.mean(averages(one, span)[settled:] ** 2, axis=0) for one in scaled
        ]
        # A channel that stands still in train must not make every test row infinite.
        least = 0.1 * np.sqrt(w / (2 - w))
        memory[span] = np.maximum(np.sqrt(np.mean(squares, axis=0)), least)
    return Units(
        spread=spread,
        correlation=np.asarray(reference.covariance / np.outer(spread, spread)),
        whitening=np.ascontiguousarray(reference.factor.T),
        memory=memory,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class LocalCovariances:
    """Covariance of calm rows about a moving mean, from two halves of calm time.

    Parameters
    ----------
    whitenings : pair of array of shape (p, p)
        Of each half.
    half : array of int8, shape (n_rows,)
        To which half a calm row belongs; it is scored by the other one.
    """

    whitenings: Sequence[Floats]
    half: npt.NDArray[np.int8]


def local_covariances(test: Rows, calm: Ints) -> LocalCovariances | None:
    """Return the covariance of calm rows about a moving mean; None if it is singular.

    Alternating twentieths of calm time form the two halves; of each twentieth at most
    `STRETCH_ROWS` rows are read.

    Parameters
    ----------
    test : Rows
        Test residuals.
    calm : array of int
        Numbers of the calm rows, sorted.
    """
    part = np.arange(len(calm)) * N_STRETCHES // max(len(calm), 1)
    half = np.zeros(test.n_rows, np.int8)
    half[calm] = part % 2
    edges = np.searchsorted(part, np.arange(N_STRETCHES + 1))
    places = [calm[a:b][:STRETCH_ROWS] for a, b in pairwise(edges)]
    values = gather_rows(test, np.concatenate(places))
    pieces = np.split(values, np.cumsum([len(place) for place in places])[:-1])
    for piece in pieces:
        for block in np.array_split(piece, max(1, len(piece) // CENTRE_ROWS)):
            block -= block.mean(axis=0)
    try:
        one, two = (
            fit_reference(np.concatenate(pieces[k::2]), estimator=STANDARDISED)
            for k in (0, 1)
        )
    except StreamError:
        return None
    whitenings = [np.ascontiguousarray(fitted.factor.T) for fitted in (one, two)]
    return LocalCovariances(whitenings=whitenings, half=half)


@dataclass(frozen=True, kw_only=True, eq=False)
class JudgedRecord:
    """What is the same for all attacks of a stream.

    Parameters
    ----------
    scored : ScoredTest
        Energy, labels, attacks and alarms.
    test : Rows
        Test residuals.
    energy : array of shape (n_rows,)
        Energy of each row, finite.
    calm : AttackFreeRecord
        Calm rows.
    units : Units
        Scales of the channels.
    channels : tuple of str
        Names of the channels.
    is_one_sided : bool
        Whether the stream is a score of which only large values are anomalous: then no
        rung looks at values that are too small.
    extremes : TagExtremes, optional
        The largest distance of each tag from its attack-free median; None for a
        one-sided score.
    """

    scored: ScoredTest
    test: Rows
    energy: Floats
    calm: AttackFreeRecord
    units: Units
    channels: tuple[str, ...]
    is_one_sided: bool = False
    extremes: TagExtremes | None = None

    @cached_property
    def local(self) -> LocalCovariances | None:
        """Covariance of calm rows about a moving mean; None if it is singular."""
        return local_covariances(self.test, self.calm.rows)

    def surroundings(
        self, segment: Segment, windows: AttackFreeWindows
    ) -> list[Segment]:
        """Return beside which rows the centre of the attack and of each window lies.

        A window shorter than the attack is put at several places of a stretch as long
        as the attack, in turn, so that its surroundings are as far from it as the
        attack's: what normal operation does meanwhile is then in the windows too.
        """
        extra, n_rows = segment.length - windows.length, self.test.n_rows
        if extra <= 0:
            return [segment, *windows.segments]
        wide = [segment]
        for k, one in enumerate(windows.segments):
            start = max(one.start - extra * (k % N_PLACES) // (N_PLACES - 1), 0)
            stop = min(max(start + segment.length, one.stop), n_rows)
            wide.append(Segment(start, stop))
        return wide

    def sides(
        self, segment: Segment, margins: tuple[int, int] = (0, 0)
    ) -> tuple[Ints, Ints]:
        """Return the calm rows before and after a stretch that make its centre.

        They are as far from a window as from the attack, whose margins are not calm.

        One side stands for both where the other has too few rows. Both are empty where
        there is no calm row at all.
        """
        rows = self.calm.rows
        first = np.searchsorted(rows, segment.start - max(CENTRE_GAP, margins[0]))
        last = np.searchsorted(rows, segment.stop + max(CENTRE_GAP, margins[1]))
        before = rows[max(0, first - CENTRE_ROWS) : first]
        after = rows[last : last + CENTRE_ROWS]
        if min(len(before), len(after)) < LEAST_CENTRE_ROWS:
            longer = max(before, after, key=len)
            before = longer if len(before) < LEAST_CENTRE_ROWS else before
            after = longer if len(after) < LEAST_CENTRE_ROWS else after
        return before, after


@dataclass(frozen=True, kw_only=True, eq=False)
class CentredWindow:
    """Rows of an attack or of a calm window, about their centre.

    Parameters
    ----------
    segment : Segment
        Its rows in the record.
    rows : array of shape (n_rows, p)
        Residuals minus the centre.
    others : tuple of array of shape (n_rows, p)
        The same about the other centres that were considered.
    least_energy : float
        Mean energy about the centre that leaves least.
    deviates : array of bool, shape (p,)
        Which channels leave their attack-free median.
    """

    segment: Segment
    rows: Floats
    others: tuple[Floats, ...]
    least_energy: float
    deviates: Bools


@dataclass(frozen=True, kw_only=True, eq=False)
class AttackCase:
    """One attack with its calm windows, as the rungs look at it.

    Parameters
    ----------
    record : JudgedRecord
        What is the same for all attacks.
    segment : Segment
        Rows of the attack.
    windows : AttackFreeWindows
        What it is compared with.
    stretches : tuple of CentredWindow
        The attack, then the windows.
    has_moved : bool
        Whether the reference has moved: the gate is open.
    is_charitable : bool
        Whether each stretch is judged about the centre that leaves least energy.
    extremes : array of shape (p,), optional
        Largest distance of each channel from its attack-free median, in the attack and
        the margins of its label; None for a one-sided score.
    extreme_rows : array of int, shape (p,), optional
        The row of each.
    """

    record: JudgedRecord
    segment: Segment
    windows: AttackFreeWindows
    stretches: tuple[CentredWindow, ...]
    has_moved: bool
    is_charitable: bool
    extremes: Floats | None = None
    extreme_rows: Ints | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return what is sent from a worker: all but the record, which is large."""
        return {name: value for name, value in vars(self).items() if name != "record"}

    @cached_property
    def pool(self) -> Floats:
        """Energy of the rows of all matched windows, sorted."""
        return np.sort(self.record.energy[self.windows.rows(self.record.test.n_rows)])

    def values(self, series: Floats) -> tuple[Floats, Floats]:
        """Return a series over the attack, and over the windows as a matrix."""
        own = series[self.segment.rows]
        return own, np.stack([series[s.rows] for s in self.windows.segments])

    def before(self, series: Floats) -> tuple[Floats, Floats] | None:
        """Return a series before the attack's label, and before each window."""
        if not (n_margin := self.windows.margins[0]):
            return None
        own = series[self.segment.start - n_margin : self.segment.start]
        return own, series[self.windows.starts[:, None] + np.arange(-n_margin, 0)]

    @property
    def scaled(self) -> Iterator[Floats]:
        """Rows of each stretch in units of the spread of train, one after the other."""
        # All of them would take as much memory as the rows.
        return (s.rows / self.record.units.spread for s in self.stretches)


def judge_cases(
    record: JudgedRecord,
    pairs: Sequence[tuple[Segment, AttackFreeWindows]],
    judge: Callable[[AttackCase], T],
    done: Callable[[int], None],
) -> list[T]:
    """Return the judgement of each attack, made side by side.

    The test is read as few times as memory allows. If it is divided among workers, each
    of their threads judges some attacks; cases then come back without their record.

    Parameters
    ----------
    record : JudgedRecord
        What is the same for all attacks.
    pairs : sequence of pair
        Rows of each attack, and the calm windows that it is compared with.
    judge : callable
        Judges one case.
    done : callable
        Called with 0, 1, ... as attacks are done.
    """
    parts = parts_of(record.test)
    if parts is None:
        return _judged_here(record, pairs, judge, done)
    # What all attacks need is found once, by a worker, and sent with the record.
    find = partial(local_covariances, record.test, record.calm.rows)
    [vars(record)["local"]] = make_calls(record.test, [find])
    costs = [
        CASE_ROWS + segment.length + len(windows.starts) * windows.length
        for segment, windows in pairs
    ]
    # Each lot reads the test at least once.
    lots = even_lots(costs, min(parts.runner.n_threads(), len(pairs)))
    calls = [
        partial(_judged_here, record, [pairs[k] for k in lot], judge, no_tick)
        for lot in lots
    ]
    found: dict[int, T] = {}
    for lot, judged in zip(lots, make_calls(record.test, calls), strict=True):
        found |= zip(lot, judged, strict=True)
        done(len(found) - 1)
    return [found[k] for k in range(len(pairs))]


def _judged_here(
    record: JudgedRecord,
    pairs: Sequence[tuple[Segment, AttackFreeWindows]],
    judge: Callable[[AttackCase], T],
    done: Callable[[int], None],
) -> list[T]:
    """Return the judgement of each attack, from rows that are read in this process."""
    judged: list[T] = []
    for wanted, chosen in _groups(record, pairs):
        held, n_before = gather_rows(record.test, wanted), len(judged)

        def judged_pair(pair: tuple[Segment, AttackFreeWindows]) -> T:
            return judge(_case(record, *pair, wanted, held))  # noqa: B023

        judged += map_threads(
            [partial(judged_pair, pair) for pair in chosen],
            lambda k: done(n_before + k),  # noqa: B023
        )
    return judged


def _groups(
    record: JudgedRecord, pairs: Sequence[tuple[Segment, AttackFreeWindows]]
) -> Iterator[tuple[Ints, Sequence[tuple[Segment, AttackFreeWindows]]]]:
    """Yield rows that fit into memory together, and the attacks that need no others."""
    most = max(MOST_VALUES // max(record.test.n_channels, 1), 1)
    if record.test.n_rows <= most:
        yield np.arange(record.test.n_rows), pairs
        return
    wanted, first = np.zeros(record.test.n_rows, np.bool_), 0
    for k, pair in enumerate(pairs):
        more = wanted | _needed(record, *pair)
        if k > first and np.count_nonzero(more) > most:
            yield np.flatnonzero(wanted), pairs[first:k]
            more, first = _needed(record, *pair), k
        wanted = more
    yield np.flatnonzero(wanted), pairs[first:]


def _needed(
    record: JudgedRecord, segment: Segment, windows: AttackFreeWindows
) -> Bools:
    """Return which rows of the test a case looks at."""
    needed = np.zeros(record.test.n_rows, np.bool_)
    for one in (segment, *windows.segments):
        needed[one.rows] = True
    needed[_with_margins(segment, windows).rows] = True
    for one in record.surroundings(segment, windows):
        for side in record.sides(one, windows.label_margins):
            needed[side] = True
    return needed


def _with_margins(segment: Segment, windows: AttackFreeWindows) -> Segment:
    """Return the rows of an attack with the margins of its label."""
    before, after = windows.margins
    return Segment(segment.start - before, segment.stop + after)


def _case(
    record: JudgedRecord,
    segment: Segment,
    windows: AttackFreeWindows,
    numbers: Ints,
    held: Floats,
) -> AttackCase:
    """Return one case from the rows `held`, whose numbers are `numbers`."""
    reference = record.scored.reference
    stretches = (segment, *windows.segments)
    sides = [
        record.sides(one, windows.label_margins)
        for one in record.surroundings(segment, windows)
    ]

    def mean_of(rows: Ints) -> Floats:
        if not len(rows):
            return reference.mean
        first, last = np.searchsorted(numbers, [rows[0], rows[-1] + 1])
        if last - first == len(rows):
            return np.asarray(held[first:last].mean(axis=0))
        return np.asarray(held[np.searchsorted(numbers, rows)].mean(axis=0))

    means = [(mean_of(before), mean_of(after)) for before, after in sides]
    calm_mean = np.mean([pair for pair in means[1:]], axis=(0, 1))
    moved = 0.5 * np.sum(((calm_mean - reference.mean) @ reference.whitening) ** 2)
    has_moved = bool(moved > GATE * np.sqrt(len(reference.mean) / 2))
    is_charitable = has_moved or Flag.STATE_CHANGED in windows.flags
    built = []
    for one, beside, pair in zip(stretches, sides, means, strict=True):
        first = np.searchsorted(numbers, one.start)
        rows = held[first : first + one.length]
        built.append(_centred(record, one, rows, beside, pair, is_charitable))
    extremes = places = None
    if record.extremes is not None:
        wide = _with_margins(segment, windows)
        first = np.searchsorted(numbers, wide.start)
        rows = held[first : first + wide.length]
        extremes, at = _largest(rows, record.extremes.centre)
        places = wide.start + at
    return AttackCase(
        record=record,
        segment=segment,
        windows=windows,
        stretches=tuple(built),
        has_moved=has_moved,
        is_charitable=is_charitable,
        extremes=extremes,
        extreme_rows=places,
    )


def _centred(
    record: JudgedRecord,
    segment: Segment,
    rows: Floats,
    sides: tuple[Ints, Ints],
    means: tuple[Floats, Floats],
    is_charitable: bool,
) -> CentredWindow:
    """Return rows about the line between the means of the calm rows beside them."""
    (before, after), (low, high) = sides, means
    line = low[None]
    if len(before) and before is not after:
        begin, end = before.mean(), after.mean()
        share = (np.arange(segment.start, segment.stop) - begin) / max(end - begin, 1.0)
        line = low + np.clip(share, 0, 1)[:, None] * (high - low)
    candidates = [rows - line]
    least = np.nan
    if is_charitable:
        whitening = record.scored.reference.whitening
        candidates += [rows - low, rows - high]
        left = [float(np.mean(energy_under(whitening, c))) for c in candidates]
        order = np.argsort(left, kind="stable")
        candidates, least = [candidates[k] for k in order], left[order[0]]
    return CentredWindow(
        segment=segment,
        rows=candidates[0],
        others=tuple(candidates[1:]),
        least_energy=float(least),
        deviates=_deviates(record, rows),
    )


def _largest(rows: Floats, centre: Floats) -> tuple[Floats, Ints]:
    """Return the largest distance of each channel from a centre, and its row."""
    distance = np.abs(rows - centre)
    at = np.argmax(distance, axis=0)
    return np.minimum(distance[at, np.arange(len(at))], 1e150), at


def _deviates(record: JudgedRecord, rows: Floats) -> Bools:
    """Return which channels leave their attack-free median in some rows."""
    known = record.extremes
    if known is None:
        return np.ones(rows.shape[1], np.bool_)
    low, high = known.centre - known.floor, known.centre + known.floor
    return np.asarray((rows.max(axis=0) > high) | (rows.min(axis=0) < low))
