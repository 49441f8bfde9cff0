"""How often is a verdict right, on streams whose truth is known?

    python bench/verdict_accuracy.py --first 9000 --streams 110

Makes hard streams (bench/hard_streams.py), judges them through `sightline.evaluate`,
and prints the confusion matrix, what effect-free segments are blamed for, and how far
the stated confidence can be believed. A verdict of `undecided` counts as wrong.

Seeds used for tuning: 5000 to 5059. All others are unseen.
"""

import argparse
import os
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor

# One thread for each process; set before numpy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from hard_streams import PlannedSegment, make_hard_stream

from sightline import evaluate
from sightline.judgement.verdicts import SegmentDiagnosis, Verdict

WORDS = [v for v in Verdict if v not in (Verdict.NOT_IN_TELEMETRY, Verdict.UNDECIDED)]
NO_CAUSE = ("weak-evidence", "undecided")
Row = tuple[PlannedSegment, SegmentDiagnosis]


def judged(seed: int) -> tuple[list[Row], float | None]:
    """Return each segment of a stream with its verdict, and the false-cause rate."""
    hard = make_hard_stream(seed)
    evaluation = evaluate(hard.stream, intervals=False)
    by_start = {segment.start: segment for segment in hard.segments}
    rows = [
        (by_start[segment.start], segment)
        for segment in evaluation.segments
        if segment.start in by_start
    ]
    facts = evaluation.diagnosis
    return rows, None if facts is None else facts.false_cause_rate


def is_right(row: Row) -> bool:
    planned, found = row
    return str(found.verdict) in planned.right


def interval(right: int, total: int) -> str:
    """Return a share with its exact 95% interval."""
    from scipy.stats import beta

    low = beta.ppf(0.025, right, total - right + 1) if right else 0.0
    high = beta.ppf(0.975, right + 1, total - right) if right < total else 1.0
    return f"{right / total:.3f} ({low:.3f} to {high:.3f}, {total})"


def report(rows: list[Row]) -> None:
    by_truth: dict[str, list[bool]] = defaultdict(list)
    counts: Counter[tuple[str, str]] = Counter()
    for row in rows:
        by_truth[row[0].truth].append(is_right(row))
        counts[row[0].truth, str(row[1].verdict)] += 1
    n_right = sum(map(is_right, rows))
    shares = [np.mean(right) for right in by_truth.values()]
    print(f"right over all: {interval(n_right, len(rows))}")
    print(f"balanced over causes: {np.mean(shares):.3f}, lowest {min(shares):.3f}")
    undecided = sum(row[1].verdict == "undecided" for row in rows)
    print(f"undecided: {undecided} of {len(rows)}")
    print("\nrows: truth; columns: verdict")
    columns = [*map(str, WORDS), "undecided"]
    print(" " * 14 + "".join(f"{w[:10]:>11}" for w in columns) + "   right")
    for truth in columns:
        if truth in by_truth:
            cells = "".join(f"{counts[truth, w]:11}" for w in columns)
            right = by_truth[truth]
            print(f"{truth:14}{cells}   {np.mean(right):.2f} of {len(right)}")
    free = [row for row in rows if row[0].is_effect_free]
    blamed = sum(str(row[1].verdict) not in NO_CAUSE for row in free)
    print(f"\neffect-free segments with a cause: {interval(blamed, len(free))}")
    p_values = [row[1].ladder_p_value for row in free if row[1].ladder_p_value]
    print(f"effect-free p of 0.05 or less: {np.mean(np.array(p_values) <= 0.05):.3f}")
    print("\nstated confidence: share that is right")
    for low, high in ((0.0, 0.5), (0.5, 0.7), (0.7, 0.9), (0.9, 1.01)):
        within = [r for r in rows if low <= (r[1].confidence or 0.0) < high]
        if within:
            n = sum(map(is_right, within))
            print(f"  {low:.1f} to {min(high, 1.0):.1f}: {interval(n, len(within))}")
    kinds: dict[str, list[bool]] = defaultdict(list)
    for row in rows:
        kinds[row[0].kind].append(is_right(row))
    print("\nby kind of attack: right, segments")
    for kind, right in sorted(kinds.items()):
        print(f"  {kind:12} {np.mean(right):.2f} {len(right)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=20)
    parser.add_argument("--first", type=int, default=9000)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    seeds = range(args.first, args.first + args.streams)
    with ProcessPoolExecutor(args.jobs) as pool:
        found = list(pool.map(judged, seeds))
    rates = [rate for _, rate in found if rate is not None]
    print(f"false-cause rate of the streams: median {np.median(rates):.3f}, ", end="")
    print(f"90% below {np.quantile(rates, 0.9):.3f}\n")
    report([row for rows, _ in found for row in rows])


if __name__ == "__main__":
    main()
