"""Which view each type has."""

from collections.abc import Callable
from typing import Any

from sightline.blindspots.result import BlindSpots
from sightline.comparison.compare import Comparison
from sightline.data.recording import Recording
from sightline.data.stream import ResidualStream
from sightline.detectors.adapters.adapter import Adapter
from sightline.detectors.adapters.arrays import KnownExpectation
from sightline.detectors.base import LearnedDetector
from sightline.evaluation.result import Evaluation, SegmentResult
from sightline.notebook import plant_views, result_views
from sightline.notebook.view import View, rendered, shown
from sightline.rules.commission import Commissioning
from sightline.rules.making import MadeRule
from sightline.rules.rule import Rule
from sightline.showing import Shown
from sightline.storage import Result
from sightline.testbeds.base import Testbed

VIEWS: dict[type, Callable[[Any], View]] = {
    Evaluation: result_views.evaluation_view,
    SegmentResult: result_views.segment_view,
    Result: result_views.result_view,
    Comparison: result_views.comparison_view,
    ResidualStream: plant_views.stream_view,
    Recording: plant_views.recording_view,
    Testbed: plant_views.testbed_view,
    LearnedDetector: plant_views.detector_view,
    Adapter: plant_views.detector_view,
    KnownExpectation: plant_views.detector_view,
    Rule: plant_views.rule_view,
    MadeRule: plant_views.made_rule_view,
    Commissioning: plant_views.commissioning_view,
    BlindSpots: plant_views.blind_spots_view,
}


def view_of(value: Shown) -> View:
    """Return what is shown of a value: plain values, which the template escapes.

    Parameters
    ----------
    value : Shown
        Its class, or the nearest base with a view, says which; a type without a view
        shows its one line.
    """
    for kind in type(value).__mro__:
        if kind in VIEWS:
            return VIEWS[kind](value)
    return shown(value)


def html_of(value: Shown) -> str:
    """Return the view of a value for a notebook, as HTML with every text escaped."""
    return rendered(view_of(value))
