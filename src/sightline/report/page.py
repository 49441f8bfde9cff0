"""The page: data, tables and scripts in one stand-alone file.

The template ``assets/page.html`` gets records, and reads them by tables of
`sightline.show`, by filters and by functions of this package; the scripts get one JSON
object (`page_data`). Neither holds a threshold, a verdict, a colour or a label of its
own: all of them come from the tables of `judgement`.
"""

import html
import json
import re
from collections.abc import Sequence
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from sightline import text
from sightline._version import __version__
from sightline.audit.record import CODES
from sightline.blindspots.result import range_words
from sightline.comparison.compare import Comparison, compare
from sightline.comparison.differences import PRIMARY
from sightline.errors import FileError
from sightline.evaluation.result import HINDSIGHT, FigureRange, plain
from sightline.files import staged_file
from sightline.judgement.verdicts import Verdict, all_infos
from sightline.report import alarms, attacks, charts, overview, pictures, sources
from sightline.report.charts import JsonObject, packed_text
from sightline.report.entries import Entry, entries_of
from sightline.report.glossary import glossary, groups
from sightline.report.print_figures import write_figures
from sightline.report.redaction import redacted, what_remains
from sightline.rules.choose import count_words
from sightline.show import blind_spots, catalogue, evaluations, rules
from sightline.show import comparison as compared
from sightline.show.sensitivity import page_sensitivity
from sightline.show.table import RecordTable
from sightline.storage import Given, results_of

if TYPE_CHECKING:
    import jinja2

_ASSETS = files("sightline.report") / "assets"
# The doors of the page by id: a template of the same name for each.
DOORS = {"decide": "Decide", "explain": "Explain", "compare": "Compare"}
STYLES = ("page.css", "first_screen.css", "tables.css", "pictures.css", "print.css")
SCRIPTS = (
    "packing.js",
    "tips.js",
    "theme.js",
    "clock.js",
    "energy.js",
    "curves.js",
    "stability.js",
    "attack_picture.js",
    "attack_table.js",
    "false_alarms.js",
    "better_rules.js",
    "your_data.js",
    "what_if.js",
    "page.js",
)


def write_report(
    results: Given | Sequence[Given],
    path: str | Path,
    *,
    redact: bool = False,
    keep_times: bool = False,
    keep_plant: bool = False,
    title: str | None = None,
    figures: bool = False,
    primary: str = PRIMARY,
    comparison: Comparison | None = None,
) -> Path:
    """Write one stand-alone page that shows what each detector can see.

    Parameters
    ----------
    results : Evaluation, Result or path, or sequence of these
        Evaluations in memory, or folders that `write_results` wrote. Several results
        of one detector on one testbed are its seeds: the first is drawn, figures come
        with the mean and the range of all.
    path : path
        The page to write, such as ``report.html``. It needs no network.
    redact : bool
        Whether to use pseudonyms for the plant, its tags, stages and files, and for
        ids of attacks that are more than numbers, to count time from the start of the
        test record, and to leave out notes, foreign texts and telemetry, so that the
        page may leave the plant. `sightline.report.what_remains` says what stays.
    keep_times, keep_plant : bool
        Of a redacted page: whether dates and times, and names of plants, streams and
        files stay.
    title : str, optional
        Title at the top of the page.
    figures : bool
        Whether to write figures for print as well, as PDF, SVG and PNG: into
        ``figures`` for ``report.html``, into ``page-figures`` for ``page.html``. If
        not, those of an earlier report stay there.
    primary : str
        The figure that detectors are judged by; see `compare`.
    comparison : Comparison, optional
        Of the same results, if `compare` was called already; a redacted page compares
        the results under their pseudonyms.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    FileError
        If there is no result, or the page cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from sightline import ResidualStream, evaluate, write_report
    >>> rng = np.random.default_rng(0)
    >>> labels = np.repeat([0, 1, 0], [400, 50, 550])
    >>> stream = ResidualStream(rng.normal(size=(2000, 4)), rng.normal(size=(1000, 4)),
    ...     labels, name="mine")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(evaluate(stream, intervals=False), f"{folder}/page.html").name
    'page.html'
    """
    loaded = results_of(results, "write_report")
    if not loaded:
        raise FileError("There is no result to report on: evaluate a stream first.")
    remains = ""
    if redact:
        keep = {"keep_times": keep_times, "keep_plant": keep_plant}
        loaded, names = redacted(loaded, **keep)
        title, remains = title and names.text(title), what_remains(**keep)
    entries = entries_of(loaded)
    path = Path(path)
    known = None if redact else comparison
    page = render(
        entries,
        remains=remains,
        title=title,
        primary=primary,
        comparison=known,
        sensitivity=None if redact else page_sensitivity(path.parent),
    )
    with staged_file(path) as partial:
        # A name may hold code points that are no characters.
        partial.write_text(page, encoding="utf-8", errors="backslashreplace")
    if figures:
        write_figures(entries, figures_folder(path))
    return path


def figures_folder(page: Path) -> Path:
    """Return the folder of a page's figures, which no other page shares.

    Examples
    --------
    >>> figures_folder(Path("report.html")).name, figures_folder(Path("a.html")).name
    ('figures', 'a-figures')
    """
    name = "figures" if page.name == "report.html" else f"{page.stem}-figures"
    return page.parent / name


def page_data(entries: Sequence[Entry]) -> JsonObject:
    """Return what the page's scripts read: the table of verdicts, numbers, charts.

    Parameters
    ----------
    entries : sequence of Entry
        In the order of the page.

    Returns
    -------
    mapping
        ``verdicts`` (symbol, marker and colours by word), ``detected_word``,
        ``parts`` (labels of the parts of a record), ``method`` (the thresholds that
        the scripts mention or draw), and ``entries`` with the data of all charts.
    """
    clocks = charts.clocks_by_testbed(entries)
    return {
        "verdicts": {info.word: info.page_fields() for info in all_infos()},
        "detected_word": Verdict.DETECTED,
        "parts": charts.PARTS,
        "method": {
            "pauc_rate": charts.PAUC_RATE,
            "low_rate": charts.LOW_RATE,
        },
        "entries": [
            {
                **charts.energy_figure(entry, clocks[entry.testbed]),
                "roc": charts.roc_figure(entry),
                "windows": charts.windows_figure(entry),
                "spread": charts.spread_figure(entry),
                "quantiles": charts.quantile_figure(entry),
                "drift": charts.drift_figure(entry),
                "details": attacks.attack_details(entry),
                "false_alarms": alarms.false_alarms(entry),
                "rules": alarms.rules_figure(entry),
            }
            for entry in entries
        ],
    }


def render(
    entries: Sequence[Entry],
    *,
    remains: str = "",
    title: str | None = None,
    primary: str = PRIMARY,
    comparison: Comparison | None = None,
    sensitivity: tuple[RecordTable[FigureRange], list[str]] | None = None,
) -> str:
    """Return the page as HTML.

    Parameters
    ----------
    entries : sequence of Entry
        In the order of the page.
    remains : str
        What a redacted page still shows; empty for a page with nothing hidden. Settings
        of detectors are left out of a redacted page.
    title : str, optional
        Title of the page; by default the names of the plants, else of the streams.
    primary : str
        The figure that detectors are judged by; see `compare`.
    comparison : Comparison, optional
        Of the same results; made here if it is not given.
    sensitivity : pair, optional
        Ranges of figures over settings, and sentences, where they were measured.

    Returns
    -------
    str
        A complete document with styles, scripts, the chart library and all data. The
        same entries give the same text.
    """
    from plotly.offline import get_plotlyjs

    library = get_plotlyjs()
    if comparison is None:
        results = [result for entry in entries for result in entry.results]
        comparison = compare(results, primary=primary)
    testbeds = dict.fromkeys(entry.testbed for entry in entries)
    attacked = attacks.attack_groups(entries)
    rows = [row for attack in attacked for row in attack.rows]
    words = {row.verdict.word for row in rows}
    transfer = [row for row in comparison.transfer if row.correlation.n >= 2]
    labels = text.Labelling.of_all(one.evaluation.stream.labels for one in entries)
    is_labelled = labels is not text.Labelling.NONE
    page = (
        _environment(is_labelled)
        .get_template("page.html")
        .render(
            title=title or default_title(entries),
            remains=remains,
            styles="\n".join(_asset(name) for name in STYLES),
            scripts="\n".join(_in_words(_asset(name), is_labelled) for name in SCRIPTS),
            plotly_notice=library[: library.find("*/") + 2],
            plotly=packed_text(library),
            data=for_script(page_data(entries)),
            entries=entries,
            testbeds=list(testbeds),
            groups={t: [e for e in entries if e.testbed == t] for t in testbeds},
            comparison=comparison,
            sensitivity=sensitivity,
            notes={entry.label: overview.notes_of(entry) for entry in entries},
            transfer=RecordTable("", compared.transfer_columns(), transfer),
            agreement={
                (row.testbed, frozenset(row.detectors)): row
                for row in comparison.agreement
            },
            glossary=glossary(labels),
            attack_groups=attacked,
            clocks=charts.clocks_by_testbed(entries),
            zones=charts.zones_by_testbed(entries),
            stages=sorted({stage for row in rows for stage in row.stages}),
            verdicts=all_infos(),
            verdicts_shown=[info for info in all_infos() if info.word in words],
        )
    )
    page = page.replace(_GLOSSARY, _glossary_of(page, labels), 1)
    return page if labels is text.Labelling.ATTACKS else _of_incidents(page, entries)


# Where the glossary of a page stands, which is made of what the page refers to.
_GLOSSARY = "<!-- the glossary -->\n"


def _glossary_of(page: str, labels: text.Labelling) -> str:
    """Return the section with the terms that a page, or a script of it, refers to."""
    used = {*re.findall(r'data-term="([^"]+)"', page), *re.findall(r'"([\w-]+)"', page)}
    found = {
        group: [one for one in terms if one.key in used]
        for group, terms in groups(labels).items()
    }
    template = _environment(labels is not text.Labelling.NONE).get_template(
        "glossary.html"
    )
    return template.render(
        groups={group: terms for group, terms in found.items() if terms},
        glossary=glossary(labels),
    )


# Parts of a page: scripts and styles; tags, with attributes that people read; text.
_PARTS = re.compile(
    r"(?P<code><(script|style)\b.*?</\2>)|(?P<tag><[^>]*>)|[^<]+", re.DOTALL
)
_TIPS = re.compile(r'(?<= )(?:aria-label|title|data-(?:tip|label))="[^"]*"')
# In a script: a comment, or a text in quotes.
_QUOTED = re.compile(r'/\*.*?\*/|(?P<text>"(?:[^"\\\n]|\\.)*"|`[^`]*`)', re.DOTALL)


def _of_incidents(page: str, entries: Sequence[Entry]) -> str:
    """Return a page about plants' own records: our words on it are of incidents."""
    segments = [one for entry in entries for one in entry.evaluation.segments]
    given = {name for s in segments for name in (s.id, s.name, s.note) if name}
    names = given | {html.escape(name) for name in given}

    def worded(words: re.Match[str]) -> str:
        return text.as_labelled(words[0], text.Labelling.INCIDENTS, names)

    def of_script(quoted: re.Match[str]) -> str:
        # One word alone is a key.
        return worded(quoted) if " " in (quoted["text"] or "") else quoted[0]

    def of_part(part: re.Match[str]) -> str:
        if part["code"]:
            return _QUOTED.sub(of_script, part[0])
        return _TIPS.sub(worded, part[0]) if part["tag"] else worded(part)

    return _PARTS.sub(of_part, page)


def _in_words(source: str, is_labelled: bool) -> str:
    """Return a template or script in the words of a record with labels, or without."""
    return source if is_labelled else text.without_false(source)


@cache
def _environment(is_labelled: bool) -> "jinja2.Environment":
    """Return the templates, with the filters they use; each is compiled once.

    Their words are those of a record that is labelled, or is not.
    """
    import jinja2

    folders = (("sightline.report", "assets"), ("sightline.show", "templates"))
    templates = {
        file.name: _in_words(file.read_text(encoding="utf-8"), is_labelled)
        for package, folder in folders
        for file in (files(package) / folder).iterdir()
        if file.name.endswith(".html")
    }
    environment = jinja2.Environment(
        loader=jinja2.DictLoader(templates),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        # A filter of a constant is not computed while compiling: filters may change.
        optimized=False,
    )
    environment.globals |= {
        "alarms": alarms,
        "attacks": attacks,
        "blind": blind_spots,
        "catalogue": catalogue,
        "charts": charts,
        "codes": CODES,
        "doors": DOORS,
        "compared": compared,
        "evaluations": evaluations,
        "verdict_detected": Verdict.DETECTED,
        "frozenset": frozenset,
        "hindsight": HINDSIGHT,
        "overview": overview,
        "pictures": pictures,
        "rules": rules,
        "sources": sources,
        "version": __version__,
    }
    environment.tests["coarse"] = sources.is_coarse
    environment.filters |= {
        "on": text.on_testbed,
        "number": text.number,
        "score": text.score,
        "signed": lambda value: f"{value:+z.3f}".replace("-", text.MINUS),
        "share": lambda value: text.share(value, 1),
        "whole_share": text.share,
        "duration": text.duration,
        "range_words": range_words,
        "mean_count": text.mean_count,
        "count_words": count_words,
        "slug": text.slug,
        "capitalize_first": lambda words: words[:1].upper() + words[1:],
        # A p-value stays on one line.
        "unbroken": lambda words: re.sub(
            r"\bp (< )?(?=\d)", lambda p: p[0].replace(" ", "\N{NO-BREAK SPACE}"), words
        ),
        "percent": lambda value: f"{100 * value:.0f}%",
    }
    return environment


def for_script(value: object) -> str:
    r"""Return JSON that cannot end the script it stands in, whatever text it holds.

    Records become objects; numbers that are not finite become null.

    Examples
    --------
    >>> for_script({"name": "</script>", "value": float("nan")})
    '{"name":"\\u003c/script\\u003e","value":null}'
    """
    dumps = partial(json.dumps, allow_nan=False, separators=(",", ":"))
    try:
        text = dumps(value, default=plain)
    except (TypeError, ValueError):  # a number is not finite, or a key is no text
        text = dumps(plain(value))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _asset(name: str) -> str:
    """Return the text of a template, style sheet or script of the package."""
    return (_ASSETS / name).read_text(encoding="utf-8")


def default_title(entries: Sequence[Entry]) -> str:
    """Return the default title: what the plants are called, else the streams.

    Examples
    --------
    >>> default_title([])
    'Sightline'
    """
    plants, streams = [], []
    for entry in entries:
        facts = entry.evaluation.recording
        known = entry.testbed if entry.testbed != "unknown" else ""
        plants.append(known or (facts.plant if facts else ""))
        streams.append(entry.evaluation.stream.name)
    shown = list(dict.fromkeys(filter(None, plants))) or list(dict.fromkeys(streams))
    return text.names(shown, 3) or "Sightline"
