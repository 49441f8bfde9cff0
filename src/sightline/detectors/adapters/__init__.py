"""Anybody's detector in three lines; none of their libraries is imported here.

A residual stream of IPAL's state files needs no adapter: `sightline.read_stream` reads
the folder.
"""

from sightline.detectors.adapters.arrays import KnownExpectation, from_arrays
from sightline.detectors.adapters.function import FromFunction
from sightline.detectors.adapters.outlier import FromOutlierDetector
from sightline.detectors.adapters.regressor import FromRegressor

__all__ = [
    "FromFunction",
    "FromOutlierDetector",
    "FromRegressor",
    "KnownExpectation",
    "from_arrays",
]
