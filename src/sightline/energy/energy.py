"""Normalised residual energy: half the squared distance to the normal reference.

``e_t = (r_t - mu0)' S0^-1 (r_t - mu0) / 2``; high is far from normal; the mean is
p/2 where residuals follow the reference. No winsorising, no smoothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from sightline.data.arrays import Bools, Floats
from sightline.data.row_tables import (
    BLOCK_ROWS,
    Part,
    Rows,
    Tick,
    as_rows,
    joined,
    map_parts,
    no_tick,
    read_on_grid,
    refuse_nonfinite,
)
from sightline.energy.reference import Reference
from sightline.errors import StreamError


class Watcher(Protocol):
    """Shown each block of whitened rows, with its first row's number."""

    def take(self, start: int, whitened: Floats) -> None:
        """Take in a block; the array is used again for the next."""


class Watch(Protocol):
    """What else is to be made of whitened rows while they are there."""

    def between(self, first: int, stop: int) -> "Watch":
        """Return the same for some of the rows."""

    def begin(self) -> Any:
        """Return a `Watcher` for the rows."""

    def found(self, watcher: Any) -> Any:
        """Return what the watcher found."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Scored:
    """The energy of a table of residuals, and what its one pass showed besides.

    `max_z` and `excess_kurtosis` are those of the symmetrically whitened
    coordinates of the rows that were counted; `one_sided` tells which channels are
    never negative; `scaled_fourth` the sum over rows of the fourth power of the norm
    in units of `scale`; `beside` the energy under a second reference; `watched` what
    was found by who watched, part by part.
    """

    energy: Floats
    beside: Floats | None
    max_z: float | None
    excess_kurtosis: float | None
    one_sided: Bools
    scaled_fourth: float
    watched: tuple[Any, ...] = ()


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
    watch: Watch | None = None,
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
    watch : Watch, optional
        Shown each block of whitened rows.
    tick : callable
        Told the number of rows of each block done.
    """
    p = rows.n_channels
    task = partial(
        _score_part,
        mean=reference.mean,
        whitening=reference.whitening,
        weights=np.ones(p) if scale is None else scale**-2.0,
        beside=None if beside is None else (beside.mean, beside.whitening),
    )
    counted = np.ones(rows.n_rows, np.bool_) if counted is None else counted
    try:
        parts = list(map_parts(rows, task, counted, watch or _NOBODY, tick=tick))
    except FloatingPointError:
        refuse_nonfinite(rows, name, channels or _numbered(rows))
    largest = second = fourth = weighed = 0.0
    # Block after block, whoever summed them, so that the last bit is always the same.
    for part in parts:
        for top, two, four, weight in part.sums:
            largest, second, fourth = max(largest, top), second + two, fourth + four
            weighed += weight
    n_values = int(counted.sum()) * p
    usable = n_values > 0 and 0 < second and np.isfinite(fourth)
    return Scored(
        energy=joined([part.energy for part in parts]),
        beside=None
        if beside is None
        else joined([part.beside for part in parts if part.beside is not None]),
        max_z=float(np.sqrt(largest)) if n_values else None,
        excess_kurtosis=fourth * n_values / second**2 - 3 if usable else None,
        one_sided=np.all([part.one_sided for part in parts], axis=0),
        scaled_fourth=weighed,
        watched=tuple(part.watched for part in parts),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _ScoredPart:
    """What `Scored` is put together from; `sums` are those of each block."""

    energy: Floats
    beside: Floats | None
    sums: list[tuple[float, float, float, float]]
    one_sided: Bools
    watched: Any


def _score_part(
    part: Part,
    counted: Bools,
    watch: Watch,
    *,
    mean: Floats,
    whitening: Floats,
    weights: Floats,
    beside: tuple[Floats, Floats] | None,
) -> _ScoredPart:
    from sightline._kernels.residuals import center_and_weigh, energies

    n_rows, p = part.rows.n_rows, part.rows.n_channels
    energy = np.empty(n_rows)
    energy_beside = None if beside is None else np.empty(n_rows)
    centered, whitened = np.empty((2, BLOCK_ROWS, p))
    unsigned = np.arange(p)
    sums = []
    watcher = watch.begin()
    with np.errstate(all="ignore"):
        for start, block in part.blocks():
            stop = start + len(block)
            y, z = centered[: len(block)], whitened[: len(block)]
            weighed = center_and_weigh(block, mean, weights, y)
            np.matmul(y, whitening, out=z)
            top, two, four = energies(z, counted[start:stop], energy[start:stop])
            sums.append((top, two, four, weighed))
            if not np.isfinite(energy[start:stop]).all():
                raise FloatingPointError
            if watcher is not None:
                watcher.take(part.first + start, z)
            if beside is not None and energy_beside is not None:
                y = block - beside[0]
                energy_beside[start:stop] = energy_of_block(y, beside[1])
            if len(unsigned):
                unsigned = unsigned[(block[:, unsigned] >= 0).all(axis=0)]
    return _ScoredPart(
        energy=energy,
        beside=energy_beside,
        sums=sums,
        one_sided=np.isin(np.arange(p), unsigned),
        watched=watch.found(watcher),
    )


class _Nobody:
    """A watch that nobody keeps."""

    def between(self, first: int, stop: int) -> "_Nobody":
        return self

    def begin(self) -> None:
        return None

    def found(self, watcher: None) -> None:
        return None


_NOBODY = _Nobody()
