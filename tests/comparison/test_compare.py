import json
from dataclasses import replace

import numpy as np
import pytest

from sightline import ResidualStream, evaluate, read_results, write_results
from sightline.comparison.compare import SeededFigure, compare, ranking_transfer
from sightline.errors import FileError
from sightline.storage import Result

# Table "tab:main" of the paper: ROC-AUC, P_FULL and median D_FULL. The 0.530 printed
# for two detectors on WADI is broken in the printed order, GDN above FuSAGNet.
MAIN = {
    "SWaT": {
        "GeCo": (0.877, 0.906, 4.1e5),
        "FuSAGNet": (0.831, 0.575, 1.3e5),
        "NSIBF": (0.808, 0.511, 6.4e3),
        "GDN": (0.788, 0.497, 3.6e6),
        "TranAD": (0.750, 0.543, 7.5e4),
    },
    "WADI": {
        "NSIBF": (0.796, 0.852, 5.3e3),
        "GeCo": (0.624, 0.640, 1.9e4),
        "TranAD": (0.611, 0.736, 9.6e10),
        "GDN": (0.5301, 0.591, 7.4e10),
        "FuSAGNet": (0.530, 0.601, 2.6e10),
    },
    "HAI": {
        "TranAD": (0.917, 0.971, 4.0e4),
        "FuSAGNet": (0.899, 0.955, 4.7e4),
        "GDN": (0.890, 0.959, 1.4e5),
        "GeCo": (0.868, 0.986, 1.6e5),
        "NSIBF": (0.844, 0.878, 9.1e2),
    },
}
# Table "tab:cross_dataset_rank" of the paper.
CROSS = [
    ("roc_auc", ("HAI", "SWaT"), -0.50, 0.391),
    ("roc_auc", ("HAI", "WADI"), -0.70, 0.188),
    ("roc_auc", ("SWaT", "WADI"), 0.10, 0.873),
    ("median_d_full", ("HAI", "SWaT"), 0.90, 0.037),
    ("median_d_full", ("HAI", "WADI"), 0.10, 0.873),
    ("median_d_full", ("SWaT", "WADI"), 0.30, 0.624),
    ("p_full", ("HAI", "SWaT"), 0.50, 0.391),
    ("p_full", ("HAI", "WADI"), -0.20, 0.747),
    ("p_full", ("SWaT", "WADI"), 0.10, 0.873),
]


def main_table():
    return [
        SeededFigure(
            testbed=testbed,
            detector=detector,
            figure=figure,
            n_seeds=1,
            mean=value,
            low=value,
            high=value,
        )
        for testbed, rows in MAIN.items()
        for detector, values in rows.items()
        for figure, value in zip(
            ("roc_auc", "p_full", "median_d_full"), values, strict=True
        )
    ]


def test_the_papers_main_table_gives_its_table_of_ranking_transfer():
    found = {
        (t.figure, t.testbeds): t.correlation for t in ranking_transfer(main_table())
    }
    assert len(found) == len(CROSS)
    for figure, testbeds, rho, p in CROSS:
        correlation = found[figure, testbeds]
        assert correlation.n == 5
        assert round(correlation.rho, 2) == rho
        assert round(correlation.p_value, 3) == p


def test_transfer_is_over_the_shared_detectors():
    rows = [r for r in main_table() if (r.testbed, r.detector) != ("HAI", "GDN")]
    counts = {t.testbeds: t.correlation.n for t in ranking_transfer(rows)}
    assert counts == {("HAI", "SWaT"): 4, ("HAI", "WADI"): 4, ("SWaT", "WADI"): 5}


def make(seed, *, lift=2.0, shift=0, detector="a", testbed="x", n=3000, drop=0):
    """A stream of four attacks; `drop` leaves out its first rows, as windows do."""
    rng = np.random.default_rng(7)
    labels = np.zeros(n, int)
    noise = rng.normal(size=(n, 3))
    train = rng.normal(size=(1500, 3))
    noise += 0.3 * np.random.default_rng(seed).normal(size=(n, 3))
    for k, start in enumerate((400, 1000, 1700, 2400)):
        labels[start : start + 40 + 20 * k] = 1
        noise[start : start + 40 + 20 * k] += lift * (k + 1) / 2
    return ResidualStream(
        train,
        noise[drop:],
        labels[drop:],
        test_time=np.arange(n)[drop:] * 10.0 + shift,
        detector=detector,
        testbed=testbed,
        name=f"{detector}{testbed}{seed}",
        meta={"seed": seed},
    )


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    streams = [
        make(1, detector="sharp"),
        make(2, detector="sharp"),
        make(1, detector="dull", lift=0.5, drop=5),
        make(1, detector="sharp", testbed="y"),
        make(1, detector="dull", testbed="y", lift=0.4),
        make(1, detector="wild", testbed="y", lift=0.1),
    ]
    write_results([evaluate(stream) for stream in streams], folder)
    return read_results([folder])


def test_seeds_are_averaged_and_their_range_kept(results):
    compared = compare(results, n_replicates=20)
    (row,) = [
        f
        for f in compared.figures
        if (f.testbed, f.detector, f.figure) == ("x", "sharp", "roc_auc")
    ]
    values = [
        r.evaluation.rank.roc_auc
        for r in results
        if (r.testbed, r.detector) == ("x", "sharp")
    ]
    assert row.n_seeds == 2
    assert row.mean == pytest.approx(np.mean(values))
    assert (row.low, row.high) == (min(values), max(values))


def test_agreement_matches_attacks_in_time_though_rows_differ(results):
    compared = compare(results, n_replicates=20)
    (row,) = [a for a in compared.agreement if a.testbed == "x"]
    assert set(row.detectors) == {"sharp", "dull"}
    assert (row.n_matched, row.n_alone) == (4, (0, 0))
    assert row.rho == pytest.approx(1.0)  # D_FULL grows with each attack for both


def test_rankings_say_how_often_they_hold_over_seeds(results):
    compared = compare(results, n_replicates=20)
    found = {(r.testbed, r.figure): r for r in compared.rankings}
    assert {figure for _, figure in found} == {"roc_auc", "pauc_1", "p_full", "f1"}
    row = found["x", "roc_auc"]
    assert row.order == ("sharp", "dull")
    assert row.n_seeds == (2, 1)
    assert (row.holds, row.above) == (1.0, (1.0,))


@pytest.mark.parametrize(
    ("channels", "expected"),
    [
        (("abc", "abc", "cab"), None),
        (("abc", "abd", "wyz"), "4 channels: one lacks d; two lacks c."),
        (("abc", "wyz"), None),
        ((None, None), None),
    ],
)
def test_channels_that_not_all_detectors_have_are_named(tmp_path, channels, expected):
    streams = [
        make(1, detector=name).replace(channels=tuple(c) if c else None)
        for name, c in zip(("one", "two", "three"), channels, strict=False)
    ]
    write_results([evaluate(s, intervals=False) for s in streams], tmp_path)
    notices = compare(read_results([tmp_path]), n_replicates=2).notices
    if expected is None:
        assert notices == ()
    else:
        (notice,) = notices
        assert notice.startswith("x: the detectors do not have residuals of the same")
        assert notice.endswith(expected)


def test_a_comparison_is_json(results):
    text = json.dumps(compare(results, n_replicates=20).to_dict(), allow_nan=False)
    assert set(json.loads(text)) == {
        "agreement",
        "detections",
        "differences",
        "figures",
        "labels",
        "notices",
        "primary",
        "rankings",
        "ranks",
        "transfer",
        "verdicts",
    }


def test_a_folder_without_results_is_refused(tmp_path):
    with pytest.raises(FileError, match="holds no evaluation"):
        read_results([tmp_path])


def test_verdicts_of_detectors_on_one_attack_are_laid_side_by_side(tmp_path):
    rng = np.random.default_rng(0)
    train, test = rng.normal(size=(3000, 60)), rng.normal(size=(6000, 60))
    labels = np.zeros(6000, np.int8)
    labels[3000:3100] = labels[5000:5100] = 1
    test[3000:3100, 7] += 4.0  # one of sixty channels moves; the second attack has none
    made = [
        ResidualStream(
            train[:, columns],
            test[:, columns],
            labels,
            name=name,
            detector=name,
            testbed="plant",
            space=space,
        )
        for name, space, columns in (
            ("wide", "observation", slice(None)),
            ("narrow", "sensor", slice(6, 9)),
        )
    ]
    write_results([evaluate(stream, intervals=False) for stream in made], tmp_path)
    compared = compare(read_results([tmp_path]), n_replicates=20)
    first, second = compared.verdicts
    assert first.verdicts == {"narrow": "detected", "wide": "diluted"}
    assert first.joint_verdicts == first.verdicts
    assert set(first.confidences) == {"narrow", "wide"}
    assert (first.vetoed_by, first.telemetry) == ((), None)
    assert (
        first.reading
        == "detected in the sensor space, diluted in the observation space"
    )
    assert first.seen_by == ("narrow",)
    assert second.reading == "detected by none"


def moving_nothing(name, lift, testbed="plant"):
    """A stream whose telemetry does not know of its attack, lifted in the residuals."""
    rng = np.random.default_rng(7)
    train, test = rng.normal(size=(2000, 3)), rng.normal(size=(6000, 3))
    labels = np.zeros(6000, np.int8)
    labels[3000:3060] = 1
    test[3000:3060] += lift
    return ResidualStream(
        train,
        test,
        labels,
        name=name,
        detector=name,
        testbed=testbed,
        telemetry_train=rng.normal(size=(2000, 2)),
        telemetry_test=rng.normal(size=(6000, 2)),
    )


def test_compare_shows_the_verdict_of_all_and_names_who_vetoes(tmp_path):
    streams = [moving_nothing("blind", 0.0), moving_nothing("sharp", 4.0)]
    write_results([evaluate(stream, intervals=False) for stream in streams], tmp_path)
    results = read_results([tmp_path])
    (row,) = compare(results, n_replicates=2).verdicts
    assert row.verdicts == {"blind": "not-in-telemetry", "sharp": "detected"}
    assert row.joint_verdicts == {"blind": "weak-evidence", "sharp": "detected"}
    assert row.vetoed_by == ("sharp",)
    assert row.telemetry.movement == "still"
    # The file keeps what the stream alone says.
    blind = next(r for r in results if r.detector == "blind")
    assert blind.evaluation.segments[0].verdict == "not-in-telemetry"


def test_attacks_found_come_with_chance_and_cost(results):
    compared = compare(results, n_replicates=2)
    found = {(row.testbed, row.detector): row for row in compared.detections}
    assert set(found) == {(r.testbed, r.detector) for r in results}
    for result in results:
        facts = result.evaluation.diagnosis
        row = found[result.testbed, result.detector]
        assert row.rule == "probe"
        if result.name == "sharpx1":
            assert (row.found, row.rings) == (facts.found, facts.rings)
            assert row.share_in_alarm == facts.share_in_alarm
            assert row.found.count > row.found.by_chance


def test_results_judged_by_earlier_rules_are_named(results):
    first, *others = results
    facts = replace(first.evaluation.diagnosis, method=1, found=None)
    earlier = Result(first.folder, replace(first.evaluation, diagnosis=facts))
    compared = compare([earlier, *others], n_replicates=2)
    (notice,) = [n for n in compared.notices if "earlier version" in n]
    assert notice.startswith(f"{first.testbed}: the verdicts of {first.detector} were")
    shown = {(row.testbed, row.detector) for row in compared.detections}
    assert (first.testbed, first.detector) not in shown
