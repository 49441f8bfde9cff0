"""Records that are judged in parts: who learns from what."""

import numpy as np
import pytest

from sightline import Recording, Tag
from sightline.data.record_parts import (
    AROUND_S,
    away_from_incidents,
    part_firsts,
    parts_of,
)
from sightline.data.segments import Attack
from sightline.errors import StreamError

STEP_S = 600.0
N_ROWS = 20_000


def record(attacks=((4000, 4030), (9990, 10_010)), n_rows=N_ROWS, parts=5):
    labels = np.zeros(n_rows, np.int8)
    for start, stop in attacks:
        labels[start:stop] = 1
    return Recording(
        values=np.arange(n_rows, dtype=float)[:, None],
        tags=[Tag(name="row")],
        labels=labels,
        time=STEP_S * np.arange(n_rows),
        attacks=[
            Attack(id=str(k), start=a, stop=b) for k, (a, b) in enumerate(attacks)
        ],
        parts=parts,
    )


def rows_of(recording):
    return recording.values[:, 0].astype(int)


def test_every_row_is_judged_once_and_by_a_model_that_did_not_see_it_or_its_day():
    whole = record()
    learned = away_from_incidents(whole)
    judged = []
    for part in parts_of(learned, whole):
        rows = rows_of(part.test)
        own = rows[part.test.time >= part.begin_s]
        judged.append(own)
        # Not even the rows that are only read were learned from.
        assert not {*rows} & {*rows_of(part.train)}
        far = np.abs(rows_of(part.train)[:, None] - own[[0, -1]]).min()
        assert far * STEP_S > 86_400
        assert part.test.parts == 1
        # No row of train continues another across the part.
        steps = np.diff(rows_of(part.train))
        assert {*(np.flatnonzero(steps > 1) + 1)} <= {*part.train.breaks}
    np.testing.assert_array_equal(np.concatenate(judged), np.arange(N_ROWS))


def test_incidents_and_their_surroundings_are_never_learned_from():
    whole = record()
    rows = rows_of(away_from_incidents(whole))
    near = AROUND_S / STEP_S
    for start, stop in ((4000, 4030), (9990, 10_010)):
        assert not ((rows >= start - near) & (rows < stop + near)).any()
    n_left_out = 30 + 20 + 2 * 2 * int(near)
    assert len(rows) == N_ROWS - n_left_out


def test_a_part_never_begins_within_an_incident():
    whole = record(((3990, 4030),))
    assert part_firsts(whole).tolist() == [0, 4030, 8000, 12_000, 16_000]
    parts = parts_of(away_from_incidents(whole), whole)
    assert [len(part.test.attacks) for part in parts] == [1, 1, 0, 0, 0]
    assert parts[0].test.attacks[0].stop == 4030
    # The second part only reads it before it begins.
    assert parts[1].test.time[parts[1].test.attacks[0].stop] == parts[1].begin_s


@pytest.mark.parametrize(
    ("whole", "words"),
    [
        (record((), n_rows=8), "8 rows cannot be judged in 5 parts"),
        (record(((0, N_ROWS),)), "No row lies an hour or more from any incident"),
    ],
)
def test_what_cannot_be_cut_is_refused(whole, words):
    with pytest.raises(StreamError, match=words):
        parts_of(away_from_incidents(whole), whole)
