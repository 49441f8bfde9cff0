"""Pictures of leading tags around an alarm: measured, expected, and the limit."""

import re

import numpy as np
import pytest
from watched_plants import (
    BEGIN,
    CHANNELS,
    STEP_S,
    made,
    residuals,
    write_pieces,
    write_rule_file,
)

from sightline.operation.alarms import AlarmKind
from sightline.operation.tag_hours import AROUND_S, MOST_TAGS
from sightline.operation.watch import watch_folder
from sightline.operation.watch_state import KEPT_MINUTES, WatchState
from sightline.rules.choose import lasting_steps

N_ROWS = 3000
TIME = BEGIN + STEP_S * np.arange(N_ROWS)
ROWS = residuals(N_ROWS, seed=3)


def watched(folder, cuts):
    rule = write_rule_file(folder)
    write_pieces(folder / "exports", TIME, ROWS, cuts)
    return watch_folder(rule, folder / "exports", folder / "state.db")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    return folder, watched(folder, [])


def minutes_of(folder):
    store = WatchState(folder / "state.db", len(CHANNELS))
    try:
        found = store.minutes(0.0, np.inf)
    finally:
        store.close()
    return found


def test_each_alarm_of_the_rule_shows_its_leading_tags(whole):
    folder, done = whole
    of_rule = [one for one in done.week.records if one.kind is AlarmKind.ANOMALY]
    assert of_rule
    for one in of_rule:
        pictures = done.week.pictures[one.id]
        assert [picture.tag for picture in pictures] == list(one.tags)[:MOST_TAGS]
    page = (folder / "week.html").read_text("utf-8")
    n_pictures = sum(len(found) for found in done.week.pictures.values())
    assert page.count('class="tag-hours"') == n_pictures > 0
    assert "an hour before and after" in page
    assert "<script" not in page


def test_a_picture_begins_an_hour_before_the_alarm(whole):
    _, done = whole
    one = next(r for r in done.week.records if r.kind is AlarmKind.ANOMALY)
    (svg, *_) = [picture.svg for picture in done.week.pictures[one.id]]
    left = float(re.search(r'<rect x="([\d.]+)"', svg)[1])
    ends = min(one.end, one.start + 6 * 3600) + AROUND_S
    assert left == pytest.approx(320 * AROUND_S / (ends - one.start + AROUND_S), abs=5)
    assert svg.count("<path") == 2
    assert "<polygon" in svg


def test_the_last_row_of_each_minute_is_kept_however_files_are_cut(whole, tmp_path):
    folder, _ = whole
    watched(tmp_path, [7, 1000, 1001, 2500])
    one, other = minutes_of(folder), minutes_of(tmp_path)
    np.testing.assert_array_equal(one.time, TIME)
    np.testing.assert_array_equal(one.measured, ROWS.astype(np.float32))
    assert not one.expected.any()
    for name in ("time", "measured", "expected"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_old_minutes_are_forgotten(tmp_path):
    store = WatchState(tmp_path / "state.db", 2)
    time = 60.0 * np.arange(KEPT_MINUTES + 500)
    rows = np.stack([time, -time], axis=1)
    with store.transaction():
        store.put_minutes(time, rows, rows)
    kept = store.minutes(0.0, np.inf)
    assert len(kept.time) == KEPT_MINUTES + 1
    assert kept.time[-1] == time[-1]
    store.close()


def test_a_lasting_step_of_the_band_reaches_the_limit_and_none_below_does():
    rule = made().chosen.rule
    steps = lasting_steps(rule)
    assert np.isfinite(steps).all()
    for j, step in enumerate(steps.tolist()):
        rows = np.zeros((4000, len(CHANNELS)))
        rows[2000:, j] = 1.05 * step
        said = rule.run(rows)
        rows[2000:, j] = -1.05 * step
        other = rule.run(rows)
        # The size is a mean over both signs.
        assert said.exceeds[2000:].any() or other.exceeds[2000:].any()
        rows[2000:, j] = 0.5 * step
        assert not rule.run(rows).exceeds[2000:].any()
