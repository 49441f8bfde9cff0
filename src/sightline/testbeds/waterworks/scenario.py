"""What attackers do to the plant, and when: a plain table that a user edits.

A scenario is a table with one row for each action; actions with the same id make one
attack. It is read from CSV (one row for each action) or TOML (one table for each
attack). Kinds of action::

    set        an actuator is held at `value`: 1 off or closed, 2 on or open
    constant   a sensor reads `value`
    ramp       a sensor moves from its last reading by `rate` a second, up to `value`
    replay     a sensor repeats what it read `value` seconds before
    freeze     a sensor stays at its last reading
    bias       a sensor reads too much by `value`, growing by `rate` a second
    setpoint   a set-point of the PLC, such as LIT101.H, is `value`
"""

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from sightline.data.arrays import Floats
from sightline.errors import FileError, StreamError
from sightline.files import read_document, read_toml
from sightline.testbeds.base import in_file, record_from
from sightline.testbeds.waterworks import plant as p
from sightline.testbeds.waterworks.plant import ActionKind
from sightline.text import csv_cell, did_you_mean, from_csv_cell

DAY_S = 86_400
COLUMNS = ("id", "start_s", "duration_s", "tag", "kind", "value", "rate", "note")
_OPTIONAL = ("value", "rate", "note")
_NEEDS_VALUE = (
    ActionKind.SET,
    ActionKind.SETPOINT,
    ActionKind.CONSTANT,
    ActionKind.REPLAY,
)
_KINDS = tuple(ActionKind)
_Number = Annotated[float, Meta(description="a number")]
_WholeSeconds = Annotated[int, Meta(description="whole seconds")]
_Text = Annotated[str, Meta(description="text")]


@dataclass(frozen=True, kw_only=True)
class Action:
    """One thing that an attacker does for the length of an attack.

    Parameters
    ----------
    tag : str
        A sensor, an actuator (``"set"``) or a set-point (``"setpoint"``).
    kind : ActionKind
        Also as text, such as ``"ramp"``; the module's docstring lists the kinds.
    value : float, optional
        Depends on the kind; in the unit of the tag, or seconds for ``"replay"``.
    rate : float, optional
        Change a second, for ``"ramp"`` and ``"bias"``.

    Raises
    ------
    StreamError
        If kind or tag is unknown, or a number is missing or impossible.

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
        """Refuse unknown kinds and tags, and impossible numbers."""
        if self.kind not in _KINDS:
            raise StreamError(
                f"kind {self.kind!r} is unknown; {did_you_mean(self.kind, _KINDS)}"
            )
        object.__setattr__(self, "kind", ActionKind(self.kind))
        self._check_tag()
        self._check_numbers()

    def _check_tag(self) -> None:
        """Refuse a tag on which this kind cannot act."""
        choices: Iterable[str] = p.SENSORS
        what = "sensor"
        if self.kind is ActionKind.SET:
            choices, what = p.ACTUATORS, "actuator"
        elif self.kind is ActionKind.SETPOINT:
            choices, what = p.SETPOINT_INDEX, "set-point"
        if self.tag not in choices:
            raise StreamError(
                f"{self.tag!r} is no {what}, and {self.kind!r} acts on one: "
                f"use one of {', '.join(choices)}."
            )

    def _check_numbers(self) -> None:
        """Refuse a value or rate that is missing or impossible for this kind."""
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
        if self.kind is ActionKind.SET and self.value not in (p.OFF, p.ON):
            raise StreamError(
                f"{self.tag} cannot be set to {self.value:g}: use 1 (off or closed) "
                "or 2 (on or open)."
            )
        if self.kind is ActionKind.REPLAY and (
            self.value is None or self.value < 1 or self.value % 1
        ):
            raise StreamError(
                f"'replay' of {self.tag} needs whole seconds back, 1 or more; "
                f"got {self.value}."
            )

    @property
    def target(self) -> str:
        """The tag acted on; for a set-point, the tag it belongs to."""
        return self.tag.split(".")[0]

    def as_row(self) -> Floats:
        """Return kind, target, value and rate as the compiled process reads them."""
        index = p.SETPOINT_INDEX if self.kind is ActionKind.SETPOINT else p.COLUMN
        # A ramp without a value has no limit; a bias without one begins at 0.
        absent = math.nan if self.kind is ActionKind.RAMP else 0.0
        value = absent if self.value is None else self.value
        return np.array(
            [_KINDS.index(self.kind), index[self.tag], value, self.rate or 0]
        )


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
    >>> attack.stop_s, attack.targets, attack.family
    (90, ('P101',), 'SSSP')
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
        self._check_replays()

    def _check_replays(self) -> None:
        """Refuse a replay of the attack itself, or of the time before test."""
        for action in self.actions:
            if action.kind is not ActionKind.REPLAY or action.value is None:
                continue
            if not self.duration_s <= action.value <= self.start_s:
                raise StreamError(
                    f"attack {self.id} replays {action.tag} from {action.value:g} s "
                    f"before: use at least its duration ({self.duration_s} s) and at "
                    f"most its start ({self.start_s} s)."
                )

    @property
    def stop_s(self) -> int:
        """The first second after the attack."""
        return self.start_s + self.duration_s

    @property
    def targets(self) -> tuple[str, ...]:
        """The tags acted on, each once."""
        return tuple(dict.fromkeys(action.target for action in self.actions))

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages acted on, each once: P1 to P6."""
        return tuple(dict.fromkeys(f"P{tag[-3]}" for tag in self.targets))

    @property
    def family(self) -> str:
        """Its class in SWaT's list: single or multi stage, single or multi point.

        SSSP one tag; SSMP tags of one stage; MSSP one tag in each of several stages;
        MSMP tags of several stages, more than one in at least one of them.
        """
        if len(self.stages) == 1:
            return "SSSP" if len(self.targets) == 1 else "SSMP"
        return "MSSP" if len(self.targets) == len(self.stages) else "MSMP"

    @property
    def forged_tags(self) -> tuple[str, ...]:
        """The sensors whose readings are forged."""
        return tuple(a.tag for a in self.actions if a.tag in p.INSTRUMENTS)

    def as_rows(self) -> Floats:
        """Return the actions as the compiled process reads them: (n_actions, 4)."""
        return np.array([action.as_row() for action in self.actions])


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

    def within(self, n_steps: int) -> "Scenario":
        """Return the attacks that end before a run of `n_steps` seconds does."""
        return replace(
            self, attacks=tuple(a for a in self.attacks if a.stop_s <= n_steps)
        )

    def check_fits(self, n_steps: int) -> None:
        """Raise `StreamError` if an attack ends after a run of `n_steps` seconds."""
        for attack in self.attacks:
            if attack.stop_s > n_steps:
                raise StreamError(
                    f"attack {attack.id} ends at {attack.stop_s} s, after the run of "
                    f"{n_steps} s: move it, or simulate more days of test."
                )


def _grouped(rows: Sequence[tuple[PlannedAttack, str]]) -> Scenario:
    """Join attacks of one action that share an id, a start and a duration.

    Each comes with the place it was read from, for the message if they differ.
    """
    attacks: dict[str, PlannedAttack] = {}
    for attack, place in rows:
        first = attacks.get(attack.id)
        if first is None:
            attacks[attack.id] = attack
            continue
        if (first.start_s, first.duration_s) != (attack.start_s, attack.duration_s):
            raise StreamError(
                f"{place}: attack {attack.id} has another start or duration than in "
                "its first row: give all of its rows the same, or another id."
            )
        attacks[attack.id] = replace(
            first,
            actions=first.actions + attack.actions,
            note=first.note or attack.note,
        )
    return Scenario(attacks=tuple(attacks.values()))


def default_scenario(days: float = 4.0) -> Scenario:
    """Return the shipped attacks that fit into a number of days; they fill four.

    Examples
    --------
    >>> len(default_scenario().attacks), len(default_scenario(days=1).attacks)
    (51, 17)
    """
    return _shipped("attacks.csv").within(round(days * DAY_S))


def quick_scenario(days: float = 0.5) -> Scenario:
    """Return the attacks of the quick preset; they fill half a day.

    Examples
    --------
    >>> len(quick_scenario().attacks)
    12
    """
    return _shipped("quick_attacks.csv").within(round(days * DAY_S))


def read_scenario(path: str | Path) -> Scenario:
    """Read a scenario from a ``.csv`` or ``.toml`` file.

    Parameters
    ----------
    path : path
        CSV with the columns of `COLUMNS`, or TOML with ``[[attack]]`` tables.

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
        return _from_tables(read_toml(path), str(path))
    try:
        text = read_document(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileError(f"{path}: is not UTF-8 text: save it as UTF-8.") from error
    return _from_csv(text, str(path))


def scenario_to_csv(scenario: Scenario) -> str:
    """Return a scenario as the text of a CSV file that `read_scenario` reads back."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for attack in scenario.attacks:
        for action in attack.actions:
            cells = [attack.id, attack.start_s, attack.duration_s, action.tag]
            cells += [action.kind, _number(action.value), _number(action.rate)]
            writer.writerow([csv_cell(cell) for cell in (*cells, attack.note)])
    return text.getvalue()


def scenario_to_toml(scenario: Scenario) -> str:
    """Return a scenario as the text of a TOML file that `read_scenario` reads back."""
    lines: list[str] = []
    for attack in scenario.attacks:
        lines += ["[[attack]]", f"id = {_quoted(attack.id)}"]
        lines += [f"start_s = {attack.start_s}", f"duration_s = {attack.duration_s}"]
        lines += [f"note = {_quoted(attack.note)}"]
        for action in attack.actions:
            lines += ["[[attack.action]]", f"tag = {_quoted(action.tag)}"]
            lines += [f"kind = {_quoted(action.kind)}"]
            if action.value is not None:
                lines += [f"value = {_number(action.value)}"]
            if action.rate is not None:
                lines += [f"rate = {_number(action.rate)}"]
        lines += [""]
    return "\n".join(lines)


def _shipped(name: str) -> Scenario:
    """Return a scenario that ships with the package."""
    text = files(__package__).joinpath(name).read_text(encoding="utf-8")
    return _from_csv(text, name)


def _number(value: float | None) -> str:
    """Return a number as text that reads back as the same number."""
    if value is None:
        return ""
    return str(int(value)) if value % 1 == 0 and abs(value) < 1e15 else repr(value)


def _quoted(text: str) -> str:
    """Return text as a TOML string."""
    escaped = "".join(
        f"\\u{ord(c):04x}" if ord(c) < 32 or ord(c) == 127 else c
        for c in text.replace("\\", "\\\\").replace('"', '\\"')
    )
    return f'"{escaped}"'


def _from_csv(text: str, name: str) -> Scenario:
    """Return the scenario of a CSV table; columns that are not known are ignored."""
    reader = csv.DictReader(io.StringIO(text, newline=""))
    rows = []
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
            place = f"{name}: line {reader.line_num}"
            # A cell that the line lacks is None.
            cells = {
                key: from_csv_cell((row[key] or "").strip())
                for key in COLUMNS
                if key in header
            }
            with in_file(place):
                rows.append((_attack_of_row(cells), place))
    except csv.Error as error:
        raise FileError(f"{name}: is not CSV ({error}): correct that line.") from error
    with in_file(name):
        return _grouped(rows)


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


def _attack_of_row(cells: dict[str, str]) -> PlannedAttack:
    """Return the attack of one CSV row: a table with one action."""
    action = {key: cells[key] for key in ("tag", "kind")}
    action |= {key: cells[key] for key in ("value", "rate") if cells.get(key)}
    table = {key: cells.get(key, "") for key in ("id", "start_s", "duration_s", "note")}
    return record_from(
        {**table, "action": [action]}, _AttackTable, strict=False
    ).attack()


def _from_tables(tables: Mapping[str, Any], name: str) -> Scenario:
    """Return the scenario of a TOML file's tables."""
    attacks = tables.get("attack", [])
    is_list = isinstance(attacks, list) and all(isinstance(a, dict) for a in attacks)
    if not is_list or set(tables) - {"attack"}:
        raise FileError(f"{name}: a scenario holds [[attack]] tables and nothing else.")
    planned = []
    for number, table in enumerate(attacks, start=1):
        with in_file(f"{name}: attack table {number}"):
            planned.append(record_from(table, _AttackTable, strict=False).attack())
    with in_file(name):
        return Scenario(attacks=tuple(planned))
