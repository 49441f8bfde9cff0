import csv
import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import typer
from matplotlib.text import Text
from typer.testing import CliRunner

from sightline import FileError, read_results, write_results, write_up
from sightline.cli.app import app
from sightline.comparison.compare import compare
from sightline.energy import attack_free
from sightline.judgement import event_test, ladder
from sightline.judgement import ladder as confidence
from sightline.paper import figures, methods_markdown
from sightline.paper.study import PaperStudy
from sightline.report.print_figures import styled
from sightline.storage import Result
from sightline.text import drawable


def many(make_result, n_detectors=9):
    rng = np.random.default_rng(0)
    names = ["gdn", "fusagnet", "tranad", "nsibf", "geco", "var", "pca", "mean"]
    names = [*names, "a detector with a very long name"][:n_detectors]
    return [
        make_result(
            testbed,
            name,
            seed=seed,
            space="sensor" if name == "nsibf" else "observation",
            d_full=rng.random(8),
            roc_auc=rng.uniform(0.5, 0.9),
            f1=rng.uniform(0, 0.8),
            verdicts=["drift", "diluted", "threshold", "weak-evidence"],
        )
        for testbed in ("swat", "wadi-A1")
        for name in names
        for seed in (0, 1)
    ]


@pytest.fixture(scope="module")
def written(make_result, tmp_path_factory):
    folder = tmp_path_factory.mktemp("up") / "study"
    made = write_up(many(make_result, 3), folder, n_replicates=2)
    return made, folder


@pytest.fixture
def no_figures(monkeypatch):
    """Drawing takes most of the time, and not every test is about it."""
    monkeypatch.setattr("sightline.paper.draw_all", lambda *_, **__: ([], []))


TABLES = (
    "agreement",
    "agreement_beside_paper",
    "alarm_metrics",
    "alignment",
    "attack_cases",
    "attack_cases_beside_paper",
    "cross_testbed_ranking",
    "detectors",
    "differences",
    "found",
    "main",
    "main_beside_paper",
    "score_metrics",
    "supplementary",
    "testbeds",
)
NO_TARGETS = "Skipped table 'localisation': it needs attacks with known targets."
FIGURES = (
    "agreement",
    "mean_ranks",
    "mean_shift_identity",
    "roc_auc_against_f1",
)


def test_all_is_written_and_told(written):
    made, folder = written
    expected = {f"tables/{t}.{kind}" for t in TABLES for kind in ("csv", "md", "tex")}
    kinds = ("pdf", "svg", "png")
    expected |= {f"figures/{f}.{kind}" for f in FIGURES for kind in kinds}
    expected |= {"figures/captions.md", "findings.md", "findings.json"}
    expected |= {"methods.md", "references.bib", "comparison.json", "preview.tex"}
    expected |= {"attacks.csv", "attacks-columns.csv"}
    there = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    assert set(made.files) == there == expected
    assert made.notices == (NO_TARGETS,)
    assert len(made.findings) == 7
    assert json.loads((folder / "comparison.json").read_text())["rankings"]
    assert not list(folder.parent.glob(".*"))


ITEM = re.compile(r"`(?P<file>[\w./-]+\.[a-z]+)(: (?P<columns>[^`]+))?`")
LAWS = re.compile(r"`(?P<file>tests/[\w/]+\.py)::(?P<name>\w+)`")
REPOSITORY = Path(__file__).parents[2]


def columns_in(path):
    """The columns of a table, the arrays of an archive, or the keys of JSON, dotted."""
    if path.suffix == ".csv":
        with open(path, newline="") as handle:
            return set(next(csv.reader(handle)))
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return set(arrays)
    told = json.loads(path.read_text())
    blocks = ((key, block) for key, block in told.items() if isinstance(block, dict))
    dotted = {f"{key}.{inner}" for key, block in blocks for inner in block}
    return set(told) | dotted


def test_every_item_of_the_paper_that_is_there_is_there(written, make_result, tmp_path):
    """Each file, column, command and test that docs/paper.md names."""
    write_results([make_result("swat", "gdn").evaluation], tmp_path)
    (result,) = (path.parent for path in tmp_path.rglob("evaluation.json"))
    text = (REPOSITORY / "docs/paper.md").read_text("utf-8")
    section = text.split("## Item by item")[1].split("\n## ")[0]
    rows = [line.split(" | ") for line in section.splitlines() if line[:2] == "| "]
    _, *items = (row for row in rows if len(row) == 4)
    assert len(items) >= 78
    assert {row[1] for row in items} == {"there", "partly", "not"}
    commands = set(typer.main.get_command(app).commands)
    for name, state, where, *_ in items:
        for match in ITEM.finditer(where):
            first, _, rest = match["file"].partition("/")
            places = [written[1] / match["file"], tmp_path / match["file"]]
            places += [result / rest] if first == "NAME" else []
            (path,) = (place for place in places if place.is_file())
            columns = set((match["columns"] or "").split(", ")) - {""}
            assert not columns or columns <= columns_in(path), (name, path)
        for match in LAWS.finditer(where):
            source = (REPOSITORY / match["file"]).read_text("utf-8")
            assert f"def {match['name']}(" in source, match[0]
        named = re.findall(r"`sightline (\w+)", where)
        assert set(named) <= commands, name
        if state == "there":
            links = "](" in where or where.startswith("next section")
            assert ITEM.search(where) or LAWS.search(where) or named or links, name


def test_differences_are_those_of_the_comparison(written):
    _, folder = written
    rows = json.loads((folder / "comparison.json").read_text())["differences"]
    with open(folder / "tables/differences.csv", newline="") as handle:
        table = list(csv.DictReader(handle))
    pairs = {(row["testbed"], *row["detectors"]) for row in rows}
    assert {
        (line["testbed"], line["detectors_first"], line["detectors_second"])
        for line in table
    } == pairs
    for row in rows:
        (line,) = [
            line
            for line in table
            if [line["testbed"], line["detectors_first"], line["detectors_second"]]
            == [row["testbed"], *row["detectors"]]
        ]
        figure = row["figure"]
        assert float(line[f"{figure}_difference"]) == row["difference"]
        assert [float(line[f"{figure}_{end}"]) for end in ("low", "high")] == row[
            "interval"
        ]
        p = line[f"{figure}_p_adjusted"]
        assert (float(p) if p else None) == row["p_adjusted"]
    assert "\\%" not in (folder / "tables/differences.md").read_text()


def test_an_earlier_table_of_rankings_is_removed(make_result, tmp_path, no_figures):
    earlier = tmp_path / "up/tables/rankings.csv"
    earlier.parent.mkdir(parents=True)
    earlier.write_text("GDN (100%) PCA")
    write_up([make_result("x", "a")], tmp_path / "up", overwrite=True, n_replicates=2)
    assert not earlier.exists()


def test_pictures_are_what_they_are_called(written):
    _, folder = written
    for name in FIGURES:
        png = (folder / f"figures/{name}.png").read_bytes()
        assert png.startswith(b"\x89PNG")
        svg = (folder / f"figures/{name}.svg").read_text()
        assert svg.startswith("<?xml")
        assert "<dc:date>" not in svg
        pdf = (folder / f"figures/{name}.pdf").read_bytes()
        assert pdf.startswith(b"%PDF")
        assert b"CreationDate" not in pdf


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("pdflatex") is None,
    reason="pdflatex is missing: apt-get install texlive-latex-extra",
)
def test_latex_sets_all_tables_and_figures(make_result, tmp_path):
    """Nine detectors on two testbeds, two seeds, and names with special characters."""
    results = [*many(make_result), make_result("100% A_1 & <ü>", 'a "b"\\c~^{#}$')]
    write_up(results, tmp_path, n_replicates=2)
    for _ in range(2):  # references are known in the second run
        done = subprocess.run(
            ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "preview"],
            cwd=tmp_path,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:].decode(errors="replace")
    log = (tmp_path / "preview.log").read_text(errors="replace")
    assert "Output written on preview.pdf" in log
    told = re.findall(r"^(?:Overfull \\hbox|.*undefined|.*too large).*$", log, re.M)
    assert not told


def test_methods_say_how_it_was_made(written):
    _, folder = written
    told = (folder / "methods.md").read_text()
    for words in ("2 runs (seeds 0 and 1) on SWaT", "ledoit-wolf", "p/2", "99th"):
        assert words in told
    for words in (
        f"at most {event_test.MOST_WINDOWS} windows",
        f"p of at most {event_test.LEVEL} with a coverage at least {event_test.EFFECT}",
        f"{ladder.NEARLY_ALL} of the best coverage",
        f"share of {confidence.N_DRAWS} draws",
        f"within {attack_free.CAP_LENGTHS} attack lengths",
        "No telemetry was judged.",
        "q-values (Benjamini and Hochberg)",
    ):
        assert words in told
    assert "earlier version" not in told
    assert "{" not in told.partition("## To cite")[0]
    cited = (folder / "references.bib").read_text()
    for key in ("shi-what", "ledoit2004", "deng2021gdn", "mathur2016swat", "sightline"):
        assert f"{{{key}" in cited
    assert "wolsing2025geco" not in cited  # GeCo is not in this study


def test_methods_say_which_verdicts_they_do_not_describe(make_result):
    earlier = make_result("x", "a", verdicts=["drift"], method=1)
    assert "rules of an earlier version" in methods_markdown(PaperStudy([earlier]))
    unjudged = methods_markdown(PaperStudy([make_result("x", "a")]))
    assert "Attacks were not judged." in unjudged
    assert "Judgement of attacks" not in unjudged


def test_earlier_work_is_kept(written, make_result):
    _, folder = written
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    one = [make_result("swat", "gdn")]
    with pytest.raises(FileError, match="earlier write-up"):
        write_up(one, folder, n_replicates=2)
    assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before


def test_nothing_stays_of_a_write_up_that_is_replaced(
    make_result, tmp_path, no_figures
):
    folder = tmp_path / "up"
    write_up([make_result(bed, "a") for bed in "xy"], folder, n_replicates=2)
    made = write_up([make_result("x", "a")], folder, overwrite=True, n_replicates=2)
    assert not (folder / "tables/cross_testbed_ranking.csv").exists()
    assert len([p for p in folder.rglob("*") if p.is_file()]) == len(made.files)


def test_what_else_is_in_the_folder_is_left_alone(make_result, tmp_path, no_figures):
    mine = [tmp_path / "thesis.tex", tmp_path / "tables" / "mine.tex"]
    mine[1].parent.mkdir()
    for path in mine:
        path.write_text("mine")
    for _ in range(2):
        made = write_up(
            [make_result("x", "a")], tmp_path, overwrite=True, n_replicates=2
        )
    assert {path.read_text() for path in mine} == {"mine"}
    there = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert len(there) == len(made.files) + 2


def test_nothing_half_written_stays(make_result, tmp_path, monkeypatch, no_figures):
    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("pathlib.Path.write_bytes", fail)
    with pytest.raises(FileError, match="disk full"):
        write_up([make_result("x", "a")], tmp_path / "up", n_replicates=2)
    assert list(tmp_path.iterdir()) == []


def test_no_results_are_refused(tmp_path):
    with pytest.raises(FileError, match="no results"):
        write_up([], tmp_path / "up")


def test_one_detector_without_diagnosis(make_result, tmp_path):
    made = write_up([make_result("x", "a")], tmp_path / "up", n_replicates=2)
    told = " ".join(made.notices)
    for name in ("attack_cases", "cross_testbed_ranking", "agreement", "found"):
        assert f"Skipped table '{name}': it needs " in told
    assert "Skipped figure 'agreement': it needs at least two detectors" in told
    assert "Skipped table 'differences': it needs two detectors of one" in told
    assert (tmp_path / "up/tables/main.csv").exists()


def test_the_reason_for_no_agreement_is_the_real_one(make_result, tmp_path):
    both = [make_result("x", name) for name in "ab"]
    two = both[1].evaluation
    traces = replace(
        two.traces,
        segment_d_full=two.traces.segment_d_full[:2],
        segment_group=two.traces.segment_group[:2],
    )
    fewer = replace(two, segments=two.segments[:2], traces=traces)
    written = write_up(
        [both[0], Result(Path("fewer"), fewer)], tmp_path / "up", n_replicates=2
    )
    assert (
        "Skipped figure 'agreement': it needs two detectors that share at least 3 "
        "attacks; no two detectors share more than 2." in written.notices
    )


def test_results_with_different_guards_are_not_seeds(make_result, tmp_path, no_figures):
    one = make_result("swat", "gdn")
    guarded = Result(one.folder, replace(one.evaluation, guard=60))
    written = write_up([one, guarded], tmp_path / "up", n_replicates=2)
    with open(tmp_path / "up/tables/main.csv", newline="") as handle:
        rows = list(csv.DictReader(handle))
    assert [row["detector"] for row in rows] == ["gdn", "gdn (guard 60)"]
    assert {row["n_seeds"] for row in rows} == {"1"}
    assert "| GDN (guard 60) |" in (tmp_path / "up/tables/main.md").read_text()
    assert not any("same seed" in notice for notice in written.notices)


def test_no_attacks(make_result, attack_free, tmp_path):
    results = [attack_free(make_result("x", name)) for name in "ab"]
    made = write_up(results, tmp_path / "up", n_replicates=2)
    assert "Skipped figure 'roc_auc_against_f1': it needs attacks." in made.notices
    with open(tmp_path / "up/tables/main.csv", newline="") as handle:
        row = next(csv.DictReader(handle))
    assert row["roc_auc"] == ""
    assert float(row["compactness"]) > 0


@pytest.mark.filterwarnings("error")
def test_odd_names_are_written_and_drawn(make_result, tmp_path):
    odd = ["a|b&c_d$e^f", "x\ny", "名前", "\udc80z"]
    results = [
        make_result(testbed, name, verdicts=["drift", "weak-evidence"])
        for testbed in ("p|l_a$n%t", "名")
        for name in odd
    ]
    folder = tmp_path / "up"
    write_up(results, folder, n_replicates=2)
    with open(folder / "tables/main.csv", newline="", encoding="utf-8") as handle:
        names = {row["detector"] for row in csv.DictReader(handle)}
    assert names == {*odd[:3], "\\udc80z"}
    assert r"a\textbar{}b\&c\_d\$e\textasciicircum{}f" in (
        folder / "tables/main.tex"
    ).read_text(encoding="utf-8")


def test_results_that_are_no_seeds_are_told(make_result, tmp_path, no_figures):
    twice = [make_result("x", "a"), make_result("x", "a")]
    made = write_up(twice, tmp_path / "up", n_replicates=2)
    assert any("same seed" in notice and "a on x" in notice for notice in made.notices)


def drawn(results):
    study, compared = PaperStudy(results), compare(results, n_replicates=2)
    return (
        figures.agreement(study, compared)[0],
        figures.ranking_and_alarms(study)[0],
        figures.mean_shift_identity(study)[0],
    )


def test_figures_are_legible_and_nothing_is_cut_off(make_result):
    with styled():
        for figure in drawn(many(make_result)):
            figure.draw_without_rendering()
            width, height = figure.get_size_inches()
            assert figure.get_size_inches()[0] in (3.4, 7.0)
            shown = [
                t for t in figure.findobj(Text) if t.get_visible() and t.get_text()
            ]
            assert min(t.get_fontsize() for t in shown) >= 6.5
            box = figure.get_tightbbox()
            assert min(box.x0, box.y0) >= 0
            assert box.x1 <= width
            assert box.y1 <= height


def test_numbers_fit_their_cells(make_result):
    with styled():
        figure = drawn(many(make_result))[0]
        figure.draw_without_rendering()
        panel = figure.axes[0]
        across = panel.transData.transform([(0, 0), (1, 0)])
        cell = across[1][0] - across[0][0]
        assert max(t.get_window_extent().width for t in panel.texts) < 0.95 * cell


def test_the_same_bytes_each_time(make_result):
    results = many(make_result, 2)
    study, compared = PaperStudy(results), compare(results, n_replicates=2)
    first, second = (figures.draw_all(study, compared)[0] for _ in range(2))
    assert [d.files for d in first] == [d.files for d in second]


def test_the_identity_of_one_detector(make_result):
    results = many(make_result, 3)
    study = PaperStudy(results)
    with styled():
        figure, _ = figures.mean_shift_identity(study, "gdn")
    assert len(figure.axes) == 1
    assert figures.mean_shift_identity(study, "other") is None
    compared = compare(results, n_replicates=2)
    (notice,) = figures.draw_all(study, compared, identity_of="other")[1]
    assert "there is no detector 'other', only " in notice


def test_windows_that_cannot_be_drawn_are_counted(make_result):
    one = make_result("x", "a")
    object.__setattr__(
        one.traces, "segment_excess", np.r_[-1.0, 0.0, np.arange(1.0, 7.0)]
    )
    with styled():
        figure, _ = figures.mean_shift_identity(PaperStudy([one]))
    (note,) = figure.axes[0].texts
    assert note.get_text().startswith("2 of 8")


def test_a_name_is_no_formula():
    assert drawable("a$b$名\n") == r"a\$b\$??"


def test_the_command(make_result, tmp_path, monkeypatch, no_figures):
    results = many(make_result, 2)
    monkeypatch.setattr("sightline.storage.read_results", lambda folders: results)
    asked = ["compare", "r", "--write-up", str(tmp_path / "up")]
    told = CliRunner().invoke(app, asked)
    assert told.exit_code == 0, told.output
    assert "How often does the order hold over seeds" in told.stdout
    assert (tmp_path / "up/findings.md").exists()
    again = CliRunner().invoke(app, asked)
    assert again.exit_code == 1
    assert "--overwrite" in again.stderr


def test_results_from_disk(tmp_path, no_figures):
    from strategies import make_stream

    from sightline import evaluate, write_results

    streams = [
        make_stream(
            n_train=200,
            n_test=300,
            attacks=[(50, 60), (120, 140), (200, 210), (250, 255)],
            strength=strength,
            detector=name,
            testbed="plant",
            name=name,
        )
        for name, strength in (("sharp", 4.0), ("dull", 1.0))
    ]
    evaluations = [evaluate(stream, metrics="none") for stream in streams]
    write_results(evaluations, tmp_path / "r")
    made = write_up(read_results([tmp_path / "r"]), tmp_path / "up", n_replicates=2)
    assert "tables/supplementary.csv" in made.files
    with open(tmp_path / "up/tables/supplementary.csv", newline="") as handle:
        row = next(csv.DictReader(handle))
    assert float(row["f1_interval_low"]) <= float(row["f1"])
