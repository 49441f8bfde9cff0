"""What the page is drawn from: the numbers of evaluation.json, and nothing else."""

import base64
import json
import re
import zlib
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report.plant import PLAIN, QUOTED, SPANS

from sightline.comparison.compare import compare
from sightline.evaluation.chart_data import extreme_rows
from sightline.judgement.verdicts import VERDICTS, RungName, info_of
from sightline.metrics.intervals import count_interval
from sightline.report.alarms import after_attacks, false_alarms
from sightline.report.attacks import (
    attack_details,
    attack_groups,
    detected_by,
    matrix,
)
from sightline.report.charts import (
    LEVELS,
    MAX_KNOTS,
    clock_of,
    clocks_by_testbed,
    drift_figure,
    energy_figure,
    log_energy,
    packed_energy,
    quantile_figure,
    quantised,
    roc_figure,
    roc_points,
    spread_figure,
    time_axis,
    time_text,
    windows_figure,
)
from sightline.report.entries import Entry, entries_of
from sightline.report.overview import first_check, ties
from sightline.report.page import render
from sightline.show.comparison import paper_table
from sightline.show.evaluations import on_rows
from sightline.show.rules import GLANCE, RuleInUse
from sightline.text import duration, share


def entry_of(entries, detector, testbed="works"):
    return next(e for e in entries if (e.label, e.testbed) == (detector, testbed))


def glanced(record):
    """Return the cells of a rule at a glance by the keys of their columns."""
    return {column.key: column.cell(record) for column in GLANCE}


def in_use(entry):
    """Return the cells of the rules in use of a detector."""
    return [glanced(one) for one in entry.at_a_glance if isinstance(one, RuleInUse)]


def notes_of(cell):
    """Return the notes of a cell as texts."""
    return [note if isinstance(note, str) else note.text for note in cell.notes]


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
    keys = [key for entry in entries for key in entry.attack_keys]
    assert len(set(keys)) == len(keys)


def changed(entry, *, label=None, testbed=None, traces=None, **changes):
    """Return an entry of one result with something else in it."""
    first = entry.results[0]
    arrays = replace(first.traces, **(traces or {}))
    evaluation = replace(entry.evaluation, traces=arrays, **changes)
    result = replace(first, evaluation=evaluation)
    name = label or entry.label
    return Entry(testbed or entry.testbed, name, 0, (result,), f"works_{name}")


def finding(entry, label, *, own=None, p99=0):
    """Return a detector whose rules catch these numbers of attacks."""
    probe = entry.evaluation.probe

    def rule(n):
        attacks = replace(probe.attacks, caught=n, p_value=0.001)
        load = replace(probe.load, share_of_time=0.01)
        return replace(probe, attacks=attacks, load=load, over_alarming=False)

    own_rule = None if own is None else rule(own)
    return changed(entry, label=label, probe=rule(p99), own_rule=own_rule, rules=None)


def test_names_that_look_like_parts_of_others_make_no_link_twice(results):
    named = []
    for result, detector in zip(results, ("gdn", "gdn-2"), strict=False):
        evaluation = result.evaluation
        segments = tuple(
            replace(segment, id=name)
            for segment, name in zip(evaluation.segments, ("2-1", "1"), strict=False)
        )
        stream = replace(evaluation.stream, detector=detector, testbed="b")
        evaluation = replace(evaluation, segments=segments, stream=stream)
        named.append(replace(result, evaluation=evaluation))
    keys = [key for entry in entries_of(named) for key in entry.attack_keys]
    assert len(keys) == 4
    assert len(set(keys)) == 4


def test_a_rule_that_never_stops_is_not_reported_as_silent(entries):
    entry = entry_of(entries, QUOTED)
    always = replace(
        entry.evaluation.probe,
        false_positive_segments=0,
        false_alarms_per_day=0.0,
        false_alarm_rate=1.0,
        over_alarming=True,
        load=None,
    )
    nothing = {"episode_rule": np.full_like(entry.traces.episode_rule, 9)}
    # Results of so early a version have no rules for a budget either.
    entry = changed(entry, own_rule=always, traces=nothing, rules=None)
    own = in_use(entry)[0]
    assert own["alarms"].text == "none fully outside attacks"
    assert own["share"].text == "100.0%"
    rare = replace(always, false_alarm_rate=0.01, over_alarming=False)
    own = in_use(changed(entry, own_rule=rare))[0]["alarms"].text
    assert own == "0.0 runs a day"
    assert false_alarms(entry)[0]["sentence"] == (
        "No run of alarms lies fully outside attacks; 100.0% of attack-free time "
        "(whole test) is in alarm."
    )


def test_seeds_are_counted_as_the_first_is(entries):
    entry = entry_of(entries, QUOTED)
    own = in_use(replace(entry, results=entry.results * 2))[0]
    k = entry.evaluation.rules.present[-1].attacks.caught
    assert k > 0
    assert own["caught"].values[0] == k
    assert f"mean {k:.1f}, {k} to {k} over 2 seeds" in notes_of(own["caught"])


def test_time_after_attacks_is_counted_once_and_only_where_normal(entries):
    entry = entry_of(entries, PLAIN)
    labels = np.zeros(1000, np.int8)
    labels[100:200] = labels[250:300] = 1
    labels[200:220] = 2
    segments = tuple(
        replace(segment, start=start, stop=stop, length=stop - start)
        for segment, (start, stop) in zip(
            entry.evaluation.segments, [(100, 200), (250, 300)], strict=False
        )
    )
    small = changed(entry, segments=segments, traces={"labels": labels})
    recovery = after_attacks(small, np.array([225, 320, 500, 600]))
    assert recovery["share"] == 0.5
    # Rows 220 to 250 and 300 to 350, of those labelled 0.
    assert recovery["time_share"] == pytest.approx(80 / 830)


def test_short_times_keep_their_figures():
    texts = [duration(seconds) for seconds in (0.4, 1.5, 0, 42)]
    assert texts == ["0.4 s", "1.5 s", "0 s", "42 s"]


def test_ties_say_who_is_not_told_apart_from_the_highest(entries):
    compared = compare([r for e in entries for r in e.results], n_replicates=50)
    means = {
        (row.testbed, row.detector, row.figure): row.mean for row in compared.figures
    }
    for testbed in {entry.testbed for entry in entries}:
        labels = [entry.label for entry in entries if entry.testbed == testbed]
        lines = ties(compared, testbed)
        if len(labels) < 2:
            assert lines == []
            continue
        for line, name in zip(lines, ("roc_auc", "pauc_1"), strict=True):
            best = max(labels, key=lambda label: means[testbed, label, name])
            assert line.startswith(f"{best} has the highest ")
            for pair in compared.differences:
                if (pair.testbed, pair.figure) != (testbed, name):
                    continue
                for label in {*pair.detectors} - {best}:
                    if best not in pair.detectors:
                        continue
                    kind = "below it: " if pair.has_star else "not told apart from it: "
                    (part,) = [one for one in line.split("; ") if label in one]
                    assert kind in part


def test_figures_at_a_glance_are_those_on_disk(entries):
    for entry in entries:
        known, rows = on_disk(entry), in_use(entry)
        p99 = rows[-1]
        n_caught = p99["caught"].values[0]
        count = known["probe"]["attacks"]
        if known["rules"] and known["rules"]["judged_days"]:
            assert "later rows" in p99["rule"].text
            count = known["rules"]["present"][0]["attacks"]
        assert p99["caught"].values == (count["caught"], count["n_attacks"])
        low, high = count_interval(n_caught, count["n_attacks"])
        n = count["n_attacks"]
        interval = f"95% interval {share(low / n)} to {share(high / n)}"
        assert interval in p99["caught"].drawing
        is_over = "\u25b2 over-alarming" in notes_of(p99["alarms"])
        assert is_over == known["probe"]["over_alarming"]
        assert len(rows) == (2 if known["own_rule"] else 1)


def test_the_own_rule_comes_first_with_its_own_delay(entries):
    entry = entry_of(entries, QUOTED)
    own = in_use(entry)[0]
    assert own["rule"].text.startswith("own rule")
    attacks = on_rows(entry.evaluation, RungName.OWN_RULE).attacks
    assert own["caught"].values[0] == attacks.caught > 0
    assert own["delay"].text != "\N{EN DASH}"


def test_the_papers_columns_are_those_on_disk(entries):
    table = paper_table(entries)
    assert table.records is entries
    for entry in entries:
        known = on_disk(entry)
        for column in table.columns[3:]:
            cell = column.cell(entry)
            block, name = cell.place.split(".")
            assert cell.values[0] == pytest.approx(known[block][name])
            if known["intervals"] and known["intervals"].get(column.key):
                assert cell.notes
        seeds = [n for n in notes_of(table.columns[3].cell(entry)) if "mean " in n]
        assert bool(seeds) == (len(entry.results) > 1)


def test_what_to_check_first_is_the_advice(entries):
    entry = entry_of(entries, QUOTED)
    assert entry.evaluation.diagnosis.advice in first_check(entry.evaluation)
    assert entry.evaluation.rules.advice in first_check(entry.evaluation)
    refused = entry_of(entries, "mean").evaluation
    assert first_check(refused).endswith(f"was made: {refused.rules_refused}")
    bare = replace(refused, rules_refused=None)
    assert "without a diagnosis" in first_check(bare)


def test_energy_keeps_every_row_to_a_part_of_a_per_cent(entries):
    entry = entries[0]
    made = packed_energy(entry.traces.test_energy)
    logs = log_energy(entry.traces.test_energy)
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


def test_points_of_a_curve_keep_its_ends_and_its_beginning():
    fpr = np.linspace(0, 1, 5000)
    rows = roc_points(fpr, 200)
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
    for name, figure in (("mean", "d_drift"), ("robust", "d_drift_robust")):
        rise = (drift[name] - 1) * entry.train_mean
        assert rise == pytest.approx(known["drift"][figure])
    assert drift["mean_dominated"] == known["drift"]["mean_dominated"]
    spread = spread_figure(entry)
    assert set(spread["density"]) == {"train", "normal", "attack"}
    assert all(max(density) == 1.0 for density in spread["density"].values())
    made = quantile_figure(entry)
    assert made["ideal"] == sorted(made["ideal"])
    assert made["measured"]["normal"] == sorted(made["measured"]["normal"])


def test_rows_of_attacks_are_those_on_disk(entries):
    groups = attack_groups(entries)
    assert len(groups) == 2 * len(SPANS)
    rows = [row for attack in groups for row in attack.rows]
    assert len(rows) == len(entries) * len(SPANS)
    for entry in entries:
        mine = [row for row in rows if row.entry is entry]
        for row, segment in zip(mine, on_disk(entry)["segments"], strict=True):
            assert row.segment.id == segment["id"]
            rule = (segment["found"] or {}).get("rule", "probe")
            rung = (segment["ladder"] or {}).get(rule, segment)
            assert row.alarms[0] == rung["coverage"]
            joint = row.entry.joint[row.index]
            if not joint.note:
                assert row.verdict.word == (segment["verdict"] or "not-diagnosed")
            if segment["confidence"] is not None:
                assert f"{segment['confidence']:.0%}" in row.confidence
            assert row.segment.sentence == segment["sentence"]
            assert list(row.segment.targets) == segment["targets"]


def test_stages_come_from_targets(entries):
    attacks = attack_groups([entries[0]])
    assert attacks[0].stages == attacks[0].rows[0].stages == ("stage <1>",)
    assert attacks[3].stages == attacks[3].rows[0].stages == ("stage 2",)


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
        in_channels = sum(channel["count"] for channel in p99["channels"])
        assert in_channels == p99["n_read"] == p99["count"]
        assert sum(p99["hours"]) == p99["count"]
        assert "come from" in p99["sentence"]
        assert p99["states"][0][0] == "P101"
        assert ("own rule" in rules) == (known["own_rule"] is not None)


def test_the_matrix_has_a_verdict_for_every_attack_and_detector(entries):
    works = [entry for entry in entries if entry.testbed == "works"]
    detectors, attacks = matrix(works)
    assert list(detectors) == works
    assert len(attacks) == len(SPANS)
    for i, attack in enumerate(attacks):
        for entry in works:
            verdict = entry.joint[i].verdict or "not-diagnosed"
            assert entry.verdicts[attack.places[entry.label]] == info_of(verdict)
        words = [entry.verdicts[i].word for entry in works]
        assert detected_by(attack, works) == words.count("detected")
    assert matrix([]) == ((), ())


def test_detectors_agree_with_themselves_and_rankings_may_carry_over(entries):
    works = [entry for entry in entries if entry.testbed == "works"]
    page = render(entries)
    table = page.partition('aria-label="Agreement of detectors on works"')[2]
    rho = re.findall(r'data-rho="(.*?)"', table.partition("</table>")[0])
    n = len(works)
    assert len(rho) == n * n
    assert rho[:: n + 1] == ["1.0000"] * n
    assert rho[1] == rho[n]
    compared = compare([r for e in entries for r in e.results], n_replicates=2)
    pairs = {frozenset(row.detectors): row.rho for row in compared.agreement}
    known = pairs[frozenset((works[0].label, works[1].label))]
    assert rho[1] == ("" if known is None else f"{known:.4f}")
    assert "Agreement of detectors" not in render(works[:1])
    # One shared detector ranks nothing.
    assert "Ranking transfer" not in page


def test_every_verdict_has_a_sign_and_a_colour_of_its_own():
    styles = list(VERDICTS.values())
    assert len({style.symbol for style in styles}) == len(styles)
    assert len({style.light for style in styles}) == len(styles)
    assert len({style.marker for style in styles}) == len(styles)


def test_time_is_given_as_dates_and_runs_evenly(entries):
    entry = entries[0]
    axis = time_axis(entry)
    assert axis["kind"] == "date"
    assert np.all(np.diff(axis["rows"]) > 0)
    row = 1234
    at = np.interp(row, axis["rows"], axis["times"])
    assert at == pytest.approx(entry.traces.test_time[row])
    assert time_text(entry, 0) == "2023-11-14 22:13:20"


def test_entries_of_one_testbed_share_one_kind_of_clock(entries):
    dated = entry_of(entries, PLAIN)
    step, bare = dated.evaluation.stream, replace(dated.evaluation.stream, step_s=None)
    stepped = changed(dated, label="stepped", stream=step, traces={"test_time": None})
    rowed = changed(dated, label="rowed", stream=bare, traces={"test_time": None})
    late = 4e5 + 10.0 * np.arange(len(dated.traces.test_energy))
    counted = changed(dated, label="late", traces={"test_time": late})
    assert clock_of([dated, dated]) == "date"
    assert clock_of([dated, stepped, counted]) == "hours"
    assert clocks_by_testbed([dated, stepped, rowed]) == {"works": "row"}
    # Hours are counted from the first row, whatever the clock said then.
    for entry in (dated, stepped, counted):
        axis = time_axis(entry, "hours")
        assert (axis["kind"], axis["times"][0]) == ("hours", 0)
        assert np.interp(360, axis["rows"], axis["times"]) == pytest.approx(1.0)
        assert time_text(entry, 360, "hours") == "day 1, 01:00:00"
    assert attack_groups([dated, rowed])[0].began == "row 300"


def test_an_uneven_clock_stays_a_clock(entries):
    entry = entries[0]
    rng = np.random.default_rng(0)
    steps = np.where(rng.random(len(entry.traces.test_energy)) < 0.5, 1.0, 3.0)
    time = 1.7e9 + np.cumsum(steps)
    axis = time_axis(changed(entry, traces={"test_time": time}))
    assert axis["kind"] == "date"
    assert len(axis["rows"]) <= MAX_KNOTS
    back = np.interp(np.arange(len(time)), axis["rows"], axis["times"])
    assert np.abs(back - time).max() < 30
