"""The page as text: whole, escaped, redacted, small, and made from old folders too."""

import base64
import json
import re
import shutil
import subprocess
import sys
import zlib
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from plotly.offline import get_plotlyjs
from report.plant import CHANNELS, NOTE, QUOTED, SCRIPT, evaluations
from typer.testing import CliRunner

from sightline import FileError, read_results, write_report, write_results
from sightline.cli.app import app
from sightline.evaluation import chart_data
from sightline.judgement import event_test, ladder
from sightline.judgement.ladder import LADDER
from sightline.judgement.verdicts import VERDICTS, Verdict, all_infos
from sightline.report.charts import LEVELS
from sightline.report.page import DOORS, for_script
from sightline.report.print_figures import MAX_LETTERS
from sightline.report.redaction import Pseudonyms
from sightline.storage import Result

SECTIONS = (
    "glance",
    "rules",
    "your-data",
    "protocol",
    "each-attack",
    "energy",
    "attacks",
    "false-alarms",
    "reference",
    "detectors",
    "comparison",
    "visibility",
    "provenance",
    "glossary",
)
# 15 MB for five detectors on a testbed of the size of SWaT.
MOST_BYTES = 15_000_000


class Parsed(HTMLParser):
    """The elements and the texts of a page, as a browser would see them."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.ids, self.tags, self.texts, self.attributes = [], [], [], []
        self.elements = []
        self._in = None
        self.scripts = {}
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        known = dict(attrs)
        self.elements.append((tag, known))
        self.attributes += [(tag, name, value) for name, value in attrs]
        if "id" in known:
            self.ids.append(known["id"])
        self._in = (tag, known.get("id"))

    def handle_data(self, data):
        if self._in and self._in[0] in ("script", "style"):
            self.scripts[self._in[1]] = self.scripts.get(self._in[1], "") + data
        else:
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(self.texts)


def without_plotly(page):
    """Return the page without the library, which is not ours to judge."""
    return re.sub(r'(?s)(<script type="text/plain" id="plotly">).*?</script>', "", page)


@pytest.fixture(scope="module")
def page(results, tmp_path_factory):
    path = write_report(results, tmp_path_factory.mktemp("page") / "report.html")
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def parsed(page):
    return Parsed(without_plotly(page))


def test_every_section_is_there_once(parsed):
    assert [name for name in parsed.ids if name in SECTIONS] == list(SECTIONS)
    assert len(set(parsed.ids)) == len(parsed.ids)


def test_the_chart_library_is_compressed_and_complete(page):
    (library,) = re.findall('id="plotly">(.*?)</script>', page)
    assert len(library) < 2.2e6
    assert zlib.decompress(base64.b64decode(library)).decode() == get_plotlyjs()
    assert "Licensed under the MIT license" in without_plotly(page)


def test_the_page_needs_no_network(parsed):
    outside = [
        (tag, name, value)
        for tag, name, value in parsed.attributes
        if name in ("src", "srcset", "href") and value and "//" in value
    ]
    assert outside == []


def test_names_are_shown_and_not_run(page, parsed):
    own = without_plotly(page)
    assert SCRIPT in parsed.text
    assert NOTE in parsed.text
    assert QUOTED in parsed.text
    assert "alert(1)" in own
    assert "<script>alert" not in own
    assert "<img" not in own
    assert "img" not in parsed.tags
    # The detector's name holds <b>: every bold element is one of the page's own marks.
    bold = [attributes for tag, attributes in parsed.elements if tag == "b"]
    assert bold
    assert all(set(attributes) == {"style"} for attributes in bold)


def test_data_in_the_page_cannot_end_their_script(parsed):
    data = json.loads(parsed.scripts["data"])
    assert QUOTED in [entry["label"] for entry in data["entries"]]
    assert "<" not in parsed.scripts["data"]


def test_signs_that_end_scripts_are_written_otherwise():
    nasty = {"</script>": "<!-- \u2028 & \u2029"}
    text = for_script(nasty)
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == nasty


def test_the_same_results_give_the_same_page(results, page, tmp_path):
    again = write_report(results, tmp_path / "report.html")
    assert again.read_text(encoding="utf-8") == page


def test_redaction_leaves_no_tag_note_or_telemetry(results, tmp_path):
    path = write_report(results, tmp_path / "report.html", redact=True)
    own = without_plotly(path.read_text(encoding="utf-8"))
    parsed = Parsed(own)
    data = parsed.scripts["data"]
    for name in (*CHANNELS, "stage <1>", "stage 2", NOTE, "onerror"):
        assert name not in parsed.text
        assert json.dumps(name)[1:-1] not in data
        assert for_script(name)[1:-1] not in data
    # Their ids are no mere numbers.
    assert "A<1>" not in parsed.text
    assert "A-01" in parsed.text
    assert "CH-002" in parsed.text
    assert "STAGE-01" in parsed.text
    details = json.loads(data)["entries"][0]["details"]
    assert all(detail["picture"]["signals"] == [] for detail in details)
    assert all(
        rule["states"] == []
        for entry in json.loads(data)["entries"]
        for rule in entry["false_alarms"]
    )


def test_the_longest_name_is_replaced_first():
    names = Pseudonyms(["LIT10", "LIT101"], ["P1"])
    text = names.text("LIT101 and LIT10 (LIT101_max), 1% of P1")
    assert text == "CH-002 and CH-001 (CH-002_max), 1% of STAGE-01"


def test_names_that_are_numbers_do_not_change_numbers():
    names = Pseudonyms(["0", "1"], [])
    assert names.name("1") == "CH-002"
    assert names.text("1% of 10") == "1% of 10"


def test_names_are_hidden_however_they_are_written_and_only_once():
    tags = ["CH-002", "FIT 1\tx", "LIT101", "P1", "lit101"]
    names = Pseudonyms(tags, ["Raw water"])
    text = names.text("LIT101 lit101 Lit101 'FIT 1\\tx' CH-002 P1 p1 raw Water")
    assert text == "CH-003 CH-005 CH-003 'CH-002' CH-001 CH-004 p1 STAGE-01"


def test_attacks_whose_ids_reveal_the_plant_get_pseudonyms():
    attacks = ["7", "A3", "LIT101_spoof", "Overflow of the big tank", "2-1"]
    names = Pseudonyms(["0", "7", "LIT101"], [], attacks)
    pseudonyms = [names.attack(name) for name in attacks]
    assert pseudonyms == ["7", "A3", "A-01", "A-02", "A-03"]
    text = names.text("7 and lit101_Spoof, Overflow of the big tank, 2-1 (2012-12-10)")
    assert text == "7 and A-01, A-02, A-03 (2012-12-10)"


def test_a_folder_without_excerpts_gives_a_page_too(results, tmp_path):
    old = [
        replace(
            result,
            evaluation=replace(
                result.evaluation,
                traces=replace(
                    result.traces,
                    **{
                        name: None
                        for name in vars(result.traces)
                        if name.startswith(
                            (
                                "excerpt_",
                                "episode_",
                                "state_",
                                "channel_",
                                "telemetry_",
                                "own_",
                            )
                        )
                    },
                ),
            ),
        )
        for result in results
    ]
    page = write_report(old, tmp_path / "report.html").read_text(encoding="utf-8")
    parsed = Parsed(without_plotly(page))
    assert "older version of Sightline" in parsed.text
    data = json.loads(parsed.scripts["data"])
    assert all(d["picture"] is None for e in data["entries"] for d in e["details"])


def test_a_record_without_attacks_gives_a_page_too(tmp_path):
    from report.plant import stream

    from sightline import evaluate

    calm = stream("calm")
    made = evaluate(
        calm.replace(labels=np.zeros(calm.test.n_rows), segments=()), intervals=False
    )
    write_results([made], tmp_path / "results")
    page = write_report(tmp_path / "results", tmp_path / "report.html", figures=True)
    parsed = Parsed(without_plotly(page.read_text(encoding="utf-8")))
    assert "No test row is labelled as an incident." in parsed.text
    assert "No incident is labelled" in parsed.text
    assert (tmp_path / "figures" / "energy-through-time.svg").is_file()


def test_nothing_to_report_on_is_an_error(tmp_path):
    with pytest.raises(FileError, match="no result"):
        write_report([], tmp_path / "report.html")
    with pytest.raises(FileError, match="holds no evaluation"):
        write_report(tmp_path, tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_five_detectors_on_a_large_testbed_fit_the_budget(tmp_path):
    rng = np.random.default_rng(1)
    n_rows = 450_000
    base = evaluations()[1]
    # The same attacks, in a record a hundred times as long, 36 pictures of 300 columns.
    segments = tuple(base.segments[k % 6] for k in range(36))
    channels = rng.integers(0, 6, (36, 6)).astype(np.int32)
    large = []
    for name in "abcde":
        traces = replace(
            base.traces,
            test_energy=rng.chisquare(6, n_rows) * rng.lognormal(0, 1, n_rows),
            labels=(np.arange(n_rows) % 9 == 0).astype(np.int8),
            test_time=1.7e9 + np.arange(n_rows),
            **{
                name: np.resize(array, (36, *array.shape[1:]))
                for name, array in vars(base.traces).items()
                if name.startswith("segment_") and array is not None
            },
            excerpt_rows=np.tile([0, 4000], (36, 1)),
            excerpt_columns=np.full(36, 300),
            excerpt_channels=channels,
            excerpt_telemetry=channels,
            excerpt_contributions=rng.lognormal(size=(36, 6, 300)).astype(np.float32),
            excerpt_signals=rng.normal(size=(36, 6, 300, 3)).astype(np.float32),
        )
        stream = replace(base.stream, name=name, detector=name, n_test=n_rows)
        large.append(replace(base, stream=stream, segments=segments, traces=traces))
    write_results(large, tmp_path / "results")
    path = write_report(tmp_path / "results", tmp_path / "report.html")
    assert path.stat().st_size < MOST_BYTES


def report(*arguments: object):
    """Run ``sightline report``."""
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


def test_the_command_writes_a_page_and_keeps_earlier_ones(folder, tmp_path):
    results = tmp_path / "results"
    shutil.copytree(folder, results)
    done = report(results)
    assert done.exit_code == 0, done.output
    page = results / "report.html"
    assert done.output.splitlines() == [
        f"Written: {page}",
        "Figures for print (PDF, SVG, PNG): add --figures --overwrite.",
    ]
    assert page.is_file()
    assert not (results / "figures").exists()
    again = report(results)
    assert again.exit_code == 1
    assert "--overwrite" in again.output
    quiet = report(results, "--no-figures", "--overwrite")
    assert quiet.output == f"Written: {page}\n"


@pytest.mark.usefixtures("unrendered")
def test_the_command_writes_figures_if_asked(folder, tmp_path):
    done = report(folder, "--figures", "--out", tmp_path / "report.html")
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[-1] == f"Figures: {tmp_path / 'figures'}/"
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    for stem in ("energy-through-time", "roc", "attacks-by-detectors"):
        assert {f"works-{stem}.{kind}" for kind in ("pdf", "svg", "png")} <= names
    wanted = tmp_path / "elsewhere" / "page.html"
    done = report(folder, "--figures", "--redact", "--out", wanted)
    assert done.exit_code == 0
    assert "page-figures" in done.output
    assert (wanted.parent / "page-figures" / "plant-01-roc.svg").is_file()
    assert not (wanted.parent / "figures").exists()
    assert "LIT101" not in without_plotly(wanted.read_text(encoding="utf-8"))


@pytest.mark.usefixtures("unrendered")
@pytest.mark.parametrize("options", [[], ["--no-figures"], ["--redact"]])
def test_figures_of_an_earlier_report_are_named_as_such(folder, tmp_path, options):
    page, figures = tmp_path / "page.html", tmp_path / "page-figures"
    write_report(folder, page, figures=True)
    before = {path: path.read_bytes() for path in figures.iterdir()}
    done = report(folder, "--out", page, "--overwrite", *options)
    names = " and may show real names" if "--redact" in options else ""
    assert done.output.splitlines()[-1] == (
        f"The figures in {figures}/ are of an earlier report{names}: draw them again "
        "with --figures --overwrite."
    )
    assert {path: path.read_bytes() for path in figures.iterdir()} == before


def test_what_else_is_called_figures_is_none_of_a_report(folder, tmp_path):
    (tmp_path / "figures").mkdir()
    for name in ("roc.svg", "mean_ranks.pdf", "holiday.png"):
        (tmp_path / "figures" / name).write_text("mine")
    page = tmp_path / "report.html"
    done = report(folder, "--out", page, "--no-figures")
    assert done.output == f"Written: {page}\n"


def test_a_page_loads_neither_compiled_loops_nor_what_draws_for_print(folder, tmp_path):
    code = (
        "import sys; from sightline import write_report; write_report(*sys.argv[1:]); "
        "heavy = {'numba', 'matplotlib'}; "
        "print(*(heavy | {'sightline.report'}) & set(sys.modules))"
    )
    command = [sys.executable, "-c", code, str(folder), str(tmp_path / "page.html")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["sightline.report"]


def test_a_folder_given_twice_counts_once(folder, tmp_path):
    one = sorted(path for path in folder.iterdir() if path.is_dir())[0]
    around = one.parent / ".." / one.parent.name / one.name
    page = write_report([one, around, folder], tmp_path / "report.html")
    once = write_report(folder, tmp_path / "once.html")
    assert page.read_text(encoding="utf-8") == once.read_text(encoding="utf-8")


def test_unknown_testbeds_and_single_detectors_are_not_named(results, tmp_path):
    first = results[0].evaluation
    lone = replace(first, stream=replace(first.stream, testbed=None))
    page = write_report(
        [replace(results[0], evaluation=lone)], tmp_path / "report.html"
    )
    whole = without_plotly(page.read_text(encoding="utf-8"))
    assert "on unknown" not in whole
    text = Parsed(whole).text
    assert "There is only one detector, so there is nothing to compare." in text
    assert "by all 1" not in text


def test_thresholds_on_the_page_are_those_of_the_method(results, tmp_path, monkeypatch):
    before = write_report(results, tmp_path / "before.html")
    monkeypatch.setattr("sightline.judgement.event_test.EFFECT", 0.37)
    monkeypatch.setattr("sightline.judgement.event_test.LEVEL", 0.125)
    monkeypatch.setattr("sightline.judgement.ladder.SURE", 0.95)
    after = write_report(results, tmp_path / "after.html")
    pages = [
        Parsed(without_plotly(path.read_text(encoding="utf-8")))
        for path in (before, after)
    ]
    for page, points, level, sure in zip(
        pages, ("30", "37"), ("5%", "12%"), ("90%", "95%"), strict=True
    ):
        assert f"at least {points} percentage points more" in page.text
        assert f"at most {level} of attack-free stretches" in page.text
        assert f"Sure from {sure}, likely from 70%" in page.text


def test_scripts_and_template_hold_no_number_or_word_of_the_method():
    assets = files("sightline.report") / "assets"
    texts = {
        path.name: path.read_text(encoding="utf-8")
        for path in assets.iterdir()
        if path.name.endswith((".js", ".html"))
    }
    assert {f"{door}.html" for door in DOORS} < set(texts)
    words = [info.word for info in all_infos()]
    labels = [rung.label for rung in LADDER.values()]
    colours = [colour for info in all_infos() for colour in (info.light, info.dark)]
    for name, text in texts.items():
        for wanted in (*labels, *colours):
            assert wanted not in text, (name, wanted)
        for word in words:
            assert f'"{word}"' not in text, (name, word)
        for value in ("0.30", "0.3 -", "one in twenty", "30 points", "95% of them"):
            assert value not in text, (name, value)


def test_numbers_in_the_docs_of_the_report_are_those_of_the_code():
    docs = Path(__file__).parents[2] / "docs" / "report.md"
    text = " ".join(docs.read_text(encoding="utf-8").split())
    for phrase in (
        f"as {LEVELS:,} steps of its logarithm",
        f"sure from {ladder.SURE:.0%}, likely from {ladder.UNSURE:.0%}",
        f"Below {ladder.UNDECIDED:.0%} the verdict is `undecided`",
        f"an upper bound ({event_test.LEVEL:.0%} of the attacks)",
        f"names of more than {MAX_LETTERS} letters",
        f"with 2 to {chart_data.MOST_STATES} values",
        f"at most {chart_data.MOST_COLUMNS} columns, {chart_data.MOST_CHANNELS} "
        f"channels and {chart_data.MOST_ATTACKS} attacks",
    ):
        assert phrase in text, phrase


def test_a_change_of_the_table_of_verdicts_reaches_the_page(
    results, tmp_path, monkeypatch
):
    changed_info = replace(
        VERDICTS[Verdict.DETECTED],
        symbol="\u2606",
        meaning="a new meaning",
        light="#123",
    )
    monkeypatch.setitem(VERDICTS, Verdict.DETECTED, changed_info)
    path = write_report(results, tmp_path / "report.html")
    parsed = Parsed(without_plotly(path.read_text(encoding="utf-8")))
    assert "\u2606" in parsed.texts
    assert "a new meaning" in parsed.text
    verdicts = json.loads(parsed.scripts["data"])["verdicts"]
    assert verdicts[Verdict.DETECTED]["light"] == "#123"


def test_results_in_memory_give_the_page_of_results_on_disk(folder, tmp_path):
    on_disk = write_report(folder, tmp_path / "disk.html")
    results = [Result.of(evaluation) for evaluation in evaluations()]
    results.sort(key=lambda result: result.name)
    in_memory = write_report(results, tmp_path / "memory.html")
    assert in_memory.read_bytes() == on_disk.read_bytes()


def test_the_page_says_by_which_rule(parsed):
    assert "the detector's own if it has one, else the p99 rule." in parsed.text
    assert re.search(r"With their rules in use, \d of 6 attacks are", parsed.text)
    assert "so there is nothing to compare" in parsed.text


@pytest.mark.usefixtures("unrendered")
def test_results_stay_readable_where_a_report_is_beside_them(folder, tmp_path):
    results = tmp_path / "results"
    shutil.copytree(folder, results)
    before = len(read_results([results]))
    write_report(results, results / "report.html", figures=True)
    assert len(read_results([results])) == before
