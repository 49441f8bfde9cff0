"""What a notebook shows of each type: facts, tables of `sightline.show`, and notes."""

from collections.abc import Callable
from typing import Any

from sightline.blindspots.result import BlindSpots
from sightline.cli.summary import summary
from sightline.comparison.compare import Comparison
from sightline.data.recording import Recording
from sightline.data.stream import ResidualStream
from sightline.detectors.adapters.adapter import Adapter, KnownExpectation
from sightline.detectors.base import DetectorCard, LearnedDetector
from sightline.evaluation.result import Evaluation, SegmentResult
from sightline.figures import FIGURES, Figure
from sightline.judgement.verdicts import RungName
from sightline.rules.advice import advice, false_alarm_words
from sightline.rules.commission import Commissioning
from sightline.rules.making import MadeRule
from sightline.rules.rule import Rule
from sightline.show import attacks, blind_spots, catalogue, comparison, rules
from sightline.show.evaluations import energies, found_words
from sightline.show.html import MOST_NAMES, NotebookView, rendered, shown
from sightline.show.plain import to_frame
from sightline.show.table import RecordTable
from sightline.show.terminal import as_text
from sightline.showing import Shown
from sightline.storage import Result
from sightline.testbeds.base import Testbed
from sightline.text import duration, names, number, plural, score, share

# Columns of the summary as text: wide enough for the legends.
WIDTH = 88
_RULES = {RungName.OWN_RULE: "the detector's own rule", RungName.PROBE: "the p99 rule"}


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
    found = found_words(facts.found) if facts is not None else None
    using = _RULES.get(facts.rule) if facts is not None and facts.rule else None
    in_alarm = f"{share(rule.time_in_alarm, 1)} of attack-free time in alarm"
    serious = [finding.line for finding in value.findings if finding.is_serious]
    advised = [] if value.rules is None else [advice(value.rules)]
    withheld = [facts.advice_withheld] if facts and facts.advice_withheld else []
    return shown(
        value,
        [
            ("detector", value.stream.detector),
            ("testbed", value.stream.testbed),
            ("attacks found", found and f"{found}, by {using}"),
            ("false alarms", f"{false_alarm_words(rule)}, {in_alarm}"),
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
            ("verdict", attacks.verdict_cell(value)),
            ("targets", names(value.targets, MOST_NAMES)),
            ("evidence in", names(value.evidence_channels or (), MOST_NAMES)),
            ("time in alarm (p99 rule)", share(value.coverage)),
            ("AUC", score(value.auc)),
            ("evidence (D_FULL)", number(value.d_full)),
        ],
        [attacks.ladder_table(value.ladder or {})],
        [text for text in (value.sentence, value.note) if text],
    )


def comparison_view(value: Comparison) -> NotebookView:
    """Show figures side by side, differences, attacks found."""
    return shown(value, (), comparison.notebook_tables(value), value.notices)


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
    inner, promise = rule_view(value.rule), value.promise
    promised = (
        f"{number(promise.per_day)} alarms a day, {share(promise.share, 1)} of time, "
        f"by {promise.days:.2g} days"
    )
    return shown(value, [("promise", promised), *inner.facts], inner.tables)


def commissioning_view(value: Commissioning) -> NotebookView:
    """Show all rules on later rows, and the advice."""
    facts = value.facts
    return shown(
        value,
        [
            ("budget", facts.budget),
            ("chosen", f"rule {facts.chosen!r}"),
            ("made on", f"{facts.days:.2g} days of attack-free rows"),
            ("judged on", f"{facts.judged_days:.2g} later days"),
        ],
        [rules.notebook_table(facts)],
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
}
