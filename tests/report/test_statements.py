"""Pairs of statements of one result that could disagree, on pages and random records.

The figures are read from the record; no function that words a statement checks one.
"""

import gzip
import json
import re
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from contradictions import contradictions
from report.test_page import Parsed, without_plotly
from rich.console import Console
from typer.testing import CliRunner

from sightline import (
    Attack,
    ResidualStream,
    evaluate,
    export_stream,
    make_detector,
    open_testbed,
    read_evaluation,
    read_stream,
    write_results,
)
from sightline.cli.app import app
from sightline.cli.summary import summary
from sightline.evaluation.result import Evaluation
from sightline.report.entries import entries_of
from sightline.report.overview import (
    advised,
    cost_words,
    first_check,
)
from sightline.report.page import render
from sightline.rules.choose import advice, is_over
from sightline.rules.judging import ChoiceOutcome
from sightline.rules.promise import Kept
from sightline.show.evaluations import on_rows, rules_of
from sightline.show.rules import Rates, kept_words, promise_column, share_warning
from sightline.storage.results import Result
from sightline.text import share

DATA = Path(__file__).parents[3] / "shared" / "data"
N, SPANS = 6000, [(700, 790), (1500, 1620), (3000, 3060), (4100, 4300), (5200, 5290)]


def residuals(kind: str) -> ResidualStream:
    """Return residuals of a plant that is calm, changes regimes, or drifts."""
    rng = np.random.default_rng([7, len(kind)])
    p = 1 if kind == "score" else 5
    train, test = rng.normal(size=(4000, p)), rng.normal(size=(N, p))
    for k, (start, stop) in enumerate(SPANS):
        test[start:stop, 0] += (0.0, 5.0, 2.2, 1.0, 30.0)[k]
    if kind == "regimes":
        test[np.arange(N) // 400 % 3 == 1] *= 2.5
    if kind == "drift":
        test += np.linspace(0, 4, N)[:, None]
    if kind == "score":
        train, test = np.abs(train), np.abs(test)
    labels = np.zeros(N, np.int8)
    for start, stop in SPANS if kind != "unlabelled" else ():
        labels[start:stop] = 1
    return ResidualStream(
        train,
        test,
        labels,
        segments=[Attack(id=f"a{k}", start=a, stop=b) for k, (a, b) in enumerate(SPANS)]
        if kind != "unlabelled"
        else [],
        step_s=60.0,
        name=kind,
        detector="plain",
        testbed="works",
    )


def of_testbed(name: str, detector: str, **options: object) -> ResidualStream:
    opened = open_testbed(name, options.pop("root", None), **options)
    made = make_detector(detector, testbed=name).fit(opened.train)
    return export_stream(made, opened.train, opened.test, telemetry=True)


def of_works(folder: Path) -> ResidualStream:
    """Return residuals of five weeks of a real water works, judged in five parts."""
    gecco = DATA / "gecco"
    if not gecco.is_dir():
        pytest.skip("../shared/data/gecco is missing")
    rows = gzip.decompress((gecco / "export_2016.csv.gz").read_bytes())
    export = folder / "export.csv"
    export.write_bytes(b"".join(rows.splitlines(keepends=True)[:50_001]))
    plant, study, incidents = (
        folder / "plant",
        folder / "study",
        gecco / "vorfaelle.csv",
    )
    for words in (
        ("start", export, "--incidents", incidents, "--out", plant),
        ("run", plant, "--detectors", "pca", "--out", study),
    ):
        done = CliRunner().invoke(app, list(map(str, words)))
        assert done.exit_code == 0, done.output
    return read_stream(study / "streams" / "plant-pca-seed0.npz")


def stream_of(kind: str, folder: Path) -> ResidualStream:
    if kind == "waterworks":
        return of_testbed("waterworks", "pca", quick=True, seed=1)
    if kind == "gecco":
        return of_works(folder)
    if kind == "batadal":
        root = DATA / "batadal"
        if not root.is_dir():
            pytest.skip("../shared/data/batadal is missing")
        return of_testbed("batadal", "var", root=root, cache=False)
    return residuals(kind)


def text_of(evaluation: Evaluation) -> str:
    """Return what a terminal and a notebook show of a result, in one line."""
    console = Console(width=120, file=StringIO())
    console.print(summary([evaluation]))
    shown = [console.file.getvalue(), evaluation._repr_html_(), repr(evaluation)]
    return " ".join(" ".join(shown).split())


def words_of_attacks(evaluation: Evaluation, page: str = "") -> list[str]:
    """Return where the verdict, the sentence and the count of an attack disagree."""
    rule = evaluation.own_rule or evaluation.probe
    which = rule.attacks.which
    text, wrong = text_of(evaluation), []
    for one in evaluation.segments:
        if one.verdict is None:
            continue
        sentence, is_caught = one.sentence or "", one.id in which
        said = [f"{one.verdict} {sentence}", *(one.alternatives or {})]
        if not is_caught and any("detect" in words for words in said):
            wrong.append(f"{one.id} is detected, and not caught: {said}")
        if is_caught and ("already-in-alarm" in said[0] or "Missed" in sentence):
            wrong.append(f"{one.id} is caught, and missed: {said}")
        if one.verdict == "detected" and not (one.found and one.found.is_found):
            wrong.append(f"{one.id} is detected, and not singled out")
        reading = one.signature.reading if one.signature else ""
        if "detected" in str(reading):
            wrong.append(f"{one.id} has the reading {reading}")
        # A share of rows over the limit is no time in alarm.
        begins_before = one.coverage > 0 and not is_caught
        # (Published metrics speak of alarmed rows, and of what follows the first.)
        heading = re.search(r"first alarm(?!ed| on\b)", f"{text} {page}".lower())
        if begins_before and heading:
            wrong.append(f"a first alarm in {one.id}, which no alarm catches")
    n, n_caught = len(evaluation.segments), len(which)
    for count in re.findall(r"(\d+) of \d+ attacks? (?:detected|caught)", text):
        if n and int(count) != n_caught:
            wrong.append(f"{count} caught, and {n_caught} by the count")
    if "Why attacks were missed" in text and n_caught == n:
        wrong.append("why attacks were missed, and all are caught")
    return wrong


def disagreements(evaluation: Evaluation) -> list[str]:
    """Return pairs of statements that disagree, in the JSON and on the page."""
    result = Result.of(evaluation)
    (entry,) = entries_of([result])
    page = " ".join(Parsed(without_plotly(render([entry]))).text.split())
    texts = [
        *evaluation.notices,
        *(one.line for one in evaluation.findings),
        *(s.sentence or "" for s in evaluation.segments),
        *(
            r.sentence
            for s in evaluation.segments
            if s.ceiling
            for r in s.ceiling.rules
        ),
        *(one.sentence or "" for one in (evaluation.repairs or {}).values()),
        first_check(evaluation),
        cost_words(entry),
        advised(entry).text,
        advised(entry).basis,
    ]
    wrong = [text for s in evaluation.segments for text in contradictions(s)]
    # Counts: one for each rule and set of rows.
    facts, n_attacks = evaluation.rules, evaluation.stream.n_segments
    known = {("p99", "whole"): evaluation.probe.attacks}
    if evaluation.own_rule:
        known["own", "whole"] = evaluation.own_rule.attacks
    for row in (*facts.present, *facts.table) if facts else ():
        known[row.name, "later"] = row.attacks
    counts = {f"{a.caught} of {a.n_attacks}" for a in known.values()}
    said = re.findall(r"catch(?:es)? (\d+ of \d+)", " ".join([*texts, page]))
    wrong += [f"catches {one}, which is no count" for one in said if one not in counts]
    wrong += words_of_attacks(evaluation, page)
    for attacks in known.values():
        if not attacks.caught <= attacks.n_attacks:
            wrong.append("caught more than there are")
        if not attacks.raised <= attacks.caught <= attacks.rings:
            wrong.append("raised, caught and any alarm are out of order")
        if attacks.caught != len(attacks.which):
            wrong.append("caught is not the number of its attacks")
        if attacks.skill_interval and attacks.skill is not None:
            low, high = attacks.skill_interval
            if not low <= max(attacks.skill, -1) <= high + 1e-9:
                wrong.append("a skill outside of its interval")
    # The same rule on the same rows has the same share of time.
    shares = {share(rule.time_in_alarm, 1) for rule in rules_of(evaluation).values()}
    for text in texts:
        for one in re.findall(r"(\d[\d.]*%) of (?:attack-free )?time \(whole", text):
            if one not in shares:
                wrong.append(f"{one} of time, which no rule has: {text}")
    if evaluation.diagnosis and evaluation.diagnosis.share_in_alarm is not None:
        rule = evaluation.own_rule or evaluation.probe
        if evaluation.diagnosis.share_in_alarm != rule.load.share_of_time:
            wrong.append("two shares of time for one rule and one set of rows")
    # The linter and the verdicts.
    shown = {
        s.id
        for s in evaluation.segments
        if (s.found and s.found.is_found)
        or any(one.visible for one in (s.ladder or {}).values())
    }
    for one in evaluation.findings:
        if one.code == "SL111":
            wrong += [f"SL111 names {id_}" for id_ in shown if repr(id_) in one.text]
    if evaluation.diagnosis:
        which = (evaluation.own_rule or evaluation.probe).attacks.which
        wrong += [
            f"{segment.id} is caught, or not"
            for segment in evaluation.segments
            if segment.caught != (segment.id in which)
        ]
    # The ceiling's sentence and the count.
    if facts and facts.judged_days:
        which = facts.row(facts.chosen).attacks.which
        for segment in evaluation.segments:
            for rule in segment.ceiling.rules if segment.ceiling else ():
                if rule.rule != facts.chosen or segment.start < facts.split:
                    continue
                if ("did not catch it" in rule.sentence) == (segment.id in which):
                    wrong.append(f"{segment.id}: {rule.sentence} beside its count")
    in_use = on_rows(evaluation, entry.main_rule).attacks
    if in_use and in_use.beats_chance:
        if ", so an alarm says little" in first_check(evaluation):
            wrong.append("alarms that say little, and catch more than chance")
    for row in facts.table if facts else ():
        part, most = round(100 * row.load.share_of_time, 1), 100 * facts.accepted.share
        is_many = (row.load.alarms_per_day or 0) > facts.accepted.per_day
        if is_over(row.load, facts) and not is_many and part <= most:
            wrong.append(f"{part}% of time is over a budget of {most}%")
    every = " ".join([*texts, page])
    for words in ("finds nothing", "lies in test where", "no rule can find it"):
        if words in every and any(a.caught for a in known.values()):
            wrong.append(f"{words!r} beside a count above 0")
    if facts and not facts.split:
        first = page.partition("The paper's figures")[0]
        if "later rows" in " ".join([*texts, first]):
            wrong.append("later rows of a record that is judged as a whole")
    if not n_attacks:
        console = Console(width=80, file=StringIO())
        console.print(summary([evaluation]))
        shown = [every, console.file.getvalue(), evaluation._repr_html_()]
        for words in ("false alarm", "false-alarm", "of attack-free time ("):
            if words in " ".join(" ".join(shown).lower().split()):
                wrong.append(f"{words!r} of rows nobody labelled")
    return wrong


KINDS = (
    *("calm", "regimes", "drift", "score", "unlabelled"),
    *("waterworks", "batadal", "gecco"),
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("quick_studies")
def test_no_two_statements_of_a_result_disagree(kind, tmp_path):
    stream = stream_of(kind, tmp_path)
    evaluation = evaluate(stream, metrics="none", intervals=False)
    assert disagreements(evaluation) == []


@pytest.fixture(scope="module")
def plain():
    return evaluate(residuals("calm"), metrics="none", intervals=False)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda e: {
                "notices": ("In alarm 99.9% of attack-free time (whole test).",)
            },
            "which no rule has",
        ),
        (lambda e: {"notices": ("It catches 77 of 99 attacks.",)}, "is no count"),
        (
            lambda e: {"notices": ("An alarm that never stops finds nothing.",)},
            "finds nothing",
        ),
        (
            lambda e: {"diagnosis": replace(e.diagnosis, share_in_alarm=0.52)},
            "two shares of time",
        ),
    ],
)
def test_a_disagreement_is_seen(plain, change, words):
    changed = replace(plain, **change(plain))
    assert any(words in one for one in disagreements(changed))


def random_outcome(rng, row):
    """Return an outcome of a rule with random cost, counts and promise."""
    n = int(rng.integers(0, 15))
    caught, days = int(rng.integers(0, n + 1)), float(rng.choice([0.3, 5.0, 60.0]))
    alarms, chance = int(rng.choice([0, 1, 9, 40, 900])), float(rng.random() * n)
    attacks = replace(
        row.attacks,
        n_attacks=n,
        caught=caught,
        caught_by_chance=chance,
        p_value=float(rng.choice([0.0, 0.04, 0.06, 1.0])),
        skill=(caught - chance) / (n - chance) if n - chance > 1e-9 else None,
        skill_interval=(float(rng.choice([-0.5, 0.3])), 1.0),
    )
    load = replace(
        row.load,
        alarms=alarms,
        days=days,
        alarms_per_day=alarms / days,
        share_of_time=float(rng.choice([0.0, 0.005, 0.015, 0.3, 1.0])),
    )
    kept = row.kept and Kept(rng.choice([Kept.KEPT, Kept.BROKEN, Kept.UNUSED]))
    return replace(row, attacks=attacks, load=load, kept=kept)


def test_no_sentence_of_a_random_record_contradicts_it(plain):
    rng, said = np.random.default_rng(0), set()
    for _ in range(2000):
        facts = plain.rules
        rows = [random_outcome(rng, row) for row in facts.table]
        n = rows[0].attacks.n_attacks
        facts = replace(
            facts,
            table=tuple(rows),
            present=tuple(random_outcome(rng, row) for row in facts.present),
            n_attacks=n,
            is_labelled=bool(rng.random() < 0.7),
            choice=replace(
                facts.choice,
                outcome=ChoiceOutcome(rng.choice([*ChoiceOutcome])),
                sentence="Chosen.",
            ),
        )
        evaluation = replace(plain, rules=facts)
        (entry,) = entries_of([Result.of(evaluation)])
        row, budget = facts.row(facts.chosen), facts.accepted
        load, rates = row.load, Rates(budget.per_day)
        promised = promise_column(facts).cell(row).text
        told = f"{kept_words(row, rates, budget)} {share_warning(row, budget)}"
        texts = (advice(facts), promised, told, advised(entry).heading)
        is_far_over = (
            load.alarms_per_day > 2 * budget.per_day
            or load.share_of_time > 2 * budget.share
        )
        if is_far_over:
            assert "kept" not in f"{promised} {told}"
        if not facts.is_labelled:
            assert "attack-free" not in advice(facts) + advised(entry).basis
        for text in texts:
            for one in re.findall(r"catches (\d+) of", text):
                assert one in {
                    str(r.attacks.caught)
                    for r in (*facts.table, *facts.present, plain.probe)
                }
            for words in ("finds nothing", "no better", "aising the limit"):
                assert words not in text
        said |= {w for w in ("kept", "by chance") if w in " ".join(texts)}
    assert "kept" in said


def short_record(seed: int) -> ResidualStream:
    """Return a random short record; that of seed 0 is the first example of a reader.

    Rows of a second make one in a hundred exceed the limit by chance, and alarms that
    go on for five minutes: most of the time is in alarm.
    """
    rng = np.random.default_rng(seed)
    p, n = (8, 2000) if not seed else (int(rng.integers(1, 12)), 1500)
    train = rng.normal(size=(5000 if not seed else 3000, p))
    test, labels = rng.normal(size=(n, p)), np.zeros(n, np.int8)
    places = (800,) if not seed else 150 + 250 * np.flatnonzero(rng.random(5) < 0.6)
    for start in places:
        size = 4.0 if not seed else rng.choice([0.0, 1.5, 4.0, 12.0])
        stop = start + (100 if not seed else int(rng.integers(3, 120)))
        labels[start:stop], column = 1, 2 if not seed else int(rng.integers(p))
        test[start:stop, column] += size
    own = rng.random(n) < rng.choice([0.0, 0.003, 0.02]) if seed % 3 == 2 else None
    return ResidualStream(
        train,
        test,
        labels,
        alarms=own if own is None else own | (labels == 1) & (rng.random(n) < 0.4),
        step_s=1.0 if not seed else float(rng.choice([1.0, 1.0, 5.0, 60.0])),
    )


@pytest.mark.parametrize("seeds", [range(0, 12), range(12, 24)], ids=str)
def test_no_word_on_a_short_record_disagrees_with_another(seeds):
    seen = set()
    for seed in seeds:
        evaluation = evaluate(short_record(seed), metrics="none", intervals=False)
        assert words_of_attacks(evaluation) == []
        assert [t for s in evaluation.segments for t in contradictions(s)] == []
        seen |= {str(one.verdict) for one in evaluation.segments}
    assert {"detected", "already-in-alarm"} <= seen


def test_the_readers_first_example_has_one_word_on_its_page():
    evaluation = evaluate(short_record(0), metrics="none", intervals=False)
    assert disagreements(evaluation) == []
    (attack,) = evaluation.segments
    assert (attack.caught, attack.verdict) == (False, "already-in-alarm")


def test_an_older_result_that_calls_it_detected_is_read_with_one_word(tmp_path):
    evaluation = evaluate(short_record(0), metrics="none", intervals=False)
    write_results([evaluation], tmp_path)
    path = tmp_path / evaluation.stream.name / "evaluation.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    (attack,) = values["segments"]
    alternatives = {"threshold": 0.2, "detected": 0.1}
    attack |= {"verdict": "detected", "alternatives": alternatives}
    attack["signature"]["reading"] = "detected"
    attack["sentence"] = "The p99 rule detects it: 53% of it lies beyond the limit."
    values["verdict_counts"] |= {"detected": 1}
    del values["verdict_counts"]["already-in-alarm"]
    path.write_text(json.dumps(values), encoding="utf-8")
    read = read_evaluation(path)
    assert words_of_attacks(read) == []
    assert read.verdict_counts["already-in-alarm"] == 1
    assert read.verdict_counts["detected"] == 0
