"""One case judged, and how sure that is: redrawn attacks, calm windows in its place.

The scores of an attack and of its calm windows are computed once. Redrawing rows and
windows, or putting a calm window in the place of the attack, only repeats the test.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from sightline.data.arrays import Bools, Floats, Ints
from sightline.judgement.event_test import (
    WAYS,
    Flag,
    Judged,
    Scores,
    Statistics,
    Way,
    judge,
    statistics,
)
from sightline.judgement.ladder import (
    LADDER,
    LADDER_LEVEL,
    ORDER,
    QUIET_SHARE,
    Kind,
    decide,
)
from sightline.judgement.record import AttackCase, energy_under
from sightline.judgement.verdicts import Verdict

N_DRAWS: Final = 100
# Below this confidence a verdict is undecided; below the next a sentence says "may be".
UNDECIDED: Final = 0.5
UNSURE: Final = 0.7
# From this confidence on a verdict is called sure.
SURE: Final = 0.9
# The most that few windows allow.
FEW_WINDOWS_CONFIDENCE: Final = 0.69
# A rule in alarm in this share of the median calm window is standing.
STANDING: Final = 0.5
# Values of windows that are averaged at a time.
_MOST_VALUES: Final = 4_000_000


def confidence_word(confidence: float) -> str:
    """Return a confidence as a word: "sure", "likely" or "may be".

    Examples
    --------
    >>> [confidence_word(value) for value in (0.97, 0.7, 0.6)]
    ['sure', 'likely', 'may be']
    """
    if confidence >= SURE:
        return "sure"
    return "likely" if confidence >= UNSURE else "may be"


@dataclass(frozen=True, kw_only=True, eq=False)
class QuietTest:
    """Mean energy of an attack and of calm windows, in one or two references.

    Parameters
    ----------
    own : array of shape (n_traces, n_rows)
        Energy of each row of the attack.
    calm : list of array
        Mean energy of each calm window, for each trace.
    """

    own: list[Floats]
    calm: list[Floats]

    @cached_property
    def usual(self) -> list[float]:
        """Median of the calm windows, for each trace."""
        return [float(np.median(calm)) for calm in self.calm]

    def share(self) -> tuple[float, float]:
        """Return mean energy as a share of the usual, and that of the lowest window."""
        shares = []
        for own, calm, usual in zip(self.own, self.calm, self.usual, strict=True):
            if usual > 0:
                shares.append((float(own.mean()) / usual, float(calm.min()) / usual))
        return min(shares, default=(1.0, 1.0))

    def is_quiet(self, rows: Ints | None = None) -> Bools:
        """Return whether the attack, or each redrawn version of it, is quiet.

        Less energy than `QUIET_SHARE` of the usual, and than every calm window.
        """
        found = np.zeros(1 if rows is None else len(rows), np.bool_)
        for own, calm, usual in zip(self.own, self.calm, self.usual, strict=True):
            mean = np.array([own.mean()]) if rows is None else own[rows].mean(axis=1)
            found |= (mean < calm.min()) & (mean < QUIET_SHARE * usual)
        return found


@dataclass(frozen=True, kw_only=True, eq=False)
class Judgement:
    """The verdict on one attack, and what each rung makes of it.

    Parameters
    ----------
    case : AttackCase
        The attack and its calm windows, without their rows.
    verdict : Verdict
        Before the confidence is looked at.
    judged : mapping of str to Judged
        Outcome of each rung that applies, one case each.
    scores : mapping of str to list of Scores
        What each rung looked at, without the calm rows.
    quiet : QuietTest
        Mean energies.
    standing : frozenset of str
        Rules that are in alarm in half of a usual calm window.
    p_value : float
        Of the whole ladder.
    shares : dict of Verdict to float
        Share of redrawn versions with each verdict.
    found_by_chance : float
        Share of calm windows that the present rule would find.
    n_blamed, n_tried : int
        Calm windows that would get a cause, of those tried.
    """

    case: AttackCase
    verdict: Verdict
    judged: Mapping[str, Judged]
    scores: Mapping[str, list[Scores]]
    quiet: QuietTest
    standing: frozenset[str]
    p_value: float
    shares: dict[Verdict, float]
    found_by_chance: float
    n_blamed: int
    n_tried: int

    @property
    def rule(self) -> str:
        """The name of the present rule: the user's own if there is one."""
        return next(n for n in self.judged if LADDER[n].kind is Kind.RULE)

    @property
    def confidence(self) -> float:
        """Share of redrawn versions with the same verdict."""
        share = self.shares.get(self.verdict, 0.0)
        few = Flag.FEW_WINDOWS in self.case.windows.flags
        return min(share, FEW_WINDOWS_CONFIDENCE) if few else share

    @property
    def is_standing(self) -> bool:
        """Whether the present rule never stops, so that it finds nothing."""
        return self.rule in self.standing

    @property
    def is_found(self) -> bool:
        """Whether the present rule shows the attack."""
        return bool(self.ways_of(self.rule))

    def ways_of(self, name: str) -> tuple[Way, ...]:
        """Return by which statistics a rung shows the attack; empty if it does not.

        A standing rule shows nothing. A repair shows an attack by coverage only if the
        whole ladder does: it pays for its length.
        """
        judged = self.judged[name]
        if name in self.standing:
            return ()
        pays = LADDER[name].kind is Kind.RULE or self.p_value <= LADDER_LEVEL
        ways = [Way.COVERAGE] if judged.by_coverage[0] and pays else []
        if judged.by_peak[0]:
            effects = zip(WAYS[1:], judged.peak_effects[0], strict=True)
            ways += [way for way, has_effect in effects if has_effect]
        return tuple(ways)


@np.errstate(over="ignore", invalid="ignore")
def judge_case(case: AttackCase, *, seed: int = 0, n_draws: int = N_DRAWS) -> Judgement:
    """Climb the ladder with one attack.

    Parameters
    ----------
    case : AttackCase
        The attack and its calm windows.
    seed : int
        Seed of the draws; they also depend on the rows of the attack, and on nothing
        else.
    n_draws : int
        How often rows and windows are drawn again.
    """
    scores = {
        name: found
        for name, rung in LADDER.items()
        if rung.score is not None and (found := rung.score(case)) is not None
    }
    length, n_rows = case.windows.length, case.segment.length
    rng = np.random.default_rng([seed, case.segment.start, case.segment.stop])
    rows = _drawn_rows(rng, n_rows, n_draws)
    n_windows = len(case.windows.starts)
    chosen = rng.integers(0, n_windows, size=(n_draws, n_windows))
    others = np.array([np.delete(np.arange(n_windows), k) for k in range(n_windows)])
    judged, redrawn, replaced = {}, {}, {}
    for name, found in scores.items():
        own, again, calm = _statistics(found, length, rows)
        judged[name] = _judge(name, found, own[None], calm[None])
        redrawn[name] = _judge(
            name, found, again, calm[:, chosen].transpose(1, 0, 2, 3)
        )
        replaced[name] = _judge(
            name,
            found,
            calm.transpose(1, 0, 2),
            calm[:, others].transpose(1, 0, 2, 3),
        )
    quiet = _quiet_test(case)
    rule = next(n for n in scores if LADDER[n].kind is Kind.RULE)
    standing = frozenset(
        name
        for name, one in judged.items()
        if LADDER[name].kind is Kind.RULE and one.median[0, 0, 0] >= STANDING
    )
    decided = decide(judged, quiet.is_quiet(), standing=standing)
    redrawn_verdicts = decide(redrawn, quiet.is_quiet(rows), standing=standing)
    counts = np.bincount(redrawn_verdicts.verdicts, minlength=len(ORDER))
    order = np.argsort(-counts, kind="stable").tolist()
    in_place = decide(replaced, np.zeros(n_windows, np.bool_), standing=standing)
    is_found = replaced[rule].is_shown & (rule not in standing)
    blamed = ~np.isin(
        in_place.verdicts,
        [ORDER.index(Verdict.DETECTED), ORDER.index(Verdict.WEAK_EVIDENCE)],
    )
    return Judgement(
        # Rows of all attacks would not fit into memory.
        case=replace(case, stretches=()),
        verdict=ORDER[decided.verdicts[0]],
        judged=judged,
        scores={n: [one.without_calm() for one in each] for n, each in scores.items()},
        quiet=quiet,
        standing=standing,
        p_value=float(decided.p_value[0]),
        shares={ORDER[k]: float(counts[k] / n_draws) for k in order if counts[k]},
        found_by_chance=float(is_found.mean()),
        n_blamed=int(blamed.sum()),
        n_tried=n_windows,
    )


def _judge(name: str, scores: list[Scores], own: Floats, calm: Floats) -> Judged:
    """Return the outcome of one rung for many cases."""
    rung = LADDER[name]
    return judge(
        Statistics(
            own=own,
            calm=calm,
            effect=rung.effect,
            has_peaks=rung.has_peaks,
            is_alarm=scores[0].is_alarm,
        )
    )


def _drawn_rows(rng: np.random.Generator, n_rows: int, n_draws: int) -> Ints:
    """Return rows of an attack drawn in circular blocks, shape (n_draws, n_rows)."""
    block = min(max(5, n_rows // 8), n_rows)
    n_blocks = -(-n_rows // block)
    starts = rng.integers(0, n_rows, size=(n_draws, n_blocks, 1))
    rows = (starts + np.arange(block)) % n_rows
    return np.ascontiguousarray(rows.reshape(n_draws, -1)[:, :n_rows])


def _statistics(
    scores: list[Scores], length: int, rows: Ints
) -> tuple[Floats, Floats, Floats]:
    """Return the statistics of the variants of a rung.

    Returns
    -------
    own : array of shape (n_variants, 3)
        Of the attack.
    again : array of shape (n_draws, n_variants, 3)
        Of its redrawn versions. Their onset is that of the attack: redrawn rows have no
        first ones.
    calm : array of shape (n_variants, n_windows, 3)
        Of the calm windows.
    """
    own, again, calm = [], [], []
    for score in scores:
        u, calm_u = score.in_units
        own.append(statistics(u[None], length, is_alarm=score.is_alarm)[0])
        redrawn = statistics(u[None], length, is_alarm=score.is_alarm, draws=rows)
        redrawn[:, 2] = own[-1][2]
        again.append(redrawn)
        calm.append(statistics(calm_u, length, is_alarm=score.is_alarm))
    return np.array(own), np.array(again).transpose(1, 0, 2), np.array(calm)


def _quiet_test(case: AttackCase) -> QuietTest:
    """Return the mean energies: from train, and about the centre if that has moved.

    None of them for a one-sided score, of which low values are good.
    """
    record, length = case.record, case.windows.length
    if record.is_one_sided:
        return QuietTest(own=[], calm=[])
    own = [record.energy[case.segment.rows]]
    # The mean of each window; a running sum would carry rounding along.
    windows = np.lib.stride_tricks.sliding_window_view(record.energy, length)
    starts, at_once = case.windows.matched, max(1, _MOST_VALUES // length)
    means = [
        windows[starts[k : k + at_once]].mean(axis=1)
        for k in range(0, len(starts), at_once)
    ]
    calm = [np.concatenate(means)]
    if case.has_moved:
        whitening = record.scored.reference.whitening
        own.append(energy_under(whitening, case.stretches[0].rows))
        calm.append(np.array([s.least_energy for s in case.stretches[1:]]))
    return QuietTest(own=own, calm=calm)
