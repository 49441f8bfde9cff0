"""The section "Your data": what was read, what was found, each tag; and its alert."""

import re
from dataclasses import replace

import pytest
from report.plant import evaluations
from report.recordings import N_MORE_TAGS, findings, recording_facts

from sightline.audit.codes import Severity
from sightline.report.entries import entries_of
from sightline.report.page import render
from sightline.report.sources import (
    HEIGHT,
    MAX_FINDINGS,
    NO_FACTS,
    WIDTH,
    ends_text,
    outline_path,
    your_data,
)
from sightline.storage import Result


def audited(evaluation, **changes):
    known = {"recording": recording_facts(), "findings": findings()} | changes
    return Result.of(replace(evaluation, **known))


@pytest.fixture(scope="module")
def entries():
    return entries_of([audited(evaluation) for evaluation in evaluations()[:4]])


def section_of(page):
    return page[
        page.index('<section id="your-data"') : page.index('<section id="energy')
    ]


def test_errors_come_first_and_are_never_folded(entries):
    shown = your_data(entries)
    severities = [row.severity for row in (*shown.findings, *shown.folded)]
    assert severities == [Severity.ERROR] + [Severity.WARNING] * 2 + [Severity.NOTE] * 9
    assert len(shown.findings) == MAX_FINDINGS
    many = [replace(one, severity=Severity.WARNING) for one in findings()]
    shown = your_data(entries_of([audited(evaluations()[0], findings=tuple(many))]))
    assert (len(shown.findings), shown.folded) == (len(many), [])


def test_a_notice_of_reading_is_shown_once():
    notice = recording_facts().notices[0]
    twice = (*findings(), replace(findings()[0], text=notice))
    page = render(entries_of([audited(evaluations()[0], findings=twice)]))
    assert section_of(page).count(notice) == 1


def test_the_first_screen_counts_errors_and_warnings_alone(entries):
    alert = "3 findings about the data: SL281, SL280 and SL282."
    assert your_data(entries).alert == alert
    page = render(entries)
    first = page[: page.index('<section id="your-data"')]
    assert alert in first
    notes = tuple(one for one in findings() if one.severity is Severity.NOTE)
    quiet = entries_of([audited(evaluations()[0], findings=notes)])
    assert your_data(quiet).alert == ""
    assert 'class="alert"' not in render(quiet)


def test_the_section_says_what_was_read_and_when(entries):
    section = section_of(render(entries))
    assert your_data(entries).summary == (
        "Secret works <b>: 2 tables with 7,000 rows and 47 tags, 2 gaps; times in "
        "Europe/Berlin."
    )
    for text in (
        "secret_train.csv",
        "2023-11-14 23:13:20",
        "4,001 expected",
        "OFF = 0, ON = 1",
        "7 cells of LIT101 were held",
        "row 17 (2023-11-15 08:12:00); row 18",
        "Write missing = [&#34;-9999&#34;] into plant.toml.",
        "m³/h",
    ):
        assert text in section, text
    assert "<b>:" not in section
    assert "alert(1)</script>" not in section


def test_every_tag_has_a_row_and_two_pictures_on_one_scale(entries):
    rows = your_data(entries).tags
    assert len(rows) == 6 + N_MORE_TAGS + 1
    marked = [row.tag.name for row in rows if row.is_coarse]
    assert marked == ["LIT101"]
    assert {row.tag.name: row.n_findings for row in rows if row.n_findings} == {
        "LIT101": 1,
        "AIT&201": 1,
        "TAG_001": 1,
    }
    for row in rows[:-1]:
        heights = [
            [int(y) for y in re.findall(r"\d+ (\d+)", picture)]
            for picture in row.pictures
        ]
        # The lowest and the highest value of both touch the ends of the drawing.
        assert min(map(min, heights)) == 1
        assert max(map(max, heights)) == HEIGHT - 1
    empty = rows[-1]
    sides = (empty.tag.train, empty.tag.test)
    assert tuple(map(ends_text, sides)) == ("1", "\u2013")
    assert (empty.pictures[1], empty.tag.test.missing) == ("", 1.0)


def test_an_outline_is_a_closed_band_that_keeps_its_place():
    path = outline_path([(0.0, 2.0), (1.0, 4.0), (4.0, 4.0)], 0.0, 4.0)
    assert path == "M0 12L30 1L60 1L60 1L30 18L0 23Z"
    assert outline_path([], 0, 1) == ""
    assert outline_path([(3.0, 3.0)], 3.0, 3.0) == f"M0 23L{WIDTH} 23L{WIDTH} 23L0 23Z"


def test_results_without_facts_say_so_and_what_to_do():
    plain = entries_of([Result.of(evaluations()[0])])
    assert your_data(plain).summary == NO_FACTS
    section = section_of(render(plain))
    assert "These results carry no facts about the recording" in section
    assert "sightline inspect" in section
    assert "<table" not in section


def test_detectors_with_other_facts_or_none_are_named():
    other = replace(recording_facts(), tags=())
    one, two, _, three, _ = evaluations()
    shown = your_data(
        entries_of([audited(one), audited(two, recording=other), Result.of(three)])
    )
    assert [text for text in shown.remarks if "other facts" in text]
    assert [text for text in shown.remarks if "of mean carry no facts" in text]
    assert your_data(entries_of([audited(one), audited(two)])).remarks == []
