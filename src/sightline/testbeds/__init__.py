"""Plants to learn from: SWaT, WADI, HAI, BATADAL, SKAB, a simulated one, your own.

==============================  ====================================================
`catalogue`                     which testbeds there are; `open_testbed`
`base`                          what a testbed is made of, what a reader must offer
`discovery`, `csv_reader`,      from a folder to parsed files of one release
`open_release`
`attack_tables`                 the attack lists that ship with the package
`swat`, `wadi`, `hai`,          one reader for each published testbed
`batadal`, `skab`
`own_plant`                     a folder with exports of your historian
`waterworks`                    the simulated plant
==============================  ====================================================

To add a testbed: write a module with a `Reader`, list it in `catalogue.READERS`, and
put its card into ``cards.toml``, its tags into ``tags.csv`` and its attack list into
``attack_lists/``.
"""

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
