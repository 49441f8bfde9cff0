"""Property tests draw the same examples each time, unless they are asked to roam.

A run that passed must pass again, or nobody trusts either. SIGHTLINE_FUZZ=50 draws
fifty times as many where files are damaged, and others each time everywhere. Where slow
tests are left out, a test draws a third of its examples.
"""

import os
from itertools import count
from unittest.mock import patch

import pytest
from hypothesis import is_hypothesis_test, settings

from sightline.testbeds import copies

# No deadline: a test must not depend on what else the machine does.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("roaming", derandomize=False, deadline=None)
settings.load_profile("roaming" if "SIGHTLINE_FUZZ" in os.environ else "steady")
# So many examples are drawn in any case, if the test asks for them.
FEW_EXAMPLES = 3


def pytest_collection_modifyitems(config, items):
    """Draw fewer examples in `make test`; `make test-all` draws all of them."""
    if "not slow" not in config.option.markexpr or "SIGHTLINE_FUZZ" in os.environ:
        return
    for test in {getattr(item, "function", None) for item in items}:
        if is_hypothesis_test(test):
            whole = getattr(test, "_hypothesis_internal_use_settings", settings())
            n = max(whole.max_examples // 3, min(whole.max_examples, FEW_EXAMPLES))
            test._hypothesis_internal_use_settings = settings(whole, max_examples=n)


@pytest.fixture(scope="session")
def _indexes(tmp_path_factory):
    """A folder, and a number for each test: `mktemp` looks through all it has made."""
    return tmp_path_factory.mktemp("indexes"), count()


@pytest.fixture(autouse=True)
def _index_of_copies(_indexes, monkeypatch):
    """Keep the user's index of copies, and where copies lie, out of the tests."""
    folder = _indexes[0] / str(next(_indexes[1]))
    monkeypatch.setattr(copies, "index_folder", lambda: folder)
    monkeypatch.delenv(copies.VARIABLE, raising=False)


@pytest.fixture
def unrendered():
    """Write figures for print without drawing them, which takes seconds.

    Not by monkeypatch, which undoes last what `quick_studies` changed before it: the
    stand-in then stayed for all later tests of the process.
    """
    from study_plans import unrendered

    with patch("sightline.report.print_figures.rendered", unrendered):
        yield


@pytest.fixture
def quick_studies():
    """Run the cells of studies in this process, and draw no figure for print."""
    from study_plans import quick_studies

    with quick_studies():
        yield
