"""What GeCo is, whose it is, and how far it is the published one."""

from sightline.detectors.base import DetectorCard
from sightline.detectors.geco.settings import TESTBED_SETTINGS, TESTBED_SOURCES

CARD = DetectorCard(
    name="geco",
    title="GeCo",
    paper="K. Wolsing, E. Wagner, L. Lux, K. Wehrle, M. Henze, GeCos Replacing "
    "Experts: Generalizable and Comprehensible Industrial Intrusion Detection, "
    "USENIX Security 2025",
    kind="one-step formulas found by search",
    space="invariant",
    faithful=(
        "Every candidate is judged: sums of up to three inputs, products of up to "
        "three, by squared error over all of train after fitting the first 80 %.",
        "Predictions are made in the published order of operations, bit by bit.",
        "Drift, threshold, CUSUM, its cap and the alarm rule are the published.",
        "On BATADAL all 42 published formulas and the published alarms come out.",
    ),
    deviates=(
        "Fits are in closed form instead of by an iterative optimiser: the same "
        "formulas to about 1e-6 of the error (search='curve_fit' has the other).",
        "Errors within 1e-9 of each other are a tie, which the earlier candidate "
        "wins; candidates whose columns depend on each other are left out.",
        "A channel that stands still where formulas are fitted is told by its "
        "last value, without a search.",
        "Steps through gaps are left out, and the CUSUM begins anew after one "
        "(preset 'official': neither).",
        "Missing cells hold the last value before them; the published code stops.",
        "Residuals are observed minus expected: the published ones with the other "
        "sign, in the unit of the target and not scaled.",
        "Held-out rows are the last 20 %: not fitted on, but they had a say in "
        "which formula was chosen and in the native threshold.",
    ),
    settings=TESTBED_SETTINGS,
    sources=TESTBED_SOURCES,
)
