"""Attacks: the rows of the table, the details of each, and attacks by detectors.

A row opens to its details: the outcome of every rung of the ladder, the paper's
figures, and a picture from the excerpt that the results hold around each attack.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from sightline.comparison.runs import TestbedRuns
from sightline.evaluation.result import SegmentResult
from sightline.judgement.ladder import LADDER
from sightline.judgement.verdicts import Verdict, VerdictInfo, info_of
from sightline.report import encoding
from sightline.report.encoding import JsonObject
from sightline.report.entries import Entry
from sightline.text import delay, number, row_span, share

# Signals drawn below one another in the picture of an attack.
MAX_SIGNALS = 5
# Contributions smaller than the largest by this factor get no colour.
HEAT_RANGE = 200


@dataclass(frozen=True, kw_only=True)
class AttackRow:
    """One attack of one detector as the table of attacks shows it.

    Parameters
    ----------
    key : str
        The link to the row, unique on the page.
    entry : Entry
        The detector; `index` counts its attacks.
    segment : SegmentResult
        What was measured.
    verdict : VerdictInfo
        Row of the table of verdicts.
    stages : tuple of str
        Stages of the targets; without targets, of the channels with the evidence.
    began, lasted, coverage, first_alarm : str
        Begin, duration, share of rows in alarm, and delay of the first alarm, as text.
    """

    key: str
    entry: Entry
    index: int
    segment: SegmentResult
    verdict: VerdictInfo
    stages: tuple[str, ...]
    began: str
    lasted: str
    coverage: str
    first_alarm: str


def attack_rows(entries: Sequence[Entry]) -> list[AttackRow]:
    """Return one table row for each attack of each detector.

    Parameters
    ----------
    entries : sequence of Entry
        In the order of the page. Entries of one testbed share a clock.

    Returns
    -------
    list of AttackRow
        Entry by entry, attacks in time order.
    """
    clocks = encoding.clocks_by_testbed(entries)
    rows = []
    for entry in entries:
        step = entry.evaluation.stream.step_s
        for i, segment in enumerate(entry.evaluation.segments):
            row = AttackRow(
                key=entry.attack_keys[i],
                entry=entry,
                index=i,
                segment=segment,
                verdict=info_of(segment.verdict),
                stages=attack_stages(segment, entry.stages),
                began=encoding.time_text(entry, segment.start, clocks[entry.testbed]),
                lasted=row_span(segment.length, step),
                coverage=share(segment.coverage),
                first_alarm=delay(segment.first_alarm, step),
            )
            rows.append(row)
    return rows


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
        One for each attack: ``ladder`` (see `ladder_bars`), ``facts`` (names and
        values), ``signature`` and ``signature_agrees`` (the paper's reading, and
        whether the ladder agrees), and ``picture`` (None without an excerpt).
    """
    return [
        {
            "ladder": ladder_bars(segment),
            "facts": _facts(segment),
            "signature": segment.signature and segment.signature.reading,
            "signature_agrees": segment.signature_agrees,
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
        a rung whose number is no share of the attack's rows.
    """
    ladder = segment.ladder or {}
    return [
        {"rung": name, "label": rung.label, "is_coverage": rung.is_coverage}
        | asdict(ladder[name])
        for name, rung in LADDER.items()
        if name in ladder
    ]


def _facts(segment: SegmentResult) -> list[tuple[str, str]]:
    """Return the paper's figures of one attack as pairs of name and value."""
    usable = "" if segment.sdr_usable else " (not usable)"
    shrunk = "" if segment.reliable else " (short window)"
    return [
        ("AUC", share(segment.auc, 1)),
        ("AUC against normal rows nearby", share(segment.auc_nearby, 1)),
        ("D_FULL", number(segment.d_full) + shrunk),
        ("D_MS", number(segment.d_ms)),
        ("D_eff", number(segment.d_eff)),
        ("SDR", number(segment.sdr) + usable),
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
    steps, low, high = encoding.quantised(np.log10(np.maximum(heat, least)), 255)
    return {
        "start": int(start),
        "stop": int(stop),
        "columns": n_columns,
        "channels": channels,
        "targets": [name for name in channels if name in (segment.targets or ())],
        "heat": {**encoding.packed(steps), "low": low, "high": high},
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
        steps, low, high = encoding.quantised(values, 255)
        rows.append(
            {
                "channel": channels[m],
                "is_telemetry": bool(telemetry[i][m] >= 0),
                "low": low,
                "high": high,
                "values": encoding.packed(np.ascontiguousarray(steps.T)),
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
                verdict=info_of(attack.segments[entry.label].verdict),
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
