"""How sure a verdict is: seeds, chunks, few windows, and verdicts too close to call."""

import json
from itertools import product

import numpy as np
import pytest
from hard_streams import answer_of
from hypothesis import given
from hypothesis import strategies as st
from judged_streams import calm_stream, rows_of, with_test
from strategies import ChunkedRows

from sightline import evaluate, read_stream
from sightline.judgement.judge import METHOD, _count, _q_values
from sightline.judgement.ladder import (
    LESS_SURE,
    UNDECIDED,
    UNSURE,
    confidence_word,
)
from sightline.storage.parquet import write_parquet_folder


def borderline(size, **known):
    """Return an attack whose coverage is near the minimum effect."""

    def attack(test):
        test[3000:3120, :3] += size

    return with_test(calm_stream((3000, 3120), (4500, 4560), **known), attack)


def judged(stream, **known):
    found = evaluate(stream, intervals=False, **known).to_dict()
    names = ("verdict", "confidence", "alternatives", "ladder", "found", "sentence")
    rows = [{name: row[name] for name in names} for row in found["segments"]]
    return json.dumps([rows, found["diagnosis"], found["repairs"]])


def test_the_same_seed_gives_the_same_and_another_other_shares():
    stream = borderline(1.3)
    assert judged(stream, seed=3) == judged(stream, seed=3)
    shares = {
        evaluate(stream, intervals=False, seed=seed).segments[0].confidence
        for seed in range(4)
    }
    assert len(shares) > 1
    assert max(shares) - min(shares) < 0.3


def test_any_chunking_and_a_folder_give_the_same_bits(tmp_path):
    stream = borderline(1.3, telemetry_channels=["a", "b"]).replace(
        telemetry_train=calm_stream(p=2, seed=5).train.values,
        telemetry_test=calm_stream(p=2, seed=5).test.values,
    )
    expected = judged(stream)
    for cuts in ([], [1, 1024, 1025, 5999], list(range(700, 6000, 700))):
        chunked = stream.replace(
            train=ChunkedRows(stream.train.values, [c for c in cuts if c < 4000]),
            test=ChunkedRows(stream.test.values, cuts),
        )
        assert judged(chunked) == expected
    write_parquet_folder(stream, tmp_path / "parts", part_rows=1111)
    assert judged(read_stream(tmp_path / "parts")) == expected


def test_a_verdict_that_few_draws_agree_with_is_undecided_and_names_two():
    places = [(start, start + 60) for start in range(600, 11_400, 600)]

    def attack(test):
        for start, stop in places:
            test[start:stop, 3] += 2.3

    verdicts = set()
    for row in rows_of(with_test(calm_stream(*places, p=30, n_test=12_000), attack)):
        verdicts.add(str(row.verdict))
        shares = list(row.alternatives.values())
        assert shares == sorted(shares, reverse=True)
        if row.confidence >= UNDECIDED:
            assert row.verdict not in {"undecided", *row.alternatives}
            assert row.confidence + sum(shares) == pytest.approx(1.0)
            assert ("may be" in row.sentence) == (row.confidence < UNSURE)
        else:
            assert answer_of(row) == "undecided"
            assert sum(shares) == pytest.approx(1.0)
            assert all(
                f"{word} (" in row.sentence for word in list(row.alternatives)[:2]
            )
    assert verdicts == {"undecided", "sequential"}


def test_few_windows_limit_the_confidence_and_print_no_p():
    def attack(test):
        test[600:700] += 4

    stream = with_test(calm_stream((600, 700), n_test=1800), attack)
    (row,) = rows_of(stream)
    assert "few-windows" in row.flags
    assert answer_of(row) == "detected"
    assert row.confidence == LESS_SURE
    assert confidence_word(row.confidence) == "likely"
    assert (
        f"none of {row.windows.count} overlapping attack-free stretches" in row.sentence
    )
    assert "(p " not in row.sentence


def test_where_nothing_is_shown_a_change_of_state_limits_the_confidence():
    def change(test):
        test[3060:] *= 3

    quiet = calm_stream((3000, 3120))
    (changed,) = rows_of(with_test(quiet, change))
    (unchanged,) = rows_of(quiet)
    assert changed.verdict == unchanged.verdict == "weak-evidence"
    assert "state-changed" in changed.flags
    assert not unchanged.flags
    assert changed.confidence == LESS_SURE < unchanged.confidence


def test_the_confidence_of_a_clear_attack_is_full():
    def attack(test):
        test[3000:3120] += 4

    (row,) = rows_of(with_test(calm_stream((3000, 3120)), attack))
    assert (row.confidence, row.alternatives) == (1.0, {})
    assert "(p 0.016)" in row.sentence


# --- Many attacks ---------------------------------------------------------------------


@given(st.lists(st.floats(0.001, 1.0), min_size=1, max_size=12))
def test_q_values_are_those_of_benjamini_and_hochberg(p_values):
    n = len(p_values)
    for p, q in zip(p_values, _q_values(p_values), strict=True):
        # The smallest level at which the step-up procedure rejects this attack.
        levels = [
            other * n / sum(value <= other for value in p_values)
            for other in p_values
            if other >= p
        ]
        assert q == pytest.approx(min(1.0, *levels))


def test_q_values_are_corrected_over_the_attacks_of_a_stream():
    rows = rows_of(borderline(4.0))
    p = [row.found.p_value for row in rows]
    assert [row.found.q_value for row in rows] == _q_values(p)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 40)), min_size=1, max_size=8))
def test_the_chance_of_a_count_is_that_of_all_outcomes(drawn):
    hits = [is_hit for is_hit, _ in drawn]
    shares = [(k / 40, 40) for _, k in drawn]
    found = _count(hits, shares)
    assert (found.count, found.total) == (sum(hits), len(hits))
    assert found.by_chance == pytest.approx(sum(k / 40 for _, k in drawn))
    # One window more is counted as hit: none of 40 does not mean never.
    chances = [(k + 1) / 41 for _, k in drawn]
    p_value = sum(
        np.prod([c if hit else 1 - c for c, hit in zip(chances, case, strict=True)])
        for case in product([False, True], repeat=len(chances))
        if sum(case) >= sum(hits)
    )
    assert found.p_value == pytest.approx(p_value)


def test_a_count_without_windows_says_nothing():
    assert _count([False, False], []).p_value == 1.0


def test_a_stream_counts_what_is_found_and_what_rings_with_its_chance():
    places = [(s, s + 60) for s in range(800, 7800, 800)]

    def attack(test):
        for start, stop in places[:4]:
            test[start:stop] += 4

    evaluation = evaluate(
        with_test(calm_stream(*places, n_test=9000), attack), intervals=False
    )
    facts = evaluation.diagnosis
    assert (facts.found.count, facts.found.total) == (4, 9)
    assert facts.found.by_chance < 0.5
    assert facts.found.p_value < 1e-3
    # 60 rows at 1% ring in about 45% of calm windows.
    assert facts.rings.count >= 4
    assert 2.5 < facts.rings.by_chance < 6
    assert facts.false_cause_rate < 0.1
    assert facts.advice_withheld is None
    assert facts.method == METHOD
