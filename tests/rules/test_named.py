"""Rules by name: words, members, and rules that other packages describe."""

from importlib.metadata import EntryPoint
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from sightline import ResidualStream, StreamError, commission, plugins
from sightline._kernels import alarms as compiled
from sightline.rules.named import (
    OTHER_WORDS,
    RULES,
    NamedRule,
    blank_member,
    default_rules,
    members_of,
    rule_words,
)
from sightline.rules.rule import Memory, View
from sightline.rules.standalone import PLAIN

DOCS = Path(__file__).parents[2] / "docs"
BY_NAME = list(plugins.OURS[plugins.RULES])
# What words of a member must say, and what only they may say.
SAYS = {
    Memory.AVERAGE: "averaged over the last minutes",
    Memory.CUSUM: "added up row by row",
    Memory.LOG_AVERAGE: "averaged over the last minutes",
    Memory.QUIET: "too small over the last minutes",
}


def test_every_name_has_words_that_say_view_and_memory():
    for rule in RULES.values():
        words = rule_words(rule.name)
        assert words.endswith(".")
        assert words != rule.name
        for memory, text in SAYS.items():
            is_said = SAYS.get(rule.memory) == text
            assert (text in words) == is_said, (rule.name, memory)
        if rule.view in (View.X, View.Z):
            assert "tag" in words
        if rule.view is View.ALL:
            assert "Deviation score" in words
        if rule.view is View.STAGE:
            assert "stage" in words
        for member in rule.members:
            assert f" {member}" in words.replace(",", "").replace(";", "")


def test_joined_names_and_names_without_a_channel_have_words():
    every = [*BY_NAME, "largest7", *OTHER_WORDS]
    assert len({rule_words(name) for name in every}) == len(every)
    for one, other in product(BY_NAME, repeat=2):
        words = rule_words(f"{one}+{other}")
        assert words == f"Rings if any of {one} and {other} is over its own limit."
    for name in every:
        without = rule_words(f"{name} without LIT 1+2")
        assert without == f"{rule_words(name)} Leaves out LIT 1+2."
    assert "The 7 tags" in rule_words("largest7")


def test_names_of_a_package_that_is_missing_say_so():
    assert "does not have" in rule_words("somebody's")


def test_every_name_is_explained_in_the_documentation():
    text = (DOCS / "alarm-rules.md").read_text(encoding="utf-8")
    assert not [name for name in BY_NAME if f"`{name}`" not in text]


def test_members_of_every_pair_are_rules_that_can_be_fitted():
    for one, other in product(BY_NAME, repeat=2):
        members = members_of(f"{one}+{other}", has_stages=True)
        assert len(set(members)) == len(members)
        for member in members:
            blank = blank_member(member, step_s=10.0)
            assert (blank.span > 0) == member.endswith("~")


def test_rules_without_stages():
    assert members_of("all", has_stages=False) == ("z", "x", "z~", "x~")
    assert not [n for n in default_rules(has_stages=False) if n.startswith("group")]
    with pytest.raises(StreamError, match="needs the stage of each channel"):
        members_of("z+group~", has_stages=False)
    with pytest.raises(StreamError, match="no rule 'kusum'; did you mean 'cusum'"):
        members_of("z+kusum", has_stages=True)


def test_compiled_loops_give_the_bits_of_plain_numpy():
    rng = np.random.default_rng(0)
    values = rng.standard_t(3, size=(500, 6))
    centre, allowance = rng.normal(size=6) / 10, rng.random(6) / 5
    bounds = np.array([0, 1, 4, 6])
    joint = rng.random(500) < 0.3

    def everything(loops):
        averaged, sums = values.copy(), values.copy()
        of_average, of_sums = np.zeros(8), np.zeros((2, 6))
        loops.average_rows(averaged, centre, 0.13, of_average)
        loops.accumulate_rows(sums, centre, allowance, of_sums)
        energies = np.empty((500, 3))
        loops.unit_energies(values, bounds, energies)
        largest, which = np.empty(500), np.empty(500, np.int64)
        loops.largest_unit(values, allowance, np.empty(6), largest, which)
        units, latch = np.zeros((6, 3), np.int64), np.zeros(3, np.int64)
        ringing, standing = np.abs(values).max(axis=1) / 0.9 / 1.1, np.zeros(500, bool)
        n_out, row, rows = np.zeros(500, np.int16), 0, []
        while row < 500:
            row = loops.serve_units(
                *(values, np.full(6, 0.9), 1.1, 2.0, 2, 7, 11, units, row),
                *(ringing, which, standing, n_out),
            )
            rows.append(row)
        alarms = np.empty(500, bool)
        loops.latch(joint, 2, 4, 3, latch, alarms)
        assert standing.any()
        assert len(rows) > 5
        assert alarms.any()
        return [
            *(averaged, sums, of_average, of_sums, energies, largest, which),
            *(units, ringing, standing, n_out, np.array(rows), latch, alarms),
        ]

    for one, other in zip(everything(PLAIN), everything(compiled), strict=True):
        assert one.tobytes() == other.tobytes()


# --- Rules of other packages ----------------------------------------------------------

MINE = NamedRule(
    name="z-cusum",
    words="Deviation of one tag from what the others tell of it, added up.",
    score="largest two-sided cumulative sum of a conditional deviation",
    view=View.Z,
    memory=Memory.CUSUM,
)


@pytest.fixture
def installed(monkeypatch):
    """Register a rule, and twice under a wrong name, as a package does."""
    entries = [
        EntryPoint(name, "tests.rules.test_named:MINE", plugins.RULES)
        for name in ("z-cusum", "other", "cusum")
    ]
    monkeypatch.setattr(plugins, "entry_points", lambda *, group: entries)
    plugins.registered.cache_clear()
    yield
    monkeypatch.undo()
    plugins.registered.cache_clear()


@pytest.mark.usefixtures("installed")
def test_a_rule_of_another_package_is_made_by_its_name():
    rows = np.random.default_rng(0).normal(size=(22_000, 3))
    stream = ResidualStream(rows[:2000], rows[2000:], step_s=10.0)
    made = commission(stream, budget="24/day", rules=["z-cusum", "z-cusum+x"])
    (member,) = made.rules["z-cusum"].rule.members
    assert (member.view, member.memory) == (View.Z, Memory.CUSUM)
    assert len(made.rules["z-cusum+x"].rule.members) == 2
    assert rule_words("z-cusum") == MINE.words
    assert rule_words("cusum") != MINE.words


@pytest.mark.usefixtures("installed")
def test_entry_points_that_are_no_rule_are_named():
    with pytest.raises(StreamError, match=r"TypeError: it is no NamedRule called 'oth"):
        members_of("other", has_stages=True)


@pytest.mark.parametrize(
    "change", [{"name": "a+b"}, {"words": ""}, {"view": None}, {"members": ("x",)}]
)
def test_descriptions_of_which_no_rule_can_be_made_are_refused(change):
    kind = {"name": "a", "words": "A.", "score": "a", "view": View.X}
    with pytest.raises(StreamError):
        NamedRule(**kind | change)
