"""What values show of themselves: one line, HTML, text, frames, pictures."""

import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

import sightline
from sightline import (
    MissingExtraError,
    Recording,
    ResidualStream,
    SightlineError,
    StreamError,
    Tag,
    commission,
    compare,
    evaluate,
    make_detector,
    write_report,
    write_tables,
    write_up,
)
from sightline.blindspots.result import (
    BlindSpot,
    BlindSpots,
    RuleSight,
    SizeAt,
    SpotOutcome,
)
from sightline.data.segments import Attack
from sightline.detectors.adapters import FromFunction, from_arrays
from sightline.notebook.views import VIEWS
from sightline.show.html import NotebookView, rendered
from sightline.showing import Shown
from sightline.storage import Result
from sightline.testbeds.base import Testbed

# A name that would become markup, control a terminal and turn the writing around.
HOSTILE = "<img src=x onerror=alert(1)>&\"'\x1b[2J\u202e"
VOID = {"img", "br", "hr"}


class Tags(HTMLParser):
    """The tags of some HTML, which must be closed in order."""

    def __init__(self, text):
        super().__init__()
        self.seen, self.open = set(), []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.seen.add(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def arrays(seed=0, lift=5.0, n=1200):
    rng = np.random.default_rng(seed)
    train, test = rng.normal(size=(2000, 3)), rng.normal(size=(n, 3))
    labels = np.zeros(n, int)
    for start in (300, 600):
        labels[start : start + 50] = 1
    test[300:350, 1] += lift
    return {"train": train, "test": test, "labels": labels}


def hostile_stream():
    given = arrays()
    return ResidualStream(
        **given,
        channels=[f"{HOSTILE}{k}" for k in range(3)],
        segments=[Attack(id=HOSTILE, start=300, stop=350, note=HOSTILE)],
        name=HOSTILE,
        detector=HOSTILE,
        testbed=HOSTILE,
        step_s=60.0,
        notices=[HOSTILE],
    )


def blind_spots():
    at = SizeAt(size=2.0, low=1.0, high=3.0, of_range=0.1)
    spot = BlindSpot(
        tag=HOSTILE,
        shape="step",
        sign=1,
        duration_s=900,
        rule="z",
        outcome=SpotOutcome.SEEN,
        unit=HOSTILE,
        n_places=40,
        half=at,
        most=at,
    )
    unseen = replace(spot, outcome=SpotOutcome.NOT_SEEN, half=None, tag="dull")
    return BlindSpots(
        name=HOSTILE,
        detector=HOSTILE,
        testbed=None,
        budget="6/day,1%",
        is_residual=False,
        is_linear=True,
        chosen="z",
        n_places=40,
        seed=0,
        days=1.0,
        rules=(RuleSight(name="z", alarms_per_day=None, share_of_time=0.01),),
        spots=(spot, unseen),
        tags=(HOSTILE,),
        sentences=(HOSTILE,),
    )


@pytest.fixture(scope="module")
def shown():
    """Return one value of each type, all with hostile names."""
    stream = hostile_stream()
    evaluation = evaluate(stream, intervals=False, budget="200/day")
    tags = [Tag(name=f"{HOSTILE}{k}", unit=HOSTILE) for k in range(3)]
    recording = Recording(values=arrays()["test"], tags=tags, source=HOSTILE)
    observed = arrays()["train"]
    known, _, _ = from_arrays(observed, 0 * observed, observed, 0 * observed)
    made = commission(stream, budget="200/day")
    return {
        "stream": stream,
        "evaluation": evaluation,
        "segment": evaluation.segment(HOSTILE),
        "result": Result.of(evaluation),
        "comparison": compare(
            [evaluation, evaluate(**arrays(1), detector="b", intervals=False)]
        ),
        "recording": recording,
        "testbed": Testbed(
            name=HOSTILE,
            release="1",
            train=recording,
            test=recording,
            notices=(HOSTILE,),
        ),
        "detector": make_detector("mean").fit(recording),
        "unfitted": make_detector("pca"),
        "adapter": FromFunction(lambda values: values, name=HOSTILE),
        "arrays": known,
        "rules": made,
        "made rule": made.chosen,
        "rule": made.chosen.rule,
        "blind spots": blind_spots(),
        "improvement": sightline.improve(stream, budget="200/day"),
    }


NAMES = (
    "stream evaluation segment result comparison recording testbed detector unfitted "
    "adapter arrays rules made_rule rule blind_spots improvement"
).split()


def test_every_type_with_a_view_is_tried(shown):
    assert set(shown) == {name.replace("_", " ") for name in NAMES}
    tried = {kind for value in shown.values() for kind in type(value).__mro__}
    assert set(VIEWS) <= tried


@pytest.mark.parametrize("name", NAMES)
def test_a_value_has_a_short_line_and_html_in_which_all_is_escaped(name, shown):
    value = shown[name.replace("_", " ")]
    line = repr(value)
    assert len(line) < 600
    assert line.isprintable()
    assert line.startswith(type(value).__name__)
    html = value._repr_html_()
    tags = Tags(html)
    assert tags.seen <= {
        *("div", "style", "h4", "small", "table", "tbody", "thead", "tr", "th", "td"),
        *("caption", "span", "ul", "li", "p", "br"),
    }
    assert "\x1b" not in html
    assert "\u202e" not in html
    assert "<img" not in html
    if "<img" in line:
        assert "&lt;img" in html


def test_names_reach_the_html(shown):
    for name in ("stream", "evaluation", "testbed", "recording", "blind spots"):
        assert "&lt;img src=x" in shown[name]._repr_html_()


def test_a_type_without_a_view_shows_its_line():
    class Tank(Shown):
        def _line(self):
            return "'<T1>': 2 m"

    assert repr(Tank()) == "Tank '<T1>': 2 m"
    assert "&#39;&lt;T1&gt;&#39;: 2 m" in Tank()._repr_html_()


def test_a_view_without_content_is_valid():
    Tags(rendered(NotebookView(kind="Nothing", line="")))


def test_a_long_table_counts_what_it_leaves_out():
    labels = np.zeros(3000, int)
    labels[::30] = 1
    stream = ResidualStream(np.eye(2), np.zeros((3000, 2)), labels)
    assert "and 60 more" in stream._repr_html_()


# Arrays and frames


def test_arrays_frames_and_a_stream_give_the_same_evaluation():
    import pandas as pd
    import polars as pl

    given = arrays()
    channels = ["a", "b", "c"]
    wanted = evaluate(ResidualStream(**given, channels=channels), intervals=False)
    tables = {k: given[k] for k in ("train", "test")}
    assert wanted == evaluate(**given, channels=channels, intervals=False)
    for frame in (
        lambda values: pl.DataFrame(values, schema=channels),
        lambda values: pd.DataFrame(values, columns=channels),
    ):
        frames = {name: frame(values) for name, values in tables.items()}
        assert wanted == evaluate(**frames, labels=given["labels"], intervals=False)
    frames = {k: pl.DataFrame(v, schema=channels) for k, v in tables.items()}
    labelled = frames["test"].with_columns(
        attack=given["labels"], time=np.arange(1200.0)
    )
    named = evaluate(
        train=frames["train"],
        test=labelled,
        labels="attack",
        time="time",
        intervals=False,
    )
    assert named.stream.step_s == 1.0
    assert named.rank == wanted.rank
    timed = evaluate(
        train=frames["train"],
        test=labelled.drop("attack"),
        labels=given["labels"],
        time="time",
        intervals=False,
    )
    assert timed == named


def test_a_stream_is_called_after_its_detector_unless_it_is_named():
    given = arrays()
    quick = {"intervals": False, "diagnosis": False, "budget": None, "metrics": "none"}
    assert evaluate(**given, detector="pca", **quick).stream.name == "pca"
    assert evaluate(**given, detector="pca", name="x", **quick).stream.name == "x"
    assert evaluate(**given, **quick).stream.name == "stream"


STREAM = ResidualStream(**arrays())
WRONG = {
    "array": (lambda: evaluate(np.eye(3)), "takes a ResidualStream; got ndarray"),
    "path": (lambda: evaluate("mine.npz"), "read a file by sightline.read_stream"),
    "nothing": (evaluate, "`train` is missing"),
    "no test": (lambda: evaluate(train=np.eye(3)), "`test` is missing"),
    "misspelt": (lambda: evaluate(STREAM, gaurd=3), "did you mean 'guard'?"),
    "unknown": (lambda: evaluate(**arrays(), colour=3), "no argument 'colour'"),
    "both": (lambda: evaluate(STREAM, labels=[1]), "stream.replace(labels=...)"),
    "column": (lambda: evaluate(**arrays() | {"labels": "a"}), "must be a pandas or"),
    "channels": (
        lambda: evaluate(**arrays() | {"labels": "a"}, channels=["a"]),
        "`channels` has no place",
    ),
    "compare a stream": (lambda: compare([STREAM]), "got ResidualStream"),
    "compare a number": (lambda: compare(3), "got int"),
    "report a number": (lambda: write_report(3, "x.html"), "got int"),
    "write a number": (lambda: write_up([3], "x"), "got int"),
    "report nothing": (lambda: write_report([], "x.html"), "There is no result"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_one_sentence(case):
    call, part = WRONG[case]
    with pytest.raises(SightlineError, match=re.escape(part)) as caught:
        call()
    assert str(caught.value).endswith((".", "?"))


def test_one_evaluation_has_no_differences_and_two_of_one_name_are_refused(shown):
    quick = {"intervals": False, "diagnosis": False, "budget": None, "metrics": "none"}
    one, two = (evaluate(**arrays(), **quick) for _ in range(2))
    for alone in ([one], one):
        compared = compare(alone)
        assert compared.figures
        assert not compared.differences
    for call in (compare, lambda pair: write_report(pair, "x.html")):
        with pytest.raises(SightlineError, match="name them, as in evaluate"):
            call([one, two])
    seeds = [replace(e, stream=replace(e.stream, detector="a")) for e in (one, two)]
    assert len(compare(seeds).figures) > 0


def test_an_evaluation_without_traces_is_refused_by_one_sentence(shown):
    bare = replace(shown["evaluation"], traces=None)
    for call in (bare.plot, bare.segment(HOSTILE).plot):
        with pytest.raises(SightlineError, match="has no traces, which plot needs"):
            call()
    assert "Attacks caught" in bare.summary()


# In memory


def test_a_page_and_tables_need_no_files_of_results(shown, tmp_path):
    pair = [shown["evaluation"], evaluate(**arrays(1), detector="b", intervals=False)]
    page = write_report(pair, tmp_path / "page.html")
    assert page.stat().st_size > 1e6
    written = write_tables(pair, tmp_path / "tables", n_replicates=20)
    assert "tables/main.csv" in written.files
    assert write_tables is write_up
    assert sorted(p.name for p in tmp_path.iterdir()) == ["page.html", "tables"]


# Text, frames, pictures


def test_the_summary_is_text_of_bounded_width(shown):
    text = shown["evaluation"].summary()
    assert max(len(line) for line in text.splitlines()) <= 88
    assert "Each attack" in text
    assert "\x1b" not in text


@pytest.mark.parametrize("library", ["polars", "pandas"])
def test_a_frame_has_one_row_for_each_attack(library, shown):
    evaluation = shown["evaluation"]
    frame = evaluation.to_frame(library)
    assert type(frame).__module__.startswith(library)
    assert list(frame["id"]) == [segment.id for segment in evaluation.segments]
    assert list(frame["start"]) == [300, 600]
    assert list(frame["auc"]) == [segment.auc for segment in evaluation.segments]
    assert '"probe"' in frame["ladder"][0]


@pytest.mark.parametrize("library", ["polars", "pandas"])
def test_a_frame_without_attacks_has_the_same_columns(library, shown):
    calm = {"train": np.eye(3), "test": np.eye(3)}
    empty = evaluate(**calm, budget=None, intervals=False).to_frame(library)
    assert list(empty.columns) == list(shown["evaluation"].to_frame(library).columns)
    assert len(empty) == 0


def test_another_library_or_a_missing_one_is_one_sentence(shown, monkeypatch):
    with pytest.raises(StreamError, match="did you mean 'polars'"):
        shown["evaluation"].to_frame("polar")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r"to_frame needs pandas"):
        shown["evaluation"].to_frame("pandas")


def test_a_plot_shows_energy_attacks_and_limit(shown):
    evaluation = shown["evaluation"]
    figure = evaluation.plot()
    (axis,) = figure.axes
    heights = {line.get_ydata()[0] for line in axis.lines if len(line.get_xdata()) == 2}
    assert evaluation.probe.tau99 in heights
    (spans,) = (each for each in axis.collections if each.get_alpha())
    assert len(spans.get_paths()) == len(evaluation.segments)
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_an_attack_is_drawn_with_its_channels_and_its_ends(shown):
    evaluation = shown["evaluation"]
    figure = evaluation.segment(HOSTILE).plot()
    energy, heat, *signals, _ = figure.axes
    assert len(heat.get_yticks()) == 3
    assert len(signals) == 2
    # The strongest channel is the one that was lifted.
    assert heat.get_yticklabels()[0].get_text().endswith("1")
    drawn = energy.lines[0].get_ydata()
    rows = evaluation.traces.excerpt_rows[0]
    np.testing.assert_allclose(drawn, evaluation.traces.test_energy[slice(*rows)])
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_an_attack_that_has_no_excerpt_cannot_be_drawn(shown):
    evaluation = shown["evaluation"]
    traces = replace(evaluation.traces, excerpt_rows=evaluation.traces.excerpt_rows[:0])
    segment = replace(evaluation, traces=traces).segment(HOSTILE)
    with pytest.raises(SightlineError, match="holds no rows around attack"):
        segment.plot()


def test_an_attack_is_found_by_its_id_and_the_nearest_is_named(shown):
    evaluation = shown["evaluation"]
    other = next(s.id for s in evaluation.segments if s.id != HOSTILE)
    assert evaluation.segment(other).start == 600
    with pytest.raises(StreamError, match="There is no attack 'unlistd-1'; did you"):
        evaluation.segment("unlistd-1")
    calm = evaluate(
        train=np.eye(3), test=np.eye(3), budget=None, intervals=False, metrics="none"
    )
    with pytest.raises(StreamError, match="there is none at all"):
        calm.segment(1)


# The package


def test_rows_of_a_stream_are_arrays():
    stream = ResidualStream(**arrays())
    values = np.asarray(stream.test)
    np.testing.assert_array_equal(values, arrays()["test"])
    assert np.asarray(stream.train, dtype=np.float32).dtype == np.float32
    assert repr(stream.test) == "ArrayRows of 1,200 x 3"


def test_rows_on_disk_are_arrays_too(tmp_path):
    stream = ResidualStream(**arrays())
    sightline.write_stream(stream, tmp_path / "mine")
    rows = sightline.read_stream(tmp_path / "mine").test
    assert repr(rows) == "ParquetRows of 1,200 x 3"
    np.testing.assert_array_equal(np.asarray(rows), arrays()["test"])


def test_only_public_names_are_listed():
    assert dir(sightline) == sightline.__all__
    assert not [n for n in dir(sightline) if n.startswith("_") and n != "__version__"]
