"""A redacted page holds no name, time or foreign text, in any spelling or encoding."""

import json
from dataclasses import replace

import pytest
from blind_records import fitted
from report.plant import CHANNELS, evaluations
from report.recordings import findings, recording_facts
from report.test_data import unpacked
from report.test_page import Parsed, without_plotly
from typer.testing import CliRunner

from sightline import find_blind_spots, read_results, write_report, write_results
from sightline.cli.app import app
from sightline.report.redaction import Pseudonyms, what_remains
from sightline.storage import Result

PLANT = "Secret works <b>"
FOREIGN = "Night shift of Ms Example, call 5551234"
# However the plant, its files and the time may be spelled.
HIDDEN = [
    *CHANNELS,
    "stage 2",
    "TAG_001",
    "secret",
    "Secret",
    "SECRET",
    "5551234",
    "Ms Example",
    "m³/h",
    "-9999",
    "OFF = 0",
    "2023",
    "Nov",
    "08:12",
    "Berlin",
    "1700000",
    "1.7e9",
]
TEXTS = (
    "SECRET-WORKS was down on 15.11.2023, 08:12.",
    "secret_works: from 14 Nov 2023 to Nov 15, 2023 8:12 am, 20231115T0812Z.",
    f"{FOREIGN} at 1700000000.5.",
)


@pytest.fixture(scope="module")
def results():
    """Return two testbeds whose names, notices, findings and times are hostile."""
    made = []
    for k, evaluation in enumerate(evaluations()):
        testbed = PLANT if evaluation.stream.testbed == "works" else "Secret two"
        facts = recording_facts(plant=f"{testbed} (2023)")
        stream = replace(
            evaluation.stream,
            name=f"secret export 2023-11-15 {k}",
            testbed=testbed,
            timezone="Europe/Berlin",
        )
        found = [
            replace(one, text=f"{one.text} {text}", cells=(text,), table="secret.csv")
            for one in findings()
            for text in TEXTS[:2]
        ]
        meta = {**evaluation.provenance.meta, "note": FOREIGN, "file": "secret.csv"}
        segments = [
            replace(one, id=f"2023111{i}", name=FOREIGN, note=TEXTS[0])
            for i, one in enumerate(evaluation.segments)
        ]
        made.append(
            replace(
                evaluation,
                stream=stream,
                recording=replace(facts, notices=TEXTS),
                findings=tuple(found),
                notices=(*TEXTS, *evaluation.notices),
                segments=tuple(segments),
                provenance=replace(evaluation.provenance, meta=meta),
            )
        )
    return made


def page_of(results, folder, **options):
    loaded = [Result.of(evaluation) for evaluation in results]
    path = write_report(loaded, folder / "page.html", redact=True, **options)
    return without_plotly(path.read_text(encoding="utf-8"))


def leaves(value):
    """Yield every text and number of nested JSON values, packed arrays as numbers."""
    if isinstance(value, dict) and set(value) >= {"kind", "shape", "data"}:
        yield float(unpacked(value).max(initial=0))
        return
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        for item in value:
            yield from leaves(item)
    elif value is not None:
        yield value


def test_no_hostile_name_or_time_is_left(results, tmp_path):
    page = page_of(results, tmp_path, title="Seen at SECRET_WORKS <b>, 15.11.2023")
    parsed = Parsed(page)
    loaded = json.loads(parsed.scripts["data"])
    found = list(leaves(loaded))
    texts = "\n".join(text for text in found if isinstance(text, str))
    for name in HIDDEN:
        assert name not in parsed.text, name
        assert name not in texts, name
    markup = page.partition('<script type="application/json" id="data">')[0]
    for name in ("Secret", "secret", "2023-11", "Berlin", "TAG_001", "LIT101"):
        assert name not in markup, name
    # Times are shifted, also in the numbers that charts are drawn from.
    assert max(leaf for leaf in found if not isinstance(leaf, str)) < 1e9
    assert {entry["clock"]["kind"] for entry in loaded["entries"]} == {"hours"}
    assert all("offsets" not in entry["clock"] for entry in loaded["entries"])
    assert all(entry["clock"]["times"][0] == 0 for entry in loaded["entries"])
    for text in ("PLANT-01", "PLANT-02", "STREAM-001", "FILE-01", "day 1, 00:50:00"):
        assert text in parsed.text, text
    assert "Seen at PLANT-01, [time]" in parsed.text
    assert what_remains() in parsed.text


def test_the_same_plant_has_one_pseudonym_everywhere(results, tmp_path):
    parsed = Parsed(page_of(results, tmp_path))
    testbeds = {e["testbed"] for e in json.loads(parsed.scripts["data"])["entries"]}
    assert testbeds == {"PLANT-01", "PLANT-02"}
    assert "PLANT-03" not in parsed.text
    assert "PLANT-01: 2 tables with 7,000 rows" in parsed.text


def test_what_is_asked_for_stays_and_nothing_else(results, tmp_path):
    times = Parsed(page_of(results, tmp_path, keep_times=True)).text
    assert "2023-11-15 00:03:20" in times
    assert "Europe/Berlin" in times
    assert not [name for name in ("Secret", "secret", "LIT101") if name in times]
    plant = Parsed(page_of(results, tmp_path, keep_plant=True)).text
    assert "Secret works <b>" in plant
    assert "secret_test.csv" in plant
    assert not [name for name in ("2023-11-14", "Berlin", "LIT101") if name in plant]
    for text in (times, plant):
        assert FOREIGN not in text


def test_the_first_screen_notes_links_and_tips_tell_no_name(results, tmp_path):
    detector, train, test = fitted()
    spots = find_blind_spots(
        detector, test, train=train, shapes=["step"], durations_s=[300.0]
    )
    loaded = [replace(Result.of(one), blind_spots=spots) for one in results]
    whole = write_report(loaded, tmp_path / "whole.html")
    shown = Parsed(without_plotly(whole.read_text(encoding="utf-8")))
    assert f"{FOREIGN}: {TEXTS[0]}" in shown.text
    assert "PIT201" in shown.text
    assert "secret-works-b" in " ".join(shown.ids)
    for keep in ({}, {"keep_times": True}, {"keep_plant": True}):
        path = write_report(loaded, tmp_path / "page.html", redact=True, **keep)
        page = without_plotly(path.read_text(encoding="utf-8"))
        parsed = Parsed(page)
        # Every attribute too: links, labels and tips.
        markup = page.partition('<script type="application/json" id="data">')[0]
        for name in (FOREIGN, "Ms Example", "5551234", "PIT201"):
            assert name not in markup, name
            assert name not in parsed.text, name
        assert "no blind spots" in " ".join(parsed.text.split())
        keys = [name for name in parsed.ids if name.startswith("attack-")]
        assert len(keys) > 6
        if "keep_plant" not in keep:
            assert not [name for name in keys if "secret" in name or "2023" in name]
            assert "plant-01_a-01" in " ".join(keys)


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-29",
        "2026-03-29 03:00:00 +02:00",
        "2026-03-29T03:00:00Z",
        "29.03.2026, 3:00",
        "29/03/26 03:00:00.123",
        "3/29/2026 3:00 PM",
        "29 March 2026",
        "29-Mar-26",
        "Mar 29, 2026",
        "20260329",
        "20260329T030000Z",
        "1774746000",
        "1774746000000",
        "03:00",
    ],
)
def test_a_time_is_hidden_however_it_is_written(text):
    names = Pseudonyms([], [], hide_times=True)
    assert names.text(f"since {text}.") == "since [time]."


@pytest.mark.parametrize(
    "text",
    [
        "12,345 rows",
        "0.9126",
        "3 of 26 attacks",
        "1:1",
        "10.5 a day",
        "5 may do",
        "5 decimals",
    ],
)
def test_other_numbers_stay(text):
    assert Pseudonyms([], [], hide_times=True).text(text) == text


def test_the_file_of_settings_keeps_its_name_whatever_the_plant_is_called():
    names = Pseudonyms([], [], plants=["Plant"])
    text = names.text("plant: write step_s into plant.toml, not plant.csv.")
    assert text == "PLANT-01: write step_s into plant.toml, not PLANT-01.csv."


def test_the_command_says_what_remains(results, tmp_path):
    write_results(results[:1], tmp_path / "results")
    out = tmp_path / "page.html"
    command = ["report", str(tmp_path / "results"), "--out", str(out)]
    done = CliRunner().invoke(app, [*command, "--redact", "--keep-times"])
    assert done.exit_code == 0, done.output
    assert what_remains(keep_times=True) in done.output
    page = without_plotly(out.read_text(encoding="utf-8"))
    assert "Secret" not in page
    assert "Europe/Berlin" in page
    refused = CliRunner().invoke(app, [*command, "--overwrite", "--keep-plant"])
    assert refused.exit_code == 2
    [read] = read_results([tmp_path / "results"])
    assert read.evaluation.recording == results[0].recording
