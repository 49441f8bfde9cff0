"""Residuals of several models as one stream: each row by its own model's reference."""

import numpy as np
import pytest

from sightline import ResidualStream, commission
from sightline.data.segments import Attack
from sightline.energy.energy import energy_trace, joined_parts
from sightline.energy.reference import fit_reference
from sightline.errors import StreamError
from sightline.rules.scoring import score

STEP_S = 60.0


def part(rng, first, n_rows, *, scale, channels=("a", "b", "c"), lead=10, **more):
    mixing = np.linalg.cholesky(np.full((3, 3), 0.5) + 0.5 * np.eye(3))
    train = 3 * scale + scale * rng.normal(size=(4000, 3)) @ mixing.T
    test = 3 * scale + scale * rng.normal(size=(n_rows + lead, 3)) @ mixing.T
    labels = np.zeros(n_rows + lead, int)
    labels[lead + 50 : lead + 70] = 1
    return ResidualStream(
        train,
        test,
        labels,
        channels=channels,
        test_time=STEP_S * (first - lead + np.arange(n_rows + lead)),
        segments=[Attack(id=f"at {first}", start=lead + 50, stop=lead + 70)],
        **more,
    )


@pytest.fixture(scope="module")
def streams():
    rng = np.random.default_rng(3)
    whole = part(rng, 0, 100, scale=1.0)
    scales = (0.5, 1.0, 2.0, 1.5)
    parts = [part(rng, 5000 * k, 5000, scale=s) for k, s in enumerate(scales)]
    return whole, parts, [5000 * k * STEP_S for k in range(4)]


def test_the_energy_of_a_row_is_that_by_the_reference_of_its_own_model(streams):
    whole, parts, begins = streams
    joined = joined_parts(whole, parts, begins)
    energy = score(joined).energies.test.energy
    own = [
        energy_trace(each.test.values[10:], fit_reference(each.train)) for each in parts
    ]
    np.testing.assert_allclose(energy, np.concatenate(own), rtol=1e-9)


def test_rows_attacks_and_breaks_are_those_of_the_record(streams):
    whole, parts, begins = streams
    joined = joined_parts(whole, parts, begins)
    np.testing.assert_array_equal(joined.test_time, STEP_S * np.arange(20_000))
    assert joined.part_firsts.tolist() == [0, 5000, 10_000, 15_000]
    assert joined.test_breaks.tolist() == [0, 5000, 10_000, 15_000]
    assert [a.start for a in joined.attack_segments()] == [50, 5050, 10_050, 15_050]
    assert [a.id for a in joined.attack_segments()][1] == "at 5000"
    assert "judged by a model of the other parts" in joined.notices[0]


def test_limits_of_a_part_are_set_on_the_other_parts(streams):
    """Rows of a part that are all far out cannot raise the limit that judges them."""
    whole, parts, begins = streams
    joined = joined_parts(whole, parts, begins)
    test = joined.test.values.copy()
    loud = slice(6000, 9000)
    test[loud] *= 40
    made = commission(joined.replace(test=test), budget="24/day,5%")
    assert made.facts.split == 0
    assert made.facts.n_attacks == 4
    assert made.alarms["energy"].rows[loud].mean() > 0.99
    # The limit for operation is set on all parts, so on these rows too.
    quiet = commission(joined, budget="24/day,5%")
    assert made.rules["energy"].rule.limit > 2 * quiet.rules["energy"].rule.limit


def test_a_stated_time_still_divides_the_record(streams):
    whole, parts, begins = streams
    joined = joined_parts(whole, parts, begins)
    assert commission(joined, until=12_000 * STEP_S).facts.split == 12_000


def test_models_of_other_channels_are_refused(streams):
    whole, parts, begins = streams
    other = part(np.random.default_rng(1), 0, 100, scale=1.0, channels=("a", "b", "d"))
    with pytest.raises(StreamError, match="different channels"):
        joined_parts(whole, [other, *parts[1:]], begins)


def test_a_score_is_measured_from_its_floor():
    rng = np.random.default_rng(0)

    def scored(factor):
        rows = factor * np.abs(rng.normal(size=(2000, 1)))
        test = factor * np.abs(rng.normal(size=(500, 1)))
        return ResidualStream(rows, test, test_time=np.arange(500.0), space="score")

    whole, loud = scored(1.0), scored(100.0)
    joined = joined_parts(whole, [loud], [0.0])
    assert joined.test.values.min() >= 0
    np.testing.assert_allclose(
        joined.test.values.std(), whole.test.values.std(), rtol=0.1
    )
