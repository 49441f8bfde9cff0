"""Scenarios: the shipped tables, files that say the same, and what is refused."""

import json
import string
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from water_accounts import water_of

from sightline.errors import FileError, StreamError
from sightline.testbeds.twin.scenario import ActionKind
from sightline.testbeds.waterworks import (
    SETPOINTS,
    Action,
    PlannedAttack,
    Scenario,
    default_scenario,
    quick_scenario,
    read_scenario,
    scenario_to_csv,
    simulate,
)
from sightline.testbeds.waterworks.plant import (
    ACTUATORS,
    COLUMN,
    HEIGHT_MM,
    SENSORS,
)

KINDS = set(ActionKind) - {"disturbance"}
HEADER = "id,start_s,duration_s,tag,kind,value,rate,note\n"
numbers = st.floats(-1e6, 1e6, allow_subnormal=False)


@st.composite
def actions(draw, longest):
    kind = draw(st.sampled_from([k for k in sorted(KINDS) if k != "replay" or longest]))
    rate = draw(numbers.filter(bool)) if kind in ("ramp", "bias") else None
    if kind == "set":
        tag, value = draw(st.sampled_from(ACTUATORS)), draw(st.sampled_from([1, 2]))
    elif kind == "setpoint":
        tag, value = draw(st.sampled_from(list(SETPOINTS))), draw(numbers)
    else:
        tag = draw(st.sampled_from(SENSORS))
        value = {
            "constant": numbers,
            "gain": numbers,
            "replay": st.just(longest),
            "freeze": st.none(),
        }.get(kind, st.none() | numbers)
        value = draw(value)
    return Action(tag=tag, kind=kind, value=value, rate=rate)


@st.composite
def scenarios(draw):
    attacks, clock = [], 1
    for number in range(draw(st.integers(0, 4))):
        start = clock + draw(st.integers(0, 5000))
        duration = draw(st.integers(1, 5000))
        longest = start if duration <= start else 0
        acts = draw(
            st.lists(
                actions(longest), min_size=1, max_size=3, unique_by=lambda a: a.tag
            )
        )
        note = draw(st.text(string.printable.strip() + "ü,;\"'\\ ", max_size=20))
        attacks.append(
            PlannedAttack(
                id=f"a{number}",
                start_s=start,
                duration_s=duration,
                actions=tuple(acts),
                note=note.strip(),
            )
        )
        clock = start + duration
    return Scenario(attacks=tuple(attacks))


def stages_of(attack):
    """The stages that an attack acts on, each once: P1 to P6."""
    return tuple(dict.fromkeys(f"P{tag[-3]}" for tag in attack.targets))


def family_of(attack):
    """The class of an attack in SWaT's list, by stages and points: SSSP to MSMP."""
    stages = stages_of(attack)
    if len(stages) == 1:
        return "SSSP" if len(attack.targets) == 1 else "SSMP"
    return "MSSP" if len(attack.targets) == len(stages) else "MSMP"


def as_toml(scenario):
    """A scenario as a user writes it; a string of JSON is one of TOML."""
    lines = []
    for attack in scenario.attacks:
        for header, record in [
            ("[[attack]]", attack),
            *(("[[attack.action]]", action) for action in attack.actions),
        ]:
            fields = {k: v for k, v in vars(record).items() if v is not None}
            fields.pop("actions", None)
            lines.append(header)
            lines += [
                f"{k} = {json.dumps(v, ensure_ascii=False)}" for k, v in fields.items()
            ]
    return "\n".join(lines).replace("\x7f", "\\u007f")


@settings(max_examples=50, deadline=None)
@given(scenario=scenarios())
def test_csv_and_toml_say_the_same(scenario, tmp_path_factory):
    folder = tmp_path_factory.mktemp("scenario")
    (folder / "s.csv").write_text(scenario_to_csv(scenario), encoding="utf-8")
    (folder / "s.toml").write_text(as_toml(scenario), encoding="utf-8")
    assert read_scenario(folder / "s.csv") == scenario
    assert read_scenario(folder / "s.toml") == scenario


@settings(max_examples=15, deadline=None)
@given(scenario=scenarios())
def test_whatever_is_done_the_plant_obeys_its_laws(scenario):
    days = 20_000 / 86_400
    made = simulate(
        days_train=0.01, days_test=days, scenario=scenario.within(round(days * 86_400))
    )
    assert np.isfinite(made.test.values).all()
    for tag in ACTUATORS:
        assert set(made.test.values[:, COLUMN[tag]]) <= {0.0, 1.0, 2.0}
    water = water_of(made)
    assert abs(water.error) < 1e-9
    for tank in water.tanks:
        assert abs(tank.error) < 1e-9
        assert 0.0 <= tank.lowest <= tank.highest <= HEIGHT_MM + 1e-9
    # What an attacker forges is all that recorded and true values differ in.
    forged = {tag for attack in made.scenario.attacks for tag in attack.forged_tags}
    differs = (made.true_values != made.test.values).any(axis=0)
    assert {tag for tag in COLUMN if differs[COLUMN[tag]]} <= forged


def test_the_default_has_at_least_36_attacks_of_every_family():
    attacks = default_scenario().attacks
    assert len(attacks) >= 36
    kinds = {action.kind for attack in attacks for action in attack.actions}
    assert kinds == KINDS - {"gain"}
    assert {family_of(a) for a in attacks} == {"SSSP", "SSMP", "MSSP", "MSMP"}
    assert {stage for attack in attacks for stage in stages_of(attack)} == {
        f"P{number}" for number in range(1, 7)
    }


def test_the_default_has_durations_and_gaps_like_swat():
    attacks = default_scenario().attacks
    durations = [attack.duration_s for attack in attacks]
    assert sum(100 <= duration <= 1800 for duration in durations) >= 0.9 * len(attacks)
    assert sum(duration > 2 * 3600 for duration in durations) == 1
    assert attacks[-1].stop_s <= 4 * 86_400
    gaps = [after.start_s - before.stop_s for before, after in pairwise(attacks)]
    assert min(gaps) >= 1800
    longest = durations.index(max(durations))
    assert gaps[longest] >= 2 * 3600


def test_the_page_lists_the_default_attacks():
    page = (Path(__file__).parents[3] / "docs" / "waterworks.md").read_text("utf-8")
    for attack in default_scenario().attacks:
        acts = ", ".join(described(action) for action in attack.actions)
        row = f"| {attack.id} | {clock_of(attack)} | {acts} | {attack.note} |"
        assert row in page


def described(action):
    parts = [action.tag, action.kind]
    if action.value is not None:
        parts.append(f"{action.value:g}")
    if action.rate is not None:
        parts.append(f"{action.rate:+g}/s")
    return " ".join(parts)


def clock_of(attack):
    day, second = divmod(attack.start_s, 86_400)
    start = f"{day + 1}, {second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
    return f"{start} | {attack.duration_s}"


def test_shorter_runs_have_the_attacks_that_fit():
    day = default_scenario(1).attacks
    assert 0 < len(day) < len(default_scenario(2).attacks)
    assert day[-1].stop_s <= 86_400
    assert len(quick_scenario().attacks) == 12


def test_attacks_are_sorted_by_time():
    late, early = (
        PlannedAttack(
            id=name,
            start_s=start,
            duration_s=10,
            actions=(Action(tag="P101", kind="set", value=1),),
        )
        for name, start in (("late", 500), ("early", 100))
    )
    assert [a.id for a in Scenario(attacks=(late, early)).attacks] == ["early", "late"]


CASES = {
    "unknown tag": ("1,10,5,LIT999,constant,1,,", r"line 2: 'LIT999' is no sensor"),
    "an actuator is no sensor": ("1,10,5,P101,constant,1,,", "'P101' is no sensor"),
    "a sensor is no actuator": ("1,10,5,LIT101,set,1,,", "'LIT101' is no actuator"),
    "unknown set-point": ("1,10,5,LIT101,setpoint,1,,", "is no set-point"),
    "unknown kind": (
        "1,10,5,LIT101,melt,1,,",
        "kind 'melt' is unknown; use set, ",
    ),
    "no such plant": (
        "1,10,5,IDV1,disturbance,,,",
        r"is no disturbance, .* use one of \(this plant has none\)",
    ),
    "no gain": ("1,10,5,LIT101,gain,,,", "needs a value"),
    "illegal state": ("1,10,5,MV101,set,0,,", "MV101 cannot be set to 0: use 1"),
    "no value": ("1,10,5,LIT101,constant,,,", "needs a value"),
    "no rate": ("1,10,5,LIT101,ramp,,,", "needs a rate other than 0"),
    "no bias": ("1,10,5,LIT101,bias,,,", "needs a value or a rate"),
    "not finite": ("1,10,5,LIT101,constant,inf,,", "must be finite"),
    "no number": (
        "1,10,5,LIT101,constant,high,,",
        "value must be a number; got",
    ),
    "negative duration": ("1,10,-5,P101,set,1,,", "must last 1 s or more; got -5"),
    "half a second": ("1,10.5,5,P101,set,1,,", "start_s must be whole seconds"),
    "at once": ("1,0,5,P101,set,1,,", "must start 1 s or more into the run"),
    "no id": (",10,5,P101,set,1,,", "needs an id"),
    "replay too short": ("1,99,5,LIT101,replay,3,,", "at least its duration"),
    "replay too far": ("1,99,5,LIT101,replay,100,,", "at most its start"),
    "replay half": ("1,99,5,LIT101,replay,5.5,,", "whole seconds back"),
    "twice": ("1,10,5,P101,set,1,,\n1,10,5,P101,set,2,,", "acts on P101 twice"),
    "overlap": (
        "1,10,5,P101,set,1,,\n2,14,5,P102,set,1,,",
        "attack 2 starts at 14 s, before attack 1 ends at 15 s: move one",
    ),
    "two starts": (
        "1,10,5,P101,set,1,,\n1,30,5,P102,set,1,,",
        "line 3: attack 1 has another start or duration",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_faulty_table_is_refused_in_one_sentence(case, tmp_path):
    rows, words = CASES[case]
    path = tmp_path / "s.csv"
    path.write_text(HEADER + rows + "\n", encoding="utf-8")
    with pytest.raises(FileError, match=words) as told:
        read_scenario(path)
    assert str(told.value).startswith(str(path))
    assert "\n" not in str(told.value)


def test_columns_that_are_not_needed_may_be_left_out(tmp_path):
    path = tmp_path / "s.csv"
    path.write_text("kind,tag,duration_s,start_s,id\nfreeze,LIT101,5,10,x\n")
    (attack,) = read_scenario(path).attacks
    assert attack.actions == (Action(tag="LIT101", kind="freeze"),)


TOML_CASES = {
    "syntax": ("[[attack]\n", "is not valid TOML"),
    "other table": ("[plan]\n", r"holds \[\[attack\]\] tables and nothing else"),
    "missing key": ("[[attack]]\nid = 1\n", "start_s, duration_s, action is missing"),
    "unknown key": (
        "[[attack]]\nid = 1\nstart_s = 9\nduration_s = 5\nend = 3\naction = []\n",
        "attack table 1: has an unknown key 'end'; use id, ",
    ),
    "no action": (
        "[[attack]]\nid = 1\nstart_s = 9\nduration_s = 5\naction = []\n",
        "does nothing",
    ),
    "actions as text": (
        '[[attack]]\nid = 1\nstart_s = 9\nduration_s = 5\naction = "x"\n',
        r"action must be \[\[attack.action\]\] tables",
    ),
}


@pytest.mark.parametrize("case", TOML_CASES)
def test_a_faulty_toml_file_is_refused_in_one_sentence(case, tmp_path):
    text, words = TOML_CASES[case]
    path = tmp_path / "s.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FileError, match=words):
        read_scenario(path)


def test_files_that_are_none_are_refused(tmp_path):
    with pytest.raises(FileError, match=r"a \.csv or \.toml file"):
        read_scenario(tmp_path / "s.json")
    with pytest.raises(FileError, match="cannot be read"):
        read_scenario(tmp_path / "s.csv")
    (tmp_path / "s.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileError, match="is not UTF-8"):
        read_scenario(tmp_path / "s.csv")
    (tmp_path / "s.csv").write_text(f"{HEADER}{'x' * 200_000}\n")
    with pytest.raises(FileError, match="is not CSV"):
        read_scenario(tmp_path / "s.csv")
    (tmp_path / "e.csv").write_text("id,start_s\n")
    with pytest.raises(FileError, match="column duration_s, tag, kind is missing"):
        read_scenario(tmp_path / "e.csv")


def test_ids_are_used_once():
    action = Action(tag="P101", kind="set", value=1)
    one, other = (
        PlannedAttack(id="x", start_s=start, duration_s=5, actions=(action,))
        for start in (10, 100)
    )
    with pytest.raises(StreamError, match="attack x is there twice"):
        Scenario(attacks=(one, other))
