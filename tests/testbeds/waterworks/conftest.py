import pytest

from sightline.testbeds.waterworks import Scenario, Simulation, simulate


@pytest.fixture(scope="session")
def quick() -> Simulation:
    """One day of train, half a day of test, twelve attacks."""
    return simulate(quick=True)


@pytest.fixture(scope="session")
def peaceful() -> Simulation:
    """Two days without any attack."""
    return simulate(days_train=1, days_test=1, seed=3, scenario=Scenario())
