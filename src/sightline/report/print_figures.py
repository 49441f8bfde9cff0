"""Figures for papers and slides: PDF, SVG and PNG at column width, and their style.

The report's figures and the paper's figures share sizes, colours and fonts. Text is
stored as outlines and files hold no date, so the same results give the same bytes on
every machine.
"""

import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.data.arrays import Floats
from sightline.evaluation.chart_data import extreme_rows
from sightline.files import staged_file
from sightline.judgement.ladder import LADDER
from sightline.judgement.verdicts import all_infos, info_of
from sightline.metrics.alarm_load import MANAGEABLE_PER_DAY, MOST_PER_DAY
from sightline.report import charts
from sightline.report.attacks import matrix
from sightline.report.charts import PageClock, clock_of, log_energy, moments
from sightline.report.entries import Entry, unique
from sightline.rules.judging import CommissioningFacts, Curve
from sightline.text import FONT, as_labelled, drawable, short, slug, superscript

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Width of one column of a two-column paper, and of both, in inches.
ONE_COLUMN, TWO_COLUMNS = 3.4, 7.0
# Longer names are shortened in the middle.
MAX_LETTERS = 40
PNG_DPI = 300
# In a notebook.
SCREEN_DPI = 110
# Stored in each file, so that `is_ours` recognises it.
CREATOR = "Sightline"
_STYLE: Any = {
    "font.family": [FONT],
    "font.size": 7.5,
    "axes.labelsize": 7.5,
    "axes.titlesize": 8.0,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.fontsize": 7.0,
    "legend.frameon": False,
    "lines.linewidth": 1.0,
    # Publishers refuse the fonts of type 3 that matplotlib writes by default.
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "sightline",
    "text.usetex": False,
    "mathtext.fontset": "dejavusans",
}
# Distinguishable with any colour vision. The page uses the same colours.
COLOURS = ("#332288", "#117733", "#b5479b", "#c4533f", "#2a9d8f", "#8a8420", "#882255")
# Coprime with the number of colours: a pair recurs only after 42 lines.
DASHES = ("-", "--", ":", "-.", (0, (5, 1)), (0, (3, 1, 1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "p", "h")
TAU, TRAIN, FLOOR, SOFT = "#b3261e", "#1d6fa5", "#8a6100", "#565d68"


@contextmanager
def styled() -> Iterator[None]:
    """Apply the print style, independent of the user's matplotlib settings."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


def colour(k: int) -> str:
    """Return the k-th colour; after the last one they repeat."""
    return COLOURS[k % len(COLOURS)]


def marker(k: int) -> str:
    """Return the k-th marker; after the last one they repeat."""
    return MARKERS[k % len(MARKERS)]


def new_figure(width: float, height: float) -> "Figure":
    """Return an empty figure that needs no screen.

    Parameters
    ----------
    width, height : float
        In inches; `ONE_COLUMN` and `TWO_COLUMNS` are the widths of a paper.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = _figure_type()(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


@cache
def _figure_type() -> "type[Figure]":
    """Return the class of figures, which a notebook shows without pyplot."""
    from matplotlib.figure import Figure

    class ShownFigure(Figure):
        def _repr_png_(self) -> bytes:
            file = io.BytesIO()
            self.savefig(file, format="png", dpi=SCREEN_DPI)
            return file.getvalue()

    return ShownFigure


def rendered(figure: "Figure") -> dict[str, bytes]:
    """Return a figure as files.

    Returns
    -------
    dict of str to bytes
        By file ending: ``pdf``, ``svg`` and ``png``. All share one layout and hold no
        date, so the same figure gives the same bytes.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(figure)
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
    # With an engine, also the one called "none", each file would be drawn twice.
    figure.set_layout_engine(None)
    files = {}
    for kind, metadata in (
        ("pdf", {"CreationDate": None, "Creator": CREATOR}),
        ("svg", {"Date": None, "Creator": CREATOR}),
        ("png", {"Software": CREATOR}),
    ):
        file = io.BytesIO()
        figure.savefig(file, format=kind, dpi=PNG_DPI, metadata=metadata)
        files[kind] = file.getvalue()
    return files


def save(figure: "Figure", folder: Path, stem: str) -> list[Path]:
    """Write a figure as PDF, SVG and PNG.

    Parameters
    ----------
    figure : Figure
        Drawn inside `styled`.
    folder : Path
        Is created if needed.
    stem : str
        Name of the files without the ending.

    Returns
    -------
    list of Path
        The files, each written completely or not at all.
    """
    paths = []
    for kind, content in rendered(figure).items():
        paths.append(folder / f"{stem}.{kind}")
        with staged_file(paths[-1]) as partial:
            partial.write_bytes(content)
    return paths


def is_ours(path: Path) -> bool:
    """Return whether a file is a figure that `save` wrote: it names Sightline."""
    content = path.read_bytes()
    # A PDF file does so at its end, others at their beginning.
    return CREATOR.encode() in (content if path.suffix == ".pdf" else content[:4096])


def label(name: str, letters: int = MAX_LETTERS) -> str:
    """Return a name as a figure shows it: drawable, and shortened in the middle."""
    return drawable(short(name, letters))


def inches(text: str, size: float = 7.0) -> float:
    """Return the width of a text in inches at a font size in points."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    if not text.strip():
        return 0.0
    path = TextPath((0, 0), text, size=size, prop=FontProperties(family=FONT))
    return float(path.get_extents().x1) / 72


def fitting(name: str, width: float, size: float = 8.0) -> str:
    """Return a name, shortened until it is at most `width` inches wide.

    At least five letters stay, even if they are wider.
    """
    letters = MAX_LETTERS
    while letters > 5 and inches(label(name, letters), size) > width:
        letters -= 1
    return label(name, letters)


def mark(word: str, size: float = 4) -> dict[str, Any]:
    """Return the keywords of `Axes.plot` that mark a verdict.

    Parameters
    ----------
    word : str
        The verdict; colour, marker and fill come from the table of verdicts.
    size : float
        Size of the marker in points.
    """
    info = info_of(word)
    return {
        "marker": info.print_marker,
        "color": info.light,
        "markerfacecolor": "white" if info.is_hollow else info.light,
        "linestyle": "none",
        "markersize": size,
        "markeredgewidth": 0.9,
    }


def plot_marks(
    axis: Any, x: Sequence[float], y: Sequence[float], words: Sequence[str], **size: Any
) -> None:
    """Mark points by their verdicts.

    Parameters
    ----------
    axis : Axes
        Where to draw.
    x, y : sequence of float
        Positions in data units.
    words : sequence of str
        The verdict of each point.
    size : float
        Size of the markers in points.
    """
    for word in dict.fromkeys(words):
        picked = [k for k, one in enumerate(words) if one == word]
        at_x, at_y = [x[k] for k in picked], [y[k] for k in picked]
        # A mark at the edge of the axes is drawn in full.
        axis.plot(at_x, at_y, clip_on=False, **mark(word, **size))


def verdict_handles(entries: Sequence[Entry]) -> list[Any]:
    """Return legend handles of the verdicts that occur in the results."""
    from matplotlib.lines import Line2D

    words = {verdict.word for entry in entries for verdict in entry.verdicts}
    return [
        Line2D([], [], label=info.word, **mark(info.word))
        for info in all_infos()
        if info.word in words
    ]


def level_handles() -> list[Any]:
    """Return legend handles of the three energy levels."""
    from matplotlib.lines import Line2D

    return [
        Line2D([], [], color=TAU, lw=0.8, ls="-", label="alarm limit (tau99)"),
        Line2D([], [], color=TRAIN, lw=0.8, ls=":", label="train level"),
        Line2D([], [], color=FLOOR, lw=0.8, ls="--", label="drift floor"),
    ]


def log_scale(axis: Any, values: Floats, *, most: int = 4) -> None:
    """Give a log axis few ticks at whole decades, or between them within one decade.

    Parameters
    ----------
    axis : Axis
        ``ax.xaxis`` or ``ax.yaxis``.
    values : array
        What is drawn; values of 0 or less are ignored.
    most : int
        About how many ticks there are at most.
    """
    from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

    positive = values[values > 0]
    least, largest = float(positive.min()), float(positive.max())
    low, high = np.log10(least), np.log10(largest)
    step = max(1, int(np.ceil((high - low) / most)))
    ticks = 10.0 ** np.arange(np.ceil(low), np.floor(high) + 1, step)
    axis.set_major_formatter(lambda value, _: power_of_ten(value))
    if len(ticks) < 2:
        ticks = np.asarray(MaxNLocator(most - 1).tick_values(least, largest))
        ticks = ticks[(ticks > 0) & (ticks >= least) & (ticks <= largest)]
        axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_major_locator(FixedLocator(ticks.tolist()))
    axis.set_minor_locator(NullLocator())


def power_of_ten(value: float) -> str:
    """Return a power of ten as people write it by hand.

    Examples
    --------
    >>> power_of_ten(0.1), power_of_ten(10), power_of_ten(1e6)
    ('0.1', '10', '10\u2076')
    """
    power = round(np.log10(value))
    return f"{10.0**power:g}" if -2 <= power <= 2 else f"10{superscript(power)}"


# ---- the figures of a report --------------------------------------------------------

# Panels in a row of the ladder's figure.
MAX_ACROSS = 4
_PARTS = {
    "train": {"color": TRAIN, "ls": ":"},
    "normal": {"color": SOFT, "ls": "-"},
    "attack": {"color": TAU, "ls": "--"},
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
    with styled():
        for testbed in testbeds:
            group = [entry for entry in entries if entry.testbed == testbed]
            prefix = unique(slug(testbed), taken)
            for name, draw in FIGURES.items():
                figure = draw(group)
                if figure is None:
                    continue
                stem = name if len(testbeds) == 1 else f"{prefix}-{name}"
                written += save(figure, folder, stem)
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
        if named.fullmatch(path.name) and path.is_file() and is_ours(path)
    ]


def energy_through_time(entries: Sequence[Entry]) -> "Figure | None":
    """Draw the energy of each detector on one time axis, attacks shaded by verdict.

    One panel for each detector, with the alarm limit, the train level and the drift
    floor. Peaks are kept: each column draws its lowest and highest row.
    """
    figure = new_figure(TWO_COLUMNS, 0.55 + 0.95 * len(entries))
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
        axis.set_title(label(entry.label), loc="left", pad=3)
        # A mark at the end of the record needs room within the figure.
        axis.set_xlim(first - 0.008 * wide, last + 0.008 * wide)
        if axis is axes[-1]:
            axis.set_xlabel(unit)
        else:
            axis.tick_params(labelbottom=False)
    figure.supylabel("energy", fontsize=8)
    handles = [*level_handles(), *verdict_handles(entries)]
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
        color=SOFT,
        lw=0.5,
    )
    low = min(float(np.quantile(logs, 0.005)), float(np.log10(entry.train_mean or 1.0)))
    high = float(logs.max())
    wide = max(high - low, 0.1)
    axis.set_yscale("log")
    axis.set_ylim(10 ** (low - 0.1), 10 ** (high + 0.3 * wide))
    log_scale(axis.yaxis, 10 ** np.array([low, high]), most=3)
    if (tau := entry.evaluation.probe.tau99) is not None:
        axis.axhline(tau, color=TAU, lw=0.8)
    axis.axhline(entry.train_mean, color=TRAIN, lw=0.8, ls=":")
    if entry.drift_floor is not None and entry.drift_floor > 0:
        axis.axhline(entry.drift_floor, color=FLOOR, lw=0.8, ls="--")
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
    plot_marks(axis, middles, [at] * len(words), words)


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
    labels = [f"{label(e.label)} ({e.evaluation.rank.roc_auc:.3f})" for _, e in drawn]
    # The sample of the line takes 0.55 inches.
    widest = max(inches(name) for name in labels) + 0.55
    n_columns = min(max(int(TWO_COLUMNS / widest), 1), 5)
    height = 2.85 + 0.15 * -(-len(drawn) // n_columns)
    figure = new_figure(TWO_COLUMNS, height)
    whole, low = figure.subplots(1, 2)
    for (i, entry), name in zip(drawn, labels, strict=True):
        fpr, tpr = entry.traces.roc_fpr, entry.traces.roc_tpr
        rows = charts.roc_points(fpr, 800)
        look = {"color": colour(i), "ls": DASHES[i % len(DASHES)]}
        for axis in (whole, low):
            axis.plot(fpr[rows], tpr[rows], label=name, **look)
    whole.set(xlim=(0, 1), title="all limits")
    title = f"few false alarms (shaded: up to {charts.PAUC_RATE:.0%})"
    low.set(xlim=(0, charts.LOW_RATE), title=title)
    low.axvspan(0, charts.PAUC_RATE, color=COLOURS[0], alpha=0.07, lw=0)
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
    figure = new_figure(TWO_COLUMNS, 0.6 + 1.25 * len(entries))
    axes = figure.subplots(len(entries), 2, squeeze=False)
    for (spread, against), entry in zip(axes, entries, strict=True):
        parts, p = charts.energies(entry), entry.evaluation.stream.p
        logs = {k: log_energy(v / entry.train_mean) for k, v in parts.items()}
        pooled = np.concatenate([np.quantile(v, [0.001, 0.999]) for v in logs.values()])
        edges = np.linspace(pooled.min(), max(pooled.max(), pooled.min() + 0.1), 71)
        ideal = 2 * charts.ideal_quantiles(p) / p
        for name, values in parts.items():
            counts, _ = np.histogram(logs[name], edges)
            at = 10 ** ((edges[1:] + edges[:-1]) / 2)
            # Each distribution is scaled to the same height.
            height = counts / max(int(counts.max()), 1)
            spread.plot(at, height, drawstyle="steps-mid", **_PARTS[name])
            measured = np.quantile(values, charts.QUANTILE_LEVELS) / (p / 2)
            shown = np.maximum(measured, 1e-6)
            against.plot(ideal, shown, label=charts.PARTS[name], **_PARTS[name])
        spread.set_xscale("log")
        spread.set_yticks([])
        log_scale(spread.xaxis, 10**edges, most=6)
        against.plot(ideal, ideal, color="black", lw=0.7, ls=(0, (4, 3)))
        against.set_yscale("log")
        drawn = np.concatenate([line.get_ydata() for line in against.lines])
        log_scale(against.yaxis, drawn, most=3)
        spread.set_title(label(entry.label), loc="left", pad=3)
    axes[-1, 0].set_xlabel("energy / mean train energy")
    axes[-1, 1].set_xlabel("chi-square quantile / p")
    axes[0, 1].set_title("energy quantile / (p/2)", loc="left", pad=3)
    handles, labels = axes[0, 1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure


def attacks_by_detectors(entries: Sequence[Entry]) -> "Figure | None":
    """Draw the verdict of each detector on each attack as a table of marks.

    Names of detectors are upright if they do not fit side by side. None without
    attacks.
    """
    attacked, matched = matrix(entries)
    if not matched:
        return None
    detectors = [label(entry.label) for entry in attacked]
    attacks = [label(attack.id) for attack in matched]
    margin = 0.8 + max(inches(name) for name in attacks)
    width = max(ONE_COLUMN, margin + 0.62 * len(detectors))
    widest = max(inches(name) for name in detectors)
    is_upright = widest > 0.9 * (width - margin) / len(detectors)
    above = 1.1 + (widest if is_upright else 0)
    figure = new_figure(width, above + 0.17 * len(attacks))
    axis = figure.subplots()
    cells = [
        (x, y, entry.verdicts[attack.places[entry.label]].word)
        for y, attack in enumerate(matched)
        for x, entry in enumerate(attacked)
        if entry.label in attack.places
    ]
    at_x, at_y, words = zip(*cells, strict=True)
    colours = [info_of(word).light for word in words]
    left = [x - 0.46 for x in at_x]
    axis.barh(at_y, 0.92, left=left, height=0.88, color=colours, alpha=0.15)
    plot_marks(axis, at_x, at_y, words)
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
        handles=verdict_handles(entries),
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
    figure = new_figure(TWO_COLUMNS, height)
    axes = figure.subplots(n_down, n_across, sharey=True, squeeze=False)
    for spare in axes.flat[len(drawn) :]:
        spare.set_visible(False)
    for axis, entry in zip(axes.flat, drawn, strict=False):
        judged = list(zip(entry.evaluation.segments, entry.verdicts, strict=True))
        for y, rung in enumerate(rungs):
            outcomes = [
                (s.ladder[rung.name], verdict.word)
                for s, verdict in judged
                if s.ladder and rung.name in s.ladder
            ]
            if not outcomes:
                continue
            covered = [outcome.coverage for outcome, _ in outcomes]
            # Small shifts keep marks of equal coverage apart.
            at_y = [y + ((k * 7) % 9 - 4) * 0.07 for k in range(len(outcomes))]
            plot_marks(axis, covered, at_y, [word for _, word in outcomes], size=3)
            calm = float(np.median([outcome.calm for outcome, _ in outcomes]))
            axis.plot([calm, calm], [y - 0.38, y + 0.38], color="black", lw=1)
        axis.set_xlim(-0.05, 1.05)
        axis.set_xticks([0, 0.5, 1], ["0", "50%", "100%"])
        axis.set_title(fitting(entry.label, 4.9 / n_across), pad=3)
        axis.grid(axis="x", color="#e3e1dc", lw=0.5)
        axis.set_axisbelow(True)
        axis.tick_params(axis="y", length=0)
    axes[0, 0].set_yticks(range(len(rungs)), [rung.label for rung in rungs])
    axes[0, 0].invert_yaxis()
    title = "share of each attack beyond the limit (bar: attack-free time)"
    figure.suptitle(title, fontsize=8)
    handles = verdict_handles(drawn)
    figure.legend(handles=handles, loc="outside lower center", ncols=5)
    return figure


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
    with styled():
        return save(rule_figure(facts), folder, "curve")


def rule_figure(facts: CommissioningFacts) -> "Figure":
    """Return attacks caught against alarms a day, for each rule.

    A line shows the most attacks that any limit of a rule catches on the judged rows
    within that many alarms; a filled mark is the limit that commissioning set. Rules in
    use have a hollow mark.
    """
    from matplotlib.ticker import MaxNLocator

    figure = new_figure(TWO_COLUMNS, 3.6)
    axis = figure.add_subplot()
    axis.set_xscale("log")
    for k, curve in enumerate(facts.curves):
        _draw_curve(axis, curve, facts, k)
    for k, row in enumerate(facts.present):
        at = max(row.load.alarms_per_day or 0.0, _LEAST_PER_DAY)
        axis.plot(
            [at],
            [row.attacks.caught],
            marker=marker(k),
            color=SOFT,
            markerfacecolor="white",
            linestyle="none",
            label=f"{label(row.name)} (in use)",
            clip_on=False,
        )
    budget = facts.accepted.per_day
    axis.axvline(budget, color=TAU, lw=0.8, ls="--", label=f"budget {facts.budget}")
    for rate in (MANAGEABLE_PER_DAY, MOST_PER_DAY):
        axis.axvline(rate, color=SOFT, lw=0.5, ls=":")
    most = 1.2 * max(
        (row.load.alarms_per_day or 0.0 for row in facts.present), default=0
    )
    axis.set_xlim(_LEAST_PER_DAY, max(2 * MOST_PER_DAY, 4 * budget, most))
    axis.set_ylim(0, facts.n_attacks)
    axis.yaxis.set_major_locator(MaxNLocator(integer=True))
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_xlabel(
        as_labelled("false alarms a day", facts.labels)
        + f" on {facts.judged_days:.1f} {facts.later_days} (log scale; dotted: 144 and "
        "288, ISA-18.2)"
    )
    axis.set_ylabel(f"attacks caught, of {facts.n_attacks}")
    figure.legend(loc="outside right upper")
    return figure


def _draw_curve(axis: Any, curve: Curve, facts: CommissioningFacts, k: int) -> None:
    """Draw one rule: what its limits could catch, and the limit that was set."""
    row, is_chosen = facts.row(curve.name), curve.name == facts.chosen
    hue = TRAIN if is_chosen else colour(k)
    name = label(curve.name) + (" (chosen)" if is_chosen else "")
    rates, raised = best_within(curve)
    axis.step(
        [max(rate, _LEAST_PER_DAY) for rate in rates],
        raised,
        where="post",
        color=hue,
        ls="-" if is_chosen else DASHES[k % len(DASHES)],
        lw=2.2 if is_chosen else 0.8,
        label=name,
        zorder=3 if is_chosen else 2,
    )
    at = max(row.load.alarms_per_day or 0.0, _LEAST_PER_DAY)
    axis.plot(
        [at],
        [row.attacks.caught],
        marker="o" if is_chosen else marker(k),
        color=hue,
        markersize=7 if is_chosen else 4,
        linestyle="none",
        clip_on=False,
        zorder=4,
    )


def best_within(curve: Curve) -> tuple[list[float], list[int]]:
    """Return for rising rates the most attacks that any limit within them catches.

    A lower limit may catch fewer attacks, where alarms grow together: the curve by
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
