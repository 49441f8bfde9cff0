"""The block `alarm_metrics` of an evaluation."""

import numpy as np
import pytest
from samples import full_stream

from sightline import (
    ResidualStream,
    StreamError,
    evaluate,
    read_evaluation,
    write_results,
)
from sightline.figures import FIGURES, MeasuredOn, published
from sightline.metrics import ALARM_METRICS


def stream(**known):
    rng = np.random.default_rng(2)
    train, test = rng.normal(size=(800, 3)), rng.normal(size=(500, 3))
    labels = np.zeros(500, int)
    for start in (60, 160, 300, 420):
        labels[start : start + 20] = 1
        test[start + 3 : start + 20, 0] += 5
    labels[400:405] = -1
    return ResidualStream(train, test, labels, **known)


def test_blocks_are_named_by_whose_alarms_or_score_they_are():
    alarms, score = np.zeros((2, 500))
    alarms[62:70], score[300:310] = 1, 2.0
    e = evaluate(stream(alarms=alarms, score=score), diagnosis=False)
    assert set(e.alarm_metrics) == {"probe", "own_rule", "energy", "score"}
    for name, figures in e.alarm_metrics.items():
        is_score = name in ("energy", "score")
        table = published(MeasuredOn.SCORE if is_score else MeasuredOn.ALARMS)
        assert list(figures) == [spec.key for spec in table]
    labels, energy = e.traces.labels, e.traces.test_energy
    given = {
        "probe": energy > e.probe.tau99,
        "own_rule": alarms,
        "energy": energy,
        "score": score,
    }
    for name, figures in e.alarm_metrics.items():
        for key, figure in figures.items():
            spec = FIGURES[key]
            outputs = ALARM_METRICS[spec.family](
                labels, given[name], **dict(spec.parameters)
            )
            assert figure.value == outputs[spec.output]


def test_the_chosen_rule_is_judged_on_later_rows():
    rng = np.random.default_rng(0)
    train, test = rng.normal(size=(6000, 3)), rng.normal(size=(16_000, 3))
    labels = np.zeros(16_000, int)
    for start in (1000, 9000, 12_000, 15_000):
        labels[start : start + 60] = 1
        test[start : start + 60] += 8.0
    known = ResidualStream(train, test, labels, step_s=60.0)
    e = evaluate(known, diagnosis=False, metrics="event,delay")
    rule = e.alarm_metrics[f"rule:{e.rules.chosen}"]
    later = e.rules.row(e.rules.chosen)
    assert e.rules.n_attacks == 3
    assert rule["event_recall"].value == later.attacks.rings / 3 == 1.0
    assert rule["delay_mean"].value <= 5
    assert rule["event_recall"].floor.value < 0.5


def test_one_figure_has_one_floor():
    e = evaluate(stream(), diagnosis=False)
    recall = e.alarm_metrics["probe"]["event_recall"]
    assert recall.value == e.probe.hits / 4
    assert recall.floor.value == pytest.approx(e.floor["hits"].value / 4)
    assert recall.floor.above_floor == e.floor["hits"].above_floor


def test_figures_may_be_chosen():
    e = evaluate(stream(), diagnosis=False, metrics="etapr,vus_roc")
    assert set(e.alarm_metrics["probe"]) == {
        "etapr_precision",
        "etapr_recall",
        "etapr_f1",
    }
    assert set(e.alarm_metrics["energy"]) == {"vus_roc"}
    vus = evaluate(stream(), intervals=False, diagnosis=False, metrics=["vus"])
    assert set(vus.alarm_metrics) == {"energy"}
    assert evaluate(stream(), diagnosis=False, metrics="none").alarm_metrics is None
    with pytest.raises(StreamError, match="No alarm metric is called 'f3'"):
        evaluate(stream(), metrics="f3")


def test_without_attacks_or_intervals():
    calm = stream().replace(labels=np.zeros(500, int))
    assert evaluate(calm).alarm_metrics is None
    e = evaluate(stream(), intervals=False, diagnosis=False)
    for figures in e.alarm_metrics.values():
        assert all(f.floor is f.interval is None for f in figures.values())


def test_the_blocks_read_back(tmp_path):
    e = evaluate(full_stream())
    write_results([e], tmp_path)
    again = read_evaluation(tmp_path / e.stream.name)
    assert again.alarm_metrics == e.alarm_metrics
    assert again.localisation == e.localisation


def test_same_seed_same_figures():
    first, second = (evaluate(stream(), diagnosis=False, seed=4) for _ in range(2))
    assert first.alarm_metrics == second.alarm_metrics
