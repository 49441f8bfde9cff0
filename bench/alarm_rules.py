"""Do alarm rules keep their promise, and what do they raise?

    python bench/alarm_rules.py waterworks --seeds 201-220
    python bench/alarm_rules.py strong --seeds 201-204
    python bench/alarm_rules.py synthetic --seeds 500-539
    python bench/alarm_rules.py batadal --folder DATA
    python bench/alarm_rules.py skab --folder DATA
    python bench/alarm_rules.py budgets --seeds 501-502 --folder STREAMS
    python bench/alarm_rules.py plants --seeds 321-324 --folder STREAMS
    python bench/alarm_rules.py choice --folder STREAMS --budget 6/day
    python bench/alarm_rules.py following --folder STREAMS --budget 6/day
    python bench/alarm_rules.py weeks --seeds 601-603
    python bench/alarm_rules.py promises --seeds 701-703

``STREAMS`` is the folder ``streams`` that a study writes, as of ``sightline start
EXPORT --split 2016-08-17`` and ``sightline run PLANT --detectors var,pca,geco,mean``.

Each stream is commissioned on the calm rows of its first 35%, and its rules are judged
on later rows. Printed for each budget: alarms realised over alarms allowed, the share
of streams and rules within twice the budget, and how often the 90% interval of the
promise holds; then the skill of each rule. Waterworks: 2 + 4 days at 10 s, VAR and PCA.

``budgets``: 18 budgets, each a twentieth larger, for synthetic streams and for every
``*.npz`` of a folder, as they are and with seven glitches among the commissioning rows:
alarms realised over alarms allowed, and by how much limits and later alarms change from
one budget to the next.

``plants``: writes streams of VAR and PCA for each seed: 2 + 4 days of waterworks
without drift, with mild and with strong fouling, 2 + 5 days of the Tennessee Eastman
process, 40 + 40 days of a water network.

``choice``: for every ``*.npz`` of a folder (PLANT-DETECTOR.npz) the rule that is
chosen, and incidents raised beyond chance on later rows, at no more than twice the
alarms of the budget and 5% of time (then: twice its share), by it, by `energy`, by
`all` and by the best in hindsight. Later rows may rule a rule out, so it is judged
again on their second half, where only the first half may.

``following``: for every ``*.npz`` of a folder (``weeks``: for synthetic streams of 70
days, calm, with drift, regimes or steps) all rules with fixed means, with means that
follow and nobody answers, and with answers: what jumps is called normal, unless
incidents fill half of its two nights (a median moves with half of its rows). Alarms a
day, time in alarm, promises kept by count and by time, incidents raised, questions a
week; then how much of its first and of its last day a bias of five spreads of train,
for ten days, is in alarm.

``promises``: coverage and power of weekly promises by simulation: counts at 6 a day in
bursts of two, whose rate is steady, differs from week to week, drifts or rises once.

Seeds used for tuning: waterworks 101 to 104, synthetic 400 to 439. All others are
unseen.
"""

import argparse
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress, pairwise, product
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from sightline import (
    ResidualStream,
    StreamError,
    open_testbed,
    read_stream,
    write_stream,
)
from sightline import make_detector as new_detector
from sightline.audit.data import audit_of
from sightline.data.arrays import Bools, Floats
from sightline.export import export_stream
from sightline.rules.choose import (
    USUAL,
    after_later_rows,
    choose_rule,
    is_far_over,
)
from sightline.rules.commission import (
    Basis,
    Commissioning,
    CommissionSettings,
    commission_scored,
)
from sightline.rules.judging import (
    ChoiceOutcome,
    JudgedRows,
    RuleChoice,
    RuleOutcome,
    judge_in_use,
    judge_rule,
)
from sightline.rules.limits import Budget
from sightline.rules.normal import raw_rows
from sightline.rules.promise import Forecast, Kept
from sightline.rules.rule import Rule, RuleRun
from sightline.rules.scoring import score
from sightline.testbeds.waterworks import Scenario

DETECTORS = ("var", "pca")
PER_DAY = (2.0, 6.0, 24.0)


@dataclass(frozen=True)
class Outcome:
    """One rule, or the p99 rule, on one stream at one budget."""

    stream: str
    kind: str
    per_day: float
    days: float
    uses_calibration: bool
    row: RuleOutcome

    @property
    def ratio(self) -> float:
        return (self.row.load.alarms_per_day or 0.0) / self.per_day


# --- Streams --------------------------------------------------------------------------


def waterworks(
    seeds: Sequence[int], folder: Path, drifts: Sequence[str] = ("none", "mild")
) -> Iterator[tuple[str, str, ResidualStream]]:
    """Yield kind, name and stream; made where the folder does not hold it yet."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        for attacked in ("att", "calm") if "strong" not in drifts else ("att",):
            for drift in drifts:
                kind = f"{drift}-{attacked}"
                paths = [folder / f"{d}-{seed}-{kind}.npz" for d in DETECTORS]
                if not all(path.exists() for path in paths):
                    _simulate(seed, drift, attacked == "att", paths)
                for path in paths:
                    yield kind, path.stem, read_stream(path)


def _simulate(seed: int, drift: str, attacked: bool, paths: Sequence[Path]) -> None:
    options = {} if attacked else {"scenario": Scenario()}
    days = {"days_train": 2, "days_test": 4}
    drifts = {"drift": f"fouling={drift}"}
    _write_streams("waterworks", paths, seed=seed, **days, **drifts, **options)


def _write_streams(plant: str, paths: Sequence[Path], **options: object) -> None:
    """Write a stream of each of `DETECTORS`."""
    testbed = open_testbed(plant, **options)
    audit = audit_of(testbed)
    for name, path in zip(DETECTORS, paths, strict=True):
        detector = new_detector(name, testbed=plant).fit(testbed.train)
        stream = export_stream(
            detector, testbed.train, testbed.test, testbed=plant, audit=audit
        )
        write_stream(stream, path)


def plants(seeds: Sequence[int], folder: Path) -> None:
    """Write the streams of `choices`."""
    folder.mkdir(parents=True, exist_ok=True)
    made = {
        f"{drift}-waterworks": ("waterworks", 2, 4, {"drift": f"fouling={drift}"})
        for drift in ("none", "mild", "strong")
    }
    made |= {"tep": ("tep", 2, 5, {}), "network": ("network", 40, 40, {})}
    for seed, (name, (plant, before, after, options)) in product(seeds, made.items()):
        paths = [folder / f"{name}{seed}-{each}.npz" for each in DETECTORS]
        if not all(path.exists() for path in paths):
            days = {"days_train": before, "days_test": after}
            _write_streams(plant, paths, seed=seed, **days, **options)


def synthetic(seeds: Sequence[int]) -> Iterator[tuple[str, str, ResidualStream]]:
    """Yield streams of 12 channels with memory, heavy tails and regimes, no attack."""
    for seed in seeds:
        rng = np.random.default_rng(seed)
        p, n = 12, (17_280, 38_880)
        memory = rng.uniform(0, 0.95, p)
        mixing = np.eye(p) + 0.3 * rng.normal(size=(p, p))
        rows = []
        for length in n:
            noise = rng.standard_t(4, size=(length, p))
            # Regimes of some hours, in which some channels are louder.
            switches = rng.random(length) < 1 / 1500
            regime = np.cumsum(switches) % 3
            noise *= np.array([1.0, 1.5, 0.7])[regime][:, None] ** rng.integers(0, 2, p)
            for t in range(1, length):
                noise[t] += memory * noise[t - 1]
            rows.append(noise @ mixing)
        names = [f"C{j}" for j in range(p)]
        groups = {f"P{k}": names[k::3] for k in range(3)}
        yield (
            "synthetic",
            f"synthetic-{seed}",
            ResidualStream(*rows, channels=names, step_s=10.0, meta={"groups": groups}),
        )


# --- Measuring ------------------------------------------------------------------------


def outcomes(
    kind: str, name: str, stream: ResidualStream, budgets: Sequence[float]
) -> Iterator[Outcome]:
    """Yield every rule at every budget; a budget that is refused is left out."""
    scored = score(stream)
    for per_day in budgets:
        settings = CommissionSettings(budget=Budget(per_day=per_day))
        try:
            made = commission_scored(scored, settings)
        except StreamError:
            continue
        for row in (*made.table, *made.facts.present):
            yield Outcome(
                stream=name,
                kind=kind,
                per_day=per_day,
                days=made.facts.days,
                uses_calibration=made.facts.uses_calibration,
                row=row,
            )


def rules_only(found: Sequence[Outcome]) -> list[Outcome]:
    return [outcome for outcome in found if outcome.row.kept is not None]


def spread(values: Sequence[float]) -> str:
    low, middle, high = np.quantile(values, [0.1, 0.5, 0.9])
    return f"{middle:.2f} [{low:.2f}, {high:.2f}]"


def with_error(values: Sequence[float]) -> str:
    if len(values) < 2:
        return f"{np.mean(values):.3f}"
    return f"{np.mean(values):.3f} +- {np.std(values, ddof=1) / len(values) ** 0.5:.3f}"


def report(found: Sequence[Outcome]) -> None:
    groups: dict[tuple[str, float], list[Outcome]] = defaultdict(list)
    for outcome in found:
        groups[outcome.kind, outcome.per_day].append(outcome)
    print(
        f"{'later rows':14} a day streams  T    realised/budget     within 2b  holds "
        "broken unused | all: realised, within 2b, share of time mean (median), "
        "lingering, out of service"
    )
    for (kind, per_day), group in groups.items():
        rules = rules_only(group)
        kept = [outcome.row.kept for outcome in rules]
        joined = [outcome for outcome in rules if outcome.row.name == "all"]
        loads = [outcome.row.load for outcome in joined]
        shares = [load.share_of_time for load in loads]
        print(
            f"{kind:14} {per_day:5g} {len(joined):7d} "
            f"{np.mean([o.days for o in joined]):.2f} "
            f"{spread([o.ratio for o in rules]):20} "
            f"{np.mean([o.ratio <= 2 for o in rules]):9.2f} "
            f"{np.mean([k is Kept.KEPT for k in kept]):6.2f} "
            f"{np.mean([k is Kept.BROKEN for k in kept]):6.2f} "
            f"{np.mean([k is Kept.UNUSED for k in kept]):6.2f} | "
            f"{spread([o.ratio for o in joined])}, "
            f"{np.mean([o.ratio <= 2 for o in joined]):.2f}, "
            f"{np.mean(shares):.2%} ({np.median(shares):.2%}), "
            f"{np.mean([load.lingering_share for load in loads]):.2%}, "
            f"{np.mean([load.shelved_share for load in loads]):.2%}; calibration "
            f"{np.mean([o.uses_calibration for o in joined]):.2f}"
        )


def report_skill(found: Sequence[Outcome], per_day: float) -> None:
    """Print the skill of each rule, and what it has beyond p99 and energy."""
    skills: dict[str, dict[str, Outcome]] = defaultdict(dict)
    for outcome in found:
        if outcome.per_day == per_day and outcome.row.attacks.skill is not None:
            skills[outcome.row.name][outcome.stream] = outcome
    if not skills:
        return
    print(
        f"skill at {per_day:g} a day: mean and standard error; raised, chance, rings, "
        "median delay; alarms a day"
    )
    for name, by_stream in skills.items():
        rows = [outcome.row for outcome in by_stream.values()]
        delays = [
            row.attacks.delay_s for row in rows if row.attacks.delay_s is not None
        ]
        print(
            f"  {name:8} {with_error([row.attacks.skill or 0.0 for row in rows])}  "
            f"{np.mean([row.attacks.raised for row in rows]):5.1f} "
            f"{np.mean([row.attacks.raised_by_chance for row in rows]):5.1f} "
            f"{np.mean([row.attacks.rings for row in rows]):5.1f} "
            f"{np.median(delays) if delays else np.nan:6.0f} s "
            f"{np.mean([row.load.alarms_per_day for row in rows]):7.1f}"
        )
    for base in ("p99", "energy", "rows"):
        gains = [
            (one.row.attacks.skill or 0.0)
            - (skills[base][stream].row.attacks.skill or 0.0)
            for stream, one in skills["all"].items()
        ]
        print(f"  all - {base}: {with_error(gains)}")


# --- Public records -------------------------------------------------------------------


def batadal(folder: Path) -> None:
    """Print the family at 1 a week, for VAR and PCA."""
    testbed = open_testbed("batadal", folder, cache=False)
    for name in DETECTORS:
        detector = new_detector(name, testbed="batadal")
        detector.fit(testbed.train)
        stream = export_stream(detector, testbed.train, testbed.test, testbed="batadal")
        found = list(outcomes("batadal", name, stream, [1 / 7]))
        report(found)
        report_skill(found, 1 / 7)


def skab(folder: Path) -> None:
    """Print how the budget is refused: SKAB has 72 calm minutes before the split."""
    testbed = open_testbed("skab", folder, cache=False)
    for name in DETECTORS:
        detector = new_detector(name, testbed="skab")
        detector.fit(testbed.train)
        stream = export_stream(detector, testbed.train, testbed.test, testbed="skab")
        scored = score(stream)
        for per_day in (6.0, 24.0, 60.0, 120.0):
            settings = CommissionSettings(budget=Budget(per_day=per_day))
            try:
                made = commission_scored(scored, settings)
                print(
                    f"{name} {per_day:g}: {made.facts.row('all').load.alarms_per_day}"
                )
            except StreamError as problem:
                print(f"{name} {per_day:g}: {problem}")


# --- A budget that grows little by little ---------------------------------------------

FAMILY = ("energy", "z", "x", "z~", "rows", "all")
GROWTH, N_BUDGETS, N_GLITCHES = 1.05, 18, 7


def with_glitches(stream: ResidualStream) -> ResidualStream:
    """Return a stream with glitches of 50 to 10,000 spreads among its first rows."""
    rng = np.random.default_rng(0)
    rows = np.concatenate([np.asarray(c, float) for c in stream.test.chunks()])
    train = np.concatenate([np.asarray(c, float) for c in stream.train.chunks()])
    spread = train.std(axis=0)
    for row in rng.choice(int(0.34 * len(rows)), N_GLITCHES, replace=False):
        j = rng.choice(np.flatnonzero(spread > 0))
        rows[row : row + 2, j] += spread[j] * 10 ** rng.uniform(1.7, 4)
    return stream.replace(test=rows)


def budgets(name: str, stream: ResidualStream) -> None:
    """Print what changes from one budget to the next, for six rules."""
    for kind, each in (("", stream), (" with glitches", with_glitches(stream))):
        scored, rows = score(each), defaultdict(list)
        days = stream.test.n_rows * (stream.step_s or 1.0) / 86_400
        for k in range(N_BUDGETS):
            budget = Budget(per_day=10 / (0.35 * days) * GROWTH ** (k - 5))
            settings = CommissionSettings(budget=budget, family=FAMILY, choose="all")
            try:
                made = commission_scored(scored, settings)
            except StreamError:
                continue
            for row in made.table:
                count = row.load.alarms_per_day or 0.0
                found = count / budget.per_day, row.limit, row.load.alarms + 1
                rows[row.name].append(found)
        for rule, found in rows.items():
            ratio, limits, counts = np.array(found).T
            jumps = [np.exp(np.abs(np.diff(np.log(v))).max()) for v in (limits, counts)]
            print(
                f"{name}{kind} {rule:7} realised/budget {np.median(ratio):.2f} "
                f"[{ratio.min():.2f}, {ratio.max():.2f}], largest change of the limit "
                f"{jumps[0]:.2f}, of later alarms {jumps[1]:.2f}"
            )


# --- The choice -----------------------------------------------------------------------


def worth(row: RuleOutcome | None, budget: Budget, most_share: float) -> float:
    """Return incidents raised beyond chance; 0 where a rule costs too much."""
    if row is None or row.load.share_of_time > most_share:
        return 0.0
    if (row.load.alarms_per_day or 0.0) > 2 * budget.per_day:
        return 0.0
    return max(row.attacks.raised - row.attacks.raised_by_chance, 0.0)


def later_part(judged: JudgedRows, first: int, stop: int) -> JudgedRows:
    """Return the judged rows of which only [first, stop) count."""
    place = np.arange(len(judged.is_attack_free))
    inside = [first <= attack.start < stop for attack in judged.attacks]
    return replace(
        judged,
        is_attack_free=judged.is_attack_free & (first <= place) & (place < stop),
        attacks=[*compress(judged.attacks, inside)],
        early=None if judged.early is None else judged.early[np.array(inside, bool)],
    )


def decided(
    path: Path, budget: Budget
) -> tuple[Commissioning, RuleChoice, dict[str, RuleOutcome]]:
    """Return what is made, the choice where half of the later rows judge it, the rest.

    The second half has chosen nothing, and ruled nothing out.
    """
    scored = score(read_stream(path))
    made = commission_scored(scored, CommissionSettings(budget=budget))
    judged, choice = Basis.of(scored, made.facts.split).judged, made.facts.choice
    every = [np.asarray(c, float) for c in raw_rows(scored.stream.test).chunks()]
    rows = np.concatenate(every)[judged.first :]
    half, halves = len(rows) // 2, []
    runs = {
        name: one.rule.run(rows, breaks=judged.breaks)
        for name, one in made.rules.items()
    }
    for ends in ((0, half), (half, len(rows))):
        part = later_part(judged, *ends)
        found = {}
        for name, run in runs.items():
            outcome = judge_in_use(run, part)
            row = made.facts.row(name)
            found[name] = replace(row, load=outcome.load, attacks=outcome.attacks)
        halves.append(found)
    if choice.outcome.has_rule or choice.outcome is ChoiceOutcome.NO_RULE:
        choice = choose_rule(choice.lines, choice.episodes, budget, stale=1.0)
        choice = after_later_rows(choice, [*halves[0].values()], budget)
    return made, choice, halves[1]


def choices(folder: Path, budget: Budget) -> None:
    """Print the chosen rule and its worth beside others, for each stream and all.

    First by all later rows, which may have ruled it out; then by their second half,
    where the first half may have. With the difference to always `energy`: its 90%
    interval from plants drawn again.
    """
    found: dict[str, list[Floats]] = defaultdict(list)
    costs: list[list[bool]] = []
    for path in sorted(folder.glob("*.npz")):
        try:
            made, early, last = decided(path, budget)
        except StreamError as problem:
            print(f"{path.stem}: {problem}")
            continue
        whole, facts = {row.name: row for row in made.table}, made.facts
        figures, names = [], []
        for choice, rows in ((facts.choice, whole), (early, last)):
            name = choice.rule if choice.outcome.has_rule else None
            names.append(name or "none")
            for most_share in (0.05, 2 * budget.share):
                of = [name and rows[name], rows[USUAL], rows.get("all"), *rows.values()]
                every = [worth(row or None, budget, most_share) for row in of]
                figures += [*every[:3], max(every[3:])]
            costs.append(
                [row is not None and is_far_over(row.load, budget) for row in of[:3]]
            )
        found[path.stem.rpartition("-")[0]].append(np.array(figures))
        print(f"{path.stem}: {facts.choice.outcome}; {facts.choice.sentence}")
        print(f"  {names[0]}, by half {names[1]}:", *np.round(figures, 1), flush=True)
    by_kind: dict[str, list[Floats]] = defaultdict(list)
    for plant, rows in found.items():
        by_kind[plant.rstrip("0123456789")] += rows
    for kind, rows in by_kind.items():
        print(f"{kind}, {len(rows)} streams:", *np.round(np.sum(rows, axis=0), 1))
    if not found:
        return
    plants = np.array([np.sum(rows, axis=0) for rows in found.values()])
    total = plants.sum(axis=0).reshape(4, 4)
    draws = np.random.default_rng(0).integers(0, len(plants), (2000, len(plants)))
    again = plants[draws].sum(axis=1).reshape(-1, 4, 4)
    low, high = np.quantile(again[:, :, 0] - again[:, :, 1], [0.05, 0.95], axis=0)
    over = np.array(costs).reshape(-1, 2, 3).mean(axis=0)
    print(
        f"{len(costs) // 2} streams of {len(plants)} plants: chosen, energy, all, best"
    )
    cases = [
        *product(("all later rows", "their second half"), (0.05, 2 * budget.share))
    ]
    for k, (rows, most_share) in enumerate(cases):
        print(
            f"  {rows}, at most {most_share:.0%} of time: {np.round(total[k], 1)}; "
            f"chosen - energy {total[k, 0] - total[k, 1]:.1f} "
            f"[{low[k]:.1f}, {high[k]:.1f}]; over twice the budget: {over[k // 2]}"
        )


# --- Means that follow, and promises --------------------------------------------------

DESIGNS = ("fixed", "unanswered", "answered")
KINDS_OF_WEEKS = ("calm", "drift", "regimes", "steps")


def weeks(seeds: Sequence[int]) -> Iterator[tuple[str, ResidualStream]]:
    """Yield kind and stream: 7 days of train, 70 of test, a row a minute, 8 channels.

    ``drift``: means walk by .06 spreads a day. ``regimes``: noise differs from day to
    day. ``steps``: a channel is 2.5 spreads off from half of the test on. 30 incidents.
    """
    p, day = 8, 1440
    for seed, kind in product(seeds, KINDS_OF_WEEKS):
        rng = np.random.default_rng(seed)
        memory, mixing = rng.uniform(0, 0.9, p), np.eye(p)
        mixing += 0.3 * rng.normal(size=(p, p))
        rows = []
        for n_days in (7, 70):
            noise = rng.standard_t(4, size=(n_days * day, p))
            if kind == "regimes":
                noise *= np.repeat(np.exp(0.2 * rng.normal(size=n_days)), day)[:, None]
            for t in range(1, len(noise)):
                noise[t] += memory * noise[t - 1]
            rows.append(noise @ mixing)
        train, test = rows
        spread, n = train.std(axis=0), len(test)
        if kind == "drift":
            walk = np.cumsum(rng.normal(0, 0.06, (70, p)), axis=0) * spread
            test += np.repeat(walk, day, axis=0)
        if kind == "steps":
            test[n // 2 :, 1] += 2.5 * spread[1]
        labels = np.zeros(n, np.int8)
        for at in rng.choice(np.arange(int(0.36 * n), n - 200, 400), 30, False):
            rows_of, j = slice(at, at + int(rng.integers(15, 60))), rng.integers(p)
            test[rows_of, j] += rng.choice([-1, 1]) * rng.uniform(3, 8) * spread[j]
            labels[rows_of] = 1
        yield kind, ResidualStream(train, test, labels, step_s=60.0)


def run_with_answers(rule: Rule, rows: Floats, judged: JudgedRows, marks: Bools):
    """Return what a rule says, and its questions, where people answer the same night.

    It is normal, unless incidents (`marks`) fill half of its two nights.
    """
    state, pieces, n_asked = rule.start(), [], 0
    edges = np.union1d(np.arange(0, len(rows), rule.night), judged.breaks).tolist()
    begins = {*judged.breaks.tolist()}
    for first, stop in pairwise([*edges, len(rows)]):
        piece = state.advance(rows[first:stop], after_break=first in begins)
        pieces.append(piece)
        n_asked += len({q.row for q in piece.questions if q.off})
        if 2 * marks[max(stop - 2 * rule.night, 0) : stop].mean() < 1:
            for channel in state.nights.asked():
                state.nights.accept(channel)
    return RuleRun.joined(rule, pieces, judged.breaks), n_asked


def designs_of(
    stream: ResidualStream, budget: Budget
) -> Iterator[tuple[str, int, RuleOutcome]]:
    """Yield design, questions and outcome of every rule."""
    scored = score(stream)
    made = commission_scored(scored, CommissionSettings(budget=budget))
    judged = Basis.of(scored, made.facts.split).judged
    every = [np.asarray(c, float) for c in raw_rows(scored.stream.test).chunks()]
    rows = np.concatenate(every)[judged.first :]
    marks = scored.test.labels[judged.first :] == 1
    for one in made.rules.values():
        for design in DESIGNS:
            if design == "answered":
                run, asked = run_with_answers(one.rule, rows, judged, marks)
            else:
                rule = one.rule if design != "fixed" else one.rule.fixed
                run = rule.run(rows, breaks=judged.breaks)
                asked = len({q.row for q in run.questions if q.off})
            yield design, asked, judge_rule(run, judged, one.promise)


def report_designs(name: str, found: Sequence[tuple[str, int, RuleOutcome]]) -> None:
    """Print a line for each design, over all rules and streams."""
    for design in DESIGNS:
        own = [(asked, row) for kind, asked, row in found if kind == design]
        rows = [row for _, row in own]
        periods = [p for row in rows for p in row.periods if p.is_judged]
        budgets = [p for row in rows for p in row.periods]
        days = sum(row.load.days or 0.0 for row in rows)
        print(
            f"{name:12} {design:10} {len(rows):3d} rules, alarms a day "
            f"{spread([row.load.alarms_per_day or 0.0 for row in rows]):20}, time "
            f"{np.mean([row.load.share_of_time for row in rows]):6.1%}, promises kept "
            f"{np.mean([p.kept is Kept.KEPT for p in periods]):.2f} of {len(periods)} "
            f"(count {np.mean([p.low <= p.alarms <= p.high for p in periods]):.2f}, "
            f"time {np.mean([p.share <= p.most_share for p in periods]):.2f}), upper "
            f"end {np.median([p.high / p.days for p in budgets]):.1f} a day, raised "
            f"{sum(row.attacks.raised for row in rows)} "
            f"({sum(row.attacks.raised_by_chance for row in rows):.1f}) of "
            f"{sum(row.attacks.n_attacks for row in rows)}, questions a week "
            f"{7 * sum(asked for asked, _ in own) / days:.2f}",
            flush=True,
        )


def report_bias(name: str, stream: ResidualStream, budget: Budget) -> None:
    """Print how much of the first and last day of a bias is in alarm, for `all`.

    With means that follow, and with fixed ones.
    """
    scored = score(stream)
    made = commission_scored(scored, CommissionSettings(budget=budget))
    judged, rule = Basis.of(scored, made.facts.split).judged, made.rules["all"].rule
    every = [np.asarray(c, float) for c in raw_rows(scored.stream.test).chunks()]
    rows = np.concatenate(every)[judged.first :]
    wide = made.source.normal.spread
    day = round(86_400 / judged.step_s)
    first, long = len(rows) // 5, min(10 * day, len(rows) // 2)
    day = min(day, long // 4)
    for j in sorted({0, stream.p // 2, stream.p - 1}):
        biased = rows.copy()
        biased[first : first + long, j] += 5 * wide[j]
        shares = []
        for one in (rule, rule.fixed):
            run = one.run(biased, breaks=judged.breaks)
            has_alarm = run.episodes.rows | run.standing
            for at in (first, first + long - day):
                shares.append(f"{has_alarm[at : at + day].mean():.2f}")
        print(f"{name:12} bias of {stream.channels[j]}: first and last day", *shares)


# --- Coverage and power of a promise --------------------------------------------------

N_PLANTS, N_WEEKS, LOOKED_AT = 100, 40, (0, 4, 12, 39)


def weekly_rates(kind: str, rng: np.random.Generator) -> Floats:
    """Return alarms a day in each week."""
    rate = np.full(N_WEEKS, 6.0)
    if kind == "regimes":
        rate *= np.exp(0.5 * rng.normal(size=N_WEEKS))
    elif kind == "drift":
        rate *= np.exp(np.cumsum(0.15 * rng.normal(size=N_WEEKS)))
    elif kind == "step":
        rate[rng.integers(N_WEEKS) :] *= 2.5
    return rate


def promises(seeds: Sequence[int]) -> None:
    """Print how many promises are kept, and how soon more alarms are noticed."""
    for kind in ("steady", "regimes", "drift", "step"):
        kept, highs = [], []
        noticed: dict[tuple[int, float], list[bool]] = defaultdict(list)
        for each in product(seeds, range(N_PLANTS)):
            rng = np.random.default_rng(each)
            forecast = Forecast(per_day=6.0, spread=2.0)
            for week, rate in enumerate(weekly_rates(kind, rng)):
                low, high = forecast.interval(7.0)
                for times in (2.0, 3.0) if week in LOOKED_AT else ():
                    count = 2 * rng.poisson(3.5 * times * 6.0)
                    noticed[week, times].append(count > high)
                count = 2 * rng.poisson(3.5 * rate)
                kept.append(low <= count <= high)
                highs.append(high / 42)
                forecast = forecast.after(float(count), 7.0)
        power = {key: round(float(np.mean(found)), 2) for key, found in noticed.items()}
        print(
            f"{kind:8} kept {np.mean(kept):.3f} of {len(kept)}, upper end "
            f"{np.median(highs):.1f} budgets; 2 and 3 budgets noticed within the week "
            f"after {LOOKED_AT} weeks: {[power[w, 2.0] for w in LOOKED_AT]}, "
            f"{[power[w, 3.0] for w in LOOKED_AT]}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "what",
        choices=[
            *("waterworks", "strong", "synthetic", "batadal", "skab"),
            *("budgets", "choice", "following", "weeks", "plants", "promises"),
        ],
    )
    parser.add_argument("--seeds", default="201-204")
    parser.add_argument("--folder", type=Path, default=Path("alarm_rules_streams"))
    parser.add_argument("--budget", default="6/day,1%")
    given = parser.parse_args()
    if given.what == "choice":
        choices(given.folder, Budget.parse(given.budget))
        return
    first, _, last = given.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    if given.what == "plants":
        plants(seeds, given.folder)
        return
    if given.what == "promises":
        promises(seeds)
        return
    budget = Budget.parse(given.budget)
    if given.what == "following":
        for path in sorted(given.folder.glob("*.npz")):
            stream = read_stream(path)
            report_designs(path.stem, list(designs_of(stream, budget)))
            report_bias(path.stem, stream, budget)
        return
    if given.what == "weeks":
        by_kind: dict[str, list[tuple[str, int, RuleOutcome]]] = defaultdict(list)
        for kind, stream in weeks(seeds):
            by_kind[kind] += designs_of(stream, budget)
        for kind, found in by_kind.items():
            report_designs(kind, found)
        return
    if given.what == "budgets":
        for _, name, stream in synthetic(seeds):
            budgets(name, stream)
        for path in sorted(given.folder.glob("*.npz")):
            budgets(path.stem, read_stream(path))
        return
    public: dict[str, Callable[[Path], None]] = {"batadal": batadal, "skab": skab}
    if given.what in public:
        if not given.folder.is_dir():
            print(f"skipped: there is no folder {given.folder}")
            return
        public[given.what](given.folder)
        return
    streams = {
        "waterworks": lambda: waterworks(seeds, given.folder),
        "strong": lambda: waterworks(seeds, given.folder, ["strong"]),
        "synthetic": lambda: synthetic(seeds),
    }[given.what]()
    found = [each for one in streams for each in outcomes(*one, PER_DAY)]
    report(found)
    for kind in dict.fromkeys(outcome.kind for outcome in found):
        part = [outcome for outcome in found if outcome.kind == kind]
        if part[0].row.attacks.n_attacks:
            print(kind)
            report_skill(part, 6.0)
    print("all streams")
    report_skill(found, 6.0)


if __name__ == "__main__":
    main()
