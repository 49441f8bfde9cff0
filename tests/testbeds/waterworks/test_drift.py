"""Each drift moves what it says, in the right direction; none moves nothing."""

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from sightline.errors import StreamError
from sightline.testbeds.waterworks import (
    Drift,
    Scenario,
    Simulation,
    conditions_of,
    simulate,
)
from sightline.testbeds.waterworks.plant import COLUMN, SETPOINT_INDEX

OPTIONS = ("raw_water", "fouling", "pump_wear", "sensor_bias", "setpoint")


@cache
def drifted(option: str, strength: str) -> Simulation:
    return simulate(
        days_train=0.05,
        days_test=0.3,
        drift=Drift(**{option: strength}),
        scenario=Scenario(),
    )


def mean_of(made: Simulation, tag: str, where: str | None = None) -> float:
    values = made.test.values[3600:].astype(np.float64)
    series = values[:, COLUMN[tag]]
    return float(
        series[values[:, COLUMN[where]] > 1.5].mean() if where else series.mean()
    )


@pytest.mark.parametrize("option", OPTIONS)
def test_train_does_not_drift_and_test_does(option):
    none, strong = drifted(option, "none"), drifted(option, "strong")
    assert none.train.values.tobytes() == strong.train.values.tobytes()
    assert none.test.values.tobytes() != strong.test.values.tobytes()


@pytest.mark.parametrize(
    ("option", "tag", "where", "sign"),
    [
        ("raw_water", "AIT401", None, 1),
        ("fouling", "DPIT301", "FIT301", 1),
        ("fouling", "PIT501", None, 1),
        ("pump_wear", "FIT201", "FIT201", -1),
        ("pump_wear", "FIT301", "FIT301", -1),
        ("sensor_bias", "PIT501", None, 1),
        ("setpoint", "LIT301", None, -1),
        ("setpoint", "AIT203", None, 1),
    ],
)
def test_a_drift_moves_what_it_says_and_more_when_strong(option, tag, where, sign):
    none, mild, strong = (
        mean_of(drifted(option, strength), tag, where)
        for strength in ("none", "mild", "strong")
    )
    assert 0 < sign * (mild - none) < sign * (strong - none)


def test_fouling_makes_differential_pressure_rise_faster():
    slopes = []
    for strength in ("none", "mild", "strong"):
        values = drifted("fouling", strength).test.values.astype(np.float64)
        pressure = values[:, COLUMN["DPIT301"]]
        filters = values[:, COLUMN["FIT301"]] > 1.7
        # Minutes of filtration without a break: the rise from start to end.
        steady = np.convolve(filters, np.ones(601), mode="valid") == 601
        rises = (pressure[600:] - pressure[:-600])[steady]
        slopes.append(rises.mean())
    assert slopes[0] < slopes[1] < slopes[2]


def test_without_drift_test_is_train_gone_on():
    halves = simulate(days_train=0.1, days_test=0.1, scenario=Scenario())
    whole = simulate(days_train=0.2, days_test=0.01, scenario=Scenario())
    joined = np.concatenate([halves.train.values, halves.test.values])
    assert joined.tobytes() == whole.train.values.tobytes()


def test_of_sets_every_option():
    assert Drift.of("mild") == Drift(**dict.fromkeys(OPTIONS, "mild"))
    assert Drift.of("none") == Drift()


def test_its_name_says_what_drifts():
    assert str(Drift()) == "none"
    assert str(Drift.of("strong")) == "strong"
    assert str(Drift(fouling="mild", setpoint="strong")) == (
        "fouling mild, setpoint strong"
    )


def test_an_unknown_strength_is_refused():
    with pytest.raises(StreamError, match="`fouling` must be one of none"):
        Drift(fouling="huge")


PAGE = Path(__file__).parents[3] / "docs" / "waterworks.md"
BIASED = ("LIT101", "LIT401", "AIT201", "AIT202", "FIT401", "AIT504", "PIT501")


def changes(option: str, strength: str) -> list[float]:
    """Return what a drift changes, in the order of the documentation's table."""
    conditions = conditions_of(Drift(**{option: strength}))
    shift = conditions.setpoints - conditions_of(Drift()).setpoints
    return {
        "raw_water": [*conditions.raw_shift],
        "fouling": [
            conditions.uf_resistance,
            conditions.cake_rate,
            conditions.ro_permeability,
        ],
        "pump_wear": [
            conditions.pump_head[COLUMN[p]] for p in ("P101", "P302", "P501")
        ],
        "sensor_bias": [conditions.bias[COLUMN[tag]] for tag in BIASED],
        "setpoint": [shift[SETPOINT_INDEX[n]] for n in ("LIT301.L", "AIT203.L")],
    }[option]


@pytest.mark.parametrize("option", OPTIONS)
def test_the_documentation_has_the_amounts_of_each_drift(option):
    row = re.search(
        rf"^\| `{option}` \|[^|]*\|([^|]*)\|([^|]*)\|$", PAGE.read_text("utf-8"), re.M
    )
    for cell, strength in zip(row.groups(), ("mild", "strong"), strict=True):
        numbers = [float(number) for number in re.findall(r"[-+]?[\d.]+", cell)]
        assert numbers == pytest.approx(changes(option, strength))
