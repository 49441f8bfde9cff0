"""What is known of a stream besides its numbers, as plain JSON values."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from sightline.data.segments import Attack
from sightline.data.stream import ResidualStream
from sightline.errors import StreamError

_TEXTS = ("detector", "testbed", "space")
# Deeper JSON than this could be read, but not written again.
_MOST_NESTED = 50


def parse_json(text: str) -> Any:
    """Return what a JSON text says; ValueError where it is none, or too deep."""
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if _is_nested(value, _MOST_NESTED):
        raise ValueError(f"it is nested more than {_MOST_NESTED} levels deep")
    return value


def plain_json(values: Mapping[str, Any] | Sequence[Any]) -> str:
    """Return JSON text; what JSON does not know (a path, a date) becomes text."""
    return json.dumps(values, indent=1, default=_plain)


def _is_nested(value: object, levels: int) -> bool:
    inside: Iterable[object] = ()
    if isinstance(value, dict):
        inside = value.values()
    elif isinstance(value, list):
        inside = value
    return levels == 0 or any(_is_nested(item, levels - 1) for item in inside)


def _plain(value: object) -> object:
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else str(value)


def known_from(values: object, name: str) -> dict[str, Any]:
    """Return the arguments of a stream that a JSON object holds."""
    if not isinstance(values, dict):
        raise StreamError(
            f"`{name}` must be a JSON object such as "
            f'{{"detector": "GDN", "step_s": 1}}; got {type(values).__name__}.'
        )
    known: dict[str, Any] = {"meta": {}}
    for key, value in values.items():
        if key in _TEXTS:
            known[key] = None if value is None else str(value)
        elif key == "step_s":
            known[key] = None if value is None else _number(value, f"{name} step_s")
        elif key == "meta" and isinstance(value, dict):
            known["meta"] |= value
        elif key == "notices" and isinstance(value, list):
            known["notices"] = [str(told) for told in value]
        else:
            known["meta"][key] = value
    return known


def known_to(stream: ResidualStream) -> dict[str, Any]:
    """Return a JSON object that `known_from` reads back.

    The user's own keys go under ``meta``, where they cannot be taken for ours.
    """
    facts: dict[str, Any] = {key: getattr(stream, key) for key in (*_TEXTS, "step_s")}
    known = {key: value for key, value in facts.items() if value is not None}
    if stream.notices:
        known["notices"] = list(stream.notices)
    return known | ({"meta": dict(stream.meta)} if stream.meta else {})


def attacks_from(values: object) -> list[Attack]:
    """Return named attacks from a JSON list of objects."""
    if not isinstance(values, list):
        raise StreamError(
            "`segments` must be a JSON list of objects with id, start and stop; got "
            f"{type(values).__name__}."
        )
    return [_attack(value, k) for k, value in enumerate(values)]


def attacks_to(attacks: Sequence[Attack]) -> list[dict[str, Any]]:
    """Return a JSON list that `attacks_from` reads back."""
    return [
        {
            "id": a.id,
            "start": a.start,
            "stop": a.stop,
            "name": a.name,
            "targets": list(a.targets),
            "note": a.note,
        }
        for a in attacks
    ]


def breaks_from(values: object, name: str) -> list[int] | None:
    """Return the first rows of continuous runs from a JSON list."""
    if values is None:
        return None
    if not isinstance(values, list):
        raise StreamError(f"`{name}` must be a JSON list of row numbers.")
    return [_whole_number(value, name) for value in values]


def _attack(value: object, k: int) -> Attack:
    if not isinstance(value, dict) or not {"id", "start", "stop"} <= set(value):
        raise StreamError(
            f"`segments` item {k} must be an object with id, start and stop; got "
            f"{value!r:.80}."
        )
    targets = value.get("targets") or []
    if isinstance(targets, str):
        targets = [targets]
    if not isinstance(targets, list):
        raise StreamError(f"`segments` item {k}: targets must be a list of tags.")
    return Attack(
        id=str(value["id"]),
        start=_whole_number(value["start"], f"segments item {k} start"),
        stop=_whole_number(value["stop"], f"segments item {k} stop"),
        name=_optional_text(value.get("name")),
        targets=tuple(str(target) for target in targets),
        note=_optional_text(value.get("note")),
    )


def _optional_text(value: object) -> str | None:
    return None if value is None else str(value)


def _number(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise StreamError(f"`{name}` must be a number; got {value!r:.80}.")
    try:
        return float(value)
    except OverflowError as error:
        raise StreamError(f"`{name}` is too large: {value!s:.20}...") from error


def _whole_number(value: object, name: str) -> int:
    number = _number(value, name)
    if not number.is_integer():
        raise StreamError(f"`{name}` must be a row number; got {value!r:.80}.")
    return int(number)
