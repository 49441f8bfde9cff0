"""Every figure once: its key, name, symbol, direction, format and what it means.

A figure is a number by which detectors are judged. `FIGURES` has one entry for each;
all that shows, writes or explains a figure reads it: terminal, page, glossary and
tooltips, CSV and LaTeX, intervals, and the tests of `docs/metrics.md`.

To add a figure, touch two files:

1. Where it is computed, in `sightline/metrics/`. Either a field of the record that
   holds it (`Rank`, `Windows`, `Drift`, `AlarmMetrics`, ...), described in the
   docstring of the record, from which `docs/metrics.md` is made; or, under a published
   name, a function in `alarm_metrics.py` or `score_metrics.py` and its line in
   ``METRICS`` there.
2. Its entry in this module. A figure that code asks for by name is also a `Figure`.

Then write the generated files again (``python tests/metric_tables.py``); a test says
what is missing.

This module knows no record: an entry reads an evaluation by the names of its fields.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

from sightline import text

if TYPE_CHECKING:
    from sightline.metrics.alarm_figures import AlarmFigure
    from sightline.metrics.chance import Floor

# False-alarm rates up to which `pauc_1` and `pauc_5` count.
PAUC_RATES = (0.01, 0.05)
PAPER = "Shi, Xiang, Zhang, Fu: What the Detector Can See"
# The score of residuals that stands beside their energy (`sightline.rules.row_scores`).
LARGEST = "largest"
# Begins the keys of figures of the p99 rule with its limit set in hindsight.
_HINDSIGHT = "test_calibrated_"


class Better(StrEnum):
    """Which direction of a figure is good, in the words of `docs/metrics.md`."""

    HIGHER = "higher"
    LOWER = "lower"
    NEAR_ZERO = "near 0"
    NEAR_ONE = "near 1"
    NEITHER = "-"


class FigureStyle(StrEnum):
    """How the values of a figure are best written."""

    SCORE = "score"  # between 0 and 1: a fixed number of decimals
    SIZE = "size"  # of any magnitude: two digits and a power of ten
    COUNT = "count"  # a whole number, or a mean of whole numbers
    STATISTIC = "statistic"  # around 1 to 1,000: three digits


class MeasuredOn(StrEnum):
    """What a figure under a published name is measured on."""

    ALARMS = "alarms"
    SCORE = "score"


class Figure(StrEnum):
    """Keys of the figures of a detector on a testbed that code asks for by name."""

    ROC_AUC = "roc_auc"
    PAUC_1 = "pauc_1"
    PAUC_5 = "pauc_5"
    AVERAGE_PRECISION = "average_precision"
    MEAN_SEGMENT_AUC = "mean_segment_auc"
    P_FULL = "p_full"
    P_FULL_PER_SEGMENT = "p_full_per_segment"
    MEDIAN_D_FULL = "median_d_full"
    D_DRIFT = "d_drift"
    D_DRIFT_ROBUST = "d_drift_robust"
    F1 = "f1"
    PRECISION = "precision"
    RECALL = "recall"
    HITS = "hits"
    FALSE_ALARM_RATE = "false_alarm_rate"
    FALSE_POSITIVE_SEGMENTS = "false_positive_segments"
    # With the limit set in hindsight on attack-free test rows.
    HINDSIGHT_F1 = "test_calibrated_f1"
    HINDSIGHT_PRECISION = "test_calibrated_precision"
    HINDSIGHT_RECALL = "test_calibrated_recall"
    HINDSIGHT_FALSE_POSITIVE_SEGMENTS = "test_calibrated_false_positive_segments"
    HINDSIGHT_HITS = "test_calibrated_hits"
    COMPACTNESS = "compactness"
    P_EFF = "p_eff"
    MAX_Z = "max_z"
    EXCESS_KURTOSIS = "excess_kurtosis"
    CHI_SQUARE_TAIL = "chi_square_tail"
    CHI_SQUARE_TAIL_TEST = "chi_square_tail_test"
    CHI_SQUARE_VARIANCE = "chi_square_variance"
    CHI_SQUARE_VARIANCE_TEST = "chi_square_variance_test"


@dataclass(frozen=True, kw_only=True)
class FigureEntry:
    """What is known of a figure, whatever its value.

    Parameters
    ----------
    key : str
        Its name in tables, and in `intervals`, `floor` or `alarm_metrics` of
        ``evaluation.json``.
    name : str
        What people read, as above a column.
    sentence : str
        What it means, for glossary and tooltips.
    better : Better
        Which direction is good.
    style : FigureStyle
        How values are written.
    unit : str
        Unit of its values; empty for shares and scores.
    low, high : float
        Least and largest value; intervals end there.
    block : str
        The record of an evaluation that holds it; empty under a published name.
    symbol : str
        Short name in print, where `sightline.paper` sets formulas; by default the name.
    spoken : str
        Its name within a sentence; by default the name.
    has_interval, has_floor : bool
        Whether evaluations give a 95% interval, and what chance reaches.
    needs_floor : bool
        Whether chance alone reaches high values: not to be shown without its floor.
    reference : str
        Who published it; empty for a figure of Sightline.
    on : MeasuredOn, optional
        Under a published name: whether it is of alarms or of a score.
    family, output, parameters : str, str, tuple of (str, float)
        Under a published name: the metric in `sightline.metrics.ALARM_METRICS`, which
        of its outputs, and parameters that differ from the metric's defaults.
    definition : str
        Under a published name: which definition is followed, with its parameters, as
        written into ``evaluation.json``.
    in_print : bool
        Whether printed tables of published figures have it; CSV has all.

    Examples
    --------
    >>> entry = FIGURES[Figure.F1]
    >>> entry.name, entry.place, entry.higher_is_better, entry.text(0.91234)
    ('F1@p99', 'probe.f1', True, '0.912')
    """

    key: str
    name: str
    sentence: str
    better: Better = Better.HIGHER
    style: FigureStyle = FigureStyle.SCORE
    unit: str = ""
    low: float = 0.0
    high: float = 1.0
    block: str = ""
    symbol: str = ""
    spoken: str = ""
    has_interval: bool = False
    has_floor: bool = False
    needs_floor: bool = False
    reference: str = ""
    on: MeasuredOn | None = None
    family: str = ""
    output: str = ""
    parameters: tuple[tuple[str, float], ...] = ()
    definition: str = ""
    in_print: bool = False

    def __post_init__(self) -> None:
        """Fill in the names that follow from others."""
        for name in ("symbol", "spoken"):
            object.__setattr__(self, name, getattr(self, name) or self.name)

    @property
    def field(self) -> str:
        """Its name within the record that holds it."""
        return self.key.removeprefix(_HINDSIGHT)

    @property
    def place(self) -> str:
        """Where ``evaluation.json`` has it; of published ones WHOSE is a source."""
        return f"{self.block or 'alarm_metrics.WHOSE'}.{self.field}"

    @property
    def term(self) -> str:
        """Its key in the glossary."""
        slug = text.slug(self.key)
        return slug if self.on is None else f"figure-{slug}"

    @property
    def higher_is_better(self) -> bool | None:
        """Whether more is better; None if neither direction is."""
        return {Better.HIGHER: True, Better.LOWER: False}.get(self.better)

    def of(self, evaluation: Any, source: str | None = None) -> float | None:
        """Return its value in an evaluation; None where it is undefined.

        Parameters
        ----------
        evaluation : Evaluation or StreamMeasures
            What was measured on a stream.
        source : str, optional
            Under a published name, whose alarms or score: a key of `alarm_metrics`. By
            default the p99 rule, or energy.
        """
        if self.on is not None:
            figure = self.measured(evaluation, source)
            value = None if figure is None else figure.value
        else:
            value = getattr(getattr(evaluation, self.block), self.field, None)
        return None if value is None or not isfinite(value) else float(value)

    def interval(
        self, evaluation: Any, source: str | None = None
    ) -> tuple[float, float | None] | None:
        """Return its 95% interval; None if the evaluation has none."""
        if self.on is not None:
            figure = self.measured(evaluation, source)
            return None if figure is None else figure.interval
        found: tuple[float, float | None] | None = (evaluation.intervals or {}).get(
            self.key
        )
        return found

    def floor(self, evaluation: Any, source: str | None = None) -> "Floor | None":
        """Return what chance reaches; None if the evaluation does not say."""
        if self.on is not None:
            figure = self.measured(evaluation, source)
            return None if figure is None else figure.floor
        found: Floor | None = (evaluation.floor or {}).get(self.key)
        return found

    def measured(
        self, evaluation: Any, source: str | None = None
    ) -> "AlarmFigure | None":
        """Return a figure under a published name, with floor and interval, or None."""
        source = source or ("probe" if self.on is MeasuredOn.ALARMS else "energy")
        found: AlarmFigure | None = (
            (evaluation.alarm_metrics or {}).get(source, {}).get(self.key)
        )
        return found

    def can_show(self, figure: "AlarmFigure | None") -> bool:
        """Return whether a figure has a value, and the floor that it may need."""
        if figure is None or figure.value is None:
            return False
        return figure.floor is not None or not self.needs_floor

    @property
    def text(self) -> Callable[[float | None], str]:
        """How a value is written on page and terminal; None is a dash."""
        return text.score if self.style is FigureStyle.SCORE else text.number

    def range_text(self, interval: tuple[float, float | None] | None) -> str:
        """Return an interval in words, whose upper end may be open; empty for None."""
        if interval is None:
            return ""
        low, high = interval
        if high is None:
            return f"from {self.text(low)}"
        return f"{self.text(low)} to {self.text(high)}"


def published(on: MeasuredOn | None = None) -> list[FigureEntry]:
    """Return the figures under published names: all, or those of alarms or a score."""
    return [e for e in FIGURES.values() if e.on and on in (None, e.on)]


def with_interval() -> list[FigureEntry]:
    """Return the figures of an evaluation's `intervals`, in the order of the file."""
    return [e for e in FIGURES.values() if e.block and e.has_interval]


def _of(block: str, **same: Any) -> Callable[..., FigureEntry]:
    """Return what makes the entries of one record of an evaluation."""
    return partial(FigureEntry, block=block, reference=PAPER, **same)


# Fields that several entries share.
_Fields = dict[str, Any]
_DRAWN: _Fields = {"has_interval": True, "has_floor": True}
_IN_NATS: _Fields = {"style": FigureStyle.SIZE, "unit": "nats", "high": inf}
_ATTACKS: _Fields = {"style": FigureStyle.COUNT, "unit": "attacks", "high": inf}
_ANY_SIZE: _Fields = {"style": FigureStyle.STATISTIC, "high": inf}
_rank, _windows = _of("rank", **_DRAWN), _of("windows", **_DRAWN)
_drift = _of("drift", better=Better.NEAR_ZERO, has_interval=True, low=-inf, **_IN_NATS)
_probe, _compactness, _quality = _of("probe"), _of("compactness"), _of("quality")

_OF_A_DETECTOR = (
    _rank(
        key=Figure.ROC_AUC,
        name="ROC-AUC",
        sentence="Probability that an attack row has a higher deviation score (energy) "
        "than a normal row; 0.5 is chance.",
    ),
    *(
        _rank(
            key=key,
            name=f"pAUC@{text.share(rate)}",
            spoken=f"pAUC at {text.share(rate)}",
            sentence=f"The same, where at most {text.share(rate)} of normal rows are "
            "in alarm; 0 is chance, 1 is perfect.",
            low=-inf,
        )
        for key, rate in zip((Figure.PAUC_1, Figure.PAUC_5), PAUC_RATES, strict=True)
    ),
    _rank(
        key=Figure.AVERAGE_PRECISION,
        name="AP",
        spoken="average precision",
        sentence="Mean precision as the limit falls past each attack row. It depends "
        "on the share of attack rows: do not compare it between testbeds.",
    ),
    _rank(
        key=Figure.MEAN_SEGMENT_AUC,
        name="mean segment AUC",
        spoken="AUC per attack",
        sentence="Mean over attacks of the probability that a row of the attack has a "
        "higher deviation score than a normal row.",
        reference="",
    ),
    _windows(
        key=Figure.P_FULL,
        name="P_FULL",
        sentence="Probability that an attack window has a larger D_FULL than a normal "
        "window of its length; 0.5 is chance.",
    ),
    _windows(
        key=Figure.P_FULL_PER_SEGMENT,
        name="P_FULL per attack",
        sentence="The same as P_FULL, with each attack weighing the same.",
        reference="",
    ),
    _windows(
        key=Figure.MEDIAN_D_FULL,
        name="median D_FULL",
        symbol="med. D_FULL",
        sentence="Median of D_FULL over the attacks.",
        **_IN_NATS,
    ),
    _drift(
        key=Figure.D_DRIFT,
        name="D_drift",
        sentence="Mean deviation score of attack-free test rows minus that of train. "
        f"{text.DAGGER}: a few extreme points dominate it; use the robust value.",
    ),
    _drift(
        key=Figure.D_DRIFT_ROBUST,
        name="D_drift (rob.)",
        sentence="Median deviation score of attack-free test rows minus mean deviation "
        "score of train.",
    ),
    _probe(
        key=Figure.F1,
        name="F1@p99",
        spoken="F1",
        sentence="Point-wise F1 of the p99 rule, without point adjustment.",
        **_DRAWN,
    ),
    _probe(
        key=Figure.PRECISION,
        name="Precision",
        symbol="Prec.",
        spoken="precision",
        sentence="Share of rows in alarm that belong to an attack.",
        **_DRAWN,
    ),
    _probe(
        key=Figure.RECALL,
        name="Recall",
        symbol="Rec.",
        spoken="recall",
        sentence="Share of attack rows in alarm.",
        **_DRAWN,
    ),
    _probe(
        key=Figure.HITS,
        name="Hits",
        spoken="attacks alarmed",
        sentence="Attacks with at least one row in alarm, whether because of them or "
        "not.",
        **_DRAWN | _ATTACKS,
    ),
    _probe(
        key=Figure.FALSE_ALARM_RATE,
        name="time in false alarm",
        sentence="Share of attack-free test rows in alarm.",
        better=Better.LOWER,
        has_interval=True,
        reference="",
    ),
    _probe(
        key=Figure.FALSE_POSITIVE_SEGMENTS,
        name="False-alarm runs",
        symbol="FP-seg",
        spoken="false-alarm runs",
        sentence="Runs of rows in alarm that touch attack-free rows and no attack.",
        better=Better.LOWER,
        **_ATTACKS | {"unit": "runs"},
    ),
)
# The same figures of the p99 rule, in this order.
_IN_HINDSIGHT = tuple(
    replace(
        entry,
        key=Figure(f"{_HINDSIGHT}{entry.key}"),
        block="probe_test_calibrated",
        name=f"{entry.name.removesuffix('@p99')} (hindsight)",
        symbol=f"{entry.symbol.removesuffix('@p99')} (hindsight)",
        spoken="",
        sentence="The same as F1@p99 with the limit set in hindsight on attack-free "
        "test rows: 1% of them exceed it. No rule in service could know it; the "
        "difference to F1@p99 is what drift costs."
        if entry.key == Figure.F1
        else f"{entry.name} with the limit set in hindsight, as for F1 (hindsight).",
        has_interval=False,
        has_floor=False,
    )
    for key in ("f1", "precision", "recall", "false_positive_segments", "hits")
    for entry in _OF_A_DETECTOR
    if entry.key == key
)
_OF_NORMAL_OPERATION = (
    _compactness(
        key=Figure.COMPACTNESS,
        name="p_eff/p",
        sentence="Share of the residual dimensions that normal data use. It describes "
        "the detector; it is neither good nor bad.",
        better=Better.NEITHER,
        high=inf,
    ),
    _compactness(
        key=Figure.P_EFF,
        name="p_eff",
        sentence="Number of residual dimensions that normal data use.",
        better=Better.NEITHER,
        unit="channels",
        **_ANY_SIZE,
    ),
    _quality(
        key=Figure.MAX_Z,
        name="max-z",
        sentence="Largest whitened residual of train; 4 to 6 for Gaussian residuals.",
        better=Better.LOWER,
        **_ANY_SIZE,
    ),
    _quality(
        key=Figure.EXCESS_KURTOSIS,
        name="Excess kurtosis",
        symbol="kurt.",
        spoken="excess kurtosis",
        sentence="Heavy tails of the whitened residuals of train: 0 if they are "
        "Gaussian, large with a few very large residuals.",
        better=Better.NEAR_ZERO,
        low=-2.0,
        **_ANY_SIZE,
    ),
    *(
        _quality(
            key=Figure(f"chi_square_{key}{end}"),
            name=f"{name}, {rows}",
            sentence=f"{sentence} ({rows} rows); 1 where the law holds.",
            better=Better.NEAR_ONE,
            reference="",
            **_ANY_SIZE,
        )
        for key, name, sentence in (
            (
                "tail",
                "Tail against chi-squared",
                "Share of rows beyond the 99% point of the law that Gaussian residuals "
                "follow, over 1%",
            ),
            (
                "variance",
                "Variance against chi-squared",
                "Variance of the energy, over that of the law",
            ),
        )
        for end, rows in (("", "train"), ("_test", "attack-free test"))
    ),
)


def _family(
    on: MeasuredOn,
    family: str,
    definition: str,
    reference: str,
    outputs: dict[str, tuple[str, str]],
    **same: Any,
) -> Iterator[FigureEntry]:
    """Yield the figures of one metric: by key, the output of the metric and the name.

    All have a floor but those that say otherwise. `same` are further fields.
    """
    same.setdefault("has_floor", True)
    for key, (output, name) in outputs.items():
        yield FigureEntry(
            key=key,
            name=name,
            sentence=f"{definition[:1].upper()}{definition[1:]}.",
            on=on,
            family=family,
            output=output,
            definition=definition,
            reference=reference,
            has_interval=key in _OF_ATTACKS,
            in_print=key in _IN_PRINT,
            **same,
        )


# Figures that are means over attacks, and what follows from such a mean.
_OF_ATTACKS = (
    "pa_f1 pak_20_f1 range_recall etapr_recall affiliation_precision "
    "affiliation_recall event_recall"
).split()
# What reviewers ask for most.
_IN_PRINT = (
    "pa_f1 pak_20_f1 range_f1 etapr_f1 affiliation_f1 event_f1 nab_standard best_f1 "
    "best_pa_f1 pa_average_precision vus_roc vus_pr r_auc_roc r_auc_pr"
).split()
_PAK = (
    "point-adjusted as tadpak d3061e4: an attack counts whole if more than K% of its "
    "rows are alarmed; K = "
)
_ORACLE = "oracle: the threshold saw the labels; "
_DELAY = "rows from an attack's start to its first alarmed row inside it; "
_KIM, _VUS = "Kim et al. 2022", "Paparrizos et al. 2022"
_IN_ROWS = _ANY_SIZE | {"better": Better.LOWER, "unit": "rows"}
_alarms = partial(_family, MeasuredOn.ALARMS)
_score = partial(_family, MeasuredOn.SCORE)

_PUBLISHED = (
    *_alarms("pak", f"{_PAK}0", _KIM, {"pa_f1": ("f1", "PA F1")}, needs_floor=True),
    *_alarms(
        "pak",
        f"{_PAK}20",
        _KIM,
        {"pak_20_f1": ("f1", "PA%20 F1")},
        parameters=(("k", 20.0),),
    ),
    *_alarms(
        "pak_auc",
        f"{_PAK}0, 1, .., 100, trapezoid",
        _KIM,
        {"pak_auc": ("value", "PA%K area")},
    ),
    *_alarms(
        "range",
        "range-based (Tatbul 2018): alpha 0, reciprocal cardinality, flat bias, beta 1",
        "Tatbul et al. 2018",
        {
            "range_precision": ("precision", "range precision"),
            "range_recall": ("recall", "range recall"),
            "range_f1": ("f", "range F1"),
        },
    ),
    *_alarms(
        "etapr",
        "as eTaPR 22.6.1: theta_p 0.5, theta_r 0.1, delta 0",
        "Hwang et al. 2022",
        {
            "etapr_precision": ("eTaP", "eTaP"),
            "etapr_recall": ("eTaR", "eTaR"),
            "etapr_f1": ("f1", "eTaPR F1"),
        },
    ),
    *_alarms(
        "affiliation",
        "affiliation (Huet 2022), as the authors' code 8d84498",
        "Huet et al. 2022",
        {
            "affiliation_precision": ("precision", "affiliation precision"),
            "affiliation_recall": ("recall", "affiliation recall"),
            "affiliation_f1": ("f1", "affiliation F1"),
        },
        needs_floor=True,
    ),
    *_alarms(
        "event",
        "attacks with an alarmed row, and episodes that touch no attack; read it with "
        "the share of time in alarm",
        "",
        {
            "event_precision": ("precision", "event precision"),
            "event_recall": ("recall", "event recall"),
            "event_f1": ("f1", "event F1"),
        },
    ),
    *_alarms(
        "composite",
        "composite (Garg 2021): precision of rows, recall of attacks, whole events",
        "Garg et al. 2021",
        {"composite_f1": ("f1", "composite F1")},
    ),
    *_alarms(
        "esa",
        "ESA-ADB 489cb61: event-wise; precision corrected by the share of normal rows "
        "in alarm; alarming precision counts repeated episodes",
        "ESA-ADB 489cb61",
        {
            "esa_f05": ("f_0.5", "ESA F0.5"),
            "esa_alarming_precision": ("alarming_precision", "ESA alarming precision"),
        },
    ),
    *_alarms(
        "nab",
        "NAB ea702d7: standard profile (0.11, 1), attacks as windows, no probation",
        "NAB ea702d7",
        {"nab_standard": ("score", "NAB, standard profile")},
        low=-inf,
        **_ANY_SIZE,
    ),
    *_alarms(
        "delay",
        f"{_DELAY}mean over detected attacks",
        "",
        {"delay_mean": ("mean", "mean delay (rows)")},
        **_IN_ROWS,
    ),
    *_alarms(
        "delay",
        f"{_DELAY}median over detected attacks",
        "",
        {"delay_median": ("median", "median delay (rows)")},
        **_IN_ROWS,
    ),
    *_alarms(
        "delay",
        f"{_DELAY}a missed attack counts with its length",
        "",
        {
            "delay_censored_mean": (
                "censored_mean",
                "mean delay, missed = length (rows)",
            )
        },
        **_IN_ROWS,
    ),
    *_alarms(
        "delayed",
        "delay-thresholded (Ren 2019), as tsadmetrics: point-adjusted, if one of the "
        "first 7 rows is alarmed",
        "Ren et al. 2019",
        {"delayed_f1": ("f1", "delay-thresholded F1")},
    ),
    *_alarms(
        "latency",
        "latency-aware (Abdulaal 2021), as tsadmetrics with batches of one row: an "
        "attack counts from its first alarm on",
        "Abdulaal et al. 2021",
        {"latency_f1": ("f1", "latency-aware F1")},
    ),
    *_alarms(
        "pate_f1",
        "PATE 0.1.1: buffers of 0 and 100 rows",
        "Ghorbani et al. 2024",
        {"pate_f1": ("f1", "PATE F1")},
        has_floor=False,
    ),
    *_score(
        "rank",
        f"{_ORACLE}F1 of rows, over all distinct scores",
        "",
        {"best_f1": ("best_f1", "best F1 (oracle)")},
    ),
    *_score(
        "best_pak",
        f"{_ORACLE}{_PAK}0, over all distinct scores",
        _KIM,
        {"best_pa_f1": ("f1", "best PA F1 (oracle)")},
        needs_floor=True,
    ),
    *_score(
        "pa_rank",
        "step-wise, after raising each attack row to the attack's largest score",
        "",
        {"pa_average_precision": ("average_precision", "PA average precision")},
        needs_floor=True,
    ),
    *_score(
        "vus",
        "VUS as TSB-AD 1.5 and vus 0.0.6: windows 0 to 100, 250 thresholds",
        _VUS,
        {"vus_roc": ("roc", "VUS-ROC"), "vus_pr": ("pr", "VUS-PR")},
    ),
    *_score(
        "r_auc",
        "range AUC as vus 0.0.6: window 100, 250 thresholds",
        _VUS,
        {"r_auc_roc": ("roc", "R-AUC-ROC"), "r_auc_pr": ("pr", "R-AUC-PR")},
    ),
    *_score(
        "pate",
        "PATE 0.1.1: buffers of 0 and 100 rows, 250 thresholds",
        "Ghorbani et al. 2024",
        {"pate": ("value", "PATE")},
        has_floor=False,
    ),
)
_ENTRIES = (*_OF_A_DETECTOR, *_IN_HINDSIGHT, *_OF_NORMAL_OPERATION, *_PUBLISHED)
# In the order of the file.
FIGURES: dict[str, FigureEntry] = {entry.key: entry for entry in _ENTRIES}
