"""The paper's tables and figures, its findings and the methods, from any study."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sightline.comparison.compare import Comparison, compare
from sightline.errors import FileError
from sightline.files import reading, staged_folder, writing
from sightline.metrics.intervals import N_REPLICATES
from sightline.paper.cross_tables import agreement_table, ranking_table, transfer_table
from sightline.paper.example_attacks import case_table
from sightline.paper.figures import Drawn, draw_all
from sightline.paper.findings.findings import (
    Finding,
    findings_json,
    findings_markdown,
    judge_findings,
)
from sightline.paper.markup import escaped_markdown
from sightline.paper.methods import methods_markdown, seed_of
from sightline.paper.paper_values import beside_paper
from sightline.paper.references import cited
from sightline.paper.study import Study
from sightline.paper.table import PaperTable
from sightline.paper.tables import (
    detector_table,
    main_table,
    supplementary_table,
    testbed_table,
)
from sightline.progress import Progress
from sightline.storage import Result

__all__ = ["Finding", "PaperTable", "WriteUp", "write_up"]

_TABLES = (
    "testbeds",
    "detectors",
    "main",
    "main_beside_paper",
    "supplementary",
    "attack_cases",
    "cross_testbed_ranking",
    "agreement",
    "rankings",
)
_FIGURES = ("agreement", "roc_auc_against_f1", "mean_shift_identity")
# All that a write-up may hold; whatever else is in its folder is left alone.
_FILES = (
    "findings.md",
    "findings.json",
    "methods.md",
    "references.bib",
    "comparison.json",
    "figures/captions.md",
    *(f"tables/{name}.{kind}" for name in _TABLES for kind in ("csv", "md", "tex")),
    *(f"figures/{name}.{kind}" for name in _FIGURES for kind in ("svg", "png")),
)


@dataclass(frozen=True, kw_only=True)
class WriteUp:
    """What was written: files below the folder, and what could not be made and why."""

    folder: Path
    files: tuple[str, ...]
    findings: tuple[Finding, ...]
    notices: tuple[str, ...]


def write_up(
    results: Sequence[Result],
    folder: str | Path,
    *,
    overwrite: bool = False,
    comparison: Comparison | None = None,
    identity_of: str | None = None,
    n_replicates: int = N_REPLICATES,
    progress: Progress | None = None,
) -> WriteUp:
    """Write the paper's tables, figures and findings for a study of one's own.

    Parameters
    ----------
    results : sequence of Result
        As `read_results` gives them; several of one detector on one testbed are its
        seeds.
    folder : path
        Gets ``tables/``, ``figures/``, ``findings.md``, ``findings.json``,
        ``methods.md``, ``references.bib`` and ``comparison.json``, all or nothing.
    overwrite : bool
        Whether an earlier write-up may be replaced; what else the folder holds is
        left alone.
    comparison : Comparison, optional
        Of the same results, where `compare` was called already.
    identity_of : str, optional
        The one detector to draw the mean-shift identity of; all if not given.
    n_replicates : int
        Draws for the intervals of `compare`.
    progress : callable, optional
        Told what is being done, and how much of how much is done.

    Raises
    ------
    FileError
        Where there are no results, or the folder may not be written.
    """
    folder = Path(folder)
    if not results:
        raise FileError(f"{folder}: there are no results to write up.")
    _check_folder(folder, overwrite=overwrite)
    if comparison is None:
        comparison = compare(results, n_replicates=n_replicates, progress=progress)
    study = Study(results)
    tables, notices = _tables(study, comparison)
    figures, not_drawn = draw_all(study, comparison, identity_of=identity_of)
    findings = judge_findings(study, comparison)
    texts = {
        "findings.md": findings_markdown(findings),
        "findings.json": _json(findings_json(findings)),
        "methods.md": methods_markdown(study),
        "references.bib": "\n\n".join(cited(study)) + "\n",
        "comparison.json": _json(comparison.to_dict()),
    }
    for table in tables:
        texts[f"tables/{table.name}.csv"] = table.to_csv()
        texts[f"tables/{table.name}.md"] = table.to_markdown()
        texts[f"tables/{table.name}.tex"] = table.to_latex()
    if figures:
        texts["figures/captions.md"] = _captions(figures)
    contents: dict[str, str | bytes] = {**texts}
    for figure in figures:
        for kind, content in figure.files.items():
            contents[f"figures/{figure.name}.{kind}"] = content
    with staged_folder(folder) as partial:
        _write(partial, contents)
    # What this study has no example of must not stay from an earlier one.
    with writing(folder):
        for name in set(_FILES) - set(contents):
            (folder / name).unlink(missing_ok=True)
    return WriteUp(
        folder=folder,
        files=tuple(sorted(contents)),
        findings=findings,
        notices=(*_not_seeds(study), *notices, *not_drawn),
    )


def _check_folder(folder: Path, *, overwrite: bool) -> None:
    with reading(folder):
        if folder.exists() and not folder.is_dir():
            raise FileError(f"{folder}: is a file; a write-up needs a folder.")
        there = [name for name in _FILES if (folder / name).exists()]
    if there and not overwrite:
        raise FileError(
            f"{folder}: holds {there[0]}, of an earlier write-up, which is kept: "
            "choose another folder, or pass --overwrite."
        )


def _tables(study: Study, compared: Comparison) -> tuple[list[PaperTable], list[str]]:
    """Return the tables that have rows, and a word on those that have not."""
    made = [
        (testbed_table(study), ""),
        (detector_table(study), ""),
        (main_table(study), ""),
        (supplementary_table(study), ""),
        (case_table(study), "attack_cases is left out: no attack has a verdict"),
        (
            transfer_table(study, compared),
            "cross_testbed_ranking is left out: there is one testbed",
        ),
        (agreement_table(study, compared), "agreement is left out: no two detectors"),
        (ranking_table(study, compared), "rankings is left out: nobody has two seeds"),
        (
            beside_paper(study),
            "main_beside_paper is left out: no detector and testbed of the paper",
        ),
    ]
    tables = [table for table, _ in made if table is not None and table.n_rows]
    missing = [why for table, why in made if table is None or not table.n_rows]
    return tables, [f"Table {why}." for why in missing]


def _not_seeds(study: Study) -> list[str]:
    """Return a warning where results of one pair are no seeds of one another."""
    guards, same = [], []
    for pair in study.pairs:
        who = f"{pair.detector} on {pair.testbed}"
        seeds = [seed_of(result.evaluation.provenance) for result in pair.seeds]
        known = [str(seed) for seed in seeds if seed is not None]
        if len({result.evaluation.guard for result in pair.seeds}) > 1:
            guards.append(who)
        elif len(set(known)) < len(known):
            same.append(who)
    told = []
    if guards:
        told.append(
            "Results with different guards are taken for seeds of one another; leave "
            f"some out: {', '.join(guards)}."
        )
    if same:
        told.append(
            "Several results have the same seed, so a range over seeds means little: "
            f"{', '.join(same)}."
        )
    return told


def _captions(figures: Sequence[Drawn]) -> str:
    lines = ["# Captions"]
    lines += [f"**{f.name}.** {escaped_markdown(f.caption)}" for f in figures]
    return "\n\n".join(lines) + "\n"


def _json(values: object) -> str:
    return json.dumps(values, indent=1, allow_nan=False) + "\n"


def _write(folder: Path, contents: dict[str, str | bytes]) -> None:
    for name, content in contents.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        # A name of a detector may hold what is not a character.
        path.write_bytes(
            content.encode("utf-8", errors="backslashreplace")
            if isinstance(content, str)
            else content
        )
