"""Cells are called by what they depend on, and by nothing else."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from study_plans import CELL, small_plan

from sightline import Recording
from sightline.audit.data import audit_of
from sightline.data.recording import Tag
from sightline.data.segments import Attack
from sightline.errors import FileError, StreamError
from sightline.progress import silent
from sightline.study.cell import Cache, Cell
from sightline.study.execute_cell import run_cell
from sightline.study.plan import EvaluationChoice
from sightline.study.run import cells_of
from sightline.testbeds import Testbed


def recording(**changed):
    rng = np.random.default_rng(3)
    values = rng.normal(size=(40, 2)).astype(np.float32)
    values[3, 1] = np.nan
    given = {
        "values": values,
        "tags": (Tag(name="LIT101", stage="P1"), Tag(name="ü\0odd,\n")),
        "labels": np.repeat([0, 1, -1, 0], 10),
        "time": np.arange(40) * 1.5 + 1e9,
        "breaks": np.array([0, 20]),
        "attacks": (Attack(id="1", start=10, stop=20, targets=("LIT101",)),),
        "source": "made up",
    }
    return Recording(**(given | changed))


def plant(**changed):
    given = {"name": "plant", "release": "r1"}
    return Testbed(**(given | {"train": recording(), "test": recording()} | changed))


def added(cache, testbed):
    return cache.add_testbed(testbed, audit_of(testbed))


@pytest.mark.parametrize(
    "change",
    [
        {"content": "abd"},
        {"plant": "wadi"},
        {"kind": "pca"},
        {"version": "2"},
        {"preset": "official"},
        {"rule": "none"},
        {"settings": {"epochs": 3}},
        {"resolved": {"epochs": 3}},
        {"seed": 1},
        {"evaluation": EvaluationChoice(telemetry=False)},
    ],
)
def test_what_residuals_depend_on_changes_the_key(change):
    assert replace(CELL, **change).key != CELL.key


@pytest.mark.parametrize(
    "change",
    [
        {"testbed": "water"},
        {"detector": "mine"},
        {"evaluation": EvaluationChoice(guard=3)},
        {"digests": {}},
    ],
)
def test_names_and_the_evaluation_do_not(change):
    assert replace(CELL, **change).key == CELL.key


@pytest.mark.parametrize(
    "change",
    [
        {"testbed": "water"},
        {"detector": "mine"},
        {"evaluation": EvaluationChoice(guard=3)},
        {"evaluation": EvaluationChoice(seed=3)},
        {"evaluation": EvaluationChoice(diagnosis=False)},
    ],
)
def test_the_evaluation_has_a_key_of_its_own(change):
    assert replace(CELL, **change).evaluation_key != CELL.evaluation_key


def test_a_cell_survives_json():
    again = msgspec.json.decode(msgspec.json.encode(CELL), type=Cell)
    assert again == CELL
    assert (again.key, again.evaluation_key) == (CELL.key, CELL.evaluation_key)


def test_cached_recordings_are_the_same_to_the_last_bit(tmp_path):
    whole = plant(test=recording(time=None, step_s=2.0, breaks=None))
    kept = added(Cache(tmp_path), whole)
    for before, after in zip(
        (whole.train, whole.test),
        Cache(tmp_path).recordings(kept.content),
        strict=True,
    ):
        assert after.tags == before.tags
        assert after.attacks == before.attacks
        assert (after.step_s, after.source) == (before.step_s, before.source)
        for name in ("values", "labels", "time", "breaks"):
            one, other = getattr(before, name), getattr(after, name)
            np.testing.assert_array_equal(one, other)
            assert one is None or one.dtype == other.dtype
        # What is kept again has the same name: nothing was lost on the way.
    train, test = Cache(tmp_path).recordings(kept.content)
    assert added(Cache(tmp_path), plant(train=train, test=test)) == kept


@pytest.mark.parametrize("sizes", ["[1, 2]", "{}", '{"train.npz": "x"}', "{"])
def test_recordings_with_damaged_sizes_are_written_again(tmp_path, sizes):
    kept = added(Cache(tmp_path), plant())
    (path,) = tmp_path.rglob("sizes.json")
    whole = path.read_text()
    path.write_text(sizes)
    assert added(Cache(tmp_path), plant()) == kept
    assert path.read_text() == whole


@pytest.mark.parametrize(
    "changed",
    [
        {"labels": np.repeat([0, 1, 0, 0], 10)},
        {"tags": (Tag(name="LIT101", stage="P2"), Tag(name="ü\0odd,\n"))},
        {"attacks": ()},
        {"breaks": np.array([0])},
        {"values": recording().values.astype(np.float64)},
        {"values": np.nextafter(recording().values, 2, dtype=np.float32)},
    ],
)
def test_every_part_of_a_testbed_counts(tmp_path, changed):
    one = added(Cache(tmp_path), plant()).content
    assert added(Cache(tmp_path), plant(test=recording(**changed))).content != one


def test_a_detector_of_ones_own_counts_by_the_text_of_its_file(tmp_path, monkeypatch):
    module = tmp_path / "grown_at_home.py"
    text = "from study_plans import Shift as Base\nclass Own(Base):\n    pass\n"
    module.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    plan = small_plan({"own": {"detector": "grown_at_home:Own", "factor": 2.0}})
    known = {"one": added(Cache(tmp_path), plant())}
    (before,) = cells_of(plan, known)
    assert before.settings == {"factor": 2.0}
    module.write_text(text + "# changed\n")
    (after,) = cells_of(plan, known)
    assert after.key != before.key


@pytest.mark.parametrize("harm", ["empty", "gone", "half"])
def test_a_damaged_testbed_is_written_again(tmp_path, harm):
    cache = Cache(tmp_path)
    kept = added(cache, plant())
    place = cache.testbed(kept.content)
    if harm == "gone":
        (place / "test.npz").unlink()
    else:
        whole = (place / "train.npz").read_bytes()
        (place / "train.npz").write_bytes(
            b"" if harm == "empty" else whole[: len(whole) // 2]
        )
    with pytest.raises(FileError, match="and run the study again"):
        cache.recordings(kept.content)
    added(cache, plant())
    train, _ = cache.recordings(kept.content)
    np.testing.assert_array_equal(train.values, plant().train.values)


def test_several_may_keep_a_testbed_at_once(tmp_path):
    def keep(_):
        return added(Cache(tmp_path), plant()).content

    with ThreadPoolExecutor(8) as pool:
        (content,) = set(pool.map(keep, range(40)))
    train, _ = Cache(tmp_path).recordings(content)
    np.testing.assert_array_equal(train.values, plant().train.values)


def test_code_that_changed_since_the_study_began_is_refused(tmp_path):
    with pytest.raises(StreamError, match="has changed since the study began"):
        run_cell(replace(CELL, version="of yesterday"), Cache(tmp_path), silent)
    assert not Cache(tmp_path).stream(CELL).exists()


@pytest.mark.parametrize(
    ("detector", "words"),
    [
        ({"detector": "gdn", "rule": "nope"}, "gdn has no rule 'nope'"),
        ({"detector": "pca", "rule": "nope"}, "no alarm rule of its own"),
        ({"detector": "study_plans:Fussy"}, "ValueError: never content"),
        ({"detector": "study_plans:Blind"}, "no method `residuals`"),
        ({"detector": "torn_at_home:Own"}, "cannot be imported .SyntaxError"),
    ],
)
def test_what_cannot_work_is_refused_before_anybody_learns(
    tmp_path, monkeypatch, detector, words
):
    (tmp_path / "torn_at_home.py").write_text("class Own(\n")
    monkeypatch.syspath_prepend(tmp_path)
    known = {"one": added(Cache(tmp_path), plant())}
    with pytest.raises(StreamError, match=words):
        cells_of(small_plan({"own": detector}), known)


def test_two_cells_of_one_name_are_refused(tmp_path):
    known = added(Cache(tmp_path), plant())
    plan = small_plan({"pca-x": {"detector": "pca"}, "x": {"detector": "pca"}})
    both = replace(
        plan,
        testbeds=(plan.testbeds[0], replace(plan.testbeds[0], label="one-pca")),
    )
    with pytest.raises(StreamError, match="'one-pca-x-seed0'"):
        cells_of(both, {"one": known, "one-pca": known})
