"""The paper's own tables, put through our definitions.

Numbers are those printed in "What the detector can see", tab:main and tab:full.
"""

import pytest

from sightline.metrics import f1_score
from sightline.metrics.measures import is_mean_dominated

# testbed, detector, D_drift, its robust companion, dagger (tab:main), max-z (tab:full)
DAGGERS = [
    ("SWaT", "GeCo", 8.6e1, -9.4, True, 8.9e4),
    ("SWaT", "FuSAGNet", 8.8e3, 1.7e3, True, 1.3e3),
    ("SWaT", "NSIBF", 5.9e2, 6.2e2, False, 38.7),
    ("SWaT", "GDN", 1.9e5, 1.7e5, False, 9.6e4),
    ("SWaT", "TranAD", 1.6e12, 9.1e2, True, 1.0e4),
    ("WADI", "NSIBF", 7.0e1, 3.5e1, False, 113.0),
    ("WADI", "GeCo", 7.0e-1, -9.5, False, 526.0),
    ("WADI", "TranAD", 1.9e11, 1.3e9, True, 2.7e8),
    ("WADI", "GDN", 2.7e9, 4.8e9, False, 8.1e4),
    ("WADI", "FuSAGNet", 9.4e8, 1.7e9, False, 5.3e4),
    ("HAI", "TranAD", 6.4e10, 4.0, True, 4.8e7),
    ("HAI", "FuSAGNet", 3.2e2, 1.3e1, True, 2.8e3),
    ("HAI", "GDN", 2.1e7, 4.1, True, 1.9e5),
    ("HAI", "GeCo", 5.1e11, -4.1, True, 2.0e9),
    ("HAI", "NSIBF", 3.4, -0.55, False, 177.0),
]

# testbed, detector, F1@p99, precision, recall (tab:full)
F1 = [
    ("SWaT", "GeCo", 0.764, 0.902, 0.663),
    ("SWaT", "FuSAGNet", 0.740, 0.898, 0.630),
    ("SWaT", "NSIBF", 0.727, 0.896, 0.612),
    ("SWaT", "GDN", 0.651, 0.878, 0.518),
    ("SWaT", "TranAD", 0.025, 0.157, 0.014),
    ("WADI", "NSIBF", 0.440, 0.705, 0.320),
    ("WADI", "GeCo", 0.025, 0.082, 0.015),
    ("WADI", "TranAD", 0.407, 0.645, 0.297),
    ("WADI", "GDN", 0.233, 0.487, 0.153),
    ("WADI", "FuSAGNet", 0.229, 0.483, 0.150),
    ("HAI", "TranAD", 0.671, 0.622, 0.729),
    ("HAI", "FuSAGNet", 0.669, 0.629, 0.713),
    ("HAI", "GDN", 0.633, 0.610, 0.658),
    ("HAI", "GeCo", 0.554, 0.557, 0.552),
    ("HAI", "NSIBF", 0.584, 0.660, 0.525),
]


def test_the_rule_gives_exactly_the_papers_eight_daggers():
    printed = {(row[0], row[1]) for row in DAGGERS if row[4]}
    found = {
        (testbed, detector)
        for testbed, detector, d_drift, robust, _, max_z in DAGGERS
        if is_mean_dominated(d_drift, robust, max_z)
    }
    assert found == printed
    assert (len(found), len(DAGGERS)) == (8, 15)


@pytest.mark.parametrize(("testbed", "detector", "f1", "precision", "recall"), F1)
def test_f1_follows_from_the_printed_precision_and_recall(
    testbed, detector, f1, precision, recall
):
    assert f1_score(precision, recall) == pytest.approx(f1, abs=0.0015)
