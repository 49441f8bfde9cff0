"""`evaluation.json` and its records: round trips, old files, the shipped schema."""

import json
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from random import Random
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from on_disk import full_stream

import sightline.storage.results
from sightline import (
    Evaluation,
    compare,
    evaluate,
    read_evaluation,
    read_results,
    write_report,
    write_results,
)
from sightline.errors import FileError
from sightline.evaluation.result import SCHEMA, ChartData, EvaluationRecord
from sightline.judgement.judge import METHOD
from sightline.judgement.verdicts import RungName, Verdict
from sightline.storage import Result, check_out
from sightline.storage.results import evaluation_schema

HISTORIC = Path(__file__).parents[1] / "historic_results"
OLD_FOLDERS = sorted(path.parent for path in HISTORIC.rglob("evaluation.json"))
SCHEMA_NOW = evaluation_schema()
SHIPPED = Path(sightline.storage.results.__file__).with_name("evaluation.schema.json")
FLOATS = (0.0, -0.0, 0.1, 1 / 3, -2.5e-308, 1.7e308, 12345.678)
TEXTS = ("", "LIT101", "\u00fc \u6db2", '"\\\n', "detected", "null")


def made_of(hint: Any, rng: Random) -> Any:
    """Return some value that a type allows."""
    origin, inside = get_origin(hint), get_args(hint)
    if hint is Any:
        return rng.choice([None, True, 7, "x", [1, [2.5]], {"a": {"b": [None]}}])
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        return hint(**{f.name: made_of(hints[f.name], rng) for f in fields(hint)})
    if origin in (Union, types.UnionType):
        return made_of(rng.choice(inside), rng)
    if origin is tuple and inside[-1] is Ellipsis:
        return tuple(made_of(inside[0], rng) for _ in range(rng.randrange(3)))
    if origin is tuple:
        return tuple(made_of(one, rng) for one in inside)
    if origin in (dict, Mapping):
        named = rng.sample(TEXTS, rng.randrange(3))
        return {name: made_of(inside[1], rng) for name in named}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return rng.choice(list(hint))
    return {
        type(None): lambda: None,
        bool: lambda: rng.random() < 0.5,
        int: lambda: rng.randint(-(2**53), 2**53),
        float: lambda: rng.choice([*FLOATS, rng.gauss(0, 1e3)]),
        str: lambda: rng.choice(TEXTS),
    }[hint]()


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_any_record_reads_back_as_what_was_written(seed, tmp_path_factory):
    record = made_of(EvaluationRecord, Random(seed))
    # What is detected is caught: a file that says otherwise is an older one.
    segments = [
        replace(s, caught=True)
        if Verdict.DETECTED in (s.verdict, *(s.alternatives or {}))
        else s
        for s in record.segments
    ]
    record = replace(record, segments=tuple(segments))
    written = Evaluation(**vars(record) | {"schema": SCHEMA})
    path = tmp_path_factory.getbasetemp() / "evaluation.json"
    path.write_text(json.dumps(written.to_dict()), encoding="utf-8")
    assert read_evaluation(path) == written
    assert violations(written.to_dict(), SCHEMA_NOW) == []


def test_infinite_energy_reads_back_too(tmp_path):
    stream = full_stream().replace(name="huge")
    test = np.concatenate(list(stream.test.chunks()))
    test[210:230] = 5e153
    written = evaluate(stream.replace(test=test), intervals=False, diagnosis=False)
    assert written.windows.median_d_full is not None
    assert written.segments[0].d_full is None
    write_results([written], tmp_path)
    assert read_evaluation(tmp_path / "huge") == written


# Results of older versions


# The names that rungs had before verdicts came from the event test.
NEW_RUNGS = {
    "detected": "probe",
    "recalibrate": "evidence",
    "rereference": "reference",
    "refocus": "space",
    "accumulate": "memory",
}


def same_figures(old: Any, new: Any) -> bool:
    """Tell whether all that an old value holds is in the new one."""
    if isinstance(old, dict):
        return all(same_figures(old[key], new[key]) for key in old if key != "schema")
    if isinstance(old, list):
        return len(old) == len(new) and all(map(same_figures, old, new))
    return bool(old == new)


def in_present_names(values: dict[str, Any]) -> dict[str, Any]:
    """Return an older file with the present names of rungs and keys."""

    def renamed(rungs: dict[str, Any]) -> dict[str, Any]:
        return {NEW_RUNGS.get(k, k): v for k, v in rungs.items() if k != "telemetry"}

    def with_reading(read: dict[str, Any]) -> dict[str, Any]:
        is_covered = read["reading"] == "detected"
        return read | {"reading": "covered" if is_covered else read["reading"]}

    segments = [
        {key: one[key] for key in one if key not in ("ladder", "refocus_channels")}
        | {
            "ladder": renamed(one["ladder"]),
            "signature": with_reading(one["signature"]),
            "evidence_channels": one["refocus_channels"],
        }
        for one in values["segments"]
    ]
    return values | {"segments": segments, "repairs": renamed(values["repairs"])}


@pytest.mark.parametrize("folder", OLD_FOLDERS, ids=lambda path: path.name)
def test_an_older_result_still_loads_with_all_its_figures(folder):
    values = json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))
    assert "method" not in values["diagnosis"]
    evaluation = read_evaluation(folder)
    assert evaluation.schema == SCHEMA
    assert same_figures(in_present_names(values), evaluation.to_dict())
    assert violations(evaluation.to_dict(), SCHEMA_NOW) == []


@pytest.mark.parametrize("folder", OLD_FOLDERS, ids=lambda path: path.name)
def test_an_older_result_is_marked_as_judged_by_the_earlier_rules(folder):
    evaluation = read_evaluation(folder)
    assert evaluation.diagnosis.method == 1
    for segment in evaluation.segments:
        assert set(segment.ladder) <= {str(name) for name in RungName}
        assert segment.confidence is segment.found is segment.telemetry is None


def test_a_result_of_today_is_marked_as_such_and_not_migrated(tmp_path):
    written = evaluate(full_stream().replace(name="now"), intervals=False)
    assert written.diagnosis.method == METHOD > 1
    write_results([written], tmp_path)
    assert read_evaluation(tmp_path / "now") == written


@pytest.mark.parametrize("damage", [7, "x", [3], {"ladder": 5}, {"ladder": {"a": 1}}])
def test_a_damaged_older_diagnosis_is_refused_in_one_sentence(tmp_path, damage):
    text = (OLD_FOLDERS[0] / "evaluation.json").read_text(encoding="utf-8")
    for segments in ([damage], damage):
        values = json.loads(text) | {"segments": segments}
        (tmp_path / "evaluation.json").write_text(json.dumps(values), encoding="utf-8")
        with pytest.raises(FileError, match="is not an evaluation of schema"):
            read_evaluation(tmp_path)


@pytest.mark.parametrize("folder", OLD_FOLDERS, ids=lambda path: path.name)
def test_chart_data_of_an_older_result_load(folder):
    (result,) = read_results([folder])
    with np.load(folder / "traces.npz") as arrays:
        for name in arrays.files:
            np.testing.assert_array_equal(
                getattr(result.traces, name), arrays[name], name
            )
        missing = {f.name for f in fields(ChartData)} - set(arrays.files)
    assert all(getattr(result.traces, name) is None for name in missing)


def test_there_are_old_results_of_both_schemas_to_load():
    kinds = {
        json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))["schema"]
        for folder in OLD_FOLDERS
    }
    assert kinds == {1, 2}


def test_older_results_make_a_page(tmp_path):
    page = write_report(OLD_FOLDERS, tmp_path / "report.html")
    assert "pca" in page.read_text(encoding="utf-8")


def test_older_results_are_compared_and_marked():
    compared = compare(read_results(OLD_FOLDERS), n_replicates=2)
    assert sum("rules of an earlier version" in n for n in compared.notices) == 2
    assert compared.detections == ()


def test_train_energy_of_the_first_results_was_whole(tmp_path):
    write_results([evaluate(full_stream(), intervals=False, diagnosis=False)], tmp_path)
    (result,) = read_results([tmp_path])
    path = result.folder / "traces.npz"
    with np.load(path) as arrays:
        first = {k: arrays[k] for k in arrays.files if "train_" not in k}
        first["train_energy"] = arrays["train_energy"]
    np.savez(path, **first)
    (found,) = read_results([tmp_path])
    np.testing.assert_array_equal(found.traces.train_rows, np.arange(1500))
    np.testing.assert_array_equal(
        found.traces.train_quantiles, result.traces.train_quantiles
    )


# Results in memory, and neighbours


def test_a_result_in_memory_needs_no_folder():
    evaluation = evaluate(full_stream().replace(name="full"), intervals=False, guard=3)
    result = Result.of(evaluation)
    assert (result.folder, result.name) == (None, "full-guard3")
    assert result.traces is evaluation.traces
    with pytest.raises(ValueError, match="read without its traces"):
        _ = Result.of(replace(evaluation, traces=None)).traces


def test_a_neighbour_is_parsed_once(tmp_path, monkeypatch):
    first, second = (
        evaluate(full_stream().replace(name=name), intervals=False, diagnosis=False)
        for name in ("first", "second")
    )
    write_results([first], tmp_path)
    parsed = []
    parse = sightline.storage.results.parse_json

    def count(text):
        parsed.append(text)
        return parse(text)

    monkeypatch.setattr("sightline.storage.results.parse_json", count)
    neighbours = check_out(tmp_path, ["second"], overwrite=False)
    write_results([second], tmp_path, neighbours=neighbours)
    assert len(parsed) == 1
    assert len((tmp_path / "summary.csv").read_text().splitlines()) == 3


# The JSON schema


def violations(value: Any, schema: Mapping[str, Any]) -> list[str]:
    """Return where a value breaks a schema, for the keywords that ours uses."""
    found: list[str] = []
    kinds = {
        "null": type(None),
        "boolean": bool,
        "integer": int,
        "number": int | float,
        "string": str,
        "array": list,
        "object": dict,
    }

    def look(value: Any, rule: Mapping[str, Any], place: str) -> None:
        if "$ref" in rule:
            look(value, schema["$defs"][rule["$ref"].rpartition("/")[2]], place)
        if "anyOf" in rule:
            before = len(found)
            for option in rule["anyOf"]:
                look(value, option, place)
                if len(found) == before:
                    break
                wrong, found[before:] = found[before:], []
            else:
                found.extend(wrong)
        if "enum" in rule and value not in rule["enum"]:
            found.append(f"{place}: {value!r} is not in {rule['enum']}")
        if "type" in rule:
            kind = kinds[rule["type"]]
            is_flag = isinstance(value, bool) and kind is not bool
            if not isinstance(value, kind) or is_flag:
                found.append(f"{place}: {value!r} is no {rule['type']}")
                return
        for key in rule.get("required", ()):
            if key not in value:
                found.append(f"{place}: lacks {key}")
        if isinstance(value, dict):
            named = rule.get("properties", {})
            for key, item in value.items():
                look(item, named.get(key, rule.get("additionalProperties") or {}), key)
        if isinstance(value, list):
            first = rule.get("prefixItems", [])
            assert rule.get("minItems", 0) <= len(value)
            for k, item in enumerate(value):
                inner = first[k] if k < len(first) else rule.get("items") or {}
                look(item, inner, f"{place}[{k}]")

    look(value, schema, "$")
    return found


def test_the_shipped_schema_is_the_generated_one():
    shipped = json.loads(SHIPPED.read_text(encoding="utf-8"))
    assert shipped == json.loads(json.dumps(evaluation_schema())), (
        "write it again: json.dumps(sightline.storage.results.evaluation_schema(), "
        f"indent=1) into {SHIPPED.name}"
    )


def test_a_real_file_obeys_the_schema_and_a_damaged_one_does_not(tmp_path):
    write_results([evaluate(full_stream().replace(name="full"))], tmp_path)
    text = (tmp_path / "full" / "evaluation.json").read_text(encoding="utf-8")
    schema = json.loads(SHIPPED.read_text(encoding="utf-8"))
    assert violations(json.loads(text), schema) == []
    for path, value in {
        ("rank", "roc_auc"): "high",
        ("drift", "mean_dominated"): None,
        ("stream", "p"): 1.5,
        ("intervals", "f1"): ["low", 1.0],
        ("segments", 0, "verdict"): "unheard-of",
    }.items():
        values = inner = json.loads(text)
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value
        assert violations(values, schema), path
    values = json.loads(text)
    del values["probe"]["hits"]
    assert violations(values, schema) == ["probe: lacks hits"]


def test_a_result_without_the_two_sided_reading_still_loads(tmp_path):
    written = evaluate(full_stream(), intervals=False, diagnosis=False).to_dict()
    del written["two_sided"]
    (tmp_path / "evaluation.json").write_text(json.dumps(written))
    read = read_evaluation(tmp_path)
    assert read.two_sided is None
    assert read.to_dict() == written | {"two_sided": None}
