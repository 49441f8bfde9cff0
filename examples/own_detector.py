"""Bring a detector of your own: three lines each, whatever it is.

    python examples/own_detector.py

A regressor, an outlier detector, two arrays and a plain function, on a small simulated
plant in rows of a minute. It runs in seconds.
"""

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.linear_model import Ridge

import sightline
from sightline.detectors.adapters import (
    FromFunction,
    FromOutlierDetector,
    FromRegressor,
    from_arrays,
)

plant = sightline.open_testbed("waterworks", quick=True, seed=1)


def tell(stream, is_score=False):
    """Print how often an attack row outranks a normal one."""
    rank = sightline.evaluate(stream, intervals=False, diagnosis=False).rank
    # A score is ranked as it is: a very low one is not odd.
    value = rank.raw_roc_auc if is_score else rank.roc_auc
    print(f"{stream.name}: ROC-AUC {value:.2f}")


# A regressor of scikit-learn's kind, which forecasts a row from the last five.
detector = FromRegressor(Ridge(), lags=5, every=60)
detector.fit(plant.train)
tell(sightline.export_stream(detector, plant.train, plant.test))

# An outlier detector: scikit-learn's here; PyOD's and aeon's go the same way.
detector = FromOutlierDetector(IsolationForest(random_state=0), every=60)
detector.fit(plant.train)
tell(sightline.export_stream(detector, plant.train, plant.test), is_score=True)


# A function that says what is expected: here, that a row is like the one before.
def last_row(values):
    """Expect nothing of the first row, and of any other the row before it."""
    return np.vstack([np.full((1, values.shape[1]), np.nan), values[:-1]])


detector = FromFunction(last_row, every=60)
detector.fit(plant.train)
tell(sightline.export_stream(detector, plant.train, plant.test))

# Arrays, where the detector has done its work elsewhere: observed and expected.
train, test, labels = plant.train.values, plant.test.values, plant.test.labels
usual = np.median(train, axis=0)
arrays = from_arrays(train, 0 * train + usual, test, 0 * test + usual, labels=labels)
tell(sightline.export_stream(*arrays, name="median"))
