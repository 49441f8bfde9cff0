"""The ladder: every repair is carried out on every attack, and shows its cause.

`LADDER` is the table of the rungs. A new rung is one row of it and one function that
scores an attack and its calm windows; result, terminal, page and figures read the
table.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

import numpy as np

from sightline.data.arrays import Bools, Floats, Ints
from sightline.judgement.event_test import EFFECT, Judged, Scores, p_values
from sightline.judgement.record import (
    SPANS,
    AttackCase,
    energy_under,
    growth,
    weight_of,
)
from sightline.judgement.verdicts import RungName, Verdict

# Rows of the blocks whose alternation makes two halves, at the least.
LEAST_HALF: Final = 5
# Sizes of the smaller spaces that are tried.
SIZES: Final = (1, 2, 3, 5)
# An attack that accumulates covers this much more than a calm window does.
MEMORY_EFFECT: Final = 0.25
# Of repairs that compete, the first with this share of the best coverage is the cause,
NEARLY_ALL: Final = 0.75
# provided that it covers this share of what accumulation covers.
HALF: Final = 0.5
# The whole ladder pays for its length: at most one calm window in 60 may do as well.
LADDER_LEVEL: Final = 0.034
# A quiet attack has less than this share of the usual mean energy.
QUIET_SHARE: Final = 0.6


class Kind(Enum):
    """What a rung is to the verdict.

    ``RULE``
        An alarm rule as it is: if the present one shows the attack, it is detected.
    ``REPAIR``
        A repair that competes with the others by coverage.
    ``MEMORY``
        Accumulation: the cause where no other repair covers nearly as much.
    ``QUIET``
        Too little energy: judged last, by its own test.
    """

    RULE = auto()
    REPAIR = auto()
    MEMORY = auto()
    QUIET = auto()


@dataclass(frozen=True, kw_only=True)
class Rung:
    """One row of the ladder: a way to look at an attack.

    Parameters
    ----------
    name : str
        Its name in files.
    label : str
        Its name for people.
    kind : Kind
        Its part in the verdict.
    score : callable, optional
        Returns one or more scores of a case, of which the best counts; None where it
        does not apply. The quiet rung has none.
    proves : Verdict, optional
        The cause of an attack that this rung shows and the present rule does not.
    repair : str, optional
        What to do, in words, with ``{by}`` for what it uses.
    effect : float
        Minimum effect in coverage.
    has_peaks : bool
        Whether peak and onset count as well.
    is_coverage : bool
        Whether its figures are shares of rows, and not of energy.
    """

    name: str
    label: str
    kind: Kind
    score: Callable[[AttackCase], list[Scores] | None] | None = None
    proves: Verdict | None = None
    repair: str | None = None
    effect: float = EFFECT
    has_peaks: bool = False
    is_coverage: bool = True


# --- How each rung scores a case ------------------------------------------------------


def score_own_rule(case: AttackCase) -> list[Scores] | None:
    """Return the alarms of the user's own rule; None if there are none."""
    alarms = case.record.scored.own_alarms
    if alarms is None:
        return None
    own, calm = case.values(alarms.astype(np.float64))
    return [Scores(own=own, calm=calm, is_alarm=True)]


def score_probe(case: AttackCase) -> list[Scores]:
    """Return the energy with the limit of the p99 rule."""
    own, calm = case.values(case.record.energy)
    limit = case.record.scored.threshold
    return [Scores(own=own, calm=calm, pool=case.pool, limit=limit)]


def score_evidence(case: AttackCase) -> list[Scores]:
    """Return the energy with a limit set on matched calm rows."""
    own, calm = case.values(case.record.energy)
    return [Scores(own=own, calm=calm, pool=case.pool)]


def score_reference(case: AttackCase) -> list[Scores] | None:
    """Return the energy about the centre of the surroundings.

    Row by row the least over the centres, with the covariance of calm rows about a
    moving mean: a calm row by the half of calm time to which it does not belong, the
    attack by the half that leaves less. None unless the reference has moved, and for a
    one-sided score, which has no centre.
    """
    is_open = case.has_moved and not case.record.is_one_sided
    local = case.record.local if is_open else None
    if local is None:
        return None
    scores = []
    for k, stretch in enumerate(case.stretches):
        halves = [
            np.min(
                [energy_under(w, rows) for rows in (stretch.rows, *stretch.others)],
                axis=0,
            )
            for w in local.whitenings
        ]
        half = local.half[stretch.segment.rows]
        chosen = np.where(half == 0, halves[1], halves[0])
        scores.append(np.minimum(*halves) if k == 0 else chosen)
    return [Scores(own=scores[0], calm=np.stack(scores[1:]))]


def score_space(case: AttackCase) -> list[Scores] | None:
    """Return the energy of the few channels that stand out, chosen on other rows.

    Alternating blocks of rows form two halves. In one half channels are ranked by the
    larger of |mean| and mean square, in units of what one calm window in 20 reaches;
    the first 1, 2, 3 or 5 are scored in the other half, and the reverse. None where no
    line of centres reaches across the attack, it has too few rows for two halves, or
    there is only one channel.
    """
    from sightline._kernels.rows import group_energies, half_sums

    is_single = len(case.record.channels) == 1
    if is_single or case.is_too_long or case.windows.length < 2 * LEAST_HALF:
        return None
    lengths = [stretch.segment.length for stretch in case.stretches]
    halves = [
        np.asarray(np.arange(n) // max(LEAST_HALF, n // 8) % 2 == 0) for n in lengths
    ]
    p = len(case.record.channels)
    sums, sizes_of_halves = np.zeros((len(halves), 2, 2, p)), []
    for rows, first, each in zip(case.scaled, halves, sums, strict=True):
        half_sums(rows, first, each)
        sizes_of_halves.append([first.sum(), (~first).sum()])
    strength = np.abs(sums / np.array(sizes_of_halves)[:, :, None, None])
    usual = np.quantile(strength[1:], 0.95, axis=0)
    order = np.argsort(-(strength / np.maximum(usual, 1e-12)).max(axis=2), axis=2)
    sizes = np.array([k for k in SIZES if k <= max(1, p // 2)])
    groups = np.ascontiguousarray(order[:, :, : sizes[-1]])
    correlation = case.record.units.correlation
    factors = np.linalg.cholesky(
        correlation[groups[..., :, None], groups[..., None, :]]
    )
    scores = [np.empty((len(sizes), length)) for length in lengths]
    work = np.empty(groups.shape[2])
    for k, (rows, first) in enumerate(zip(case.scaled, halves, strict=True)):
        group_energies(rows, first, groups[k], factors[k], sizes, work, scores[k])
    found = []
    for k, size in enumerate(sizes.tolist()):
        # Channels that either half of the attack ranks first.
        used = dict.fromkeys(order[0, :, :size].T.ravel().tolist())
        names = [case.record.channels[j] for j in used][:size]
        found.append(
            Scores(
                own=scores[0][k],
                calm=np.stack([each[k] for each in scores[1:]]),
                name=JOIN.join(names),
                channels=tuple(names),
            )
        )
    return found


# Separates the channels of a space in the name of a score.
JOIN: Final = "\x1f"


def score_memory(case: AttackCase) -> list[Scores] | None:
    """Return averages over time: signed by channel, signed over all, of log energy.

    Exponentially weighted averages start at zero with the stretch, about its centre.
    By channel: the largest, in units of the deviation of the same average over train,
    and the sum of squares of the three largest. Over all channels: the sum of squares
    of whitened averages. Of a one-sided score only the average of log energy. None
    where no line of centres reaches across the attack.
    """
    from sightline._kernels.rows import average_stretch

    if case.is_too_long:
        return None
    units, record = case.record.units, case.record
    pool = np.maximum(case.pool, _TINY)
    usual = float(np.median(np.log(pool, out=pool), overwrite_input=True))
    longest = max(stretch.segment.length for stretch in case.stretches)
    grown = {span: growth(longest, span) for span in SPANS}
    kept: dict[int, list[Floats]] = {span: [] for span in SPANS}
    p = len(record.channels)
    total = np.zeros((len(case.stretches), len(SPANS), p))
    for k, (stretch, scaled) in enumerate(
        zip(case.stretches, case.scaled, strict=True)
    ):
        whitened = stretch.rows @ units.whitening
        logs = record.calm.log_energy[stretch.segment.rows] - usual
        for span, summed in zip(SPANS, total[k], strict=True):
            deviation, weight = units.memory[span], weight_of(span)
            traces, state = np.empty((len(scaled), 4)), np.zeros((3, p))
            given = scaled, whitened, logs, weight, grown[span], deviation
            average_stretch(*given, state, traces, summed)
            kept[span].append(traces)
    channel = record.channels[int(np.argmax(total[0, 0]))]
    names = {"log": "the energy"}
    if not record.is_one_sided:
        names = {"channel": channel} | names
    if p > 1:
        names["all"] = "all channels"
    if p > 2 * _TOP:
        names["top"] = f"{channel} with {_TOP - 1} others"
    return [
        Scores(
            own=traces[0][:, _TRACES.index(key)].copy(),
            calm=np.stack([each[:, _TRACES.index(key)] for each in traces[1:]]),
            name=f"{name}{JOIN}{span}",
            channels=(channel,) if key in ("channel", "top") else (),
        )
        for span, traces in kept.items()
        for key, name in names.items()
    ]


# What `average_stretch` writes, in its order.
_TRACES: Final = ("channel", "log", "all", "top")
_TOP: Final = 3
_TINY: Final = np.finfo(np.float64).tiny


# The cheapest repair comes first.
LADDER: Final[dict[str, Rung]] = {
    rung.name: rung
    for rung in (
        Rung(
            name=RungName.OWN_RULE,
            label="Your own rule, as it runs today",
            kind=Kind.RULE,
            score=score_own_rule,
            has_peaks=True,
        ),
        Rung(
            name=RungName.PROBE,
            label="The p99 limit from training",
            kind=Kind.RULE,
            score=score_probe,
            has_peaks=True,
        ),
        Rung(
            name=RungName.EVIDENCE,
            label="Limit set on attack-free test time",
            kind=Kind.REPAIR,
            score=score_evidence,
            proves=Verdict.THRESHOLD,
            repair="setting the alarm limit on attack-free time of this plant",
            has_peaks=True,
        ),
        Rung(
            name=RungName.REFERENCE,
            label="Reference from attack-free time around it",
            kind=Kind.REPAIR,
            score=score_reference,
            proves=Verdict.DRIFT,
            repair="updating the model of normal operation on attack-free time",
            has_peaks=True,
        ),
        Rung(
            name=RungName.SPACE,
            label="A few channels separately",
            kind=Kind.REPAIR,
            score=score_space,
            proves=Verdict.DILUTED,
            repair="scoring {by} separately",
        ),
        Rung(
            name=RungName.MEMORY,
            label="Accumulated over time",
            kind=Kind.MEMORY,
            score=score_memory,
            proves=Verdict.SEQUENTIAL,
            repair="accumulating deviations over time in {by}",
            effect=MEMORY_EFFECT,
        ),
        Rung(
            name=RungName.QUIET,
            label="Too little movement",
            kind=Kind.QUIET,
            proves=Verdict.QUIET,
            repair="an alarm on too little movement as well",
            is_coverage=False,
        ),
    )
}


def causes() -> dict[str, Verdict]:
    """Return the verdict that each rung proves, in the order of the ladder.

    Examples
    --------
    >>> [f"{name}: {verdict}" for name, verdict in causes().items()][:2]
    ['evidence: threshold', 'reference: drift']
    """
    return {r.name: r.proves for r in LADDER.values() if r.proves is not None}


# --- From outcomes to a verdict -------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Decided:
    """Verdicts of many cases at once.

    Parameters
    ----------
    verdicts : array of int, shape (n_cases,)
        Index into `ORDER`.
    p_value : array of shape (n_cases,)
        Of the whole ladder: its largest t of coverage against each calm window's own.
    """

    verdicts: Ints
    p_value: Floats


ORDER: Final = tuple(Verdict)


def decide(
    judged: Mapping[str, Judged],
    is_quiet: Bools,
    *,
    standing: frozenset[str] = frozenset(),
) -> Decided:
    """Return the verdicts to which the outcomes of the rungs lead.

    The present rule shows it: detected. Else, of the repairs shown by coverage that
    cover at least `HALF` of what a shown accumulation covers, the first with
    `NEARLY_ALL` of their best coverage: the cheapest that gets nearly all there is to
    get. Else accumulation; else what is shown by peak or onset alone; else quiet.

    Parameters
    ----------
    judged : mapping of str to Judged
        Outcome of each rung that applies, in the order of the ladder; of the two rules
        the first is the present one.
    is_quiet : array of bool, shape (n_cases,)
        Whether the energy is lower than ever in calm time.
    standing : frozenset of str
        Rules that are in alarm in half of a usual calm window: they show nothing.
    """
    n_cases = len(is_quiet)
    rules = [n for n in judged if LADDER[n].kind is Kind.RULE]
    repairs = [n for n in judged if LADDER[n].kind is Kind.REPAIR]
    memories = [n for n in judged if LADDER[n].kind is Kind.MEMORY]
    tried = [*repairs, *memories]
    p_value = p_values(
        np.max([judged[n].t for n in tried], axis=0),
        np.max([judged[n].calm_t for n in tried], axis=0),
    )
    shown = {n: judged[n].by_coverage & (p_value <= LADDER_LEVEL) for n in tried}
    accumulated = np.zeros(n_cases)
    for name in memories:
        accumulated = np.maximum(accumulated, shown[name] * judged[name].coverage)
    competing = {
        n: shown[n] & (judged[n].coverage >= HALF * accumulated - 1e-9) for n in repairs
    }
    best = np.max([competing[n] * judged[n].coverage for n in repairs], axis=0)
    by_rule = [judged[n].is_shown & (n not in standing) for n in rules]
    steps: list[tuple[Bools, Verdict]] = [(by_rule[0], Verdict.DETECTED)]
    steps += [
        (competing[n] & (judged[n].coverage >= NEARLY_ALL * best - 1e-9), _cause(n))
        for n in repairs
    ]
    steps += [(shown[n], _cause(n)) for n in memories]
    # The p99 rule shows what the present rule misses: its limit is the cause.
    steps += [(is_shown, Verdict.THRESHOLD) for is_shown in by_rule[1:]]
    steps += [(judged[n].by_peak, _cause(n)) for n in repairs]
    steps.append((is_quiet, Verdict.QUIET))
    verdicts = np.full(n_cases, ORDER.index(Verdict.WEAK_EVIDENCE))
    is_open = np.ones(n_cases, np.bool_)
    for is_shown, verdict in steps:
        verdicts[is_open & is_shown] = ORDER.index(verdict)
        is_open &= ~is_shown
    return Decided(verdicts=verdicts, p_value=p_value)


def _cause(name: str) -> Verdict:
    cause = LADDER[name].proves
    if cause is None:
        raise ValueError(f"rung {name!r} proves nothing")
    return cause


def contributing(names: Sequence[str], verdict: Verdict) -> tuple[Verdict, ...]:
    """Return the causes of other rungs that show the attack, in the ladder's order."""
    found = dict.fromkeys(c for n, c in causes().items() if n in names)
    return tuple(cause for cause in found if cause is not verdict)
