"""The section "Your data": what was read, what was found, each tag; and its alert."""

import re
from dataclasses import replace

import pytest
from report.plant import evaluations
from report.recordings import N_MORE_TAGS, findings, recording_facts

from sightline.audit.record import Severity
from sightline.data.validity import NotWatched, Unwatched
from sightline.report.entries import entries_of
from sightline.report.page import render
from sightline.report.sources import (
    HEIGHT,
    MAX_FINDINGS,
    WIDTH,
    alert,
    audited,
    data_findings,
    ends_text,
    is_coarse,
    n_open,
    outline_path,
    outlines,
    remarks,
    summary,
)
from sightline.storage import Result


def with_facts(evaluation, **changes):
    known = {"recording": recording_facts(), "findings": findings()} | changes
    return Result.of(replace(evaluation, **known))


@pytest.fixture(scope="module")
def entries():
    return entries_of([with_facts(evaluation) for evaluation in evaluations()[:4]])


def section_of(page):
    return page[
        page.index('<section id="your-data"') : page.index(
            '<div class="door" id="explain'
        )
    ]


def test_errors_come_first_and_are_never_folded(entries):
    shown = data_findings(audited(entries))
    severities = [row.severity for row in shown]
    assert severities == [Severity.ERROR] + [Severity.WARNING] * 2 + [Severity.NOTE] * 9
    assert n_open(shown) == MAX_FINDINGS
    many = [replace(one, severity=Severity.WARNING) for one in findings()]
    shown = data_findings(with_facts(evaluations()[0], findings=tuple(many)).evaluation)
    assert n_open(shown) == len(shown) == len(many)


def test_a_notice_of_reading_is_shown_once():
    notice = recording_facts().notices[0]
    twice = (*findings(), replace(findings()[0], text=notice))
    page = render(entries_of([with_facts(evaluations()[0], findings=twice)]))
    assert section_of(page).count(notice) == 1


def test_the_first_screen_counts_errors_and_warnings_alone(entries):
    words = "3 findings about the data: SL281, SL280 and SL282."
    assert alert(data_findings(audited(entries)), "the data") == words
    page = render(entries)
    first = page[: page.index('<section id="your-data"')]
    assert words in first
    notes = tuple(one for one in findings() if one.severity is Severity.NOTE)
    quiet = entries_of([with_facts(evaluations()[0], findings=notes)])
    assert alert(data_findings(audited(quiet)), "the data") == ""
    assert 'class="alert"' not in render(quiet)


def test_the_section_says_what_was_read_and_when(entries):
    section = section_of(render(entries))
    assert summary(audited(entries).recording) == (
        "Secret works <b>: 2 tables with 7,000 rows and 47 tags, 2 gaps; times in "
        "Europe/Berlin."
    )
    # Of one record that is judged in parts, time is in train and in test.
    lost = Unwatched(0.0, 7200.0, NotWatched.NO_DATA)
    facts = replace(audited(entries).recording, unwatched=(lost, lost))
    assert summary(facts).endswith("Not watched, and in no figure: 2.0 h (no data).")
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
    tags = audited(entries).recording.tags
    section = section_of(render(entries))
    assert len(tags) == 6 + N_MORE_TAGS + 1
    assert section.count('<td class="pictured"') == 2 * len(tags)
    assert [tag.name for tag in tags if is_coarse(tag)] == ["LIT101"]
    assert section.count('<span class="hide">differs</span>') == 1
    rows = [row for row in section.split("<tr>") if '<td class="pictured"' in row]
    found = [
        tag.name
        for tag, row in zip(tags, rows, strict=True)
        if '<td class="num" data-value="1">1</td>' in row
    ]
    assert found == ["LIT101", "AIT&201", "TAG_001"]
    for tag in tags[:-1]:
        heights = [
            [int(y) for y in re.findall(r"\d+ (\d+)", picture)]
            for picture in outlines(tag)
        ]
        # The lowest and the highest value of both touch the ends of the drawing.
        assert min(map(min, heights)) == 1
        assert max(map(max, heights)) == HEIGHT - 1
    empty = tags[-1]
    assert (ends_text(empty.train), ends_text(empty.test)) == ("1", "\u2013")
    assert (outlines(empty)[1], empty.test.missing) == ("", 1.0)


def test_an_outline_is_a_closed_band_that_keeps_its_place():
    path = outline_path([(0.0, 2.0), (1.0, 4.0), (4.0, 4.0)], 0.0, 4.0)
    assert path == "M0 12L30 1L60 1L60 1L30 18L0 23Z"
    assert outline_path([], 0, 1) == ""
    assert outline_path([(3.0, 3.0)], 3.0, 3.0) == f"M0 23L{WIDTH} 23L{WIDTH} 23L0 23Z"


def test_results_without_facts_say_so_and_what_to_do():
    plain = entries_of([Result.of(evaluations()[0])])
    assert audited(plain).recording is None
    section = section_of(render(plain))
    assert "These results carry no facts about the recording" in section
    assert "sightline inspect" in section
    assert "<table" not in section


def test_detectors_with_other_facts_or_none_are_named():
    other = replace(recording_facts(), tags=())
    one, two, _, three, _ = evaluations()
    shown = remarks(
        entries_of(
            [with_facts(one), with_facts(two, recording=other), Result.of(three)]
        )
    )
    assert [text for text in shown if "other facts" in text]
    assert [text for text in shown if "of mean carry no facts" in text]
    assert remarks(entries_of([with_facts(one), with_facts(two)])) == []
