"""Normalised residual energy: half the squared distance to the normal reference.

``e_t = (r_t - mu0)' S0^-1 (r_t - mu0) / 2``; high is far from normal; the mean is
p/2 where residuals follow the reference. No winsorising, no smoothing.

`score_rows` scores one table. `score_stream` fits the reference and scores train, test
and calibration; `ScoredTest` is the record on which every figure of a test is measured.

Of a stream of one score only larger values are anomalous: energy about the mean counts
a very low value as far from normal, which is right for a signed residual and wrong for
a score. A stream of one channel that is judged one-sided is measured upwards from a
floor instead: with ``y_t = max(r_t - floor, 0)`` its reference has mean 0 and variance
``E[y^2]`` of train, so that ``e_t = y_t^2 / (2 E[y^2])`` grows with the score, and its
mean on train is still 1/2. Every figure follows from this energy.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any, Protocol, cast

import numpy as np

from sightline.data import row_tables
from sightline.data.arrays import (
    ATTACK,
    NORMAL,
    Bools,
    Floats,
    Ints,
    Labels,
    Residuals,
)
from sightline.data.row_tables import CutRows, OverRows, Part, Rows, Tick, gather_rows
from sightline.data.segments import Attack, Segment
from sightline.data.stream import PARTS_KEY, ResidualStream
from sightline.energy.attack_free import AttackFreeTime
from sightline.energy.reference import (
    Moments,
    Reference,
    fit_reference,
    fold_moments,
    merged,
    scale_of,
    standardised_reference,
)
from sightline.errors import StreamError
from sightline.parallel import one_thread_each
from sightline.progress import Progress, Step, StepKind, silent
from sightline.text import names, plural

# Up to this many channels a product of so few rows is a tenth faster: libraries for
# linear algebra multiply small matrices without copying them first.
MOST_IN_SMALL_PRODUCT, SMALL_PRODUCT_ROWS = 62, 256
# A score that should not be negative may be, by this share of the largest, by rounding.
ROUNDING = 1e-9
SCORE_SPACE = "score"
# Channels named for a row, each with at least this share of its energy.
MOST_LEADING = 3
LEAST_PART = 0.1


class BlockWatch(Protocol):
    """What else is to be collected from whitened rows while they are in memory."""

    def begin(self, first: int, stop: int) -> Any:
        """Return a collector for rows [first, stop).

        Its ``take(start, whitened)`` is called with each block of rows and the number
        of its first row; the array is used again for the next block. Its ``ended()``
        returns what was collected.
        """


@dataclass(frozen=True, kw_only=True, eq=False)
class Scored:
    """The energy of a table of residuals, and what else the same pass shows.

    Parameters
    ----------
    energy : array of shape (n_rows,)
        Energy of each row.
    other_energy : array of shape (n_rows,), optional
        Energy under a second reference.
    max_z, excess_kurtosis : float, optional
        Of the symmetrically whitened coordinates of the rows that were counted; None
        without any, and the kurtosis also if fourth powers overflow.
    one_sided : array of bool, shape (p,)
        Which channels are never negative.
    scaled_fourth : float
        Sum over rows of the fourth power of the norm, in units of `scale`.
    collected : tuple
        What the `BlockWatch` collected, part by part.
    """

    energy: Floats
    other_energy: Floats | None
    one_sided: Bools
    max_z: float | None = None
    excess_kurtosis: float | None = None
    scaled_fourth: float = 0.0
    collected: tuple[Any, ...] = ()


@one_thread_each()
def energy_trace(residuals: object, reference: Reference) -> Floats:
    """Return the energy of every row.

    Parameters
    ----------
    residuals : array of shape (n, p), or Rows
        In the units the reference was fitted in.
    reference : Reference
        The normal reference.

    Returns
    -------
    array of shape (n,)
        Energy, at least 0; the larger, the further from normal.

    Raises
    ------
    StreamError
        If residuals are not finite or have other channels than the reference.

    Examples
    --------
    >>> from sightline import fit_reference
    >>> reference = fit_reference([[-2.0], [0.0], [0.0], [2.0]])  # variance 2
    >>> energy_trace([[0.0], [2.0], [-4.0]], reference).tolist()
    [0.0, 1.0, 4.0]
    """
    rows = _rows_for(residuals, reference)
    return score_rows(rows, reference, name="residuals", energy_only=True).energy


@one_thread_each()
def contributions(residuals: object, reference: Reference) -> Floats:
    """Return the part of the energy that each channel carries.

    ``c_tj = (r_tj - mu0_j) (S0^-1 (r_t - mu0))_j / 2``. A row's contributions add up
    to its energy; one may be negative if a channel explains another.

    Parameters
    ----------
    residuals : array of shape (n, p)
        In the units the reference was fitted in.
    reference : Reference
        The normal reference.

    Returns
    -------
    array of shape (n, p)
        Any sign; 0 for a channel at its normal mean.

    Raises
    ------
    StreamError
        If residuals are not finite or have other channels than the reference.

    Examples
    --------
    >>> from sightline import fit_reference
    >>> train = [[-2.0, 0.0], [2.0, 0.0], [0.0, -1.0], [0.0, 1.0]]
    >>> reference = fit_reference(train, estimator="empirical")
    >>> contributions([[2.0, 1.0]], reference).tolist()
    [[1.0, 1.0]]
    """
    rows = _rows_for(residuals, reference)
    parts = np.empty((rows.n_rows, rows.n_channels))
    for start, block in row_tables.read_on_grid(rows):
        parts[start : start + len(block)] = energy_parts(block, reference)
    if not np.isfinite(parts).all():
        row_tables.refuse_nonfinite(rows, "residuals", _numbered(rows))
    return parts


def energy_parts(rows: Residuals, reference: Reference) -> Floats:
    """Return the part of the energy of rows in memory that each channel carries."""
    centered = rows - reference.mean
    return np.asarray(0.5 * centered * (centered @ reference.precision))


def leading_channels(
    rows: Residuals, reference: Reference, channels: Sequence[str]
) -> list[tuple[str, ...]]:
    """Return the channels that carry most of the energy of each row.

    At most `MOST_LEADING`, the strongest first; beyond the first only those that carry
    at least `LEAST_PART` of what all carry.
    """
    found = []
    for part in energy_parts(rows, reference):
        carried = np.maximum(part, 0.0)
        order = np.argsort(-carried, kind="stable")[:MOST_LEADING].tolist()
        least = LEAST_PART * float(carried.sum())
        named = [j for k, j in enumerate(order) if not k or carried[j] >= least]
        found.append(tuple(channels[j] for j in named))
    return found


def _rows_for(residuals: object, reference: Reference) -> Rows:
    """Return residuals as rows with the channels of the reference."""
    rows = row_tables.as_rows(residuals, "residuals")
    if rows.n_channels != len(reference.mean):
        raise StreamError(
            f"`residuals` must have the {len(reference.mean)} channels of the "
            f"reference; got {rows.n_channels}."
        )
    return rows


def _numbered(rows: Rows) -> list[str]:
    """Return the numbers of the channels, for messages where there are no names."""
    return [str(j) for j in range(rows.n_channels)]


def score_rows(
    rows: Rows,
    reference: Reference,
    *,
    name: str,
    channels: Sequence[str] | None = None,
    counted: Bools | None = None,
    scale: Floats | None = None,
    other: Reference | None = None,
    watch: BlockWatch | None = None,
    energy_only: bool = False,
    tick: Tick = row_tables.no_tick,
) -> Scored:
    """Return the energy of every row, and what else the same pass shows.

    Parameters
    ----------
    rows : Rows
        The residuals.
    reference : Reference
        The normal reference.
    name, channels : str, sequence of str
        What to call the array and its channels in an error.
    counted : array of bool, optional
        Rows that count for `max_z` and `excess_kurtosis`; all when not given.
    scale : array of shape (p,), optional
        Units for `scaled_fourth`; 1 when not given.
    other : Reference, optional
        A second reference to score under.
    watch : BlockWatch, optional
        Takes in each block of symmetrically whitened rows.
    energy_only : bool
        Leave out `max_z` and `excess_kurtosis`, and with them symmetric whitening;
        without `counted` and `watch`.
    tick : callable
        Called with the number of rows of each block done.

    Raises
    ------
    StreamError
        If a row, or its energy, is not finite.
    """
    p = rows.n_channels
    task = partial(
        _score_part,
        mean=reference.mean,
        whitening=None if energy_only else reference.whitening,
        factor=reference.factor,
        weights=np.ones(p) if scale is None else scale**-2.0,
        other=None if other is None else (other.mean, other.factor),
        watch=watch,
    )
    if counted is None:
        counted = np.full(rows.n_rows, not energy_only)
    try:
        parts = list(row_tables.map_parts(rows, task, counted, tick=tick))
    except FloatingPointError:
        row_tables.refuse_nonfinite(rows, name, channels or _numbered(rows))
    largest = second = fourth = weighed = 0.0
    # Block after block, on whatever worker, so that the last bit is always the same.
    for top, two, four, weight in chain.from_iterable(sums for _, sums in parts):
        largest, second, fourth = max(largest, top), second + two, fourth + four
        weighed += weight
    n_values = int(counted.sum()) * p
    usable = n_values > 0 and 0 < second and np.isfinite(fourth)
    others = [p.other_energy for p, _ in parts if p.other_energy is not None]
    return Scored(
        energy=row_tables.joined([part.energy for part, _ in parts]),
        other_energy=row_tables.joined(others) if others else None,
        max_z=float(np.sqrt(largest)) if n_values else None,
        excess_kurtosis=fourth * n_values / second**2 - 3 if usable else None,
        one_sided=np.all([part.one_sided for part, _ in parts], axis=0),
        scaled_fourth=weighed,
        collected=tuple(one for part, _ in parts for one in part.collected),
    )


def _score_part(
    part: row_tables.Part,
    counted: Bools,
    *,
    mean: Floats,
    whitening: Floats | None,
    factor: Floats,
    weights: Floats,
    other: tuple[Floats, Floats] | None,
    watch: BlockWatch | None,
) -> tuple[Scored, list[tuple[float, float, float, float]]]:
    """Return the energies of a part of the rows, and the sums of each block."""
    from sightline._kernels.rows import center, energies

    n_rows, p = part.rows.n_rows, part.rows.n_channels
    step = row_tables.BLOCK_ROWS if p > MOST_IN_SMALL_PRODUCT else SMALL_PRODUCT_ROWS
    energy = np.empty(n_rows)
    other_energy = None if other is None else np.empty(n_rows)
    centered, whitened = np.empty((2, row_tables.BLOCK_ROWS, p))
    weighed = np.empty(row_tables.BLOCK_ROWS)
    unsigned = np.arange(p)
    sums = []
    collector = None
    if watch is not None:
        collector = watch.begin(part.first, part.first + n_rows)

    def whiten(y: Floats, matrix: Floats, z: Floats) -> None:
        for first in range(0, len(y), step):
            some = slice(first, first + step)
            np.matmul(y[some], matrix, out=z[some])

    # Overflow is looked for in the energies, and reported with its row and channel.
    with np.errstate(over="ignore", invalid="ignore"):
        for start, block in part.blocks():
            stop = start + len(block)
            y, z = centered[: len(block)], whitened[: len(block)]
            squares = weighed[: len(block)]
            center(block, mean, weights, y, squares)
            whiten(y, factor.T if whitening is None else whitening, z)
            top, two, four = energies(z, counted[start:stop], energy[start:stop])
            sums.append((top, two, four, float(squares @ squares)))
            if not np.isfinite(energy[start:stop]).all():
                raise FloatingPointError
            if collector is not None:
                collector.take(part.first + start, z)
            if other is not None and other_energy is not None:
                np.subtract(block, other[0], out=y)
                whiten(y, other[1].T, z)
                np.einsum("tj,tj->t", z, z, out=other_energy[start:stop])
                other_energy[start:stop] *= 0.5
            if len(unsigned):
                unsigned = unsigned[(block[:, unsigned] >= 0).all(axis=0)]
    scored = Scored(
        energy=energy,
        other_energy=other_energy,
        one_sided=np.isin(np.arange(p), unsigned),
        collected=() if collector is None else (collector.ended(),),
    )
    return scored, sums


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoredTest:
    """What every figure of a test record is measured on.

    Parameters
    ----------
    energy : array of shape (n_rows,)
        Energy of each test row under `reference`.
    labels : array of shape (n_rows,)
        1 attack, 0 normal, -1 ignored (a guard after attacks included).
    attacks : sequence of Attack
        The attacks in the order of their rows.
    breaks : array of int
        Rows at which a new recording begins; the first is 0.
    reference : Reference
        The model of normal operation, fitted on train.
    threshold : float
        The limit of the p99 rule (tau99): 1% of train energy exceeds it.
    alarms : array of bool, shape (n_rows,)
        Where energy is above `threshold`.
    attack_free : AttackFreeTime
        Which rows are attack-free, and why the others are not.
    own_alarms : array of bool, shape (n_rows,), optional
        Alarms of the user's own rule.
    step_s : float, optional
        Seconds a row.
    """

    energy: Floats
    labels: Labels
    attacks: Sequence[Attack]
    breaks: Ints
    reference: Reference
    threshold: float
    alarms: Bools
    attack_free: AttackFreeTime
    own_alarms: Bools | None = None
    step_s: float | None = None

    @property
    def n_rows(self) -> int:
        """Number of test rows."""
        return len(self.energy)

    @cached_property
    def segments(self) -> list[Segment]:
        """The rows of each attack."""
        return [attack.segment for attack in self.attacks]


@dataclass(frozen=True, kw_only=True, eq=False)
class Energies:
    """The reference and all energies: what needs the residuals themselves.

    Parameters
    ----------
    folds : list of Moments
        Moments of contiguous folds of train.
    moments : Moments
        Moments of all of train.
    reference : Reference
        The model of normal operation, fitted on train.
    rows : Rows
        The rows that the reference was fitted on.
    train, test : Scored
        Energy of these rows and of test, and what the same pass shows.
    standardised_train : array of shape (n_rows,), optional
        Energy of `rows` with each channel in units of its own spread; None without
        attacks, and for one channel, which has the same energy in any unit.
    train_mean : float
        Mean train energy.
    calibration_mean : float, optional
        Mean calibration energy; None without calibration residuals.
    """

    folds: list[Moments]
    moments: Moments
    reference: Reference
    rows: Rows
    train: Scored
    test: Scored
    standardised_train: Floats | None
    train_mean: float
    calibration_mean: float | None


def score_stream(
    stream: ResidualStream,
    labels: Labels,
    estimator: str,
    watch: BlockWatch | None,
    *,
    progress: Progress = silent,
    use_held_out: bool = False,
) -> Energies:
    """Fit the reference and return the energy of every row.

    Parameters
    ----------
    stream : ResidualStream
        The residuals, from their floor if they are judged one-sided (`as_judged`).
        Train is read twice (to fit, to score), and a third time with attacks (to score
        in units of each channel's spread), test and calibration once.
    labels : array of shape (n_test,)
        1 attack, 0 normal, -1 ignore.
    estimator : str
        One of `sightline.energy.reference.ESTIMATORS`.
    watch : BlockWatch, optional
        Collects from the whitened test rows.
    progress : callable
        Called with a `Step`: how many of all rows to be read are done.
    use_held_out : bool
        Whether the rows of `calibration` fit the reference too, as train rows.
    """
    learned, held_out = stream.train, stream.calibration
    # Train is read twice, or three times with attacks; test and calibration once.
    n_train = (3 if stream.p > 1 and (labels == ATTACK).any() else 2) * learned.n_rows
    total = n_train + stream.test.n_rows + (held_out.n_rows if held_out else 0)
    done = 0

    def stage(kind: StepKind, detail: str = "") -> Tick:
        def tick(rows: int) -> None:
            nonlocal done
            done += rows
            progress(Step(kind, done, total, detail))

        return tick

    if use_held_out and held_out is not None:
        learned, held_out = row_tables.JoinedRows((learned, held_out)), None
    folds = fold_moments(
        learned, channels=stream.channels, tick=stage(StepKind.FITTING_REFERENCE)
    )
    moments = merged(folds)
    reference = fit_reference(learned, estimator=estimator, moments=moments)
    if stream.one_sided:
        reference = reference.about_zero()

    def score(name: str, rows: Rows, under: Reference, **options: Any) -> Scored:
        tick, channels = stage(StepKind.SCORING, name), stream.channels
        return score_rows(
            rows, under, name=name, channels=channels, tick=tick, **options
        )

    train = score("train", learned, reference, scale=scale_of(moments))
    other = standardised_train = None
    if (labels == ATTACK).any():
        other = standardised_reference(moments, train.scaled_fourth)
        other = reference if stream.one_sided else other
    is_normal = labels == NORMAL
    test = score(
        "test", stream.test, reference, counted=is_normal, watch=watch, other=other
    )
    # A single channel has the same energy in any unit.
    if other is not None and stream.p > 1:
        standardised_train = score("train", learned, other, energy_only=True).energy
    calibration_mean = None
    if held_out is not None:
        calibration = score("calibration", held_out, reference, energy_only=True)
        # Energies may be so large that their sum overflows.
        with np.errstate(over="ignore"):
            calibration_mean = float(np.mean(calibration.energy))
    return Energies(
        folds=folds,
        moments=moments,
        reference=reference,
        rows=learned,
        train=train,
        test=test,
        standardised_train=standardised_train,
        train_mean=float(np.mean(train.energy)),
        calibration_mean=calibration_mean,
    )


# --- Streams of one score -------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class FlooredRows(OverRows):
    """Rows measured upwards from a floor; what lies below counts as the floor."""

    rows: Rows
    floor: float

    def chunks(self) -> Iterator[Residuals]:
        """Yield the rows of each chunk."""
        for chunk in self.rows.chunks():
            yield np.maximum(chunk - self.floor, 0.0)

    def between(self, first: int, stop: int) -> "FlooredRows":
        """Return the rows [first, stop)."""
        return FlooredRows(cast(CutRows, self.rows).between(first, stop), self.floor)


def as_judged(stream: ResidualStream) -> ResidualStream:
    """Return a stream with rows from their floor if it is judged one-sided.

    One-sided is a stream with `one_sided` True; if it is None, a stream of one channel
    whose space is ``"score"``, or that has no negative value in train up to rounding.
    The floor is 0 if train has no negative value, else the lowest value of train.

    Parameters
    ----------
    stream : ResidualStream
        Train is read once, if the stream has one channel.

    Returns
    -------
    ResidualStream
        With `one_sided` True; the same object if it is judged two-sided.

    Examples
    --------
    >>> judged = as_judged(ResidualStream([[0.0], [1.0], [2.0]], [[3.0]]))
    >>> judged.one_sided, as_judged(ResidualStream([[-1.0], [1.0]], [[3.0]])).one_sided
    (True, None)
    """
    if stream.p > 1 or stream.one_sided is False:
        return stream
    ranges = np.array(list(row_tables.map_parts(stream.train, _range_of_part)))
    low, high = float(ranges[:, 0].min()), float(ranges[:, 1].max())
    # Scoring refuses values that are not finite, and names the row.
    if not np.isfinite((low, high)).all():
        return stream
    is_positive = low >= -ROUNDING * high
    if not (stream.one_sided or stream.space == SCORE_SPACE or is_positive):
        return stream
    floor = 0.0 if is_positive else low
    given = ("train", "test", "calibration")
    tables: dict[str, Rows | None] = {name: getattr(stream, name) for name in given}
    floored = {k: FlooredRows(t, floor) for k, t in tables.items() if t is not None}
    return stream.replace(**floored, one_sided=True)


def _range_of_part(part: Part) -> tuple[float, float]:
    """Return the lowest and the highest value of a part of the rows."""
    ranges = [(block.min(), block.max()) for _, block in part.blocks() if len(block)]
    return float(np.min(ranges)), float(np.max(ranges))


def two_sided_energy(energy: Floats, reference: Reference, moments: Moments) -> Floats:
    """Return the energy about the mean of train of rows that were judged one-sided.

    Parameters
    ----------
    energy : array of shape (n_rows,)
        Their energy under the one-sided `reference`.
    reference, moments : Reference, Moments
        The one-sided reference, and the moments of the train rows from their floor.
    """
    height = np.sqrt(2.0 * energy * reference.covariance[0, 0])
    return np.asarray(0.5 * (height - moments.mean[0]) ** 2 / moments.covariance[0, 0])


def joined_parts(
    whole: ResidualStream, parts: Sequence[ResidualStream], begins: Sequence[float]
) -> ResidualStream:
    """Return the parts of a record as one test, on the scale of one model.

    Row r of part k becomes ``m + (r - m_k) (L L_k^-1)'``, where m_k and L_k L_k' are
    mean and covariance of the residuals that model k learned from, and m and L L' those
    of the model of all rows. So the energy of the row is that by model k's own
    reference, which has not seen the part, and alarm limits of all parts can be
    compared.

    Parameters
    ----------
    whole : ResidualStream
        Of the model of all parts; only its train is used.
    parts : sequence of ResidualStream
        Of the model of the other parts, in order of time.
    begins : sequence of float
        When each part begins; rows before are left out.

    Returns
    -------
    ResidualStream
        Without the detector's own score, which has another scale in each part.

    Raises
    ------
    StreamError
        If models have other channels, or no time stamps.
    """
    differ = {c for part in parts for c in {*part.channels} ^ {*whole.channels}}
    if differ or any(part.test_time is None for part in parts):
        raise StreamError(
            f"The models of the parts have different channels ({names(sorted(differ))})"
            ": leave `parts` out of plant.toml, or use another detector."
        )
    mean, lower = _scale(whole)
    columns: dict[str, list[Any]] = {"test": [], "labels": [], "test_time": []}
    telemetry, alarms, segments, breaks = [], [], [], []
    notices, n_rows = [*whole.notices], 0
    for k, (part, begin) in enumerate(zip(parts, begins, strict=True), start=1):
        own_mean, own_lower = _scale(part)
        time = np.asarray(part.test_time)
        first = int(np.searchsorted(time, begin))
        rows = np.arange(first, len(time))
        turned = np.linalg.solve(own_lower, (gather_rows(part.test, rows) - own_mean).T)
        columns["test"].append(mean + (lower @ turned).T)
        columns["labels"].append(part.labels[rows])
        columns["test_time"].append(time[rows])
        if part.telemetry_test is not None:
            telemetry.append(gather_rows(part.telemetry_test, rows))
        if part.alarms is not None:
            alarms.append(part.alarms[rows])
        later = part.test_breaks[part.test_breaks > first]
        breaks.append(n_rows + np.append(0, later - first))
        segments += [
            replace(
                attack,
                start=n_rows + max(attack.start - first, 0),
                stop=n_rows + attack.stop - first,
            )
            for attack in part.segments
            if attack.stop > first
        ]
        notices += [f"part {k}: {n}" for n in part.notices if n not in whole.notices]
        n_rows += len(rows)
    if whole.score is not None:
        notices.append("own rule: its score is left out; each part has another scale.")
    notices.insert(
        0,
        f"Each of {plural(len(parts), 'part')} of the record is judged by a model of "
        "the other parts, and by limits that were set on them; a model of all parts is "
        "saved for operation.",
    )
    return whole.replace(
        **{name: np.concatenate(arrays) for name, arrays in columns.items()},
        test_breaks=np.concatenate(breaks),
        segments=segments,
        telemetry_test=np.concatenate(telemetry) if telemetry else None,
        telemetry_train=whole.telemetry_train if telemetry else None,
        alarms=np.concatenate(alarms) if len(alarms) == len(parts) else None,
        score=None,
        step_s=whole.step_s,
        meta={**whole.meta, PARTS_KEY: list(map(float, begins))},
        notices=notices,
    )


def _scale(stream: ResidualStream) -> tuple[Floats, Floats]:
    """Return where residuals of train lie, and the lower factor of their covariance.

    Of a score the floor from which it is measured, and its mean square.
    """
    judged = as_judged(stream)
    if judged is stream:
        reference = fit_reference(stream.train, channels=stream.channels)
        lower = np.linalg.cholesky(reference.covariance)
        return reference.mean, np.asarray(lower, np.float64)
    rows: Rows = judged.train
    values = gather_rows(rows, np.arange(rows.n_rows))
    floor = float(getattr(rows, "floor", 0.0))
    return np.array([floor]), np.sqrt(np.mean(np.square(values), axis=0))[:, None]
