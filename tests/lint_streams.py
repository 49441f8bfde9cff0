"""Clean streams, and streams with one seeded violation of the protocol each."""

from dataclasses import replace

import numpy as np

from sightline import Attack, ResidualStream
from sightline.data.row_tables import gather_rows

# Long enough for 60 equal rows, and for shifted attacks.
N_TRAIN, N_TEST = 5000, 6000


def noise(rng, n_rows, p, memory=0.6):
    """Rows in which neighbours resemble each other, of spread 1."""
    rows = rng.normal(size=(n_rows, p)) * np.sqrt(1 - memory**2)
    for t in range(1, n_rows):
        rows[t] += memory * rows[t - 1]
    return rows


def clean_stream(seed, *, n_attacks=8, length=None, **more):
    """A stream as a detector in service would give it: nothing is wrong."""
    rng = np.random.default_rng([191, seed])
    p = int(rng.integers(3, 13))
    mixing = np.eye(p) + 0.2 * rng.normal(size=(p, p))
    train, test = (noise(rng, n, p) @ mixing for n in (N_TRAIN, N_TEST))
    labels = np.zeros(N_TEST, int)
    attacks = []
    for k, start in enumerate(np.linspace(300, N_TEST - 700, n_attacks).astype(int)):
        stop = start + (length or int(rng.integers(40, 120)))
        size = rng.uniform(3, 7) * np.sign(rng.normal())
        # An effect comes and goes more slowly than its label.
        shape = np.clip(np.arange(stop + 30 - start) / 12, 0, 1)
        shape[stop - start :] = np.linspace(1, 0, 30)
        channel = int(rng.integers(p))
        test[start : stop + 30] += size * shape[:, None] * mixing[channel]
        labels[start:stop] = 1
        attacks.append(Attack(id=f"A{k}", start=start, stop=stop))
    smooth = np.ones(5) / 5
    deviation = [
        np.abs(rows @ np.linalg.inv(mixing)).max(axis=1) for rows in (train, test)
    ]
    scores = [np.convolve(one, smooth)[: len(one)] for one in deviation]
    return ResidualStream(
        train,
        test,
        labels,
        segments=attacks,
        score=scores[1],
        alarms=(scores[1] > np.quantile(scores[0], 0.995)).astype(int),
        train_time=np.arange(N_TRAIN) * 10.0,
        test_time=1e6 + np.arange(N_TEST) * 10.0,
        name=f"clean{seed}",
        **more,
    )


def values_of(rows):
    return gather_rows(rows, np.arange(rows.n_rows))


def _best_limit(score, labels):
    order = np.argsort(-score)
    hits = np.cumsum(labels[order] == 1)
    f1 = 2 * hits / (np.arange(1, len(score) + 1) + (labels == 1).sum())
    return np.sort(score)[::-1][int(np.argmax(f1))]


def best_limit(stream, rng):
    limit = _best_limit(stream.score, stream.labels)
    return stream.replace(alarms=(stream.score >= limit).astype(int))


def rule_that_looks(stream, rng):
    rule = {"name": "best-f1-on-test", "looks_at": ["test labels"]}
    return stream.replace(meta={"native_rule": rule})


def own_moments(stream, rng):
    test = values_of(stream.test)
    return stream.replace(test=(test - test.mean(axis=0)) / test.std(axis=0))


def own_range(stream, rng):
    scaled = []
    for rows in (stream.train, stream.test):
        values = values_of(rows)
        low, high = values.min(axis=0), values.max(axis=0)
        scaled.append((values - low) / (high - low))
    return stream.replace(train=scaled[0], test=scaled[1])


def own_scaling_setting(stream, rng):
    return stream.replace(meta={"detector_settings": {"test_scaling": "own"}})


def adjusted(stream, rng):
    """Point adjustment: one alarm in an attack fills all of it."""
    limit = np.quantile(stream.score[stream.labels == 0], 0.999)
    alarms = (stream.score > limit) & (stream.labels == 1)
    for attack in stream.attack_segments():
        rows = attack.segment.rows
        alarms[rows] = alarms[rows].any()
    return stream.replace(alarms=alarms.astype(int))


def lagged(stream, rng):
    lag = int(rng.integers(150, 290)) * int(np.sign(rng.normal()))
    moved = [
        replace(a, start=a.start + lag, stop=a.stop + lag) for a in stream.segments
    ]
    return stream.replace(labels=np.roll(stream.labels, lag), segments=moved)


def rows_of_test_in_train(stream, rng):
    train, test = values_of(stream.train), values_of(stream.test)
    start = int(rng.integers(1000))
    train[start : start + 400] = test[200:600]
    return stream.replace(train=train)


def shared_time(stream, rng):
    return stream.replace(train_time=stream.test_time[:N_TRAIN] + 30_000)


def other_units(stream, rng):
    """Attacks in channels whose unit makes them a thousand times smaller."""
    units = np.full(stream.p, 1000.0)
    test, train = values_of(stream.test), values_of(stream.train)
    units[0] = 1.0
    is_attack = stream.labels == 1
    test[is_attack] = train[: is_attack.sum()]
    test[is_attack, 0] += 6
    return stream.replace(train=train * units, test=test * units)


def attacks_in_train(stream, rng):
    train, test = values_of(stream.train), values_of(stream.test)
    for attack in stream.segments[:2]:
        rows = slice(attack.start, attack.stop)
        effect = test[rows].mean(axis=0)
        start = int(rng.integers(1000, 4000))
        train[start : start + 40] += effect
    return stream.replace(train=train)


def standing(stream, rng):
    alarms = rng.random(len(stream.labels)) < 0.95
    return stream.replace(alarms=alarms.astype(int))


def silent_attack(stream, rng):
    """A stretch far from all attacks is labelled, in which nothing happens."""
    labels = stream.labels.copy()
    test = values_of(stream.test)
    rows = slice(N_TEST - 300, N_TEST - 240)
    labels[rows] = 1
    test[rows] = values_of(stream.train)[100:160] * 0.9
    more = Attack(id="silent", start=rows.start, stop=rows.stop)
    return stream.replace(test=test, labels=labels, segments=[*stream.segments, more])


def rounded_test(stream, rng):
    return stream.replace(test=np.round(values_of(stream.test), 1))


def rounded_train(stream, rng):
    return stream.replace(train=np.round(values_of(stream.train), 0))


def twice_sampled(stream, rng):
    return stream.replace(
        meta={
            "detector_settings": {"every": 10},
            "testbed_options": {"every": 10},
            "testbed_name": "swat",
        }
    )


def twice_by_preset(stream, rng):
    return stream.replace(
        meta={
            "detector_settings": {"every": 5},
            "testbed_options": {"preset": "gdn"},
            "testbed_name": "wadi",
        }
    )


def late_labels(stream, rng):
    """Labels begin 100 s after a step that is there at once."""
    test, labels = values_of(stream.test), stream.labels.copy()
    for attack in stream.segments:
        test[attack.start : attack.stop] += 12.0
        labels[attack.start : attack.start + 10] = 0
    segments = [replace(a, start=a.start + 10) for a in stream.segments]
    return stream.replace(test=test, labels=labels, segments=segments)


# Code, how to make the stream, and what to do to it. Forty in all.
VIOLATIONS = [
    *[("SL101", {}, best_limit)] * 2,
    ("SL101", {}, rule_that_looks),
    *[("SL102", {}, own_moments)] * 2,
    ("SL102", {}, own_range),
    ("SL102", {}, own_scaling_setting),
    *[("SL103", {}, adjusted)] * 3,
    *[("SL104", {}, lagged)] * 4,
    *[("SL105", {}, rows_of_test_in_train)] * 2,
    ("SL105", {}, shared_time),
    *[("SL106", {}, other_units)] * 3,
    *[("SL107", {}, attacks_in_train)] * 3,
    *[("SL108", {}, standing)] * 2,
    ("SL109", {"n_attacks": 2}, lambda stream, rng: stream),
    ("SL109", {"n_attacks": 4}, lambda stream, rng: stream),
    ("SL110", {"n_attacks": 6}, None),
    ("SL110", {"n_attacks": 7}, None),
    *[("SL111", {}, silent_attack)] * 4,
    *[("SL112", {}, rounded_test)] * 2,
    ("SL112", {}, rounded_train),
    *[("SL113", {}, twice_sampled)] * 2,
    ("SL113", {}, twice_by_preset),
    ("SL114", {}, late_labels),
]


def dominant(stream, rng):
    """The first attack is made to hold most rows."""
    labels = stream.labels.copy()
    last = stream.segments[-1]
    stop = min(last.start + 690, N_TEST)
    labels[last.start : stop] = 1
    for attack in stream.segments[:-1]:
        labels[attack.start + 30 : attack.stop] = 0
    segments = [
        *(replace(a, stop=a.start + 30) for a in stream.segments[:-1]),
        replace(last, stop=stop),
    ]
    return stream.replace(labels=labels, segments=segments)


def violated_stream(k, seed=0):
    """Return code and stream of violation number k."""
    code, how, change = VIOLATIONS[k]
    rng = np.random.default_rng([192, seed, k])
    stream = clean_stream(1000 * (seed + 1) + k, **how)
    return code, (change or dominant)(stream, rng)
