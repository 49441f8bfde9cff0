"""The protocol linter: checks of how a stream was made and judged.

Each check returns findings with the codes ``SL1xx`` of `sightline.audit.record`, and an
empty list where nothing is wrong. `evaluate` runs all of them, so results, terminal and
page carry what they found. A wrong finding costs as much trust as a missed one: a check
that cannot tell says nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sightline.audit.attack_facts import STILL
from sightline.audit.record import Finding, Severity, by_severity, finding, worded
from sightline.data.arrays import ATTACK, Floats, Ints
from sightline.data.downsampling import MOST_DECIMALS, PRESETS, decimals_of
from sightline.data.row_tables import Rows, gather_rows, parts_of, read_on_grid
from sightline.data.segments import run_bounds
from sightline.energy.attack_free import slop_rows
from sightline.text import as_labelled, duration, names, plural, share

if TYPE_CHECKING:
    from sightline.evaluation.result import StreamMeasures
    from sightline.rules.scoring import ScoredStream

# An attack with more than this share of all attack rows dominates pooled figures.
DOMINANT_SHARE = 0.5
# A figure that units or the limit move by less is not mentioned; nor one that units
# move by less than a third.
LEAST_MOVE = 0.05
MOST_MOVED = 1 / 3
# Fewer attacks than this prove little: of four found, the true share may be 40%.
LEAST_ATTACKS = 5
# A rule that is in alarm for more of attack-free time than this stands.
STANDING = 0.5
# Labels begin late if the evidence does so before so many of them, by this quantile;
LEAST_LATE = 3
LATE_QUANTILE = 0.9
# of attacks whose leading tag is so many times its usual extreme, and the largest of
# attack-free blocks.
CLEAR = 3.0
CLEAR_MARGIN = 1.5
# Tables with more cells than this are not searched for rows of one another.
MOST_CELLS = 200_000_000
# A channel with so few values in some rows has states.
MOST_STATES = 6
# Rows of which decimals and moments are read.
MOST_ROWS = 20_000
# Names in a sentence before the rest is counted.
_MOST_NAMES = 6


@dataclass(frozen=True, eq=False)
class Linted:
    """What the checks look at: a stream, and what was measured on it.

    Parameters
    ----------
    scored : ScoredStream
        The stream with its energies, windows, attacks and what the telemetry says.
    measures : StreamMeasures
        The figures.
    seen : frozenset of str
        Attacks that the judgement calls detected, or that a repair shows.
    """

    scored: "ScoredStream"
    measures: "StreamMeasures"
    seen: frozenset[str] = frozenset()

    @cached_property
    def some_rows(self) -> tuple[Floats, Floats]:
        """At most `MOST_ROWS` evenly spaced rows of train, and of test."""
        train, test = (
            gather_rows(rows, np.arange(n) * rows.n_rows // max(n, 1))
            for rows in (self.scored.stream.train, self.scored.stream.test)
            for n in [min(rows.n_rows, MOST_ROWS)]
        )
        return train, test


def lint_stream(
    scored: "ScoredStream",
    measures: "StreamMeasures",
    seen: frozenset[str] = frozenset(),
) -> tuple[Finding, ...]:
    """Return what is wrong with how a stream was made and judged.

    Parameters
    ----------
    scored, measures : ScoredStream, StreamMeasures
        The stream and its figures.
    seen : frozenset of str
        Attacks that the judgement calls detected, or that a repair shows.

    Returns
    -------
    tuple of Finding
        The most serious first; empty if no check found anything.
    """
    linted, stream = Linted(scored, measures, seen), scored.stream
    # On a cluster rows are not read again.
    left_out = [] if parts_of(stream.test) is None else [*OF_ROWS]
    if not stream.meta and stream.alarms is None:
        left_out += OF_DETECTOR
    findings = (
        one for check in CHECKS if check not in left_out for one in check(linted)
    )
    ids = [attack.id for attack in scored.test.attacks]
    return by_severity(worded(findings, measures.stream.labels, ids))


# ---- what saw the test -------------------------------------------------------------


def check_limit(linted: Linted) -> Iterator[Finding]:
    """SL101: the own rule looks at the test, or its limit is the best of all."""
    rule = linted.scored.stream.meta.get("native_rule")
    looks_at = rule.get("looks_at") if isinstance(rule, Mapping) else None
    if looks_at:
        yield finding(
            "SL101",
            f"The own rule looks at {names(list(looks_at))}.",
            remedy="Choose a rule that looks at nothing of the test.",
        )
        return
    score, alarms = linted.scored.stream.score, linted.scored.test.own_alarms
    if score is None or alarms is None or len(linted.scored.test.attacks) < 2:
        return
    if not alarms.any() or alarms.all() or score[alarms].min() <= score[~alarms].max():
        return
    labels = linted.scored.test.labels
    used = labels >= 0
    order = np.argsort(-score[used], kind="stable")
    hits = np.cumsum(labels[used][order] == ATTACK)
    f1 = 2 * hits / (np.arange(1, len(order) + 1) + hits[-1])
    # A limit cannot part rows of the same score.
    is_end = np.append(np.diff(score[used][order]) < 0, True)
    n_best = int(np.argmax(np.where(is_end, f1, -1.0))) + 1
    if n_best == int(alarms[used].sum()):
        yield finding(
            "SL101",
            "The limit of the own rule is the one with the best F1 on this test.",
            remedy="Set the limit on train or on calibration rows.",
        )


def check_scaler(linted: Linted) -> Iterator[Finding]:
    """SL102: the test was scaled by its own range, or by its own mean and spread."""
    settings = linted.scored.stream.meta.get("detector_settings")
    if isinstance(settings, Mapping) and settings.get("test_scaling") == "own":
        yield finding(
            "SL102",
            "The detector scaled the test by its own range (test_scaling = 'own').",
            remedy="Set test_scaling to 'train'.",
        )
        return
    if linted.scored.stream.test.n_rows < 100:
        return
    # All rows are read only if some rows allow that they were scaled by themselves.
    some_train, some = linted.some_rows
    with np.errstate(over="ignore", invalid="ignore"):
        spread = some.std(axis=0)
        is_unit = (abs(some.mean(axis=0)) < 0.5) & (abs(spread - 1) < 0.5)
    is_range = (some.min(axis=0) >= 0) & (some.max(axis=0) <= 1)
    likely = max(int(is_unit.sum()), int(is_range.sum()))
    if likely < 0.8 * max(int((spread > 0).sum()), 1):
        return
    rows, p = linted.scored.stream.test, linted.scored.stream.p
    total, squares = np.zeros(p), np.zeros(p)
    low, high = np.full(p, np.inf), np.full(p, -np.inf)
    for chunk in rows.chunks():
        values = np.asarray(chunk, np.float64)
        total += values.sum(axis=0)
        squares += np.square(values).sum(axis=0)
        low = np.minimum(low, values.min(axis=0, initial=np.inf))
        high = np.maximum(high, values.max(axis=0, initial=-np.inf))
    mean = total / rows.n_rows
    spread = np.sqrt(np.maximum(squares / rows.n_rows - mean**2, 0.0))
    is_unit = (abs(mean) < 1e-6) & (abs(spread - 1) < 1e-3)
    is_range = (low == 0) & (high == 1) & (some_train.max(axis=0) <= 1)
    moves = spread > 0
    for is_own, what in (
        (is_unit, "mean 0 and spread 1"),
        (is_range & (p > 1), "a range from exactly 0 to exactly 1"),
    ):
        n_own = int((is_own & moves).sum())
        if moves.any() and n_own >= 0.9 * moves.sum():
            yield finding(
                "SL102",
                f"{n_own} of {int(moves.sum())} residual channels have {what} over the "
                "test as a whole: they were scaled by the test itself.",
                remedy="Scale train and test by statistics of train.",
            )


def check_adjustment(linted: Linted) -> Iterator[Finding]:
    """SL103: own alarms begin and end with the labels where nothing stands out."""
    alarms, test = linted.scored.test.own_alarms, linted.scored.test
    if alarms is None:
        return
    starts, stops = run_bounds(alarms, test.breaks)
    runs = set(zip(starts.tolist(), stops.tolist(), strict=True))
    attacks = [s for s in test.segments if s.length >= 3 and alarms[s.rows].any()]
    exact = [s for s in attacks if (s.start, s.stop) in runs]
    if len(exact) < 2 or len(exact) < 0.7 * len(attacks):
        return
    # A true alarm fills an attack only where every row of it stands out.
    score = linted.scored.stream.score
    score = test.energy if score is None else score
    calm = score[test.attack_free.by_label & ~alarms]
    if not len(calm):
        return
    usual = np.quantile(calm, 0.99)
    filled = np.concatenate([score[s.rows] < usual for s in exact])
    if filled.mean() >= 0.02:
        yield finding(
            "SL103",
            f"{len(exact)} of {plural(len(attacks), 'alarmed attack')} are in alarm "
            f"from the first labelled row to the last, though "
            f"{share(float(filled.mean()))} of these rows are like attack-free ones.",
            remedy="Give the alarms as the rule raises them, without point adjustment.",
        )


# ---- labels ------------------------------------------------------------------------


def check_lag(linted: Linted) -> Iterator[Finding]:
    """SL104: the energy fits the list of attacks better if that is shifted."""
    test = linted.scored.test
    segments = [s for s in test.segments if s.length >= 2]
    n_rows = test.n_rows
    if len(segments) < 3 or n_rows < 200:
        return
    rank = np.empty(n_rows)
    rank[np.argsort(test.energy, kind="stable")] = np.arange(n_rows) / n_rows
    total = np.append(0.0, np.cumsum(rank))
    starts = np.array([s.start for s in segments])
    lengths = np.array([s.length for s in segments])
    longest = max(min(n_rows // 4, 20 * int(lengths.max())), 1)
    step = max(1, int(lengths.min()) // 4)
    lags = np.arange(-longest, longest + 1, step)
    now = _mean_ranks(total, starts, lengths, np.zeros(1, np.int64))[:, 0]
    shifted = _mean_ranks(total, starts, lengths, lags)
    fit = shifted.mean(axis=0)
    best = int(np.argmax(fit))
    is_far = abs(lags[best]) >= 0.5 * np.median(lengths)
    n_better = int((shifted[:, best] > np.maximum(now + 0.1, 0.7)).sum())
    if not is_far or now.mean() > 0.65 or fit[best] < max(0.75, now.mean() + 0.2):
        return
    if n_better < 0.6 * len(segments):
        return
    # What shifts of attacks that have nothing to do with the energy would give.
    draw = np.random.default_rng(0)
    by_chance = []
    for _ in range(19):
        moved = draw.integers(0, n_rows - lengths + 1)
        by_chance.append(_mean_ranks(total, moved, lengths, lags).mean(axis=0).max())
    if fit[best] > max(by_chance):
        lag = int(lags[best])
        much = plural(abs(lag), "row")
        if test.step_s is not None:
            much += f" ({duration(abs(lag) * test.step_s)})"
        yield finding(
            "SL104",
            f"The energy fits {n_better} of {len(segments)} attacks better if they are "
            f"shifted by {much} {'later' if lag > 0 else 'earlier'}.",
            remedy="Check the clock and the time zone of the labels.",
        )


def check_begin(linted: Linted) -> Iterator[Finding]:
    """SL114: the evidence begins before the labels by more than the slop in use.

    Of each attack in which one row of one tag is far beyond attack-free time: the first
    row of that tag beyond half of its largest distance, looked for over twice the slop
    before the label. By chance: how often attack-free stretches as long reach that
    half. None of these rows counts as attack-free here.
    """
    scored, test = linted.scored, linted.scored.test
    slop = slop_rows(test.step_s, scored.stream.label_slop_s or None)
    if len(test.segments) < LEAST_LATE or scored.stream.one_sided:
        return
    begins = np.array([segment.start for segment in test.segments])
    edges = np.concatenate([test.breaks, [segment.stop for segment in test.segments]])
    latest = np.sort(edges)[np.searchsorted(np.sort(edges), begins, "right") - 1]
    starts = np.maximum(begins - 2 * slop, (latest + begins + 1) // 2)
    known = scored.extremes.without(starts, begins)
    before, early, chance, n_clear = known.usual_for(2 * slop), [], 0.0, 0
    for segment, start in zip(test.segments, starts.tolist(), strict=True):
        rows = np.arange(start, segment.stop)
        distance = np.abs(gather_rows(scored.stream.test, rows) - known.centre)
        usual = known.usual_for(len(rows))
        if usual is None or before is None:
            return
        ratio = usual.ratio(distance.max(axis=0))
        tag = int(np.argmax(ratio))
        if ratio[tag] < max(CLEAR, CLEAR_MARGIN * usual.ratios.max()):
            continue
        n_clear += 1
        half = distance[:, tag].max() / 2
        first = int(np.argmax(distance[:, tag] >= half))
        early.append(max(segment.start - start - first, 0))
        chance += known.reaching(tag, half, before.n_base)
    late = [rows for rows in early if rows]
    if len(late) < max(LEAST_LATE, 3 * chance):
        return
    needed = int(np.ceil(np.quantile(late, LATE_QUANTILE)))
    if needed <= slop and scored.stream.label_slop_s != 0:
        return
    step_s = test.step_s

    def much(n_rows: float) -> str:
        return f"{n_rows:g} rows" if step_s is None else duration(n_rows * step_s)

    wanted = needed if step_s is None else np.ceil(needed * step_s)
    yield finding(
        "SL114",
        f"In {len(late)} of {plural(n_clear, 'attack')} with clear evidence it begins "
        f"before the label, by {much(float(np.median(late)))} in the median (by chance "
        f"{chance:.1f}).",
        remedy=f"Set the label slop to {wanted:g} s, or correct the labels."
        if step_s is not None
        else f"Correct the labels; they are up to {needed} rows late.",
    )


def _mean_ranks(total: Floats, starts: Ints, lengths: Ints, lags: Ints) -> Floats:
    """Return the mean rank of the energy in each attack (rows), by lag (columns)."""
    n_rows = len(total) - 1
    first = np.clip(starts[:, None] + lags, 0, n_rows - lengths[:, None])
    return np.asarray(
        (total[first + lengths[:, None]] - total[first]) / lengths[:, None]
    )


def check_attacks(linted: Linted) -> Iterator[Finding]:
    """SL109 and SL110: too few attacks, or one that holds most rows."""
    measures = linted.measures
    n_attacks = measures.stream.n_segments
    if 0 < n_attacks < LEAST_ATTACKS:
        yield finding(
            "SL109",
            f"The test has {plural(n_attacks, 'attack')}; a share of attacks caught "
            f"means little with fewer than {LEAST_ATTACKS}.",
            remedy="Say what happened in each attack, and claim no rate.",
        )
    largest = measures.rank.largest_segment_share
    if largest is not None and largest > DOMINANT_SHARE and n_attacks > 1:
        yield finding(
            "SL110",
            f"One attack holds {share(largest)} of all attack rows.",
            remedy="Report the AUC per attack and the number of attacks caught too.",
        )


def check_trace(linted: Linted) -> Iterator[Finding]:
    """SL111: an attack that leaves no trace in residuals, nor in the telemetry.

    One that the judgement calls detected, or that a repair shows, has a trace.
    """
    windows, test = linted.scored.windows, linted.scored.test
    n_matched = windows.plan.n_matched
    p_values = {fact.id: fact.p_value for fact in linted.scored.facts}
    energies = [test.energy]
    if linted.scored.energies.test.other_energy is not None:
        energies.append(linted.scored.energies.test.other_energy)
    usual = [np.sort(energy[test.attack_free.by_label]) for energy in energies]

    def stands_out(rows: slice) -> bool:
        """Return whether an attack's energy is high by its median or by its peak."""
        for energy, ordered in zip(energies, usual, strict=True):
            inside = energy[rows]
            levels = np.searchsorted(ordered, [np.median(inside), inside.max()])
            middle, peak = levels / len(ordered)
            if middle >= 0.9 or peak >= 1 - 0.05 / len(inside):
                return True
        return False

    silent, is_known = [], False
    for i, attack in enumerate(test.attacks):
        p_value = p_values.get(attack.id)
        is_known |= p_value is not None
        if attack.id in linted.seen or (p_value is not None and p_value <= STILL):
            continue
        is_matched = n_matched[i] >= 40
        rank = windows.wins[i] / max(n_matched[i], 1)
        if is_matched and rank < 0.975 and not stands_out(attack.segment.rows):
            silent.append(attack.id)
    if silent:
        yield finding(
            "SL111",
            f"No trace of {names(silent, _MOST_NAMES, quoted=True)} in the residuals"
            + (", nor in the telemetry." if is_known else "."),
            remedy="Check the label; say how many attacks can be found at all.",
        )


# ---- train and test ----------------------------------------------------------------


def check_train_in_test(linted: Linted) -> Iterator[Finding]:
    """SL105: rows or time stamps of train are in test.

    Channels of few values do not count: those of a plant's states repeat by themselves.
    """
    stream = linted.scored.stream
    if len(stream.part_firsts):
        return
    if stream.train_time is not None and stream.test_time is not None:
        n_shared = int(np.isin(stream.train_time, stream.test_time).sum())
        if n_shared > 1:
            yield finding(
                "SL105",
                f"{n_shared:,} time stamps of train are in test too.",
                remedy="Leave these rows out of train.",
            )
            return
    cells = (stream.train.n_rows + stream.test.n_rows) * stream.p
    if cells > MOST_CELLS:
        return
    is_fine = [len(np.unique(one)) > MOST_STATES for one in linted.some_rows[0].T]
    n_rows = 0
    if any(is_fine):
        shared = shared_stretches(stream.train, stream.test)
        n_rows = sum(
            one.length for one in shared if _differs(stream.train, one, is_fine)
        )
    if n_rows:
        yield finding(
            "SL105",
            f"{n_rows:,} test rows, in runs of 60 and more, are in train value by "
            "value.",
            remedy="Leave these rows out of train.",
        )


def _differs(train: Rows, stretch: "SharedStretch", is_fine: Sequence[bool]) -> bool:
    """Return whether channels of many values differ from row to row in a stretch."""
    rows = np.arange(stretch.train_start, stretch.train_start + stretch.length)
    values = gather_rows(train, rows)[:, np.flatnonzero(is_fine)]
    return len(np.unique(values, axis=0)) >= LEAST_DIFFERENT


def check_attacks_in_train(linted: Linted) -> Iterator[Finding]:
    """SL107: attacks lie in train by their time, or train shows their signature."""
    stream, test = linted.scored.stream, linted.scored.test
    if stream.train_time is not None and stream.test_time is not None:
        inside = [
            attack.id
            for attack in test.attacks
            if np.any(
                (stream.train_time >= stream.test_time[attack.start])
                & (stream.train_time <= stream.test_time[attack.stop - 1])
            )
        ]
        if inside:
            yield finding(
                "SL107",
                f"Train holds {_listed(inside)} by its time.",
                severity=Severity.ERROR,
                remedy="Leave these rows out of train.",
            )
            return
    like = [
        attack.id
        for attack, is_like in zip(
            test.attacks, _signatures_in_train(linted), strict=True
        )
        if is_like
    ]
    if like:
        yield finding(
            "SL107",
            f"Train has stretches with the signature of {_listed(like)}.",
            remedy="Look for unlisted incidents in train, and leave them out.",
        )


def _listed(ids: Sequence[str]) -> str:
    """Return attacks by their names."""
    listed = names(ids, _MOST_NAMES, quoted=True)
    return f"{'attack' if len(ids) == 1 else 'attacks'} {listed}"


# Rows of a block of train that is compared with an attack; how alike they must be, as a
# cosine and as a share of the attack's size; and how large an attack must be, in units
# of the usual block.
_BLOCK, _ALIKE, _SIZE, _STRONG = 16, 0.9, 0.6, 3.5
# Blocks that are whitened at a time.
_AT_ONCE = 16_384


def _signatures_in_train(linted: Linted) -> list[bool]:
    """Return for each attack whether train has a rare stretch that looks like it.

    Means of blocks of `_BLOCK` whitened rows, each beginning half a block after the one
    before, are compared with the attack's: the same direction and about its size, in
    two blocks in a row, in at most 2% of train.
    """
    reference, means = linted.scored.energies.reference, linted.scored.windows.means
    p, n_rows = linted.scored.stream.p, linted.scored.energies.rows.n_rows
    if p < 3 or n_rows * p > MOST_CELLS or n_rows < 20 * _BLOCK or not len(means):
        return [False] * len(means)
    # Means of half blocks; rows at the end that fill none are left out.
    half = _BLOCK // 2
    halves = np.concatenate(
        [
            np.asarray(rows[: len(rows) // half * half], np.float64)
            .reshape(-1, half, p)
            .mean(axis=1)
            for _, rows in read_on_grid(linted.scored.energies.rows)
        ]
    )

    def blocks() -> Iterator[Floats]:
        for start in range(0, len(halves) - 1, _AT_ONCE):
            some = halves[start : start + _AT_ONCE + 1]
            means = (some[1:] + some[:-1]) / 2
            yield (means - reference.mean) @ reference.whitening

    norms = np.concatenate([np.linalg.norm(some, axis=1) for some in blocks()])
    norms = np.maximum(norms, 1e-300)
    size = np.linalg.norm(means, axis=1)
    lengths = np.array([s.length for s in linted.scored.test.segments])
    strong = np.flatnonzero((size > _STRONG * np.median(norms)) & (lengths >= _BLOCK))
    like = [False] * len(means)
    if not len(strong):
        return like
    directions = (means[strong] / size[strong, None]).T
    each = np.concatenate([some @ directions for some in blocks()])
    for k, along in zip(strong.tolist(), each.T, strict=True):
        is_hit = (along >= _ALIKE * norms) & (along >= _SIZE * size[k])
        is_pair = is_hit[1:] & is_hit[:-1]
        like[k] = bool(is_pair.any()) and float(is_hit.mean()) <= 0.02
    return like


def check_resolution(linted: Linted) -> Iterator[Finding]:
    """SL112: residuals of train and test have different decimals."""
    stream = linted.scored.stream
    train, test = linted.some_rows
    decimals = np.stack([decimals_of(train), decimals_of(test)])
    coarse, fine = decimals.min(axis=0), decimals.max(axis=0)
    spread = train.std(axis=0)
    n_values = [
        min(len(np.unique(a)), len(np.unique(b)))
        for a, b in zip(train.T, test.T, strict=True)
    ]
    is_rough = (
        (coarse <= MOST_DECIMALS)
        & (fine >= coarse + 2)
        & (10.0**-coarse > 0.05 * spread)
        & (np.array(n_values) > 2)
    )
    if is_rough.any():
        channels = [stream.channels[k] for k in np.flatnonzero(is_rough)]
        which = (
            "train"
            if decimals[0, is_rough].sum() < decimals[1, is_rough].sum()
            else "test"
        )
        yield finding(
            "SL112",
            f"{names(channels, _MOST_NAMES, quoted=True)}: rounded in {which} only.",
            tags=channels,
            remedy="Make both residuals from values of the same decimals.",
        )


# ---- figures and rows --------------------------------------------------------------


def check_units(linted: Linted) -> Iterator[Finding]:
    """SL106: the units of the channels decide a figure."""
    if moved := moved_by_units(linted.measures):
        yield finding(
            "SL106",
            "With each channel in units of its own spread you would get "
            f"{names(moved)}.",
            remedy="Bring the residuals to one scale by train, or report both.",
        )


def moved_by_units(measures: "StreamMeasures") -> list[str]:
    """Return the figures that the units of the channels decide, in words.

    A figure is among them if, with each channel in units of its own spread, it differs
    by more than a third of the larger value and by at least `LEAST_MOVE`.
    """
    reference = measures.reference
    pairs = (
        ("pAUC at 1%", measures.rank.pauc_1, reference.standardised_pauc_1),
        ("F1", measures.probe.f1, reference.standardised_f1),
        (
            "compactness",
            measures.compactness.compactness,
            reference.standardised_compactness,
        ),
    )
    return [
        f"{name} {other:.3f} instead of {figure:.3f}"
        for name, figure, other in pairs
        if figure is not None
        and other is not None
        and abs(other - figure)
        > max(LEAST_MOVE, MOST_MOVED * max(abs(other), abs(figure)))
    ]


def check_standing(linted: Linted) -> Iterator[Finding]:
    """SL108: the present rule is in alarm most of attack-free time."""
    own = linted.measures.own_rule
    alarms, rule = own or linted.measures.probe, "own" if own else "p99"
    if alarms.time_in_alarm > STANDING:
        yield finding(
            "SL108",
            f"The {rule} rule is in alarm for {share(alarms.time_in_alarm, 1)} of "
            + as_labelled(
                "attack-free time (whole test).", linted.measures.stream.labels
            ),
            remedy="Raise the limit, or learn from a later time.",
        )


def check_rows(linted: Linted) -> Iterator[Finding]:
    """SL113: the testbed's options and the detector's settings both made rows."""
    meta = linted.scored.stream.meta
    settings, options = meta.get("detector_settings"), meta.get("testbed_options")
    if "rows" in meta or not isinstance(settings, Mapping):
        return
    by_detector = settings.get("every", 1)
    options = options if isinstance(options, Mapping) else {}
    presets = PRESETS.get(str(options.get("preset", "raw")), {})
    rows = presets.get(str(meta.get("testbed_name")), presets.get(""))
    by_testbed = int(options.get("every") or (1 if rows is None else rows.every))
    if by_detector > 1 and by_testbed > 1:
        yield finding(
            "SL113",
            f"The testbed was opened with rows of {by_testbed}, and the detector made "
            f"rows of {by_detector} of these: {by_testbed * by_detector} measured rows "
            "in each.",
            remedy="Export the stream again; rows are made once now.",
        )


# Checks of what a detector says of itself: its alarms, and its entries in `meta`.
OF_DETECTOR = (check_limit, check_adjustment, check_rows)
# Checks that read residuals again.
OF_ROWS = (check_scaler, check_train_in_test, check_attacks_in_train, check_resolution)
CHECKS = (
    check_limit,
    check_adjustment,
    check_lag,
    check_begin,
    check_units,
    check_standing,
    check_attacks,
    check_trace,
    check_rows,
    *OF_ROWS,
)


# ---- rows that two tables share ----------------------------------------------------

# Shorter equal stretches of train and test occur by chance, while a plant stands still.
LEAST_ROWS = 60
# A stretch with fewer different rows is a plant at rest, not a copy.
LEAST_DIFFERENT = 10
_BASE = np.uint64(0x9E3779B97F4A7C15)
_INVERSE = np.uint64(pow(int(_BASE), -1, 2**64))
Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True, kw_only=True)
class SharedStretch:
    """A stretch of `length` consecutive rows that train and test share.

    Parameters
    ----------
    train_start, test_start : int
        Its first row in each.
    length : int
        Number of rows.
    """

    train_start: int
    test_start: int
    length: int


def shared_stretches(train: Rows, test: Rows) -> list[SharedStretch]:
    """Return the stretches of consecutive rows that are in both, value by value.

    They are found by a rolling hash of windows of rows. Stretches below `LEAST_ROWS`
    rows or with fewer than `LEAST_DIFFERENT` different rows are left out: they occur by
    chance while a plant stands still.
    """
    if min(train.n_rows, test.n_rows) < LEAST_ROWS:
        return []
    _, of_train = _hashes(train)
    of_rows, of_test = _hashes(test)
    order = np.argsort(of_train, kind="stable")
    place = np.searchsorted(of_train[order], of_test)
    source = order[np.minimum(place, len(order) - 1)]
    begins, ends = run_bounds(of_train[source] == of_test)
    stops = ends + LEAST_ROWS - 1
    return [
        SharedStretch(train_start=int(source[at]), test_start=at, length=stop - at)
        for at, stop in zip(begins.tolist(), stops.tolist(), strict=True)
        if len(np.unique(of_rows[at:stop])) >= LEAST_DIFFERENT
    ]


def _hashes(rows: Rows) -> tuple[Hashes, Hashes]:
    """Return a 64-bit hash of each row, and of the `LEAST_ROWS` rows from each row on.

    Two different rows collide about never. The second is ``sum of hash[i + j] *
    base**j``, computed as a difference of cumulative sums modulo 2**64, in which an odd
    base has an inverse.
    """
    draw = np.random.default_rng(0)
    # Odd numbers.
    weights = 2 * draw.integers(2**63, size=rows.n_channels, dtype=np.uint64) + 1
    parts = []
    for _, block in read_on_grid(rows):
        bits = np.ascontiguousarray(block, np.float64).view(np.uint64)
        # Mix the bits, because round numbers end in many zeros.
        parts.append(((bits ^ (bits >> np.uint64(29))) * weights).sum(axis=1))
    hashes = np.concatenate(parts)
    powers = np.full(len(hashes), _BASE)
    inverse = np.full(len(hashes) - LEAST_ROWS + 1, _INVERSE)
    powers[0] = inverse[0] = 1
    sums = np.cumsum(hashes * np.cumprod(powers))
    before = np.concatenate([np.zeros(1, np.uint64), sums])
    windows = (before[LEAST_ROWS:] - before[:-LEAST_ROWS]) * np.cumprod(inverse)
    return hashes, windows
