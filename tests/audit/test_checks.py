"""Each check finds what is planted, and nothing in the same plant without it."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from facts_plants import BEGIN, N_TEST, N_TRAIN, clean, recording
from testbed_files import DATA, needs_batadal, needs_skab

import sightline
from sightline.audit.data import audit_of, refusal, refused
from sightline.audit.record import CODES, Severity, audit_in, carried
from sightline.data.segments import ListedAttack
from sightline.testbeds import Testbed

LEVEL, FLOW, PRESSURE, PUMP = range(4)


def audit(train, test, **known):
    given = {"name": "mine", "release": "", "accepts": ()} | known
    return audit_of(Testbed(train=train, test=test, **given))


def edited(table, change):
    """Return a recording whose values were changed in place."""
    values = table.values.copy()
    change(values)
    return replace(table, values=values)


def found(given, code):
    return [one for one in given.findings if one.code == code]


def only(given, code, *words, severity=None):
    """Exactly one error or warning was found beside moved tags; return it."""
    (one,) = (one for one in given.serious if one.code != "SL232")
    assert (one.code, one.severity) == (code, severity or CODES[code].severity)
    missing = [word for word in words if word not in f"{one.text} {one.remedy}"]
    assert not missing, one
    return one


# ---- nothing is wrong ----------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(3))
def test_a_clean_plant_gets_no_error_and_no_warning(dtype, seed):
    given = audit(*clean(dtype, seed))
    assert given.serious == ()
    assert {one.code for one in given.findings} == set()
    assert len(given.passed) >= 10


@pytest.mark.parametrize("seed", [1, 5])
def test_a_simulated_plant_gets_no_error_and_no_warning(seed):
    plant = sightline.open_testbed("waterworks", seed=seed, quick=True)
    assert audit_of(plant).serious == ()


@needs_batadal
def test_the_audit_names_the_tag_that_spoils_batadal_and_only_in_the_raw_file():
    given = {
        option: audit_of(
            sightline.open_testbed(
                "batadal", DATA / "batadal", cache=False, train_decimals=option
            )
        )
        for option in ("raw", "as-test")
    }
    one = only(given["raw"], "SL221", "P_J280 (test in steps of 0.01", "0.0064")
    assert one.tags == ("P_J280",)
    assert {one.code for one in given["as-test"].serious} <= {"SL232"}


@needs_skab
def test_skab_gets_no_error_and_is_warned_of_what_moved():
    plant = sightline.open_testbed("skab", DATA / "skab", cache=False)
    (one,) = audit_of(plant).serious
    assert one.code == "SL232"


# ---- resolution ----------------------------------------------------------------------


@pytest.mark.parametrize("coarse", ["train", "test"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_table_that_is_rounded_more_than_the_other_is_found(coarse, dtype):
    tables = dict(zip(("train", "test"), clean(dtype), strict=True))

    def rounded(values):
        values[:, PRESSURE] = np.round(values[:, PRESSURE] / 2) * 2

    tables[coarse] = edited(tables[coarse], rounded)
    one = only(audit(**tables), "SL221", f"PRESSURE ({coarse} in steps of", "as-test")
    assert one.tags == ("PRESSURE",)


def test_a_difference_far_below_the_spread_is_a_note():
    train, test = clean()

    def finer(values):
        rng = np.random.default_rng(1)
        values[:, FLOW] += 0.004 * rng.uniform(-1, 1, N_TRAIN) * (values[:, FLOW] != 0)

    given = audit(edited(train, finer), test)
    assert given.serious == ()
    (one,) = found(given, "SL221")
    assert (one.severity, one.tags) == (Severity.NOTE, ("FLOW",))


# ---- fault codes and extremes --------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("code", [-9999, -999, 32767, 65535, 9999, -1e30, 1e31])
@pytest.mark.parametrize("table", ["train", "test"])
def test_two_fault_codes_are_found_with_their_cells(dtype, code, table):
    tables = dict(zip(("train", "test"), clean(dtype), strict=True))

    def planted(values):
        values[[1000, 3000], PRESSURE] = code

    tables[table] = edited(tables[table], planted)
    one = only(
        audit(**tables),
        "SL222",
        f"PRESSURE holds {code:g} in 2 cells: {table} row 1,000 (",
        f"missing_values = [{code:g}]",
    )
    assert len(one.cells) == 2


def test_a_run_of_a_code_and_several_codes_are_one_finding():
    train, test = clean()

    def planted(values):
        values[100:160, FLOW] = -9999
        values[[0, -1], LEVEL] = 32767

    one = only(audit(train, edited(test, planted)), "SL222", "[-9999, 32767]")
    assert set(one.tags) == {"FLOW", "LEVEL"}


def test_a_value_that_is_usual_or_approached_is_no_code():
    train, test = clean()

    def counting(values):
        values[:, LEVEL] = np.linspace(0, 2000, len(values)).round()

    def excursion(values):
        counting(values)
        # A tank that overflows: 999 is reached step by step.
        values[:, PRESSURE] = 40 + np.random.default_rng(1).normal(0, 1, N_TEST)
        values[500:600, PRESSURE] = np.linspace(40, 999, 100)
        values[600:650, PRESSURE] = 999
        values[650:750, PRESSURE] = np.linspace(999, 40, 100)

    given = audit(edited(train, counting), edited(test, excursion))
    assert found(given, "SL222") == []


def test_an_extreme_is_found_unless_it_lies_in_an_attack():
    train, test = clean()

    def spike(values):
        values[2000:2002, PRESSURE] = 4321.5

    one = only(audit(train, edited(test, spike)), "SL223", "4322", "usual range")
    assert one.tags == ("PRESSURE",)
    labels = test.labels.copy()
    labels[1990:2010] = 1
    attacked = replace(edited(test, spike), labels=labels, attacks=())
    assert found(audit(train, attacked), "SL223") == []


def test_a_record_judged_in_parts_names_each_cell_once():
    _, test = clean(n_attacks=0)

    def spoilt(values):
        values[2000:2002, PRESSURE] = 4321.5
        values[2200:2500, LEVEL] = values[2200, LEVEL]

    whole = edited(test, spoilt)
    given = audit(whole, replace(whole, parts=5))
    (extreme,) = found(given, "SL223")
    assert "(2 cells such as 4322" in extreme.text
    (still,) = found(given, "SL229")
    assert still.text.count("300 rows") == len(still.cells) == 1


def test_attacks_without_a_label_are_one_line_with_a_count():
    train, test = clean(n_attacks=3)
    plain = replace(test, labels=np.zeros(test.n_steps, np.int8))
    (one,) = found(audit(train, plain), "SL211")[:1]
    assert one.text.startswith("3 incidents have no labelled row: ")
    published = found(audit(train, plain, accepts=None), "SL211")
    assert published[0].text.startswith("3 attacks have no labelled row: ")
    lines = [x.text for x in published if "no labelled row" in x.text]
    assert len(lines) == 1


def test_a_pump_that_hardly_ever_runs_is_no_extreme():
    train, test = clean()

    def rare(values):
        values[:, FLOW] = 0
        values[[700, 1500], FLOW] = 80.0

    assert found(audit(edited(train, rare), edited(test, rare)), "SL223") == []


def test_a_value_that_single_precision_cannot_hold_is_an_error():
    train, test = clean()

    def huge(values):
        values[7, FLOW] = 1e39

    given = audit(edited(train, huge), test)
    assert [one.tags for one in found(given, "SL224")] == [("FLOW",)]


# ---- time ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("time", "words"),
    [
        (lambda k: 45_000 + k / 8640, "days of a spreadsheet"),
        (lambda k: (BEGIN + 10 * k) * 1e3, "milliseconds"),
        (lambda k: (BEGIN + 10 * k) * 1e9, "nanoseconds"),
    ],
)
def test_numbers_taken_as_seconds_are_errors(time, words):
    train, test = (
        replace(t, time=time(np.arange(t.n_steps) + at), step_s=None, breaks=None)
        for t, at in zip(clean(), (0, 10 * N_TRAIN), strict=True)
    )
    errors = found(audit(train, test), "SL205")
    assert len(errors) == 2
    assert all(words in one.text and "time_format" in one.remedy for one in errors)


@pytest.mark.parametrize(
    ("begin", "severity"), [(0, "note"), (4e8, "warning"), (-9e8, "warning")]
)
def test_dates_before_1990_are_unlikely(begin, severity):
    train, test = clean()
    old = replace(train, time=train.time - BEGIN + begin)
    (one,) = found(audit(old, test), "SL204")
    assert (one.severity, one.table) == (severity, "train")


def test_relative_seconds_are_no_days_of_a_spreadsheet():
    train, test = clean()
    for step in (0.01, 0.1, 1.0):
        late = replace(
            train, time=20_000 + step * np.arange(N_TRAIN), step_s=None, breaks=None
        )
        assert found(audit(late, test), "SL205") == []


def test_a_train_after_test_is_a_warning():
    train, test = clean()
    only(audit(replace(train, time=train.time + 2e6), test), "SL206", "after the end")


# ---- incidents and labels ------------------------------------------------------------


def listed(table, rows):
    return tuple(
        ListedAttack(id=f"i{k}", listed=(table.time[k], table.time[k] + 60.0))
        for k in rows
    )


def test_incidents_in_a_gap_are_counted():
    train, test = clean()
    keep = np.r_[0:1000, 2000:N_TEST]
    labels, time = test.labels[keep], test.time[keep]
    gapped = replace(
        test,
        values=test.values[keep],
        labels=labels,
        time=time,
        breaks=None,
        attacks=(),
    )
    incidents = listed(test, [150, 1200, 1500, 3000])
    one = only(
        audit(train, gapped, incidents=incidents), "SL212", "2 of 4 lie in a gap"
    )
    assert one.cells[0].startswith("i1200 (")


def test_incidents_in_train_and_swapped_tables_are_found():
    train, test = clean()
    inside, outside = listed(train, [100, 200]), listed(test, [150])
    only(audit(train, test, incidents=inside + outside), "SL214", "2 of 3", "i100")
    only(audit(train, test, incidents=inside), "SL215", "All 2", "Swap")


@pytest.mark.parametrize("lag", [-360, 360])
def test_labels_on_another_clock_are_found(lag):
    train, test = clean()
    shifted = replace(test, labels=np.roll(test.labels, lag), attacks=())
    way = "earlier" if lag > 0 else "later"
    only(audit(train, shifted), "SL213", f"360 rows (60 min) {way}")


@pytest.mark.parametrize("seed", range(5))
def test_labels_that_nothing_answers_to_are_not_shifted(seed):
    train = clean(seed=seed)[0]
    rng = np.random.default_rng(seed)
    labels = np.zeros(N_TEST, np.int8)
    for start in rng.integers(0, N_TEST - 40, 8):
        labels[start : start + 40] = 1
    plain = replace(clean(seed=seed + 9, n_attacks=0)[1], labels=labels)
    assert found(audit(train, plain), "SL213") == []


def test_an_effect_that_outlasts_its_label_is_no_shift():
    train, test = clean(n_attacks=0)
    labels = np.zeros(N_TEST, np.int8)
    values = test.values.copy()
    for k in range(8):
        start = 150 + 440 * k + 37 * (k * k % 5)
        labels[start : start + 40] = 1
        values[start + 10 : start + 100, PRESSURE] += 12
    given = audit(train, replace(test, values=values, labels=labels))
    assert found(given, "SL213") == []


# ---- tags that do not move as they should --------------------------------------------


def test_a_plant_that_stood_still_is_found():
    train, test = clean()

    def most(values):
        values[:, [LEVEL, FLOW, PRESSURE]] = 1.0

    def every(values):
        values[:] = 1.0

    (one,) = found(audit(edited(train, most), test), "SL227")
    assert (one.severity, one.text) == ("warning", "3 of 4 tags never vary in train.")
    (one,) = found(audit(edited(train, every), test), "SL227")
    assert (one.severity, one.text) == ("error", "All 4 tags never vary in train.")


@pytest.mark.parametrize("table", ["train", "test"])
def test_a_frozen_tag_is_found_with_its_time(table):
    tables = dict(zip(("train", "test"), clean(), strict=True))

    def frozen(values):
        values[2200:2500, PRESSURE] = values[2200, PRESSURE]

    tables[table] = edited(tables[table], frozen)
    if table == "test":
        free = np.zeros_like(tables["test"].labels)
        tables["test"] = replace(tables["test"], labels=free, attacks=())
    one = only(audit(**tables), "SL229", f"300 rows, 50 min from {table} row 2,200 (")
    assert one.tags == ("PRESSURE",)


def test_a_tag_that_an_attack_freezes_is_not_reported():
    train, test = clean()

    def frozen(values):
        values[2200:2500, PRESSURE] = values[2200, PRESSURE]

    labels = test.labels.copy()
    labels[2200:2500] = 1
    attacked = replace(edited(test, frozen), labels=labels, attacks=())
    assert found(audit(train, attacked), "SL229") == []


def test_a_start_up_is_found_with_what_trimming_does():
    train, test = clean()

    def started(values):
        values[:400, LEVEL] = np.linspace(0, 480, 400)
        values[:300, PRESSURE] = np.linspace(0, 36, 300)

    one = only(audit(edited(train, started), test), "SL228", "LEVEL (begins at")
    assert set(one.tags) == {"LEVEL", "PRESSURE"}
    assert "trim_start_s = 3360" in one.remedy
    assert "spread" in one.text


def test_a_tag_that_only_drifts_is_no_start_up():
    train, test = clean()

    def drifting(values):
        values[:, LEVEL] += np.linspace(0, 900, N_TRAIN)
        values[:, PRESSURE] += np.linspace(0, 30, N_TRAIN)

    assert found(audit(edited(train, drifting), test), "SL228") == []


def test_a_tag_that_is_cut_off_is_a_note():
    train, test = clean()

    def cut(values):
        np.minimum(values[:, PRESSURE], 42.0, out=values[:, PRESSURE])

    given = audit(edited(train, cut), edited(test, cut))
    (one,) = found(given, "SL230")
    assert (one.severity, one.tags) == (Severity.NOTE, ("PRESSURE",))
    assert "of train at 42" in one.text
    assert given.serious == ()


def test_a_tag_in_another_unit_in_test_is_a_warning():
    train, test = clean()

    def in_other_unit(values):
        values[:, PRESSURE] /= 1000

    given = audit(train, edited(test, in_other_unit))
    (one,) = found(given, "SL231")
    assert (one.severity, one.tags) == (Severity.WARNING, ("PRESSURE",))

    def drifted(values):
        values[:, PRESSURE] += np.ptp(values[:, PRESSURE])

    assert not found(audit(train, edited(test, drifted)), "SL231")


def test_attack_free_rows_outside_trains_range_are_counted_for_each_tag_and_day():
    train, test = clean()

    def higher(values):
        top = values[:, PRESSURE].max() + np.ptp(values[:, PRESSURE])
        values[: len(values) // 2, PRESSURE] = top

    moved = edited(test, higher)
    given = audit(train, moved)
    (one,) = found(given, "SL232")
    assert (one.severity, one.tags) == (Severity.WARNING, ("PRESSURE",))
    assert "of 2 days" not in one.text or "on " in one.text
    facts = {tag.name: tag.outside for tag in given.recording.tags}
    column = np.asarray(moved.values)[:, PRESSURE]
    known = np.asarray(train.values)[:, PRESSURE]
    is_out = (column < known.min()) | (column > known.max())
    is_free = np.asarray(moved.labels) == 0
    day = np.asarray(moved.time) // 86_400
    expected = [
        round(float(is_out[is_free & (day == one)].mean()), 4)
        for one in np.unique(day)
        if (is_free & (day == one)).any()
    ]
    assert list(facts["PRESSURE"].values()) == expected
    assert not found(audit(train, test), "SL232")
    assert any("80%" in text for text in audit(train, test).passed)


# ---- missing cells, records ----------------------------------------------------------


def test_missing_cells_are_a_warning_in_a_plant_of_ones_own():
    train, test = clean()

    def holes(values):
        values[10:20, FLOW] = np.nan

    holed = audit(edited(train, holes), test)
    only(holed, "SL225", "10 cells", "FLOW (10)", severity=Severity.WARNING)


def test_tables_without_time_labels_or_rows_are_audited():
    train, test = clean()
    bare = replace(test, time=None, step_s=None, breaks=None, labels=None, attacks=())
    assert audit(replace(train, time=None, step_s=None, breaks=None), bare).is_right
    empty = recording(np.empty((0, 4)))
    assert audit(empty, empty).recording.tags[0].train.missing == 0


def test_what_each_tag_holds_is_recorded():
    train, test = clean()
    tag = audit(train, test).recording.tags[PRESSURE]
    column = train.values[:, PRESSURE]
    assert tag.train.lowest == column.min()
    assert tag.train.highest == column.max()
    assert tag.train.spread == pytest.approx(column.std())
    assert tag.train.resolution == pytest.approx(0.01)
    assert tag.train.missing == 0
    assert len(tag.train.outline) == 60
    low, high = np.array(tag.train.outline).T
    assert low.min() == pytest.approx(column.min(), abs=0.02)
    assert high.max() == pytest.approx(column.max(), abs=0.02)


def test_the_audit_travels_in_the_meta_of_a_stream():
    given = audit(*clean())
    meta = {"seed": 3} | carried(given)
    assert audit_in(meta) == given
    assert audit_in({"seed": 3}) is None
    assert audit_in(dict.fromkeys(meta, "something else")) is None


def test_only_errors_of_a_users_plant_that_are_not_accepted_are_refused():
    train, test = clean()

    def planted(values):
        values[[1000, 3000], PRESSURE] = -9999

    def plant(accepts):
        return Testbed(
            name="mine",
            release="",
            train=train,
            test=edited(test, planted),
            accepts=accepts,
        )

    (error,) = refused(plant(()), audit_of(plant(())))
    assert error.missing_values == (-9999.0,)
    said = refusal(error)
    for words in ("SL222", "PRESSURE", "test row 1,000", "missing_values", "accept ="):
        assert words in said
    assert refused(plant(("SL222",)), audit_of(plant(("SL222",)))) == ()
    assert refused(plant(None), audit_of(plant(None))) == ()


def test_every_code_is_documented_as_the_table_says():
    page = Path(__file__).parents[2] / "docs" / "data-audit.md"
    rows = re.findall(r"^\| (SL\d+) (.*) \|$", page.read_text("utf-8"), flags=re.M)
    # Codes of the protocol have their own page.
    assert [code for code, _ in rows] == [c for c in CODES if c >= "SL2"]
    for code, row in rows:
        cells = row.removeprefix("| ").split(" | ")
        known = CODES[code]
        assert cells[:3] == [known.severity, known.title, known.effect]
        assert len(cells) == 5
        assert all(cells)


# ---- cells that hold anything --------------------------------------------------------

EXTREMES = (1.7e308, -1.7e308, 1e155, -1e155, 1e-308, 5e-324, -5e-324, np.nan, 0.0)


@pytest.mark.parametrize("seed", range(6))
def test_absurd_cells_are_checked_without_a_warning(seed):
    rng = np.random.default_rng(seed)

    def spoil(values):
        values[rng.integers(0, len(values), 3), LEVEL] = rng.choice(EXTREMES, 3)
        values[:, FLOW] = rng.choice(EXTREMES, len(values))
        values[:, PRESSURE] *= rng.choice([1e-300, 1e-155, 1e155, 1e300])

    train, test = clean(seed=seed)
    tables = [
        (edited(train, spoil), test),
        (train, edited(test, spoil)),
        (edited(train, spoil), edited(test, spoil)),
    ]
    for one, other in tables:
        assert audit(one, other).findings
