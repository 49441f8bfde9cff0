"""The paper's figures from a study: agreement, ranking and alarms, the identity."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.comparison.compare import Comparison
from sightline.paper.cross_tables import Rho, agreement_of, by_space
from sightline.paper.study import Pair, Spread, Study
from sightline.report.plotting.print_style import (
    ONE_COLUMN,
    TWO_COLUMNS,
    colour,
    drawable,
    marker,
    rendered,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Up to so many detectors three panels stand side by side, more need two.
_MOST_IN_THREE = 6
# From this luminance of a cell on black has more contrast than white.
_BRIGHT = 0.179


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A figure: its files by kind, and the caption to print below it."""

    name: str
    caption: str
    files: dict[str, bytes]


def draw_all(
    study: Study, compared: Comparison, *, identity_of: str | None = None
) -> tuple[list[Drawn], list[str]]:
    """Return the figures that can be drawn, and a word on those that cannot."""
    drawn, notices = [], []
    with styled():
        for name, made, why in (
            ("agreement", agreement(study, compared), "no two detectors share attacks"),
            ("roc_auc_against_f1", ranking_and_alarms(study), "there are no attacks"),
            (
                "mean_shift_identity",
                mean_shift_identity(study, identity_of),
                "no attack window has energy above its ideal",
            ),
        ):
            if made is None:
                notices.append(f"Figure {name} is left out: {why}.")
            else:
                figure, caption = made
                drawn.append(Drawn(name=name, caption=caption, files=rendered(figure)))
    return drawn, notices


def agreement(study: Study, compared: Comparison) -> "tuple[Figure, str] | None":
    """Draw rho of D_FULL for each two detectors, a panel for each testbed."""
    rhos = {testbed: agreement_of(compared, testbed) for testbed in study.testbeds}
    shown = [
        testbed
        for testbed in study.testbeds
        if any(rho is not None for rho, *_ in rhos[testbed].values())
    ]
    if not shown:
        return None
    most = max(len(study.on(testbed)) for testbed in shown)
    across = min(len(shown), 3 if most <= _MOST_IN_THREE else 2)
    width = ONE_COLUMN if across == 1 else TWO_COLUMNS
    n_rows = ceil(len(shown) / across)
    height = n_rows * (0.78 * width / across + 0.55) + 0.5
    figure, panels = _panels(len(shown), across, (width, height))
    images = [
        _heat(panel, study, testbed, rhos[testbed])
        for panel, testbed in zip(panels, shown, strict=True)
    ]
    bar = figure.colorbar(
        images[0], ax=panels, orientation="horizontal", shrink=0.5, aspect=40, pad=0.02
    )
    bar.set_label(r"Spearman's $\rho$ of $D_{\mathrm{FULL}}$ over shared attacks")
    bar.outline.set_visible(False)
    return figure, (
        "Cross-detector agreement on per-attack integrated information energy. Each "
        "cell is Spearman's correlation of D_FULL over the attack segments that two "
        "detectors share"
        + (", the mean over pairs of seeds" if study.has_seeds else "")
        + ". Detectors are sorted by residual space; black lines part the spaces."
    )


def _heat(
    panel: "Axes", study: Study, testbed: str, rhos: dict[frozenset[str], Rho]
) -> Any:
    import matplotlib as mpl

    names = by_space(study, testbed)
    n = len(names)
    grid = np.full((n - 1, n - 1), np.nan)
    for i in range(1, n):
        for j in range(i):
            rho = rhos[frozenset((names[i], names[j]))][0]
            grid[i - 1, j] = np.nan if rho is None else rho
    colours = mpl.colormaps["PuOr_r"]
    image = panel.imshow(grid, cmap=colours, vmin=-1, vmax=1)
    for (i, j), rho in np.ndenumerate(grid):
        if j <= i:
            shade = colours((rho + 1) / 2)[:3] if np.isfinite(rho) else (1.0, 1.0, 1.0)
            panel.text(
                j,
                i,
                f"{rho:.2f}" if np.isfinite(rho) else "-",
                ha="center",
                va="center",
                fontsize=7,
                color="black" if _luminance(shade) > _BRIGHT else "white",
            )
    titles = [drawable(study.short_title(name)) for name in names]
    panel.set_xticks(
        range(n - 1), titles[:-1], rotation=40, ha="right", rotation_mode="anchor"
    )
    panel.set_yticks(range(n - 1), titles[1:])
    panel.tick_params(length=0)
    panel.spines[:].set_visible(False)
    panel.set_title(drawable(_short(study.testbed_title(testbed), 30)), loc="left")
    _part_spaces(panel, study, testbed, names)
    return image


def _luminance(shade: Sequence[float]) -> float:
    """Return how bright a colour looks, 0 to 1 (sRGB)."""
    parts = np.asarray(shade)
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))


def _part_spaces(
    panel: "Axes", study: Study, testbed: str, names: Sequence[str]
) -> None:
    """Draw a line where the residual space of the sorted detectors changes."""
    pairs = {pair.detector: pair for pair in study.on(testbed)}
    spaces = [pairs[name].space for name in names]
    n = len(names)
    for k in range(1, n):
        if spaces[k] != spaces[k - 1]:
            edge: dict[str, Any] = {
                "color": "black",
                "linewidth": 1.0,
                "clip_on": False,
            }
            if k > 1:  # not along the rim
                panel.plot([-0.5, k - 0.5], [k - 1.5, k - 1.5], **edge)
            if k < n - 1:
                panel.plot([k - 0.5, k - 0.5], [k - 1.5, n - 1.5], **edge)


def ranking_and_alarms(study: Study) -> "tuple[Figure, str] | None":
    """Draw ROC-AUC against F1 at the p99 limit, a point for each pair."""
    points = []
    for pair in study.pairs:
        roc, f1 = pair.spread("rank.roc_auc"), pair.spread("probe.f1")
        if roc is not None and f1 is not None:
            points.append((pair, roc, f1))
    if not points:
        return None
    testbeds = [t for t in study.testbeds if any(p.testbed == t for p, *_ in points)]
    detectors = [d for d in study.detectors if any(p.detector == d for p, *_ in points)]
    n_lines = ceil(len(testbeds) / 2) + ceil(len(detectors) / 2)
    figure, (panel,) = _panels(1, 1, (ONE_COLUMN, 2.6 + 0.16 * n_lines))
    for pair, roc, f1 in points:
        _point(
            panel,
            roc,
            f1,
            colour(testbeds.index(pair.testbed)),
            marker(detectors.index(pair.detector)),
        )
    panel.axvline(0.5, color="0.6", linewidth=0.6, linestyle=":", zorder=0)
    panel.set_xlabel("ROC-AUC (before any alarm rule)")
    panel.set_ylabel("F1 at the train p99 limit")
    low, high = min(-0.02, panel.get_ylim()[0]), panel.get_ylim()[1]
    # Room above the highest mark, in proportion to the whole.
    panel.set_ylim(low, high + 0.05 * (high - low))
    panel.set_xlim(left=min(0.48, panel.get_xlim()[0]))
    _legend(figure, study, testbeds, detectors)
    return figure, (
        "Stage-1 ranking versus controlled Stage-2 alarm behaviour. Each point is one "
        "detector on one testbed"
        + ("; bars are the range over seeds" if study.has_seeds else "")
        + ". ROC-AUC is computed from residual energy before any alarm rule, F1 after "
        "one shared limit, the 99th percentile of train energy. The dotted line is "
        "chance. It is no leaderboard: similar ranking can give very different alarms."
    )


def _point(panel: "Axes", roc: Spread, f1: Spread, shade: str, shape: str) -> None:
    panel.errorbar(
        roc.mean,
        f1.mean,
        xerr=[[roc.mean - roc.low], [roc.high - roc.mean]],
        yerr=[[f1.mean - f1.low], [f1.high - f1.mean]],
        color=shade,
        marker=shape,
        markersize=5,
        markeredgecolor="white",
        markeredgewidth=0.4,
        ecolor=(shade, 0.6),
        elinewidth=0.7,
        linestyle="none",
    )


def _legend(
    figure: "Figure", study: Study, testbeds: Sequence[str], detectors: Sequence[str]
) -> None:
    """Set two legends below: colours are testbeds, markers detectors."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    blank = Line2D([], [], linestyle="none")
    plants = [Patch(color=colour(k)) for k in range(len(testbeds))]
    marks = [
        Line2D([], [], linestyle="none", marker=marker(k), color="0.35", markersize=5)
        for k in range(len(detectors))
    ]
    # One legend of two columns reads row by row only if filled column by column.
    handles: list[Any] = []
    labels: list[str] = []
    plant_names = [_short(study.testbed_title(t), 26) for t in testbeds]
    mark_names = [_short(study.detector_title(d), 26) for d in detectors]
    half = ceil(len(marks) / 2)
    half_plants = ceil(len(plants) / 2)
    for column in range(2):
        some = slice(column * half_plants, (column + 1) * half_plants)
        handles += plants[some] + [blank] * (half_plants - len(plants[some]))
        labels += plant_names[some] + [""] * (half_plants - len(plants[some]))
        some = slice(column * half, (column + 1) * half)
        handles += marks[some] + [blank] * (half - len(marks[some]))
        labels += mark_names[some] + [""] * (half - len(marks[some]))
    figure.legend(
        handles,
        [drawable(label) for label in labels],
        loc="outside lower center",
        ncols=2,
        handletextpad=0.4,
        labelspacing=0.3,
        columnspacing=1.2,
    )


def mean_shift_identity(
    study: Study, detector: str | None = None
) -> "tuple[Figure, str] | None":
    """Draw W (mean energy - p/2) against D_MS of each attack, a panel a detector."""
    names = [name for name in study.detectors if detector in (None, name)]
    by_name = {name: _identity_points(study, name) for name in names}
    shown = [name for name in names if any(len(x) for _, x, _, _ in by_name[name])]
    if not shown:
        return None
    across = min(len(shown), 3)
    width = ONE_COLUMN if across == 1 else TWO_COLUMNS
    n_rows = ceil(len(shown) / across)
    height = n_rows * (0.95 * width / across + 0.1) + (0.7 if across > 1 else 0.5)
    figure, panels = _panels(len(shown), across, (width, height))
    for panel, name in zip(panels, shown, strict=True):
        _identity_panel(panel, by_name[name], study)
        panel.set_title(drawable(_short(study.detector_title(name), 30)), loc="left")
    figure.supxlabel(r"mean-shift information energy $D_{\mathrm{MS}}$", fontsize=7.5)
    figure.supylabel(r"window energy $W\,(\bar{e} - p/2)$", fontsize=7.5)
    if len(study.testbeds) > 1:
        _testbed_legend(figure, study)
    return figure, (
        "Mean-shift identity. Each point is one attack window of a detector's first "
        "seed. On the line y = x an attack shifts the mean of the residuals and "
        "nothing else; above it their spread grows too, below it shrinks. Both axes "
        "are logarithmic, so windows with less energy than the ideal p/2 cannot be "
        "drawn; each panel says how many there are."
    )


_Points = tuple[Pair, np.ndarray[Any, Any], np.ndarray[Any, Any], int]


def _identity_points(study: Study, detector: str) -> list[_Points]:
    """Return D_MS and excess of the drawable attacks, and how many are not."""
    found = []
    for testbed in study.testbeds:
        pair = study.pair(testbed, detector)
        if pair is None:
            continue
        traces = pair.seeds[0].traces
        shift = np.asarray(traces.get("segment_d_ms", ()), dtype=np.float64)
        excess = np.asarray(traces.get("segment_excess", ()), dtype=np.float64)
        if len(shift) != len(excess):
            continue
        is_drawn = (shift > 0) & (excess > 0) & np.isfinite(shift) & np.isfinite(excess)
        found.append((pair, shift[is_drawn], excess[is_drawn], int((~is_drawn).sum())))
    return found


def _identity_panel(panel: "Axes", points: list[_Points], study: Study) -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    values = np.concatenate([np.concatenate(p[1:3]) for p in points])
    low, high = values.min() / 2, values.max() * 2
    panel.plot([low, high], [low, high], color="0.6", linewidth=0.7, zorder=0)
    for pair, shift, excess, _ in points:
        k = study.testbeds.index(pair.testbed)
        panel.plot(
            shift,
            excess,
            linestyle="none",
            marker=marker(k),
            markersize=3.5,
            markerfacecolor=colour(k),
            markeredgecolor="white",
            markeredgewidth=0.3,
        )
    panel.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high))
    panel.set_aspect("equal")
    # Where hardly a decade is shown its tens alone are no scale.
    steps = (1.0,) if high / low > 300 else (1.0, 2.0, 5.0)
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_locator(LogLocator(subs=steps, numticks=5))
        axis.set_minor_locator(NullLocator())
    n_lost = sum(lost for *_, lost in points)
    if n_lost:
        n_all = n_lost + sum(len(shift) for _, shift, _, _ in points)
        panel.text(
            0.97,
            0.03,
            f"{n_lost} of {n_all} at or below 0,\nnot drawn",
            transform=panel.transAxes,
            ha="right",
            va="bottom",
            fontsize=7,
            color="0.3",
        )


def _testbed_legend(figure: "Figure", study: Study) -> None:
    from matplotlib.lines import Line2D

    figure.legend(
        [
            Line2D([], [], linestyle="none", marker=marker(k), color=colour(k))
            for k in range(len(study.testbeds))
        ],
        [drawable(_short(study.testbed_title(t), 26)) for t in study.testbeds],
        loc="outside upper center",
        ncols=min(len(study.testbeds), 3),
        handletextpad=0.2,
        markerscale=0.7,
    )


def _panels(
    n: int, across: int, size: tuple[float, float]
) -> "tuple[Figure, list[Axes]]":
    """Return a figure with so many panels; no more are made than are drawn in."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    down = ceil(n / across)
    return figure, [figure.add_subplot(down, across, k + 1) for k in range(n)]


def _short(name: str, most: int) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"
