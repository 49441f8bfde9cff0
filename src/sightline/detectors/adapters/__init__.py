"""Users' models as detectors, in three lines; none of their libraries is imported.

A folder of IPAL's state files needs no adapter: `sightline.read_stream` reads it.
"""

from sightline.detectors.adapters.adapter import (
    FromFunction,
    KnownExpectation,
    from_arrays,
)
from sightline.detectors.adapters.models import (
    FromDarts,
    FromOutlierDetector,
    FromRegressor,
    FromStatsForecast,
    FromTimeSeriesLibrary,
)

__all__ = [
    "FromDarts",
    "FromFunction",
    "FromOutlierDetector",
    "FromRegressor",
    "FromStatsForecast",
    "FromTimeSeriesLibrary",
    "KnownExpectation",
    "from_arrays",
]
