"""NSIBF's unscented filter, for many independent runs together, and what it reads.

Sigma points are those of Julier with kappa = 3 - n, so that weights sum to one and the
first is negative for more than three states. As published, they are not drawn again
between transition and measurement.

Two forms of the same algebra. The plain one builds the covariance S of the measurement
in full and is the reference. The whitened one never does: with R = LL', A the decoder's
last hidden layer at the sigma points about its mean, H its last map and M = H'R^-1 H,
the products that S would enter are G = AMA', and one system of as many unknowns as
there are sigma points gives gain and score.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from sightline.data.arrays import Bools, Floats, Ints
from sightline.data.recording import Role, Tag
from sightline.errors import StreamError
from sightline.progress import Progress, Step, StepKind
from sightline.text import names

Matrix = npt.NDArray[np.floating]
# Ridges tried on a covariance that does not factor, as shares of its mean diagonal.
_RIDGES = (0.0, *(10.0**-k for k in range(12, 0, -2)))
# Bounds between which a search draws sizes.
_DRAWN_LAYERS, _DRAWN_WIDTHS, _DRAWN_PENALTY = (1, 3), (32, 256), (0.0, 0.05)


@dataclass(frozen=True, eq=False)
class Design:
    """Which columns the network reads.

    Parameters
    ----------
    sensors : array of int
        Columns that are measured.
    actuators : array of int
        Columns read by their levels, one covariate a level.
    levels : tuple of array
        Of each actuator, in the order in which they first appear in train.
    numbers : array of int
        Columns that are not sensors and are read as numbers.
    """

    sensors: Ints
    actuators: Ints
    levels: tuple[Floats, ...]
    numbers: Ints

    @property
    def n_inputs(self) -> int:
        """Columns of a covariate row."""
        return len(self.sensors) + sum(map(len, self.levels)) + len(self.numbers)

    def apply(self, values: Matrix) -> Matrix:
        """Return covariate rows, sensors first; a level not in train gives zeros."""
        columns = [values[:, self.sensors]]
        for actuator, levels in zip(self.actuators, self.levels, strict=True):
            is_at = values[:, actuator, None] == levels.astype(values.dtype)
            columns.append(is_at.astype(values.dtype))
        columns.append(values[:, self.numbers])
        return np.concatenate(columns, axis=1)

    def remarks(
        self, values: Matrix, tags: Sequence[Tag], kept: Ints
    ) -> tuple[str, ...]:
        """Return sentences on tags that are not read, and on levels not in train."""
        remarks = []
        read = {*self.sensors, *self.actuators, *self.numbers}
        left = [tags[kept[k]].name for k in range(len(kept)) if k not in read]
        if left:
            remarks.append(
                f"NSIBF does not read {names(left, 4)} (neither sensor nor actuator; "
                "set other_tags to 'use' to read them)."
            )
        unknown = [
            tags[kept[column]].name
            for column, levels in zip(self.actuators, self.levels, strict=True)
            if not np.isin(values[:, column], levels.astype(values.dtype)).all()
        ]
        if unknown:
            remarks.append(
                f"NSIBF never saw some levels of {names(unknown, 4)} in train."
            )
        return tuple(remarks)


def design_of(
    values: Matrix, roles: Sequence[str], *, use_others: bool, most_levels: int
) -> Design:
    """Return the design for train.

    Parameters
    ----------
    values : array of shape (n_rows, n_channels)
        Train.
    roles : sequence of str
        Of each channel.
    use_others : bool
        Whether to read channels that are neither sensor nor actuator.
    most_levels : int
        A channel with more levels is read as a number.
    """
    role = np.array(roles)
    sensors = np.flatnonzero(role == Role.SENSOR)
    others = role != Role.SENSOR if use_others else role == Role.ACTUATOR
    actuators, levels, numbers = [], [], []
    for column in np.flatnonzero(others):
        distinct, first = np.unique(values[:, column], return_index=True)
        if len(distinct) > most_levels:
            numbers.append(column)
        else:
            actuators.append(column)
            levels.append(distinct[np.argsort(first)].astype(np.float64))
    return Design(
        sensors,
        np.array(actuators, np.int64),
        tuple(levels),
        np.array(numbers, np.int64),
    )


def filter_tracks(
    breaks: Ints, n_rows: int, *, window: int, reach: int, per_row: bool
) -> list[Ints]:
    """Return the rows at which each filter steps, the longest track first.

    A filter starts where a run has enough rows and steps a window at a time; with
    `per_row` there is one for each row of a window.

    Examples
    --------
    >>> filter_tracks(np.array([0]), 9, window=2, reach=3, per_row=True)
    [array([2, 4, 6, 8]), array([3, 5, 7])]
    """
    stops = np.append(breaks[1:], n_rows)
    tracks = [
        np.arange(start + reach - 1 + phase, stop, window)
        for start, stop in zip(breaks, stops, strict=True)
        for phase in range(window if per_row else 1)
    ]
    return sorted((t for t in tracks if len(t) > 1), key=len, reverse=True)


def measurements(values: Matrix, sensors: int, window: int) -> Callable[[Ints], Matrix]:
    """Return a function from rows to the windows that end there, sensor by sensor."""
    view = sliding_window_view(values[:, :sensors], window, axis=0)

    def at(rows: Ints) -> Matrix:
        return view[rows - window + 1].reshape(len(rows), -1)

    return at


def drawn_sizes(rng: np.random.Generator, sensors: int) -> dict[str, int | float]:
    """Return settings of the networks' sizes as the published search draws them."""
    low, high = _DRAWN_LAYERS
    return {
        "state": int(rng.integers(1, 3 * sensors + 1)),
        "encoder_layers": int(rng.integers(low, high + 1)),
        "transition_layers": int(rng.integers(low, high + 1)),
        "lstm_layers": int(rng.integers(low, high + 1)),
        "transition_width": int(rng.integers(*_DRAWN_WIDTHS, endpoint=True)),
        "lstm_width": int(rng.integers(*_DRAWN_WIDTHS, endpoint=True)),
        "penalty": float(rng.uniform(*_DRAWN_PENALTY)),
    }


def covariance_of(parts: list[Matrix]) -> Floats:
    """Return the sample covariance of rows that come in parts."""
    rows = np.concatenate(parts).astype(np.float64)
    return np.atleast_2d(np.cov(rows, rowvar=False, ddof=1))


def smallest_ridge(covariance: Floats) -> float:
    """Return the least ridge with which a covariance factors; 0 if it needs none.

    Raises
    ------
    StreamError
        If a tenth of the mean diagonal is not enough.
    """
    level = float(np.mean(np.diag(covariance))) or 1.0
    for share in _RIDGES:
        try:
            np.linalg.cholesky(covariance + share * level * np.eye(len(covariance)))
        except np.linalg.LinAlgError:
            continue
        return share * level
    raise StreamError(
        "NSIBF's measurement noise cannot be factored even with a ridge of a tenth of "
        "its mean: train has values that are not finite, or extreme ones."
    )


Array = npt.NDArray[Any]
Form = Literal["whitened", "plain"]
Repair = Literal["official", "corrected"]
# The sum of the spread of sigma points: n + kappa.
_SPREAD = 3.0
FIRST_VARIANCE = 1e-5


@dataclass(frozen=True, eq=False)
class Layers:
    """Dense layers with ReLU between them, as kernels (in, out) and biases."""

    kernels: tuple[Array, ...]
    biases: tuple[Array, ...]

    @classmethod
    def of(cls, arrays: Sequence[Array]) -> "Layers":
        """Return the layers of arrays in Keras' order: kernel, bias, kernel, ..."""
        return cls(tuple(arrays[::2]), tuple(arrays[1::2]))

    def hidden(self, x: Array) -> Array:
        """Return the last hidden layer, which is the input of a single layer."""
        for kernel, bias in zip(self.kernels[:-1], self.biases[:-1], strict=True):
            x = np.maximum(x @ kernel + bias, 0)
        return x

    def __call__(self, x: Array) -> Array:
        """Return the output of the last layer, before any activation."""
        return self.hidden(x) @ self.kernels[-1] + self.biases[-1]


class FilterStep(NamedTuple):
    """One step of all filters, arrays of shape (filters, ...).

    The last two are None in the whitened form.
    """

    state: Floats
    covariance: Floats
    prior: Floats
    prior_covariance: Floats
    expected: Floats
    innovation: Floats
    score: Floats
    is_repaired: Bools
    points: Floats
    moved_points: Array
    decoded_points: Array | None = None
    expected_covariance: Floats | None = None


class _MeasurementUpdate(NamedTuple):
    """What a measurement does: shift of the state, what its covariance loses, ..."""

    shift: Floats
    loss: Floats
    expected: Floats
    innovation: Floats
    # The squared distance of the innovation.
    square: Floats
    decoded_points: Array | None = None
    expected_covariance: Floats | None = None


class UnscentedFilter:
    """The filter for given networks and noise.

    Parameters
    ----------
    transition, decoder : sequence of array
        Dense layers of f (without its LSTM) and of h, in Keras' order.
    state_noise, measurement_noise : array
        Covariances Q, of shape (n, n) for n states, and R.
    form : {"whitened", "plain"}
        How it is computed; the numbers agree.
    repair : {"official", "corrected"}
        How a covariance that is not positive definite is repaired: the published code
        then uses the other triangle of the root.
    """

    def __init__(
        self,
        transition: Sequence[Array],
        decoder: Sequence[Array],
        state_noise: Floats,
        measurement_noise: Floats,
        *,
        form: Form = "whitened",
        repair: Repair = "official",
    ) -> None:
        self.transition, self.decoder = Layers.of(transition), Layers.of(decoder)
        self.n = n = len(self.decoder.kernels[0])
        self.dtype = self.decoder.kernels[0].dtype
        self.form, self.repair = form, repair
        self.state_noise = np.asarray(state_noise, np.float64).reshape(n, n)
        self.measurement_noise = np.asarray(measurement_noise, np.float64)
        self.weights = np.full(2 * n + 1, 1 / (2 * _SPREAD))
        self.weights[0] = (_SPREAD - n) / _SPREAD
        first = self.transition.kernels[0]
        self._from_state, self._from_code = first[:n], first[n:]
        self._further = Layers(self.transition.kernels[1:], self.transition.biases[1:])
        if form == "plain":
            return
        # The inverse of R becomes part of the decoder's last map.
        from scipy.linalg import solve_triangular

        try:
            root = np.linalg.cholesky(self.measurement_noise)
        except np.linalg.LinAlgError as error:
            raise StreamError(
                "The covariance of the measurement is not positive definite: the "
                "whitened form needs it to be; add a ridge, or take form 'plain'."
            ) from error
        eye = np.eye(len(root))
        self._whiten = solve_triangular(root, eye, lower=True)
        # (hidden, measured), whitened; the hidden layer of a one-layer decoder is its
        # input.
        self._last = self.decoder.kernels[-1].astype(np.float64) @ self._whiten.T
        self._inner = self._last @ self._last.T

    def code_part(self, codes: Array) -> Array:
        """Return what the LSTM's codes add to the first layer of the transition."""
        return codes.astype(self.dtype) @ self._from_code + self.transition.biases[0]

    def step(
        self, state: Floats, covariance: Floats, code: Array, measured: Floats
    ) -> FilterStep:
        """Return the filters after one more measurement.

        Parameters
        ----------
        state, covariance : array of shape (filters, n) and (filters, n, n)
            Before the step.
        code : array
            From `code_part`, of the covariates of the window before.
        measured : array of shape (filters, sensors * window)
            The new measurement.
        """
        root, is_repaired = self._roots(_SPREAD * covariance)
        middle = state[:, None]
        points = np.concatenate([middle, middle + root, middle - root], axis=1)
        moved = self._move(points, code)
        wide = moved.astype(np.float64)
        prior = self.weights @ wide
        distance = wide - prior[:, None]
        weighted = self.weights[:, None] * distance
        prior_covariance = distance.swapaxes(1, 2) @ weighted + self.state_noise
        update = self._plain if self.form == "plain" else self._whitened
        shift, loss, expected, innovation, square, decoded, spread = update(
            moved, weighted, measured
        )
        return FilterStep(
            state=prior + shift,
            covariance=prior_covariance - loss,
            prior=prior,
            prior_covariance=prior_covariance,
            expected=expected,
            innovation=innovation,
            # Never 0 where a quadratic form is negative.
            score=np.sqrt(np.where(square >= 0, square, np.nan)),
            is_repaired=is_repaired,
            points=points,
            moved_points=moved,
            decoded_points=decoded,
            expected_covariance=spread,
        )

    def _move(self, points: Floats, code: Array) -> Array:
        """Return the sigma points after the transition, in the networks' precision."""
        filters, count, n = points.shape
        first = points.astype(self.dtype).reshape(-1, n) @ self._from_state
        first = (first.reshape(filters, count, -1) + code[:, None]).reshape(
            filters * count, -1
        )
        if self._further.kernels:
            first = self._further(np.maximum(first, 0))
        moved: Array = np.tanh(first).reshape(filters, count, n)
        return moved

    def _plain(
        self, moved: Array, weighted: Floats, measured: Floats
    ) -> _MeasurementUpdate:
        """Return the update in the plain form, with the covariance of a measurement."""
        filters, count, n = moved.shape
        decoded = self.decoder(moved.reshape(-1, n)).reshape(filters, count, -1)
        wide = decoded.astype(np.float64)
        expected = self.weights @ wide
        spread = wide - expected[:, None]
        covariance = (
            spread.swapaxes(1, 2) @ (self.weights[:, None] * spread)
            + self.measurement_noise
        )
        inverse = _inverted(covariance)
        gain = weighted.swapaxes(1, 2) @ spread @ inverse
        innovation = measured - expected
        return _MeasurementUpdate(
            np.einsum("fij,fj->fi", gain, innovation),
            gain @ covariance @ gain.swapaxes(1, 2),
            expected,
            innovation,
            np.einsum("fi,fij,fj->f", innovation, inverse, innovation),
            decoded,
            covariance,
        )

    def _whitened(
        self, moved: Array, weighted: Floats, measured: Floats
    ) -> _MeasurementUpdate:
        """Return the update in the whitened form: one system of sigma points."""
        filters, count, n = moved.shape
        flat = self.decoder.hidden(moved.reshape(-1, n))
        hidden = flat.astype(np.float64).reshape(filters, count, -1)
        middle = self.weights @ hidden
        expected = middle @ self.decoder.kernels[-1].astype(np.float64)
        expected += self.decoder.biases[-1]
        spread = hidden - middle[:, None]
        innovation = measured - expected
        white = innovation @ self._whiten.T
        # Products of the whitened spread with itself, and with the innovation.
        inner = (spread.reshape(filters * count, -1) @ self._inner).reshape(
            filters, count, -1
        ) @ spread.swapaxes(1, 2)
        pulled = np.einsum("fck,fk->fc", spread, white @ self._last.T)
        system = np.eye(count) + inner * self.weights
        right = np.concatenate([pulled[:, :, None], inner @ weighted], axis=2)
        try:
            solved = np.asarray(np.linalg.solve(system, right), np.float64)
        except np.linalg.LinAlgError:
            solved = _inverted(system) @ right
        back = weighted.swapaxes(1, 2)
        square = np.einsum("fi,fi->f", white, white) - np.einsum(
            "fc,c,fc->f", pulled, self.weights, solved[:, :, 0]
        )
        return _MeasurementUpdate(
            (back @ solved[:, :, :1])[:, :, 0],
            back @ solved[:, :, 1:],
            expected,
            innovation,
            square,
        )

    def _roots(self, spreads: Floats) -> tuple[Floats, Bools]:
        """Return roots whose rows are the offsets of the sigma points."""
        # The upper triangle is read, and the upper root is taken by rows.
        flipped = spreads.swapaxes(1, 2)
        try:
            roots = np.asarray(np.linalg.cholesky(flipped), np.float64)
            return roots.swapaxes(1, 2), np.zeros(len(spreads), np.bool_)
        except np.linalg.LinAlgError:
            pass
        roots = np.empty_like(spreads)
        is_repaired = np.zeros(len(spreads), np.bool_)
        for k, one in enumerate(flipped):
            try:
                roots[k] = np.linalg.cholesky(one).T
            except np.linalg.LinAlgError:
                lower = repaired_root(spreads[k])
                roots[k] = lower if self.repair == "official" else lower.T
                is_repaired[k] = True
        return roots, is_repaired


def repaired_root(matrix: Floats) -> Floats:
    """Return the lower root of the nearest positive definite matrix (Higham, 1988).

    All nan where there is none: a matrix that is not finite cannot be repaired.
    """
    if not np.isfinite(matrix).all():
        return np.full_like(matrix, np.nan)
    middle = (matrix + matrix.T) / 2
    _, values, rows = np.linalg.svd(middle)
    polar = rows.T @ (values[:, None] * rows)
    near = (middle + polar) / 2
    near = (near + near.T) / 2
    gap = np.spacing(np.linalg.norm(matrix))
    eye = np.eye(len(matrix))
    for k in range(1, 100):
        try:
            return np.linalg.cholesky(near)
        except np.linalg.LinAlgError:
            least = float(np.min(np.real(np.linalg.eigvals(near))))
            near = near + eye * (-least * k**2 + gap)
    return np.full_like(matrix, np.nan)


def _inverted(matrices: Floats) -> Floats:
    """Return inverses; nan for a singular matrix."""
    inverses = np.full_like(matrices, np.nan)
    for k, matrix in enumerate(matrices):
        with suppress(np.linalg.LinAlgError):
            inverses[k] = np.linalg.inv(matrix)
    return inverses


@dataclass(frozen=True, eq=False)
class FilterRun:
    """Results of all filters, track after track, one row for each step.

    Parameters
    ----------
    values : array of shape (n_steps, sensors)
        Innovation of the newest row of each window.
    score : array of shape (n_steps,)
        Mahalanobis distance of the whole innovation; nan where it is undefined.
    is_repaired, is_lost : array of shape (n_steps,)
        Steps with a repaired covariance, and steps after which a filter restarted.
    """

    values: Floats
    score: Floats
    is_repaired: Bools
    is_lost: Bools


def run_filters(
    filters: UnscentedFilter,
    tracks: Sequence[Ints],
    *,
    window: int,
    codes: Sequence[Array],
    measured: Callable[[Ints], Array],
    first_states: Callable[[Ints], Floats],
    progress: Progress,
) -> FilterRun:
    """Return the results of all filters, which step together.

    A filter whose state is not finite restarts from the measurement.

    Parameters
    ----------
    filters : UnscentedFilter
        For all tracks.
    tracks : sequence of array of int
        Rows of each track, the longest first.
    window : int
        Rows of a measurement.
    codes : sequence of array
        What `code_part` makes of the codes of each track.
    measured, first_states : callable
        From rows to the measurements that end there, and to the states of these.
    progress : callable
        Called with a `Step`.
    """
    n = filters.n
    states = first_states(np.array([track[0] for track in tracks]))
    covariances = np.tile(FIRST_VARIANCE * np.eye(n), (len(tracks), 1, 1))
    sensors = measured(tracks[0][:1]).shape[1] // window
    lengths = [len(track) - 1 for track in tracks]
    longest, total, done = lengths[0], sum(lengths), 0
    run = FilterRun(
        values=np.empty((total, sensors)),
        score=np.empty(total),
        is_repaired=np.zeros(total, np.bool_),
        is_lost=np.zeros(total, np.bool_),
    )
    places = np.append(0, np.cumsum(lengths))[:-1]
    for t in range(1, longest + 1):
        going = sum(len(track) > t for track in tracks)
        rows = np.array([track[t] for track in tracks[:going]])
        x = measured(rows).astype(np.float64)
        code = np.stack([part[t - 1] for part in codes[:going]])
        with np.errstate(all="ignore"):
            step = filters.step(states[:going], covariances[:going], code, x)
        is_lost = np.asarray(
            ~np.isfinite(step.state).all(1) | ~np.isfinite(step.covariance).all((1, 2))
        )
        states[:going], covariances[:going] = step.state, step.covariance
        if is_lost.any():
            lost = np.flatnonzero(is_lost)
            states[lost] = first_states(rows[lost])
            covariances[lost] = FIRST_VARIANCE * np.eye(n)
        place = places[:going] + t - 1
        run.values[place] = step.innovation[:, window - 1 :: window]
        run.score[place] = step.score
        run.is_repaired[place], run.is_lost[place] = step.is_repaired, is_lost
        done += going
        if t % 50 == 0 or t == longest:
            progress(Step(StepKind.RESIDUALS, done, total, "by NSIBF, filter"))
    return run
