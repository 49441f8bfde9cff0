"""The paper's reading of a missed alarm from four figures (its attack explanations)."""

from typing import Any

from sightline.metrics.segment import SegmentRow

# Covered by at least this much, the p99 rule sees an attack.
SEEN = 0.30
# Near chance, and clearly above it.
NEAR_CHANCE, CLEARLY_ABOVE = 0.6, 0.7
_SAME_AS = {
    "detected": ("detected",),
    "threshold": ("threshold", "sequential"),
    "drift": ("drift",),
    "no-evidence": ("weak-evidence", "not-in-telemetry", "quiet"),
}


def signature_of(row: SegmentRow) -> dict[str, Any]:
    """Return the figures and what the paper's table reads from them.

    The table's second pattern, evidence in a smaller space, shows only between
    detectors; see `compare`.
    """
    return {
        "reading": _reading(row),
        "auc": row.auc,
        "coverage": row.coverage,
        "sdr": row.sdr,
        "d_eff": row.d_eff,
    }


def _reading(row: SegmentRow) -> str:
    if row.coverage >= SEEN:
        return "detected"
    if row.sdr_usable and row.d_atk > 0 and row.d_eff < 0 and row.auc < CLEARLY_ABOVE:
        return "drift"
    if row.auc >= CLEARLY_ABOVE:
        return "threshold"
    if row.auc <= NEAR_CHANCE and row.d_eff <= 0:
        return "no-evidence"
    return "unclear"


def agrees(reading: str, verdict: str) -> bool | None:
    """Tell whether signature and ladder say the same; None where one says nothing.

    Examples
    --------
    >>> agrees("threshold", "threshold"), agrees("drift", "diluted")
    (True, False)
    """
    if reading == "unclear" or verdict == "undecided":
        return None
    return verdict in _SAME_AS[reading]
