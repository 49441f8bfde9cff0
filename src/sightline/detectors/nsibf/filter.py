"""NSIBF's unscented filter, for many independent runs side by side.

Sigma points are those of Julier with kappa = 3 - n, so that weights sum to one and the
first is negative for more than three states. They are not drawn anew between
transition and measurement, as published.

Two forms of the same algebra. The plain one builds the covariance S of the measurement
in full and is the reference. The whitened one never does: with R = LL', A the decoder's
last hidden layer at the sigma points about its mean, H its last map and M = H'R^-1 H,
the products that S would enter are G = AMA', and one system of as many unknowns as
there are sigma points gives gain and score.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Bools, Floats
from sightline.errors import StreamError

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
        """Return layers of arrays that come in Keras' order."""
        return cls(tuple(arrays[::2]), tuple(arrays[1::2]))

    def hidden(self, first: Array) -> Array:
        """Return the last hidden layer from the first one before its ReLU."""
        x = np.maximum(first, 0)
        for kernel, bias in zip(self.kernels[1:-1], self.biases[1:-1], strict=True):
            x = np.maximum(x @ kernel + bias, 0)
        return x

    def __call__(self, x: Array) -> Array:
        """Return what the last layer gives, before any activation."""
        if len(self.kernels) > 1:
            x = self.hidden(x @ self.kernels[0] + self.biases[0])
        return x @ self.kernels[-1] + self.biases[-1]


class FilterStep(NamedTuple):
    """One step of all filters, (filters, ...) each; some only in the plain form."""

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


class UnscentedFilter:
    """The filter for given networks and noise.

    Parameters
    ----------
    transition, decoder : sequence of array
        Dense layers of f (its LSTM apart) and of h, in Keras' order.
    state_noise, measurement_noise : array
        Q and R.
    form : {"whitened", "plain"}
        How it is computed; the numbers agree.
    repair : {"official", "corrected"}
        How a covariance that is not positive definite is repaired: the published code
        then takes the other triangle of the root.
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
        if form == "whitened":
            self._fold_in()

    def _fold_in(self) -> None:
        """Fold the inverse of R into the decoder's last map, once."""
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
        # (hidden, measured), whitened; a decoder of one layer has its input for hidden.
        self._last = self.decoder.kernels[-1].astype(np.float64) @ self._whiten.T
        self._inner = self._last @ self._last.T

    def code_part(self, codes: Array) -> Array:
        """Return what the LSTM's codes add in the first layer of the transition."""
        return codes.astype(self.dtype) @ self._from_code + self.transition.biases[0]

    def step(
        self, state: Floats, covariance: Floats, code: Array, measured: Floats
    ) -> FilterStep:
        """Go on by one measurement; arguments are (filters, ...) each.

        `code` is what `code_part` made of the covariates of the window before.
        """
        root, is_repaired = self._roots(_SPREAD * covariance)
        points = np.concatenate(
            [
                state[:, None],
                state[:, None] + root,
                state[:, None] - root,
            ],
            axis=1,
        )
        moved = self._move(points, code)
        wide = moved.astype(np.float64)
        prior = self.weights @ wide
        apart = wide - prior[:, None]
        weighed = self.weights[:, None] * apart
        prior_covariance = apart.swapaxes(1, 2) @ weighed + self.state_noise
        solve = self._plain if self.form == "plain" else self._whitened
        return solve(
            points=points,
            moved=moved,
            prior=prior,
            apart=apart,
            weighed=weighed,
            prior_covariance=prior_covariance,
            measured=measured,
            is_repaired=is_repaired,
        )

    def _move(self, points: Floats, code: Array) -> Array:
        """Return the sigma points after the transition, in the networks' precision."""
        filters, count, n = points.shape
        first = points.astype(self.dtype).reshape(-1, n) @ self._from_state
        first = (first.reshape(filters, count, -1) + code[:, None]).reshape(
            filters * count, -1
        )
        if len(self.transition.kernels) > 1:
            hidden = self.transition.hidden(first)
            first = hidden @ self.transition.kernels[-1] + self.transition.biases[-1]
        moved: Array = np.tanh(first).reshape(filters, count, n)
        return moved

    def _plain(
        self,
        *,
        points: Floats,
        moved: Array,
        prior: Floats,
        apart: Floats,
        weighed: Floats,
        prior_covariance: Floats,
        measured: Floats,
        is_repaired: Bools,
    ) -> FilterStep:
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
        gain = weighed.swapaxes(1, 2) @ spread @ inverse
        innovation = measured - expected
        square = np.einsum("fi,fij,fj->f", innovation, inverse, innovation)
        return FilterStep(
            state=prior + np.einsum("fij,fj->fi", gain, innovation),
            covariance=prior_covariance - gain @ covariance @ gain.swapaxes(1, 2),
            prior=prior,
            prior_covariance=prior_covariance,
            expected=expected,
            innovation=innovation,
            score=_root_of(square),
            is_repaired=is_repaired,
            points=points,
            moved_points=moved,
            decoded_points=decoded,
            expected_covariance=covariance,
        )

    def _whitened(
        self,
        *,
        points: Floats,
        moved: Array,
        prior: Floats,
        apart: Floats,
        weighed: Floats,
        prior_covariance: Floats,
        measured: Floats,
        is_repaired: Bools,
    ) -> FilterStep:
        filters, count, n = moved.shape
        flat = moved.reshape(-1, n)
        if len(self.decoder.kernels) > 1:
            flat = self.decoder.hidden(
                flat @ self.decoder.kernels[0] + self.decoder.biases[0]
            )
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
        right = np.concatenate([pulled[:, :, None], inner @ weighed], axis=2)
        solved = _solved(system, right)
        back = weighed.swapaxes(1, 2)
        state = prior + (back @ solved[:, :, :1])[:, :, 0]
        square = np.einsum("fi,fi->f", white, white) - np.einsum(
            "fc,c,fc->f", pulled, self.weights, solved[:, :, 0]
        )
        return FilterStep(
            state=state,
            covariance=prior_covariance - back @ solved[:, :, 1:],
            prior=prior,
            prior_covariance=prior_covariance,
            expected=expected,
            innovation=innovation,
            score=_root_of(square),
            is_repaired=is_repaired,
            points=points,
            moved_points=moved,
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

    Rows of nan where there is none: a matrix that is not finite cannot be repaired.
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
    try:
        return np.asarray(np.linalg.inv(matrices), np.float64)
    except np.linalg.LinAlgError:
        return np.stack([_inverse_or_nan(one) for one in matrices])


def _inverse_or_nan(matrix: Floats) -> Floats:
    try:
        return np.asarray(np.linalg.inv(matrix), np.float64)
    except np.linalg.LinAlgError:
        return np.full_like(matrix, np.nan)


def _solved(systems: Floats, right: Floats) -> Floats:
    try:
        return np.asarray(np.linalg.solve(systems, right), np.float64)
    except np.linalg.LinAlgError:
        return np.stack(
            [_inverse_or_nan(a) @ b for a, b in zip(systems, right, strict=True)]
        )


def _root_of(square: Floats) -> Floats:
    """Return square roots; nan where a form is negative, as it can be, never 0."""
    return np.sqrt(np.where(square >= 0, square, np.nan))
