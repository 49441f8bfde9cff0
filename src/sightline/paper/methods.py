"""The paragraph on methods for one's own paper, from what the results say."""

import json
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from sightline.detectors import detector_type
from sightline.evaluation.result import Provenance
from sightline.paper.markup import escaped_markdown, listed_in_words, one_line
from sightline.paper.references import cited
from sightline.paper.study import Pair, Study

# Settings that say how a run was made, not what it computes.
_NO_SETTING_OF_A_METHOD = {"seed", "device", "threads", "deterministic"}


def methods_markdown(study: Study) -> str:
    """Return how a study was made: data, detectors, evaluation, versions, sources."""
    parts = [
        "# Methods",
        "Draft for the methods section of a paper, written from what the results "
        "themselves say. Check it, and shorten it.",
        "## Testbeds",
        _testbeds(study),
        "## Detectors",
        *_detectors(study),
        "## Evaluation",
        _evaluation(study),
        "## Versions",
        _versions(study),
        "## To cite",
        "Testbeds and detectors without an entry here have none that this package "
        "knows; cite where you got them.",
        "```bibtex\n" + "\n\n".join(cited(study)) + "\n```",
    ]
    return "\n\n".join(parts) + "\n"


def _testbeds(study: Study) -> str:
    lines = []
    for testbed in study.testbeds:
        pairs = study.on(testbed)
        streams = [pair.first.stream for pair in pairs]
        told = (
            f"- **{_safe(study.testbed_title(testbed))}**: "
            f"{_range(s.n_train for s in streams)} train and "
            f"{_range(s.n_test for s in streams)} test residual rows, "
            f"{_range(s.n_segments for s in streams)} attack segments"
        )
        steps = sorted({s.step_s for s in streams if s.step_s is not None})
        if steps:
            told += f"; a row every {' or '.join(f'{step:g}' for step in steps)} s"
        plants = _metas(pairs, "testbed_name")
        if plants and plants != [testbed]:
            told += f"; the testbed {_joined(plants)}"
        releases = _metas(pairs, "testbed_release", "release", "testbed_revision")
        if releases:
            told += f"; release {_joined(releases)}"
        told += _opened(pairs)
        lines.append(told + ".")
    return "\n".join(lines)


def _opened(pairs: Iterable[Pair]) -> str:
    """Return the options a testbed was opened with, where the streams tell."""
    told = {
        f"{name} = {value}"
        for pair in pairs
        for name, value in (
            (pair.first.provenance.get("meta") or {}).get("testbed_options") or {}
        ).items()
    }
    return f"; opened with {_joined(sorted(told))}" if told else ""


def _detectors(study: Study) -> list[str]:
    parts = []
    for name in study.detectors:
        pairs = [p for t in study.testbeds if (p := study.pair(t, name)) is not None]
        card = study.card(name)
        spaces = sorted({p.space for p in pairs if p.space is not None})
        told = f"**{_safe(study.detector_title(name))}**"
        if spaces:
            told += f" (residuals: {_joined(spaces)})"
        told += f". {_seeds(study, pairs)}"
        if card is None:
            told += " Not a detector of Sightline: describe it here."
            parts.append(told)
            continue
        told += f" {_safe(card.kind).capitalize()}. Source: {_safe(card.paper)}"
        lines = [told if told.endswith(".") else f"{told}."]
        lines += [
            f"- Settings on {where}: {what}" for where, what in _changed(study, pairs)
        ]
        if card.deviates:
            lines.append("- Deviates from the published:")
            lines += [f"  - {_safe(sentence)}" for sentence in card.deviates]
        parts.append("\n".join([lines[0], "", *lines[1:]]).rstrip())
    return parts


def _seeds(study: Study, pairs: Iterable[Pair]) -> str:
    told = []
    for pair in pairs:
        seeds = sorted(
            {
                str(seed)
                for result in pair.seeds
                if (seed := seed_of(result.evaluation.provenance)) is not None
            }
        )
        n = len(pair.seeds)
        what = f"{n} run{'s' if n > 1 else ''}"
        if seeds:
            what += f" (seed{'s' if len(seeds) > 1 else ''} {_joined(seeds)})"
        told.append(f"{what} on {_safe(study.testbed_title(pair.testbed))}")
    return f"{listed_in_words(told)}."


def seed_of(provenance: Provenance) -> int | None:
    """Return the seed that a result was made with; None if it does not say."""
    return provenance.seed


def _changed(study: Study, pairs: Iterable[Pair]) -> list[tuple[str, str]]:
    """Return by testbed the settings that are not the detector's defaults."""
    found = []
    for pair in pairs:
        card = pair.card
        meta = pair.first.provenance.get("meta") or {}
        settings = meta.get("detector_settings")
        if card is None or not isinstance(settings, dict):
            continue
        defaults = {
            one.name: one.default
            for one in fields(detector_type(card.name).settings_type)
        }
        changed = [
            f"`{name}` = {_safe(json.dumps(value))}"
            for name, value in settings.items()
            if name not in _NO_SETTING_OF_A_METHOD
            and name in defaults
            and _as_json(value) != _as_json(defaults[name])
        ]
        what = ", ".join(changed) if changed else "all defaults"
        preset = meta.get("detector_preset")
        if preset:
            what += f"; preset {_safe(preset)}"
        found.append((_safe(study.testbed_title(pair.testbed)), f"{what}."))
    return found


def _as_json(value: Any) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value, default=str)


def _evaluation(study: Study) -> str:
    evaluations = [r.evaluation for pair in study.pairs for r in pair.seeds]
    estimators = sorted({str(e.reference.estimator) for e in evaluations})
    shrinkages = [
        e.reference.shrinkage for e in evaluations if e.reference.shrinkage is not None
    ]
    told = [
        "All residual streams went through one evaluation, with nothing tuned for a "
        "detector or a testbed (Shi, Xiang, Zhang and Fu).",
        f"The normal reference is the mean and the covariance ({_joined(estimators)}) "
        "of the train residuals alone"
        + (f"; shrinkage {_numbers(shrinkages)}." if shrinkages else "."),
        "The energy of a row is half its squared Mahalanobis distance to that "
        "reference, so that its ideal mean is p/2; nothing is clipped or smoothed.",
        "D_FULL of an attack segment is its length times the Gaussian Kullback-Leibler "
        "divergence of its rows from the reference; P_FULL is the share of pairs of an "
        "attack and an attack-free window of its length in which the attack has the "
        "larger D_FULL.",
        "Alarms (F1, precision, recall, hits) are at the 99th percentile of train "
        "energy, point by point, without point adjustment: a probe, not a rule to use.",
    ]
    guards = sorted({e.guard for e in evaluations})
    if guards != [0]:
        told.append(
            f"Rows left out after each attack (guard): {_joined(map(str, guards))}."
        )
    return " ".join([*told, *_uncertainty(study), *_diagnosis(study)])


def _uncertainty(study: Study) -> list[str]:
    known = [p.first.bootstrap for p in study.pairs if p.first.bootstrap]
    if not known:
        return ["No intervals and no chance floors were computed."]
    return [
        "Intervals are 95% percentile intervals over "
        f"{_range(b['n'] for b in known)} draws of whole attacks and of blocks of "
        f"attack-free rows ({_range(b['block'] for b in known)} rows a block; seed "
        f"{_range(b['seed'] for b in known)}).",
        "Chance floors are what the figures are when the labels are moved in time, "
        f"{_range(b['shifts'] for b in known)} times.",
    ]


def _diagnosis(study: Study) -> list[str]:
    known = [p.first.diagnosis for p in study.pairs if p.first.diagnosis]
    if not known:
        return ["Missed attacks were not diagnosed."]
    rates = [d["false_cause_rate"] for d in known if d["false_cause_rate"] is not None]
    told = [
        "The cause of a missed attack is the first of these repairs that makes it "
        "visible at a false-alarm budget of 1%, judged in hindsight: a limit set on "
        "attack-free test rows (threshold), a reference refitted on them (drift), "
        "scoring parts of the residuals (diluted), accumulating energy (sequential), "
        "an alarm on too little energy (quiet). Of the first three, one that covers "
        "less than 0.8 of what the best of them covers is passed over."
    ]
    if rates:
        told.append(
            "The same ladder gives a cause to "
            f"{_numbers([100 * r for r in rates])}% of attack-free windows."
        )
    return told


def _versions(study: Study) -> str:
    found: dict[str, set[str]] = {}
    for pair in study.pairs:
        for result in pair.seeds:
            provenance = result.evaluation.provenance
            meta = provenance.meta
            for name in ("sightline", "python", "numpy", "torch"):
                version = provenance.get(name) or meta.get(f"detector_{name}")
                if version:
                    found.setdefault(name, set()).add(str(version))
    if not found:
        return "Not recorded."
    told = [f"{name} {_joined(sorted(found[name]))}" for name in found]
    return f"{listed_in_words(told)}."


def _metas(pairs: Iterable[Pair], *keys: str) -> list[str]:
    found = set()
    for pair in pairs:
        meta = pair.first.provenance.get("meta") or {}
        found |= {str(meta[key]) for key in keys if meta.get(key)}
    return sorted(found)


def _safe(text: object) -> str:
    return escaped_markdown(one_line(str(text)))


def _joined(texts: Iterable[str]) -> str:
    return listed_in_words([_safe(text) for text in texts])


def _range(counts: Iterable[int]) -> str:
    known = sorted(set(counts))
    if len(known) == 1:
        return f"{known[0]:,}"
    return f"{known[0]:,} to {known[-1]:,}"


def _numbers(values: list[float]) -> str:
    low, high = f"{min(values):.2g}", f"{max(values):.2g}"
    return low if low == high else f"{low} to {high}"
