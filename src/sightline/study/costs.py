"""What a detector costs: CPU seconds of training and of scoring, memory, numbers kept.

Costs are measured where a cell runs and kept beside its stream in the cache. They
differ from run to run, so they are no part of any result, key or digest.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from sightline.show.phrases import words
from sightline.show.printed import PaperTable, one_group, text_cell
from sightline.show.table import Column, Columns, TableCell
from sightline.study.cell import Cache, Cell

COST = "cost.json"
_CAPTION = """\
Costs. CPU seconds of training and of turning both recordings into residuals, on one \
thread; the highest memory of the process while it did; and the numbers that a trained \
detector keeps. They hold for the machine that ran the study; a training that was \
interrupted and went on has no time."""


@dataclass(kw_only=True)
class CellCost:
    """What one cell cost.

    Parameters
    ----------
    train_cpu_s : float, optional
        CPU seconds of training; None if it went on from a checkpoint.
    score_cpu_s : float
        CPU seconds from the trained detector to residuals of train and test.
    peak_mib : float, optional
        Highest resident memory of the process, in MiB; None where the system does not
        say.
    n_numbers : int, optional
        Numbers that the saved detector holds; None if it is not saved.
    """

    train_cpu_s: float | None = None
    score_cpu_s: float = 0.0
    peak_mib: float | None = None
    n_numbers: int | None = None


@contextmanager
def cpu_seconds() -> Iterator[list[float]]:
    """Give a list that holds the CPU seconds of the body afterwards."""
    spent = [0.0]
    begun = time.process_time()
    try:
        yield spent
    finally:
        spent[0] = time.process_time() - begun


def forget_peak() -> None:
    """Let the highest memory of this process count from now on, where Linux can."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_mib() -> float | None:
    """Return the highest resident memory of this process since `forget_peak`, in MiB.

    None where there is no ``/proc``: other systems only know that since its start.
    """
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/self/status").read_text("ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return None


def numbers_in(path: Path) -> int | None:
    """Return how many numbers a saved detector holds; None if there is none."""
    if not path.is_file():
        return None
    with np.load(path, allow_pickle=False) as arrays:
        kept = [array for array in arrays.values() if array.dtype.kind in "fiu"]
        return int(sum(array.size for array in kept))


def write_cost(cost: CellCost, folder: Path) -> None:
    """Write what a cell cost beside its stream."""
    cost.peak_mib = peak_mib()
    cost.n_numbers = numbers_in(folder / "detector.npz")
    (folder / COST).write_bytes(msgspec.json.encode(cost) + b"\n")


def read_cost(cell: Cell, cache: Cache) -> CellCost | None:
    """Return what a cell cost; None if it was run by an earlier version."""
    try:
        text = cache.stream(cell).with_name(COST).read_bytes()
        return msgspec.json.decode(text, type=CellCost)
    except (OSError, msgspec.DecodeError):
        return None


CostRow = tuple[Cell, CellCost]


def _number(key: str, header: str, digits: int) -> Column[CostRow]:
    def get(row: CostRow) -> TableCell:
        value: float | None = getattr(row[1], key)
        printed = "-" if value is None else f"{value:,.{digits}f}"
        return TableCell(values=(value,), printed=words(printed))

    return Column(key, header, get, "r")


COSTS: Columns[CostRow] = (
    Column("testbed", "Testbed", lambda r: text_cell(r[0].testbed)),
    Column("detector", "Detector", lambda r: text_cell(r[0].detector)),
    Column("seed", "Seed", lambda r: text_cell(str(r[0].seed))),
    _number("train_cpu_s", "Training, CPU s", 2),
    _number("score_cpu_s", "Scoring, CPU s", 2),
    _number("peak_mib", "Memory, MiB", 0),
    _number("n_numbers", "Numbers kept", 0),
)


def cost_table(rows: Sequence[CostRow]) -> PaperTable:
    """Return the costs as a table that is written like the others."""
    return PaperTable(
        name="costs",
        caption=words(_CAPTION),
        columns=COSTS,
        groups=one_group(rows),
        grouped_by=None,
        wide=False,
    )
