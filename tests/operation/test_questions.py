"""A tag jumps for good: the question, its answer, and what follows from it."""

import csv
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner
from watched_plants import (
    BEGIN,
    STEP_S,
    _no_waiting,  # noqa: F401
    dump,
    log_of,
    made,
    write_export,
    write_pieces,
)

from sightline import write_rule
from sightline.cli.app import app
from sightline.data.row_tables import ArrayRows
from sightline.operation.apply import ResidualRecord, apply_rule
from sightline.operation.questions import read_answers
from sightline.operation.watch import watch_folder
from sightline.rules.file import read_rule

NIGHT = 360
JUMPS, N_ROWS = 2 * NIGHT, 9 * NIGHT
TAGS = ("LIT101", "FIT101", "MV101", "LIT201")


@pytest.fixture
def plant(tmp_path):
    """Return a folder with a rule of short nights, and no exports yet."""
    deployed = made().deployed("x~")
    rule = replace(deployed.rule, night=NIGHT)
    write_rule(replace(deployed, rule=rule), tmp_path / "rule.json")
    (tmp_path / "exports").mkdir()
    return tmp_path


def jumped():
    """Return rows of which one tag lies six spreads off from the third night on."""
    rows = np.random.default_rng(7).standard_t(5, size=(N_ROWS, 4))
    rows[JUMPS:, 1] += 8.0
    return rows


def times(n_rows, first=0):
    return BEGIN + STEP_S * (first + np.arange(n_rows))


def watch(plant, first, stop):
    """Let some rows of the jump arrive as one file."""
    path = plant / "exports" / f"{first:06d}.csv"
    write_export(path, times(stop - first, first), jumped()[first:stop])
    return watch_folder(plant / "rule.json", plant / "exports", plant / "state.db")


def answer(plant, *words):
    result = CliRunner().invoke(app, ["answer", str(plant / "state.db"), *words])
    assert result.exit_code == 0, result.output
    return result.output


def kinds_that_run(plant):
    alarms = dump(plant / "state.db")["alarms"]
    return {str(one.kind) for one in alarms if one.is_running}


def question_of(plant):
    (line,) = [
        one
        for one in log_of(plant)
        if one["kind"] == "question" and one["event"] == "started"
    ]
    return line


def test_a_jump_is_asked_about_after_two_nights_and_stands_unanswered(plant):
    watch(plant, 0, 4 * NIGHT - 1)
    assert not [one for one in log_of(plant) if one["kind"] == "question"]
    watch(plant, 4 * NIGHT - 1, N_ROWS)
    line = question_of(plant)
    assert line["source"] == "FIT101"
    assert line["priority"] == 3
    assert "FIT101 has moved by 7." in line["text"]
    assert line["text"].endswith("is this normal?")
    assert {"question", "tag out of service"} <= kinds_that_run(plant)
    again = watch_folder(plant / "rule.json", plant / "exports", plant / "state.db")
    (told,) = [one for one in again.week.service_lines() if "Question: " in one]
    assert f"`sightline answer STATE {line['id'][:6]} normal --by NAME`" in told


def test_an_answer_moves_the_mean_and_is_what_apply_replays(plant):
    at = 5 * NIGHT + 100
    watch(plant, 0, at)
    said = answer(plant, question_of(plant)["id"][:6], "normal", "--by", "Kim")
    assert "ended after" in said
    assert "by normal (Kim)" in said
    with (plant / "answers.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert (row["tag"], row["answer"], row["by"]) == ("FIT101", "normal", "Kim")
    watch(plant, at, N_ROWS)
    state = dump(plant / "state.db")
    assert not [
        one for one in state["alarms"] if one.kind == "question" and not one.end
    ]
    assert not [
        one for one in state["alarms"] if one.source == "FIT101" and not one.end
    ]
    # The same record at once, with the answers of the file.
    deployed = read_rule(plant / "rule.json")
    record = ResidualRecord(
        name="whole",
        rows=ArrayRows(jumped()),
        breaks=np.zeros(1, np.int64),
        is_attack_free=np.ones(N_ROWS, bool),
        time=times(N_ROWS),
        timezone="UTC",
    )
    answers = read_answers(plant / "answers.csv", TAGS, "UTC")
    applied = apply_rule(deployed, record, answers)
    starts = [one.start for one in state["episodes"]]
    assert [record.time[row] for row in applied.run.episodes.starts] == starts
    unanswered = apply_rule(deployed, record)
    assert unanswered.run.standing[-1]
    assert not (applied.run.standing | applied.run.in_alarm)[-NIGHT:].mean() > 0.1
    assert applied.run.rule.limit == deployed.rule.limit


def test_a_fault_goes_on_in_alarm_and_to_the_incidents(plant):
    watch(plant, 0, 5 * NIGHT)
    said = answer(plant, question_of(plant)["id"], "fault", "--by", "Kim")
    assert "acknowledged" in said
    assert (plant / "incidents.csv").read_text().count("FIT101") == 1
    watch(plant, 5 * NIGHT, N_ROWS)
    assert {"question", "tag out of service"} <= kinds_that_run(plant)


def test_files_cut_anywhere_ask_the_same(plant, tmp_path):
    watch(plant, 0, N_ROWS)
    other = tmp_path / "other"
    write_pieces(other, times(N_ROWS), jumped(), [50, 700, 4 * NIGHT, 4 * NIGHT + 1])
    watch_folder(plant / "rule.json", other, other / "state.db")
    one, two = dump(plant / "state.db"), dump(other / "state.db")
    del one["read"], two["read"]
    assert one == two


def test_what_is_no_question_is_refused_in_one_sentence(plant):
    watch(plant, 0, 5 * NIGHT)
    other = next(one["id"] for one in log_of(plant) if one["kind"] != "question")
    for name, words in ((other, "is no open question"), ("zzz", "has no alarm")):
        result = CliRunner().invoke(
            app, ["answer", str(plant / "state.db"), name, "normal", "--by", "Kim"]
        )
        assert result.exit_code == 1
        assert words in result.stderr.replace("\n", " ")


def test_a_list_of_answers_that_cannot_be_read_names_its_line(tmp_path):
    from sightline import FileError

    for row, words in (
        ("2026-01-01 00:00,FIT102,normal", "line 2: the rule has no tag 'FIT102'"),
        ("2026-01-01 00:00,FIT101,maybe", "line 2: the answer is 'maybe'"),
        ("soon,FIT101,normal", "line 2"),
    ):
        path = tmp_path / "answers.csv"
        path.write_text(f"time,tag,answer\n{row}\n")
        with pytest.raises(FileError, match=words):
            read_answers(path, TAGS)
