"""GeCo, formulas found by a complete search (Wolsing et al., 2025): the card.

The card says what the detector is, its paper, and how far it is the published one.
"""

from sightline.detectors.base import DetectorCard

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
        "A channel that is constant where formulas are fitted is expected to keep its "
        "last value, without a search.",
        "Steps through gaps are left out, and the CUSUM starts again after one "
        "(preset 'official': neither).",
        "Missing cells hold the last value before them; the published code stops.",
        "Residuals are observed minus expected: the published ones with the other "
        "sign, in the unit of the target and not scaled.",
        "Held-out rows are the last 20 %: formulas are not fitted on them, but they "
        "count for the choice of the formula and for the native threshold.",
    ),
    settings={
        "swat": {
            "ignore": ("P201", "AIT201", "AIT202", "AIT203"),
            "threshold_factor": 1.4178738316276462,
            "cusum_factor": 5.982371851051667,
        },
        "wadi": {
            "ignore": (
                "2_P_001_STATUS",
                "2_P_002_STATUS",
                "2_LS_002_AL",
                "2_LS_001_AL",
                "2B_AIT_002_PV",
                "2_PIC_003_SP",
                "1_MV_002_STATUS",
                "1_MV_003_STATUS",
            ),
            "threshold_factor": 1.3226690286735276,
            "cusum_factor": 9.744812178582787,
        },
        "hai": {
            "ignore": (
                "P1_PCV02Z",
                "P2_SIT01",
                "P2_SIT02",
                "P2_VT01",
                "P2_VXT02",
                "P2_VXT03",
                "P2_VYT02",
            ),
            "threshold_factor": 8.02147642080159,
            "cusum_factor": 1.4376682451456457,
        },
        "waterworks": {},
        "batadal": {
            "ignore": ("P_J280",),
            "threshold_factor": 1.3889344396681091,
            "cusum_factor": 2.161863031600805,
        },
    },
    sources={
        "swat": "the authors' published model file",
        "wadi": "the authors' published model file (14 days, new version)",
        "hai": "the authors' published model file (version 21.03)",
        "waterworks": "no published setting: the defaults (our choice)",
        "batadal": "the authors' published model file",
    },
)
