"""Plants to learn from: SWaT, WADI, HAI, BATADAL, SKAB, a simulated one, your own."""

from sightline.testbeds.base import Testbed, TestbedCard
from sightline.testbeds.catalogue import (
    READERS,
    WATERWORKS,
    list_testbeds,
    open_testbed,
)

__all__ = [
    "READERS",
    "WATERWORKS",
    "Testbed",
    "TestbedCard",
    "list_testbeds",
    "open_testbed",
]
