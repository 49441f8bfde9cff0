"""Score a stream: reference, energy, alarms of the p99 rule, and attack-free time.

The first stage of `evaluate` and of `commission`. Everything later reads the one value
that `score` returns.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Final, cast

import numpy as np

from sightline.audit import attack_facts
from sightline.audit.attack_facts import AttackFacts
from sightline.audit.record import audit_in
from sightline.data.arrays import ATTACK, NORMAL, Bools, Floats, Labels
from sightline.data.row_tables import Rows, make_calls, read_on_grid
from sightline.data.segments import Attack, with_guard
from sightline.data.stream import ResidualStream
from sightline.energy.attack_free import AttackFreeTime, energy_aftermath
from sightline.energy.energy import (
    Energies,
    FlooredRows,
    ScoredTest,
    as_judged,
    score_stream,
)
from sightline.energy.reference import Moments
from sightline.energy.tag_extremes import TagExtremes
from sightline.errors import StreamError
from sightline.metrics.alarm_load import Delays, Episodes, episodes_of
from sightline.metrics.ranking import AttackRanks, rank_attacks
from sightline.metrics.windows import (
    WindowEnergies,
    WindowsOfPart,
    WindowWatch,
    plan_windows,
    windows_of_parts,
)
from sightline.progress import Progress, silent
from sightline.rules.limits import QuantileRule

NO_SLOP: Final = (
    "All attack-free time lies within the slop of a label, so that labels were taken "
    "as they are."
)


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoredStream:
    """A scored stream, as all later stages read it.

    Parameters
    ----------
    stream : ResidualStream
        As it is judged: from its floor if it is one-sided.
    energies : Energies
        The reference, and the energy of every row of train, test and calibration.
    test : ScoredTest
        Energy, labels, attacks and alarms of the test, and its attack-free time.
    windows : WindowEnergies
        D_FULL and D_MS of the attacks and of normal windows of their length; empty
        without attacks, or if they were not wanted.
    facts : sequence of AttackFacts
        What the telemetry says of each attack.
    largest : array of shape (n_test,), optional
        The score `largest` of the test rows, where it was asked for.
    """

    stream: ResidualStream
    energies: Energies
    test: ScoredTest
    windows: WindowEnergies
    facts: Sequence[AttackFacts]
    largest: Floats | None = None

    @cached_property
    def extremes(self) -> TagExtremes:
        """The largest distance of each tag from its attack-free median."""
        rows, is_free = self.stream.test, self.test.attack_free.without_aftermath
        spread = np.sqrt(np.diag(self.energies.moments.covariance))
        find = partial(TagExtremes.of, rows, is_free, spread)
        return make_calls(rows, [find])[0]

    @property
    def present_alarms(self) -> Bools:
        """Where the rule in use is in alarm: the user's own, or else the p99 rule."""
        own = self.test.own_alarms
        return self.test.alarms if own is None else own

    @cached_property
    def present(self) -> Episodes:
        """The alarms of the rule in use."""
        delays = Delays.of_step(self.test.step_s)
        return episodes_of(self.present_alarms, delays, self.test.breaks)

    @cached_property
    def ranks(self) -> AttackRanks:
        """Where attack rows stand among normal rows by energy."""
        return ranks_of_score(self.test.energy, self.test.labels)


def ranks_of_score(score: Floats, labels: Labels) -> AttackRanks:
    """Return where attack rows stand among normal rows by a score.

    Ignored rows count as neither. Higher scores rank as more anomalous; without attacks
    the ranks are empty, and every figure of them is None.
    """
    normal = np.sort(score[labels == NORMAL])
    return rank_attacks(score[labels == ATTACK], normal)


def score(
    stream: ResidualStream,
    *,
    guard: int = 0,
    estimator: str = "ledoit-wolf",
    is_paper: bool = False,
    with_windows: bool = False,
    progress: Progress | None = None,
) -> ScoredStream:
    """Fit the reference on train, and score every row under it.

    Parameters
    ----------
    stream : ResidualStream
        The residuals; each table is read block by block.
    guard : int
        Normal rows after each attack that are labelled -1, so that recovery counts
        neither as attack nor as normal; a guard ends at the next break.
    estimator : str
        Covariance estimator of the reference.
    is_paper : bool
        Fit the reference on held-out rows too, use plain covariances of windows, judge
        every stream two-sided, and attacks that touch as one, as the paper does.
    with_windows : bool
        Whether to compare the attacks with normal windows of their length, in the same
        pass.
    progress : callable, optional
        Called with a `Step`.

    Raises
    ------
    StreamError
        If a row is not finite, or the guard leaves no normal row.
    """
    stream = as_judged(stream.replace(one_sided=False) if is_paper else stream)
    attacks = stream.attack_segments(apart=not is_paper)
    runs = [attack.segment for attack in attacks]
    labels = with_guard(stream.labels, runs, stream.test_breaks, guard)
    if not (labels == NORMAL).any():
        raise StreamError(
            f"A guard of {guard} rows leaves no normal test row: choose a smaller one."
        )
    wanted = runs if with_windows else []
    plan = plan_windows(wanted, labels, stream.test_breaks)
    watch = WindowWatch(plan, is_plain=is_paper)
    energies = score_stream(
        stream,
        labels,
        estimator,
        watch if wanted and not stream.one_sided else None,
        progress=progress or silent,
        use_held_out=is_paper,
    )
    collected = energies.test.collected
    if stream.one_sided and wanted:
        fill = partial(_two_sided, stream.test, energies.moments, watch)
        collected = tuple(make_calls(stream.test, [fill]))
    windows = windows_of_parts(watch, stream.p, collected)
    energies = replace(energies, test=replace(energies.test, collected=()))
    facts = _facts_of_attacks(stream, energies.test.energy, labels, attacks)
    rule = QuantileRule.from_normal(energies.train.energy)
    test = ScoredTest(
        energy=energies.test.energy,
        labels=labels,
        attacks=attacks,
        breaks=stream.test_breaks,
        reference=energies.reference,
        threshold=rule.threshold,
        alarms=rule.alarms(energies.test.energy),
        attack_free=AttackFreeTime.of(
            labels,
            runs,
            stream.step_s,
            aftermath_s=[f.aftermath_s for f in facts],
            label_slop_s=stream.label_slop_s,
            breaks=stream.test_breaks,
        ),
        own_alarms=None if stream.alarms is None else stream.alarms == 1,
        step_s=stream.step_s,
    )
    if test.attack_free.is_slop_given_up:
        stream = stream.replace(notices=(*stream.notices, NO_SLOP))
    return ScoredStream(
        stream=stream, energies=energies, test=test, windows=windows, facts=facts
    )


def _two_sided(rows: Rows, moments: Moments, watch: WindowWatch) -> WindowsOfPart:
    """Return the windows of a score about the mean of train, low values included.

    Only alarms and ranks judge a score one-sided; how far a window's law is from that
    of train is a question with two sides.
    """
    floored = cast(FlooredRows, rows)
    collector = watch.begin(0, rows.n_rows)
    for start, block in read_on_grid(floored.rows):
        height = np.asarray(block, np.float64) - floored.floor
        collector.take(
            start, (height - moments.mean) / np.sqrt(np.diag(moments.covariance))
        )
    return collector.ended()


def _facts_of_attacks(
    stream: ResidualStream, energy: Floats, labels: Labels, attacks: Sequence[Attack]
) -> list[AttackFacts]:
    """Return what the telemetry says of each attack.

    Facts of the recording that the stream carries come first (they are the same for
    all detectors); else they are found from the stream's own telemetry. Without either
    nothing is known but the aftermath, from the energy.
    """
    audit = audit_in(stream.meta)
    carried = {} if audit is None else {f.id: f for f in audit.recording.attacks}
    if all(attack.id in carried for attack in attacks):
        return [carried[attack.id] for attack in attacks]
    train, tested = stream.telemetry_train, stream.telemetry_test
    if train is not None and tested is not None:
        telemetry = attack_facts.prepare(
            train,
            tested,
            labels=labels,
            train_breaks=stream.train_breaks,
            test_breaks=stream.test_breaks,
            channels=stream.telemetry_channels,
            step_s=stream.step_s,
        )
        if telemetry is not None:
            slop_s = stream.label_slop_s
            return list(attack_facts.facts_of_attacks(telemetry, attacks, slop_s))
    runs = [attack.segment for attack in attacks]
    after = energy_aftermath(energy, labels, stream.test_breaks, runs, stream.step_s)
    step_s = stream.step_s or 1.0
    return [
        AttackFacts(id=attack.id, aftermath_s=n_rows * step_s)
        for attack, n_rows in zip(attacks, after, strict=True)
    ]
