"""The record of a card, how it is made of a result, and its file."""

import gzip
import hashlib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from sightline.data.arrays import ATTACK, IGNORED, NORMAL, Bools, Ints
from sightline.data.segments import segments_of
from sightline.errors import FileError
from sightline.evaluation.result import Interval, Protocol, StreamFacts, plain
from sightline.figures import FIGURES
from sightline.files import read_document, staged_file
from sightline.metrics.ranking import AttackRanks
from sightline.metrics.windows import is_beaten
from sightline.storage import Result

SCHEMA: Final = 1
# A card is read whole, and no further than this.
MOST_BYTES: Final = 64 * 2**20
# What is kept of the description of a detector and its testbed.
_DETECTOR: Final = ("detector_name", "detector_version", "detector_preset")
_TESTBED: Final = ("testbed_name", "testbed_release", "testbed_options")


@dataclass(frozen=True, kw_only=True)
class CardAttack:
    """One attack: where it is, and what was found of it.

    Parameters
    ----------
    id : str
        As the list of attacks has it.
    start, stop : int
        First row, and row past the end.
    auc : float
        Share of attack-free rows that its rows outrank.
    coverage : float
        Share of its rows in alarm by the p99 rule.
    hit : bool
        Whether any of them is.
    d_full : float, optional
        Its evidence.
    n_matched, n_outweighed : int
        Attack-free windows of its length, and those with less evidence.
    verdict, confidence, caught : optional
        Of the judgement, where it was made.
    """

    id: str
    start: int
    stop: int
    auc: float
    coverage: float
    hit: bool
    d_full: float | None
    n_matched: int
    n_outweighed: int
    verdict: str | None = None
    confidence: float | None = None
    caught: bool | None = None


@dataclass(frozen=True, kw_only=True)
class RankTable:
    """Where each attack row stands, from the lowest energy to the highest.

    Parameters
    ----------
    attack : tuple of int
        Number of the attack each row belongs to.
    steps : tuple of int
        Attack-free rows below it that are not below the row before it.
    ties : tuple of int
        Attack-free rows with its energy.
    repeats : tuple of int
        Places, in this order, of rows with the energy of the row before.
    n_normal : int
        Attack-free rows.
    """

    attack: tuple[int, ...]
    steps: tuple[int, ...]
    ties: tuple[int, ...]
    repeats: tuple[int, ...]
    n_normal: int

    def ranks(self) -> AttackRanks:
        """Return the ranks of attack rows, attack by attack."""
        n = len(self.attack)
        below = np.cumsum(np.array(self.steps, np.int64))
        firsts = np.arange(n)
        for place in self.repeats:
            firsts[place] = firsts[place - 1]
        order = np.argsort(np.array(self.attack, np.int64), kind="stable")
        up_to = below + np.array(self.ties, np.int64)
        return AttackRanks(
            below[order], up_to[order], (n - firsts)[order], self.n_normal
        )


@dataclass(frozen=True, kw_only=True)
class VisibilityCard:
    """What one result shows, without a row of telemetry or residual.

    Parameters
    ----------
    stream : StreamFacts
        Names, channels and numbers of rows.
    protocol, guard, estimator : Protocol, int, str
        How it was evaluated.
    detector, testbed : mapping
        What the stream says of them: name, version, settings, release, options.
    seed : int, optional
        Of the detector.
    digests : mapping of str to str
        SHA-256 of ``labels`` (a byte each: 1 attack, 0 normal, 255 ignored), of
        ``energy`` (test, float64, little-endian), and of the prepared recording where
        the stream names it.
    breaks : tuple of int
        First row of each continuous run of test.
    ignored : tuple of pairs
        Rows that no figure counts: first, and past the last.
    attacks : tuple of CardAttack
        In the order of time.
    ranks : RankTable
        Of all attack rows.
    limits : mapping of str to float
        Of the ``p99`` rule, and of the same set in ``hindsight``.
    alarms : mapping of str to tuple of pairs
        Runs of alarms of these two rules.
    figures : mapping of str to float
        Every figure of the result, by key; none that is undefined.
    intervals : mapping of str to pair
        Their 95% intervals.
    versions : mapping of str to str
        Of the software.
    made_at, made_by, licence : str
        On which day, by whom, and under what terms.
    digest : str
        SHA-256 of all of this as JSON with sorted keys, with this field empty.
    schema : int
        Of this record.
    """

    stream: StreamFacts
    protocol: Protocol
    guard: int
    estimator: str
    detector: Mapping[str, Any]
    testbed: Mapping[str, Any]
    seed: int | None
    digests: Mapping[str, str]
    breaks: tuple[int, ...]
    ignored: tuple[tuple[int, int], ...]
    attacks: tuple[CardAttack, ...]
    ranks: RankTable
    limits: Mapping[str, float]
    alarms: Mapping[str, tuple[tuple[int, int], ...]]
    figures: Mapping[str, float]
    intervals: Mapping[str, Interval]
    versions: Mapping[str, str] = field(default_factory=dict)
    made_at: str = ""
    made_by: str = ""
    licence: str = ""
    digest: str = ""
    schema: int = SCHEMA

    def sealed(self) -> "VisibilityCard":
        """Return the card with its digest."""
        return replace(self, digest=digest_of(self))


def digest_of(card: VisibilityCard) -> str:
    """Return the SHA-256 of a card, whatever digest it has."""
    content = msgspec.json.encode(replace(card, digest=""), order="sorted")
    return hashlib.sha256(content).hexdigest()


def row_digests(labels: npt.NDArray[Any], energy: npt.NDArray[Any]) -> dict[str, str]:
    """Return the digests of labels and energy of test, in their canonical form.

    Examples
    --------
    >>> row_digests(np.array([0, 1, -1]), np.zeros(3))["labels"][:8]
    '26a66b06'
    """
    canonical = {
        "labels": labels.astype(np.uint8).tobytes(),
        "energy": (energy.astype("<f8") + 0.0).tobytes(),
    }
    return {key: hashlib.sha256(each).hexdigest() for key, each in canonical.items()}


def _runs(mask: Bools, breaks: Ints) -> tuple[tuple[int, int], ...]:
    return tuple((one.start, one.stop) for one in segments_of(mask, breaks))


def card_of_result(
    result: Result, *, made_by: str = "", licence: str = "", made_at: str | None = None
) -> VisibilityCard:
    """Return the card of a result.

    Parameters
    ----------
    result : Result
        As `read_results` returns it.
    made_by, licence : str
        Who makes it, and under what terms it may be used.
    made_at : str, optional
        Day of making, ISO 8601; today if not given.

    Raises
    ------
    FileError
        If the result has no attacks: there is nothing to be ranked.
    """
    evaluation, traces = result.evaluation, result.traces
    if not evaluation.segments:
        raise FileError(
            f"{result.folder}: no test row is labelled as an attack, so there is "
            "nothing to put on a card."
        )
    labels, energy, breaks = traces.labels, traces.test_energy, traces.test_breaks
    meta = evaluation.provenance.meta
    limits = {"p99": evaluation.probe.tau99}
    if evaluation.probe_test_calibrated is not None:
        limits["hindsight"] = evaluation.probe_test_calibrated.tau99
    known = {name: limit for name, limit in limits.items() if limit is not None}
    digests = row_digests(labels, energy)
    if content := meta.get("testbed_content"):
        digests["recording"] = str(content)
    versions = vars(evaluation.provenance)
    figures = {key: entry.of(evaluation) for key, entry in FIGURES.items()}
    return VisibilityCard(
        stream=evaluation.stream,
        protocol=evaluation.protocol,
        guard=evaluation.guard,
        estimator=evaluation.reference.estimator,
        detector=_facts(meta, (*_DETECTOR, "detector_settings")),
        testbed=_facts(meta, _TESTBED),
        seed=evaluation.provenance.seed,
        digests=digests,
        breaks=tuple(breaks.tolist()),
        ignored=_runs(labels == IGNORED, breaks),
        attacks=_attacks(result),
        ranks=_rank_table(result),
        limits=known,
        alarms={name: _runs(energy > limit, breaks) for name, limit in known.items()},
        figures={
            str(key): value for key, value in figures.items() if value is not None
        },
        intervals={
            key: ends for key, ends in (evaluation.intervals or {}).items() if ends
        },
        versions={
            name: str(versions[name])
            for name in ("sightline", "numpy", "python")
            if versions.get(name)
        },
        made_at=made_at or datetime.now(UTC).date().isoformat(),
        made_by=made_by,
        licence=licence,
    ).sealed()


def _facts(meta: Mapping[str, Any], names: tuple[str, ...]) -> Mapping[str, Any]:
    """Return what a stream says of its detector or testbed, as JSON holds it."""
    return {name.partition("_")[2]: plain(meta[name]) for name in names if name in meta}


def _attacks(result: Result) -> tuple[CardAttack, ...]:
    """Return the attacks, with the windows that each outweighs."""
    traces, attacks = result.traces, []
    for segment, group, evidence in zip(
        result.evaluation.segments,
        traces.segment_group.tolist(),
        traces.segment_d_full,
        strict=True,
    ):
        bounds = slice(traces.matched_bounds[group], traces.matched_bounds[group + 1])
        beaten = is_beaten(traces.matched_d_full[bounds], evidence)
        attacks.append(
            CardAttack(
                id=segment.id,
                start=segment.start,
                stop=segment.stop,
                auc=segment.auc,
                coverage=segment.coverage,
                hit=segment.hit,
                d_full=segment.d_full,
                n_matched=len(beaten),
                n_outweighed=int(beaten.sum()),
                verdict=None if segment.verdict is None else str(segment.verdict),
                confidence=segment.confidence,
                caught=segment.caught,
            )
        )
    return tuple(attacks)


def _rank_table(result: Result) -> RankTable:
    """Return where each attack row stands among the attack-free ones."""
    labels, energy = result.traces.labels, result.traces.test_energy
    number = np.full(len(labels), -1)
    for k, segment in enumerate(result.evaluation.segments):
        number[segment.start : segment.stop] = k
    rows = np.flatnonzero(labels == ATTACK)
    rows = rows[np.argsort(energy[rows], kind="stable")]
    normal = np.sort(energy[labels == NORMAL])
    below = np.searchsorted(normal, energy[rows], side="left")
    up_to = np.searchsorted(normal, energy[rows], side="right")
    repeats = 1 + np.flatnonzero(np.diff(energy[rows]) == 0)
    return RankTable(
        attack=tuple(number[rows].tolist()),
        steps=tuple(np.diff(below, prepend=0).tolist()),
        ties=tuple((up_to - below).tolist()),
        repeats=tuple(repeats.tolist()),
        n_normal=len(normal),
    )


def write_card_file(card: VisibilityCard, path: Path) -> None:
    """Write a card as compressed JSON; the same card gives the same bytes."""
    content = gzip.compress(msgspec.json.encode(card, order="sorted"), mtime=0)
    with staged_file(path) as staged:
        staged.write_bytes(content)


def read_card_file(path: Path) -> VisibilityCard:
    """Return the card of a file; what it says is not checked (see `verify_card`).

    Raises
    ------
    FileError
        If it is no card, one of a newer version, or too large.
    """
    packed = read_document(path)
    try:
        with gzip.open(BytesIO(packed)) as file:
            content = file.read(MOST_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FileError(f"{path}: is no card: it is not compressed JSON.") from error
    if len(content) > MOST_BYTES:
        raise FileError(f"{path}: is no card: it holds over {MOST_BYTES >> 20} MiB.")
    try:
        card = msgspec.json.decode(content, type=VisibilityCard)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise FileError(f"{path}: is no card of schema {SCHEMA}: {error}.") from error
    if card.schema != SCHEMA:
        raise FileError(
            f"{path}: is a card of schema {card.schema}; this version reads {SCHEMA}."
        )
    return card
