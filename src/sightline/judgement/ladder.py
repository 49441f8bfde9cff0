"""The ladder: every repair is carried out on every attack, and shows its cause.

`LADDER` is the table of the rungs. A new rung is one row of it and one function that
scores an attack and its calm windows; result, terminal, page and figures read the
table.

`judge_case` climbs the ladder with one attack, and says how sure the verdict is. The
scores of an attack and of its calm windows are computed once. Redrawing rows and
windows, or putting a calm window in the place of the attack, only repeats the test.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import cached_property, partial
from typing import Final

import numpy as np

from sightline.data.arrays import Bools, Floats, Ints, finite
from sightline.energy.tag_extremes import UsualExtremes
from sightline.judgement.event_test import (
    EFFECT,
    ONSET_ROWS,
    RARE,
    WAYS,
    Flag,
    Judged,
    Scores,
    Way,
    far_outside,
    judge,
    largest_three,
    middle_of,
    p_values,
    quantile_of,
    statistics,
    with_margin,
)
from sightline.judgement.record import (
    SPANS,
    AttackCase,
    energy_under,
    growth,
    weight_of,
)
from sightline.judgement.verdicts import RungName, RungOutcome, Verdict

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
N_DRAWS: Final = 100
# Below this confidence a verdict is undecided; below the next a sentence says "may be".
UNDECIDED: Final = 0.5
UNSURE: Final = 0.7
# From this confidence on a verdict is called sure.
SURE: Final = 0.9
# One moment of one tag is shown at this multiple of the usual extreme and this p,
MOMENT_EFFECT: Final = 3.0
MOMENT_LEVEL: Final = 0.02
# if it is so many times what 2% of attack-free blocks reach;
MOMENT_RARE: Final = 0.98
MOMENT_MARGIN: Final = 1.5
# or, whatever p, at this multiple and so many times the largest attack-free block.
FAR_MOMENT: Final = 10.0
FAR_MARGIN: Final = 3.0
# A tag leads with this ratio and this share of the largest; at most so many do.
LEADING: Final = 1.5
LEADING_SHARE: Final = 1 / 3
MOST_LEADING: Final = 3
# Least strength of a channel in `space`: mean and mean square in units of train.
SPACE_FLOORS: Final = np.array([1e-3, 1e-6])
# The most confidence that few windows allow, and that a change of state during the
# attack allows where nothing is shown: normal operation hides the attack then.
LESS_SURE: Final = 0.8
# A rule in alarm in this share of the median calm window is standing.
STANDING: Final = 0.5
# Values of windows that are averaged at a time.
_MOST_VALUES: Final = 4_000_000


class Kind(Enum):
    """What a rung is to the verdict.

    ``RULE``
        An alarm rule as it is: if the present one shows the attack, it is detected.
    ``REPAIR``
        A repair that competes with the others by coverage.
    ``MEMORY``
        Accumulation: the cause where no other repair covers nearly as much.
    ``MOMENT``
        One moment of one tag, by its own test.
    ``QUIET``
        Too little energy: judged last, by its own test.
    """

    RULE = auto()
    REPAIR = auto()
    MEMORY = auto()
    MOMENT = auto()
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
        does not apply. Rungs with a test of their own have none.
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
    series = alarms.astype(np.float64)
    own, calm = case.values(series)
    return [Scores(own=own, calm=calm, is_alarm=True, before=case.before(series))]


def score_probe(case: AttackCase) -> list[Scores]:
    """Return the energy with the limit of the p99 rule."""
    [score] = score_evidence(case)
    return [replace(score, limit=case.record.scored.threshold)]


def score_evidence(case: AttackCase) -> list[Scores]:
    """Return the energy with a limit set on matched calm rows."""
    energy = case.record.energy
    own, calm = case.values(energy)
    return [Scores(own=own, calm=calm, pool=case.pool, before=case.before(energy))]


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
    the first 1, 2, 3 or 5 are scored in the other half, and the reverse. A channel that
    stays at its attack-free median is no evidence, whatever its centre does. None where
    the attack has too few rows for two halves, or there is only one channel.
    """
    from sightline._kernels.rows import group_energies, half_sums

    is_single = len(case.record.channels) == 1
    if is_single or case.windows.length < 2 * LEAST_HALF:
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
    ordered = np.moveaxis(np.sort(strength[1:], axis=0), 0, -1)
    usual = np.maximum(quantile_of(ordered, RARE), SPACE_FLOORS[:, None])
    deviates = np.array([stretch.deviates for stretch in case.stretches])
    strength *= deviates[:, None, None]
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
        names = [case.record.channels[j] for j in used if deviates[0, j]][:size]
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

    Exponentially weighted averages start at zero with the stretch, about its centre; in
    an attack longer than its windows again after each piece of their length.
    By channel: the largest, in units of the deviation of the same average over train,
    and the sum of squares of the three largest. Over all channels: the sum of squares
    of whitened averages. Of a one-sided score only the average of log energy.
    """
    from sightline._kernels.rows import average_stretch

    units, record = case.record.units, case.record
    n = len(case.pool)
    middle = np.maximum(case.pool[(n - 1) // 2 : n // 2 + 1], _TINY)
    usual = float(np.log(middle).mean())
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
            traces = np.empty((len(scaled), 4))
            for part in _pieces(len(scaled), case.windows.length):
                given = scaled[part], whitened[part], logs[part]
                scales, state = (weight, grown[span], deviation), np.zeros((3, p))
                average_stretch(*given, *scales, state, traces[part], summed)
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


def _pieces(n_rows: int, length: int) -> list[slice]:
    """Return the pieces of a stretch; the last one ends with it.

    Examples
    --------
    >>> _pieces(10, 4)
    [slice(0, 4, None), slice(4, 8, None), slice(6, 10, None)]
    """
    starts = [min(k, max(n_rows - length, 0)) for k in range(0, n_rows, length)]
    return [slice(k, min(k + length, n_rows)) for k in starts]


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
            name=RungName.MOMENT,
            label="One tag at one moment",
            kind=Kind.MOMENT,
            proves=Verdict.DILUTED,
            repair="a limit for each tag",
            is_coverage=False,
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


ORDER: Final = tuple(Verdict)


@dataclass(frozen=True, kw_only=True, eq=False)
class MomentCases:
    """Which cases one moment of one tag shows.

    Parameters
    ----------
    is_shown, is_far : array of bool, shape (n_cases,)
        Whether it does, and whether it is `FAR_MOMENT` times the usual extreme.
    """

    is_shown: Bools
    is_far: Bools


def decide(
    judged: Mapping[str, Judged],
    is_quiet: Bools,
    *,
    standing: frozenset[str] = frozenset(),
    moment: MomentCases | None = None,
    untried: bool = False,
) -> tuple[Ints, Floats]:
    """Return the verdicts to which the outcomes of the rungs lead.

    The present rule shows it: detected. Else, of the repairs shown by coverage that
    cover at least `HALF` of what a shown accumulation covers, the first with
    `NEARLY_ALL` of their best coverage: the cheapest that gets nearly all there is to
    get; a moment far outside comes before another reference. Else what single rows
    show: the p99 rule, the energy by peak or onset, one moment of one tag. Else
    accumulation; else another reference by peak or onset; else quiet.

    Parameters
    ----------
    judged : mapping of str to Judged
        Outcome of each rung that applies, in the order of the ladder; of the two rules
        the first is the present one.
    is_quiet : array of bool, shape (n_cases,)
        Whether the energy is lower than ever in calm time.
    standing : frozenset of str
        Rules that are in alarm in half of a usual calm window: they show nothing.
    moment : MomentCases, optional
        What one moment of one tag shows; nothing by default.
    untried : bool
        Whether a rung could not be tried: what none shows is then undecided.

    Returns
    -------
    verdicts : array of int, shape (n_cases,)
        Index into `ORDER`.
    p_value : array of shape (n_cases,)
        Of the whole ladder: its largest t of coverage against each calm window's own.
    """
    n_cases, cause = len(is_quiet), causes()
    rules = [n for n in judged if LADDER[n].kind is Kind.RULE]
    repairs = [n for n in judged if LADDER[n].kind is Kind.REPAIR]
    memories = [n for n in judged if LADDER[n].kind is Kind.MEMORY]
    tried = [*repairs, *memories]
    p_value = p_values(
        np.max([judged[n].t for n in tried], axis=0),
        np.max([judged[n].calm_t for n in tried], axis=0),
    )
    pays = p_value <= LADDER_LEVEL
    shown = {n: judged[n].by_coverage & (pays | judged[n].is_far) for n in tried}
    accumulated = np.zeros(n_cases)
    for name in memories:
        accumulated = np.maximum(accumulated, shown[name] * judged[name].coverage)
    competing = {
        n: shown[n] & (judged[n].coverage >= HALF * accumulated - 1e-9) for n in repairs
    }
    best = np.max([competing[n] * judged[n].coverage for n in repairs], axis=0)
    by_rule = [judged[n].is_shown & (n not in standing) for n in rules]
    # The p99 rule shows what the present rule misses: its limit is the cause.
    rows = [(is_shown, Verdict.THRESHOLD) for is_shown in by_rule[1:]]
    peaks = {n: (judged[n].by_peak, cause[n]) for n in repairs}
    if RungName.EVIDENCE in peaks:
        rows.append(peaks.pop(RungName.EVIDENCE))
    steps: list[tuple[Bools, Verdict]] = [(by_rule[0], Verdict.DETECTED)]
    steps += [
        (competing[n] & (judged[n].coverage >= NEARLY_ALL * best - 1e-9), cause[n])
        for n in repairs
    ]
    if moment is not None:
        rows.append((moment.is_shown, Verdict.DILUTED))
        # Far outside: a limit for each tag is cheaper than another reference.
        first = 1 + (RungName.EVIDENCE in repairs)
        steps[first:first] = [
            (is_shown & moment.is_far, verdict) for is_shown, verdict in rows[-2:]
        ]
    steps += rows
    steps += [(shown[n], cause[n]) for n in memories]
    steps += peaks.values()
    steps.append((is_quiet, Verdict.QUIET))
    nothing = Verdict.UNDECIDED if untried else Verdict.WEAK_EVIDENCE
    verdicts = np.full(n_cases, ORDER.index(nothing))
    is_open = np.ones(n_cases, np.bool_)
    for is_shown, verdict in steps:
        verdicts[is_open & is_shown] = ORDER.index(verdict)
        is_open &= ~is_shown
    return verdicts, p_value


def contributing(names: Sequence[str], verdict: Verdict) -> tuple[Verdict, ...]:
    """Return the causes of other rungs that show the attack, in the ladder's order."""
    found = dict.fromkeys(c for n, c in causes().items() if n in names)
    return tuple(cause for cause in found if cause is not verdict)


# --- How sure a verdict is ------------------------------------------------------------


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

    @classmethod
    def of(cls, case: AttackCase) -> "QuietTest":
        """Return the mean energies: from train, and about the centre if it has moved.

        None of them for a one-sided score, of which low values are good.
        """
        record, length = case.record, case.windows.length
        if record.is_one_sided:
            return cls(own=[], calm=[])
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
        return cls(own=own, calm=calm)

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
class MomentTest:
    """The largest row of any tag of an attack against attack-free blocks.

    Parameters
    ----------
    ratios : array of shape (p,)
        Largest distance of each tag, as a multiple of its usual extreme.
    p_value : float
        Share of the blocks whose ratio is as large, times how many of them the attack
        is as long as.
    usual : UsualExtremes
        The attack-free blocks.
    share : float
        How many blocks the attack is as long as, at least 1.
    """

    ratios: Floats
    p_value: float
    usual: UsualExtremes
    share: float

    @classmethod
    def of(cls, case: AttackCase) -> "MomentTest | None":
        """Return the test of an attack.

        None for one channel, for a one-sided score, or with too few blocks.
        """
        known, wide = (
            case.record.extremes,
            case.segment.length + sum(case.windows.margins),
        )
        usual = None if known is None else known.usual_for(wide)
        if known is None or case.extremes is None or usual is None:
            return None
        if len(case.record.channels) == 1:
            return None
        share = max(1.0, wide / (usual.n_base * known.base_rows))
        ratios = usual.ratio(case.extremes)
        p_value = float(_moment_p(ratios.max(keepdims=True), usual.ratios, share)[0])
        return cls(ratios=ratios, p_value=p_value, usual=usual, share=share)

    @property
    def ratio(self) -> float:
        """The largest ratio."""
        return float(self.ratios.max())

    @property
    def leading(self) -> list[int]:
        """The tags that lead, the first one always."""
        order = np.argsort(-self.ratios, kind="stable")[:MOST_LEADING].tolist()
        least = max(LEADING, LEADING_SHARE * self.ratio)
        return [j for k, j in enumerate(order) if not k or self.ratios[j] >= least]

    def cases(self, ratio: Floats, p_value: Floats) -> MomentCases:
        """Return which ratios are shown, and which are far outside."""
        blocks = self.usual.ratios
        rare = MOMENT_MARGIN * float(np.quantile(blocks, MOMENT_RARE))
        is_far = ratio >= FAR_MOMENT
        beyond = is_far & (ratio >= FAR_MARGIN * blocks.max())
        is_rare = (p_value <= MOMENT_LEVEL) & (ratio >= max(MOMENT_EFFECT, rare))
        return MomentCases(is_shown=is_rare | beyond, is_far=is_far)

    def of_attack(self) -> MomentCases:
        """Return the outcome of the attack."""
        return self.cases(np.array([self.ratio]), np.array([self.p_value]))

    def of_draws(
        self, extremes: Floats, rng: np.random.Generator, n: int
    ) -> MomentCases:
        """Return the outcome with attack-free blocks drawn again.

        A single row cannot be drawn again: the blocks are, and with them the usual
        extreme of the leading tag.
        """
        usual, j = self.usual, self.leading[0]
        times = rng.poisson(1.0, (n, len(usual.largest)))
        drawn = np.cumsum(times, axis=1) >= usual.rank
        place = np.where(drawn.any(axis=1), drawn.argmax(axis=1), drawn.shape[1] - 1)
        again = np.maximum(usual.largest[place, j], usual.floor[j])
        ratio = extremes[j] / again
        if usual.usual[j] <= usual.floor[j]:
            ratio = np.minimum(ratio, self.ratio)
        return self.cases(ratio, np.full(n, self.p_value))

    def of_windows(self, case: AttackCase) -> MomentCases:
        """Return the outcome of each attack-free window in the attack's place."""
        known, usual = case.record.extremes, self.usual
        before, after = case.windows.margins
        ratio = np.zeros(len(case.windows.starts))
        if known is None:
            return self.cases(ratio, np.ones(len(ratio)))
        for k, start in enumerate(case.windows.starts.tolist()):
            stop = start + case.windows.length + after
            base, first, last = known.blocks_of(start - before, stop, usual.n_base)
            if len(base):
                is_own = (usual.order >= first) & (usual.order < last)
                extremes = known.largest[base].max(axis=0)
                ratio[k] = usual.ratio(extremes, usual.without(is_own)).max()
        return self.cases(ratio, _moment_p(ratio, usual.ratios, self.share))


def _moment_p(ratio: Floats, blocks: Floats, share: float) -> Floats:
    """Return the p-value of ratios among those of attack-free blocks."""
    p_value = p_values(ratio, np.broadcast_to(blocks, (len(ratio), len(blocks))))
    return np.minimum(1.0, share * p_value)


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
    moment : MomentTest, optional
        One moment of one tag; None where it could not be tried.
    untried : tuple of str
        Rungs that had to be tried and could not be.
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
    moment: MomentTest | None = None
    untried: tuple[str, ...] = ()

    @property
    def rule(self) -> str:
        """The name of the present rule: the user's own if there is one."""
        return next(n for n in self.judged if LADDER[n].kind is Kind.RULE)

    @property
    def confidence(self) -> float:
        """Share of redrawn versions with the same verdict."""
        share = self.shares.get(self.verdict, 0.0)
        flags = self.case.windows.flags
        shows_nothing = self.verdict is Verdict.WEAK_EVIDENCE
        is_hidden = shows_nothing and Flag.STATE_CHANGED in flags
        if is_hidden or Flag.FEW_WINDOWS in flags:
            return min(share, LESS_SURE)
        return share

    @property
    def is_found(self) -> bool:
        """Whether the present rule shows the attack."""
        return bool(self.ways_of(self.rule))

    @cached_property
    @np.errstate(over="ignore", invalid="ignore")
    def outcomes(self) -> dict[str, RungOutcome]:
        """The outcome of each rung by its name, in the order of the ladder."""
        outcomes = {}
        for name, judged in self.judged.items():
            best = int(judged.best[0])
            used, ways = self.scores[name][best], self.ways_of(name)
            # None where it overflows.
            largest = _tested_peaks(used, self.case.windows.length)
            peak, onset = (None if used.is_alarm else finite(one) for one in largest)
            outcomes[str(name)] = RungOutcome(
                coverage=float(judged.coverage[0]),
                calm=float(judged.median[0, best, 0]),
                limit=float(judged.rare[0, best, 0]),
                visible=bool(ways),
                ways=ways,
                p_value=float(judged.p_value[0]),
                peak=peak,
                onset=onset,
                by=tuple(filter(None, used.name.split(JOIN))),
            )
        if self.moment is not None:
            outcomes[RungName.MOMENT.value] = self._moment_outcome(self.moment)
        share, lowest = self.quiet.share()
        outcomes[RungName.QUIET.value] = RungOutcome(
            coverage=share,
            calm=1.0,
            limit=lowest,
            visible=bool(self.quiet.is_quiet()[0]),
        )
        return {name: outcomes[name] for name in LADDER if name in outcomes}

    def _moment_outcome(self, moment: MomentTest) -> RungOutcome:
        case, leading = self.case, moment.leading
        row = None if case.extreme_rows is None else int(case.extreme_rows[leading[0]])
        return RungOutcome(
            coverage=moment.ratio,
            calm=float(np.median(moment.usual.ratios)),
            limit=float(moment.usual.ratios.max()),
            visible=bool(moment.of_attack().is_shown[0]),
            p_value=moment.p_value,
            by=tuple(case.record.channels[j] for j in leading),
            n_blocks=moment.usual.n_blocks,
            row=row,
        )

    def ways_of(self, name: str) -> tuple[Way, ...]:
        """Return by which statistics a rung shows the attack; empty if it does not.

        A standing rule shows nothing. A repair shows an attack by coverage only if the
        whole ladder does: it pays for its length.
        """
        judged = self.judged[name]
        if name in self.standing:
            return ()
        pays = LADDER[name].kind is Kind.RULE or self.p_value <= LADDER_LEVEL
        pays = pays or bool(judged.is_far[0])
        ways = [Way.COVERAGE] if judged.by_coverage[0] and pays else []
        if judged.by_peak[0]:
            effects = zip(WAYS[1:], judged.peak_effects[0], strict=True)
            ways += [way for way, has_effect in effects if has_effect]
        return tuple(ways)


def _tested_peaks(score: Scores, length: int) -> tuple[float, float]:
    """Return peak and onset as they were tested, in units of the limit."""
    u, before = (
        np.minimum(one, 1e300) for one in (score.in_units[0], score.before_in_units[0])
    )
    if len(u) >= 2 * length:
        rows = u[: len(u) // length * length].reshape(-1, length)
        peak = float(np.median(largest_three(rows)))
    else:
        peak = float(np.mean(np.sort(u[:length])[-3:]))
    if len(before) >= 3:
        peak = max(peak, float(np.mean(np.sort(before)[-3:])))
    first = np.concatenate([before, u[: max(ONSET_ROWS, len(before))]])
    return peak, float(np.mean(np.sort(first)[-3:]))


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
    n_rows, n_windows = case.segment.length, len(case.windows.starts)
    rng = np.random.default_rng([seed, case.segment.start, case.segment.stop])
    # Rows of the attack drawn in circular blocks, shape (n_draws, n_rows).
    block = min(max(5, n_rows // 8), n_rows)
    starts = rng.integers(0, n_rows, size=(n_draws, -(-n_rows // block), 1))
    rows = ((starts + np.arange(block)) % n_rows).reshape(n_draws, -1)[:, :n_rows]
    rows = np.ascontiguousarray(rows)
    chosen = rng.integers(0, n_windows, size=(n_draws, n_windows))
    judged, redrawn, replaced = {}, {}, {}
    for name, found in scores.items():
        judged[name], redrawn[name], replaced[name] = _judged(
            LADDER[name], found, case.windows.length, rows, chosen
        )
    quiet = QuietTest.of(case)
    rules = [name for name in judged if LADDER[name].kind is Kind.RULE]
    standing = frozenset(n for n in rules if judged[n].median[0, 0, 0] >= STANDING)
    moment = MomentTest.of(case)
    test: list[MomentCases | None] = [None, None, None]
    if moment is not None and case.extremes is not None:
        test = [
            moment.of_attack(),
            moment.of_draws(case.extremes, rng, n_draws),
            moment.of_windows(case),
        ]
    tried = {*scores} | ({RungName.SPACE} if moment is not None else set())
    needed = [RungName.EVIDENCE, RungName.MEMORY]
    needed += [RungName.SPACE] if len(case.record.channels) > 1 else []
    untried = tuple(str(name) for name in needed if name not in tried)
    verdict_of = partial(decide, standing=standing, untried=bool(untried))
    verdicts, p_value = verdict_of(judged, quiet.is_quiet(), moment=test[0])
    of_draws, _ = verdict_of(redrawn, quiet.is_quiet(rows), moment=test[1])
    counts = np.bincount(of_draws, minlength=len(ORDER))
    order = np.argsort(-counts, kind="stable").tolist()
    is_quiet = np.zeros(n_windows, np.bool_)
    in_place, _ = verdict_of(replaced, is_quiet, moment=test[2])
    is_found = replaced[rules[0]].is_shown & (rules[0] not in standing)
    blameless = (Verdict.DETECTED, Verdict.WEAK_EVIDENCE, Verdict.UNDECIDED)
    is_blamed = ~np.isin(in_place, [ORDER.index(verdict) for verdict in blameless])
    return Judgement(
        # Rows of all attacks would not fit into memory.
        case=replace(case, stretches=()),
        verdict=ORDER[verdicts[0]],
        judged=judged,
        scores={n: [one.without_calm() for one in each] for n, each in scores.items()},
        quiet=quiet,
        standing=standing,
        p_value=float(p_value[0]),
        shares={ORDER[k]: float(counts[k] / n_draws) for k in order if counts[k]},
        found_by_chance=float(is_found.mean()),
        n_blamed=int(is_blamed.sum()),
        n_tried=n_windows,
        moment=moment,
        untried=untried,
    )


def _judged(
    rung: Rung, scores: list[Scores], length: int, rows: Ints, chosen: Ints
) -> tuple[Judged, Judged, Judged]:
    """Return the outcome of one rung for the attack and two kinds of copies.

    Parameters
    ----------
    rung, scores : Rung, list of Scores
        The rung and its variants.
    length : int
        Rows of a calm window.
    rows : array of int, shape (n_draws, n_rows)
        Redrawn rows of the attack.
    chosen : array of int, shape (n_draws, n_windows)
        Redrawn calm windows.

    Returns
    -------
    judged, redrawn, replaced : Judged
        Of the attack; of its redrawn versions, whose onset is that of the attack
        (redrawn rows have no first ones); of each calm window in its place.
    """
    of_attack, of_draws, of_windows = [], [], []
    for score in scores:
        u, calm_u = score.in_units
        before, calm_before = score.before_in_units
        of = partial(statistics, is_alarm=score.is_alarm)
        widen = partial(with_margin, length=length, is_alarm=score.is_alarm)
        own, redrawn = of(u[None], length), of(u[None], length, draws=rows)
        if len(u) >= 2 * length and not score.is_alarm:
            # Longer than its windows: the median piece of their length.
            pieces = u[: len(u) // length * length].reshape(-1, length)
            own[0, 1] = np.median(of(pieces, length)[:, 1])
            redrawn[:, 1] = np.minimum(redrawn[:, 1], own[0, 1])
        own = widen(own, u[None], before[None])
        if len(before) >= 3 and not score.is_alarm:
            alone = np.full((1, len(WAYS)), -np.inf)
            peak = widen(alone, u[None], before[None])[0, 1]
            redrawn[:, 1] = np.maximum(redrawn[:, 1], peak)
        redrawn[:, 2] = own[0, 2]
        of_attack.append(own[0])
        of_draws.append(redrawn)
        of_windows.append(widen(of(calm_u, length), calm_u, calm_before))
    calm, n_windows = np.array(of_windows), chosen.shape[1]
    rest, own_place = np.arange(n_windows - 1), np.arange(n_windows)[:, None]
    others = rest + (rest >= own_place)
    test = partial(
        judge,
        effect=rung.effect,
        has_peaks=rung.has_peaks,
        is_alarm=scores[0].is_alarm,
    )
    outcomes = (
        test(np.array(of_attack)[None], calm[None]),
        test(
            np.array(of_draws).transpose(1, 0, 2),
            calm[:, chosen].transpose(1, 0, 2, 3),
        ),
        test(calm.transpose(1, 0, 2), calm[:, others].transpose(1, 0, 2, 3)),
    )
    is_energy = rung.kind is Kind.RULE or rung.name == RungName.EVIDENCE
    if scores[0].is_alarm or not is_energy:
        return outcomes
    u, calm_u = scores[0].in_units
    middle, usual = middle_of(np.sort(u)[None]), middle_of(np.sort(calm_u))
    peaks = calm[0, :, 1]
    n_draws = len(chosen)
    given = (
        (middle, usual[None], of_attack[0][1:2], peaks[None]),
        (middle.repeat(n_draws), usual[chosen], of_draws[0][:, 1], peaks[chosen]),
        (usual, usual[others], peaks, peaks[others]),
    )
    judged, redrawn_, replaced = (
        one.with_far(*far_outside(*each))
        for one, each in zip(outcomes, given, strict=True)
    )
    return judged, redrawn_, replaced
