"""Draw the pictures of docs/waterworks.md, docs/tep.md and docs/network.md.

Run: python bench/twin_pictures.py [waterworks] [tep] [network] (the last two need
their extras; two minutes)
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from sightline.testbeds import network, tep, waterworks
from sightline.testbeds.twin.folder_writer import BLUE, SHADE, write_simulation

IMAGES = Path(__file__).parents[1] / "docs" / "images"
# Attack, hours before and after it, and the tags to draw.
ATTACKS = {
    tep: ("1", 1.0, ("XMEAS9", "XMEAS7", "XMEAS10", "XMV10")),
    network: ("2", 6.0, ("L_1", "L_2", "F_335", "P_61")),
}


def draw_attack(simulation, id_: str, around_h: float, tags, path: Path) -> None:
    """Draw one attack: recorded, true where forged, and without attacks."""
    test = simulation.test
    attack = next(a for a in test.attacks if a.id == id_)
    around = round(around_h * 3600 / test.step_s)
    rows = slice(attack.start - around, attack.stop + around)
    hours = (np.arange(rows.start, rows.stop) - attack.start) * test.step_s / 3600
    clean = simulation.clean_test().values
    figure = Figure(figsize=(9.0, 7.0), layout="constrained")
    axes = figure.subplots(len(tags), 1, sharex=True)
    units = {tag.name: tag.unit for tag in test.tags}
    for axis, tag in zip(axes, tags, strict=True):
        column = test.channels.index(tag)
        recorded, real, twin = (
            values[rows, column].astype(float)
            for values in (test.values, simulation.true_values, clean)
        )
        hidden = np.where(recorded != real, real, np.nan)
        axis.plot(hours, twin, color="#888888", lw=0.7, label="twin")
        axis.plot(hours, recorded, color=BLUE, lw=1.1, label="recorded")
        axis.plot(hours, hidden, color=BLUE, lw=1.2, ls=(0, (3, 2)), label="true")
        axis.axvspan(0, hours[-1] - around_h, color=SHADE, alpha=0.16, lw=0)
        axis.set_title(tag, loc="left", fontsize=9.5, pad=3)
        axis.set_ylabel(units[tag])
        axis.margins(x=0)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    axes[0].legend(loc="upper right", ncols=3, frameon=False, fontsize=8.5)
    axes[-1].set_xlabel("hours since the attack began")
    figure.savefig(path, dpi=110, metadata={"Software": None})


def main() -> None:
    for plant in (waterworks, *ATTACKS):
        if sys.argv[1:] and plant.__name__.rpartition(".")[2] not in sys.argv[1:]:
            continue
        made = plant.simulate()
        with tempfile.TemporaryDirectory() as folder:
            written = write_simulation(made, Path(folder) / "run")
            # With 256 colours a picture has a third of the bytes.
            with Image.open(written / f"{made.name}.png") as picture:
                few = picture.convert("RGB").quantize(256)
        few.save(IMAGES / f"{made.name}.png", optimize=True)
        if plant not in ATTACKS:
            continue
        id_, around_h, tags = ATTACKS[plant]
        path = IMAGES / f"{made.name}_attack.png"
        draw_attack(made, id_, around_h, tags, path)
        largest = sorted(made.truth, key=lambda truth: truth.known.mean)
        print(made.name, [(t.id, round(t.known.mean, 1)) for t in largest])


if __name__ == "__main__":
    main()
