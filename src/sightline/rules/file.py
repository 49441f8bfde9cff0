"""Alarm rules on disk: ``rule.json``, a file of numbers and text that runs no code.

What is read is what was written, to the last bit. A digest over the content shows
whether a file was changed since; what a rule does must come from commissioning, not
from an editor.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, get_args, get_origin

import msgspec
import numpy as np

from sightline.data.linear_forecast import LinearForecast
from sightline.data.zones import check_timezone
from sightline.errors import FileError, StreamError
from sightline.files import brief, parse_json, read_document, reading, staged_file
from sightline.metrics.alarm_load import DAY_S
from sightline.rules.commission import Commissioning
from sightline.rules.limits import LEAST_SPREAD, Budget, Limit
from sightline.rules.making import MadeRule
from sightline.rules.normal import Origin, SavedDetector
from sightline.rules.promise import WIDTHS, Forecast, Promise
from sightline.rules.rule import LARGEST_VALUE, LinearView, Member, Memory, Rule, View
from sightline.text import names

RULE_SCHEMA: Final = 2
RULE_FILE: Final = "rule.json"
JsonObject = dict[str, Any]
# Rows that a forecast looks at.
_MOST_LOOKED_AT = 10_000
# No count of a plant is larger, no period shorter.
_MOST_COUNT, _LEAST_DAYS = 1e12, 1e-6
_AGAIN = "make it again with `sightline commission`"
_DAMAGE = (msgspec.ValidationError, ValueError, KeyError, TypeError)


@dataclass(frozen=True, kw_only=True, eq=False)
class RuleFile:
    """The content of ``rule.json``.

    Parameters
    ----------
    schema : int
        Number of the layout.
    rule : Rule
        Channels, views, members, limit, delays and budget.
    limit : Limit
        How the limit was set.
    promise : Promise
        How many alarms it will make.
    origin : Origin, optional
        Stream, detector and period that it comes from.
    digest : str
        SHA-256 of all else.
    forecast : LinearForecast, optional
        What makes the rule's rows of telemetry, for ``rule.py``.
    """

    schema: int
    rule: Rule
    limit: Limit
    promise: Promise
    origin: Origin | None
    digest: str
    forecast: LinearForecast | None = None


def write_rule(
    made: MadeRule | Commissioning,
    path: str | Path,
    *,
    detector: str | Path | None = None,
) -> None:
    """Write a rule to a file that `read_rule` reads back.

    Parameters
    ----------
    made : MadeRule or Commissioning
        The rule; the chosen one of a commissioning.
    path : path
        The file, usually called ``rule.json``; an earlier one is replaced.
    detector : path, optional
        File of the saved detector through which telemetry must pass; its digest is
        written too. A path within the folder of `path` is written as a relative one.

    Raises
    ------
    FileError
        If a file cannot be read or written.

    Examples
    --------
    >>> import tempfile
    >>> from sightline import ResidualStream, commission, read_rule, write_rule
    >>> rng = np.random.default_rng(0)
    >>> stream = ResidualStream(
    ...     rng.normal(size=(2000, 3)), rng.normal(size=(40_000, 3)), step_s=10.0
    ... )
    >>> made = commission(stream, budget="6/day")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_rule(made, f"{folder}/rule.json")
    ...     again = read_rule(f"{folder}/rule.json")
    >>> again.rule.limit == made.chosen.rule.limit
    True
    """
    path = Path(path)
    if isinstance(made, Commissioning):
        made = made.deployed()
    if detector is not None:
        made = with_detector(made, Path(detector), path.parent)
    content = _content(made)
    text = _pretty(content | {"digest": _digest(content)}) + "\n"
    with staged_file(path) as partial:
        partial.write_text(text, encoding="utf-8")


def with_detector(made: MadeRule, detector: Path, folder: Path) -> MadeRule:
    """Return a rule that names the file of its detector."""
    if made.origin is None:
        raise StreamError(
            "The rule does not say where it comes from, so no detector can be named: "
            "give what `commission` returned."
        )
    near, place = folder.resolve(), detector.resolve()
    is_near = place.is_relative_to(near)
    saved = SavedDetector(
        path=place.relative_to(near).as_posix() if is_near else str(place),
        sha256=file_digest(detector),
    )
    return replace(made, origin=replace(made.origin, saved_detector=saved))


def write_script(path: Path) -> None:
    """Write ``rule.py``, which needs numpy and the ``rule.json`` beside it alone."""
    source = files("sightline.rules") / "standalone.py"
    with staged_file(path) as partial:
        partial.write_text(source.read_text(encoding="utf-8"), encoding="utf-8")


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with reading(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_rule(path: str | Path) -> MadeRule:
    """Read a rule.

    Parameters
    ----------
    path : path
        A ``rule.json``, or the folder that holds it.

    Returns
    -------
    MadeRule
        `rule` gives the same alarms as the one that was written.

    Raises
    ------
    FileError
        If the file is missing, damaged, changed since it was written, or of a later
        schema.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from sightline import ResidualStream, commission
    >>> rows = np.random.default_rng(0).normal(size=(42_000, 3))
    >>> made = commission(ResidualStream(rows[:2000], rows[2000:], step_s=10.0))
    >>> with TemporaryDirectory() as folder:
    ...     write_rule(made, f"{folder}/rule.json")
    ...     read_rule(folder).rule.name == made.chosen.rule.name
    True
    """
    path = Path(path)
    if path.is_dir():
        path = path / RULE_FILE
    with reading(path):
        if not path.exists():
            raise FileError(f"{path}: there is no such rule.")
    try:
        values = parse_json(read_document(path).decode("utf-8"))
        # No rule holds a nan or an infinity, which Python reads as numbers.
        json.dumps(values, allow_nan=False)
    except ValueError as error:
        raise FileError(
            f"{path}: is not a readable rule ({brief(error)}): {_AGAIN}."
        ) from error
    if not isinstance(values, dict) or "rule" not in values:
        raise FileError(f"{path}: is JSON, but not a rule.")
    schema = values.get("schema")
    if not isinstance(schema, int) or schema > RULE_SCHEMA:
        raise FileError(
            f"{path}: has schema {schema!r:.20}; this Sightline reads up to "
            f"{RULE_SCHEMA}: update it."
        )
    content = {key: value for key, value in values.items() if key != "digest"}
    if values.get("digest") != _digest(content):
        raise FileError(
            f"{path}: was changed since it was written, so its promise no longer "
            f"holds: {_AGAIN}."
        )
    try:
        if schema == 1:
            content["promise"] = values["promise"] = _promise_of_schema_1(values)
        file = msgspec.convert(values, RuleFile, dec_hook=_array)
        made = MadeRule(
            rule=file.rule,
            limit=file.limit,
            promise=file.promise,
            origin=file.origin,
            forecast=file.forecast,
        )
        _check_shapes(made)
        _check_sizes(content)
    except (*_DAMAGE, StreamError) as error:
        raise FileError(
            f"{path}: is not a rule of schema {schema} ({brief(error)}): {_AGAIN}."
        ) from error
    # Earlier rules said whether they take members out of service; now units are.
    content["rule"].pop("shelves", None)
    # And whether a fitted tail had raised the limit.
    content["limit"].pop("from_tail", None)
    if unknown := _unknown_keys(content, _content(made)):
        raise FileError(
            f"{path}: has {names(unknown, 3, quoted=True)}, which a rule of schema "
            f"{schema} does not have: {_AGAIN}."
        )
    return made


def rule_schema() -> JsonObject:
    """Return the JSON schema of ``rule.json``, generated from its record types.

    The same is shipped with this module, as ``rule.schema.json``.

    Examples
    --------
    >>> sorted(rule_schema()["$defs"]["Limit"]["properties"])
    ['alarms', 'interval', 'share', 'swing', 'value']
    """
    schema = msgspec.json.schema(RuleFile, schema_hook=_array_schema)
    for definition in schema["$defs"].values():
        if "description" in definition:
            definition["description"] = definition["description"].partition("\n")[0]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema


def _promise_of_schema_1(values: Mapping[str, Any]) -> JsonObject:
    """Return the promise of a rule that promised one count for all time to come."""
    old = values["promise"]
    spread = max(float(old["spread"]), LEAST_SPREAD)
    forecast = Forecast(per_day=float(old["per_day"]), spread=spread)
    step_s = float(values["rule"].get("step_s") or 1.0)
    usual_s = old["share"] * old["days"] * DAY_S / max(old["alarms"], 1)
    promise = Promise(
        alarms=forecast,
        time=forecast,
        usual_s=max(usual_s, step_s),
        budget=msgspec.convert(values["rule"].get("budget") or {}, Budget),
    )
    made: JsonObject = msgspec.to_builtins(promise)
    return made


# --- Numbers --------------------------------------------------------------------------


def _content(made: MadeRule) -> JsonObject:
    """Return all of a rule as plain values."""
    file = RuleFile(
        schema=RULE_SCHEMA,
        rule=made.rule,
        limit=made.limit,
        promise=made.promise,
        origin=made.origin,
        digest="",
        forecast=made.forecast,
    )
    content: JsonObject = msgspec.to_builtins(file, enc_hook=_plain)
    del content["digest"]
    if made.forecast is None:
        del content["forecast"]  # as in rules of earlier versions
    return content


def _digest(content: Mapping[str, Any]) -> str:
    """Return the digest of plain values, whatever their layout in the file."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: object) -> object:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise NotImplementedError(f"{type(value).__name__} has no place in a rule")


def _array(type_: Any, value: Any) -> Any:
    """Return a list as the array that an annotation asks for."""
    if get_origin(type_) is not np.ndarray:
        raise NotImplementedError(str(type_))
    (kind,) = get_args(get_args(type_)[1])
    try:
        array = np.array(value, np.dtype(kind))
    except (TypeError, ValueError, OverflowError):
        raise ValueError("it is no table of numbers") from None
    if not (np.abs(array) <= LARGEST_VALUE).all():
        raise ValueError(f"a number is not finite, or beyond {LARGEST_VALUE:g}")
    return array


def _array_schema(type_: type) -> JsonObject:
    if type_ is not np.ndarray:
        raise NotImplementedError(str(type_))
    number = {"type": "number"}
    rows = {"type": "array", "items": number}
    return {"type": "array", "items": {"anyOf": [number, rows]}}


def _unknown_keys(given: Any, known: Any, place: str = "") -> list[str]:
    """Return the keys of a JSON value that the same rule would not be written with."""
    if isinstance(given, dict) and isinstance(known, dict):
        return [
            found
            for key, value in given.items()
            for found in (
                _unknown_keys(value, known[key], f"{place}{key}.")
                if key in known
                else [f"{place}{key}"]
            )
        ]
    if isinstance(given, list) and isinstance(known, list | tuple):
        return [
            found
            for one, other in zip(given, known, strict=False)
            if isinstance(one, dict)
            for found in _unknown_keys(one, other, place)
        ]
    return []


def _pretty(value: Any, indent: str = "") -> str:
    """Return JSON text in which a list of numbers takes one line."""
    inner = indent + " "
    if isinstance(value, dict) and value:
        lines = [
            f"{inner}{json.dumps(key)}: {_pretty(part, inner)}"
            for key, part in value.items()
        ]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list | tuple) and any(
        isinstance(part, dict | list | tuple) for part in value
    ):
        lines = [inner + _pretty(part, inner) for part in value]
        return "[\n" + ",\n".join(lines) + f"\n{indent}]"
    return json.dumps(value, allow_nan=False)


# --- Checks ---------------------------------------------------------------------------


def _check_shapes(made: MadeRule) -> None:
    """Raise ValueError, or StreamError, unless the parts of a rule fit together.

    Compiled loops do not check where they read.
    """
    rule = made.rule
    views = {view.kind: view for view in rule.views}
    for view in rule.views:
        _check_view(view, len(rule.channels))
    for member in rule.members:
        if member.view is not View.SCORE and member.view not in views:
            kind = member.view.value
            raise ValueError(f"member {member.name!r} has no view {kind!r}")
        _check_member(member, views.get(member.view))
    if not rule.members or rule.limit != made.limit.value:
        raise ValueError("it has no member, or two limits")
    delays = rule.delays
    is_delay = 0 <= delays.off <= _MOST_COUNT and 0 < delays.unit <= _MOST_COUNT
    if not (1 <= delays.on <= delays.within <= 60 and is_delay):
        raise ValueError("its delays are out of range")
    if rule.night and not all(len(view.usual) for view in rule.views):
        raise ValueError("it follows means that it does not know")
    if not 0 <= rule.night <= _MOST_COUNT:
        raise ValueError("its nights are out of range")
    _check_promise(made.promise)
    if made.origin is not None:
        check_timezone(made.origin.timezone)
    if made.forecast is not None:
        _check_forecast(made.forecast, [channel.name for channel in rule.channels])
    calm = () if made.origin is None else made.origin.calm
    if calm and len(calm) != len(rule.channels):
        raise ValueError("its attack-free rows have other channels")


def _check_sizes(value: object, place: str = "") -> None:
    """Raise ValueError if a number outside arrays is larger than any row may be."""
    if isinstance(value, dict):
        for key, part in value.items():
            _check_sizes(part, f"{place}.{key}" if place else key)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for k, part in enumerate(value):
            _check_sizes(part, f"{place}[{k}]")
    elif isinstance(value, int | float) and abs(value) > LARGEST_VALUE:
        raise ValueError(f"{place} is beyond {LARGEST_VALUE:g}")


def _check_forecast(forecast: LinearForecast, channels: list[str]) -> None:
    """Raise ValueError unless the arrays of a forecast fit together."""
    n, p = len(forecast.tags), len(channels)
    of_tags = ("offset", "scale", "means", "hold_s")
    of_channels = ("mean", "unit", "intercept")
    is_sound = (
        all(getattr(forecast, name).shape == (n,) for name in of_tags)
        and all(getattr(forecast, name).shape == (p,) for name in of_channels)
        and ((forecast.kept >= 0) & (forecast.kept < n)).all()
        and [forecast.tags[k] for k in forecast.kept] == channels
        and forecast.weights.shape[1:] in ((), (p, p))
        and len(forecast.weights) < forecast.looks_at
        and forecast.loadings.shape[0] == p
        and forecast.covariance.size in (0, p * p)
        and forecast.noise.size in (0, p)
        and (forecast.scale != 0).all()
        and (forecast.hold_s >= 0).all()
        and 0 <= forecast.memory <= forecast.looks_at <= _MOST_LOOKED_AT
    )
    if not is_sound:
        raise ValueError("the numbers of its forecast do not fit together")


def _check_promise(promise: Promise) -> None:
    """Raise ValueError if an interval of the promise would have no end."""
    is_sound = _LEAST_DAYS <= promise.days <= _MOST_COUNT and promise.usual_s > 0
    for one in (promise.alarms, promise.time):
        is_sound &= 0 <= one.per_day * promise.days <= _MOST_COUNT
        is_sound &= LEAST_SPREAD <= one.spread <= _MOST_COUNT
        is_sound &= WIDTHS[0] <= one.width <= WIDTHS[1]
        is_sound &= all(0 <= error <= _MOST_COUNT for error in one.errors)
    if not is_sound:
        raise ValueError("its promise is out of range")


def _check_view(view: LinearView, n_channels: int) -> None:
    """Raise ValueError unless a view's arrays fit together."""
    q, columns = len(view.order), np.arange(len(view.order))
    by_column = view.kind in (View.X, View.Z)
    if by_column != (view.bounds is None):
        found = "lacks the" if view.bounds is None else "has"
        raise ValueError(f"view {view.kind.value!r} {found} bounds of units")
    stops = np.arange(q + 1) if view.bounds is None else view.bounds
    is_sound = (
        view.mean.shape == (n_channels,)
        and view.weights.shape == (q, q)
        and view.first.shape == view.stop.shape == view.order.shape == (q,)
        and ((view.order >= 0) & (view.order < n_channels)).all()
        and (np.diff(view.first) >= 0).all()
        and (np.diff(view.stop) >= 0).all()
        and ((view.first >= 0) & (view.first <= view.stop) & (view.stop <= q)).all()
        and len(stops) == len(view.units) + 1
        and stops[0] == 0
        and stops[-1] == q
        and (np.diff(stops) > 0).all()
    )
    if is_sound and not by_column:
        # Whitened: a column has the channels of its unit up to itself.
        ends = np.repeat(stops[1:], np.diff(stops))
        is_sound = (view.first == columns).all() and (view.stop == ends).all()
    is_sound &= view.usual.shape == view.spread.shape
    is_sound &= view.usual.shape in ((0,), (q,)) and bool((view.spread > 0).all())
    if not is_sound:
        raise ValueError(f"the numbers of view {view.kind.value!r} do not fit together")


def _check_member(member: Member, view: LinearView | None) -> None:
    """Raise ValueError unless a member's arrays fit its view."""
    n_columns = 1 if view is None else view.n_columns
    n_units = 1 if view is None else len(view.units)
    is_log = member.memory in (Memory.LOG_AVERAGE, Memory.QUIET)
    n_centre = n_units if is_log else n_columns
    needs = member.memory is not Memory.NONE or view is None
    is_sound = (
        member.levels.shape == (n_units,)
        and (member.levels > 0).all()
        and member.largest >= 0
        and member.centre.shape == ((n_centre,) if needs else (0,))
        and member.allowance.shape
        == ((n_columns,) if member.memory is Memory.CUSUM else (0,))
        and member.limit > 0
    )
    if not is_sound:
        raise ValueError(f"the numbers of member {member.name!r} do not fit together")
