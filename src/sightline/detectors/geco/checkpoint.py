"""The file a search is kept in, to go on from if it is stopped."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from sightline.detectors.geco.closed_form import KEPT
from sightline.detectors.geco.product_blocks import BLOCK
from sightline.detectors.geco.search_state import SearchState
from sightline.detectors.geco.settings import GeCoSettings
from sightline.detectors.geco.transitions import Transitions
from sightline.detectors.saving import read_saved, write_saved
from sightline.errors import FileError

_KIND = "search checkpoint"


@dataclass(frozen=True)
class Checkpoint:
    """A file for one search: of these data with these settings, and no other.

    Parameters
    ----------
    path : path
        The file, which may not exist yet.
    fingerprint : str
        What the file must agree with, see `fingerprint_of`.
    channels : sequence of str
        Names of the columns.
    """

    path: Path
    fingerprint: str
    channels: Sequence[str]

    def state(self) -> SearchState | None:
        """Return how far the search is; none if it has not begun."""
        if not self.path.exists():
            return None
        about, arrays = read_saved(self.path)
        if about.get("kind") != _KIND:
            raise FileError(
                f"{self.path}: is not a checkpoint of a search: name another file."
            )
        if about.get("fingerprint") != self.fingerprint:
            raise FileError(
                f"{self.path}: is the checkpoint of another search (other data or "
                "settings): name another file, or delete it to begin anew."
            )
        try:
            return SearchState.of_arrays(arrays, self.channels)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise FileError(
                f"{self.path}: is not a whole checkpoint: delete it to begin anew."
            ) from error

    def keep(self, state: SearchState) -> None:
        """Write how far the search is."""
        about = {"kind": _KIND, "fingerprint": self.fingerprint}
        write_saved(self.path, about, state.arrays(self.channels))


def fingerprint_of(
    transitions: Transitions, settings: GeCoSettings, version: int
) -> str:
    """Return what a checkpoint must agree with: data, settings, detector's version."""
    digest = hashlib.sha256()
    for array in (transitions.values, transitions.rows):
        digest.update(np.ascontiguousarray(array).data)
    # The blocks count as well: how many are done means nothing without their size.
    known = [transitions.n_fitted, asdict(settings), KEPT, BLOCK, version]
    digest.update(json.dumps(known).encode())
    return digest.hexdigest()
