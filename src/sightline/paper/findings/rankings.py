"""Findings on rankings: do they transfer, and does agreement follow the space."""

from itertools import combinations

import numpy as np

from sightline.comparison.compare import Comparison
from sightline.data.arrays import Floats
from sightline.metrics.correlation import rank_correlation
from sightline.paper.findings.outcome import CANNOT, FAILS, HOLDS, Tried
from sightline.paper.study import Study, value_of

FEWEST_DETECTORS = 3
FEWEST_ATTACKS = 5
# Below this two rankings are weakly related at best.
WEAK_RHO = 0.5
SURE = 0.95
N_SEED_DRAWS = 2000
N_ATTACK_DRAWS = 1000
# So that a rho of exactly one half, rounded, is not taken for less.
_ROUNDING = 1e-9


def rankings_do_not_transfer(study: Study, _: Comparison) -> tuple[Tried, ...]:
    """Try finding 6 on each two testbeds."""
    if len(study.testbeds) < 2:
        return (Tried("This study", CANNOT, "One testbed; two are needed."),)
    return tuple(
        _transfer_of(study, first, second)
        for first, second in combinations(study.testbeds, 2)
    )


def _transfer_of(study: Study, first: str, second: str) -> Tried:
    where = f"{study.testbed_title(first)} and {study.testbed_title(second)}"
    values = {bed: _roc_aucs(study, bed) for bed in (first, second)}
    shared = sorted(set(values[first]) & set(values[second]))
    if len(shared) < FEWEST_DETECTORS:
        return Tried(
            where,
            CANNOT,
            f"They share {len(shared)} detectors; {FEWEST_DETECTORS} are needed.",
        )
    means = {
        bed: np.array([np.mean(values[bed][name]) for name in shared]) for bed in values
    }
    found = rank_correlation(means[first], means[second])
    if found.rho is None:
        return Tried(where, CANNOT, "All detectors have the same ROC-AUC.")
    chosen = [[values[bed][name] for name in shared] for bed in values]
    weak = _share_weak(chosen)
    told = f"rho of ROC-AUC is {found.rho:+.2f} over {found.n} detectors"
    if found.p_exact is not None:
        told += f" (exact p {found.p_exact:.2f}; over so few it only describes)"
    told += (
        f"; {weak:.0%} of draws of seeds give less than {WEAK_RHO}. "
        if any(len(seeds) > 1 for bed in chosen for seeds in bed)
        else "; with one seed each it is not known how it varies over seeds. "
    )
    winners = [shared[int(np.argmax(means[bed]))] for bed in (first, second)]
    told += "First are " if winners[0] != winners[1] else "First on both is "
    told += " and ".join(study.detector_title(w) for w in dict.fromkeys(winners)) + "."
    if found.rho < WEAK_RHO - _ROUNDING and weak >= SURE:
        return Tried(where, HOLDS, told)
    if found.rho >= WEAK_RHO - _ROUNDING and weak <= 1 - SURE:
        return Tried(where, FAILS, told)
    return Tried(where, CANNOT, f"{told} The seeds leave it open.")


def _roc_aucs(study: Study, testbed: str) -> dict[str, list[float]]:
    found = {}
    for pair in study.on(testbed):
        seeds = [value_of(r.evaluation, "rank.roc_auc") for r in pair.seeds]
        known = [value for value in seeds if value is not None]
        if known:
            found[pair.detector] = known
    return found


def _share_weak(values: list[list[list[float]]]) -> float:
    """Return how often rho is weak when one seed stands for each detector."""
    n_draws = N_SEED_DRAWS if any(len(s) > 1 for bed in values for s in bed) else 1
    rng = np.random.default_rng(0)
    drawn = [
        np.stack([rng.choice(seeds, size=n_draws) for seeds in bed], axis=1)
        for bed in values
    ]
    rho = _rank_correlations(np.stack(drawn, axis=1))[:, 0, 1]
    known = rho[np.isfinite(rho)]
    return float(np.mean(known < WEAK_RHO - _ROUNDING)) if len(known) else 0.0


def _rank_correlations(values: Floats) -> Floats:
    """Return Spearman's rho of each two rows, in each draw; nan without any order.

    Takes shape (n_draws, n_rows, n), gives (n_draws, n_rows, n_rows).
    """
    from scipy.stats import rankdata

    ranks = rankdata(values, axis=-1)
    centred = ranks - ranks.mean(axis=-1, keepdims=True)
    length = np.sqrt((centred**2).sum(axis=-1))
    with np.errstate(invalid="ignore", divide="ignore"):
        unit = centred / length[..., None]
    return np.asarray(unit @ np.swapaxes(unit, -1, -2))


def agreement_follows_space(study: Study, _: Comparison) -> tuple[Tried, ...]:
    """Try finding 7 on each testbed."""
    return tuple(_agreement_of(study, testbed) for testbed in study.testbeds)


def _agreement_of(study: Study, testbed: str) -> Tried:
    where = study.testbed_title(testbed)
    pairs = {p.detector: p for p in study.on(testbed) if p.space is not None}
    same: list[tuple[str, str]] = []
    across: list[tuple[str, str]] = []
    for a, b in combinations(pairs, 2):
        (same if pairs[a].space == pairs[b].space else across).append((a, b))
    if not same or not across:
        return Tried(
            where,
            CANNOT,
            f"{len(same)} pairs of detectors are of one residual space and "
            f"{len(across)} across; both are needed.",
        )
    names = list(pairs)
    d_full = _shared_d_full(study, testbed, names)
    n_attacks = d_full.shape[1]
    if n_attacks < FEWEST_ATTACKS:
        return Tried(
            where,
            CANNOT,
            f"All detectors share {n_attacks} attacks; {FEWEST_ATTACKS} are needed.",
        )
    within, between = (
        _mean_rho(d_full[None], kind, names)[0] for kind in (same, across)
    )
    if not np.isfinite([within, between]).all():
        return Tried(where, CANNOT, "D_FULL does not order the attacks.")
    low, high = _interval(d_full, same, across, names)
    told = (
        f"mean rho is {within:.2f} within a space ({len(same)} pairs) and "
        f"{between:.2f} across ({len(across)}); the difference is "
        f"{within - between:+.2f} (95% interval {low:+.2f} to {high:+.2f}, "
        f"{n_attacks} attacks)."
    )
    if low > 0:
        return Tried(where, HOLDS, told)
    if within <= between:
        return Tried(where, FAILS, told)
    return Tried(where, CANNOT, f"{told} So few attacks leave it open.")


def _shared_d_full(study: Study, testbed: str, detectors: list[str]) -> Floats:
    """Return D_FULL of the attacks that all have, a row a detector (first seeds)."""
    shared = [a for a in study.attacks(testbed) if all(d in a for d in detectors)]
    rows = []
    for name in detectors:
        pair = study.pair(testbed, name)
        values = np.empty(0) if pair is None else pair.seeds[0].traces.segment_d_full
        rows.append([values[attack[name]] for attack in shared])
    return np.array(rows, dtype=np.float64).reshape(len(detectors), len(shared))


def _mean_rho(d_full: Floats, pairs: list[tuple[str, str]], names: list[str]) -> Floats:
    """Return the mean rho over pairs of detectors in each draw."""
    rhos = _rank_correlations(d_full)
    first = [names.index(a) for a, _ in pairs]
    second = [names.index(b) for _, b in pairs]
    return np.asarray(rhos[:, first, second].mean(axis=1))


def _interval(
    d_full: Floats,
    same: list[tuple[str, str]],
    across: list[tuple[str, str]],
    names: list[str],
) -> tuple[float, float]:
    """Draw attacks again and again: the same ones for all pairs."""
    n_attacks = d_full.shape[1]
    rows = np.random.default_rng(0).integers(
        n_attacks, size=(N_ATTACK_DRAWS, n_attacks)
    )
    drawn = np.moveaxis(d_full[:, rows], 0, 1)
    differences = _mean_rho(drawn, same, names) - _mean_rho(drawn, across, names)
    known = differences[np.isfinite(differences)]
    low, high = np.quantile(known, (0.025, 0.975)) if len(known) else (-1.0, 1.0)
    return float(low), float(high)
