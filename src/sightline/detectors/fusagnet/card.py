"""FuSAGNet, a graph on an autoencoder's codes (Han and Woo, 2022): the card.

The card says what the detector is, its paper, and how far it is the published one.
"""

from sightline.detectors.base import DetectorCard

_SWAT = {"every": 10, "trim_s": 21_600.0}

CARD = DetectorCard(
    name="fusagnet",
    title="FuSAGNet",
    paper="S. Han and S. S. Woo, Learning Sparse Latent Graph Representations for "
    "Anomaly Detection in Multivariate Time Series, KDD 2022",
    kind="forecast by graph attention on an autoencoder's codes",
    extra="detectors",
    faithful=(
        "Network, initialisation, loss, noise and optimiser are those of the "
        "published code (commit 9ab537e), its oddities included: no bottleneck, "
        "no recurrence over channels, unit noise on data of unit range.",
        "Constant channels are divided by their value, so that they are 1.",
    ),
    deviates=(
        "No channel receives from itself (self_loops 'none'): in the published code "
        "the first nodes of each batch do, so that a forecast depends on its place in "
        "the batch (preset 'official').",
        "The held-out loss uses one fixed draw of target activations; published, a "
        "new one each time (preset 'official').",
        "The sparsity term is computed in logarithms, so that it stays finite.",
        "Rows are trimmed by duration and not by number; a last batch of one "
        "window is left out; patience is at least 1.",
        "Windows end at gaps of the recording (preset 'official': they do not).",
    ),
    settings={
        "swat": _SWAT,
        "wadi": _SWAT | {"dim": 128, "top_k": 30},
        "hai": {
            "every": 10,
            "window": 16,
            "dim": 32,
            "batch_size": 64,
            "epochs": 30,
            "patience": 6,
            "learning_rate": 5e-4,
        },
        "waterworks": {"every": 10},
        "batadal": {},
    },
    sources={
        "swat": "the published defaults, on rows of 10 s as GDN's (the shipped "
        "files are of 1 s; the paper's are not known)",
        "wadi": "as SWaT, with GDN's dim and top_k (our choice: none published)",
        "hai": "a user's quotation of the paper (issue 5 of the repository), on "
        "rows of 10 s (our choice)",
        "waterworks": "as SWaT, nothing trimmed (our choice)",
        "batadal": "hourly rows as they are (our choice)",
    },
)
