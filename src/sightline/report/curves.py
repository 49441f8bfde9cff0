"""Data of the charts: energy through time, ROC curves, windows, distributions.

Each function returns one JSON object for one chart of one detector (its first seed),
or None if there is nothing to draw. Numbers are rounded to what a chart can show.
"""

from functools import cache

import numpy as np

from sightline.data.arrays import ATTACK, NORMAL, Floats, Ints
from sightline.figures import PAUC_RATES
from sightline.report import encoding
from sightline.report.encoding import Clock, JsonObject
from sightline.report.entries import Entry

# Points of a ROC curve on the page.
MAX_POINTS = 500
# False-alarm rates that the enlarged ROC curves shade, and at which they end.
PAUC_RATE, LOW_RATE = PAUC_RATES
# Breaks of the record that are drawn as gaps.
MAX_BREAKS = 1000
BINS = 80
# Quantiles of normal windows: ends of the wide bar, of the narrow bar, and median.
WINDOW_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
# Quantiles drawn: few in the bulk, many towards the upper tail.
LEVELS = np.union1d(
    np.linspace(0.01, 0.95, 60), [*(1 - np.geomspace(0.05, 1e-4, 60)), 0.99]
)
PARTS = {"train": "train", "normal": "test, no attack", "attack": "test, attack"}


def energy_figure(entry: Entry, clock: Clock | None = None) -> JsonObject:
    """Return the energy of every test row of an entry, its levels and its attacks.

    Parameters
    ----------
    entry : Entry
        The detector.
    clock : Clock, optional
        The clock it shares with other detectors; by default its best.

    Returns
    -------
    mapping
        Names, the time axis, the packed energy, the levels (mean train energy, alarm
        limit, drift floor), and begin, end, verdict and coverage of each attack.
    """
    evaluation = entry.evaluation
    return {
        "key": entry.key,
        "label": entry.label,
        "testbed": entry.testbed,
        "clock": encoding.time_axis(entry, clock),
        "breaks": [int(row) for row in entry.traces.test_breaks[:MAX_BREAKS]],
        "energy": encoding.packed_energy(entry.traces.test_energy),
        "train_mean": entry.train_mean,
        "tau99": evaluation.probe.tau99,
        "drift_floor": entry.drift_floor,
        "attacks": [
            {
                "id": segment.id,
                "key": key,
                "start": segment.start,
                "stop": segment.stop,
                "verdict": verdict.word,
                "coverage": segment.coverage,
            }
            for segment, key, verdict in zip(
                evaluation.segments, entry.attack_keys, entry.verdicts, strict=True
            )
        ],
    }


def roc_figure(entry: Entry) -> JsonObject | None:
    """Return the ROC curve and its figures.

    Returns
    -------
    mapping, optional
        ``fpr`` and ``tpr`` (at most `MAX_POINTS`), ROC-AUC and F1@p99, each with its
        95% interval or None. None without attacks.
    """
    fpr, tpr = entry.traces.roc_fpr, entry.traces.roc_tpr
    if len(fpr) < 2 or not entry.evaluation.segments:
        return None
    rows = roc_points(fpr, MAX_POINTS)
    evaluation = entry.evaluation
    return {
        "fpr": _rounded(fpr[rows]),
        "tpr": _rounded(tpr[rows]),
        "roc_auc": evaluation.rank.roc_auc,
        "f1": evaluation.probe.f1,
        "interval": (evaluation.intervals or {}).get("roc_auc"),
        "f1_interval": (evaluation.intervals or {}).get("f1"),
    }


def roc_points(fpr: Floats, most: int) -> Ints:
    """Return the points of a ROC curve to draw.

    Half are spread evenly, half by the log of the rate, so that the curve is also
    smooth where false alarms are few.

    Parameters
    ----------
    fpr : array of shape (n_points,)
        False-alarm rates, rising.
    most : int
        Number of points to keep at most.

    Returns
    -------
    array of int
        Indices, rising; both ends are among them.
    """
    if len(fpr) <= most:
        return np.arange(len(fpr))
    evenly = np.linspace(0, len(fpr) - 1, most // 2).astype(np.int64)
    wanted = np.concatenate([[0.0], np.geomspace(1e-5, 1.0, most // 2 - 1)])
    low = np.minimum(np.searchsorted(fpr, wanted), len(fpr) - 1)
    return np.unique(np.concatenate([evenly, low]))


def windows_figure(entry: Entry) -> JsonObject | None:
    """Return the evidence of attacks and of normal windows of the same length.

    All values are multiples of the median D_FULL of these normal windows, so that
    attacks of any length share one scale.

    Returns
    -------
    mapping, optional
        ``normal``: quantiles of the normal windows at `WINDOW_LEVELS`. ``attacks``:
        ratio of each attack, and the share of its normal windows with less evidence.
        ``p_full``. None without attacks or normal windows.
    """
    traces = entry.traces
    attack = traces.segment_d_full
    if len(attack) == 0:
        return None
    groups = np.split(traces.matched_d_full, traces.matched_bounds[1:-1])
    medians = np.array([np.median(w) if len(w) else np.nan for w in groups])
    normal = [w / m for w, m in zip(groups, medians, strict=True) if m > 0]
    if not normal:
        return None
    group = traces.segment_group
    ratio = attack / medians[group]
    return {
        "normal": np.quantile(np.concatenate(normal), WINDOW_LEVELS).tolist(),
        "attacks": [
            {
                "id": segment.id,
                "key": entry.attack_keys[i],
                "ratio": float(ratio[i]),
                "outweighs": float(np.mean(groups[group[i]] < attack[i])),
                "verdict": entry.verdicts[i].word,
            }
            for i, segment in enumerate(entry.evaluation.segments)
            if np.isfinite(ratio[i]) and ratio[i] > 0
        ],
        "p_full": entry.evaluation.windows.p_full,
    }


def energies(entry: Entry) -> dict[str, Floats]:
    """Return the energies of each part in `PARTS` that has rows.

    Returns
    -------
    dict of str to array
        Of train these are 1,001 quantiles, since results store only the extremes of
        its rows; of the test, all rows that are normal or under attack.
    """
    traces = entry.traces
    labels, energy = traces.labels, traces.test_energy
    parts = {
        "train": traces.train_quantiles,
        "normal": energy[labels == NORMAL],
        "attack": energy[labels == ATTACK],
    }
    return {name: values for name, values in parts.items() if len(values)}


def spread_figure(entry: Entry) -> JsonObject:
    """Return densities of log energy on one grid, each scaled to a maximum of 1.

    The grid reaches from the lowest 0.1% to the highest 99.9% quantile of the parts.

    Returns
    -------
    mapping
        ``at`` (energies at the centres of `BINS` bins) and ``density`` by part.
    """
    logs = {name: encoding.log_energy(part) for name, part in energies(entry).items()}
    low = min(float(np.quantile(values, 0.001)) for values in logs.values())
    high = max(float(np.quantile(values, 0.999)) for values in logs.values())
    edges = np.linspace(low, high if high > low else low + 1.0, BINS + 1)
    density = {}
    for name, values in logs.items():
        counts, _ = np.histogram(values, edges)
        density[name] = _figures(counts / max(int(counts.max()), 1))
    return {"at": _figures(10 ** ((edges[:-1] + edges[1:]) / 2)), "density": density}


def quantile_figure(entry: Entry) -> JsonObject:
    """Return quantiles of energy, and those of half a chi-square with p degrees.

    If residuals are Gaussian with the moments of the reference, energy is half a
    chi-square variable with p degrees of freedom, and both agree.

    Returns
    -------
    mapping
        ``p``, ``ideal`` and, by part, ``measured``: the quantiles at `LEVELS`.
    """
    p = entry.evaluation.stream.p
    return {
        "p": p,
        "ideal": _figures(ideal_quantiles(p)),
        "measured": {
            name: _figures(np.quantile(values, LEVELS))
            for name, values in energies(entry).items()
        },
    }


@cache
def ideal_quantiles(p: int) -> Floats:
    """Return the quantiles at `LEVELS` of half a chi-square with p degrees."""
    from scipy.special import gammaincinv

    return np.asarray(gammaincinv(p / 2, LEVELS))


def drift_figure(entry: Entry) -> JsonObject:
    """Return the energy of normal test rows as multiples of mean train energy.

    Returns
    -------
    mapping
        ``mean`` and ``robust`` (median): 1 is no drift, larger is more; None if
        undefined. ``mean_dominated``: whether a few extreme points dominate the mean.
    """
    drift = entry.evaluation.drift
    return {
        "mean": _multiple(entry.train_mean, drift.d_drift),
        "robust": _multiple(entry.train_mean, drift.d_drift_robust),
        "mean_dominated": bool(drift.mean_dominated),
    }


def _multiple(train: float, rise: float | None) -> float | None:
    """Return risen energy as a multiple of train energy; None if undefined."""
    return None if rise is None or train <= 0 else (train + rise) / train


def _rounded(values: Floats) -> list[float]:
    """Return values with six decimals."""
    return [float(v) for v in np.round(values, 6)]


def _figures(values: Floats) -> list[float]:
    """Return values with six significant figures: enough for a chart, and short."""
    return [float(f"{v:.6g}") for v in np.nan_to_num(values)]
