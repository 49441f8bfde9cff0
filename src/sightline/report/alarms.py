"""Alarms of a detector: better rules, where false alarms come from, and episodes.

Each section of the page has its record: what a better alarm rule would do, false alarms
by leading channel, hour and state of the plant, and the strongest alarms of a record
without attacks.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from sightline.data.arrays import NORMAL, Ints
from sightline.data.zones import FIRST_DATE, local_seconds, zone_words
from sightline.evaluation import chart_data
from sightline.judgement.verdicts import RungName
from sightline.metrics.probe import AlarmMetrics
from sightline.report import charts
from sightline.report.charts import JsonObject, PageClock
from sightline.report.entries import OWN, P99, RULE_LABELS, Entry, cost_of, rules_of
from sightline.rules.advice import (
    advice,
    count_words,
    load_words,
    raised_words,
)
from sightline.rules.episodes import Episode, EpisodePicture
from sightline.rules.judging import CommissioningFacts, Kept
from sightline.text import (
    names,
    number,
    plural,
    row_span,
    share,
)
from sightline.text import names as name_list

# What became of a promise: a word, and what it means.
KEPT_WORDS: dict[Kept, tuple[str, str]] = {
    Kept.KEPT: ("kept", "The false alarms lie within the 90% interval of the promise."),
    Kept.BROKEN: (
        "broken",
        "More false alarms than the 90% interval of the promise: the plant has changed "
        "since the limit was set. Set it again on newer attack-free rows.",
    ),
    Kept.UNUSED: (
        "fewer than promised",
        "Fewer false alarms than the interval of the promise: the limit is higher than "
        "these rows need.",
    ),
    Kept.UNJUDGED: ("not judged", "No attack-free rows were left to judge it on."),
}


@dataclass(frozen=True, kw_only=True)
class BetterRules:
    """What the page says of the rules of one detector.

    Parameters
    ----------
    advice : str
        The first thing to change, or why no rule could be made.
    facts : CommissioningFacts, optional
        Budget, days and attacks; None if no rule could be made.
    repairs : tuple of str
        What carrying out a repair as a rule would do.
    command : str
        The command that writes the rule; empty without one.
    """

    advice: str
    facts: CommissioningFacts | None = None
    repairs: tuple[str, ...] = ()
    command: str = ""


def better_rules(entry: Entry) -> BetterRules | None:
    """Return what a better rule would do for a detector.

    Returns
    -------
    BetterRules, optional
        None where rules were not asked for, and for results of an earlier version.
    """
    evaluation = entry.evaluation
    facts = evaluation.rules
    if facts is None:
        refused = evaluation.rules_refused
        text = f"No alarm rule was made: {refused}"
        return None if refused is None else BetterRules(advice=text)
    diagnosis = evaluation.diagnosis
    repairs: tuple[str, ...] = ()
    # Repairs are silent where causes cannot be told apart.
    if diagnosis is not None and diagnosis.advice_withheld is None:
        sentences = (one.sentence for one in (evaluation.repairs or {}).values())
        repairs = tuple(sentence for sentence in sentences if sentence)
    return BetterRules(
        advice=advice(facts),
        facts=facts,
        repairs=repairs,
        command=f"sightline commission {evaluation.stream.name}.npz "
        f"--budget {facts.budget} --choose {facts.chosen} --out rule",
    )


def rules_figure(entry: Entry) -> JsonObject | None:
    """Return the curve "attacks raised against alarms a day" of every rule.

    Returns
    -------
    mapping, optional
        ``per_day`` of the budget, ``n_attacks``, ``least`` (where 0 alarms are drawn:
        half an alarm in all judged days), ``curves`` (in hindsight, by other limits)
        and ``points`` (each rule at its own limit, with what chance raises). None if
        no attack or no attack-free row was left to judge rules on.
    """
    facts = entry.budget_rules
    if facts is None:
        return None
    return {
        "per_day": facts.accepted.per_day,
        "budget": facts.budget,
        "n_attacks": facts.n_attacks,
        "least": 0.5 / facts.judged_days,
        "curves": [
            {"name": one.name, "per_day": one.alarms_per_day, "raised": one.raised}
            for one in facts.curves
        ],
        "points": [
            {
                "name": row.name,
                "kind": kind if row.name != facts.chosen else "chosen",
                "per_day": row.load.alarms_per_day,
                "raised": row.attacks.raised,
                "chance": row.attacks.raised_by_chance,
                "words": count_words(row.load),
            }
            for kind, rows in (("present", facts.present), ("rule", facts.table))
            for row in rows
        ],
    }


# Channels drawn.
MAX_CHANNELS = 12
# The sentence names channels until they make up this share, at most this many.
MAJORITY = 0.6
MAX_NAMES = 3
# Numbers of the rules in chart data.
_CODES = {OWN: chart_data.OWN, P99: chart_data.P99}


@dataclass(frozen=True, eq=False)
class FalseRuns:
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
        rows.append(_of_rule(entry, rule, alarms, FalseRuns(names, starts, channels)))
    return rows


def _of_rule(
    entry: Entry, rule: RungName, alarms: AlarmMetrics, episodes: FalseRuns
) -> FalseAlarms:
    """Return the record of one rule from its false alarms."""
    starts = episodes.start
    leaders = leading_channels(entry, episodes)
    words, rate = cost_of(entry.evaluation, rule)
    hours, time = None, entry.traces.test_time
    zone = entry.evaluation.stream.timezone
    if time is not None and len(time) and time[0] >= FIRST_DATE and len(starts):
        local = local_seconds(np.asarray(time)[starts], zone)
        of_day = (local % 86_400 // 3600).astype(np.int64)
        hours = [int(n) for n in np.bincount(of_day, minlength=24)]
    return FalseAlarms(
        rule=RULE_LABELS[rule],
        words=words,
        rate=rate,
        count=alarms.false_positive_segments,
        n_read=len(starts),
        sentence=_sentence(leaders, alarms),
        channels=leaders[:MAX_CHANNELS],
        hours=hours,
        zone=zone_words(zone),
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


def leading_channels(entry: Entry, episodes: FalseRuns) -> list[Leader]:
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


# Size of a picture, in units of its drawing.
WIDTH: Final = 240.0
HEIGHT: Final = 48.0


@dataclass(frozen=True, kw_only=True)
class EpisodeRow:
    """One episode as the page shows it.

    Parameters
    ----------
    began, lasted, peak, tags : str
        When it began, how long it lasted, its peak in times the alarm limit, and the
        channels that carry it.
    order : int
        Its place among all by peak, the strongest first, from 1.
    path : str
        SVG path of the score in a drawing of `WIDTH` by `HEIGHT`; empty without a
        picture.
    limit : float
        Height of the alarm limit in that drawing, from its top.
    left, width : float
        Where the episode itself lies in it.
    shown : str
        How much time the picture shows.
    """

    began: str
    lasted: str
    peak: str
    tags: str
    order: int
    path: str = ""
    limit: float = 0.0
    left: float = 0.0
    width: float = 0.0
    shown: str = ""


@dataclass(frozen=True, kw_only=True)
class Unexplained:
    """The episodes of one detector.

    Parameters
    ----------
    rule, budget : str
        The rule whose alarms they are, and the budget of its limit.
    rows : tuple of EpisodeRow
        In the order of time.
    command : str
        The command that writes the review list.
    """

    rule: str
    budget: str
    rows: tuple[EpisodeRow, ...]
    command: str


def unexplained(entry: Entry, clock: PageClock | None = None) -> Unexplained | None:
    """Return the unexplained episodes of a detector.

    Parameters
    ----------
    entry : Entry
        The detector.
    clock : PageClock, optional
        The clock shared with other detectors; by default the entry's best.

    Returns
    -------
    Unexplained, optional
        None for a record with attacks, and where no alarm rule could be made.
    """
    evaluation = entry.evaluation
    if evaluation.episodes is None or evaluation.rules is None:
        return None
    by_peak = sorted(evaluation.episodes, key=lambda one: -one.peak)
    return Unexplained(
        rule=evaluation.rules.chosen,
        budget=evaluation.rules.budget,
        rows=tuple(
            _row(entry, one, by_peak.index(one) + 1, clock)
            for one in evaluation.episodes
        ),
        command="sightline episodes STREAM --out review.csv "
        f"--budget {evaluation.rules.budget}",
    )


def _row(
    entry: Entry, episode: Episode, order: int, clock: PageClock | None
) -> EpisodeRow:
    """Return one episode as the page shows it."""
    step_s = entry.evaluation.stream.step_s
    picture = {} if episode.picture is None else _drawn(episode, episode.picture)
    n_shown = 0
    if episode.picture is not None:
        n_shown = episode.picture.step * len(episode.picture.values)
    return EpisodeRow(
        began=charts.time_text(entry, episode.start, clock),
        lasted=row_span(episode.stop - episode.start, step_s),
        peak=peak_words(episode.peak),
        tags=names(episode.tags),
        order=order,
        path=str(picture.get("path", "")),
        limit=float(picture.get("limit", 0.0)),
        left=float(picture.get("left", 0.0)),
        width=float(picture.get("width", 0.0)),
        shown=row_span(n_shown, step_s) if n_shown else "",
    )


def peak_words(peak: float) -> str:
    """Return how far a score is above its limit.

    Examples
    --------
    >>> peak_words(1.234), peak_words(56.7), peak_words(1234567.0)
    ('1.2 times', '57 times', 'over 10,000 times')
    """
    if peak >= 10_000:
        return "over 10,000 times"
    return f"{peak:.1f} times" if peak < 10 else f"{peak:,.0f} times"


def _drawn(episode: Episode, picture: EpisodePicture) -> dict[str, float | str]:
    """Return the path of a picture, the limit's height and the episode's place.

    Examples
    --------
    >>> picture = EpisodePicture(first=10, step=5, values=(0.0, 2.0))
    >>> _drawn(Episode(start=15, stop=20, peak=2.0, tags=()), picture)["path"]
    'M0 48.0H120.0V0.0H240.0V48H0Z'
    """
    n_columns = len(picture.values)
    top = max(*picture.values, 1.25, 0.0)
    column = WIDTH / n_columns
    steps = [
        f"{'M0 ' if k == 0 else 'V'}{HEIGHT * (1 - value / top):.1f}"
        f"H{column * (k + 1):.1f}"
        for k, value in enumerate(picture.values)
    ]
    scale = column / picture.step
    return {
        "path": "".join(steps) + f"V{HEIGHT:.0f}H0Z",
        "limit": round(HEIGHT * (1 - 1 / top), 1),
        "left": round((episode.start - picture.first) * scale, 1),
        "width": round(max((episode.stop - episode.start) * scale, 1.0), 1),
    }
