"""The one decision: which rule to take, whether to take one at all, and in what words.

It rests on commissioning rows, but for a veto (`after_later_rows`). Cost: rules made at
several times, each judged on the commissioning rows that follow. Sight: the smallest
step of a tag that a rule sees, in residual space. The judged rows, with their labels,
say what came true, and rule out what costs more than twice the budget there.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from sightline.audit.record import audit_in
from sightline.data.arrays import Bools, Floats, Ints
from sightline.data.row_tables import JoinedRows, Rows, gather_rows, kept_rows
from sightline.data.stream import ResidualStream
from sightline.energy.energy import leading_channels
from sightline.metrics.alarm_load import (
    BY_CHANCE,
    DAY_S,
    AlarmLoad,
    AlarmMetrics,
    AttackAlarms,
)
from sightline.rules.judging import (
    IN_USE,
    MOVES,
    ChoiceOutcome,
    CommissioningFacts,
    JudgedRows,
    RuleChoice,
    RuleLine,
    RuleOutcome,
    SetAction,
    SetAside,
    SetChoice,
    run_family,
)
from sightline.rules.limits import LEAST_ALARMS, SWING, Budget, clusters_of
from sightline.rules.making import AttackFreePeriod, Fitting, MadeRule, RuleMaker
from sightline.rules.normal import raw_rows
from sightline.rules.rule import LinearView, Memory, Rule, RuleRun, View
from sightline.text import (
    duration,
    mean_count,
    names,
    number,
    per_day,
    plural,
    share,
)

# Fewer alarms than this support no rate: they are counted.
FEW: int = 10
# In alarm for this share of calm time, a rule stands.
STANDS: float = 0.5
# The rule that is taken unless another has a clear lead in value.
USUAL: Final = "energy"
LEAD: Final = 1.25
# Rules are made at these shares of the commissioning rows, and judged on what follows.
ORIGINS: Final = (0.35, 0.5, 0.65)
# Kept with tolerance: so many times the alarms a day, and so many times the share.
TOLERANCE: Final = (1.5, 2.0)
# A chance and a sight below these are conditions,
LEAST_CHANCE: Final = 0.5
LEAST_SIGHT: Final = 0.25
# and where every rule has a larger step (in spreads of train) none is taken.
MOST_STEP: Final = 10.0
# A model is stale if a usual row has so many times the energy of a usual row of train.
STALE: Final = 10.0
# An episode that peaks at so many limits, in amplitude, is unexplained,
FAR: Final = 5.0
# unless such episodes hold more than this share of the rows: then nothing is left out.
MOST_FAR: Final = 0.05
ROUNDS: Final = 3
# So much more time around attacks must not decide.
GUARD_S: Final = 60.0
# Sight: steps of this length, at so many places, each with so many rows before it.
STEP_S: Final = 900.0
N_PLACES: Final = 40
ROWS_BEFORE: Final = 90
# Within this factor of a tag's range sight falls from 1 to 0, in logarithms.
SIGHT_RANGE: Final = 100.0
# A rule in use costs too much at so many budgets.
MOST_COST: Final = 2.0
# Attacks that are named before the rest is counted.
MOST_NAMED: Final = 8
PRESENT_WORDS = {
    "p99": "the p99 rule",
    "own": "your own rule",
    IN_USE: "the rule in use",
}


def load_words(load: AlarmLoad) -> str:
    """Return what alarms cost: a count or a rate, and the share of time.

    Examples
    --------
    >>> load_words(AlarmLoad(alarms=2, days=1.6, alarms_per_day=1.25,
    ...                      share_of_time=0.027))
    '2 alarms in 1.6 days (2.7% of time)'
    """
    number_of, _, span = count_words(load).partition(" ")
    noun = "alarm" if number_of == "1" else "alarms"
    return f"{number_of} {noun} {span} ({share(load.share_of_time, 1)} of time)"


def count_words(load: AlarmLoad) -> str:
    """Return how many alarms there are: a rate, or the count where there are few.

    An alarm that never stops has a rate however short the record is.

    Examples
    --------
    >>> from dataclasses import replace
    >>> few = AlarmLoad(alarms=2, days=1.6, alarms_per_day=1.25, share_of_time=0.027)
    >>> count_words(few)
    '2 in 1.6 days'
    >>> count_words(replace(few, alarms=145, alarms_per_day=90.6))
    '91 a day'
    >>> count_words(replace(few, days=None, alarms_per_day=None))
    '2 in total'
    """
    if load.alarms_per_day is None or load.days is None:
        return f"{load.alarms:,} in total"
    if load.alarms < FEW and load.share_of_time < STANDS:
        days = (
            f"{load.days:.1f} days" if load.days >= 0.1 else duration(load.days * DAY_S)
        )
        return f"{load.alarms} in {days}"
    return f"{per_day(load.alarms_per_day)} a day"


def false_alarm_words(rule: AlarmMetrics) -> str:
    """Return the false alarms of a rule in words, as every table shows them.

    Results of earlier versions have no episodes: their runs are shown and called so.
    """
    if rule.load is not None:
        return count_words(rule.load)
    if rule.false_alarms_per_day is None:
        return f"{plural(rule.false_positive_segments, 'run')} in total"
    return f"{per_day(rule.false_alarms_per_day)} runs a day"


def caught_words(attacks: AttackAlarms) -> str:
    """Return how many attacks are caught, with chance."""
    return (
        f"{attacks.caught} of {plural(attacks.n_attacks, 'attack')} "
        f"({mean_count(attacks.caught_by_chance)} by chance)"
    )


def is_over(load: AlarmLoad, facts: CommissioningFacts) -> bool:
    """Return whether alarms cost more than the budget allows."""
    return is_far_over(load, facts.accepted, 1.0)


def is_far_over(load: AlarmLoad, budget: Budget, times: float = MOST_COST) -> bool:
    """Return whether alarms cost more than so many budgets, by count or by time.

    In figures as they are shown: 1.04% of time is 1.0%.
    """
    is_many = (load.alarms_per_day or 0.0) > times * budget.per_day
    return is_many or round(load.share_of_time, 3) > times * budget.share


# --- Unexplained episodes -------------------------------------------------------------


def far_outside(maker: RuleMaker) -> list[SetAside]:
    """Return the episodes among commissioning rows that peak far above a limit.

    The limit is that of each member without memory; a handful of peaks does not set it.
    What somebody reviewed and called normal is no such episode.
    """
    fitting, found = maker.fitting, np.zeros(maker.fitting.period.n_rows)
    for k, member in enumerate(fitting.members):
        if member.memory is Memory.NONE and member.view is not View.SCORE:
            over = fitting.traces[:, k] / maker.alone(k).value
            view = fitting.views[member.view]
            is_energy = view.bounds is not None or member.largest
            np.maximum(found, np.sqrt(over) if is_energy else over, out=found)
    places = np.flatnonzero(found > FAR)
    if not len(places):
        return []
    starts, lasts = clusters_of(places, fitting.period.breaks, maker.delays.off)
    normal = np.append(0, np.cumsum(fitting.period.normal))
    spans = [
        (start, last + 1)
        for start, last in zip(starts.tolist(), lasts.tolist(), strict=True)
        if normal[last + 1] == normal[start]
    ]
    peaks = [start + int(np.argmax(found[start:stop])) for start, stop in spans]
    rows = gather_rows(fitting.period.rows, np.array(peaks, np.int64))
    tags = leading_channels(rows, fitting.normal.reference, fitting.normal.names)
    return [
        SetAside(start=start, stop=stop, peak=float(found[peak]), tags=leading)
        for (start, stop), peak, leading in zip(spans, peaks, tags, strict=True)
    ]


def rows_of(episodes: Sequence[SetAside], n_rows: int, after: int) -> Bools:
    """Return the rows of episodes, each with some rows after it."""
    rows = np.zeros(n_rows, np.bool_)
    for one in episodes:
        rows[one.start : one.stop + after] = True
    return rows


# --- Cost -----------------------------------------------------------------------------


def chances_kept(maker: RuleMaker, names: Sequence[str]) -> dict[str, float]:
    """Return the chance that each rule keeps the budget, with `TOLERANCE`.

    Rules are made at `ORIGINS` and judged on the commissioning rows that follow, as the
    judged rows judge them: on the record as it came, incidents and all. Where too few
    rows come before every origin, the rows that set the limits must do.
    """
    period, budget = maker.fitting.period, maker.budget
    chances: dict[str, list[float]] = {name: [] for name in names}
    for origin in ORIGINS:
        row = int(origin * period.n_rows)
        first = period.without(np.arange(period.n_rows) >= row)
        if budget.per_day * first.days < LEAST_ALARMS:
            continue
        fitting = Fitting(
            maker.fitting.normal, [m.name for m in maker.fitting.members], first
        )
        early = RuleMaker(fitting, budget, maker.delays)
        rules = {name: early.limited(name)[0] for name in names}
        rows, judged, score = rows_since(period, row)
        runs = run_family(early.family, rules, rows, judged, score)
        for name, run in runs.items():
            chances[name].append(_chance_on(run, judged, budget))
    return {
        name: float(np.mean(found)) if found else _chance_at_once(maker, name)
        for name, found in chances.items()
    }


def rows_since(
    period: AttackFreePeriod, row: int
) -> tuple[Rows, JudgedRows, Floats | None]:
    """Return the records from a commissioning row on, and the own score.

    Between attack-free rows a record has the others too: a rule follows them, remembers
    them, and may stand long after.
    """
    tables, is_free, breaks, scores = [], [np.zeros(0, np.bool_)], [0], []
    for one in period.without(np.arange(period.n_rows) < row).tables:
        rows, own, begins = one.rows, one.score, one.breaks
        place = np.arange(rows.n_rows)
        if one.record is not None and one.index is not None:
            first, last = int(one.index[0]), int(one.index[-1])
            record, every = one.record, np.arange(one.record.test.n_rows)
            rows = kept_rows(raw_rows(record.test), (first <= every) & (every <= last))
            own = None if record.score is None else record.score[first : last + 1]
            begins, place = record.test_breaks - first, one.index - first
        offset = sum(len(part) for part in is_free)
        breaks += [offset, *(begins[(begins > 0) & (begins < rows.n_rows)] + offset)]
        is_free.append(np.isin(np.arange(rows.n_rows), place))
        tables.append(rows)
        scores += [] if own is None else [own]
    judged = JudgedRows(
        first=0,
        is_attack_free=np.concatenate(is_free),
        attacks=(),
        breaks=np.unique(breaks),
        step_s=period.step_s,
    )
    has_score = len(scores) == len(tables)
    joined = tables[0] if len(tables) == 1 else JoinedRows(tuple(tables))
    return joined, judged, np.concatenate(scores) if has_score else None


def _chance_on(run: RuleRun, judged: JudgedRows, budget: Budget) -> float:
    """Return the chance that a rule keeps a budget, by what it says of some rows.

    Time in alarm after an incident counts here from the first minute: a rule that
    stands after one incident for an hour stands for longer after another.
    """
    load = judged.load(
        run.episodes, run.rule.delays, run.exceeds, run.n_out > 0, run.standing
    )
    free = judged.is_attack_free
    day = (np.flatnonzero(free) * judged.step_s // DAY_S).astype(np.int64)
    # Not every day has attack-free rows.
    day = np.unique(day, return_inverse=True)[1]
    in_alarm = (run.episodes.rows | run.standing)[free].astype(float)
    return chance_kept(load, np.bincount(day, in_alarm), np.bincount(day), budget)


def _chance_at_once(maker: RuleMaker, name: str) -> float:
    """Return the chance from the rows that set the limit."""
    made = maker.make(name).limit
    days = maker.fitting.period.days
    load = AlarmLoad(
        alarms=round(made.alarms),
        days=days,
        alarms_per_day=made.alarms / days,
        share_of_time=made.share,
    )
    return chance_kept(load, np.array([made.share]), np.ones(1), maker.budget)


def chance_kept(
    load: AlarmLoad, in_alarm: Floats | Ints, rows: Floats | Ints, budget: Budget
) -> float:
    """Return the chance that a rule keeps a budget with tolerance, given some rows.

    The rate has a gamma law with shape alarms / 2 + 1/2 and exposure days / 2; the
    share of time is that of days drawn again.

    Parameters
    ----------
    load : AlarmLoad
        What it costs on these rows.
    in_alarm, rows : array of shape (n_days,)
        Rows in alarm of each day, and all rows.
    budget : Budget
        Alarms a day and share of time.

    Examples
    --------
    >>> load = AlarmLoad(alarms=60, days=10.0, alarms_per_day=6.0, share_of_time=0.002)
    >>> round(chance_kept(load, np.full(10, 2), np.full(10, 1000), Budget()), 2)
    0.99
    """
    from scipy.special import gammainc

    most = TOLERANCE[0] * budget.per_day * (load.days or 0.0)
    rate = float(gammainc(load.alarms / 2 + 0.5, most / 2))
    drawn = np.random.default_rng(0).integers(0, len(rows), (400, len(rows)))
    shares = in_alarm[drawn].sum(axis=1) / rows[drawn].sum(axis=1)
    return rate * float(np.mean(shares <= TOLERANCE[1] * budget.share))


# --- Sight ----------------------------------------------------------------------------


def ranges_of(stream: ResidualStream) -> Floats:
    """Return how far each tag moves in train, in units of its residual.

    The range of the reading where the audit and the residual's scale are known; else
    that of the residual.
    """
    low, high = np.full(stream.p, np.inf), np.full(stream.p, -np.inf)
    for chunk in stream.train.chunks():
        low = np.minimum(low, np.min(chunk, axis=0))
        high = np.maximum(high, np.max(chunk, axis=0))
    ranges = high - low
    audit, scales = audit_in(stream.meta), stream.meta.get("scale")
    if audit is not None and isinstance(scales, Sequence) and len(scales) == stream.p:
        facts = {tag.name: tag.train for tag in audit.recording.tags}
        for j, name in enumerate(stream.channels):
            one = facts.get(name)
            if one is not None and one.lowest is not None and one.highest is not None:
                ranges[j] = (one.highest - one.lowest) / float(scales[j])
    return np.asarray(ranges, np.float64)


def sight_of(
    rule: Rule, fitting: Fitting, places: Floats, ranges: Floats
) -> tuple[float, float]:
    """Return the sight of a rule, and its step; see `RuleLine`.

    Parameters
    ----------
    rule : Rule
        The rule.
    fitting : Fitting
        Its views, and spreads of train.
    places : array of shape (n_places, ROWS_BEFORE, p)
        Attack-free rows, each place with the rows before it.
    ranges : array of shape (p,)
        Of each tag; 0 where it is constant in train.
    """
    n, back, p = places.shape
    sizes = np.full((n, p), np.inf)
    is_in_alarm = np.zeros(n, np.bool_)
    lasts = max(1, round(STEP_S / fitting.period.step_s))
    for member in rule.members:
        view = rule.view_of(member)
        if view is None or member.memory not in (Memory.NONE, Memory.AVERAGE):
            continue
        seen, gain = view.of(places.reshape(-1, p)).reshape(n, back, -1), 1.0
        base = seen[:, -1]
        if member.memory is Memory.AVERAGE:
            gain = 1 - (1 - member.weight) ** lasts
            base = np.zeros_like(base)
            for k in range(back):
                base = base + member.weight * (seen[:, k] - member.centre - base)
        caps = member.levels * member.limit * rule.limit
        found, is_over = _smallest_steps(view, caps, base, gain)
        sizes[:, view.order] = np.minimum(sizes[:, view.order], found)
        is_in_alarm |= is_over
    sizes[is_in_alarm] = np.inf  # an alarm that stands anyway sees nothing
    moves = ranges > 0
    if not moves.any():
        return 0.0, np.inf
    part = np.maximum(np.median(sizes, axis=0)[moves] / ranges[moves], 1e-9)
    sight = np.clip(-np.log(part) / np.log(SIGHT_RANGE), 0.0, 1.0)
    step = np.median((lasting_steps(rule) / fitting.normal.spread)[moves])
    return float(sight.mean()), float(step)


def lasting_steps(rule: Rule) -> Floats:
    """Return the smallest lasting shift of each channel that a rule sees.

    Alone, in units of the residual; infinite where no size is seen.
    """
    p = len(rule.channels)
    steps = np.full((1, p), np.inf)
    for member in rule.members:
        view = rule.view_of(member)
        if view is None or member.memory not in (Memory.NONE, Memory.AVERAGE):
            continue
        base = np.zeros_like(view.of(np.zeros((1, p))))
        caps = member.levels * member.limit * rule.limit
        lasting, _ = _smallest_steps(view, caps, base, 1.0)
        steps[:, view.order] = np.minimum(steps[:, view.order], lasting)
    return np.asarray(steps[0])


def _smallest_steps(
    view: LinearView, caps: Floats, base: Floats, gain: float
) -> tuple[Floats, Bools]:
    """Return the smallest step of each channel to a cap, and which rows are above it.

    Mean over both signs; in closed form, since a view is linear and an energy a square.
    """
    effect = gain * view.weights
    if view.bounds is None:
        is_over = np.asarray((np.abs(base) > caps).any(axis=1))
        sizes = np.zeros((len(base), len(effect)))
        for sign in (1.0, -1.0):
            for j, row in enumerate(sign * effect):
                reached = np.abs(row) > 1e-12
                aim = np.where(row > 0, caps, -caps)[reached] - base[:, reached]
                size = np.maximum(aim / row[reached], 0.0).min(axis=1, initial=np.inf)
                sizes[:, j] += size / 2
        return sizes, is_over
    sizes = np.full((len(base), len(effect)), np.inf)
    is_over = np.zeros(len(base), np.bool_)
    edges = view.bounds.tolist()
    for cap, start, stop in zip(caps, edges[:-1], edges[1:], strict=True):
        inside, own = effect[:, start:stop], base[:, start:stop]
        gap = np.maximum(cap - 0.5 * np.square(own).sum(axis=1), 0.0)[:, None]
        is_over |= gap[:, 0] <= 0
        square = 0.5 * np.square(inside).sum(axis=1)
        along = own @ inside.T
        with np.errstate(divide="ignore", invalid="ignore"):
            # The mean over both signs of the positive root of a square.
            size = np.sqrt(along**2 + 4 * square * gap) / (2 * square)
        sizes = np.minimum(sizes, np.where(square > 1e-24, size, np.inf))
    return sizes, is_over


def places_of(period: AttackFreePeriod) -> Floats:
    """Return rows at `N_PLACES` places, each with the rows before it."""
    rows = period.tables[-1].rows
    back = min(ROWS_BEFORE, rows.n_rows)
    at = np.linspace(back - 1, rows.n_rows - 1, N_PLACES).astype(np.int64)
    wanted = at[:, None] + np.arange(1 - back, 1)
    taken: Ints = np.unique(wanted)
    return gather_rows(rows, taken)[np.searchsorted(taken, wanted)]


# --- The decision ---------------------------------------------------------------------


def lines_of(
    ranges: Floats,
    maker: RuleMaker,
    rules: Mapping[str, MadeRule],
    rules_with: Mapping[str, Rule],
    limits_guarded: Mapping[str, float] | None = None,
) -> tuple[RuleLine, ...]:
    """Return what speaks for each rule; the detector's own score is never chosen.

    `ranges` are those of the tags (`ranges_of`); `rules_with` the rules with episodes
    that were left out, if there are any; `limits_guarded` the limits without
    `GUARD_S` around attacks, where these hold rows that are used.
    """
    names = [name for name, made in rules.items() if not made.rule.needs_score]
    chances = chances_kept(maker, names)
    places = places_of(maker.fitting.period)
    lines = []
    for name in names:
        made = rules[name]
        ratio = made.rule.limit / (limits_guarded or {}).get(name, made.rule.limit)
        sight, step = sight_of(made.rule, maker.fitting, places, ranges)
        other = rules_with.get(name)
        lines.append(
            RuleLine(
                name=name,
                limit=made.rule.limit,
                limit_with=None if other is None else other.limit,
                chance_kept=chances[name],
                sight=sight,
                step=min(step, 1e12),
                swing=min(made.limit.swing or 1.0, 1e12),
                guard=min(max(ratio, 1 / ratio), 1e12),
                moves=None if other is None else _moves(made.rule, other),
            )
        )
    return tuple(lines)


def _moves(rule: Rule, other: Rule) -> float:
    """Return by how much limits are higher in another rule; see `RuleLine.moves`."""
    found = []
    for one, two in zip(rule.members, other.members, strict=True):
        view = rule.view_of(one)
        ratio = float(np.median(two.levels / one.levels))
        ratio *= two.limit * other.limit / (one.limit * rule.limit)
        is_energy = view is not None and (view.bounds is not None or one.largest)
        found.append(ratio**0.5 if is_energy else ratio)
    return float(max(found, key=lambda ratio: max(ratio, 1 / ratio)))


def choose_rule(
    lines: Sequence[RuleLine],
    episodes: Sequence[SetAside],
    budget: Budget,
    *,
    stale: float,
    far_share: float = 0.0,
) -> RuleChoice:
    """Return the decision on some rules.

    Parameters
    ----------
    lines : sequence of RuleLine
        What speaks for each rule; at least one.
    episodes : sequence of SetAside
        Unexplained episodes that were left out.
    budget : Budget
        For which limits were set.
    stale : float
        Energy of a usual commissioning row over that of a usual row of train.
    far_share : float
        Share of rows in episodes so many that none was left out; else 0.
    """
    least = min(line.step for line in lines)
    fit = [line for line in lines if line.sight > 0 and least <= MOST_STEP]
    firm = [line for line in fit if line.is_firm]
    best = _best(firm or fit or lines)

    def choice(outcome: ChoiceOutcome, sentence: str) -> RuleChoice:
        return RuleChoice(
            outcome=outcome,
            rule=best.name,
            sentence=sentence,
            lines=tuple(lines),
            episodes=tuple(episodes),
        )

    sees = any(x.chance_kept >= LEAST_CHANCE and x.sight >= LEAST_SIGHT for x in lines)
    if stale >= STALE and not sees:
        return choice(
            ChoiceOutcome.TRAIN_AGAIN,
            "The model no longer describes the plant: a usual row is "
            f"{number(stale)} times as far off as in train, in energy. Train on later "
            "rows.",
        )
    if not fit:
        return choice(
            ChoiceOutcome.TRAIN_AGAIN,
            "No rule yet: the smallest lasting step of a tag that any rule would see "
            f"is {number(least)} spreads ({MOST_STEP:.0f} allowed). Train on later "
            "rows.",
        )
    if far_share:
        return choice(
            ChoiceOutcome.REVIEW_FIRST,
            "The commissioning rows have no common normal: episodes far outside hold "
            f"{share(far_share, 1)} of the time. Look at them first.",
        )
    if not firm:
        return choice(ChoiceOutcome.REVIEW_FIRST, _why_not_firm(best, budget))
    if not best.is_clear:
        return choice(ChoiceOutcome.REVIEW_FIRST, _what_moves(best, len(episodes)))
    return choice(*_taken(best, budget))


def _taken(line: RuleLine, budget: Budget) -> tuple[ChoiceOutcome, str]:
    """Return the outcome where a rule is taken, and the sentence."""
    text = f"rule {line.name!r}, limit {number(line.limit)}, for {budget}"
    if but := _conditions(line):
        return ChoiceOutcome.CONDITIONS, f"Take {text}, but {but}."
    kept = share(line.chance_kept)
    return ChoiceOutcome.TAKE, f"Take {text}: its chance to keep the budget is {kept}."


def _conditions(line: RuleLine) -> str:
    """Return what to know of a rule before it is taken; empty if nothing."""
    parts = []
    if line.chance_kept < LEAST_CHANCE:
        parts.append(
            f"its chance to keep the budget is {share(line.chance_kept)}, as far as "
            "rules made on the first of these rows kept it on the rest"
        )
    if line.sight < LEAST_SIGHT:
        parts.append("of a usual tag it sees no step below half of its range")
    return " and ".join(parts)


def _what_moves(line: RuleLine, n_episodes: int) -> str:
    """Return what follows from episodes that were left out."""
    are = "it is an incident" if n_episodes == 1 else "they are incidents"
    text = f"Look at {plural(n_episodes, 'episode')} first: if {are}, the "
    # The limit is a factor of the levels of tags, and in a joined rule of its members.
    own, other = line.limit, line.limit_with or line.limit
    if 1 / MOVES <= other / own <= MOVES:
        return (
            f"{text}limits of {line.name!r} stay as they are, else that of a usual "
            f"tag is {number(line.moves)} times as high (in amplitude)."
        )
    return f"{text}limit of {line.name!r} is {number(own)}, else {number(other)}."


def _why_not_firm(line: RuleLine, budget: Budget) -> str:
    """Return on what the limit of a rule hangs."""
    if line.guard > line.swing:
        return (
            f"The labels decide: if {GUARD_S:.0f} s more before and after each attack "
            f"are left out, the limit of {line.name!r} changes {line.guard:.3g}-fold. "
            "Check when attacks begin and end, or state the slop of their labels."
        )
    low, high = (f"{number(end * budget.per_day)}" for end in SWING)
    return (
        f"A few peaks decide: between {low} and {high} alarms a day the limit of "
        f"{line.name!r} changes {line.swing:.3g}-fold. Look at the strongest episodes "
        "first."
    )


def after_later_rows(
    choice: RuleChoice, outcomes: Sequence[RuleOutcome], budget: Budget
) -> RuleChoice:
    """Return the decision after the judged rows: they choose no rule, but rule one out.

    A rule that costs more than `MOST_COST` budgets there is never advised. Then
    `USUAL`, which needs no lead, is taken if it costs less; else no rule is.
    """
    rows = {row.name: row for row in outcomes}
    if not choice.outcome.has_rule or not is_far_over(rows[choice.rule].load, budget):
        return choice
    over, why = rows[choice.rule].load, _why_over(rows[choice.rule], budget)
    cost = f"{load_words(over)}, more than twice the budget"
    usual = next((one for one in choice.lines if one.name == USUAL), None)
    has_usual = usual is not None and usual.may_be_taken and choice.rule != USUAL
    if usual and has_usual and not is_far_over(rows[USUAL].load, budget):
        outcome, sentence = _taken(usual, budget)
        sentence += (
            f" On judged rows {choice.rule!r}, of more value, makes {cost}: {why}."
        )
        return replace(choice, outcome=outcome, rule=USUAL, sentence=sentence)
    also = f", and {USUAL!r} costs too much as well" if has_usual else ""
    sentence = f"No rule yet: on judged rows {choice.rule!r} makes {cost}{also}: {why}."
    return replace(choice, outcome=ChoiceOutcome.NO_RULE, sentence=sentence)


def _why_over(outcome: RuleOutcome, budget: Budget) -> str:
    """Return why a rule costs too much on judged rows."""
    if outcome.questions:
        return (
            "nobody answers on these rows, and an alarm about a tag that has moved "
            "stands until somebody says that it is normal "
            f"({plural(outcome.questions, 'question')}; `sightline watch` asks them)"
        )
    load = outcome.load
    if (load.alarms - load.standing) > MOST_COST * budget.per_day * (load.days or 0.0):
        return "the plant has changed; set limits on newer attack-free rows"
    if outcome.attacks.n_attacks:
        return "some alarms stand, as where the plant has not come back after an attack"
    return "some alarms stand"


def choose_set(
    present: RuleOutcome,
    chosen: RuleOutcome,
    together: AlarmLoad,
    budget: Budget,
    steps: tuple[float, float] | None = None,
) -> SetChoice:
    """Return whether to keep the rule in use, to add the chosen one, or to replace it.

    It is replaced if nothing that it catches is lost, and something is gained or saved,
    or smaller steps are seen; else the chosen one is added if it gains something and
    both together cost at most `MOST_COST` budgets. A rule in use that costs more, or
    catches no more than chance, gives way all the same, and what is lost is said first.
    One that costs more is never kept: where the chosen one is no better it is neither,
    nor where only its time in alarm is too much and most that it catches would be lost.

    Parameters
    ----------
    present, chosen : RuleOutcome
        The rule in use and the chosen one, on the same rows.
    together : AlarmLoad
        What both cost together.
    budget : Budget
        Alarms a day and share of time.
    steps : pair of float, optional
        The smallest lasting step that the rule in use and the chosen one see.
    """
    before, after = present.attacks.which, chosen.attacks.which
    lost = tuple(one for one in before if one not in after)
    gained = tuple(one for one in after if one not in before)
    costs = [
        ((load.alarms_per_day or 0.0), load.share_of_time)
        for load in (present.load, chosen.load)
    ]
    saves = costs[0] != costs[1] and all(b <= a for a, b in zip(*costs, strict=True))
    fits = [not is_far_over(load, budget) for load in (present.load, chosen.load)]
    words, name = PRESENT_WORDS[present.name], f"rule {chosen.name!r}"
    is_chance = _is_chance(present) and not _is_chance(chosen)
    ratio = 1.0 if steps is None else steps[1] / max(steps[0], 1e-12)
    action, sees = SetAction.KEEP, gained or not fits[0] or ratio < 1 / MOVES
    if not lost and (saves or (fits[1] and sees)):
        action = SetAction.REPLACE
        what = f"nothing that is caught now is lost{_also(' and', gained, 'gained')}"
        if not chosen.attacks.n_attacks:
            what = "no attack is known, so nothing says what would be lost"
        sentence = f"Replace {words} by {name}: {what}."
    elif gained and not is_far_over(together, budget) and not is_chance:
        action = SetAction.ADD
        alone = f" alone it would lose {_attacks(lost)}, and" if lost else ""
        n_caught = chosen.attacks.caught + len(lost)
        sentence = (
            f"Add {name} to {words}:{alone} it gains {_attacks(gained)}; both together "
            f"catch {n_caught} of {plural(chosen.attacks.n_attacks, 'attack')} at "
            f"{load_words(together)}."
        )
    elif lost and (is_chance or (not fits[0] and (fits[1] or saves))):
        action, sentence = _with_losses(present, chosen, lost, gained, budget)
    elif not fits[0]:
        action = SetAction.NEITHER
        sentence = (
            f"Neither {words} nor {name} is within {MOST_COST:.0f} budgets: they make "
            f"{load_words(present.load)} and {load_words(chosen.load)}. Set a limit on "
            "newer attack-free rows, or train the detector again."
        )
    else:
        why = _why_kept(chosen, lost, gained, together, budget)
        sentence = f"Keep {words} rather than {name}: {why}."
    if steps is not None and not 1 / MOVES <= ratio <= MOVES:
        sentence += (
            f" The smallest lasting step that {name} sees is {steps[1]:.3g} spreads, "
            f"that of {words} {steps[0]:.3g}."
        )
    return SetChoice(
        action=action, lost=lost, gained=gained, together=together, sentence=sentence
    )


def _with_losses(
    present: RuleOutcome,
    chosen: RuleOutcome,
    lost: Sequence[str],
    gained: Sequence[str],
    budget: Budget,
) -> tuple[SetAction, str]:
    """Return what to do where the rule in use gives way at a loss, and the sentence.

    Where its alarms are few enough, it stands for less than `STANDS` of the time and
    most of what it catches would be lost, people decide: a higher budget keeps it.
    """
    words, name, load = (
        PRESENT_WORDS[present.name],
        f"rule {chosen.name!r}",
        present.load,
    )
    said = f"A{_attacks(lost)[1:]} would be lost{_also(' and', gained, 'gained')}"
    why = f"makes {_too_much(load, budget)}"
    is_chance = _is_chance(present)
    if is_chance and not _is_chance(chosen):
        why = f"catches no more than chance, {caught_words(present.attacks)}"
    few = (load.alarms_per_day or 0.0) <= MOST_COST * budget.per_day
    if few and not is_chance and 2 * len(lost) > len(present.attacks.which):
        part = math.ceil(100 * round(load.share_of_time, 3)) / 100
        rate = max(budget.per_day, math.ceil(load.alarms_per_day or 0.0))
        most = Budget(per_day=rate, share=part)
        if part < STANDS:
            return SetAction.NEITHER, (
                f"{said} with {name} in place of {words}, most of what is caught now, "
                f"and {words} {why}. To keep it, allow {most}; to catch less with less "
                "time in alarm, take the other."
            )
    return SetAction.REPLACE, (
        f"{said}: replace {words} by {name} all the same, for {words} {why}."
    )


def _is_chance(outcome: RuleOutcome) -> bool:
    """Return whether a rule catches no more than chance."""
    p_value = outcome.attacks.p_value
    return p_value is not None and p_value > BY_CHANCE


def _too_much(load: AlarmLoad, budget: Budget) -> str:
    """Return a load that is far over a budget, and which part of the budget."""
    part = f"{share(budget.share)} of time"
    if (load.alarms_per_day or 0.0) > MOST_COST * budget.per_day:
        part = f"{budget.per_day:.3g} a day"
    return f"{load_words(load)}, more than twice {part}"


def _why_kept(
    chosen: RuleOutcome,
    lost: Sequence[str],
    gained: Sequence[str],
    together: AlarmLoad,
    budget: Budget,
) -> str:
    """Return why the rule in use is kept."""
    if lost and gained:
        return (
            f"it would lose {_attacks(lost)} and gain {_attacks(gained)}, and both "
            f"together make {_too_much(together, budget)}"
        )
    if lost:
        return f"it would lose {_attacks(lost)} and gain nothing"
    if gained:
        return f"to gain {_attacks(gained)} it makes {load_words(chosen.load)}"
    if not chosen.attacks.n_attacks:
        return "no attack is known, and it would save nothing"
    return "it would catch the same and save nothing"


def _attacks(ids: Sequence[str]) -> str:
    """Return attacks by their names."""
    return f"{'attack' if len(ids) == 1 else 'attacks'} {names(list(ids), MOST_NAMED)}"


def _also(link: str, ids: Sequence[str], done: str) -> str:
    verb = "is" if len(ids) == 1 else "are"
    return f"{link} {_attacks(ids)} {verb} {done}" if ids else ""


def _best(lines: Sequence[RuleLine]) -> RuleLine:
    """Return the line of the largest value, if it has a clear lead over `USUAL`."""
    best = max(lines, key=lambda line: line.value)
    usual = next((line for line in lines if line.name == USUAL), best)
    return best if best.value > LEAD * usual.value else usual


def advice(facts: CommissioningFacts) -> str:
    """Return the decision, and the rule in use and the chosen one on judged rows.

    The same text stands in the terminal, on the page, in ``evaluation.json`` and in
    ``rule.json``. Results of earlier versions keep their own.
    """
    if facts.choice is None and facts.advice:
        return facts.advice
    present, chosen = facts.present[-1], facts.row(facts.chosen)
    sentence = f"You chose rule {facts.chosen!r}, made for {facts.budget}."
    parts = [sentence if facts.choice is None else facts.choice.sentence]
    in_set = facts.set_choice
    if in_set and not in_set.action.changes and facts.choice is not None:
        parts = [in_set.sentence, f"To change it all the same: {parts[0]}"]
    if not facts.judged_days:
        parts.append("No later rows were left to judge it on.")
        return facts.said(" ".join(parts))
    words = PRESENT_WORDS[present.name]
    parts.append(
        f"On {facts.judged_days:.1f} {facts.later_days} rule {chosen.name!r} makes "
        f"{load_words(chosen.load)}{_caught(chosen)}; {words} makes "
        f"{load_words(present.load)}{_caught(present)}."
    )
    if in_set and in_set.sentence not in parts:
        parts.append(in_set.sentence)
    return facts.said(" ".join(parts))


def _caught(outcome: RuleOutcome) -> str:
    """Return what a rule catches, to follow what it costs; empty without attacks."""
    if not outcome.attacks.n_attacks:
        return ""
    return f" and catches {caught_words(outcome.attacks)}"
