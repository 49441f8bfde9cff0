"""The three doors: few words before anything is opened, and each term explained."""

import re
from dataclasses import replace

import pytest
from report.doors import OpenText
from report.plant import evaluations
from report.test_unexplained import calm

from sightline import write_report
from sightline.report.attacks import attack_groups, explained
from sightline.report.entries import entries_of
from sightline.report.glossary import glossary
from sightline.report.page import DOORS
from sightline.storage import Result

MOST_WORDS = 2000
__all__ = ["calm"]  # a fixture


def page_of(results, folder):
    path = write_report(results, folder / "report.html")
    return OpenText(path.read_text(encoding="utf-8"))


def demo_like():
    """Return results of seven detectors on 26 attacks, as `sightline demo` has."""
    made = []
    for k, name in enumerate(("var", "geco", "pca", "fusagnet", "nsibf", "gdn", "x")):
        base = evaluations()[0 if k % 2 else 1]
        segments = tuple(
            replace(base.segments[i % 6], id=str(i + 1), name="A name", note="a note")
            for i in range(26)
        )
        parts = {
            field: array[[i % 6 for i in range(26)]]
            for field, array in vars(base.traces).items()
            if field.startswith(("segment_", "excerpt_")) and array is not None
        }
        if base.traces.own_first_alarm is not None:
            first = base.traces.own_first_alarm
            parts["own_first_alarm"] = first[[i % 6 for i in range(26)]]
        stream = replace(base.stream, detector=name, n_segments=26)
        traces = replace(base.traces, **parts)
        made.append(replace(base, stream=stream, segments=segments, traces=traces))
    return made


@pytest.fixture(scope="module")
def pages(calm, tmp_path_factory):
    """Return what is open of a small plant, a demo, and a plant without incidents."""
    small = [one for one in evaluations() if one.stream.testbed == "works"]
    given = {"small": small, "demo": demo_like(), "no incidents": [calm]}
    return {
        name: page_of(results, tmp_path_factory.mktemp("doors"))
        for name, results in given.items()
    }


@pytest.mark.parametrize("which", ["small", "demo", "no incidents"])
def test_each_door_has_at_most_2000_words(pages, which):
    words = pages[which].words
    assert list(words) == list(DOORS)
    assert all(100 < count <= MOST_WORDS for count in words.values()), words


def test_all_lines_stand_before_anything_is_opened(pages):
    text = pages["demo"].text("explain")
    assert re.search(r"\b26\b", text)
    assert pages["demo"].text("compare").count("for 96/day,5%, later rows") == 7


# Words that every engineer knows, though the glossary says what they mean here.
KNOWN = frozenset(
    "agreement better difference floor lasted limit note plant rows rule seen stage "
    "state still table tag tags time train warning".split()
) | {"of its range"}


def test_what_is_caught_but_not_singled_out_says_so_beside_its_verdict():
    """Else a line reads "not in the residuals" and "caught: yes"."""
    works = [one for one in evaluations() if one.stream.testbed == "works"]
    first, found = works[0], works[0].segments[0].found
    assert first.segments[0].caught is not None
    for is_found, word in ((True, "yes"), (False, "yes, as by chance")):
        segment = replace(
            first.segments[0], caught=True, found=replace(found, is_found=is_found)
        )
        changed = replace(first, segments=(segment, *first.segments[1:]))
        groups = attack_groups(entries_of([Result(None, changed)]))
        table, _ = explained(groups, "works")
        column = next(one for one in table.columns if one.key == "caught")
        assert column.cell(table.records[0]).text == word


@pytest.mark.parametrize("which", ["small", "demo", "no incidents"])
def test_no_term_is_unexplained_before_anything_is_opened(pages, which):
    names: dict[str, set[str]] = {}
    for key, one in glossary().items():
        for name in re.split("[;,] ", f"{one.name}; {one.paper}"):
            names.setdefault(name.lower(), set()).add(key)
    unexplained = {
        (door, name)
        for door in DOORS
        for name, keys in names.items()
        if len(name) > 1 and name not in KNOWN and not keys & pages[which].terms(door)
        if re.search(
            rf"(?<![\w-]){re.escape(name)}(?![\w-])", pages[which].unmarked(door)
        )
    }
    assert unexplained == set()


def test_a_plants_own_record_speaks_of_incidents_and_a_testbed_of_attacks(pages):
    for door in DOORS:
        # An option is called --attacks.
        assert not re.search(r"(?<!-)\battack", pages["no incidents"].text(door), re.I)
        assert "incident" not in pages["demo"].text(door).lower()


def test_the_glossary_holds_what_the_page_refers_to_and_no_more(calm, tmp_path):
    path = write_report([calm], tmp_path / "report.html")
    page = path.read_text(encoding="utf-8")
    listed = set(re.findall(r'id="term-([^"]+)"', page))
    marked = set(re.findall(r'data-term="([^"]+)"', page))
    assert marked <= listed
    assert len(listed) < len(glossary())
    assert "figure-vus-roc" not in listed
