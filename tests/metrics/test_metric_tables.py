"""The page of metrics says what the docstrings say, and they say all there is."""

import inspect
import re
from dataclasses import fields

import metric_tables
import pytest

import sightline.metrics
from sightline.audit.attack_facts import AttackFacts
from sightline.evaluation.localisation import (
    AttackLocalisation,
    LeadingChannel,
    Localisation,
)
from sightline.evaluation.result import (
    BootstrapFacts,
    EvaluationRecord,
    Provenance,
    SegmentResult,
    StreamMeasures,
    Uncertainty,
)
from sightline.judgement.event_test import WindowFacts
from sightline.judgement.verdicts import Count, Found, Repair, RungOutcome, Signature
from sightline.metrics import (
    chance,
    intervals,
    measures,
    ranking,
    windows,
)
from sightline.metrics.alarm_figures import AlarmFigure
from sightline.metrics.chance import Floor
from sightline.metrics.localisation import LocalisationFigure, LocalisationFigures
from sightline.metrics.measures import NEARBY_FACTOR, NEARBY_LEAST

PAGE = metric_tables.PAGE.read_text(encoding="utf-8")
OTHERS = (
    AlarmFigure,
    AttackFacts,
    AttackLocalisation,
    BootstrapFacts,
    Count,
    Floor,
    Found,
    LeadingChannel,
    Localisation,
    LocalisationFigure,
    LocalisationFigures,
    Repair,
    RungOutcome,
    StreamMeasures,
    Uncertainty,
    WindowFacts,
)


def test_the_tables_of_the_page_are_those_of_the_docstrings():
    assert metric_tables.with_tables(PAGE) == PAGE, (
        "write them again: python tests/metric_tables.py"
    )


def test_every_record_has_its_table_on_the_page():
    marked = re.findall(r"<!-- table: (\w+) -->", PAGE)
    assert sorted(marked) == sorted(metric_tables.RECORDS)


@pytest.mark.parametrize(
    "kind",
    [*metric_tables.RECORDS.values(), SegmentResult, *OTHERS],
    ids=lambda kind: kind.__name__,
)
def test_a_docstring_describes_every_field_of_its_record(kind):
    assert metric_tables.undocumented(kind) == set()


@pytest.mark.parametrize(
    "kind",
    [kind for kind in OTHERS if kind not in (StreamMeasures, Uncertainty)]
    + [EvaluationRecord, Signature, Provenance],
    ids=lambda kind: kind.__name__,
)
def test_every_other_key_of_the_file_is_on_the_page(kind):
    assert not [f.name for f in fields(kind) if f"`{f.name}`" not in PAGE]


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in sightline.metrics.__all__
        if inspect.isfunction(getattr(sightline.metrics, name))
    ],
)
def test_a_public_metric_says_range_direction_and_shows_an_example(name):
    text = inspect.getdoc(getattr(sightline.metrics, name))
    assert "better" in text or "1 is perfect" in text
    assert "``" in text  # the formula
    assert ">>>" in text


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("mean_dominated", f"{measures.DAGGER_RATIO:g} * abs(d_drift_robust)"),
        ("mean_dominated", f"max_z_test_normal >= {measures.DAGGER_MAX_Z:g}"),
        ("sdr_usable", f"d_drift >= {measures.SMALL_DRIFT:g} mean(e_train)"),
        ("sdr_usable", f"d_drift >= {measures.CROSSFIT_FACTOR:g} d_crossfit"),
        ("pauc_1", f"a = {ranking.PAUC_RATES[0]:g}"),
        ("pauc_5", f"a = {ranking.PAUC_RATES[1]:g}"),
        (
            "over_alarming",
            f"load.share_of_time > {sightline.metrics.alarm_load.OVER_ALARMING_RATE:g}",
        ),
        ("auc_nearby", f"max({NEARBY_FACTOR} W, {NEARBY_LEAST})"),
        ("n_matched", f"0 to {windows.MOST_MATCHED}"),
        ("reliable", f"W >= {windows.RELIABLE_ROWS} p"),
    ],
)
def test_numbers_in_formulas_are_those_of_the_code(key, value):
    # Other tables may have a figure of the same name, and refer to the first.
    row, *_ = [line for line in PAGE.splitlines() if line.startswith(f"| `{key}` |")]
    assert value in row


@pytest.mark.parametrize(
    "text",
    [
        f"the mean over {chance.N_SHIFTS} draws",
        f"whether `p` is at most {chance.FLOOR_SHARE:g}",
        f"`effective_attacks.rows` below {intervals.FEW_EVENTS}",
        f"about {intervals.MOST_BLOCKS:,} blocks",
    ],
)
def test_numbers_in_the_text_are_those_of_the_code(text):
    assert text in " ".join(PAGE.split())
