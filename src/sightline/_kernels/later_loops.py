"""Compile the loops that an evaluation needs later; see `sightline._kernels.beside`.

Run as a program; it ends when it has compiled all, or when its input is closed.
"""

import os
from threading import Event, Thread
from typing import Any

from numba import types

from sightline._kernels import alarms, draws, ladder


def _arrays(kind: Any) -> list[Any]:
    """Return the types of arrays in C order, by their number of dimensions."""
    return [kind, *(types.Array(kind, n, "C") for n in (1, 2, 3))]


def later_loops() -> list[tuple[Any, tuple[Any, ...]]]:
    """Return loops, and the types of their arguments, in the order of an evaluation.

    Those that score rows are not here, nor the one that fills the windows of attacks:
    they are needed before this process could compile them. Residuals are of single or
    of double precision.
    """
    (number, f1, f2, f3), (_, _, r2, _) = map(_arrays, (types.float64, types.float32))
    (count, i1, i2, _), (_, c1, _, _) = map(_arrays, (types.int64, types.int32))
    _, b1, b2, _ = _arrays(types.boolean)
    named: Any = types.NamedTuple
    ranked = named((c1, b1, b1, i1), draws.AllRows)
    return [
        (alarms.view_rows, (r2, f1, i1, i2, f2, f2)),
        (alarms.view_rows, (f2, f1, i1, i2, f2, f2)),
        (alarms.average_rows, (f2, f1, number, f1)),
        (alarms.unit_energies, (f2, i1, f2)),
        (alarms.take_tails, (f2, f2)),
        (alarms.largest_unit, (f2, f1, f1, f1, i1)),
        (alarms.join_members, (b2, count, count, i2, b1, b2)),
        (alarms.latch, (b1, count, count, count, i1, b1)),
        (draws.chance_ranks, (ranked, i1, i1, c1, number, f1, c1, f1, f1, f1)),
        (ladder.average_stretch, (f2, f2, f1, number, f1, f1, f2, f2, f1)),
        (ladder.half_sums, (f2, b1, f3)),
        (ladder.group_energies, (f2, b1, i2, f3, i1, f1, f2)),
        (ladder.describe_draws, (f2, i2, count, f2)),
        (alarms.restarting_sum, (f1, b1, number, number, b1)),
    ]


def main() -> None:
    """Compile the loops one by one, until standard input is closed."""
    is_over = Event()

    def wait() -> None:
        os.read(0, 1)
        is_over.set()

    Thread(target=wait, daemon=True).start()
    for loop, arguments in later_loops():
        if is_over.is_set():
            return
        loop.compile(arguments)


if __name__ == "__main__":
    main()
