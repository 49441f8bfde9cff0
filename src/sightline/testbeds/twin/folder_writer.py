"""Write a simulation to a folder: plain tables, the truth, and a picture.

The folder holds::

    train.parquet         time and all tags
    test.parquet          the same, and label: 1 in an attack, -1 in recovery, else 0
    attacks.csv           each attack: first and last row, tags, note
    tags.csv              each tag: role, stage, unit
    truth.json            each attack: which tags it moved, how far, when first, and
                          how long the plant recovered
    truth.csv             the same as a table, one row for each attack and moved tag
    true_values.parquet   readings of test before any forging
    scenario.csv          the attacks as planned, to edit and run again
    NAME.png              some tags over a day or more, attacks shaded

The same simulation makes the same bytes.
"""

import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
import numpy as np

from sightline.data.arrays import Floats, Labels, Residuals
from sightline.data.recording import Recording, stamp
from sightline.data.segments import Attack, KnownEffect
from sightline.errors import FileError
from sightline.files import reading, staged_folder
from sightline.testbeds.twin.scenario import DAY_S, scenario_to_csv
from sightline.testbeds.twin.simulation import AttackTruth, Panel, Simulation
from sightline.text import csv_cell, drawable, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# A day has more seconds than a screen has points: every tenth is enough.
STRIDE_S = 10
# Letters of the id of an attack in the picture.
_MOST_IN_PICTURE = 16
BLUE, TEAL, ORANGE, SHADE, INK = "#2b5f9e", "#2a9d8f", "#d17a22", "#c0392b", "#333333"

# Fields of `AttackTruth`: by tag, and of the attack as a whole.
_EFFECTS = "effect mean_effect mean_distance first_move_s first_clear_s".split()
_WHERE = ("id", "start", "stop", "targets", "forged_tags")
_ATTACK_FACTS = (*_WHERE, "moves", "moves_others", "blocked", "recovery_s")
TRUTH = "truth.json"

_STYLE = {
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


def write_simulation(
    simulation: Simulation, out: str | Path, *, overwrite: bool = False
) -> Path:
    """Write a simulation to a folder, completely or not at all.

    Parameters
    ----------
    simulation : Simulation
        What `simulate` returned.
    out : path
        The folder; it is created if need be.
    overwrite : bool
        Allow a folder that already holds files.

    Returns
    -------
    Path
        The folder, which `open_testbed` reads like your own plant.

    Raises
    ------
    FileError
        If the folder holds files and `overwrite` is False, or it cannot be written.
    """
    out = Path(out)
    with reading(out):
        if out.exists() and not out.is_dir():
            raise FileError(f"{out}: is a file: choose another folder.")
        if not overwrite and out.is_dir() and any(out.iterdir()):
            raise FileError(
                f"{out}: exists and is not changed: choose another folder, or allow "
                "to overwrite."
            )
    with staged_folder(out) as folder:
        test = simulation.test
        _write_values(
            simulation.train, simulation.train.values, folder / "train.parquet"
        )
        _write_values(test, test.values, folder / "test.parquet", test.labels)
        _write_values(test, simulation.true_values, folder / "true_values.parquet")
        header = ["tag", "role", "stage", "unit"]
        _write_table(folder / "tags.csv", [header, *map(astuple, test.tags)])
        # Simulated times have no uncertainty.
        rows: list[Sequence[object]] = [
            ["id", "start", "end", "tags", "note", "uncertainty_min"]
        ]
        time = _time_of(test)
        for attack in test.attacks:
            first, last = stamp(time[attack.start]), stamp(time[attack.stop - 1])
            tags = ";".join(attack.targets)
            rows.append([attack.id, first, last, tags, attack.note, 0])
        _write_table(folder / "attacks.csv", rows)
        rows = [["id", "tag", "forged", *_EFFECTS]]
        for effect in simulation.truth:
            for tag, sizes in _moved(effect).items():
                is_forged = int(tag in effect.forged_tags)
                rows.append([effect.id, tag, is_forged, *sizes.values()])
        _write_table(folder / "truth.csv", rows)
        # Arguments and attacks.
        facts: dict[str, object] = {
            "testbed": simulation.name,
            "seed": simulation.seed,
            **simulation.options(),
            "n_train": simulation.train.n_steps,
            "n_test": test.n_steps,
            "unit": simulation.facts.unit,
            "attacks": [
                {name: getattr(attack, name) for name in _ATTACK_FACTS}
                | {"known": _short(asdict(attack.known)), "moved": _moved(attack)}
                for attack in simulation.truth
            ],
        }
        text = json.dumps(facts, indent=1, allow_nan=False)
        (folder / TRUTH).write_text(text + "\n", encoding="utf-8")
        planned = scenario_to_csv(simulation.scenario)
        (folder / "scenario.csv").write_text(planned, encoding="utf-8", newline="\n")
        _draw(simulation, folder / f"{simulation.name}.png")
    return out


@dataclass(frozen=True)
class _TruthEntry:
    """What `read_truth` needs of one attack in truth.json."""

    known: KnownEffect


@dataclass(frozen=True)
class _TruthFile:
    """What `read_truth` needs of truth.json."""

    testbed: Literal["waterworks", "tep", "network"]
    attacks: tuple[_TruthEntry, ...]


def read_truth(folder: str | Path) -> tuple[KnownEffect, ...]:
    """Return what a written folder says about the effect of each attack.

    Parameters
    ----------
    folder : path
        Any plant's folder.

    Returns
    -------
    tuple of KnownEffect
        Empty if there is no ``truth.json``, or it is none that `write_simulation` of
        this version wrote.
    """
    path = Path(folder) / TRUTH
    if not path.is_file():
        return ()
    try:
        with reading(path):
            read = msgspec.json.decode(path.read_bytes(), type=_TruthFile)
    except msgspec.DecodeError:
        return ()
    return tuple(entry.known for entry in read.attacks)


def _write_values(
    recording: Recording, values: Residuals, path: Path, labels: Labels | None = None
) -> None:
    """Write time, tags and, if given, labels as Parquet."""
    import polars as pl

    milliseconds = np.round(_time_of(recording) * 1000.0).astype(np.int64)
    columns = {"time": pl.Series(milliseconds).cast(pl.Datetime("ms"))}
    for column, name in enumerate(recording.channels):
        columns[name] = pl.Series(np.ascontiguousarray(values[:, column]))
    if labels is not None:
        columns["label"] = pl.Series(labels)
    pl.DataFrame(columns).write_parquet(path, compression="zstd", statistics=False)


def _time_of(recording: Recording) -> Floats:
    """Return the time of a simulated recording, which always has one."""
    return np.empty(0) if recording.time is None else recording.time


def _write_table(path: Path, rows: Iterable[Sequence[object]]) -> None:
    """Write rows as CSV."""
    with open(path, "w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerows([csv_cell(cell) for cell in row] for row in rows)


def _moved(attack: AttackTruth) -> dict[str, dict[str, object]]:
    """Return the effects of an attack by tag, for each tag it moved."""
    return {
        tag: {name: _short(getattr(attack, name)[tag]) for name in _EFFECTS}
        for tag in attack.moved_tags
    }


def _short(value: object) -> object:
    """Return a value with its numbers rounded to six digits; more have no meaning."""
    if isinstance(value, dict):
        return {key: _short(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_short(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _draw(simulation: Simulation, path: Path) -> None:
    """Draw the days of test with the most attacks, as a PNG file.

    Tags with their set-points, one panel each; the same simulation makes the same
    bytes.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    step_s = simulation.test.step_s or 1.0
    length = round(simulation.facts.picture_days * DAY_S / step_s)
    n_parts = max(simulation.test.n_steps // length, 1)
    parts = [_attacks_within(simulation, k * length, length) for k in range(n_parts)]
    first = int(np.argmax([len(attacks) for attacks in parts])) * length
    stop = min(first + length, simulation.test.n_steps)
    with mpl.rc_context(_STYLE):  # type: ignore[arg-type]
        figure = Figure(figsize=(13.0, 9.6), layout="constrained")
        FigureCanvasAgg(figure)
        panels = simulation.facts.panels
        axes = figure.subplots(len(panels), 1, sharex=True)
        for axis, panel in zip(axes, panels, strict=True):
            _draw_panel(axis, simulation, slice(first, stop), panel)
        _shade(axes, _attacks_within(simulation, first, stop - first), first, step_s)
        # Leave room for the ids of the attacks below the title.
        axes[0].set_title(panels[0].title, loc="left", fontsize=9.5, pad=15)
        hours = (stop - first) * step_s / 3600.0
        tick = 12.0 if hours > 36 else 2.0 if hours > 6 else 0.5
        axes[-1].set_xlim(0.0, hours)
        axes[-1].set_xticks(np.arange(0.0, hours + 1e-9, tick))
        axes[-1].set_xlabel("hours of the day" if 6 < hours <= 24 else "hours")
        days = f"day {round(first * step_s / DAY_S) + 1}"
        if simulation.facts.picture_days > 1:
            days += f" and the {simulation.facts.picture_days - 1} after it"
        figure.suptitle(
            f"{simulation.name.capitalize()}, seed {simulation.seed}, {days} of test: "
            "attacks are shaded; a dashed line is the true value behind a forged "
            "reading",
            x=0.01,
            ha="left",
            fontsize=11,
            fontweight="bold",
        )
        # No date and no version, so that the same run makes the same bytes.
        # A network's file may lead to values that no axis can hold.
        with np.errstate(over="ignore", invalid="ignore"):
            figure.savefig(path, dpi=110, metadata={"Software": None})


def _attacks_within(simulation: Simulation, first: int, n_rows: int) -> list[Attack]:
    """Return the attacks that touch one of `n_rows` rows from `first` on."""
    attacks = simulation.test.attacks
    return [a for a in attacks if a.start < first + n_rows and a.stop > first]


def _draw_panel(
    axis: "Axes", simulation: Simulation, rows: slice, panel: Panel
) -> None:
    """Draw one panel of the picture.

    Parameters
    ----------
    axis : matplotlib axes
        Where to draw.
    simulation : Simulation
        Its recorded values are solid lines; true values behind forged ones are dashed.
    rows : slice
        Rows of test.
    panel : Panel
        Title, unit, tags, and set-points as thin lines.
    """
    step_s = simulation.test.step_s or 1.0
    stride = max(round(STRIDE_S / step_s), 1)
    hours = np.arange(0, rows.stop - rows.start, stride) * step_s / 3600.0
    colours = (BLUE,) if len(panel.tags) == 1 else (TEAL, ORANGE)
    for tag, colour in zip(panel.tags, colours, strict=True):
        column = simulation.test.channels.index(tag)
        recorded, real = (
            values[rows, column][::stride].astype(np.float64)
            for values in (simulation.test.values, simulation.true_values)
        )
        forged = recorded != real
        axis.plot(hours, recorded, color=colour, linewidth=0.9, label=tag)
        hidden = np.where(forged, real, np.nan)
        axis.plot(hours, hidden, color=colour, linewidth=1.1, linestyle=(0, (3, 2)))
    for word, limit in panel.limits.items():
        axis.axhline(limit, color="#bbbbbb", lw=0.7, zorder=0)
        axis.annotate(
            word,
            (1.0, limit),
            xycoords=("axes fraction", "data"),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color="#888888",
        )
    axis.set_title(panel.title, loc="left", fontsize=9.5, pad=3)
    axis.set_ylabel(panel.unit)
    axis.margins(x=0)
    if len(panel.tags) > 1:
        axis.legend(
            loc="lower right",
            bbox_to_anchor=(1.0, 1.0),
            ncols=2,
            frameon=False,
            borderaxespad=0,
            fontsize=8.5,
        )


def _shade(
    panels: Sequence["Axes"], attacks: list[Attack], first: int, step_s: float
) -> None:
    """Shade the attacks in all panels, with their ids above the first."""
    for attack in attacks:
        start, stop = (
            (row - first) * step_s / 3600.0 for row in (attack.start, attack.stop)
        )
        for panel in panels:
            panel.axvspan(start, stop, color=SHADE, alpha=0.16, linewidth=0, zorder=0)
        panels[0].annotate(
            drawable(short(attack.id, _MOST_IN_PICTURE)),
            ((max(start, 0.0) + stop) / 2.0, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, 2),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=8,
            color=SHADE,
        )
