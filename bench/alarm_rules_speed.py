"""What alarm rules cost at SWaT's size.

    python bench/alarm_rules_speed.py

450,000 test rows of 51 channels, six stages: the whole family with limits and judging;
one rule and the joined rule over all rows, against one pass of energy; and a live row.
"""

import argparse
import os
import time
from collections.abc import Callable

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from bench_tools import made_up, median_cpu_seconds

from sightline import ResidualStream
from sightline.energy.energy import energy_trace
from sightline.rules.commission import (
    CommissionSettings,
    commission_scored,
)
from sightline.rules.scoring import score

GOALS = {"family": 6.0, "energy": 2.0, "all": 12.0, "live": 50.0}


def stream_of(n_rows: int, p: int) -> ResidualStream:
    """Return made-up residuals at 1 s, with the channels in six stages."""
    made = made_up(n_rows, n_rows, p)
    names = [f"T{j}" for j in range(p)]
    stages = {f"P{k + 1}": names[k::6] for k in range(6)}
    return ResidualStream(
        made.train,
        made.test,
        made.labels,
        channels=names,
        step_s=1.0,
        meta={"groups": stages},
    )


def cpu_seconds(run: Callable[[], object], runs: int = 5) -> float:
    return median_cpu_seconds(run, runs)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=450_000)
    parser.add_argument("--channels", type=int, default=51)
    given = parser.parse_args()
    stream = stream_of(given.rows, given.channels)
    scored = score(stream)
    settings = CommissionSettings()

    def family() -> object:
        return commission_scored(scored, settings)

    made = commission_scored(scored, settings)
    seconds = cpu_seconds(family, runs=3)
    print(f"family, limits and judging: {seconds:.2f} CPU s (goal {GOALS['family']})")
    one_pass = cpu_seconds(lambda: energy_trace(stream.test, scored.energies.reference))
    print(f"one pass of energy: {one_pass:.3f} CPU s")
    for name, built in made.rules.items():
        seconds = cpu_seconds(lambda rule=built.rule: rule.alarms(stream.test), 3)
        goal = GOALS["all" if len(built.rule.members) > 1 else "energy"]
        print(
            f"{name:7} over all rows: {seconds:.2f} CPU s, {seconds / one_pass:.1f} "
            f"passes (goal {goal:.0f})"
        )
    state = made.chosen.rule.start()
    rows = next(iter(stream.test.chunks()))[:20_000]
    for row in rows[:100]:
        state.update(row)
    start = time.process_time()
    for row in rows:
        state.update(row)
    each = (time.process_time() - start) / len(rows) * 1e6
    print(f"live, all: {each:.1f} us a row (goal {GOALS['live']:.0f})")


if __name__ == "__main__":
    main()
