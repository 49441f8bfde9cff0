"""The alarm and score figures of an evaluation, each with chance floor and interval.

Entries of `sightline.figures` say which metric with which parameters a figure is, and
whether it is of alarms or of a score. `measure_figures` computes them for one set of
alarms or one score.

A **floor** is what the same alarms or scores reach when they are rolled round the
record against the labels, which keeps their bursts and their number. An **interval** is
given for means over attacks only: a Bayesian bootstrap with one more attack, wholly
unseen for the lower end and wholly seen for the upper one.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from sightline.data.arrays import NORMAL, Floats
from sightline.errors import StreamError
from sightline.figures import Better, FigureEntry, MeasuredOn, published
from sightline.metrics import ALARM_METRICS
from sightline.metrics import alarm_metrics as alarm
from sightline.metrics.alarm_metrics import Outputs
from sightline.metrics.alarm_runs import AlarmRuns
from sightline.metrics.chance import N_SHIFTS, Floor, floor_of
from sightline.metrics.intervals import (
    Ends,
    count_interval,
    interval_of,
    one_more_attack,
)
from sightline.metrics.score_metrics import ScoreRanks

# Draws of an interval.
N_DRAWS = 500
# Blocks of normal operation, at most, from which an interval is drawn.
MOST_BLOCKS = 2000
# The words that choose all figures, or none.
ALL, NONE = "all", "none"

Interval = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class AlarmFigure:
    """One alarm or score figure.

    Parameters
    ----------
    value : float, optional
        The figure; None where it is undefined.
    floor : Floor, optional
        What chance gives; None if it was not asked for, or the figure is undefined.
    interval : tuple of float, optional
        95% interval; None where none is honest.
    definition : str
        Family, variant and parameters: public versions of the same name differ.
    """

    value: float | None
    floor: Floor | None = None
    interval: Interval | None = None
    definition: str


def chosen_figures(chosen: str | Collection[str]) -> frozenset[str]:
    """Return the keys of the figures that were asked for.

    Parameters
    ----------
    chosen : str or collection of str
        ``all``, ``none``, or names of figures and of families (``etapr``), as a list or
        separated by commas.

    Raises
    ------
    StreamError
        If a name is no figure and no family.

    Examples
    --------
    >>> sorted(chosen_figures("vus, pa_f1"))
    ['pa_f1', 'vus_pr', 'vus_roc']
    """
    names = chosen.split(",") if isinstance(chosen, str) else chosen
    keys: set[str] = set()
    for name in (name.strip() for name in names):
        found = {e.key for e in published() if name in (ALL, e.key, e.family)}
        if not found and name not in (NONE, ""):
            families = ", ".join(dict.fromkeys(e.family for e in published()))
            raise StreamError(
                f"No alarm metric is called {name!r}: choose among {families}, the "
                f"keys of `alarm_metrics`, {ALL} and {NONE}."
            )
        keys |= found
    return frozenset(keys)


def measure_figures(
    given: AlarmRuns | ScoreRanks,
    keys: Collection[str],
    *,
    uncertainty: bool = True,
    block: int = 1,
    seed: int = 0,
    more: Iterable[FigureEntry] = (),
) -> dict[str, AlarmFigure]:
    """Return the figures of one set of alarms or of one score, by key.

    Parameters
    ----------
    given : AlarmRuns or ScoreRanks
        The alarms, or the score, with the labels.
    keys : collection of str
        The figures to measure; those of the other kind are passed over.
    uncertainty : bool
        Whether to draw floors and intervals.
    block : int
        Rows of normal operation that are drawn together, for the intervals.
    seed : int
        Seed of the draws.
    more : iterable of FigureEntry
        Figures that are measured first, whatever `keys` says.

    Examples
    --------
    >>> labels, alarms = np.zeros((2, 100), int)
    >>> labels[50:60], alarms[52:61] = 1, 1
    >>> figure = measure_figures(AlarmRuns.of(labels, alarms), ["pa_f1"])["pa_f1"]
    >>> round(figure.value, 3), round(figure.floor.value, 1)
    (0.952, 0.2)
    """
    on = MeasuredOn.ALARMS if isinstance(given, AlarmRuns) else MeasuredOn.SCORE
    specs = [entry for entry in more if entry.on is on]
    specs += [entry for entry in published(on) if entry.key in keys]
    values = _values(given, specs)
    found: dict[str, Floor | None] = {}
    ranges: dict[str, Interval | None] = {}
    drawn = [spec for spec in specs if spec.has_floor]
    if uncertainty and given.rows.n_attacks:
        rng = np.random.default_rng(seed)
        shifts = rng.integers(1, max(given.rows.n_counted, 2), N_SHIFTS)
        draws = [_values(given.rolled(int(shift)), drawn) for shift in shifts]
        for spec in drawn:
            at_chance = [draw[spec.key] for draw in draws]
            found[spec.key] = floor_of(
                values[spec.key],
                np.array(at_chance, dtype=np.float64),
                lower_is_better=spec.better is Better.LOWER,
            )
        if isinstance(given, AlarmRuns):
            ranges = attack_intervals(given, block=block, seed=seed)
    return {
        spec.key: AlarmFigure(
            value=values[spec.key],
            floor=found.get(spec.key),
            interval=None if values[spec.key] is None else ranges.get(spec.key),
            definition=spec.definition,
        )
        for spec in specs
    }


def _values(
    given: AlarmRuns | ScoreRanks, specs: Iterable[FigureEntry]
) -> dict[str, float | None]:
    """Return the figures by key; each metric is called once."""
    calls: dict[tuple[str, tuple[tuple[str, float], ...]], Outputs] = {}
    values: dict[str, float | None] = {}
    for spec in specs:
        call = spec.family, spec.parameters
        if call not in calls:
            calls[call] = ALARM_METRICS[spec.family](given, **dict(spec.parameters))
        value = calls[call][spec.output]
        values[spec.key] = value if isinstance(value, float) else None
    return values


def attack_intervals(
    runs: AlarmRuns, *, block: int = 1, seed: int = 0
) -> dict[str, Interval | None]:
    """Return the 95% interval of each figure that is a mean over attacks.

    Each draw weighs the attacks, and one more, by independent exponentials; that one
    scores 0 for the lower end and 1 for the upper. It holds for endlessly many attacks
    of these kinds and lengths. Point-adjusted F1 follows from recall, with blocks of
    normal operation drawn for the false alarms. Others have no interval.

    Parameters
    ----------
    runs : AlarmRuns
        Alarms and labels; at least one attack.
    block : int
        Rows of normal operation that are drawn together.
    seed : int
        Seed of the draws.
    """
    rng = np.random.default_rng(seed)
    lengths = runs.rows.lengths
    gamma = draws_of(len(lengths), rng)
    near = alarm.affiliation(runs)
    precisions = near["each_precision"]
    listed = precisions if isinstance(precisions, list) else []
    means = {
        "range_recall": alarm.range_recalls(runs),
        "etapr_recall": alarm.etapr_recalls(runs),
        "affiliation_recall": np.array(near["each_recall"], dtype=np.float64),
        "affiliation_precision": np.array(
            [np.nan if value is None else value for value in listed]
        ),
    }
    hits, n = int((runs.touching > 0).sum()), len(lengths)
    low_hits, high_hits = count_interval(hits, n)
    ranges: dict[str, Interval | None] = {"event_recall": (low_hits / n, high_hits / n)}
    for key, each in means.items():
        defined = np.isfinite(each)
        if defined.any():
            drawn = gamma[:, np.append(True, defined)]
            ranges[key] = mean_interval(each[defined], drawn)
    rates = _false_alarm_draws(runs, block, rng)
    for key, k in (("pa_f1", 0.0), ("pak_20_f1", 20.0)):
        covered = alarm.adjusted_rows(runs, k) / lengths
        recall = one_more_attack(
            covered[np.newaxis], lengths / lengths.sum(), gamma, 0.0
        )
        ends = Ends(
            2 * recall.low / (recall.low + 1 + rates[0]),
            2 * recall.high / (recall.high + 1 + rates[1]),
        )
        f1 = alarm.pak(runs, k=k)["f1"]
        ranges[key] = _closed(interval_of(f1 if isinstance(f1, float) else None, ends))
    return ranges


def draws_of(n_attacks: int, rng: np.random.Generator) -> Floats:
    """Return weights of one more attack and of all attacks, for `one_more_attack`.

    The first row weighs the attacks as they are.
    """
    gamma = rng.standard_exponential((N_DRAWS + 1, n_attacks + 1))
    gamma[0] = np.arange(n_attacks + 1) > 0
    return gamma


def mean_interval(each: Floats, gamma: Floats) -> Interval | None:
    """Return the interval of a mean over attacks of values from 0 to 1."""
    n = len(each)
    ends = one_more_attack(each[np.newaxis], np.full(n, 1 / n), gamma, 0.0)
    return _closed(interval_of(float(each.mean()), ends))


def _closed(interval: tuple[float, float | None] | None) -> Interval | None:
    """Return an interval of a figure that is at most 1, whose ends are finite."""
    if interval is None or interval[1] is None:
        return None
    return interval[0], interval[1]


def _false_alarm_draws(
    runs: AlarmRuns, block: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return false alarm rows over attack rows in each draw of blocks.

    For the lower end of F1 with one more block, half or more of it in alarm.
    """
    rows = runs.rows
    change = np.zeros(len(rows.labels) + 1, np.int64)
    change[runs.starts] += 1
    change[runs.stops] -= 1
    in_alarm = np.cumsum(change[:-1])[rows.labels == NORMAL]
    n_attack, n_normal = rows.n_attack_rows, len(in_alarm)
    if n_normal == 0:
        return np.zeros(N_DRAWS + 1), np.zeros(N_DRAWS + 1)
    block = max(1, min(block, n_normal), -(-n_normal // MOST_BLOCKS))
    first = np.arange(0, n_normal, block)
    alarms = np.add.reduceat(in_alarm, first).astype(np.float64)
    sizes = np.diff(np.append(first, n_normal)).astype(np.float64)
    drawn = rng.multinomial(
        len(first), np.full(len(first), 1 / len(first)), N_DRAWS + 1
    )
    false, total = drawn @ alarms, drawn @ sizes
    long = sizes >= block / 2
    worst = max(0.5, float((alarms[long] / sizes[long]).max()))
    extra = rng.standard_exponential(N_DRAWS + 1) * block
    scale = n_normal / n_attack
    return (false + extra * worst) / (total + extra) * scale, false / total * scale
