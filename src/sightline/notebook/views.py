"""What a notebook shows of each type: facts, tables, notes, and pictures."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.blindspots.result import BlindSpots
from sightline.cli.summary import summary
from sightline.comparison.compare import Comparison
from sightline.data.arrays import Floats
from sightline.data.recording import Recording
from sightline.data.stream import ResidualStream
from sightline.detectors.adapters.adapter import Adapter, KnownExpectation
from sightline.detectors.base import DetectorCard, LearnedDetector
from sightline.errors import SightlineError
from sightline.evaluation.result import Evaluation, SegmentResult, SegmentView
from sightline.figures import FIGURES, Figure
from sightline.improvement import record as improvement
from sightline.improvement.improve import Improvement
from sightline.judgement.verdicts import info_of
from sightline.report import print_figures as style
from sightline.report.charts import (
    Excerpt,
    PageClock,
    clock_of,
    excerpt_of,
    log_energy,
    moments,
)
from sightline.report.entries import Entry, entries_of
from sightline.rules.choose import advice, false_alarm_words
from sightline.rules.commission import Commissioning
from sightline.rules.making import MadeRule
from sightline.rules.rule import Rule
from sightline.show import attacks, blind_spots, catalogue, comparison, rules
from sightline.show.evaluations import caught_of, energies
from sightline.show.html import MOST_NAMES, NotebookView, rendered, shown
from sightline.show.table import RecordTable, to_frame
from sightline.show.terminal import as_text
from sightline.showing import Shown
from sightline.storage import Result, results_of
from sightline.testbeds.base import Testbed
from sightline.text import as_labelled, duration, names, number, plural, score, share

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

# Columns of the summary as text: wide enough for the legends.
WIDTH = 88


def html_of(value: Shown) -> str:
    """Return the view of a value for a notebook, as HTML with every text escaped."""
    return rendered(view_of(value))


def summary_of(evaluation: Evaluation) -> str:
    """Return what `sightline evaluate` prints of one evaluation; see there."""
    return as_text(summary([evaluation]), width=WIDTH)


def frame_of(evaluation: Evaluation, library: str = "polars") -> Any:
    """Return one row for each attack, with the columns of ``segments.csv``.

    Parameters
    ----------
    evaluation : Evaluation
        With any number of attacks, also none.
    library : {"polars", "pandas"}
        Whose frame.

    Returns
    -------
    frame
        Numbers stay numbers; records and lists are JSON text, as in ``segments.csv``.

    Raises
    ------
    StreamError
        If the library is another one.
    MissingExtraError
        If it is not installed.
    """
    return to_frame(attacks.SEGMENTS, attacks.attacks_of(evaluation), library)


def view_of(value: Shown) -> NotebookView:
    """Return what is shown of a value: plain values, which the template escapes.

    Parameters
    ----------
    value : Shown
        Its class, or the nearest base with a view, says which; a type without a view
        shows its one line.
    """
    for kind in type(value).__mro__:
        if kind in VIEWS:
            return VIEWS[kind](value)
    return shown(value)


def evaluation_view(value: Evaluation) -> NotebookView:
    """Show figures, attacks and verdicts, advice and notices."""

    def figure(figure: Figure) -> str | None:
        entry = FIGURES[figure]
        mean, ends = entry.of(value), entry.interval(value)
        if mean is None or ends is None:
            return None if mean is None else score(mean)
        high = "no upper end" if ends[1] is None else score(ends[1])
        return f"{score(mean)} (95% interval {score(ends[0])} to {high})"

    facts, rule = value.diagnosis, value.own_rule or value.probe
    caught = caught_of(rule.attacks)
    using = "its own rule" if value.own_rule else "the p99 rule"
    labels = value.stream.labels
    in_alarm = f"{share(rule.time_in_alarm, 1)} of attack-free time in alarm"
    in_alarm = as_labelled(in_alarm, labels)
    serious = [finding.line for finding in value.findings if finding.is_serious]
    advised = [] if value.rules is None else [advice(value.rules)]
    withheld = [facts.advice_withheld] if facts and facts.advice_withheld else []
    return shown(
        value,
        [
            ("detector", value.stream.detector),
            ("testbed", value.stream.testbed),
            (
                as_labelled("attacks caught", labels),
                caught and f"{caught}, by {using}, whole test",
            ),
            (
                as_labelled("false alarms", labels),
                f"{false_alarm_words(rule)}, {in_alarm}, whole test",
            ),
            ("ROC-AUC", figure(Figure.ROC_AUC)),
            ("pAUC@1%", figure(Figure.PAUC_1)),
            ("alarm limit (tau99)", number(value.probe.tau99)),
            ("energy, train to test", "mean {} to median {}".format(*energies(value))),
        ],
        [attacks.notebook_table(value)],
        [*advised, *withheld, *serious, *value.notices],
    )


def segment_view(value: SegmentResult) -> NotebookView:
    """Show its verdict, and what would show it."""
    return shown(
        value,
        [
            ("caught", attacks.YES_NO[value.caught]),
            ("verdict", attacks.verdict_cell(value)),
            ("targets", names(value.targets, MOST_NAMES)),
            ("evidence in", names(value.evidence_channels or (), MOST_NAMES)),
            ("rows over the limit (p99 rule)", share(value.coverage)),
            ("AUC", score(value.auc)),
            ("evidence (D_FULL)", number(value.d_full)),
        ],
        [attacks.ladder_table(value.ladder or {})],
        [text for text in (value.sentence, value.note) if text],
    )


def comparison_view(value: Comparison) -> NotebookView:
    """Show figures side by side, differences, attacks caught."""
    notices = [as_labelled(one, value.labels) for one in value.notices]
    return shown(value, (), comparison.notebook_tables(value), notices)


def stream_view(value: ResidualStream) -> NotebookView:
    """Show names, channels and attacks."""
    return shown(
        value,
        [
            ("detector", value.detector),
            ("testbed", value.testbed),
            ("residual space", value.space),
            ("step", None if value.step_s is None else duration(value.step_s)),
            ("channels", names(value.channels, MOST_NAMES)),
            ("own alarms", "yes" if value.alarms is not None else None),
            ("own score", "yes" if value.score is not None else None),
            ("telemetry", names(value.telemetry_channels, MOST_NAMES)),
        ],
        [RecordTable("Attacks", attacks.LISTED, value.attack_segments())],
        value.notices,
    )


def recording_view(value: Recording) -> NotebookView:
    """Show its tags with their ranges."""
    return shown(
        value, [("time zone", value.timezone)], [catalogue.channels_table(value)]
    )


def testbed_view(value: Testbed) -> NotebookView:
    """Show its recordings and attacks."""
    return shown(
        value,
        [("channels", names(value.train.channels, MOST_NAMES))],
        [
            catalogue.recordings_table(value),
            RecordTable("Attacks of the test", attacks.LISTED, value.test.attacks),
        ],
        value.notices,
    )


def detector_view(value: LearnedDetector | Adapter | KnownExpectation) -> NotebookView:
    """Show its card, what it learned from, its settings."""
    card: DetectorCard = value.card
    split, learned = value.split, None
    if split is not None:
        learned = (
            f"{plural(len(split.trained), 'step')}, {len(split.held_out):,} held out"
        )
    return shown(
        value,
        [
            ("title", card.title),
            ("kind", card.kind),
            ("residual space", card.space),
            ("from", card.paper),
            ("learned from", learned),
            ("channels", names(value.channels or (), MOST_NAMES)),
        ],
        [catalogue.settings_table(getattr(value, "settings", None))],
        card.deviates,
    )


def rule_view(value: Rule) -> NotebookView:
    """Show what it looks at and its limits."""
    delays = value.delays
    return shown(
        value,
        [
            ("budget", None if value.budget is None else str(value.budget)),
            ("step", None if value.step_s is None else duration(value.step_s)),
            ("alarm after", f"{delays.on} of {plural(delays.within, 'row')}"),
            ("channels", names([c.name for c in value.channels], MOST_NAMES)),
        ],
        [RecordTable("Scores", rules.MEMBERS, value.members)],
    )


def made_rule_view(value: MadeRule) -> NotebookView:
    """Show the rule, and what it promises."""
    inner, promised = rule_view(value.rule), rules.promise_words(value.promise)
    return shown(value, [("promise", promised), *inner.facts], inner.tables)


def commissioning_view(value: Commissioning) -> NotebookView:
    """Show all rules on later rows, and the advice."""
    facts = value.facts
    return shown(
        value,
        [
            ("budget", facts.budget),
            ("chosen", f"rule {facts.chosen!r}"),
            (
                "made on",
                f"{facts.days:.2g} days of "
                f"{as_labelled('attack-free rows', facts.labels)}",
            ),
            ("judged on", f"{facts.judged_days:.2g} {facts.later_days}"),
        ],
        [rules.notebook_table(facts), rules.what_if_table(facts)],
        [advice(facts), *facts.notes],
    )


def blind_spots_view(value: BlindSpots) -> NotebookView:
    """Show the blindest tags, and the rules."""
    return shown(
        value,
        [
            ("detector", value.detector),
            ("testbed", value.testbed),
            ("budget", value.budget),
            ("rule of the table", repr(value.chosen)),
        ],
        blind_spots.notebook_tables(value),
        [*value.sentences, *value.notes],
    )


def improvement_view(value: Improvement) -> NotebookView:
    """Show what to take and why, the candidates, and what each sees."""
    record = value.record
    facts = [("detector", record.detector), ("budget", record.budget)]
    return shown(value, facts, improvement.tables(record), record.sentences())


VIEWS: dict[type, Callable[[Any], NotebookView]] = {
    Evaluation: evaluation_view,
    SegmentResult: segment_view,
    Result: lambda result: evaluation_view(result.evaluation),
    Comparison: comparison_view,
    ResidualStream: stream_view,
    Recording: recording_view,
    Testbed: testbed_view,
    LearnedDetector: detector_view,
    Adapter: detector_view,
    KnownExpectation: detector_view,
    Rule: rule_view,
    MadeRule: made_rule_view,
    Commissioning: commissioning_view,
    BlindSpots: blind_spots_view,
    Improvement: improvement_view,
}


# ---- pictures ----------------------------------------------------------------------

# Inches of the picture of a whole test.
HEIGHT = 2.6
# Signals drawn below one another.
MOST_SIGNALS = 2
# Contributions smaller than the largest by this factor get no colour.
_HEAT_RANGE = 200


def plot_evaluation(evaluation: Evaluation) -> "Picture":
    """Return the energy through time; see `Evaluation.plot`."""
    with style.styled():
        figure = style.energy_through_time([_entry(evaluation)])
    assert figure is not None  # noqa: S101
    figure.set_size_inches(style.TWO_COLUMNS, HEIGHT)
    return figure


def plot_segment(segment: SegmentView) -> "Picture":
    """Return energy, contributions and signals around an attack.

    Parameters
    ----------
    segment : SegmentView
        One of an evaluation with traces.

    Raises
    ------
    SightlineError
        If the evaluation holds no excerpt of this attack: it keeps those of the first
        `MOST_ATTACKS` (`sightline.evaluation.chart_data`).
    """
    entry = _entry(segment.evaluation)
    i = [one.id for one in segment.evaluation.segments].index(segment.id)
    excerpt, kept = excerpt_of(entry.traces, i), entry.traces.excerpt_rows
    if excerpt is None or excerpt.signals is None:
        raise SightlineError(
            f"The evaluation holds no rows around attack {segment.id!r} to draw: "
            "evaluate the stream again, and draw one of the first "
            f"{0 if kept is None else len(kept)} attacks."
        )
    n = excerpt.contributions.shape[1]
    # The first row of each column, and the row past the last one.
    rows = excerpt.start + np.arange(n + 1) * (excerpt.stop - excerpt.start) / n
    # The time of each test row from the first one.
    clock = clock_of([entry])
    at = moments(entry, clock)
    if clock == PageClock.DATE:
        at = (at - at[0]) / 3600
    verdict = "" if segment.verdict is None else f": {segment.verdict}"
    targets = f", targets {names(segment.targets, 3)}" if segment.targets else ""
    title = f"Attack {segment.id}{verdict}{targets}"
    shown = excerpt.signals[:MOST_SIGNALS]
    with style.styled():
        n_channels = len(excerpt.channels)
        heights = [1.3, 0.35 + 0.16 * n_channels, *[0.75] * len(shown)]
        figure = style.new_figure(style.TWO_COLUMNS, sum(heights) + 0.7)
        axes = figure.subplots(
            len(heights), 1, sharex=True, height_ratios=heights, squeeze=False
        )[:, 0]
        _draw_energy(axes[0], entry, segment, excerpt, at)
        _draw_contributions(figure, axes[1], excerpt, _moments_of(rows, at))
        middles = _moments_of((rows[:-1] + rows[1:]) / 2 - 0.5, at)
        for k, axis in enumerate(axes[2:]):
            low, high, mean = excerpt.signals[k].T
            colour = style.COLOURS[0]
            axis.fill_between(middles, low, high, color=colour, alpha=0.25, lw=0)
            axis.plot(middles, mean, color=colour, lw=0.8)
            what = "" if excerpt.is_measured[k] else "\nresidual"
            name = style.label(excerpt.channels[k], 14)
            axis.set_ylabel(f"{name}{what}", fontsize=6.5)
        for axis in axes:
            ends = at[segment.start], at[segment.stop - 1]
            for end in ends:
                axis.axvline(end, color="black", lw=0.7, ls=(0, (2, 2)))
        axes[0].set_title(style.label(title, 90), loc="left", pad=3)
        is_row = clock == PageClock.ROW
        axes[-1].set_xlabel("row" if is_row else "hours from the start of the test")
        figure.align_ylabels(axes)
    return figure


def _entry(evaluation: Evaluation) -> Entry:
    """Return an evaluation as the figures of the report take it."""
    return entries_of(results_of([evaluation], "plot"))[0]


def _moments_of(rows: Floats, at: Floats) -> Floats:
    """Return the time of places between rows; past the last row it goes on."""
    known = np.append(at, at[-1] + (at[-1] - at[-2] if len(at) > 1 else 1.0))
    return np.asarray(np.interp(rows, np.arange(len(known)), known))


def _draw_energy(
    axis: Any, entry: Entry, segment: SegmentView, excerpt: Excerpt, at: Floats
) -> None:
    """Draw the energy of each row of the excerpt, the attack and the levels."""
    first, stop = excerpt.start, excerpt.stop
    logs = log_energy(entry.traces.test_energy[first:stop])
    axis.plot(at[first:stop], 10**logs, color=style.SOFT, lw=0.7)
    colour = style.SOFT if segment.verdict is None else info_of(segment.verdict).light
    ends = at[segment.start], at[segment.stop - 1]
    axis.axvspan(*ends, color=colour, alpha=0.22, lw=0.6)
    tau = entry.evaluation.probe.tau99
    if tau is not None:
        axis.axhline(tau, color=style.TAU, lw=0.8)
    axis.axhline(entry.train_mean, color=style.TRAIN, lw=0.8, ls=":")
    axis.set_yscale("log")
    levels = [entry.train_mean, *([] if tau is None else [tau])]
    style.log_scale(axis.yaxis, np.append(10**logs, levels), most=3)
    axis.set_ylabel("energy")
    axis.legend(
        handles=style.level_handles()[:2],
        loc="lower right",
        bbox_to_anchor=(1, 1),
        ncols=2,
        borderpad=0,
    )


def _draw_contributions(
    figure: "Picture", axis: Any, excerpt: Excerpt, moments_of_columns: Floats
) -> None:
    """Draw how much each channel adds to the energy, on a log scale."""
    from matplotlib.colors import LogNorm

    heat = excerpt.contributions
    top = max(float(np.nanmax(heat, initial=0.0)), 1e-6)
    edges = np.arange(len(excerpt.channels) + 1) - 0.5
    mesh = axis.pcolormesh(
        moments_of_columns,
        edges,
        np.clip(heat, top / _HEAT_RANGE, None),
        norm=LogNorm(top / _HEAT_RANGE, top),
        cmap="Greys",
        rasterized=True,
    )
    labels = [style.label(name, 16) for name in excerpt.channels]
    axis.set_yticks(range(len(labels)), labels, fontsize=6)
    axis.invert_yaxis()
    axis.tick_params(axis="y", length=0)
    bar = figure.colorbar(mesh, ax=axis, pad=0.01, aspect=12)
    bar.set_label("contribution")
