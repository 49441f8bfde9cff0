"""From a recording to scaled rows, against the same written out cell by cell."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline import Recording, Tag
from sightline.detectors import GDN, FuSAGNet, TranAD
from sightline.detectors.preprocessing import Preprocessing, forecast_windows
from sightline.detectors.settings import PreprocessingSettings
from sightline.errors import StreamError

GOLDEN = Path(__file__).parents[1] / "golden"
SAMPLINGS = ("median", "mean", "stride", "first", "last", "by-role")


def recording(values, **known):
    values = np.asarray(values, float)
    values = values[:, np.newaxis] if values.ndim == 1 else values
    roles = ("sensor", "actuator")
    tags = tuple(Tag(name=f"T{k}", role=roles[k % 2]) for k in range(values.shape[1]))
    return Recording(values=values, tags=tags, **known)


def noise(n=60, channels=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, channels))


def made(values, test=None, **options):
    """Scaled train and, if given, scaled test; in double precision."""
    settings = PreprocessingSettings(**options)
    train = values if isinstance(values, Recording) else recording(values)
    learned = Preprocessing.fit(train, settings)
    ours = learned.train(train, settings, np.float64)
    if test is None:
        return ours
    test = test if isinstance(test, Recording) else recording(test)
    return ours, learned.test(test, settings, np.float64)


# ---------------------------------------------------------------- published code


@pytest.fixture
def golden(request):
    with np.load(GOLDEN / f"{request.param}_preproc.npz") as file:
        return dict(file)


@pytest.mark.parametrize("golden", ["gdn"], indirect=True)
def test_official_gdn_makes_the_published_rows(golden):
    settings = GDN("official", testbed="swat", trim_s=0).settings
    assert settings.every == 10
    train, test = recording(golden["train_raw"]), recording(golden["test_raw"])
    learned = Preprocessing.fit(train, settings)
    ours = learned.train(train, settings, np.float64)
    np.testing.assert_allclose(ours.values, golden["train_down"], rtol=0, atol=1e-12)
    ours = learned.test(test, settings, np.float64)
    np.testing.assert_allclose(ours.values, golden["test_down"], rtol=0, atol=1e-12)
    # The windows: five rows and the one to be forecast.
    cut = forecast_windows(ours.values, ours.breaks, settings.window + 1)
    targets = ours.values[cut.starts + settings.window]
    np.testing.assert_allclose(targets, golden["test_down"][5:], rtol=0, atol=1e-12)
    assert ours.rows[cut.steps].tolist() == [50, 60, 70, 80]


@pytest.mark.parametrize("golden", ["fusagnet"], indirect=True)
def test_official_fusagnet_makes_the_published_windows(golden):
    settings = FuSAGNet("official", stride=2).settings
    train, test = recording(golden["train_raw"]), recording(golden["test_raw"])
    learned = Preprocessing.fit(train, settings)
    for name, stride, ours in (
        ("train", settings.stride, learned.train(train, settings, np.float64)),
        ("test", 1, learned.test(test, settings, np.float64)),
    ):
        cut = forecast_windows(ours.values, ours.breaks, settings.window + 1)
        rows = cut.starts[::stride, np.newaxis] + np.arange(cut.length)
        both = cut.values[rows].transpose(0, 2, 1)
        # Their windows are kept in single precision.
        for part, key in ((both[..., :-1], "x"), (both[..., -1], "y")):
            theirs = golden[f"{name}_{key}"]
            np.testing.assert_allclose(part, theirs, rtol=0, atol=1e-7)


@pytest.mark.parametrize("kind", [GDN, FuSAGNet, TranAD])
@pytest.mark.parametrize("preset", ["export", "official"])
def test_presets_scale_as_their_specification_says(kind, preset):
    # Channels: moving, constant at 4, constant at 0.
    values = np.column_stack([noise(20, 1)[:, 0], np.full(20, 4.0), np.zeros(20)])
    settings = kind(preset).settings
    learned = Preprocessing.fit(recording(values), settings)
    ours = learned.train(recording(values), settings, np.float64).values
    moved = learned.test(
        recording(values + np.array([0, 2, 2])), settings, np.float64
    ).values
    expected = {
        ("gdn", "export"): ([0, 2], [0, 2]),
        ("gdn", "official"): ([0, 2], [0, 2]),
        ("fusagnet", "export"): ([1, 1.5], [0, 2]),
        ("fusagnet", "official"): ([1, 1.5], [0, 2]),
        ("tranad", "export"): ([0, 2], [0, 2]),
        ("tranad", "official"): ([0, 2e4], [0, 2e4]),
    }[kind.card.name, preset]
    for column, (of_train, of_test) in zip((1, 2), expected, strict=True):
        np.testing.assert_allclose(ours[:, column], of_train, atol=1e-12)
        np.testing.assert_allclose(moved[:, column], of_test, rtol=1e-9)
    # TranAD adds a ten-thousandth to every range.
    raw = values[:, 0].astype(np.float32 if settings.round_raw else np.float64)
    raw = raw.astype(np.float64)
    extra = 1e-4 if kind is TranAD else 0.0
    span = raw.max() - raw.min() + extra
    np.testing.assert_allclose(ours[:, 0], (raw - raw.min()) / span, atol=1e-14)


# ----------------------------------------------------------------------- scaling


@pytest.mark.parametrize(
    ("convention", "of_train", "of_test"),
    [("unit", 0.0, 3.0), ("ratio", 1.0, 1.75), ("epsilon", 0.0, 300.0)],
)
def test_a_channel_constant_in_train(convention, of_train, of_test):
    values = np.column_stack([np.arange(5.0), np.full(5, 4.0)])
    train, test = made(
        values, values + 3, constant_channels=convention, range_epsilon=0.01
    )
    np.testing.assert_allclose(train.values[:, 1], of_train)
    np.testing.assert_allclose(test.values[:, 1], of_test)
    # The moving channel is treated alike by all.
    np.testing.assert_allclose(train.values[:, 0], np.arange(5) / 4.01)


def test_ratio_leaves_an_all_zero_channel_as_it_is():
    values = np.column_stack([np.arange(5.0), np.zeros(5)])
    train, test = made(values, values + 3, constant_channels="ratio")
    assert (train.values[:, 1] == 0).all()
    assert (test.values[:, 1] == 3).all()


def test_constant_channels_can_be_left_out():
    values = np.column_stack([np.full(5, 4.0), np.arange(5.0), np.full(5, 1.0)])
    train, test = made(values, values + 2, constant_channels="drop")
    np.testing.assert_allclose(train.values, np.arange(5)[:, np.newaxis] / 4)
    np.testing.assert_allclose(test.values, (np.arange(5)[:, np.newaxis] + 2) / 4)


def test_nothing_but_constant_channels_cannot_be_left_out():
    with pytest.raises(StreamError, match="Every channel of train is constant"):
        made(np.ones((5, 2)), constant_channels="drop")


@pytest.mark.parametrize("missing", ["hold", "mean"])
def test_train_alone_decides_the_scale(missing):
    values, settings = noise(), PreprocessingSettings(missing=missing)
    train = recording(values)
    learned = Preprocessing.fit(train, settings)
    before = learned.train(train, settings, np.float64).values
    test = recording(100 * noise(40, seed=1) + 50)
    ours = learned.test(test, settings, np.float64).values
    low, high = values.min(axis=0), values.max(axis=0)
    np.testing.assert_allclose(ours, (test.values - low) / (high - low), rtol=1e-12)
    assert (learned.train(train, settings, np.float64).values == before).all()
    assert before.min() == 0
    assert before.max() == 1


def test_own_scaling_looks_ahead_and_says_so():
    values = 100 * noise(40, seed=1) + 50
    _, test = made(noise(), values, test_scaling="own")
    low, high = values.min(axis=0), values.max(axis=0)
    np.testing.assert_allclose(test.values, (values - low) / (high - low), rtol=1e-12)
    assert any("looks ahead" in notice for notice in test.notices)
    assert made(noise(), values)[1].notices == ()


def test_clip_keeps_scaled_values_within_bounds():
    train, test = noise(), 10 * noise(seed=1)
    free = made(train, test)[1].values
    clipped = made(train, test, clip=(-0.5, 1.5))[1].values
    assert free.min() < -0.5
    assert free.max() > 1.5
    assert (clipped == np.clip(free, -0.5, 1.5)).all()


@pytest.mark.parametrize("clip", [(1, 0), (1, 1), 3, "ab", (0, np.nan), (0, 1, 2)])
def test_bounds_that_are_none_are_refused(clip):
    with pytest.raises(StreamError, match="`clip` must be a low and a high number"):
        PreprocessingSettings(clip=clip)


def test_raw_values_are_rounded_first():
    values = noise() + 1e6
    rounded = values.astype(np.float32).astype(float)
    ours, exact = made(values, round_raw=True).values, made(values).values
    assert (ours == made(rounded).values).all()
    # At a million single precision has steps of 1/16: not the same numbers.
    assert not np.allclose(ours, exact, atol=1e-3)


def test_precision_is_as_asked():
    settings = PreprocessingSettings()
    train = recording(noise())
    learned = Preprocessing.fit(train, settings)
    for dtype in (np.float32, np.float64):
        assert learned.train(train, settings, dtype).values.dtype == dtype
        assert learned.test(train, settings, dtype).values.dtype == dtype


# ------------------------------------------------------------- rows and their steps


@st.composite
def plants(draw):
    """A recording with gaps in its time stamps, and how to make rows of it."""
    n = draw(st.integers(8, 60))
    gaps = draw(st.sets(st.integers(1, n - 1), max_size=4))
    jumps = np.ones(n)
    jumps[0] = 0
    jumps[list(gaps)] = draw(st.integers(2, 30))
    time = 100 + np.cumsum(jumps)
    values = noise(n, 3, seed=draw(st.integers(0, 99)))
    return recording(values, time=time, step_s=1.0), {
        "every": draw(st.integers(1, 4)),
        "sampling": draw(st.sampled_from(SAMPLINGS)),
        "across_breaks": draw(st.booleans()),
        "trim_s": float(draw(st.integers(0, n // 2))),
        "scale_before_trim": draw(st.booleans()),
        "cross_gaps": draw(st.booleans()),
    }


def by_hand(plant, options, *, is_train):
    """Scaled rows, their steps and the run of each, one block after another."""
    values, n, every = plant.values, plant.n_steps, options["every"]
    cut = next(k for k in range(n) if plant.time[k] >= 100 + options["trim_s"])
    ranged = values if options["scale_before_trim"] else values[cut:]
    low, high = ranged.min(axis=0), ranged.max(axis=0)
    span = np.where(low == high, 1.0, high - low)
    runs = [0] if options["across_breaks"] else plant.breaks.tolist()
    rows, steps = [], []
    for start, stop in zip(runs, [*runs[1:], n], strict=True):
        for first in range(start, stop, every):
            block = values[first : min(first + every, stop)]
            if len(block) < every and options["sampling"] != "stride":
                continue
            if is_train and first < cut:
                continue
            row = {
                "median": np.median(block, axis=0),
                "mean": np.mean(block, axis=0),
                "stride": block[0],
                "first": block[0],
                "last": block[-1],
                "by-role": np.array(
                    [np.median(block[:, 0]), block[-1, 1], np.median(block[:, 2])]
                ),
            }[options["sampling"]]
            rows.append((row - low) / span)
            steps.append(first)
    run = np.searchsorted(plant.breaks, steps, side="right")
    begins = [k for k in range(len(steps)) if k == 0 or run[k] != run[k - 1]]
    return np.array(rows), steps, [0] if options["cross_gaps"] else begins


def test_by_the_spread_mean_and_deviation_of_train_become_0_and_1():
    rng = np.random.default_rng(0)
    values = np.column_stack([rng.normal(5, 3, 400), np.full(400, 7.0)])
    plant = Recording(values=values, tags=(Tag(name="a"), Tag(name="b")))
    settings = PreprocessingSettings(scaler="spread")
    learned = Preprocessing.fit(plant, settings)
    rows = learned.train(plant, settings, np.float64).values
    np.testing.assert_allclose(rows.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(rows.std(axis=0), [1, 0], atol=1e-12)
    other = PreprocessingSettings(scaler="spread", test_scaling="own")
    moved = Recording(values=2 * values + 1, tags=plant.tags)
    own = learned.test(moved, other, np.float64).values
    np.testing.assert_allclose(own, rows, atol=1e-12)


@given(plants())
def test_rows_steps_and_runs_are_those_made_by_hand(drawn):
    plant, options = drawn
    settings = PreprocessingSettings(**options)
    try:
        learned = Preprocessing.fit(plant, settings)
        train = learned.train(plant, settings, np.float64)
    except StreamError:
        # No full block is left.
        assert not by_hand(plant, options, is_train=True)[1]
        return
    test = learned.test(plant, settings, np.float64)
    for ours, is_train in ((train, True), (test, False)):
        rows, steps, begins = by_hand(plant, options, is_train=is_train)
        np.testing.assert_allclose(ours.values, rows, atol=1e-12)
        assert ours.rows.tolist() == steps
        assert ours.breaks.tolist() == begins
    # Rows to be learned from are rows that will be told about, and the same ones.
    place = np.searchsorted(test.rows, train.rows)
    assert (test.rows[place] == train.rows).all()
    assert (test.values[place] == train.values).all()


def test_trim_counts_steps_where_there_is_no_time():
    train = made(recording(noise(30), step_s=2.0), trim_s=9.0)
    # 4.5 steps are 4, to the nearest even number.
    assert train.rows.tolist() == list(range(4, 30))


def test_range_is_taken_before_or_after_the_trim():
    values = np.append([100.0, -100.0], np.linspace(0, 1, 20))
    plant = recording(values, step_s=1.0)
    after = made(plant, trim_s=2)
    np.testing.assert_allclose(after.values[:, 0], np.linspace(0, 1, 20), atol=1e-15)
    before = made(plant, trim_s=2, scale_before_trim=True)
    np.testing.assert_allclose(before.values[[0, -1], 0], [0.5, 0.505])


@pytest.mark.parametrize("time", [None, np.arange(30.0)])
def test_a_trim_that_leaves_nothing_is_refused(time):
    plant = recording(noise(30), time=time, step_s=1.0)
    for before in (True, False):
        with pytest.raises(StreamError, match=r"of 500 s leaves no row.*lower"):
            made(plant, trim_s=500, scale_before_trim=before)


def test_a_trim_that_leaves_no_whole_block_is_refused():
    with pytest.raises(StreamError, match="leaves no row of train"):
        made(recording(noise(30), step_s=1.0), trim_s=25, every=10)


def test_a_trim_of_unknown_steps_is_refused():
    with pytest.raises(StreamError, match="neither `time` nor `step_s`: give one"):
        made(recording(noise(30)), trim_s=5)


def test_blocks_longer_than_every_run_are_refused():
    with pytest.raises(StreamError, match=r"`every` is 40 rows.*lower it"):
        made(noise(30), every=40)


# ------------------------------------------------------------------ missing cells


def holes(values, share=0.3, seed=5):
    values = values.copy()
    values[np.random.default_rng(seed).random(values.shape) < share] = np.nan
    return values


def test_a_missing_cell_holds_the_last_value_of_its_run():
    train = np.column_stack([np.arange(9.0), np.arange(9.0)])
    test = np.column_stack([[np.nan, 2, np.nan, np.nan, 6, np.nan, 8, 1, np.nan]] * 2)
    _, ours = made(train, recording(test, breaks=[0, 5]))
    mean = train[:, 0].mean()
    held = np.array([mean, 2, 2, 2, 6, mean, 8, 1, 1]) / 8
    np.testing.assert_allclose(ours.values, np.column_stack([held, held]))
    assert ours.notices == (
        "10 missing cells of 18 were given the last value before them (train's mean "
        "where there was none).",
    )


@given(st.integers(0, 999), st.integers(1, 29))
def test_what_comes_later_changes_nothing_earlier(seed, row):
    train, values = holes(noise()), holes(noise(30, seed=seed), seed=seed)
    later = values.copy()
    later[row:] = holes(50 * noise(30 - row, seed=seed + 1), seed=seed + 1)
    breaks = [0, 12]
    first = made(train, recording(values, breaks=breaks))[1].values
    second = made(train, recording(later, breaks=breaks))[1].values
    assert (first[:row] == second[:row]).all()
    assert not (first[row:] == second[row:]).all()


def test_leading_cells_take_the_mean_of_train():
    train, test = holes(noise()), noise(20, seed=1)
    test[:4] = np.nan
    learned = Preprocessing.fit(recording(train), PreprocessingSettings())
    _, ours = made(train, test)
    expected = (np.nanmean(train, axis=0) - learned.scaling.offset) / (
        learned.scaling.scale
    )
    np.testing.assert_allclose(ours.values[:4], np.tile(expected, (4, 1)), rtol=1e-12)


def test_official_mean_is_that_of_the_very_recording():
    train, test = holes(noise()), holes(noise(30, seed=1) + 9, seed=6)
    ours_train, ours = made(train, test, missing="mean")
    filled = np.where(np.isnan(train), np.nanmean(train, axis=0), train)
    low, span = filled.min(axis=0), np.ptp(filled, axis=0)
    np.testing.assert_allclose(ours_train.values, (filled - low) / span, atol=1e-12)
    filled = np.where(np.isnan(test), np.nanmean(test, axis=0), test)
    np.testing.assert_allclose(ours.values, (filled - low) / span, rtol=1e-12)
    assert "the mean of the recording" in ours.notices[0]


@pytest.mark.parametrize("missing", ["hold", "mean"])
@pytest.mark.parametrize("constant", [0.1, 1e9 / 3, -7.7])
@pytest.mark.parametrize("n", [7, 1000])
def test_a_constant_channel_with_a_hole_stays_constant(missing, constant, n):
    # The mean of n equal numbers may be off by a rounding, which would be its range.
    values = np.column_stack([np.arange(1.0 * n), np.full(n, constant)])
    values[0, 1] = np.nan
    learned = Preprocessing.fit(
        recording(values), PreprocessingSettings(missing=missing)
    )
    assert learned.scaling.scale[1] == 1
    assert learned.scaling.offset[1] == constant


def test_a_constant_channel_with_a_hole_stays_constant_when_rounded():
    values = np.column_stack([np.arange(9.0), np.full(9, 0.1)])
    values[0, 1] = np.nan
    settings = FuSAGNet("official").settings
    learned = Preprocessing.fit(recording(values), settings)
    assert learned.scaling.scale[1] == np.float32(0.1)


@pytest.mark.parametrize("missing", ["hold", "mean"])
def test_a_channel_nobody_ever_measured_is_zero(missing):
    values = noise()
    values[:, 1] = np.nan
    train, test = made(values, values, missing=missing)
    assert (train.values[:, 1] == 0).all()
    assert (test.values[:, 1] == 0).all()
    assert "60 missing cells of 180" in train.notices[0]


@pytest.mark.parametrize("missing", ["hold", "mean"])
def test_infinite_cells_are_missing_cells(missing):
    with_nan = holes(noise())
    with_inf = with_nan.copy()
    is_hole = np.isnan(with_nan)
    signs = np.where(np.arange(is_hole.sum()) % 2, np.inf, -np.inf)
    with_inf[is_hole] = signs
    nan, inf = (
        made(values, values, missing=missing) for values in (with_nan, with_inf)
    )
    for ours, theirs in zip(nan, inf, strict=True):
        assert np.isfinite(theirs.values).all()
        assert (ours.values == theirs.values).all()
        assert ours.notices == theirs.notices


def test_nothing_is_said_where_nothing_is_missing():
    train, test = made(noise(), noise())
    assert train.notices == test.notices == ()


def test_the_recording_itself_is_never_changed():
    values = holes(noise())
    plant = recording(values, step_s=1.0)
    before = plant.values.copy()
    made(plant, plant, every=2, trim_s=3, round_raw=True, clip=(0, 1))
    np.testing.assert_array_equal(plant.values, before)


# ---------------------------------------------------------------------- on and off


def test_what_was_learned_comes_back_from_its_arrays():
    values = np.column_stack([holes(noise()), np.ones(60)])
    settings = PreprocessingSettings(constant_channels="drop")
    learned = Preprocessing.fit(recording(values), settings)
    again = Preprocessing.of_arrays(learned.arrays())
    test = recording(holes(noise(30, 4, seed=2)))
    first, second = (p.test(test, settings, np.float64) for p in (learned, again))
    assert (first.values == second.values).all()


def test_labels_and_attacks_play_no_part():
    plant = recording(noise(), step_s=1.0)
    labelled = replace(plant, labels=np.ones(60, np.int8))
    ours, theirs = made(plant, every=3), made(labelled, every=3)
    assert (ours.values == theirs.values).all()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("every", 0),
        ("every", 1.5),
        ("trim_s", -1),
        ("trim_s", np.inf),
        ("range_epsilon", -1e-4),
        ("sampling", "mode"),
        ("constant_channels", "official"),
        ("missing", "zero"),
        ("test_scaling", "test"),
    ],
)
def test_what_is_not_an_option_is_refused(name, value):
    with pytest.raises(StreamError, match=f"`{name}` must be"):
        PreprocessingSettings(**{name: value})
