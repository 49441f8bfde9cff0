"""Files, tables of the user, the command, the page, and bad input."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from blind_records import fitted, telemetry
from typer.testing import CliRunner

from sightline import Residuals, ResidualStream, find_blind_spots
from sightline.blindspots.files import (
    FoundSoFar,
    read_attacks,
    read_blind_spots,
    read_shapes,
    spots_folder,
    write_blind_spots,
)
from sightline.blindspots.result import (
    BlindSpot,
    BlindSpots,
    SpotOutcome,
    TradeOff,
    WhatIf,
    sentence,
)
from sightline.blindspots.shapes import train_tag
from sightline.cli.app import app
from sightline.errors import FileError, StreamError
from sightline.storage import read_results, write_stream

QUICK = ["--shapes", "step,frozen", "--durations", "1min,15min", "--rules", "energy,z"]


def found(**how):
    detector, train, test = fitted("var")
    how = {"shapes": ["step"], "durations_s": [60.0], **how}
    return find_blind_spots(detector, test, train=train, **how)


def run(*arguments):
    return CliRunner().invoke(app, ["blindspots", *map(str, arguments)])


@pytest.fixture(scope="module")
def plant(tmp_path_factory):
    """A plant's folder without any list of incidents."""
    folder = tmp_path_factory.mktemp("plants") / "pumps"
    folder.mkdir()
    start = np.datetime64("2026-03-01T00:00:00", "ms")
    for k, (name, n) in enumerate((("train", 9000), ("test", 30_000))):
        recording = telemetry(n, k + 1)
        time = start + np.arange(n) * np.timedelta64(10_000, "ms")
        start = time[-1] + np.timedelta64(10_000, "ms")
        columns = {
            tag: recording.values[:, j].round(4)
            for j, tag in enumerate(recording.channels)
        }
        pl.DataFrame({"time": time, **columns}).write_csv(folder / f"{name}.csv")
    (folder / "tags.csv").write_text(
        "tag,role,stage,unit,low,high\nLIT101,sensor,P1,mm,0,500\nFIT101,sensor,P1,,,\n"
        "AIT201,sensor,P2,,,\nPIT201,sensor,P2,,,\nP101,actuator,P1,,,\n"
    )
    return folder


# --- Records on disk ------------------------------------------------------------------


def test_what_is_written_is_what_is_read(tmp_path):
    spots = found()
    write_blind_spots(spots, tmp_path / "spots")
    assert read_blind_spots(tmp_path / "spots") == spots
    rows = pl.read_csv(tmp_path / "spots" / "blindspots.csv")
    assert rows.height == len(spots.spots)
    assert rows["size_50"][0] == pytest.approx(spots.spots[0].half.size)


def test_a_damaged_file_is_one_sentence(tmp_path):
    (tmp_path / "blindspots.json").write_text('{"name": 3}')
    with pytest.raises(FileError, match="holds no blind spots"):
        read_blind_spots(tmp_path)


def test_a_search_goes_on_where_it_was_and_a_cut_line_is_left_out(tmp_path):
    spots = found(durations_s=[60.0])
    kept = FoundSoFar(tmp_path / "a", "key")
    kept.add("LIT101", list(spots.spots[:2]))
    with open(kept.path, "ab") as file:
        file.write(b'\n{"key": "key", "target": "FIT101", "sp')
    kept.add("AIT201", [])
    assert kept.read() == {"LIT101": list(spots.spots[:2]), "AIT201": []}
    assert FoundSoFar(tmp_path / "a", "other").read() == {}


# --- The user's tables ----------------------------------------------------------------


def test_attacks_of_a_table_are_seen_as_often_as_they_should(tmp_path):
    path = tmp_path / "attacks.csv"
    path.write_text(
        "id,duration_s,tag,kind,value,rate\n"
        "far,900,LIT101,constant,200,\nnear,900,LIT101,bias,0.001,\n"
        "drift,900,FIT101,ramp,,1\nstill,900,AIT201,freeze,,\n"
        "again,900,PIT201,replay,900,\npump,900,P101,set,1,\n"
        "twice,900,LIT101,gain,2,\nonce,900,LIT101,gain,1,\n"
    )
    attacks = read_attacks(path)
    spots = found(attacks=attacks)
    seen = {(w.id, w.rule): w for w in spots.what_if}
    rules = {rule.name for rule in spots.rules}
    assert set(seen) == {(a.id, rule) for a in attacks for rule in rules}
    for rule in rules:
        assert seen["far", rule].share_seen == 1
        assert seen["far", rule].delay_s == 10
        assert seen["near", rule].share_seen == 0
        assert seen["drift", rule].share_seen == 1
        assert seen["twice", rule].share_seen == 1
        assert seen["once", rule].share_seen == 0
        assert seen["still", rule].text == "AIT201 stays at its last reading"


def test_places_whose_twin_is_in_alarm_throughout_do_not_count(tmp_path):
    detector, train, test = fitted("mean")
    values = test.values.copy()
    # Alarm after alarm, none so long that the tag is out of service.
    far = 50 * (np.arange(len(values)) % 335 < 300)
    values[24_000:28_000, 1] += far[24_000:28_000]
    later = replace(test, values=values)
    path = tmp_path / "attacks.csv"
    path.write_text("id,duration_s,tag,kind,value\nfar,900,LIT101,constant,200\n")
    attacks = read_attacks(path)
    how = {"train": train, "tags": ["LIT101"], "shapes": ["step"]}
    how |= {"durations_s": [60.0]}
    spots = find_blind_spots(detector, later, attacks=attacks, **how)
    (energy,) = (one for one in spots.what_if if one.rule == "energy")
    assert energy.share_seen == 1
    assert 28 <= energy.n_places < 40
    # Too few are left: a sentence, never a share.
    values[13_000:] = test.values[13_000:]
    values[13_000:, 1] += far[13_000:]
    spots = find_blind_spots(detector, later, attacks=attacks, **how)
    assert "energy" not in {one.rule for one in spots.what_if}
    assert any(
        "'far' is left out for the rule 'energy'" in note for note in spots.notes
    )


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("a,900,LIT101,constant,,", "needs a value"),
        ("a,900,LIT101,gain,,", "needs a value"),
        ("a,900,LIT101,melt,1,", "kind 'melt' is unknown"),
        ("a,,LIT101,constant,1,", "give duration_s"),
        ("a,-5,LIT101,constant,1,", "must be above 0"),
        ("a,900,LIT101,ramp,1,", "needs a rate"),
        ("a,900,LIT101,constant,much,", "is no number"),
    ],
)
def test_a_bad_attack_is_one_sentence_with_its_line(tmp_path, row, words):
    path = tmp_path / "attacks.csv"
    path.write_text(f"id,duration_s,tag,kind,value,rate\n{row}\n")
    with pytest.raises(FileError, match=words) as error:
        read_attacks(path)
    assert "line 2" in str(error.value)


def test_a_waterworks_scenario_can_be_given_as_it_is(tmp_path):
    from sightline.testbeds.waterworks import default_scenario, scenario_to_csv

    path = tmp_path / "scenario.csv"
    text = scenario_to_csv(default_scenario())
    path.write_text("\n".join(r for r in text.splitlines() if ",setpoint," not in r))
    assert len(read_attacks(path)) > 30


def test_an_attack_on_an_unknown_tag_is_left_out_by_name(tmp_path):
    path = tmp_path / "attacks.csv"
    path.write_text("id,duration_s,tag,kind,value\na,60,LIT100,constant,1\n")
    spots = found(attacks=read_attacks(path))
    assert not spots.what_if
    assert any("there is no tag 'LIT100'" in note for note in spots.notes)


def test_shapes_of_a_table_are_read(tmp_path):
    path = tmp_path / "shapes.csv"
    path.write_text("seconds,pulse,saw\n0,1,0\n60,1,1\n61,0,0\n")
    assert [shape.name for shape in read_shapes(path)] == ["pulse", "saw"]
    path.write_text("seconds,pulse\n0,x\n")
    with pytest.raises(FileError, match="line 2: pulse 'x' is no number"):
        read_shapes(path)


def test_a_tag_without_a_value_somewhere_hides_no_blind_spot():
    detector, train, test = fitted("var")
    values = np.array(test.values)
    values[[12_345, 30_001], [1, 3]] = np.nan
    how = {"shapes": ["step"], "durations_s": [60.0], "train": train}
    with_holes = find_blind_spots(detector, replace(test, values=values), **how)
    for one, other in zip(found().spots, with_holes.spots, strict=True):
        assert (one.tag, one.rule, one.outcome) == (
            other.tag,
            other.rule,
            other.outcome,
        )
        assert one.half.size == pytest.approx(other.half.size, rel=0.1)


# --- Ranges and tags ------------------------------------------------------------------


def test_a_reading_that_leaves_its_range_before_it_is_seen():
    detector, train, test = fitted("last-value")
    tags = [replace(t, low=95.0, high=105.0) for t in test.tags[:4]] + [test.tags[4]]
    train, test = replace(train, tags=tags), replace(test, tags=tags)
    spots = find_blind_spots(
        detector, test, train=train, shapes=["ramp"], durations_s=[3600.0]
    )
    slow = [s for s in spots.spots if s.rule == "energy" and s.tag == "LIT101"]
    assert {s.outcome for s in slow} == {SpotOutcome.NO_POSSIBLE_VALUE}
    for spot in slow:
        assert "to any possible value within 60 min: rule 'energy'" in sentence(spot)


def test_limits_that_are_not_given_are_taken_from_train():
    assert train_tag("a", 0, np.array([0.5, 3.0])).least == 0
    assert train_tag("a", 0, np.array([-0.5, 3.0])).least == -np.inf


def test_a_tag_that_never_moves_is_left_out_by_name():
    detector, train, test = fitted("mean")
    still = [
        replace(r, values=np.column_stack([r.values[:, :4], np.ones(r.n_steps)]))
        for r in (train, test)
    ]
    from sightline import make_detector

    detector = make_detector("mean").fit(still[0])
    spots = find_blind_spots(
        detector, still[1], train=still[0], shapes=["step"], durations_s=[60.0]
    )
    assert "P101" not in spots.tags
    assert any("P101 never moves" in note for note in spots.notes)
    with pytest.raises(StreamError, match="No tag is left to falsify: P101 never"):
        find_blind_spots(
            detector, still[1], train=still[0], shapes=["step"], tags=["P101"]
        )


# --- Detectors that cannot be used ----------------------------------------------------


class _Refuses:
    """Reads one continuous recording only."""

    def fit(self, recording, /):
        return self

    def residuals(self, recording, /):
        if len(recording.breaks) > 1:
            raise StreamError("`recording` must be one run.")
        values = recording.values - recording.values.mean()
        return Residuals(
            values=values, index=np.arange(len(values)), channels=recording.channels
        )


class _SeesAll(_Refuses):
    """Its residuals depend on the whole recording."""

    def residuals(self, recording, /):
        values = recording.values - recording.values.mean(axis=0)
        return Residuals(
            values=values, index=np.arange(len(values)), channels=recording.channels
        )


@pytest.mark.parametrize(
    ("kind", "words"),
    [(_Refuses, "refuses a recording that is cut"), (_SeesAll, "whole record")],
)
def test_a_detector_that_cannot_be_cut_is_one_sentence(kind, words):
    _, train, test = fitted("var")
    with pytest.raises(StreamError, match=words):
        find_blind_spots(kind(), test, train=train, shapes=["step"])


def test_unknown_names_and_too_few_places_are_one_sentence():
    detector, train, test = fitted("var")
    with pytest.raises(StreamError, match="no shape 'steep'; did you mean"):
        found(shapes=["steep"])
    with pytest.raises(StreamError, match="no tag 'LIT1'"):
        found(tags=["LIT1"])
    short = replace(
        test, values=test.values[:30_000], labels=None, time=None, breaks=None
    )
    labels = np.ones(30_000, np.int8)
    labels[:10_515] = 0
    short = replace(short, labels=labels)
    with pytest.raises(StreamError, match="10 are needed"):
        find_blind_spots(detector, short, train=train, shapes=["step"])


# --- The command ----------------------------------------------------------------------


def test_a_plant_without_incidents_in_one_command(plant, tmp_path):
    out = tmp_path / "blind"
    result = run(plant, "--detector", "var", "--out", out, *QUICK)
    assert result.exit_code == 0, result.output
    assert "misses this in half of" in result.output
    page = (out / "report.html").read_text("utf-8")
    # The summary names the largest blind spot; then come all of them, before the rest.
    summary, spots, rest = (
        page.index(f'id="{name}"') for name in ("glance", "blind-spots", "detectors")
    )
    assert summary < spots < rest
    assert "Largest blind spot" in page[summary:spots]
    assert "No incident is listed" in page
    results = read_results([out])
    assert results[0].blind_spots.tags[0] == "LIT101"
    # The same command again has nothing to train, and gives the same table.
    again = run(out, "--detector", "var", *QUICK)
    assert again.exit_code == 0, again.output
    assert read_results([out])[0].blind_spots == results[0].blind_spots
    assert not list((out / "blindspots").glob(".*"))


def test_a_redacted_page_holds_no_blind_spots(plant, tmp_path):
    from sightline import write_report

    out = tmp_path / "blind"
    assert run(plant, "--out", out, *QUICK).exit_code == 0
    page = write_report(out, tmp_path / "page.html", redact=True)
    text = page.read_text("utf-8")
    assert "What it could not see" not in text
    assert "LIT101" not in text


def test_a_stream_is_searched_in_residual_space_and_says_so(tmp_path):
    rng = np.random.default_rng(0)
    stream = ResidualStream(
        rng.normal(size=(3000, 3)), rng.normal(size=(30_000, 3)), step_s=10.0
    )
    write_stream(stream, tmp_path / "mine.npz")
    out = tmp_path / "out"
    result = run(tmp_path / "mine.npz", "--out", out, *QUICK)
    assert result.exit_code == 0, result.output
    assert "residual space" in " ".join(result.output.split())
    assert "The residual of" in result.output
    spots = read_blind_spots(spots_folder(out, "mine"))
    assert spots.is_residual
    assert {s.shape for s in spots.spots} == {"step"}


def test_a_search_that_fails_leaves_nothing(tmp_path):
    rng = np.random.default_rng(0)
    stream = ResidualStream(
        rng.normal(size=(300, 3)), rng.normal(size=(300, 3)), step_s=10.0
    )
    write_stream(stream, tmp_path / "short.npz")
    result = run(tmp_path / "short.npz", "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert "too few" in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["short.npz"]


@pytest.mark.parametrize(
    "change",
    [
        {"spots": [{"sign": 7}]},
        {"spots": [{"duration_s": 0.0}]},
        {"spots": [{"duration_s": -60.0}]},
        {"trade_off": [{"budget_per_day": 0.0}]},
        {"what_if": [{"duration_s": "long"}]},
        {"rules": 3},
    ],
)
def test_blind_spots_with_impossible_numbers_are_refused(tmp_path, change):
    spot = BlindSpot(
        tag="LIT101",
        shape="step",
        sign=1,
        duration_s=60.0,
        rule="z",
        outcome=SpotOutcome.SEEN,
        unit="m",
        n_places=40,
    )
    curve = TradeOff(
        rule="z", budget_per_day=6.0, alarms_per_day=6.0, duration_s=60.0, deviation=0.1
    )
    what = WhatIf(
        id="A", text="x", rule="z", duration_s=60.0, share_seen=1.0, n_places=40
    )
    made = BlindSpots(
        name="a",
        detector=None,
        testbed=None,
        budget="6/day",
        is_residual=False,
        is_linear=True,
        chosen="z",
        n_places=40,
        seed=0,
        days=1.0,
        rules=(),
        spots=(spot,),
        trade_off=(curve,),
        what_if=(what,),
    )
    path = write_blind_spots(made, tmp_path / "spots")
    assert read_blind_spots(path) == made
    values = json.loads(path.read_text())
    for key, other in change.items():
        if isinstance(other, list):
            values[key] = [values[key][0] | other[0]]
        else:
            values[key] = other
    path.write_text(json.dumps(values))
    with pytest.raises(FileError, match="holds no blind spots"):
        read_blind_spots(path)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nowhere", "--out", "x"], 1, "nowhere"),
        (["{plant}"], 2, "give --out"),
        (["{plant}", "--out", "x", "--durations", "soon"], 2, "give a time like"),
        (["{plant}", "--out", "x", "--shapes", "steep"], 1, "no shape 'steep'"),
        (["{plant}", "--out", "x", "--what-if", "none.csv"], 1, "none.csv"),
        (["{plant}", "--out", "x", "--budget", "much"], 1, "budget"),
    ],
)
def test_wrong_usage_is_one_sentence(
    plant, tmp_path, monkeypatch, arguments, code, words
):
    monkeypatch.chdir(tmp_path)
    result = run(*(str(plant) if a == "{plant}" else a for a in arguments))
    assert result.exit_code == code
    assert words in result.output.lower() or words in result.output
    assert "Traceback" not in result.output


def test_blind_spots_of_another_detector_do_not_stay_on_the_page(plant, tmp_path):
    out = tmp_path / "blind"
    assert run(plant, "--out", out, *QUICK).exit_code == 0
    path = spots_folder(out, "pumps-var-seed0") / "blindspots.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps(values | {"key": "other"}))
    result = CliRunner().invoke(
        app, ["run", str(plant), "--detectors", "var", "--out", str(out)]
    )
    assert result.exit_code == 0, result.output
    assert not path.exists()


def test_without_train_the_first_part_of_the_record_is_the_reference():
    detector, train, test = fitted("pca")
    with_train = find_blind_spots(
        detector, test, train=train, shapes=["step"], durations_s=[60.0]
    )
    without = find_blind_spots(detector, test, shapes=["step"], durations_s=[60.0])
    sizes = [
        {(s.tag, s.sign): s.half.size for s in one.of_rule("energy")}
        for one in (with_train, without)
    ]
    assert sizes[0] == pytest.approx(sizes[1], rel=0.2)


def test_the_chosen_rule_is_the_one_that_commissioning_chose():
    from sightline import commission
    from sightline.blindspots.search import rules_of
    from sightline.export import export_stream

    detector, train, test = fitted("var")
    made = commission(export_stream(detector, train, test), choose="z")
    rules, _, _ = rules_of(made)
    assert [rule.name for rule in rules] == ["energy", "all", "z"]
    found = find_blind_spots(
        detector, test, made, train=train, shapes=["step"], durations_s=[60.0]
    )
    assert found.chosen == "z"


def test_the_rule_that_one_has_is_judged_with_its_detector(plant, tmp_path):
    study, rule = tmp_path / "study", tmp_path / "rule"
    runner = CliRunner()
    made = runner.invoke(
        app, ["run", str(plant), "--detectors", "pca", "--out", str(study)]
    )
    assert made.exit_code == 0, made.output
    (stream,) = (study / "streams").glob("*.npz")
    chosen = ["--budget", "6/day,1%", "--choose", "z", "--out", str(rule)]
    made = runner.invoke(app, ["commission", str(stream), *chosen])
    assert made.exit_code == 0, made.output
    quick = ["--shapes", "step", "--durations", "15min"]
    seen = {}
    for place in (plant, study):
        out = tmp_path / f"of-{place.name}"
        result = run(place, "--rule", rule / "rule.json", "--out", out, *quick)
        assert result.exit_code == 0, result.output
        (spots,) = [one.blind_spots for one in read_results([out]) if one.blind_spots]
        assert [one.name for one in spots.rules] == ["z"]
        seen[place.name] = {(s.tag, s.sign): s.half.size for s in spots.spots}
    assert len({str(one) for one in seen.values()}) == 1
    both = run(plant, "--rule", rule, "--budget", "6/day", "--out", tmp_path / "c")
    assert both.exit_code == 2
    assert "brings its own budget" in both.output
