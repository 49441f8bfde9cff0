"""A rule made again on what a watch has seen: the same rows give the same rule."""

import json
import sqlite3

import numpy as np
import pytest
from typer.testing import CliRunner
from watched_plants import (
    BEGIN,
    STEP_S,
    _no_waiting,  # noqa: F401
    made,
    write_export,
    write_rule_file,
)

from sightline import commission, read_rule, write_rule
from sightline.cli.app import app
from sightline.operation.recommission import recommission
from sightline.operation.watch import watch_folder
from sightline.operation.watch_state import WatchState
from sightline.rules.judging import SetAction
from sightline.rules.limits import Budget

pytestmark = pytest.mark.usefixtures("unrendered")
DAYS_S = 86_400.0
N = 7000


def invoke(*words):
    return CliRunner().invoke(app, [*map(str, words)])


def commissioning_rows():
    """Return the rows on which `watched_plants.made` set its limit."""
    return np.concatenate(
        [np.asarray(c) for c in made().source.calm.tables[0].rows.chunks()]
    )


def watched(folder, rows, rule=None, n_files=3):
    """Let a watch read rows in some files; return its state."""
    exports = folder / "exports"
    exports.mkdir(exist_ok=True)
    times = BEGIN + STEP_S * np.arange(len(rows))
    for k, part in enumerate(np.array_split(np.arange(len(rows)), n_files)):
        write_export(exports / f"{k}.csv", times[part], rows[part])
    rule = write_rule_file(folder) if rule is None else rule
    watch_folder(rule, exports, folder / "state.db", settle_s=0.0)
    return folder / "state.db"


def test_the_same_rows_give_the_same_rule_to_the_last_bit(tmp_path):
    rows = commissioning_rows()
    # Earlier rows, which do not count.
    state = watched(tmp_path, np.concatenate([3 * rows[:2000], rows]))
    before = state.read_bytes()
    again = recommission(state, last_s=len(rows) * STEP_S)
    assert state.read_bytes() == before
    old, new = made().chosen.rule, again.made.rule
    assert new.limit == old.limit
    assert again.made.promise == made().chosen.promise
    for a, b in zip(old.members, new.members, strict=True):
        assert a.limit == b.limit
        for name in ("centre", "levels"):
            assert getattr(a, name).tobytes() == getattr(b, name).tobytes()
    (one, other) = again.rows
    assert one.outcome.load == other.outcome.load
    assert (one.step, one.sight) == (other.step, other.sight)
    assert again.set_choice.action is SetAction.KEEP
    (earlier,) = again.made.origin.history
    assert (earlier.name, earlier.limit) == (old.name, old.limit)


def test_verdicts_and_unexplained_episodes_decide_which_rows_count(tmp_path):
    rows = commissioning_rows()
    places = {"real": 1000, "false": 2000, "maintenance": 3000}
    for row in (*places.values(), 4000):
        rows[row, 0] += 100.0
    state = watched(tmp_path, rows)
    with_nothing = recommission(state, last_s=10 * DAYS_S)
    assert len(with_nothing.choice.episodes) == 4
    ids = {}
    for alarm in (store := WatchState(state, 4)).alarms():
        row = round((alarm.start - BEGIN) / STEP_S)
        ids |= {v: alarm.id for v, at in places.items() if row == at}
    store.close()
    for verdict, id_ in ids.items():
        done = invoke("alarm", "ack", state, id_, "--by", "Kim", "--as", verdict)
        assert done.exit_code == 0, done.output
    again = recommission(state, last_s=10 * DAYS_S)
    (aside,) = again.choice.episodes
    assert aside.rows[0] == 4000
    assert again.rows[0].outcome.attacks.which == (ids["real"],)
    labels = again.stream.labels
    assert [labels[row] for row in places.values()] == [1, 0, -1]
    assert again.stream.reviewed_normal[2000]


def test_a_rule_that_rings_too_often_gives_way_by_one_command(tmp_path):
    """Three times as rough: the new rule is written, the old one goes on until then."""
    state = watched(tmp_path, 3 * commissioning_rows())
    out = tmp_path / "new"
    done = invoke("recommission", state, "--last", "3d", "--out", out)
    assert done.exit_code == 0, done.output
    text = " ".join(done.stdout.split())
    made_again = read_rule(out)
    assert made_again.origin.advice in text
    assert "Replace the rule in use by rule 'all'" in text
    # No alarm was acknowledged, so that none is known to be false.
    assert "false" not in text.partition("All on the same rows")[0]
    command = f"sightline watch {out} --folder {tmp_path / 'exports'} --state {state}"
    assert f"The rule in use stays in use. To take the new one: {command}" in text
    assert made_again.rule.budget == Budget.parse("12/day,3%")
    store = WatchState(state, 4)
    n_rules = len(json.loads(store.about()["rules"]))
    store.close()
    assert n_rules == 1
    assert invoke(*command.split()[1:], "--exit-zero").exit_code == 0
    again = recommission(state, last_s=3 * DAYS_S)
    assert len(again.made.origin.history) == 2
    store = WatchState(state, 4)
    assert len(json.loads(store.about()["rules"])) == 2
    store.close()
    # Nothing is written over.
    done = invoke("recommission", state, "--last", "3d", "--out", out)
    assert done.exit_code == 1
    assert "--overwrite" in done.stderr


def test_a_model_that_no_longer_fits_gives_no_rule(tmp_path):
    state = watched(tmp_path, 30 * commissioning_rows())
    out = tmp_path / "new"
    done = invoke("recommission", state, "--last", "30d", "--out", out)
    assert done.exit_code == 4, done.output
    text = " ".join(done.stdout.split())
    assert "Train on later rows. No rule was written. Next: train" in text
    assert not list(out.glob("*"))


def test_a_reviewed_list_is_taken_in_addition(tmp_path):
    rows = commissioning_rows()
    for row in (500, 1500, 2300):
        rows[row : row + 2, 0] += 300.0
    state = watched(tmp_path, rows)
    words = ("recommission", state, "--last", "30d", "--out", tmp_path / "new")
    first = invoke(*words)
    assert first.exit_code == 4, first.output
    assert "Look at 3 episodes first" in first.stdout
    review = tmp_path / "new" / "review.csv"
    review.write_text(review.read_text().replace("unknown", "incident"))
    done = invoke(*words, "--incidents", review, "--overwrite")
    assert done.exit_code == 0, done.output
    assert "3 of 3 reviewed episodes are decided 'incident'" in done.stdout
    assert "unexplained" not in done.stdout
    assert " of 3" in done.stdout.split("- The new rule")[0]


def test_what_cannot_be_made_again_is_one_sentence(tmp_path):
    state = watched(tmp_path, commissioning_rows()[:3000])
    out = ("--out", tmp_path / "new")

    def said(*words, code=1):
        done = invoke("recommission", *words, *out)
        assert done.exit_code == code, done.output
        return " ".join((done.stderr or done.output).split())

    assert "hours are missing" in said(state, "--last", "2h")
    assert "give a time like" in said(state, "--last", "soon", code=2)
    assert "there is no such state" in said(tmp_path / "no.db")
    assert "--folder" in said(state, "--folder", tmp_path / "nowhere")
    other = commission(made().source.stream, budget="6/day", choose="z")
    write_rule(other, tmp_path / "other.json")
    assert "is not the rule that" in said(state, "--rule", tmp_path / "other.json")
    database = sqlite3.connect(state)
    database.execute("DELETE FROM about WHERE key IN ('folder', 'rule_path')")
    # A version that had no digests: else it would be refused as edited.
    database.execute("PRAGMA user_version = 3")
    database.commit()
    database.close()
    assert "give --rule" in said(state)
    known = ("--rule", tmp_path / "rule.json", "--folder", tmp_path / "exports")
    words = ("recommission", state, *known, "--last", "2d", *out)
    assert invoke(*words).exit_code in (0, 4)
