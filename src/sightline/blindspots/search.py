"""The search for blind spots: record, rules and places, ready to be falsified.

`find_blind_spots` walks from telemetry to the table.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np

from sightline.blindspots.attackers import WhatIfAttack, knowing_attackers, what_if
from sightline.blindspots.detector import (
    OWN,
    OwnRuleViews,
    detector_rows,
    own_rule_of,
    stage_of,
    stated_memory,
)
from sightline.blindspots.places import (
    DURATIONS_S,
    LEAST_PLACES,
    N_PLACES,
    LinearStage1,
    Stage1,
    TelemetryRecord,
    Timing,
    draw_places,
    rows_after,
    rows_before,
)
from sightline.blindspots.result import (
    USUAL_S,
    BlindSpot,
    BlindSpots,
    KnowingAttacker,
    RuleSight,
    TogetherSize,
    TradeOff,
    WhatIf,
    blindness_of,
    mean_share,
    nearest_duration,
    sentences_of,
)
from sightline.blindspots.rule_view import (
    RuleViews,
    TwinRecord,
    memory_rows,
)
from sightline.blindspots.shapes import (
    RESIDUAL_SHAPES,
    SHAPES,
    Shape,
    Target,
    measured_blocks,
    residual_tags,
    shape_named,
    tags_of,
    targets_of,
)
from sightline.blindspots.sizes import Arena
from sightline.blindspots.together import all_together, why_not_together
from sightline.data.arrays import NORMAL, Bools, Floats, Ints
from sightline.data.downsampling import rows_of
from sightline.data.recording import Recording, Role
from sightline.data.row_tables import read_on_grid
from sightline.data.stream import ResidualStream
from sightline.detectors.base import Detector, LearnedDetector, RuleInput
from sightline.errors import StreamError
from sightline.export import NO_RULE, export_rows, export_stream
from sightline.metrics.alarm_load import DAY_S, AlarmLoad
from sightline.parallel import one_thread_each, threads, usual_jobs
from sightline.progress import Progress, Step, StepKind, silent
from sightline.rules.commission import FIRST, Commissioning, commission
from sightline.rules.limits import Budget
from sightline.rules.making import MadeRule
from sightline.rules.rule import Rule
from sightline.text import did_you_mean, duration, names

# Alarms a day of the trade-off.
TRADE_OFF: Final = (1.0, 6.0, 24.0, 96.0)
# Makes alarm rules for a budget.
Maker = Callable[[Budget], Commissioning]
# Rules that a search can judge: of a commissioning, of a file, or several.
SpotRules = Commissioning | MadeRule | Sequence[Rule]
# Rules of the table beside the chosen one.
USUAL_RULES: Final = ("energy", "z", "all")


@dataclass(frozen=True, kw_only=True)
class SpotSettings:
    """What a user may choose of a search.

    Parameters
    ----------
    places, seed : int
        Places, and the seed of their draw and of the noise.
    shapes : tuple of str
        Names of shapes; all by default.
    own_shapes : tuple of Shape
        Shapes of the user, always used.
    durations_s : tuple of float
        How long falsifications last.
    tags : tuple of str, optional
        The tags to falsify; all by default.
    rules : tuple of str, optional
        Names of rules of a commissioning, the one for the sentences last; by default
        the energy, the largest conditional z, and the chosen one.
    jobs : int, optional
        Threads; by default one for each core.
    """

    places: int = N_PLACES
    seed: int = 0
    shapes: tuple[str, ...] = tuple(SHAPES)
    own_shapes: tuple[Shape, ...] = ()
    durations_s: tuple[float, ...] = DURATIONS_S
    tags: tuple[str, ...] | None = None
    rules: tuple[str, ...] | None = None
    jobs: int | None = None

    def chosen_shapes(self) -> tuple[Shape, ...]:
        """Return the shapes; refuse unknown names."""
        named = [shape_named(name, self.own_shapes) for name in self.shapes]
        return tuple(dict.fromkeys((*named, *self.own_shapes)))


class SpotArena:
    """A record, rules and places: ready to be searched.

    Parameters
    ----------
    record : TwinRecord
        Residual rows of the record.
    is_calm : array of bool, shape (n_rows,)
        Its attack-free rows, those that set limits included.
    telemetry : TelemetryRecord
        What is falsified.
    rows : array of int, shape (n_rows,)
        The detector's row of each residual row.
    stage : callable
        Returns Stage 1, from the detector's rows of some places.
    memory : int
        Earlier rows that a residual depends on, as far as it is stated.
    rules : Commissioning or sequence of Rule
        Alarm rules.
    budget : Budget
        That their limits were set for.
    settings : SpotSettings
        What a user chose.
    own : pair, optional
        What the detector's own rule needs, and the detector.
    loads : mapping of str to AlarmLoad
        Alarms of the rules on the same record, where they were judged already.
    """

    def __init__(
        self,
        *,
        record: TwinRecord,
        is_calm: Bools,
        telemetry: TelemetryRecord,
        rows: Ints,
        stage: Callable[[Ints], Stage1],
        memory: int,
        rules: Sequence[Rule],
        budget: Budget,
        settings: SpotSettings,
        own: tuple[RuleInput, LearnedDetector] | None = None,
        loads: Mapping[str, AlarmLoad],
    ) -> None:
        self.settings, self.budget = settings, budget
        # Sight is that of the rules as they were commissioned.
        self.rules = [rule.fixed for rule in rules]
        self.record, self.rows = record, rows
        self.telemetry, self.tags = telemetry, telemetry.tags
        self.own, self.loads = own, loads
        self.notes: list[str] = []
        self.targets = self._targets()
        self.arena = self._arena(is_calm, stage, memory)

    @classmethod
    def of_detector(
        cls,
        detector: Detector,
        recording: Recording,
        train: Recording,
        rules: SpotRules,
        budget: Budget,
        settings: SpotSettings,
    ) -> Self:
        """Return the search through a detector.

        Parameters
        ----------
        detector : Detector
            Fitted.
        recording, train : Recording
            Telemetry to falsify, and telemetry that says what is usual.
        rules, budget, settings
            As of the class.
        """
        source = detector_rows(detector, recording, tags_of(train))
        exported = source.exported
        chosen, split, loads = rules_of(rules, settings.rules, exported.time)
        check_channels(chosen, exported.channels)
        record, is_calm = TwinRecord.of(
            np.asarray(exported.values, np.float64),
            exported.labels,
            exported.breaks,
            exported.step_s,
            split,
        )
        tags = source.telemetry.tags
        wanted = settings.rules is None or OWN in settings.rules
        own = own_rule_of(detector, train, recording) if wanted else None
        return cls(
            record=record,
            is_calm=is_calm,
            telemetry=source.telemetry,
            rows=source.rows,
            stage=lambda places: stage_of(source, places, tags),
            memory=stated_memory(detector),
            rules=chosen,
            budget=budget,
            settings=settings,
            own=own,
            loads=loads,
        )

    @classmethod
    def of_stream(
        cls,
        stream: ResidualStream,
        rules: SpotRules,
        budget: Budget,
        settings: SpotSettings,
    ) -> Self:
        """Return the search in residual space, where no detector is known."""
        chosen, split, loads = rules_of(rules, settings.rules, stream.test_time)
        check_channels(chosen, stream.channels)
        values = np.concatenate([block for _, block in read_on_grid(stream.test)])
        record, is_calm = TwinRecord.of(
            values.astype(np.float64),
            stream.labels,
            stream.test_breaks,
            stream.step_s,
            split,
        )
        tags, scales = residual_tags(stream)
        shown = list(measured_blocks(stream, stream.telemetry_test))
        telemetry = TelemetryRecord(
            values=record.rows * scales,
            tags=tags,
            starts=np.arange(len(values)),
            every=1,
            sample=lambda blocks, tag: blocks[:, 0],
            step_s=record.step_s,
            is_residual=True,
            measured=None if not shown else np.concatenate(shown),
        )
        taps = {j: np.eye(len(tags))[j : j + 1] / scales[j] for j in range(len(tags))}
        shapes = [name for name in settings.shapes if name in RESIDUAL_SHAPES]
        return cls(
            record=record,
            is_calm=is_calm,
            telemetry=telemetry,
            rows=np.arange(len(values)),
            stage=lambda places: LinearStage1(taps),
            memory=0,
            rules=chosen,
            budget=budget,
            settings=replace(settings, shapes=tuple(shapes)),
            loads=loads,
        )

    def _targets(self) -> list[Target]:
        """Return what is falsified."""
        settings, known = self.settings, [tag.name for tag in self.tags]
        kept = set(known if settings.tags is None else settings.tags)
        if unknown := sorted(kept.difference(known)):
            raise StreamError(
                f"There is no tag {unknown[0]!r}; {did_you_mean(unknown[0], known)}"
            )
        chosen = [tag for tag in self.tags if tag.name in kept]
        targets, notes = targets_of(chosen, settings.chosen_shapes())
        self.notes += notes
        if not targets:
            why = notes[0] if notes else "none of the shapes fits the tags given."
            raise StreamError(f"No tag is left to falsify: {why}")
        return targets

    def _arena(
        self, is_calm: Bools, stage: Callable[[Ints], Stage1], memory: int
    ) -> Arena:
        """Draw the places, and read rules and detector at them."""
        settings, record = self.settings, self.record
        timing = Timing.of(
            record.step_s,
            self.budget.per_day,
            durations_s=settings.durations_s,
            memory=memory_rows(self.rules),
        )
        before = rows_before(is_calm, record.breaks)
        lengths = [grid.rows + grid.release for grid in timing.grids]

        def drawn(memory: int) -> tuple[Ints, Bools]:
            return draw_places(
                record.is_free,
                before,
                record.breaks,
                before=memory,
                lengths=lengths,
                n_places=settings.places,
                seed=settings.seed,
            )

        places, fits = drawn(memory)
        made = stage(self.rows[places])
        if made.memory > memory:
            places, fits = drawn(made.memory)
        timing, fits = self._enough(timing, fits)
        if not made.is_linear and settings.rules is None and len(self.rules) > 1:
            self.rules = self.rules[-1:]
            self.notes.append(
                "The detector is not linear, so every size is searched through it: by "
                f"default for the rule {self.rules[0].name!r} alone (and its own). "
                "Name others with --rules."
            )
        self.row_places = places
        where = (record, places, timing.grids, fits)
        self.views: tuple[RuleViews | OwnRuleViews, ...] = tuple(
            RuleViews(rule, *where) for rule in self.rules
        )
        if self.own is not None:
            given, detector = self.own
            try:
                own = OwnRuleViews(given, detector, *where)
            except StreamError as error:
                self.notes.append(f"The detector's own rule is left out: {error}")
            else:
                self.views = (own, *self.views)
        return Arena(
            telemetry=self.telemetry,
            stage=made,
            timing=timing,
            places=self.rows[places],
            fits=fits,
            reach=before[places],
            room=rows_after(record.is_free, record.breaks)[places],
            rules=self.views,
            seed=settings.seed,
        )

    def _enough(self, timing: Timing, fits: Bools) -> tuple[Timing, Bools]:
        """Leave out durations with too few places, by name."""
        self.notes += timing.left_out
        enough = fits.sum(axis=0) >= LEAST_PLACES
        for grid, is_kept, n in zip(
            timing.grids, enough, fits.sum(axis=0), strict=True
        ):
            if not is_kept:
                self.notes.append(
                    f"The duration of {duration(timing.seconds(grid))} is left out: "
                    f"it fits at {int(n)} of {len(fits)} places, and {LEAST_PLACES} "
                    "are needed."
                )
        grids = tuple(g for g, kept in zip(timing.grids, enough, strict=True) if kept)
        return replace(timing, grids=grids), fits[:, enough]

    def search(
        self,
        *,
        done: Mapping[str, Sequence[BlindSpot]] | None = None,
        found: Callable[[str, list[BlindSpot]], None] = lambda name, spots: None,
        progress: Progress = silent,
    ) -> list[BlindSpot]:
        """Return the table, tag by tag.

        Parameters
        ----------
        done : mapping of str to sequence of BlindSpot, optional
            Targets that an earlier run has finished.
        found : callable, optional
            Called with each target and its part of the table as soon as it is known.
        progress : callable, optional
            Called with a `Step`.
        """
        known = dict(done or {})
        left = [target for target in self.targets if target.name not in known]
        for k, (target, part) in enumerate(
            zip(left, self._spots_of(self.arena, left), strict=True)
        ):
            known[target.name] = part
            found(target.name, part)
            progress(Step(StepKind.FALSIFYING, k + 1, len(left), f"{target.name}"))
        return [spot for target in self.targets for spot in known[target.name]]

    def _spots_of(
        self, arena: Arena, targets: Sequence[Target]
    ) -> Iterator[list[BlindSpot]]:
        """Yield the table of each target, in their order, by as many threads as set."""

        def spots(target: Target) -> list[BlindSpot]:
            # The cores are busy with other targets.
            with threads(1):
                return list(arena.spots(target))

        jobs = self.settings.jobs or usual_jobs()
        with one_thread_each(), ThreadPoolExecutor(jobs) as pool:
            yield from pool.map(spots, targets)

    def sights(self, spots: Iterable[BlindSpot]) -> tuple[RuleSight, ...]:
        """Return cost and blindness of each rule."""
        table = list(spots)
        sensors = [tag.name for tag in self.tags if tag.role is not Role.ACTUATOR]
        sights = []
        for view in self.views:
            if isinstance(view, OwnRuleViews):
                load = view.load()
            else:
                # As the rules were judged, so that a page says one number.
                judged = self.loads.get(view.rule.name)
                load = judged or self.record.load(view.run)
            of_rule = [spot for spot in table if spot.rule == view.rule.name]
            sights.append(
                RuleSight(
                    name=view.rule.name,
                    alarms_per_day=load.alarms_per_day,
                    share_of_time=load.share_of_time,
                    blindness=blindness_of(of_rule, sensors),
                )
            )
        return tuple(sights)

    def trade_off(self, make: Maker, progress: Progress = silent) -> list[TradeOff]:
        """Return how large a step stays unseen at other numbers of alarms a day.

        Parameters
        ----------
        make : callable
            Makes the rules for another budget; one that is refused is left out.
        progress : callable, optional
            Called with a `Step`.
        """
        arena, found = self.arena, []
        usual = nearest_duration([arena.timing.seconds(g) for g in arena.timing.grids])
        sensors = [
            replace(target, shapes=(SHAPES["step"],))
            for target in self.targets
            if target.tags[0].role is not Role.ACTUATOR and len(target.tags) == 1
        ]
        n_steps = len(TRADE_OFF) * len(sensors)
        for k, per_day in enumerate(TRADE_OFF):
            budget = replace(self.budget, per_day=per_day)
            try:
                made = make(budget)
            except StreamError as error:
                self.notes.append(f"The trade-off lacks {per_day:g} a day: {error}")
                continue
            rules = [made.rules[rule.name].rule.fixed for rule in self.rules]
            other = self._with_rules(rules, usual)
            spots: list[BlindSpot] = []
            for j, part in enumerate(self._spots_of(other, sensors)):
                spots += part
                done = k * len(sensors) + j + 1
                progress(Step(StepKind.FALSIFYING, done, n_steps, "the trade-off"))
            for rule, views in zip(rules, other.rules, strict=True):
                assert isinstance(views, RuleViews)  # noqa: S101
                deviation = mean_share([s for s in spots if s.rule == rule.name])
                if deviation is not None:
                    found.append(
                        TradeOff(
                            rule=rule.name,
                            budget_per_day=per_day,
                            alarms_per_day=self.record.load(views.run).alarms_per_day,
                            duration_s=usual,
                            deviation=deviation,
                        )
                    )
        return found

    def _with_rules(self, rules: Sequence[Rule], duration_s: float) -> Arena:
        """Return the same places and judged rows with other rules, for one duration."""
        arena = self.arena
        timing = Timing.of(
            self.record.step_s,
            self.budget.per_day,
            durations_s=[duration_s],
            memory=memory_rows(rules),
        )
        grid = timing.grids[0]
        fits = (arena.room >= grid.rows + grid.release)[:, None]
        views = tuple(
            RuleViews(rule, self.record, self.row_places, timing.grids, fits)
            for rule in rules
        )
        return replace(arena, timing=timing, fits=fits, rules=views)

    def attackers(self, spots: Sequence[BlindSpot]) -> Iterator[KnowingAttacker]:
        """Yield how far those who know the rule can push the blindest tags."""
        rule = self.rules[-1]
        views = next(one for one in self.views if one.rule is rule).views()
        of_rule = [s for s in spots if s.rule == rule.name]
        yield from knowing_attackers(self.arena, views, self.tags, of_rule)

    def together(
        self, spots: Sequence[BlindSpot], progress: Progress = silent
    ) -> Iterator[TogetherSize]:
        """Yield how far each sensor can be off alone, and with others."""
        rule = self.rules[-1]
        views = next(one for one in self.views if one.rule is rule)
        moving = [t for t in self.tags if t.role is not Role.ACTUATOR and t.range > 0]
        of_rule = [spot for spot in spots if spot.rule == rule.name]
        if why := why_not_together(self.arena, views.views()):
            self.notes.append(
                f"What several tags hide together is not computed: {why}."
            )
            return
        yield from all_together(self.arena, views.views(), moving, of_rule, progress)

    def result(
        self,
        name: str,
        *,
        detector: str | None = None,
        testbed: str | None = None,
        make: Maker | None = None,
        attacks: Sequence[WhatIfAttack] = (),
        done: Mapping[str, Sequence[BlindSpot]] | None = None,
        found: Callable[[str, list[BlindSpot]], None] = lambda name, spots: None,
        progress: Progress = silent,
    ) -> BlindSpots:
        """Search, and return the table with all that belongs to it.

        Parameters
        ----------
        name, detector, testbed : str
            Names for the result.
        make : callable, optional
            Makes rules for other budgets, for the trade-off.
        attacks : sequence of WhatIfAttack
            Attacks of the user.
        done, found, progress
            As of `search`.
        """
        spots = tuple(self.search(done=done, found=found, progress=progress))
        is_linear = self.arena.stage.is_linear
        with one_thread_each():
            curve = self.trade_off(make, progress) if make else []
            knowing = tuple(self.attackers(spots))
            tried = list(what_if(self.arena, attacks))
            with_others = tuple(self.together(spots, progress))
        self.notes += [one for one in tried if isinstance(one, str)]
        made = BlindSpots(
            name=name,
            detector=detector,
            testbed=testbed,
            budget=str(self.budget),
            is_residual=self.telemetry.is_residual,
            is_linear=is_linear,
            chosen=self.rules[-1].name,
            n_places=len(self.arena.places),
            seed=self.settings.seed,
            days=float(self.record.is_free.sum() * self.record.step_s / DAY_S),
            rules=self.sights(spots),
            spots=spots,
            tags=tuple(target.name for target in self.targets),
            trade_off=tuple(curve),
            attackers=knowing,
            what_if=tuple(one for one in tried if isinstance(one, WhatIf)),
            together=with_others,
            notes=tuple(self.notes),
        )
        return replace(made, sentences=sentences_of(made))


def rules_of(
    rules: SpotRules,
    wanted: Sequence[str] | None = None,
    time: Floats | None = None,
) -> tuple[list[Rule], int, dict[str, AlarmLoad]]:
    """Return the rules of a search, the first free row, and alarms by rule.

    The chosen rule comes last. Alarms are known of rules that a commissioning judged.

    Parameters
    ----------
    rules : Commissioning, MadeRule or sequence of Rule
        Of a `Commissioning` the usual rules and the chosen one are taken.
    wanted : sequence of str, optional
        Names of other rules of it.
    time : array of shape (n_rows,), optional
        Of the record, seconds since 1970: rows that set the limit of a `MadeRule` are
        not free.
    """
    if isinstance(rules, MadeRule):
        origin, split = rules.origin, 0
        if origin and origin.begins and origin.ends and time is not None:
            inside = (time >= origin.begins) & (time <= origin.ends)
            split = int(np.flatnonzero(inside).max(initial=-1)) + 1
        return [rules.rule], split, {}
    if not isinstance(rules, Commissioning):
        if not rules:
            raise StreamError("At least one alarm rule is needed: give one.")
        return list(rules), 0, {}
    chosen = rules.facts.chosen
    usual = [name for name in USUAL_RULES if name in rules.rules]
    # The rule of the sentences comes last: the one that commissioning chose.
    taken = [*(name for name in usual if name != chosen), chosen]
    if wanted is not None:
        taken = [name for name in dict.fromkeys(wanted) if name != OWN]
    for name in taken:
        if name not in rules.rules:
            raise StreamError(
                f"There is no rule {name!r} among those made; "
                f"{did_you_mean(name, rules.rules)}"
            )
    loads = {row.name: row.load for row in rules.facts.table}
    return [rules.rules[name].rule for name in taken], rules.facts.split, loads


def check_channels(rules: Sequence[Rule], channels: Sequence[str]) -> None:
    """Refuse rules that were made for residuals of other channels."""
    for rule in rules:
        expected = [channel.name for channel in rule.channels]
        if expected != list(channels):
            other = sorted(set(expected).symmetric_difference(channels)) or expected
            raise StreamError(
                f"The rule {rule.name!r} was made for other channels (not the same: "
                f"{names(other, 3)}): give the detector and plant that it was made for."
            )


# --- What users call ------------------------------------------------------------------


def find_blind_spots(
    detector: Detector,
    recording: Recording,
    rules: SpotRules | None = None,
    *,
    train: Recording | None = None,
    budget: Budget | str = "6/day,1%",
    places: int = N_PLACES,
    seed: int = 0,
    shapes: Sequence[str] = tuple(SHAPES),
    durations_s: Sequence[float] = DURATIONS_S,
    tags: Sequence[str] | None = None,
    attacks: Sequence[WhatIfAttack] = (),
    name: str = "blind spots",
    jobs: int | None = None,
    progress: Progress = silent,
) -> BlindSpots:
    """Find the smallest falsification of each tag that raises an alarm.

    Falsifications are written into attack-free telemetry at places that are the same
    for all tags, shapes and rules. Seen is what raises an alarm that the same place
    does not have without it.

    Parameters
    ----------
    detector : Detector
        Fitted.
    recording : Recording
        Telemetry that the detector was not fitted on. Places avoid labelled attacks and
        the rows on which limits were set; labels are used for nothing else.
    rules : Commissioning, MadeRule or sequence of Rule, optional
        Alarm rules. A `MadeRule` is what `read_rule` returns. Of a `Commissioning` the
        energy, the largest conditional z and the chosen rule are used. Not given: they
        are commissioned on the first 35% of the recording.
    train : Recording, optional
        What the detector was fitted on: for the normal reference of rules that are
        made here, and for range and spread of the tags. Not given: the first 35% of
        `recording`.
    budget : Budget or str
        Alarms a day that limits are set for; of given rules, that they were made for.
    places : int
        Places.
    seed : int
        Of their draw and of the noise: the same seed gives the same table.
    shapes : sequence of str
        Names of `sightline.blindspots.shapes.SHAPES`.
    durations_s : sequence of float
        How long falsifications last, in seconds.
    tags : sequence of str, optional
        Tags to falsify; all by default.
    attacks : sequence of WhatIfAttack
        Attacks of the user, as `read_attacks` reads them: how often is each seen?
    name : str
        Name of the result.
    jobs : int, optional
        Threads; by default one for each core. The result does not depend on it.
    progress : callable, optional
        Called with a `Step`.

    Returns
    -------
    BlindSpots
        Sizes with intervals, sentences, and the cost of each rule.

    Raises
    ------
    StreamError
        If there are too few places, a name is unknown, or the detector refuses short
        stretches of a recording.

    Examples
    --------
    >>> import numpy as np
    >>> from sightline import Recording, Tag, make_detector
    >>> rng = np.random.default_rng(0)
    >>> tags = [Tag(name="LIT101", unit="mm"), Tag(name="FIT101")]
    >>> values = rng.normal(size=(40_000, 2))
    >>> train = Recording(values=values[:10_000], tags=tags, step_s=10.0)
    >>> later = Recording(values=values[10_000:], tags=tags, step_s=10.0)
    >>> detector = make_detector("mean").fit(train)
    >>> spots = find_blind_spots(
    ...     detector, later, train=train, durations_s=[60.0], shapes=["step"]
    ... )
    >>> spots
    BlindSpots 'blind spots': 2 tags, 3 rules, 12 falsifications, 40 places
    >>> 2 < spots.spots[0].half.size < 5  # of noise with a standard deviation of 1
    True
    """
    settings = SpotSettings(
        places=places,
        seed=seed,
        shapes=tuple(shapes),
        durations_s=tuple(durations_s),
        tags=None if tags is None else tuple(tags),
        jobs=jobs,
    )
    budget = Budget.parse(budget)
    progress(Step(StepKind.RESIDUALS, detail="of the record"))
    learned = train
    if learned is None:
        learned = rows_of(recording, 0, max(int(FIRST * recording.n_steps), 1))
    make: Maker | None = None
    if rules is None and train is not None:
        stream = export_stream(
            detector, train, recording, rule=NO_RULE, telemetry=False
        )
    elif rules is None:
        # The first 35% of the recording are the normal reference.
        rows = export_rows(detector, recording)
        stages: dict[str, list[str]] = {}
        for tag in recording.tags:
            if tag.stage and tag.name in rows.channels:
                stages.setdefault(tag.stage, []).append(tag.name)
        is_first = np.arange(len(rows.values)) < FIRST * len(rows.values)
        stream = ResidualStream(
            rows.values[is_first & (rows.labels == NORMAL)],
            rows.values,
            rows.labels,
            channels=rows.channels,
            test_breaks=rows.breaks,
            segments=rows.attacks,
            step_s=rows.step_s,
            meta={"groups": stages},
        )
    if rules is None:
        make = maker(stream, settings)
        rules = make(budget)
    arena = SpotArena.of_detector(detector, recording, learned, rules, budget, settings)
    return arena.result(name, make=make, attacks=attacks, progress=progress)


def blindness_of_rules(
    stream: ResidualStream, made: Commissioning, progress: Progress = silent
) -> dict[str, float | None]:
    """Return how blind each rule of a commissioning is, in residual space.

    Geometric mean over channels of min(10, 50% size / range of the residual in train),
    of steps and ramps of 15 minutes, both signs; on the rows after the split. A rule
    that needs the detector's own score is left out.

    Parameters
    ----------
    stream : ResidualStream
        The stream that the rules were made on.
    made : Commissioning
        The rules.
    progress : callable, optional
        Called with a `Step`.

    Raises
    ------
    StreamError
        If the rows after the split have too few places.
    """
    names = [name for name, one in made.rules.items() if not one.rule.needs_score]
    settings = SpotSettings(
        shapes=("step", "ramp"), durations_s=(USUAL_S,), rules=tuple(names)
    )
    budget = made.facts.accepted
    arena = SpotArena.of_stream(stream, made, budget, settings)
    return {
        one.name: one.blindness for one in arena.sights(arena.search(progress=progress))
    }


def maker(stream: ResidualStream, settings: SpotSettings) -> Maker:
    """Return what makes alarm rules for a budget, on the first 35% of a stream's test.

    Rules that the settings name are made beside the usual ones.
    """
    names = tuple(name for name in settings.rules or () if name != OWN)
    return lambda budget: commission(stream, budget=budget, rules=names)
