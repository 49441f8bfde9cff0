"""How often is a verdict right, on streams whose truth is known?

    python bench/verdict_accuracy.py --first 9000 --streams 110
    python bench/verdict_accuracy.py --made spiky --jitter 60

Makes streams (bench/hard_streams.py: hard, spiky, long), judges them through
`sightline.evaluate`, and prints the confusion matrix, what effect-free segments are
blamed for, how far the stated confidence can be believed, sentences that contradict
their own ladder, pseudo-attacks that are found, and CPU seconds a stream. A verdict of
`undecided` counts as wrong. `--jitter` moves the ends of labels; `--slop` and
`--no-match` switch parts of the judgement.

Seeds used for tuning: 5000 to 5059. All others are unseen.
"""

import argparse
import os
import time
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

# One thread for each process; set before numpy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from contradictions import contradictions
from hard_streams import MAKERS, HardStream, PlannedSegment, answer_of

from sightline import ResidualStream, evaluate
from sightline.judgement import event_test
from sightline.judgement.verdicts import SegmentDiagnosis, Verdict

# Not columns of the table: words of other questions, or one answer with another.
LEFT_OUT = (Verdict.ALREADY_IN_ALARM, Verdict.NOT_IN_TELEMETRY, Verdict.UNDECIDED)
WORDS = [v for v in Verdict if v not in LEFT_OUT]
NO_CAUSE = ("weak-evidence", "undecided")
N_PSEUDO = 8
Row = tuple[PlannedSegment, SegmentDiagnosis]


@dataclass(frozen=True, kw_only=True)
class Judged:
    """One stream: its segments, false causes, pseudo-attacks and cost."""

    rows: list[Row]
    false_causes: float | None
    n_channels: int
    pseudo: list[str]
    seconds: float


def judged(
    seed: int, *, made: str, jitter: int, slop: float | None, match: bool, pseudo: bool
) -> Judged:
    """Return each segment of a stream with its verdict."""
    event_test.IS_SHORTENED_TO_MATCH = match
    hard = MAKERS[made](seed, jitter)
    measure = partial(evaluate, intervals=False, metrics="none", label_slop_s=slop)
    begun = time.process_time()
    evaluation = measure(hard.stream, budget=None)
    seconds = time.process_time() - begun
    by_start = {segment.start: segment for segment in hard.segments}
    rows = [
        (by_start[segment.start], segment)
        for segment in evaluation.segments
        if segment.start in by_start
    ]
    facts = evaluation.diagnosis
    words = []
    if pseudo:
        found = measure(with_pseudo_attacks(hard, seed), budget=None)
        words = [answer_of(s) for s in found.segments if s.id.startswith("pseudo")]
    return Judged(
        rows=rows,
        false_causes=None if facts is None else facts.false_cause_rate,
        n_channels=hard.stream.p,
        pseudo=words,
        seconds=seconds,
    )


def with_pseudo_attacks(hard: HardStream, seed: int) -> ResidualStream:
    """Return a stream in which some attack-free rows are labelled as attacks too."""
    from sightline import Attack

    rng = np.random.default_rng([seed, 106])
    labels = hard.stream.labels.copy()
    attacks = list(hard.stream.attack_segments())
    for k in range(N_PSEUDO):
        length = int(rng.integers(20, 200))
        free = np.flatnonzero(labels[: len(labels) - length] == 0)
        at = int(rng.choice(free))
        around = slice(max(at - 300, 0), at + length + 300)
        if not labels[around].any():
            labels[at : at + length] = 1
            attacks.append(Attack(id=f"pseudo{k}", start=at, stop=at + length))
    return hard.stream.replace(labels=labels, segments=attacks)


def is_right(row: Row) -> bool:
    planned, found = row
    return answer_of(found) in planned.right


def interval(right: int, total: int) -> str:
    """Return a share with its exact 95% interval."""
    from scipy.stats import beta

    if not total:
        return "none"
    low = beta.ppf(0.025, right, total - right + 1) if right else 0.0
    high = beta.ppf(0.975, right + 1, total - right) if right < total else 1.0
    return f"{right / total:.3f} ({low:.3f} to {high:.3f}, {total})"


def report(rows: list[Row]) -> None:
    by_truth: dict[str, list[bool]] = defaultdict(list)
    counts: Counter[tuple[str, str]] = Counter()
    for row in rows:
        by_truth[row[0].truth].append(is_right(row))
        counts[row[0].truth, answer_of(row[1])] += 1
    n_right = sum(map(is_right, rows))
    shares = [np.mean(right) for right in by_truth.values()]
    print(f"right over all: {interval(n_right, len(rows))}")
    print(f"balanced over causes: {np.mean(shares):.3f}, lowest {min(shares):.3f}")
    undecided = sum(row[1].verdict == "undecided" for row in rows)
    print(f"undecided: {undecided} of {len(rows)}")
    print("\nrows: truth; columns: verdict")
    columns = [*map(str, WORDS), "undecided"]
    print(" " * 14 + "".join(f"{w[:10]:>11}" for w in columns) + "   right")
    for truth in [*columns, *sorted(by_truth.keys() - {*columns})]:
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
    few = [r for r in rows if "few-windows" in (r[1].flags or ())]
    sure = [r for r in few if str(r[1].verdict) != "undecided"]
    print(f"  few windows, decided: {interval(sum(map(is_right, sure)), len(sure))}")
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
    parser.add_argument("--made", choices=MAKERS, default="hard")
    parser.add_argument("--jitter", type=int, default=0)
    parser.add_argument("--slop", type=float)
    parser.add_argument("--no-match", action="store_true")
    parser.add_argument("--pseudo", action="store_true")
    args = parser.parse_args()
    seeds = range(args.first, args.first + args.streams)
    given = {"made": args.made, "jitter": args.jitter, "slop": args.slop}
    given |= {"match": not args.no_match, "pseudo": args.pseudo}
    with ProcessPoolExecutor(args.jobs) as pool:
        found = list(pool.map(partial(judged, **given), seeds))
    rates = [one.false_causes for one in found if one.false_causes is not None]
    print(f"false-cause rate of the streams: median {np.median(rates):.3f}, ", end="")
    print(f"90% below {np.quantile(rates, 0.9):.3f}")
    print(f"CPU seconds a stream: {np.mean([one.seconds for one in found]):.2f}")
    wrong = [
        text
        for one in found
        for _, segment in one.rows
        for text in contradictions(segment)
    ]
    print(f"sentences that contradict their ladder: {len(wrong)}")
    for text in wrong[:5]:
        print(f"  {text}")
    if args.pseudo:
        words = Counter(word for one in found for word in one.pseudo)
        n = sum(words.values())
        print(f"pseudo-attacks found: {interval(words['detected'], n)}")
        causes = n - words["detected"] - sum(words[word] for word in NO_CAUSE)
        print(f"pseudo-attacks with a cause: {interval(causes, n)}")
    print()
    report([row for one in found for row in one.rows])


if __name__ == "__main__":
    main()
