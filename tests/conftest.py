"""Property tests draw the same examples each time, unless they are asked to roam.

A run that passed must pass again, or nobody trusts either. SIGHTLINE_FUZZ=50 draws
fifty times as many where files are damaged, and others each time everywhere.
"""

import os

import pytest
from hypothesis import settings

from sightline.testbeds import copies

# No deadline: a test must not depend on what else the machine does.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("roaming", derandomize=False, deadline=None)
settings.load_profile("roaming" if "SIGHTLINE_FUZZ" in os.environ else "steady")


@pytest.fixture(autouse=True)
def _index_of_copies(tmp_path_factory, monkeypatch):
    """Keep the user's index of copies, and where copies lie, out of the tests."""
    folder = tmp_path_factory.mktemp("index") / "copies"
    monkeypatch.setattr(copies, "index_folder", lambda: folder)
    monkeypatch.delenv(copies.VARIABLE, raising=False)
