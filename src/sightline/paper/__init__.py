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

Tables: ``testbeds``, ``detectors``, ``main``, ``main_beside_paper``, ``supplementary``,
``attack_cases``, ``cross_testbed_ranking``, ``agreement``, ``differences``. Figures:
``agreement``, ``mean_ranks``, ``roc_auc_against_f1``, ``mean_shift_identity``. What the
results do not suffice for is skipped with a notice that says what it needs.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sightline.comparison.compare import Comparison, compare
from sightline.errors import FileError
from sightline.files import reading, staged_folder, writing
from sightline.metrics.drawing import N_REPLICATES
from sightline.paper.figures import draw_all
from sightline.paper.findings import (
    PaperFinding,
    findings_json,
    findings_markdown,
    judge_findings,
)
from sightline.paper.methods import methods_markdown, references_of
from sightline.paper.study import PaperStudy
from sightline.paper.tables import all_tables
from sightline.progress import Progress
from sightline.show.phrases import escaped_markdown, filled
from sightline.show.printed import PaperTable, render
from sightline.storage import Given, results_of

__all__ = ["PaperFinding", "PaperTable", "WriteUp", "write_tables", "write_up"]

_TABLES = (
    "testbeds",
    "detectors",
    "main",
    "main_beside_paper",
    "supplementary",
    "found",
    "attack_cases",
    "cross_testbed_ranking",
    "agreement",
    "differences",
    "alarm_metrics",
    "score_metrics",
    "localisation",
)
# Tables of earlier versions, which a new write-up removes.
_EARLIER_TABLES = ("rankings",)
_FIGURES = ("agreement", "mean_ranks", "roc_auc_against_f1", "mean_shift_identity")
# All files that a write-up may hold; other files in its folder are not touched.
_FILES = (
    "findings.md",
    "findings.json",
    "methods.md",
    "references.bib",
    "comparison.json",
    "preview.tex",
    "figures/captions.md",
    *(
        f"tables/{name}.{kind}"
        for name in (*_TABLES, *_EARLIER_TABLES)
        for kind in ("csv", "md", "tex")
    ),
    *(f"figures/{name}.{kind}" for name in _FIGURES for kind in ("pdf", "svg", "png")),
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
        ``methods.md``, ``references.bib``, ``preview.tex`` and ``comparison.json``,
        all or nothing.
    overwrite : bool
        Whether an earlier write-up may be replaced. Other files in the folder are not
        touched.
    comparison : Comparison, optional
        Of the same results, if `compare` was called already.
    identity_of : str, optional
        The one detector of the figure ``mean_shift_identity``; all if not given.
    n_replicates : int
        Draws for the intervals of `compare`.
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
    ('comparison.json', 'figures/captions.md', 'figures/mean_shift_identity.pdf',
     'figures/mean_shift_identity.png')
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
    tables, no_tables = all_tables(study, comparison)
    figures, no_figures = draw_all(study, comparison, identity_of=identity_of)
    findings = judge_findings(study)
    contents: dict[str, str | bytes] = {
        "findings.md": findings_markdown(findings),
        "findings.json": _json(findings_json(findings)),
        "methods.md": methods_markdown(study),
        "references.bib": "\n\n".join(references_of(study)) + "\n",
        "comparison.json": _json(comparison.to_dict()),
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
