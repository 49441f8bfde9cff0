"""All attacks of a study: one file of them, what its columns say, how they align."""

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from sightline.comparison.runs import DetectorRuns, JointVerdict
from sightline.evaluation.result import SegmentResult
from sightline.judgement.verdicts import SegmentDiagnosis
from sightline.metrics.measures import SegmentMeasures
from sightline.paper.study import PaperStudy, listed_ids
from sightline.show.attacks import AttackRecord, iso_time
from sightline.show.phrases import words
from sightline.show.printed import text_cell
from sightline.show.table import Column, Columns, TableCell, to_csv
from sightline.storage import Result

# Fields of a diagnosis that are one plain value.
_DIAGNOSIS: Final = ("verdict", "confidence", "caught", "sentence")


@dataclass(frozen=True, kw_only=True)
class StudiedAttack:
    """One attack in one result of a study.

    Parameters
    ----------
    runs : DetectorRuns
        The detector on its testbed.
    result : Result
        One of its seeds.
    attack : AttackRecord
        The attack in it.
    joint : JointVerdict, optional
        The verdict in view of all detectors; of the first seed only.
    """

    runs: DetectorRuns
    result: Result
    attack: AttackRecord
    joint: JointVerdict | None

    @property
    def segment(self) -> SegmentResult:
        """What is known of the attack."""
        return self.attack.segment

    @property
    def seed(self) -> object:
        """The detector's seed as its stream says it; else the number of the result."""
        known = self.attack.evaluation.provenance.seed
        return self.runs.results.index(self.result) if known is None else known

    @property
    def caught_by(self) -> str | None:
        """Rules that catch it; None where rules are not judged on its rows."""
        rules = self.attack.evaluation.rules
        if rules is None or self.segment.stop <= rules.split:
            return None
        caught = (
            row.name
            for row in rules.table
            if row.attacks is not None and self.segment.id in (row.attacks.which or ())
        )
        return ";".join(caught) or "none"

    @property
    def movement(self) -> str | None:
        """Whether the telemetry moves."""
        facts = self.segment.telemetry
        return None if facts is None or facts.movement is None else str(facts.movement)


def studied_attacks(study: PaperStudy) -> Iterator[StudiedAttack]:
    """Yield every attack of every seed of every detector, testbed by testbed."""
    for runs in study.runs:
        for result in runs.results:
            evaluation = result.evaluation
            for k, segment in enumerate(evaluation.segments):
                joint = study.joint(runs, segment) if result is runs.first else None
                record = AttackRecord(evaluation, k)
                yield StudiedAttack(
                    runs=runs, result=result, attack=record, joint=joint
                )


def field_texts(kind: type) -> Mapping[str, str]:
    """Return the first sentence of each field's description in a record's docstring.

    Examples
    --------
    >>> field_texts(SegmentMeasures)["coverage"]
    "Share of the attack's rows over the limit of the p99 rule."
    """
    text = inspect.cleandoc(kind.__doc__ or "").partition("Parameters\n----------\n")[2]
    found: dict[str, str] = {}
    for names, body in re.findall(
        r"^(\w[^\n]*?) : [^\n]*\n((?:    .*\n?)+)", text, re.M
    ):
        flat = " ".join(body.split())
        found |= dict.fromkeys(names.split(", "), flat.partition(". ")[0].rstrip("."))
    return {name: f"{said}." for name, said in found.items()}


def _columns() -> Columns[StudiedAttack]:
    """Return the columns of ``attacks.csv``, each with what it says."""

    def plain(key: str, says: str, get: Any) -> Column[StudiedAttack]:
        return Column(key, get=lambda one: TableCell(values=(get(one),)), tip=says)

    def field(name: str, says: str) -> Column[StudiedAttack]:
        def get(one: StudiedAttack) -> object:
            value = getattr(one.segment, name)
            if isinstance(value, tuple | list):
                return ";".join(map(str, value))
            return value

        return plain(name, says, get)

    measured = field_texts(SegmentMeasures)
    judged = field_texts(SegmentDiagnosis)
    return (
        plain("testbed", "Testbed of the result.", lambda a: a.runs.testbed),
        plain("detector", "Detector, with guard and protocol.", lambda a: a.runs.label),
        plain("seed", "Seed of the detector.", lambda a: a.seed),
        plain("result", "Folder of the result.", lambda a: a.result.name),
        *(field(f.name, measured[f.name]) for f in fields(SegmentMeasures)),
        *(
            plain(
                f"{end}_time",
                f"Time of its {row} row, ISO 8601.",
                lambda a, k=k: iso_time(k)(a.attack).text,
            )
            for k, (end, row) in enumerate((("start", "first"), ("end", "last")))
        ),
        *(field(name, judged[name]) for name in _DIAGNOSIS),
        field("evidence_channels", judged["evidence_channels"]),
        plain(
            "joint_verdict",
            "The verdict in view of all detectors of the testbed; first seeds.",
            lambda a: a.joint and a.joint.verdict,
        ),
        plain(
            "caught_by",
            "Rules that catch it, or none; empty if it lies before the rows on which "
            "rules are judged.",
            lambda a: a.caught_by,
        ),
        plain("telemetry", "Whether the telemetry moves.", lambda a: a.movement),
        plain(
            "agrees_with_owners",
            "Whether the verdict fits the outcome that the owners state.",
            lambda a: a.attack.agrees_with_owners,
        ),
    )


def attacks_csv(study: PaperStudy) -> str:
    """Return ``attacks.csv``: a line for each detector, seed and attack."""
    return to_csv(_columns(), studied_attacks(study))


def attack_columns_csv() -> str:
    """Return the data dictionary of ``attacks.csv``: what each column says."""
    spec: Columns[Column[StudiedAttack]] = (
        Column("column", get=lambda c: c.key),
        Column("says", get=lambda c: c.tip),
    )
    return to_csv(spec, _columns())


# ---- how attacks align ---------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Alignment:
    """Where one attack of the list lies in each detector of a testbed.

    Parameters
    ----------
    id : str
        The attack in the list.
    segments : mapping of str to tuple
        Its segments in the first seed of each detector, by label.
    seconds : mapping of str to float
        How long these are; rows where seconds are not known.
    least_s : float
        How long the attack is at least: a detector's first and last row may both lie
        in it only in part.
    """

    id: str
    segments: Mapping[str, tuple[AttackRecord, ...]]
    seconds: Mapping[str, float]
    least_s: float

    def state(self, label: str, step: float) -> str:
        """Return what became of the attack in a detector."""
        parts = self.segments.get(label, ())
        if not parts:
            return "lost"
        others = dict.fromkeys(
            other
            for one in parts
            for other in listed_ids(one.segment.id)
            if other != self.id
        )
        if others:
            return f"merged with {', '.join(others)}"
        missing = self.least_s - self.seconds[label]
        if missing >= step:
            return f"shortened by {missing:.0f} s"
        return "whole" if len(parts) == 1 else f"in {len(parts)} parts"


def alignments(study: PaperStudy, testbed: str) -> list[Alignment]:
    """Return where each attack of a testbed's list lies, in the order of time."""
    found: dict[str, dict[str, tuple[AttackRecord, ...]]] = {}
    steps = {}
    attacks = study.on(testbed).attacks
    ids = dict.fromkeys(
        id_
        for attack in attacks
        for s in attack.segments.values()
        for id_ in listed_ids(s.id)
    )
    for runs in study.on(testbed).detectors:
        evaluation = runs.evaluation
        steps[runs.label] = evaluation.stream.step_s or 1.0
        for k, segment in enumerate(evaluation.segments):
            for id_ in listed_ids(segment.id):
                parts = found.setdefault(id_, {})
                mine = parts.get(runs.label, ())
                parts[runs.label] = (*mine, AttackRecord(evaluation, k))
    return [
        Alignment(
            id=id_,
            segments=found[id_],
            seconds={
                label: sum(one.segment.length for one in parts) * steps[label]
                for label, parts in found[id_].items()
            },
            least_s=max(
                (sum(one.segment.length for one in parts) - 1) * steps[label]
                for label, parts in found[id_].items()
            ),
        )
        for id_ in ids
    ]


def alignment_columns(study: PaperStudy) -> Columns[tuple[str, Alignment]]:
    """Return the columns of the table ``alignment``, of a testbed and an attack."""

    def of_detector(label: str) -> Column[tuple[str, Alignment]]:
        def get(record: tuple[str, Alignment]) -> TableCell:
            testbed, one = record
            if label not in study.on(testbed):
                return TableCell(values=(None,) * 4, printed=words("-"))
            step = study.on(testbed)[label].evaluation.stream.step_s or 1.0
            state, parts = one.state(label, step), one.segments.get(label, ())
            if not parts:
                return TableCell(state, values=(None, None, None, state))
            first, last = parts[0].segment, parts[-1].segment
            rows = f"{first.start:,}\N{EN DASH}{last.stop - 1:,}"
            shown = rows if state == "whole" else f"{rows}, {state}"
            ids = "; ".join(part.segment.id for part in parts)
            return TableCell(shown, values=(ids, first.start, last.stop, state))

        parts = ("segment", "start", "stop", "state")
        return Column(label, words(study.short_title(label)), get, parts=parts)

    attack: Column[tuple[str, Alignment]] = Column(
        "attack", "Attack", lambda r: text_cell(r[1].id)
    )
    return (attack, *map(of_detector, study.detectors))
