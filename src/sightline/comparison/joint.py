"""What all detectors of a testbed together say of an attack.

Whether the telemetry moves is a fact of the recording, the same for all detectors. A
stream alone may say ``not-in-telemetry`` of an attack that another detector detects;
here the results that are seen together are brought to one answer.

An attack whose telemetry is still is *vetoed* if the present or the p99 rule of any
detector shows it, or if two detectors show it by a repair (a lone repair of one
detector is one of too many tries, and too little energy never counts). Then no detector
says ``not-in-telemetry``. Without a veto all detectors say it: the same word for all.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sightline.audit.attack_facts import AttackFacts, Movement
from sightline.comparison.runs import MatchedAttack, TestbedRuns
from sightline.judgement.ladder import LADDER, Kind
from sightline.judgement.verdicts import Verdict
from sightline.text import names

# Detectors that must show an attack by a repair for a veto.
LEAST_SHOWING = 2
# Verdicts of attacks that no rung shows.
_NOT_SHOWN = (Verdict.WEAK_EVIDENCE, Verdict.NOT_IN_TELEMETRY)


@dataclass(frozen=True, kw_only=True)
class JointVerdict:
    """The verdict on one attack by one detector, in view of all others.

    Parameters
    ----------
    verdict : Verdict, optional
        As the stream alone gives it; but `not-in-telemetry` for all where the telemetry
        is still and not vetoed, and for none else. None without a diagnosis.
    vetoed_by : tuple of str
        Detectors that show the attack, where the verdict would be `not-in-telemetry`
        without them; else empty.
    note : str
        A sentence on what the other detectors say; empty where they change nothing.
    """

    verdict: Verdict | None
    vetoed_by: tuple[str, ...] = ()
    note: str = ""


def joint_verdicts(
    studied: Iterable[TestbedRuns],
) -> dict[tuple[str, str, str], JointVerdict]:
    """Return the verdicts of all detectors on all attacks, brought to one answer.

    Verdicts are those of the first seed of each detector, which stands for all.

    Parameters
    ----------
    studied : iterable of TestbedRuns
        As `sightline.comparison.runs.group_runs` returns them.

    Returns
    -------
    dict
        By testbed, label of the detector, and the attack's id in that detector's own
        result.
    """
    return {
        (runs.testbed, label, attack.segments[label].id): verdict
        for runs in studied
        for attack in runs.attacks
        for label, verdict in joint_verdicts_on(attack).items()
    }


def joint_verdicts_on(attack: MatchedAttack) -> dict[str, JointVerdict]:
    """Return the verdict of each detector on one attack, by label."""
    facts = telemetry_of(attack)
    is_still = facts is not None and facts.movement is Movement.STILL
    n_judged = sum(segment.verdict is not None for segment in attack.segments.values())
    by_rule = _showing(attack, (Kind.RULE,))
    by_repair = _showing(attack, (Kind.REPAIR, Kind.MEMORY))
    vetoing = by_rule or (by_repair if len(by_repair) >= LEAST_SHOWING else ())
    verdicts = {}
    for label, segment in attack.segments.items():
        verdict, note = segment.verdict, ""
        vetoed_by: tuple[str, ...] = ()
        if is_still and not vetoing and verdict is not None and n_judged > 1:
            # The same word for all: a lone repair is one of too many tries.
            verdict, note = Verdict.NOT_IN_TELEMETRY, _not_vetoed(attack, by_repair)
        elif verdict in _NOT_SHOWN:
            # Without facts the word itself says it: that of an earlier version.
            says_still = facts is None and verdict == Verdict.NOT_IN_TELEMETRY
            if vetoing and (is_still or says_still):
                verdict, vetoed_by = Verdict.WEAK_EVIDENCE, vetoing
                detect = "detects it" if len(vetoing) == 1 else "detect it"
                note = (
                    "The telemetry's own test does not show this attack, but "
                    f"{names(vetoing)} {detect if by_rule else 'show it by a repair'}."
                )
            elif facts is not None and not is_still:
                # Facts from more calm time say that it moves, or may move.
                verdict = Verdict.WEAK_EVIDENCE
        verdicts[label] = JointVerdict(verdict=verdict, vetoed_by=vetoed_by, note=note)
    return verdicts


def telemetry_of(attack: MatchedAttack) -> AttackFacts | None:
    """Return what the telemetry says of an attack, for all detectors alike.

    Streams that do not carry facts of the recording have their own; they differ only
    where row rates do. The one with most calm windows counts; of equal ones the one
    with the smaller p-value.
    """
    known = [s.telemetry for s in attack.segments.values() if s.telemetry is not None]
    judged = [(-f.n_windows, f.p_value, f) for f in known if f.p_value is not None]
    return min(judged, key=lambda one: one[:2])[2] if judged else None


def _showing(attack: MatchedAttack, kinds: Sequence[Kind]) -> tuple[str, ...]:
    """Return the detectors with a visible rung of one of these kinds, by name."""
    return tuple(
        sorted(
            label
            for label, segment in attack.segments.items()
            if (segment.verdict == Verdict.DETECTED and Kind.RULE in kinds)
            or any(
                outcome.visible and name in LADDER and LADDER[name].kind in kinds
                for name, outcome in (segment.ladder or {}).items()
            )
        )
    )


def _not_vetoed(attack: MatchedAttack, by_repair: Sequence[str]) -> str:
    """Return how many of several detectors show the attack: none, or one."""
    n_judged = sum(segment.verdict is not None for segment in attack.segments.values())
    if n_judged == 1:
        return ""
    if not by_repair:
        return f"None of {n_judged} detectors shows it."
    return (
        f"Of {n_judged} detectors only {by_repair[0]} shows it, by a repair and not by "
        "its rule: too little to contradict the telemetry."
    )
