"""What the page is drawn from: the numbers of evaluation.json, and nothing else."""

import base64
import json
import zlib
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report.plant import PLAIN, QUOTED, SPANS

from sightline.metrics.resampling import count_interval
from sightline.report.attacks import attack_details, attack_rows
from sightline.report.clock import clock, started
from sightline.report.curves import (
    energy_figure,
    roc_corners,
    roc_figure,
    windows_figure,
)
from sightline.report.entries import attack_keys, found
from sightline.report.false_alarms import false_alarms
from sightline.report.glance import first_check, glance, headline, paper_table
from sightline.report.packing import LEVELS, log_energy, packed_energy, quantised
from sightline.report.side_by_side import agreement, matrix, transfer
from sightline.report.stability import drift_figure, quantile_figure, spread_figure
from sightline.report.wording import VERDICTS
from sightline.storage.results import extreme_rows


def entry_of(entries, detector, testbed="works"):
    return next(e for e in entries if (e.label, e.testbed) == (detector, testbed))


def on_disk(entry):
    text = (entry.results[0].folder / "evaluation.json").read_text(encoding="utf-8")
    return json.loads(text)


def unpacked(packed):
    kinds = {"Uint8Array": "<u1", "Uint16Array": "<u2", "Float32Array": "<f4"}
    raw = zlib.decompress(base64.b64decode(packed["data"]))
    return np.frombuffer(raw, kinds[packed["kind"]]).reshape(packed["shape"])


def test_one_entry_for_each_detector_on_a_testbed_and_seeds_within(entries):
    counted = {(e.testbed, e.label): len(e.results) for e in entries}
    assert counted == {
        ("works", QUOTED): 1,
        ("works", PLAIN): 2,
        ("works", "mean"): 1,
        ("second", PLAIN): 1,
    }
    assert len({entry.key for entry in entries}) == len(entries)


def test_links_to_attacks_are_unique(entries):
    keys = [key for entry in entries for key in attack_keys(entry)]
    assert len(set(keys)) == len(keys)


def test_figures_at_a_glance_are_those_on_disk(entries):
    for entry, row in zip(entries, glance(entries), strict=True):
        known = on_disk(entry)
        p99 = row["rules"][-1]
        n = known["stream"]["n_segments"]
        if known["verdict_counts"]:
            assert p99["found"] == known["verdict_counts"]["detected"]
        else:
            assert p99["found"] == known["probe"]["hits"]
        low, high = count_interval(p99["found"], n)
        assert (p99["low"], p99["high"]) == (low / n, high / n)
        assert p99["hits"] == known["probe"]["hits"]
        assert p99["over_alarming"] == known["probe"]["over_alarming"]
        assert len(row["rules"]) == (2 if known["own_rule"] else 1)


def test_the_own_rule_comes_first_with_its_own_delay(entries):
    entry = entry_of(entries, QUOTED)
    own = glance([entry])[0]["rules"][0]
    assert own["rule"] == "own rule"
    assert own["found"] == found(entry.evaluation, "own-rule") > 0
    assert own["delay"] != "\N{EN DASH}"


def test_the_papers_columns_are_those_on_disk(entries):
    for entry, row in zip(entries, paper_table(entries)["rows"], strict=True):
        known = on_disk(entry)
        for cell in row["cells"]:
            block, name = cell["key"].split(".")
            assert cell["value"] == pytest.approx(known[block][name])
            if known["intervals"] and known["intervals"].get(name):
                assert cell["interval"]
        assert ("mean" in row["cells"][0]["seeds"]) == (len(entry.results) > 1)


def test_what_to_check_first_is_the_advice(entries):
    entry = entry_of(entries, QUOTED)
    assert entry.evaluation.diagnosis["advice"] in first_check(entry.evaluation)
    bare = entry_of(entries, "mean")
    assert "without a diagnosis" in first_check(bare.evaluation)
    assert headline(entries)["check"] == first_check(entries[0].evaluation)
    assert headline([]) is None


def test_energy_keeps_every_row_to_a_part_of_a_per_cent(entries):
    entry = entries[0]
    made = packed_energy(entry.traces["test_energy"])
    logs = log_energy(entry.traces["test_energy"])
    steps = unpacked(made["values"])
    assert len(steps) == len(logs) == made["n"]
    back = made["low"] + steps / made["levels"] * (made["high"] - made["low"])
    assert np.abs(back - logs).max() <= (made["high"] - made["low"]) / LEVELS


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=200))
def test_quantised_values_come_back_within_half_a_step(values):
    values = np.array(values)
    steps, low, high = quantised(values)
    back = low + steps / LEVELS * (high - low)
    assert np.abs(back - values).max() <= 0.5001 * (high - low) / LEVELS + 1e-9


def test_what_is_not_finite_is_drawn_lowest():
    steps, low, _ = quantised(np.array([1.0, np.nan, 3.0]), 255)
    assert (steps[1], low) == (0, 1.0)


@given(
    st.lists(st.floats(0, 1e9), min_size=1, max_size=400),
    st.integers(1, 30),
)
def test_thinning_keeps_every_peak(values, n_stretches):
    values = np.array(values)
    kept = extreme_rows(values, n_stretches)
    edges = np.linspace(0, len(values), n_stretches + 1).astype(int)
    for start, stop in pairwise(edges):
        if stop > start:
            inside = values[kept[(kept >= start) & (kept < stop)]]
            assert inside.max() == values[start:stop].max()
            assert inside.min() == values[start:stop].min()


def test_levels_of_energy_are_those_measured(entries):
    entry = entries[0]
    known, made = on_disk(entry), energy_figure(entry)
    assert made["tau99"] == known["probe"]["tau99"]
    assert made["train_mean"] == pytest.approx(known["compactness"]["p_eff"] / 2)
    floor = made["drift_floor"] - made["train_mean"]
    key = "d_drift_robust" if known["drift"]["mean_dominated"] else "d_drift"
    assert floor == pytest.approx(known["drift"][key])
    assert [(a["start"], a["stop"]) for a in made["attacks"]] == SPANS


def test_corners_of_a_curve_keep_its_ends_and_its_beginning():
    fpr = np.linspace(0, 1, 5000)
    rows = roc_corners(fpr, 200)
    assert rows[0] == 0
    assert rows[-1] == 4999
    assert len(rows) <= 200
    assert (fpr[rows] < 0.01).sum() > 20


def test_curves_and_windows_tell_what_was_measured(entries):
    entry = entry_of(entries, PLAIN)
    known = on_disk(entry)
    curve = roc_figure(entry)
    assert (curve["roc_auc"], curve["f1"]) == (
        known["rank"]["roc_auc"],
        known["probe"]["f1"],
    )
    made = windows_figure(entry)
    assert made["p_full"] == known["windows"]["p_full"]
    assert len(made["attacks"]) == len(SPANS)
    weighed = [a["outweighs"] for a in made["attacks"]]
    # P_FULL weighs pairs alike; with windows of all lengths it lies within these.
    assert min(weighed) <= made["p_full"] <= max(weighed)


def test_stability_tells_drift_and_spreads(entries):
    entry = entries[0]
    known = on_disk(entry)
    drift = drift_figure(entry)
    assert drift["d_drift"] == known["drift"]["d_drift"]
    assert drift["mean_dominated"] == known["drift"]["mean_dominated"]
    spread = spread_figure(entry)
    assert set(spread["density"]) == {"train", "normal", "attack"}
    assert all(max(density) == 1.0 for density in spread["density"].values())
    made = quantile_figure(entry)
    assert made["ideal"] == sorted(made["ideal"])
    assert made["found"]["normal"] == sorted(made["found"]["normal"])


def test_rows_of_attacks_are_those_on_disk(entries):
    rows = attack_rows(entries)
    assert len(rows) == len(entries) * len(SPANS)
    for entry in entries:
        mine = [row for row in rows if row["entry"] == entry.key]
        for row, segment in zip(mine, on_disk(entry)["segments"], strict=True):
            assert row["id"] == segment["id"]
            assert row["coverage"] == segment["coverage"]
            assert row["verdict"] == (segment["verdict"] or "not-diagnosed")
            assert row["sentence"] == (segment["sentence"] or "")
            assert row["targets"] == segment["targets"]


def test_stages_come_from_targets(entries):
    rows = attack_rows([entries[0]])
    assert rows[0]["stages"] == ["stage <1>"]
    assert rows[3]["stages"] == ["stage 2"]


def test_a_picture_has_the_channels_that_carry_the_evidence(entries):
    entry = entry_of(entries, PLAIN)
    details = attack_details(entry)
    picture = details[0]["picture"]
    assert picture["channels"][0] == "LIT101"
    heat = unpacked(picture["heat"])
    assert heat.shape == (len(picture["channels"]), picture["columns"])
    assert picture["start"] <= SPANS[0][0]
    assert picture["stop"] >= SPANS[0][1]
    assert all(signal["is_telemetry"] for signal in picture["signals"])
    ladder = {bar["rung"]: bar for bar in details[0]["ladder"]}
    segment = on_disk(entry)["segments"][0]
    for rung, bar in ladder.items():
        assert bar["coverage"] == segment["ladder"][rung]["coverage"]
        assert bar["visible"] == segment["ladder"][rung]["visible"]


def test_false_alarms_are_counted_as_in_the_evaluation(entries):
    for entry in entries:
        known = on_disk(entry)
        rules = {rule["rule"]: rule for rule in false_alarms(entry)}
        p99 = rules["p99 rule"]
        assert p99["count"] == known["probe"]["false_positive_segments"]
        assert sum(c["count"] for c in p99["channels"]) == p99["n_read"] == p99["count"]
        assert sum(p99["hours"]) == p99["count"]
        assert "come from" in p99["sentence"]
        assert p99["states"][0]["channel"] == "P101"
        assert ("own rule" in rules) == (known["own_rule"] is not None)


def test_the_matrix_has_a_verdict_for_every_attack_and_detector(entries):
    works = [entry for entry in entries if entry.testbed == "works"]
    made = matrix(works)
    assert len(made["rows"]) == len(SPANS)
    for i, row in enumerate(made["rows"]):
        for entry, cell in zip(works, row["cells"], strict=True):
            verdict = entry.evaluation.segments[i].verdict or "not-diagnosed"
            assert cell["verdict"] == verdict
            assert cell["symbol"] == VERDICTS[verdict].symbol
    assert matrix([]) is None


def test_detectors_agree_with_themselves_and_rankings_may_carry_over(entries):
    works = [entry for entry in entries if entry.testbed == "works"]
    made = agreement(works)
    n = len(works)
    assert [made["rho"][i][i] for i in range(n)] == [1.0] * n
    assert made["rho"][0][1] == made["rho"][1][0]
    assert agreement(works[:1]) is None
    # One shared detector ranks nothing.
    assert transfer(entries) == []


def test_every_verdict_has_a_sign_and_a_colour_of_its_own():
    styles = [style for word, style in VERDICTS.items() if word != "not-diagnosed"]
    assert len({style.symbol for style in styles}) == len(styles)
    assert len({style.light for style in styles}) == len(styles)
    assert len({style.marker for style in styles}) == len(styles)


def test_time_is_told_as_dates_and_runs_evenly(entries):
    entry = entries[0]
    told = clock(entry)
    assert told["kind"] == "date"
    assert np.all(np.diff(told["rows"]) > 0)
    row = 1234
    at = np.interp(row, told["rows"], told["times"])
    assert at == pytest.approx(entry.traces["test_time"][row])
    assert started(entry, 0) == "2023-11-14 22:13:20"
