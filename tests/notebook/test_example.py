"""The notebook among the examples runs, and shows what it is stored with."""

import re
from pathlib import Path

import nbformat
from executed_notebook import executed

PLACE = Path(__file__).parents[2] / "examples" / "notebook.ipynb"
STORED = nbformat.read(PLACE, 4)
MOST_BYTES = 400_000
_NUMBER = re.compile(r"[\d.,]+")


def outputs_of(notebook):
    """Return the outputs of each cell, by kind; numbers in a text do not count.

    Libraries of other versions may draw and round otherwise.
    """
    return [
        {
            kind: _NUMBER.sub("0", data) if kind == "text/plain" else len(data) > 500
            for output in cell.get("outputs", ())
            for kind, data in output.get("data", {"stream": output.get("text")}).items()
        }
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def test_the_stored_notebook_is_small_and_complete():
    assert PLACE.stat().st_size < MOST_BYTES
    shown = outputs_of(STORED)
    assert sum("text/html" in kinds for kinds in shown) >= 5
    assert sum("image/png" in kinds for kinds in shown) == 2
    counts = [c.execution_count for c in STORED.cells if c.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))


def test_the_notebook_runs_and_shows_the_same(tmp_path):
    again = executed(PLACE, tmp_path)
    assert outputs_of(again) == outputs_of(STORED)
    assert {"page.html", "paper", "rule.json"} <= {p.name for p in tmp_path.iterdir()}
