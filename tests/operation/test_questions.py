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
from sightline.data.zones import iso_stamp
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


def record_of(rows):
    return ResidualRecord(
        name="whole",
        rows=ArrayRows(rows),
        breaks=np.zeros(1, np.int64),
        is_attack_free=np.ones(len(rows), bool),
        time=times(len(rows)),
        timezone="UTC",
    )


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
    record = record_of(jumped())
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


# --- The whole plant ------------------------------------------------------------------


def changed_plant(n_moved=3, late=0):
    """Return rows of which some tags lie off from the third night on, one of them late.

    The first lies off most.
    """
    rows = np.random.default_rng(7).standard_t(5, size=(N_ROWS, 4))
    for j in range(n_moved):
        rows[JUMPS + (j == n_moved - 1) * late :, j] += 12.0 - j
    return rows


def watched(plant, rows, cuts=()):
    write_pieces(plant / "exports", times(len(rows)), rows, cuts)
    return watch_folder(plant / "rule.json", plant / "exports", plant / "state.db")


def questions_of(plant, *events):
    return [
        (line["kind"], line["event"])
        for line in log_of(plant)
        if line["kind"] in ("question", "plant changed") and line["event"] in events
    ]


@pytest.mark.parametrize("late", [0, NIGHT])
def test_a_change_of_most_tags_is_one_question_for_all(plant, late):
    rows = changed_plant(late=late)
    watched(plant, rows)
    assert questions_of(plant, "started", "ended") == [("plant changed", "started")]
    (line,) = [one for one in log_of(plant) if one["kind"] == "plant changed"]
    assert line["source"] == "plant"
    assert line["tags"][0] == "LIT101"
    assert {*line["tags"]} == {"LIT101", "FIT101", "MV101"}
    assert (
        "3 of 4 tags moved together (largest: LIT101, by 11.1 spreads)" in line["text"]
    )
    # It began with the night in which the tags jumped.
    assert line["start"] == iso_stamp(times(1, JUMPS)[0], "Europe/Berlin")
    # The same in `apply`.
    applied = apply_rule(read_rule(plant / "rule.json"), record_of(rows))
    (said,) = applied.questions
    assert said.startswith("The plant changed at 2026-")
    assert "3 of 4 tags moved together (largest: LIT101" in said


@pytest.mark.parametrize("late", [0, NIGHT])
def test_one_answer_is_for_all_tags_and_apply_replays_it(plant, late):
    rows, at = changed_plant(late=late), 4 * NIGHT + 50
    watched(plant, rows[:at])
    (line,) = [one for one in log_of(plant) if one["kind"] == "plant changed"]
    said = answer(plant, line["id"][:6], "normal", "--by", "Kim")
    assert said.count("ended after") == 1
    with (plant / "answers.csv").open() as file:
        tags = [row["tag"] for row in csv.DictReader(file)]
    assert {*tags} == {"LIT101", "FIT101", "MV101"}
    write_export(plant / "exports" / "z.csv", times(N_ROWS - at, at), rows[at:])
    watch_folder(plant / "rule.json", plant / "exports", plant / "state.db")
    assert not {"question", "plant changed"} & kinds_that_run(plant)
    deployed = read_rule(plant / "rule.json")
    answers = read_answers(plant / "answers.csv", TAGS, "Europe/Berlin")
    applied = apply_rule(deployed, record_of(rows), answers)
    starts = [one.start for one in dump(plant / "state.db")["episodes"]]
    assert [times(N_ROWS)[row] for row in applied.run.episodes.starts] == starts
    lasts = applied.run.in_alarm[-NIGHT:] | applied.run.standing[-NIGHT:]
    assert lasts.mean() < 0.1


def test_half_of_the_tags_are_asked_about_one_by_one(plant):
    watched(plant, changed_plant(n_moved=2))
    assert questions_of(plant, "started", "ended") == [("question", "started")] * 2


def test_a_single_tag_that_shows_in_others_is_no_change_of_the_plant():
    """Neighbours' conditional deviations jump with it, but not their readings."""
    deployed = made().deployed("all")
    rule = replace(deployed.rule, night=NIGHT)
    view = next(view for view in rule.views if view.kind == "z")
    mixed = view.weights + 0.5  # as where tags go together
    views = [replace(v, weights=mixed) if v is view else v for v in rule.views]
    rows = changed_plant(n_moved=1)
    run = replace(rule, views=tuple(views)).run(rows)
    assert {one.channel for one in run.questions if one.off} >= {0, 1, 2, 3}
    together = replace(rule, views=tuple(views)).run(changed_plant(n_moved=3))
    assert [one.channel for one in together.questions if one.off] == [-1]


def test_files_cut_anywhere_ask_once_about_the_plant(plant, tmp_path):
    rows = changed_plant(late=NIGHT)
    watched(plant, rows)
    other = tmp_path / "other"
    write_pieces(other, times(N_ROWS), rows, [50, 4 * NIGHT - 1, 4 * NIGHT, 1500])
    watch_folder(plant / "rule.json", other, other / "state.db")
    one, two = dump(plant / "state.db"), dump(other / "state.db")
    del one["read"], two["read"]
    assert one == two


# --- Nobody answers -------------------------------------------------------------------

# Rows of 48 hours.
LONG = 2880


def test_most_tags_unanswered_for_48_hours_come_first_and_are_no_decision(plant):
    asked = 4 * NIGHT - 1
    rows = np.concatenate([changed_plant(), changed_plant()[JUMPS:]])
    for n_rows, is_undecided in ((asked + LONG, False), (asked + LONG + 1, True)):
        done = watched(plant, rows[:n_rows])
        assert done.is_undecided == is_undecided
        metrics = (plant / "sightline.prom").read_text()
        assert 'sightline_questions_open{rule="x~"} 3' in metrics
        assert f'sightline_undecided{{rule="x~"}} {is_undecided:d}' in metrics
        assert ("NO DECISION" in (plant / "week.html").read_text()) == is_undecided
        # The same in `apply`.
        applied = apply_rule(read_rule(plant / "rule.json"), record_of(rows[:n_rows]))
        assert bool(applied.undecided) == is_undecided
    assert done.week.undecided.startswith("NO DECISION since 2026-")
    assert "3 of 4 tags have moved" in done.week.undecided
    # A fault is an answer, and so is normal.
    for reply in ("normal", "fault"):
        time = times(1, asked + 10)[0]
        path = plant / "said.csv"
        stamp = iso_stamp(time, "UTC")
        path.write_text(f"time,tag,answer\n{stamp},LIT101,{reply}\n")
        said = read_answers(path, TAGS, "UTC")
        deployed = read_rule(plant / "rule.json")
        assert not apply_rule(deployed, record_of(rows[:n_rows]), said).undecided
    (line,) = [one for one in log_of(plant) if one["kind"] == "plant changed"]
    words = ["watch", str(plant), "--folder", str(plant / "exports")]
    words += ["--state", str(plant / "state.db")]
    result = CliRunner().invoke(app, words)
    assert result.stdout.startswith("NO DECISION since")
    assert result.exit_code in (4, 6, 7)
    # To acknowledge it is no answer.
    acked = ["alarm", "ack", str(plant / "state.db"), line["id"], "--by", "Kim"]
    assert CliRunner().invoke(app, acked).exit_code == 0
    assert CliRunner().invoke(app, words).stdout.startswith("NO DECISION since")
    answer(plant, line["id"], "fault", "--by", "Kim")
    assert not CliRunner().invoke(app, words).stdout.startswith("NO DECISION")
    assert 'sightline_undecided{rule="x~"} 0' in (plant / "sightline.prom").read_text()


def test_apply_ends_with_4_where_most_tags_stand_unanswered(plant):
    rows = np.concatenate([changed_plant(), changed_plant()[JUMPS:]])
    path = plant / "rows.csv"
    write_export(path, times(len(rows)), rows)
    words = ["apply", str(plant / "rule.json"), str(path), "--out", str(plant / "a")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 4, result.output
    assert result.stdout.startswith("NO DECISION since")
    fixed = CliRunner().invoke(app, [*words[:-1], str(plant / "b"), "--fixed"])
    assert fixed.exit_code in (0, 3)
    assert "NO DECISION" not in fixed.stdout
