"""Verdicts and telemetry facts on the simulated plant, against what its twin knows.

    python bench/waterworks_verdicts.py WORK --seeds 31 32 33 34 35 36

Runs the demo's study (seven detectors, two days of training, two of test) on plants of
other seeds, and compares with the truth: whether an attack moves anything recorded,
known from a twin without the attack. Streams are kept in WORK; a second run only judges
them again. Seeds used for tuning: 1 and 11 to 14.
"""

import argparse
from collections import Counter
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np

from sightline import evaluate, open_testbed, read_results, read_stream, write_results
from sightline.comparison.joint import joint_verdicts
from sightline.comparison.runs import group_runs
from sightline.data.segments import Attack
from sightline.data.stream import ResidualStream
from sightline.facts.audit import audit_of
from sightline.facts.records import AUDIT_KEY, carried
from sightline.judgement.verdicts import Verdict
from sightline.study.plan import read_plan
from sightline.study.run import run_study

# Mean distance from the twin, in units of noise, from which an effect is clear.
CLEAR = 3.0
# Pseudo-attacks put into calm time of each stream.
N_PSEUDO = 12


def study_of(work: Path, seed: int, drift: str) -> Path:
    """Train and export the demo's detectors on a plant of another seed."""
    with as_file(files("sightline.study") / "demo.toml") as path:
        text = path.read_text("utf-8")
    text = text.replace("seed = 1\n", f"seed = {seed}\n")
    text = text.replace('drift = "fouling=mild"', f'drift = "{drift}"')
    text += "\n[evaluation]\nintervals = false\ndiagnosis = false\n"
    folder = work / f"seed{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    plan = folder / "plan.toml"
    plan.write_text(text, "utf-8")
    if not (folder / "study" / "streams").exists():
        run_study(read_plan(plan), folder / "study")
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[31, 32, 33])
    parser.add_argument("--drift", default="fouling=mild")
    args = parser.parse_args()
    facts_right: Counter[tuple[str, str]] = Counter()
    given: Counter[tuple[str, str]] = Counter()
    pseudo: Counter[str] = Counter()
    n_attacks = contradictions = 0
    found: dict[str, list[str]] = {}
    for seed in args.seeds:
        folder = study_of(args.work, seed, args.drift)
        testbed = open_testbed(
            "waterworks", days_train=2, days_test=2, seed=seed, drift=args.drift
        )
        audit = audit_of(testbed)
        kinds = {e.id: kind_of(e.moves, e.mean) for e in testbed.truth}
        for fact in audit.recording.attacks:
            facts_right[kinds[fact.id], str(fact.movement)] += 1
        evaluations = []
        for path in sorted((folder / "study" / "streams").glob("*.npz")):
            stream = read_stream(path)
            stream = stream.replace(meta={**stream.meta, **carried(audit)})
            evaluation = evaluate(stream, intervals=False)
            evaluations.append(evaluation)
            tried, hit = pseudo_found(stream)
            pseudo["tried"] += tried
            pseudo["found"] += hit
            facts = evaluation.diagnosis
            if facts is not None and facts.found is not None:
                found.setdefault(stream.detector or "", []).append(
                    f"{facts.found.count} of {facts.found.total} "
                    f"(chance {facts.found.by_chance:.1f})"
                )
        out = folder / "results"
        write_results(evaluations, out, overwrite=True)
        joint = joint_verdicts(group_runs(read_results([out])))
        by_attack: dict[str, set[str]] = {}
        for key, verdict in joint.items():
            attack = key[-1]
            by_attack.setdefault(attack, set()).add(str(verdict.verdict))
        for attack, verdicts in by_attack.items():
            n_attacks += 1
            is_still = Verdict.NOT_IN_TELEMETRY in verdicts
            contradictions += is_still and len(verdicts) > 1
            given[kinds.get(attack, "unknown"), "still" if is_still else "not"] += 1
    report(facts_right, given, pseudo, contradictions, n_attacks, found)


def kind_of(moves: bool, mean: float) -> str:
    return "nothing" if not moves else "clear" if mean >= CLEAR else "grey"


def pseudo_found(stream: ResidualStream) -> tuple[int, int]:
    """Return how many calm stretches were labelled as attacks, and how many found."""
    rng = np.random.default_rng(7)
    labels = np.asarray(stream.labels).copy()
    lengths = [a.segment.length for a in stream.attack_segments()]
    placed: list[Attack] = []
    chosen = labels.copy()
    chosen[labels == 1] = -1  # real attacks count as nothing
    for k in range(N_PSEUDO):
        length = int(rng.choice([n for n in lengths if n <= 200] or lengths))
        free = np.flatnonzero(
            np.convolve(chosen == 0, np.ones(3 * length), "valid") == 3 * length
        )
        if not len(free):
            continue
        start = int(rng.choice(free)) + length
        chosen[start : start + length] = 1
        placed.append(Attack(id=f"P{k}", start=start, stop=start + length))
    meta = {k: v for k, v in stream.meta.items() if k != AUDIT_KEY}
    pretended = stream.replace(labels=chosen, segments=placed, meta=meta)
    evaluation = evaluate(pretended, intervals=False)
    hits = [bool(s.found and s.found.is_found) for s in evaluation.segments]
    return len(placed), sum(hits)


def report(facts, given, pseudo, contradictions, n_attacks, found) -> None:
    print("telemetry's own test (rows: what the twin knows):")
    for kind in ("nothing", "clear", "grey"):
        cells = {m: facts[kind, m] for m in ("moves", "unclear", "still")}
        print(f"  {kind:8} {cells}")
    right = facts["nothing", "still"] + facts["nothing", "unclear"]
    right += facts["clear", "moves"] + facts["clear", "unclear"]
    total = sum(n for (kind, _), n in facts.items() if kind != "grey")
    print(f"  not wrong on nothing and clear: {right} of {total} = {right / total:.3f}")
    print("not-in-telemetry over all detectors, after the veto:")
    for kind in ("nothing", "clear", "grey"):
        print(f"  {kind:8} given {given[kind, 'still']}, not {given[kind, 'not']}")
    uses = sum(given[kind, "still"] for kind in ("nothing", "clear"))
    print(f"  right in {given['nothing', 'still']} of {uses} uses (grey apart)")
    print(f"contradictions: {contradictions} of {n_attacks} attacks")
    print(f"pseudo-attacks found: {pseudo['found']} of {pseudo['tried']}")
    for detector, counts in found.items():
        print(f"  {detector:9} found {'; '.join(counts)}")


if __name__ == "__main__":
    main()
