"""What the rungs look at: limits, subspaces, accumulated traces, refits, telemetry."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np

from sightline.data.arrays import Bools, Floats, Ints
from sightline.data.row_tables import Rows, Tick, no_tick
from sightline.data.segments import Segment, segments_of
from sightline.data.stream import ResidualStream
from sightline.energy.energy import ScoredTest
from sightline.energy.reference import fit_reference
from sightline.errors import StreamError
from sightline.facts.telemetry import VIEWS, fit_one_step, views_of
from sightline.judgement import calm, subspaces
from sightline.judgement.calm import AboveLimit, CalmWindows
from sightline.judgement.refit import Refitted, folds_of, refit_all
from sightline.judgement.subspaces import Exceedances, Family
from sightline.judgement.verdicts import RungOutcome

SPANS = (30, 300)
# The sum adds what exceeds the median log energy by this many standard deviations.
SLACK = 0.5
_TINY = np.finfo(np.float64).tiny


class AccumulationKind(StrEnum):
    """How log energy is accumulated."""

    AVERAGE = "average"
    SUM = "cumulative sum"


@dataclass(frozen=True)
class Accumulation:
    """One way to accumulate log energy.

    Parameters
    ----------
    kind : AccumulationKind
        An exponentially weighted average, or a sum that never falls below 0.
    span : int
        Rows of the average's span; its weight is 2 / (span + 1). Of a sum 0.

    Examples
    --------
    >>> str(Accumulation(AccumulationKind.AVERAGE, 30))
    'average over 30'
    >>> Accumulation(AccumulationKind.SUM).phrase
    'a cumulative sum'
    """

    kind: AccumulationKind
    span: int = 0

    def __str__(self) -> str:
        """Return the name that files have."""
        return f"{self.kind} over {self.span}" if self.span else str(self.kind)

    @property
    def phrase(self) -> str:
        """The name as a part of a sentence."""
        return f"an {self} rows" if self.span else f"a {self}"

    @property
    def weight(self) -> float:
        """Weight of a new row in the average; 0 for the sum."""
        return 2 / (self.span + 1) if self.span else 0.0


WAYS = (
    *(Accumulation(AccumulationKind.AVERAGE, span) for span in SPANS),
    Accumulation(AccumulationKind.SUM),
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Accumulated:
    """Which rows are above the limit, for each way to accumulate.

    Parameters
    ----------
    above : dict of Accumulation to AboveLimit
        Rows whose accumulated log energy `BUDGET` of attack-free rows exceed.
    is_low : array of bool, shape (n_rows,)
        Rows whose shortest average is below the `BUDGET` quantile of attack-free rows:
        too little movement for a while.
    """

    above: dict[Accumulation, AboveLimit]
    is_low: Bools

    def judged(
        self, segment: Segment, windows: CalmWindows, near: CalmWindows
    ) -> tuple[RungOutcome, Accumulation]:
        """Return the best way for an attack against the best way of each calm window.

        The attack must stand out from all calm windows and from those near it: where
        normal operation drifts, energy accumulates without an attack.
        """
        ways = list(self.above)
        counts = [self.above[way].counts for way in ways]
        attack = [calm.coverage(of_way, segment) for of_way in counts]
        best = int(np.argmax(attack))
        among_all, among_near = (
            calm.judged(
                attack[best],
                np.max([calm.coverages(of_way, usual) for of_way in counts], axis=0),
                by=(str(ways[best]),),
            )
            for usual in (windows, near)
        )
        return among_all if not among_all.visible else among_near, ways[best]


def accumulated(scored: ScoredTest) -> Accumulated:
    """Accumulate log energy in each way.

    The traces start again at breaks and at both ends of each attack: what accumulated
    before an attack does not belong to it, nor does what it leaves behind belong to
    normal operation. Ignored rows change nothing.
    """
    resets = np.zeros(scored.n_rows, np.bool_)
    resets[scored.breaks] = True
    edges = [edge for s in scored.segments for edge in (s.start, s.stop)]
    resets[[row for row in edges if row < scored.n_rows]] = True
    is_counted = ~scored.is_ignored
    return accumulate_energy(scored.energy, scored.is_normal, is_counted, resets)


@np.errstate(over="ignore", invalid="ignore")
def accumulate_energy(
    energy: Floats, is_normal: Bools, is_counted: Bools, resets: Bools
) -> Accumulated:
    """Accumulate log energy in each way, starting again at each reset.

    An energy that overflowed to infinity makes limits undefined; then no row is above.
    """
    from sightline._kernels.rows import accumulate

    values = np.log(np.maximum(energy, _TINY))
    level = float(np.median(values[is_normal]))
    spread = float(np.std(values[is_normal]))
    traces = [
        accumulate(values, is_counted, resets, level, SLACK * spread, way.weight)
        for way in WAYS
    ]
    return Accumulated(
        above={
            way: AboveLimit(trace > np.quantile(trace[is_normal], 1 - calm.BUDGET))
            for way, trace in zip(WAYS, traces, strict=True)
        },
        is_low=traces[0] < np.quantile(traces[0][is_normal], calm.BUDGET),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """What the rungs look at, computed once for all attacks of a stream.

    Parameters
    ----------
    scored : ScoredTest
        Energy, labels, attacks and alarms.
    test : Rows
        Test residuals.
    windows : mapping of int to CalmWindows or None
        Calm windows for each length of an attack.
    recalibrated : AboveLimit
        Rows above the limit that `BUDGET` of attack-free test rows exceed.
    refitted : Refitted, optional
        The reference fitted on attack-free test rows, where they determine one.
    exceedances : Exceedances
        Rows above the limits of the subspaces.
    accumulated : Accumulated
        Rows above the limits of the accumulated traces.
    telemetry : Exceedances, optional
        The same as `exceedances` for the views of the telemetry.
    """

    scored: ScoredTest
    test: Rows
    windows: Mapping[int, CalmWindows | None]
    recalibrated: AboveLimit
    refitted: Refitted | None
    exceedances: Exceedances
    accumulated: Accumulated
    telemetry: Exceedances | None

    @cached_property
    def probe(self) -> AboveLimit:
        """Rows in alarm by the p99 rule."""
        return AboveLimit(self.scored.alarms)

    @cached_property
    def own_rule(self) -> AboveLimit | None:
        """Rows in alarm by the user's own rule."""
        alarms = self.scored.own_alarms
        return None if alarms is None else AboveLimit(alarms)


def gather_evidence(
    stream: ResidualStream, scored: ScoredTest, tick: Tick = no_tick
) -> Evidence:
    """Compute what all rungs need; residuals are read four times, telemetry twice.

    Parameters
    ----------
    stream : ResidualStream
        Test residuals, names and groups of channels, and telemetry if it was given.
    scored : ScoredTest
        Energy, labels, attacks and alarms of the same rows.
    tick : callable
        Called with the number of rows of each block read.
    """
    test, is_normal, energy = stream.test, scored.is_normal, scored.energy
    stretches = segments_of(is_normal, scored.breaks)
    windows = {
        length: calm.calm_windows(stretches, length)
        for length in {segment.length for segment in scored.segments}
    }
    family = subspaces.family_of(scored.reference, stream.channels, groups_of(stream))
    limits = subspaces.upper_quantiles(test, family, is_normal, tick)
    positions = positions_of(scored.segments, windows)
    return Evidence(
        scored=scored,
        test=test,
        windows=windows,
        exceedances=subspaces.count_above(test, family, limits, positions, tick),
        refitted=refit_all(test, folds_of(is_normal), tick),
        accumulated=accumulated(scored),
        recalibrated=AboveLimit(
            energy > np.quantile(energy[is_normal], 1 - calm.BUDGET)
        ),
        telemetry=gather_telemetry(stream, scored, positions, tick),
    )


def groups_of(stream: ResidualStream) -> dict[str, Sequence[str]]:
    """Return the groups of channels, for instance stages, in ``meta["groups"]``.

    An entry that is not a list of channels is left out.
    """
    groups = stream.meta.get("groups")
    return {
        str(name): [str(member) for member in members]
        for name, members in (groups.items() if isinstance(groups, Mapping) else ())
        if isinstance(members, Sequence) and not isinstance(members, str)
    }


def positions_of(
    segments: Sequence[Segment], windows: Mapping[int, CalmWindows | None]
) -> Ints:
    """Return all rows at which an attack or a window begins or ends, sorted."""
    edges = [np.array([segment.start, segment.stop]) for segment in segments]
    for of_length in windows.values():
        if of_length is not None:
            edges += [of_length.starts, of_length.stops]
    return np.unique(np.concatenate([np.zeros(1, np.int64), *edges]))


@np.errstate(over="ignore", invalid="ignore")
def gather_telemetry(
    stream: ResidualStream, scored: ScoredTest, positions: Ints, tick: Tick = no_tick
) -> Exceedances | None:
    """Count how often each view of the telemetry is beyond what is usual.

    Returns
    -------
    Exceedances or None
        One subspace for each view of each channel, and for each view of all channels
        together. None without telemetry, or where train telemetry never varies or is
        so large that its squares overflow.
    """
    train, test = stream.telemetry_train, stream.telemetry_test
    if train is None or test is None:
        return None
    try:
        model = fit_one_step(train, stream.train_breaks)
        views = views_of(train, stream.train_breaks, model)
        reference = fit_reference(views, estimator="ledoit-wolf-standardised")
    except (StreamError, np.linalg.LinAlgError):
        return None
    channels = stream.telemetry_channels
    d = len(channels)
    family = Family(
        reference=reference,
        channels=tuple(f"{name} ({view})" for view in VIEWS for name in channels),
        groups=tuple(
            (f"all channels ({view})", tuple(range(k * d, (k + 1) * d)))
            for k, view in enumerate(VIEWS)
        ),
        # A sum over different views has no meaning.
        largest=1,
    )
    # The first row after an attack is no surprise of normal operation.
    is_normal = scored.is_normal
    returns = np.flatnonzero(~is_normal[:-1] & is_normal[1:]) + 1
    begins = [scored.breaks, returns, np.flatnonzero(scored.is_ignored)]
    tested = views_of(test, np.unique(np.concatenate(begins)), model)
    limits = subspaces.upper_quantiles(tested, family, is_normal, tick)
    return subspaces.count_above(tested, family, limits, positions, tick)
