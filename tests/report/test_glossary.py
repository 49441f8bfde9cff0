"""The glossary: one source, complete, and the same on the page and in the docs."""

import json
import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest
from blind_records import fitted
from report.recordings import findings, recording_facts
from report.test_page import Parsed, without_plotly

from sightline import find_blind_spots
from sightline.audit.attack_facts import Movement
from sightline.audit.record import Severity
from sightline.blindspots.result import SpotOutcome
from sightline.figures import FIGURES
from sightline.judgement.ladder import LADDER
from sightline.judgement.verdicts import all_infos
from sightline.plugins import OURS, RULES
from sightline.report.entries import entries_of
from sightline.report.glossary import glossary, markdown
from sightline.report.page import render
from sightline.show.rules import KEPT_WORDS, rule_key
from sightline.text import slug

DOCS = Path(__file__).parents[2] / "docs"
ASSETS = [
    *(files("sightline.report") / "assets").iterdir(),
    files("sightline.show") / "templates" / "table.html",
]


@pytest.fixture(scope="module")
def pages(results):
    """Return pages that have every section between them."""
    facts = {"recording": recording_facts(), "findings": findings()}
    whole = [
        replace(one, evaluation=replace(one.evaluation, **facts)) for one in results
    ]
    detector, train, test = fitted()
    spots = find_blind_spots(
        detector, test, train=train, shapes=["step", "frozen"], durations_s=[300.0]
    )
    calm = replace(whole[0], blind_spots=spots)
    return [
        Parsed(without_plotly(render(entries_of(given))))
        for given in (whole, [calm, *whole[1:]])
    ]


def terms_of(parsed):
    return {known["data-term"] for _, known in parsed.elements if "data-term" in known}


def test_the_docs_have_the_same_texts():
    text = (DOCS / "glossary.md").read_text(encoding="utf-8")
    assert text == markdown(), "write markdown() into docs/glossary.md"


def test_every_marked_term_has_an_entry_that_describes_it(pages):
    known = glossary()
    for parsed in pages:
        assert len(terms_of(parsed)) > 60
        assert terms_of(parsed) <= set(known)
        for tag, one in parsed.elements:
            if "data-term" not in one or tag == "span":
                continue
            # A screen reader reads the entry, which is on the page.
            assert one["aria-describedby"] == f"term-{one['data-term']}"
            assert one["aria-describedby"] in parsed.ids
            if tag == "a":
                assert one["href"] == f"#term-{one['data-term']}"


def test_terms_that_are_no_stop_of_the_keyboard_are_one_elsewhere(pages):
    parsed = pages[0]
    spans = {
        one["data-term"]
        for tag, one in parsed.elements
        if tag == "span" and one.get("data-term", "").startswith("verdict-")
    }
    links = {one.get("data-term") for tag, one in parsed.elements if tag == "a"}
    assert spans
    assert spans <= links


def test_every_entry_is_used_somewhere(pages):
    used = set().union(*map(terms_of, pages))
    for path in ASSETS:
        if path.name.endswith((".html", ".js")):
            text = path.read_text(encoding="utf-8")
            used |= set(re.findall(r'(?:term|head|termLink)\("([a-z0-9-]+)"', text))
            used |= set(re.findall(r'\["([a-z-]+)", "[A-Z]', text))
    # Tables that these pages do not have.
    for folder in ("show", "report", "improvement"):
        for path in files(f"sightline.{folder}").iterdir():
            if path.name.endswith(".py"):
                text = path.read_text(encoding="utf-8")
                used |= set(re.findall(r'term="([a-z0-9-]+)"', text))
    for parsed in pages:
        for entry in json.loads(parsed.scripts["data"])["entries"]:
            for detail in entry["details"]:
                used |= {key for *_, key in detail["judged"] + detail["facts"]}
                used |= {key for *_, key in detail["divergence"]}
                used |= {bar["term"] for bar in detail["ladder"]}
    # What a result may say, though these results do not.
    used |= {f"verdict-{info.word}" for info in all_infos()}
    used |= {f"kept-{slug(one)}" for one in KEPT_WORDS}
    used |= {f"severity-{one}" for one in Severity}
    used |= {f"rung-{name}" for name in LADDER}
    used |= {entry.term for entry in FIGURES.values()}
    used |= {term.key for term in glossary().values() if term.group == "Alarm rules"}
    used |= {f"movement-{one}" for one in Movement}
    # Of an attack that can hardly be compared.
    used.add("limits")
    assert set(glossary()) - used == set()


def test_every_word_of_the_method_has_an_entry():
    known = glossary()
    wanted = {
        *(f"verdict-{info.word}" for info in all_infos()),
        *(f"rung-{name}" for name in LADDER),
        *(f"kept-{slug(one)}" for one in KEPT_WORDS),
        *(f"severity-{one}" for one in Severity),
        *(f"movement-{one}" for one in Movement),
        *(f"outcome-{slug(one)}" for one in SpotOutcome),
        *(entry.term for entry in FIGURES.values()),
        *(rule_key(name) for name in (*OURS[RULES], "p99", "own")),
    }
    assert wanted <= set(known)
    for name, rung in LADDER.items():
        assert known[f"rung-{name}"].name == rung.label
    assert all(term.text.endswith(".") for term in known.values())


def test_every_column_head_is_a_term_or_a_name(pages):
    heads = re.compile(r'<th scope="col"([^>]*)>(.*?)</th>', re.DOTALL)
    seen = 0
    for path in ASSETS:
        if not path.name.endswith(".html"):
            continue
        text = path.read_text(encoding="utf-8")
        for attributes, inside in heads.findall(text):
            seen += 1
            is_term = "term(" in inside or "sorted_by(" in inside
            assert is_term or "data-name" in attributes, (path.name, inside)
    assert seen > 5
    for parsed in pages:
        for tag, one in parsed.elements:
            assert tag != "abbr", one
