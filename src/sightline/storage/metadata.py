"""Name, facts and attacks of a stream, as the JSON that its files hold."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sightline.data.segments import Attack, AttackOutcome
from sightline.data.stream import ResidualStream
from sightline.errors import StreamError
from sightline.files import reading
from sightline.text import did_you_mean, plural

_TEXTS = ("detector", "testbed", "space", "timezone")
# A unit of a residual is no smaller, and no larger, in the plant's own units.
_SCALES = (1e-100, 1e100)


def is_npz(path: Path) -> bool:
    """Return whether a path is named as an ``.npz`` file and is no folder."""
    return path.suffix.lower() == ".npz" and not path.is_dir()


def stream_name(path: Path) -> str:
    """Return the name of the stream at a path: a file's stem, a folder's whole name.

    A folder may be called 2026.11.15, so only a file has a stem.
    """
    with reading(path):
        return path.stem if is_npz(path) else os.path.basename(os.path.abspath(path))


@dataclass(frozen=True, kw_only=True)
class StreamMetadata:
    """The arguments of `ResidualStream` that a file holds as one JSON object.

    Its fields have the names and the meaning of the arguments; what is not in the
    object has its default.
    """

    detector: str | None = None
    testbed: str | None = None
    space: str | None = None
    one_sided: bool | None = None
    step_s: float | None = None
    label_slop_s: float | None = None
    timezone: str | None = None
    notices: tuple[str, ...] = ()
    meta: Mapping[str, object] = field(default_factory=dict)


def facts_from(values: object, name: str) -> StreamMetadata:
    """Return the metadata in a JSON object of a file.

    Parameters
    ----------
    values : object
        The parsed JSON. Keys that `StreamMetadata` does not have go into its `meta`.
    name : str
        The name of the object in its file, for messages.

    Raises
    ------
    StreamError
        If it is no object, or ``step_s`` or ``label_slop_s`` is no number.

    Examples
    --------
    >>> facts_from({"detector": "GDN", "step_s": 1, "seed": 3}, "meta.json")
    StreamMetadata(detector='GDN', testbed=None, space=None, one_sided=None, step_s=1.0,
                   label_slop_s=None, timezone=None, notices=(), meta={'seed': 3})
    """
    if not isinstance(values, dict):
        raise StreamError(
            f"`{name}` must be a JSON object such as "
            f'{{"detector": "GDN", "step_s": 1}}; got {type(values).__name__}.'
        )
    others = dict(values)
    texts = {key: _optional_text(others.pop(key, None)) for key in _TEXTS}
    slop_s, step_s = others.pop("label_slop_s", None), others.pop("step_s", None)
    notices = others.pop("notices") if isinstance(values.get("notices"), list) else []
    meta = others.pop("meta") if isinstance(values.get("meta"), dict) else {}
    return StreamMetadata(
        **texts,
        one_sided=others.pop("one_sided", None),
        step_s=None if step_s is None else _number(step_s, f"{name} step_s"),
        label_slop_s=None if slop_s is None else _number(slop_s, f"{name} slop"),
        notices=tuple(str(notice) for notice in notices),
        meta=others | meta,
    )


def facts_json(stream: ResidualStream) -> dict[str, object]:
    """Return a JSON object that `facts_from` reads back.

    The user's keys are below ``meta``, where they cannot be mistaken for others.
    """
    values: dict[str, object] = {
        key: getattr(stream, key)
        for key in (*_TEXTS, "one_sided", "step_s", "label_slop_s")
        if getattr(stream, key) is not None
    }
    if stream.notices:
        values["notices"] = list(stream.notices)
    return values | ({"meta": dict(stream.meta)} if stream.meta else {})


def check_meta(meta: Mapping[str, Any], channels: Sequence[str]) -> None:
    """Raise unless ``scale`` and ``groups`` of a stream's `meta` fit its channels.

    Rules and blind spots take units and stages from them: a wrong one would change
    figures, and be seen nowhere.

    Raises
    ------
    StreamError
        If they do not; the message says which item.

    Examples
    --------
    >>> check_meta({"scale": [0.5], "groups": {"P1": ["LIT101"]}}, ["LIT101"])
    """
    if "scale" in meta:
        _check_scales(meta["scale"], channels)
    groups = meta.get("groups", {})
    if not isinstance(groups, dict) or not all(
        isinstance(members, list) for members in groups.values()
    ):
        raise StreamError(
            "`groups` of meta must give a list of channels for each stage, such as "
            f'{{"P1": ["LIT101"]}}, and is {groups!r:.60}: correct it, or leave it out.'
        )
    for name, members in groups.items():
        for member in members:
            if member not in channels:
                raise StreamError(
                    f"`groups` of meta has {member!r:.40} in stage {name!r}, which is "
                    "no channel of this stream: take it out, or "
                    f"{did_you_mean(str(member), channels)}"
                )


def _check_scales(scales: object, channels: Sequence[str]) -> None:
    """Raise `StreamError` unless these are the units of each channel's residual."""
    n = len(scales) if isinstance(scales, list) else None
    if not isinstance(scales, list) or n != len(channels):
        found = "is no list" if n is None else f"has {n}"
        raise StreamError(
            f"`scale` of meta must be a list of {plural(len(channels), 'number')}, one "
            f"for each channel, and {found}: correct it, or leave it out."
        )
    low, high = _SCALES
    for channel, scale in zip(channels, scales, strict=True):
        size = abs(_number(scale, f"meta scale of channel {channel!r}"))
        if not low <= size <= high:
            raise StreamError(
                f"`scale` of meta is {scale!r:.40} for channel {channel!r}, which is "
                f"no factor between {low} and {high}: correct it, or leave `scale` out."
            )


def attacks_from(values: object) -> list[Attack]:
    """Return the attacks in a JSON list.

    Parameters
    ----------
    values : object
        The parsed JSON: a list of objects with ``id``, ``start`` and ``stop``, and
        optionally ``name``, ``targets`` (a tag or a list of tags), ``note`` and
        ``outcome`` (a value of `AttackOutcome`).

    Raises
    ------
    StreamError
        If an item is something else; the message gives its number.

    Examples
    --------
    >>> attacks_from([{"id": 7, "start": 10, "stop": 20, "targets": "LIT101"}])[0]
    Attack(id='7', start=10, stop=20, name=None, targets=('LIT101',), note=None, \
outcome=None)
    """
    if not isinstance(values, list):
        raise StreamError(
            "`segments` must be a JSON list of objects with id, start and stop; got "
            f"{type(values).__name__}."
        )
    return [_attack(value, k) for k, value in enumerate(values)]


def attacks_json(attacks: Sequence[Attack]) -> list[Mapping[str, object]]:
    """Return a JSON list that `attacks_from` reads back."""
    return [asdict(attack) for attack in attacks]


def breaks_from(values: object, name: str) -> list[int] | None:
    """Return the first rows of continuous runs in a JSON list; None for null."""
    if values is None:
        return None
    if not isinstance(values, list):
        raise StreamError(f"`{name}` must be a JSON list of row numbers.")
    return [_whole_number(value, name) for value in values]


def plain_json(values: Mapping[str, object] | Sequence[object]) -> str:
    """Return JSON text; what JSON does not have (a path, a date) becomes text."""

    def plain(value: object) -> object:
        if isinstance(value, np.generic | np.ndarray):
            return value.tolist()
        return str(value)

    return json.dumps(values, indent=1, default=plain)


def _attack(value: object, k: int) -> Attack:
    """Return the attack in item k of a JSON list; numbers are taken as ids too."""
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
    outcome = _optional_text(value.get("outcome"))
    if outcome not in (None, *AttackOutcome):
        raise StreamError(
            f"`segments` item {k}: outcome must be one of {', '.join(AttackOutcome)}; "
            f"got {value['outcome']!r:.40}."
        )
    return Attack(
        id=str(value["id"]),
        start=_whole_number(value["start"], f"segments item {k} start"),
        stop=_whole_number(value["stop"], f"segments item {k} stop"),
        name=_optional_text(value.get("name")),
        targets=tuple(str(target) for target in targets),
        note=_optional_text(value.get("note")),
        outcome=None if outcome is None else AttackOutcome(outcome),
    )


def _optional_text(value: object) -> str | None:
    return None if value is None else str(value)


def _number(value: object, name: str) -> float:
    """Return a JSON number as float; raise `StreamError` for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise StreamError(f"`{name}` must be a number; got {value!r:.80}.")
    try:
        return float(value)
    except OverflowError as error:
        raise StreamError(f"`{name}` is too large: {value!s:.20}...") from error


def _whole_number(value: object, name: str) -> int:
    """Return a JSON number as int; raise `StreamError` if it has a fraction."""
    number = _number(value, name)
    if not number.is_integer():
        raise StreamError(f"`{name}` must be a row number; got {value!r:.80}.")
    return int(number)
