"""Detectors and testbeds compared, from results alone."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations, count, pairwise, product

import numpy as np

from sightline.audit.attack_facts import AttackFacts
from sightline.audit.record import RANDOM_KEY
from sightline.comparison.differences import (
    PRIMARY,
    Difference,
    MeanRanks,
    PairedTestbed,
    SeededInterval,
    checked_primary,
)
from sightline.comparison.runs import (
    DetectorRuns,
    MatchedAttack,
    TestbedRuns,
    group_runs,
    joint_verdicts_on,
    telemetry_of,
)
from sightline.evaluation.result import Interval, plain
from sightline.figures import Figure, with_interval
from sightline.judgement.judge import METHOD
from sightline.judgement.verdicts import Count, RungName, Verdict
from sightline.metrics.alarm_load import AlarmLoad, AttackAlarms
from sightline.metrics.intervals import N_REPLICATES
from sightline.metrics.ranking import (
    FEWEST_RANKED,
    RankCorrelation,
    rank_correlation,
    spearman,
)
from sightline.parallel import one_thread_each
from sightline.progress import Progress, Step, StepKind, silent
from sightline.showing import Shown
from sightline.storage import Given, results_of
from sightline.text import Labelling, names, plural

# Figures by which detectors are ranked on each testbed.
RANKED_FIGURES = (Figure.ROC_AUC, Figure.PAUC_1, Figure.P_FULL, Figure.F1)
# Figures whose ranking of detectors is compared between testbeds.
TRANSFER_FIGURES = (Figure.ROC_AUC, Figure.MEDIAN_D_FULL, Figure.P_FULL)
SEEN_BY_ALL = "detected by all"
# How many channels a notice names before it counts the rest.
_MOST = 4


@dataclass(frozen=True)
class SeededFigure:
    """A figure of one detector on one testbed, over its seeds.

    Parameters
    ----------
    testbed, detector, figure : str
        Names.
    n_seeds : int
        Seeds that have the figure.
    mean, low, high : float, optional
        Mean, lowest and highest over seeds; None if no seed has the figure.
    interval : tuple, optional
        95% interval of the mean over attacks, calm time and seeds; None if undefined.
    seeds_in_interval : bool
        Whether the spread over seeds is part of the interval: from three seeds on.
    """

    testbed: str
    detector: str
    figure: str
    n_seeds: int = 0
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    interval: Interval | None = None
    seeds_in_interval: bool = False


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """The order of detectors by one figure, and how often it holds over seeds.

    The attacks are those of the test: whether the order would hold on other attacks of
    these kinds is what `Difference` says.

    Parameters
    ----------
    testbed, figure : str
        Names of the testbed and the figure.
    order : tuple of str
        Labels by the mean over seeds, highest first.
    n_seeds : tuple of int
        Seeds of each detector, in this order.
    holds : float
        Share of seed combinations (one seed for each detector) with the whole order.
    above : tuple of float
        Share of seed pairs in which each detector is above the next. A tie counts half.
    """

    testbed: str
    figure: str
    order: tuple[str, ...]
    n_seeds: tuple[int, ...]
    holds: float
    above: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Whether two detectors of a testbed find the same attacks strong.

    Parameters
    ----------
    testbed : str
        Name of the testbed.
    detectors : tuple of str
        Labels of the two detectors.
    rho : float, optional
        Spearman's rank correlation of D_FULL over the attacks that both detectors have,
        the mean over all pairs of their seeds. From -1 (opposite order) to 1 (same
        order); 0 is no relation. None if they share fewer than three attacks, or if all
        attacks are equally strong for one of them.
    rho_range : tuple of float, optional
        Lowest and highest rho over pairs of seeds.
    n_matched : int
        Attacks that both detectors have (first seeds).
    n_alone : tuple of int
        Attacks that only the first, and only the second detector has.
    """

    testbed: str
    detectors: tuple[str, str]
    rho: float | None
    rho_range: tuple[float, float] | None
    n_matched: int
    n_alone: tuple[int, int]


@dataclass(frozen=True)
class Transfer:
    """Whether the ranking of detectors on one testbed holds on another.

    `correlation` is Spearman's, of the means over seeds of the detectors that both
    testbeds have.
    """

    figure: str
    testbeds: tuple[str, str]
    correlation: RankCorrelation


@dataclass(frozen=True, kw_only=True)
class SideBySide:
    """One attack of a testbed, and its verdict from each detector that has it.

    Parameters
    ----------
    testbed, attack : str
        Names; the attack's is that of `sightline.comparison.runs.MatchedAttack`.
    joint_verdicts : dict
        By detector: the verdict in view of all detectors of the testbed, of the first
        seed (`sightline.comparison.runs`). This is the one to show.
    verdicts, confidences, spaces : dict
        By detector, of its first seed: the verdict of the stream alone, how sure it is
        (None in results of earlier versions), and the residual space.
    vetoed_by : tuple of str
        Detectors that show the attack though the telemetry's own test does not.
    telemetry : AttackFacts, optional
        What the telemetry says of the attack; None where it was not judged.
    seen_by : tuple of str
        The detectors that detect the attack.
    reading : str
        The paper's interpretation: evidence in one residual space that another, pooled
        over more channels, does not show.
    """

    testbed: str
    attack: str
    joint_verdicts: dict[str, str]
    verdicts: dict[str, str]
    confidences: dict[str, float | None]
    spaces: dict[str, str | None]
    vetoed_by: tuple[str, ...]
    telemetry: AttackFacts | None
    seen_by: tuple[str, ...]
    reading: str

    @property
    def is_seen_by_all(self) -> bool:
        """Whether every detector detects the attack."""
        return self.reading == SEEN_BY_ALL


@dataclass(frozen=True, kw_only=True)
class Detections:
    """How many attacks a detector's present rule catches, with chance and cost.

    Of the first seed, on the whole test. All but the names is None for results of
    earlier versions and without attacks.

    Parameters
    ----------
    testbed, detector : str
        Names.
    rule : RungName, optional
        The present rule: ``own-rule`` or ``probe``.
    attacks : AttackAlarms, optional
        Attacks that it catches.
    found, rings : Count, optional
        Attacks that its verdicts call found, and attacks with any alarm.
    is_standing : bool
        Whether it is in alarm so long in calm time that its alarms say little.
    share_in_alarm : float, optional
        Share of attack-free time in alarm.
    load : AlarmLoad, optional
        What its alarms cost; None in results of earlier versions.
    """

    testbed: str
    detector: str
    rule: RungName
    found: Count | None
    rings: Count | None
    is_standing: bool
    share_in_alarm: float | None
    load: AlarmLoad | None = None
    attacks: AttackAlarms | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison(Shown):
    """The result of `compare`.

    Parameters
    ----------
    figures : tuple of SeededFigure
        Each figure of each detector on each testbed, over seeds.
    rankings : tuple of Ranking
        The order of detectors on a testbed, and how often it holds over seeds.
    agreement : tuple of Agreement
        For each two detectors of a testbed.
    transfer : tuple of Transfer
        For each two testbeds.
    primary : str
        The figure that was named before; it is corrected over its pairs alone.
    differences : tuple of Difference
        For each two detectors of a testbed and each figure, on the attacks that both
        have.
    ranks : tuple of MeanRanks
        For each testbed, the mean ranks of its detectors over attacks.
    detections : tuple of Detections
        For each detector of a testbed with a diagnosis.
    verdicts : tuple of SideBySide
        For each attack of a testbed with two or more detectors.
    notices : tuple of str
        What could not be compared, and why; results judged by earlier rules.
    labels : Labelling
        What the labels of the records mark, which decides the words of tables.

    Examples
    --------
    >>> from sightline import evaluate
    >>> rng = np.random.default_rng(0)
    >>> labels = np.repeat([0, 1, 0], [400, 50, 550])
    >>> evaluations = [
    ...     evaluate(
    ...         train=rng.normal(size=(500, 2)),
    ...         test=rng.normal(size=(1000, 2)) + lift * labels[:, None],
    ...         labels=labels,
    ...         name=name,
    ...         diagnosis=False,
    ...     )
    ...     for name, lift in (("sharp", 4.0), ("dull", 0.2))
    ... ]
    >>> compared = compare(evaluations, n_replicates=50)
    >>> sorted({row.detector for row in compared.figures})
    ['dull', 'sharp']
    """

    figures: tuple[SeededFigure, ...]
    rankings: tuple[Ranking, ...]
    agreement: tuple[Agreement, ...]
    transfer: tuple[Transfer, ...]
    primary: str
    differences: tuple[Difference, ...]
    ranks: tuple[MeanRanks, ...]
    detections: tuple[Detections, ...]
    verdicts: tuple[SideBySide, ...]
    notices: tuple[str, ...]
    labels: Labelling = Labelling.ATTACKS

    def _line(self) -> str:
        detectors = {(row.testbed, row.detector) for row in self.figures}
        testbeds = {testbed for testbed, _ in detectors}
        stars = sum(row.has_star for row in self.differences)
        return (
            f"of {plural(len(detectors), 'detector')} on "
            f"{plural(len(testbeds), 'testbed')}: "
            f"{stars} of {plural(len(self.differences), 'difference')} "
            "beyond chance"
        )

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        return {name: plain(value) for name, value in asdict(self).items()}


@one_thread_each(with_scipy=False)
def compare(
    results: Sequence[Given],
    *,
    n_replicates: int = N_REPLICATES,
    seed: int = 0,
    primary: str = PRIMARY,
    progress: Progress | None = None,
) -> Comparison:
    """Compare detectors within testbeds, and their rankings across testbeds.

    Parameters
    ----------
    results : sequence of Evaluation, Result or path
        Evaluations in memory, results as `read_results` returns them, or result
        folders. Several results of one detector on one testbed are its seeds; results
        with different guards are different detectors.
    n_replicates : int
        Draws of calm time and attacks.
    seed : int
        Seed of the draws: the same seed gives the same intervals.
    primary : str
        The figure that the detectors are judged by, named before anybody looked: it is
        corrected for its pairs alone, all other figures for one another as well.
    progress : callable, optional
        Called with a `Step` after each result.

    Returns
    -------
    Comparison
        Its parts are empty where there is nothing to compare, and `notices` lists the
        detectors that could not be compared, with the reason.

    Raises
    ------
    SightlineError
        If two evaluations cannot be told apart by their names, one has no traces, or
        no difference is measured in the primary figure.

    Examples
    --------
    >>> from sightline import ResidualStream, evaluate
    >>> rng = np.random.default_rng(0)
    >>> train, test = rng.normal(size=(500, 3)), rng.normal(size=(900, 3))
    >>> labels = np.zeros(900, int)
    >>> evaluations = []
    >>> for start in range(50, 850, 100):
    ...     labels[start : start + 20] = 1
    >>> for name, lift in (("sharp", 4.0), ("dull", 0.2)):
    ...     lifted = test + lift * labels[:, None]
    ...     stream = ResidualStream(train, lifted, labels, name=name, detector=name)
    ...     evaluations.append(evaluate(stream, diagnosis=False))
    >>> row = compare(evaluations).differences[0]
    >>> row.figure, row.detectors, row.has_star
    ('mean_segment_auc', ('sharp', 'dull'), True)
    """
    given, primary = results_of(results, "compare"), checked_primary(primary)
    done, progress = count(1), progress or silent

    def tick() -> None:
        n_done = min(next(done), len(given))
        progress(Step(StepKind.COMPARING, n_done, len(given)))

    studied = group_runs(given)
    paired = {
        runs.testbed: PairedTestbed(
            runs, n_replicates=n_replicates, seed=seed, primary=primary, tick=tick
        )
        for runs in studied
    }
    differences = [row for pairs in paired.values() for row in pairs.differences()]
    notices: list[str] = []
    for runs in studied:
        notices += [*paired[runs.testbed].notices(), *_different_channels(runs)]
        lone = [
            one.label
            for one in runs.detectors
            if len(one.results) == 1 and one.evaluation.provenance.meta.get(RANDOM_KEY)
        ]
        if lone and len(runs.detectors) > 1:
            notices.append(
                f"{runs.testbed}: one seed of {names(lone, _MOST)}. Another seed gives "
                "other figures, so the order of detectors is that of one seed."
            )
        earlier = [
            one.label
            for one in runs.detectors
            if (facts := one.evaluation.diagnosis) and facts.method < METHOD
        ]
        if earlier:
            notices.append(
                f"{runs.testbed}: the verdicts of {names(earlier, _MOST)} were made by "
                "the rules of an earlier version, which judged many attacks "
                "differently: evaluate again to compare them with others."
            )
    rankings = [
        rank_detectors(
            runs.testbed,
            figure.value,
            {one.label: one.values(figure) for one in runs.detectors},
        )
        for runs in studied
        for figure in RANKED_FIGURES
    ]
    side_by_side = [
        _verdicts_on(runs, attack)
        for runs in studied
        if len(runs.detectors) > 1
        for attack in runs.attacks
    ]
    seeded = seeded_figures(
        studied, lambda runs, figure: paired[runs.testbed].seeded_interval(runs, figure)
    )
    return Comparison(
        figures=tuple(seeded),
        rankings=tuple(row for row in rankings if row is not None),
        agreement=tuple(row for runs in studied for row in agreements(runs)),
        transfer=tuple(ranking_transfer(seeded)),
        primary=primary,
        differences=tuple(differences),
        ranks=tuple(row for pairs in paired.values() for row in pairs.ranks()),
        detections=tuple(row for runs in studied for row in _detections(runs)),
        verdicts=tuple(row for row in side_by_side if row.verdicts),
        notices=tuple(notices),
        labels=Labelling.of_all(one.evaluation.stream.labels for one in given),
    )


def _different_channels(runs: TestbedRuns) -> list[str]:
    """Return a sentence on detectors without residuals of channels that others have.

    Detectors whose channels have no names, or none in common with another, such as
    those of a latent space, are passed over.
    """
    channels = {
        detector.label: dict.fromkeys(traces.channel_names.tolist())
        for detector in runs.detectors
        if (traces := detector.evaluation.traces) is not None
        and traces.channel_names is not None
        # What a stream without names of channels is given.
        and traces.channel_names[0] != "channel_0"
    }
    shared = {
        label: own
        for label, own in channels.items()
        if any(own.keys() & o.keys() for name, o in channels.items() if name != label)
    }
    every = dict.fromkeys(name for own in shared.values() for name in own)
    lacking = [
        f"{label} lacks {names([name for name in every if name not in own], _MOST)}"
        for label, own in shared.items()
        if len(own) < len(every)
    ]
    if not lacking:
        return []
    return [
        f"{runs.testbed}: the detectors do not have residuals of the same "
        f"{len(every)} channels: {'; '.join(lacking)}."
    ]


def _detections(runs: TestbedRuns) -> list[Detections]:
    """Return what the present rule of each detector catches, where it was judged."""
    return [
        Detections(
            testbed=runs.testbed,
            detector=detector.label,
            rule=facts.rule,
            found=facts.found,
            rings=facts.rings,
            is_standing=facts.is_standing,
            share_in_alarm=facts.share_in_alarm,
            load=alarms.load,
            attacks=alarms.attacks,
        )
        for detector in runs.detectors
        if (facts := detector.evaluation.diagnosis) is not None
        and facts.found is not None
        and facts.rule is not None
        for alarms in [
            (facts.rule == RungName.OWN_RULE and detector.evaluation.own_rule)
            or detector.evaluation.probe
        ]
    ]


def seeded_figures(
    studied: Sequence[TestbedRuns],
    interval_of: Callable[[DetectorRuns, str], SeededInterval] | None = None,
) -> list[SeededFigure]:
    """Return the mean and the range over seeds of every figure with an interval."""
    rows = []
    for runs in (runs for testbed in studied for runs in testbed.detectors):
        for figure in (entry.key for entry in with_interval()):
            spread = runs.spread(figure)
            row = SeededFigure(runs.testbed, runs.label, figure)
            if spread is not None:
                row = replace(
                    row,
                    n_seeds=spread.n,
                    mean=spread.mean,
                    low=spread.low,
                    high=spread.high,
                    **(vars(interval_of(runs, figure)) if interval_of else {}),
                )
            rows.append(row)
    return rows


def ranking_transfer(seeded: Sequence[SeededFigure]) -> list[Transfer]:
    """Return how each figure's ranking of the shared detectors transfers.

    Parameters
    ----------
    seeded : sequence of SeededFigure
        As `seeded_figures` returns them.

    Returns
    -------
    list of Transfer
        One for each of `TRANSFER_FIGURES` and each two testbeds, in alphabetical order.
    """
    means: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for row in seeded:
        if row.mean is not None:
            means[row.figure, row.testbed][row.detector] = row.mean
    transfers = []
    for figure in TRANSFER_FIGURES:
        for testbeds in combinations(sorted({row.testbed for row in seeded}), 2):
            a, b = (means[figure, testbed] for testbed in testbeds)
            shared = sorted(set(a) & set(b))
            rho = rank_correlation(
                np.array([a[name] for name in shared]),
                np.array([b[name] for name in shared]),
            )
            transfers.append(Transfer(figure.value, testbeds, rho))
    return transfers


def rank_detectors(
    testbed: str, figure: str, values: Mapping[str, Sequence[float]]
) -> Ranking | None:
    """Rank detectors by the mean of a figure over seeds.

    Parameters
    ----------
    testbed, figure : str
        Names, for the result.
    values : mapping
        By label: the figure in each seed. Detectors without values are left out.

    Returns
    -------
    Ranking or None
        None for fewer than two detectors. Shares are exact, not sampled.

    Examples
    --------
    >>> ranking = rank_detectors("swat", "roc_auc", {"a": [0.7, 0.9], "b": [0.8]})
    >>> ranking.order, ranking.holds
    (('a', 'b'), 0.5)
    """
    seeds_of = {name: np.array(seeds, float) for name, seeds in values.items() if seeds}
    if len(seeds_of) < 2:
        return None
    order = sorted(seeds_of, key=lambda name: (-seeds_of[name].mean(), name))
    # For each two neighbours and each pair of seeds: 1 above, 0 below, 0.5 a tie.
    above = [
        (np.sign(seeds_of[a][:, None] - seeds_of[b][None, :]) + 1) / 2
        for a, b in pairwise(order)
    ]
    # The whole order holds if each detector is above the next, so one pass along the
    # order counts all combinations of seeds without listing them.
    counts = np.ones(len(seeds_of[order[0]]))
    for table in above:
        counts = counts @ table
    n_seeds = tuple(len(seeds_of[name]) for name in order)
    return Ranking(
        testbed=testbed,
        figure=figure,
        order=tuple(order),
        n_seeds=n_seeds,
        holds=float(counts.sum() / np.prod(np.array(n_seeds, float))),
        above=tuple(float(table.mean()) for table in above),
    )


def _verdicts_on(runs: TestbedRuns, attack: MatchedAttack) -> SideBySide:
    """Return the verdicts of all detectors on one attack."""
    joint = {
        label: one
        for label, one in joint_verdicts_on(attack).items()
        if one.verdict is not None
    }
    words = {label: str(one.verdict) for label, one in joint.items()}
    segments = {label: attack.segments[label] for label in words}
    spaces = {name: runs[name].evaluation.stream.space for name in words}
    seen_by = tuple(name for name, word in words.items() if word == Verdict.DETECTED)
    vetoing = [name for one in joint.values() for name in one.vetoed_by]
    return SideBySide(
        testbed=runs.testbed,
        attack=attack.id,
        joint_verdicts=words,
        verdicts={name: str(segment.verdict) for name, segment in segments.items()},
        confidences={name: segment.confidence for name, segment in segments.items()},
        spaces=spaces,
        vetoed_by=tuple(dict.fromkeys(vetoing)),
        telemetry=telemetry_of(attack),
        seen_by=seen_by,
        reading=_reading(words, spaces, seen_by),
    )


def _reading(
    words: Mapping[str, str], spaces: Mapping[str, str | None], seen_by: Sequence[str]
) -> str:
    """Return who detects an attack, in words, with the spaces where it is diluted."""

    def space(name: str) -> str:
        title = spaces[name]
        is_shared = title == spaces[seen_by[0]] == spaces[diluted[0]]
        return name if is_shared or title is None else f"the {title} space"

    diluted = [name for name, word in words.items() if word == Verdict.DILUTED]
    if len(seen_by) == len(words):
        return SEEN_BY_ALL
    if not seen_by:
        return "detected by none"
    if diluted:
        return f"detected in {space(seen_by[0])}, diluted in {space(diluted[0])}"
    return f"detected by {names(seen_by)}"


def agreements(runs: TestbedRuns) -> list[Agreement]:
    """Return the agreement of each two detectors of a testbed, in their order."""
    places = {result: runs.places(result) for result in runs.results}
    rows = []
    for first, second in combinations(runs.detectors, 2):
        pairs = product(first.results, second.results)
        rhos = []
        for a, b in pairs:
            shared = (places[a] >= 0) & (places[b] >= 0)
            of_a, of_b = (r.traces.segment_d_full[places[r][shared]] for r in (a, b))
            if (rho := spearman(of_a, of_b)) is not None:
                rhos.append(rho)
        in_a, in_b = places[first.first] >= 0, places[second.first] >= 0
        row = Agreement(
            testbed=runs.testbed,
            detectors=(first.label, second.label),
            rho=float(np.mean(rhos)) if rhos else None,
            rho_range=(min(rhos), max(rhos)) if rhos else None,
            n_matched=int(np.sum(in_a & in_b)),
            n_alone=(int(np.sum(in_a & ~in_b)), int(np.sum(in_b & ~in_a))),
        )
        rows.append(row)
    return rows


def why_undefined(agreement: Sequence[Agreement]) -> str | None:
    """Return the reason why no pair of detectors has a rho; None if one has.

    Examples
    --------
    >>> why_undefined([])
    'it needs at least two detectors on one testbed'
    """
    if any(row.rho is not None for row in agreement):
        return None
    if not agreement:
        return "it needs at least two detectors on one testbed"
    most = max(row.n_matched for row in agreement)
    if most < FEWEST_RANKED:
        return (
            f"it needs two detectors that share at least {FEWEST_RANKED} attacks; no "
            f"two detectors share more than {most}"
        )
    return "the detectors share attacks, but D_FULL is the same for all of them"
