"""What one attack looks like on the energy of the test."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sightline.data.arrays import NORMAL, Bools, Floats, Labels, finite
from sightline.data.segments import Attack
from sightline.metrics import ranking
from sightline.metrics.quality import Drift, is_sdr_usable
from sightline.metrics.window_kl import RELIABLE_ROWS, WindowEnergies, plain_kl

# An attack is compared with this many times its length of nearby normal steps,
# and with at least this many.
NEARBY_FACTOR = 10
NEARBY_LEAST = 1000
# What an attack brings along itself.
_GIVEN = ("id", "start", "stop", "name", "targets", "note")


@dataclass(frozen=True, kw_only=True)
class SegmentMeasures:
    """What was measured of one attack. What is undefined or not given is None.

    Parameters
    ----------
    id : str
        The attack's id: as given, else a number.
        Formula: named attacks are matched by overlap; a labelled run that the list
        lacks is `unlisted-<n>`; the second part of an attack cut in two is `<id>/2`.
        Paper: processed segment.
        Null: never.
    start, stop, length : int
        Its test rows `[start, stop)`, from 0, and their number.
        Paper: W_i.
        Null: never. After dropped rows they count the rows left.
    auc : float
        How often a row of this attack outranks a normal row.
        Formula: as `roc_auc`, against all normal test rows.
        Range: 0 to 1.
        Better: higher.
        Nothing wrong: 0.5.
        Paper: per-attack AUC.
        Null: never. Unsteady for a few rows.
    auc_nearby : float
        The same, against normal rows close in time.
        Formula: against the `max(10 W, 1000)` normal rows nearest to the segment (all,
        if there are fewer).
        Range: 0 to 1.
        Better: higher.
        Nothing wrong: 0.5.
        Paper: per-attack AUC.
        Null: never. Differs from `auc` if normal operation moves.
    kl : float, optional
        How far the attack's mean and covariance lie from the reference, per row.
        Formula: `(tr C + m'm - p - log det C) / 2`, see
        [below](#windows-an-attack-as-a-whole).
        Range: from 0.
        Better: higher.
        Nothing wrong: falls with W.
        Paper: D_KL.
        Null: if it overflows.
    kl_plain : float, optional
        The same with the window's own covariance.
        Formula: plain C.
        Range: from 0.
        Better: higher.
        Nothing wrong: falls with W.
        Paper: D_KL.
        Null: if C is numerically singular, because `W <= p`, or because a channel is
        frozen or a copy of others.
    d_full : float, optional
        Evidence of the whole attack.
        Formula: `W kl`.
        Range: from 0.
        Better: higher.
        Nothing wrong: grows with p.
        Paper: D_FULL.
        Null: if it overflows. Read it only against `windows` of the same length.
    d_ms : float, optional
        The part of it that a shifted mean makes.
        Formula: `W m'm / 2`.
        Range: from 0.
        Better: higher.
        Nothing wrong: about p/2.
        Paper: D_MS.
        Null: if it overflows.
    reliable : bool, optional
        Long enough for a covariance.
        Formula: `W >= 2 p`.
        Better: true.
        Paper: reliability flag.
        Null: never. If false, read `d_ms` together with `d_full`.
    d_atk : float, optional
        Energy of the attack above train.
        Formula: `mean(e_segment) - mean(e_train)`.
        Range: any number.
        Better: higher.
        Nothing wrong: 0.
        Paper: D_atk.
        Null: if it overflows.
    d_eff : float, optional
        Energy of the attack above the drift.
        Formula: `d_atk - d_drift`.
        Range: any number.
        Better: higher.
        Nothing wrong: 0.
        Paper: D_eff.
        Null: if it overflows. Not to be trusted if `drift.mean_dominated`.
    sdr : float, optional
        Signal to drift: attack energy in units of the drift.
        Formula: `d_atk / d_drift`.
        Range: any number.
        Better: higher.
        Nothing wrong: 1 if there is drift.
        Paper: SDR.
        Null: if `d_drift` is 0. Only to be used if `sdr_usable`.
    sdr_usable : bool
        The drift is large and real enough to divide by.
        Formula: `d_drift > 0`, `d_drift >= 0.01 mean(e_train)`, `d_drift >= 2
        d_crossfit`, and not `mean_dominated`.
        Nothing wrong: false.
        Paper: not in the paper as a rule.
        Null: never; the same for all segments.
    hit : bool
        The p99 rule alarmed at least once.
        Formula: any `e_t > tau99`.
        Better: true.
        Paper: Hits.
        Null: never.
    coverage : float
        Share of the attack in alarm.
        Formula: rows with `e_t > tau99` / W.
        Range: 0 to 1.
        Better: higher.
        Nothing wrong: 0.01.
        Paper: coverage_99.
        Null: never.
    first_alarm : int, optional
        Rows from the attack's start to its first alarm.
        Range: 0 to W - 1.
        Better: lower.
        Null: without an alarm. 0 may be an alarm that was on already.
    first_alarm_s : float, optional
        The same in seconds.
        Formula: `first_alarm * step_s`.
        Range: from 0.
        Better: lower.
        Null: without an alarm, or if `step_s` is not known.
    kl_shrunk : bool, optional
        The plain value does not exist.
        Formula: `kl_plain` is null.
        Nothing wrong: false.
        Null: never.
    n_matched : int, optional
        Normal windows it was compared with.
        Range: 0 to 1000.
        Better: more.
        Nothing wrong: up to 1000.
        Paper: size of N_i.
        Null: never; 0 if no attack-free stretch is as long.
    name, targets, note : optional
        The attack's name, the channels it aims at, and a remark, as given.
        Null: `name` and `note` if not given.
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
    ranks: ranking.AttackRanks,
    drift: Drift,
    *,
    windows: WindowEnergies,
    train_mean: float,
    step_s: float | None,
) -> list[SegmentMeasures]:
    """Return what is measured of each attack, in the order of the rows.

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
        Seconds per step.
    """
    if not attacks:
        return []
    lengths = np.array([attack.segment.length for attack in attacks])
    aucs = ranking.mean_of_segments(ranking.auc_of_steps(ranks), lengths)
    usable = is_sdr_usable(drift, train_mean)
    normal_rows = np.flatnonzero(labels == NORMAL)
    # Energy is never negative, so a drift that overflows is one upwards.
    d_drift = np.inf if drift.d_drift is None else drift.d_drift
    measured = []
    for i, attack in enumerate(attacks):
        rows, length = attack.segment.rows, attack.segment.length
        own = windows.plan.own[i]
        n = max(NEARBY_FACTOR * length, NEARBY_LEAST)
        nearest = ranking.nearby_normal(normal_rows, attack.start, attack.stop, n)
        near = ranking.rank_attacks(energy[rows], np.sort(energy[normal_rows[nearest]]))
        alarmed = np.flatnonzero(is_alarm[rows])
        first = int(alarmed[0]) if len(alarmed) else None
        seconds = None if first is None or step_s is None else first * step_s
        kl_plain = plain_kl(windows.means[i], windows.seconds[i], length)
        # Energies may be so large that their sum or a difference overflows.
        with np.errstate(over="ignore", invalid="ignore"):
            d_atk = float(np.mean(energy[rows])) - train_mean
            d_eff, sdr = d_atk - d_drift, np.divide(d_atk, d_drift or np.nan)
        measured.append(
            SegmentMeasures(
                **{name: getattr(attack, name) for name in _GIVEN},
                length=length,
                auc=float(aucs[i]),
                auc_nearby=ranking.roc_auc_of_ranks(near),
                kl=finite(windows.d_full[own] / length),
                kl_plain=kl_plain,
                kl_shrunk=kl_plain is None,
                d_full=finite(windows.d_full[own]),
                d_ms=finite(windows.d_ms[own]),
                reliable=length >= RELIABLE_ROWS * windows.means.shape[1],
                n_matched=int(windows.plan.n_matched[i]),
                d_atk=finite(d_atk),
                d_eff=finite(d_eff),
                sdr=finite(sdr),
                sdr_usable=usable,
                hit=first is not None,
                coverage=len(alarmed) / length,
                first_alarm=first,
                first_alarm_s=seconds,
            )
        )
    return measured
