"""Unexplained episodes: the strongest alarms of a record that no incident explains.

They are the alarms of the chosen rule over the whole test that touch neither an attack
nor the time after one. Each part of the test, before and after the split, is judged by
limits that were set on the other: incidents are not labelled, and one that helps to
set the limit hides itself. Someone who knows the plant reviews the episodes; what that
person calls an incident is then the incident list.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sightline.data.arrays import Floats, Ints
from sightline.data.row_tables import gather_rows
from sightline.data.stream import ResidualStream
from sightline.energy.energy import leading_channels
from sightline.metrics.alarm_load import Episodes, episodes_in
from sightline.rules.commission import (
    Commissioning,
    CommissionSettings,
    commission_scored,
    part_of_test,
)
from sightline.rules.limits import Budget
from sightline.rules.normal import raw_rows
from sightline.rules.scoring import ScoredStream, score

# How many episodes are listed.
MOST_EPISODES: Final = 20
# Columns of the picture of an episode, and rows shown before and after it: as many as
# it has, within these bounds.
N_COLUMNS: Final = 60
AROUND: Final = (30, 360)


@dataclass(frozen=True, kw_only=True)
class EpisodePicture:
    """The score of a rule around an episode.

    Parameters
    ----------
    first, step : int
        First row, and rows of each column.
    values : tuple of float
        Largest score over the limit in each column.
    """

    first: int
    step: int
    values: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Episode:
    """One alarm that no incident explains.

    Parameters
    ----------
    start, stop : int
        Test rows [start, stop) from the start of the alarm to its last exceedance.
    peak : float
        Largest score of the rule over its limit: 2 is twice the limit.
    tags : tuple of str
        Channels that carry most of the energy at the peak, the strongest first.
    picture : EpisodePicture, optional
        The score around it.
    """

    start: int
    stop: int
    peak: float
    tags: tuple[str, ...]
    picture: EpisodePicture | None = None


def unexplained_episodes(
    scored: ScoredStream, made: Commissioning, *, most: int = MOST_EPISODES
) -> tuple[Episode, ...]:
    """Return the strongest alarms outside of attacks, in the order of time.

    Parameters
    ----------
    scored : ScoredStream
        The stream and its energies.
    made : Commissioning
        Rules made on the first part of this stream; the chosen one raises the alarms.
    most : int
        How many are returned.
    """
    stream, test = scored.stream, scored.test
    trace, alarms = _alarms(scored, made)
    # Alarms that touch no attack and no time after one, the strongest of them.
    disturbed = np.concatenate([[0], np.cumsum(~test.attack_free.for_alarms)])
    places = [
        (int(start), int(last))
        for start, last in zip(alarms.starts, alarms.lasts, strict=True)
        if disturbed[last + 1] == disturbed[start]
    ]
    # What was left out of the commissioning rows comes first.
    asides = [] if made.facts.choice is None else made.facts.choice.episodes
    aside = {one.rows: one.peak for one in asides if one.rows is not None}
    is_first = [
        any(a <= last and b > start for a, b in aside) for start, last in places
    ]
    others = [
        (a, b - 1)
        for a, b in aside
        if not any(start < b and last >= a for start, last in places)
    ]
    strength = [-float(trace[start : last + 1].max()) for start, last in places]
    order = sorted(range(len(places)), key=lambda k: (not is_first[k], strength[k]))
    n_kept = max(most - len(others), sum(is_first))
    places = sorted([*(places[k] for k in order[:n_kept]), *others])
    peaks = np.array(
        [a + int(np.argmax(trace[a : b + 1])) for a, b in places], np.int64
    )
    rows = gather_rows(stream.test, peaks)
    tags = leading_channels(rows, test.reference, stream.channels)
    return tuple(
        Episode(
            start=start,
            stop=last + 1,
            peak=aside.get((start, last + 1), float(trace[peak])),
            tags=carrying,
            picture=_picture(trace, start, last + 1, test.breaks),
        )
        for (start, last), peak, carrying in zip(places, peaks, tags, strict=True)
    )


def _alarms(scored: ScoredStream, made: Commissioning) -> tuple[Floats, Episodes]:
    """Return the score over its limit of every row, and the alarms.

    Each of both parts is judged by the limit of the other: an incident without a label
    would hide itself by raising the limit.
    """
    stream, test = scored.stream, scored.test
    split, rule = made.facts.split, made.chosen.rule
    is_later = np.arange(test.n_rows) >= split
    later = part_of_test(stream, test.attack_free.for_alarms & is_later, 0)
    settings = CommissionSettings(
        budget=made.facts.accepted, family=(rule.name,), choose=rule.name
    )
    others = commission_scored(scored, settings, elsewhere=later)
    rows = raw_rows(stream.test)
    runs = [
        each.run(rows, breaks=test.breaks, score=stream.score)
        for each in (others.chosen.rule, rule)
    ]

    def both(name: str) -> npt.NDArray[Any]:
        first, second = (getattr(run, name) for run in runs)
        return np.concatenate([first[:split], second[split:]])

    breaks = np.unique(np.append(test.breaks, split))
    standing = both("standing")
    # What is out of service stands: its alarm is an episode as well.
    return both("trace"), episodes_in(
        both("in_alarm") | standing, both("exceeds") | standing, breaks
    )


def _picture(trace: Floats, start: int, stop: int, breaks: Ints) -> EpisodePicture:
    """Return the trace around rows [start, stop), the largest value of each column."""
    around = int(np.clip(stop - start, *AROUND))
    run = int(np.searchsorted(breaks, start, side="right")) - 1
    begin = int(breaks[run]) if run >= 0 else 0
    end = int(breaks[run + 1]) if run + 1 < len(breaks) else len(trace)
    first, past = max(begin, start - around), min(end, stop + around)
    step = -(-(past - first) // N_COLUMNS)
    values = [float(trace[at : at + step].max()) for at in range(first, past, step)]
    return EpisodePicture(
        first=first,
        step=step,
        values=tuple(float(f"{value:.4g}") for value in values),
    )


def find_episodes(
    stream: ResidualStream,
    *,
    budget: Budget | str = "6/day,1%",
    most: int = MOST_EPISODES,
) -> tuple[Episode, ...]:
    """Return the strongest alarms that no incident explains, in the order of time.

    Parameters
    ----------
    stream : ResidualStream
        The residuals; without attacks every alarm is unexplained.
    budget : Budget or str
        Alarms a day and share of time for which the rule's limit is set.
    most : int
        How many are returned.

    Returns
    -------
    tuple of Episode
        Empty if the rule raises no alarm.

    Raises
    ------
    StreamError
        If there is too little attack-free time for the budget; the message names the
        hours that are missing.

    Examples
    --------
    >>> from sightline import ResidualStream
    >>> rng = np.random.default_rng(0)
    >>> test = rng.normal(size=(30_000, 3))
    >>> test[20_000:20_040, 1] += 9.0
    >>> stream = ResidualStream(
    ...     rng.normal(size=(5000, 3)), test, channels=["A", "B", "C"], step_s=10.0
    ... )
    >>> found = find_episodes(stream)
    >>> strongest = max(found, key=lambda episode: episode.peak)
    >>> strongest.start, strongest.tags
    (20000, ('B',))
    """
    scored = score(stream)
    # The rules among which `evaluate` chooses.
    joined = () if scored.stream.one_sided else ("memory",)
    settings = CommissionSettings(budget=Budget.parse(budget), rules=joined)
    made = commission_scored(scored, settings)
    return unexplained_episodes(scored, made, most=most)
