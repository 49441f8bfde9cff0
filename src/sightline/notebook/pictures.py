"""Pictures of an evaluation and of one attack, with matplotlib."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sightline.data.arrays import Floats
from sightline.errors import SightlineError
from sightline.evaluation.result import ChartData, Evaluation, SegmentView
from sightline.judgement.verdicts import info_of
from sightline.report import print_style as style
from sightline.report.charts import PageClock, clock_of, log_energy, moments
from sightline.report.entries import Entry, entries_of
from sightline.report.print_figures import energy_through_time
from sightline.storage import results_of
from sightline.text import names

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Inches of the picture of a whole test.
HEIGHT = 2.6
# Signals drawn below one another.
MOST_SIGNALS = 2
# Contributions smaller than the largest by this factor get no colour.
_HEAT_RANGE = 200


def plot_evaluation(evaluation: Evaluation) -> "Figure":
    """Return the energy through time; see `Evaluation.plot`."""
    with style.styled():
        figure = energy_through_time([_entry(evaluation)])
    assert figure is not None  # noqa: S101
    figure.set_size_inches(style.TWO_COLUMNS, HEIGHT)
    return figure


class _Excerpt(NamedTuple):
    """What the charts hold of the rows around one attack, in columns of rows."""

    rows: Floats
    channels: list[str]
    is_measured: list[bool]
    contributions: Floats
    signals: Floats


def plot_segment(segment: SegmentView) -> "Figure":
    """Return energy, contributions and signals around an attack.

    Parameters
    ----------
    segment : SegmentView
        One of an evaluation with traces.

    Raises
    ------
    SightlineError
        If the evaluation holds no excerpt of this attack: it keeps those of the first
        `MOST_ATTACKS` (`sightline.evaluation.chart_data`).
    """
    entry = _entry(segment.evaluation)
    excerpt = _excerpt(entry.traces, segment)
    # The time of each test row from the first one.
    clock = clock_of([entry])
    at = moments(entry, clock)
    if clock == PageClock.DATE:
        at = (at - at[0]) / 3600
    verdict = "" if segment.verdict is None else f": {segment.verdict}"
    targets = f", targets {names(segment.targets, 3)}" if segment.targets else ""
    title = f"Attack {segment.id}{verdict}{targets}"
    shown = excerpt.signals[:MOST_SIGNALS]
    with style.styled():
        n_channels = len(excerpt.channels)
        heights = [1.3, 0.35 + 0.16 * n_channels, *[0.75] * len(shown)]
        figure = style.new_figure(style.TWO_COLUMNS, sum(heights) + 0.7)
        axes = figure.subplots(
            len(heights), 1, sharex=True, height_ratios=heights, squeeze=False
        )[:, 0]
        _draw_energy(axes[0], entry, segment, excerpt, at)
        _draw_contributions(figure, axes[1], excerpt, at)
        middles = _moments_of((excerpt.rows[:-1] + excerpt.rows[1:]) / 2 - 0.5, at)
        for k, axis in enumerate(axes[2:]):
            low, high, mean = excerpt.signals[k].T
            colour = style.COLOURS[0]
            axis.fill_between(middles, low, high, color=colour, alpha=0.25, lw=0)
            axis.plot(middles, mean, color=colour, lw=0.8)
            what = "" if excerpt.is_measured[k] else "\nresidual"
            name = style.label(excerpt.channels[k], 14)
            axis.set_ylabel(f"{name}{what}", fontsize=6.5)
        for axis in axes:
            ends = at[segment.start], at[segment.stop - 1]
            for end in ends:
                axis.axvline(end, color="black", lw=0.7, ls=(0, (2, 2)))
        axes[0].set_title(style.label(title, 90), loc="left", pad=3)
        is_row = clock == PageClock.ROW
        axes[-1].set_xlabel("row" if is_row else "hours from the start of the test")
        figure.align_ylabels(axes)
    return figure


def _entry(evaluation: Evaluation) -> Entry:
    """Return an evaluation as the figures of the report take it."""
    return entries_of(results_of([evaluation], "plot"))[0]


def _excerpt(traces: ChartData, segment: SegmentView) -> _Excerpt:
    """Return the excerpt of an attack; raise if the charts hold none."""
    i = [one.id for one in segment.evaluation.segments].index(segment.id)
    if (
        traces.channel_names is None
        or traces.excerpt_rows is None
        or traces.excerpt_columns is None
        or traces.excerpt_channels is None
        or traces.excerpt_telemetry is None
        or traces.excerpt_contributions is None
        or traces.excerpt_signals is None
        or i >= len(traces.excerpt_rows)
    ):
        raise SightlineError(
            f"The evaluation holds no rows around attack {segment.id!r} to draw: "
            "evaluate the stream again, and draw one of the first "
            f"{len(traces.excerpt_rows) if traces.excerpt_rows is not None else 0} "
            "attacks."
        )
    start, stop = (int(end) for end in traces.excerpt_rows[i])
    n = int(traces.excerpt_columns[i])
    places = np.flatnonzero(traces.excerpt_channels[i] >= 0)
    # The first row of each column, and the row past the last one.
    rows = start + np.arange(n + 1) * (stop - start) / n
    return _Excerpt(
        rows,
        [str(traces.channel_names[j]) for j in traces.excerpt_channels[i][places]],
        [bool(j >= 0) for j in traces.excerpt_telemetry[i][places]],
        traces.excerpt_contributions[i][places, :n].astype(np.float64),
        traces.excerpt_signals[i][places, :n].astype(np.float64),
    )


def _moments_of(rows: Floats, at: Floats) -> Floats:
    """Return the time of places between rows; past the last row it goes on."""
    known = np.append(at, at[-1] + (at[-1] - at[-2] if len(at) > 1 else 1.0))
    return np.asarray(np.interp(rows, np.arange(len(known)), known))


def _draw_energy(
    axis: Any, entry: Entry, segment: SegmentView, excerpt: _Excerpt, at: Floats
) -> None:
    """Draw the energy of each row of the excerpt, the attack and the levels."""
    first, stop = int(excerpt.rows[0]), int(excerpt.rows[-1])
    logs = log_energy(entry.traces.test_energy[first:stop])
    axis.plot(at[first:stop], 10**logs, color=style.SOFT, lw=0.7)
    colour = style.SOFT if segment.verdict is None else info_of(segment.verdict).light
    ends = at[segment.start], at[segment.stop - 1]
    axis.axvspan(*ends, color=colour, alpha=0.22, lw=0.6)
    tau = entry.evaluation.probe.tau99
    if tau is not None:
        axis.axhline(tau, color=style.TAU, lw=0.8)
    axis.axhline(entry.train_mean, color=style.TRAIN, lw=0.8, ls=":")
    axis.set_yscale("log")
    levels = [entry.train_mean, *([] if tau is None else [tau])]
    style.log_scale(axis.yaxis, np.append(10**logs, levels), most=3)
    axis.set_ylabel("energy")
    axis.legend(
        handles=style.level_handles()[:2],
        loc="lower right",
        bbox_to_anchor=(1, 1),
        ncols=2,
        borderpad=0,
    )


def _draw_contributions(
    figure: "Figure", axis: Any, excerpt: _Excerpt, at: Floats
) -> None:
    """Draw how much each channel adds to the energy, on a log scale."""
    from matplotlib.colors import LogNorm

    heat = excerpt.contributions
    top = max(float(np.nanmax(heat, initial=0.0)), 1e-6)
    edges = np.arange(len(excerpt.channels) + 1) - 0.5
    mesh = axis.pcolormesh(
        _moments_of(excerpt.rows, at),
        edges,
        np.clip(heat, top / _HEAT_RANGE, None),
        norm=LogNorm(top / _HEAT_RANGE, top),
        cmap="Greys",
        rasterized=True,
    )
    labels = [style.label(name, 16) for name in excerpt.channels]
    axis.set_yticks(range(len(labels)), labels, fontsize=6)
    axis.invert_yaxis()
    axis.tick_params(axis="y", length=0)
    bar = figure.colorbar(mesh, ax=axis, pad=0.01, aspect=12)
    bar.set_label("contribution")
