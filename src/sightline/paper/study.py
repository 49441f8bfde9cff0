"""A study as the paper presents it: order, titles, texts, and example attacks."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib.resources import files
from itertools import permutations

import numpy as np

from sightline.comparison.runs import (
    DetectorRuns,
    JointVerdict,
    TestbedRuns,
    group_runs,
    joint_verdicts,
    telemetry_of,
)
from sightline.detectors import list_detectors
from sightline.detectors.base import DetectorCard
from sightline.errors import StreamError
from sightline.evaluation.result import SegmentResult
from sightline.figures import Figure
from sightline.judgement.judge import telemetry_finding
from sightline.judgement.verdicts import SINGLED_OUT, Verdict
from sightline.show.phrases import Phrase, filled
from sightline.storage import Result
from sightline.testbeds import list_testbeds
from sightline.text import names

# The paper's testbeds come first, in its order.
_PAPER_ORDER = ("swat", "wadi", "hai")
# The residual space of detectors that have a channel for each tag.
OBSERVATION = "observation"
# Titles of cards that are too long for an axis or a narrow column.
SHORT = {"var": "VAR", "pca": "PCA"}


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
        (`sightline.comparison.runs`), and the sentence says what they add.
        """
        return tuple(
            replace(
                segment,
                verdict=joint.verdict,
                sentence=f"{segment.sentence or ''} {joint.note}".strip(),
            )
            for segment in runs.evaluation.segments
            for joint in [self.joint(runs, segment)]
        )

    def name_of(self, label: str) -> str:
        """Return the name of a detector's card, by its label; the label without one."""
        card = card_of(self._names[label])
        return label.lower() if card is None else card.name

    def joint(self, runs: DetectorRuns, segment: SegmentResult) -> JointVerdict:
        """Return the verdict on an attack of a first seed in view of all detectors."""
        return self._joint[runs.testbed, runs.label, segment.id]

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


def note(name: str, **phrases: Phrase) -> Phrase:
    """Return a note of ``texts/captions.toml``, with its fields filled in."""
    return filled(texts()["notes"][name], **phrases)


def _unambiguous(titles: dict[str, str]) -> dict[str, str]:
    """Return titles; plain names where two titles are the same."""
    counts = Counter(titles.values())
    return {
        name: name if counts[title] > 1 else title for name, title in titles.items()
    }


# ---- one attack for each of the paper's four questions, chosen by rule ---------------

# Verdicts of attacks that no repair shows.
NO_EVIDENCE = (Verdict.WEAK_EVIDENCE, Verdict.NOT_IN_TELEMETRY)
# An attack's AUC is clearly above chance from the first value on, and near chance up to
# the second.
CLEAR_AUC = 0.7
NEAR_CHANCE = 0.6


def is_missed(segment: SegmentResult) -> bool:
    """Return whether a verdict says that the attack was missed, and why."""
    return segment.verdict not in (None, *SINGLED_OUT, Verdict.UNDECIDED)


@dataclass(frozen=True)
class Example:
    """One attack as the residuals of one detector show it.

    Parameters
    ----------
    runs : DetectorRuns
        The detector on the testbed.
    segment : SegmentResult
        The attack, of the first seed, with the verdict in view of all detectors of the
        testbed (`sightline.comparison.runs`) and a sentence that says so.
    telemetry : str
        What the telemetry says of the attack, the same for all detectors.
    """

    runs: DetectorRuns
    segment: SegmentResult
    telemetry: str


@dataclass(frozen=True, kw_only=True)
class ExampleCase:
    """The answer to one question.

    Parameters
    ----------
    question : str
        The question.
    lines : tuple of tuple of Example
        Rows of the table, each with one detector or several; empty without an example.
    is_of_all : bool
        Whether the line is about all detectors of a testbed.
    is_range : bool
        Whether values are the lowest and the highest of the detectors, not medians.
    remark : str, optional
        Name of the note on how the example differs from the paper's.
    """

    question: str
    lines: tuple[tuple[Example, ...], ...] = ()
    is_of_all: bool = False
    is_range: bool = False
    remark: str | None = None


def choose_cases(study: PaperStudy) -> tuple[ExampleCase, ...]:
    """Return the clearest attack for each question, if there is any.

    Verdicts are those of all detectors of a testbed together.

    - No evidence: no repair shows the attack, for as many as possible of the detectors
      with a verdict; of these attacks the one with the lowest median AUC.
    - Local: detected in a smaller residual space and diluted in a larger one, the
      largest gap in AUC first; else near chance and uncovered in the larger one; else
      diluted alone.
    - Threshold: verdict threshold and an AUC of at least `CLEAR_AUC`; the least covered
      first, then the highest AUC.
    - Drift: verdict drift; D_eff below 0 first, then the SDR nearest 0.

    Parameters
    ----------
    study : PaperStudy
        The results; verdicts are those of each detector's first seed.

    Returns
    -------
    tuple of ExampleCase
        Four, in this order. A case without an example has no lines.
    """
    attacks = [
        examples
        for testbed in study.testbeds
        for examples in examples_on(study, testbed)
    ]
    return (
        _without_evidence(attacks),
        _local(attacks),
        _single(
            "Is the threshold the bottleneck?",
            attacks,
            lambda s: s.verdict == Verdict.THRESHOLD and s.auc >= CLEAR_AUC,
            order=lambda s: (s.coverage, -s.auc),
            as_in_paper=lambda s: s.coverage == 0,
            remark="threshold",
        ),
        _single(
            "Is drift hiding the attack?",
            attacks,
            lambda s: s.verdict == Verdict.DRIFT,
            order=lambda s: ((s.d_eff or 0.0) >= 0, abs(s.sdr or 0.0)),
            as_in_paper=lambda s: (s.d_eff or 0.0) < 0,
            remark="drift",
        ),
    )


def listed_ids(id_: str) -> tuple[str, ...]:
    """Return the attacks of the list that a segment stands for.

    Examples
    --------
    >>> listed_ids("10+11"), listed_ids("7/2"), listed_ids("unlisted-3")
    (('10', '11'), ('7',), ())
    """
    if id_.startswith("unlisted-"):
        return ()
    return tuple(re.sub(r"/\d+$", "", part) for part in id_.split("+"))


def examples_on(study: PaperStudy, testbed: str) -> list[list[Example]]:
    """Return each attack of a testbed, in order, as each of its detectors shows it."""
    judged = [(runs, study.judged(runs)) for runs in study.on(testbed).detectors]
    return [
        [
            Example(runs, segments[attack.places[runs.label]], telemetry)
            for runs, segments in judged
            if runs.label in attack.places
        ]
        for attack in study.on(testbed).attacks
        for telemetry in [telemetry_finding(telemetry_of(attack))]
    ]


def asked_cases(study: PaperStudy, cases: Sequence[str]) -> list[ExampleCase]:
    """Return attacks that somebody asked for: each detector, then groups of them.

    Parameters
    ----------
    study : PaperStudy
        The results.
    cases : sequence of str
        Testbed and attack each, such as ``"swat:3"``: the attack of the owners' list.

    Raises
    ------
    StreamError
        If there is no such testbed or attack; the message says what there is.
    """
    found = []
    for case in cases:
        plant, _, attack = case.partition(":")
        testbeds = [t for t in study.testbeds if plant.lower() in (t, plant_of(t))]
        if not attack or not testbeds:
            raise StreamError(
                f"Case {case!r} must name a testbed of these results and an attack, "
                f"such as {study.testbeds[0]}:3; testbeds: {names(study.testbeds)}."
            )
        for testbed in testbeds:
            every = examples_on(study, testbed)
            of_attack = [
                examples
                for examples in every
                if any(attack in listed_ids(one.segment.id) for one in examples)
            ]
            if not of_attack:
                ids = dict.fromkeys(one.segment.id for row in every for one in row)
                raise StreamError(
                    f"Case {case!r}: there is no attack {attack} on {testbed}; it has "
                    f"{names(list(ids), 40)}."
                )
            found += [one for row in of_attack for one in _asked(case, row)]
    return found


def _asked(case: str, examples: Sequence[Example]) -> Iterator[ExampleCase]:
    """Yield the lines of an attack: each detector, observation-space ones, and all."""
    yield ExampleCase(question=case, lines=tuple((one,) for one in examples))
    observed = tuple(one for one in examples if space_of(one.runs) == OBSERVATION)
    if len(observed) > 1:
        yield ExampleCase(question=case, lines=(observed,), is_range=True)
    if len(examples) > 1:
        yield ExampleCase(question=case, lines=(tuple(examples),), is_of_all=True)


def _without_evidence(attacks: Sequence[Sequence[Example]]) -> ExampleCase:
    """Return the attack that no repair shows, for the largest share of detectors."""
    question = "Is there residual evidence?"
    candidates: list[tuple[float, float, int, list[Example], int]] = []
    for attack in attacks:
        judged = [one for one in attack if one.segment.verdict is not None]
        without = [one for one in judged if one.segment.verdict in NO_EVIDENCE]
        if without:
            share = len(without) / len(judged)
            auc = float(np.median([example.segment.auc for example in without]))
            candidates.append((-share, auc, len(candidates), without, len(judged)))
    if not candidates:
        return ExampleCase(question=question)
    *_, without, n_judged = min(candidates, key=lambda item: item[:3])
    is_of_all = len(without) == n_judged > 1
    return ExampleCase(question=question, lines=(tuple(without),), is_of_all=is_of_all)


def _local(attacks: Sequence[Sequence[Example]]) -> ExampleCase:
    """Return an attack that a smaller space detects and a larger one loses."""
    question = "Is the evidence local?"
    candidates = []
    for number, attack in enumerate(attacks):
        for small, large in permutations(attack, 2):
            sizes = [one.runs.evaluation.stream.p for one in (small, large)]
            is_other_space = space_of(small.runs) != space_of(large.runs)
            if sizes[0] >= sizes[1] or not is_other_space:
                continue
            a, b = small.segment, large.segment
            is_diluted = b.verdict == Verdict.DILUTED
            is_lost = is_missed(b) and b.auc <= NEAR_CHANCE and b.coverage == 0
            if a.verdict == Verdict.DETECTED and (is_diluted or is_lost):
                gap = a.auc - b.auc
                candidates.append((not is_diluted, -gap, number, small, large))
    if candidates:
        *_, small, large = min(candidates, key=lambda item: item[:3])
        return ExampleCase(question=question, lines=((small,), (large,)))
    return _single(
        question,
        attacks,
        lambda s: s.verdict == Verdict.DILUTED,
        order=lambda s: (s.coverage, s.auc),
        as_in_paper=lambda s: False,
        remark="local",
    )


def _single(
    question: str,
    attacks: Sequence[Sequence[Example]],
    is_example: Callable[[SegmentResult], bool],
    *,
    order: Callable[[SegmentResult], tuple[float, float]],
    as_in_paper: Callable[[SegmentResult], bool],
    remark: str,
) -> ExampleCase:
    """Return the example that is first in an order, remarked if not as in the paper."""
    examples = [one for attack in attacks for one in attack if is_example(one.segment)]
    if not examples:
        return ExampleCase(question=question)
    best = min(examples, key=lambda example: order(example.segment))
    unlike = None if as_in_paper(best.segment) else remark
    return ExampleCase(question=question, lines=((best,),), remark=unlike)
