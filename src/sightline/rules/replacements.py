"""Rules in place of the present one: the family, and the repairs of the ladder."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, Final, cast

import numpy as np

from sightline.data.row_tables import gather_rows, make_calls
from sightline.data.stream import ResidualStream
from sightline.energy.energy import ScoredStream, ScoredTest
from sightline.errors import StreamError
from sightline.facts.attack_facts import AttackFacts
from sightline.facts.calm_rows import quiet_rows, quiet_rows_before
from sightline.metrics.alarm_load import Delays, episodes_of
from sightline.parallel import together
from sightline.rules.advice import advice
from sightline.rules.budget import Budget
from sightline.rules.commission import (
    Commissioning,
    CommissionSettings,
    commission_scored,
    split_row,
)
from sightline.rules.judging import JudgedRows, RuleOutcome
from sightline.rules.masking import mask_after_changes

# The rule by energy whose reference is fitted on commissioning rows.
REFITTED: Final = "energy, refitted"
# One channel alone makes the false alarms if it leads this share of
DOMINATES: Final = 0.5
# at least this many.
LEAST_LED: Final = 10


def replacements(
    stream: ResidualStream,
    scored: ScoredStream,
    test: ScoredTest,
    facts: Sequence[AttackFacts],
    budget: Budget,
) -> Commissioning:
    """Return the rules that could replace the present one, made for a budget.

    The default family, and beside it: members with memory joined, the energy with a
    reference fitted on commissioning rows, the detector's own score with a limit for
    the budget, and rules without the one channel that makes most false alarms.

    Parameters
    ----------
    stream, scored, test : ResidualStream, ScoredStream, ScoredTest
        As it is judged, and its energies.
    facts : sequence of AttackFacts
        How long each attack lasts after its label.
    budget : Budget
        Alarms a day, and share of time.

    Raises
    ------
    StreamError
        If there is too little calm time for the budget.
    """
    joined = () if stream.one_sided else ("memory",)
    settings = CommissionSettings(budget=budget, rules=joined)
    split = split_row(stream, settings.first, settings.until)
    judged = JudgedRows.of(
        quiet_rows(test, facts),
        test.attacks,
        test.breaks,
        split,
        test.step_s or 1.0,
    )
    known = (stream, _without_energies(scored), test, facts)
    family_and_mask: list[Callable[[], Any]] = [
        partial(commission_scored, *known, settings),
        partial(mask_after_changes, stream, test, judged),
    ]

    def further() -> tuple[str | None, list[list[RuleOutcome]]]:
        noisy = noisy_channel(stream, test, split)
        calls = [
            partial(_table, name, *known, given)
            for name, given in _further(stream, budget, noisy)
        ]
        return noisy, make_calls(stream.test, calls)

    # The family takes longest, and need not wait for what the others depend on.
    (family, mask), (noisy, tables) = together(
        partial(make_calls, stream.test, family_and_mask), further
    )
    made = replace(
        family.facts,
        table=tuple(chain(family.facts.table, *tables)),
        noisy_channel=noisy,
        mask=mask,
    )
    made = replace(made, advice=advice(made))
    return cast(Commissioning, replace(family, facts=made))


def _without_energies(scored: ScoredStream) -> ScoredStream:
    """Return a scored stream without what rules do not read, to be sent to workers."""
    none = np.empty(0)
    train, test = (
        replace(each, energy=none, other_energy=None)
        for each in (scored.train, scored.test)
    )
    return replace(scored, train=train, test=test, standardised_train=None)


def _table(
    name: str,
    stream: ResidualStream,
    scored: ScoredStream,
    test: ScoredTest,
    facts: Sequence[AttackFacts],
    settings: CommissionSettings,
) -> list[RuleOutcome]:
    """Return how further rules did; `name` has ``{}`` for the name of each."""
    try:
        other = commission_scored(stream, scored, test, facts, settings).facts
    except StreamError:  # fewer rows than the family has, as without calibration
        return []
    return [replace(row, name=name.format(row.name)) for row in other.table]


def _further(
    stream: ResidualStream, budget: Budget, noisy: str | None
) -> Iterator[tuple[str, CommissionSettings]]:
    """Yield what further rules are called, and how they are made."""
    base = CommissionSettings(budget=budget, family=("energy",), choose="energy")
    if not stream.one_sided:
        yield REFITTED, replace(base, reference="commissioning")
    if stream.score is not None:
        yield "{}", replace(base, family=("score",), choose="score")
    if noisy is not None:
        yield (
            f"{{}} without {noisy}",
            replace(base, family=("energy", "all"), without=(noisy,)),
        )


def noisy_channel(stream: ResidualStream, test: ScoredTest, split: int) -> str | None:
    """Return the channel that alone makes most false alarms before the split.

    Of each false alarm of the p99 rule the channel that contributes most to the energy
    where it starts is its leader. None if no channel leads half of them.
    """
    if stream.p < 3:
        return None
    episodes = episodes_of(test.alarms, Delays.of_step(test.step_s), test.breaks)
    starts = episodes.starts[episodes.starts < split]
    starts = starts[quiet_rows_before(test, split)[starts]]
    if len(starts) < LEAST_LED:
        return None
    rows = gather_rows(stream.test, starts) - test.reference.mean
    parts = rows * (rows @ test.reference.precision)
    leaders = Counter(np.argmax(parts, axis=1).tolist())
    channel, count = leaders.most_common(1)[0]
    return stream.channels[channel] if count >= DOMINATES * len(starts) else None
