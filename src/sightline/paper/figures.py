"""The paper's figures from a study: agreement, ranking and alarms, the identity."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.comparison.compare import Agreement, Comparison, why_undefined
from sightline.comparison.runs import DetectorRuns, Spread
from sightline.data.arrays import Floats
from sightline.figures import Figure
from sightline.paper.study import PaperStudy, space_of, texts
from sightline.paper.tables import agreement_of
from sightline.report import print_figures as style
from sightline.text import drawable, names, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture
    from matplotlib.image import AxesImage

# With more detectors than this, two panels and not three are next to each other.
_MOST_IN_THREE = 6
# On a cell with a higher luminance black has more contrast than white.
_BRIGHT = 0.179
# Longer names are cut in titles and in legends.
_TITLE_LETTERS = 30
_LEGEND_LETTERS = 26


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A figure that was drawn.

    Parameters
    ----------
    name : str
        Name of the files, without their ending.
    caption : str
        The text to print below the figure.
    files : dict
        Content of the files by ending: ``pdf``, ``svg`` and ``png``.
    """

    name: str
    caption: str
    files: dict[str, bytes]


def draw_all(
    study: PaperStudy, compared: Comparison, *, identity_of: str | None = None
) -> tuple[list[Drawn], list[str]]:
    """Return the figures that can be drawn, and a notice for each that cannot.

    Parameters
    ----------
    study : PaperStudy
        The results.
    compared : Comparison
        Of the same results.
    identity_of : str, optional
        The one detector of the figure ``mean_shift_identity``; all if not given.

    Returns
    -------
    list of Drawn, list of str
        A notice says what the skipped figure needs.
    """
    drawn, notices = [], []
    need_of_identity = "it needs an attack window with more energy than the ideal p/2"
    if identity_of not in (None, *study.detectors):
        detectors = names(study.detectors)
        need_of_identity = f"there is no detector '{identity_of}', only {detectors}"
    with style.styled():
        for name, picture, need in (
            (
                "agreement",
                agreement(study, compared),
                why_undefined(compared.agreement),
            ),
            (
                "mean_ranks",
                mean_ranks(study, compared),
                "it needs two detectors that share at least two attacks",
            ),
            ("roc_auc_against_f1", ranking_and_alarms(study), "it needs attacks"),
            (
                "mean_shift_identity",
                mean_shift_identity(study, identity_of),
                need_of_identity,
            ),
        ):
            if picture is None:
                notices.append(f"Skipped figure '{name}': {need}.")
            else:
                figure, caption = picture
                drawn.append(
                    Drawn(name=name, caption=caption, files=style.rendered(figure))
                )
    return drawn, notices


def agreement(study: PaperStudy, compared: Comparison) -> "tuple[Picture, str] | None":
    """Draw rho of D_FULL for each two detectors, a panel for each testbed.

    Colours from -1 (opposite order of attacks) to 1 (same order); a dash where two
    detectors share too few attacks.

    Returns
    -------
    figure and caption, or None
        None if no two detectors have a rho; `why_undefined` gives the reason.
    """
    rhos = {testbed: agreement_of(compared, testbed) for testbed in study.testbeds}
    testbeds = [
        testbed
        for testbed in study.testbeds
        if any(row.rho is not None for row in rhos[testbed].values())
    ]
    if not testbeds:
        return None
    most = max(len(study.on(testbed).detectors) for testbed in testbeds)
    across = min(len(testbeds), 3 if most <= _MOST_IN_THREE else 2)
    width = style.ONE_COLUMN if across == 1 else style.TWO_COLUMNS
    height = ceil(len(testbeds) / across) * (0.78 * width / across + 0.55) + 0.5
    figure, panels = _panels(len(testbeds), across, (width, height))
    images = [
        _heat(panel, study, testbed, rhos[testbed])
        for panel, testbed in zip(panels, testbeds, strict=True)
    ]
    bar = figure.colorbar(
        images[0], ax=panels, orientation="horizontal", shrink=0.5, aspect=40, pad=0.02
    )
    bar.set_label(r"Spearman's $\rho$ of $D_{\mathrm{FULL}}$ over shared attacks")
    bar.outline.set_visible(False)
    seeds = ", the mean over pairs of seeds" if study.has_seeds else ""
    return figure, texts()["figures"]["agreement"].format(seeds=seeds)


def _heat(
    panel: "Axes",
    study: PaperStudy,
    testbed: str,
    rhos: dict[frozenset[str], Agreement],
) -> "AxesImage":
    """Draw the lower triangle of rho, each cell with its number."""
    import matplotlib as mpl

    detectors = study.on(testbed).detectors
    ordered = sorted(detectors, key=lambda runs: (str(space_of(runs)), runs.label))
    labels = [runs.label for runs in ordered]
    n = len(labels)
    grid = np.full((n - 1, n - 1), np.nan)
    for i in range(1, n):
        for j in range(i):
            rho = rhos[frozenset((labels[i], labels[j]))].rho
            grid[i - 1, j] = np.nan if rho is None else rho
    colours = mpl.colormaps["PuOr_r"]
    image = panel.imshow(grid, cmap=colours, vmin=-1, vmax=1)
    for (i, j), rho in np.ndenumerate(grid):
        if j <= i:
            shade = colours((rho + 1) / 2)[:3] if np.isfinite(rho) else (1.0, 1.0, 1.0)
            # The relative luminance of an sRGB colour, from 0 (black) to 1 (white).
            part = np.asarray(shade)
            low, high = part / 12.92, ((part + 0.055) / 1.055) ** 2.4
            light = np.where(part <= 0.04045, low, high) @ (0.2126, 0.7152, 0.0722)
            panel.text(
                j,
                i,
                f"{rho:.2f}" if np.isfinite(rho) else "-",
                ha="center",
                va="center",
                fontsize=7,
                color="black" if light > _BRIGHT else "white",
            )
    titles = [drawable(study.short_title(label)) for label in labels]
    panel.set_xticks(
        range(n - 1), titles[:-1], rotation=40, ha="right", rotation_mode="anchor"
    )
    panel.set_yticks(range(n - 1), titles[1:])
    panel.tick_params(length=0)
    panel.spines[:].set_visible(False)
    _set_title(panel, study.testbed_title(testbed))
    # A line where the residual space of the sorted detectors changes.
    spaces = [space_of(runs) for runs in ordered]
    for k in range(1, n):
        if spaces[k] != spaces[k - 1]:
            lines = []
            if k > 1:  # not along the edge
                lines.append(([-0.5, k - 0.5], [k - 1.5, k - 1.5]))
            if k < n - 1:
                lines.append(([k - 0.5, k - 0.5], [k - 1.5, n - 1.5]))
            for x, y in lines:
                panel.plot(x, y, color="black", linewidth=1.0, clip_on=False)
    return image


def mean_ranks(study: PaperStudy, compared: Comparison) -> "tuple[Picture, str] | None":
    """Draw the mean ranks of detectors, with bars that join those not told apart.

    A panel for each testbed, one below the other.

    Returns
    -------
    figure and caption, or None
        None if no two detectors of a testbed share two attacks.
    """
    rows = [row for row in compared.ranks if row.testbed in study.testbeds]
    if not rows:
        return None
    n_lines = sum(len(row.detectors) + 3 for row in rows)
    height = 0.4 + 0.19 * n_lines
    figure, panels = _panels(len(rows), 1, (style.ONE_COLUMN, height))
    for panel, row in zip(panels, rows, strict=True):
        n = len(row.detectors)
        lines = range(n)
        panel.plot(row.ranks, lines, "o", color=style.colour(0), markersize=4)
        for k, group in enumerate(row.groups):
            places = [row.detectors.index(label) for label in group]
            at = n + 0.35 + 0.3 * k
            panel.plot(
                [at, at],
                [places[0] - 0.25, places[-1] + 0.25],
                color="0.2",
                linewidth=2.2,
                solid_capstyle="butt",
            )
        titles = [drawable(study.short_title(label)) for label in row.detectors]
        panel.set_yticks(list(lines), titles)
        panel.set_ylim(n - 0.4, -0.6)
        panel.set_xlim(0.8, n + 0.35 + 0.3 * max(len(row.groups), 1))
        panel.set_xticks(range(1, n + 1))
        panel.grid(axis="x", linewidth=0.4, color="0.85")
        panel.set_xlabel(f"mean rank over {row.n_attacks} attacks (1 is the best)")
        _set_title(panel, study.testbed_title(row.testbed))
    seeds = "; AUCs are means over seeds" if study.has_seeds else ""
    return figure, texts()["figures"]["mean_ranks"].format(seeds=seeds)


def ranking_and_alarms(study: PaperStudy) -> "tuple[Picture, str] | None":
    """Draw ROC-AUC against F1 at the p99 limit, a point for a detector on a testbed.

    Points are means over seeds, bars their range.

    Returns
    -------
    figure and caption, or None
        None if no detector has both figures, that is, without attacks.
    """
    points = []
    for runs in study.runs:
        roc_auc, f1 = runs.spread(Figure.ROC_AUC), runs.spread(Figure.F1)
        if roc_auc is not None and f1 is not None:
            points.append((runs, roc_auc, f1))
    if not points:
        return None
    testbeds = [t for t in study.testbeds if any(r.testbed == t for r, *_ in points)]
    detectors = [d for d in study.detectors if any(r.label == d for r, *_ in points)]
    n_lines = ceil(len(testbeds) / 2) + ceil(len(detectors) / 2)
    figure, (panel,) = _panels(1, 1, (style.ONE_COLUMN, 2.6 + 0.16 * n_lines))
    for runs, roc_auc, f1 in points:
        shade = style.colour(testbeds.index(runs.testbed))
        panel.errorbar(
            roc_auc.mean,
            f1.mean,
            xerr=_bars(roc_auc),
            yerr=_bars(f1),
            color=shade,
            marker=style.marker(detectors.index(runs.label)),
            markersize=5,
            markeredgecolor="white",
            markeredgewidth=0.4,
            ecolor=(shade, 0.6),
            elinewidth=0.7,
            linestyle="none",
        )
    panel.axvline(0.5, color="0.6", linewidth=0.6, linestyle=":", zorder=0)
    panel.set_xlabel("ROC-AUC (before any alarm rule)")
    panel.set_ylabel("F1 at the train p99 limit")
    low, high = min(-0.02, panel.get_ylim()[0]), panel.get_ylim()[1]
    # Room above the highest mark.
    panel.set_ylim(low, high + 0.05 * (high - low))
    panel.set_xlim(left=min(0.48, panel.get_xlim()[0]))
    _legend(figure, study, testbeds, detectors)
    seeds = "; bars are the range over seeds" if study.has_seeds else ""
    return figure, texts()["figures"]["roc_auc_against_f1"].format(seeds=seeds)


def _bars(spread: Spread) -> list[list[float]]:
    """Return the error bars from the mean to the lowest and highest value."""
    return [[spread.mean - spread.low], [spread.high - spread.mean]]


def _legend(
    figure: "Picture",
    study: PaperStudy,
    testbeds: Sequence[str],
    detectors: Sequence[str],
) -> None:
    """Add one legend below: colours are testbeds, markers are detectors.

    Two columns; names are cut after `_LEGEND_LETTERS` letters.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    plants: list[tuple[Any, str]] = [
        (Patch(color=style.colour(k)), study.testbed_title(name))
        for k, name in enumerate(testbeds)
    ]
    marks: list[tuple[Any, str]] = [
        (
            Line2D(
                [], [], ls="none", marker=style.marker(k), color="0.35", markersize=5
            ),
            study.detector_title(name),
        )
        for k, name in enumerate(detectors)
    ]
    # Matplotlib fills a legend column by column; in each the testbeds come first.
    blank = (Line2D([], [], linestyle="none"), "")
    entries = []
    for column in range(2):
        for group in (plants, marks):
            half = ceil(len(group) / 2)
            part = group[column * half : (column + 1) * half]
            entries += part + [blank] * (half - len(part))
    handles, labels = zip(*entries, strict=True)
    figure.legend(
        handles,
        [drawable(short(label, _LEGEND_LETTERS)) for label in labels],
        loc="outside lower center",
        ncols=2,
        handletextpad=0.4,
        labelspacing=0.3,
        columnspacing=1.2,
    )


@dataclass(frozen=True, eq=False)
class _Identity:
    """The attacks of a detector on a testbed, of the first seed.

    Parameters
    ----------
    runs : DetectorRuns
        The detector on the testbed.
    shift, excess : array of shape (n_attacks,)
        D_MS and W (mean energy - p/2) of the attacks for which both are above 0.
    n_hidden : int
        Number of the other attacks, which a logarithmic axis cannot show.
    """

    runs: DetectorRuns
    shift: Floats
    excess: Floats
    n_hidden: int


def mean_shift_identity(
    study: PaperStudy, detector: str | None = None
) -> "tuple[Picture, str] | None":
    """Draw W (mean energy - p/2) against D_MS of each attack, a panel a detector.

    Both are equal where an attack only shifts the mean of the residuals. Attacks of the
    first seed, on logarithmic axes.

    Parameters
    ----------
    study : PaperStudy
        The results.
    detector : str, optional
        Label of the one detector to draw; all if not given.

    Returns
    -------
    figure and caption, or None
        None if no attack has more energy than the ideal.
    """
    from matplotlib.lines import Line2D

    labels = [label for label in study.detectors if detector in (None, label)]
    points: dict[str, list[_Identity]] = {label: [] for label in labels}
    for runs in (runs for label in labels for runs in study.runs_of(label)):
        shift, excess = runs.traces.segment_d_ms, runs.traces.segment_excess
        if excess is None:  # an old file
            continue
        known = (shift > 0) & (excess > 0) & np.isfinite(shift) & np.isfinite(excess)
        identity = _Identity(runs, shift[known], excess[known], int((~known).sum()))
        points[runs.label].append(identity)
    drawn = [label for label in labels if any(len(p.shift) for p in points[label])]
    if not drawn:
        return None
    across = min(len(drawn), 3)
    width = style.ONE_COLUMN if across == 1 else style.TWO_COLUMNS
    height = ceil(len(drawn) / across) * (0.95 * width / across + 0.1)
    height += 0.7 if across > 1 else 0.5
    figure, panels = _panels(len(drawn), across, (width, height))
    for panel, label in zip(panels, drawn, strict=True):
        _identity_panel(panel, points[label], study)
        _set_title(panel, study.detector_title(label))
    figure.supxlabel(r"mean-shift information energy $D_{\mathrm{MS}}$", fontsize=7.5)
    figure.supylabel(r"window energy $W\,(\bar{e} - p/2)$", fontsize=7.5)
    if len(study.testbeds) > 1:
        titles = [study.testbed_title(name) for name in study.testbeds]
        looks = [(style.marker(k), style.colour(k)) for k in range(len(titles))]
        figure.legend(
            [Line2D([], [], ls="none", marker=m, color=c) for m, c in looks],
            [drawable(short(title, _LEGEND_LETTERS)) for title in titles],
            loc="outside upper center",
            ncols=min(len(titles), 3),
            handletextpad=0.2,
            markerscale=0.7,
        )
    return figure, texts()["figures"]["mean_shift_identity"]


def _identity_panel(panel: "Axes", points: list[_Identity], study: PaperStudy) -> None:
    """Draw the attacks of one detector on logarithmic axes, with the line y = x."""
    from matplotlib.ticker import LogLocator, NullLocator

    values = np.concatenate([part for p in points for part in (p.shift, p.excess)])
    low, high = values.min() / 2, values.max() * 2
    panel.plot([low, high], [low, high], color="0.6", linewidth=0.7, zorder=0)
    for identity in points:
        k = study.testbeds.index(identity.runs.testbed)
        panel.plot(
            identity.shift,
            identity.excess,
            linestyle="none",
            marker=style.marker(k),
            markersize=3.5,
            markerfacecolor=style.colour(k),
            markeredgecolor="white",
            markeredgewidth=0.3,
        )
    panel.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high))
    panel.set_aspect("equal")
    # In less than three decades powers of ten alone are too few labels.
    steps = (1.0,) if high > 300 * low else (1.0, 2.0, 5.0)
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_locator(LogLocator(subs=steps, numticks=5))
        axis.set_minor_locator(NullLocator())
    n_hidden = sum(identity.n_hidden for identity in points)
    if n_hidden:
        n_all = n_hidden + sum(len(identity.shift) for identity in points)
        panel.text(
            0.97,
            0.03,
            f"{n_hidden} of {n_all} at or below 0,\nnot drawn",
            transform=panel.transAxes,
            ha="right",
            va="bottom",
            fontsize=7,
            color="0.3",
        )


def _panels(
    n: int, across: int, size: tuple[float, float]
) -> "tuple[Picture, list[Axes]]":
    """Return a figure of a size in inches with `n` panels, `across` in a row."""
    figure = style.new_figure(*size)
    down = ceil(n / across)
    return figure, [figure.add_subplot(down, across, k + 1) for k in range(n)]


def _set_title(panel: "Axes", title: str) -> None:
    panel.set_title(drawable(short(title, _TITLE_LETTERS)), loc="left")
