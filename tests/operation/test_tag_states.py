"""Frozen tags and tags that never moved, from commissioning to the codes of a gate."""

import os
from dataclasses import replace

import numpy as np
import pytest

from sightline import (
    Recording,
    Tag,
    commission,
    export_stream,
    make_detector,
    read_rule,
    write_rule,
)
from sightline.audit.data import audit_of
from sightline.data.validity import Validity, codes_of
from sightline.data.zones import stamp
from sightline.operation.alarms import AlarmBook, AlarmKind, in_order
from sightline.operation.conditions import PlantConditions
from sightline.operation.telemetry import (
    Gatekeeper,
    TelemetryReader,
    joined,
    telemetry_of,
)
from sightline.testbeds.base import Testbed
from sightline.testbeds.own_plant.settings import PlantSettings

STEP_S = 10.0
BEGIN = 1_790_000_000.0
N = 6000
CHANNELS = ("FIT101", "LIT101", "MV101", "MV102")


def telemetry(n_rows, seed):
    """Return two rounded readings, a valve that moves and one that never does."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(n_rows, 2)) @ np.array([[1.0, 0.6], [0.0, 0.8]])
    valve = (np.arange(n_rows) // 900) % 2
    return np.column_stack([np.round(noise, 1), valve, np.ones(n_rows)])


def recording(rows, first):
    tags = tuple(Tag(name=name) for name in CHANNELS)
    time = BEGIN + STEP_S * np.arange(first, first + len(rows))
    return Recording(values=rows, tags=tags, step_s=STEP_S, time=time)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a rule that was made of a plant's telemetry, as it is read back."""
    folder = tmp_path_factory.mktemp("rule")
    train, test = recording(telemetry(N, 1), 0), telemetry(N, 2)
    # It stands for 300 s before the split, and the fourth tag moves after it.
    test[1000:1031, 0] = test[1000, 0]
    test[5500:, 3] = 0.0
    testbed = Testbed(name="p", release="", train=train, test=recording(test, N))
    detector = make_detector("var").fit(train)
    stream = export_stream(detector, train, testbed.test, audit=audit_of(testbed))
    write_rule(commission(stream, budget="24/day,3%", first=0.5), folder / "rule.json")
    return read_rule(folder)


def gate_of(made, saved=None, tag_holds=None):
    settings = PlantSettings(other_holds=tag_holds or {})
    return Gatekeeper(CHANNELS, STEP_S, settings, telemetry_of(made), saved)


def watched(made, rows, cuts=(), begins=()):
    """Return the codes of rows that pass a gate in pieces."""
    time = BEGIN + STEP_S * np.arange(3 * N, 3 * N + len(rows))
    codes = np.where(np.isnan(rows), Validity.MISSING, Validity.GOOD).astype(np.int8)
    is_first = np.isin(np.arange(len(rows)), begins)
    found, saved = [], None
    for part in np.split(np.arange(len(rows)), cuts):
        gate = gate_of(made, saved)
        read = gate.watched(time[part], rows[part], codes[part], is_first[part])
        found.append(read.codes)
        saved = gate.arrays()
    return np.concatenate(found)


def test_a_rule_remembers_how_tags_stood_still_before_the_split(made):
    known = telemetry_of(made)
    assert known.longest_s["FIT101"] == 300.0
    assert 0 < known.longest_s["LIT101"] < 60.0
    assert known.longest_s["MV101"] == 8990.0
    assert known.constant == {"MV102": (1.0, 0.0)}


def test_a_frozen_tag_is_frozen_from_one_and_a_half_times_its_longest_time(made):
    rows = telemetry(3000, 3)
    rows[1000:1200, 0] = rows[1000, 0]
    codes = watched(made, rows)
    is_frozen = codes == Validity.FROZEN
    assert np.flatnonzero(is_frozen[:, 0]).tolist() == [*range(1046, 1200)]
    assert not is_frozen[:, 1:].any()
    # The same in pieces; a break begins the time anew.
    np.testing.assert_array_equal(watched(made, rows, cuts=[1040, 1050, 1100]), codes)
    later = watched(made, rows, begins=[1100]) == Validity.FROZEN
    assert np.flatnonzero(later[:, 0]).tolist() == [
        *range(1046, 1100),
        *range(1146, 1200),
    ]


@pytest.mark.parametrize("cut", [1, 1020, 1046, 1100])
def test_a_frozen_tag_is_told_with_the_time_since_when_it_stands(made, cut):
    rows = telemetry(3000, 3)
    rows[1000:1200, 0] = rows[1000, 0]
    rows[1010:1013] = np.nan  # an outage begins it anew
    time = BEGIN + STEP_S * np.arange(3 * N, 3 * N + len(rows))
    codes, saved, found = codes_of(rows), (None, None), []
    for part in np.split(np.arange(len(rows)), [cut]):
        gate = gate_of(made, saved[0], {name: 0.0 for name in CHANNELS})
        tags = PlantConditions(CHANNELS, STEP_S, saved[1])
        begins = np.zeros(len(part), bool)
        found += tags.take(gate.watched(time[part], rows[part], codes[part], begins))
        saved = gate.arrays(), tags.arrays()
    book = AlarmBook("all", "f00")
    for one in in_order(found):
        book.take(one)
    (alarm,) = [a for a in book.alarms.values() if a.kind is AlarmKind.FROZEN]
    assert (alarm.source, alarm.start) == ("FIT101", time[1013])
    assert [c.time for c in book.changes if c.alarm.id == alarm.id] == [
        time[1059],
        time[1200],
    ]


def test_it_is_said_after_how_long_a_tag_is_frozen(made):
    said = gate_of(made).frozen_words()
    assert said.startswith(
        "A tag that stands still is called frozen: LIT101 after 90 s"
    )
    assert "FIT101 after 8 min and MV101 after 3.7 h. 1 tag may stand" in said
    assert not Gatekeeper(CHANNELS, STEP_S, PlantSettings()).frozen_words()


def test_what_is_held_is_not_frozen(made):
    rows = telemetry(300, 4)
    rows[100:106, 1] = np.nan
    rows[106:109, 1] = rows[99, 1]
    codes = watched(made, rows)
    assert codes[99:110, 1].tolist() == [0, *[Validity.HELD] * 6, 0, 0, 0, 0]


def test_a_valve_that_never_moved_is_marked_while_it_is_open(made):
    rows = telemetry(300, 5)
    rows[100:150, 3] = 0.0
    rows[120:140, 3] = np.nan
    codes = watched(made, rows)[:, 3]
    moved, missing = Validity.MOVED, Validity.MISSING
    expected = [moved] * 26 + [missing] * 14 + [moved] * 10
    assert codes[100:150].tolist() == expected
    assert not codes[:100].any()
    assert not codes[150:].any()


def test_an_earlier_rule_marks_nothing(made):
    known = replace(telemetry_of(made), longest_s={}, constant={})
    earlier = replace(made, origin=replace(made.origin, telemetry=known))
    rows = np.repeat(telemetry(1, 6), 3000, axis=0)
    rows[:, 3] = 0.0
    assert not watched(earlier, rows).any()


# --- Faults written into the raw export -----------------------------------------------

N_DAY = 600
HEAD = "time,FIT101 [m3/h],LIT101,MV101,MV102"


def day(seed=12):
    """Return the lines of an export, as cells."""
    rows = telemetry(N_DAY, seed)
    stamps = [stamp(BEGIN + STEP_S * (4 * N + k)) for k in range(N_DAY)]
    return [[at, *map(str, row)] for at, row in zip(stamps, rows.tolist(), strict=True)]


def cells(column, text, first=200, last=400):
    def write(lines):
        for line in lines[first:last]:
            line[column] = text if text is not None else lines[first - 1][column]
        return HEAD, lines

    return write


def without(first, last):
    return lambda lines: (HEAD, lines[:first] + lines[last:])


def back(lines):
    """Set the clock back by 50 rows at row 300."""
    stamps = [line[0] for line in lines]
    late = [
        [at, *line[1:]] for at, line in zip(stamps[250:], lines[300:], strict=False)
    ]
    return HEAD, lines[:300] + late


def repeated(lines):
    lines[301][0] = lines[300][0]
    return HEAD, lines


def of_2099(lines):
    lines[300][0] = "2099" + lines[300][0][4:]
    return HEAD, lines


def without_column(lines):
    head = HEAD.replace(",LIT101", "")
    return head, [line[:2] + line[3:] for line in lines]


V = Validity
FAULTS = {
    "dead": (cells(2, ""), "LIT101", V.MISSING, range(206, 400)),
    "frozen": (cells(1, None), "FIT101", V.FROZEN, range(245, 400)),
    "bad": (cells(1, "Bad"), "FIT101", V.BAD, range(200, 400)),
    "out of range": (cells(2, "999"), "LIT101", V.RANGE, range(200, 400)),
    "moved": (cells(4, "0.0"), "MV102", V.MOVED, range(200, 400)),
    "lost": (without_column, "LIT101", V.MISSING, range(N_DAY)),
    "unit": (
        lambda lines: (HEAD.replace("m3/h", "l/s"), lines),
        "FIT101",
        V.UNIT,
        range(N_DAY),
    ),
    "clock back": (back, "FIT101", V.CLOCK, range(250, 300)),
    "clock repeats": (repeated, "FIT101", V.CLOCK, [300, 301]),
}


def gated(made, folder, head, lines):
    """Return what the gate says of an export, and remarks of reading."""
    path = folder / "day.csv"
    path.write_text("\n".join([head, *map(",".join, lines), ""]))
    changed = BEGIN + STEP_S * (4 * N + N_DAY)
    os.utime(path, (changed, changed))
    known = replace(
        telemetry_of(made), ranges={"LIT101": (-50, 50)}, units={"FIT101": "m3/h"}
    )
    reader = TelemetryReader(channels=CHANNELS, settings=PlantSettings(), known=known)
    table = reader(path, STEP_S)
    gate = Gatekeeper(CHANNELS, STEP_S, PlantSettings(), known)
    return gate.watched(*joined(table, None)), table.notices


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_the_raw_export_has_its_code_and_no_other_tag_has(
    made, tmp_path, name
):
    write, tag, code, rows = FAULTS[name]
    read, _ = gated(made, tmp_path, *write(day()))
    place = np.rint((read.read_time - BEGIN) / STEP_S).astype(int) - 4 * N
    k = CHANNELS.index(tag)
    at = place[read.codes[:, k] == code]
    assert at.tolist() == [*rows]
    others = np.delete(read.codes, k, axis=1)
    if code is not Validity.CLOCK:
        assert not others.any()
        assert read.is_watched.all()
    else:
        assert not read.is_watched[read.codes[:, k] == code].any()


def test_an_outage_is_a_break_and_a_row_of_2099_is_none(made, tmp_path):
    read, _ = gated(made, tmp_path, *without(200, 400)(day()))
    begins = np.flatnonzero(read.begins[1:]) + 1
    assert begins.tolist() == [200]
    assert not read.codes.any()
    read, notices = gated(made, tmp_path, *of_2099(day()))
    assert read.read_time.max() < BEGIN + STEP_S * (4 * N + N_DAY)
    assert (read.codes[300] == Validity.HELD).all()
    assert "dated later than the file itself" in notices[0]
