"""Is the reference stable: how energy is spread in train, test and attacks."""

from typing import Any

import numpy as np

from sightline.data.arrays import ATTACK, NORMAL, Floats
from sightline.report.array_encoding import log_energy
from sightline.report.entries import Entry

BINS = 80
# Quantiles drawn: few at the bulk, many towards the upper tail.
LEVELS = np.unique(
    np.concatenate(
        [np.linspace(0.01, 0.95, 60), 1 - np.geomspace(0.05, 1e-4, 60), [0.99]]
    )
)
NAMES = {"train": "train", "normal": "test, no attack", "attack": "test, attack"}


def energies(entry: Entry) -> dict[str, Floats]:
    """Return the energies of train (its quantiles), normal test rows and attacks."""
    traces = entry.traces
    labels, energy = traces["labels"], traces["test_energy"]
    # What is kept of train is its extremes; its quantiles stand for all of it.
    train = traces.get("train_quantiles", traces["train_energy"])
    return {
        "train": train,
        "normal": energy[labels == NORMAL],
        "attack": energy[labels == ATTACK],
    }


def spread_figure(entry: Entry) -> dict[str, Any]:
    """Return densities of log energy, on one grid from the 0.1 to the 99.9 per cent."""
    logs = {name: log_energy(values) for name, values in energies(entry).items()}
    there = {name: values for name, values in logs.items() if len(values)}
    low = min(float(np.quantile(values, 0.001)) for values in there.values())
    high = max(float(np.quantile(values, 0.999)) for values in there.values())
    edges = np.linspace(low, high if high > low else low + 1.0, BINS + 1)
    return {
        "at": _rounded(10 ** ((edges[:-1] + edges[1:]) / 2)),
        "density": {name: _density(values, edges) for name, values in there.items()},
        "median": {
            name: float(10 ** np.median(values)) for name, values in there.items()
        },
    }


def _density(values: Floats, edges: Floats) -> list[float]:
    """Return a density whose highest bar is 1, for shapes are compared, not counts."""
    counts, _ = np.histogram(values, edges)
    top = counts.max()
    return _rounded(counts / top) if top else [0.0] * (len(edges) - 1)


def quantile_figure(entry: Entry) -> dict[str, Any]:
    """Return energy quantiles beside those of a chi-square with p degrees, halved."""
    from scipy.stats import chi2

    ideal = 0.5 * chi2.ppf(LEVELS, entry.evaluation.stream.p)
    known = {name: v for name, v in energies(entry).items() if len(v)}
    return {
        "p": entry.evaluation.stream.p,
        "ideal": _rounded(ideal),
        "found": {
            name: _rounded(np.quantile(values, LEVELS))
            for name, values in known.items()
        },
    }


def drift_figure(entry: Entry) -> dict[str, Any]:
    """Return how far normal moved, as multiples of mean train energy."""
    drift, train = entry.evaluation.drift, entry.train_mean
    calibrated = drift.d_gap is not None
    return {
        "mean": _moved(train, drift.d_drift),
        "robust": _moved(train, drift.d_drift_robust),
        "d_drift": drift.d_drift,
        "d_drift_robust": drift.d_drift_robust,
        "mean_dominated": bool(drift.mean_dominated),
        "gap": _ratio(train + (drift.d_gap or 0.0), train) if calibrated else None,
        "compactness": entry.evaluation.compactness.compactness,
    }


def _ratio(value: float, train: float) -> float | None:
    return value / train if train > 0 else None


def _rounded(values: Floats) -> list[float]:
    """Return values with six figures: enough for a picture, and short."""
    return [float(f"{v:.6g}") for v in np.nan_to_num(values)]


def _moved(train: float, by: float | None) -> float | None:
    return None if by is None else _ratio(train + by, train)
