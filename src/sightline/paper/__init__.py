"""The paper's tables and figures, its findings and the methods, from any study.

`write_up` writes one folder:

- ``tables/NAME.csv``, ``.md`` and ``.tex``: plain numbers in full precision, a table
  for people, and a float for LaTeX (booktabs).
- ``figures/NAME.pdf``, ``.svg`` and ``.png``, and ``figures/captions.md``.
- ``preview.tex``: all tables and figures in one document, for ``pdflatex preview``.
- ``findings.md`` and ``findings.json``: the paper's seven findings, tried on the study.
- ``methods.md``: a draft of the methods section.
- ``references.bib``: what to cite.
- ``comparison.json``: all numbers of `sightline.compare`.
- ``attacks.csv``: a line for each detector, seed and attack, and
  ``attacks-columns.csv``: what each of its columns says.

Tables: ``testbeds``, ``detectors``, ``main``, ``main_beside_paper``, ``supplementary``,
``attack_cases``, ``attack_cases_beside_paper``, ``cross_testbed_ranking``,
``agreement``, ``agreement_beside_paper``, ``differences``, ``alignment``. Figures:
``agreement``, ``mean_ranks``, ``roc_auc_against_f1``, ``mean_shift_identity``. What the
results do not suffice for is skipped with a notice that says what it needs.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib.resources import files
from pathlib import Path

from sightline.audit import attack_facts
from sightline.comparison.compare import Comparison, compare
from sightline.comparison.runs import LEAST_SHOWING, DetectorRuns
from sightline.detectors import detector_type
from sightline.energy import attack_free
from sightline.errors import FileError
from sightline.evaluation.result import SWITCHES, Protocol
from sightline.files import reading, staged_folder, writing
from sightline.judgement import event_test, ladder, record
from sightline.judgement import ladder as confidence
from sightline.judgement.judge import METHOD, MOST_FALSE_CAUSES
from sightline.metrics.intervals import N_REPLICATES
from sightline.paper.attack_files import attack_columns_csv, attacks_csv
from sightline.paper.figures import draw_all
from sightline.paper.findings import (
    PaperFinding,
    findings_json,
    findings_markdown,
    judge_findings,
)
from sightline.paper.study import (
    PaperStudy,
    card_of_runs,
    plant_of,
    space_of,
    texts,
)
from sightline.paper.tables import all_tables
from sightline.progress import Progress
from sightline.show.phrases import (
    escaped_latex,
    escaped_markdown,
    filled,
    one_line,
)
from sightline.show.printed import PaperTable, render
from sightline.storage import Given, results_of
from sightline.text import names, plural

__all__ = ["PaperFinding", "PaperTable", "WriteUp", "write_tables", "write_up"]

# Tables of earlier versions, which a new write-up removes.
_EARLIER_TABLES = ("rankings",)
_PICTURES = ("pdf", "svg", "png")
# All files that a write-up may hold; other files in its folder are not touched.
_FILES = (
    "findings.md",
    "findings.json",
    "methods.md",
    "references.bib",
    "comparison.json",
    "attacks.csv",
    "attacks-columns.csv",
    "preview.tex",
    "figures/captions.md",
    *(
        f"tables/{name}.{kind}"
        for name in (*texts()["tables"], *_EARLIER_TABLES)
        for kind in ("csv", "md", "tex")
    ),
    *(f"figures/{n}.{kind}" for n in texts()["figures"] for kind in _PICTURES),
)


@dataclass(frozen=True, kw_only=True)
class WriteUp:
    """What `write_up` wrote.

    Parameters
    ----------
    folder : Path
        The folder.
    files : tuple of str
        Paths of the files below the folder, sorted.
    findings : tuple of PaperFinding
        The paper's seven findings on these results.
    notices : tuple of str
        Which tables and figures were skipped and what they need, and which results are
        not seeds of one another.
    skipped : tuple of str
        Those of `notices` that are about a skipped table or figure.
    """

    folder: Path
    files: tuple[str, ...]
    findings: tuple[PaperFinding, ...]
    notices: tuple[str, ...]
    skipped: tuple[str, ...] = ()


def write_up(
    results: Given | Sequence[Given],
    folder: str | Path,
    *,
    overwrite: bool = False,
    comparison: Comparison | None = None,
    identity_of: str | None = None,
    n_replicates: int = N_REPLICATES,
    cases: Sequence[str] = (),
    progress: Progress | None = None,
) -> WriteUp:
    """Write the paper's tables, figures and findings for any study.

    Only results are read: no detector is trained and no stream is evaluated. The same
    results give the same bytes.

    Parameters
    ----------
    results : Evaluation, Result or path, or sequence of these
        Evaluations in memory, or folders that `write_results` wrote; several of one
        detector on one testbed are its seeds.
    folder : path
        Gets ``tables/``, ``figures/``, ``findings.md``, ``findings.json``,
        ``methods.md``, ``references.bib``, ``preview.tex``, ``comparison.json`` and
        ``attacks.csv``, all or nothing.
    overwrite : bool
        Whether an earlier write-up may be replaced. Other files in the folder are not
        touched.
    comparison : Comparison, optional
        Of the same results, if `compare` was called already.
    identity_of : str, optional
        The one detector of the figure ``mean_shift_identity``; all if not given.
    n_replicates : int
        Draws for the intervals of `compare`.
    cases : sequence of str
        Attacks that ``attack_cases`` shows besides those chosen by rule: testbed and
        attack of the owners' list, such as ``"swat:3"``.
    progress : callable, optional
        Called with a `Step` while results are compared.

    Returns
    -------
    WriteUp
        The files, the findings, and what was skipped.

    Raises
    ------
    FileError
        If there are no results, or the folder may not be written.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> import numpy as np
    >>> from sightline import ResidualStream, evaluate
    >>> rng = np.random.default_rng(0)
    >>> train, test = rng.normal(size=(300, 3)), rng.normal(size=(200, 3))
    >>> labels = np.zeros(200, int)
    >>> labels[50:70] = 1
    >>> test[50:70] += 3
    >>> stream = ResidualStream(train, test, labels, detector="a", testbed="plant")
    >>> evaluation = evaluate(stream, intervals=False)
    >>> written = write_up([evaluation], mkdtemp(), n_replicates=2)
    >>> written.files[:4]
    ('attacks-columns.csv', 'attacks.csv', 'comparison.json', 'figures/captions.md')
    >>> written.notices[-2]
    "Skipped figure 'agreement': it needs at least two detectors on one testbed."
    """
    folder = Path(folder)
    given = results_of(results, "write_up")
    if not given:
        raise FileError(f"{folder}: there are no results to write up.")
    _check_folder(folder, overwrite=overwrite)
    if comparison is None:
        comparison = compare(given, n_replicates=n_replicates, progress=progress)
    study = PaperStudy(given)
    tables, no_tables = all_tables(study, comparison, cases)
    figures, no_figures = draw_all(study, comparison, identity_of=identity_of)
    findings = judge_findings(study)
    contents: dict[str, str | bytes] = {
        "findings.md": findings_markdown(findings),
        "findings.json": _json(findings_json(findings)),
        "methods.md": methods_markdown(study),
        "references.bib": "\n\n".join(references_of(study)) + "\n",
        "comparison.json": _json(comparison.to_dict()),
        "attacks.csv": attacks_csv(study),
        "attacks-columns.csv": attack_columns_csv(),
        "preview.tex": render(
            "preview.tex",
            package="sightline.paper",
            tables=[table.name for table in tables],
            figures=[(one.name, filled(one.caption).latex) for one in figures],
        ),
    }
    for table in tables:
        contents[f"tables/{table.name}.csv"] = table.to_csv()
        contents[f"tables/{table.name}.md"] = table.to_markdown()
        contents[f"tables/{table.name}.tex"] = table.to_latex()
    if figures:
        captions = [f"**{f.name}.** {escaped_markdown(f.caption)}" for f in figures]
        contents["figures/captions.md"] = "\n\n".join(["# Captions", *captions]) + "\n"
    for figure in figures:
        for kind, picture in figure.files.items():
            contents[f"figures/{figure.name}.{kind}"] = picture
    with staged_folder(folder) as partial:
        for name, content in contents.items():
            (partial / name).parent.mkdir(exist_ok=True)
            # The name of a detector may hold a lone surrogate.
            (partial / name).write_bytes(
                content.encode("utf-8", errors="backslashreplace")
                if isinstance(content, str)
                else content
            )
    # Files of an earlier write-up that this study does not have must not stay.
    with writing(folder):
        for name in set(_FILES) - set(contents):
            (folder / name).unlink(missing_ok=True)
    return WriteUp(
        folder=folder,
        files=tuple(sorted(contents)),
        findings=findings,
        notices=(*_same_seeds(study), *no_tables, *no_figures),
        skipped=(*no_tables, *no_figures),
    )


# The same under the name of what it writes.
write_tables = write_up


def _check_folder(folder: Path, *, overwrite: bool) -> None:
    """Refuse a file, and a folder with an earlier write-up unless `overwrite`.

    Raises
    ------
    FileError
        Before any work is done.
    """
    with reading(folder):
        if folder.exists() and not folder.is_dir():
            raise FileError(f"{folder}: is a file; a write-up needs a folder.")
        earlier = [name for name in _FILES if (folder / name).exists()]
    if earlier and not overwrite:
        raise FileError(
            f"{folder}: holds {earlier[0]} of an earlier write-up, which is kept: "
            "choose another folder, or pass --overwrite."
        )


def _same_seeds(study: PaperStudy) -> Iterator[str]:
    """Yield a notice if results of one detector and testbed have the same seed."""
    same = []
    for runs in study.runs:
        seeds = [result.evaluation.provenance.seed for result in runs.results]
        recorded = [str(seed) for seed in seeds if seed is not None]
        if len(set(recorded)) < len(recorded):
            same.append(f"{runs.label} on {runs.testbed}")
    if same:
        yield (
            "Several results have the same seed, so a range over seeds means little: "
            f"{', '.join(same)}."
        )


def _json(values: object) -> str:
    return json.dumps(values, indent=1, allow_nan=False) + "\n"


# ---- the draft of a methods section, and what to cite --------------------------------

# Settings that do not change what a detector computes.
_NOT_OF_THE_METHOD = {"seed", "device", "threads", "deterministic"}
_PAPER = "shi-what-the-detector-can-see"
_LEDOIT_WOLF = "ledoit2004wellconditioned"
# By detector and by testbed.
_CITED = {
    "gdn": "deng2021gdn",
    "fusagnet": "han2022fusagnet",
    "tranad": "tuli2022tranad",
    "nsibf": "feng2021nsibf",
    "geco": "wolsing2025geco",
    "swat": "mathur2016swat",
    "wadi": "ahmed2017wadi",
    "hai": "shin2021hai",
}


def methods_markdown(study: PaperStudy) -> str:
    """Return the draft of a methods section in Markdown.

    Everything in it is read from the results and from the cards of testbeds and
    detectors; nothing is guessed. A detector without a card is named, with a request to
    describe it.

    Parameters
    ----------
    study : PaperStudy
        The results.

    Returns
    -------
    str
        Sections on testbeds, detectors (settings that are not defaults, deviations from
        the published detector, seeds), evaluation, versions, and what to cite.
    """
    results = [result for runs in study.runs for result in runs.results]
    references = [result.evaluation.reference for result in results]
    firsts = [runs.evaluation for runs in study.runs]
    diagnoses = [e.diagnosis for e in firsts if e.diagnosis]
    rates = [diagnosis.false_cause_rate for diagnosis in diagnoses]
    guards = sorted({result.evaluation.guard for result in results})
    versions: dict[str, set[str]] = {}
    for provenance in (result.evaluation.provenance for result in results):
        for name in ("sightline", "python", "numpy", "torch"):
            version = getattr(provenance, name, None)
            version = version or provenance.meta.get(f"detector_{name}")
            if version:
                versions.setdefault(name, set()).add(str(version))
    return render(
        "methods.md",
        package="sightline.paper",
        testbeds=[f"- {_testbed(study, name)}" for name in study.testbeds],
        detectors=[_detector(study, label) for label in study.detectors],
        estimators=_listed({str(reference.estimator) for reference in references}),
        shrinkages=_range(reference.shrinkage for reference in references),
        guards="" if guards == [0] else names(guards),
        switches=SWITCHES if any(e.protocol is Protocol.PAPER for e in firsts) else (),
        bootstraps=[e.bootstrap for e in firsts if e.bootstrap],
        counts=lambda facts, key: _counts(getattr(fact, key) for fact in facts),
        is_diagnosed=bool(diagnoses),
        has_earlier=any(diagnosis.method < METHOD for diagnosis in diagnoses),
        has_telemetry=any(diagnosis.telemetry_judged for diagnosis in diagnoses),
        false_causes=_range(None if rate is None else 100 * rate for rate in rates),
        aftermaths=_range(
            None if d.aftermath_share is None else 100 * d.aftermath_share
            for d in diagnoses
        ),
        budget=f"{event_test.BUDGET:.0%}",
        most_false_causes=f"{MOST_FALSE_CAUSES:.0%}",
        least_showing=LEAST_SHOWING,
        attack_facts=attack_facts,
        attack_free=attack_free,
        confidence=confidence,
        event_test=event_test,
        ladder=ladder,
        record=record,
        versions=names([f"{name} {_listed(v)}" for name, v in versions.items()]),
        references=references_of(study),
    )


def _testbed(study: PaperStudy, testbed: str) -> str:
    """Return the sizes, resolution, release and options of a testbed."""
    detectors = study.on(testbed).detectors
    streams = [runs.evaluation.stream for runs in detectors]
    metas = [runs.evaluation.provenance.meta for runs in detectors]
    facts = [
        f"**{_safe(study.testbed_title(testbed))}**: "
        f"{_counts(s.n_train for s in streams)} train and "
        f"{_counts(s.n_test for s in streams)} test residual rows, "
        f"{_counts(s.n_segments for s in streams)} attack segments"
    ]
    steps = sorted({s.step_s for s in streams if s.step_s is not None})
    if steps:
        facts.append(f"a row every {' or '.join(f'{step:g}' for step in steps)} s")
    plants = _recorded(metas, "testbed_name")
    if plants and plants != {testbed}:
        facts.append(f"the testbed {_listed(plants)}")
    releases = _recorded(metas, "testbed_release", "release", "testbed_revision")
    if releases:
        facts.append(f"release {_listed(releases)}")
    options = {
        f"{name} = {value}"
        for meta in metas
        for name, value in (meta.get("testbed_options") or {}).items()
    }
    if options:
        facts.append(f"opened with {_listed(options)}")
    return "; ".join(facts) + "."


def _detector(study: PaperStudy, label: str) -> str:
    """Return what a detector is, its seeds, its settings and its deviations."""
    all_runs = study.runs_of(label)
    card = card_of_runs(all_runs[0])
    spaces = {space for runs in all_runs if (space := space_of(runs)) is not None}
    text = f"**{_safe(study.detector_title(label))}**"
    text += f" (residuals: {_listed(spaces)}). " if spaces else ". "
    on_testbeds = []
    for runs in all_runs:
        recorded = [result.evaluation.provenance.seed for result in runs.results]
        seeds = {str(seed) for seed in recorded if seed is not None}
        n_runs = plural(len(runs.results), "run")
        if seeds:
            n_runs += f" ({'seeds' if len(seeds) > 1 else 'seed'} {_listed(seeds)})"
        on_testbeds.append(f"{n_runs} on {_safe(study.testbed_title(runs.testbed))}")
    text += names(on_testbeds) + "."
    if card is None:
        return f"{text} Not a detector of Sightline: describe it here."
    text += f" {_safe(card.kind).capitalize()}. Source: {_safe(card.paper)}"
    lines = [
        f"- Settings on {_safe(study.testbed_title(runs.testbed))}: {settings}."
        for runs in all_runs
        if (settings := _settings(runs)) is not None
    ]
    if card.deviates:
        lines.append("- Deviates from the published:")
        lines += [f"  - {_safe(sentence)}" for sentence in card.deviates]
    return "\n".join([f"{text.removesuffix('.')}.", "", *lines]).rstrip()


def _settings(runs: DetectorRuns) -> str | None:
    """Return the settings that are not the detector's defaults, and its preset.

    None if the detector has no card, or the stream does not record its settings.
    """
    card, meta = card_of_runs(runs), runs.evaluation.provenance.meta
    settings = meta.get("detector_settings")
    if card is None or not isinstance(settings, Mapping):
        return None
    settings_type = detector_type(card.name).settings_type
    defaults = {field.name: field.default for field in fields(settings_type)}
    changed = [
        f"`{name}` = {_safe(json.dumps(value))}"
        for name, value in settings.items()
        if name in defaults.keys() - _NOT_OF_THE_METHOD
        # JSON has no tuples: values are compared as they are stored.
        and json.dumps(value, default=str) != json.dumps(defaults[name], default=str)
    ]
    preset = meta.get("detector_preset")
    return (", ".join(changed) or "all defaults") + (
        f"; preset {_safe(preset)}" if preset else ""
    )


def references_of(study: PaperStudy) -> list[str]:
    """Return the BibTeX entries that a study should cite, the paper first.

    Parameters
    ----------
    study : PaperStudy
        The results.

    Returns
    -------
    list of str
        The paper, Ledoit and Wolf where their estimator was used, detectors, testbeds,
        and Sightline with its version. Nothing is looked up: a testbed or detector
        without an entry in the package has none here.
    """
    keys = [_PAPER]
    if any("ledoit" in runs.evaluation.reference.estimator for runs in study.runs):
        keys.append(_LEDOIT_WOLF)
    cards = [card_of_runs(study.runs_of(label)[0]) for label in study.detectors]
    cited = [card.name for card in cards if card]
    cited += map(plant_of, study.testbeds)
    keys += [_CITED[name] for name in cited if name in _CITED]
    recorded = {runs.evaluation.provenance.sightline for runs in study.runs}
    versions = ", ".join(sorted(str(version) for version in recorded if version))
    version = escaped_latex(one_line(versions)) or "unknown"
    software = (
        "@misc{sightline,\n"
        "  author = {{Sightline developers}},\n"
        "  title  = {Sightline},\n"
        f"  note   = {{Software, version {version}}}\n"
        "}"
    )
    path = files("sightline.paper") / "paper_tables" / "references.bib"
    parts = re.split(r"\n(?=@)", path.read_text(encoding="utf-8"))
    # An entry begins with "@kind{key,".
    entries = {p.partition("{")[2].partition(",")[0]: p.strip() for p in parts}
    return [*(entries[key] for key in dict.fromkeys(keys)), software]


def _recorded(metas: Sequence[Mapping[str, object]], *keys: str) -> set[str]:
    """Return all values that the streams record under any of the keys."""
    return {str(meta[key]) for meta in metas for key in keys if meta.get(key)}


def _safe(text: object) -> str:
    """Return text on one line, escaped for Markdown."""
    return escaped_markdown(one_line(str(text)))


def _listed(listed: Iterable[str]) -> str:
    """Return texts in alphabetical order as a list in words."""
    return names([_safe(text) for text in sorted(listed)])


def _counts(counts: Iterable[int]) -> str:
    """Return a count, or the lowest and the highest of different counts.

    Examples
    --------
    >>> _counts([1200, 1200]), _counts([3, 1, 2])
    ('1,200', '1 to 3')
    """
    ordered = [f"{count:,}" for count in sorted(counts)]
    return " to ".join(dict.fromkeys((ordered[0], ordered[-1])))


def _range(values: Iterable[float | None]) -> str:
    """Return the lowest and highest known value; empty if none is known.

    Examples
    --------
    >>> _range([0.123, None, 0.5]), _range([None])
    ('0.12 to 0.5', '')
    """
    known = [f"{value:.2g}" for value in sorted(v for v in values if v is not None)]
    return " to ".join(dict.fromkeys(known[:1] + known[-1:]))
