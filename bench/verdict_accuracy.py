"""How often is the verdict the one that unlimited calm data would give?

Streams whose causes are known by construction (tests/known_causes.py) climb the ladder
twice: as they are, and with many more calm versions of the same record. The second is
the truth. Prints the confusion matrix by effect size.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from known_causes import make_known_stream
from more_calm_data import climb_with_calm

REPLICAS = 12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=60)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--replicas", type=int, default=REPLICAS)
    parser.add_argument("--easy", action="store_true")
    parser.add_argument("--save", type=Path)
    args = parser.parse_args()
    rows = []
    for seed in range(args.first, args.first + args.streams):
        known = make_known_stream(seed, hard=not args.easy)
        found = climb_with_calm(known)
        true = climb_with_calm(known, args.replicas)
        by_start = {s.start: s for s in known.segments}
        attacks = known.stream.attack_segments()
        for attack, f, t in zip(attacks, found, true, strict=True):
            planned = by_start.get(attack.start)
            rows.append((seed, planned, f, t))
    report(rows)
    if args.save:
        import pickle

        args.save.write_bytes(pickle.dumps(rows))


def report(rows: list) -> None:
    words = ["detected", "threshold", "drift", "diluted", "sequential", "quiet"]
    words += ["weak-evidence", "undecided"]
    for effect in ("all", "clear", "medium", "bar", "none"):
        chosen = [
            r for r in rows if effect == "all" or (r[1] and r[1].effect == effect)
        ]
        counts = Counter((t.verdict, f.verdict) for _, _, f, t in chosen)
        print(f"\n{effect}: {len(chosen)} segments; rows: truth, columns: found")
        print(" " * 14 + "".join(f"{w[:9]:>11}" for w in words) + "   right")
        for true in words:
            total = sum(counts[true, w] for w in words)
            if total:
                cells = "".join(f"{counts[true, w]:11}" for w in words)
                print(f"{true:14}{cells}   {counts[true, true] / total:.2f}")
        judged = [r for r in chosen if r[2].verdict != "undecided"]
        right = np.mean([f.verdict == t.verdict for _, _, f, t in judged] or [0])
        print(f"right over all that were decided: {right:.3f}")
    calm = [r for r in rows if r[1] and r[1].intended == "none"]
    blamed = [r for r in calm if r[2].verdict not in ("weak-evidence", "undecided")]
    print(f"\neffect-free: {len(calm)}, given a cause: {len(blamed)}")


if __name__ == "__main__":
    main()
