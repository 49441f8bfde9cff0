"""Data of the charts, and how rows, times and energies are packed for the page.

Each ``_figure`` function returns one JSON object for one chart of one detector (its
first seed), or None if there is nothing to draw. Numbers are rounded to what a chart
can show.
"""

import base64
import zlib
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import ATTACK, NORMAL, Floats, Ints
from sightline.data.zones import FIRST_DATE, offset_changes, stamp, zone_words
from sightline.evaluation.result import ChartData
from sightline.figures import PAUC_RATES
from sightline.report.entries import Entry

# What only the page's scripts read. What Python or the template reads is a record.
JsonObject = Mapping[str, object]
# Steps between the lowest and the highest log energy: finer than any screen.
LEVELS = 4095
# Energy 0 (a residual equal to the mean) is drawn at this value.
MIN_ENERGY = 1e-12
# More knots would make the page larger and no chart finer.
MAX_KNOTS = 2000
# Size of a small picture of a score, in units of its drawing.
SCORE_WIDTH, SCORE_HEIGHT = 240.0, 48.0
_ARRAY_TYPES = {"u1": "Uint8Array", "u2": "Uint16Array", "f4": "Float32Array"}


def packed(values: npt.NDArray[np.generic]) -> JsonObject:
    """Return an array for the page: zlib-compressed, base64, little endian.

    Parameters
    ----------
    values : array of uint8, uint16 or float32
        Of any shape.

    Returns
    -------
    mapping
        ``kind`` (the JavaScript array type), ``shape``, and ``data``.
    """
    little = values.astype(values.dtype.newbyteorder("<"), copy=False)
    text = base64.b64encode(zlib.compress(little.tobytes(), 6)).decode("ascii")
    kind = _ARRAY_TYPES[f"{values.dtype.kind}{values.dtype.itemsize}"]
    return {"kind": kind, "shape": list(values.shape), "data": text}


def packed_text(text: str) -> str:
    """Return a long text for the page: UTF-8, zlib-compressed, base64."""
    # A higher level takes twice the time and saves 4%.
    return base64.b64encode(zlib.compress(text.encode(), 4)).decode("ascii")


def quantised(
    values: Floats, levels: int = LEVELS
) -> tuple[npt.NDArray[np.unsignedinteger], float, float]:
    """Return values as integers from 0 to `levels`, and the values of both ends.

    Parameters
    ----------
    values : array of float
        Of any shape.
    levels : int
        The integer of the largest value.

    Returns
    -------
    steps : array of uint8 or uint16
        Of the same shape; uint8 if `levels` fits. Values that are not finite are 0.
    low, high : float
        The values that 0 and `levels` stand for. An error is at most half a step,
        ``(high - low) / levels / 2``.

    Examples
    --------
    >>> quantised(np.array([1.0, 2.0, 3.0]), 255)
    (array([  0, 128, 255], dtype=uint8), 1.0, 3.0)
    """
    finite = np.isfinite(values)
    known = values[finite]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
    width = high - low or 1.0
    steps = np.where(finite, (values - low) / width, 0.0) * levels
    kind = np.uint8 if levels <= 255 else np.uint16
    return np.rint(steps).astype(kind), low, low + width


def log_energy(energy: Floats) -> Floats:
    """Return the decimal logarithm of energies, at least that of `MIN_ENERGY`."""
    top = np.finfo(np.float64).max
    return np.asarray(np.log10(np.clip(energy, MIN_ENERGY, top)))


def packed_energy(energy: Floats) -> JsonObject:
    """Return the energy of every row, quantised on a log scale and packed.

    Returns
    -------
    mapping
        ``low`` and ``high`` (decimal logarithms), ``levels``, ``n`` (rows), and the
        packed ``values``. With `LEVELS` steps over ten decades, the error of an energy
        is below 0.3%.
    """
    steps, low, high = quantised(log_energy(energy))
    return {
        "low": round(low, 6),
        "high": round(high, 6),
        "levels": LEVELS,
        "n": len(energy),
        "values": packed(steps),
    }


class PageClock(StrEnum):
    """The unit of a time axis, from the least to the most informative."""

    ROW = "row"
    HOURS = "hours"  # from the first row
    DATE = "date"  # seconds since 1970


def clock_of(entries: Sequence[Entry]) -> PageClock:
    """Return the most informative clock that all entries have.

    Entries of one testbed are drawn on one axis, so they share one clock: dates if
    all have time stamps since 1970, else hours if all have time stamps or a step,
    else rows.
    """
    clocks = {_best_clock(entry) for entry in entries}
    return next(clock for clock in PageClock if clock in clocks)


def clocks_by_testbed(entries: Sequence[Entry]) -> dict[str, PageClock]:
    """Return the clock that the entries of each testbed share."""
    testbeds = dict.fromkeys(entry.testbed for entry in entries)
    return {
        testbed: clock_of([entry for entry in entries if entry.testbed == testbed])
        for testbed in testbeds
    }


def zones_by_testbed(entries: Sequence[Entry]) -> dict[str, str]:
    """Return which times each testbed shows, in words; empty if it shows no dates."""
    clocks = clocks_by_testbed(entries)
    zones = {e.testbed: e.evaluation.stream.timezone for e in reversed(entries)}
    return {
        testbed: zone_words(zones[testbed]) if clock == PageClock.DATE else ""
        for testbed, clock in clocks.items()
    }


def _best_clock(entry: Entry) -> PageClock:
    """Return the most informative clock of one entry."""
    if entry.time is not None:
        return PageClock.DATE if entry.time[0] > FIRST_DATE else PageClock.HOURS
    return PageClock.HOURS if entry.evaluation.stream.step_s else PageClock.ROW


def moments(entry: Entry, clock: PageClock) -> Floats:
    """Return the time of each test row in the unit of a clock.

    Parameters
    ----------
    entry : Entry
        The detector.
    clock : PageClock
        A clock that the entry has; see `clock_of`.

    Returns
    -------
    array of shape (n_test,)
        Seconds since 1970, hours from the first row, or row numbers.
    """
    time, rows = entry.time, np.arange(len(entry.traces.test_energy))
    if clock == PageClock.ROW:
        return rows.astype(np.float64)
    if clock == PageClock.DATE and time is not None:
        return time
    if time is not None:
        return np.asarray((time - time[0]) / 3600)
    step = float(entry.evaluation.stream.step_s or 0.0)
    return np.asarray(rows * step / 3600)


def time_axis(entry: Entry, clock: PageClock | None = None) -> JsonObject:
    """Return how the page turns rows into time, by linear interpolation.

    Parameters
    ----------
    entry : Entry
        The detector.
    clock : PageClock, optional
        The clock shared with other detectors; by default the entry's best.

    Returns
    -------
    mapping
        ``kind`` (the clock), ``rows`` and ``times`` of the knots; for dates also
        ``zone`` (which times are shown, in words) and ``offsets`` (see
        `offset_changes`).
    """
    clock = clock or _best_clock(entry)
    at = moments(entry, clock)
    rows, times = [0, 1], [float(at[0]), float(at[0]) + 1]
    if len(at) > 1:
        step = np.diff(at)
        usual = np.median(step)
        # The ends, the rows where the sampling interval changes, and evenly spaced
        # ones, which follow a clock that drifts slowly.
        odd = np.flatnonzero(np.abs(step - usual) > 0.5 * max(usual, 1e-9))
        even = np.linspace(0, len(at) - 1, 65).astype(np.int64)
        knots = np.unique(np.concatenate([[0, len(at) - 1], odd, odd + 1, even]))
        if len(knots) > MAX_KNOTS:
            thinned = np.linspace(0, len(knots) - 1, MAX_KNOTS)
            knots = knots[thinned.astype(np.int64)]
        rows = knots.tolist()
        times = [round(float(moment), 6) for moment in at[knots]]
    axis: dict[str, object] = {"kind": clock, "rows": rows, "times": times}
    if clock == PageClock.DATE:
        zone = entry.evaluation.stream.timezone
        axis |= {
            "zone": zone_words(zone),
            "offsets": offset_changes(times[0], times[-1], zone),
        }
    return axis


def time_text(entry: Entry, row: int, clock: PageClock | None = None) -> str:
    """Return the time of a row as text.

    Parameters
    ----------
    entry : Entry
        The detector.
    row : int
        A test row.
    clock : PageClock, optional
        The clock shared with other detectors; by default the entry's best.

    Returns
    -------
    str
        Such as "2024-01-03 01:02:30" in the stream's time zone, "day 1, 01:02:30"
        (days count from the first row), or "row 750".
    """
    clock = clock or _best_clock(entry)
    if clock == PageClock.ROW:
        return f"row {row:,}"
    moment = float(moments(entry, clock)[row])
    if clock == PageClock.DATE:
        return stamp(moment, entry.evaluation.stream.timezone)
    days, rest = divmod(round(3600 * moment), 86_400)
    return f"day {days + 1}, {rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"


def score_svg(values: Sequence[float], begin: float, end: float, label: str) -> str:
    """Return a score in limits, a shaded part of it and the limit as SVG.

    Parameters
    ----------
    values : sequence of float
        One for each column; 1 is the limit.
    begin, end : float
        The shaded part, as shares of the width.
    label : str
        What a screen reader says.

    Examples
    --------
    >>> picture = score_svg((0.0, 2.0), 0.5, 1.0, "score")
    >>> picture.partition('<path d="')[2].partition('"')[0]
    'M0 48.0H120.0V0.0H240.0V48H0Z'
    """
    top = max(*values, 1.25, 0.0)
    column = SCORE_WIDTH / len(values)
    steps = [
        f"{'M0 ' if k == 0 else 'V'}{SCORE_HEIGHT * (1 - value / top):.1f}"
        f"H{column * (k + 1):.1f}"
        for k, value in enumerate(values)
    ]
    left = round(SCORE_WIDTH * begin, 1)
    width = round(max(SCORE_WIDTH * (end - begin), 1.0), 1)
    limit = round(SCORE_HEIGHT * (1 - 1 / top), 1)
    return (
        f'<svg class="episode" viewBox="0 0 {SCORE_WIDTH} {SCORE_HEIGHT}" '
        f'preserveAspectRatio="none" role="img" aria-label="{label}"><rect x="{left}" '
        f'y="0" width="{width}" height="{SCORE_HEIGHT}"/><path d="{"".join(steps)}'
        f'V{SCORE_HEIGHT:.0f}H0Z"/><line x1="0" x2="{SCORE_WIDTH}" y1="{limit}" '
        f'y2="{limit}"/></svg>'
    )


class Excerpt(NamedTuple):
    """What chart data hold of the rows around one attack, in columns of rows.

    Parameters
    ----------
    start, stop : int
        Rows [start, stop).
    channels : list of str
        Those that carry the evidence.
    contributions : array of shape (n_channels, n_columns)
        Of each channel to the energy.
    signals : array of shape (n_channels, n_columns, 3), optional
        Lowest, highest and mean value; None in a redacted result.
    is_measured : list of bool
        Whether signals are telemetry; else they are residuals.
    """

    start: int
    stop: int
    channels: list[str]
    contributions: Floats
    signals: Floats | None
    is_measured: list[bool]


def excerpt_of(traces: ChartData, i: int) -> Excerpt | None:
    """Return the excerpt around the attack at a place; None if there is none."""
    if (
        traces.channel_names is None
        or traces.excerpt_rows is None
        or traces.excerpt_columns is None
        or traces.excerpt_channels is None
        or traces.excerpt_contributions is None
        or i >= len(traces.excerpt_rows)
    ):
        return None
    n, indices = int(traces.excerpt_columns[i]), traces.excerpt_channels[i]
    places = np.flatnonzero(indices >= 0)
    signals, is_measured = None, []
    if traces.excerpt_signals is not None and traces.excerpt_telemetry is not None:
        signals = traces.excerpt_signals[i][places, :n].astype(np.float64)
        is_measured = [bool(j >= 0) for j in traces.excerpt_telemetry[i][places]]
    start, stop = (int(end) for end in traces.excerpt_rows[i])
    return Excerpt(
        start,
        stop,
        [str(traces.channel_names[j]) for j in indices[places]],
        traces.excerpt_contributions[i][places, :n].astype(np.float64),
        signals,
        is_measured,
    )


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
QUANTILE_LEVELS = np.union1d(
    np.linspace(0.01, 0.95, 60), [*(1 - np.geomspace(0.05, 1e-4, 60)), 0.99]
)
PARTS = {"train": "train", "normal": "test, no attack", "attack": "test, attack"}


def energy_figure(entry: Entry, clock: PageClock | None = None) -> JsonObject:
    """Return the energy of every test row of an entry, its levels and its attacks.

    Parameters
    ----------
    entry : Entry
        The detector.
    clock : PageClock, optional
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
        "clock": time_axis(entry, clock),
        "breaks": [int(row) for row in entry.traces.test_breaks[:MAX_BREAKS]],
        "energy": packed_energy(entry.traces.test_energy),
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
        "fpr": np.round(fpr[rows], 6).tolist(),
        "tpr": np.round(tpr[rows], 6).tolist(),
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
    logs = {name: log_energy(part) for name, part in energies(entry).items()}
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
        ``p``, ``ideal`` and, by part, ``measured``: the quantiles at `QUANTILE_LEVELS`.
    """
    p = entry.evaluation.stream.p
    return {
        "p": p,
        "ideal": _figures(ideal_quantiles(p)),
        "measured": {
            name: _figures(np.quantile(values, QUANTILE_LEVELS))
            for name, values in energies(entry).items()
        },
    }


@cache
def ideal_quantiles(p: int) -> Floats:
    """Return the quantiles at `QUANTILE_LEVELS` of half a chi-square with p degrees."""
    from scipy.special import gammaincinv

    return np.asarray(gammaincinv(p / 2, QUANTILE_LEVELS))


def drift_figure(entry: Entry) -> JsonObject:
    """Return the energy of normal test rows as multiples of mean train energy.

    Returns
    -------
    mapping
        ``mean`` and ``robust`` (median): 1 is no drift, larger is more; None if
        undefined. ``mean_dominated``: whether a few extreme points dominate the mean.
    """
    drift, train = entry.evaluation.drift, entry.train_mean

    def multiple(rise: float | None) -> float | None:
        return None if rise is None or train <= 0 else (train + rise) / train

    return {
        "mean": multiple(drift.d_drift),
        "robust": multiple(drift.d_drift_robust),
        "mean_dominated": bool(drift.mean_dominated),
    }


def _figures(values: Floats) -> list[float]:
    """Return values with six significant figures: enough for a chart, and short."""
    return [float(f"{v:.6g}") for v in np.nan_to_num(values)]
