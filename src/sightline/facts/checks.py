"""Checks of two recordings, train and test: each returns findings with codes.

A check is a function of `Recordings` that returns an empty list where nothing is wrong.
`CHECKS` lists all of them, each with the sentence that says that it passed.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sightline.data.arrays import ATTACK, NORMAL, Floats, Ints
from sightline.data.recording import Recording, step_from
from sightline.data.segments import segments_of
from sightline.data.zones import stamp
from sightline.facts.codes import Finding, Severity, finding
from sightline.facts.leaks import shared_stretches
from sightline.text import names

# How many names and places a sentence lists before it counts the rest.
_MOST_NAMES, _MOST_TAGS = 4, 8


@dataclass(frozen=True, kw_only=True, eq=False)
class Recordings:
    """What the checks look at.

    Parameters
    ----------
    train, test : Recording
        With the same tags in the same order.
    release : str, optional
        Source of the labels of a published testbed, which must be exactly those of the
        release; None for any other plant.
    n_shared : int
        How many rows of train the release itself repeats in test.
    """

    train: Recording
    test: Recording
    release: str | None = None
    n_shared: int = 0

    @property
    def tables(self) -> tuple[tuple[str, Recording], tuple[str, Recording]]:
        """Both recordings with their names."""
        return ("train", self.train), ("test", self.test)


Check = Callable[[Recordings], list[Finding]]


def check_recordings(
    train: Recording, test: Recording, *, release: str | None = None, n_shared: int = 0
) -> tuple[list[Finding], list[str]]:
    """Return the findings of all checks, and a sentence for each that found nothing.

    Parameters
    ----------
    train, test, release, n_shared
        As for `Recordings`.
    """
    given = Recordings(train=train, test=test, release=release, n_shared=n_shared)
    findings: list[Finding] = []
    passed = []
    for check, sentence in CHECKS.items():
        found = check(given)
        findings += found
        if sentence and not any(one.severity is not Severity.NOTE for one in found):
            passed.append(sentence)
    if text := labels_summary(given):
        passed.insert(0, text)
    return findings, passed


def time_at(recording: Recording, row: int) -> str:
    """Return the time stamp of a row, or its number if there is no time."""
    if recording.time is None:
        return f"row {row}"
    return stamp(float(recording.time[row]), recording.timezone)


def gaps_in(time: Floats, breaks: Ints, timezone: str | None = None) -> list[str]:
    """Return the length and the start of each gap."""
    step_s = step_from(None, time) or 0.0
    return [
        f"{time[row] - time[row - 1] - step_s:,.0f} s after "
        f"{stamp(float(time[row - 1]), timezone)}"
        for row in breaks[1:].tolist()
    ]


# Labels and incidents


def labels_summary(given: Recordings) -> str:
    """Return how many labelled runs and listed attacks there are, in words."""
    labels = given.test.labels
    if labels is None or not given.test.attacks:
        return ""
    is_labelled = labels == ATTACK
    return (
        f"{len(segments_of(is_labelled))} labelled runs "
        f"({given.release or 'label column or attacks.csv'}) with "
        f"{int(is_labelled.sum()):,} rows, against {len(given.test.attacks)} known "
        "attacks."
    )


def check_labels(given: Recordings) -> list[Finding]:
    """Compare labelled runs with listed attacks, both ways.

    A difference is an error in a published release, and in a plant of the user a
    warning, or a note if it is a matter of a few rows.
    """
    test = given.test
    if test.labels is None or not test.attacks:
        return []
    severity = Severity.WARNING if given.release is None else Severity.ERROR
    is_labelled = test.labels == ATTACK
    is_listed = np.zeros(test.n_steps, np.bool_)
    remedy = "Correct the label column or the list of incidents."
    findings = []
    for attack in test.attacks:
        rows = slice(attack.start, attack.stop)
        is_listed[rows] = True
        if not is_labelled[rows].any() and (test.labels[rows] == NORMAL).any():
            at = time_at(test, attack.start)
            text = f"Attack {attack.id} ({at}) has no labelled row."
            findings.append(
                finding("SL211", text, severity=severity, table="test", remedy=remedy)
            )
    unlisted = [
        run for run in segments_of(is_labelled) if not is_listed[run.rows].any()
    ]
    if unlisted:
        where = [f"{time_at(test, r.start)} ({r.length:,} rows)" for r in unlisted]
        findings.append(
            finding(
                "SL211",
                "Labelled runs that are in no attack list: "
                f"{names(where, _MOST_NAMES)}.",
                severity=severity,
                table="test",
                cells=where[:_MOST_NAMES],
                remedy=remedy,
            )
        )
    beyond = int((is_labelled & ~is_listed).sum()) - sum(r.length for r in unlisted)
    short = int((is_listed & (test.labels == NORMAL)).sum())
    if beyond or short:
        findings.append(
            finding(
                "SL211",
                f"Known attacks are labelled {beyond:,} rows too long and {short:,} "
                "rows too short.",
                severity=Severity.NOTE if given.release is None else severity,
                table="test",
                remedy=remedy,
            )
        )
    return findings


# What train and test share


def check_shared_rows(given: Recordings) -> list[Finding]:
    """Look for rows of train that occur in test.

    Up to `n_shared` rows are the release's own and a note; more are an error.
    """
    stretches = shared_stretches(given.train, given.test)
    if not stretches:
        return []
    total = sum(stretch.length for stretch in stretches)
    where = [
        f"{s.length:,} from {time_at(given.train, s.train_start)} of train, at "
        f"{time_at(given.test, s.test_start)} of test"
        for s in stretches
    ]
    return [
        finding(
            "SL208",
            f"Train and test share {total:,} rows, value by value: "
            f"{names(where, _MOST_NAMES)}. A detector trained on them has already seen "
            "them.",
            severity=Severity.NOTE if total <= given.n_shared else None,
            cells=where[:_MOST_NAMES],
            remedy="Remove them from train.",
        )
    ]


def check_shared_times(given: Recordings) -> list[Finding]:
    """Look for time stamps of train that occur in test."""
    if given.train.time is None or given.test.time is None:
        return []
    twice = int(np.isin(given.train.time, given.test.time).sum())
    if not twice:
        return []
    # A file often begins with the moment at which the other ends.
    is_known = twice <= max(given.n_shared, 1)
    return [
        finding(
            "SL207",
            f"{twice:,} time stamps of train occur in test too.",
            severity=Severity.NOTE if is_known else None,
            remedy="Remove those rows from train (`cut_leak=True` of open_testbed).",
        )
    ]


# Tags and cells


def check_constant(given: Recordings) -> list[Finding]:
    """Name constant tags, and attacks that dropping constant tags would hide."""
    findings = []
    constant = {name: _constant_tags(table) for name, table in given.tables}
    for name, tags in constant.items():
        if tags:
            findings.append(
                finding(
                    "SL226",
                    f"{len(tags)} of {len(given.train.tags)} tags never vary in "
                    f"{name}: {names(tags, _MOST_TAGS)}.",
                    table=name,
                    tags=tags,
                )
            )
    targets = {t: f"{t} (attack {a.id})" for a in given.test.attacks for t in a.targets}
    only_train = set(constant["train"]) - set(constant["test"])
    for text, chosen in (
        (
            "Attacked tags that never vary in test, so that the attack leaves no trace "
            "in its own column",
            [tag for tag in targets if tag in constant["test"]],
        ),
        (
            "Attacked tags that vary in test only, so that dropping what is constant "
            "in train would hide their attacks",
            [tag for tag in targets if tag in only_train],
        ),
    ):
        if chosen:
            listed = names([targets[tag] for tag in chosen], _MOST_TAGS)
            findings.append(finding("SL216", f"{text}: {listed}.", tags=chosen))
    return findings


def _constant_tags(recording: Recording) -> list[str]:
    """Return the tags that have one value in all rows, nan included."""
    values = recording.values
    if not len(values):
        return []
    first = values[0]
    is_same = (values == first) | (np.isnan(values) & np.isnan(first))
    return [recording.tags[k].name for k in np.flatnonzero(is_same.all(axis=0))]


def check_finite(given: Recordings) -> list[Finding]:
    """Count cells that are nan or infinite, by tag."""
    findings = []
    for name, recording in given.tables:
        bad = (~np.isfinite(recording.values)).sum(axis=0)
        counts = {recording.tags[k].name: int(bad[k]) for k in np.flatnonzero(bad)}
        if counts:
            listed = [f"{tag} ({count:,})" for tag, count in counts.items()]
            findings.append(
                finding(
                    "SL225",
                    f"{name}: {int(bad.sum()):,} cells are not finite numbers: "
                    f"{names(listed, _MOST_NAMES)}.",
                    severity=Severity.WARNING if given.release is None else None,
                    table=name,
                    tags=sorted(counts, key=lambda tag: -counts[tag]),
                    remedy="Give a tag with few readings role ignore in tags.csv, or "
                    "raise hold_s in plant.toml.",
                )
            )
    return findings


CHECKS: dict[Check, str] = {
    check_labels: "",
    check_shared_rows: "Train and test share no stretch of rows.",
    check_shared_times: "Train and test share no time stamp.",
    check_constant: "",
    check_finite: "Every cell is a finite number.",
}
