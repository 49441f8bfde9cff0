"""Unexplained episodes: known bursts are found, and attacks are not among them."""

import numpy as np
import pytest

from sightline import ResidualStream, StreamError, evaluate, find_episodes
from sightline.energy.energy import MOST_LEADING
from sightline.rules.episodes import AROUND, N_COLUMNS

BURSTS = {4000: (0, 30, 8.0), 20_000: (1, 60, 6.0), 33_000: (2, 1, 30.0)}
CHANNELS = ("LIT101", "FIT201", "AIT301", "PIT501")


def burst_stream(**given):
    rng = np.random.default_rng(21)
    test = rng.normal(size=(40_000, 4))
    for start, (channel, length, size) in BURSTS.items():
        test[start : start + length, channel] += size
    train = rng.normal(size=(8000, 4))
    return ResidualStream(train, test, channels=CHANNELS, step_s=10.0, **given)


def by_burst(episodes):
    """Return the episode that each burst makes."""
    return {
        start: next(
            one for one in episodes if one.start <= start + length and one.stop > start
        )
        for start, (_, length, _) in BURSTS.items()
    }


def test_known_bursts_are_found_where_they_are_and_by_their_tag():
    episodes = find_episodes(burst_stream())
    assert [one.start for one in episodes] == sorted(one.start for one in episodes)
    for start, one in by_burst(episodes).items():
        channel, length, _ = BURSTS[start]
        assert start <= one.start < start + length
        assert one.tags[0] == CHANNELS[channel]
        assert len(one.tags) <= MOST_LEADING
        assert one.peak > 1.0
    # The three bursts are stronger than anything by chance.
    strongest = sorted(episodes, key=lambda one: -one.peak)[:3]
    assert {one.start for one in strongest} == {
        one.start for one in by_burst(episodes).values()
    }


def test_the_strongest_are_kept():
    every = find_episodes(burst_stream(), budget="24/day,5%", most=1000)
    few = find_episodes(burst_stream(), budget="24/day,5%", most=5)
    assert len(every) > 5
    limit = sorted((one.peak for one in every), reverse=True)[4]
    assert few == tuple(one for one in every if one.peak >= limit)


def test_alarms_in_an_attack_or_after_it_are_explained():
    labels = np.zeros(40_000, int)
    labels[20_000:20_060] = 1
    episodes = find_episodes(burst_stream(labels=labels))
    starts = [one.start for one in episodes]
    assert not any(20_000 <= start < 20_120 for start in starts)
    assert any(4000 <= start < 4030 for start in starts)


def test_a_picture_shows_the_peak_and_stays_within_its_run():
    breaks = [0, 20_030]
    episodes = find_episodes(burst_stream(test_breaks=breaks))
    for one in episodes:
        picture = one.picture
        assert max(picture.values) == pytest.approx(one.peak, rel=1e-3)
        assert 0 < len(picture.values) <= N_COLUMNS
        stop = picture.first + picture.step * len(picture.values)
        assert picture.first <= one.start < one.stop <= stop
        assert stop - picture.first <= one.stop - one.start + 2 * AROUND[1] + N_COLUMNS
        run = np.searchsorted(breaks, one.start, side="right") - 1
        assert picture.first >= breaks[run]


def test_too_little_time_is_refused_with_the_hours_that_are_missing():
    rng = np.random.default_rng(0)
    short = ResidualStream(
        rng.normal(size=(500, 2)), rng.normal(size=(500, 2)), step_s=10.0
    )
    with pytest.raises(StreamError, match="hours are missing"):
        find_episodes(short)


def test_evaluate_has_them_without_attacks_alone():
    stream = burst_stream()
    found = evaluate(stream, intervals=False)
    assert found.episodes == find_episodes(stream)
    labels = np.zeros(40_000, int)
    labels[20_000:20_060] = 1
    attacked = evaluate(stream.replace(labels=labels), intervals=False, metrics="none")
    assert attacked.episodes is None
