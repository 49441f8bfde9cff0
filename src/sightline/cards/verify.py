"""Checks of a card: what follows from what it holds, and from the stream."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from sightline.cards.card import VisibilityCard, card_of_result, digest_of
from sightline.data.arrays import ATTACK, IGNORED, NORMAL, Bools, Labels
from sightline.data.segments import Segment
from sightline.data.stream import ResidualStream
from sightline.evaluation.pipeline import evaluate
from sightline.evaluation.result import Protocol
from sightline.figures import FIGURES, Figure
from sightline.metrics.alarm_figures import measure_figures
from sightline.metrics.alarm_load import AlarmMetrics, judge_alarms
from sightline.metrics.alarm_runs import AlarmRuns, LabelledRows
from sightline.metrics.ranking import (
    Rank,
    auc_of_steps,
    mean_of_segments,
    measure_rank,
)
from sightline.progress import Progress
from sightline.storage import Result
from sightline.text import names

# Figures are equal within this share: their sums are added in another order.
EXACT: Final = 1e-9
# Figures of a stream that is evaluated again, perhaps on another machine.
AGAIN: Final = 1e-6
# Rows of test that a card may be of.
MOST_ROWS: Final = 2**28
_RULES: Final = {"p99": "probe", "hindsight": "probe_test_calibrated"}


@dataclass(frozen=True, kw_only=True)
class Contradiction:
    """Something a card says that does not follow from what it holds.

    Parameters
    ----------
    what : str
        Key of a figure, or what else it is: ``attack 7: auc``, ``digest``.
    says, follows : float or str
        What the card says, and what follows.
    """

    what: str
    says: float | str
    follows: float | str

    @property
    def sentence(self) -> str:
        """The contradiction in words."""
        return f"{self.what}: the card says {self.says}, but it is {self.follows}."


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What became of the checks.

    Parameters
    ----------
    contradictions : tuple of Contradiction
        Empty for a card that agrees with itself, and with the stream if it was given.
    computed : tuple of str
        Keys of figures that were computed again.
    bounded : tuple of str
        Keys of figures that are only known to lie within what is possible, and within
        their interval.
    """

    contradictions: tuple[Contradiction, ...]
    computed: tuple[str, ...]
    bounded: tuple[str, ...]


def verify_card(
    card: VisibilityCard,
    stream: ResidualStream | None = None,
    *,
    progress: Progress | None = None,
) -> Verification:
    """Compute again what a card says, and name what does not follow.

    Parameters
    ----------
    card : VisibilityCard
        As it was read.
    stream : ResidualStream, optional
        The stream it is said to be of; it is evaluated again with the card's protocol,
        guard and estimator, and every figure is compared.
    progress : callable, optional
        Called with a `Step` while the stream is evaluated.
    """
    found: list[Contradiction] = []
    if (sealed := digest_of(card)) != card.digest:
        found.append(Contradiction(what="digest", says=card.digest, follows=sealed))
    structure = list(_structure(card))
    if structure:  # nothing can be computed of it
        return Verification(
            contradictions=(*found, *structure), computed=(), bounded=()
        )
    follows = [(key, value, EXACT) for key, value in _figures(card).items()]
    found += _of_attacks(card)
    if stream is not None:
        again = _of_stream(card, stream, progress)
        found += [
            Contradiction(
                what=f"digest of {key}", says=card.digests[key], follows=value
            )
            for key, value in again.digests.items()
            if card.digests.get(key, value) != value
        ]
        every = {**dict.fromkeys(card.figures), **again.figures}
        follows += [(key, value, AGAIN) for key, value in every.items()]
        found += _missing(card, again)
    wrong: dict[str, Contradiction] = {}
    for key, value, within in follows:
        said = card.figures.get(key)
        if not _agree(said, value, within):
            one = Contradiction(what=key, says=_shown(said), follows=_shown(value))
            wrong.setdefault(key, one)
    found += wrong.values()
    computed = {key for key, *_ in follows}
    bounded = tuple(key for key in card.figures if key not in computed)
    found += _out_of_bounds(card, bounded)
    return Verification(
        contradictions=tuple(found),
        computed=tuple(key for key in card.figures if key in computed),
        bounded=bounded,
    )


def _shown(value: float | None) -> float | str:
    return "undefined" if value is None else value


def _agree(said: float | None, value: float | None, within: float) -> bool:
    """Return whether two figures are the same but for rounding."""
    if said is None or value is None:
        return said is value
    return math.isclose(said, value, rel_tol=within, abs_tol=1e-12)


def _structure(card: VisibilityCard) -> Iterator[Contradiction]:
    """Yield what makes it impossible to compute anything."""
    n, step_s = card.stream.n_test, card.stream.step_s
    if not 0 < n <= MOST_ROWS:
        yield Contradiction(what="rows", says=n, follows=f"1 to {MOST_ROWS}")
        return
    if step_s is not None and not 0 < step_s < math.inf:
        yield Contradiction(what="seconds a row", says=step_s, follows="above 0")
    breaks = list(card.breaks)
    if breaks != sorted({0, *breaks}) or breaks[-1] >= n:
        yield Contradiction(what="breaks", says="rows", follows="not in order from 0")
    runs = [(one.start, one.stop) for one in card.attacks]
    tables = {"attacks": runs, "ignored": [*card.ignored]}
    tables |= {f"alarms of {name}": [*each] for name, each in card.alarms.items()}
    for what, each in tables.items():
        edges = [edge for run in each for edge in run]
        if any(stop <= start for start, stop in each) or sorted(edges) != edges:
            yield Contradiction(what=what, says="runs", follows="not in order")
        elif edges and not 0 <= edges[0] <= edges[-1] <= n:
            yield Contradiction(what=what, says="rows", follows=f"not within {n} rows")
    lengths = [stop - start for start, stop in runs]
    ranks = card.ranks
    if (
        not runs
        or [ranks.attack.count(k) for k in range(len(runs))] != lengths
        or sum(lengths) != len(ranks.attack)
        or not len(ranks.attack) == len(ranks.steps) == len(ranks.ties)
        or min((*ranks.steps, *ranks.ties), default=0) < 0
        or any(not 0 < place < len(ranks.attack) for place in ranks.repeats)
        or sum(ranks.steps) > ranks.n_normal
    ):
        yield Contradiction(
            what="ranks", says="a row for each attack row", follows="not so"
        )
    n_ignored = sum(stop - start for start, stop in card.ignored)
    if ranks.n_normal != n - sum(lengths) - n_ignored:
        yield Contradiction(
            what="attack-free rows",
            says=ranks.n_normal,
            follows=n - sum(lengths) - n_ignored,
        )
    for key, value in (("n_attack", sum(lengths)), ("n_ignored", n_ignored)):
        if getattr(card.stream, key) != value:
            said = getattr(card.stream, key)
            yield Contradiction(what=f"stream.{key}", says=said, follows=value)


def _mask(runs: Iterable[tuple[int, int]], n: int) -> Bools:
    mask = np.zeros(n, np.bool_)
    for start, stop in runs:
        mask[start:stop] = True
    return mask


def _labels(card: VisibilityCard) -> Labels:
    labels = np.full(card.stream.n_test, NORMAL, np.int8)
    labels[_mask(card.ignored, len(labels))] = IGNORED
    labels[_mask(((a.start, a.stop) for a in card.attacks), len(labels))] = ATTACK
    return labels


def _judged(card: VisibilityCard, rule: str) -> AlarmMetrics:
    """Return how a rule of the card did, by its alarms."""
    return judge_alarms(
        _mask(card.alarms[rule], card.stream.n_test),
        _labels(card),
        [Segment(a.start, a.stop) for a in card.attacks],
        breaks=np.array(card.breaks, np.int64),
        step_s=card.stream.step_s,
        by_rows=card.protocol is Protocol.PAPER,
    )


def _figures(card: VisibilityCard) -> dict[str, float | None]:
    """Return each figure that follows from the card."""
    lengths = np.array([a.stop - a.start for a in card.attacks])
    blocks: dict[str, Rank | AlarmMetrics]
    blocks = {"rank": measure_rank(card.ranks.ranks(), lengths)}
    blocks |= {_RULES[rule]: _judged(card, rule) for rule in card.alarms}
    counted = (
        Figure.F1,
        Figure.PRECISION,
        Figure.RECALL,
        Figure.HITS,
        Figure.FALSE_ALARM_RATE,
        Figure.FALSE_POSITIVE_SEGMENTS,
    )
    follows: dict[str, float | None] = {}
    for figure, entry in FIGURES.items():
        ranked = entry.block == "rank" and entry.field in vars(blocks["rank"])
        if ranked or (entry.block in blocks and entry.field in map(str, counted)):
            value = getattr(blocks[entry.block], entry.field)
            follows[str(figure)] = None if value is None else float(value)
    # Figures under published names, of the p99 rule's alarms.
    rows = LabelledRows.of(_labels(card), np.array(card.breaks, np.int64))
    alarms = _mask(card.alarms.get("p99", ()), card.stream.n_test)
    published = [key for key in card.figures if key not in follows]
    named = measure_figures(AlarmRuns.of(rows, alarms), published, uncertainty=False)
    follows |= {key: figure.value for key, figure in named.items()}
    matched = [a for a in card.attacks if a.n_matched]
    if matched:
        shares = [a.n_outweighed / a.n_matched for a in matched]
        total = sum(a.n_matched for a in matched)
        p_full = sum(a.n_outweighed for a in matched) / total
        follows[Figure.P_FULL] = p_full
        follows[Figure.P_FULL_PER_SEGMENT] = float(np.mean(shares))
    evidence = [a.d_full for a in card.attacks if a.d_full is not None]
    if len(evidence) == len(card.attacks):
        follows[Figure.MEDIAN_D_FULL] = float(np.median(evidence))
    compactness = card.figures.get(Figure.COMPACTNESS)
    if compactness is not None:
        follows[Figure.P_EFF] = compactness * card.stream.p
    return follows


def _of_attacks(card: VisibilityCard) -> Iterator[Contradiction]:
    """Yield what does not follow of single attacks."""
    lengths = np.array([a.stop - a.start for a in card.attacks])
    aucs = mean_of_segments(auc_of_steps(card.ranks.ranks()), lengths)
    alarms = _mask(card.alarms.get("p99", ()), card.stream.n_test)
    for attack, auc in zip(card.attacks, aucs.tolist(), strict=True):
        covered = float(alarms[attack.start : attack.stop].mean())
        known = {"auc": auc, "coverage": covered, "hit": float(covered > 0)}
        for key, value in known.items():
            said = float(getattr(attack, key))
            if not _agree(said, value, EXACT):
                what = f"attack {attack.id}: {key}"
                yield Contradiction(what=what, says=said, follows=value)
        if attack.n_outweighed > attack.n_matched:
            yield Contradiction(
                what=f"attack {attack.id}: windows outweighed",
                says=attack.n_outweighed,
                follows=f"at most {attack.n_matched}",
            )


def _out_of_bounds(
    card: VisibilityCard, keys: Iterable[str]
) -> Iterator[Contradiction]:
    """Yield figures that cannot be, or that lie outside their interval."""
    for key in keys:
        value = card.figures[key]
        if (entry := FIGURES.get(key)) is None:
            yield Contradiction(what=key, says=value, follows="no figure")
            continue
        if not entry.low <= value <= entry.high:
            follows = f"within {entry.low:g} and {entry.high:g}"
            yield Contradiction(what=key, says=value, follows=follows)
    for key, (low, high) in card.intervals.items():
        if high is not None and low > high:
            said = f"{low:g} to {high:g}"
            yield Contradiction(what=f"interval of {key}", says=said, follows="empty")


def _of_stream(
    card: VisibilityCard,
    stream: ResidualStream,
    progress: Progress | None,
) -> VisibilityCard:
    """Return the card of the stream, evaluated as the card says."""
    evaluation = evaluate(
        stream,
        protocol=str(card.protocol),
        guard=card.guard,
        estimator=card.estimator,
        intervals=False,
        diagnosis=False,
        progress=progress,
    )
    return card_of_result(Result.of(evaluation))


def _missing(card: VisibilityCard, again: VisibilityCard) -> Iterator[Contradiction]:
    """Yield attacks that the stream does not have, or has in other places."""
    places = {(a.start, a.stop): a.id for a in again.attacks}
    lost = [a.id for a in card.attacks if (a.start, a.stop) not in places]
    if lost or len(places) != len(card.attacks):
        yield Contradiction(
            what="attacks",
            says=names(lost) or "fewer",
            follows=names(list(places.values())),
        )
