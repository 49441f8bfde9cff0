"""Calm rows: attack-free, and not the aftermath of an attack."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from sightline.data.arrays import NORMAL, Bools
from sightline.data.segments import Segment
from sightline.data.stream import ResidualStream
from sightline.energy.energy import ScoredTest
from sightline.facts import attack_facts
from sightline.facts.attack_facts import AttackFacts
from sightline.facts.records import audit_in

# Rows this long after an attack do not count as quiet.
GUARD_S: Final = 600.0


def facts_of_stream(stream: ResidualStream, test: ScoredTest) -> list[AttackFacts]:
    """Return what the telemetry says of each attack.

    Facts of the recording that the stream carries come first (they are the same for
    all detectors); else they are found from the stream's own telemetry. Without either
    nothing is known but the aftermath, from the energy.
    """
    audit = audit_in(stream.meta)
    carried = {} if audit is None else {f.id: f for f in audit.recording.attacks}
    if all(attack.id in carried for attack in test.attacks):
        return [carried[attack.id] for attack in test.attacks]
    train, tested = stream.telemetry_train, stream.telemetry_test
    if train is not None and tested is not None:
        telemetry = attack_facts.prepare(
            train,
            tested,
            labels=test.labels,
            train_breaks=stream.train_breaks,
            test_breaks=test.breaks,
            channels=stream.telemetry_channels,
            step_s=test.step_s,
        )
        if telemetry is not None:
            return list(attack_facts.facts_of_attacks(telemetry, test.attacks))
    return _facts_by_energy(test)


def _facts_by_energy(test: ScoredTest) -> list[AttackFacts]:
    """Return the aftermath of each attack from the energy, and nothing else."""
    after = attack_facts.energy_aftermath(
        test.energy, test.labels, test.breaks, test.segments, test.step_s
    )
    step_s = test.step_s or 1.0
    return [
        AttackFacts(id=attack.id, aftermath_s=n_rows * step_s)
        for attack, n_rows in zip(test.attacks, after, strict=True)
    ]


def calm_rows(test: ScoredTest, facts: Sequence[AttackFacts]) -> Bools:
    """Return which rows are attack-free and not the aftermath of an attack."""
    is_calm = test.labels == NORMAL
    step_s = test.step_s or 1.0
    for segment, fact in zip(test.segments, facts, strict=True):
        n_after = int(np.ceil((fact.aftermath_s or 0.0) / step_s - 1e-6))
        is_calm[segment.stop : segment.stop + n_after] = False
    # Where nothing would be left the aftermath cannot be told from normal operation.
    return is_calm if is_calm.any() else np.asarray(test.labels == NORMAL)


def quiet_rows(test: ScoredTest, facts: Sequence[AttackFacts]) -> Bools:
    """Return the calm rows that are not within ten minutes after an attack.

    The jump back at an attack's end is as large as its onset, so an alarm there is
    neither false nor raised by the attack. At least one row is left out.
    """
    is_quiet = beyond_guard(calm_rows(test, facts), test.segments, test.step_s)
    return is_quiet if is_quiet.any() else calm_rows(test, facts)


def beyond_guard(
    is_calm: Bools, attacks: Sequence[Segment], step_s: float | None
) -> Bools:
    """Return the calm rows without ten minutes, at least a row, after each attack."""
    n_rows = max(1, int(np.ceil(GUARD_S / (step_s or GUARD_S) - 1e-6)))
    is_quiet = is_calm.copy()
    for attack in attacks:
        is_quiet[attack.stop : attack.stop + n_rows] = False
    return is_quiet


def quiet_rows_before(test: ScoredTest, row: int) -> Bools:
    """Return the quiet rows before a row, by what was known then.

    No label and no energy from that row on is read. The aftermath of an attack is
    taken from the energy: facts of the recording were found with later labels too.
    """
    attacks = [
        replace(attack, stop=min(attack.stop, row))
        for attack in test.attacks
        if attack.start < row
    ]
    cut = replace(
        test,
        energy=test.energy[:row],
        labels=test.labels[:row],
        attacks=attacks,
        breaks=test.breaks[test.breaks < row],
        alarms=test.alarms[:row],
    )
    return quiet_rows(cut, _facts_by_energy(cut))
