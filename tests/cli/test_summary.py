import io
import re
from dataclasses import replace
from pathlib import Path

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
from sightline.cli.summary import EARLIER_RULES, comparison, summary
from sightline.judgement.ladder import confidence_word
from sightline.judgement.verdicts import Verdict
from sightline.rules.choose import false_alarm_words
from sightline.show.attacks import MAX_ATTACKS
from sightline.text import (
    UNKNOWN,
    Labelling,
    correlation,
    mean_count,
    probability,
    score,
    share,
)

HISTORIC = Path(__file__).parents[1] / "historic_results"

ATTACKS = [(20, 30), (60, 62), (100, 120)]


def printed(renderable):
    """Return the lines as a terminal of 80 columns shows them."""
    file = io.StringIO()
    console = Console(width=80, file=file, highlight=False, markup=False, emoji=False)
    console.print(renderable)
    text = file.getvalue()
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    # A table that does not fit is cut at the right, and its rule has no end.
    assert not any(len(line) == 80 and line.endswith("\u2500") for line in lines)
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
    assert f"{e.probe.attacks.caught} of 3" in text
    assert false_alarm_words(e.probe) in text
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
    assert lines[first + 1].strip().endswith("of time")
    assert lines[first + 2].strip() == ""


def test_without_a_step_false_alarms_are_counted():
    evaluation = small()
    text = printed(summary([evaluation]))
    assert f"{evaluation.probe.false_positive_segments} in total" in text
    assert "a day" not in text.split("False alarms: of the limit")[0]


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
    assert line.split()[4] == UNKNOWN


def test_more_attacks_than_fit_are_counted():
    spans = [(k, k + 1) for k in range(2, 196, 4)]
    text = printed(summary([small(attacks=spans)]))
    assert f"... and {len(spans) - MAX_ATTACKS} more in segments.csv" in text


def test_a_stream_without_attacks_shows_dashes():
    lines = printed(summary([small(attacks=[], name="calm", step_s=1.0)])).splitlines()
    (line,) = [line for line in lines if line.split()[:1] == ["calm"]]
    cells = line.split()
    assert [cells[k] for k in (5, 6, 7)] == [UNKNOWN] * 3
    assert cells[1:5] == ["0", "in", "3", "min"]
    assert not any("Attacks found" in line for line in lines)
    assert not any("Each attack" in line for line in lines)


def test_the_own_rule_stands_before_p99(full):
    text = printed(summary([full]))
    own = f"own {false_alarm_words(full.own_rule)}"
    p99 = f"p99 {false_alarm_words(full.probe)}"
    assert text.index(own) < text.index(p99)


def test_without_an_own_rule_p99_needs_no_name():
    table = printed(summary([small()])).split("False alarms: of the limit")[0]
    assert "own" not in table
    assert "p99" not in table


# What is found, with chance and cost


def line_after(text, title, name):
    """Return the cells of the row of a name in the table of a title."""
    lines = text[text.index(title) :].splitlines()
    return next(line.split() for line in lines if line.split()[:1] == [name])


@pytest.fixture(scope="module")
def judged():
    """Two attacks of which the p99 rule finds one, in much calm time."""
    return evaluate(
        make_stream(
            n_train=1000,
            n_test=3000,
            attacks=[(500, 530), (2000, 2040)],
            strength=4.0,
            name="judged",
            step_s=60.0,
        ),
        intervals=False,
    )


def test_every_count_has_its_chance_p_and_cost_beside_it(judged):
    attacks = judged.probe.attacks
    cells = line_after(printed(summary([judged])), "Attacks caught", "judged")
    assert cells == [
        *("judged", "p99", str(attacks.caught), "of", str(attacks.n_attacks)),
        mean_count(attacks.caught_by_chance).replace("under ", "<"),
        probability(attacks.p_value),
        share(judged.probe.load.share_of_time, 1),
    ]


def test_a_verdict_stands_with_its_confidence(judged):
    text = " ".join(printed(summary([judged])).split())
    for row in judged.segments:
        assert row.confidence is not None
        word = confidence_word(row.confidence)
        assert f"{row.verdict} ({word}, {share(row.confidence)})" in text


def with_facts(evaluation, **changes):
    facts = replace(evaluation.diagnosis, **changes)
    return replace(evaluation, diagnosis=facts)


def test_causes_that_are_not_believed_are_said_first(judged):
    missed = replace(judged.segments[0], verdict=Verdict.DRIFT, sentence="Drifted.")
    one = replace(judged, segments=(missed, *judged.segments[1:]))
    withheld = with_facts(one, advice_withheld="It blames calm time.")
    text = printed(summary([withheld]))
    assert text.index("It blames calm time.") < text.index("Drifted.")


def test_without_enough_calm_time_it_says_why_no_rule_was_made(judged):
    assert judged.rules.advice in " ".join(printed(summary([judged])).split())
    refused = replace(judged, rules=None, rules_refused="Too few hours.")
    text = " ".join(printed(summary([refused])).split())
    assert "No alarm rule was made: Too few hours." in text


def test_a_standing_rule_says_that_its_alarms_say_little(judged):
    standing = with_facts(judged, is_standing=True, share_in_alarm=0.8)
    text = " ".join(printed(summary([standing])).split())
    assert "judged: the present rule is in alarm in 80% of attack-free time" in text
    assert "does not stop says little." in text
    assert "says little" not in printed(summary([judged]))


def test_results_of_earlier_rules_say_so_in_one_line(judged):
    earlier = with_facts(judged, method=1)
    assert f"- {EARLIER_RULES}" in " ".join(printed(summary([earlier])).split())
    assert "earlier version" not in printed(summary([judged]))


def test_older_results_on_disk_are_printed():
    for folder in sorted(HISTORIC.rglob("evaluation.json")):
        (result,) = read_results([folder.parent])
        text = " ".join(printed(summary([result.evaluation])).split())
        assert EARLIER_RULES in text
        assert "Attacks caught" in text


def test_no_one_says_nothing_to_see(judged, full):
    text = printed(summary([judged])) + printed(summary([full]))
    assert "nothing to see" not in text.lower()


def test_notices_are_printed(full):
    evaluation = replace(full, notices=("Look [here]: :warning:.", "And there."))
    text = printed(summary([evaluation]))
    assert "- Look [here]: :warning:.\n" in text
    assert "- And there.\n" in text


def test_notices_of_several_streams_name_theirs():
    a, b, c = (
        replace(small(name=name), notices=notices)
        for name, notices in (
            ("first", ("Mind.", "Look.")),
            ("second", ("Mind.", "Look.", "Wait.")),
            ("third", ("Look.",)),
        )
    )
    lines = printed(summary([a, b, c])).splitlines()
    assert [line.strip() for line in lines if line.startswith("- ")][-3:] == [
        "- first and second: Mind.",
        "- Look.",
        "- second: Wait.",
    ]


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
        attacks=[(50, 60), (120, 140), (200, 210), (230, 240), (250, 255), (280, 290)],
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
        "Differences with intervals",
        "Do detectors agree on which attacks are strong?",
        "Does a ranking of detectors hold on another testbed?",
    ):
        assert words in text


def test_seeds_show_their_mean_and_range(rivals):
    text = printed(comparison(rivals))
    shown = [f for f in rivals.figures if f.figure in ("roc_auc", "pauc_1", "f1")]
    assert any(row.low != row.high for row in shown)
    for row in shown:
        assert score(row.mean) in text
        low, high = score(row.low), score(row.high)
        # Two ends that read alike are no range.
        assert (f"{low}\u2013{high}" in text) == (low != high)


def test_a_difference_beyond_chance_is_marked(rivals):
    text = printed(comparison(rivals))
    rows = [d for d in rivals.differences if d.figure == "pauc_1"]
    assert len(rows) == 4
    for row in rows:
        low, high = row.interval
        shown = f"{row.difference:+.3f} ({low:+.2f} to {high:+.2f})"
        assert shown + ("*" if row.has_star else " ") in text


def test_agreement_shows_rho_and_shared_attacks(rivals):
    text = printed(comparison(rivals))
    row = rivals.agreement[0]
    assert correlation(row.rho) in text
    assert "0 | 0" in text


def test_a_comparison_shows_attacks_caught_with_chance(rivals):
    text = printed(comparison(rivals))
    assert "Attacks caught" in text
    assert len(rivals.detections) == 5
    for row in rivals.detections:
        assert f"{row.attacks.caught} of {row.attacks.n_attacks}" in text
        assert mean_count(row.attacks.caught_by_chance).replace("under ", "<") in text
    standing = replace(rivals.detections[0], is_standing=True)
    text = printed(comparison(replace(rivals, detections=(standing,))))
    assert "does not stop says little" in " ".join(text.split())


def test_a_veto_is_told_beside_the_joint_verdict(rivals):
    row = replace(
        rivals.verdicts[0],
        joint_verdicts={"sharp": "detected", "dull": "weak-evidence"},
        verdicts={"sharp": "detected", "dull": "not-in-telemetry"},
        confidences={"sharp": 1.0, "dull": None},
        vetoed_by=("sharp",),
        reading="detected by sharp",
    )
    text = " ".join(printed(comparison(replace(rivals, verdicts=(row,)))).split())
    assert "sharp: detected (sure, 100%), dull: weak-evidence" in text
    assert "The telemetry's own test does not show it; sharp shows it." in text
    assert "not-in-telemetry" not in text


def test_a_plants_own_records_are_compared_by_incidents(rivals):
    own = replace(rivals, labels=Labelling.INCIDENTS)
    shown = [printed(comparison(own)), own._repr_html_()]
    assert "Incidents caught" in shown[0]
    for text in shown:
        assert not re.search(r"(?<![-\w])attacks?(?![-\w])", text, re.IGNORECASE)


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
