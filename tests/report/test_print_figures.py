"""Figures for print: there, the same each time, and legible."""

import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.text import Text

from sightline.report.print_figures import (
    COLOURS,
    DASHES,
    FIGURES,
    log_scale,
    rendered,
    styled,
    write_figures,
)

SMALLEST = 7.0


@pytest.fixture(scope="module")
def works(entries):
    return [entry for entry in entries if entry.testbed == "works"]


def test_files_are_the_same_each_time(works, tmp_path):
    first = write_figures(works[:1], tmp_path / "a")
    second = write_figures(works[:1], tmp_path / "b")
    assert [path.name for path in first] == [path.name for path in second]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name


def test_a_figure_is_drawn_once_for_each_file(works, monkeypatch):
    with styled():
        figure = FIGURES["roc"](works)
        drawn = []
        whole = figure.draw
        monkeypatch.setattr(
            figure, "draw", lambda renderer: (drawn.append(renderer), whole(renderer))
        )
        files = rendered(figure)
    assert len(drawn) == len(files) == 3


def long_named(entries):
    """Return eight detectors with names that no figure has room for."""
    wanted = [f"A very long detector name with settings, number {k}" for k in range(8)]
    return [
        replace(entries[k % len(entries)], detector=name, key=f"long_{k}")
        for k, name in enumerate(wanted)
    ]


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("is_long", [False, True])
def test_every_text_is_large_enough_and_stays_inside(works, name, is_long):
    with styled():
        figure = FIGURES[name](long_named(works) if is_long else works)
        figure.draw_without_rendering()
        width, height = figure.bbox.width, figure.bbox.height
        # A tick beyond the end of its axis is there, but never drawn.
        ticks = {
            label
            for axes in figure.axes
            for label in (*axes.get_xticklabels(), *axes.get_yticklabels())
        }
        for text in figure.findobj(Text):
            if not text.get_text() or not text.get_visible():
                continue
            assert text.get_fontsize() >= SMALLEST
            box = text.get_window_extent()
            if box.width and box.height and text not in ticks:
                assert box.x0 > -3, text
                assert box.x1 < width + 3, text
                assert box.y0 > -3, text
                assert box.y1 < height + 3, text


def test_names_of_detectors_do_not_run_into_each_other(works):
    with styled():
        for entries in (works, long_named(works)):
            figure = FIGURES["attacks-by-detectors"](entries)
            figure.draw_without_rendering()
            labels = figure.axes[0].get_xticklabels()
            boxes = [label.get_window_extent() for label in labels]
            for left, right in pairwise(boxes):
                assert left.x1 < right.x0


def test_lines_are_told_apart_longer_than_colours_last():
    assert np.gcd(len(COLOURS), len(DASHES)) == 1


def at_time(result, test_time):
    traces = replace(result.traces, test_time=test_time)
    return replace(result, evaluation=replace(result.evaluation, traces=traces))


@pytest.mark.parametrize(
    ("low", "high"), [(2.1, 8.9), (8, 12), (20, 30), (0.03, 0.04), (5, 30), (1, 1e9)]
)
def test_a_log_axis_has_a_scale_within_a_decade_too(low, high):
    from matplotlib.figure import Figure

    axis = Figure().add_subplot().yaxis
    axis.axes.set_yscale("log")
    log_scale(axis, np.array([0.0, low, high]), most=3)
    ticks = axis.get_majorticklocs()
    labels = axis.get_major_formatter().format_ticks(ticks)
    assert 2 <= len(ticks) <= 5
    assert all(low <= tick <= high for tick in ticks)
    assert len(set(labels)) == len(labels)


def test_panels_share_one_time_axis(works):
    first = works[0]
    time = first.traces.test_time
    late = at_time(first.results[0], time + 3600)
    with styled():
        figure = FIGURES["energy-through-time"](
            [first, replace(first, results=(late,))]
        )
        starts = [axis.lines[0].get_xdata()[0] for axis in figure.axes]
        assert starts == pytest.approx([0.0, 1.0])
        assert figure.axes[0].get_xlim() == figure.axes[1].get_xlim()
        other = at_time(first.results[0], None)
        mixed = [replace(first, results=(late,)), replace(first, results=(other,))]
        figure = FIGURES["energy-through-time"](mixed)
        starts = [axis.lines[0].get_xdata()[0] for axis in figure.axes]
        assert starts == pytest.approx([0.0, 0.0])


@pytest.mark.usefixtures("unrendered")
def test_figures_of_an_earlier_report_go_and_what_others_put_there_stays(
    entries, works, tmp_path
):
    before = write_figures([works[0], entries[-1]], tmp_path)
    assert len({path.name for path in before}) == len(before)
    for name in ("my-roc.png", "notes-roc.svg", "photo.png"):
        (tmp_path / name).write_text("mine")
    after = write_figures(works[:1], tmp_path)
    there = {path.name for path in tmp_path.iterdir()}
    mine = {"my-roc.png", "notes-roc.svg", "photo.png"}
    assert there == {path.name for path in after} | mine


@pytest.mark.usefixtures("unrendered")
def test_testbeds_with_names_alike_do_not_overwrite_each_other(works, tmp_path):
    beds = [replace(works[0], testbed=name) for name in ("bed-a", "bed a")]
    written = write_figures(beds, tmp_path)
    assert len({path.name for path in written}) == len(written)


def test_signs_the_font_does_not_have_are_no_warning(works, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_figures([replace(works[0], detector="\u6db2\u4f4d \U0001f6b0")], tmp_path)
