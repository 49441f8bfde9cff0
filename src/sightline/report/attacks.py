"""Attacks: facts of each, the answers of the detectors, and details.

Each attack has one row of facts, which are the same for all detectors, and then one row
for each detector. Such a row opens to its details: the outcome of every rung of the
ladder, what it was compared with, the paper's figures, and a picture from the excerpt
that the results hold around each attack.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

import numpy as np

from sightline.audit.attack_facts import AttackFacts, Movement
from sightline.comparison.runs import MatchedAttack, TestbedRuns, telemetry_of
from sightline.data.segments import AttackOutcome
from sightline.evaluation.localisation import Method, Moment
from sightline.evaluation.result import SegmentResult
from sightline.judgement.event_test import LEVEL, RARE, Flag, Way
from sightline.judgement.judge import FLAG_TEXTS
from sightline.judgement.ladder import LADDER, N_DRAWS, Kind, confidence_word
from sightline.judgement.ladder import LADDER_LEVEL as PAID
from sightline.judgement.verdicts import (
    Found,
    RungName,
    Verdict,
    VerdictInfo,
    agrees_with_owners,
)
from sightline.report import charts
from sightline.report.charts import JsonObject
from sightline.report.entries import Entry, unique
from sightline.show.evaluations import OWN, P99, RULE_WORDS, rules_of
from sightline.show.table import Column, Columns, RecordTable, TableCell
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
CAUGHT = {True: "caught", False: "not caught"}
# A peak above this multiple of the limit is not written as a number.
MOST_TIMES = 10_000
# Attacks in the open, letters of the name of one, columns of the picture of its score.
MOST_LINES, MOST_LETTERS, SCORE_COLUMNS = 40, 48, 60
# Contributions smaller than the largest by this factor get no colour.
HEAT_RANGE = 200


class Answer(NamedTuple):
    """The answer to a question about one attack: a word, and what it rests on.

    `key` is the entry of the word in the glossary; empty where it needs none.
    """

    word: str
    reason: str = ""
    key: str = ""


@dataclass(frozen=True)
class AttackRow:
    """What one detector says of one attack.

    Parameters
    ----------
    entry : Entry
        The detector.
    index : int
        The place of the attack among those of the detector.
    facts : AttackFacts, optional
        What the telemetry says of the attack, for all detectors.
    """

    entry: Entry
    index: int
    facts: AttackFacts | None

    @property
    def key(self) -> str:
        """The link to the row, unique on the page."""
        return self.entry.attack_keys[self.index]

    @property
    def segment(self) -> SegmentResult:
        """What was measured."""
        return self.entry.evaluation.segments[self.index]

    @property
    def verdict(self) -> VerdictInfo:
        """The verdict in view of all detectors of the testbed."""
        return self.entry.verdicts[self.index]

    @property
    def note(self) -> str:
        """What the other detectors say; empty where they change nothing."""
        return self.entry.joint[self.index].note if self.entry.joint else ""

    @property
    def telemetry_note(self) -> str:
        """That the telemetry of another detector's record counts; else empty."""
        own, facts = self.segment.telemetry, self.facts
        if own is None or facts is None or own.p_value == facts.p_value:
            return ""
        return (
            "The telemetry of another detector's record counts, which has as many or "
            f"more attack-free stretches: {facts.movement}, {p_value(facts.p_value)}."
        )

    @property
    def confidence(self) -> str:
        """How sure the verdict is, as a word and a number; empty if that is not known.

        With the verdict of this detector alone where the one that is shown differs. Of
        an undecided one its candidates.
        """
        segment = self.segment
        if segment.confidence is None or segment.verdict is None:
            return ""
        text = f"{confidence_word(segment.confidence)}, {share(segment.confidence)}"
        if segment.verdict == Verdict.UNDECIDED:
            leading = list((segment.alternatives or {}).items())[:2]
            text = " or ".join(f"{word} {share(part)}" for word, part in leading)
        is_same = segment.verdict == self.verdict.word
        return text if is_same else f"alone {segment.verdict}: {text}"

    @property
    def found(self) -> Answer:
        """Whether alarms of the present rule single the attack out, and catch it."""
        answer, facts = self.segment.found, self.entry.evaluation.diagnosis
        if answer is None:
            return Answer(UNKNOWN)
        word, reason = "yes" if answer.is_found else "no", self._reason(answer)
        if facts is not None and facts.is_standing:
            word, reason = "no", "the alarm never stops"
        if self.is_caught is None:
            return Answer(word, reason)
        return Answer(word, f"{CAUGHT[self.is_caught]}; {reason}")

    @property
    def evidence(self) -> Answer:
        """Whether the deviation score, or a repair of it, shows the attack."""
        answer, ladder = self.segment.evidence, self.segment.ladder or {}
        if answer is None:
            return Answer(UNKNOWN)
        reason, word = self._reason(answer), self.verdict.word
        if answer.is_found:
            # The verdict names a repair that shows it more clearly than the score.
            proven = [rung for rung in LADDER.values() if rung.proves == word]
            if proven and proven[0].name != RungName.EVIDENCE:
                by = f"{reason}; clearer by the repair for {word}"
                return Answer("yes, but clearer by a repair", by)
            return Answer("yes", reason)
        if P99 in ladder and ladder[P99].visible:
            return Answer("yes", "by the p99 rule")
        causes = [
            LADDER[name].proves
            for name, outcome in ladder.items()
            if outcome.visible and name in LADDER and LADDER[name].kind is not Kind.RULE
        ]
        if causes:
            return Answer("by a repair", name_list([c for c in causes if c]))
        return Answer("no", reason)

    def _reason(self, found: Found) -> str:
        """Return p-value and statistic of an answer; no p-value with few windows."""
        if Flag.FEW_WINDOWS in (self.segment.flags or ()):
            return "few stretches to compare with"
        by = f", {found.statistic}" if found.is_found else ""
        if not found.is_found and found.p_value <= LEVEL:
            whole = self.segment.ladder_p_value
            by = ", but too small an effect"
            if found.rule == RungName.EVIDENCE and whole is not None and whole > PAID:
                by = f", but all repairs together {p_value(whole)}"
        return f"{p_value(found.p_value)}{by}"

    @property
    def stages(self) -> tuple[str, ...]:
        """Stages of the targets; without targets, of the channels with the evidence."""
        stages = self.entry.stages
        for channels in (self.segment.targets, self.segment.evidence_channels):
            named = [stages[name] for name in channels or () if name in stages]
            if named:
                return tuple(dict.fromkeys(named))
        return ()

    @property
    def alarms(self) -> tuple[float, int | None]:
        """Share of rows over the limit of the present rule, and rows to the first."""
        rung = (self.segment.ladder or {}).get(OWN)
        own = self.entry.first_alarms(OWN)
        if self.entry.main_rule != OWN or rung is None or not own:
            return self.segment.coverage, self.segment.first_alarm
        return rung.coverage, own[self.index]

    @property
    def is_caught(self) -> bool | None:
        """Whether the rule in use catches it; None if that was not counted."""
        attacks = rules_of(self.entry.evaluation)[self.entry.main_rule].attacks
        return None if attacks is None else self.segment.id in attacks.which

    @property
    def delayed(self) -> str:
        """The time to the first row over the limit."""
        return delay(self.alarms[1], self.entry.evaluation.stream.step_s)


@dataclass(frozen=True)
class AttackGroup:
    """One attack: its facts, the same for all detectors, and what each detector says.

    Parameters
    ----------
    key : str
        The link to the attack, unique on the page.
    attack : MatchedAttack
        Matched across detectors by `sightline.comparison.runs`.
    clock : PageClock
        That all detectors of the testbed share.
    rows : tuple of AttackRow
        In the order of the page; first row and number of rows are those of the first.
    """

    key: str
    attack: MatchedAttack
    clock: charts.PageClock
    rows: tuple[AttackRow, ...]

    @property
    def entry(self) -> Entry:
        """The first detector that has the attack."""
        return self.rows[0].entry

    @property
    def segment(self) -> SegmentResult:
        """The attack as the first detector has it."""
        return self.rows[0].segment

    @property
    def facts(self) -> AttackFacts | None:
        """What the telemetry says of it, judged or carried by the recording."""
        recording = self.entry.evaluation.recording
        recorded = {one.id: one for one in (recording.attacks if recording else ())}
        return telemetry_of(self.attack) or recorded.get(self.segment.id)

    @property
    def listed(self) -> str:
        """Name and note of the attack list; empty where there are none."""
        said = ((row.segment.name, row.segment.note) for row in self.rows)
        return next((": ".join(filter(None, one)) for one in said if any(one)), "")

    @property
    def line(self) -> TableCell:
        """Its id, which leads to what every detector says of it, and its name."""
        said = self.listed if len(self.listed) <= MOST_LETTERS else ""
        for word in () if said else self.listed.split():
            if len(said) + len(word) > MOST_LETTERS:
                said += " \u2026"
                break
            said = f"{said} {word}".strip()
        return TableCell(self.attack.id, href=self.key, notes=(said,) if said else ())

    @property
    def picture(self) -> str:
        """The score around it, as SVG, on a scale that shows 1% and 100 limits."""
        energy, segment = self.entry.traces.test_energy, self.segment
        limit = self.entry.evaluation.probe.tau99
        first = max(0, segment.start - segment.length)
        around = energy[first : segment.stop + segment.length]
        if not limit or not np.isfinite(limit) or not len(around):
            return ""
        step = -(-len(around) // SCORE_COLUMNS)
        edges = np.arange(0, len(around), step)
        peaks = np.maximum.reduceat(np.nan_to_num(around / limit, posinf=1e9), edges)
        times = f"{number(float(peaks.max()))} times the alarm limit"
        label = f"Score around attack {escape(self.attack.id)}: at most {times}"
        return charts.score_svg(
            [float(value) for value in np.log10(1 + 9 * peaks)],
            (segment.start - first) / len(edges) / step,
            (segment.stop - first) / len(edges) / step,
            label,
        )

    @property
    def targets(self) -> tuple[str, ...]:
        """Channels under attack, from the first detector that names them."""
        return targets_of(self.attack)

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that they belong to."""
        return next((row.stages for row in self.rows if row.stages), ())

    @property
    def began(self) -> str:
        """When it began."""
        return charts.time_text(self.entry, self.segment.start, self.clock)

    @property
    def lasted(self) -> str:
        """How long it lasted."""
        return row_span(self.segment.length, self.entry.evaluation.stream.step_s)

    @property
    def aftermath(self) -> str:
        """How long the plant recovers, by the telemetry or else by each detector."""
        facts, segments = self.facts, self.attack.segments.values()
        measured = [facts] if facts is not None else segments
        known = sorted({s.aftermath_s for s in measured if s.aftermath_s is not None})
        if not known:
            return UNKNOWN
        if known == [0.0]:
            return "none"
        least = duration(known[0]) if known[0] else "none"
        return " to ".join(dict.fromkeys([least, duration(known[-1])]))

    @property
    def telemetry(self) -> Answer:
        """What the telemetry's own test says, in a few words."""
        facts = self.facts
        if facts is None or facts.movement is None:
            return Answer("not judged", "no usable telemetry was given")
        reason = ""
        if facts.movement is Movement.MOVES:
            onset = facts.onset_s
            after = f", {duration(onset)} after its start" if onset else ""
            reason = f"most in {name_list(facts.channels)}{after}"
        elif facts.movement is Movement.STILL:
            reason = f"not told from {facts.n_windows} attack-free stretches"
        word = f"{facts.movement}, {p_value(facts.p_value)}"
        return Answer(word, reason, f"movement-{facts.movement}")

    @property
    def truth(self) -> str:
        """What a simulator knows of it; empty where there is none."""
        moves = None if self.facts is None else self.facts.moves_in_truth
        if moves is None:
            return ""
        return f"by the simulator it moves{'' if moves else ' nothing recorded'}"

    @property
    def owners(self) -> str:
        """What the owners say became of it, and which verdicts disagree."""
        outcome = self.segment.outcome
        if outcome in (None, AttackOutcome.UNKNOWN):
            return ""
        against = [
            row.entry.label
            for row in self.rows
            if agrees_with_owners(Verdict(row.verdict.word), outcome) is False
        ]
        said = f"the owners say: {outcome.words}"
        if not against:
            return said
        seen = "no trace" if outcome is AttackOutcome.HAD_EFFECT else "evidence"
        return f"{said}; {name_list(against)} disagree, with {seen} of it"

    @property
    def notes(self) -> list[str]:
        """What the detectors together say of the telemetry's test."""
        return list(dict.fromkeys(row.note for row in self.rows if row.note))


def targets_of(attack: MatchedAttack) -> tuple[str, ...]:
    """Return the channels under attack, from the first detector that names them."""
    targets = (segment.targets for segment in attack.segments.values())
    return tuple(next((one for one in targets if one), ()))


def attack_groups(entries: Sequence[Entry]) -> list[AttackGroup]:
    """Return the attacks of all testbeds, each with what its detectors say.

    Parameters
    ----------
    entries : sequence of Entry
        In the order of the page. Entries of one testbed share a clock.

    Returns
    -------
    list of AttackGroup
        Testbed by testbed, in time order.
    """
    groups = []
    keys: set[str] = set()
    for testbed, clock in charts.clocks_by_testbed(entries).items():
        mine = {entry.label: entry for entry in entries if entry.testbed == testbed}
        for attack in TestbedRuns(testbed, tuple(mine.values())).attacks:
            facts = telemetry_of(attack)
            rows = tuple(
                AttackRow(entry, attack.places[label], facts)
                for label, entry in mine.items()
                if label in attack.places
            )
            # The keys of rows have one more underscore, which no slug holds.
            key = unique(f"attack-{slug(testbed)}_{slug(attack.id)}", keys)
            groups.append(AttackGroup(key, attack, clock, rows))
    return groups


def explained(
    groups: Sequence[AttackGroup], testbed: str
) -> tuple[RecordTable[AttackGroup], RecordTable[AttackGroup]]:
    """Return one line for each attack of a testbed: its cause, evidence and picture.

    By the first detector that has it. The first `MOST_LINES` attacks, and the others.
    """
    mine = [one for one in groups if one.entry.testbed == testbed]

    def cause(group: AttackGroup) -> TableCell:
        row = group.rows[0]
        words = row.verdict.in_words(row.entry.evaluation.stream.p)
        term = f"verdict-{row.verdict.word}"
        sure = (row.confidence,) if row.confidence else ()
        return TableCell(words, mark=row.verdict, term=term, notes=sure)

    def evidence(group: AttackGroup) -> TableCell:
        tags = group.segment.evidence_channels or ()
        found = group.segment.evidence
        notes = () if found is None else (p_value(found.p_value),)
        return TableCell(name_list(tags, 2) or UNKNOWN, notes=notes)

    def caught(group: AttackGroup) -> TableCell:
        counts = [row.is_caught for row in group.rows]
        if None in counts:
            return TableCell(UNKNOWN)
        by = f"by {counts.count(True)} of {len(counts)} detectors"
        found = group.rows[0].segment.found
        is_chance = found is not None and not found.is_found
        word = ("yes, as by chance" if is_chance else "yes") if counts[0] else "no"
        return TableCell(word, notes=(by,) * (len(counts) > 1))

    columns: Columns[AttackGroup] = (
        Column("attack", "attack", lambda g: g.line, term="attack"),
        Column(
            "began",
            "began",
            lambda g: TableCell(f"{g.began}\n{g.lasted}"),
            term="start",
            title="Began\nlasted",
        ),
        Column(
            "targets",
            "targets",
            lambda g: name_list(g.targets, 2) or UNKNOWN,
            term="target",
        ),
        Column("cause", "cause", cause, term="verdict", title="Seen, or why not"),
        Column("evidence", "evidence", evidence, term="evidence", title="Evidence in"),
        Column("caught", "caught", caught, term="caught", title="Caught"),
        Column(
            "score",
            "score",
            lambda g: TableCell(drawing=g.picture),
            term="score-around",
        ),
    )
    first, rest = mine[:MOST_LINES], mine[MOST_LINES:]
    return RecordTable("", columns, first), RecordTable("", columns, rest)


def matrix(
    entries: Sequence[Entry],
) -> tuple[tuple[Entry, ...], tuple[MatchedAttack, ...]]:
    """Return the detectors of one testbed that have attacks, and all these attacks."""
    attacked = tuple(entry for entry in entries if entry.evaluation.segments)
    if not attacked:
        return (), ()
    return attacked, TestbedRuns(attacked[0].testbed, attacked).attacks


def detected_by(attack: MatchedAttack, entries: Sequence[Entry]) -> int:
    """Return the number of detectors whose verdict on an attack is detected."""
    verdicts = [
        entry.verdicts[attack.places[entry.label]].word
        for entry in entries
        if entry.label in attack.places
    ]
    return verdicts.count(Verdict.DETECTED)


def attack_details(entry: Entry) -> list[JsonObject]:
    """Return what the page draws when the row of an attack is opened.

    Returns
    -------
    list of mapping
        One for each attack: ``ladder`` (see `ladder_bars`), ``judged`` (how it was
        judged: names, texts, glossary keys), ``ceiling`` (how early any rule could have
        raised it, a sentence for each rule), ``facts`` (the paper's figures, likewise),
        ``divergence`` (its parts: names, values, texts and glossary keys),
        ``signature`` and ``signature_agrees`` (the paper's reading, and whether the
        ladder agrees), ``localisation`` (which tags carry it; None without a known
        target), and ``picture`` (None without an excerpt).
    """
    details: list[JsonObject] = []
    for i, segment in enumerate(entry.evaluation.segments):
        usable = "" if segment.sdr_usable else " (not usable)"
        shrunk = "" if segment.reliable else " (short window)"
        nearby = "AUC against normal rows nearby"
        # A sentence that holds for both rules alike is said once.
        rules = segment.ceiling.rules if segment.ceiling else ()
        details.append(
            {
                "ladder": ladder_bars(segment),
                "judged": _judged(entry, segment),
                "ceiling": list(dict.fromkeys(rule.sentence for rule in rules)),
                "facts": [
                    ("AUC", share(segment.auc, 1), "auc"),
                    (nearby, share(segment.auc_nearby, 1), "auc-nearby"),
                    ("D_FULL", number(segment.d_full) + shrunk, "d-full"),
                    ("D_MS", number(segment.d_ms), "d-ms"),
                    ("D_eff", number(segment.d_eff), "d-eff"),
                    ("SDR", number(segment.sdr) + usable, "sdr"),
                ],
                "divergence": _divergence(segment),
                "signature": segment.signature and segment.signature.reading,
                "signature_agrees": segment.signature_agrees,
                "localisation": localisation_of(entry, segment.id),
                "picture": _picture(entry, i, segment),
            }
        )
    return details


def _divergence(segment: SegmentResult) -> list[tuple[str, float, str, str]]:
    """Return the parts of an attack's divergence that are defined.

    An attack with fewer rows than channels has no volume.
    """
    parts = {
        "shifted mean": (segment.kl_mean, "kl-mean"),
        "spread": (segment.kl_spread, "kl-spread"),
        "volume": (segment.kl_volume, "kl-volume"),
    }
    return [
        (name, value, number(value), key)
        for name, (value, key) in parts.items()
        if value is not None
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
    bars: list[JsonObject] = []
    for name, rung in LADDER.items():
        if (outcome := ladder.get(name)) is None:
            continue
        note = (
            "mean energy as a share of the usual; lowest attack-free stretch "
            f"{share(outcome.limit)}"
        )
        if outcome.n_blocks is not None:
            note = (
                "largest row as a multiple of the tag's usual extreme; largest of "
                f"{outcome.n_blocks:,} attack-free blocks {number(outcome.limit)}"
            )
        elif rung.is_coverage:
            note = (
                f"attack-free stretches {share(outcome.calm)}, {share(RARE)} of them "
                f"up to {share(outcome.limit)}"
            )
        spans = [f"{by} rows" if by.isdecimal() else by for by in outcome.by]
        multiples = {Way.PEAK: outcome.peak, Way.ONSET: outcome.onset}
        ways = []
        for way in outcome.ways:
            times = multiples.get(way)
            is_number = times is not None and times < MOST_TIMES
            of = f" {number(float(f'{times:.2g}'))} \u00d7 limit" if is_number else ""
            ways.append(f"{way}{of}")
        shown = ["shown" if outcome.visible else "not shown"]
        if ways:
            shown = [f"shown by {name_list(ways)}"]
        if not few and outcome.p_value is not None:
            shown.append(p_value(outcome.p_value))
        bar = {
            "rung": name,
            "term": f"rung-{name}",
            "label": rung.label,
            "is_coverage": rung.is_coverage,
            "note": "; ".join(filter(None, [note, ", ".join(spans)])),
            "shown": "; ".join(shown),
        }
        bars.append(bar | vars(outcome))
    return bars


def _judged(entry: Entry, segment: SegmentResult) -> list[tuple[str, str, str]]:
    """Return how an attack was judged: names, texts, and keys of the glossary."""
    if segment.verdict is None:
        return []
    diagnosis, flags = entry.evaluation.diagnosis, segment.flags or ()
    rule = diagnosis.rule if diagnosis and diagnosis.rule else P99
    q_values = [
        f"{name} {one.q_value:.2g}"
        for name, one in (("rule", segment.found), ("evidence", segment.evidence))
        if one is not None and Flag.FEW_WINDOWS not in flags
    ]
    confidence = ""
    if segment.confidence is not None:
        alternatives = (segment.alternatives or {}).items()
        others = name_list([f"{word} {share(part)}" for word, part in alternatives])
        agree = f"{share(segment.confidence)} of {N_DRAWS} redrawn versions agree"
        confidence = f"{confidence_word(segment.confidence)}: {agree}"
        confidence += f"; else {others}" if others else ""
        if segment.verdict == Verdict.UNDECIDED:
            confidence = f"too low; of {N_DRAWS} redrawn versions {others}"
    compared = ""
    if (windows := segment.windows) is not None:
        length = row_span(windows.length, entry.evaluation.stream.step_s)
        compared = (
            f"{windows.count} attack-free stretches of {length}, out of "
            f"{windows.matched} in a similar state, {windows.disjoint} of which do not "
            "overlap"
        )
    together, aftermath = segment.ladder_p_value, segment.aftermath_s
    unused = f"{duration(aftermath)} after it are not used as attack-free time"
    pairs = [
        ("Rule in use", f"{RULE_WORDS[rule]} rule", "rule"),
        ("Confidence", confidence, "confidence"),
        ("q (over all attacks)", ", ".join(q_values), "q-value"),
        (
            "All repairs together",
            "" if together is None else p_value(together),
            "all-repairs",
        ),
        ("Also shown by", name_list(segment.contributing or ()), "also-shown"),
        ("Compared with", compared, "compared-with"),
        ("Limits", "; ".join(FLAG_TEXTS[flag] for flag in flags), "limits"),
        ("Recovery", unused if aftermath else "", "aftermath"),
    ]
    return [one for one in pairs if one[1]]


def _picture(entry: Entry, i: int, segment: SegmentResult) -> JsonObject | None:
    """Return the excerpt around an attack; None if the results hold none.

    The contributions of the channels are on a log scale, packed as bytes. Of at most
    `MAX_SIGNALS` channels there is the lowest and highest value of each column; targets
    of the attack and channels with the evidence come first.
    """
    excerpt = charts.excerpt_of(entry.traces, i)
    if excerpt is None:
        return None
    channels, heat = excerpt.channels, excerpt.contributions
    least = max(float(np.nanmax(heat, initial=0.0)) / HEAT_RANGE, 1e-6)
    steps, low, high = charts.quantised(np.log10(np.maximum(heat, least)), 255)
    signals: list[JsonObject] = []
    named = {*(segment.targets or ()), *(segment.evidence_channels or ())}
    order = sorted(range(len(channels)), key=lambda m: (channels[m] not in named, m))
    for m in order[:MAX_SIGNALS]:
        if excerpt.signals is None:
            break
        levels, lowest, highest = charts.quantised(excerpt.signals[m, :, :2], 255)
        signals.append(
            {
                "channel": channels[m],
                "is_telemetry": excerpt.is_measured[m],
                "low": lowest,
                "high": highest,
                "values": charts.packed(np.ascontiguousarray(levels.T)),
            }
        )
    return {
        "start": excerpt.start,
        "stop": excerpt.stop,
        "columns": heat.shape[1],
        "channels": channels,
        "targets": [name for name in channels if name in (segment.targets or ())],
        "heat": {**charts.packed(steps), "low": low, "high": high},
        "signals": signals,
    }


def localisation_of(entry: Entry, segment_id: str) -> JsonObject | None:
    """Return what the page draws of where one attack's evidence points.

    Returns
    -------
    mapping, optional
        ``sentence`` (the ranks of the best-ranked target, by method), and ``moments``:
        the label of each moment and its channels with ``share`` and ``is_target``. None
        if the attack has no known target.
    """
    found = entry.evaluation.localisation
    attacks = found.attacks if found else ()
    attack = next((one for one in attacks if one.id == segment_id), None)
    if found is None or attack is None:
        return None
    methods = {
        Method.CONDITIONAL: "by what other tags do not explain",
        Method.CONTRIBUTION: "by contribution",
        Method.ACCUMULATED: "accumulated with sign",
        Method.OWN: "by the detector's own attribution",
    }
    parts = []
    for method, label in methods.items():
        ranks = attack.ranks.get(method, {})
        first, whole = ranks.get(Moment.FIRST_ALARM), ranks.get(Moment.ATTACK)
        if whole is not None:
            at_alarm = (
                "" if first is None else f"{first:g} at the first row over the limit, "
            )
            parts.append(f"{label} {at_alarm}{whole:g} in the attack")
    one = "The target" if len(attack.targets) == 1 else "The best-ranked target"
    ranked = f"{one} has rank, of {found.n_channels} tags: {'; '.join(parts)}."
    labels = {
        Moment.FIRST_ALARM: "at the first row over the limit",
        Moment.ATTACK: "in the attack",
    }
    return {
        "sentence": ranked if parts else "",
        "moments": [
            {
                "label": label,
                "channels": [
                    {
                        "channel": one.channel,
                        "share": one.share,
                        "is_target": one.channel in attack.targets,
                    }
                    for one in attack.leading.get(moment, ())
                ],
            }
            for moment, label in labels.items()
            if attack.leading.get(moment)
        ],
    }
