"""Every alarm rule by its name: what it looks at, what it remembers, and its words.

A rule is one `NamedRule` in `RULES`; all its forms come from that description:

==========================  =========================================================
form                        made by
==========================  =========================================================
fitted, with a limit        `making`, from attack-free rows
on a record and live        `rule`: `Rule.run`, `Rule.start`
``rule.json``, ``rule.py``  `file`, `standalone`
words                       `rule_words`, for page, terminal and glossary
==========================  =========================================================

Its arithmetic stands in `standalone`, in plain numpy; `sightline._kernels.alarms` has
the loops of it compiled. Ours are registered as entry points ``sightline.rules``;
another package registers a `NamedRule` under its name in the same way.
"""

import re
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from sightline import plugins
from sightline.errors import StreamError
from sightline.plugins import Registry
from sightline.rules.rule import Member, Memory, View
from sightline.text import did_you_mean, names

# Span of the average: this many seconds, within these numbers of rows.
SPAN_S: Final = 300.0
SPAN_ROWS: Final = (6, 30)
# The cumulative sum forgives half a spread a row.
ALLOWANCE: Final = 0.5
_AVERAGED: Final = " With memory: residuals are averaged over the last minutes first."
_LARGEST: Final = re.compile(r"largest(\d+)")


@dataclass(frozen=True, kw_only=True)
class NamedRule:
    """A rule as its name says it: the one description of which all forms are made.

    Parameters
    ----------
    name : str
        Such as ``"z~"``; without a plus sign, which joins rules.
    words : str
        What it does, for operators: whole sentences.
    score : str
        What it computes, for researchers.
    view : View, optional
        What it looks at; it has one value for each unit of the view (a channel, a
        stage, all channels). None for a joined rule.
    memory : Memory
        What it remembers of earlier rows.
    largest : int
        Half the sum of this many largest squares in place of the largest; 0: the
        largest.
    members : tuple of str
        Of a joined rule: the rules of which any may ring.
    default_since : str, optional
        The version since which it is made by default; None if only by name.
    """

    name: str
    words: str
    score: str
    view: View | None = None
    memory: Memory = Memory.NONE
    largest: int = 0
    members: tuple[str, ...] = ()
    default_since: str | None = None

    def __post_init__(self) -> None:
        """Refuse a description of which no rule can be made."""
        if "+" in self.name or " " in self.name or not (self.words and self.score):
            raise StreamError(
                f"A rule's name has no plus sign and no space, and it needs words and "
                f"a score; got {self.name!r}."
            )
        if (self.view is None) != bool(self.members):
            raise StreamError(f"The rule {self.name!r} needs either a view or members.")

    @property
    def needs_stages(self) -> bool:
        """Whether it looks at stages."""
        return self.view is View.STAGE


def _averaged(rule: NamedRule) -> NamedRule:
    """Return the same rule of an exponentially weighted average of the rows."""
    return replace(
        rule,
        name=f"{rule.name}~",
        words=rule.words + _AVERAGED,
        score=f"{rule.score}, of an exponentially weighted average of the rows",
        memory=Memory.AVERAGE,
    )


def _joined(name: str, *rules: NamedRule, since: str | None) -> NamedRule:
    """Return the rule that rings if any of its members does."""
    members = tuple(rule.name for rule in rules)
    return NamedRule(
        name=name,
        words=f"Rings if any of {names(members)} is over its own limit; stages count "
        "where tags have them.",
        score=f"the largest of {names(members)}, each over its own limit",
        members=members,
        default_since=since,
    )


ENERGY: Final = NamedRule(
    name="energy",
    words="Deviation score of the whole row (energy), with a limit for the budget.",
    score="energy of all channels",
    view=View.ALL,
    default_since="0.1.0",
)
GROUP: Final = NamedRule(
    name="group",
    words="Largest deviation score of one stage.",
    score="largest energy of a stage",
    view=View.STAGE,
    default_since="0.1.0",
)
Z: Final = NamedRule(
    name="z",
    words="Largest deviation of one tag from what the other tags tell of it "
    "(conditional z).",
    score="largest deviation of a channel from what all others say of it",
    view=View.Z,
    default_since="0.1.0",
)
X: Final = NamedRule(
    name="x",
    words="Largest deviation of one tag from its mean.",
    score="largest deviation of a channel",
    view=View.X,
    default_since="0.1.0",
)
GROUP_AVERAGE, Z_AVERAGE, X_AVERAGE = (_averaged(rule) for rule in (GROUP, Z, X))
ROWS: Final = _joined("rows", GROUP, Z, X, since="0.1.0")
MEMORY: Final = _joined("memory", GROUP_AVERAGE, Z_AVERAGE, X_AVERAGE, since=None)
ALL: Final = _joined(
    "all", GROUP, Z, X, GROUP_AVERAGE, Z_AVERAGE, X_AVERAGE, since="0.1.0"
)
SCORE: Final = NamedRule(
    name="score",
    words="The detector's own score, with a limit for the budget.",
    score="the detector's own score, if it is too large",
    view=View.SCORE,
)
LARGEST: Final = NamedRule(
    name="largest3",
    words="The 3 tags that are farthest from their means, taken together.",
    score="half the sum of the 3 largest squared deviations, each over its own level",
    view=View.X,
    largest=3,
)
LOG_ENERGY: Final = NamedRule(
    name="log-energy~",
    words="Deviation score on a logarithmic scale, averaged over the last minutes: a "
    "small excess that lasts.",
    score="average of the logarithm of the energy, if it is too large",
    view=View.ALL,
    memory=Memory.LOG_AVERAGE,
)
QUIET: Final = NamedRule(
    name="quiet~",
    words="Deviation score that has been too small over the last minutes: signals that "
    "stand still or are replayed.",
    score="average of the logarithm of the energy, if it is too small",
    view=View.ALL,
    memory=Memory.QUIET,
)
CUSUM: Final = NamedRule(
    name="cusum",
    words="Deviation of one tag from its attack-free mean, added up row by row in "
    "either direction: a small shift that lasts.",
    score="largest two-sided cumulative sum of a channel",
    view=View.X,
    memory=Memory.CUSUM,
)


def _checked(name: str, rule: Any) -> NamedRule:
    """Return a rule that a package registers, if it is one of that name."""
    if not isinstance(rule, NamedRule) or rule.name != name:
        raise TypeError(f"it is no NamedRule called {name!r}")
    return rule


# Ours in the order of tables (see `sightline.plugins`), then those of other packages.
RULES: Final = Registry[NamedRule](plugins.RULES, _checked)
# What else stands in tables of rules, with words: rules in use, and one that is made
# with another reference.
REFITTED: Final = "energy, refitted"
OTHER_WORDS: Final = {
    "p99": "The same for all detectors: deviation score (energy) above its 99th "
    "percentile in train.",
    "own": "The detector's own alarms, as given.",
    REFITTED: "Deviation score with a model of normal operation that was fitted on the "
    "first attack-free rows of the test.",
}


def rule_named(name: str) -> NamedRule | None:
    """Return a rule by its name; None for a joined or an unknown one.

    Examples
    --------
    >>> rule_named("largest5").largest
    5
    """
    if match := _LARGEST.fullmatch(name):
        n = max(int(match[1]), 1)
        return replace(
            LARGEST,
            name=name,
            words=LARGEST.words.replace("The 3 tags", f"The {n} tags"),
            score=LARGEST.score.replace("the 3 largest", f"the {n} largest"),
            largest=n,
        )
    return RULES.get(name)


def rule_words(name: str) -> str:
    """Return what a rule does, in whole sentences for operators.

    Parameters
    ----------
    name : str
        Any name that a table of rules may hold; of a rule of a package that is not
        installed here, the words say so.

    Examples
    --------
    >>> rule_words("x~").split(".")[0]
    'Largest deviation of one tag from its mean'
    >>> rule_words("cusum+z").startswith("Rings if any of cusum and z is over")
    True
    >>> rule_words("energy without LIT101").endswith("Leaves out LIT101.")
    True
    """
    base, _, channel = name.partition(" without ")
    rule = rule_named(base)
    if rule is not None:
        words = rule.words
    elif base in OTHER_WORDS:
        words = OTHER_WORDS[base]
    elif "+" in base:
        words = f"Rings if any of {names(base.split('+'))} is over its own limit."
    else:
        words = f"A rule called {base}, which this installation does not have."
    return f"{words} Leaves out {channel}." if channel else words


def members_of(name: str, has_stages: bool) -> tuple[str, ...]:
    """Return the names of the members of a rule.

    Parameters
    ----------
    name : str
        Such as ``"all"``, ``"z~"`` or ``"z+x~"``.
    has_stages : bool
        Whether the channels have stages; without, stages are left out of joined rules.

    Raises
    ------
    StreamError
        If there is no rule of that name, or it needs stages.

    Examples
    --------
    >>> members_of("rows", has_stages=False)
    ('z', 'x')
    >>> members_of("z+z~", has_stages=True)
    ('z', 'z~')
    """
    members: dict[str, None] = {}
    for part in name.split("+"):
        rule = _described(part)
        for member in rule.members or (part,):
            is_left_out = member != part and _described(member).needs_stages
            if has_stages or not is_left_out:
                members[member] = None
    if not has_stages and any(_described(member).needs_stages for member in members):
        raise StreamError(
            f"The rule {name!r} needs the stage of each channel: give `groups` in the "
            "stream's meta, or stages in tags.csv."
        )
    return tuple(members)


def _described(name: str) -> NamedRule:
    """Return a rule by its name, or say which names there are."""
    rule = rule_named(name)
    if rule is None:
        raise StreamError(
            f"There is no rule {name!r}; {did_you_mean(name, list(RULES))}"
        )
    return rule


def default_rules(has_stages: bool, is_one_sided: bool = False) -> tuple[str, ...]:
    """Return the names of the rules that are made by default, in order of the table.

    Parameters
    ----------
    has_stages : bool
        Whether the channels have stages.
    is_one_sided : bool
        Whether rows are a single score, of which only large values count.

    Examples
    --------
    >>> default_rules(has_stages=False)
    ('energy', 'z', 'x', 'z~', 'x~', 'rows', 'all')
    """
    if is_one_sided:
        return ("energy", "x", "x~", "x+x~")
    return tuple(
        name
        for name in plugins.OURS[plugins.RULES]
        if RULES[name].default_since and (has_stages or not RULES[name].needs_stages)
    )


def blank_member(name: str, step_s: float) -> Member:
    """Return a member whose centre, levels and limit are not set yet."""
    rule = _described(name)
    if rule.view is None:
        raise StreamError(f"The rule {name!r} is joined of others.")
    is_average = rule.memory not in (Memory.NONE, Memory.CUSUM)
    return Member(
        name=name,
        view=rule.view,
        memory=rule.memory,
        span=int(np.clip(round(SPAN_S / step_s), *SPAN_ROWS)) if is_average else 0,
        largest=rule.largest,
    )
