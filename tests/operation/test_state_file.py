"""The file of a watch: damage and edits are refused, a full disk is survived."""

import shutil
import sqlite3
import time as clock

import numpy as np
import pytest
from typer.testing import CliRunner
from watched_plants import (
    BEGIN,
    STEP_S,
    _no_waiting,  # noqa: F401
    dump,
    residuals,
    write_pieces,
    write_rule_file,
)

from sightline.cli.app import app
from sightline.errors import FileError
from sightline.operation.state_file import SCHEMA
from sightline.operation.watch import watch_folder
from sightline.operation.watch_state import WatchState

N_ROWS = 1500
TABLES = (
    *("about", "files", "runs", "hours", "episodes", "stretches", "unwatched", "live"),
    *("alarms", "changes"),
)


def watched(plant):
    return watch_folder(plant / "rule.json", plant / "exports", plant / "state.db")


@pytest.fixture(scope="module")
def watched_plant(tmp_path_factory):
    """Return a plant whose state has rows in every table, and one file to be read."""
    plant = tmp_path_factory.mktemp("plant")
    write_rule_file(plant)
    rows, time = residuals(N_ROWS), BEGIN + STEP_S * np.arange(N_ROWS)
    time[900:] += 7200.0
    rows[560:640] = np.nan
    write_pieces(plant / "exports", time, rows, [700, 1300])
    last = plant / "exports" / "part002.csv"
    last.rename(plant / "later.csv")
    watched(plant)
    (plant / "later.csv").rename(last)
    with sqlite3.connect(plant / "state.db") as database:
        counts = {
            name: database.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
            for name in TABLES
        }
    database.close()
    assert all(counts.values()), counts
    return plant


@pytest.fixture
def plant(watched_plant, tmp_path):
    return shutil.copytree(watched_plant, tmp_path / "plant")


def changed(plant, *statements):
    with sqlite3.connect(plant / "state.db") as database:
        for statement in statements:
            database.execute(statement)
    database.close()


def sentence(plant):
    """Return what is said of a state that is refused, by each command that reads it."""
    said = []
    for words in (
        ("watch", "rule.json", "--folder", "exports", "--state", "state.db"),
        ("alarm", "list", "state.db"),
    ):
        paths = [str(plant / w) if "." in w or w == "exports" else w for w in words]
        done = CliRunner().invoke(app, paths)
        assert done.exit_code == 1, done.output
        assert isinstance(done.exception, SystemExit)
        said.append(" ".join(done.stderr.split()))
        assert said[-1].count(". ") <= 1
    return said[0]


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE {t} SET {last} = {last} || 'x'",
        "UPDATE {t} SET {last} = x'00ff'",
        "DELETE FROM {t} WHERE rowid = (SELECT max(rowid) FROM {t})",
        "DELETE FROM {t}",
        "DROP TABLE {t}",
    ],
)
def test_an_edited_table_is_refused_with_the_way_to_repair(plant, table, change):
    with sqlite3.connect(plant / "state.db") as database:
        rows = database.execute(f"PRAGMA table_info({table})").fetchall()
    names = [row[1] for row in rows]
    changed(plant, change.format(t=table, last=names[-1]))
    said = sentence(plant)
    assert "is no state of a watch, or was damaged or edited" in said
    assert "move it and alarms.jsonl away and run `sightline watch` again" in said


ENDLESS = (
    "WITH RECURSIVE n(i, j) AS (SELECT 1, 1 UNION ALL SELECT i + 1, 1 FROM n) "
    "SELECT 'rule', max(i) FROM n"
)


@pytest.mark.parametrize(
    "statements",
    [
        ("DROP TABLE about", f"CREATE VIEW about(key, value) AS {ENDLESS}"),
        ("CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM files; END",),
        ("CREATE TABLE mine (x)",),
        ("CREATE INDEX mine ON files (note)",),
        ("ALTER TABLE runs ADD COLUMN more TEXT DEFAULT 'x'",),
        ("DROP TABLE runs", "CREATE TABLE runs (first REAL PRIMARY KEY, last REAL)"),
    ],
)
def test_what_is_no_table_of_ours_is_refused_at_once(plant, statements):
    changed(plant, *statements)
    begun = clock.process_time()
    assert "is no state of a watch, or was damaged or edited" in sentence(plant)
    assert clock.process_time() - begun < 5


def test_no_flip_of_a_byte_goes_unnoticed(plant):
    """A flip is refused in a sentence, or nothing of the content has changed."""
    state = plant / "state.db"
    before, content = dump(state), state.read_bytes()
    rng, refused = np.random.default_rng(0), []
    for place in rng.integers(0, len(content), 150).tolist():
        flipped = bytearray(content)
        flipped[place] ^= 1 << int(rng.integers(8))
        state.write_bytes(bytes(flipped))
        try:
            assert dump(state) == before, place
        except FileError as error:
            refused.append(str(error))
    assert len(refused) > 50
    assert all("\n" not in said and "repair" not in said for said in refused)
    state.write_bytes(content)
    assert watched(plant).read == ("part002.csv",)


def test_a_state_of_before_gets_a_digest_with_its_next_transaction(plant):
    before = dump(plant / "state.db")
    changed(plant, "DELETE FROM about WHERE key = 'digest'", "PRAGMA user_version = 3")
    assert dump(plant / "state.db") == before
    assert watched(plant).read == ("part002.csv",)
    changed(plant, "UPDATE runs SET last = last + 1")
    assert "not those of the last transaction" in sentence(plant)
    changed(plant, "UPDATE runs SET last = last - 1")
    assert watched(plant).read == ()
    with sqlite3.connect(plant / "state.db") as database:
        assert database.execute("PRAGMA user_version").fetchone() == (SCHEMA,)


def test_a_full_disk_is_said_as_such_and_the_state_survives(plant, monkeypatch):
    state, connect = plant / "state.db", sqlite3.connect
    before = dump(state)

    def full(*words, **options):
        database = connect(*words, **options)
        if words[0] != ":memory:":
            n_pages = database.execute("PRAGMA page_count").fetchone()[0]
            database.execute(f"PRAGMA max_page_count = {n_pages}")
        return database

    monkeypatch.setattr(sqlite3, "connect", full)
    said = sentence_of_watch(plant)
    assert "cannot be written (database or disk is full): check the space left" in said
    assert "no state of a watch" not in said
    monkeypatch.undo()
    after = dump(state)
    assert after["read"] == before["read"]
    assert watched(plant).read == ("part002.csv",)


def sentence_of_watch(plant):
    with pytest.raises(FileError) as caught:
        watched(plant)
    return str(caught.value)


def test_a_state_that_may_not_be_written_is_no_damaged_one(plant, monkeypatch):
    connect = sqlite3.connect

    def read_only(*words, **options):
        database = connect(*words, **options)
        database.execute("PRAGMA query_only = ON")
        return database

    monkeypatch.setattr(sqlite3, "connect", read_only)
    said = sentence_of_watch(plant)
    assert "cannot be written (attempt to write a readonly database)" in said


def test_sums_of_rows_do_not_depend_on_the_order_of_writing(tmp_path):
    def digest(*times):
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.db"
        store = WatchState(path, 1)
        with store.transaction():
            for time in times:
                store.put_run(time, time + 5)
        store.close()
        return sqlite3.connect(path).execute("SELECT value FROM about").fetchone()

    assert digest(1.0, 2.0) == digest(2.0, 1.0) == digest(1.0, 2.0, 1.0)
    assert digest(1.0, 2.0) != digest(1.0, 3.0)
