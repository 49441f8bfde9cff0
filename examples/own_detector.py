"""Use your own model as a detector, in three lines.

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


def report(stream):
    """Print how often an attack row outranks a normal one, and the library's alarms."""
    evaluation = sightline.evaluate(stream, intervals=False, diagnosis=False)
    print(f"{stream.name}: ROC-AUC {evaluation.rank.roc_auc:.2f}")
    if evaluation.own_rule is not None:
        hits, n = evaluation.own_rule.hits, evaluation.stream.n_segments
        print(f"    its own alarms: in {hits} of {n} attacks")


# A regressor of scikit-learn's kind, which forecasts a row from the last five.
detector = FromRegressor(Ridge(), lags=5, every=60)
detector.fit(plant.train)
report(sightline.export_stream(detector, plant.train, plant.test))

# An outlier detector of scikit-learn; those of PyOD and aeon work the same way. Its
# score is judged one-sided: a very low one is not odd.
detector = FromOutlierDetector(IsolationForest(random_state=0), every=60)
detector.fit(plant.train)
report(sightline.export_stream(detector, plant.train, plant.test))


# A function that returns what is expected: here, the row before.
def last_row(values):
    """Return the row before each row; nan for the first row."""
    return np.vstack([np.full((1, values.shape[1]), np.nan), values[:-1]])


detector = FromFunction(last_row, every=60)
detector.fit(plant.train)
report(sightline.export_stream(detector, plant.train, plant.test))

# Arrays, if the model ran elsewhere: observed and expected values.
train, test, labels = plant.train.values, plant.test.values, plant.test.labels
usual = np.median(train, axis=0)
arrays = from_arrays(train, 0 * train + usual, test, 0 * test + usual, labels=labels)
report(sightline.export_stream(*arrays, name="median"))
