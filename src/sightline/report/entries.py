"""The detectors as the page lists them, the best first.

The verdicts of the page are those of all detectors of a testbed together
(`sightline.comparison.joint`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sightline.comparison.runs import (
    DetectorRuns,
    JointVerdict,
    group_runs,
    joint_verdicts_on,
)
from sightline.data.arrays import Floats
from sightline.judgement.judge import METHOD
from sightline.judgement.verdicts import RungName, VerdictInfo, all_infos, info_of
from sightline.rules.choose import is_over
from sightline.rules.judging import CommissioningFacts
from sightline.show.evaluations import (
    OWN,
    P99,
    is_judged,
    on_rows,
    over_alarms,
    rules_of,
)
from sightline.show.rules import GlanceRecord, RuleInUse
from sightline.storage import Result
from sightline.text import slug


@dataclass(frozen=True, eq=False)
class Entry(DetectorRuns):
    """One detector on one testbed as the page shows it; the first seed is drawn.

    Parameters
    ----------
    key : str
        Unique on the page; part of the links to its attacks.
    joint : tuple of JointVerdict
        The verdict on each attack of the first seed in view of all other detectors of
        the testbed. Empty: the verdicts of this detector alone.
    """

    key: str
    joint: tuple[JointVerdict, ...] = ()

    @cached_property
    def train_mean(self) -> float:
        """Mean train energy of the first seed."""
        return self.evaluation.compactness.p_eff / 2

    @cached_property
    def drift_floor(self) -> float | None:
        """Mean energy of attack-free test rows; the median if extremes dominate it."""
        drift = self.evaluation.drift
        moved = drift.d_drift_robust if drift.mean_dominated else drift.d_drift
        return None if moved is None else self.train_mean + moved

    @cached_property
    def time(self) -> Floats | None:
        """Time of each test row in seconds; None if absent or not monotonic."""
        time = self.traces.test_time
        if time is None or len(time) < 2 or not np.all(np.diff(time) >= 0):
            return None
        return np.asarray(time, dtype=np.float64)

    @cached_property
    def stages(self) -> dict[str, str]:
        """The stage of each channel, if the stream has groups."""
        return self.evaluation.provenance.stages

    @cached_property
    def attack_keys(self) -> list[str]:
        """The link of each attack, unique whatever the attacks are called."""
        taken: set[str] = set()
        return [
            unique(f"attack-{self.key}_{slug(segment.id)}", taken)
            for segment in self.evaluation.segments
        ]

    @cached_property
    def verdicts(self) -> list[VerdictInfo]:
        """The verdict on each attack of the first seed, as the page shows it."""
        if self.joint:
            return [info_of(one.verdict) for one in self.joint]
        return [info_of(segment.verdict) for segment in self.evaluation.segments]

    @property
    def verdict_counts(self) -> tuple[tuple[VerdictInfo, int], ...]:
        """How many attacks have each verdict that occurs; empty without a diagnosis."""
        if self.evaluation.diagnosis is None:
            return ()
        counts = [(info, self.verdicts.count(info)) for info in all_infos()]
        return tuple((info, count) for info, count in counts if count)

    @property
    def is_earlier(self) -> bool:
        """Whether the verdicts were made by the rules of an earlier version."""
        facts = self.evaluation.diagnosis
        return facts is not None and facts.method < METHOD

    @property
    def main_rule(self) -> RungName:
        """The rule a detector is ranked by: its own, if that was judged."""
        own = self.evaluation.own_rule
        return OWN if own is not None and is_judged(self.evaluation, OWN) else P99

    @property
    def budget_rules(self) -> CommissioningFacts | None:
        """The rules made for a budget, if there was something to judge them on."""
        facts = self.evaluation.rules
        return facts if facts and facts.judged_days and facts.n_attacks else None

    @property
    def at_a_glance(self) -> tuple[GlanceRecord, ...]:
        """The rules in use, then the rules for the budget if they could be judged."""
        # Tables of a study outlive its arrays.
        evaluation = replace(self.evaluation, traces=None)
        seeds = [result.evaluation for result in self.results]
        in_use = [
            RuleInUse(
                evaluation,
                rule,
                tuple(
                    attacks.caught
                    for one in seeds
                    if rule in rules_of(one)
                    and (attacks := on_rows(one, rule).attacks) is not None
                ),
            )
            for rule in rules_of(evaluation)
        ]
        facts = evaluation.rules
        return (*in_use, facts) if facts and facts.judged_days else tuple(in_use)

    def first_alarms(self, rule: RungName) -> list[int | None]:
        """Return the rows to the first alarm of each attack; empty if not recorded."""
        segments, own = self.evaluation.segments, self.traces.own_first_alarm
        if rule == P99:
            return [segment.first_alarm for segment in segments]
        if own is None or len(own) != len(segments):
            return []
        return [int(row) if row >= 0 else None for row in own]


def entries_of(results: Sequence[Result]) -> list[Entry]:
    """Return the page's entries: testbeds as given, the best detector first.

    Detectors of a testbed are ordered by a figure with a cost in it: the lower end of
    the skill of the rule that was made for the budget, on judged rows, then its alarms
    a day. Those whose rule costs more than the budget come after those that keep it.
    Without such rules they are ordered by the lower end of the skill of their rule in
    use, then ROC-AUC, then false alarms, and come after the others; an over-alarming
    one comes last.

    Parameters
    ----------
    results : sequence of Result
        In any order; `sightline.comparison.runs.group_runs` groups them.

    Returns
    -------
    list of Entry
        One for each detector on each testbed.
    """
    keys: set[str] = set()
    entries = []
    for testbed in group_runs(results):
        joint: dict[str, dict[int, JointVerdict]]
        joint = {runs.label: {} for runs in testbed.detectors}
        for attack in testbed.attacks:
            for label, verdict in joint_verdicts_on(attack).items():
                joint[label][attack.places[label]] = verdict
        group = [
            Entry(
                runs.testbed,
                runs.detector,
                runs.guard,
                runs.results,
                # No slug holds an underscore, so no two pairs of names share a key.
                unique(f"{slug(runs.testbed)}_{slug(runs.label)}", keys),
                tuple(verdict for _, verdict in sorted(joint[runs.label].items())),
            )
            for runs in testbed.detectors
        ]
        entries += sorted(group, key=_merit)
    return entries


def _merit(entry: Entry) -> tuple[float, ...]:
    """Return the sort key of an entry: the better the detector, the smaller the key."""
    evaluation, facts = entry.evaluation, entry.budget_rules
    auc = evaluation.rank.roc_auc or 0.0
    if facts is not None:
        chosen = facts.row(facts.chosen)
        skill, cost = chosen.attacks.least_skill, chosen.load.alarms_per_day or 0.0
        return 1.0 * is_over(chosen.load, facts), -skill, cost, -auc
    alarms = rules_of(evaluation)[entry.main_rule]
    skill = -1.0 if alarms.attacks is None else alarms.attacks.least_skill
    cost = float(alarms.false_positive_segments)
    if alarms.load is not None:
        cost = float(alarms.load.alarms)
    is_over_alarming = over_alarms(evaluation, entry.main_rule)
    return 3.0 if is_over_alarming else 2.0, -skill, -auc, cost


def unique(key: str, taken: set[str]) -> str:
    """Return a key that is not in `taken`, and add it.

    Examples
    --------
    >>> taken = {"swat"}
    >>> unique("swat", taken), unique("swat", taken)
    ('swat-2', 'swat-3')
    """
    name, n = key, 1
    while name in taken:
        n += 1
        name = f"{key}-{n}"
    taken.add(name)
    return name
