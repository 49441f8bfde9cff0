"""A study as the paper presents it: titles, captions, order, trials of findings."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache, cached_property
from importlib.resources import files

import numpy as np

from sightline.comparison.joint import JointVerdict, joint_verdicts
from sightline.comparison.runs import DetectorRuns, TestbedRuns, group_runs
from sightline.detectors import list_detectors
from sightline.detectors.base import DetectorCard
from sightline.evaluation.result import SegmentResult
from sightline.figures import Figure
from sightline.show.phrases import Phrase, filled
from sightline.storage import Result
from sightline.testbeds import list_testbeds

# The paper's testbeds come first, in its order.
_PAPER_ORDER = ("swat", "wadi", "hai")
# Titles of cards that are too long for an axis or a narrow column.
SHORT = {"var": "VAR", "pca": "PCA"}


class Upheld(StrEnum):
    """Whether a finding holds."""

    HOLDS = "holds"
    FAILS = "does not hold"
    OPEN = "cannot be judged"


@dataclass(frozen=True)
class FindingTrial:
    """The outcome of a finding in one place.

    Parameters
    ----------
    where : str
        A testbed, or two testbeds, by title.
    outcome : Upheld
        Whether the finding holds there.
    sentence : str
        The reason, with the numbers of the study.
    """

    where: str
    outcome: Upheld
    sentence: str


class PaperStudy:
    """The runs of a study in the order of the paper's tables, and their titles.

    Parameters
    ----------
    results : sequence of Result
        As `read_results` returns them.

    Attributes
    ----------
    testbeds : list of str
        Names of the testbeds: those of the paper first, the rest alphabetically.
    detectors : list of str
        Labels of the detectors: those with a card first, in the order of the cards.
    """

    def __init__(self, results: Sequence[Result]) -> None:
        # On each testbed the highest ROC-AUC comes first, as in the paper; without
        # attacks there is none, which comes last.
        self._runs = {}
        for runs in group_runs(results):
            means = [one.mean(Figure.ROC_AUC) for one in runs.detectors]
            order = np.argsort([1.0 if m is None else -m for m in means], kind="stable")
            ordered = tuple(runs.detectors[k] for k in order)
            self._runs[runs.testbed] = TestbedRuns(runs.testbed, ordered)
        places = {plant: k for k, plant in enumerate(_PAPER_ORDER)}
        self.testbeds = sorted(
            self._runs, key=lambda name: (places.get(plant_of(name), len(places)), name)
        )
        self._names = {runs.label: runs.detector for runs in self.runs}
        listed = [card.name for card in list_detectors()]
        rank = {}
        for label, name in self._names.items():
            card = card_of(name)
            rank[label] = len(listed) if card is None else listed.index(card.name)
        self.detectors = sorted(self._names, key=lambda label: (rank[label], label))

    @property
    def runs(self) -> list[DetectorRuns]:
        """Each detector on each testbed, by testbed, the highest ROC-AUC first."""
        return [runs for name in self.testbeds for runs in self._runs[name].detectors]

    def on(self, testbed: str) -> TestbedRuns:
        """Return the runs on a testbed, the detector with the highest ROC-AUC first.

        Detectors without a ROC-AUC, that is, without attacks, come last.
        """
        return self._runs[testbed]

    def runs_of(self, detector: str) -> list[DetectorRuns]:
        """Return the runs of a detector, given by its label, in the testbeds' order."""
        return [runs for runs in self.runs if runs.label == detector]

    @cached_property
    def _joint(self) -> dict[tuple[str, str, str], JointVerdict]:
        return joint_verdicts(self._runs.values())

    def judged(self, runs: DetectorRuns) -> tuple[SegmentResult, ...]:
        """Return the attacks of a detector's first seed with their joint verdicts.

        The verdict is the one in view of all detectors of the testbed
        (`sightline.comparison.joint`), and the sentence says what they add.
        """
        return tuple(
            replace(
                segment,
                verdict=joint.verdict,
                sentence=f"{segment.sentence or ''} {joint.note}".strip(),
            )
            for segment in runs.evaluation.segments
            for joint in [self._joint[runs.testbed, runs.label, segment.id]]
        )

    @cached_property
    def has_seeds(self) -> bool:
        """Whether any detector has more than one seed on a testbed."""
        return any(len(runs.results) > 1 for runs in self.runs)

    @cached_property
    def _detector_titles(self) -> dict[str, str]:
        titles = {}
        for label, name in self._names.items():
            card = card_of(name)
            if card is None:
                titles[label] = label
            else:
                titles[label] = SHORT.get(card.name, card.title) + label[len(name) :]
        return _unambiguous(titles)

    @cached_property
    def _testbed_titles(self) -> dict[str, str]:
        cards = {card.name: card.title for card in list_testbeds()}
        titles = {}
        for name in self.testbeds:
            title = cards.get(plant_of(name))
            release = name.partition("-")[2]
            titles[name] = name if title is None else f"{title} {release}".strip()
        return _unambiguous(titles)

    def detector_title(self, label: str) -> str:
        """Return the title of a detector; its label if it has no card.

        The same in all tables and figures.
        """
        return self._detector_titles[label]

    def short_title(self, label: str) -> str:
        """Return the first 16 letters of the title, for a narrow column."""
        title = self.detector_title(label)
        return title if len(title) <= 16 else f"{title[:15]}…"

    def testbed_title(self, name: str) -> str:
        """Return the title of a testbed with its release; its name without a card."""
        return self._testbed_titles[name]


def card_of(detector: str) -> DetectorCard | None:
    """Return the card of a detector by its name or title; None if it has none.

    Examples
    --------
    >>> card_of("GeCo").name, card_of("unheard of")
    ('geco', None)
    """
    wanted = detector.lower()
    return next(
        (c for c in list_detectors() if wanted in (c.name.lower(), c.title.lower())),
        None,
    )


def card_of_runs(runs: DetectorRuns) -> DetectorCard | None:
    """Return the card of the detector that made the residuals, whatever its label."""
    meta = runs.evaluation.provenance.meta
    return card_of(str(meta.get("detector_name", runs.detector)))


def space_of(runs: DetectorRuns) -> str | None:
    """Return the residual space by the stream, else by the card; None if unknown."""
    card = card_of_runs(runs)
    return runs.evaluation.stream.space or (None if card is None else card.space)


def plant_of(testbed: str) -> str:
    """Return the plant without its release, in lower case.

    Examples
    --------
    >>> plant_of("WADI-A1")
    'wadi'
    """
    return testbed.lower().partition("-")[0]


@cache
def texts() -> dict[str, dict[str, str]]:
    """Return the captions of tables and figures, and notes below tables, by name."""
    import msgspec

    path = files("sightline.paper") / "texts" / "captions.toml"
    return msgspec.toml.decode(path.read_bytes(), type=dict[str, dict[str, str]])


def caption(table: str, **phrases: Phrase) -> Phrase:
    """Return the caption of a table, with its fields filled in."""
    return filled(texts()["tables"][table], **phrases)


def note(name: str, **phrases: Phrase) -> Phrase:
    """Return a note of ``texts/captions.toml``, with its fields filled in."""
    return filled(texts()["notes"][name], **phrases)


def _unambiguous(titles: dict[str, str]) -> dict[str, str]:
    """Return titles; plain names where two titles are the same."""
    counts = Counter(titles.values())
    return {
        name: name if counts[title] > 1 else title for name, title in titles.items()
    }
