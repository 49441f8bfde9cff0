"""What makes false alarms: one channel alone, or a change of state, as of a pump.

Both are found on attack-free rows before the split. A mask after a change of state is
judged on the rows after it.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from sightline.data.arrays import Bools, Floats, Ints
from sightline.data.row_tables import Rows, gather_rows
from sightline.data.stream import ResidualStream
from sightline.energy.energy import ScoredTest, energy_parts
from sightline.metrics.alarm_load import Delays, episodes_of
from sightline.rules.judging import JudgedRows, Mask, RuleOutcome, judge_present
from sightline.text import names, number, plural, share

# One channel alone makes the false alarms if it leads this share of
DOMINATES: Final = 0.5
# at least this many.
LEAST_LED: Final = 10
MINUTES: Final = 10
# A channel with more values than this, among this many rows, has no states.
MOST_STATES: Final = 6
STATE_ROWS: Final = 5000
# A mask is worth a try if at least this many false alarms start in it,
LEAST: Final = 5
# this many times as many as its share of time would hold,
LIFT: Final = 2.0
# and if it leaves most of the time unmasked.
MOST_MASKED: Final = 0.25
# It is advised if it saves at least this many on judged rows, for at most this skill.
LEAST_SAVED: Final = 3
MOST_SKILL: Final = 0.05


def noisy_channel(
    stream: ResidualStream, test: ScoredTest, is_attack_free: Bools
) -> str | None:
    """Return the channel that alone makes most false alarms before the split.

    Of each false alarm of the p99 rule the channel that contributes most to the energy
    where it starts is its leader. None if no channel leads half of them.
    `is_attack_free` has the rows before the split.
    """
    if stream.p < 3:
        return None
    episodes = episodes_of(test.alarms, Delays.of_step(test.step_s), test.breaks)
    starts = episodes.starts[episodes.starts < len(is_attack_free)]
    starts = starts[is_attack_free[starts]]
    if len(starts) < LEAST_LED:
        return None
    parts = energy_parts(gather_rows(stream.test, starts), test.reference)
    leaders = Counter(np.argmax(parts, axis=1).tolist())
    channel, count = leaders.most_common(1)[0]
    return stream.channels[channel] if count >= DOMINATES * len(starts) else None


@dataclass(frozen=True, eq=False)
class _Candidate:
    """A change of state, and the test rows within the mask after it."""

    channel: str
    value: float
    rows: Bools


def mask_after_changes(
    stream: ResidualStream,
    test: ScoredTest,
    judged: JudgedRows,
    is_attack_free: Bools,
) -> Mask | None:
    """Return the mask that would save most false alarms of the rule in use.

    Parameters
    ----------
    stream : ResidualStream
        Its telemetry has the states of the plant: channels with 2 to 6 values.
    test : ScoredTest
        Alarms of the rule in use: the detector's own, else the p99 rule.
    judged : JudgedRows
        The rows after the split.
    is_attack_free : array of bool, shape (split,)
        Attack-free rows before it.

    Returns
    -------
    Mask, optional
        None without telemetry, and where no change of state has at least `LEAST` false
        alarms after it, `LIFT` times as many as its share of time would hold.
    """
    split = judged.first
    if stream.telemetry_test is None or test.step_s is None or not split:
        return None
    name, alarms = "p99", test.alarms
    if test.own_alarms is not None:
        name, alarms = "own", test.own_alarms
    delays = Delays.of_step(test.step_s)
    breaks = test.breaks[test.breaks < split]
    starts = episodes_of(alarms[:split], delays, breaks).starts
    starts = starts[is_attack_free[starts]]
    best, gain = None, 0.0
    for one in _candidates(stream, stream.telemetry_test, test, split):
        n_inside = int(one.rows[starts].sum())
        covered = 1.0
        if is_attack_free.any():
            covered = float(one.rows[:split][is_attack_free].mean())
        expected = covered * len(starts)
        is_worth = n_inside >= max(LEAST, LIFT * expected) and covered <= MOST_MASKED
        if is_worth and n_inside - expected > gain:
            best, gain = (one, n_inside, expected), n_inside - expected
    if best is None:
        return None
    one, n_inside, expected = best
    inside = one.rows[split:]
    before = judge_present(name, alarms[split:], judged)
    after = judge_present(f"{name}, masked", alarms[split:] & ~inside, judged)
    covered = float(inside[judged.is_attack_free].mean()) if judged.days else 0.0
    lost = [id_ for id_ in before.attacks.which if id_ not in after.attacks.which]
    # It saves more on judged rows than its share of time.
    saved = before.load.alarms - after.load.alarms
    skill_lost = (before.attacks.skill or 0.0) - (after.attacks.skill or 0.0)
    least = max(LEAST_SAVED, covered * before.load.alarms)
    is_advised = saved >= least and skill_lost <= MOST_SKILL
    return Mask(
        channel=one.channel,
        value=one.value,
        minutes=MINUTES,
        n_before_split=n_inside,
        n_expected=expected,
        share_of_time=covered,
        before=before,
        after=after,
        attacks_lost=tuple(lost),
        is_advised=is_advised,
        sentence=_sentence(one, before, after, covered, lost, is_advised=is_advised),
    )


def _candidates(
    stream: ResidualStream, telemetry: Rows, test: ScoredTest, split: int
) -> Iterator[_Candidate]:
    """Yield every state to which a channel changes before the split."""
    n_some = min(STATE_ROWS, split)
    some = gather_rows(telemetry, (np.arange(n_some) * split) // n_some)
    columns = [
        j
        for j in range(telemetry.n_channels)
        if 2 <= len(np.unique(some[:, j])) <= MOST_STATES
    ]
    if not columns:
        return
    values = np.concatenate([chunk[:, columns] for chunk in telemetry.chunks()])
    n_masked = max(1, round(60 * MINUTES / (test.step_s or 1.0)))
    for k, j in enumerate(columns):
        for value in np.unique(some[:, j]):
            rows = masked_rows(values[:, k], float(value), n_masked, test.breaks)
            yield _Candidate(stream.telemetry_channels[j], float(value), rows)


def masked_rows(states: Floats, value: float, n_rows: int, breaks: Ints) -> Bools:
    """Return the rows from each change to a value on; none crosses a break.

    Examples
    --------
    >>> states = np.array([0, 1, 1, 0, 0, 1, 0])
    >>> masked_rows(states, 1, 2, np.array([0, 6])).astype(int)
    array([0, 1, 1, 0, 0, 1, 0])
    """
    is_there = states == value
    changes = np.flatnonzero(is_there[1:] & ~is_there[:-1]) + 1
    changes = changes[~np.isin(changes, breaks)]
    edges = np.append(np.sort(breaks), len(states))
    ends = np.minimum(
        changes + n_rows, edges[np.searchsorted(edges, changes, side="right")]
    )
    steps = np.zeros(len(states) + 1, np.int64)
    np.add.at(steps, changes, 1)
    np.add.at(steps, ends, -1)
    return np.asarray(np.cumsum(steps[:-1]) > 0)


def _sentence(
    one: _Candidate,
    before: RuleOutcome,
    after: RuleOutcome,
    covered: float,
    lost: list[str],
    *,
    is_advised: bool,
) -> str:
    """Return what a mask would save and lose, on judged rows."""
    saved = before.load.alarms - after.load.alarms
    rule = "the p99 rule" if before.name == "p99" else "your own rule"
    where = f"{MINUTES} minutes after {one.channel} changes to {number(one.value)}"
    cost = f"{saved} of {plural(before.load.alarms, 'false alarm')} of {rule}"
    if not is_advised:
        return (
            f"Before the split false alarms start more often in the {where}, but a "
            f"mask there would save {cost} on later rows: it is not advised."
        )
    attacks = "no attack" if not lost else f"attack {names(lost)}"
    if len(lost) > 1:
        attacks = f"attacks {names(lost)}"
    return (
        f"Mask alarms in the {where}: on later rows this saves {cost}, covers "
        f"{share(covered, 1)} of attack-free time, and loses {attacks}."
    )
