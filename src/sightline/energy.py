"""Normalised residual energy: half the squared distance to the normal reference.

``e_t = (r_t - mu0)' S0^-1 (r_t - mu0) / 2``; high is far from normal; the mean is
p/2 where residuals follow the reference. No winsorising, no smoothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sightline.checks import Bools, Floats
from sightline.errors import StreamError
from sightline.moments import Tick, no_tick
from sightline.reference import Reference
from sightline.rows import BLOCK_ROWS, Rows, as_rows, read_on_grid, refuse_nonfinite


@dataclass(frozen=True, kw_only=True, eq=False)
class Scored:
    """The energy of a table of residuals, and what its one pass showed besides.

    `max_z` and `excess_kurtosis` are those of the symmetrically whitened
    coordinates of the rows that were counted; `one_sided` tells which channels are
    never negative; `scaled_fourth` the sum over rows of the fourth power of the norm
    in units of `scale`; `beside` the energy under a second reference.
    """

    energy: Floats
    beside: Floats | None
    max_z: float | None
    excess_kurtosis: float | None
    one_sided: Bools
    scaled_fourth: float


def energy_of_block(centered: Floats, whitening: Floats) -> Floats:
    """Return the energies of rows that are centred already."""
    whitened = centered @ whitening
    return np.asarray(0.5 * np.einsum("tj,tj->t", whitened, whitened))


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
        Where residuals are not finite or have other channels than the reference.
    """
    rows = _rows_for(residuals, reference)
    return score_rows(rows, reference, name="residuals").energy


def contributions(residuals: object, reference: Reference) -> Floats:
    """Return the part of the energy that each channel carries.

    ``c_tj = (r_tj - mu0_j) (S0^-1 (r_t - mu0))_j / 2``. A row's contributions add up
    to its energy; one may be negative, where a channel explains another.

    Parameters
    ----------
    residuals : array of shape (n, p)
        In the units the reference was fitted in.
    reference : Reference
        The normal reference.

    Returns
    -------
    array of shape (n, p)
    """
    rows = _rows_for(residuals, reference)
    parts = np.empty((rows.n_rows, rows.n_channels))
    for start, block in read_on_grid(rows):
        centered = block - reference.mean
        parts[start : start + len(block)] = (
            0.5 * centered * (centered @ reference.precision)
        )
    if not np.isfinite(parts).all():
        refuse_nonfinite(rows, "residuals", _numbered(rows))
    return parts


def _rows_for(residuals: object, reference: Reference) -> Rows:
    """Return residuals as rows with the channels of the reference."""
    rows = as_rows(residuals, "residuals")
    if rows.n_channels != len(reference.mean):
        raise StreamError(
            f"`residuals` must have the {len(reference.mean)} channels of the "
            f"reference; got {rows.n_channels}."
        )
    return rows


def _numbered(rows: Rows) -> list[str]:
    return [str(j) for j in range(rows.n_channels)]


def score_rows(
    rows: Rows,
    reference: Reference,
    *,
    name: str,
    channels: Sequence[str] | None = None,
    counted: Bools | None = None,
    scale: Floats | None = None,
    beside: Reference | None = None,
    watch: Callable[[int, Floats], None] | None = None,
    tick: Tick = no_tick,
) -> Scored:
    """Score every row in one pass, and note what else the pass shows.

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
    beside : Reference, optional
        A second reference to score under.
    watch : callable, optional
        Shown each block of whitened rows, with its first row's number; the array is
        used again for the next block.
    tick : callable
        Told the number of rows of each block done.
    """
    from sightline.kernels.residuals import center_and_weigh, energies

    p = rows.n_channels
    counted = np.ones(rows.n_rows, np.bool_) if counted is None else counted
    weights = np.ones(p) if scale is None else scale**-2.0
    energy = np.empty(rows.n_rows)
    energy_beside = None if beside is None else np.empty(rows.n_rows)
    centered, whitened = np.empty((2, BLOCK_ROWS, p))
    unsigned = np.arange(p)
    largest = second = fourth = weighed = 0.0
    with np.errstate(all="ignore"):
        for start, block in read_on_grid(rows):
            stop = start + len(block)
            y, z = centered[: len(block)], whitened[: len(block)]
            weighed += center_and_weigh(block, reference.mean, weights, y)
            np.matmul(y, reference.whitening, out=z)
            top, two, four = energies(z, counted[start:stop], energy[start:stop])
            largest, second, fourth = max(largest, top), second + two, fourth + four
            if not np.isfinite(energy[start:stop]).all():
                refuse_nonfinite(rows, name, channels or _numbered(rows))
            if watch is not None:
                watch(start, z)
            if beside is not None and energy_beside is not None:
                y = block - beside.mean
                energy_beside[start:stop] = energy_of_block(y, beside.whitening)
            if len(unsigned):
                unsigned = unsigned[(block[:, unsigned] >= 0).all(axis=0)]
            tick(len(block))
    n_values = int(counted.sum()) * p
    usable = n_values > 0 and 0 < second and np.isfinite(fourth)
    return Scored(
        energy=energy,
        beside=energy_beside,
        max_z=float(np.sqrt(largest)) if n_values else None,
        excess_kurtosis=fourth * n_values / second**2 - 3 if usable else None,
        one_sided=np.isin(np.arange(p), unsigned),
        scaled_fourth=weighed,
    )
