"""What a dead or frozen tag does on a real plant, the water works of ../shared.

A rule is made of the first 40 days of the export and applied to the next 30. A tag is
taken out of the cells for a day, each of nine sensors in turn, on five days; alarms of
the rule are compared with those of the untouched rows: *more* and *fewer* have no alarm
of the other within ten minutes. Once the detector reads the last value of the dead tag,
as detectors of earlier versions do, and once what the other tags tell of it. Then each
sensor is held at its value, and it is counted where the gate calls it frozen.

    python bench/dead_tags.py            VAR; or: python bench/dead_tags.py pca

Some 2 minutes.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from planted_faults import DAY_S, GECCO, gecco_exports, made_rule

import sightline.operation.telemetry as telemetry
from sightline import read_rule
from sightline.data.validity import Validity
from sightline.operation.live import LiveRule, Run
from sightline.operation.telemetry import Gatekeeper, TableRows

DAYS, N_SENSORS, NEAR_S = (3, 9, 15, 21, 27), 9, 600.0
HELD = (("15 min", 900), ("4 h", 4 * 3600), ("a day", DAY_S))
PLACES = 20
Span = tuple[float, float]
Change = Callable[[TableRows], TableRows]


def spans_of(rule: Path, exports: Path, change: Change, *, is_held: bool) -> list[Span]:
    """Return first and last time of each alarm, with the cells changed."""
    made = read_rule(rule)
    detector = telemetry.detector_of(made, rule)
    if is_held:
        detector.covariance = None
    settings = telemetry.export_settings(exports, made)
    joined = telemetry.joined
    telemetry.joined = lambda table, last: joined(change(table), last)
    try:
        recording, _ = telemetry.read_exports(
            telemetry.exports_in(exports), made, detector, settings
        )
    finally:
        telemetry.joined = joined
    rows = telemetry.rule_rows(recording, made, detector)
    live = LiveRule(made)
    for part in np.split(np.arange(len(rows.values)), rows.breaks[1:]):
        live.take(Run(time=rows.time[part], rows=rows.values[part], begins=True))
    live.stop("")
    return [(alarm.start, alarm.last) for alarm in live.alarms]


def dead(k: int, start: float) -> Change:
    """Return what takes a tag out for a day."""

    def change(table: TableRows) -> TableRows:
        inside = (table.time >= start) & (table.time < start + DAY_S)
        rows, codes = table.rows.copy(), table.codes.copy()
        rows[inside, k], codes[inside, k] = np.nan, Validity.BAD
        return replace(table, rows=rows, codes=codes)

    return change


def without(some: list[Span], others: list[Span], begin: float) -> int:
    """Return how many alarms of a day and two hours have no other beside them."""
    return sum(
        begin <= a < begin + DAY_S + 7200
        and not any(c - NEAR_S <= b and a <= d + NEAR_S for c, d in others)
        for a, b in some
    )


def frozen(rule: Path, exports: Path) -> Iterator[tuple[str, float]]:
    """Yield the share of places at which a tag that is held is called frozen."""
    made = read_rule(rule)
    known, settings = (
        telemetry.telemetry_of(made),
        telemetry.export_settings(exports, made),
    )
    channels = telemetry.detector_of(made, rule).channels or ()
    reader = telemetry.TelemetryReader(
        channels=channels, settings=settings, known=known
    )
    tables = [reader(path, 60.0) for path in telemetry.exports_in(exports)]
    time = np.concatenate([table.time for table in tables])
    rows = np.concatenate([table.rows for table in tables])
    codes = np.concatenate([table.codes for table in tables])

    def is_frozen(part: slice, values: np.ndarray, k: int) -> np.ndarray:
        gate = Gatekeeper(channels, 60.0, settings, known)
        begins = np.arange(len(values)) == 0
        read = gate.watched(time[part], values, codes[part].copy(), begins)
        return read.codes[:, k] == Validity.FROZEN

    rng = np.random.default_rng(0)
    for name, seconds in HELD:
        n, seen = seconds // 60, []
        for k in range(N_SENSORS):
            for at in rng.integers(2 * 1440, len(time) - 2 * 1440, PLACES).tolist():
                part = slice(at - 1440, at + n + 10)
                values = rows[part].copy()
                before = is_frozen(part, values.copy(), k)
                values[1440 : 1440 + n, k] = values[1439, k]
                seen.append((is_frozen(part, values, k) & ~before).any())
        yield name, float(np.mean(seen))


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else "var"
    if not GECCO.is_file():
        sys.exit(f"{GECCO} is missing.")
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        history, exports, _ = gecco_exports(folder)
        zone = ("--timezone", "Europe/Berlin", "--accept-dropped")
        rule = made_rule(folder, history, *zone, detector=name)
        untouched = spans_of(rule, exports, lambda table: table, is_held=False)
        first = min(start for start, _ in untouched)
        print(f"{name}: {len(untouched)} alarms in 30 days")
        for is_held in (True, False):
            more = fewer = 0
            for day in DAYS:
                begin = first - first % DAY_S + day * DAY_S
                for k in range(N_SENSORS):
                    found = spans_of(rule, exports, dead(k, begin), is_held=is_held)
                    more += without(found, untouched, begin)
                    fewer += without(untouched, found, begin)
            what = "last value" if is_held else "told by the others"
            n_days = len(DAYS) * N_SENSORS
            print(f"{what:20} {n_days} dead tag-days: {more} more, {fewer} fewer")
        for duration, share in frozen(rule, exports):
            print(f"frozen for {duration:8} called frozen at {share:.2f} of places")


if __name__ == "__main__":
    main()
