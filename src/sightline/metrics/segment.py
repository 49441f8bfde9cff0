"""What one attack segment looks like on the energy stream."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sightline.data.arrays import NORMAL, Bools, Floats, Labels, finite
from sightline.data.segments import Attack
from sightline.metrics.drift import Drift, is_sdr_usable
from sightline.metrics.ranking import (
    AttackRanks,
    auc_of_steps,
    mean_of_segments,
    nearby_normal,
    rank_attacks,
    roc_auc_of_ranks,
)
from sightline.metrics.window_kl import RELIABLE_ROWS, WindowEnergies, plain_kl

# An attack is compared with this many times its length of nearby normal steps,
# and with at least this many.
NEARBY_FACTOR = 10
NEARBY_LEAST = 1000


@dataclass(frozen=True, kw_only=True)
class SegmentMeasures:
    """Everything known about one attack segment. What is not known is None.

    `kl_shrunk` says that the plain KL does not exist, because the segment's covariance
    is singular. Verdicts belong to a later stretch of the walk.
    """

    id: str
    start: int
    stop: int
    length: int
    auc: float
    auc_nearby: float
    kl: float | None = None
    kl_plain: float | None = None
    d_full: float | None = None
    d_ms: float | None = None
    reliable: bool | None = None
    d_atk: float | None
    d_eff: float | None
    sdr: float | None
    sdr_usable: bool
    hit: bool
    coverage: float
    first_alarm: int | None
    first_alarm_s: float | None
    kl_shrunk: bool | None = None
    n_matched: int | None = None
    name: str | None = None
    targets: tuple[str, ...] = ()
    note: str | None = None


def measure_segments(
    attacks: Sequence[Attack],
    energy: Floats,
    labels: Labels,
    is_alarm: Bools,
    ranks: AttackRanks,
    drift: Drift,
    *,
    windows: WindowEnergies,
    train_mean: float,
    step_s: float | None,
) -> list[SegmentMeasures]:
    """Measure each attack segment on the energy stream.

    Parameters
    ----------
    attacks : sequence of Attack
        The attack runs of `labels`.
    energy, labels, is_alarm : array of shape (n_steps,)
        Test energy, labels (1, 0, -1) and the alarms of the p99 rule.
    ranks : AttackRanks
        Of all attack steps, in the order of the rows.
    drift : Drift
        The stream's drift.
    windows : WindowEnergies
        Of the same attacks and their matched windows.
    train_mean : float
        Mean train energy.
    step_s : float, optional
        Seconds a step.
    """
    if not attacks:
        return []
    normal_rows = np.flatnonzero(labels == NORMAL)
    lengths = np.array([attack.segment.length for attack in attacks])
    aucs = mean_of_segments(auc_of_steps(ranks), lengths)
    # Energy is never negative, so a drift that overflows is one upwards.
    d_drift = np.inf if drift.d_drift is None else drift.d_drift
    usable = is_sdr_usable(drift, train_mean)
    measured = []
    p = windows.means.shape[1]
    for i, (attack, auc) in enumerate(zip(attacks, aucs, strict=True)):
        rows, length = attack.segment.rows, attack.segment.length
        own = windows.plan.own[i]
        kl_plain = plain_kl(windows.means[i], windows.seconds[i], length)
        nearest = nearby_normal(
            normal_rows,
            attack.start,
            attack.stop,
            max(NEARBY_FACTOR * length, NEARBY_LEAST),
        )
        nearby = rank_attacks(energy[rows], np.sort(energy[normal_rows[nearest]]))
        d_atk = float(np.mean(energy[rows])) - train_mean
        alarmed = np.flatnonzero(is_alarm[rows])
        first = int(alarmed[0]) if len(alarmed) else None
        measured.append(
            SegmentMeasures(
                id=attack.id,
                start=attack.start,
                stop=attack.stop,
                length=length,
                auc=float(auc),
                auc_nearby=roc_auc_of_ranks(nearby),
                kl=finite(windows.d_full[own] / length),
                kl_plain=kl_plain,
                kl_shrunk=kl_plain is None,
                d_full=finite(windows.d_full[own]),
                d_ms=finite(windows.d_ms[own]),
                reliable=length >= RELIABLE_ROWS * p,
                n_matched=int(windows.plan.n_matched[i]),
                d_atk=finite(d_atk),
                d_eff=finite(d_atk - d_drift),
                sdr=finite(d_atk / d_drift) if d_drift else None,
                sdr_usable=usable,
                hit=first is not None,
                coverage=len(alarmed) / length,
                first_alarm=first,
                first_alarm_s=None
                if first is None or step_s is None
                else first * step_s,
                name=attack.name,
                targets=attack.targets,
                note=attack.note,
            )
        )
    return measured
