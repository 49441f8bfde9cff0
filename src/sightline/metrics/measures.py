"""What is measured on energy: normal operation itself, and each attack.

Of normal operation drift, compactness, and warning signs in the residuals.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri

from sightline.data.arrays import NORMAL, Bools, Floats, Labels, finite
from sightline.data.segments import Attack, AttackOutcome
from sightline.metrics import ranking
from sightline.metrics.windows import (
    RELIABLE_ROWS,
    WindowEnergies,
    divergence_parts,
)

# A mean drift this many times the median one, with a whitened residual this large
# among normal steps, is the work of a few extreme points: the paper's dagger.
DAGGER_RATIO = 3.0
DAGGER_MAX_Z = 200.0
# Below this share of the train energy a drift is too small to divide by.
SMALL_DRIFT = 0.01
# A drift within this many times `d_crossfit` needs no change of the plant.
CROSSFIT_FACTOR = 2.0
# Shrinkage that multiplies a channel's variance by more than this hides its spread.
BLIND_FACTOR = 2
# Tails are compared with the law of Gaussian residuals beyond this quantile of it.
LAW_QUANTILE = 0.99
# An attack is compared with this many times its length of nearby normal steps,
# and with at least this many.
NEARBY_FACTOR = 10
NEARBY_LEAST = 1000
# What an attack brings along itself.
_GIVEN = ("id", "start", "stop", "name", "targets", "note", "outcome")


@dataclass(frozen=True, kw_only=True)
class Drift:
    """How far normal test energy lies from train energy.

    Parameters
    ----------
    d_drift : float, optional
        How much more energy normal test rows have than train rows, by the mean.
        Formula: `mean(e_test_normal) - mean(e_train)`.
        Range: any number.
        Better: near 0.
        Nothing wrong: 0.
        Paper: D_drift.
        Null: if the mean overflows. Not to be trusted if `mean_dominated`, or below
        twice `d_crossfit`.
    d_drift_robust : float, optional
        The same by the median of the test.
        Formula: `median(e_test_normal) - mean(e_train)`.
        Range: any number.
        Better: near 0.
        Nothing wrong: about -0.3, lower with heavy tails.
        Paper: D_drift (rob.).
        Null: if the median overflows. A median minus a mean: slightly negative is
        normal.
    mean_dominated : bool
        A few extreme rows make the mean drift what it is.
        Formula: `d_drift >= 3 * abs(d_drift_robust)` and `max_z_test_normal >= 200`.
        Better: false.
        Nothing wrong: false.
        Paper: the dagger.
        Null: never.
    d_gap : float, optional
        How much better the detector fits what it was trained on.
        Formula: `mean(e_calibration) - mean(e_train)`.
        Range: any number.
        Better: near 0.
        Nothing wrong: 0.
        Null: without calibration residuals.
    d_shift : float, optional
        The rest of the drift: what the plant changed.
        Formula: `d_drift - d_gap`.
        Range: any number.
        Better: near 0.
        Nothing wrong: 0.
        Null: without calibration residuals. Wrong if calibration rows were trained
        on; if they were recorded long after train, `d_gap` holds some of the shift.
    d_crossfit : float, optional
        How much energy train rows gain under a reference fitted without them.
        Formula: median over 5 contiguous folds of the fold's mean energy under the
        reference of the other four, minus `mean(e_train)`. Fold k of n train rows is
        rows `k n // 5` to `(k + 1) n // 5`, in the order of time; breaks do not matter.
        Range: any number.
        Better: near 0.
        Nothing wrong: 0.
        Null: with fewer than 2 rows per fold, if four folds give no usable covariance,
        and for `ledoit-wolf-standardised` and `minimum-covariance-determinant`.
        Negative with heavy tails.
    """

    d_drift: float | None
    d_drift_robust: float | None
    mean_dominated: bool
    d_gap: float | None = None
    d_shift: float | None = None
    d_crossfit: float | None = None


@dataclass(frozen=True, kw_only=True)
class Compactness:
    """Effective dimension of the residual space; a signature, not a mark.

    Parameters
    ----------
    p_eff : float
        Effective dimension of the normal residuals.
        Formula: `2 mean(e_train)`.
        Range: from 0; at most `p`, unless the estimator leaves rows out.
        Nothing wrong: p with many rows.
        Paper: p_eff.
        Null: never.
    compactness : float
        The share of the channels that is.
        Formula: `p_eff / p`.
        Range: from 0 to about 1.
        Nothing wrong: 1 with many rows.
        Paper: p_eff / p.
        Null: never. A signature of the kind of detector: neither high nor low is
        better.
    """

    p_eff: float
    compactness: float


@dataclass(frozen=True, kw_only=True)
class Quality:
    """Warning signs in the residuals themselves.

    Parameters
    ----------
    max_z : float, optional
        Largest whitened residual on train.
        Formula: max of `abs(z_tj)` over train.
        Range: from 0 to about `sqrt(n (p + 1))`, so small with few rows.
        Better: lower.
        Nothing wrong: 4 to 6 for Gaussian residuals.
        Paper: max-z.
        Null: never.
    max_z_test_normal : float, optional
        The same on normal test rows.
        Formula: max of `abs(z_tj)` over normal test rows.
        Range: from 0.
        Better: lower.
        Nothing wrong: 4 to 6.
        Null: never.
    excess_kurtosis : float, optional
        Heavy tails on train: rare, very large residuals.
        Formula: `N sum z^4 / (sum z^2)^2 - 3` over all `N = n p` whitened train values.
        Range: from -2.
        Better: near 0.
        Nothing wrong: 0.
        Paper: kurt.
        Null: if fourth powers overflow. A few rows can make it huge.
    chi_square_tail : float, optional
        How often rows of train lie beyond the 99% point of the law that Gaussian
        residuals follow.
        Formula: share of rows with `2 e_t` above the 0.99 quantile of a chi-squared
        with p degrees of freedom, over 0.01.
        Range: 0 to 100.
        Better: near 1.
        Nothing wrong: 1.
        Null: in results of earlier versions. Above 1 with heavy tails: a limit by the
        law would ring that many times as often.
    chi_square_tail_test : float, optional
        The same of normal test rows.
        Formula: as `chi_square_tail`.
        Range: 0 to 100.
        Better: near 1.
        Nothing wrong: 1.
        Null: as `chi_square_tail`. Above that of train with drift.
    chi_square_variance : float, optional
        How widely the energy of train varies, compared with that law.
        Formula: variance of `e_t`, over `p / 2`.
        Range: from 0.
        Better: near 1.
        Nothing wrong: 1.
        Null: if it overflows, and in results of earlier versions.
    chi_square_variance_test : float, optional
        The same of normal test rows.
        Formula: as `chi_square_variance`.
        Range: from 0.
        Better: near 1.
        Nothing wrong: 1.
        Null: as `chi_square_variance`.
    constant_channels : tuple of str
        Channels that never change on train.
        Formula: lowest = highest.
        Better: empty.
        Nothing wrong: empty.
        Null: never. Any change in test is far from normal, by an amount that shrinkage
        sets.
    one_sided_channels : tuple of str
        Channels that are never negative: probably absolute errors or scores.
        Formula: lowest of train and test >= 0, and not constant.
        Better: empty.
        Nothing wrong: empty.
        Null: never.
    scale_blind_channels : tuple of str
        Channels whose numbers are so small compared with the others that they hardly
        count.
        Formula: shrinkage more than doubles the channel's variance.
        Better: empty.
        Nothing wrong: empty.
        Null: never. See `reference.standardised_roc_auc`.
    """

    max_z: float | None
    max_z_test_normal: float | None
    excess_kurtosis: float | None
    chi_square_tail: float | None = None
    chi_square_tail_test: float | None = None
    chi_square_variance: float | None = None
    chi_square_variance_test: float | None = None
    constant_channels: tuple[str, ...] = ()
    one_sided_channels: tuple[str, ...] = ()
    scale_blind_channels: tuple[str, ...] = ()


def is_mean_dominated(d_drift: float, d_drift_robust: float, max_z: float) -> bool:
    """Return whether a few extreme points make the mean drift what it is.

    Examples
    --------
    >>> is_mean_dominated(86.0, -9.4, 8.9e4)  # GeCo on SWaT: the paper's dagger
    True
    >>> is_mean_dominated(590.0, 620.0, 38.7)  # NSIBF on SWaT
    False
    """
    return d_drift >= DAGGER_RATIO * abs(d_drift_robust) and max_z >= DAGGER_MAX_Z


def measure_drift(
    train_mean: float,
    normal_sorted: Floats,
    *,
    max_z: float,
    calibration_mean: float | None = None,
    d_crossfit: float | None = None,
) -> Drift:
    """Return how far normal test energy lies from train energy.

    Parameters
    ----------
    train_mean : float
        Mean train energy.
    normal_sorted : array of shape (n_normal,)
        Energy of attack-free test steps, sorted.
    max_z : float
        Largest whitened residual among them.
    calibration_mean : float, optional
        Mean energy of attack-free rows the detector was not trained on: splits the
        drift into what the detector fits (`d_gap`) and what moved (`d_shift`).
    d_crossfit : float, optional
        Excess of train rows under a reference fitted without them.

    Returns
    -------
    Drift
        A difference that overflows is None.

    Examples
    --------
    >>> drift = measure_drift(2.0, np.array([1.0, 2.0, 6.0]), max_z=5.0)
    >>> drift.d_drift, drift.d_drift_robust, drift.mean_dominated
    (1.0, 0.0, False)
    """
    # Energies may be so large that their sum overflows.
    with np.errstate(over="ignore"):
        d_drift = float(np.mean(normal_sorted)) - train_mean
        d_drift_robust = float(np.median(normal_sorted)) - train_mean
    d_gap = None if calibration_mean is None else finite(calibration_mean - train_mean)
    return Drift(
        d_drift=finite(d_drift),
        d_drift_robust=finite(d_drift_robust),
        mean_dominated=is_mean_dominated(d_drift, d_drift_robust, max_z),
        d_gap=d_gap,
        d_shift=None if d_gap is None else finite(d_drift - d_gap),
        d_crossfit=d_crossfit,
    )


def is_sdr_usable(drift: Drift, train_mean: float) -> bool:
    """Return whether a drift is large and real enough to divide an attack by.

    It must be above 0, above 1% of the train energy and above twice `d_crossfit`, and
    not be the work of a few extreme points.
    """
    moved = np.inf if drift.d_drift is None else drift.d_drift
    needed = max(SMALL_DRIFT * train_mean, CROSSFIT_FACTOR * (drift.d_crossfit or 0.0))
    return moved > 0 and moved >= needed and not drift.mean_dominated


def measure_compactness(train_mean: float, p: int) -> Compactness:
    """Return p_eff = 2 mean(e_train), and its share of the p channels.

    Examples
    --------
    >>> measure_compactness(12.5, 50)
    Compactness(p_eff=25.0, compactness=0.5)
    """
    return Compactness(p_eff=2 * train_mean, compactness=2 * train_mean / p)


def against_chi_square(energy: Floats, p: int) -> tuple[float, float | None]:
    """Return how the tail and the variance of energies compare with the law.

    If whitened residuals are standard normal, twice the energy follows a chi-squared
    with p degrees of freedom, and both are 1.

    Parameters
    ----------
    energy : array of shape (n_rows,)
        Energies.
    p : int
        Number of channels.

    Examples
    --------
    >>> against_chi_square(np.array([0.0, 4.0]), 1)  # 99% point of 2 e: 6.63
    (50.0, 8.0)
    """
    tail = float(np.mean(2 * energy > chdtri(p, 1 - LAW_QUANTILE)))
    with np.errstate(over="ignore", invalid="ignore"):
        return tail / (1 - LAW_QUANTILE), finite(float(np.var(energy)) / (p / 2))


def scale_blind(raw: Floats, shrunk: Floats, constant: Bools) -> Bools:
    """Return which channels' variance shrinkage more than doubles.

    Their own spread hardly counts in the energy: they come in a smaller unit.

    Parameters
    ----------
    raw, shrunk : array of shape (p,)
        Variance of each channel before and after shrinkage.
    constant : array of bool, shape (p,)
        Channels that never change, which do not count.
    """
    return (shrunk > BLIND_FACTOR * raw) & ~constant


def names_where(mask: Bools, channels: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the channels that a mask selects."""
    return tuple(channels[j] for j in np.flatnonzero(mask).tolist())


# --- One attack -----------------------------------------------------------------------


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
    kl_mean : float, optional
        The part of `kl_plain` that the shifted mean makes.
        Formula: `m'm / 2`.
        Range: from 0.
        Better: higher.
        Nothing wrong: about `p / (2 W)`.
        Null: if it overflows, and in results of earlier versions.
    kl_spread : float, optional
        The part of it that changed variances make.
        Formula: `(tr C - p) / 2`.
        Range: from `-p / 2`.
        Nothing wrong: 0.
        Null: as `kl_mean`.
    kl_volume : float, optional
        The volume correction: what a wider distribution would explain anyway.
        Formula: `-(log det C) / 2`; `kl_plain = kl_mean + kl_spread + kl_volume`.
        Range: any number; `kl_spread + kl_volume` is at least 0.
        Nothing wrong: grows as W falls towards p.
        Null: as `kl_plain`, and in results of earlier versions.
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
        A row is over the limit of the p99 rule.
        Formula: any `e_t > tau99`.
        Better: true.
        Paper: Hits.
        Null: never.
    coverage : float
        Share of the attack's rows over the limit of the p99 rule.
        Formula: rows with `e_t > tau99` / W.
        Range: 0 to 1.
        Better: higher.
        Nothing wrong: 0.01.
        Paper: coverage_99.
        Null: never.
    first_alarm : int, optional
        Rows from the attack's start to its first row over that limit.
        Range: 0 to W - 1.
        Better: lower.
        Null: without such a row. Where an alarm of before still stands no alarm
        starts there; see `caught`.
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
    outcome : AttackOutcome, optional
        What became of the attack, by the owners of the testbed.
        Range: `had-effect`, `no-effect`, `failed`, `blocked` (by an interlock),
        `not-recorded`, `unknown`.
        Null: if no list of attacks says it.
    """

    id: str
    start: int
    stop: int
    length: int
    auc: float
    auc_nearby: float
    kl: float | None = None
    kl_plain: float | None = None
    kl_mean: float | None = None
    kl_spread: float | None = None
    kl_volume: float | None = None
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
    outcome: AttackOutcome | None = None


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
        # Energies may be so large that their sum or a difference overflows.
        with np.errstate(over="ignore", invalid="ignore"):
            parts = divergence_parts(windows.means[i], windows.seconds[i], length)
            d_atk = float(np.mean(energy[rows])) - train_mean
            d_eff, sdr = d_atk - d_drift, np.divide(d_atk, d_drift or np.nan)
        measured.append(
            SegmentMeasures(
                **{name: getattr(attack, name) for name in _GIVEN},
                length=length,
                auc=float(aucs[i]),
                auc_nearby=ranking.roc_auc_of_ranks(near),
                kl=finite(windows.d_full[own] / length),
                kl_plain=parts.kl,
                kl_mean=finite(parts.mean),
                kl_spread=finite(parts.spread),
                kl_volume=parts.volume,
                kl_shrunk=parts.kl is None,
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
