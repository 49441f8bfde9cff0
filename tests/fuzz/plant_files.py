"""Small valid files of the testbeds, and a small water network."""

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
from testbed_files import ATTACK_V0, NORMAL_V0, place, write_batadal, write_hai

NETWORK = """\
[TITLE]
A well, a pump, a tank above three streets
[JUNCTIONS]
;ID Elev Demand Pattern
J1 10 0
J2 8 4 daily
J3 6 3 daily
[RESERVOIRS]
well 5
[TANKS]
;ID Elev Init Min Max Diameter MinVol
T1 40 2 0.5 4 8 0
[PIPES]
;ID From To Length Diameter Roughness Loss Status
P1 J1 J2 300 200 110 0 Open
P2 J2 T1 200 200 110 0 Open
P3 J2 J3 400 150 110 0 Open
P4 J1 J3 350 150 110 0 Open
[PUMPS]
PU1 well J1 HEAD lift PATTERN daily
[VALVES]
V1 J3 J4 150 PRV 20 0
[JUNCTIONS]
J4 5 1 daily
[DEMANDS]
J3 3 daily
J3 1 flat
[STATUS]
PU1 Open
[PATTERNS]
daily 0.6 0.8 1.2 1.4
daily 1.1 0.9
flat 1
[CURVES]
lift 12 50
[CONTROLS]
LINK PU1 CLOSED IF NODE T1 ABOVE 3.5
LINK PU1 OPEN IF NODE T1 BELOW 1.5
LINK P4 CLOSED AT TIME 6
LINK P4 OPEN AT CLOCKTIME 8 AM
[ENERGY]
Global Efficiency 75
[REACTIONS]
Order Bulk 1
[TIMES]
Duration 24:00
Hydraulic Timestep 1:00
Pattern Timestep 4:00
Start ClockTime 12 am
[OPTIONS]
Units LPS
Headloss H-W
Trials 40
Unbalanced Continue 10
Accuracy 0.001
Pattern flat
Demand Multiplier 1.0
[COORDINATES]
J1 0 0
J2 1 0
J3 2 0
J4 3 0
well -1 0
T1 1 1
[END]
"""


def write_testbeds(folder: Path) -> None:
    """Write a folder of each published testbed: made-up rows."""
    _skab(folder / "skab")
    for name in (NORMAL_V0, ATTACK_V0):
        place(folder / "swat", name)
    for name in ("wadi_A2_WADI_14days_new.csv", "wadi_A2_WADI_attackdataLABLE.csv"):
        place(folder / "wadi", name, name.removeprefix("wadi_A2_"))
    write_hai(folder / "hai", "23.05")
    write_batadal(folder / "batadal")


def _skab(folder: Path) -> None:
    """Write files as SKAB has them: made-up rows."""
    names = (
        "Accelerometer1RMS Accelerometer2RMS Current Pressure Temperature "
        "Thermocouple Voltage"
    ).split()
    head = ";".join(["datetime", *names, "Volume Flow RateRMS"])
    runs = (("valve1", range(16)), ("valve2", range(4)), ("other", range(1, 15)))
    places = [f"{name}/{k}.csv" for name, numbers in runs for k in numbers]
    for k, name in enumerate(("anomaly-free/anomaly-free.csv", *places)):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = np.random.default_rng(k).normal(size=(60, 8)).round(4)
        begin = datetime(2020, 3, 9) + k * timedelta(hours=1)
        lines = [head + (";anomaly;changepoint" if k else "")]
        for j, row in enumerate(rows.tolist()):
            stamp = f"{begin + timedelta(seconds=j):%Y-%m-%d %H:%M:%S}"
            mark = [str(float(20 <= j < 40)), "0.0"] if k else []
            lines.append(";".join([stamp, *map(str, row), *mark]))
        path.write_text("\n".join(lines) + "\n")
