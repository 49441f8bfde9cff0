"""Where false alarms come from: by leading channel, by hour, by the plant's state."""

from dataclasses import dataclass

import numpy as np

from sightline.data.arrays import NORMAL, Ints
from sightline.data.zones import FIRST_DATE, local_seconds, zone_words
from sightline.evaluation import chart_data
from sightline.judgement.verdicts import RungName
from sightline.metrics.probe import AlarmMetrics
from sightline.report.entries import OWN, P99, RULE_LABELS, Entry, cost_of, rules_of
from sightline.rules.advice import load_words, raised_words
from sightline.text import names as name_list
from sightline.text import number, plural, share

# Channels drawn.
MAX_CHANNELS = 12
# The sentence names channels until they make up this share, at most this many.
MAJORITY = 0.6
MAX_NAMES = 3
# Numbers of the rules in chart data.
_CODES = {OWN: chart_data.OWN, P99: chart_data.P99}


@dataclass(frozen=True, eq=False)
class Episodes:
    """False alarms: first row and leading channel of each, as an index of `names`."""

    names: tuple[str, ...]
    start: Ints
    channel: Ints


@dataclass(frozen=True, kw_only=True)
class Leader:
    """A channel and the false alarms it leads: it has most energy at their peak."""

    channel: str
    stage: str | None
    count: int
    share: float


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """False alarms that begin within an attack's length after its end.

    Parameters
    ----------
    share : float
        Share of the false alarms.
    time_share : float
        Share of normal time that lies there, for comparison.
    """

    share: float
    time_share: float


@dataclass(frozen=True)
class PlantState:
    """One state of a channel: its share of time, and of the false alarms."""

    value: str
    time: str
    alarms: str


@dataclass(frozen=True, kw_only=True)
class FalseAlarms:
    """What is known of the false alarms of one rule.

    Parameters
    ----------
    rule : str
        "own rule" or "p99 rule".
    words, rate : str
        False alarms a day and share of attack-free time, as everywhere on the page.
    count, n_read : int
        Runs of alarms that touch no attack, and how many of them are attributed.
    sentence : str
        The channels that most of them come from.
    channels : list of Leader
        Most false alarms first.
    hours : list of int, optional
        Number that begins in each hour of the day; None without dates.
    zone : str
        The clock of these hours, in words.
    recovery : Recovery, optional
        None without attacks or false alarms.
    states : list
        By channel, of the p99 rule only: its states.
    """

    rule: str
    words: str
    rate: str
    count: int
    n_read: int
    sentence: str
    channels: list[Leader]
    hours: list[int] | None
    zone: str
    recovery: Recovery | None
    states: list[tuple[str, list[PlantState]]]


def false_alarms(entry: Entry) -> list[FalseAlarms] | None:
    """Return the false alarms of each rule.

    A false alarm is a run of alarms that touches no attack.

    Returns
    -------
    list of FalseAlarms, optional
        The detector's own rule first, if it has one. None if the results come from a
        version that did not describe false alarms.
    """
    traces = entry.traces
    if (
        traces.channel_names is None
        or traces.episode_rule is None
        or traces.episode_start is None
        or traces.episode_channel is None
    ):
        return None
    names = tuple(str(name) for name in traces.channel_names)
    rows = []
    for rule, alarms in rules_of(entry.evaluation).items():
        mine = traces.episode_rule == _CODES[rule]
        starts, channels = traces.episode_start[mine], traces.episode_channel[mine]
        rows.append(_of_rule(entry, rule, alarms, Episodes(names, starts, channels)))
    return rows


def _of_rule(
    entry: Entry, rule: RungName, alarms: AlarmMetrics, episodes: Episodes
) -> FalseAlarms:
    """Return the record of one rule from its false alarms."""
    starts = episodes.start
    leaders = leading_channels(entry, episodes)
    words, rate = cost_of(entry.evaluation, rule)
    return FalseAlarms(
        rule=RULE_LABELS[rule],
        words=words,
        rate=rate,
        count=alarms.false_positive_segments,
        n_read=len(starts),
        sentence=_sentence(leaders, alarms),
        channels=leaders[:MAX_CHANNELS],
        hours=_by_hour(entry, starts),
        zone=zone_words(entry.evaluation.stream.timezone),
        recovery=after_attacks(entry, starts),
        states=_states(entry) if rule == P99 else [],
    )


def actions(entry: Entry) -> list[str]:
    """Return what to do about the false alarms of a detector, judged on later rows.

    Returns
    -------
    list of str
        What leaving out the one channel that makes most of them would do, and a mask
        after a change of state. Empty where neither is known.
    """
    facts = entry.evaluation.rules
    if facts is None:
        return []
    texts = []
    if facts.noisy_channel is not None and facts.judged_days:
        ending = f" without {facts.noisy_channel}"
        rules = [
            f"rule {row.name!r} makes {load_words(row.load)}"
            + (f" and raises {raised_words(row.attacks)}" if facts.n_attacks else "")
            for row in facts.table
            if row.name.endswith(ending)
        ]
        if rules:
            texts.append(
                f"{facts.noisy_channel} alone leads at least half of the false alarms "
                "of the p99 rule. Check it, or leave it out: on later rows "
                f"{'; '.join(rules)}."
            )
    if facts.mask is not None:
        texts.append(facts.mask.sentence)
    return texts


def leading_channels(entry: Entry, episodes: Episodes) -> list[Leader]:
    """Return the channels that lead these false alarms.

    Returns
    -------
    list of Leader
        Most false alarms first; channels that lead none are left out.
    """
    counts = np.bincount(episodes.channel, minlength=len(episodes.names))
    return [
        Leader(
            channel=episodes.names[j],
            stage=entry.stages.get(episodes.names[j]),
            count=int(counts[j]),
            share=float(counts[j] / counts.sum()),
        )
        for j in np.argsort(-counts, kind="stable")
        if counts[j]
    ]


def _by_hour(entry: Entry, starts: Ints) -> list[int] | None:
    """Return the number that begins in each hour of the day; None without dates."""
    time = entry.traces.test_time
    if time is None or len(time) == 0 or time[0] < FIRST_DATE or len(starts) == 0:
        return None
    local = local_seconds(np.asarray(time)[starts], entry.evaluation.stream.timezone)
    hours = (local % 86_400 // 3600).astype(np.int64)
    return [int(n) for n in np.bincount(hours, minlength=24)]


def after_attacks(entry: Entry, starts: Ints) -> Recovery | None:
    """Return the false alarms soon after attacks, when the plant may still recover.

    Parameters
    ----------
    entry : Entry
        The detector.
    starts : array of int
        First row of each false alarm.

    Returns
    -------
    Recovery, optional
        None without attacks or false alarms. Rows that follow two attacks count once.
    """
    segments = entry.evaluation.segments
    if not segments or len(starts) == 0:
        return None
    is_normal = np.asarray(entry.traces.labels) == NORMAL
    is_after = np.zeros(len(is_normal), np.bool_)
    for segment in segments:
        is_after[segment.stop : segment.stop + segment.length] = True
    return Recovery(
        share=float(is_after[starts].mean()),
        time_share=float(is_after[is_normal].mean()) if is_normal.any() else 0.0,
    )


def _sentence(leaders: list[Leader], alarms: AlarmMetrics) -> str:
    """Return a sentence such as "63% of 40 runs come from 2 tags: LIT101 and P101."."""
    if not leaders:
        if alarms.time_in_alarm == 0:
            return "No false alarm."
        return (
            "No run of alarms lies fully outside attacks; "
            f"{share(alarms.time_in_alarm, 1)} of attack-free time is in alarm."
        )
    shares = np.cumsum([leader.share for leader in leaders])
    k = min(int(np.searchsorted(shares, MAJORITY)) + 1, MAX_NAMES, len(leaders))
    n_runs = sum(leader.count for leader in leaders)
    verb = "comes" if n_runs == 1 else "come"
    channels = name_list([leader.channel for leader in leaders[:k]])
    of = f"of {plural(n_runs, 'run')} {verb} from {plural(k, 'tag')}"
    return f"{share(float(shares[k - 1]))} {of}: {channels}."


def _states(entry: Entry) -> list[tuple[str, list[PlantState]]]:
    """Return how often false alarms begin in the states of a pump, valve or mode."""
    traces = entry.traces
    if (
        traces.telemetry_names is None
        or traces.state_channel is None
        or traces.state_value is None
        or traces.state_time_share is None
        or traces.state_alarm_share is None
    ):
        return []
    return [
        (
            str(channel),
            [
                PlantState(
                    number(float(value)), share(float(time)), share(float(alarms))
                )
                for value, time, alarms in zip(*states, strict=True)
                if np.isfinite(value)
            ],
        )
        for channel, *states in zip(
            traces.telemetry_names[traces.state_channel],
            traces.state_value,
            traces.state_time_share,
            traces.state_alarm_share,
            strict=True,
        )
    ]
