"""What to cite: entries for BibTeX, with what the sources themselves state."""

import re
from functools import cache
from importlib.resources import files

from sightline.paper.markup import escaped_latex, one_line
from sightline.paper.study import Study, plant_of

PAPER = "shi-what-the-detector-can-see"
LEDOIT_WOLF = "ledoit2004wellconditioned"
_DETECTORS = {
    "gdn": "deng2021gdn",
    "fusagnet": "han2022fusagnet",
    "tranad": "tuli2022tranad",
    "nsibf": "feng2021nsibf",
    "geco": "wolsing2025geco",
}
_TESTBEDS = {
    "swat": "mathur2016swat",
    "wadi": "ahmed2017wadi",
    "hai": "shin2021hai",
}


@cache
def entries() -> dict[str, str]:
    """Return all entries by key."""
    path = files("sightline.paper") / "paper_tables" / "references.bib"
    parts = re.split(r"\n(?=@)", path.read_text(encoding="utf-8"))
    return {part.partition("{")[2].partition(",")[0]: part.strip() for part in parts}


def cited(study: Study) -> list[str]:
    """Return the entries that a study should cite, the paper first."""
    keys = [PAPER]
    estimators = {pair.first.reference.estimator for pair in study.pairs}
    if any("ledoit" in str(estimator) for estimator in estimators):
        keys.append(LEDOIT_WOLF)
    for name in study.detectors:
        card = study.card(name)
        if card is not None and card.name in _DETECTORS:
            keys.append(_DETECTORS[card.name])
    keys += [
        _TESTBEDS[plant_of(name)]
        for name in study.testbeds
        if plant_of(name) in _TESTBEDS
    ]
    return [entries()[key] for key in dict.fromkeys(keys)] + [_software(study)]


def _software(study: Study) -> str:
    versions = sorted(
        {str(pair.first.provenance.get("sightline", "")) for pair in study.pairs} - {""}
    )
    version = escaped_latex(one_line(", ".join(versions))) or "unknown"
    return (
        "@misc{sightline,\n"
        "  author = {{The Sightline authors}},\n"
        "  title  = {Sightline},\n"
        f"  note   = {{Software, version {version}}}\n"
        "}"
    )
