"""At a glance: what each detector found, in operator's words, and what to check."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sightline.evaluation.result import Evaluation
from sightline.judgement.verdicts import info_of
from sightline.metrics.intervals import count_interval
from sightline.metrics.probe import AlarmMetrics
from sightline.report.entries import (
    OWN,
    P99,
    Entry,
    found,
    is_judged,
    main_rule,
    rules_of,
    typical_delay,
)
from sightline.report.formatting import (
    DAGGER,
    delay,
    on_testbed,
    per_day,
    score,
)
from sightline.storage import Result
from sightline.text import UNKNOWN, number, share

RULES = {OWN: "own rule", P99: "p99 rule"}
# So many are named in a headline.
MOST_NAMED = 3
# Column, block and name of the paper's main table, and how it is written.
PAPER: tuple[tuple[str, str, str, Callable[[float | None], str]], ...] = (
    ("ROC-AUC", "rank", "roc_auc", score),
    ("pAUC@1%", "rank", "pauc_1", score),
    ("P_FULL", "windows", "p_full", score),
    ("median D_FULL", "windows", "median_d_full", number),
    ("D_drift", "drift", "d_drift", number),
    ("robust", "drift", "d_drift_robust", number),
    ("p_eff/p", "compactness", "compactness", score),
    ("F1@p99", "probe", "f1", score),
)


def glance(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return one row for each entry: what an operator asks first."""
    return [
        {
            "key": entry.key,
            "testbed": entry.testbed,
            "detector": entry.label,
            "n_seeds": len(entry.results),
            "rules": [
                _rule(entry, rule, alarms)
                for rule, alarms in rules_of(entry.evaluation)
            ],
            "verdicts": _verdicts(entry.evaluation),
            "check": first_check(entry.evaluation),
        }
        for entry in entries
    ]


def _rule(entry: Entry, rule: str, alarms: AlarmMetrics) -> dict[str, Any]:
    """Return what one alarm rule did: found, false alarms a day, delay."""
    evaluation = entry.evaluation
    n = evaluation.stream.n_segments
    k = found(evaluation, rule)
    low, high = count_interval(k, n) if n else (0.0, 0.0)
    return {
        "rule": RULES[rule],
        "found": k if n else None,
        "n_attacks": n,
        "found_text": f"{k} of {n}" if n else UNKNOWN,
        "interval": f"{share(low / n)} to {share(high / n)}" if n else "",
        "share": k / n if n else 0.0,
        "low": low / n if n else 0.0,
        "high": high / n if n else 0.0,
        "hits": alarms.hits,
        "is_judged": is_judged(evaluation, rule),
        "seeds": _over_seeds(entry, rule) if n else "",
        "false_alarms": _false_alarms(alarms),
        "rate": share(alarms.false_alarm_rate),
        "over_alarming": bool(alarms.over_alarming),
        "delay": delay(typical_delay(entry, rule), evaluation.stream.step_s),
    }


def _false_alarms(alarms: AlarmMetrics) -> str:
    # An alarm that never stops runs into an attack each time: it is no false alarm by
    # itself, and yet in alarm all the normal time.
    if alarms.false_positive_segments == 0 and alarms.over_alarming:
        return "none by itself"
    if alarms.false_alarms_per_day is None:
        return f"{alarms.false_positive_segments:,} in all"
    return f"{per_day(alarms.false_alarms_per_day)} a day"


def _over_seeds(entry: Entry, rule: str) -> str:
    """Return the mean and range of attacks found, where there are several seeds."""
    known = [result.evaluation for result in entry.results]
    counts = [found(one, rule) for one in known if rule in dict(rules_of(one))]
    if len(counts) < 2:
        return ""
    return (
        f"mean {np.mean(counts):.1f}, {min(counts)} to {max(counts)} "
        f"over {len(counts)} seeds"
    )


def _verdicts(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Return how many attacks have each verdict, those that occur."""
    counts = evaluation.verdict_counts or {}
    total = sum(counts.values())
    return [
        {
            "word": word,
            "symbol": info_of(word).symbol,
            "count": count,
            "width": 100 * count / total,
        }
        for word, count in counts.items()
        if count
    ]


def first_check(evaluation: Evaluation) -> str:
    """Return the first thing to check with one detector, in one sentence."""
    rule = evaluation.own_rule or evaluation.probe
    advice = evaluation.diagnosis.advice if evaluation.diagnosis else ""
    if rule.over_alarming:
        which = "Its own rule" if evaluation.own_rule else "The p99 limit"
        start = (
            f"{which} is in alarm {share(rule.false_alarm_rate)} of normal time, so an "
            "alarm says little."
        )
        return f"{start} {advice}" if advice else f"{start} Check the limit first."
    if advice:
        return advice
    if evaluation.stream.n_segments == 0:
        return (
            "No attack is labelled: check where false alarms come from, and whether "
            "the reference is stable."
        )
    return "Evaluated without a diagnosis: evaluate again to learn what to check."


def headline(entries: Sequence[Entry]) -> dict[str, Any] | None:
    """Return what to check first of all: that of the detector which finds most."""
    if not entries:
        return None
    best = entries[0]
    return {
        "detector": best.label,
        "testbed": best.testbed,
        "title": _title(best, entries[1:]),
        "check": first_check(best.evaluation),
    }


def _title(best: Entry, others: Sequence[Entry]) -> str:
    """Return what the best detector finds, in a few words."""
    evaluation = best.evaluation
    n, where = evaluation.stream.n_segments, on_testbed(best.testbed)
    if n == 0:
        return f"{best.label}{where}"
    if others and not any(_most_found(entry) for entry in (best, *others)):
        return f"No attack{where} is found; {best.label} comes nearest"
    rule = main_rule(evaluation)
    k = found(evaluation, rule)
    by = "by its own rule" if rule == OWN else "by the p99 rule"
    n_seeds = len(best.results)
    seeds = f" in the first of {n_seeds} seeds" if n_seeds > 1 else ""
    return f"{best.label} finds {k} of {n} attacks{where} {by}{seeds}" + _beside(
        k, others
    )


def _beside(k: int, others: Sequence[Entry]) -> str:
    """Return how many attacks found compares with every rule of the others."""
    most = max(map(_most_found, others), default=None)
    if most is None or most > k or k == 0:
        return ""
    if most < k:
        return ", the most of all"
    names = [entry.label for entry in others if _most_found(entry) == k]
    more = len(names) - MOST_NAMED
    if more > 0:
        names = [*names[:MOST_NAMED], f"{more} more"]
    listed = " and ".join([", ".join(names[:-1]), names[-1]][len(names) == 1 :])
    return f", as many as {listed}"


def _most_found(entry: Entry) -> int:
    """Return the most attacks that a rule of a detector finds."""
    return max(found(entry.evaluation, rule) for rule, _ in rules_of(entry.evaluation))


def paper_table(entries: Sequence[Entry]) -> dict[str, Any]:
    """Return the columns of the paper's main table, with intervals and floors."""
    return {
        "columns": [column for column, _, _, _ in PAPER],
        "rows": [
            {
                "testbed": entry.testbed,
                "detector": entry.label,
                "p": entry.evaluation.stream.p,
                "n_seeds": len(entry.results),
                "cells": [_cell(entry, *column[1:]) for column in PAPER],
            }
            for entry in entries
        ],
    }


def _value(result: Result, block: str, name: str) -> float | None:
    value = getattr(getattr(result.evaluation, block), name, None)
    return None if value is None else float(value)


def _cell(
    entry: Entry, block: str, name: str, written: Callable[[float | None], str]
) -> dict[str, Any]:
    """Return a figure of the first seed, and what is known of how far to trust it."""
    evaluation = entry.evaluation
    value = _value(entry.results[0], block, name)
    interval = (evaluation.intervals or {}).get(name)
    floor = (evaluation.floor or {}).get(name)
    marked = name == "d_drift" and evaluation.drift.mean_dominated
    known = [v for r in entry.results if (v := _value(r, block, name)) is not None]
    several = len(entry.results) > 1 and bool(known)
    return {
        "key": f"{block}.{name}",
        "value": value,
        "text": written(value) + (DAGGER if marked else ""),
        "interval": f"{written(interval[0])} to {written(interval[1])}"
        if interval
        else "",
        "floor": f"chance {written(floor['value'])}" if floor else "",
        "above_floor": None if floor is None else bool(floor["above_floor"]),
        "seeds": f"mean {written(float(np.mean(known)))}, {written(min(known))} to "
        f"{written(max(known))}"
        if several
        else "",
    }
