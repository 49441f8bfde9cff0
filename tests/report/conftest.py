import pytest
from report.plant import write_plant

from sightline import read_results
from sightline.report.entries import entries_of


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return write_plant(tmp_path_factory.mktemp("plant") / "results")


@pytest.fixture(scope="session")
def results(folder):
    return read_results([folder])


@pytest.fixture(scope="session")
def entries(results):
    return entries_of(results)
