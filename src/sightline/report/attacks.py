"""Attacks: facts of each, the answers of the detectors, details, and a matrix of both.

Each attack has one row of facts, which are the same for all detectors, and then one row
for each detector. Such a row opens to its details: the outcome of every rung of the
ladder, what it was compared with, the paper's figures, and a picture from the excerpt
that the results hold around each attack.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sightline.audit.attack_facts import AttackFacts, Movement
from sightline.comparison.joint import telemetry_of
from sightline.comparison.runs import MatchedAttack, TestbedRuns
from sightline.evaluation.result import SegmentResult
from sightline.judgement.confidence import N_DRAWS, confidence_word
from sightline.judgement.event_test import LEVEL, RARE, Flag, Way
from sightline.judgement.ladder import LADDER, Kind
from sightline.judgement.ladder import LADDER_LEVEL as PAID
from sightline.judgement.sentences import FLAG_TEXTS
from sightline.judgement.verdicts import (
    Found,
    RungName,
    RungOutcome,
    Verdict,
    VerdictInfo,
)
from sightline.report import charts
from sightline.report.charts import JsonObject
from sightline.report.entries import OWN, P99, RULE_LABELS, Entry, unique
from sightline.report.figure_tables import localisation_of
from sightline.text import (
    UNKNOWN,
    delay,
    duration,
    number,
    p_value,
    row_span,
    share,
    slug,
)
from sightline.text import names as name_list

# Signals drawn below one another in the picture of an attack.
MAX_SIGNALS = 5
# A peak above this multiple of the limit is not written as a number.
MOST_TIMES = 10_000
# Contributions smaller than the largest by this factor get no colour.
HEAT_RANGE = 200


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The answer to a question about one attack: a word, and what it rests on.

    `key` is the entry of the word in the glossary; empty where it needs none.
    """

    word: str
    reason: str = ""
    key: str = ""


@dataclass(frozen=True, kw_only=True)
class AttackRow:
    """What one detector says of one attack.

    Parameters
    ----------
    key : str
        The link to the row, unique on the page.
    entry : Entry
        The detector; `index` counts its attacks.
    segment : SegmentResult
        What was measured.
    verdict : VerdictInfo
        Row of the table of verdicts, in view of all detectors of the testbed.
    note : str
        What the other detectors say; empty where they change nothing.
    telemetry_note : str
        That the telemetry of another detector's record counts; else empty.
    confidence : str
        As a word and a number; with the verdict of this detector alone where the one
        that is shown differs. Of an undecided one its candidates. Empty where there is
        none.
    found, evidence : Answer
        Whether the present rule alarms because of the attack, and whether the evidence
        is there at all.
    stages : tuple of str
        Stages of the targets; without targets, of the channels with the evidence.
    coverage : float
        Share of rows in alarm of the present rule.
    first_alarm : int, optional
        Rows until its first alarm.
    covered, delayed : str
        Both as text.
    """

    key: str
    entry: Entry
    index: int
    segment: SegmentResult
    verdict: VerdictInfo
    note: str
    telemetry_note: str
    confidence: str
    found: Answer
    evidence: Answer
    stages: tuple[str, ...]
    coverage: float
    first_alarm: int | None
    covered: str
    delayed: str


@dataclass(frozen=True, kw_only=True)
class AttackGroup:
    """One attack: its facts, the same for all detectors, and what each detector says.

    Parameters
    ----------
    key : str
        The link to the attack, unique on the page.
    id, testbed : str
        As `sightline.comparison.runs` names them.
    listed : str
        Name and note of the attack list; empty where there are none.
    targets, stages : tuple of str
        Channels under attack, and the stages they belong to.
    start, length : int
        First row and number of rows, of the first detector that has the attack.
    began, lasted, aftermath : str
        Begin, duration, and how long the plant recovers, as text.
    telemetry : Answer
        What the telemetry's own test says.
    truth : str
        What a simulator knows of the attack; empty where there is none.
    notes : tuple of str
        What the detectors together say of the telemetry's test.
    rows : tuple of AttackRow
        In the order of the page.
    """

    key: str
    id: str
    testbed: str
    listed: str
    targets: tuple[str, ...]
    stages: tuple[str, ...]
    start: int
    length: int
    began: str
    lasted: str
    aftermath: str
    telemetry: Answer
    truth: str
    notes: tuple[str, ...]
    rows: tuple[AttackRow, ...]


def _row(entry: Entry, i: int, facts: AttackFacts | None) -> AttackRow:
    """Return what one detector says of one of its attacks, whose facts are given."""
    segment, step = entry.evaluation.segments[i], entry.evaluation.stream.step_s
    coverage, first_alarm = _alarms(entry, i)
    return AttackRow(
        key=entry.attack_keys[i],
        entry=entry,
        index=i,
        segment=segment,
        verdict=entry.verdicts[i],
        note=entry.joint[i].note if entry.joint else "",
        telemetry_note=_telemetry_note(segment.telemetry, facts),
        confidence=_confidence_text(segment, entry.verdicts[i]),
        found=_found_answer(entry, segment),
        evidence=_evidence_answer(segment, entry.verdicts[i]),
        stages=attack_stages(segment, entry.stages),
        coverage=coverage,
        first_alarm=first_alarm,
        covered=share(coverage),
        delayed=delay(first_alarm, step),
    )


def _confidence_text(segment: SegmentResult, shown: VerdictInfo) -> str:
    """Return a confidence as a word and a number, with the verdict that it is of."""
    if segment.confidence is None or segment.verdict is None:
        return ""
    text = f"{confidence_word(segment.confidence)}, {share(segment.confidence)}"
    if segment.verdict == Verdict.UNDECIDED:
        leading = list((segment.alternatives or {}).items())[:2]
        text = " or ".join(f"{word} {share(part)}" for word, part in leading)
    return text if segment.verdict == shown.word else f"alone {segment.verdict}: {text}"


def _alarms(entry: Entry, i: int) -> tuple[float, int | None]:
    """Return share of rows in alarm and first alarm of the present rule."""
    segment, own = entry.evaluation.segments[i], entry.traces.own_first_alarm
    rung = (segment.ladder or {}).get(OWN)
    if entry.main_rule != OWN or rung is None or own is None or i >= len(own):
        return segment.coverage, segment.first_alarm
    return rung.coverage, int(own[i]) if own[i] >= 0 else None


def _found_answer(entry: Entry, segment: SegmentResult) -> Answer:
    """Return whether the present rule alarms because of an attack."""
    facts = entry.evaluation.diagnosis
    if segment.found is None:
        return Answer(word=UNKNOWN)
    if facts is not None and facts.is_standing:
        return Answer(word="no", reason="the alarm never stops")
    word = "yes" if segment.found.is_found else "no"
    return Answer(word=word, reason=_reason(segment, segment.found))


def _evidence_answer(segment: SegmentResult, shown: VerdictInfo) -> Answer:
    """Return whether the deviation score, or a repair of it, shows an attack."""
    if segment.evidence is None:
        return Answer(word=UNKNOWN)
    reason = _reason(segment, segment.evidence)
    if segment.evidence.is_found:
        # The verdict names a repair that shows it more clearly than the whole score.
        proven = [rung for rung in LADDER.values() if rung.proves == shown.word]
        if proven and proven[0].name != RungName.EVIDENCE:
            by = f"{reason}; clearer by the repair for {shown.word}"
            return Answer(word="yes, but clearer by a repair", reason=by)
        return Answer(word="yes", reason=reason)
    probe = (segment.ladder or {}).get(P99)
    if probe is not None and probe.visible:
        return Answer(word="yes", reason=f"by the {RULE_LABELS[P99]}")
    causes = [
        LADDER[name].proves
        for name, outcome in (segment.ladder or {}).items()
        if outcome.visible and name in LADDER and LADDER[name].kind is not Kind.RULE
    ]
    if causes:
        return Answer(word="by a repair", reason=name_list([c for c in causes if c]))
    return Answer(word="no", reason=reason)


def _reason(segment: SegmentResult, found: Found) -> str:
    """Return p-value and statistic of an answer; no p-value with few windows."""
    if Flag.FEW_WINDOWS in (segment.flags or ()):
        return "few stretches to compare with"
    by = f", {found.statistic}" if found.is_found else ""
    if not found.is_found and found.p_value <= LEVEL:
        whole = segment.ladder_p_value
        by = ", but too small an effect"
        if found.rule == RungName.EVIDENCE and whole is not None and whole > PAID:
            by = f", but all repairs together {p_value(whole)}"
    return f"{p_value(found.p_value)}{by}"


def attack_groups(entries: Sequence[Entry]) -> list[AttackGroup]:
    """Return the attacks of all testbeds, each with what its detectors say.

    Parameters
    ----------
    entries : sequence of Entry
        In the order of the page. Entries of one testbed share a clock.

    Returns
    -------
    list of AttackGroup
        Testbed by testbed, in time order, matched across detectors by
        `sightline.comparison.runs`.
    """
    clocks = charts.clocks_by_testbed(entries)
    groups = []
    keys: set[str] = set()
    for testbed in clocks:
        mine = {entry.label: entry for entry in entries if entry.testbed == testbed}
        for attack in TestbedRuns(testbed, tuple(mine.values())).attacks:
            facts = telemetry_of(attack)
            rows = tuple(
                _row(entry, attack.places[label], facts)
                for label, entry in mine.items()
                if label in attack.places
            )
            # The keys of rows have one more underscore, which no slug holds.
            key = unique(f"attack-{slug(testbed)}_{slug(attack.id)}", keys)
            groups.append(_group(key, attack, rows, clocks[testbed]))
    return groups


def _group(
    key: str,
    attack: MatchedAttack,
    rows: tuple[AttackRow, ...],
    clock: charts.PageClock,
) -> AttackGroup:
    """Return the facts of an attack, and its rows."""
    first = rows[0]
    segment, step = first.segment, first.entry.evaluation.stream.step_s
    # Facts that a recording carries, judged or not.
    recording = first.entry.evaluation.recording
    recorded = {one.id: one for one in (recording.attacks if recording else ())}
    facts = telemetry_of(attack) or recorded.get(segment.id)
    targets = (one.targets for one in attack.segments.values())
    said = ((row.segment.name, row.segment.note) for row in rows)
    return AttackGroup(
        key=key,
        id=attack.id,
        testbed=first.entry.testbed,
        listed=next((": ".join(filter(None, one)) for one in said if any(one)), ""),
        targets=tuple(next((one for one in targets if one), ())),
        stages=next((row.stages for row in rows if row.stages), ()),
        start=segment.start,
        length=segment.length,
        began=charts.time_text(first.entry, segment.start, clock),
        lasted=row_span(segment.length, step),
        aftermath=_aftermath(attack, facts),
        telemetry=_telemetry_answer(facts),
        truth=_truth(facts),
        notes=tuple(dict.fromkeys(row.note for row in rows if row.note)),
        rows=rows,
    )


def _aftermath(attack: MatchedAttack, facts: AttackFacts | None) -> str:
    """Return how long the plant recovers, by the telemetry or else by each detector."""
    measured = [facts] if facts is not None else list(attack.segments.values())
    known = sorted({s.aftermath_s for s in measured if s.aftermath_s is not None})
    if not known:
        return UNKNOWN
    if known == [0.0]:
        return "none"
    least = duration(known[0]) if known[0] else "none"
    return " to ".join(dict.fromkeys([least, duration(known[-1])]))


def _telemetry_answer(facts: AttackFacts | None) -> Answer:
    """Return what the telemetry's own test says of an attack, in a few words."""
    if facts is None or facts.movement is None:
        return Answer(word="not judged", reason="no usable telemetry was given")
    word = f"{facts.movement}, {p_value(facts.p_value)}"
    key = f"movement-{facts.movement}"
    if facts.movement is not Movement.MOVES:
        not_told = f"not told from {facts.n_windows} attack-free stretches"
        is_still = facts.movement is Movement.STILL
        return Answer(word=word, reason=not_told if is_still else "", key=key)
    after = "" if not facts.onset_s else f", {duration(facts.onset_s)} after its start"
    most = f"most in {name_list(facts.channels)}{after}"
    return Answer(word=word, reason=most, key=key)


def _telemetry_note(own: AttackFacts | None, facts: AttackFacts | None) -> str:
    """Return a sentence if a record's own facts are not those that count for all."""
    if own is None or facts is None or own.movement == facts.movement:
        return ""
    return (
        "The telemetry of another detector's record counts, which has as many or more "
        f"attack-free stretches: {facts.movement}, {p_value(facts.p_value)}."
    )


def _truth(facts: AttackFacts | None) -> str:
    """Return what a simulator knows of an attack."""
    if facts is None or facts.moves_in_truth is None:
        return ""
    what = "moves" if facts.moves_in_truth else "moves nothing"
    return f"by the simulator it {what}" + ("" if facts.moves_in_truth else " recorded")


def attack_stages(segment: SegmentResult, stages: dict[str, str]) -> tuple[str, ...]:
    """Return the stages of an attack's targets, else of its evidence, without doubles.

    Parameters
    ----------
    segment : SegmentResult
        The attack.
    stages : dict of str to str
        The stage of each channel.
    """
    for channels in (segment.targets, segment.evidence_channels):
        named = [stages[name] for name in channels or () if name in stages]
        if named:
            return tuple(dict.fromkeys(named))
    return ()


def attack_details(entry: Entry) -> list[JsonObject]:
    """Return what the page draws when the row of an attack is opened.

    Returns
    -------
    list of mapping
        One for each attack: ``ladder`` (see `ladder_bars`), ``judged`` (how it was
        judged: names, texts, glossary keys), ``ceiling`` (how early any rule could have
        raised it, a sentence for each rule), ``facts`` (the paper's figures, likewise),
        ``signature`` and ``signature_agrees`` (the paper's reading, and whether the
        ladder agrees), ``localisation`` (which tags carry it; None without a known
        target), and ``picture`` (None without an excerpt).
    """
    return [
        {
            "ladder": ladder_bars(segment),
            "judged": _judged(entry, segment),
            # A sentence that holds for both rules alike is said once.
            "ceiling": list(
                dict.fromkeys(rule.sentence for rule in segment.ceiling.rules)
            )
            if segment.ceiling
            else [],
            "facts": _facts(segment),
            "signature": segment.signature and segment.signature.reading,
            "signature_agrees": segment.signature_agrees,
            "localisation": localisation_of(entry, segment.id),
            "picture": _picture(entry, i, segment),
        }
        for i, segment in enumerate(entry.evaluation.segments)
    ]


def ladder_bars(segment: SegmentResult) -> list[JsonObject]:
    """Return the outcome of each rung of the ladder for one attack.

    Returns
    -------
    list of mapping
        In the order of `LADDER`; rungs that were not tried are left out. Each has the
        fields of `RungOutcome`, its name and its label; ``is_coverage`` is false for
        a rung whose number is no share of the attack's rows. ``note`` says in words
        how it compares with attack-free time, and ``shown`` by what it stands out.
    """
    ladder = segment.ladder or {}
    few = Flag.FEW_WINDOWS in (segment.flags or ())
    return [
        {
            "rung": name,
            "term": f"rung-{name}",
            "label": rung.label,
            "is_coverage": rung.is_coverage,
            "note": _rung_note(ladder[name], is_coverage=rung.is_coverage),
            "shown": _shown(ladder[name], few=few),
        }
        | vars(ladder[name])
        for name, rung in LADDER.items()
        if name in ladder
    ]


def _rung_note(outcome: RungOutcome, *, is_coverage: bool) -> str:
    """Return what attack-free stretches do on a rung, and what it used."""
    if not is_coverage:
        note = (
            "mean energy as a share of the usual; lowest attack-free stretch "
            f"{share(outcome.limit)}"
        )
    else:
        note = (
            f"attack-free stretches {share(outcome.calm)}, {share(RARE)} of them up to "
            f"{share(outcome.limit)}"
        )
    spans = [f"{by} rows" if by.isdecimal() else by for by in outcome.by]
    return f"{note}; {', '.join(spans)}" if spans else note


def _shown(outcome: RungOutcome, *, few: bool) -> str:
    """Return by which statistics a rung shows an attack, and its p-value."""
    multiples = {Way.PEAK: outcome.peak, Way.ONSET: outcome.onset}
    ways = []
    for way in outcome.ways:
        multiple = multiples.get(way)
        is_number = multiple is not None and multiple < MOST_TIMES
        times = f" {number(float(f'{multiple:.2g}'))} \u00d7 limit" if is_number else ""
        ways.append(f"{way}{times}")
    by = f"shown by {name_list(ways)}" if ways else ""
    if outcome.visible and not ways:
        by = "shown"
    chance = "" if few or outcome.p_value is None else p_value(outcome.p_value)
    return "; ".join(filter(None, [by or "not shown", chance]))


def _judged(entry: Entry, segment: SegmentResult) -> list[tuple[str, str, str]]:
    """Return how an attack was judged: names, texts, and keys of the glossary."""
    if segment.verdict is None:
        return []
    facts = entry.evaluation.diagnosis
    rule = RULE_LABELS[facts.rule if facts and facts.rule else P99]
    flags = [FLAG_TEXTS[flag] for flag in segment.flags or ()]
    q_values = [
        f"{name} {one.q_value:.2g}"
        for name, one in (("rule", segment.found), ("evidence", segment.evidence))
        if one is not None and Flag.FEW_WINDOWS not in (segment.flags or ())
    ]
    compared = ""
    if (windows := segment.windows) is not None:
        length = row_span(windows.length, entry.evaluation.stream.step_s)
        compared = (
            f"{windows.count} attack-free stretches of {length}, out of "
            f"{windows.matched} in a similar state, {windows.disjoint} of which do not "
            "overlap"
        )
    pairs = [
        ("Rule in use", rule, "rule"),
        ("Confidence", _confidence(segment), "confidence"),
        ("q (over all attacks)", ", ".join(q_values), "q-value"),
        (
            "All repairs together",
            "" if segment.ladder_p_value is None else p_value(segment.ladder_p_value),
            "all-repairs",
        ),
        ("Also shown by", name_list(segment.contributing or ()), "also-shown"),
        ("Compared with", compared, "compared-with"),
        ("Limits", "; ".join(flags), "limits"),
        (
            "Recovery",
            f"{duration(segment.aftermath_s)} after it are not used as attack-free time"
            if segment.aftermath_s
            else "",
            "aftermath",
        ),
    ]
    return [one for one in pairs if one[1]]


def _confidence(segment: SegmentResult) -> str:
    """Return how sure a verdict is, and what else it may be."""
    if segment.confidence is None:
        return ""
    others = [
        f"{word} {share(part)}" for word, part in (segment.alternatives or {}).items()
    ]
    if segment.verdict == Verdict.UNDECIDED:
        return f"too low; of {N_DRAWS} redrawn versions {name_list(others)}"
    word = confidence_word(segment.confidence)
    text = f"{word}: {share(segment.confidence)} of {N_DRAWS} redrawn versions agree"
    return f"{text}; else {name_list(others)}" if others else text


def _facts(segment: SegmentResult) -> list[tuple[str, str, str]]:
    """Return the paper's figures of one attack: names, values, glossary keys."""
    usable = "" if segment.sdr_usable else " (not usable)"
    shrunk = "" if segment.reliable else " (short window)"
    return [
        ("AUC", share(segment.auc, 1), "auc"),
        ("AUC against normal rows nearby", share(segment.auc_nearby, 1), "auc-nearby"),
        ("D_FULL", number(segment.d_full) + shrunk, "d-full"),
        ("D_MS", number(segment.d_ms), "d-ms"),
        ("D_eff", number(segment.d_eff), "d-eff"),
        ("SDR", number(segment.sdr) + usable, "sdr"),
    ]


def _picture(entry: Entry, i: int, segment: SegmentResult) -> JsonObject | None:
    """Return the excerpt around an attack; None if the results hold none.

    The contributions of the channels are on a log scale, packed as bytes.
    """
    traces = entry.traces
    if (
        traces.channel_names is None
        or traces.excerpt_rows is None
        or traces.excerpt_columns is None
        or traces.excerpt_channels is None
        or traces.excerpt_contributions is None
        or i >= len(traces.excerpt_rows)
    ):
        return None
    start, stop = traces.excerpt_rows[i]
    n_columns = int(traces.excerpt_columns[i])
    indices = traces.excerpt_channels[i]
    places = np.flatnonzero(indices >= 0)
    channels = [str(traces.channel_names[j]) for j in indices[places]]
    heat = traces.excerpt_contributions[i][places, :n_columns].astype(np.float64)
    least = max(float(np.nanmax(heat, initial=0.0)) / HEAT_RANGE, 1e-6)
    steps, low, high = charts.quantised(np.log10(np.maximum(heat, least)), 255)
    return {
        "start": int(start),
        "stop": int(stop),
        "columns": n_columns,
        "channels": channels,
        "targets": [name for name in channels if name in (segment.targets or ())],
        "heat": {**charts.packed(steps), "low": low, "high": high},
        "signals": _signals(entry, i, segment, channels, n_columns),
    }


def _signals(
    entry: Entry,
    i: int,
    segment: SegmentResult,
    channels: Sequence[str],
    n_columns: int,
) -> list[JsonObject]:
    """Return the lowest and highest value of each column for at most `MAX_SIGNALS`.

    Targets of the attack and channels with the evidence come first.
    """
    signals, telemetry = entry.traces.excerpt_signals, entry.traces.excerpt_telemetry
    if signals is None or telemetry is None:
        return []
    named = {*(segment.targets or ()), *(segment.evidence_channels or ())}
    order = sorted(range(len(channels)), key=lambda m: (channels[m] not in named, m))
    rows: list[JsonObject] = []
    for m in order[:MAX_SIGNALS]:
        values = signals[i, m, :n_columns, :2].astype(np.float64)
        steps, low, high = charts.quantised(values, 255)
        rows.append(
            {
                "channel": channels[m],
                "is_telemetry": bool(telemetry[i][m] >= 0),
                "low": low,
                "high": high,
                "values": charts.packed(np.ascontiguousarray(steps.T)),
            }
        )
    return rows


@dataclass(frozen=True, kw_only=True)
class MatrixCell:
    """The verdict of one detector on one attack; `key` links to its row."""

    verdict: VerdictInfo
    detector: str
    key: str


@dataclass(frozen=True, kw_only=True)
class MatrixRow:
    """One attack of a testbed.

    Parameters
    ----------
    id : str
        As `sightline.comparison.runs` names it.
    targets : tuple of str
        Channels under attack, from the first detector that names them.
    cells : list of MatrixCell or None
        One for each detector; None if the detector does not have the attack.
    """

    id: str
    targets: tuple[str, ...]
    cells: list[MatrixCell | None]

    @property
    def n_detected(self) -> int:
        """Number of detectors whose verdict is detected."""
        words = [cell.verdict.word for cell in self.cells if cell is not None]
        return words.count(Verdict.DETECTED)


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """Attacks of one testbed by detectors."""

    detectors: list[str]
    rows: list[MatrixRow]

    @property
    def n_missed_by_all(self) -> int:
        """Number of attacks that no detector detects."""
        return sum(row.n_detected == 0 for row in self.rows)

    @property
    def n_seen_by_all(self) -> int:
        """Number of attacks that every detector detects."""
        return sum(row.n_detected == len(self.detectors) for row in self.rows)


def matrix(entries: Sequence[Entry]) -> Matrix | None:
    """Return attacks by detectors of one testbed.

    Parameters
    ----------
    entries : sequence of Entry
        All entries of one testbed. Those without attacks are left out.

    Returns
    -------
    Matrix, optional
        With every attack that any detector has, in time order, matched across
        detectors by `sightline.comparison.runs`. None without attacks.
    """
    attacked = [entry for entry in entries if entry.evaluation.segments]
    if not attacked:
        return None
    rows = []
    for attack in TestbedRuns(attacked[0].testbed, tuple(attacked)).attacks:
        targets = (segment.targets for segment in attack.segments.values())
        cells = [
            MatrixCell(
                verdict=entry.verdicts[attack.places[entry.label]],
                detector=entry.label,
                key=entry.attack_keys[attack.places[entry.label]],
            )
            if entry.label in attack.places
            else None
            for entry in attacked
        ]
        named = next((one for one in targets if one), ())
        rows.append(MatrixRow(id=attack.id, targets=tuple(named), cells=cells))
    return Matrix(detectors=[entry.label for entry in attacked], rows=rows)
