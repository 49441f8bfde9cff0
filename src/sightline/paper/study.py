"""The results of a study, by testbed and detector; several of a pair are its seeds."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sightline.comparison.runs import group_runs
from sightline.detectors import list_detectors
from sightline.detectors.base import DetectorCard
from sightline.evaluation.result import Evaluation, SegmentResult
from sightline.storage import Result
from sightline.testbeds import list_testbeds

# The paper's testbeds come first, in its order.
_PAPER_ORDER = ("swat", "wadi", "hai")


@dataclass(frozen=True)
class Spread:
    """A figure over seeds: its mean, lowest and highest value."""

    mean: float
    low: float
    high: float
    n: int


def value_of(evaluation: Evaluation, figure: str) -> float | None:
    """Return a figure by its place, such as ``rank.roc_auc``; None if not known."""
    block, _, name = figure.partition(".")
    found = getattr(getattr(evaluation, block, None), name, None)
    return None if found is None or not np.isfinite(found) else float(found)


@dataclass(frozen=True, eq=False)
class Pair:
    """One detector on one testbed, with all its seeds."""

    testbed: str
    detector: str
    seeds: tuple[Result, ...]

    @property
    def first(self) -> Evaluation:
        """Its first seed, which stands for all where words are told."""
        return self.seeds[0].evaluation

    def spread(
        self, figure: str | Callable[[Evaluation], float | None]
    ) -> Spread | None:
        """Return a figure over seeds; None where no seed has it."""
        known = []
        for result in self.seeds:
            value = (
                value_of(result.evaluation, figure)
                if isinstance(figure, str)
                else figure(result.evaluation)
            )
            if value is not None:
                known.append(value)
        if not known:
            return None
        low, high = min(known), max(known)
        # Rounding may put the mean of equal values beside them.
        mean = float(np.clip(np.mean(known), low, high))
        return Spread(mean, low, high, len(known))

    def mean(self, figure: str) -> float | None:
        """Return the mean over seeds."""
        spread = self.spread(figure)
        return None if spread is None else spread.mean

    @property
    def is_mean_dominated(self) -> bool:
        """Whether extreme points make the mean drift of any seed: the dagger."""
        return any(
            bool(getattr(result.evaluation.drift, "mean_dominated", False))
            for result in self.seeds
        )

    @property
    def card(self) -> DetectorCard | None:
        """What it is, if it is one of ours; a study may call it by another name."""
        meta = self.first.provenance.get("meta") or {}
        return card_of(str(meta.get("detector_name", self.detector)))

    @property
    def space(self) -> str | None:
        """What its residuals are of, where that is known."""
        card = self.card
        return self.first.stream.space or (None if card is None else card.space)


class Study:
    """All pairs of a study, their names as people read them, and their attacks."""

    def __init__(self, results: Sequence[Result]) -> None:
        grouped: dict[tuple[str, str], list[Result]] = defaultdict(list)
        for result in results:
            grouped[result.testbed, result.detector].append(result)
        pairs = [Pair(*key, tuple(seeds)) for key, seeds in grouped.items()]
        self.testbeds = sorted({pair.testbed for pair in pairs}, key=_testbed_order)
        self.detectors = sorted({pair.detector for pair in pairs}, key=_detector_order)
        self._by_testbed = {
            testbed: sorted(
                (pair for pair in pairs if pair.testbed == testbed), key=_by_roc_auc
            )
            for testbed in self.testbeds
        }
        self._attacks: dict[str, list[dict[str, int]]] = {}

    @property
    def pairs(self) -> list[Pair]:
        """All pairs, by testbed, the highest ROC-AUC first."""
        return [pair for testbed in self.testbeds for pair in self.on(testbed)]

    def on(self, testbed: str) -> list[Pair]:
        """Return the pairs of a testbed, the highest ROC-AUC first."""
        return self._by_testbed[testbed]

    def pair(self, testbed: str, detector: str) -> Pair | None:
        """Return one pair, if the study has it."""
        return next((p for p in self.on(testbed) if p.detector == detector), None)

    def card(self, detector: str) -> DetectorCard | None:
        """Return what a detector is, if it is one of ours."""
        return next(pair.card for pair in self.pairs if pair.detector == detector)

    @cached_property
    def has_seeds(self) -> bool:
        """Whether any pair has more than one seed."""
        return any(len(pair.seeds) > 1 for pair in self.pairs)

    @cached_property
    def _detector_titles(self) -> dict[str, str]:
        cards = {name: card_of(name) for name in self.detectors}
        titles = {name: card.title if card else name for name, card in cards.items()}
        return _told_apart(titles)

    @cached_property
    def _testbed_titles(self) -> dict[str, str]:
        return _told_apart({name: _testbed_title(name) for name in self.testbeds})

    def detector_title(self, name: str) -> str:
        """Return what people call a detector."""
        return self._detector_titles[name]

    def short_title(self, name: str) -> str:
        """Return what fits above a narrow column: the title, or what one types."""
        title = self.detector_title(name)
        short = title if len(title) <= 12 else min(title, name, key=len)
        return short if len(short) <= 16 else f"{short[:15]}…"

    def testbed_title(self, name: str) -> str:
        """Return what people call a testbed."""
        return self._testbed_titles[name]

    def attacks(self, testbed: str) -> list[dict[str, int]]:
        """Return each attack of a testbed as its place among each detector's segments.

        Segments are matched in time (else by row) with those of the detector that has
        most of them, in each detector's first seed.
        """
        if testbed not in self._attacks:
            results = [r for pair in self.on(testbed) for r in pair.seeds]
            (runs,) = group_runs(results)
            self._attacks[testbed] = [dict(attack.places) for attack in runs.attacks]
        return self._attacks[testbed]

    def rows(self, testbed: str) -> list[dict[str, SegmentResult]]:
        """Return what each detector's first seed has on each attack of a testbed."""
        firsts = {pair.detector: pair.first for pair in self.on(testbed)}
        return [
            {name: firsts[name].segments[place] for name, place in attack.items()}
            for attack in self.attacks(testbed)
        ]


def card_of(detector: str) -> DetectorCard | None:
    """Return the card of a detector by its name or title, if it is one of ours."""
    wanted = detector.lower()
    return next(
        (c for c in list_detectors() if wanted in (c.name.lower(), c.title.lower())),
        None,
    )


def plant_of(testbed: str) -> str:
    """Return the plant without its release, in lower case.

    Examples
    --------
    >>> plant_of("WADI-A1")
    'wadi'
    """
    return testbed.lower().partition("-")[0]


def _testbed_title(name: str) -> str:
    for card in list_testbeds():
        if plant_of(name) == card.name:
            release = name.partition("-")[2]
            return f"{card.title} {release}".strip()
    return name


def _told_apart(titles: dict[str, str]) -> dict[str, str]:
    """Return titles; plain names where two would read the same."""
    counts = Counter(titles.values())
    return {
        name: name if counts[title] > 1 else title for name, title in titles.items()
    }


def _testbed_order(name: str) -> tuple[int, str]:
    plant = plant_of(name)
    known = plant in _PAPER_ORDER
    return (_PAPER_ORDER.index(plant) if known else len(_PAPER_ORDER), name)


def _detector_order(name: str) -> tuple[int, str]:
    """Put those with a card first, in the order of the cards."""
    names = [card.name for card in list_detectors()]
    card = card_of(name)
    return (len(names) if card is None else names.index(card.name), name)


def _by_roc_auc(pair: Pair) -> float:
    mean = pair.mean("rank.roc_auc")
    return 1.0 if mean is None else -mean
