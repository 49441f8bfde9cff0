"""The glossary: one source for the page's tooltips and for ``docs/glossary.md``.

Most entries are in ``assets/glossary.toml``. Verdicts, figures and what became of a
promise are read from their own tables, so that they have no second text.
Numbers in the texts are constants of the method.
"""

import tomllib
from dataclasses import dataclass, replace
from importlib.resources import files

from sightline.audit import attack_facts
from sightline.comparison.paired import STAR_LEVEL
from sightline.figures import FIGURES
from sightline.judgement import event_test, ladder
from sightline.judgement.verdicts import all_infos
from sightline.metrics import alarm_load
from sightline.plugins import OURS, RULES
from sightline.rules import choose as words
from sightline.rules.named import OTHER_WORDS, rule_words
from sightline.show.rules import KEPT_WORDS, rule_key
from sightline.text import DAGGER, Labelling, as_labelled, share, slug

PAPER_GROUP = "The paper's figures"
FIGURE_GROUP = "Figures under their published names"
PREFACE = """\
# Glossary

Every term that the report marks with a dotted line, in the operator's words, with the
paper's word beside it where there is one. The page shows the same texts where the term
stands: under the pointer, at keyboard focus, and at a touch.

`markdown()` of `sightline/report/glossary.py` makes this page, from
`assets/glossary.toml` beside it and from the tables of verdicts, rules and figures.
"""


@dataclass(frozen=True, kw_only=True)
class Term:
    """One entry of the glossary.

    Parameters
    ----------
    key : str
        Unique; the page's link to it is ``#term-`` and the key.
    name, paper : str
        The operator's words, and the paper's word for the same; empty where there is
        none.
    text : str
        What it means.
    group : str
        Heading under which it is listed.
    """

    key: str
    name: str
    text: str
    group: str
    paper: str = ""


def numbers() -> dict[str, object]:
    """Return the constants of the method that texts of the glossary mention."""
    return {
        "moves": attack_facts.MOVES,
        "still": f"{attack_facts.STILL:.2f}",
        "off": f"{alarm_load.OFF_S / 60:.0f}",
        "few": words.FEW,
        "flood": alarm_load.FLOOD,
        "chatter": alarm_load.CHATTER,
        "manageable": alarm_load.MANAGEABLE_PER_DAY,
        "most": alarm_load.MOST_PER_DAY,
        "level": share(event_test.LEVEL),
        "effect": f"{100 * event_test.EFFECT:.0f}",
        "peak": f"{event_test.PEAK_EFFECT:.0f}",
        "onset": event_test.ONSET_ROWS,
        "sure": share(ladder.SURE),
        "unsure": share(ladder.UNSURE),
        "undecided": share(ladder.UNDECIDED),
        "draws": ladder.N_DRAWS,
        "most_channels": max(ladder.SIZES),
        "star": share(STAR_LEVEL),
        "dagger": DAGGER,
    }


def glossary(labels: Labelling = Labelling.ATTACKS) -> dict[str, Term]:
    """Return all entries by key, group by group, in the words that fit labels.

    Examples
    --------
    >>> glossary()["deviation-score"].paper
    'energy'
    >>> glossary()["verdict-diluted"].name
    'clearest in few of many tags'
    """
    asset = files("sightline.report") / "assets" / "glossary.toml"
    values = numbers()
    terms = [
        Term(
            key=key,
            group=group,
            name=entry["name"],
            paper=entry.get("paper", ""),
            text=entry["text"].format(**values),
        )
        for group, entries in tomllib.loads(asset.read_text(encoding="utf-8")).items()
        for key, entry in entries.items()
    ]
    for info in all_infos():
        meaning = f"{info.meaning[:1].upper()}{info.meaning[1:].rstrip('.')}."
        terms.append(
            Term(
                key=f"verdict-{info.word}",
                name=info.in_words(),
                paper=info.word,
                text=f"{meaning} What would help: {info.repair}.",
                group="Verdicts",
            )
        )
    terms += [
        Term(
            key=rule_key(name),
            name=f"rule {name!r}",
            text=rule_words(name),
            group="Alarm rules",
        )
        for name in (*OTHER_WORDS, *OURS[RULES])
    ]
    terms += [
        Term(
            key=f"kept-{slug(kept)}",
            name=word,
            text=meaning,
            group="What became of a promise",
        )
        for kept, (word, meaning) in KEPT_WORDS.items()
    ]
    terms += [
        Term(
            key=entry.term,
            name=entry.name,
            paper="" if entry.symbol == entry.name else entry.symbol,
            text=entry.sentence,
            group=PAPER_GROUP if entry.on is None else FIGURE_GROUP,
        )
        for entry in FIGURES.values()
    ]
    return {
        term.key: replace(
            term,
            name=as_labelled(term.name, labels),
            text=as_labelled(term.text, labels),
        )
        for term in terms
    }


def groups(labels: Labelling = Labelling.ATTACKS) -> dict[str, list[Term]]:
    """Return the entries by heading, in the order of the glossary."""
    found: dict[str, list[Term]] = {}
    for term in glossary(labels).values():
        found.setdefault(term.group, []).append(term)
    return found


def markdown() -> str:
    """Return the text of ``docs/glossary.md``."""
    parts = [PREFACE]
    for group, terms in groups().items():
        rows = [
            f"| {_cell(term.name)} | {_cell(term.paper)} | {_cell(term.text)} |"
            for term in terms
        ]
        head = "| term | in the paper | meaning |\n|---|---|---|"
        parts.append(f"## {group}\n\n{head}\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
