"""Plans: short, checked, and refused with a word on what was meant."""

from pathlib import Path

import pytest

from sightline.errors import FileError, StreamError
from sightline.study.plan import plan_of, read_plan
from sightline.study.run import names_of

PLAN = """
title = "Two on one"
seeds = [0, 7]

[evaluation]
guard = 30
intervals = false

[testbeds.plant]
testbed = "waterworks"
quick = true
drift = "mild"

[testbeds.swat]
root = "files/swat"
every = 10

[detectors.pca]

[detectors.long]
detector = "gdn"
preset = "official"
epochs = 100
rule = "none"

[detectors.long.on.swat]
epochs = 3
"""
SMALL = {"testbeds": {"waterworks": {}}, "detectors": {"pca": {}}}


def write(folder, text):
    path = folder / "study.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_plan_says_what_it_says(tmp_path):
    plan = read_plan(write(tmp_path, PLAN))
    assert (plan.title, plan.seeds) == ("Two on one", (0, 7))
    assert (plan.evaluation.guard, plan.evaluation.intervals) == (30, False)
    assert plan.evaluation.diagnosis
    plant, swat = plan.testbeds
    assert (plant.label, plant.testbed) == ("plant", "waterworks")
    assert dict(plant.options) == {"quick": True, "drift": "mild"}
    assert swat.root == tmp_path / "files/swat"
    pca, long = plan.detectors
    assert (pca.detector, pca.preset, pca.rule) == ("pca", None, None)
    assert (long.detector, long.preset, long.rule) == ("gdn", "official", "none")
    assert long.settings_on("plant") == {"epochs": 100}
    assert long.settings_on("swat") == {"epochs": 3}


def test_files_may_lie_elsewhere_than_the_plan_says(tmp_path):
    plan = read_plan(write(tmp_path, PLAN), roots={"swat": "/data/swat"})
    assert plan.testbeds[1].root == Path("/data/swat")


def test_a_folder_with_ones_own_plant_is_found_from_the_plan(tmp_path):
    text = '[testbeds.mine]\ntestbed = "plants/mine"\n[detectors.pca]\n'
    assert read_plan(write(tmp_path, text)).testbeds[0].testbed == str(
        tmp_path / "plants/mine"
    )


@pytest.mark.parametrize(
    ("where", "key", "near"),
    [
        ((), "seed", "seeds"),
        (("evaluation",), "guards", "guard"),
        (("testbeds", "waterworks"), "day_train", "days_train"),
        (("detectors", "gdn"), "epoch", "epochs"),
        (("detectors", "gdn", "on", "waterworks"), "epoch", "epochs"),
        (("detectors", "gdn", "on"), "waterwork", "waterworks"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest(where, key, near):
    values = {
        "testbeds": {"waterworks": {}},
        "detectors": {"gdn": {"on": {"waterworks": {}}}},
        "evaluation": {},
    }
    table = values
    for name in where:
        table = table[name]
    table[key] = {} if key == "waterwork" else 1
    with pytest.raises(StreamError, match=rf"'{key}'; did you mean '{near}'\?"):
        plan_of(values)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"testbeds": {}}, "names no testbeds"),
        ({"detectors": {}}, "names no detectors"),
        ({"detectors": {"gdnn": {}}}, "did you mean 'gdn'"),
        ({"detectors": {"a b": {"detector": "pca"}}}, "part of file names"),
        ({"detectors": {"../up": {"detector": "pca"}}}, "part of file names"),
        ({"detectors": {"pca": {"preset": "best"}}}, "`preset` must be one of"),
        ({"detectors": {"pca": {"seed": 3}}}, "for the whole study"),
        ({"detectors": {"pca": 3}}, "must be a table"),
        ({"seeds": []}, "different whole numbers"),
        ({"seeds": [1, 1]}, "different whole numbers"),
        ({"seeds": [-1]}, "different whole numbers"),
        ({"seeds": [True]}, "different whole numbers"),
        ({"seeds": ["0"]}, "different whole numbers"),
        ({"evaluation": {"guard": True}}, "`guard` must be a whole number"),
        ({"evaluation": {"guard": -1}}, "`guard` must be a whole number"),
        ({"evaluation": {"intervals": 1}}, "`intervals` must be True or False"),
    ],
)
def test_what_makes_no_study_is_refused(changed, told):
    with pytest.raises(StreamError, match=told):
        plan_of(SMALL | changed)


def test_a_root_of_no_testbed_is_refused():
    with pytest.raises(StreamError, match="did you mean 'waterworks'"):
        plan_of(SMALL, roots={"waterwork": "x"})


@pytest.mark.parametrize("text", ["seeds = [", "\xff"])
def test_a_file_that_is_no_toml_is_named(tmp_path, text):
    path = tmp_path / "study.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(FileError, match=r"study\.toml: is not valid TOML"):
        read_plan(path)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileError, match=r"nowhere\.toml"):
        read_plan(tmp_path / "nowhere.toml")


@pytest.mark.parametrize("name", ["paper", "waterworks", "batadal"])
def test_the_shipped_plans_are_plans(name):
    folder = Path(__file__).parents[2] / "studies"
    plan = read_plan(folder / f"{name}.toml")
    assert len(plan.detectors) >= 5
    if name == "paper":
        assert [t.label for t in plan.testbeds] == ["swat", "wadi", "hai"]
        assert plan.testbeds[2].options["release"] == "21.03"


def test_a_plan_is_restricted_to_pairs():
    plan = plan_of(
        {
            "testbeds": {"waterworks": {}, "tep": {}},
            "detectors": {"pca": {}, "var": {}, "mean": {}},
            "seeds": [0, 1],
        }
    )
    only = plan.restricted_to(["waterworks:pca", ":mean"])
    assert names_of(only) == [
        "waterworks-pca-seed0",
        "waterworks-pca-seed1",
        "waterworks-mean-seed0",
        "waterworks-mean-seed1",
        "tep-mean-seed0",
        "tep-mean-seed1",
    ]
    assert [d.label for d in only.detectors] == ["pca", "mean"]
    assert names_of(plan.restricted_to(["tep:"])) == [
        name for name in names_of(plan) if name.startswith("tep")
    ]
    for wrong in ("swat:pca", "waterworks", "tep:gdn"):
        with pytest.raises(StreamError, match=r"TESTBED:DETECTOR of this plan"):
            plan.restricted_to([wrong])
