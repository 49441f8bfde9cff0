"""The paper's reading of a missed alarm from four figures (its attack explanations)."""

import numpy as np

from sightline.judgement.verdicts import Reading, Signature, Verdict
from sightline.metrics.segment import SegmentMeasures

# Covered by at least this much, the p99 rule sees an attack.
SEEN = 0.30
# Near chance, and clearly above it.
NEAR_CHANCE, CLEARLY_ABOVE = 0.6, 0.7
_SAME_AS = {
    Reading.DETECTED: (Verdict.DETECTED,),
    Reading.THRESHOLD: (Verdict.THRESHOLD, Verdict.SEQUENTIAL),
    Reading.DRIFT: (Verdict.DRIFT,),
    Reading.NO_EVIDENCE: (
        Verdict.WEAK_EVIDENCE,
        Verdict.NOT_IN_TELEMETRY,
        Verdict.QUIET,
    ),
}


def signature_of(row: SegmentMeasures) -> Signature:
    """Return the figures and what the paper's table reads from them.

    The table's second pattern, evidence in a smaller space, shows only between
    detectors; see `compare`.
    """
    return Signature(
        reading=_reading(row),
        auc=row.auc,
        coverage=row.coverage,
        sdr=row.sdr,
        d_eff=row.d_eff,
    )


def _reading(row: SegmentMeasures) -> Reading:
    if row.coverage >= SEEN:
        return Reading.DETECTED
    # What overflows is None: the attack's energy, or else that of normal test rows.
    d_atk = np.inf if row.d_atk is None else row.d_atk
    beyond = np.inf if row.d_atk is None else -np.inf
    d_eff = beyond if row.d_eff is None else row.d_eff
    if row.sdr_usable and d_atk > 0 and d_eff < 0 and row.auc < CLEARLY_ABOVE:
        return Reading.DRIFT
    if row.auc >= CLEARLY_ABOVE:
        return Reading.THRESHOLD
    if row.auc <= NEAR_CHANCE and d_eff <= 0:
        return Reading.NO_EVIDENCE
    return Reading.UNCLEAR


def agrees(reading: Reading, verdict: Verdict) -> bool | None:
    """Tell whether signature and ladder agree; None where one of them is silent.

    Examples
    --------
    >>> agrees(Reading.THRESHOLD, Verdict.THRESHOLD)
    True
    >>> agrees(Reading.DRIFT, Verdict.DILUTED)
    False
    """
    if reading is Reading.UNCLEAR or verdict is Verdict.UNDECIDED:
        return None
    return verdict in _SAME_AS[reading]
