import hashlib
import json
import re
from dataclasses import fields, is_dataclass, replace
from importlib.resources import files

import numpy as np
import pytest

from sightline import FileError, read_rule, write_rule
from sightline.rules.file import _digest, rule_schema
from tests.rules.made_rules import BY_NAME, made_rules, plant_stream
from tests.storage.test_evaluation_file import violations


def assert_equal(one, other):
    """Fail unless two records are equal to the last bit."""
    assert type(one) is type(other)
    if is_dataclass(one):
        for field in fields(one):
            assert_equal(getattr(one, field.name), getattr(other, field.name))
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()
    elif isinstance(one, tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_equal(a, b)
    else:
        assert one == other


@pytest.mark.parametrize("name", ["all", "rows", "energy", *BY_NAME])
def test_what_is_read_is_what_was_written(name, tmp_path):
    made = made_rules().deployed(name)
    write_rule(made, tmp_path / "rule.json")
    again = read_rule(tmp_path)
    assert_equal(again, made)
    stream = plant_stream()
    rows = np.concatenate(list(stream.test.chunks()))
    before, after = (
        m.rule.run(rows, breaks=stream.test_breaks, score=stream.score)
        for m in (made, again)
    )
    assert before.trace.tobytes() == after.trace.tobytes()
    assert np.array_equal(before.in_alarm, after.in_alarm)
    # Writing again gives the same bytes.
    write_rule(again, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (
        tmp_path / "rule.json"
    ).read_bytes()


def test_the_file_says_where_the_rule_comes_from(tmp_path):
    write_rule(made_rules(), tmp_path / "rule.json")
    values = json.loads((tmp_path / "rule.json").read_text())
    assert values["schema"] == 2
    assert values["rule"]["name"] == "all"
    assert values["rule"]["channels"][1] == {
        "name": "FIT101",
        "unit": None,
        "scale": 2.0,
    }
    assert values["rule"]["budget"] == {"per_day": 6.0, "share": 0.01}
    assert {*values["promise"]} == {"alarms", "time", "usual_s", "budget", "days"}
    assert values["rule"]["night"] > 0
    origin = values["origin"]
    assert origin["stream"] == "mine"
    assert origin["timezone"] == "Europe/Berlin"
    stream = plant_stream()
    # The first commissioning row, and the last calm one of the first 35%.
    assert origin["begins"] == stream.test_time[0]
    assert origin["ends"] <= stream.test_time[int(0.35 * stream.test.n_rows)]
    assert len(origin["stream_sha256"]) == 64


def test_the_digest_of_a_stream_changes_with_any_residual_or_label():
    stream = plant_stream()
    rows = np.concatenate(list(stream.test.chunks()))
    from sightline.rules.normal import stream_digest

    rows[5, 2] = np.nextafter(rows[5, 2], 9)
    labels = stream.labels.copy()
    labels[7] = -1
    digests = {
        stream_digest(one)
        for one in (stream, stream.replace(test=rows), stream.replace(labels=labels))
    }
    assert len(digests) == 3


def test_drift_is_measured_against_commissioning_rows():
    made = made_rules().deployed()
    stream = plant_stream()
    train = np.concatenate(list(stream.train.chunks()))
    rows = [block for _, block, _, _ in made_rules().source.calm.blocks()]
    calm = np.concatenate(rows)
    for j, channel in enumerate(made.origin.calm):
        assert channel.spread == pytest.approx(train[:, j].std(ddof=1), rel=1e-3)
        assert channel.calm_mean == pytest.approx(calm[:, j].mean())
        deviation = (calm[:, j] - channel.mean) / channel.spread
        assert channel.calm_square == pytest.approx(np.mean(deviation**2))


def changed(tmp_path, change, *, digest=True):
    """Write a rule, change its JSON, and return what reading it complains of."""
    path = tmp_path / "rule.json"
    write_rule(made_rules(), path)
    values = json.loads(path.read_text())
    change(values)
    if digest:
        content = {k: v for k, v in values.items() if k != "digest"}
        values["digest"] = _digest(content)
    path.write_text(json.dumps(values))
    with pytest.raises(FileError) as caught:
        read_rule(path)
    text = str(caught.value)
    assert text.startswith(str(path))
    assert len(re.findall(r"\.(?:\s|$)", text)) == 1
    return text


def test_a_file_edited_by_hand_is_refused(tmp_path):
    def lower(values):
        values["rule"]["limit"] *= 0.5

    text = changed(tmp_path, lower, digest=False)
    assert "was changed since it was written" in text


def test_only_the_layout_of_the_text_may_change(tmp_path):
    path = tmp_path / "rule.json"
    write_rule(made_rules(), path)
    path.write_text(json.dumps(json.loads(path.read_text()), indent=7))
    assert_equal(read_rule(path), made_rules().deployed())


def test_a_newer_schema_is_refused(tmp_path):
    text = changed(tmp_path, lambda values: values.update(schema=3))
    assert "has schema 3; this Sightline reads up to 2: update it" in text


def test_unknown_and_missing_keys_are_refused(tmp_path):
    def add(values):
        values["rule"]["members"][0]["colour"] = "red"

    assert "'rule.members.colour'" in changed(tmp_path, add)
    assert "missing required field" in changed(
        tmp_path, lambda values: values["promise"].pop("usual_s")
    )


def test_numbers_that_do_not_fit_together_are_refused(tmp_path):
    def shorten(values):
        values["rule"]["views"][0]["mean"].pop()

    def beyond(values):
        values["rule"]["views"][1]["order"][0] = 600

    def ragged(values):
        values["rule"]["views"][1]["weights"][0].pop()

    def levels(values):
        values["rule"]["members"][2]["levels"].append(1.0)

    def two_limits(values):
        values["limit"]["value"] += 1

    def spread(values):
        values["promise"]["time"]["spread"] = 1e-200

    def days(values):
        values["promise"]["days"] = 5e-324

    def alarms(values):
        values["promise"]["alarms"]["per_day"] = 1e300

    def fewer(values):
        values["origin"]["calm"].pop()

    def zone(values):
        values["origin"]["timezone"] = "/etc/passwd"

    arrays = (shorten, beyond, ragged, levels, fewer)
    for change in (*arrays, two_limits, spread, days, alarms, zone):
        assert "is not a rule of schema 2" in changed(tmp_path, change)


# Of the view by stage, whose three units have 3, 2 and 1 columns, and of one by tag.
BOUNDS = {
    "moved": ("group", [0, 2, 5, 6]),
    "none": ("group", None),
    "of as many units": ("group", [0, 1, 2, 6]),
    "falling": ("group", [0, 5, 3, 6]),
    "beyond": ("group", [0, 3, 5, 600]),
    "of columns": ("x", list(range(7))),
}


@pytest.mark.parametrize("case", BOUNDS)
def test_bounds_of_units_that_are_not_those_of_the_view_are_refused(case, tmp_path):
    kind, bounds = BOUNDS[case]

    def move(values):
        (view,) = (view for view in values["rule"]["views"] if view["kind"] == kind)
        assert view["bounds"] == ([0, 3, 5, 6] if kind == "group" else None)
        view["bounds"] = bounds

    assert f"view '{kind}'" in changed(tmp_path, move)


@pytest.mark.parametrize(
    "place",
    [
        "rule.views[1].weights[2][0]",
        "rule.views[0].mean[5]",
        "rule.members[0].levels[0]",
        "rule.members[0].limit",
        "rule.channels[1].scale",
        "origin.calm[0].calm_square",
        "promise.usual_s",
    ],
)
@pytest.mark.parametrize(
    "number", [1e308, -1e308, 10**400], ids=["large", "low", "digits"]
)
def test_a_number_beyond_all_rows_is_refused_by_its_name(place, number, tmp_path):
    def enlarge(values):
        *path, last = re.findall(r"\w+", place)
        for key in path:
            values = values[int(key) if key.isdigit() else key]
        values[int(last) if last.isdigit() else last] = number

    text = changed(tmp_path, enlarge)
    # Negative ones may be refused for their sign before.
    assert "is not a rule of schema 2" in text
    # Of a number in an array, msgspec names the array and leaves out which view.
    named = re.sub(r"\[(\d+|\.\.\.)\]", "", text)
    assert re.sub(r"\[\d+\]", "", place) in named or number < 0


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is not a readable rule"),
        ("[1]", "is JSON, but not a rule"),
        ("{}", "is JSON, but not a rule"),
    ],
)
def test_other_files_are_refused(text, complaint, tmp_path):
    (tmp_path / "rule.json").write_text(text)
    with pytest.raises(FileError, match=complaint):
        read_rule(tmp_path)
    with pytest.raises(FileError, match="there is no such rule"):
        read_rule(tmp_path / "other.json")


def test_the_detector_is_named_by_a_path_from_the_folder_of_the_rule(tmp_path):
    (tmp_path / "a").mkdir()
    detector = tmp_path / "a" / "detector.npz"
    detector.write_bytes(b"numbers")
    for place, path in (("a", "detector.npz"), ("b", str(detector))):
        write_rule(made_rules(), tmp_path / place / "rule.json", detector=detector)
        saved = read_rule(tmp_path / place).origin.saved_detector
        assert saved.path == path
        assert len(saved.sha256) == 64


def test_the_shipped_schema_is_the_one_of_the_types():
    shipped = files("sightline.rules") / "rule.schema.json"
    assert json.loads(shipped.read_text(encoding="utf-8")) == json.loads(
        json.dumps(rule_schema())
    )


def test_a_rule_without_origin_can_be_written(tmp_path):
    made = replace(made_rules().deployed(), origin=None)
    write_rule(made, tmp_path / "rule.json")
    assert read_rule(tmp_path).origin is None


def test_a_real_file_obeys_the_schema_and_a_damaged_one_does_not(tmp_path):
    write_rule(made_rules(), tmp_path / "rule.json")
    text = (tmp_path / "rule.json").read_text()
    schema = rule_schema()
    assert violations(json.loads(text), schema) == []
    for path, value in {
        ("rule", "limit"): "high",
        ("rule", "members", 0, "view"): "y",
        ("rule", "delays", "off"): 1.5,
        ("promise", "usual_s"): None,
        ("rule", "views", 1, "weights"): [["a"]],
    }.items():
        values = inner = json.loads(text)
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value
        assert violations(values, schema), path


def test_a_rule_of_an_earlier_version_is_fixed_and_takes_units_out(tmp_path):
    write_rule(made_rules(), tmp_path / "rule.json")
    values = json.loads((tmp_path / "rule.json").read_text())
    del values["digest"], values["rule"]["night"]
    values["rule"]["shelves"] = True
    for view in values["rule"]["views"]:
        del view["usual"], view["spread"]
    values["schema"] = 1
    values["promise"] = dict(per_day=6.0, share=0.004, days=2.0, spread=2.5, alarms=12)
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    values["digest"] = hashlib.sha256(text.encode()).hexdigest()
    (tmp_path / "rule.json").write_text(json.dumps(values))
    rows = np.repeat(made_rules().chosen.rule.views[0].mean[None], 200, axis=0)
    rows[50:, 0] = 1e4
    made = read_rule(tmp_path)
    assert made.rule.night == 0
    assert made.rule.run(rows).n_out.any()
    # Its promise was for all time to come; now for a week, as wide as nothing is known.
    assert made.promise.days == 7.0
    low, high = made.promise.interval(7.0)
    assert low < 42 < high
