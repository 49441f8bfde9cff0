"""Are tags that move together seen as often as stated? Written into raw telemetry.

    python bench/hidden_together.py batadal --folder DIR
    python bench/hidden_together.py waterworks --seeds 401

For every tag the size that `find_blind_spots` states alone and with 1, 2, 5 and any
other sensors is written into the measured steps at places of other seeds, clipped where
a reading would leave its possible range; the whole record then passes through the
detector and the rule. Printed is the share of places that see it less the stated one.
Nothing of `sightline.blindspots` judges; it gives the places and what is possible.
"""

import os

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import argparse
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from sightline import Recording, make_detector
from sightline.blindspots.result import BlindSpots, TogetherSize
from sightline.blindspots.search import SpotArena, SpotSettings
from sightline.blindspots.together import within
from sightline.export import NO_RULE, export_rows, export_stream
from sightline.rules.commission import Commissioning, commission
from sightline.rules.limits import Budget
from sightline.testbeds import open_testbed
from sightline.testbeds.waterworks import Scenario, simulate

BUDGET = Budget(per_day=6, share=0.01)
DETECTORS = ("pca", "var", "mean", "pair")
SHAPES = ("step", "ramp")


def plants(
    which: str, folder: str | None, seeds: list[int]
) -> Iterator[tuple[str, Recording, Recording]]:
    if which == "batadal":
        opened = open_testbed("batadal", folder)
        yield "batadal", opened.train, opened.test
        return
    for seed in seeds:
        made = simulate(days_train=3, days_test=4, seed=seed, scenario=Scenario())
        yield f"waterworks {seed}", made.train, made.clean_test()


def arena(
    detector: object,
    train: Recording,
    test: Recording,
    made: Commissioning,
    seed: int = 0,
) -> SpotArena:
    settings = SpotSettings(shapes=SHAPES, durations_s=(900.0, 3600.0), seed=seed)
    return SpotArena.of_detector(detector, test, train, made, BUDGET, settings)


class Truth:
    """The whole way from measured steps to alarms, once without anything written."""

    def __init__(self, detector: object, test: Recording, made: Commissioning) -> None:
        self.detector, self.test = detector, test
        self.rule = made.chosen.rule.fixed
        self.exported = export_rows(detector, test)
        self.twin = self.rings(test)
        off = self.rule.delays.off
        near = np.convolve(self.twin, np.ones(2 * off + 1), "same") > 0
        self.far = ~near

    def rings(self, test: Recording) -> np.ndarray:
        rows = export_rows(self.detector, test)
        run = self.rule.run(rows.values, breaks=rows.breaks)
        return np.asarray(run.exceeds & run.in_alarm)

    def share(self, one: TogetherSize, other: SpotArena) -> tuple[float, int]:
        """Return the share of places that see a falsification, and their number."""
        tags = {tag.name: within(tag) for tag in other.tags}
        every, starts = other.telemetry.every, other.telemetry.starts
        n = round(one.duration_s / other.telemetry.step_s)
        ramp = (np.arange(n) + 1) / n
        weights = np.ones(n) if one.shape == "step" else ramp
        values = np.array(other.telemetry.values, np.float64)
        moved = {one.tag: 1.0, **dict(zip(one.others, one.factors, strict=True))}
        judged, last = [], -1
        for row in other.arena.places:
            first = int(starts[row])
            if first <= last + n:  # the one before must be forgotten
                continue
            steps = slice(first, first + n)
            room, parts = np.inf, []
            for name, factor in moved.items():
                tag, change = tags[name], one.sign * factor * weights
                reading = values[steps, tag.column]
                left = np.where(change > 0, tag.most - reading, reading - tag.least)
                if one.others:  # all readings stay possible to the end
                    room = min(room, max(float((left / np.abs(change)).min()), 0.0))
                else:  # no further than the reading ever was from the end of its range
                    room = min(room, max(left.max(), 0.0) / np.abs(change).max())
                parts.append((tag, change))
            own = tags[one.tag]
            left = own.most - values[first, own.column]
            if one.sign < 0:
                left = values[first, own.column] - own.least
            if left < 0.01 * own.range:
                continue  # it cannot be falsified there at all
            size = min(one.size, room)
            for tag, change in parts:
                shown = values[steps, tag.column] + size * change
                values[steps, tag.column] = np.clip(shown, tag.least, tag.most)
            judged.append(row)
            last = first + n
        rings = self.rings(replace(self.test, values=values, validity=None))
        n_rows, seen = n // every, []
        for row in judged:
            at = np.searchsorted(other.rows, row)
            rows = slice(at, at + n_rows)
            if self.far[rows].any():
                seen.append(bool((rings[rows] & self.far[rows]).any()))
        return float(np.mean(seen)), len(seen)


def check(
    found: BlindSpots, truth: Truth, others: list[SpotArena], n_tags: int
) -> dict[str, list[tuple[float, TogetherSize]]]:
    differences = defaultdict(list)
    names = list(dict.fromkeys(one.tag for one in found.together))
    kept = set(names[:: max(len(names) // n_tags, 1)])
    for one in found.together:
        if one.tag not in kept:
            continue
        parts = [truth.share(one, other) for other in others]
        total = sum(n for _, n in parts)
        share = sum(share * n for share, n in parts) / total
        name = "any" if one.count is None else str(one.count)
        differences[name].append((share - one.share_seen, one))
    return differences


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("which", choices=("batadal", "waterworks"))
    parser.add_argument("--folder")
    parser.add_argument("--detectors", nargs="+", default=list(DETECTORS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[401])
    parser.add_argument("--places", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--tags", type=int, default=100)
    args = parser.parse_args()
    for title, train, test in plants(args.which, args.folder, args.seeds):
        for name in args.detectors:
            detector = make_detector(name).fit(train)
            stream = export_stream(detector, train, test, rule=NO_RULE)
            made = commission(stream, budget=BUDGET)
            cpu = time.process_time()
            found = arena(detector, train, test, made).result(title)
            cpu = time.process_time() - cpu
            print(f"{title} {name}: rule {found.chosen!r}, search {cpu:.1f} CPU s")
            for note in found.notes:
                print(f"    {note}")
            others = [arena(detector, train, test, made, s) for s in args.places]
            truth = Truth(detector, test, made)
            for count, parts in check(found, truth, others, args.tags).items():
                away = np.array([one for one, _ in parts])
                near = np.abs(away) <= 0.15
                ratio = np.median([one.of_range for _, one in parts])
                print(
                    f"  {count:>3} others: {near.sum()} of {len(near)} within .15; "
                    f"seen less stated {away.mean():+.3f} on average, "
                    f"{away.min():+.2f} to {away.max():+.2f}; size {ratio:.2f} of the "
                    "range in the median"
                )
                for gap, one in parts:
                    if abs(gap) > 0.15:
                        print(
                            f"      {one.tag} {one.shape} {one.sign:+d} {one.outcome} "
                            f"{one.size:.4g}: stated {one.share_seen:.2f}, {gap:+.2f}"
                        )


if __name__ == "__main__":
    main()
