"""Users' models as detectors, in three lines; none of their libraries is imported.

A folder of IPAL's state files needs no adapter: `sightline.read_stream` reads it.
"""

from sightline.detectors.adapters.adapter import FromFunction
from sightline.detectors.adapters.arrays import KnownExpectation, from_arrays
from sightline.detectors.adapters.forecasters import FromDarts, FromStatsForecast
from sightline.detectors.adapters.models import FromOutlierDetector, FromRegressor
from sightline.detectors.adapters.time_series_library import FromTimeSeriesLibrary

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
