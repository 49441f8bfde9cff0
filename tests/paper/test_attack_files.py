import csv
import io
from dataclasses import fields, replace
from types import SimpleNamespace

import pytest

from sightline import StreamError, write_up
from sightline.data.segments import AttackOutcome
from sightline.metrics.measures import SegmentMeasures
from sightline.paper.attack_files import alignments, attack_columns_csv, attacks_csv
from sightline.paper.study import PaperStudy, listed_ids
from sightline.paper.tables import case_table, published
from sightline.storage import Result


def lines(text):
    return list(csv.DictReader(io.StringIO(text)))


def with_segments(result, *changes, step_s=1.0):
    """The first segments of a result with other ids, rows or outcomes; others go."""
    old = result.evaluation
    segments = tuple(
        replace(row, **change)
        for row, change in zip(old.segments, changes, strict=False)
    )
    stream = replace(old.stream, step_s=step_s)
    return Result(result.folder, replace(old, segments=segments, stream=stream))


def test_every_attack_of_every_seed_is_a_line_of_plain_values(make_result):
    results = [
        make_result("swat", name, seed=seed, verdicts=["drift", "not-in-telemetry"])
        for name in ("gdn", "geco")
        for seed in (0, 1)
    ]
    study = PaperStudy(results)
    rows = lines(attacks_csv(study))
    assert len(rows) == 4 * 8
    assert len({(r["testbed"], r["detector"], r["seed"], r["id"]) for r in rows}) == 32
    for cell in (cell for row in rows for cell in row.values()):
        assert not cell.startswith(("{", "["))
    by_place = {(r["result"], r["id"]): r for r in rows}
    for result in results:
        for segment in result.evaluation.segments:
            row = by_place[result.name, segment.id]
            for field in fields(SegmentMeasures):
                value = getattr(segment, field.name)
                if isinstance(value, float):
                    assert float(row[field.name]) == value
            assert row["verdict"] == (segment.verdict or "")
    # Only the first seed stands for all in a joint verdict.
    assert {r["seed"] for r in rows if r["joint_verdict"]} == {"0"}


def test_an_attack_that_no_rule_catches_is_told_from_one_that_none_was_judged_on(
    make_result,
):
    result = make_result("swat", "gdn")
    first, second, third, *_ = (one.id for one in result.evaluation.segments)
    caught = {"z": (second,), "energy": (second,), "own": None}
    rules = SimpleNamespace(
        split=result.evaluation.segments[0].stop,
        table=[
            SimpleNamespace(name=name, attacks=which and SimpleNamespace(which=which))
            for name, which in caught.items()
        ],
    )
    judged = Result(result.folder, replace(result.evaluation, rules=rules))
    by_id = {r["id"]: r["caught_by"] for r in lines(attacks_csv(PaperStudy([judged])))}
    assert (by_id[first], by_id[second], by_id[third]) == ("", "z;energy", "none")


def test_each_column_of_the_attacks_is_described(make_result):
    (first, *_) = lines(attacks_csv(PaperStudy([make_result("swat", "gdn")])))
    described = {row["column"]: row["says"] for row in lines(attack_columns_csv())}
    assert list(described) == list(first)
    assert all(text.endswith(".") and len(text) > 8 for text in described.values())


def test_a_verdict_against_the_owners_word_is_marked(make_result):
    result = make_result("swat", "gdn", verdicts=["not-in-telemetry"] * 2 + ["drift"])
    had, none = AttackOutcome.HAD_EFFECT, AttackOutcome.NO_EFFECT
    said = [{"outcome": one} for one in (had, none, none)]
    rows = lines(attacks_csv(PaperStudy([with_segments(result, *said)])))
    assert [r["agrees_with_owners"] for r in rows] == ["False", "True", "False"]


def test_ids_of_a_segment_are_those_of_the_list():
    assert listed_ids("3-4+5/2") == ("3-4", "5")
    assert listed_ids("unlisted-2") == ()


def test_alignment_names_what_is_lost_merged_cut_and_shortened(make_result):
    whole = with_segments(
        make_result("swat", "gdn"),
        {"id": "1", "start": 40, "stop": 60, "length": 20},
        {"id": "2", "start": 100, "stop": 120, "length": 20},
        {"id": "3", "start": 200, "stop": 220, "length": 20},
        {"id": "4", "start": 300, "stop": 320, "length": 20},
    )
    other = with_segments(
        make_result("swat", "geco"),
        {"id": "1", "start": 40, "stop": 60, "length": 20},
        {"id": "2+3", "start": 100, "stop": 220, "length": 120},
        {"id": "4", "start": 300, "stop": 308, "length": 8},
        {"id": "4/2", "start": 310, "stop": 314, "length": 4},
    )
    third = with_segments(
        make_result("swat", "var"),
        {"id": "1", "start": 4, "stop": 6, "length": 2},
        step_s=10.0,
    )
    study = PaperStudy([whole, other, third])
    found = {one.id: one for one in alignments(study, "swat")}
    states = {
        id_: (one.state("gdn", 1.0), one.state("geco", 1.0), one.state("var", 10.0))
        for id_, one in found.items()
    }
    assert states["1"] == ("whole", "whole", "whole")
    assert states["2"][1:] == ("merged with 3", "lost")
    assert states["3"][1] == "merged with 2"
    assert states["4"] == ("whole", "shortened by 7 s", "lost")


def test_a_case_that_is_asked_for_has_each_detector_the_range_and_the_median(
    make_result,
):
    results = [
        make_result("swat", name, space=space, verdicts=["drift"])
        for name, space in (
            ("gdn", "observation"),
            ("tranad", "observation"),
            ("nsibf", "sensor"),
        )
    ]
    results = [
        with_segments(one, {"id": "3", "auc": auc, "sdr": None})
        for one, auc in zip(results, (0.5, 0.7, 0.9), strict=True)
    ]
    rows = lines(case_table(PaperStudy(results), ["swat:3"]).to_csv())
    asked = [row for row in rows if row["question"] == "swat:3"]
    assert [float(row["auc"]) for row in asked] == [0.5, 0.7, 0.9, 0.6, 0.7]
    ranges = [(float(row["auc_low"]), float(row["auc_high"])) for row in asked[3:]]
    assert ranges == [(0.5, 0.7), (0.5, 0.9)]
    assert [row["sentence"] for row in asked[3:]] == [
        "GDN: drift; TranAD: drift.",
        "GDN: drift; TranAD: drift; NSIBF: drift.",
    ]
    study = PaperStudy(results)
    for wrong, told in (
        ("swat:9", "no attack 9 on swat; it has 3"),
        ("wadi:1", "must name a testbed"),
        ("swat", "must name a testbed"),
    ):
        with pytest.raises(StreamError, match=told):
            case_table(study, [wrong])


def test_printed_cases_stand_beside_the_same_segments(make_result, tmp_path):
    results = [
        make_result("swat", name, d_full=range(8), verdicts=["drift"])
        for name in ("fusagnet", "gdn")
    ]
    write_up(results, tmp_path, n_replicates=2)
    table = tmp_path / "tables/attack_cases_beside_paper.csv"
    (row,) = csv.DictReader(io.StringIO(table.read_text()))
    printed = next(r for r in published("attack_cases") if r["testbed"] == "swat")
    segments = [one.evaluation.segments[3] for one in results]
    assert float(row["auc_paper_low"]) == float(printed["auc_low"])
    assert float(row["auc_low"]) == pytest.approx(sum(one.auc for one in segments) / 2)
    assert float(row["length_high"]) == max(one.length for one in segments)
