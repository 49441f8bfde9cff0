"""Entry points: ours are registered like those of a package of somebody else."""

import configparser
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from sightline import (
    ResidualStream,
    StreamError,
    commission,
    list_detectors,
    list_testbeds,
    make_detector,
    plugins,
)
from sightline.detectors import DETECTORS
from sightline.rules.named import rule_words
from sightline.testbeds import READERS, SIMULATED

ROOT = Path(__file__).parents[1]
METADATA = "Metadata-Version: 2.1\nName: made-up-plugin\nVersion: 1.0\n"
BROKEN = """
[sightline.detectors]
broken = my_detectors:Absent
gdn = my_detectors:Median
"""
PLAN = """\
[testbeds.basin]
n_steps = 2000

[detectors.median]

[evaluation]
intervals = false
diagnosis = false
"""


def block_of_the_page(word):
    """Return the code that docs/own-detector.md shows with this word in it."""
    page = (ROOT / "docs" / "own-detector.md").read_text("utf-8")
    (code,) = [
        code
        for code in re.findall(r"^```\w+\n(.*?)^```$", page, re.M | re.S)
        if word in code
    ]
    return code


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with the page's package installed; no network is needed for that."""
    folder = tmp_path_factory.mktemp("site")
    info = folder / "made_up_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(METADATA)
    project = tomllib.loads(block_of_the_page("project.entry-points"))["project"]
    entries = configparser.ConfigParser()
    entries.read_string(BROKEN)
    for group, names in project["entry-points"].items():
        entries.read_dict({group: names})
    with (info / "entry_points.txt").open("w") as file:
        entries.write(file)
    (folder / "my_detectors.py").write_text(block_of_the_page("class Median"))
    (folder / "my_basin.py").write_text(block_of_the_page("def simulate"))
    (folder / "my_rules.py").write_text(block_of_the_page("steady = NamedRule("))
    return folder


@pytest.fixture
def installed(site, monkeypatch):
    """This process with the package installed."""
    monkeypatch.syspath_prepend(str(site))
    forget = plugins.registered.cache_clear
    forget()
    yield
    forget()
    for module in ("my_detectors", "my_basin", "my_rules"):
        sys.modules.pop(module, None)


def sightline(site, *arguments, **options):
    """Run the command in a process that has the package installed."""
    path = os.pathsep.join([str(site), str(ROOT / "src")])
    return subprocess.run(
        [sys.executable, "-m", "sightline", *arguments],
        env=os.environ | {"PYTHONPATH": path, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=600,
        **options,
    )


def test_ours_are_the_entry_points_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["entry-points"] == plugins.OURS
    assert project["name"] == plugins.DISTRIBUTION


@pytest.mark.parametrize("name", plugins.OURS[plugins.DETECTORS])
def test_our_detectors_load_by_their_entry_points(name):
    entry = plugins.registered(plugins.DETECTORS)[name]
    assert entry.load() is DETECTORS[name]
    assert DETECTORS[name].card.name == name


def test_our_testbeds_are_readers_or_modules_that_simulate():
    ours = plugins.OURS[plugins.TESTBEDS]
    assert [card.name for card in list_testbeds()] == list(ours)
    assert [*READERS, *SIMULATED] == list(ours)
    for name in READERS:
        assert READERS[name].card.name == name


def test_a_detector_of_another_package_is_one_of_all(installed):
    assert list_detectors()[-1].name == "median"
    assert make_detector("median", every=2).settings.every == 2


def test_a_broken_plug_in_is_named_and_breaks_no_other(installed):
    assert "broken" not in [card.name for card in list_detectors()]
    with pytest.raises(StreamError, match=r"'broken' .*made-up-plugin.*Absent"):
        make_detector("broken")


def test_a_rule_of_another_package_is_made_and_has_its_words(installed):
    rng = np.random.default_rng(0)
    normal = rng.normal(size=(20_000, 3))
    stream = ResidualStream(
        train=normal[:8000],
        test=normal[8000:],
        labels=np.zeros(12_000, int),
        step_s=60.0,
    )
    made = commission(stream, rules=["steady"])
    assert "steady" in made.rules
    assert rule_words("steady").startswith("Deviation of one tag from what the others")


def test_no_package_takes_a_name_of_ours(installed):
    assert DETECTORS["gdn"].card.title == "GDN"


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("my_detectors:np", "no subclass"),
        ("my_detectors:Baseline", "AttributeError"),
        ("made_up_nothing:Median", "ModuleNotFoundError"),
        ("my_detectors:Median", "its card is that of 'median'"),
    ],
)
def test_what_is_no_detector_says_so(installed, monkeypatch, what, reason):
    entry = plugins.EntryPoint("other", what, plugins.DETECTORS)
    monkeypatch.setattr(plugins, "registered", lambda group: {"other": entry})
    with pytest.raises(StreamError, match=reason):
        DETECTORS["other"]


def test_commands_list_the_plug_ins(site):
    detectors = sightline(site, "detectors")
    assert detectors.returncode == 0, detectors.stderr
    assert "median" in detectors.stdout
    assert "'broken' of sightline.detectors" in detectors.stdout
    assert "Median" in sightline(site, "detectors", "median").stdout
    testbeds = sightline(site, "testbeds")
    assert testbeds.returncode == 0, testbeds.stderr
    assert "\nbasin\n" in testbeds.stdout


def test_a_study_of_plug_ins(site, tmp_path):
    (tmp_path / "plan.toml").write_text(PLAN)
    done = sightline(site, "study", "plan.toml", "--out", "study", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    path, *_ = (tmp_path / "study").rglob("evaluation.json")
    meta = json.loads(path.read_text())["provenance"]["meta"]
    assert (meta["detector_name"], meta["detector_testbed"]) == ("median", "basin")
