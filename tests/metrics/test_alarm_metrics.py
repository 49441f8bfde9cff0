"""Laws of the alarm and score metrics; their values are in the golden vectors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline import StreamError
from sightline.metrics import ALARM_METRICS, AlarmRuns, ScoreRanks

SCORES = ("rank", "best_pak", "pa_rank", "vus", "r_auc", "pate")
ALARMS = tuple(name for name in ALARM_METRICS if name not in SCORES)
# These look at which end of an attack comes first.
DIRECTED = ("delay", "nab", "delayed", "latency", "pate_f1", "pate")
each_metric = pytest.mark.parametrize("name", ALARM_METRICS)
each_alarm_metric = pytest.mark.parametrize("name", ALARMS)


@st.composite
def records(draw, most=60, ignored=False):
    """Labels with an attack and a normal row, alarms and scores of as many rows."""
    n = draw(st.integers(4, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    labels = np.repeat(rng.random(n) < 0.4, rng.integers(1, 6, n))[:n].astype(np.int8)
    labels[rng.integers(n)] = 1
    if ignored:
        labels[np.repeat(rng.random(n) < 0.2, rng.integers(1, 4, n))[:n]] = -1
    for code in (0, 1):
        if not (labels == code).any():
            labels[rng.integers(n)] = code
    alarms = np.repeat(rng.random(n) < 0.4, rng.integers(1, 6, n))[:n].astype(np.int8)
    scores = np.round(rng.normal(size=n), draw(st.sampled_from([0, 1, 9])))
    return labels, alarms, scores


def figures(name, labels, alarms, scores, **keywords):
    stream = scores if name in SCORES else alarms
    return ALARM_METRICS[name](labels, stream, **keywords)


def close(first, second):
    assert set(first) == set(second)
    for key, value in first.items():
        assert second[key] == pytest.approx(value, abs=1e-9, nan_ok=True), key


def test_the_registry_has_the_published_names():
    assert set(ALARM_METRICS) == set(
        "point rank pak pak_auc best_pak pa_rank range etapr tapr affiliation event "
        "composite esa delay nab vus r_auc delayed latency pate_f1 pate".split()
    )


@each_metric
@given(record=records())
@settings(max_examples=15)
def test_the_order_of_runs_does_not_matter(name, record):
    """Attacks in records of their own, joined in either order."""
    n = len(record[0])
    other = tuple(part[::-1] for part in record)
    joined = [np.concatenate(parts) for parts in zip(record, other, strict=True)]
    swapped = [np.concatenate(parts) for parts in zip(other, record, strict=True)]
    one, two = (figures(name, *both, breaks=[0, n]) for both in (joined, swapped))
    for key in ("each", "each_precision", "each_recall"):
        for each in (one, two):
            if key in each:
                each[key] = sorted(-1 if v is None else v for v in each[key])
    close(one, two)


@each_metric
@given(record=records())
@settings(max_examples=15)
def test_time_reversal_changes_nothing_where_time_has_no_direction(name, record):
    if name in DIRECTED:
        return
    forward, backward = (
        figures(name, *(part[::step] for part in record)) for step in (1, -1)
    )
    for key in ("each_precision", "each_recall"):
        if key in backward:
            backward[key] = backward[key][::-1]
    close(forward, backward)


@given(record=records())
@settings(max_examples=20)
def test_front_of_an_attack_is_the_back_of_the_reversed_one(record):
    labels, alarms, _ = record
    call = ALARM_METRICS["range"]
    forward = call(labels, alarms, r_bias="front", p_bias="middle", alpha=0.3)
    backward = call(
        labels[::-1], alarms[::-1], r_bias="back", p_bias="middle", alpha=0.3
    )
    close(forward, backward)


@given(record=records())
@settings(max_examples=40)
def test_one_more_alarmed_attack_row_lowers_no_recall(record):
    labels, alarms, _ = record
    more = alarms.copy()
    more[np.flatnonzero(labels == 1)[:1]] = 1
    # Recall by ranges falls when an episode is split off; of whole attacks it does not.
    for name in ("point", "pak", "event", "composite", "affiliation", "esa"):
        before, after = (
            ALARM_METRICS[name](labels, a)["recall"] for a in (alarms, more)
        )
        assert after >= before - 1e-12, name
    before, after = (
        ALARM_METRICS["range"](labels, a, cardinality="one")["recall"]
        for a in (alarms, more)
    )
    assert after >= before - 1e-12
    late, early = (
        ALARM_METRICS["delay"](labels, a)["censored_mean"] for a in (alarms, more)
    )
    assert early <= late


@given(record=records())
@settings(max_examples=40)
def test_one_more_false_alarm_row_raises_no_precision(record):
    labels, alarms, _ = record
    free = np.flatnonzero((labels == 0) & (alarms == 0))
    more = alarms.copy()
    more[free[:1]] = 1
    for name in ("point", "pak", "composite"):
        before, after = (ALARM_METRICS[name](labels, a) for a in (alarms, more))
        assert after["f1"] <= before["f1"] + 1e-12
        if before["precision"] is not None:
            assert after["precision"] <= before["precision"] + 1e-12
    before, after = (
        ALARM_METRICS["nab"](labels, a, fp_weight=0) for a in (alarms, more)
    )
    assert after == before


@given(record=records())
@settings(max_examples=20)
def test_perfect_alarms(record):
    labels = record[0]
    for name in ALARMS:
        out = ALARM_METRICS[name](labels, labels)
        for key in ("precision", "recall", "f1", "f", "eTaR", "eTaP", "TaR", "TaP"):
            assert out.get(key, 1.0) == pytest.approx(1.0), (name, key)
    assert ALARM_METRICS["nab"](labels, labels)["score"] == pytest.approx(100.0)
    assert ALARM_METRICS["delay"](labels, labels)["censored_mean"] == 0
    assert ALARM_METRICS["pak_auc"](labels, labels)["value"] == pytest.approx(1.0)
    for name in ("rank", "pa_rank"):
        out = ALARM_METRICS[name](labels, labels.astype(float))
        assert out["roc_auc"] == out["average_precision"] == 1.0
    assert ALARM_METRICS["best_pak"](labels, labels.astype(float))["f1"] == 1.0


@given(record=records())
@settings(max_examples=20)
def test_no_alarm_has_no_precision_no_recall_and_f_0(record):
    labels = record[0]
    never = np.zeros_like(labels)
    undefined = ("precision", "eTaP", "TaP", "mean", "alarming_precision")
    zero = ("recall", "f1", "f", "f_1", "eTaR", "TaR", "detected")
    for name in ALARMS:
        out = ALARM_METRICS[name](labels, never)
        assert all(out[key] is None for key in undefined if key in out), name
        assert all(out[key] == 0 for key in zero if key in out), name
    assert ALARM_METRICS["nab"](labels, never)["score"] == 0


@given(record=records())
@settings(max_examples=20)
def test_alarms_all_the_time(record):
    labels = record[0]
    always = np.ones_like(labels)
    share = float(np.mean(labels == 1))
    for name in ("point", "pak", "composite"):
        out = ALARM_METRICS[name](labels, always)
        assert (out["precision"], out["recall"]) == pytest.approx((share, 1.0))
    assert ALARM_METRICS["event"](labels, always)["f1"] == 1
    assert ALARM_METRICS["esa"](labels, always)["precision"] == 0
    assert ALARM_METRICS["delay"](labels, always)["mean"] == 0


@given(record=records(), rows=st.integers(1, 5))
@settings(max_examples=20)
def test_ignored_rows_count_nowhere(record, rows):
    """After a break, ignored rows add nothing, whatever alarms or scores they have."""
    labels, alarms, scores = record
    n = len(labels)
    longer = (
        np.append(labels, np.full(rows, -1, np.int8)),
        np.append(alarms, np.ones(rows, np.int8)),
        np.append(scores, np.full(rows, 1e6)),
    )
    for name in ALARM_METRICS:
        close(figures(name, *record), figures(name, *longer, breaks=[0, n]))


@given(first=records(), second=records())
@settings(max_examples=20)
def test_runs_are_pooled(first, second):
    n = len(first[0])
    joined = [np.concatenate(parts) for parts in zip(first, second, strict=True)]
    calls = {
        name: [
            figures(name, *first),
            figures(name, *second),
            figures(name, *joined, breaks=[0, n]),
        ]
        for name in ("event", "delay", "affiliation", "nab")
    }
    for name, output in (
        ("event", "detected"),
        ("event", "false_alarms"),
        ("nab", "raw"),
    ):
        one, two, both = (out[output] for out in calls[name])
        assert both == pytest.approx(one + two)
    for name, output in (
        ("delay", "each"),
        ("affiliation", "each_precision"),
        ("affiliation", "each_recall"),
    ):
        one, two, both = (out[output] for out in calls[name])
        assert both == one + two


@given(record=records(ignored=True), data=st.data())
@settings(max_examples=60)
def test_moved_runs_are_those_of_moved_rows(record, data):
    labels, alarms, scores = record
    n = len(labels)
    inner = data.draw(st.lists(st.integers(1, n - 1), max_size=3))
    breaks, shift = [0, *inner], data.draw(st.integers(0, 2 * n))
    counted = labels != -1
    moved_alarms, moved_scores = alarms * counted, scores.copy()
    moved_alarms[counted] = np.roll(alarms[counted], shift)
    moved_scores[counted] = np.roll(scores[counted], shift)
    runs = AlarmRuns.of(labels, alarms, breaks).rolled(shift)
    expected = AlarmRuns.of(labels, moved_alarms, breaks)
    assert runs.starts.tolist() == expected.starts.tolist()
    assert runs.stops.tolist() == expected.stops.tolist()
    ranks = ScoreRanks.of(labels, scores, breaks).rolled(shift)
    for name in SCORES:
        metric = ALARM_METRICS[name]
        close(metric(ranks), metric(labels, moved_scores, breaks=breaks))


@given(record=records())
@settings(max_examples=20)
def test_a_rising_transform_of_the_score_changes_no_rank_figure(record):
    labels, _, scores = record
    for name in SCORES:
        one, two = (
            ALARM_METRICS[name](labels, s) for s in (scores, np.exp(scores / 4))
        )
        for key in ("threshold", "best_f1_threshold"):
            one.pop(key, None), two.pop(key, None)
        close(one, two)


def plain_vus(labels, scores, breaks, windows, sliding):
    """VUS by its definition, row by row."""
    n = int((labels >= 0).sum())
    run_of = np.searchsorted(breaks, np.arange(len(labels)), side="right")
    attacks, row = [], 0
    while row < len(labels):
        if labels[row] == 1:
            last = row
            while (
                last + 1 < len(labels)
                and labels[last + 1] == 1
                and run_of[last + 1] == run_of[row]
            ):
                last += 1
            attacks.append((row, last))
            row = last
        row += 1
    falling = np.sort(scores[labels >= 0])[::-1]
    limits = falling[np.linspace(0, n - 1, 250).astype(int)]
    n_attack, areas = int((labels == 1).sum()), []
    for w in windows:
        h = w // 2
        weight = np.zeros(len(labels))
        for t in np.flatnonzero(labels == 0):
            for first, last in attacks:
                d = first - t if t < first else t - last
                if run_of[first] == run_of[t] and d <= h:
                    weight[t] += np.sqrt(1 - d / w)
        weight = np.minimum(weight, 1)
        groups = []
        for first, last in attacks:
            edge = groups and groups[-1][1]
            same = groups and run_of[edge] == run_of[first]
            if same and edge + h + (0 if sliding else 1) >= first - h:
                groups[-1] = (groups[-1][0], last)
            else:
                groups.append((first, last))
        points = []
        for limit in limits:
            alarmed = (scores >= limit) & (labels >= 0)
            hits = int((alarmed & (labels == 1)).sum()) + weight[alarmed].sum()
            around = weight[alarmed].sum() if sliding else weight.sum()
            seen = np.mean(
                [
                    any(
                        alarmed[t] and run_of[t] == run_of[first]
                        for t in range(
                            max(first - h, 0), min(last + h + 1, len(labels))
                        )
                    )
                    for first, last in groups
                ]
            )
            positive = n_attack + around / 2
            recall = min(hits / positive, 1) * seen
            fpr = (alarmed.sum() - hits) / (n - positive)
            points.append((fpr, recall, hits / alarmed.sum()))
        fpr, recall, precision = np.array(points).T
        roc = np.trapezoid([0, *recall, 1], [0, *fpr, 1])
        earlier = np.append(1.0, precision[:-1])
        before = precision if sliding else (precision + earlier) / 2
        areas.append((roc, np.diff(recall, prepend=0) @ before))
    return dict(zip(("roc", "pr"), np.mean(areas, axis=0), strict=True))


@given(record=records(most=30, ignored=True), cut=st.integers(1, 3))
@settings(max_examples=6, deadline=None)
def test_volumes_with_breaks_and_ignored_rows_follow_their_definition(record, cut):
    labels, _, scores = record
    breaks = np.array([0, cut])
    expected = plain_vus(labels, scores, breaks, range(7), sliding=True)
    close(ALARM_METRICS["vus"](labels, scores, window=6, breaks=breaks), expected)
    expected = plain_vus(labels, scores, breaks, [5], sliding=False)
    close(ALARM_METRICS["r_auc"](labels, scores, window=5, breaks=breaks), expected)


@each_metric
def test_without_an_attack_every_figure_is_undefined(name):
    out = figures(name, [0, 0, -1], [0, 1, 1], [0.1, 0.2, 0.3])
    assert out
    assert all(value is None or value == [] for value in out.values())


@each_metric
def test_without_a_normal_row_what_needs_one_is_undefined(name):
    out = figures(name, [1, 1, 1], [0, 1, 1], [0.1, 0.2, 0.3])
    needs = {
        "rank": {"roc_auc"},
        "pa_rank": {"roc_auc"},
        "vus": {"roc"},
        "r_auc": {"roc"},
        "esa": {"precision", "f_0.5", "f_1"},
    }
    undefined = {key for key, value in out.items() if value is None}
    assert undefined == needs.get(name, set())


@each_metric
def test_lengths_must_agree(name):
    with pytest.raises(StreamError, match="same number of rows"):
        figures(name, [0, 1], [0, 1, 1], [0.1, 0.2, 0.3])


@each_metric
def test_a_second_array_must_be_given(name):
    with pytest.raises(StreamError, match="must be given"):
        ALARM_METRICS[name]([0, 1])


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_score_that_is_not_finite_is_refused(name, bad):
    with pytest.raises(StreamError, match="`scores` must be finite; row 1"):
        ALARM_METRICS[name]([0, 1, 0], [0.1, bad, 0.2])


@each_alarm_metric
def test_alarms_are_0_or_1(name):
    with pytest.raises(StreamError, match="`alarms` must be 0, 1; row 1 is nan"):
        ALARM_METRICS[name]([0, 1, 0], [0.0, np.nan, 1.0])


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("pak", {"k": 120}, "percentage from 0 to 100; got 120"),
        ("best_pak", {"k": -1}, "percentage from 0 to 100; got -1"),
        ("range", {"cardinality": "two"}, "one of reciprocal, one; got 'two'"),
        ("range", {"r_bias": "left"}, "one of flat, front, back, middle"),
        ("vus", {"variant": "old"}, "one of vus, aeon; got 'old'"),
        ("r_auc", {"window": -2}, "`window` must be 0 or more rows; got -2"),
        ("vus", {"thresholds": 1}, "`thresholds` must be 2 or more; got 1"),
    ],
)
def test_bad_parameters_are_refused(name, parameters, message):
    with pytest.raises(StreamError, match=message):
        figures(name, [0, 1], [0, 1], [0.1, 0.2], **parameters)


def test_exactly_k_percent_is_enough_only_if_inclusive():
    labels, alarms = [1] * 4 + [0], [1, 0, 0, 0, 0]
    pak = ALARM_METRICS["pak"]
    assert pak(labels, alarms, k=25)["recall"] == 0.25
    assert pak(labels, alarms, k=25, inclusive=True)["recall"] == 1.0
    assert pak(labels, [0] * 5, k=0, inclusive=True)["recall"] == 0.0


@given(record=records(), levels=st.integers(2, 9))
@settings(max_examples=20)
def test_even_levels_give_the_best_of_those_levels(record, levels):
    labels, _, scores = record
    tried = np.linspace(scores.min(), scores.max(), levels)
    pak = ALARM_METRICS["pak"]
    best = max(pak(labels, scores > level, k=20)["f1"] for level in tried)
    out = ALARM_METRICS["best_pak"](labels, scores, k=20, levels=levels)
    assert out["f1"] == pytest.approx(best)
