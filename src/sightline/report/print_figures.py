"""Figures of the report for papers and slides: PDF, SVG and PNG at column width."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.data.arrays import Floats
from sightline.evaluation.chart_data import extreme_rows
from sightline.judgement.ladder import LADDER
from sightline.judgement.verdicts import info_of
from sightline.metrics.alarm_load import MANAGEABLE_PER_DAY, MOST_PER_DAY
from sightline.report import charts
from sightline.report import print_style as style
from sightline.report.attacks import matrix
from sightline.report.charts import PageClock, clock_of, log_energy, moments
from sightline.report.entries import Entry, unique
from sightline.rules.judging import CommissioningFacts, Curve
from sightline.text import slug

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Panels in a row of the ladder's figure.
MAX_ACROSS = 4
_PARTS = {
    "train": {"color": style.TRAIN, "ls": ":"},
    "normal": {"color": style.SOFT, "ls": "-"},
    "attack": {"color": style.TAU, "ls": "--"},
}


def write_figures(entries: Sequence[Entry], folder: Path) -> list[Path]:
    """Write every figure of every testbed and return the paths.

    Figures of an earlier report that this report does not have are removed; other
    files in the folder stay.

    Parameters
    ----------
    entries : sequence of Entry
        The detectors, in the order in which they are drawn.
    folder : Path
        Gets ``<figure>.pdf``, ``.svg`` and ``.png``, with the testbed's name in front
        if there are several testbeds.

    Returns
    -------
    list of Path
        The files written. A figure that has nothing to show is not written.
    """
    written = []
    testbeds = list(dict.fromkeys(entry.testbed for entry in entries))
    taken: set[str] = set()
    with style.styled():
        for testbed in testbeds:
            group = [entry for entry in entries if entry.testbed == testbed]
            prefix = unique(slug(testbed), taken)
            for name, draw in FIGURES.items():
                figure = draw(group)
                if figure is None:
                    continue
                stem = name if len(testbeds) == 1 else f"{prefix}-{name}"
                written += style.save(figure, folder, stem)
    for path in figures_in(folder):
        if path not in written:
            path.unlink()
    return written


def figures_in(folder: Path) -> list[Path]:
    """Return the figures of reports in a folder, recognised by name and content.

    None if there is no such folder.
    """
    if not folder.is_dir():
        return []
    stems = "|".join(FIGURES)
    named = re.compile(rf"(?:[a-z0-9-]+-)?(?:{stems})\.(?:pdf|svg|png)")
    return [
        path
        for path in sorted(folder.iterdir())
        if named.fullmatch(path.name) and path.is_file() and style.is_ours(path)
    ]


def energy_through_time(entries: Sequence[Entry]) -> "Figure | None":
    """Draw the energy of each detector on one time axis, attacks shaded by verdict.

    One panel for each detector, with the alarm limit, the train level and the drift
    floor. Peaks are kept: each column draws its lowest and highest row.
    """
    figure = style.new_figure(style.TWO_COLUMNS, 0.55 + 0.95 * len(entries))
    axes = figure.subplots(len(entries), 1, squeeze=False)[:, 0]
    clock = clock_of(entries)
    times = [moments(entry, clock) for entry in entries]
    if clock == PageClock.DATE:
        origin = min(at[0] for at in times)
        times = [(at - origin) / 3600 for at in times]
    unit = "row" if clock == PageClock.ROW else "hours from the start"
    first, last = min(at[0] for at in times), max(at[-1] for at in times)
    wide = last - first or 1.0
    for axis, entry, hours in zip(axes, entries, times, strict=True):
        _energy_row(axis, entry, hours)
        axis.set_title(style.label(entry.label), loc="left", pad=3)
        # A mark at the end of the record needs room within the figure.
        axis.set_xlim(first - 0.008 * wide, last + 0.008 * wide)
        if axis is axes[-1]:
            axis.set_xlabel(unit)
        else:
            axis.tick_params(labelbottom=False)
    figure.supylabel("energy", fontsize=8)
    handles = [*style.level_handles(), *style.verdict_handles(entries)]
    figure.legend(handles=handles, loc="outside lower center", ncols=5)
    return figure


def _energy_row(axis: Any, entry: Entry, hours: Floats) -> None:
    """Draw the energy of one detector with its levels and attacks."""
    logs = log_energy(entry.traces.test_energy)
    rows = extreme_rows(logs, 1500)
    # No line is drawn across a break.
    breaks = np.asarray(entry.traces.test_breaks)
    run = np.searchsorted(breaks, rows, side="right")
    cut = np.flatnonzero(np.diff(run)) + 1
    axis.plot(
        np.insert(hours[rows].astype(np.float64), cut, np.nan),
        np.insert(10 ** logs[rows], cut, np.nan),
        color=style.SOFT,
        lw=0.5,
    )
    low = min(float(np.quantile(logs, 0.005)), float(np.log10(entry.train_mean or 1.0)))
    high = float(logs.max())
    wide = max(high - low, 0.1)
    axis.set_yscale("log")
    axis.set_ylim(10 ** (low - 0.1), 10 ** (high + 0.3 * wide))
    style.log_scale(axis.yaxis, 10 ** np.array([low, high]), most=3)
    if (tau := entry.evaluation.probe.tau99) is not None:
        axis.axhline(tau, color=style.TAU, lw=0.8)
    axis.axhline(entry.train_mean, color=style.TRAIN, lw=0.8, ls=":")
    if entry.drift_floor is not None and entry.drift_floor > 0:
        axis.axhline(entry.drift_floor, color=style.FLOOR, lw=0.8, ls="--")
    segments = entry.evaluation.segments
    words = [verdict.word for verdict in entry.verdicts]
    if segments:
        starts = [hours[segment.start] for segment in segments]
        ends = [hours[segment.stop - 1] for segment in segments]
        axis.broken_barh(
            np.column_stack([starts, np.subtract(ends, starts)]),
            (0.0, 1.0),
            transform=axis.get_xaxis_transform(),
            color=[info_of(word).light for word in words],
            alpha=0.22,
            lw=0.6,
        )
    middles = [float(hours[(s.start + s.stop - 1) // 2]) for s in segments]
    at = 10 ** (high + 0.15 * wide)
    style.plot_marks(axis, middles, [at] * len(words), words)


def roc(entries: Sequence[Entry]) -> "Figure | None":
    """Draw the ROC curves twice: whole, and enlarged up to `LOW_RATE` false alarms.

    The legend shows the ROC-AUC of each detector. None without attacks.
    """
    drawn = [
        (i, entry)
        for i, entry in enumerate(entries)
        if entry.evaluation.segments and len(entry.traces.roc_fpr) > 1
    ]
    if not drawn:
        return None
    labels = [
        f"{style.label(e.label)} ({e.evaluation.rank.roc_auc:.3f})" for _, e in drawn
    ]
    # The sample of the line takes 0.55 inches.
    widest = max(style.inches(label) for label in labels) + 0.55
    n_columns = min(max(int(style.TWO_COLUMNS / widest), 1), 5)
    height = 2.85 + 0.15 * -(-len(drawn) // n_columns)
    figure = style.new_figure(style.TWO_COLUMNS, height)
    whole, low = figure.subplots(1, 2)
    for (i, entry), label in zip(drawn, labels, strict=True):
        fpr, tpr = entry.traces.roc_fpr, entry.traces.roc_tpr
        rows = charts.roc_points(fpr, 800)
        look = {"color": style.colour(i), "ls": style.DASHES[i % len(style.DASHES)]}
        for axis in (whole, low):
            axis.plot(fpr[rows], tpr[rows], label=label, **look)
    whole.set(xlim=(0, 1), title="all limits")
    title = f"few false alarms (shaded: up to {charts.PAUC_RATE:.0%})"
    low.set(xlim=(0, charts.LOW_RATE), title=title)
    low.axvspan(0, charts.PAUC_RATE, color=style.COLOURS[0], alpha=0.07, lw=0)
    for axis in (whole, low):
        axis.plot([0, 1], [0, 1], color="#999999", lw=0.7, ls=":")
        axis.set(
            ylim=(0, 1.01),
            xlabel="share of normal rows in alarm",
            ylabel="share of attack rows in alarm",
        )
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    lines = whole.lines[: len(drawn)]
    figure.legend(handles=lines, loc="outside lower center", ncols=n_columns)
    return figure


def quantiles(entries: Sequence[Entry]) -> "Figure | None":
    """Draw distributions of energy, and its quantiles against a chi-square.

    Two panels for each detector, with train, attack-free test and attacks.
    """
    figure = style.new_figure(style.TWO_COLUMNS, 0.6 + 1.25 * len(entries))
    axes = figure.subplots(len(entries), 2, squeeze=False)
    for (spread, ideal), entry in zip(axes, entries, strict=True):
        parts = charts.energies(entry)
        _spread(spread, entry, parts)
        _against_chi_square(ideal, entry, parts)
        spread.set_title(style.label(entry.label), loc="left", pad=3)
    axes[-1, 0].set_xlabel("energy / mean train energy")
    axes[-1, 1].set_xlabel("chi-square quantile / p")
    axes[0, 1].set_title("energy quantile / (p/2)", loc="left", pad=3)
    handles, labels = axes[0, 1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure


def _spread(axis: Any, entry: Entry, parts: Mapping[str, Floats]) -> None:
    """Draw the distribution of log energy of each part, scaled to the same height."""
    logs = {k: log_energy(v / entry.train_mean) for k, v in parts.items()}
    pooled = np.concatenate([np.quantile(v, [0.001, 0.999]) for v in logs.values()])
    edges = np.linspace(pooled.min(), max(pooled.max(), pooled.min() + 0.1), 71)
    for name, values in logs.items():
        counts, _ = np.histogram(values, edges)
        at = 10 ** ((edges[1:] + edges[:-1]) / 2)
        height = counts / max(int(counts.max()), 1)
        axis.plot(at, height, drawstyle="steps-mid", **_PARTS[name])
    axis.set_xscale("log")
    axis.set_yticks([])
    style.log_scale(axis.xaxis, 10**edges, most=6)


def _against_chi_square(axis: Any, entry: Entry, parts: Mapping[str, Floats]) -> None:
    """Draw quantiles of energy against those of a chi-square with p degrees."""
    p = entry.evaluation.stream.p
    ideal = 2 * charts.ideal_quantiles(p) / p
    for name, values in parts.items():
        measured = np.maximum(
            np.quantile(values, charts.QUANTILE_LEVELS) / (p / 2), 1e-6
        )
        axis.plot(ideal, measured, label=charts.PARTS[name], **_PARTS[name])
    axis.plot(ideal, ideal, color="black", lw=0.7, ls=(0, (4, 3)))
    axis.set_yscale("log")
    drawn = np.concatenate([line.get_ydata() for line in axis.lines])
    style.log_scale(axis.yaxis, drawn, most=3)


def attacks_by_detectors(entries: Sequence[Entry]) -> "Figure | None":
    """Draw the verdict of each detector on each attack as a table of marks.

    Names of detectors are upright if they do not fit side by side. None without
    attacks.
    """
    table = matrix(entries)
    if table is None:
        return None
    detectors = [style.label(name) for name in table.detectors]
    attacks = [style.label(row.id) for row in table.rows]
    margin = 0.8 + max(style.inches(name) for name in attacks)
    width = max(style.ONE_COLUMN, margin + 0.62 * len(detectors))
    widest = max(style.inches(name) for name in detectors)
    is_upright = widest > 0.9 * (width - margin) / len(detectors)
    above = 1.1 + (widest if is_upright else 0)
    figure = style.new_figure(width, above + 0.17 * len(attacks))
    axis = figure.subplots()
    cells = [
        (x, y, cell.verdict.word)
        for y, row in enumerate(table.rows)
        for x, cell in enumerate(row.cells)
        if cell is not None
    ]
    at_x, at_y, words = zip(*cells, strict=True)
    colours = [info_of(word).light for word in words]
    left = [x - 0.46 for x in at_x]
    axis.barh(at_y, 0.92, left=left, height=0.88, color=colours, alpha=0.15)
    style.plot_marks(axis, at_x, at_y, words)
    axis.set_xlim(-0.5, len(detectors) - 0.5)
    axis.set_ylim(len(attacks) - 0.4, -0.6)
    axis.set_xticks(range(len(detectors)), detectors, rotation=90 * is_upright)
    axis.set_yticks(range(len(attacks)), attacks)
    axis.xaxis.tick_top()
    axis.tick_params(length=0)
    axis.set_ylabel("attack")
    for side in ("left", "bottom", "top"):
        axis.spines[side].set_visible(False)
    figure.legend(
        handles=style.verdict_handles(entries),
        loc="outside lower center",
        ncols=3,
        handletextpad=0.2,
        columnspacing=1.0,
    )
    return figure


def ladder_coverage(entries: Sequence[Entry]) -> "Figure | None":
    """Draw the coverage of the attacks on each rung of the ladder.

    One panel for each detector; a rung whose number is no coverage is left out. None
    without a diagnosis.
    """
    drawn = [e for e in entries if any(s.ladder for s in e.evaluation.segments)]
    if not drawn:
        return None
    names = {r for e in drawn for s in e.evaluation.segments for r in s.ladder or {}}
    rungs = [r for r in LADDER.values() if r.is_coverage and r.name in names]
    n_across = min(len(drawn), MAX_ACROSS)
    n_down = -(-len(drawn) // n_across)
    height = 0.6 + n_down * (0.4 + 0.3 * len(rungs))
    figure = style.new_figure(style.TWO_COLUMNS, height)
    axes = figure.subplots(n_down, n_across, sharey=True, squeeze=False)
    for spare in axes.flat[len(drawn) :]:
        spare.set_visible(False)
    for axis, entry in zip(axes.flat, drawn, strict=False):
        for y, rung in enumerate(rungs):
            _rung(axis, entry, rung.name, y)
        axis.set_xlim(-0.05, 1.05)
        axis.set_xticks([0, 0.5, 1], ["0", "50%", "100%"])
        axis.set_title(style.fitting(entry.label, 4.9 / n_across), pad=3)
        axis.grid(axis="x", color="#e3e1dc", lw=0.5)
        axis.set_axisbelow(True)
        axis.tick_params(axis="y", length=0)
    axes[0, 0].set_yticks(range(len(rungs)), [rung.label for rung in rungs])
    axes[0, 0].invert_yaxis()
    title = "share of each attack beyond the limit (bar: attack-free time)"
    figure.suptitle(title, fontsize=8)
    handles = style.verdict_handles(drawn)
    figure.legend(handles=handles, loc="outside lower center", ncols=5)
    return figure


def _rung(axis: Any, entry: Entry, rung: str, y: int) -> None:
    """Mark each attack at its coverage on one rung, and attack-free time by a bar."""
    outcomes = [
        (s.ladder[rung], verdict.word)
        for s, verdict in zip(entry.evaluation.segments, entry.verdicts, strict=True)
        if s.ladder and rung in s.ladder
    ]
    if not outcomes:
        return
    covered = [outcome.coverage for outcome, _ in outcomes]
    # Small shifts keep marks of equal coverage apart.
    at_y = [y + ((k * 7) % 9 - 4) * 0.07 for k in range(len(outcomes))]
    style.plot_marks(axis, covered, at_y, [word for _, word in outcomes], size=3)
    calm = float(np.median([outcome.calm for outcome, _ in outcomes]))
    axis.plot([calm, calm], [y - 0.38, y + 0.38], color="black", lw=1)


FIGURES: dict[str, Callable[[Sequence[Entry]], "Figure | None"]] = {
    "energy-through-time": energy_through_time,
    "roc": roc,
    "energy-quantiles": quantiles,
    "attacks-by-detectors": attacks_by_detectors,
    "ladder-coverage": ladder_coverage,
}
# Rates below this are drawn at the left edge.
_LEAST_PER_DAY = 0.1


def write_rule_figure(facts: CommissioningFacts, folder: Path) -> list[Path]:
    """Write the curves of all rules as PDF, SVG and PNG, and return the paths.

    Parameters
    ----------
    facts : CommissioningFacts
        The table and the curves; without attacks nothing is written.
    folder : Path
        Gets ``curve.pdf``, ``curve.svg`` and ``curve.png``.
    """
    if not facts.n_attacks or not facts.judged_days:
        return []
    with style.styled():
        return style.save(rule_figure(facts), folder, "curve")


def rule_figure(facts: CommissioningFacts) -> "Figure":
    """Return attacks raised against alarms a day, for each rule.

    A line shows the most attacks that any limit of a rule raises on the judged rows
    within that many alarms; a filled mark is the limit that commissioning set. Rules in
    use have a hollow mark.
    """
    from matplotlib.ticker import MaxNLocator

    figure = style.new_figure(style.TWO_COLUMNS, 3.6)
    axis = figure.add_subplot()
    axis.set_xscale("log")
    for k, curve in enumerate(facts.curves):
        _draw_curve(axis, curve, facts, k)
    for k, row in enumerate(facts.present):
        at = max(row.load.alarms_per_day or 0.0, _LEAST_PER_DAY)
        axis.plot(
            [at],
            [row.attacks.raised],
            marker=style.marker(k),
            color=style.SOFT,
            markerfacecolor="white",
            linestyle="none",
            label=f"{style.label(row.name)} (in use)",
            clip_on=False,
        )
    budget = facts.accepted.per_day
    axis.axvline(
        budget, color=style.TAU, lw=0.8, ls="--", label=f"budget {facts.budget}"
    )
    for rate in (MANAGEABLE_PER_DAY, MOST_PER_DAY):
        axis.axvline(rate, color=style.SOFT, lw=0.5, ls=":")
    most = 1.2 * max(
        (row.load.alarms_per_day or 0.0 for row in facts.present), default=0
    )
    axis.set_xlim(_LEAST_PER_DAY, max(2 * MOST_PER_DAY, 4 * budget, most))
    axis.set_ylim(0, facts.n_attacks)
    axis.yaxis.set_major_locator(MaxNLocator(integer=True))
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_xlabel(
        f"false alarms a day on {facts.judged_days:.1f} attack-free days after the "
        "split (log scale; dotted: 144 and 288, ISA-18.2)"
    )
    axis.set_ylabel(f"attacks raised, of {facts.n_attacks}")
    figure.legend(loc="outside right upper")
    return figure


def _draw_curve(axis: Any, curve: Curve, facts: CommissioningFacts, k: int) -> None:
    """Draw one rule: what its limits could raise, and the limit that was set."""
    row, is_chosen = facts.row(curve.name), curve.name == facts.chosen
    colour = style.TRAIN if is_chosen else style.colour(k)
    name = style.label(curve.name) + (" (chosen)" if is_chosen else "")
    rates, raised = best_within(curve)
    axis.step(
        [max(rate, _LEAST_PER_DAY) for rate in rates],
        raised,
        where="post",
        color=colour,
        ls="-" if is_chosen else style.DASHES[k % len(style.DASHES)],
        lw=2.2 if is_chosen else 0.8,
        label=name,
        zorder=3 if is_chosen else 2,
    )
    at = max(row.load.alarms_per_day or 0.0, _LEAST_PER_DAY)
    axis.plot(
        [at],
        [row.attacks.raised],
        marker="o" if is_chosen else style.marker(k),
        color=colour,
        markersize=7 if is_chosen else 4,
        linestyle="none",
        clip_on=False,
        zorder=4,
    )


def best_within(curve: Curve) -> tuple[list[float], list[int]]:
    """Return for rising rates the most attacks that any limit within them raises.

    A lower limit may raise fewer attacks, where alarms grow together: the curve by
    limits would turn back.

    Examples
    --------
    >>> best_within(
    ...     Curve(
    ...         name="x",
    ...         limits=(3, 2, 1),
    ...         alarms_per_day=(0.0, 9.0, 4.0),
    ...         raised=(2, 5, 3),
    ...     )
    ... )
    ([0.0, 4.0, 9.0], [2, 3, 5])
    """
    order = sorted(zip(curve.alarms_per_day, curve.raised, strict=True))
    rates: list[float] = []
    best: list[int] = []
    for rate, raised in order:
        rates.append(rate)
        best.append(max(raised, best[-1] if best else 0))
    return rates, best
