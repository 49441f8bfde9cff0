"""The paper's reading of an attack from four figures, beside the ladder's verdict."""

import numpy as np

from sightline.judgement.verdicts import Reading, Signature, Verdict
from sightline.metrics.segment import SegmentMeasures

# Coverage from which the p99 rule sees an attack,
SEEN = 0.30
# AUC that is near chance, and AUC that is clearly above it.
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
    """Return four figures of an attack and what the paper's table reads from them.

    The table's second pattern, evidence in a smaller space, shows only between
    detectors; see `compare`.
    """
    # What overflows is None: the attack's energy, or else that of normal test rows.
    d_atk = np.inf if row.d_atk is None else row.d_atk
    beyond = np.inf if row.d_atk is None else -np.inf
    d_eff = beyond if row.d_eff is None else row.d_eff
    if row.coverage >= SEEN:
        reading = Reading.DETECTED
    elif row.sdr_usable and d_atk > 0 > d_eff and row.auc < CLEARLY_ABOVE:
        reading = Reading.DRIFT
    elif row.auc >= CLEARLY_ABOVE:
        reading = Reading.THRESHOLD
    elif row.auc <= NEAR_CHANCE and d_eff <= 0:
        reading = Reading.NO_EVIDENCE
    else:
        reading = Reading.UNCLEAR
    return Signature(
        reading=reading,
        auc=row.auc,
        coverage=row.coverage,
        sdr=row.sdr,
        d_eff=row.d_eff,
    )


def agrees(reading: Reading, verdict: Verdict) -> bool | None:
    """Return whether signature and ladder agree; None where one of them is silent.

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
