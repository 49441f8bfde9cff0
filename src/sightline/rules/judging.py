"""Rules judged on rows that they have not seen: cost, attacks caught, promise kept."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import compress
from typing import Final

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import ATTACK, NORMAL, Bools, Floats, Ints, Labels
from sightline.data.segments import Attack, run_bounds
from sightline.data.validity import LEAST_WATCHED
from sightline.figures import PAUC_RATES
from sightline.metrics.alarm_load import (
    MOST_PER_DAY,
    AlarmLoad,
    AttackAlarms,
    Delays,
    Episodes,
    alarm_load,
    attack_alarms,
    counted,
    episodes_in,
    episodes_of,
    first_rises,
)
from sightline.metrics.ranking import partial_auc_of_ranks, roc_auc_of_ranks
from sightline.rules.limits import MOST_SWING, Budget, Trace, set_limit
from sightline.rules.promise import Kept, Period, Promise, as_a_whole, period_end
from sightline.rules.rule import Rule, RuleRun
from sightline.rules.scoring import ranks_of_score
from sightline.rules.standalone import long_gaps
from sightline.text import Labelling, as_labelled

NO_ROWS: Final = np.zeros(0, np.int64)
# The rule in use that was given, as tables call it.
IN_USE: Final = "in use"
# Leaving episodes out is a question to people if a limit moves by more than this.
MOVES: Final = 1.2


@dataclass(frozen=True, kw_only=True, eq=False)
class JudgedRows:
    """The rows on which rules are judged.

    Parameters
    ----------
    first : int
        First judged row of the test.
    is_attack_free : array of bool, shape (n_rows,)
        Calm rows among them, counted from `first`.
    attacks : sequence of Attack
        Attacks that start among them, by rows counted from `first`.
    breaks : array of int
        Rows at which a new recording begins, counted from `first`.
    step_s : float
        Seconds a row.
    early : array of int, shape (n_attacks,), optional
        Rows before each attack that count as its own, by the slop of its label.
    time : array of shape (n_rows,), optional
        Time of each row; None: the rows follow each other.
    """

    first: int
    is_attack_free: Bools
    attacks: Sequence[Attack]
    breaks: Ints
    step_s: float
    early: Ints | None = None
    time: Floats | None = None

    @classmethod
    def of(
        cls,
        is_attack_free: Bools,
        attacks: Sequence[Attack],
        breaks: Ints,
        first: int,
        step_s: float,
        early: Ints | None = None,
        time: Floats | None = None,
    ) -> "JudgedRows":
        """Return the rows from `first` on."""
        is_later = [a.start >= first for a in attacks]
        later = [
            replace(a, start=a.start - first, stop=a.stop - first)
            for a in compress(attacks, is_later)
        ]
        return cls(
            first=first,
            is_attack_free=is_attack_free[first:],
            attacks=later,
            breaks=np.unique(np.append(0, breaks[breaks > first] - first)),
            step_s=step_s,
            early=None if early is None else early[is_later],
            time=None if time is None else time[first:],
        )

    @property
    def anew(self) -> Ints:
        """Rows from which on means are followed from the usual ones again."""
        return NO_ROWS if self.time is None else long_gaps(self.time)

    @property
    def days(self) -> float:
        """Calm days."""
        return float(self.is_attack_free.sum()) * self.step_s / 86_400

    def load(
        self,
        episodes: Episodes,
        delays: Delays,
        exceeds: Bools,
        out_of_service: Bools | None = None,
        standing: Bools | None = None,
    ) -> AlarmLoad:
        """Return what alarms cost on these rows."""
        return alarm_load(
            episodes,
            self.is_attack_free,
            delays,
            self.step_s,
            exceeds=exceeds,
            shelved=out_of_service,
            standing=standing,
            breaks=self.breaks,
        )

    def use(self, episodes: Episodes) -> AttackAlarms:
        """Return which attacks alarms catch on these rows."""
        return attack_alarms(
            episodes,
            [attack.segment for attack in self.attacks],
            self.is_attack_free,
            step_s=self.step_s,
            breaks=self.breaks,
            ids=[attack.id for attack in self.attacks],
            early=() if self.early is None else self.early,
        )


def run_family(
    family: Rule,
    rules: Mapping[str, Rule],
    rows: object,
    judged: JudgedRows,
    score: object = None,
) -> dict[str, RuleRun]:
    """Return what each of some rules says of the judged rows; the same as `Rule.run`.

    Parameters
    ----------
    family : Rule
        All members of the rules; what they make of the rows is computed once.
    rules : mapping of str to Rule
        The rules.
    rows : Rows
        The judged rows; read once.
    judged : JudgedRows
        Breaks of the rows.
    score : array, optional
        The detector's own score.
    """
    place = {member.name: k for k, member in enumerate(family.members)}
    members = {
        name: [place[m.name] for m in rule.members] for name, rule in rules.items()
    }
    states = {name: rule.start() for name, rule in rules.items()}
    pieces: dict[str, list[RuleRun]] = {name: [] for name in rules}
    every, row, anew = family.start(), 0, {*judged.anew.tolist()}
    for block, begins, own in family.blocks(rows, judged.breaks, score):
        if begins:
            for state in (every, *states.values()):
                (state.begin_anew if row in anew else state.restart)()
        row += len(block)
        scored = every.scores(block, own)
        for name, state in states.items():
            chosen = [scored.members[k] for k in members[name]]
            pieces[name].append(state.decide(scored._replace(members=chosen)))
    return {
        name: RuleRun.joined(rule, pieces.pop(name), judged.breaks)
        for name, rule in rules.items()
    }


@dataclass(frozen=True, kw_only=True)
class RuleOutcome:
    """How one rule did on judged rows: a row of the table.

    Parameters
    ----------
    name : str
        Name of the rule, or ``"present"`` for the one in use.
    limit : float, optional
        Its limit. None for alarms given as such.
    promised_per_day : float, optional
        Alarms a day that it promised. None for the present rule.
    promised_interval : pair of float, optional
        90% interval of the promised alarms a day, for the first period.
    kept : Kept, optional
        What became of the promises, together; see `as_a_whole`.
    load : AlarmLoad
        What its alarms cost.
    attacks : AttackAlarms
        What they catch.
    hindsight_limit : float, optional
        The limit that judged calm rows would give, where the promise was unused.
    periods : tuple of Period
        What was promised for each period, and what came. Empty in results of earlier
        versions, which had one promise for all judged rows.
    questions : int
        How often a person would have been asked whether a tag that moved is normal;
        nobody answers on judged rows.
    roc_auc, pauc_1 : float, optional
        How its score, at any limit, ranks attack rows among normal ones: as
        `rank.roc_auc` and `rank.pauc_1`, on the judged rows. None without either, for
        rules that are given as alarms, and in results of earlier versions.
    """

    name: str
    limit: float | None
    load: AlarmLoad
    attacks: AttackAlarms
    promised_per_day: float | None = None
    promised_interval: tuple[float, float] | None = None
    kept: Kept | None = None
    hindsight_limit: float | None = None
    periods: tuple[Period, ...] = ()
    questions: int = 0
    roc_auc: float | None = None
    pauc_1: float | None = None


def judge_rule(run: RuleRun, judged: JudgedRows, promise: Promise) -> RuleOutcome:
    """Return how a rule did on judged rows."""
    periods = periods_of(run, judged, promise)
    first = periods[0] if periods else None
    return RuleOutcome(
        name=run.rule.name,
        limit=run.rule.limit,
        load=judged.load(
            run.episodes, run.rule.delays, run.exceeds, run.n_out > 0, run.standing
        ),
        attacks=judged.use(run.episodes),
        promised_per_day=promise.per_day,
        promised_interval=(first.low / first.days, first.high / first.days)
        if first is not None
        else None,
        kept=as_a_whole(periods, promise),
        periods=periods,
        questions=sum(bool(question.off) for question in run.questions),
    )


def with_ranking(outcome: RuleOutcome, trace: Floats, labels: Labels) -> RuleOutcome:
    """Return an outcome with how the trace of its rule ranks attack rows."""
    if not ((labels == ATTACK).any() and (labels == NORMAL).any()):
        return outcome
    ranks = ranks_of_score(trace, labels)
    pauc_1 = partial_auc_of_ranks(ranks, PAUC_RATES[0])
    return replace(outcome, roc_auc=roc_auc_of_ranks(ranks), pauc_1=pauc_1)


def periods_of(
    run: RuleRun, judged: JudgedRows, promise: Promise
) -> tuple[Period, ...]:
    """Return what was promised for each period of the judged rows, and what came.

    Each is promised from those before; after a long gap it is the first promise again.
    What is left at the end is one if it is half as long, or the only one.
    """
    rows = np.flatnonzero(judged.is_attack_free)
    time = judged.time
    every = judged.step_s * np.arange(len(judged.is_attack_free), dtype=np.float64)
    # Rows that are not judged stop the clock.
    clock: Floats = (every if time is None else time)[rows]
    clock = clock - judged.step_s * (rows - np.arange(len(rows), dtype=np.float64))
    found: list[Period] = []
    is_silent = run.is_silent[rows]
    n, first, before, made = promise.n_rows(judged.step_s), 0, (0, 0), promise
    while first < len(rows):
        later = clock[first:]
        end = period_end(later, later[0], later[0], 0, n, judged.step_s)
        n_rows = len(later) if end is None else end.row
        if end is None and found and n_rows < LEAST_WATCHED * n:
            break
        alarms, spent = cost = _cost_before(run, judged, int(rows[first + n_rows - 1]))
        n_silent = int(is_silent[first : first + n_rows].sum())
        period = promise.period(
            n_rows * judged.step_s / 86_400,
            float(alarms - before[0] + n_silent // run.rule.delays.unit),
            (spent - before[1] + n_silent) / n_rows,
            begins=None if time is None else float(time[rows[first]]),
            is_judged=end is None or end.is_full,
            gap_s=0.0 if end is None or end.is_full else end.gap_s,
        )
        found.append(period)
        promise = made if end is not None and end.gap_s else promise.after(period)
        first, before = first + n_rows, cost
    return tuple(found)


def _cost_before(run: RuleRun, judged: JudgedRows, last: int) -> tuple[int, int]:
    """Return alarms up to a row and rows of cost, as they were known in that row.

    Of what rings: a tag out of service was told once, as an alarm of its own.
    """
    n = last + 1
    mask, breaks = judged.is_attack_free[:n], judged.breaks[judged.breaks < n]
    episodes = episodes_in(run.in_alarm[:n], run.exceeds[:n], breaks)
    counts, _, rows = counted(episodes, mask, run.rule.delays.unit)
    return int(counts.sum()), int(rows.sum())


def limit_in_hindsight(
    trace: Floats, judged: JudgedRows, delays: Delays, budget: Budget
) -> float:
    """Return the limit that the judged calm rows would give.

    Parameters
    ----------
    trace : array of shape (n_rows,)
        The rule's trace over the judged rows.
    judged : JudgedRows
        Which of them are calm.
    delays, budget : Delays, Budget
        Of the rule.
    """
    starts, _ = run_bounds(judged.is_attack_free, judged.breaks)
    place = np.concatenate([[0], np.cumsum(judged.is_attack_free)])
    calm = Trace(
        values=trace[judged.is_attack_free],
        breaks=place[starts],
        days=judged.days,
        delays=delays,
    )
    return set_limit(calm, budget).value


def judge_present(
    name: str, alarms: Bools, judged: JudgedRows, limit: float | None = None
) -> RuleOutcome:
    """Return how alarms that are given row by row did on judged rows."""
    delays = Delays.of_step(judged.step_s)
    episodes = episodes_of(alarms, delays, judged.breaks)
    return RuleOutcome(
        name=name,
        limit=limit,
        load=judged.load(episodes, delays, alarms),
        attacks=judged.use(episodes),
    )


@dataclass(frozen=True, kw_only=True)
class Curve:
    """What other limits of a rule would do on judged rows, in hindsight.

    Parameters
    ----------
    name : str
        Name of the rule.
    limits, alarms_per_day, raised : tuple of float
        Falling limits, what each would cost, and how many attacks it would catch by an
        alarm that starts (other tags are not told apart).
    """

    name: str
    limits: tuple[float, ...]
    alarms_per_day: tuple[float, ...]
    raised: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Mask:
    """What masking alarms after a change of state would save, judged on later rows.

    Parameters
    ----------
    channel, value : str, float
        The telemetry channel and the state to which it changes.
    minutes : float
        How long alarms are masked after the change.
    n_before_split, n_expected : int, float
        False alarms before the split that start there, and how many its share of time
        would hold.
    share_of_time : float
        Share of judged calm time that is masked.
    before, after : RuleOutcome
        The rule in use on judged rows, without and with the mask.
    attacks_lost : tuple of str
        Attacks that are caught without the mask only.
    is_advised : bool
        Whether it saves false alarms on judged rows too.
    sentence : str
        The same in words.
    """

    channel: str
    value: float
    minutes: float
    n_before_split: int
    n_expected: float
    share_of_time: float
    before: RuleOutcome
    after: RuleOutcome
    attacks_lost: tuple[str, ...]
    is_advised: bool
    sentence: str


class ChoiceOutcome(StrEnum):
    """What to do with the rules that were made.

    ``TRAIN_AGAIN``
        The model no longer describes the plant, or no rule sees enough.
    ``REVIEW_FIRST``
        A few episodes decide which limit it is: look at them first.
    ``CONDITIONS``
        Take the rule, but know what it does not see or may cost.
    ``TAKE``
        Take the rule.
    ``NO_RULE``
        None yet: on judged rows it costs more than twice the budget.
    """

    TRAIN_AGAIN = "train again"
    REVIEW_FIRST = "review first"
    CONDITIONS = "take with conditions"
    TAKE = "take"
    NO_RULE = "no rule yet"

    @property
    def has_rule(self) -> bool:
        """Whether a rule may be taken to the plant."""
        return self in (ChoiceOutcome.TAKE, ChoiceOutcome.CONDITIONS)


@dataclass(frozen=True, kw_only=True)
class SetAside:
    """An unexplained episode among commissioning rows.

    Parameters
    ----------
    start, stop : int
        Commissioning rows [start, stop), counted from the first.
    begins : float, optional
        Time of its first row.
    peak : float
        Largest deviation over the limit; of an energy its square root.
    tags : tuple of str
        Channels that carry most of the energy at the peak, the strongest first.
    rows : pair of int, optional
        The same rows of the record that commissions, [first, stop). None where they are
        held-out rows of train.
    """

    start: int
    stop: int
    peak: float
    begins: float | None = None
    tags: tuple[str, ...] = ()
    rows: tuple[int, int] | None = None


@dataclass(frozen=True, kw_only=True)
class RuleLine:
    """What speaks for a rule, from commissioning rows alone.

    Parameters
    ----------
    name : str
        The rule.
    limit : float
        Its limit, with unexplained episodes left out.
    limit_with : float, optional
        Its limit with them; None if none was left out.
    moves : float, optional
        By how much the limit with them is higher, in amplitude: median over tags, for
        the member of which it moves most. None where none was left out, and in results
        of earlier versions.
    chance_kept : float
        Chance that it keeps the budget with tolerance: mean over rules made at several
        times, each judged on the commissioning rows that follow.
    sight : float
        0 if no tag's whole range is seen within 15 minutes, 1 if a hundredth of it is
        for all tags.
    step : float
        Smallest lasting shift of a tag that it sees, in spreads of train: median over
        tags.
    swing : float
        By how much the largest peaks alone move its limit; see `Limit.swing`.
    guard : float
        By how much the limit changes if a minute more before and after each attack is
        left out.
    """

    name: str
    limit: float
    limit_with: float | None
    chance_kept: float
    sight: float
    step: float
    swing: float
    guard: float = 1.0
    moves: float | None = None

    @property
    def is_firm(self) -> bool:
        """Whether its limit hangs neither on few peaks nor on seconds of labels."""
        return max(self.swing, self.guard) <= MOST_SWING

    @property
    def is_clear(self) -> bool:
        """Whether episodes that were left out hardly move its limit."""
        return 1 / MOVES <= (self.moves or 1.0) <= MOVES

    @property
    def may_be_taken(self) -> bool:
        """Whether it sees something, and nobody must look at its limit first."""
        return self.sight > 0 and self.is_firm and self.is_clear

    @property
    def value(self) -> float:
        """Sight times the chance to keep the budget."""
        return self.sight * self.chance_kept


@dataclass(frozen=True, kw_only=True)
class RuleChoice:
    """The one decision on the rules of a stream.

    Parameters
    ----------
    outcome : ChoiceOutcome
        What to do.
    rule : str
        The rule that it is about.
    sentence : str
        The same in words, as every place shows it.
    lines : tuple of RuleLine
        What speaks for each rule.
    episodes : tuple of SetAside
        Unexplained episodes that were left out of the commissioning rows, or that are
        too many to be left out.
    """

    outcome: ChoiceOutcome
    rule: str
    sentence: str
    lines: tuple[RuleLine, ...] = ()
    episodes: tuple[SetAside, ...] = ()


class SetAction(StrEnum):
    """What to do with the rule in use, given a new one.

    ``KEEP``
        Go on with it alone.
    ``ADD``
        Let both run.
    ``REPLACE``
        Let the new one run alone.
    ``NEITHER``
        Both cost more than twice the budget: make another. Or only its time in alarm
        does, and most that it catches would be lost: a higher budget keeps it.
    """

    KEEP = "keep"
    ADD = "add"
    REPLACE = "replace"
    NEITHER = "neither"

    @property
    def changes(self) -> bool:
        """Whether the new rule is taken."""
        return self in (SetAction.ADD, SetAction.REPLACE)


@dataclass(frozen=True, kw_only=True)
class SetChoice:
    """The decision on the rule in use and a new one, on the same judged rows.

    Parameters
    ----------
    action : SetAction
        What to do.
    lost, gained : tuple of str
        Attacks that only the rule in use catches, and those that only the new one does.
    together : AlarmLoad
        What both cost together.
    sentence : str
        The same in words, as every place shows it.
    """

    action: SetAction
    lost: tuple[str, ...]
    gained: tuple[str, ...]
    together: AlarmLoad
    sentence: str


@dataclass(frozen=True, kw_only=True)
class BudgetOutcome:
    """What the chosen rule would do on judged rows with the limit for another budget.

    Parameters
    ----------
    per_day, share : float
        The budget: alarms a day, and share of time.
    limit : float
        Its limit.
    step : float
        Smallest lasting shift of a tag that it sees, in spreads of train: median over
        tags.
    load : AlarmLoad
        What its alarms cost.
    attacks : AttackAlarms
        What they catch.
    """

    per_day: float
    share: float
    limit: float
    step: float
    load: AlarmLoad
    attacks: AttackAlarms


@dataclass(frozen=True, kw_only=True)
class CommissioningFacts:
    """What commissioning says: the table, the curves and the sentences.

    Parameters
    ----------
    budget : str
        For which limits were set, such as ``"6/day,1%"``.
    chosen : str
        Name of the chosen rule.
    days : float
        Days of commissioning rows.
    split : int
        First judged row of the test.
    judged_days : float
        Calm days of judged rows.
    n_attacks : int
        Attacks among judged rows.
    uses_calibration : bool
        Whether calibration rows are among the commissioning rows.
    table : tuple of RuleOutcome
        The family on judged rows.
    present : tuple of RuleOutcome
        Rules in use on the same rows: the p99 rule, the own rule if there is one, and
        the one that was given as in use. The last counts.
    curves : tuple of Curve
        Attacks caught against alarms a day.
    notes : tuple of str
        Sentences about what was left out or is uncertain.
    advice : str
        The decision, then the rule in use and the chosen one on judged rows.
    choice : RuleChoice, optional
        The decision. None in results of earlier versions.
    set_choice : SetChoice, optional
        Whether the chosen rule replaces the rule in use. None if no rule is taken, or
        no row is judged.
    what_if : tuple of BudgetOutcome
        What the chosen rule would do with other budgets, and with this one, the least
        first. Empty in results of earlier versions, and for records of over 2 million
        judged rows.
    is_labelled : bool
        Whether any incident is listed: else nobody knows which rows are attack-free.
    is_own_plant : bool
        Whether it is the user's own plant, whose labels mark incidents.
    noisy_channel : str, optional
        The channel that alone makes most false alarms of the p99 rule before the split.
    mask : Mask, optional
        The change of state after which most false alarms start; None without telemetry
        or without such a change.
    """

    budget: str
    chosen: str
    days: float
    split: int
    judged_days: float
    n_attacks: int
    uses_calibration: bool
    table: tuple[RuleOutcome, ...]
    present: tuple[RuleOutcome, ...]
    curves: tuple[Curve, ...] = ()
    notes: tuple[str, ...] = ()
    advice: str = ""
    noisy_channel: str | None = None
    mask: Mask | None = None
    choice: RuleChoice | None = None
    set_choice: SetChoice | None = None
    what_if: tuple[BudgetOutcome, ...] = ()
    is_labelled: bool = True
    is_own_plant: bool = False

    @property
    def later_days(self) -> str:
        """The days that rules are judged on, in words: without a split, all of them."""
        words = f"{'later ' * (self.split > 0)}attack-free days"
        return as_labelled(words, self.labels)

    @property
    def labels(self) -> Labelling:
        """What the labels of the record mark."""
        return Labelling.of(self.is_labelled, self.is_own_plant)

    def said(self, sentence: str) -> str:
        """Return a sentence in the words that fit the record."""
        caught = (row.attacks.which for row in (*self.table, *self.present))
        return as_labelled(
            sentence, self.labels, {one for ids in caught for one in ids}
        )

    @property
    def accepted(self) -> Budget:
        """The budget."""
        return Budget.parse(self.budget)

    @property
    def what_if_now(self) -> int:
        """The place of the budget itself among `what_if`."""
        far = [abs(one.per_day - self.accepted.per_day) for one in self.what_if]
        return far.index(min(far))

    def row(self, name: str) -> RuleOutcome:
        """Return the row of a rule."""
        return next(row for row in self.table if row.name == name)


# Columns of the picture of a rule's trace.
TRACE_COLUMNS: Final = 1200


@dataclass(frozen=True, kw_only=True, eq=False)
class RuleTrace:
    """What a rule said of a record, as a picture shows it.

    Parameters
    ----------
    rows : array of int, shape (n_columns,)
        First row of each column.
    peaks : array of float32, shape (n_columns,)
        Largest value of the trace over its limit, in each column.
    alarms : array of int, shape (n_alarms, 2)
        First row of each alarm, and the row after its last.
    """

    rows: Ints
    peaks: npt.NDArray[np.float32]
    alarms: Ints

    @classmethod
    def of(cls, run: RuleRun, first: int) -> "RuleTrace":
        """Return the picture of what a rule said of rows from the `first` on."""
        n_rows = len(run.trace)
        n_columns = min(n_rows, TRACE_COLUMNS)
        rows = np.arange(n_columns, dtype=np.int64) * n_rows // max(n_columns, 1)
        peaks = np.maximum.reduceat(run.trace, rows) if n_rows else run.trace
        starts, stops = run_bounds(run.in_alarm | run.standing, run.breaks)
        return cls(
            rows=rows + first,
            peaks=np.asarray(peaks / run.rule.limit, np.float32),
            alarms=np.stack([starts, stops], axis=1) + first,
        )


def judge_in_use(run: RuleRun, judged: JudgedRows) -> RuleOutcome:
    """Return how the rule in use did on judged rows, whatever it promised."""
    return RuleOutcome(
        name=IN_USE,
        limit=run.rule.limit,
        load=judged.load(
            run.episodes, run.rule.delays, run.exceeds, run.n_out > 0, run.standing
        ),
        attacks=judged.use(run.episodes),
    )


def cost_together(first: Bools, second: Bools, judged: JudgedRows) -> AlarmLoad:
    """Return what two rules cost that both run, by their rows in alarm."""
    return judge_present("", first | second, judged).load


# Levels of a curve.
N_LEVELS: Final = 30


def curve_of(name: str, trace: Floats, judged: JudgedRows, delays: Delays) -> Curve:
    """Return what other limits of a rule would cost and catch on judged rows.

    Limits are spaced by their ranks among calm rows, down to `MOST_PER_DAY` alarms.
    Every unit counts, also while it would be out of service.

    Parameters
    ----------
    name : str
        Name of the rule.
    trace : array of shape (n_rows,)
        Its trace over the judged rows.
    judged : JudgedRows
        Calm rows and attacks.
    delays : Delays
        On-delay and off-delay.
    """
    calm = np.sort(trace[judged.is_attack_free])[::-1]
    if not len(calm):
        return Curve(name=name, limits=(), alarms_per_day=(), raised=())
    ranks = np.unique(np.geomspace(1, max(0.3 * len(calm), 2), N_LEVELS).astype(int))
    limits = np.unique(calm[np.minimum(ranks, len(calm)) - 1])[::-1]
    starts = np.array([attack.start for attack in judged.attacks], np.int64)
    starts = starts if judged.early is None else starts - judged.early
    stops = np.array([attack.stop for attack in judged.attacks], np.int64)
    costs, caught = [], []
    for limit in limits:
        episodes = episodes_of(trace > limit, delays, judged.breaks)
        counts, _, _ = counted(episodes, judged.is_attack_free, delays.unit)
        costs.append(float(counts.sum()) / judged.days)
        caught.append(int(first_rises(episodes.starts, starts, stops)[1].sum()))
        if costs[-1] > MOST_PER_DAY:
            break
    return Curve(
        name=name,
        limits=tuple(map(float, limits[: len(costs)])),
        alarms_per_day=tuple(costs),
        raised=tuple(caught),
    )
