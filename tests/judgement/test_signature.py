"""The paper's reading of four figures, and whether it agrees with the ladder."""

import pytest

from sightline.judgement.judge import agrees, signature_of
from sightline.judgement.verdicts import VERDICTS, Reading, Signature
from sightline.metrics.measures import SegmentMeasures


def make_row(**known):
    figures = {
        "auc": 0.5,
        "coverage": 0.0,
        "d_atk": 0.0,
        "d_eff": 0.0,
        "sdr": 1.0,
        "sdr_usable": True,
    }
    return SegmentMeasures(
        id="1",
        start=0,
        stop=10,
        length=10,
        auc_nearby=0.5,
        hit=False,
        first_alarm=None,
        first_alarm_s=None,
        **(figures | known),
    )


@pytest.mark.parametrize(
    ("figures", "reading"),
    [
        # High evidence, seen by the rule.
        ({"auc": 0.99, "coverage": 0.9, "d_atk": 5, "d_eff": 5}, "covered"),
        ({"auc": 0.4, "coverage": 0.30, "d_atk": 5, "d_eff": -5}, "covered"),
        # High evidence that the limit does not extract.
        ({"auc": 0.9, "coverage": 0.05, "d_atk": 3, "d_eff": 2}, "threshold"),
        ({"auc": 0.7, "coverage": 0.29, "d_atk": 3, "d_eff": 2}, "threshold"),
        ({"auc": 0.7, "d_atk": 3, "d_eff": -2}, "threshold"),
        # Evidence against train, less than drift makes.
        ({"auc": 0.4, "d_atk": 3, "d_eff": -2, "sdr": 0.6}, "drift"),
        ({"auc": 0.69, "d_atk": 3, "d_eff": -2, "sdr": 0.6}, "drift"),
        # No evidence in this space.
        ({"auc": 0.5, "d_atk": -0.1, "d_eff": -0.2}, "no-evidence"),
        ({"auc": 0.6, "d_atk": 0.0, "d_eff": 0.0}, "no-evidence"),
        ({"auc": 0.5, "d_atk": 3, "d_eff": -2, "sdr_usable": False}, "no-evidence"),
        # None of the four.
        ({"auc": 0.65, "d_atk": 3, "d_eff": 2}, "unclear"),
        ({"auc": 0.5, "d_atk": 3, "d_eff": 2}, "unclear"),
    ],
)
def test_what_the_table_reads(figures, reading):
    row = make_row(**figures)
    signature = signature_of(row)
    assert signature == Signature(
        reading=Reading(reading),
        auc=row.auc,
        coverage=row.coverage,
        sdr=row.sdr,
        d_eff=row.d_eff,
    )


SAME = {
    "covered": {"detected", "already-in-alarm"},
    "threshold": {"threshold", "sequential"},
    "drift": {"drift"},
    "no-evidence": {"weak-evidence", "not-in-telemetry", "quiet"},
}


@pytest.mark.parametrize("verdict", VERDICTS)
@pytest.mark.parametrize("reading", [*SAME, "unclear"])
def test_agreement_is_true_false_or_unknown(reading, verdict):
    if reading == "unclear" or verdict == "undecided":
        assert agrees(Reading(reading), verdict) is None
    else:
        assert agrees(Reading(reading), verdict) is (verdict in SAME[reading])
