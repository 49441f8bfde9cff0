"""The review list: written, decided by hand, read back; nothing is lost."""

import csv

import numpy as np
import pytest

from sightline import (
    FileError,
    ResidualStream,
    evaluate,
    open_testbed,
    read_stream,
    write_review_list,
    write_stream,
)
from sightline.rules.episodes import Episode
from sightline.storage.companions import COLUMNS, join_files, read_review_list
from sightline.tables.lists import EpisodeDecision

START_S = 1_774_746_000.0  # within an hour of the clock's change in Berlin
EPISODES = [
    Episode(start=10, stop=15, peak=2.345, tags=("LIT101", "P-2")),
    Episode(start=100, stop=101, peak=123.4, tags=("FIT201",)),
    Episode(start=300, stop=420, peak=7.0, tags=()),
]


def plain_stream(*, timed=True, zone="Europe/Berlin"):
    rng = np.random.default_rng(4)
    time = {"test_time": START_S + 10.0 * np.arange(1000)} if timed else {}
    return ResidualStream(
        rng.normal(size=(500, 2)),
        rng.normal(size=(1000, 2)),
        channels=["LIT101", "FIT201"],
        step_s=10.0,
        **({"timezone": zone} if timed else {}),
        **time,
    )


def cells_of(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def rewrite(path, change, columns=COLUMNS, delimiter=","):
    """Let somebody edit the list."""
    rows = cells_of(path)
    change(rows)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)


def decide(*words, **notes):
    def change(rows):
        for row, word in zip(rows, words, strict=True):
            row["decision"] = word
        for place, note in notes.items():
            rows[int(place[1:])]["note"] = note

    return change


@pytest.mark.parametrize(
    "stream",
    [plain_stream(), plain_stream(zone=None), plain_stream(timed=False)],
    ids=["zone", "own clock", "rows"],
)
def test_what_is_written_is_read_back(stream, tmp_path):
    path = tmp_path / "review.csv"
    written = write_review_list(EPISODES, stream, path)
    assert tuple(cells_of(path)[0]) == COLUMNS
    assert read_review_list(path, stream) == written
    assert [row.decision for row in written] == [EpisodeDecision.UNKNOWN] * 3
    assert [row.cells["peak"] for row in written] == ["2.3", "123", "7"]
    assert written[0].cells["tags"] == "LIT101; P-2"


def test_times_are_in_the_zone_of_the_plant(tmp_path):
    path = tmp_path / "review.csv"
    write_review_list(EPISODES, plain_stream(), path)
    assert cells_of(path)[0]["start"] == "2026-03-29T03:01:40+02:00"
    assert cells_of(path)[0]["end"] == "2026-03-29T03:02:20+02:00"


@pytest.mark.parametrize("timed", [True, False])
def test_rows_decided_incident_are_the_attacks(timed, tmp_path):
    stream, path = plain_stream(timed=timed), tmp_path / "review.csv"
    write_review_list(EPISODES, stream, path)
    rewrite(path, decide("Incident", "normal", "incident", _0="valve, stuck"))
    joined = join_files(stream, attacks=path)
    assert [(a.id, a.start, a.stop) for a in joined.segments] == [
        ("1", 10, 15),
        ("3", 300, 420),
    ]
    assert joined.segments[0].targets == ("LIT101", "P-2")
    assert joined.segments[0].note == "valve, stuck"
    assert np.flatnonzero(joined.labels == 1).tolist() == [
        *range(10, 15),
        *range(300, 420),
    ]
    assert any("2 of 3 reviewed episodes" in text for text in joined.notices)


def test_a_reviewed_list_adds_to_what_is_labelled(tmp_path):
    """Incidents are attacks, the unknown is ignored, the normal is remembered."""
    labels = np.zeros(1000, int)
    labels[600:620] = 1
    labels[118:125] = -1
    stream, path = plain_stream().replace(labels=labels), tmp_path / "review.csv"
    write_review_list(EPISODES, stream, path)
    rewrite(path, decide("normal", "unknown", "incident"))
    joined = join_files(stream, attacks=path)
    assert [(a.start, a.stop) for a in joined.attack_segments()] == [
        (300, 420),
        (600, 620),
    ]
    assert np.flatnonzero(joined.labels == -1).tolist() == [100, *range(118, 125)]
    assert np.flatnonzero(joined.reviewed_normal).tolist() == [*range(10, 15)]
    write_stream(joined, tmp_path / "again.npz")
    again = read_stream(tmp_path / "again.npz")
    assert (again.reviewed_normal == joined.reviewed_normal).all()
    assert not stream.reviewed_normal.any()


def test_a_plain_list_marks_rows_where_none_is_labelled(tmp_path):
    path = tmp_path / "incidents.csv"
    path.write_text("id,start,end\nA,100,104\n")
    stream = plain_stream(timed=False).replace(labels=np.zeros(1000, int))
    joined = join_files(stream, attacks=path)
    assert np.flatnonzero(joined.labels).tolist() == [*range(100, 105)]


def test_a_sheet_saved_with_semicolons_is_read(tmp_path):
    stream, path = plain_stream(), tmp_path / "review.csv"
    write_review_list(EPISODES, stream, path)
    rewrite(path, decide("normal", "incident", ""), delimiter=";")
    joined = join_files(stream, attacks=path)
    assert [a.start for a in joined.segments] == [100]


def test_writing_over_a_reviewed_list_loses_nothing(tmp_path):
    stream, path = plain_stream(), tmp_path / "review.csv"
    write_review_list(EPISODES, stream, path)

    def change(rows):
        decide("incident", "unknown", "unknown", _2="ask Jo")(rows)
        rows[0]["end"] = "2026-03-29T03:03:00+02:00"  # corrected by the reviewer
        for row in rows:
            row["who"] = "Sam"

    rewrite(path, change, (*COLUMNS, "who"))
    reviewed = [row for row in cells_of(path) if row["decision"] or row["note"]]
    # The second is found no more, one overlaps the corrected incident, one is new.
    later = [
        Episode(start=17, stop=30, peak=9.0, tags=("LIT101",)),
        Episode(start=700, stop=710, peak=3.0, tags=("FIT201",)),
    ]
    write_review_list(later, stream, path)
    rows = cells_of(path)
    assert [rows[0], rows[1]] == [reviewed[0], reviewed[2]]
    assert [row["peak"] for row in rows] == ["2.3", "7", "3"]
    assert rows[2]["decision"] == "unknown"
    before = path.read_bytes()
    write_review_list(later, stream, path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("column", "cell", "message"),
    [
        ("decision", "maybe", r"line 3: decision must be incident, normal or unknown"),
        ("start", "yesterday", r"line 3"),
        ("end", "2020-01-01T00:00:00+01:00", r"line 3: .* ends before it starts"),
    ],
)
def test_a_cell_that_cannot_be_read_is_named_with_its_line(
    column, cell, message, tmp_path
):
    stream, path = plain_stream(), tmp_path / "review.csv"
    write_review_list(EPISODES, stream, path)

    def change(rows):
        decide("incident", "incident", "normal")(rows)
        rows[1][column] = cell

    rewrite(path, change)
    before = path.read_bytes()
    for read in (
        lambda: write_review_list(EPISODES, stream, path),
        lambda: join_files(stream, attacks=path),
    ):
        with pytest.raises(FileError, match=message) as caught:
            read()
        assert str(path) in str(caught.value)
    assert path.read_bytes() == before


def test_another_file_is_not_written_over(tmp_path):
    path = tmp_path / "attacks.csv"
    path.write_text("id,start,end\nA1,2026-03-29,2026-03-30\n")
    with pytest.raises(FileError, match="decision is missing"):
        write_review_list(EPISODES, plain_stream(), path)
    with pytest.raises(FileError, match="name it like"):
        write_review_list(EPISODES, plain_stream(), tmp_path / "review.xlsx")


def test_a_list_without_an_incident_is_refused_as_attacks(tmp_path):
    stream, path = plain_stream(), tmp_path / "review.csv"
    write_review_list(EPISODES, stream, path)
    with pytest.raises(FileError, match="no row is decided 'incident'"):
        join_files(stream, attacks=path)


def test_an_evaluation_by_a_reviewed_list_has_its_incidents(tmp_path):
    stream, path = plain_stream(), tmp_path / "review.csv"
    write_review_list(EPISODES, stream, path)
    rewrite(path, decide("normal", "normal", "incident"))
    found = evaluate(join_files(stream, attacks=path), intervals=False, budget=None)
    assert [(s.id, s.start, s.stop) for s in found.segments] == [("3", 300, 420)]


def test_a_folder_of_a_plant_takes_a_reviewed_list_as_its_incidents(tmp_path):
    rng = np.random.default_rng(6)
    for name, first in (("train", 0), ("test", 1000)):
        lines = ["time,LIT101,FIT201"]
        for k, (a, b) in enumerate(rng.normal(size=(1000, 2))):
            stamp = np.datetime64("2026-03-01T00:00:00") + 10 * (first + k)
            lines.append(f"{stamp},{a:.4f},{b:.4f}")
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "incidents.csv").write_text(
        "start,end,peak,tags,decision,note\n"
        "2026-03-01T03:00:00,2026-03-01T03:05:00,2.3,LIT101,incident,seal\n"
        "2026-03-01T04:00:00,2026-03-01T04:05:00,1.3,FIT201,normal,\n"
    )
    plant = open_testbed(tmp_path)
    assert [(a.id, a.targets, a.note) for a in plant.test.attacks] == [
        ("1", ("LIT101",), "seal")
    ]
    assert int((plant.test.labels == 1).sum()) == 31
    assert any("1 of 2 reviewed episodes" in text for text in plant.notices)


def test_no_tag_and_no_note_becomes_a_formula(tmp_path):
    path, stream = tmp_path / "review.csv", plain_stream()
    hostile = Episode(start=10, stop=15, peak=2.0, tags=("=1+1|cmd",))
    write_review_list([hostile], stream, path)
    assert cells_of(path)[0]["tags"] == "'=1+1|cmd"
    rewrite(path, decide("normal", _0="@SUM(A1)"))
    for _ in range(2):  # each time it is read and written again
        rows = write_review_list([hostile], stream, path)
        assert rows[0].cells["note"] == "@SUM(A1)"
        assert cells_of(path)[0]["note"] == "'@SUM(A1)"


def test_a_name_that_has_no_utf_8_is_escaped(tmp_path):
    path = tmp_path / "review.csv"
    lone = Episode(start=10, stop=15, peak=2.0, tags=("\ud800",))
    write_review_list([lone], plain_stream(), path)
    assert cells_of(path)[0]["tags"] == "\\ud800"
