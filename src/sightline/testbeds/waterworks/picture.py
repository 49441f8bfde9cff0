"""One day of a simulation as a picture: levels, flows, attacks shaded."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.data.segments import Attack
from sightline.testbeds.waterworks.plant import COLUMN, SETPOINTS
from sightline.testbeds.waterworks.simulation import Simulation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DAY_STEPS = 86_400
# A point every ten seconds is more than a screen shows of a day.
STRIDE = 10
BLUE, TEAL, ORANGE, SHADE, INK = "#2b5f9e", "#2a9d8f", "#d17a22", "#c0392b", "#333333"

# One panel each: title, unit, tags with their colours.
_PANELS: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("Raw water tank T101", "mm", {"LIT101": BLUE}),
    ("Ultrafiltration feed tank T301", "mm", {"LIT301": BLUE}),
    ("Reverse-osmosis feed tank T401", "mm", {"LIT401": BLUE}),
    ("Flow into and out of T101", "m³/h", {"FIT101": TEAL, "FIT201": ORANGE}),
    ("Flow into and out of T401", "m³/h", {"FIT301": TEAL, "FIT401": ORANGE}),
)
_STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.edgecolor": "#999999",
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def draw_simulation(simulation: Simulation, path: Path) -> None:
    """Draw the day of test with the most attacks in it, as a PNG file."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    first = _busiest_day(simulation)
    stop = min(first + DAY_STEPS, simulation.test.n_steps)
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(13.0, 9.6), layout="constrained")
        FigureCanvasAgg(figure)
        panels = figure.subplots(len(_PANELS), 1, sharex=True)
        for panel, (title, unit, colours) in zip(panels, _PANELS, strict=True):
            _draw_panel(panel, simulation, first, stop, title, unit, colours)
        attacks = _attacks_within(simulation, first, stop)
        _shade(panels, attacks, first)
        # Above the numbers of the attacks.
        panels[0].set_title(_PANELS[0][0], loc="left", fontsize=9.5, pad=15)
        _finish(panels[-1], stop - first)
        day = first // DAY_STEPS + 1
        figure.suptitle(
            f"Waterworks, seed {simulation.seed}, day {day} of test: attacks are "
            "shaded; a dashed line is the true value behind a forged reading",
            x=0.01,
            ha="left",
            fontsize=11,
            fontweight="bold",
        )
        # No date and no version, so that the same run makes the same bytes.
        figure.savefig(path, dpi=110, metadata={"Software": None})


def _busiest_day(simulation: Simulation) -> int:
    """Return the first row of the whole day that has the most attacks."""
    n_days = max(simulation.test.n_steps // DAY_STEPS, 1)
    counts = [
        len(_attacks_within(simulation, day * DAY_STEPS, (day + 1) * DAY_STEPS))
        for day in range(n_days)
    ]
    return int(np.argmax(counts)) * DAY_STEPS


def _attacks_within(simulation: Simulation, first: int, stop: int) -> list[Attack]:
    return [a for a in simulation.test.attacks if a.start < stop and a.stop > first]


def _draw_panel(
    panel: "Axes",
    simulation: Simulation,
    first: int,
    stop: int,
    title: str,
    unit: str,
    colours: dict[str, str],
) -> None:
    rows = slice(first, stop, STRIDE)
    hours = np.arange(0, stop - first, STRIDE) / 3600.0
    for tag, colour in colours.items():
        column = COLUMN[tag]
        recorded = simulation.test.values[rows, column].astype(np.float64)
        real = simulation.true_values[rows, column].astype(np.float64)
        forged = recorded != real
        panel.plot(hours, recorded, color=colour, linewidth=0.9, label=tag)
        hidden = np.where(forged, real, np.nan)
        panel.plot(hours, hidden, color=colour, linewidth=1.1, linestyle=(0, (3, 2)))
        for limit in ("L", "H"):
            if tag.startswith("LIT"):
                panel.axhline(
                    SETPOINTS[f"{tag}.{limit}"], color="#bbbbbb", lw=0.7, zorder=0
                )
                panel.annotate(
                    limit,
                    (1.0, SETPOINTS[f"{tag}.{limit}"]),
                    xycoords=("axes fraction", "data"),
                    xytext=(3, 0),
                    textcoords="offset points",
                    va="center",
                    fontsize=8,
                    color="#888888",
                )
    panel.set_title(title, loc="left", fontsize=9.5, pad=3)
    panel.set_ylabel(unit)
    panel.margins(x=0)
    if len(colours) > 1:
        panel.legend(
            loc="lower right",
            bbox_to_anchor=(1.0, 1.0),
            ncols=2,
            frameon=False,
            borderaxespad=0,
            fontsize=8.5,
        )


def _shade(panels: Any, attacks: list[Attack], first: int) -> None:
    for attack in attacks:
        start, stop = (attack.start - first) / 3600.0, (attack.stop - first) / 3600.0
        for panel in panels:
            panel.axvspan(start, stop, color=SHADE, alpha=0.16, linewidth=0, zorder=0)
        panels[0].annotate(
            attack.id,
            ((max(start, 0.0) + stop) / 2.0, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, 2),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=8,
            color=SHADE,
        )


def _finish(panel: "Axes", n_steps: int) -> None:
    hours = n_steps / 3600.0
    panel.set_xlim(0.0, hours)
    panel.set_xticks(np.arange(0.0, hours + 1e-9, 2.0 if hours > 6 else 0.5))
    panel.set_xlabel("hours of the day" if hours > 6 else "hours")
