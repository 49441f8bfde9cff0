"""Sentences held against the ladder that they speak of.

Used by `verdict_accuracy.py` and by the tests. The figures are those of the result; no
word of `sightline.judgement` is used to check another.
"""

from sightline.judgement.ladder import LADDER_LEVEL
from sightline.judgement.verdicts import SegmentDiagnosis

# A rule that covers so much of an attack has not missed it.
COVERED = 0.30
REPAIRS = ("evidence", "reference", "space", "memory")


def contradictions(segment: SegmentDiagnosis) -> list[str]:
    """Return the clauses of a sentence that its own ladder contradicts, in words."""
    text, ladder = segment.sentence or "", segment.ladder or {}
    if not ladder:
        return []

    def shows(name: str) -> bool:
        return name in ladder and ladder[name].visible

    rule = ladder.get("own-rule", ladder.get("probe"))
    covers = segment.caught or (rule is not None and rule.coverage >= COVERED)
    tried = ("own-rule", "probe", *REPAIRS)
    most = max((ladder[n].coverage for n in tried if n in ladder), default=0.0)
    by_row = [n for n in (*tried[:-1], "moment") if shows(n)]
    lies_beyond = "evidence" in ladder and ladder["evidence"].coverage >= COVERED
    verdict = str(segment.verdict)
    checks = {
        "hidden among": shows("evidence") or lies_beyond,
        "single rows do not stand out": bool(by_row) or lies_beyond,
        "Missed": covers,
        "not with the present limit": covers,
        "not about the one from training": shows("evidence") or lies_beyond,
        "no repair shows it": any(map(shows, REPAIRS))
        or shows("moment")
        or bool(segment.untried),
        "it peaks at": _peak(text, ladder) > 1.06,
        "one moment of": not shows("moment"),
        "does not catch it": bool(segment.caught),
        "detects it": segment.caught is False,
        "the energy stands out": not shows("evidence"),
        "could not be tried": not segment.untried,
    }
    found = [
        f"{verdict}: {clause!r} in {text!r}"
        for clause, is_wrong in checks.items()
        if clause in text and is_wrong
    ]
    if verdict == "detected" and segment.caught is False:
        found.append("detected, and not caught")
    if verdict == "already-in-alarm" and segment.caught is not False:
        found.append("already in alarm, and caught")
    if "at best" in text:
        stated = float(text.split("at best ")[1].split("%")[0].lstrip("<")) / 100
        if stated < most - 0.006:
            found.append(f"{verdict}: at best {stated} beside a rung of {most:.2f}")
        rare = float((text + "above 100%").split("above ")[1].split("%")[0].lstrip("<"))
        by_chance = (segment.ladder_p_value or 0.0) > LADDER_LEVEL
        is_explained = "together" in text or not by_chance
        if stated - rare / 100 >= COVERED and not is_explained:
            found.append(f"{verdict}: {stated} is shown by no repair, and is rare")
    repair = {
        "threshold": "evidence",
        "drift": "reference",
        "sequential": "memory",
        "quiet": "quiet",
    }.get(verdict)
    if repair and not shows(repair) and not (repair == "evidence" and shows("probe")):
        found.append(f"{verdict} without its rung")
    if verdict == "diluted" and not (shows("space") or shows("moment")):
        found.append("diluted without its rung")
    if segment.untried and verdict in ("weak-evidence", "not-in-telemetry"):
        found.append(f"{verdict} with untried rungs")
    return found


def _peak(text: str, ladder: dict) -> float:  # type: ignore[type-arg]
    """Return by which factor a stated peak differs from every tested one; 1 if not."""
    if "it peaks at " not in text:
        return 1.0
    stated = text.split("it peaks at ")[1].split(" times")[0].replace(",", "")
    try:
        value = float(stated)
    except ValueError:
        return 1.0
    peaks = [one.peak for one in ladder.values() if one.peak]
    return min((max(value / p, p / value) for p in peaks if p > 0), default=9.0)
