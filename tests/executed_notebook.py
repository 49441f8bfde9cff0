"""Run a notebook in a folder of its own, and keep its outputs: make notebook."""

import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient


def executed(path, folder):
    """Return a notebook with the outputs of a fresh kernel that runs in a folder."""
    notebook = nbformat.read(path, 4)
    client = NotebookClient(
        notebook, timeout=600, resources={"metadata": {"path": str(folder)}}
    )
    client.execute()
    for cell in notebook.cells:
        # Times of execution change with every run.
        cell.metadata.pop("execution", None)
    # So would the version of the interpreter.
    notebook.metadata.language_info = {"name": "python"}
    return notebook


if __name__ == "__main__":
    place = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as scratch:
        nbformat.write(executed(place, scratch), place)
