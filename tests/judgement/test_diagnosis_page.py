"""docs/diagnosis.md says what the tables and constants say."""

from pathlib import Path

import pytest

from sightline.facts.telemetry import ACTIVE, LASTING, VIEWS
from sightline.judgement.calm import (
    BUDGET,
    CONTRAST,
    LEAST_ROWS,
    LEAST_WINDOWS,
    NEAREST,
)
from sightline.judgement.evidence import SPANS
from sightline.judgement.ladder import LADDER, MOST_CALM, NEARLY_ALL, QUIET_SHARE
from sightline.judgement.refit import LEAST_ROWS as LEAST_AROUND
from sightline.judgement.refit import LOCAL_FOLDS, N_BLOCKS, ROWS_PER_CHANNEL
from sightline.judgement.subspaces import MOST_LARGEST
from sightline.judgement.verdicts import VERDICTS

PAGE = (Path(__file__).parents[2] / "docs" / "diagnosis.md").read_text("utf-8")
TEXT = " ".join(PAGE.split())
SPELLED = {5: "five"}


@pytest.mark.parametrize(
    "statement",
    [
        f"at least {CONTRAST:.2f} above the median",
        f"fewer than {LEAST_WINDOWS} calm windows",
        f"windows of {LEAST_ROWS} rows",
        f"against the {NEAREST} nearest calm windows",
        f"a limit that {BUDGET:.0%} of attack-free test rows exceed",
        f"at least {NEARLY_ALL} of the best coverage",
        f"below {QUIET_SHARE} of their median",
        f"calm windows (up to {MOST_CALM})",
        f"cut into {N_BLOCKS} blocks",
        f"{ROWS_PER_CHANNEL} a channel, {LEAST_AROUND}, or two attack lengths",
        f"{LOCAL_FOLDS} folds instead of 2",
        f"the 2 to {MOST_LARGEST} largest channels of each row",
        f"spans {SPANS[0]} and {SPANS[1]}",
        f"{SPELLED[len(VIEWS)]} views",
        f"averaged over {LASTING} rows",
        f"changes over {ACTIVE} rows",
    ],
)
def test_numbers_are_those_of_the_constants(statement):
    assert statement in TEXT


def test_every_verdict_and_every_rung_has_a_row_in_its_order():
    for names in (VERDICTS, LADDER):
        rows = [PAGE.find(f"\n| `{name}` | ") for name in names]
        assert -1 not in rows
    rungs = [PAGE.find(f"\n| `{name}` | ", PAGE.find("| rung |")) for name in LADDER]
    assert rungs == sorted(rungs)


@pytest.mark.parametrize("rung", [r for r in LADDER.values() if r.proves])
def test_every_cause_is_that_of_its_rung(rung):
    (row,) = [x for x in PAGE.splitlines() if x.startswith(f"| `{rung.name}` | ")][-1:]
    assert row.endswith(f"| `{rung.proves}` |")
