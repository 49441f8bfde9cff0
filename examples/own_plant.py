"""Read a historian's long export of one's own plant, bad readings and all.

    python examples/own_plant.py [FOLDER]

See docs/own-plant.md for what such a folder may hold.
"""

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from sightline import inspect_testbed, open_testbed

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "plant")
folder.mkdir(parents=True, exist_ok=True)
rng = np.random.default_rng(6)


def write_export(name, first, bad=()):
    """Write half an hour of a level (each 10 s) and of a pump (when it switches)."""
    lines = ["tag,time,value,quality"]
    for k, level in enumerate(500 + rng.normal(size=181).cumsum()):
        stamp = (first + timedelta(seconds=10 * k)).isoformat()
        quality = "Bad" if k in bad else "Good"
        lines.append(f"LIT101,{stamp},{level:.2f},{quality}")
        if k % 30 == 0:
            lines.append(f"P101,{stamp},{k // 30 % 2},Good")
    (folder / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


write_export("train", datetime(2026, 11, 14, 8, tzinfo=UTC))
write_export("test", datetime(2026, 11, 15, 8, tzinfo=UTC), bad=(40, 41, 90))
(folder / "attacks.csv").write_text(
    "id,start,end,tags,note,uncertainty_min\n"
    "A1,2026-11-15T08:20:00Z,2026-11-15T08:25:00Z,LIT101,level spoofed,1\n"
)
(folder / "tags.csv").write_text(
    "tag,role,stage,unit\nLIT101,sensor,1,mm\nP101,actuator,1,\n"
)
(folder / "plant.toml").write_text("step_s = 10\nhold_s = 300\n")

plant = open_testbed(folder)
for text in plant.notices:
    print(text)
labels = plant.test.labels
print(
    f"{plant.test.n_steps} rows of test, {(labels == 1).sum()} of them in attack "
    f"{plant.test.attacks[0].id}, {(labels == -1).sum()} uncertain."
)
print(f"All is right: {inspect_testbed(folder).is_right}.")
