"""Figures for print: there, the same each time, and legible."""

import matplotlib as mpl
import pytest
from matplotlib.text import Text

from sightline.report.print_figures import FIGURES, write_figures
from sightline.report.print_style import STYLE

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


@pytest.mark.parametrize("name", FIGURES)
def test_every_text_is_large_enough_and_stays_inside(works, name):
    with mpl.rc_context(STYLE):
        figure = FIGURES[name](works)
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
