"""The score `largest`: how far the oddest tag is off, in units of its own tail.

The rule `z` divides the deviation of each channel from what all others say of it by
the channel's own level, which one in a thousand attack-free rows exceeds (*tail
units*); the largest counts. That needs no limit, so it ranks rows as the energy does,
and its figures stand beside those of the energy.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from sightline.data.arrays import Bools, Floats
from sightline.data.record_parts import outside
from sightline.data.row_tables import kept_rows
from sightline.errors import StreamError
from sightline.figures import LARGEST
from sightline.metrics.alarm_load import Delays
from sightline.rules.commission import FIRST, Basis, split_row
from sightline.rules.limits import Budget
from sightline.rules.making import Fitting, RuleMaker
from sightline.rules.normal import raw_rows
from sightline.rules.rule import Rule
from sightline.rules.scoring import ScoredStream

# A level is exceeded by one row in a thousand: fewer rows say nothing of it.
LEAST_ROWS: Final = 1000


def largest_scores(scored: ScoredStream, *, first: float = FIRST) -> Floats:
    """Return the score `largest` of every test row.

    Parameters
    ----------
    scored : ScoredStream
        The stream, scored.
    first : float
        Share of the test on whose attack-free rows levels and usual means are set.
        Labels leave attacks out of them; no label of a later row is read. A record that
        is judged in parts has the levels of the other parts.

    Returns
    -------
    array of shape (n_test,)
        From the split on what the commissioned rule `z` sees (means are followed, a tag
        out of service counts nothing); before it with fixed means. Of a single channel
        that of the rule `x`.

    Raises
    ------
    StreamError
        If fewer than 1,000 rows are attack-free, or seconds a row are not known.
    """
    stream, parts = scored.stream, len(scored.stream.part_firsts)
    basis = Basis.of(scored, 0 if parts else split_row(stream, first, None))
    rows, breaks = raw_rows(stream.test), basis.test.breaks
    made = np.empty(rows.n_rows)
    for part, rule in _rules(basis):
        is_in = np.zeros(rows.n_rows, np.bool_)
        is_in[part] = True
        inside = breaks[(breaks > part.start) & (breaks < part.stop)] - part.start
        made[part] = rule.run(kept_rows(rows, is_in), breaks=inside).trace
    return made


def _rules(basis: Basis) -> Iterator[tuple[slice, Rule]]:
    """Yield stretches of the test, and the rule that scores each."""
    firsts, n = basis.stream.part_firsts, basis.test.n_rows
    if len(firsts):
        time = np.asarray(basis.stream.test_time)
        for start, stop in zip(firsts, [*firsts[1:], n], strict=True):
            others = outside(time, float(time[start]), float(time[stop - 1]))
            yield slice(int(start), int(stop)), _rule(basis, others)
        return
    rule = _rule(basis, np.arange(n) < basis.split)
    yield slice(0, basis.split), rule.fixed
    if basis.split < n:
        yield slice(basis.split, n), rule


def _rule(basis: Basis, within: Bools) -> Rule:
    """Return a rule without a limit, fitted on the attack-free rows within some."""
    seen = replace(basis, within=within)
    period = seen.period(with_calibration=False, with_train=False)
    if period.n_rows < LEAST_ROWS:
        raise StreamError(
            f"The score {LARGEST!r} sets levels on at least {LEAST_ROWS:,} attack-free "
            f"rows of the first part of the test; there are {period.n_rows:,}."
        )
    fitting = Fitting(basis.normal, ["z" if basis.stream.p > 1 else "x"], period)
    maker = RuleMaker(fitting, Budget(), Delays.of_step(basis.step_s))
    return maker.family
