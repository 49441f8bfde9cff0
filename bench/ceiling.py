"""Is the ceiling where the best test is, and does any rule beat it?

    python bench/ceiling.py --seeds 720-721
    python bench/ceiling.py --seeds 720-720 --rows 150_000

Streams of independent Gaussian rows with attacks of known law, one attack every 3,000
rows. For each kind of attack, over all its attacks:

ratio
    Mean delay of the ceiling over that of a CUSUM with the true law, whose limit gives
    a run length of 1e4 rows; both on the same rows, running through.
beaten
    The rule of the family that is earlier than the ceiling in most attacks, and in
    which share of them.
quickest
    The rule with the least mean delay over all attacks, over that of the ceiling.

A delay without an alarm counts as the length of the attack. Seeds 1 to 9 and 700 to 703
were looked at while the ceiling was made.

    python bench/ceiling.py --waterworks STREAMS --seeds 801-803

The chosen rule on the simulated plant (VAR and PCA, 2 + 4 days at 10 s, mild fouling,
6 alarms a day): in how many judged attacks it is earlier than the ceiling by more than
one row, and in how many it alarms where the ceiling sees nothing, and how many of these
move nothing in the simulator's own truth. Seeds 5, 11, 12 and 700 to 703 were
looked at.
"""

import argparse
import os
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from sightline import Budget, ResidualStream, evaluate
from sightline.rules.ceiling import CeilingOutcome, ceilings
from sightline.rules.commission import commission
from sightline.rules.oracle import LikelihoodRatio
from sightline.rules.scoring import score

RUN_LENGTH = 1e4
SPACING = 3000


@dataclass(frozen=True)
class Kind:
    """Attacks of one law: ``N(mean, covariance)`` over some rows."""

    name: str
    p: int
    n_rows: int
    mean: tuple[float, ...] = ()
    variance: tuple[float, ...] = ()

    @property
    def law(self) -> tuple[np.ndarray, np.ndarray]:
        mean, variance = np.zeros(self.p), np.ones(self.p)
        mean[: len(self.mean)] = self.mean
        variance[: len(self.variance)] = self.variance
        return mean, variance


def spread_over(size: float, p: int) -> tuple[float, ...]:
    return (size / np.sqrt(p),) * p


KINDS = (
    Kind("one channel by 1 sd", 5, 300, (1.0,)),
    Kind("one channel by 2 sd", 5, 300, (2.0,)),
    Kind("one channel by 4 sd", 5, 300, (4.0,)),
    Kind("one channel by 1 sd", 20, 300, (1.0,)),
    Kind("one channel by 1 sd", 51, 300, (1.0,)),
    Kind("all channels, 0.7 sd together", 5, 500, spread_over(0.7, 5)),
    Kind("all channels, 1.5 sd together", 20, 300, spread_over(1.5, 20)),
    Kind("one channel by 2 sd, short", 20, 60, (2.0,)),
    Kind("two channels, 1 and 3 times the variance", 10, 500, (1.0,), (1, 3.0)),
    Kind("all channels, 1.4 times the variance", 20, 300, (), (1.4,) * 20),
)


def stream_of(kind: Kind, n_rows: int, seed: int) -> ResidualStream:
    """Return attack-free rows, then attacks of one kind every `SPACING` rows."""
    rng = np.random.default_rng([seed, kind.p, kind.n_rows])
    train = rng.normal(size=(20_000, kind.p))
    test = rng.normal(size=(n_rows, kind.p))
    labels = np.zeros(n_rows, np.int64)
    mean, variance = kind.law
    for start in range(int(0.36 * n_rows), n_rows - SPACING, SPACING):
        at = start + int(rng.integers(SPACING - 2 * kind.n_rows))
        rows = slice(at, at + kind.n_rows)
        test[rows] = test[rows] * np.sqrt(variance) + mean
        labels[rows] = 1
    # These labels are exact.
    return ResidualStream(train, test, labels, step_s=1.0, label_slop_s=0)


def cusum(increments: np.ndarray, limit: float) -> np.ndarray:
    """Return the rows at which a CUSUM that restarts after each alarm exceeds."""
    found, total = [], 0.0
    for row, step in enumerate(increments.tolist()):
        total = max(0.0, total + step)
        if total > limit:
            found.append(row)
            total = 0.0
    return np.array(found, np.int64)


def true_ratio(kind: Kind) -> LikelihoodRatio:
    mean, variance = kind.law
    return LikelihoodRatio.of_law(mean, np.diag(variance))


def limit_for_run_length(kind: Kind, n_rows: int = 1_000_000) -> float:
    """Return the limit with which the true law's CUSUM has a run length of 1e4."""
    ratio, rng = true_ratio(kind), np.random.default_rng(12345)
    steps = np.concatenate(
        [
            ratio.increments(rng.normal(size=(20_000, kind.p)))
            for _ in range(n_rows // 20_000)
        ]
    )
    low, high = 1.0, 15.0
    for _ in range(10):
        limit = (low + high) / 2
        if len(cusum(steps, limit)) > n_rows / RUN_LENGTH:
            low = limit
        else:
            high = limit
    return (low + high) / 2


def first_inside(starts: np.ndarray, first: int, stop: int) -> int:
    """Return rows from an attack's start to the first alarm in it, or its length."""
    inside = starts[(starts >= first) & (starts < stop)]
    return int(inside[0]) - first if len(inside) else stop - first


def delays_of(kind: Kind, limit: float, n_rows: int, seed: int) -> dict[str, list[int]]:
    """Return the delay of everything that raises alarms, attack by attack."""
    stream = stream_of(kind, n_rows, seed)
    per_day = 86_400 / RUN_LENGTH
    made = commission(stream, budget=Budget(per_day=per_day, share=0.5))
    scored = score(stream)
    test = scored.test
    split = made.facts.split
    alarms = {
        name: episodes.caught_at + split for name, episodes in made.alarms.items()
    }
    steps = true_ratio(kind).increments(next(stream.test.chunks()))
    delays = defaultdict(list)
    found = ceilings(scored, made)
    for attack, ceiling in zip(test.segments, found, strict=True):
        first, stop = attack.start, attack.stop
        if first < split:
            continue
        late = stop - first
        is_seen = ceiling is not None and ceiling.delay_s is not None
        delays["ceiling"].append(int(ceiling.delay_s) if is_seen else late)
        before = steps[max(0, first - 2000) : first]
        led_up = np.concatenate([before, steps[first:stop]])
        starts = cusum(led_up, limit) + first - len(before)
        delays["true law"].append(first_inside(starts, first, stop))
        for name, starts in alarms.items():
            delays[name].append(first_inside(starts, first, stop))
    return delays


def on_waterworks(folder: Path, seeds: range) -> None:
    """Print how the chosen rule stands to the ceiling on the simulated plant."""
    from alarm_rules import waterworks

    total = Counter()
    for kind, name, stream in waterworks(seeds, folder, ("mild",)):
        if not kind.endswith("att"):
            continue
        found = evaluate(stream, intervals=False, metrics="none")
        counts = Counter()
        for segment in found.segments:
            ceiling = segment.ceiling
            rule = ceiling and ceiling.rules[0]
            if not rule or rule.outcome is CeilingOutcome.UNJUDGED:
                continue
            counts["judged"] += 1
            counts[rule.outcome.value] += 1
            alarmed = rule.delay_s is not None
            if rule.outcome is CeilingOutcome.UNSEEN and alarmed:
                counts["alarmed, unseen"] += 1
                facts = segment.telemetry
                if facts and facts.moves_in_truth is False:
                    counts["alarmed, moves nothing"] += 1
            if alarmed and ceiling.delay_s is not None:
                step = stream.step_s
                counts["earlier"] += rule.delay_s < ceiling.delay_s - step
        print(f"{name:24}{found.rules.chosen:8}{dict(counts)}", flush=True)
        total += counts
    print(f"{'all':32}{dict(total)}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--waterworks", type=Path, metavar="STREAMS")
    parser.add_argument("--seeds", default="720-721")
    parser.add_argument("--rows", type=int, default=400_000)
    chosen = parser.parse_args()
    low, _, high = chosen.seeds.partition("-")
    seeds = range(int(low), int(high or low) + 1)
    if chosen.waterworks:
        on_waterworks(chosen.waterworks, seeds)
        return
    print(
        f"{'attack':42}{'p':>4}{'rows':>6}{'n':>6}{'true':>8}{'ceiling':>9}"
        f"{'ratio':>7}  beaten{'':22}quickest"
    )
    for kind in KINDS:
        limit = limit_for_run_length(kind)
        joined = defaultdict(list)
        for seed in seeds:
            for name, values in delays_of(kind, limit, chosen.rows, seed).items():
                joined[name] += values
        every = {name: np.array(values) for name, values in joined.items()}
        ceiling, true = every.pop("ceiling"), every.pop("true law")
        beaten = {n: float(np.mean(v < ceiling)) for n, v in every.items()}
        worst = max(beaten, key=beaten.__getitem__)
        quick = min(every, key=lambda name: every[name].mean())
        print(
            f"{kind.name:42}{kind.p:4}{kind.n_rows:6}{len(ceiling):6}"
            f"{true.mean():8.2f}{ceiling.mean():9.2f}"
            f"{(ceiling.mean() + 1) / (true.mean() + 1):7.3f}"
            f"  {worst:8}{beaten[worst]:6.1%}"
            f" (true {np.mean(every[worst] < true):5.1%})"
            f"   {quick:8}{(every[quick].mean() + 1) / (ceiling.mean() + 1):6.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
