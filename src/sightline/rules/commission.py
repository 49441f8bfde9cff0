"""Commissioning: rules made for a budget on calm rows, and judged on later ones.

*Commissioning rows* are calm rows before the split that the detector was not fitted on;
*judged rows* are all later ones, which no rule has seen.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal

import numpy as np

from sightline.data.arrays import Bools
from sightline.data.recording import seconds
from sightline.data.row_tables import JoinedRows, kept_rows
from sightline.data.segments import run_bounds
from sightline.data.stream import ResidualStream
from sightline.energy.energy import ScoredStream, ScoredTest, Track, score_stream
from sightline.errors import StreamError
from sightline.facts.attack_facts import AttackFacts
from sightline.facts.calm_rows import (
    facts_of_stream,
    quiet_rows,
    quiet_rows_before,
)
from sightline.metrics.alarm_load import MOST_PER_DAY, Delays
from sightline.parallel import threads
from sightline.rules.advice import advice, load_words
from sightline.rules.budget import Budget
from sightline.rules.family import (
    CHOSEN,
    Normal,
    default_family,
    members_of,
    normal_of,
    refitted,
)
from sightline.rules.fitting import CalmPeriod, CalmTable, Fitting
from sightline.rules.judging import (
    CommissioningFacts,
    Curve,
    FamilyRun,
    JudgedRows,
    Kept,
    RuleOutcome,
    curve_of,
    judge_present,
    judge_rule,
    limit_in_hindsight,
)
from sightline.rules.limits import (
    FEW_ALARMS,
    LEAST_ALARMS,
)
from sightline.rules.making import MadeRule, RuleMaker
from sightline.rules.origin import Origin, calm_channels, origin_of, raw_rows
from sightline.rules.probe import QuantileRule
from sightline.rules.rule import Rule
from sightline.showing import Shown
from sightline.text import counted, names, plural

# The joined rule whose members remember nothing.
WITHOUT_MEMORY: Final = "rows"
# Share of the test that is used for commissioning.
FIRST: Final = 0.35


# --- Periods --------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Periods:
    """Which rows commission and which rows judge.

    Parameters
    ----------
    calm : CalmPeriod
        Commissioning rows.
    split : int
        First judged row of the test.
    is_quiet : array of bool, shape (n_test,)
        Calm rows of the test, without ten minutes after each attack.
    uses_calibration : bool
        Whether calibration rows are among the commissioning rows.
    n_attacks_before : int
        Attacks among the commissioning rows, which are left out.
    """

    calm: CalmPeriod
    split: int
    is_quiet: Bools
    uses_calibration: bool
    n_attacks_before: int


def part_of_test(stream: ResidualStream, is_used: Bools, n_attacks: int) -> CalmTable:
    """Return some rows of a test as calm rows, in stretches."""
    starts, _ = run_bounds(is_used, stream.test_breaks)
    place = np.concatenate([[0], np.cumsum(is_used)])
    used, ends = np.flatnonzero(is_used), None
    if stream.test_time is not None and len(used):
        ends = float(stream.test_time[used[0]]), float(stream.test_time[used[-1]])
    return CalmTable(
        rows=kept_rows(raw_rows(stream.test), is_used),
        breaks=place[starts],
        score=None if stream.score is None else stream.score[is_used],
        n_attacks=n_attacks,
        ends=ends,
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


def periods_of(
    stream: ResidualStream,
    is_quiet: Bools,
    split: int,
    *,
    calm: CalmTable | None = None,
    with_calibration: bool = True,
    with_train: bool = False,
) -> Periods:
    """Return which rows commission and which rows judge.

    Parameters
    ----------
    stream : ResidualStream
        Its test; calibration rows if it has any.
    is_quiet : array of bool, shape (n_test,)
        Calm rows of the test.
    split : int
        First judged row.
    calm : CalmTable, optional
        Commissioning rows from elsewhere, in place of these.
    with_calibration : bool
        Whether calibration rows are used. Rows without the own score cannot be.
    with_train : bool
        Whether the rows that the detector was fitted on are used.
    """
    is_used = is_quiet & (np.arange(len(is_quiet)) < split)
    n_attacks = sum(a.start < split for a in stream.attack_segments())
    tables = [calm or part_of_test(stream, is_used, n_attacks)]
    calibration = stream.calibration if calm is None else None
    uses = with_calibration and calibration is not None
    if uses and calibration is not None:
        rows = raw_rows(calibration)
        tables.insert(0, CalmTable(rows=rows, breaks=np.zeros(1, np.int64)))
    if with_train:
        rows = raw_rows(stream.train)
        tables.insert(0, CalmTable(rows=rows, breaks=stream.train_breaks))
    return Periods(
        calm=CalmPeriod(tables=tuple(tables), step_s=_step(stream)),
        split=split,
        is_quiet=is_quiet,
        uses_calibration=uses,
        n_attacks_before=tables[-1].n_attacks,
    )


def _step(stream: ResidualStream) -> float:
    """Return the seconds a row; a budget a day needs them."""
    if stream.step_s is None:
        raise StreamError(
            "Seconds a row are not known, so alarms a day cannot be counted: give time "
            "stamps or `step_s`."
        )
    return stream.step_s


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
    calm : CalmPeriod
        Commissioning rows.
    ends : pair of float, optional
        Time of the first of them, and of the last row before the split.
    """

    stream: ResidualStream
    normal: Normal
    calm: CalmPeriod
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
    alarm_rows : dict of str to array of bool
        Which judged rows are alarm time of each rule, the latch not counted.
    """

    rules: dict[str, MadeRule]
    facts: CommissioningFacts
    source: CommissioningSource
    alarm_rows: Mapping[str, Bools]

    def _line(self) -> str:
        return (
            f"for {self.facts.budget}: {plural(len(self.rules), 'rule')}, chosen "
            f"{self.facts.chosen!r}, judged on {self.facts.judged_days:.2g} days and "
            f"{plural(self.facts.n_attacks, 'attack')}"
        )

    def deployed(self, name: str | None = None) -> MadeRule:
        """Return a rule, by default the chosen one, with where it comes from."""
        return replace(self.rules[name or self.facts.chosen], origin=self.source.origin)

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
        The rule to choose; by default the one that joins all.
    without : tuple of str
        Channels that no rule looks at.
    reference : {"train", "commissioning"}
        On which rows mean and covariance are fitted.
    on, within : int
        Exceedances that start an alarm, and in how many rows.
    train : bool
        Whether the rows that the detector was fitted on commission too.
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
        Rules beside the default family; see `sightline.rules.family` for names.
    choose : str, optional
        The rule to choose; by default ``"all"``, or where that is over the budget on
        judged rows the rule with most skill that keeps it there.
    without : sequence of str
        Channels that no rule looks at.
    reference : {"train", "commissioning"}
        On which rows mean and covariance are fitted.
    on, within : int
        An alarm starts with `on` exceedances in the last `within` rows.
    train : bool
        Whether the rows that the detector was fitted on commission too. They are
        quieter than later rows, so limits become lower.
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
    ('all', True)
    """
    from sightline.energy.one_sided import as_judged

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
    )
    with threads(jobs):
        stream = as_judged(stream)
        scored, test = scored_test(stream)
        elsewhere = None
        if calm is not None:
            _check_alike(stream, calm)
            _, other = scored_test(calm := as_judged(calm))
            quiet = quiet_rows(other, facts_of_stream(calm, other))
            elsewhere = part_of_test(calm, quiet, len(other.attacks))
        facts = facts_of_stream(stream, test)
        return commission_scored(stream, scored, test, facts, settings, calm=elsewhere)


def scored_test(stream: ResidualStream) -> tuple[ScoredStream, ScoredTest]:
    """Return the energy of every row, and the test with its attacks."""
    labels = stream.labels
    scored = score_stream(stream, labels, "ledoit-wolf", None, Track(None, stream))
    probe = QuantileRule.from_normal(scored.train.energy)
    return scored, ScoredTest(
        energy=scored.test.energy,
        labels=labels,
        attacks=stream.attack_segments(),
        breaks=stream.test_breaks,
        reference=scored.reference,
        threshold=probe.threshold,
        alarms=probe.alarms(scored.test.energy),
        own_alarms=None if stream.alarms is None else stream.alarms == 1,
        step_s=stream.step_s,
    )


def commission_scored(
    stream: ResidualStream,
    scored: ScoredStream,
    test: ScoredTest,
    facts: Sequence[AttackFacts],
    settings: CommissionSettings,
    *,
    calm: CalmTable | None = None,
) -> Commissioning:
    """Do the same for a stream that is already scored.

    Parameters
    ----------
    stream, scored, test : ResidualStream, ScoredStream, ScoredTest
        As it is judged, and its energies.
    facts : sequence of AttackFacts
        How long each attack lasts after its label.
    settings : CommissionSettings
        What a user chose.
    calm : CalmTable, optional
        Commissioning rows from elsewhere.
    """
    step_s = _step(stream)
    is_quiet = quiet_rows(test, facts)
    split = 0 if calm else split_row(stream, settings.first, settings.until)
    is_quiet[:split] = quiet_rows_before(test, split)
    normal = replace(normal_of(stream, scored), without=frozenset(settings.without))
    family = default_family(normal) if settings.family is None else settings.family
    wanted = (*family, *settings.rules)
    chosen = settings.choose or (CHOSEN if CHOSEN in family else family[-1])
    wanted = tuple(dict.fromkeys((*wanted, chosen)))
    maker, periods = _maker(stream, normal, wanted, is_quiet, split, settings, calm)
    rules = {name: maker.make(name) for name in wanted}
    maker.fitting.free_traces()
    judged = JudgedRows.of(is_quiet, test.attacks, test.breaks, split, step_s)
    table, curves, alarm_rows = _judged(stream, maker, rules, judged)
    notes = list(_notes(stream, periods, judged, settings))
    if settings.choose is None:
        instead = within_budget(chosen, table, settings.budget)
        if instead != chosen:
            notes.append(_instead(chosen, instead, table))
        chosen = instead
    made = CommissioningFacts(
        budget=str(settings.budget),
        chosen=chosen,
        days=periods.calm.days,
        split=split,
        judged_days=judged.days,
        n_attacks=len(judged.attacks),
        uses_calibration=periods.uses_calibration,
        table=table,
        present=_present(test, judged),
        curves=curves,
        notes=tuple(notes),
    )
    return Commissioning(
        rules=rules,
        facts=replace(made, advice=advice(made)),
        source=CommissioningSource(
            stream=stream,
            normal=normal,
            calm=periods.calm,
            ends=_ends(stream, periods, is_elsewhere=calm is not None),
        ),
        alarm_rows=alarm_rows,
    )


def _maker(
    stream: ResidualStream,
    normal: Normal,
    names: Sequence[str],
    is_quiet: Bools,
    split: int,
    settings: CommissionSettings,
    calm: CalmTable | None,
) -> tuple[RuleMaker, Periods]:
    """Return what makes the rules, and its commissioning rows.

    Calibration rows are used if they ring as often as calm rows of the test.
    """
    members = list(
        dict.fromkeys(m for name in names for m in members_of(name, normal.has_stages))
    )
    own = stream.score if calm is None else calm.score
    if "score" in members and (stream.score is None or own is None or settings.train):
        raise StreamError(
            "The rule 'score' needs the detector's own score of every row: give it, "
            "or leave the rule out."
        )
    delays = Delays.of_step(_step(stream), settings.on, settings.within)

    def made(with_calibration: bool) -> tuple[RuleMaker, Periods]:
        periods = periods_of(
            stream,
            is_quiet,
            split,
            calm=calm,
            with_calibration=with_calibration and "score" not in members,
            with_train=settings.train,
        )
        _check_days(periods.calm, settings.budget)
        known = normal
        if settings.reference == "commissioning":
            tables = tuple(table.rows for table in periods.calm.tables)
            rows = tables[0] if len(tables) == 1 else JoinedRows(tables)
            known = refitted(normal, rows)
        fitting = Fitting(known, members, periods.calm)
        return RuleMaker(fitting, settings.budget, delays), periods

    maker, periods = made(with_calibration=True)
    if periods.uses_calibration and not settings.train:
        n_first = periods.calm.tables[0].rows.n_rows
        joined = max(names, key=lambda name: len(members_of(name, normal.has_stages)))
        if not maker.rings_alike(joined, n_first):
            maker, periods = made(with_calibration=False)
    return maker, periods


def within_budget(chosen: str, table: Sequence[RuleOutcome], budget: Budget) -> str:
    """Return the rule to choose: another one where the usual choice is over the budget.

    Of the rules that keep the budget on judged rows in count and share, the one with
    most skill (of equal ones `rows`, then the cheapest); where none keeps the share, of
    those that keep the count. The usual choice where it does as well, or none does. An
    average may stand for hours after an attack; a rule without memory does not.
    """

    def keeps_count(row: RuleOutcome) -> bool:
        rate = row.load.alarms_per_day
        return rate is not None and rate <= budget.per_day

    few = [row for row in table if keeps_count(row)]
    kept = [row for row in few if row.load.share_of_time <= budget.share] or few
    if not kept or any(row.name == chosen for row in kept):
        return chosen
    # Without attacks there is no skill: the rows without memory are the next best.
    return max(
        kept,
        key=lambda row: (
            row.attacks.skill or 0.0,
            row.name == WITHOUT_MEMORY,
            -row.load.alarms,
        ),
    ).name


def _instead(chosen: str, instead: str, table: Sequence[RuleOutcome]) -> str:
    """Return why another rule than the usual one is chosen."""
    usual = next(row for row in table if row.name == chosen)
    why = "costs less there"
    if usual.attacks.n_attacks:
        why = "has the most skill of those that cost less there"
    return (
        f"Rule {chosen!r} is over the budget on the later rows, with "
        f"{load_words(usual.load)}. Rule {instead!r} is chosen in its place: it {why}. "
        "This choice is made in hindsight."
    )


def _ends(
    stream: ResidualStream, periods: Periods, *, is_elsewhere: bool
) -> tuple[float, float] | None:
    """Return when commissioning begins and ends; rows after it are judged."""
    ends, time = periods.calm.ends, stream.test_time
    if is_elsewhere or ends is None or time is None:
        return ends
    return ends[0], float(time[max(periods.split, 1) - 1])


def _check_days(calm: CalmPeriod, budget: Budget) -> None:
    """Raise if commissioning rows are too few for the budget."""
    if budget.per_day * calm.days >= LEAST_ALARMS:
        return
    hours = (LEAST_ALARMS / budget.per_day - calm.days) * 24
    least = np.ceil(LEAST_ALARMS / calm.days) if calm.days else np.inf
    other = f", or allow at least {least:.0f} alarms a day"
    raise StreamError(
        f"{24 * calm.days:.1f} attack-free hours are too few to set a limit for "
        f"{budget}: {hours:.1f} hours are missing"
        f"{other if least <= MOST_PER_DAY else ''}."
    )


def _judged(
    stream: ResidualStream,
    maker: RuleMaker,
    rules: Mapping[str, MadeRule],
    judged: JudgedRows,
) -> tuple[tuple[RuleOutcome, ...], tuple[Curve, ...], dict[str, Bools]]:
    """Return how every rule did on judged rows, what other limits would do, and when.

    The last are the judged rows that are alarm time of each rule.
    """
    fitting = maker.fitting
    family = Rule(
        name="family",
        channels=fitting.normal.channels,
        views=tuple(fitting.views.values()),
        members=tuple(fitting.members),
        limit=1.0,
        delays=maker.delays,
    )
    later = np.arange(stream.test.n_rows) >= judged.first
    score = None if stream.score is None else stream.score[later]
    run = FamilyRun(family, kept_rows(raw_rows(stream.test), later), judged, score)
    table, curves, alarm_rows = [], [], {}
    for name, made in rules.items():
        said = run.run(made.rule)
        alarm_rows[name] = said.episodes.rows
        outcome = judge_rule(said, judged, made.promise)
        trace = said.trace
        if outcome.kept is Kept.UNUSED:
            hindsight = limit_in_hindsight(trace, judged, maker.delays, maker.budget)
            outcome = replace(outcome, hindsight_limit=hindsight)
        table.append(outcome)
        curves.append(curve_of(name, trace, judged, maker.delays))
    return tuple(table), tuple(curves), alarm_rows


def _present(test: ScoredTest, judged: JudgedRows) -> tuple[RuleOutcome, ...]:
    """Return how the rules in use did on the judged rows."""
    alarms = test.alarms[judged.first :]
    rows = [judge_present("p99", alarms, judged, test.threshold)]
    if test.own_alarms is not None:
        rows.append(judge_present("own", test.own_alarms[judged.first :], judged))
    return tuple(rows)


def _notes(
    stream: ResidualStream,
    periods: Periods,
    judged: JudgedRows,
    settings: CommissionSettings,
) -> Iterator[str]:
    """Yield sentences about what was left out or is uncertain."""
    calm, budget = periods.calm, settings.budget
    if periods.n_attacks_before:
        yield (
            f"{counted(periods.n_attacks_before, 'attack', 'was', 'were')} left out of "
            "the commissioning rows, with the time after."
        )
    if budget.per_day * calm.days < FEW_ALARMS:
        yield (
            f"The budget allows fewer than {FEW_ALARMS:.0f} alarms in the "
            f"{24 * calm.days:.0f} attack-free hours that set the limits, so they are "
            "uncertain."
        )
    is_within = periods.split > 0  # not commissioned on another stream
    if is_within and stream.calibration is not None and not periods.uses_calibration:
        yield (
            "Held-out rows of train were not used: they do not ring as often as "
            "attack-free rows of the test, or lack the own score."
        )
    if not judged.is_quiet.any():
        yield "No attack-free rows are left to judge the rules on."


def _check_alike(stream: ResidualStream, other: ResidualStream) -> None:
    """Raise unless rows of another stream can commission rules for this one."""
    if stream.step_s != other.step_s:
        raise StreamError(
            f"`calm` must have rows as far apart as the stream's ({stream.step_s} s); "
            f"they are {other.step_s} s apart."
        )
    if stream.channels != other.channels:
        differ = sorted(set(stream.channels) ^ set(other.channels))
        raise StreamError(
            "`calm` must have the channels of the stream in the same order; "
            + (f"only one has {names(differ, 6)}." if differ else "the order differs.")
        )
