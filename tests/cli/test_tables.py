import io
from dataclasses import replace

import numpy as np
import pytest
from on_disk import full_stream
from rich.console import Console
from strategies import make_stream

from sightline import (
    Attack,
    compare,
    evaluate,
    read_results,
    write_results,
)
from sightline.cli.tables import MAX_ATTACKS, comparison, summary
from sightline.text import UNKNOWN

ATTACKS = [(20, 30), (60, 62), (100, 120)]


def printed(renderable):
    """Return the lines as a terminal of 80 columns shows them."""
    file = io.StringIO()
    console = Console(width=80, file=file, highlight=False, markup=False, emoji=False)
    console.print(renderable)
    text = file.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    assert "\N{HORIZONTAL ELLIPSIS}" not in text
    return text


def small(intervals=False, attacks=ATTACKS, **known):
    stream = make_stream(
        n_train=300, n_test=200, p=2, attacks=attacks, strength=5.0, **known
    )
    return evaluate(stream, intervals=intervals)


@pytest.fixture(scope="module")
def with_intervals():
    return small(intervals=True, step_s=60.0, name="mine")


@pytest.fixture(scope="module")
def full():
    return evaluate(full_stream().replace(name="full"))


def test_a_summary_shows_attacks_false_alarms_and_ranking(with_intervals):
    e, text = with_intervals, printed(summary([with_intervals]))
    low, high = e.intervals["roc_auc"]
    assert "mine" in text
    assert f"{e.probe.hits} of 3" in text
    assert f"{e.probe.false_alarms_per_day:.1f}/day" in text
    assert f"{e.rank.roc_auc:.1%}" in text
    assert f"{100 * low:.0f}-{high:.0%}" in text
    assert f"{e.rank.pauc_1:.3f}" in text


def test_an_interval_stands_below_its_figure(with_intervals):
    lines = printed(summary([with_intervals])).splitlines()
    first = next(k for k, line in enumerate(lines) if line.split()[:1] == ["mine"])
    low, high = with_intervals.intervals["mean_segment_auc"]
    assert f"{100 * low:.0f}-{high:.0%}" in lines[first + 1]


def test_without_intervals_figures_stand_alone():
    lines = printed(summary([small(name="mine")])).splitlines()
    first = next(k for k, line in enumerate(lines) if line.split()[:1] == ["mine"])
    assert lines[first + 1].strip() == ""


def test_without_a_step_false_alarms_are_counted():
    evaluation = small()
    text = printed(summary([evaluation]))
    assert f"{evaluation.probe.false_positive_segments} in total" in text
    assert "/day" not in text


def test_each_attack_of_a_single_stream_has_a_row(full):
    text = printed(summary([full]))
    assert "Each attack" in text
    for row in full.segments:
        assert f"\n {row.id} " in text
        assert f"{row.start:,}-{row.stop - 1:,}" in text


def test_attacks_of_several_streams_are_left_to_their_files(full):
    assert "Each attack" not in printed(summary([full, small(name="b")]))


def test_an_attack_without_alarm_has_no_first_alarm():
    evaluation = small()
    first = replace(evaluation.segments[0], first_alarm=None, first_alarm_s=None)
    changed = replace(evaluation, segments=(first, *evaluation.segments[1:]))
    line = next(
        line for line in printed(summary([changed])).splitlines() if "20-29" in line
    )
    assert line.split()[3] == UNKNOWN


def test_more_attacks_than_fit_are_counted():
    spans = [(k, k + 1) for k in range(2, 196, 4)]
    text = printed(summary([small(attacks=spans)]))
    assert f"... and {len(spans) - MAX_ATTACKS} more in segments.csv" in text


def test_a_stream_without_attacks_shows_dashes():
    lines = printed(summary([small(attacks=[], name="calm", step_s=1.0)])).splitlines()
    (line,) = [line for line in lines if line.split()[:1] == ["calm"]]
    cells = line.split()
    assert [cells[k] for k in (1, 3, 4, 5)] == [UNKNOWN] * 4
    assert cells[2].endswith("/day")
    assert not any("Each attack" in line for line in lines)


def test_the_own_rule_stands_before_p99(full):
    text = printed(summary([full]))
    own = f"own {full.own_rule.hits} of {full.stream.n_segments}"
    p99 = f"p99 {full.probe.hits} of {full.stream.n_segments}"
    assert text.index(own) < text.index(p99)


def test_without_an_own_rule_p99_needs_no_name():
    table = printed(summary([small()])).split("Alarms: energy")[0]
    assert "own" not in table
    assert "p99" not in table


def test_notices_are_printed(full):
    evaluation = replace(full, notices=("Look [here]: :warning:.", "And there."))
    text = printed(summary([evaluation]))
    assert "- Look [here]: :warning:.\n" in text
    assert "- And there.\n" in text


def test_notices_of_several_streams_name_theirs():
    a, b = (replace(small(name=n), notices=("Mind.",)) for n in ("first", "second"))
    text = printed(summary([a, b]))
    assert "- first: Mind." in text
    assert "- second: Mind." in text


def test_a_guard_is_printed_beside_the_name():
    evaluation = evaluate(make_stream(name="s"), guard=12, intervals=False)
    assert "s (guard 12)" in " ".join(printed(summary([evaluation])).split())


@pytest.mark.parametrize(
    "name",
    [
        "x" * 200,
        "[bold]x[/bold]",
        ":smile:",
        "GDN on SWaT, seed 0, " * 5,
        "\u6c34" * 30,
    ],
    ids=["long", "markup", "emoji", "words", "wide"],
)
def test_any_name_fits_whole_and_as_it_is(name):
    text = printed(summary([small(name=name)]))
    cells = "".join(line[:20].split("  ")[0] for line in text.splitlines())
    assert name[:8].replace(" ", "") in cells.replace(" ", "")


def test_long_ids_of_attacks_fit():
    segments = [Attack(id="overflow of tank " * 9, start=20, stop=30)]
    evaluation = small(segments=segments)
    assert "overflow" in printed(summary([evaluation]))


# Comparing


def made(seed, detector, testbed, strength):
    return make_stream(
        seed,
        n_train=200,
        n_test=300,
        attacks=[(50, 60), (120, 140), (200, 210), (250, 255)],
        strength=strength,
        detector=detector,
        testbed=testbed,
        name=f"{detector} {testbed} {seed}",
    )


def compared(tmp_path, *streams):
    write_results([evaluate(s, intervals=False) for s in streams], tmp_path)
    return compare(read_results([tmp_path]), n_replicates=20)


@pytest.fixture(scope="module")
def rivals(tmp_path_factory):
    return compared(
        tmp_path_factory.mktemp("rivals"),
        made(0, "sharp", "x", 5.0),
        made(1, "sharp", "x", 5.0),
        made(0, "dull", "x", 0.5),
        made(0, "sharp", "y", 4.0),
        made(0, "dull", "y", 0.5),
        made(0, "blind", "y", 0.0),
    )


def test_a_comparison_has_its_tables(rivals):
    text = printed(comparison(rivals))
    for words in (
        "ROC-AUC",
        "Differences with 95% intervals",
        "Do detectors agree on which attacks are strong?",
        "Does a ranking of detectors hold on another testbed?",
    ):
        assert words in text


def test_seeds_show_their_mean_and_range(rivals):
    text = printed(comparison(rivals))
    shown = [f for f in rivals.figures if f.figure in ("roc_auc", "pauc_1", "f1")]
    assert any(row.low != row.high for row in shown)
    for row in shown:
        assert f"{row.mean:.3f}" in text
        low, high = f"{row.low:.3f}", f"{row.high:.3f}"
        # Two ends that read alike are no range.
        assert (f"{low}\u2013{high}" in text) == (low != high)


def test_a_difference_that_leaves_out_0_is_marked(rivals):
    row = max(rivals.differences, key=lambda d: abs(d.difference))
    low, high = row.interval
    text = printed(comparison(rivals))
    assert f"{row.difference:+.3f} ({low:+.3f} to {high:+.3f})*" in text


def test_agreement_shows_rho_and_shared_attacks(rivals):
    text = printed(comparison(rivals))
    row = rivals.agreement[0]
    assert f"{row.rho:+.2f}" in text
    assert "0 | 0" in text


def test_a_lone_result_has_figures_alone(tmp_path):
    text = printed(comparison(compared(tmp_path, made(0, "one", "x", 3.0))))
    assert "one" in text
    assert "Differences" not in text
    assert "another testbed" not in text


def test_a_result_without_attacks_shows_dashes(tmp_path):
    calm = made(0, "calm", "x", 0.0).replace(labels=np.zeros(300, int))
    lines = printed(comparison(compared(tmp_path, calm))).splitlines()
    (line,) = [line for line in lines if "calm" in line]
    assert line.split()[2:5] == [UNKNOWN] * 3


def test_notices_of_a_comparison_are_printed(rivals):
    text = printed(comparison(replace(rivals, notices=("Cannot pair [a].",))))
    assert "- Cannot pair [a]." in text


def test_long_names_of_detectors_and_testbeds_fit(tmp_path):
    long = "a detector with a very long name " * 3
    text = printed(
        comparison(
            compared(
                tmp_path,
                made(0, long + "1", "Secure Water Treatment 2015", 3.0).replace(
                    name="1"
                ),
                made(0, long + "2", "Secure Water Treatment 2015", 2.0).replace(
                    name="2"
                ),
            )
        )
    )
    assert "Secure" in text
