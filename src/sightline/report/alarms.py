"""Alarms of a detector: better rules, where false alarms come from, and episodes.

What a better alarm rule would do, false alarms by leading channel, hour and state of
the plant, and the strongest alarms of a record without attacks.
"""

import numpy as np

from sightline.data.arrays import NORMAL, Ints
from sightline.data.zones import FIRST_DATE, local_seconds, zone_words
from sightline.evaluation import chart_data
from sightline.evaluation.result import Evaluation
from sightline.judgement.verdicts import RungName
from sightline.report import charts
from sightline.report.charts import JsonObject, PageClock
from sightline.report.entries import Entry
from sightline.rules.choose import caught_words, count_words, load_words
from sightline.rules.episodes import Episode
from sightline.show.evaluations import OWN, P99, RULE_WORDS, cost_of, on_rows, rules_of
from sightline.show.table import Column, Columns, RecordTable, TableCell
from sightline.text import UNKNOWN, names, number, plural, row_span, share

# Channels drawn.
MAX_CHANNELS = 12
# The sentence names channels until they make up this share, at most this many.
MAJORITY = 0.6
MAX_NAMES = 3
# Numbers of the rules in chart data.
_CODES = {OWN: chart_data.OWN, P99: chart_data.P99}


def repair_sentences(evaluation: Evaluation) -> list[str]:
    """Return what carrying out each repair as a rule would do.

    Silent where causes cannot be told apart.
    """
    diagnosis = evaluation.diagnosis
    if diagnosis is None or diagnosis.advice_withheld is not None:
        return []
    repairs = (evaluation.repairs or {}).values()
    return [repair.sentence for repair in repairs if repair.sentence]


def rules_figure(entry: Entry) -> JsonObject | None:
    """Return the curve "attacks caught against alarms a day" of every rule.

    Returns
    -------
    mapping, optional
        ``per_day`` of the budget, ``n_attacks``, ``least`` (where 0 alarms are drawn:
        half an alarm in all judged days), ``curves`` (in hindsight, by other limits)
        and ``points`` (each rule at its own limit, with what chance catches). None if
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
            {"name": one.name, "per_day": one.alarms_per_day, "caught": one.raised}
            for one in facts.curves
        ],
        "points": [
            {
                "name": row.name,
                "kind": kind if row.name != facts.chosen else "chosen",
                "per_day": row.load.alarms_per_day,
                "caught": row.attacks.caught,
                "chance": row.attacks.caught_by_chance,
                "words": count_words(row.load),
            }
            for kind, rows in (("present", facts.present), ("rule", facts.table))
            for row in rows
        ],
    }


def false_alarms(entry: Entry) -> list[JsonObject] | None:
    """Return the false alarms of each rule: runs of alarms that touch no attack.

    Returns
    -------
    list of mapping, optional
        The detector's own rule first, if it has one: ``rule``; ``words`` and ``rate``
        (false alarms a day and share of attack-free time on ``rows``);
        ``count`` of runs, and ``n_read``, how many of them are attributed; ``sentence``
        (the channels that most of them come from); ``channels`` with their stage, count
        and share, most false alarms first; ``hours`` (number that begins in each hour
        of the day; None without dates) and their ``zone``; ``recovery`` (see
        `after_attacks`); ``states`` by channel, of the p99 rule only. None if the
        results come from a version that did not describe false alarms.
    """
    traces = entry.traces
    if (
        traces.channel_names is None
        or traces.episode_rule is None
        or traces.episode_start is None
        or traces.episode_channel is None
    ):
        return None
    channels = tuple(str(name) for name in traces.channel_names)
    time, zone = traces.test_time, entry.evaluation.stream.timezone
    rows: list[JsonObject] = []
    for rule, alarms in rules_of(entry.evaluation).items():
        mine = traces.episode_rule == _CODES[rule]
        starts = traces.episode_start[mine]
        counts = np.bincount(traces.episode_channel[mine], minlength=len(channels))
        leaders: list[dict[str, object]] = [
            {
                "channel": channels[j],
                "stage": entry.stages.get(channels[j]),
                "count": int(counts[j]),
                "share": float(counts[j] / counts.sum()),
            }
            for j in np.argsort(-counts, kind="stable")
            if counts[j]
        ]
        hours = None
        if time is not None and len(time) and time[0] >= FIRST_DATE and len(starts):
            local = local_seconds(np.asarray(time)[starts], zone)
            of_day = (local % 86_400 // 3600).astype(np.int64)
            hours = [int(n) for n in np.bincount(of_day, minlength=24)]
        words, rate = cost_of(entry.evaluation, rule)
        rows.append(
            {
                "rule": f"{RULE_WORDS[rule]} rule",
                "words": words,
                "rate": rate,
                "rows": on_rows(entry.evaluation, rule).rows,
                "count": alarms.false_positive_segments,
                "n_read": len(starts),
                "sentence": _sentence(entry.evaluation, rule, channels, counts),
                "channels": leaders[:MAX_CHANNELS],
                "hours": hours,
                "zone": zone_words(zone),
                "recovery": after_attacks(entry, starts),
                "states": _states(entry) if rule == P99 else [],
            }
        )
    return rows


def _sentence(
    evaluation: Evaluation, rule: RungName, channels: tuple[str, ...], counts: Ints
) -> str:
    """Return a sentence such as "63% of 40 runs come from 2 tags: LIT101 and P101."."""
    n_runs = int(counts.sum())
    if not n_runs:
        in_alarm = rules_of(evaluation)[rule].time_in_alarm
        if in_alarm == 0:
            return "No false alarm."
        return (
            f"No run of alarms lies fully outside attacks; {share(in_alarm, 1)} of "
            "attack-free time (whole test) is in alarm."
        )
    order = [j for j in np.argsort(-counts, kind="stable") if counts[j]]
    shares = np.cumsum([counts[j] / n_runs for j in order])
    k = min(int(np.searchsorted(shares, MAJORITY)) + 1, MAX_NAMES, len(order))
    verb = "comes" if n_runs == 1 else "come"
    of = f"of {plural(n_runs, 'run')} {verb} from {plural(k, 'tag')}"
    leading = names([channels[j] for j in order[:k]])
    return f"{share(float(shares[k - 1]))} {of}: {leading}."


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
            + (f" and catches {caught_words(row.attacks)}" if facts.n_attacks else "")
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


def after_attacks(entry: Entry, starts: Ints) -> dict[str, float] | None:
    """Return the false alarms soon after attacks, when the plant may still recover.

    Parameters
    ----------
    entry : Entry
        The detector.
    starts : array of int
        First row of each false alarm.

    Returns
    -------
    dict, optional
        ``share`` of the false alarms that begin within an attack's length after its
        end, and ``time_share`` of normal time that lies there, for comparison. None
        without attacks or false alarms. Rows that follow two attacks count once.
    """
    segments = entry.evaluation.segments
    if not segments or len(starts) == 0:
        return None
    is_normal = np.asarray(entry.traces.labels) == NORMAL
    is_after = np.zeros(len(is_normal), np.bool_)
    for segment in segments:
        is_after[segment.stop : segment.stop + segment.length] = True
    in_time = float(is_after[is_normal].mean()) if is_normal.any() else 0.0
    return {"share": float(is_after[starts].mean()), "time_share": in_time}


def _states(entry: Entry) -> list[tuple[str, list[dict[str, str]]]]:
    """Return how often false alarms begin in the states of a pump, valve or mode.

    For each channel: the value of each state, and its shares of time and of alarms.
    """
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
                {
                    "value": number(float(value)),
                    "time": share(float(time)),
                    "alarms": share(float(alarms)),
                }
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


def episodes_table(
    entry: Entry, clock: PageClock | None = None
) -> RecordTable[Episode] | None:
    """Return the unexplained episodes of a detector, in the order of time.

    Parameters
    ----------
    entry : Entry
        The detector.
    clock : PageClock, optional
        The clock shared with other detectors; by default the entry's best.

    Returns
    -------
    RecordTable, optional
        None for a record with attacks, and where no alarm rule could be made.
    """
    episodes, step_s = entry.evaluation.episodes, entry.evaluation.stream.step_s
    if episodes is None or entry.evaluation.rules is None:
        return None
    by_peak = sorted(episodes, key=lambda one: -one.peak)

    def began(one: Episode) -> str:
        return charts.time_text(entry, one.start, clock)

    def peak(one: Episode) -> TableCell:
        order = f"no. {by_peak.index(one) + 1} of {len(by_peak)}"
        return TableCell(peak_words(one.peak), notes=(order,))

    def score(one: Episode) -> TableCell:
        if one.picture is None:
            return TableCell(UNKNOWN)
        shown = row_span(one.picture.step * len(one.picture.values), step_s)
        around = f"{began(one)}: {peak_words(one.peak)} the alarm limit at its peak"
        label = f"Score over {shown} around {around}"
        return TableCell(notes=(shown,), drawing=episode_svg(one, label))

    columns: Columns[Episode] = (
        Column("began", "began", began, term="began"),
        Column(
            "lasted",
            "lasted",
            lambda one: row_span(one.stop - one.start, step_s),
            "r",
            term="lasted",
        ),
        Column(
            "peak",
            "peak",
            peak,
            "r",
            term="episode-peak",
            title="Peak\ntimes the limit",
        ),
        Column(
            "tags",
            "tags",
            lambda one: names(one.tags) or UNKNOWN,
            term="strongest-tags",
        ),
        Column("score", "score", score, term="score-around"),
    )
    return RecordTable("Unexplained episodes", columns, episodes)


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


def episode_svg(episode: Episode, label: str) -> str:
    """Return the score around an episode, the episode itself and the limit as SVG."""
    picture = episode.picture
    if picture is None:
        return ""
    n_rows = picture.step * len(picture.values)
    begin = (episode.start - picture.first) / n_rows
    end = (episode.stop - picture.first) / n_rows
    return charts.score_svg(picture.values, begin, end, label)
