"""GDN, channels that forecast each other (Deng and Hooi, 2021): the card.

The card says what the detector is, its paper, and how far it is the published one.
"""

from sightline.detectors.base import DetectorCard

# Down-sampling and trimming of the published pipeline; the range of each channel is
# taken before both.
_TEN_SECONDS = {
    "every": 10,
    "trim_s": 21_600.0,
    "scale_before_trim": True,
    "across_breaks": True,
}

CARD = DetectorCard(
    name="gdn",
    title="GDN",
    paper="A. Deng and B. Hooi, Graph Neural Network-Based Anomaly Detection in "
    "Multivariate Time Series, AAAI 2021",
    kind="forecast by graph attention",
    extra="detectors",
    faithful=(
        "Network, initialisation, loss, optimiser, held-out block and early stop "
        "are those of the published code (commit 9853899).",
        "A channel is among its own top_k, so that it receives from top_k - 1 others.",
        "The range of each channel is taken before trimming and down-sampling.",
    ),
    deviates=(
        "Attention is dense and windows are gathered before they are projected: "
        "the same sums, without edge lists.",
        "Missing cells hold the last value before them; the published code takes "
        "the mean of the same recording, which looks ahead (preset 'official').",
        "Windows end at gaps of the recording (preset 'official': they do not).",
        "Residuals are observed minus expected and signed.",
    ),
    settings={
        "swat": _TEN_SECONDS,
        "wadi": _TEN_SECONDS | {"dim": 128, "top_k": 30},
        "hai": {"every": 10},
        "waterworks": {"every": 10, "scale_before_trim": True},
        "batadal": {},
    },
    sources={
        "swat": "the published script and pipeline; top_k 15 from the paper",
        "wadi": "the paper's dim 128 and top_k 30, recalled and not read again",
        "hai": "no published setting: as SWaT, nothing trimmed (our choice)",
        "waterworks": "as SWaT, nothing trimmed (our choice)",
        "batadal": "hourly rows as they are (our choice)",
    },
)
