"""TranAD, two reconstructions by a transformer (Tuli et al., 2022): the card.

The card says what the detector is, its paper, and how far it is the published one.
"""

from sightline.detectors.base import DetectorCard

CARD = DetectorCard(
    name="tranad",
    title="TranAD",
    paper="S. Tuli, G. Casale and N. R. Jennings, TranAD: Deep Transformer "
    "Networks for Anomaly Detection in Multivariate Time Series Data, PVLDB "
    "15(6), 2022",
    kind="reconstruction by a transformer",
    extra="detectors",
    faithful=(
        "Network, initialisation, loss, optimiser and order of the windows are "
        "those of the published code (commit 7ffb98d): no adversarial loss, no "
        "meta-learning, no layer norm, an identity for an activation, and decoders "
        "that receive the row they are to reconstruct.",
        "The residual is that of the second reconstruction.",
    ),
    deviates=(
        "A row gets the window that ends with it; published, the one that ends a "
        "row earlier, so that scores are a row late (preset 'official').",
        "A tenth of train is held out for calibration (preset 'official': none).",
        "Constant channels keep their unit; published, they are divided by 0.0001 "
        "(preset 'official').",
        "Recordings are scaled by train's range; the published code scales WADI's "
        "test by its own (test_scaling 'own').",
        "Windows start again at gaps; the first rows of a run are marked warm-up.",
        "Single precision; published, double (dtype 'float64').",
    ),
    settings={
        "swat": {"every": 10},
        "wadi": {"every": 10, "sampling": "stride", "across_breaks": True},
        "hai": {"every": 10},
        "waterworks": {"every": 10},
        "batadal": {},
    },
    sources={
        "swat": "no published setting (the repository's SWaT is another series): "
        "WADI's learning rate, rows of 10 s (our choice)",
        "wadi": "the repository: learning rate 0.0001, every 10th row",
        "hai": "as SWaT (our choice)",
        "waterworks": "as SWaT (our choice)",
        "batadal": "hourly rows as they are (our choice)",
    },
)
