"""What Sightline says, against what is known from a twin without the attack.

    python bench/twin_truth.py run WORK waterworks --seeds 31 32 33 34 35 36
    python bench/twin_truth.py run WORK tep --seeds 201 202 203 204
    python bench/twin_truth.py run WORK network --seeds 201 202 203 204
    python bench/twin_truth.py run WORK batadal --folder DATA
    python bench/twin_truth.py report WORK

`run` trains detectors on plants of these seeds, judges every attack, and keeps streams
and one record for each seed in WORK; a second run only judges again. `report` prints
the tables of docs/truth.md over all records. An attack moves nothing, clearly (by 3
units of noise or more in the mean, on one tag) or a little, as its twin knows. BATADAL
has no twin: only rules and ranking are counted there.

Seeds used for tuning: waterworks 1 and 11 to 14. No seed of tep or network.
"""

import argparse
import json
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from pathlib import Path

import msgspec
import numpy as np
from scipy.stats import binomtest, spearmanr

from sightline import evaluate, read_results, read_stream, write_results
from sightline.audit.record import AUDIT_KEY, audit_in
from sightline.comparison.runs import group_runs, joint_verdicts
from sightline.data.segments import Attack, KnownEffect
from sightline.data.stream import ResidualStream
from sightline.errors import StreamError
from sightline.evaluation.result import Evaluation
from sightline.judgement.verdicts import Verdict
from sightline.rules.commission import commission
from sightline.rules.promise import Kept
from sightline.study.execute_cell import TRUTH_KEY
from sightline.study.plan import read_plan
from sightline.study.run import run_study

# Mean distance from the twin, in units of noise, from which an effect is clear.
CLEAR = 3.0
# Pseudo-attacks put into calm time of each stream.
N_PSEUDO = 12
KINDS = ("nothing", "clear", "grey")
TWINS = ("waterworks", "tep", "network")
DETECTORS = ("var", "pca", "geco", "gdn")
# How each testbed is opened, and the budget of its alarm rules.
OPTIONS: dict[str, dict[str, object]] = {
    "waterworks": {"days_train": 2, "days_test": 2, "drift": "fouling=mild"},
    "tep": {},
    "network": {},
    "batadal": {},
}
BUDGETS = {
    "waterworks": "6/day",
    "tep": "6/day",
    "network": "1/day",
    "batadal": "1/week",
}


@dataclass
class Record:
    """What was counted on one plant of one seed."""

    testbed: str
    seed: int
    n_attacks: int = 0
    # Telemetry's own test: "kind movement" -> attacks.
    facts: Counter = field(default_factory=Counter)
    # Joint verdict over all detectors: "kind still" or "kind not" -> attacks.
    joint: Counter = field(default_factory=Counter)
    contradictions: int = 0
    # Verdict of each detector: "detector kind verdict" -> attacks.
    verdicts: Counter = field(default_factory=Counter)
    # The rule's alarms: "detector kind found" or "detector kind missed" -> attacks.
    found: Counter = field(default_factory=Counter)
    # "detector tried", "detector found" for calm time labelled as attacks.
    pseudo: Counter = field(default_factory=Counter)
    # "detector single", "detector hit1", "detector hit3", "detector moved".
    places: Counter = field(default_factory=Counter)
    # "detector kept" and so on; one for each detector.
    promises: Counter = field(default_factory=Counter)
    roc_auc: dict[str, float] = field(default_factory=dict)


# --- Streams --------------------------------------------------------------------------


def study_of(
    work: Path,
    testbed: str,
    seed: int,
    detectors: Sequence[str] = (),
    folder: Path | None = None,
) -> Path:
    """Train and export detectors with the demo's settings; return the folder."""
    with as_file(files("sightline.study") / "demo.toml") as path:
        demo = tomllib.loads(path.read_text("utf-8"))["detectors"]
    options = dict(OPTIONS[testbed])
    if testbed in TWINS:
        options["seed"] = seed
    if folder is not None:
        options["root"] = str(folder.resolve())
    lines = ["seeds = [0]", f"[testbeds.{testbed}]"]
    lines += [f"{name} = {json.dumps(value)}" for name, value in options.items()]
    for name in detectors or demo:
        lines.append(f"[detectors.{name}]")
        lines += [f"{k} = {json.dumps(v)}" for k, v in demo.get(name, {}).items()]
    lines += ["[evaluation]", "intervals = false", "diagnosis = false"]
    place = work / testbed / f"seed{seed}"
    place.mkdir(parents=True, exist_ok=True)
    plan = place / "plan.toml"
    plan.write_text("\n".join(lines) + "\n", "utf-8")
    if not (place / "study" / "streams").exists():
        run_study(read_plan(plan), place / "study")
    return place


# --- Counting -------------------------------------------------------------------------


def record_of(place: Path, testbed: str, seed: int, with_calm: bool = True) -> Record:
    """Judge the streams of one study, and compare with the truth that they carry.

    The record is written after each stream, so that a run that is ended early counts.
    """
    record = Record(testbed=testbed, seed=seed)
    evaluations = []
    kinds: dict[str, str] = {}
    paths = (place / "study" / "streams").glob("*.npz")
    for path in sorted(paths, key=lambda path: _place_of(path.name)):
        stream = read_stream(path)
        name = stream.detector or ""
        truth = msgspec.convert(stream.meta.get(TRUTH_KEY, ()), tuple[KnownEffect, ...])
        kinds = {e.id: kind_of(e.moves, e.mean) for e in truth}
        moved = {e.id: e.tags[:5] for e in truth}
        if not evaluations:
            record.n_attacks = len(stream.attack_segments())
            count_facts(record, stream, kinds)
        evaluation = evaluate(stream, intervals=False, metrics="none")
        evaluations.append(evaluation)
        record.roc_auc[name] = evaluation.rank.roc_auc
        if with_calm:
            tried, hit = pseudo_found(stream)
            record.pseudo[f"{name} tried"] += tried
            record.pseudo[f"{name} found"] += hit
        count_attacks(record, name, evaluation, kinds)
        count_places(record, name, stream, evaluation, kinds, moved)
        record.promises[f"{name} {promise_of(stream, BUDGETS[testbed])}"] += 1
        count_joint(record, evaluations, place / "results", kinds)
        (place / "record.json").write_text(json.dumps(vars(record)), "utf-8")
    return record


def _place_of(name: str) -> int:
    """Return the place of a stream's detector in `DETECTORS`; others come last."""
    found = [k for k, detector in enumerate(DETECTORS) if f"-{detector}-" in name]
    return found[0] if found else len(DETECTORS)


def count_facts(record: Record, stream: ResidualStream, kinds: dict[str, str]) -> None:
    audit = audit_in(stream.meta)
    for fact in audit.recording.attacks if audit is not None else ():
        if fact.id in kinds:
            record.facts[f"{kinds[fact.id]} {fact.movement}"] += 1


def kind_of(moves: bool, mean: float) -> str:
    return "nothing" if not moves else "clear" if mean >= CLEAR else "grey"


def count_attacks(
    record: Record, name: str, evaluation: Evaluation, kinds: dict[str, str]
) -> None:
    for segment in evaluation.segments:
        if (kind := kinds.get(segment.id)) is None:
            continue
        record.verdicts[f"{name} {kind} {segment.verdict}"] += 1
        is_found = bool(segment.found and segment.found.is_found)
        record.found[f"{name} {kind} {'found' if is_found else 'missed'}"] += 1


def count_places(record, name, stream, evaluation, kinds, moved) -> None:
    """Count where the evidence points, for clear attacks on one tag."""
    targets = {a.id: a.targets for a in stream.attack_segments()}
    for attack in evaluation.localisation.attacks:
        if kinds.get(attack.id) != "clear" or len(targets[attack.id]) != 1:
            continue
        rank = attack.ranks["conditional"]["attack"]
        leading = attack.leading.get("attack", ())
        if rank is None:
            continue
        record.places[f"{name} single"] += 1
        record.places[f"{name} hit1"] += rank <= 1
        record.places[f"{name} hit3"] += rank <= 3
        is_moved = bool(leading) and leading[0].channel in moved[attack.id]
        record.places[f"{name} moved"] += is_moved


def promise_of(stream: ResidualStream, budget: str) -> str:
    """Return what became of the promise of the chosen rule; "refused" without one."""
    try:
        made = commission(stream, budget=budget)
    except StreamError:
        return "refused"
    return str(made.facts.row(made.facts.chosen).kept)


def count_joint(
    record: Record,
    evaluations: Sequence[Evaluation],
    out: Path,
    kinds: dict[str, str],
) -> None:
    write_results(evaluations, out, overwrite=True)
    record.joint, record.contradictions = Counter(), 0
    by_attack: dict[str, set[str]] = {}
    for key, verdict in joint_verdicts(group_runs(read_results([out]))).items():
        by_attack.setdefault(key[-1], set()).add(str(verdict.verdict))
    for attack, verdicts in by_attack.items():
        is_still = Verdict.NOT_IN_TELEMETRY in verdicts
        record.contradictions += is_still and len(verdicts) > 1
        if attack in kinds:
            record.joint[f"{kinds[attack]} {'still' if is_still else 'not'}"] += 1


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
    evaluation = evaluate(pretended, intervals=False, metrics="none")
    hits = [bool(s.found and s.found.is_found) for s in evaluation.segments]
    return len(placed), sum(hits)


# --- Tables ---------------------------------------------------------------------------


def share(hits: int, of: int) -> str:
    """Return a share with its 95% interval (Clopper and Pearson)."""
    if not of:
        return "-"
    ends = binomtest(hits, of).proportion_ci()
    return f"{hits} of {of} = {hits / of:.2f} [{ends.low:.2f}, {ends.high:.2f}]"


def total(records: Iterable[Record], name: str) -> Counter:
    return sum((Counter(getattr(record, name)) for record in records), Counter())


def report(records: Sequence[Record]) -> None:
    testbeds = list(dict.fromkeys(record.testbed for record in records))
    for testbed in testbeds:
        part = [record for record in records if record.testbed == testbed]
        seeds = ", ".join(str(record.seed) for record in part)
        n_attacks = sum(record.n_attacks for record in part)
        print(f"\n=== {testbed}, seeds {seeds}: {n_attacks} attacks")
        report_truth(part)
        report_detectors(part)
    report_ranking(records, testbeds)


def report_truth(part: Sequence[Record]) -> None:
    facts, joint = total(part, "facts"), total(part, "joint")
    if not joint:
        return
    print("telemetry's own test (rows: what the twin knows):")
    for kind in KINDS:
        cells = {m: facts[f"{kind} {m}"] for m in ("moves", "unclear", "still")}
        print(f"  {kind:8} {cells}")
    for kind in KINDS:
        still, other = joint[f"{kind} still"], joint[f"{kind} not"]
        print(f"  not-in-telemetry on {kind:8} {share(still, still + other)}")
    right = joint["nothing still"]
    uses = right + joint["clear still"]
    print(f"  not-in-telemetry is right (grey apart): {share(right, uses)}")
    both = uses + joint["grey still"]
    print(f"  not-in-telemetry is right (grey counted wrong): {share(right, both)}")
    n_judged = sum(joint.values())
    wrong = sum(record.contradictions for record in part)
    print(f"  contradictions between detectors: {wrong} of {n_judged} attacks")


def report_detectors(part: Sequence[Record]) -> None:
    found, verdicts = total(part, "found"), total(part, "verdicts")
    pseudo, places = total(part, "pseudo"), total(part, "places")
    promises = total(part, "promises")
    names = list(dict.fromkeys(name for record in part for name in record.roc_auc))
    every = Counter()
    for name in names:
        print(f"  {name}:")
        for kind in KINDS:
            hits, missed = (found[f"{name} {kind} {w}"] for w in ("found", "missed"))
            every[f"{kind} found"] += hits
            every[f"{kind} all"] += hits + missed
            if hits + missed:
                words = Counter(
                    {
                        key.split(" ")[2]: n
                        for key, n in verdicts.items()
                        if key.startswith(f"{name} {kind} ")
                    }
                )
                told = ", ".join(f"{word} {n}" for word, n in words.most_common())
                print(f"    {kind:8} found {share(hits, hits + missed)}; {told}")
        tried, hit = pseudo[f"{name} tried"], pseudo[f"{name} found"]
        print(f"    calm time found {share(hit, tried)}")
        if single := places[f"{name} single"]:
            ranks = (places[f"{name} {w}"] for w in ("hit1", "hit3", "moved"))
            print("    target 1st; in 3; 1st tag is moved far:", end=" ")
            print("; ".join(share(n, single) for n in ranks))
        kept = {str(k): promises[f"{name} {k}"] for k in [*Kept, "refused"]}
        print(f"    promise {kept}")
    for kind in KINDS:
        told = share(every[f"{kind} found"], every[f"{kind} all"])
        print(f"  all detectors, {kind:8} found {told}")
    tried = sum(n for key, n in pseudo.items() if key.endswith("tried"))
    hit = sum(n for key, n in pseudo.items() if key.endswith("found"))
    print(f"  all detectors, calm time found {share(hit, tried)}")
    made = sum(n for key, n in promises.items() if not key.endswith("refused"))
    broken = sum(n for key, n in promises.items() if key.endswith("broken"))
    print(f"  all detectors, promise not broken {share(made - broken, made)}")


def report_ranking(records: Sequence[Record], testbeds: Sequence[str]) -> None:
    print("\n=== ROC-AUC, mean over seeds, and how its ranking transfers (Spearman)")
    means: dict[str, dict[str, float]] = {}
    for testbed in testbeds:
        part = [r.roc_auc for r in records if r.testbed == testbed]
        means[testbed] = {
            name: float(np.mean([one[name] for one in part if name in one]))
            for name in DETECTORS
            if any(name in one for one in part)
        }
        told = ", ".join(f"{n} {value:.3f}" for n, value in means[testbed].items())
        print(f"  {testbed:11} {told}")
    for k, one in enumerate(testbeds):
        for other in testbeds[k + 1 :]:
            shared = sorted(set(means[one]) & set(means[other]))
            if len(shared) > 2:
                rho = spearmanr(
                    [means[one][n] for n in shared], [means[other][n] for n in shared]
                ).statistic
                print(f"  {one} and {other}: {rho:+.2f} over {len(shared)} detectors")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["run", "report"])
    parser.add_argument("work", type=Path)
    parser.add_argument("testbed", nargs="?", choices=list(OPTIONS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[31, 32, 33])
    parser.add_argument("--detectors", nargs="*", default=list(DETECTORS))
    parser.add_argument("--folder", type=Path, help="the files of BATADAL")
    parser.add_argument("--no-calm", action="store_true", help="no calm stretches")
    args = parser.parse_args()
    if args.what == "run":
        for seed in args.seeds if args.testbed in TWINS else [0]:
            place = study_of(args.work, args.testbed, seed, args.detectors, args.folder)
            record_of(place, args.testbed, seed, with_calm=not args.no_calm)
            print(f"{args.testbed} {seed}: done", flush=True)
    paths = sorted(args.work.glob("*/seed*/record.json"))
    wanted = args.testbed or ""
    records = [Record(**json.loads(path.read_text("utf-8"))) for path in paths]
    report([record for record in records if record.testbed.startswith(wanted)])


if __name__ == "__main__":
    main()
