"""Commissioning: rules made for a budget on calm rows, and judged on later ones.

*Commissioning rows* are calm rows before the split that the detector was not fitted on;
*judged rows* are all later ones, which no rule has seen.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Final, Literal

import numpy as np

from sightline.audit.record import is_own_plant
from sightline.data.arrays import Bools
from sightline.data.record_parts import outside
from sightline.data.recording import seconds
from sightline.data.row_tables import kept_rows, make_calls
from sightline.data.segments import run_bounds
from sightline.data.stream import ResidualStream
from sightline.energy.attack_free import attack_free_before
from sightline.energy.energy import ScoredTest
from sightline.errors import StreamError
from sightline.metrics.alarm_load import MOST_PER_DAY, Delays, Episodes
from sightline.parallel import threads
from sightline.rules.choose import (
    GUARD_S,
    MOST_FAR,
    ROUNDS,
    advice,
    after_later_rows,
    choose_rule,
    choose_set,
    far_outside,
    lines_of,
    ranges_of,
    rows_of,
)
from sightline.rules.judging import (
    CommissioningFacts,
    Curve,
    JudgedRows,
    RuleOutcome,
    RuleTrace,
    SetAside,
    cost_together,
    curve_of,
    judge_in_use,
    judge_present,
    judge_rule,
    limit_in_hindsight,
    run_family,
    with_ranking,
)
from sightline.rules.limits import (
    FEW_ALARMS,
    LEAST_ALARMS,
    Budget,
)
from sightline.rules.making import (
    AttackFreePeriod,
    AttackFreeTable,
    Fitting,
    MadeRule,
    RuleMaker,
)
from sightline.rules.masking import mask_after_changes, noisy_channel
from sightline.rules.named import REFITTED, default_rules, members_of
from sightline.rules.normal import (
    Normal,
    Origin,
    calm_channels,
    normal_of,
    origin_of,
    raw_rows,
    refitted,
)
from sightline.rules.promise import Kept
from sightline.rules.rule import Rule, RuleRun
from sightline.rules.scoring import ScoredStream, score
from sightline.rules.what_if import MOST_ROWS, outcomes_of, with_other_budgets
from sightline.showing import Shown
from sightline.text import counted, names, plural

# Share of the test that is used for commissioning.
FIRST: Final = 0.35


# --- Rows -----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Basis:
    """What all rules of a stream are made of and judged on.

    Parameters
    ----------
    stream, test : ResidualStream, ScoredTest
        As it is judged, and its energies.
    normal : Normal
        What rules know of train.
    split : int
        First judged row of the test.
    is_attack_free : array of bool, shape (n_test,)
        Attack-free rows of the test, for alarms; those before the split by what was
        known then.
    elsewhere : AttackFreeTable, optional
        Commissioning rows of another stream, in place of those before the split.
    parts : tuple of slice
        Parts of the test that are judged by limits set on the other parts; empty if
        rows before the split set them.
    within : array of bool, shape (n_test,), optional
        Rows that may commission, in place of those before the split.
    train_energy : float
        Energy of a usual row of train.
    """

    stream: ResidualStream
    test: ScoredTest
    normal: Normal
    split: int
    is_attack_free: Bools
    elsewhere: AttackFreeTable | None = None
    parts: tuple[slice, ...] = ()
    within: Bools | None = None
    train_energy: float = 0.0

    @classmethod
    def of(
        cls, scored: ScoredStream, split: int, elsewhere: AttackFreeTable | None = None
    ) -> "Basis":
        """Return the basis of rules for a scored stream."""
        test = scored.test
        is_attack_free = test.attack_free.for_alarms.copy()
        is_attack_free[:split] = attack_free_before(
            split,
            test.energy,
            test.labels,
            test.breaks,
            test.segments,
            test.step_s,
            scored.stream.label_slop_s,
        )
        return cls(
            stream=scored.stream,
            test=test,
            normal=normal_of(scored.stream, scored.energies),
            split=split,
            is_attack_free=is_attack_free,
            elsewhere=elsewhere,
            train_energy=float(np.median(scored.energies.train.energy)),
        )

    @property
    def stale(self) -> float:
        """Energy of a usual attack-free row before the split over that of train."""
        within = np.arange(self.test.n_rows) < self.split
        first = self.is_attack_free & (within if self.within is None else self.within)
        if not first.any() or not self.train_energy:
            return 1.0
        return float(np.median(self.test.energy[first])) / self.train_energy

    @cached_property
    def step_s(self) -> float:
        """Seconds a row; a budget a day needs them."""
        if self.stream.step_s is None:
            raise StreamError(
                "Seconds a row are not known, so alarms a day cannot be counted: give "
                "time stamps or `step_s`."
            )
        return self.stream.step_s

    @cached_property
    def judged(self) -> JudgedRows:
        """The rows that no rule has seen."""
        return JudgedRows.of(
            self.is_attack_free,
            self.test.attacks,
            self.test.breaks,
            self.split,
            self.step_s,
            self.test.attack_free.margins[:, 0],
            self.stream.test_time,
        )

    def period(self, *, with_calibration: bool, with_train: bool) -> AttackFreePeriod:
        """Return the commissioning rows.

        Parameters
        ----------
        with_calibration : bool
            Whether calibration rows are among them.
        with_train : bool
            Whether the rows that the detector was fitted on are among them.
        """
        stream, table = self.stream, self.elsewhere
        if table is None:
            within = np.arange(self.test.n_rows) < self.split
            within = within if self.within is None else self.within
            is_used = self.is_attack_free & within
            n_attacks = sum(bool(within[a.start]) for a in stream.attack_segments())
            table = part_of_test(stream, is_used, n_attacks)
        tables = [table]
        if with_calibration and stream.calibration is not None:
            rows = raw_rows(stream.calibration)
            tables.insert(0, AttackFreeTable(rows=rows, breaks=np.zeros(1, np.int64)))
        if with_train:
            rows = raw_rows(stream.train)
            tables.insert(0, AttackFreeTable(rows=rows, breaks=stream.train_breaks))
        return AttackFreePeriod(tables=tuple(tables), step_s=self.step_s)


def part_of_test(
    stream: ResidualStream, is_used: Bools, n_attacks: int
) -> AttackFreeTable:
    """Return some rows of a test as calm rows, in stretches."""
    starts, _ = run_bounds(is_used, stream.test_breaks)
    place = np.concatenate([[0], np.cumsum(is_used)])
    used, ends = np.flatnonzero(is_used), None
    if stream.test_time is not None and len(used):
        ends = float(stream.test_time[used[0]]), float(stream.test_time[used[-1]])
    return AttackFreeTable(
        rows=kept_rows(raw_rows(stream.test), is_used),
        breaks=place[starts],
        score=None if stream.score is None else stream.score[is_used],
        n_attacks=n_attacks,
        ends=ends,
        normal=stream.reviewed_normal[is_used],
        index=used,
        record=stream,
    )


def split_row(stream: ResidualStream, first: float, until: str | float | None) -> int:
    """Return the first judged row: by a time, or by a share of the test.

    Raises
    ------
    StreamError
        If the time is not within the test, or the share not between 0 and 1.
    """
    n = stream.test.n_rows
    if until is None:
        if not 0 < first <= 1:
            raise StreamError(f"`first` must be a share in (0, 1]; got {first}.")
        return int(first * n)
    if stream.test_time is None:
        raise StreamError(
            "The test rows have no time stamps, so they cannot be split at a time: "
            "give `first`, the share of rows to commission on."
        )
    at = seconds(until) if isinstance(until, str) else float(until)
    row = int(np.searchsorted(stream.test_time, at))
    if not 0 < row:
        raise StreamError(f"`until` ({until}) lies before the first test row.")
    return row


# --- The whole ------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class CommissioningSource:
    """The rows that rules were made on.

    Parameters
    ----------
    stream : ResidualStream
        The stream.
    normal : Normal
        What rules know of train.
    calm : AttackFreePeriod
        Commissioning rows.
    ends : pair of float, optional
        Time of the first of them, and of the last row before the split.
    """

    stream: ResidualStream
    normal: Normal
    calm: AttackFreePeriod
    ends: tuple[float, float] | None

    @cached_property
    def origin(self) -> Origin:
        """Where the rules come from; all rows are read once for it."""
        normal = self.normal
        calm = calm_channels(
            self.stream.channels,
            normal.train_mean,
            normal.spread,
            (rows for _, rows, _, _ in self.calm.blocks()),
        )
        return origin_of(self.stream, calm, self.ends)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Commissioning(Shown):
    """Rules made for a budget, and how they did on later rows.

    Parameters
    ----------
    rules : dict of str to MadeRule
        Every rule of the family with its limit and its promise.
    facts : CommissioningFacts
        The table, the curves and the sentences.
    source : CommissioningSource
        What they were made on.
    alarms : dict of str to Episodes
        Alarms of each rule on the judged rows, counted from the first.
    trace : RuleTrace
        What the chosen rule said of the judged rows, as a picture shows it.
    """

    rules: dict[str, MadeRule]
    facts: CommissioningFacts
    source: CommissioningSource
    alarms: Mapping[str, Episodes]
    trace: RuleTrace

    def _line(self) -> str:
        return (
            f"for {self.facts.budget}: {plural(len(self.rules), 'rule')}, chosen "
            f"{self.facts.chosen!r}, judged on {self.facts.judged_days:.2g} days and "
            f"{plural(self.facts.n_attacks, 'attack')}"
        )

    def deployed(self, name: str | None = None) -> MadeRule:
        """Return a rule, by default the chosen one, with where it comes from."""
        origin = replace(self.source.origin, advice=self.facts.advice)
        return replace(self.rules[name or self.facts.chosen], origin=origin)

    @property
    def has_rule(self) -> bool:
        """Whether a rule may be taken: by the decision, or because a user chose one."""
        choice = self.facts.choice
        return choice is None or choice.outcome.has_rule

    @property
    def chosen(self) -> MadeRule:
        """The chosen rule."""
        return self.rules[self.facts.chosen]

    @property
    def table(self) -> tuple[RuleOutcome, ...]:
        """The family on judged rows."""
        return self.facts.table


@dataclass(frozen=True, kw_only=True)
class CommissionSettings:
    """What a user may choose.

    Parameters
    ----------
    budget : Budget
        Alarms a day, and share of attack-free time in alarm.
    first : float
        Share of the test that commissions.
    until : str or float, optional
        In its place, the time at which judging begins.
    family : tuple of str, optional
        Rules to make; by default those of the default family.
    rules : tuple of str
        Rules beside these.
    choose : str, optional
        The rule to choose; then nothing is left out, and nothing decided.
    without : tuple of str
        Channels that no rule looks at.
    reference : {"train", "commissioning"}
        On which rows mean and covariance are fitted.
    on, within : int
        Exceedances that start an alarm, and in how many rows.
    train : bool
        Whether the rows that the detector was fitted on commission too.
    with_repairs : bool
        Whether to try what else could replace the rule in use: the energy with a
        reference fitted on commissioning rows, the detector's own score with a limit
        for the budget, rules without the one channel that makes most false alarms, and
        a mask after changes of state.
    keep : Rule, optional
        The rule in use, of the same channels: it is judged on the same rows, and the
        decision says whether to keep it, to add the chosen rule, or to replace it.
    fixed : bool
        Whether rules follow no means.
    """

    budget: Budget = Budget()  # noqa: RUF009
    first: float = FIRST
    until: str | float | None = None
    family: tuple[str, ...] | None = None
    rules: tuple[str, ...] = ()
    choose: str | None = None
    without: tuple[str, ...] = ()
    reference: Literal["train", "commissioning"] = "train"
    on: int = 1
    within: int = 1
    train: bool = False
    with_repairs: bool = False
    keep: Rule | None = None
    fixed: bool = False


def commission(
    stream: ResidualStream,
    *,
    budget: Budget | str = "6/day,1%",
    first: float = FIRST,
    until: str | float | None = None,
    calm: ResidualStream | None = None,
    rules: Sequence[str] = (),
    choose: str | None = None,
    without: Sequence[str] = (),
    reference: Literal["train", "commissioning"] = "train",
    on: int = 1,
    within: int = 1,
    train: bool = False,
    keep: Rule | None = None,
    fixed: bool = False,
    jobs: int | None = None,
) -> Commissioning:
    """Make alarm rules for a budget on calm rows, and judge them on later rows.

    Parameters
    ----------
    stream : ResidualStream
        The residuals. Labels before the split only leave rows out; no rule sees a label
        after it.
    budget : Budget or str
        Alarms a day and share of attack-free time in alarm, such as ``"6/day,1%"`` or
        ``"1/week"``.
    first : float
        Share of the test whose calm rows commission.
    until : str or float, optional
        In its place, the time at which judging begins.
    calm : ResidualStream, optional
        Commission on the calm test rows of this stream instead, and judge on all test
        rows of `stream`.
    rules : sequence of str
        Rules beside the default family; see `sightline.rules.named` for names.
    choose : str, optional
        The rule to choose; by default the decision of `facts.choice` is taken.
    without : sequence of str
        Channels that no rule looks at.
    reference : {"train", "commissioning"}
        On which rows mean and covariance are fitted.
    on, within : int
        An alarm starts with `on` exceedances in the last `within` rows.
    train : bool
        Whether the rows that the detector was fitted on commission too. They are
        quieter than later rows, so limits become lower.
    keep : Rule, optional
        The rule in use: the decision says whether to keep it, to add the chosen rule,
        or to replace it, and which attacks are lost and gained.
    fixed : bool
        Whether rules follow no means, and ask nothing.
    jobs : int, optional
        Threads that work at a time; by default one for each core. Results are the same
        to the last bit for any number.

    Returns
    -------
    Commissioning
        The rules, the table of how they did, and the chosen one.

    Raises
    ------
    StreamError
        If there is too little calm time for the budget (the message names the hours
        that are missing), or a name is unknown.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> stream = ResidualStream(
    ...     rng.normal(size=(2000, 3)), rng.normal(size=(40_000, 3)), step_s=10.0
    ... )
    >>> made = commission(stream, budget="6/day")
    >>> made.facts.chosen, made.chosen.promise.per_day <= 6
    ('z~', True)
    """
    settings = CommissionSettings(
        budget=Budget.parse(budget),
        first=first,
        until=until,
        rules=tuple(rules),
        choose=choose,
        without=tuple(without),
        reference=reference,
        on=on,
        within=within,
        train=train,
        keep=keep,
        fixed=fixed,
    )
    if calm is not None:
        if stream.step_s != calm.step_s:
            raise StreamError(
                "`calm` must have rows as far apart as the stream's "
                f"({stream.step_s} s); they are {calm.step_s} s apart."
            )
        if stream.channels != calm.channels:
            differ = sorted(set(stream.channels) ^ set(calm.channels))
            how = f"only one has {names(differ, 6)}" if differ else "the order differs"
            raise StreamError(
                f"`calm` must have the channels of the stream in the same order; {how}."
            )
    with threads(jobs):
        scored, elsewhere = score(stream), None
        if calm is not None:
            other = score(calm)
            elsewhere = part_of_test(
                other.stream,
                other.test.attack_free.for_alarms,
                len(other.test.attacks),
            )
        return commission_scored(scored, settings, elsewhere=elsewhere)


def commission_scored(
    scored: ScoredStream,
    settings: CommissionSettings,
    *,
    elsewhere: AttackFreeTable | None = None,
) -> Commissioning:
    """Make alarm rules for a stream that is already scored, and judge them.

    Parameters
    ----------
    scored : ScoredStream
        The stream and its energies.
    settings : CommissionSettings
        What a user chose.
    elsewhere : AttackFreeTable, optional
        Commissioning rows of another stream; all rows of this one are judged.

    Raises
    ------
    StreamError
        If there is too little attack-free time for the budget, or a name is unknown.
    """
    stream, test = scored.stream, scored.test
    firsts = stream.part_firsts
    if len(firsts) and not elsewhere and settings.until is None:
        stops = np.append(firsts[1:], test.n_rows)
        parts = tuple(map(slice, firsts.tolist(), stops.tolist()))
        every = np.ones(test.n_rows, np.bool_)
        basis = replace(Basis.of(scored, 0), parts=parts, within=every)
        return _make_family(basis, settings, has_what_if=True)
    split = 0 if elsewhere else split_row(stream, settings.first, settings.until)
    basis = Basis.of(scored, split, elsewhere)
    if not settings.with_repairs:
        return _make_family(basis, settings, has_what_if=True)
    before_split = basis.is_attack_free[:split]
    noisy = noisy_channel(stream, test, before_split)
    calls: list[Callable[[], Any]] = [
        partial(_make_family, basis, settings, has_what_if=True),
        partial(mask_after_changes, stream, test, basis.judged, before_split),
    ]
    base = CommissionSettings(
        budget=settings.budget, family=("energy",), choose="energy"
    )
    if not stream.one_sided:
        refit = replace(base, reference="commissioning")
        calls.append(partial(_try_repair, basis, REFITTED, refit))
    if stream.score is not None:
        own = replace(base, family=("score",), choose="score")
        calls.append(partial(_try_repair, basis, "{}", own))
    if noisy is not None:
        fewer = replace(base, family=("energy", "all"), without=(noisy,))
        calls.append(partial(_try_repair, basis, f"{{}} without {noisy}", fewer))
    family, mask, *tables = make_calls(stream.test, calls)
    facts = replace(
        family.facts,
        table=(*family.facts.table, *(row for table in tables for row in table)),
        noisy_channel=noisy,
        mask=mask,
    )
    made: Commissioning = replace(family, facts=replace(facts, advice=advice(facts)))
    return made


def _try_repair(
    basis: Basis, name: str, settings: CommissionSettings
) -> list[RuleOutcome]:
    """Return how further rules did; none where they have too few rows.

    `name` has ``{}`` for the name of each.
    """
    try:
        table = _make_family(basis, settings).table
    except StreamError:  # fewer rows than the family has, as without calibration
        return []
    return [replace(row, name=name.format(row.name)) for row in table]


def _make_family(
    basis: Basis, settings: CommissionSettings, *, has_what_if: bool = False
) -> Commissioning:
    """Make the rules of a family, and judge them; the chosen one with other budgets."""
    stream, judged = basis.stream, basis.judged
    normal = replace(basis.normal, without=frozenset(settings.without))
    basis = replace(basis, normal=normal)
    usual = default_rules(normal.has_stages, normal.is_one_sided)
    family = usual if settings.family is None else settings.family
    named = () if settings.choose is None else (settings.choose,)
    wanted = tuple(dict.fromkeys((*family, *settings.rules, *named)))
    maker, uses_calibration = _maker(basis, wanted, settings)
    everything, rules_with, far_share = maker, {}, 0.0
    episodes: list[SetAside] = []
    if settings.choose is None and not basis.parts:
        maker, episodes, far_share = without_episodes(maker)
    if maker is not everything:
        rules_with = {name: everything.limited(name)[0] for name in wanted}
    calm = maker.fitting.period
    rules = {name: maker.make(name) for name in wanted}
    choice, chosen, ranges = None, settings.choose, ranges_of(stream)
    if chosen is None:
        candidates = {name: rules[name] for name in family}
        guarded = _limits_guarded(basis, maker, family)
        lines = lines_of(ranges, maker, candidates, rules_with, guarded)
        choice = choose_rule(
            lines, episodes, settings.budget, stale=basis.stale, far_share=far_share
        )
        chosen = choice.rule
    budgets: dict[float, MadeRule] = {}
    if has_what_if and judged.days and len(judged.is_attack_free) <= MOST_ROWS:
        budgets = with_other_budgets(maker, rules[chosen])
    del maker.fitting.traces
    runs = _runs(basis, settings, maker, rules, chosen, budgets)
    tried = {times: runs.pop(str(times)) for times in budgets}
    tried |= {1.0: runs[chosen]} if budgets else {}
    what_if = outcomes_of(tried, maker, judged, ranges)
    trace = RuleTrace.of(runs[chosen], judged.first)
    del tried
    table, curves, alarms, in_alarm = _judged(basis, maker, rules, runs)
    if choice is not None:
        choice = after_later_rows(choice, table, settings.budget)
        chosen = choice.rule
    notes = list(_notes(basis, calm, settings, uses_calibration=uses_calibration))
    if episodes and not far_share:
        notes.append(f"{left_out_words(len(episodes))} of the commissioning rows.")
    present, in_use = _present(basis, settings)
    facts = CommissioningFacts(
        budget=str(settings.budget),
        chosen=chosen,
        days=calm.days,
        split=basis.split,
        judged_days=judged.days,
        n_attacks=len(judged.attacks),
        uses_calibration=uses_calibration,
        table=table,
        present=present,
        curves=curves,
        choice=choice,
        what_if=what_if,
        is_labelled=bool(basis.test.attacks),
        is_own_plant=is_own_plant(stream.meta),
    )
    if judged.days and (choice is None or choice.outcome.has_rule):
        together = cost_together(in_use, in_alarm[chosen], judged)
        rows = present[-1], facts.row(chosen)
        in_set = choose_set(*rows, together, settings.budget)
        facts = replace(facts, set_choice=in_set)
    ends = calm.tables[-1].ends  # of the rows of the test that are used
    if basis.elsewhere is None and ends and stream.test_time is not None:
        # Rows after the split are judged.
        last = -1 if basis.parts else max(basis.split, 1) - 1
        ends = ends[0], float(stream.test_time[last])
    return Commissioning(
        rules=rules,
        facts=replace(facts, notes=tuple(map(facts.said, notes)), advice=advice(facts)),
        source=CommissioningSource(stream=stream, normal=normal, calm=calm, ends=ends),
        alarms=alarms,
        trace=trace,
    )


def _present(
    basis: Basis, settings: CommissionSettings
) -> tuple[tuple[RuleOutcome, ...], Bools]:
    """Return how rules in use did, and which judged rows are in alarm by the last."""
    stream, test, judged, rule = basis.stream, basis.test, basis.judged, settings.keep
    in_alarm = test.alarms[basis.split :]
    found = [judge_present("p99", in_alarm, judged, test.threshold)]
    if test.own_alarms is not None:
        in_alarm = test.own_alarms[basis.split :]
        found.append(judge_present("own", in_alarm, judged))
    if rule is not None:
        if tuple(c.name for c in rule.channels) != tuple(stream.channels):
            raise StreamError(
                "The rule in use reads other channels than the stream has: give the "
                "residuals of the detector that it was made for."
            )
        is_later = np.arange(test.n_rows) >= basis.split
        rows = kept_rows(raw_rows(stream.test), is_later)
        score = None if stream.score is None else stream.score[basis.split :]
        run = rule.run(rows, breaks=judged.breaks, score=score)
        in_alarm = run.episodes.rows | run.standing
        found.append(judge_in_use(run, judged))
    return tuple(found), in_alarm


def left_out_words(n_episodes: int) -> str:
    """Return how many episodes were left out, as the beginning of a sentence."""
    were = counted(n_episodes, "unexplained episode", "was", "were")
    return f"{were} left out"


def _limits_guarded(
    basis: Basis, maker: RuleMaker, names: Sequence[str]
) -> dict[str, float]:
    """Return limits without `GUARD_S` around attacks; empty if no such row is used."""
    period, near = maker.fitting.period, np.zeros(basis.test.n_rows, np.bool_)
    if basis.elsewhere is not None:
        return {}
    margin = int(np.ceil(GUARD_S / basis.step_s))
    for attack in basis.test.attacks:
        near[max(attack.start - margin, 0) : attack.stop + margin] = True
    left_out = np.concatenate(
        [
            np.zeros(one.rows.n_rows, np.bool_)
            if one.index is None
            else near[one.index]
            for one in period.tables
        ]
    )
    rest = period.without(left_out)
    if not left_out.any() or maker.budget.per_day * rest.days < LEAST_ALARMS:
        return {}
    fitting = maker.fitting
    members = [member.name for member in fitting.members]
    again = RuleMaker(
        Fitting(fitting.normal, members, rest), maker.budget, maker.delays
    )
    return {name: again.make(name).rule.limit for name in names}


def without_episodes(
    maker: RuleMaker,
) -> tuple[RuleMaker, list[SetAside], float]:
    """Return what makes rules without unexplained episodes, these, and their share.

    Nothing is left out where they hold more than `MOST_FAR` of the rows: then there is
    a share. Limits are set again after each round, so that what hid behind the
    strongest is seen too.
    """
    whole, found, far_share = maker.fitting.period, [], 0.0
    numbers = np.arange(whole.n_rows)
    left_out = np.zeros(whole.n_rows, np.bool_)
    first = maker
    for _ in range(ROUNDS):
        episodes = far_outside(maker)
        if not episodes:
            break
        kept = numbers[~left_out]
        span = max(member.span for member in maker.fitting.members)
        left_out[kept[rows_of(episodes, len(kept), maker.delays.off + span)]] = True
        found += [
            replace(one, start=int(kept[one.start]), stop=int(kept[one.stop - 1]) + 1)
            for one in episodes
        ]
        if left_out.mean() > MOST_FAR:
            maker, far_share = first, float(left_out.mean())
            break
        fitting = maker.fitting
        names = [member.name for member in fitting.members]
        again = Fitting(fitting.normal, names, whole.without(left_out))
        maker = RuleMaker(again, maker.budget, maker.delays)
    placed = [_placed(one, whole) for one in sorted(found, key=lambda one: one.start)]
    return maker, placed, far_share


def _placed(one: SetAside, period: AttackFreePeriod) -> SetAside:
    """Return an episode with its rows in the record that commissions."""
    (first, begins), (last, _) = map(period.place_of, (one.start, one.stop - 1))
    if first is None or last is None:
        return one
    return replace(one, rows=(first, last + 1), begins=begins)


def check_enough(period: AttackFreePeriod, budget: Budget) -> None:
    """Raise unless a budget allows enough alarms in some rows to set a limit."""
    if budget.per_day * period.days >= LEAST_ALARMS:
        return
    hours = (LEAST_ALARMS / budget.per_day - period.days) * 24
    least = np.ceil(LEAST_ALARMS / period.days) if period.days else np.inf
    other = f", or allow at least {least:.0f} alarms a day"
    raise StreamError(
        f"{24 * period.days:.1f} attack-free hours are too few to set a limit for "
        f"{budget}: {hours:.1f} hours are missing"
        f"{other if least <= MOST_PER_DAY else ''}."
    )


def _maker(
    basis: Basis, names: Sequence[str], settings: CommissionSettings
) -> tuple[RuleMaker, bool]:
    """Return what makes the rules, and whether it uses calibration rows.

    They are used if they ring as often as attack-free rows of the test. Rows without
    the own score cannot be where a rule needs it.
    """
    stream, elsewhere = basis.stream, basis.elsewhere
    has_stages = basis.normal.has_stages
    members = list(dict.fromkeys(m for n in names for m in members_of(n, has_stages)))
    own = stream.score if elsewhere is None else elsewhere.score
    if "score" in members and (stream.score is None or own is None or settings.train):
        raise StreamError(
            "The rule 'score' needs the detector's own score of every row: give it, "
            "or leave the rule out."
        )
    delays = Delays.of_step(basis.step_s, settings.on, settings.within)

    def maker_of(with_calibration: bool) -> RuleMaker:
        period = basis.period(
            with_calibration=with_calibration, with_train=settings.train
        )
        period = replace(period, is_fixed=settings.fixed)
        check_enough(period, settings.budget)
        normal = basis.normal
        if settings.reference == "commissioning":
            normal = refitted(normal, period.rows)
        return RuleMaker(Fitting(normal, members, period), settings.budget, delays)

    uses = stream.calibration is not None and elsewhere is None
    uses = uses and "score" not in members
    maker = maker_of(with_calibration=uses)
    if uses and not settings.train:
        n_first = maker.fitting.period.tables[0].rows.n_rows
        joined = max(names, key=lambda name: len(members_of(name, has_stages)))
        if not maker.rings_alike(joined, n_first):
            uses, maker = False, maker_of(with_calibration=False)
    return maker, uses


def _judged(
    basis: Basis,
    maker: RuleMaker,
    rules: Mapping[str, MadeRule],
    runs: dict[str, RuleRun],
) -> tuple[
    tuple[RuleOutcome, ...], tuple[Curve, ...], dict[str, Episodes], dict[str, Bools]
]:
    """Return how every rule did on judged rows, what other limits would do, alarms.

    The last are the rows in alarm, those included in which what is out of service
    stands.
    """
    judged = basis.judged
    labels = basis.test.labels[judged.first :]
    table, curves, alarms, in_alarm = [], [], {}, {}
    for name, made in rules.items():
        said = runs.pop(name)
        alarms[name] = said.episodes
        in_alarm[name] = said.episodes.rows | said.standing
        outcome = judge_rule(said, judged, made.promise)
        trace = said.trace
        if outcome.kept is Kept.UNUSED:
            hindsight = limit_in_hindsight(trace, judged, maker.delays, maker.budget)
            outcome = replace(outcome, hindsight_limit=hindsight)
        table.append(with_ranking(outcome, trace, labels))
        curves.append(curve_of(name, trace, judged, maker.delays))
    return tuple(table), tuple(curves), alarms, in_alarm


def _runs(
    basis: Basis,
    settings: CommissionSettings,
    maker: RuleMaker,
    rules: Mapping[str, MadeRule],
    chosen: str,
    budgets: Mapping[float, MadeRule],
) -> dict[str, RuleRun]:
    """Return what each rule says of the judged rows.

    And what the chosen one says with other budgets, by the multiple as text.
    """
    stream, judged = basis.stream, basis.judged
    others = {str(times): made for times, made in budgets.items()}
    if basis.parts:
        return _runs_of_parts(basis, settings, rules, chosen, others)
    later = np.arange(stream.test.n_rows) >= judged.first
    return _runs_on(stream, maker, {**rules, **others}, later, judged)


def _runs_on(
    stream: ResidualStream,
    maker: RuleMaker,
    rules: Mapping[str, MadeRule],
    wanted: Bools,
    judged: JudgedRows,
) -> dict[str, RuleRun]:
    """Return what each rule says of the wanted rows."""
    score = None if stream.score is None else stream.score[wanted]
    rows = kept_rows(raw_rows(stream.test), wanted)
    built = {name: made.rule for name, made in rules.items()}
    return run_family(maker.family, built, rows, judged, score)


def _runs_of_parts(
    basis: Basis,
    settings: CommissionSettings,
    rules: Mapping[str, MadeRule],
    chosen: str,
    others: Mapping[str, MadeRule],
) -> dict[str, RuleRun]:
    """Return what rules say whose limits for each part were set on the other parts.

    Traces are over the limit of each part, times that of the rule of all parts. The
    `others` are the chosen rule with other limits, which change in proportion.
    """
    time, n_rows = np.asarray(basis.stream.test_time), basis.test.n_rows
    every = {**rules, **others}
    pieces: dict[str, list[RuleRun]] = {name: [] for name in every}
    for part in basis.parts:
        outer = outside(time, float(time[part][0]), float(time[part][-1]))
        seen = replace(basis, parts=(), within=outer)
        maker, _ = _maker(seen, tuple(rules), settings)
        own = {name: maker.make(name) for name in rules}
        del maker.fitting.traces
        mine, whole = own[chosen].rule, rules[chosen].rule
        for name, made in others.items():
            limit = mine.limit * made.rule.limit / whole.limit
            own[name] = replace(own[chosen], rule=replace(mine, limit=limit))
        wanted = np.zeros(n_rows, np.bool_)
        wanted[part] = True
        breaks = basis.test.breaks
        inside = breaks[(breaks > part.start) & (breaks < part.stop)] - part.start
        judged = replace(basis.judged, breaks=np.append(0, inside))
        runs = _runs_on(basis.stream, maker, own, wanted, judged)
        for name, run in runs.items():
            by = every[name].rule.limit / own[name].rule.limit
            pieces[name].append(replace(run, trace=run.trace * by))
    return {
        name: RuleRun.joined(made.rule, pieces.pop(name), basis.test.breaks)
        for name, made in every.items()
    }


def _notes(
    basis: Basis,
    calm: AttackFreePeriod,
    settings: CommissionSettings,
    *,
    uses_calibration: bool,
) -> Iterator[str]:
    """Yield sentences about what was left out or is uncertain."""
    n_attacks = calm.tables[-1].n_attacks
    if basis.parts:
        yield (
            f"Each of {len(basis.parts)} parts of the record is judged by limits that "
            "were set on the others; the limits shown were set on all of them."
        )
    elif n_attacks:
        yield (
            f"{counted(n_attacks, 'attack', 'was', 'were')} left out of the "
            "commissioning rows, with the time after."
        )
    if settings.budget.per_day * calm.days < FEW_ALARMS:
        yield (
            f"The budget allows fewer than {FEW_ALARMS:.0f} alarms in the "
            f"{24 * calm.days:.0f} attack-free hours that set the limits, so they are "
            "uncertain."
        )
    is_within = basis.split > 0  # not commissioned on another stream
    if is_within and basis.stream.calibration is not None and not uses_calibration:
        yield (
            "Held-out rows of train were not used: they do not ring as often as "
            "attack-free rows of the test, or lack the own score."
        )
    if not basis.judged.is_attack_free.any():
        yield "No attack-free rows are left to judge the rules on."
