"""Blind spots of a detector: the walk from telemetry to the table."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from sightline.blindspots.places import (
    DURATIONS_S,
    LEAST_PLACES,
    N_PLACES,
    Timing,
    draw_places,
    rows_after,
    rows_before,
)
from sightline.blindspots.result import BlindSpot, BlindSpots, RuleSight, blindness_of
from sightline.blindspots.rule_view import RuleViews, TwinRecord, memory_rows
from sightline.blindspots.search import Arena, Target, targets_of
from sightline.blindspots.shapes import SHAPES, Shape, TagFacts, shape_named, tag_facts
from sightline.blindspots.words import sentences_of
from sightline.data.arrays import NORMAL, Bools, Ints
from sightline.data.downsampling import rows_of
from sightline.data.recording import Recording, Role
from sightline.data.segments import segments_of
from sightline.detectors.base import Detector, LearnedDetector
from sightline.errors import StreamError
from sightline.export import NO_RULE, export_stream
from sightline.facts.calm_rows import beyond_guard
from sightline.operation.falsified import DetectorRows, detector_rows, stage_of
from sightline.progress import Progress, Step, StepKind, silent
from sightline.rules.budget import Budget
from sightline.rules.commission import FIRST, Commissioning, commission
from sightline.rules.rule import Rule
from sightline.text import did_you_mean, duration, names

# Rules of the table beside the chosen one.
USUAL_RULES: Final = ("energy", "z")


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
    limits : mapping of str to pair of float or None
        Readings that are possible, by tag.
    jobs : int, optional
        Threads; by default one for each core.
    """

    places: int = N_PLACES
    seed: int = 0
    shapes: tuple[str, ...] = tuple(SHAPES)
    own_shapes: tuple[Shape, ...] = ()
    durations_s: tuple[float, ...] = DURATIONS_S
    tags: tuple[str, ...] | None = None
    limits: Mapping[str, tuple[float | None, float | None]] | None = None
    jobs: int | None = None

    def chosen_shapes(self) -> tuple[Shape, ...]:
        """Return the shapes; refuse unknown names."""
        named = [shape_named(name, self.own_shapes) for name in self.shapes]
        return tuple(dict.fromkeys((*named, *self.own_shapes)))


def find_blind_spots(
    detector: Detector,
    recording: Recording,
    rules: Commissioning | Sequence[Rule] | None = None,
    *,
    train: Recording | None = None,
    budget: Budget | str = "6/day,1%",
    places: int = N_PLACES,
    seed: int = 0,
    shapes: Sequence[str] = tuple(SHAPES),
    durations_s: Sequence[float] = DURATIONS_S,
    tags: Sequence[str] | None = None,
    limits: Mapping[str, tuple[float | None, float | None]] | None = None,
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
    rules : Commissioning or sequence of Rule, optional
        Alarm rules. Of a `Commissioning` the energy, the largest conditional z and the
        chosen rule are used. Not given: they are commissioned on the first 35% of the
        recording.
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
    limits : mapping of str to pair of float or None, optional
        Least and largest possible reading of tags.
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
    >>> whole = Recording(values=rng.normal(size=(30_000, 2)), tags=tags, step_s=10.0)
    >>> var = make_detector("mean").fit(whole)
    >>> spots = find_blind_spots(var, whole, durations_s=[60.0], shapes=["step"])
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
        limits=limits,
        jobs=jobs,
    )
    budget = Budget.parse(budget)
    progress(Step(StepKind.RESIDUALS, detail="of the record"))
    learned = train if train is not None else _first_part(recording)
    if rules is None:
        rules = commissioned(detector, learned, recording, budget)
    arena = SpotArena(detector, recording, learned, rules, budget, settings)
    return arena.result(name, progress=progress)


def commissioned(
    detector: Detector, train: Recording, recording: Recording, budget: Budget
) -> Commissioning:
    """Return alarm rules made on the first 35% of a recording."""
    stream = export_stream(detector, train, recording, rule=NO_RULE)
    return commission(stream, budget=budget)


def _first_part(recording: Recording) -> Recording:
    return rows_of(recording, 0, max(int(FIRST * recording.n_steps), 1))


def rules_of(
    rules: Commissioning | Sequence[Rule], wanted: Sequence[str] | None = None
) -> tuple[list[Rule], int]:
    """Return the rules of a search, the chosen one last, and the first free row.

    Parameters
    ----------
    rules : Commissioning or sequence of Rule
        Of a `Commissioning` the usual rules and the chosen one are taken.
    wanted : sequence of str, optional
        Names of other rules of it.
    """
    if not isinstance(rules, Commissioning):
        if not rules:
            raise StreamError("At least one alarm rule is needed: give one.")
        return list(rules), 0
    chosen = rules.facts.chosen
    usual = [name for name in USUAL_RULES if name in rules.rules]
    taken = list(dict.fromkeys([*(usual if wanted is None else wanted), chosen]))
    if wanted is not None:
        taken = list(dict.fromkeys(wanted))
    for name in taken:
        if name not in rules.rules:
            raise StreamError(
                f"There is no rule {name!r} among those made; "
                f"{did_you_mean(name, rules.rules)}"
            )
    return [rules.rules[name].rule for name in taken], rules.facts.split


class SpotArena:
    """A detector, a record, rules and places: ready to be searched.

    Parameters
    ----------
    detector : Detector
        Fitted.
    recording, train : Recording
        Telemetry to falsify, and telemetry that says what is usual.
    rules : Commissioning or sequence of Rule
        Alarm rules.
    budget : Budget
        That their limits were set for.
    settings : SpotSettings
        What a user chose.
    wanted : sequence of str, optional
        Names of rules of a `Commissioning`.
    """

    def __init__(
        self,
        detector: Detector,
        recording: Recording,
        train: Recording,
        rules: Commissioning | Sequence[Rule],
        budget: Budget,
        settings: SpotSettings,
        wanted: Sequence[str] | None = None,
    ) -> None:
        self.settings, self.budget = settings, budget
        self.rules, split = rules_of(rules, wanted)
        self.detector = detector
        self.tags = tags_of(train, settings)
        self.source = detector_rows(detector, recording, self.tags)
        exported = self.source.exported
        attacks = segments_of(exported.labels == 1, exported.breaks)
        is_calm = beyond_guard(exported.labels == NORMAL, attacks, exported.step_s)
        self.record = TwinRecord(
            rows=np.asarray(exported.values, np.float64),
            breaks=exported.breaks,
            is_free=is_calm & (np.arange(len(is_calm)) >= split),
            step_s=float(exported.step_s or 1.0),
        )
        self.notes: list[str] = []
        self.arena = self._arena(is_calm)
        kept = None if settings.tags is None else set(settings.tags)
        chosen = [tag for tag in self.tags if kept is None or tag.name in kept]
        if kept is not None and (
            unknown := sorted(kept - {tag.name for tag in self.tags})
        ):
            known = [tag.name for tag in self.tags]
            raise StreamError(
                f"There is no tag {unknown[0]!r}; {did_you_mean(unknown[0], known)}"
            )
        self.targets, notes = targets_of(chosen, settings.chosen_shapes())
        self.notes += notes
        if not self.targets:
            raise StreamError(
                "No tag is left to falsify: "
                + (notes[0] if notes else "none of the shapes fits the tags given.")
            )

    def _arena(self, is_calm: Bools) -> Arena:
        """Draw the places, and read rules and detector at them."""
        settings, record = self.settings, self.record
        timing = Timing.of(
            record.step_s,
            self.budget.per_day,
            durations_s=settings.durations_s,
            memory=memory_rows(self.rules),
        )
        room = rows_before(is_calm, record.breaks)
        lengths = [grid.rows + grid.release for grid in timing.grids]

        def drawn(before: int) -> tuple[Ints, Bools]:
            return draw_places(
                record.is_free,
                room,
                record.breaks,
                before=before,
                lengths=lengths,
                n_places=settings.places,
                seed=settings.seed,
            )

        stated = _stated_memory(self.detector)
        places, fits = drawn(stated)
        stage = stage_of(self.source, self.source.rows[places], self.tags)
        if stage.memory > stated:
            places, fits = drawn(stage.memory)
        timing, fits = self._enough(timing, fits)
        views = tuple(
            RuleViews(rule, record, places, timing.grids, fits) for rule in self.rules
        )
        self.views = views
        return Arena(
            telemetry=self.source.telemetry,
            stage=stage,
            timing=timing,
            places=self.source.rows[places],
            fits=fits,
            reach=room[places],
            room=rows_after(record.is_free, record.breaks)[places],
            rules=views,
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
        from threadpoolctl import threadpool_limits

        known = dict(done or {})
        left = [target for target in self.targets if target.name not in known]
        jobs = self.settings.jobs or os.cpu_count() or 1

        def spots(target: Target) -> list[BlindSpot]:
            return list(self.arena.spots(target))

        with threadpool_limits(limits=1), ThreadPoolExecutor(jobs) as pool:
            for k, (target, part) in enumerate(
                zip(left, pool.map(spots, left), strict=True)
            ):
                known[target.name] = part
                found(target.name, part)
                progress(Step(StepKind.FALSIFYING, k + 1, len(left), f"{target.name}"))
        return [spot for target in self.targets for spot in known[target.name]]

    def sights(self, spots: Iterable[BlindSpot]) -> tuple[RuleSight, ...]:
        """Return cost and blindness of each rule."""
        table = list(spots)
        sensors = [tag.name for tag in self.tags if tag.role is not Role.ACTUATOR]
        sights = []
        for view in self.views:
            load = self.record.load(view.run)
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

    def result(
        self,
        name: str,
        *,
        detector: str | None = None,
        testbed: str | None = None,
        done: Mapping[str, Sequence[BlindSpot]] | None = None,
        found: Callable[[str, list[BlindSpot]], None] = lambda name, spots: None,
        progress: Progress = silent,
    ) -> BlindSpots:
        """Search, and return the table with its sentences."""
        spots = tuple(self.search(done=done, found=found, progress=progress))
        made = BlindSpots(
            name=name,
            detector=detector,
            testbed=testbed,
            budget=str(self.budget),
            is_residual=self.arena.telemetry.is_residual,
            is_linear=self.arena.stage.is_linear,
            chosen=self.rules[-1].name,
            n_places=len(self.arena.places),
            seed=self.settings.seed,
            days=float(self.record.is_free.sum() * self.record.step_s / 86_400),
            rules=self.sights(spots),
            spots=spots,
            tags=tuple(target.name for target in self.targets),
            notes=tuple(self.notes),
        )
        return replace(made, sentences=sentences_of(made))


def _stated_memory(detector: Detector) -> int:
    """Return the rows that a detector says it looks back at; 1 where it does not."""
    if isinstance(detector, LearnedDetector):
        try:
            return max(detector.look_back(), 1)
        except StreamError:
            return 1
    return 1


def tags_of(train: Recording, settings: SpotSettings) -> tuple[TagFacts, ...]:
    """Return what train says of each tag."""
    limits = settings.limits or {}
    if unknown := sorted(set(limits) - set(train.channels)):
        raise StreamError(
            f"`limits` names {names(unknown, 3)}, which the recording does not have."
        )
    return tuple(
        tag_facts(
            tag.name,
            column,
            np.asarray(train.values[:, column], np.float64),
            role=tag.role,
            stage=tag.stage,
            unit=tag.unit,
            least=limits.get(tag.name, (None, None))[0],
            most=limits.get(tag.name, (None, None))[1],
        )
        for column, tag in enumerate(train.tags)
    )


__all__ = ["DetectorRows", "SpotArena", "SpotSettings", "find_blind_spots"]
