"""What attackers do to a plant, and when: a plain table that a user edits.

A scenario is a table with one row for each action; actions with the same id make one
attack. It is read from CSV (one row for each action) or TOML (one table for each
attack). Kinds of action::

    set          an actuator is held at `value`
    constant     a sensor reads `value`
    ramp         a sensor moves from its last reading by `rate` a second, up to `value`
    replay       a sensor repeats what it read `value` seconds before
    freeze       a sensor stays at its last reading
    bias         a sensor reads too much by `value`, growing by `rate` a second
    gain         a sensor reads `value` times what it measures
    setpoint     a set-point of the controller, such as LIT101.H, is `value`
    disturbance  a disturbance that belongs to the plant's model is active

A scenario knows no plant: `Vocabulary` is what one plant has to act on, and checks.
"""

import csv
import io
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from sightline.data.segments import Attack
from sightline.errors import FileError, StreamError
from sightline.files import read_document, read_toml
from sightline.testbeds.base import in_file, record_from
from sightline.text import csv_cell, did_you_mean, exact, from_csv_cell

# Readings as they are recorded: shape (n_rows, n_tags).
Rows = npt.NDArray[np.float32]

DAY_S = 86_400
COLUMNS = ("id", "start_s", "duration_s", "tag", "kind", "value", "rate", "note")
_OPTIONAL = ("value", "rate", "note")
_Number = Annotated[float, Meta(description="a number")]
_WholeSeconds = Annotated[int, Meta(description="whole seconds")]
_Text = Annotated[str, Meta(description="text")]


class ActionKind(StrEnum):
    """What an attacker does to a tag; the module's docstring describes each kind.

    ``SET`` acts on an actuator, ``SETPOINT`` on a limit of the controller and
    ``DISTURBANCE`` on the process; all others forge the reading of a sensor.
    """

    SET = "set"
    SETPOINT = "setpoint"
    CONSTANT = "constant"
    RAMP = "ramp"
    REPLAY = "replay"
    FREEZE = "freeze"
    BIAS = "bias"
    GAIN = "gain"
    DISTURBANCE = "disturbance"

    __repr__ = str.__repr__

    @property
    def code(self) -> int:
        """Its place in the list, as compiled code and `forged_value` read it."""
        return KINDS.index(self)

    @property
    def forges(self) -> bool:
        """Whether it replaces the reading of a sensor."""
        return self not in (self.SET, self.SETPOINT, self.DISTURBANCE)


KINDS = tuple(ActionKind)
_NEEDS_VALUE = (
    ActionKind.SET,
    ActionKind.SETPOINT,
    ActionKind.CONSTANT,
    ActionKind.REPLAY,
    ActionKind.GAIN,
)


@dataclass(frozen=True, kw_only=True)
class Action:
    """One thing that an attacker does for the length of an attack.

    Parameters
    ----------
    tag : str
        A sensor, an actuator (``"set"``), a set-point (``"setpoint"``) or a disturbance
        (``"disturbance"``) of the plant.
    kind : ActionKind
        Also as text, such as ``"ramp"``; the module's docstring lists the kinds.
    value : float, optional
        Depends on the kind; in the unit of the tag, seconds for ``"replay"``, a factor
        for ``"gain"``, a share of full strength for ``"disturbance"``.
    rate : float, optional
        Change a second, for ``"ramp"`` and ``"bias"``.

    Raises
    ------
    StreamError
        If the kind is unknown, or a number is missing or impossible. Whether the plant
        has such a tag is checked where the scenario is read or run.

    Examples
    --------
    >>> Action(tag="LIT101", kind="ramp", rate=1.0).target
    'LIT101'
    """

    tag: str
    kind: ActionKind
    value: float | None = None
    rate: float | None = None

    def __post_init__(self) -> None:
        """Refuse unknown kinds and impossible numbers."""
        if self.kind not in KINDS:
            raise StreamError(
                f"kind {self.kind!r} is unknown; {did_you_mean(self.kind, KINDS)}"
            )
        object.__setattr__(self, "kind", ActionKind(self.kind))
        for name, number in (("value", self.value), ("rate", self.rate)):
            if number is not None and not math.isfinite(number):
                raise StreamError(f"{name} of {self.tag} must be finite; got {number}.")
        if self.kind in _NEEDS_VALUE and self.value is None:
            raise StreamError(f"{self.kind!r} of {self.tag} needs a value: give one.")
        if self.kind is ActionKind.RAMP and not self.rate:
            raise StreamError(
                f"'ramp' of {self.tag} needs a rate other than 0: give its change "
                "a second."
            )
        if self.kind is ActionKind.BIAS and not self.rate and not self.value:
            raise StreamError(
                f"'bias' of {self.tag} needs a value or a rate: give one of them."
            )
        if self.kind is ActionKind.REPLAY and (
            self.value is None or self.value < 1 or self.value % 1
        ):
            raise StreamError(
                f"'replay' of {self.tag} needs whole seconds back, 1 or more; "
                f"got {self.value}."
            )
        if (
            self.kind is ActionKind.DISTURBANCE
            and self.value is not None
            and not 0 < self.value <= 1
        ):
            raise StreamError(
                f"the value of disturbance {self.tag} is its share of full strength, "
                f"above 0 and up to 1; got {self.value}."
            )

    @property
    def target(self) -> str:
        """The tag acted on; for a set-point, the tag it belongs to."""
        return self.tag.split(".")[0]

    @property
    def numbers(self) -> tuple[float, float]:
        """Value and rate as `forged_value` reads them.

        A ramp without a value has no limit (nan); a bias without one begins at 0.
        """
        absent = math.nan if self.kind is ActionKind.RAMP else 0.0
        return absent if self.value is None else self.value, self.rate or 0.0


@dataclass(frozen=True, kw_only=True)
class PlannedAttack:
    """Actions that begin and end together.

    Parameters
    ----------
    id : str
        Its name in every table.
    start_s, duration_s : int
        Start in seconds from the beginning of test, and length in seconds; both at
        least 1.
    actions : sequence of Action
        At least one; each on another tag.
    note : str
        What the attacker aims at.

    Raises
    ------
    StreamError
        If times or actions are impossible.

    Examples
    --------
    >>> off = Action(tag="P101", kind="set", value=1)
    >>> attack = PlannedAttack(id="1", start_s=60, duration_s=30, actions=(off,))
    >>> attack.stop_s, attack.targets, attack.forged_tags
    (90, ('P101',), ())
    """

    id: str
    start_s: int
    duration_s: int
    actions: tuple[Action, ...]
    note: str = ""

    def __post_init__(self) -> None:
        """Refuse impossible times and combinations of actions."""
        object.__setattr__(self, "actions", tuple(self.actions))
        if not self.id:
            raise StreamError("An attack needs an id: give it one.")
        if self.duration_s < 1:
            raise StreamError(
                f"attack {self.id} must last 1 s or more; got {self.duration_s}."
            )
        # A ramp and a freeze begin at the reading before the attack.
        if self.start_s < 1:
            raise StreamError(
                f"attack {self.id} must start 1 s or more into the run; "
                f"got {self.start_s}."
            )
        if not self.actions:
            raise StreamError(f"attack {self.id} does nothing: give it an action.")
        tags = [action.tag for action in self.actions]
        for tag in tags:
            if tags.count(tag) > 1:
                raise StreamError(f"attack {self.id} acts on {tag} twice: keep one.")
        # Neither the attack itself nor the time before test can be replayed.
        for tag, back_s in self.values(ActionKind.REPLAY).items():
            if not self.duration_s <= back_s <= self.start_s:
                raise StreamError(
                    f"attack {self.id} replays {tag} from {back_s:g} s before: use at "
                    f"least its duration ({self.duration_s} s) and at most its start "
                    f"({self.start_s} s)."
                )

    def values(self, kind: ActionKind) -> dict[str, float]:
        """Return the value of each action of a kind, by tag; 1 where none is given."""
        return {
            action.tag: 1.0 if action.value is None else float(action.value)
            for action in self.actions
            if action.kind is kind
        }

    @property
    def stop_s(self) -> int:
        """The first second after the attack."""
        return self.start_s + self.duration_s

    @property
    def targets(self) -> tuple[str, ...]:
        """The tags acted on, each once; a disturbance acts on no tag."""
        acts = (a for a in self.actions if a.kind is not ActionKind.DISTURBANCE)
        return tuple(dict.fromkeys(action.target for action in acts))

    @property
    def forged_tags(self) -> tuple[str, ...]:
        """The sensors whose readings are forged."""
        return tuple(action.tag for action in self.actions if action.kind.forges)

    def rows(self, step_s: int) -> slice:
        """Return its rows of test, at `step_s` seconds a row."""
        return slice(self.start_s // step_s, self.stop_s // step_s)

    def segment(self, step_s: int) -> Attack:
        """Return the attack as recordings carry it, by its rows of test."""
        return Attack(
            id=self.id,
            start=self.start_s // step_s,
            stop=self.stop_s // step_s,
            targets=self.targets,
            note=self.note or None,
        )


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Attacks in order of time, without overlaps.

    Parameters
    ----------
    attacks : sequence of PlannedAttack
        In any order; they are sorted by start. Empty for normal operation.

    Raises
    ------
    StreamError
        If two attacks overlap or have the same id.
    """

    attacks: tuple[PlannedAttack, ...] = ()

    def __post_init__(self) -> None:
        """Sort the attacks; refuse overlaps and repeated ids."""
        ordered = tuple(sorted(self.attacks, key=lambda attack: attack.start_s))
        object.__setattr__(self, "attacks", ordered)
        for attack, following in pairwise(ordered):
            if following.start_s < attack.stop_s:
                raise StreamError(
                    f"attack {following.id} starts at {following.start_s} s, before "
                    f"attack {attack.id} ends at {attack.stop_s} s: move one of them."
                )
        ids = [attack.id for attack in ordered]
        for id_ in ids:
            if ids.count(id_) > 1:
                raise StreamError(
                    f"attack {id_} is there twice, at different times: rename one."
                )

    def within(self, seconds: int) -> "Scenario":
        """Return the attacks that end before a run of that many seconds does."""
        return replace(
            self, attacks=tuple(a for a in self.attacks if a.stop_s <= seconds)
        )


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """What there is to act on in one plant.

    Parameters
    ----------
    sensors, actuators : tuple of str
        Tags whose readings can be forged, and tags that can be set.
    setpoints : mapping from str to float
        Limits and targets of the controllers, with their values.
    disturbances : tuple of str
        Disturbances of the plant's own model.
    states : tuple of float
        The lowest and the highest value of an actuator.
    whole : bool
        Whether an actuator takes only whole numbers.
    hint : str
        The states in words, for messages.
    step_s : int
        Seconds a row: attacks begin and end with one.

    Examples
    --------
    >>> words = Vocabulary(
    ...     sensors=("LIT101",), actuators=("P101",), states=(1, 2), hint="1 or 2"
    ... )
    >>> words.check(Action(tag="P101", kind="set", value=3))
    Traceback (most recent call last):
    sightline.errors.StreamError: P101 cannot be set to 3: use 1 or 2.
    """

    sensors: tuple[str, ...]
    actuators: tuple[str, ...]
    setpoints: Mapping[str, float] = field(default_factory=dict)
    disturbances: tuple[str, ...] = ()
    states: tuple[float, float]
    whole: bool = True
    hint: str
    step_s: int = 1

    def check(self, action: Action) -> None:
        """Raise `StreamError` if the plant has no such tag, or it no such state."""
        places: dict[ActionKind, tuple[str, Iterable[str]]] = {
            ActionKind.SET: ("actuator", self.actuators),
            ActionKind.SETPOINT: ("set-point", self.setpoints),
            ActionKind.DISTURBANCE: ("disturbance", self.disturbances),
        }
        what, choices = places.get(action.kind, ("sensor", self.sensors))
        if action.tag not in choices:
            raise StreamError(
                f"{action.tag!r} is no {what}, and {action.kind!r} acts on one: "
                f"use one of {', '.join(choices) or '(this plant has none)'}."
            )
        if action.kind is ActionKind.SET and action.value is not None:
            is_state = self.states[0] <= action.value <= self.states[1]
            if not is_state or (self.whole and action.value % 1):
                raise StreamError(
                    f"{action.tag} cannot be set to {action.value:g}: use {self.hint}."
                )

    def check_attack(self, attack: PlannedAttack) -> None:
        """Raise `StreamError` if an attack does not fit this plant."""
        for action in attack.actions:
            self.check(action)
        times = {"start_s": attack.start_s, "duration_s": attack.duration_s}
        replays = attack.values(ActionKind.REPLAY).items()
        times |= {f"replay of {tag}": int(back_s) for tag, back_s in replays}
        for name, seconds in times.items():
            if seconds % self.step_s:
                raise StreamError(
                    f"attack {attack.id}: {name} must be a multiple of {self.step_s} "
                    f"s, the time between two rows; got {seconds}."
                )

    def check_scenario(self, scenario: Scenario, seconds: int) -> None:
        """Raise `StreamError` if a scenario does not fit the plant or the run."""
        for attack in scenario.attacks:
            self.check_attack(attack)
        for attack in scenario.attacks:
            if attack.stop_s > seconds:
                raise StreamError(
                    f"attack {attack.id} ends at {attack.stop_s} s, after the run of "
                    f"{seconds} s: move it, or simulate more days of test."
                )


def shipped_scenario(name: str, days: float) -> Scenario:
    """Return the attacks of a table in ``scenarios/`` that fit into some days."""
    table = files("sightline.testbeds") / "scenarios" / f"{name}.csv"
    scenario = _from_csv(table.read_text(encoding="utf-8"), name, None)
    return scenario.within(round(days * DAY_S))


def scenario_from(path: str | Path, vocabulary: Vocabulary) -> Scenario:
    """Read a scenario from a ``.csv`` or ``.toml`` file.

    Parameters
    ----------
    path : path
        CSV with the columns of `COLUMNS`, or TOML with ``[[attack]]`` tables.
    vocabulary : Vocabulary
        The plant that it must fit.

    Raises
    ------
    FileError
        If the file cannot be read or an attack is impossible; the message names the
        line or the table.
    """
    path = Path(path)
    if path.suffix.lower() not in (".csv", ".toml"):
        raise FileError(f"{path}: a scenario is a .csv or .toml file: rename it.")
    if path.suffix.lower() == ".toml":
        tables = read_toml(path)
        listed = tables.get("attack", [])
        is_list = isinstance(listed, list) and all(isinstance(a, dict) for a in listed)
        if not is_list or set(tables) - {"attack"}:
            raise FileError(
                f"{path}: a scenario holds [[attack]] tables and nothing else."
            )
        planned = []
        for number, table in enumerate(listed, start=1):
            with in_file(f"{path}: attack table {number}"):
                attack = record_from(table, _AttackTable, strict=False).attack()
                vocabulary.check_attack(attack)
                planned.append(attack)
        with in_file(path):
            return Scenario(attacks=tuple(planned))
    try:
        text = read_document(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileError(f"{path}: is not UTF-8 text: save it as UTF-8.") from error
    return _from_csv(text, str(path), vocabulary)


def scenario_to_csv(scenario: Scenario) -> str:
    """Return a scenario as the text of a CSV file that `scenario_from` reads back."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for attack in scenario.attacks:
        for action in attack.actions:
            cells = [attack.id, attack.start_s, attack.duration_s, action.tag]
            numbers = (action.value, action.rate)
            cells += [action.kind, *("" if n is None else exact(n) for n in numbers)]
            writer.writerow([csv_cell(cell) for cell in (*cells, attack.note)])
    return text.getvalue()


def _from_csv(text: str, name: str, vocabulary: Vocabulary | None) -> Scenario:
    """Return the scenario of a CSV table; columns that are not known are ignored.

    Rows that share an id make one attack. With a vocabulary each must fit the plant.
    """
    reader = csv.DictReader(io.StringIO(text, newline=""))
    attacks: dict[str, PlannedAttack] = {}
    try:
        header = [column.strip() for column in reader.fieldnames or ()]
        missing = [c for c in COLUMNS if c not in header and c not in _OPTIONAL]
        if missing:
            raise FileError(
                f"{name}: column {', '.join(missing)} is missing: a scenario has "
                f"{', '.join(COLUMNS)}."
            )
        reader.fieldnames = header
        for row in reader:
            # A cell that the line lacks is None.
            cells = {
                key: from_csv_cell((row[key] or "").strip())
                for key in COLUMNS
                if key in header
            }
            with in_file(f"{name}: line {reader.line_num}"):
                # A row is a table with one action.
                action = {key: cells[key] for key in ("tag", "kind")}
                action |= {k: cells[k] for k in ("value", "rate") if cells.get(k)}
                keys = ("id", "start_s", "duration_s", "note")
                table = {key: cells.get(key, "") for key in keys}
                attack = record_from(
                    {**table, "action": [action]}, _AttackTable, strict=False
                ).attack()
                if vocabulary is not None:
                    vocabulary.check_attack(attack)
                first = attacks.setdefault(attack.id, attack)
                if first.rows(1) != attack.rows(1):
                    raise StreamError(
                        f"attack {attack.id} has another start or duration than in its "
                        "first row: give all of its rows the same, or another id."
                    )
                if first is not attack:
                    attacks[attack.id] = replace(
                        first,
                        actions=first.actions + attack.actions,
                        note=first.note or attack.note,
                    )
    except csv.Error as error:
        raise FileError(f"{name}: is not CSV ({error}): correct that line.") from error
    with in_file(name):
        return Scenario(attacks=tuple(attacks.values()))


@dataclass(frozen=True, kw_only=True)
class _ActionTable:
    """One ``[[attack.action]]`` table, before it is checked against the plant."""

    tag: _Text
    kind: _Text
    value: _Number | None = None
    rate: _Number | None = None


@dataclass(frozen=True, kw_only=True)
class _AttackTable:
    """One ``[[attack]]`` table, before its actions are checked."""

    id: str | int
    start_s: _WholeSeconds
    duration_s: _WholeSeconds
    action: Annotated[
        list[dict[str, str | int | float]], Meta(description="[[attack.action]] tables")
    ]
    note: _Text = ""

    def attack(self) -> PlannedAttack:
        """Return the attack; raise `StreamError` if it is impossible."""
        return PlannedAttack(
            id=str(self.id),
            start_s=self.start_s,
            duration_s=self.duration_s,
            actions=tuple(
                Action(**vars(record_from(table, _ActionTable, strict=False)))
                for table in self.action
            ),
            note=self.note,
        )


# Places in `ActionKind`, as `ActionKind.code` gives them.
SET, SETPOINT, CONSTANT, RAMP, REPLAY, FREEZE, BIAS, GAIN, DISTURBANCE = range(9)


def forged_value(
    kind: int,
    reading: float,
    value: float,
    rate: float,
    elapsed_s: float,
    before: float,
    replayed: float,
    lowest: float,
) -> float:
    """Return what is read instead of a reading.

    Parameters
    ----------
    kind : int
        `ActionKind.code`.
    reading : float
        What the sensor measures.
    value, rate : float
        Those of the action. A ramp without a limit has the value nan.
    elapsed_s : float
        Seconds since the attack began, with those of this step.
    before : float
        What was read before the attack.
    replayed : float
        What was recorded at the time that is replayed.
    lowest : float
        The lowest that the instrument can show.

    Examples
    --------
    >>> forged_value(RAMP, 5.0, 12.0, 0.5, 10.0, 4.0, 0.0, 0.0)
    9.0
    >>> forged_value(RAMP, 5.0, 8.0, 0.5, 10.0, 4.0, 0.0, 0.0)
    8.0
    """
    if kind == CONSTANT:
        return value
    if kind == REPLAY:
        return replayed
    if kind == FREEZE:
        return before
    forged = reading
    if kind == RAMP:
        forged = before + rate * elapsed_s
        # Without a limit the value is nan, and every comparison is False.
        if (rate > 0 and forged > value) or (rate < 0 and forged < value):
            forged = value
    elif kind == BIAS:
        forged = reading + value + rate * elapsed_s
    elif kind == GAIN:
        forged = reading * value
    return max(forged, lowest)
