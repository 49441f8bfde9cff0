"""Blind spots of a detector: the walk from telemetry to the table."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from sightline.blindspots.detector import OWN
from sightline.blindspots.places import (
    DURATIONS_S,
    N_PLACES,
)
from sightline.blindspots.result import (
    USUAL_S,
    BlindSpots,
)
from sightline.blindspots.search import Maker, SpotArena, SpotSettings
from sightline.blindspots.shapes import (
    SHAPES,
    OwnShape,
    Shape,
)
from sightline.blindspots.what_if import Falsification, TagAction, WhatIfAttack
from sightline.data.arrays import NORMAL
from sightline.data.downsampling import rows_of
from sightline.data.recording import Recording
from sightline.data.stream import ResidualStream
from sightline.detectors.base import Detector
from sightline.errors import FileError, StreamError
from sightline.export import NO_RULE, export_rows, export_stream
from sightline.progress import Progress, Step, StepKind, silent
from sightline.rules.commission import FIRST, Commissioning, commission
from sightline.rules.limits import Budget
from sightline.rules.rule import Rule
from sightline.tables.lists import list_rows
from sightline.text import did_you_mean


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
    if rules is None:
        stream = (
            _stream_of(detector, recording)
            if train is None
            else export_stream(detector, train, recording, rule=NO_RULE)
        )
        make = maker(stream, settings)
        rules = make(budget)
    arena = SpotArena.of_detector(detector, recording, learned, rules, budget, settings)
    return arena.result(name, make=make, attacks=attacks, progress=progress)


def blindness_of_rules(
    stream: ResidualStream, made: Commissioning
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
    return {one.name: one.blindness for one in arena.sights(arena.search())}


def maker(stream: ResidualStream, settings: SpotSettings) -> Maker:
    """Return what makes alarm rules for a budget, on the first 35% of a stream's test.

    Rules that the settings name are made beside the usual ones.
    """
    names = tuple(name for name in settings.rules or () if name != OWN)

    def make(budget: Budget) -> Commissioning:
        return commission(stream, budget=budget, rules=names)

    return make


def _stream_of(detector: Detector, recording: Recording) -> ResidualStream:
    """Return residuals of a recording, its first 35% as the normal reference."""
    rows = export_rows(detector, recording)
    stages: dict[str, list[str]] = {}
    for tag in recording.tags:
        if tag.stage and tag.name in rows.channels:
            stages.setdefault(tag.stage, []).append(tag.name)
    is_first = np.arange(len(rows.values)) < FIRST * len(rows.values)
    return ResidualStream(
        rows.values[is_first & (rows.labels == NORMAL)],
        rows.values,
        rows.labels,
        channels=rows.channels,
        test_breaks=rows.breaks,
        segments=rows.attacks,
        step_s=rows.step_s,
        meta={"groups": stages},
    )


def read_attacks(path: str | Path) -> tuple[WhatIfAttack, ...]:
    """Return the attacks of a table.

    Parameters
    ----------
    path : path
        CSV with the columns id, duration_s (or duration_min), tag, kind, value, rate;
        others, such as those of a waterworks scenario, are not read.

    Raises
    ------
    FileError
        If a cell cannot be read; the message names the line.
    """
    path = Path(path)
    rows = list_rows(path, ("id", "tag", "kind"))
    attacks: dict[str, tuple[float, list[Falsification]]] = {}
    for line, row in rows.items():
        place = f"{path}: line {line}"
        duration_s = _duration(row, place)
        if row["kind"] not in tuple(TagAction):
            raise FileError(
                f"{place}: kind {row['kind']!r} is unknown; "
                f"{did_you_mean(row['kind'], list(TagAction))}"
            )
        try:
            action = Falsification(
                tag=row["tag"],
                kind=TagAction(row["kind"]),
                value=_number(row.get("value", ""), place, "value"),
                rate=_number(row.get("rate", ""), place, "rate"),
            )
        except StreamError as error:
            raise FileError(f"{place}: {error}") from error
        known = attacks.setdefault(row["id"], (duration_s, []))
        if known[0] != duration_s:
            raise FileError(
                f"{place}: attack {row['id']!r} has another duration than in its "
                "first row: give all of its rows the same."
            )
        known[1].append(action)
    if not attacks:
        raise FileError(f"{path}: holds no attack: give at least one row.")
    return tuple(
        WhatIfAttack(id=name, duration_s=length, actions=tuple(actions))
        for name, (length, actions) in attacks.items()
    )


def _duration(row: Mapping[str, str], place: str) -> float:
    for column, factor in (("duration_s", 1.0), ("duration_min", 60.0)):
        value = _number(row.get(column, ""), place, column)
        if value is not None:
            if not value > 0:
                raise FileError(f"{place}: {column} must be above 0; got {value:g}.")
            return value * factor
    raise FileError(f"{place}: says not how long it lasts: give duration_s.")


def _number(text: str, place: str, column: str) -> float | None:
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        raise FileError(f"{place}: {column} {text!r} is no number.")
    return value


def read_shapes(path: str | Path) -> tuple[Shape, ...]:
    """Return a user's table of shapes.

    Parameters
    ----------
    path : path
        CSV with a column ``seconds`` and one column of weights for each shape.

    Raises
    ------
    FileError
        If a cell is no number, or there is no shape.
    """
    path = Path(path)
    rows = list_rows(path, ("seconds",))
    columns = [name for name in next(iter(rows.values()), {}) if name != "seconds"]
    if not columns:
        raise FileError(
            f"{path}: needs a column 'seconds' and a column of weights for each shape."
        )
    shapes = []
    for name in columns:
        seconds, weights = [], []
        for line, row in rows.items():
            at = _number(row["seconds"], f"{path}: line {line}", "seconds")
            weight = _number(row[name], f"{path}: line {line}", name)
            if at is not None and weight is not None:
                seconds.append(at)
                weights.append(weight)
        try:
            shapes.append(OwnShape(name, seconds, weights))
        except StreamError as error:
            raise FileError(f"{path}: {error}") from error
    return tuple(shapes)
