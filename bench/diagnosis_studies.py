"""Three studies of the diagnosis: a simulated plant, BATADAL, and its own settings.

Run: python bench/diagnosis_studies.py [--waterworks] [--batadal] [--sensitivity]
Without an option all three are run (minutes; not part of `make bench`).
"""

import argparse
import importlib
import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from known_causes import make_known_stream

from sightline import ResidualStream, evaluate, open_testbed
from sightline.data.downsampling import downsampled
from sightline.data.recording import Recording
from sightline.errors import StreamError
from sightline.evaluation.result import Evaluation
from sightline.testbeds.waterworks import AttackTruth, Drift, simulate

Values = npt.NDArray[np.float64]

SHARED = ROOT.parent / "shared"
BATADAL = SHARED / "data" / "batadal"
GOLDEN = SHARED / "golden"
CAUSES = ("threshold", "drift", "diluted", "sequential", "quiet")
# A mean effect of so many units of a tag's own noise is a clear one.
CLEAR = 3.0
RIDGE = 1e-3
VARIANCE_KEPT = 0.95
SEEDS, EVERY = (1, 2, 3), 10
# Ten minutes, half an hour, an hour of recovery left out after each attack.
GUARDS = (60, 180, 360)
KNOWN_SEEDS = range(3000, 3012)
MODULES = ("calm", "evidence", "ladder", "refit", "subspaces")
SETTINGS = {
    "CONTRAST": (0.2, 0.4),
    "BUDGET": (0.005, 0.02),
    "NEARLY_ALL": (0.7, 0.9),
}
ESTIMATORS = ("oas", "ledoit-wolf-standardised", "minimum-covariance-determinant")


# --- Detectors that are known maps of the telemetry ---------------------------


def standardiser(train: Values) -> tuple[Values, Values]:
    scale = train.std(axis=0)
    scale[scale == 0] = 1.0
    return train.mean(axis=0), scale


def one_step_residuals(train: Recording, test: Recording) -> tuple[Values, Values]:
    """Return x_t - A x_(t-1), A fitted by ridge on standardised train telemetry."""
    mean, scale = standardiser(train.values.astype(np.float64))
    x = (train.values - mean) / scale
    is_first = np.isin(np.arange(len(x)), train.breaks)
    before, now = x[:-1][~is_first[1:]], x[1:][~is_first[1:]]
    gram = before.T @ before + RIDGE * len(before) * np.eye(x.shape[1])
    weights = np.linalg.solve(gram, before.T @ now)

    def residuals(recording: Recording) -> Values:
        z = (recording.values - mean) / scale
        return np.concatenate([np.zeros((1, z.shape[1])), z[1:] - z[:-1] @ weights])

    return residuals(train), residuals(test)


def pca_residuals(train: Recording, test: Recording) -> tuple[Values, Values]:
    """Return what the leading principal components of train do not reconstruct."""
    mean, scale = standardiser(train.values.astype(np.float64))
    x = (train.values - mean) / scale
    values, vectors = np.linalg.eigh(x.T @ x / len(x))
    order = np.argsort(values)[::-1]
    share = np.cumsum(values[order]) / values.sum()
    kept = vectors[:, order[: int(np.searchsorted(share, VARIANCE_KEPT)) + 1]]

    def residuals(recording: Recording) -> Values:
        z = (recording.values - mean) / scale
        return z - z @ kept @ kept.T

    return residuals(train), residuals(test)


def geco_residuals(
    train: Recording, test: Recording
) -> tuple[Values, Values, tuple[str, ...]]:
    """Return residuals of GeCo's published model, observed minus expected.

    The golden file holds those of test only; the model makes those of train, and its
    residuals of test are compared with the golden ones.
    """
    model = json.loads((GOLDEN / "geco_batadal_published_model.json").read_text())["CI"]
    names = tuple(model)

    def residuals(recording: Recording) -> Values:
        column = dict(zip(recording.channels, recording.values.T, strict=True))
        out = np.zeros((recording.n_steps, len(names)))
        for k, target in enumerate(names):
            inputs = [
                column[n][:-1].astype(float) for n in model[target]["combination"]
            ]
            *factors, offset = model[target]["parameters"]
            if model[target]["equation"] == "Product":
                inputs = [inputs[0], np.prod(inputs[1:], axis=0)]
            expected = sum(a * x for a, x in zip(factors, inputs, strict=True)) + offset
            out[1:, k] = column[target][1:] - expected
        return out

    made = residuals(test)
    golden = np.load(GOLDEN / "geco_batadal.npz")
    if tuple(golden["invariants"]) != names:
        raise ValueError("the golden residuals are not those of the published model")
    official = np.concatenate(
        [-golden["dataset04_residual"], -golden["test_dataset_residual"]]
    )
    there = ~np.isnan(official[:, 0])
    error = np.abs(made[there] - official[there]).max()
    print(f"GeCo: largest distance from the golden residuals of test {error:.1e}")
    return residuals(train), made, names


def stream_of(
    train: Recording,
    test: Recording,
    residuals: tuple[Values, Values],
    channels: tuple[str, ...],
    **known: object,
) -> ResidualStream:
    """Return a stream without the first row of each run, which has no row before it."""
    kept_train = ~np.isin(np.arange(train.n_steps), train.breaks)
    kept_test = ~np.isin(np.arange(test.n_steps), test.breaks)
    place = np.concatenate([[0], np.cumsum(kept_test)])
    breaks = [
        np.unique(np.concatenate([[0], np.cumsum(kept)[r.breaks]]))
        for kept, r in ((kept_train, train), (kept_test, test))
    ]
    return ResidualStream(
        residuals[0][kept_train],
        residuals[1][kept_test],
        test.labels[kept_test],
        channels=channels,
        train_breaks=breaks[0],
        test_breaks=breaks[1],
        segments=[
            replace(a, start=int(place[a.start]), stop=int(place[a.stop]))
            for a in test.attacks
        ],
        telemetry_train=train.values[kept_train].astype(np.float64),
        telemetry_test=test.values[kept_test].astype(np.float64),
        telemetry_channels=test.channels,
        step_s=test.step_s,
        **known,
    )


# --- 1. Waterworks ------------------------------------------------------------


def waterworks() -> None:
    told: list = []
    after: dict[int, list] = {guard: [] for guard in GUARDS}
    outside: dict[tuple[str, int, str], float] = {}
    for drift in ("none", "mild"):
        for seed in SEEDS:
            made = simulate(seed=seed, drift=Drift.of(drift))
            train, test = (downsampled(r, every=EVERY) for r in (made.train, made.test))
            groups: dict[str, list[str]] = {}
            for tag in test.tags:
                groups.setdefault(str(tag.stage), []).append(tag.name)
            stream = stream_of(
                train,
                test,
                one_step_residuals(train, test),
                test.channels,
                name=f"waterworks-{seed}-{drift}",
                meta={"groups": groups},
            )
            truth = {one.id: one for one in made.truth}
            usual = usual_range(train)
            for guard in GUARDS:
                after[guard] += [
                    (drift, seed, row, truth[row.id])
                    for row in evaluate(stream, intervals=False, guard=guard).segments
                    if row.id in truth
                ]
            outside |= {
                (drift, seed, one.id): share_outside(made.test, one, usual)
                for one in made.truth
            }
            evaluation = evaluate(stream, intervals=False)
            pairs = [(row, truth.get(row.id)) for row in evaluation.segments]
            told += [(drift, seed, row, one) for row, one in pairs if one is not None]
            joined = [row.id for row, one in pairs if one is None]
            counts = {k: v for k, v in evaluation.verdict_counts.items() if v}
            print(
                f"drift {drift}, seed {seed}: {len(pairs)} segments, {counts}; "
                f"false-cause rate {evaluation.diagnosis.false_cause_rate:.2f} of "
                f"{evaluation.diagnosis.n_calm_windows}; joined: {joined or 'none'}"
            )
    for drift in ("none", "mild"):
        print(f"\nWaterworks, drift {drift}")
        waterworks_figures([t for t in told if t[0] == drift])
    print("\nWaterworks, both")
    waterworks_figures(told, in_full=False)
    clear = [t for t in told if is_clear(t[3])]
    for verdict in sorted({row.verdict for _, _, row, _ in clear}):
        shares = [outside[d, s, r.id] for d, s, r, _ in clear if r.verdict == verdict]
        inside = sum(v < 0.30 for v in shares)
        print(
            f"  clear effect, {verdict}: never 30% of the rows of a moved tag outside "
            f"what train usually reads: {share(inside, len(shares))}"
        )
    print("\nRows after each attack left out (guard), both drifts")
    for guard, chosen in {0: told, **after}.items():
        print(f"guard {guard} rows of {EVERY} s")
        waterworks_figures(chosen, in_full=False)


def usual_range(train: Recording) -> tuple[Values, Values]:
    low, high = np.quantile(train.values, [0.005, 0.995], axis=0)
    return low, high


def share_outside(
    test: Recording, truth: AttackTruth, usual: tuple[Values, Values]
) -> float:
    """Return the largest share of an attack that a clearly moved tag is unusual."""
    rows = test.values[truth.start : truth.stop]
    is_outside = ((rows < usual[0]) | (rows > usual[1])).mean(axis=0)
    moved = [abs(truth.mean_effect[name]) >= CLEAR for name in test.channels]
    return float(is_outside[moved].max()) if any(moved) else 0.0


def is_clear(truth: AttackTruth) -> bool:
    return max(abs(v) for v in truth.mean_effect.values()) >= CLEAR


def waterworks_figures(told: list, *, in_full: bool = True) -> None:
    still = [t for t in told if not t[3].moves]
    clear = [t for t in told if is_clear(t[3])]
    between = [t for t in told if t[3].moves and not is_clear(t[3])]
    for name, chosen in (("no", still), ("a small", between), ("a clear", clear)):
        counts = Counter(row.verdict for _, _, row, _ in chosen)
        print(f"  attacks with {name} effect: {len(chosen)}; {dict(counts)}")
    blamed = [t for t in still if t[2].verdict in CAUSES]
    seen = [t for t in still if t[2].verdict == "detected"]
    print(f"  without effect, given a cause: {share(len(blamed), len(still))}")
    print(f"  without effect, called detected: {share(len(seen), len(still))}")
    for drift, seed, row, one in blamed + seen if in_full else ():
        print(
            f"    {drift} {seed} attack {row.id} ({', '.join(one.targets)}, "
            f"{row.length} rows): {row.verdict}: {row.sentence}"
        )
    unseen = [t for t in clear if t[2].verdict == "not-in-telemetry"]
    print(f"  clear effect, called not-in-telemetry: {share(len(unseen), len(clear))}")
    for drift, seed, row, one in unseen if in_full else ():
        tag = max(one.mean_effect, key=lambda k: abs(one.mean_effect[k]))
        moved = row.ladder["telemetry"]
        print(
            f"    {drift} {seed} attack {row.id} ({', '.join(one.targets)}, "
            f"{row.length} rows): most in {tag}, {one.mean_effect[tag]:.1f} units; "
            f"telemetry coverage {moved.coverage:.2f} of {moved.by}, calm "
            f"{moved.calm:.2f}, limit {moved.limit:.2f}"
        )
    diluted = [t for t in told if t[2].verdict == "diluted"]
    named = [t for t in diluted if t[2].refocus_channels]
    on_target = [t for t in named if set(t[2].refocus_channels) & set(t[3].targets)]
    on_moved = [t for t in named if set(t[2].refocus_channels) & set(t[3].moved_tags)]
    alone = [t for t in named if len(t[2].refocus_channels) == 1]
    alone_target = [t for t in alone if set(t[2].refocus_channels) & set(t[3].targets)]
    alone_moved = [
        t for t in alone if set(t[2].refocus_channels) & set(t[3].moved_tags)
    ]
    print(f"  diluted: {len(diluted)}, of which with channels named: {len(named)}")
    print(f"    an attacked tag among them: {share(len(on_target), len(named))}")
    print(f"    a moved tag among them: {share(len(on_moved), len(named))}")
    print(
        f"    where one channel is named: it was attacked "
        f"{share(len(alone_target), len(alone))}, it moved "
        f"{share(len(alone_moved), len(alone))}"
    )
    for drift, seed, row, one in diluted if in_full else ():
        print(
            f"    {drift} {seed} attack {row.id} on {', '.join(one.targets)}: "
            f"{row.ladder['refocus'].by[0]} {row.refocus_channels}"
        )


def share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({part / whole:.1%})" if whole else "0 of 0"


# --- 2. BATADAL ---------------------------------------------------------------


def batadal_streams() -> list[ResidualStream]:
    if not BATADAL.is_dir():
        print(f"BATADAL is not there ({BATADAL}): left out.")
        return []
    testbed = open_testbed("batadal", BATADAL, cache=False)
    train, test = testbed.train, testbed.test
    made = {
        "VAR(1)": (*one_step_residuals(train, test), test.channels),
        "PCA": (*pca_residuals(train, test), test.channels),
    }
    if (GOLDEN / "geco_batadal.npz").is_file():
        made["GeCo"] = geco_residuals(train, test)
    else:
        print(f"GeCo's golden residuals are not there ({GOLDEN}): left out.")
    return [
        stream_of(train, test, (a, b), channels, name=name)
        for name, (a, b, channels) in made.items()
    ]


def batadal() -> None:
    evaluations = {s.name: evaluate(s, intervals=False) for s in batadal_streams()}
    if not evaluations:
        return
    for name, e in evaluations.items():
        counts = {k: v for k, v in e.verdict_counts.items() if v}
        print(
            f"{name}: {counts}; false-cause rate "
            f"{e.diagnosis.false_cause_rate:.2f} of {e.diagnosis.n_calm_windows}"
        )
        print(f"  {e.diagnosis.advice}")
    print("| attack | targets | " + " | ".join(evaluations) + " |")
    print("|---|---|" + "---|" * len(evaluations))
    for rows in zip(*(e.segments for e in evaluations.values()), strict=True):
        cells = []
        for row in rows:
            by = row.ladder["refocus"].by[0] if row.ladder else ""
            named = ", ".join(row.refocus_channels) or by
            cells.append(f"{row.verdict} ({named})")
        print(f"| {rows[0].id} | {', '.join(rows[0].targets)} | {' | '.join(cells)} |")
    for name, e in evaluations.items():
        print(f"\n{name}")
        for row in e.segments:
            rungs = ", ".join(
                f"{k} {v.coverage:.2f}/{v.calm:.2f}{'*' if v.visible else ''}"
                for k, v in (row.ladder or {}).items()
            )
            print(f"  {row.id} ({row.length} rows) {row.verdict}: {rungs}")
            print(f"     telemetry: {row.ladder['telemetry'].by}; {row.sentence}")


# --- 3. Sensitivity -----------------------------------------------------------


@contextmanager
def setting(name: str, value: float) -> Iterator[None]:
    """Change a constant in every module that holds it, and put it back."""
    modules = [importlib.import_module(f"sightline.judgement.{m}") for m in MODULES]
    holders = [(m, getattr(m, name)) for m in modules if hasattr(m, name)]
    for module, _ in holders:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, before in holders:
            setattr(module, name, before)


def verdicts(evaluation: Evaluation) -> list[str]:
    return [str(row.verdict) for row in evaluation.segments]


def one_stream(
    job: int | ResidualStream,
) -> tuple[str, list[str], dict[str, list[str]]]:
    """Return what was intended, and the verdicts of one stream under each change."""
    if isinstance(job, ResidualStream):
        stream, kind = job, "BATADAL"
        intended = [""] * len(stream.attack_segments())
    else:
        known = make_known_stream(job)
        stream, kind = known.stream, "known"
        planned = {s.start: s.intended for s in known.segments}
        intended = [planned.get(a.start, "") for a in stream.attack_segments()]
    found = {"as it is": verdicts(evaluate(stream, intervals=False))}
    for name, values in SETTINGS.items():
        for value in values:
            with setting(name, value):
                found[f"{name} {value:g}"] = verdicts(evaluate(stream, intervals=False))
    for word in ESTIMATORS:
        try:
            found[word] = verdicts(evaluate(stream, intervals=False, estimator=word))
        except StreamError as error:  # a reference that cannot be fitted
            print(f"{stream.name}, {word}: {error}")
    if verdicts(evaluate(stream, intervals=False)) != found["as it is"]:
        raise ValueError("a changed setting was not put back")
    return kind, intended, found


def sensitivity() -> None:
    jobs = [*batadal_streams(), *KNOWN_SEEDS]
    told = []
    for job in jobs:
        told.append(one_stream(job))
        print(f"  {len(told)} of {len(jobs)} streams", file=sys.stderr)
    same = {"none": ("weak-evidence",)}
    print("| change | known streams | BATADAL | right (known) | most common |")
    print("|---|--:|--:|--:|---|")
    for change in told[-1][2]:
        moves, cells = Counter(), []
        for kind in ("known", "BATADAL"):
            pairs = [
                pair
                for k, _, found in told
                if k == kind and change in found
                for pair in zip(found["as it is"], found[change], strict=True)
            ]
            cells.append(share(sum(a != b for a, b in pairs), len(pairs)))
            moves.update(f"{a} to {b}" for a, b in pairs if a != b)
        right = [
            v in same.get(i, (i,))
            for k, intended, found in told
            if k == "known" and change in found
            for i, v in zip(intended, found[change], strict=True)
            if i and v != "undecided"
        ]
        often = ", ".join(f"{m} {n}" for m, n in moves.most_common(3))
        print(
            f"| {change} | {cells[0]} | {cells[1]} | {np.mean(right):.2f} | {often} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    studies = {"waterworks": waterworks, "batadal": batadal, "sensitivity": sensitivity}
    for name in studies:
        parser.add_argument(f"--{name}", action="store_true")
    args = parser.parse_args()
    chosen = [name for name in studies if getattr(args, name)] or list(studies)
    for name in chosen:
        print(f"\n=== {name} ===")
        studies[name]()


if __name__ == "__main__":
    main()
