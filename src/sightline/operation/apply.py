"""A rule applied to a record: its alarms, its promise, and drift since it was made."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from sightline.data.arrays import Bools, Floats
from sightline.data.row_tables import KeptRows, gather_rows
from sightline.data.zones import FIRST_DATE, iso_stamp
from sightline.operation.records import Record
from sightline.rules.judging import (
    JudgedRows,
    Kept,
    RuleOutcome,
    judge_rule,
    limit_in_hindsight,
)
from sightline.rules.limits import LEAST_ALARMS
from sightline.rules.making import MadeRule
from sightline.rules.normal import CalmChannel, calm_channels
from sightline.rules.rule import RuleRun

# Leading tags of an alarm that are named.
MOST_TAGS: Final = 3
# A tag has moved if its mean changed by this many of its spreads in train.
MOVED: Final = 0.5


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """One alarm: a row of ``alarms.csv``.

    Parameters
    ----------
    start, end : str
        Time of its first row and of its last exceedance, ISO 8601 in the plant's zone;
        row numbers, counted from 0, without a clock.
    seconds : float
        From its start to the end of the last exceedance's row.
    peak : float
        Largest value of the rule over its limit, to four figures.
    member : str
        Which member of the rule led at the peak.
    tags : tuple of str
        Leading tags, the first one leading at the peak.
    """

    start: str
    end: str
    seconds: float
    peak: float
    member: str
    tags: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class TagDrift:
    """How far the residual of one tag has moved since the rule was made.

    Parameters
    ----------
    channel : str
        The tag.
    shift : float
        Mean over attack-free rows minus the mean over commissioning rows, in spreads
        of train; 0 if nothing has changed.
    energy_share, energy_share_then : float
        The tag's share of the summed squares of all tags, in spreads of train: now,
        and over commissioning rows.
    """

    channel: str
    shift: float
    energy_share: float
    energy_share_then: float


@dataclass(frozen=True, kw_only=True)
class Drift:
    """How far residuals have moved since the rule was made.

    Parameters
    ----------
    shift : float
        Root mean square of the tags' shifts; 0 if nothing has changed.
    energy_ratio : float
        Summed squares of all tags, in spreads of train, over those of commissioning
        rows; 1 if nothing has changed.
    tags : tuple of TagDrift
        The largest shift first.
    """

    shift: float
    energy_ratio: float
    tags: tuple[TagDrift, ...]

    @property
    def moved(self) -> tuple[TagDrift, ...]:
        """The tags that have moved by at least `MOVED` spreads."""
        return tuple(tag for tag in self.tags if abs(tag.shift) >= MOVED)


@dataclass(frozen=True, kw_only=True, eq=False)
class Applied:
    """What a rule says of a record.

    Parameters
    ----------
    alarms : tuple of Alarm
        All of its alarms.
    outcome : RuleOutcome
        Cost, attacks raised and promise, on rows after commissioning.
    drift : Drift, optional
        None where the rule does not say how calm rows looked, or no row is calm.
    run : RuleRun
        The rule over the whole record.
    notices : tuple of str
        What was left out.
    """

    alarms: tuple[Alarm, ...]
    outcome: RuleOutcome
    drift: Drift | None
    run: RuleRun
    notices: tuple[str, ...]


def apply_rule(made: MadeRule, record: Record) -> Applied:
    """Return what a rule says of a record.

    Alarms are those of the whole record. The promise and the drift are judged on
    attack-free rows after the last commissioning row, where clocks tell.

    Parameters
    ----------
    made : MadeRule
        The rule, as it was read.
    record : Record
        What it is applied to.
    """
    run = made.rule.run(record.rows, breaks=record.breaks, score=record.score)
    is_later, notices = _later(made, record)
    is_judged = record.is_quiet & is_later
    judged = JudgedRows(
        first=0,
        is_quiet=is_judged,
        attacks=[a for a in record.attacks if is_later[a.start]],
        breaks=np.unique(np.append(0, record.breaks)),
        step_s=made.rule.step_s or 1.0,
    )
    return Applied(
        alarms=tuple(alarms_of(made, run, record)),
        outcome=_outcome(made, run, judged),
        drift=drift_of(made, record, is_judged),
        run=run,
        notices=(*record.notices, *notices),
    )


def _outcome(made: MadeRule, run: RuleRun, judged: JudgedRows) -> RuleOutcome:
    """Return how the rule did; with the limit that these rows would give if unused."""
    outcome, budget = judge_rule(run, judged, made.promise), made.rule.budget
    if (
        outcome.kept is not Kept.UNUSED
        or budget is None
        or budget.per_day * judged.days < LEAST_ALARMS
    ):
        return outcome
    limit = limit_in_hindsight(run.trace, judged, made.rule.delays, budget)
    return replace(outcome, hindsight_limit=limit)


def _later(made: MadeRule, record: Record) -> tuple[Bools, list[str]]:
    """Return which rows come after commissioning, and a sentence about the others."""
    is_later = np.ones(record.rows.n_rows, np.bool_)
    origin = made.origin
    ends = None if origin is None else origin.ends
    if record.time is not None and ends is not None:
        is_later = np.asarray(record.time > ends)
    elif record.is_commissioned:
        return is_later, [
            "These are the rows that set the limit and have no clock, so the promise "
            "is judged on them too and looks better than it is."
        ]
    n_before = int((~is_later).sum())
    if not n_before:
        return is_later, []
    return is_later, [
        f"{n_before:,} rows are not later than those that set the limit: their alarms "
        "are listed, and the promise is judged on the others."
    ]


# --- Alarms ---------------------------------------------------------------------------


def alarms_of(made: MadeRule, run: RuleRun, record: Record) -> Iterator[Alarm]:
    """Yield the alarms of a run, in order."""
    rule, episodes = made.rule, run.episodes
    pairs = list(zip(episodes.starts.tolist(), episodes.lasts.tolist(), strict=True))
    peaks = [_peak(run, first, last) for first, last in pairs]
    rows = gather_rows(record.rows, np.asarray(peaks, np.int64))
    spread = spread_of(made)
    for (first, last), peak, row in zip(pairs, peaks, rows, strict=True):
        member, units = run.leaders(first, last, MOST_TAGS)
        yield Alarm(
            start=_stamp(record, first),
            end=_stamp(record, last),
            seconds=_seconds(record, first, last, rule.step_s or 1.0),
            peak=float(f"{run.trace[peak] / rule.limit:.4g}"),
            member=member,
            tags=leading_tags(run, peak, row, spread) or tuple(units),
        )


def _peak(run: RuleRun, first: int, last: int) -> int:
    """Return the exceedance with the largest trace, as `RuleRun.leaders` takes it."""
    rows = np.arange(first, last + 1)[run.exceeds[first : last + 1]]
    return int(rows[np.argmax(run.trace[rows])])


def spread_of(made: MadeRule) -> Floats | None:
    """Return the spread of each channel in train, if the rule says it."""
    return np.array([c.spread for c in made.origin.calm]) if made.origin else None


def leading_tags(
    run: RuleRun, peak: int, row: Floats, spread: Floats | None
) -> tuple[str, ...]:
    """Return the leading tags of a unit of several, by their deviation at the peak.

    Parameters
    ----------
    run : RuleRun
        What the rule says of rows.
    peak : int
        The row of them at the peak.
    row : array of shape (p,)
        Its residuals.
    spread : array of shape (p,), optional
        Of each channel, in whose units deviations are compared.

    Returns
    -------
    tuple of str
        Empty where each unit is a tag, or the member reads the own score.
    """
    view = run.rule.view_of(run.rule.members[run.leading[peak]])
    if view is None or view.bounds is None:
        return ()
    unit = int(run.unit[peak])
    inside = view.order[view.bounds[unit] : view.bounds[unit + 1]]
    size = np.abs(row - view.mean)[inside]
    if spread is not None and len(spread) == len(row):
        size = size / spread[inside]
    first = inside[np.argsort(-size, kind="stable")[:MOST_TAGS]]
    return tuple(run.rule.channels[j].name for j in first)


def _stamp(record: Record, row: int) -> str:
    if record.time is None or record.time[0] < FIRST_DATE:
        return str(row)
    return iso_stamp(float(record.time[row]), record.timezone)


def _seconds(record: Record, first: int, last: int, step_s: float) -> float:
    if record.time is None:
        return (last - first + 1) * step_s
    return float(record.time[last] - record.time[first]) + step_s


# --- Drift ----------------------------------------------------------------------------


def drift_of(made: MadeRule, record: Record, is_calm: Bools) -> Drift | None:
    """Return how far residuals of some rows lie from those of commissioning rows."""
    then = made.origin.calm if made.origin is not None else ()
    if not then or not is_calm.any():
        return None
    blocks = KeptRows(record.rows, is_calm).chunks()
    return drift_between(then, (np.asarray(rows, np.float64) for rows in blocks))


def drift_between(then: Sequence[CalmChannel], blocks: Iterable[Floats]) -> Drift:
    """Return how far some rows lie from those of commissioning.

    Parameters
    ----------
    then : sequence of CalmChannel
        How channels looked in commissioning rows.
    blocks : iterable of array of shape (n_rows, p)
        The rows.

    Examples
    --------
    >>> then = [CalmChannel(channel="a", mean=0, spread=2, calm_mean=0, calm_square=1)]
    >>> now = drift_between(then, [np.full((5, 1), 4.0)])
    >>> now.shift, now.energy_ratio
    (2.0, 4.0)
    """
    mean, spread = (np.array([getattr(c, k) for c in then]) for k in ("mean", "spread"))
    now = calm_channels([c.channel for c in then], mean, spread, blocks)
    return drift_to(now, then)


def drift_to(now: Sequence[CalmChannel], then: Sequence[CalmChannel]) -> Drift:
    """Return how far channels have moved from how they looked then."""
    shifts = np.array(
        [(b.calm_mean - a.calm_mean) / a.spread for a, b in zip(then, now, strict=True)]
    )
    parts = [np.array([c.calm_square for c in one]) for one in (now, then)]
    shares = [part / max(float(part.sum()), 1e-300) for part in parts]
    tags = [
        TagDrift(
            channel=channel.channel,
            shift=float(shift),
            energy_share=float(share),
            energy_share_then=float(before),
        )
        for channel, shift, share, before in zip(then, shifts, *shares, strict=True)
    ]
    return Drift(
        shift=float(np.sqrt(np.mean(shifts**2))),
        energy_ratio=float(parts[0].sum() / max(float(parts[1].sum()), 1e-300)),
        tags=tuple(sorted(tags, key=lambda tag: -abs(tag.shift))),
    )
