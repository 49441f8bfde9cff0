"""Products of two and three channels in blocks, and their inner products."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Floats
from sightline.detectors.geco.inner_products import InnerProducts, Stretch
from sightline.detectors.geco.transitions import ROWS_AT_ONCE

# Products whose sums are gathered before they are judged, and kept after.
BLOCK = 8_192
# Products worked on at a time: with the rows at a time, 4 MB.
_PRODUCTS_AT_ONCE = 256

# All but the last channel of some products, as places among the factors: each factor
# behind them makes one product.
Head = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class ProductSums:
    """What products are made of, and their sums over the rows fitted on and the others.

    `sums` has, for each product, its inner products with all own lags, then with all
    changes, then its own sum; `squares` its sum of squares.
    """

    inputs: npt.NDArray[np.int16]
    sums: Floats
    squares: Floats


def product_blocks(n_factors: int, max_inputs: int) -> list[list[Head]]:
    """Return what products begin with, in their order, in blocks of bounded size.

    A product of one channel is a sum of one, and is left to the sums.
    """
    heads: list[Head] = []
    for size in range(1, max_inputs):
        heads += itertools.combinations(range(n_factors), size)
    blocks: list[list[Head]] = []
    filled = BLOCK
    for head in heads:
        count = n_factors - 1 - head[-1]
        if not count:
            continue
        if filled + count > BLOCK:
            blocks.append([])
            filled = 0
        blocks[-1].append(head)
        filled += count
    return blocks


def product_sums(
    heads: Sequence[Head], inner: InnerProducts, stretches: Iterable[Stretch]
) -> ProductSums:
    """Return the sums of all products that begin with these channels."""
    from sightline._kernels.formulas import build_products

    n_factors = len(inner.factors)
    counts = [n_factors - 1 - head[-1] for head in heads]
    inputs, pilots = _inputs_and_pilots(heads, counts, inner)
    sums = np.zeros((2, len(inputs), 2 * len(inner.targets) + 1))
    squares = np.zeros((2, len(inputs)))
    buffer = np.empty(
        (max(_PRODUCTS_AT_ONCE, n_factors), ROWS_AT_ONCE), inner.precision
    )
    for stretch in stretches:
        part = 0 if stretch.is_fitted else 1
        factors, told = stretch.factors, stretch.told
        built = buffer[:, : len(told)]
        done = held = 0
        for head, count in zip(heads, counts, strict=True):
            if held + count > len(built):
                sums[part, done : done + held] += built[:held] @ told
                done, held = done + held, 0
            factor = factors[head[0]]
            if len(head) == 2:
                factor = factor * factors[head[1]]
            rows = slice(done + held, done + held + count)
            build_products(
                factor,
                factors[head[-1] + 1 :],
                pilots[rows],
                built[held : held + count],
                squares[part, rows],
            )
            held += count
        sums[part, done : done + held] += built[:held] @ told
    return ProductSums(inputs, sums, squares)


def _inputs_and_pilots(
    heads: Sequence[Head], counts: Sequence[int], inner: InnerProducts
) -> tuple[npt.NDArray[np.int16], Floats]:
    """Return the channels of each product, and what is taken off its values.

    That is near the mean of the product: sums of squares keep their digits.
    """
    inputs = np.full((sum(counts), 3), -1, np.int16)
    pilots = np.empty(len(inputs))
    start = 0
    for head, count in zip(heads, counts, strict=True):
        rows = slice(start, start + count)
        first, last = inner.factors[list(head)], inner.factors[head[-1] + 1 :]
        inputs[rows, : len(head)] = first
        inputs[rows, len(head)] = last
        pilots[rows] = np.prod(inner.means[first]) * inner.means[last]
        start += count
    return inputs, pilots
