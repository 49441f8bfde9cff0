"""docs/judgement.md says what the tables and constants say."""

from pathlib import Path

import pytest

from sightline.audit import attack_facts
from sightline.comparison.runs import LEAST_SHOWING
from sightline.energy import attack_free
from sightline.judgement import event_test, ladder, record
from sightline.judgement.judge import METHOD, MOST_FALSE_CAUSES, agrees
from sightline.judgement.ladder import LADDER
from sightline.judgement.verdicts import VERDICTS, Reading, Verdict

PAGE = (Path(__file__).parents[2] / "docs" / "judgement.md").read_text("utf-8")
TEXT = " ".join(PAGE.split())
SIZES = ", ".join(map(str, ladder.SIZES[:-1])) + f" or {ladder.SIZES[-1]}"


@pytest.mark.parametrize(
    "statement",
    [
        # Calm
        f"before {attack_free.BACK} blocks in a row are in",
        f"over {attack_free.CAP_LENGTHS} attack lengths, at least "
        f"{attack_free.CAP_S / 3600:g} hour and {attack_free.CAP_ROWS} rows",
        f"the blocks have {attack_facts.BLOCK_ROWS} rows of {attack_facts.STEP_S:g} s",
        f"the blocks have {attack_free.ENERGY_BLOCK_ROWS} rows, and",
        f"the {100 * attack_free.FAR_QUANTILE:.0f}th percentile of blocks",
        f"fewer than {attack_free.LEAST_FAR} far blocks",
        f"fewer than {event_test.LEAST_WINDOWS} of them first the margin is halved, "
        f"then the length, until there are {event_test.LEAST_WINDOWS}, down to "
        f"{event_test.LEAST_ROWS} rows",
        f"{attack_free.LABEL_SLOP_S:.0f} seconds by default",
        f"R of {ladder.MOMENT_EFFECT:.0f} or more, p of at most {ladder.MOMENT_LEVEL}",
        f"R of {ladder.FAR_MOMENT:.0f} or more and {ladder.FAR_MARGIN:.0f} times",
        f"median row is {event_test.FAR:.0f} times the limit",
        f"the {event_test.STATE_ROWS} calm rows before it",
        f"within {event_test.LIKE} of one of the attack's two",
        f"Up to {event_test.MOST_WINDOWS} evenly spaced ones",
        f"fewer than {event_test.FEW_DISJOINT} windows that do not overlap",
        f"at most {ladder.LESS_SURE} and no p-value",
        # The test
        f"the first {event_test.ONSET_ROWS} rows, for stretches of more than "
        f"{event_test.LEAST_ONSET}",
        f"p is at most {event_test.LEVEL} and",
        f"coverage at least {event_test.EFFECT:.2f} above the calm median",
        f"at least {event_test.PEAK_EFFECT:g} times the limit",
        f"the first {event_test.ONSET_ROWS} rows (effect {event_test.ONSET_EFFECT})",
        "one window in twenty reaches",
        # The ladder
        f"a limit that {event_test.BUDGET:.0%} of calm rows exceed",
        f"the {SIZES} channels",
        f"averages over {record.SPANS[0]} and {record.SPANS[1]} rows",
        f"coverage at least {ladder.MEMORY_EFFECT} above the calm median",
        f"below {ladder.QUIET_SHARE} of the usual",
        f"the means of {record.CENTRE_ROWS} calm rows before and after",
        f"at least {ladder.HALF} of what `memory` covers",
        f"the first with {ladder.NEARLY_ALL} of their best coverage",
        f"`ladder_p_value` of at most {ladder.LADDER_LEVEL}",
        # Telemetry and the joint verdict
        f"up to {attack_facts.MOST_WINDOWS} calm windows",
        f"**moves** at p of at most {attack_facts.MOVES}",
        f"**still** at p above {attack_facts.STILL:.2f}",
        f"or if {LEAST_SHOWING} detectors show it",
        # Confidence
        f"share of {ladder.N_DRAWS} draws",
        f'From {ladder.SURE} on a verdict is called "sure", from '
        f'{ladder.UNSURE} "likely"',
        f"Below {ladder.UNDECIDED} the verdict is `undecided`",
        f"Above {MOST_FALSE_CAUSES:.2f} no advice is given",
        f"with {event_test.MOST_WINDOWS} windows "
        f"{1 / (1 + event_test.MOST_WINDOWS):.3f}",
        f"`diagnosis.method` is 1 or 2 ({METHOD} for those described here)",
    ],
)
def test_numbers_are_those_of_the_constants(statement):
    assert statement in TEXT


def test_constants_that_the_page_spells_out():
    assert event_test.RARE == 0.95  # "one window in twenty"
    assert ladder.STANDING == 0.5
    assert "in half or more of the median calm window" in TEXT
    assert record.GATE == 1.0
    assert "more than sqrt(p/2) from that of train" in TEXT


def test_every_verdict_and_every_rung_has_a_row_in_its_order():
    for head, names in (("| verdict |", VERDICTS), ("| rung |", LADDER)):
        begin = PAGE.index(head)
        rows = [PAGE.find(f"\n| `{name}` | ", begin) for name in names]
        assert -1 not in rows
        assert rows == sorted(rows)


@pytest.mark.parametrize("rung", list(LADDER.values()), ids=lambda rung: str(rung.name))
def test_every_cause_is_that_of_its_rung(rung):
    begin = PAGE.index("| rung |")
    rows = PAGE[begin:].splitlines()
    (row,) = [x for x in rows if x.startswith(f"| `{rung.name}` | ")][:1]
    assert row.endswith(f"| `{rung.proves}` |" if rung.proves else "| - |")


@pytest.mark.parametrize("verdict", list(Verdict))
def test_meanings_are_those_of_the_table(verdict):
    (row,) = [x for x in PAGE.splitlines() if x.startswith(f"| `{verdict}` | ")][:1]
    meaning = row.split(" | ")[1]
    assert VERDICTS[verdict].meaning.startswith(meaning.partition(",")[0])


@pytest.mark.parametrize("reading", [r for r in Reading if r is not Reading.UNCLEAR])
def test_readings_agree_as_the_page_says(reading):
    rows = PAGE[PAGE.index("| reading |") :].splitlines()
    row = next(x for x in rows if x.startswith(f"| `{reading}` | "))
    stated = row.split("|")[2].replace("`", "").replace(",", " ").split()
    assert set(stated) == {str(v) for v in Verdict if agrees(reading, v)}


def test_the_page_says_never_that_there_is_nothing_to_see():
    assert "nothing to see" not in TEXT.lower()
