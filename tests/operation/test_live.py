"""A rule and a detector that go on from piece to piece, with the same bits."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from watched_plants import (
    BEGIN,
    CHANNELS,
    STEP_S,
    _no_waiting,  # noqa: F401
    dump,
    made,
    residuals,
    write_export,
)

from sightline import Recording, Tag, commission, export_stream, write_rule
from sightline.detectors import make_detector
from sightline.errors import StreamError
from sightline.export import without_lost
from sightline.operation.apply import open_record
from sightline.operation.live import LiveDetector, runs_of
from sightline.operation.watch import watch_folder
from sightline.rules.normal import Telemetry
from sightline.rules.rule import Channel
from sightline.storage import read_rule

TAGS = tuple(Tag(name=name) for name in CHANNELS)
NAMES = ("all", "score", "largest2", "log-energy~", "quiet~", "cusum", "z+x~")


def telemetry(n_rows, seed=0):
    """Return measured values that follow one another, with bursts."""
    rng = np.random.default_rng(seed)
    rows = np.empty((n_rows, len(CHANNELS)))
    rows[0] = 0
    noise = rng.normal(size=rows.shape) @ (np.eye(4) + 0.3)
    for t in range(1, n_rows):
        rows[t] = 0.9 * rows[t - 1] + noise[t]
    return rows + 50


def recording(rows, **options):
    return Recording(values=rows, tags=TAGS, step_s=STEP_S, **options)


# --- Rule -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rules():
    from sightline import ResidualStream

    rng = np.random.default_rng(3)
    stream = ResidualStream(
        rng.normal(size=(3000, 4)),
        rng.normal(size=(20_000, 4)),
        score=rng.gamma(2, size=20_000),
        channels=CHANNELS,
        step_s=STEP_S,
        meta={"groups": {"P1": CHANNELS[:3], "P2": CHANNELS[3:]}},
    )
    done = commission(stream, budget="12/day,3%", rules=NAMES[1:], choose="all")
    return {name: done.rules[name].rule for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_a_saved_state_goes_on_to_the_last_bit(rules, name):
    rule = replace(rules[name], delays=replace(rules[name].delays, on=2, within=5))
    rows, score = residuals(900), np.random.default_rng(1).gamma(2, size=900)
    whole = rule.start().advance(rows, score=score).arrays
    state, pieces = rule.start(), []
    for part in np.split(np.arange(900), [1, 2, 301, 450, 451, 800]):
        state = rule.start(state.arrays())
        pieces.append(state.advance(rows[part], score=score[part]).arrays)
    for one, parts in zip(whole, zip(*pieces, strict=True), strict=True):
        assert np.concatenate(parts).tobytes() == one.tobytes()


def test_a_saved_state_is_a_copy_and_of_its_rule_alone(rules):
    state = rules["all"].start()
    saved, before = state.arrays(), rules["all"].start().arrays()
    state.advance(residuals(50))
    for name, array in saved.items():
        np.testing.assert_array_equal(array, before[name])
    with pytest.raises(StreamError, match="is not one of the rule 'cusum'"):
        rules["cusum"].start(saved)


# --- Detector -------------------------------------------------------------------------


KINDS = {
    "var": {},
    "var every 3": {"every": 3},
    "pca": {},
    "last-value stride 2": {"every": 2, "sampling": "stride"},
    "mean": {},
    "pair": {"gap": 5},
    "kalman": {"order": 4},
    "pasad every 2": {"every": 2, "lag": 9},
    "geco": {"max_inputs": 1},
    "gdn": {"epochs": 1, "window": 5, "dim": 4, "head_layers": 1, "top_k": 2},
    "tranad": {"epochs": 1, "window": 4, "hidden": 4},
}


@cache
def fitted(name):
    """Return a detector, fitted on the same rows as all others."""
    detector = make_detector(name.split()[0], **KINDS[name])
    return detector.fit(recording(telemetry(1500, seed=9)))


def rule_for(detector):
    """Return a rule that says it was made for a detector's rows."""
    plain = made().deployed()
    every = detector.row_settings().every
    names = detector.residuals(recording(telemetry(100, seed=9))).channels
    channels = tuple(Channel(name=name) for name in names)
    return replace(
        plain,
        rule=replace(plain.rule, channels=channels, step_s=STEP_S * every),
        origin=replace(plain.origin, telemetry=Telemetry(step_s=STEP_S)),
    )


def passed(detector, time, rows, begins, cuts):
    """Return times, residuals and begins of a record that comes in pieces."""
    rule, saved, found = rule_for(detector), None, []
    for part in np.split(np.arange(len(time)), cuts):
        live = LiveDetector(detector, rule, STEP_S, saved)
        for run in runs_of(time[part], rows[part], begins[part]):
            found += live.take(run)
        saved = live.arrays()
    times = np.concatenate([run.time for run in found])
    flags = [np.arange(len(run.time)) == 0 if run.begins else None for run in found]
    flags = [
        np.zeros(len(run.time), bool) if flag is None else flag
        for run, flag in zip(found, flags, strict=True)
    ]
    return times, np.concatenate([run.rows for run in found]), np.concatenate(flags)


NAMES_OF_DETECTORS = (
    "var",
    "var every 3",
    "pca",
    "last-value stride 2",
    "mean",
    "pair",
    "kalman",
    "pasad every 2",
    "geco",
    pytest.param("gdn", marks=pytest.mark.slow),
    "tranad",
)


@pytest.mark.parametrize("name", NAMES_OF_DETECTORS)
@given(data=st.data())
@settings(max_examples=4, deadline=None)
def test_a_detector_gives_the_same_bits_however_rows_are_cut(name, data):
    detector, n = fitted(name), 700
    rows = telemetry(n, seed=4)
    rows[100:130, 1] = rows[400, 2] = rows[451, 0] = np.nan
    begins = np.zeros(n, bool)
    begins[[0, 250, 253, 330]] = True
    time = BEGIN + STEP_S * np.arange(n) + 1e4 * np.cumsum(begins)
    cuts = sorted(data.draw(st.sets(st.integers(1, n - 1), max_size=9)))
    whole = passed(detector, time, rows, begins, [])
    pieces = passed(detector, time, rows, begins, cuts)
    for one, other in zip(whole, pieces, strict=True):
        assert one.tobytes() == other.tobytes()
    # And the same as all at once, but for the order of sums.
    record = recording(rows, time=time, breaks=np.flatnonzero(begins))
    at_once = detector.residuals(record)
    np.testing.assert_array_equal(whole[0], time[at_once.index])
    lost = without_lost(at_once, record, detector, "export")
    assert np.isnan(lost).any()
    np.testing.assert_allclose(whole[1], lost, rtol=1e-4, atol=1e-6)


def test_a_detector_that_needs_all_rows_is_refused():
    with pytest.raises(StreamError, match="NSIBF needs a whole record"):
        make_detector("nsibf").look_back()
    with pytest.raises(StreamError, match="Training mean needs a whole record"):
        make_detector("mean", missing="mean").look_back()


# --- Telemetry ------------------------------------------------------------------------


def test_telemetry_cut_into_files_gives_the_alarms_of_one_record(tmp_path):
    rows = telemetry(9000, seed=2)
    detector = make_detector("var", every=2).fit(recording(rows[:2000]))
    stream = export_stream(
        detector,
        recording(rows[:2000], time=BEGIN + STEP_S * np.arange(2000)),
        recording(rows[2000:], time=BEGIN + STEP_S * np.arange(2000, 9000)),
    )
    detector.save(tmp_path / "var.npz")
    done = commission(stream, budget="24/day,3%", first=0.9, choose="all")
    write_rule(done, tmp_path / "rule.json", detector=tmp_path / "var.npz")
    n = 2400
    later, time = telemetry(n, seed=7), BEGIN + 1e6 + STEP_S * np.arange(n)
    later[700:720, 0] += 9
    later[1500:1800, 2] += 5
    later[300:340, 1] = np.nan
    time[1300:] += 7200
    kept = np.ones(n, bool)
    kept[[100, 101, 900]] = False  # short gaps are filled with the last row
    time, later = time[kept], later[kept]
    states = []
    for k, cuts in enumerate(([], [5, 99, 101, 320, 703, 1296, 1297, 2000])):
        folder = tmp_path / f"exports{k}"
        folder.mkdir()
        for j, part in enumerate(np.split(np.arange(len(time)), cuts)):
            write_export(folder / f"{j}.csv", time[part], later[part])
        place = tmp_path / f"state{k}" / "state.db"
        watched = watch_folder(tmp_path / "rule.json", folder, place)
        assert watched.notices == ()
        states.append(dump(place))
        states[-1].pop("read")
    assert states[0] == states[1]
    assert len(states[0]["episodes"]) > 3
    # The same alarms as `apply` finds in the folder.
    made_rule = read_rule(tmp_path / "rule.json")
    record = open_record(tmp_path / "exports0", made_rule, tmp_path / "rule.json")
    run = made_rule.rule.run(record.rows, breaks=record.breaks)
    starts = [alarm.start for alarm in states[0]["episodes"]]
    assert starts == record.time[run.episodes.starts][: len(starts)].tolist()
    # A tag that the file lacks is out of service; the others are watched.
    write_export(folder / "x.csv", time[:9] + 1e6, later[:9, :3], CHANNELS[:3])
    done = watch_folder(tmp_path / "rule.json", folder, place)
    assert done.notices == ("x.csv: has no column LIT201.",)
    assert (done.read, done.is_watching) == (("x.csv",), True)
